/*
 * Filter design: see design.h. The steps: prove the request (design_check), turn it into a
 * prototype on normalised frequencies, compute the prototype by Kaiser window or Parks–McClellan
 * (remez.c), move its edges until the -6 dB points lie where they were asked, measure the taps on a
 * dense grid, and either hand them out or say what was asked and what was achieved.
 *
 * No state; worker threads.
 */
#include "filter/design.h"

#include <assert.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "filter/kaiser.h"
#include "filter/prototype.h"

#define EDGE_TOLERANCE_DB 0.1
#define HALF_DB           (-6.020599913279624) /* amplitude one half */

static const struct band_traits {
    const char *name;
    bool low, high; /* which edges the band has */
    bool odd_only;  /* an even symmetric filter has a zero at Nyquist */
    bool inverted;  /* the stop-band lies between the edges */
} bands[] = {
    [BAND_LOWPASS] = {"low-pass", false, true, false, false},
    [BAND_HIGHPASS] = {"high-pass", true, false, true, false},
    [BAND_BANDPASS] = {"band-pass", true, true, false, false},
    [BAND_BANDSTOP] = {"band-stop", true, true, true, true},
};

const char *design_method_name(int method)
{
    static const char *const names[] = {
#define X(name, text) [DESIGN_##name] = text,
        DESIGN_METHOD_TABLE(X)
#undef X
    };
    return method >= 0 && method < DESIGN_METHODS ? names[method] : NULL;
}

/* ---- the request, proven ----------------------------------------------------------------- */

/* The edges as asked, and how wide a transition they leave room for. */
struct request {
    enum band_type band;
    double low_hz, high_hz; /* 0 / Nyquist where the band has no such edge */
    double transition_max_hz;
    double transition_hz; /* asked, or chosen; 0: follows from the taps */
};

static int edge_check(const char *key, double hz, double nyquist_hz, struct problem *problem)
{
    if (!(hz > 0) || !isfinite(hz))
        return problem_set(problem, ERROR_CONFIG,
                           "%s: a band edge must lie above 0 Hz; write a frequency between 0 and "
                           "%.9g Hz (half the rate)",
                           key, nyquist_hz);
    if (hz >= nyquist_hz)
        return problem_set(
            problem, ERROR_CONFIG,
            "%s: %.9g Hz is not below half the rate (Nyquist, %.9g Hz); write a lower "
            "frequency or raise the stream's rate",
            key, hz, nyquist_hz);
    return 0;
}

static int request_edges(const struct design_spec *spec, double nyquist_hz, struct request *r,
                         struct problem *problem)
{
    const struct band_traits *traits = &bands[spec->band];
    r->band = spec->band;
    r->low_hz = 0;
    r->high_hz = nyquist_hz;
    if (traits->low && traits->high) {
        if (spec->cutoff_hz != 0)
            return problem_set(problem, ERROR_CONFIG,
                               "cutoff: a %s has two edges; write `low` and `high` instead",
                               traits->name);
        r->low_hz = spec->low_hz;
        r->high_hz = spec->high_hz;
        int error = edge_check("low", r->low_hz, nyquist_hz, problem);
        if (error == 0)
            error = edge_check("high", r->high_hz, nyquist_hz, problem);
        if (error != 0)
            return error;
        if (r->low_hz >= r->high_hz)
            return problem_set(problem, ERROR_CONFIG,
                               "low: %.9g Hz is not below `high` (%.9g Hz); exchange them",
                               r->low_hz, r->high_hz);
        r->transition_max_hz =
            fmin(fmin(2 * r->low_hz, 2 * (nyquist_hz - r->high_hz)), r->high_hz - r->low_hz);
        return 0;
    }
    double own = traits->low ? spec->low_hz : spec->high_hz;
    double other = traits->low ? spec->high_hz : spec->low_hz;
    const char *own_key = traits->low ? "low" : "high", *other_key = traits->low ? "high" : "low";
    if (other != 0)
        return problem_set(problem, ERROR_CONFIG,
                           "%s: a %s has one edge; write `cutoff` instead, or type = bandpass",
                           other_key, traits->name);
    if (own != 0 && spec->cutoff_hz != 0 && own != spec->cutoff_hz)
        return problem_set(problem, ERROR_CONFIG,
                           "%s: %.9g Hz contradicts `cutoff` (%.9g Hz); write one of them", own_key,
                           own, spec->cutoff_hz);
    double edge = spec->cutoff_hz != 0 ? spec->cutoff_hz : own;
    int error = edge_check("cutoff", edge, nyquist_hz, problem);
    if (error != 0)
        return error;
    *(traits->low ? &r->low_hz : &r->high_hz) = edge;
    r->transition_max_hz = 2 * fmin(edge, nyquist_hz - edge);
    return 0;
}

