/*
 * Streams of the configuration: sources, sample formats, calibration, blocks and times. Chains
 * (`source = stream NAME`) are put in order first, so that a stream is built after the one
 * whose output it reads and takes rate, channels and units from it.
 */
#include "config/internal.h"

#include <arpa/inet.h>
#include <assert.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "signal/decimation.h"

#define PI 3.14159265358979323846

enum {
    LATENCY_BLOCK_MIN = 16, /* the shortest block that a latency chooses */
    HOP_MAX = 1 << 19,
    UDP_PAYLOAD_MAX = 65507, /* IPv4; a datagram must hold a frame at least */
};

/* ---- chains ------------------------------------------------------------------------------ */

static int section_index(struct raw_section *const *sections, uint32_t count, const char *name)
{
    for (uint32_t i = 0; i < count; i++)
        if (strcmp(sections[i]->name, name) == 0)
            return (int)i;
    return -1;
}

/*
 * Orders build->stream_sections so that every stream stands after its upstream; streams on a
 * cycle are reported once per cycle and marked broken. Each stream has at most one upstream,
 * so following it either ends at a source or meets a stream of the walk again.
 */
static int order_streams(struct build *build)
{
    uint32_t count = build->config->stream_count;
    struct raw_section **sections = build->stream_sections;
    int *upstream = config_alloc(build->memory, count, sizeof *upstream);
    uint32_t *depth = config_alloc(build->memory, count, sizeof *depth);
    uint32_t *walk = config_alloc(build->memory, count, sizeof *walk);
    struct raw_section **ordered = config_alloc(build->memory, count, sizeof *ordered);
    if (upstream == NULL || depth == NULL || walk == NULL || ordered == NULL)
        return ERROR_MEMORY;
    for (uint32_t i = 0; i < count; i++) {
        upstream[i] = -1;
        if (sections[i]->type != SOURCE_STREAM)
            continue;
        const char *name = value_of(sections[i], KEY_SOURCE)->name;
        upstream[i] = section_index(sections, count, name);
        if (upstream[i] < 0) {
            report_unknown(build, place_of(sections[i], KEY_SOURCE), sections[i], SECTION_STREAM,
                           name);
            sections[i]->broken = true;
        }
    }
    /* depth: 0 not visited, 1 a source of its own, n the n-th of a chain. */
    for (uint32_t i = 0; i < count; i++) {
        uint32_t steps = 0, at = i;
        while (depth[at] == 0) {
            depth[at] = UINT32_MAX; /* on this walk */
            walk[steps++] = at;
            if (upstream[at] < 0)
                break;
            at = (uint32_t)upstream[at];
        }
        if (steps > 0 && upstream[walk[steps - 1]] >= 0 && depth[at] == UINT32_MAX) {
            config_error(
                build->errors, place_of(sections[at], KEY_SOURCE),
                "stream %s reads its own output%s; let one stream of the circle have a source "
                "of its own, such as rtp",
                sections[at]->name, (uint32_t)upstream[at] == at ? "" : " through others");
            uint32_t on_cycle = at;
            do {
                sections[on_cycle]->broken = true;
                on_cycle = (uint32_t)upstream[on_cycle];
            } while (on_cycle != at);
        }
        uint32_t below =
            steps > 0 && upstream[walk[steps - 1]] >= 0 && depth[at] != UINT32_MAX ? depth[at] : 0;
        while (steps > 0)
            depth[walk[--steps]] = ++below;
    }
    uint32_t placed = 0;
    for (uint32_t level = 1; placed < count; level++)
        for (uint32_t i = 0; i < count; i++)
            if (depth[i] == level)
                ordered[placed++] = sections[i];
    memcpy(sections, ordered, count * sizeof *ordered);
    return 0;
}

/* ---- samples ----------------------------------------------------------------------------- */

