/* Numbers of RTP packets of a partition: see rtp_numbers.h. */
#include "io/net/rtp_numbers.h"

#include <string.h>
#include <sys/random.h>

#include "core/clock.h"
#include "core/log.h"
#include "io/net/rtp_sink_options.h"
#include "wire/crc32c.h"

struct rtp_numbers rtp_numbers_of(const struct sink_options *options, uint32_t most)
{
    const struct sink_stream *stream = &options->stream;
    const uint32_t decimate = stream->decimate > 1 ? stream->decimate : 1;
    const uint64_t hop = options->block_bytes / (stream->channels * sizeof(float));
    struct rtp_numbers n = {.partition = options->partition, .packet = most > 0 ? most : 1};
    if (n.partition != NULL && !stream->aligned && hop % decimate == 0)
        n.block = (uint32_t)(hop / decimate);
    return n;
}

static uint32_t ssrc_of(const struct sink_options *options)
{
    const uint32_t partition = crc32c(0, options->partition, strlen(options->partition) + 1);
    return crc32c(partition, options->name, strlen(options->name));
}

void rtp_numbers_begin(const struct sink_options *options, uint32_t *ssrc, uint16_t *sequence)
{
    const struct rtp_sink_options *own = options->own;
    const struct sink_identity *before = options->identity;
    /* RFC 3550 section 5.1 asks for unpredictable initial values. */
    uint32_t chance[2] = {(uint32_t)clock_realtime_ns(), (uint32_t)clock_monotonic_ns()};
    if (getrandom(chance, sizeof chance, GRND_NONBLOCK) < 0)
        log_debug("sink %s: no random numbers yet; the clock serves", options->name);
    const uint32_t other = before != NULL ? before->ssrc : chance[0];
    *ssrc = own->ssrc_set ? own->ssrc : options->partition != NULL ? ssrc_of(options) : other;
    *sequence = before != NULL ? before->sequence : (uint16_t)chance[1];
}

uint32_t rtp_numbers_frames(const struct rtp_numbers *n, uint64_t frame, uint32_t left)
{
    uint64_t room = n->partition != NULL ? n->packet : left;
    if (n->block > 0) {
        const uint64_t in_block = frame % n->block, end = (in_block / n->packet + 1) * n->packet;
        room = (end < n->block ? end : n->block) - in_block;
    }
    return left < room ? left : (uint32_t)room;
}

/* Epochs follow each other on the timeline, and blocks are counted there; the epoch's number keeps
 * the first block of one apart from the last one of the epoch before. */
uint16_t rtp_numbers_sequence(const struct rtp_numbers *n, const struct result *result, uint32_t at,
                              uint16_t *next)
{
    if (n->block > 0) {
        const uint64_t frame = result->first_frame + at,
                       zero = result->timeline_frame - result->first_frame,
                       block = zero / n->block + result->epoch + frame / n->block,
                       packets = (n->block + n->packet - 1) / n->packet;
        *next = (uint16_t)(block * packets + frame % n->block / n->packet);
    }
    return (*next)++;
}
