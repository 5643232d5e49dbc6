/*
 * The configuration beyond single keys: what a valid text becomes, field by field; fragments,
 * the hash, and hostile text.
 */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cmocka.h>

#include "analysis/location_options.h"
#include "core/limits.h"
#include "io/generator.h"
#include "io/net/network_options.h"
#include "io/net/rtp_sink_options.h"
#include "io/recording/recording.h"
#include "tests/support/config_samples.h"
#include "tests/support/scratch.h"

/* Parts that the cases below are put together from. */
#define STREAM "[stream a]\nsource = generator\nrate = 500 kHz\nchannels = 2\nfull scale = 10 V\n"
#define FILTER "[filter f]\ntype = identity\n"
#define SINK   "[sink s]\ntype = rtp\nstream = a\naddress = 127.0.0.1:6000\n"

/* ---- what a valid text becomes ----------------------------------------------------------- */

static struct config *load_good(const char *text)
{
    struct config *config;
    struct config_errors errors;
    if (sample_load(text, &config, &errors) != 0) {
        char *messages = sample_messages(&errors);
        fail_msg("refused:\n%s", messages);
    }
    config_errors_free(&errors);
    return config;
}

static void values_arrive_typed(void **state)
{
    (void)state;
    struct config *config = load_good(
        "[daemon]\nlog level = debug\ndrain timeout = 1.5 s\nstatus on exit = off\n"
        "[device]\ndevice = H100\nthreads = 3\nnode = 4\ninput memory = 1 GiB\nbatch memory = 1 "
        "MiB\n"
        "[stream ae]\nsource = rtp\naddress = [ff15::1]:5004\ninterface = eth1\nrate = 5 MHz\n"
        "channels = 4\nformat = s16\nbits = 14\njustify = left\nfull scale = 10 V, 10 V, 5 V, 5 V\n"
        "unit = mV\noffset = 10 mV\npreamp = 34 dB\nblock = 200 us\nreorder = 0.5 ms\n"
        "payload type = 100\nssrc = 0x10\nmode = record\nmax gap = 2 s\nreceive buffer = 8 MiB\n"
        "filter = bp, bp, id, id\noutput = envelope, complex, real, real\ntail = no\nalign = yes\n"
        "[filter bp]\ntype = bandpass\nlow = 95 kHz\nhigh = 850 kHz\nattenuation = 70 dB\nanalytic "
        "= yes\n"
        "gain = 20 dB\ninvert = yes\ndelay = 2 us\n"
        "[filter id]\ntype = identity\n"
        "[sink s]\ntype = rtp\nstream = ae\naddress = 239.1.2.3:6000\nformat = L24\nsdp = "
        "x.sdp\nttl = 3\n"
        "[sink f]\ntype = recording\nstream = ae\npath = f.wav\nformat = s16\nrotate = 10 "
        "min\nkeep = 7\n"
        "[sink g]\ntype = recording\nstream = ae\npath = g.rf64\ncontainer = rf64\nrotate = 2 GiB\n"
        "record = input\n");
    assert_int_equal(config->daemon.log_level, LOG_LEVEL_DEBUG);
    assert_int_equal(config->daemon.drain_ns, 1500000000);
    assert_false(config->daemon.status_on_exit);
    assert_string_equal(config->device.device, "H100");
    assert_int_equal(config->device.threads, 3);
    assert_int_equal(config->device.node.kind, NODE_NUMBER);
    assert_int_equal(config->device.node.number, 4);
    assert_true(config->device.input_bytes == UINT64_C(1) << 30);
    assert_int_equal(config->device.batch_output_floats, 262144);

    assert_int_equal(config->stream_count, 1);
    const struct config_stream *s = &config->streams[0];
    assert_string_equal(s->driver->name, "rtp");
    assert_true(s->live && s->loss_detectable && !s->tail && s->align && s->upstream == -1);
    assert_true(s->source.rate_hz == 5e6);
    assert_int_equal(s->source.channels, 4);
    assert_true(s->source.format.big_endian && s->source.format.bits == 14 &&
                s->source.format.left);
    assert_int_equal(s->source.frame_bytes, 8);
    const struct network_options *network = s->source.own;
    assert_string_equal(network->address, "[ff15::1]:5004");
    assert_string_equal(network->interface, "eth1");
    assert_int_equal(network->ingest.payload_type, 100);
    assert_true(network->ingest.ssrc_pinned && network->ingest.ssrc == 16);
    assert_int_equal(s->source.mode, MODE_RECORD);
    assert_int_equal(s->source.reorder_ns, 500000);
    assert_int_equal(s->source.max_gap_ns, 2000000000);
    assert_int_equal(network->ingest.max_dropout_ns, 1000000000);
    assert_int_equal(network->ingest.max_misorder_ns, 10000000);
    assert_int_equal(network->receive_buffer_bytes, 8388608);
    assert_int_equal(s->hop_frames, 1000);
    assert_int_equal(s->idle_flush_ns, 100000000);
    static const double full_scales[] = {10000, 10000, 5000, 5000};
    for (int c = 0; c < 4; c++) {
        assert_true(s->scales[c].full_scale == full_scales[c]);
        assert_true(s->scales[c].offset == 10 && s->scales[c].gain_db == 34);
        assert_string_equal(s->scales[c].unit, "mV");
    }
    assert_int_equal(s->output_count, 4);
    assert_int_equal(s->output_floats, 5);
    assert_int_equal(s->outputs[0], OUTPUT_ENVELOPE);
    assert_int_equal(s->outputs[1], OUTPUT_COMPLEX);
    assert_int_equal(s->edge_count, 4);
    for (int e = 0; e < 4; e++) {
        assert_int_equal(s->edges[e].input, e);
        assert_int_equal(s->edges[e].output, e);
        assert_string_equal(config->filters[s->edges[e].filter].name, e < 2 ? "bp" : "id");
        assert_true(s->edges[e].gain == 1);
    }

    const struct filter_spec *bp = &config->filters[config_find_filter(config, "bp")].spec;
    assert_int_equal(bp->type, FILTER_BANDPASS);
    assert_true(bp->design.low_hz == 95e3 && bp->design.high_hz == 850e3);
    assert_true(bp->design.attenuation_db == 70 && bp->analytic);
    assert_true(bp->gain == -10 && bp->delay_s == 2e-6 && isnan(bp->delay_frames));

    const struct sink_options *rtp = &config->sinks[0].options, *file = &config->sinks[1].options;
    const struct rtp_sink_options *rtp_own = rtp->own;
    const struct recording_options *file_own = file->own;
    assert_true(rtp->format.bytes == 3 && rtp->format.big_endian);
    assert_string_equal(rtp_own->sdp_path, "x.sdp");
    assert_int_equal(rtp_own->ttl, 3);
    assert_int_equal(rtp_own->mtu, 1500);
    assert_true(fabs(rtp->full_scale / (10000 / pow(10, 34 / 20.)) - 1) <
                1e-12); /* behind the preamp */
    assert_true(!file->format.big_endian && file->format.bytes == 2);
    assert_true(file_own->rotate_ns == INT64_C(600000000000) && file_own->rotate_bytes == 0 &&
                file_own->keep == 7);
    assert_string_equal(file_own->container, "wav");
    const struct sink_options *raw = &config->sinks[2].options;
    assert_true(raw->raw &&
                ((const struct recording_options *)raw->own)->rotate_bytes == UINT64_C(2) << 30 &&
                ((const struct recording_options *)raw->own)->rotate_ns == 0);
    assert_true(raw->format.left && raw->format.bits == 14);
    config_free(config);
}