static bool check_osc_format(struct build *build, const struct raw_section *section,
                             const struct sample_format *format)
{
    char name[24];
    bool good = format->big_endian && ((format->kind == SAMPLE_FLOAT && format->bytes == 4) ||
                                       (format->kind == SAMPLE_SIGNED && format->bytes == 2));
    if (!good)
        config_error(build->errors, place_of(section, KEY_FORMAT),
                     "OSC blocks carry f32be or s16be, not %s; write one of them",
                     sample_format_name(format, name));
    return good;
}

/* Format, bits and justify of a source that does not bring its own. */
static bool build_format(struct build *build, struct config_stream *stream,
                         const struct raw_section *section)
{
    struct sample_format *format = &stream->source.format;
    bool osc = section->type == SOURCE_OSC, rtp = section->type == SOURCE_RTP || osc;
    sample_format_parse(osc ? "f32be" : rtp ? "s16be" : "f32le", format);
    if (value_given(section, KEY_FORMAT)) {
        const struct value *value = value_of(section, KEY_FORMAT);
        *format = value->format;
        if (!value->order_written)
            format->big_endian = rtp && format->bytes > 1;
    }
    const struct value *bits = value_of(section, KEY_BITS);
    if (bits != NULL) {
        bool is_float = format->kind == SAMPLE_FLOAT;
        if (is_float && bits->integer != 32) {
            config_error(
                build->errors, place_of(section, KEY_BITS),
                "float samples always have 32 bits; remove `bits`, or write an integer `format`");
            return false;
        }
        if (bits->integer > 8 * format->bytes) {
            config_error(
                build->errors, place_of(section, KEY_BITS),
                "%lld bits do not fit a sample of %d; write at most %d, or a wider `format`",
                (long long)bits->integer, 8 * format->bytes, 8 * format->bytes);
            return false;
        }
        format->bits = (uint8_t)bits->integer;
    }
    if (value_of(section, KEY_JUSTIFY)->integer == 1) {
        if (format->bits == 8 * format->bytes)
            config_error(build->errors, place_of(section, KEY_JUSTIFY),
                         "`justify = left` needs `bits` below the %d of the sample; write bits, or "
                         "remove it",
                         8 * format->bytes);
        format->left = format->bits < 8 * format->bytes;
    }
    return !osc || check_osc_format(build, section, format);
}

/* Value i of a list with one for all channels, or one each. */
static const struct value *listed(const struct raw_section *section, enum schema_id id, uint32_t i)
{
    const struct raw_setting *setting = raw_setting_of(section, id);
    if (setting->given != GIVEN_SET)
        return setting->has_fallback ? &setting->fallback : NULL;
    return &setting->values[setting->value_count == 1 ? 0 : i];
}

static bool check_lists(struct build *build, const struct raw_section *section, uint32_t channels)
{
    static const enum schema_id lists[] = {KEY_FULL_SCALE, KEY_OFFSET, KEY_PREAMP, KEY_UNIT};
    bool good = true;
    for (size_t i = 0; i < sizeof lists / sizeof lists[0]; i++) {
        const struct raw_setting *setting = raw_setting_of(section, lists[i]);
        if (setting->given != GIVEN_SET || setting->value_count == 1 ||
            setting->value_count == channels)
            continue;
        config_error(build->errors, setting->place,
                     "`%s` lists %u values for %u channels; write one for all or one for each",
                     schema_keys[lists[i]].key, setting->value_count, channels);
        good = false;
    }
    return good;
}

bool amplitude_in(struct build *build, const struct schema_key *key, const struct value *value,
                  struct config_place place, const char *unit, double *out)
{
    int exponent = 0;
    *out = value->number;
    if (value->unit[0] == '\0' || strcmp(value->unit, unit) == 0)
        return true;
    if (!quantity_unit_exponent(value->unit, unit, &exponent)) {
        config_error(build->errors, place,
                     "`%s = %s` is in %s, but the unit here is %s; write it in %s, or set `unit`",
                     key->key, value->text, value->unit, unit, unit);
        return false;
    }
    /* Through the decimal exponent, so that 10 mV in V is the double nearest to 0.01. */
    struct quantity quantity;
    struct problem problem;
    if (quantity_parse(value->text, DIMENSION_AMPLITUDE, &quantity, &problem) == 0) {
        quantity.exponent += quantity.digits == 0 ? 0 : exponent;
        *out = quantity_value(&quantity);
    }
    return true;
}

