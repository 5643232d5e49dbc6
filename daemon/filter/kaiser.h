/*
 * Kaiser's window and his formulas for the length of a filter (J. F. Kaiser, "Nonrecursive digital
 * filter design using the I0-sinh window function", Proc. IEEE Int. Symp. Circuits and Systems,
 * 1974). The formulas are fits: whoever uses them measures what the taps achieve.
 *
 * Attenuations in dB, > 0; a transition is the full width from pass-band to stop-band in cycles per
 * frame. Pure functions, any thread.
 */
#ifndef CONVOLVD_FILTER_KAISER_H
#define CONVOLVD_FILTER_KAISER_H

#include <stdint.h>

/* The symmetric window w[count], 1 at its middle, of shape beta ≥ 0 (0: rectangular). */
void kaiser_window(double *window, uint32_t count, double beta);
/* The shape that gives the attenuation. */
double kaiser_beta(double attenuation_db);

/* The length that gives attenuation and transition, not rounded, and either from the others.
 * kaiser_attenuation may come out negative for a length that is far too short. */
double kaiser_length(double attenuation_db, double transition);
double kaiser_transition(double attenuation_db, uint32_t taps);
double kaiser_attenuation(uint32_t taps, double transition);

#endif
