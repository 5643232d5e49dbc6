/*
 * Pieces: records on their way to a log, made of results that follow each other, up to `message`
 * bytes each. A ring of them: the newest one still grows, older ones wait to be appended, and those
 * that were appended stay until their room is needed, so that a log that went back can be written
 * again (the spool of a gateway).
 *
 *     oldest … (appended, kept) … unsent … (waiting) … newest (growing)
 *
 * Loop thread, except pieces_open; allocates nothing else.
 */
#ifndef CONVOLVD_IO_NATS_PIECES_H
#define CONVOLVD_IO_NATS_PIECES_H

#include <stdbool.h>
#include <stdint.h>

#include "cluster/term.h"
#include "stream/result.h"
#include "wire/record.h"

enum { PIECE_RANGES = 256 };

struct piece {
    struct record record; /* `samples` and `ranges` are the piece's; chain and owner are not set */
    uint8_t *samples;
    struct record_range ranges[PIECE_RANGES];
    bool whole; /* grows no more */
};

struct pieces {
    struct piece *all; /* [count] */
    uint8_t *memory;
    uint32_t count, piece_bytes, frame_bytes;
    uint64_t oldest, unsent, next; /* numbers: oldest <= unsent <= next */
    uint64_t frames_unsent;
};

/* WORKER. 0 or ERROR_MEMORY. */
int pieces_open(struct pieces *p, uint32_t count, uint32_t piece_bytes, uint32_t frame_bytes);
void pieces_close(struct pieces *p);

static inline struct piece *piece_at(struct pieces *p, uint64_t number)
{
    return &p->all[number % p->count];
}

/* The newest piece, if it can take frames [from, first) missing and one frame from `first` on in
 * this epoch; NULL: another one has to begin. */
struct piece *pieces_growing(struct pieces *p, uint64_t epoch, uint64_t from);
/* Begins one: over the oldest that was appended, if there is no other room. NULL: all wait. */
struct piece *pieces_begin(struct pieces *p);
/* Frames that can still be added to a piece. */
uint32_t pieces_room(const struct pieces *p, const struct piece *piece);
/* Frames for which there is room for sure. */
uint64_t pieces_free(const struct pieces *p);
/* Adds frames behind those it has, with the ranges that touch them, all numbered as the record
 * numbers them. False: too many ranges; nothing is added. */
bool pieces_add(struct pieces *p, struct piece *piece, const uint8_t *samples, uint32_t frames,
                const struct invalid_range *ranges, uint32_t range_count, int64_t shift);

/* The log ends with `newest`, or is gone (kind 0): what follows waits again; returns how many
 * frames that are. *lost: frames before them that are there no more; the first record declares
 * them. */
uint64_t pieces_go_back(struct pieces *p, const struct record *newest, uint64_t *lost);

/* Frames before `from` of a piece's epoch are not of the log: `from` becomes frame 0 of `epoch`. */
void piece_renumber(struct piece *piece, uint64_t from, uint64_t epoch);

/* How the sender numbers the record's frame `next`. */
void piece_tell_sender(struct piece *piece, const struct term_sender *sender, uint32_t decimate);

/* All that wait or were appended are forgotten; returns how many frames waited. */
uint64_t pieces_clear(struct pieces *p);

#endif