static int build_scales(struct build *build, struct config_stream *stream,
                        const struct raw_section *section)
{
    uint32_t channels = stream->source.channels;
    struct channel_scale *scales = config_alloc(build->memory, channels, sizeof *scales);
    if (scales == NULL)
        return ERROR_MEMORY;
    bool good = check_lists(build, section, channels);
    for (uint32_t c = 0; good && c < channels; c++) {
        struct channel_scale *scale = &scales[c];
        const struct value *full_scale = listed(section, KEY_FULL_SCALE, c);
        const struct value *unit = listed(section, KEY_UNIT, c);
        if (unit != NULL && strlen(unit->text) >= sizeof scale->unit) {
            config_error(build->errors, place_of(section, KEY_UNIT),
                         "the unit `%s` is longer than %zu bytes; write a symbol such as mV",
                         unit->text, sizeof scale->unit - 1);
            good = false;
            break;
        }
        snprintf(scale->unit, sizeof scale->unit, "%s",
                 unit != NULL                  ? unit->text
                 : full_scale->unit[0] != '\0' ? full_scale->unit
                                               : "FS");
        good = amplitude_in(build, &schema_keys[KEY_FULL_SCALE], full_scale,
                            place_of(section, KEY_FULL_SCALE), scale->unit, &scale->full_scale) &&
               amplitude_in(build, &schema_keys[KEY_OFFSET], listed(section, KEY_OFFSET, c),
                            place_of(section, KEY_OFFSET), scale->unit, &scale->offset);
        scale->gain_db = listed(section, KEY_PREAMP, c)->number;
    }
    stream->scales = scales;
    return good ? 0 : ERROR_CONFIG;
}

/* ---- sources ----------------------------------------------------------------------------- */

/* A span in frames, or a time at the stream's rate; false when reported. */
static bool span_frames(struct build *build, const struct config_stream *stream,
                        const struct raw_section *section, enum schema_id id, uint64_t *frames)
{
    const struct value *value = value_of(section, id);
    if (value == NULL) {
        *frames = 0;
        return true;
    }
    const struct schema_key *key = &schema_keys[id];
    if (value->dimension != DIMENSION_TIME) { /* held against the range already */
        *frames = (uint64_t)value->integer;
        return true;
    }
    double count = nearbyint(value->number * stream->source.rate_hz);
    if (count >= key->minimum && count <= key->maximum) {
        *frames = (uint64_t)count;
        return true;
    }
    char rate[40], shortest[40], longest[40];
    config_error(build->errors, place_of(section, id),
                 "`%s = %s` is %.0f frames at %s; write %s … %s", key->key, value->text, count,
                 quantity_print(DIMENSION_FREQUENCY, stream->source.rate_hz, rate, sizeof rate),
                 quantity_print(DIMENSION_TIME, key->minimum / stream->source.rate_hz, shortest,
                                sizeof shortest),
                 quantity_print(DIMENSION_TIME, key->maximum / stream->source.rate_hz, longest,
                                sizeof longest));
    return false;
}

/* How numbered packets are placed. */
static void build_places(struct build *build, struct source_options *source,
                         const struct raw_section *section)
{
    source->reorder_ns = value_of(section, KEY_REORDER)->integer;
    source->max_gap_ns = value_of(section, KEY_MAX_GAP)->integer;
    source->max_dropout_ns = value_of(section, KEY_MAX_DROPOUT)->integer;
    source->max_misorder_ns = value_of(section, KEY_MAX_MISORDER)->integer;
    if (source->reorder_ns > source->max_misorder_ns)
        config_error(build->errors, place_of(section, KEY_REORDER),
                     "`reorder = %s` awaits packets that `max misorder = %s` takes for a restarted "
                     "sender; write max misorder = %s or more",
                     value_of(section, KEY_REORDER)->text,
                     value_of(section, KEY_MAX_MISORDER)->text,
                     value_of(section, KEY_REORDER)->text);
}

