/* Options of the analysis `hits`: see hit_options.h. */
#include "analysis/hit_options.h"

#include <float.h>
#include <jansson.h>
#include <math.h>
#include <string.h>

#include "analysis/hit_queue.h"
#include "core/level.h"
#include "analysis/rows.h"
#include "core/quantity.h"

const struct option_choice analysis_counts[] = {{"positive", HIT_COUNTS_POSITIVE},
                                                {"both", HIT_COUNTS_BOTH},
                                                {"plain", HIT_COUNTS_PLAIN},
                                                {NULL, 0}};
static const struct option_choice picker_choices[] = {{"threshold", HIT_PICKER_THRESHOLD},
                                                      {"aic", HIT_PICKER_AIC},
                                                      {"hinkley", HIT_PICKER_HINKLEY},
                                                      {"energy-ratio", HIT_PICKER_ENERGY_RATIO},
                                                      {NULL, 0}};
static const struct option_choice window_choices[] = {
    {"duration", false}, {"hit", true}, {NULL, 0}};

/* "50-150 kHz" or "50 kHz - 150 kHz". */
static int read_band(const char *text, struct hit_band *band, struct problem *problem)
{
    const char *dash = strchr(text, '-');
    struct quantity from, until;
    char low[64];
    if (dash == NULL || dash == text || dash - text >= (ptrdiff_t)sizeof low - QUANTITY_UNIT_BYTES)
        return ERROR_FORMAT;
    snprintf(low, sizeof low, "%.*s", (int)(dash - text), text);
    if (quantity_parse(dash + 1, DIMENSION_FREQUENCY, &until, problem) != 0 ||
        quantity_parse(low, DIMENSION_FREQUENCY, &from, problem) != 0)
        return ERROR_FORMAT;
    if (from.dimension == DIMENSION_NUMBER) {
        snprintf(low, sizeof low, "%.*s %s", (int)(dash - text), text, until.unit);
        if (quantity_parse(low, DIMENSION_FREQUENCY, &from, problem) != 0)
            return ERROR_FORMAT;
    }
    if (from.dimension != DIMENSION_FREQUENCY || until.dimension != DIMENSION_FREQUENCY)
        return ERROR_FORMAT;
    band->from_hz = quantity_value(&from);
    band->until_hz = quantity_value(&until);
    return band->from_hz >= 0 && band->from_hz < band->until_hz ? 0 : ERROR_FORMAT;
}

static int parse_band(const struct option_row *row, const char *text, struct option_value *value,
                      struct problem *problem)
{
    struct hit_band band;
    if (read_band(text, &band, problem) != 0)
        return problem_set(problem, ERROR_CONFIG,
                           "`%s = %.*s` is no band; write two frequencies, as 50-150 kHz", row->key,
                           OPTION_QUOTE, text);
    value->number = band.from_hz;
    return 0;
}

#define FIELD(member) OPTION_FIELD(struct hit_options, member)

/* Those that check_frames asks for by name come first. */
enum {
    ROW_HDT,
    ROW_HLT,
    ROW_PDT,
    ROW_MAX_DURATION,
    ROW_PRE_TRIGGER,
    ROW_POST_DURATION,
    ROW_MAX_RECORD,
    ROW_NOISE_INTERVAL,
    ROW_FLOATING_TIME,
    ROW_PICK_WINDOW,
    ROW_RATIO_WINDOW,
    ROW_SPECTRUM,
    ROW_OTHERS,
};

#define FRAMES_MAX 1e12
#define RECORD_MAX 16777216.0

