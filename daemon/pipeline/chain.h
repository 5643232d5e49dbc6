/*
 * A chain feeds the output of one stream into another (`source = stream NAME`). Each result becomes
 * a packet with the upstream's frame numbers, capture times and invalid ranges, so that delays and
 * invalid ranges add up along the chain.
 *
 * Loop thread; nothing here allocates, locks or logs.
 */
#ifndef CONVOLVD_PIPELINE_CHAIN_H
#define CONVOLVD_PIPELINE_CHAIN_H

#include <stdbool.h>
#include <stdint.h>

#include "stream/packet.h"
#include "stream/result.h"

struct chain {
    bool records; /* the first stream of the chain is in record mode */
    bool begun;
    uint64_t epoch; /* of the last result */
};

/* The packet for the next stream: for stream_put, or without frames for stream_end_at. Its payload
 * is the samples of the result, so they need not leave a device that both streams run on. */
struct packet chain_packet(struct chain *chain, const struct result *result, int64_t offset_ns);

#endif
