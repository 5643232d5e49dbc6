/*
 * Analysis `vibration`: what a machine's vibration says of it and of its bearing, one event a
 * channel and group of frames.
 *
 * A group is K segments of M frames, each a hop after the one before; the next group begins where
 * it ends, so that all values of an event rest on the same frames. Overall values are sums over the
 * group's live frames (sums.h). A segment with an invalid frame is left out; the others are read
 * where they lie, and their power is summed bin by bin:
 *
 *     frames ─► mean removed, Hann ─► FFT ─► |X|² : velocity, and the spectrum without an envelope
 *     frames ─► FFT, band, Hilbert ─► |analytic signal|, mean removed, Hann ─► FFT ─► |X|²
 *
 * The velocity of an acceleration is |X|² / (2 pi f)², bin by bin. The window spreads each line
 * over bins with a mean square distance of 1/3 (exactly, wherever the line lies), which 1/f² would
 * read high by 1 + 1/k² at bin k; so the weight is (1/k² - 1/k⁴) / (2 pi bin_hz)².
 *
 * Spectral kurtosis is <|X|⁴> / <|X|²>² - 2 (J. Antoni, "The spectral kurtosis", MSSP 20, 2006, eq.
 * 20), over short segments that overlap by half.
 */
#include <assert.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "analysis/analyses.h"
#include "analysis/pieces.h"
#include "analysis/segments.h"
#include "analysis/stamp.h"
#include "analysis/sums.h"
#include "analysis/vibration_options.h"

struct analysis {
    const struct analysis_options *options;
    const struct vibration_options *own;
    uint32_t channels;
    uint64_t length; /* of a group */
    struct sums sums;
    struct segments main, kurtosis; /* kurtosis: points 0, not wanted */
    double *power;                  /* [channels][main.bins]: sums of |X|² */
    double *velocity;               /* [channels]: sums of the mean square velocity [mm²/s²] */
    double *square, *fourth;        /* [channels][kurtosis.bins]: sums of |X|² and |X|⁴ */
    double *x, *y, *re, *im, *re2, *im2; /* [points], [bins] */
    double *amplitudes;                  /* [main.bins] */
    float *samples;                      /* [bins], what the event carries */
    struct tacho tacho;

    bool running; /* an epoch is */
    uint64_t epoch;
    uint64_t next;  /* frame that comes next */
    uint64_t first; /* of the group */
    uint64_t dead;  /* frames of it */
    uint32_t causes;
    struct stamp stamp; /* of the group */
    struct analysis_ledger ledger;
};

/* ---- spectra ----------------------------------------------------------------------------- */

static void read_channel(const float *samples, uint32_t channels, uint32_t points, double *x)
{
    for (uint32_t i = 0; i < points; i++)
        x[i] = samples[(size_t)i * channels];
}

/* The mean square velocity of a prepared segment's spectrum [mm²/s²]. */
static double velocity_square(const struct analysis *a, uint32_t channel)
{
    const struct vibration_options *own = a->own;
    const double pi = 3.14159265358979323846, points = a->main.points;
    const double step = 2 * pi * a->options->stream.rate_hz / points; /* of 2 pi f, a bin */
    double factor, sum = 0;
    const enum vibration_unit unit = vibration_unit(a->options->stream.units[channel], &factor);
    if (unit == VIBRATION_OTHER)
        return NAN;
    for (uint32_t k = own->velocity_low; k <= own->velocity_high; k++) {
        const double power = a->re[k] * a->re[k] + a->im[k] * a->im[k], square = (double)k * k;
        sum += unit == VIBRATION_VELOCITY
                   ? power
                   : power * (1 / square - 1 / (square * square)) / (step * step);
    }
    /* Both signs of the frequency; the window's mean square is 3/8. */
    return 2 * sum / (points * points * 3 / 8) * (1e3 * factor) * (1e3 * factor);
}

/* x = the magnitude of its analytic signal in the band. */
static void take_envelope(struct analysis *a)
{
    struct segments *s = &a->main;
    spectrum_forward(s->plan, a->x, a->re, a->im);
    for (uint32_t k = 0; k < s->bins; k++) {
        if (k < a->own->envelope_low || k > a->own->envelope_high)
            a->re[k] = a->im[k] = 0;
        a->re2[k] = a->im[k]; /* -j X */
        a->im2[k] = -a->re[k];
    }
    spectrum_inverse(s->plan, a->re, a->im, a->x);
    spectrum_inverse(s->plan, a->re2, a->im2, a->y);
    for (uint32_t i = 0; i < s->points; i++)
        a->x[i] = sqrt(a->x[i] * a->x[i] + a->y[i] * a->y[i]);
}

