/* Descriptions of results: see rtp_describe.h. */
#include "io/net/rtp_describe.h"

#include <math.h>

static uint32_t saturate32(int64_t value)
{
    return value < 0 ? 0 : value < (int64_t)UINT32_MAX ? (uint32_t)value : UINT32_MAX;
}

struct rtp_result_info rtp_describe(const struct result *result, uint32_t decimate, int64_t now_ns)
{
    struct rtp_result_info info = {
        .egress_100ns = rtp_100ns(result->stage_ns[STAGE_EGRESS] + now_ns - result->delivered_ns),
        .clock = (uint8_t)result->clock,
        .flags = result->aligned ? RTP_ALIGNED : 0,
        .clock_error_ns = saturate32(result->clock_error_ns),
        .epoch = (uint32_t)result->epoch,
        .record = (uint32_t)result->record,
        .delay_half_frames = saturate32(llrint(2 * result->delay_frames * decimate)),
        .decimate = (uint16_t)decimate,
    };
    for (int stage = STAGE_ACCUMULATE; stage <= STAGE_DEVICE; stage++)
        info.stage_100ns[stage] = rtp_100ns(result->stage_ns[stage]);
    return info;
}

void rtp_describe_frames(const struct result *result, uint64_t from, uint64_t until,
                         struct rtp_result_info *info)
{
    uint64_t first = until, last = from;
    if (result->partial_from < until && result->partial_until > from)
        info->flags |= RTP_PARTIAL;
    for (uint32_t i = 0; i < result->invalid_count; i++) {
        const struct invalid_range *range = &result->invalid[i];
        if (range->from >= until || range->until <= from)
            continue; /* of other packets, or missing before the result */
        first = range->from < first ? range->from : first;
        last = range->until > last ? range->until : last;
        info->causes |= (uint16_t)(1u << range->cause);
    }
    if (first >= last)
        return;
    info->flags |= RTP_INVALID;
    info->invalid_from = (uint16_t)(first > from ? first - from : 0);
    info->invalid_until = (uint16_t)((last < until ? last : until) - from);
}
