/*
 * Burtsev 2025: the host side, see multiple_convolution.h.
 */
#include "bench/published/multiple_convolution.h"

#include <assert.h>
#include <fcntl.h>
#include <math.h>
#include <signal.h>
#include <spawn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "core/clock.h"
#include "core/random.h"
#include "signal/reference.h"

extern char **environ;

/* ---- the sequential program -------------------------------------------------------------- */

static uint32_t bit_reversed(uint32_t i, uint32_t bits)
{
    i = (i & 0x55555555) << 1 | (i & 0xAAAAAAAA) >> 1;
    i = (i & 0x33333333) << 2 | (i & 0xCCCCCCCC) >> 2;
    i = (i & 0x0F0F0F0F) << 4 | (i & 0xF0F0F0F0) >> 4;
    i = (i & 0x00FF00FF) << 8 | (i & 0xFF00FF00) >> 8;
    return (i << 16 | i >> 16) >> (32 - bits);
}

/* y = FFT(x), or IFFT(x) / n: bit-reversed copy, then stage by stage, factor by factor. */
static void sequential_fft(uint32_t n, const float *x, float *y, const float *w, bool forward)
{
    const uint32_t bits = log2_of(n);
    for (uint32_t i = 0; i < n; i++)
        memcpy(y + 2 * (size_t)bit_reversed(i, bits), x + 2 * (size_t)i, 2 * sizeof *y);
    for (uint32_t s = 1, d = n / 2; s < n; s *= 2, d /= 2)
        for (uint32_t k = 0; k < s; k++) {
            const float *factor = w + 2 * (size_t)(forward ? k * d : n - k * d);
            const float re = factor[0], im = factor[1];
            for (uint32_t a = k; a < n; a += 2 * s) {
                float *upper = y + 2 * (size_t)a, *lower = upper + 2 * (size_t)s;
                const float turned_re = lower[0] * re - lower[1] * im;
                const float turned_im = lower[0] * im + lower[1] * re;
                lower[0] = upper[0] - turned_re;
                lower[1] = upper[1] - turned_im;
                upper[0] += turned_re;
                upper[1] += turned_im;
            }
        }
    if (!forward)
        for (size_t i = 0; i < 2 * (size_t)n; i++)
            y[i] *= 1.0f / (float)n;
}

void convolution_sequential(uint32_t vectors, uint32_t n, const float *x, const float *y, float *g,
                            float *z, const float *w)
{
    const size_t step = 2 * (size_t)n;
    for (uint32_t v = 0; v < vectors; v++)
        sequential_fft(n, x + v * step, z + v * step, w, true);
    for (uint32_t v = 0; v < vectors; v++)
        sequential_fft(n, y + v * step, g + v * step, w, true);
    for (size_t i = 0; i < vectors * step; i += 2) {
        const float re = g[i] * z[i] - g[i + 1] * z[i + 1];
        g[i + 1] = g[i] * z[i + 1] + g[i + 1] * z[i];
        g[i] = re;
    }
    for (uint32_t v = 0; v < vectors; v++)
        sequential_fft(n, g + v * step, z + v * step, w, false);
}

int convolution_reference(uint32_t n, const float *x, const float *y, double *want, double *work)
{
    const size_t count = 2 * (size_t)n;
    double *other = work;
    assert(n >= 2);
    for (size_t i = 0; i < count; i++) {
        want[i] = (double)x[i];
        other[i] = (double)y[i];
    }
    int error = reference_fft(want, n, -1);
    if (error == 0)
        error = reference_fft(other, n, -1);
    for (size_t i = 0; error == 0 && i < count; i += 2) {
        const double re = want[i] * other[i] - want[i + 1] * other[i + 1];
        want[i + 1] = (want[i] * other[i + 1] + want[i + 1] * other[i]) / n;
        want[i] = re / n;
    }
    return error != 0 ? error : reference_fft(want, n, +1);
}

/* ---- the variants ------------------------------------------------------------------------ */

