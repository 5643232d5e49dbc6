/*
 * Streams of the configuration: sources, sample formats, calibration, blocks and times. Chains
 * (`source = stream NAME`) are put in order first, so that a stream is built after the one
 * whose output it reads and takes rate, channels and units from it.
 */
#include "config/internal.h"

#include <assert.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "signal/decimation.h"

enum {
    LATENCY_BLOCK_MIN = 16, /* the shortest block that a latency chooses */
    PRIORITY_DEFAULT = 50,
};

/* ---- chains ------------------------------------------------------------------------------ */

static int section_index(struct raw_section *const *sections, uint32_t count, const char *name)
{
    for (uint32_t i = 0; i < count; i++)
        if (strcmp(sections[i]->name, name) == 0)
            return (int)i;
    return -1;
}

/* The stream that a chain reads; NULL: it is none. */
const char *upstream_name(const struct raw_section *section)
{
    return section->type >= 0 ? schema_upstream(value_of(section, KEY_SOURCE)) : NULL;
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
        const char *name = upstream_name(sections[i]);
        if (name == NULL)
            continue;
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

/* Format, bits and justify of a source that does not bring its own. */
static bool build_format(struct build *build, struct config_stream *stream,
                         const struct raw_section *section)
{
    struct sample_format *format = &stream->source.format;
    sample_format_parse(stream->driver->format, format);
    if (value_given(section, KEY_FORMAT)) {
        const bool big_endian = format->big_endian;
        bool order_written;
        *format = schema_format(value_of(section, KEY_FORMAT), &order_written);
        if (!order_written)
            format->big_endian = big_endian && format->bytes > 1;
    }
    const struct option_value *bits = value_of(section, KEY_BITS);
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
    if (value_of(section, KEY_JUSTIFY)->integer != 0) {
        if (format->bits == 8 * format->bytes)
            config_error(build->errors, place_of(section, KEY_JUSTIFY),
                         "`justify = left` needs `bits` below the %d of the sample; write bits, or "
                         "remove it",
                         8 * format->bytes);
        format->left = format->bits < 8 * format->bytes;
    }
    return true;
}

/* ---- sources ----------------------------------------------------------------------------- */

/* Scales that the source brings, which are freed; false: none of the keys for them has a meaning,
 * and that was said, or there is no memory. */
static bool take_scales(struct build *build, struct config_stream *stream,
                        const struct raw_section *section, struct channel_scale *brought)
{
    static const enum schema_id keys[] = {KEY_FULL_SCALE, KEY_SENSITIVITY, KEY_OFFSET, KEY_PREAMP,
                                          KEY_UNIT};
    const uint32_t channels = stream->source.channels;
    struct channel_scale *scales = config_alloc(build->memory, channels, sizeof *scales);
    if (scales != NULL)
        memcpy(scales, brought, channels * sizeof *scales);
    free(brought);
    stream->scales = scales;
    stream->converter = stream->source.format.kind != SAMPLE_FLOAT;
    for (size_t i = 0; i < sizeof keys / sizeof keys[0]; i++) {
        if (!value_given(section, keys[i]))
            continue;
        config_error(build->errors, place_of(section, keys[i]),
                     "the file says what its samples are worth; remove `%s`",
                     schema_key(keys[i])->row.key);
        return false;
    }
    return scales != NULL;
}

/* Rate, channels and format of a source that brings its own, such as a recording. What is wrong
 * with it stands at the first of its driver's keys, which names it. */
static int build_brought(struct build *build, struct config_stream *stream,
                         const struct option_check *check, const struct raw_section *section)
{
    struct source_options *source = &stream->source;
    const char *key = stream->driver->options[0].key;
    const char *name = check->written(check->context, key)->text;
    struct source_facts facts = {0};
    struct problem problem;
    if (build->world->probe(stream->driver, source, &facts, &problem) != 0) {
        option_error(check, key, "%s", problem.text);
        return ERROR_CONFIG;
    }
    source->channels = facts.channels;
    source->format = facts.format;
    if (!value_given(section, KEY_RATE))
        source->rate_hz = facts.rate_hz;
    if (facts.scales != NULL && !take_scales(build, stream, section, facts.scales))
        return ERROR_CONFIG;
    if (source->channels > CONFIG_CHANNELS_MAX) {
        option_error(check, key, "`%s` has %u channels, more than %d; split the recording", name,
                     source->channels, CONFIG_CHANNELS_MAX);
        return ERROR_CONFIG;
    }
    source->frames = facts.frames != UINT64_MAX ? facts.frames : 0;
    if (facts.frames == 0)
        option_warning(check, key, "`%s` holds no frames", name);
    return 0;
}

/* A chain's input is its upstream's output: float32 in the units of the outputs. */
static int build_chain(struct build *build, struct config_stream *stream,
                       const struct raw_section *section)
{
    int upstream = -1;
    const char *name = upstream_name(section);
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
    stream->source.excitation = excitation_decimated(before->source.excitation, before->decimate);
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
                        const struct option_check *check, struct raw_section *section)
{
    struct source_options *source = &stream->source;
    const struct source_ops *driver = stream->driver;
    if (driver == NULL) {
        int status = build_chain(build, stream, section);
        source->frame_bytes = source->channels * source->format.bytes;
        return status;
    }
    stream->live = driver->live;
    stream->loss_detectable = driver->loss_detectable;
    if (value_given(section, KEY_RATE))
        source->rate_hz = value_of(section, KEY_RATE)->number;
    if (driver->format == NULL) {
        int status = build_brought(build, stream, check, section);
        if (status != 0)
            return status;
    } else {
        source->channels = (uint32_t)value_of(section, KEY_CHANNELS)->integer;
        if (!build_format(build, stream, section))
            return ERROR_CONFIG;
    }
    source->frame_bytes = source->channels * source->format.bytes;
    int status = stream->scales == NULL ? build_scales(build, stream, check, section) : 0;
    source->scales = stream->scales;
    if (status != 0 || driver->check == NULL)
        return status;
    const struct daemon_facts facts = driver_facts(build);
    status = driver->check(check, &facts, source);
    if (status == 0 && driver->instead != NULL) {
        stream->driver = driver->instead(source);
        stream->live = stream->driver->live;
    }
    return status;
}

/* ---- blocks and times -------------------------------------------------------------------- */

static void build_variant(struct build *build, struct config_stream *stream,
                          const struct raw_section *section)
{
    const struct option_value *variant = value_of(section, KEY_VARIANT);
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

/* The highest of its own and those of the streams that read it; they stand behind it. */
static void build_priority(struct build *build, struct config_stream *stream,
                           const struct raw_section *section)
{
    const struct option_value *own = value_of(section, KEY_PRIORITY);
    const uint8_t before =
        stream->upstream >= 0 ? build->streams[stream->upstream].priority : PRIORITY_DEFAULT;
    stream->priority = own != NULL ? (uint8_t)own->integer : before;
    for (int at = stream->upstream; at >= 0; at = build->streams[at].upstream)
        if (build->streams[at].priority < stream->priority)
            build->streams[at].priority = stream->priority;
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
    while (2 * hop <= frames / 2 && 2 * hop <= (uint64_t)schema_key(KEY_BLOCK)->row.maximum)
        hop *= 2;
    return hop;
}

/* No device makes up for a block that takes longer to collect than the latency asked for. */
static void check_latency(struct build *build, const struct config_stream *stream,
                          const struct raw_section *section)
{
    const double block_s = stream->hop_frames / stream->source.rate_hz;
    char lasts[40];
    if (stream->latency_ns > 0 && !stream->hop_free && block_s * 1e9 > (double)stream->latency_ns)
        config_warning(build->errors, place_of(section, KEY_LATENCY),
                       "`latency = %s` cannot be: collecting one block (`block`) takes %s; write a "
                       "shorter `block`, or none, and `latency` chooses it",
                       value_of(section, KEY_LATENCY)->text,
                       quantity_print(DIMENSION_TIME, block_s, lasts, sizeof lasts));
}

/* What is written stands in the place of what a generator knows. */
static void build_excitation(struct config_stream *stream, const struct option_check *check,
                             const struct raw_section *section)
{
    struct excitation *excitation = &stream->source.excitation;
    const struct option_value *start = value_of(section, KEY_EXCITATION);
    const struct option_value *period = value_of(section, KEY_EXCITATION_PERIOD);
    uint64_t frames;
    if (start != NULL && option_frames(check, &schema_key(KEY_EXCITATION)->row, start,
                                       stream->source.rate_hz, &frames)) {
        excitation->known = true;
        excitation->start_frame = (double)frames;
    }
    if (period != NULL && !excitation->known)
        option_error(check, "excitation period",
                     "`excitation period` needs the first pulse; write `excitation`, as in "
                     "excitation = 0 frames");
    else if (period != NULL && option_frames(check, &schema_key(KEY_EXCITATION_PERIOD)->row, period,
                                             stream->source.rate_hz, &frames))
        excitation->period_frames = (double)frames;
}

static void build_blocks(struct build *build, struct config_stream *stream,
                         const struct option_check *check, const struct raw_section *section)
{
    build_decimation(build, stream, section);
    uint64_t hop = 0;
    option_frames(check, &schema_key(KEY_BLOCK)->row, value_of(section, KEY_BLOCK),
                  stream->source.rate_hz, &hop);
    const struct option_value *latency = value_of(section, KEY_LATENCY);
    stream->latency_ns = latency != NULL ? latency->integer : 0;
    if (latency != NULL && !value_given(section, KEY_BLOCK)) {
        stream->hop_free = true;
        hop = latency_block(build, stream, section);
    }
    stream->hop_frames = (uint32_t)hop;
    check_latency(build, stream, section);
    stream->blocks_max = (uint32_t)value_of(section, KEY_BATCH_BLOCKS)->integer;
    option_frames(check, &schema_key(KEY_BUFFER)->row, value_of(section, KEY_BUFFER),
                  stream->source.rate_hz, &stream->ring_frames);
    stream->tail = value_of(section, KEY_TAIL)->integer != 0;
    stream->align = value_of(section, KEY_ALIGN)->integer != 0;
    stream->idle_flush_ns = value_of(section, KEY_IDLE_FLUSH)->integer;
    const struct option_value *deadline = value_of(section, KEY_DEADLINE);
    stream->deadline_ns = deadline != NULL ? deadline->integer : 0;
    build_priority(build, stream, section);
    build_variant(build, stream, section);
    const struct option_value *device = value_of(section, KEY_STREAM_DEVICE);
    stream->device = device != NULL ? device->text : NULL;
    if (device != NULL)
        check_devices(build, place_of(section, KEY_STREAM_DEVICE), device->text);
    const struct option_value *fft = value_of(section, KEY_FFT);
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
    stream->source.stream = stream->name;
    stream->driver = section->type >= 0 ? source_at(section->type) : NULL;
    struct option_check check;
    if (!driver_check(build, section, &check))
        return ERROR_MEMORY;
    const struct source_ops *driver = stream->driver;
    if (driver != NULL &&
        driver_fill(build, section, driver->options, driver->option_count, driver->options_bytes,
                    &stream->source, &stream->source.own) != 0)
        return ERROR_MEMORY;
    /* A channel count that could not be read would make every list look wrong. */
    if (raw_setting_of(section, KEY_CHANNELS)->given == GIVEN_BAD &&
        (driver == NULL || driver->format != NULL))
        section->broken = true;
    int status = section->broken ? ERROR_CONFIG : build_source(build, stream, &check, section);
    if (status == ERROR_MEMORY)
        return status;
    section->broken = status != 0;
    if (stream->source.rate_hz > 0)
        build_excitation(stream, &check, section);
    if (stream->source.rate_hz > 0)
        build_blocks(build, stream, &check, section);
    if (!section->broken && driver != NULL)
        status = build_watched(build, stream, &check, section);
    if (status == ERROR_MEMORY)
        return status;
    if (!section->broken)
        return build_outputs(build, stream, section);
    resolve_filters(build, section);
    return 0;
}

int build_streams(struct build *build)
{
    int status = order_streams(build);
    for (uint32_t i = 0; status == 0 && i < build->config->stream_count; i++)
        status = build_stream(build, i);
    if (status != 0)
        return status;
    check_filters(build);
    return 0;
}
