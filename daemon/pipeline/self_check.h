/*
 * The continuous self-check: every so often one block of one output of each stream, by turns, is
 * computed again in double precision and compared with what the device gave. A result beyond the
 * error bound means that the device computes wrongly: it is declared lost.
 *
 *     loop      due ─► (request) ─────► copies input block by block, then the results ─► (filled)
 *     worker            allocates room                                    computes, compares ─► due
 *
 * The loop copies only what a completed batch brings, of the channels that the output depends on,
 * before its frames leave the ring; a check takes as long as its S - 1 frames of history take to
 * come. A gap in what the stream computes (shed blocks, a new epoch, another plan) begins the copy
 * anew. One worker thread of low priority serves all streams.
 */
#ifndef CONVOLVD_PIPELINE_SELF_CHECK_H
#define CONVOLVD_PIPELINE_SELF_CHECK_H

#include <stdint.h>

#include "convolve/engine.h"

struct self_checks;
struct self_check;

/* What a stream's checks have found. */
struct self_check_figures {
    uint64_t checks;       /* blocks compared */
    uint64_t failures;     /* of them, beyond the bound */
    double last, worst;    /* error relative to the bound: 1 is the bound itself */
    uint32_t worst_output; /* from 0 */
    int64_t last_ns;       /* monotonic, of the last one; 0: none yet */
};

/* Starts the worker. Any thread, as for close; every check must be closed. NULL is fine. */
int self_checks_open(struct self_checks **out, struct problem *problem);
void self_checks_close(struct self_checks *checks);

struct self_check_options {
    const char *stream;  /* its name, copied */
    int64_t interval_ns; /* > 0 */
    /* LOOP: the device that computes the stream now, and that a wrong result makes lost */
    struct engine *(*engine)(void *context);
    void *context;
};

/* One stream's. WORKER. */
int self_check_open(struct self_checks *checks, const struct self_check_options *options,
                    struct self_check **out, struct problem *problem);
/* Waits for a comparison under way; the stream inspects no more. WORKER, NULL is fine. */
void self_check_close(struct self_check *check);

/* LOOP. For stream_inspect, the context being the struct self_check. */
void self_check_inspect(void *context, const struct batch_item *item);

/* ANY. */
/* LOOP. The ring position from which on some output of the stream has not been checked: behind the
 * oldest of the last checks that held, one for each output. NULL: 0. */
uint64_t self_check_held(const struct self_check *check);
/* LOOP. Results before this position have been flagged as uncertain, and are not again. */
void self_check_doubted(struct self_check *check, uint64_t position);

void self_check_figures(const struct self_check *check, struct self_check_figures *figures);

#endif
