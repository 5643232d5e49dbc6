/* The report of `--check`: see check.h. */
#include "report/check.h"

#include <assert.h>
#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "core/power.h"
#include "core/quantity.h"
#include "wire/rtp.h"
#include "io/sound/card.h"
#include "report/alias.h"
#include "config/internal.h"
#include "report/fk.h"
#include "pipeline/stream_filters.h"
#include "signal/decimation.h"

/* Guesses for a CPU that nobody has measured yet; the daemon measures its device at start. */
#define DEVICE_FLOPS      4e9
#define LAUNCH_S          50e-6
#define PACKET_S          2e-6
#define SECONDS_A_DAY     86400.0
#define FFT_IN_ONE_LAUNCH 8192u
#define FFT_LONGEST       (1u << 20)

enum { IP_UDP_BYTES_4 = 28, IP_UDP_BYTES_6 = 48 };

/* ---- the plan ---------------------------------------------------------------------------- */

static uint32_t fft_from(uint64_t least)
{
    const uint64_t fft = power_of_two_from(64, least);
    return fft < FFT_LONGEST ? (uint32_t)fft : FFT_LONGEST;
}

/* N and the number of partitions for L new frames and S taps, where the configuration leaves it
 * open. */
static void plan_transform(const struct config_stream *stream, uint32_t taps,
                           struct check_plan *plan)
{
    uint64_t hop = stream->hop_frames;
    const uint32_t whole = fft_from(hop + taps - 1), partitioned = fft_from(2 * hop);
    plan->fft = stream->fft != 0             ? stream->fft
                : whole <= FFT_IN_ONE_LAUNCH ? whole
                : partitioned < whole        ? partitioned
                                             : whole;
    uint64_t piece = plan->fft > hop ? plan->fft - hop + 1 : 1;
    plan->partitions = (uint32_t)((taps + piece - 1) / piece);
}

static double plan_device_s(const struct config_stream *stream, const struct check_plan *plan)
{
    double n = plan->fft;
    double transform = 2.5 * n * log2(n);
    double products = 3.0 * n * plan->partitions * stream->edge_count;
    double flops = (stream->source.channels + stream->output_floats) * transform + products;
    return LAUNCH_S + flops / DEVICE_FLOPS;
}

/* Headers of one packet: IP, UDP, RTP and the extension of results. */
static uint32_t header_bytes(const struct sink_options *options)
{
    bool six = options->address[0] == '[';
    return (six ? IP_UDP_BYTES_6 : IP_UDP_BYTES_4) + RTP_HEADER_BYTES + RTP_EXTENSION_BYTES;
}

/* Packets of one block: each block ends with its own, so that no frame waits for the next. */
static double packets_per_block(const struct config_stream *stream,
                                const struct sink_options *options)
{
    uint32_t frame_bytes = stream->output_floats * options->format.bytes;
    uint32_t headers = header_bytes(options);
    assert(frame_bytes > 0 && options->mtu >= headers + frame_bytes);
    uint32_t frames = (options->mtu - headers) / frame_bytes;
    return ceil((double)decimation_kept_most(stream->decimate, stream->hop_frames) / frames);
}

static double plan_egress_s(const struct config *config, const struct config_stream *stream)
{
    double packets = 0;
    for (uint32_t i = 0; i < config->sink_count; i++)
        if (&config->streams[config->sinks[i].stream] == stream &&
            strcmp(config->sinks[i].type, "rtp") == 0)
            packets += packets_per_block(stream, &config->sinks[i].options);
    return packets * PACKET_S;
}

int check_plan_make(const struct config *config, const struct config_stream *stream,
                    const struct check_plan *upstream, struct check_plan *plan,
                    struct problem *problem)
{
    *plan = (struct check_plan){0};
    struct stream_filters filters = {0};
    int status = stream_filters_make(config, stream, &filters, problem);
    if (status == 0) {
        plan->delay_frames = filters.delay_frames;
        for (uint32_t i = 0; i < filters.count; i++)
            if (filters.taps[i]->count > plan->taps_longest)
                plan->taps_longest = filters.taps[i]->count;
        plan->total_delay_frames = plan->delay_frames;
        if (upstream != NULL) {
            const struct config_stream *before = &config->streams[stream->upstream];
            plan->total_delay_frames += decimation_inherited_frames(
                before->decimate, upstream->total_delay_frames, before->align);
        }
        plan_transform(stream, plan->taps_longest, plan);
        plan->accumulate_s = stream->hop_frames / stream->source.rate_hz;
        plan->ingest_max_s = (double)stream->source.reorder_ns * 1e-9;
        plan->device_s = plan_device_s(stream, plan);
        plan->egress_s = plan_egress_s(config, stream);
    }
    stream_filters_free(&filters);
    return status;
}

