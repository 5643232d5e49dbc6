/* Wants: see want.h. */
#include "want.h"

#include <jansson.h>
#include <math.h>
#include <string.h>

/* ---- values ------------------------------------------------------------------------------ */

/* A number of the object within [least, most]; without the key, or null, the fallback. */
static int read_number(const json_t *object, const char *key, double least, double most,
                       double fallback, double *out, struct problem *problem)
{
    const json_t *value = json_object_get(object, key);
    *out = fallback;
    if (value == NULL || json_is_null(value))
        return 0;
    *out = json_number_value(value);
    if (json_is_number(value) && *out >= least && *out <= most)
        return 0;
    return problem_set(problem, ERROR_ARGUMENT, "%s: write a number from %g to %g", key, least,
                       most);
}

static int read_count(const json_t *object, const char *key, double least, double most,
                      double fallback, uint64_t *out, struct problem *problem)
{
    double value;
    int error = read_number(object, key, least, most, fallback, &value, problem);
    if (error == 0 && value != floor(value))
        error = problem_set(problem, ERROR_ARGUMENT, "%s: write a whole number", key);
    *out = error == 0 ? (uint64_t)value : 0;
    return error;
}

/* One of the names; without the key the first. */
static int read_name(const json_t *object, const char *key, const char *const *names, int count,
                     int *out, struct problem *problem)
{
    const json_t *value = json_object_get(object, key);
    const char *text = json_string_value(value);
    *out = 0;
    if (value == NULL || json_is_null(value))
        return 0;
    for (int i = 0; text != NULL && i < count; i++) {
        if (strcmp(text, names[i]) == 0) {
            *out = i;
            return 0;
        }
    }
    return problem_set(problem, ERROR_ARGUMENT, "%s: not one of the names that the API lists", key);
}

static int read_channels(const json_t *object, struct want *want, struct problem *problem)
{
    const json_t *list = json_object_get(object, "channels"), *value;
    size_t i;
    if (list == NULL || json_is_null(list))
        return 0;
    if (!json_is_array(list) || json_array_size(list) > WANT_CHANNELS_MAX)
        return problem_set(problem, ERROR_ARGUMENT, "channels: write a list of at most %d numbers",
                           WANT_CHANNELS_MAX);
    json_array_foreach(list, i, value)
    {
        const json_int_t channel = json_integer_value(value);
        if (channel < 1 || channel > WANT_CHANNELS_MAX)
            return problem_set(problem, ERROR_ARGUMENT, "channels: numbers from 1 on");
        want->channels[want->channel_count++] = (uint16_t)(channel - 1);
    }
    return 0;
}

/* ---- views ------------------------------------------------------------------------------- */

static const char *const view_names[] = {"none", "envelope", "scope", "ascan", "spectrum", "hits"};

const char *view_name(enum view_kind view)
{
    return view_names[view];
}

static int read_envelope(const json_t *object, struct want *want, struct problem *problem)
{
    uint64_t points;
    int error = read_number(object, "seconds", 0.1, 600, 10, &want->seconds, problem);
    if (error == 0)
        error = read_count(object, "points", 2, WANT_POINTS_MAX, 600, &points, problem);
    want->points = error == 0 ? (uint32_t)points : 0;
    return error;
}

static int read_trigger(const json_t *object, struct want *want, struct problem *problem)
{
    static const char *const modes[] = {"auto", "level", "record", "external"};
    static const char *const slopes[] = {"rising", "falling", "either"};
    int mode = 0, slope = 0;
    uint64_t channel = 1, pretrigger = 0;
    int error = read_name(object, "trigger", modes, 4, &mode, problem);
    if (error == 0)
        error = read_name(object, "slope", slopes, 3, &slope, problem);
    if (error == 0)
        error = read_number(object, "level", -1e30, 1e30, 0, &want->level, problem);
    if (error == 0)
        error = read_count(object, "channel", 1, WANT_CHANNELS_MAX, 1, &channel, problem);
    if (error == 0)
        error = read_count(object, "pretrigger", 0, want->frames - 1.0, 0, &pretrigger, problem);
    if (error == 0)
        error = read_count(object, "frame", 0, 9007199254740992.0, 0, &want->frame, problem);
    want->trigger = (enum trigger_mode)mode;
    want->slope = (enum trigger_slope)slope;
    want->trigger_channel = (uint16_t)(channel - 1);
    want->pretrigger = (uint32_t)pretrigger;
    want->single = json_is_true(json_object_get(object, "single"));
    return error;
}

static int read_scope(const json_t *object, struct want *want, struct problem *problem)
{
    uint64_t frames = 0;
    int error = read_count(object, "frames", 2, WANT_FRAMES_MAX, 2000, &frames, problem);
    want->frames = (uint32_t)frames;
    return error == 0 ? read_trigger(object, want, problem) : error;
}