const struct option_row hit_option_rows[HIT_OPTION_ROWS] = {
    [ROW_HDT] = {ANALYSIS_ROW_HDT, FIELD(hdt)},
    [ROW_HLT] = {ANALYSIS_ROW_HLT, FIELD(hlt)},
    [ROW_PDT] = {.key = "pdt",
                 .type = OPTION_SPAN,
                 .maximum = FRAMES_MAX,
                 .fallback = "0 frames",
                 FIELD(pdt),
                 .sentence = "Peak definition time: a larger sample replaces the peak only so long "
                             "after it; 0: the peak is the hit's maximum."},
    [ROW_MAX_DURATION] = {ANALYSIS_ROW_MAX_DURATION, FIELD(max_duration)},
    [ROW_PRE_TRIGGER] = {.key = "pre-trigger",
                         .type = OPTION_SPAN,
                         .maximum = RECORD_MAX,
                         .fallback = "0 frames",
                         FIELD(pre_trigger),
                         .sentence = "Frames before a hit that belong to its transient, its "
                                     "spectrum, and to what a picker looks at."},
    [ROW_POST_DURATION] = {.key = "post-duration",
                           .type = OPTION_SPAN,
                           .maximum = RECORD_MAX,
                           .fallback = "0 frames",
                           FIELD(post_duration),
                           .sentence = "Frames behind a hit's last one above the threshold that "
                                       "belong to its transient and spectrum, up to the next hit."},
    [ROW_MAX_RECORD] = {.key = "max record",
                        .type = OPTION_SPAN,
                        .maximum = RECORD_MAX,
                        .fallback = "0 frames",
                        FIELD(max_record),
                        .sentence = "Longest transient, from the hit's first frame on; 0: hits "
                                    "come without transients."},
    [ROW_NOISE_INTERVAL] = {.key = "noise interval",
                            .type = OPTION_SPAN,
                            .maximum = FRAMES_MAX,
                            .fallback = "0 frames",
                            FIELD(noise_interval),
                            .sentence = "Time over which the noise is measured, at multiples of it "
                                        "in each epoch; 0: it is not, which is faster."},
    [ROW_FLOATING_TIME] = {.key = "floating time",
                           .type = OPTION_SPAN,
                           .minimum = 1,
                           .maximum = FRAMES_MAX,
                           .fallback_words = "1 s, at least a frame",
                           FIELD(floating_time),
                           .sentence = "Averaging time of the input's mean square that `floating "
                                       "threshold` follows, with hits and without."},
    [ROW_PICK_WINDOW] = {.key = "pick window",
                         .type = OPTION_SPAN,
                         .maximum = RECORD_MAX,
                         .fallback = "100 us",
                         FIELD(pick_window),
                         .sentence = "So far behind a hit's first frame a picker looks, and never "
                                     "beyond its peak."},
    [ROW_RATIO_WINDOW] = {.key = "ratio window",
                          .type = OPTION_SPAN,
                          .minimum = 1,
                          .maximum = RECORD_MAX,
                          .fallback = "100 frames",
                          FIELD(ratio_window),
                          .sentence = "Each of the two windows of the picker energy-ratio."},
    [ROW_SPECTRUM] = {.key = "spectrum",
                      .type = OPTION_SPAN,
                      .maximum = 1048576,
                      .fallback = "0 frames",
                      FIELD(spectrum),
                      .sentence = "Points of each hit's spectrum, a power of two, from the "
                                  "pre-trigger on, zeros behind the record; 0: none."},
    {ANALYSIS_ROW_THRESHOLD, FIELD(thresholds)},
    {.key = "floating threshold",
     .type = OPTION_NUMBER,
     .maximum = 1e6,
     .fallback = "0",
     FIELD(floating),
     .sentence = "The threshold is at least so many times the RMS of the input, averaged over "
                 "`floating time` with hits and without (ASTM E1316); 0: it is fixed."},
    {ANALYSIS_ROW_COUNTS, FIELD(counts)},
    {.key = "energy over",
     .type = OPTION_CHOICE,
     .choices = window_choices,
     .fallback = "duration",
     FIELD(energy_to_end),
     .sentence = "Frames whose energy and signal strength count: duration, from the first above "
                 "the threshold to the last; hit, hdt longer."},
    {.key = "picker",
     .type = OPTION_CHOICE,
     .choices = picker_choices,
     .fallback = "threshold",
     FIELD(picker),
     .sentence = "How the arrival is found: the first frame above the threshold, Akaike's "
                 "criterion, Hinkley's, or the energy ratio."},
    {.key = "interpolate",
     .type = OPTION_BOOLEAN,
     .fallback = "no",
     FIELD(interpolate),
     .sentence = "The picker threshold: on the line between the first frame above and the one "
                 "before, where both have one sign."},
    {.key = "alpha",
     .type = OPTION_NUMBER,
     .minimum = 0,
     .above_minimum = true,
     .maximum = 1e6,
     .fallback = "5",
     FIELD(alpha),
     .sentence = "Hinkley's divisor of the trend; usual are 2 to 200."},
    {.key = "bands",
     .type = OPTION_OWN,
     .list = LIST_COMMA,
     .parse = parse_band,
     .words = "bands, such as 50-150 kHz",
     .fallback_words = "no partial powers",
     FIELD(bands),
     .sentence = "Bands of the spectrum whose share of the power is given, at most 8."},
    {.key = "release queue",
     .type = OPTION_MEMORY,
     .minimum = 65536,
     .maximum = 17179869184.0,
     .fallback = "64 MiB",
     FIELD(queue_bytes),
     .sentence = "Memory for hits that have ended while one that began before them goes on. A "
                 "transient, then a hit, that finds no room is missing in files, and counted."},
};

