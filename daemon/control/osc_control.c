/*
 * OSC control: see osc_control.h. The table of addresses (osc_table.c) says which messages there
 * are, the table of handlers below what each does. A message with the name of a command
 * (command_table.h) becomes that command (osc_commands.h).
 */
#include "control/osc_control.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/log.h"
#include "io/osc/server.h"
#include "control/osc_commands.h"
#include "control/osc_events.h"
#include "control/osc_table.h"

struct osc_control {
    const struct process *process;
    struct osc_networks control; /* who has the role of that name */
    struct osc *osc;
    struct osc_events *events;
    struct osc_commands *commands;
};

/* One message on its way to its handler. */
struct request {
    struct osc_control *control;
    struct osc_peer *peer;
    const struct osc_message *message;
    struct osc_reader reader;
    const struct pipeline *pipeline; /* rows of a stream */
    bool takes_port;                 /* its last argument may say where answers go */
};

/* ---- answers ----------------------------------------------------------------------------- */

/* Whom an answer that comes before read_port is for: the port that the last argument names, where
 * the message takes one and a peer there may be answered; else who asked. */
static struct osc_peer *answered_peer(const struct request *request)
{
    const struct osc_message *message = request->message;
    struct osc_reader reader = {.message = message, .at = message->arguments};
    double port;
    if (!request->takes_port || message->count == 0)
        return request->peer;
    while (reader.index + 1 < message->count)
        osc_skip(&reader);
    if (osc_peek(&reader) != 'i' || !osc_read_number(&reader, &port) ||
        !(port >= 1 && port <= UINT16_MAX))
        return request->peer;
    struct osc_peer *peer = osc_peer_at(request->peer, (uint16_t)port);
    return peer != NULL && peer->proven ? peer : request->peer;
}

static void refuse(const struct request *request, const char *text)
{
    osc_answer_error(answered_peer(request), request->message->address, text);
}

/* The last argument, if it is a number, names another port of the same host for the answers. False:
 * it is no port, or there is no room for another peer. */
static bool read_port(struct request *request)
{
    double port;
    if (osc_peek(&request->reader) == '\0')
        return true;
    if (!osc_read_number(&request->reader, &port) || osc_peek(&request->reader) != '\0' ||
        !(port >= 1 && port <= 65535)) {
        refuse(request, "the last argument is no port; write i 9001, or leave it out");
        return false;
    }
    struct osc_peer *peer = osc_peer_at(request->peer, (uint16_t)port);
    if (peer == NULL) {
        refuse(request, "too many addresses are served; try again later");
        return false;
    }
    request->peer = peer;
    return osc_peer_prove(peer);
}

/* ---- questions --------------------------------------------------------------------------- */

static void on_list(struct request *request)
{
    const struct pipelines *pipelines = request->control->process->pipelines;
    const struct pipeline *pipeline;
    if (!read_port(request))
        return;
    lo_message message = lo_message_new();
    for (uint32_t at = 0; (pipeline = pipelines_next(pipelines, PIPELINES_RUNNING, &at)) != NULL;)
        lo_message_add_string(message, pipeline->stream_config->name);
    osc_answer(request->peer, "/convolvd/list", message);
}

static float micros(int64_t ns)
{
    return (float)((double)ns / 1e3);
}

