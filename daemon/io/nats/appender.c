/* A daemon's part in a log: see appender.h. */
#include "io/nats/appender.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/clock.h"
#include "core/log.h"
#include "io/nats/appender_state.h"

enum { TAG_NEWEST = 1 };

static const int64_t look_ns = 100 * NS_PER_MS;
/* Without an outcome for so long, an append is followed by no other. */
static const int64_t mute_ns = 200 * NS_PER_MS;
static const int64_t unstored_ns = 60 * NS_PER_SECOND;
/* Between two requests to make a log that does not exist: servers that elect a leader answer late.
 */
static const int64_t create_again_ns = 1 * NS_PER_SECOND;

/* ---- records ----------------------------------------------------------------------------- */

/* How far the log is behind the signal, by both clocks. */
static void note_lag(struct nats_appender *s, const struct record *record)
{
    if (record->frames == 0 || record->capture_ns == 0 || !(record->rate_hz > 0))
        return;
    s->figures.lag_known = true;
    s->figures.lag_ns = record->appended_ns - record->capture_ns -
                        clock_round_ns((double)record->frames * 1e9 / record->rate_hz);
}

bool appender_send(struct nats_appender *s, const struct log_end *expect, uint64_t token,
                   struct record *record)
{
    const struct cluster *cluster = s->options.cluster;
    record->term = s->o.term;
    record->owner = cluster->identity;
    record->plan = nats_text_span(s->plan);
    record->filters = nats_text_span(s->filters);
    record->config = nats_text_span(cluster->config);
    record->worker = nats_text_span(cluster->worker);
    record->state = nats_carried_span(&s->carried, record->kind, s->release_to);
    record->events = s->events;
    record->checkpoint = s->checkpoint;
    record->appended_ns = clock_realtime_ns();
    record->chain_before = s->last.chain;
    record->chain = record_chain(record, record->frames);
    if (!nats_link_append(s->link, expect, token, record))
        return false;
    s->last = *record;
    nats_forget_spans(&s->last);
    s->figures.appended++;
    note_lag(s, record);
    return true;
}

struct record appender_bare(const struct nats_appender *s, enum record_kind kind)
{
    struct record record = s->last;
    const uint64_t frames = record.next - record.first;
    record.kind = kind;
    record.timeline += frames;
    if (record.capture_ns != 0 && record.rate_hz > 0)
        record.capture_ns += clock_round_ns((double)frames * 1e9 / record.rate_hz);
    record.flags &= ~(uint32_t)(RECORD_EPOCH_START | RECORD_PARTIAL);
    record.flags |= kind == RECORD_END ? RECORD_EPOCH_END : 0; /* and those behind it likewise */
    record.from = record.first = record.next;
    record.frames = 0;
    return record;
}

static void send_bare(struct nats_appender *s, const struct ownership_action *action,
                      enum record_kind kind)
{
    struct record record = appender_bare(s, kind);
    /* Without room it is as one that got lost: patience ends the term. */
    (void)appender_send(s, &action->expect, action->token, &record);
}

/* ---- what has happened ------------------------------------------------------------------- */

static void note_newest(struct nats_appender *s, const struct nats_event *event)
{
    s->newest_ns = 0;
    if (event->kind == LINK_READ) {
        const struct record *r = &event->record;
        s->last = *r;
        s->newest_ns = event->appended_ns;
        s->newest_owner = r->owner;
        s->checkpoint = r->checkpoint;
        if (!nats_carried_read(&s->carried, r))
            log_error("%s: out of memory for what the log says of changes", s->options.name);
        nats_copy_span(s->newest_plan, sizeof s->newest_plan, &r->plan);
        nats_copy_span(s->newest_config, sizeof s->newest_config, &r->config);
        nats_copy_span(s->figures.owner, sizeof s->figures.owner, &r->worker);
        if (r->kind == RECORD_RELEASE)
            s->figures.owner[0] = '\0';
        nats_forget_spans(&s->last);
    } else {
        s->last = (struct record){.epoch = s->options.input ? event->sequence : 0};
        (void)nats_carried_set(&s->carried, NULL, 0);
        s->checkpoint = 0;
        s->newest_plan[0] = s->newest_config[0] = '\0';
        s->figures.owner[0] = '\0';
    }
}

