/*
 * Sound cards of the configuration: devices, channel maps and periods of streams and sinks, and
 * which of them belong together (`duplex = yes` with one `card`). Whether a device exists and
 * does what is asked is found out when it is opened: it may come later.
 */
#include "config/internal.h"

#include <stdio.h>
#include <string.h>

#include "io/sound/card.h"
#include "signal/decimation.h"

enum { PERIOD_MIN = 16, PERIOD_MAX = 8192, PERIOD_ELSE = 256, HALF = 2 };

/* Where the keys of the two sections stand in the table. */
struct sound_keys {
    enum schema_id device, host_api, period, duplex, allow_conversion;
};

static const struct sound_keys stream_keys = {
    KEY_CARD, KEY_HOST_API, KEY_DEVICE_PERIOD, KEY_DUPLEX, KEY_ALLOW_CONVERSION,
};
static const struct sound_keys sink_keys = {
    KEY_SINK_CARD,   KEY_SINK_HOST_API,         KEY_SINK_DEVICE_PERIOD,
    KEY_SINK_DUPLEX, KEY_SINK_ALLOW_CONVERSION,
};

/* Frames or a time at the stream's rate; false when reported. */
static bool frames_of(struct build *build, const struct raw_section *section, enum schema_id id,
                      double rate_hz, uint64_t *frames)
{
    const struct value *value = value_of(section, id);
    if (value == NULL)
        return true;
    double count =
        value->dimension == DIMENSION_TIME ? value->number * rate_hz + 0.5 : (double)value->integer;
    if (count < schema_keys[id].minimum || count > schema_keys[id].maximum + 0.5) {
        config_error(build->errors, place_of(section, id),
                     "`%s = %s` is %.0f frames; write %.0f … %.0f", schema_keys[id].key,
                     value->text, count, schema_keys[id].minimum, schema_keys[id].maximum);
        return false;
    }
    *frames = (uint64_t)count;
    return true;
}

static bool build_map(struct build *build, const struct raw_section *section, enum schema_id id,
                      uint32_t channels, struct sound_side *side)
{
    side->channels = side->device_channels = channels;
    for (uint32_t c = 0; c < channels; c++)
        side->map[c] = (uint16_t)c;
    const struct raw_setting *setting = raw_setting_of(section, id);
    if (setting->given != GIVEN_SET)
        return true;
    if (setting->value_count != channels) {
        config_error(
            build->errors, setting->place,
            "`%s` lists %u channels of the device for %u of the stream; write one for each",
            schema_keys[id].key, setting->value_count, channels);
        return false;
    }
    side->device_channels = 0;
    for (uint32_t c = 0; c < channels; c++) {
        side->map[c] = (uint16_t)(setting->values[c].integer - 1);
        if (side->map[c] + 1u > side->device_channels)
            side->device_channels = side->map[c] + 1u;
    }
    return true;
}

static bool check_format(struct build *build, const struct raw_section *section, enum schema_id id,
                         const struct sample_format *format)
{
    char name[24];
    bool good = !format->big_endian && (format->kind == SAMPLE_FLOAT ||
                                        (format->kind == SAMPLE_SIGNED && format->bytes > 1) ||
                                        (format->kind == SAMPLE_UNSIGNED && format->bytes == 1));
    if (!good)
        config_error(build->errors, place_of(section, id),
                     "PortAudio knows u8, s16le, s24le, s32le and f32le, not %s; write the one the "
                     "hardware has",
                     sample_format_name(format, name));
    return good;
}

static bool fill(struct build *build, const struct raw_section *section,
                 const struct sound_keys *keys, double rate_hz, struct sound_options *sound)
{
    struct sound_request *request = &sound->request;
    const struct value *device = value_of(section, keys->device);
    snprintf(request->client, sizeof request->client, "convolvd-%.40s", section->name);
    if (strlen(device->text) >= sizeof request->device) {
        config_error(build->errors, place_of(section, keys->device),
                     "a device's name has at most %zu bytes; write a part of it",
                     sizeof request->device - 1);
        return false;
    }
    snprintf(request->device, sizeof request->device, "%s", device->text);
    request->api = (enum sound_api)value_of(section, keys->host_api)->integer;
    request->rate_hz = rate_hz;
    request->allow_conversion = value_of(section, keys->allow_conversion)->integer != 0;
    request->verbose = build->config->daemon.log_level == LOG_LEVEL_DEBUG;
    sound->duplex = value_of(section, keys->duplex)->integer != 0;
    uint64_t period = 0;
    bool good = frames_of(build, section, keys->period, request->rate_hz, &period);
    request->period_frames = (uint32_t)period;
    return good;
}

