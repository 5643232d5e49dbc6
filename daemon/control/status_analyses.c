/* Analyses in the table of the status: see status_internal.h. */
#include <inttypes.h>
#include <math.h>

#include "control/status_internal.h"
#include "core/clock.h"
#include "pipeline/pipeline.h"

enum { TOTALS_SHOWN = 16 };

static void print_drops(const uint64_t dropped[DROPS], FILE *out)
{
    for (int drop = 0; drop < DROPS; drop++)
        if (dropped[drop] > 0)
            fprintf(out, " + %s %" PRIu64, drop_name((enum drop)drop), dropped[drop]);
}

static void print_sink(const struct pipeline_analysis *analysis, uint32_t index, FILE *out)
{
    struct event_sink_ledger ledger;
    analysis_stage_sink_ledger(analysis->stage, index, &ledger);
    fprintf(out, "  sink %-8s %" PRIu64 " events = delivered %" PRIu64, analysis->sinks[index].name,
            ledger.events, ledger.delivered);
    if (ledger.pending > 0)
        fprintf(out, " + pending %" PRIu64, ledger.pending);
    print_drops(ledger.dropped, out);
    fprintf(out, "; %" PRIu64 " bytes\n", ledger.bytes);
}

static void print_sums(const char *name, const struct event_totals *totals, uint32_t row, FILE *out)
{
    struct event_sums all, recent;
    event_totals_read(totals, row, &all);
    event_totals_recent(totals, row, clock_monotonic_ns(), &recent);
    fprintf(out, "%s: %" PRIu64 " events, %.4g/s", name, all.events,
            (double)recent.events / TOTALS_SECONDS);
    for (int t = 0; t < EVENT_TOTALS; t++)
        if (!isnan(all.sums[t]))
            fprintf(out, "; %s %.6g, %.4g/s", event_total_field((enum event_total)t), all.sums[t],
                    recent.sums[t] / TOTALS_SECONDS);
    fputc('\n', out);
}

/* A line for each channel that has had events; of more than a screen holds the first ones. */
static void print_totals(const struct pipeline_analysis *analysis, FILE *out)
{
    const struct event_totals *totals = analysis_stage_totals(analysis->stage);
    const uint32_t rows = event_totals_rows(totals);
    uint32_t shown = 0, more = 0;
    for (uint32_t row = 0; row < rows; row++) {
        struct event_sums sums;
        char name[32];
        event_totals_read(totals, row, &sums);
        more += sums.events > 0 && shown == TOTALS_SHOWN;
        if (sums.events == 0 || shown == TOTALS_SHOWN)
            continue;
        snprintf(name, sizeof name, "    channel %-4" PRIu32, row + 1);
        print_sums(analysis->config->type->emits == ANALYSIS_SOURCE ? "    all" : name, totals, row,
                   out);
        shown++;
    }
    if (more > 0)
        fprintf(out, "    and %" PRIu32 " channels more\n", more);
}

static void print_analysis(const struct pipeline_analysis *analysis, FILE *out)
{
    struct analysis_stage_ledger ledger;
    const enum analysis_event_kind kind = analysis->config->type->emits;
    analysis_stage_ledger(analysis->stage, &ledger);
    fprintf(out, "  analysis %s: ", analysis->config->name);
    if (analysis->config->type->of_events) {
        fprintf(out, "%" PRIu64 " events taken", ledger.taken);
        print_drops(ledger.taken_dropped, out);
    } else {
        fprintf(out, "%" PRIu64 " frames = live %" PRIu64 " + dead %" PRIu64, ledger.frames,
                ledger.live, ledger.dead);
        if (ledger.pending > 0)
            fprintf(out, " + pending %" PRIu64, ledger.pending);
        if (ledger.dropped[DROP_QUEUE] > 0)
            fprintf(out, " (%" PRIu64 " of these dropped: it is behind)",
                    ledger.dropped[DROP_QUEUE]);
    }
    fprintf(out, "; %s events %" PRIu64, analysis_event_word(kind), ledger.analysis.events[kind]);
    if (ledger.analysis.limited > 0)
        fprintf(out, ", outside `keep` %" PRIu64, ledger.analysis.limited);
    fprintf(out, "\n");
    print_totals(analysis, out);
    for (uint32_t i = 0; i < analysis_stage_sinks(analysis->stage); i++)
        print_sink(analysis, i, out);
}

void status_print_analyses(const struct pipeline *pipeline, FILE *out)
{
    for (uint32_t i = 0; i < pipeline->analysis_count; i++)
        print_analysis(&pipeline->analyses[i], out);
}
