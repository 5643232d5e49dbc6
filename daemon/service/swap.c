/* Swap: see swap.h. */
#include "service/swap.h"

#include <assert.h>
#include <stdlib.h>

#include "core/log.h"
#include "pipeline/heritage.h"
#include "pipeline/succession.h"

void swap_begin(struct swap *swap, struct pipelines *pipelines, int64_t now_ns, int64_t drain_ns)
{
    *swap = (struct swap){
        .pipelines = pipelines,
        .read_ns = now_ns + SWAP_READ_NS,
        .state_ns = now_ns + SWAP_STATE_NS,
        .cut_ns = now_ns + (drain_ns > SWAP_STATE_NS ? drain_ns : SWAP_STATE_NS),
    };
}

void swap_add(struct swap *swap, struct pipeline *old, struct pipeline *made, bool paused)
{
    assert(swap->count < PIPELINES_MAX && old->retired);
    swap->pairs[swap->count++] = (struct swap_pair){.old = old, .made = made, .paused = paused};
    made->predecessor = old;
    old->successor = made;
    stream_hold(made->stream, true);
}

/* ---- the state --------------------------------------------------------------------------- */

static void hold(struct pipeline *pipeline, bool held)
{
    stream_hold(pipeline->stream, held);
    if (!held && pipeline->scheduled)
        scheduler_kick(pipeline->scheduler);
}

/* The new pipeline goes on in the epoch of the old one, or that one ends. */
static void go_on(struct swap_pair *pair)
{
    struct problem problem;
    size_t count = 0;
    uint8_t *record = succession_writable(pair->old) ? succession_write(pair->old, &count) : NULL;
    int error = problem_set(&problem, ERROR_MEMORY, "its state cannot be carried over");
    if (record != NULL)
        error = succession_read(pair->made, record, count, true, &problem);
    free(record);
    pair->paused = false;
    if (error == 0) {
        succession_leave(pair->old, pair->made);
        pair->numbered = true;
        return;
    }
    log_notice("stream %s begins a new epoch: %s", pair->made->stream_config->name, problem.text);
    hold(pair->old, false);
    pipelines_retire(pair->old);
}

/* False: a paused pipeline still computes what it has received, and there is time for it. */
static bool states_are_ready(const struct swap *swap, int64_t now_ns)
{
    bool ready = true;
    for (uint32_t i = 0; i < swap->count; i++) {
        const struct swap_pair *pair = &swap->pairs[i];
        if (!pair->paused)
            continue;
        if (now_ns > swap->read_ns)
            stream_hold(pair->old->stream, true);
        ready = ready && (now_ns > swap->read_ns ? succession_writable(pair->old)
                                                 : succession_ready(pair->old));
    }
    return ready || now_ns > swap->state_ns;
}

/* ---- numbers, sources, release ------------------------------------------------------------ */

/* An old stream that has ended begins no further epoch: the next number is the new one's. */
static void give_numbers(struct swap_pair *pair)
{
    struct heritage heritage;
    if (pair->numbered || pair->paused || !pair->old->ended)
        return;
    pipeline_leave(pair->old, &heritage);
    pipeline_inherit_numbers(pair->made, &heritage);
    pair->numbered = true;
}

/* True once every frame is delivered or dropped. Frames that the old pipeline's writers still hold
 * do not count: the new pipeline writes other files. */
static bool has_delivered(const struct pipeline *pipeline)
{
    if (!pipeline_drained(pipeline))
        return false;
    for (uint32_t i = 0; i < pipeline->sink_count; i++) {
        const struct pipeline_sink *sink = &pipeline->sinks[i];
        struct sink_ledger ledger = {0};
        if (sink->sink == NULL || sink->ops->writes)
            continue;
        sink->ops->ledger(sink->sink, &ledger);
        if (ledger.pending > 0)
            return false;
    }
    return true;
}

/* Starts a source, which has all it needs since it was connected. Should it fail all the same, its
 * stream is gone until the next reload. */
static void start(struct swap *swap, struct swap_pair *pair)
{
    struct problem problem;
    pair->started = true;
    if (pipeline_start_source(pair->made, &problem) == 0)
        return;
    log_error("reload: %s; the stream does not run until the next reload", problem.text);
    pipelines_retire(pair->made);
    swap->failed++;
}

