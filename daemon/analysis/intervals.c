/*
 * Analysis `intervals`: what each channel does in frames [kI, (k+1)I) of its epoch, one event a
 * channel. Sums of samples are sums.h's, threshold crossings crossings.h's; this file cuts time.
 *
 * An interval without a live frame is told of too, with its dead frames and causes and no values.
 * The last one of an epoch ends with it.
 */
#include <assert.h>
#include <jansson.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "analysis/analyses.h"
#include "analysis/crossings.h"
#include "analysis/hit.h"
#include "analysis/hit_features.h"
#include "analysis/interval.h"
#include "core/level.h"
#include "analysis/pieces.h"
#include "analysis/rows.h"
#include "analysis/sums.h"

enum asl { ASL_MEAN, ASL_LOGARITHM };

struct intervals_options {
    /* as written */
    const struct option_value *interval, *hdt, *hlt, *longest;
    struct option_values thresholds; /* none: no counts */
    enum asl asl;
    enum hit_counts counts;
    bool kurtosis;
    /* set by the check, and all that open reads */
    uint64_t interval_frames, hdt_frames, hlt_frames, longest_frames;
};

struct analysis {
    const struct analysis_options *options;
    const struct intervals_options *own;
    uint32_t channels;
    struct sums sums;
    struct crossing_rules *rules; /* [channels], NULL without thresholds */
    struct crossings *crossings;
    /* [channels]: input samples near full scale lie before this frame, 0: none in the epoch. */
    uint64_t *saturated_until;

    bool running; /* an epoch is */
    uint64_t epoch, record;
    uint64_t next;       /* frame */
    uint64_t first, end; /* of the interval */
    uint64_t dead;       /* frames of it */
    uint32_t causes;
    int64_t capture_ns; /* of its first frame */
    uint32_t clock;
    int64_t clock_error_ns;
    double delay_frames;
    struct analysis_ledger ledger;
};

/* ---- events ------------------------------------------------------------------------------ */

static uint64_t counts_of(const struct analysis *a, const struct crossings *crossings)
{
    switch (a->own->counts) {
    case HIT_COUNTS_BOTH:
        return (crossings->up + crossings->down + 1) / 2;
    case HIT_COUNTS_PLAIN:
        return crossings->plain;
    default:
        return crossings->up;
    }
}

static struct interval values_of(const struct analysis *a, uint32_t channel)
{
    const char *unit = a->options->stream.units[channel];
    const double volts = hit_volts(unit), rate = a->options->stream.rate_hz;
    const struct sums *sums = &a->sums;
    const double frames = (double)sums->frames;
    const double rms = sums_rms(sums, channel), peak = sums_peak(sums, channel);
    const double mean = sums_mean_absolute(sums, channel);
    struct interval interval = {
        .live = sums->frames,
        .dead = a->dead,
        .rms = rms,
        .peak = peak,
        .peak_db = hit_level_db(peak, unit),
        .asl_db = hit_level_db(sums->logarithms ? sums_geometric(sums, channel) : mean, unit),
        .energy_eu = NAN,
        .strength_nvs = NAN,
        .crest = rms > 0 ? peak / rms : NAN,
        .kurtosis = sums->moments ? sums_kurtosis(sums, channel) : NAN,
        .threshold = NAN,
        .counts = NAN,
        .hits = NAN,
    };
    if (volts > 0 && sums->frames > 0) {
        interval.energy_eu = sums->square[channel] * volts * volts / rate / 1e-14;
        interval.strength_nvs = mean * frames * volts / rate / 1e-9;
    }
    if (a->rules != NULL) {
        const struct crossing_rules *rules = &a->rules[channel];
        interval.threshold = rules->threshold;
        if (sums->frames > 0) {
            interval.counts = (double)counts_of(a, &a->crossings[channel]);
            interval.hits = (double)a->crossings[channel].begun;
        }
    }
    return interval;
}