static void defaults_are_those_of_the_table(void **state)
{
    (void)state;
    struct config *config =
        load_good("[stream a]\nsource = udp\naddress = *:5004\nrate = 1 kHz\nfilter = f\n"
                  "[filter f]\ntype = identity\n"
                  "[sink s]\ntype = recording\nstream = a\npath = x.wav\n");
    const struct config_stream *s = &config->streams[0];
    assert_false(s->loss_detectable);
    assert_true(s->live && s->tail && !s->align);
    assert_int_equal(s->hop_frames, 1024);
    assert_int_equal(((const struct network_options *)s->source.own)->receive_buffer_bytes,
                     16 << 20);
    assert_true(s->source.format.kind == SAMPLE_FLOAT && !s->source.format.big_endian);
    assert_string_equal(s->scales[0].unit, "FS");
    assert_true(s->scales[0].full_scale == 1);
    assert_true(config->sinks[0].options.format.kind == SAMPLE_FLOAT);
    assert_true(config->sinks[0].options.full_scale == 1);
    assert_int_equal(config->daemon.drain_ns, INT64_C(5000000000));
    assert_string_equal(config->device.device, "auto");
    config_free(config);
}

/* Full scale in volts over volts per unit; an offset in either unit. */
static void sensors_turn_volts_into_their_unit(void **state)
{
    (void)state;
    static const struct {
        const char *keys, *unit;
        double full_scale, offset;
    } rows[] = {
        {"full scale = 10 V\nsensitivity = 50 mV/Pa\n", "Pa", 200, 0},
        {"full scale = 5000 mV\nsensitivity = 0.05 V/Pa\nunit = kPa\n", "kPa", 0.1, 0},
        {"full scale = 10 V\nsensitivity = 100 mV/g\noffset = 1 V\n", "g", 100, 10},
        {"full scale = 10 V\nsensitivity = 100 mV/m/s2\noffset = 3 m/s2\n", "m/s2", 100, 3},
        {"full scale = 4 nC\nsensitivity = 20 pC/N\n", "N", 200, 0},
    };
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        char text[512];
        snprintf(
            text, sizeof text,
            "[stream a]\nsource = udp\naddress = *:1\nrate = 1 kHz\nfilter = f\n%s" FILTER SINK,
            rows[i].keys);
        struct config *config = load_good(text);
        const struct channel_scale *scale = config->streams[0].scales;
        assert_string_equal(scale->unit, rows[i].unit);
        assert_true(fabs(scale->full_scale / rows[i].full_scale - 1) < 1e-12);
        assert_true(fabs(scale->offset - rows[i].offset) < 1e-12);
        config_free(config);
    }
}

