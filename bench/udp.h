/*
 * UDP: the loopback sockets of the programs that the daemon is compared with, and of the bench's
 * own sender and receiver. Datagrams one by one (recvmmsg, sendmmsg), or with segmentation offload:
 * the kernel joins them into GRO batches (UDP_GRO) and cuts what is sent (UDP_SEGMENT). 127.0.0.1
 * only; an object belongs to one thread.
 */
#ifndef CONVOLVD_BENCH_UDP_H
#define CONVOLVD_BENCH_UDP_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/socket.h>
#include <sys/uio.h>

enum {
    UDP_BUFFER_BYTES = 16 << 20, /* asked for, of every socket */
    UDP_BATCH_SEGMENTS = 44,     /* of 1460 bytes and less: below what one UDP datagram holds */
};

/* A blocking socket; `listen`: bound to the port, with kernel receive times; else connected to it.
 * -1: errno says why. */
int udp_socket(uint16_t port, bool listen, bool offload);

struct udp_reader;

/* NULL: no memory. The reader does not own the socket. */
struct udp_reader *udp_reader_open(int fd, bool offload);
void udp_reader_close(struct udp_reader *reader);

/* Waits for at least one message (or a signal, or SO_RCVTIMEO); `take` gets each datagram,
 * receive_ns being realtime. Returns how many there were. */
unsigned udp_read(struct udp_reader *reader,
                  void (*take)(void *context, const uint8_t *datagram, size_t bytes,
                               int64_t receive_ns),
                  void *context);

/*
 * Sends datagrams that lie in `vectors`, `pieces` of them a datagram. With `offload` one call takes
 * several of one size, of which the last may be shorter. Waits for the kernel; returns false when
 * it refuses.
 */
bool udp_send(int fd, struct iovec *vectors, unsigned datagrams, unsigned pieces, bool offload);

#endif
