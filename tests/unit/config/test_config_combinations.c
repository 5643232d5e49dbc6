/*
 * Combinations of settings that cannot be: each is one message, at its line and with its words,
 * and all of one text come in one run.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "tests/support/config_samples.h"

/* Parts that the cases below are put together from. S: 7 lines, 500 kHz. */
#define STREAM "[stream a]\nsource = generator\nrate = 500 kHz\nchannels = 2\nfull scale = 10 V\n"
#define FILTER "[filter f]\ntype = identity\n"
#define SINK   "[sink s]\ntype = rtp\nstream = a\naddress = 127.0.0.1:6000\n"
#define RTP    "[stream a]\nsource = rtp\naddress = 239.1.2.3:5004\nrate = 500 kHz\n"

static const struct combination {
    const char *text;
    unsigned line;
    bool warning;
    const char *words;
} combinations[] = {
    /* a latency that leaves no room for a block */
    {STREAM "filter = f\nlatency = 60 us\n" SINK FILTER, 7, false,
     "`latency = 60 us` is 30 frames at 500 kHz, too short to collect and compute a block; write "
     "at "
     "least 64 us, or the `block` itself"},
    {STREAM "filter = f\nlatency = 1 ms\nblock = 8 ms\n" SINK FILTER, 7, true,
     "`latency = 1 ms` cannot be: collecting one block (`block`) takes 8 ms; write a shorter "
     "`block`, or none, and `latency` chooses it"},
    /* memory nodes: the sample machine has 0, 1 and 4 */
    {STREAM "filter = f\n" SINK FILTER "[device]\nnode = 99\n", 14, false,
     "`node = 99`: this machine has memory nodes 0-1,4; write one of them, auto or none"},
    {STREAM "filter = f\n" SINK FILTER "[device]\nnode = 2\n", 14, false,
     "`node = 2`: this machine has memory nodes 0-1,4; write one of them, auto or none"},
    {STREAM "filter = f\n" SINK FILTER "[device]\nnode = -1\n", 14, false,
     "`node = -1` is no memory node; write auto, none or the number of a node, such as 0"},
    {STREAM "filter = f\n" SINK FILTER "[device]\nnode = gpu\n", 14, false,
     "`node = gpu` is no memory node; write auto, none or the number of a node, such as 0"},
    {STREAM "filter = f\n" SINK FILTER "[device]\nnode = 1024\n", 14, false,
     "`node = 1024` is no memory node"},
    {STREAM "filter = f\n" SINK FILTER "[device]\nnode = 0, 1\n", 14, false,
     "`node = 0, 1` is no memory node"},
    /* values without a unit, and with a wrong one */
    {STREAM "filter = f\n" SINK FILTER
            "[stream b]\nsource = generator\nrate = 2000000\nfilter = f\n"
            "[sink t]\ntype = rtp\nstream = b\naddress = 127.0.0.1:6002\n",
     15, false,
     "`rate = 2000000` has no unit, `rate` takes a frequency: write 2000000 Hz or 2 MHz"},
    {STREAM "filter = f\nlatency = 10\n" SINK FILTER, 7, false,
     "`latency = 10` has no unit, `latency` takes a time: write 10 us, 10 ms or 10 s"},
    {STREAM "filter = f\n" SINK FILTER
            "[sink r]\ntype = recording\nstream = a\npath = r.wav\nrotate = 10\n",
     17, false,
     "`rotate = 10` has no unit, `rotate` takes a time or a size: write 10 min, 10 h, 10 MiB or 10 "
     "GiB"},
    {STREAM "filter = f\n" SINK "[filter f]\ntype = lowpass\ncutoff = 44.1 ms\n", 13, false,
     "`44.1 ms` is a time, `cutoff` takes a frequency: write 44.1 MHz, 44.1 kHz or 44.1 Hz"},
    {STREAM "filter = f\n" SINK "[filter f]\ntype = chirp\nstart = 1 kHz\nstop = 9 kHz\nlength = 1 "
            "ms\nwindow = tukey\ntaper = 0.1\n",
     17, false, "`taper = 0.1` has no unit, `taper` takes a percentage: write 10 %"},
    /* pulses */
    {STREAM "filter = f\ncycles = 5\n" FILTER SINK, 7, false,
     "`cycles` belongs to `waveform = tone-burst`"},
    {STREAM "filter = f\nwaveform = tone-burst\nlength = 1 ms\n" FILTER SINK, 8, false,
     "a tone burst lasts cycles / frequency; write `cycles`"},
    {STREAM "filter = f\nwindow = hann\n" FILTER SINK, 7, false,
     "`window` belongs to `waveform = tone-burst` or `chirp`"},
    {STREAM "filter = f\nwaveform = chirp\ntaper = 10 %\n" FILTER SINK, 8, false,
     "`taper` belongs to `window = tukey`"},
    {STREAM "filter = f\nwaveform = tone-burst\nperiod = 10 us\n" FILTER SINK, 8, false,
     "give at least its length"},
    {STREAM "filter = f\nexcitation period = 10 ms\n" FILTER SINK, 7, false,
     "`excitation period` needs the first pulse"},
    {STREAM "filter = f\n" SINK "[filter f]\ntype = tone-burst\ncarrier = 64 kHz\n", 11, false,
     "[filter f] needs `cycles`"},
    {STREAM "filter = f\n" SINK "[filter f]\ntype = tone-burst\ncarrier = 300 kHz\ncycles = 5\n",
     13, false, "`carrier = 300 kHz` is not below half the rate"},
    /* units of sensors */
    {STREAM "filter = f\nunit = Pa\n" FILTER SINK, 5, false,
     "`full scale = 10 V` is not in Pa, the `unit` of the results; write what the sensor gives "
     "too, "
     "as in sensitivity = 50 mV/Pa, or the full scale in Pa"},
    {STREAM "filter = f\nsensitivity = 50 mV\n" FILTER SINK, 7, false,
     "`sensitivity = 50 mV` does not say of what"},
    {STREAM "filter = f\nsensitivity = 50 mV/Pa\nunit = g\n" FILTER SINK, 7, false,
     "`sensitivity` makes Pa, and `unit` is g; write unit = Pa, or leave it out"},
    {STREAM "filter = f\nsensitivity = 50 pC/g\n" FILTER SINK, 5, false, "the unit here is pC"},
    {"[stream a]\nsource = generator\nrate = 1 kHz\nfilter = f\nsensitivity = 50 mV/Pa\n" FILTER
         SINK,
     5, false, "`sensitivity` needs the `full scale` of the converter with its unit"},
    {"[stream a]\nsource = generator\nrate = 1 kHz\nformat = s16\nfilter = f\nunit = Pa\n" FILTER
         SINK,
     6, true, "`unit = Pa` without a `full scale`: a full-scale code counts as 1 Pa"},
    /* recordings that cannot be made */
    {STREAM "filter = f\n" FILTER "[sink r]\ntype = recording\nstream = a\npath = nowhere/r.wav\n",
     12, false,
     "the directory nowhere of the recording does not exist; create it: mkdir -p nowhere"},
    {STREAM "filter = f\n" FILTER "[sink r]\ntype = recording\nstream = a\npath = /tmp\n", 12,
     false,
     "/tmp is a directory; write a file in it, as /tmp/r.wav, or /tmp/ for a file named after the "
     "sink"},
    /* filters against rates */
    {STREAM "filter = f\n" SINK "[filter f]\ntype = bandpass\nlow = 100 kHz\nhigh = 300 kHz\n", 14,
     false,
     "`high = 300 kHz` is not below half the rate of stream a (Nyquist: 250 kHz at 500 kHz); write "
     "a "
     "frequency below 250 kHz"},
    {STREAM "filter = f\n" SINK "[filter f]\ntype = highpass\nlow = 260 kHz\n", 13, false,
     "`low = 260 kHz`"},
    {STREAM "filter = f\n" SINK "[filter f]\ntype = lowpass\ncutoff = 250 kHz\n", 13, false,
     "`cutoff = 250 kHz`"},
    {STREAM "filter = f\n" SINK
            "[filter f]\ntype = chirp\nstart = 1 kHz\nlength = 1 ms\nstop = 251 kHz\n",
     15, false, "`stop = 251 kHz`"},
    {STREAM "filter = f\n" SINK
            "[filter f]\ntype = chirp\nstart = 1 kHz\nlength = 1 ms\nstop = 250 kHz\n",
     15, false, "`stop = 250 kHz` is not below half the rate"},
    {STREAM "filter = f\n" SINK
            "[filter f]\ntype = barker\ncode = 13\ncarrier = 1 MHz\nchip rate = 5 kHz\n",
     14, false, "`carrier = 1 MHz`"},
    {STREAM "filter = f\n" SINK "[filter f]\ntype = bandpass\nhigh = 50 kHz\nlow = 100 kHz\n", 14,
     false, "low"},
    /* also where no stream uses them */
    {STREAM "filter = f\n" SINK FILTER
            "[filter g]\ntype = bandpass\nhigh = 50 kHz\nlow = 100 kHz\n",
     16, false, "filter g: `low = 100 kHz` is not below `high = 50 kHz`; exchange them"},
    {STREAM "filter = f\n" SINK "[filter f]\ntype = highpass\ncutoff = 50 kHz\ntaps = 100\n", 14,
     false, "taps"},
    {STREAM "filter = f\n" SINK
            "[filter f]\ntype = lowpass\ncutoff = 50 kHz\nmethod = remez\ntaps = 2000\n",
     15, false, "taps"},
    {STREAM "filter = f\n" SINK "[filter f]\ntype = golay\norder = 4\n", 11, false, "carrier"},
    {STREAM "filter = f\n" SINK "[filter f]\ntype = file\npath = missing.npy\n", 13, false,
     "`missing.npy` cannot be read"},
    {STREAM "filter = f\n" SINK "[filter f]\ntype = identity\ndelay = 3 s\n", 13, false, "delay"},
    {STREAM "filter = f\n" SINK
            "[filter f]\ntype = chirp\nstart = 1 kHz\nstop = 9 kHz\nlength = 1 ms\ntaper = 10 %\n",
     16, false, "`taper` belongs to `window = tukey`"},
    {STREAM "filter = f\n" SINK "[filter f]\ntype = lowpass\ncutoff = 1 kHz\ntransition = 100 "
            "Hz\nattenuation = 60 dB\ntaps = 101\n",
     16, false, "filter f in stream a (500 kHz): taps"},
    /* decimation */
    {STREAM "filter = f\ndecimate = 3\n" FILTER
            "[sink s]\ntype = recording\nstream = a\npath = r.wav\n",
     10, false, "whole Hz up to 2147483647 Hz, not 166666.666666667 Hz"},
    {STREAM "filter = f\ndecimate = 300\n" SINK FILTER
            "[stream b]\nsource = stream a\nfilter = f\ndecimate = 300\n"
            "[sink t]\ntype = rtp\nstream = b\naddress = 127.0.0.1:6002\n",
     17, false,
     "`decimate = 300` makes 90000 with the streams before, more than 65535; write at most 218"},
    /* names */
    {STREAM "filter = ff\n" SINK FILTER, 6, false, "a filter ff that nobody defined; write f"},
    {STREAM "filter = bandpass\n" SINK FILTER, 6, false, "add a section [filter bandpass]"},
    {STREAM "bank = f, g, f\n" SINK FILTER, 6, false, "a filter g that nobody defined"},
    {STREAM "route = 1 -> f -> 1\nroute = 2 -> g -> 1\n" SINK FILTER, 7, false, "filter g"},
    {STREAM "filter = f\n" SINK FILTER "[filter unused]\ntype = identity\n", 13, true,
     "no stream uses filter unused"},
    {STREAM "filter = f\n" FILTER "[sink s]\ntype = rtp\nstream = aa\naddress = 127.0.0.1:1\n", 11,
     false, "sink s names a stream aa that nobody defined; write a"},
    {STREAM "filter = f\n" FILTER, 1, true, "nothing receives the results of stream a"},
    {"[stream b]\nsource = stream c\nfilter = f\n" STREAM "filter = f\n" FILTER SINK, 2, false,
     "stream b names a stream c that nobody defined"},
    /* one destination, one address */
    {STREAM "filter = f\n" FILTER SINK
            "[sink t]\ntype = rtp\nstream = a\naddress = 127.0.0.1:6000\n",
     16, false, "sinks s and t have one destination, `127.0.0.1:6000`"},
    {STREAM "filter = f\n" FILTER "[sink s]\ntype = rtp\nstream = a\naddress = [ff15:0::1]:6000\n"
            "[sink t]\ntype = rtp\nstream = a\naddress = [ff15::0:1]:6000\n",
     16, false, "one destination"},
    {STREAM "filter = f\n" FILTER "[sink s]\ntype = recording\nstream = a\npath = x.wav\n"
            "[sink t]\ntype = recording\nstream = a\npath = x.wav\nrecord = input\n",
     16, false, "sinks s and t have one destination, `x.wav`"},
    {RTP "filter = f\n" FILTER SINK "[stream b]\nsource = udp\nrate = 1 kHz\nfilter = f\n"
         "address = 239.1.2.3:5004\n",
     16, false, "streams a and b are both bound to `239.1.2.3:5004`"},
    {RTP "filter = f\n" FILTER SINK
         "[stream b]\nsource = udp\nrate = 1 kHz\nfilter = f\naddress = *:5004\n",
     16, false, "both bound to `*:5004`"},
    {RTP "filter = f\n" FILTER "[sink s]\ntype = rtp\nstream = a\naddress = 239.1.2.3:5004\n", 11,
     false,
     "sink s sends to `239.1.2.3:5004`, where stream a receives: its results would come back"},
    {"[stream a]\nsource = rtp\naddress = *:5004\nrate = 500 kHz\nfilter = f\n" FILTER
     "[sink s]\ntype = rtp\nstream = a\naddress = 127.0.0.1:5004\n",
     11, false, "where stream a receives: its results would come back as its input"},
    {"[stream a]\nsource = rtp\naddress = [::]:5004\nrate = 500 kHz\nfilter = f\n"
     "[stream b]\nsource = stream a\nfilter = f\n" FILTER
     "[sink s]\ntype = rtp\nstream = b\naddress = localhost:5004\n",
     14, false, "where stream a receives: its results would come back as its input"},
    {"[stream a]\nsource = rtp\naddress = *:5004\nrate = 500 kHz\nfilter = f\n" FILTER SINK
     "[stream b]\nsource = generator\nrate = 500 kHz\nfilter = f\n"
     "[sink t]\ntype = rtp\nstream = b\naddress = 127.0.0.1:5004\n",
     19, true, "sends to the address that stream a receives from; write source = stream b there"},
    /* multicast */
    {RTP "filter = f\n" FILTER SINK, 3, true,
     "`address = 239.1.2.3:5004` is a multicast group, and no `interface` is written: the kernel "
     "joins it by the interface of its default route"},
    {STREAM "filter = f\n" FILTER "[sink s]\ntype = rtp\nstream = a\naddress = [ff15::1]:5004\n",
     12, true, "the kernel sends to it by the interface of its default route"},
    {STREAM "filter = f\n" FILTER "[sink s]\ntype = rtp\nstream = a\naddress = *:5004\n", 12, false,
     "is no destination"},
    {STREAM "filter = f\n" FILTER "[sink s]\ntype = rtp\nstream = a\naddress = 127.0.0.1:0\n", 12,
     false, "is no destination"},
    /* chains */
    {"[stream a]\nsource = stream a\nfilter = f\n" FILTER, 2, false,
     "stream a reads its own output;"},
    {"[stream a]\nsource = stream b\nfilter = f\n[stream b]\nsource = stream c\nfilter = f\n"
     "[stream c]\nsource = stream b\nfilter = f\n" FILTER,
     5, false, "reads its own output through others"},
    /* recordings */
    {"[stream a]\nsource = generator\nrate = 48000.5 Hz\nfilter = f\n" FILTER
     "[sink s]\ntype = recording\nstream = a\npath = x.wav\n",
     7, false, "holds rates in whole Hz up to 2147483647 Hz, not 48000.5 Hz"},
    {"[stream a]\nsource = generator\nrate = 5 GHz\nfilter = f\n" FILTER
     "[sink s]\ntype = recording\nstream = a\npath = x.w64\ncontainer = w64\n",
     11, false, "whole Hz up to"},
    {"[stream a]\nsource = generator\nrate = 100 MHz\nchannels = 16\nfilter = f\n" FILTER
     "[sink s]\ntype = recording\nstream = a\npath = x.wav\n",
     8, false, "bytes a second"},
    {"[stream a]\nsource = stdin\nrate = 1 kHz\nfilter = f\n"
     "[stream b]\nsource = stdin\nrate = 1 kHz\nfilter = f\n" FILTER SINK
     "[sink t]\ntype = rtp\nstream = b\naddress = 127.0.0.1:6001\n",
     6, false, "streams a and b both read standard input"},
    {STREAM "filter = f\n" FILTER "[sink s]\ntype = stdout\nstream = a\n"
            "[sink t]\ntype = stdout\nstream = a\n",
     13, false, "sinks s and t both write to standard output"},
    {"[stream a]\nsource = generator\nrate = 10 Hz\nfilter = f\n" FILTER
     "[sink s]\ntype = recording\nstream = a\npath = a.wav\nrotate = 10 ms\n",
     7, false, "`rotate` leaves no room for a single frame"},
    {STREAM "filter = f\n" FILTER
            "[sink s]\ntype = recording\nstream = a\npath = x.wav\nformat = s16be\n",
     13, false, "recordings hold samples little-endian; write s16le"},
    {STREAM "filter = f\n" FILTER
            "[sink s]\ntype = recording\nstream = a\npath = x.wav\nkeep = 3\n",
     13, false, "write `rotate` too"},
    {STREAM "filter = f\n" FILTER
            "[sink s]\ntype = recording\nstream = a\npath = x.wav\nrecord = input\nformat = s16\n",
     14, false, "remove `format`"},
    {"[stream a]\nsource = file\npath = missing.wav\nfilter = f\n" FILTER SINK, 3, false,
     "missing.wav cannot be read"},
    {"[stream a]\nsource = file\npath = empty.wav\nfilter = f\n" FILTER SINK, 3, true,
     "holds no frames"},
    {"[stream a]\nsource = file\npath = x.wav\nfilter = f\n" FILTER
     "[sink s]\ntype = recording\nstream = a\npath = x.wav\n",
     10, false, "would overwrite `x.wav`"},
    /* RTP */
    {RTP "payload type = 0\nfilter = f\n" FILTER SINK, 5, false, "write one of 96 … 127"},
    {RTP "payload type = 72\nfilter = f\n" FILTER SINK, 5, false, "collides with RTCP"},
    {RTP "payload type = 10\nfilter = f\n" FILTER SINK, 5, false,
     "L16 with 2 channels at 44.1 kHz"},
    {STREAM "filter = f\n" FILTER SINK "payload type = 11\n", 13, false,
     "L16 with 1 channel at 44.1 kHz"},
    {STREAM "filter = f\n" FILTER SINK "format = s16le\n", 13, false, "big-endian; write s16be"},
    {STREAM "filter = f\n" FILTER SINK "format = u8\n", 13, false, "cannot carry results"},
    {"[stream a]\nsource = generator\nrate = 1 kHz\nchannels = 500\nfilter = f\n" FILTER SINK, 8,
     false, "does not fit packets of 1500 with their headers; write mtu = 2112 or more"},
    {RTP "reorder = 20 ms\nfilter = f\n" FILTER SINK, 5, false,
     "write max misorder = 20 ms or more"},
    {RTP "allow = rig.local\nfilter = f\n" FILTER SINK, 5, false, "is not a numeric address"},
    /* channels and lists */
    {STREAM "filter = f\noffset = 1 V, 2 V, 3 V\n" FILTER SINK, 7, false,
     "`offset` lists 3 values for 2 channels; write one for all or one for each"},
    {STREAM "filter = f, f, f\n" FILTER SINK, 6, false, "`filter` lists 3 filters for 2 channels"},
    {STREAM "filter = f\noutput = real, envelope, real\n" FILTER SINK, 7, false,
     "`output` lists 3 values for 2 outputs"},
    {STREAM "filter = f\nbank = f, f\n" FILTER SINK, 7, false,
     "has both `filter` (line 6) and `bank`"},
    {STREAM FILTER SINK, 1, false, "stream a has no filter"},
    {STREAM "route = 3 -> f -> 1\n" FILTER SINK, 6, false, "reads channel 3, but stream a has 2"},
    {STREAM "route = 1 -> f -> 1\nroute = 1 -> f -> 3\n" FILTER SINK, 6, false,
     "no route leads to output 2"},
    {STREAM "route = 0 -> f -> 1\n" FILTER SINK, 6, false, "counted from 1"},
    {STREAM "route = 1 -> f 3 Hz -> 1\n" FILTER SINK, 6, false, "cannot be the gain of a route"},
    {STREAM "filter = f\noutput = envelope\n" FILTER SINK, 7, true,
     "write `analytic = yes` in the filter"},
    {"[stream a]\nsource = generator\nrate = 1 MHz\nchannels = 2\nunit = V, Pa\nroute = 1 -> f -> "
     "1\n"
     "route = 2 -> f -> 1\n" FILTER SINK,
     1, true, "adds channels in V and in Pa"},
    /* samples */
    {STREAM "filter = f\nformat = s16\nbits = 17\n" FILTER SINK, 8, false,
     "17 bits do not fit a sample of 16"},
    {STREAM "filter = f\nformat = s16\njustify = left\n" FILTER SINK, 8, false,
     "needs `bits` below the 16"},
    /* blocks */
    {STREAM "filter = f\nblock = 2 s\n" FILTER SINK, 7, false,
     "`block = 2 s` is 1000000 frames at 500 kHz; write 2 us … 1.049 s"},
    {STREAM "filter = f\nblock = 1 us\n" FILTER SINK, 7, false, "`block = 1 us` is 0 frames"},
    {STREAM "filter = f\nfft = 1000\n" FILTER SINK, 7, false, "is not a power of two"},
    {STREAM "filter = f\nfft = 1024\n" FILTER SINK, 7, false, "write at least 2048"},
    {STREAM "filter = f\nbuffer = 1000 s\n" FILTER SINK, 7, false, "more than the `input memory`"},
    {STREAM "filter = f\nvariant = fussed\n" FILTER SINK, 7, false,
     "is not known; write one of: fused, general"},
    /* the generator */
    {STREAM "filter = f\nfrequency = 300 kHz\n" FILTER SINK, 7, false, "half the rate"},
    {STREAM "filter = f\namplitude = 1 Pa\n" FILTER SINK, 7, false, "the unit here is V"},
    /* the rest */
    {"[device]\nbatches = 2\ndepth = 3\n" STREAM "filter = f\n" FILTER SINK, 3, false,
     "write at most 2"},
    {"[device]\nkernels = missing\n" STREAM "filter = f\n" FILTER SINK, 2, false, "cannot be read"},
    {"[daemon]\n", 0, false, "there is no [stream NAME] section"},
    {"", 0, false, "there is no [stream NAME] section"},
    /* lines */
    {"rate = 1\n" STREAM "filter = f\n" FILTER SINK, 1, false, "stands before the first heading"},
    {STREAM "filter = f\nthis is no setting\n" FILTER SINK, 7, false,
     "has no =; write key = value"},
    {STREAM "filter = f\n= 3\n" FILTER SINK, 7, false, "no key before its ="},
    {STREAM "filter = f\nblock = 64\nblock = 128\n" FILTER SINK, 8, false,
     "was given in line 7 already"},
    {STREAM "filter = f\n[stream a]\n" FILTER SINK, 7, false,
     "[stream a] was begun in line 1 already"},
    {STREAM "filter = f\n[stream]\n" FILTER SINK, 7, false,
     "[stream] needs a name; write [stream NAME]"},
    {STREAM "filter = f\n[daemon x]\n" FILTER SINK, 7, false, "takes no name; write [daemon]"},
    {STREAM "filter = f\n[stream x/y]\n" FILTER SINK, 7, false, "is not a name"},
    {STREAM "filter = f\n[fliter g]\n" FILTER SINK, 7, false, "write [filter NAME]"},
    {STREAM "filter = f\n[whatever]\n" FILTER SINK, 7, false, "[whatever] is not a section"},
    {STREAM "filter = f\n[sink t\n" FILTER SINK, 7, false, "is not a heading"},
    {STREAM "filter = f\n[sink t] x\n" FILTER SINK, 7, false, "is not a heading"},
    {STREAM "filter = f\nattenuation = 3 dB\n" FILTER SINK, 7, false,
     "write `attenuation` into a [filter NAME] section"},
    {STREAM "filter = f\nblock = 1\x01\n" FILTER SINK, 7, false, "not UTF-8 text"},
    {STREAM "filter = f\nblock = \xff\n" FILTER SINK, 7, false, "not UTF-8 text"},
    {STREAM "filter = f\nunit = \xc0\x80\n" FILTER SINK, 7, false, "not UTF-8 text"},
    {STREAM "filter = f\n" FILTER "[sink s]\ntype = rtp\nstream = a\naddress = rig1.lab:6000\n", 12,
     true, "`rig1.lab` is a host name, and a start fails while it cannot be resolved"},
};

