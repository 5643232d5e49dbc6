/*
 * A preparation: plans and rings for some streams on one device, made by a job (job.h), with the
 * engine first if the device is to be opened again. It touches no pipeline, only recipes, so it can
 * be left behind when a call of the driver does not return.
 *
 * The loop's, except the thread inside.
 */
#ifndef CONVOLVD_PIPELINE_PREPARATION_H
#define CONVOLVD_PIPELINE_PREPARATION_H

#include <stdbool.h>
#include <stdint.h>

#include "config/config.h"
#include "pipeline/closing.h"
#include "pipeline/devices.h"
#include "pipeline/job.h"
#include "pipeline/pipeline.h"
#include "pipeline/recipe.h"
#include "stream/move.h"

struct prepared {
    struct recipe *recipe; /* held */
    struct ring_like like;
    struct plan *plan; /* with `ring`, unless error < 0 */
    struct stream_ring *ring;
    int error;
    struct problem problem;
};

struct preparation {
    struct job job;
    struct placement *placement;
    const struct config *config; /* of [device] */
    struct engine *engine;       /* NULL at the start: it is to be opened */
    bool opens;
    int64_t begun_ns;
    struct prepared *prepared; /* [count] */
    uint32_t count, capacity;
    int error; /* the engine did not open */
    struct problem problem;
    struct closing closing;
};

/* `engine` NULL: opens the device again. NULL: out of memory. */
struct preparation *preparation_new(struct placement *placement, struct engine *engine,
                                    const struct config *config);
/* What the plan in use of this pipeline needs there. */
void preparation_add(struct preparation *preparation, const struct pipeline *pipeline);
/* Begins; `done` is called by the thread when it is through. On error the preparation is freed. */
int preparation_start(struct preparation *preparation, void (*done)(void *context), void *context);
/* Why nothing can be used of it: the first error. */
const char *preparation_why(const struct preparation *preparation);

/* Closes, on a thread of the device, what has not been taken out of it. */
void preparation_close_later(struct preparation *preparation);

#endif
