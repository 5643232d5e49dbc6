/* Analyses as JSON: see analysis_json.h. */
#include "control/analysis_json.h"

#include <math.h>
#include <stdio.h>

#include "core/clock.h"
#include "io/event_text.h"

/* ---- ledgers ----------------------------------------------------------------------------- */

/* Of an analysis, and of a sink of events: these are there at 0 too, so that a series begins
 * before its first drop. */
enum {
    DROPS_OF_ANALYSIS = 1 << DROP_QUEUE | 1 << DROP_STOPPED,
    DROPS_OF_SINK = DROPS_OF_ANALYSIS | 1 << DROP_DISK,
};

static json_t *drops(const uint64_t dropped[DROPS], unsigned always)
{
    json_t *object = json_object();
    for (int drop = 0; drop < DROPS; drop++)
        if (dropped[drop] > 0 || always >> drop & 1)
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
                     drops(ledger.dropped, DROPS_OF_SINK), "bytes", (json_int_t)ledger.bytes,
                     "files", (json_int_t)ledger.files, "clipped", (json_int_t)ledger.clipped);
}

static json_t *ledger_json(const struct pipeline_analysis *analysis)
{
    struct analysis_stage_ledger ledger;
    analysis_stage_ledger(analysis->stage, &ledger);
    const struct analysis_ledger *own = &ledger.analysis;
    json_t *object =
        json_pack("{s:o, s:I, s:I, s:I, s:I, s:I, s:I}", "events", events(own), "limited",
                  (json_int_t)own->limited, "unlocated", (json_int_t)own->unlocated, "unused",
                  (json_int_t)own->unused, "waiting", (json_int_t)own->at_once, "unordered",
                  (json_int_t)own->unordered, "untraced", (json_int_t)own->untraced);
    json_t *input =
        analysis->config->type->of_events
            ? json_pack("{s:I, s:I, s:o}", "taken", (json_int_t)ledger.taken, "pending",
                        (json_int_t)ledger.taken_pending, "dropped",
                        drops(ledger.taken_dropped, DROPS_OF_ANALYSIS))
            : json_pack("{s:I, s:I, s:I, s:I, s:o}", "frames", (json_int_t)ledger.frames, "live",
                        (json_int_t)ledger.live, "dead", (json_int_t)ledger.dead, "pending",
                        (json_int_t)ledger.pending, "dropped",
                        drops(ledger.dropped, DROPS_OF_ANALYSIS));
    json_object_update(object, input);
    json_decref(input);
    return object;
}

/* ---- totals ------------------------------------------------------------------------------ */

static json_t *real(double value)
{
    return isfinite(value) ? json_real(value) : json_null();
}

/* One member for each total that the events of this kind can have: "counts", "energy_eu" …. */
static json_t *sums_json(const struct event_totals *totals, uint32_t row, int64_t now_ns)
{
    struct event_sums all, recent;
    char name[48];
    event_totals_read(totals, row, &all);
    event_totals_recent(totals, row, now_ns, &recent);
    json_t *object = json_pack("{s:I, s:f}", "events", (json_int_t)all.events, "events_per_s",
                               (double)recent.events / TOTALS_SECONDS);
    for (int t = 0; t < EVENT_TOTALS; t++) {
        const char *field = event_total_field((enum event_total)t);
        if (!event_totals_has(totals, (enum event_total)t))
            continue;
        snprintf(name, sizeof name, "%s_per_s", field);
        json_object_set_new(object, field, real(all.sums[t]));
        json_object_set_new(object, name, real(recent.sums[t] / TOTALS_SECONDS));
    }
    return object;
}

static json_t *totals_json(const struct pipeline_analysis *analysis)
{
    const struct event_totals *totals = analysis_stage_totals(analysis->stage);
    const int64_t now_ns = clock_monotonic_ns();
    json_t *list = json_array();
    for (uint32_t row = 0; row < event_totals_rows(totals); row++)
        json_array_append_new(list, sums_json(totals, row, now_ns));
    return list;
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
        json_object_set_new(object, "kind",
                            json_string(analysis_event_word(analysis->config->type->emits)));
        json_object_set_new(object, "totals", totals_json(analysis));
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
