/* Analysis feed: see analysis_feed.h. */
#include "pipeline/analysis_feed.h"

#include <assert.h>
#include <math.h>
#include <stddef.h>
#include <string.h>

/* ---- life -------------------------------------------------------------------------------- */

int analysis_feed_open(struct analysis_feed *feed, const struct analysis_feed_options *options,
                       uint64_t ring_bytes)
{
    *feed = (struct analysis_feed){
        .options = *options,
        .frame_bytes = options->channels * sizeof(float),
        .frames_a_message = 1,
    };
    return frame_ring_open(&feed->ring, ring_bytes);
}

void analysis_feed_close(struct analysis_feed *feed)
{
    frame_ring_close(&feed->ring);
}

/* ---- messages ---------------------------------------------------------------------------- */

/* One run to be passed on; its samples, if any, are copied. */
struct item {
    uint64_t epoch, record, from, until;
    const float *samples; /* NULL: none */
    bool begins, ends;
    int64_t capture_ns, clock_error_ns;
    enum clock_source clock;
    double delay_frames;
    bool aligned;
    const struct invalid_range *invalid; /* those that touch [from, until) become the run's */
    uint32_t invalid_count;
    const struct input_saturation *saturated; /* clipped to it */
    uint32_t saturated_count;
    bool whole; /* all of it is invalid by `cause`, whatever the ranges say */
    enum invalid_cause cause;
};

static uint64_t smaller(uint64_t a, uint64_t b)
{
    return a < b ? a : b;
}

/* Zeros that have to lie before samples, so that later runs see dropped frames in their history. */
static uint64_t zeros_before(const struct analysis_feed *feed)
{
    return smaller(feed->missing, feed->options.history);
}

/* The ranges of an item, clipped to it, behind the message. Returns how many. */
static uint32_t put_ranges(const struct item *item, struct invalid_range *out)
{
    uint32_t count = 0;
    for (uint32_t i = 0; i < item->invalid_count; i++) {
        struct invalid_range range = item->invalid[i];
        range.from = range.from > item->from ? range.from : item->from;
        range.until = smaller(range.until, item->until);
        if (range.from >= range.until)
            continue;
        uint32_t at = count++; /* sorted by `from` */
        for (; at > 0 && out[at - 1].from > range.from; at--)
            out[at] = out[at - 1];
        out[at] = range;
    }
    if (item->whole && item->until > item->from) {
        memmove(out + 1, out, count * sizeof *out);
        out[0] = (struct invalid_range){item->from, item->until, item->cause};
        count++;
    }
    return count;
}

/* What rests on saturated inputs, behind the message and its ranges. */
static void put_marks(const struct item *item, struct analysis_saturation *out)
{
    for (uint32_t i = 0; i < item->saturated_count; i++) {
        const struct input_saturation *mark = &item->saturated[i];
        out[i] = (struct analysis_saturation){mark->from, mark->until, mark->channel};
    }
}

/* Where they lie. */
static struct analysis_saturation *marks_of(struct feed_message *message)
{
    struct invalid_range *ranges = (struct invalid_range *)(message + 1);
    return (struct analysis_saturation *)(void *)(ranges + message->run.invalid_count);
}

static void put_samples(struct analysis_feed *feed, struct feed_message *message,
                        const float *samples, uint64_t frames)
{
    const uint64_t zeros = zeros_before(feed), bytes = frames * feed->frame_bytes;
    struct frame_ring *ring = &feed->ring;
    memset(frame_ring_at(ring, ring->written), 0, zeros * feed->frame_bytes);
    ring->written += zeros * feed->frame_bytes;
    /* Fewer zeros than frames are missing where the history ends among them. */
    feed->history = smaller(feed->history + zeros, feed->options.history);
    feed->missing = 0;
    message->position = ring->written;
    message->run.history = feed->history;
    memcpy(frame_ring_at(ring, ring->written), samples, bytes);
    ring->written += bytes;
    feed->history = smaller(feed->history + frames, feed->options.history);
}

/* Passes on a run of at most UINT32_MAX frames. False: there is no room, and nothing has changed.
 */
