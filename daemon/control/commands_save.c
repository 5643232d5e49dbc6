/*
 * The command `save`: what was changed while the daemon ran, as a fragment for conf.d. Filters and
 * gains become `filter` or `route` keys of their streams, with the factors in use to the last bit,
 * so that a restart with the fragment gives the same state. The daemon writes no file: whoever
 * asked does, with his own rights, once the fragment is proven (config_load_with).
 */
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "control/commands_internal.h"

/* Whether the edges are those of the configuration. */
static bool as_configured(const struct config_stream *stream, const struct config_edge *edges)
{
    for (uint32_t e = 0; edges != NULL && e < stream->edge_count; e++)
        if (edges[e].filter != stream->edges[e].filter || edges[e].gain != stream->edges[e].gain)
            return false;
    return true;
}

/* One filter for every channel, each to the output of its number: `filter = NAME` says all. */
static bool is_one_filter(const struct config_stream *stream, const struct config_edge *edges)
{
    for (uint32_t e = 0; e < stream->edge_count; e++)
        if (edges[e].input != e || edges[e].output != e || edges[e].gain != 1 ||
            edges[e].filter != edges[0].filter)
            return false;
    return stream->edge_count == stream->source.channels;
}

static bool has_array(const struct pipeline *pipeline, const struct config_edge *edges)
{
    for (uint32_t e = 0; e < pipeline->stream_config->edge_count; e++)
        if (pipeline->config->filters[edges[e].filter].spec.type == FILTER_FK)
            return true;
    return false;
}

static void print_stream(const struct pipeline *pipeline, const struct config_edge *edges,
                         FILE *out)
{
    const struct config_stream *stream = pipeline->stream_config;
    const struct config_filter *filters = pipeline->config->filters;
    if (has_array(pipeline, edges)) {
        fprintf(out,
                "\n; stream %s: gains beside a filter of an array (fk) have no key, and are not "
                "saved\n",
                stream->name);
        return;
    }
    fprintf(out, "\n[stream %s]\n", stream->name);
    if (is_one_filter(stream, edges)) {
        fprintf(out, "bank =\nroute =\nfilter = %s\n", filters[edges[0].filter].name);
        return;
    }
    fprintf(out, "filter =\nbank =\n");
    for (uint32_t e = 0; e < stream->edge_count; e++)
        fprintf(out, "route = %u -> %s %.9g -> %u\n", edges[e].input + 1u,
                filters[edges[e].filter].name, (double)edges[e].gain, edges[e].output + 1u);
}

/* From the root on, without a look at the file system, which may hang. */
static const char *whole_path(const char *path, char whole[2 * PATH_MAX])
{
    char folder[PATH_MAX];
    if (path[0] == '/' || getcwd(folder, sizeof folder) == NULL)
        return path;
    snprintf(whole, 2 * PATH_MAX, "%s/%s", folder, path);
    return whole;
}

json_t *handle_save(struct call *call, const json_t *request)
{
    const struct process *process = call->commands->process;
    struct pipeline *pipeline;
    char *text = NULL, path[2 * PATH_MAX];
    size_t bytes;
    json_t *streams = json_array();
    FILE *out = open_memstream(&text, &bytes);
    (void)request;
    if (out == NULL) {
        json_decref(streams);
        return commands_failure("failed", "out of memory");
    }
    fprintf(out, "; What was changed while convolvd ran, beside %s.\n", process->config->path);
    for (uint32_t at = 0;
         (pipeline = pipelines_next(process->pipelines, PIPELINES_RUNNING, &at)) != NULL;) {
        const struct config_edge *edges = changes_edges(call->commands->changes, pipeline);
        if (as_configured(pipeline->stream_config, edges))
            continue;
        print_stream(pipeline, edges, out);
        json_array_append_new(streams, json_string(pipeline->stream_config->name));
    }
    fclose(out);
    json_t *answer = json_pack("{s:b, s:s, s:s, s:o}", "ok", 1, "fragment", text, "config",
                               whole_path(process->config->path, path), "streams", streams);
    free(text);
    return answer;
}