/* ---- checks ------------------------------------------------------------------------------ */

static double threshold_of(const struct option_check *check, const struct analysis_options *options,
                           uint32_t channel, bool *fits)
{
    const struct hit_options *own = options->own;
    const struct option_values *list = &own->thresholds;
    const struct level_scale scale = analysis_scale(&options->stream, channel);
    double threshold = 0;
    const bool good =
        list->count > 0 &&
        level_amplitude(check, "threshold", &list->values[list->count > channel ? channel : 0],
                        &scale, &threshold);
    *fits = good && threshold >= 0 && threshold <= FLT_MAX;
    return threshold;
}

double hit_options_threshold(const struct analysis_options *options, uint32_t channel)
{
    bool fits;
    return threshold_of(NULL, options, channel, &fits);
}

static uint64_t frames_of(const struct option_check *check, int row,
                          const struct option_value *value, double rate_hz)
{
    uint64_t frames;
    option_frames(check, &hit_option_rows[row], value, rate_hz, &frames);
    return frames;
}

static void check_frames(const struct option_check *check, struct analysis_options *options)
{
    struct hit_options *own = options->own;
    const double rate = options->stream.rate_hz;
    own->rules = (struct detector_rules){
        .hdt = frames_of(check, ROW_HDT, own->hdt, rate),
        .hlt = frames_of(check, ROW_HLT, own->hlt, rate),
        .pdt = frames_of(check, ROW_PDT, own->pdt, rate),
        .post_duration = frames_of(check, ROW_POST_DURATION, own->post_duration, rate),
        .pre_trigger = (uint32_t)frames_of(check, ROW_PRE_TRIGGER, own->pre_trigger, rate),
        .energy_to_end = own->energy_to_end,
    };
    own->rules.max_duration = own->max_duration != NULL
                                  ? frames_of(check, ROW_MAX_DURATION, own->max_duration, rate)
                                  : (uint64_t)fmax(1, nearbyint(0.1 * rate));
    if (own->rules.max_duration == 0)
        own->rules.max_duration = 1; /* reported */
    own->noise_frames = frames_of(check, ROW_NOISE_INTERVAL, own->noise_interval, rate);
    own->floating_frames = own->floating_time != NULL
                               ? frames_of(check, ROW_FLOATING_TIME, own->floating_time, rate)
                               : (uint64_t)fmax(1, nearbyint(rate));
    if (own->floating_frames == 0)
        own->floating_frames = 1; /* reported */
    own->features = (struct hit_features_options){
        .rate_hz = rate,
        .counts = own->counts,
        .picker = own->picker,
        .interpolate = own->interpolate,
        .pick_window = (uint32_t)frames_of(check, ROW_PICK_WINDOW, own->pick_window, rate),
        .alpha = own->alpha,
        .ratio_window = (uint32_t)frames_of(check, ROW_RATIO_WINDOW, own->ratio_window, rate),
        .spectrum_points = (uint32_t)frames_of(check, ROW_SPECTRUM, own->spectrum, rate),
    };
}

