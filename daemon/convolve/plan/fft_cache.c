/* FFT plans on the device, see fft_cache.h. */
#include "convolve/plan/fft_cache.h"

#include <assert.h>

#include "convolve/plan/fft_plan.h"
#include "device/device.h"

int fft_cache_get(struct fft_cache *cache, struct device *device, uint32_t fft, uint32_t lanes,
                  struct device_fft_plan **out, struct problem *problem)
{
    uint32_t log = 0;
    while ((1u << log) < fft)
        log++;
    struct device_fft_plan *shared = &cache->entries[lanes > 1][log];
    if (shared->users == 0) {
        int error = fft_plan_create(fft, lanes, lanes > 1 ? 4 : 8, &shared->plan, problem);
        if (error < 0)
            return error;
        uint64_t bytes = fft_plan_twiddle_floats(shared->plan) * sizeof(float);
        error = arena_take(&device->spectrum, device->upload, bytes, &shared->offset, problem);
        if (error < 0) {
            fft_plan_free(shared->plan);
            shared->plan = NULL;
            return error;
        }
        fft_plan_twiddles(shared->plan, (float *)(void *)(device->spectrum.host + shared->offset));
        error = arena_upload(&device->spectrum, device->upload, shared->offset, bytes, problem);
        if (error < 0) {
            shared->users = 1;
            fft_cache_put(shared, device);
            return error;
        }
    }
    shared->users++;
    *out = shared;
    return 0;
}

void fft_cache_put(struct device_fft_plan *entry, struct device *device)
{
    if (entry == NULL)
        return;
    assert(entry->users > 0);
    if (--entry->users > 0)
        return;
    arena_give(&device->spectrum, entry->offset);
    fft_plan_free(entry->plan);
    entry->plan = NULL;
}