/* ---- sinks ------------------------------------------------------------------------------- */

double check_sink_bytes_per_second(const struct config *config, const struct config_sink *sink)
{
    const struct config_stream *stream = &config->streams[sink->stream];
    double rate_hz = stream->source.rate_hz;
    if (sink->options.raw)
        return rate_hz * stream->source.frame_bytes;
    double samples = stream->output_rate_hz * stream->output_floats * sink->options.format.bytes;
    if (strcmp(sink->type, "rtp") != 0)
        return samples;
    return samples + packets_per_block(stream, &sink->options) * rate_hz / stream->hop_frames *
                         header_bytes(&sink->options);
}

/* What a sound card adds: the period of a JACK server is known when it is opened. */
static void print_card(const struct sound_options *sound, FILE *out)
{
    uint32_t period = sound->request.period_frames;
    fprintf(out,
            "  sound card       one period of capture: %u frames = %.3g ms, or what a JACK server "
            "has\n",
            period, 1e3 * period / sound->request.rate_hz);
}

static void print_card_sink(const struct config_sink *sink, FILE *out)
{
    const struct sound_options *sound = sink->options.sound;
    char format[24];
    fprintf(out, "  sink %-11s sound card `%s`, %u channels, %s\n", sink->name,
            sound->request.device, sound->request.playback.channels,
            sample_format_name(&sink->options.format, format));
    if (sound->latency_frames > 0)
        fprintf(out, "%19splayed %" PRIu64 " frames = %.3g ms later\n", "", sound->latency_frames,
                1e3 * (double)sound->latency_frames / sound->request.rate_hz);
    else
        fprintf(out, "%19splayed %s later\n", "",
                sound->duplex && sound->own ? "one block and what its end waits for a period's"
                                            : "two blocks and two periods");
}

static void print_sink(const struct config *config, const struct config_sink *sink, FILE *out)
{
    if (sink->options.sound != NULL) {
        print_card_sink(sink, out);
        return;
    }
    const struct sink_options *options = &sink->options;
    bool rtp = strcmp(sink->type, "rtp") == 0;
    if (strcmp(sink->type, "osc") == 0) {
        fprintf(out, "  sink %-11s OSC from %s to those who subscribe\n", sink->name,
                config->osc.address);
        return;
    }
    double bytes = check_sink_bytes_per_second(config, sink);
    char format[24], size[48];
    fprintf(out, "  sink %-11s %s %s, %s", sink->name, rtp ? "RTP to" : "recording",
            rtp ? options->address : options->path, sample_format_name(&options->format, format));
    if (rtp)
        fprintf(out, ", payload type %u", options->payload_type);
    else if (options->raw)
        fprintf(out, ", the raw input");
    fprintf(out, "\n%19s%.0f bytes/s%s, %.0f bytes/day (%s)\n", "", bytes,
            rtp ? " with headers" : "", bytes * SECONDS_A_DAY,
            quantity_print(DIMENSION_MEMORY, bytes * SECONDS_A_DAY, size, sizeof size));
    if (options->format.kind != SAMPLE_FLOAT && !options->raw)
        fprintf(out, "%19sfull scale is %.6g %s; larger values saturate and are counted\n", "",
                options->full_scale, config->streams[sink->stream].units[0]);
    if (!rtp && options->keep > 0) {
        double each = options->rotate_bytes > 0 ? (double)options->rotate_bytes
                                                : (double)options->rotate_ns * 1e-9 * bytes;
        fprintf(out, "%19skeeps %u files of %s: %s\n", "", options->keep,
                quantity_print(DIMENSION_MEMORY, each, format, sizeof format),
                quantity_print(DIMENSION_MEMORY, each * options->keep, size, sizeof size));
    }
}

/* ---- streams ----------------------------------------------------------------------------- */

static void print_source(const struct config *config, const struct config_stream *stream, FILE *out)
{
    const struct source_options *source = &stream->source;
    char rate[48], format[24];
    fprintf(out, "stream %s: ", stream->name);
    if (stream->upstream >= 0)
        fprintf(out, "the output of stream %s", config->streams[stream->upstream].name);
    else if (source->address != NULL)
        fprintf(out, "%s on %s", stream->source_type, source->address);
    else if (source->path != NULL)
        fprintf(out, "%s %s", stream->source_type, source->path);
    else if (strcmp(stream->source_type, "osc") == 0)
        fprintf(out, "osc at %s", config->osc.address);
    else if (source->sound != NULL)
        fprintf(out, "sound card `%s`", source->sound->request.device);
    else
        fprintf(out, "%s, %s", stream->source_type, waveform_kind_name(source->waveform.kind));
    fprintf(out, ", %u channel%s at %s, %s\n", source->channels, source->channels == 1 ? "" : "s",
            quantity_print(DIMENSION_FREQUENCY, source->rate_hz, rate, sizeof rate),
            sample_format_name(&source->format, format));
    double bytes = source->rate_hz * source->frame_bytes;
    fprintf(out, "  input            %.0f bytes/s of samples\n", bytes);
    if (source->sound != NULL)
        print_card(source->sound, out);
    if (stream->live && source->receive_buffer_bytes > 0)
        fprintf(out, "  receive buffer   %s at this rate, if the kernel grants it\n",
                quantity_print(DIMENSION_TIME, (double)source->receive_buffer_bytes / bytes, rate,
                               sizeof rate));
}

