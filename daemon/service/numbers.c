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
    uint64_t promised_epochs, promised_records;
};

struct numbers {
    const struct process *process;
    char path[PATH_BYTES]; /* "": none */

    /* loop, and while `writing` the worker reads them; also of streams that are gone, which may
     * come back */
    struct kept *list; /* [NAMES_MAX] */
    uint32_t count;
    bool writing, failed;
    bool last; /* the last numbers are wanted once it has been written */
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
        json_array_append_new(sinks, json_pack("{s:s, s:I, s:I}", "name", h->sinks[i].name, "ssrc",
                                               (json_int_t)h->sinks[i].identity.ssrc, "sequence",
                                               (json_int_t)h->sinks[i].identity.sequence));
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

/* The stream of this name, searched from `near` on; NULL: no room for a new one. */
static struct kept *kept_of(struct numbers *n, const char *stream, uint32_t near)
{
    assert(n->list != NULL);
    for (uint32_t i = 0; i < n->count; i++) {
        struct kept *kept = &n->list[(near + i) % n->count];
        if (strcmp(kept->last.stream, stream) == 0)
            return kept;
    }
    return n->count < NAMES_MAX ? &n->list[n->count++] : NULL;
}

/* A sink that is closed has told what it is known by before. */
static void take(const struct pipeline *pipeline, struct heritage *last)
{
    struct heritage now;
    pipeline_leave(pipeline->predecessor != NULL ? pipeline->predecessor : pipeline, &now);
    if (now.sink_count < last->sink_count) {
        memcpy(now.sinks, last->sinks, sizeof now.sinks);
        now.sink_count = last->sink_count;
    }
    *last = now;
}

/* Takes the numbers of every pipeline in use. True when one has used up half of what the file
 * promises. */
static bool take_all(struct numbers *n)
{
    const struct pipeline *pipeline;
    bool used_up = false;
    uint32_t near = 0; /* pipelines and this list have the same order, mostly */
    for (uint32_t at = 0;
         (pipeline = pipelines_next(n->process->pipelines, PIPELINES_RUNNING, &at)) != NULL;) {
        struct kept *kept =
            pipeline->stream == NULL ? NULL : kept_of(n, pipeline->stream_config->name, near);
        if (kept == NULL)
            continue;
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

static void on_written(void *context)
{
    struct numbers *n = context;
    n->writing = false;
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
    if (n->path[0] == '\0' || n->started)
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
    if (n->last)
        write_text(n, 0);
    free(n->list);
    free(n);
}

/* ---- a new pipeline: worker thread ------------------------------------------------------- */

static const struct heritage *find(const struct numbers *n, const struct pipeline *pipeline)
{
    for (uint32_t i = 0; i < n->count; i++)
        if (strcmp(n->list[i].last.stream, pipeline->stream_config->name) == 0)
            return &n->list[i].last;
    return NULL;
}

void numbers_introduce(const struct numbers *n, struct pipeline *pipeline)
{
    const struct heritage *heritage = find(n, pipeline);
    if (heritage == NULL || (pipeline->heritage = malloc(sizeof *heritage)) == NULL)
        return;
    *pipeline->heritage = *heritage;
}
