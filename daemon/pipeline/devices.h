/*
 * Devices: the OpenCL devices that the streams of a configuration run on. A placement is one device
 * in use, with its engine, its scheduler and the doorbell through which its thread wakes the loop.
 * Each stream gets a placement when it is prepared and keeps it until it is freed.
 *
 * With `device = all` a new stream goes to the device whose load, measured, is lowest with it. A
 * stream that reads another one runs on the same device, so that samples never cross a bus between
 * the two.
 *
 *     devices_open ─► devices_place … ─► devices_connect ─► (reload: devices_place,
 * devices_connect) ─► devices_close ─► the loop ends ─► devices_free
 *
 * Each declaration names its thread: LOOP, or WORKER (one at a time).
 */
#ifndef CONVOLVD_PIPELINE_DEVICES_H
#define CONVOLVD_PIPELINE_DEVICES_H

#include <uv.h>

#include "config/config.h"
#include "convolve/engine.h"
#include "core/error.h"
#include "stream/scheduler.h"

enum { DEVICES_USED_MAX = 16 };

struct placement {
    struct engine *engine;           /* WORKER sets it, immutable from then on */
    struct scheduler_bell *doorbell; /* LOOP: devices_connect makes the doorbell … */
    struct scheduler *scheduler;     /* … and the scheduler */
    int index;                       /* in device_list */
    double load;                     /* WORKER: share of the device's time that its streams need */
};

struct devices;

/* LOOP. Devices calls `progress` after any device has delivered results. */
int devices_open(uv_loop_t *loop, void (*progress)(void *context), void *context,
                 const char *kernels_dir, struct devices **out, struct problem *problem);

/*
 * WORKER. Chooses where a stream runs: on the device that its `device` names, else on that of the
 * stream it reads (`upstream`, NULL: none), else where [device] says. Opens the engine if no stream
 * runs there yet.
 * *load: what the stream adds; hand it to devices_displace when the stream is freed.
 * *plan: the plan made to measure the load, the caller's; NULL: nothing had to be measured.
 */
int devices_place(struct devices *devices, const struct config *config,
                  const struct config_stream *stream, const char *variant,
                  struct placement *upstream, struct placement **out, double *load,
                  struct plan **plan, struct problem *problem);
void devices_displace(struct placement *placement, double load); /* WORKER */

/* WORKER. Opens the engine for `[device] device` (every engine with "all"), with or without streams
 * on it. */
int devices_prepare(struct devices *devices, const struct config *config, struct problem *problem);

/* LOOP. Makes doorbells and schedulers for the engines that have none yet. */
int devices_connect(struct devices *devices, struct problem *problem);

/* LOOP. Every scheduler looks for work again. */
void devices_kick(struct devices *devices);

/* LOOP. The connected placements in the order of their first use; NULL past the end. */
const struct placement *devices_at(const struct devices *devices, uint32_t i);

/* LOOP: closes schedulers and doorbells. devices_free closes the engines once the loop has ended.
 * NULL is fine for both. */
void devices_close(struct devices *devices);
void devices_free(struct devices *devices);

#endif
