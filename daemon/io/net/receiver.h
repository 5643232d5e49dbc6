/*
 * Receiver: datagrams from one bound socket to a handler, on the loop. recvmmsg on a uv_poll_t
 * into buffers made once, kernel receive times, the kernel's count of drops, and a cap on the
 * work of one wake-up, so that a flood cannot starve the other streams.
 *
 * Two ways to read (receive_path.h): datagram by datagram, each payload received where the handler
 * guesses that it belongs, or in trains (UDP_GRO), cut here. `wish` forces one or lets the
 * receiver measure both.
 *
 * open and close on any thread before start and after the loop has closed it; all else on the
 * loop thread. Nothing is allocated per datagram.
 */
#ifndef CONVOLVD_IO_NET_RECEIVER_H
#define CONVOLVD_IO_NET_RECEIVER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/socket.h>
#include <uv.h>

#include "core/error.h"
#include "io/source.h"

/* One datagram; everything is valid during the call only. */
struct received {
    const uint8_t *data;
    size_t bytes;
    const uint8_t *payload; /* of a guess that came true: `data` holds only what is before it */
    bool truncated;         /* it was longer than the buffer */
    const struct sockaddr_storage *from;
    int64_t receive_ns; /* monotonic, when the kernel took it */
    int64_t receive_realtime_ns;
    /* What is behind it in its train: the times above are the last one's. */
    uint32_t train_datagrams;
    size_t train_bytes;
    bool in_train; /* it came with others, before or behind it */
};

/* Where the payload of a datagram to come probably belongs. */
struct receive_guess {
    size_t header_bytes;
    uint8_t *payload;
    size_t payload_bytes;
};

struct handover;

struct receiver_options {
    const char *stream;        /* for messages */
    int fd;                    /* taken over, also when open fails; closed with handover_release */
    struct handover *handover; /* may be NULL */
    /* Datagrams; 0: 256. What one system call has read is handed over to its end: a train may reach
     * beyond it. */
    uint32_t work_per_wake;
    enum receive_path wish;
    void *context;
    void (*datagram)(void *context, const struct received *received);
    /* The socket dropped so many more, just before the next datagram. */
    void (*drops)(void *context, uint64_t datagrams);
    /* As `drops`, but they may have been trains. Needed unless `wish` is RECEIVE_RECVMMSG. */
    void (*train_drops)(void *context, uint64_t trains);
    /* May be NULL, both. Guesses for the next datagrams, at most `most`; returns how many. */
    unsigned (*guess)(void *context, struct receive_guess *guesses, unsigned most);
    /*
     * Whether this datagram is the one meant by guess `number`; asked in order, until the first
     * "no". received->data holds guess->header_bytes of it, and room behind them.
     */
    bool (*came_true)(void *context, const struct receive_guess *guess, unsigned number,
                      const struct received *received);
};

struct receiver;

int receiver_open(const struct receiver_options *options, struct receiver **out,
                  struct problem *problem);
int receiver_start(struct receiver *receiver, uv_loop_t *loop, struct problem *problem);
/* Reads up to `most` that the kernel already has, of a train too: the rest of it comes with the
 * next call. Returns the datagrams handed over, 0: none. */
unsigned receiver_read_more(struct receiver *receiver, uint32_t most);
void receiver_stop(struct receiver *receiver); /* no call of the handler after this returns */
/* Frees it; `closed` is called once, from the loop when the receiver was ever started. */
void receiver_close(struct receiver *receiver, void (*closed)(void *context), void *context);

/* Datagrams the socket has dropped since the last one that was handed over: no later datagram
 * has told of them yet. */
uint64_t receiver_untold_drops(const struct receiver *receiver);

/* How the socket is read, and what that costs. */
void receiver_figures(const struct receiver *receiver, struct receive_figures *figures);

/* Steps of the wall clock seen. */
uint64_t receiver_clock_steps(const struct receiver *receiver);
uint16_t receiver_port(const struct receiver *receiver);

#endif
