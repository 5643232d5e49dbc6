/*
 * Alarms of the running daemon: every [alarm] of the configuration, `flat line` and `noise floor`,
 * one instance a channel, held against the counters of their streams. What is raised and what ends
 * goes to log, events and OSC, is listed in status and metrics until somebody acknowledges it, and,
 * with `exec = yes`, is left as a file for the service manager (alarm_files.h).
 *
 *     counters, input ring ──25 ms── flat lines ──┐
 *                          ──100 ms─ alarm_values ┴── alarm/ ──► raised, ended ──► told
 *
 * All of it runs on a timer of the loop, off the way of the samples, and each turn has a bound: of
 * more instances than it can look at, the next turn looks at the next. A reload makes the instances
 * anew; those that are active or pending go on.
 *
 * Loop thread.
 */
#ifndef CONVOLVD_CONTROL_ALARMS_H
#define CONVOLVD_CONTROL_ALARMS_H

#include <jansson.h>
#include <stdint.h>
#include <stdio.h>

#include "control/process.h"

struct alarms;

/* `process` outlives it. Starts its timer; there is nothing to watch before the pipelines are
 * connected. 0 or ERROR_MEMORY. */
int alarms_open(const struct process *process, struct alarms **out);
/* Frees itself after uv's close; NULL is fine. */
void alarms_close(struct alarms *alarms);

/* Those that are active, or have ended and are not acknowledged: a JSON list, the caller's. */
json_t *alarms_json(const struct alarms *alarms);
/* The same as lines of the table; nothing when there are none. */
void alarms_print(const struct alarms *alarms, FILE *out);

/* Whether an alarm is called that; if none is, `names`, of at least 64 bytes, gets the names there
 * are, with commas; where they do not fit, "and 3 more" ends them. */
bool alarms_have(const struct alarms *alarms, const char *name, char *names, size_t bytes);

/* Acknowledges those listed that have this name, stream and channel (from 1); NULL and 0: any.
 * Returns how many were not acknowledged before. `who` asked, for the log. */
uint32_t alarms_acknowledge(struct alarms *alarms, const char *name, const char *stream,
                            uint32_t channel, const char *who);

/* Who is told of the noise floor: `levels`, one a channel, 0 where no frames came; NULL: the stream
 * is gone. Not called once alarms_close was. */
struct noise_request {
    void (*measured)(void *context, uint64_t number, const double *levels, uint32_t channels);
    void *context;
    uint64_t number;
};

/* The noise floor that was measured, a level a channel, 0 where no frames came; NULL: it was not.
 * Valid until it is measured again. */
const double *alarms_measured_noise(const struct alarms *alarms, const char *stream,
                                    uint32_t *channels);

/* Measures the level of every channel over the next second and takes it as the noise floor, in
 * place of the configuration's, until the process ends. 0; ERROR_ARGUMENT: the stream is measured
 * already; ERROR_MEMORY. `who` asked, for the log. */
int alarms_measure_noise(struct alarms *alarms, const struct pipeline *pipeline, const char *who,
                         const struct noise_request *request);

#endif
