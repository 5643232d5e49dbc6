/* The commands that change a running stream: gain, mute, filter; see commands.h. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "control/change_keeper.h"
#include "control/commands_internal.h"

static const struct {
    const char *word;
    enum change_how how;
} how_table[] = {
    {"fade", CHANGE_FADE},
    {"hard", CHANGE_HARD},
    {"clear", CHANGE_CLEAR},
};

static const double fade_default_ms = 10;

static double number_or(const json_t *request, const char *name, double otherwise)
{
    const json_t *value = json_object_get(request, name);
    return value != NULL ? json_number_value(value) : otherwise;
}

/* Gains and mutes change without a fade. */
static enum change_how how_of(const struct command_row *row, const json_t *request)
{
    if (row != &command_table[CONTROL_FILTER])
        return CHANGE_HARD;
    const char *word = json_string_value(json_object_get(request, "how"));
    for (size_t i = 0; word != NULL && i < sizeof how_table / sizeof *how_table; i++)
        if (strcmp(word, how_table[i].word) == 0)
            return how_table[i].how;
    return CHANGE_FADE;
}

/* The change that a checked request asks for. Texts stay the request's. */
static struct change_request change_of(const struct call *call, const struct command_row *row,
                                       const json_t *request)
{
    struct change_request change = {
        .kind = row == &command_table[CONTROL_FILTER] ? CHANGE_FILTER
                : row == &command_table[CONTROL_GAIN] ? CHANGE_GAIN
                                                      : CHANGE_MUTE,
        .output = (uint32_t)number_or(request, "output", 0),
        .filter = json_string_value(json_object_get(request, "filter")),
        .factor = (float)pow(10, number_or(request, "gain_db", 0) / 20),
        .muted = !json_is_false(json_object_get(request, "mute")),
        .at_given = json_object_get(request, "frame") != NULL,
        .at_frame = (uint64_t)number_or(request, "frame", 0),
        .how = how_of(row, request),
        .fade_s = number_or(request, "fade_ms", fade_default_ms) / 1e3,
        .ticket = call->number,
    };
    memcpy(change.who, call->caller.name, sizeof change.who);
    return change;
}

static json_t *request_change(struct call *call, const json_t *request)
{
    json_t *failure;
    struct problem problem;
    struct pipeline *pipeline = stream_of(call, request, &failure);
    if (pipeline == NULL)
        return failure;
    struct call *kept = call_keep(call);
    if (kept == NULL)
        return answer_busy();
    const struct change_request change = change_of(call, call->row, request);
    const uint64_t number = kept->number;
    struct commands *commands = call->commands;
    if (changes_request(commands->changes, pipeline, &change, &problem) == 0)
        return NULL;
    /* It may have been answered from within, and be gone. */
    kept = call_find(commands, number);
    if (kept != NULL)
        call_finish(kept, answer_error(&problem));
    return NULL;
}

json_t *handle_filter(struct call *call, const json_t *request)
{
    return request_change(call, request);
}

json_t *handle_gain(struct call *call, const json_t *request)
{
    return request_change(call, request);
}

json_t *handle_mute(struct call *call, const json_t *request)
{
    return request_change(call, request);
}

static json_t *change_json(const struct change_answer *answer)
{
    if (answer->error == 0)
        return json_pack("{s:b, s:s, s:I}", "ok", 1, "stream", answer->stream, "frame",
                         (json_int_t)answer->frame);
    struct problem problem;
    problem_set(&problem, (enum error)answer->error, "%s", answer->text);
    return answer_error(&problem);
}

static void finish_transaction(struct call *call)
{
    if (call->failure == NULL) {
        call_finish(call, json_pack("{s:b, s:O}", "ok", 1, "changes", call->answers));
        return;
    }
    json_object_set(call->failure, "changes", call->answers);
    call_finish(call, json_incref(call->failure));
}

/* One change of a transaction was answered. */
static void take_answer(struct call *call, const struct change_answer *answer)
{
    json_t *object = change_json(answer);
    if (answer->error == 0) {
        json_object_del(object, "ok");
        json_array_append_new(call->answers, object);
    } else if (call->failure == NULL) {
        call->failure = object;
    } else {
        json_decref(object);
    }
    if (--call->awaited == 0)
        finish_transaction(call);
}

void on_change_answered(void *context, const struct change_answer *answer)
{
    struct commands *commands = context;
    struct call *call = call_find(commands, answer->ticket);
    if (call != NULL && call->parts > 0)
        take_answer(call, answer);
    else if (call != NULL)
        call_finish(call, change_json(answer));
    else if (commands->repeated != NULL)
        commands->repeated(commands->repeat_context, answer->ticket, answer);
}