static bool push(struct analysis_feed *feed, const struct item *item)
{
    const uint64_t frames = item->until - item->from;
    if (item->samples != NULL &&
        (zeros_before(feed) + frames) * feed->frame_bytes > frame_ring_room(&feed->ring))
        return false;
    struct feed_message *message = message_ring_reserve(
        feed->options.messages, sizeof *message +
                                    (item->invalid_count + 1) * sizeof(struct invalid_range) +
                                    item->saturated_count * sizeof(struct analysis_saturation));
    if (message == NULL)
        return false;
    if (item->begins)
        feed->history = feed->missing = 0;
    message->kind = FEED_RUN;
    message->run = (struct analysis_run){
        .epoch = item->epoch,
        .record = item->record,
        .first_frame = item->from,
        .frames = (uint32_t)frames,
        .channels = feed->options.channels,
        .invalid_count = put_ranges(item, (struct invalid_range *)(message + 1)),
        .saturated_count = item->saturated_count,
        .begins = item->begins,
        .ends = item->ends,
        .capture_ns = item->capture_ns,
        .clock = item->clock,
        .clock_error_ns = item->clock_error_ns,
        .delay_frames = item->delay_frames,
        .aligned = item->aligned,
    };
    put_marks(item, marks_of(message));
    message->position = UINT64_MAX;
    if (item->samples != NULL)
        put_samples(feed, message, item->samples, frames);
    else
        feed->missing += frames;
    feed->told_open = !item->ends;
    feed->told_epoch = item->epoch;
    message_ring_commit(feed->options.messages);
    return true;
}

/* ---- what was dropped -------------------------------------------------------------------- */

static bool owes(const struct analysis_feed *feed)
{
    return feed->tail.any || feed->lumped > 0 || feed->newest.any;
}

/* Passes a drop on in runs; false: some of it is left. */
static bool tell_drop(struct analysis_feed *feed, struct feed_drop *drop)
{
    while (drop->any) {
        const uint64_t until = drop->from + smaller(drop->until - drop->from, UINT32_MAX);
        const struct item item = {
            .epoch = drop->epoch,
            .record = drop->record,
            .from = drop->from,
            .until = until,
            .begins = drop->begins,
            .ends = drop->ends && until == drop->until,
            .capture_ns = drop->capture_ns,
            .clock = drop->clock,
            .clock_error_ns = drop->clock_error_ns,
            .delay_frames = drop->delay_frames,
            .aligned = drop->aligned,
            .whole = true,
            .cause = INVALID_OVERLOAD,
        };
        if (!push(feed, &item))
            return false;
        drop->capture_ns +=
            (int64_t)llround((double)(until - drop->from) * 1e9 / feed->options.rate_hz);
        drop->from = until;
        drop->begins = false;
        drop->any = drop->from < drop->until;
    }
    return true;
}

static bool tell_lumped(struct analysis_feed *feed)
{
    if (feed->lumped == 0)
        return true;
    struct feed_message *message = message_ring_reserve(feed->options.messages, sizeof *message);
    if (message == NULL)
        return false;
    message->kind = FEED_LUMPED;
    message->lumped = feed->lumped;
    feed->lumped = 0;
    message_ring_commit(feed->options.messages);
    return true;
}

bool analysis_feed_tell(struct analysis_feed *feed)
{
    const bool told =
        tell_drop(feed, &feed->tail) && tell_lumped(feed) && tell_drop(feed, &feed->newest);
    atomic_store(&feed->untold, !told);
    return told;
}

/* Keeps an item that did not fit, to be told later. */
static void lose(struct analysis_feed *feed, const struct item *item)
{
    const bool known = feed->told_open && feed->told_epoch == item->epoch;
    struct feed_drop *drop = known ? &feed->tail : &feed->newest;
    if (drop->any && drop->epoch != item->epoch) { /* a whole epoch, which is over */
        feed->lumped += drop->until - drop->from;
        drop->any = false;
    }
    if (!drop->any)
        *drop = (struct feed_drop){
            .any = true,
            .begins = !known,
            .epoch = item->epoch,
            .record = item->record,
            .from = item->from,
            .capture_ns = item->capture_ns,
            .clock = item->clock,
            .clock_error_ns = item->clock_error_ns,
            .delay_frames = item->delay_frames,
            .aligned = item->aligned,
        };
    drop->until = item->until;
    drop->ends = drop->ends || item->ends;
    if (item->samples != NULL)
        feed->dropped += item->until - item->from;
    atomic_store(&feed->untold, true);
}

