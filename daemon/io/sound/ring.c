/* Rings of a sound card: see ring.h. Works on memory alone, without system calls. */
#include "io/sound/ring.h"

#include <assert.h>
#include <string.h>

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

void sound_ring_lose(struct sound_shared *shared, uint64_t frames)
{
    shared->now += frames;
    sound_count_add(shared, SOUND_DEVICE_LOST_FRAMES, frames);
}

/* Copies the mapped channels out of frames with all channels of the device. */
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

/* Copies the ring's channels to their device channels; leaves the other channels unchanged. */
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
                      int64_t callback_ns, uint32_t behind, int64_t adc_ns, bool time_usable)
{
    const struct sound_side *side = &shared->request.capture;
    uint64_t head = atomic_load_explicit(&shared->periods_head, memory_order_acquire);
    uint64_t stored_head = atomic_load_explicit(&shared->stored_head, memory_order_acquire);
    uint64_t tail = atomic_load_explicit(&shared->periods_tail, memory_order_relaxed);
    bool room = tail + 2 - head <= SOUND_PERIODS &&
                shared->stored_tail + frames - stored_head <= shared->layout.capture_frames;
    if (input == NULL) { /* PortAudio had no input: the device lost it, not the ring */
        sound_count_add(shared, SOUND_DEVICE_LOST_FRAMES, frames);
        return;
    }
    if (!room) {
        sound_count_add(shared, SOUND_RING_OVERRUN, 1);
        sound_count_add(shared, SOUND_RING_LOST_FRAMES, frames);
        return;
    }
    uint64_t lost = sound_count(shared, SOUND_RING_LOST_FRAMES);
    double frame_ns = 1e9 / shared->request.rate_hz;
    for (uint32_t done = 0; done < frames;) {
        uint64_t slot = shared->stored_tail & (shared->layout.capture_frames - 1);
        uint64_t left = shared->layout.capture_frames - slot;
        uint32_t run = frames - done < left ? frames - done : (uint32_t)left;
        gather(side, input + (size_t)done * side->device_channels * side->format.bytes,
               capture_at(shared, slot), run);
        shared->periods[tail % SOUND_PERIODS] = (struct sound_period){
            .frame = shared->now + done,
            .stored = shared->stored_tail,
            .frames = run,
            .behind = behind + frames - done - run,
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
    uint64_t written = until > shared->now ? until - shared->now : 0;
    uint32_t played = written < frames ? (uint32_t)written : frames;
    memset(output, 0, frames * device_bytes); /* 0 is silence in every format that is opened */
    for (uint32_t done = 0; done < played;) {
        uint64_t left = shared->layout.playback_frames -
                        ((shared->now + done) & (shared->layout.playback_frames - 1));
        uint32_t run = played - done < left ? played - done : (uint32_t)left;
        scatter(side, playback_at(shared, shared->now + done), output + done * device_bytes, run);
        done += run;
    }
    /* Before the daemon has written any frames, none can be late. */
    if (played < frames && until > 0) {
        sound_count_add(shared, SOUND_PLAYBACK_UNDERRUN, 1);
        sound_count_add(shared, SOUND_PLAYBACK_SILENT_FRAMES, frames - played);
    }
    return played;
}

void sound_ring_advance(struct sound_shared *shared, uint32_t frames, uint32_t played,
                        int64_t callback_ns)
{
    shared->now += frames;
    shared->cycle_frames += frames;
    shared->cycle_played += played;
    shared->cycle_callback_ns = callback_ns;
    sound_count_add(shared, SOUND_CALLBACKS, 1);
}

void sound_ring_end(struct sound_shared *shared)
{
    uint32_t sequence = atomic_load_explicit(&shared->position_sequence, memory_order_relaxed);
    uint64_t before = atomic_load_explicit(&shared->position_played, memory_order_relaxed);
    if (shared->cycle_frames == 0)
        return;
    atomic_store_explicit(&shared->position_sequence, sequence + 1, memory_order_relaxed);
    atomic_thread_fence(memory_order_release);
    atomic_store_explicit(&shared->position_now, shared->now, memory_order_relaxed);
    atomic_store_explicit(&shared->position_played, before + shared->cycle_played,
                          memory_order_relaxed);
    atomic_store_explicit(&shared->position_callback_ns, (uint64_t)shared->cycle_callback_ns,
                          memory_order_relaxed);
    atomic_store_explicit(&shared->position_period, shared->cycle_frames, memory_order_relaxed);
    atomic_store_explicit(&shared->position_sequence, sequence + 2, memory_order_release);
    shared->cycle_frames = shared->cycle_played = 0;
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

/* Writes `frames` to the playback ring from device frame `frame` on; NULL: silence. */
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
    struct sound_position position;
    assert(frame >= until);
    sound_ring_position(shared, &position);
    if (frame + frames > position.now + shared->layout.playback_frames)
        return false;
    uint64_t from = until > position.now ? until : position.now;
    *silent_from = from < frame ? from : frame;
    copy_to_ring(shared, *silent_from, NULL, frame - *silent_from);
    copy_to_ring(shared, frame, bytes, frames);
    atomic_store_explicit(&shared->written_until, frame + frames, memory_order_release);
    return true;
}

/* A helper that dies while it stores a position leaves the sequence odd for ever; the reader then
 * takes the members as they are. */
enum { POSITION_TRIES = 1000 };

void sound_ring_position(const struct sound_shared *shared, struct sound_position *position)
{
    uint32_t before, after;
    int tries = 0;
    do {
        before = atomic_load_explicit(&shared->position_sequence, memory_order_acquire);
        position->now = atomic_load_explicit(&shared->position_now, memory_order_relaxed);
        position->played = atomic_load_explicit(&shared->position_played, memory_order_relaxed);
        position->callback_ns =
            (int64_t)atomic_load_explicit(&shared->position_callback_ns, memory_order_relaxed);
        position->period_frames =
            atomic_load_explicit(&shared->position_period, memory_order_relaxed);
        atomic_thread_fence(memory_order_acquire);
        after = atomic_load_explicit(&shared->position_sequence, memory_order_relaxed);
    } while ((before != after || before % 2 != 0) && ++tries < POSITION_TRIES);
}