static void emit(struct analysis *a, uint32_t channel, uint32_t flags)
{
    const struct analysis_stream *stream = &a->options->stream;
    const struct interval interval = values_of(a, channel);
    if (a->saturated_until[channel] > a->first)
        flags |= ANALYSIS_SATURATED;
    const struct analysis_event event = {
        .kind = ANALYSIS_INTERVAL,
        .ordered = true,
        .number = ++a->ledger.events[ANALYSIS_INTERVAL],
        .channel = channel,
        .epoch = a->epoch,
        .record = a->record,
        .frame = a->first,
        .capture_ns = a->capture_ns,
        .clock = (enum clock_source)a->clock,
        .clock_error_ns = a->clock_error_ns,
        .delay_frames = a->delay_frames,
        .arrival_ns = a->capture_ns - llrint(a->delay_frames / stream->rate_hz * 1e9),
        .flags = flags,
        .causes = a->causes,
        .body = &interval,
        .body_bytes = sizeof interval,
    };
    a->options->emit(a->options->context, &event);
}

/* ---- time -------------------------------------------------------------------------------- */

/* The interval that holds frame `from`, the first of it that counts. */
static void begin_interval(struct analysis *a, const struct analysis_run *run, uint64_t from)
{
    const uint64_t length = a->own->interval_frames;
    a->first = from;
    a->end = from - from % length + length;
    a->capture_ns = run->capture_ns +
                    llrint((double)(from - run->first_frame) / a->options->stream.rate_hz * 1e9);
    a->clock = run->clock;
    a->clock_error_ns = run->clock_error_ns;
    a->delay_frames = run->aligned ? 0 : run->delay_frames;
}

/* Tells of what lies before frame a->next, and begins anew. */
static void end_interval(struct analysis *a, bool cut)
{
    if (a->next == a->first)
        return;
    const uint32_t flags =
        (a->dead > 0 ? ANALYSIS_INCOMPLETE : 0) | (cut && a->next < a->end ? ANALYSIS_CUT : 0);
    for (uint32_t c = 0; c < a->channels; c++)
        emit(a, c, flags);
    for (uint32_t c = 0; a->rules != NULL && c < a->channels; c++)
        a->crossings[c].up = a->crossings[c].down = a->crossings[c].plain = a->crossings[c].begun =
            0;
    sums_clear(&a->sums);
    a->dead = 0;
    a->causes = 0;
    a->first = a->next;
}

static void end_epoch(struct analysis *a)
{
    if (a->running)
        end_interval(a, true);
    a->running = false;
}

static void begin_epoch(struct analysis *a, const struct analysis_run *run)
{
    end_epoch(a);
    a->running = true;
    a->epoch = run->epoch;
    a->record = run->record;
    a->next = run->first_frame;
    memset(a->saturated_until, 0, a->channels * sizeof *a->saturated_until);
    for (uint32_t c = 0; a->rules != NULL && c < a->channels; c++)
        crossings_cut(&a->crossings[c]);
    begin_interval(a, run, run->first_frame);
}

/* ---- frames ------------------------------------------------------------------------------ */

static void put_live(struct analysis *a, const float *samples, uint64_t first, uint64_t frames)
{
    while (frames > 0) {
        const uint32_t count = frames < SUMS_FRAMES ? (uint32_t)frames : SUMS_FRAMES;
        sums_add(&a->sums, samples, count);
        for (uint32_t c = 0; a->rules != NULL && c < a->channels; c++)
            crossings_add(&a->crossings[c], &a->rules[c], samples + c, a->channels, first, count,
                          a->sums.added_low[c], a->sums.added_high[c]);
        samples += (size_t)count * a->channels;
        first += count;
        frames -= count;
    }
}

static void put_piece(struct analysis *a, const struct analysis_run *run, const struct piece *piece)
{
    const uint64_t frames = piece->until - piece->from;
    a->ledger.frames += frames;
    if (piece->live) {
        a->ledger.live += frames;
        put_live(a, run->samples + (piece->from - run->first_frame) * a->channels, piece->from,
                 frames);
        return;
    }
    a->ledger.dead += frames;
    a->dead += frames;
    a->causes |= piece->causes;
    for (uint32_t c = 0; a->rules != NULL && c < a->channels; c++)
        crossings_cut(&a->crossings[c]);
}

