/*
 * Rings of a sound card: captured frames on their way from PortAudio's callback to the loop thread,
 * and results on their way back, in the memory of shared.h.
 *
 * The capture ring holds the captured bytes one after another; a ring of periods says which device
 * frames they are and when the callback ran. When either ring is full, the callback drops the new
 * period and counts its frames; their numbers stay vacant.
 *
 * The playback ring is addressed by device frame: device frame n lies at slot n mod size. Frames
 * that the daemon has not written when the callback needs them are played as silence and counted.
 *
 * One thread on each side (the callback in the helper process, the loop in the daemon). Neither
 * side locks, allocates, waits or calls the kernel.
 */
#ifndef CONVOLVD_IO_SOUND_RING_H
#define CONVOLVD_IO_SOUND_RING_H

#include <stdbool.h>
#include <stdint.h>

#include "io/sound/shared.h"

/* ---- the callback --------------------------------------------------------------------------
 * In each callback, in this order: lose (when the device lost frames), store, play, advance. Behind
 * the last callback of a cycle: end. */

/* The device lost `frames` before this callback; numbering skips and counts them. */
void sound_ring_lose(struct sound_shared *shared, uint64_t frames);

/* Stores a period: `frames` of the device's channels, interleaved. NULL: PortAudio had no input,
 * which counts as lost by the device. callback_ns, behind, adc_ns: see struct sound_period. */
void sound_ring_store(struct sound_shared *shared, const uint8_t *input, uint32_t frames,
                      int64_t callback_ns, uint32_t behind, int64_t adc_ns, bool time_usable);

/* Fills `output` with `frames` of the device's channels, interleaved. Returns how many of them came
 * from the ring; the others are silence. */
uint32_t sound_ring_play(struct sound_shared *shared, uint8_t *output, uint32_t frames);

/* Ends a callback: both directions advance by `frames`, of which `played` came from the ring.
 * callback_ns: when the first callback of its cycle ran. */
void sound_ring_advance(struct sound_shared *shared, uint32_t frames, uint32_t played,
                        int64_t callback_ns);
/* Ends a cycle: the daemon sees how far its callbacks have come, as one period. Nothing to end is
 * fine. */
void sound_ring_end(struct sound_shared *shared);

/* ---- the daemon --------------------------------------------------------------------------- */

/* The oldest period not yet released, and its bytes, which stay valid until it is released. Returns
 * false when there is none. */
bool sound_ring_peek(struct sound_shared *shared, struct sound_period *period,
                     const uint8_t **bytes);
/* Releases the period that peek returned. */
void sound_ring_release(struct sound_shared *shared);

/* Writes device frames [frame, frame + frames) for playback; frame ≥ sound_ring_written. Frames
 * between the last ones written and `frame` become silence. *silent_from is the first of them that
 * the callback can still play. Returns false when the frames do not fit. */
bool sound_ring_write(struct sound_shared *shared, uint64_t frame, const uint8_t *bytes,
                      uint32_t frames, uint64_t *silent_from);
/* The device frame after the last one written. */
uint64_t sound_ring_written(const struct sound_shared *shared);

/* A consistent snapshot of how far the callback has come. */
struct sound_position {
    uint64_t now;           /* device frames so far, the newest cycle's included */
    uint64_t played;        /* frames that were played from the ring */
    int64_t callback_ns;    /* when the newest cycle's first callback ran [monotonic] */
    uint32_t period_frames; /* of the newest cycle; 0: none has run */
};
void sound_ring_position(const struct sound_shared *shared, struct sound_position *position);

#endif
