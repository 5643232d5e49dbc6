/* Figures of analyses for alarms: see alarm_events.h. */
#include "control/alarm_events.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "analysis/fields.h"
#include "core/clock.h"

/* ---- analyses ---------------------------------------------------------------------------- */

static const struct pipeline_analysis *root_of(const struct pipeline_analysis *analysis)
{
    const struct pipeline *pipeline = analysis->pipeline;
    for (uint32_t i = 0; i < pipeline->analysis_count; i++)
        if (&pipeline->analyses[i].options == analysis->options.upstream)
            return root_of(&pipeline->analyses[i]);
    return analysis;
}

static uint64_t sum_of(const uint64_t dropped[DROPS])
{
    uint64_t sum = 0;
    for (int drop = 0; drop < DROPS; drop++)
        sum += dropped[drop];
    return sum;
}

/* What it and those whose events it takes have dropped, frames and events alike. */
static uint64_t lost_of(const struct pipeline_analysis *analysis)
{
    struct analysis_stage_ledger ledger;
    const struct pipeline *pipeline = analysis->pipeline;
    analysis_stage_ledger(analysis->stage, &ledger);
    uint64_t lost = sum_of(ledger.dropped) + sum_of(ledger.taken_dropped);
    for (uint32_t i = 0; i < pipeline->analysis_count; i++)
        if (&pipeline->analyses[i].options == analysis->options.upstream)
            lost += lost_of(&pipeline->analyses[i]);
    return lost;
}

static void read_ledgers(struct followed_analysis *of, int64_t now_ns)
{
    struct analysis_stage_ledger ledger;
    analysis_stage_ledger(of->root->stage, &ledger);
    of->live = ledger.live;
    of->frames = ledger.live + ledger.dead;
    const uint64_t lost = lost_of(of->analysis);
    if (lost > of->lost)
        of->lost_ns = now_ns;
    of->lost = lost;
}

static struct followed_analysis *find_store(const struct alarm_events *events, uint64_t store)
{
    struct followed_analysis *of = events->all;
    while (of != NULL && of->store != store)
        of = of->next;
    return of;
}

static void follow(struct alarm_events *events, const struct pipeline_analysis *analysis)
{
    const struct analysis_store *store = analysis_stage_store(analysis->stage);
    struct followed_analysis *of = find_store(events, analysis_store_id(store));
    if (of == NULL) {
        of = calloc(1, sizeof *of);
        if (of == NULL)
            return;
        of->store = analysis_store_id(store);
        of->lost = lost_of(analysis);
        of->next = events->all;
        events->all = of;
    } else if (!of->watched) {
        of->after = analysis_store_last(store); /* who watches it now begins here */
    }
    of->seen = true;
    of->watched = false;
    of->analysis = analysis;
    of->root = root_of(analysis);
}

void alarm_events_begin(struct alarm_events *events, const struct pipelines *pipelines)
{
    const struct pipeline *pipeline;
    for (struct followed_analysis *of = events->all; of != NULL; of = of->next)
        of->seen = false;
    for (uint32_t at = 0; (pipeline = pipelines_next(pipelines, PIPELINES_RUNNING, &at)) != NULL;)
        for (uint32_t i = 0; i < pipeline->analysis_count; i++)
            follow(events, &pipeline->analyses[i]);
}

void alarm_events_end(struct alarm_events *events)
{
    for (struct followed_analysis **at = &events->all; *at != NULL;) {
        struct followed_analysis *of = *at;
        if (of->seen) {
            at = &of->next;
            continue;
        }
        *at = of->next;
        free(of);
    }
}

void alarm_events_close(struct alarm_events *events)
{
    for (struct followed_analysis *of = events->all; of != NULL; of = of->next)
        of->seen = false;
    alarm_events_end(events);
}

struct followed_analysis *alarm_events_find(const struct alarm_events *events,
                                            const struct pipeline *pipeline, const char *name)
{
    for (struct followed_analysis *of = events->all; of != NULL; of = of->next)
        if (of->seen && of->analysis->pipeline == pipeline &&
            strcmp(of->analysis->config->name, name) == 0)
            return of;
    return NULL;
}

static void read_events(struct followed_analysis *of, int64_t now_ns, uint32_t *left,
                        void (*take)(void *context, const struct followed_analysis *of,
                                     const struct analysis_event *event),
                        void *context)
{
    const struct analysis_store *store = analysis_stage_store(of->analysis->stage);
    struct stored_event stored;
    uint64_t missed;
    while (*left > 0 && analysis_store_next(store, &of->after, &stored, &missed)) {
        if (missed > 0)
            of->lost_ns = now_ns;
        take(context, of, &stored.event);
        --*left;
    }
}

void alarm_events_read(struct alarm_events *events, int64_t now_ns, uint32_t most,
                       void (*take)(void *context, const struct followed_analysis *of,
                                    const struct analysis_event *event),
                       void *context)
{
    uint32_t watched = 0;
    for (struct followed_analysis *of = events->all; of != NULL; of = of->next) {
        read_ledgers(of, now_ns);
        watched += of->watched;
    }
    for (struct followed_analysis *of = events->all; of != NULL; of = of->next) {
        uint32_t left = watched > 0 ? most / watched + 1 : 0;
        if (of->watched)
            read_events(of, now_ns, &left, take, context);
    }
}

