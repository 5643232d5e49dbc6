/* Another instruction set for the host's vectors, see engine_seams.h. */
#include "convolve/host/lanes.h"
#include "tests/support/engine_seams.h"

const struct host_isa *__real_host_isa_find(const char *name);
const struct host_isa *__wrap_host_isa_find(const char *name);
const struct host_isa *__wrap_host_isa_find(const char *name)
{
    return __real_host_isa_find(name != NULL ? name : engine_seams.host_isa);
}