static void take_read(struct nats_appender *s, int64_t now_ns, const struct nats_event *event)
{
    struct log_mark mark = {0};
    if (s->o.state != OWNERSHIP_FOLLOWING && s->o.state != OWNERSHIP_READING)
        return; /* late: what it says is not what this term stands on */
    if (event->kind == LINK_READ)
        nats_mark_of(event, &mark);
    else /* its records have become too old: it goes on behind them, and nobody owns it */
        mark = (struct log_mark){.end.sequence = event->sequence, .released = event->sequence > 0};
    if (event->kind == LINK_READ && mark.released)
        mark.given_to = nats_carried_for(&event->record, s->options.cluster->worker);
    note_newest(s, event);
    ownership_read(&s->o, now_ns, &mark);
}

/* Somebody answers for the log: without presence, that is not expected. */
static void note_other(struct nats_appender *s, uint64_t term)
{
    s->other_lives = s->o.state == OWNERSHIP_FOLLOWING && term == s->o.newest.end.term &&
                     s->newest_owner != s->options.cluster->identity;
    if (!s->other_lives || s->options.presence != NULL || term == s->told_other)
        return;
    log_notice("%s: %s appends the %s of partition %s: this gateway waits until nobody does, and "
               "appends nothing; where its input is another one, give it a `partition` of its own",
               s->options.name, s->figures.owner, s->options.kind, s->options.partition);
    s->told_other = term;
}

/* The servers say that there is no such log. One of several replicas that has existed does not
 * vanish by a fault of one server: only an administrator makes it again. */
static void create_log(struct nats_appender *s, int64_t now_ns)
{
    if (s->exists && s->options.log.replicas > 1) {
        if (!s->told_gone)
            log_error("%s: the %s of partition %s is gone; where that is meant, make it again: "
                      "convolvctl cluster create %s",
                      s->options.name, s->options.kind, s->options.partition, s->options.partition);
        s->told_gone = true;
    } else if (now_ns >= s->create_ns) {
        nats_link_create(s->link, &s->options.log);
        s->create_ns = now_ns + create_again_ns;
    }
    ownership_unread(&s->o, now_ns);
}

static void note_refused(struct nats_appender *s, const struct nats_event *event)
{
    s->figures.refused++;
    log_debug("%s: the log of %s refuses an append: %s", s->options.name, s->options.partition,
              event->text);
}

static void note_unstored(struct nats_appender *s, const struct nats_event *event)
{
    s->figures.refused++;
    if (event->stopped)
        log_limited(&s->unstored, unstored_ns, LOG_LEVEL_ERROR,
                    "%s: the servers store no record of the %s of partition %s: %s; see their disk "
                    "and memory, and max_file_store and max_memory_store of their configuration",
                    s->options.name, s->options.kind, s->options.partition, event->text);
}

static void note_damaged(struct nats_appender *s, const struct nats_event *event)
{
    if (!s->told_damaged)
        log_error("%s: the newest record of the %s of partition %s (%" PRIu64 ") is damaged: %s",
                  s->options.name, s->options.kind, s->options.partition, event->sequence,
                  event->text);
    s->told_damaged = true;
}

static void note_created(struct nats_appender *s, const struct nats_event *event)
{
    s->exists = true;
    if (event->made)
        log_info("%s: has made the %s of partition %s", s->options.name, s->options.kind,
                 s->options.partition);
}

static void note_failed(struct nats_appender *s, const struct nats_event *event)
{
    if (!s->told_failed)
        log_error("%s: there is no %s of partition %s, and it cannot be made: %s", s->options.name,
                  s->options.kind, s->options.partition, event->text);
    s->told_failed = true;
}

