/* The options of A-scans: see ascan_options.h. Pure functions, any thread. */
#include "analysis/ascan_options.h"

#include <jansson.h>
#include <math.h>
#include <string.h>

#include "core/level.h"

static int parse_gate(const struct option_row *row, const char *text, struct option_value *value,
                      struct problem *problem)
{
    struct gate_line gate;
    (void)row;
    (void)value;
    return gate_parse(text, &gate, problem);
}

/* "10 us 6 dB": integer: the time in ns; number: the gain. */
static int parse_gain(const struct option_row *row, const char *text, struct option_value *value,
                      struct problem *problem)
{
    struct quantity time, gain;
    char first[64];
    /* Behind the unit of the time, or behind its 0. */
    size_t length = strcspn(text, " \t");
    const size_t unit = length + strspn(text + length, " \t");
    if (text[unit] != '\0' && strchr("+-.0123456789", text[unit]) == NULL)
        length = unit + strcspn(text + unit, " \t");
    if (length < sizeof first) {
        memcpy(first, text, length);
        first[length] = '\0';
        text += length + strspn(text + length, " \t");
        if (quantity_parse(first, DIMENSION_TIME, &time, problem) == 0 && !time.negative &&
            (time.dimension == DIMENSION_TIME ||
             (time.dimension == DIMENSION_NUMBER && time.digits == 0)) &&
            quantity_integer(&time, 9, &value->integer) == 0 &&
            quantity_parse(text, DIMENSION_DECIBEL, &gain, problem) == 0 &&
            (gain.dimension == DIMENSION_DECIBEL ||
             (gain.dimension == DIMENSION_NUMBER && gain.digits == 0))) {
            value->number = quantity_value(&gain);
            if (fabs(value->number) <= 200)
                return 0;
        }
    }
    return problem_set(problem, ERROR_CONFIG,
                       "`%s`: `%.*s` is no point of gain; write a time and at most 200 dB, as in "
                       "%s = 0 us 0 dB, 20 us 12 dB",
                       row->key, OPTION_QUOTE, value->text, row->key);
}

static const struct option_choice rectifications[] = {
    {"full", GATE_FULL}, {"positive", GATE_POSITIVE}, {"negative", GATE_NEGATIVE}, {NULL, 0}};

#define FIELD(member) OPTION_FIELD(struct ascan_options, member)

enum { ROW_PERIOD, ROW_START, ROW_FROM, ROW_RANGE };

