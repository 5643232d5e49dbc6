/* Small configurations for tests; config_samples.h describes them. */
#include "tests/support/config_samples.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "io/recording/recording.h"
#include "tests/support/scratch.h"

static int sample_probe(const struct source_ops *driver, const struct source_options *options,
                        struct source_facts *facts, struct problem *problem)
{
    const struct file_options *own = options->own; /* every such driver's begins with its path */
    (void)driver;
    if (strstr(own->path, "missing") != NULL)
        return problem_set(problem, ERROR_NO_FILE, "recording %s cannot be read", own->path);
    facts->rate_hz = 48000;
    facts->channels = 2;
    facts->frames = strstr(own->path, "empty") != NULL ? 0 : 48000;
    return sample_format_parse("s16le", &facts->format);
}

static bool sample_readable(const char *path)
{
    return strstr(path, "missing") == NULL;
}

/* Filters from files exist by name only here. */
static int sample_makeable(const struct filter_spec *spec, double rate_hz, struct problem *problem)
{
    struct taps **sets;
    uint32_t count;
    if (spec->path != NULL)
        return 0;
    int status = filter_make(spec, rate_hz, &sets, &count, NULL, problem);
    if (status == 0)
        taps_sets_free(sets, count);
    return status;
}

static const char *sample_environment(const char *name)
{
    (void)name;
    return NULL;
}

static const char *sample_variant(int index)
{
    static const char *const names[] = {"fused", "general"};
    return index < 2 ? names[index] : NULL;
}

static bool sample_nodes(struct number_set *nodes)
{
    return number_set_parse("0-1,4", nodes);
}

const struct config_world sample_world = {
    .probe = sample_probe,
    .readable = sample_readable,
    .makeable = sample_makeable,
    .environment = sample_environment,
    .variant = sample_variant,
    .nodes = sample_nodes,
};

int sample_load(const char *text, struct config **config, struct config_errors *errors)
{
    *errors = (struct config_errors){0};
    return config_load_text("test.conf", text, strlen(text), &sample_world, config, errors);
}

bool sample_message(const struct config_errors *errors, unsigned line, bool warning,
                    const char *words)
{
    for (unsigned i = 0; i < errors->count; i++)
        if (errors->messages[i].line == line && errors->messages[i].warning == warning &&
            strstr(errors->messages[i].text, words) != NULL)
            return true;
    return false;
}

char *sample_messages(const struct config_errors *errors)
{
    char *text = NULL;
    size_t bytes = 0;
    FILE *file = open_memstream(&text, &bytes);
    config_errors_print(errors, file);
    fclose(file);
    return text;
}

bool sample_says(const struct config_errors *errors, const char *words)
{
    char *text = sample_messages(errors);
    const bool says = strstr(text, words) != NULL;
    free(text);
    return says;
}

/* ---- the smallest valid configuration ---------------------------------------------------------
 */

struct line {
    const char *key, *value;
};

enum { LINES_MAX = 6 };