enum kernel {
    TRANSFORM,
    MULTIPLY,
    CONVOLVE,
    REVERSE,
    BUTTERFLIES,
    SCALE,
    MULTIPLY_POINTS,
    KERNELS
};

static const char *const kernel_names[KERNELS] = {
    [TRANSFORM] = "transform_vectors",     [MULTIPLY] = "multiply_vectors",
    [CONVOLVE] = "convolve_vectors",       [REVERSE] = "reverse_points",
    [BUTTERFLIES] = "butterflies",         [SCALE] = "scale_points",
    [MULTIPLY_POINTS] = "multiply_points",
};

enum buffer { X, Y, Z, G, W, BUFFERS };

struct convolution {
    struct lab *lab;
    uint32_t m, j, n;
    size_t bytes; /* of a matrix */
    cl_program program;
    cl_kernel kernels[KERNELS];
    cl_mem buffers[BUFFERS];
};

struct convolution *convolution_open(struct lab *lab, uint32_t m, uint32_t j, uint32_t n,
                                     uint32_t max_np)
{
    struct convolution *convolution = calloc(1, sizeof *convolution);
    float *w = malloc((n + 1ull) * 2 * sizeof *w);
    if (convolution == NULL || w == NULL) {
        lab->error = problem_set(&lab->problem, ERROR_MEMORY, "out of memory for %u factors", n);
        free(convolution);
        free(w);
        return NULL;
    }
    *convolution = (struct convolution){
        .lab = lab, .m = m, .j = j, .n = n, .bytes = (size_t)m * j * n * 2 * sizeof(float)};
    char options[64];
    snprintf(options, sizeof options, "-D NP=%u -D MAX_NP=%u", n, max_np);
    convolution->program = lab_program(lab, "published/multiple_convolution.cl", options);
    for (int k = 0; k < KERNELS; k++)
        convolution->kernels[k] = lab_kernel(lab, convolution->program, kernel_names[k]);
    for (int b = 0; b < W; b++)
        convolution->buffers[b] = lab_buffer(lab, convolution->bytes);
    convolution->buffers[W] = lab_buffer(lab, (n + 1ull) * 2 * sizeof *w);
    fill_factors(w, n, n + 1);
    lab_write(lab, convolution->buffers[W], w, (n + 1ull) * 2 * sizeof *w);
    free(w);
    if (lab_status(lab) == 0)
        return convolution;
    convolution_close(convolution);
    return NULL;
}

void convolution_close(struct convolution *convolution)
{
    if (convolution == NULL)
        return;
    lab_release_kernels(convolution->kernels, KERNELS);
    lab_release_buffers(convolution->buffers, BUFFERS);
    if (convolution->program != NULL)
        clReleaseProgram(convolution->program);
    free(convolution);
}

/* One transform of a whole matrix on the device, a work-item a vector. */
static void transform_vectors(struct convolution *c, enum buffer from, enum buffer to,
                              cl_uint forward)
{
    LAB_SET(c->lab, c->kernels[TRANSFORM], LAB_VALUE(c->j), LAB_VALUE(c->n), LAB_VALUE(forward),
            LAB_VALUE(c->buffers[from]), LAB_VALUE(c->buffers[to]), LAB_VALUE(c->buffers[W]));
    lab_launch(c->lab, c->kernels[TRANSFORM], 2, (const size_t[]){c->m, c->j}, NULL);
}

static void multiply_vectors(struct convolution *c)
{
    LAB_SET(c->lab, c->kernels[MULTIPLY], LAB_VALUE(c->j), LAB_VALUE(c->n),
            LAB_VALUE(c->buffers[G]), LAB_VALUE(c->buffers[Z]), LAB_VALUE(c->buffers[G]));
    lab_launch(c->lab, c->kernels[MULTIPLY], 2, (const size_t[]){c->m, c->j}, NULL);
}

