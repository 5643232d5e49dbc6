/*
 * Options of every source that places numbered packets by ingest.h: which sender it accepts and
 * when it takes a packet for late, lost, or a restarted sender's. A driver's options begin with
 * struct ingest_options, and its table of rows holds INGEST_ROWS.
 */
#ifndef CONVOLVD_IO_NET_INGEST_OPTIONS_H
#define CONVOLVD_IO_NET_INGEST_OPTIONS_H

#include "io/rows.h"
#include "io/source.h"

struct ingest_options {
    struct option_values allow; /* senders to accept, see allowed.h; none: `own` */
    const char *interface; /* whose networks `own` means; NULL: all. A driver's check sets it */
    const char *key;       /* file of the key that tags are made with; NULL: no tags */
    uint64_t packet_limit, byte_limit; /* a second, from one address; 0: none */
    int64_t takeover_ns;               /* silence after which another sender is followed, 1 s */
    int64_t max_dropout_ns;            /* RFC 3550 A.1 MAX_DROPOUT as a time, 1 s */
    int64_t max_misorder_ns;           /* MAX_MISORDER as a time, 10 ms */
    uint32_t payload_type;             /* RTP, 0…127 */
    bool ssrc_pinned;                  /* RTP: only `ssrc` is accepted */
    uint32_t ssrc;
};

#define INGEST_ROW_ALLOW                                                                           \
    {                                                                                              \
        .key = "allow", .type = OPTION_TEXT, .list = LIST_COMMA, .words = "networks",              \
        .fallback_words =                                                                          \
            "own, this machine and the networks of its interfaces; with source = osc whom [osc] "  \
            "hears",                                                                               \
        OPTION_FIELD(struct ingest_options, allow),                                                \
        .sentence = "Addresses and networks whose datagrams are accepted, such as 192.0.2.7, "     \
                    "10.0.0.0/8, own (this machine and the networks of its interfaces, or of "     \
                    "`interface`) or any; all others are counted as not allowed and dropped."      \
    }

#define INGEST_ROWS_LIMITS                                                                         \
    {.key = "packet limit",                                                                        \
     .type = OPTION_COUNT,                                                                         \
     .minimum = 1,                                                                                 \
     .maximum = 1e9,                                                                               \
     .fallback_words = "none",                                                                     \
     OPTION_FIELD(struct ingest_options, packet_limit),                                            \
     .sentence = "The most datagrams a second that are taken from one address, averaged over "     \
                 "0.1 s; others are counted as rate limit and dropped."},                          \
    {                                                                                              \
        .key = "byte limit", .type = OPTION_MEMORY, .minimum = 1024, .maximum = 1e12,              \
        .fallback_words = "none", OPTION_FIELD(struct ingest_options, byte_limit),                 \
        .sentence = "The same in bytes a second, headers of the protocol counted, those of UDP "   \
                    "and IP not."                                                                  \
    }

#define INGEST_ROW_TAKEOVER                                                                        \
    {                                                                                              \
        .key = "takeover", .type = OPTION_TIME, .minimum = 0.001, .maximum = 3600,                 \
        .fallback = "1 s", OPTION_FIELD(struct ingest_options, takeover_ns),                       \
        .sentence = "How long the sender that is followed must be silent before another one, or "  \
                    "the same one restarted, takes over; until then the datagrams of others are "  \
                    "counted and dropped."                                                         \
    }

#define INGEST_ROWS                                                                                \
    {.key = "reorder",                                                                             \
     .type = OPTION_TIME,                                                                          \
     .minimum = 0,                                                                                 \
     .maximum = 10,                                                                                \
     .fallback = "5 ms",                                                                           \
     .common = true,                                                                               \
     OPTION_FIELD(struct source_options, reorder_ns),                                              \
     .sentence = "How long a missing packet is awaited before its frames become a gap."},          \
        SOURCE_ROW_MAX_GAP,                                                                        \
        {.key = "max dropout",                                                                     \
         .type = OPTION_TIME,                                                                      \
         .minimum = 0.001,                                                                         \
         .maximum = 3600,                                                                          \
         .fallback = "1 s",                                                                        \
         OPTION_FIELD(struct ingest_options, max_dropout_ns),                                      \
         .sentence = "RFC 3550 A.1's MAX_DROPOUT as a time: a larger step of the sequence number " \
                     "must be confirmed by a second packet."},                                     \
    {                                                                                              \
        .key = "max misorder", .type = OPTION_TIME, .minimum = 0, .maximum = 10,                   \
        .fallback = "10 ms", OPTION_FIELD(struct ingest_options, max_misorder_ns),                 \
        .sentence = "RFC 3550 A.1's MAX_MISORDER as a time: a packet older than this is taken "    \
                    "for a restarted sender, to be confirmed by a second one."                     \
    }

/* source_ops.loss of numbered packets. */
#define NUMBERED_LOSS                                                                              \
    "detectable: sequence numbers show every lost packet; gaps are filled, flagged and counted"

/* `allow` lists networks, and a packet that is awaited is not too old to count. `numbered`: the
 * driver has INGEST_ROWS. */
void ingest_options_check(const struct option_check *check, const struct source_options *options,
                          bool numbered);

#endif
