/*
 * Receive stamps: see receive_stamps.h.
 */
#include "io/net/receive_stamps.h"

#include <netinet/udp.h>
#include <string.h>

#include "core/clock.h"

struct receive_stamps receive_stamps_read(struct msghdr *message, size_t bytes)
{
    struct receive_stamps stamps = {0};
    for (struct cmsghdr *c = CMSG_FIRSTHDR(message); c != NULL; c = CMSG_NXTHDR(message, c)) {
        if (c->cmsg_level == SOL_UDP && c->cmsg_type == UDP_GRO &&
            c->cmsg_len >= CMSG_LEN(sizeof(int))) {
            int segment;
            memcpy(&segment, CMSG_DATA(c), sizeof segment);
            stamps.segment_bytes = segment > 0 ? (size_t)segment : 0;
        }
        if (c->cmsg_level != SOL_SOCKET)
            continue;
        if (c->cmsg_type == SCM_TIMESTAMPNS && c->cmsg_len >= CMSG_LEN(sizeof(struct timespec))) {
            struct timespec time;
            memcpy(&time, CMSG_DATA(c), sizeof time);
            stamps.has_time = true;
            stamps.realtime_ns = (int64_t)time.tv_sec * NS_PER_SECOND + time.tv_nsec;
        } else if (c->cmsg_type == SO_RXQ_OVFL && c->cmsg_len >= CMSG_LEN(sizeof(uint32_t))) {
            stamps.has_overflow = true;
            memcpy(&stamps.overflow, CMSG_DATA(c), sizeof stamps.overflow);
        }
    }
    stamps.in_batch = stamps.segment_bytes > 0 && bytes > stamps.segment_bytes;
    return stamps;
}
