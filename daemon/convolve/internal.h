/*
 * What the files of convolve/ share: the engine, its plans and its batch slots. Fields are
 * grouped by who may touch them.
 *
 *   engine.c    open, close, rings, batches: what LOOP and WORKER call
 *   device.c    context, queues, programs and kernels; built, destroyed and built again
 *   worker.c    the device thread: takes batches, completes them; the waiter thread
 *   launch.c    a batch becomes rows and launches
 *   feed.c      results become the input of another ring inside the device
 *   plan.c      a specification becomes a plan; costs
 *   layout.c    geometry: N, partitions
 *   results.c   results in the formats of sinks
 *   spectra.c   filter spectra in the order of an FFT plan, rows that every variant begins with
 *   variants.c  the table of variants; each row's functions stand in a file of its own:
 *               fused.c staged.c local.c partitioned.c general.c overlap_add.c lanes.c …
 *   selftest.c  a plan against the double reference, and its time
 *   tune.c      candidates measured against each other; wisdom.c remembers the outcome
 *   plan/fft_plan.c      the transform in double
 */
#ifndef CONVOLVD_CONVOLVE_INTERNAL_H
#define CONVOLVD_CONVOLVE_INTERNAL_H

#include <pthread.h>
#include <stdatomic.h>

#include "convolve/engine.h"
#include "convolve/plan/fft_plan.h"
#include "convolve/plan/wisdom.h"
#include "core/spsc.h"
#include "device/arena.h"
#include "device/opencl.h"
#include "kernels/row.h"
#include "signal/decimation.h"

enum {
    BATCHES_MAX = 16,
    REPORT_FLOATS = sizeof(struct block_report) / sizeof(float),
    FFT_MIN = 64,
    FFT_MAX = 1 << 21, /* so that 2^20 taps fit one transform */
    HOP_MAX = 1 << 19,
    BLOCKS_MAX = 4096,
    CHANNELS_MAX = 1024,
    PLANS_MAX = 1024,
    ROWS_PER_BATCH = 1 << 13,
};

_Static_assert(sizeof(struct report_row) == sizeof(struct block_report), "one report, two names");

/* ---- kernels ----------------------------------------------------------------------------- */

enum { KERNELS_MAX = 512, KERNEL_OPTIONS = 768 };

/* A kernel of a program built with certain options, shared by the plans that ask for the same.
 * Built by workers, under `workers`; used by the device thread only. */
struct kernel {
    char *file, *function, *options;
    cl_program program;
    cl_kernel kernel;
    uint32_t users; /* plans; one without users stays built until its place is needed */
};

/* A transform lies in local memory, or in a scratch piece of STATE when it does not fit. */
enum scratch { SCRATCH_LOCAL, SCRATCH_GLOBAL, SCRATCHES };

/* ---- rings ------------------------------------------------------------------------------- */

struct ring_memory {
    struct ring ring;                      /* first: the caller's pointer */
    uint64_t bytes_offset, present_offset; /* in INPUT */
    uint64_t serial; /* never used twice, so that a plan's cache knows its ring */
    _Atomic uint32_t feeds_waiting;
    /* device thread: positions whose presence bits are not on the device yet */
    uint64_t unseen_from, unseen_until;
};

/* One copy from OUTPUT into a ring. */
struct feed {
    struct ring_memory *ring;
    uint64_t changed_from, position;
    uint64_t source_offset; /* bytes of OUTPUT */
    uint32_t frames;
};

enum { FEEDS_MAX = 512 };

/* engine.c; caller holds `workers`. ring_give(NULL) is fine. */
int ring_take(struct engine *engine, uint64_t frames_min, uint32_t frame_bytes, struct ring **out,
              struct problem *problem);
void ring_give(struct engine *engine, struct ring *ring);

/* ---- plans ------------------------------------------------------------------------------- */

enum { STAGES_MAX = 8, STAGE_NUMBERS = 4 };

/* What a stage leaves in STATE for later blocks: it runs again for the blocks before an item when
 * the state is not there. */
