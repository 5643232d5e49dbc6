/*
 * The engine: everything that computes on one OpenCL device, behind an interface that knows
 * no OpenCL. It owns the device thread (which makes every OpenCL call), the device memory,
 * the rings' memory, the prepared plans and the batches in flight.
 *
 *     loop thread                              device thread
 *     engine_batch_take ─ fill ─ engine_submit ──SPSC+eventfd──► launch … complete
 *     engine_completed ◄──────────SPSC + wake()──────────────────┘
 *     engine_batch_release
 *
 * Contract: for one plan the samples of a block are bit-identical whatever J, batch
 * neighbours and timing. What a plan keeps on the device (delay line of spectra, tails) is a
 * cache: a block that does not directly follow the last one computed makes the engine
 * rebuild it from the ring.
 *
 * Thread rules stand at each declaration: LOOP = the one thread that submits; WORKER = any
 * thread but LOOP (may block, allocate, build programs); ANY.
 */
#ifndef CONVOLVD_CONVOLVE_ENGINE_H
#define CONVOLVD_CONVOLVE_ENGINE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "core/error.h"
#include "device/info.h"
#include "wire/format.h"
#include "filter/taps.h"

struct engine;
struct plan;

/* ---- devices ----------------------------------------------------------------------------- */

/* Lists devices: returns how many there are (infos filled up to `capacity`), or ERROR_NO_DEVICE
 * with a sentence that names the package to install. `cpu_threads` > 0 limits PoCL's threads and
 * must be the same at the first OpenCL call of the process. ANY (before the engine opens). */
int device_list(struct device_info *infos, int capacity, int cpu_threads, struct problem *problem);

/* The number in that list of the device that engine_options.device would mean; ERROR_NO_DEVICE
 * lists those present. ANY. */
int device_index(const char *name, int cpu_threads, struct problem *problem);

struct engine_options {
    const char *device; /* "auto" (best GPU, else CPU), "cpu", "gpu", an index of device_list, or a
                           part of a name */
    int cpu_threads;    /* 0: all cores; for CPU devices */
    const char *kernels_dir; /* NULL: the embedded kernels; files there win by name */
    const char *cache_dir;   /* NULL: no binary cache */
    uint32_t batches;        /* in flight and held by sinks, 2…16; 0: 6 */
    uint32_t depth;          /* submitted to the device queue at once; 0: 2 on a CPU, 4 on a GPU */
    uint64_t input_bytes;    /* device memory for rings, 0: 512 MiB; reserved, touched when used */
    uint64_t spectrum_bytes; /* for spectra and twiddles, 0: 512 MiB */
    uint64_t state_bytes;    /* for delay lines, tails and scratch, 0: 512 MiB */
    uint64_t batch_output_floats; /* results one batch can hold, 0: 4 Mi floats */
    bool guards;                  /* guard zones around every piece of device memory (tests) */
    void (*wake)(void *context);  /* DEVICE thread: something was completed; must only signal */
    void *wake_context;
};

/* WORKER. */
int engine_open(const struct engine_options *options, struct engine **out, struct problem *problem);
/* Stops the device thread; every batch must have been released, every plan and ring closed. WORKER.
 * NULL is fine. */
void engine_close(struct engine *engine);
const struct device_info *engine_device(const struct engine *engine);

/* ---- rings ------------------------------------------------------------------------------- */

/*
 * A ring of `frames` (a power of two) frames of wire bytes, and one presence bit a frame.
 * Ring position p (64 bits, never wraps in practice) lies at slot p mod frames. A frame whose bit
 * is 0 counts as exactly zero in every channel, whatever its bytes say: gaps, the silence before an
 * epoch and after it need no fill. Bytes and bits are written by LOOP only, and only in slots that
 * no submitted batch reads.
 */
struct ring {
    uint8_t *bytes;    /* frames · frame_bytes */
    uint32_t *present; /* frames / 32 words, bit (p mod frames) % 32 of word (p mod frames) / 32 */
    uint32_t frames;   /* power of two, at least 64 */
    uint32_t frame_bytes;
};

/* frames_min is rounded up to a power of two. Presence starts all 0. WORKER. */
int engine_ring_open(struct engine *engine, uint64_t frames_min, uint32_t frame_bytes,
                     struct ring **out, struct problem *problem);
void engine_ring_close(struct engine *engine,
                       struct ring *ring); /* WORKER; no batch may read it; NULL is fine */

