/* Records on their way to a log: see pieces.h. */
#include "io/nats/pieces.h"

#include <stdlib.h>
#include <string.h>

#include "core/clock.h"
#include "core/error.h"

enum { JOIN_MOST = 32 }; /* pieces at once; more than that have waited, and are full */

/* Records whose capture times differ by more are not joined: their sender or a clock has paused. */
static const int64_t join_apart_ns = 10 * NS_PER_MS;

int pieces_open(struct pieces *p, uint32_t count, uint32_t piece_bytes, uint32_t frame_bytes,
                uint32_t marks_each)
{
    const uint32_t bytes = piece_bytes / frame_bytes * frame_bytes;
    memset(p, 0, sizeof *p);
    p->count = count;
    p->frame_bytes = frame_bytes;
    p->piece_bytes = bytes > 0 ? bytes : frame_bytes;
    p->all = calloc(count, sizeof *p->all);
    p->memory = malloc((size_t)count * p->piece_bytes);
    p->marks_each = marks_each;
    if (marks_each > 0)
        p->marks = malloc((size_t)count * marks_each * sizeof *p->marks);
    if (p->all == NULL || p->memory == NULL || (marks_each > 0 && p->marks == NULL))
        return ERROR_MEMORY;
    for (uint32_t i = 0; i < count; i++) {
        p->all[i].samples = p->memory + (size_t)i * p->piece_bytes;
        p->all[i].marks = marks_each > 0 ? p->marks + (size_t)i * marks_each : NULL;
    }
    return 0;
}

void pieces_close(struct pieces *p)
{
    free(p->all);
    free(p->memory);
    free(p->marks);
    p->all = NULL;
    p->memory = NULL;
    p->marks = NULL;
}

/* Frames that can still be added to a piece. */
static uint32_t room_of(const struct pieces *p, const struct piece *piece)
{
    return p->piece_bytes / p->frame_bytes - piece->record.frames;
}

/* The newest one, if it goes on without a frame between; NULL: another one has to begin. */
static struct piece *growing(struct pieces *p, uint64_t epoch, uint64_t from)
{
    if (p->next == p->unsent)
        return NULL;
    struct piece *piece = piece_at(p, p->next - 1);
    const struct record *r = &piece->record;
    return !piece->whole && r->epoch == epoch && r->next == from && room_of(p, piece) > 0 ? piece
                                                                                          : NULL;
}

/* Begins one: over the oldest that was appended, if there is no other room. NULL: all wait. */
static struct piece *begin(struct pieces *p)
{
    if (p->next - p->oldest == p->count) {
        if (p->oldest == p->unsent)
            return NULL;
        p->oldest++;
    }
    struct piece *piece = piece_at(p, p->next++);
    piece->record = (struct record){0};
    piece->whole = false;
    return piece;
}

uint64_t pieces_free(const struct pieces *p)
{
    const uint64_t taken = p->next - p->unsent, spare = p->count - taken;
    return spare > 1 ? (spare - 1) * (p->piece_bytes / p->frame_bytes) : 0;
}

/* ---- frames ------------------------------------------------------------------------------ */

/* A run of frames on its way into a piece: [from, until) of the log, which numbers a result's
 * frames higher by `shift`. */
struct run {
    uint64_t from, until;
    int64_t shift;
};

/* [*from, *until) as the log numbers them, clipped to the run; false: nothing is left. */
static bool clip(const struct run *run, uint64_t *from, uint64_t *until)
{
    *from += (uint64_t)run->shift;
    *until += (uint64_t)run->shift;
    *from = *from > run->from ? *from : run->from;
    *until = *until < run->until ? *until : run->until;
    return *from < *until;
}

/* Ranges of the run behind those of the piece; returns how many it has then, more than
 * PIECE_RANGES: there is no room. */
static uint32_t add_ranges(struct piece *piece, const struct result *result, const struct run *run)
{
    uint32_t count = piece->record.range_count;
    for (uint32_t i = 0; i < result->invalid_count; i++) {
        struct record_range range = {.from = result->invalid[i].from,
                                     .until = result->invalid[i].until,
                                     .cause = (uint8_t)result->invalid[i].cause};
        if (!clip(run, &range.from, &range.until))
            continue;
        if (count == PIECE_RANGES)
            return PIECE_RANGES + 1;
        piece->ranges[count++] = range;
    }
    return count;
}

/* Likewise its marks. */
static uint32_t add_marks(const struct pieces *p, struct piece *piece, const struct result *result,
                          const struct run *run)
{
    uint32_t count = piece->record.mark_count;
    for (uint32_t i = 0; i < result->saturated_input_count && p->marks_each > 0; i++) {
        const struct input_saturation *of = &result->saturated_inputs[i];
        struct record_mark mark = {of->from, of->until, of->channel};
        if (!clip(run, &mark.from, &mark.until))
            continue;
        if (count == p->marks_each)
            return p->marks_each + 1;
        piece->marks[count++] = mark;
    }
    return count;
}

