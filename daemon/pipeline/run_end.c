/* End of a run: see run_end.h. */
#include "pipeline/run_end.h"

#include <inttypes.h>

#include "core/clock.h"
#include "core/log.h"
#include "stream/move.h"

/* A shorter wait is not worth a line in the log. */
static const int64_t tell_ns = NS_PER_SECOND;

/* Looks are a few milliseconds apart. After a longer time the process was paused, and with it what
 * it waits for: that time does not count. */
static const int64_t look_most_ns = 50 * NS_PER_MS;

/* ---- pending and progress ---------------------------------------------------------------- */

static struct event_sink_ledger event_ledger(const struct pipeline_analysis *analysis, uint32_t at)
{
    struct event_sink_ledger ledger = {0};
    analysis_stage_sink_ledger(analysis->stage, at, &ledger);
    return ledger;
}

/* A sink that neither writes with a thread nor drains delivers the rest when it is closed. */
static bool delivers_by_itself(const struct pipeline_sink *sink)
{
    return sink->sink != NULL && (sink->ops->drains || sink->ops->writes);
}

/* The frames that a sink still has to deliver. */
static uint64_t sink_pending(const struct pipeline_sink *sink)
{
    struct sink_ledger ledger = {0};
    if (!delivers_by_itself(sink))
        return 0;
    pipeline_sink_ledger(sink, &ledger);
    return ledger.pending;
}

static uint64_t analysis_pending(const struct pipeline_analysis *analysis)
{
    struct analysis_stage_ledger ledger;
    analysis_stage_ledger(analysis->stage, &ledger);
    uint64_t pending = ledger.pending + ledger.taken_pending;
    for (uint32_t i = 0; i < analysis_stage_sinks(analysis->stage); i++)
        pending += event_ledger(analysis, i).pending;
    return pending;
}

uint64_t run_end_pending(const struct pipelines *pipelines)
{
    const struct pipeline *pipeline;
    uint64_t pending = 0;
    for (uint32_t at = 0; (pipeline = pipelines_next(pipelines, PIPELINES_ALL, &at)) != NULL;) {
        for (uint32_t i = 0; i < pipeline->sink_count; i++)
            pending += sink_pending(&pipeline->sinks[i]);
        for (uint32_t i = 0; i < pipeline->analysis_count; i++)
            pending += analysis_pending(&pipeline->analyses[i]);
    }
    return pending;
}

static uint64_t analysis_progress(const struct pipeline_analysis *analysis)
{
    struct analysis_stage_ledger ledger;
    analysis_stage_ledger(analysis->stage, &ledger);
    uint64_t progress = ledger.frames - ledger.pending + ledger.taken - ledger.taken_pending;
    for (uint32_t i = 0; i < analysis_stage_sinks(analysis->stage); i++)
        progress += event_ledger(analysis, i).delivered;
    return progress;
}

static uint64_t progress_of(const struct pipeline *pipeline, bool *busy)
{
    uint64_t progress = 0;
    if (pipeline->stream != NULL) {
        struct stream_stats stats;
        stream_stats(pipeline->stream, &stats);
        progress += stats.out + stats.batches;
        *busy = *busy || stats.submitted > 0 || stream_halted(pipeline->stream);
    }
    for (uint32_t i = 0; i < pipeline->sink_count; i++) {
        struct sink_ledger ledger = {0};
        pipeline_sink_ledger(&pipeline->sinks[i], &ledger);
        progress += ledger.delivered;
    }
    for (uint32_t i = 0; i < pipeline->analysis_count; i++)
        progress += analysis_progress(&pipeline->analyses[i]);
    return progress;
}

/* ---- waiting ----------------------------------------------------------------------------- */

static void tell_waiting(const struct pipeline *pipeline)
{
    for (uint32_t i = 0; i < pipeline->sink_count; i++) {
        const uint64_t frames = sink_pending(&pipeline->sinks[i]);
        if (frames > 0)
            log_info("waiting for sink %s, which still has to deliver %" PRIu64 " frames",
                     pipeline->sinks[i].config->name, frames);
    }
    for (uint32_t i = 0; i < pipeline->analysis_count; i++) {
        const struct pipeline_analysis *analysis = &pipeline->analyses[i];
        struct analysis_stage_ledger ledger;
        analysis_stage_ledger(analysis->stage, &ledger);
        if (ledger.pending + ledger.taken_pending > 0)
            log_info("waiting for analysis %s, which still has to take %" PRIu64 " %s",
                     analysis->options.name, ledger.pending + ledger.taken_pending,
                     ledger.pending > 0 ? "frames" : "events");
        for (uint32_t k = 0; k < analysis_stage_sinks(analysis->stage); k++) {
            const uint64_t events = event_ledger(analysis, k).pending;
            if (events > 0)
                log_info("waiting for sink %s, which still has to deliver %" PRIu64 " events",
                         analysis->sinks[k].name, events);
        }
    }
}

bool run_end_is_late(struct run_end *end, uint64_t progress, bool busy, int64_t now_ns)
{
    const int64_t since_ns = now_ns - end->looked_ns;
    end->waited_ns += since_ns < look_most_ns ? since_ns : look_most_ns;
    if (busy || progress != end->progress)
        end->waited_ns = 0;
    end->looked_ns = now_ns;
    end->progress = progress;
    return end->waited_ns >= end->patience_ns;
}

