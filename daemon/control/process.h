/*
 * The process as control surfaces, reload and watchdog see it: its phase, the configuration in use
 * and what runs. The service owns the structure, writes it and hands out a pointer; the others read
 * it. So control/ answers questions about the whole daemon without knowing the service.
 *
 * Loop thread.
 */
#ifndef CONVOLVD_CONTROL_PROCESS_H
#define CONVOLVD_CONTROL_PROCESS_H

#include <stdbool.h>
#include <stdint.h>

#include "config/config.h"
#include "io/environment.h"
#include "pipeline/devices.h"
#include "pipeline/pipelines.h"
#include "pipeline/takeover.h"

struct alarms;

enum process_phase {
    PROCESS_PREPARING, /* a worker makes engines and pipelines */
    PROCESS_RUNNING,
    PROCESS_DRAINING, /* the sources have stopped; the pipelines process what they delivered */
    PROCESS_CLOSING_SINKS,
    PROCESS_CLOSING_SOURCES, /* the last status has been printed */
    PROCESS_STOPPED,         /* every handle is closing: the loop ends by itself */
};

struct process {
    const struct io_environment *environment; /* main loop, OSC peers, sockets handed over */
    struct loops *loops;                      /* all of them */
    struct pipelines *pipelines;
    struct devices *devices;
    struct takeover *takeover;
    struct alarms *alarms;       /* NULL: not yet */
    const struct config *config; /* in use; a reload replaces it */
    int64_t started_ns;          /* monotonic */
    enum process_phase phase;
    bool connected; /* the pipelines are prepared and connected: there is something to show */
    bool stopping;  /* a signal asked the daemon to stop */
};

/* "preparing", "running", "stopping" or "stopped". */
const char *process_phase_name(enum process_phase phase);

#endif
