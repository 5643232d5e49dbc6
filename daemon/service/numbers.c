/* Numbers: see numbers.h. */
#include "service/numbers.h"

#include <assert.h>
#include <errno.h>
#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "core/clock.h"
#include "core/log.h"
#include "core/loop_work.h"
#include "core/replace_file.h"

enum { CHECK_MS = 1000 };
enum { NAMES_MAX = PIPELINES_MAX, PATH_BYTES = 4096, FILE_VERSION = 1, FILE_BYTES = 16 << 20 };

static const int64_t keep_ns = 10 * NS_PER_SECOND;

/* A stream, and the numbers below which the file promises that none is used twice. */
struct kept {
    struct heritage last;
    uint64_t pass; /* of take_all: the last one in which the stream was there; 0: it never was */
    bool runs;     /* else it was removed, or has not run yet */
    uint64_t promised_epochs, promised_records;
};

/* A pipeline that a reload has retired. */
struct retired {
    struct heritage left;
    bool removed; /* else only its sinks count: its successor does not have them */
};

struct numbers {
    const struct process *process;
    char path[PATH_BYTES]; /* "": none */

    /* loop, and while `writing` the worker reads them; also of streams that are gone, which may
     * come back */
    struct kept *list; /* [NAMES_MAX] */
    uint32_t count;
    uint64_t pass;
    bool writing, failed;
    bool last;            /* the last numbers are wanted once it has been written */
    struct retired *late; /* [late_count], while `writing` */
    uint32_t late_count;
    struct loop_work work;
    int64_t written_ns;
    uv_timer_t timer;
    bool started;
};

/* ---- reading ----------------------------------------------------------------------------- */

static uint64_t number_of(json_t *object, const char *key)
{
    const json_int_t value = json_integer_value(json_object_get(object, key));
    return value > 0 && value < (json_int_t)1 << 62 ? (uint64_t)value : 0;
}

static bool read_sink(json_t *object, struct heritage *h)
{
    const char *name = json_string_value(json_object_get(object, "name"));
    if (name == NULL || strlen(name) >= HERITAGE_NAME || h->sink_count == HERITAGE_SINKS)
        return false;
    struct heritage_sink *sink = &h->sinks[h->sink_count++];
    snprintf(sink->name, sizeof sink->name, "%s", name);
    sink->identity.ssrc = (uint32_t)number_of(object, "ssrc");
    sink->identity.sequence = (uint16_t)number_of(object, "sequence");
    sink->identity.port = (uint16_t)number_of(object, "port");
    return true;
}

static bool read_stream(json_t *object, struct heritage *h)
{
    const char *name = json_string_value(json_object_get(object, "name"));
    if (name == NULL || strlen(name) >= HERITAGE_NAME)
        return false;
    snprintf(h->stream, sizeof h->stream, "%s", name);
    h->numbers = (struct stream_numbers){
        .epochs = number_of(object, "next epoch"),
        .records = number_of(object, "next record"),
        .timeline = number_of(object, "next timeline frame"),
        .anchor = number_of(object, "timeline frame"),
        .anchor_realtime_ns = (int64_t)number_of(object, "received at ns"),
    };
    json_t *sinks = json_object_get(object, "sinks"), *sink;
    size_t i;
    json_array_foreach(sinks, i, sink)
    {
        if (!read_sink(sink, h))
            return false;
    }
    return true;
}

static void read_file(struct numbers *n)
{
    struct stat found;
    json_error_t error = {.text = "it is no file of this daemon"};
    if (stat(n->path, &found) != 0 && errno == ENOENT)
        return;
    json_t *root = found.st_size <= FILE_BYTES ? json_load_file(n->path, 0, &error) : NULL;
    bool good = root != NULL && number_of(root, "version") == FILE_VERSION;
    json_t *streams = json_object_get(root, "streams"), *stream;
    size_t i;
    json_array_foreach(streams, i, stream)
    {
        good = good && n->count < NAMES_MAX && read_stream(stream, &n->list[n->count].last);
        n->count += good;
    }
    json_decref(root);
    if (!good) {
        memset(n->list, 0, n->count * sizeof *n->list);
        n->count = 0;
        log_warning("%s cannot be read (%s): epochs and RTP sources of the results are numbered "
                    "anew; remove the file to silence this",
                    n->path, error.text);
    }
}

/* ---- writing ----------------------------------------------------------------------------- */

static json_t *stream_json(const struct heritage *h, uint64_t ahead)
{
    json_t *sinks = json_array();
    for (uint32_t i = 0; i < h->sink_count; i++)
        json_array_append_new(sinks,
                              json_pack("{s:s, s:I, s:I, s:I}", "name", h->sinks[i].name, "ssrc",
                                        (json_int_t)h->sinks[i].identity.ssrc, "sequence",
                                        (json_int_t)h->sinks[i].identity.sequence, "port",
                                        (json_int_t)h->sinks[i].identity.port));
    const struct stream_numbers *numbers = &h->numbers;
    return json_pack("{s:s, s:I, s:I, s:I, s:I, s:I, s:o}", "name", h->stream, "next epoch",
                     (json_int_t)(numbers->epochs + ahead), "next record",
                     (json_int_t)(numbers->records > 0 ? numbers->records + ahead : 0),
                     "next timeline frame", (json_int_t)numbers->timeline, "timeline frame",
                     (json_int_t)numbers->anchor, "received at ns",
                     (json_int_t)numbers->anchor_realtime_ns, "sinks", sinks);
}