/* ---- results ----------------------------------------------------------------------------- */

static void offer(struct analysis_feed *feed, struct item *item)
{
    feed->options.pending(feed->options.context, item->until - item->from);
    if (!owes(feed) || analysis_feed_tell(feed)) {
        /* What was told may have begun the epoch. */
        item->begins = !(feed->told_open && feed->told_epoch == item->epoch);
        if (push(feed, item))
            return;
    }
    lose(feed, item);
}

void analysis_feed_end(struct analysis_feed *feed)
{
    if (!feed->open)
        return;
    struct item item = {
        .epoch = feed->epoch,
        .record = feed->record,
        .from = feed->next,
        .until = feed->next,
        .ends = true,
    };
    feed->open = false;
    offer(feed, &item);
}

/* The frames before the result that the stream has shed. */
static void offer_gap(struct analysis_feed *feed, const struct result *result)
{
    while (feed->next < result->first_frame) {
        const uint64_t left = result->first_frame - feed->next;
        struct item item = {
            .epoch = result->epoch,
            .record = result->record,
            .from = feed->next,
            .until = feed->next + smaller(left, UINT32_MAX),
            .capture_ns =
                result->capture_ns - (int64_t)llround((double)left * 1e9 / feed->options.rate_hz),
            .clock = result->clock,
            .clock_error_ns = result->clock_error_ns,
            .delay_frames = result->delay_frames,
            .aligned = result->aligned,
            .invalid = result->invalid,
            .invalid_count = result->invalid_count,
            .whole = true,
            .cause = INVALID_OVERLOAD,
        };
        for (uint32_t i = 0; i < result->invalid_count && item.whole; i++)
            item.whole =
                result->invalid[i].from > item.from || result->invalid[i].until < item.until;
        feed->next = item.until;
        offer(feed, &item);
    }
}

void analysis_feed_put(struct analysis_feed *feed, const struct result *result)
{
    assert(result->samples != NULL || result->frames == 0);
    if (result->epoch != feed->epoch) /* it has ended without a word */
        analysis_feed_end(feed);
    if (!feed->open) {
        /* One that comes in the middle of an epoch begins with what it gets. */
        const bool from_start = feed->started || (result->flags & RESULT_EPOCH_START);
        feed->next = from_start ? 0 : result->first_frame;
        feed->epoch = result->epoch;
        feed->record = result->record;
        feed->started = feed->open = true;
    }
    offer_gap(feed, result);
    const bool ends = result->flags & RESULT_EPOCH_END;
    if (result->frames == 0 && !ends)
        return;
    struct item item = {
        .epoch = result->epoch,
        .record = result->record,
        .from = result->first_frame,
        .until = result->first_frame + result->frames,
        .samples = result->frames > 0 ? result->samples : NULL,
        .ends = ends,
        .capture_ns = result->capture_ns,
        .clock = result->clock,
        .clock_error_ns = result->clock_error_ns,
        .delay_frames = result->delay_frames,
        .aligned = result->aligned,
        .invalid = result->invalid,
        .invalid_count = result->invalid_count,
        .saturated = result->saturated_inputs,
        .saturated_count = result->saturated_input_count,
    };
    feed->next = item.until;
    feed->open = !ends;
    feed->frames_a_message += ((double)result->frames - feed->frames_a_message) / 16;
    offer(feed, &item);
}

bool analysis_feed_mark(struct analysis_feed *feed, const struct sink_mark *mark)
{
    struct feed_message *message =
        message_ring_reserve(feed->options.messages, sizeof *message + sizeof *mark);
    if (message == NULL)
        return false;
    message->kind = FEED_MARK;
    message->mark = memcpy(message + 1, mark, sizeof *mark);
    message_ring_commit(feed->options.messages);
    return true;
}

