/* Space: see space.h. */
#include "io/recording/space.h"

#include <stdatomic.h>
#include <sys/statvfs.h>

#include "core/clock.h"
#include "core/log.h"

/* It looks this often, or after this many bytes. */
static const int64_t look_interval_ns = 200 * NS_PER_MS;
static const uint64_t look_bytes = 16 << 20;
static const int64_t idle_interval_ns = NS_PER_SECOND;

static uint64_t disk_free_bytes(const char *directory)
{
    struct statvfs status;
    if (statvfs(directory, &status) != 0)
        return UINT64_MAX; /* the next write reports the error */
    return (uint64_t)status.f_bavail * status.f_frsize;
}

void space_begin(struct space *space, const char *sink, const char *directory, uint64_t min_free)
{
    space->sink = sink;
    space->directory = directory;
    atomic_store(&space->min_free_bytes, min_free);
    if (space->free_bytes == NULL)
        space->free_bytes = disk_free_bytes;
    space->unused = UINT64_MAX;
}

bool space_falls_short(struct space *space)
{
    const uint64_t least = atomic_load(&space->min_free_bytes);
    const int64_t now_ns = clock_monotonic_ns();
    if (now_ns < space->next_look_ns && space->unseen_bytes < look_bytes)
        return false;
    space->next_look_ns = now_ns + look_interval_ns;
    space->unseen_bytes = 0;
    space->unused = space->free_bytes(space->directory);
    if (space->paused && space->unused >= least + least / 16) { /* hysteresis */
        space->paused = false;
        log_notice("sink %s: recording continues; %llu frames were dropped", space->sink,
                   (unsigned long long)space->paused_frames);
    }
    return !space->paused && space->unused < least;
}

int64_t space_look(struct space *space)
{
    const int64_t now_ns = clock_monotonic_ns();
    if (now_ns >= space->next_idle_look_ns) {
        space->next_idle_look_ns = now_ns + idle_interval_ns;
        space->unused = space->free_bytes(space->directory);
    }
    return space->next_idle_look_ns;
}

void space_pause(struct space *space)
{
    space->paused = true;
    space->paused_frames = 0;
    log_warning("sink %s: recording paused: %llu MiB are free in %s, less than `min free` (%llu "
                "MiB); free some space and it continues by itself",
                space->sink, (unsigned long long)(space->unused >> 20), space->directory,
                (unsigned long long)(atomic_load(&space->min_free_bytes) >> 20));
}
