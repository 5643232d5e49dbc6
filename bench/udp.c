/* UDP: see udp.h. */
#include "bench/udp.h"

#include <errno.h>
#include <netinet/in.h>
#include <netinet/udp.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "core/clock.h"

enum {
    MESSAGES = 64,
    SINGLE_BYTES = 2048,
    BATCH_BYTES = 65536,
    BATCH_MESSAGES = 8, /* a call: their buffers stay in the cache */
};

union control {
    struct cmsghdr align;
    uint8_t bytes[CMSG_SPACE(sizeof(struct timespec)) + CMSG_SPACE(sizeof(int))];
};

struct udp_reader {
    int fd;
    unsigned messages;
    size_t slot_bytes;
    uint8_t *slots;
    struct mmsghdr headers[MESSAGES];
    struct iovec vectors[MESSAGES];
    union control controls[MESSAGES];
};

int udp_socket(uint16_t port, bool listen, bool offload)
{
    const struct sockaddr_in address = {
        .sin_family = AF_INET, .sin_port = htons(port), .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    const struct sockaddr *name = (const struct sockaddr *)&address;
    const int one = 1, buffer = UDP_BUFFER_BYTES;
    const int fd = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);
    if (fd < 0)
        return -1;
    const int force = listen ? SO_RCVBUFFORCE : SO_SNDBUFFORCE;
    if (setsockopt(fd, SOL_SOCKET, force, &buffer, sizeof buffer) != 0)
        setsockopt(fd, SOL_SOCKET, listen ? SO_RCVBUF : SO_SNDBUF, &buffer, sizeof buffer);
    if (listen)
        setsockopt(fd, SOL_SOCKET, SO_TIMESTAMPNS, &one, sizeof one);
    if ((listen && offload && setsockopt(fd, SOL_UDP, UDP_GRO, &one, sizeof one) != 0) ||
        (listen ? bind(fd, name, sizeof address) : connect(fd, name, sizeof address)) != 0) {
        close(fd);
        return -1;
    }
    return fd;
}

/* ---- reading ----------------------------------------------------------------------------- */

struct udp_reader *udp_reader_open(int fd, bool offload)
{
    struct udp_reader *reader = calloc(1, sizeof *reader);
    if (reader == NULL)
        return NULL;
    reader->fd = fd;
    reader->messages = offload ? BATCH_MESSAGES : MESSAGES;
    reader->slot_bytes = offload ? BATCH_BYTES : SINGLE_BYTES;
    reader->slots = malloc(reader->messages * reader->slot_bytes);
    if (reader->slots == NULL) {
        free(reader);
        return NULL;
    }
    for (unsigned i = 0; i < reader->messages; i++) {
        reader->vectors[i] =
            (struct iovec){reader->slots + i * reader->slot_bytes, reader->slot_bytes};
        reader->headers[i].msg_hdr = (struct msghdr){.msg_iov = &reader->vectors[i],
                                                     .msg_iovlen = 1,
                                                     .msg_control = reader->controls[i].bytes};
    }
    return reader;
}

void udp_reader_close(struct udp_reader *reader)
{
    if (reader == NULL)
        return;
    free(reader->slots);
    free(reader);
}

static int64_t read_control(struct msghdr *message, size_t *piece_bytes)
{
    int64_t receive_ns = 0;
    for (struct cmsghdr *c = CMSG_FIRSTHDR(message); c != NULL; c = CMSG_NXTHDR(message, c)) {
        if (c->cmsg_level == SOL_SOCKET && c->cmsg_type == SCM_TIMESTAMPNS) {
            struct timespec stamp;
            memcpy(&stamp, CMSG_DATA(c), sizeof stamp);
            receive_ns = stamp.tv_sec * NS_PER_SECOND + stamp.tv_nsec;
        } else if (c->cmsg_level == SOL_UDP && c->cmsg_type == UDP_GRO) {
            int bytes;
            memcpy(&bytes, CMSG_DATA(c), sizeof bytes);
            *piece_bytes = (size_t)bytes;
        }
    }
    return receive_ns != 0 ? receive_ns : clock_realtime_ns();
}

unsigned udp_read(struct udp_reader *reader,
                  void (*take)(void *context, const uint8_t *datagram, size_t bytes,
                               int64_t receive_ns),
                  void *context)
{
    for (unsigned i = 0; i < reader->messages; i++)
        reader->headers[i].msg_hdr.msg_controllen = sizeof reader->controls[i];
    const int count = recvmmsg(reader->fd, reader->headers, reader->messages, MSG_WAITFORONE, NULL);
    unsigned datagrams = 0;
    for (int i = 0; i < count; i++) {
        uint8_t *data = reader->vectors[i].iov_base;
        size_t left = reader->headers[i].msg_len, piece_bytes = left;
        const int64_t receive_ns = read_control(&reader->headers[i].msg_hdr, &piece_bytes);
        for (; left > 0; datagrams++) {
            const size_t bytes = left < piece_bytes ? left : piece_bytes;
            take(context, data, bytes, receive_ns);
            data += bytes;
            left -= bytes;
        }
    }
    return datagrams;
}

/* ---- sending ----------------------------------------------------------------------------- */

static size_t bytes_of(const struct iovec *vectors, unsigned pieces)
{
    size_t bytes = 0;
    for (unsigned i = 0; i < pieces; i++)
        bytes += vectors[i].iov_len;
    return bytes;
}

/* How many datagrams make one message. */
static unsigned segments_of(const struct iovec *vectors, unsigned datagrams, unsigned pieces)
{
    const size_t size = bytes_of(vectors, pieces);
    unsigned count = 1;
    while (count < datagrams && count < UDP_BATCH_SEGMENTS) {
        const size_t next = bytes_of(vectors + count * pieces, pieces);
        if (next > size)
            break;
        count++;
        if (next < size)
            break;
    }
    return count;
}

bool udp_send(int fd, struct iovec *vectors, unsigned datagrams, unsigned pieces, bool offload)
{
    struct mmsghdr headers[MESSAGES];
    union control controls[MESSAGES];
    unsigned counts[MESSAGES] = {0};
    while (datagrams > 0) {
        unsigned messages = 0, taken = 0;
        for (; messages < MESSAGES && taken < datagrams; messages++) {
            struct iovec *first = vectors + (size_t)taken * pieces;
            counts[messages] = offload ? segments_of(first, datagrams - taken, pieces) : 1;
            struct msghdr *message = &headers[messages].msg_hdr;
            *message =
                (struct msghdr){.msg_iov = first, .msg_iovlen = (size_t)counts[messages] * pieces};
            if (counts[messages] > 1) {
                const uint16_t bytes = (uint16_t)bytes_of(first, pieces);
                message->msg_control = controls[messages].bytes;
                message->msg_controllen = CMSG_SPACE(sizeof bytes);
                struct cmsghdr *header = CMSG_FIRSTHDR(message);
                header->cmsg_level = SOL_UDP;
                header->cmsg_type = UDP_SEGMENT;
                header->cmsg_len = CMSG_LEN(sizeof bytes);
                memcpy(CMSG_DATA(header), &bytes, sizeof bytes);
            }
            taken += counts[messages];
        }
        const int sent = sendmmsg(fd, headers, messages, 0);
        if (sent < 0 && errno != ENOBUFS && errno != EINTR && errno != ECONNREFUSED)
            return false;
        for (int i = 0; i < sent; i++) {
            vectors += (size_t)counts[i] * pieces;
            datagrams -= counts[i];
        }
        if (sent < 0 && errno == EINTR)
            return false;
    }
    return true;
}
