/* Alarms of the running daemon: see alarms.h. */
#include "control/alarms.h"

#include <assert.h>
#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "control/alarms_internal.h"
#include "core/clock.h"
#include "core/event.h"
#include "core/log.h"

enum {
    TURN_MS = 25,
    VALUE_TURNS = 4,      /* of so many turns one reads values */
    VALUES_A_TURN = 1024, /* instances whose value one turn reads */
    EVENTS_A_TURN = 1024, /* of analyses, that one turn reads */
    LOOKS_A_TURN = 256,   /* channels that one turn looks at for a flat line */
    LISTED_MAX = 1024,    /* of those listed, as many are shown */
    MEASURED_MAX = 64,    /* streams whose noise floor was measured */
};

static const int64_t measure_ns = NS_PER_SECOND;

/* ---- values ------------------------------------------------------------------------------ */

static void note_change(struct alarm_item *item, enum alarm_change change, int64_t active_since_ns,
                        int64_t now_ns)
{
    item->told = true;
    item->change = change;
    item->listed = true;
    if (change == ALARM_RAISED) {
        item->acknowledged = false;
        item->raised_realtime_ns = clock_realtime_ns();
        item->ended_realtime_ns = 0;
    } else {
        item->lasted_ns = now_ns - active_since_ns;
        item->ended_realtime_ns = clock_realtime_ns();
        item->listed = !item->acknowledged;
    }
}

static void read_item(struct alarm_item *item, const struct stream_stats *stats, int64_t now_ns)
{
    const int64_t since_ns = item->alarm.since_ns;
    const bool above = item->alarm.phase == ALARM_ACTIVE && item->alarm.above;
    bool none = false;
    const double value =
        item->of_analysis != NULL
            ? alarm_figure_value(item->of_analysis, &item->rule, above, now_ns, &none)
            : alarm_reader_value(&item->reader, item->pipeline, stats, now_ns);
    const enum alarm_change change = none ? alarm_clear(&item->alarm, &item->rule, now_ns)
                                          : alarm_update(&item->alarm, &item->rule, value, now_ns);
    item->told = false;
    if (none || !isnan(value))
        item->value = value;
    if (change != ALARM_SAME)
        note_change(item, change, since_ns, now_ns);
}

static bool same_group(const struct alarm_item *a, const struct alarm_item *b)
{
    return strcmp(a->name, b->name) == 0 && strcmp(a->stream, b->stream) == 0;
}

static void tell_changes(struct alarms *alarms, uint32_t from, uint32_t until)
{
    while (from < until) {
        uint32_t end = from + 1;
        bool any = alarms->items[from].told;
        for (; end < until && same_group(&alarms->items[from], &alarms->items[end]); end++)
            any = any || alarms->items[end].told;
        if (any)
            alarm_tell(alarms, &alarms->items[from], &alarms->items[end]);
        from = end;
    }
}

struct taking {
    struct alarms *alarms;
    int64_t now_ns;
};

static void take_event(void *context, const struct followed_analysis *of,
                       const struct analysis_event *event)
{
    const struct taking *taking = context;
    for (uint32_t i = of->first_item; i < of->until_item; i++) {
        struct alarm_figure *figure = taking->alarms->items[i].of_analysis;
        if (figure != NULL && figure->of == of && figure->field != NULL)
            alarm_figure_take(figure, event, taking->now_ns);
    }
}

static void read_values(struct alarms *alarms, int64_t now_ns)
{
    struct taking taking = {alarms, now_ns};
    alarm_events_read(&alarms->events, now_ns, EVENTS_A_TURN, take_event, &taking);
    const uint32_t from = alarms->at_value < alarms->count ? alarms->at_value : 0;
    const uint32_t until =
        alarms->count - from > VALUES_A_TURN ? from + VALUES_A_TURN : alarms->count;
    const struct pipeline *read = NULL;
    struct stream_stats stats;
    for (uint32_t i = from; i < until; i++) {
        struct alarm_item *item = &alarms->items[i];
        if (read != item->pipeline)
            stream_stats(item->pipeline->stream, &stats);
        read = item->pipeline;
        read_item(item, &stats, now_ns);
    }
    alarms->at_value = until;
    tell_changes(alarms, from, until);
}

