/*
 * Pieces: records on their way to a log, made of results that follow each other, up to `message`
 * bytes each. A ring of them: the newest one still grows, older ones wait to be appended, and those
 * that were appended stay until their room is needed, so that a log that went back can be written
 * again (the spool of a gateway).
 *
 *     oldest … (appended, kept) … unsent … (waiting) … newest (growing)
 *
 * Input that comes in small packets is appended in small records. A spool joins such records once
 * they are appended: each piece but the newest ones is full, so that the ring reaches as far as its
 * bytes say. A log may therefore end inside a kept piece; what follows is then appended from that
 * frame on, and the piece stays whole for a log that goes back further.
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
    struct record_mark *marks; /* [pieces.marks_each] */
    bool whole;                /* grows no more */
};

struct pieces {
    struct piece *all; /* [count] */
    uint8_t *memory;
    struct record_mark *marks; /* [count][marks_each] */
    uint32_t marks_each;
    uint32_t count, piece_bytes, frame_bytes;
    uint64_t oldest, unsent, next; /* numbers: oldest <= unsent <= next */
    uint32_t stored;               /* frames of piece `unsent` that the log has */
    uint64_t joined;               /* pieces before this one are as full as they can be */
    uint64_t frames_unsent;
    bool joins;                             /* a spool: set behind pieces_open */
    struct record_range rest[PIECE_RANGES]; /* of the record that pieces_first has made */
};

/* WORKER. `marks_each`: of inputs near full scale that a piece keeps, as many as one result has;
 * 0: none. 0 or ERROR_MEMORY. */
int pieces_open(struct pieces *p, uint32_t count, uint32_t piece_bytes, uint32_t frame_bytes,
                uint32_t marks_each);
void pieces_close(struct pieces *p);

static inline struct piece *piece_at(struct pieces *p, uint64_t number)
{
    return &p->all[number % p->count];
}

/* Frames for which there is room for sure. */
uint64_t pieces_free(const struct pieces *p);
/* What the frames of all pieces are. */
struct piece_kind {
    bool raw;
    uint32_t channels;
    struct sample_format format;
    double rate_hz;
    bool other_plan; /* the next frame is the first by another plan: it says so once */
};

/* Where a run of frames of a result lies in the log. */
struct piece_target {
    uint64_t epoch, from, first, timeline, input_next, raw_sequence;
    struct term_sender sender;
    uint32_t decimate; /* with `sender`: input frames for one of these */
    bool begins;
};

/* Frames [skip, frames) of a result, with the ranges and marks that touch them; returns how many
 * were taken. */
uint32_t pieces_put(struct pieces *p, struct piece_kind *kind, const struct result *result,
                    uint32_t skip, struct piece_target target);

/* The next record to append, as long as nothing else is done with the pieces; false: none. */
bool pieces_first(struct pieces *p, struct record *record);
/* It was appended. */
void pieces_appended(struct pieces *p);

/* The log ends with `newest`, or is gone (kind 0): what follows waits again; returns how many
 * frames that are. *lost: frames before them that are there no more; the first record declares
 * them. */
uint64_t pieces_go_back(struct pieces *p, const struct record *newest, uint64_t *lost);

/* Somebody else has appended all but the newest: they are kept as if they had been appended here.
 * Returns how many frames do not wait any more. */
uint64_t pieces_keep(struct pieces *p);
/* What waits begins with this piece, and those before it are forgotten. */
void pieces_wait_from(struct pieces *p, uint64_t number);

/* Frames before `from` of a piece's epoch are not of the log: `from` becomes frame 0 of `epoch`. */
void piece_renumber(struct piece *piece, uint64_t from, uint64_t epoch);
/* What the log has of piece `unsent` is taken off it. */
void pieces_cut_stored(struct pieces *p);
/* Frames before `from` are taken off a piece; at least one is left. */
void piece_cut(const struct pieces *p, struct piece *piece, uint64_t from);
/* A piece accounts for the frames from `from` on; those that nobody has are a gap. */
void piece_declare(struct piece *piece, uint64_t from, enum invalid_cause cause);

/* All that wait or were appended are forgotten; returns how many frames waited. */
uint64_t pieces_clear(struct pieces *p);

#endif
