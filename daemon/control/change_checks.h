/*
 * What a change request must hold before its plan is taken into use.
 *
 * Loop thread.
 */
#ifndef CONVOLVD_CONTROL_CHANGE_CHECKS_H
#define CONVOLVD_CONTROL_CHANGE_CHECKS_H

#include "control/process.h"
#include "core/error.h"

struct plan;

/* ERROR_LIMIT for a plan that would raise the load of all live streams on its device above 90 %. */
int change_check_load(const struct process *process, const struct pipeline *changed,
                      const struct plan *plan, struct problem *problem);

/* ERROR_UNSUPPORTED for a filter of another delay on an aligned stream. */
int change_check_delay(const struct pipeline *pipeline, double delay_frames,
                       struct problem *problem);

#endif