static void add_segment(void *context, const float *samples)
{
    struct analysis *a = context;
    struct segments *s = &a->main;
    const bool envelope = a->own->envelope_high > 0, velocity = a->own->velocity_high > 0;
    for (uint32_t c = 0; c < a->channels; c++) {
        if (c + 1 == a->own->tacho)
            continue;
        double *power = a->power + (size_t)c * s->bins;
        read_channel(samples + c, a->channels, s->points, a->x);
        if (velocity || !envelope) {
            segments_prepare(s, a->x, a->y);
            spectrum_forward(s->plan, a->y, a->re, a->im);
        }
        if (velocity)
            a->velocity[c] += velocity_square(a, c);
        if (envelope) {
            take_envelope(a);
            segments_prepare(s, a->x, a->y);
            spectrum_forward(s->plan, a->y, a->re, a->im);
        }
        for (uint32_t k = 0; k < s->bins; k++)
            power[k] += a->re[k] * a->re[k] + a->im[k] * a->im[k];
    }
}

static void add_kurtosis(void *context, const float *samples)
{
    struct analysis *a = context;
    struct segments *s = &a->kurtosis;
    for (uint32_t c = 0; c < a->channels; c++) {
        if (c + 1 == a->own->tacho)
            continue;
        double *square = a->square + (size_t)c * s->bins, *fourth = a->fourth + (size_t)c * s->bins;
        read_channel(samples + c, a->channels, s->points, a->x);
        segments_prepare(s, a->x, a->y);
        spectrum_forward(s->plan, a->y, a->re, a->im);
        for (uint32_t k = 0; k < s->bins; k++) {
            const double power = a->re[k] * a->re[k] + a->im[k] * a->im[k];
            square[k] += power;
            fourth[k] += power * power;
        }
    }
}

/* ---- events ------------------------------------------------------------------------------ */

/* Of a bin, amplitudes of sines: the window's mean is 1/2. */
static void make_amplitudes(struct analysis *a, uint32_t channel)
{
    const struct segments *s = &a->main;
    const double *power = a->power + (size_t)channel * s->bins;
    for (uint32_t k = 0; k < s->bins; k++) {
        const double both = k == 0 || k == s->bins - 1 ? 1 : 2; /* signs of the frequency */
        a->amplitudes[k] =
            s->summed > 0 ? both * 2 * sqrt(power[k] / (double)s->summed) / s->points : NAN;
    }
}

/* Of a bin; NAN: no segment, or silence. */
static double spectral_kurtosis(const struct analysis *a, uint32_t channel, uint32_t k)
{
    const struct segments *s = &a->kurtosis;
    const double square = a->square[(size_t)channel * s->bins + k];
    return square > 0
               ? (double)s->summed * a->fourth[(size_t)channel * s->bins + k] / (square * square) -
                     2
               : NAN;
}

/* Bins 0 and M/2 are real, so |X|² spreads otherwise there. */
static void find_kurtosis(const struct analysis *a, uint32_t channel, struct condition *condition)
{
    const struct segments *s = &a->kurtosis;
    for (uint32_t k = 1; k + 1 < s->bins; k++) {
        const double value = spectral_kurtosis(a, channel, k);
        if (value > condition->spectral_kurtosis || isnan(condition->spectral_kurtosis)) {
            condition->spectral_kurtosis = value;
            condition->spectral_kurtosis_hz =
                isnan(value) ? NAN : k * a->options->stream.rate_hz / s->points;
        }
    }
}

static struct condition overall_values(const struct analysis *a, uint32_t channel)
{
    const struct sums *sums = &a->sums;
    const double frames = (double)sums->frames, mean = sums->mean[channel];
    struct condition condition = {
        .live = sums->frames,
        .dead = a->dead,
        .segments = (uint32_t)a->main.summed,
        .bin_hz = a->options->stream.rate_hz / a->main.points,
        .rms = sqrt(fmax(0, sums->second[channel] / frames)),
        /* fabs: of -0 and 0 either is the larger one. */
        .peak = fabs(fmax(sums->high[channel] - mean, mean - sums->low[channel])),
        .crest = NAN,
        .kurtosis = sums_kurtosis(sums, channel),
        .velocity_mms = NAN,
        .speed_hz = a->own->speed_hz > 0 ? a->own->speed_hz : NAN,
        .speed_change = NAN,
        .spectral_kurtosis = NAN,
        .spectral_kurtosis_hz = NAN,
    };
    if (condition.rms > 0)
        condition.crest = condition.peak / condition.rms;
    if (a->own->velocity_high > 0 && a->main.summed > 0)
        condition.velocity_mms = sqrt(a->velocity[channel] / (double)a->main.summed);
    if (a->own->tacho > 0) {
        condition.speed_hz = tacho_rate(&a->tacho) * a->options->stream.rate_hz / a->own->pulses;
        condition.speed_change = tacho_change(&a->tacho);
    }
    return condition;
}

