/*
 * Receiver: reads datagrams from one bound socket on the loop and delivers them to a handler. It
 * calls recvmmsg on a uv_poll_t into buffers made once, passes on the kernel's receive times and
 * its count of drops, and caps the work of one wake-up, so that a flood cannot starve the other
 * streams, those of higher priority least of all.
 *
 * It reads in one of two ways (io/receive_path.h): datagram by datagram, each payload received
 * straight into the slot where the handler predicts it to belong, or in GRO batches, which it cuts
 * into their segments. `requested` forces one, or lets the receiver measure both
 * (receive_trial.h).
 *
 * open and close run on any thread before start and after the loop has closed it; everything else
 * on the loop thread. Nothing is allocated per datagram.
 */
#ifndef CONVOLVD_IO_NET_RECEIVER_H
#define CONVOLVD_IO_NET_RECEIVER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/socket.h>
#include <uv.h>

#include "core/codec.h"
#include "core/error.h"
#include "io/receive_path.h"

/* One datagram; everything is valid during the call only. */
struct received {
    const uint8_t *data;
    size_t bytes;
    const uint8_t
        *payload;   /* after a hit: in its slot, and `data` holds only the header; or NULL */
    bool truncated; /* it was longer than the buffer */
    const struct sockaddr_storage *from;
    int64_t receive_ns; /* monotonic, when it reached the kernel */
    int64_t receive_realtime_ns;
    /* What follows it in its GRO batch, whose last datagram the times above belong to. */
    uint32_t behind_datagrams;
    size_t behind_bytes;
    bool in_batch; /* it is one of several datagrams of a GRO batch */
};

/* Where the payload of a coming datagram is predicted to belong. */
struct receive_prediction {
    size_t header_bytes; /* before the payload */
    uint8_t *payload;    /* its slot */
    size_t payload_bytes;
};

struct handover;

struct receiver_options {
    const char *stream; /* for messages */
    int fd;             /* owned from here on, also when open fails; closed with handover_release */
    struct handover *handover; /* may be NULL */
    /* Datagrams; 0: 256. What one system call has read is delivered to its end, so a GRO batch may
     * exceed this. */
    uint32_t work_per_wake;
    enum receive_path requested;
    void *context;
    void (*datagram)(void *context, const struct received *received);
    /* The socket dropped so many more, just before the next datagram. */
    void (*drops)(void *context, uint64_t datagrams);
    /* As `drops`, but some may have been whole GRO batches. NULL: never use UDP_GRO. */
    void (*batch_drops)(void *context, uint64_t batches);
    /* Predicts the next datagrams, at most `most`; returns how many. May be NULL, as `hit`. */
    unsigned (*predict)(void *context, struct receive_prediction *predictions, unsigned most);
    /*
     * Whether this datagram is the one that prediction `number` of the call meant. Called in order
     * until the first miss. received->data holds prediction->header_bytes of it, and room behind
     * them.
     */
    bool (*hit)(void *context, const struct receive_prediction *prediction, unsigned number,
                const struct received *received);
    /* As source_host's, with `turn` for their context: one wake-up reads no longer than that, but a
     * few datagrams at least. May be NULL. */
    void *turn;
    int64_t (*may_read_ns)(void *turn);
    void (*has_read)(void *turn, int64_t ns);
};

struct receiver;

int receiver_open(const struct receiver_options *options, struct receiver **out,
                  struct problem *problem);
/* The most datagrams of one wake-up from now on; 0: the default. */
void receiver_set_work(struct receiver *receiver, uint32_t work_per_wake);
/* The buffers of a receiver [bytes]. */
uint64_t receiver_memory(void);

/* Begins to watch the socket without reading it: what start may be refused. Twice is fine. */
int receiver_arm(struct receiver *receiver, uv_loop_t *loop, struct problem *problem);
int receiver_start(struct receiver *receiver, uv_loop_t *loop, struct problem *problem);
/* Reads up to `most` datagrams that the kernel already has; the rest of a GRO batch follows with
 * the next call. Returns how many it delivered. */
unsigned receiver_read_more(struct receiver *receiver, uint32_t most);
void receiver_stop(struct receiver *receiver); /* no call of the handler after this returns */
/* Frees it; `closed` is called once, from the loop when the receiver was ever started. */
void receiver_close(struct receiver *receiver, void (*closed)(void *context), void *context);

/* Datagrams that the socket dropped after the last one delivered, so that no `drops` call has
 * reported them. Those that another receiver of the socket reports are not among them. */
uint64_t receiver_unreported_drops(const struct receiver *receiver);

/* Writes which socket it is and how many of its drops are counted, or takes over the count of the
 * receiver that read the same socket before, in this process or another. NULL is fine: a source
 * that waits for its network. Before receiver_start. */
void receiver_walk(struct receiver *receiver, struct codec *codec);

void receiver_figures(const struct receiver *receiver, struct receive_figures *figures);

/* Steps of the wall clock seen. */
uint64_t receiver_clock_steps(const struct receiver *receiver);
uint16_t receiver_port(const struct receiver *receiver);

#endif
