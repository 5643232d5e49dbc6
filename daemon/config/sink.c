/*
 * Sinks of the configuration: where results go, in which format, and whether that place can
 * hold them.
 */
#include "config/internal.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#include "wire/rtp.h"

enum {
    IP_UDP_BYTES_4 = 28, /* headers of IPv4 and UDP */
    IP_UDP_BYTES_6 = 48,
    PORTS_MAX = 16, /* stream_add_port */
};

/* The sink's sample format: order by the protocol unless written. */
static bool build_format(struct build *build, const struct raw_section *section,
                         struct sample_format *format)
{
    bool rtp = section->type == SINK_RTP;
    sample_format_parse(rtp ? "f32be" : "f32le", format);
    if (!value_given(section, KEY_SINK_FORMAT))
        return true;
    const struct value *value = value_of(section, KEY_SINK_FORMAT);
    *format = value->format;
    if (!value->order_written)
        format->big_endian = rtp;
    struct config_place place = place_of(section, KEY_SINK_FORMAT);
    if (format->kind == SAMPLE_UNSIGNED || format->bytes == 1) {
        config_error(build->errors, place,
                     "`format = %s` cannot carry results; write s16, s24, s32 or f32", value->text);
        return false;
    }
    if (format->big_endian != rtp) {
        char name[24];
        format->big_endian = rtp;
        config_error(build->errors, place, "%s; write %s",
                     rtp                               ? "RTP sends samples big-endian"
                     : section->type == SINK_PORTAUDIO ? "sound cards take samples little-endian"
                                                       : "recordings hold samples little-endian",
                     sample_format_name(format, name));
        return false;
    }
    return true;
}

/* The value of a full-scale code, in the unit of the stream's first output. */
static bool build_full_scale(struct build *build, const struct raw_section *section,
                             const struct config_stream *stream, struct sink_options *options)
{
    const struct value *value = value_of(section, KEY_SINK_FULL_SCALE);
    if (value != NULL)
        return amplitude_in(build, &schema_keys[KEY_SINK_FULL_SCALE], value,
                            place_of(section, KEY_SINK_FULL_SCALE), stream->units[0],
                            &options->full_scale);
    options->full_scale = 1;
    if (options->format.kind == SAMPLE_FLOAT)
        return true;
    /* The largest of the first stream of the chain: filters have gain 1 in their band. */
    while (stream->upstream >= 0)
        stream = &build->streams[stream->upstream];
    double largest = 0;
    for (uint32_t c = 0; c < stream->source.channels; c++)
        largest = fmax(largest, channel_scale_factor(&stream->scales[c]));
    options->full_scale = largest;
    return true;
}

static void check_packet(struct build *build, const struct raw_section *section,
                         const struct config_stream *stream, const struct sink_options *options)
{
    uint32_t frame_bytes = stream->output_floats * options->format.bytes;
    const struct value *address = value_of(section, KEY_SINK_ADDRESS);
    bool six = memchr(address->host, ':', address->host_length) != NULL;
    uint32_t headers =
        (six ? IP_UDP_BYTES_6 : IP_UDP_BYTES_4) + RTP_HEADER_BYTES + RTP_EXTENSION_BYTES;
    if (frame_bytes + headers > options->mtu)
        config_error(
            build->errors, place_of(section, KEY_MTU),
            "sink %s: one frame of %u channels has %u bytes and does not fit packets of %u with "
            "their headers; write mtu = %u or more, or a narrower `format`",
            section->name, stream->output_floats, frame_bytes, options->mtu, frame_bytes + headers);
}