/* Written, or the generator's; a chain counts in its own frames. */
/* Saturation, dBFS and shares of full scale need a converter; its full scale is that at the sensor.
 */
static void full_scale_is_that_of_a_converter(void **state)
{
    (void)state;
    static const struct {
        const char *source;
        double full_scale, step; /* 0: none */
        const char *unit;
    } table[] = {
        {"source = rtp\naddress = 127.0.0.1:5004\nrate = 1 MHz\nfull scale = 10 V\n", 10,
         10.0 / 32768, "V"},
        {"source = rtp\naddress = 127.0.0.1:5004\nrate = 1 MHz\nfull scale = 10 V\npreamp = 40 "
         "dB\n",
         0.1, 0.1 / 32768, "V"},
        {"source = rtp\naddress = 127.0.0.1:5004\nrate = 1 MHz\nformat = s16\nbits = 12\n"
         "full scale = 10 V\nsensitivity = 100 mV/g\npreamp = 20 dB\n",
         10, 10.0 / 2048, "g"},
        {"source = rtp\naddress = 127.0.0.1:5004\nrate = 1 MHz\n", 1, 1.0 / 32768, "FS"},
        {"source = rtp\naddress = 127.0.0.1:5004\nrate = 1 MHz\nformat = f32\n", 1, 0, "FS"},
        {"source = rtp\naddress = 127.0.0.1:5004\nrate = 1 MHz\nformat = f32\nunit = g\n", 0, 0,
         "g"},
        {"source = rtp\naddress = 127.0.0.1:5004\nrate = 1 MHz\nformat = f32\nfull scale = 5 g\n"
         "preamp = 20 dB\n",
         0.5, 0, "g"},
        {"source = udp\naddress = 127.0.0.1:5004\nrate = 1 MHz\nformat = f32\nunit = V\n"
         "preamp = 20 dB\n",
         0, 0, "V"},
        {"source = stdin\nrate = 1 MHz\nformat = f32\nunit = V\n", 0, 0, "V"},
        {"source = osc\nrate = 1 kHz\nunit = V\n", 0, 0, "V"},
        {"source = generator\nrate = 1 MHz\nformat = f32\n", 1, 0, "FS"},
        {"source = generator\nrate = 1 MHz\nformat = f32\nfull scale = 2 V\npreamp = 20 dB\n", 0.2,
         0, "V"},
        {"source = portaudio\ncard = x\nrate = 48 kHz\n", 1, 0, "FS"},
    };
    for (size_t i = 0; i < sizeof table / sizeof table[0]; i++) {
        char text[2048];
        snprintf(text, sizeof text,
                 "[stream a]\nchannels = 1\nfilter = f\n%s[filter f]\ntype = identity\n"
                 "[analysis h]\ntype = hits\nstream = a\nthreshold = 0.1 %s\n"
                 "[stream b]\nsource = stream a\nfilter = f\n"
                 "[sink o]\ntype = rtp\nstream = b\naddress = 127.0.0.1:6000\n",
                 table[i].source, table[i].unit);
        struct config *config = load_good(text);
        const struct config_stream *stream = &config->streams[config_find_stream(config, "a")];
        const struct config_stream *chain = &config->streams[config_find_stream(config, "b")];
        const struct level_scale scale = config_level_scale(stream, 0);
        const struct analysis_stream *analysed = &config->analyses[0].options.stream;
        assert_string_equal(scale.unit, table[i].unit);
        if (fabs(scale.full_scale - table[i].full_scale) > 1e-12 ||
            fabs(scale.step - table[i].step) > 1e-12)
            fail_msg("%s: %g, step %g", table[i].source, scale.full_scale, scale.step);
        assert_true(stream->converter == (table[i].full_scale > 0));
        assert_true(stream->full_scale == (table[i].full_scale > 0));
        assert_true(analysed->full_scale[0] == scale.full_scale && analysed->step[0] == scale.step);
        assert_false(chain->converter);
        assert_true(config_level_scale(chain, 0).full_scale == 0);
        config_free(config);
    }
}

/* An arrival behind a filter is known to half the inverse of its bandwidth, and to a frame at best.
 */
static void timing_errors_follow_the_filter(void **state)
{
    (void)state;
    static const struct {
        const char *filter, *keys;
        double sigma_t_s;
    } table[] = {
        {"type = identity\n", "", 0.5e-6},
        {"type = bandpass\nlow = 100 kHz\nhigh = 300 kHz\n", "", 2.5e-6},
        {"type = lowpass\ncutoff = 50 kHz\n", "", 10e-6},
        {"type = highpass\ncutoff = 900 kHz\n", "", 5e-6},
        {"type = highpass\ncutoff = 50 kHz\n", "", 0.5 / 950e3},
        {"type = bandpass\nlow = 100 kHz\nhigh = 300 kHz\n", "timing error = 1 us\n", 1e-6},
    };
    for (size_t i = 0; i < sizeof table / sizeof table[0]; i++) {
        char text[2048];
        snprintf(text, sizeof text,
                 "[stream a]\nsource = rtp\naddress = 127.0.0.1:5004\nrate = 2 MHz\nchannels = 3\n"
                 "full scale = 1 V\nfilter = f\n[filter f]\n%s"
                 "[sink o]\ntype = rtp\nstream = a\naddress = 127.0.0.1:6000\n"
                 "[analysis h]\ntype = hits\nstream = a\nthreshold = 10 mV\n"
                 "[analysis w]\ntype = location\nanalysis = h\nvelocity = 5000 m/s\n"
                 "sensors = 0 0, 600 mm 0, 0 400 mm\n%s",
                 table[i].filter, table[i].keys);
        struct config *config = load_good(text);
        const struct location_options *own =
            config->analyses[config_find_analysis(config, "w")].options.own;
        if (fabs(own->sigma_t_s - table[i].sigma_t_s) > 1e-12)
            fail_msg("%s%s: %g s", table[i].filter, table[i].keys, own->sigma_t_s);
        config_free(config);
    }
}

