/*
 * Flat lines: compares the codes in the input rings of all channels that an alarm watches for one.
 * A channel that lives costs a few comparisons in each turn. One whose few are equal is read whole,
 * code by code, until it has been flat for as long as its alarm asks, and from then on a few again.
 *
 * What a turn compares is bounded. When more channels are flat than it can read, they are read, and
 * so raised, one after the other; at least one always is.
 *
 * Loop thread; nothing here allocates.
 */
#ifndef CONVOLVD_CONTROL_FLAT_LINES_H
#define CONVOLVD_CONTROL_FLAT_LINES_H

#include "control/alarm_values.h"

enum { FLAT_READERS_MAX = 8 };

/* One channel of a running stream. */
struct flat_channel {
    struct alarm_reader *reader;
    const struct pipeline *pipeline;
    uint64_t frames_wanted; /* equal codes that its alarm asks for */
};

/* Start zeroed. */
struct flat_lines {
    struct flat_channel reading[FLAT_READERS_MAX]; /* read whole, the first of them first */
    uint32_t reading_count;
};

/* Looks at a few codes of one channel that have come since the last time. */
void flat_lines_look(struct flat_lines *lines, const struct flat_channel *channel);
/* Reads those that are read whole. */
void flat_lines_read(struct flat_lines *lines);
/* Forgets all channels: their readers are gone, or their streams. */
void flat_lines_forget(struct flat_lines *lines);

#endif
