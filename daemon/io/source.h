/*
 * The source interface: a protocol or file that yields packets to one stream. One file a
 * protocol; adding one is a file and a row in the table of io/sources.c. A source runs on
 * the loop thread (slow files have a reader thread of their own and hand over by SPSC).
 *
 * Call order: open (worker thread: resolve, bind, allocate) → start (loop) → [stop (loop)] →
 * close (loop; asynchronous uv closes finish before `closed` is called).
 */
#ifndef CONVOLVD_IO_SOURCE_H
#define CONVOLVD_IO_SOURCE_H

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <uv.h>

#include "cluster/term.h"
#include "core/codec.h"
#include "core/digest.h"
#include "core/error.h"
#include "core/event.h"
#include "io/check.h"
#include "io/driver.h"
#include "io/environment.h"
#include "io/excitation.h"
#include "io/receive_path.h"
#include "wire/format.h"
#include "stream/packet.h"

/* Why a datagram was not accepted; the ledger "datagrams read = accepted + each of these + held"
 * holds at every instant. */
#define REJECT_TABLE(X)                                                                            \
    X(MALFORMED, "malformed") /* not what the protocol says a packet is */                         \
    X(VERSION, "version")     /* RTP version other than 2 */                                       \
    X(PAYLOAD_TYPE, "payload type")                                                                \
    X(EMPTY, "empty")           /* a heartbeat, or what reports an epoch's end: no loss */         \
    X(SIZE, "size")             /* payload is not a whole number of frames */                      \
    X(CHANNELS, "channels")     /* time stamps count other frames than its payloads hold */        \
    X(SSRC, "ssrc")             /* another sender than the learnt or pinned one */                 \
    X(SOURCE, "source")         /* another port of the host that is followed */                    \
    X(ADDRESS, "address")       /* not from the allowed or learnt address */                       \
    X(PROBATION, "probation")   /* a source not yet proven (RFC 3550 A.1) */                       \
    X(JUMP, "unconfirmed jump") /* a jump that the next packet did not confirm */                  \
    X(TRUNCATED, "truncated")   /* longer than the receive buffer */                               \
    X(DUPLICATE, "duplicate")                                                                      \
    X(LATE, "late")                                                                                \
    X(OUT_OF_WINDOW, "out of window")                                                              \
    X(REFUSED, "refused")                                                                          \
    X(NOT_ALLOWED, "not allowed") /* `allow` does not list its sender */                           \
    X(AUTH, "auth")               /* no tag of `key`, or one of another packet */                  \
    X(REPLAY, "replay")           /* an authentic datagram that was taken before */                \
    X(RATE, "rate limit")         /* more than `packet limit` or `byte limit` from one address */

enum reject {
#define X(name, text) REJECT_##name,
    REJECT_TABLE(X)
#undef X
        REJECTS,
};

const char *reject_name(enum reject reject);

struct source_ledger {
    uint64_t datagrams; /* read from the socket (files: chunks) */
    uint64_t accepted;
    uint64_t held; /* at this instant: waiting for confirmation */
    uint64_t rejected[REJECTS];
    uint64_t kernel_drops; /* SO_RXQ_OVFL, stands apart; with UDP_GRO it counts GRO batches */
    uint64_t senders;      /* SSRC changes accepted */
    uint32_t ssrc;         /* RTP: the sender followed */
    uint64_t buffer_bytes; /* receive buffer as granted (the kernel reports twice this) */
    uint64_t clock_steps;  /* steps of the wall clock seen in receive times */
    bool loss_detectable;
    struct receive_figures receive; /* network sources */
};

/* Counts what the host answered to one packet: accepted, or the reject of that verdict. */
void source_ledger_count(struct source_ledger *ledger, enum verdict verdict);

enum { SOURCE_SENTENCE_BYTES = 480, SOURCE_MARK_BYTES = 404 };

/* A source's input proved to be shorter than it announces, or damaged. */
struct source_cut {
    uint64_t first, until; /* frames missing behind the newest one put: [first, until); equal where
                              their number is not known, or where the input begins again */
    uint64_t missing;      /* frames, at least 1 */
    char sentence[SOURCE_SENTENCE_BYTES];
};

/* What somebody noted while the input was recorded. */
struct source_mark {
    uint64_t frame;
    int64_t realtime_ns;
    char text[SOURCE_MARK_BYTES], who[EVENT_WHO_BYTES];
};

