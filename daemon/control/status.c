/* Status: the table for people; see status.h. The JSON form is in status_json.c. */
#include "control/status.h"

#include <inttypes.h>
#include <math.h>
#include <string.h>
#include <time.h>

#include "core/clock.h"
#include "core/quantity.h"
#include "control/alarms.h"
#include "control/osc_counters.h"
#include "control/status_internal.h"
#include "pipeline/job.h"
#include "stream/move.h"

const struct status_quantile status_quantiles[STATUS_QUANTILES] = {
    {"p50", 0.5},
    {"p90", 0.9},
    {"p99", 0.99},
    {"p99.9", 0.999},
};

/* ---- texts ------------------------------------------------------------------------------- */

static const char *time_text(int64_t realtime_ns, char text[40])
{
    time_t seconds = (time_t)(realtime_ns / NS_PER_SECOND);
    struct tm utc;
    gmtime_r(&seconds, &utc);
    size_t length = strftime(text, 40, "%Y-%m-%dT%H:%M:%S", &utc);
    snprintf(text + length, 40 - length, ".%03dZ", (int)(realtime_ns % NS_PER_SECOND / NS_PER_MS));
    return text;
}

/* Prints " + NAME N", unless the part is zero. */
static void print_part(FILE *out, const char *name, uint64_t count)
{
    if (count > 0)
        fprintf(out, " + %s %" PRIu64, name, count);
}

const char *status_filter_names(const struct pipeline *pipeline, char text[STATUS_FILTER_NAMES])
{
    const struct config_stream *stream = pipeline->stream_config;
    size_t used = 0;
    if (pipeline->filter.name != NULL) {
        snprintf(text, STATUS_FILTER_NAMES, "%s", pipeline->filter.name);
        return text;
    }
    text[0] = '\0';
    for (uint32_t e = 0; e < stream->edge_count; e++) {
        uint32_t before = 0;
        while (before < e && stream->edges[before].filter != stream->edges[e].filter)
            before++;
        if (before < e)
            continue;
        const char *name = pipeline->config->filters[stream->edges[e].filter].name;
        if (used + strlen(name) + 8 > STATUS_FILTER_NAMES) {
            snprintf(text + used, STATUS_FILTER_NAMES - used, ", …");
            break;
        }
        used += (size_t)snprintf(text + used, STATUS_FILTER_NAMES - used, "%s%s",
                                 used > 0 ? ", " : "", name);
    }
    return text;
}

/* ---- one stream -------------------------------------------------------------------------- */

static void print_head(const struct pipeline *pipeline, const struct stream_stats *stats, FILE *out)
{
    const struct config_stream *config = pipeline->stream_config;
    const struct plan_info *plan = plan_info(pipeline->plan);
    char text[24];
    fprintf(out, "\nstream %s: %u channel%s at %.10g Hz", config->name, config->source.channels,
            config->source.channels == 1 ? "" : "s", config->source.rate_hz);
    if (stats->rate_known)
        fprintf(out, ", measured %.10g Hz (%+.2f ppm, jitter %s)", stats->rate_hz, stats->rate_ppm,
                duration_text((int64_t)stats->jitter_ns, text));
    fprintf(out, "\n  plan          %s, block %u, FFT %u, %u partition%s, taps %u\n", plan->variant,
            plan->hop, plan->fft, plan->partitions, plan->partitions == 1 ? "" : "s",
            plan->taps_longest);
    fprintf(out, "  device        %d: %s\n", pipeline->placement->index,
            engine_device(pipeline->engine)->name);
    const struct placement *standby = takeover_standby(pipeline);
    if (stream_halted(pipeline->stream))
        fprintf(out, "  stopped       its device is lost: %s\n", pipeline->placement->why);
    if (standby != NULL)
        fprintf(out, "  standing by   %d: %s\n", standby->index,
                engine_device(standby->engine)->name);
    if (config->decimate > 1)
        fprintf(out, "  decimation    1 frame of %u is kept: %.10g Hz\n", config->decimate,
                config->output_rate_hz);
    fprintf(
        out, "  filter delay  %.10g frames, %s%s\n", stats->delay_frames,
        duration_text((int64_t)llround(stats->delay_frames / config->output_rate_hz * 1e9), text),
        config->align ? ", applied" : "");
    const struct excitation excitation =
        excitation_decimated(config->source.excitation, config->decimate);
    if (excitation.known) {
        fprintf(out, "  excitation    begins at frame %.10g", excitation.start_frame);
        if (excitation.period_frames > 0)
            fprintf(out, ", again every %.10g frames", excitation.period_frames);
        fputc('\n', out);
    }
    if (stats->last_frame_ns != 0)
        fprintf(out, "  last frame    %" PRIu64 ", %s ago\n", stats->last_frame,
                duration_text(clock_monotonic_ns() - stats->last_frame_ns, text));
    else
        fprintf(out, "  last frame    none yet\n");
    char names[STATUS_FILTER_NAMES];
    fprintf(out, "  filter        %s%s\n", status_filter_names(pipeline, names),
            pipeline->filter.name != NULL ? ", not as configured" : "");
    if (pipeline->changed_by[0] != '\0')
        fprintf(out, "  changed by    %s\n", pipeline->changed_by);
    fprintf(out, "  epochs        %" PRIu64 ", records %" PRIu64 "\n", stats->epochs,
            stats->records);
}

