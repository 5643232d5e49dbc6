/*
 * Partition status: what the status tells of a sink `nats` besides its ledger: who owns the log,
 * in which term, and how far its appends have come.
 */
#ifndef CONVOLVD_IO_NATS_PARTITION_STATUS_H
#define CONVOLVD_IO_NATS_PARTITION_STATUS_H

#include "io/driver.h"
#include "io/nats/appender.h"
#include "io/nats/events.h"

struct partition_status {
    char partition[NATS_NAME_BYTES];
    const char *kind; /* of the log: "raw" or "log" */
    struct nats_appender_figures appender;
    uint64_t repeated; /* frames that were not appended: of no term, or in the log already */
    bool has_events;   /* its stream has analyses, whose events are in the log */
    struct nats_events_figures events;
};

/* The row of sink_ops. */
extern const struct driver_status nats_partition_status;

#endif
