/*
 * The sink interface: where results go. One file a protocol; adding one is a file and a row
 * in the table of io/sinks.c. `put` runs on the loop thread and never blocks or allocates: a
 * sink that cannot take a block now drops it under a name (or hands it to its own thread).
 *
 * Ledger per sink: frames put = delivered + each named drop + in flight inside the sink.
 */
#ifndef CONVOLVD_IO_SINK_H
#define CONVOLVD_IO_SINK_H

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <uv.h>

#include "core/error.h"
#include "core/event.h"
#include "io/check.h"
#include "io/driver.h"
#include "io/environment.h"
#include "io/event_log.h"
#include "io/excitation.h"
#include "io/keeper.h"
#include "wire/format.h"
#include "stream/result.h"

#define DROP_TABLE(X)                                                                              \
    X(SOCKET, "socket")           /* the kernel would not take it (send buffer full) */            \
    X(UNREACHABLE, "unreachable") /* the kernel said no (ECONNREFUSED, EPIPE …) */               \
    X(QUEUE, "queue")             /* the writer thread is behind */                                \
    X(PAUSED, "paused")           /* `min free` reached */                                         \
    X(DISK, "disk")               /* a write failed */                                             \
    X(STOPPED, "stopped")         /* the deadline of a stop, or the command record-stop */         \
    X(LATE, "late")               /* a sound card had gone past its time */                        \
    X(DEVICE, "device")           /* the sound card is away */

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
    struct excitation excitation; /* in frames of the output */
    uint32_t taps_longest;
    const char *taps_hash; /* of all filters used, in order */
    const char *config_hash;
    const char *device, *driver;
    bool loss_detectable;
    /* raw input recording */
    struct sample_format input_format;
    uint32_t input_channels;
    double input_rate_hz;
    int64_t input_max_gap_ns; /* the longest loss that its epochs go on over; 0: it loses nothing */
    const struct channel_scale *input_scales; /* [input_channels] */
    struct excitation input_excitation;       /* in frames of the input */
};

/* What receivers know a sink by, and what another sink in its place goes on from. */
struct sink_identity {
    uint32_t ssrc;     /* RTP */
    uint16_t sequence; /* RTP: of the next packet */
    uint16_t port;     /* RTP: it sends from here; 0: not known */
};

/* Frames [from, until) of an epoch that were put and never delivered. */
struct sink_missing {
    uint64_t epoch, from, until;
};

enum { MISSING_RUNS_MAX = 8 };

/* What all sinks have. The driver's own options stand behind `own`. */
struct sink_options {
    const char *name;
    struct sink_stream stream;
    struct sample_format format; /* on the wire or in the file */
    double full_scale;           /* value of the integer code 2^(bits-1) [unit]; 1 for float */
    bool raw;                    /* takes the input, not the output: set by the driver's check */
    uint64_t block_bytes;  /* of one block as put: a sink that makes its stream wait must have room
                              for it; 0: not known */
    void *own;             /* the driver's struct, sink_ops.options_bytes; NULL: it has none */
    const char *partition; /* of a cluster, whose results it gets beside the log; NULL: of none */
    /* Loop thread: called when room() has grown after it had been too small. May be NULL. */
    void (*room_again)(void *context);
    /* Loop thread: called once when the sink can deliver nothing any more. May be NULL. */
    void (*ended)(void *context);
    void *room_context; /* of both */
    struct keeper_host keeper;
    struct event_log_host events;
    const struct sink_identity *identity; /* of the sink in whose place this one is opened; NULL:
                                             none. Read by `open` alone */
};

enum { SINK_MARK_BYTES = 404 };

/* What somebody has noted while the stream ran, at a frame as this sink numbers them. */
struct sink_mark {
    uint64_t epoch, frame;
    int64_t realtime_ns;
    char text[SINK_MARK_BYTES], who[EVENT_WHO_BYTES];
};

/* Where a command to record takes hold. */
struct sink_record_at {
    bool changed;          /* false: it was so already */
    bool known;            /* something was put; then: */
    uint64_t epoch, frame; /* the frame after the newest one put, as this sink numbers them */
};

/* What a sink adds to the samples of one block on their way. */
struct sink_load {
    double packets;        /* of one block */
    uint32_t header_bytes; /* of one packet, IP and UDP included */
};

struct sink;
struct source_cut;

struct sink_ops {
    const char *name;      /* the config's `type = NAME` */
    const char *sentence;  /* what it is, in a few words of the manual */
    const char *packets;   /* what its ledger's packets are: "packets", "files" */
    const char *format;    /* the default sample format; NULL: results leave as they are */
    const char *order;     /* why samples have the byte order of `format`; NULL: either will do */
    bool osc_server;       /* needs the OSC server */
    const char *main_loop; /* as source_ops.main_loop */

    /* The options of its own, all of one structure that starts zeroed. */
    const struct option_row *options;
    unsigned option_count;
    size_t options_bytes;
    /* Holds the options against each other and against the stream (options->stream: name, rate,
     * channels, decimate and the input_ members are set). NULL: there is nothing to check. */
    void (*check)(const struct option_check *check, const struct daemon_facts *facts,
                  const struct stream_facts *stream, struct sink_options *options);
    /* Holds sink number `self` against all other sections. NULL: any may stand beside it. */
    void (*check_all)(const struct driver_sections *all, uint32_t self);
    /* The lines of `--check` behind the sink's name: the first says where results go; the others
     * begin with 19 spaces. `bytes_per_second` includes headers. */
    void (*report)(const struct sink_options *options, double bytes_per_second, FILE *out);
    /* Any thread: the most that it holds in queues and buffers [bytes]; NULL: next to nothing. */
    uint64_t (*memory)(const struct sink_options *options);
    /* What it adds to a block of so many frames; NULL: nothing. */
    struct sink_load (*load)(const struct sink_options *options, double block_frames);

