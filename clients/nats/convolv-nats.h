/*
 * libconvolv-nats: reads the results of a cluster's partition, or its input, from its log in NATS
 * JetStream, by frame number. A library of its own, so that libconvolv needs no NATS:
 *
 *     cc program.c $(pkg-config --cflags --libs convolv-nats)
 *
 * Blocks are those of convolv.h. A reader gets every frame that the log holds from where it begins,
 * once and in order, whoever appended it and whatever becomes of servers and workers meanwhile; the
 * chain of checksums proves that. What nobody computed and what the log has dropped is told.
 *
 * A reader belongs to one thread.
 */
#ifndef CONVOLV_NATS_H
#define CONVOLV_NATS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "convolv.h"

#ifdef __cplusplus
extern "C" {
#endif

struct convolv_log;

/* Strings are copied. */
struct convolv_log_options {
    const char *servers;             /* "nats://host:port, tls://host:port, …" */
    const char *cluster, *partition; /* names */
    const char *credentials; /* file with a line USER:PASSWORD, or a JWT and seed; NULL: none */
    const char *ca;          /* file of certificates that sign the servers'; NULL: no TLS
                                unless an address says tls:// */
    bool input;              /* the partition's input (RAW), else its results (LOG) */
    double full_scale;       /* value of full scale of an integer format; 0: 1 */
    bool events;             /* events of analyses instead of blocks: convolv_log_next_event */
};

int convolv_log_open(const struct convolv_log_options *options, struct convolv_log **out,
                     struct convolv_problem *problem);
void convolv_log_close(struct convolv_log *log); /* NULL is fine */

/* What the samples are; all 0 until the first block. */
struct convolv_log_facts {
    uint32_t channels;
    double rate_hz;
    char format[24]; /* as sample_format names: "f32le", "s16be" */
};
void convolv_log_facts(const struct convolv_log *log, struct convolv_log_facts *facts);

/*
 * Returns 1 and the next block, from the oldest record that the log holds on; 0 when none came
 * within timeout_ms (-1: waits without end), or CONVOLV_ERROR_FORMAT: the log holds other samples
 * under numbers that were read already (a fork), after which nothing more comes. The frames of a
 * block are all valid, or all invalid for the same causes; invalid_from … invalid_until says which.
 */
int convolv_log_next(struct convolv_log *log, int timeout_ms, struct convolv_block *block);

/* An event of an analysis of the stream. */
struct convolv_log_event {
    const char *analysis; /* its name; valid, as `json`, until the next call */
    uint64_t number;      /* of the analysis in this log: 1, 2, …; begins anew higher up where the
                             daemons had lost what the analysis held */
    uint64_t lost;        /* numbers before it that the log had dropped, or that begin anew */
    const char *json;     /* one object, as the sink `jsonl` writes it */
    size_t length;
};

/*
 * With `events`. Returns 1 and the next event, in the order of its analysis, each once; 0 when none
 * came within timeout_ms (-1: waits without end), or CONVOLV_ERROR_FORMAT: the log holds other
 * samples or events under numbers that were read already (a fork), after which nothing more comes.
 */
int convolv_log_next_event(struct convolv_log *log, int timeout_ms,
                           struct convolv_log_event *event);

/* How long the servers have been silent [ns]; INT64_MAX: they have never answered. */
int64_t convolv_log_quiet_ns(const struct convolv_log *log);

/* datagrams: records read; accepted: those with new samples or holes; heartbeats: those without;
 * rejected: MALFORMED are no records, DUPLICATE were read before, OLD contradict what was. lost:
 * times that the log had dropped frames before they were read (frames_lost of them). */
void convolv_log_ledger(const struct convolv_log *log, struct convolv_receiver_ledger *ledger);

#ifdef __cplusplus
}
#endif

#endif
