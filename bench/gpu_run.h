/*
 * One shape of bench_gpu on the engine: filters, plan, a ring full of noise, and batches that run
 * over it, on the device's own data or host to host. A struct bench is what the shapes of a program
 * share: the engine, its doorbell and the table of results.
 *
 * One thread plays the loop.
 */
#ifndef CONVOLVD_BENCH_GPU_RUN_H
#define CONVOLVD_BENCH_GPU_RUN_H

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>

#include "bench/gpu_copies.h"
#include "bench/gpu_resident.h"
#include "bench/measure.h"
#include "bench/peer_program.h"
#include "convolve/engine.h"

enum { LIST_MAX = 24, OUTPUTS_MOST = 256, PEERS_MOST = 3, CROSSING_IN_FLIGHT = 4 };

struct list {
    uint32_t count;
    uint32_t values[LIST_MAX];
};

struct bench {
    const char *device, *variant, *kernels, *csv, *command, *together; /* kernels: a directory */
    struct list points, channels;
    const char *formats[LIST_MAX];
    uint32_t format_count;
    uint64_t bytes;
    uint32_t repetitions;
    int64_t repetition_ns;
    int64_t limit_ns; /* --together: the longest that no process comes further */
    bool latency;
    bool half; /* blocks of half a window, as most streams have */
    int bell;
    struct engine *engine;
    struct copier copier;
    struct peer_program peers[PEERS_MOST];
    uint32_t peer_count;
    FILE *results;
    int wrong;
};

/* One shape while it is measured. */
struct run {
    struct sample_format format;
    struct result_format results; /* all zero: floats */
    const char *format_name;      /* "s16le"; "s16le/s16be": results in a format too */
    uint32_t points, channels, hop, taps_count;
    uint32_t filters;  /* a bank of so many for every channel; 0: one */
    uint32_t decimate; /* D: every D-th frame is kept; 0: all */
    struct plan *plan;
    struct ring *ring;
    uint32_t blocks;                 /* of an item */
    uint32_t items;                  /* of a batch */
    uint64_t batch_blocks;           /* of a channel */
    uint32_t outputs;                /* channels · filters; those of a channel stand together */
    struct taps *taps[OUTPUTS_MOST]; /* a filter of its own for every output */
};

/* engine_options.wake; its context is the doorbell. */
void bench_wake(void *context);
/* The next completed batch. Ends the program when there is none within a minute, or when the device
 * failed it. */
struct batch *bench_wait(struct bench *bench);

/* Opens the engine of bench->device, whose memory holds runs of bench->bytes, and its doorbell. */
int bench_open(struct bench *bench, struct node_setting node, struct problem *problem);

/* "IN" or "IN/OUT" of format_name; false: no such format. Results have room for what filters make
 * of the noise. */
bool run_parse_formats(struct run *run);
/* Filters, plan and ring of a run whose format, points and channels are given. `hop` 0: as many as
 * leave a short filter. Close it after an error, too. */
int run_open(struct bench *bench, struct run *run, struct problem *problem);
void run_close(struct bench *bench, struct run *run);

/* `fresh`: each item brings its frames along, the first the history before them, too. */
struct batch *run_batch(struct bench *bench, const struct run *run, bool fresh);
/* Bytes of one result. */
uint32_t run_result_bytes(const struct run *run);
/* Samples of a batch, in and out. */
double run_samples_in(const struct run *run);
double run_samples_out(const struct run *run);
/* One batch, all of it copied: its relative error at frames drawn at random, against the definition
 * in double. */
double run_check(struct bench *bench, const struct run *run);
/* Seconds of a batch, `in_flight` of them at once (0: as many as the device's queue takes) for so
 * long, from the first completed one to the last. */
double run_timed(struct bench *bench, const struct run *run, uint32_t in_flight, int64_t for_ns);

#endif
