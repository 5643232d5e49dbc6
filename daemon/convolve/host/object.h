/*
 * A host convolver from the inside, for the two files that know it: host/build.c makes one,
 * host.c executes it.
 */
#ifndef CONVOLVD_CONVOLVE_HOST_OBJECT_H
#define CONVOLVD_CONVOLVE_HOST_OBJECT_H

#include "convolve/host/host.h"
#include "convolve/host/lanes.h"

/* Inputs side by side in a vector. */
struct feed {
    uint16_t inputs[HOST_LANES_MAX];
    uint32_t count;              /* lanes in use */
    bool neighbours;             /* their channels follow each other */
    bool owned;                  /* one group's own: transformed with it */
    bool counts[HOST_LANES_MAX]; /* the lane that counts its input's values that are not finite */
    uint32_t bad[HOST_LANES_MAX];
    float *before, *now; /* [B][W], they change places */
    float *line;         /* [Q / 8][slots][8][2][W] */
};

/* Components side by side in a vector. */
struct group {
    struct host_target target;
    struct feed *own; /* its only layer's feed, which nobody else hears; NULL: not so */
    struct host_layer *layers;
    struct feed **feeds; /* [layer_count]: of each layer */
    uint32_t layer_count;
};

struct host_convolver {
    /* immutable */
    struct host_convolver_info info;
    const struct host_lanes *lanes;
    struct host_fft_plan fft_plan;
    float *twiddles;
    uint32_t slots;
    struct feed *feeds;
    struct group *groups;
    uint32_t feed_count, group_count;
    /* the thread that executes */
    float *z;
    uint32_t slot;   /* of the block that is being filled */
    uint32_t filled; /* frames of it */
    uint64_t nonfinite;
};

#endif
