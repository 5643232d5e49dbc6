/*
 * OSC control: see osc_control.h. The table of addresses (osc_table.c) says which messages there
 * are, the table of handlers below what each does. A message that changes something becomes a
 * request by the table of commands (command_table.h).
 */
#include "control/osc_control.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/log.h"
#include "io/osc/server.h"
#include "control/osc_table.h"
#include "control/commands.h"
#include "io/net/address.h"

enum { REQUESTERS = 64 };

/* Who sent a command, to be answered later. */
struct requester {
    struct osc_peer *peer;
    int32_t token; /* the entry of the peer may belong to another one by then */
    uint64_t call;
    enum osc_word word;
    char stream[64];
};

struct osc_control {
    const struct process *process;
    struct osc_networks control; /* who has the role of that name */
    struct osc *osc;
    struct commands *commands;
    struct requester requesters[REQUESTERS]; /* a ring */
    uint64_t next_requester;
};

/* One message on its way to its handler. */
struct request {
    struct osc_control *control;
    struct osc_peer *peer;
    const struct osc_message *message;
    struct osc_reader reader;
    struct pipeline *pipeline; /* rows of a stream */
    bool takes_port;           /* its last argument may say where answers go */
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
    lo_message message = lo_message_new();
    lo_message_add_string(message, request->message->address);
    lo_message_add_string(message, text);
    osc_answer(answered_peer(request), "/convolvd/error", message);
}

static const char *address_of(char text[128], const char *stream, enum osc_word word)
{
    snprintf(text, 128, "/convolvd/%s/%s", stream, osc_table[word].word);
    return text;
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
    osc_answer(request->peer, address_of(address, config->name, OSC_INFO), message);
}