static void on_info(struct request *request)
{
    const struct pipeline *pipeline = request->pipeline;
    const struct config_stream *config = pipeline->stream_config;
    struct stream_stats stats;
    struct source_ledger ledger;
    char format[24], address[128];
    snprintf(address, sizeof address, "/convolvd/%s/%s", config->name, osc_table[OSC_INFO].word);
    if (!read_port(request))
        return;
    stream_stats(pipeline->stream, &stats);
    bool detectable = config->loss_detectable;
    if (pipeline_source_ledger(pipeline, &ledger))
        detectable = ledger.loss_detectable;
    lo_message message = lo_message_new();
    lo_message_add_string(message, config->name);
    lo_message_add_float(message, (float)config->source.rate_hz);
    lo_message_add_int32(message, (int32_t)config->source.channels);
    lo_message_add_int32(message, (int32_t)config->output_floats);
    lo_message_add_int32(message, (int32_t)config->hop_frames);
    lo_message_add_string(message, sample_format_name(&config->source.format, format));
    lo_message_add_float(message, (float)stats.delay_frames);
    lo_message_add_float(message, (float)(100 * stats.load));
    lo_message_add_float(message, micros(histogram_quantile(stats.total, 0.5)));
    lo_message_add_float(message, micros(histogram_quantile(stats.total, 0.99)));
    osc_add_wide(request->peer, message, stats.out);
    osc_add_wide(request->peer, message, stats.invalid_frames);
    lo_message_add_string(message, detectable ? "detectable" : "undetectable");
    lo_message_add_float(message, (float)config->output_rate_hz);
    osc_answer(request->peer, address, message);
}

static const struct {
    const char *name;
    unsigned topics;
} topic_table[] = {
    {"levels", OSC_TOPIC_LEVELS},   {"envelope", OSC_TOPIC_ENVELOPE},
    {"latency", OSC_TOPIC_LATENCY}, {"results", OSC_TOPIC_RESULTS},
    {"alarms", OSC_TOPIC_ALARMS},   {"events", OSC_TOPIC_EVENTS},
};

/* Whether results of the stream reach the server's subscribers. */
static bool publishes(const struct pipeline *pipeline)
{
    for (uint32_t i = 0; i < pipeline->sink_count; i++)
        if (pipeline->sinks[i].config->driver->osc_server)
            return true;
    return false;
}

static void on_subscribe(struct request *request)
{
    const char *stream = request->pipeline->stream_config->name, *topic;
    unsigned topics = OSC_TOPIC_LEVELS | OSC_TOPIC_ENVELOPE;
    double rate_hz = 0;
    struct problem problem;
    if (osc_read_string(&request->reader, &topic)) {
        topics = 0;
        for (size_t i = 0; i < sizeof topic_table / sizeof *topic_table; i++)
            if (strcmp(topic, topic_table[i].name) == 0)
                topics = topic_table[i].topics;
    }
    if (topics == 0) {
        refuse(request,
               "no such topic; write levels, envelope, latency, results, alarms or events");
        return;
    }
    if (topics == OSC_TOPIC_EVENTS && request->pipeline->analysis_count == 0) {
        refuse(request, "this stream has no analysis; add [analysis NAME]");
        return;
    }
    if (topics != OSC_TOPIC_ALARMS && topics != OSC_TOPIC_EVENTS && !publishes(request->pipeline)) {
        refuse(request, "this stream has no sink for OSC; add [sink NAME] with type = osc");
        return;
    }
    /* A rate comes as f; an i alone is a port already. */
    char type = osc_peek(&request->reader);
    if (type == 'f' || type == 'd' ||
        (type == 'i' && request->reader.index + 1 < request->message->count))
        osc_read_number(&request->reader, &rate_hz);
    if (!read_port(request))
        return;
    if (osc_subscribe(osc_subscriptions(request->control->osc), request->peer, stream, topics,
                      rate_hz, &problem) != 0)
        refuse(request, problem.text);
    else if (topics == OSC_TOPIC_EVENTS)
        osc_events_tell_fields(request->pipeline, request->peer);
}

static void on_unsubscribe(struct request *request)
{
    if (read_port(request))
        osc_unsubscribe(osc_subscriptions(request->control->osc), request->peer,
                        request->pipeline->stream_config->name);
}

static void on_narrow(struct request *request)
{
    double narrow;
    if (osc_read_number(&request->reader, &narrow))
        request->peer->narrow = narrow != 0;
    else
        refuse(request, "write i 1 or i 0");
}

/* ---- dispatch ---------------------------------------------------------------------------- */

