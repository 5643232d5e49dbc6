/*
 * What the peer programs of bench_peers share: a question "CHANNELS FFT NS" a line, answered by
 * "NS_A_SAMPLE ERROR": the time that convolving noise with L = FFT/2 frames a block and L taps a
 * channel takes for one sample of one channel, running for about NS, and its error against the
 * definition in double. Planar floats in and out, one thread, nothing else to do.
 *
 * With ops.long_filters (bench_partitioned) a question is "CHANNELS BLOCK TAPS NS", and the time is
 * that of the processor, of all threads of the process.
 *
 *     struct peer_work work = {…};     a line of a question has been read
 *     peer_work_open(&work) … run … peer_work_error(&work) … peer_work_close(&work)
 */
#ifndef CONVOLVD_BENCH_PEERS_PROGRAM_H
#define CONVOLVD_BENCH_PEERS_PROGRAM_H

#include <math.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

struct peer_work {
    unsigned channels, fft, hop, blocks;
    unsigned taps_count; /* of a channel; hop where filters are not long */
    float *taps;         /* [channels][taps_count] */
    float *x, *y;        /* [channels][blocks · hop] */
};

static inline double peer_now_ns(clockid_t clock)
{
    struct timespec now;
    clock_gettime(clock, &now);
    return (double)now.tv_sec * 1e9 + (double)now.tv_nsec;
}

static inline float peer_noise(unsigned *state)
{
    *state = *state * 1664525u + 1013904223u;
    return (float)(int)*state * 0x1p-31f;
}

static inline void peer_work_open(struct peer_work *work)
{
    unsigned state = 12345;
    work->hop = work->fft / 2;
    if (work->taps_count == 0)
        work->taps_count = work->hop;
    work->blocks = (1u << 20) / (work->hop * work->channels);
    if (work->blocks < 4)
        work->blocks = 4;
    if (work->blocks * work->hop < work->taps_count) /* so that every tap is checked */
        work->blocks = work->taps_count / work->hop;
    const size_t frames = (size_t)work->blocks * work->hop;
    work->taps = (float *)malloc(sizeof(float) * work->channels * work->taps_count);
    work->x = (float *)malloc(sizeof(float) * work->channels * frames);
    work->y = (float *)calloc(work->channels * frames, sizeof(float));
    for (size_t i = 0; i < (size_t)work->channels * work->taps_count; i++)
        work->taps[i] = peer_noise(&state) / sqrtf((float)work->taps_count);
    for (size_t i = 0; i < (size_t)work->channels * frames; i++)
        work->x[i] = peer_noise(&state);
}

/* y is the convolution of x, which began with silence: ||e|| / ||y|| over frames of every channel.
 */
static inline double peer_work_error(const struct peer_work *work)
{
    const size_t frames = (size_t)work->blocks * work->hop;
    double error = 0, size = 0;
    for (unsigned c = 0; c < work->channels; c++)
        for (unsigned i = 0; i < 8; i++) {
            const size_t n = frames - 1 - (size_t)i * 977 % (frames / 2);
            double want = 0;
            for (size_t k = 0; k < work->taps_count && k <= n; k++)
                want += (double)work->taps[(size_t)c * work->taps_count + k] *
                        work->x[c * frames + n - k];
            const double got = work->y[c * frames + n];
            error += (got - want) * (got - want);
            size += want * want;
        }
    return sqrt(error / size);
}

static inline void peer_work_close(struct peer_work *work)
{
    free(work->taps);
    free(work->x);
    free(work->y);
    memset(work, 0, sizeof *work);
}

/* The program: opens a convolver when the shape changes, runs it over all of x. */
struct peer_program_ops {
    void *(*open)(const struct peer_work *work);
    void (*run)(void *convolver, const struct peer_work *work);
    void (*close)(void *convolver, const struct peer_work *work);
    bool long_filters;
};

static inline int peer_program(const struct peer_program_ops *ops)
{
    struct peer_work work;
    memset(&work, 0, sizeof work);
    void *convolver = NULL;
    const clockid_t clock = ops->long_filters ? CLOCK_PROCESS_CPUTIME_ID : CLOCK_MONOTONIC;
    unsigned channels, fft, taps = 0;
    double for_ns, error = 0;
    while (scanf("%u %u", &channels, &fft) == 2) {
        if ((ops->long_filters && scanf("%u", &taps) != 1) || scanf("%lf", &for_ns) != 1)
            break;
        fft = ops->long_filters ? 2 * fft : fft;
        if (channels == 0 || fft < 2)
            break;
        if (channels != work.channels || fft != work.fft ||
            (taps != 0 && taps != work.taps_count)) {
            if (convolver != NULL)
                ops->close(convolver, &work);
            peer_work_close(&work);
            work.channels = channels;
            work.fft = fft;
            work.taps_count = taps;
            peer_work_open(&work);
            convolver = ops->open(&work);
            if (convolver == NULL)
                break;
            ops->run(convolver, &work); /* from silence: what the definition knows */
            error = peer_work_error(&work);
        }
        double from = peer_now_ns(clock), until;
        unsigned runs = 0;
        do {
            ops->run(convolver, &work);
            runs++;
            until = peer_now_ns(clock);
        } while (until - from < for_ns);
        printf("%.6g %.3g\n",
               (until - from) / runs / ((double)work.channels * work.blocks * work.hop), error);
        fflush(stdout);
    }
    if (convolver != NULL)
        ops->close(convolver, &work);
    peer_work_close(&work);
    return feof(stdin) ? 0 : 1;
}

#endif
