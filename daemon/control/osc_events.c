/* OSC events: see osc_events.h. */
#include "control/osc_events.h"

#include <stdio.h>
#include <stdlib.h>
#include <uv.h>

enum {
    TURN_MS = 50,
    EVENTS_A_TURN = 512, /* of one analysis: some 10 000 a second */
};

/* Where one store has been read up to. */
struct place {
    struct place *next;
    uint64_t store, after;
    bool seen; /* in this turn */
};

struct osc_events {
    const struct process *process;
    struct osc *osc;
    uv_timer_t timer;
    struct place *places;
    struct stored_event event; /* room for one */
};

/* Finds or begins it: what comes later is read from its first event on. */
static struct place *place_of(struct osc_events *events, const struct analysis_store *store)
{
    const uint64_t id = analysis_store_id(store);
    struct place *place = events->places;
    while (place != NULL && place->store != id)
        place = place->next;
    if (place == NULL) {
        place = calloc(1, sizeof *place);
        if (place == NULL)
            return NULL;
        place->store = id;
        place->next = events->places;
        events->places = place;
    }
    place->seen = true;
    return place;
}

static void sweep(struct osc_events *events)
{
    for (struct place **at = &events->places; *at != NULL;) {
        struct place *place = *at;
        if (place->seen) {
            place->seen = false;
            at = &place->next;
            continue;
        }
        *at = place->next;
        free(place);
    }
}

static void tell(struct osc_events *events, const struct pipeline_analysis *analysis,
                 struct place *place)
{
    struct osc_subscriptions *subs = osc_subscriptions(events->osc);
    const char *stream = analysis->options.stream.name;
    const struct analysis_store *store = analysis_stage_store(analysis->stage);
    struct osc_event event = {.analysis = analysis->config->name,
                              .kind = analysis_event_word(analysis->config->type->emits),
                              .event = &events->event.event};
    event.fields = analysis->config->type->fields(&analysis->options, &event.field_count);
    for (int i = 0; i < EVENTS_A_TURN; i++) {
        uint64_t missed;
        const bool got = analysis_store_next(store, &place->after, &events->event, &missed);
        osc_subscriptions_missed(subs, stream, missed);
        if (!got)
            return;
        osc_subscriptions_event(subs, stream, &event);
    }
}

static void on_timer(uv_timer_t *timer)
{
    struct osc_events *events = timer->data;
    const struct pipeline *pipeline;
    for (uint32_t at = 0;
         (pipeline = pipelines_next(events->process->pipelines, PIPELINES_RUNNING, &at)) != NULL;) {
        const bool wanted = osc_subscriptions_want_events(osc_subscriptions(events->osc),
                                                          pipeline->stream_config->name);
        for (uint32_t i = 0; i < pipeline->analysis_count; i++) {
            const struct analysis_store *store = analysis_stage_store(pipeline->analyses[i].stage);
            struct place *place = place_of(events, store);
            if (place != NULL && wanted)
                tell(events, &pipeline->analyses[i], place);
            else if (place != NULL)
                place->after = analysis_store_last(store);
        }
    }
    sweep(events);
}

void osc_events_tell_fields(const struct pipeline *pipeline, struct osc_peer *peer)
{
    char address[128], name[96];
    for (uint32_t i = 0; i < pipeline->analysis_count; i++) {
        const struct pipeline_analysis *analysis = &pipeline->analyses[i];
        const struct analysis_ops *type = analysis->config->type;
        uint32_t count;
        const struct analysis_field *fields = type->fields(&analysis->options, &count);
        lo_message message = lo_message_new();
        lo_message_add_string(message, analysis->config->name);
        lo_message_add_string(message, analysis_event_word(type->emits));
        for (uint32_t f = 0; f < count; f++) {
            for (uint32_t n = 0; n < (fields[f].repeat > 0 ? fields[f].repeat : 1); n++) {
                snprintf(name, sizeof name, fields[f].repeat > 0 ? "%s_%u" : "%s", fields[f].name,
                         n + 1);
                lo_message_add_string(message, name);
            }
        }
        snprintf(address, sizeof address, "/convolvd/%s/fields", analysis->options.stream.name);
        osc_answer(peer, address, message);
    }
}

int osc_events_open(const struct process *process, struct osc *osc, struct osc_events **out)
{
    struct osc_events *events = calloc(1, sizeof *events);
    if (events == NULL)
        return ERROR_MEMORY;
    events->process = process;
    events->osc = osc;
    uv_timer_init(process->environment->loop, &events->timer);
    uv_unref((uv_handle_t *)&events->timer);
    events->timer.data = events;
    uv_timer_start(&events->timer, on_timer, TURN_MS, TURN_MS);
    *out = events;
    return 0;
}

static void closed(uv_handle_t *handle)
{
    struct osc_events *events = handle->data;
    for (struct place *place = events->places; place != NULL; place = place->next)
        place->seen = false;
    sweep(events);
    free(events);
}

void osc_events_close(struct osc_events *events)
{
    if (events != NULL)
        uv_close((uv_handle_t *)&events->timer, closed);
}
