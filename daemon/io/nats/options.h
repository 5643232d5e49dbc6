/* Options of source and sink `nats`, the sink's checks and what `--check` says of it. */
#ifndef CONVOLVD_IO_NATS_OPTIONS_H
#define CONVOLVD_IO_NATS_OPTIONS_H

#include "io/sink.h"

enum { NATS_SINK_ROWS = 7, NATS_PIECES_MIN = 64, NATS_QUEUE_BYTES = 8 << 20 };

struct nats_source_options {
    const char *partition;
};

struct nats_sink_options {
    const char *partition;
    bool input;
    uint64_t message_bytes;
    const struct option_value *spool; /* a time or a size */
    bool file;
    uint32_t replicas;
    int64_t window_ns;
};

extern const struct option_row nats_sink_rows[NATS_SINK_ROWS];

/* Pieces that a sink has for input that it keeps, or for results. */
uint32_t nats_sink_pieces(const struct sink_options *options);

/* source_ops.check_all of a partition: beside its log a stream takes sinks whose readers know
 * frames by number, since what an owner has sent the next one may send again. No other stream reads
 * it. */
void nats_partition_check_all(const struct driver_sections *all, uint32_t self);

/* The rows of struct sink_ops, as documented there. */
void nats_sink_check(const struct option_check *check, const struct daemon_facts *facts,
                     const struct stream_facts *stream, struct sink_options *options);
void nats_sink_check_all(const struct driver_sections *all, uint32_t self);
void nats_sink_report(const struct sink_options *options, double bytes_per_second, FILE *out);
uint64_t nats_sink_memory(const struct sink_options *options);

#endif