static int length_check(const struct design_spec *spec, struct problem *problem)
{
    const struct band_traits *traits = &bands[spec->band];
    if (spec->taps > TAPS_MAX)
        return problem_set(problem, ERROR_CONFIG, "taps: %u is too many; at most %d", spec->taps,
                           TAPS_MAX);
    if (spec->taps != 0 && spec->taps < 3)
        return problem_set(problem, ERROR_CONFIG,
                           "taps: %u is too few to filter with; write at least 3, or type = "
                           "identity",
                           spec->taps);
    if (spec->taps != 0 && spec->taps % 2 == 0 && traits->odd_only)
        return problem_set(
            problem, ERROR_CONFIG,
            "taps: a %s of even length is not possible (symmetric taps of even "
            "length have a zero at half the rate, inside the pass-band); write %u or "
            "%u",
            traits->name, spec->taps - 1, spec->taps + 1);
    if (spec->taps > DESIGN_REMEZ_TAPS_MAX && spec->method == DESIGN_REMEZ)
        return problem_set(
            problem, ERROR_CONFIG,
            "taps: method = remez solves up to %d taps, %u are asked; write method = "
            "kaiser",
            DESIGN_REMEZ_TAPS_MAX, spec->taps);
    return 0;
}

static int quality_check(const struct design_spec *spec, struct problem *problem)
{
    double attenuation = spec->attenuation_db, ripple = spec->ripple_db;
    if (attenuation != 0 &&
        !(attenuation >= DESIGN_ATTENUATION_DB_MIN && attenuation <= DESIGN_ATTENUATION_DB_MAX))
        return problem_set(problem, ERROR_CONFIG,
                           "attenuation: %.9g dB is out of range; write %d dB to %d dB",
                           attenuation, DESIGN_ATTENUATION_DB_MIN, DESIGN_ATTENUATION_DB_MAX);
    if (spec->method == DESIGN_REMEZ && attenuation > DESIGN_REMEZ_ATTENUATION_DB_MAX)
        return problem_set(
            problem, ERROR_CONFIG,
            "attenuation: method = remez computes in single precision and reaches %d "
            "dB, %.4g dB are asked; write method = kaiser",
            DESIGN_REMEZ_ATTENUATION_DB_MAX, attenuation);
    if (ripple != 0 && !(ripple >= 1e-7 && ripple <= 6))
        return problem_set(problem, ERROR_CONFIG,
                           "ripple: %.9g dB is out of range; write 0.0000001 dB to 6 dB", ripple);
    if (spec->analytic && spec->band != BAND_BANDPASS)
        return problem_set(problem, ERROR_CONFIG,
                           "analytic: a %s has no band centre to be analytic about; write type = "
                           "bandpass, or leave `analytic` out",
                           bands[spec->band].name);
    return 0;
}

static int request_prove(const struct design_spec *spec, double rate_hz, struct request *r,
                         struct problem *problem)
{
    assert(rate_hz > 0);
    int error = request_edges(spec, rate_hz / 2, r, problem);
    if (error == 0)
        error = length_check(spec, problem);
    if (error == 0)
        error = quality_check(spec, problem);
    if (error != 0)
        return error;
    r->transition_hz = spec->transition_hz;
    if (spec->transition_hz < 0 || !isfinite(spec->transition_hz))
        return problem_set(problem, ERROR_CONFIG,
                           "transition: must be above 0 Hz; at most %.9g Hz fits these edges",
                           r->transition_max_hz);
    if (spec->transition_hz > r->transition_max_hz * (1 + 1e-12))
        return problem_set(
            problem, ERROR_CONFIG,
            "transition: %.9g Hz around these edges reaches past 0 Hz, half the rate "
            "or the other edge; write at most %.9g Hz",
            spec->transition_hz, r->transition_max_hz);
    if (r->transition_hz == 0 && spec->taps == 0)
        r->transition_hz = r->transition_max_hz / 4;
    return 0;
}