/* What each type needs to be valid. */
static const struct {
    const char *type;
    struct line lines[LINES_MAX];
} sources[] =
    {
        {"rtp", {{"address", "239.1.2.3:5004"}, {"rate", "500 kHz"}, {"filter", "spare"}}},
        {"udp", {{"address", "239.1.2.3:5004"}, {"rate", "500 kHz"}, {"filter", "spare"}}},
        {"udp-seq", {{"address", "239.1.2.3:5004"}, {"rate", "500 kHz"}, {"filter", "spare"}}},
        {"file", {{"path", "some.wav"}, {"filter", "spare"}}},
        {"generator", {{"rate", "500 kHz"}, {"filter", "spare"}}},
        {"osc", {{"rate", "500 kHz"}, {"filter", "spare"}}},
        {"portaudio", {{"card", "system"}, {"rate", "48 kHz"}, {"filter", "spare"}}},
        {"stdin", {{"rate", "500 kHz"}, {"filter", "spare"}}},
        {"tradb", {{"path", "some.tradb"}, {"filter", "spare"}}},
        {"nats", {{"partition", "rig1"}, {"rate", "500 kHz"}, {"filter", "spare"}}},
        {"stream", {{"filter", "spare"}}},
},
  sinks[] =
      {
          {"rtp", {{"stream", "base"}, {"address", "127.0.0.1:6000"}}},
          {"recording", {{"stream", "base"}, {"path", "out.wav"}}},
          {"osc", {{"stream", "base"}}},
          {"portaudio", {{"stream", "base"}, {"card", "system"}}},
          {"stdout", {{"stream", "base"}}},
          {"nats", {{"stream", "base"}, {"partition", "rig1"}, {"record", "input"}}},
          {"csv", {{"analysis", "watch"}, {"path", "out.csv"}}},
          {"jsonl", {{"analysis", "watch"}, {"path", "out.jsonl"}}},
          {"vallen", {{"analysis", "watch"}, {"path", "out.pridb"}}},
},
  analyses[] = {
      {"hits", {{"stream", "base"}, {"threshold", "5 V"}}},
      {"intervals", {{"stream", "base"}}},
      {"ascan", {{"stream", "base"}, {"period", "1 ms"}, {"range", "100 us"}}},
      {"vibration", {{"stream", "base"}}},
      {"location",
       {{"analysis", "watch"},
        {"sensors", "0 m 0 m, 1 m 0 m, 1 m 1 m, 0 m 1 m"},
        {"velocity", "3 km/s"}}},
      {"sensor-test", {{"analysis", "watch"}}},
};

/* Limits of alarms have the unit of their quantity. */
static const struct line alarms[ALARM_QUANTITIES][LINES_MAX] = {
    [ALARM_LEVEL] = {{"stream", "base"}, {"above", "5 V"}},
    [ALARM_OVERLOADS] = {{"stream", "base"}, {"above", "5"}},
    [ALARM_SILENCE] = {{"stream", "base"}, {"above", "5 s"}},
    [ALARM_LOSSES] = {{"stream", "base"}, {"above", "5"}},
    [ALARM_RATE] = {{"stream", "base"}, {"above", "5 kHz"}},
    [ALARM_PPM] = {{"stream", "base"}, {"above", "5"}},
    [ALARM_LATENCY] = {{"stream", "base"}, {"above", "5 ms"}},
    [ALARM_MISSES] = {{"stream", "base"}, {"above", "5"}},
    [ALARM_DEVICE] = {{"stream", "base"}},
    [ALARM_FLAT] = {{"stream", "base"}, {"above", "5 s"}},
    [ALARM_EVENTS] = {{"analysis", "watch"}, {"above", "5"}},
    [ALARM_SUM] = {{"analysis", "watch"}, {"above", "5 eu"}},
    [ALARM_FIELD] = {{"analysis", "watch"}, {"above", "60 dB"}},
    [ALARM_DEAD] = {{"analysis", "watch"}, {"above", "5 %"}},
};

static const struct line filters[FILTER_TYPES][LINES_MAX] = {
    [FILTER_LOWPASS] = {{"cutoff", "50 kHz"}},
    [FILTER_HIGHPASS] = {{"cutoff", "50 kHz"}},
    [FILTER_BANDPASS] = {{"low", "50 kHz"}, {"high", "100 kHz"}},
    [FILTER_BANDSTOP] = {{"low", "50 kHz"}, {"high", "100 kHz"}},
    [FILTER_FILE] = {{"path", "taps.npy"}},
    [FILTER_CHIRP] = {{"start", "20 kHz"}, {"stop", "80 kHz"}, {"length", "100 us"}},
    [FILTER_TONE_BURST] = {{"carrier", "40 kHz"}, {"cycles", "5"}},
    [FILTER_BARKER] = {{"code", "13"}, {"carrier", "40 kHz"}, {"cycles per chip", "2"}},
    [FILTER_GOLAY] = {{"order", "3"}, {"carrier", "40 kHz"}, {"cycles per chip", "2"}},
    [FILTER_REPLICA] = {{"path", "replica.npy"}},
    [FILTER_IDENTITY] = {{NULL, NULL}},
    [FILTER_FK] = {{"spacing", "5 mm"},
                   {"velocity low", "4000 m/s"},
                   {"velocity high", "9000 m/s"},
                   {"high", "150 kHz"},
                   {"taps", "63"}},
};

