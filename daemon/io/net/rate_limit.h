/*
 * Rate limits: how many packets and bytes a second one address may send. Each address has a virtual
 * clock for each (the generic cell rate algorithm, ITU-T I.371): a packet moves it on by its share
 * of a second, and is refused when it is more than RATE_BURST_MS ahead of the time.
 *
 * The RATE_SOURCES addresses heard last are told apart. A new one takes over the clocks of the one
 * silent longest: forging many addresses gains no more than RATE_SOURCES times the limit.
 *
 * Pure but for its own state; one thread.
 */
#ifndef CONVOLVD_IO_NET_RATE_LIMIT_H
#define CONVOLVD_IO_NET_RATE_LIMIT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/socket.h>

enum { RATE_SOURCES = 8, RATE_BURST_MS = 100 };

struct rate_source {
    struct sockaddr_storage from;
    int64_t heard_ns;             /* 0: the entry is free */
    int64_t packets_ns, bytes_ns; /* the virtual clocks, monotonic */
};

struct rate_limit {
    double packet_ns, byte_ns; /* share of a second of one; 0: no limit */
    unsigned newest;           /* the source of the last datagram */
    struct rate_source sources[RATE_SOURCES];
};

/* 0: no limit. */
void rate_limit_set(struct rate_limit *limit, uint64_t packets_per_s, uint64_t bytes_per_s);

/* Whether a datagram of so many bytes, received at now_ns (monotonic, above 0), is within the
 * limits; only then it counts against them. */
bool rate_limit_take(struct rate_limit *limit, const struct sockaddr_storage *from, size_t bytes,
                     int64_t now_ns);

#endif
