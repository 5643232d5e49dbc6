/* Events of a log: see events.h. */
#include "io/nats/events.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/clock.h"
#include "core/log.h"
#include "io/nats/carried.h"
#include "io/nats/events_read.h"
#include "io/nats/options.h"
#include "io/nats/pieces.h"
#include "wire/crc32c.h"

enum {
    LINE_BYTES = 256 << 10, /* beyond `message`, for one that is longer */
    LINK_QUEUE_BYTES = 1 << 16,
    IN_A_SECOND = 1 << 20, /* bytes of checkpoints */
    UNDER_WAY = 4,         /* records of events that are not acknowledged */
};

static const int64_t look_ns = NS_PER_SECOND;

/* ---- checkpoints ------------------------------------------------------------------------- */

/* How long the newest checkpoint stays the newest: the larger it is the longer; but the log must
 * not drop it. */
static bool checkpoint_due(const struct nats_events *e, int64_t now_ns)
{
    const int64_t age_ns = now_ns - e->saved_ns;
    const int64_t interval_ns =
        NS_PER_SECOND + (int64_t)((double)e->saved_bytes / IN_A_SECOND * (double)NS_PER_SECOND);
    return e->saved_ns == 0 || (e->stale && age_ns >= interval_ns) || age_ns >= e->window_ns / 4;
}

static bool begin_saving(struct nats_events *e)
{
    free(e->state);
    e->state = nats_events_write_state(e, &e->state_bytes);
    e->state_at = 0;
    if (e->state == NULL) {
        log_error("sink %s: out of memory for what the analyses hold; tried again", e->name);
        e->saved_ns = clock_monotonic_ns();
        e->saving = false;
        return false;
    }
    e->state_sum = crc32c(0, e->state, e->state_bytes);
    return true;
}

/* The next piece of the state; false: there is no room. */
static bool append_state(struct nats_events *e)
{
    const uint32_t left = e->state_bytes - e->state_at, most = (uint32_t)e->message_bytes;
    const struct logged_part part = {
        .form = LOGGED_STATE,
        .number = e->state_at,
        .count = e->state_bytes,
        .chain = e->state_sum,
        .bytes = {e->state + e->state_at, left < most ? left : most},
    };
    uint64_t token, sequence;
    logged_write(&part, e->batch);
    if (!nats_appender_analysis(e->appender, e->batch, (uint32_t)logged_bytes(&part), &token,
                                &sequence))
        return false;
    if (e->state_at == 0)
        e->state_sequence = sequence;
    e->state_at += part.bytes.count;
    return true;
}

/* All events so far are in the log, and the analyses hold what follows from its data. */
static void save(struct nats_events *e)
{
    if (e->state == NULL && !begin_saving(e))
        return;
    while (e->state_at < e->state_bytes)
        if (!append_state(e))
            return;
    nats_appender_checkpoint(e->appender, e->state_sequence);
    e->saved_ns = clock_monotonic_ns();
    e->saved_bytes = e->state_bytes;
    e->figures.checkpoints++;
    e->saving = e->stale = false;
    free(e->state);
    e->state = NULL;
}

/* ---- events ------------------------------------------------------------------------------ */

/* The log has the event that comes next: the same one, or something is wrong. */
static void pass(struct nats_events *e, uint32_t i, const char *line, size_t bytes)
{
    struct nats_events_of *of = &e->of[i];
    of->chain = crc32c(of->chain, line, bytes);
    of->number++;
    e->figures.replayed++;
    e->host.pass(e->host.context, i);
    if (of->number + 1 != of->logged.next || of->chain == of->logged.chain)
        return;
    e->figures.differing++;
    log_error("sink %s: analysis %s finds other events than the log holds, up to number %llu: "
              "another version of the daemon has computed them; the log's stay",
              e->name, e->host.name(e->host.context, i), (unsigned long long)of->number);
    of->chain = of->logged.chain;
}

