/* Shown: see shown.h. */
#include "io/recording/shown.h"

#include <inttypes.h>
#include <stdio.h>

void shown_open(struct shown_cell *cell)
{
    cell->mutex = (pthread_mutex_t)PTHREAD_MUTEX_INITIALIZER;
}

void shown_close(struct shown_cell *cell)
{
    pthread_mutex_destroy(&cell->mutex);
}

struct recording_shown *shown_begin(struct shown_cell *cell)
{
    pthread_mutex_lock(&cell->mutex); /* the loop holds it for one copy */
    return &cell->now;
}

void shown_end(struct shown_cell *cell)
{
    pthread_mutex_unlock(&cell->mutex);
}

void shown_read(struct shown_cell *cell, struct recording_shown *shown)
{
    if (pthread_mutex_trylock(&cell->mutex) == 0) {
        cell->seen = cell->now;
        pthread_mutex_unlock(&cell->mutex);
    }
    *shown = cell->seen;
}

/* ---- the row of sink_ops ----------------------------------------------------------------- */

static const char *state_word(enum recording_state state)
{
    static const char *const words[] = {
        [RECORDING_RUNNING] = "recording",
        [RECORDING_STOPPED] = "stopped",
        [RECORDING_PAUSED] = "paused",
    };
    return words[state];
}

static void print_shown(const void *status, double rate_hz, FILE *out)
{
    const struct recording_shown *shown = status;
    (void)rate_hz;
    fprintf(out, "  recording     %s", state_word(shown->state));
    if (shown->file > 0)
        fprintf(out, "; %s: %" PRIu64 " frames, %.1f s, %.1f MiB", shown->path, shown->frames,
                shown->seconds, (double)shown->bytes / (1 << 20));
    if (shown->free_bytes != UINT64_MAX)
        fprintf(out, "; %.1f GiB free", (double)shown->free_bytes / (1 << 30));
    fputc('\n', out);
}

static json_t *shown_json(const void *status)
{
    const struct recording_shown *shown = status;
    const bool any = shown->file > 0;
    json_t *object =
        json_pack("{s:s, s:b, s:I, s:I, s:f}", "state", state_word(shown->state), "running",
                  shown->state != RECORDING_STOPPED, "frames", (json_int_t)shown->frames, "bytes",
                  (json_int_t)shown->bytes, "seconds", shown->seconds);
    json_object_set_new(object, "path", any ? json_string(shown->path) : json_null());
    json_object_set_new(object, "since_realtime_ns",
                        any ? json_integer((json_int_t)shown->since_realtime_ns) : json_null());
    json_object_set_new(object, "disk_free_bytes",
                        shown->free_bytes != UINT64_MAX
                            ? json_integer((json_int_t)shown->free_bytes)
                            : json_null());
    return object;
}

/* What goes wrong is in the ledger. */
static uint32_t no_faults(const void *status, struct driver_fault *faults)
{
    (void)status, (void)faults;
    return 0;
}

const struct driver_status recording_status = {
    .name = "recording",
    .what = "recording",
    .bytes = sizeof(struct recording_shown),
    .print = print_shown,
    .json = shown_json,
    .faults = no_faults,
};
