/*
 * Timeline: lays the records of a .tradb on one axis of frames. Records that follow each other
 * without a gap, or overlap, on any channels, form one epoch; a gap on all channels ends it.
 *
 *     channel 1  ├──────┤├──────┤          ├─────┤
 *     channel 2       ├──────┤               ├──────┤
 *     epochs     └──────────────┘          └────────┘
 *
 * Places come from the column Time. Within an epoch they are taken relative to its first record, so
 * that rounding to ticks moves no channel against another while a frame lasts two ticks or more;
 * for shorter frames, records of one channel within two ticks of each other count as adjoining.
 * Where records of one channel overlap, the frames of the earlier one count.
 *
 * Pure but for memory; one owner. Values may come from a hostile file: nothing overflows.
 */
#ifndef CONVOLVD_IO_VALLEN_TIMELINE_H
#define CONVOLVD_IO_VALLEN_TIMELINE_H

#include <stdbool.h>
#include <stdint.h>

enum {
    TIMELINE_RECORDS_MAX = 1 << 24,
    TIMELINE_SAMPLES_MAX = 1 << 24,
    TIMELINE_CHANNELS_MAX = 1024
};

struct timeline_record {
    int64_t row;     /* of tr_data */
    int64_t ticks;   /* Time; after timeline_build the frame of its first sample that counts */
    int32_t lead;    /* Pretrigger; then: samples before that one, which do not count */
    uint32_t frames; /* Samples; then: those that count */
    uint16_t channel;
    uint16_t scale; /* index into the caller's table */
};

struct timeline_epoch {
    int64_t from, until; /* frames; 0 is the first of all */
    int64_t ticks;       /* Time of its first record … */
    int32_t lead;        /* … `lead` frames after `from` */
};

struct timeline {
    int64_t rate_hz, time_base;
    struct timeline_record *records; /* by channel, then by place */
    uint32_t count, capacity;
    uint32_t first[TIMELINE_CHANNELS_MAX + 1]; /* of each channel; the last one: count */
    struct timeline_epoch *epochs;
    uint32_t epoch_count, epoch_capacity;
    uint64_t frames;  /* of all epochs */
    uint64_t samples; /* that count, of all records */
    uint64_t covered; /* records that lay wholly under others of their channel */
};

/* rate_hz and time_base > 0. */
void timeline_open(struct timeline *timeline, int64_t rate_hz, int64_t time_base);
void timeline_close(struct timeline *timeline);

/* Adds a record, in any order. 0, ERROR_MEMORY, ERROR_LIMIT (too many), or ERROR_ARGUMENT: a value
 * is beyond what the axis can hold. */
int timeline_add(struct timeline *timeline, const struct timeline_record *record);

/* Lays out what was added. 0 or ERROR_MEMORY. */
int timeline_build(struct timeline *timeline);

/* Frames of all epochs that lie within the first `settling` of theirs. */
uint64_t timeline_settling(const struct timeline *timeline, uint64_t settling);

#endif
