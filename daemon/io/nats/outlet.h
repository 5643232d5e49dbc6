/*
 * Outlet: what the other sinks of a partition's stream get (rtp, recording, osc). Only the owner of
 * a term hands anything to them, with frames numbered as LOG numbers them, and before LOG gets the
 * same frames: so whatever LOG has was handed to them, and whatever LOG has not got is computed and
 * handed to them once more, under the same numbers, by the next owner.
 *
 *     stream ── result ──► outlet ──► rtp, recording, osc     (LOG's numbers)
 *                   └────► pieces ──► LOG                     afterwards
 *
 * An owner without an acknowledgement for a lease may have been taken for dead: it hands over
 * nothing any more, and its term ends.
 *
 * A successor begins with the whole block in which LOG ends, so that a sink may number its packets
 * by blocks.
 *
 * Loop thread; never allocates.
 */
#ifndef CONVOLVD_IO_NATS_OUTLET_H
#define CONVOLVD_IO_NATS_OUTLET_H

#include "cluster/term.h"
#include "stream/result.h"

enum { OUTLET_RANGES = 256 };

/* The newest result that was handed over. */
struct nats_outlet {
    struct result result;
    struct invalid_range invalid[OUTLET_RANGES];
};

/* The result in LOG's numbers, valid until the next call; NULL: nothing of it is for other sinks.
 * Called before the result is put into the sink of LOG, by an owner that may send. */
const struct result *nats_outlet_result(struct nats_outlet *outlet, const struct term *term,
                                        const struct result *result);

#endif