/* The block is known once the stream is built: called for both directions. */
static void set_period(struct sound_options *sound, uint32_t hop_frames)
{
    bool fits = hop_frames >= PERIOD_MIN && hop_frames <= PERIOD_MAX;
    if (sound->request.period_frames == 0)
        sound->request.period_frames = fits ? hop_frames : PERIOD_ELSE;
}

int build_sound_source(struct build *build, struct config_stream *stream,
                       struct raw_section *section)
{
    struct sound_options *sound = config_alloc(build->memory, 1, sizeof *sound);
    if (sound == NULL)
        return ERROR_MEMORY;
    stream->source.max_gap_ns = value_of(section, KEY_MAX_GAP)->integer;
    if (!check_format(build, section, KEY_FORMAT, &stream->source.format) ||
        !fill(build, section, &stream_keys, stream->source.rate_hz, sound) ||
        !build_map(build, section, KEY_CHANNEL_MAP, stream->source.channels,
                   &sound->request.capture))
        return ERROR_CONFIG;
    sound->request.capture.format = stream->source.format;
    enum { MODE_RECORD = 1, MODE_DIRECT };
    int64_t mode = value_of(section, KEY_MODE)->integer;
    sound->direct_mode = mode == MODE_DIRECT;
    if (mode == MODE_RECORD) {
        config_error(build->errors, place_of(section, KEY_MODE),
                     "a sound card sends no records; write mode = continuous or direct");
        return ERROR_CONFIG;
    }
    sound->round_trip_given = value_given(section, KEY_ROUND_TRIP);
    if (sound->round_trip_given && !frames_of(build, section, KEY_ROUND_TRIP,
                                              stream->source.rate_hz, &sound->round_trip_frames))
        return ERROR_CONFIG;
    stream->source.sound = sound;
    return 0;
}

/* ---- sinks ------------------------------------------------------------------------------- */

static bool same_device(const struct sound_request *a, const struct sound_request *b)
{
    return strcmp(a->device, b->device) == 0 && a->api == b->api;
}

/* The stream that captures from the sink's duplex card; NULL when reported. */
static const struct config_stream *find_capture(struct build *build,
                                                const struct raw_section *section,
                                                const struct config_stream *played,
                                                const struct sound_options *sound)
{
    /* Who captures from the card that plays the result means this pair; several may (JACK). */
    const struct sound_options *own = played->source.sound;
    const struct config_stream *found =
        own != NULL && own->duplex && same_device(&own->request, &sound->request) ? played : NULL;
    for (uint32_t s = 0; found != played && s < build->config->stream_count; s++) {
        const struct sound_options *other = build->streams[s].source.sound;
        if (other == NULL || !other->duplex || !same_device(&other->request, &sound->request))
            continue;
        if (found != NULL) {
            config_error(
                build->errors, place_of(section, KEY_SINK_DUPLEX),
                "streams %s and %s both capture from `%s` with duplex = yes; leave it to one",
                found->name, build->streams[s].name, sound->request.device);
            return NULL;
        }
        found = &build->streams[s];
    }
    if (found == NULL)
        config_error(
            build->errors, place_of(section, KEY_SINK_DUPLEX),
            "no stream captures from `%s` with duplex = yes; write `source = portaudio`, the "
            "same card and host api, and duplex = yes in the stream that does, or "
            "duplex = no here",
            sound->request.device);
    else if (found->source.sound->request.playback.channels > 0) {
        config_error(build->errors, place_of(section, KEY_SINK_DUPLEX),
                     "another sink plays on `%s` with duplex = yes already; a card has one",
                     sound->request.device);
        found = NULL;
    }
    return found;
}