/* Those that begin before the interval's end; the list is sorted, `next` its first unread one. */
static void put_saturated(struct analysis *a, const struct analysis_run *run)
{
    for (uint32_t i = 0; i < run->saturated_count; i++) {
        const struct analysis_saturation *range = &run->saturated[i];
        const uint64_t until = range->until < a->next ? range->until : a->next;
        if (range->from < until && until > a->saturated_until[range->channel])
            a->saturated_until[range->channel] = until;
    }
}

static void intervals_put(struct analysis *a, const struct analysis_run *run)
{
    if (run->begins || !a->running || run->epoch != a->epoch)
        begin_epoch(a, run);
    assert(run->frames == 0 || run->first_frame == a->next);
    struct piece piece;
    while (a->next < run->first_frame + run->frames) {
        if (a->next == a->end)
            begin_interval(a, run, a->next);
        while (piece_next(run, a->next, a->end, &piece)) {
            put_piece(a, run, &piece);
            a->next = piece.until;
        }
        put_saturated(a, run);
        if (a->next == a->end)
            end_interval(a, false);
    }
    if (run->ends)
        end_epoch(a);
    if (a->options->advance != NULL)
        a->options->advance(a->options->context, a->epoch, run->ends ? UINT64_MAX : a->first);
}

/* ---- state and life ---------------------------------------------------------------------- */

enum { STATE_VERSION = 1 };

static bool intervals_walk(struct analysis *a, struct codec *codec)
{
    uint32_t version = STATE_VERSION, channels = a->channels;
    codec_u32(codec, &version);
    codec_u32(codec, &channels);
    if (version != STATE_VERSION || channels != a->channels)
        return false;
    codec_bool(codec, &a->running);
    codec_u64(codec, &a->epoch);
    codec_u64(codec, &a->record);
    codec_u64(codec, &a->next);
    codec_u64(codec, &a->first);
    codec_u64(codec, &a->end);
    codec_u64(codec, &a->dead);
    codec_u32(codec, &a->causes);
    codec_i64(codec, &a->capture_ns);
    codec_u32(codec, &a->clock);
    codec_i64(codec, &a->clock_error_ns);
    codec_f64(codec, &a->delay_frames);
    codec_u64(codec, &a->ledger.frames);
    codec_u64(codec, &a->ledger.live);
    codec_u64(codec, &a->ledger.dead);
    codec_u64(codec, &a->ledger.events[ANALYSIS_INTERVAL]);
    sums_walk(&a->sums, codec);
    for (uint32_t c = 0; c < a->channels; c++)
        codec_u64(codec, &a->saturated_until[c]);
    for (uint32_t c = 0; a->rules != NULL && c < a->channels; c++)
        crossings_walk(&a->crossings[c], codec);
    return !codec->failed && a->clock < CLOCK_SOURCES && a->first <= a->next && a->next <= a->end &&
           a->sums.frames + a->dead == a->next - a->first;
}

static void intervals_ledger(const struct analysis *a, struct analysis_ledger *ledger)
{
    *ledger = a->ledger;
}

static void intervals_close(struct analysis *a)
{
    if (a == NULL)
        return;
    sums_close(&a->sums);
    free(a->rules);
    free(a->crossings);
    free(a->saturated_until);
    free(a);
}

/* The value of a list for this channel: one for all, or one each. */
static const struct option_value *threshold_of(const struct intervals_options *own,
                                               uint32_t channel)
{
    return &own->thresholds.values[own->thresholds.count > 1 ? channel : 0];
}

static bool threshold_amplitude(const struct option_check *check,
                                const struct analysis_options *options, uint32_t channel,
                                double *out)
{
    const struct level_scale scale = analysis_scale(&options->stream, channel);
    return level_amplitude(check, "threshold", threshold_of(options->own, channel), &scale, out);
}

