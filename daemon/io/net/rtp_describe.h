/*
 * What the header extensions of an RTP packet say of the result that its frames come from: times,
 * numbers, latencies, invalid and partial frames (wire/rtp.h).
 *
 * Pure functions, any thread.
 */
#ifndef CONVOLVD_IO_NET_RTP_DESCRIBE_H
#define CONVOLVD_IO_NET_RTP_DESCRIBE_H

#include <stdint.h>

#include "wire/rtp.h"
#include "stream/result.h"

/* What all packets of a result say; `decimate` is the whole chain's, at least 1. `now_ns`
 * (monotonic): when they are built. */
struct rtp_result_info rtp_describe(const struct result *result, uint32_t decimate, int64_t now_ns);

/* What of the result's invalid and partial frames lies in frames [from, until). */
void rtp_describe_frames(const struct result *result, uint64_t from, uint64_t until,
                         struct rtp_result_info *info);

#endif
