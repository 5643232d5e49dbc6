/*
 * Shared memory of a sound card: what the daemon and the helper process of one card share. It holds
 * the request, what the device gave, counters, and two rings of frames (ring.h). A helper process
 * runs PortAudio, so that a card that hangs or crashes cannot harm the daemon (helper.h).
 *
 *     helper process: PortAudio's callback        daemon: loop thread
 *
 *        sound_ring_store ──► periods, frames ──►  sound_ring_peek, sound_ring_release
 *        sound_ring_play  ◄── frames by number ◄── sound_ring_write
 *
 * A session lasts from the start of the device to its loss. Device frames are numbered from 0 in
 * each session, frames that the device lost included; frames that one callback captures and plays
 * have the same numbers.
 *
 * The daemon writes the request and resets the rest while no helper runs. After that the comment of
 * each member names the side that writes it. Nothing here locks, allocates or waits.
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
    SOUND_PERIODS = 4096, /* that wait for the daemon */
};

enum sound_api { SOUND_API_ANY, SOUND_API_ALSA, SOUND_API_JACK, SOUND_APIS };

/* One direction of a card: capture or playback. */
struct sound_side {
    uint32_t channels;        /* of a frame in the ring; 0: the direction is not used */
    uint32_t device_channels; /* opened on the device: 1 + the highest in the map */
    struct sample_format format;
    uint16_t map[SOUND_CHANNELS_MAX]; /* [channels]: device channel of each, from 0 */
};

/* What the helper is to open; immutable while a helper runs. */
struct sound_request {
    char client[64];               /* name that JACK shows for this client */
    char device[SOUND_NAME_BYTES]; /* name or pattern, see devices.h */
    enum sound_api api;
    double rate_hz;
    uint32_t period_frames; /* of an ALSA device; 0: any. JACK has the server's period */
    bool allow_conversion;  /* accept a device that resamples, mixes or converts */
    bool verbose;           /* leave the libraries' messages on stderr */
    struct sound_side capture, playback;
    uint64_t playback_frames; /* the playback ring holds at least this many */
};

/* What the device gave. The helper fills it before SOUND_OPEN, the priority after SOUND_RUNNING. */
struct sound_obtained {
    char device[SOUND_NAME_BYTES], api[32];
    char format[64]; /* of the hardware as the kernel reports it, "" when unknown */
    double rate_hz;
    double input_latency_s, output_latency_s; /* of the device, as PortAudio declares them */
    /* mode = direct: the computing time of a period, as measured, and the period itself; all 0 in
     * other modes */
    int64_t direct_median_ns, direct_worst_ns, direct_period_ns;
    int priority;       /* of the callback's thread */
    _Atomic int policy; /* SCHED_… of that thread, stored after priority; -1: not known yet */
};

enum sound_state {
    SOUND_STARTING,
    SOUND_OPEN, /* the device is open and waits for the daemon to start it */
    SOUND_RUNNING,
    SOUND_ABSENT,  /* there is no such device now; it may appear later */
    SOUND_REFUSED, /* the device cannot do what the request asks for */
    SOUND_LOST,    /* the device went away while it ran */
};

/* Counters of events, except those that count frames, as their names say. */
#define SOUND_COUNTER_TABLE(X)                                                                     \
    X(CALLBACKS, "callbacks")                                                                      \
    X(INPUT_OVERFLOW, "input overflow")         /* paInputOverflow: PortAudio lost input */        \
    X(INPUT_UNDERFLOW, "input underflow")       /* paInputUnderflow: zeros replace input */        \
    X(OUTPUT_OVERFLOW, "output overflow")       /* paOutputOverflow: output was discarded */       \
    X(OUTPUT_UNDERFLOW, "output underflow")     /* paOutputUnderflow: a gap in the output */       \
    X(PRIMING, "priming output")                /* paPrimingOutput */                              \
    X(DEVICE_LOST_FRAMES, "device lost frames") /* missing between two callbacks */                \
    X(RING_OVERRUN, "ring overrun")             /* the daemon was late: a period was dropped */    \
    X(RING_LOST_FRAMES, "ring lost frames")                                                        \
    X(PLAYBACK_UNDERRUN, "playback underrun") /* results were late */                              \
    X(PLAYBACK_SILENT_FRAMES, "playback silent frames")                                            \
    X(BAD_TIME, "bad time")               /* ADC time stamp zero or not monotonic */               \
    X(FILTERS_CHANGED, "filters changed") /* mode = direct: new filters are in use */              \
    X(FILTERS_REFUSED, "filters refused") /* mode = direct: sound_shared.problem says why */

enum sound_counter {
#define X(name, text) SOUND_##name,
    SOUND_COUNTER_TABLE(X)
#undef X
        SOUND_COUNTERS,
};

/* The text of the table above; "?" when there is no such counter. */
const char *sound_counter_name(enum sound_counter counter);

/* A run of captured frames: a callback's, or a part of them where the ring wraps. */
struct sound_period {
    uint64_t frame;  /* device frame of the first */
    uint64_t stored; /* frames that the ring took before it: its position in the ring */
    uint32_t frames;
    bool time_usable;    /* adc_ns comes from the converter and increased */
    uint32_t behind;     /* frames of its cycle that follow it */
    int64_t callback_ns; /* when the first callback of its cycle ran [monotonic] */
    int64_t adc_ns;      /* when the converter took the first frame [monotonic] */
    uint64_t lost_ring;  /* RING_LOST_FRAMES when it was stored: says why numbers jump */
};

struct sound_layout {
    uint64_t capture_frames, playback_frames; /* of the rings, powers of two */
    uint32_t capture_frame_bytes, playback_frame_bytes;
    size_t capture_offset, playback_offset; /* of the rings' bytes, from the start of the memory */
    size_t bytes;                           /* of the whole memory */
};

struct sound_shared {
    struct sound_request request;
    struct sound_obtained obtained;    /* helper */
    char problem[SOUND_PROBLEM_BYTES]; /* helper: the reason for SOUND_ABSENT, _REFUSED, _LOST */
    _Atomic uint32_t state;            /* enum sound_state; both */
    _Atomic uint64_t counters[SOUND_COUNTERS]; /* helper */

    struct sound_layout layout;

    alignas(64) _Atomic uint64_t periods_head;      /* daemon: periods released */
    _Atomic uint64_t stored_head;                   /* daemon: captured frames released */
    alignas(64) _Atomic uint64_t periods_tail;      /* callback: periods stored */
    uint64_t stored_tail;                           /* callback: captured frames stored */
    uint64_t now;                                   /* callback: device frames so far */
    uint32_t cycle_frames, cycle_played;            /* callback: of the cycle that has not ended */
    int64_t cycle_callback_ns;                      /* likewise */
    alignas(64) _Atomic uint64_t written_until;     /* daemon: playback frames below are written */
    alignas(64) _Atomic uint32_t position_sequence; /* callback: odd while it changes the rest */
    _Atomic uint64_t position_now, position_played, position_callback_ns;
    _Atomic uint32_t position_period;
    struct sound_period periods[SOUND_PERIODS]; /* callback */
};

/* Bytes of the memory that a request needs. */
size_t sound_shared_bytes(const struct sound_request *request);

/* Resets everything but the request, which must be set, for a new session. Only while no helper
 * runs. */
void sound_shared_reset(struct sound_shared *shared);

/* Either process, any thread. */
uint64_t sound_count(const struct sound_shared *shared, enum sound_counter counter);
void sound_count_add(struct sound_shared *shared, enum sound_counter counter, uint64_t events);

#endif
