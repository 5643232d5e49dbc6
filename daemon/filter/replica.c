/*
 * Matched filters: see replica.h. Chirps and tone bursts come from waveform.c, so that generator,
 * rig and filter mean the same pulse; codes are built here. No state; worker threads.
 */
#include "filter/replica.h"

#include <assert.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "core/power.h"
#include "signal/reference.h"
#include "signal/waveform.h"

#define TWO_PI 6.283185307179586476925286766559

enum { GOLAY_ORDER_MAX = 16 };

static const struct {
    uint32_t length;
    const char *signs;
} barker_codes[] = {
    {2, "+-"},      {3, "++-"},          {4, "++-+"},           {5, "+++-+"},
    {7, "+++--+-"}, {11, "+++---+--+-"}, {13, "+++++--++-+-+"},
};

/* ---- the request, proven ----------------------------------------------------------------- */

/* A code's chips and their clock. */
struct chips {
    uint32_t count;
    double rate_hz, carrier_hz; /* carrier 0: bare chips */
};

/* Frames of a pulse of length_s: every n with n/rate < length. 0.01 s at 500 kHz means 5000 frames,
 * whatever the product's last bit says. */
static double pulse_frames(double length_s, double rate_hz)
{
    double frames = length_s * rate_hz, whole = nearbyint(frames);
    return fabs(frames - whole) <= 1e-9 * fmax(1, frames) ? whole : ceil(frames);
}

static int length_check(const char *key, double length_s, double rate_hz, struct problem *problem)
{
    double frames = pulse_frames(length_s, rate_hz);
    if (!(frames >= 2))
        return problem_set(problem, ERROR_CONFIG,
                           "%s: the replica is shorter than two frames at %.9g Hz; write a longer "
                           "one",
                           key, rate_hz);
    if (!(frames <= TAPS_MAX))
        return problem_set(problem, ERROR_CONFIG,
                           "%s: the replica has %.0f frames at %.9g Hz; at most %d, that is %.6g s",
                           key, frames, rate_hz, TAPS_MAX, TAPS_MAX / rate_hz);
    return 0;
}

static int frequency_check(const char *key, double hz, double rate_hz, struct problem *problem)
{
    if (hz > 0 && hz < rate_hz / 2)
        return 0;
    return problem_set(problem, ERROR_CONFIG,
                       "%s: %.9g Hz does not lie between 0 and half the rate (%.9g Hz); write a "
                       "frequency between them",
                       key, hz, rate_hz / 2);
}

static int chirp_check(const struct replica_spec *spec, double rate_hz, struct problem *problem)
{
    int error = frequency_check("start", spec->start_hz, rate_hz, problem);
    if (error == 0 && spec->stop_hz != 0)
        error = frequency_check("stop", spec->stop_hz, rate_hz, problem);
    if (error != 0)
        return error;
    if (!(spec->length_s > 0))
        return problem_set(problem, ERROR_CONFIG,
                           "length: a chirp needs its duration; write a time above 0 s");
    return length_check("length", spec->length_s, rate_hz, problem);
}

static int tone_burst_check(const struct replica_spec *spec, double rate_hz,
                            struct problem *problem)
{
    int error = frequency_check("carrier", spec->carrier_hz, rate_hz, problem);
    if (error != 0)
        return error;
    if (!(spec->cycles > 0))
        return problem_set(problem, ERROR_CONFIG,
                           "cycles: a tone burst needs its length; write how many cycles of the "
                           "carrier, as in 5");
    return length_check("cycles", spec->cycles / spec->carrier_hz, rate_hz, problem);
}