/* Attenuation to design for: the stop-band's, or the ripple's if that asks for more. Edges that are
 * -6 dB points mean ripples alike in both bands, with either method. The reference may lie on a
 * ripple's top, and its gain becomes 1: half the ripple each. */
static double design_attenuation_db(const struct design_spec *spec)
{
    double stop = spec->attenuation_db != 0 ? spec->attenuation_db : DESIGN_ATTENUATION_DB;
    if (spec->ripple_db == 0)
        return stop;
    double deviation = pow(10, spec->ripple_db / 20) - 1;
    if (spec->method == DESIGN_REMEZ)
        deviation /= 2;
    return fmax(stop, -20 * log10(deviation));
}

static uint64_t length_for(const struct design_spec *spec, double attenuation_db, double transition)
{
    double taps = spec->method == DESIGN_REMEZ ? prototype_remez_length(attenuation_db, transition)
                                               : kaiser_length(attenuation_db, transition);
    uint64_t count = taps < 1e15 ? (uint64_t)ceil(taps) : (uint64_t)1e15;
    if (count < 3)
        count = 3;
    return count | 1; /* odd: a whole frame of delay, and every band possible */
}

/* A little more than the formulas say, which are fits. */
static uint64_t length_enough(const struct design_spec *spec, const struct request *r,
                              double rate_hz)
{
    double transition_hz = r->transition_hz != 0 ? r->transition_hz : r->transition_max_hz;
    return length_for(spec, design_attenuation_db(spec) + 1, transition_hz / rate_hz);
}

uint64_t design_length(const struct design_spec *spec, double rate_hz)
{
    struct request r;
    return request_prove(spec, rate_hz, &r, NULL) == 0 ? length_enough(spec, &r, rate_hz) : 0;
}

int design_check(const struct design_spec *spec, double rate_hz, struct problem *problem)
{
    struct request r;
    int error = request_prove(spec, rate_hz, &r, problem);
    if (error != 0 || spec->taps != 0)
        return error;
    uint64_t taps = length_for(spec, design_attenuation_db(spec), r.transition_hz / rate_hz);
    bool remez = spec->method == DESIGN_REMEZ;
    uint64_t most = remez ? DESIGN_REMEZ_TAPS_MAX : TAPS_MAX;
    if (taps > most)
        return problem_set(problem, ERROR_CONFIG,
                           "transition: %.6g Hz at %.9g Hz needs %llu taps, %s at most %llu; write "
                           "%s%.6g Hz or more",
                           r.transition_hz, rate_hz, (unsigned long long)taps,
                           remez ? "method = remez solves" : "a filter has",
                           (unsigned long long)most, remez ? "method = kaiser, or " : "",
                           1.01 * r.transition_hz * (double)taps / (double)most);
    return 0;
}

/* ---- taps -------------------------------------------------------------------------------- */

/* What one attempt aims at. */
struct attempt {
    uint32_t taps;
    double attenuation_db; /* of the window */
    double transition_hz;
    double stretch; /* remez: factor on the estimated length or transition */
};

/* The prototype on normalised frequencies: of the band itself, or the low-pass of an analytic
 * band-pass. */
