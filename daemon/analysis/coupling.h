/*
 * The body of a coupling: how one sensor heard the pulse of another, and how it heard those before.
 * The event's channel is the receiver, its frame and times are those of the pulse.
 *
 * Undefined values are NAN: of a pulse that was not heard, and means over none.
 */
#ifndef CONVOLVD_ANALYSIS_COUPLING_H
#define CONVOLVD_ANALYSIS_COUPLING_H

#include <stdint.h>

#include "analysis/analysis.h"

struct coupling {
    uint32_t pulser;          /* channel, counted from 1 */
    uint32_t zero;            /* in place of padding: equal couplings are equal byte by byte */
    double peak_db;           /* what the receiver heard */
    double delay_us;          /* its arrival after the pulser's */
    double mean_db;           /* of all answers of this pair so far */
    double least_db, most_db; /* among them */
    double change_db;         /* peak_db less the mean of the answers before */
    uint64_t pulses, answers; /* of this pair so far */
};

/* The rows of struct coupling; constant. */
const struct analysis_field *coupling_fields(uint32_t *count);

#endif
