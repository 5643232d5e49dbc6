/* The report of `--check`: see check.h. */
#include "report/check.h"

#include <assert.h>
#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>

#include "core/host_memory.h"
#include "core/power.h"
#include "core/quantity.h"
#include "report/alias.h"
#include "report/analyses.h"
#include "config/internal.h"
#include "report/fk.h"
#include "report/loops.h"
#include "report/nodes.h"
#include "pipeline/stream_filters.h"
#include "signal/decimation.h"

/* Estimates for a CPU without measurements; the daemon measures its device at start. */
#define DEVICE_FLOPS      4e9
#define LAUNCH_S          50e-6
#define PACKET_S          2e-6
#define FFT_IN_ONE_LAUNCH 8192u
#define FFT_LONGEST       (1u << 20)

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

/* What the sink's protocol adds to a block of the stream's results. */
static struct sink_load load_of(const struct config_stream *stream, const struct config_sink *sink)
{
    const double frames = (double)decimation_kept_most(stream->decimate, stream->hop_frames);
    return sink->driver->load != NULL ? sink->driver->load(&sink->options, frames)
                                      : (struct sink_load){0};
}

static double plan_egress_s(const struct config *config, const struct config_stream *stream)
{
    double packets = 0;
    for (uint32_t i = 0; i < config->sink_count; i++)
        if (&config->streams[config->sinks[i].stream] == stream)
            packets += load_of(stream, &config->sinks[i]).packets;
    return packets * PACKET_S;
}