static void excitations_are_known(void **state)
{
    (void)state;
    static const struct {
        const char *keys;
        struct excitation first, second; /* of the stream, and of one that reads it */
    } rows[] = {
        {"source = udp\naddress = *:1\n", {false, 0, 0}, {false, 0, 0}},
        {"source = udp\naddress = *:1\nexcitation = 200 frames\n", {true, 200, 0}, {true, 50, 0}},
        {"source = udp\naddress = *:1\nexcitation = 2 ms\nexcitation period = 10 ms\n",
         {true, 2000, 10000},
         {true, 500, 2500}},
        {"source = generator\n", {false, 0, 0}, {false, 0, 0}},
        {"source = generator\nwaveform = tone-burst\nfrequency = 50 kHz\nperiod = 4 ms\n",
         {true, 0, 4000},
         {true, 0, 1000}},
        {"source = generator\nwaveform = tone-burst\nexcitation = 8 frames\n",
         {true, 8, 10000},
         {true, 2, 2500}},
    };
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        char text[512];
        snprintf(text, sizeof text,
                 "[stream a]\nrate = 1 MHz\ndecimate = 4\nfilter = f\n%s"
                 "[stream b]\nsource = stream a\nfilter = f\n" FILTER SINK,
                 rows[i].keys);
        struct config *config = load_good(text);
        const struct excitation want[] = {rows[i].first, rows[i].second};
        for (int s = 0; s < 2; s++) {
            const struct excitation *got = &config->streams[s].source.excitation;
            assert_int_equal(got->known, want[s].known);
            assert_true(got->start_frame == want[s].start_frame &&
                        got->period_frames == want[s].period_frames);
        }
        config_free(config);
    }
}

static void edges_of_banks_and_matrices(void **state)
{
    (void)state;
    struct config *config =
        load_good("[stream bank]\nsource = generator\nrate = 1 MHz\nchannels = 3\nbank = a, b\n"
                  "[stream matrix]\nsource = generator\nrate = 1 MHz\nchannels = 3\n"
                  "route = 1 -> a -> 1\nroute = 3->b -6 dB->2\nroute = 2 -> a -0.5 -> 1\n"
                  "[filter a]\ntype = identity\n[filter b]\ntype = identity\n"
                  "[sink s]\ntype = rtp\nstream = bank\naddress = 127.0.0.1:1\n"
                  "[sink t]\ntype = rtp\nstream = matrix\naddress = 127.0.0.1:2\n");
    const struct config_stream *bank = &config->streams[0], *matrix = &config->streams[1];
    assert_int_equal(bank->output_count, 6);
    for (uint32_t e = 0; e < 6; e++) {
        assert_int_equal(bank->edges[e].input, e / 2);
        assert_int_equal(bank->edges[e].output, e);
        assert_int_equal(bank->edges[e].filter, e % 2);
    }
    static const struct config_edge edges[] = {{0, 0, 0, 1}, {2, 1, 1, 0}, {1, 0, 0, -0.5f}};
    assert_int_equal(matrix->output_count, 2);
    assert_int_equal(matrix->edge_count, 3);
    for (int e = 0; e < 3; e++) {
        assert_int_equal(matrix->edges[e].input, edges[e].input);
        assert_int_equal(matrix->edges[e].output, edges[e].output);
        assert_int_equal(matrix->edges[e].filter, edges[e].filter);
        assert_true(matrix->edges[e].gain == (e == 1 ? (float)pow(10, -0.3) : edges[e].gain));
    }
    config_free(config);
}

