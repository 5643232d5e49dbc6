/*
 * The sink interface: where results go. One file a protocol; adding one is a file and a row
 * in sink_table (io/sinks.c). `put` runs on the loop thread and never blocks or allocates: a
 * sink that cannot take a block now drops it under a name (or hands it to its own thread).
 *
 * Ledger per sink: frames put = delivered + each named drop + in flight inside the sink.
 */
#ifndef CONVOLVD_IO_SINK_H
#define CONVOLVD_IO_SINK_H

#include <stdbool.h>
#include <stdint.h>
#include <uv.h>

#include "core/error.h"
#include "io/environment.h"
#include "wire/format.h"
#include "stream/result.h"

#define DROP_TABLE(X)                                                                              \
    X(SOCKET, "socket")           /* the kernel would not take it (send buffer full) */            \
    X(UNREACHABLE, "unreachable") /* the kernel said no (ECONNREFUSED, ENETUNREACH …) */         \
    X(QUEUE, "queue")             /* the writer thread is behind */                                \
    X(PAUSED, "paused")           /* `min free` reached */                                         \
    X(DISK, "disk")               /* a write failed */                                             \
    X(STOPPED, "stopped")                                                                          \
    X(LATE, "late")     /* a sound card had gone past its time */                                  \
    X(DEVICE, "device") /* the sound card is away */

enum drop {
#define X(name, text) DROP_##name,
    DROP_TABLE(X)
#undef X
        DROPS,
};

const char *drop_name(enum drop drop);

struct sink_ledger {
    uint64_t frames; /* put */
    uint64_t delivered;
    uint64_t pending; /* inside the sink at this instant */
    uint64_t dropped[DROPS];
    uint64_t packets, bytes; /* sent or written */
    uint64_t
        saturated; /* samples clipped by integer conversion, also of results dropped after it */
};

/* What the sidecar and the SDP say of the stream. Immutable while the sink lives. */
struct sink_stream {
    const char *name;
    double rate_hz;    /* of the output */
    uint32_t decimate; /* frames of the first stream of the chain for one of the output; 0: 1 */
    uint32_t channels; /* floats of an output frame */
    const char *const *units; /* [channels] */
    double delay_frames;      /* at the output's rate */
    bool aligned;
    uint32_t taps_longest;
    const char *taps_hash; /* of all filters used, in order */
    const char *config_hash;
    const char *device, *driver;
    bool loss_detectable;
    /* raw input recording */
    struct sample_format input_format;
    uint32_t input_channels;
    double input_rate_hz;
    const struct channel_scale *input_scales; /* [input_channels] */
};

struct sound_options; /* io/sound/card.h */
struct sound_report;

struct sink_options {
    const char *name;
    struct sink_stream stream;
    struct sample_format format; /* on the wire or in the file */
    double full_scale;           /* value of the integer code 2^(bits-1) [unit]; 1 for float */
    bool raw;                    /* record the input, not the output */
    /* rtp */
    const char *address; /* "host:port" */
    const char *interface;
    uint32_t payload_type, ttl, mtu; /* mtu: bytes of the IP packet, 0: 1500 */
    bool ssrc_set;
    uint32_t ssrc;
    const char *sdp_path; /* NULL: none */
    uint64_t send_buffer_bytes;
    /* recording */
    const char *path; /* directory/prefix: files are PREFIX-<UTC of first frame>-<nnnn>.<ext> when
                         rotating, else the path itself */
    const char *container; /* "wav" (RF64 past 4 GiB), "w64", "rf64" */
    int64_t rotate_ns;     /* 0: never; files are cut at exact frames: round(rotate · rate) */
    uint64_t rotate_bytes; /* 0: never */
    uint32_t keep;         /* files, 0: all */
    uint64_t min_free_bytes;
    int64_t flush_ns;     /* file readable up to the last flush after a kill; 0: 1 s */
    uint64_t queue_bytes; /* between loop and writer thread, 0: 64 MiB */
    /* sound card */
    const struct sound_options *sound;
    /* Loop thread: called when room() has grown after it had been too small. May be NULL. */
    void (*room_again)(void *context);
    void *room_context;
};

struct sink;

struct sink_ops {
    const char *name; /* the config's `type = NAME` */
    const char *sentence;
    /* Worker thread. */
    int (*open)(const struct sink_options *options, const struct io_environment *environment,
                struct sink **out, struct problem *problem);
    /* Loop thread, before the first put: what cannot be done by open. May be NULL. */
    void (*start)(struct sink *sink);
    /* Loop thread. Copies what it keeps. Returns the monotonic time at which the last byte was
     * handed over. */
    int64_t (*put)(struct sink *sink, const struct result *result);
    /* Loop thread: frames that can be put now without a drop; streams that are not live wait for it
     * (back-pressure). NULL: no limit known. */
    uint64_t (*room)(const struct sink *sink);
    /* Loop thread, after the results of one wake-up: send what was gathered (sendmmsg). May be
     * NULL. */
    void (*flush)(struct sink *sink);
    /* Loop thread: finish (flush files, write sidecars) within the deadline, then call closed once.
     * Inside `closed` the sink still answers `ledger`, with its final counts; it is freed when
     * `closed` returns. */
    void (*close)(struct sink *sink, int64_t deadline_ns, void (*closed)(void *context),
                  void *context);
    void (*ledger)(const struct sink *sink, struct sink_ledger *ledger);
    /* Any thread: what put makes of results before it hands them on, so that a stream whose sinks
     * agree may have it done on the device (result.wire; only in this format). NULL: it needs the
     * floats. */
    struct result_format (*wire)(const struct sink_options *options);
    /* What a sound card says of itself; NULL: it is none. */
    void (*sound)(const struct sink *sink, struct sound_report *report);
};

const struct sink_ops *sink_find(const char *name);
const struct sink_ops *sink_at(int index);

#endif
