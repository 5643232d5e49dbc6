/*
 * An analysis as tests drive it: options as a user writes them, a signal in any cuts with its
 * invalid and saturated frames, and every event kept, so that two ways through the same signal can
 * be compared bit by bit.
 */
#ifndef CONVOLVD_TESTS_ANALYSIS_WORLD_H
#define CONVOLVD_TESTS_ANALYSIS_WORLD_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "analysis/analysis.h"
#include "core/random.h"

/* One epoch of a stream. */
struct analysis_signal {
    uint32_t channels;
    uint64_t frames;
    const float *samples;
    double rate_hz;
    uint64_t epoch, record;
    const struct invalid_range *invalid; /* sorted by `from` */
    uint32_t invalid_count;
    const struct analysis_saturation *saturated; /* of inputs, sorted by `from` */
    uint32_t saturated_count;
};

/* An event with what it points to. */
struct kept_event {
    struct analysis_event event;
    void *body;
    float *samples;
};

struct analysis_world {
    struct analysis_stream stream;
    const struct analysis_ops *ops;
    struct analysis_options options;
    struct analysis *analysis; /* NULL after a check with errors */
    char errors[1024];         /* of the check, one a line; warnings begin with "warning: " */
    struct kept_event *events;
    size_t count;
    uint64_t advanced_epoch, advanced; /* the last call of `advance` */
    void *taken[256];                  /* memory of the options */
    unsigned taken_count;
    const struct option_value *written[64]; /* by row; NULL: not written */
    unsigned lines[64];                     /* by row: times that it was written */
};

/* A stream of `channels` channels in `unit`; lives as long as the program. */
struct analysis_stream analysis_world_stream(uint32_t channels, double rate_hz, const char *unit);

/* settings: "key = value", the last one NULL; a comma separates a list's values, and
 * one by lines is set again and again. Opens the analysis
 * unless its check reports an error. Unknown keys and values that do not parse fail the test. */
void analysis_world_open(struct analysis_world *world, const struct analysis_ops *ops,
                         const struct analysis_stream *stream, const char *const *settings);
/* The same; an error or a warning of the check fails the test. */
void analysis_world_open_good(struct analysis_world *world, const struct analysis_ops *ops,
                              const struct analysis_stream *stream, const char *const *settings);
void analysis_world_close(struct analysis_world *world);

/* Zeros; to be freed with free(). */
float *analysis_world_floats(uint64_t count);

/* Frames [from, until) of the signal as one run; tells the epoch's begin and end. */
void analysis_world_put(struct analysis_world *world, const struct analysis_signal *signal,
                        uint64_t from, uint64_t until);

/* The whole signal in random cuts, single frames among them. restore: now and then the analysis is
 * replaced by a new one that reads its state. */
void analysis_world_put_cut(struct analysis_world *world, const struct analysis_signal *signal,
                            struct random_state *random, bool restore);

/* Replaces the analysis by a new one with its state; checks that all shorter states are refused. */
void analysis_world_restore(struct analysis_world *world);

/* Fails the test at the first event that differs in anything. */
void analysis_world_equal(const struct analysis_world *a, const struct analysis_world *b);

/* Random sorted ranges of random causes; returns how many, at most `capacity`. */
uint32_t analysis_world_ranges(struct random_state *random, uint64_t frames,
                               struct invalid_range *ranges, uint32_t capacity);

/* ---- hits ---- */

#define ANALYSIS_WORLD_RATE 1e6

/* Opens an analysis of hits in volts at ANALYSIS_WORLD_RATE; one that the check refuses fails the
 * test. */
void analysis_world_hits(struct analysis_world *world, uint32_t channels,
                         const char *const *settings);
/* The body of event i, which is a hit. */
struct hit;
const struct hit *analysis_world_hit(const struct analysis_world *world, size_t i);
/* The first ordered event from index `from` on; `count` where there is none. */
size_t analysis_world_next_ordered(const struct analysis_world *world, size_t from);

#endif