static void print_quality(const struct stream_stats *stats, bool live, FILE *out)
{
    char when[40];
    uint64_t gaps = 0;
    for (int cause = 0; cause < INVALID_CAUSES; cause++)
        gaps += stats->gap[cause];
    fprintf(out, "  gaps          %" PRIu64 " frames", gaps);
    const char *separator = ": ";
    for (int cause = 0; cause < INVALID_CAUSES; cause++) {
        if (stats->gap[cause] == 0)
            continue;
        fprintf(out, "%s%s %" PRIu64, separator, invalid_cause_name(cause), stats->gap[cause]);
        separator = ", ";
    }
    if (stats->last_gap_realtime_ns != 0)
        fprintf(out, "; last %s", time_text(stats->last_gap_realtime_ns, when));
    fprintf(out, "\n  invalid       %" PRIu64 " frames", stats->invalid_frames);
    separator = ": ";
    for (int cause = 0; cause < INVALID_CAUSES; cause++) {
        if (stats->invalid[cause] == 0)
            continue;
        fprintf(out, "%s%s %" PRIu64, separator, invalid_cause_name(cause), stats->invalid[cause]);
        separator = ", ";
    }
    fprintf(out, "\n  load          %.1f %% now, %.1f %% worst; buffer %.1f %% full; priority %u\n",
            100 * stats->load, 100 * stats->load_worst, 100 * stats->fill, stats->priority);
    fprintf(out, "  blocks        %" PRIu64 " in %" PRIu64 " batches", stats->blocks,
            stats->batches);
    if (stats->batches_failed > 0)
        fprintf(out, ", %" PRIu64 " batches failed", stats->batches_failed);
    if (live)
        fprintf(out, ", %" PRIu64 " past the deadline\n", stats->deadline_misses);
    else
        fprintf(out, "; no deadline, the source waits\n");
}

static void print_self_check(const struct pipeline *pipeline, FILE *out)
{
    struct self_check_figures figures;
    char text[24];
    if (pipeline->self_check == NULL)
        return;
    self_check_figures(pipeline->self_check, &figures);
    if (figures.checks == 0) {
        fprintf(out, "  self check    none yet\n");
        return;
    }
    fprintf(out,
            "  self check    %" PRIu64 " blocks, last %s ago; worst error %.2g of the bound "
            "(output %u)",
            figures.checks, duration_text(clock_monotonic_ns() - figures.last_ns, text),
            figures.worst, figures.worst_output + 1);
    if (figures.failures > 0)
        fprintf(out, "; WRONG RESULT: %" PRIu64 " blocks beyond it", figures.failures);
    fprintf(out, "\n");
}

static void print_channels(const struct pipeline *pipeline, const struct stream_stats *stats,
                           FILE *out)
{
    fprintf(out, "  channel %14s %14s %14s %12s %12s %12s %12s\n", "DC", "RMS", "peak", "overloads",
            "non-finite", "RMS, 1 s", "held peak");
    const int64_t now_ns = clock_monotonic_ns();
    for (uint32_t c = 0; c < stats->channels; c++) {
        const struct channel_levels *levels = &stats->levels[c];
        double frames = levels->frames > 0 ? (double)levels->frames : 1;
        struct recent_levels recent;
        recent_read(stats->recent, c, now_ns, &recent);
        fprintf(out, "  %7u %14.6g %14.6g %14.6g %12" PRIu64 " %12" PRIu64 " %12.6g %12.6g  %s\n",
                c + 1, levels->sum / frames, sqrt(levels->sum_squares / frames), levels->peak,
                levels->overload, levels->nonfinite, recent.rms, recent.held,
                pipeline->stream_config->scales[c].unit);
    }
}

