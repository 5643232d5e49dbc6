/* Shared memory of a sound card: see shared.h. */
#include "io/sound/shared.h"

#include <math.h>
#include <string.h>

#include "core/power.h"

enum {
    ALIGNMENT = 4096,
    FRAMES_MIN = 16384,            /* two of JACK's longest periods */
    CAPTURE_BYTES_MAX = 128 << 20, /* very wide devices get less than a second */
};

const char *sound_counter_name(enum sound_counter counter)
{
    static const char *const names[] = {
#define X(name, text) [SOUND_##name] = text,
        SOUND_COUNTER_TABLE(X)
#undef X
    };
    return (unsigned)counter < SOUND_COUNTERS ? names[(unsigned)counter] : "?";
}

void sound_count_add(struct sound_shared *shared, enum sound_counter counter, uint64_t events)
{
    atomic_fetch_add_explicit(&shared->counters[counter], events, memory_order_relaxed);
}

uint64_t sound_count(const struct sound_shared *shared, enum sound_counter counter)
{
    return atomic_load_explicit(&shared->counters[counter], memory_order_relaxed);
}

/* ---- layout ------------------------------------------------------------------------------ */

static size_t round_up(size_t bytes)
{
    return (bytes + ALIGNMENT - 1) / ALIGNMENT * ALIGNMENT;
}

static struct sound_layout lay_out(const struct sound_request *request)
{
    struct sound_layout layout = {
        .capture_frames = power_of_two_from(FRAMES_MIN, (uint64_t)ceil(request->rate_hz)),
        .playback_frames = power_of_two_from(FRAMES_MIN, request->playback_frames),
        .capture_frame_bytes = request->capture.channels * request->capture.format.bytes,
        .playback_frame_bytes = request->playback.channels * request->playback.format.bytes,
        .capture_offset = round_up(sizeof(struct sound_shared)),
    };
    while (layout.capture_frames > FRAMES_MIN &&
           layout.capture_frames * layout.capture_frame_bytes > CAPTURE_BYTES_MAX)
        layout.capture_frames /= 2;
    layout.playback_offset =
        layout.capture_offset + round_up(layout.capture_frames * layout.capture_frame_bytes);
    layout.bytes =
        layout.playback_offset + round_up(layout.playback_frames * layout.playback_frame_bytes);
    return layout;
}

size_t sound_shared_bytes(const struct sound_request *request)
{
    return lay_out(request).bytes;
}

void sound_shared_reset(struct sound_shared *shared)
{
    memset((uint8_t *)shared + sizeof shared->request, 0, sizeof *shared - sizeof shared->request);
    shared->obtained.priority = -1;
    atomic_init(&shared->obtained.policy, -1);
    shared->layout = lay_out(&shared->request);
}