static void chains_take_what_is_before_them(void **state)
{
    (void)state;
    /* Written in the opposite order. */
    struct config *config =
        load_good("[stream last]\nsource = stream middle\nfilter = f\n"
                  "[stream middle]\nsource = stream first\nfilter = f\noutput = envelope\n"
                  "[stream first]\nsource = udp\naddress = *:1\nrate = 2 MHz\nchannels = 2\nfull "
                  "scale = 5 Pa\n"
                  "filter = f\noutput = complex\n"
                  "[filter f]\ntype = bandpass\nlow = 100 kHz\nhigh = 200 kHz\nanalytic = yes\n"
                  "[sink s]\ntype = rtp\nstream = last\naddress = 127.0.0.1:2\nformat = s16\n");
    static const char *const names[] = {"first", "middle", "last"};
    static const uint32_t inputs[] = {2, 4, 4}, outputs[] = {4, 4, 4};
    for (int i = 0; i < 3; i++) {
        const struct config_stream *s = &config->streams[i];
        assert_string_equal(s->name, names[i]);
        assert_int_equal(s->upstream, i - 1);
        assert_int_equal(s->source.channels, inputs[i]);
        assert_int_equal(s->output_floats, outputs[i]);
        assert_true(s->source.rate_hz == 2e6 && s->live && !s->loss_detectable);
        assert_string_equal(s->units[3], "Pa");
    }
    assert_true(config->streams[2].scales[0].full_scale == 1);
    assert_true(config->sinks[0].options.full_scale == 5);
    config_free(config);
}

/* A chain inherits the priority; a stream counts as much as what reads it. */
static void priorities_follow_chains(void **state)
{
    (void)state;
    static const struct {
        const char *first, *middle, *last;
        uint8_t expect[3];
    } rows[] = {
        {"", "", "", {50, 50, 50}},
        {"priority = 70\n", "", "", {70, 70, 70}},
        {"priority = 70\n", "priority = 0\n", "", {70, 0, 0}},
        {"priority = 0\n", "", "priority = 100\n", {100, 100, 100}},
        {"", "priority = 20\n", "priority = 60\n", {60, 60, 60}},
    };
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        char text[512];
        snprintf(text, sizeof text,
                 "[stream first]\nsource = udp\naddress = *:1\nrate = 1 MHz\nfilter = f\n%s"
                 "[stream middle]\nsource = stream first\nfilter = f\n%s"
                 "[stream last]\nsource = stream middle\nfilter = f\n%s"
                 "[filter f]\ntype = identity\n",
                 rows[i].first, rows[i].middle, rows[i].last);
        struct config *config = load_good(text);
        for (int s = 0; s < 3; s++)
            assert_int_equal(config->streams[s].priority, rows[i].expect[s]);
        config_free(config);
    }
}

static void decimation_divides_the_rate(void **state)
{
    (void)state;
    struct config *config = load_good(
        "[stream first]\nsource = udp\naddress = *:1\nrate = 1 MHz\nfilter = f\ndecimate = 8\n"
        "[stream next]\nsource = stream first\nfilter = f\ndecimate = 5\nblock = 1 ms\n"
        "[stream last]\nsource = stream next\nfilter = f\n"
        "[filter f]\ntype = lowpass\ncutoff = 10 kHz\n"
        "[sink s]\ntype = recording\nstream = last\npath = r.wav\n");
    static const struct {
        double rate_hz, output_rate_hz;
        uint32_t decimate, total;
    } want[] = {{1e6, 125e3, 8, 8}, {125e3, 25e3, 5, 40}, {25e3, 25e3, 1, 40}};
    for (int i = 0; i < 3; i++) {
        const struct config_stream *s = &config->streams[i];
        assert_true(s->source.rate_hz == want[i].rate_hz);
        assert_true(s->output_rate_hz == want[i].output_rate_hz);
        assert_int_equal(s->decimate, want[i].decimate);
        assert_int_equal(s->decimate_total, want[i].total);
    }
    assert_int_equal(config->streams[1].hop_frames, 125);
    assert_true(config->sinks[0].options.stream.rate_hz == 25e3);
    assert_int_equal(config->sinks[0].options.stream.decimate, 40);
    config_free(config);
}

static void generators_speak_in_the_unit(void **state)
{
    (void)state;
    struct config *config = load_good(
        "[stream a]\nsource = generator\nwaveform = burst-sine2\nrate = 1 MHz\nfull scale = 10 "
        "V\npreamp = 20 dB\n"
        "noise = 5 mV\nphase = 90 deg\nfrequency = 60 kHz\nduration = 2 s\nseed = 9\nfilter = f\n"
        "[filter f]\ntype = identity\n[sink s]\ntype = rtp\nstream = a\naddress = 127.0.0.1:1\n");
    const struct generator_options *own = config->streams[0].source.own;
    const struct waveform_spec *w = &own->waveform;
    assert_int_equal(w->kind, WAVEFORM_BURST_SINE2);
    assert_true(w->amplitude == 0.5); /* half of 10 V behind 20 dB */
    assert_true(w->noise == 0.005);
    assert_true(fabs(w->phase_rad - 1.5707963267948966) < 1e-15);
    assert_true(w->frequency_hz == 60e3 && w->seed == 9 && w->rate_hz == 1e6);
    assert_true(own->length_frames == 2000000);
    assert_true(config->streams[0].source.paced);
    config_free(config);
}

/* ---- text -------------------------------------------------------------------------------- */