static void take_event(struct nats_appender *s, int64_t now_ns, const struct nats_event *event)
{
    struct ownership *o = &s->o;
    switch (event->kind) {
    case LINK_APPENDED:
        s->figures.acknowledged++;
        ownership_appended(o, now_ns, event->token, event->sequence);
        break;
    case LINK_REFUSED:
        note_refused(s, event);
        ownership_refused(o, now_ns, event->token);
        break;
    case LINK_UNSTORED:
        note_unstored(s, event);
        ownership_failed(o, now_ns, event->token,
                         event->stopped ? "the servers store no records of it"
                                        : "no server takes its records now");
        break;
    case LINK_UNSENT: /* what follows it cannot be in its place */
        ownership_failed(o, now_ns, event->token, "a record could not be sent");
        break;
    case LINK_READ:
        s->exists = true;
        s->told_gone = false;
        take_read(s, now_ns, event);
        break;
    case LINK_EMPTY:
        s->exists = true;
        (void)nats_link_ask_length(s->link);
        break;
    case LINK_LENGTH:
        if (event->sequence > 0 && event->first <= event->sequence)
            ownership_unread(o, now_ns); /* somebody has appended since */
        else
            take_read(s, now_ns, event);
        break;
    case LINK_ABSENT:
        create_log(s, now_ns);
        break;
    case LINK_UNREAD:
        ownership_unread(o, now_ns);
        break;
    case LINK_CREATED:
        note_created(s, event);
        ownership_unread(o, now_ns);
        break;
    case LINK_FAILED:
        note_failed(s, event);
        break;
    case LINK_ANSWERED:
        ownership_answered(o, now_ns, event->term);
        note_other(s, event->term);
        break;
    case LINK_NO_RESPONDERS:
        ownership_no_responders(o, now_ns, event->term);
        s->other_lives = false;
        break;
    case LINK_QUESTION:
        nats_successor_hear(s->options.successor, now_ns, event);
        if (ownership_answers(o, event->term))
            nats_link_answer(s->link);
        break;
    case LINK_DAMAGED: /* nobody can append behind it: an operator has to look */
        note_damaged(s, event);
        ownership_unread(o, now_ns);
        break;
    case LINK_CONNECTED: /* what was asked before is not answered any more */
        s->other_lives = false;
        ownership_reconnected(o, now_ns);
        if (s->options.presence != NULL)
            nats_presence_connected(s->options.presence, &s->part);
        break;
    case LINK_TOLD:
        nats_presence_heard(s->options.presence, event);
        break;
    default: /* connections, and what a appender does not ask for */
        break;
    }
}

/* ---- presence ---------------------------------------------------------------------------- */

static bool owns(const struct nats_appender *s)
{
    return s->o.state == OWNERSHIP_OWNING && !s->o.releases;
}

static void tell_differs(struct nats_appender *s, enum standing_bar bar)
{
    if (bar == STANDING_DIFFERS && !s->told_differs)
        log_warning("%s: does not stand for partition %s: its configuration is not that of the "
                    "workers that are there, such as %s; give all of them the same streams, "
                    "filters and sinks of partitions",
                    s->options.name, s->options.partition, s->figures.owner);
    s->told_differs = bar == STANDING_DIFFERS || (s->told_differs && bar == STANDING_LISTENS);
}

/* Where this worker stands for the log now; as owner, whether it hands it over. */
static void look(struct nats_appender *s, int64_t now_ns)
{
    struct nats_presence *presence = s->options.presence;
    if (presence == NULL || now_ns < s->stand_ns || s->closing)
        return;
    s->stand_ns = now_ns + look_ns;
    const struct standing standing = nats_presence_tick(
        presence, &s->part, now_ns, s->options.partition, owns(s) ? "" : s->newest_config);
    s->figures.standing = standing;
    s->figures.load = presence->candidates.own.load;
    s->figures.capacity = presence->candidates.own.capacity;
    tell_differs(s, standing.bar);
    ownership_stand(&s->o, s->may_stand && standing.stands, standing.rank);
    const char *to =
        candidates_hand_over(&presence->candidates, &s->part.turn, now_ns, &standing, owns(s));
    if (to == NULL)
        return;
    log_info("%s: hands partition %s over to %s, which comes before this worker and has room",
             s->options.name, s->options.partition, to);
    nats_appender_release(s, to);
}

