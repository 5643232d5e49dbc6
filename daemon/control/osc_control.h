/*
 * OSC control: the OSC server as a control surface. It answers the messages listed by
 * `convolvd --help-osc`: lists streams, tells what is known of each, subscribes peers to levels and
 * results, and runs commands (control/commands.h).
 *
 * Opened when the pipelines are connected, before their sources start. Loop thread, except
 * osc_control_free.
 */
#ifndef CONVOLVD_CONTROL_OSC_CONTROL_H
#define CONVOLVD_CONTROL_OSC_CONTROL_H

#include "control/commands.h"
#include "control/process.h"
#include "core/error.h"

struct osc_control;

/* `process` and `commands` outlive it. 0 or an error with its sentence. */
int osc_control_open(const struct process *process, struct commands *commands,
                     struct osc_control **out, struct problem *problem);
/* Answers no message from here on; uv's closes follow. NULL is fine. */
void osc_control_close(struct osc_control *control);
/* The loop has ended. NULL is fine. */
void osc_control_free(struct osc_control *control);

#endif
