/* Sidecar: see sidecar.h. */
#include "io/recording/sidecar.h"

#include <jansson.h>
#include <limits.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "core/clock.h"
#include "io/recording/disk.h"

struct sidecar_cause sidecar_cause(enum sidecar_reason reason, const char *who)
{
    struct sidecar_cause cause = {.reason = reason};
    snprintf(cause.who, sizeof cause.who, "%s", who != NULL ? who : "");
    return cause;
}

void sidecar_reset(struct sidecar *sidecar)
{
    sidecar->complete = false;
    sidecar->ended = (struct sidecar_cause){.reason = REASON_NONE};
    sidecar->error = 0;
    sidecar->cut[0] = '\0';
    sidecar->frames = 0;
    sidecar->synced_frames = 0;
    sidecar->saturated = 0;
    sidecar->range_count = 0;
    sidecar->partial.count = 0;
    sidecar->missing.count = sidecar->after.count = 0;
    sidecar->filters_count = sidecar->devices_count = sidecar->steps_count = 0;
    sidecar_close(sidecar);
    sidecar->clock_error_ns = 0;
    memset(sidecar->last_range, 0, sizeof sidecar->last_range);
}

bool sidecar_add(struct sidecar *sidecar, struct invalid_range range)
{
    uint32_t latest = sidecar->last_range[range.cause];
    if (latest > 0) {
        struct invalid_range *last = &sidecar->ranges[latest - 1];
        if (range.from <= last->until && range.until >= last->from) {
            last->from = range.from < last->from ? range.from : last->from;
            last->until = range.until > last->until ? range.until : last->until;
            return true;
        }
    }
    if (sidecar->range_count == SIDECAR_RANGES_MAX)
        return false;
    sidecar->ranges[sidecar->range_count++] = range;
    sidecar->last_range[range.cause] = sidecar->range_count;
    return true;
}

/* Makes room in a full list: joins the oldest two ranges of one epoch that follow each other, or
 * drops the oldest range when no epoch has two. */
static void make_room(struct sidecar_losses *losses)
{
    uint32_t at = 1;
    while (at < losses->count && losses->ranges[at].epoch != losses->ranges[at - 1].epoch)
        at++;
    struct sidecar_missing *ranges = losses->ranges;
    if (at < losses->count) {
        ranges[at].from =
            ranges[at - 1].from < ranges[at].from ? ranges[at - 1].from : ranges[at].from;
        ranges[at].until =
            ranges[at - 1].until > ranges[at].until ? ranges[at - 1].until : ranges[at].until;
    } else {
        at = 1;
    }
    memmove(&ranges[at - 1], &ranges[at], (losses->count - at) * sizeof *ranges);
    losses->count--;
}

void sidecar_lose(struct sidecar_losses *losses, const struct sidecar_missing *missing)
{
    struct sidecar_missing *last = losses->count > 0 ? &losses->ranges[losses->count - 1] : NULL;
    if (last != NULL && last->epoch == missing->epoch && missing->from <= last->until &&
        missing->until >= last->from && strcmp(last->cause, missing->cause) == 0) {
        last->from = missing->from < last->from ? missing->from : last->from;
        last->until = missing->until > last->until ? missing->until : last->until;
        return;
    }
    if (losses->count == SIDECAR_MISSING_MAX)
        make_room(losses);
    losses->ranges[losses->count++] = *missing;
}

bool sidecar_filter(struct sidecar *sidecar, const struct sidecar_filters *filters)
{
    uint32_t count = sidecar->filters_count;
    if (count > 0 && strcmp(sidecar->filters[count - 1].taps_hash, filters->taps_hash) == 0)
        return true;
    if (count == SIDECAR_FILTERS_MAX)
        return false;
    sidecar->filters[count] = *filters;
    sidecar->filters_count++;
    return true;
}

bool sidecar_device(struct sidecar *sidecar, const struct sidecar_device *device)
{
    const uint32_t count = sidecar->devices_count;
    const struct sidecar_device *last = count > 0 ? &sidecar->devices[count - 1] : NULL;
    if (last != NULL && strcmp(last->device, device->device) == 0 &&
        strcmp(last->driver, device->driver) == 0)
        return true;
    if (count == SIDECAR_DEVICES_MAX)
        return false;
    sidecar->devices[sidecar->devices_count++] = *device;
    return true;
}

