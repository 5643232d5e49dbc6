/*
 * Analysis `sensor-test`: the pulse-through check of sensors (ASTM E2374). Sensors pulse in turn,
 * and what the other channels hear of a pulse within `answers within` are its answers. Each pulse
 * gives one event for every other channel: a table of amplitudes per pair, whose changes tell of a
 * sensor that comes off.
 *
 * What is a pulse:
 *  - a hit that is as loud as only a sensor hears its own pulse (`pulse above`);
 *  - the first hit of channel N behind a mark "pulse N", or of any channel behind "pulse";
 *  - each shot of the stream's excitation, where `pulsers` says which channels it drives in turn.
 * While a pulse is open, hits are its answers; shots close it.
 *
 * The events of a pulse come when no answer can follow, in the order of channels.
 */
#include <assert.h>
#include <jansson.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "analysis/analyses.h"
#include "analysis/coupling.h"
#include "analysis/event_head.h"
#include "analysis/hit.h"
#include "core/level.h"
#include "core/quantity.h"

enum { CHANNELS_MAX = 256 };

struct sensor_test_options {
    struct option_values levels; /* one for all channels, or one each; none: no hit is loud */
    struct option_values pulsers;
    const struct option_value *max_dt, *marked;
    uint64_t max_dt_frames, marked_frames; /* set by the check */
};

/* One pulser's pulses as one receiver heard them. */
struct pair {
    uint64_t pulses, answers;
    double sum_db, least_db, most_db;
};

struct answer {
    bool heard;
    double peak_db, arrival_frames; /* after the pulse's first frame */
};

/* A pulse that somebody has announced. */
struct announced {
    bool any;
    uint64_t epoch, frame; /* of the mark */
};

struct analysis {
    const struct analysis_options *options;
    const struct sensor_test_options *own;
    uint32_t channels;
    double *levels;          /* [channels], in the channel's unit; INFINITY: none */
    struct pair *pairs;      /* [pulsers][receivers] */
    struct answer *answers;  /* [channels], of the open pulse */
    struct announced *marks; /* [channels + 1], the last one of any channel */
    bool open;
    struct analysis_event pulse; /* points to nothing */
    bool follows;                /* an epoch has begun, with shots: */
    struct analysis_event head;  /* its latest event, before it its first live frame */
    struct analysis_event date;  /* the latest frame of it whose time is known */
    uint64_t shot;               /* the next one */
    struct analysis_ledger ledger;
};

/* ---- events ------------------------------------------------------------------------------ */

static void emit(struct analysis *a, uint32_t receiver)
{
    struct pair *pair = &a->pairs[(size_t)a->pulse.channel * a->channels + receiver];
    const struct answer *answer = &a->answers[receiver];
    const double before = pair->answers > 0 ? pair->sum_db / (double)pair->answers : NAN;
    pair->pulses++;
    if (answer->heard) {
        pair->least_db =
            pair->answers > 0 ? fmin(pair->least_db, answer->peak_db) : answer->peak_db;
        pair->most_db = pair->answers > 0 ? fmax(pair->most_db, answer->peak_db) : answer->peak_db;
        pair->sum_db += answer->peak_db;
        pair->answers++;
    }
    const bool any = pair->answers > 0;
    const double us = 1e6 / a->options->stream.rate_hz;
    const double pulse_arrival = a->answers[a->pulse.channel].arrival_frames;
    const struct coupling coupling = {
        .pulser = a->pulse.channel + 1,
        .peak_db = answer->heard ? answer->peak_db : NAN,
        .delay_us = answer->heard ? (answer->arrival_frames - pulse_arrival) * us : NAN,
        .mean_db = any ? pair->sum_db / (double)pair->answers : NAN,
        .least_db = any ? pair->least_db : NAN,
        .most_db = any ? pair->most_db : NAN,
        .change_db = answer->heard ? answer->peak_db - before : NAN,
        .pulses = pair->pulses,
        .answers = pair->answers,
    };
    struct analysis_event event = a->pulse;
    event.kind = ANALYSIS_COUPLING;
    event.ordered = true;
    event.number = ++a->ledger.events[ANALYSIS_COUPLING];
    event.channel = receiver;
    event.flags |= ANALYSIS_PULSE;
    event.body = &coupling;
    event.body_bytes = sizeof coupling;
    a->options->emit(a->options->context, &event);
}

static void close_pulse(struct analysis *a)
{
    for (uint32_t c = 0; a->open && c < a->channels; c++)
        if (c != a->pulse.channel)
            emit(a, c);
    a->open = false;
}