/* ---- what to do -------------------------------------------------------------------------- */

static void resume(struct nats_appender *s)
{
    const int64_t stood_ns = clock_realtime_ns() - s->newest_ns;
    s->figures.takes++;
    s->figures.standstill_ns = s->newest_ns != 0 ? stood_ns : 0;
    log_info("%s: owns the %s of partition %s from term %" PRIu64 " on%s%s", s->options.name,
             s->options.kind, s->options.partition, s->o.term,
             s->figures.owner[0] != '\0' ? ", after " : "", s->figures.owner);
    nats_link_own(s->link, s->o.term);
    snprintf(s->figures.owner, sizeof s->figures.owner, "%s", s->options.cluster->worker);
    /* The log ends with the take now; it says of the frames what the record before it said. */
    struct record newest = s->last;
    newest.owner = s->newest_owner;
    newest.plan = nats_text_span(s->newest_plan);
    newest.config = nats_text_span(s->newest_config);
    newest.state = nats_carried_span(&s->carried, RECORD_DATA, "");
    if (s->newest_ns == 0)
        newest.kind = 0;
    s->options.resume(s->options.context, &newest);
}

static void stop(struct nats_appender *s, const char *why)
{
    nats_link_own(s->link, 0);
    s->figures.lag_known = false;
    snprintf(s->figures.why, sizeof s->figures.why, "%s", why);
    log_info("%s: owns the %s of partition %s no more: %s", s->options.name, s->options.kind,
             s->options.partition, why);
    s->options.stop(s->options.context);
}

static void act(struct nats_appender *s, const struct ownership_action *action)
{
    switch (action->kind) {
    case OWNERSHIP_READ:
        nats_link_read(s->link, 0, TAG_NEWEST);
        break;
    case OWNERSHIP_ASK:
        nats_link_ask(s->link, action->term, s->options.successor->says);
        break;
    case OWNERSHIP_TAKE:
        send_bare(s, action, RECORD_TAKE);
        break;
    case OWNERSHIP_BEAT:
        send_bare(s, action, RECORD_BEAT);
        break;
    case OWNERSHIP_RELEASE:
        send_bare(s, action, RECORD_RELEASE);
        break;
    case OWNERSHIP_RESUME:
        resume(s);
        break;
    case OWNERSHIP_STOP:
        stop(s, action->why);
        break;
    case OWNERSHIP_NONE:
        break;
    }
}

static void on_timer(uv_timer_t *timer);

static void set_timer(struct nats_appender *s, int64_t now_ns)
{
    int64_t due = ownership_due(&s->o);
    const int64_t link_due = nats_link_due(s->link);
    due = due < link_due ? due : link_due;
    if (s->options.presence != NULL && !s->closing)
        due = due < s->stand_ns ? due : s->stand_ns;
    if (due == INT64_MAX) {
        uv_timer_stop(&s->timer);
        return;
    }
    /* At least 1 ms: what is due already and yields nothing waits for something to happen. */
    const int64_t wait_ns = due > now_ns ? due - now_ns : 0;
    uv_timer_start(&s->timer, on_timer, (uint64_t)(wait_ns / NS_PER_MS + 1), 0);
}

static void finish_close(struct nats_appender *s);