static void (*const handlers[OSC_WORDS])(struct request *request) = {
    [OSC_LIST] = on_list,           [OSC_INFO] = on_info,
    [OSC_SUBSCRIBE] = on_subscribe, [OSC_UNSUBSCRIBE] = on_unsubscribe,
    [OSC_NARROW] = on_narrow,
};

/* The row whose word matches, -1: none. The number of parts decides between rows of streams and
 * others. */
static int find_row(const struct osc_part *parts, int count)
{
    const struct osc_part *word = &parts[count - 1];
    for (int i = 0; i < OSC_WORDS; i++)
        if (osc_table[i].inward && osc_table[i].of_stream == (count == 2) &&
            osc_part_matches(word->text, word->length, osc_table[i].word,
                             strlen(osc_table[i].word)))
            return i;
    return -1;
}

/* The next running stream whose name matches, NULL: none. Start with *at 0. */
static const struct pipeline *next_stream(const struct osc_control *control,
                                          const struct osc_part *pattern, uint32_t *at)
{
    const struct pipelines *pipelines = control->process->pipelines;
    const struct pipeline *pipeline;
    while ((pipeline = pipelines_next(pipelines, PIPELINES_RUNNING, at)) != NULL) {
        const char *name = pipeline->stream_config->name;
        if (osc_part_matches(pattern->text, pattern->length, name, strlen(name)))
            return pipeline;
    }
    return NULL;
}

static const char no_stream[] = "there is no such stream; /convolvd/list names them";

/* Handles the message once for every stream whose name matches its pattern. */
static void to_streams(struct request *request, int row, const struct osc_part *stream)
{
    struct osc_peer *sender = request->peer;
    unsigned found = 0;
    for (uint32_t at = 0; (request->pipeline = next_stream(request->control, stream, &at)) != NULL;
         found++) {
        request->peer = sender;
        request->reader =
            (struct osc_reader){.message = request->message, .at = request->message->arguments};
        handlers[row](request);
    }
    if (found == 0)
        refuse(request, no_stream);
}

/* Runs the command of this row, for every stream that matches or, with stream NULL, without any. */
static void to_command(const struct request *request, int row, const struct osc_part *stream)
{
    struct osc_commands *commands = request->control->commands;
    const struct pipeline *pipeline;
    struct osc_command command;
    unsigned found = 0;
    if (!osc_command_read(&command, row, request->peer, request->message))
        return;
    if (stream == NULL)
        osc_command_run(commands, &command, NULL);
    for (uint32_t at = 0;
         stream != NULL && (pipeline = next_stream(request->control, stream, &at)) != NULL; found++)
        osc_command_run(commands, &command, pipeline->stream_config->name);
    if (stream != NULL && found == 0)
        osc_answer_error(command.answered, request->message->address, no_stream);
    osc_command_end(&command);
}

/* A message by neither table, or a block whose stream is a pattern. */
static void refuse_address(const struct request *request, const struct osc_part *parts, int count)
{
    if (count > 0 && count <= 2 && find_row(parts, count) >= 0)
        refuse(request, "blocks need the stream's whole name, without wildcards");
    else
        refuse(request, "no such address; see convolvd --help-osc");
}

static void on_message(void *context, struct osc_peer *peer, const struct osc_message *message)
{
    struct osc_control *control = context;
    struct osc_part parts[2];
    struct request request = {.control = control, .peer = peer, .message = message};
    request.reader = (struct osc_reader){.message = message, .at = message->arguments};
    int count = osc_address_parts(message->address, parts, 2);
    if (control->process->phase != PROCESS_RUNNING)
        return;
    int row = count > 0 ? find_row(parts, count) : -1;
    int command = row < 0 && count > 0 ? osc_commands_find(&parts[count - 1], count == 2) : -1;
    double token;
    request.takes_port = row >= 0 && osc_table[row].port;
    if (row == OSC_PROVE) {
        if (osc_read_number(&request.reader, &token) && fabs(token) <= INT32_MAX)
            osc_peer_confirm(peer, (int32_t)token);
        return;
    }
    /* Whoever has not proven the address gets no answer but the challenge. */
    const bool known = row >= 0 || command >= 0;
    if (known ? !osc_peer_prove(peer) : !peer->proven)
        return;
    if (command >= 0)
        to_command(&request, command, count == 2 ? &parts[0] : NULL);
    else if (row < 0 || handlers[row] == NULL)
        refuse_address(&request, parts, count);
    else if (count == 2)
        to_streams(&request, row, &parts[0]);
    else
        handlers[row](&request);
}

