/*
 * What the files of convolve/ share: the engine, its plans and its batch slots. Fields are
 * grouped by who may touch them.
 *
 *   engine.c    open, close, rings, batches: what LOOP and WORKER call
 *   device.c    context, queues, programs and kernels; built, destroyed and built again
 *   worker.c    the device thread: takes batches, completes them; the waiter thread
 *   launch.c    a batch becomes rows and launches
 *   plan.c      a specification becomes a plan; costs
 *   layout.c    geometry: N, partitions, where spectra and state lie
 *   variants.c  the table of variants
 *   lanes.c     the tables of the variant "lanes"
 *   selftest.c  a plan against the double reference
 *   tree.c      the transform in double
 */
#ifndef CONVOLVD_CONVOLVE_INTERNAL_H
#define CONVOLVD_CONVOLVE_INTERNAL_H

#include <pthread.h>
#include <stdatomic.h>

#include "convolve/engine.h"
#include "convolve/tree.h"
#include "core/spsc.h"
#include "device/arena.h"
#include "device/opencl.h"
#include "../../kernels/row.h"

enum {
    BATCHES_MAX = 16,
    REPORT_FLOATS = sizeof(struct block_report) / sizeof(float),
    FFT_MIN = 64,
    FFT_MAX = 1 << 20,
    BLOCKS_MAX = 4096,
    CHANNELS_MAX = 1024,
    PLANS_MAX = 1024,
    ROWS_PER_BATCH = 1 << 13,
    LANES_USED_MIN = 4, /* by one block; with fewer, it takes several times as long as "fused" */
};

_Static_assert(sizeof(struct report_row) == sizeof(struct block_report), "one report, two names");

/* ---- kernels ------------------------------------------------------------------------------ */

enum kernel_id {
    KERNEL_FUSED,
    KERNEL_FORWARD,
    KERNEL_PRODUCT,
    KERNEL_GATHER,
    KERNEL_LANES,
    KERNELS,
    KERNEL_NONE = KERNELS,
};

/* A transform lies in local memory, or in a scratch piece of STATE when it does not fit. */
enum scratch { SCRATCH_LOCAL, SCRATCH_GLOBAL, SCRATCHES };

/* ---- rings -------------------------------------------------------------------------------- */

struct ring_memory {
    struct ring ring;                      /* first: the caller's pointer */
    uint64_t bytes_offset, present_offset; /* in INPUT */
    uint64_t serial; /* never used twice, so that a plan's cache knows its ring */
};

/* engine.c; caller holds `workers`. ring_give(NULL) is fine. */
int ring_take(struct engine *engine, uint64_t frames_min, uint32_t frame_bytes, struct ring **out,
              struct problem *problem);
void ring_give(struct engine *engine, struct ring *ring);

/* ---- plans ---------------------------------------------------------------------------------- */

/* A batch runs its stages in this order; each is one launch for all plans that share kernel and N.
 */
enum stage_id {
    STAGE_REBUILD_FORWARD, /* spectra of blocks before the item, after a jump */
    STAGE_REBUILD_PLANES,  /* planes of blocks before the item */
    STAGE_FORWARD,
    STAGE_PRODUCE,
    STAGE_GATHER,
    STAGE_COUNT,
};

/* A transform's tables on the device, shared by the plans of one N and order of points. */
struct device_tree {
    struct tree *tree;
    uint64_t offset; /* bytes in SPECTRUM */
    uint32_t users;
};

/* Spectra of one set of taps. Offsets in floats of SPECTRUM, ROW_NONE: none. */
struct filter_spectra {
    uint64_t re, im;
    uint32_t partitions;
};

struct variant;

/* What a specification comes to, before any memory is taken. */
struct layout {
    const struct variant *variant;
    uint32_t fft;
    uint32_t taps_longest;
    uint32_t partitions;       /* of the longest filter */
    uint32_t partition_taps;   /* B, a multiple of L when there are several */
    uint32_t partition_blocks; /* B / L, 1 when there is one partition */
    uint32_t history_blocks;   /* (partitions - 1) · partition_blocks */
    uint32_t tail_blocks;      /* D: blocks whose tails reach into one, overlap-add only */
    enum scratch scratch;
    uint32_t planes;       /* transforms of scratch a group has */
    uint32_t group_blocks; /* blocks that a group of PRODUCE computes */
};

struct plan {
    /* immutable once prepared */
    struct engine *engine;
    struct plan_info info;
    struct layout layout;
    struct device_tree *tree;
    uint32_t hop, blocks_max;
    enum kernel_id kernels[STAGE_COUNT];
    struct row *templates[STAGE_COUNT]; /* of FORWARD, PRODUCE and GATHER */
    uint32_t rows[STAGE_COUNT];
    uint32_t rows_most; /* rows one item can need */
    uint32_t slots, plane_slots;
    uint64_t spectra_offset, edges_offset, state_offset, scratch_offset; /* bytes; ROW_NONE: none */
    uint32_t scratch_groups;
    bool stateful;

    /* device thread: which blocks of which epoch lie in STATE */
    struct {
        uint64_t ring_serial;
        uint64_t origin; /* ring position of the epoch's block 0, modulo 2^64 */
        uint64_t spectra_from, planes_from, until;
        bool valid;
    } cache;

    /* written by the device thread, read by any */
    _Atomic int64_t cost_base_ns, cost_block_ps;
};

/* One way to compute a batch. A row of the table in variants.c. */
struct variant {
    const char *name;
    const char *sentence;
    double pace; /* operations in the time in which partitions do one */
    bool overlap_add;
    bool one_launch; /* outputs of one edge each, one partition */
    bool partitions;
    bool lanes; /* a channel in each lane: trees without root lanes */
};