static int read_ascan(const json_t *object, struct want *want, struct problem *problem)
{
    uint64_t frames = 0, average = 1;
    int error = read_count(object, "frames", 2, WANT_FRAMES_MAX, 1000, &frames, problem);
    want->frames = (uint32_t)frames;
    if (error == 0)
        error = read_count(object, "period", 0, 1e12, 0, &want->period, problem);
    if (error == 0 && want->period != 0 && want->period < want->frames)
        error = problem_set(problem, ERROR_ARGUMENT,
                            "period: %g frames are fewer than the %u of an A-scan",
                            (double)want->period, want->frames);
    if (error == 0)
        error = read_count(object, "average", 1, WANT_AVERAGE_MAX, 1, &average, problem);
    want->average = (uint32_t)average;
    return error;
}

static int read_spectrum(const json_t *object, struct want *want, struct problem *problem)
{
    static const char *const windows[] = {"hann", "rectangular", "blackman-harris", "flat-top"};
    uint64_t fft = 0, average = 1;
    int window = 0;
    int error = read_count(object, "fft", 64, WANT_FFT_MAX, 4096, &fft, problem);
    if (error == 0 && (fft & (fft - 1)) != 0)
        error = problem_set(problem, ERROR_ARGUMENT, "fft: write a power of two");
    if (error == 0)
        error = read_count(object, "average", 1, WANT_AVERAGE_MAX, 16, &average, problem);
    if (error == 0)
        error = read_name(object, "window", windows, 4, &window, problem);
    want->fft = (uint32_t)fft;
    want->average = (uint32_t)average;
    want->window = (enum window)window;
    return error;
}

static int check_channels(const struct want *want, struct problem *problem)
{
    const unsigned most = want->view == VIEW_ENVELOPE   ? WANT_CHANNELS_MAX
                          : want->view == VIEW_SPECTRUM ? WANT_SPECTRUM_CHANNELS
                                                        : WANT_SCOPE_CHANNELS;
    return want->channel_count <= most
               ? 0
               : problem_set(problem, ERROR_LIMIT, "channels: this view shows at most %u at once",
                             most);
}

static bool wants_hits(const json_t *object)
{
    const char *view = json_string_value(json_object_get(object, "view"));
    return view != NULL && strcmp(view, view_names[VIEW_HITS]) == 0;
}

static int read_want(const json_t *object, struct want *want, struct problem *problem)
{
    static int (*const readers[])(const json_t *, struct want *, struct problem *) = {
        NULL, read_envelope, read_scope, read_ascan, read_spectrum};
    static const char *const sides[] = {"output", "input"};
    const char *stream = json_string_value(json_object_get(object, "stream"));
    int view = 0, side = 0;
    if (stream == NULL || strlen(stream) > WANT_STREAM_MAX)
        return problem_set(problem, ERROR_ARGUMENT, "stream: write the name of a stream");
    memcpy(want->stream, stream, strlen(stream) + 1);
    int error = read_name(object, "view", view_names, 5, &view, problem);
    if (error == 0 && view == VIEW_NONE)
        error = problem_set(problem, ERROR_ARGUMENT,
                            "view: write envelope, scope, ascan, spectrum or hits");
    if (error == 0)
        error = read_name(object, "side", sides, 2, &side, problem);
    want->input = side == 1;
    if (error == 0)
        error = read_channels(object, want, problem);
    if (error == 0)
        error = readers[view](object, want, problem);
    want->view = (enum view_kind)view;
    if (error == 0)
        error = check_channels(want, problem);
    if (error < 0)
        want->view = VIEW_NONE;
    return error;
}

int want_parse(const char *text, size_t bytes, struct want *want, struct problem *problem)
{
    memset(want, 0, sizeof *want);
    json_t *object = json_loadb(text, bytes, JSON_REJECT_DUPLICATES, NULL);
    const char *type = json_string_value(json_object_get(object, "type"));
    uint64_t id = 0;
    int error = type != NULL ? read_count(object, "id", 1, 65535, 0, &id, problem)
                             : problem_set(problem, ERROR_FORMAT,
                                           "write one JSON object with a type: want or drop");
    want->id = (uint16_t)id;
    if (error == 0 && id == 0)
        error = problem_set(problem, ERROR_ARGUMENT, "id: write a number from 1 to 65535");
    if (error == 0 && strcmp(type, "want") == 0 && wants_hits(object))
        want->view = VIEW_HITS;
    else if (error == 0 && strcmp(type, "want") == 0)
        error = read_want(object, want, problem);
    else if (error == 0 && strcmp(type, "drop") != 0)
        error = problem_set(problem, ERROR_ARGUMENT, "type: write want or drop");
    json_decref(object);
    return error;
}
