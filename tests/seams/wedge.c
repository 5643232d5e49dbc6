/*
 * Wedge: stops one stage of convolvd-test for ever, as a hung driver, disk or event loop would, so
 * that tests can prove that the watchdog notices. The linker redirects one function of each stage
 * to the wrapper below (ld --wrap); the shipped daemon links none of this.
 *
 * A test chooses the stage by sending the process a real-time signal:
 *
 *     SIGRTMIN + 1   the event loop
 *     SIGRTMIN + 2   the device thread, at its next launch
 *     SIGRTMIN + 3   the writer thread of a recording, at its next block
 *     SIGRTMIN + 4   the reader thread of a generator, at its next chunk
 *     SIGRTMIN + 5   the worker that prepares streams, at its next stream
 *     SIGRTMIN + 6   the closing of the devices at the end
 *     SIGRTMIN + 7   the thread that prepares what stands by, at its next plan
 *     SIGRTMIN + 8   one thread, the next that prepares a plan
 *     SIGRTMIN + 10  one thread, the next that reads or designs the filters of a stream
 *     SIGRTMIN + 11  nothing: those of 8, 10, 12, 13 and 14 go on
 *     SIGRTMIN + 12  the thread that frees what a reload has replaced, at its next pipeline
 *     SIGRTMIN + 13  one thread, the next that reads or designs a filter
 *     SIGRTMIN + 14  none, but no state of a stream can be taken: its batches seem to be in flight
 *
 * A signal may also be blocked and pending when the program starts.
 *
 * Any thread.
 */
#include <signal.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <unistd.h>

struct config;
struct config_edge;
struct config_stream;
struct devices;
struct engine;
struct filter_measure;
struct filter_spec;
struct pipeline;
struct plan;
struct plan_spec;
struct problem;
struct recipe;
struct recording_writer;
struct result;
struct slot;
struct stream_filters;
struct taps;
struct waveform;

enum stage {
    STAGE_LOOP = 1,
    STAGE_DEVICE,
    STAGE_WRITER,
    STAGE_READER,
    STAGE_PREPARE,
    STAGE_CLOSE,
    STAGE_STANDBY,
    STAGE_PLAN,
    STAGE_THREADS, /* threads.c */
    STAGE_FILTERS,
    STAGE_RELEASE,
    STAGE_FREE,
    STAGE_FILTER,
    STAGE_STATE,
    STAGES_END
};

static _Atomic unsigned wedged; /* bit 1 << stage */

static void on_signal(int number)
{
    atomic_fetch_or(&wedged, 1u << (number - SIGRTMIN));
}

__attribute__((constructor)) static void install(void)
{
    struct sigaction action = {.sa_handler = on_signal, .sa_flags = SA_RESTART};
    sigset_t set;
    sigemptyset(&set);
    for (int stage = STAGE_LOOP; stage < STAGES_END; stage++) {
        if (stage == STAGE_THREADS)
            continue;
        sigaction(SIGRTMIN + stage, &action, NULL);
        sigaddset(&set, SIGRTMIN + stage);
    }
    sigprocmask(SIG_UNBLOCK, &set, NULL);
}

static void pass(enum stage stage)
{
    while (atomic_load(&wedged) & 1u << stage)
        pause();
}

/* Stops the next thread that comes here, and no other. */
static void pass_once(enum stage stage)
{
    const unsigned bit = 1u << stage, release = 1u << STAGE_RELEASE;
    if (!(atomic_fetch_and(&wedged, ~bit) & bit))
        return;
    atomic_fetch_and(&wedged, ~release);
    while (!(atomic_load(&wedged) & release))
        usleep(10000);
}

void __real_losses_tell(struct pipeline *pipeline, int64_t now_ns);
void __wrap_losses_tell(struct pipeline *pipeline, int64_t now_ns);
void __wrap_losses_tell(struct pipeline *pipeline, int64_t now_ns)
{
    pass(STAGE_LOOP);
    __real_losses_tell(pipeline, now_ns);
}

int __real_batch_launch(struct engine *engine, struct slot *slot);
int __wrap_batch_launch(struct engine *engine, struct slot *slot);
int __wrap_batch_launch(struct engine *engine, struct slot *slot)
{
    pass(STAGE_DEVICE);
    return __real_batch_launch(engine, slot);
}

void __real_recording_writer_put(struct recording_writer *writer, const struct result *result);
void __wrap_recording_writer_put(struct recording_writer *writer, const struct result *result);
void __wrap_recording_writer_put(struct recording_writer *writer, const struct result *result)
{
    pass(STAGE_WRITER);
    __real_recording_writer_put(writer, result);
}

