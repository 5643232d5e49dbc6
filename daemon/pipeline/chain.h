/*
 * Chain: the output of one stream as the source of another (`source = stream NAME`). Results
 * become packets in the upstream's own frame numbers, with its capture times and invalid
 * ranges, so that delays and invalid ranges add up along the chain.
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

/* The packet that a result is for the next stream. Its payload is the result's samples, so that
 * they need not leave the device that both streams are on. */
struct packet chain_packet(struct chain *chain, const struct result *result, int64_t offset_ns);

#endif