static void each_impossible_combination_is_one_message(void **state)
{
    (void)state;
    unsigned failures = 0;
    for (size_t i = 0; i < sizeof combinations / sizeof combinations[0]; i++) {
        const struct combination *c = &combinations[i];
        struct config *config;
        struct config_errors errors;
        int status = sample_load(c->text, &config, &errors);
        unsigned wanted_errors = c->warning ? 0 : 1;
        if (status != (c->warning ? 0 : ERROR_CONFIG) || errors.errors != wanted_errors ||
            !sample_message(&errors, c->line, c->warning, c->words)) {
            char *messages = sample_messages(&errors);
            print_error("case %zu: not just one %s at line %u with \"%s\":\n%s---\n%s", i,
                        c->warning ? "warning" : "error", c->line, c->words, c->text, messages);
            free(messages);
            failures++;
        }
        config_free(config);
        config_errors_free(&errors);
    }
    assert_int_equal(failures, 0);
}

/* A message of OSC may bring a filter into use that no stream names. */
static void filters_are_kept_for_osc(void **state)
{
    (void)state;
    static const char *const texts[] = {
        "[osc]\n" STREAM "filter = f\n" SINK FILTER "[filter later]\ntype = identity\n",
        STREAM "filter = f\n" FILTER
               "[sink s]\ntype = osc\nstream = a\n[filter later]\ntype = identity\n",
    };
    for (size_t i = 0; i < sizeof texts / sizeof texts[0]; i++) {
        struct config *config;
        struct config_errors errors;
        assert_int_equal(sample_load(texts[i], &config, &errors), 0);
        assert_int_equal(errors.count, 0);
        config_free(config);
        config_errors_free(&errors);
    }
}

