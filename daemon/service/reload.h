/*
 * Reload: takes another configuration into use while the daemon runs. Streams that have not changed
 * run on untouched; changed and new ones are prepared whole on a worker while the old ones run, and
 * the loop then swaps them.
 *
 *     SIGHUP ─► job: read, check, compare, prepare ─► loop: connect ─► stop old, then start new
 *                └─────────────────────────────────────────┴ refused: the log says why, nothing
 *                                                            has changed
 *     old: drain ─► close sinks ─► close source ─► free
 *
 * What the system may refuse a new source is taken while the old one still runs (source_ops.arm),
 * so a refusal costs no stream. Old and new streams must fit into memory together: when the new
 * ones may take more (report/memory.h) than the system has left, the reload is refused with both
 * figures.
 *
 * The source of a swapped stream takes over the socket of its predecessor (io/net/handover.h), so
 * no datagram is lost; datagrams wait in the kernel while the predecessor finishes (swap.h). Where
 * the filters are the same, the stream goes on in the middle of its epoch (pipeline/succession.h);
 * else it begins the next one (pipeline/heritage.h), whose first S - 1 frames are flagged as
 * settling. [device], [osc] and the directories cannot change while running: such a configuration
 * is refused.
 *
 * Preparing (service/reload_work.h) and freeing are jobs with a deadline for each step: one that
 * hangs is left behind (pipeline/job.h), and the next reload works.
 *
 * Loop thread.
 */
#ifndef CONVOLVD_SERVICE_RELOAD_H
#define CONVOLVD_SERVICE_RELOAD_H

#include <stdbool.h>

#include "control/commands.h"
#include "control/process.h"
#include "service/numbers.h"

struct reload;

/* What a reload tells its owner; each is needed. */
struct reload_host {
    struct process *process; /* its `config` is replaced by a successful reload */
    struct numbers *numbers;
    bool keep_log_level; /* the command line has set it */
    void *context;
    void (*started)(void *context); /* the configuration is being read */
    /* The new pipelines run, or the reload was refused. */
    void (*finished)(void *context, const struct reload_outcome *outcome);
    void (*changed)(void *context); /* call reload_advance soon, and then every few ms */
};

int reload_open(const struct reload_host *host, struct reload **out);
/* Closes its handles; what it prepares or frees is left behind. NULL is fine. */
void reload_stop(struct reload *reload);
void reload_close(struct reload *reload); /* the loop has ended; NULL is fine */

/* Reads the configuration again; a reload already under way is followed by another one. */
void reload_start(struct reload *reload);

/* A job is preparing: what it makes is not in the registry yet. */
bool reload_busy(const struct reload *reload);

/* The daemon stops: takes the pairs of a reload under way (swap.h) one step further, and starts
 * nothing. */
void reload_settle(struct reload *reload);
/* Whether some new stream still waits for the state of the stream that it replaces. */
bool reload_has_open_epoch(const struct reload *reload);
/* Whether the replaced pipelines have delivered everything. */
bool reload_settled(const struct reload *reload);
/* There is no more time for that: what the replaced pipelines have not delivered is dropped. */
void reload_cut(struct reload *reload);

/* Takes the replaced pipelines one step further. False: it waits for nothing. */
bool reload_advance(struct reload *reload);

#endif
