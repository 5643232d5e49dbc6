/* Parameter inlet: see parameter_inlet.h. */
#include "pipeline/parameter_inlet.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

/* How far a stream that can wait may be ahead of the events: the board holds more than twice that.
 */
static const int64_t ahead_ns = INT64_C(60) * 1000000000;

/* ---- life -------------------------------------------------------------------------------- */

/* The name of the other stream that a parameter comes from; NULL: the stream that is analysed. */
static const char *stream_of(const struct analysis_options *options, uint32_t parameter)
{
    return options->parameter_streams != NULL ? options->parameter_streams[parameter] : NULL;
}

static struct parameter_link *link_of(struct parameter_inlet *inlet, const char *stream)
{
    for (uint32_t i = 0; i < inlet->count; i++)
        if (strcmp(inlet->links[i].stream, stream) == 0)
            return &inlet->links[i];
    struct parameter_link *link = &inlet->links[inlet->count++];
    link->stream = stream;
    link->inlet = inlet;
    link->heard_until_ns = INT64_MIN;
    return link;
}

static void find_links(struct parameter_inlet *inlet)
{
    const struct analysis_options *options = inlet->options;
    for (uint32_t i = 0; options->parameter_channels != NULL && i < options->parameter_values;
         i++) {
        if (stream_of(options, i) == NULL)
            continue;
        struct parameter_link *link = link_of(inlet, stream_of(options, i));
        link->at[link->count] = i;
        link->channels[link->count++] = options->parameter_channels[i];
    }
}

uint64_t parameter_inlet_memory(const struct analysis_options *options)
{
    struct parameter_inlet inlet = {.options = options};
    uint64_t bytes = 0;
    find_links(&inlet);
    for (uint32_t i = 0; i < inlet.count; i++)
        bytes += parameter_board_memory(inlet.links[i].count);
    return bytes;
}

int parameter_inlet_open(const struct analysis_options *options, bool waits,
                         struct parameter_inlet **out)
{
    struct parameter_inlet *inlet = calloc(1, sizeof *inlet);
    *out = NULL;
    if (inlet == NULL)
        return ERROR_MEMORY;
    inlet->options = options;
    inlet->waits = waits;
    inlet->run_ns = INT64_MIN;
    inlet->wanted_ns = INT64_MIN;
    find_links(inlet);
    int error = 0;
    for (uint32_t i = 0; error == 0 && i < inlet->count; i++) {
        struct parameter_link *link = &inlet->links[i];
        error = parameter_board_open(link->channels, link->count, &link->board);
    }
    if (error != 0 || inlet->count == 0) {
        parameter_inlet_close(inlet);
        return error;
    }
    *out = inlet;
    return 0;
}

void parameter_inlet_close(struct parameter_inlet *inlet)
{
    if (inlet == NULL)
        return;
    for (uint32_t i = 0; i < inlet->count; i++)
        parameter_board_close(inlet->links[i].board);
    free(inlet);
}

/* ---- thread ------------------------------------------------------------------------------ */

/* Whether the link has come as far as until_ns, or is not to be waited for. */
static bool is_ready(struct parameter_link *link, int64_t until_ns, int64_t now_ns)
{
    const struct parameter_inlet *inlet = link->inlet;
    /* In this order: what came before it was over has come to the board. */
    const bool over = atomic_load(&link->over);
    const int64_t come_ns = parameter_board_until(link->board);
    if (come_ns >= until_ns || over)
        return true;
    if (come_ns != link->heard_until_ns || link->heard_ns == 0) {
        link->heard_until_ns = come_ns;
        link->heard_ns = now_ns;
    }
    return !inlet->waits && now_ns - link->heard_ns >= inlet->options->parameter_age_ns;
}

bool parameter_inlet_ready(struct parameter_inlet *inlet, const struct analysis_run *run,
                           bool hurry, int64_t now_ns)
{
    if (run->frames == 0)
        return true;
    const double last = (double)(run->frames - 1) - (run->aligned ? 0 : run->delay_frames);
    const int64_t until_ns =
        run->capture_ns + (int64_t)llround(last * 1e9 / inlet->options->stream.rate_hz);
    bool ready = true;
    if (inlet->run_ns != until_ns) {
        inlet->run_ns = until_ns;
        inlet->run_since_ns = now_ns;
    }
    atomic_store(&inlet->wanted_ns, until_ns);
    for (uint32_t i = 0; i < inlet->count; i++)
        ready = is_ready(&inlet->links[i], until_ns, now_ns) && ready;
    const bool late =
        !inlet->waits && now_ns - inlet->run_since_ns >= inlet->options->parameter_age_ns;
    return ready || hurry || late;
}

/* Value, age and error bound of one parameter, whose age stands at `age` of the event's. */
static void stamp(const struct parameter_link *link, uint32_t i, bool found,
                  const struct parameter_sample *sample, uint32_t age, struct analysis_event *event)
{
    const int64_t age_ns = found ? event->arrival_ns - sample->instant_ns : INT64_MAX;
    const bool valid = found && sample->error_ns >= 0;
    const bool known = valid && age_ns <= link->inlet->options->parameter_age_ns;
    event->parameters[link->at[i]] = known ? (double)sample->values[i] : (double)NAN;
    event->parameters[age] = found ? (double)age_ns / 1e3 : (double)NAN;
    event->parameters[age + 1] =
        valid ? (double)(sample->error_ns + event->clock_error_ns) / 1e3 : (double)NAN;
    if (!known)
        event->flags |= ANALYSIS_NO_PARAMETER;
}

void parameter_inlet_stamp(const struct parameter_inlet *inlet, struct analysis_event *event)
{
    const struct analysis_options *options = inlet->options;
    uint32_t ages[ANALYSIS_PARAMETERS_WRITTEN], behind = options->parameter_values;
    for (uint32_t i = 0; i < options->parameter_values; i++) {
        ages[i] = behind;
        behind += stream_of(options, i) != NULL ? 2 : 0;
    }
    event->parameter_count = options->parameter_count;
    for (uint32_t k = 0; k < inlet->count; k++) {
        const struct parameter_link *link = &inlet->links[k];
        struct parameter_sample sample;
        const bool found = parameter_board_find(link->board, event->arrival_ns, &sample);
        for (uint32_t i = 0; i < link->count; i++)
            stamp(link, i, found, &sample, ages[link->at[i]], event);
    }
}

/* ---- loop -------------------------------------------------------------------------------- */

void parameter_link_put(void *context, const struct result *result)
{
    const struct parameter_link *link = context;
    parameter_board_put(link->board, result);
}

uint64_t parameter_link_room(void *context)
{
    const struct parameter_link *link = context;
    const int64_t come_ns = parameter_board_until(link->board),
                  wanted_ns = atomic_load(&link->inlet->wanted_ns);
    if (atomic_load(&link->unbounded) || come_ns == INT64_MIN)
        return UINT64_MAX;
    if (wanted_ns != INT64_MIN && come_ns <= wanted_ns + ahead_ns)
        return UINT64_MAX;
    atomic_store(&link->inlet->owed, true);
    return 0;
}

bool parameter_inlet_walk(struct parameter_inlet *inlet, struct codec *codec)
{
    for (uint32_t i = 0; i < inlet->count; i++)
        if (!parameter_board_walk(inlet->links[i].board, codec))
            return false;
    return true;
}