/* ---- pulses ------------------------------------------------------------------------------ */

static void begin_pulse(struct analysis *a, const struct analysis_event *head)
{
    a->open = true;
    a->pulse = *head;
    for (uint32_t c = 0; c < a->channels; c++)
        a->answers[c] = (struct answer){0};
}

/* Whether it is the hit that a mark has announced, which it spends. */
static bool is_announced(const struct analysis *a, struct announced *mark,
                         const struct analysis_event *event)
{
    if (!mark->any || event->epoch < mark->epoch ||
        (event->epoch == mark->epoch && event->frame < mark->frame))
        return false;
    mark->any = false;
    /* Between two epochs time is not counted. */
    const uint64_t age = event->epoch == mark->epoch ? event->frame - mark->frame : event->frame;
    return age <= a->own->marked_frames;
}

static bool is_pulse(struct analysis *a, const struct analysis_event *event, const struct hit *hit)
{
    const bool of_channel = is_announced(a, &a->marks[event->channel], event);
    return of_channel || is_announced(a, &a->marks[a->channels], event) ||
           hit->amplitude >= a->levels[event->channel];
}

static void sensor_test_mark(struct analysis *a, uint64_t epoch, uint64_t frame, const char *text)
{
    unsigned channel;
    char more;
    const int numbers = sscanf(text, "pulse %u %c", &channel, &more);
    uint32_t at = a->channels;
    if (numbers == 1 && channel >= 1 && channel <= a->channels)
        at = channel - 1;
    else if (strcmp(text, "pulse") != 0)
        return;
    a->marks[at] = (struct announced){true, epoch, frame};
}

/* ---- shots of the excitation ------------------------------------------------------------- */

static bool has_shots(const struct analysis *a)
{
    return a->own->pulsers.count > 0 && a->options->stream.excited;
}

/* The frame of a shot, with its fraction. */
static double shot_at(const struct analysis *a, uint64_t shot)
{
    const struct analysis_stream *stream = &a->options->stream;
    return stream->excitation_frame + (stream->aligned ? 0 : stream->delay_frames) +
           (double)shot * stream->excitation_period_frames;
}

/* The channel that it drives: in turn, from record to record where each has one shot. */
static uint32_t pulser_of(const struct analysis *a, uint64_t shot)
{
    const uint64_t turn = a->options->stream.excitation_period_frames > 0 ? shot : a->head.record;
    return (uint32_t)a->own->pulsers.values[turn % a->own->pulsers.count].integer - 1;
}

static void shoot(struct analysis *a)
{
    const double at = shot_at(a, a->shot);
    const uint64_t frame = (uint64_t)fmax(nearbyint(at), 0);
    struct analysis_event pulse = a->head;
    const double frames = (double)frame - (double)a->date.frame;
    const int64_t later_ns = (int64_t)llround(frames * 1e9 / a->options->stream.rate_hz);
    pulse.frame = frame;
    pulse.capture_ns = a->date.capture_ns + later_ns;
    pulse.arrival_ns = a->date.arrival_ns + later_ns;
    pulse.clock = a->date.clock;
    pulse.clock_error_ns = a->date.clock_error_ns;
    pulse.flags &= ANALYSIS_NO_PARAMETER;
    pulse.causes = 0;
    pulse.channel = pulser_of(a, a->shot);
    close_pulse(a);
    begin_pulse(a, &pulse);
    a->answers[pulse.channel] =
        (struct answer){.heard = true, .peak_db = NAN, .arrival_frames = at - (double)frame};
    a->shot++;
}

/* Whether the next shot comes at this frame or before; where there is no period, each epoch has
 * one.
 */
static bool shot_is_due(const struct analysis *a, uint64_t frame)
{
    const bool once = a->options->stream.excitation_period_frames <= 0;
    return has_shots(a) && !(once && a->shot > 0) &&
           nearbyint(shot_at(a, a->shot)) <= (double)frame;
}

/* Shots up to a frame of the epoch of `head`. */
static void shoot_until(struct analysis *a, uint64_t frame)
{
    while (shot_is_due(a, frame))
        shoot(a);
}

/* Before an event is looked at, and at the first live frame of an epoch. What comes first says when
 * the epoch was; with it begin the shots, those before it being over. */
static void follow(struct analysis *a, const struct analysis_event *event)
{
    const double period = a->options->stream.excitation_period_frames;
    if (!has_shots(a))
        return;
    const bool begins = !a->follows || a->head.epoch != event->epoch;
    if (begins) {
        const double since = (double)event->frame - (double)a->own->max_dt_frames - shot_at(a, 0);
        a->shot = since <= 0 ? 0 : period > 0 ? (uint64_t)ceil(since / period) : 1;
    }
    a->follows = true;
    a->head = event_head(event);
    if (begins || event->frame > a->date.frame)
        a->date = a->head;
    shoot_until(a, event->frame);
}

