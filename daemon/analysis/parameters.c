/* Parameters: see parameters.h. */
#include "analysis/parameters.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* ---- options ------------------------------------------------------------------------------- */

bool parameter_parse(const char *text, struct parameter *out)
{
    unsigned number;
    char rest, sign[2];
    *out = (struct parameter){0};
    const int read =
        sscanf(text, "%31[a-z0-9_] %u of %127s %c", out->name, &number, out->stream, &rest);
    if (out->name[0] < 'a' || (read != 3 && (read != 2 || sscanf(text, "%*s %*u %c", &rest) == 1)))
        return false;
    if (number == 0 || number > UINT16_MAX || sscanf(text, "%*s %1[-]", sign) == 1)
        return false;
    out->channel = number - 1;
    return true;
}

int parameter_option(const struct option_row *row, const char *text, struct option_value *value,
                     struct problem *problem)
{
    struct parameter parameter;
    (void)value;
    if (parameter_parse(text, &parameter))
        return 0;
    return problem_set(
        problem, ERROR_CONFIG,
        "`%s = %.*s` is no parameter; write its name in small letters, digits and _, and the "
        "channel that carries it, as in load 5, or load 5 of press for one of stream press",
        row->key, OPTION_QUOTE, text);
}

/* ---- values -------------------------------------------------------------------------------- */

struct place {
    uint64_t epoch, frame;
};

struct parameter_track {
    const struct analysis_options *options;
    uint64_t step; /* frames */
    uint32_t parameters;
    struct place *places; /* [PARAMETER_STEPS], in order; used: [first, first + count) */
    float *values;        /* [PARAMETER_STEPS][parameters] */
    uint32_t first, count;
};

static const double steps_hz = 1000;

/* What is not used any more is moved over once it is that much, and more than what is used. */
enum { UNUSED_MOST = 1024 };

static bool is_own(const struct analysis_options *options, uint32_t parameter)
{
    return options->parameter_streams == NULL || options->parameter_streams[parameter] == NULL;
}

bool parameter_track_wanted(const struct analysis_options *options)
{
    bool wanted = false;
    for (uint32_t i = 0; options->parameter_channels != NULL && i < options->parameter_values; i++)
        wanted = wanted || is_own(options, i);
    return wanted;
}

uint64_t parameter_track_memory(const struct analysis_options *options)
{
    return parameter_track_wanted(options)
               ? PARAMETER_STEPS *
                     (sizeof(struct place) + options->parameter_values * sizeof(float))
               : 0;
}

int parameter_track_open(const struct analysis_options *options, struct parameter_track **out)
{
    struct parameter_track *track = calloc(1, sizeof *track);
    if (track == NULL)
        return ERROR_MEMORY;
    track->options = options;
    track->step = (uint64_t)ceil(options->stream.rate_hz / steps_hz);
    track->step = track->step > 0 ? track->step : 1;
    track->parameters = options->parameter_values;
    track->places = malloc(PARAMETER_STEPS * sizeof *track->places);
    track->values = malloc((size_t)PARAMETER_STEPS * track->parameters * sizeof *track->values);
    if (track->places == NULL || track->values == NULL) {
        parameter_track_close(track);
        return ERROR_MEMORY;
    }
    *out = track;
    return 0;
}

void parameter_track_close(struct parameter_track *track)
{
    if (track == NULL)
        return;
    free(track->places);
    free(track->values);
    free(track);
}

static bool is_before(struct place a, struct place b)
{
    return a.epoch < b.epoch || (a.epoch == b.epoch && a.frame < b.frame);
}

static float *values_at(const struct parameter_track *track, uint32_t at)
{
    return track->values + (size_t)at * track->parameters;
}

static void move_over(struct parameter_track *track)
{
    memmove(track->places, track->places + track->first, track->count * sizeof *track->places);
    memmove(track->values, values_at(track, track->first),
            (size_t)track->count * track->parameters * sizeof *track->values);
    track->first = 0;
}

static void add(struct parameter_track *track, struct place place, const float *frame)
{
    if (track->count == PARAMETER_STEPS) { /* half of them at once: moving one costs as much */
        track->first += PARAMETER_STEPS / 2;
        track->count -= PARAMETER_STEPS / 2;
    }
    if (track->first + track->count == PARAMETER_STEPS)
        move_over(track);
    const uint32_t at = track->first + track->count++;
    track->places[at] = place;
    for (uint32_t i = 0; i < track->parameters; i++)
        values_at(track, at)[i] =
            is_own(track->options, i) ? frame[track->options->parameter_channels[i]] : NAN;
}

static bool is_invalid(const struct analysis_run *run, uint64_t frame)
{
    for (uint32_t i = 0; i < run->invalid_count && run->invalid[i].from <= frame; i++)
        if (frame < run->invalid[i].until)
            return true;
    return false;
}

void parameter_track_put(struct parameter_track *track, const struct analysis_run *run)
{
    const uint64_t end = run->first_frame + run->frames;
    if (run->samples == NULL)
        return;
    for (uint64_t frame = (run->first_frame + track->step - 1) / track->step * track->step;
         frame < end; frame += track->step)
        if (!is_invalid(run, frame))
            add(track, (struct place){run->epoch, frame},
                run->samples + (frame - run->first_frame) * run->channels);
}

/* The first one that is not before `place`; first + count: there is none. */
static uint32_t find(const struct parameter_track *track, struct place place)
{
    uint32_t low = track->first, high = track->first + track->count;
    while (low < high) {
        const uint32_t middle = low + (high - low) / 2;
        if (is_before(track->places[middle], place))
            low = middle + 1;
        else
            high = middle;
    }
    return low;
}

static struct place place_of(const struct parameter_track *track, uint64_t epoch, uint64_t frame)
{
    return (struct place){epoch, frame / track->step * track->step};
}

void parameter_track_forget(struct parameter_track *track, uint64_t epoch, uint64_t frame)
{
    const uint32_t at = find(track, place_of(track, epoch, frame));
    track->count -= at - track->first;
    track->first = at;
    if (track->first >= UNUSED_MOST && track->first >= track->count)
        move_over(track);
}

void parameter_track_stamp(const struct parameter_track *track, struct analysis_event *event)
{
    const struct place place = place_of(track, event->epoch, event->frame);
    const uint32_t at = find(track, place);
    const bool known = at < track->first + track->count && !is_before(place, track->places[at]);
    event->parameter_count = track->parameters;
    for (uint32_t i = 0; i < track->parameters; i++)
        event->parameters[i] = known ? (double)values_at(track, at)[i] : (double)NAN;
    event->flags |= known ? 0 : ANALYSIS_NO_PARAMETER;
}

bool parameter_track_walk(struct parameter_track *track, struct codec *codec)
{
    uint32_t parameters = track->parameters, count = track->count;
    codec_u32(codec, &parameters);
    codec_u32(codec, &count);
    if (codec->failed || parameters != track->parameters || count > PARAMETER_STEPS)
        return false;
    if (codec_reads(codec))
        track->first = track->count = 0;
    for (uint32_t i = 0; i < count && !codec->failed; i++) {
        const uint32_t at = track->first + i;
        codec_u64(codec, &track->places[at].epoch);
        codec_u64(codec, &track->places[at].frame);
        for (uint32_t k = 0; k < track->parameters; k++) {
            double value = codec_reads(codec) ? 0 : (double)values_at(track, at)[k];
            codec_f64(codec, &value);
            values_at(track, at)[k] = (float)value;
        }
        if (i > 0 && !is_before(track->places[at - 1], track->places[at]))
            return false;
    }
    if (codec->failed)
        return false;
    track->count = count;
    return true;
}
