/* The instances of alarms, made of the configuration: see alarms_internal.h. */
#include <stdlib.h>
#include <string.h>

#include "control/alarms_internal.h"
#include "core/clock.h"
#include "core/log.h"

/* More are refused, in memory and in what the timer has to look at. */
enum { ITEMS_MAX = 1 << 17 };

static const int64_t noise_within_ns = NS_PER_SECOND;

struct making {
    struct alarms *alarms;
    struct alarm_item *items;
    uint32_t count, room;
    struct pipeline *pipeline; /* of the stream whose alarms are made; NULL: it does not run */
    int64_t now_ns;
};

/* ---- noise floors ------------------------------------------------------------------------ */

/* The noise floor of a channel, measured or configured; 0: not known. */
static double alarm_noise_floor(const struct alarms *alarms, const struct config_stream *stream,
                                uint32_t channel)
{
    for (const struct noise_floor *noise = alarms->noise; noise != NULL; noise = noise->next)
        if (strcmp(noise->stream, stream->name) == 0 && channel < noise->channels &&
            noise->levels[channel] > 0)
            return noise->levels[channel];
    return stream->noise_floor != NULL ? stream->noise_floor[channel] : 0;
}

/* ---- making them ------------------------------------------------------------------------- */

/* Room for one more; NULL: no memory, or too many. */
static struct alarm_item *add_empty(struct making *making)
{
    if (making->count == making->room) {
        const uint32_t room = making->room > 0 ? 2 * making->room : 64;
        struct alarm_item *more =
            room <= ITEMS_MAX ? realloc(making->items, room * sizeof *making->items) : NULL;
        if (more == NULL)
            return NULL;
        making->items = more;
        making->room = room;
    }
    making->items[making->count] = (struct alarm_item){.pipeline = making->pipeline};
    return &making->items[making->count];
}

/* One more; NULL: no memory, too many, or the stream that runs has no such channel yet. */
static struct alarm_item *add(struct making *making, const struct config_stream *stream,
                              const char *name, enum alarm_quantity quantity, int32_t channel,
                              int64_t within_ns, const struct alarm_rule *rule)
{
    if (making->pipeline == NULL ||
        channel >= (int32_t)making->pipeline->stream_config->source.channels)
        return NULL;
    struct alarm_item *item = add_empty(making);
    if (item == NULL)
        return NULL;
    item->quantity = quantity;
    item->rule = *rule;
    if (alarm_reader_make(&item->reader, quantity, channel, within_ns, rule, making->now_ns) != 0)
        return NULL;
    snprintf(item->name, sizeof item->name, "%s", name);
    snprintf(item->stream, sizeof item->stream, "%s", stream->name);
    making->count++;
    return item;
}

/* The same of an analysis. */
static struct alarm_item *add_figure(struct making *making, const struct config *config,
                                     const struct config_alarm *alarm, int32_t channel)
{
    const char *name = config->analyses[alarm->analysis].name;
    struct followed_analysis *of =
        making->pipeline != NULL
            ? alarm_events_find(&making->alarms->events, making->pipeline, name)
            : NULL;
    struct alarm_item *item = of != NULL ? add_empty(making) : NULL;
    if (item == NULL)
        return NULL;
    item->of_analysis = alarm_figure_make(of, alarm, channel, making->now_ns);
    if (item->of_analysis == NULL)
        return NULL;
    if (alarm->quantity == ALARM_FIELD) {
        of->first_item = of->watched ? of->first_item : making->count;
        of->until_item = making->count + 1;
        of->watched = true;
    }
    item->quantity = alarm->quantity;
    item->rule = alarm->rule;
    item->amplitude = alarm->amplitude;
    item->reader.channel = channel;
    snprintf(item->name, sizeof item->name, "%s", alarm->name);
    snprintf(item->stream, sizeof item->stream, "%s", config->streams[alarm->stream].name);
    snprintf(item->analysis, sizeof item->analysis, "%s", name);
    snprintf(item->figure, sizeof item->figure, "%s", alarm->figure);
    making->count++;
    return item;
}

static void add_configured(struct making *making, const struct config *config,
                           const struct config_alarm *alarm)
{
    const struct config_stream *stream = &config->streams[alarm->stream];
    const uint32_t channels = alarm->channels != NULL ? alarm->channel_count : 1;
    for (uint32_t c = 0; c < channels; c++) {
        if (alarm->channels != NULL && !alarm->channels[c])
            continue;
        const int32_t channel = alarm->channels != NULL ? (int32_t)c : -1;
        struct alarm_item *item = alarm->analysis >= 0
                                      ? add_figure(making, config, alarm, channel)
                                      : add(making, stream, alarm->name, alarm->quantity, channel,
                                            alarm->within_ns, &alarm->rule);
        if (item == NULL)
            return;
        item->exec = alarm->exec;
        snprintf(item->unit, sizeof item->unit, "%s", alarm->unit);
    }
}

