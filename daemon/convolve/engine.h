/*
 * The engine: everything that computes on one OpenCL device, behind an interface that knows no
 * OpenCL. It owns the device thread, the device's memory, the rings, the plans and the batches in
 * flight.
 *
 *     loop thread                              device thread
 *     engine_batch_take ─ fill ─ engine_submit ──SPSC+eventfd──► launch … complete
 *     engine_completed ◄──────────SPSC + wake()──────────────────┘
 *     engine_batch_release
 *
 * Contract: for one plan the samples of a block are bit-identical whatever J, batch neighbours and
 * timing. What a plan keeps on the device (a delay line of spectra, tails) is a cache: when a block
 * does not directly follow the last one computed, the engine rebuilds the cache from the ring, with
 * the item or, where that would take too long at once, in items of their own before it.
 *
 * check/prepare.h makes the plans that batches name. Each declaration names its thread: LOOP = the
 * one thread that submits; WORKER = any thread but LOOP (may block, allocate, build programs); ANY.
 */
#ifndef CONVOLVD_CONVOLVE_ENGINE_H
#define CONVOLVD_CONVOLVE_ENGINE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "convolve/batch.h"
#include "convolve/plan/spec.h"
#include "convolve/ring.h"
#include "core/error.h"
#include "core/memory_nodes.h"
#include "device/info.h"
#include "device/traits.h"

struct engine;

/* ---- devices ----------------------------------------------------------------------------- */

/* Where drivers that keep what they compile in files (PoCL) keep it: `cache_dir`/pocl. NULL: their
 * own choice, unless that cannot be written. The first call of the process counts, and only before
 * the first call of any function of OpenCL, device_list included. ANY. */
void device_cache(const char *cache_dir);

/* Lists devices: returns how many there are (infos filled up to `capacity`), or ERROR_NO_DEVICE
 * with a sentence that names the package to install. `cpu_threads` > 0 limits PoCL's threads and
 * must be the same at the first OpenCL call of the process. ANY (before the engine opens). */
int device_list(struct device_info *infos, int capacity, int cpu_threads, struct problem *problem);

/* The devices that engine_options.device may mean, as numbers of that list, best first: with "auto"
 * every device, with "gpu" and "cpu" those of the kind. engine_open takes the first. Returns how
 * many there are, at least 1 (filled up to `capacity`); ERROR_NO_DEVICE lists those present. ANY.
 */
int device_candidates(const char *name, int cpu_threads, int *candidates, int capacity,
                      struct problem *problem);

/* The names of the variants in table order; NULL past the end. ANY. */
const char *engine_variant_name(int index);

/* ---- opening and closing ------------------------------------------------------------------ */

/* Batches of an engine, floats of results in each, and bytes of memory for rings, where the options
 * leave them open. */
enum { ENGINE_BATCHES = 6, ENGINE_BATCH_FLOATS = 4 << 20, ENGINE_INPUT_BYTES = 512 << 20 };

struct engine_options {
    const char *device; /* "auto" (best GPU, else CPU), "cpu", "gpu", an index of device_list, a
                           PCI address, or a part of a name */
    int cpu_threads;    /* 0: all cores; for CPU devices */
    const char *kernels_dir; /* NULL: the embedded kernels; files there win by name */
    const char *cache_dir;   /* NULL: no binary cache */
    uint32_t batches;        /* in flight and held by sinks, 2…16; 0: 6 */
    uint32_t depth; /* in the device queue at once; 0: the device's own default, engine_depth */
    uint64_t input_bytes;    /* device memory for rings, 0: 512 MiB; reserved, touched when used */
    uint64_t spectrum_bytes; /* for spectra and twiddles, 0: 512 MiB */
    uint64_t state_bytes;    /* for delay lines, tails and scratch, 0: 512 MiB */
    uint64_t batch_output_floats;     /* results one batch can hold, 0: 4 Mi floats */
    int64_t deadline_ns;              /* least time that a batch is given, see lost.h; 0: 50 ms on a
                                         GPU, 2 s on a CPU, where other processes take turns with the batch */
    bool guards;                      /* guard zones around every piece of device memory (tests) */
    struct node_setting node;         /* where memory and threads belong; zeroed: nowhere */
    const struct number_set *allowed; /* where its threads may run; NULL: where the caller may.
                                         Read by engine_open alone */
    void (*wake)(void *context);      /* DEVICE thread: something was completed; must only signal */
    void *wake_context;
};

/* WORKER. */
int engine_open(const struct engine_options *options, struct engine **out, struct problem *problem);
/* Stops the device thread; every batch must have been released, every plan and ring closed. WORKER.
 * NULL is fine. */
void engine_close(struct engine *engine);
const struct device_info *engine_device(const struct engine *engine);
/* Where its memory and threads belong. ANY. */
const struct node_place *engine_place(const struct engine *engine);

/* Batches that the device's queue holds at once: engine_options.depth or the device's own default,
 * at most `batches`. Submitting more only delays them, unless they are short. ANY. */
uint32_t engine_depth(const struct engine *engine);
/* Whether the device's queue takes another batch: it holds fewer than engine_depth, or, on a GPU
 * whose depth is its own default, up to twice as many that take less together than a completed
 * batch's way to LOOP and the next one's way back. LOOP. */
