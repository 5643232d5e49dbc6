/* Viewers: see viewers.h. */
#include "control/viewers.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "control/viewers_internal.h"
#include "core/clock.h"

enum {
    SLOTS = 4096, /* 16 MiB: half a second of single frames, at the most that there may be */
    TICK_MS = 80, /* between two records of levels */
};

/* ---- the ring ------------------------------------------------------------------------------ */

/* The memory is the writer's to write through its own mapping alone: what is mapped from the
 * descriptor later can only be read, and nobody changes its size. */
static int make_ring(struct viewer *viewer, int *fd, struct problem *problem)
{
    const size_t bytes = watch_ring_bytes(SLOTS);
    *fd = memfd_create("convolvd watch", MFD_CLOEXEC | MFD_ALLOW_SEALING);
    if (*fd < 0 || ftruncate(*fd, (off_t)bytes) != 0) {
        const int error = problem_set(problem, ERROR_SYSTEM, "memfd_create: %s", strerror(errno));
        if (*fd >= 0)
            close(*fd);
        *fd = -1;
        return error;
    }
    viewer->memory = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, *fd, 0);
    if (viewer->memory == MAP_FAILED ||
        fcntl(*fd, F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_FUTURE_WRITE | F_SEAL_SEAL) !=
            0) {
        const int error = problem_set(problem, ERROR_SYSTEM, "watch ring: %s", strerror(errno));
        if (viewer->memory != MAP_FAILED)
            munmap(viewer->memory, bytes);
        viewer->memory = NULL;
        close(*fd);
        *fd = -1;
        return error;
    }
    watch_writer_open(&viewer->writer, viewer->memory, SLOTS);
    return 0;
}

/* ---- requests ------------------------------------------------------------------------------ */

static int read_channels(const json_t *list, struct seen *seen, struct problem *problem)
{
    size_t i;
    json_t *value;
    if (list == NULL)
        return 0;
    if (!json_is_array(list) || json_array_size(list) > TAP_CHANNELS_MAX)
        return problem_set(problem, ERROR_ARGUMENT,
                           "channels: write a list of at most %d numbers from 1 on",
                           TAP_CHANNELS_MAX);
    json_array_foreach(list, i, value)
    {
        const json_int_t channel = json_integer_value(value);
        if (channel < 1 || channel > WATCH_CHANNELS_MAX)
            return problem_set(problem, ERROR_ARGUMENT, "channels: write numbers from 1 on");
        seen->list[seen->list_count++] = (uint16_t)(channel - 1);
    }
    return 0;
}

static int read_seen(const json_t *object, struct seen *seen, struct problem *problem)
{
    const char *name = json_string_value(json_object_get(object, "stream"));
    const char *side = json_string_value(json_object_get(object, "side"));
    if (name == NULL || strlen(name) >= sizeof seen->stream)
        return problem_set(problem, ERROR_ARGUMENT, "stream: write the name of a stream");
    memcpy(seen->stream, name, strlen(name) + 1);
    if (side == NULL || (strcmp(side, "input") != 0 && strcmp(side, "output") != 0))
        return problem_set(problem, ERROR_ARGUMENT, "side: write input or output");
    seen->input = strcmp(side, "input") == 0;
    seen->minmax = json_is_true(json_object_get(object, "minmax"));
    return read_channels(json_object_get(object, "channels"), seen, problem);
}

/* Into `read`, a viewer's entry of which nothing else counts. */
static int read_request(const json_t *request, struct viewer *read, struct problem *problem)
{
    const json_t *streams = json_object_get(request, "streams");
    json_t *object;
    size_t i;
    read->levels = json_is_true(json_object_get(request, "levels"));
    if (streams != NULL && (!json_is_array(streams) || json_array_size(streams) > SEEN_MAX))
        return problem_set(problem, ERROR_ARGUMENT, "streams: write a list of at most %d objects",
                           SEEN_MAX);
    json_array_foreach(streams, i, object)
    {
        const int error = read_seen(object, &read->seen[read->seen_count++], problem);
        if (error < 0)
            return error;
    }
    return 0;
}

/* ---- answers ------------------------------------------------------------------------------- */

static json_t *describe(const struct viewers *viewers, const struct seen *seen)
{
    const struct pipeline *pipeline = pipelines_find(viewers->process->pipelines, seen->stream);
    json_t *object =
        json_pack("{s:s, s:s}", "stream", seen->stream, "side", seen->input ? "input" : "output");
    if (pipeline == NULL || !seen->found) {
        json_object_set_new(object, "error", json_string("there is no such stream now"));
        return object;
    }
    const struct config_stream *config = pipeline->stream_config;
    const double rate_hz = seen->input ? config->source.rate_hz : config->output_rate_hz;
    const uint32_t channels =
        seen->input ? config->source.channels : plan_info(pipeline->plan)->output_floats;
    json_t *units = json_array();
    for (uint32_t c = 0; c < channels; c++)
        json_array_append_new(units,
                              json_string(seen->input ? config->scales[c].unit : config->units[c]));
    json_object_set_new(object, "rate_hz", json_real(rate_hz));
    json_object_set_new(object, "channels", json_integer(channels));
    json_object_set_new(object, "frames_per_point", json_integer(tap_frames_per_point(rate_hz)));
    json_object_set_new(object, "units", units);
    return object;
}

