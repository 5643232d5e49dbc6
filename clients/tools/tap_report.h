/*
 * What a tap has seen: epochs, invalid ranges, latencies. Printed as a table, written as JSON.
 *
 * One owner.
 */
#ifndef CONVOLV_TOOLS_TAP_REPORT_H
#define CONVOLV_TOOLS_TAP_REPORT_H

#include <stdint.h>
#include <stdio.h>

#include <jansson.h>

#include "convolv.h"

struct report;

/* NULL: out of memory. */
struct report *report_open(double rate_hz);
void report_close(struct report *report); /* NULL is fine */
void report_put(struct report *report, const struct convolv_block *block);

/* Frames seen or known to be lost, less tails: how far the input has been worked off. */
uint64_t report_input_frames(const struct report *report,
                             const struct convolv_receiver_ledger *ledger);

/* Epochs whose end has been seen. */
uint64_t report_epochs_ended(const struct report *report);

/* Frames flagged invalid for a cause other than settling and tail. */
uint64_t report_invalid_unexpected(const struct report *report);

void report_print(const struct report *report, const struct convolv_receiver_ledger *ledger,
                  FILE *out);

/* A new reference. */
json_t *report_json(const struct report *report, const struct convolv_receiver_ledger *ledger);

#endif