static void check_spectrum(const struct option_check *check, struct analysis_options *options)
{
    struct hit_options *own = options->own;
    struct hit_features_options *features = &own->features;
    const uint32_t points = features->spectrum_points;
    if (points != 0 && (points < 8 || (points & (points - 1)) != 0)) {
        option_error(check, "spectrum",
                     "`spectrum` is %u frames; write a power of two from 8 to 1048576 frames, or 0",
                     points);
        features->spectrum_points = 0;
    }
    if (own->bands.count > 0 && points == 0)
        option_error(check, "bands", "`bands` needs a spectrum: write `spectrum = 4096 frames`");
    if (own->bands.count > HIT_BANDS_MAX)
        option_error(check, "bands", "`bands` lists %u bands; write at most %d", own->bands.count,
                     HIT_BANDS_MAX);
    for (unsigned i = 0; i < own->bands.count && i < HIT_BANDS_MAX; i++) {
        struct problem problem;
        if (read_band(own->bands.values[i].text, &features->bands[i], &problem) != 0)
            continue;
        features->band_count = i + 1;
        if (features->bands[i].until_hz > features->rate_hz / 2)
            option_error(check, "bands", "the band %s reaches beyond half the rate, %g kHz",
                         own->bands.values[i].text, features->rate_hz / 2e3);
    }
}

/* The record that transients, pickers and spectra need, and the queue behind an open hit. */
static void size_memory(struct analysis_options *options, uint64_t max_record)
{
    struct hit_options *own = options->own;
    struct detector_rules *rules = &own->rules;
    const uint64_t lead = rules->pre_trigger;
    uint64_t record = max_record > 0 ? lead + max_record : 0;
    own->transient_frames = (uint32_t)record;
    if (own->picker != HIT_PICKER_THRESHOLD && record < lead + own->features.pick_window)
        record = lead + own->features.pick_window;
    if (record < own->features.spectrum_points)
        record = own->features.spectrum_points;
    if (record > 0 && record <= lead)
        record = lead + 1;
    rules->record_frames = (uint32_t)record;
    /* While a hit is open each other channel begins so many, at most: they follow each other as
     * HDT and lockout allow, or at once behind a timeout. */
    const double others = options->stream.channels - 1;
    const double apart = fmin((double)(rules->hdt + rules->hlt + 1), (double)rules->max_duration);
    const double hits = 2 + floor((double)(rules->max_duration + rules->post_duration) / apart);
    const double most = fmax(1, others * hits * hit_queue_blocks(own->transient_frames));
    const uint64_t room = own->queue_bytes / HIT_QUEUE_BLOCK_BYTES;
    own->queue_blocks = (uint32_t)fmin(most, (double)room);
}

static void check_thresholds(const struct option_check *check,
                             const struct analysis_options *options)
{
    const struct hit_options *own = options->own;
    for (uint32_t channel = 0; own->thresholds.count > 0 && channel < options->stream.channels;
         channel++) {
        const struct level_scale scale = analysis_scale(&options->stream, channel);
        bool fits;
        const double threshold = threshold_of(check, options, channel, &fits);
        if (!fits && threshold > FLT_MAX)
            option_error(check, "threshold", "the threshold %g is beyond what a sample can be",
                         threshold);
        if (!fits ||
            level_warn(check, "threshold", "threshold =",
                       own->thresholds.values[own->thresholds.count > channel ? channel : 0].text,
                       threshold, &scale))
            break;
    }
}

void hit_options_check(const struct option_check *check, struct analysis_options *options)
{
    struct hit_options *own = options->own;
    check_frames(check, options);
    check_spectrum(check, options);
    const uint64_t max_record =
        frames_of(check, ROW_MAX_RECORD, own->max_record, options->stream.rate_hz);
    size_memory(options, max_record);
    own->field_count = hit_fields(own->fields, own->features.band_count);
    if (own->thresholds.count == 0)
        option_error(check, NULL, "hits need a threshold: write `threshold = 40 dB(AE)`");
    check_thresholds(check, options);
    if (own->floating > 0 && own->noise_frames == 0)
        option_error(check, "floating threshold",
                     "`floating threshold` needs the noise: write `noise interval = 100 ms`");
    if (own->floating > 0 && own->floating_frames < own->noise_frames)
        option_warning(check, "floating time",
                       "`floating time` is shorter than `noise interval`, whose ends are when the "
                       "threshold changes: it follows each interval alone; write more");
    if (own->floating == 0 && option_given(check, "floating time"))
        option_warning(check, "floating time",
                       "`floating time` does nothing without `floating threshold`");
    if (own->rules.max_duration <= own->rules.hdt)
        option_warning(check, "max duration",
                       "`max duration` is not longer than `hdt`: every hit ends by timeout");
    if (max_record == 0 && own->rules.post_duration > 0 && own->features.spectrum_points == 0)
        option_warning(check, "post-duration",
                       "`post-duration` does nothing without `max record` or `spectrum`");
    if (max_record > 0 && own->transient_frames < own->features.spectrum_points)
        option_warning(check, "max record",
                       "transients are shorter than the spectrum: what a reader computes from them "
                       "differs from the values of the hit");
}

