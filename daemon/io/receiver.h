/*
 * Receiver: datagrams from one bound socket to a handler, on the loop. recvmmsg on a uv_poll_t
 * into buffers made once, kernel receive times, the kernel's count of drops, and a cap on the
 * work of one wake-up, so that a flood cannot starve the other streams.
 *
 * open and close on any thread before start and after the loop has closed it; all else on the
 * loop thread. Nothing is allocated per datagram.
 */
#ifndef CONVOLVD_IO_RECEIVER_H
#define CONVOLVD_IO_RECEIVER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/socket.h>
#include <uv.h>

#include "core/error.h"

/* One datagram; everything is valid during the call only. */
struct received {
    const uint8_t *data;
    size_t bytes;
    bool truncated;               /* it was longer than the buffer */
    const struct sockaddr_storage *from;
    int64_t receive_ns;           /* monotonic, when the kernel took it */
    int64_t receive_realtime_ns;
};

struct receiver_options {
    const char *stream;           /* for messages */
    int fd;                       /* taken over, also when open fails */
    uint32_t work_per_wake;       /* datagrams; 0: 256 */
    void *context;
    void (*datagram)(void *context, const struct received *received);
    /* The socket dropped so many more, just before the next datagram. */
    void (*drops)(void *context, uint64_t datagrams);
};

struct receiver;

int receiver_open(const struct receiver_options *options, struct receiver **out,
                  struct problem *problem);
int receiver_start(struct receiver *receiver, uv_loop_t *loop, struct problem *problem);
/* Reads up to `most` that the kernel already has. Returns the datagrams handed over, 0: none. */
unsigned receiver_read_more(struct receiver *receiver, uint32_t most);
void receiver_stop(struct receiver *receiver); /* no call of the handler after this returns */
/* Frees it; `closed` is called once, from the loop when the receiver was ever started. */
void receiver_close(struct receiver *receiver, void (*closed)(void *context), void *context);

/* Datagrams the socket has dropped since the last one that was handed over: no later datagram
 * has told of them yet. */
uint64_t receiver_untold_drops(const struct receiver *receiver);

/* Steps of the wall clock seen. */
uint64_t receiver_clock_steps(const struct receiver *receiver);
uint16_t receiver_port(const struct receiver *receiver);

#endif
