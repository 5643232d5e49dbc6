/* Chain: results as packets; see chain.h. */
#include "pipeline/chain.h"

#include <assert.h>
#include <stddef.h>

struct packet chain_packet(struct chain *chain, const struct result *result, int64_t offset_ns)
{
    assert(result->samples != NULL || result->frames == 0);
    /* A flag marks the first result of an epoch; the epoch's number covers the case that this
     * result was shed. */
    bool begins =
        chain->begun && (result->flags & RESULT_EPOCH_START || result->epoch != chain->epoch);
    uint32_t flags = PACKET_CAPTURE;
    if (!(result->flags & RESULT_MIXED))
        flags |= PACKET_RESULT; /* the device holds the same */
    if (begins || (!chain->begun && chain->records))
        flags |= chain->records ? PACKET_RECORD : PACKET_DISCONTINUITY;
    if (result->flags & RESULT_EPOCH_END)
        flags |= PACKET_LAST;
    chain->begun = true;
    chain->epoch = result->epoch;
    return (struct packet){
        .first_frame = result->first_frame,
        .frames = result->frames,
        .flags = flags,
        .payload = (const uint8_t *)result->samples,
        .receive_ns = result->delivered_ns,
        .receive_realtime_ns = result->delivered_ns + offset_ns,
        .capture_ns = result->capture_ns,
        .clock = result->clock,
        .clock_error_ns = result->clock_error_ns,
        .invalid = result->invalid,
        .invalid_count = result->invalid_count,
        .partial_from = result->partial_from,
        .partial_until = result->partial_until,
    };
}
