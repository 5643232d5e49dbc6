/* What alarms say, to log, followers of events, OSC and service manager: see alarms_internal.h. */
#include <jansson.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "control/alarms_internal.h"
#include "core/clock.h"
#include "core/event.h"
#include "io/osc/hub.h"
#include "io/osc/server.h"
#include "io/osc/subscriptions.h"

enum { TEXT_BYTES = 512, VALUE_BYTES = 48, CHANNELS_BYTES = 200, SUBJECT_BYTES = 132 };

/* ---- sentences --------------------------------------------------------------------------- */

static const char *value_text(const struct alarm_item *item, double value, char *text)
{
    char duration[24];
    if (item->amplitude || item->quantity == ALARM_FIELD || item->quantity == ALARM_SUM) {
        snprintf(text, VALUE_BYTES, "%.6g%s%s", value, item->unit[0] != '\0' ? " " : "",
                 item->unit);
        return text;
    }
    switch (alarm_quantity_dimension(item->quantity)) {
    case DIMENSION_RATIO:
        snprintf(text, VALUE_BYTES, "%.4g %%", 100 * value);
        break;
    case DIMENSION_TIME:
        snprintf(text, VALUE_BYTES, "%s",
                 duration_text((int64_t)(value * NS_PER_SECOND), duration));
        break;
    case DIMENSION_FREQUENCY:
        quantity_print(DIMENSION_FREQUENCY, value, text, VALUE_BYTES);
        break;
    case DIMENSION_AMPLITUDE:
        snprintf(text, VALUE_BYTES, "%.4g %s", value, item->unit);
        break;
    default:
        snprintf(text, VALUE_BYTES, "%.6g%s", value, item->quantity == ALARM_PPM ? " ppm" : "");
        break;
    }
    return text;
}

const char *alarm_item_quantity(const struct alarm_item *item)
{
    return item->figure[0] != '\0' ? item->figure : alarm_quantity_name(item->quantity);
}

/* "level", "peak_db of bursts" */
static const char *subject_of(const struct alarm_item *item, char text[SUBJECT_BYTES])
{
    snprintf(text, SUBJECT_BYTES, "%s%s%s", alarm_item_quantity(item),
             item->analysis[0] != '\0' ? " of " : "", item->analysis);
    return text;
}

const char *alarm_sentence_of(const struct alarm_item *item, char *text, size_t bytes)
{
    char subject[SUBJECT_BYTES];
    char value[VALUE_BYTES], limit[VALUE_BYTES];
    if (item->alarm.phase != ALARM_ACTIVE && item->quantity == ALARM_DEVICE)
        snprintf(text, bytes, "the stream runs on the first device of its list");
    else if (item->alarm.phase != ALARM_ACTIVE && item->quantity == ALARM_FLAT)
        snprintf(text, bytes, "codes differ");
    else if (item->alarm.phase != ALARM_ACTIVE && isnan(item->value))
        snprintf(text, bytes, "%s: no event", subject_of(item, subject));
    else if (item->alarm.phase != ALARM_ACTIVE)
        snprintf(text, bytes, "%s %s", subject_of(item, subject),
                 value_text(item, item->value, value));
    else if (item->quantity == ALARM_DEVICE)
        snprintf(text, bytes, "the stream does not run on the first device of its list");
    else if (item->quantity == ALARM_FLAT && item->alarm.above)
        snprintf(text, bytes, "all codes are equal for more than %s",
                 value_text(item, item->rule.above, limit));
    else
        snprintf(text, bytes, "%s %s is %s %s", subject_of(item, subject),
                 value_text(item, item->value, value), item->alarm.above ? "above" : "below",
                 value_text(item, alarm_limit(&item->alarm, &item->rule), limit));
    return text;
}

static bool told(const struct alarm_item *item, enum alarm_change change)
{
    return item->told && item->change == change;
}

/* "1-4, 7": the channels of those told, cut where the text is full. */
static void channels_text(const struct alarm_item *from, const struct alarm_item *until,
                          enum alarm_change change, char *text)
{
    size_t used = 0;
    text[0] = '\0';
    for (const struct alarm_item *item = from; item < until; item++) {
        if (!told(item, change))
            continue;
        const struct alarm_item *last = item;
        while (last + 1 < until && told(last + 1, change) &&
               last[1].reader.channel == last->reader.channel + 1)
            last++;
        char run[32];
        int length = snprintf(run, sizeof run, last > item ? "%d-%d" : "%d",
                              item->reader.channel + 1, last->reader.channel + 1);
        if (used + (size_t)length + 8 > CHANNELS_BYTES) {
            snprintf(text + used, CHANNELS_BYTES - used, " ...");
            return;
        }
        used +=
            (size_t)snprintf(text + used, CHANNELS_BYTES - used, "%s%s", used > 0 ? ", " : "", run);
        item = last;
    }
}

