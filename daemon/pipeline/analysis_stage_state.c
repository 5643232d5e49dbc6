/*
 * The state of an analysis stage: what it holds, to be written and read where another stage goes on
 * in its place, and what is lost where none does. See analysis_stage.h.
 *
 * Loop thread, while the thread of the stage waits.
 */
#include "pipeline/analysis_stage_internal.h"

enum { STATE_VERSION = 2 };

/* ---- events that a log has first --------------------------------------------------------- */

const struct event_message *analysis_stage_event(struct analysis_stage *s)
{
    return event_message_peek(&s->outlets.outbox);
}

void analysis_stage_take_event(struct analysis_stage *s)
{
    message_ring_release(&s->outlets.outbox);
}

void analysis_stage_pass_on(struct analysis_stage *s, const struct event_message *message)
{
    analysis_outlets_pass_on(&s->outlets, message);
}

void analysis_stage_discard(struct analysis_stage *s)
{
    atomic_store(&s->outlets.discards, true);
}

/* What is left in the outbox is of the state before. */
static void begin_events(struct analysis_stage *s)
{
    while (s->options.logged && analysis_stage_event(s) != NULL)
        analysis_stage_take_event(s);
    atomic_store(&s->outlets.discards, false);
    s->told_epoch = s->told_frame = 0;
}

/* ---- its state --------------------------------------------------------------------------- */

static void walk_counts(struct analysis_stage *s, struct codec *codec)
{
    _Atomic uint64_t *const shared[] = {
        &s->unseen,     &s->stopped,           &s->outlets.limited, &s->inlet.taken,
        &s->inlet.seen, &s->inlet.queue_drops, &s->inlet.stopped,
    };
    codec_u64(codec, &s->frames);
    for (size_t i = 0; i < sizeof shared / sizeof shared[0]; i++) {
        uint64_t count = atomic_load(shared[i]);
        codec_u64(codec, &count);
        if (codec_reads(codec))
            atomic_store(shared[i], count);
    }
}

/* As it was opened, but for what it analyses. */
static void forget(struct analysis_stage *s)
{
    walk_counts(s, &(struct codec){.from = (const uint8_t[256]){0}, .bytes = 256});
    if (!s->ops->of_events)
        analysis_feed_forget(&s->feed);
    if (s->parameters != NULL)
        parameter_track_forget(s->parameters, UINT64_MAX, UINT64_MAX);
}

/* Into an analysis of its own, so that one that refuses what it reads leaves nothing behind. */
static bool read_analysis(struct analysis_stage *s, struct codec *codec)
{
    struct analysis *made;
    struct problem problem;
    if (s->ops->open(&s->own, &made, &problem) != 0)
        return false;
    if (!s->ops->walk(made, codec) || codec->failed) {
        s->ops->close(made);
        return false;
    }
    s->ops->close(s->analysis);
    s->analysis = made;
    return true;
}

bool analysis_stage_walk(struct analysis_stage *s, struct codec *codec)
{
    const bool reads = codec_reads(codec);
    uint32_t version = STATE_VERSION;
    codec_u32(codec, &version);
    if (reads)
        begin_events(s);
    bool held = !codec->failed && version == STATE_VERSION &&
                (s->ops->of_events || analysis_feed_walk(&s->feed, codec));
    if (held)
        walk_counts(s, codec);
    held = held && (s->parameters == NULL || parameter_track_walk(s->parameters, codec));
    held = held && (s->others == NULL || parameter_inlet_walk(s->others, codec));
    held = held && (reads ? read_analysis(s, codec) : s->ops->walk(s->analysis, codec)) &&
           !codec->failed;
    if (!reads)
        return held;
    if (!held)
        forget(s);
    s->stopped_before = atomic_load(&s->stopped);
    s->events_stopped_before = atomic_load(&s->inlet.stopped);
    analysis_stage_publish(s, 0, 0, 0);
    return held;
}

uint64_t analysis_stage_held(const struct analysis_stage *s)
{
    const struct analysis_feed *feed = &s->feed;
    return feed->open && s->told_epoch == feed->epoch && s->told_frame < feed->next
               ? feed->next - s->told_frame
               : 0;
}

void analysis_stage_lose(struct analysis_stage *s, uint64_t frames)
{
    count_lock_begin(&s->lock);
    s->frames += frames;
    s->stopped_before += frames;
    atomic_fetch_add(&s->unseen, frames);
    atomic_fetch_add(&s->stopped, frames);
    count_lock_end(&s->lock);
}

void analysis_stage_end(struct analysis_stage *s)
{
    analysis_stage_open_handles(s);
    if (s->ops->of_events)
        event_inlet_advance(&s->inlet, s->told_epoch, UINT64_MAX);
    else
        analysis_feed_end(&s->feed);
    sink_thread_wake(&s->thread);
}
