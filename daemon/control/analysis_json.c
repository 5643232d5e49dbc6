/* Analyses as JSON: see analysis_json.h. */
#include "control/analysis_json.h"

#include <stdio.h>

#include "io/event_text.h"

/* ---- ledgers ----------------------------------------------------------------------------- */

static json_t *drops(const uint64_t dropped[DROPS])
{
    json_t *object = json_object();
    for (int drop = 0; drop < DROPS; drop++)
        if (dropped[drop] > 0)
            json_object_set_new(object, drop_name((enum drop)drop),
                                json_integer((json_int_t)dropped[drop]));
    return object;
}

static json_t *events(const struct analysis_ledger *ledger)
{
    json_t *object = json_object();
    for (int kind = 0; kind < ANALYSIS_EVENT_KINDS; kind++)
        if (ledger->events[kind] > 0)
            json_object_set_new(object, analysis_event_word((enum analysis_event_kind)kind),
                                json_integer((json_int_t)ledger->events[kind]));
    return object;
}

static json_t *sink_json(const struct pipeline_analysis *analysis, uint32_t index)
{
    struct event_sink_ledger ledger;
    analysis_stage_sink_ledger(analysis->stage, index, &ledger);
    return json_pack("{s:s, s:I, s:I, s:I, s:o, s:I, s:I, s:I}", "name",
                     analysis->sinks[index].name, "events", (json_int_t)ledger.events, "delivered",
                     (json_int_t)ledger.delivered, "pending", (json_int_t)ledger.pending, "dropped",
                     drops(ledger.dropped), "bytes", (json_int_t)ledger.bytes, "files",
                     (json_int_t)ledger.files, "clipped", (json_int_t)ledger.clipped);
}

static json_t *ledger_json(const struct pipeline_analysis *analysis)
{
    struct analysis_stage_ledger ledger;
    analysis_stage_ledger(analysis->stage, &ledger);
    json_t *object = json_pack("{s:o, s:I, s:I, s:I}", "events", events(&ledger.analysis),
                               "limited", (json_int_t)ledger.analysis.limited, "unlocated",
                               (json_int_t)ledger.analysis.unlocated, "unused",
                               (json_int_t)ledger.analysis.unused);
    json_t *input =
        analysis->config->type->of_events
            ? json_pack("{s:I, s:I, s:o}", "taken", (json_int_t)ledger.taken, "pending",
                        (json_int_t)ledger.taken_pending, "dropped", drops(ledger.taken_dropped))
            : json_pack("{s:I, s:I, s:I, s:I, s:o}", "frames", (json_int_t)ledger.frames, "live",
                        (json_int_t)ledger.live, "dead", (json_int_t)ledger.dead, "pending",
                        (json_int_t)ledger.pending, "dropped", drops(ledger.dropped));
    json_object_update(object, input);
    json_decref(input);
    return object;
}

/* ---- settings ---------------------------------------------------------------------------- */

static json_t *field_json(const struct analysis_field *field, uint32_t number)
{
    char name[96];
    if (number > 0)
        snprintf(name, sizeof name, "%s_%u", field->name, number);
    else
        snprintf(name, sizeof name, "%s", field->name);
    return json_pack("{s:s, s:s?, s:s}", "name", name, "unit", field->unit, "sentence",
                     field->sentence);
}

static json_t *fields_json(const struct pipeline_analysis *analysis)
{
    uint32_t count;
    const struct analysis_field *fields =
        analysis->config->type->fields(&analysis->options, &count);
    json_t *list = json_array();
    for (uint32_t f = 0; f < count; f++) {
        if (fields[f].repeat == 0)
            json_array_append_new(list, field_json(&fields[f], 0));
        for (uint32_t i = 0; i < fields[f].repeat; i++)
            json_array_append_new(list, field_json(&fields[f], i + 1));
    }
    return list;
}

static json_t *texts(const char *const *all, uint32_t count)
{
    json_t *list = json_array();
    for (uint32_t i = 0; i < count; i++)
        json_array_append_new(list, json_string(all[i]));
    return list;
}

static json_t *sinks_json(const struct pipeline_analysis *analysis)
{
    json_t *list = json_array();
    for (uint32_t i = 0; i < analysis_stage_sinks(analysis->stage); i++)
        json_array_append_new(list, sink_json(analysis, i));
    return list;
}

static json_t *analysis_json(const struct pipeline_analysis *analysis)
{
    const struct config_analysis *config = analysis->config;
    const struct analysis_options *options = &analysis->options;
    const struct analysis_stream *stream = &options->stream;
    json_t *settings = config->type->describe != NULL ? config->type->describe(options) : NULL;
    json_t *object = json_pack(
        "{s:s, s:s, s:s, s:s, s:f, s:I, s:f, s:b, s:o, s:o, s:o, s:o, s:o, s:o}", "name",
        config->name, "type", config->type->name, "stream", stream->name, "kind",
        analysis_event_word(config->type->emits), "rate_hz", stream->rate_hz, "channels",
        (json_int_t)stream->channels, "delay_frames", stream->delay_frames, "aligned",
        (int)stream->aligned, "units", texts(stream->units, stream->channels), "fields",
        fields_json(analysis), "parameters", texts(options->parameters, options->parameter_count),
        "settings", settings != NULL ? settings : json_object(), "ledger", ledger_json(analysis),
        "sinks", sinks_json(analysis));
    if (options->upstream != NULL)
        json_object_set_new(object, "analysis", json_string(options->upstream->name));
    return object;
}

/* ---- lists ------------------------------------------------------------------------------- */

json_t *analyses_json(const struct pipelines *pipelines)
{
    const struct pipeline *pipeline;
    json_t *list = json_array();
    for (uint32_t at = 0; (pipeline = pipelines_next(pipelines, PIPELINES_RUNNING, &at)) != NULL;)
        for (uint32_t i = 0; i < pipeline->analysis_count; i++)
            json_array_append_new(list, analysis_json(&pipeline->analyses[i]));
    return list;
}

json_t *analyses_status_json(const struct pipeline *pipeline)
{
    json_t *list = json_array();
    for (uint32_t i = 0; i < pipeline->analysis_count; i++) {
        const struct pipeline_analysis *analysis = &pipeline->analyses[i];
        json_t *object = ledger_json(analysis);
        json_object_set_new(object, "name", json_string(analysis->config->name));
        json_object_set_new(object, "type", json_string(analysis->config->type->name));
        json_object_set_new(object, "sinks", sinks_json(analysis));
        json_array_append_new(list, object);
    }
    return list;
}

json_t *analysis_event_json(const struct pipeline_analysis *analysis,
                            const struct analysis_event *event)
{
    struct event_text *text;
    json_t *object = NULL;
    if (event_text_open(analysis->config->type, &analysis->options, &text) != 0)
        return NULL;
    const char *line = event_text_json(text, event, false, NULL);
    if (line != NULL)
        object = json_loads(line, 0, NULL);
    event_text_close(text);
    return object;
}
