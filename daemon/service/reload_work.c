/* What a reload prepares: see reload_work.h. */
#include "service/reload_work.h"

#include <stdlib.h>
#include <string.h>

#include "core/host_memory.h"
#include "core/log.h"
#include "core/quantity.h"
#include "io/net/handover.h"
#include "report/check.h"
#include "report/memory.h"

/* ---- the job's thread -------------------------------------------------------------------- */

/* "FILE has 2 errors; the first: FILE:3: TEXT", for those who do not see the others. */
static void summarize(struct reload_work *work, int error)
{
    const struct config_errors *errors = &work->errors;
    const char *path = work->in_use->path;
    char count[4096 + 64] = "", line[24] = "";
    unsigned first = 0;
    while (first < errors->count && errors->messages[first].warning)
        first++;
    if (first == errors->count) {
        problem_set(&work->problem, error, "%s: %s", path, error_sentence(error));
        return;
    }
    const struct config_message *message = &errors->messages[first];
    if (errors->errors > 1)
        snprintf(count, sizeof count, "%s has %u errors; the first: ", path, errors->errors);
    if (message->line > 0)
        snprintf(line, sizeof line, ":%u", message->line);
    problem_set(&work->problem, error, "%s%s%s: %s", count, message->file, line, message->text);
}

/* Messages about the configuration go to the log, each with file and line. */
static int read_config(struct reload_work *work)
{
    const struct config_errors *errors = &work->errors;
    int error = config_load(work->in_use->path, &work->config, &work->errors);
    for (unsigned i = 0; i < errors->count; i++) {
        const struct config_message *message = &errors->messages[i];
        log_line(message->warning ? LOG_LEVEL_WARNING : LOG_LEVEL_ERROR, "%s:%u: %s", message->file,
                 message->line, message->text);
    }
    if (error < 0)
        summarize(work, error);
    return error;
}

static int compare_fixed(struct reload_work *work)
{
    char keys[300];
    if (strcmp(work->config->fixed_hash, work->in_use->fixed_hash) == 0)
        return 0;
    config_fixed_changes(work->in_use, work->config, keys, sizeof keys);
    return problem_set(&work->problem, ERROR_UNSUPPORTED,
                       "%s changed, which only a restart can take over: systemctl restart "
                       "convolvd; or take the change back",
                       keys);
}

struct pipeline *reload_work_made(const struct reload_work *work, const char *name)
{
    for (uint32_t i = 0; i < work->made_count; i++) {
        if (strcmp(work->made[i]->stream_config->name, name) == 0)
            return work->made[i];
    }
    return NULL;
}

static const struct running *find_running(const struct reload_work *work, const char *name)
{
    for (uint32_t i = 0; i < work->running_count; i++)
        if (strcmp(work->running[i].heritage.stream, name) == 0)
            return &work->running[i];
    return NULL;
}

static const struct heritage *find_removed(const struct reload_work *work, const char *name)
{
    for (uint32_t i = 0; i < work->removed_count; i++)
        if (strcmp(work->removed[i].stream, name) == 0)
            return &work->removed[i];
    return NULL;
}

static bool is_unchanged(const struct reload_work *work, const struct config_stream *stream)
{
    const struct running *running = find_running(work, stream->name);
    return running != NULL && strcmp(running->hash, stream->hash) == 0;
}

/* Receivers are to know the new pipeline as they knew the one of the same name. */
static void introduce(const struct reload_work *work, struct pipeline *pipeline)
{
    const char *name = pipeline->stream_config->name;
    const struct running *running = find_running(work, name);
    const struct heritage *heritage =
        running != NULL ? &running->heritage : find_removed(work, name);
    if (heritage == NULL)
        return;
    pipeline->heritage = malloc(sizeof *pipeline->heritage);
    if (pipeline->heritage != NULL)
        *pipeline->heritage = *heritage;
}

/* Old and new streams must fit into memory together: what the new ones take at most, against what
 * is left beside those that run. */
static int check_memory(struct reload_work *work)
{
    const struct config *config = work->config;
    struct memory_figure figure = {0};
    for (uint32_t i = 0; i < config->stream_count; i++) {
        const struct config_stream *stream = &config->streams[i];
        struct check_plan plan;
        if (is_unchanged(work, stream))
            continue;
        if (!job_step(&work->job, stream->name, "its filters are read or designed", NULL))
            return ERROR_CLOSED;
        int error = check_plan_make(config, stream, NULL, &plan, &work->problem);
        if (error < 0)
            return error;
        const struct memory_plan planned = check_memory_plan(&plan);
        memory_add_stream(&figure, config, i, &planned);
    }
    const uint64_t left = host_memory_available("");
    if (memory_total(&figure) <= left)
        return 0;
    struct quantity_pair bytes;
    quantity_print_pair(DIMENSION_MEMORY, (double)memory_total(&figure), (double)left, &bytes);
    return problem_set(
        &work->problem, ERROR_MEMORY,
        "the changed and new streams take up to %s beside those that run, and %s are left; make "
        "`queue` or `buffer` smaller (convolvd --check says what takes how much), or restart",
        bytes.first, bytes.second);
}