/* What the event carries; returns how many values. */
static uint32_t make_samples(struct analysis *a, uint32_t channel, struct condition *condition)
{
    const bool kurtosis = a->own->trace == TRACE_KURTOSIS;
    const struct segments *s = kurtosis ? &a->kurtosis : &a->main;
    uint32_t count = s->summed > 0 && a->own->trace != TRACE_NONE ? s->bins : 0;
    condition->bin_hz = a->options->stream.rate_hz / s->points;
    if (a->own->highest_hz > 0)
        count = (uint32_t)fmin(count, floor(a->own->highest_hz / condition->bin_hz) + 1);
    for (uint32_t k = 0; k < count; k++)
        a->samples[k] = (float)(kurtosis ? spectral_kurtosis(a, channel, k) : a->amplitudes[k]);
    return count;
}

static void emit(struct analysis *a, uint32_t channel, uint32_t flags)
{
    const struct vibration_options *own = a->own;
    struct condition condition = overall_values(a, channel);
    make_amplitudes(a, channel);
    for (int d = 0; d < CONDITION_DEFECTS; d++) {
        condition.lines[d] = (struct condition_line){NAN, NAN, NAN};
        if (own->orders[d] > 0 && condition.speed_hz > 0)
            condition.lines[d] =
                bearing_line(a->amplitudes, a->main.bins, condition.bin_hz,
                             own->orders[d] * condition.speed_hz, own->slip, own->harmonics);
    }
    if (a->kurtosis.points > 0 && a->kurtosis.summed > 0)
        find_kurtosis(a, channel, &condition);
    const uint32_t count = make_samples(a, channel, &condition);
    if (validity_saturated(&a->main.validity, channel, a->first))
        flags |= ANALYSIS_SATURATED;
    struct analysis_event event = {
        .kind = ANALYSIS_CONDITION,
        .ordered = true,
        .number = ++a->ledger.events[ANALYSIS_CONDITION],
        .channel = channel,
        .flags = flags,
        .causes = a->causes,
        .body = &condition,
        .body_bytes = sizeof condition,
        .samples = count > 0 ? a->samples : NULL,
        .sample_count = count,
    };
    stamp_event(&a->stamp, a->options->stream.rate_hz, &event);
    a->options->emit(a->options->context, &event);
}

/* ---- groups ------------------------------------------------------------------------------ */

static void clear_group(struct analysis *a)
{
    sums_clear(&a->sums);
    tacho_clear(&a->tacho);
    segments_clear(&a->main);
    segments_clear(&a->kurtosis);
    a->dead = 0;
    a->causes = 0;
    memset(a->power, 0, (size_t)a->channels * a->main.bins * sizeof *a->power);
    memset(a->velocity, 0, a->channels * sizeof *a->velocity);
    memset(a->square, 0, (size_t)a->channels * a->kurtosis.bins * sizeof *a->square);
    memset(a->fourth, 0, (size_t)a->channels * a->kurtosis.bins * sizeof *a->fourth);
}

static void begin_group(struct analysis *a, const struct analysis_run *run, uint64_t first)
{
    clear_group(a);
    a->first = first;
    a->stamp = stamp_of(run, first, a->options->stream.rate_hz);
}

/* Whether all frames of the group have come. */
static bool is_whole(const struct analysis *a)
{
    return a->next == a->first + a->length;
}

/* Tells of the frames before a->next, unless all of them are dead. */
static void end_group(struct analysis *a)
{
    const uint32_t flags =
        (a->dead > 0 || a->main.summed < a->main.most ? ANALYSIS_INCOMPLETE : 0) |
        (is_whole(a) ? 0 : ANALYSIS_CUT);
    for (uint32_t c = 0; a->sums.frames > 0 && c < a->channels; c++)
        if (c + 1 != a->own->tacho)
            emit(a, c, flags);
}

static void end_epoch(struct analysis *a)
{
    if (a->running && !is_whole(a))
        end_group(a);
    a->running = false;
}

