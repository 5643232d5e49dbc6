/* Plans whose spectra are wrong, and times that nobody measured, see engine_seams.h. */
#include <string.h>

#include "convolve/check/selftest.h"
#include "convolve/plan/plan.h"
#include "convolve/plan/planner.h"
#include "device/device.h"
#include "tests/support/engine_seams.h"

static void spoil_spectra(const struct plan *plan)
{
    struct device *device = plan->planner->device;
    float *spectra = (float *)(void *)(device->spectrum.host + plan->spectra_offset);
    struct problem problem;
    for (uint32_t i = 0; i < plan->layout.fft; i++)
        spectra[i] *= 1.01f;
    arena_upload(&device->spectrum, device->upload, plan->spectra_offset,
                 plan->layout.fft * sizeof *spectra, &problem);
}

int __real_plan_self_test(struct engine *engine, struct plan *plan, const struct plan_spec *spec,
                          struct problem *problem);
int __wrap_plan_self_test(struct engine *engine, struct plan *plan, const struct plan_spec *spec,
                          struct problem *problem);
int __wrap_plan_self_test(struct engine *engine, struct plan *plan, const struct plan_spec *spec,
                          struct problem *problem)
{
    const char *wrong = engine_seams.wrong_variant;
    if (wrong != NULL && strcmp(wrong, plan->info.variant) == 0)
        spoil_spectra(plan);
    return __real_plan_self_test(engine, plan, spec, problem);
}

int __real_plan_time(struct engine *engine, struct plan *plan, const struct plan_spec *spec,
                     uint32_t blocks, uint32_t runs, int64_t *ns, struct problem *problem);
int __wrap_plan_time(struct engine *engine, struct plan *plan, const struct plan_spec *spec,
                     uint32_t blocks, uint32_t runs, int64_t *ns, struct problem *problem);
int __wrap_plan_time(struct engine *engine, struct plan *plan, const struct plan_spec *spec,
                     uint32_t blocks, uint32_t runs, int64_t *ns, struct problem *problem)
{
    if (engine_seams.time_ns == NULL)
        return __real_plan_time(engine, plan, spec, blocks, runs, ns, problem);
    const uint32_t fit = plan_blocks_fit(plan);
    for (uint32_t i = 0; i < runs; i++)
        ns[i] = engine_seams.time_ns(&plan->info, blocks < fit ? blocks : fit);
    return 0;
}