static int open_rules(struct analysis *a)
{
    const struct intervals_options *own = a->own;
    a->rules = calloc(a->channels, sizeof *a->rules);
    a->crossings = calloc(a->channels, sizeof *a->crossings);
    if (a->rules == NULL || a->crossings == NULL)
        return ERROR_MEMORY;
    for (uint32_t c = 0; c < a->channels; c++) {
        a->rules[c] = (struct crossing_rules){
            .hdt = own->hdt_frames, .hlt = own->hlt_frames, .longest = own->longest_frames};
        threshold_amplitude(NULL, a->options, c, &a->rules[c].threshold);
    }
    return 0;
}

static int intervals_open(const struct analysis_options *options, struct analysis **out,
                          struct problem *problem)
{
    const struct intervals_options *own = options->own;
    struct analysis *a = calloc(1, sizeof *a);
    if (a == NULL)
        goto no_memory;
    a->options = options;
    a->own = own;
    a->channels = options->stream.channels;
    a->saturated_until = calloc(a->channels, sizeof *a->saturated_until);
    if (a->saturated_until == NULL ||
        sums_open(&a->sums, a->channels, own->kurtosis, own->asl == ASL_LOGARITHM) != 0 ||
        (own->thresholds.count > 0 && open_rules(a) != 0))
        goto no_memory;
    *out = a;
    return 0;

no_memory:
    intervals_close(a);
    return problem_set(problem, ERROR_MEMORY, "analysis %s: out of memory", options->name);
}

/* ---- options ----------------------------------------------------------------------------- */

static const struct option_choice asl_choices[] = {
    {"mean", ASL_MEAN}, {"log", ASL_LOGARITHM}, {NULL, 0}};

#define FIELD(member) OPTION_FIELD(struct intervals_options, member)

enum { ROW_INTERVAL, ROW_HDT, ROW_HLT, ROW_LONGEST, ROWS = 8 };

static const struct option_row rows[ROWS] = {
    [ROW_INTERVAL] = {.key = "interval",
                      .type = OPTION_SPAN,
                      .minimum = 1,
                      .maximum = 1e12,
                      .fallback_words = "100 ms, at least a frame",
                      FIELD(interval),
                      .sentence = "Time that each event sums up; intervals begin at multiples of "
                                  "it in each epoch."},
    [ROW_HDT] = {ANALYSIS_ROW_HDT, FIELD(hdt)},
    [ROW_HLT] = {ANALYSIS_ROW_HLT, FIELD(hlt)},
    [ROW_LONGEST] = {ANALYSIS_ROW_MAX_DURATION, FIELD(longest)},
    {ANALYSIS_ROW_THRESHOLD, FIELD(thresholds)},
    {ANALYSIS_ROW_COUNTS, FIELD(counts)},
    {.key = "asl",
     .type = OPTION_CHOICE,
     .choices = asl_choices,
     .fallback = "mean",
     FIELD(asl),
     .sentence = "Average signal level: the mean of |x| in dB, or the mean of lg |x|, which reads "
                 "2.1 dB lower for a sine and 3.6 dB lower for noise."},
    {.key = "kurtosis",
     .type = OPTION_BOOLEAN,
     .fallback = "yes",
     FIELD(kurtosis),
     .sentence = "Kurtosis of each interval, which takes most of the time."},
};

static uint64_t default_frames(double rate_hz)
{
    return (uint64_t)fmax(1, nearbyint(0.1 * rate_hz));
}