void __real_waveform_fill(const struct waveform *waveform, uint64_t first, uint32_t frames,
                          double *values);
void __wrap_waveform_fill(const struct waveform *waveform, uint64_t first, uint32_t frames,
                          double *values);
void __wrap_waveform_fill(const struct waveform *waveform, uint64_t first, uint32_t frames,
                          double *values)
{
    pass(STAGE_READER);
    __real_waveform_fill(waveform, first, frames, values);
}

int __real_pipeline_prepare(struct pipeline *pipeline, struct problem *problem);
int __wrap_pipeline_prepare(struct pipeline *pipeline, struct problem *problem);
int __wrap_pipeline_prepare(struct pipeline *pipeline, struct problem *problem)
{
    pass(STAGE_PREPARE);
    return __real_pipeline_prepare(pipeline, problem);
}

void __real_devices_free(struct devices *devices);
void __wrap_devices_free(struct devices *devices);
void __wrap_devices_free(struct devices *devices)
{
    pass(STAGE_CLOSE);
    __real_devices_free(devices);
}

int __real_recipe_plan(const struct recipe *recipe, struct engine *engine, struct plan **out,
                       struct problem *problem);
int __wrap_recipe_plan(const struct recipe *recipe, struct engine *engine, struct plan **out,
                       struct problem *problem);
int __wrap_recipe_plan(const struct recipe *recipe, struct engine *engine, struct plan **out,
                       struct problem *problem)
{
    pass(STAGE_STANDBY);
    return __real_recipe_plan(recipe, engine, out, problem);
}

int __real_plan_prepare(struct engine *engine, const struct plan_spec *spec, struct plan **out,
                        struct problem *problem);
int __wrap_plan_prepare(struct engine *engine, const struct plan_spec *spec, struct plan **out,
                        struct problem *problem);
int __wrap_plan_prepare(struct engine *engine, const struct plan_spec *spec, struct plan **out,
                        struct problem *problem)
{
    pass_once(STAGE_PLAN);
    return __real_plan_prepare(engine, spec, out, problem);
}

int __real_stream_filters_make(const struct config *config, const struct config_stream *stream,
                               const struct config_edge *known, struct stream_filters *out,
                               struct problem *problem);
int __wrap_stream_filters_make(const struct config *config, const struct config_stream *stream,
                               const struct config_edge *known, struct stream_filters *out,
                               struct problem *problem);
int __wrap_stream_filters_make(const struct config *config, const struct config_stream *stream,
                               const struct config_edge *known, struct stream_filters *out,
                               struct problem *problem)
{
    pass_once(STAGE_FILTERS);
    return __real_stream_filters_make(config, stream, known, out, problem);
}

int __real_filter_make(const struct filter_spec *spec, double rate_hz, struct taps ***sets,
                       uint32_t *count, struct filter_measure *measure, struct problem *problem);
int __wrap_filter_make(const struct filter_spec *spec, double rate_hz, struct taps ***sets,
                       uint32_t *count, struct filter_measure *measure, struct problem *problem);
int __wrap_filter_make(const struct filter_spec *spec, double rate_hz, struct taps ***sets,
                       uint32_t *count, struct filter_measure *measure, struct problem *problem)
{
    pass_once(STAGE_FILTER);
    return __real_filter_make(spec, rate_hz, sets, count, measure, problem);
}

void __real_pipelines_destroy(struct pipeline *pipeline);
void __wrap_pipelines_destroy(struct pipeline *pipeline);
void __wrap_pipelines_destroy(struct pipeline *pipeline)
{
    pass_once(STAGE_FREE);
    __real_pipelines_destroy(pipeline);
}

static bool states_wait(void)
{
    const unsigned now = atomic_load(&wedged);
    return now & 1u << STAGE_STATE && !(now & 1u << STAGE_RELEASE);
}

bool __real_succession_ready(const struct pipeline *pipeline);
bool __wrap_succession_ready(const struct pipeline *pipeline);
bool __wrap_succession_ready(const struct pipeline *pipeline)
{
    return !states_wait() && __real_succession_ready(pipeline);
}

bool __real_succession_writable(const struct pipeline *pipeline);
bool __wrap_succession_writable(const struct pipeline *pipeline);
bool __wrap_succession_writable(const struct pipeline *pipeline)
{
    return !states_wait() && __real_succession_writable(pipeline);
}
