/*
 * Frequency responses: one FFT gives the dense grid, the definition (response_at) gives single
 * frequencies, and parabolas through three neighbours give what lies between grid points. No
 * state; worker threads.
 */
#include "filter/response.h"

#include <assert.h>
#include <math.h>
#include <stdlib.h>

#include "signal/decimation.h"
#include "signal/reference.h"

#define TWO_PI 6.283185307179586476925286766559

/* A grid over the whole circle; index k stands for k·rate/points, negative k included. */
struct grid {
    double *magnitude;
    uint32_t points;
    double step_hz;
    bool two_sided; /* complex taps: both signs differ */
};

double response_at(const struct taps *taps, double frequency_hz, double rate_hz)
{
    double re = 0, im = 0, f = frequency_hz / rate_hz;
    for (uint32_t n = 0; n < taps->count; n++) {
        double turns = f * n, angle = TWO_PI * (turns - floor(turns));
        double c = cos(angle), s = -sin(angle);
        double hi = taps->im == NULL ? 0 : taps->im[n];
        re += taps->re[n] * c - hi * s;
        im += taps->re[n] * s + hi * c;
    }
    return hypot(re, im);
}

int response_grid(const struct taps *taps, uint32_t points, double **magnitudes,
                  struct problem *problem)
{
    assert(points >= taps->count && (points & (points - 1)) == 0);
    *magnitudes = NULL;
    double *data = calloc(points, 2 * sizeof *data);
    if (data == NULL)
        goto no_memory;
    for (uint32_t n = 0; n < taps->count; n++) {
        data[2 * (size_t)n] = taps->re[n];
        data[2 * (size_t)n + 1] = taps->im == NULL ? 0 : taps->im[n];
    }
    if (reference_fft(data, points, -1) != 0)
        goto no_memory;
    for (uint32_t k = 0; k < points; k++) /* in place: entry k is behind what is still to read */
        data[k] = hypot(data[2 * (size_t)k], data[2 * (size_t)k + 1]);
    double *shorter = realloc(data, points * sizeof *data);
    *magnitudes = shorter != NULL ? shorter : data;
    return 0;

no_memory:
    free(data);
    return problem_set(problem, ERROR_MEMORY, "no memory for a response on %u points", points);
}

/* At least 16 points per tap, 4 for very long taps: the parabola then finds a ripple's top within
 * 0.01 dB (0.1 dB), on the side that makes attenuation look smaller. */
static uint32_t grid_points(uint32_t taps)
{
    uint64_t wanted = (taps > 1 << 17 ? 4 : 16) * (uint64_t)taps;
    uint32_t points = 4096;
    while (points < wanted)
        points *= 2;
    return points;
}

static double grid_at(const struct grid *g, int64_t k)
{
    int64_t points = g->points;
    return g->magnitude[(k % points + points) % points];
}

/* Top (sign +1) or bottom (-1) of the parabola through k-1, k, k+1 when k is a local extremum and
 * the top lies within [from, until] in grid steps, else the grid's own value. Near a zero |H| is no
 * parabola; the result is never below 0. */
static double extremum_at(const struct grid *g, int64_t k, double sign, double from, double until)
{
    double left = grid_at(g, k - 1), here = grid_at(g, k), right = grid_at(g, k + 1);
    double curvature = left - 2 * here + right;
    if (sign * (here - left) < 0 || sign * (here - right) < 0 || sign * curvature >= 0)
        return here;
    double slope = (right - left) / 2, top = (double)k - slope / curvature;
    if (top < from || top > until)
        return here;
    double value = here - slope * slope / (2 * curvature);
    return value > 0 ? value : 0;
}

/* Largest and smallest magnitude for frequencies [from, until] (Hz, signed). */
struct range {
    double largest, smallest;
};

static void range_add(struct range *range, double largest, double smallest)
{
    range->largest = fmax(range->largest, largest);
    range->smallest = fmin(range->smallest, smallest);
}

