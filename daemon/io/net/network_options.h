/*
 * Options of the sources rtp, udp and udp-seq: the socket they read, and the checks that they
 * share with the sink rtp. The thread that builds the configuration.
 */
#ifndef CONVOLVD_IO_NET_NETWORK_OPTIONS_H
#define CONVOLVD_IO_NET_NETWORK_OPTIONS_H

#include "io/net/ingest_options.h"
#include "io/net/key_file.h"
#include "io/receive_path.h"

struct network_options {
    struct ingest_options ingest; /* first: ingest.c knows no more */
    const char *address;   /* "[host]:port", "239.1.2.3:5004", "[ff15::1]:5004"; "*:5004" for any */
    const char *interface; /* for multicast; NULL: the kernel's choice */
    uint64_t receive_buffer_bytes;
    uint32_t work_per_wake;    /* datagrams, 0: 256 */
    enum receive_path receive; /* RECVMMSG for headerless ones */
    bool sequence_big_endian;  /* UDP with 64-bit sequence numbers */
    /* RTP to several workers of a partition, see io/nats. */
    uint32_t standby;      /* how many stand by; 0: the stream is no partition's */
    int64_t hold_ns;       /* how much of the input a standby holds */
    const char *partition; /* the sink's, set by the check across sections */
};

/* Of source rtp, and of what takes its place. */
enum { RTP_SOURCE_ROWS = 19 };
extern const struct option_row rtp_source_rows[RTP_SOURCE_ROWS];

/* The rows of every datagram source … */
#define NETWORK_ROWS                                                                               \
    {.key = "address",                                                                             \
     .type = OPTION_ADDRESS,                                                                       \
     .required = true,                                                                             \
     OPTION_FIELD(struct network_options, address),                                                \
     .sentence = "Where datagrams are received: an own address, a multicast group, or * for "      \
                 "every address, then a colon and the port; IPv6 in brackets, as in "              \
                 "[ff15::1]:5004."},                                                               \
        {.key = "interface",                                                                       \
         .type = OPTION_TEXT,                                                                      \
         .fallback_words = "the kernel's choice",                                                  \
         OPTION_FIELD(struct network_options, interface),                                          \
         .sentence = "The network interface that joins the multicast group, such as eth1."},       \
        INGEST_ROW_ALLOW, INGEST_ROWS_LIMITS, INGEST_ROW_TAKEOVER,                                 \
        {.key = "receive buffer",                                                                  \
         .type = OPTION_MEMORY,                                                                    \
         .minimum = 4096,                                                                          \
         .maximum = 1073741824.0,                                                                  \
         .fallback = "16 MiB",                                                                     \
         OPTION_FIELD(struct network_options, receive_buffer_bytes),                               \
         .sentence = "Size asked for the socket's receive buffer; when the kernel grants less "    \
                     "the log says how to raise its limit."},                                      \
    {                                                                                              \
        .key = "datagrams per wake", .type = OPTION_COUNT, .minimum = 1, .maximum = 65536,         \
        .fallback = "256", .running = true, OPTION_FIELD(struct network_options, work_per_wake),   \
        .sentence = "The most datagrams read from the socket in one go, so that one sender "       \
                    "cannot starve the other streams."                                             \
    }

/* … and of those whose packets are numbered. */
#define NETWORK_ROWS_NUMBERED                                                                      \
    SOURCE_ROW_MODE, INGEST_ROWS,                                                                  \
        KEY_FILE_ROW(struct ingest_options, key,                                                   \
                     "A file with a secret, 64 hexadecimal digits: only datagrams that carry a "   \
                     "tag made with "                                                              \
                     "it are accepted, each once; others are counted as auth and replay. "         \
                     "`openssl rand -hex 32` makes one; convolv-rig --key sends tags."),           \
    {                                                                                              \
        .key = "receive", .type = OPTION_CHOICE, .fallback = "auto", .choices = network_receive,   \
        OPTION_FIELD(struct network_options, receive),                                             \
        .sentence =                                                                                \
            "How datagrams are taken from the kernel: recvmmsg (one by one, each received where "  \
            "it belongs in memory), gro (in batches, UDP_GRO, where the network card or the "      \
            "sender makes batches; one receive time then covers a batch), or auto, which "         \
            "measures both on the running stream and keeps the cheaper one."                       \
    }

extern const struct option_choice network_receive[];

/* What all of them check; `numbered`: the driver has NETWORK_ROWS_NUMBERED. */
void network_check(const struct option_check *check, const struct source_options *options,
                   bool numbered);
/* Members of struct source_ops: check_all, describe, report. */
void network_check_all(const struct driver_sections *all, uint32_t self);
const char *network_describe(const struct source_options *options, char *text, size_t bytes);
void network_report(const struct source_options *options, FILE *out);

/* Whether a numeric address is a multicast group. */
bool network_is_group(const char *address);

/* The options of a datagram source, NULL when the section is none. */
const struct network_options *network_options_of(const struct source_section *section);

/* Payload types to which RFC 3551 gives another meaning. */
void network_check_payload_type(const struct option_check *check, uint32_t payload_type,
                                const struct sample_format *format, double rate_hz,
                                uint32_t channels);

/* Both addresses have one port and name one host, as far as text shows; with any_covers "every own
 * address" covers all hosts. */
bool network_same_place(const char *a, const char *b, bool any_covers);

/* Whether datagrams sent to `to` come to a socket bound to `bound` on this machine. */
bool network_reaches(const char *to, const char *bound);

/* Warns of a group without an interface; `does`: what the kernel does with the group, "joins". */
void network_check_group(const struct option_check *check, const char *address,
                         const char *interface, const char *does);

#endif