const struct option_row ascan_option_rows[ASCAN_OPTION_ROWS] = {
    [ROW_PERIOD] = {.key = "period",
                    .type = OPTION_SPAN,
                    .minimum = 1,
                    .maximum = 1e12,
                    .fallback_words = "that of the stream's excitation, else one shot in a record",
                    FIELD(period_written),
                    .sentence =
                        "Frames from one pulse to the next, exactly: shots are counted from "
                        "the first frame of each epoch."},
    [ROW_START] = {.key = "start",
                   .type = OPTION_DELAY,
                   .maximum = 1e12,
                   .fallback_words = "that of the stream's excitation, else 0",
                   FIELD(start_written),
                   .sentence = "When the first pulse of an epoch or record is sent, from its first "
                               "frame: time of flight 0."},
    [ROW_FROM] = {.key = "from",
                  .type = OPTION_SPAN,
                  .maximum = 1e12,
                  .fallback_words = "0",
                  FIELD(from_written),
                  .sentence = "Time of flight at which the A-scan begins."},
    [ROW_RANGE] = {.key = "range",
                   .type = OPTION_SPAN,
                   .minimum = 2,
                   .maximum = ASCAN_FRAMES_MAX,
                   .required = true,
                   FIELD(range_written),
                   .sentence = "Length of the A-scan."},
    {.key = "averages",
     .type = OPTION_COUNT,
     .minimum = 1,
     .maximum = 1e6,
     .fallback = "1",
     FIELD(averages),
     .sentence =
         "Shots K that are averaged into one result; noise sinks by 10 lg K dB. A shot with "
         "an invalid frame is left out and counted."},
    {.key = "golay",
     .type = OPTION_BOOLEAN,
     .fallback = "no",
     FIELD(golay),
     .sentence =
         "Shots alternate between the codes a and b of a Golay pair, and channels 1 and 2, 3 "
         "and 4 … are the results of the filters matched to a and b: the averages of both "
         "are added."},
    {.key = "tcg",
     .type = OPTION_OWN,
     .list = LIST_COMMA,
     .parse = parse_gain,
     .words = "TIME GAIN, such as 0 us 0 dB, 20 us 12 dB",
     .fallback_words = "0 dB",
     FIELD(gain_points),
     .sentence = "Time-corrected gain: points of gain over the time of flight, in dB, linear "
                 "between them. Applies to the trace and its gates."},
    {.key = "rectify",
     .type = OPTION_CHOICE,
     .choices = rectifications,
     .fallback = "full",
     FIELD(rectify),
     .sentence = "What the gates look at: |x|, positive or negative half-waves."},
    {.key = "gate",
     .type = OPTION_OWN,
     .list = LIST_LINES,
     .parse = parse_gate,
     .words = "NAME: PART, PART …",
     FIELD(gate_lines),
     .sentence = "A gate, as in backwall: after interface, start 2 us, width 20 us, level 0.1 V, "
                 "flank, alarm absent. Parts: start, width, level (an amplitude, dB, or % of full "
                 "scale), after (start counts from that gate's echo), peak, flank or j-flank (what "
                 "is timed: the highest, the first crossing; j-flank also takes the height of the "
                 "first echo), gap (of a first echo), alarm present or absent."},
    {.key = "sound velocity",
     .type = OPTION_VELOCITY,
     .minimum = 1,
     .maximum = 1e5,
     .fallback_words = "no paths",
     FIELD(velocity),
     .sentence = "Velocity of sound v; the path is v t / 2."},
    {.key = "probe delay",
     .type = OPTION_TIME,
     .maximum = 1,
     .fallback = "0 ns",
     FIELD(probe_ns),
     .sentence = "Time that the pulse spends in the probe, both ways, which no path counts."},
    {.key = "probe separation",
     .type = OPTION_LENGTH,
     .minimum = 0,
     .above_minimum = true,
     .maximum = 100,
     .fallback_words = "no depths",
     FIELD(separation_m),
     .sentence = "Distance 2 S between the index points of two probes (time-of-flight diffraction, "
                 "ISO 16828): the depth is sqrt((v t / 2)^2 - S^2)."},
    {.key = "thickness",
     .type = OPTION_NAME,
     .list = LIST_COMMA,
     .words = "gates",
     .fallback_words = "none",
     FIELD(thickness_names),
     .sentence = "The gate, or the two gates, whose echoes give the thickness: v t / 2, or "
                 "v (t2 - t1) / 2."},
};

/* ---- check ------------------------------------------------------------------------------- */

uint64_t ascan_first(const struct analysis_options *options)
{
    const struct ascan_options *own = options->own;
    const double delay = options->stream.aligned ? 0 : options->stream.delay_frames;
    return (uint64_t)fmax(0, round(ascan_zero(own, delay) + (double)own->from_frames));
}

uint64_t ascan_unsettled(const struct analysis_options *options)
{
    const struct ascan_options *own = options->own;
    const uint64_t first = ascan_first(options), taps = options->stream.taps_longest;
    return own->period_frames == 0 && first + 1 < taps ? taps - 1 - first : 0;
}

