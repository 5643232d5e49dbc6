/* Closing what a stream has left on a device: see leftover.h. */
#include "pipeline/leftover.h"

#include <stdlib.h>

#include "convolve/engine.h"
#include "pipeline/recipe.h"
#include "stream/move.h"

struct leftover {
    uv_work_t work;
    struct plan *plan;
    struct stream_ring *ring;
    struct recipe *recipe;
};

static void close_parts(uv_work_t *work)
{
    struct leftover *leftover = work->data;
    plan_close(leftover->plan);
    stream_ring_free(leftover->ring);
    recipe_drop(leftover->recipe);
}

static void closed(uv_work_t *work, int status)
{
    (void)status; /* nobody cancels it */
    free(work->data);
}

void leftover_close(uv_loop_t *loop, struct plan *plan, struct stream_ring *ring,
                    struct recipe *recipe)
{
    struct leftover *leftover = calloc(1, sizeof *leftover);
    if (leftover == NULL)
        return;
    *leftover = (struct leftover){.plan = plan, .ring = ring, .recipe = recipe};
    leftover->work.data = leftover;
    uv_queue_work(loop, &leftover->work, close_parts, closed);
}
