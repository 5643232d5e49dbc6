/*
 * The parts of convolution on the host, below the convolver of host/host.h and the engine's variant
 * "host": the FFT, the sums over partitions and the reading of samples as a table of functions for
 * every instruction set and vector width, and the assignment of output components to lanes.
 *
 * A vector has W lanes, one channel each. Points and spectra are [..][re: W][im: W], 64-byte
 * aligned. A leaf is the last pass of the FFT: 8 points, in the order of plan/fft_plan.h.
 *
 *     z        [Q][2][W]                          points of a window, frame n and n + Q
 *     line     [chunks][slots][leaves][8][2][W]       delay line of spectra
 *     spectra  [chunks][partitions][leaves][8][2][W]  or [..][8][2]: the lanes share their filter
 *     ahead    [Q / 8][R][8][2][W]                    sums of the next R blocks: host/ahead.h
 *
 * A chunk has Q / 8 / R leaves, and HOST_CHUNK_PAD floats behind them; one leaf without sums ahead.
 * So what a block reads is contiguous, as far as possible. No state; any thread.
 */
#ifndef CONVOLVD_CONVOLVE_HOST_LANES_H
#define CONVOLVD_CONVOLVE_HOST_LANES_H

#include <stdbool.h>
#include <stdint.h>

#include "convolve/plan/spec.h"

enum {
    HOST_LANES_MAX = 16,
    HOST_LEAF = 8,        /* points */
    HOST_FFT_MIN = 64,    /* the shortest FFT whose last pass is a leaf of 8 */
    HOST_PARTITIONS = 64, /* in a group; sums go over groups, then over their sums */
    HOST_AHEAD_MAX = 32,  /* blocks whose sums are computed at once */
    HOST_AHEAD_TILE = 4,  /* of them, those that share what is loaded */
    HOST_CHUNK_PAD = 16,  /* floats: so that chunks do not share the cache's sets */
    HOST_ALIGNMENT = 64,
};

/* The FFT plan of one N as the walk reads it. */
struct host_fft_plan {
    uint32_t q;      /* complex points */
    uint32_t passes; /* the leaf included */
    uint8_t log_radices[16];
    const float *twiddles; /* fft_plan_twiddles of plan/fft_plan.h */
};

/* One term of a group's sum: a delay line of input spectra times filter spectra, lane by lane. */
struct host_layer {
    const float *line;
    const float *spectra;
    uint32_t partitions; /* at most the line's slots */
    bool shared;         /* one filter for all lanes */
};

/* Floats of one slot or partition of a chunk: `span` leaves of `leaf_floats` each. */
static inline size_t host_chunk(uint32_t span, size_t leaf_floats)
{
    return span * leaf_floats + (span > 1 ? HOST_CHUNK_PAD : 0);
}

/* Where a leaf begins in slot or partition 0 of `count`; leaf Q / 8: floats in all. */
static inline size_t host_leaf_at(uint32_t leaf, uint32_t span, uint32_t count, size_t leaf_floats)
{
    return (size_t)(leaf / span) * count * host_chunk(span, leaf_floats) +
           leaf % span * leaf_floats;
}

/* Terms of a sum ahead that lie at equal distances: x[-n x_step] times h[n h_step]. */
struct host_terms {
    const float *x, *h;
    size_t x_step, h_step;
    uint32_t count;
};

/* One depth-first recursion of the FFT: forward into a delay line, the layers' sum back, or both
 * at once. */
struct host_walk {
    const struct host_fft_plan *fft_plan;
    float *z;
    float *line; /* forward: writes `slot` of it; NULL: no forward transform */
    uint32_t slot, slots;
    uint32_t span;                   /* leaves of a chunk of lines and spectra */
    const struct host_layer *layers; /* inverse: z becomes their sum, from `slot` backwards */
    uint32_t layer_count;            /* 0: no inverse */
    const float *spectra; /* one partition, forward and inverse without a delay line; else NULL */
    /* The inverse with sums computed ahead: host/ahead.h. */
    float *ahead;          /* [Q / 8][R][8][2][W]; NULL: none */
    uint32_t ahead_blocks; /* R, a power of two, at most Q / 8 */
    uint32_t block;        /* number of the block, which wraps */
    bool complete;         /* `line` holds the whole block: what is due is summed ahead */
};

/* A copy of input frames to lanes: one vector of inputs. */
struct host_feed_load {
    const float *in;
    uint32_t frames, stride; /* floats of an input frame */
    const uint16_t *inputs;  /* [count]: the channel of each lane */
    uint32_t count;          /* lanes in use, from lane 0 on */
    bool contiguous;         /* the channels are contiguous */
    float *lanes;            /* [frames][W] */
    uint32_t *nonfinite;     /* [W]: += values that are no number within the limit; `lanes` has 0
                                for them */
    float limit;
};

/* One block of a vector's channels in a ring (kernels/row.h explains the fields). */
struct host_block_read {
    const uint8_t *ring;
    const uint32_t *present; /* presence bits; NULL: all frames are present */
    uint32_t start, mask;    /* ring position of window index 0 */
    uint32_t frame_bytes, word;
    uint32_t shift_left, shift_right;
    bool swap, floats, invert;
    const uint32_t *channel_bytes;                      /* [count] */
    uint32_t count;                                     /* lanes in use, from lane 0 on */
    bool contiguous;                                    /* the words are contiguous */
    const float *scale, *offset_hi, *offset_lo, *limit; /* [W] */
    uint32_t q, load_from, load_until, new_from;
    float *z;
    struct host_statistics *stats;
};