bool run_end_late(struct run_end *end, const struct pipelines *pipelines, int64_t now_ns)
{
    const struct pipeline *pipeline;
    const bool tell = !end->told && now_ns - end->began_ns >= tell_ns;
    bool busy = false;
    uint64_t progress = 0;
    for (uint32_t at = 0; (pipeline = pipelines_next(pipelines, PIPELINES_ALL, &at)) != NULL;) {
        progress += progress_of(pipeline, &busy);
        if (tell)
            tell_waiting(pipeline);
    }
    end->told = end->told || tell;
    return run_end_is_late(end, progress, busy, now_ns);
}

/* ---- losses ------------------------------------------------------------------------------ */

/* Of a stream that can wait these are losses whenever they happen. */
static const enum drop losses_ever[] = {DROP_QUEUE, DROP_DISK};
static const enum shed sheds_lost[] = {SHED_OVERLOAD, SHED_DEVICE, SHED_STOPPED};

struct losses {
    uint64_t ever, stopped; /* frames and events; `stopped`: at the end, or by a command before */
    bool live;              /* of a stream that cannot wait only `stopped` counts */
    bool tell;              /* in the log */
};

static void add_drops(struct losses *losses, const char *unit, const char *kind, const char *name,
                      const uint64_t dropped[DROPS])
{
    uint64_t ever = 0;
    for (size_t i = 0; !losses->live && i < sizeof losses_ever / sizeof *losses_ever; i++)
        ever += dropped[losses_ever[i]];
    losses->ever += ever;
    losses->stopped += dropped[DROP_STOPPED];
    if (!losses->tell || ever + dropped[DROP_STOPPED] == 0)
        return;
    log_error("%s %s: %" PRIu64 " %s of this run are lost (queue %" PRIu64 ", disk %" PRIu64
              ", stopped %" PRIu64 ")",
              kind, name, ever + dropped[DROP_STOPPED], unit, dropped[DROP_QUEUE],
              dropped[DROP_DISK], dropped[DROP_STOPPED]);
}

static void add_sheds(struct losses *losses, const struct pipeline *pipeline)
{
    struct stream_stats stats;
    uint64_t shed = 0;
    if (pipeline->stream == NULL || losses->live)
        return;
    stream_stats(pipeline->stream, &stats);
    for (size_t i = 0; i < sizeof sheds_lost / sizeof *sheds_lost; i++)
        shed += stats.shed[sheds_lost[i]];
    losses->ever += shed;
    if (losses->tell && shed > 0)
        log_error("stream %s: %" PRIu64 " frames of this run were not processed",
                  pipeline->stream_config->name, shed);
}

/* What the source's input announced and did not hold. */
static void add_cut(struct losses *losses, const struct pipeline *pipeline)
{
    losses->ever += pipeline->cut.missing;
    if (losses->tell && pipeline->cut.missing > 0)
        log_error("stream %s: at least %" PRIu64 " frames of its input are missing",
                  pipeline->stream_config->name, pipeline->cut.missing);
}

static void add_analysis(struct losses *losses, const struct pipeline_analysis *analysis)
{
    struct analysis_stage_ledger ledger;
    analysis_stage_ledger(analysis->stage, &ledger);
    add_drops(losses, "frames", "analysis", analysis->options.name, ledger.dropped);
    add_drops(losses, "events", "analysis", analysis->options.name, ledger.taken_dropped);
    for (uint32_t i = 0; i < analysis_stage_sinks(analysis->stage); i++) {
        const struct event_sink_ledger events = event_ledger(analysis, i);
        add_drops(losses, "events", "sink", analysis->sinks[i].name, events.dropped);
    }
}

/* Adds up what all streams have lost. */
static struct losses losses_of(const struct pipelines *pipelines, bool tell)
{
    const struct pipeline *pipeline;
    struct losses losses = {.tell = tell};
    for (uint32_t at = 0; (pipeline = pipelines_next(pipelines, PIPELINES_ALL, &at)) != NULL;) {
        losses.live = pipeline->stream_config->live;
        add_sheds(&losses, pipeline);
        add_cut(&losses, pipeline);
        for (uint32_t i = 0; i < pipeline->sink_count; i++) {
            struct sink_ledger ledger = {0};
            pipeline_sink_ledger(&pipeline->sinks[i], &ledger);
            add_drops(&losses, "frames", "sink", pipeline->sinks[i].config->name, ledger.dropped);
        }
        for (uint32_t i = 0; i < pipeline->analysis_count; i++)
            add_analysis(&losses, &pipeline->analyses[i]);
    }
    return losses;
}

uint64_t run_end_losses(const struct run_end *end, const struct pipelines *pipelines)
{
    struct losses losses = losses_of(pipelines, false);
    uint64_t lost = losses.ever;
    lost += losses.stopped > end->stopped_before ? losses.stopped - end->stopped_before : 0;
    if (lost > 0)
        losses_of(pipelines, true);
    return lost;
}

void run_end_begin(struct run_end *end, const struct pipelines *pipelines, int64_t patience_ns,
                   int64_t now_ns)
{
    *end = (struct run_end){
        .patience_ns = patience_ns,
        .began_ns = now_ns,
        .looked_ns = now_ns,
        .stopped_before = losses_of(pipelines, false).stopped,
    };
}