/* Events, then actions, until there is neither. A callback may append: then it goes round again. */
static void pump(struct nats_appender *s)
{
    if (s->pumping) {
        s->again = true;
        return;
    }
    s->pumping = true;
    const uint64_t before = s->figures.acknowledged;
    do {
        struct nats_event event;
        struct ownership_action action;
        s->again = false;
        while (nats_link_next(s->link, &event))
            take_event(s, clock_monotonic_ns(), &event);
        look(s, clock_monotonic_ns());
        while (ownership_next(&s->o, clock_monotonic_ns(), &action))
            act(s, &action);
    } while (s->again);
    nats_link_tick(s->link, clock_monotonic_ns());
    s->pumping = false;
    if (s->closing && (s->o.state == OWNERSHIP_FOLLOWING || clock_monotonic_ns() >= s->close_ns)) {
        finish_close(s);
        return;
    }
    set_timer(s, clock_monotonic_ns());
    if (s->figures.acknowledged != before)
        s->options.room(s->options.context);
}

static void on_timer(uv_timer_t *timer)
{
    pump(timer->data);
}

static void on_rung(void *context)
{
    pump(context);
}

/* ---- the user's side --------------------------------------------------------------------- */

void nats_appender_ready(struct nats_appender *s)
{
    ownership_resumed(&s->o, clock_monotonic_ns());
}

void nats_appender_stand(struct nats_appender *s, bool stands)
{
    s->may_stand = stands;
    ownership_stand(&s->o, stands && (s->options.presence == NULL || s->figures.standing.stands),
                    s->figures.standing.rank);
}

void nats_appender_describe(struct nats_appender *s, const char *plan, const char *filters)
{
    snprintf(s->plan, sizeof s->plan, "%s", plan);
    snprintf(s->filters, sizeof s->filters, "%s", filters);
}

void nats_appender_release(struct nats_appender *s, const char *to)
{
    snprintf(s->release_to, sizeof s->release_to, "%s", to != NULL ? to : "");
    ownership_release(&s->o);
    pump(s);
}

/* A leader that is about to lose its followers answers no append, and what it was sent is refused
 * or passed over by the next one. */
static bool is_mute(const struct nats_appender *s)
{
    const struct ownership *o = &s->o;
    return o->first_pending <= o->last_token &&
           clock_monotonic_ns() - o->sent_ns[o->first_pending % OWNERSHIP_UNACKNOWLEDGED] > mute_ns;
}

uint32_t nats_appender_room(const struct nats_appender *s)
{
    const uint64_t pending = s->o.last_token + 1 - s->o.first_pending;
    if (is_mute(s))
        return 0;
    if (s->o.state != OWNERSHIP_OWNING || s->o.releases || pending >= OWNERSHIP_UNACKNOWLEDGED)
        return 0;
    return OWNERSHIP_UNACKNOWLEDGED - (uint32_t)pending;
}

bool nats_appender_waits(const struct nats_appender *s)
{
    return s->other_lives && s->o.state == OWNERSHIP_FOLLOWING && !s->o.newest.released &&
           clock_monotonic_ns() - s->o.heard_ns < 3 * s->o.options.ask_ns;
}

bool nats_appender_may_send(struct nats_appender *s)
{
    const int64_t now_ns = clock_monotonic_ns();
    if (s->o.state != OWNERSHIP_OWNING || ownership_may_send(&s->o, now_ns))
        return s->o.state == OWNERSHIP_OWNING;
    ownership_give_up(&s->o, now_ns);
    set_timer(s, now_ns);
    return false;
}

bool nats_appender_append(struct nats_appender *s, struct record *record)
{
    struct log_end expect;
    uint64_t token;
    const uint64_t bytes = record_bytes(record) + s->carried.count + 3 * (uint64_t)TEXT_MOST;
    if (nats_link_room(s->link) < 2 * bytes ||
        !ownership_append(&s->o, clock_monotonic_ns(), &expect, &token))
        return false;
    return appender_send(s, &expect, token, record);
}

bool nats_appender_carry(struct nats_appender *s, const uint8_t *bytes, uint32_t count)
{
    return nats_carried_set(&s->carried, bytes, count);
}

static bool append_bare(struct nats_appender *s, enum record_kind kind)
{
    struct ownership_action action = {0};
    if (!ownership_append(&s->o, clock_monotonic_ns(), &action.expect, &action.token))
        return false;
    send_bare(s, &action, kind);
    return true;
}

