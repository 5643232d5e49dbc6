/*
 * The FFT plans whose twiddles lie on the device. Plans of one N and one order of points share an
 * entry.
 *
 * Worker threads, one at a time; the device thread reads entries that plans hold.
 */
#ifndef CONVOLVD_CONVOLVE_PLAN_FFT_CACHE_H
#define CONVOLVD_CONVOLVE_PLAN_FFT_CACHE_H

#include <stdint.h>

#include "core/error.h"

struct device;
struct fft_plan;

struct device_fft_plan {
    struct fft_plan *plan;
    uint64_t offset; /* bytes of SPECTRUM: the twiddles */
    uint32_t users;
};

struct fft_cache {
    struct device_fft_plan entries[2][32]; /* without and with root lanes; by log2 N */
};

/* `lanes`: root lanes, 1 or 16. 0, ERROR_MEMORY, or what the device answers. */
int fft_cache_get(struct fft_cache *cache, struct device *device, uint32_t fft, uint32_t lanes,
                  struct device_fft_plan **out, struct problem *problem);
void fft_cache_put(struct device_fft_plan *entry, struct device *device); /* NULL is fine */

#endif
