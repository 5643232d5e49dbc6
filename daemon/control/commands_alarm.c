/* The commands about alarms: acknowledge, noise-floor; see commands.h. */
#include <math.h>

#include "control/alarms.h"
#include "control/commands_internal.h"
#include "core/error.h"

json_t *handle_acknowledge(struct call *call, const json_t *request)
{
    struct alarms *alarms = call->commands->process->alarms;
    const json_int_t channel = json_integer_value(json_object_get(request, "channel"));
    const char *name = json_string_value(json_object_get(request, "alarm"));
    struct problem problem; /* no longer than what programs show of an error */
    char names[400];
    if (name != NULL && !alarms_have(alarms, name, names, sizeof names)) {
        problem_set(&problem, ERROR_ARGUMENT, "there is no alarm %s; there are %s", name, names);
        return commands_failure("argument", problem.text);
    }
    const uint32_t count =
        alarms_acknowledge(alarms, name, json_string_value(json_object_get(request, "stream")),
                           (uint32_t)channel, call->caller.name);
    return json_pack("{s:b, s:I}", "ok", 1, "acknowledged", (json_int_t)count);
}

static void on_measured(void *context, uint64_t number, const double *levels, uint32_t channels)
{
    struct call *call = call_find(context, number);
    if (call == NULL)
        return;
    if (levels == NULL) {
        call_finish(call, commands_failure("stream", "the stream is gone"));
        return;
    }
    json_t *floor = json_array();
    for (uint32_t c = 0; c < channels; c++)
        json_array_append_new(floor, levels[c] > 0 ? json_real(levels[c]) : json_null());
    call_finish(call, json_pack("{s:b, s:o}", "ok", 1, "noise_floor", floor));
}

json_t *handle_noise_floor(struct call *call, const json_t *request)
{
    json_t *failure;
    const struct pipeline *pipeline = stream_of(call, request, &failure);
    if (pipeline == NULL)
        return failure;
    struct call *kept = call_keep(call);
    if (kept == NULL)
        return answer_busy();
    const struct noise_request measurement = {
        .measured = on_measured,
        .context = call->commands,
        .number = kept->number,
    };
    const int error = alarms_measure_noise(call->commands->process->alarms, pipeline,
                                           call->caller.name, &measurement);
    if (error == 0)
        return NULL;
    call_drop(kept);
    return error == ERROR_MEMORY
               ? commands_failure("failed", "no memory, or 64 streams were measured already")
               : commands_failure("busy", "the stream is being measured; try again in a second");
}
