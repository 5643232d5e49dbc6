/*
 * Commands about analyses: what runs and what it counts (`analyses`), its events as they come
 * (`hits`, followed by the session), and the samples of one of the last events (`transient`).
 */
#include <nettle/base64.h>
#include <stdlib.h>
#include <string.h>

#include "control/analysis_json.h"
#include "control/commands_internal.h"
#include "io/event_text.h"

/* Samples in one reply; a longer transient takes several requests, so that none holds the loop. */
enum { SAMPLES_A_REPLY = 65536 };

/* The analysis that the request names; NULL: there is none. */
static const struct pipeline_analysis *analysis_of(const struct call *call, const json_t *request)
{
    const char *name = json_string_value(json_object_get(request, "analysis"));
    const struct pipeline *pipeline;
    for (uint32_t at = 0; (pipeline = pipelines_next(call->commands->process->pipelines,
                                                     PIPELINES_RUNNING, &at)) != NULL;)
        for (uint32_t i = 0; i < pipeline->analysis_count; i++)
            if (strcmp(pipeline->analyses[i].config->name, name) == 0)
                return &pipeline->analyses[i];
    return NULL;
}

static json_t *answer_no_analysis(const json_t *request)
{
    struct problem problem;
    problem_set(&problem, ERROR_ARGUMENT,
                "there is no analysis %s; {\"command\": \"analyses\"} names them",
                json_string_value(json_object_get(request, "analysis")));
    return commands_failure("analysis", problem.text);
}

json_t *handle_analyses(struct call *call, const json_t *request)
{
    (void)request;
    return json_pack("{s:b, s:o}", "ok", 1, "analyses",
                     analyses_json(call->commands->process->pipelines));
}

/* Following is the session's (session.c). */
json_t *handle_hits(struct call *call, const json_t *request)
{
    const bool named = json_object_get(request, "analysis") != NULL;
    if (named && analysis_of(call, request) == NULL)
        return answer_no_analysis(request);
    return json_pack("{s:b}", "ok", 1);
}

/* Samples [from, from + count) as base64 of little-endian floats; NULL: no memory. */
static json_t *encode(const float *samples, uint32_t from, uint32_t count)
{
    const size_t bytes = count * sizeof *samples;
    char *text = malloc(BASE64_ENCODE_RAW_LENGTH(bytes) + 1);
    json_t *json = NULL;
    if (text != NULL) {
        base64_encode_raw(text, bytes, (const uint8_t *)(samples + from));
        json = json_stringn(text, BASE64_ENCODE_RAW_LENGTH(bytes));
    }
    free(text);
    return json;
}

/* The reply for an event that is kept; takes its samples, NULL when they are gone. */
static json_t *transient(const struct pipeline_analysis *analysis,
                         const struct analysis_event *event, const float *samples, uint32_t from)
{
    const struct analysis_stream *stream = &analysis->options.stream;
    const uint32_t left = event->sample_count - from;
    const uint32_t count = left < SAMPLES_A_REPLY ? left : SAMPLES_A_REPLY;
    json_t *object = analysis_event_json(analysis, event);
    json_t *encoded = encode(samples, from, count);
    if (object == NULL || encoded == NULL) {
        json_decref(object);
        json_decref(encoded);
        return NULL;
    }
    const uint32_t channel = event->channel < stream->channels ? event->channel : 0;
    return json_pack("{s:b, s:o, s:I, s:f, s:s, s:I, s:I, s:o}", "ok", 1, "event", object,
                     "first_sample", (json_int_t)event->first_sample, "rate_hz", stream->rate_hz,
                     "unit", stream->units[channel], "sample_count",
                     (json_int_t)event->sample_count, "from", (json_int_t)from, "samples", encoded);
}

json_t *handle_transient(struct call *call, const json_t *request)
{
    const struct pipeline_analysis *analysis = analysis_of(call, request);
    const uint64_t number = (uint64_t)json_integer_value(json_object_get(request, "number"));
    const json_int_t from = json_integer_value(json_object_get(request, "from"));
    if (analysis == NULL)
        return answer_no_analysis(request);
    const struct analysis_store *store = analysis_stage_store(analysis->stage);
    struct stored_event stored;
    if (!analysis_store_find(store, number, &stored))
        return commands_failure("number", "that event is not kept, or not any more; the last 4096 "
                                          "of an analysis are");
    if (stored.event.sample_count == 0)
        return commands_failure("number", "that event has no samples");
    if (from >= stored.event.sample_count)
        return commands_failure("argument", "`from` is behind the last sample of that event");
    float *samples = malloc(stored.event.sample_count * sizeof *samples);
    json_t *answer = NULL;
    if (samples != NULL && analysis_store_samples(store, &stored, samples))
        answer = transient(analysis, &stored.event, samples, (uint32_t)from);
    else if (samples != NULL)
        answer = commands_failure("number", "the samples of that event are not kept any more; "
                                            "16 MiB of the newest are");
    free(samples);
    return answer != NULL ? answer : commands_failure("failed", "no memory for the samples");
}
