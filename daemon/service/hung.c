/* What hangs at the end: see hung.h. */
#include "service/hung.h"

#include <pthread.h>
#include <time.h>
#include <unistd.h>

#include "core/clock.h"
#include "core/log.h"

enum { DRIVER_GRACE_S = 10 };

void hung_name_streams(const struct pipelines *pipelines)
{
    const struct pipeline *pipeline;
    for (uint32_t at = 0; (pipeline = pipelines_next(pipelines, PIPELINES_ALL, &at)) != NULL;) {
        if (!pipeline_drained(pipeline))
            log_warning("stream %s: not processed to its end within the drain timeout; raise "
                        "`drain timeout` in [daemon] if its last frames matter",
                        pipeline->stream_config->name);
    }
}

static void name_event_sinks(const struct pipeline_analysis *analysis)
{
    for (uint32_t i = 0; i < analysis_stage_sinks(analysis->stage); i++) {
        struct event_sink_ledger ledger;
        analysis_stage_sink_ledger(analysis->stage, i, &ledger);
        if (ledger.pending > 0)
            log_warning("sink %s: what it writes to does not take it; %llu events are lost",
                        analysis->sinks[i].name, (unsigned long long)ledger.pending);
    }
}

static void name_all_sinks(const struct pipeline *pipeline)
{
    for (uint32_t i = 0; i < pipeline->sink_count; i++)
        if (pipeline->sinks[i].sink != NULL) /* else it was logged when it was closed */
            pipeline_log_cut(&pipeline->sinks[i]);
    for (uint32_t i = 0; i < pipeline->analysis_count; i++)
        name_event_sinks(&pipeline->analyses[i]);
}

void hung_name_sinks(const struct pipelines *pipelines)
{
    const struct pipeline *pipeline;
    for (uint32_t at = 0; (pipeline = pipelines_next(pipelines, PIPELINES_ALL, &at)) != NULL;)
        name_all_sinks(pipeline);
}

void hung_name_sources(const struct pipelines *pipelines)
{
    const struct pipeline *pipeline;
    for (uint32_t at = 0; (pipeline = pipelines_next(pipelines, PIPELINES_ALL, &at)) != NULL;) {
        if (pipeline->source != NULL)
            log_warning("stream %s: its source hangs while it is closed; what it was reading is "
                        "lost",
                        pipeline->stream_config->name);
    }
}

static void *end_hung_close(void *unused)
{
    const struct timespec grace = {.tv_sec = DRIVER_GRACE_S};
    nanosleep(&grace, NULL);
    log_warning("a driver hangs while it is closed; nothing is lost by not waiting for it");
    log_stop(NS_PER_SECOND / 5);
    _exit(SERVICE_EXIT_CUT);
    return unused;
}

void hung_limit_close(void)
{
    pthread_t thread;
    if (pthread_create(&thread, NULL, end_hung_close, NULL) == 0)
        pthread_detach(thread);
}