/*
 * Results of one stream as the input of another on the same device: the frames at `samples`, which
 * lie in a completed batch that is not yet released, go to ring positions [position, position +
 * frames) inside the device, ahead of every batch submitted from now on. Bytes and presence are
 * in the ring's own memory already (for other devices, and for this one after a reset); batches
 * need not count them as fresh any more. [changed_from, position) has become absent, or was told
 * before. False when the samples are not this engine's or too many feeds wait: tell them as fresh.
 * LOOP.
 */
bool engine_ring_feed(struct engine *engine, struct ring *ring, uint64_t changed_from,
                      uint64_t position, const void *samples, uint32_t frames);

/* ---- plans ------------------------------------------------------------------------------- */

enum output_form {
    OUTPUT_REAL,     /* one float a frame: the real part */
    OUTPUT_COMPLEX,  /* two floats a frame: re, im */
    OUTPUT_ENVELOPE, /* one float a frame: magnitude, taken after all sums */
};

/* input channel → taps → gain → output. A plan's edges may repeat inputs (bank) and outputs
 * (matrix). */
struct edge {
    uint16_t input;  /* < inputs */
    uint16_t output; /* < outputs */
    uint16_t taps;   /* < taps_count */
    float gain;
};

struct plan_spec {
    uint32_t inputs; /* channels of the ring's frame, 1…1024 */
    struct sample_format format;
    const struct channel_scale *scales; /* [inputs] */
    const struct taps *const *taps;     /* [taps_count], any lengths; copied as spectra, not kept */
    uint32_t taps_count;
    const struct edge *edges; /* [edge_count] */
    uint32_t edge_count;
    const enum output_form *outputs; /* [outputs_count]: floats of an output frame, in this order */
    uint32_t outputs_count;
    struct result_format results; /* a wish: plan_info says what came of it */
    uint32_t hop;                 /* L, frames of a block, 1…2^19 */
    uint32_t
        decimate; /* D, 1…65535; 0: 1. Of an epoch's frames only n ≡ phase (mod D) are kept … */
    uint32_t decimate_phase; /* … 0…D-1: computed and written, see batch_item.samples */
    uint32_t blocks_max;     /* largest J an item will ask for, 1…4096 */
    uint32_t fft;            /* N (real points, power of two, 64…2^21); 0: chosen by rule */
    const char *variant;     /* NULL: by wisdom, else by rule; else its name */
    uint32_t items;          /* work-items of a group, a power of two; 0: the variant's own */
    uint32_t vector;    /* "lanes": lanes of a vector, 16, 8 or 4; 0: as wide as the device's own */
    double rate_hz;     /* frames a second, 0: unknown. For choosing only: */
    int64_t latency_ns; /* most time from a block's first frame to its result; 0: any */
    bool hop_free;      /* `hop` is a suggestion: wisdom may replace it */
};

/* How a plan came to be. */
enum plan_choice {
    PLAN_BY_RULE,   /* the first of the table that can */
    PLAN_BY_NAME,   /* variant or N were asked for */
    PLAN_BY_WISDOM, /* measured before, see tune.h */
};

/*
 * Prepares a plan whole: spectra in double, programs, device memory, a warm-up launch of every
 * kernel and local size, and the self-test (a fixed noise block against the double reference;
 * a variant that misses the bound is refused with a log line and the next one is tried). WORKER;
 * safe while LOOP submits other plans.
 */
int plan_prepare(struct engine *engine, const struct plan_spec *spec, struct plan **out,
                 struct problem *problem);
void plan_close(struct plan *plan); /* WORKER; no batch may use it; NULL is fine */

struct plan_info {
    const char *variant;
    uint32_t hop, fft, partitions;
    uint32_t vector; /* lanes of a vector where the variant has a choice; 0: it has none */
    uint32_t decimate, decimate_phase; /* as asked for, at least 1 */
    uint32_t taps_longest;             /* S: the longest of the edges' taps */
    uint32_t history_frames; /* frames before a block that its result needs: the ring must hold them
                                (≥ S-1) */
    uint32_t inputs, outputs, output_floats; /* floats of an output frame */
    /* As asked for, to the bit what sample_encode_block makes of the floats; or all zero: the
     * variant, or a device without double, leaves the encoding to whoever wants it. */
    struct result_format results;
    uint32_t sample_bytes; /* of a sample of an output frame: 4, or as `results` say */
    enum plan_choice choice;
    double self_test_error; /* ||e||2 / bound's reference, from the self-test */
};
/* ANY. */
const struct plan_info *plan_info(const struct plan *plan);

/* Expected device time of an item of `blocks` blocks [ns], learnt from the self-test and smoothed
 * over completed batches. ANY, lock-free. */
int64_t plan_cost_ns(const struct plan *plan, uint32_t blocks);

