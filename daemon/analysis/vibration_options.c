/* The options of vibration: see vibration_options.h. Pure functions, any thread. */
#include "analysis/vibration_options.h"

#include <jansson.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "core/level.h"
#include "analysis/spectrum.h"

/* A speed in Hz, or in turns a minute. */
static int parse_speed(const struct option_row *row, const char *text, struct option_value *value,
                       struct problem *problem)
{
    static const char *const minutes[] = {"rpm", "r/min", "1/min", "/min"};
    char number[64];
    const size_t length = strlen(text);
    for (size_t i = 0; i < sizeof minutes / sizeof minutes[0]; i++) {
        const size_t unit = strlen(minutes[i]);
        struct quantity quantity;
        if (length <= unit || length - unit >= sizeof number ||
            strcmp(text + length - unit, minutes[i]) != 0)
            continue;
        memcpy(number, text, length - unit);
        number[length - unit] = '\0';
        if (quantity_parse(number, DIMENSION_NUMBER, &quantity, problem) != 0 ||
            quantity.dimension != DIMENSION_NUMBER)
            continue;
        value->number = quantity_value(&quantity) / 60;
        if (value->number >= row->minimum && value->number <= row->maximum)
            return 0;
        break;
    }
    struct option_row frequency = *row;
    struct option_value hertz;
    frequency.type = OPTION_FREQUENCY;
    if (option_parse(&frequency, text, &hertz, problem) == 0) {
        value->number = hertz.number;
        return 0;
    }
    return problem_set(problem, ERROR_CONFIG,
                       "`%s = %.*s` is no speed of 1 mHz … 10 kHz; write turns a minute or a "
                       "second, as in %s = 1500 rpm or %s = 25 Hz",
                       row->key, OPTION_QUOTE, text, row->key, row->key);
}

static const struct option_choice traces[] = {
    {"spectrum", TRACE_SPECTRUM}, {"kurtosis", TRACE_KURTOSIS}, {"none", TRACE_NONE}, {NULL, 0}};

/* Events in a turn. A frequency is taken too, for check_order to say which order it is. */
static int parse_order(const struct option_row *row, const char *text, struct option_value *value,
                       struct problem *problem)
{
    struct option_row number = *row, frequency = *row;
    struct problem detail;
    number.type = OPTION_NUMBER;
    frequency.type = OPTION_FREQUENCY;
    frequency.maximum = 1e9;
    if (option_parse(&frequency, text, value, &detail) == 0 &&
        value->dimension == DIMENSION_FREQUENCY)
        return 0;
    return option_parse(&number, text, value, problem);
}