bool nats_appender_end(struct nats_appender *s)
{
    return s->last.next != 0 && append_bare(s, RECORD_END);
}

bool nats_appender_change(struct nats_appender *s, uint64_t raw_sequence, uint64_t *token)
{
    s->last.raw_sequence = raw_sequence;
    *token = s->o.last_token + 1;
    return append_bare(s, RECORD_CHANGE);
}

bool nats_appender_stored(const struct nats_appender *s, uint64_t token)
{
    return token < s->o.first_pending;
}

const struct record *nats_appender_last(const struct nats_appender *s)
{
    return &s->last;
}

void nats_appender_figures(const struct nats_appender *s, struct nats_appender_figures *figures)
{
    *figures = s->figures;
    figures->state = s->o.state;
    figures->term = s->o.state >= OWNERSHIP_RESUMING ? s->o.term : s->o.newest.end.term;
    nats_link_figures(s->link, &figures->link);
}

/* ---- life -------------------------------------------------------------------------------- */

int nats_appender_open(const struct nats_appender_options *options, struct nats_appender **out,
                       struct problem *problem)
{
    struct nats_appender *s = calloc(1, sizeof *s);
    if (s == NULL)
        return problem_set(problem, ERROR_MEMORY, "out of memory");
    s->options = *options;
    struct nats_link_options link = {
        .loop = options->loop,
        .name = options->name,
        .servers = {.servers = options->cluster->servers,
                    .credentials = options->cluster->credentials,
                    .ca = options->cluster->ca},
        .queue_bytes = options->queue_bytes,
        .rung = on_rung,
        .context = s,
    };
    nats_log_name(options->cluster->name, options->partition, options->kind, &link.log);
    const int error = nats_link_open(&link, &s->link, problem);
    if (error < 0) {
        free(s);
        return error;
    }
    *out = s;
    return 0;
}

void nats_appender_start(struct nats_appender *s)
{
    struct ownership_options options = ownership_usual(s->options.cluster->identity);
    options.lease_ns = s->options.cluster->lease_ns;
    if (options.patience_ns < 2 * options.lease_ns)
        options.patience_ns = 2 * options.lease_ns;
    ownership_open(&s->o, &options, clock_monotonic_ns());
    s->may_stand = true;
    ownership_stand(&s->o, s->options.presence == NULL, 0);
    uv_timer_init(s->options.loop, &s->timer);
    s->timer.data = s;
    s->started = true;
    nats_link_start(s->link);
    if (s->options.presence != NULL)
        nats_presence_join(s->options.presence, &s->part, s->link, s->options.cluster,
                           &s->options.environment);
    pump(s);
}

static void on_timer_closed(uv_handle_t *handle)
{
    struct nats_appender *s = handle->data;
    void (*closed)(void *context) = s->closed;
    void *context = s->closed_context;
    nats_carried_close(&s->carried);
    free(s);
    closed(context);
}

static void on_link_closed(void *context)
{
    struct nats_appender *s = context;
    s->link = NULL;
    if (s->started) {
        uv_close((uv_handle_t *)&s->timer, on_timer_closed);
        return;
    }
    void (*closed)(void *closed_context) = s->closed;
    void *closed_context = s->closed_context;
    free(s);
    closed(closed_context);
}

static void finish_close(struct nats_appender *s)
{
    if (s->started)
        uv_timer_stop(&s->timer);
    nats_link_close(s->link, s->close_ns, on_link_closed, s);
}

void nats_appender_close(struct nats_appender *s, int64_t deadline_ns,
                         void (*closed)(void *context), void *context)
{
    s->closed = closed;
    s->closed_context = context;
    s->close_ns = deadline_ns;
    if (!s->started) {
        finish_close(s);
        return;
    }
    s->closing = true;
    if (s->options.presence != NULL)
        nats_presence_leave(s->options.presence, &s->part);
    s->release_to[0] = '\0';
    ownership_stand(&s->o, false, 0);
    ownership_release(&s->o);
    pump(s);
}
