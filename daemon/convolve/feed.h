/*
 * Feeds: results of one stream become the input of another without leaving the device. LOOP says
 * which frames of a completed batch go where; the device thread copies them from OUTPUT to INPUT
 * before it launches the next batch.
 *
 *     LOOP           feed ── release of the batch ── submission of whoever reads or reuses it
 *     device thread             feeds_launch ──► launch     (in order, launch.c)
 *
 * A feed comes before its batch's release, and so before the slot is submitted again. Every launch
 * enqueues all feeds that wait first, so a copy always reads what its batch left, and no batch need
 * be held back. Presence bits follow when a batch first reads them (mirror.h).
 *
 * Nothing here allocates, locks or blocks.
 */
#ifndef CONVOLVD_CONVOLVE_FEED_H
#define CONVOLVD_CONVOLVE_FEED_H

#include <stdbool.h>
#include <stdint.h>

#include "convolve/ring.h"
#include "core/spsc.h"
#include "device/opencl.h"

struct device;
struct ring_memory;
struct traffic;

enum { FEEDS_MAX = 512 };

/* One copy from OUTPUT into a ring. */
struct feed {
    struct ring_memory *ring;
    uint64_t changed_from, position;
    uint64_t source_offset; /* bytes of OUTPUT */
    uint32_t frames;
};

struct feeds {
    struct device *device;
    struct traffic *traffic;
    struct spsc waiting;              /* LOOP → device thread */
    struct feed feeds[2 * FEEDS_MAX]; /* twice what waits: one may be read while it is full */
    uint32_t next;                    /* LOOP */
};

/* LOOP: see engine_ring_feed. */
bool feeds_add(struct feeds *feeds, struct ring *ring, uint64_t changed_from, uint64_t position,
               const void *samples, uint32_t frames);

/* Device thread: enqueues all copies that wait on compute[0], and sets *any if there were some;
 * CL_SUCCESS or the driver's answer. */
cl_int feeds_launch(struct feeds *feeds, bool *any);
/* Forgets them. The threads of the engine have ended. */
void feeds_drop(struct feeds *feeds);

#endif