/* What control has changed of the gains; nothing when it has not. */
static void print_gains(const struct pipeline *pipeline, FILE *out)
{
    const struct result_gains *now = pipeline->gains.now;
    char when[40];
    if (now == NULL)
        return;
    fprintf(out, "  gains         %s since %s",
            now->configured ? "as configured again" : "differ from the configuration",
            time_text(pipeline->gains.realtime_ns, when));
    if (pipeline->gains.framed)
        fprintf(out, ", output frame %" PRIu64 " of epoch %" PRIu64, pipeline->gains.frame,
                pipeline->gains.epoch);
    fprintf(out, "; change %u", now->changes);
    for (uint32_t o = 0; o < now->outputs; o++) {
        if (now->muted[o])
            fprintf(out, "\n                output %u muted", o + 1);
        else if (now->factors[o] != 1)
            fprintf(out, "\n                output %u %+.2f dB", o + 1,
                    20 * log10((double)now->factors[o]));
    }
    fputc('\n', out);
}

static void print_latency_row(const char *name, const struct histogram *histogram, FILE *out)
{
    char text[24];
    fprintf(out, "  %-12s", name);
    for (int q = 0; q < STATUS_QUANTILES; q++)
        fprintf(out, " %10s",
                duration_text(histogram_quantile(histogram, status_quantiles[q].quantile), text));
    fprintf(out, " %10s %12" PRIu64 "\n", duration_text(histogram->max_ns, text), histogram->count);
}

static void print_latency(const struct stream_stats *stats, FILE *out)
{
    fprintf(out, "  %-12s", "latency");
    for (int q = 0; q < STATUS_QUANTILES; q++)
        fprintf(out, " %10s", status_quantiles[q].name);
    fprintf(out, " %10s %12s\n", "max", "blocks");
    for (int stage = 0; stage < STAGES; stage++)
        print_latency_row(stage_name(stage), &stats->stages[stage], out);
    print_latency_row("total", stats->total, out);
}

static void print_datagrams(const struct source_ledger *ledger, FILE *out)
{
    fprintf(out, "  datagrams     %" PRIu64 " = accepted %" PRIu64, ledger->datagrams,
            ledger->accepted);
    print_part(out, "held", ledger->held);
    for (int reject = 0; reject < REJECTS; reject++)
        print_part(out, reject_name(reject), ledger->rejected[reject]);
    fprintf(out, "; kernel drops %" PRIu64, ledger->kernel_drops);
    if (ledger->senders > 0)
        fprintf(out, "; sender %08" PRIX32 ", %" PRIu64 " followed", ledger->ssrc, ledger->senders);
    if (ledger->clock_steps > 0)
        fprintf(out, "; %" PRIu64 " steps of the wall clock", ledger->clock_steps);
    if (ledger->buffer_bytes > 0)
        fprintf(out, "; receive buffer %.1f MiB", (double)ledger->buffer_bytes / (1 << 20));
    if (ledger->receive.messages > 0)
        fprintf(out, "; received by %s", receive_path_name(ledger->receive.path));
    if (ledger->receive.batches > 0)
        fprintf(out, ", %" PRIu64 " GRO batches", ledger->receive.batches);
    fprintf(out, "\n");
    if (!ledger->loss_detectable)
        fprintf(
            out,
            "                this source carries no numbers: loss on the network cannot be seen\n");
}