static int code_count(const struct replica_spec *spec, uint32_t *count, struct problem *problem)
{
    if (spec->kind == REPLICA_GOLAY) {
        if (spec->golay_order < 1 || spec->golay_order > GOLAY_ORDER_MAX)
            return problem_set(problem, ERROR_CONFIG,
                               "order: a Golay code has 2^order chips; write an order of 1 to %d",
                               GOLAY_ORDER_MAX);
        *count = 1u << spec->golay_order;
        return 0;
    }
    for (size_t i = 0; i < sizeof barker_codes / sizeof barker_codes[0]; i++) {
        if (barker_codes[i].length == spec->barker_length) {
            *count = spec->barker_length;
            return 0;
        }
    }
    return problem_set(problem, ERROR_CONFIG,
                       "code: there is no Barker code of length %u; write 2, 3, 4, 5, 7, 11 or 13",
                       spec->barker_length);
}

/* carrier = chip rate · cycles per chip: two given, the third follows. */
static int code_clock(const struct replica_spec *spec, struct chips *chips, struct problem *problem)
{
    double carrier = spec->carrier_hz, rate = spec->chip_rate_hz, cycles = spec->cycles_per_chip;
    if (!(carrier >= 0 && rate >= 0 && cycles >= 0))
        return problem_set(problem, ERROR_CONFIG,
                           "carrier: carrier, chip rate and cycles per chip must be above 0");
    if (carrier > 0 && rate > 0 && cycles > 0 && fabs(carrier - rate * cycles) > 1e-6 * carrier)
        return problem_set(problem, ERROR_CONFIG,
                           "carrier: %.9g Hz is not chip rate x cycles per chip (%.9g Hz x %.9g); "
                           "leave one of the three out",
                           carrier, rate, cycles);
    if (rate == 0 && carrier > 0 && cycles > 0)
        rate = carrier / cycles;
    if (carrier == 0 && rate > 0 && cycles > 0)
        carrier = rate * cycles;
    if (rate == 0)
        return problem_set(problem, ERROR_CONFIG,
                           "chip rate: a code needs its clock; write two of `carrier`, `chip rate` "
                           "and `cycles per chip`, or `chip rate` alone for bare chips");
    chips->rate_hz = rate;
    chips->carrier_hz = carrier;
    return 0;
}

static int code_prove(const struct replica_spec *spec, double rate_hz, struct chips *chips,
                      struct problem *problem)
{
    int error = code_count(spec, &chips->count, problem);
    if (error == 0)
        error = code_clock(spec, chips, problem);
    if (error == 0 && chips->carrier_hz > 0)
        error = frequency_check("carrier", chips->carrier_hz, rate_hz, problem);
    if (error != 0)
        return error;
    if (chips->rate_hz > rate_hz * (1 + 1e-9))
        return problem_set(problem, ERROR_CONFIG,
                           "chip rate: %.9g Hz is above the stream's rate (%.9g Hz), so that chips "
                           "would fall between frames; write a lower one",
                           chips->rate_hz, rate_hz);
    if (spec->analytic && chips->carrier_hz == 0)
        return problem_set(problem, ERROR_CONFIG,
                           "analytic: bare chips have no carrier to be analytic about; write "
                           "`carrier`, or leave `analytic` out");
    return length_check("chip rate", chips->count / chips->rate_hz, rate_hz, problem);
}

int replica_check(const struct replica_spec *spec, double rate_hz, struct problem *problem)
{
    assert(rate_hz > 0);
    struct chips chips;
    if (!(spec->tukey_alpha >= 0 && spec->tukey_alpha <= 1))
        return problem_set(
            problem, ERROR_CONFIG,
            "window: the tapered part of a Tukey window is a fraction; write 0 to 1");
    switch (spec->kind) {
    case REPLICA_CHIRP:
        return chirp_check(spec, rate_hz, problem);
    case REPLICA_TONE_BURST:
        return tone_burst_check(spec, rate_hz, problem);
    case REPLICA_BARKER:
    case REPLICA_GOLAY:
        return code_prove(spec, rate_hz, &chips, problem);
    case REPLICA_FILE:
        break;
    }
    if (spec->path == NULL || spec->path[0] == '\0')
        return problem_set(problem, ERROR_CONFIG,
                           "path: a replica from a file needs its path; write path = FILE");
    return 0;
}

