/*
 * OSC control: the OSC server as a control surface. It answers the messages listed by
 * `convolvd --help-osc`: lists streams, tells what is known of each, subscribes peers to levels and
 * results, and passes on change requests (control/changes.h).
 *
 * Opened when the pipelines are connected, before their sources start. Loop thread, except
 * osc_control_free.
 */
#ifndef CONVOLVD_CONTROL_OSC_CONTROL_H
#define CONVOLVD_CONTROL_OSC_CONTROL_H

#include "control/process.h"
#include "core/error.h"

struct osc_control;

/* `process` outlives it. 0 or an error with its sentence. */
int osc_control_open(const struct process *process, struct osc_control **out,
                     struct problem *problem);
/* Answers no message from here on; uv's closes follow. NULL is fine. */
void osc_control_close(struct osc_control *control);
/* Frees what is kept for pipelines that a reload has freed. NULL is fine. */
void osc_control_forget(struct osc_control *control);
/* The loop has ended, the engines are still open: frees plans that were never taken out of use.
 * NULL is fine. */
void osc_control_free(struct osc_control *control);

#endif
