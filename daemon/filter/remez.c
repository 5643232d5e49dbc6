/*
 * Symmetric prototypes by Parks–McClellan (1972) through liquid-dsp's firdespm: see prototype.h.
 * liquid works on float band edges, returns float taps, and reports success with NaN where it
 * did not converge, so everything it returns is checked here before it is believed. No state of
 * ours; worker threads.
 */
#include <assert.h>
#include <complex.h>
#include <math.h>
#include <stdlib.h>

#include <liquid/liquid.h>

#include "filter/design.h"
#include "filter/prototype.h"

enum { BANDS_MAX = 3 };
#define BAND_RIPPLES_MIN 0.7 /* width of the narrowest band, in 1/taps */
#define EDGE_LOST        0.2 /* amplitude off at an edge: not a solution of this problem */

static double remez_width(double attenuation_db)
{
    return fmax((attenuation_db - 13) / 14.6, 0.5);
}

double prototype_remez_length(double attenuation_db, double transition)
{
    return remez_width(attenuation_db) / transition + 1;
}

double prototype_remez_transition(double attenuation_db, uint32_t taps)
{
    return remez_width(attenuation_db) / (taps - 1);
}

struct remez_bands {
    unsigned int count;
    float edges[2 * BANDS_MAX], desired[BANDS_MAX], weights[BANDS_MAX];
};

static void add_band(struct remez_bands *b, double from, double until, bool pass)
{
    b->edges[2 * b->count] = (float)from;
    b->edges[2 * b->count + 1] = (float)until;
    b->desired[b->count] = pass ? 1 : 0;
    b->weights[b->count] = 1;
    b->count++;
}

/* Pass- and stop-bands half a transition away from the cut-offs, weighted alike: unequal weights
 * push the -6 dB points out of the middle of the transition. False: a band is empty. */
static bool set_bands(const struct prototype *p, double low, double high, double transition,
                      struct remez_bands *b)
{
    *b = (struct remez_bands){0};
    double half = transition / 2, from = 0;
    bool pass = p->inverted || !p->has_low; /* does the band that begins at 0 pass? */
    double edge[2] = {low, high}, other[2] = {p->has_high ? high : 0.5, p->has_low ? low : 0};
    bool has[2] = {p->has_low, p->has_high};
    for (int i = 0; i < 2; i++) {
        if (!has[i])
            continue;
        /* a band much narrower than a ripple leaves the exchange without extrema to find there */
        double room = fmin(i == 0 ? edge[i] : edge[i] - other[i],
                           i == 0 ? other[i] - edge[i] : 0.5 - edge[i]);
        double half_here = fmax(fmin(half, room - BAND_RIPPLES_MIN / p->taps), half / 2);
        add_band(b, from, edge[i] - half_here, pass);
        from = edge[i] + half_here;
        pass = !pass;
    }
    add_band(b, from, 0.5, pass);
    for (unsigned int i = 0; i < b->count; i++)
        if (!(b->edges[2 * i] < b->edges[2 * i + 1]))
            return false;
    return true;
}

/*
 * An odd symmetric filter can be had in four ways: as it is, as the mirror image about rate/4 of
 * another, as what another leaves, or both. The exchange is surest where the first band passes or
 * only the middle one does, and gives up on some wide first bands; what one way does not solve,
 * another mostly does.
 */
enum way { WAY_MIRRORED = 1, WAY_COMPLEMENT = 2, WAYS = 4 };

static struct remez_bands bands_of_way(const struct remez_bands *b, unsigned int way)
{
    struct remez_bands other = *b;
    for (unsigned int i = 0; i < b->count; i++) {
        unsigned int from = way & WAY_MIRRORED ? b->count - 1 - i : i;
        if (way & WAY_MIRRORED) {
            other.edges[2 * i] = 0.5f - b->edges[2 * from + 1];
            other.edges[2 * i + 1] = 0.5f - b->edges[2 * from];
        }
        other.desired[i] = way & WAY_COMPLEMENT ? 1 - b->desired[from] : b->desired[from];
    }
    return other;
}