double ascan_gain_at(const struct ascan_options *own, double time_s)
{
    const struct ascan_gain *points = own->gains;
    uint32_t next = 0;
    if (own->gain_count == 0)
        return 1;
    while (next < own->gain_count && points[next].time_s <= time_s)
        next++;
    double db = points[next > 0 ? next - 1 : 0].db;
    if (next > 0 && next < own->gain_count) {
        const struct ascan_gain *a = &points[next - 1], *b = &points[next];
        db = a->db + (b->db - a->db) * (time_s - a->time_s) / (b->time_s - a->time_s);
    }
    return (double)powl(10.0L, db / 20.0L);
}

/* Only whole frames stay in step with the pulses. */
static void check_period(const struct option_check *check, struct analysis_options *options)
{
    struct ascan_options *own = options->own;
    const struct analysis_stream *stream = &options->stream;
    const struct option_value *written = own->period_written;
    double frames = stream->excited ? stream->excitation_period_frames : 0;
    if (written != NULL)
        frames = written->dimension == DIMENSION_TIME ? written->number * stream->rate_hz
                                                      : (double)written->integer;
    own->period_frames = (uint64_t)nearbyint(frames);
    if (fabs(frames - nearbyint(frames)) > 1e-6 || (written != NULL && !(frames >= 1)))
        option_error(check, "period",
                     "a period of %.10g frames is no whole number of them, so pulses and averages "
                     "would drift apart; choose rate and period so that it is one",
                     frames);
    if (own->period_frames == 0 && !stream->records)
        option_error(check, "period",
                     "stream %s has no records: write `period`, the frames from one pulse to the "
                     "next, or set its `mode = record`",
                     stream->name);
}

static void check_window(const struct option_check *check, struct analysis_options *options)
{
    struct ascan_options *own = options->own;
    const struct analysis_stream *stream = &options->stream;
    uint64_t range = 2;
    own->start_frames = stream->excited ? stream->excitation_frame : 0;
    if (own->start_written != NULL)
        own->start_frames = own->start_written->number *
                            (own->start_written->dimension == DIMENSION_TIME ? stream->rate_hz : 1);
    option_frames(check, &ascan_option_rows[ROW_FROM], own->from_written, stream->rate_hz,
                  &own->from_frames);
    if (own->range_written != NULL && !option_frames(check, &ascan_option_rows[ROW_RANGE],
                                                     own->range_written, stream->rate_hz, &range))
        range = 2;
    own->range_frames = (uint32_t)range;
    if (own->period_frames > 0 && range > own->period_frames)
        option_error(check, "range",
                     "the A-scan of %llu frames is longer than the period of %llu; write a shorter "
                     "`range`",
                     (unsigned long long)range, (unsigned long long)own->period_frames);
}

static int gate_index(const struct ascan_options *own, uint32_t count, const char *name)
{
    for (uint32_t g = 0; g < count; g++)
        if (strcmp(own->lines[g].name, name) == 0)
            return (int)g;
    return -1;
}

static void check_gate(const struct option_check *check, struct analysis_options *options,
                       uint32_t index)
{
    struct ascan_options *own = options->own;
    const struct gate_line *line = &own->lines[index];
    const double rate = options->stream.rate_hz;
    struct gate *gate = &own->gates[index];
    *gate = (struct gate){.after = -1,
                          .start = line->start_s * rate,
                          .width = line->width_s * rate,
                          .gap = (uint32_t)fmin(round(line->gap_s * rate), UINT32_MAX / 2),
                          .measure = line->measure,
                          .alarm_absent = line->alarm_absent};
    if (gate_index(own, index, line->name) >= 0)
        option_error(check, "gate", "two gates are called %s; write another name for one of them",
                     line->name);
    if (line->after[0] != '\0') {
        gate->after = gate_index(own, index, line->after);
        if (gate->after < 0)
            option_error(check, "gate",
                         "gate %s starts after gate %s, which is none of those written before it; "
                         "write that one first",
                         line->name, line->after);
    } else if (gate->start + gate->width <= (double)own->from_frames ||
               gate->start >= (double)own->from_frames + own->range_frames) {
        option_error(check, "gate", "gate %s lies outside the A-scan; move it, or widen `range`",
                     line->name);
    }
    for (uint32_t c = 0; c < options->stream.channels; c++) {
        const struct level_scale scale = analysis_scale(&options->stream, c);
        double level;
        if (!gate_level(check, line, &scale, &level) ||
            level_warn(check, "gate", "level", line->level, level, &scale))
            break;
    }
}

