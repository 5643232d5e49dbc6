/* Event totals: see event_totals.h. */
#include "pipeline/event_totals.h"

#include <math.h>
#include <stdatomic.h>
#include <stdlib.h>

#include "core/clock.h"

/* A slot is written anew this many seconds later; readers look at the whole seconds before now. */
enum { SLOTS = TOTALS_SECONDS + 2 };

struct slot {
    _Atomic uint64_t events;
    _Atomic uint64_t defined[EVENT_TOTALS]; /* of these, how many had the value */
    _Atomic double sums[EVENT_TOTALS];
};

struct row {
    struct slot since_start;
    struct {
        _Atomic int64_t second; /* it is of; 0: none yet */
        struct slot slot;
    } recent[SLOTS];
};

struct event_totals {
    const struct analysis_field *fields[EVENT_TOTALS]; /* NULL: the events have no such one */
    uint32_t index[EVENT_TOTALS];
    uint32_t rows;
    struct row all[];
};

static uint32_t rows_of(const struct analysis_ops *ops, const struct analysis_options *own)
{
    return ops->emits == ANALYSIS_SOURCE ? 1 : own->stream.channels;
}

uint64_t event_totals_bytes(const struct analysis_ops *ops, const struct analysis_options *own)
{
    return sizeof(struct event_totals) + (uint64_t)rows_of(ops, own) * sizeof(struct row);
}

int event_totals_open(const struct analysis_ops *ops, const struct analysis_options *own,
                      struct event_totals **out)
{
    struct event_totals *totals = calloc(1, event_totals_bytes(ops, own));
    if (totals == NULL)
        return ERROR_MEMORY;
    uint32_t count;
    const struct analysis_field *fields = ops->fields(own, &count);
    totals->rows = rows_of(ops, own);
    for (int t = 0; t < EVENT_TOTALS; t++)
        totals->fields[t] =
            field_find(fields, count, event_total_field((enum event_total)t), &totals->index[t]);
    *out = totals;
    return 0;
}

void event_totals_close(struct event_totals *totals)
{
    free(totals);
}

/* ---- writing ----------------------------------------------------------------------------- */

/* One thread writes, so that a load and a store are an addition. */
static void add(_Atomic double *sum, double value)
{
    atomic_store_explicit(sum, atomic_load_explicit(sum, memory_order_relaxed) + value,
                          memory_order_relaxed);
}

static void count(_Atomic uint64_t *counter)
{
    atomic_store_explicit(counter, atomic_load_explicit(counter, memory_order_relaxed) + 1,
                          memory_order_relaxed);
}

static void put(const struct event_totals *totals, struct slot *slot,
                const struct analysis_event *event)
{
    count(&slot->events);
    for (int t = 0; t < EVENT_TOTALS; t++) {
        const double value = totals->fields[t] != NULL
                                 ? field_value(totals->fields[t], totals->index[t], event)
                                 : (double)NAN;
        if (isnan(value))
            continue;
        add(&slot->sums[t], value);
        count(&slot->defined[t]);
    }
}

static void clear(struct slot *slot)
{
    atomic_store_explicit(&slot->events, 0, memory_order_relaxed);
    for (int t = 0; t < EVENT_TOTALS; t++) {
        atomic_store_explicit(&slot->defined[t], 0, memory_order_relaxed);
        atomic_store_explicit(&slot->sums[t], 0, memory_order_relaxed);
    }
}

void event_totals_add(struct event_totals *totals, const struct analysis_event *event,
                      int64_t now_ns)
{
    struct row *row = &totals->all[totals->rows > 1 ? event->channel : 0];
    const int64_t second = now_ns / NS_PER_SECOND;
    struct slot *slot = &row->recent[second % SLOTS].slot;
    if (atomic_load_explicit(&row->recent[second % SLOTS].second, memory_order_relaxed) != second) {
        clear(slot);
        atomic_store_explicit(&row->recent[second % SLOTS].second, second, memory_order_release);
    }
    put(totals, slot, event);
    put(totals, &row->since_start, event);
}

/* ---- reading ----------------------------------------------------------------------------- */

uint32_t event_totals_rows(const struct event_totals *totals)
{
    return totals->rows;
}

bool event_totals_has(const struct event_totals *totals, enum event_total total)
{
    return totals->fields[total] != NULL;
}

static void take(const struct slot *slot, struct event_sums *sums, uint64_t defined[EVENT_TOTALS])
{
    sums->events += atomic_load_explicit(&slot->events, memory_order_relaxed);
    for (int t = 0; t < EVENT_TOTALS; t++) {
        defined[t] += atomic_load_explicit(&slot->defined[t], memory_order_relaxed);
        sums->sums[t] += atomic_load_explicit(&slot->sums[t], memory_order_relaxed);
    }
}

/* The sum of no value is 0 where none was due, and undefined where events came without it. */
static void finish(const struct event_totals *totals, const uint64_t defined[EVENT_TOTALS],
                   struct event_sums *sums)
{
    for (int t = 0; t < EVENT_TOTALS; t++)
        if (totals->fields[t] == NULL || (defined[t] == 0 && sums->events > 0))
            sums->sums[t] = NAN;
}

void event_totals_read(const struct event_totals *totals, uint32_t row, struct event_sums *sums)
{
    uint64_t defined[EVENT_TOTALS] = {0};
    *sums = (struct event_sums){0};
    take(&totals->all[row].since_start, sums, defined);
    finish(totals, defined, sums);
}

void event_totals_recent(const struct event_totals *totals, uint32_t row, int64_t now_ns,
                         struct event_sums *sums)
{
    uint64_t defined[EVENT_TOTALS] = {0};
    const int64_t now = now_ns / NS_PER_SECOND;
    *sums = (struct event_sums){0};
    for (int64_t second = now - TOTALS_SECONDS; second < now; second++)
        if (second > 0 && atomic_load_explicit(&totals->all[row].recent[second % SLOTS].second,
                                               memory_order_acquire) == second)
            take(&totals->all[row].recent[second % SLOTS].slot, sums, defined);
    finish(totals, defined, sums);
}