enum stage_keeps {
    KEEPS_NOTHING,
    KEEPS_SPECTRA, /* for layout.history_blocks + layout.tail_blocks */
    KEEPS_PLANES,  /* for layout.tail_blocks */
};

/* A stage without a kernel of the engine's launching: computes the rows at once or enqueues what
 * does, on the device thread. 0 or ERROR_DEVICE, logged. */
typedef int stage_function(struct engine *engine, const struct plan *plan, const struct row *rows,
                           uint32_t count);

/*
 * One launch of a batch. A batch runs the stages of its plans in the order of their numbers;
 * plans whose stages are alike (stages_alike) share the launch: their rows lie side by side.
 */
struct stage {
    struct kernel *kernel; /* NULL: `run` does it */
    stage_function *run;
    uint32_t items;        /* work-items of a group */
    uint32_t group_blocks; /* blocks of a row that a group computes */
    uint32_t group_rows;   /* rows that a group computes; `count` is a multiple of it */
    uint64_t local_bytes;  /* of the argument local_points */
    uint64_t shared_bytes; /* of the argument shared; 0: a report for each item */
    enum stage_keeps keeps;
    struct kernel *own[3]; /* those that `run` launches itself */
    uint32_t keeps_blocks; /* at most so many blocks before the item leave what is needed; 0: all */
    uint32_t span_blocks; /* its rows take so many blocks as one: row.start is where the span of the
                             first block begins; 0: one */
    struct device_fft_plan *fft_plan; /* NULL: the plan's */
    uint64_t numbers[STAGE_NUMBERS];  /* further arguments of the kernel, ulong */
    uint32_t number_count;
    struct row *rows; /* templates, [count] of `capacity` */
    uint32_t count, capacity;
};

/* A transform's tables on the device, shared by the plans of one N and order of points. */
struct device_fft_plan {
    struct fft_plan *plan;
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
    uint32_t planes;    /* transforms of scratch a group has */
    uint32_t items;     /* work-items of a group, unless a stage says otherwise */
    uint32_t vector;    /* lanes of a vector; 0: the kernels' own */
    uint32_t fft_lanes; /* root lanes of its FFT: 1 or the engine's; 0: it has tables of its own */
    struct {
        uint32_t span;       /* R: blocks of a long block; 0: there is no tail */
        uint32_t fft;        /* its N, at least 2·R·L */
        uint32_t partitions; /* of R·L taps, behind the first 2·R·L */
    } tail;                  /* partitioned only */
};

