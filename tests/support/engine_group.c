/* The shared engine of a group of tests; engine_group.h describes it. */
#include "tests/support/engine_group.h"
#include "tests/support/engine_seams.h"

struct engine *engine;

int open_engine(void **state)
{
    (void)state;
    engine = harness_engine();
    return 0;
}

int open_gpu_shape_engine(void **state)
{
    engine_seams.gpu_shape = true;
    return open_engine(state);
}

int open_mirrored_engine(void **state)
{
    engine_seams.mirrored = true;
    return open_gpu_shape_engine(state);
}

int close_engine(void **state)
{
    (void)state;
    harness_engine_close(engine);
    engine = NULL;
    engine_seams.mirrored = engine_seams.gpu_shape = false;
    return 0;
}
