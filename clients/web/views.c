/* Views: see views.h. */
#include "views.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "core/clock.h"
#include "core/log.h"
#include "views_internal.h"

enum {
    TICK_MS = 20,            /* the ring is read so often */
    RECORDS_A_TURN = 8192,   /* of it, at most */
    ENVELOPE_MOST = 1 << 19, /* points times channels of one want */
    RING_BYTES_MOST = 256 << 20,
};

/* ---- sources ------------------------------------------------------------------------------- */

static struct source *find_source(struct views *views, const char *stream, bool input)
{
    struct source *empty = NULL;
    for (int i = 0; i < SOURCES_MAX; i++) {
        struct source *source = &views->sources[i];
        if (source->used && source->input == input && strcmp(source->stream, stream) == 0)
            return source;
        if (!source->used && empty == NULL)
            empty = source;
    }
    if (empty != NULL) {
        memset(empty, 0, sizeof *empty);
        empty->used = true;
        empty->input = input;
        snprintf(empty->stream, sizeof empty->stream, "%s", stream);
    }
    return empty;
}

/* What the daemon has said of it is not so any more. */
static void forget_source(struct source *source)
{
    trace_close(&source->trace);
    free(source->units);
    source->units = NULL;
    source->known = false;
}

static bool add_channel(struct source *source, uint16_t channel)
{
    for (uint32_t i = 0; i < source->list_count; i++)
        if (source->list[i] == channel)
            return true;
    if (source->list_count == SOURCE_CHANNELS_MAX)
        return false;
    source->list[source->list_count++] = channel;
    return true;
}

/* What all views together need of their sources; false: more channels than may be. */
static bool gather_needs(struct views *views)
{
    bool fits = true;
    for (int i = 0; i < SOURCES_MAX; i++) {
        views->sources[i].users = views->sources[i].list_count = 0;
        views->sources[i].minmax = false;
    }
    for (struct view *view = views->all; view != NULL; view = view->next) {
        struct source *source = view->source;
        source->users++;
        if (view->want.view == VIEW_ENVELOPE) {
            source->minmax = true;
            continue;
        }
        for (uint32_t i = 0; i < view->want.channel_count; i++)
            fits = add_channel(source, view->want.channels[i]) && fits;
        if (view->want.view == VIEW_SCOPE)
            fits = add_channel(source, view->want.trigger_channel) && fits;
    }
    return fits;
}

/* ---- asking the daemon --------------------------------------------------------------------- */

static json_t *request_of(const struct source *source)
{
    json_t *list = json_array();
    for (uint32_t i = 0; i < source->list_count; i++)
        json_array_append_new(list, json_integer(source->list[i] + 1));
    return json_pack("{s:s, s:s, s:b, s:o}", "stream", source->stream, "side",
                     source->input ? "input" : "output", "minmax", (int)source->minmax, "channels",
                     list);
}

/* Everything that is wanted now. What came before belongs to another request and is dropped. */
static void ask(struct views *views)
{
    json_t *streams = json_array();
    for (int i = 0; i < SOURCES_MAX; i++) {
        struct source *source = &views->sources[i];
        if (source->used && source->users == 0) {
            forget_source(source);
            source->used = false;
        }
        if (source->used)
            json_array_append_new(streams, request_of(source));
    }
    json_t *request = json_pack("{s:s, s:b, s:o}", "command", "watch", "levels",
                                views->sessions > 0, "streams", streams);
    daemon_watch(views->web->daemon, request);
    json_decref(request);
    views->changed = false;
}

static void map_ring(struct views *views, int fd)
{
    struct stat facts;
    if (views->memory != NULL)
        munmap((void *)views->memory, views->memory_bytes);
    views->memory = NULL;
    if (fstat(fd, &facts) != 0 || facts.st_size <= 0 || facts.st_size > RING_BYTES_MOST)
        return;
    const size_t bytes = (size_t)facts.st_size;
    void *memory = mmap(NULL, bytes, PROT_READ, MAP_SHARED, fd, 0);
    if (memory == MAP_FAILED)
        return;
    if (!watch_reader_open(&views->reader, memory, bytes)) {
        log_error("the daemon's watch ring has another layout: restart convolv-web after an "
                  "upgrade");
        munmap(memory, bytes);
        return;
    }
    views->memory = memory;
    views->memory_bytes = bytes;
}