/* Where results flow on, their readers must be ready to number them. */
static bool readers_are_numbered(const struct swap *swap, const struct pipeline *made)
{
    for (uint32_t i = 0; i < swap->count; i++)
        if (swap->pairs[i].made->upstream == made && !swap->pairs[i].numbered)
            return false;
    return true;
}

static void release(const struct swap_pair *pair)
{
    struct heritage heritage;
    pipeline_leave(pair->old, &heritage);
    pipeline_inherit_sinks(pair->made, &heritage);
    pair->made->predecessor = NULL;
    pipeline_start_sinks(pair->made);
    hold(pair->made, false);
}

/* Ends a pair whose epoch, or whose upstream's epoch, a stop has ended. */
static void end_stopped(struct swap_pair *pair)
{
    const struct pipeline *root = pair->old;
    while (root->upstream != NULL)
        root = root->upstream;
    if (!pair->paused || !root->ended)
        return;
    pair->paused = false;
    hold(pair->old, false);
    pipelines_retire(pair->old);
}

/* ---- all pairs ---------------------------------------------------------------------------- */

void swap_advance(struct swap *swap, int64_t now_ns)
{
    if (swap->count == 0)
        return;
    for (uint32_t i = 0; i < swap->count; i++)
        end_stopped(&swap->pairs[i]);
    const bool ready = states_are_ready(swap, now_ns);
    for (uint32_t i = 0; i < swap->count && ready; i++)
        if (swap->pairs[i].paused)
            go_on(&swap->pairs[i]);
    pipelines_drain(swap->pipelines, PIPELINES_RETIRED);
    for (uint32_t i = 0; i < swap->count; i++)
        give_numbers(&swap->pairs[i]);
    if (now_ns > swap->cut_ns) {
        swap_cut(swap, now_ns);
        return;
    }
    uint32_t kept = 0;
    for (uint32_t i = 0; i < swap->count; i++) {
        struct swap_pair pair = swap->pairs[i];
        const bool delivered = has_delivered(pair.old);
        if (pair.numbered && !pair.started && !swap->stopping &&
            (pair.made->resumed || delivered || now_ns > swap->read_ns))
            start(swap, &pair);
        if (pair.numbered && delivered && readers_are_numbered(swap, pair.made) &&
            (pair.started || swap->stopping))
            release(&pair);
        else
            swap->pairs[kept++] = pair;
    }
    swap->count = kept;
}

bool swap_has_open_epoch(const struct swap *swap)
{
    for (uint32_t i = 0; i < swap->count; i++)
        if (swap->pairs[i].paused)
            return true;
    return false;
}

bool swap_reads(const struct swap *swap)
{
    for (uint32_t i = 0; i < swap->count; i++)
        if (!swap->pairs[i].started)
            return false;
    return true;
}

bool swap_is_through(const struct swap *swap)
{
    return swap->count == 0;
}

void swap_stop(struct swap *swap)
{
    swap->stopping = true;
}

void swap_cut(struct swap *swap, int64_t now_ns)
{
    for (uint32_t i = 0; i < swap->count; i++) {
        struct swap_pair *pair = &swap->pairs[i];
        struct heritage heritage;
        if (pair->paused)
            hold(pair->old, false);
        if (pair->old->upstream != NULL && stream_has_port(pair->old->upstream->stream, pair->old))
            pipeline_disconnect(
                pair->old); /* else it would begin an epoch of the new one's number */
        pipeline_stop(pair->old);
        pair->paused = false;
        give_numbers(pair);
        pipeline_leave(pair->old, &heritage); /* a closed sink does not say what it is known by */
        for (uint32_t k = 0; k < pair->old->sink_count; k++)
            if (!pair->old->sinks[k].ops->writes)
                pipeline_close_sink(&pair->old->sinks[k], now_ns);
        pipeline_inherit_sinks(pair->made, &heritage);
        if (!pair->started && !swap->stopping)
            start(swap, pair);
        pair->made->predecessor = NULL;
        pipeline_start_sinks(pair->made);
        hold(pair->made, false);
    }
    swap->count = 0;
}