/* All that is wrong in one text, in the order of its lines. */
static void all_errors_come_in_one_run(void **state)
{
    (void)state;
    static const char text[] = "[daemon]\n"
                               "log level = inform\n" /* 2 */
                               "colour = red\n"       /* 3 */
                               "[stream a]\n"
                               "source = rtp\n"
                               "address = 239.1.2.3\n" /* 6 */
                               "rate = 5 Mhz\n"        /* 7 */
                               "reorder = 200 Hz\n"    /* 8 */
                               "max_gap = 1 s\n"       /* 9 */
                               "filter = nobody\n"     /* 10 */
                               "[stream b]\n"
                               "source = generator\n"
                               "rate = 100 kHz\n"
                               "block = 100 s\n" /* 14 */
                               "filter = band\n"
                               "[filter band]\n"
                               "type = bandpass\n"
                               "low = 20 kHz\n"
                               "high = 60 kHz\n" /* 19 */
                               "[sink s]\n"
                               "type = rtp\n"
                               "stream = c\n"                /* 22 */
                               "address = 127.0.0.1:99999\n" /* 23 */
                               "[sink t]\n"                  /* 24: needs stream */
                               "type = recording\n"
                               "path = x.wav\n"
                               "[stream d]\n"
                               "source = udp\n"
                               "rate = 90 kHz\n"
                               "address = 127.0.0.1:99999\n" /* 30 */
                               "bank = low\n"
                               "[filter low]\n"
                               "type = lowpass\n"
                               "high = 45 kHz\n"; /* 34 */
    static const unsigned lines[] = {2, 3, 6, 7, 8, 9, 10, 14, 19, 22, 23, 24, 30, 34};
    struct config *config;
    struct config_errors errors;
    assert_int_equal(sample_load(text, &config, &errors), ERROR_CONFIG);
    unsigned at = 0;
    for (unsigned i = 0; i < errors.count; i++) {
        if (errors.messages[i].warning)
            continue;
        if (at >= sizeof lines / sizeof lines[0] || errors.messages[i].line != lines[at]) {
            char *messages = sample_messages(&errors);
            fail_msg("message %u is not of line %u:\n%s", at, lines[at], messages);
        }
        at++;
    }
    assert_int_equal(at, sizeof lines / sizeof lines[0]);
    config_errors_free(&errors);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(each_impossible_combination_is_one_message),
        cmocka_unit_test(filters_are_kept_for_osc),
        cmocka_unit_test(all_errors_come_in_one_run),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