/* What a source may know of the stream's plan. */
struct source_plan {
    struct term_plan shape;
    char pinned[512];          /* what results depend on to the last bit, beside the filters */
    char filters[DIGEST_TEXT]; /* digest of the filters */
};

/* What a source may call: implemented by the stream's owner, loop thread. */
struct source_host {
    void *context;
    /* Every packet goes here; the payload is copied before it returns. One without frames ends the
     * epoch (stream_end_at). */
    enum verdict (*put)(void *context, const struct packet *packet);
    /* Frames that can be put now without losing any (back-pressure for files). */
    uint64_t (*room)(void *context);
    /* Where in the ring a source may receive a payload; may be NULL. See stream_vacant. */
    uint8_t *(*vacant)(void *context, uint64_t first_frame, uint64_t *frames);
    /* The source has come to its end (file played once): the stream flushes its tail. */
    void (*ended)(void *context);
    /* The socket dropped `datagrams` more (SO_RXQ_OVFL advanced), just before the next put. */
    void (*socket_drops)(void *context, uint64_t datagrams);
    /* Frames that are missing before the next put for a reason the source knows, see stream_lost.
     */
    void (*lost)(void *context, uint64_t frames, enum invalid_cause cause);
    /* The sender never sent frames [from, until), numbered as packets are, see stream_unsent. May
     * be NULL. */
    void (*unsent)(void *context, uint64_t from, uint64_t until);
    /* Not all of the input came; reported once in the log by the source. May be NULL. */
    void (*cut)(void *context, const struct source_cut *cut);
    /* A mark of the recording, before the packet that holds its frame. May be NULL. */
    void (*mark)(void *context, const struct source_mark *mark);
    /* How long the source may read now before others of higher priority, or all where its sender is
     * ahead of its rate, have their turn [ns], and that it has read for so long. Both NULL: any
     * time. */
    int64_t (*may_read_ns)(void *context);
    void (*has_read)(void *context, int64_t ns);
    /* Number of the stream's epoch that the newest packet lies in. */
    uint64_t (*epoch)(void *context);
    void (*plan)(void *context, struct source_plan *plan);
};

enum source_mode {
    MODE_CONTINUOUS, /* one endless signal */
    MODE_RECORD,     /* the records of a transient recorder */
    MODE_DIRECT,     /* a sound card convolves in its own callback */
};

/* What the stream must know of its source. The driver's own options stand behind `own`; its check
 * sets what concerns the stream here. Strings outlive the source. */
struct source_options {
    const char *stream; /* the stream's name, for messages */
    double rate_hz;
    uint32_t channels;
    struct sample_format format;
    uint32_t frame_bytes;
    const struct channel_scale *scales; /* [channels]; NULL: full scale is 1 */
    enum source_mode mode;
    int64_t reorder_ns;           /* reorder window; 0: nothing is awaited */
    int64_t max_gap_ns;           /* the longest loss that is filled; 0: the source loses nothing */
    bool paced;                   /* not live, but in real time */
    uint64_t frames;              /* that the input holds once; 0: not known, or it has no end */
    struct excitation excitation; /* of the signal; a driver's check sets it where it sends one */
    void *own; /* the driver's struct, source_ops.options_bytes; NULL: it has none */
};

struct source;

/* What a source brings of its own. */
struct source_facts {
    double rate_hz;
    uint32_t channels;
    struct sample_format format;
    uint64_t frames; /* UINT64_MAX: not known */
    /* [channels] of malloc, the caller's: what the samples are worth, where the file says it.
     * NULL: the configuration does. */
    struct channel_scale *scales;
};

struct source_ops {
    const char *name;     /* the config's `source = NAME` */
    const char *sentence; /* what it is, in a few words of the manual */
    bool live;            /* samples come whether we are ready or not */
    bool loss_detectable;
    const char *loss;   /* what `--check` says of losses */
    const char *format; /* the default; NULL: the source brings rate, channels and format (probe) */
    bool exact;         /* blocks are computed whole, whenever their frames come: no idle flush */
    bool converter;     /* its floats have a full scale of 1, at which a converter saturates */
    bool padded;        /* `bits` and `justify` say how samples lie in their words */
    bool osc_server;    /* needs the OSC server */
    bool shared;        /* several daemons compute such a stream, one at a time: they must be
                           configured alike */
    /* What of the main loop's it uses; NULL: it shares nothing with other streams but what any
     * thread may use, so that its stream may run on another loop (pipeline/loops.h). */
    const char *main_loop;

