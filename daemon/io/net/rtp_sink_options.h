/*
 * Options of the sink rtp: what its keys say, whether a frame fits a packet, and what `--check`
 * reports of it. The thread that builds the configuration, and the worker that opens the sink.
 */
#ifndef CONVOLVD_IO_NET_RTP_SINK_OPTIONS_H
#define CONVOLVD_IO_NET_RTP_SINK_OPTIONS_H

#include <limits.h>

#include "io/sink.h"

struct rtp_sink_options {
    const char *address; /* "host:port" */
    const char *interface;
    uint32_t payload_type, ttl, mtu; /* mtu: bytes of the IP packet, 0: 1500 */
    bool ssrc_set;
    uint32_t ssrc;
    const char *sdp_path; /* NULL: none */
    uint64_t send_buffer_bytes;
    const char *key;            /* file of the key that tags are made with; NULL: no tags */
    char sdp_default[PATH_MAX]; /* where sdp_path points when the key is not written */
};

enum { RTP_SINK_ROWS = 9 };
extern const struct option_row rtp_sink_rows[RTP_SINK_ROWS];

/* Bytes of a packet that are not samples. */
uint32_t rtp_sink_header_bytes(const struct rtp_sink_options *own);

/* The members of struct sink_ops. */
void rtp_sink_check(const struct option_check *check, const struct daemon_facts *facts,
                    const struct stream_facts *stream, struct sink_options *options);
void rtp_sink_check_all(const struct driver_sections *all, uint32_t self);
void rtp_sink_report(const struct sink_options *options, double bytes_per_second, FILE *out);
uint64_t rtp_sink_memory(const struct sink_options *options);
struct sink_load rtp_sink_load(const struct sink_options *options, double block_frames);

#endif