static int build_rtp(struct build *build, const struct raw_section *section,
                     const struct config_stream *stream, struct sink_options *options)
{
    const struct value *address = value_of(section, KEY_SINK_ADDRESS);
    const struct value *interface = value_of(section, KEY_SINK_INTERFACE);
    const struct value *ssrc = value_of(section, KEY_SINK_SSRC);
    options->address = address->text;
    options->interface = interface != NULL ? interface->text : NULL;
    options->payload_type = (uint32_t)value_of(section, KEY_SINK_PAYLOAD_TYPE)->integer;
    options->ttl = (uint32_t)value_of(section, KEY_TTL)->integer;
    options->mtu = (uint32_t)value_of(section, KEY_MTU)->integer;
    options->ssrc_set = ssrc != NULL;
    options->ssrc = ssrc != NULL ? (uint32_t)ssrc->integer : 0;
    options->send_buffer_bytes = (uint64_t)value_of(section, KEY_SEND_BUFFER)->integer;
    if (address->port == 0 || (address->host_length == 1 && address->host[0] == '*'))
        config_error(build->errors, place_of(section, KEY_SINK_ADDRESS),
                     "`address = %s` is no destination; write a host or group and a port, as in "
                     "239.1.2.3:5004",
                     address->text);
    const struct value *sdp = value_of(section, KEY_SDP);
    if (sdp != NULL && strcmp(sdp->text, "none") != 0) {
        options->sdp_path = build_path(build, sdp->text, place_of(section, KEY_SDP));
    } else if (sdp == NULL && build->config->daemon.runtime_directory != NULL) {
        char path[4200];
        snprintf(path, sizeof path, "%s/%s.sdp", build->config->daemon.runtime_directory,
                 section->name);
        options->sdp_path = config_copy(build->memory, path, strlen(path));
    }
    if (options->sdp_path == NULL && (sdp == NULL ? build->config->daemon.runtime_directory != NULL
                                                  : strcmp(sdp->text, "none") != 0))
        return ERROR_MEMORY;
    check_payload_type(build, (struct raw_section *)section, KEY_SINK_PAYLOAD_TYPE,
                       &options->format, stream->output_rate_hz, stream->output_floats);
    check_packet(build, section, stream, options);
    return 0;
}

/* What the container's header cannot hold, before asking the writer. */
static bool check_recording(struct build *build, const struct raw_section *section,
                            const struct sink_options *options, double rate_hz, uint32_t channels)
{
    struct config_place place =
        value_given(section, KEY_CONTAINER) ? place_of(section, KEY_CONTAINER) : section->place;
    char rate[40];
    snprintf(rate, sizeof rate, "%.15g Hz", rate_hz);
    if (rate_hz != nearbyint(rate_hz) || rate_hz > 2147483647.0) {
        config_error(build->errors, place,
                     "a %s recording holds rates in whole Hz up to 2147483647 Hz, not %s; write "
                     "type = rtp for this stream, or record a stream whose `rate` (over its "
                     "`decimate`) fits",
                     options->container, rate);
        return false;
    }
    uint64_t frame_bytes = (uint64_t)channels * options->format.bytes;
    double bytes_per_second = rate_hz * (double)frame_bytes;
    if (bytes_per_second > 4294967295.0) {
        config_error(
            build->errors, place,
            "a %s recording holds up to 4294967295 bytes a second, not %.0f (%u channels of %u "
            "bytes at %s); write a narrower `format`, or record fewer channels",
            options->container, bytes_per_second, channels, options->format.bytes, rate);
        return false;
    }
    struct problem problem;
    if (build->world->recordable(options, &problem) != 0) {
        config_error(build->errors, place, "sink %s: %s", section->name, problem.text);
        return false;
    }
    return true;
}

