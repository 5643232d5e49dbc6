/*
 * What tests change about the engine: the device looks like another one, or a call fails. Each
 * wrapper in seam_*.c takes the place of one function of daemon/ in every unit test (ld --wrap) and
 * does what engine_seams says; while all of it is zero they change nothing. The shipped objects
 * hold none of this.
 *
 * Set before engine_open by one thread, unless said otherwise.
 */
#ifndef CONVOLVD_TESTS_ENGINE_SEAMS_H
#define CONVOLVD_TESTS_ENGINE_SEAMS_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

struct plan_info;
struct wide;

struct engine_seams {
    /* seam_device.c */
    bool gpu_shape;           /* work-groups with barriers, one float a lane, also on a CPU */
    bool mirrored;            /* memory of the device's own, also where it could be shared */
    uint32_t items;           /* work-items of a group in that shape, 0: as on a GPU */
    uint64_t local_bytes;     /* local memory for transforms, 0: the device's */
    uint32_t refused_devices; /* bit i: device i of the list cannot be opened */
    uint32_t refused_launch;  /* the device refuses the n-th launch of a kernel from now on, as one
                                 that has run out; 0: none. May change between batches */
    void (*launching)(const void *kernel); /* called on the device thread before each launch; NULL:
                                              nothing is. May change while nothing is in flight */
    /* seam_copies.c; may change between batches. Number n from now on, 0: none */
    _Atomic uint32_t refused_copy;      /* the device refuses this copy */
    _Atomic uint32_t lost_copy;         /* this copy to the device is accepted and not made */
    _Atomic uint32_t refused_read;      /* the device refuses this copy from it, of those that a
                                           thread waits for */
    _Atomic uint32_t failed_completion; /* this batch fails while it runs */
    /* seam_results.c; may change between batches: added to the first sample of each item in this
     * float of a frame, counted from 1, as if the device had computed it; 0: none */
    uint32_t wrong_float;
    float wrong_by;
    /* seam_wide.c; may change between plans: "fused" computes plans of as many points in this
     * shape, which must suit them; NULL: in those of its table. For windows that groups share:
     * there they are long */
    const struct wide *wide;
    /* seam_host.c */
    const char *host_isa; /* instruction set of the variant "host" (host_isa_name), NULL: the widest
                           */
    /* seam_program.c; asked when a program of these kernels ("a;b") was compiled: the bytes that a
     * work-item spills as the compiler's log shall have it, negative or NULL: the log as it is */
    int32_t (*spilled_bytes)(const char *kernels);
    /* seam_selftest.c; may change between plans */
    const char *wrong_variant; /* the spectra of this variant's plans are wrong: the self-test must
                                  see it */
    /* What plan_time finds, instead of a measurement [ns]; NULL: it measures. */
    int64_t (*time_ns)(const struct plan_info *info, uint32_t blocks);
};

extern struct engine_seams engine_seams;

#endif
