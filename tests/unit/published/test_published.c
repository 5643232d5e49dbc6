/*
 * The published systems against the definition in double precision, at small sizes: every variant
 * of the two Burtsev papers, the three forms of direct convolution, the book's 2-D pipeline on an
 * image and on a sensor-array record, and the vector-width probe at every width and type. And what
 * the report says of cells that were kept and read again.
 *
 * sanitizers: no, the programs of the benches, which no user's input reaches
 * long: yes, no mutant needs it
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "bench/published/cells.h"
#include "bench/published/direct_convolution.h"
#include "bench/published/multiple_convolution.h"
#include "bench/published/pipeline_2d.h"
#include "bench/published/report.h"
#include "bench/published/single_fft.h"
#include "bench/published/vector_width.h"
#include "core/random.h"
#include "signal/reference.h"

/* ||e||2 / ||want||2 of float transforms with rounded factors, forth and back. */
static const double error_allowed = 1e-6;

static struct lab lab;

static void expect_working(const char *what)
{
    if (lab_status(&lab) != 0)
        fail_msg("%s: %s", what, lab.problem.text);
}

static float *noise(size_t count, uint64_t seed)
{
    struct random_state random = {seed};
    float *values = malloc(count * sizeof *values);
    assert_non_null(values);
    for (size_t i = 0; i < count; i++)
        values[i] = (float)(2 * random_unit(&random) - 1);
    return values;
}

static void expect_close(const char *what, const float *got, const double *want, size_t count)
{
    struct error_bound bound;
    (void)error_bound_check(got, 1, want, count, 0, 0, 0, &bound);
    if (!(bound.e2 <= error_allowed * bound.want2))
        fail_msg("%s: ||e||/||y|| = %g, allowed %g", what, bound.e2 / bound.want2, error_allowed);
}

/* ---- Burtsev 2025 ------------------------------------------------------------------------ */

static void multiple_convolution(void **state)
{
    (void)state;
    static const struct {
        uint32_t m, j, n, max_np; /* max_np: both vectors private, one, none */
    } shapes[] = {{3, 2, 32, 64}, {2, 5, 64, 64}, {2, 3, 512, 64}};
    for (size_t s = 0; s < sizeof shapes / sizeof shapes[0]; s++) {
        const uint32_t vectors = shapes[s].m * shapes[s].j, n = shapes[s].n;
        const size_t count = (size_t)vectors * n * 2;
        float *x = noise(count, s), *y = noise(count, s + 100), *g = noise(count, 0);
        float *z = noise(count, 0), *w = malloc((n + 1) * 2 * sizeof *w);
        double *want = malloc(count * sizeof *want), *work = malloc(4 * (size_t)n * sizeof *work);
        assert_non_null(w);
        assert_non_null(want);
        assert_non_null(work);
        for (uint32_t v = 0; v < vectors; v++)
            assert_int_equal(
                convolution_reference(n, x + v * 2 * n, y + v * 2 * n, want + v * 2 * n, work), 0);
        fill_factors(w, n, n + 1);
        convolution_sequential(vectors, n, x, y, g, z, w);
        expect_close("the sequential program", z, want, count);

        struct convolution *convolution =
            convolution_open(&lab, shapes[s].m, shapes[s].j, n, shapes[s].max_np);
        expect_working("opening");
        for (int v = 0; v < CONVOLUTION_VARIANTS; v++) {
            memset(z, 0, count * sizeof *z);
            convolution_run(convolution, (enum convolution_variant)v, x, y, g, z);
            char what[80];
            snprintf(what, sizeof what, "variant %c, %ux%u, N %u, MAX_NP %u", 'A' + v, shapes[s].m,
                     shapes[s].j, n, shapes[s].max_np);
            expect_working(what);
            expect_close(what, z, want, count);
        }
        convolution_close(convolution);
        free(x), free(y), free(g), free(z), free(w), free(want), free(work);
    }
}

/* The definition of the circular convolution itself, for the reference above. */
static void reference_is_circular_convolution(void **state)
{
    (void)state;
    enum { N = 16 };
    float *x = noise(2 * N, 1), *y = noise(2 * N, 2);
    double want[2 * N] = {0}, got[2 * N], work[4 * N];
    for (int i = 0; i < N; i++)
        for (int k = 0; k < N; k++) {
            const double xr = (double)x[2 * k], xi = (double)x[2 * k + 1];
            const int l = (i - k + N) % N;
            const double yr = (double)y[2 * l], yi = (double)y[2 * l + 1];
            want[2 * i] += xr * yr - xi * yi;
            want[2 * i + 1] += xr * yi + xi * yr;
        }
    assert_int_equal(convolution_reference(N, x, y, got, work), 0);
    for (int i = 0; i < 2 * N; i++)
        assert_true(want[i] - got[i] < 1e-12 && got[i] - want[i] < 1e-12);
    free(x), free(y);
}