static void sensor_test_live(struct analysis *a, const struct analysis_event *head)
{
    if (a->open && head->epoch != a->pulse.epoch)
        close_pulse(a);
    if (!a->follows || a->head.epoch != head->epoch)
        follow(a, head);
    a->date = *head;
}

/* ---- hits -------------------------------------------------------------------------------- */

static void hear(struct analysis *a, const struct analysis_event *event, const struct hit *hit)
{
    a->answers[event->channel] = (struct answer){
        .heard = true,
        .peak_db = hit->peak_db,
        .arrival_frames = (double)(event->frame - a->pulse.frame) +
                          (isnan(hit->pick_frames) ? 0 : hit->pick_frames),
    };
}

static void open_pulse(struct analysis *a, const struct analysis_event *event,
                       const struct hit *hit)
{
    const struct analysis_event head = event_head(event);
    begin_pulse(a, &head);
    hear(a, event, hit);
}

static void sensor_test_put_event(struct analysis *a, const struct analysis_event *event)
{
    assert(event->kind == ANALYSIS_HIT && event->body_bytes >= sizeof(struct hit));
    const struct hit *hit = event->body;
    if (a->open &&
        (event->epoch != a->pulse.epoch || event->frame - a->pulse.frame > a->own->max_dt_frames))
        close_pulse(a);
    follow(a, event);
    if (a->open && !a->answers[event->channel].heard)
        hear(a, event, hit);
    else if (!a->open && is_pulse(a, event, hit))
        open_pulse(a, event, hit);
    else
        a->ledger.unused++;
}

static void sensor_test_advance(struct analysis *a, uint64_t epoch, uint64_t frame)
{
    if (a->open && (epoch != a->pulse.epoch || frame == UINT64_MAX ||
                    frame > a->pulse.frame + a->own->max_dt_frames))
        close_pulse(a);
    if (a->follows && epoch == a->head.epoch && frame != UINT64_MAX && frame > 0)
        shoot_until(a, frame - 1);
    const bool undated = has_shots(a) && !(a->follows && epoch == a->head.epoch);
    uint64_t told = frame;
    if (a->open && a->pulse.frame < frame)
        told = a->pulse.frame;
    else if (undated && frame != UINT64_MAX)
        told = frame > a->own->max_dt_frames ? frame - a->own->max_dt_frames : 0;
    if (a->options->advance != NULL)
        a->options->advance(a->options->context, epoch, told);
}

/* ---- state and life ---------------------------------------------------------------------- */

enum { STATE_VERSION = 3 };

static bool sensor_test_walk(struct analysis *a, struct codec *codec)
{
    uint32_t version = STATE_VERSION, channels = a->channels;
    codec_u32(codec, &version);
    codec_u32(codec, &channels);
    if (version != STATE_VERSION || channels != a->channels)
        return false;
    codec_bool(codec, &a->open);
    if (!event_head_walk(&a->pulse, codec) || a->pulse.channel >= a->channels)
        return false;
    codec_bool(codec, &a->follows);
    codec_u64(codec, &a->shot);
    if (!event_head_walk(&a->date, codec) || !event_head_walk(&a->head, codec) ||
        (a->follows && shot_is_due(a, a->head.frame)))
        return false;
    for (uint32_t c = 0; c <= a->channels; c++) {
        codec_bool(codec, &a->marks[c].any);
        codec_u64(codec, &a->marks[c].epoch);
        codec_u64(codec, &a->marks[c].frame);
    }
    for (uint32_t c = 0; c < a->channels; c++) {
        codec_bool(codec, &a->answers[c].heard);
        codec_f64(codec, &a->answers[c].peak_db);
        codec_f64(codec, &a->answers[c].arrival_frames);
    }
    for (size_t i = 0; i < (size_t)a->channels * a->channels; i++) {
        codec_u64(codec, &a->pairs[i].pulses);
        codec_u64(codec, &a->pairs[i].answers);
        codec_f64(codec, &a->pairs[i].sum_db);
        codec_f64(codec, &a->pairs[i].least_db);
        codec_f64(codec, &a->pairs[i].most_db);
    }
    codec_u64(codec, &a->ledger.events[ANALYSIS_COUPLING]);
    codec_u64(codec, &a->ledger.unused);
    return !codec->failed;
}