struct plan {
    /* immutable once prepared */
    struct engine *engine;
    struct plan_info info;
    struct layout layout;
    struct device_fft_plan *fft_plan;      /* NULL: layout.fft_lanes is 0 */
    struct device_fft_plan *tail_fft_plan; /* NULL: layout.tail.span is 0 */
    uint32_t hop, blocks_max;
    uint32_t
        report_rows; /* of a block: its inputs' reports, and place for its outputs' clip counts */
    struct stage stages[STAGES_MAX];
    uint32_t stage_count;
    uint32_t rows_most; /* rows one item can need */
    uint32_t slots, plane_slots;
    uint64_t spectra_offset, state_offset, scratch_offset; /* bytes; ROW_NONE: none */
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

static inline struct decimation plan_decimation(const struct plan *plan)
{
    return (struct decimation){plan->info.decimate, plan->info.decimate_phase};
}

/* The first frame of an item at this block of its epoch that the plan keeps, below D. */
static inline uint32_t plan_kept_first(const struct plan *plan, uint64_t epoch_block)
{
    const struct decimation kept = plan_decimation(plan);
    return decimation_first(&kept, epoch_block * plan->hop);
}

/* Frames that the plan keeps of `blocks` blocks from there on. */
static inline uint64_t plan_kept(const struct plan *plan, uint64_t epoch_block, uint32_t blocks)
{
    const struct decimation kept = plan_decimation(plan);
    return decimation_kept(&kept, epoch_block * plan->hop, (uint64_t)blocks * plan->hop);
}

/* The reports that so many counts of clipped samples take the place of. */
static inline uint32_t clip_rows(uint32_t outputs)
{
    return (outputs + REPORT_FLOATS - 1) / REPORT_FLOATS;
}

/* Floats of OUTPUT that the samples of so many frames take. */
static inline uint64_t plan_floats(const struct plan *plan, uint64_t frames)
{
    const uint64_t bytes = frames * plan->info.output_floats * plan->info.sample_bytes;
    return (bytes + sizeof(float) - 1) / sizeof(float);
}

/* A plan being built. */
struct build {
    struct engine *engine;
    struct plan *plan;
    const struct plan_spec *spec;
    struct filter_spectra *filters; /* [taps_count], set by spectra_place */
    double *work;                   /* [N] */
    /* set by variant.measure: what fill() will find at plan->spectra_offset and state_offset */
    uint64_t spectra_floats, state_floats;
    uint64_t real_parts; /* floats of STATE before them, ROW_NONE: none */
};

/*
 * One way to compute a batch: a row of the table in variants.c. The functions are called in
 * this order, by a worker holding `workers`:
 *
 *   objection   why it cannot do this plan, or, when it was not asked for by name, should not
 *               (a sentence's part, "it is made for CPUs"); NULL: it can. May be absent.
 *   layout      geometry; absent: layout_standard. 0, ERROR_UNSUPPORTED or ERROR_LIMIT.
 *   measure     how much of SPECTRUM and STATE the plan needs.
 *   fill        writes the spectra (SPECTRUM is uploaded afterwards) and adds the stages.
 */
struct variant {
    const char *name;
    const char *sentence;
    double pace; /* operations in the time in which partitions do one */
    bool overlap_add;
    bool partitions;
    bool formats; /* encodes its results (encode.clh); else plans that ask for it get floats */
    bool components_apart; /* and the real part of an envelope waits in row.real_parts for the other
                            */
    bool vectors;          /* the width of its vectors is a choice (spec.vector) */
    bool decimates; /* computes or at least writes only the frames that a plan keeps (row.decimate)
                     */
    const char *(*objection)(const struct engine *engine, const struct plan_spec *spec,
                             bool by_name);
    int (*layout)(const struct engine *engine, const struct plan_spec *spec,
                  const struct variant *variant, bool by_name, struct layout *layout,
                  struct problem *problem);
    void (*measure)(struct build *build);
    int (*fill)(struct build *build, struct problem *problem);
};

const struct variant *variant_at(int index);

/* Geometry for one variant: 0, or ERROR_UNSUPPORTED / ERROR_LIMIT with the reason. */
int layout_make(const struct engine *engine, const struct plan_spec *spec,
                const struct variant *variant, bool by_name, struct layout *layout,
                struct problem *problem);
/* For a variant's own `layout`, which may change the result: N by rule, partitions, local or global
 * scratch, one plane. Sets everything. */
int layout_standard(const struct engine *engine, const struct plan_spec *spec,
                    const struct variant *variant, bool by_name, struct layout *layout,
                    struct problem *problem);
/* The cheapest N for `taps` in partitions of whole blocks, by operations; 0: there is none. How
 * many partitions that makes, and the operations a block costs. */
uint32_t layout_partitioned_fft(const struct engine *engine, const struct plan_spec *spec,
                                uint32_t taps);
uint32_t layout_partition_count(uint32_t fft, uint32_t hop, uint32_t taps);
double layout_block_cost(uint32_t fft, uint32_t partitions);
/* For `objection`: not every output has one edge of an input of its own. NULL: they have. */
const char *layout_single_edges(const struct plan_spec *spec);
/* The same for one that lets several outputs hear one input: not every output has one edge. */
const char *layout_output_edges(const struct plan_spec *spec);
/* Some filter has an imaginary part that an output takes. */
bool layout_any_complex(const struct plan_spec *spec);

/* plan.c: the fields that depend on the layout; frees everything on error. */
int plan_build(struct engine *engine, const struct plan_spec *spec, const struct layout *layout,
               struct plan **out, struct problem *problem);

/*
 * plan.c, for `fill`: adds a stage with room for `capacity` rows and the kernel `function` of
 * `file`, built with LANES and ITEMS of the engine's shape, GLOBAL_SCRATCH where the layout says
 * so, and `options` ("-D X=1 …", NULL: none); file NULL: the caller sets `run`. `items` is the
 * engine's, group_blocks 1, local_bytes what the layout's planes need; the caller may change them
 * ("-D ITEMS=n" and "-D LANES=n" among its options replace the engine's). Stages
 * added before stay where they are.
 */
int plan_stage(struct build *build, const char *file, const char *function, const char *options,
               uint32_t capacity, struct stage **out, struct problem *problem);

/* spectra.c, for `measure` and `fill`. What every row of an input shares; where an output's frames
 * go; spectra of all filters in the order of the plan's FFT, one after the other from
 * plan->spectra_offset on. */
struct row row_of_input(const struct plan *plan, const struct plan_spec *spec, uint32_t input);
void row_to_output(const struct build *build, uint32_t output, struct row *row);
uint32_t row_form(enum output_form form);
uint32_t output_components(const struct build *build, uint32_t output);
uint64_t spectra_place(struct build *build); /* returns floats */
/* The same for components (the real or the imaginary taps of a filter) laid out in another way:
 * what one takes, relative places of all and their sum; then each written and its place made one in
 * SPECTRUM. */
uint64_t spectra_place_components(struct build *build,
                                  uint64_t (*component_floats)(const struct plan *plan,
                                                               const struct taps *taps));
void spectra_fill_components(struct build *build,
                             void (*component)(const struct plan *plan, const double *h,
                                               uint32_t count, double *work, float *spectra),
                             double *work);
/* Partitions of `each` taps, one spectrum of `fft` floats after the other. work[fft]. */
void spectra_write(const struct fft_plan *fft_plan, const double *h, uint32_t count, uint64_t each,
                   uint32_t fft, double *work, float *spectra);

/* Whether a kernel turns the bytes of a word round: those of 2 and 4 bytes it moves as this
 * machine's integers, others byte by byte, the lowest first. */
static inline bool word_swapped(const struct sample_format *format)
{
    const bool whole = format->bytes == 2 || format->bytes == 4;
    const bool big_endian_host = __BYTE_ORDER__ == __ORDER_BIG_ENDIAN__;
    return format->bytes > 1 && format->big_endian != (whole && big_endian_host);
}

/*
 * results.c: results in a format other than native floats. Behind the variant's own part of STATE:
 * room for the real parts of envelopes, for variants with components_apart.
 */
void results_measure(struct build *build);
/* What the rows of an output need to know of it; row_to_output calls it. */
void results_of_row(const struct build *build, uint32_t output, struct row *row);
/* The kernels' options (encode.clh), "" for native floats. Returns their length. */
int results_options(const struct plan *plan, char *options, size_t bytes);
/* The value that a sample stands for, `want` being what it should be: codes are taken for `want` as
 * far as rounding and saturation explain them. Floats as they are. */
double results_value(const struct plan *plan, const uint8_t *sample, double want);
/* What a plan of this variant gives of what the specification wishes. */
struct result_format results_granted(const struct engine *engine, const struct variant *variant,
                                     const struct result_format *wish);
void spectra_fill(struct build *build);

/* The rows of the table. */
const char *fused_objection(const struct engine *engine, const struct plan_spec *spec,
                            bool by_name);
int fused_layout(const struct engine *engine, const struct plan_spec *spec,
                 const struct variant *variant, bool by_name, struct layout *layout,
                 struct problem *problem);
void fused_measure(struct build *build);
int fused_fill(struct build *build, struct problem *problem);
const char *staged_objection(const struct engine *engine, const struct plan_spec *spec,
                             bool by_name);
int staged_layout(const struct engine *engine, const struct plan_spec *spec,
                  const struct variant *variant, bool by_name, struct layout *layout,
                  struct problem *problem);
void staged_measure(struct build *build);
int staged_fill(struct build *build, struct problem *problem);
stage_function staged_run;
const char *local_objection(const struct engine *engine, const struct plan_spec *spec,
                            bool by_name);
int local_layout(const struct engine *engine, const struct plan_spec *spec,
                 const struct variant *variant, bool by_name, struct layout *layout,
                 struct problem *problem);
void local_measure(struct build *build);
int local_fill(struct build *build, struct problem *problem);
const char *partitioned_objection(const struct engine *engine, const struct plan_spec *spec,
                                  bool by_name);
int partitioned_layout(const struct engine *engine, const struct plan_spec *spec,
                       const struct variant *variant, bool by_name, struct layout *layout,
                       struct problem *problem);
void partitioned_measure(struct build *build);
int partitioned_fill(struct build *build, struct problem *problem);
void general_measure(struct build *build);
int general_fill(struct build *build, struct problem *problem);
void overlap_add_measure(struct build *build);
int overlap_add_fill(struct build *build, struct problem *problem);
void overlap_add_general_measure(struct build *build);
int overlap_add_general_fill(struct build *build, struct problem *problem);
const char *lanes_objection(const struct engine *engine, const struct plan_spec *spec,
                            bool by_name);
int lanes_layout(const struct engine *engine, const struct plan_spec *spec,
                 const struct variant *variant, bool by_name, struct layout *layout,
                 struct problem *problem);
void lanes_measure(struct build *build);
int lanes_fill(struct build *build, struct problem *problem);
const char *host_objection(const struct engine *engine, const struct plan_spec *spec, bool by_name);
int host_layout(const struct engine *engine, const struct plan_spec *spec,
                const struct variant *variant, bool by_name, struct layout *layout,
                struct problem *problem);
void host_measure(struct build *build);
int host_fill(struct build *build, struct problem *problem);
stage_function host_run;
const char *direct_objection(const struct engine *engine, const struct plan_spec *spec,
                             bool by_name);
int direct_layout(const struct engine *engine, const struct plan_spec *spec,
                  const struct variant *variant, bool by_name, struct layout *layout,
                  struct problem *problem);
void direct_measure(struct build *build);
int direct_fill(struct build *build, struct problem *problem);

/* selftest.c: 0, ERROR_ACCURACY, or what the engine answers. Fills the plan's error and cost. */
int plan_self_test(struct plan *plan, const struct plan_spec *spec, struct problem *problem);
/* Blocks of the plan that one batch holds, at most its blocks_max. */
uint32_t plan_blocks_fit(const struct plan *plan);
/* The times from submission to completion of `runs` items of `blocks` blocks of noise [ns]. */
int plan_time(struct plan *plan, const struct plan_spec *spec, uint32_t blocks, uint32_t runs,
              int64_t *ns, struct problem *problem);

/* Makes what batches of this plan write resident: a first block that waits for pages comes
 * milliseconds late, and at high rates so do the hundreds behind it. */
void engine_make_resident(struct engine *engine, const struct plan *plan);

/* tune.c: the shape's name in wisdom. */
void plan_shape(const struct plan_spec *spec, char shape[WISDOM_SHAPE]);

/* ---- batches ----------------------------------------------------------------------------- */

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

/* ---- the engine -------------------------------------------------------------------------- */

enum request_kind { REQUEST_NONE, REQUEST_RUN, REQUEST_RESET, REQUEST_FEEDS };

struct engine {
    /* immutable while open */
    struct device_found found;
    char *kernels_dir, *cache_dir;
    bool guards;
    uint32_t lanes, items;       /* the kernels' shape */
    uint32_t vector;             /* lanes of the device's own vectors, for variants that have the
                                    choice: 16, 8 or 4 */
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
    cl_command_queue queue; /* device thread: kernels, and the copies of small batches */
    cl_command_queue in,
        out; /* the same: copies of large batches, beside the kernels; NULL: no twin */
    cl_command_queue upload; /* workers */
    bool twin;
    struct device_fft_plan fft_plans[2][32]; /* without and with root lanes; by log2 N */
    struct plan *plans[PLANS_MAX];
    uint64_t ring_serial;
    uint32_t rings_open;
    struct kernel kernels[KERNELS_MAX];
    struct wisdom *wisdom;