static void begin_epoch(struct analysis *a, const struct analysis_run *run)
{
    end_epoch(a);
    a->running = true;
    a->epoch = run->epoch;
    a->next = run->first_frame;
    segments_begin(&a->main);
    segments_begin(&a->kurtosis);
    tacho_cut(&a->tacho);
    begin_group(a, run, run->first_frame);
}

/* ---- frames ------------------------------------------------------------------------------ */

static void put_piece(struct analysis *a, const struct analysis_run *run, const struct piece *piece)
{
    uint64_t frames = piece->until - piece->from;
    a->ledger.frames += frames;
    if (!piece->live) {
        a->ledger.dead += frames;
        a->dead += frames;
        a->causes |= piece->causes;
        tacho_cut(&a->tacho);
        return;
    }
    a->ledger.live += frames;
    const float *samples = run->samples + (piece->from - run->first_frame) * a->channels;
    if (a->own->tacho > 0)
        tacho_add(&a->tacho, &a->own->tacho_rules, samples + a->own->tacho - 1, a->channels,
                  piece->from, frames);
    while (frames > 0) {
        const uint32_t count = frames < SUMS_FRAMES ? (uint32_t)frames : SUMS_FRAMES;
        sums_add(&a->sums, samples, count);
        samples += (size_t)count * a->channels;
        frames -= count;
    }
}

static void vibration_put(struct analysis *a, const struct analysis_run *run)
{
    const uint64_t end = run->first_frame + run->frames;
    if (run->begins || !a->running || run->epoch != a->epoch)
        begin_epoch(a, run);
    assert(run->frames == 0 || run->first_frame == a->next);
    while (a->next < end) {
        if (is_whole(a))
            begin_group(a, run, a->next);
        const uint64_t group_end = a->first + a->length;
        const uint64_t until = end < group_end ? end : group_end;
        struct piece piece;
        while (piece_next(run, a->next, until, &piece)) {
            put_piece(a, run, &piece);
            a->next = piece.until;
        }
        segments_put(&a->main, run, a->first, until, add_segment, a);
        segments_put(&a->kurtosis, run, a->first, until, add_kurtosis, a);
        if (until == group_end)
            end_group(a);
    }
    if (a->options->advance != NULL)
        a->options->advance(a->options->context, a->epoch, is_whole(a) ? a->next : a->first);
    if (run->ends)
        end_epoch(a);
}

/* ---- state ------------------------------------------------------------------------------- */

enum { STATE_VERSION = 1 };

static void walk_doubles(struct codec *codec, double *values, size_t count)
{
    for (size_t i = 0; i < count && !codec->failed; i++)
        codec_f64(codec, &values[i]);
}

/* Sums are zeros until a segment is summed. */
static bool walk_sums(struct analysis *a, struct codec *codec)
{
    if (!segments_walk(&a->main, codec) || !segments_walk(&a->kurtosis, codec))
        return false;
    if (a->main.summed > 0) {
        walk_doubles(codec, a->power, (size_t)a->channels * a->main.bins);
        walk_doubles(codec, a->velocity, a->channels);
    }
    if (a->kurtosis.summed > 0) {
        walk_doubles(codec, a->square, (size_t)a->channels * a->kurtosis.bins);
        walk_doubles(codec, a->fourth, (size_t)a->channels * a->kurtosis.bins);
    }
    return true;
}

static bool vibration_walk(struct analysis *a, struct codec *codec)
{
    uint32_t version = STATE_VERSION, channels = a->channels, points = a->main.points;
    uint32_t kurtosis_points = a->kurtosis.points;
    codec_u32(codec, &version);
    codec_u32(codec, &channels);
    codec_u32(codec, &points);
    codec_u32(codec, &kurtosis_points);
    if (version != STATE_VERSION || channels != a->channels || points != a->main.points ||
        kurtosis_points != a->kurtosis.points)
        return false;
    codec_bool(codec, &a->running);
    codec_u64(codec, &a->epoch);
    codec_u64(codec, &a->next);
    codec_u64(codec, &a->first);
    codec_u64(codec, &a->dead);
    codec_u32(codec, &a->causes);
    const bool known = stamp_walk(&a->stamp, codec);
    sums_walk(&a->sums, codec);
    tacho_walk(&a->tacho, codec);
    if (!known || !walk_sums(a, codec))
        return false;
    codec_u64(codec, &a->ledger.frames);
    codec_u64(codec, &a->ledger.live);
    codec_u64(codec, &a->ledger.dead);
    codec_u64(codec, &a->ledger.events[ANALYSIS_CONDITION]);
    return !codec->failed && a->first <= a->next && a->next - a->first <= a->length &&
           a->sums.frames + a->dead == a->next - a->first && a->first <= UINT64_MAX / 2;
}

