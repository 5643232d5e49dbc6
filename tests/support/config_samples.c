/* Small configurations for tests; config_samples.h describes them. */
#include "tests/support/config_samples.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static int sample_probe(const char *path, double *rate_hz, uint32_t *channels,
                        struct sample_format *format, uint64_t *frames, struct problem *problem)
{
    if (strstr(path, "missing") != NULL)
        return problem_set(problem, ERROR_NO_FILE, "recording %s cannot be read", path);
    *rate_hz = 48000;
    *channels = 2;
    *frames = strstr(path, "empty") != NULL ? 0 : 48000;
    return sample_format_parse("s16le", format);
}

static bool sample_readable(const char *path)
{
    return strstr(path, "missing") == NULL;
}

static int sample_recordable(const struct sink_options *options, struct problem *problem)
{
    if (strstr(options->path, "refused") == NULL)
        return 0;
    return problem_set(problem, ERROR_UNSUPPORTED, "the writer refuses");
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

const struct config_world sample_world = {
    .probe = sample_probe,
    .readable = sample_readable,
    .recordable = sample_recordable,
    .makeable = sample_makeable,
    .environment = sample_environment,
    .variant = sample_variant,
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

/* ---- the smallest valid configuration ---------------------------------------------------------
 */

struct line {
    const char *key, *value;
};

enum { LINES_MAX = 6 };

/* What each type needs to be valid. */
static const struct line sources[SOURCE_KINDS][LINES_MAX] = {
    [SOURCE_RTP] = {{"address", "239.1.2.3:5004"}, {"rate", "500 kHz"}, {"filter", "spare"}},
    [SOURCE_UDP] = {{"address", "239.1.2.3:5004"}, {"rate", "500 kHz"}, {"filter", "spare"}},
    [SOURCE_UDP_SEQ] = {{"address", "239.1.2.3:5004"}, {"rate", "500 kHz"}, {"filter", "spare"}},
    [SOURCE_FILE] = {{"path", "some.wav"}, {"filter", "spare"}},
    [SOURCE_GENERATOR] = {{"rate", "500 kHz"}, {"filter", "spare"}},
    [SOURCE_OSC] = {{"rate", "500 kHz"}, {"filter", "spare"}},
    [SOURCE_PORTAUDIO] = {{"card", "system"}, {"rate", "48 kHz"}, {"filter", "spare"}},
    [SOURCE_STREAM] = {{"filter", "spare"}},
};

static const struct line filters[FILTER_TYPES][LINES_MAX] = {
    [FILTER_LOWPASS] = {{"cutoff", "50 kHz"}},
    [FILTER_HIGHPASS] = {{"cutoff", "50 kHz"}},
    [FILTER_BANDPASS] = {{"low", "50 kHz"}, {"high", "100 kHz"}},
    [FILTER_BANDSTOP] = {{"low", "50 kHz"}, {"high", "100 kHz"}},
    [FILTER_FILE] = {{"path", "taps.npy"}},
    [FILTER_CHIRP] = {{"start", "20 kHz"}, {"stop", "80 kHz"}, {"length", "100 us"}},
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

static const struct line sinks[SINK_KINDS][LINES_MAX] = {
    [SINK_RTP] = {{"stream", "base"}, {"address", "127.0.0.1:6000"}},
    [SINK_RECORDING] = {{"stream", "base"}, {"path", "out.wav"}},
    [SINK_OSC] = {{"stream", "base"}},
    [SINK_PORTAUDIO] = {{"stream", "base"}, {"card", "system"}},
};

/* Keys that stand in for one that the type needs, or need a partner. */
static const struct {
    enum schema_id id;
    const char *instead_of;
    struct line partner;
} company[] = {
    {KEY_BANK, "filter", {NULL, NULL}},
    {KEY_ROUTE, "filter", {NULL, NULL}},
    {KEY_BITS, NULL, {"format", "s16le"}},
    {KEY_JUSTIFY, NULL, {"bits", "12"}},
    {KEY_JUSTIFY, NULL, {"format", "s16le"}},
    {KEY_LOW, "cutoff", {NULL, NULL}},
    {KEY_HIGH, "cutoff", {NULL, NULL}},
    {KEY_TAPER, NULL, {"window", "tukey"}},
    {KEY_KEEP, NULL, {"rotate", "1 min"}},
    {KEY_CHIP_RATE, "carrier", {NULL, NULL}},
    {KEY_FREQUENCY_END, NULL, {"waveform", "chirp"}},
    {KEY_MAX_MISORDER, NULL, {"reorder", "0"}},
    {KEY_REORDER, NULL, {"max misorder", "10 s"}},
    {KEY_DEPTH, NULL, {"batches", "16"}},
};

/* Values for keys without a default, or whose default is not good in every company. */
static const struct {
    enum schema_id id;
    const char *value;
} good_values[] = {
    {KEY_RUNTIME_DIRECTORY, "run"},
    {KEY_STATE_DIRECTORY, "state"},
    {KEY_STATUS_FILE, "s.json"},
    {KEY_KERNELS, "kernels"},
    {KEY_CACHE, "cache"},
    {KEY_DEPTH, "3"},
    {KEY_SOURCE, "generator"},
    {KEY_ADDRESS, "[ff15::1]:5004"},
    {KEY_INTERFACE, "eth1"},
    {KEY_ALLOW, "10.0.0.7"},
    {KEY_SSRC, "0xdeadbeef"},
    {KEY_PATH, "some.wav"},
    {KEY_RATE, "500 kHz"},
    {KEY_CARD, "hw:1,0"},
    {KEY_CHANNEL_MAP, "3"},
    {KEY_DEVICE_PERIOD, "128 frames"},
    {KEY_ROUND_TRIP, "200 frames"},
    {KEY_FORMAT, "s16"},
    {KEY_BITS, "12"},
    {KEY_JUSTIFY, "left"},
    {KEY_UNIT, "V"},
    {KEY_LATENCY, "10 ms"},
    {KEY_DEADLINE, "1 ms"},
    {KEY_BUFFER, "1 s"},
    {KEY_FILTER, "spare"},
    {KEY_BANK, "spare, spare"},
    {KEY_ROUTE, "1 -> spare -6 dB -> 1"},
    {KEY_STREAM_DEVICE, "gpu"},
    {KEY_VARIANT, "fused"},
    {KEY_FFT, "4096"},
    {KEY_AMPLITUDE, "0.5"},
    {KEY_FREQUENCY, "30 kHz"},
    {KEY_FREQUENCY_END, "90 kHz"},
    {KEY_LENGTH, "100 us"},
    {KEY_PERIOD, "10 ms"},
    {KEY_CHANNEL_DELAY, "10 us"},
    {KEY_NOISE, "0.1"},
    {KEY_ARRIVALS, "30 /s"},
    {KEY_RISE, "10 us"},
    {KEY_DECAY, "90 us"},
    {KEY_DURATION, "10 s"},
    {KEY_TYPE, "identity"},
    {KEY_LOW, "40 kHz"},
    {KEY_HIGH, "120 kHz"},
    {KEY_CUTOFF, "60 kHz"},
    {KEY_TRANSITION, "20 kHz"},
    {KEY_RIPPLE, "0.5 dB"},
    {KEY_TAPS, "101"},
    {KEY_FILTER_PATH, "taps.npy"},
    {KEY_DELAY, "10 us"},
    {KEY_START, "10 kHz"},
    {KEY_STOP, "90 kHz"},
    {KEY_FILTER_LENGTH, "200 us"},
    {KEY_CODE, "7"},
    {KEY_ORDER, "4"},
    {KEY_CARRIER, "50 kHz"},
    {KEY_CHIP_RATE, "20 kHz"},
    {KEY_CYCLES, "3"},
    {KEY_SPACING, "4 mm"},
    {KEY_VELOCITY_LOW, "-6 km/s"},
    {KEY_VELOCITY_HIGH, "12 mm/us"},
    {KEY_PADDING, "64"},
    {KEY_SINK_TYPE, "rtp"},
    {KEY_SINK_STREAM, "base"},
    {KEY_SINK_FORMAT, "s16"},
    {KEY_SINK_FULL_SCALE, "2"},
    {KEY_SINK_ADDRESS, "239.1.2.3:6000"},
    {KEY_SINK_INTERFACE, "eth1"},
    {KEY_SINK_SSRC, "17"},
    {KEY_SDP, "x.sdp"},
    {KEY_SINK_PATH, "other.wav"},
    {KEY_ROTATE, "10 min"},
    {KEY_KEEP, "5"},
    {KEY_SINK_CARD, "hw:1,0"},
    {KEY_SINK_CHANNEL_MAP, "3"},
    {KEY_SINK_DEVICE_PERIOD, "128 frames"},
    {KEY_SINK_LATENCY, "10 ms"},
    {KEY_OSC_TCP_ADDRESS, "*:9001"},
    {KEY_OSC_ALLOW, "10.0.0.0/8"},
    {KEY_OSC_TRUST, "192.0.2.7"},
};

const char *sample_good(const struct schema_key *key)
{
    for (size_t i = 0; i < sizeof good_values / sizeof good_values[0]; i++)
        if (&schema_keys[good_values[i].id] == key)
            return good_values[i].value;
    return key->fallback;
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
    snprintf(line, sizeof line, "%s = %s", key->key, value);
    return append(text, bytes, line);
}

unsigned sample_around(const struct schema_key *key, int type, const char *value, char *text,
                       size_t bytes)
{
    const struct schema_section *section = &schema_sections[key->section];
    snprintf(text, bytes,
             "[stream base]\nsource = generator\nrate = 500 kHz\nfilter = spare\n"
             "[filter spare]\ntype = identity\n");
    if (key->section == SECTION_FILTER)
        append(text, bytes,
               "[stream user]\nsource = generator\nrate = 500 kHz\nchannels = 8\nfilter = sample\n"
               "[sink users]\ntype = rtp\nstream = user\naddress = 127.0.0.1:6001");
    if (key->section == SECTION_STREAM)
        append(text, bytes,
               "[sink samples]\ntype = recording\nstream = sample\npath = samples.wav");
    append(text, bytes, "[sink base]\ntype = rtp\nstream = base\naddress = 127.0.0.1:6002");
    char heading[80];
    snprintf(heading, sizeof heading, section->named ? "[%s sample]" : "[%s]", section->word);
    append(text, bytes, heading);

    const struct line *needs = key->section == SECTION_STREAM   ? sources[type]
                               : key->section == SECTION_FILTER ? filters[type]
                               : key->section == SECTION_SINK   ? sinks[type]
                                                                : NULL;
    bool is_type = section->type_key != NULL && strcmp(key->key, section->type_key) == 0;
    if (section->type_key != NULL && !is_type) {
        char name[64];
        snprintf(name, sizeof name, "%s%s", schema_type_name(key->section, type),
                 key->section == SECTION_STREAM && type == SOURCE_STREAM ? " base" : "");
        append_setting(text, bytes, section->type_key, name);
    }
    const char *instead_of = "";
    for (size_t i = 0; i < sizeof company / sizeof company[0]; i++) {
        if (&schema_keys[company[i].id] != key)
            continue;
        if (company[i].instead_of != NULL)
            instead_of = company[i].instead_of;
        const struct schema_key *partner = company[i].partner.key != NULL
                                               ? schema_find(key->section, company[i].partner.key)
                                               : NULL;
        bool applies = partner != NULL && (partner->applies == 0 || (partner->applies >> type) & 1);
        if (applies)
            append_setting(text, bytes, company[i].partner.key, company[i].partner.value);
    }
    for (int i = 0; needs != NULL && i < LINES_MAX && needs[i].key != NULL; i++)
        if (strcmp(needs[i].key, key->key) != 0 && strcmp(needs[i].key, instead_of) != 0)
            append_setting(text, bytes, needs[i].key, needs[i].value);
    return finish(key, value, text, bytes);
}
