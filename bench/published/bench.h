/*
 * What the runs of bench_published share: the state of a run, its cells, and the rules of
 * repetition. run_convolution.c, run_fft.c, run_direct.c and run_probes.c hold one function a
 * system.
 *
 * One thread.
 */
#ifndef CONVOLVD_BENCH_PUBLISHED_BENCH_H
#define CONVOLVD_BENCH_PUBLISHED_BENCH_H

#include "bench/published/cells.h"
#include "bench/published/lab.h"
#include "bench/published/production.h"
#include "core/random.h"

enum { REPETITIONS_MAX = 15 };

struct bench {
    const char *device, *threads, *cache_dir;
    const char
        *ways; /* variants of convolvd to measure beside its choice, with commas; NULL: none */
    uint32_t streams; /* see production.h; a cell of convolvd is the share of one */
    struct production_probes probes;
    uint64_t points_max; /* M·J·N */
    int64_t cell_ns;     /* repetitions of a cell end after this long */
    int64_t deadline_ns;
    struct lab lab;
    struct cells cells;
    struct random_state random;
    uint32_t wrong;
    struct problem problem;
};

/* All cells of one shape of one system: what opens once. */
struct group {
    enum { CONVOLUTION, FFT, DIRECT, PIPELINE, WIDTH } system;
    uint32_t m, n, part;
    double weight; /* relative cost, for the time left */
};

/* Each measures the cells of a group that are missing. 0, or an error in bench->problem. */
int run_convolution(struct bench *bench, const struct group *group);
int run_fft(struct bench *bench, const struct group *group);
int run_direct(struct bench *bench, const struct group *group);
int run_pipeline(struct bench *bench, const struct group *group);
int run_width(struct bench *bench, const struct group *group);

struct samples {
    double ns[REPETITIONS_MAX];
    int count;
};

/* The figure of repetitions: the fastest, which other work on the machine disturbed least; 0 when
 * empty. */
double samples_least(const struct samples *samples);

/* Uniform in -1 … 1; NULL without memory. */
float *bench_noise(struct bench *bench, size_t count);

/* ||got - want||2 / ||want||2 */
double relative_error(const float *got, const double *want, size_t count);

struct cell cell_of(const char *system, const char *variant, const char *part, uint32_t m,
                    uint32_t n);
bool cell_done(const struct bench *bench, const struct cell *cell);

/* Keeps the cell; one whose error is too large is counted and told. */
int cell_add(struct bench *bench, struct cell *cell);

/* The launch failed: the reason is the cell, the device starts again. */
void cell_failed(struct bench *bench, struct cell *cell);

/* Repeats `once` until the time of a cell is over, and three times more with profiling; `first_ns`
 * is what it took unmeasured: a slow one is repeated once and not profiled, a very slow one not
 * repeated. */
void cell_repeat(struct bench *bench, struct cell *cell, int64_t first_ns, void (*once)(void *),
                 void *context);

/* The cell of convolvd on `shape`; its time is divided by `pairs`. One more for each of
 * bench->ways, whose part is the variant's name. */
int cell_production(struct bench *bench, struct cell *cell, const struct production_shape *shape,
                    double pairs);

#endif