/* Keys that stand in for one that the type needs, or need a partner. */
static const struct {
    enum section_kind section;
    const char *key, *instead_of;
    struct line partner;
} company[] = {
    {SECTION_STREAM, "bank", "filter", {NULL, NULL}},
    {SECTION_STREAM, "route", "filter", {NULL, NULL}},
    {SECTION_STREAM, "bits", NULL, {"format", "s16le"}},
    {SECTION_STREAM, "excitation period", NULL, {"excitation", "0 frames"}},
    {SECTION_STREAM, "sensitivity", NULL, {"full scale", "10 V"}},
    {SECTION_STREAM, "hold", NULL, {"standby", "1"}},
    {SECTION_STREAM, "justify", NULL, {"bits", "12"}},
    {SECTION_STREAM, "justify", NULL, {"format", "s16le"}},
    {SECTION_FILTER, "low", "cutoff", {NULL, NULL}},
    {SECTION_FILTER, "high", "cutoff", {NULL, NULL}},
    {SECTION_FILTER, "taper", NULL, {"window", "tukey"}},
    {SECTION_SINK, "keep", NULL, {"rotate", "1 min"}},
    {SECTION_FILTER, "chip rate", "carrier", {NULL, NULL}},
    {SECTION_STREAM, "frequency end", NULL, {"waveform", "chirp"}},
    {SECTION_STREAM, "cycles", NULL, {"waveform", "tone-burst"}},
    {SECTION_STREAM, "window", NULL, {"waveform", "chirp"}},
    {SECTION_STREAM, "taper", NULL, {"waveform", "chirp"}},
    {SECTION_STREAM, "taper", NULL, {"window", "tukey"}},
    {SECTION_STREAM, "max misorder", NULL, {"reorder", "0"}},
    {SECTION_STREAM, "reorder", NULL, {"max misorder", "10 s"}},
    {SECTION_DEVICE, "depth", NULL, {"batches", "16"}},
    {SECTION_ALARM, "below", "above", {NULL, NULL}},
    {SECTION_ANALYSIS, "hdt", NULL, {"threshold", "5 V"}},
    {SECTION_ANALYSIS, "hlt", NULL, {"threshold", "5 V"}},
    {SECTION_ANALYSIS, "max duration", NULL, {"threshold", "5 V"}},
    {SECTION_ANALYSIS, "counts", NULL, {"threshold", "5 V"}},
    {SECTION_ANALYSIS, "thickness", NULL, {"gate", "a: width 10 us, level 0.1 V"}},
    {SECTION_ANALYSIS, "thickness", NULL, {"sound velocity", "5920 m/s"}},
    {SECTION_ANALYSIS, "probe separation", NULL, {"sound velocity", "5920 m/s"}},
    {SECTION_ANALYSIS, "envelope low", NULL, {"envelope high", "90 kHz"}},
    {SECTION_ANALYSIS, "envelope high", NULL, {"envelope low", "10 kHz"}},
    {SECTION_ANALYSIS, "pulses", NULL, {"tacho", "2"}},
    {SECTION_ANALYSIS, "tacho level", NULL, {"tacho", "2"}},
    {SECTION_ANALYSIS, "tacho hysteresis", NULL, {"tacho", "2"}},
    {SECTION_ANALYSIS, "elements", NULL, {"element diameter", "8 mm"}},
    {SECTION_ANALYSIS, "elements", NULL, {"pitch diameter", "39 mm"}},
    {SECTION_ANALYSIS, "elements", NULL, {"speed", "25 Hz"}},
    {SECTION_ANALYSIS, "element diameter", NULL, {"elements", "9"}},
    {SECTION_ANALYSIS, "element diameter", NULL, {"pitch diameter", "39 mm"}},
    {SECTION_ANALYSIS, "element diameter", NULL, {"speed", "25 Hz"}},
    {SECTION_ANALYSIS, "pitch diameter", NULL, {"elements", "9"}},
    {SECTION_ANALYSIS, "pitch diameter", NULL, {"element diameter", "8 mm"}},
    {SECTION_ANALYSIS, "pitch diameter", NULL, {"speed", "25 Hz"}},
    {SECTION_ANALYSIS, "ftf", NULL, {"speed", "25 Hz"}},
    {SECTION_ANALYSIS, "bsf", NULL, {"speed", "25 Hz"}},
    {SECTION_ANALYSIS, "bpfo", NULL, {"speed", "25 Hz"}},
    {SECTION_ANALYSIS, "bpfi", NULL, {"speed", "25 Hz"}},
    {SECTION_ANALYSIS, "load drop", NULL, {"kaiser", "yes"}},
    {SECTION_ANALYSIS, "floating threshold", NULL, {"noise interval", "10 ms"}},
    {SECTION_ANALYSIS, "bands", NULL, {"spectrum", "1024 frames"}},
    {SECTION_STREAM, "sensors", NULL, {"waveform", "ae"}},
    {SECTION_STREAM, "sensors", NULL, {"velocity", "5000 m/s"}},
    {SECTION_STREAM, "velocity", NULL, {"waveform", "ae"}},
    {SECTION_STREAM, "velocity", NULL, {"sensors", "0"}},
    {SECTION_STREAM, "sources", NULL, {"waveform", "ae"}},
    {SECTION_STREAM, "sources", NULL, {"sensors", "0"}},
    {SECTION_STREAM, "sources", NULL, {"velocity", "5000 m/s"}},
    {SECTION_STREAM, "extent", NULL, {"waveform", "ae"}},
    {SECTION_STREAM, "extent", NULL, {"sensors", "0"}},
    {SECTION_STREAM, "extent", NULL, {"velocity", "5000 m/s"}},
    {SECTION_STREAM, "spreading", NULL, {"waveform", "ae"}},
    {SECTION_STREAM, "spreading", NULL, {"sensors", "0"}},
    {SECTION_STREAM, "spreading", NULL, {"velocity", "5000 m/s"}},
};