static void tell_wanted(const struct view *view)
{
    const struct source *source = view->source;
    json_t *channels = json_array(), *units = json_array();
    for (uint32_t i = 0; i < view->channels; i++) {
        const bool all = view->want.channel_count == 0;
        const uint32_t channel = all ? i : view->want.channels[i];
        json_array_append_new(channels, json_integer(channel + 1));
        json_array_append_new(units, json_string(source->units[channel]));
    }
    session_send(
        view->session, 0,
        json_pack(
            "{s:s, s:i, s:s, s:s, s:s, s:o, s:f, s:o, s:I}", "type", "wanted", "id",
            (int)view->want.id, "stream", source->stream, "view", view_name(view->want.view),
            "side", source->input ? "input" : "output", "channels", channels, "rate_hz",
            source->rate_hz, "unit", units, "frames_per_point",
            (json_int_t)(view->want.view == VIEW_ENVELOPE ? view->envelope.frames_per_point : 1)));
}

static void tell_error(const struct view *view, const char *sentence)
{
    session_send(
        view->session, 0,
        json_pack("{s:s, s:i, s:s}", "type", "error", "id", (int)view->want.id, "error", sentence));
}

/* The source's channels are known: the view can be made; or not, as it asks for others. */
static void start_view(struct view *view)
{
    const struct source *source = view->source;
    const struct want *want = &view->want;
    uint32_t beyond = want->view == VIEW_SCOPE && want->trigger_channel >= source->channels;
    for (uint32_t i = 0; i < want->channel_count; i++)
        beyond += want->channels[i] >= source->channels;
    if (view->ready)
        return;
    if (beyond > 0)
        tell_error(view, "the stream has fewer channels than this");
    else if (!view_open(view))
        tell_error(view, "out of memory");
    else
        tell_wanted(view);
}

/* What the daemon says of one source. */
static void describe(struct views *views, struct source *source, const json_t *facts)
{
    const double rate_hz = json_number_value(json_object_get(facts, "rate_hz"));
    const json_int_t channels = json_integer_value(json_object_get(facts, "channels"));
    const json_int_t frames = json_integer_value(json_object_get(facts, "frames_per_point"));
    const json_t *units = json_object_get(facts, "units");
    const bool same = source->known && source->rate_hz == rate_hz &&
                      source->channels == (uint32_t)channels &&
                      source->frames_per_point == (uint32_t)frames;
    uint32_t frames_kept = TRACE_FRAMES_LEAST;
    for (struct view *view = views->all; view != NULL; view = view->next) {
        if (view->source != source)
            continue;
        if (!same)
            view_close(view);
        const uint32_t needed = view_trace_frames(&view->want);
        frames_kept = needed > frames_kept ? needed : frames_kept;
    }
    if (!same)
        forget_source(source);
    if (!(rate_hz > 0) || channels < 1 || channels > WATCH_CHANNELS_MAX || frames < 1)
        return;
    if (!same)
        source->units = calloc((size_t)channels, sizeof *source->units);
    if (source->units == NULL)
        return;
    source->known = true;
    source->rate_hz = rate_hz;
    source->channels = (uint32_t)channels;
    source->frames_per_point = (uint32_t)frames;
    for (uint32_t c = 0; c < source->channels; c++) {
        const char *unit = json_string_value(json_array_get(units, c));
        snprintf(source->units[c], sizeof source->units[c], "%s", unit != NULL ? unit : "");
    }
    /* Its channels are in another order, or it keeps more: the views begin anew. */
    trace_close(&source->trace);
    if (source->list_count > 0 &&
        trace_open(&source->trace, source->list_count, frames_kept, rate_hz) < 0) {
        trace_close(&source->trace);
        source->known = false;
        return;
    }
    for (struct view *view = views->all; view != NULL; view = view->next) {
        if (view->source == source && view->want.view != VIEW_ENVELOPE && view->ready) {
            const bool done = view->done;
            view_close(view);
            view_open(view);
            view->done = done;
        }
    }
}

void views_watched(struct views *views, json_t *answer, int fd)
{
    const json_t *streams, *facts;
    size_t i;
    if (answer == NULL) { /* a new connection */
        if (views->sessions > 0)
            ask(views);
        return;
    }
    if (fd >= 0)
        map_ring(views, fd);
    if (!json_is_true(json_object_get(answer, "ok"))) {
        const char *error = json_string_value(json_object_get(answer, "error"));
        log_debug("the daemon shows nothing: %s", error != NULL ? error : "?");
        views->refused = true;
        return;
    }
    views->refused = false;
    views->request = (uint32_t)json_integer_value(json_object_get(answer, "request"));
    streams = json_object_get(answer, "streams");
    json_array_foreach(streams, i, facts)
    {
        const char *stream = json_string_value(json_object_get(facts, "stream"));
        const char *side = json_string_value(json_object_get(facts, "side"));
        for (int s = 0; stream != NULL && side != NULL && s < SOURCES_MAX; s++) {
            struct source *source = &views->sources[s];
            if (source->used && strcmp(source->stream, stream) == 0 &&
                source->input == (strcmp(side, "input") == 0))
                describe(views, source, facts);
        }
    }
    for (struct view *view = views->all; view != NULL; view = view->next)
        if (view->source->known)
            start_view(view);
}

