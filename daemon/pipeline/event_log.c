/*
 * The analyses of a stream whose events a log has first (io/event_log.h): what the sink that has
 * the log asks of them. Each event leaves its analysis through the outbox of its stage; from there
 * it is kept, until the log has acknowledged it.
 *
 *     stage: outbox ── next ──► line of the log
 *                   ── keep ──► kept ── deliver ──► those who look, sinks of events
 *
 * Loop thread, except where WORKER is named.
 */
#include "io/event_log.h"

#include <stdlib.h>
#include <string.h>

#include "core/log.h"
#include "io/event_message.h"
#include "io/event_text.h"
#include "pipeline/analysis_states.h"
#include "pipeline/pipeline.h"
#include "pipeline/saturation_map.h"

enum { KEPT_BYTES = 16 << 20 };

struct logged_analysis {
    struct analysis_stage *stage;
    struct event_text *text;
    struct message_ring kept;
};

struct event_log {
    struct logged_analysis *all; /* [pipeline->analysis_count] */
    uint8_t *fresh;              /* what they held when nothing was put; NULL until then */
    size_t fresh_bytes;
};

bool pipeline_logs_events(const struct pipeline *pipeline)
{
    return config_logs_events(pipeline->stream_config);
}

/* ---- life: worker ------------------------------------------------------------------------ */

int pipeline_open_event_log(struct pipeline *pipeline)
{
    if (!pipeline_logs_events(pipeline) || pipeline->analysis_count == 0)
        return 0;
    struct event_log *log = calloc(1, sizeof *log);
    if (log == NULL)
        return ERROR_MEMORY;
    pipeline->event_log = log;
    log->all = calloc(pipeline->analysis_count, sizeof *log->all);
    int error = log->all != NULL ? 0 : ERROR_MEMORY;
    for (uint32_t i = 0; error == 0 && i < pipeline->analysis_count; i++) {
        const struct pipeline_analysis *analysis = &pipeline->analyses[i];
        log->all[i].stage = analysis->stage;
        error = event_text_open(analysis->config->type, &analysis->options, &log->all[i].text);
        if (error == 0)
            error = message_ring_open(&log->all[i].kept, KEPT_BYTES);
    }
    return error;
}

void pipeline_close_event_log(struct pipeline *pipeline)
{
    struct event_log *log = pipeline->event_log;
    if (log == NULL)
        return;
    for (uint32_t i = 0; log->all != NULL && i < pipeline->analysis_count; i++) {
        event_text_close(log->all[i].text);
        message_ring_close(&log->all[i].kept);
    }
    free(log->all);
    free(log->fresh);
    free(log);
    pipeline->event_log = NULL;
}

/* ---- what goes in ------------------------------------------------------------------------ */

/* Also before they are open. */
static uint32_t analysis_count(void *context)
{
    const struct pipeline *pipeline = context;
    const struct config *config = pipeline->config;
    uint32_t count = 0;
    for (uint32_t i = 0; i < config->analysis_count; i++)
        count += &config->streams[config->analyses[i].stream] == pipeline->stream_config;
    return count;
}

static const char *analysis_name(void *context, uint32_t i)
{
    return ((const struct pipeline *)context)->analyses[i].config->name;
}

uint32_t pipeline_marks_most(const struct pipeline *pipeline)
{
    enum { OF_SEVERAL = 256 }; /* a record of a log has several short results */
    const uint32_t most = saturation_map_most(pipeline->stream_config);
    return pipeline_logs_events(pipeline) && most < OF_SEVERAL ? OF_SEVERAL : most;
}

static uint32_t marks_most(void *context)
{
    return pipeline_marks_most(context);
}

static uint32_t saturated(void *context, const struct result *result,
                          const struct input_saturation **marks)
{
    return pipeline_saturated(context, result, marks);
}

static bool takes_frames(const struct pipeline_analysis *analysis)
{
    return !analysis->config->type->of_events;
}

static uint64_t room(void *context)
{
    const struct pipeline *pipeline = context;
    uint64_t least = UINT64_MAX;
    for (uint32_t i = 0; i < pipeline->analysis_count; i++) {
        if (!takes_frames(&pipeline->analyses[i]))
            continue;
        const uint64_t frames = analysis_stage_room(pipeline->analyses[i].stage);
        least = frames < least ? frames : least;
    }
    return least;
}

static bool idle(void *context)
{
    return pipeline_analyses_idle(context);
}