/* Values for keys without a default, or whose default is not good in every company. */
static const struct {
    enum section_kind section;
    const char *key, *value;
} good_values[] = {
    {SECTION_DAEMON, "runtime directory", "run"},
    {SECTION_DAEMON, "state directory", "state"},
    {SECTION_DAEMON, "status file", "s.json"},
    {SECTION_DEVICE, "kernels", "kernels"},
    {SECTION_DEVICE, "cache", "cache"},
    {SECTION_DEVICE, "depth", "3"},
    {SECTION_DEVICE, "batch deadline", "100 ms"},
    {SECTION_STREAM, "source", "generator"},
    {SECTION_STREAM, "address", "[ff15::1]:5004"},
    {SECTION_STREAM, "interface", "eth1"},
    {SECTION_STREAM, "allow", "10.0.0.7"},
    {SECTION_STREAM, "ssrc", "0xdeadbeef"},
    {SECTION_STREAM, "packet limit", "100000"},
    {SECTION_STREAM, "byte limit", "100 GiB"},
    {SECTION_STREAM, "path", "some.wav"},
    {SECTION_STREAM, "file channel", "2"},
    {SECTION_STREAM, "rate", "500 kHz"},
    {SECTION_STREAM, "card", "hw:1,0"},
    {SECTION_STREAM, "channel map", "3"},
    {SECTION_STREAM, "device period", "128 frames"},
    {SECTION_STREAM, "round trip", "200 frames"},
    {SECTION_STREAM, "format", "s16"},
    {SECTION_STREAM, "bits", "12"},
    {SECTION_STREAM, "justify", "left"},
    {SECTION_STREAM, "unit", "V"},
    {SECTION_STREAM, "sensitivity", "50 mV/Pa"},
    {SECTION_STREAM, "latency", "10 ms"},
    {SECTION_STREAM, "excitation", "100 frames"},
    {SECTION_STREAM, "excitation period", "10 ms"},
    {SECTION_STREAM, "deadline", "1 ms"},
    {SECTION_STREAM, "buffer", "1 s"},
    {SECTION_STREAM, "filter", "spare"},
    {SECTION_STREAM, "bank", "spare, spare"},
    {SECTION_STREAM, "route", "1 -> spare -6 dB -> 1"},
    {SECTION_STREAM, "device", "gpu"},
    {SECTION_STREAM, "variant", "fused"},
    {SECTION_STREAM, "fft", "4096"},
    {SECTION_STREAM, "amplitude", "0.5"},
    {SECTION_STREAM, "frequency", "30 kHz"},
    {SECTION_STREAM, "cycles", "5"},
    {SECTION_STREAM, "window", "hann"},
    {SECTION_STREAM, "frequency end", "90 kHz"},
    {SECTION_STREAM, "length", "100 us"},
    {SECTION_STREAM, "period", "10 ms"},
    {SECTION_STREAM, "channel delay", "10 us"},
    {SECTION_STREAM, "priority", "80"},
    {SECTION_STREAM, "noise", "0.1"},
    {SECTION_STREAM, "arrivals", "30 /s"},
    {SECTION_STREAM, "rise", "10 us"},
    {SECTION_STREAM, "decay", "90 us"},
    {SECTION_STREAM, "duration", "10 s"},
    {SECTION_STREAM, "sensors", "0.5 m"},
    {SECTION_STREAM, "sources", "200 mm, 1 m"},
    {SECTION_STREAM, "extent", "0, 2 m"},
    {SECTION_STREAM, "velocity", "5000 m/s"},
    {SECTION_FILTER, "type", "identity"},
    {SECTION_FILTER, "low", "40 kHz"},
    {SECTION_FILTER, "high", "120 kHz"},
    {SECTION_FILTER, "cutoff", "60 kHz"},
    {SECTION_FILTER, "transition", "20 kHz"},
    {SECTION_FILTER, "ripple", "0.5 dB"},
    {SECTION_FILTER, "taps", "101"},
    {SECTION_FILTER, "path", "taps.npy"},
    {SECTION_FILTER, "delay", "10 us"},
    {SECTION_FILTER, "start", "10 kHz"},
    {SECTION_FILTER, "stop", "90 kHz"},
    {SECTION_FILTER, "length", "200 us"},
    {SECTION_FILTER, "cycles", "7"},
    {SECTION_FILTER, "window", "hann"},
    {SECTION_FILTER, "code", "7"},
    {SECTION_FILTER, "order", "4"},
    {SECTION_FILTER, "carrier", "50 kHz"},
    {SECTION_FILTER, "chip rate", "20 kHz"},
    {SECTION_FILTER, "cycles per chip", "3"},
    {SECTION_FILTER, "spacing", "4 mm"},
    {SECTION_FILTER, "velocity low", "-6 km/s"},
    {SECTION_FILTER, "velocity high", "12 mm/us"},
    {SECTION_FILTER, "padding", "64"},
    {SECTION_SINK, "type", "rtp"},
    {SECTION_SINK, "stream", "base"},
    {SECTION_SINK, "analysis", "watch"},
    {SECTION_SINK, "format", "s16"},
    {SECTION_SINK, "full scale", "2"},
    {SECTION_SINK, "address", "239.1.2.3:6000"},
    {SECTION_SINK, "interface", "eth1"},
    {SECTION_SINK, "ssrc", "17"},
    {SECTION_SINK, "sdp", "x.sdp"},
    {SECTION_SINK, "path", "other.wav"},
    {SECTION_SINK, "range", "2 V"},
    {SECTION_SINK, "rotate", "10 min"},
    {SECTION_SINK, "keep", "5"},
    {SECTION_SINK, "start", "command"},
    {SECTION_SINK, "card", "hw:1,0"},
    {SECTION_SINK, "channel map", "3"},
    {SECTION_SINK, "device period", "128 frames"},
    {SECTION_SINK, "latency", "10 ms"},
    {SECTION_OSC, "tcp address", "*:9001"},
    {SECTION_OSC, "allow", "10.0.0.0/8"},
    {SECTION_OSC, "trust", "192.0.2.7"},
    {SECTION_OSC, "control", "none"},
    {SECTION_STREAM, "partition", "rig2"},
    {SECTION_STREAM, "hold", "5 s"},
    {SECTION_SINK, "partition", "rig2"},
    {SECTION_SINK, "record", "input"},
    {SECTION_CLUSTER, "identity", "worker-1"},
    {SECTION_CLUSTER, "credentials", "worker.creds"},
    {SECTION_CLUSTER, "ca", "ca.pem"},
    {SECTION_STREAM, "unused", "1"},
    {SECTION_STREAM, "noise floor", "0.1"},
    {SECTION_ANALYSIS, "type", "hits"},
    {SECTION_ANALYSIS, "stream", "base"},
    {SECTION_ANALYSIS, "analysis", "watch"},
    {SECTION_ANALYSIS, "release queue", "8 MiB"},
    {SECTION_ANALYSIS, "buffer", "8 MiB"},
    {SECTION_ANALYSIS, "keep", "that of its type"},
    {SECTION_ANALYSIS, "parameters", "load 2, temperature 1"},
    {SECTION_ANALYSIS, "parameter age", "200 ms"},
    {SECTION_ANALYSIS, "bands", "50-100 kHz"},
    {SECTION_ANALYSIS, "period", "2 ms"},
    {SECTION_ANALYSIS, "start", "3 frames"},
    {SECTION_ANALYSIS, "from", "4 us"},
    {SECTION_ANALYSIS, "range", "40 us"},
    {SECTION_ANALYSIS, "tcg", "0 us 0 dB, 20 us 12 dB"},
    {SECTION_ANALYSIS, "gate", "backwall: start 2 us, width 10 us, level 0.1 V"},
    {SECTION_ANALYSIS, "probe separation", "20 mm"},
    {SECTION_ANALYSIS, "sensors", "0 m 0 m, 2 m 0 m, 2 m 1 m, 0 m 1 m"},
    {SECTION_ANALYSIS, "extent", "0 m 0 m, 2 m 1 m"},
    {SECTION_ANALYSIS, "max dt", "1 ms"},
    {SECTION_ANALYSIS, "first hit discrimination", "2 ms"},
    {SECTION_ANALYSIS, "timing error", "1 us"},
    {SECTION_ANALYSIS, "velocity", "5 km/s"},
    {SECTION_ANALYSIS, "least hits", "3"},
    {SECTION_ANALYSIS, "cluster radius", "10 mm"},
    {SECTION_ANALYSIS, "pulse above", "95 dB"},
    {SECTION_ANALYSIS, "answers within", "20 ms"},
    {SECTION_ANALYSIS, "marked within", "5 s"},
    {SECTION_ANALYSIS, "pulsers", "1, 2"},
    {SECTION_ANALYSIS, "interval", "10 ms"},
    {SECTION_ANALYSIS, "threshold", "40 dB(AE)"},
    {SECTION_ANALYSIS, "floating time", "500 ms"},
    {SECTION_ANALYSIS, "hdt", "200 us"},
    {SECTION_ANALYSIS, "hlt", "300 us"},
    {SECTION_ANALYSIS, "max duration", "50 ms"},
    {SECTION_ANALYSIS, "sound velocity", "3230 m/s"},
    {SECTION_ANALYSIS, "thickness", "a"},
    {SECTION_ANALYSIS, "segment", "0.1 s"},
    {SECTION_ANALYSIS, "kurtosis segment", "256 frames"},
    {SECTION_ANALYSIS, "highest", "10 kHz"},
    {SECTION_ANALYSIS, "envelope low", "20 kHz"},
    {SECTION_ANALYSIS, "envelope high", "80 kHz"},
    {SECTION_ANALYSIS, "speed", "1500 rpm"},
    {SECTION_ANALYSIS, "tacho", "2"},
    {SECTION_ANALYSIS, "tacho level", "0.5 V"},
    {SECTION_ANALYSIS, "tacho hysteresis", "0.1 V"},
    {SECTION_ANALYSIS, "elements", "9"},
    {SECTION_ANALYSIS, "element diameter", "7.94 mm"},
    {SECTION_ANALYSIS, "pitch diameter", "39.04 mm"},
    {SECTION_ANALYSIS, "ftf", "0.4"},
    {SECTION_ANALYSIS, "bsf", "2.36"},
    {SECTION_ANALYSIS, "bpfo", "3.58"},
    {SECTION_ANALYSIS, "bpfi", "5.42"},
    {SECTION_ALARM, "stream", "base"},
    {SECTION_ALARM, "analysis", "watch"},
    {SECTION_ALARM, "channel", "1"},
    {SECTION_ALARM, "above", "that of its quantity"},
    {SECTION_ALARM, "below", "that of its quantity"},
};

