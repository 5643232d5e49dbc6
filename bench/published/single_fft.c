/*
 * Burtsev 2022: the host side, see single_fft.h. A variant is a list of passes, each of which
 * does some of the P stages of butterflies in one launch (or, for `STAGES`, one launch a stage).
 */
#include "bench/published/single_fft.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/random.h"

enum kernel { REVERSE, STAGE, GROUPED, GROUPED_LOCAL, CHAINED_LOCAL, PRIVATE, KERNELS };

static const char *const kernel_names[KERNELS] = {
    [REVERSE] = "bit_reverse",
    [STAGE] = "one_stage",
    [GROUPED] = "grouped_stages",
    [GROUPED_LOCAL] = "grouped_stages_local",
    [CHAINED_LOCAL] = "chained_stages_local",
    [PRIVATE] = "private_stages",
};

enum buffer { X, Y, W, REVERSED, BUFFERS };

enum { PASSES_MAX = 4, PRIVATE_STAGES = 4 };

/* The largest relative error of a known answer: float results of up to 24 stages are 1e-6 apart. */
static const double known_answer_error = 1e-5;

/* A variant's passes in order; each takes as many of the remaining stages as it can, STAGE all. */
static const struct {
    const char *name;
    bool one_group; /* every stage in one work-group: N/2 at most its size */
    int count;
    enum kernel passes[PASSES_MAX];
} variants[FFT_VARIANTS] = {
    [FFT_A] = {"A", false, 1, {STAGE}},
    [FFT_B] = {"B", true, 1, {GROUPED}},
    [FFT_BL] = {"B^L", true, 1, {GROUPED_LOCAL}},
    [FFT_C] = {"C", false, 2, {GROUPED, STAGE}},
    [FFT_CL] = {"C^L", false, 2, {GROUPED_LOCAL, STAGE}},
    [FFT_D] = {"D", false, 2, {GROUPED_LOCAL, CHAINED_LOCAL}},
    [FFT_E] = {"E", false, 3, {PRIVATE, GROUPED_LOCAL, CHAINED_LOCAL}},
    [FFT_F] = {"F", false, 4, {PRIVATE, CHAINED_LOCAL, CHAINED_LOCAL, STAGE}},
};

struct fft {
    struct lab *lab;
    uint32_t n, log2_n;
    uint32_t group_stages; /* PW = log2 of the largest work-group + 1 */
    cl_program program;
    cl_kernel kernels[KERNELS];
    cl_mem buffers[BUFFERS];
};

const char *fft_variant_name(enum fft_variant variant)
{
    return variants[variant].name;
}

static uint32_t bit_reversed(uint32_t i, uint32_t bits)
{
    uint32_t reversed = 0;
    for (uint32_t b = 0; b < bits; b++)
        reversed |= (i >> b & 1) << (bits - 1 - b);
    return reversed;
}

void fft_sequential(uint32_t n, const float *y, float *x, const float *w)
{
    const uint32_t bits = log2_of(n);
    for (uint32_t i = 0; i < n; i++)
        memcpy(x + 2 * (size_t)bit_reversed(i, bits), y + 2 * (size_t)i, 2 * sizeof *x);
    for (uint32_t s = 1, d = n / 2; s < n; s *= 2, d /= 2)
        for (uint32_t k = 0; k < s; k++) {
            const float re = w[2 * (size_t)k * d], im = w[2 * (size_t)k * d + 1];
            for (uint32_t a = k; a < n; a += 2 * s) {
                float *upper = x + 2 * (size_t)a, *lower = upper + 2 * (size_t)s;
                const float turned_re = lower[0] * re - lower[1] * im;
                const float turned_im = lower[0] * im + lower[1] * re;
                lower[0] = upper[0] - turned_re;
                lower[1] = upper[1] - turned_im;
                upper[0] += turned_re;
                upper[1] += turned_im;
            }
        }
}

/* PW of a group of `items`, halved until its points fit the device's local memory. */
static uint32_t stages_of(const struct fft *fft, size_t items)
{
    cl_ulong local_bytes = 0;
    clGetDeviceInfo(fft->lab->found.device, CL_DEVICE_LOCAL_MEM_SIZE, sizeof local_bytes,
                    &local_bytes, NULL);
    while (items > 1 && items * 4 * sizeof(float) > local_bytes)
        items /= 2;
    return log2_of((uint32_t)items) + 1;
}

/* PW by the largest group that the driver reports for every grouped kernel. */
static uint32_t reported_stages(const struct fft *fft)
{
    size_t largest = fft->lab->group_max;
    for (int k = GROUPED; k <= CHAINED_LOCAL; k++) {
        size_t bound = 0;
        if (clGetKernelWorkGroupInfo(fft->kernels[k], fft->lab->found.device,
                                     CL_KERNEL_WORK_GROUP_SIZE, sizeof bound, &bound,
                                     NULL) == CL_SUCCESS &&
            bound < largest)
            largest = bound;
    }
    return stages_of(fft, largest);
}