/* ---- replicas
 * ------------------------------------------------------------------------------------ */

/* chips[count] of +1 and -1. */
static void code_fill(const struct replica_spec *spec, uint32_t count, int8_t *code)
{
    if (spec->kind == REPLICA_BARKER) {
        for (size_t i = 0; i < sizeof barker_codes / sizeof barker_codes[0]; i++)
            if (barker_codes[i].length == count)
                for (uint32_t k = 0; k < count; k++)
                    code[k] = barker_codes[i].signs[k] == '+' ? 1 : -1;
        return;
    }
    /* a' = a|b, b' = a|-b. The first half of either is a; so only the last step tells them apart,
     * and chip k of a is (-1)^(number of adjacent ones in k's binary digits). */
    for (uint32_t k = 0; k < count; k++) {
        int ones = __builtin_popcount(k & (k >> 1));
        bool second_half = k >= count / 2;
        code[k] = (ones + (spec->golay_b && second_half)) % 2 == 0 ? 1 : -1;
    }
}

static int code_make(const struct replica_spec *spec, double rate_hz, struct taps **out,
                     struct problem *problem)
{
    struct chips chips;
    int error = code_prove(spec, rate_hz, &chips, problem);
    assert(error == 0);
    int8_t *code = malloc(chips.count);
    if (code == NULL)
        return problem_set(problem, ERROR_MEMORY, "no memory for %u chips", chips.count);
    code_fill(spec, chips.count, code);
    uint32_t frames = (uint32_t)pulse_frames(chips.count / chips.rate_hz, rate_hz);
    error = taps_create(frames, false, out, problem);
    for (uint32_t n = 0; error == 0 && n < frames; n++) {
        double chip = floor(n * (chips.rate_hz / rate_hz) + 1e-9);
        uint32_t k = chip < chips.count ? (uint32_t)chip : chips.count - 1;
        double turns = n * (chips.carrier_hz / rate_hz);
        double wave = chips.carrier_hz > 0 ? sin(TWO_PI * (turns - floor(turns))) : 1;
        (*out)->re[n] = code[k] * wave;
    }
    free(code);
    return error;
}

/* The pulse as the generator sends it, once. */
static int pulse_make(struct waveform_spec *pulse, double length_s, struct taps **out,
                      struct problem *problem)
{
    struct waveform *waveform;
    pulse->channels = 1;
    pulse->amplitude = 1;
    pulse->period_s = 0;
    int error = waveform_create(pulse, &waveform, problem);
    if (error != 0)
        return error;
    uint32_t frames = (uint32_t)pulse_frames(length_s, pulse->rate_hz);
    error = taps_create(frames, false, out, problem);
    if (error == 0)
        waveform_fill(waveform, 0, frames, (*out)->re);
    waveform_free(waveform);
    return error;
}

static int chirp_make(const struct replica_spec *spec, double rate_hz, struct taps **out,
                      struct problem *problem)
{
    struct waveform_spec pulse;
    waveform_defaults(&pulse, WAVEFORM_CHIRP);
    pulse.rate_hz = rate_hz;
    pulse.frequency_hz = spec->start_hz;
    pulse.frequency_end_hz = spec->stop_hz;
    pulse.length_s = spec->length_s;
    pulse.window = spec->window;
    pulse.taper = spec->tukey_alpha;
    return pulse_make(&pulse, spec->length_s, out, problem);
}

static int tone_burst_make(const struct replica_spec *spec, double rate_hz, struct taps **out,
                           struct problem *problem)
{
    struct waveform_spec pulse;
    waveform_defaults(&pulse, WAVEFORM_TONE_BURST);
    pulse.rate_hz = rate_hz;
    pulse.frequency_hz = spec->carrier_hz;
    pulse.cycles = spec->cycles;
    pulse.window = spec->window;
    pulse.taper = spec->tukey_alpha;
    return pulse_make(&pulse, spec->cycles / spec->carrier_hz, out, problem);
}

