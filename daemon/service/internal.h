/*
 * Shared by the files that run the daemon (service.c: its life; reload.c: another configuration
 * while running; watch.c: systemd, watchdog, losses; control.c: questions over a socket) and by
 * nobody else.
 *
 * Loop thread, but for what is marked.
 */
#ifndef CONVOLVD_SERVICE_INTERNAL_H
#define CONVOLVD_SERVICE_INTERNAL_H

#include <stdbool.h>
#include <stdint.h>
#include <uv.h>

#include "convolve/engine.h"
#include "core/error.h"
#include "config/config.h"
#include "io/osc/hub.h"
#include "pipeline/pipeline.h"
#include "service/service.h"
#include "control/status.h"
#include "pipeline/devices.h"
#include "stream/scheduler.h"

/* The scheduler's streams, twice over while some take the place of others. */
enum { PIPELINES_MAX = 512 };

enum phase {
    PHASE_PREPARING, /* a worker makes engine and pipelines */
    PHASE_RUNNING,
    PHASE_DRAINING, /* sources stopped; what was received is processed */
    PHASE_CLOSING_SINKS,
    PHASE_CLOSING_SOURCES, /* the table has been printed */
    PHASE_STOPPED,         /* every handle is closing: the loop ends by itself */
};

struct reload;
struct watch;
struct control;
struct osc_control;

struct service {
    /* immutable once running */
    const struct service_options *options;
    struct devices *devices;
    int64_t started_ns;

    /* worker thread while preparing, then the loop's */
    const struct config *config;               /* the one in use */
    struct pipeline *pipelines[PIPELINES_MAX]; /* prepared, the failing one too; a chain's after
                                                  the one it reads */
    uint32_t count;
    int error; /* why the run fails */
    struct problem problem;

    /* loop thread */
    uv_loop_t loop;
    struct io_environment environment; /* of every source and sink; with osc_hub */
    struct osc_hub osc_hub;
    uv_poll_t signals; /* a signalfd: see open_signals */
    int signal_fd;
    uv_async_t changed; /* something ended or closed: advance */
    uv_timer_t tick;
    uv_work_t work;
    enum phase phase;
    bool stopping;  /* a signal asked for it */
    bool abandoned; /* the drain did not end in time */
    bool connected;
    int64_t deadline_ns; /* of the drain; INT64_MAX: none */
    struct reload *reload;
    struct osc_control *osc; /* NULL: no OSC */
    struct watch *watch;
    struct control *control; /* NULL: no runtime directory */
};

/* ---- service.c --------------------------------------------------------------------------- */

/* The running pipeline of that name, not one that is being replaced; NULL: none. */
struct pipeline *service_find(const struct service *service, const char *name);

/* A pipeline for stream `index` of a configuration, not yet prepared; freed by
 * service_free_pipeline. WORKER. */
struct pipeline *service_make_pipeline(struct service *service, const struct config *config,
                                       uint32_t index, struct pipeline *upstream,
                                       struct problem *problem);
void service_free_pipeline(struct pipeline *pipeline); /* WORKER or no loop; NULL is fine */

/* Looks at all again soon, on the loop: something changed. */
void service_changed(void *service);
void service_start_tick(struct service *service);

/* What status.h shows. */
struct status_source service_status(const struct service *service);

/* The reload that a stop had to wait for is over. */
void service_stop_now(struct service *service);

/* ---- reload.c ---------------------------------------------------------------------------- */

int reload_open(struct service *service);
void reload_close(struct reload *reload); /* the loop has ended; NULL is fine */
/* SIGHUP: prepares on a worker, then swaps. */
void reload_start(struct service *service);
/* A worker is preparing: nothing may be stopped yet. */
bool reload_busy(const struct service *service);
/* What was replaced comes to its end, step by step. */
void reload_advance(struct service *service);

/* ---- watch.c ----------------------------------------------------------------------------- */

int watch_open(struct service *service);
void watch_close(struct watch *watch); /* frees itself after uv's close; NULL is fine */
void watch_ready(struct service *service);
void watch_reloading(struct service *service);
void watch_stopping(struct service *service);

/* ---- control.c --------------------------------------------------------------------------- */

/* Listens at RUNTIME_DIRECTORY/control.sock; without one, there is no control socket. */
int control_open(struct service *service, struct problem *problem);
void control_close(struct control *control); /* frees itself after uv's closes; NULL is fine */

#endif
