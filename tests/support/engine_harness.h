/*
 * The engine's test harness: it opens an engine on the device under test, runs a whole signal
 * through a plan by the calls the daemon makes (engine.h), and compares the result with the
 * convolution computed in double precision. Test thread.
 *
 * CONVOLVD_TEST_DEVICE names the device (default "cpu"). CONVOLVD_TEST_SHAPE=gpu builds the kernels
 * as for a GPU, with barriers, on any device. Kernels in the folder CONVOLVD_TEST_KERNELS replace
 * those embedded in the program.
 */
#ifndef CONVOLVD_TESTS_ENGINE_HARNESS_H
#define CONVOLVD_TESTS_ENGINE_HARNESS_H

#include <stdbool.h>
#include <stdint.h>

#include "convolve/engine.h"
#include "core/random.h"

/* ---- the engine -------------------------------------------------------------------------- */

/* An engine whose buffers have guard zones; fails the test when the device cannot be opened. */
struct engine *harness_engine(void);
/* The same with a few MiB of device memory in all, for simulators. */
struct engine *harness_small_engine(void);

/* Asserts that every guard zone is whole, then closes. */
void harness_engine_close(struct engine *engine);

/* Whether the device runs a variant: "lanes" needs kernels built for a CPU, "fused" kernels built
 * for a GPU, and "staged" takes long transforms only. */
bool harness_runs(const struct engine *engine, const char *variant);

/* True in `make check-long`. Compiling kernels takes most of a test's time: a sweep over shapes
 * does a part of them in `make check`, every one there. */
bool harness_every_shape(void);
/* True in a sanitized build, for cases that run no code that others do not. */
bool harness_sanitized(void);

/* Locks what a worker holds while it calls the driver of this plan's device, or unlocks it. */
void harness_hold_driver(const struct plan *plan, bool hold);

/* Waits for the next completed batch; fails the test after a minute, and when the batch failed. */
struct batch *harness_wait(struct engine *engine);
/* The same for a batch that may fail. */
struct batch *harness_wait_any(struct engine *engine);

/* Makes the plan expect `block_ns` for each block, until a batch of it completes. */
void harness_set_cost(struct plan *plan, int64_t block_ns);
/* And what an item takes beside its blocks. */
void harness_set_launch_cost(struct plan *plan, int64_t launch_ns);

/* ---- signals and filters ----------------------------------------------------------------- */

/* A signal as wire bytes and as the values those bytes mean. */
struct test_signal {
    struct sample_format format;
    uint32_t inputs;
    uint64_t frames;
    uint8_t *bytes;
    double *values;  /* [inputs][frames], physical; absent frames are 0 */
    uint8_t *absent; /* [frames], NULL: none */
    struct channel_scale *scales;
};

/* White noise in full scale of `format` ("s16be" …). */
struct test_signal *signal_noise(const char *format, uint32_t inputs, uint64_t frames,
                                 uint64_t seed);
/* A signal in f32le whose values a function of (input, frame) gives. */
struct test_signal *signal_from(uint32_t inputs, uint64_t frames,
                                double (*value)(uint32_t input, uint64_t frame));
/* Computes `values` again from bytes, scales and `absent`. */
void signal_decode(struct test_signal *signal);
void signal_absent(struct test_signal *signal, uint64_t from, uint64_t until);
void signal_free(struct test_signal *signal);

/* Noise taps of unit energy. */
struct taps *taps_noise(uint32_t count, bool complex_taps, uint64_t seed);

/* ---- plans ------------------------------------------------------------------------------- */

enum { TEST_CHANNELS_MAX = 128, TEST_EDGES_MAX = 256 };

/* A plan's specification with the memory it points to. */
struct test_plan {
    struct plan_spec spec;
    struct channel_scale scales[TEST_CHANNELS_MAX];
    struct taps *taps[TEST_CHANNELS_MAX];
    struct edge edges[TEST_EDGES_MAX];
    enum output_form outputs[TEST_CHANNELS_MAX];
    struct plan *plan;
};

/* One edge per channel, each with taps of its own. */
void test_plan_diagonal(struct test_plan *plan, const struct test_signal *signal, uint32_t hop,
                        uint32_t taps, bool complex_taps, enum output_form form);
/* Sets the fields of plan->spec that describe the signal, and points it to the plan's arrays. */
void test_plan_bind(struct test_plan *plan, const struct test_signal *signal);
/* Binds and prepares; fails the test when it cannot be prepared. */
void test_plan_prepare(struct engine *engine, struct test_plan *plan,
                       const struct test_signal *signal);
void test_plan_free(struct test_plan *plan);

/* ---- running ----------------------------------------------------------------------------- */

struct test_run {
    float *samples;               /* [frames][output_floats] */
    struct block_report *reports; /* [blocks][inputs] */
    uint64_t frames, blocks;
};

struct run_options {
    uint32_t blocks; /* per item; 0: random splits from seed */
    uint64_t seed;
    uint64_t ring_offset; /* ring position of frame 0 */
    bool moves; /* before the second batch and each 16th after it, an equal plan that has not seen
                   the blocks before goes on, as where a device takes over */
    struct test_plan *neighbour; /* its plan shares every batch, on a stream of its own */
    const struct test_signal *neighbour_signal;
};

/* Runs the signal's whole blocks through the plan, from the start of an epoch. */
struct test_run run_plan(struct engine *engine, struct test_plan *plan,
                         const struct test_signal *signal, const struct run_options *options);
void test_run_free(struct test_run *run);

/*
 * Compares output frames [from, until) with the definition in double; fails the test with `label`
 * when the error bound is missed. Returns the largest relative error.
 */
double expect_convolution(const char *label, const struct test_plan *plan,
                          const struct test_signal *signal, const struct test_run *run,
                          uint64_t from, uint64_t until);

/* Runs the signal block by block, and again in items of random sizes at a large ring position. Both
 * must be the convolution, and equal each other to the bit. */
void expect_any_batches(struct engine *engine, const char *label, struct test_plan *plan,
                        const struct test_signal *signal);

#endif