static void spelling_that_is_allowed(void **state)
{
    (void)state;
    struct config *config =
        load_good("\xef\xbb\xbf# a byte order mark, then CR LF\r\n"
                  "  [ stream   a ]  ; a comment\r\n"
                  "\tsource=generator\r\n"
                  "   rate = 1 MHz   # as said\r\n"
                  "channels: 2\r\n"
                  "full scale = 1 V, \\\r\n"
                  "     2 V\r\n"
                  "; comment \\\r\n"
                  "filter = f\r\n"
                  "block =\r\n"
                  "[filter f]\r\n"
                  "type = identity\r\n"
                  "[sink s]\r\ntype = recording\r\nstream = a\r\npath = a#b;c.wav");
    assert_int_equal(config->streams[0].source.channels, 2);
    assert_true(config->streams[0].scales[1].full_scale == 2);
    assert_int_equal(config->streams[0].hop_frames, 1024);
    assert_string_equal(((const struct recording_options *)config->sinks[0].options.own)->path,
                        "a#b;c.wav");
    config_free(config);
}

#define RTP(port, keys)                                                                            \
    "[sink to" port "]\ntype = rtp\nstream = a\naddress = 127.0.0.1:" port "\n" keys
#define WAV(name, keys) "[sink " name "]\ntype = recording\nstream = a\npath = " name ".wav\n" keys

/* One format for all that take the results; floats when they differ or one of them needs floats. */
static void results_as_the_sinks_want_them(void **state)
{
    (void)state;
    static const struct {
        const char *text, *want; /* NULL: floats */
        double factor;
    } cases[] = {
        {"", NULL, 0},
        {RTP("6000", "format = L16\nfull scale = 4 V\n"), "s16be", 0.25},
        {RTP("6000", "format = L24\nfull scale = 4 V\n"), "s24be", 0.25},
        {RTP("6000", "format = f32\n"), "f32be", 1},
        {WAV("w", "format = f32\n"), NULL, 0},
        {WAV("w", "format = s16\nfull scale = 3 V\n"), "s16le", 1.0 / 3},
        {WAV("w", "record = input\n"), NULL, 0},
        {WAV("w", "record = input\n") RTP("6000", "format = L16\nfull scale = 1 V\n"), "s16be", 1},
        {RTP("6000", "format = L16\nfull scale = 4 V\n")
             RTP("6002", "format = L16\nfull scale = 4 V\n"),
         "s16be", 0.25},
        {RTP("6000", "format = L16\nfull scale = 4 V\n")
             RTP("6002", "format = L16\nfull scale = 5 V\n"),
         NULL, 0},
        {RTP("6000", "format = L16\nfull scale = 4 V\n")
             RTP("6002", "format = L24\nfull scale = 4 V\n"),
         NULL, 0},
        {RTP("6000", "format = L16\nfull scale = 4 V\n")
             WAV("w", "format = s16\nfull scale = 4 V\n"),
         NULL, 0},
        {RTP("6000", "format = L16\nfull scale = 4 V\n") "[sink o]\ntype = osc\nstream = a\n", NULL,
         0},
        {RTP("6000",
             "format = L16\nfull scale = 4 V\n") "[stream b]\nsource = stream a\nfilter = f\n",
         NULL, 0},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        char text[2000];
        snprintf(text, sizeof text, "%s%s", STREAM "filter = f\n" FILTER, cases[i].text);
        struct config *config = load_good(text);
        const struct result_format *results = &config->streams[0].results;
        struct result_format want = {.factor = cases[i].factor};
        if (cases[i].want != NULL)
            assert_int_equal(sample_format_parse(cases[i].want, &want.format), 0);
        if (!result_format_equal(results, &want))
            fail_msg("case %zu: other results than wanted", i);
        config_free(config);
    }
}

static void hash_is_of_the_settings_alone(void **state)
{
    (void)state;
    static const struct {
        const char *text;
        bool same;
    } table[] = {
        {"# other comments\n[filter f]\n\ntype=identity\n" SINK STREAM "filter =  f ; why\n", true},
        {STREAM "filter = f\nblock = 1024\n" FILTER SINK, false},
        {STREAM "filter = f\n" FILTER
                "[sink s]\ntype = rtp\nstream = a\naddress = 127.0.0.1:6001\n",
         false},
        {STREAM "filter = f\n" FILTER SINK "ttl = 17\n", false},
    };
    struct config *first = load_good(STREAM "filter = f\n" FILTER SINK);
    assert_int_equal(strlen(first->hash), 64);
    for (size_t i = 0; i < sizeof table / sizeof table[0]; i++) {
        struct config *other = load_good(table[i].text);
        if ((strcmp(first->hash, other->hash) == 0) != table[i].same)
            fail_msg("hash %zu is %s", i, table[i].same ? "another" : "the same");
        config_free(other);
    }
    config_free(first);
}