static void build_allow(struct build *build, struct source_options *source,
                        const struct raw_section *section)
{
    const struct value *allow = value_of(section, KEY_ALLOW);
    unsigned char binary[16];
    source->allow = allow != NULL ? allow->text : NULL;
    if (allow != NULL && inet_pton(AF_INET, allow->text, binary) != 1 &&
        inet_pton(AF_INET6, allow->text, binary) != 1)
        config_error(
            build->errors, place_of(section, KEY_ALLOW),
            "`allow = %s` is not a numeric address; write the sender's IPv4 or IPv6 address "
            "without a port",
            allow->text);
}

static void build_network(struct build *build, struct config_stream *stream,
                          struct raw_section *section)
{
    struct source_options *source = &stream->source;
    source->address = value_of(section, KEY_ADDRESS)->text;
    const struct value *interface = value_of(section, KEY_INTERFACE);
    source->interface = interface != NULL ? interface->text : NULL;
    build_allow(build, source, section);
    source->receive_buffer_bytes = (uint64_t)value_of(section, KEY_RECEIVE_BUFFER)->integer;
    source->work_per_wake = (uint32_t)value_of(section, KEY_WORK)->integer;
    if (section->type == SOURCE_RTP) {
        source->payload_type = (uint32_t)value_of(section, KEY_PAYLOAD_TYPE)->integer;
        const struct value *ssrc = value_of(section, KEY_SSRC);
        source->ssrc_pinned = ssrc != NULL;
        source->ssrc = ssrc != NULL ? (uint32_t)ssrc->integer : 0;
        check_payload_type(build, section, KEY_PAYLOAD_TYPE, &source->format, source->rate_hz,
                           source->channels);
    }
    if (section->type != SOURCE_UDP) {
        enum { MODE_RECORD = 1, MODE_DIRECT };
        int64_t mode = value_of(section, KEY_MODE)->integer;
        source->mode = mode == MODE_RECORD ? SOURCE_RECORD : SOURCE_CONTINUOUS;
        if (mode == MODE_DIRECT)
            config_error(
                build->errors, place_of(section, KEY_MODE),
                "`mode = direct` runs in a sound card's callback; write source = portaudio, or "
                "mode = continuous");
        build_places(build, source, section);
        static const enum receive_path wishes[] = {RECEIVE_AUTO, RECEIVE_RECVMMSG, RECEIVE_GRO};
        source->receive = wishes[value_of(section, KEY_RECEIVE)->integer];
    }
    if (section->type == SOURCE_UDP_SEQ)
        source->sequence_big_endian = value_of(section, KEY_SEQUENCE_ORDER)->integer == 1;
    if (source->frame_bytes > UDP_PAYLOAD_MAX - 12)
        config_error(
            build->errors, place_of(section, KEY_CHANNELS),
            "one frame of %u channels has %u bytes, more than a datagram holds; write fewer "
            "channels or a narrower format",
            source->channels, source->frame_bytes);
}

/* Amplitudes of the generator, in the unit of channel 1. */
static void set_amplitude(struct build *build, const struct config_stream *stream,
                          const struct raw_section *section, enum schema_id id, double *out)
{
    if (value_given(section, id))
        amplitude_in(build, &schema_keys[id], value_of(section, id), place_of(section, id),
                     stream->scales[0].unit, out);
}

static void set_number(const struct raw_section *section, enum schema_id id, double factor,
                       double *out)
{
    if (value_given(section, id))
        *out = factor * value_of(section, id)->number;
}