/* ---- flat lines -------------------------------------------------------------------------- */

static void look_for_flat_lines(struct alarms *alarms)
{
    uint32_t looks = 0;
    for (uint32_t seen = 0; seen < alarms->count && seen < VALUES_A_TURN && looks < LOOKS_A_TURN;
         seen++) {
        struct alarm_item *item = &alarms->items[alarms->at_flat];
        alarms->at_flat = (alarms->at_flat + 1) % alarms->count;
        if (item->quantity != ALARM_FLAT)
            continue;
        const double rate_hz = item->pipeline->stream_config->source.rate_hz;
        const struct flat_channel channel = {
            .reader = &item->reader,
            .pipeline = item->pipeline,
            .frames_wanted = (uint64_t)(item->rule.above * rate_hz) + 1,
        };
        flat_lines_look(&alarms->flat, &channel);
        looks++;
    }
    flat_lines_read(&alarms->flat);
}

/* ---- noise floors ------------------------------------------------------------------------ */

static struct noise_floor *find_noise(const struct alarms *alarms, const char *stream)
{
    struct noise_floor *noise = alarms->noise;
    while (noise != NULL && strcmp(noise->stream, stream) != 0)
        noise = noise->next;
    return noise;
}

static void level_counters(const struct channel_levels *levels, double counters[WINDOW_VALUES])
{
    counters[0] = (double)levels->frames;
    counters[1] = levels->sum;
    counters[2] = levels->sum_squares;
}

/* The levels since it began. */
static void take_levels(struct noise_floor *noise, const struct stream_stats *stats)
{
    for (uint32_t c = 0; c < noise->channels; c++) {
        double grown[WINDOW_VALUES] = {0};
        if (c < stats->channels)
            level_counters(&stats->levels[c], grown);
        for (int i = 0; i < WINDOW_VALUES; i++)
            grown[i] -= noise->channel[c].counters[i];
        const double level = alarm_level(grown);
        noise->levels[c] = isnan(level) ? 0 : level;
    }
}

static void end_measurement(struct alarms *alarms, struct noise_floor *noise)
{
    const struct pipeline *pipeline = pipelines_find(alarms->process->pipelines, noise->stream);
    struct stream_stats stats;
    double lowest = INFINITY, highest = 0;
    noise->measuring = false;
    if (pipeline != NULL) {
        stream_stats(pipeline->stream, &stats);
        take_levels(noise, &stats);
        noise->known = true;
        for (uint32_t c = 0; c < noise->channels; c++) {
            lowest = fmin(lowest, noise->levels[c]);
            highest = fmax(highest, noise->levels[c]);
        }
        log_notice("stream %s: noise floor measured: %.4g to %.4g %s; a level under half of it "
                   "raises the alarm " ALARM_NAME_NOISE,
                   noise->stream, lowest, highest, pipeline->stream_config->scales[0].unit);
    }
    noise->measured(noise->context, noise->number, pipeline != NULL ? noise->levels : NULL,
                    noise->channels);
    alarms->config = NULL; /* the instances are made anew */
}

const double *alarms_measured_noise(const struct alarms *alarms, const char *stream,
                                    uint32_t *channels)
{
    const struct noise_floor *noise = find_noise(alarms, stream);
    if (noise == NULL || !noise->known)
        return NULL;
    *channels = noise->channels;
    return noise->levels;
}

static void measure(struct alarms *alarms, int64_t now_ns)
{
    for (struct noise_floor *noise = alarms->noise; noise != NULL; noise = noise->next)
        if (noise->measuring && now_ns - noise->since_ns >= measure_ns)
            end_measurement(alarms, noise);
}

