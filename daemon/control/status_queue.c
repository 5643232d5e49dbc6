/* Status queue: see status_queue.h. */
#include "control/status_queue.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "control/status.h"
#include "core/clock.h"
#include "core/loop_work.h"

/* How long one turn of the loop reads streams; the last one is finished. */
static const int64_t turn_ns = NS_PER_MS;

struct request {
    struct status_queue *queue;
    struct request *next;
    enum status_form form;
    void (*made)(void *context, char *text, size_t bytes); /* NULL: cancelled */
    void *context;

    /* loop while reading, then the worker */
    bool on_worker;
    struct loop_work work;
    json_t *object;
    json_t *id; /* of the answer; NULL: none */
    FILE *out;  /* of the table */
    char *text;
    size_t bytes;
};

struct status_queue {
    const struct process *process;
    uv_idle_t idle;
    struct request *first; /* oldest first, those on workers too */
    bool closing, closed;

    /* what is being read */
    struct request *reading; /* NULL: nothing */
    uint64_t version;        /* of the registry */
    uint32_t at;
};

static bool is_table(enum status_form form)
{
    return form == STATUS_TABLE || form == STATUS_ANSWER_TABLE;
}

/* ---- the list ---------------------------------------------------------------------------- */

static void free_when_done(struct status_queue *queue)
{
    if (queue->closed && queue->first == NULL)
        free(queue);
}

static void drop(struct request *request)
{
    if (request->out != NULL)
        fclose(request->out);
    json_decref(request->object);
    free(request->text);
    request->out = NULL;
    request->object = NULL;
    request->text = NULL;
    request->bytes = 0;
}

static void forget(struct request *request)
{
    struct status_queue *queue = request->queue;
    struct request **link = &queue->first;
    while (*link != request)
        link = &(*link)->next;
    *link = request->next;
    if (queue->reading == request)
        queue->reading = NULL;
    drop(request);
    json_decref(request->id);
    free(request);
}

static struct request *first_waiting(const struct status_queue *queue)
{
    struct request *request = queue->first;
    while (request != NULL && request->on_worker)
        request = request->next;
    return request;
}

/* ---- text: worker ------------------------------------------------------------------------ */

static char *with_newline(char *text, size_t *bytes)
{
    size_t length = text != NULL ? strlen(text) : 0;
    char *longer = text != NULL ? realloc(text, length + 2) : NULL;
    if (longer == NULL) {
        free(text);
        return NULL;
    }
    memcpy(longer + length, "\n", 2);
    *bytes = length + 1;
    return longer;
}

static void make_text(void *context)
{
    struct request *request = context;
    if (request->form == STATUS_TABLE)
        return;
    if (request->form == STATUS_ANSWER_TABLE) {
        request->object = json_pack("{s:b, s:s}", "ok", 1, "table", request->text);
        free(request->text);
    } else if (request->form == STATUS_ANSWER_JSON) {
        request->object = json_pack("{s:b, s:o*}", "ok", 1, "status", request->object);
    }
    if (request->id != NULL && request->object != NULL)
        json_object_set(request->object, "id", request->id);
    char *text =
        json_dumps(request->object, request->form == STATUS_JSON ? JSON_INDENT(1) : JSON_COMPACT);
    request->text = with_newline(text, &request->bytes);
    json_decref(request->object); /* thousands of streams take a while to free, too */
    request->object = NULL;
}

static void on_text(void *context)
{
    struct request *request = context;
    struct status_queue *queue = request->queue;
    if (request->made != NULL) {
        request->made(request->context, request->text, request->bytes);
        request->text = NULL;
    }
    forget(request);
    free_when_done(queue);
}

/* ---- reading: loop ----------------------------------------------------------------------- */

static void begin(struct status_queue *queue, struct request *request)
{
    drop(request);
    queue->reading = request;
    queue->version = pipelines_version(queue->process->pipelines);
    queue->at = 0;
    if (!is_table(request->form))
        request->object = status_json_head(queue->process);
    else if ((request->out = open_memstream(&request->text, &request->bytes)) != NULL)
        status_print_head(queue->process, request->out);
}

