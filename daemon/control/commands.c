/* Commands: see commands.h. Dispatch, and the handlers that only look. */
#include "control/commands.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "control/commands_internal.h"
#include "control/event_follow.h"
#include "control/status.h"
#include "core/clock.h"
#include "core/log.h"
#include "stream/move.h"

/* ---- answers ----------------------------------------------------------------------------- */

json_t *commands_failure(const char *code, const char *sentence)
{
    return json_pack("{s:b, s:s, s:s}", "ok", 0, "error", sentence, "code", code);
}

json_t *answer_error(const struct problem *problem)
{
    static const struct {
        enum error error;
        const char *code;
    } codes[] = {
        {ERROR_ARGUMENT, "argument"},       {ERROR_FULL, "busy"},
        {ERROR_UNSUPPORTED, "unsupported"}, {ERROR_CLOSED, "closed"},
        {ERROR_CONFIG, "config"},           {ERROR_LIMIT, "limit"},
        {ERROR_DEVICE, "device"},           {ERROR_NO_FILE, "no-file"},
    };
    for (size_t i = 0; i < sizeof codes / sizeof *codes; i++)
        if (codes[i].error == problem->error)
            return commands_failure(codes[i].code, problem->text);
    return commands_failure("failed", problem->text);
}

json_t *answer_busy(void)
{
    return commands_failure("busy", "too many requests wait for their answers; try again");
}

static void answer_call(const struct call *call, json_t *object, int fd)
{
    const struct command_reply reply = {.object = object, .fd = fd};
    if (call->answered != NULL) {
        if (call->id != NULL && object != NULL)
            json_object_set(object, "id", call->id);
        call->answered(call->context, &reply);
        return;
    }
    json_decref(object);
    if (fd >= 0)
        close(fd);
}

/* ---- calls that wait --------------------------------------------------------------------- */

struct call *call_keep(const struct call *call)
{
    struct commands *commands = call->commands;
    struct call *kept = commands->call_count < CALLS_MAX ? malloc(sizeof *kept) : NULL;
    if (kept == NULL)
        return NULL;
    *kept = *call;
    kept->id = json_incref(call->id);
    kept->next = commands->calls;
    commands->calls = kept;
    commands->call_count++;
    return kept;
}

struct call *call_find(struct commands *commands, uint64_t number)
{
    struct call *call = commands->calls;
    while (call != NULL && (number < call->number || number > call->number + call->parts))
        call = call->next;
    return call;
}

void call_drop(struct call *call)
{
    struct commands *commands = call->commands;
    struct call **link = &commands->calls;
    while (*link != call)
        link = &(*link)->next;
    *link = call->next;
    commands->call_count--;
    json_decref(call->id);
    json_decref(call->answers);
    json_decref(call->failure);
    free(call);
}

/* call_finish with a descriptor, which it takes over too. */
static void finish_with(struct call *call, json_t *object, int fd)
{
    answer_call(call, object, fd);
    call_drop(call);
}

void call_finish(struct call *call, json_t *object)
{
    finish_with(call, object, -1);
}

void commands_cancel(struct commands *commands, const void *context)
{
    viewers_forget(commands->viewers, context);
    for (struct call *call = commands->calls, *next; call != NULL; call = next) {
        next = call->next;
        if (call->context != context)
            continue;
        call->answered = NULL;
        if (call->row == &command_table[CONTROL_STATUS]) { /* nobody else needs it */
            status_queue_cancel(commands->status, call);
            call_drop(call);
        }
    }
}

/* ---- streams ----------------------------------------------------------------------------- */

struct pipeline *stream_of(const struct call *call, const json_t *request, json_t **failure)
{
    const struct process *process = call->commands->process;
    const char *name = json_string_value(json_object_get(request, "stream"));
    struct problem problem;
    struct pipeline *pipeline = pipelines_find(process->pipelines, name);
    *failure = NULL;
    if (pipeline != NULL)
        return pipeline;
    problem_set(&problem, ERROR_ARGUMENT,
                "there is no stream %s; {\"command\": \"streams\"} names them", name);
    *failure = commands_failure("stream", problem.text);
    return NULL;
}