static void build_recording(struct build *build, const struct raw_section *section,
                            const struct config_stream *stream, struct sink_options *options)
{
    options->container = value_of(section, KEY_CONTAINER)->text;
    options->raw = value_of(section, KEY_RECORD)->integer == 1;
    const struct value *rotate = value_of(section, KEY_ROTATE);
    if (rotate != NULL && rotate->dimension == DIMENSION_TIME)
        options->rotate_ns = rotate->integer;
    else if (rotate != NULL)
        options->rotate_bytes = (uint64_t)rotate->integer;
    const struct value *keep = value_of(section, KEY_KEEP);
    options->keep = keep != NULL ? (uint32_t)keep->integer : 0;
    options->min_free_bytes = (uint64_t)value_of(section, KEY_MIN_FREE)->integer;
    options->flush_ns = value_of(section, KEY_FLUSH)->integer;
    options->queue_bytes = (uint64_t)value_of(section, KEY_QUEUE)->integer;
    if (keep != NULL && rotate == NULL)
        config_error(
            build->errors, place_of(section, KEY_KEEP),
            "`keep` counts the files of a rotation; write `rotate` too, as rotate = 10 min, or "
            "remove it");
    if (options->raw) {
        if (value_given(section, KEY_SINK_FORMAT))
            config_error(build->errors, place_of(section, KEY_SINK_FORMAT),
                         "`record = input` keeps the format of the source; remove `format`");
        options->format = stream->source.format;
        if (stream->upstream >= 0)
            config_warning(build->errors, place_of(section, KEY_RECORD),
                           "the input of stream %s is the output of stream %s; record that instead",
                           stream->name, build->streams[stream->upstream].name);
    }
    /* The facts the writer is asked about; the running stream fills in the rest. */
    options->stream.name = stream->name;
    options->stream.rate_hz = stream->output_rate_hz;
    options->stream.decimate = stream->decimate_total;
    options->stream.channels = stream->output_floats;
    options->stream.input_format = stream->source.format;
    options->stream.input_channels = stream->source.channels;
    options->stream.input_rate_hz = stream->source.rate_hz;
    options->stream.input_scales = stream->scales;
    check_recording(build, section, options,
                    options->raw ? stream->source.rate_hz : stream->output_rate_hz,
                    options->raw ? stream->source.channels : stream->output_floats);
}

static int build_sink(struct build *build, uint32_t index)
{
    struct raw_section *section = build->sink_sections[index];
    struct config_sink *sink = &build->sinks[index];
    sink->name = section->name;
    sink->place = section->place;
    sink->type = section->type >= 0 ? sink_kind_name(section->type) : "";
    if (value_given(section, KEY_SINK_PATH)) { /* now, so that destinations can be compared */
        sink->options.path = build_path(build, value_of(section, KEY_SINK_PATH)->text,
                                        place_of(section, KEY_SINK_PATH));
        if (sink->options.path == NULL)
            return ERROR_MEMORY;
    }
    if (!value_given(section, KEY_SINK_STREAM)) {
        section->broken = true;
        return 0;
    }
    const char *name = value_of(section, KEY_SINK_STREAM)->text;
    int stream_index = config_find_stream(build->config, name);
    if (stream_index < 0) {
        report_unknown(build, place_of(section, KEY_SINK_STREAM), section, SECTION_STREAM, name);
        section->broken = true;
    } else {
        sink->stream = (uint32_t)stream_index;
    }
    if (section->broken || build->stream_sections[stream_index]->broken)
        return 0;
    const struct config_stream *stream = &build->streams[stream_index];
    struct sink_options *options = &sink->options;
    options->name = section->name;
    if (section->type == SINK_OSC)
        return 0;
    if (!build_format(build, section, &options->format) ||
        !build_full_scale(build, section, stream, options))
        return 0;
    if (section->type == SINK_RTP)
        return build_rtp(build, section, stream, options);
    if (section->type == SINK_PORTAUDIO)
        return build_sound_sink(build, section, stream, options);
    build_recording(build, section, stream, options);
    return 0;
}

/* A recording must not replace what a stream reads. */
static void check_overwriting(struct build *build, const struct raw_section *section,
                              const char *path)
{
    for (uint32_t s = 0; path != NULL && s < build->config->stream_count; s++)
        if (build->streams[s].source.path != NULL &&
            strcmp(build->streams[s].source.path, path) == 0)
            config_error(build->errors, place_of(section, KEY_SINK_PATH),
                         "sink %s would overwrite `%s`, which stream %s reads; write another path",
                         section->name, path, build->streams[s].name);
}

/* ---- one destination, one sink ----------------------------------------------------------- */

