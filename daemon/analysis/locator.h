/*
 * Locator: where a source lies, from the arrivals of its wave at sensors on a plate or a line.
 *
 *     min over p, t0 of  sum_i (v (t_i - t0) - |p - s_i|)^2
 *
 * On a plate the arrival times of a grid over the extent give every basin of that sum; damped
 * Gauss–Newton steps (Levenberg 1944) lead from each to its minimum. On a line the sum is a
 * parabola between two neighbouring sensors, so all minima are known in closed form.
 *
 * Covariance: C = v² σt² (JᵀJ)⁻¹ + (∂p/∂v)(∂p/∂v)ᵀ σv², J being the derivatives of the residuals
 * with t0 eliminated (linear propagation, JCGM 100:2008, 5.1.2). σt is the larger of the one given
 * and that of the residuals, sqrt(sum / (v² (n - unknowns))); with as many arrivals as unknowns
 * residuals are zero, and the one given counts alone.
 *
 * locator_find never allocates; one thread at a time.
 */
#ifndef CONVOLVD_ANALYSIS_LOCATOR_H
#define CONVOLVD_ANALYSIS_LOCATOR_H

#include <stdbool.h>
#include <stdint.h>

#include "core/error.h"
#include "core/point.h"

enum { LOCATOR_ARRIVALS_MAX = 16 };

/* Copied by locator_open. */
struct locator_spec {
    bool plane;                  /* else a line: all y are 0 */
    const struct point *sensors; /* [count]; those without coordinates have no sensor */
    uint32_t count;
    struct point low, high; /* corners of the extent */
    double velocity_m_s;    /* > 0 */
    double sigma_t_s;       /* standard uncertainty of an arrival, > 0: the least that counts */
    double sigma_v_m_s;     /* and of the velocity, ≥ 0 */
    uint32_t grid;          /* cells along the longer side, 8 … 512 */
};

struct arrival {
    uint32_t sensor;
    double time_s; /* from any origin near the others */
};

/* Where a source lies. */
struct place {
    double x_m, y_m;
    double origin_s; /* the instant of the source, as time_s counts */
    double xx_m2, xy_m2, yy_m2;
    double origin_variance_s2;
    double lucy_m; /* sqrt(sum_{i≥2} ((d_i - d_1) - v (t_i - t_1))² / (n - 1)) */
    /* Another minimum of the sum that is as good within the uncertainty of timing: its sum is less
     * than (2 v σt)² larger. Or, on a line, all that lies beyond the last sensor. */
    bool ambiguous;
    double second_x_m, second_y_m;
    double residuals_s[LOCATOR_ARRIVALS_MAX]; /* measured less computed */
};

struct locator;

uint64_t locator_memory(const struct locator_spec *spec);
int locator_open(const struct locator_spec *spec, struct locator **out, struct problem *problem);
void locator_close(struct locator *locator); /* NULL is fine */

/* 2 (line) or 3 (plane) … LOCATOR_ARRIVALS_MAX arrivals of different sensors, the first one first.
 * False: no minimum lies in the extent. */
bool locator_find(struct locator *locator, const struct arrival *arrivals, uint32_t count,
                  struct place *place);

/* ---- layouts ----------------------------------------------------------------------------- */

/* Whether sensors can locate at all: enough of them, no two in one place, those of a plane not in
 * one line. 0, or ERROR_CONFIG with a sentence. */
int locator_layout(const struct point *sensors, uint32_t count, bool plane,
                   struct problem *problem);

/* The largest distance between two sensors [m]. */
double locator_span(const struct point *sensors, uint32_t count);

#endif