/* A stream that was not there may be there now. */
void views_status(struct views *views)
{
    views->changed = views->changed || (views->refused && views->sessions > 0);
    for (int i = 0; i < SOURCES_MAX; i++) {
        const struct source *source = &views->sources[i];
        if (source->used && source->users > 0 && !source->known &&
            daemon_stream(views->web->daemon, source->stream) != NULL)
            views->changed = true;
    }
}

/* ---- the ring ------------------------------------------------------------------------------ */

static void take_levels(struct views *views, const struct watch_record *record)
{
    const struct watch_head *head = &record->head;
    const json_t *stream = daemon_stream(views->web->daemon, head->stream);
    const json_t *channels = json_object_get(stream, "channels");
    json_t *rms = json_array(), *peak = json_array(), *held = json_array(),
           *overloads = json_array();
    for (uint32_t c = 0; c < head->channels; c++) {
        const float *values = record->values + (size_t)c * WATCH_LEVEL_FLOATS;
        const double frames = fmax((double)values[0], 1);
        const json_t *status = json_array_get(channels, head->first_channel + c);
        const json_t *since = json_object_get(status, "peak_held");
        const double before =
            json_number_value(since != NULL ? since : json_object_get(status, "peak"));
        const double now = isfinite(values[3]) ? (double)values[3] : 0;
        const double mean = (double)values[2] / frames;
        json_array_append_new(rms, json_real(mean > 0 && isfinite(mean) ? sqrt(mean) : 0));
        json_array_append_new(peak, json_real(now));
        json_array_append_new(held, json_real(fmax(before, now)));
        json_array_append_new(
            overloads, json_integer(json_integer_value(json_object_get(status, "overloads"))));
    }
    uint32_t key = 0;
    for (const char *at = head->stream; *at != '\0'; at++)
        key = key * 31 + (uint8_t)*at;
    key = KEY_LEVELS + (key % 0x3FFF) * 8 + head->first_channel / 190 % 8;
    sessions_send(&views->web->sessions, key,
                  json_pack("{s:s, s:s, s:i, s:o, s:o, s:o, s:o}", "type", "levels", "stream",
                            head->stream, "first_channel", (int)head->first_channel + 1, "rms", rms,
                            "peak", peak, "held", held, "overloads", overloads));
}

static void take_frames(struct views *views, struct source *source,
                        const struct watch_record *record, int64_t now_ns)
{
    const struct watch_head *head = &record->head;
    struct trace *trace = &source->trace;
    if (trace->values == NULL || head->channels != trace->channels)
        return;
    trace_put(trace, head->epoch, head->first_frame, head->points, record->values);
    trace->capture_frame = head->first_frame;
    trace->capture_ns = head->capture_ns;
    for (uint32_t i = 0; i < head->range_count; i++) {
        const uint64_t from = head->first_frame + record->ranges[i].from;
        trace_mark(trace, from, from + record->ranges[i].points,
                   (uint16_t)record->ranges[i].causes);
    }
    for (struct view *view = views->all; view != NULL; view = view->next)
        if (view->source == source && view->want.view != VIEW_ENVELOPE)
            view_frames(view, now_ns);
}

static void take_record(struct views *views, const struct watch_record *record, int64_t now_ns)
{
    const struct watch_head *head = &record->head;
    if (head->request != views->request)
        return; /* of another request: other channels */
    views->skipped += (head->flags & WATCH_SKIPPED) != 0;
    if (head->kind == WATCH_LEVELS) {
        take_levels(views, record);
        return;
    }
    for (int i = 0; i < SOURCES_MAX; i++) {
        struct source *source = &views->sources[i];
        if (!source->known || source->input != ((head->flags & WATCH_INPUT) != 0) ||
            strcmp(source->stream, head->stream) != 0)
            continue;
        if (head->kind == WATCH_FRAMES)
            take_frames(views, source, record, now_ns);
        else if (head->first_channel + head->channels > source->channels)
            views->changed = true; /* the stream is another one since a reload */
        for (struct view *view = views->all; head->kind == WATCH_MINMAX && view != NULL;
             view = view->next)
            if (view->source == source)
                view_points(view, record);
    }
}

static void on_timer(uv_timer_t *timer)
{
    struct views *views = timer->data;
    const int64_t now_ns = clock_monotonic_ns();
    if (views->changed)
        ask(views);
    for (int n = 0; views->memory != NULL && n < RECORDS_A_TURN &&
                    watch_reader_next(&views->reader, &views->record);
         n++)
        take_record(views, &views->record, now_ns);
    for (struct view *view = views->all; view != NULL; view = view->next)
        view_tick(view, now_ns);
}

/* ---- wants --------------------------------------------------------------------------------- */