static struct pipeline *find_upstream(const struct reload_work *work, const char *name)
{
    struct pipeline *made = reload_work_made(work, name);
    return made != NULL ? made : find_running(work, name)->pipeline;
}

static int make_stream(struct reload_work *work, uint32_t index)
{
    const struct config *config = work->config;
    const struct config_stream *stream = &config->streams[index];
    if (is_unchanged(work, stream)) {
        work->kept++;
        return 0;
    }
    if (work->all_count + work->made_count == PIPELINES_MAX)
        return problem_set(&work->problem, ERROR_LIMIT,
                           "more streams than there is room for; restart instead");
    if (!job_step(&work->job, stream->name, "its device is opened", NULL))
        return ERROR_CLOSED;
    struct pipeline *upstream =
        stream->upstream >= 0 ? find_upstream(work, config->streams[stream->upstream].name) : NULL;
    struct pipeline *pipeline;
    int error = pipelines_make(work->pipelines, config, index, upstream, &pipeline, &work->problem);
    if (error < 0)
        return error;
    work->made[work->made_count++] = pipeline;
    introduce(work, pipeline);
    pipeline->job = &work->job;
    error = pipeline_prepare(pipeline, &work->problem);
    pipeline->job = NULL;
    /* A stream that runs hands its numbers over when it has got to its last ones. */
    if (error == 0 && pipeline->heritage != NULL && find_running(work, stream->name) == NULL)
        pipeline_inherit(pipeline, pipeline->heritage);
    return error;
}

static void make_streams(struct reload_work *work)
{
    handover_share(work->handover, true);
    for (uint32_t i = 0; work->error == 0 && i < work->config->stream_count; i++)
        work->error = make_stream(work, i);
    if (job_step(&work->job, NULL, NULL, NULL)) /* else the next reload may share by now */
        handover_share(work->handover, false);
}

static void prepare(struct job *job)
{
    struct reload_work *work = (struct reload_work *)job;
    job_step(job, NULL, "the configuration is read", NULL);
    work->error = read_config(work);
    if (work->error == 0)
        work->error = compare_fixed(work);
    if (work->error == 0)
        work->error = check_memory(work);
    if (work->error == 0)
        make_streams(work);
}

static void discard(struct job *job)
{
    struct reload_work *work = (struct reload_work *)job;
    work->returned(work->context, work);
}

/* ---- loop -------------------------------------------------------------------------------- */

struct reload_work *reload_work_new(const struct process *process, const struct numbers *numbers,
                                    void (*returned)(void *context, struct reload_work *work),
                                    void *context)
{
    const uint32_t most = pipelines_count(process->pipelines, PIPELINES_RUNNING);
    struct reload_work *work = calloc(1, sizeof *work);
    struct running *running = calloc(most > 0 ? most : 1, sizeof *running);
    struct pipeline *pipeline;
    if (work == NULL || running == NULL) {
        free(work);
        free(running);
        return NULL;
    }
    job_open(&work->job, JOB_OF_CHANGE, prepare, discard);
    work->pipelines = process->pipelines;
    work->handover = process->environment->handover;
    work->in_use = config_hold(process->config);
    work->running = running;
    work->removed = numbers_removed(numbers, &work->removed_count);
    work->all_count = pipelines_count(process->pipelines, PIPELINES_ALL);
    work->returned = returned;
    work->context = context;
    for (uint32_t at = 0;
         (pipeline = pipelines_next(process->pipelines, PIPELINES_RUNNING, &at)) != NULL;) {
        struct running *one = &running[work->running_count++];
        one->pipeline = pipeline;
        memcpy(one->hash, pipeline->stream_config->hash, sizeof one->hash);
        pipeline_leave(pipeline, &one->heritage);
        numbers_add_sinks(numbers, &one->heritage);
    }
    return work;
}

void reload_work_free(struct reload_work *work)
{
    if (work == NULL)
        return;
    config_free(work->in_use);
    config_errors_free(&work->errors);
    job_close(&work->job);
    free(work->running);
    free(work->removed);
    free(work);
}