static void range_measure(const struct grid *g, const struct taps *taps, double rate_hz,
                          double from_hz, double until_hz, struct range *range)
{
    double at_from = response_at(taps, from_hz, rate_hz);
    double at_until = response_at(taps, until_hz, rate_hz);
    range_add(range, fmax(at_from, at_until), fmin(at_from, at_until));
    double from = from_hz / g->step_hz, until = until_hz / g->step_hz;
    for (int64_t k = (int64_t)ceil(from); k <= (int64_t)floor(until); k++)
        range_add(range, extremum_at(g, k, 1, from, until), extremum_at(g, k, -1, from, until));
}

/* Where the response crosses `level` between grid points k and k + 1. */
static double crossing_between(const struct grid *g, const struct taps *taps, double rate_hz,
                               int64_t k, double level)
{
    double low = k * g->step_hz, high = (k + 1) * g->step_hz;
    double at_low = grid_at(g, k) - level, at_high = grid_at(g, k + 1) - level;
    double f = low;
    for (int i = 0; i < 6; i++) { /* regula falsi; between neighbours the curve is almost a line */
        if (at_high == at_low)
            break;
        f = low - at_low * (high - low) / (at_high - at_low);
        double at = response_at(taps, f, rate_hz) - level;
        if (fabs(at) < 1e-12 * level)
            break;
        if ((at < 0) == (at_low < 0)) {
            low = f;
            at_low = at;
        } else {
            high = f;
            at_high = at;
        }
    }
    return f;
}

/* The first crossing of `level` from grid point k in steps of `direction`, within Nyquist; NaN:
 * none. */
static double crossing_from(const struct grid *g, const struct taps *taps, double rate_hz,
                            int64_t k, int direction, double level)
{
    int64_t end = g->points / 2, low_end = g->two_sided ? -end : 0;
    bool above = grid_at(g, k) >= level;
    for (int64_t next = k + direction; next >= low_end && next <= end; next += direction) {
        if ((grid_at(g, next) >= level) != above)
            return crossing_between(g, taps, rate_hz, direction > 0 ? next - 1 : next, level);
    }
    return NAN;
}

/* The crossing nearest to an asked edge. */
static double crossing_near(const struct grid *g, const struct taps *taps, double rate_hz,
                            double edge_hz, double level)
{
    int64_t k = (int64_t)llround(edge_hz / g->step_hz);
    double below = crossing_from(g, taps, rate_hz, k, -1, level);
    double above = crossing_from(g, taps, rate_hz, k, 1, level);
    if (isnan(below) || isnan(above))
        return isnan(below) ? above : below;
    return edge_hz - below < above - edge_hz ? below : above;
}

static double decibel(double ratio)
{
    return 20 * log10(ratio);
}

static void find_peak(const struct grid *g, struct response *out)
{
    int64_t end = g->points / 2, peak = 0;
    out->minimum_gain = INFINITY;
    for (int64_t k = g->two_sided ? 1 - end : 0; k <= end; k++) {
        if (grid_at(g, k) > grid_at(g, peak))
            peak = k;
        if (k >= 0)
            out->minimum_gain = fmin(out->minimum_gain, grid_at(g, k));
    }
    out->peak_gain = extremum_at(g, peak, 1, -INFINITY, INFINITY);
    out->peak_hz = peak * g->step_hz;
}

static void find_edges(const struct grid *g, const struct taps *taps,
                       const struct response_bands *bands, struct response *out)
{
    double level = out->reference_gain / 2;
    double *found[2] = {&out->edge_low_hz, &out->edge_high_hz};
    int64_t reference = (int64_t)llround(out->reference_hz / g->step_hz);
    for (int i = 0; i < 2; i++) {
        double asked = bands == NULL ? NAN : bands->edge_hz[i];
        out->edge_db[i] = NAN;
        if (!isnan(asked)) {
            *found[i] = crossing_near(g, taps, out->rate_hz, asked, level);
            out->edge_db[i] = decibel(response_at(taps, asked, out->rate_hz) / out->reference_gain);
        } else {
            *found[i] = crossing_from(g, taps, out->rate_hz, reference, i == 0 ? -1 : 1, level);
        }
    }
}