/* The file's text, ahead of what was used; NULL: out of memory. */
static char *text_of(const struct numbers *n, uint64_t ahead)
{
    json_t *streams = json_array();
    for (uint32_t i = 0; i < n->count; i++)
        json_array_append_new(streams, stream_json(&n->list[i].last, ahead));
    json_t *root = json_pack("{s:i, s:o}", "version", FILE_VERSION, "streams", streams);
    char *text = json_dumps(root, JSON_INDENT(1));
    json_decref(root);
    return text;
}

/* A free row, or that of the stream which has been gone longest; NULL: all of them run. */
static struct kept *new_row(struct numbers *n)
{
    if (n->count < NAMES_MAX)
        return &n->list[n->count++];
    struct kept *oldest = NULL;
    for (uint32_t i = 0; i < n->count; i++)
        if (!n->list[i].runs && (oldest == NULL || n->list[i].pass < oldest->pass))
            oldest = &n->list[i];
    if (oldest == NULL)
        return NULL;
    *oldest = (struct kept){0};
    return oldest;
}

/* The row of this stream, searched from `near` on; NULL: there is none, and no space for it. */
static struct kept *kept_of(struct numbers *n, const char *stream, uint32_t near)
{
    assert(n->list != NULL);
    for (uint32_t i = 0; i < n->count; i++) {
        struct kept *kept = &n->list[(near + i) % n->count];
        if (strcmp(kept->last.stream, stream) == 0)
            return kept;
    }
    return new_row(n);
}

/* Adds the sinks of `from` that `to` does not have: they were closed, or removed. */
static void add_sinks(struct heritage *to, const struct heritage *from)
{
    for (uint32_t i = 0; i < from->sink_count && to->sink_count < HERITAGE_SINKS; i++)
        if (heritage_sink(to, from->sinks[i].name) == NULL)
            to->sinks[to->sink_count++] = from->sinks[i];
}

static void take(const struct pipeline *pipeline, struct heritage *last)
{
    struct heritage now;
    pipeline_leave(pipeline->predecessor != NULL ? pipeline->predecessor : pipeline, &now);
    add_sinks(&now, last);
    *last = now;
}

/* Takes the numbers of every stream, of removed ones on their way out too. True when one has used
 * up half of what the file promises. */
static bool take_all(struct numbers *n)
{
    const struct pipeline *pipeline;
    bool used_up = false;
    uint32_t near = 0; /* pipelines and this list have the same order, mostly */
    n->pass++;
    for (uint32_t at = 0;
         (pipeline = pipelines_next(n->process->pipelines, PIPELINES_ALL, &at)) != NULL;) {
        const bool counts = pipeline->stream != NULL && (!pipeline->retired || pipeline->removed);
        struct kept *kept = counts ? kept_of(n, pipeline->stream_config->name, near) : NULL;
        if (kept == NULL)
            continue;
        kept->pass = n->pass;
        kept->runs = !pipeline->removed;
        near = (uint32_t)(kept - n->list) + 1;
        take(pipeline, &kept->last);
        const struct stream_numbers *now = &kept->last.numbers;
        used_up = used_up || now->epochs + NUMBERS_AHEAD / 2 > kept->promised_epochs ||
                  (now->records > 0 && now->records + NUMBERS_AHEAD / 2 > kept->promised_records);
    }
    return used_up;
}

static void write_text(struct numbers *n, uint64_t ahead)
{
    struct problem problem;
    char *text = text_of(n, ahead);
    const bool failed = replace_file_text(n->path, text, &problem) < 0;
    free(text);
    if (failed && !n->failed)
        log_warning("%s; after a restart epochs may be numbered anew", problem.text);
    n->failed = failed;
}

static void write_ahead(void *context)
{
    write_text(context, NUMBERS_AHEAD);
}

/* The row of its stream takes what a retired pipeline leaves. */
static void keep(struct numbers *n, const struct retired *retired)
{
    struct kept *kept = kept_of(n, retired->left.stream, 0);
    if (kept == NULL)
        return;
    struct heritage last = retired->left; /* its sinks come first: they are the newest */
    add_sinks(&last, &kept->last);
    if (retired->removed) {
        kept->pass = n->pass;
        kept->runs = false;
    } else {
        last.numbers = kept->last.numbers;
    }
    kept->last = last;
}

/* Leaves those sinks alone that the successor does not have. */
static void drop_sinks_of(const struct pipeline *successor, struct heritage *left)
{
    struct heritage now;
    uint32_t count = 0;
    pipeline_leave(successor, &now);
    for (uint32_t i = 0; i < left->sink_count; i++)
        if (heritage_sink(&now, left->sinks[i].name) == NULL)
            left->sinks[count++] = left->sinks[i];
    left->sink_count = count;
}

