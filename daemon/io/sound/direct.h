/*
 * Direct mode of a sound card: the convolution runs inside the full-duplex callback, on the host
 * (convolve/host/host.h), and adds no frame. The daemon packs the filters into one piece of memory;
 * the helper process makes the convolver of it, measures it for the period that the device has, and
 * refuses what could take longer than half of one.
 *
 *     daemon: sound_direct_pack ──► memory ──► helper: sound_direct_make ──► callback: process
 *
 * Pack and make allocate and take their time; process does not allocate, lock, log or wait.
 *
 * Filters change while it runs: another convolver, made of a pack with the same channels, is
 * offered. The callback lets it hear the input until its history is full, so that its first frame
 * is already the convolution of all input, and cross-fades to it within one period. Meanwhile a
 * period costs both, each less than half of it.
 */
#ifndef CONVOLVD_IO_SOUND_DIRECT_H
#define CONVOLVD_IO_SOUND_DIRECT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "convolve/engine.h"
#include "core/error.h"
#include "io/sound/shared.h"

/* Filters, edges, outputs and input scales are the plan's; what is played is divided by full_scale.
 * *bytes of memory at *out, to be freed. 0 or ERROR_MEMORY. */
int sound_direct_pack(const struct plan_spec *plan, double full_scale, void **out, size_t *bytes,
                      struct problem *problem);

struct sound_direct {
    /* input and output as the device has them: [frames][device channels] in the request's formats.
     */
    void (*process)(void *context, const void *input, void *output, uint32_t frames);
    void *context; /* lives as long as the process */
};

/* What a period took where it will run, of the quietest of several measurements. */
struct sound_direct_times {
    int64_t median_ns, worst_ns, period_ns;
};

/* ERROR_UNSUPPORTED, with the figures, when the worst case is not below half the period. The
 * request must outlive it. */
int sound_direct_make(const void *packed, size_t bytes, const struct sound_request *request,
                      uint32_t period_frames, struct sound_direct *out,
                      struct sound_direct_times *times, struct problem *problem);
/* The thread that made both, while the callback runs: the callback goes over to `next`, which is
 * emptied. Only when settled. */
void sound_direct_offer(struct sound_direct *direct, struct sound_direct *next);
/* The same thread, now and then: frees what the callback has left. True: no change is under way. */
bool sound_direct_settled(struct sound_direct *direct);
/* The callback runs no more. */
void sound_direct_free(struct sound_direct *direct); /* a zeroed one is fine */

#endif
