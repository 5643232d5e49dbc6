/* The queue of a sink's packets: see rtp_queue.h. */
#include "io/net/rtp_queue.h"

#include <errno.h>
#include <netinet/udp.h>
#include <stdlib.h>
#include <string.h>

#include "core/clock.h"

enum {
    RING_BYTES = 4 << 20,
    SLOTS_MIN = 64,
    SLOTS_MAX = 4096,
    LOG_INTERVAL_S = 30,
    UNREACHABLE_INTERVAL_S = 3600,
};

/* ---- life -------------------------------------------------------------------------------- */

uint64_t rtp_queue_memory(void)
{
    return RING_BYTES + SLOTS_MAX * (sizeof(struct iovec) + sizeof(uint32_t));
}

int rtp_queue_open(struct rtp_queue *q, const char *name, int fd, size_t slot_bytes,
                   struct sink_ledger *ledger, struct problem *problem)
{
    q->name = name;
    q->fd = fd;
    q->ledger = ledger;
    q->segments = true;
    q->slot_bytes = slot_bytes;
    q->slots = SLOTS_MIN;
    while (q->slots < SLOTS_MAX && 2 * q->slots * slot_bytes <= RING_BYTES)
        q->slots *= 2;
    q->buffers = malloc(q->slots * slot_bytes);
    q->vectors = calloc(q->slots, sizeof *q->vectors);
    q->frames = calloc(q->slots, sizeof *q->frames);
    if (q->buffers == NULL || q->vectors == NULL || q->frames == NULL)
        return problem_set(problem, ERROR_MEMORY, "no memory for the packets of a sink");
    for (uint32_t i = 0; i < q->slots; i++)
        q->vectors[i].iov_base = q->buffers + i * slot_bytes;
    return 0;
}

void rtp_queue_close(struct rtp_queue *q)
{
    free(q->buffers);
    free(q->vectors);
    free(q->frames);
}

/* ---- slots ------------------------------------------------------------------------------- */

uint8_t *rtp_queue_slot(struct rtp_queue *q)
{
    return q->buffers + (q->next & (q->slots - 1)) * q->slot_bytes;
}

void rtp_queue_commit(struct rtp_queue *q, size_t bytes, uint32_t frames)
{
    const uint32_t slot = (uint32_t)(q->next++ & (q->slots - 1));
    q->vectors[slot].iov_len = bytes;
    q->frames[slot] = frames;
    q->ledger->pending += frames;
}

/* ---- sending ----------------------------------------------------------------------------- */

static uint32_t oldest(const struct rtp_queue *q)
{
    return (uint32_t)(q->first & (q->slots - 1));
}

static void drop_oldest(struct rtp_queue *q, enum drop reason)
{
    uint32_t frames = q->frames[oldest(q)];
    q->ledger->dropped[reason] += frames;
    q->ledger->pending -= frames;
    q->first++;
}

static void count_sent(struct rtp_queue *q, const struct mmsghdr *message)
{
    for (size_t i = 0; i < message->msg_hdr.msg_iovlen; i++) {
        uint32_t slot = oldest(q), frames = q->frames[slot];
        q->ledger->delivered += frames;
        q->ledger->pending -= frames;
        q->ledger->packets++;
        q->ledger->bytes += q->vectors[slot].iov_len;
        q->first++;
    }
}

/* How many packets from `slot` on can share a message: all of one size, the last may be shorter. */
static uint32_t segments_from(const struct rtp_queue *q, uint32_t slot, uint64_t waiting)
{
    uint32_t most = q->segments ? RTP_QUEUE_SEGMENTS_MAX : 1, count = 0;
    size_t first_bytes = q->vectors[slot].iov_len, bytes = 0;
    while (count < most && count < waiting && slot + count < q->slots) {
        size_t next_bytes = q->vectors[slot + count].iov_len;
        if (next_bytes > first_bytes || (count > 0 && bytes + next_bytes > RTP_QUEUE_MESSAGE_BYTES))
            break;
        bytes += next_bytes;
        count++;
        if (next_bytes < first_bytes)
            break;
    }
    return count;
}

static unsigned make_messages(struct rtp_queue *q)
{
    unsigned count = 0;
    for (uint64_t at = q->first; at != q->next && count < RTP_QUEUE_MESSAGES; count++) {
        uint32_t slot = (uint32_t)(at & (q->slots - 1));
        uint32_t packets = segments_from(q, slot, q->next - at);
        struct msghdr *message = &q->messages[count].msg_hdr;
        *message = (struct msghdr){.msg_iov = &q->vectors[slot], .msg_iovlen = packets};
        if (packets > 1) {
            message->msg_control = &q->controls[count];
            message->msg_controllen = sizeof q->controls[count];
            struct cmsghdr *header = CMSG_FIRSTHDR(message);
            header->cmsg_level = SOL_UDP;
            header->cmsg_type = UDP_SEGMENT;
            header->cmsg_len = CMSG_LEN(sizeof(uint16_t));
            uint16_t bytes = (uint16_t)q->vectors[slot].iov_len;
            memcpy(CMSG_DATA(header), &bytes, sizeof bytes);
        }
        at += packets;
    }
    return count;
}

/* Handles the kernel's refusal of the oldest packet; true when the packet has to wait. */
static bool refused(struct rtp_queue *q, int reason)
{
    bool cut = q->messages[0].msg_hdr.msg_iovlen > 1;
    if (cut && (reason == EIO || reason == EINVAL || reason == EMSGSIZE || reason == EOPNOTSUPP ||
                reason == ENOPROTOOPT)) {
        q->segments = false; /* no checksums in hardware, or a smaller MTU on the route */
        return false;
    }
    switch (reason) {
    case EINTR:
        return false;
    case EAGAIN:
        return true;
    case ECONNREFUSED: /* ICMP of an earlier packet; this one was not sent either */
    case EHOSTUNREACH:
    case EHOSTDOWN:
    case ENETUNREACH:
    case ENETDOWN:
    case ENODEV:
    case EDESTADDRREQ: /* never connected */
    case EPERM:
    case EACCES:
        drop_oldest(q, DROP_UNREACHABLE);
        q->lost_way =
            q->lost_way || (reason != ECONNREFUSED && reason != EPERM && reason != EACCES);
        log_limited(&q->unreachable_limit, UNREACHABLE_INTERVAL_S * NS_PER_SECOND, LOG_LEVEL_NOTICE,
                    "sink %s: %s does not receive: %s", q->name, q->address,
                    reason == ECONNREFUSED   ? "no program listens there"
                    : reason == EDESTADDRREQ ? "the network is not there yet"
                                             : strerror(reason));
        return false;
    default:
        drop_oldest(q, DROP_SOCKET);
        log_limited(&q->size_limit, LOG_INTERVAL_S * NS_PER_SECOND, LOG_LEVEL_WARNING,
                    "sink %s: sending to %s failed: %s%s", q->name, q->address, strerror(reason),
                    reason == EMSGSIZE ? "; the way there takes smaller packets: lower `mtu`" : "");
        return false;
    }
}

bool rtp_queue_send(struct rtp_queue *q)
{
    while (q->first != q->next) {
        int sent = sendmmsg(q->fd, q->messages, make_messages(q), MSG_DONTWAIT | MSG_NOSIGNAL);
        for (int i = 0; i < sent; i++)
            count_sent(q, &q->messages[i]);
        if (sent <= 0 && refused(q, errno))
            return false;
    }
    q->first = q->next = 0;
    return true;
}

void rtp_queue_drop(struct rtp_queue *q, enum drop reason)
{
    while (q->first != q->next)
        drop_oldest(q, reason);
}
