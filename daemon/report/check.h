/*
 * `convolvd --check FILE`: what a configuration would do, said before it does it. Every
 * filter is made and measured; per stream the planned latency by stage, the filter's delay,
 * whether loss can be seen, and what each sink will carry.
 *
 * One thread; opens no device and no socket.
 */
#ifndef CONVOLVD_REPORT_CHECK_H
#define CONVOLVD_REPORT_CHECK_H

#include <stdio.h>

#include "config/config.h"
#include "report/memory.h"

/* Returns 0, or ERROR_CONFIG with what the filters' making showed to be wrong added to `errors`
 * (print them with config_errors_print), or ERROR_MEMORY. */
int check_print(const struct config *config, FILE *out, struct config_errors *errors);

/* What check_print says of one stream, for tests. */
struct check_plan {
    double delay_frames;       /* of this stream's filters */
    double total_delay_frames; /* with the chain before it, as far as it was not applied there */
    uint32_t taps_longest;
    uint64_t taps_bytes;      /* of all its filters, in double */
    uint32_t fft, partitions; /* as the rule would choose; the engine measures and may differ */
    double accumulate_s, ingest_max_s, device_s, egress_s; /* device and egress: estimates */
};

/* Makes the stream's filters; upstream is the plan of the stream it reads, NULL for none. */
int check_plan_make(const struct config *config, const struct config_stream *stream,
                    const struct check_plan *upstream, struct check_plan *plan,
                    struct problem *problem);

/* What the stream's memory depends on. */
struct memory_plan check_memory_plan(const struct check_plan *plan);

/* Bytes a second that a sink carries: packets with their headers, or a file's samples. */
double check_sink_bytes_per_second(const struct config *config, const struct config_sink *sink);

#endif