/* A file that holds a secret for authentication tags. */
static const char *key_file(void)
{
    static char path[512];
    if (path[0] == '\0') {
        snprintf(path, sizeof path, "%s",
                 scratch_write(".key", "00112233445566778899aabbccddeeff"
                                       "00112233445566778899aabbccddeeff\n"));
        chmod(path, 0600);
    }
    return path;
}

const char *sample_good(const struct schema_key *key)
{
    if (strcmp(key->row.key, "key") == 0)
        return key_file();
    for (size_t i = 0; i < sizeof good_values / sizeof good_values[0]; i++)
        if (good_values[i].section == key->section && strcmp(good_values[i].key, key->row.key) == 0)
            return good_values[i].value;
    return key->row.fallback;
}

/* Appends to text; returns the number of the line written. */
static unsigned append(char *text, size_t bytes, const char *line)
{
    size_t used = strlen(text);
    unsigned number = 1;
    for (size_t i = 0; i < used; i++)
        number += text[i] == '\n';
    snprintf(text + used, bytes - used, "%s\n", line);
    return number;
}

static void append_setting(char *text, size_t bytes, const char *key, const char *value)
{
    char line[512];
    snprintf(line, sizeof line, "%s = %s", key, value);
    append(text, bytes, line);
}

static unsigned finish(const struct schema_key *key, const char *value, char *text, size_t bytes)
{
    char line[512];
    if (value == NULL)
        return append(text, bytes, "# without");
    snprintf(line, sizeof line, "%s = %s", key->row.key, value);
    return append(text, bytes, line);
}