static void finish(struct status_queue *queue, struct request *request)
{
    queue->reading = NULL;
    if (!is_table(request->form)) {
        status_json_tail(queue->process, request->object);
    } else if (request->out != NULL) {
        status_print_tail(queue->process, request->out);
        fclose(request->out);
        request->out = NULL;
    }
    request->on_worker = true;
    loop_work_start(&request->work, queue->process->environment->loop, make_text, on_text, request);
}

/* Reads one stream; false: nothing waits. */
static bool read_one(struct status_queue *queue)
{
    struct request *request = first_waiting(queue);
    if (request == NULL)
        return false;
    if (queue->reading != request || queue->version != pipelines_version(queue->process->pipelines))
        begin(queue, request);
    const struct pipeline *pipeline =
        pipelines_next(queue->process->pipelines, PIPELINES_RUNNING, &queue->at);
    if (pipeline == NULL)
        finish(queue, request);
    else if (!is_table(request->form))
        status_json_stream(request->object, pipeline);
    else if (request->out != NULL)
        status_print_stream(pipeline, request->out);
    return true;
}

static void on_idle(uv_idle_t *idle)
{
    struct status_queue *queue = idle->data;
    int64_t until_ns = clock_monotonic_ns() + turn_ns;
    while (read_one(queue)) {
        if (clock_monotonic_ns() >= until_ns)
            return;
    }
    uv_idle_stop(idle);
}

/* ---- requests ---------------------------------------------------------------------------- */

static struct request *put_request(struct status_queue *queue, enum status_form form,
                                   void (*made)(void *context, char *text, size_t bytes),
                                   void *context)
{
    struct request *request = queue->closing ? NULL : calloc(1, sizeof *request);
    if (request == NULL)
        return NULL;
    request->queue = queue;
    request->form = form;
    request->made = made;
    request->context = context;
    struct request **link = &queue->first;
    while (*link != NULL)
        link = &(*link)->next;
    *link = request;
    uv_idle_start(&queue->idle, on_idle);
    return request;
}

int status_queue_request(struct status_queue *queue, enum status_form form,
                         void (*made)(void *context, char *text, size_t bytes), void *context)
{
    return put_request(queue, form, made, context) != NULL ? 0 : ERROR_MEMORY;
}

int status_queue_answer(struct status_queue *queue, bool json, const json_t *id,
                        void (*made)(void *context, char *text, size_t bytes), void *context)
{
    struct request *request =
        put_request(queue, json ? STATUS_ANSWER_JSON : STATUS_ANSWER_TABLE, made, context);
    if (request == NULL)
        return ERROR_MEMORY;
    request->id = json_deep_copy(id); /* a worker uses it */
    return 0;
}

static void cancel(struct request *request)
{
    request->made = NULL;
    if (!request->on_worker)
        forget(request);
}

void status_queue_cancel(struct status_queue *queue, const void *context)
{
    for (struct request *request = queue->first, *next; request != NULL; request = next) {
        next = request->next;
        if (request->context == context)
            cancel(request);
    }
}

/* ---- life -------------------------------------------------------------------------------- */

int status_queue_open(const struct process *process, struct status_queue **out)
{
    struct status_queue *queue = calloc(1, sizeof *queue);
    if (queue == NULL)
        return ERROR_MEMORY;
    queue->process = process;
    uv_idle_init(process->environment->loop, &queue->idle);
    queue->idle.data = queue;
    *out = queue;
    return 0;
}

static void on_closed(uv_handle_t *handle)
{
    struct status_queue *queue = handle->data;
    queue->closed = true;
    free_when_done(queue);
}

void status_queue_close(struct status_queue *queue)
{
    if (queue == NULL)
        return;
    queue->closing = true;
    for (struct request *request = queue->first, *next; request != NULL; request = next) {
        next = request->next;
        cancel(request);
    }
    uv_close((uv_handle_t *)&queue->idle, on_closed);
}