static void judge_bands(const struct grid *g, const struct taps *taps,
                        const struct response_bands *bands, struct response *out)
{
    struct range pass = {0, INFINITY}, stop = {0, INFINITY}, image = {0, INFINITY};
    bool judged_pass = false, judged_stop = false;
    for (int i = 0; i < 2; i++) {
        double from = bands->pass_from_hz[i], until = bands->pass_until_hz[i];
        if (from < until) {
            judged_pass = true;
            range_measure(g, taps, out->rate_hz, from, until, &pass);
            if (g->two_sided)
                range_measure(g, taps, out->rate_hz, -until, -from, &image);
        }
        from = bands->stop_from_hz[i];
        until = bands->stop_until_hz[i];
        if (from < until) {
            judged_stop = true;
            range_measure(g, taps, out->rate_hz, from, until, &stop);
        }
    }
    if (g->two_sided && judged_stop)
        range_measure(g, taps, out->rate_hz, -out->rate_hz / 2, 0, &stop);
    if (judged_pass)
        out->ripple_db = fmax(decibel(pass.largest / out->reference_gain),
                              -decibel(pass.smallest / out->reference_gain));
    if (judged_stop)
        out->attenuation_db = -decibel(stop.largest / out->reference_gain);
    if (judged_pass && g->two_sided)
        out->image_db = -decibel(image.largest / out->reference_gain);
}

/* Without bands the image of complex taps is judged over the band between the -6 dB edges. */
static void judge_image(const struct grid *g, const struct taps *taps, struct response *out)
{
    struct range image = {0, INFINITY};
    double low = isnan(out->edge_low_hz) ? out->peak_hz : out->edge_low_hz;
    double high = isnan(out->edge_high_hz) ? out->peak_hz : out->edge_high_hz;
    range_measure(g, taps, out->rate_hz, -high, -low, &image);
    out->image_db = -decibel(image.largest / out->reference_gain);
}

int response_measure(const struct taps *taps, double rate_hz, const struct response_bands *bands,
                     struct response *out, struct problem *problem)
{
    *out =
        (struct response){.rate_hz = rate_hz,
                          .bands = bands != NULL ? *bands
                                                 : (struct response_bands){.reference_hz = NAN,
                                                                           .edge_hz = {NAN, NAN}},
                          .ripple_db = NAN,
                          .attenuation_db = NAN,
                          .image_db = NAN};
    struct grid g = {.points = grid_points(taps->count), .two_sided = taps->im != NULL};
    int error = response_grid(taps, g.points, &g.magnitude, problem);
    if (error != 0)
        return error;
    g.step_hz = rate_hz / g.points;
    out->grid = g.points;

    find_peak(&g, out);
    bool at_peak = bands == NULL || isnan(bands->reference_hz);
    out->reference_hz = at_peak ? out->peak_hz : bands->reference_hz;
    out->reference_gain =
        at_peak ? out->peak_gain : response_at(taps, bands->reference_hz, rate_hz);
    find_edges(&g, taps, bands, out);
    if (bands != NULL)
        judge_bands(&g, taps, bands, out);
    if (g.two_sided && isnan(out->image_db))
        judge_image(&g, taps, out);

    double energy = 0;
    for (uint32_t n = 0; n < taps->count; n++) {
        energy += taps->re[n] * taps->re[n];
        if (taps->im != NULL)
            energy += taps->im[n] * taps->im[n];
    }
    out->noise_gain = sqrt(energy);
    free(g.magnitude);
    return 0;
}

/* ---- aliases ----------------------------------------------------------------------------- */

/* The power spectrum of |z|² without its mean for white noise through the filter: magnitudes |H|
 * become sum_v |H(v)|² |H(v + f)|², whose root is left so that levels are taken as for magnitudes.
 */
