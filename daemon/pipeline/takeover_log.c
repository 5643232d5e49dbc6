/* Lost devices in the log: see takeover_log.h. */
#include "pipeline/takeover_log.h"

#include <stdio.h>

#include "core/event.h"
#include "core/log.h"

static const char *name_of(const struct placement *placement)
{
    return engine_device(placement->engine)->name;
}

void takeover_log_loss(const struct pipelines *pipelines, const struct placement *placement,
                       enum engine_loss cause)
{
    const struct pipeline *pipeline;
    const struct placement *next = NULL;
    uint32_t halted = 0, moved = 0;
    for (uint32_t at = 0; (pipeline = pipelines_next(pipelines, PIPELINES_ALL, &at)) != NULL;) {
        if (pipeline->lost_from != placement)
            continue;
        if (stream_halted(pipeline->stream)) {
            halted++;
        } else {
            moved++;
            next = pipeline->placement;
        }
    }
    char text[256] = "";
    if (next != NULL)
        snprintf(text, sizeof text, "; its streams go on on device %d (%s): %u of %u", next->index,
                 name_of(next), moved, moved + halted);
    else if (halted > 0)
        snprintf(text, sizeof text, "; no device stands by for its streams: %u wait, flagged",
                 halted);
    event_raise(&(struct event_subject){.kind = EVENT_DEVICE, .severity = LOG_LEVEL_ERROR},
                "device %d (%s) is lost: %s (%s)%s", placement->index, name_of(placement),
                engine_loss_name(cause), placement->why, text);
}

void takeover_log_doubt(const struct pipeline *pipeline, const struct doubted *doubted)
{
    const uint64_t first = doubted->first_epoch, last = doubted->last_epoch;
    char until[64] = "";
    if (first != last)
        snprintf(until, sizeof until, "epoch %llu frame ", (unsigned long long)last);
    event_raise(
        &(struct event_subject){.kind = EVENT_DEVICE,
                                .severity = LOG_LEVEL_ERROR,
                                .stream = pipeline->stream_config->name},
        "%llu results may be wrong: epoch %llu from frame %llu until %s%llu, since the last "
        "self-check that held; they are flagged as device, uncertain",
        (unsigned long long)doubted->frames, (unsigned long long)first,
        (unsigned long long)doubted->from, until, (unsigned long long)doubted->until);
}

void takeover_log_dead(const struct pipelines *pipelines)
{
    const struct pipeline *pipeline;
    for (uint32_t at = 0; (pipeline = pipelines_next(pipelines, PIPELINES_RUNNING, &at)) != NULL;) {
        bool dead = pipeline->stream != NULL && stream_halted(pipeline->stream);
        for (uint32_t i = 0; i < pipeline->choice_count; i++)
            dead = dead && pipeline->choices[i]->given_up;
        if (dead)
            event_raise(&(struct event_subject){.kind = EVENT_DEVICE,
                                                .severity = LOG_LEVEL_ERROR,
                                                .stream = pipeline->stream_config->name},
                        "NO DEVICE IS LEFT to compute it in this process; restart the daemon "
                        "(systemd's watchdog does)");
    }
}

void takeover_log_tied(const struct pipeline *pipeline)
{
    log_warning("device %d (%s) goes on computing, since nothing stands by for stream %s; it takes "
                "no changes until its driver answers",
                pipeline->placement->index, name_of(pipeline->placement),
                pipeline->stream_config->name);
}