static void check_gates(const struct option_check *check, struct analysis_options *options)
{
    struct ascan_options *own = options->own;
    if (own->gate_lines.count > ASCAN_GATES_MAX)
        option_error(check, "gate", "%u gates are too many; write at most %d",
                     own->gate_lines.count, ASCAN_GATES_MAX);
    while (own->gate_count < own->gate_lines.count && own->gate_count < ASCAN_GATES_MAX) {
        struct problem problem;
        const uint32_t index = own->gate_count++;
        gate_parse(own->gate_lines.values[index].text, &own->lines[index], &problem);
        check_gate(check, options, index);
    }
}

static void check_gains(const struct option_check *check, struct ascan_options *own)
{
    if (own->gain_points.count > ASCAN_GAINS_MAX)
        option_error(check, "tcg", "%u points are too many; write at most %d",
                     own->gain_points.count, ASCAN_GAINS_MAX);
    for (; own->gain_count < own->gain_points.count && own->gain_count < ASCAN_GAINS_MAX;
         own->gain_count++) {
        const struct option_value *point = &own->gain_points.values[own->gain_count];
        struct ascan_gain *gain = &own->gains[own->gain_count];
        *gain = (struct ascan_gain){(double)point->integer * 1e-9, point->number};
        if (own->gain_count > 0 && !(gain[-1].time_s < gain->time_s))
            option_error(check, "tcg",
                         "`%s` is not later than the point before it; write the points in order",
                         point->text);
    }
}

static void check_thickness(const struct option_check *check, struct ascan_options *own)
{
    const uint32_t count = own->thickness_names.count;
    own->thickness[0] = own->thickness[1] = -1;
    if (count > 2)
        option_error(check, "thickness", "%u gates are too many; write one or two", count);
    for (uint32_t i = 0; i < count && i < 2; i++) {
        const char *name = own->thickness_names.values[i].text;
        const int gate = gate_index(own, own->gate_count, name);
        own->thickness[count == 1 ? 1 : i] = gate;
        if (gate < 0)
            option_error(check, "thickness", "there is no gate %s; write the name of one", name);
    }
    const char *needs = count > 0 ? "thickness" : own->separation_m > 0 ? "probe separation" : NULL;
    if (needs != NULL && !(own->velocity > 0))
        option_error(check, needs,
                     "`%s` needs the velocity of sound; write `sound velocity`, as in "
                     "sound velocity = 5920 m/s",
                     needs);
}

void ascan_options_check(const struct option_check *check, struct analysis_options *options)
{
    struct ascan_options *own = options->own;
    own->gate_count = own->gain_count = 0;
    check_period(check, options);
    check_window(check, options);
    check_gates(check, options);
    check_gains(check, own);
    check_thickness(check, own);
    if (own->golay && options->stream.channels % 2 != 0)
        option_error(check, "golay",
                     "stream %s has %u channels, which are no pairs; let each input go through the "
                     "filters of both codes",
                     options->stream.name, options->stream.channels);
    if (options->stream.envelope && own->averages > 1)
        option_warning(check, "averages",
                       "stream %s gives an envelope, whose noise has a mean that no average takes "
                       "away; average a stream with `output = real`",
                       options->stream.name);
    own->field_count = ascan_fields(own->fields, own->gate_count);
}

/* ---- report ------------------------------------------------------------------------------ */

