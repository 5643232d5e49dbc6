/* Results that the device got wrong, see engine_seams.h. */
#include "convolve/engine.h"
#include "tests/support/engine_seams.h"

struct batch *__real_engine_completed(struct engine *engine);
struct batch *__wrap_engine_completed(struct engine *engine);
struct batch *__wrap_engine_completed(struct engine *engine)
{
    struct batch *batch = __real_engine_completed(engine);
    for (uint32_t i = 0; batch != NULL && engine_seams.wrong_float > 0 && i < batch->count; i++)
        batch->items[i].samples[engine_seams.wrong_float - 1] += engine_seams.wrong_by;
    return batch;
}
