/* The commands that change a running stream: gain, mute, filter; see commands.h. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

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
static struct change_request change_of(const struct call *call, const json_t *request)
{
    struct change_request change = {
        .kind = call->row == &command_table[CONTROL_FILTER] ? CHANGE_FILTER
                : call->row == &command_table[CONTROL_GAIN] ? CHANGE_GAIN
                                                            : CHANGE_MUTE,
        .output = (uint32_t)number_or(request, "output", 0),
        .filter = json_string_value(json_object_get(request, "filter")),
        .factor = (float)pow(10, number_or(request, "gain_db", 0) / 20),
        .muted = !json_is_false(json_object_get(request, "mute")),
        .at_given = json_object_get(request, "frame") != NULL,
        .at_frame = (uint64_t)number_or(request, "frame", 0),
        .how = how_of(call->row, request),
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
    const struct change_request change = change_of(call, request);
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

void on_change_answered(void *context, const struct change_answer *answer)
{
    struct commands *commands = context;
    struct call *call = call_find(commands, answer->ticket);
    if (call != NULL)
        call_finish(call, change_json(answer));
    else if (commands->repeated != NULL)
        commands->repeated(commands->repeat_context, answer->ticket, answer);
}