/* auto: a source and a card that have one clock each. What waits for room has the card's. */
static void build_resample(struct build *build, const struct raw_section *section,
                           const struct config_stream *stream, struct sound_options *sound)
{
    enum { AUTO, YES };
    int64_t wish = value_of(section, KEY_SINK_RESAMPLE)->integer;
    bool own_clock = stream->live || stream->source.paced;
    if (wish == YES && sound->duplex)
        config_error(
            build->errors, place_of(section, KEY_SINK_RESAMPLE),
            "a duplex card has one clock, and its frame numbers would lose their meaning; write "
            "resample = no");
    sound->resample = wish == YES || (wish == AUTO && own_clock && !sound->duplex);
}

int build_sound_sink(struct build *build, const struct raw_section *section,
                     const struct config_stream *stream, struct sink_options *options)
{
    struct sound_options *sound = config_alloc(build->memory, 1, sizeof *sound);
    uint64_t latency = 0;
    if (sound == NULL)
        return ERROR_MEMORY;
    if (!check_format(build, section, KEY_SINK_FORMAT, &options->format) ||
        !fill(build, section, &sink_keys, stream->output_rate_hz, sound) ||
        !frames_of(build, section, KEY_SINK_LATENCY, stream->output_rate_hz, &latency) ||
        !build_map(build, section, KEY_SINK_CHANNEL_MAP, stream->output_floats,
                   &sound->request.playback))
        return 0;
    sound->request.playback.format = options->format;
    if (sound->duplex) {
        const struct config_stream *capture = find_capture(build, section, stream, sound);
        if (capture == NULL)
            return 0;
        if (capture->source.rate_hz != stream->output_rate_hz) {
            config_error(
                build->errors, place_of(section, KEY_SINK_DUPLEX),
                "stream %s captures at %.15g Hz and stream %s is played at %.15g Hz; a duplex "
                "card has one rate",
                capture->name, capture->source.rate_hz, stream->name, stream->output_rate_hz);
            return 0;
        }
        struct sound_options *both = (struct sound_options *)capture->source.sound;
        both->request.playback = sound->request.playback;
        both->request.allow_conversion |= sound->request.allow_conversion;
        both->own = capture == stream;
        sound = both;
    }
    build_resample(build, section, stream, sound);
    sound->latency_frames = latency;
    sound->hop_frames = (uint32_t)decimation_kept_most(stream->decimate, stream->hop_frames);
    sound->request.playback_frames =
        latency + 8 * (uint64_t)sound->hop_frames + (uint64_t)(stream->output_rate_hz / HALF);
    set_period(sound, sound->hop_frames);
    options->sound = sound;
    return 0;
}

/* Nothing that takes time or other frames than those of the callback. */
static void check_direct(struct build *build, const struct config_stream *stream,
                         const struct sound_options *sound, const struct raw_section *section)
{
    const char *why = NULL;
    if (!sound->own || sound->request.playback.channels == 0)
        why = "plays what it has captured: write duplex = yes here, and a [sink] with type = "
              "portaudio, "
              "the same card and duplex = yes for this stream";
    else if (stream->align)
        why = "cannot play before it has captured; leave `align` out";
    else if (sound->latency_frames > 0)
        why = "adds no frame; leave `latency` out of its sink";
    if (why != NULL)
        config_error(build->errors, place_of(section, KEY_MODE), "`mode = direct` %s", why);
}

void check_sound_pairs(struct build *build)
{
    for (uint32_t s = 0; s < build->config->stream_count; s++) {
        struct config_stream *stream = &build->streams[s];
        struct sound_options *sound = (struct sound_options *)stream->source.sound;
        if (sound == NULL)
            continue;
        set_period(sound, stream->hop_frames);
        if (sound->direct_mode)
            check_direct(build, stream, sound, build->stream_sections[s]);
        else if (sound->duplex && sound->request.playback.channels == 0)
            config_warning(build->errors, place_of(build->stream_sections[s], KEY_DUPLEX),
                           "no sink plays on `%s` with duplex = yes: stream %s captures alone",
                           sound->request.device, stream->name);
    }
}