static json_t *make_answer(const struct viewers *viewers, const struct viewer *viewer)
{
    json_t *streams = json_array();
    for (uint32_t s = 0; s < viewer->seen_count; s++)
        json_array_append_new(streams, describe(viewers, &viewer->seen[s]));
    return json_pack("{s:b, s:i, s:i, s:o}", "ok", 1, "version", WATCH_RING_VERSION, "request",
                     (int)viewer->request, "streams", streams);
}

/* ---- viewers ------------------------------------------------------------------------------- */

static struct viewer *find(struct viewers *viewers, const void *owner)
{
    for (uint32_t i = 0; i < VIEWERS_MAX; i++)
        if (viewers->all[i].owner == owner)
            return &viewers->all[i];
    return NULL;
}

static void on_timer(uv_timer_t *timer)
{
    struct viewers *viewers = timer->data;
    if (pipelines_version(viewers->process->pipelines) != viewers->version ||
        (viewers->looks == NULL && viewers->process->connected))
        looks_make(viewers);
    looks_tick(viewers);
}

static int join(struct viewers *viewers, const void *owner, struct viewer **out, int *fd,
                struct problem *problem)
{
    struct viewer *viewer = find(viewers, NULL);
    if (viewer == NULL)
        return problem_set(problem, ERROR_LIMIT, "%d viewers look already; close one of them",
                           VIEWERS_MAX);
    const int error = make_ring(viewer, fd, problem);
    if (error < 0)
        return error;
    viewer->owner = owner;
    if (viewers->count++ == 0) {
        viewers->credited_ns = clock_monotonic_ns();
        uv_timer_start(&viewers->timer, on_timer, TICK_MS, TICK_MS);
    }
    *out = viewer;
    return 0;
}

int viewers_watch(struct viewers *viewers, const void *owner, const json_t *request,
                  json_t **answer, int *fd, struct problem *problem)
{
    struct viewer *read = calloc(1, sizeof *read), *viewer = find(viewers, owner);
    *fd = -1;
    if (read == NULL)
        return problem_set(problem, ERROR_MEMORY, "out of memory");
    int error = read_request(request, read, problem);
    if (error == 0 && viewer == NULL)
        error = join(viewers, owner, &viewer, fd, problem);
    if (error == 0) {
        looks_drop(viewers);
        viewer->levels = read->levels;
        viewer->seen_count = read->seen_count;
        memcpy(viewer->seen, read->seen, sizeof viewer->seen);
        viewer->request++;
        looks_make(viewers);
        *answer = make_answer(viewers, viewer);
    }
    free(read);
    return error;
}

void viewers_forget(struct viewers *viewers, const void *owner)
{
    struct viewer *viewer = viewers != NULL && owner != NULL ? find(viewers, owner) : NULL;
    if (viewer == NULL)
        return;
    looks_drop(viewers);
    munmap(viewer->memory, watch_ring_bytes(SLOTS));
    memset(viewer, 0, sizeof *viewer);
    if (--viewers->count == 0)
        uv_timer_stop(&viewers->timer);
    looks_make(viewers);
}

/* ---- life ---------------------------------------------------------------------------------- */

int viewers_open(const struct process *process, struct viewers **out)
{
    struct viewers *viewers = calloc(1, sizeof *viewers);
    if (viewers == NULL)
        return ERROR_MEMORY;
    viewers->process = process;
    viewers->budget.cpu_ns = looks_cpu_ns;
    pthread_mutex_init(&viewers->writing, NULL);
    uv_timer_init(process->environment->loop, &viewers->timer);
    viewers->timer.data = viewers;
    uv_unref((uv_handle_t *)&viewers->timer);
    *out = viewers;
    return 0;
}

static void on_closed(uv_handle_t *handle)
{
    free(handle->data);
}

void viewers_close(struct viewers *viewers)
{
    if (viewers == NULL)
        return;
    for (uint32_t i = 0; i < VIEWERS_MAX; i++)
        viewers_forget(viewers, viewers->all[i].owner);
    looks_drop(viewers);
    pthread_mutex_destroy(&viewers->writing);
    uv_close((uv_handle_t *)&viewers->timer, on_closed);
}
