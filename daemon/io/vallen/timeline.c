/* Timeline: see timeline.h. */
#include "io/vallen/timeline.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

#include "core/error.h"
#include "io/vallen/times.h"

/* Far beyond any file, and such that no time in nanoseconds leaves 64 bits. */
#define SECONDS_MAX INT64_C(1000000000)
#define FRAMES_MAX  (INT64_C(1) << 61)
#define LEAD_MAX    (1 << 30)

void timeline_open(struct timeline *t, int64_t rate_hz, int64_t time_base)
{
    assert(rate_hz > 0 && time_base > 0);
    *t = (struct timeline){.rate_hz = rate_hz, .time_base = time_base};
}

void timeline_close(struct timeline *t)
{
    free(t->records);
    free(t->epochs);
    *t = (struct timeline){0};
}

/* The frame of a record's first sample, rounded on its own. */
static int64_t place(const struct timeline *t, const struct timeline_record *record)
{
    return vallen_rescale(record->ticks, t->rate_hz, t->time_base) - record->lead;
}

int timeline_add(struct timeline *t, const struct timeline_record *record)
{
    const int64_t ticks_max = SECONDS_MAX * t->time_base;
    if (record->ticks < -ticks_max || record->ticks > ticks_max || record->lead < -LEAD_MAX ||
        record->lead > LEAD_MAX || record->frames == 0 || record->frames > TIMELINE_SAMPLES_MAX ||
        record->channel >= TIMELINE_CHANNELS_MAX)
        return ERROR_ARGUMENT;
    const int64_t from = vallen_rescale(record->ticks, t->rate_hz, t->time_base);
    if (from < -FRAMES_MAX || from > FRAMES_MAX)
        return ERROR_ARGUMENT;
    if (t->count == TIMELINE_RECORDS_MAX)
        return ERROR_LIMIT;
    if (t->count == t->capacity) {
        const uint32_t capacity = t->capacity > 0 ? 2 * t->capacity : 1024;
        struct timeline_record *grown = realloc(t->records, capacity * sizeof *grown);
        if (grown == NULL)
            return ERROR_MEMORY;
        t->records = grown;
        t->capacity = capacity;
    }
    t->records[t->count++] = *record;
    return 0;
}

/* ---- order ------------------------------------------------------------------------------- */

static int compare(__int128 a, __int128 b)
{
    return a < b ? -1 : a > b;
}

/* The beginning of a record, exactly: in frames times the time base. */
static __int128 beginning(const struct timeline *t, const struct timeline_record *record)
{
    return (__int128)record->ticks * t->rate_hz - (__int128)record->lead * t->time_base;
}

/* By beginning; the axis comes as context. */
static int by_beginning(const void *left, const void *right, void *context)
{
    const struct timeline_record *a = left, *b = right;
    const int order = compare(beginning(context, a), beginning(context, b));
    return order != 0 ? order : compare(a->row, b->row);
}

static bool is_sorted(const struct timeline *t)
{
    for (uint32_t i = 1; i < t->count; i++)
        if (by_beginning(&t->records[i - 1], &t->records[i], (void *)t) > 0)
            return false;
    return true;
}

static int by_channel(const void *left, const void *right)
{
    const struct timeline_record *a = left, *b = right;
    const int order = compare(a->channel, b->channel);
    return order != 0 ? order : compare(a->ticks, b->ticks);
}

/* ---- layout ------------------------------------------------------------------------------ */

static struct timeline_epoch *begin_epoch(struct timeline *t, const struct timeline_record *record)
{
    if (t->epoch_count == t->epoch_capacity) {
        const uint32_t capacity = t->epoch_capacity > 0 ? 2 * t->epoch_capacity : 256;
        struct timeline_epoch *grown = realloc(t->epochs, capacity * sizeof *grown);
        if (grown == NULL)
            return NULL;
        t->epochs = grown;
        t->epoch_capacity = capacity;
    }
    struct timeline_epoch *e = &t->epochs[t->epoch_count++];
    const int64_t from = place(t, record);
    *e = (struct timeline_epoch){
        .from = from, .until = from, .ticks = record->ticks, .lead = record->lead};
    return e;
}

