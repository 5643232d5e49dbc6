/*
 * Full scale: which frames of a stream's results rest on input samples near the ends of their
 * format, at 95 % of full scale or more. A converter that clips bends what the filter makes of S
 * frames, so each such input frame n marks frames n … n + S - 1 of the results.
 *
 * The device's first pass reports the largest sample of each block and channel. Only where that
 * comes near does the loop read the block's codes from the input ring, which holds them until the
 * block's results are delivered. A stream whose marks nobody wants has no such object and does
 * nothing; one that nobody drives to its limits compares one number a block and channel.
 *
 * What a stream takes of another one (a chain) has no codes; it inherits that one's marks, spread
 * over its own filters.
 *
 * Marks of one result are exact, but for a limit: of more than `quota` runs of one channel in one
 * result the last ones are joined.
 *
 * Loop thread but for open and close; nothing else allocates, locks or logs.
 */
#ifndef CONVOLVD_STREAM_FULL_SCALE_H
#define CONVOLVD_STREAM_FULL_SCALE_H

#include <stdbool.h>
#include <stdint.h>

#include "stream/result.h"
#include "wire/format.h"

struct block_report;
struct epoch;
struct full_scale;
struct packet;
struct stream;

/* WORKER. scales: of each input channel; NULL: marks are inherited only. 0 or ERROR_MEMORY. */
int full_scale_open(uint32_t channels, const struct sample_format *format,
                    const struct channel_scale *scales, struct full_scale **out);
void full_scale_close(struct full_scale *full_scale); /* NULL is fine */

/* A packet of the epoch with marks of the stream that it comes from. */
void full_scale_inherit(struct stream *stream, const struct epoch *e, const struct packet *packet);

/* The marks of output frames [from, until) at the input's rate, all of one batch; `reports` are
 * those of the blocks from first_block on. They become the result's, in kept frames, valid until
 * the next call. Every frame of the epoch comes once, in order, or never. */
void full_scale_mark(struct stream *stream, const struct epoch *e,
                     const struct block_report *reports, uint64_t first_block, uint64_t from,
                     uint64_t until, struct result *result);
/* The delay has been applied to the result: its marks follow. */
void full_scale_align(struct stream *stream, struct result *result);

#endif