/* Streams a, b and, reading a, c: which of their hashes stay the same. */
static void a_stream_hash_is_of_what_it_is_made_of(void **state)
{
    (void)state;
#define BASE(block_a, taps_f, taps_g, more)                                                        \
    "[stream a]\nsource = generator\nrate = 500 kHz\nblock = " block_a "\nfilter = f\n"            \
    "[stream b]\nsource = generator\nrate = 500 kHz\nfilter = g\n"                                 \
    "[stream c]\nsource = stream a\nfilter = g\n"                                                  \
    "[filter f]\ntype = lowpass\ncutoff = 50 kHz\ntaps = " taps_f "\n"                             \
    "[filter g]\ntype = lowpass\ncutoff = 50 kHz\ntaps = " taps_g "\n" more
    static const struct {
        const char *text, *same;
    } table[] = {
        {"# a comment\n" BASE(" 1024 ", "101", "101", ""), "abc"},
        {BASE("512", "101", "101", ""), "b"}, /* what c reads has changed */
        {BASE("1024", "103", "101", ""), "b"},
        {BASE("1024", "101", "103", ""), "a"},
        {BASE("1024", "101", "101", "[sink s]\ntype = rtp\nstream = b\naddress = 127.0.0.1:6000\n"),
         "ac"},
        {BASE("1024", "101", "101", "[daemon]\nlog level = debug\n"), "abc"},
        {BASE("1024", "101", "101", "[device]\nbatches = 5\n"), "abc"},
    };
    struct config *first = load_good(BASE("1024", "101", "101", ""));
    for (size_t i = 0; i < sizeof table / sizeof table[0]; i++) {
        struct config *other = load_good(table[i].text);
        for (const char *name = "abc"; *name != '\0'; name++) {
            const char text[2] = {*name, '\0'};
            int x = config_find_stream(first, text), y = config_find_stream(other, text);
            bool same = strcmp(first->streams[x].hash, other->streams[y].hash) == 0;
            if (same != (strchr(table[i].same, *name) != NULL))
                fail_msg("row %zu: stream %s is %s", i, text, same ? "the same" : "another");
        }
        bool fixed = strstr(table[i].text, "batches") == NULL;
        assert_true((strcmp(first->fixed_hash, other->fixed_hash) == 0) == fixed);
        config_free(other);
    }
    config_free(first);
#undef BASE
}

static void hostile_text_is_refused_in_bounded_time(void **state)
{
    (void)state;
    struct config *config;
    struct config_errors errors;
    size_t bytes = (16 << 20) + 1;
    char *text = malloc(bytes + 1);
    assert_non_null(text);

    /* Larger than a configuration can be. */
    memset(text, '[', bytes);
    errors = (struct config_errors){0};
    assert_int_equal(config_load_text("t", text, bytes, &sample_world, &config, &errors),
                     ERROR_CONFIG);
    assert_true(sample_message(&errors, 0, false, "is larger than"));
    config_errors_free(&errors);

    /* One long line, a NUL, a heading without an end. */
    memset(text, 'x', 100000);
    text[99999] = '\n';
    memcpy(text + 100000, "a\0b = 1\n[", 9);
    errors = (struct config_errors){0};
    assert_int_equal(config_load_text("t", text, 100009, &sample_world, &config, &errors),
                     ERROR_CONFIG);
    assert_true(sample_message(&errors, 1, false, "longer than 4000 bytes"));
    assert_true(sample_message(&errors, 2, false, "not UTF-8 text"));
    assert_true(sample_message(&errors, 3, false, "is not a heading"));
    config_errors_free(&errors);

    /* A text in another encoding is one message, which names it and the command that converts it.
     */
    static const struct {
        const char *bytes;
        size_t count;
        const char *name;
    } encodings[] = {
        {"\xff\xfe[\0d\0", 6, "UTF-16"},
        {"\xfe\xff\0[\0d", 6, "UTF-16"},
        {"[\0d\0", 4, "UTF-16LE"},
        {"\0[\0d", 4, "UTF-16BE"},
        {"\xff\xfe\0\0[\0\0\0", 8, "UTF-32"},
        {"[\0\0\0d\0\0\0", 8, "UTF-32LE"},
        {"\0\0\xfe\xff\0\0\0[", 8, "UTF-32"},
        {"\0\0\0[\0\0\0d", 8, "UTF-32BE"},
    };
    for (size_t i = 0; i < sizeof encodings / sizeof *encodings; i++) {
        char words[64];
        errors = (struct config_errors){0};
        assert_int_equal(config_load_text("t", encodings[i].bytes, encodings[i].count,
                                          &sample_world, &config, &errors),
                         ERROR_CONFIG);
        snprintf(words, sizeof words, "iconv -f %s -t UTF-8 t > NEW", encodings[i].name);
        assert_true(sample_message(&errors, 0, false, words));
        assert_int_equal(errors.errors, 1);
        config_errors_free(&errors);
    }

    /* More messages than anybody reads are counted, not kept. */
    size_t used = 0;
    for (int i = 0; i < 100000; i++) {
        memcpy(text + used, "[x]\n", 4);
        used += 4;
    }
    errors = (struct config_errors){0};
    assert_int_equal(config_load_text("t", text, used, &sample_world, &config, &errors),
                     ERROR_CONFIG);
    assert_int_equal(errors.count, CONFIG_MESSAGES_MAX);
    assert_int_equal(errors.errors, 100001);
    config_errors_free(&errors);

    /* More sections than there may be. */
    used = 0;
    for (int i = 0; i < 20000; i++)
        used += (size_t)sprintf(text + used, "[filter f%d]\ntype = identity\n", i);
    errors = (struct config_errors){0};
    assert_int_equal(config_load_text("t", text, used, &sample_world, &config, &errors),
                     ERROR_CONFIG);
    assert_true(sample_message(&errors, 2 * 16384 + 1, false, "more than 16384 sections"));
    config_errors_free(&errors);
    free(text);
}