static void build_generator(struct build *build, struct config_stream *stream,
                            const struct raw_section *section)
{
    struct waveform_spec *waveform = &stream->source.waveform;
    enum waveform_kind kind = WAVEFORM_SINE;
    if (value_given(section, KEY_WAVEFORM))
        waveform_kind_parse(value_of(section, KEY_WAVEFORM)->text, &kind);
    waveform_defaults(waveform, kind);
    waveform->rate_hz = stream->source.rate_hz;
    waveform->channels = stream->source.channels;
    /* The defaults are fractions of full scale; what the user writes is in the unit. The counter
     * counts codes, so it stays a fraction. */
    double full_scale = channel_scale_factor(&stream->scales[0]);
    if (kind != WAVEFORM_COUNTER) {
        stream->source.scales = stream->scales;
        waveform->amplitude *= full_scale;
        waveform->noise *= full_scale;
    }
    /* Slow streams cannot carry the default tones. */
    waveform->frequency_hz = fmin(waveform->frequency_hz, waveform->rate_hz / 8);
    waveform->frequency_end_hz = fmin(waveform->frequency_end_hz, waveform->rate_hz / 4);
    set_amplitude(build, stream, section, KEY_AMPLITUDE, &waveform->amplitude);
    set_amplitude(build, stream, section, KEY_DC, &waveform->offset);
    set_amplitude(build, stream, section, KEY_NOISE, &waveform->noise);
    set_number(section, KEY_FREQUENCY, 1, &waveform->frequency_hz);
    set_number(section, KEY_FREQUENCY_END, 1, &waveform->frequency_end_hz);
    set_number(section, KEY_LENGTH, 1, &waveform->length_s);
    set_number(section, KEY_PERIOD, 1, &waveform->period_s);
    set_number(section, KEY_PHASE, PI / 180, &waveform->phase_rad);
    set_number(section, KEY_CHANNEL_PHASE, PI / 180, &waveform->channel_phase_rad);
    set_number(section, KEY_CHANNEL_DELAY, 1, &waveform->channel_delay_s);
    set_number(section, KEY_ARRIVALS, 1, &waveform->arrivals_per_s);
    set_number(section, KEY_RISE, 1, &waveform->rise_s);
    set_number(section, KEY_DECAY, 1, &waveform->decay_s);
    waveform->seed = (uint64_t)value_of(section, KEY_SEED)->integer;
    span_frames(build, stream, section, KEY_DURATION, &stream->source.length_frames);

    struct waveform *made;
    struct problem problem;
    if (waveform_create(waveform, &made, &problem) != 0) {
        enum schema_id at = KEY_WAVEFORM;
        for (int id = KEY_WAVEFORM; id <= KEY_DURATION; id++) {
            size_t length = strlen(schema_keys[id].key);
            if (strncmp(problem.text, schema_keys[id].key, length) == 0 &&
                problem.text[length] == ' ')
                at = (enum schema_id)id;
        }
        config_error(build->errors, place_of(section, at), "the generator of stream %s: %s",
                     stream->name, problem.text);
        return;
    }
    waveform_free(made);
}

/* Rate, channels and format of a recording come from the file. */
static int build_recording(struct build *build, struct config_stream *stream,
                           struct raw_section *section)
{
    struct source_options *source = &stream->source;
    struct config_place place = place_of(section, KEY_PATH);
    struct problem problem;
    uint64_t frames = 0;
    double rate_hz = 0;
    source->path = build_path(build, value_of(section, KEY_PATH)->text, place);
    if (source->path == NULL)
        return ERROR_MEMORY;
    if (build->world->probe(source->path, &rate_hz, &source->channels, &source->format, &frames,
                            &problem) != 0) {
        config_error(build->errors, place, "%s", problem.text);
        return ERROR_CONFIG;
    }
    source->loop = value_of(section, KEY_LOOP)->integer != 0;
    if (!value_given(section, KEY_RATE))
        source->rate_hz = rate_hz;
    if (source->channels > CONFIG_CHANNELS_MAX) {
        config_error(build->errors, place,
                     "`%s` has %u channels, more than %d; split the recording", source->path,
                     source->channels, CONFIG_CHANNELS_MAX);
        return ERROR_CONFIG;
    }
    if (frames == 0)
        config_warning(build->errors, place, "`%s` holds no frames", source->path);
    return 0;
}

