/* Progress: see progress.h. */
#include "service/progress.h"

#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>
#include <uv.h>

#include "core/clock.h"
#include "core/log.h"

enum { INTERVAL_MS = 500 };

struct progress {
    const struct process *process;
    int64_t started_ns; /* monotonic */
    uv_timer_t timer;
};

/* "stream NAME: 42 %, 12.6 s of 30 s, 3.2 times real time", of several streams "3 streams: 42 %, …"
 * by the one that is furthest behind. `done` and `all` in frames. Returns `text`. */
static const char *progress_text(const char *name, unsigned streams, double rate_hz, uint64_t done,
                                 uint64_t all, double elapsed_s, char *text, size_t bytes)
{
    const double done_s = (double)done / rate_hz;
    char subject[96];
    if (streams == 1)
        snprintf(subject, sizeof subject, "stream %s", name);
    else
        snprintf(subject, sizeof subject, "%u streams", streams);
    snprintf(text, bytes, "%s: %.0f %%, %.3g s of %.3g s, %.3g times real time", subject,
             100 * (double)done / (double)all, done_s, (double)all / rate_hz,
             elapsed_s > 0 ? done_s / elapsed_s : 0);
    return text;
}

/* The stream that is furthest behind, of those that run and have an end; returns how many. */
static unsigned find_last(const struct pipelines *pipelines, const struct pipeline **last,
                          uint64_t *done, uint64_t *all)
{
    const struct pipeline *pipeline;
    unsigned count = 0;
    for (uint32_t at = 0; (pipeline = pipelines_next(pipelines, PIPELINES_RUNNING, &at)) != NULL;) {
        uint64_t frames, of;
        if (pipeline->ended || !pipeline_progress(pipeline, &frames, &of))
            continue;
        if (count++ == 0 || (double)frames / (double)of < (double)*done / (double)*all) {
            *last = pipeline;
            *done = frames;
            *all = of;
        }
    }
    return count;
}

static void on_timer(uv_timer_t *timer)
{
    const struct progress *progress = timer->data;
    const struct pipeline *last = NULL;
    uint64_t done = 0, all = 1;
    char text[200];
    const unsigned count = find_last(progress->process->pipelines, &last, &done, &all);
    if (count == 0)
        return;
    const double elapsed_s = (double)(clock_monotonic_ns() - progress->started_ns) / NS_PER_SECOND;
    log_progress("%s", progress_text(last->stream_config->name, count,
                                     last->stream_config->source.rate_hz, done, all, elapsed_s,
                                     text, sizeof text));
}

int progress_open(const struct process *process, struct progress **out)
{
    struct progress *progress = calloc(1, sizeof *progress);
    if (progress == NULL)
        return ERROR_MEMORY;
    progress->process = process;
    uv_timer_init(process->environment->loop, &progress->timer);
    progress->timer.data = progress;
    *out = progress;
    return 0;
}

void progress_start(struct progress *progress)
{
    progress->started_ns = clock_monotonic_ns();
    if (isatty(STDERR_FILENO))
        uv_timer_start(&progress->timer, on_timer, INTERVAL_MS, INTERVAL_MS);
}

void progress_stop(struct progress *progress)
{
    if (progress != NULL)
        uv_timer_stop(&progress->timer);
}

static void closed(uv_handle_t *handle)
{
    free(handle->data);
}

void progress_close(struct progress *progress)
{
    if (progress != NULL)
        uv_close((uv_handle_t *)&progress->timer, closed);
}
