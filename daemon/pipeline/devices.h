/*
 * Devices: the OpenCL devices that the streams of a configuration run on. A placement is one device
 * in use by one loop, with its engine, its scheduler and the doorbell through which its thread
 * wakes the loop. Streams of another loop have an engine of their own on the same device. Each
 * stream gets a placement when it is prepared and keeps it until it is freed.
 *
 * `device` is a list, best first: the first that opens computes, the others stand by for it. With
 * auto the CPU stands by for a GPU. takeover.h moves streams between them when one is lost.
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
#include "convolve/lost.h"
#include "core/error.h"
#include "pipeline/loops.h"
#include "stream/scheduler.h"

/* Devices of the list; engines on them, of all loops; choices of a stream. */
enum { DEVICES_USED_MAX = 16, PLACEMENTS_MAX = 64, CHOICES_MAX = 4 };

struct placement {
    struct devices *devices;
    struct engine *_Atomic engine;   /* WORKER sets it; LOOP, when a lost device is back */
    struct scheduler_bell *doorbell; /* LOOP: devices_connect makes the doorbell … */
    struct scheduler *scheduler;     /* … and the scheduler */
    int index, copy;                 /* in device_list; which of several engines there */
    uint32_t loop;                   /* of loops.h; runs the scheduler and its streams */
    uint32_t number;                 /* among those in use, from 0 */
    double load;                     /* share of the device's time that its streams need; under a
                                        mutex of devices.c */

    _Atomic bool loss_untold; /* the main loop is to hear of the loss */

    /* LOOP: takeover.c */
    bool down;     /* lost, and not back yet */
    bool given_up; /* … and not tried again */
    bool ended;    /* … since its driver works no more in this process */
    uint64_t losses[ENGINE_LOSSES], returns, attempts;
    int64_t lost_ns, retry_ns, backoff_ns;
    char why[160]; /* of the last loss, or of the last attempt that failed */
};

struct devices;

struct devices_options {
    struct loops *loops;
    const char *kernels_dir; /* NULL: embedded */
    /* A device has delivered results to streams of this loop, in whose turn it is called. */
    void (*progress)(void *context, uint32_t loop);
    void *context;
};

/* LOOP. */
int devices_open(const struct devices_options *options, struct devices **out,
                 struct problem *problem);

/*
 * WORKER. Chooses where a stream runs: on the device that its `device` names, else on that of the
 * stream it reads (`upstream`, NULL: none), else where [device] says. Opens the engine if no stream
 * of this loop runs there yet.
 * *load: what the stream adds; hand it to devices_displace when the stream is freed.
 * *plan: the plan made to measure the load, the caller's; NULL: nothing had to be measured.
 */
int devices_place(struct devices *devices, const struct config *config,
                  const struct config_stream *stream, const char *variant, uint32_t loop,
                  struct placement *upstream, struct placement **out, double *load,
                  struct plan **plan, struct problem *problem);
void devices_displace(struct placement *placement, double load); /* WORKER */

/* The devices of a list, a bit for each in the order of device_list; 0: problem says why there is
 * none. ANY, before an engine opens. */
uint32_t devices_listed(const char *list, int cpu_threads, struct problem *problem);

/* WORKER. The devices that may compute a stream placed on `chosen`, best first: opens those of
 * its list that are not in use. One that does not open is in use as a lost one, and tried again.
 * Returns how many, at least 1. */
uint32_t devices_choices(struct devices *devices, const struct config *config,
                         const struct config_stream *stream, struct placement *chosen,
                         struct placement *choices[CHOICES_MAX]);

/* LOOP. `lost` is called once for each loss of a device. */
void devices_on_lost(struct devices *devices,
                     void (*lost)(void *context, struct placement *placement), void *context);
/* WORKER. Opens another engine on the same device; LOOP puts it in place of the lost one. */
int devices_reopen(struct placement *placement, const struct config *config, struct engine **out,
                   struct problem *problem);
void devices_replace(struct placement *placement, struct engine *engine);

/* WORKER. Opens the engine for `[device] device` (every engine with "all"), with or without streams
 * on it, where there is but one loop. */
int devices_prepare(struct devices *devices, const struct config *config, struct problem *problem);

/* LOOP. Makes doorbells and schedulers for the engines that have none yet. */
int devices_connect(struct devices *devices, struct problem *problem);

/* LOOP. Every scheduler looks for work again. */
void devices_kick(struct devices *devices);

/* LOOP. The connected placements in the order of their first use; NULL past the end. */
struct placement *devices_at(const struct devices *devices, uint32_t i);

/* LOOP. "works", "lost", or "given up": lost and not tried again. */
const char *placement_state(const struct placement *placement);

/* LOOP: closes schedulers and doorbells. devices_free closes the engines once the loop has ended.
 * NULL is fine for both. */
void devices_close(struct devices *devices);
void devices_free(struct devices *devices);

#endif