const struct variant *variant_at(int index);

/* Geometry for one variant: 0, or ERROR_UNSUPPORTED / ERROR_LIMIT with the reason. */
int layout_make(const struct engine *engine, const struct plan_spec *spec,
                const struct variant *variant, bool by_name, struct layout *layout,
                struct problem *problem);

/* plan.c: the fields that depend on the layout; frees everything on error. */
int plan_build(struct engine *engine, const struct plan_spec *spec, const struct layout *layout,
               struct plan **out, struct problem *problem);

/* plan.c, for the variants' own files: what every row of an input shares, and room for a stage's
 * rows (NULL: out of memory). */
struct row plan_input_row(const struct plan *plan, const struct plan_spec *spec, uint32_t input);
struct row *plan_stage_rows(struct plan *plan, enum stage_id stage, enum kernel_id kernel,
                            uint32_t capacity);

/* lanes.c. Why it cannot do these channels and edges, or, when it was not asked for by name, should
 * not; NULL: it can. */
const char *lanes_objection(const struct engine *engine, const struct plan_spec *spec,
                            bool by_name);
uint32_t lanes_group_blocks(const struct plan_spec *spec);
uint64_t lanes_spectra_floats(const struct plan_spec *spec, uint32_t fft);
/* Fills the plan's spectra and rows; `work` holds N doubles. 0 or ERROR_MEMORY. */
int lanes_rows(struct plan *plan, const struct plan_spec *spec, double *work);

/* selftest.c: 0, ERROR_ACCURACY, or what the engine answers. Fills the plan's error and cost. */
int plan_self_test(struct plan *plan, const struct plan_spec *spec, struct problem *problem);

/* ---- batches -------------------------------------------------------------------------------- */

struct slot {
    struct batch batch; /* first: the caller's pointer */
    struct engine *engine;
    /* immutable */
    uint64_t samples_offset, reports_offset; /* floats of OUTPUT */
    uint64_t rows_offset;                    /* rows of TABLE */
    /* LOOP while filling */
    uint64_t samples_used; /* floats */
    uint64_t reports_used; /* reports */
    uint32_t rows_reserved;
    /* device thread */
    uint32_t rows_used;
    cl_event event;
    int64_t device_from_ns;
    /* event callback → device thread */
    _Atomic int done; /* 0, 1: complete, -1: failed */
    int64_t done_ns;
    bool worker; /* the self-test's slot: a worker waits */
};

/* ---- the engine ------------------------------------------------------------------------------ */

enum request_kind { REQUEST_NONE, REQUEST_RUN, REQUEST_RESET };

struct engine {
    /* immutable while open */
    struct device_found found;
    char *kernels_dir, *cache_dir;
    bool guards;
    uint32_t lanes, items;       /* the kernels' shape */
    uint64_t local_budget_bytes; /* for transforms in local memory */
    uint32_t slot_count, depth;
    uint64_t slot_samples, slot_reports; /* floats, reports */
    struct slot *slots;                  /* [slot_count + 1]: the last is the worker's */
    void (*wake)(void *context);
    void *wake_context;
    pthread_t thread;
    int doorbell; /* eventfd to the device thread */
    bool waits;   /* completions come from the waiter thread, not from the driver's callbacks */
    pthread_t waiter;
    int waiter_bell; /* eventfd to it */

    /* arenas: their own mutex; device side replaced by a reset */
    struct arena input, spectrum, state, output, table;

    /* WORKER, under `workers`; the device thread while a reset waits for it */
    pthread_mutex_t workers;
    cl_context context;
    cl_command_queue queue;  /* device thread */
    cl_command_queue upload; /* workers */
    bool twin;
    struct device_tree trees[2][32]; /* without and with root lanes; by log2 N */
    struct plan *plans[PLANS_MAX];
    uint64_t ring_serial;
    uint32_t rings_open;
    /* created under `workers`, used by the device thread only */
    cl_program programs[KERNELS][SCRATCHES];
    cl_kernel kernels[KERNELS][SCRATCHES];

    /* LOOP */
    struct slot *free_slots[BATCHES_MAX];
    uint32_t free_count;
    uint32_t in_flight;

    /* LOOP → device thread, and back */
    struct spsc submitted, completed;
    _Atomic bool stopping;

    /* WORKER → device thread, under request_mutex */
    pthread_mutex_t request_mutex;
    pthread_cond_t request_done;
    enum request_kind request;
    bool request_taken, request_finished;
    int request_error;
    struct problem request_problem;

    /* device thread → waiter thread */
    struct spsc waiting;

    /* device thread */
    struct slot *running[BATCHES_MAX + 1];
    uint32_t running_count;
    int64_t last_completed_ns;
};

/* device.c; caller holds `workers` (or is the device thread inside a reset). */
int device_create(struct engine *engine, struct problem *problem);
void device_destroy(struct engine *engine);
int device_kernel(struct engine *engine, enum kernel_id id, enum scratch scratch,
                  struct problem *problem);
int device_tree_get(struct engine *engine, uint32_t fft, uint32_t lanes, struct device_tree **out,
                    struct problem *problem);
void device_tree_put(struct device_tree *tree, struct engine *engine);

/* launch.c, device thread: enqueues everything and sets slot->event. 0 or ERROR_DEVICE, logged. */
int batch_launch(struct engine *engine, struct slot *slot);

/* worker.c */
void *engine_thread(void *engine);
void *engine_waiter(void *engine);
/* Has the device thread do something and waits. WORKER, holding `workers`. */
int engine_request(struct engine *engine, enum request_kind kind, struct problem *problem);

/* plan.c, device thread: learns from a completed batch. */
void plan_cost_learn(const struct batch *batch, int64_t device_ns);

#endif