static void sensor_test_ledger(const struct analysis *a, struct analysis_ledger *ledger)
{
    *ledger = a->ledger;
}

static void sensor_test_close(struct analysis *a)
{
    if (a == NULL)
        return;
    free(a->levels);
    free(a->pairs);
    free(a->answers);
    free(a->marks);
    free(a);
}

static const struct option_value *level_of(const struct sensor_test_options *own, uint32_t channel)
{
    return &own->levels.values[own->levels.count > 1 ? channel : 0];
}

static bool pulse_level(const struct option_check *check, const struct analysis_options *options,
                        uint32_t channel, double *out)
{
    const struct level_scale scale = analysis_scale(&options->stream, channel);
    return level_amplitude(check, "pulse above", level_of(options->own, channel), &scale, out);
}

static int sensor_test_open(const struct analysis_options *options, struct analysis **out,
                            struct problem *problem)
{
    const uint32_t channels = options->stream.channels;
    struct analysis *a = calloc(1, sizeof *a);
    if (a == NULL)
        goto no_memory;
    a->options = options;
    a->own = options->own;
    a->channels = channels;
    a->levels = calloc(channels, sizeof *a->levels);
    a->pairs = calloc((size_t)channels * channels, sizeof *a->pairs);
    a->answers = calloc(channels, sizeof *a->answers);
    a->marks = calloc(channels + 1, sizeof *a->marks);
    if (a->levels == NULL || a->pairs == NULL || a->answers == NULL || a->marks == NULL)
        goto no_memory;
    for (uint32_t c = 0; c < channels; c++) {
        a->levels[c] = INFINITY;
        if (a->own->levels.count > 0)
            pulse_level(NULL, options, c, &a->levels[c]);
    }
    *out = a;
    return 0;

no_memory:
    sensor_test_close(a);
    return problem_set(problem, ERROR_MEMORY, "analysis %s: out of memory", options->name);
}

static uint64_t sensor_test_memory(const struct analysis_options *options)
{
    const uint64_t channels = options->stream.channels;
    return sizeof(struct analysis) + channels * (sizeof(double) + sizeof(struct answer)) +
           (channels + 1) * sizeof(struct announced) + channels * channels * sizeof(struct pair);
}

/* ---- options ----------------------------------------------------------------------------- */

#define FIELD(member) OPTION_FIELD(struct sensor_test_options, member)

enum { ROW_ANSWERS, ROW_MARKED, ROW_LEVELS, ROW_PULSERS, ROWS };

static const struct option_row rows[ROWS] = {
    [ROW_ANSWERS] = {.key = "answers within",
                     .type = OPTION_SPAN,
                     .minimum = 1,
                     .maximum = 1e12,
                     .fallback_words = "10 ms, at least a frame",
                     FIELD(max_dt),
                     .sentence = "Time after a pulse in which other channels answer it; the next "
                                 "pulse comes later."},
    [ROW_LEVELS] =
        {.key = "pulse above",
         .type = OPTION_OWN,
         .list = LIST_CHANNEL,
         .parse = level_parse,
         .words = LEVEL_WORDS,
         .fallback_words = "no hit is a pulse for its amplitude alone",
         FIELD(levels),
         .sentence =
             "A hit so loud is a pulse of the channel's own sensor; one for all channels or "
             "one each."},
    [ROW_PULSERS] =
        {.key = "pulsers",
         .type = OPTION_COUNT,
         .list = LIST_COMMA,
         .minimum = 1,
         .maximum = CHANNELS_MAX,
         .fallback_words = "the stream's excitation drives no sensor",
         FIELD(pulsers),
         .sentence =
             "The channels whose sensors the stream's excitation drives in turn, one a shot: "
             "each shot is a pulse."},
    [ROW_MARKED] = {.key = "marked within",
                    .type = OPTION_SPAN,
                    .minimum = 1,
                    .maximum = 1e12,
                    .fallback_words = "10 s, at least a frame",
                    FIELD(marked),
                    .sentence = "Time behind a mark \"pulse N\" within which the first hit of "
                                "channel N is its pulse; \"pulse\" alone means any channel."},
};

