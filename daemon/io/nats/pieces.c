/* Records on their way to a log: see pieces.h. */
#include "io/nats/pieces.h"

#include <stdlib.h>
#include <string.h>

#include "core/error.h"

int pieces_open(struct pieces *p, uint32_t count, uint32_t piece_bytes, uint32_t frame_bytes)
{
    const uint32_t bytes = piece_bytes / frame_bytes * frame_bytes;
    memset(p, 0, sizeof *p);
    p->count = count;
    p->frame_bytes = frame_bytes;
    p->piece_bytes = bytes > 0 ? bytes : frame_bytes;
    p->all = calloc(count, sizeof *p->all);
    p->memory = malloc((size_t)count * p->piece_bytes);
    if (p->all == NULL || p->memory == NULL)
        return ERROR_MEMORY;
    for (uint32_t i = 0; i < count; i++)
        p->all[i].samples = p->memory + (size_t)i * p->piece_bytes;
    return 0;
}

void pieces_close(struct pieces *p)
{
    free(p->all);
    free(p->memory);
    p->all = NULL;
    p->memory = NULL;
}

uint32_t pieces_room(const struct pieces *p, const struct piece *piece)
{
    return p->piece_bytes / p->frame_bytes - piece->record.frames;
}

struct piece *pieces_growing(struct pieces *p, uint64_t epoch, uint64_t from)
{
    if (p->next == p->unsent)
        return NULL;
    struct piece *piece = piece_at(p, p->next - 1);
    const struct record *r = &piece->record;
    return !piece->whole && r->epoch == epoch && r->next == from && pieces_room(p, piece) > 0
               ? piece
               : NULL;
}

struct piece *pieces_begin(struct pieces *p)
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

bool pieces_add(struct pieces *p, struct piece *piece, const uint8_t *samples, uint32_t frames,
                const struct invalid_range *ranges, uint32_t range_count, int64_t shift)
{
    struct record *r = &piece->record;
    const uint64_t from = r->next, until = r->next + frames;
    uint32_t count = r->range_count;
    for (uint32_t i = 0; i < range_count; i++) {
        struct record_range range = {.from = ranges[i].from + (uint64_t)shift,
                                     .until = ranges[i].until + (uint64_t)shift,
                                     .cause = (uint8_t)ranges[i].cause};
        range.from = range.from > from ? range.from : from;
        range.until = range.until < until ? range.until : until;
        if (range.from >= range.until)
            continue;
        if (count == PIECE_RANGES)
            return false;
        piece->ranges[count++] = range;
    }
    r->range_count = count;
    r->ranges = piece->ranges;
    memcpy(piece->samples + (size_t)r->frames * p->frame_bytes, samples,
           (size_t)frames * p->frame_bytes);
    r->samples = piece->samples;
    r->frames += frames;
    r->next += frames;
    p->frames_unsent += frames;
    return true;
}

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
    if (r->range_count < PIECE_RANGES) {
        piece->ranges[r->range_count++] =
            (struct record_range){newest->next, r->from, INVALID_OVERLOAD, true};
        r->ranges = piece->ranges;
    }
    r->from = newest->next;
    return frames;
}

void piece_tell_sender(struct piece *piece, const struct term_sender *sender, uint32_t decimate)
{
    struct record *r = &piece->record;
    r->flags |= RECORD_SENDER;
    r->ssrc = sender->ssrc;
    r->timestamp = sender->timestamp + (uint32_t)(r->next * decimate);
}