void numbers_keep_retired(struct numbers *n, const struct pipeline *pipeline)
{
    struct retired retired = {.removed = pipeline->removed};
    if (pipeline->stream == NULL || (!pipeline->removed && pipeline->successor == NULL))
        return;
    pipeline_leave(pipeline, &retired.left);
    if (!pipeline->removed) {
        drop_sinks_of(pipeline->successor, &retired.left);
        if (retired.left.sink_count == 0)
            return;
    }
    if (!n->writing) {
        keep(n, &retired);
        return;
    }
    struct retired *late = realloc(n->late, (n->late_count + 1) * sizeof *late);
    if (late == NULL)
        return;
    n->late = late;
    n->late[n->late_count++] = retired;
}

static void on_written(void *context)
{
    struct numbers *n = context;
    n->writing = false;
    for (uint32_t i = 0; i < n->late_count; i++)
        keep(n, &n->late[i]);
    free(n->late);
    n->late = NULL;
    n->late_count = 0;
    if (n->last)
        take_all(n);
}

static void on_timer(uv_timer_t *timer)
{
    struct numbers *n = timer->data;
    if (n->writing)
        return;
    const int64_t now_ns = clock_monotonic_ns();
    if (!take_all(n) && now_ns - n->written_ns < keep_ns)
        return;
    if (n->path[0] == '\0') /* only for streams that are removed and come back */
        return;
    for (uint32_t i = 0; i < n->count; i++) {
        n->list[i].promised_epochs = n->list[i].last.numbers.epochs + NUMBERS_AHEAD;
        const uint64_t records = n->list[i].last.numbers.records;
        n->list[i].promised_records = records > 0 ? records + NUMBERS_AHEAD : 0;
    }
    n->written_ns = now_ns;
    n->writing = true;
    loop_work_start(&n->work, n->process->environment->loop, write_ahead, on_written, n);
}

void numbers_start(struct numbers *n)
{
    if (n->started)
        return;
    n->started = true;
    uv_timer_init(n->process->environment->loop, &n->timer);
    n->timer.data = n;
    uv_timer_start(&n->timer, on_timer, 0, CHECK_MS);
}

void numbers_take_last(struct numbers *n)
{
    n->last = n->started;
    if (n->started && !n->writing)
        take_all(n);
}

void numbers_stop(struct numbers *n)
{
    if (n != NULL && n->started && !uv_is_closing((uv_handle_t *)&n->timer))
        uv_close((uv_handle_t *)&n->timer, NULL);
}

/* ---- life -------------------------------------------------------------------------------- */

int numbers_open(const struct process *process, struct numbers **out)
{
    struct numbers *n = calloc(1, sizeof *n);
    if (n == NULL)
        return ERROR_MEMORY;
    n->process = process;
    n->list = calloc(NAMES_MAX, sizeof *n->list);
    if (n->list == NULL) {
        free(n);
        return ERROR_MEMORY;
    }
    const char *directory = process->config->daemon.state_directory;
    if (directory != NULL &&
        snprintf(n->path, sizeof n->path, "%s/streams.json", directory) < (int)sizeof n->path)
        read_file(n);
    *out = n;
    return 0;
}

void numbers_close(struct numbers *n)
{
    if (n == NULL)
        return;
    if (n->last && n->path[0] != '\0')
        write_text(n, 0);
    free(n->late);
    free(n->list);
    free(n);
}

/* ---- a new pipeline ----------------------------------------------------------------------- */

static const struct heritage *find(const struct numbers *n, const char *stream)
{
    for (uint32_t i = 0; i < n->count; i++)
        if (strcmp(n->list[i].last.stream, stream) == 0)
            return &n->list[i].last;
    return NULL;
}

void numbers_introduce(const struct numbers *n, struct pipeline *pipeline)
{
    const struct heritage *heritage = find(n, pipeline->stream_config->name);
    if (heritage == NULL || (pipeline->heritage = malloc(sizeof *heritage)) == NULL)
        return;
    *pipeline->heritage = *heritage;
}

void numbers_add_sinks(const struct numbers *n, struct heritage *heritage)
{
    const struct heritage *last = find(n, heritage->stream);
    if (last != NULL)
        add_sinks(heritage, last);
}

struct heritage *numbers_removed(const struct numbers *n, uint32_t *count)
{
    struct heritage *removed = calloc((size_t)n->late_count + n->count + 1, sizeof *removed);
    *count = 0;
    if (removed == NULL)
        return NULL;
    for (uint32_t i = 0; i < n->late_count; i++) /* the newest first */
        if (n->late[i].removed)
            removed[(*count)++] = n->late[i].left;
    for (uint32_t i = 0; i < n->count; i++)
        if (!n->list[i].runs)
            removed[(*count)++] = n->list[i].last;
    return removed;
}
