/*
 * The work of a reload that takes time: reads the configuration again, compares, and makes the
 * pipelines of changed and new streams, whole. It is a job (pipeline/job.h): of what runs it has
 * copies, so that one which hangs can be left behind while the next reload works.
 *
 *     reload_work_new ─► job ─► config, made ─► the reload swaps, or refuses
 *                         └─ left behind ─► back after all: `returned`, what it made is closed
 *
 * Loop thread, except the job inside.
 */
#ifndef CONVOLVD_SERVICE_RELOAD_WORK_H
#define CONVOLVD_SERVICE_RELOAD_WORK_H

#include "control/process.h"
#include "pipeline/heritage.h"
#include "pipeline/job.h"
#include "service/numbers.h"

/* A pipeline that ran as the job began. It may be gone once the job was left behind. */
struct running {
    struct pipeline *pipeline;
    char hash[CONFIG_HASH_TEXT];
    struct heritage heritage; /* with its stream's name */
};

struct reload_work {
    struct job job;

    /* set before the job begins */
    struct pipelines *pipelines; /* makes new ones; its list is not looked at */
    struct handover *handover;
    struct config *in_use;             /* held */
    struct running *running;           /* [running_count] */
    uint32_t running_count, all_count; /* in use; with those on their way out */
    struct heritage *removed;          /* [removed_count] of streams that may come back */
    uint32_t removed_count;
    /* Its thread: it is back after it was left behind. */
    void (*returned)(void *context, struct reload_work *work);
    void *context;

    /* the job's, then LOOP's */
    struct config *config; /* NULL: it could not be read */
    struct pipeline *made[PIPELINES_MAX];
    uint32_t made_count, kept;
    int error;
    struct problem problem;
    struct config_errors errors; /* messages about the configuration, for requesters */
    struct reload_work *next;    /* of those that are back */
};

/* `running_count` is what runs now. NULL: out of memory. */
struct reload_work *reload_work_new(const struct process *process, const struct numbers *numbers,
                                    void (*returned)(void *context, struct reload_work *work),
                                    void *context);
/* Its configuration and its pipelines are the caller's by then. NULL is fine. */
void reload_work_free(struct reload_work *work);

/* The pipeline that it has made for the stream of this name; NULL: none. */
struct pipeline *reload_work_made(const struct reload_work *work, const char *name);

#endif
