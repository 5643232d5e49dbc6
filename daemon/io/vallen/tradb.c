/* .tradb: see tradb.h. What a file says of itself is read in tradb_index.c. */
#include "io/vallen/tradb.h"

#include <assert.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "core/clock.h"
#include "io/vallen/database.h"
#include "io/vallen/times.h"
#include "io/vallen/tradb_index.h"
#include "io/vallen/transient.h"

/* What the records that are decoded at a time may take together. */
#define DECODED_BYTES_MAX (UINT64_C(1) << 30)

/* The record of a channel that is played at this instant. */
struct playing {
    int16_t *codes;
    uint32_t capacity, next; /* next: of the timeline's records */
    int64_t row;             /* that the codes are of, */
    bool decoded, damaged;   /* if any */
};

struct tradb {
    struct tradb_index index;
    struct playing *channels; /* [index.channels] */
    sqlite3_stmt *select;
    uint32_t epoch; /* that is read */
    int64_t done;   /* frames of it */
    uint64_t memory_bytes;
};

/* ---- opening ----------------------------------------------------------------------------- */

/* The longest record of each channel, and room for it. */
static int reserve(struct tradb *t, struct problem *problem)
{
    const struct timeline *timeline = &t->index.timeline;
    uint64_t bytes = 0;
    for (uint32_t c = 0; c < t->index.channels; c++) {
        struct playing *p = &t->channels[c];
        p->next = timeline->first[c];
        for (uint32_t i = timeline->first[c]; i < timeline->first[c + 1]; i++) {
            const struct timeline_record *r = &timeline->records[i];
            const uint32_t samples = r->frames + (uint32_t)r->lead;
            p->capacity = samples > p->capacity ? samples : p->capacity;
        }
        bytes += p->capacity * sizeof *p->codes;
    }
    if (bytes > DECODED_BYTES_MAX)
        return problem_set(problem, ERROR_LIMIT,
                           "its records are so long that those of all channels take %llu MiB; play "
                           "one `file channel` at a time",
                           (unsigned long long)(bytes >> 20));
    for (uint32_t c = 0; c < t->index.channels; c++) {
        struct playing *p = &t->channels[c];
        if (p->capacity > 0 && (p->codes = malloc(p->capacity * sizeof *p->codes)) == NULL)
            return problem_set(problem, ERROR_MEMORY, "out of memory");
    }
    t->memory_bytes = bytes + tradb_index_bytes(&t->index);
    return 0;
}

int tradb_open(const char *path, uint32_t channel, struct tradb **out, struct problem *problem)
{
    struct tradb *t = calloc(1, sizeof *t);
    *out = NULL;
    if (t == NULL)
        return problem_set(problem, ERROR_MEMORY, "out of memory");
    int status = tradb_index_open(&t->index, path, channel, problem);
    if (status == 0) {
        t->channels = calloc(t->index.channels, sizeof *t->channels);
        status = t->channels != NULL ? reserve(t, problem)
                                     : problem_set(problem, ERROR_MEMORY, "out of memory");
    }
    if (status == 0) {
        t->select =
            database_prepare(t->index.db, "SELECT Data FROM tr_data WHERE rowid = ?", problem);
        status = t->select != NULL ? 0 : ERROR_FORMAT;
    }
    if (status != 0) {
        tradb_close(t);
        return problem_prefix(problem, status, "%.200s", path);
    }
    *out = t;
    return 0;
}

void tradb_close(struct tradb *t)
{
    if (t == NULL)
        return;
    sqlite3_finalize(t->select);
    for (uint32_t c = 0; t->channels != NULL && c < t->index.channels; c++)
        free(t->channels[c].codes);
    free(t->channels);
    tradb_index_close(&t->index);
    free(t);
}

void tradb_facts(const struct tradb *t, struct tradb_facts *facts)
{
    static const struct sample_format codes = {SAMPLE_SIGNED, 2, 16, false, false};
    static const struct sample_format floats = {SAMPLE_FLOAT, 4, 32, false, false};
    const struct tradb_index *index = &t->index;
    *facts = (struct tradb_facts){
        .rate_hz = (double)index->timeline.rate_hz,
        .channels = index->channels,
        .format = index->floats ? floats : codes,
        .records = index->timeline.count,
        .left_out = index->left_out + index->timeline.covered,
        .epochs = index->timeline.epoch_count,
        .frames = index->timeline.frames,
        .samples = index->timeline.samples,
        .disorder = index->disorder,
        .dated = index->dated,
        .origin_ns = index->origin_ns,
        .memory_bytes = t->memory_bytes,
    };
}

void tradb_scales(const struct tradb *t, struct channel_scale *scales)
{
    for (uint32_t c = 0; c < t->index.channels; c++)
        scales[c] = (struct channel_scale){
            .full_scale = t->index.floats ? 1.0 : t->index.channel_step_v[c] * 32768.0,
            .unit = "V",
        };
}

