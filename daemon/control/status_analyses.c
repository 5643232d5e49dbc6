/* Analyses in the table of the status: see status_internal.h. */
#include <inttypes.h>

#include "control/status_internal.h"
#include "pipeline/pipeline.h"

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
    for (uint32_t i = 0; i < analysis_stage_sinks(analysis->stage); i++)
        print_sink(analysis, i, out);
}

void status_print_analyses(const struct pipeline *pipeline, FILE *out)
{
    for (uint32_t i = 0; i < pipeline->analysis_count; i++)
        print_analysis(&pipeline->analyses[i], out);
}
