/*
 * The least and the greatest of the values that came within the last seconds. Values that come
 * within a tenth of its length share one entry, so that a value counts for the length or up to a
 * tenth longer, however many come.
 *
 * Pure: the caller brings values and time. One thread.
 */
#ifndef CONVOLVD_ALARM_SPREAD_H
#define CONVOLVD_ALARM_SPREAD_H

#include <stdbool.h>
#include <stdint.h>

enum { SPREAD_ENTRIES = 12 };

struct spread {
    int64_t length_ns; /* set by the owner; the rest starts zeroed */
    uint32_t count, newest;
    double last; /* the value that came last, once `count` is not 0 */
    struct {
        int64_t from_ns, until_ns; /* when the first and the last of its values came */
        double least, greatest;
    } entries[SPREAD_ENTRIES];
};

/* A value came now; times ascend. NAN is left out. */
void spread_put(struct spread *spread, double value, int64_t now_ns);

/* False: none came within the length. */
bool spread_read(const struct spread *spread, int64_t now_ns, double *least, double *greatest);

#endif