/* The limit of streams is the configuration's to check: everything behind it relies on it. */
static void streams_have_one_limit(void **state)
{
    (void)state;
    char *text = malloc((STREAMS_MAX + 2) * 120);
    assert_non_null(text);
    for (int count = STREAMS_MAX; count <= STREAMS_MAX + 1; count++) {
        size_t used = (size_t)sprintf(text, "[filter f]\ntype = identity\n");
        for (int i = 0; i < count; i++)
            used += (size_t)sprintf(text + used,
                                    "[stream s%d]\nsource = generator\nrate = 1 kHz\n"
                                    "waveform = sine\nfrequency = 100 Hz\nfilter = f\n",
                                    i);
        struct config_errors errors = {0};
        struct config *config = NULL;
        int error = config_load_text("t", text, used, &sample_world, &config, &errors);
        if (count <= STREAMS_MAX) {
            assert_int_equal(error, 0);
            assert_int_equal(config->stream_count, STREAMS_MAX);
            config_free(config);
        } else {
            assert_int_equal(error, ERROR_CONFIG);
            assert_int_equal(errors.errors, 1);
            assert_true(sample_message(&errors, 2 + 6 * STREAMS_MAX + 1, false,
                                       "4097 streams are too many for one daemon, the most is "
                                       "4096; split the work over several daemons"));
        }
        config_errors_free(&errors);
    }
    free(text);
}

/* ---- files ------------------------------------------------------------------------------- */

static void fragments_override_key_by_key(void **state)
{
    (void)state;
    scratch_make("main.conf.d");
    const char *path = scratch_write("main.conf", STREAM
                                     "block = 64\nroute = 1 -> f -> 1\nroute = 2 -> f -> 2\n" FILTER
                                     "[sink s]\ntype = recording\nstream = a\npath = x.wav\n");
    scratch_write("main.conf.d/20.conf", "[stream a]\nchannels = 4\nroute = 4 -> f -> 1\n");
    scratch_write("main.conf.d/10.conf",
                  "[stream a]\nchannels = 3\nblock =\n[sink s]\npath = y.wav\n");
    scratch_write("main.conf.d/ignored.txt", "[nonsense\n");
    scratch_write("main.conf.d/.hidden.conf", "[nonsense\n");
    struct config *config;
    struct config_errors errors = {0};
    if (config_load(path, &config, &errors) != 0) {
        char *messages = sample_messages(&errors);
        fail_msg("refused:\n%s", messages);
    }
    assert_int_equal(config->streams[0].source.channels, 4); /* the last file wins */
    assert_int_equal(config->streams[0].hop_frames, 1024);   /* back to the default */
    assert_int_equal(config->streams[0].edge_count, 1);      /* a list is replaced as a whole */
    assert_int_equal(config->streams[0].edges[0].input, 3);
    /* Beside the file that says it. */
    assert_string_equal(((const struct recording_options *)config->sinks[0].options.own)->path,
                        scratch_path("main.conf.d/y.wav"));
    config_free(config);
    config_errors_free(&errors);

    scratch_write("main.conf.d/20.conf", "[stream a]\nchannels = 4\nroute = 5 -> f -> 1\n");
    assert_int_equal(config_load(path, &config, &errors), ERROR_CONFIG);
    assert_int_equal(errors.errors, 1);
    assert_int_equal(errors.messages[0].line, 3);
    assert_non_null(strstr(errors.messages[0].file, "main.conf.d/20.conf"));
    config_errors_free(&errors);

    assert_int_equal(config_load("/nonexistent/convolvd.conf", &config, &errors), ERROR_NO_FILE);
    assert_true(sample_message(&errors, 0, false, "cannot be read"));
    config_errors_free(&errors);
    assert_int_equal(config_load("/", &config, &errors), ERROR_NO_FILE);
    config_errors_free(&errors);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(values_arrive_typed),
        cmocka_unit_test(defaults_are_those_of_the_table),
        cmocka_unit_test(sensors_turn_volts_into_their_unit),
        cmocka_unit_test(full_scale_is_that_of_a_converter),
        cmocka_unit_test(timing_errors_follow_the_filter),
        cmocka_unit_test(excitations_are_known),
        cmocka_unit_test(edges_of_banks_and_matrices),
        cmocka_unit_test(chains_take_what_is_before_them),
        cmocka_unit_test(priorities_follow_chains),
        cmocka_unit_test(decimation_divides_the_rate),
        cmocka_unit_test(generators_speak_in_the_unit),
        cmocka_unit_test(spelling_that_is_allowed),
        cmocka_unit_test(results_as_the_sinks_want_them),
        cmocka_unit_test(hash_is_of_the_settings_alone),
        cmocka_unit_test(a_stream_hash_is_of_what_it_is_made_of),
        cmocka_unit_test(hostile_text_is_refused_in_bounded_time),
        cmocka_unit_test(streams_have_one_limit),
        cmocka_unit_test(fragments_override_key_by_key),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
