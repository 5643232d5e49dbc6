/*
 * Takeover: what happens when a device is lost (convolve/lost.h). Its streams go on on the next
 * device of their list, from the frames that their rings still hold; the lost device is opened
 * again in the background, tested, and gets its streams back.
 *
 *     running ──lost──► halted ──standby there──► runs on the next device ──rebuilt──► back
 *                         └──────────────none of them: waits, frames are flagged──────┘
 *
 * A stream stands by on the next device of its list with a plan, tested there, and a ring. A thread
 * of takeover's own prepares both, since a driver's call may never return: a thread that is not
 * back after a minute is left behind. An engine that was lost is left behind as well
 * (engine_abandon). One whose batches come back after all, late, failed or wrong, is closed
 * (engines_reclaim), and so is what a late thread has prepared. While three are left, no lost
 * device is tried again: their drivers hang, and a process that starts anew can do better. A stream
 * whose devices are all given up keeps the watchdog's pings back.
 *
 * Loop thread.
 */
#ifndef CONVOLVD_PIPELINE_TAKEOVER_H
#define CONVOLVD_PIPELINE_TAKEOVER_H

#include <uv.h>

#include "pipeline/devices.h"
#include "pipeline/pipelines.h"

enum { ABANDONED_MAX = 3 };

struct takeover;

/* Before devices_connect. `config` has the [device] of the process and outlives it, as the others
 * do. 0 or ERROR_MEMORY. */
int takeover_open(uv_loop_t *loop, const struct config *config, struct devices *devices,
                  struct pipelines *pipelines, struct takeover **out);
/* The pipelines are connected: prepares what stands by, from now on. */
void takeover_start(struct takeover *takeover);
/* Results were delivered on this loop, in whose turn it is called. */
void takeover_progress(struct takeover *takeover, uint32_t loop);
/* Closes its handles; a thread that is still at work is left behind. NULL is fine. */
void takeover_close(struct takeover *takeover);

/* The device that the stream goes on on if its own is lost; NULL: none. */
const struct placement *takeover_standby(const struct pipeline *pipeline);

/* A job was left behind in a call of this engine's driver. When all its streams have another device
 * that stands by, the device is lost; else it goes on computing them, and makes no new plans. */
void takeover_note_hung(struct takeover *takeover, struct engine *engine);

/* Whether a thread or an engine was left behind, so that the process can end only by _exit. ANY. */
bool takeover_left_behind(void);
/* The loop has ended: devices_free, unless a thread was still at work at takeover_close. */
void takeover_free_devices(struct devices *devices);
/* How many are left behind now. */
uint32_t takeover_abandoned(void);

#endif