bool engine_takes_batch(const struct engine *engine);
/* Until when LOOP should poll engine_completed, or its own events, rather than sleep (monotonic): a
 * GPU's only batch in flight should be done before a sleeping thread could be woken. 0: it may
 * sleep. LOOP. */
int64_t engine_poll_until_ns(const struct engine *engine);
/* Batches in flight and held by sinks: engine_options.batches or the engine's default. ANY. */
uint32_t engine_batches(const struct engine *engine);

/* ---- rings -------------------------------------------------------------------------------- */

/* frames_min is rounded up to a power of two. Presence starts all 0. WORKER. */
int engine_ring_open(struct engine *engine, uint64_t frames_min, uint32_t frame_bytes,
                     struct ring **out, struct problem *problem);
void engine_ring_close(struct engine *engine,
                       struct ring *ring); /* WORKER; no batch may read it; NULL is fine */

/*
 * Results of one stream as the input of another on the same device: the frames at `samples`, which
 * lie in a completed batch that is not yet released, go to ring positions [position, position +
 * frames) inside the device, ahead of every batch submitted from now on. Bytes and presence are
 * in the ring's own memory already (for the device that takes over, should this one fail); batches
 * need not count them as fresh any more. [changed_from, position) has become absent, or was told
 * before. False when the samples are not this engine's or too many feeds wait: tell them as fresh.
 * LOOP.
 */
bool engine_ring_feed(struct engine *engine, struct ring *ring, uint64_t changed_from,
                      uint64_t position, const void *samples, uint32_t frames);

/* Ring positions [from, until). */
struct ring_range {
    uint64_t from, until;
};

/*
 * Finds the present frames of [from, until) that the plan takes as zero in this input, because they
 * are no number or beyond its limit (block_report.nonfinite). Frames nearer than `apart` to the
 * range before join it, and so do all others once ranges[capacity] are in use, capacity ≥ 1.
 * Returns how many ranges there are. The slots must hold those frames still. Takes a few
 * nanoseconds a frame. LOOP.
 */
uint32_t engine_nonfinite(const struct plan *plan, const struct ring *ring, uint32_t input,
                          uint64_t from, uint64_t until, uint64_t apart, struct ring_range *ranges,
                          uint32_t capacity);

/* ---- batches ----------------------------------------------------------------------------- */

/* LOOP: none of these allocates, locks or blocks. */
struct batch *engine_batch_take(struct engine *engine); /* NULL: all in use */
int engine_batch_add(struct engine *engine, struct batch *batch,
                     const struct batch_item *item); /* 0 or ERROR_FULL */
/*
 * Batches come back in the order in which they were submitted. One with part_ns > 0 may be
 * submitted only while nothing is in flight; while it is, every batch submitted later overtakes it:
 * the device computes it between two parts, and it may come back first. So no plan and no ring of
 * such a batch may be one of the batch in parts, and it must not have part_ns.
 */
void engine_submit(struct engine *engine, struct batch *batch);

/* Blocks before an item at this place whose spectra or tails the device will not hold by then, so
 * that it computes them again with the item: after blocks left out, by a new plan in the middle of
 * an epoch, on another device. 0: none. LOOP. */
uint32_t engine_missing(const struct batch_item *item);
/* Expected device time of the item with what is missing before it, or, with `blocks` 0, of its
 * `rebuild` blocks [ns]. LOOP. */
int64_t engine_item_cost_ns(const struct batch_item *item);
struct batch *engine_completed(struct engine *engine); /* NULL: nothing; drain until NULL */
void engine_batch_release(struct engine *engine,
                          struct batch *batch); /* also for a batch taken but not submitted */
uint32_t engine_in_flight(const struct engine *engine);

/* Whether the plan is of this engine. ANY. */
bool engine_owns(const struct engine *engine, const struct plan *plan);

/* Whether one batch holds a block of each. ANY. */
bool engine_batch_holds(const struct engine *engine, const struct plan *a, const struct plan *b);

/* Blocks of `plan` that still fit into `batch` by output memory (0…blocks_max). LOOP. */
uint32_t engine_batch_room(const struct engine *engine, const struct batch *batch,
                           const struct plan *plan);

/* ---- tests and figures -------------------------------------------------------------------- */

/* Checks every guard zone (options.guards). Returns 0, or ERROR_DEVICE naming the first one hit.
 * WORKER; idle. */
int engine_check_guards(struct engine *engine, struct problem *problem);

/* Bytes that have crossed to and from a device with memory of its own, and that were copied inside
 * it. All 0 where host and device share their memory. */
struct engine_traffic {
    uint64_t ring_bytes;     /* in: samples of rings */
    uint64_t presence_bytes; /* in: their presence bits */
    uint64_t table_bytes;    /* in: what batches say in the rows of their launches */
    uint64_t result_bytes;   /* out: samples and reports */
    uint64_t fed_bytes;      /* inside: engine_ring_feed */
};

/* ANY. */
void engine_traffic(const struct engine *engine, struct engine_traffic *traffic);

/* Makes what batches of this plan write resident. A first block that waits for pages comes
 * milliseconds late, and at high rates so do the hundreds behind it. WORKER. */
void engine_make_resident(struct engine *engine, const struct plan *plan);

#endif