/* For as many channels, found before the one it replaces; NULL: no memory, or too many. */
static struct noise_floor *add_noise(struct alarms *alarms, const char *stream, uint32_t channels)
{
    uint32_t count = 0;
    for (const struct noise_floor *other = alarms->noise; other != NULL; other = other->next)
        count++;
    struct noise_floor *noise = count < MEASURED_MAX
                                    ? calloc(1, sizeof *noise + channels * sizeof noise->channel[0])
                                    : NULL;
    double *levels = calloc(channels, sizeof *levels);
    if (noise == NULL || levels == NULL) {
        free(noise);
        free(levels);
        return NULL;
    }
    snprintf(noise->stream, sizeof noise->stream, "%s", stream);
    noise->channels = channels;
    noise->levels = levels;
    noise->next = alarms->noise;
    alarms->noise = noise;
    return noise;
}

int alarms_measure_noise(struct alarms *alarms, const struct pipeline *pipeline, const char *who,
                         const struct noise_request *request)
{
    const char *stream = pipeline->stream_config->name;
    struct noise_floor *noise = find_noise(alarms, stream);
    struct stream_stats stats;
    stream_stats(pipeline->stream, &stats);
    if (noise != NULL && noise->measuring)
        return ERROR_ARGUMENT;
    if (noise == NULL || noise->channels != stats.channels)
        noise = add_noise(alarms, stream, stats.channels);
    if (noise == NULL)
        return ERROR_MEMORY;
    noise->measuring = true;
    noise->since_ns = clock_monotonic_ns();
    noise->measured = request->measured;
    noise->context = request->context;
    noise->number = request->number;
    for (uint32_t c = 0; c < stats.channels; c++)
        level_counters(&stats.levels[c], noise->channel[c].counters);
    log_notice("stream %s: its noise floor is measured for a second; %s asked for it", stream, who);
    return 0;
}

/* ---- the timer --------------------------------------------------------------------------- */

static void on_timer(uv_timer_t *timer)
{
    struct alarms *alarms = timer->data;
    const struct process *process = alarms->process;
    if (!process->connected || process->phase != PROCESS_RUNNING || process->stopping)
        return;
    const int64_t now_ns = clock_monotonic_ns();
    alarm_items_update(alarms, now_ns);
    measure(alarms, now_ns);
    if (alarms->count == 0)
        return;
    look_for_flat_lines(alarms);
    if (alarms->turns++ % VALUE_TURNS == 0)
        read_values(alarms, now_ns);
}

/* ---- what is listed ---------------------------------------------------------------------- */

static json_t *real(double value)
{
    return isfinite(value) ? json_real(value) : json_null();
}

static json_t *item_json(const struct alarm_item *item)
{
    char text[256];
    json_t *object = json_object();
    const bool active = item->alarm.phase == ALARM_ACTIVE;
    json_object_set_new(object, "name", json_string(item->name));
    json_object_set_new(object, "stream", json_string(item->stream));
    json_object_set_new(object, "channel",
                        item->reader.channel >= 0 ? json_integer(item->reader.channel + 1)
                                                  : json_null());
    json_object_set_new(object, "quantity", json_string(alarm_item_quantity(item)));
    json_object_set_new(object, "analysis",
                        item->analysis[0] != '\0' ? json_string(item->analysis) : json_null());
    json_object_set_new(object, "state", json_string(active ? "active" : "ended"));
    json_object_set_new(object, "value", real(item->value));
    json_object_set_new(object, "limit", real(alarm_limit(&item->alarm, &item->rule)));
    json_object_set_new(object, "unit", json_string(item->unit));
    json_object_set_new(object, "acknowledged", json_boolean(item->acknowledged));
    json_object_set_new(object, "raised", json_integer((json_int_t)item->alarm.raised));
    json_object_set_new(object, "since_realtime_ns", json_integer(item->raised_realtime_ns));
    json_object_set_new(object, "ended_realtime_ns",
                        active ? json_null() : json_integer(item->ended_realtime_ns));
    json_object_set_new(object, "text", json_string(alarm_sentence_of(item, text, sizeof text)));
    return object;
}

json_t *alarms_json(const struct alarms *alarms)
{
    json_t *array = json_array();
    for (uint32_t i = 0; i < alarms->count && json_array_size(array) < LISTED_MAX; i++)
        if (alarms->items[i].listed)
            json_array_append_new(array, item_json(&alarms->items[i]));
    return array;
}