static const char *loss_sentence(const struct config_stream *stream)
{
    if (!stream->loss_detectable)
        return "NOT detectable: headerless datagrams carry no numbers, so what the network loses "
               "shortens the signal unseen; only losses in the socket are counted";
    if (stream->source.sound != NULL)
        return "detectable: overruns of the card and of its ring are counted, and gaps are filled "
               "and "
               "flagged";
    if (!stream->live)
        return "none: the source waits, nothing can be lost before the ring";
    return "detectable: sequence numbers show every lost packet; gaps are filled, flagged and "
           "counted";
}

static const char *time_text(double seconds, char *text, size_t bytes)
{
    return quantity_print(DIMENSION_TIME, seconds, text, bytes);
}

static void print_latency(const struct config_stream *stream, const struct check_plan *plan,
                          FILE *out)
{
    char text[48], more[48];
    double window = plan->ingest_max_s;
    fprintf(out, "  latency          accumulate  %-10s one block of %u frames\n",
            time_text(plan->accumulate_s, text, sizeof text), stream->hop_frames);
    if (stream->hop_free)
        fprintf(
            out,
            "                               chosen for `latency = %s`; convolvd --tune measures "
            "what fits best\n",
            time_text((double)stream->latency_ns / 1e9, text, sizeof text));
    if (window > 0)
        fprintf(out,
                "                   ingest      %-10s when nothing is missing, else up to %s "
                "(reorder)\n",
                "0 s", time_text(window, more, sizeof more));
    else
        fprintf(out, "                   ingest      %-10s nothing is awaited\n", "0 s");
    fprintf(out, "                   wait        %-10s idle; one batch when the device is busy\n",
            "0 s");
    fprintf(out, "                   device      %-10s estimated, N = %u, %u partition%s\n",
            time_text(plan->device_s, text, sizeof text), plan->fft, plan->partitions,
            plan->partitions == 1 ? "" : "s");
    fprintf(out, "                   egress      %-10s estimated\n",
            time_text(plan->egress_s, text, sizeof text));
    double total = plan->accumulate_s + plan->device_s + plan->egress_s;
    fprintf(out, "                   together    %s", time_text(total, text, sizeof text));
    if (window > 0)
        fprintf(out, ", and up to %s more after a loss", time_text(window, more, sizeof more));
    fputc('\n', out);
    if (plan->device_s > plan->accumulate_s)
        fprintf(
            out,
            "                   (the device needs longer than a block lasts by this estimate: a "
            "longer `block` or a GPU would help)\n");
}

static void print_delay(const struct config_stream *stream, const struct check_plan *plan,
                        FILE *out)
{
    char text[48];
    double rate_hz = stream->source.rate_hz;
    fprintf(out, "  filter delay     %.10g frames = %s, %s\n", plan->delay_frames,
            time_text(plan->delay_frames / rate_hz, text, sizeof text),
            stream->align ? "taken out of frame numbers and times"
                          : "reported, not taken out (`align = no`)");
    if (plan->total_delay_frames != plan->delay_frames)
        fprintf(out, "                   %.10g frames = %s with the streams before it\n",
                plan->total_delay_frames,
                time_text(plan->total_delay_frames / rate_hz, text, sizeof text));
}

static void print_outputs(const struct config *config, const struct config_stream *stream,
                          const struct check_plan *plan, FILE *out)
{
    enum { SHOWN = 8 };
    unsigned shown = 0, filters = 0;
    fprintf(out, "  filters          ");
    for (uint32_t f = 0; f < config->filter_count; f++) {
        bool used = false;
        for (uint32_t e = 0; e < stream->edge_count; e++)
            used = used || stream->edges[e].filter == f;
        filters += used;
        if (used && shown < SHOWN)
            fprintf(out, "%s%s", shown++ > 0 ? ", " : "", config->filters[f].name);
    }
    if (filters > shown)
        fprintf(out, " and %u more", filters - shown);
    fprintf(out, "; longest %u taps\n  outputs          %u channel%s (%u edge%s) in %s\n",
            plan->taps_longest, stream->output_floats, stream->output_floats == 1 ? "" : "s",
            stream->edge_count, stream->edge_count == 1 ? "" : "s", stream->units[0]);
}