/* ---- batches ----------------------------------------------------------------------------- */

/* What the first pass saw in the new frames of one block of one input channel (present frames
 * only). */
struct block_report {
    float sum, sum_squares, peak; /* physical values; peak = max |value| */
    uint32_t overload;  /* samples at either full-scale code (float: |normalised| ≥ 1) */
    uint32_t nonfinite; /* samples that were NaN or infinite, taken as 0 */
    uint32_t nonfinite_first, nonfinite_last; /* frame within the block; valid when nonfinite > 0 */
    uint32_t present;                         /* frames of the block that are present */
};

enum { BATCH_ITEMS_MAX = 64 };

/* J consecutive blocks of one stream. The caller sets the first group, batch_add the second. */
struct batch_item {
    struct plan *plan;
    struct ring *ring;
    void *owner;       /* the caller's */
    uint64_t position; /* ring position of the first new frame of the first block */
    uint64_t
        epoch_block; /* number of the first block within its epoch: blocks before 0 are silence */
    uint32_t blocks; /* J, 1…blocks_max */
    uint32_t write_from, write_until; /* frames t of the item (0…J·L) to write, kept ones; others
                                         keep what the memory held */
    uint64_t fresh_from,
        fresh_until;     /* ring positions whose bytes or presence changed since last submitted */
    bool absent;         /* some frame within reach may have its presence bit 0 */
    bool share_previous; /* writes into the previous item's samples: a change of plan inside one
                            block */

    /* [kept frames][output_floats], valid after completion until the batch is released: the frames
     * epoch_block·L + t ≡ phase (mod D) with t = 0…J·L-1, in order; with D = 1 all J·L. */
    float *samples; /* in the format of plan_info.results: the same place, bytes without a gap */
    struct block_report *reports; /* [J][inputs] */
    /* [J][outputs]: samples between write_from and write_until that an integer format has clipped,
     * or that were no number; NULL: the plan's results are native. */
    const uint32_t *saturated;
};

enum batch_status { BATCH_OK = 0, BATCH_FAILED = -1 };

struct batch {
    uint32_t count;
    struct batch_item items[BATCH_ITEMS_MAX];
    int status;           /* enum batch_status; failed: samples are not valid */
    int64_t submitted_ns; /* monotonic: engine_submit called */
    int64_t started_ns;   /* handed to the device */
    int64_t completed_ns; /* the device said complete */
};

/* LOOP: none of these allocates, locks or blocks. */
struct batch *engine_batch_take(struct engine *engine); /* NULL: all in use */
int engine_batch_add(struct engine *engine, struct batch *batch,
                     const struct batch_item *item); /* 0 or ERROR_FULL */
void engine_submit(struct engine *engine, struct batch *batch);
struct batch *engine_completed(struct engine *engine); /* NULL: nothing; drain until NULL */
void engine_batch_release(struct engine *engine,
                          struct batch *batch); /* also for a batch taken but not submitted */
uint32_t engine_in_flight(const struct engine *engine);

/* Whether one batch holds a block of each. ANY. */
bool engine_batch_holds(const struct engine *engine, const struct plan *a, const struct plan *b);

/* Blocks of `plan` that still fit into `batch` by output memory (0…blocks_max). LOOP. */
uint32_t engine_batch_room(const struct engine *engine, const struct batch *batch,
                           const struct plan *plan);

/* ---- faults and tests -------------------------------------------------------------------- */

/* Destroys and rebuilds context, queues, programs and buffers between batches; spectra are uploaded
 * again from their host copies, delay lines are rebuilt from the rings. Nothing may be in flight.
 * WORKER. */
int engine_reset(struct engine *engine, struct problem *problem);

/* Checks every guard zone (options.guards). Returns 0, or ERROR_DEVICE naming the first one hit.
 * WORKER; idle. */
int engine_check_guards(struct engine *engine, struct problem *problem);

/* Bytes that have crossed to and from a device with memory of its own, and that were copied inside
 * it. All 0 where host and device share their memory. */
struct engine_traffic {
    uint64_t ring_bytes;     /* in: samples of rings */
    uint64_t presence_bytes; /* in: their presence bits */
    uint64_t table_bytes;    /* in: rows of launches */
    uint64_t result_bytes;   /* out: samples and reports */
    uint64_t fed_bytes;      /* inside: engine_ring_feed */
};

/* ANY. */
void engine_traffic(const struct engine *engine, struct engine_traffic *traffic);

/* The names of the variants in table order; NULL past the end. ANY. */
const char *engine_variant_name(int index);

#endif