/* A chain's input is its upstream's output: float32 in the units of the outputs. */
static int build_chain(struct build *build, struct config_stream *stream,
                       const struct raw_section *section)
{
    int upstream = -1;
    const char *name = value_of(section, KEY_SOURCE)->name;
    for (uint32_t i = 0; i < build->config->stream_count; i++)
        if (strcmp(build->stream_sections[i]->name, name) == 0)
            upstream = (int)i;
    assert(upstream >= 0);
    const struct config_stream *before = &build->streams[upstream];
    if (build->stream_sections[upstream]->broken || before->units == NULL)
        return ERROR_CONFIG; /* reported there */
    stream->upstream = upstream;
    stream->live = before->live;
    stream->loss_detectable = before->loss_detectable;
    stream->source.rate_hz = before->output_rate_hz;
    stream->source.channels = before->output_floats;
    stream->decimate_total = before->decimate_total;
    sample_format_parse("f32le", &stream->source.format);
    struct channel_scale *scales =
        config_alloc(build->memory, before->output_floats, sizeof *scales);
    if (scales == NULL)
        return ERROR_MEMORY;
    for (uint32_t c = 0; c < before->output_floats; c++) {
        scales[c].full_scale = 1;
        snprintf(scales[c].unit, sizeof scales[c].unit, "%s", before->units[c]);
    }
    stream->scales = scales;
    return 0;
}

static int build_source(struct build *build, struct config_stream *stream,
                        struct raw_section *section)
{
    struct source_options *source = &stream->source;
    source->stream = stream->name;
    source->mode = SOURCE_CONTINUOUS;
    if (section->type == SOURCE_STREAM) {
        int status = build_chain(build, stream, section);
        source->frame_bytes = source->channels * source->format.bytes;
        return status;
    }
    if (value_given(section, KEY_RATE))
        source->rate_hz = value_of(section, KEY_RATE)->number;
    stream->live = section->type == SOURCE_RTP || section->type == SOURCE_UDP ||
                   section->type == SOURCE_UDP_SEQ || section->type == SOURCE_OSC ||
                   section->type == SOURCE_PORTAUDIO;
    stream->loss_detectable = section->type != SOURCE_UDP;
    if (section->type == SOURCE_FILE) {
        int status = build_recording(build, stream, section);
        if (status != 0)
            return status;
    } else {
        source->channels = (uint32_t)value_of(section, KEY_CHANNELS)->integer;
        if (!build_format(build, stream, section))
            return ERROR_CONFIG;
    }
    source->frame_bytes = source->channels * source->format.bytes;
    int status = build_scales(build, stream, section);
    if (status != 0)
        return status;
    if (section->type == SOURCE_FILE || section->type == SOURCE_GENERATOR)
        source->paced = value_of(section, KEY_PACE)->integer == 0;
    if (section->type == SOURCE_GENERATOR)
        build_generator(build, stream, section);
    if (section->type == SOURCE_OSC) {
        build_places(build, source, section);
        build_allow(build, source, section);
    } else if (section->type == SOURCE_PORTAUDIO) {
        return build_sound_source(build, stream, section);
    } else if (stream->live) {
        build_network(build, stream, section);
    }
    return 0;
}

/* ---- blocks and times -------------------------------------------------------------------- */