static void print_ledgers(const struct pipeline *pipeline, const struct stream_stats *stats,
                          FILE *out)
{
    const struct driver_status *driver;
    const void *status;
    struct source_ledger datagrams;
    if (pipeline_source_ledger(pipeline, &datagrams))
        print_datagrams(&datagrams, out);
    if ((driver = pipeline_source_status(pipeline, &status)) != NULL)
        driver->print(status, pipeline->stream_config->source.rate_hz, out);
    fprintf(out, "  frames in     %" PRIu64 " = received %" PRIu64, stats->timeline_in,
            stats->received);
    print_part(out, "awaited", stats->awaited);
    for (int cause = 0; cause < INVALID_CAUSES; cause++)
        print_part(out, invalid_cause_name(cause), stats->gap[cause]);
    if (stats->carried > stats->received) {
        fprintf(out, "\n  in packets    %" PRIu64 " = received %" PRIu64, stats->carried,
                stats->received);
        print_part(out, "overlap", stats->overlap);
        print_part(out, "late", stats->late_parts);
    }
    fprintf(out, "\n  frames out    %" PRIu64 " = out %" PRIu64, stats->timeline_out, stats->out);
    print_part(out, "waiting", stats->waiting);
    print_part(out, "submitted", stats->submitted);
    for (int shed = 0; shed < SHEDS; shed++)
        print_part(out, shed_name(shed), stats->shed[shed]);
    fprintf(out, "\n");
    for (uint32_t i = 0; i < pipeline->sink_count; i++) {
        const struct pipeline_sink *sink = &pipeline->sinks[i];
        struct sink_ledger ledger;
        pipeline_sink_ledger(sink, &ledger);
        fprintf(out, "  sink %-8s %" PRIu64 " = delivered %" PRIu64, sink->config->name,
                ledger.frames, ledger.delivered);
        print_part(out, "pending", ledger.pending);
        for (int drop = 0; drop < DROPS; drop++)
            print_part(out, drop_name(drop), ledger.dropped[drop]);
        fprintf(out, "; %" PRIu64 " %s, %" PRIu64 " bytes", ledger.packets,
                sink->config->driver->packets, ledger.bytes);
        if (ledger.saturated > 0)
            fprintf(out, "; %" PRIu64 " samples saturated", ledger.saturated);
        fprintf(out, "\n");
        if ((driver = pipeline_sink_status(sink, &status)) != NULL)
            driver->print(status, pipeline->stream_config->source.rate_hz, out);
    }
    status_print_analyses(pipeline, out);
}

/* "; lost: stalled 1, returned 1", unless it was never lost. */
static void print_losses(const struct placement *placement, FILE *out)
{
    if (placement->lost_ns == 0)
        return;
    fprintf(out, " %s;", placement_state(placement));
    for (int loss = ENGINE_WORKS + 1; loss < ENGINE_LOSSES; loss++)
        if (placement->losses[loss] > 0)
            fprintf(out, " %s %" PRIu64 ",", engine_loss_name((enum engine_loss)loss),
                    placement->losses[loss]);
    fprintf(out, " returned %" PRIu64 " (%s)", placement->returns, placement->why);
}

void status_print_head(const struct process *process, FILE *out)
{
    char text[24];
    const struct placement *placement;
    fprintf(out, "convolvd %s: %s, up %s", CONVOLVD_VERSION, process_phase_name(process->phase),
            duration_text(clock_monotonic_ns() - process->started_ns, text));
    for (uint32_t i = 0; (placement = devices_at(process->devices, i)) != NULL; i++) {
        const struct device_info *device = engine_device(placement->engine);
        fprintf(out, "%s%s (%s, driver %s)", i == 0 ? ", on " : "; ", device->name,
                device->platform, device->driver);
        print_losses(placement, out);
    }
    if (takeover_abandoned() > 0)
        fprintf(out, "; %u of at most %d lost devices left behind", takeover_abandoned(),
                ABANDONED_MAX);
    if (jobs_left_behind(JOB_OF_CHANGE) > 0)
        fprintf(out, "; %u of at most %d changes that hang left behind",
                jobs_left_behind(JOB_OF_CHANGE), JOBS_LEFT_MAX);
    if (jobs_left_behind(JOB_OF_RESPONSE) > 0)
        fprintf(out, "; %u of at most %d responses that hang left behind",
                jobs_left_behind(JOB_OF_RESPONSE), JOBS_LEFT_MAX);
    fputc('\n', out);
}

void status_print_stream(const struct pipeline *pipeline, FILE *out)
{
    struct stream_stats stats;
    stream_stats(pipeline->stream, &stats);
    print_head(pipeline, &stats, out);
    print_quality(&stats, pipeline->stream_config->live, out);
    print_self_check(pipeline, out);
    print_channels(pipeline, &stats, out);
    print_gains(pipeline, out);
    print_latency(&stats, out);
    print_ledgers(pipeline, &stats, out);
}

void status_print_tail(const struct process *process, FILE *out)
{
    if (process->alarms != NULL)
        alarms_print(process->alarms, out);
    osc_counters_print(process->environment->osc, out);
}

void status_print(const struct process *process, FILE *out)
{
    const struct pipeline *pipeline;
    status_print_head(process, out);
    for (uint32_t at = 0;
         (pipeline = pipelines_next(process->pipelines, PIPELINES_RUNNING, &at)) != NULL;)
        status_print_stream(pipeline, out);
    status_print_tail(process, out);
}
