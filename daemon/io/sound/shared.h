/*
 * What the daemon and the helper process of one sound card share: the request, what was
 * obtained, counters, and two rings of frames in one piece of memory.
 *
 *     helper: PortAudio's callback                daemon: loop thread
 *
 *        sound_ring_store ──► periods, frames ──►  sound_ring_peek, sound_ring_release
 *        sound_ring_play  ◄── frames by number ◄── sound_ring_write
 *
 * Device frames are numbered from 0 in each session (from the start of the device to its loss);
 * capture and playback of one callback have the same numbers. Frames that the device lost count.
 *
 * The captured bytes lie in a ring as they come; a ring of periods says which device frames they
 * are and when they came. Playback is addressed by device frame: what has not been written when
 * its time comes is silence, and counted. Neither side locks, allocates or waits.
 */
#ifndef CONVOLVD_IO_SOUND_SHARED_H
#define CONVOLVD_IO_SOUND_SHARED_H

#include <stdalign.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "wire/format.h"

enum {
    SOUND_CHANNELS_MAX = 1024,
    SOUND_NAME_BYTES = 128,
    SOUND_PROBLEM_BYTES = 512,
    SOUND_PERIODS = 4096, /* descriptors in flight */
};

enum sound_api { SOUND_API_ANY, SOUND_API_ALSA, SOUND_API_JACK, SOUND_APIS };

/* One direction. */
struct sound_side {
    uint32_t channels;        /* of a frame in the ring; 0: the direction is not used */
    uint32_t device_channels; /* opened on the device: the highest of the map */
    struct sample_format format;
    uint16_t map[SOUND_CHANNELS_MAX]; /* device channel of each, from 0 */
};

/* Immutable while a helper runs. */
struct sound_request {
    char client[64];               /* what the device's other users see (JACK) */
    char device[SOUND_NAME_BYTES]; /* name or pattern, see sound/devices.h */
    enum sound_api api;
    double rate_hz;
    uint32_t period_frames; /* asked of ALSA; JACK's is the server's. 0: any */
    bool allow_conversion;
    bool verbose; /* what the libraries say goes to stderr */
    struct sound_side capture, playback;
    uint64_t playback_frames; /* the ring holds at least so many */
};

/* What the device gave; filled before SOUND_OPEN, the priority after SOUND_RUNNING. */
struct sound_obtained {
    char device[SOUND_NAME_BYTES], api[32];
    char format[64]; /* of the hardware as read back, "" where that cannot be known */
    double rate_hz;
    double input_latency_s, output_latency_s; /* of the device, as PortAudio declares them */
    int64_t direct_median_ns,
        direct_worst_ns;      /* mode = direct: what a period takes, as measured; */
    int64_t direct_period_ns; /* and lasts; 0: not direct */
    int priority;
    _Atomic int policy; /* SCHED_… of the callback's thread, told after priority; -1: not known */
};

enum sound_state {
    SOUND_STARTING,
    SOUND_OPEN, /* waits for the word to start */
    SOUND_RUNNING,
    SOUND_ABSENT,  /* no such device now; later, perhaps */
    SOUND_REFUSED, /* it will never do what is asked for */
    SOUND_LOST,    /* it went away while running */
};

/* Every one counts events but those whose name says frames. */
#define SOUND_COUNTER_TABLE(X)                                                                     \
    X(CALLBACKS, "callbacks")                                                                      \
    X(INPUT_OVERFLOW, "input overflow")         /* paInputOverflow: frames were lost before us */  \
    X(INPUT_UNDERFLOW, "input underflow")       /* paInputUnderflow: zeros stand in for input */   \
    X(OUTPUT_OVERFLOW, "output overflow")       /* paOutputOverflow: output was discarded */       \
    X(OUTPUT_UNDERFLOW, "output underflow")     /* paOutputUnderflow: a gap in the output */       \
    X(PRIMING, "priming output")                /* paPrimingOutput */                              \
    X(DEVICE_LOST_FRAMES, "device lost frames") /* missing between two callbacks */                \
    X(RING_OVERRUN, "ring overrun")             /* the daemon was behind: a period was not kept */ \
    X(RING_LOST_FRAMES, "ring lost frames")                                                        \
    X(PLAYBACK_UNDERRUN, "playback underrun") /* results were not there in time */                 \
    X(PLAYBACK_SILENT_FRAMES, "playback silent frames")                                            \
    X(BAD_TIME, "bad time")               /* ADC time stamp zero or not monotonic */               \
    X(FILTERS_CHANGED, "filters changed") /* mode = direct: others in use */                       \
    X(FILTERS_REFUSED, "filters refused") /* … and not, sound_shared.problem says why */

