/*
 * OSC control: what the OSC server's questions do to the running service. Opened when the
 * pipelines are connected, before their sources start.
 *
 * Loop thread, but osc_control_free.
 */
#ifndef CONVOLVD_CONTROL_OSC_CONTROL_H
#define CONVOLVD_CONTROL_OSC_CONTROL_H

#include "core/error.h"

struct service;
struct osc_control;

int osc_control_open(struct service *service, struct osc_control **out, struct problem *problem);
/* No questions from here on; uv's closes follow. NULL is fine. */
void osc_control_close(struct osc_control *control);
/* The loop has ended, the engine is still there: plans that were never taken out of use. NULL is
 * fine. */
void osc_control_free(struct osc_control *control);

#endif