static struct fft *open_with(struct lab *lab, uint32_t n, uint32_t group_stages)
{
    struct fft *fft = calloc(1, sizeof *fft);
    float *w = malloc((size_t)n * sizeof *w);
    uint32_t *reversed = malloc((size_t)n * sizeof *reversed);
    if (fft == NULL || w == NULL || reversed == NULL) {
        lab->error = problem_set(&lab->problem, ERROR_MEMORY, "out of memory for %u points", n);
        free(fft);
        free(w);
        free(reversed);
        return NULL;
    }
    *fft = (struct fft){.lab = lab, .n = n, .log2_n = log2_of(n)};
    fft->program = lab_program(lab, "published/single_fft.cl", "");
    for (int k = 0; k < KERNELS; k++)
        fft->kernels[k] = lab_kernel(lab, fft->program, kernel_names[k]);
    fft->buffers[X] = lab_buffer(lab, (size_t)n * 2 * sizeof(float));
    fft->buffers[Y] = lab_buffer(lab, (size_t)n * 2 * sizeof(float));
    fft->buffers[W] = lab_buffer(lab, (size_t)n * sizeof *w);
    fft->buffers[REVERSED] = lab_buffer(lab, (size_t)n * sizeof *reversed);
    fill_factors(w, n, n / 2);
    for (uint32_t i = 0; i < n; i++)
        reversed[i] = bit_reversed(i, fft->log2_n);
    lab_write(lab, fft->buffers[W], w, (size_t)n * sizeof *w);
    lab_write(lab, fft->buffers[REVERSED], reversed, (size_t)n * sizeof *reversed);
    free(w);
    free(reversed);
    if (lab_status(lab) != 0) {
        fft_close(fft);
        return NULL;
    }
    fft->group_stages = group_stages != 0 ? group_stages : reported_stages(fft);
    return fft;
}

/* Whether `variant` computes n points right with groups of 2^(group_stages - 1) items. */
static bool known_answer(struct lab *lab, enum fft_variant variant, uint32_t n,
                         uint32_t group_stages)
{
    float *y = malloc((size_t)n * 2 * sizeof *y), *x = malloc((size_t)n * 2 * sizeof *x);
    float *want = malloc((size_t)n * 2 * sizeof *want), *w = malloc((size_t)n * sizeof *w);
    struct fft *fft = open_with(lab, n, group_stages);
    bool right = y != NULL && x != NULL && want != NULL && w != NULL && fft != NULL;
    if (right) {
        struct random_state random = {n};
        for (size_t i = 0; i < 2 * (size_t)n; i++)
            y[i] = (float)(2 * random_unit(&random) - 1);
        fill_factors(w, n, n / 2);
        fft_sequential(n, y, want, w);
        right = fft_run(fft, variant, y, x) == 0;
    }
    double error2 = 0, want2 = 0;
    for (size_t i = 0; right && i < 2 * (size_t)n; i++) {
        const double error = (double)x[i] - (double)want[i];
        error2 += error * error;
        want2 += (double)want[i] * (double)want[i];
    }
    fft_close(fft);
    free(y), free(x), free(want), free(w);
    if (lab_status(lab) != 0)
        lab_recover(lab);
    return right && error2 <= known_answer_error * known_answer_error * want2;
}

/*
 * PW of this device. NVIDIA's driver reports at most 256 items for a kernel without
 * `reqd_work_group_size`, and runs groups up to the device's maximum all the same. OpenCL forbids
 * such a launch, so a larger group is taken only after B, B^L and D have computed a known answer
 * with it: one group of B, and both grouped kernels of D at the largest N that D then reaches.
 */
static uint32_t proven_stages(struct lab *lab, uint32_t reported, uint32_t device)
{
    for (uint32_t stages = device; stages > reported; stages--) {
        const uint32_t reach = 2 * stages < FFT_LOG2_MAX ? 2 * stages : FFT_LOG2_MAX;
        if (known_answer(lab, FFT_B, 1u << stages, stages) &&
            known_answer(lab, FFT_BL, 1u << stages, stages) &&
            known_answer(lab, FFT_D, 1u << reach, stages))
            return stages;
    }
    return reported;
}

struct fft *fft_open(struct lab *lab, uint32_t n)
{
    if (lab->fft_group_stages == 0) {
        struct fft *smallest = open_with(lab, 1u << FFT_LOG2_MIN, 0);
        if (smallest == NULL)
            return NULL;
        const uint32_t reported = smallest->group_stages;
        const uint32_t device = stages_of(smallest, lab->group_max);
        fft_close(smallest);
        lab->fft_group_stages = proven_stages(lab, reported, device);
        if (lab_status(lab) != 0)
            return NULL;
    }
    return open_with(lab, n, lab->fft_group_stages);
}