/* Lines of one analysis behind what is gathered, as one part. */
static void gather_of(struct nats_events *e, uint32_t i)
{
    struct nats_events_of *of = &e->of[i];
    const char *name = e->host.name(e->host.context, i), *line;
    struct logged_part part = {.form = LOGGED_EVENTS,
                               .name = nats_text_span(name),
                               .number = of->number + 1,
                               .chain_before = of->chain};
    uint8_t *const head = e->batch + e->batch_bytes,
                   *lines = head + LOGGED_HEAD_BYTES + part.name.count;
    size_t bytes;
    while (e->batch_bytes + part.bytes.count < e->message_bytes &&
           (line = e->host.next(e->host.context, i, &bytes)) != NULL) {
        if (of->number + 1 < of->logged.next) {
            pass(e, i, line, bytes);
            part.number = of->number + 1;
            part.chain_before = of->chain;
            continue;
        }
        if (lines + part.bytes.count + bytes > e->batch + e->message_bytes + LINE_BYTES)
            break;
        memcpy(lines + part.bytes.count, line, bytes);
        if (!e->host.keep(e->host.context, i))
            break;
        part.bytes.count += (uint32_t)bytes;
        part.count++;
        of->number++;
        of->chain = crc32c(of->chain, lines + part.bytes.count - bytes, bytes);
    }
    if (part.count == 0)
        return;
    part.bytes.bytes = lines;
    part.chain = of->chain;
    of->logged = (struct logged_position){true, of->number + 1, of->chain};
    nats_events_write_head(&part, head);
    e->batch_bytes += logged_bytes(&part);
    e->gathered.lines[i] += part.count;
}

static bool nothing_left(const struct nats_events *e)
{
    size_t bytes;
    for (uint32_t i = 0; i < e->count; i++)
        if (e->host.next(e->host.context, i, &bytes) != NULL)
            return false;
    return true;
}

/* Appends what the analyses have found. True: all of it, while they are idle. */
static bool append_events(struct nats_events *e)
{
    for (;;) {
        for (uint32_t i = 0; i < e->count && e->batch_bytes < e->message_bytes; i++)
            gather_of(e, i);
        if (e->batch_bytes == 0)
            return nothing_left(e); /* what is kept may be too much until more is delivered */
        struct nats_events_record *slot = &e->pending[e->appended % NATS_EVENTS_PENDING];
        uint64_t token, sequence;
        if (e->appended - e->acknowledged >= UNDER_WAY ||
            !nats_appender_analysis(e->appender, e->batch, (uint32_t)e->batch_bytes, &token,
                                    &sequence))
            return false;
        slot->token = token;
        for (uint32_t i = 0; i < e->count; i++) {
            e->figures.events += e->gathered.lines[i];
            slot->lines[i] = e->gathered.lines[i];
            e->gathered.lines[i] = 0;
        }
        e->appended++;
        e->batch_bytes = 0;
    }
}

static void deliver(struct nats_events *e)
{
    while (e->acknowledged < e->appended) {
        const struct nats_events_record *oldest =
            &e->pending[e->acknowledged % NATS_EVENTS_PENDING];
        if (!nats_appender_stored(e->appender, oldest->token))
            return;
        for (uint32_t i = 0; i < e->count; i++)
            if (oldest->lines[i] > 0)
                e->host.deliver(e->host.context, i, oldest->lines[i]);
        e->acknowledged++;
    }
}

static void go_on(struct nats_events *e)
{
    const bool held_back = e->saving;
    deliver(e);
    e->saving = e->saving || (e->phase == EVENTS_LIVE && checkpoint_due(e, clock_monotonic_ns()));
    const bool idle = e->saving && e->host.idle(e->host.context); /* before its events are taken */
    const bool all = append_events(e);
    if (e->saving && ((idle && all) || e->state != NULL))
        save(e);
    if (held_back && !e->saving)
        e->again(e->context);
}

/* ---- a term ------------------------------------------------------------------------------ */

static void end_events(struct nats_events *e)
{
    e->acknowledged = e->appended;
    e->batch_bytes = 0;
    if (e->count > 0)
        memset(e->gathered.lines, 0, e->count * sizeof *e->gathered.lines);
    free(e->state);
    e->state = NULL;
    e->saving = e->held = false;
    e->saved_ns = 0;
}

/* A log that has dropped all its records looks likewise, but is long. */
static bool is_untouched(const struct record *newest, uint64_t take)
{
    enum { TAKES = 64 };
    return newest->epoch == 0 && newest->next == 0 && take <= TAKES;
}

