/*
 * Clusters: sources that lie within a radius of one another's mean. A source joins the cluster
 * whose mean is nearest, when that is within the radius, and moves the mean; else it opens a
 * cluster. So numbers and sizes depend on the order of sources alone.
 *
 * The list is bounded: when it is full, the smallest cluster makes room, the one that has waited
 * longest first. One thread at a time; clusters_put never allocates.
 */
#ifndef CONVOLVD_ANALYSIS_CLUSTERS_H
#define CONVOLVD_ANALYSIS_CLUSTERS_H

#include <stdint.h>

#include "core/codec.h"

enum { CLUSTERS_MAX = 1024 };

struct cluster {
    uint64_t number; /* 1, 2, … in the order of their first sources */
    uint64_t size;   /* sources so far */
    uint64_t latest; /* counts sources: when it grew last */
    double x_m, y_m; /* mean */
};

struct clusters {
    double radius_m; /* > 0 */
    uint64_t numbers, sources;
    uint32_t count;
    struct cluster list[CLUSTERS_MAX];
};

/* The cluster with the source in it; valid until the next call. */
const struct cluster *clusters_put(struct clusters *clusters, double x_m, double y_m);

/* All but the radius. False: what was read is no such list. */
bool clusters_walk(struct clusters *clusters, struct codec *codec);

#endif
