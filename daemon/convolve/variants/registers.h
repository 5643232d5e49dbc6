/*
 * The transforms of kernels/registers.clh as the host sees them: their radices, the points of a
 * work-item, the transforms of a work-group, and filter spectra in the order in which the last pass
 * holds its points. The variants "fused" and "staged" use them.
 *
 * Pure functions, worker threads.
 */
#ifndef CONVOLVD_CONVOLVE_VARIANTS_REGISTERS_H
#define CONVOLVD_CONVOLVE_VARIANTS_REGISTERS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "wire/format.h"

struct row;
struct fft_plan;

enum { REGISTER_PASSES_MAX = 4 };

struct registers {
    uint32_t points;                       /* Q, complex */
    uint32_t each;                         /* points of an item */
    uint32_t radices[REGISTER_PASSES_MAX]; /* of the passes; 1: no such pass */
    uint32_t width;                        /* items side by side, their points interleaved */
    uint32_t blocks;                       /* of those, in a group */
    uint32_t pieces;                       /* rounds of an exchange: 1, 2, 2 or 4 · pair */
    uint32_t pair;                         /* transforms of an item, of neighbouring channels */
    uint32_t run;                          /* neighbouring frames that an item loads at once */
    bool tables;                           /* twiddles come from a table */
};

/* The shape for Q points, one transform in a group; NULL: there is none. */
const struct registers *registers_find(uint32_t points);

uint32_t registers_items(const struct registers *shape);        /* work-items of a group */
uint64_t registers_local_bytes(const struct registers *shape);  /* exchanges of a group */
uint64_t registers_report_bytes(const struct registers *shape); /* kernels/window.clh, `reports` */

/* Makes `width` rows share a group where `local_bytes` and `items_most` allow, halving until they
 * do; then as many blocks as fill a group. */
void registers_fit(struct registers *shape, uint32_t width, uint64_t local_bytes,
                   uint32_t items_most);

/* How far apart the points lie that the inverse has to bring back where only every `decimate`-th is
 * wanted: the option KEPT. */
uint32_t registers_kept(const struct registers *shape, uint32_t decimate);

/* "-D POINTS=… " into `options`; returns the length. The second: how samples are read. */
int registers_options(const struct registers *shape, char *options, size_t bytes);
int window_options(const struct sample_format *format, const struct row *row, bool offset,
                   char *options, size_t bytes);

/* The bin that stands at place i of the order in which the last pass holds its points (item by
 * item: j · items + t): the value at exp(2 pi i (bin + root) / points). */
uint32_t registers_bin(const struct registers *shape, uint32_t place);

/* The spectrum of h[count], count <= N, as 2Q floats in the order of the bins, 1/Q folded in.
 * `fft_plan` is one of N points without root lanes; `work` holds 2Q doubles, `unordered` 2Q floats.
 */
void natural_spectrum(const struct fft_plan *fft_plan, const double *h, uint32_t count,
                      double *work, float *unordered, float *bins);

#endif