static struct prototype prototype_of(const struct design_spec *spec, const struct request *r,
                                     const struct attempt *attempt, double rate_hz)
{
    struct prototype p = {
        .taps = attempt->taps,
        .low = r->low_hz / rate_hz,
        .high = r->high_hz / rate_hz,
        .has_low = bands[r->band].low,
        .has_high = bands[r->band].high,
        .inverted = bands[r->band].inverted,
        .attenuation_db = attempt->attenuation_db,
        .transition = attempt->transition_hz / rate_hz,
    };
    if (spec->analytic) {
        p.high = (p.high - p.low) / 2;
        p.low = 0;
        p.has_low = false;
    }
    switch (r->band) {
    case BAND_HIGHPASS:
        p.reference = 0.5;
        break;
    case BAND_BANDPASS:
        p.reference = spec->analytic ? 0 : (p.low + p.high) / 2;
        break;
    default:
        p.reference = 0;
    }
    return p;
}

/* Modulates the low-pass to the centre of the band, gain 2; symmetric about the middle tap, so that
 * the phase is linear and the real part is the band-pass. */
static void modulate(struct taps *taps, double centre)
{
    double middle = (taps->count - 1) / 2.0;
    for (uint32_t n = 0; n < taps->count; n++) {
        double turns = centre * (n - middle), angle = 2 * M_PI * (turns - floor(turns));
        taps->im[n] = 2 * taps->re[n] * sin(angle);
        taps->re[n] *= 2 * cos(angle);
    }
}

/* Where the taps are judged: pass- and stop-bands half a transition away from the edges. */
static struct response_bands judged_bands(const struct request *r, double rate_hz,
                                          double transition_hz)
{
    double half = transition_hz / 2, nyquist = rate_hz / 2;
    double low = r->low_hz, high = r->high_hz;
    switch (r->band) {
    case BAND_LOWPASS:
        return (struct response_bands){.reference_hz = 0,
                                       .pass_from_hz = {0},
                                       .pass_until_hz = {high - half},
                                       .stop_from_hz = {high + half},
                                       .stop_until_hz = {nyquist},
                                       .edge_hz = {NAN, high}};
    case BAND_HIGHPASS:
        return (struct response_bands){.reference_hz = nyquist,
                                       .pass_from_hz = {low + half},
                                       .pass_until_hz = {nyquist},
                                       .stop_from_hz = {0},
                                       .stop_until_hz = {low - half},
                                       .edge_hz = {low, NAN}};
    case BAND_BANDPASS:
        return (struct response_bands){.reference_hz = (low + high) / 2,
                                       .pass_from_hz = {low + half},
                                       .pass_until_hz = {high - half},
                                       .stop_from_hz = {0, high + half},
                                       .stop_until_hz = {low - half, nyquist},
                                       .edge_hz = {low, high}};
    case BAND_BANDSTOP:
        break;
    }
    return (struct response_bands){.reference_hz = 0,
                                   .pass_from_hz = {0, high + half},
                                   .pass_until_hz = {low - half, nyquist},
                                   .stop_from_hz = {low + half},
                                   .stop_until_hz = {high - half},
                                   .edge_hz = {low, high}};
}

static int attempt_make(const struct design_spec *spec, const struct request *r,
                        const struct attempt *attempt, double rate_hz, struct taps **out,
                        struct response *response, struct problem *problem)
{
    int error = taps_create(attempt->taps, spec->analytic, out, problem);
    if (error != 0)
        return error;
    struct prototype p = prototype_of(spec, r, attempt, rate_hz);
    error = spec->method == DESIGN_REMEZ ? prototype_remez(&p, (*out)->re, problem)
                                         : prototype_kaiser(&p, (*out)->re, problem);
    if (error == 0) {
        if (spec->analytic)
            modulate(*out, (r->low_hz + r->high_hz) / 2 / rate_hz);
        struct response_bands judged = judged_bands(r, rate_hz, attempt->transition_hz);
        error = response_measure(*out, rate_hz, &judged, response, problem);
    }
    if (error != 0) {
        taps_free(*out);
        *out = NULL;
    }
    return error;
}

/* By how many dB the measured design misses what was asked; ≤ 0: it does not. */
static double shortfall_db(const struct design_spec *spec, bool attenuation_asked,
                           const struct response *response)
{
    double missing = -1;
    if (attenuation_asked) {
        double stop = spec->attenuation_db != 0 ? spec->attenuation_db : DESIGN_ATTENUATION_DB;
        missing = stop - response->attenuation_db;
    }
    if (spec->ripple_db != 0 && response->ripple_db > spec->ripple_db)
        missing = fmax(missing, 20 * log10(response->ripple_db / spec->ripple_db));
    return isnan(missing) ? INFINITY : missing;
}

