/* Start: see start.h. */
#include "service/start.h"

#include <assert.h>
#include <stdlib.h>

#include "io/net/sdp_file.h"
#include "pipeline/devices.h"
#include "pipeline/heritage.h"
#include "pipeline/job.h"
#include "pipeline/pipelines.h"

struct start {
    struct job job;
    struct start_host host;
    struct job_watch watch;

    /* the job's, then LOOP's */
    int error;
    struct problem problem;
};

/* ---- the job's thread -------------------------------------------------------------------- */

/* The pipeline that could not be prepared is in the registry too, to be closed like the others. */
static int make_stream(struct start *start, uint32_t index, struct pipeline **made)
{
    const struct start_host *host = &start->host;
    const struct config *config = host->process->config;
    const int upstream = config->streams[index].upstream;
    assert(upstream < (int)index); /* a stream stands behind the one it reads */
    job_step(&start->job, config->streams[index].name, "its device is opened", NULL);
    int error =
        pipelines_make(host->process->pipelines, config, index,
                       upstream >= 0 ? made[upstream] : NULL, &made[index], &start->problem);
    if (error < 0)
        return error;
    struct pipeline *pipeline = made[index];
    pipelines_add(host->process->pipelines, pipeline);
    numbers_introduce(host->numbers, pipeline);
    store_introduce(host->store, pipeline);
    pipeline->job = &start->job;
    error = pipeline_prepare(pipeline, &start->problem);
    pipeline->job = NULL;
    if (error == 0 && pipeline->heritage != NULL)
        pipeline_inherit(pipeline, pipeline->heritage);
    return error;
}

static void prepare(struct job *job)
{
    struct start *start = (struct start *)job;
    const struct process *process = start->host.process;
    struct pipeline *made[PIPELINES_MAX];
    job_step(job, NULL, "the runtime directory is read", NULL);
    if (process->config->daemon.runtime_directory != NULL)
        sdp_file_sweep(process->config->daemon.runtime_directory);
    job_step(job, NULL, "the devices are opened", NULL);
    start->error = devices_prepare(process->devices, process->config, &start->problem);
    for (uint32_t i = 0; i < process->config->stream_count && start->error == 0; i++)
        start->error = make_stream(start, i, made);
}

/* The process ends: nothing is freed. */
static void discard(struct job *job)
{
    (void)job;
}

/* ---- loop -------------------------------------------------------------------------------- */

static void on_prepared(void *context, struct job *job)
{
    struct start *start = context;
    (void)job;
    start->host.prepared(start->host.context, start->error, &start->problem);
}

static void on_late(void *context, const char *stream, const char *step, struct engine *engine)
{
    const struct start *start = context;
    struct problem problem;
    (void)engine;
    problem_set(&problem, ERROR_SYSTEM,
                "%s%s%sthe start hangs: %s, for longer than `prepare timeout`",
                stream != NULL ? "stream " : "", stream != NULL ? stream : "",
                stream != NULL ? ": " : "", step != NULL ? step : "it does not begin");
    start->host.hangs(start->host.context, &problem);
}

int start_open(const struct start_host *host, struct start **out)
{
    struct start *start = calloc(1, sizeof *start);
    if (start == NULL)
        return ERROR_MEMORY;
    start->host = *host;
    job_open(&start->job, JOB_OF_CHANGE, prepare, discard);
    start->watch.done = on_prepared;
    start->watch.late = on_late;
    start->watch.context = start;
    job_watch_open(&start->watch, host->process->environment->loop);
    *out = start;
    return 0;
}

int start_begin(struct start *start)
{
    return job_watch_start(&start->watch, &start->job,
                           start->host.process->config->daemon.prepare_ns);
}

void start_stop(struct start *start)
{
    if (start == NULL)
        return;
    const struct job *job = job_watch_close(&start->watch);
    assert(job == NULL);
    (void)job;
}

void start_close(struct start *start)
{
    if (start == NULL)
        return;
    job_close(&start->job);
    free(start);
}