static const char *stream_state(const struct pipeline *pipeline, const struct stream_stats *stats)
{
    if (pipeline->ended)
        return "ended";
    if (stream_halted(pipeline->stream))
        return "halted";
    if (stats->last_frame_ns == 0)
        return "waiting";
    if (pipeline->told.arrival.silent)
        return "silent";
    return "running";
}

static json_t *stream_line(const struct pipeline *pipeline)
{
    const struct config_stream *config = pipeline->stream_config;
    struct stream_stats stats;
    stream_stats(pipeline->stream, &stats);
    json_t *sinks = json_array();
    for (uint32_t i = 0; i < pipeline->sink_count; i++)
        json_array_append_new(sinks,
                              json_pack("{s:s, s:s}", "name", pipeline->sinks[i].config->name,
                                        "type", pipeline->sinks[i].config->driver->name));
    return json_pack("{s:s, s:s, s:f, s:f, s:I, s:I, s:I, s:b, s:o}", "name", config->name, "state",
                     stream_state(pipeline, &stats), "rate_hz", config->source.rate_hz,
                     "output_rate_hz", config->output_rate_hz, "channels",
                     (json_int_t)config->source.channels, "outputs",
                     (json_int_t)config->output_count, "output_floats",
                     (json_int_t)config->output_floats, "live", config->live, "sinks", sinks);
}

static json_t *handle_streams(struct call *call, const json_t *request)
{
    const struct process *process = call->commands->process;
    const struct pipeline *pipeline;
    json_t *streams = json_array(), *filters = json_array();
    (void)request;
    for (uint32_t at = 0;
         (pipeline = pipelines_next(process->pipelines, PIPELINES_RUNNING, &at)) != NULL;)
        json_array_append_new(streams, stream_line(pipeline));
    for (uint32_t f = 0; f < process->config->filter_count; f++)
        json_array_append_new(filters, json_string(process->config->filters[f].name));
    return json_pack("{s:b, s:o, s:o}", "ok", 1, "streams", streams, "filters", filters);
}

/* ---- looking ----------------------------------------------------------------------------- */

static void on_status_made(void *context, char *text, size_t bytes)
{
    struct call *call = context;
    const struct command_reply reply = {.text = text, .bytes = bytes, .fd = -1};
    if (call->answered != NULL)
        call->answered(call->context, &reply);
    else
        free(text);
    call_drop(call);
}

static json_t *handle_status(struct call *call, const json_t *request)
{
    const char *format = json_string_value(json_object_get(request, "format"));
    const bool json = format != NULL && strcmp(format, "json") == 0;
    struct call *kept = call_keep(call);
    if (kept == NULL)
        return answer_busy();
    if (status_queue_answer(call->commands->status, json, call->id, on_status_made, kept) == 0)
        return NULL;
    call_drop(kept);
    return commands_failure("failed", "no memory for the status");
}

static json_t *handle_commands(struct call *call, const json_t *request)
{
    json_t *rows = json_array(), *roles = json_array(), *events = json_array();
    (void)request;
    for (int i = 0; i < CONTROL_WORDS; i++)
        if (command_table[i].name != NULL)
            json_array_append_new(rows, command_row_json(&command_table[i]));
    for (int r = 0; r < ROLES; r++)
        json_array_append_new(roles, json_string(command_role_word((enum command_role)r)));
    for (int e = 0; e < EVENT_KINDS; e++)
        json_array_append_new(events, json_string(event_kind_word((enum event_kind)e)));
    return json_pack("{s:b, s:s, s:s, s:o, s:o, s:o}", "ok", 1, "version", CONVOLVD_VERSION, "role",
                     command_role_word(call->caller.role), "roles", roles, "commands", rows,
                     "events", events);
}