/* Of one channel, or of the stream. */
static void text_of_one(const struct alarm_item *item, char *text)
{
    char sentence[TEXT_BYTES / 2], duration[24];
    alarm_sentence_of(item, sentence, sizeof sentence);
    if (item->change == ALARM_RAISED)
        snprintf(text, TEXT_BYTES, "alarm %s: %s", item->name, sentence);
    else
        snprintf(text, TEXT_BYTES, "alarm %s ended after %s: %s", item->name,
                 duration_text(item->lasted_ns, duration), sentence);
}

static void text_of_many(const struct alarm_item *first, const char *channels, char *text)
{
    char sentence[TEXT_BYTES / 2];
    if (first->change == ALARM_RAISED)
        snprintf(text, TEXT_BYTES, "alarm %s on channels %s; on the first of them %s", first->name,
                 channels, alarm_sentence_of(first, sentence, sizeof sentence));
    else
        snprintf(text, TEXT_BYTES, "alarm %s ended on channels %s", first->name, channels);
}

/* ---- to whom ----------------------------------------------------------------------------- */

static json_t *real(double value)
{
    return isfinite(value) ? json_real(value) : json_null();
}

static char *file_text(const struct alarm_item *first, const struct alarm_item *until,
                       int64_t realtime_ns, const char *text)
{
    json_t *object = json_object(), *channels = json_array();
    for (const struct alarm_item *item = first; item < until; item++)
        if (told(item, first->change) && item->reader.channel >= 0)
            json_array_append_new(channels, json_integer(item->reader.channel + 1));
    json_object_set_new(object, "alarm", json_string(first->name));
    json_object_set_new(object, "state",
                        json_string(first->change == ALARM_RAISED ? "raised" : "ended"));
    json_object_set_new(object, "stream", json_string(first->stream));
    json_object_set_new(object, "channels", channels);
    json_object_set_new(object, "quantity", json_string(alarm_item_quantity(first)));
    if (first->analysis[0] != '\0')
        json_object_set_new(object, "analysis", json_string(first->analysis));
    json_object_set_new(object, "value", real(first->value));
    json_object_set_new(object, "limit", real(alarm_limit(&first->alarm, &first->rule)));
    json_object_set_new(object, "unit", json_string(first->unit));
    json_object_set_new(object, "realtime_ns", json_integer(realtime_ns));
    json_object_set_new(object, "text", json_string(text));
    char *dumped = json_dumps(object, JSON_COMPACT);
    json_decref(object);
    return dumped;
}

/* A message for each channel, to those who have subscribed to the stream's alarms. */
static void tell_osc(const struct alarms *alarms, const struct alarm_item *first,
                     const struct alarm_item *until, const char *text)
{
    const struct osc_hub *hub = alarms->process->environment->osc;
    struct osc *server = hub != NULL ? hub->server : NULL;
    for (const struct alarm_item *item = first; server != NULL && item < until; item++) {
        if (!told(item, first->change))
            continue;
        const struct osc_alarm alarm = {
            .name = item->name,
            .raised = item->change == ALARM_RAISED,
            .channel = item->reader.channel + 1,
            .value = (float)item->value,
            .text = text,
        };
        osc_subscriptions_tell(osc_subscriptions(server), item->stream, &alarm);
    }
}

static void tell(struct alarms *alarms, const struct alarm_item *first,
                 const struct alarm_item *until, uint32_t count)
{
    const bool raised = first->change == ALARM_RAISED;
    char text[TEXT_BYTES], channels[CHANNELS_BYTES], subject[32] = "";
    if (count == 1 || first->reader.channel < 0) {
        text_of_one(first, text);
        if (first->reader.channel >= 0)
            snprintf(subject, sizeof subject, "channel %d: ", first->reader.channel + 1);
    } else {
        channels_text(first, until, first->change, channels);
        text_of_many(first, channels, text);
    }
    event_raise(&(struct event_subject){.kind = raised ? EVENT_ALARM : EVENT_ALARM_END,
                                        .severity = raised ? LOG_LEVEL_WARNING : LOG_LEVEL_NOTICE,
                                        .stream = first->stream},
                "%s%s", subject, text);
    tell_osc(alarms, first, until, text);
    const char *state_directory = alarms->process->config->daemon.state_directory;
    if (first->exec && state_directory != NULL) {
        const int64_t realtime_ns = clock_realtime_ns();
        alarm_files_put(alarms->files, state_directory, first->name, realtime_ns,
                        file_text(first, until, realtime_ns, text));
    }
}

void alarm_tell(struct alarms *alarms, const struct alarm_item *from,
                const struct alarm_item *until)
{
    static const enum alarm_change changes[] = {ALARM_ENDED, ALARM_RAISED};
    for (int i = 0; i < 2; i++) {
        const struct alarm_item *first = NULL;
        uint32_t count = 0;
        for (const struct alarm_item *item = from; item < until; item++) {
            if (!told(item, changes[i]))
                continue;
            first = first != NULL ? first : item;
            count++;
        }
        if (count > 0)
            tell(alarms, first, until, count);
    }
}