static void intervals_check(const struct option_check *check, struct analysis_options *options)
{
    struct intervals_options *own = options->own;
    const double rate = options->stream.rate_hz;
    own->interval_frames = own->longest_frames = default_frames(rate);
    if (own->interval != NULL)
        option_frames(check, &rows[ROW_INTERVAL], own->interval, rate, &own->interval_frames);
    if (own->longest != NULL)
        option_frames(check, &rows[ROW_LONGEST], own->longest, rate, &own->longest_frames);
    option_frames(check, &rows[ROW_HDT], own->hdt, rate, &own->hdt_frames);
    option_frames(check, &rows[ROW_HLT], own->hlt, rate, &own->hlt_frames);
    for (uint32_t c = 0; own->thresholds.count > 0 && c < options->stream.channels; c++) {
        const struct level_scale scale = analysis_scale(&options->stream, c);
        double threshold;
        if (!threshold_amplitude(check, options, c, &threshold) ||
            level_warn(check, "threshold", "threshold =", threshold_of(own, c)->text, threshold,
                       &scale))
            break;
    }
    if (own->thresholds.count > 0)
        return;
    static const char *const needs[] = {"hdt", "hlt", "max duration", "counts"};
    for (size_t i = 0; i < sizeof needs / sizeof needs[0]; i++)
        if (option_given(check, needs[i]))
            option_error(check, needs[i],
                         "`%s` needs a threshold: write `threshold = 40 dB(AE)`, or remove it",
                         needs[i]);
}

static void intervals_report(const struct analysis_options *options, FILE *out)
{
    const struct intervals_options *own = options->own;
    const double seconds = (double)own->interval_frames / options->stream.rate_hz;
    char text[40];
    fprintf(out, "intervals of %s (%llu frames), %.4g events/s; ASL: mean of %s\n",
            quantity_print(DIMENSION_TIME, seconds, text, sizeof text),
            (unsigned long long)own->interval_frames, options->stream.channels / seconds,
            own->asl == ASL_MEAN ? "|x|" : "lg |x|");
    if (own->thresholds.count == 0)
        return;
    double threshold = 0;
    threshold_amplitude(NULL, options, 0, &threshold);
    fprintf(out, "%19scounts and hits above %.4g %s%s\n", "", threshold, options->stream.units[0],
            own->thresholds.count > 1 ? " (channel 1)" : "");
}

static struct json_t *intervals_describe(const struct analysis_options *options)
{
    const struct intervals_options *own = options->own;
    json_t *object =
        json_pack("{s:I, s:s, s:b}", "interval_frames", (json_int_t)own->interval_frames, "asl",
                  asl_choices[own->asl].word, "kurtosis", own->kurtosis);
    if (own->thresholds.count == 0)
        return object;
    json_t *thresholds = json_array();
    for (uint32_t c = 0; c < options->stream.channels; c++) {
        double threshold = 0; /* proven by the check */
        threshold_amplitude(NULL, options, c, &threshold);
        json_array_append_new(thresholds, json_real(threshold));
    }
    json_object_set_new(object, "thresholds", thresholds);
    json_object_set_new(object, "counts", json_string(analysis_counts[own->counts].word));
    json_object_set_new(object, "hdt_frames", json_integer((json_int_t)own->hdt_frames));
    json_object_set_new(object, "hlt_frames", json_integer((json_int_t)own->hlt_frames));
    json_object_set_new(object, "max_duration_frames",
                        json_integer((json_int_t)own->longest_frames));
    return object;
}

static uint64_t intervals_memory(const struct analysis_options *options)
{
    return sizeof(struct analysis) + sums_memory(options->stream.channels) +
           options->stream.channels *
               (sizeof(uint64_t) + sizeof(struct crossing_rules) + sizeof(struct crossings));
}

static const struct analysis_field *intervals_fields(const struct analysis_options *options,
                                                     uint32_t *count)
{
    (void)options;
    return interval_fields(count);
}

static uint64_t result_frames(const struct analysis_options *options)
{
    const struct intervals_options *own = options->own;
    return own->interval_frames;
}

const struct analysis_ops analysis_intervals = {
    .name = "intervals",
    .sentence = "RMS, average signal level, energy and counts of every channel, at regular times",
    .emits = ANALYSIS_INTERVAL,
    .options = rows,
    .option_count = ROWS,
    .options_bytes = sizeof(struct intervals_options),
    .check = intervals_check,
    .report = intervals_report,
    .result_frames = result_frames,
    .describe = intervals_describe,
    .memory = intervals_memory,
    .fields = intervals_fields,
    .open = intervals_open,
    .put = intervals_put,
    .ledger = intervals_ledger,
    .walk = intervals_walk,
    .close = intervals_close,
};