/* Following is the session's (session.c); whoever asks otherwise gets the numbers. */
static json_t *handle_events(struct call *call, const json_t *request)
{
    (void)call, (void)request;
    return json_pack("{s:b, s:I}", "ok", 1, "next", (json_int_t)event_last() + 1);
}

static json_t *handle_devices(struct call *call, const json_t *request)
{
    json_t *devices = status_json_devices(call->commands->process);
    (void)request;
    return json_pack("{s:b, s:o}", "ok", 1, "devices", devices);
}

static json_t *handle_watch(struct call *call, const json_t *request)
{
    struct problem problem;
    json_t *answer = NULL;
    int fd;
    struct call *kept = call_keep(call);
    if (kept == NULL)
        return answer_busy();
    if (viewers_watch(call->commands->viewers, call->context, request, &answer, &fd, &problem) < 0)
        answer = answer_error(&problem);
    finish_with(kept, answer, fd);
    return NULL;
}

/* ---- acting ------------------------------------------------------------------------------ */

static json_t *handle_reload(struct call *call, const json_t *request)
{
    struct commands *commands = call->commands;
    (void)request;
    struct call *kept = call_keep(call);
    if (kept == NULL)
        return answer_busy();
    event_raise(&(struct event_subject){.kind = EVENT_RELOAD,
                                        .severity = LOG_LEVEL_NOTICE,
                                        .who = call->caller.name},
                "the configuration is to be read again");
    if (commands->host.reload(commands->host.context))
        return NULL;
    call_drop(kept);
    return commands_failure("busy", "not now: the daemon starts or stops");
}

void commands_reload_started(struct commands *commands)
{
    for (struct call *call = commands != NULL ? commands->calls : NULL; call != NULL;
         call = call->next)
        call->covered = true;
}

static json_t *answer_refused(const struct reload_outcome *outcome)
{
    json_t *answer = commands_failure("config", outcome->text);
    if (outcome->problems != NULL)
        json_object_set(answer, "problems", outcome->problems);
    return answer;
}

void commands_reloaded(struct commands *commands, const struct reload_outcome *outcome)
{
    if (commands == NULL)
        return;
    for (struct call *call = commands->calls, *next; call != NULL; call = next) {
        next = call->next;
        if (call->row != &command_table[CONTROL_RELOAD] || !call->covered)
            continue;
        call_finish(call, outcome->error != 0 ? answer_refused(outcome)
                                              : json_pack("{s:b, s:I, s:I, s:I}", "ok", 1, "kept",
                                                          (json_int_t)outcome->kept, "changed",
                                                          (json_int_t)outcome->changed, "removed",
                                                          (json_int_t)outcome->removed));
    }
}

static json_t *mark_stream(const struct call *call, const struct pipeline *pipeline,
                           const char *text)
{
    const uint64_t epoch = stream_next_epoch(pipeline->stream);
    const uint64_t frame = pipeline_next_output(pipeline);
    const char *name = pipeline->stream_config->name;
    struct sink_mark mark = {.epoch = epoch, .realtime_ns = clock_realtime_ns()};
    snprintf(mark.text, sizeof mark.text, "%s", text);
    memcpy(mark.who, call->caller.name, sizeof mark.who);
    pipeline_mark(pipeline, &mark, frame);
    event_raise(&(struct event_subject){.kind = EVENT_MARK,
                                        .severity = LOG_LEVEL_NOTICE,
                                        .stream = name,
                                        .who = call->caller.name,
                                        .framed = true,
                                        .epoch = epoch,
                                        .frame = frame},
                "mark: %s", text);
    return json_pack("{s:s, s:I, s:I, s:I}", "stream", name, "epoch", (json_int_t)epoch, "frame",
                     (json_int_t)frame, "realtime_ns", (json_int_t)mark.realtime_ns);
}

