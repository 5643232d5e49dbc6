/*
 * Rolling bearings: the frequencies at which a defect is struck, from the geometry and the speed of
 * the shaft, without slip (R. B. Randall, J. Antoni, "Rolling element bearing diagnostics: a
 * tutorial", MSSP 25, 2011, eq. 1-4), and their lines in a spectrum.
 *
 * Pure functions, any thread.
 */
#ifndef CONVOLVD_ANALYSIS_BEARING_H
#define CONVOLVD_ANALYSIS_BEARING_H

#include <stdint.h>

#include "analysis/condition.h"

struct bearing_geometry {
    uint32_t elements;         /* n */
    double element_m, pitch_m; /* diameters d < D of an element, and of the circle of their centres
                                */
    double contact_deg;        /* angle of contact; 0: radial load on a deep-groove ball bearing */
};

/* Events a turn of the shaft, the outer ring standing still; with g = d cos(contact) / D:
 * FTF (1 - g) / 2, BPFO n (1 - g) / 2, BPFI n (1 + g) / 2, BSF D (1 - g²) / 2d. A defect of a
 * rolling element strikes both rings, at 2 BSF: an even harmonic of it. */
void bearing_orders(const struct bearing_geometry *geometry, double orders[CONDITION_DEFECTS]);

/* The line at frequency_hz and its harmonics in amplitudes[bins] of distance bin_hz. Each harmonic
 * h is the largest bin within h · frequency_hz · (1 ± slip), or the nearest one when none lies
 * there; bin 0 is none, and harmonics beyond the last bin are left out. NAN where even the first
 * is. */
struct condition_line bearing_line(const double *amplitudes, uint32_t bins, double bin_hz,
                                   double frequency_hz, double slip, uint32_t harmonics);

#endif