static bool edges_hit(const struct response *response)
{
    for (int i = 0; i < 2; i++)
        if (!isnan(response->edge_db[i]) &&
            !(fabs(response->edge_db[i] - HALF_DB) <= EDGE_TOLERANCE_DB))
            return false;
    return true;
}

/* The refusal: asked against achieved, and what would do. */
static int refuse(const struct design_spec *spec, const struct request *r,
                  const struct attempt *attempt, double rate_hz, const struct response *response,
                  struct problem *problem)
{
    const char *band = bands[r->band].name, *method = design_method_name(spec->method);
    const uint64_t enough = length_enough(spec, r, rate_hz);
    if (!edges_hit(response)) {
        int i = fabs(response->edge_db[0] - HALF_DB) > EDGE_TOLERANCE_DB ? 0 : 1;
        return problem_set(
            problem, ERROR_ACCURACY,
            "taps: the %s of %u taps misses its edge: asked -6.02 dB at %.9g Hz, achieved %.2f dB; "
            "write taps = %llu or more, or a lower attenuation",
            band, attempt->taps, i == 0 ? r->low_hz : r->high_hz, response->edge_db[i],
            (unsigned long long)enough);
    }
    if (spec->ripple_db != 0 && response->ripple_db > spec->ripple_db)
        return problem_set(problem, ERROR_ACCURACY,
                           "ripple: the %s %s of %u taps misses: asked %.4g dB, achieved %.4g dB; "
                           "write taps = %llu or more, a wider transition, or more ripple",
                           method, band, attempt->taps, spec->ripple_db, response->ripple_db,
                           (unsigned long long)enough);
    return problem_set(problem, ERROR_ACCURACY,
                       "attenuation: the %s %s of %u taps misses: asked %.4g dB, achieved %.4g dB "
                       "with a transition of %.6g Hz; write taps = %llu or more, a wider "
                       "transition, or less attenuation%s",
                       method, band, attempt->taps,
                       spec->attenuation_db != 0 ? spec->attenuation_db : DESIGN_ATTENUATION_DB,
                       response->attenuation_db, attempt->transition_hz, (unsigned long long)enough,
                       spec->method == DESIGN_REMEZ ? ", or method = kaiser" : "");
}

/* No attenuation was asked, and next to none comes out. */
static int refuse_no_filter(const struct request *r, const struct attempt *attempt,
                            const struct response *response, uint64_t enough,
                            struct problem *problem)
{
    return problem_set(problem, ERROR_ACCURACY,
                       "taps: a %s of %u taps attenuates by %.3g dB with a transition of %.6g Hz, "
                       "which is no filter; write taps = %llu or more for the usual %d dB, or a "
                       "wider transition",
                       bands[r->band].name, attempt->taps, response->attenuation_db,
                       attempt->transition_hz, (unsigned long long)enough, DESIGN_ATTENUATION_DB);
}

/* Fills the length or the transition that the window's attenuation leaves open. */
static int attempt_plan(const struct design_spec *spec, const struct request *r, double rate_hz,
                        struct attempt *attempt, struct problem *problem)
{
    attempt->transition_hz = r->transition_hz;
    attempt->taps = spec->taps;
    if (spec->taps != 0 && r->transition_hz != 0)
        return 0;
    if (spec->taps != 0) {
        double transition = spec->method == DESIGN_REMEZ
                                ? prototype_remez_transition(attempt->attenuation_db, spec->taps)
                                : kaiser_transition(attempt->attenuation_db, spec->taps);
        attempt->transition_hz = transition * attempt->stretch * rate_hz;
        if (attempt->transition_hz > r->transition_max_hz * (1 + 1e-9))
            return problem_set(
                problem, ERROR_CONFIG,
                "taps: %u taps with %.4g dB attenuation need a transition of %.6g Hz, "
                "and these edges leave room for %.6g Hz; write taps = %llu or more, "
                "or less attenuation",
                spec->taps, attempt->attenuation_db, attempt->transition_hz, r->transition_max_hz,
                (unsigned long long)length_for(spec, attempt->attenuation_db,
                                               r->transition_max_hz / rate_hz));
        return 0;
    }
    uint64_t taps =
        length_for(spec, attempt->attenuation_db, r->transition_hz / attempt->stretch / rate_hz);
    uint64_t most = spec->method == DESIGN_REMEZ ? DESIGN_REMEZ_TAPS_MAX : TAPS_MAX;
    attempt->taps = (uint32_t)(taps < most ? taps : most - (most % 2 == 0));
    return 0;
}