/* One run of the exchange algorithm; false unless every tap is finite. */
static bool solve_way(const struct prototype *p, const struct remez_bands *b, unsigned int way,
                      float *taps, double *h)
{
    struct remez_bands bands = bands_of_way(b, way);
    int status = firdespm_run(p->taps, bands.count, bands.edges, bands.desired, bands.weights, NULL,
                              LIQUID_FIRDESPM_BANDPASS, taps);
    if (status != LIQUID_OK)
        return false;
    uint32_t middle = p->taps / 2;
    for (uint32_t n = 0; n < p->taps; n++) {
        if (!isfinite(taps[n]))
            return false;
        h[n] =
            ((double)taps[n] + (double)taps[p->taps - 1 - n]) / 2; /* symmetric to the last bit */
        if (way & WAY_COMPLEMENT)
            h[n] = (n == middle ? 1 : 0) - h[n];
        if (way & WAY_MIRRORED && (n + middle) % 2 == 1)
            h[n] = -h[n];
    }
    double gain = prototype_amplitude(h, p->taps, p->reference);
    if (!(fabs(gain) > 1e-3))
        return false;
    for (uint32_t n = 0; n < p->taps; n++)
        h[n] /= gain;
    return true;
}

static bool solve(const struct prototype *p, const struct remez_bands *b, float *taps, double *h)
{
    bool highpass = p->has_low && !p->has_high;
    unsigned int surest = (highpass ? WAY_MIRRORED : 0) | (p->inverted ? WAY_COMPLEMENT : 0);
    if (p->taps % 2 == 0) {
        assert(surest == 0);
        return solve_way(p, b, 0, taps, h);
    }
    for (unsigned int change = 0; change < WAYS; change++)
        if (solve_way(p, b, surest ^ change, taps, h))
            return true;
    return false;
}

/* |dA/df| at an edge; at least what falls by one half over the transition. */
static double steepness(const struct prototype *p, const double *h, double edge)
{
    double step = p->transition / 20;
    double rise =
        prototype_amplitude(h, p->taps, edge + step) - prototype_amplitude(h, p->taps, edge - step);
    return fmax(fabs(rise) / (2 * step), 0.5 / p->transition);
}

static int refuse_remez(const struct prototype *p, struct problem *problem)
{
    return problem_set(
        problem, ERROR_UNSUPPORTED,
        "method: Parks-McClellan does not converge for %u taps with this band; write "
        "method = kaiser",
        p->taps);
}

int prototype_remez(const struct prototype *p, double *h, struct problem *problem)
{
    float *taps = malloc(p->taps * sizeof *taps);
    if (taps == NULL)
        return problem_set(problem, ERROR_MEMORY, "no memory to design %u taps", p->taps);
    double low = p->low, high = p->high, transition = p->transition;
    bool solved = false;
    double miss = 0;
    for (int step = 0; step < 8; step++) {
        struct remez_bands bands;
        solved = set_bands(p, low, high, transition, &bands) && solve(p, &bands, taps, h);
        if (!solved)
            break;
        double miss_low = p->has_low ? 0.5 - prototype_amplitude(h, p->taps, p->low) : 0;
        double miss_high = p->has_high ? 0.5 - prototype_amplitude(h, p->taps, p->high) : 0;
        miss = fmax(fabs(miss_low), fabs(miss_high));
        if (miss < 1e-3)
            break;
        /* moving the bands moves the response along: a Newton step with the slope at the edge */
        double sign = p->inverted ? -1 : 1, limit = p->transition / 4;
        low -= sign * miss_low / steepness(p, h, p->low);
        high += sign * miss_high / steepness(p, h, p->high);
        low = fmin(fmax(low, p->low - limit), p->low + limit);
        high = fmin(fmax(high, p->high - limit), p->high + limit);
        /* keep the asked pass- and stop-bands covered although the middle has moved */
        double moved =
            fmax(p->has_low ? fabs(low - p->low) : 0, p->has_high ? fabs(high - p->high) : 0);
        transition = p->transition - 2 * moved;
    }
    free(taps);
    return solved && miss < EDGE_LOST ? 0 : refuse_remez(p, problem);
}
