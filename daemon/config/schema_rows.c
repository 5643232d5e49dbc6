/*
 * The configuration's own rows of the schema (see schema.h): every key that does not belong to a
 * driver. Sentences are what users read in `--help-config` and in convolvd.conf(5).
 */
#include "config/schema_rows.h"

#include "alarm/alarm.h"
#include "analysis/limits.h"
#include "config/own_values.h"
#include "convolve/engine.h"
#include "core/limits.h"
#include "core/log.h"
#include "filter/filter.h"
#include "signal/decimation.h"

/* ---- choices ----------------------------------------------------------------------------- */

static const struct option_choice log_levels[] = {
    {"error", LOG_LEVEL_ERROR}, {"warning", LOG_LEVEL_WARNING}, {"notice", LOG_LEVEL_NOTICE},
    {"info", LOG_LEVEL_INFO},   {"debug", LOG_LEVEL_DEBUG},     {NULL, 0},
};
static const struct option_choice sides[] = {{"right", false}, {"left", true}, {NULL, 0}};
static const struct option_choice forms[] = {
    {"real", OUTPUT_REAL}, {"complex", OUTPUT_COMPLEX}, {"envelope", OUTPUT_ENVELOPE}, {NULL, 0}};
static const struct option_choice filter_types[] = {
    {"lowpass", FILTER_LOWPASS},
    {"highpass", FILTER_HIGHPASS},
    {"bandpass", FILTER_BANDPASS},
    {"bandstop", FILTER_BANDSTOP},
    {"file", FILTER_FILE},
    {"chirp", FILTER_CHIRP},
    {"tone-burst", FILTER_TONE_BURST},
    {"barker", FILTER_BARKER},
    {"golay", FILTER_GOLAY},
    {"replica", FILTER_REPLICA},
    {"identity", FILTER_IDENTITY},
    {"fk", FILTER_FK},
    {NULL, 0},
};
static const struct option_choice methods[] = {
    {"kaiser", DESIGN_KAISER}, {"remez", DESIGN_REMEZ}, {NULL, 0}};
static const struct option_choice normalises[] = {{"amplitude", NORMALISE_AMPLITUDE},
                                                  {"energy", NORMALISE_ENERGY},
                                                  {"none", NORMALISE_NONE},
                                                  {NULL, 0}};
static const struct option_choice windows[] = {{"none", PULSE_WINDOW_NONE},
                                               {"hann", PULSE_WINDOW_HANN},
                                               {"tukey", PULSE_WINDOW_TUKEY},
                                               {NULL, 0}};
/* The chips of each Barker code. */
static const struct option_choice codes[] = {{"2", 2}, {"3", 3},   {"4", 4},   {"5", 5},
                                             {"7", 7}, {"11", 11}, {"13", 13}, {NULL, 0}};
static const struct option_choice pairs[] = {{"a", false}, {"b", true}, {NULL, 0}};
static const struct option_choice fans[] = {{"pass", false}, {"reject", true}, {NULL, 0}};

/* The types of [alarm], whose numbers are those of the quantities. */
static const struct option_choice alarm_quantities[] = {
#define X(name, text, dimension, channel, counts, sentence) {text, ALARM_##name},
    ALARM_QUANTITY_TABLE(X)
#undef X
        {NULL, 0},
};

/* ---- rows -------------------------------------------------------------------------------- */

/* One row a key reads best as written. */
/* clang-format off */

const struct schema_section schema_sections[SECTIONS] = {
    [SECTION_DAEMON] = {"daemon", false, NULL, "The process as a whole."},
    [SECTION_DEVICE] = {"device", false, NULL, "The OpenCL device that computes, and its memory."},
    [SECTION_STREAM] = {"stream", true, "source",
        "One multichannel signal: where it comes from, its format and calibration, and which filters it passes."},
    [SECTION_FILTER] = {"filter", true, "type",
        "One filter: designed, matched to what a transducer was sent, or read from a file."},
    [SECTION_SINK] = {"sink", true, "type",
        "One place where the results of a stream go, or the events of an analysis."},
    [SECTION_OSC] = {"osc", false, NULL,
        "The OSC server: where blocks and questions come in, and who is answered. It runs when this section is written or a stream or sink has to do with OSC."},
    [SECTION_ALARM] = {"alarm", true, "quantity",
        "One alarm: when a figure of a stream or of its channels is beyond a limit, it goes to log, events, OSC, metrics and page, and to a program."},
    [SECTION_ANALYSIS] = {"analysis", true, "type",
        "What is read out of the results of a stream, or of the events of another analysis; its events go to sinks that name it, to OSC, to the control socket and to alarms."},
};

#define KIND(name) (1u << FILTER_##name)
#define LOWS      (KIND(BANDPASS) | KIND(BANDSTOP) | KIND(HIGHPASS))
#define HIGHS     (KIND(BANDPASS) | KIND(BANDSTOP) | KIND(LOWPASS))
#define DESIGNED  (KIND(LOWPASS) | KIND(HIGHPASS) | KIND(BANDPASS) | KIND(BANDSTOP))
#define CODED     (KIND(BARKER) | KIND(GOLAY))
#define MATCHED   (KIND(CHIRP) | KIND(TONE_BURST) | CODED | KIND(REPLICA))
#define ARRAY     KIND(FK)