/* The window of codes and recorded replicas lies on their frames, its ends on the first and last;
 * pulses bring theirs. */
static double window_at(const struct replica_spec *spec, uint32_t n, uint32_t count)
{
    if (spec->kind == REPLICA_CHIRP || spec->kind == REPLICA_TONE_BURST || count < 3)
        return 1;
    return pulse_window_value(spec->window, spec->tukey_alpha, n / (double)(count - 1));
}

/* A transform of at least `frames` points, power of two. */
static uint32_t fft_points(uint64_t frames)
{
    return (uint32_t)power_of_two_from(64, frames);
}

/* Keeps the frequencies ≥ 0 of a spectrum, the inner ones doubled: the analytic signal's. */
static void keep_positive(double *spectrum, uint32_t points)
{
    for (uint32_t k = 1; k < points; k++) {
        double factor = k < points / 2 ? 2 : k == points / 2 ? 1 : 0;
        spectrum[2 * (size_t)k] *= factor;
        spectrum[2 * (size_t)k + 1] *= factor;
    }
}

/* im = Hilbert transform of re. The circle is long enough that what wraps around is as small as
 * what the cut to S frames leaves out; at zero lag the quadrature of re and im is exact all the
 * same. */
static int make_analytic(struct taps *s, struct problem *problem)
{
    uint32_t points = fft_points(4 * (uint64_t)s->count);
    double *data = calloc(points, 2 * sizeof *data);
    s->im = calloc(s->count, sizeof *s->im);
    if (data == NULL || s->im == NULL)
        goto no_memory;
    for (uint32_t n = 0; n < s->count; n++)
        data[2 * (size_t)n] = s->re[n];
    if (reference_fft(data, points, -1) != 0)
        goto no_memory;
    keep_positive(data, points);
    if (reference_fft(data, points, 1) != 0)
        goto no_memory;
    for (uint32_t n = 0; n < s->count; n++)
        s->im[n] = data[2 * (size_t)n + 1] / points;
    free(data);
    return 0;

no_memory:
    free(data);
    return problem_set(problem, ERROR_MEMORY, "no memory for an analytic replica of %u frames",
                       s->count);
}

static int finish_replica(const struct replica_spec *spec, struct taps *s, struct problem *problem)
{
    double energy = 0;
    for (uint32_t n = 0; n < s->count; n++) {
        double window = window_at(spec, n, s->count);
        s->re[n] *= window;
        energy += s->re[n] * s->re[n];
        if (s->im != NULL)
            s->im[n] *= window;
    }
    if (!(energy > 0) || !isfinite(energy))
        return problem_set(problem, ERROR_FORMAT,
                           "the replica has no energy (every frame is 0), or too much to square; "
                           "scale it to about 1");
    s->delay_frames = 0;
    s->delay_source = DELAY_DESIGN;
    return spec->analytic && s->im == NULL ? make_analytic(s, problem) : 0;
}

int replica_make(const struct replica_spec *spec, double rate_hz, struct taps ***sets,
                 uint32_t *count, struct problem *problem)
{
    *sets = NULL;
    *count = 0;
    int error = replica_check(spec, rate_hz, problem);
    if (error != 0)
        return error;
    if (spec->kind == REPLICA_FILE) {
        error = taps_load(spec->path, sets, count, problem);
    } else {
        *sets = calloc(1, sizeof **sets);
        *count = 1;
        if (*sets == NULL)
            error = problem_set(problem, ERROR_MEMORY, "no memory for a replica");
        else if (spec->kind == REPLICA_CHIRP)
            error = chirp_make(spec, rate_hz, &(*sets)[0], problem);
        else if (spec->kind == REPLICA_TONE_BURST)
            error = tone_burst_make(spec, rate_hz, &(*sets)[0], problem);
        else
            error = code_make(spec, rate_hz, &(*sets)[0], problem);
    }
    for (uint32_t i = 0; error == 0 && i < *count; i++)
        error = finish_replica(spec, (*sets)[i], problem);
    if (error != 0) {
        taps_sets_free(*sets, *count);
        *sets = NULL;
        *count = 0;
    }
    return error;
}

