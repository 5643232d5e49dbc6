/*
 * Environment of the drivers: what the sources and sinks of one process share. The service makes
 * it before the first stream and passes it to every `open`, so that no driver keeps a global.
 *
 * Each member belongs to one folder of io and is opaque elsewhere. A driver copies the structure;
 * what the members point to outlives every source and sink. A member that is NULL is not there:
 * the drivers say below what they do then.
 */
#ifndef CONVOLVD_IO_ENVIRONMENT_H
#define CONVOLVD_IO_ENVIRONMENT_H

#include <stdint.h>
#include <uv.h>

struct cluster;
struct handover;
struct nats_hub;
struct osc_hub;
struct sound_cards;

/* When the recordings that were started last began: those started together begin at one instant. */
struct replay_clock {
    uint64_t loop_ms; /* of the loop's iteration that started them */
    int64_t start_ns, start_realtime_ns;
};

struct io_environment {
    uv_loop_t *loop;           /* runs start, put, stop and close of every driver */
    struct handover *handover; /* io/net: sockets bound before; NULL: every source binds its own */
    struct osc_hub *osc; /* io/osc: the OSC server; NULL: none, neither blocks nor subscribers */
    struct sound_cards *cards;     /* io/sound: the open cards; NULL: source and sink share none */
    struct nats_hub *nats;         /* io/nats: where sources and sinks of partitions meet */
    const struct cluster *cluster; /* who this daemon is in its cluster */
    /* Share of the busiest device's time that streams have had lately; NULL: not known. */
    double (*load)(void *context);
    void *load_context;
    struct replay_clock *replays; /* io/replay.h; NULL: each recording begins by itself */
};

#endif
