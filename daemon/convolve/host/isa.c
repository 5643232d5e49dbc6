/*
 * Chooses the host convolver's code at run time: the instruction sets that this CPU has, and the
 * vector width that takes the least time for a number of lanes. No state; any thread.
 */
#include "convolve/host/lanes.h"

#include <stddef.h>
#include <string.h>

#include "convolve/host/host.h"

#ifdef __x86_64__
static bool has_avx512(void)
{
    return __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") &&
           __builtin_cpu_supports("avx512dq") && __builtin_cpu_supports("avx512vl") &&
           __builtin_cpu_supports("fma");
}

static bool has_avx2(void)
{
    return __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma");
}
#endif

static bool always(void)
{
    return true;
}

/* Widest first. */
static const struct {
    const struct host_isa *isa;
    bool (*supported)(void);
} isas[] = {
#ifdef __x86_64__
    {&host_avx512, has_avx512},
    {&host_avx2, has_avx2},
#endif
    {&host_base, always},
};

const char *host_isa_name(int index)
{
    for (size_t i = 0; i < sizeof isas / sizeof isas[0]; i++)
        if (isas[i].supported() && index-- == 0)
            return isas[i].isa->name;
    return NULL;
}

const struct host_isa *host_isa_find(const char *name)
{
    for (size_t i = 0; i < sizeof isas / sizeof isas[0]; i++)
        if (isas[i].supported() && (name == NULL || strcmp(name, isas[i].isa->name) == 0))
            return isas[i].isa;
    return NULL;
}

const struct host_functions *host_isa_functions(const struct host_isa *isa, uint32_t lanes)
{
    const struct host_functions *best = isa->functions[0];
    double best_time = 0;
    for (int i = 0; i < HOST_WIDTHS && isa->functions[i] != NULL; i++) {
        const uint32_t width = isa->functions[i]->width;
        const uint32_t vectors = (lanes + width - 1) / width;
        const double time = vectors * host_frame_ns(width);
        if (i == 0 || time < best_time) {
            best = isa->functions[i];
            best_time = time;
        }
    }
    return best;
}
