/*
 * The private structures of a host convolver, shared by host/build.c, which creates it, and
 * host/execute.c, which executes it.
 *
 * Outputs consist of components, one lane each; W of them form a group, which fills a vector. A
 * group's result is a sum of layers: layer k holds the k-th edge of each lane, that is a vector of
 * inputs (a feed) times a vector of filters. Layers that read the same inputs in the same lanes
 * share a feed, which is transformed once.
 */
#ifndef CONVOLVD_CONVOLVE_HOST_OBJECT_H
#define CONVOLVD_CONVOLVE_HOST_OBJECT_H

#include "convolve/host/host.h"
#include "convolve/host/lanes.h"

/* Inputs, one a lane, their last two blocks and their delay line of spectra. */
struct feed {
    uint16_t inputs[HOST_LANES_MAX];
    uint32_t count;  /* lanes in use */
    bool contiguous; /* the channels are contiguous in an input frame */
    bool owned;      /* read by one layer only: that group transforms it in its own recursion */
    bool counts[HOST_LANES_MAX]; /* this lane counts the values of its input that are not finite */
    uint32_t nonfinite[HOST_LANES_MAX];
    float *previous, *current; /* [B][W]: blocks; swapped when a block is full */
    float *line;               /* delay line of spectra: host/lanes.h */
};

/* Components, one a lane. */
struct group {
    struct host_target target;
    struct feed *own; /* the feed of its only layer, if no other layer reads it; else NULL */
    struct host_layer *layers;
    struct feed **feeds; /* [layer_count]: of each layer */
    uint32_t layer_count;
    float *ahead; /* [Q / 8][R][8][2][W]: sums of the next R blocks (host/ahead.h); NULL: none */
};

struct host_convolver {
    /* immutable */
    struct host_convolver_info info;
    float limit; /* of samples, plan/input_limit.h */
    const struct host_functions *functions;
    struct host_fft_plan fft_plan;
    float *twiddles;
    uint32_t slots;
    uint32_t span; /* leaves of a chunk: host/lanes.h */
    struct feed *feeds;
    struct group *groups;
    uint32_t feed_count, group_count;
    /* the thread that executes */
    float *z;
    uint32_t block;  /* number of the block that is being filled, which wraps */
    uint32_t slot;   /* of its spectra in the delay lines */
    uint32_t filled; /* frames of it */
    uint64_t nonfinite;
};

#endif
