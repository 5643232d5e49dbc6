/* Closing what a stream has left on a device: see leftover.h. */
#include "pipeline/leftover.h"

#include <stdlib.h>

#include "convolve/engine.h"
#include "pipeline/closing.h"
#include "pipeline/recipe.h"
#include "stream/move.h"

struct leftover {
    struct closing closing;
    struct plan *plan;
    struct stream_ring *ring;
    struct recipe *recipe;
};

static void close_parts(struct closing *closing)
{
    struct leftover *leftover = (struct leftover *)closing;
    plan_close(leftover->plan);
    stream_ring_free(leftover->ring);
    recipe_drop(leftover->recipe);
    free(leftover);
}

void leftover_close(const struct engine *engine, struct plan *plan, struct stream_ring *ring,
                    struct recipe *recipe)
{
    struct leftover *leftover = calloc(1, sizeof *leftover);
    if (leftover == NULL)
        return;
    *leftover = (struct leftover){
        .closing.close = close_parts, .plan = plan, .ring = ring, .recipe = recipe};
    closing_begin(engine, &leftover->closing);
}
