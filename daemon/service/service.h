/*
 * The service: runs the daemon from its configuration to its exit status. It owns the event loop,
 * the devices and the registry of pipelines, and takes them through their phases:
 *
 *     preparing ─► running ─► draining ─► closing sinks ─► status ─► closing sources ─► stopped
 *       (worker)      │ SIGTERM, SIGINT, or every source has come to its end
 *                     ├ SIGUSR2: the same, and the next daemon goes on (store.h)
 *                     ├ SIGUSR1: prints the status
 *                     └ SIGHUP: reads the configuration again; unchanged streams run on
 *
 * Draining stops the sources, processes what they have delivered, lets the tails follow and ends
 * within `drain timeout`. Every later phase has a deadline of its own, and a signal while preparing
 * sets one: past it the process says what hangs and exits with status 3 (hung.h). A second signal
 * exits at once and leaves files as they were after their last flush. A run whose sources all have
 * an end stops by itself. It waits for its slowest sink as long as that makes progress
 * (pipeline/run_end.h); what is lost nevertheless makes the exit status SERVICE_EXIT_LOSSES.
 *
 * The thread that calls service_run is the loop thread.
 */
#ifndef CONVOLVD_SERVICE_SERVICE_H
#define CONVOLVD_SERVICE_SERVICE_H

#include "core/error.h"
#include "config/config.h"
#include "service/exit_status.h"

struct service_options {
    const struct config *config;
    /* From the command line; NULL: as the configuration says. */
    const char *kernels_dir;
    const char *variant;
    const char *status_json;
    bool keep_log_level; /* a reload does not change it */
};

/* Runs until stopped. Returns the exit status (0 or enum service_exit), or a negative error: why it
 * could not start. */
int service_run(const struct service_options *options, struct problem *problem);

#endif