static void build_variant(struct build *build, struct config_stream *stream,
                          const struct raw_section *section)
{
    const struct value *variant = value_of(section, KEY_VARIANT);
    stream->variant = variant != NULL ? variant->text : NULL;
    if (variant == NULL)
        return;
    char names[256] = "";
    size_t used = 0;
    for (int i = 0; build->world->variant(i) != NULL; i++) {
        const char *name = build->world->variant(i);
        if (strcmp(name, variant->text) == 0)
            return;
        if (used < sizeof names)
            used += (size_t)snprintf(names + used, sizeof names - used, "%s%s", i > 0 ? ", " : "",
                                     name);
    }
    config_error(build->errors, place_of(section, KEY_VARIANT),
                 "`variant = %s` is not known; write one of: %s", variant->text, names);
}

/* The output's rate and its ratio to the rate that the chain begins with. */
static void build_decimation(struct build *build, struct config_stream *stream,
                             const struct raw_section *section)
{
    const uint32_t before = stream->decimate_total; /* 1, or what build_chain has set */
    const uint32_t decimate = (uint32_t)value_of(section, KEY_DECIMATE)->integer;
    stream->decimate = decimate;
    stream->output_rate_hz = decimation_rate_hz(decimate, stream->source.rate_hz);
    if (!decimation_chain(before, decimate, &stream->decimate_total)) {
        config_error(
            build->errors, place_of(section, KEY_DECIMATE),
            "`decimate = %u` makes %llu with the streams before, more than %d; write at most %u",
            decimate, (unsigned long long)before * decimate, DECIMATE_MAX, DECIMATE_MAX / before);
    }
}

/* Half of the latency goes into collecting a block: the longest power of two below that. 0: the
 * latency is too short, and that was said. */
static uint64_t latency_block(struct build *build, const struct config_stream *stream,
                              const struct raw_section *section)
{
    const double frames = (double)stream->latency_ns * stream->source.rate_hz / 1e9;
    uint64_t hop = LATENCY_BLOCK_MIN;
    char shortest[40], rate[40];
    if (frames < 2 * LATENCY_BLOCK_MIN) {
        config_error(
            build->errors, place_of(section, KEY_LATENCY),
            "`latency = %s` is %.0f frames at %s, too short to collect and compute a block; "
            "write at least %s, or the `block` itself",
            value_of(section, KEY_LATENCY)->text, frames,
            quantity_print(DIMENSION_FREQUENCY, stream->source.rate_hz, rate, sizeof rate),
            quantity_print(DIMENSION_TIME, 2 * LATENCY_BLOCK_MIN / stream->source.rate_hz, shortest,
                           sizeof shortest));
        return 0;
    }
    while (2 * hop <= frames / 2 && 2 * hop <= (uint64_t)schema_keys[KEY_BLOCK].maximum)
        hop *= 2;
    return hop;
}