/* Adds frames of a result from its `done` on. False: too many ranges or marks; nothing is added. */
static bool add(struct pieces *p, struct piece *piece, const struct result *result,
                const uint8_t *samples, uint32_t frames, int64_t shift)
{
    struct record *r = &piece->record;
    const struct run run = {r->next, r->next + frames, shift};
    const uint32_t ranges = add_ranges(piece, result, &run),
                   marks = add_marks(p, piece, result, &run);
    if (ranges > PIECE_RANGES || marks > p->marks_each)
        return false;
    r->range_count = ranges;
    r->ranges = piece->ranges;
    r->mark_count = marks;
    r->marks = piece->marks;
    memcpy(piece->samples + (size_t)r->frames * p->frame_bytes, samples,
           (size_t)frames * p->frame_bytes);
    r->samples = piece->samples;
    r->frames += frames;
    r->next += frames;
    p->frames_unsent += frames;
    return true;
}

/* A piece for frames from target->first on; NULL: there is no room. */
static struct piece *piece_for(struct pieces *p, const struct piece_kind *kind,
                               const struct result *result, uint32_t skip,
                               const struct piece_target *target)
{
    struct piece *piece = target->from == target->first && !target->begins
                              ? growing(p, target->epoch, target->first)
                              : NULL;
    if (piece != NULL || (piece = begin(p)) == NULL)
        return piece;
    struct record *r = &piece->record;
    *r = (struct record){
        .kind = RECORD_DATA,
        .flags = (kind->raw ? RECORD_RAW : 0) | (result->aligned ? RECORD_ALIGNED : 0) |
                 (target->begins && target->from == 0 ? RECORD_EPOCH_START : 0),
        .epoch = target->epoch,
        .record = result->record,
        .from = target->from,
        .first = target->first,
        .next = target->first,
        .timeline = target->timeline,
        .channels = (uint16_t)kind->channels,
        .format = kind->format,
        .rate_hz = kind->rate_hz,
        .delay_frames = result->delay_frames,
        .capture_ns = result->capture_ns +
                      clock_round_ns((double)skip * 1e9 /
                                     (result->rate_hz > 0 ? result->rate_hz : kind->rate_hz)),
        .clock = (uint8_t)result->clock,
        .clock_error_ns = result->clock_error_ns > 0 ? result->clock_error_ns : 0,
    };
    for (int i = 0; i < RECORD_STAGES; i++)
        r->stage_100ns[i] = (uint32_t)(result->stage_ns[i] > 0 ? result->stage_ns[i] / 100 : 0);
    if (target->from < target->first) {
        piece->ranges[0] =
            (struct record_range){target->from, target->first, INVALID_OVERLOAD, true};
        r->range_count = 1;
        r->ranges = piece->ranges;
    }
    return piece;
}

/* How the sender numbers the record's frame `next`. */
static void tell_sender(struct piece *piece, const struct term_sender *sender, uint32_t decimate)
{
    struct record *r = &piece->record;
    r->flags |= RECORD_SENDER;
    r->ssrc = sender->ssrc;
    r->timestamp = sender->timestamp + (uint32_t)(r->next * decimate);
}

/* What the record of a piece says of the frames that it has now. */
static void tell(struct piece *piece, struct piece_kind *kind, const struct piece_target *target)
{
    struct record *r = &piece->record;
    r->input_next = target->input_next != 0 ? target->input_next : target->first;
    r->raw_sequence = target->raw_sequence;
    if (target->sender.known) /* the sender's own number of the record's frame `next` */
        tell_sender(piece, &target->sender, target->decimate);
    if (kind->other_plan && r->range_count < PIECE_RANGES) {
        piece->ranges[r->range_count++] =
            (struct record_range){r->first, r->first + 1, INVALID_DEVICE, false};
        r->ranges = piece->ranges;
        kind->other_plan = false;
    }
}

uint32_t pieces_put(struct pieces *p, struct piece_kind *kind, const struct result *result,
                    uint32_t skip, struct piece_target target)
{
    const uint8_t *samples = kind->raw ? result->raw : (const uint8_t *)result->samples;
    const int64_t shift = (int64_t)(target.first - (result->first_frame + skip));
    uint32_t done = skip;
    while (done < result->frames) {
        struct piece *piece = piece_for(p, kind, result, done, &target);
        if (piece == NULL)
            break;
        const uint32_t room = room_of(p, piece), left = result->frames - done;
        const uint32_t frames = left < room ? left : room;
        if (!add(p, piece, result, samples + (size_t)done * p->frame_bytes, frames, shift)) {
            piece->whole = true; /* the next one has room for ranges */
            if (piece->record.frames == 0)
                break;
            continue;
        }
        done += frames;
        target.first += frames;
        target.timeline += frames;
        target.from = target.first;
        target.begins = false;
        tell(piece, kind, &target);
        if (done == result->frames && (result->flags & RESULT_EPOCH_END)) {
            piece->record.flags |= RECORD_EPOCH_END;
            piece->whole = true;
        }
    }
    return done - skip;
}