bool sidecar_step(struct sidecar *sidecar, const struct sidecar_step *step)
{
    if (sidecar->steps_count == SIDECAR_STEPS_MAX)
        return false;
    sidecar->steps[sidecar->steps_count++] = *step;
    return true;
}

void sidecar_close(struct sidecar *sidecar)
{
    for (uint32_t i = 0; i < sidecar->gains_count; i++) {
        free((void *)(uintptr_t)sidecar->gains[i].factors);
        free((void *)(uintptr_t)sidecar->gains[i].muted);
        free((void *)(uintptr_t)sidecar->gains[i].who);
    }
    sidecar->gains_count = 0;
}

bool sidecar_gain(struct sidecar *sidecar, const struct sidecar_gains *gains)
{
    uint32_t count = sidecar->gains_count;
    if (count > 0 && sidecar->gains[count - 1].changes == gains->changes)
        return true;
    if (count == SIDECAR_GAINS_MAX)
        return false;
    struct sidecar_gains copy = *gains;
    float *factors = calloc(gains->outputs + 1, sizeof *factors);
    bool *muted = calloc(gains->outputs + 1, sizeof *muted);
    char *who = gains->who != NULL ? strdup(gains->who) : NULL;
    if (factors == NULL || muted == NULL || (gains->who != NULL && who == NULL)) {
        free(factors);
        free(muted);
        free(who);
        return false;
    }
    for (uint32_t o = 0; o < gains->outputs; o++) {
        factors[o] = gains->factors[o];
        muted[o] = gains->muted[o];
    }
    copy.factors = factors;
    copy.muted = muted;
    copy.who = who;
    sidecar->gains[sidecar->gains_count++] = copy;
    return true;
}

/* UTC, as "2026-11-21T02:16:04.123456789Z". Returns `text`. */
static const char *time_text(int64_t realtime_ns, char text[40])
{
    time_t seconds = (time_t)(realtime_ns / NS_PER_SECOND);
    int64_t rest_ns = realtime_ns % NS_PER_SECOND;
    if (rest_ns < 0) {
        rest_ns += NS_PER_SECOND;
        seconds--;
    }
    struct tm utc;
    gmtime_r(&seconds, &utc);
    size_t used = strftime(text, 40, "%Y-%m-%dT%H:%M:%S", &utc);
    snprintf(text + used, 40 - used, ".%09dZ", (int)rest_ns);
    return text;
}

/* The parts of the ranges that lie in the file's frames [from, until). */
static json_t *ranges_json(const struct sidecar *s, uint64_t from, uint64_t until)
{
    json_t *list = json_array();
    for (uint32_t i = 0; i < s->range_count; i++) {
        const struct invalid_range *range = &s->ranges[i];
        uint64_t first = range->from > from ? range->from : from;
        uint64_t end = range->until < until ? range->until : until;
        if (first >= end)
            continue;
        json_array_append_new(list, json_pack("{s:I, s:I, s:s}", "from", (json_int_t)first, "until",
                                              (json_int_t)end, "cause",
                                              invalid_cause_name(range->cause)));
    }
    return list;
}

/* The causes of these mean nothing. */
static json_t *partial_json(const struct sidecar *s)
{
    json_t *list = json_array();
    for (uint32_t i = 0; i < s->partial.count; i++)
        json_array_append_new(list,
                              json_pack("{s:I, s:I}", "from", (json_int_t)s->partial.list[i].from,
                                        "until", (json_int_t)s->partial.list[i].until));
    return list;
}

/* A range of another epoch names it. */
static json_t *missing_json(const struct sidecar *s, const struct sidecar_losses *losses)
{
    json_t *list = json_array();
    for (uint32_t i = 0; i < losses->count; i++) {
        const struct sidecar_missing *missing = &losses->ranges[i];
        json_t *range = json_pack("{s:I, s:I, s:s}", "from", (json_int_t)missing->from, "until",
                                  (json_int_t)missing->until, "cause", missing->cause);
        if (missing->epoch != s->epoch)
            json_object_set_new(range, "epoch", json_integer((json_int_t)missing->epoch));
        json_array_append_new(list, range);
    }
    return list;
}

static json_t *steps_json(const struct sidecar *s)
{
    json_t *list = json_array();
    for (uint32_t i = 0; i < s->steps_count; i++)
        json_array_append_new(list, json_pack("{s:I, s:I}", "frame", (json_int_t)s->steps[i].frame,
                                              "step_ns", (json_int_t)s->steps[i].step_ns));
    return list;
}

