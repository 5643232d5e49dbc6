/*
 * Devices: the OpenCL devices that a configuration's streams compute on. Each has its engine, its
 * doorbell and its scheduler; a stream has a seat on one of them for its whole life. With
 * `device = all` a new stream gets the seat on which the load is least with it, measured; a stream
 * that reads another sits beside it, so that nothing has to cross a bus between the two.
 *
 *     devices_open ─► devices_seat … ─► devices_connect ─► (reload: devices_seat, devices_connect)
 * ─► devices_close ─► the loop ends ─► devices_free
 *
 * Thread rules stand at each declaration: LOOP, or WORKER (one at a time).
 */
#ifndef CONVOLVD_PIPELINE_DEVICES_H
#define CONVOLVD_PIPELINE_DEVICES_H

#include <uv.h>

#include "convolve/engine.h"
#include "core/error.h"
#include "config/config.h"
#include "stream/scheduler.h"

enum { DEVICES_SEATED_MAX = 16 };

struct seat {
    struct engine *engine;       /* WORKER sets it, immutable from then on */
    struct doorbell *doorbell;   /* LOOP, by devices_connect … */
    struct scheduler *scheduler; /* … both */
    int index;                   /* in device_list */
    double load;                 /* WORKER: share of the device's time that its streams need */
};

struct devices;

/* LOOP. `progress` is called after results were delivered on any device. */
int devices_open(uv_loop_t *loop, void (*progress)(void *context), void *context,
                 const char *kernels_dir, struct devices **out, struct problem *problem);

/*
 * WORKER. The seat for a stream: the one its `device` names, else that of the stream it reads
 * (`upstream`, NULL: none), else what [device] says. Opens the engine when it is the first there.
 * *load: what the stream adds, to be given back to devices_leave. *plan: the one by which that was
 * measured, the caller's; NULL: nothing had to be measured.
 */
int devices_seat(struct devices *devices, const struct config *config,
                 const struct config_stream *stream, const char *variant, struct seat *upstream,
                 struct seat **out, double *load, struct plan **plan, struct problem *problem);
void devices_leave(struct seat *seat, double load); /* WORKER */

/* WORKER. Engines for `[device] device` (all of them with "all"), whether or not a stream sits
 * there. */
int devices_prepare(struct devices *devices, const struct config *config, struct problem *problem);

/* LOOP. Doorbells and schedulers for the engines that have none yet. */
int devices_connect(struct devices *devices, struct problem *problem);

/* LOOP. Every scheduler looks for work again. */
void devices_kick(struct devices *devices);

/* LOOP. Those that are connected, in the order of their first use; NULL past the end. */
const struct seat *devices_at(const struct devices *devices, uint32_t i);

/* LOOP: closes schedulers and doorbells; NULL is fine. Then, when the loop has ended: the engines.
 */
void devices_close(struct devices *devices);
void devices_free(struct devices *devices);

#endif