    /* LOOP */
    struct slot *free_slots[BATCHES_MAX];
    uint32_t free_count;
    uint32_t in_flight;

    /* LOOP → device thread, and back */
    struct spsc submitted, completed;
    struct spsc fed;
    struct feed feeds[2 * FEEDS_MAX]; /* twice what waits: one may be read while it is full */
    uint32_t feed_next;               /* LOOP */
    struct {
        _Atomic uint64_t ring, presence, table, result, fed;
    } traffic; /* bytes; written by the device thread */
    _Atomic bool stopping;

    /* WORKER → device thread, under request_mutex */
    pthread_mutex_t request_mutex;
    pthread_cond_t request_done;
    enum request_kind request;
    bool request_taken, request_finished;
    int request_error;
    struct problem request_problem;

    _Atomic int64_t last_seen_ns; /* waiter thread: the last batch was seen complete */

    /* device thread → waiter thread */
    struct spsc waiting;

    /* device thread */
    struct slot *
        watched; /* the one batch that runs, when the device thread looks for its end; NULL: none */
    struct slot *running[BATCHES_MAX + 1];
    uint32_t running_count;
    int64_t last_completed_ns;
};

/* device.c; caller holds `workers` (or is the device thread inside a reset). */
int device_create(struct engine *engine, struct problem *problem);
void device_destroy(struct engine *engine);
/* All queues of the device thread: has what was enqueued begin; waits until all of it is done. */
void device_flush(struct engine *engine);
void device_finish(struct engine *engine);
/* A kernel of kernels/`file`, built with `options`; shared. */
int device_kernel_get(struct engine *engine, const char *file, const char *function,
                      const char *options, struct kernel **out, struct problem *problem);
void device_kernel_put(struct kernel *kernel); /* NULL is fine */
/* Builds again the kernels that plans use, after device_create. */
int device_kernels_rebuild(struct engine *engine, struct problem *problem);
void device_kernels_forget(struct engine *engine); /* before the engine is freed */
int device_fft_plan_get(struct engine *engine, uint32_t fft, uint32_t lanes,
                        struct device_fft_plan **out, struct problem *problem);
void device_fft_plan_put(struct device_fft_plan *fft_plan, struct engine *engine);

/* An argument of a kernel; `value` NULL: as many bytes of local memory. */
struct kernel_argument {
    size_t bytes;
    const void *value;
};

/* launch.c, device thread: sets all arguments and enqueues a launch on engine->queue. `event` may
 * be NULL. */
cl_int kernel_launch(struct engine *engine, cl_kernel kernel,
                     const struct kernel_argument *arguments, cl_uint count, const size_t global[2],
                     const size_t local[2], cl_event *event);

/* launch.c, device thread: enqueues everything and sets slot->event. 0 or ERROR_DEVICE, logged. */
int batch_launch(struct engine *engine, struct slot *slot);

/* Adds to a figure that only the calling thread writes. */
static inline void traffic_add(_Atomic uint64_t *figure, uint64_t bytes)
{
    atomic_store_explicit(figure, atomic_load_explicit(figure, memory_order_relaxed) + bytes,
                          memory_order_relaxed);
}

/* feed.c, device thread: enqueues all copies that wait; CL_SUCCESS or the driver's answer. */
cl_int feeds_launch(struct engine *engine);
/* Forgets them: a reset has put the rings' own memory on the device. */
void feeds_drop(struct engine *engine);

/* worker.c */
void *engine_thread(void *engine);
void *engine_waiter(void *engine);
/* Has the device thread do something and waits. WORKER, holding `workers`. */
int engine_request(struct engine *engine, enum request_kind kind, struct problem *problem);

/* plan.c, device thread: learns from a completed batch. */
void plan_cost_learn(const struct batch *batch, int64_t device_ns);

#endif