static struct view **find_view(struct views *views, const struct session *session, uint16_t id)
{
    struct view **at = &views->all;
    while (*at != NULL && ((*at)->session != session || (*at)->want.id != id))
        at = &(*at)->next;
    return at;
}

static void remove_view(struct views *views, struct view **at)
{
    struct view *view = *at;
    *at = view->next;
    view_close(view);
    free(view);
    gather_needs(views);
    views->changed = true;
}

static unsigned count_views(const struct views *views, const struct session *session)
{
    unsigned count = 0;
    for (const struct view *view = views->all; view != NULL; view = view->next)
        count += view->session == session;
    return count;
}

/* Without channels: the first ones that the view shows. */
static void fill_channels(struct want *want, const struct source *source)
{
    const uint32_t most = want->view == VIEW_SPECTRUM ? WANT_SPECTRUM_CHANNELS : 4;
    if (want->view == VIEW_ENVELOPE || want->channel_count > 0)
        return;
    const uint32_t there = source->known ? source->channels : 1;
    want->channel_count = (uint16_t)(there < most ? there : most);
    for (uint16_t i = 0; i < want->channel_count; i++)
        want->channels[i] = i;
}

static int check_want(struct views *views, const struct session *session, const struct want *want,
                      struct problem *problem)
{
    const json_t *stream = daemon_stream(views->web->daemon, want->stream);
    const size_t channels = want->channel_count > 0
                                ? want->channel_count
                                : json_array_size(json_object_get(stream, "channels"));
    if (*find_view(views, session, want->id) == NULL && count_views(views, session) >= WANTS_MAX)
        return problem_set(problem, ERROR_LIMIT, "at most %d wants at once: drop one", WANTS_MAX);
    if (want->view == VIEW_ENVELOPE && channels * want->points > ENVELOPE_MOST)
        return problem_set(problem, ERROR_LIMIT, "at most %d points times channels", ENVELOPE_MOST);
    return 0;
}

int views_want(struct views *views, struct session *session, const struct want *want,
               struct problem *problem)
{
    int error = check_want(views, session, want, problem);
    if (error < 0)
        return error;
    struct view **before = find_view(views, session, want->id);
    if (*before != NULL)
        remove_view(views, before);
    struct view *view = calloc(1, sizeof *view);
    struct source *source = find_source(views, want->stream, want->input);
    if (view == NULL || source == NULL) {
        free(view);
        return problem_set(problem, ERROR_LIMIT, "too many streams are looked at");
    }
    view->session = session;
    view->want = *want;
    view->source = source;
    fill_channels(&view->want, source);
    view->next = views->all;
    views->all = view;
    if (!gather_needs(views)) {
        remove_view(views, find_view(views, session, want->id));
        return problem_set(problem, ERROR_LIMIT,
                           "%d channels of one side of a stream are looked at already",
                           SOURCE_CHANNELS_MAX);
    }
    views->changed = true;
    if (daemon_up(views->web->daemon) && daemon_stream(views->web->daemon, want->stream) == NULL)
        return problem_set(problem, ERROR_ARGUMENT,
                           "there is no stream of this name now; pictures come when there is");
    return 0;
}

void views_drop(struct views *views, struct session *session, uint16_t id)
{
    struct view **at = find_view(views, session, id);
    if (*at != NULL)
        remove_view(views, at);
}

void views_leave(struct views *views, const struct session *session)
{
    for (struct view **at = &views->all; *at != NULL;) {
        if ((*at)->session == session)
            remove_view(views, at);
        else
            at = &(*at)->next;
    }
}

void views_watchers(struct views *views, unsigned sessions)
{
    const bool first = views->sessions == 0 && sessions > 0;
    const bool last = views->sessions > 0 && sessions == 0;
    views->sessions = sessions;
    if (first)
        uv_timer_start(&views->timer, on_timer, TICK_MS, TICK_MS);
    if (first || last)
        ask(views);
    if (last)
        uv_timer_stop(&views->timer);
}

/* ---- life ---------------------------------------------------------------------------------- */

int views_open(struct web *web, struct views **out)
{
    struct views *views = calloc(1, sizeof *views);
    if (views == NULL)
        return ERROR_MEMORY;
    views->web = web;
    uv_timer_init(&web->loop, &views->timer);
    views->timer.data = views;
    *out = views;
    return 0;
}

void views_close(struct views *views)
{
    if (views != NULL)
        uv_close((uv_handle_t *)&views->timer, NULL);
}

void views_free(struct views *views)
{
    if (views == NULL)
        return;
    while (views->all != NULL)
        remove_view(views, &views->all);
    for (int i = 0; i < SOURCES_MAX; i++)
        forget_source(&views->sources[i]);
    if (views->memory != NULL)
        munmap((void *)views->memory, views->memory_bytes);
    free(views);
}
