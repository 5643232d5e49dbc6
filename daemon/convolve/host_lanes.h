/*
 * What the host convolver's files share: the work on lanes, once for every instruction set and
 * vector width (host_body.h), behind tables of functions.
 *
 *   host_body.h     the transform and the sums, for one width
 *   host_base.c     the body in what every CPU of this architecture has
 *   host_avx2.c     … for AVX2 with FMA
 *   host_avx512.c   … for AVX-512
 *   host_isa.c      which of them this CPU runs
 *   host.c          the convolver
 *
 * A vector has W lanes; every lane is a channel. Points and spectra are [..][re: W][im: W], 64-byte
 * aligned. A leaf is the last level of the tree: 8 points, in the order of tree.h.
 *
 *     z        [Q][2][W]                          points of a window, frame n and n + Q
 *     line     [Q / 8][slots][8][2][W]            delay line of spectra, leaf by leaf
 *     spectra  [Q / 8][partitions][8][2][W]       or [..][8][2] when the lanes share their filter
 *
 * so that the sum over partitions reads memory in one direction. No state; any thread.
 */
#ifndef CONVOLVD_CONVOLVE_HOST_LANES_H
#define CONVOLVD_CONVOLVE_HOST_LANES_H

#include <stdbool.h>
#include <stdint.h>

enum {
    HOST_LANES_MAX = 16,
    HOST_LEAF = 8,        /* points */
    HOST_FFT_MIN = 64,    /* the shortest tree whose last level is a leaf of 8 */
    HOST_PARTITIONS = 64, /* summed before their sum is added to the whole */
    HOST_ALIGNMENT = 64,
};

/* The tree of one N as its walk reads it. */
struct host_tree {
    uint32_t q;      /* complex points */
    uint32_t levels; /* the leaf included */
    uint8_t log_radices[16];
    const float *factors; /* tree_factors of tree.h */
};

/* Spectra of one input a lane, times spectra of one filter a lane. */
struct host_layer {
    const float *line;
    const float *spectra;
    uint32_t partitions; /* at most the line's slots */
    bool shared;         /* one filter for all lanes */
};

/* One walk over the tree, depth first: forward into a line, the layers' sum back, or both. */
struct host_walk {
    const struct host_tree *tree;
    float *z;
    float *line; /* forward: `slot` of it is written; NULL: no forward transform */
    uint32_t slot, slots;
    const struct host_layer *layers; /* back: z becomes their sum, summed from `slot` backwards */
    uint32_t layer_count;            /* 0: not back */
    const float *spectra; /* there and back through one partition, without a line; else NULL */
};

/* Frames of one vector of inputs. */
struct host_feed_load {
    const float *in;
    uint32_t frames, stride; /* floats of an input frame */
    const uint16_t *inputs;  /* [count]: the channel of each lane */
    uint32_t count;          /* lanes in use, from lane 0 on */
    bool neighbours;         /* they lie side by side */
    float *lanes;            /* [frames][W] */
    uint32_t *bad;           /* [W]: values that were not finite are added; they are 0 in lanes */
};

/* One instruction set at one width. */
struct host_lanes {
    uint32_t width;
    void (*walk)(const struct host_walk *walk);
    void (*load)(const struct host_feed_load *load);
    /* Window indices [from, until) become `frames` ([until - from][W]; NULL: zero). */
    void (*window)(float *z, uint32_t q, uint32_t from, uint32_t until, const float *frames);
};

enum { HOST_WIDTHS = 3 };

struct host_isa {
    const char *name;
    const struct host_lanes *lanes[HOST_WIDTHS]; /* narrowest first; NULL past the last */
};

extern const struct host_isa host_base;
#ifdef __x86_64__
extern const struct host_isa host_avx2, host_avx512;
#endif

/* The isa of that name, or the widest (NULL); NULL when this CPU does not have it. */
const struct host_isa *host_isa_find(const char *name);

/* The width of `isa` that takes the least time for so many lanes in all. */
const struct host_lanes *host_isa_lanes(const struct host_isa *isa, uint32_t lanes);

#endif