void ascan_options_report(const struct analysis_options *options, FILE *out)
{
    static const char *const measures[] = {"peak", "flank", "j-flank"};
    const struct ascan_options *own = options->own;
    const double rate = options->stream.rate_hz;
    const uint64_t shots = ascan_shots(own);
    char first[40], length[40], each[40];
    fprintf(out, "A-scans from %s on, %s (%u frames)",
            quantity_print(DIMENSION_TIME, (double)own->from_frames / rate, first, sizeof first),
            quantity_print(DIMENSION_TIME, own->range_frames / rate, length, sizeof length),
            own->range_frames);
    if (own->period_frames > 0)
        fprintf(out, ", one result in %s\n",
                quantity_print(DIMENSION_TIME, (double)own->period_frames / rate * (double)shots,
                               each, sizeof each));
    else
        fprintf(out, ", one result in %llu record%s\n", (unsigned long long)shots,
                shots > 1 ? "s" : "");
    if (ascan_unsettled(options) > 0)
        fprintf(
            out,
            "%19sno A-scans: the filter of %u taps settles %llu frames behind the start of every "
            "A-scan;\n%19swrite `from` so much later, or let records begin so much earlier\n",
            "", options->stream.taps_longest, (unsigned long long)ascan_unsettled(options), "");
    if (own->averages > 1)
        fprintf(out, "%19saverages of %u shots%s: noise %.1f dB lower\n", "", own->averages,
                own->golay ? " of each code" : "", 10 * log10(own->averages));
    for (uint32_t g = 0; g < own->gate_count; g++) {
        const struct gate_line *line = &own->lines[g];
        fprintf(out, "%19sgate %s: %s + %s", "", line->name,
                quantity_print(DIMENSION_TIME, line->start_s, first, sizeof first),
                quantity_print(DIMENSION_TIME, line->width_s, length, sizeof length));
        if (line->after[0] != '\0')
            fprintf(out, " after %s", line->after);
        fprintf(out, ", %s above %s", measures[line->measure], line->level);
        if (own->velocity > 0)
            fprintf(out, ", a frame is %s",
                    quantity_print(DIMENSION_LENGTH, own->velocity / rate / 2, each, sizeof each));
        fputc('\n', out);
    }
}

static json_t *describe_gate(const struct analysis_options *options, const struct gate_line *line,
                             const struct gate *gate)
{
    static const char *const measures[] = {"peak", "flank", "j-flank"};
    json_t *object = json_object(), *levels = json_array();
    json_object_set_new(object, "name", json_string(line->name));
    json_object_set_new(object, "start_us", json_real(line->start_s * 1e6));
    json_object_set_new(object, "width_us", json_real(line->width_s * 1e6));
    /* The gate, from 1, from whose echo the start counts. */
    json_object_set_new(object, "after",
                        gate->after < 0 ? json_null() : json_integer(gate->after + 1));
    json_object_set_new(object, "measure", json_string(measures[line->measure]));
    json_object_set_new(object, "alarm", json_string(line->alarm_absent ? "absent" : "present"));
    for (uint32_t c = 0; c < options->stream.channels; c++) {
        const struct level_scale scale = analysis_scale(&options->stream, c);
        double level;
        const bool known = gate_level(NULL, line, &scale, &level);
        json_array_append_new(levels, known ? json_real(level) : json_null());
    }
    json_object_set_new(object, "levels", levels);
    return object;
}

struct json_t *ascan_options_describe(const struct analysis_options *options)
{
    const struct ascan_options *own = options->own;
    json_t *object = json_object(), *gates = json_array();
    for (uint32_t g = 0; g < own->gate_count; g++)
        json_array_append_new(gates, describe_gate(options, &own->lines[g], &own->gates[g]));
    json_object_set_new(object, "gates", gates);
    json_object_set_new(object, "averages", json_integer(own->averages));
    json_object_set_new(object, "golay", json_boolean(own->golay));
    json_object_set_new(object, "velocity_m_s",
                        own->velocity > 0 ? json_real(own->velocity) : json_null());
    return object;
}