/* ---- figures ----------------------------------------------------------------------------- */

/* What the alarm's quantity is of this analysis; false: it has none such. */
static bool find_figure(struct alarm_figure *figure, const struct config_alarm *alarm)
{
    const struct pipeline_analysis *analysis = figure->of->analysis;
    const struct event_totals *totals = analysis_stage_totals(analysis->stage);
    uint32_t count;
    const struct analysis_field *fields =
        analysis->config->type->fields(&analysis->options, &count);
    switch (alarm->quantity) {
    case ALARM_FIELD:
        figure->field = field_find(fields, count, alarm->figure, &figure->index);
        return figure->field != NULL;
    case ALARM_SUM:
        return event_total_find(alarm->figure + strlen("sum "), &figure->total) &&
               event_totals_has(totals, figure->total);
    default:
        return true;
    }
}

struct alarm_figure *alarm_figure_make(struct followed_analysis *of,
                                       const struct config_alarm *alarm, int32_t channel,
                                       int64_t now_ns)
{
    struct alarm_figure *figure = calloc(1, sizeof *figure);
    if (figure == NULL)
        return NULL;
    figure->of = of;
    figure->quantity = alarm->quantity;
    figure->channel = channel;
    figure->made_ns = now_ns;
    figure->within_ns = figure->window.length_ns = figure->spread.length_ns = alarm->within_ns;
    if (channel >= (int32_t)of->analysis->options.stream.channels || !find_figure(figure, alarm)) {
        free(figure);
        return NULL;
    }
    return figure;
}

void alarm_figure_take(struct alarm_figure *figure, const struct analysis_event *event,
                       int64_t now_ns)
{
    if (figure->channel < 0 || (uint32_t)figure->channel == event->channel)
        spread_put(&figure->spread, field_value(figure->field, figure->index, event), now_ns);
}

/* ---- values ------------------------------------------------------------------------------ */

static double total_of(const struct alarm_figure *figure)
{
    const struct event_totals *totals = analysis_stage_totals(figure->of->analysis->stage);
    struct event_sums sums;
    if (figure->quantity != ALARM_EVENTS && figure->quantity != ALARM_SUM)
        return 0;
    event_totals_read(totals, figure->channel < 0 ? 0 : (uint32_t)figure->channel, &sums);
    const double value =
        figure->quantity == ALARM_EVENTS ? (double)sums.events : sums.sums[figure->total];
    return isnan(value) ? 0 : value;
}

/* Whether what was not seen did not happen: the window is whole, half of it at least was live, and
 * nothing was lost. A record says by itself how long it is. */
static bool is_certain(const struct alarm_figure *figure, const struct window_growth *growth,
                       int64_t now_ns)
{
    const struct followed_analysis *of = figure->of;
    const struct analysis_stream *stream = &of->root->options.stream;
    const double live = growth->values[1], frames = growth->values[2];
    const double wanted =
        stream->records ? frames : (double)growth->span_ns / NS_PER_SECOND * stream->rate_hz;
    const bool lost = of->lost_ns != 0 && now_ns - of->lost_ns <= growth->span_ns;
    return growth->whole && !lost && live > 0 && live >= wanted / 2;
}

/* Hits and sources come when there is something; the others at their times, so that none within a
 * window says nothing. */
static bool is_sporadic(const struct alarm_figure *figure)
{
    const enum analysis_event_kind kind = figure->of->analysis->config->type->emits;
    return kind == ANALYSIS_HIT || kind == ANALYSIS_SOURCE;
}

static double field_of(const struct alarm_figure *figure, const struct alarm_rule *rule, bool above,
                       int64_t now_ns, bool *none)
{
    double least, greatest;
    *none = false;
    if (spread_read(&figure->spread, now_ns, &least, &greatest)) {
        if (above || (rule->has_above && greatest > rule->above))
            return greatest;
        return rule->has_below ? least : greatest;
    }
    *none = is_sporadic(figure);
    return !*none && figure->spread.count > 0 ? figure->spread.last : (double)NAN;
}

double alarm_figure_value(struct alarm_figure *figure, const struct alarm_rule *rule, bool above,
                          int64_t now_ns, bool *none)
{
    const struct followed_analysis *of = figure->of;
    const double counters[WINDOW_VALUES] = {total_of(figure), (double)of->live, (double)of->frames};
    const struct window_growth growth = window_read(&figure->window, counters, now_ns);
    const bool certain = is_certain(figure, &growth, now_ns);
    double value;
    *none = false;
    if (figure->quantity == ALARM_DEAD)
        return growth.whole && growth.values[2] > 0 ? 1 - growth.values[1] / growth.values[2]
                                                    : (double)NAN;
    if (figure->quantity == ALARM_FIELD) {
        value = field_of(figure, rule, above, now_ns, none);
        *none = *none && certain;
        return certain || alarm_beyond(rule, value) ? value : (double)NAN;
    }
    value = growth.values[0];
    return certain || (rule->has_above && value > rule->above) ? value : (double)NAN;
}