void fft_close(struct fft *fft)
{
    if (fft == NULL)
        return;
    lab_release_kernels(fft->kernels, KERNELS);
    lab_release_buffers(fft->buffers, BUFFERS);
    if (fft->program != NULL)
        clReleaseProgram(fft->program);
    free(fft);
}

/* How many of the `left` stages a pass does after `done` are done. */
static uint32_t pass_stages(const struct fft *fft, enum kernel kernel, uint32_t done)
{
    const uint32_t left = fft->log2_n - done;
    uint32_t most = left;
    switch (kernel) {
    case PRIVATE:
        most = PRIVATE_STAGES;
        break;
    case GROUPED:
    case GROUPED_LOCAL: /* on consecutive points: the first stages are the private pass's */
        most = fft->group_stages - done;
        break;
    case CHAINED_LOCAL:
        most = fft->group_stages;
        break;
    default:
        break;
    }
    return most < left ? most : left;
}

bool fft_can(const struct fft *fft, enum fft_variant variant, char *reason, size_t reason_bytes)
{
    if (variants[variant].one_group && fft->log2_n > fft->group_stages) {
        snprintf(reason, reason_bytes, "a work-group has at most %u items",
                 1u << (fft->group_stages - 1));
        return false;
    }
    uint32_t done = 0;
    for (int p = 0; p < variants[variant].count; p++)
        done += pass_stages(fft, variants[variant].passes[p], done);
    if (done < fft->log2_n)
        snprintf(reason, reason_bytes, "its launches reach %u of %u stages", done, fft->log2_n);
    return done == fft->log2_n;
}

static void launch_pass(struct fft *fft, enum kernel kernel, cl_uint first, cl_uint last)
{
    struct lab *lab = fft->lab;
    cl_kernel k = fft->kernels[kernel];
    const size_t pairs = fft->n / 2;
    size_t group;
    switch (kernel) {
    case STAGE:
        for (cl_uint stage = first; stage <= last; stage++) {
            LAB_SET(lab, k, LAB_VALUE(fft->n), LAB_VALUE(fft->buffers[X]),
                    LAB_VALUE(fft->buffers[W]), LAB_VALUE(stage));
            lab_launch(lab, k, 1, &pairs, NULL);
        }
        break;
    case GROUPED:
        group = (size_t)1 << (last - 1);
        LAB_SET(lab, k, LAB_VALUE(fft->n), LAB_VALUE(fft->buffers[X]), LAB_VALUE(fft->buffers[W]),
                LAB_VALUE(last));
        lab_launch(lab, k, 1, &pairs, &group);
        break;
    case GROUPED_LOCAL:
        group = (size_t)1 << (last - 1);
        LAB_SET(lab, k, LAB_VALUE(fft->n), LAB_VALUE(fft->buffers[X]), LAB_VALUE(fft->buffers[W]),
                LAB_VALUE(first), LAB_VALUE(last), LAB_LOCAL(group * 4 * sizeof(float)));
        lab_launch(lab, k, 1, &pairs, &group);
        break;
    case CHAINED_LOCAL:
        group = (size_t)1 << (last - first);
        LAB_SET(lab, k, LAB_VALUE(fft->n), LAB_VALUE(fft->buffers[X]), LAB_VALUE(fft->buffers[W]),
                LAB_VALUE(first), LAB_VALUE(last), LAB_LOCAL(group * 4 * sizeof(float)));
        lab_launch(lab, k, 1, &pairs, &group);
        break;
    case PRIVATE:
        LAB_SET(lab, k, LAB_VALUE(fft->n), LAB_VALUE(fft->buffers[X]), LAB_VALUE(fft->buffers[W]));
        lab_launch(lab, k, 1, (const size_t[]){fft->n >> PRIVATE_STAGES}, NULL);
        break;
    default:
        break;
    }
}

int fft_run(struct fft *fft, enum fft_variant variant, const float *y, float *x)
{
    struct lab *lab = fft->lab;
    const size_t bytes = (size_t)fft->n * 2 * sizeof *x, points = fft->n;
    lab_write(lab, fft->buffers[Y], y, bytes);
    LAB_SET(lab, fft->kernels[REVERSE], LAB_VALUE(fft->buffers[X]), LAB_VALUE(fft->buffers[Y]),
            LAB_VALUE(fft->buffers[REVERSED]));
    lab_launch(lab, fft->kernels[REVERSE], 1, &points, NULL);
    uint32_t done = 0;
    for (int p = 0; p < variants[variant].count; p++) {
        const enum kernel kernel = variants[variant].passes[p];
        const uint32_t stages = pass_stages(fft, kernel, done);
        if (stages > 0)
            launch_pass(fft, kernel, done + 1, done + stages);
        done += stages;
    }
    lab_read(lab, x, fft->buffers[X], bytes);
    return lab_status(lab);
}
