/*
 * The table of metrics: one row a metric says where in the daemon's status its figures stand and
 * what they are called. metrics.c writes them, and the table of docs/monitoring.md.
 *
 * Constant data; any thread.
 */
#ifndef CONVOLVD_WEB_METRICS_TABLE_H
#define CONVOLVD_WEB_METRICS_TABLE_H

#include <stddef.h>

enum metric_type { GAUGE, COUNTER, HISTOGRAM };

/* What one sample speaks of, and so its first labels. */
enum metric_scope {
    PROCESS,
    DEVICE,
    STREAM,
    SINK,
    PARTITION,
    CHANNEL,
    ANALYSIS,
    ANALYSIS_SINK,
    ANALYSIS_CHANNEL,
    ALARM,
    SCOPES,
};

/* How the JSON below `path` becomes samples. */
enum metric_form {
    NUMBER,  /* a number or a boolean; of a list, its length */
    MEMBERS, /* an object: one sample a member, whose name is the value of label `label` */
    SUM,     /* an object: all its members together */
    STATES,  /* a word: one sample for each word of `label`, 1 where it is this one */
    FACTS,   /* an object: one sample of 1 that has the members of `label` as labels */
};

struct metric {
    const char *name; /* without convolvd_ */
    enum metric_type type;
    enum metric_scope scope;
    const char *path; /* dots separate members; "": the whole object */
    enum metric_form form;
    const char *label; /* MEMBERS: its name; STATES, FACTS: a list, one separated by | */
    double scale;      /* 0: 1 */
    const char *help;
};

extern const struct metric metrics[];
extern const size_t metrics_count;

/* The first labels of every sample of this scope: "stream, sink". */
const char *metric_labels(enum metric_scope scope);

#endif
