/*
 * Network source: a source of one datagram protocol = a bound socket (socket.h), a receiver on
 * the loop (receiver.h) and the protocol's ingest (ingest.h). rtp_source.c and udp_source.c
 * give it their row of struct ingest_protocol and share all the rest of struct source_ops.
 */
#ifndef CONVOLVD_IO_NET_NETWORK_SOURCE_H
#define CONVOLVD_IO_NET_NETWORK_SOURCE_H

#include "io/net/ingest.h"

/* Protocols of the table of sources, for tests and fuzzing. */
extern const struct ingest_protocol rtp_protocol, udp_protocol, udp_sequence_protocol;

int network_source_open(const struct ingest_protocol *protocol,
                        const struct source_options *options,
                        const struct io_environment *environment, const struct source_host *host,
                        struct source **out, struct problem *problem);
uint64_t network_source_memory(const struct source_options *options);
int network_source_arm(struct source *source, struct problem *problem);
int network_source_start(struct source *source, struct problem *problem);
void network_source_change(struct source *source, const struct source_options *options);
/* Whether it needs packets: a source that does not leaves its multicast group. */
void network_source_listen(struct source *source, bool listens);
void network_source_stop(struct source *source);
void network_source_close(struct source *source, void (*closed)(void *context), void *context);
void network_source_walk(struct source *source, struct codec *codec);
void network_source_ledger(const struct source *source, struct source_ledger *ledger);
void network_source_status(const struct source *source, void *status);
extern const struct driver_status network_source_shown;
uint16_t network_source_port(const struct source *source);

#endif