/* How far a place may be off because of the rounding of two times. */
static int64_t slack_frames(const struct timeline *t)
{
    return t->rate_hz > t->time_base / 4 ? (2 * t->rate_hz + t->time_base - 1) / t->time_base : 0;
}

/* The frame of a record's first sample, relative to its epoch: e->from or later. Of another epoch's
 * record: behind its end. */
static int64_t place_in(const struct timeline *t, const struct timeline_epoch *e,
                        const struct timeline_record *record)
{
    const int64_t apart = vallen_rescale(record->ticks - e->ticks, t->rate_hz, t->time_base);
    return e->from + apart - record->lead + e->lead;
}

/* Cuts off what lies before `end`, the end of the channel's frames so far. False: nothing is left.
 */
static bool trim(struct timeline_record *record, int64_t from, int64_t end)
{
    const int64_t skip = end > from ? end - from : 0;
    if (skip >= record->frames)
        return false;
    record->ticks = from + skip;
    record->lead = (int32_t)skip;
    record->frames -= (uint32_t)skip;
    return true;
}

/* Goes through the records by place; those that count move to the front. */
static int lay_out(struct timeline *t)
{
    const int64_t slack = slack_frames(t);
    int64_t ends[TIMELINE_CHANNELS_MAX];
    struct timeline_epoch *e = NULL;
    uint32_t kept = 0;
    for (uint32_t i = 0; i < TIMELINE_CHANNELS_MAX; i++)
        ends[i] = INT64_MIN;
    for (uint32_t i = 0; i < t->count; i++) {
        struct timeline_record record = t->records[i];
        int64_t from = e != NULL ? place_in(t, e, &record) : 0;
        if (e == NULL || from > e->until + slack) {
            e = begin_epoch(t, &record);
            if (e == NULL)
                return ERROR_MEMORY;
            from = e->from;
        }
        int64_t *end = &ends[record.channel];
        if (*end != INT64_MIN && llabs(from - *end) <= slack)
            from = *end;
        if (!trim(&record, from, *end)) {
            t->covered++;
            continue;
        }
        *end = record.ticks + record.frames;
        e->until = *end > e->until ? *end : e->until;
        t->samples += record.frames;
        t->records[kept++] = record;
    }
    t->count = kept;
    return 0;
}

int timeline_build(struct timeline *t)
{
    if (!is_sorted(t))
        qsort_r(t->records, t->count, sizeof *t->records, by_beginning, t);
    const int status = lay_out(t);
    if (status != 0)
        return status;
    const int64_t origin = t->epoch_count > 0 ? t->epochs[0].from : 0;
    for (uint32_t i = 0; i < t->count; i++)
        t->records[i].ticks -= origin;
    for (uint32_t i = 0; i < t->epoch_count; i++) {
        t->epochs[i].from -= origin;
        t->epochs[i].until -= origin;
        t->frames += (uint64_t)(t->epochs[i].until - t->epochs[i].from);
    }
    if (t->count > 0)
        qsort(t->records, t->count, sizeof *t->records, by_channel);
    for (uint32_t channel = 0, i = 0; channel <= TIMELINE_CHANNELS_MAX; channel++) {
        while (i < t->count && t->records[i].channel < channel)
            i++;
        t->first[channel] = i;
    }
    return 0;
}

uint64_t timeline_settling(const struct timeline *t, uint64_t settling)
{
    uint64_t frames = 0;
    for (uint32_t i = 0; i < t->epoch_count; i++) {
        const uint64_t length = (uint64_t)(t->epochs[i].until - t->epochs[i].from);
        frames += length < settling ? length : settling;
    }
    return frames;
}
