/*
 * The queue of a sink's packets: a ring of slots that wait to be sent, and the calls that hand them
 * to the kernel. Packets of one size go in one message, which the kernel cuts into segments after
 * the expensive part of its output path (UDP_SEGMENT); where it cannot, each packet is a message.
 * An empty ring starts again at its first slot, while that is still in the cache.
 *
 * The queue moves frames in the sink's ledger from pending to delivered, or to the drop that the
 * kernel's refusal means: `unreachable` or `socket`.
 *
 * Opened on a worker, then loop thread. Nothing is allocated after open.
 */
#ifndef CONVOLVD_IO_NET_RTP_QUEUE_H
#define CONVOLVD_IO_NET_RTP_QUEUE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/socket.h>

#include "core/error.h"
#include "core/log.h"
#include "io/net/address.h"
#include "io/sink.h"

enum {
    RTP_QUEUE_MESSAGES = 64,         /* of one call of sendmmsg */
    RTP_QUEUE_MESSAGE_BYTES = 65000, /* below what one UDP datagram can carry */
    RTP_QUEUE_SEGMENTS_MAX = 64,     /* of a message: UDP_MAX_SEGMENTS of the older kernels */
};

union rtp_queue_control {
    struct cmsghdr align;
    uint8_t bytes[CMSG_SPACE(sizeof(uint16_t))];
};

struct rtp_queue {
    const char *name; /* of the sink, for messages */
    char address[ADDRESS_TEXT];
    int fd;
    bool lost_way; /* the interface or the route is gone: to be connected once more */
    struct sink_ledger *ledger;

    /* the ring: slots [first, next) wait to be sent */
    uint32_t slots; /* a power of two */
    uint64_t first, next;
    size_t slot_bytes;
    uint8_t *buffers;      /* [slots][slot_bytes] */
    struct iovec *vectors; /* [slots] */
    uint32_t *frames;      /* [slots] */

    /* the messages of one call */
    bool segments; /* the kernel cuts messages into segments */
    struct mmsghdr messages[RTP_QUEUE_MESSAGES];
    union rtp_queue_control controls[RTP_QUEUE_MESSAGES];

    struct log_limit unreachable_limit, size_limit;
};

/* WORKER. `slot_bytes`: of the largest packet. 0 or ERROR_MEMORY. The queue keeps the pointers. */
int rtp_queue_open(struct rtp_queue *queue, const char *name, int fd, size_t slot_bytes,
                   struct sink_ledger *ledger, struct problem *problem);
/* The most that a queue takes [bytes]. */
uint64_t rtp_queue_memory(void);
/* Frees the ring; the socket stays the caller's. A queue that never opened is fine. */
void rtp_queue_close(struct rtp_queue *queue);

static inline uint64_t rtp_queue_waiting(const struct rtp_queue *queue)
{
    return queue->next - queue->first;
}

static inline bool rtp_queue_is_full(const struct rtp_queue *queue)
{
    return rtp_queue_waiting(queue) == queue->slots;
}

/* The next free slot, [slot_bytes]; the queue is not full. */
uint8_t *rtp_queue_slot(struct rtp_queue *queue);
/* The slot holds a packet of so many bytes and frames, which are pending from now on. */
void rtp_queue_commit(struct rtp_queue *queue, size_t bytes, uint32_t frames);
/* Hands packets to the kernel. False: it takes no more now, and the rest has to wait. */
bool rtp_queue_send(struct rtp_queue *queue);
/* Drops all that waits, under this name. */
void rtp_queue_drop(struct rtp_queue *queue, enum drop reason);

#endif