/* ---- Burtsev 2022 ------------------------------------------------------------------------ */

static void single_fft(void **state)
{
    (void)state;
    const size_t group_max = lab.group_max;
    /* Small groups bring the second phases in at small sizes. */
    static const struct {
        uint32_t log2_n;
        size_t group;
        uint32_t able; /* bit v: variant v can */
    } shapes[] = {
        {8, 128, 0xff},
        {10, 16, 0xf9},
        {13, 32, 0x99},
    };
    for (size_t s = 0; s < sizeof shapes / sizeof shapes[0]; s++) {
        const uint32_t n = 1u << shapes[s].log2_n;
        float *y = noise(2 * (size_t)n, s), *x = noise(2 * (size_t)n, 0);
        float *w = malloc(n * sizeof *w);
        double *want = malloc(2 * (size_t)n * sizeof *want);
        assert_non_null(w);
        assert_non_null(want);
        for (size_t i = 0; i < 2 * (size_t)n; i++)
            want[i] = (double)y[i];
        assert_int_equal(reference_fft(want, n, -1), 0);
        fill_factors(w, n, n / 2);
        fft_sequential(n, y, x, w);
        expect_close("the sequential program", x, want, 2 * (size_t)n);

        lab.group_max = shapes[s].group < group_max ? shapes[s].group : group_max;
        lab.fft_group_stages = 0; /* the group is another: measured again */
        struct fft *fft = fft_open(&lab, n);
        expect_working("opening");
        for (int v = 0; v < FFT_VARIANTS; v++) {
            char what[80], reason[80] = "";
            snprintf(what, sizeof what, "variant %s, N 2^%u, groups of %zu",
                     fft_variant_name((enum fft_variant)v), shapes[s].log2_n, lab.group_max);
            const bool can = fft_can(fft, (enum fft_variant)v, reason, sizeof reason);
            if (lab.group_max == shapes[s].group && can != (shapes[s].able >> v & 1))
                fail_msg("%s: %s (%s)", what, can ? "can, but should not" : "cannot", reason);
            if (!can)
                continue;
            memset(x, 0, 2 * (size_t)n * sizeof *x);
            fft_run(fft, (enum fft_variant)v, y, x);
            expect_working(what);
            expect_close(what, x, want, 2 * (size_t)n);
        }
        fft_close(fft);
        free(y), free(x), free(w), free(want);
    }
    lab.group_max = group_max;
}

/* ---- direct convolution ------------------------------------------------------------------ */

static void direct_convolution(void **state)
{
    (void)state;
    static const struct {
        uint32_t n, m;
    } shapes[] = {{1, 1}, {100, 8}, {7, 64}, {1000, 511}, {20000, 16}};
    for (size_t s = 0; s < sizeof shapes / sizeof shapes[0]; s++) {
        const uint32_t n = shapes[s].n, m = shapes[s].m;
        const size_t count = (size_t)n + m - 1;
        float *x = noise(n, s), *h = noise(m, s + 100), *y = noise(count, 0);
        double *xd = malloc(n * sizeof *xd), *hd = malloc(m * sizeof *hd);
        double *want = malloc(count * sizeof *want);
        assert_true(xd != NULL && hd != NULL && want != NULL);
        for (uint32_t i = 0; i < n; i++)
            xd[i] = (double)x[i];
        for (uint32_t i = 0; i < m; i++)
            hd[i] = (double)h[i];
        reference_convolve_direct(xd, n, hd, m, want);
        direct_sequential(x, n, h, m, y);
        expect_close("the sequential program", y, want, count);
        struct direct *direct = direct_open(&lab, n, m);
        expect_working("opening");
        for (int v = 0; v < DIRECT_VARIANTS; v++) {
            char what[80];
            snprintf(what, sizeof what, "%s, N %u, M %u",
                     direct_variant_name((enum direct_variant)v), n, m);
            memset(y, 0, count * sizeof *y);
            direct_run(direct, (enum direct_variant)v, x, n, h, m, y);
            expect_working(what);
            expect_close(what, y, want, count);
        }
        direct_close(direct);
        free(x), free(h), free(y), free(xd), free(hd), free(want);
    }
}