static void check_pulsers(const struct option_check *check, const struct analysis_options *options)
{
    const struct sensor_test_options *own = options->own;
    const struct analysis_stream *stream = &options->stream;
    const double period = stream->excitation_period_frames;
    for (unsigned i = 0; i < own->pulsers.count; i++)
        if ((uint64_t)own->pulsers.values[i].integer > stream->channels)
            option_error(check, "pulsers", "stream %s has no channel %llu", stream->name,
                         (unsigned long long)own->pulsers.values[i].integer);
    if (own->pulsers.count > 0 && !stream->excited)
        option_warning(check, "pulsers",
                       "stream %s says nothing of pulses, so `pulsers` has no effect; write its "
                       "`excitation`",
                       stream->name);
    if (own->pulsers.count > 0 && period > 0 && (double)own->max_dt_frames >= period)
        option_error(check, "answers within",
                     "pulses come every %.10g frames, and their answers within %llu; write less",
                     period, (unsigned long long)own->max_dt_frames);
}

static void sensor_test_check(const struct option_check *check, struct analysis_options *options)
{
    struct sensor_test_options *own = options->own;
    const struct analysis_stream *stream = &options->stream;
    own->max_dt_frames = (uint64_t)fmax(1, nearbyint(10e-3 * stream->rate_hz));
    if (own->max_dt != NULL)
        option_frames(check, &rows[ROW_ANSWERS], own->max_dt, stream->rate_hz, &own->max_dt_frames);
    own->marked_frames = (uint64_t)fmax(1, nearbyint(10 * stream->rate_hz));
    if (own->marked != NULL)
        option_frames(check, &rows[ROW_MARKED], own->marked, stream->rate_hz, &own->marked_frames);
    check_pulsers(check, options);
    if (stream->channels < 2 || stream->channels > CHANNELS_MAX)
        option_error(check, NULL, "stream %s has %u channel%s; a pulse-through check needs 2 to %d",
                     stream->name, stream->channels, stream->channels == 1 ? "" : "s",
                     CHANNELS_MAX);
    for (uint32_t c = 0; own->levels.count > 0 && c < stream->channels; c++) {
        const struct level_scale scale = analysis_scale(stream, c);
        double level;
        if (!pulse_level(check, options, c, &level) ||
            level_warn(check, "pulse above", "pulse above =", level_of(own, c)->text, level,
                       &scale))
            break;
    }
}

static void sensor_test_report(const struct analysis_options *options, FILE *out)
{
    const struct sensor_test_options *own = options->own;
    const double seconds = (double)own->max_dt_frames / options->stream.rate_hz;
    double level = 0;
    char text[40];
    fprintf(out, "pulses ");
    if (own->levels.count > 0) {
        pulse_level(NULL, options, 0, &level);
        fprintf(out, "from %.4g %s, ", level, options->stream.units[0]);
    }
    fprintf(out, "that are marked%s, answers within %s, %u pairs of channels\n",
            own->pulsers.count > 0 ? " or of the excitation" : "",
            quantity_print(DIMENSION_TIME, seconds, text, sizeof text),
            options->stream.channels * (options->stream.channels - 1));
}

static struct json_t *sensor_test_describe(const struct analysis_options *options)
{
    const struct sensor_test_options *own = options->own;
    json_t *levels = json_array(), *pulsers = json_array();
    for (unsigned i = 0; i < own->pulsers.count; i++)
        json_array_append_new(pulsers, json_integer(own->pulsers.values[i].integer));
    for (uint32_t c = 0; own->levels.count > 0 && c < options->stream.channels; c++) {
        double level = 0; /* proven by the check */
        pulse_level(NULL, options, c, &level);
        json_array_append_new(levels, json_real(level));
    }
    return json_pack("{s:o, s:o, s:I, s:I}", "pulse_above", levels, "pulsers", pulsers,
                     "answers_within_frames", (json_int_t)own->max_dt_frames,
                     "marked_within_frames", (json_int_t)own->marked_frames);
}

static const struct analysis_field *sensor_test_fields(const struct analysis_options *options,
                                                       uint32_t *count)
{
    (void)options;
    return coupling_fields(count);
}

const struct analysis_ops analysis_sensor_test = {
    .name = "sensor-test",
    .sentence = "pulse-through check: how loud each sensor hears the pulses of the others",
    .of_events = true,
    .takes = ANALYSIS_HIT,
    .emits = ANALYSIS_COUPLING,
    .options = rows,
    .option_count = ROWS,
    .options_bytes = sizeof(struct sensor_test_options),
    .check = sensor_test_check,
    .report = sensor_test_report,
    .describe = sensor_test_describe,
    .memory = sensor_test_memory,
    .fields = sensor_test_fields,
    .open = sensor_test_open,
    .put_event = sensor_test_put_event,
    .advance = sensor_test_advance,
    .live = sensor_test_live,
    .mark = sensor_test_mark,
    .ledger = sensor_test_ledger,
    .walk = sensor_test_walk,
    .close = sensor_test_close,
};
