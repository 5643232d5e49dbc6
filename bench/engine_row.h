/*
 * One row of bench_engine: a shape, its noise, filters and contestants (ours and FFTW's), which
 * take turns in being measured, each beside its error against the definition in double.
 *
 * One thread plays the loop.
 */
#ifndef CONVOLVD_BENCH_ENGINE_ROW_H
#define CONVOLVD_BENCH_ENGINE_ROW_H

#include <stdbool.h>
#include <stdint.h>

#include "bench/measure.h"
#include "bench/peer.h"
#include "convolve/engine.h"
#include "convolve/check/tune.h"
#include "core/random.h"

enum {
    VARIANTS_MAX = 8,
    CONTESTANTS_MAX = VARIANTS_MAX + PEER_METHODS,
    ROW_IN_FLIGHT = 3, /* batches */
    LATENCY_RUNS_MIN = 30,
};

/* Figures of the default run and of QUICK=1. */
struct effort {
    uint32_t repetitions;
    int64_t repetition_ns;  /* a repetition lasts at least this long */
    uint32_t latency_runs;  /* at most, and at least LATENCY_RUNS_MIN */
    int64_t latency_ns;     /* spent on them, all contestants together */
    uint64_t batch_samples; /* frames · channels of one batch */
};

/* What the rows of a run share. */
struct stand {
    struct effort effort;
    uint32_t threads;
    uint32_t decimate; /* D of our plans; the peers keep all */
    uint32_t vector;   /* lanes of our vectors; 0: as the device likes best */
    struct engine *engine;
    int doorbell;
    struct random_state random;
};

struct shape {
    uint32_t channels, fft, hop, blocks;
    const char *format_name;
    struct sample_format format;
    enum peer_sample sample;
};

/* One way to compute a row, ours or the peer's, and what was measured of it. */
struct contestant {
    char name[PLAN_WAY];
    struct plan *plan; /* ours */
    struct peer *peer; /* theirs */
    enum peer_method method;
    uint64_t position; /* of the next block: runs continue each other, as a stream does */
    bool uploaded;
    struct series rate;    /* Msamples/s */
    struct series latency; /* of one block [us] */
    double error;          /* ||e||2 / ||y||2 */
    bool within;
};

struct row {
    struct stand *stand;
    struct shape shape;
    struct ring *ring;
    struct taps **taps; /* [channels] */
    float **taps_f32;   /* [channels] */
    float *output;      /* [blocks · hop · channels], for the peers */
    struct contestant contestants[CONTESTANTS_MAX];
    uint32_t count, ours;
};

/* Into a row of zeros; after an error too it is closed by row_close. */
int row_open(struct row *row, struct stand *stand, const struct shape *shape,
             struct problem *problem);
/* One of the engine's variants, NULL: its own choice. All of ours come first. */
int row_add_ours(struct row *row, const char *variant, struct problem *problem);
/* FFTW's methods; none where there is no FFTW. */
int row_add_peers(struct row *row, struct problem *problem);
/* Checks and measures all contestants. False when the device failed. */
bool row_measure(struct row *row);
void row_close(struct row *row);

#endif