/* ---- the book's pipeline ----------------------------------------------------------------- */

static void pipeline(void **state)
{
    (void)state;
    static const struct {
        uint32_t width, rows, local;
        struct pipeline_mask mask;
    } shapes[] = {
        {64, 64, 1, {.radius = 8}},
        {64, 64, 32, {.radius = 0}},
        {128, 128, 16, {.radius = 16}},
        {256, 32, 8, {.fan = true, .slowest = 0.3f, .fastest = 0.7f}},
        {16, 128, 4, {.fan = true, .slowest = 0.11f, .fastest = 2.3f}},
    };
    for (size_t s = 0; s < sizeof shapes / sizeof shapes[0]; s++) {
        const uint32_t width = shapes[s].width, rows = shapes[s].rows;
        const size_t count = (size_t)width * rows * 2;
        float *points = noise(count, s);
        double *want = malloc(count * sizeof *want);
        assert_non_null(want);
        for (size_t i = 0; i < count; i++)
            want[i] = (double)points[i];
        assert_int_equal(pipeline_reference(width, rows, &shapes[s].mask, want), 0);
        struct pipeline *pipeline = pipeline_open(&lab, width, rows);
        expect_working("opening");
        assert_true(pipeline_local_max(pipeline) >= shapes[s].local);
        int64_t times[PIPELINE_PROCESSES_COUNT];
        lab.profiling = true;
        pipeline_run(pipeline, &shapes[s].mask, shapes[s].local, points, times);
        lab.profiling = false;
        char what[80];
        snprintf(what, sizeof what, "%ux%u, groups of %u", width, rows, shapes[s].local);
        expect_working(what);
        expect_close(what, points, want, count);
        for (int p = 0; p < PIPELINE_PROCESSES_COUNT; p++)
            if (times[p] <= 0)
                fail_msg("%s: no time for %s", what,
                         pipeline_process_name((enum pipeline_process)p));
        pipeline_close(pipeline);
        free(points), free(want);
    }
}

/* A plane wave inside the fan stays what it is; the same wave outside of it vanishes. */
static void fan_keeps_waves_of_its_velocities(void **state)
{
    (void)state;
    enum { WIDTH = 128, ROWS = 32 };
    static const struct {
        float slowest, fastest;
        double remains;
    } fans[] = {{0.5f, 2.0f, 1}, {2.0f, 4.0f, 0}, {0.1f, 0.5f, 0}};
    for (size_t f = 0; f < sizeof fans / sizeof fans[0]; f++) {
        /* 16 cycles in 128 frames, 4 in 32 channels: 1 channel a frame. */
        float points[WIDTH * ROWS * 2];
        double want[WIDTH * ROWS * 2];
        float w[WIDTH * 2];
        fill_factors(w, WIDTH, WIDTH);
        for (int y = 0; y < ROWS; y++)
            for (int x = 0; x < WIDTH; x++) {
                const int at = (y * WIDTH + x) * 2, phase = (16 * x - 16 * y + 16 * ROWS) % WIDTH;
                points[at] = w[2 * phase];
                points[at + 1] = 0;
                want[at] = fans[f].remains * (double)points[at];
                want[at + 1] = 0;
            }
        struct pipeline *pipeline = pipeline_open(&lab, WIDTH, ROWS);
        expect_working("opening");
        const struct pipeline_mask mask = {
            .fan = true, .slowest = fans[f].slowest, .fastest = fans[f].fastest};
        pipeline_run(pipeline, &mask, 8, points, NULL);
        expect_working("fan");
        for (int i = 0; i < WIDTH * ROWS * 2; i++)
            if ((double)points[i] - want[i] > 2e-6 || want[i] - (double)points[i] > 2e-6)
                fail_msg("fan %g … %g: value %d is %g, not %g", (double)fans[f].slowest,
                         (double)fans[f].fastest, i, (double)points[i], want[i]);
        pipeline_close(pipeline);
    }
}

/* ---- the vector-width probe -------------------------------------------------------------- */

