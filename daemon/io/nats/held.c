/* Input that a standby holds: see held.h. */
#include "io/nats/held.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

#include "core/clock.h"
#include "core/error.h"

int held_open(struct held *h, const struct held_options *options)
{
    memset(h, 0, sizeof *h);
    assert(options->frames > 0 && options->frame_bytes > 0);
    h->options = *options;
    h->bytes = calloc(options->frames, options->frame_bytes);
    h->present = calloc(options->frames / 64 + 1, sizeof *h->present);
    if (h->bytes != NULL && h->present != NULL)
        return 0;
    held_close(h);
    return ERROR_MEMORY;
}

void held_close(struct held *h)
{
    free(h->bytes);
    free(h->present);
    h->bytes = NULL;
    h->present = NULL;
}

/* ---- which frames are there -------------------------------------------------------------- */

/* The frames of [from, until) that lie in one word of the map, from `from` on. */
static uint64_t of_word(const struct held *h, uint64_t from, uint64_t until, uint64_t *mask)
{
    const uint64_t slot = from % h->options.frames, bit = slot % 64;
    uint64_t count = 64 - bit;
    count = count < h->options.frames - slot ? count : h->options.frames - slot;
    count = count < until - from ? count : until - from;
    *mask = (count == 64 ? UINT64_MAX : (UINT64_C(1) << count) - 1) << bit;
    return count;
}

static void mark(struct held *h, uint64_t from, uint64_t until, bool there)
{
    while (from < until) {
        uint64_t mask;
        const uint64_t count = of_word(h, from, until, &mask);
        uint64_t *word = &h->present[from % h->options.frames / 64];
        *word = there ? *word | mask : *word & ~mask;
        from += count;
    }
}

/* The first frame of [from, until) that is there, or is not; `until` when there is none. */
static uint64_t find(const struct held *h, uint64_t from, uint64_t until, bool there)
{
    while (from < until) {
        uint64_t mask;
        const uint64_t count = of_word(h, from, until, &mask);
        const uint64_t word = h->present[from % h->options.frames / 64];
        const uint64_t hits = (there ? word : ~word) & mask;
        if (hits != 0)
            return from + (uint64_t)__builtin_ctzll(hits) - from % h->options.frames % 64;
        from += count;
    }
    return until;
}

/* ---- runs -------------------------------------------------------------------------------- */

uint64_t held_first_run(const struct held *h)
{
    return h->run_next > HELD_RUNS ? h->run_next - HELD_RUNS : 0;
}

uint64_t held_oldest(const struct held *h)
{
    if (h->run_next == 0)
        return h->head;
    const uint64_t kept = h->head > h->options.frames ? h->head - h->options.frames : 0;
    const uint64_t known = held_run(h, held_first_run(h))->from;
    return kept > known ? kept : known;
}

uint64_t held_run_until(const struct held *h, uint64_t number)
{
    return number + 1 < h->run_next ? held_run(h, number + 1)->from : h->head;
}

static double frame_at(const struct held_run *run, uint64_t position)
{
    return (double)run->first + ((double)position - (double)run->from);
}

int64_t held_capture_ns(const struct held_run *run, uint64_t position)
{
    return source_clock_time_ns(&run->times, frame_at(run, position)) + run->offset_ns;
}

int64_t held_error_ns(const struct held_run *run, uint64_t position, uint64_t frames)
{
    const double first = frame_at(run, position);
    return source_clock_error_ns(&run->times, first, first + (double)frames);
}

uint32_t held_timestamp(const struct held_run *run, int64_t position)
{
    return (uint32_t)run->first + (uint32_t)((uint64_t)position - run->from);
}

static enum numbered_match match_run(const struct held *h, uint64_t number,
                                     const struct numbered_mark *mark, int64_t *position)
{
    const struct held_run *run = held_run(h, number);
    const uint64_t until = held_run_until(h, number);
    const struct numbered_run numbers = {.ssrc = run->ssrc,
                                         .from = (int64_t)run->from,
                                         .until = (int64_t)until,
                                         .timestamp = held_timestamp(run, (int64_t)until),
                                         .until_ns = held_capture_ns(run, until)};
    return numbered_match(&numbers, h->options.rate_hz, mark, position);
}

bool held_find(const struct held *h, const struct numbered_mark *mark, uint64_t *run,
               int64_t *position)
{
    enum numbered_match best = MATCH_NONE;
    for (uint64_t i = h->run_next; i > held_first_run(h); i--) {
        int64_t at;
        const enum numbered_match match = match_run(h, i - 1, mark, &at);
        if (match <= best)
            continue;
        best = match;
        *run = i - 1;
        *position = at;
    }
    return best != MATCH_NONE;
}

/* ---- putting ----------------------------------------------------------------------------- */

static void begin_run(struct held *h, const struct packet *packet, uint32_t ssrc)
{
    struct held_run *run = &h->runs[h->run_next++ % HELD_RUNS];
    *run = (struct held_run){.ssrc = ssrc, .first = packet->first_frame, .from = h->head};
    source_clock_reset(&run->times, h->options.rate_hz);
    h->blamed = INVALID_NETWORK;
}