void alarms_print(const struct alarms *alarms, FILE *out)
{
    uint32_t shown = 0;
    for (uint32_t i = 0; i < alarms->count && shown < LISTED_MAX; i++) {
        const struct alarm_item *item = &alarms->items[i];
        char text[256], channel[24] = "";
        if (!item->listed)
            continue;
        if (item->reader.channel >= 0)
            snprintf(channel, sizeof channel, ", channel %d", item->reader.channel + 1);
        fprintf(out, "%s  %s: stream %s%s: %s; %s%s\n", shown++ == 0 ? "\nalarms\n" : "",
                item->name, item->stream, channel, alarm_sentence_of(item, text, sizeof text),
                item->alarm.phase == ALARM_ACTIVE ? "active" : "ended, not acknowledged",
                item->acknowledged ? ", acknowledged" : "");
    }
}

/* Also those of a configuration that the timer has not come to yet. */
bool alarms_have(const struct alarms *alarms, const char *name, char *names, size_t bytes)
{
    static const char tail[] = " and 4294967295 more";
    const struct config *config = alarms->process->config;
    size_t used = (size_t)snprintf(names, bytes, "flat-line, noise-floor");
    uint32_t more = 0;
    assert(bytes > used + sizeof tail);
    if (strcmp(name, "flat-line") == 0 || strcmp(name, "noise-floor") == 0)
        return true;
    for (uint32_t i = 0; config != NULL && i < config->alarm_count; i++) {
        const char *own = config->alarms[i].name;
        if (strcmp(own, name) == 0)
            return true;
        if (more > 0 || used + 2 + strlen(own) + sizeof tail > bytes)
            more++;
        else
            used += (size_t)snprintf(names + used, bytes - used, ", %s", own);
    }
    if (more > 0)
        snprintf(names + used, bytes - used, " and %" PRIu32 " more", more);
    return false;
}

uint32_t alarms_acknowledge(struct alarms *alarms, const char *name, const char *stream,
                            uint32_t channel, const char *who)
{
    uint32_t count = 0;
    for (uint32_t i = 0; i < alarms->count; i++) {
        struct alarm_item *item = &alarms->items[i];
        if (!item->listed || item->acknowledged ||
            (name != NULL && strcmp(item->name, name) != 0) ||
            (stream != NULL && strcmp(item->stream, stream) != 0) ||
            (channel != 0 && item->reader.channel + 1 != (int32_t)channel))
            continue;
        item->acknowledged = true;
        item->listed = item->alarm.phase == ALARM_ACTIVE;
        count++;
    }
    if (count > 0)
        event_raise(&(struct event_subject){.kind = EVENT_ALARM_END,
                                            .severity = LOG_LEVEL_NOTICE,
                                            .stream = stream,
                                            .who = who},
                    "%" PRIu32 " alarm%s acknowledged", count, count == 1 ? "" : "s");
    return count;
}

/* ---- life -------------------------------------------------------------------------------- */

int alarms_open(const struct process *process, struct alarms **out)
{
    struct alarms *alarms = calloc(1, sizeof *alarms);
    if (alarms == NULL)
        return ERROR_MEMORY;
    if (alarm_files_open(process->environment->loop, &alarms->files) != 0) {
        free(alarms);
        return ERROR_MEMORY;
    }
    alarms->process = process;
    uv_timer_init(process->environment->loop, &alarms->timer);
    alarms->timer.data = alarms;
    uv_timer_start(&alarms->timer, on_timer, TURN_MS, TURN_MS);
    *out = alarms;
    return 0;
}

static void closed(uv_handle_t *handle)
{
    struct alarms *alarms = handle->data;
    while (alarms->noise != NULL) {
        struct noise_floor *noise = alarms->noise;
        alarms->noise = noise->next;
        free(noise->levels);
        free(noise);
    }
    alarm_items_free(alarms->items, alarms->count);
    alarm_events_close(&alarms->events);
    free(alarms);
}

void alarms_close(struct alarms *alarms)
{
    if (alarms == NULL)
        return;
    alarm_files_close(alarms->files);
    uv_close((uv_handle_t *)&alarms->timer, closed);
}