enum sound_counter {
#define X(name, text) SOUND_##name,
    SOUND_COUNTER_TABLE(X)
#undef X
        SOUND_COUNTERS,
};

const char *sound_counter_name(enum sound_counter counter);

/* A run of captured frames: one period, or a part of one where the ring ends. */
struct sound_period {
    uint64_t frame;  /* device frame of the first */
    uint64_t stored; /* place in the ring of bytes */
    uint32_t frames;
    bool time_usable;    /* adc_ns comes from the converter and went forward */
    int64_t callback_ns; /* monotonic: the callback ran */
    int64_t adc_ns;      /* monotonic: first frame at the converter */
    uint64_t lost_ring;  /* RING_LOST_FRAMES when it was stored: says why numbers jump */
};

/* A callback as the daemon sees it in one piece. */
struct sound_moment {
    uint64_t now;        /* device frames so far, the newest callback's included */
    uint64_t played;     /* frames that were played from the ring */
    int64_t callback_ns; /* monotonic */
    uint32_t period_frames;
};

struct sound_layout {
    uint64_t capture_frames, playback_frames; /* of the rings, powers of two */
    uint32_t capture_frame_bytes, playback_frame_bytes;
    size_t capture_offset, playback_offset; /* of their bytes in the memory */
    size_t bytes;                           /* of all of it */
};

struct sound_shared {
    struct sound_request request;
    struct sound_obtained obtained;
    char problem[SOUND_PROBLEM_BYTES]; /* with SOUND_ABSENT, SOUND_REFUSED, SOUND_LOST */
    _Atomic uint32_t state;            /* enum sound_state */
    _Atomic uint64_t counters[SOUND_COUNTERS];

    struct sound_layout layout;

    alignas(64) _Atomic uint64_t periods_head; /* daemon */
    _Atomic uint64_t stored_head;
    alignas(64) _Atomic uint64_t periods_tail; /* helper */
    uint64_t stored_tail;
    uint64_t now;                                 /* helper's own count */
    alignas(64) _Atomic uint64_t written_until;   /* daemon: playback frames below are there */
    alignas(64) _Atomic uint32_t moment_sequence; /* odd while the moment is changing */
    _Atomic uint64_t moment_now, moment_played, moment_callback_ns;
    _Atomic uint32_t moment_period;
    struct sound_period periods[SOUND_PERIODS];
};

/* Bytes of the memory for a request. */
size_t sound_shared_bytes(const struct sound_request *request);

/* A new session: everything but the request from the beginning. The request must be in place. */
void sound_shared_reset(struct sound_shared *shared);

uint64_t sound_count(const struct sound_shared *shared, enum sound_counter counter);

/* ---- the callback's thread --------------------------------------------------------------------
 * Order in a callback: lose (when frames are missing), store, play, advance. */

void sound_ring_count(struct sound_shared *shared, enum sound_counter counter, uint64_t events);
/* The device lost frames before this callback: numbers go on behind them. */
void sound_ring_lose(struct sound_shared *shared, uint64_t frames);
/* `frames` of the device's channels, interleaved; NULL: PortAudio had none. */
void sound_ring_store(struct sound_shared *shared, const uint8_t *input, uint32_t frames,
                      int64_t callback_ns, int64_t adc_ns, bool time_usable);
/* Fills `frames` of the device's channels, interleaved. Returns how many were there. */
uint32_t sound_ring_play(struct sound_shared *shared, uint8_t *output, uint32_t frames);
/* The callback is done: both directions have gone on by `frames`; `played` of them came from the
 * ring. */
void sound_ring_advance(struct sound_shared *shared, uint32_t frames, uint32_t played,
                        int64_t callback_ns);

/* ---- the daemon -------------------------------------------------------------------------- */

/* The oldest period not yet released, and its bytes; false when there is none. */
bool sound_ring_peek(struct sound_shared *shared, struct sound_period *period,
                     const uint8_t **bytes);
void sound_ring_release(struct sound_shared *shared);

/* Device frames [frame, frame + frames) to be played; frame ≥ sound_ring_written. What lies between
 * is silence from *silent_from on; what lies before that has been passed by. False: they do not
 * fit. */
bool sound_ring_write(struct sound_shared *shared, uint64_t frame, const uint8_t *bytes,
                      uint32_t frames, uint64_t *silent_from);
/* All frames below have been written or passed by. */
uint64_t sound_ring_written(const struct sound_shared *shared);
void sound_ring_moment(const struct sound_shared *shared, struct sound_moment *moment);

#endif