/* ---- matched filters
 * ------------------------------------------------------------------------------- */

/* What to divide by. Amplitude: the filter's answer to the real pulse at zero lag, sum conj(s)
 * Re(s), so that an echo a·Re(s) peaks at a. */
static double normaliser(enum normalise normalise, const struct taps *s)
{
    double square_re = 0, square_im = 0, cross = 0;
    for (uint32_t n = 0; n < s->count; n++) {
        square_re += s->re[n] * s->re[n];
        if (s->im != NULL) {
            square_im += s->im[n] * s->im[n];
            cross += s->im[n] * s->re[n];
        }
    }
    switch (normalise) {
    case NORMALISE_AMPLITUDE:
        return hypot(square_re, cross);
    case NORMALISE_ENERGY:
        return sqrt(square_re + square_im);
    default:
        return 1;
    }
}

int replica_matched(const struct replica_spec *spec, double rate_hz, struct taps ***sets,
                    uint32_t *count, struct problem *problem)
{
    int error = replica_make(spec, rate_hz, sets, count, problem);
    if (error != 0)
        return error;
    for (uint32_t i = 0; i < *count; i++) {
        struct taps *taps = (*sets)[i];
        double divisor = normaliser(spec->normalise, taps);
        for (uint32_t n = 0; n < (taps->count + 1) / 2; n++) {
            uint32_t mirror = taps->count - 1 - n;
            double re = taps->re[n], last_re = taps->re[mirror];
            taps->re[n] = last_re / divisor;
            taps->re[mirror] = re / divisor;
            if (taps->im != NULL) {
                double im = taps->im[n], last_im = taps->im[mirror];
                taps->im[n] = -last_im / divisor;
                taps->im[mirror] = -im / divisor;
            }
        }
        taps->delay_frames = taps->count - 1.0;
        taps->delay_source = DELAY_DESIGN;
        if (spec->kind != REPLICA_FILE)
            taps_hash(taps);
    }
    return 0;
}

/* ---- what the pulse looks like behind its filter
 * -------------------------------------------------------- */

/* Adds the autocorrelation behind matched taps h, as complex values on a circle: conj(S) ·
 * Re-pulse's spectrum. Real taps with a carrier give their analytic signal, so that the magnitude
 * is the envelope. */
static int autocorrelation_add(const struct taps *h, bool envelope, uint32_t points, double *sum,
                               struct problem *problem)
{
    double *pulse = calloc(points, 2 * sizeof *pulse);
    double *replica = calloc(points, 2 * sizeof *replica);
    int error = 0;
    if (pulse == NULL || replica == NULL) {
        error = problem_set(problem, ERROR_MEMORY, "no memory to measure %u taps", h->count);
        goto done;
    }
    for (uint32_t n = 0; n < h->count; n++) {
        uint32_t mirror = h->count - 1 - n;
        pulse[2 * (size_t)n] = replica[2 * (size_t)n] = h->re[mirror];
        replica[2 * (size_t)n + 1] = h->im == NULL ? 0 : -h->im[mirror];
    }
    error = reference_fft(pulse, points, -1);
    if (error == 0)
        error = reference_fft(replica, points, -1);
    if (error != 0)
        goto done;
    for (uint32_t k = 0; k < points; k++) {
        double *p = pulse + 2 * (size_t)k, *r = replica + 2 * (size_t)k;
        double re = p[0] * r[0] + p[1] * r[1], im = p[1] * r[0] - p[0] * r[1];
        r[0] = re;
        r[1] = im;
    }
    if (envelope && h->im == NULL)
        keep_positive(replica, points);
    error = reference_fft(replica, points, 1);
    for (size_t i = 0; error == 0 && i < 2 * (size_t)points; i++)
        sum[i] += replica[i];

done:
    free(pulse);
    free(replica);
    return error;
}