static const struct line *needs_of(enum section_kind section, int type)
{
    const char *name = schema_type_name(section, type);
    if (section == SECTION_FILTER)
        return filters[type];
    if (section == SECTION_ALARM)
        return alarms[type];
    for (size_t i = 0; section == SECTION_STREAM && i < sizeof sources / sizeof sources[0]; i++)
        if (strcmp(sources[i].type, name) == 0)
            return sources[i].lines;
    for (size_t i = 0; section == SECTION_SINK && i < sizeof sinks / sizeof sinks[0]; i++)
        if (strcmp(sinks[i].type, name) == 0)
            return sinks[i].lines;
    for (size_t i = 0; section == SECTION_ANALYSIS && i < sizeof analyses / sizeof analyses[0]; i++)
        if (strcmp(analyses[i].type, name) == 0)
            return analyses[i].lines;
    return NULL;
}

/* The analysis whose events sinks and other analyses take here: the first that takes frames. */
static void append_analysis(char *text, size_t bytes)
{
    int type = 0;
    while (analysis_at(type) != NULL && analysis_at(type)->of_events)
        type++;
    if (analysis_at(type) == NULL)
        return;
    const struct line *needs = needs_of(SECTION_ANALYSIS, type);
    append(text, bytes, "[analysis watch]");
    append_setting(text, bytes, "type", analysis_at(type)->name);
    for (int i = 0; needs != NULL && i < LINES_MAX && needs[i].key != NULL; i++)
        append_setting(text, bytes, needs[i].key, needs[i].value);
}

