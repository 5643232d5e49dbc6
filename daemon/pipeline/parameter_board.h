/*
 * Parameter board: load, pressure or temperature of one stream over time, for an analysis of
 * another stream, which looks values up by the instant of its events.
 *
 *     loop: parameter_board_put ──► the last PARAMETER_BOARD_STEPS samples ──► thread: _find
 *
 * It keeps the channels asked for at frames k · step of each epoch, a step being one millisecond,
 * rounded up to whole frames. The instant of a frame is its capture time less the delay of the
 * filters. Instants rise: a frame that lies up to a second before the last one (a clock that is
 * still being estimated) is left out; at a longer step back all that was kept is forgotten.
 *
 * Neither side waits, locks or allocates; the writer overwrites what is oldest.
 *
 * One writing thread (LOOP), one reading thread (THREAD).
 */
#ifndef CONVOLVD_PIPELINE_PARAMETER_BOARD_H
#define CONVOLVD_PIPELINE_PARAMETER_BOARD_H

#include <stdbool.h>
#include <stdint.h>

#include "core/codec.h"
#include "core/error.h"
#include "stream/result.h"

enum { PARAMETER_BOARD_STEPS = 1 << 17, PARAMETER_BOARD_VALUES = 8 };

struct parameter_sample {
    int64_t instant_ns;
    int64_t error_ns; /* bound of the clock's error; negative: the values are invalid */
    float values[PARAMETER_BOARD_VALUES];
};

struct parameter_board;

/* WORKER. channels[count]: floats of a frame, which outlive it. 0 or ERROR_MEMORY. */
int parameter_board_open(const uint32_t *channels, uint32_t count, struct parameter_board **out);
void parameter_board_close(struct parameter_board *board); /* NULL is fine */
/* ANY. Memory of one [bytes]. */
uint64_t parameter_board_memory(uint32_t count);

/* LOOP. The next result of the stream, as a port takes it. Frames that were shed before it are
 * invalid. */
void parameter_board_put(struct parameter_board *board, const struct result *result);

/* ANY. The instant of the newest frame that came; INT64_MIN: none. */
int64_t parameter_board_until(const struct parameter_board *board);
/* THREAD. The newest sample that is not after this instant; false: none is kept. */
bool parameter_board_find(const struct parameter_board *board, int64_t instant_ns,
                          struct parameter_sample *out);

/* LOOP, while neither side uses it. False: what was read is no such board. */
bool parameter_board_walk(struct parameter_board *board, struct codec *codec);

#endif
