/* Rings of a sound card: see sound_shared.h. Pure memory, no system calls. */
#include <assert.h>
#include <math.h>
#include <string.h>

#include "core/power.h"
#include "io/sound/shared.h"

enum {
    ALIGNMENT = 4096,
    FRAMES_MIN = 16384,            /* two of JACK's longest periods */
    CAPTURE_BYTES_MAX = 128 << 20, /* of very wide devices: then less than a second */
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

static uint8_t *capture_at(const struct sound_shared *shared, uint64_t stored)
{
    return (uint8_t *)(uintptr_t)shared + shared->layout.capture_offset +
           (stored & (shared->layout.capture_frames - 1)) * shared->layout.capture_frame_bytes;
}

static uint8_t *playback_at(const struct sound_shared *shared, uint64_t frame)
{
    return (uint8_t *)(uintptr_t)shared + shared->layout.playback_offset +
           (frame & (shared->layout.playback_frames - 1)) * shared->layout.playback_frame_bytes;
}

/* ---- the callback's thread --------------------------------------------------------------- */

void sound_ring_count(struct sound_shared *shared, enum sound_counter counter, uint64_t events)
{
    atomic_fetch_add_explicit(&shared->counters[counter], events, memory_order_relaxed);
}

uint64_t sound_count(const struct sound_shared *shared, enum sound_counter counter)
{
    return atomic_load_explicit(&shared->counters[counter], memory_order_relaxed);
}

void sound_ring_lose(struct sound_shared *shared, uint64_t frames)
{
    shared->now += frames;
    sound_ring_count(shared, SOUND_DEVICE_LOST_FRAMES, frames);
}

/* From all channels of the device to those of the map, or back; the others are left as they are. */
static void gather(const struct sound_side *side, const uint8_t *input, uint8_t *ring,
                   uint32_t frames)
{
    uint32_t bytes = side->format.bytes;
    for (uint32_t i = 0; i < frames; i++) {
        for (uint32_t c = 0; c < side->channels; c++)
            memcpy(ring + c * bytes, input + side->map[c] * bytes, bytes);
        ring += side->channels * bytes;
        input += side->device_channels * bytes;
    }
}

static void scatter(const struct sound_side *side, const uint8_t *ring, uint8_t *output,
                    uint32_t frames)
{
    uint32_t bytes = side->format.bytes;
    for (uint32_t i = 0; i < frames; i++) {
        for (uint32_t c = 0; c < side->channels; c++)
            memcpy(output + side->map[c] * bytes, ring + c * bytes, bytes);
        ring += side->channels * bytes;
        output += side->device_channels * bytes;
    }
}

void sound_ring_store(struct sound_shared *shared, const uint8_t *input, uint32_t frames,
                      int64_t callback_ns, int64_t adc_ns, bool time_usable)
{
    const struct sound_side *side = &shared->request.capture;
    uint64_t head = atomic_load_explicit(&shared->periods_head, memory_order_acquire);
    uint64_t stored_head = atomic_load_explicit(&shared->stored_head, memory_order_acquire);
    uint64_t tail = atomic_load_explicit(&shared->periods_tail, memory_order_relaxed);
    bool room = tail + 2 - head <= SOUND_PERIODS &&
                shared->stored_tail + frames - stored_head <= shared->layout.capture_frames;
    if (input == NULL) { /* the converter had nothing: no fault of the ring */
        sound_ring_count(shared, SOUND_DEVICE_LOST_FRAMES, frames);
        return;
    }
    if (!room) {
        sound_ring_count(shared, SOUND_RING_OVERRUN, 1);
        sound_ring_count(shared, SOUND_RING_LOST_FRAMES, frames);
        return;
    }
    uint64_t lost = sound_count(shared, SOUND_RING_LOST_FRAMES);
    double frame_ns = 1e9 / shared->request.rate_hz;
    for (uint32_t done = 0; done < frames;) {
        uint64_t place = shared->stored_tail & (shared->layout.capture_frames - 1);
        uint64_t left = shared->layout.capture_frames - place;
        uint32_t run = frames - done < left ? frames - done : (uint32_t)left;
        gather(side, input + (size_t)done * side->device_channels * side->format.bytes,
               capture_at(shared, place), run);
        shared->periods[tail % SOUND_PERIODS] = (struct sound_period){
            .frame = shared->now + done,
            .stored = shared->stored_tail,
            .frames = run,
            .time_usable = time_usable,
            .callback_ns = callback_ns,
            .adc_ns = adc_ns + (int64_t)(done * frame_ns),
            .lost_ring = lost,
        };
        shared->stored_tail += run;
        done += run;
        atomic_store_explicit(&shared->periods_tail, ++tail, memory_order_release);
    }
}

uint32_t sound_ring_play(struct sound_shared *shared, uint8_t *output, uint32_t frames)
{
    const struct sound_side *side = &shared->request.playback;
    size_t device_bytes = (size_t)side->device_channels * side->format.bytes;
    uint64_t until = atomic_load_explicit(&shared->written_until, memory_order_acquire);
    uint64_t there = until > shared->now ? until - shared->now : 0;
    uint32_t played = there < frames ? (uint32_t)there : frames;
    memset(output, 0, frames * device_bytes); /* 0 is silence in every format we open */
    for (uint32_t done = 0; done < played;) {
        uint64_t left = shared->layout.playback_frames -
                        ((shared->now + done) & (shared->layout.playback_frames - 1));
        uint32_t run = played - done < left ? played - done : (uint32_t)left;
        scatter(side, playback_at(shared, shared->now + done), output + done * device_bytes, run);
        done += run;
    }
    /* Before the first frames were written there is nothing to be late. */
    if (played < frames && until > 0) {
        sound_ring_count(shared, SOUND_PLAYBACK_UNDERRUN, 1);
        sound_ring_count(shared, SOUND_PLAYBACK_SILENT_FRAMES, frames - played);
    }
    return played;
}

void sound_ring_advance(struct sound_shared *shared, uint32_t frames, uint32_t played,
                        int64_t callback_ns)
{
    uint32_t sequence = atomic_load_explicit(&shared->moment_sequence, memory_order_relaxed);
    uint64_t so_far = atomic_load_explicit(&shared->moment_played, memory_order_relaxed);
    shared->now += frames;
    atomic_store_explicit(&shared->moment_sequence, sequence + 1, memory_order_relaxed);
    atomic_thread_fence(memory_order_release);
    atomic_store_explicit(&shared->moment_now, shared->now, memory_order_relaxed);
    atomic_store_explicit(&shared->moment_played, so_far + played, memory_order_relaxed);
    atomic_store_explicit(&shared->moment_callback_ns, (uint64_t)callback_ns, memory_order_relaxed);
    atomic_store_explicit(&shared->moment_period, frames, memory_order_relaxed);
    atomic_store_explicit(&shared->moment_sequence, sequence + 2, memory_order_release);
    sound_ring_count(shared, SOUND_CALLBACKS, 1);
}

/* ---- the daemon -------------------------------------------------------------------------- */

bool sound_ring_peek(struct sound_shared *shared, struct sound_period *period,
                     const uint8_t **bytes)
{
    uint64_t head = atomic_load_explicit(&shared->periods_head, memory_order_relaxed);
    if (head == atomic_load_explicit(&shared->periods_tail, memory_order_acquire))
        return false;
    *period = shared->periods[head % SOUND_PERIODS];
    *bytes = capture_at(shared, period->stored);
    return true;
}

void sound_ring_release(struct sound_shared *shared)
{
    uint64_t head = atomic_load_explicit(&shared->periods_head, memory_order_relaxed);
    const struct sound_period *period = &shared->periods[head % SOUND_PERIODS];
    atomic_store_explicit(&shared->stored_head, period->stored + period->frames,
                          memory_order_release);
    atomic_store_explicit(&shared->periods_head, head + 1, memory_order_release);
}

static void copy_to_ring(struct sound_shared *shared, uint64_t frame, const uint8_t *bytes,
                         uint64_t frames)
{
    size_t frame_bytes = shared->layout.playback_frame_bytes;
    for (uint64_t done = 0; done < frames;) {
        uint64_t left = shared->layout.playback_frames -
                        ((frame + done) & (shared->layout.playback_frames - 1));
        uint64_t run = frames - done < left ? frames - done : left;
        uint8_t *to = playback_at(shared, frame + done);
        if (bytes != NULL)
            memcpy(to, bytes + done * frame_bytes, run * frame_bytes);
        else
            memset(to, 0, run * frame_bytes);
        done += run;
    }
}

uint64_t sound_ring_written(const struct sound_shared *shared)
{
    return atomic_load_explicit(&shared->written_until, memory_order_relaxed);
}

bool sound_ring_write(struct sound_shared *shared, uint64_t frame, const uint8_t *bytes,
                      uint32_t frames, uint64_t *silent_from)
{
    uint64_t until = sound_ring_written(shared);
    struct sound_moment moment;
    assert(frame >= until);
    sound_ring_moment(shared, &moment);
    if (frame + frames > moment.now + shared->layout.playback_frames)
        return false;
    uint64_t from = until > moment.now ? until : moment.now;
    *silent_from = from < frame ? from : frame;
    copy_to_ring(shared, *silent_from, NULL, frame - *silent_from);
    copy_to_ring(shared, frame, bytes, frames);
    atomic_store_explicit(&shared->written_until, frame + frames, memory_order_release);
    return true;
}

/* A helper that dies in the middle of a moment leaves it odd: its parts are good enough then. */
enum { MOMENT_TRIES = 1000 };

void sound_ring_moment(const struct sound_shared *shared, struct sound_moment *moment)
{
    uint32_t before, after;
    int tries = 0;
    do {
        before = atomic_load_explicit(&shared->moment_sequence, memory_order_acquire);
        moment->now = atomic_load_explicit(&shared->moment_now, memory_order_relaxed);
        moment->played = atomic_load_explicit(&shared->moment_played, memory_order_relaxed);
        moment->callback_ns =
            (int64_t)atomic_load_explicit(&shared->moment_callback_ns, memory_order_relaxed);
        moment->period_frames = atomic_load_explicit(&shared->moment_period, memory_order_relaxed);
        atomic_thread_fence(memory_order_acquire);
        after = atomic_load_explicit(&shared->moment_sequence, memory_order_relaxed);
    } while ((before != after || before % 2 != 0) && ++tries < MOMENT_TRIES);
}