#define FIELD(member) OPTION_FIELD(struct vibration_options, member)
#define ORDER(defect, what)                                                                        \
    {                                                                                              \
        .key = #defect, .type = OPTION_OWN, .parse = parse_order, .words = "number", .minimum = 0, \
        .above_minimum = true, .maximum = 1000, .fallback_words = "that of the geometry",          \
        FIELD(orders_written[CONDITION_##defect]),                                                 \
        .sentence = "Events of " what " in a turn of the shaft, as catalogues give them."          \
    }

enum { ROW_SPECTRUM, ROW_KURTOSIS };

const struct option_row vibration_option_rows[VIBRATION_OPTION_ROWS] = {
    [ROW_SPECTRUM] = {.key = "segment",
                      .type = OPTION_SPAN,
                      .minimum = 16,
                      .maximum = SPECTRUM_POINTS_MAX,
                      .fallback_words = "1 s, at most 4194304 frames",
                      FIELD(spectrum),
                      .sentence = "Length of a segment: a power of two of frames; a time is "
                                  "lengthened to one. Bins lie rate / length apart."},
    [ROW_KURTOSIS] = {.key = "kurtosis segment",
                      .type = OPTION_SPAN,
                      .minimum = 16,
                      .maximum = SPECTRUM_POINTS_MAX,
                      .fallback_words = "none",
                      FIELD(kurtosis),
                      .sentence = "Length of the segments of spectral kurtosis, likewise; shorter "
                                  "than the time between two impacts. It shows the band to take "
                                  "the envelope of."},
    {.key = "segments",
     .type = OPTION_COUNT,
     .minimum = 1,
     .maximum = 1e5,
     .fallback = "8",
     FIELD(averages),
     .sentence = "Segments K whose power is averaged into one result."},
    {.key = "overlap",
     .type = OPTION_RATIO,
     .minimum = 0,
     .maximum = 0.95,
     .fallback = "50 %",
     FIELD(overlap),
     .sentence = "Share of a segment that lies in the one before."},
    {.key = "highest",
     .type = OPTION_FREQUENCY,
     .minimum = 0,
     .above_minimum = true,
     .maximum = 1e10,
     .fallback_words = "half the rate",
     FIELD(highest_hz),
     .sentence = "Highest frequency of the spectrum that events carry."},
    {.key = "trace",
     .type = OPTION_CHOICE,
     .choices = traces,
     .fallback = "spectrum",
     FIELD(trace),
     .sentence = "What events carry: the averaged spectrum of amplitudes, spectral kurtosis, or "
                 "no samples."},
    {.key = "envelope low",
     .type = OPTION_FREQUENCY,
     .minimum = 0,
     .above_minimum = true,
     .maximum = 1e10,
     .fallback_words = "the spectrum is that of the samples",
     FIELD(envelope_low_hz),
     .sentence = "Lower end of the band whose envelope is taken, segment by segment (Hilbert "
                 "transform in the frequency domain); the spectrum is that of the envelope then. "
                 "Not needed where the stream's `output` is the envelope."},
    {.key = "envelope high",
     .type = OPTION_FREQUENCY,
     .minimum = 0,
     .above_minimum = true,
     .maximum = 1e10,
     .fallback_words = "that of `envelope low`",
     FIELD(envelope_high_hz),
     .sentence = "Upper end of that band."},
    {.key = "velocity low",
     .type = OPTION_FREQUENCY,
     .minimum = 0,
     .above_minimum = true,
     .maximum = 1e10,
     .fallback = "10 Hz",
     FIELD(velocity_low_hz),
     .sentence = "Lower end of the band of the RMS velocity: 10 Hz in ISO 20816, 2 Hz for slow "
                 "machines."},
    {.key = "velocity high",
     .type = OPTION_FREQUENCY,
     .minimum = 0,
     .above_minimum = true,
     .maximum = 1e10,
     .fallback = "1 kHz",
     FIELD(velocity_high_hz),
     .sentence = "Upper end of that band."},
    {.key = "speed",
     .type = OPTION_OWN,
     .parse = parse_speed,
     .words = "speed, such as 1500 rpm or 25 Hz",
     .minimum = 1e-3,
     .maximum = 1e4,
     .fallback_words = "that of `tacho`",
     FIELD(speed_hz),
     .sentence = "Speed of the shaft, where it is constant."},
    {.key = "tacho",
     .type = OPTION_COUNT,
     .minimum = 1,
     .maximum = UINT32_MAX,
     .fallback_words = "none",
     FIELD(tacho),
     .sentence = "Channel with the pulses of a tacho; it gives no events of its own."},
    {.key = "pulses",
     .type = OPTION_COUNT,
     .minimum = 1,
     .maximum = 1e6,
     .fallback = "1",
     FIELD(pulses),
     .sentence = "Pulses of the tacho in a turn of the shaft."},
    {.key = "tacho level",
     .type = OPTION_OWN,
     .parse = level_parse,
     .words = LEVEL_WORDS,
     .minimum = -1e30,
     .fallback_words = "0",
     FIELD(tacho_level),
     .sentence = "Level that a pulse rises through."},
    {.key = "tacho hysteresis",
     .type = OPTION_OWN,
     .parse = level_parse,
     .words = LEVEL_WORDS,
     .fallback_words = "a tenth of the level",
     FIELD(tacho_hysteresis),
     .sentence = "So far below the level the signal must have been before the next pulse."},
    {.key = "elements",
     .type = OPTION_COUNT,
     .minimum = 1,
     .maximum = 1000,
     .fallback_words = "no geometry",
     FIELD(geometry.elements),
     .sentence = "Rolling elements n of the bearing."},
    {.key = "element diameter",
     .type = OPTION_LENGTH,
     .minimum = 0,
     .above_minimum = true,
     .maximum = 10,
     .fallback_words = "no geometry",
     FIELD(geometry.element_m),
     .sentence = "Diameter d of an element."},
    {.key = "pitch diameter",
     .type = OPTION_LENGTH,
     .minimum = 0,
     .above_minimum = true,
     .maximum = 100,
     .fallback_words = "no geometry",
     FIELD(geometry.pitch_m),
     .sentence = "Diameter D of the circle of the elements' centres."},
    {.key = "contact angle",
     .type = OPTION_ANGLE,
     .minimum = 0,
     .maximum = 89,
     .fallback = "0 deg",
     FIELD(geometry.contact_deg),
     .sentence = "Angle of contact."},
    ORDER(ftf, "the cage"),
    ORDER(bsf, "an element's spin"),
    ORDER(bpfo, "the outer race"),
    ORDER(bpfi, "the inner race"),
    {.key = "slip",
     .type = OPTION_RATIO,
     .minimum = 0,
     .maximum = 0.2,
     .fallback = "2 %",
     FIELD(slip),
     .sentence = "How far a line may lie from its kinematic frequency; the largest bin within "
                 "counts."},
    {.key = "harmonics",
     .type = OPTION_COUNT,
     .minimum = 1,
     .maximum = 64,
     .fallback = "3",
     FIELD(harmonics),
     .sentence = "Harmonics of a line that are summed, itself the first."},
};

enum vibration_unit vibration_unit(const char *unit, double *factor)
{
    static const struct {
        const char *unit;
        enum vibration_unit kind;
        double factor;
    } units[] = {
        {"m/s2", VIBRATION_ACCELERATION, 1},      {"m/s^2", VIBRATION_ACCELERATION, 1},
        {"m/s\u00b2", VIBRATION_ACCELERATION, 1}, {"g", VIBRATION_ACCELERATION, 9.80665},
        {"m/s", VIBRATION_VELOCITY, 1},
    };
    for (size_t i = 0; i < sizeof units / sizeof units[0]; i++) {
        int exponent;
        if (!quantity_unit_exponent(unit, units[i].unit, &exponent))
            continue;
        *factor = units[i].factor * (double)powl(10, exponent);
        return units[i].kind;
    }
    *factor = 0;
    return VIBRATION_OTHER;
}

/* ---- check ------------------------------------------------------------------------------- */

/* A power of two of frames. */
static void check_points(const struct option_check *check, const struct option_row *row,
                         const struct option_value *written, double rate_hz, uint32_t *points)
{
    uint64_t frames;
    if (!option_frames(check, row, written, rate_hz, &frames))
        return;
    uint32_t power = (uint32_t)row->minimum;
    while (power < frames)
        power *= 2;
    if (written->dimension != DIMENSION_TIME && power != frames)
        option_error(check, row->key, "`%s = %s` is no power of two; write %u frames or %u frames",
                     row->key, written->text, power / 2, power);
    *points = power;
}

static void check_segments(const struct option_check *check, struct analysis_options *options)
{
    struct vibration_options *own = options->own;
    const double rate = options->stream.rate_hz;
    own->points = 16;
    own->kurtosis_points = 0;
    while (own->points < rate && own->points < SPECTRUM_POINTS_MAX)
        own->points *= 2;
    if (own->spectrum != NULL)
        check_points(check, &vibration_option_rows[ROW_SPECTRUM], own->spectrum, rate,
                     &own->points);
    if (own->kurtosis != NULL)
        check_points(check, &vibration_option_rows[ROW_KURTOSIS], own->kurtosis, rate,
                     &own->kurtosis_points);
    own->hop = (uint32_t)fmax(1, nearbyint(own->points * (1 - own->overlap)));
    own->kurtosis_hop = own->kurtosis_points / 2;
    if (own->kurtosis_points > own->points)
        option_error(check, "kurtosis segment",
                     "%u frames are more than those of `segment`, %u; write fewer",
                     own->kurtosis_points, own->points);
    if (own->trace == TRACE_KURTOSIS && own->kurtosis_points == 0)
        option_error(check, "trace",
                     "`trace = kurtosis` needs `kurtosis segment`; write it, as in "
                     "kurtosis segment = 256 frames");
}

static void check_envelope(const struct option_check *check, struct analysis_options *options)
{
    struct vibration_options *own = options->own;
    const double bin_hz = options->stream.rate_hz / own->points;
    own->envelope_low = own->envelope_high = 0;
    if (own->envelope_low_hz <= 0 && own->envelope_high_hz <= 0)
        return;
    const char *key = own->envelope_low_hz > 0 ? "envelope low" : "envelope high";
    if (options->stream.envelope) {
        option_error(check, key,
                     "stream %s gives the envelope already (`output = envelope`); remove `%s`, or "
                     "take a stream with `output = real`",
                     options->stream.name, key);
        return;
    }
    const double low = fmax(1, ceil(own->envelope_low_hz / bin_hz));
    const double high = fmin(0.5 * own->points - 1, floor(own->envelope_high_hz / bin_hz));
    if (!(own->envelope_low_hz > 0 && own->envelope_high_hz > 0 && low < high)) {
        option_error(check, key,
                     "the band of the envelope needs two ends with at least two bins of %.4g Hz "
                     "between them, below %.6g Hz; write `envelope low` and `envelope high`",
                     bin_hz, options->stream.rate_hz / 2);
        return;
    }
    own->envelope_low = (uint32_t)low;
    own->envelope_high = (uint32_t)high;
}

/* Four bins at the lower end: below, the window's spread reads a velocity high. */
static void check_velocity(const struct option_check *check, struct analysis_options *options)
{
    struct vibration_options *own = options->own;
    const double bin_hz = options->stream.rate_hz / own->points;
    const bool given = option_given(check, "velocity low") || option_given(check, "velocity high");
    bool wanted = false;
    for (uint32_t c = 0; c < options->stream.channels; c++) {
        double factor;
        wanted = wanted || (c + 1 != own->tacho &&
                            vibration_unit(options->stream.units[c], &factor) != VIBRATION_OTHER);
    }
    own->velocity_low = own->velocity_high = 0;
    if (options->stream.envelope || !wanted) {
        if (given)
            option_warning(check,
                           option_given(check, "velocity low") ? "velocity low" : "velocity high",
                           "stream %s has no velocity: %s", options->stream.name,
                           options->stream.envelope
                               ? "it gives an envelope"
                               : "its `unit` is none of acceleration (m/s2, g) or velocity (mm/s)");
        return;
    }
    const double low = ceil(own->velocity_low_hz / bin_hz - 1e-9);
    const double high = fmin(0.5 * own->points - 1, floor(own->velocity_high_hz / bin_hz + 1e-9));
    if (low >= 4 && low <= high) {
        own->velocity_low = (uint32_t)low;
        own->velocity_high = (uint32_t)high;
        return;
    }
    option_warning(check, given ? "velocity low" : "segment",
                   "no RMS velocity: from %.4g Hz to %.6g Hz it needs bins of at most %.4g Hz, and "
                   "those of `segment` are %.4g Hz; write a longer one",
                   own->velocity_low_hz, fmin(own->velocity_high_hz, options->stream.rate_hz / 2),
                   own->velocity_low_hz / 4, bin_hz);
}

static void check_tacho(const struct option_check *check, struct analysis_options *options)
{
    struct vibration_options *own = options->own;
    const struct analysis_stream *stream = &options->stream;
    own->tacho_rules = (struct tacho_rules){0, 0};
    if (own->tacho == 0) {
        static const char *const needs[] = {"pulses", "tacho level", "tacho hysteresis"};
        for (size_t i = 0; i < sizeof needs / sizeof needs[0]; i++)
            if (option_given(check, needs[i]))
                option_error(check, needs[i], "`%s` needs `tacho`, the channel of its pulses",
                             needs[i]);
        return;
    }
    if (own->tacho > stream->channels || stream->channels < 2) {
        option_error(check, "tacho",
                     "stream %s has %u channel%s; write the one that carries the tacho beside the "
                     "vibration",
                     stream->name, stream->channels, stream->channels == 1 ? "" : "s");
        return;
    }
    if (own->speed_hz > 0)
        option_error(check, "speed", "the speed comes from `tacho` already; remove one of them");
    const struct level_scale scale = analysis_scale(stream, own->tacho - 1);
    double level = 0, hysteresis = 0;
    if (own->tacho_level != NULL &&
        level_amplitude(check, "tacho level", own->tacho_level, &scale, &level))
        level_warn(check, "tacho level", "tacho level =", own->tacho_level->text, fabs(level),
                   &scale);
    hysteresis = fabs(level) / 10;
    if (own->tacho_hysteresis != NULL)
        level_amplitude(check, "tacho hysteresis", own->tacho_hysteresis, &scale, &hysteresis);
    own->tacho_rules = (struct tacho_rules){level, level - hysteresis};
}

enum { ORDER_USUAL = 50 }; /* more events in a turn than bearings usually give */

/* A frequency where an order belongs, or a number that looks like one. */
static void check_order(const struct option_check *check, const char *key,
                        const struct vibration_options *own)
{
    const struct option_value *written = check->written(check->context, key);
    if (written == NULL)
        return;
    if (written->dimension == DIMENSION_FREQUENCY && own->speed_hz > 0)
        option_error(check, key,
                     "`%s = %s` is a frequency, and `%s` counts events in a turn of the shaft: at "
                     "%.6g Hz, its speed, write %s = %.6g",
                     key, written->text, key, own->speed_hz, key, written->number / own->speed_hz);
    else if (written->dimension == DIMENSION_FREQUENCY)
        option_error(check, key,
                     "`%s = %s` is a frequency, and `%s` counts events in a turn of the shaft; "
                     "divide it by the speed that it is given for, as in %s = 3.1",
                     key, written->text, key, key);
    else if (written->number > ORDER_USUAL && own->speed_hz > 0)
        option_warning(check, key,
                       "`%s = %s` is %s times the speed, %.6g Hz; where %s Hz are meant, write "
                       "%s = %.6g",
                       key, written->text, written->text, written->number * own->speed_hz,
                       written->text, key, written->number / own->speed_hz);
    else if (written->number > ORDER_USUAL)
        option_warning(check, key,
                       "`%s = %s` is %s events in a turn of the shaft; where Hz are meant, divide "
                       "them by the speed",
                       key, written->text, written->text);
}

static void check_bearing(const struct option_check *check, struct analysis_options *options)
{
    struct vibration_options *own = options->own;
    const struct bearing_geometry *geometry = &own->geometry;
    const bool any = geometry->elements > 0 || geometry->element_m > 0 || geometry->pitch_m > 0;
    const bool all = geometry->elements > 0 && geometry->element_m > 0 && geometry->pitch_m > 0;
    memset(own->orders, 0, sizeof own->orders);
    if (any && !all)
        option_error(check,
                     geometry->elements > 0  ? "elements"
                     : geometry->pitch_m > 0 ? "pitch diameter"
                                             : "element diameter",
                     "a bearing has `elements`, `element diameter` and `pitch diameter`; write all "
                     "three, or the orders `bpfo`, `bpfi`, `bsf` and `ftf` of a catalogue");
    if (all && geometry->element_m >= geometry->pitch_m)
        option_error(check, "element diameter",
                     "the elements are as large as the circle of their centres; exchange `element "
                     "diameter` and `pitch diameter`");
    else if (all)
        bearing_orders(geometry, own->orders);
    double lowest = INFINITY;
    const char *key = all ? "elements" : NULL;
    static const char *const keys[] = {
#define X(name, what) #name,
        CONDITION_DEFECT_TABLE(X)
#undef X
    };
    for (int d = 0; d < CONDITION_DEFECTS; d++) {
        check_order(check, keys[d], own);
        if (own->orders_written[d] > 0) {
            own->orders[d] = own->orders_written[d];
            key = keys[d];
        }
        if (own->orders[d] > 0)
            lowest = fmin(lowest, own->orders[d]);
    }
    if (key == NULL)
        return;
    if (!(own->speed_hz > 0) && own->tacho == 0)
        option_error(check, key,
                     "the frequencies of a bearing need the speed of its shaft; write `speed`, as "
                     "in speed = 1500 rpm, or `tacho`");
    const double bin_hz = options->stream.rate_hz / own->points;
    if (own->speed_hz > 0 && lowest * own->speed_hz < 3 * bin_hz)
        option_warning(check, "segment",
                       "the slowest line, %.4g Hz, lies within three bins of %.4g Hz from the "
                       "mean; write a longer `segment` to tell it from the mean",
                       lowest * own->speed_hz, bin_hz);
}

void vibration_options_check(const struct option_check *check, struct analysis_options *options)
{
    check_segments(check, options);
    check_envelope(check, options);
    check_velocity(check, options);
    check_tacho(check, options);
    check_bearing(check, options);
}

/* ---- report ------------------------------------------------------------------------------ */

void vibration_options_report(const struct analysis_options *options, FILE *out)
{
    static const char *const names[] = {
#define X(name, what) #name,
        CONDITION_DEFECT_TABLE(X)
#undef X
    };
    const struct vibration_options *own = options->own;
    const double rate = options->stream.rate_hz;
    char each[40];
    fprintf(
        out, "%s of %u points, bins of %.4g Hz, %u averages; one result in %s\n",
        own->envelope_high > 0 || options->stream.envelope ? "envelope spectra" : "spectra",
        own->points, rate / own->points, own->averages,
        quantity_print(DIMENSION_TIME, (double)vibration_frames(own) / rate, each, sizeof each));
    if (own->envelope_high > 0)
        fprintf(out, "%19senvelope of %.6g … %.6g Hz\n", "", own->envelope_low * rate / own->points,
                own->envelope_high * rate / own->points);
    if (own->velocity_high > 0)
        fprintf(out, "%19sRMS velocity of %.6g … %.6g Hz\n", "",
                own->velocity_low * rate / own->points, own->velocity_high * rate / own->points);
    if (own->kurtosis_points > 0)
        fprintf(out, "%19sspectral kurtosis of %u points, bins of %.4g Hz\n", "",
                own->kurtosis_points, rate / own->kurtosis_points);
    bool first = true;
    for (int d = CONDITION_DEFECTS - 1; d >= 0; d--) {
        if (!(own->orders[d] > 0))
            continue;
        if (first)
            fprintf(out, "%19s", "");
        if (own->speed_hz > 0)
            fprintf(out, "%s%s %.5g Hz", first ? "" : ", ", names[d],
                    own->orders[d] * own->speed_hz);
        else
            fprintf(out, "%s%s %.5g times the speed", first ? "" : ", ", names[d], own->orders[d]);
        first = false;
    }
    if (!first)
        fprintf(out, ", slip %.3g %%, %u harmonics\n", 100 * own->slip, own->harmonics);
}

struct json_t *vibration_options_describe(const struct analysis_options *options)
{
    static const char *const names[] = {
#define X(name, what) #name,
        CONDITION_DEFECT_TABLE(X)
#undef X
    };
    static const char *const traces_words[] = {"spectrum", "kurtosis", "none"};
    const struct vibration_options *own = options->own;
    const double bin_hz = options->stream.rate_hz / own->points;
    json_t *object = json_object(), *orders = json_object();
    json_object_set_new(object, "trace", json_string(traces_words[own->trace]));
    json_object_set_new(object, "envelope",
                        json_boolean(own->envelope_high > 0 || options->stream.envelope));
    if (own->envelope_high > 0)
        json_object_set_new(
            object, "envelope_hz",
            json_pack("[f,f]", own->envelope_low * bin_hz, own->envelope_high * bin_hz));
    if (own->velocity_high > 0)
        json_object_set_new(
            object, "velocity_hz",
            json_pack("[f,f]", own->velocity_low * bin_hz, own->velocity_high * bin_hz));
    for (int d = 0; d < CONDITION_DEFECTS; d++)
        if (own->orders[d] > 0)
            json_object_set_new(orders, names[d], json_real(own->orders[d]));
    json_object_set_new(object, "orders", orders);
    json_object_set_new(object, "slip", json_real(own->slip));
    json_object_set_new(object, "harmonics", json_integer(own->harmonics));
    return object;
}