/* Statistics of a block's new frames, lane by lane: see struct block_report. */
struct host_statistics {
    float sum[HOST_LANES_MAX], sum_squares[HOST_LANES_MAX], peak[HOST_LANES_MAX];
    uint32_t overload[HOST_LANES_MAX], nonfinite[HOST_LANES_MAX];
    uint32_t first[HOST_LANES_MAX], last[HOST_LANES_MAX], present[HOST_LANES_MAX];
};

enum {
    HOST_DIRECT_TAPS = 64,   /* most */
    HOST_DIRECT_VECTORS = 8, /* sums in registers at once: as many as hide their latency */
    HOST_DIRECT_ROWS = 4,    /* most taps at once that share what is loaded */
};

/* One block of one channel in the time domain. */
struct host_direct {
    /* Lane l is this channel l frames later: so say its W channel_bytes, scales and offsets. The
     * statistics go to lane 0. */
    const struct host_block_read *read;
    const float *taps; /* [HOST_DIRECT_TAPS], gain included, zeros behind the last */
    uint32_t count;    /* 0: only the statistics */
    uint32_t frames;   /* new ones */
    float *x;          /* [HOST_DIRECT_TAPS before it, N + W]: the window */
    float *y;          /* [frames, rounded up to W] */
};

/* The functions of one instruction set and width. */
struct host_functions {
    uint32_t width; /* W */
    /* Transforms z: see struct host_walk. */
    void (*walk)(const struct host_walk *walk);
    /* Copies input frames to lanes; values that are no number within the limit become 0 and are
     * counted. */
    void (*load)(const struct host_feed_load *load);
    /* Stores `frames` ([until - from][W]; NULL: zeros) at window indices [from, until) of z. */
    void (*window)(float *z, uint32_t q, uint32_t from, uint32_t until, const float *frames);
    /* Reads a whole window from a ring into z, zeros outside [load_from, load_until), and writes
     * the statistics of its new frames. */
    void (*read)(const struct host_block_read *read);
    /* Reads and convolves a block of one channel: see host/direct.h. */
    void (*direct)(const struct host_direct *direct);
};

enum { HOST_WIDTHS = 3 };

struct host_isa {
    const char *name;
    const struct host_functions *functions[HOST_WIDTHS]; /* narrowest first; NULL past the last */
};

extern const struct host_isa host_base;
#ifdef __x86_64__
extern const struct host_isa host_avx2, host_avx512;
#endif

/* Estimated time of one frame of a window in a vector of this width, forward and inverse, on a core
 * of some 3 GHz: twice the width takes less than twice the time. For choosing only. */
static inline double host_frame_ns(uint32_t width)
{
    return 1.2 * (4 + width);
}

/* The instruction set of that name, or this CPU's widest (name NULL); NULL: the CPU lacks it. */
const struct host_isa *host_isa_find(const char *name);

/* The width of `isa` that takes the least time for `lanes` lanes in all. */
const struct host_functions *host_isa_functions(const struct host_isa *isa, uint32_t lanes);

/* What sums ahead must leave of the bytes at most, to be worth their shorter runs. */
#define HOST_AHEAD_WORTH 0.85

/* The R with the fewest bytes read and written, a power of two up to `leaves` (Q / 8), for `edges`
 * of as many partitions, added to `sums` sums; 1: sums ahead would not save enough. */
uint32_t host_ahead_blocks(const uint32_t *partitions, uint32_t edges, uint32_t sums,
                           uint32_t leaves);

/* ---- components -------------------------------------------------------------------------- */

/* The edges of a plan or convolver specification. */
struct host_edges {
    const struct taps *const *taps;
    const struct edge *edges;
    uint32_t edge_count;
    const enum output_form *outputs;
    uint32_t outputs_count;
};

/* What a lane's value becomes in the output frame. */
enum lane_kind {
    LANE_VALUE,     /* a float of the output frame */
    LANE_MAGNITUDE, /* its absolute value: an envelope without an imaginary part */
    LANE_ENVELOPE,  /* the magnitude of this lane and the next */
    LANE_IMAGINARY, /* the imaginary part of the previous lane's envelope */
    LANE_UNUSED,
};

struct host_component {
    uint32_t output;
    bool imaginary;
    enum lane_kind kind;
    uint32_t offset; /* of its float in the output frame */
};

enum { HOST_COMPONENTS = 3 }; /* most lanes of an output, one of them unused */

/* Lists the components of all outputs, one lane each, in order, and returns their number. */
uint32_t host_components_list(const struct host_edges *all, struct host_component *components,
                              uint32_t *output_floats);

/* The k-th edge of a component's sum; NULL: it has fewer. */
const struct edge *host_component_edge(const struct host_edges *all,
                                       const struct host_component *component, uint32_t k);

/* The real or imaginary taps of an edge, whichever the component uses. */
const double *host_component_taps(const struct host_edges *all,
                                  const struct host_component *component, const struct edge *edge);

/* Where each lane of a vector is written in an output frame. */
struct host_target {
    uint32_t count;
    uint32_t offsets[HOST_LANES_MAX];
    enum lane_kind kinds[HOST_LANES_MAX];
    bool contiguous; /* values only, and contiguous */
};

void host_target_open(struct host_target *target, const struct host_component *components,
                      uint32_t count);
void host_target_write(const struct host_target *target, const float *lanes, float *frame);

#endif
