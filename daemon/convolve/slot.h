/*
 * Slots: what the engine keeps for each batch. A slot has its own samples and reports in OUTPUT and
 * its own rows in TABLE; LOOP fills it, the device thread launches and completes it.
 */
#ifndef CONVOLVD_CONVOLVE_SLOT_H
#define CONVOLVD_CONVOLVE_SLOT_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "convolve/batch.h"
#include "device/opencl.h"

struct engine;

enum slot_done {
    DONE_NOT_YET,
    DONE_OK,
    DONE_REFUSED, /* at its launch: batches launched later know */
    DONE_FAILED,  /* while it ran: batches may have been launched behind it */
};

struct slot {
    struct batch batch; /* first: the caller's pointer */
    /* immutable */
    struct engine *engine;
    uint64_t samples_offset; /* floats of OUTPUT; reports lie before them, the last one first */
    uint64_t full_offset;    /* floats of OUTPUT: full reports of plans that pack them, reports.h */
    uint64_t rows_offset;    /* rows of TABLE: struct row[ROWS_PER_BATCH], and one of zeros */
    uint64_t groups_offset;  /* groups of TABLE: struct row_group[ROWS_PER_BATCH] */
    bool worker;             /* the self-test's: a worker waits for it */
    /* LOOP while filling */
    uint64_t samples_used;     /* floats */
    uint64_t reports_reserved; /* reports, all together … */
    uint64_t reports_used;     /* … those before the samples, packed ones being a quarter … */
    uint64_t full_used;        /* … and those from full_offset on */
    uint32_t rows_reserved;
    int64_t expected_ns; /* of its plans' costs when it was submitted */
    uint64_t number;     /* of those submitted, from 1 */
    /* device thread */
    uint32_t rows_used, groups;
    uint32_t queue; /* of device.compute */
    bool on_host;   /* nothing of it is on the device, though that has memory of its own: all of its
                       plans are on the host */
    bool apart; /* its copies have queues of their own; else all of it is on device.compute[0] */
    bool full_copied; /* the full reports come to the host with the packed ones */
    cl_event event;
    uint64_t launch;                      /* its number */
    int64_t device_from_ns, predicted_ns; /* what was launched last, and what it should take */
    int64_t spent_ns;                     /* by the parts before it */
    /* event callback → device thread */
    _Atomic int done; /* enum slot_done */
    int64_t done_ns;
    cl_int status; /* of the event; CL_SUCCESS: complete */
};

/* Forgets the items; LOOP, or the device thread for the worker's slot. */
static inline void slot_empty(struct slot *slot)
{
    slot->batch.count = 0;
    slot->samples_used = slot->reports_reserved = slot->reports_used = slot->full_used = 0;
    slot->rows_reserved = 0;
}

#endif
