/*
 * What the variants "fused" and "staged" share on the host: rows, spectra and the options of
 * kernels/window.clh.
 *
 * Worker threads, one at a time.
 */
#ifndef CONVOLVD_CONVOLVE_VARIANTS_FUSED_H
#define CONVOLVD_CONVOLVE_VARIANTS_FUSED_H

#include "convolve/plan/build.h"
#include "convolve/variants/registers.h"

/* Bytes of local memory for exchanges and reports of a group. */
uint64_t fused_local_bytes(const struct device *device);

/* 2: some output takes the imaginary part of its taps. After spectra_place. */
uint32_t fused_components(const struct build *build);

/* The bin at a place of the order in which a kernel reads spectra. */
typedef uint32_t fused_bin(const void *order, uint32_t place);

/* The scale from codes to physical values when it is the same for all channels, for fused_spectra;
 * 1: it differs, or spectra would lose digits, and fused_rows makes it part of the gains. */
double fused_fold(const struct plan *plan, const struct plan_spec *spec);

/* All filters' spectra in that order, times `fold`, at the places that spectra_place chose, which
 * become places in SPECTRUM. 0 or ERROR_MEMORY. */
int fused_spectra(struct build *build, fused_bin *bin, const void *order, double fold,
                  struct problem *problem);

/* A row an input, in the order of the inputs; those that no output hears have no components and are
 * there for their report. 0 or ERROR_MEMORY. */
int fused_rows(const struct build *build, struct row *rows);

/* Options that follow from shape, rows and decimation, on a GPU or with `constants` also those that
 * make addresses constant; returns their length. */
int fused_options(const struct build *build, const struct registers *shape, const struct row *rows,
                  bool constants, char *options, size_t bytes);

#endif