/* A limit of the events that a type of analysis gives. */
static const char *kept_by(int type)
{
    static const char *const limits[ANALYSIS_EVENT_KINDS] = {
        [ANALYSIS_HIT] = "peak_db > 45, duration_us >= 50",
        [ANALYSIS_INTERVAL] = "rms > 0.1 V",
        [ANALYSIS_SOURCE] = "x_mm > 0",
        [ANALYSIS_ASCAN] = "averages > 0",
        [ANALYSIS_CONDITION] = "rms > 0.1 V",
    };
    return limits[analysis_at(type)->emits];
}

/* Where the sample stream's results go: those of a partition to its log alone. */
static const char *samples_sink(const struct schema_key *key, int type, const char *value)
{
    const bool held = value != NULL && strcmp(key->row.key, "hold") == 0; /* with standby */
    if (source_at(type) == NULL || (!held && strcmp(source_at(type)->name, "nats") != 0))
        return "[sink samples]\ntype = recording\nstream = sample\npath = samples.wav";
    return value != NULL && strcmp(key->row.key, "partition") == 0 && strcmp(value, "rig2") == 0
               ? "[sink samples]\ntype = nats\nstream = sample\npartition = rig2"
               : "[sink samples]\ntype = nats\nstream = sample\npartition = rig1";
}

