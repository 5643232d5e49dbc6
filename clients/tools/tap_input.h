/*
 * Where a tap's blocks come from: a socket (convolv.h) or a partition's log (convolv-nats.h).
 *
 * One owner.
 */
#ifndef CONVOLV_TOOLS_TAP_INPUT_H
#define CONVOLV_TOOLS_TAP_INPUT_H

#include <signal.h>
#include <stdint.h>
#include <stdio.h>

#include "convolv.h"
#include "core/error.h"

struct tap_input;

int tap_input_socket(const struct convolv_receiver_options *options, struct tap_input **out,
                     struct problem *problem);

struct tap_log_options {
    const char *url; /* "nats://HOST:PORT[,…]/CLUSTER/PARTITION", "/raw" behind it: its input */
    const char *credentials, *ca; /* files; NULL: none */
    double full_scale;
    double wait_s;                         /* so long for the first block */
    const volatile sig_atomic_t *stopping; /* ends the wait */
};

/* Prints events of analyses that the log holds as lines of JSON, until `stopping`, for `seconds`,
 * or until none has come for `timeout_s` (0: either is without end). *lost: numbers that were
 * missing.
 */
struct tap_events_options {
    double seconds, timeout_s;
    FILE *out;
};
int tap_events(const struct tap_log_options *log, const struct tap_events_options *options,
               uint64_t *lost, struct problem *problem);

/* Waits for the first block; `describe` then says what the samples are. */
int tap_input_log(const struct tap_log_options *options, struct convolv_receiver_options *describe,
                  struct tap_input **out, struct problem *problem);
void tap_input_close(struct tap_input *input); /* NULL is fine */

/* As convolv_receiver_next, _ledger and _quiet_ns. */
int tap_input_next(struct tap_input *input, int timeout_ms, struct convolv_block *block);
void tap_input_ledger(const struct tap_input *input, struct convolv_receiver_ledger *ledger);
int64_t tap_input_quiet_ns(const struct tap_input *input);

/* NULL: it is a log. */
const struct convolv_receiver *tap_input_receiver(const struct tap_input *input);

#endif
