/*
 * Handles for the tests: the engine behaves as on another device, or wrongly on purpose.
 * All zero in the daemon; set before engine_open by one thread.
 */
#ifndef CONVOLVD_CONVOLVE_HOOKS_H
#define CONVOLVD_CONVOLVE_HOOKS_H

#include <stdbool.h>
#include <stdint.h>

struct engine_hooks {
    bool gpu_shape;            /* work-groups with barriers, one float a lane, also on a CPU */
    bool twin;                 /* memory of the device's own, also where it could be shared */
    uint32_t items;            /* work-items of a group in that shape, 0: as on a GPU */
    uint64_t local_bytes;      /* local memory for transforms, 0: the device's */
    const char *host_isa;      /* instruction set of the variant "host" (host_isa_name), NULL: the
                                  widest */
    bool resident;             /* benches: samples and results stay on a device that has memory of
                                  its own; may change between batches */
    uint32_t refused_launch;   /* the n-th launch of a kernel from now on is refused, as by a device
                                  that has run out; 0: none. May change between batches */
    const char *wrong_variant; /* the spectra of this variant's plans are wrong: the self-test must
                                  see it */
    /* What plan_time finds, instead of a measurement [ns]; NULL: it measures. */
    int64_t (*time_ns)(const char *variant, uint32_t fft, uint32_t hop, uint32_t blocks);
};

extern struct engine_hooks engine_hooks;

#endif