static bool same_destination(const struct build *build, uint32_t i, uint32_t k)
{
    const struct raw_section *a = build->sink_sections[i], *b = build->sink_sections[k];
    if (a->type != b->type || a->type < 0)
        return false;
    if (a->type == SINK_OSC) /* subscribers would get everything twice */
        return build->sinks[i].stream == build->sinks[k].stream && !a->broken && !b->broken;
    if (a->type == SINK_PORTAUDIO) /* JACK mixes what several play into one port */
        return false;
    if (a->type == SINK_RECORDING)
        return build->sinks[i].options.path != NULL && build->sinks[k].options.path != NULL &&
               strcmp(build->sinks[i].options.path, build->sinks[k].options.path) == 0;
    const struct value *x = value_of(a, KEY_SINK_ADDRESS), *y = value_of(b, KEY_SINK_ADDRESS);
    return x != NULL && y != NULL && x->port == y->port && same_host(x, y, false);
}

static void check_destinations(struct build *build)
{
    for (uint32_t i = 0; i < build->config->sink_count; i++) {
        const struct raw_section *section = build->sink_sections[i];
        enum schema_id id = section->type == SINK_RTP   ? KEY_SINK_ADDRESS
                            : section->type == SINK_OSC ? KEY_SINK_STREAM
                                                        : KEY_SINK_PATH;
        for (uint32_t k = 0; k < i; k++)
            if (same_destination(build, i, k)) {
                config_error(
                    build->errors, place_of(section, id),
                    "sinks %s and %s have one destination, `%s`; write another %s for one of them",
                    build->sink_sections[k]->name, section->name, value_of(section, id)->text,
                    section->type == SINK_RTP   ? "address or port"
                    : section->type == SINK_OSC ? "stream"
                                                : "path");
                break;
            }
        if (section->type == SINK_RECORDING)
            check_overwriting(build, section, build->sinks[i].options.path);
        if (section->type != SINK_RTP || value_of(section, KEY_SINK_ADDRESS) == NULL)
            continue;
        const struct value *to = value_of(section, KEY_SINK_ADDRESS);
        for (uint32_t s = 0; s < build->config->stream_count; s++) {
            const struct value *from = value_of(build->stream_sections[s], KEY_ADDRESS);
            if (from != NULL && from->port == to->port && same_host(from, to, false))
                config_warning(
                    build->errors, place_of(section, id),
                    "sink %s sends to the address that stream %s receives from; write source = "
                    "stream %s there for a chain, or another address",
                    section->name, build->stream_sections[s]->name,
                    value_given(section, KEY_SINK_STREAM) ? value_of(section, KEY_SINK_STREAM)->text
                                                          : "NAME");
        }
    }
}

/* How many sinks and chains read each stream: at least one, at most PORTS_MAX. */
static void check_readers(struct build *build)
{
    for (uint32_t s = 0; s < build->config->stream_count; s++) {
        unsigned readers = 0;
        const char *name = build->streams[s].name;
        for (uint32_t i = 0; i < build->config->sink_count; i++)
            readers += value_given(build->sink_sections[i], KEY_SINK_STREAM) &&
                       strcmp(value_of(build->sink_sections[i], KEY_SINK_STREAM)->text, name) == 0;
        for (uint32_t k = 0; k < build->config->stream_count; k++)
            readers += build->stream_sections[k]->type == SOURCE_STREAM &&
                       strcmp(value_of(build->stream_sections[k], KEY_SOURCE)->name, name) == 0;
        if (readers > PORTS_MAX)
            config_error(
                build->errors, build->streams[s].place,
                "%u sinks and chains read stream %s, at most %d can; send one multicast group to "
                "several receivers, or chain through a stream with an identity filter",
                readers, name, PORTS_MAX);
        if (readers == 0)
            config_warning(
                build->errors, build->streams[s].place,
                "nothing receives the results of stream %s; add a [sink NAME] with stream = %s",
                name, name);
    }
}

int build_sinks(struct build *build)
{
    for (uint32_t i = 0; i < build->config->sink_count; i++) {
        int status = build_sink(build, i);
        if (status != 0)
            return status;
    }
    check_destinations(build);
    check_sound_pairs(build);
    check_readers(build);
    return 0;
}