/* ---- measures for subscriptions ---------------------------------------------------------- */

static bool measure(void *context, const char *stream, struct osc_measures *measures)
{
    const struct osc_control *control = context;
    const struct pipeline *pipeline = pipelines_find(control->process->pipelines, stream);
    struct stream_stats stats;
    if (pipeline == NULL)
        return false;
    stream_stats(pipeline->stream, &stats);
    measures->channels = stats.channels < OSC_CHANNELS_MAX ? stats.channels : OSC_CHANNELS_MAX;
    for (uint32_t c = 0; c < measures->channels; c++)
        measures->clips[c] = stats.levels[c].overload;
    static const double quantiles[] = {0.5, 0.99, 1};
    for (int i = 0; i < 3; i++)
        measures->total_us[i] = micros(histogram_quantile(stats.total, quantiles[i]));
    for (int stage = 0; stage < STAGES; stage++)
        measures->stage_us[stage] = micros(histogram_quantile(&stats.stages[stage], 0.5));
    return true;
}

/* ---- roles ------------------------------------------------------------------------------- */

/* The networks of `control`; without the key those that are trusted. */
static int read_control(struct osc_control *control, const struct config_osc *config,
                        struct problem *problem)
{
    if (config->control == NULL)
        return osc_networks_trusted(&control->control, config->trust, config->trust_count, problem);
    return osc_networks_add(&control->control, config->control, config->control_count, problem);
}

/* ---- life -------------------------------------------------------------------------------- */

int osc_control_open(const struct process *process, struct commands *commands,
                     struct osc_control **out, struct problem *problem)
{
    const struct config_osc *config = &process->config->osc;
    struct osc_control *control = calloc(1, sizeof *control);
    if (control == NULL)
        return problem_set(problem, ERROR_MEMORY, "osc: out of memory");
    const struct osc_options options = {
        .address = config->address,
        .tcp_address = config->tcp_address,
        .allow = config->allow,
        .allow_count = config->allow_count,
        .trust = config->trust,
        .trust_count = config->trust_count,
        .lease_ns = config->lease_ns,
        .tcp_timeout_ns = config->tcp_timeout_ns,
        .tcp_idle_ns = config->tcp_idle_ns,
        .receive_buffer_bytes = config->receive_buffer_bytes,
        .context = control,
        .control = on_message,
        .signature = osc_signature,
        .measure = measure,
    };
    control->process = process;
    control->commands = osc_commands_open(commands, &control->control);
    int error = control->commands != NULL
                    ? read_control(control, config, problem)
                    : problem_set(problem, ERROR_MEMORY, "osc: out of memory");
    if (error == 0)
        error = osc_open(process->environment, &options, &control->osc, problem);
    if (error == 0 && osc_events_open(process, control->osc, &control->events) != 0) {
        osc_close(control->osc);
        error = problem_set(problem, ERROR_MEMORY, "osc: out of memory");
    }
    if (error != 0) {
        osc_commands_close(control->commands);
        osc_control_free(control);
        return error;
    }
    *out = control;
    return 0;
}

void osc_control_close(struct osc_control *control)
{
    if (control == NULL)
        return;
    osc_commands_close(control->commands);
    control->commands = NULL;
    osc_events_close(control->events);
    osc_close(control->osc);
    control->events = NULL;
    control->osc = NULL;
}

void osc_control_free(struct osc_control *control)
{
    free(control);
}