static double lag_magnitude(const double *correlation, uint32_t points, int64_t lag)
{
    size_t at = 2 * (size_t)(lag >= 0 ? lag : lag + points);
    return hypot(correlation[at], correlation[at + 1]);
}

/* Width and sidelobes of one side (direction ±1), peak at lag 0. */
static void measure_side(const double *correlation, uint32_t points, uint32_t frames, int direction,
                         double *half_width, double *null_frames, double *sidelobe)
{
    double peak = lag_magnitude(correlation, points, 0), last = peak;
    *half_width = NAN;
    *null_frames = NAN;
    *sidelobe = 0;
    for (int64_t m = 1; m < frames; m++) {
        double here = lag_magnitude(correlation, points, direction * m);
        if (isnan(*half_width) && here < peak / 2)
            *half_width = (double)(m - 1) + (last - peak / 2) / (last - here);
        if (isnan(*null_frames) && !isnan(*half_width) && here > last && m > 1)
            *null_frames = (double)(m - 1);
        if (!isnan(*null_frames))
            *sidelobe = fmax(*sidelobe, here / peak);
        last = here;
    }
}

static int pair_sidelobe(const struct replica_spec *spec, double rate_hz, uint32_t points,
                         double *correlation, double *sidelobe_db, struct problem *problem)
{
    struct chips chips;
    int error = code_prove(spec, rate_hz, &chips, problem);
    if (error != 0)
        return error;
    struct replica_spec other = *spec;
    other.golay_b = !spec->golay_b;
    struct taps **sets;
    uint32_t count;
    error = replica_matched(&other, rate_hz, &sets, &count, problem);
    if (error != 0)
        return error;
    error = autocorrelation_add(sets[0], false, points, correlation, problem);
    /* What real filters give is the real part; the envelope of the sum has the chip's own tails. */
    for (uint32_t m = 0; !spec->analytic && m < points; m++)
        correlation[2 * (size_t)m + 1] = 0;
    double peak = lag_magnitude(correlation, points, 0), worst = 0;
    for (uint32_t m = (uint32_t)pulse_frames(1 / chips.rate_hz, rate_hz); m < sets[0]->count; m++)
        worst = fmax(worst, lag_magnitude(correlation, points, m));
    *sidelobe_db = -20 * log10(fmax(worst / peak, 1e-15));
    taps_sets_free(sets, count);
    return error;
}

int replica_measure(const struct replica_spec *spec, double rate_hz, const struct taps *matched,
                    struct matched_measure *measure, struct problem *problem)
{
    *measure = (struct matched_measure){NAN, NAN, NAN, NAN};
    uint32_t points = fft_points(4 * (uint64_t)matched->count);
    double *correlation = calloc(points, 2 * sizeof *correlation);
    if (correlation == NULL)
        return problem_set(problem, ERROR_MEMORY, "no memory to measure %u taps", matched->count);
    bool bare = (spec->kind == REPLICA_BARKER || spec->kind == REPLICA_GOLAY) &&
                spec->carrier_hz == 0 && spec->cycles_per_chip == 0;
    int error = autocorrelation_add(matched, !bare, points, correlation, problem);
    if (error == 0) {
        double width[2], nulls[2], sidelobe[2];
        measure_side(correlation, points, matched->count, -1, &width[0], &nulls[0], &sidelobe[0]);
        measure_side(correlation, points, matched->count, 1, &width[1], &nulls[1], &sidelobe[1]);
        measure->mainlobe_frames = width[0] + width[1];
        measure->mainlobe_first_null_frames = fmax(nulls[0], nulls[1]);
        double worst = fmax(sidelobe[0], sidelobe[1]);
        measure->sidelobe_db = worst > 0 ? -20 * log10(worst) : NAN;
    }
    if (error == 0 && spec->kind == REPLICA_GOLAY)
        error =
            pair_sidelobe(spec, rate_hz, points, correlation, &measure->pair_sidelobe_db, problem);
    free(correlation);
    return error;
}