static void put(void *context, const struct result *result)
{
    const struct pipeline *pipeline = context;
    for (uint32_t i = 0; i < pipeline->analysis_count; i++)
        if (takes_frames(&pipeline->analyses[i]))
            analysis_stage_put(pipeline->analyses[i].stage, result);
}

void pipeline_analysed(struct pipeline *pipeline)
{
    for (uint32_t i = 0; i < pipeline->sink_count; i++)
        if (pipeline->sinks[i].sink != NULL && pipeline->sinks[i].ops->analysed != NULL)
            pipeline->sinks[i].ops->analysed(pipeline->sinks[i].sink);
}

/* ---- what comes out ---------------------------------------------------------------------- */

static struct logged_analysis *logged(void *context, uint32_t i)
{
    return &((const struct pipeline *)context)->event_log->all[i];
}

/* The oldest event; marks before it go to files at once, as no log has them. */
static const struct event_message *oldest(struct logged_analysis *a)
{
    const struct event_message *message;
    while ((message = analysis_stage_event(a->stage)) != NULL &&
           message->kind != EVENT_MESSAGE_EVENT) {
        analysis_stage_pass_on(a->stage, message);
        analysis_stage_take_event(a->stage);
    }
    return message;
}

static const char *next(void *context, uint32_t i, size_t *bytes)
{
    struct logged_analysis *a = logged(context, i);
    const struct event_message *message = oldest(a);
    if (message == NULL)
        return NULL;
    char *line = event_text_json(a->text, &message->event, false, bytes);
    line[(*bytes)++] = '\n';
    return line;
}

static bool keep(void *context, uint32_t i)
{
    struct logged_analysis *a = logged(context, i);
    if (!event_message_put(&a->kept, &oldest(a)->event, true))
        return false;
    analysis_stage_take_event(a->stage);
    return true;
}

static void pass(void *context, uint32_t i)
{
    struct logged_analysis *a = logged(context, i);
    if (oldest(a) != NULL)
        analysis_stage_take_event(a->stage);
}

static void deliver(void *context, uint32_t i, uint64_t count)
{
    struct logged_analysis *a = logged(context, i);
    for (uint64_t k = 0; k < count; k++) {
        analysis_stage_pass_on(a->stage, event_message_peek(&a->kept));
        message_ring_release(&a->kept);
    }
}

/* ---- what they hold ---------------------------------------------------------------------- */

static void forget(void *context)
{
    const struct pipeline *pipeline = context;
    for (uint32_t i = 0; i < pipeline->analysis_count; i++) {
        struct logged_analysis *a = logged(context, i);
        analysis_stage_discard(a->stage);
        while (event_message_peek(&a->kept) != NULL)
            message_ring_release(&a->kept);
    }
}

static uint8_t *write_states(void *context, size_t *bytes)
{
    return analysis_states_write(context, bytes);
}

static bool begin_anew(struct pipeline *pipeline)
{
    const char *name, *why;
    const struct event_log *log = pipeline->event_log;
    return analysis_states_restore(pipeline, log->fresh, log->fresh_bytes, &name, &why);
}

static bool read_states(void *context, const uint8_t *bytes, size_t count)
{
    struct pipeline *pipeline = context;
    struct event_log *log = pipeline->event_log;
    const char *name, *why;
    if (log->fresh == NULL) /* the first time: nothing was put */
        log->fresh = analysis_states_write(pipeline, &log->fresh_bytes);
    if (bytes == NULL)
        return begin_anew(pipeline);
    if (analysis_states_restore(pipeline, bytes, count, &name, &why))
        return true;
    log_warning("stream %s: its analyses begin anew: of %s, %s", pipeline->stream_config->name,
                name, why);
    (void)begin_anew(pipeline);
    return false;
}

struct event_log_host pipeline_event_log_host(struct pipeline *pipeline)
{
    if (!pipeline_logs_events(pipeline) || analysis_count(pipeline) == 0)
        return (struct event_log_host){0};
    return (struct event_log_host){
        .context = pipeline,
        .count = analysis_count,
        .name = analysis_name,
        .marks_most = marks_most,
        .saturated = saturated,
        .room = room,
        .idle = idle,
        .put = put,
        .next = next,
        .keep = keep,
        .pass = pass,
        .deliver = deliver,
        .forget = forget,
        .write = write_states,
        .read = read_states,
    };
}