/* What plane waves see of one filter of an array. */
static int print_array(const struct config_filter *filter, const struct config_stream *stream,
                       FILE *out, struct problem *problem)
{
    struct filter_spec spec = stream_filter_spec(filter, stream);
    struct taps **sets;
    uint32_t count;
    double rate_hz = stream->source.rate_hz;
    int error = fk_make(&spec.fk, rate_hz, &sets, &count, problem);
    if (error != 0)
        return error;
    struct fk_measure *measure = malloc(sizeof *measure);
    if (measure == NULL)
        error = problem_set(problem, ERROR_MEMORY, "no memory to measure filter %s", filter->name);
    else
        error = fk_measure(&spec.fk, rate_hz, sets, measure, problem);
    if (error == 0) {
        char label[20];
        snprintf(label, sizeof label, "  fan %.12s", filter->name);
        int width = fprintf(out, "%s", label);
        fprintf(out, "%*s", width < 19 ? 19 - width : 1, "");
        fk_report_figures(out, &spec.fk, rate_hz, measure, "", "                   ");
    }
    free(measure);
    taps_sets_free(sets, count);
    return error;
}

static int print_arrays(const struct config *config, const struct config_stream *stream, FILE *out,
                        struct problem *problem)
{
    int error = 0;
    for (uint32_t f = 0; error == 0 && f < config->filter_count; f++) {
        bool used = false;
        for (uint32_t e = 0; e < stream->edge_count && !used; e++)
            used = stream->edges[e].filter == f;
        if (used && config->filters[f].spec.type == FILTER_FK)
            error = print_array(&config->filters[f], stream, out, problem);
    }
    return error;
}

/* ---- the whole --------------------------------------------------------------------------- */

/* A problem that begins with a place of its own ("FILE:LINE: …") stands there, any other at the
 * stream. */
static void report(const struct config *config, const struct config_stream *stream,
                   const struct problem *problem, struct config_errors *errors)
{
    struct config_place place = stream->place;
    for (uint32_t f = 0; f <= config->filter_count; f++) {
        struct config_place at =
            f < config->filter_count ? config->filters[f].place : stream->place;
        char prefix[512];
        int length = snprintf(prefix, sizeof prefix, "%s:%u: ", at.file, at.line);
        if (length < (int)sizeof prefix && strncmp(problem->text, prefix, (size_t)length) == 0) {
            config_error(errors, at, "%s", problem->text + length);
            return;
        }
    }
    config_error(errors, place, "%s", problem->text);
}

int check_print(const struct config *config, FILE *out, struct config_errors *errors)
{
    struct check_plan *plans = calloc(config->stream_count, sizeof *plans);
    bool *good = calloc(config->stream_count, sizeof *good);
    if (plans == NULL || good == NULL) {
        free(plans);
        free(good);
        return ERROR_MEMORY;
    }
    bool all = true;
    for (uint32_t s = 0; s < config->stream_count; s++) {
        const struct config_stream *stream = &config->streams[s];
        struct problem problem;
        good[s] = stream->upstream < 0 || good[stream->upstream];
        if (good[s] &&
            check_plan_make(config, stream, stream->upstream >= 0 ? &plans[stream->upstream] : NULL,
                            &plans[s], &problem) != 0) {
            report(config, stream, &problem, errors);
            good[s] = false;
        }
        all = all && good[s];
        if (!good[s])
            continue;
        print_source(config, stream, out);
        print_outputs(config, stream, &plans[s], out);
        if (print_arrays(config, stream, out, &problem) != 0) {
            report(config, stream, &problem, errors);
            good[s] = all = false;
            continue;
        }
        if (stream->decimate > 1 && alias_report(config, stream, out, &problem) != 0) {
            report(config, stream, &problem, errors);
            good[s] = all = false;
            continue;
        }
        print_delay(stream, &plans[s], out);
        print_latency(stream, &plans[s], out);
        fprintf(out, "  loss             %s\n", loss_sentence(stream));
        for (uint32_t i = 0; i < config->sink_count; i++)
            if (config->sinks[i].stream == s)
                print_sink(config, &config->sinks[i], out);
        fprintf(out, "\n");
    }
    if (all)
        fprintf(out, "%s is valid: %u stream%s, %u filter%s, %u sink%s; configuration %.12s\n",
                config->path, config->stream_count, config->stream_count == 1 ? "" : "s",
                config->filter_count, config->filter_count == 1 ? "" : "s", config->sink_count,
                config->sink_count == 1 ? "" : "s", config->hash);
    free(plans);
    free(good);
    return all ? 0 : ERROR_CONFIG;
}