uint64_t analysis_feed_room(const struct analysis_feed *feed)
{
    const uint64_t longest = /* a message with many ranges */
        1024 + feed->options.marks_most * sizeof(struct analysis_saturation);
    const uint64_t frames = frame_ring_room(&feed->ring) / feed->frame_bytes;
    const uint64_t zeros = zeros_before(feed);
    const uint64_t unused = message_ring_unused(feed->options.messages);
    const uint64_t messages = unused / longest;
    const double by_messages = (double)messages * feed->frames_a_message / 2;
    const uint64_t room = frames > zeros ? frames - zeros : 0;
    if (owes(feed))
        return 0;
    /* Without a message there is room for one result of any length. */
    const double most = unused == feed->options.messages->capacity &&
                                by_messages < (double)feed->options.block_frames
                            ? (double)feed->options.block_frames
                            : by_messages;
    return most < (double)room ? (uint64_t)most : room;
}

/* ---- state ------------------------------------------------------------------------------- */

/* The frames in the ring that later runs have as their history. */
static void walk_history(struct analysis_feed *feed, struct codec *codec)
{
    struct frame_ring *ring = &feed->ring;
    const uint64_t bytes = feed->history * feed->frame_bytes;
    const uint8_t *span =
        codec_reads(codec) || bytes == 0 ? NULL : frame_ring_at(ring, ring->written - bytes);
    codec_span(codec, &span, (size_t)bytes);
    if (!codec_reads(codec) || codec->failed)
        return;
    ring->written = 0;
    atomic_store(&ring->released, 0);
    if (bytes == 0)
        return;
    memcpy(frame_ring_at(ring, 0), span, bytes);
    ring->written = bytes;
}

void analysis_feed_forget(struct analysis_feed *feed)
{
    feed->started = feed->open = feed->told_open = false;
    feed->epoch = feed->record = feed->next = feed->told_epoch = 0;
    feed->history = feed->missing = feed->dropped = 0;
    feed->ring.written = 0;
    atomic_store(&feed->ring.released, 0);
}

bool analysis_feed_walk(struct analysis_feed *feed, struct codec *codec)
{
    uint32_t channels = feed->options.channels;
    codec_u32(codec, &channels);
    codec_bool(codec, &feed->started);
    codec_bool(codec, &feed->open);
    codec_u64(codec, &feed->epoch);
    codec_u64(codec, &feed->record);
    codec_u64(codec, &feed->next);
    codec_bool(codec, &feed->told_open);
    codec_u64(codec, &feed->told_epoch);
    codec_u64(codec, &feed->history);
    codec_u64(codec, &feed->missing);
    codec_u64(codec, &feed->dropped);
    if (codec->failed || channels != feed->options.channels ||
        feed->history > feed->options.history ||
        feed->history * feed->frame_bytes > feed->ring.capacity || feed->missing > feed->next) {
        analysis_feed_forget(feed);
        return false;
    }
    walk_history(feed, codec);
    if (codec->failed)
        analysis_feed_forget(feed);
    return !codec->failed;
}

/* ---- thread ------------------------------------------------------------------------------ */

const struct feed_message *analysis_feed_peek(struct analysis_feed *feed)
{
    uint64_t bytes;
    struct feed_message *message = message_ring_peek(feed->options.messages, &bytes);
    if (message == NULL || message->kind != FEED_RUN)
        return message;
    struct analysis_run *run = &message->run;
    run->invalid = (const struct invalid_range *)(message + 1);
    run->saturated = marks_of(message);
    if (message->position == UINT64_MAX)
        return message;
    const uint64_t before = run->history * feed->frame_bytes;
    const uint8_t *from = frame_ring_at(&feed->ring, message->position - before);
    run->samples = (const float *)(const void *)(from + before);
    return message;
}

void analysis_feed_release(struct analysis_feed *feed, const struct feed_message *message)
{
    if (message->kind == FEED_RUN && message->position != UINT64_MAX) {
        const uint64_t end = message->position + message->run.frames * feed->frame_bytes;
        const uint64_t kept = feed->options.history * feed->frame_bytes;
        const uint64_t until = end > kept ? end - kept : 0;
        if (until > atomic_load(&feed->ring.released))
            atomic_store(&feed->ring.released, until);
    }
    message_ring_release(feed->options.messages);
}
