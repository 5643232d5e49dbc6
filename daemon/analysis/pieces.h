/*
 * A run cut into pieces: consecutive frames that are all live or all dead. Dead are the frames of
 * every invalid range, and those of a run without samples.
 *
 *     for (uint64_t at = run->first_frame; piece_next(run, at, limit, &piece); at = piece.until)
 *
 * Pure functions, any thread.
 */
#ifndef CONVOLVD_ANALYSIS_PIECES_H
#define CONVOLVD_ANALYSIS_PIECES_H

#include <stdbool.h>
#include <stdint.h>

#include "analysis/run.h"

struct piece {
    uint64_t from, until; /* frames, at least one */
    bool live;
    uint32_t causes; /* of a dead one: 1 << enum invalid_cause, each that covers a frame of it */
};

/* The piece that begins at frame `at` of the run and ends at `limit` at the latest. False at the
 * run's end, or when `at` is not before `limit`. */
bool piece_next(const struct analysis_run *run, uint64_t at, uint64_t limit, struct piece *piece);

#endif