static json_t *handle_mark(struct call *call, const json_t *request)
{
    const struct process *process = call->commands->process;
    const char *text = json_string_value(json_object_get(request, "text"));
    const struct pipeline *pipeline;
    json_t *marks = json_array(), *failure = NULL;
    if (json_object_get(request, "stream") != NULL) {
        pipeline = stream_of(call, request, &failure);
        if (pipeline != NULL)
            json_array_append_new(marks, mark_stream(call, pipeline, text));
    } else {
        for (uint32_t at = 0;
             (pipeline = pipelines_next(process->pipelines, PIPELINES_RUNNING, &at)) != NULL;)
            json_array_append_new(marks, mark_stream(call, pipeline, text));
    }
    if (failure == NULL)
        return json_pack("{s:b, s:o}", "ok", 1, "marks", marks);
    json_decref(marks);
    return failure;
}

static void reset_stream(const struct call *call, struct pipeline *pipeline)
{
    stream_reset_held(pipeline->stream);
    pipeline->held_since_ns = clock_realtime_ns();
    event_raise(&(struct event_subject){.kind = EVENT_RESET,
                                        .severity = LOG_LEVEL_NOTICE,
                                        .stream = pipeline->stream_config->name,
                                        .who = call->caller.name},
                "held peaks, the worst load and the latency histograms begin anew");
}

static json_t *handle_reset(struct call *call, const json_t *request)
{
    struct pipeline *pipeline;
    json_t *failure;
    if (json_object_get(request, "stream") != NULL) {
        pipeline = stream_of(call, request, &failure);
        if (pipeline == NULL)
            return failure;
        reset_stream(call, pipeline);
        return json_pack("{s:b}", "ok", 1);
    }
    for (uint32_t at = 0; (pipeline = pipelines_next(call->commands->process->pipelines,
                                                     PIPELINES_RUNNING, &at)) != NULL;)
        reset_stream(call, pipeline);
    return json_pack("{s:b}", "ok", 1);
}

/* ---- dispatch ---------------------------------------------------------------------------- */

static command_handler *const handlers[CONTROL_WORDS] = {
    [CONTROL_STATUS] = handle_status,
    [CONTROL_STREAMS] = handle_streams,
    [CONTROL_COMMANDS] = handle_commands,
    [CONTROL_EVENTS] = handle_events,
    [CONTROL_DEVICES] = handle_devices,
    [CONTROL_FILTER] = handle_filter,
    [CONTROL_GAIN] = handle_gain,
    [CONTROL_MUTE] = handle_mute,
    [CONTROL_RELOAD] = handle_reload,
    [CONTROL_HAND_OVER] = handle_hand_over,
    [CONTROL_MARK] = handle_mark,
    [CONTROL_RECORD_START] = handle_record_start,
    [CONTROL_RECORD_STOP] = handle_record_stop,
    [CONTROL_SAVE] = handle_save,
    [CONTROL_TRANSACTION] = handle_transaction,
    [CONTROL_RESET_COUNTERS] = handle_reset,
    [CONTROL_WATCH] = handle_watch,
    [CONTROL_RESPONSE] = handle_response,
    [CONTROL_ANALYSES] = handle_analyses,
    [CONTROL_HITS] = handle_hits,
    [CONTROL_TRANSIENT] = handle_transient,
    [CONTROL_ACKNOWLEDGE] = handle_acknowledge,
    [CONTROL_NOISE_FLOOR] = handle_noise_floor,
};

/* NULL: it is allowed. */
static json_t *refuse_role(struct commands *commands, const struct command_row *row,
                           const struct caller *caller)
{
    char sentence[160];
    if (caller->role >= row->role)
        return NULL;
    event_raise_limited(&commands->refused_limit, NS_PER_SECOND,
                        &(struct event_subject){.kind = EVENT_REFUSED,
                                                .severity = LOG_LEVEL_NOTICE,
                                                .who = caller->name},
                        "`%s` was refused: it needs the role %s, and this was %s", row->name,
                        command_role_word(row->role), command_role_word(caller->role));
    snprintf(sentence, sizeof sentence, "`%s` needs the role %s; %s", row->name,
             command_role_word(row->role),
             caller->role_help != NULL ? caller->role_help : "ask on the socket of that role");
    return commands_failure("role", sentence);
}