/* The same, a work-item a point or butterfly. */
static void transform_points(struct convolution *c, enum buffer from, enum buffer to,
                             cl_uint forward)
{
    const size_t points[] = {c->n, c->m, c->j}, pairs[] = {c->n / 2, c->m, c->j};
    LAB_SET(c->lab, c->kernels[REVERSE], LAB_VALUE(c->n), LAB_VALUE(c->buffers[from]),
            LAB_VALUE(c->buffers[to]));
    lab_launch(c->lab, c->kernels[REVERSE], 3, points, NULL);
    for (cl_uint stage = 1; stage <= log2_of(c->n); stage++) {
        LAB_SET(c->lab, c->kernels[BUTTERFLIES], LAB_VALUE(stage), LAB_VALUE(c->n),
                LAB_VALUE(forward), LAB_VALUE(c->buffers[to]), LAB_VALUE(c->buffers[W]));
        lab_launch(c->lab, c->kernels[BUTTERFLIES], 3, pairs, NULL);
    }
    if (!forward) {
        LAB_SET(c->lab, c->kernels[SCALE], LAB_VALUE(c->n), LAB_VALUE(c->buffers[to]));
        lab_launch(c->lab, c->kernels[SCALE], 3, points, NULL);
    }
}

static void multiply_points(struct convolution *c)
{
    LAB_SET(c->lab, c->kernels[MULTIPLY_POINTS], LAB_VALUE(c->n), LAB_VALUE(c->buffers[G]),
            LAB_VALUE(c->buffers[Z]), LAB_VALUE(c->buffers[G]));
    lab_launch(c->lab, c->kernels[MULTIPLY_POINTS], 3, (const size_t[]){c->n, c->m, c->j}, NULL);
}

/* What tells the variants apart: their two steps, and whether each step carries its matrices. */
static const struct {
    void (*transform)(struct convolution *, enum buffer, enum buffer, cl_uint);
    void (*multiply)(struct convolution *);
    bool carries;
} variants[CONVOLUTION_VARIANTS] = {
    [CONVOLUTION_A] = {transform_vectors, multiply_vectors, true},
    [CONVOLUTION_B] = {transform_vectors, multiply_vectors, false},
    [CONVOLUTION_C] = {NULL, NULL, false},
    [CONVOLUTION_D] = {transform_points, multiply_points, true},
    [CONVOLUTION_E] = {transform_points, multiply_points, false},
};

uint32_t convolution_transfers(enum convolution_variant variant)
{
    return variants[variant].carries ? 9 : 3;
}

static void carried_transform(struct convolution *c, enum convolution_variant variant,
                              const float *from, float *to, cl_uint forward)
{
    lab_write(c->lab, c->buffers[X], from, c->bytes);
    variants[variant].transform(c, X, Z, forward);
    lab_read(c->lab, to, c->buffers[Z], c->bytes);
}

static void run_carrying(struct convolution *c, enum convolution_variant variant, const float *x,
                         const float *y, float *g, float *z)
{
    carried_transform(c, variant, x, z, 1);
    carried_transform(c, variant, y, g, 1);
    lab_write(c->lab, c->buffers[G], g, c->bytes);
    lab_write(c->lab, c->buffers[Z], z, c->bytes);
    variants[variant].multiply(c);
    lab_read(c->lab, g, c->buffers[G], c->bytes);
    carried_transform(c, variant, g, z, 0);
}

int convolution_run(struct convolution *c, enum convolution_variant variant, const float *x,
                    const float *y, float *g, float *z)
{
    if (variants[variant].carries) {
        run_carrying(c, variant, x, y, g, z);
        return lab_status(c->lab);
    }
    lab_write(c->lab, c->buffers[X], x, c->bytes);
    lab_write(c->lab, c->buffers[Y], y, c->bytes);
    if (variant == CONVOLUTION_C) {
        LAB_SET(c->lab, c->kernels[CONVOLVE], LAB_VALUE(c->j), LAB_VALUE(c->n),
                LAB_VALUE(c->buffers[X]), LAB_VALUE(c->buffers[Y]), LAB_VALUE(c->buffers[Z]),
                LAB_VALUE(c->buffers[W]));
        lab_launch(c->lab, c->kernels[CONVOLVE], 2, (const size_t[]){c->m, c->j}, NULL);
    } else {
        variants[variant].transform(c, X, Z, 1);
        variants[variant].transform(c, Y, G, 1);
        variants[variant].multiply(c);
        variants[variant].transform(c, G, Z, 0);
    }
    lab_read(c->lab, z, c->buffers[Z], c->bytes);
    return lab_status(c->lab);
}

