/*
 * Who asked for what is in force on a running stream, as its results carry it: names for the gains
 * and for the filter. Results in flight carry at most those in force and, until its exchange is
 * through, those of one change: two names take turns.
 *
 * Loop thread; allocates nothing.
 */
#ifndef CONVOLVD_CONTROL_CHANGE_WHO_H
#define CONVOLVD_CONTROL_CHANGE_WHO_H

#include <stdbool.h>
#include <stdint.h>

#include "control/change_request.h"

/* Zeroed: nobody has asked for anything. */
struct change_who {
    char names[2][EVENT_WHO_BYTES];
    uint32_t changes, changes_before; /* that were taken; without the last one */
};

/* Who asked for the filter (or else the gains and mutes) among requests that take effect together:
 * "anna (uid 1000)", "anna (uid 1000) and others"; empty: none of them is for it. Returns `name`.
 */
const char *change_who_of(const struct change_request *first, const struct change_request *merged,
                          uint32_t count, bool filter, char name[EVENT_WHO_BYTES]);

/* The name in force; NULL: nobody's. Valid until the change after the next one is taken. */
const char *change_who_now(const struct change_who *who);
/* Keeps the name of a change that may still fail; the same validity. */
const char *change_who_next(struct change_who *who, const char *name);

/* The change is in use; `named`: it brought a name. */
void change_who_take(struct change_who *who, bool named);
/* The change taken last was cancelled. */
void change_who_take_back(struct change_who *who);

#endif