/* ---- report ------------------------------------------------------------------------------ */

static const char *time_text(const struct analysis_options *options, uint64_t frames, char text[24])
{
    return duration_text((int64_t)((double)frames * 1e9 / options->stream.rate_hz + 0.5), text);
}

void hit_options_report(const struct analysis_options *options, FILE *out)
{
    const struct hit_options *own = options->own;
    const char *unit = options->stream.units[0];
    const double threshold = hit_options_threshold(options, 0);
    char hdt[24], longest[24], text[24];
    fprintf(out, "hits above %.4g %s", threshold, unit);
    if (threshold > 0)
        fprintf(out, " (%.1f dB)", hit_level_db(threshold, unit));
    fprintf(out, "%s, hdt %s (%llu frames), at most %s\n",
            own->thresholds.count > 1 ? " on channel 1" : "",
            time_text(options, own->rules.hdt, hdt), (unsigned long long)own->rules.hdt,
            time_text(options, own->rules.max_duration, longest));
    if (own->noise_frames > 0) {
        fprintf(out, "%19snoise over %s", "", time_text(options, own->noise_frames, text));
        if (own->floating > 0)
            fprintf(out, ", threshold at least %g times the input's RMS over %s", own->floating,
                    time_text(options, own->floating_frames, text));
        fputc('\n', out);
    }
    if (own->transient_frames > 0)
        fprintf(out, "%19stransients of at most %u frames, %u before the hit\n", "",
                own->transient_frames, own->rules.pre_trigger);
    if (own->features.spectrum_points > 0)
        fprintf(out, "%19sspectra of %u points, %u bands\n", "", own->features.spectrum_points,
                own->features.band_count);
    fprintf(out, "%19sarrival: %s%s\n", "", picker_choices[own->picker].word,
            own->picker == HIT_PICKER_THRESHOLD && own->interpolate ? ", interpolated" : "");
    if (options->stream.delay_frames > 0)
        fprintf(out,
                "%19sthe filter rings for up to %s before its centre, and an onset with it: for "
                "arrivals prefer a wide band\n",
                "", time_text(options, (uint64_t)options->stream.delay_frames, text));
}

/* ---- settings ---------------------------------------------------------------------------- */

struct json_t *hit_options_describe(const struct analysis_options *options)
{
    const struct hit_options *own = options->own;
    const struct detector_rules *rules = &own->rules;
    const struct hit_features_options *features = &own->features;
    json_t *thresholds = json_array(), *bands = json_array();
    for (uint32_t c = 0; c < options->stream.channels; c++)
        json_array_append_new(thresholds, json_real(hit_options_threshold(options, c)));
    for (uint32_t b = 0; b < features->band_count; b++)
        json_array_append_new(
            bands, json_pack("[f, f]", features->bands[b].from_hz, features->bands[b].until_hz));
    return json_pack("{s:o, s:s, s:I, s:I, s:I, s:I, s:I, s:I, s:f, s:I, s:I, s:I, s:s, s:I, s:o}",
                     "thresholds", thresholds, "counts", analysis_counts[own->counts].word,
                     "hdt_frames", (json_int_t)rules->hdt, "hlt_frames", (json_int_t)rules->hlt,
                     "pdt_frames", (json_int_t)rules->pdt, "max_duration_frames",
                     (json_int_t)rules->max_duration, "post_duration_frames",
                     (json_int_t)rules->post_duration, "noise_interval_frames",
                     (json_int_t)own->noise_frames, "floating_threshold", own->floating,
                     "floating_time_frames", (json_int_t)own->floating_frames, "pre_trigger_frames",
                     (json_int_t)rules->pre_trigger, "transient_frames",
                     (json_int_t)own->transient_frames, "picker", picker_choices[own->picker].word,
                     "spectrum_frames", (json_int_t)features->spectrum_points, "bands_hz", bands);
}
