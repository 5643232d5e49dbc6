/*
 * What the peer programs of bench_peers share: a question "CHANNELS FFT NS" a line, answered by
 * "NS_A_SAMPLE ERROR": the time that convolving noise with L = FFT/2 frames a block and L taps a
 * channel takes for one sample of one channel, running for about NS, and its error against the
 * definition in double. Planar floats in and out, one thread, nothing else to do.
 *
 *     struct peer_work work = {…};     a line of a question has been read
 *     peer_work_open(&work) … run … peer_work_error(&work) … peer_work_close(&work)
 */
#ifndef CONVOLVD_BENCH_PEERS_PROGRAM_H
#define CONVOLVD_BENCH_PEERS_PROGRAM_H

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

struct peer_work {
    unsigned channels, fft, hop, blocks;
    float *taps; /* [channels][hop] */
    float *x, *y; /* [channels][blocks · hop] */
};

static inline double peer_now_ns(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
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
    work->blocks = (1u << 20) / (work->hop * work->channels);
    if (work->blocks < 4)
        work->blocks = 4;
    const size_t frames = (size_t)work->blocks * work->hop;
    work->taps = (float *)malloc(sizeof(float) * work->channels * work->hop);
    work->x = (float *)malloc(sizeof(float) * work->channels * frames);
    work->y = (float *)calloc(work->channels * frames, sizeof(float));
    for (size_t i = 0; i < (size_t)work->channels * work->hop; i++)
        work->taps[i] = peer_noise(&state) / sqrtf((float)work->hop);
    for (size_t i = 0; i < (size_t)work->channels * frames; i++)
        work->x[i] = peer_noise(&state);
}

/* y is the convolution of x, which began with silence: ||e|| / ||y|| over frames of every channel. */
static inline double peer_work_error(const struct peer_work *work)
{
    const size_t frames = (size_t)work->blocks * work->hop;
    double error = 0, size = 0;
    for (unsigned c = 0; c < work->channels; c++)
        for (unsigned i = 0; i < 8; i++) {
            const size_t n = frames - 1 - (size_t)i * 977 % (frames / 2);
            double want = 0;
            for (size_t k = 0; k < work->hop && k <= n; k++)
                want += (double)work->taps[c * work->hop + k] * work->x[c * frames + n - k];
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
};

static inline int peer_program(const struct peer_program_ops *ops)
{
    struct peer_work work;
    memset(&work, 0, sizeof work);
    void *convolver = NULL;
    unsigned channels, fft;
    double for_ns, error = 0;
    while (scanf("%u %u %lf", &channels, &fft, &for_ns) == 3) {
        if (channels != work.channels || fft != work.fft) {
            if (convolver != NULL)
                ops->close(convolver, &work);
            peer_work_close(&work);
            work.channels = channels;
            work.fft = fft;
            peer_work_open(&work);
            convolver = ops->open(&work);
            if (convolver == NULL)
                return 1;
            ops->run(convolver, &work); /* from silence: what the definition knows */
            error = peer_work_error(&work);
        }
        double from = peer_now_ns(), until;
        unsigned runs = 0;
        do {
            ops->run(convolver, &work);
            runs++;
            until = peer_now_ns();
        } while (until - from < for_ns);
        printf("%.6g %.3g\n", (until - from) / runs / ((double)work.channels * work.blocks * work.hop),
               error);
        fflush(stdout);
    }
    return 0;
}

#endif
