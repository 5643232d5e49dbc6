/*
 * Events of a log: the part of the sink `nats` that has the events of its stream's analyses in LOG,
 * each once and in order (io/event_log.h).
 *
 *     data appended ──► put ──► analyses ──► gather ──► record `analysis` ──► acknowledged: deliver
 *                                        └── now and then: what they hold (the checkpoint)
 *
 * What goes into the analyses is what the log holds, record by record. So events are a function of
 * the log: whoever takes it over reads the newest checkpoint, puts the records of data behind it,
 * and gets the events that its predecessor got. Those that the log has already are passed over by
 * number; their chain must be the log's.
 *
 *     resetting ──► reading ──► replaying ──► live
 *     (idle, as new) (checkpoint, events  (data since)  (the source reads on)
 *                     in the log since)
 *
 * While what the analyses hold is written, no data is appended: it is of that very frame.
 *
 * Loop thread, except nats_events_open. Allocates when a term begins and for a checkpoint.
 */
#ifndef CONVOLVD_IO_NATS_EVENTS_H
#define CONVOLVD_IO_NATS_EVENTS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <uv.h>

#include "io/nats/appender.h"
#include "io/nats/link.h"
#include "io/sink.h"
#include "wire/logged.h"

enum { NATS_EVENTS_PENDING = 8 };

enum nats_events_phase {
    EVENTS_IDLE, /* no term, or no analyses */
    EVENTS_RESETTING,
    EVENTS_READING,
    EVENTS_REPLAYING,
    EVENTS_LIVE,
};

struct nats_events_figures {
    uint64_t events;      /* appended */
    uint64_t checkpoints; /* appended whole */
    uint64_t replayed;  /* events that the log had already, computed again at the begin of a term */
    uint64_t differing; /* times that these were not the log's: another version computed it */
};

/* Of one analysis. */
struct nats_events_of {
    uint64_t number; /* of the event taken last; 0: none was */
    uint32_t chain;
    struct logged_position logged; /* what the log has */
};

struct nats_events {
    /* immutable after open */
    struct event_log_host host; /* count NULL: there are no analyses, and nothing happens */
    const char *name, *partition;
    struct nats_appender *appender;
    uint64_t message_bytes;
    int64_t window_ns;
    void (*ready)(void *context); /* the term may append data */
    void (*again)(void *context); /* there may be room for data */
    void *context;

    struct nats_link *link; /* reads the log when a term begins */
    uv_timer_t timer;
    uv_loop_t *loop;
    bool started, closing;
    void (*closed)(void *context);
    void *closed_context;

    enum nats_events_phase phase;
    uint32_t count, mark_count;
    struct nats_events_of *of;      /* [count] */
    struct input_saturation *marks; /* [mark_count] of the record that is put */

    /* reading, replaying: records [checkpoint, until) */
    uint64_t checkpoint, until, read_from;
    bool untouched; /* nobody has computed anything of it */
    struct nats_event event;
    bool held; /* event.record is still to be put */

    /* the state, as it is read or written */
    uint8_t *state;
    uint32_t state_bytes, state_at, state_sum;
    uint64_t state_sequence; /* the record that it begins with */
    bool saving;             /* it is to be written, and no data appended */
    bool stale;              /* data was put since */
    int64_t saved_ns;        /* monotonic */
    uint32_t saved_bytes;

    /* events on their way */
    uint8_t *batch; /* of a record, message_bytes and what one line may be longer */
    size_t batch_bytes;
    struct nats_events_record {
        uint64_t token;
        uint64_t *lines;                      /* [count] */
    } gathered, pending[NATS_EVENTS_PENDING]; /* oldest at `acknowledged` */
    uint64_t appended, acknowledged;
    struct nats_events_figures figures;
};

/* WORKER. Nothing happens where options->events has no analyses. 0 or an error. */
int nats_events_open(struct nats_events *e, const struct sink_options *options,
                     const struct io_environment *environment, struct problem *problem);
static inline bool nats_events_has(const struct nats_events *e)
{
    return e->host.count != NULL;
}

/* Before the first term. */
void nats_events_start(struct nats_events *e, struct nats_appender *appender);
void nats_events_close(struct nats_events *e, int64_t deadline_ns, void (*closed)(void *context),
                       void *context);

/* A term begins behind `newest` (kind 0: the log is empty): `ready` follows, perhaps from within.
 */
void nats_events_begin(struct nats_events *e, const struct record *newest);
void nats_events_stop(struct nats_events *e);

/* Any thread: marks of inputs near full scale that a record of data may have; 0: there are no
 * analyses. */
uint32_t nats_events_marks(const struct sink_options *options);
/* The marks of a result become those of the output's channels; none without analyses. */
void nats_events_mark(struct nats_events *e, struct result *result);

/* As owner: whether so many frames of data may be appended now. */
bool nats_events_room(struct nats_events *e, uint32_t frames);
/* A record of data was appended. */
void nats_events_put(struct nats_events *e, const struct record *record);
/* Something was acknowledged, or analyses have said something. */
void nats_events_poke(struct nats_events *e);

#endif