static json_t *run_row(struct call *call, json_t *request)
{
    struct commands *commands = call->commands;
    struct problem problem;
    json_t *refused = refuse_role(commands, call->row, &call->caller);
    if (refused != NULL)
        return refused;
    if (command_check(call->row, request, &problem) != 0)
        return answer_error(&problem);
    if (call->row != &command_table[CONTROL_COMMANDS] &&
        call->row != &command_table[CONTROL_EVENTS] && !commands->process->connected)
        return commands_failure("preparing", "still preparing: nothing to show yet");
    if (call->row->role != ROLE_OBSERVE && commands->process->phase != PROCESS_RUNNING)
        return commands_failure("busy", "not now: the daemon starts or stops");
    return handlers[call->row - command_table](call, request);
}

static json_t *run(struct call *call, json_t *request)
{
    const json_t *command = json_object_get(request, "command");
    if (!json_is_object(request) || !json_is_string(command))
        return commands_failure("syntax", "write {\"command\": \"NAME\"}, such as {\"command\": "
                                          "\"commands\"}, which lists them");
    const int row = command_find(json_string_value(command));
    if (row < 0)
        return commands_failure("command",
                                "no such command; {\"command\": \"commands\"} lists them");
    call->row = &command_table[row];
    return run_row(call, request);
}

uint64_t commands_run(struct commands *commands, json_t *request, const struct caller *caller,
                      command_answered *answered, void *context)
{
    struct call call = {
        .commands = commands,
        .number = ++commands->last_number,
        .id = json_object_get(request, "id"),
        .caller = *caller,
        .answered = answered,
        .context = context,
    };
    json_t *object =
        commands->stopped ? commands_failure("closed", "the daemon stops") : run(&call, request);
    if (object != NULL)
        answer_call(&call, object, -1);
    return call.number;
}

/* ---- life -------------------------------------------------------------------------------- */

int commands_open(const struct process *process, struct status_queue *status,
                  const struct commands_host *host, struct commands **out)
{
    struct commands *commands = calloc(1, sizeof *commands);
    if (commands == NULL)
        return ERROR_MEMORY;
    commands->process = process;
    commands->status = status;
    commands->host = *host;
    if (viewers_open(process, &commands->viewers) < 0 ||
        changes_open(process, on_change_answered, commands, &commands->changes) < 0) {
        viewers_close(commands->viewers); /* the loop's next turn frees it */
        free(commands);
        return ERROR_MEMORY;
    }
    responses_open(commands);
    *out = commands;
    return 0;
}

struct event_follow *commands_follow(const struct commands *commands, json_t *request)
{
    struct problem problem;
    const bool good =
        commands->process->connected &&
        (request == NULL || command_check(&command_table[CONTROL_HITS], request, &problem) == 0);
    return good ? event_follow_open(commands->process, request) : NULL;
}

void commands_on_repeat(struct commands *commands,
                        void (*repeated)(void *context, uint64_t call,
                                         const struct change_answer *answer),
                        void *context)
{
    commands->repeated = repeated;
    commands->repeat_context = context;
}

void commands_forget(struct commands *commands)
{
    if (commands != NULL)
        changes_forget(commands->changes);
}

void commands_stop(struct commands *commands)
{
    if (commands == NULL || commands->stopped)
        return;
    commands->stopped = true;
    changes_stop(commands->changes);
    responses_stop(commands);
    viewers_close(commands->viewers);
    commands->viewers = NULL;
    for (struct call *call = commands->calls; call != NULL; call = call->next) {
        status_queue_cancel(commands->status, call);
        call->answered = NULL;
    }
}

void commands_close(struct commands *commands)
{
    if (commands == NULL)
        return;
    for (struct call *call = commands->calls, *next; call != NULL; call = next) {
        next = call->next;
        call_drop(call);
    }
    changes_close(commands->changes);
    free(commands);
}