int check_plan_make(const struct config *config, const struct config_stream *stream,
                    const struct check_plan *upstream, struct check_plan *plan,
                    struct problem *problem)
{
    *plan = (struct check_plan){0};
    struct stream_filters filters = {0};
    int status = stream_filters_make(config, stream, NULL, &filters, problem);
    if (status == 0) {
        plan->delay_frames = filters.delay_frames;
        for (uint32_t i = 0; i < filters.count; i++) {
            const struct taps *taps = filters.taps[i];
            if (taps->count > plan->taps_longest)
                plan->taps_longest = taps->count;
            plan->taps_bytes += taps->count * (taps->im != NULL ? UINT64_C(2) : 1) * sizeof(double);
        }
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
    const struct sink_load load = load_of(stream, sink);
    return samples + load.packets * rate_hz / stream->hop_frames * load.header_bytes;
}

static void print_sink(const struct config *config, const struct config_sink *sink, FILE *out)
{
    fprintf(out, "  sink %-11s ", sink->name);
    sink->driver->report(&sink->options, check_sink_bytes_per_second(config, sink), out);
}

/* ---- streams ----------------------------------------------------------------------------- */

static void print_source(const struct config *config, const struct config_stream *stream, FILE *out)
{
    const struct source_options *source = &stream->source;
    char rate[48], format[24], place[512];
    fprintf(out, "stream %s: ", stream->name);
    if (stream->driver == NULL)
        fprintf(out, "the output of stream %s", config->streams[stream->upstream].name);
    else
        fprintf(out, "%s%s", stream->driver->name,
                stream->driver->describe(source, place, sizeof place));
    fprintf(out, ", %u channel%s at %s, %s\n", source->channels, source->channels == 1 ? "" : "s",
            quantity_print(DIMENSION_FREQUENCY, source->rate_hz, rate, sizeof rate),
            sample_format_name(&source->format, format));
    fprintf(out, "  input            %.0f bytes/s of samples\n",
            source->rate_hz * source->frame_bytes);
    if (stream->driver != NULL && stream->driver->report != NULL)
        stream->driver->report(source, out);
}

/* A chain loses what its first stream loses. */
static const char *loss_sentence(const struct config *config, const struct config_stream *stream)
{
    while (stream->upstream >= 0)
        stream = &config->streams[stream->upstream];
    return stream->driver->loss;
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

static void print_excitation(const struct config_stream *stream, FILE *out)
{
    const struct excitation *excitation = &stream->source.excitation;
    const double rate_hz = stream->source.rate_hz;
    char start[48], period[48];
    if (!excitation->known)
        return;
    fprintf(out, "  excitation       begins at frame %.15g = %s of the input",
            excitation->start_frame,
            time_text(excitation->start_frame / rate_hz, start, sizeof start));
    if (excitation->period_frames > 0)
        fprintf(out, ", again every %.15g frames = %s", excitation->period_frames,
                time_text(excitation->period_frames / rate_hz, period, sizeof period));
    fputc('\n', out);
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
    if (stream->driver != NULL && stream->driver->report_settling != NULL && plan->taps_longest > 0)
        stream->driver->report_settling(&stream->source, plan->taps_longest - 1, out);
}

/* What plane waves see of one filter of an array. */
static int print_array(const struct config_filter *filter, const struct config_stream *stream,
                       FILE *out, struct problem *problem)
{
    struct filter_spec spec = config_filter_spec(filter, stream);
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

/* ---- devices ----------------------------------------------------------------------------- */

/* Which devices compute, which stand by, and whether a CPU could carry the streams. */
static void print_devices(const struct config *config, const struct check_plan *plans, FILE *out)
{
    enum { MOST_PERCENT = 90 }; /* load_max of pipeline/takeover.c */
    const char *list = config->device.device;
    double load = 0;
    for (uint32_t s = 0; s < config->stream_count; s++)
        if (config->streams[s].live)
            load += plans[s].device_s / plans[s].accumulate_s;
    fprintf(out, "devices: %s; ", list);
    if (strcmp(list, DEVICE_AUTO) == 0)
        fprintf(out, "the CPU stands by for a GPU, nothing for a CPU");
    else if (strcmp(list, DEVICE_ALL) == 0)
        fprintf(out, "each stands by for the others");
    else if (strchr(list, ',') != NULL)
        fprintf(out, "the first that works computes, the others stand by");
    else
        fprintf(out,
                "nothing stands by, streams wait while it is lost: `device = %s, cpu` has the CPU "
                "stand by",
                list);
    fprintf(out,
            "\n  standing by      a device takes over streams up to a load of %d %%; all of them "
            "would be about %.0f %% of a CPU (estimated; measured at start)\n\n",
            MOST_PERCENT, ceil(100 * load));
}

/* ---- alarms ------------------------------------------------------------------------------ */

/* " below 2 mV", " above 5 s", in the words of the configuration's author as far as may be. */
static void print_limit(const struct config_alarm *alarm, const char *word, double limit, FILE *out)
{
    const enum dimension dimension = alarm_quantity_dimension(alarm->quantity);
    char text[40];
    if (dimension == DIMENSION_RATIO)
        fprintf(out, " %s %.6g %%", word, 100 * limit);
    else if (dimension == DIMENSION_TIME || dimension == DIMENSION_FREQUENCY)
        fprintf(out, " %s %s", word, quantity_print(dimension, limit, text, sizeof text));
    else
        fprintf(out, " %s %.6g%s%s", word, limit, alarm->unit[0] != '\0' ? " " : "", alarm->unit);
}

static void print_alarm(const struct config *config, const struct config_alarm *alarm, FILE *out)
{
    uint32_t watched = 0;
    for (uint32_t c = 0; c < alarm->channel_count; c++)
        watched += alarm->channels[c];
    fprintf(out, "  alarm %-10s %s", alarm->name, alarm->figure);
    if (alarm->analysis >= 0)
        fprintf(out, " of analysis %s", config->analyses[alarm->analysis].name);
    if (alarm->quantity != ALARM_DEVICE && alarm->rule.has_above)
        print_limit(alarm, "above", alarm->rule.above, out);
    if (alarm->rule.has_below)
        print_limit(alarm, alarm->rule.has_above ? "or below" : "below", alarm->rule.below, out);
    if (alarm->channels != NULL)
        fprintf(out, " on %u channel%s", watched, watched == 1 ? "" : "s");
    fprintf(out, "%s\n", alarm->exec ? ", starts a program" : "");
}

/* The alarms of a stream, those that need no section first. */
static void print_alarms(const struct config *config, uint32_t index, FILE *out)
{
    const struct config_stream *stream = &config->streams[index];
    char text[24];
    uint32_t floors = 0;
    if (stream->flat_ns > 0)
        fprintf(out, "  alarm %-10s equal codes for %s\n", ALARM_NAME_FLAT,
                duration_text(stream->flat_ns, text));
    for (uint32_t c = 0; stream->noise_floor != NULL && c < stream->source.channels; c++)
        floors += stream->noise_floor[c] > 0 && !(stream->unused != NULL && stream->unused[c]);
    if (floors > 0)
        fprintf(out, "  alarm %-10s level below half of `noise floor` on %u channel%s\n",
                ALARM_NAME_NOISE, floors, floors == 1 ? "" : "s");
    for (uint32_t i = 0; i < config->alarm_count; i++)
        if (config->alarms[i].stream == index)
            print_alarm(config, &config->alarms[i], out);
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

/* Sockets and files of streams and sinks, and what the process and its drivers have open. */
static void check_descriptors(const struct config *config, struct config_errors *errors)
{
    enum { OWN = 128 };
    struct rlimit limit;
    uint64_t wanted = (uint64_t)config->stream_count + 2 * config->sink_count +
                      config->event_sink_count + config->analysis_count + OWN;
    if (getrlimit(RLIMIT_NOFILE, &limit) == 0 && wanted > limit.rlim_max)
        config_warning(errors, (struct config_place){config->path, 0},
                       "%u streams and %u sinks need about %" PRIu64
                       " open files and sockets, and the limit is %" PRIu64
                       " here; raise it (ulimit -Hn, LimitNOFILE= in the unit)",
                       config->stream_count, config->sink_count, wanted, (uint64_t)limit.rlim_max);
}

/* ---- the OSC server ---------------------------------------------------------------------- */

static void print_networks(const char *const *networks, uint32_t count, FILE *out)
{
    for (uint32_t i = 0; networks != NULL && i < count; i++)
        fprintf(out, ", %s", networks[i]);
}

/* Whom it hears, and who of them may change something. */
static void print_osc(const struct config_osc *osc, FILE *out)
{
    if (!osc->used)
        return;
    fprintf(out, "osc: UDP %s, TCP %s\n", osc->address != NULL ? osc->address : "none",
            osc->tcp_address != NULL ? osc->tcp_address : "none");
    fprintf(out, "  trusted          this machine");
    print_networks(osc->trust, osc->trust_count, out);
    fprintf(out, "\n");
    if (osc->allow_count > 0) {
        fprintf(out, "  once proven      %s", osc->allow[0]);
        print_networks(osc->allow + 1, osc->allow_count - 1, out);
        fprintf(out, "\n");
    }
    fprintf(out, "  may change       %s",
            osc->control == NULL      ? "those trusted"
            : osc->control_count == 0 ? "none"
                                      : osc->control[0]);
    if (osc->control_count > 1)
        print_networks(osc->control + 1, osc->control_count - 1, out);
    fprintf(out, "\n");
    fprintf(out, "\n");
}

/* ---- memory ------------------------------------------------------------------------------ */

struct memory_plan check_memory_plan(const struct check_plan *plan)
{
    return (struct memory_plan){plan->taps_longest, plan->fft, plan->partitions, plan->taps_bytes};
}

/* How much the input ring holds, and whether it had to give way. */
static void print_ring(const struct memory_ring *ring, FILE *out)
{
    struct quantity_pair bytes;
    quantity_print_pair(DIMENSION_MEMORY, (double)ring->bytes, (double)ring->wanted_bytes, &bytes);
    if (!ring->fits)
        fprintf(out,
                "  input ring       does not fit: %s wanted; raise `input memory` in [device]\n",
                bytes.second);
    else if (ring->bytes < ring->wanted_bytes)
        fprintf(out, "  input ring       %s, %.3g ms, not %s: raise `input memory` in [device]\n",
                bytes.first, ring->ms, bytes.second);
    else
        fprintf(out, "  input ring       %s, %.3g ms\n", bytes.first, ring->ms);
}

/* A loss longer than the ring bridges ends the epoch, whatever `max gap` allows. */
static void check_gap(const struct config_stream *stream, const struct memory_ring *ring,
                      struct config_errors *errors)
{
    char bridged[48], wanted[48], least[48];
    const double rounded_up = 1.001 * ring->gap_buffer_s; /* as it is printed */
    if (!ring->fits || stream->upstream >= 0 || ring->gap_s >= ring->wanted_gap_s)
        return;
    config_warning(errors, stream->place,
                   "stream %s: its input ring bridges losses of up to %s, and `max gap` is %s: a "
                   "longer loss begins a new epoch; write `buffer` of at least %s, or a shorter "
                   "`max gap`",
                   stream->name, time_text(ring->gap_s, bridged, sizeof bridged),
                   time_text(ring->wanted_gap_s, wanted, sizeof wanted),
                   time_text(rounded_up, least, sizeof least));
}

/* Prints what the stream takes and adds it to `all`. False: its ring does not fit, and the start
 * would fail. */
static bool print_memory(const struct config *config, uint32_t stream,
                         const struct check_plan *plan, struct memory_figure *all, FILE *out,
                         struct config_errors *errors)
{
    const struct memory_plan planned = check_memory_plan(plan);
    const struct memory_ring ring = memory_ring(all, config, stream, &planned);
    const struct memory_figure before = *all;
    memory_add_stream(all, config, stream, &planned);
    const struct memory_figure own = {
        .rings = all->rings - before.rings,
        .spectra = all->spectra - before.spectra,
        .batches = all->batches - before.batches,
        .queues = all->queues - before.queues,
    };
    fprintf(out, "  memory           about ");
    memory_print(&own, out);
    fputc('\n', out);
    print_ring(&ring, out);
    check_gap(&config->streams[stream], &ring, errors);
    return ring.fits;
}

static void print_all_memory(const struct memory_figure *memory, FILE *out)
{
    fprintf(out, "memory of all streams: about ");
    memory_print(memory, out);
    fprintf(out,
            "\n  (the program and its OpenCL driver come on top, about 130 MiB with PoCL, and for "
            "a while more at the start; spectra are estimated; a device "
            "with memory of its own\n  holds rings, spectra and batches there a second time)\n\n");
}

static void check_memory(const struct config *config, const struct memory_figure *memory,
                         struct config_errors *errors)
{
    struct quantity_pair bytes;
    const uint64_t left = host_memory_available("");
    quantity_print_pair(DIMENSION_MEMORY, (double)memory_total(memory), (double)left, &bytes);
    if (memory_total(memory) > left)
        config_warning(
            errors, (struct config_place){config->path, 0},
            "the streams take up to %s of memory, and this machine has %s left; make `queue` or "
            "`buffer` smaller",
            bytes.first, bytes.second);
}

static void print_valid(const struct config *config, FILE *out)
{
    const uint32_t sinks = config->sink_count + config->event_sink_count;
    fprintf(out, "%s is valid: %u stream%s, %u filter%s, %u sink%s", config->path,
            config->stream_count, config->stream_count == 1 ? "" : "s", config->filter_count,
            config->filter_count == 1 ? "" : "s", sinks, sinks == 1 ? "" : "s");
    if (config->analysis_count > 0)
        fprintf(out, ", %u analys%s", config->analysis_count,
                config->analysis_count == 1 ? "is" : "es");
    fprintf(out, "; configuration %.12s\n", config->hash);
    const struct config_fragments *fragments = &config->fragments;
    const unsigned own = fragments->count - fragments->former_count;
    if (fragments->former_count > 0)
        fprintf(
            out,
            "  with %u fragment%s of %s, the former name, which is read for a file alone in its "
            "folder; rename it: %s\n",
            fragments->former_count, fragments->former_count == 1 ? "" : "s", fragments->former,
            fragments->move);
    if (own > 0)
        fprintf(out, "  with %u fragment%s of %s\n", own, own == 1 ? "" : "s", fragments->folder);
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
    struct memory_figure memory = {0};
    check_descriptors(config, errors);
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
        print_excitation(stream, out);
        print_latency(stream, &plans[s], out);
        fprintf(out, "  loss             %s\n", loss_sentence(config, stream));
        if (!print_memory(config, s, &plans[s], &memory, out, errors)) {
            problem_set(&problem, ERROR_FULL,
                        "the input memory has no room for its ring beside those before it; raise "
                        "`input memory` in [device], or give each stream a `buffer`");
            report(config, stream, &problem, errors);
            all = false;
        }
        for (uint32_t i = 0; i < config->sink_count; i++)
            if (config->sinks[i].stream == s)
                print_sink(config, &config->sinks[i], out);
        analyses_report(config, s, plans[s].taps_longest, plans[s].total_delay_frames, out);
        print_alarms(config, s, out);
        fprintf(out, "\n");
    }
    print_osc(&config->osc, out);
    if (all) {
        memory_add_shared(&memory, config);
        print_all_memory(&memory, out);
        check_memory(config, &memory, errors);
    }
    if (all)
        print_devices(config, plans, out);
    loops_report(config, out);
    nodes_report("", config, out, errors);
    if (all)
        print_valid(config, out);
    free(plans);
    free(good);
    return all ? 0 : ERROR_CONFIG;
}