static bool is_used(const struct config_stream *stream, uint32_t channel)
{
    return stream->unused == NULL || !stream->unused[channel];
}

/* Those that need no section. */
static void add_own(struct making *making, const struct config_stream *stream)
{
    const struct alarm_rule flat = {.has_above = true,
                                    .above = (double)stream->flat_ns / NS_PER_SECOND};
    for (uint32_t c = 0; stream->flat_ns > 0 && c < stream->source.channels; c++) {
        struct alarm_item *item = is_used(stream, c) ? add(making, stream, ALARM_NAME_FLAT,
                                                           ALARM_FLAT, (int32_t)c, 0, &flat)
                                                     : NULL;
        if (item != NULL)
            snprintf(item->unit, sizeof item->unit, "s");
    }
    for (uint32_t c = 0; c < stream->source.channels; c++) {
        const double floor = is_used(stream, c) ? alarm_noise_floor(making->alarms, stream, c) : 0;
        const struct alarm_rule noise = {.has_below = true, .below = floor / 2, .hysteresis = 0.2};
        struct alarm_item *item = floor > 0 ? add(making, stream, ALARM_NAME_NOISE, ALARM_LEVEL,
                                                  (int32_t)c, noise_within_ns, &noise)
                                            : NULL;
        if (item != NULL)
            snprintf(item->unit, sizeof item->unit, "%s", stream->scales[c].unit);
    }
}

/* ---- going on ---------------------------------------------------------------------------- */

static bool same_item(const struct alarm_item *a, const struct alarm_item *b)
{
    return a->quantity == b->quantity && a->reader.channel == b->reader.channel &&
           strcmp(a->name, b->name) == 0 && strcmp(a->stream, b->stream) == 0 &&
           strcmp(a->analysis, b->analysis) == 0 && strcmp(a->figure, b->figure) == 0;
}

/* Those of before that are not idle go on in the new ones. Both stand in the order of their
 * configuration, so the search for one begins where the last one was found. */
static void go_on(const struct alarms *alarms, struct making *making)
{
    uint32_t at = 0;
    for (uint32_t i = 0; i < alarms->count; i++) {
        const struct alarm_item *old = &alarms->items[i];
        if (!old->listed && old->alarm.phase == ALARM_IDLE)
            continue;
        uint32_t tried = 0;
        while (tried < making->count && !same_item(old, &making->items[at])) {
            at = (at + 1) % making->count;
            tried++;
        }
        if (tried == making->count) {
            if (old->alarm.phase == ALARM_ACTIVE)
                log_notice("stream %s: alarm %s ended: it is not in the configuration any more",
                           old->stream, old->name);
            continue;
        }
        struct alarm_item *item = &making->items[at];
        item->alarm = old->alarm;
        item->value = old->value;
        item->listed = old->listed;
        item->acknowledged = old->acknowledged;
        item->lasted_ns = old->lasted_ns;
        item->raised_realtime_ns = old->raised_realtime_ns;
        item->ended_realtime_ns = old->ended_realtime_ns;
        if (item->pipeline == old->pipeline) {
            item->reader.flat = old->reader.flat;
            item->reader.next = old->reader.next;
            item->reader.mode = old->reader.mode == FLAT_PROVEN ? FLAT_PROVEN : FLAT_LIVE;
        }
    }
}

void alarm_items_free(struct alarm_item *items, uint32_t count)
{
    for (uint32_t i = 0; i < count; i++) {
        alarm_reader_free(&items[i].reader);
        free(items[i].of_analysis);
    }
    free(items);
}

void alarm_items_update(struct alarms *alarms, int64_t now_ns)
{
    const struct config *config = alarms->process->config;
    const uint64_t version = pipelines_version(alarms->process->pipelines);
    if (alarms->config == config && alarms->version == version)
        return;
    struct making making = {.alarms = alarms, .now_ns = now_ns};
    alarm_events_begin(&alarms->events, alarms->process->pipelines);
    for (uint32_t i = 0; i < config->alarm_count; i++) {
        const char *stream = config->streams[config->alarms[i].stream].name;
        making.pipeline = pipelines_find(alarms->process->pipelines, stream);
        add_configured(&making, config, &config->alarms[i]);
    }
    for (uint32_t i = 0; i < config->stream_count; i++) {
        making.pipeline = pipelines_find(alarms->process->pipelines, config->streams[i].name);
        add_own(&making, &config->streams[i]);
    }
    go_on(alarms, &making);
    flat_lines_forget(&alarms->flat);
    alarm_items_free(alarms->items, alarms->count);
    alarm_events_end(&alarms->events);
    alarms->items = making.items;
    alarms->count = making.count;
    alarms->config = config;
    alarms->version = version;
    alarms->at_value = alarms->at_flat = 0;
}