static int envelope_spectrum(double *magnitudes, uint32_t points, struct problem *problem)
{
    double *data = calloc(points, 2 * sizeof *data);
    int error = data == NULL ? ERROR_MEMORY : 0;
    for (uint32_t k = 0; error == 0 && k < points; k++)
        data[2 * (size_t)k] = magnitudes[k] * magnitudes[k];
    if (error == 0)
        error = reference_fft(data, points, -1);
    for (uint32_t k = 0; error == 0 && k < points; k++) {
        const double re = data[2 * (size_t)k], im = data[2 * (size_t)k + 1];
        data[2 * (size_t)k] = re * re + im * im;
        data[2 * (size_t)k + 1] = 0;
    }
    if (error == 0)
        error = reference_fft(data, points, 1);
    for (uint32_t k = 0; error == 0 && k < points; k++)
        magnitudes[k] = sqrt(fmax(data[2 * (size_t)k], 0));
    free(data);
    return error == 0 ? 0
                      : problem_set(problem, ERROR_MEMORY, "no memory for a response on %u points",
                                    points);
}

int response_alias(const struct taps *taps, double rate_hz, uint32_t decimate, enum alias_form form,
                   struct response_alias *out, struct problem *problem)
{
    assert(decimate >= 2);
    struct taps seen = *taps;
    if (form == ALIAS_REAL)
        seen.im = NULL;
    const bool two_sided = form == ALIAS_COMPLEX && seen.im != NULL;
    struct grid g = {.points = grid_points(taps->count), .two_sided = two_sided};
    while (g.points < 64 * (uint64_t)decimate) /* the kept band has points enough */
        g.points *= 2;
    int error = response_grid(&seen, g.points, &g.magnitude, problem);
    if (error == 0 && form == ALIAS_ENVELOPE)
        error = envelope_spectrum(g.magnitude, g.points, problem);
    if (error != 0) {
        free(g.magnitude);
        return error;
    }
    g.step_hz = rate_hz / g.points;
    const double output_hz = decimation_rate_hz(decimate, rate_hz);
    *out = (struct response_alias){
        .kept_hz = output_hz / 2, .worst_db = -INFINITY, .pass_db = -INFINITY};

    double largest = 0;
    const int64_t half = g.points / 2, from = two_sided ? 1 - half : 0;
    for (int64_t k = from; k <= half; k++)
        if (fabs((double)k * g.step_hz) <= out->kept_hz)
            largest = fmax(largest, grid_at(&g, k));
    if (form != ALIAS_ENVELOPE) { /* the band's very edges, which the grid need not meet */
        const double upper = response_at(&seen, out->kept_hz, rate_hz);
        const double lower = two_sided ? response_at(&seen, -out->kept_hz, rate_hz) : upper;
        largest = fmax(largest, fmax(upper, lower));
        out->worst_db = decibel(fmax(upper, lower) / largest);
        out->from_hz = out->at_hz = lower > upper ? -out->kept_hz : out->kept_hz;
    }
    for (int64_t k = from; k <= half; k++) {
        const double hz = (double)k * g.step_hz;
        if (fabs(hz) <= out->kept_hz)
            continue;
        double at_hz = hz - round(hz / output_hz) * output_hz;
        if (!two_sided)
            at_hz = fabs(at_hz);
        const double level_db = decibel(extremum_at(&g, k, 1, -INFINITY, INFINITY) / largest);
        if (level_db > out->worst_db) {
            out->worst_db = level_db;
            out->from_hz = hz;
            out->at_hz = at_hz;
        }
        if (level_db > out->pass_db && grid_at(&g, llround(at_hz / g.step_hz)) >= largest / 2) {
            out->pass_db = level_db;
            out->pass_from_hz = hz;
            out->pass_at_hz = at_hz;
        }
    }
    free(g.magnitude);
    return 0;
}