static void vector_width(void **state)
{
    (void)state;
    enum { ROWS = 5, ROW_VALUES = 48, COUNT = ROWS * ROW_VALUES };
    struct random_state random = {1};
    union {
        float f32[COUNT];
        int32_t s32[COUNT];
        int16_t s16[COUNT];
    } in[3], out;
    for (int type = 0; type < WIDTH_TYPES; type++) {
        for (int k = 0; k < 3; k++)
            for (int i = 0; i < COUNT; i++) {
                const uint64_t bits = random_u64(&random);
                if (type == WIDTH_FLOAT)
                    in[k].f32[i] = (float)(bits >> 40) * 0x1p-24f;
                else if (type == WIDTH_INT)
                    in[k].s32[i] = (int32_t)bits;
                else
                    in[k].s16[i] = (int16_t)bits;
            }
        for (uint32_t vector = 1; vector <= WIDTH_LARGEST; vector *= 2) {
            struct width *width = width_open(&lab, (enum width_type)type, vector, ROWS, ROW_VALUES);
            expect_working("opening");
            memset(&out, 0, sizeof out);
            width_write(width, &in[0], &in[1], &in[2]);
            width_run(width);
            width_read(width, &out);
            expect_working(width_type_name((enum width_type)type));
            for (size_t i = 0; i < COUNT; i++) {
                const double want =
                    width_expected((enum width_type)type, &in[0], &in[1], &in[2], i);
                const double got = width_value((enum width_type)type, &out, i);
                if (got - want > 1e-6 || want - got > 1e-6)
                    fail_msg("%s%u: value %zu is %g, not %g",
                             width_type_name((enum width_type)type), vector, i, got, want);
            }
            width_close(width);
        }
    }
}

static int open_device(void **state)
{
    (void)state;
    const char *device = getenv("CONVOLVD_TEST_DEVICE");
    return lab_open(&lab, device != NULL ? device : "auto", 0, getenv("CONVOLVD_TEST_CACHE"));
}

static int close_device(void **state)
{
    (void)state;
    lab_close(&lab);
    return 0;
}

/* ---- cells and report -------------------------------------------------------------------- */

static void report_of_kept_cells(void **state)
{
    (void)state;
    static const struct cell given[] = {
        {.system = "convolution",
         .variant = "C",
         .m = 20,
         .n = 512,
         .baseline_ns = 9000,
         .total_ns = 900,
         .kernel_ns = 600,
         .error = 1e-7},
        {.system = "convolution",
         .variant = "convolvd",
         .m = 20,
         .n = 512,
         .baseline_ns = 9000,
         .total_ns = 750,
         .kernel_ns = 20,
         .resident_ns = 60,
         .steady_ns = 30,
         .error = 2e-7},
    };
    static const char *const expect[] = {
        "convolvd's launches are ahead of C's launches** by 30 times",
        "batch in device memory, submitted to completed, is ahead of C's launches** by 10 times",
        "while several are in flight is ahead of C's launches** by 20 times",
        "1.5 times ahead**: convolution M 20 N 512 (1.20 of C)",
    };
    char path[] = "/tmp/convolvd-cells-XXXXXX", *text = NULL;
    size_t bytes = 0;
    struct problem problem;
    struct report report = {.device = "gpu", .out = open_memstream(&text, &bytes)};
    close(mkstemp(path));
    unlink(path);
    assert_int_equal(cells_open(&report.cells, path, "a device", &problem), 0);
    for (size_t i = 0; i < sizeof given / sizeof given[0]; i++)
        assert_int_equal(cells_add(&report.cells, &given[i], &problem), 0);
    cells_close(&report.cells);
    assert_int_equal(cells_open(&report.cells, path, NULL, &problem), 0);
    assert_int_equal(report.cells.count, 2);
    assert_int_equal(report_findings(&report), 0);
    fclose(report.out);
    for (size_t i = 0; i < sizeof expect / sizeof expect[0]; i++)
        if (strstr(text, expect[i]) == NULL)
            fail_msg("\"%s\" is not in: %s", expect[i], text);
    cells_close(&report.cells);
    unlink(path);
    free(text);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(reference_is_circular_convolution),
        cmocka_unit_test(multiple_convolution),
        cmocka_unit_test(single_fft),
        cmocka_unit_test(direct_convolution),
        cmocka_unit_test(pipeline),
        cmocka_unit_test(fan_keeps_waves_of_its_velocities),
        cmocka_unit_test(vector_width),
        cmocka_unit_test(report_of_kept_cells),
    };
    return cmocka_run_group_tests(tests, open_device, close_device);
}