int design_make(const struct design_spec *spec, double rate_hz, struct taps **out,
                struct response *response, struct problem *problem)
{
    *out = NULL;
    struct request r;
    int error = design_check(spec, rate_hz, problem);
    if (error != 0)
        return error;
    error = request_prove(spec, rate_hz, &r, problem);
    assert(error == 0);

    /* A length is given and nothing said about attenuation: what is usual, or as much as fits. */
    bool attenuation_asked = spec->attenuation_db != 0 || spec->taps == 0;
    struct attempt attempt = {.attenuation_db = design_attenuation_db(spec), .stretch = 1};
    if (!attenuation_asked) {
        double room_hz = r.transition_hz != 0 ? r.transition_hz : r.transition_max_hz;
        double fits_db =
            fmin(fmax(kaiser_attenuation(spec->taps, room_hz / rate_hz), DESIGN_ATTENUATION_DB_MIN),
                 DESIGN_ATTENUATION_DB_MAX);
        if (r.transition_hz != 0 || fits_db < attempt.attenuation_db)
            attempt.attenuation_db = fits_db;
    }

    /* Kaiser's formulas are fits and two edges add their ripples: ask for a little more until the
     * measurement agrees. A window is asked for attenuation; Parks-McClellan gets more taps, or a
     * wider transition where the taps are given. */
    struct response measured;
    for (int round = 0;; round++) {
        error = attempt_plan(spec, &r, rate_hz, &attempt, problem);
        if (error == 0)
            error = attempt_make(spec, &r, &attempt, rate_hz, out, &measured, problem);
        bool remez = spec->method == DESIGN_REMEZ;
        bool fixed = spec->taps != 0 && r.transition_hz != 0;
        int rounds = remez ? 10 : 12;
        if (error == ERROR_UNSUPPORTED && round < rounds && !fixed) {
            attempt.stretch *= 1 + 2.2 / attempt.taps; /* two taps more may converge */
            continue;
        }
        if (error != 0)
            return error;
        double missing = shortfall_db(spec, attenuation_asked, &measured);
        if (missing <= 0 && edges_hit(&measured))
            break;
        bool full = spec->taps == 0 && attempt.taps == (remez ? DESIGN_REMEZ_TAPS_MAX : TAPS_MAX);
        if (round == rounds || fixed || full || (!remez && !(missing < 12))) {
            error = refuse(spec, &r, &attempt, rate_hz, &measured, problem);
            taps_free(*out);
            *out = NULL;
            return error;
        }
        taps_free(*out);
        *out = NULL;
        if (remez)
            attempt.stretch *= 1 + fmin(fmax(missing / 100, (2.2 + round) / attempt.taps), 0.2);
        else
            attempt.attenuation_db += fmax(missing, 0) + 0.25;
    }
    if (!attenuation_asked && measured.attenuation_db < DESIGN_ATTENUATION_DB_MIN) {
        error =
            refuse_no_filter(&r, &attempt, &measured, length_enough(spec, &r, rate_hz), problem);
        taps_free(*out);
        *out = NULL;
        return error;
    }
    (*out)->delay_frames = ((*out)->count - 1) / 2.0;
    (*out)->delay_source = DELAY_DESIGN;
    taps_hash(*out);
    if (response != NULL)
        *response = measured;
    return 0;
}