/* ---- transactions ------------------------------------------------------------------------ */

static const double lead_s = 0.25; /* of a transaction over several streams without a frame */

struct part {
    struct pipeline *pipeline;
    struct change_request change;
};

/* Proves one request of a transaction. NULL, or why not. */
static json_t *prove_part(struct call *call, json_t *request, struct part *part)
{
    struct problem problem;
    json_t *failure;
    const char *name = json_string_value(json_object_get(request, "command"));
    const int row = name != NULL ? command_find(name) : -1;
    if (row < 0 || !command_table[row].change)
        return commands_failure("argument",
                                "a transaction holds filter, gain and mute, each as a request");
    if (json_object_get(request, "frame") != NULL)
        return commands_failure("argument", "the frame belongs to the transaction, not to one of "
                                            "its requests");
    if (command_check(&command_table[row], request, &problem) != 0)
        return answer_error(&problem);
    part->pipeline = stream_of(call, request, &failure);
    if (part->pipeline == NULL)
        return failure;
    part->change = change_of(call, &command_table[row], request);
    return NULL;
}

/* The frame of each part. */
static void set_frames(struct part *parts, size_t count, const json_t *frame)
{
    bool several = false;
    for (size_t i = 1; i < count; i++)
        several = several || parts[i].pipeline != parts[0].pipeline;
    for (size_t i = 0; i < count; i++) {
        struct problem problem; /* changes_check tells it */
        struct keeper_frames frames;
        const struct pipeline *pipeline = parts[i].pipeline;
        (void)change_keeper_frames(pipeline, &frames, &problem);
        const double lead = lead_s * pipeline->stream_config->output_rate_hz;
        parts[i].change.at_given = frame != NULL || several;
        parts[i].change.at_frame = frame != NULL
                                       ? (uint64_t)json_number_value(frame)
                                       : change_keeper_next(pipeline, &frames) + (uint64_t)lead;
    }
}

/* Requests of one stream stand together, its filter first: that one says how they are exchanged. */
static int compare_parts(const void *a, const void *b)
{
    const struct part *first = a, *second = b;
    if (first->pipeline != second->pipeline)
        return (uintptr_t)first->pipeline < (uintptr_t)second->pipeline ? -1 : 1;
    const bool x = first->change.kind == CHANGE_FILTER, y = second->change.kind == CHANGE_FILTER;
    if (x != y)
        return x ? -1 : 1;
    return first->change.ticket < second->change.ticket ? -1 : 1;
}

/* False: *failure says why not, or is NULL for want of memory. */
static bool prove_all(struct call *call, const json_t *request, struct part *parts, size_t count,
                      json_t **failure)
{
    struct problem problem;
    const json_t *list = json_object_get(request, "commands");
    for (size_t i = 0; i < count; i++) {
        *failure = prove_part(call, json_array_get(list, i), &parts[i]);
        if (*failure != NULL || parts[i].pipeline == NULL)
            return false;
        parts[i].change.ticket = call->number + 1 + i;
        parts[i].change.group = call->number;
    }
    set_frames(parts, count, json_object_get(request, "frame"));
    for (size_t i = 0; i < count; i++)
        if (changes_check(call->commands->changes, parts[i].pipeline, &parts[i].change,
                          (uint32_t)count - 1, &problem) != 0) {
            *failure = answer_error(&problem);
            return false;
        }
    return true;
}

json_t *handle_transaction(struct call *call, const json_t *request)
{
    struct commands *commands = call->commands;
    const size_t count = json_array_size(json_object_get(request, "commands"));
    struct part *parts = calloc(count, sizeof *parts);
    if (parts == NULL)
        return commands_failure("failed", "out of memory");
    json_t *failure = NULL;
    const bool proven = prove_all(call, request, parts, count, &failure);
    struct call *kept = proven ? call_keep(call) : NULL;
    if (kept == NULL) {
        free(parts);
        return proven ? answer_busy() : failure;
    }
    kept->parts = kept->awaited = (unsigned)count;
    kept->answers = json_array();
    commands->last_number += count;
    qsort(parts, count, sizeof *parts, compare_parts);
    changes_hold(commands->changes);
    for (size_t i = 0; i < count; i++) {
        struct problem problem;
        if (changes_request(commands->changes, parts[i].pipeline, &parts[i].change, &problem) != 0)
            take_answer(kept,
                        &(struct change_answer){.stream = parts[i].pipeline->stream_config->name,
                                                .kind = parts[i].change.kind,
                                                .error = problem.error,
                                                .text = problem.text});
    }
    free(parts);
    changes_release(commands->changes);
    return NULL;
}