/* ---- appending --------------------------------------------------------------------------- */

/* Ranges that lie in [from, until), clipped; returns how many. */
static uint32_t clip_ranges(const struct record *r, uint64_t from, uint64_t until,
                            struct record_range *out)
{
    uint32_t count = 0;
    for (uint32_t i = 0; i < r->range_count; i++) {
        struct record_range range = r->ranges[i];
        range.from = range.from > from ? range.from : from;
        range.until = range.until < until ? range.until : until;
        if (range.from < range.until)
            out[count++] = range;
    }
    return count;
}

bool pieces_first(struct pieces *p, struct record *record)
{
    if (p->unsent == p->next)
        return false;
    const struct piece *piece = piece_at(p, p->unsent);
    *record = piece->record;
    if (p->stored == 0)
        return true;
    record->flags &= ~(uint32_t)RECORD_EPOCH_START;
    record->first += p->stored;
    record->from = record->first;
    record->timeline += p->stored;
    record->frames -= p->stored;
    record->samples = piece->samples + (size_t)p->stored * p->frame_bytes;
    record->capture_ns += clock_round_ns((double)p->stored * 1e9 / record->rate_hz);
    record->range_count = clip_ranges(&piece->record, record->first, record->next, p->rest);
    record->ranges = p->rest;
    return true;
}

/* How far the capture time of `b` is from what that of `a` says of the same frame. */
static int64_t apart_ns(const struct record *a, const struct record *b)
{
    if (a->capture_ns == 0 || b->capture_ns == 0)
        return a->capture_ns == b->capture_ns ? 0 : INT64_MAX;
    return llabs(b->capture_ns - a->capture_ns -
                 clock_round_ns((double)a->frames * 1e9 / a->rate_hz));
}

/* True if record `b` begins where `a` ends and both describe their frames alike. */
static bool goes_on(const struct record *a, const struct record *b)
{
    const uint32_t flags = ~(uint32_t)(RECORD_EPOCH_START | RECORD_EPOCH_END);
    return a->epoch == b->epoch && a->next == b->from && b->from == b->first &&
           a->timeline + a->frames == b->timeline && a->record == b->record && a->ssrc == b->ssrc &&
           a->timestamp + (b->flags & RECORD_SENDER ? b->frames : 0) == b->timestamp &&
           a->clock == b->clock && (a->flags & flags) == (b->flags & flags) &&
           apart_ns(a, b) <= join_apart_ns;
}

/* Moves as many frames of `piece` as there is room for into the piece before it, where it goes on
 * there. A piece that is left without frames has frames = 0. */
static void move_frames(const struct pieces *p, struct piece *into, struct piece *piece)
{
    struct record *a = &into->record, *b = &piece->record;
    struct record_range ranges[PIECE_RANGES];
    const uint32_t room = room_of(p, into), frames = b->frames < room ? b->frames : room;
    if (frames == 0 || !goes_on(a, b))
        return;
    const uint32_t count = clip_ranges(b, b->first, b->first + frames, ranges);
    if (a->range_count + count > PIECE_RANGES)
        return;
    const int64_t error_ns = b->clock_error_ns + apart_ns(a, b);
    a->clock_error_ns = a->clock_error_ns > error_ns ? a->clock_error_ns : error_ns;
    memcpy(into->ranges + a->range_count, ranges, count * sizeof *ranges);
    memcpy(into->samples + (size_t)a->frames * p->frame_bytes, piece->samples,
           (size_t)frames * p->frame_bytes);
    a->range_count += count;
    a->ranges = into->ranges;
    a->frames += frames;
    a->next += frames;
    a->input_next += frames;
    a->timestamp += a->flags & RECORD_SENDER ? frames : 0;
    if (frames < b->frames) {
        piece_cut(p, piece, b->first + frames);
        return;
    }
    a->flags |= b->flags & RECORD_EPOCH_END;
    b->frames = 0;
}

static void swap(struct piece *a, struct piece *b)
{
    const struct piece kept = *a;
    *a = *b;
    *b = kept;
    a->record.ranges = a->ranges;
    b->record.ranges = b->ranges;
}