#define QUANTITY(name) (1u << ALARM_##name)
#define OF_CHANNEL (QUANTITY(LEVEL) | QUANTITY(OVERLOADS) | QUANTITY(FLAT))
#define WINDOWED   (QUANTITY(LEVEL) | QUANTITY(OVERLOADS) | QUANTITY(LOSSES) | QUANTITY(RATE) | QUANTITY(LATENCY) | QUANTITY(MISSES))
#define LIMITED    (((1u << ALARM_QUANTITIES) - 1) & ~QUANTITY(DEVICE))

#define KI 1024.0
#define MI (1024.0 * 1024)
#define GI (1024.0 * 1024 * 1024)

const struct schema_row schema_rows[KEYS] = {
    [KEY_LOG_LEVEL] = {SECTION_DAEMON, .row = {"log level", OPTION_CHOICE, .choices = log_levels, .fallback = "info",
        .sentence = "How much is written to the log: lines of this level and of those before it."}},
    [KEY_RUNTIME_DIRECTORY] = {SECTION_DAEMON, .row = {"runtime directory", OPTION_PATH, .fallback_words = "$RUNTIME_DIRECTORY, as systemd sets it, else $XDG_RUNTIME_DIR, else none",
        .sentence = "Where the SDP files of RTP sinks are written that name no file of their own."}},
    [KEY_STATE_DIRECTORY] = {SECTION_DAEMON, .row = {"state directory", OPTION_PATH, .fallback_words = "$STATE_DIRECTORY, as systemd sets it, else none",
        .sentence = "Where the daemon keeps what outlasts a run: compiled kernels, unless `cache` names another place."}},
    [KEY_STATUS_ON_EXIT] = {SECTION_DAEMON, .row = {"status on exit", OPTION_BOOLEAN, .fallback = "yes",
        .sentence = "Whether the table of rates, losses, levels and latencies is printed on exit; SIGUSR1 prints it at any time."}},
    [KEY_STATUS_FILE] = {SECTION_DAEMON, .row = {"status file", OPTION_PATH, .fallback_words = "none",
        .sentence = "A file that gets the same table as JSON, on exit and on SIGUSR1."}},
    [KEY_DRAIN_TIMEOUT] = {SECTION_DAEMON, .row = {"drain timeout", OPTION_TIME, .minimum = 0.1, .maximum = 3600, .fallback = "5 s",
        .sentence = "The longest time SIGTERM waits for tails to be computed, sent and written before the daemon leaves."}},
    [KEY_DEVICE] = {SECTION_DEVICE, .row = {"device", OPTION_TEXT, .fallback = "auto",
        .sentence = "A list, best first, such as `gpu, cpu`: the first that opens computes, the others stand by in case it is lost. A device is cpu, gpu, a number or a PCI address of `convolvd --list-devices`, or a part of a device's name; named twice it stands by for itself. Or one word: auto (the best GPU on which the engine opens, with the CPU standing by; else the CPU), or all (every device, each stream on the one with the least load)."}},
    [KEY_THREADS] = {SECTION_DEVICE, .row = {"threads", OPTION_COUNT, .minimum = 0, .maximum = 1024, .fallback = "0",
        .sentence = "Threads of a CPU device; 0 takes all cores but one while a source is live, else all."}},
    [KEY_KERNELS] = {SECTION_DEVICE, .row = {"kernels", OPTION_PATH, .fallback_words = "the kernels inside the program",
        .sentence = "A directory of OpenCL kernels; a file there takes the place of the built-in one of the same name."}},
    [KEY_CACHE] = {SECTION_DEVICE, .row = {"cache", OPTION_PATH, .fallback_words = "$CACHE_DIRECTORY, as systemd sets it, else the `state directory`",
        .sentence = "A directory that keeps compiled kernels, so that the next start is quick."}},
    [KEY_BATCHES] = {SECTION_DEVICE, .row = {"batches", OPTION_COUNT, .minimum = 2, .maximum = 16, .fallback = "6",
        .sentence = "How many batches of blocks may be on the way through the device at once; more costs memory and helps under load."}},
    [KEY_DEPTH] = {SECTION_DEVICE, .row = {"depth", OPTION_COUNT, .minimum = 1, .maximum = 8, .fallback_words = DEVICE_DEPTH_WORDS,
        .sentence = "How many of them are handed to the device's queue at once."}},
    [KEY_BATCH_DEADLINE] = {SECTION_DEVICE, .row = {"batch deadline", OPTION_TIME, .minimum = 0.01, .maximum = 60, .fallback_words = "50 ms on a GPU, 2 s on a CPU",
        .sentence = "How long a batch may take beyond twenty times its measured cost before its device is lost and the streams go on on the next one. Time in which the process could not run does not count."}},
    [KEY_SELF_CHECK] = {SECTION_DEVICE, .row = {"self check", OPTION_TIME, .minimum = 0, .maximum = 86400, .fallback = "10 s",
        .sentence = "How often one block of one output of each stream, by turns, is computed again in double precision; a result beyond the error bound makes the device lost. 0 turns it off."}},
    [KEY_INPUT_MEMORY] = {SECTION_DEVICE, .row = {"input memory", OPTION_MEMORY, .minimum = MI, .maximum = KI * GI, .fallback = "512 MiB",
        .sentence = "Device memory for the input rings of all streams; only what is used is touched."}},
    [KEY_SPECTRUM_MEMORY] = {SECTION_DEVICE, .row = {"spectrum memory", OPTION_MEMORY, .minimum = MI, .maximum = KI * GI, .fallback = "512 MiB",
        .sentence = "Device memory for the spectra of the filters."}},
    [KEY_STATE_MEMORY] = {SECTION_DEVICE, .row = {"state memory", OPTION_MEMORY, .minimum = MI, .maximum = KI * GI, .fallback = "512 MiB",
        .sentence = "Device memory for delay lines, tails and scratch."}},
    [KEY_BATCH_MEMORY] = {SECTION_DEVICE, .row = {"batch memory", OPTION_MEMORY, .minimum = 64 * KI, .maximum = 16 * GI, .fallback = "16 MiB",
        .sentence = "Memory for the results of one batch; it limits how many blocks travel together."}},
    [KEY_SOURCE] = {SECTION_STREAM, .row = {"source", OPTION_OWN, .words = "source", .parse = schema_parse_source, .required = true,
        .sentence = "Where the samples come from."}},
    [KEY_RATE] = {SECTION_STREAM, .scope = SCOPE_OWN, .needed = SCOPE_TYPED, .row = {"rate", OPTION_FREQUENCY, .minimum = 1, .maximum = 10e9, .fallback_words = "that of a source which brings its own",
        .sentence = "Frames per second."}},
    [KEY_CHANNELS] = {SECTION_STREAM, .scope = SCOPE_TYPED, .row = {"channels", OPTION_COUNT, .minimum = 1, .maximum = 1024, .fallback = "1",
        .sentence = "Channels of one frame; recordings bring their own number."}},
    [KEY_FORMAT] = {SECTION_STREAM, .scope = SCOPE_TYPED, .row = {"format", OPTION_OWN, .words = "sample format", .parse = schema_parse_format, .fallback_words = source_formats,
        .sentence = "Format of one sample: u8, s16, u16 (offset binary), s24, s32 or f32, with le or be for the byte order, or L16 and L24; without an order, that of the default. A sound card takes only the hardware's own."}},
    [KEY_BITS] = {SECTION_STREAM, .scope = SCOPE_PADDED, .row = {"bits", OPTION_COUNT, .minimum = 2, .maximum = 32, .fallback_words = "the width of the format",
        .sentence = "Significant bits when the converter has fewer than the word, such as 12 or 14 in s16le."}},
    [KEY_JUSTIFY] = {SECTION_STREAM, .scope = SCOPE_PADDED, .row = {"justify", OPTION_CHOICE, .choices = sides, .fallback = "right",
        .sentence = "Where the significant bits stand in the word: right (at the low end) or left (at the top)."}},
    [KEY_FULL_SCALE] = {SECTION_STREAM, .scope = SCOPE_OWN, .row = {"full scale", OPTION_AMPLITUDE, LIST_CHANNEL, .minimum = 0, .above_minimum = true, .maximum = 1e12, .fallback = "1",
        .sentence = "The value of a full-scale code at the converter's input, such as 10 V; one for all channels or one for each."}},
    [KEY_SENSITIVITY] = {SECTION_STREAM, .scope = SCOPE_OWN, .row = {"sensitivity", OPTION_AMPLITUDE, LIST_CHANNEL, .minimum = 0, .above_minimum = true, .maximum = 1e12, .fallback_words = "none: `full scale` is in the unit of the results",
        .sentence = "What the sensor gives for one unit of what it measures, such as 50 mV/Pa: with full scale = 10 V the results are in Pa, 200 Pa a full-scale code; one for all channels or one for each."}},
    [KEY_OFFSET] = {SECTION_STREAM, .scope = SCOPE_OWN, .row = {"offset", OPTION_AMPLITUDE, LIST_CHANNEL, .minimum = -1e12, .maximum = 1e12, .fallback = "0",
        .sentence = "Subtracted from every sample after scaling, in the unit of the results or of `full scale`; one for all channels or one for each."}},
    [KEY_PREAMP] = {SECTION_STREAM, .scope = SCOPE_OWN, .row = {"preamp", OPTION_DECIBEL, LIST_CHANNEL, .minimum = -200, .maximum = 200, .fallback = "0 dB",
        .sentence = "Gain of the preamplifier, divided out so that results are values at the sensor; one for all channels or one for each."}},
    [KEY_UNIT] = {SECTION_STREAM, .scope = SCOPE_OWN, .row = {"unit", OPTION_TEXT, LIST_CHANNEL, .fallback_words = "that of `full scale`, else FS (full scale)",
        .sentence = "Unit of the results, such as V, mV, Pa or m/s2; one for all channels or one for each."}},
    [KEY_BLOCK] = {SECTION_STREAM, .row = {"block", OPTION_SPAN, .minimum = 1, .maximum = 524288, .fallback = "1024 frames",
        .sentence = "New frames of one block, the unit of processing: shorter means less latency, longer more throughput."}},
    [KEY_BATCH_BLOCKS] = {SECTION_STREAM, .row = {"batch blocks", OPTION_COUNT, .minimum = 1, .maximum = 4096, .fallback = "16",
        .sentence = "The most blocks of this stream that travel in one batch when the device is behind."}},
    [KEY_IDLE_FLUSH] = {SECTION_STREAM, .row = {"idle flush", OPTION_TIME, .minimum = 0, .maximum = 3600, .fallback = "100 ms",
        .sentence = "Silence of the source after which its partial block is processed; 0 never does."}},
    [KEY_LATENCY] = {SECTION_STREAM, .row = {"latency", OPTION_TIME, .minimum = 1e-6, .maximum = 3600, .fallback_words = "none is asked for",
        .sentence = "The longest time wanted from a block's first frame to its result. Without `block` it chooses the block: what `convolvd --tune` measured to fit, else the longest power of two that lasts half as long; with `block` it limits what --tune may choose."}},
    [KEY_DEADLINE] = {SECTION_STREAM, .row = {"deadline", OPTION_TIME, .minimum = 1e-6, .maximum = 3600, .fallback_words = "the duration of one block, at least 1 ms",
        .sentence = "Time from the last frame of a block received to its result handed out; later blocks count as deadline misses."}},
    [KEY_PRIORITY] = {SECTION_STREAM, .row = {"priority", OPTION_COUNT, .minimum = PRIORITY_LEAST, .maximum = PRIORITY_MOST, .fallback_words = "50, or that of the stream it reads", .running = true,
        .sentence = "When the device cannot compute everything in time, live streams with a higher number keep their deadlines and those with a lower one shed blocks first; equals share. A stream that others read counts as much as the highest of them."}},
    [KEY_BUFFER] = {SECTION_STREAM, .row = {"buffer", OPTION_SPAN, .minimum = 1, .maximum = 4294967296.0, .fallback_words = "history, reorder window, batches in flight, and half a second or 8 blocks",
        .sentence = "Length of the input ring: how far processing may fall behind before input is lost; rounded up to a power of two."}},
    [KEY_FILTER] = {SECTION_STREAM, .row = {"filter", OPTION_NAME, LIST_CHANNEL, .fallback_words = "see `bank` and `route`",
        .sentence = "The filter of every channel, or a list with one filter for each channel."}},
    [KEY_BANK] = {SECTION_STREAM, .row = {"bank", OPTION_NAME, LIST_COMMA,
        .sentence = "Several filters for every channel, instead of `filter`: channel 1 through each of them gives the first outputs, then channel 2, and so on."}},
    [KEY_ROUTE] = {SECTION_STREAM, .row = {"route", OPTION_OWN, LIST_LINES, .words = "IN -> FILTER [GAIN] -> OUT", .parse = schema_parse_route,
        .sentence = "One edge of a matrix, instead of `filter`: IN -> FILTER -> OUT or IN -> FILTER [GAIN] -> OUT, channels and outputs counted from 1, the gain a factor (-1 inverts) or in dB; repeat the key for every edge, edges into one output are added."}},
    [KEY_OUTPUT] = {SECTION_STREAM, .row = {"output", OPTION_CHOICE, LIST_CHANNEL, .choices = forms, .fallback = "real",
        .sentence = "What an output gives: its real part, real and imaginary part as two channels, or the envelope (magnitude); one for all outputs or one for each. Envelopes need `analytic = yes` in the filter."}},
    [KEY_TAIL] = {SECTION_STREAM, .row = {"tail", OPTION_BOOLEAN, .fallback = "yes",
        .sentence = "Whether the filter's last frames follow after the end of an epoch or record; no stops at the input's length."}},
    [KEY_ALIGN] = {SECTION_STREAM, .row = {"align", OPTION_BOOLEAN, .fallback = "no",
        .sentence = "Whether the filter's delay is taken out of frame numbers and time stamps; it is reported either way."}},
    [KEY_EXCITATION] = {SECTION_STREAM, .scope = SCOPE_OWN, .row = {"excitation", OPTION_SPAN, .minimum = 0, .maximum = 9007199254740992.0, .fallback_words = "that of the generator, else not known",
        .sentence = "When the transmitter's pulse begins, in frames or as a time after the first frame of each epoch or record, such as the pre-trigger of a transient recorder. Status and sidecars tell it, so that frame numbers become times of flight."}},
    [KEY_EXCITATION_PERIOD] = {SECTION_STREAM, .scope = SCOPE_OWN, .row = {"excitation period", OPTION_SPAN, .minimum = 1, .maximum = 9007199254740992.0, .fallback_words = "that of the generator, else one pulse in an epoch or record",
        .sentence = "From one pulse of the transmitter to the next."}},
    [KEY_DECIMATE] = {SECTION_STREAM, .row = {"decimate", OPTION_COUNT, .minimum = 1, .maximum = DECIMATE_MAX, .fallback = "1",
        .sentence = "Of this many output frames one is computed and kept, those whose frame number is a multiple; results, sinks and streams that read this one have the rate divided by it. `--check` says what aliases."}},
    [KEY_STREAM_DEVICE] = {SECTION_STREAM, .row = {"device", OPTION_TEXT, .fallback_words = "that of the stream it reads, else as [device] says",
        .sentence = "The OpenCL devices that compute this stream, best first, as `device` of [device] lists them."}},
    [KEY_VARIANT] = {SECTION_STREAM, .row = {"variant", OPTION_TEXT, .fallback_words = "the first that can",
        .sentence = "The way of computing to use, by its name in `convolvd --list-variants`; for comparisons."}},
    [KEY_FFT] = {SECTION_STREAM, .row = {"fft", OPTION_COUNT, .minimum = 64, .maximum = 2097152, .fallback_words = "chosen by rule",
        .sentence = "FFT length, a power of two larger than the block; for comparisons."}},
    [KEY_UNUSED] = {SECTION_STREAM, .scope = SCOPE_OWN, .row = {"unused", OPTION_COUNT, LIST_COMMA, .minimum = 1, .maximum = 1024, .fallback_words = "none", .running = true,
        .sentence = "Channels with no sensor, counted from 1, such as 3, 4: they raise no alarm."}},
    [KEY_FLAT_LINE] = {SECTION_STREAM, .scope = SCOPE_OWN, .row = {"flat line", OPTION_TIME, .minimum = 0, .maximum = 3600, .fallback = "1 s", .running = true,
        .sentence = "A channel of a live source whose codes have all been equal for this long, in received frames, raises the alarm flat-line; 0 turns it off."}},
    [KEY_NOISE_FLOOR] = {SECTION_STREAM, .scope = SCOPE_OWN, .row = {"noise floor", OPTION_AMPLITUDE, LIST_CHANNEL, .minimum = 0, .maximum = 1e12, .fallback_words = "not known", .running = true,
        .sentence = "Level (RMS about the mean) of a channel at rest; one for all channels or one for each, 0 where it is not known. A level under half of it for a second raises the alarm noise-floor: the sensor, its cable or its preamplifier is dead."}},
    [KEY_TYPE] = {SECTION_FILTER, .row = {"type", OPTION_CHOICE, .required = true, .choices = filter_types,
        .sentence = "lowpass, highpass, bandpass or bandstop (designed); file (taps from a file); chirp, tone-burst, barker, golay or replica (matched to what the transducer was sent); identity (no change); fk (waves of a line array by their velocity; named in `filter` alone or in `bank`)."}},
    [KEY_METHOD] = {SECTION_FILTER, .applies = DESIGNED, .row = {"method", OPTION_CHOICE, .choices = methods, .fallback = "kaiser",
        .sentence = "How it is designed: kaiser (windowed, any length) or remez (Parks-McClellan, up to 1001 taps)."}},
    [KEY_LOW] = {SECTION_FILTER, .applies = LOWS | ARRAY, .row = {"low", OPTION_FREQUENCY, .minimum = 0, .above_minimum = true, .maximum = 5e9,
        .sentence = "Lower band edge, where the gain is -6 dB; in a high-pass the same as `cutoff`; for fk where the fan begins to act (default 0 Hz)."}},
    [KEY_HIGH] = {SECTION_FILTER, .applies = HIGHS | ARRAY, .row = {"high", OPTION_FREQUENCY, .minimum = 0, .above_minimum = true, .maximum = 5e9,
        .sentence = "Upper band edge, where the gain is -6 dB; in a low-pass the same as `cutoff`; for fk where the fan ends (default half the rate)."}},
    [KEY_CUTOFF] = {SECTION_FILTER, .applies = KIND(LOWPASS) | KIND(HIGHPASS), .row = {"cutoff", OPTION_FREQUENCY, .minimum = 0, .above_minimum = true, .maximum = 5e9,
        .sentence = "Band edge of a low- or high-pass, where the gain is -6 dB."}},
    [KEY_TRANSITION] = {SECTION_FILTER, .applies = DESIGNED, .row = {"transition", OPTION_FREQUENCY, .minimum = 0, .above_minimum = true, .maximum = 5e9, .fallback_words = "what `taps` gives, else a quarter of the room that the edges leave",
        .sentence = "Full width of the transition between pass-band and stop-band, the edge in its middle."}},
    [KEY_ATTENUATION] = {SECTION_FILTER, .applies = DESIGNED | ARRAY, .row = {"attenuation", OPTION_DECIBEL, .minimum = DESIGN_ATTENUATION_DB_MIN, .maximum = DESIGN_ATTENUATION_DB_MAX, .fallback = "60 dB",
        .sentence = "Least attenuation in the stop-band; for fk what the window of each FIR is made for."}},
    [KEY_RIPPLE] = {SECTION_FILTER, .applies = DESIGNED, .row = {"ripple", OPTION_DECIBEL, .minimum = 0, .above_minimum = true, .maximum = 20, .fallback_words = "what the attenuation gives",
        .sentence = "Largest deviation from the centre's gain in the pass-band."}},
    [KEY_TAPS] = {SECTION_FILTER, .applies = DESIGNED | ARRAY, .required = ARRAY, .row = {"taps", OPTION_COUNT, .minimum = 1, .maximum = 1048576, .fallback_words = "what transition and attenuation need, made odd",
        .sentence = "Length of the filter; for fk of the FIR of each wavenumber, odd."}},
    [KEY_ANALYTIC] = {SECTION_FILTER, .applies = KIND(BANDPASS) | MATCHED, .row = {"analytic", OPTION_BOOLEAN, .fallback = "no",
        .sentence = "Whether the filter is complex, with no gain at negative frequencies: its real part is the plain filter, its magnitude the envelope."}},
    [KEY_FILTER_PATH] = {SECTION_FILTER, .applies = KIND(FILE) | KIND(REPLICA), .required = KIND(FILE) | KIND(REPLICA), .row = {"path", OPTION_PATH,
        .sentence = "Taps or replica: WAV, .npy (float or complex), or text with one tap a line, `re` or `re im`; one set, or one for each channel."}},
    [KEY_DELAY] = {SECTION_FILTER, .row = {"delay", OPTION_DELAY, .minimum = 0, .maximum = 1048576, .fallback_words = "known by design; for files (S - 1) / 2 if the taps are symmetric, else 0 with a warning",
        .sentence = "Delay to declare, in frames or as a time, where it is not known by design."}},
    [KEY_NORMALISE] = {SECTION_FILTER, .applies = MATCHED, .row = {"normalise", OPTION_CHOICE, .choices = normalises, .fallback = "amplitude",
        .sentence = "amplitude: an echo of amplitude a peaks at a; energy: white noise keeps its RMS; none: the plain correlation."}},
    [KEY_WINDOW] = {SECTION_FILTER, .applies = MATCHED, .row = {"window", OPTION_CHOICE, .choices = windows, .fallback_words = "hann for a tone burst, else none",
        .sentence = "Window of the pulse as it was sent."}},
    [KEY_TAPER] = {SECTION_FILTER, .applies = MATCHED | ARRAY, .row = {"taper", OPTION_RATIO, .minimum = 0, .above_minimum = true, .maximum = 1, .fallback = "25 %",
        .sentence = "Part of a Tukey window that is tapered, both ends together; for fk the full width of each edge over that of the fan, in slowness."}},
    [KEY_START] = {SECTION_FILTER, .applies = KIND(CHIRP), .required = KIND(CHIRP), .row = {"start", OPTION_FREQUENCY, .minimum = 0, .above_minimum = true, .maximum = 5e9,
        .sentence = "First frequency of the chirp."}},
    [KEY_STOP] = {SECTION_FILTER, .applies = KIND(CHIRP), .required = KIND(CHIRP), .row = {"stop", OPTION_FREQUENCY, .minimum = 0, .maximum = 5e9,
        .sentence = "Last frequency of the chirp."}},
    [KEY_FILTER_LENGTH] = {SECTION_FILTER, .applies = KIND(CHIRP), .required = KIND(CHIRP), .row = {"length", OPTION_TIME, .minimum = 0, .above_minimum = true, .maximum = 3600,
        .sentence = "Duration of the chirp."}},
    [KEY_CYCLES] = {SECTION_FILTER, .applies = KIND(TONE_BURST), .required = KIND(TONE_BURST), .row = {"cycles", OPTION_NUMBER, .minimum = 0, .above_minimum = true, .maximum = 1e6,
        .sentence = "Cycles of the carrier in the tone burst."}},
    [KEY_CODE] = {SECTION_FILTER, .applies = KIND(BARKER), .required = KIND(BARKER), .row = {"code", OPTION_CHOICE, .choices = codes,
        .sentence = "Length of the Barker code in chips."}},
    [KEY_ORDER] = {SECTION_FILTER, .applies = KIND(GOLAY), .required = KIND(GOLAY), .row = {"order", OPTION_COUNT, .minimum = 1, .maximum = 16,
        .sentence = "Order k of the Golay pair: 2^k chips."}},
    [KEY_PAIR] = {SECTION_FILTER, .applies = KIND(GOLAY), .row = {"pair", OPTION_CHOICE, .choices = pairs, .fallback = "a",
        .sentence = "Which code of the Golay pair."}},
    [KEY_CARRIER] = {SECTION_FILTER, .applies = CODED | KIND(TONE_BURST), .required = KIND(TONE_BURST), .row = {"carrier", OPTION_FREQUENCY, .minimum = 0, .maximum = 5e9, .fallback_words = "chip rate times cycles per chip",
        .sentence = "Carrier frequency of the code or tone burst."}},
    [KEY_CHIP_RATE] = {SECTION_FILTER, .applies = CODED, .row = {"chip rate", OPTION_FREQUENCY, .minimum = 0, .above_minimum = true, .maximum = 5e9, .fallback_words = "carrier over cycles per chip",
        .sentence = "Chips per second."}},
    [KEY_CYCLES_PER_CHIP] = {SECTION_FILTER, .applies = CODED, .row = {"cycles per chip", OPTION_NUMBER, .minimum = 0, .above_minimum = true, .maximum = 1e6, .fallback_words = "carrier over chip rate",
        .sentence = "Cycles of the carrier in one chip."}},
    [KEY_GAIN] = {SECTION_FILTER, .row = {"gain", OPTION_DECIBEL, .minimum = -200, .maximum = 200, .fallback = "0 dB",
        .sentence = "Gain on all taps."}},
    [KEY_INVERT] = {SECTION_FILTER, .row = {"invert", OPTION_BOOLEAN, .fallback = "no",
        .sentence = "Whether the taps change their sign."}},
    [KEY_SPACING] = {SECTION_FILTER, .applies = ARRAY, .required = ARRAY, .row = {"spacing", OPTION_LENGTH, .minimum = 0, .above_minimum = true, .maximum = 1e5,
        .sentence = "Distance of two neighbouring sensors of the line array, channel 1 at one end."}},
    [KEY_VELOCITY_LOW] = {SECTION_FILTER, .applies = ARRAY, .required = ARRAY, .row = {"velocity low", OPTION_VELOCITY, .minimum = -1e6, .maximum = 1e6,
        .sentence = "Apparent phase velocity along the array at the slow edge of the fan; positive towards higher channels, negative towards channel 1."}},
    [KEY_VELOCITY_HIGH] = {SECTION_FILTER, .applies = ARRAY, .row = {"velocity high", OPTION_VELOCITY, .minimum = -1e6, .maximum = 1e6, .fallback_words = "minus `velocity low`: all faster waves, of both directions",
        .sentence = "The same at the other edge; edges of opposite signs enclose the wave that meets all sensors at once."}},
    [KEY_FAN] = {SECTION_FILTER, .applies = ARRAY, .row = {"fan", OPTION_CHOICE, .choices = fans, .fallback = "pass",
        .sentence = "pass: only waves of the fan pass; reject: all others do, and whatever lies outside of `low` and `high`."}},
    [KEY_PADDING] = {SECTION_FILTER, .applies = ARRAY, .row = {"padding", OPTION_COUNT, .minimum = 1, .maximum = FK_PADDING_MAX, .fallback_words = "three times the channels",
        .sentence = "Zero channels behind the array, so that its ends do not wrap into each other; at least the channels less one."}},
    [KEY_SINK_TYPE] = {SECTION_SINK, .row = {"type", OPTION_CHOICE, .choices = sink_types, .required = true,
        .sentence = "Where the results go."}},
    [KEY_SINK_STREAM] = {SECTION_SINK, .scope = SCOPE_FRAMES, .needed = SCOPE_FRAMES, .row = {"stream", OPTION_NAME,
        .sentence = "The stream whose results go here."}},
    [KEY_SINK_ANALYSIS] = {SECTION_SINK, .scope = SCOPE_EVENTS, .needed = SCOPE_EVENTS, .row = {"analysis", OPTION_NAME,
        .sentence = "The analysis whose events go here."}},
    [KEY_SINK_FORMAT] = {SECTION_SINK, .scope = SCOPE_TYPED, .row = {"format", OPTION_OWN, .words = "sample format", .parse = schema_parse_format, .fallback_words = sink_formats,
        .sentence = "Format of one sample: s16 (L16), s24 (L24), s32 or f32, in the byte order of the default."}},
    [KEY_SINK_FULL_SCALE] = {SECTION_SINK, .scope = SCOPE_TYPED, .row = {"full scale", OPTION_AMPLITUDE, .minimum = 0, .above_minimum = true, .maximum = 1e12, .fallback_words = "the largest of the stream's channels for integers, 1 for f32",
        .sentence = "The value that becomes a full-scale code; larger ones saturate and are counted."}},
    [KEY_OSC_ADDRESS] = {SECTION_OSC, .row = {"address", OPTION_ADDRESS, .fallback = "127.0.0.1:9000",
        .sentence = "Where the server receives datagrams: an own address or * for every address, a colon and the port."}},
    [KEY_OSC_TCP_ADDRESS] = {SECTION_OSC, .row = {"tcp address", OPTION_ADDRESS, .fallback_words = "none",
        .sentence = "Where it takes TCP connections, whose packets stand behind their length (OSC 1.0) or between SLIP's END bytes (OSC 1.1)."}},
    [KEY_OSC_ALLOW] = {SECTION_OSC, .row = {"allow", OPTION_TEXT, LIST_COMMA, .fallback_words = "only this machine",
        .sentence = "Addresses and networks that are listened to, such as 192.0.2.7, 10.0.0.0/8 or any; they are answered, and their datagrams with blocks taken, once they have returned a challenge, which shows that their address is not forged."}},
    [KEY_OSC_TRUST] = {SECTION_OSC, .row = {"trust", OPTION_TEXT, LIST_COMMA, .fallback_words = "only this machine",
        .sentence = "Addresses and networks that are listened to and answered without a challenge: patches that cannot return one."}},
    [KEY_OSC_CONTROL] = {SECTION_OSC, .row = {"control", OPTION_TEXT, LIST_COMMA, .fallback_words = "this machine and those of `trust`",
        .sentence = "Addresses and networks, of those listened to, that may change something (filters, gains, marks, recordings, a reload), such as 192.0.2.7, or none; the others may ask, subscribe and send blocks."}},
    [KEY_OSC_LEASE] = {SECTION_OSC, .row = {"lease", OPTION_TIME, .minimum = 1, .maximum = 3600, .fallback = "60 s",
        .sentence = "How long a subscription lasts unless it is renewed, and an address stays proven after its last word."}},
    [KEY_OSC_TCP_TIMEOUT] = {SECTION_OSC, .row = {"tcp timeout", OPTION_TIME, .minimum = 0.1, .maximum = 3600, .fallback = "10 s",
        .sentence = "A TCP connection is closed when a packet is not complete after this time, or nothing is read at its other end."}},
    [KEY_OSC_TCP_IDLE] = {SECTION_OSC, .row = {"tcp idle", OPTION_TIME, .minimum = 1, .maximum = 1e6, .fallback = "600 s",
        .sentence = "A TCP connection is closed when no packet has gone either way for this time; after `tcp timeout` already when a new connection finds all 32 taken."}},
    [KEY_OSC_RECEIVE_BUFFER] = {SECTION_OSC, .row = {"receive buffer", OPTION_MEMORY, .minimum = 4 * KI, .maximum = GI, .fallback = "16 MiB",
        .sentence = "Size asked for the receive buffer of the UDP socket."}},
    [KEY_QUANTITY] = {SECTION_ALARM, .row = {"quantity", OPTION_CHOICE, .required = true, .choices = alarm_quantities,
        .sentence = alarm_sentence}},
    [KEY_ALARM_STREAM] = {SECTION_ALARM, .row = {"stream", OPTION_NAME, .required = true,
        .sentence = "The stream it watches."}},
    [KEY_ALARM_CHANNEL] = {SECTION_ALARM, .applies = OF_CHANNEL, .row = {"channel", OPTION_COUNT, LIST_COMMA, .minimum = 1, .maximum = 1024, .fallback_words = "every channel but the `unused` ones",
        .sentence = "The input channels it watches, counted from 1, such as 1, 3; each raises it for itself."}},
    [KEY_ABOVE] = {SECTION_ALARM, .applies = LIMITED, .row = {"above", OPTION_TEXT, .fallback_words = "no limit",
        .sentence = "The value must be above this: an amplitude for level, a time for silence, latency and flat line, a frequency for rate, else a number."}},
    [KEY_BELOW] = {SECTION_ALARM, .applies = LIMITED, .row = {"below", OPTION_TEXT, .fallback_words = "no limit",
        .sentence = "Or it must be below this."}},
    [KEY_WITHIN] = {SECTION_ALARM, .applies = WINDOWED, .row = {"within", OPTION_TIME, .minimum = 0.1, .maximum = 86400, .fallback = "1 s",
        .sentence = "The time over which the value is taken."}},
    [KEY_FOR] = {SECTION_ALARM, .row = {"for", OPTION_TIME, .minimum = 0, .maximum = 86400, .fallback = "0 s",
        .sentence = "How long the value must be beyond the limit before the alarm is raised."}},
    [KEY_HOLD] = {SECTION_ALARM, .row = {"hold", OPTION_TIME, .minimum = 0, .maximum = 86400, .fallback = "0 s",
        .sentence = "How long the alarm lasts at least."}},
    [KEY_HYSTERESIS] = {SECTION_ALARM, .applies = LIMITED, .row = {"hysteresis", OPTION_RATIO, .minimum = 0, .maximum = 1, .fallback = "0 %",
        .sentence = "By which part of the limit the value must come back before the alarm ends."}},
    [KEY_EXEC] = {SECTION_ALARM, .row = {"exec", OPTION_BOOLEAN, .fallback = "no",
        .sentence = "Whether the service manager starts convolv-alarm@NAME.service, NAME being the alarm's, when it is raised and when it ends. Needs a `state directory`, and systemctl enable --now convolv-alarm@NAME.path."}},
    [KEY_ANALYSIS_TYPE] = {SECTION_ANALYSIS, .row = {"type", OPTION_CHOICE, .choices = analysis_types, .required = true,
        .sentence = analysis_sentence}},
    [KEY_ANALYSIS_STREAM] = {SECTION_ANALYSIS, .scope = SCOPE_FRAMES, .needed = SCOPE_FRAMES, .row = {"stream", OPTION_NAME,
        .sentence = "The stream whose results it analyses."}},
    [KEY_ANALYSIS_ANALYSIS] = {SECTION_ANALYSIS, .scope = SCOPE_EVENTS, .needed = SCOPE_EVENTS, .row = {"analysis", OPTION_NAME,
        .sentence = "The analysis whose events it takes."}},
    [KEY_ANALYSIS_KEEP] = {SECTION_ANALYSIS, .row = {"keep", OPTION_OWN, LIST_COMMA, .words = "FIELD > NUMBER", .parse = limit_option, .fallback_words = "all events",
        .sentence = "Limits that an event's values must hold to leave the analysis, as in peak_db > 45, duration_us >= 50; the others are counted. A value that is not defined holds none."}},
    [KEY_ANALYSIS_BUFFER] = {SECTION_ANALYSIS, .row = {"buffer", OPTION_MEMORY, .minimum = 65536, .maximum = 17179869184.0, .fallback_words = "one second of frames, from 1 MiB to 64 MiB; for events 4 MiB",
        .sentence = "Memory between the stream, or the other analysis, and this one. While it is full, a source that can wait does; of a live one whole blocks are dropped, counted, and are dead time."}},
};
/* clang-format on */