/* json_pack's "s" does not accept NULL. */
static const char *text_or_empty(const char *text)
{
    return text != NULL ? text : "";
}

static json_t *cause_json(const struct sidecar_cause *cause)
{
    static const char *const words[REASONS] = {
        [REASON_OPEN] = "open",       [REASON_END] = "end",
        [REASON_ROTATE] = "rotate",   [REASON_BREAK] = "break",
        [REASON_COMMAND] = "command", [REASON_FREE] = "min free",
        [REASON_DISK] = "disk",       [REASON_INTERRUPTED] = "interrupted",
    };
    return cause->reason != REASON_NONE ? json_string(words[cause->reason]) : json_null();
}

/* NULL, empty: nobody. */
static json_t *who_json(const char *who)
{
    return who != NULL && who[0] != '\0' ? json_string(who) : json_null();
}

static json_t *channels_json(const struct sink_options *options)
{
    const struct sink_stream *stream = &options->stream;
    json_t *list = json_array();
    uint32_t channels = options->raw ? stream->input_channels : stream->channels;
    for (uint32_t c = 0; c < channels; c++) {
        json_t *channel;
        if (options->raw && stream->input_scales != NULL) {
            const struct channel_scale *scale = &stream->input_scales[c];
            channel =
                json_pack("{s:s, s:f, s:f, s:f}", "unit", scale->unit, "full_scale",
                          scale->full_scale, "offset", scale->offset, "gain_db", scale->gain_db);
        } else {
            bool known = !options->raw && stream->units != NULL;
            channel =
                json_pack("{s:s, s:f}", "unit", text_or_empty(known ? stream->units[c] : NULL),
                          "full_scale", options->full_scale);
        }
        json_array_append_new(list, channel);
    }
    return list;
}

static json_t *error_json(const struct sidecar *s)
{
    if (s->error != 0)
        return json_string(strerror(s->error));
    return s->cut[0] != '\0' ? json_string(s->cut) : json_null();
}

/* In frames of the file. */
static json_t *excitation_json(const struct excitation *excitation)
{
    if (!excitation->known)
        return json_null();
    return json_pack("{s:f, s:o}", "start_frame", excitation->start_frame, "period_frames",
                     excitation->period_frames > 0 ? json_real(excitation->period_frames)
                                                   : json_null());
}

static json_t *filters_json(const struct sidecar *s)
{
    json_t *list = json_array();
    for (uint32_t i = 0; i < s->filters_count; i++)
        json_array_append_new(list, json_pack("{s:I, s:s, s:i, s:o}", "first_frame",
                                              (json_int_t)s->filters[i].first_frame, "taps_hash",
                                              s->filters[i].taps_hash, "taps_longest",
                                              (int)s->filters[i].taps_longest, "who",
                                              who_json(s->filters[i].who)));
    return list;
}

static json_t *devices_json(const struct sidecar *s)
{
    json_t *list = json_array();
    for (uint32_t i = 0; i < s->devices_count; i++)
        json_array_append_new(
            list, json_pack("{s:I, s:s, s:s}", "first_frame", (json_int_t)s->devices[i].first_frame,
                            "device", s->devices[i].device, "driver", s->devices[i].driver));
    return list;
}

/* Of every output, beside the configured gain; silence has none in dB. */
static json_t *gains_json(const struct sidecar *s)
{
    json_t *list = json_array();
    for (uint32_t i = 0; i < s->gains_count; i++) {
        const struct sidecar_gains *gains = &s->gains[i];
        json_t *gain_db = json_array(), *muted = json_array();
        for (uint32_t o = 0; o < gains->outputs; o++) {
            const float factor = gains->factors[o];
            json_array_append_new(gain_db,
                                  factor > 0 ? json_real(20 * log10((double)factor)) : json_null());
            json_array_append_new(muted, json_boolean(gains->muted[o]));
        }
        json_array_append_new(list, json_pack("{s:I, s:I, s:o, s:o, s:o}", "first_frame",
                                              (json_int_t)gains->first_frame, "changes",
                                              (json_int_t)gains->changes, "gain_db", gain_db,
                                              "muted", muted, "who", who_json(gains->who)));
    }
    return list;
}