/* All are appended: joins those that were since the last time, up to JOIN_MOST of them. */
static void join(struct pieces *p)
{
    uint64_t from = p->joined > p->oldest ? p->joined : p->oldest + 1;
    if (from + JOIN_MOST < p->next)
        from = p->next - JOIN_MOST;
    uint64_t last = from - 1;
    for (uint64_t at = from; at < p->next; at++) {
        struct piece *piece = piece_at(p, at);
        move_frames(p, piece_at(p, last), piece);
        if (piece->record.frames == 0)
            continue;
        if (++last != at)
            swap(piece_at(p, last), piece);
    }
    p->joined = p->unsent = p->next = last + 1;
}

void pieces_appended(struct pieces *p)
{
    struct piece *piece = piece_at(p, p->unsent++);
    piece->whole = true;
    p->frames_unsent -= piece->record.frames - p->stored;
    p->stored = 0;
    if (p->joins && p->unsent == p->next)
        join(p);
}

/* ---- the log goes back ------------------------------------------------------------------- */

/* What waits begins with frame `stored` of this piece. */
static void wait_from(struct pieces *p, uint64_t number, uint32_t stored)
{
    p->unsent = number;
    p->stored = stored;
    p->frames_unsent = 0;
    for (uint64_t at = number; at < p->next; at++)
        p->frames_unsent += piece_at(p, at)->record.frames;
    p->frames_unsent -= stored;
}

uint64_t pieces_clear(struct pieces *p)
{
    const uint64_t frames = p->frames_unsent;
    p->oldest = p->unsent = p->next;
    p->stored = 0;
    p->frames_unsent = 0;
    return frames;
}

void pieces_cut_stored(struct pieces *p)
{
    struct piece *piece = piece_at(p, p->unsent);
    if (p->stored == 0)
        return;
    piece->record.flags &= ~(uint32_t)RECORD_EPOCH_START;
    piece_cut(p, piece, piece->record.first + p->stored);
    p->stored = 0;
}

void piece_renumber(struct piece *piece, uint64_t from, uint64_t epoch)
{
    struct record *r = &piece->record;
    r->epoch = epoch;
    r->from -= from;
    r->first -= from;
    r->next -= from;
    r->input_next -= from;
    for (uint32_t i = 0; i < r->range_count; i++) {
        piece->ranges[i].from -= from;
        piece->ranges[i].until -= from;
    }
}

void piece_declare(struct piece *piece, uint64_t from, enum invalid_cause cause)
{
    struct record *r = &piece->record;
    if (r->range_count < PIECE_RANGES)
        piece->ranges[r->range_count++] =
            (struct record_range){from, r->from, (uint8_t)cause, true};
    r->ranges = piece->ranges;
    r->from = from;
}

void piece_cut(const struct pieces *p, struct piece *piece, uint64_t from)
{
    struct record *r = &piece->record;
    const uint32_t off = r->first < from ? (uint32_t)(from - r->first) : 0;
    r->range_count = clip_ranges(r, from, UINT64_MAX, piece->ranges);
    r->ranges = piece->ranges;
    r->from = r->from > from ? r->from : from;
    r->first += off;
    r->timeline += off;
    r->frames -= off;
    r->capture_ns += clock_round_ns((double)off * 1e9 / r->rate_hz);
    memmove(piece->samples, piece->samples + (size_t)off * p->frame_bytes,
            (size_t)r->frames * p->frame_bytes);
}

uint64_t pieces_go_back(struct pieces *p, const struct record *newest, uint64_t *lost)
{
    const uint64_t waited = p->frames_unsent;
    uint64_t at = p->unsent;
    *lost = 0;
    while (at > p->oldest) {
        const struct record *r = &piece_at(p, at - 1)->record;
        if (r->epoch < newest->epoch || (r->epoch == newest->epoch && r->next <= newest->next))
            break;
        at--;
    }
    struct piece *piece = piece_at(p, at);
    struct record *r = &piece->record;
    const bool within = at < p->next && newest->kind != 0 && r->epoch == newest->epoch;
    wait_from(p, at,
              within && r->first < newest->next && newest->next < r->next
                  ? (uint32_t)(newest->next - r->first)
                  : 0);
    if (within && r->from > newest->next) {
        *lost = r->from - newest->next; /* beyond the spool: a gap, declared */
        piece_declare(piece, newest->next, INVALID_OVERLOAD);
    }
    return p->frames_unsent - waited;
}

uint64_t pieces_keep(struct pieces *p)
{
    const uint64_t waited = p->frames_unsent;
    if (p->unsent + 1 < p->next)
        wait_from(p, p->next - 1, 0);
    return waited - p->frames_unsent;
}

void pieces_wait_from(struct pieces *p, uint64_t number)
{
    p->oldest = number;
    wait_from(p, number, 0);
}
