/*
 * What convolution on the host is built from: the work on lanes, once for every instruction set and
 * vector width, behind tables of functions.
 *
 *   host/body.h        the transform and the sums, for one width
 *   host/read.h        wire bytes to lanes, for one width
 *   host/base.c        both in what every CPU of this architecture has
 *   host/avx2.c        … for AVX2 with FMA
 *   host/avx512.c      … for AVX-512
 *   host/isa.c         which of them this CPU runs
 *   host/components.c  what the lanes stand for
 *   host/build.c, host.c  the convolver of host.h
 *   variants/host.c     the engine's variant "host"
 *
 * A vector has W lanes; every lane is a channel. Points and spectra are [..][re: W][im: W], 64-byte
 * aligned. A leaf is the last pass of the FFT: 8 points, in the order of plan/fft_plan.h.
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

#include "convolve/engine.h"

enum {
    HOST_LANES_MAX = 16,
    HOST_LEAF = 8,        /* points */
    HOST_FFT_MIN = 64,    /* the shortest FFT whose last pass is a leaf of 8 */
    HOST_PARTITIONS = 64, /* summed before their sum is added to the whole */
    HOST_ALIGNMENT = 64,
};

/* The FFT plan of one N as the walk reads it. */
struct host_fft_plan {
    uint32_t q;      /* complex points */
    uint32_t passes; /* the leaf included */
    uint8_t log_radices[16];
    const float *twiddles; /* fft_plan_twiddles of plan/fft_plan.h */
};

/* Spectra of one input a lane, times spectra of one filter a lane. */
struct host_layer {
    const float *line;
    const float *spectra;
    uint32_t partitions; /* at most the line's slots */
    bool shared;         /* one filter for all lanes */
};

/* One walk over the FFT, depth first: forward into a line, the layers' sum back, or both. */
struct host_walk {
    const struct host_fft_plan *fft_plan;
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

/* One block of a vector's channels out of a ring (kernels/row.h explains the fields). */
struct host_block_read {
    const uint8_t *ring;
    const uint32_t *present; /* NULL: every frame is */
    uint32_t start, mask;    /* ring position of window index 0 */
    uint32_t frame_bytes, word;
    uint32_t shift_left, shift_right;
    bool swap, floats, invert;
    const uint32_t *channel_bytes;              /* [count] */
    uint32_t count;                             /* lanes in use, from lane 0 on */
    bool neighbours;                            /* their words follow each other */
    const float *scale, *offset_hi, *offset_lo; /* [W] */
    uint32_t q, load_from, load_until, new_from;
    float *z;
    struct host_levels *levels;
};

/* What the new frames of a block hold, lane by lane: see struct block_report. */
struct host_levels {
    float sum[HOST_LANES_MAX], sum_squares[HOST_LANES_MAX], peak[HOST_LANES_MAX];
    uint32_t overload[HOST_LANES_MAX], nonfinite[HOST_LANES_MAX];
    uint32_t first[HOST_LANES_MAX], last[HOST_LANES_MAX], present[HOST_LANES_MAX];
};

/* One instruction set at one width. */
struct host_lanes {
    uint32_t width;
    void (*walk)(const struct host_walk *walk);
    void (*load)(const struct host_feed_load *load);
    /* Window indices [from, until) become `frames` ([until - from][W]; NULL: zero). */
    void (*window)(float *z, uint32_t q, uint32_t from, uint32_t until, const float *frames);
    /* The whole window: indices outside [load_from, load_until) become zero. Fills `levels`. */
    void (*read)(const struct host_block_read *read);
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

/* What one frame of a window takes in a vector of this width, there and back, on a core of some
 * 3 GHz: twice the width takes less than twice the time. For choosing only. */
static inline double host_frame_ns(uint32_t width)
{
    return 1.2 * (4 + width);
}

/* The isa of that name, or the widest (NULL); NULL when this CPU does not have it. */
const struct host_isa *host_isa_find(const char *name);

/* The width of `isa` that takes the least time for so many lanes in all. */
const struct host_lanes *host_isa_lanes(const struct host_isa *isa, uint32_t lanes);

/* ---- components --------------------------------------------------------------------------------
 */

/* Edges as a specification has them. */
struct host_edges {
    const struct taps *const *taps;
    const struct edge *edges;
    uint32_t edge_count;
    const enum output_form *outputs;
    uint32_t outputs_count;
};

/* What becomes of a lane. */
enum lane_kind {
    LANE_VALUE,     /* a float of the output frame */
    LANE_MAGNITUDE, /* alone: its absolute value */
    LANE_ENVELOPE,  /* with the lane after it: their magnitude */
    LANE_IMAGINARY, /* of the envelope in the lane before */
    LANE_UNUSED,
};

struct host_component {
    uint32_t output;
    bool imaginary;
    enum lane_kind kind;
    uint32_t place; /* float of the output frame */
};

enum { HOST_COMPONENTS = 3 }; /* lanes that an output takes at most, one of them unused */

/* Returns how many there are: a lane each, in order. */
uint32_t host_components_list(const struct host_edges *all, struct host_component *components,
                              uint32_t *output_floats);

/* The k-th edge that a component hears; NULL: it has fewer. */
const struct edge *host_component_edge(const struct host_edges *all,
                                       const struct host_component *component, uint32_t k);

/* The taps that a component takes of its edge. */
const double *host_component_taps(const struct host_edges *all,
                                  const struct host_component *component, const struct edge *edge);

/* Where the lanes of a vector go. */
struct host_target {
    uint32_t count;
    uint32_t places[HOST_LANES_MAX];
    enum lane_kind kinds[HOST_LANES_MAX];
    bool neighbours; /* values only, and their floats follow each other */
};

void host_target_open(struct host_target *target, const struct host_component *components,
                      uint32_t count);
void host_target_write(const struct host_target *target, const float *lanes, float *frame);

#endif
