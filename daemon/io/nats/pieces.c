/* Records on their way to a log: see pieces.h. */
#include "io/nats/pieces.h"

#include <stdlib.h>
#include <string.h>

#include "core/clock.h"
#include "core/error.h"

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

/* ---- the log goes back ------------------------------------------------------------------- */

uint64_t pieces_clear(struct pieces *p)
{
    const uint64_t frames = p->frames_unsent;
    p->oldest = p->unsent = p->next;
    p->frames_unsent = 0;
    return frames;
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
    uint32_t count = 0;
    for (uint32_t i = 0; i < r->range_count; i++) {
        struct record_range range = piece->ranges[i];
        range.from = range.from > from ? range.from : from;
        if (range.from < range.until)
            piece->ranges[count++] = range;
    }
    r->range_count = count;
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
    uint64_t at = p->unsent, frames = 0;
    *lost = 0;
    while (at > p->oldest) {
        const struct record *r = &piece_at(p, at - 1)->record;
        if (r->epoch < newest->epoch || (r->epoch == newest->epoch && r->next <= newest->next))
            break;
        at--;
        frames += r->frames;
    }
    p->unsent = at;
    p->frames_unsent += frames;
    if (at == p->next)
        return frames;
    struct piece *piece = piece_at(p, at);
    struct record *r = &piece->record;
    if (newest->kind == 0 || r->epoch != newest->epoch || r->from <= newest->next)
        return frames;
    *lost = r->from - newest->next; /* beyond the spool: a gap, declared */
    piece_declare(piece, newest->next, INVALID_OVERLOAD);
    return frames;
}

uint64_t pieces_keep(struct pieces *p)
{
    const uint64_t waited = p->frames_unsent;
    while (p->unsent + 1 < p->next)
        p->frames_unsent -= piece_at(p, p->unsent++)->record.frames;
    return waited - p->frames_unsent;
}

void pieces_wait_from(struct pieces *p, uint64_t number)
{
    p->oldest = p->unsent = number;
    p->frames_unsent = 0;
    for (uint64_t at = number; at < p->next; at++)
        p->frames_unsent += piece_at(p, at)->record.frames;
}