static json_t *sidecar_json(const struct sidecar *s, const char *recording)
{
    const struct sink_options *options = s->options;
    const struct sink_stream *stream = &options->stream;
    const char *slash = strrchr(recording, '/');
    double rate_hz = options->raw ? stream->input_rate_hz : stream->rate_hz;
    uint64_t end = s->first_frame + s->frames;
    char format[24], captured[40];
    json_t *root = json_object();
    const struct sidecar_device opened = {.device = text_or_empty(stream->device),
                                          .driver = text_or_empty(stream->driver)};
    const struct sidecar_device first = s->devices_count > 0 ? s->devices[0] : opened;
    const struct {
        const char *key;
        json_t *value;
    } members[] = {
        {"file", json_string(slash != NULL ? slash + 1 : recording)},
        {"stream", json_string(text_or_empty(stream->name))},
        {"sink", json_string(text_or_empty(options->name))},
        {"content", json_string(options->raw ? "input" : "output")},
        {"complete", json_boolean(s->complete)},
        {"error", error_json(s)},
        {"repaired", json_false()},
        {"began", cause_json(&s->began)},
        {"began_by", who_json(s->began.who)},
        {"ended", cause_json(&s->ended)},
        {"ended_by", who_json(s->ended.who)},
        {"first_frame", json_integer((json_int_t)s->first_frame)},
        {"frames", json_integer((json_int_t)s->frames)},
        {"synced_frames", json_integer((json_int_t)s->synced_frames)},
        {"timeline_frame", json_integer((json_int_t)s->timeline_frame)},
        {"epoch", json_integer((json_int_t)s->epoch)},
        {"record", json_integer((json_int_t)s->record)},
        {"capture_time", json_string(time_text(s->capture_ns, captured))},
        {"capture_time_ns", json_integer(s->capture_ns)},
        {"last_capture_time_ns", json_integer(s->last_capture_ns)},
        {"clock", json_string(clock_source_name(s->clock))},
        {"clock_error_ns", json_integer(s->clock_error_ns)},
        {"clock_steps", steps_json(s)},
        {"rate_hz", json_real(rate_hz)},
        {"decimation", json_integer(options->raw || stream->decimate <= 1 ? 1 : stream->decimate)},
        {"container", json_string(container_name(s->container))},
        {"format", json_string(sample_format_name(&s->format, format))},
        {"channels", channels_json(options)},
        {"delay_frames", json_real(s->delay_frames)},
        {"delay_s", json_real(s->delay_frames / rate_hz)},
        {"aligned", json_boolean(s->aligned)},
        {"excitation",
         excitation_json(options->raw ? &stream->input_excitation : &stream->excitation)},
        {"taps_longest", json_integer(s->filters_count > 0 ? s->filters[0].taps_longest : 0)},
        {"invalid", ranges_json(s, s->first_frame, end)},
        {"partial", partial_json(s)},
        {"missing_before", missing_json(s, &s->missing)},
        {"missing_after", missing_json(s, &s->after)},
        {"saturated_samples", json_integer((json_int_t)s->saturated)},
        {"loss_detectable", json_boolean(stream->loss_detectable)},
        {"version", json_string(CONVOLVD_VERSION)},
        {"device", json_string(first.device)},
        {"driver", json_string(first.driver)},
        {"devices", devices_json(s)},
        {"config_hash", json_string(text_or_empty(stream->config_hash))},
        {"taps_hash", json_string(s->filters_count > 0 ? s->filters[0].taps_hash : "")},
        {"filters", filters_json(s)},
        {"gains", gains_json(s)},
        {"marks",
         s->marks != NULL ? marks_json(s->marks, s->epoch, s->first_frame, end) : json_array()},
    };
    for (size_t i = 0; i < sizeof members / sizeof members[0]; i++) {
        /* jansson refuses text that is not UTF-8; it becomes null, the other members stay. */
        json_t *value = members[i].value != NULL ? members[i].value : json_null();
        json_object_set_new(root, members[i].key, value);
    }
    return root;
}

char *sidecar_text(const struct sidecar *sidecar, const char *recording)
{
    json_t *root = sidecar_json(sidecar, recording);
    char *text = json_dumps(root, JSON_INDENT(2) | JSON_REAL_PRECISION(15));
    json_decref(root);
    return text;
}

int sidecar_write(const struct sidecar *sidecar, const char *recording, bool sync,
                  struct problem *problem)
{
    char path[PATH_MAX];
    if (snprintf(path, sizeof path, "%s.json", recording) >= (int)sizeof path)
        return problem_set(problem, ERROR_SYSTEM, "recording %s: its name is too long", recording);
    char *text = sidecar_text(sidecar, recording);
    int error = disk_replace(path, text, sync, problem);
    free(text);
    return error;
}
