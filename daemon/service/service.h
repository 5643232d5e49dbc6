/*
 * Service: the daemon's life. Owns the event loop, the engine, the scheduler and one pipeline
 * per configured stream, and takes them through their phases:
 *
 *     preparing ─► running ─► draining ─► closing sinks ─► table ─► closing sources ─► stopped
 *       (worker)      │ SIGTERM, SIGINT, or every source has come to its end
 *                     ├ SIGUSR1: the table
 *                     └ SIGHUP: the configuration is read again; unchanged streams run on
 *
 * Draining stops the sources, processes what was received, lets the tails follow and ends
 * within `drain timeout`; a second signal leaves at once, with files as they are after their last
 * flush. Sources of a finite length end the run by themselves, without a limit of time.
 *
 * The thread that calls service_run is the loop thread.
 */
#ifndef CONVOLVD_SERVICE_SERVICE_H
#define CONVOLVD_SERVICE_SERVICE_H

#include "core/error.h"
#include "config/config.h"

struct service_options {
    const struct config *config;
    /* From the command line; NULL: as the configuration says. */
    const char *kernels_dir;
    const char *variant;
    const char *status_json;
    bool keep_log_level; /* a reload does not change it */
};

/* Runs until stopped: 0, or why it could not start. */
int service_run(const struct service_options *options, struct problem *problem);

#endif
