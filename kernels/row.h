/*
 * The tables that host and kernels share: one definition, compiled by both sides.
 *
 * A row is one output (or one input) of one stream in one launch. Whatever differs between
 * streams stands in the row, so that streams of different formats, rates and block counts
 * stand side by side in one launch: group (k, r) computes block k of row r and leaves when
 * k >= row.blocks.
 *
 * Offsets into the memory arenas: INPUT in bytes, all others in floats.
 */
#ifndef CONVOLVD_KERNELS_ROW_H
#define CONVOLVD_KERNELS_ROW_H

#ifdef __OPENCL_VERSION__
#define ROW_U64  ulong
#define ROW_U32  uint
#define ROW_NONE (~0UL)
#else
#include <stdint.h>
#define ROW_U64  uint64_t
#define ROW_U32  uint32_t
#define ROW_NONE UINT64_MAX
#endif

/* row.flags */
#define ROW_SWAP     1u  /* the word's bytes are in the other order */
#define ROW_UNSIGNED 2u  /* offset binary */
#define ROW_FLOAT    4u  /* IEEE 754 binary32 */
#define ROW_ALIGNED  8u  /* every word lies at a multiple of its size (2 or 4) */
#define ROW_ABSENT   16u /* presence bits must be looked at */
#define ROW_REBUILD  32u /* blocks before the item: only what they leave in STATE counts */

/* row.form: what the last pass does with the frames */
#define FORM_REAL     0u
#define FORM_COMPLEX  1u
#define FORM_ENVELOPE 2u
#define FORM_PLANE    3u /* all N frames, raw, into a plane of STATE (overlap-add) */
#define FORM_NONE     4u /* nothing: the row is there for its report */

struct row {
    ROW_U64 ring;        /* INPUT: the ring's first byte */
    ROW_U64 present;     /* INPUT: its first presence word */
    ROW_U64 output;      /* OUTPUT: this output's float of the item's frame 0 */
    ROW_U64 report;      /* OUTPUT: the report of block 0, ROW_NONE: none */
    ROW_U64 spectrum;    /* SPECTRUM: real component (local, fused), or the edge table (product) */
    ROW_U64 spectrum_im; /* SPECTRUM: imaginary component, ROW_NONE: real taps */
    ROW_U64 delay_line;  /* STATE: this input's delay line of spectra */
    ROW_U64 planes;      /* STATE: this output's ring of overlap-add planes */

    ROW_U32 start; /* ring position of window index 0 of block 0, modulo 2^32 */
    ROW_U32 mask;  /* ring frames - 1 */
    ROW_U32 frame_bytes;
    ROW_U32 channel_byte; /* of the channel within the frame */
    ROW_U32 word;         /* bytes of a sample, 1…4 */
    ROW_U32 flags;
    ROW_U32 shift_left, shift_right; /* word -> code: (int)(w << left) >> right */
    float scale;                     /* value = (code - offset) * scale */
    float offset_hi, offset_lo;

    ROW_U32 hop, blocks;             /* L and J */
    ROW_U32 load_from, load_until;   /* window indices that are read; the others are zero */
    ROW_U32 new_from;                /* window index of the block's first new frame */
    ROW_U32 write_from, write_until; /* frames of the item */
    ROW_U32 stride;                  /* floats of an output frame */
    ROW_U32 form;
    ROW_U32 report_stride; /* floats from one block's report to the next */
    float gain;

    ROW_U32 slot, slots; /* of block 0 in the delay line; slots of it */
    ROW_U32 plane_slot, plane_slots;
    ROW_U32 age;              /* blocks of the epoch before block 0, saturated */
    ROW_U32 block;            /* the same, modulo 2^32 */
    ROW_U32 partition_blocks; /* blocks from one partition to the next */
    ROW_U32 edge_count;
    ROW_U32 components;  /* 1, or 2 with an imaginary part */
    ROW_U32 plane_reach; /* frames of a plane that can be other than zero */
    ROW_U32 decimate;    /* D, at least 1: of the item's frames kept, kept + D, kept + 2 D … are … */
    ROW_U32 kept;        /* … written, one after the other; below D */
    ROW_U32 kept_log;    /* log2 of the largest power of two that divides D */
    ROW_U32 width;             /* lanes: channels of the row, 1…16; direct: taps;
                                  partitioned: the row's number */
};

/* input spectrum · filter spectrum · gain, summed per output. In SPECTRUM. */
struct edge_row {
    ROW_U64 spectrum;    /* [partitions][Q] */
    ROW_U64 spectrum_im; /* ROW_NONE: real taps */
    ROW_U64 delay_line;
    ROW_U32 partitions;
    float gain;
};

/* The host's struct block_report, field by field. */
struct report_row {
    float sum, sum_squares, peak;
    ROW_U32 overload, nonfinite, nonfinite_first, nonfinite_last, present;
};

#endif