unsigned sample_around(const struct schema_key *key, int type, const char *value, char *text,
                       size_t bytes)
{
    const struct schema_section *section = &schema_sections[key->section];
    /* With a field `stream` is there to be told that its quantity is unknown. */
    if (key->section == SECTION_ALARM && type == ALARM_FIELD && strcmp(key->row.key, "stream") == 0)
        type = ALARM_LEVEL;
    snprintf(
        text, bytes,
        "[stream base]\nsource = generator\nrate = 500 kHz\nfull scale = 10 V\n%sfilter = spare\n"
        "[filter spare]\ntype = identity\n",
        key->section == SECTION_ANALYSIS ? "channels = 4\n" : "");
    if (key->section == SECTION_FILTER)
        append(text, bytes,
               "[stream user]\nsource = generator\nrate = 500 kHz\nchannels = 8\nfilter = sample\n"
               "[sink users]\ntype = rtp\nstream = user\naddress = 127.0.0.1:6001");
    if (key->section == SECTION_STREAM)
        append(text, bytes, samples_sink(key, type, value));
    append(text, bytes, "[sink base]\ntype = rtp\nstream = base\naddress = 127.0.0.1:6002");
    if (key->section == SECTION_SINK || key->section == SECTION_ANALYSIS ||
        (key->section == SECTION_ALARM && alarm_quantity_of_analysis((enum alarm_quantity)type)))
        append_analysis(text, bytes);
    char heading[80];
    snprintf(heading, sizeof heading, section->named ? "[%s sample]" : "[%s]", section->word);
    append(text, bytes, heading);

    const struct line *needs = needs_of(key->section, type);
    bool is_type = section->type_key != NULL && strcmp(key->row.key, section->type_key) == 0;
    if (section->type_key != NULL && !is_type) {
        char name[64];
        const char *word = schema_type_name(key->section, type);
        bool chain = key->section == SECTION_STREAM && strcmp(word, "stream") == 0;
        if (key->section == SECTION_ALARM && type == ALARM_FIELD)
            word = "peak_db";
        snprintf(name, sizeof name, "%s%s", word, chain ? " base" : "");
        append_setting(text, bytes, section->type_key, name);
    }
    const char *instead_of = "";
    for (size_t i = 0; i < sizeof company / sizeof company[0]; i++) {
        if (company[i].section != key->section || strcmp(company[i].key, key->row.key) != 0)
            continue;
        if (company[i].instead_of != NULL)
            instead_of = company[i].instead_of;
        const struct schema_key *partner = company[i].partner.key != NULL
                                               ? schema_find(key->section, company[i].partner.key)
                                               : NULL;
        bool applies =
            partner != NULL && (partner->applies == 0 || (schema_applies(partner) >> type) & 1);
        for (int k = 0; needs != NULL && k < LINES_MAX && needs[k].key != NULL; k++)
            applies = applies && strcmp(needs[k].key, company[i].partner.key) != 0;
        if (applies)
            append_setting(text, bytes, company[i].partner.key, company[i].partner.value);
    }
    for (int i = 0; needs != NULL && i < LINES_MAX && needs[i].key != NULL; i++)
        if (strcmp(needs[i].key, key->row.key) != 0 && strcmp(needs[i].key, instead_of) != 0)
            append_setting(text, bytes, needs[i].key, needs[i].value);
    if (key->section == SECTION_ANALYSIS && strcmp(key->row.key, "keep") == 0 && value != NULL &&
        strcmp(value, sample_good(key)) == 0)
        value = kept_by(type);
    const bool limit = key->section == SECTION_ALARM && type != ALARM_DEVICE &&
                       (strcmp(key->row.key, "above") == 0 || strcmp(key->row.key, "below") == 0);
    return finish(key, limit && value != NULL ? alarms[type][1].value : value, text, bytes);
}