static void vibration_ledger(const struct analysis *a, struct analysis_ledger *ledger)
{
    *ledger = a->ledger;
}

/* ---- life -------------------------------------------------------------------------------- */

static void vibration_close(struct analysis *a)
{
    if (a == NULL)
        return;
    sums_close(&a->sums);
    segments_close(&a->main);
    segments_close(&a->kurtosis);
    double *const arrays[] = {a->power, a->velocity, a->square, a->fourth, a->x,         a->y,
                              a->re,    a->im,       a->re2,    a->im2,    a->amplitudes};
    for (size_t i = 0; i < sizeof arrays / sizeof arrays[0]; i++)
        free(arrays[i]);
    free(a->samples);
    free(a);
}

static int open_arrays(struct analysis *a)
{
    const size_t channels = a->channels, bins = a->main.bins, points = a->main.points;
    const size_t kurtosis = channels * a->kurtosis.bins;
    const struct {
        double **array;
        size_t count;
    } arrays[] = {
        {&a->power, channels * bins},
        {&a->velocity, channels},
        {&a->square, kurtosis},
        {&a->fourth, kurtosis},
        {&a->x, points},
        {&a->y, points},
        {&a->re, bins},
        {&a->im, bins},
        {&a->re2, bins},
        {&a->im2, bins},
        {&a->amplitudes, bins},
    };
    for (size_t i = 0; i < sizeof arrays / sizeof arrays[0]; i++) {
        *arrays[i].array = calloc(arrays[i].count + 1, sizeof(double));
        if (*arrays[i].array == NULL)
            return ERROR_MEMORY;
    }
    a->samples = calloc(bins, sizeof *a->samples);
    return a->samples != NULL ? 0 : ERROR_MEMORY;
}

static int vibration_open(const struct analysis_options *options, struct analysis **out,
                          struct problem *problem)
{
    const struct vibration_options *own = options->own;
    struct analysis *a = calloc(1, sizeof *a);
    if (a == NULL)
        goto no_memory;
    a->options = options;
    a->own = own;
    a->channels = options->stream.channels;
    a->length = vibration_frames(own);
    if (sums_open(&a->sums, a->channels, true, false) != 0 ||
        segments_open(&a->main, a->channels, own->points, own->hop, a->length) != 0 ||
        segments_open(&a->kurtosis, a->channels, own->kurtosis_points, own->kurtosis_hop,
                      a->length) != 0 ||
        open_arrays(a) != 0)
        goto no_memory;
    *out = a;
    return 0;

no_memory:
    vibration_close(a);
    return problem_set(problem, ERROR_MEMORY, "analysis %s: out of memory", options->name);
}

static uint64_t vibration_memory(const struct analysis_options *options)
{
    const struct vibration_options *own = options->own;
    const uint64_t channels = options->stream.channels, bins = spectrum_bins(own->points);
    const uint64_t kurtosis = own->kurtosis_points > 0 ? spectrum_bins(own->kurtosis_points) : 0;
    return sizeof(struct analysis) + sums_memory(options->stream.channels) +
           segments_memory(options->stream.channels, own->points) +
           segments_memory(options->stream.channels, own->kurtosis_points) +
           (channels * (bins + 2 * kurtosis + 1) + 5 * bins + 2 * (uint64_t)own->points + 11) *
               sizeof(double) +
           bins * sizeof(float);
}

static uint64_t vibration_history(const struct analysis_options *options)
{
    const struct vibration_options *own = options->own;
    return own->points;
}

static const struct analysis_field *vibration_fields(const struct analysis_options *options,
                                                     uint32_t *count)
{
    (void)options;
    return condition_fields(count);
}

static uint64_t result_frames(const struct analysis_options *options)
{
    return vibration_frames(options->own);
}

const struct analysis_ops analysis_vibration = {
    .name = "vibration",
    .sentence = "overall values of vibration, envelope spectra and the lines of a bearing",
    .emits = ANALYSIS_CONDITION,
    .options = vibration_option_rows,
    .option_count = VIBRATION_OPTION_ROWS,
    .options_bytes = sizeof(struct vibration_options),
    .check = vibration_options_check,
    .report = vibration_options_report,
    .result_frames = result_frames,
    .describe = vibration_options_describe,
    .memory = vibration_memory,
    .history = vibration_history,
    .fields = vibration_fields,
    .open = vibration_open,
    .put = vibration_put,
    .ledger = vibration_ledger,
    .walk = vibration_walk,
    .close = vibration_close,
};