    /* The options of its own, all of one structure that starts zeroed. */
    const struct option_row *options;
    unsigned option_count;
    size_t options_bytes;
    /* Rate, channels and format of what `own` names, without opening it for good. NULL unless
     * `format` is NULL. */
    int (*probe)(const struct source_options *options, struct source_facts *facts,
                 struct problem *problem);
    /* Holds the options against each other and against rate, channels, format and scales; sets
     * mode, reorder_ns, max_gap_ns and paced. 0, or ERROR_CONFIG when the stream cannot be built
     * with them (reported). NULL: there is nothing to check. */
    int (*check)(const struct option_check *check, const struct daemon_facts *facts,
                 struct source_options *options);
    /* The row that takes this one's place with these options, checked; it has the same options.
     * NULL: none ever does. */
    const struct source_ops *(*instead)(const struct source_options *options);
    /* Holds source number `self` against all other sections, after the same of all sinks. NULL:
     * any may stand beside it. */
    void (*check_all)(const struct driver_sections *all, uint32_t self);
    /* What `--check` says behind the source's name: " on 239.1.2.3:5004". Returns `text`. */
    const char *(*describe)(const struct source_options *options, char *text, size_t bytes);
    /* Further lines of `--check`; NULL: none. */
    void (*report)(const struct source_options *options, FILE *out);
    /* Lines of `--check` on what the first `settling` output frames of each epoch or record cost,
     * which no filter can fill (S-1); NULL: none. */
    void (*report_settling)(const struct source_options *options, uint64_t settling, FILE *out);
    /* Any thread: the most that it holds in buffers [bytes]; NULL: next to nothing. */
    uint64_t (*memory)(const struct source_options *options);

    int (*open)(const struct source_options *options, const struct io_environment *environment,
                const struct source_host *host, struct source **out, struct problem *problem);
    /* Loop thread, before start and, where the source replaces another one, before that one stops:
     * takes what start needs and the system may refuse. Reads nothing yet. NULL: nothing can be
     * refused. A source that is armed may be closed without having been started. */
    int (*arm)(struct source *source, struct problem *problem);
    int (*start)(struct source *source, struct problem *problem);
    /* Loop thread: takes the options whose rows say `running` from a set that differs in nothing
     * else; copies what it keeps. NULL: no row does. */
    void (*change)(struct source *source, const struct source_options *options);
    /* The ring has room again (files and generators waiting under back-pressure). May be NULL. */
    void (*resume)(struct source *source);
    /* No put after this returns. */
    void (*stop)(struct source *source);
    /* Its last ledger is read before; the source is gone when `closed` is called. */
    void (*close)(struct source *source, void (*closed)(void *context), void *context);
    void (*ledger)(const struct source *source, struct source_ledger *ledger);
    /* Loop thread: what a source of the same options goes on from in this one's place, which its
     * datagrams or bytes reach from then on: numbers, sender, ledger; see core/codec.h. Written
     * after stop, read before start. NULL: another source begins anew. */
    void (*walk)(struct source *source, struct codec *codec);
    /* Place, for the tests: a file descriptor's port, e.g. when bound to port 0; 0 when it has
     * none. */
    uint16_t (*port)(const struct source *source);
    /* What it offers besides, see io/driver.h; each may be NULL. read_status fills a structure of
     * status->bytes. */
    const struct driver_status *status;
    void (*read_status)(const struct source *source, void *status);
    const struct driver_direct *direct;
    const struct driver_loopback *loopback;
    /* Loop thread. Of a source that comes to its end by itself: the frames that it has put, and how
     * many there are in all. False: this one has no end that is known. NULL: none ever has. */
    bool (*progress)(const struct source *source, uint64_t *done, uint64_t *all);
    /* Loop thread. Whether a thread of its own has something to do, and how much it has done: for
     * the watchdog. NULL: there is none. */
    bool (*working)(const struct source *source, uint64_t *done);
};

/* By name; NULL when unknown. source_at(i): the table in order, NULL past the end. */
const struct source_ops *source_find(const char *name);
const struct source_ops *source_at(int index);

#endif
