/* Shared by the files that run alarms (alarms.c, alarm_items.c, alarm_tell.c) and by nobody else.
 */
#ifndef CONVOLVD_CONTROL_ALARMS_INTERNAL_H
#define CONVOLVD_CONTROL_ALARMS_INTERNAL_H

#include <uv.h>

#include "control/alarm_events.h"
#include "control/alarm_files.h"
#include "control/alarm_values.h"
#include "control/process.h"
#include "control/flat_lines.h"
#include "core/option.h"

/* One alarm of one channel, or of one stream as a whole. Names are copies: the configuration may be
 * freed before the next turn of the timer. */
struct alarm_item {
    char name[OPTION_NAME_BYTES], stream[OPTION_NAME_BYTES];
    char unit[QUANTITY_UNIT_BYTES]; /* of its value and limits; "" for numbers */
    /* of an analysis: its name and the quantity as written; else "" */
    char analysis[OPTION_NAME_BYTES], figure[OPTION_NAME_BYTES];
    enum alarm_quantity quantity;
    bool amplitude; /* the value is one of the channel */
    bool exec;
    struct alarm_rule rule;
    struct pipeline *pipeline;        /* as long as the registry has the same version */
    struct alarm_reader reader;       /* of a stream … */
    struct alarm_figure *of_analysis; /* … or of an analysis; else NULL */

    struct alarm alarm;
    double value;      /* the last one known; when it was raised, or as it ended */
    bool listed;       /* active, or ended and not acknowledged */
    bool acknowledged; /* while active */
    bool told;         /* this turn has something to tell of it */
    enum alarm_change change;
    int64_t lasted_ns; /* ended: how long it was active */
    int64_t raised_realtime_ns, ended_realtime_ns;
};

/* A noise floor that was measured, in place of the configuration's. */
struct noise_floor {
    struct noise_floor *next;
    char stream[OPTION_NAME_BYTES];
    uint32_t channels;
    bool known;     /* it was measured: the levels hold */
    bool measuring; /* since `since_ns`; the levels are those of before */
    int64_t since_ns;
    void (*measured)(void *context, uint64_t number, const double *levels, uint32_t channels);
    void *context;
    uint64_t number;
    double *levels; /* [channels], 0: not known */
    struct {
        double counters[WINDOW_VALUES]; /* as it began */
    } channel[];
};

struct alarms {
    const struct process *process;
    uv_timer_t timer;
    uint32_t turns;
    struct alarm_files *files;
    struct noise_floor *noise;

    /* the instances, those of one alarm and stream one behind the other */
    struct alarm_item *items;
    uint32_t count;
    const struct config *config; /* what they were made of … */
    uint64_t version;            /* … and the registry then */
    struct alarm_events events;
    struct flat_lines flat;
    uint32_t at_value, at_flat; /* where the next turn goes on */
};

/* alarm_items.c: makes the instances anew when configuration or registry have changed; what is
 * active or pending goes on. Without memory there are none. */
void alarm_items_update(struct alarms *alarms, int64_t now_ns);
void alarm_items_free(struct alarm_item *items, uint32_t count);

/* The name of its quantity: "level", "peak_db". */
const char *alarm_item_quantity(const struct alarm_item *item);

/* alarm_tell.c: items [from, until) of one alarm and stream changed alike in this turn where they
 * are marked as told. */
void alarm_tell(struct alarms *alarms, const struct alarm_item *from,
                const struct alarm_item *until);
/* "level 0.0012 V is below 0.002 V"; once it has ended "level 0.0031 V". Returns `text`. */
const char *alarm_sentence_of(const struct alarm_item *item, char *text, size_t bytes);

#endif
