/*
 * Analysis store: the last events of one analysis and the samples of the newest of them, for those
 * who look at them live: the control socket, OSC, alarms, the page. The thread of the analysis
 * writes; readers come at their own pace, and one who is too slow learns how many events were
 * overwritten.
 *
 * Nobody waits, locks or allocates: slots are seqlocks, as those of core/event.h. Events come in as
 * soon as they are known (hits when they end), each once.
 *
 * One writing thread (WRITER); any number of readers on any thread (ANY).
 */
#ifndef CONVOLVD_PIPELINE_ANALYSIS_STORE_H
#define CONVOLVD_PIPELINE_ANALYSIS_STORE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "analysis/analysis.h"

enum { STORE_EVENTS = 4096, STORE_SAMPLE_BYTES = 16 << 20, STORE_BODY_BYTES = 1024 };

struct analysis_store;

/* A copy of an event; its body stands behind it. */
struct stored_event {
    struct analysis_event event; /* `samples` is NULL, `sample_count` that of the event */
    uint64_t place;              /* 1, 2, … in the order in which they came in */
    uint64_t samples_at;         /* the store's */
    _Alignas(double) uint8_t body[STORE_BODY_BYTES];
};

/* Any thread. Memory is touched when used; at most analysis_store_bytes. 0 or ERROR_MEMORY. */
int analysis_store_open(struct analysis_store **out);
void analysis_store_close(struct analysis_store *store); /* NULL is fine */
uint64_t analysis_store_bytes(void);

/* WRITER. A body longer than STORE_BODY_BYTES is cut. */
void analysis_store_put(struct analysis_store *store, const struct analysis_event *event);

/* ANY. A number of its own for each store of the process, for readers that outlive it. */
uint64_t analysis_store_id(const struct analysis_store *store);
/* ANY. How many events have come in. */
uint64_t analysis_store_last(const struct analysis_store *store);
/* ANY. Copies the oldest event behind place *after that is still kept, and puts its place into
 * *after. *missed: how many were overwritten before they were read, also where there is none yet
 * (false). */
bool analysis_store_next(const struct analysis_store *store, uint64_t *after,
                         struct stored_event *out, uint64_t *missed);
/* ANY. The event with this number; false: it is not kept. */
bool analysis_store_find(const struct analysis_store *store, uint64_t number,
                         struct stored_event *out);
/* ANY. Copies its samples to out[event.sample_count]; false: they are not kept any more. */
bool analysis_store_samples(const struct analysis_store *store, const struct stored_event *event,
                            float *out);

#endif