static void build_blocks(struct build *build, struct config_stream *stream,
                         const struct raw_section *section)
{
    build_decimation(build, stream, section);
    uint64_t hop = 0;
    span_frames(build, stream, section, KEY_BLOCK, &hop);
    const struct value *latency = value_of(section, KEY_LATENCY);
    stream->latency_ns = latency != NULL ? latency->integer : 0;
    if (latency != NULL && !value_given(section, KEY_BLOCK)) {
        stream->hop_free = true;
        hop = latency_block(build, stream, section);
    }
    stream->hop_frames = (uint32_t)hop;
    stream->blocks_max = (uint32_t)value_of(section, KEY_BATCH_BLOCKS)->integer;
    span_frames(build, stream, section, KEY_BUFFER, &stream->ring_frames);
    stream->tail = value_of(section, KEY_TAIL)->integer != 0;
    stream->align = value_of(section, KEY_ALIGN)->integer != 0;
    stream->idle_flush_ns = value_of(section, KEY_IDLE_FLUSH)->integer;
    const struct value *deadline = value_of(section, KEY_DEADLINE);
    stream->deadline_ns = deadline != NULL ? deadline->integer : 0;
    build_variant(build, stream, section);
    const struct value *device = value_of(section, KEY_STREAM_DEVICE);
    stream->device = device != NULL ? device->text : NULL;
    const struct value *fft = value_of(section, KEY_FFT);
    if (fft != NULL) {
        stream->fft = (uint32_t)fft->integer;
        if ((stream->fft & (stream->fft - 1)) != 0)
            config_error(build->errors, place_of(section, KEY_FFT),
                         "`fft = %u` is not a power of two; write 64, 128, … 2097152", stream->fft);
        else if (hop > 0 && stream->fft <= hop)
            config_error(
                build->errors, place_of(section, KEY_FFT),
                "`fft = %u` leaves no room for a filter behind a block of %u frames; write at "
                "least %u, or a shorter `block`",
                stream->fft, stream->hop_frames, 2 * stream->hop_frames);
    }
    uint64_t frames = stream->ring_frames > (uint64_t)stream->hop_frames * stream->blocks_max
                          ? stream->ring_frames
                          : (uint64_t)stream->hop_frames * stream->blocks_max;
    if (hop > 0 && frames * stream->source.frame_bytes > build->config->device.input_bytes)
        config_error(
            build->errors,
            value_given(section, KEY_BUFFER) ? place_of(section, KEY_BUFFER)
                                             : place_of(section, KEY_BLOCK),
            "the input ring of stream %s needs at least %llu bytes, more than the `input memory` "
            "of "
            "[device]; write a shorter `buffer`, `block` or `batch blocks`, or more memory",
            stream->name, (unsigned long long)(frames * stream->source.frame_bytes));
}

static int build_stream(struct build *build, uint32_t index)
{
    struct raw_section *section = build->stream_sections[index];
    struct config_stream *stream = &build->streams[index];
    stream->name = section->name;
    stream->place = section->place;
    stream->upstream = -1;
    stream->decimate = stream->decimate_total = 1;
    stream->source_type = section->type >= 0 ? source_kind_name(section->type) : "";
    /* A channel count that could not be read would make every list look wrong. */
    if (raw_setting_of(section, KEY_CHANNELS)->given == GIVEN_BAD && section->type != SOURCE_FILE)
        section->broken = true;
    int status = section->broken ? ERROR_CONFIG : build_source(build, stream, section);
    if (status == ERROR_MEMORY)
        return status;
    section->broken = status != 0;
    if (stream->source.rate_hz > 0)
        build_blocks(build, stream, section);
    if (!section->broken)
        return build_outputs(build, stream, section);
    resolve_filters(build, section);
    return 0;
}

/* ---- two sources on one address ---------------------------------------------------------- */

static void check_sources(struct build *build)
{
    for (uint32_t i = 0; i < build->config->stream_count; i++) {
        const struct raw_section *section = build->stream_sections[i];
        const struct value *address = value_of(section, KEY_ADDRESS);
        if (address == NULL || address->port == 0)
            continue;
        for (uint32_t k = 0; k < i; k++) {
            const struct value *other = value_of(build->stream_sections[k], KEY_ADDRESS);
            if (other == NULL || other->port != address->port || !same_host(address, other, true))
                continue;
            /* The later line is at fault, whatever the order of the chain. */
            struct config_place a = place_of(section, KEY_ADDRESS);
            struct config_place b = place_of(build->stream_sections[k], KEY_ADDRESS);
            bool later = strcmp(a.file, b.file) != 0 || a.line >= b.line;
            config_error(
                build->errors, later ? a : b,
                "streams %s and %s are both bound to `%s`; write another port for one of them",
                build->stream_sections[later ? k : i]->name,
                build->stream_sections[later ? i : k]->name, (later ? address : other)->text);
            break;
        }
    }
}

int build_streams(struct build *build)
{
    int status = order_streams(build);
    for (uint32_t i = 0; status == 0 && i < build->config->stream_count; i++)
        status = build_stream(build, i);
    if (status != 0)
        return status;
    check_sources(build);
    check_filters(build);
    return 0;
}