void nats_events_begin(struct nats_events *e, const struct record *newest)
{
    if (!nats_events_has(e)) {
        e->ready(e->context);
        return;
    }
    end_events(e);
    e->checkpoint = newest->checkpoint;
    e->until = nats_appender_tail(e->appender);
    e->untouched = is_untouched(newest, e->until);
    e->phase = EVENTS_RESETTING;
    nats_events_poke(e);
}

void nats_events_stop(struct nats_events *e)
{
    if (!nats_events_has(e))
        return;
    end_events(e);
    e->phase = EVENTS_IDLE;
    nats_link_follow(e->link, 0);
    e->host.forget(e->host.context); /* what the next term begins with is read */
}

void nats_events_poke(struct nats_events *e)
{
    if (!nats_events_has(e) || e->phase == EVENTS_IDLE || e->closing)
        return;
    if (e->phase == EVENTS_RESETTING && e->host.idle(e->host.context))
        nats_events_read(e);
    if (e->phase == EVENTS_READING || e->phase == EVENTS_REPLAYING)
        nats_events_read_on(e);
    if (e->phase == EVENTS_REPLAYING || e->phase == EVENTS_LIVE)
        go_on(e);
}

void nats_events_live(struct nats_events *e)
{
    if (e->phase == EVENTS_REPLAYING) /* the checkpoint is there, if an old one */
        e->saved_ns = clock_monotonic_ns();
    e->phase = EVENTS_LIVE;
    nats_link_follow(e->link, 0);
    e->ready(e->context);
}

/* ---- data -------------------------------------------------------------------------------- */

bool nats_events_room(struct nats_events *e, uint32_t frames)
{
    if (!nats_events_has(e))
        return true;
    return e->phase == EVENTS_LIVE && !e->saving && e->saved_ns != 0 &&
           e->host.room(e->host.context) >= frames;
}

uint32_t nats_events_marks(const struct sink_options *options)
{
    const struct event_log_host *host = &options->events;
    return host->count != NULL && !options->raw ? host->marks_most(host->context) : 0;
}

void nats_events_mark(struct nats_events *e, struct result *result)
{
    const struct input_saturation *marks = NULL;
    const struct result before = *result;
    result->saturated_input_count =
        nats_events_has(e) ? e->host.saturated(e->host.context, &before, &marks) : 0;
    result->saturated_inputs = marks;
}

void nats_events_put(struct nats_events *e, const struct record *r)
{
    struct invalid_range ranges[PIECE_RANGES];
    if (!nats_events_has(e))
        return;
    struct result result = {
        .epoch = r->epoch,
        .record = r->record,
        .first_frame = r->first,
        .timeline_frame = r->timeline,
        .frames = r->frames,
        .channels = r->channels,
        .flags = (r->flags & RECORD_EPOCH_START ? RESULT_EPOCH_START : 0) |
                 (r->flags & RECORD_EPOCH_END ? RESULT_EPOCH_END : 0),
        .samples = (const float *)(const void *)r->samples,
        .rate_hz = r->rate_hz,
        .capture_ns = r->capture_ns,
        .clock = (enum clock_source)r->clock,
        .clock_error_ns = r->clock_error_ns,
        .delay_frames = r->delay_frames,
        .aligned = r->flags & RECORD_ALIGNED,
        .invalid = ranges,
        .saturated_inputs = e->marks,
    };
    for (uint32_t i = 0; i < r->range_count && i < PIECE_RANGES; i++) {
        const struct record_range range = r->ranges != NULL ? r->ranges[i] : record_range_at(r, i);
        ranges[result.invalid_count++] =
            (struct invalid_range){range.from, range.until, (enum invalid_cause)range.cause};
    }
    for (uint32_t i = 0; i < r->mark_count && i < e->mark_count; i++) {
        const struct record_mark mark = r->marks != NULL ? r->marks[i] : record_mark_at(r, i);
        e->marks[result.saturated_input_count++] =
            (struct input_saturation){mark.from, mark.until, mark.channel};
    }
    e->stale = true;
    e->host.put(e->host.context, &result);
}

/* ---- life -------------------------------------------------------------------------------- */

static void set_timer(struct nats_events *e);

static void on_timer(uv_timer_t *timer)
{
    struct nats_events *e = timer->data;
    nats_link_tick(e->link, clock_monotonic_ns());
    nats_events_poke(e);
    set_timer(e);
}

