/* Telling of changes: see change_tell.h. */
#include "control/change_tell.h"

#include <math.h>
#include <stdio.h>

#include "core/clock.h"
#include "core/event.h"

/* "output 2 " or "". */
static const char *output_text(const struct change_request *request, char text[24])
{
    text[0] = '\0';
    if (request->output > 0)
        snprintf(text, 24, "output %u ", request->output);
    return text;
}

static const enum event_kind kinds[] = {
    [CHANGE_GAIN] = EVENT_GAIN, [CHANGE_MUTE] = EVENT_MUTE, [CHANGE_FILTER] = EVENT_FILTER_CHANGE};

/* Faders send many gains: each is an event, and one a second a line of the log. */
void change_tell(const struct pipeline *pipeline, const struct change_request *request,
                 const char *filter, uint64_t frame, struct log_limit limits[2])
{
    const struct event_subject subject = {.kind = kinds[request->kind],
                                          .severity = LOG_LEVEL_NOTICE,
                                          .stream = pipeline->stream_config->name,
                                          .who = request->who,
                                          .framed = !pipeline_direct_only(pipeline),
                                          .epoch = stream_next_epoch(pipeline->stream),
                                          .frame = frame};
    const unsigned long long from = frame;
    char output[24], what[120];
    if (request->kind == CHANGE_FILTER) {
        event_raise(&subject, "filter %s from output frame %llu on", filter, from);
        return;
    }
    output_text(request, output);
    if (request->kind == CHANGE_GAIN)
        snprintf(what, sizeof what, "%sgain %+.2f dB from output frame %llu on", output,
                 20 * log10((double)request->factor), from);
    else
        snprintf(what, sizeof what, "%s%s from output frame %llu on", output,
                 request->muted ? "muted" : "no longer muted", from);
    event_keep(&subject, "%s", what);
    log_limited(&limits[request->kind == CHANGE_MUTE], NS_PER_SECOND, LOG_LEVEL_NOTICE,
                "stream %s: %s (asked by %s)", subject.stream, what, request->who);
}

void change_tell_cancelled(const struct pipeline *pipeline, const struct change_request *request,
                           const char *filter, uint64_t epoch, uint64_t frame, const char *who,
                           const char *why)
{
    const struct event_subject subject = {.kind = kinds[request->kind],
                                          .severity = LOG_LEVEL_NOTICE,
                                          .stream = pipeline->stream_config->name,
                                          .who = who,
                                          .framed = true,
                                          .epoch = epoch,
                                          .frame = frame};
    char output[24], what[120];
    output_text(request, output);
    if (request->kind == CHANGE_FILTER)
        snprintf(what, sizeof what, "filter %s", filter);
    else if (request->kind == CHANGE_GAIN)
        snprintf(what, sizeof what, "%sgain %+.2f dB", output, 20 * log10((double)request->factor));
    else
        snprintf(what, sizeof what, "%s%s", output, request->muted ? "mute" : "end of a mute");
    event_raise(&subject, "%s is cancelled: it does not begin with output frame %llu, %s", what,
                (unsigned long long)frame, why);
}
