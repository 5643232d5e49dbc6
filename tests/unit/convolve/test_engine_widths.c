/*
 * Widths of launches. PoCL ends the process when two launches of one kernel run at once and one is
 * wider than all before it (device/traits.h), as engines of several loops launch it, or a batch in
 * parts and what overtakes it. So the first launch of each kernel is as wide as any that follows,
 * and computes nothing.
 *
 * takes: 2 s CPU in 2 s
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include <dlfcn.h>

#include "convolve/plan/planner.h"
#include "device/opencl.h"
#include "tests/support/engine_group.h"

enum { HOP = 64, BLOCKS = 24, CHANNELS = 3, STREAMS = 6, KERNELS = 64, NAME_BYTES = 64 };

/* ---- what is launched ------------------------------------------------------------------------ */

static struct launched {
    cl_kernel kernel;
    char name[NAME_BYTES];
    size_t first, most; /* groups of a launch in one dimension */
    uint32_t launches;
} launched[KERNELS];

/* Takes the place of OpenCL's. */
cl_int clEnqueueNDRangeKernel(cl_command_queue queue, cl_kernel kernel, cl_uint dimensions,
                              const size_t *offset, const size_t *global, const size_t *local,
                              cl_uint events, const cl_event *list, cl_event *event)
{
    __typeof__(&clEnqueueNDRangeKernel) real;
    *(void **)&real = dlsym(RTLD_NEXT, "clEnqueueNDRangeKernel");
    size_t width = 0;
    for (cl_uint i = 0; i < dimensions; i++)
        width = global[i] > width ? global[i] : width;
    for (size_t i = 0; i < KERNELS; i++) {
        struct launched *at = &launched[i];
        if (at->kernel != kernel && at->kernel != NULL)
            continue;
        if (at->kernel == NULL) {
            at->kernel = kernel;
            at->first = width;
            clGetKernelInfo(kernel, CL_KERNEL_FUNCTION_NAME, sizeof at->name, at->name, NULL);
        }
        at->most = width > at->most ? width : at->most;
        at->launches++;
        break;
    }
    return real(queue, kernel, dimensions, offset, global, local, events, list, event);
}

/* ---- streams --------------------------------------------------------------------------------- */

struct scene {
    struct test_signal *signal;
    struct test_plan plans[STREAMS];
    struct ring *ring;
};

static void scene_open(struct scene *scene, const char *variant, uint32_t fft, uint32_t taps)
{
    struct problem problem = {0};
    scene->signal = signal_noise("s16le", CHANNELS, HOP * BLOCKS, 5);
    for (uint32_t i = 0; i < STREAMS; i++) {
        test_plan_diagonal(&scene->plans[i], scene->signal, HOP, taps, false, OUTPUT_REAL);
        scene->plans[i].spec.variant = variant;
        scene->plans[i].spec.fft = fft;
        scene->plans[i].spec.blocks_max = BLOCKS;
        test_plan_prepare(engine, &scene->plans[i], scene->signal);
    }
    assert_int_equal(engine_ring_open(engine, HOP * BLOCKS, CHANNELS * 2, &scene->ring, &problem),
                     0);
    memcpy(scene->ring->bytes, scene->signal->bytes, (size_t)HOP * BLOCKS * CHANNELS * 2);
    memset(scene->ring->present, 0xFF, HOP * BLOCKS / 8);
}

static void scene_close(struct scene *scene)
{
    for (uint32_t i = 0; i < STREAMS; i++)
        test_plan_free(&scene->plans[i]);
    engine_ring_close(engine, scene->ring);
    signal_free(scene->signal);
}

/* The first `blocks` blocks of so many streams in one batch. */
static void compute(struct scene *scene, uint32_t streams, uint32_t blocks)
{
    struct batch *batch = engine_batch_take(engine);
    for (uint32_t i = 0; i < streams; i++) {
        const struct batch_item item = {
            .plan = scene->plans[i].plan,
            .ring = scene->ring,
            .blocks = blocks,
            .write_until = blocks * HOP,
            .fresh_until = HOP * BLOCKS,
            .absent = true,
        };
        assert_int_equal(engine_batch_add(engine, batch, &item), 0);
    }
    engine_submit(engine, batch);
    assert_ptr_equal(harness_wait(engine), batch);
    engine_batch_release(engine, batch);
}

static void no_launch_is_wider_than_the_first(void **state)
{
    (void)state;
    static const struct {
        const char *variant;
        uint32_t fft, taps;
    } plans[] = {
        {"lanes", 256, 150},        {"lanes", 16384, 150},
        {"direct", 128, 60},        {"local", 256, 150},
        {"partitioned", 128, 4000}, {"general", 128, 1000},
        {"overlap-add", 512, 300},  {"overlap-add-general", 256, 900},
    };
    if (!harness_runs(engine, "lanes"))
        skip();
    for (size_t p = 0; p < sizeof plans / sizeof plans[0]; p++) {
        static struct scene scene;
        scene_open(&scene, plans[p].variant, plans[p].fft, plans[p].taps);
        for (uint32_t streams = 1; streams <= STREAMS; streams++)
            compute(&scene, streams, BLOCKS * streams / STREAMS);
        scene_close(&scene);
    }
    uint32_t kernels = 0;
    for (; kernels < KERNELS && launched[kernels].kernel != NULL; kernels++) {
        const struct launched *at = &launched[kernels];
        if (at->most > at->first || at->first < ROWS_PER_BATCH)
            fail_msg("%s: %zu groups first, up to %zu later", at->name, at->first, at->most);
        assert_true(at->launches > 1);
    }
    assert_in_range(kernels, sizeof plans / sizeof plans[0], KERNELS - 1);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(no_launch_is_wider_than_the_first),
    };
    return cmocka_run_group_tests_name("engine: widths", tests, open_engine, close_engine);
}
