/*
 * Direct mode of a sound card: convolves inside the full-duplex callback, on the CPU
 * (convolve/host/host.h), and so adds no frame of latency. The daemon packs the filters into one
 * block of memory. The helper process makes a convolver from it, measures how long a period takes,
 * and refuses filters whose worst case is not below half a period.
 *
 *     daemon: sound_direct_pack ──► memory ──► helper: sound_direct_make ──► callback: process
 *
 * Filters may change while the card runs. The helper makes a second convolver and offers it to the
 * callback. The callback feeds it the input until its history is full, so that its first output is
 * already the convolution of all input, and then cross-fades to it within one period. Until then a
 * period computes both convolvers, each of which takes less than half of it.
 *
 * pack and make allocate and may take long; process does not allocate, lock, log or wait.
 */
#ifndef CONVOLVD_IO_SOUND_DIRECT_H
#define CONVOLVD_IO_SOUND_DIRECT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "convolve/engine.h"
#include "core/error.h"
#include "io/sound/shared.h"

/* Packs the plan's filters, edges, outputs and input scales. full_scale: the value that the device
 * plays as full scale [unit of the outputs]. The caller frees the *bytes of memory at *out. Any
 * thread. Returns 0 or ERROR_MEMORY. */
int sound_direct_pack(const struct plan_spec *plan, double full_scale, void **out, size_t *bytes,
                      struct problem *problem);

struct sound_direct {
    /* The callback's thread. input, output: [frames][device channels] in the request's formats;
     * input NULL: silence. */
    void (*process)(void *context, const void *input, void *output, uint32_t frames);
    void *context;
};

/* Computing time of a period on this machine, of the fastest of several measurements. */
struct sound_direct_times {
    int64_t median_ns, worst_ns, period_ns;
};

/* Makes a convolver from packed memory and measures it; the request must outlive it. Returns 0,
 * ERROR_UNSUPPORTED with the figures when the worst case is not below half the period, ERROR_FORMAT
 * when the memory holds no valid pack, or ERROR_MEMORY. */
int sound_direct_make(const void *packed, size_t bytes, const struct sound_request *request,
                      uint32_t period_frames, struct sound_direct *out,
                      struct sound_direct_times *times, struct problem *problem);
/* Offers the running callback another convolver for the same channels and empties `next`. Only when
 * settled, on the thread that made both. */
void sound_direct_offer(struct sound_direct *direct, struct sound_direct *next);
/* True when no change is in progress. Frees the convolver that the callback has replaced; call it
 * from time to time on the thread that offers. */
bool sound_direct_settled(struct sound_direct *direct);
/* Only when the callback no longer runs. A zeroed structure is fine. */
void sound_direct_free(struct sound_direct *direct);

#endif