static const struct {
    const char *name;
    unsigned topics;
} topic_table[] = {
    {"levels", OSC_TOPIC_LEVELS},   {"envelope", OSC_TOPIC_ENVELOPE},
    {"latency", OSC_TOPIC_LATENCY}, {"results", OSC_TOPIC_RESULTS},
    {"alarms", OSC_TOPIC_ALARMS},
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
        refuse(request, "no such topic; write levels, envelope, latency, results or alarms");
        return;
    }
    if (topics != OSC_TOPIC_ALARMS && !publishes(request->pipeline)) {
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

/* ---- commands ---------------------------------------------------------------------------- */

static enum osc_word word_of(const char *command)
{
    static const enum osc_word words[] = {OSC_GAIN, OSC_MUTE, OSC_FILTER};
    for (size_t i = 0; i < sizeof words / sizeof *words; i++)
        if (strcmp(command, osc_table[words[i]].word) == 0)
            return words[i];
    return OSC_ERROR;
}

static void send_changed(const struct requester *requester, const char *stream, enum osc_word word,
                         uint64_t frame)
{
    char address[128];
    lo_message message = lo_message_new();
    lo_message_add_string(message, osc_table[word].word);
    osc_add_wide(requester->peer, message, frame);
    osc_answer(requester->peer, address_of(address, stream, OSC_CHANGED), message);
}

static void send_error(const struct requester *requester, const char *text)
{
    char address[128];
    lo_message message = lo_message_new();
    lo_message_add_string(message, address_of(address, requester->stream, requester->word));
    lo_message_add_string(message, text);
    osc_answer(requester->peer, "/convolvd/error", message);
}

/* Whether the entry of the peer is still that of whoever asked. */
static bool is_there(const struct requester *requester)
{
    return requester->peer != NULL && requester->peer->used &&
           requester->peer->token == requester->token;
}

static void on_answered(void *context, const struct command_reply *reply)
{
    const struct requester *requester = context;
    const json_t *frame = json_object_get(reply->object, "frame");
    if (is_there(requester) && frame != NULL)
        send_changed(requester, requester->stream, requester->word,
                     (uint64_t)json_integer_value(frame));
    else if (is_there(requester) && reply->object != NULL)
        send_error(requester, json_string_value(json_object_get(reply->object, "error")));
    json_decref(reply->object);
}

static void on_repeated(void *context, uint64_t call, const struct change_answer *answer)
{
    static const enum osc_word words[] = {
        [CHANGE_GAIN] = OSC_GAIN, [CHANGE_MUTE] = OSC_MUTE, [CHANGE_FILTER] = OSC_FILTER};
    const struct osc_control *control = context;
    for (int i = 0; i < REQUESTERS; i++) {
        const struct requester *requester = &control->requesters[i];
        if (requester->call != call || !is_there(requester))
            continue;
        if (answer->error == 0)
            send_changed(requester, answer->stream, words[answer->kind], answer->frame);
        else
            send_error(requester, answer->text);
    }
}

/* Nobody can have forged the address: it is proven before any message but blocks counts. */
static enum command_role role_of(const struct osc_control *control, const struct osc_peer *peer)
{
    return osc_networks_hold(&control->control, &peer->to) ? ROLE_CONTROL : ROLE_OBSERVE;
}

/* Runs the command of this message; takes the arguments over. */
static void run_command(struct request *request, json_t *arguments)
{
    struct osc_control *control = request->control;
    struct requester *requester = &control->requesters[control->next_requester++ % REQUESTERS];
    const char *command = json_string_value(json_object_get(arguments, "command"));
    const char *stream = request->pipeline->stream_config->name;
    char address[ADDRESS_TEXT];
    struct caller caller = {.role = role_of(control, request->peer),
                            .role_help = "list the address under `control` in [osc]"};
    snprintf(caller.name, sizeof caller.name, "OSC %s", address_text(&request->peer->to, address));
    commands_cancel(control->commands, requester); /* one that 64 requests have overtaken */
    *requester = (struct requester){
        .peer = request->peer, .token = request->peer->token, .word = word_of(command)};
    snprintf(requester->stream, sizeof requester->stream, "%s", stream);
    json_object_set_new(arguments, "stream", json_string(stream));
    requester->call = commands_run(control->commands, arguments, &caller, on_answered, requester);
    json_decref(arguments);
}

/* The output, where the message names one. */
static bool read_output(struct request *request, json_t *arguments)
{
    double number = 0;
    if (osc_peek(&request->reader) == '\0')
        return true;
    if (!osc_read_number(&request->reader, &number) || !isfinite(number)) {
        refuse(request, "outputs are counted from 1; write i 1, or leave it out for all");
        return false;
    }
    if (number != 0) /* 0 stands for all, too */
        json_object_set_new(arguments, "output", json_real(number));
    return true;
}

static void on_gain(struct request *request)
{
    double gain_db;
    if (!osc_read_number(&request->reader, &gain_db) || !isfinite(gain_db)) {
        refuse(request, "write the gain in dB, -200 to 200, as f -6");
        return;
    }
    json_t *arguments = json_pack("{s:s, s:f}", "command", "gain", "gain_db", gain_db);
    if (read_output(request, arguments))
        run_command(request, arguments);
    else
        json_decref(arguments);
}

static void on_mute(struct request *request)
{
    double muted;
    if (!osc_read_number(&request->reader, &muted)) {
        refuse(request, "write i 1 to mute, i 0 to let it be heard");
        return;
    }
    json_t *arguments = json_pack("{s:s, s:b}", "command", "mute", "mute", muted != 0);
    if (read_output(request, arguments))
        run_command(request, arguments);
    else
        json_decref(arguments);
}

/* Frame, way and fade, as far as the message has them. NULL: it is complete; else what to write. */
static const char *read_filter(struct request *request, json_t *arguments)
{
    const char *how;
    uint64_t frame;
    double fade_ms;
    if (osc_peek(&request->reader) != '\0' && osc_peek(&request->reader) != 's') {
        if (!osc_read_wide(&request->reader, &frame))
            return "write the frame as h, as two i (high, low), or leave it out";
        json_object_set_new(arguments, "frame", json_integer((json_int_t)(frame & INT64_MAX)));
    }
    if (osc_peek(&request->reader) != '\0') {
        if (!osc_read_string(&request->reader, &how))
            return "write s fade, s hard or s clear after the filter and the frame, or leave it "
                   "out to fade";
        json_object_set_new(arguments, "how", json_string(how));
    }
    if (osc_peek(&request->reader) != '\0') {
        if (!osc_read_number(&request->reader, &fade_ms) || !isfinite(fade_ms))
            return "a fade lasts more than 0 and at most 10000 ms; write f 10, or leave it out";
        json_object_set_new(arguments, "fade_ms", json_real(fade_ms));
    }
    return NULL;
}

static void on_filter(struct request *request)
{
    const char *filter;
    if (!osc_read_string(&request->reader, &filter)) {
        refuse(request, "write the name of a filter, as s band2");
        return;
    }
    json_t *arguments = json_pack("{s:s, s:s}", "command", "filter", "filter", filter);
    if (arguments == NULL) { /* not UTF-8 */
        refuse(request, "write the name of a filter, as s band2");
        return;
    }
    const char *wrong = read_filter(request, arguments);
    if (wrong == NULL) {
        run_command(request, arguments);
        return;
    }
    refuse(request, wrong);
    json_decref(arguments);
}

/* ---- dispatch ---------------------------------------------------------------------------- */

static void (*const handlers[OSC_WORDS])(struct request *request) = {
    [OSC_LIST] = on_list,           [OSC_INFO] = on_info,
    [OSC_SUBSCRIBE] = on_subscribe, [OSC_UNSUBSCRIBE] = on_unsubscribe,
    [OSC_GAIN] = on_gain,           [OSC_MUTE] = on_mute,
    [OSC_FILTER] = on_filter,       [OSC_NARROW] = on_narrow,
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

/* Handles the message once for every stream whose name matches its pattern. */
static void to_streams(struct request *request, int row, const struct osc_part *stream)
{
    const struct pipelines *pipelines = request->control->process->pipelines;
    struct osc_peer *sender = request->peer;
    struct pipeline *pipeline;
    unsigned found = 0;
    for (uint32_t at = 0; (pipeline = pipelines_next(pipelines, PIPELINES_RUNNING, &at)) != NULL;) {
        const char *name = pipeline->stream_config->name;
        if (!osc_part_matches(stream->text, stream->length, name, strlen(name)))
            continue;
        request->pipeline = pipeline;
        request->peer = sender;
        request->reader =
            (struct osc_reader){.message = request->message, .at = request->message->arguments};
        handlers[row](request);
        found++;
    }
    if (found == 0)
        refuse(request, "there is no such stream; /convolvd/list names them");
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
    double token;
    request.takes_port = row >= 0 && osc_table[row].port;
    if (row == OSC_PROVE) {
        if (osc_read_number(&request.reader, &token) && fabs(token) <= INT32_MAX)
            osc_peer_confirm(peer, (int32_t)token);
        return;
    }
    /* Whoever has not proven the address gets no answer but the challenge. */
    if (row < 0 ? !peer->proven : !osc_peer_prove(peer))
        return;
    if (row < 0)
        refuse(&request, "no such address; see convolvd --help-osc");
    else if (handlers[row] == NULL)
        refuse(&request, "blocks need the stream's whole name, without wildcards");
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
        .measure = measure,
    };
    control->process = process;
    control->commands = commands;
    int error = read_control(control, config, problem);
    if (error == 0)
        error = osc_open(process->environment, &options, &control->osc, problem);
    if (error != 0) {
        osc_control_free(control);
        return error;
    }
    commands_on_repeat(commands, on_repeated, control);
    *out = control;
    return 0;
}

void osc_control_close(struct osc_control *control)
{
    if (control == NULL)
        return;
    for (int i = 0; i < REQUESTERS; i++)
        commands_cancel(control->commands, &control->requesters[i]);
    osc_close(control->osc);
    control->osc = NULL;
}

void osc_control_free(struct osc_control *control)
{
    free(control);
}