static void set_timer(struct nats_events *e)
{
    const int64_t now_ns = clock_monotonic_ns(), due_ns = nats_link_due(e->link);
    const int64_t at_ns = due_ns < now_ns + look_ns ? due_ns : now_ns + look_ns;
    const int64_t wait_ns = at_ns > now_ns ? at_ns - now_ns : 0;
    uv_timer_start(&e->timer, on_timer, (uint64_t)(wait_ns / NS_PER_MS + 1), 0);
}

static void on_rung(void *context)
{
    struct nats_events *e = context;
    nats_events_poke(e);
    if (e->phase != EVENTS_READING && e->phase != EVENTS_REPLAYING)
        nats_events_read_none(e);
    set_timer(e);
}

static bool open_lists(struct nats_events *e)
{
    e->count = e->host.count(e->host.context);
    e->of = calloc(e->count, sizeof *e->of);
    e->gathered.lines = calloc(e->count, sizeof *e->gathered.lines);
    e->marks = calloc(e->mark_count, sizeof *e->marks);
    bool all = e->of != NULL && e->gathered.lines != NULL && e->marks != NULL;
    for (int i = 0; i < NATS_EVENTS_PENDING; i++) {
        e->pending[i].lines = calloc(e->count, sizeof *e->pending[i].lines);
        all = all && e->pending[i].lines != NULL;
    }
    return all;
}

static void free_all(struct nats_events *e)
{
    free(e->of);
    free(e->marks);
    free(e->gathered.lines);
    for (int i = 0; i < NATS_EVENTS_PENDING; i++)
        free(e->pending[i].lines);
    free(e->batch);
    free(e->state);
}

int nats_events_open(struct nats_events *e, const struct sink_options *options,
                     const struct io_environment *environment, struct problem *problem)
{
    const struct nats_sink_options *own = options->own;
    const struct cluster *cluster = environment->cluster;
    e->host = options->events;
    if (options->raw)
        e->host = (struct event_log_host){0};
    if (!nats_events_has(e))
        return 0;
    e->mark_count = nats_events_marks(options);
    e->name = options->name;
    e->partition = own->partition;
    e->message_bytes = own->message_bytes;
    e->window_ns = own->window_ns;
    e->loop = environment->loop;
    e->batch = malloc(own->message_bytes + LINE_BYTES + LOGGED_HEAD_BYTES + LOGGED_NAME_MAX);
    if (!open_lists(e) || e->batch == NULL) {
        free_all(e);
        return problem_set(problem, ERROR_MEMORY, "sink %s: out of memory", options->name);
    }
    struct nats_link_options link = {
        .loop = environment->loop,
        .name = options->name,
        .servers = {cluster->servers, cluster->credentials, cluster->ca},
        .queue_bytes = LINK_QUEUE_BYTES,
        .rung = on_rung,
        .context = e,
    };
    nats_log_name(cluster->name, own->partition, "log", &link.log);
    const int error = nats_link_open(&link, &e->link, problem);
    if (error < 0)
        free_all(e);
    return error;
}

void nats_events_start(struct nats_events *e, struct nats_appender *appender)
{
    if (!nats_events_has(e))
        return;
    e->appender = appender;
    nats_appender_log_events(appender);
    uv_timer_init(e->loop, &e->timer);
    e->timer.data = e;
    e->started = true;
    nats_link_start(e->link);
    set_timer(e);
}

static void finish_close(struct nats_events *e)
{
    free_all(e);
    e->closed(e->closed_context);
}

static void on_timer_closed(uv_handle_t *handle)
{
    finish_close(handle->data);
}

static void on_link_closed(void *context)
{
    struct nats_events *e = context;
    if (e->started)
        uv_close((uv_handle_t *)&e->timer, on_timer_closed);
    else
        finish_close(e);
}

void nats_events_close(struct nats_events *e, int64_t deadline_ns, void (*closed)(void *context),
                       void *context)
{
    e->closed = closed;
    e->closed_context = context;
    e->closing = true;
    if (e->started)
        uv_timer_stop(&e->timer);
    if (nats_events_has(e))
        nats_link_close(e->link, deadline_ns, on_link_closed, e);
    else
        finish_close(e);
}
