/*
 * Receive stamps: what the kernel says beside a message that recvmmsg returns: when it was received
 * (SO_TIMESTAMPNS), how many datagrams the socket has dropped (SO_RXQ_OVFL) and, of a GRO batch,
 * how long its segments are (UDP_GRO); see socket(7) and udp(7).
 *
 * Pure; any thread. What is missing, cut off or of another kind counts as not said.
 */
#ifndef CONVOLVD_IO_NET_RECEIVE_STAMPS_H
#define CONVOLVD_IO_NET_RECEIVE_STAMPS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/socket.h>
#include <time.h>

/* Room for the control messages of one message. */
union receive_control {
    struct cmsghdr align;
    uint8_t bytes[CMSG_SPACE(sizeof(struct timespec)) + CMSG_SPACE(sizeof(uint32_t)) +
                  CMSG_SPACE(sizeof(int))];
};

struct receive_stamps {
    bool has_time;
    int64_t realtime_ns; /* of the wall clock; of a batch: when it was complete */
    bool has_overflow;
    uint32_t overflow;    /* drops of the socket so far, modulo 2^32 */
    size_t segment_bytes; /* 0: not said, one datagram */
    bool in_batch;        /* the message is longer than one segment */
};

/* Of a message as recvmmsg filled it, `bytes` long. */
struct receive_stamps receive_stamps_read(struct msghdr *message, size_t bytes);

#endif