uint64_t tradb_settling(const struct tradb *t, uint64_t settling)
{
    return timeline_settling(&t->index.timeline, settling);
}

/* ---- reading ----------------------------------------------------------------------------- */

/* Decodes a record into its channel's buffer, unless it is there already. */
static void decode(struct tradb *t, struct playing *p, const struct timeline_record *record)
{
    if (p->decoded && p->row == record->row)
        return;
    const size_t samples = record->frames + (uint32_t)record->lead;
    assert(samples <= p->capacity);
    p->row = record->row;
    p->decoded = p->damaged = true;
    sqlite3_bind_int64(t->select, 1, record->row);
    if (sqlite3_step(t->select) == SQLITE_ROW && sqlite3_column_type(t->select, 0) == SQLITE_BLOB) {
        const void *bytes = sqlite3_column_blob(t->select, 0);
        const int count = sqlite3_column_bytes(t->select, 0);
        const int64_t format = t->index.scales[record->scale].format;
        p->damaged =
            bytes == NULL || vallen_decode(format, bytes, (size_t)count, samples, p->codes) != 0;
    }
    sqlite3_reset(t->select);
}

/* Writes samples [from, from + count) of a decoded record into a column of the frames. */
static void copy_column(const struct tradb *t, const struct timeline_record *record,
                        const int16_t *codes, uint32_t count, uint8_t *to)
{
    const size_t channels = t->index.channels;
    if (!t->index.floats) {
        for (uint32_t i = 0; i < count; i++)
            memcpy(to + i * channels * sizeof codes[0], &codes[i], sizeof codes[0]);
        return;
    }
    const float step = (float)t->index.scales[record->scale].step_v;
    for (uint32_t i = 0; i < count; i++) {
        const float value = (float)codes[i] * step;
        memcpy(to + i * channels * sizeof value, &value, sizeof value);
    }
}

/* Fills the column of a channel in frames [from, until) of the axis. */
static void fill_column(struct tradb *t, uint32_t channel, int64_t from, int64_t until,
                        uint8_t *frames, struct tradb_part *part)
{
    const struct timeline *timeline = &t->index.timeline;
    struct playing *p = &t->channels[channel];
    const size_t bytes = t->index.floats ? sizeof(float) : sizeof(int16_t);
    for (; p->next < timeline->first[channel + 1]; p->next++) {
        const struct timeline_record *r = &timeline->records[p->next];
        const int64_t end = r->ticks + r->frames;
        const int64_t begin = r->ticks > from ? r->ticks : from;
        const int64_t stop = end < until ? end : until;
        if (r->ticks >= until)
            return;
        decode(t, p, r);
        if (p->damaged) {
            const bool none = part->invalid_from == part->invalid_until;
            if (none || (uint64_t)begin < part->invalid_from)
                part->invalid_from = (uint64_t)begin;
            if (none || (uint64_t)stop > part->invalid_until)
                part->invalid_until = (uint64_t)stop;
        } else {
            const size_t column = (size_t)(begin - from) * t->index.channels + channel;
            copy_column(t, r, p->codes + r->lead + (begin - r->ticks), (uint32_t)(stop - begin),
                        frames + column * bytes);
        }
        if (end > until)
            return;
    }
}

/* The realtime of a frame of an epoch. */
static int64_t capture_ns(const struct tradb *t, const struct timeline_epoch *e, int64_t frame)
{
    const struct timeline *timeline = &t->index.timeline;
    return t->index.origin_ns + vallen_rescale(e->ticks, NS_PER_SECOND, timeline->time_base) +
           vallen_rescale(frame - e->from - e->lead, NS_PER_SECOND, timeline->rate_hz);
}

uint32_t tradb_read(struct tradb *t, uint8_t *frames, uint32_t capacity, struct tradb_part *part)
{
    const struct timeline *timeline = &t->index.timeline;
    *part = (struct tradb_part){0};
    if (t->epoch == timeline->epoch_count)
        return 0;
    const struct timeline_epoch *e = &timeline->epochs[t->epoch];
    const int64_t from = e->from + t->done, left = e->until - from;
    const uint32_t count = left < capacity ? (uint32_t)left : capacity;
    const size_t bytes = t->index.floats ? sizeof(float) : sizeof(int16_t);
    memset(frames, 0, count * t->index.channels * bytes);
    *part = (struct tradb_part){
        .first_frame = (uint64_t)from,
        .begins = t->done == 0,
        .ends = count == left,
        .capture_ns = capture_ns(t, e, from),
        .clock = t->index.dated ? CLOCK_SOURCE_SOURCE : CLOCK_SOURCE_DECLARED,
        .clock_error_ns = t->index.dated ? NS_PER_SECOND : 0,
    };
    for (uint32_t c = 0; c < t->index.channels; c++)
        fill_column(t, c, from, from + count, frames, part);
    t->done += count;
    if (part->ends) {
        t->epoch++;
        t->done = 0;
    }
    return count;
}