/* The head moves on: what lay in those slots is gone. Frames before `first` are missing. */
static void grow(struct held *h, uint64_t first, uint64_t until, int64_t now_ns)
{
    const uint64_t size = h->options.frames;
    if (first > h->head)
        h->gaps[h->gap_next++ % HELD_GAPS] = (struct held_gap){h->head, first, now_ns, h->blamed};
    h->blamed = INVALID_NETWORK;
    mark(h, until - h->head > size ? until - size : h->head, until, false);
    h->head = until;
}

/* Into slots where nothing lies. */
static void copy_in(struct held *h, uint64_t from, const uint8_t *bytes, uint64_t frames)
{
    mark(h, from, from + frames, true);
    const uint64_t size = h->options.frames;
    while (frames > 0) {
        const uint64_t slot = from % size, run = frames < size - slot ? frames : size - slot;
        memcpy(h->bytes + slot * h->options.frame_bytes, bytes, run * h->options.frame_bytes);
        bytes += run * h->options.frame_bytes;
        from += run;
        frames -= run;
    }
}

enum verdict held_put(struct held *h, const struct packet *packet, uint32_t ssrc)
{
    assert(packet->frames > 0);
    if (packet->frames > h->options.frames)
        return VERDICT_OUT_OF_WINDOW;
    if (h->run_next == 0 || (packet->flags & PACKET_DISCONTINUITY))
        begin_run(h, packet, ssrc);
    struct held_run *run = &h->runs[(h->run_next - 1) % HELD_RUNS];
    if (packet->first_frame < run->first)
        return VERDICT_LATE;
    const uint64_t from = run->from + (packet->first_frame - run->first);
    const uint64_t until = from + packet->frames;
    if (until > h->head)
        grow(h, from, until, packet->receive_ns);
    const uint64_t oldest = held_oldest(h), floor = oldest > h->read ? oldest : h->read;
    if (until <= floor)
        return VERDICT_LATE;
    bool written = false;
    uint64_t at = from > floor ? from : floor;
    while ((at = find(h, at, until, false)) < until) { /* what came first stays */
        const uint64_t end = find(h, at, until, true);
        copy_in(h, at, packet->payload + (at - from) * h->options.frame_bytes, end - at);
        written = true;
        at = end;
    }
    if (!written)
        return VERDICT_DUPLICATE;
    source_clock_add(&run->times, packet->first_frame,
                     packet->first_frame + packet->frames + packet->frames_behind,
                     packet->receive_ns);
    run->offset_ns = packet->receive_realtime_ns - packet->receive_ns;
    run->clock = packet->clock;
    return VERDICT_ACCEPTED;
}

void held_blame(struct held *h)
{
    h->blamed = INVALID_SOCKET;
}

void held_unsent(struct held *h, uint64_t from, uint64_t until)
{
    if (h->run_next == 0)
        return;
    const struct held_run *run = &h->runs[(h->run_next - 1) % HELD_RUNS];
    if (from < run->first)
        return;
    from = run->from + (from - run->first);
    until = run->from + (until - run->first);
    if (from >= h->head)
        h->blamed = INVALID_SENDER;
    for (uint64_t i = 0; i < HELD_GAPS && i < h->gap_next; i++)
        if (h->gaps[i].from >= from && h->gaps[i].until <= until)
            h->gaps[i].cause = INVALID_SENDER;
}

/* ---- reading ----------------------------------------------------------------------------- */

static const struct held_gap *gap_at(const struct held *h, uint64_t position)
{
    const uint64_t oldest = h->gap_next > HELD_GAPS ? h->gap_next - HELD_GAPS : 0;
    for (uint64_t i = h->gap_next; i > oldest; i--) {
        const struct held_gap *gap = &h->gaps[(i - 1) % HELD_GAPS];
        if (gap->from <= position && position < gap->until)
            return gap;
    }
    return NULL;
}

static struct held_piece missing(const struct held *h, uint64_t position, uint64_t until,
                                 int64_t now_ns)
{
    const struct held_gap *gap = gap_at(h, position);
    const uint64_t end = gap != NULL && gap->until < until ? gap->until : until;
    if (gap != NULL && now_ns - gap->seen_ns < h->options.reorder_ns)
        return (struct held_piece){.due_ns = gap->seen_ns + h->options.reorder_ns};
    return (struct held_piece){.kind = HELD_ABSENT,
                               .frames = find(h, position, end, true) - position,
                               .cause = gap != NULL ? gap->cause : INVALID_NETWORK};
}

struct held_piece held_next(struct held *h, uint64_t run, uint64_t position, int64_t now_ns)
{
    if (run < held_first_run(h) || position < held_oldest(h))
        return (struct held_piece){.kind = HELD_LOST};
    const uint64_t until = held_run_until(h, run), size = h->options.frames;
    h->read = position < h->head ? position : h->head;
    if (position >= until && run + 1 < h->run_next)
        return (struct held_piece){.kind = HELD_END};
    if (position >= until)
        return (struct held_piece){.due_ns = INT64_MAX};
    const uint64_t there = find(h, position, until, false);
    if (there == position)
        return missing(h, position, until, now_ns);
    const uint64_t slot = position % size, whole = size - slot;
    return (struct held_piece){.kind = HELD_FRAMES,
                               .bytes = h->bytes + slot * h->options.frame_bytes,
                               .frames = there - position < whole ? there - position : whole};
}

void held_unread(struct held *h)
{
    h->read = 0;
}