    /* Worker thread. */
    int (*open)(const struct sink_options *options, const struct io_environment *environment,
                struct sink **out, struct problem *problem);
    /* Loop thread, before the first put: what cannot be done by open. May be NULL. */
    void (*start)(struct sink *sink);
    /* Loop thread: as source_ops.change. NULL: no row says `running`. */
    void (*change)(struct sink *sink, const struct sink_options *options);
    /* Loop thread. Copies what it keeps. Returns the monotonic time at which the last byte was
     * handed over. */
    int64_t (*put)(struct sink *sink, const struct result *result);
    /* Loop thread: frames that can be put now without a drop; streams that are not live wait for it
     * (back-pressure). NULL: no limit known. */
    uint64_t (*room)(const struct sink *sink);
    /* Loop thread, after the results of one wake-up: send what was gathered (sendmmsg). May be
     * NULL. */
    void (*flush)(struct sink *sink);
    /* Loop thread, before close: the source was stopped before the end to which it would have come
     * by itself, so that what was put is not the whole. NULL: the sink keeps nothing. */
    void (*interrupted)(struct sink *sink);
    /* Loop thread: finish (flush files, write sidecars) within the deadline, then call closed once.
     * Inside `closed` the sink still answers `ledger`, with its final counts; it is freed when
     * `closed` returns. */
    void (*close)(struct sink *sink, int64_t deadline_ns, void (*closed)(void *context),
                  void *context);
    void (*ledger)(const struct sink *sink, struct sink_ledger *ledger);
    /* Loop thread. What it is known by at this instant, and before the first put, to go on from
     * that of another. Both NULL: receivers know it by nothing but its address. */
    void (*identity)(const struct sink *sink, struct sink_identity *identity);
    void (*assume)(struct sink *sink, const struct sink_identity *identity);
    /* Loop thread. The frames that are pending, or dropped and told to no reader yet, oldest first;
     * returns how many runs. Another sink gets them before its first put (lost_before), once this
     * one is sure not to deliver them. Both NULL: readers see by themselves what is missing. */
    uint32_t (*undelivered)(const struct sink *sink, struct sink_missing runs[MISSING_RUNS_MAX]);
    void (*lost_before)(struct sink *sink, const struct sink_missing *runs, uint32_t count);
    /* Any thread: what put makes of results before it hands them on, so that a stream whose sinks
     * agree may have it done on the device (result.wire; only in this format). NULL: it needs the
     * floats. */
    struct result_format (*wire)(const struct sink_options *options);
    /* Loop thread. Keeps the mark beside the samples; the frame may be still to come. False: there
     * is no room. NULL: it keeps none. */
    bool (*mark)(struct sink *sink, const struct sink_mark *mark);
    /* Loop thread. Begins to keep what is put from now on, or drops it as `stopped`. `who` gave the
     * command. 0, or ERROR_FULL: there is no room now, and nothing has changed. NULL: it always
     * takes everything. */
    int (*record)(struct sink *sink, bool on, const char *who, struct sink_record_at *at);
    /* Loop thread. Gives up the partition of a cluster whose results it appends, so that another
     * daemon takes it: `worker`, or (NULL) the first of them. *term: the one that ends; 0: it gives
     * nothing up, as *problem says. False: it appends no results of a partition of this name.
     * NULL: it never does. */
    bool (*hand_over)(struct sink *sink, const char *partition, const char *worker, uint64_t *term,
                      struct problem *problem);
    /* Of one that takes results for another daemon to go on with; NULL: it does not. The stream's
     * other sinks get each result before it does, as `number` numbers it for its readers, valid
     * until the next call; NULL: nothing of it. */
    const struct keeper_ops *keeper;
    const struct result *(*number)(struct sink *sink, const struct result *result);
    /* Its readers know each frame by epoch and number, so that one that comes twice does no harm.
     */
    bool numbered;
    /* Loop thread. Of one that logs events (io/event_log.h): analyses have room, have analysed all
     * of it, or have events. NULL: it logs none. */
    void (*analysed)(struct sink *sink);
    /* Loop thread. Lines of its section with which it would begin as commands have set it; NULL: as
     * configured. NULL in the row: commands change nothing. */
    const char *(*saved)(const struct sink *sink);
    /* Loop thread, before close. Not all of the stream's input came (io/source.h); frames as this
     * sink numbers them. NULL: it keeps no note of that. */
    void (*cut)(struct sink *sink, const struct source_cut *cut);
    /* Frames are on their way until `pending` is 0. A run that ends by itself waits for that as
     * long as the reader makes progress (pipeline/run_end.h). */
    bool drains;
    /* What it tells besides the ledger, see io/driver.h; NULL: nothing. read_status fills a
     * structure of status->bytes. */
    const struct driver_status *status;
    void (*read_status)(const struct sink *sink, void *status);
    bool writes; /* a thread of its own writes: pending frames that stay are for the watchdog */
};

/* Lines of `--check` that several sinks have: the bytes of a second and of a day, and what a
 * full-scale code of an integer format is. */
void sink_report_bytes(double bytes_per_second, const char *with, FILE *out);
void sink_report_full_scale(const struct sink_options *options, FILE *out);

/* The table in order; NULL past its end. */
const struct sink_ops *sink_at(int index);

#endif