/* ---- MAX_NP by trial --------------------------------------------------------------------- */

/* Whether a vector came out as defined. */
static bool vector_right(uint32_t n, const float *x, const float *got, double *work)
{
    double e2 = 0, want2 = 0;
    if (convolution_reference(n, x, x, work, work + 2 * (size_t)n) != 0)
        return false;
    for (size_t i = 0; i < 2 * (size_t)n; i++) {
        e2 += ((double)got[i] - work[i]) * ((double)got[i] - work[i]);
        want2 += work[i] * work[i];
    }
    return e2 <= 1e-10 * want2;
}

int convolution_try_np(struct lab *lab, uint32_t m, uint32_t j, uint32_t n, uint32_t max_np)
{
    const size_t values = (size_t)m * j * n * 2;
    float *x = calloc(values, sizeof *x), *z = calloc(values, sizeof *z);
    double *work = calloc(6 * (size_t)n, sizeof *work);
    int error = x == NULL || z == NULL || work == NULL ? ERROR_MEMORY : 0;
    struct convolution *convolution = NULL;
    if (error == 0) {
        struct random_state random = {n};
        for (size_t i = 0; i < values; i++)
            x[i] = (float)(2 * random_unit(&random) - 1);
        convolution = convolution_open(lab, m, j, n, max_np);
        error = lab_status(lab);
    }
    static const enum convolution_variant tried[] = {CONVOLUTION_B, CONVOLUTION_C};
    for (int t = 0; error == 0 && convolution != NULL && t < 2; t++) {
        error = convolution_run(convolution, tried[t], x, x, z, z);
        const size_t last = ((size_t)m * j - 1) * n * 2;
        if (error == 0 &&
            !(vector_right(n, x, z, work) && vector_right(n, x + last, z + last, work)))
            error = ERROR_ACCURACY;
    }
    convolution_close(convolution);
    free(x);
    free(z);
    free(work);
    return error;
}

static bool child_succeeds(const char *program, const char *device, const char *threads,
                           const char *shape)
{
    char line[4][64] = {"--try-np", "", "--device", "--threads"};
    snprintf(line[1], sizeof line[1], "%s", shape);
    char *const arguments[] = {
        (char *)(uintptr_t)program, line[0], line[1], line[2], (char *)(uintptr_t)device, line[3],
        (char *)(uintptr_t)threads, NULL};
    posix_spawn_file_actions_t actions;
    pid_t child;
    if (posix_spawn_file_actions_init(&actions) != 0)
        return false;
    posix_spawn_file_actions_addopen(&actions, STDERR_FILENO, "/dev/null", O_WRONLY, 0);
    const int error = posix_spawn(&child, program, &actions, NULL, arguments, environ);
    posix_spawn_file_actions_destroy(&actions);
    if (error != 0)
        return false;
    const int64_t limit_ns = clock_monotonic_ns() + 30 * NS_PER_SECOND;
    int status = 0;
    while (waitpid(child, &status, WNOHANG) == 0) {
        if (clock_monotonic_ns() > limit_ns)
            kill(child, SIGKILL);
        nanosleep(&(struct timespec){.tv_nsec = 5 * NS_PER_MS}, NULL);
    }
    return WIFEXITED(status) && WEXITSTATUS(status) == 0;
}

uint32_t convolution_find_max_np(const char *program, const char *device, const char *threads,
                                 uint32_t m, uint32_t j, uint32_t n)
{
    for (uint32_t max_np = 2 * n; max_np >= n; max_np /= 2) {
        char shape[64];
        snprintf(shape, sizeof shape, "%u,%u,%u,%u", m, j, n, max_np);
        if (child_succeeds(program, device, threads, shape))
            return max_np;
    }
    return 0;
}
