/*
 * The inside of an appender, for appender.c, which runs it, and appender_analysis.c, which appends
 * what analyses have.
 */
#ifndef CONVOLVD_IO_NATS_APPENDER_STATE_H
#define CONVOLVD_IO_NATS_APPENDER_STATE_H

#include "core/log.h"
#include "io/nats/appender.h"
#include "io/nats/carried.h"

enum { TEXT_MOST = 600 };

struct nats_appender {
    struct nats_appender_options options;
    struct nats_link *link;
    struct ownership o;
    uv_timer_t timer;
    bool started, pumping, again, closing, told_damaged, told_failed, told_gone;
    int64_t close_ns;
    void (*closed)(void *context);
    void *closed_context;

    /* What the log ends with: as read, then as appended. Its spans are empty. */
    struct record last;
    char newest_plan[TEXT_MOST]; /* as read */
    int64_t newest_ns;           /* realtime: when it was appended */
    uint64_t newest_owner;
    struct nats_carried carried;              /* by the records, as read, then as told */
    char plan[TEXT_MOST], filters[TEXT_MOST]; /* of every record */
    char newest_config[CONFIG_DIGEST];
    bool events;                  /* its records have events of analyses */
    uint64_t checkpoint;          /* of every record, as read, then as told */
    char release_to[WORKER_NAME]; /* of the next release; empty: any */
    struct log_limit unstored;    /* lines that say so */
    bool exists; /* the log has been read or made: it is there until the servers say it is not */
    int64_t create_ns;   /* monotonic: when the log may be made at the earliest */
    bool other_lives;    /* another daemon answers for the log */
    uint64_t told_other; /* the term in which that was said */

    /* With presence. */
    struct nats_presence_part part;
    bool may_stand;   /* as the user says */
    int64_t stand_ns; /* when to look next where this worker stands */
    bool told_differs;

    struct nats_appender_figures figures;
};

/* Sends a record whose own fields are set, behind the one before. False: the link has no room. */
bool appender_send(struct nats_appender *appender, const struct log_end *expect, uint64_t token,
                   struct record *record);
/* One without frames, behind the newest one: what the log ends with holds for it too. */
struct record appender_bare(const struct nats_appender *appender, enum record_kind kind);

#endif
