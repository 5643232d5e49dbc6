/*
 * Senders: decides whose datagrams an ingest follows.
 *
 * A sender is known by its host, its port and (RTP) its SSRC. The ingest follows one. While that
 * one is alive, every other is refused by name: `ssrc` for another SSRC of the same host, `source`
 * for another port of the same host, `address` for another host. After `takeover` of silence
 * another sender takes over: with numbers once two consecutive datagrams prove it, without numbers
 * at once. RFC 3550 8.2 treats colliding SSRCs in the same way.
 *
 * An SSRC that continues from another port of its host is the same sender, whose program has opened
 * another socket: at least two consecutive numbers that continue those of the old port, while that
 * one is silent for SENDERS_MOVE_NS. Until then its datagrams are refused.
 *
 * Each refused sender is named once in the log, as is each new sender that is followed.
 *
 * Also owns what each sender needs: the state of its numbers, and the one packet that is held until
 * it is proven. `ledger` counts the held ones and what becomes of them.
 *
 * No sockets and no clock. Loop thread; nothing allocates after open.
 */
#ifndef CONVOLVD_IO_NET_SENDERS_H
#define CONVOLVD_IO_NET_SENDERS_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/socket.h>

#include "core/clock.h"
#include "core/codec.h"
#include "core/log.h"
#include "io/net/stamp_steps.h"
#include "io/source.h"
#include "stream/sequence.h"

enum {
    SENDERS_HELD_BYTES = 65536, /* the largest payload */
    SENDERS_CANDIDATES = 2,     /* so that a forged datagram does not delay a true sender */
    SENDERS_NAMED = 8,          /* refused senders that the log names at once */
    SENDERS_MOVE_AHEAD = 16,    /* numbers that may be missing where another port continues */
};

/* Longer than a sender pauses between two packets of a stream, and than the reordering of a local
 * network: a forged packet comes between true ones. */
static const int64_t SENDERS_MOVE_NS = 20 * NS_PER_MS;

/* A port from which the SSRC followed seems to continue. */
struct sender_move {
    bool active;
    struct sockaddr_storage from;
    uint64_t next; /* the number expected from it */
    int64_t since_ns;
};

/* What tells one sender from another. */
struct sender_id {
    struct sockaddr_storage from;
    uint32_t ssrc; /* RTP; else 0 */
};

struct sender {
    bool active;
    struct sender_id id;
    int64_t last_ns; /* of its newest datagram, monotonic */
    struct sequence sequence;
    struct stamp_steps stamps;
    bool holding;
    struct packet held; /* its payload lies in held_payload */
    uint8_t *held_payload;
};

struct senders_options {
    const char *stream; /* for messages */
    bool has_ssrc;
    int64_t takeover_ns; /* silence of the sender followed after which another takes over; 0: at
                            once */
    struct sequence_options numbers;
    struct source_ledger *ledger;
};

struct senders {
    struct senders_options options;
    struct sender all[1 + SENDERS_CANDIDATES]; /* [0] is the one followed */
    uint8_t *buffers;
    struct sender_move move;
    struct sender_id named[SENDERS_NAMED]; /* refused, and named in the log */
    uint32_t named_count;
    struct log_limit refused_limit, followed_limit;
};

/* WORKER. 0 or ERROR_MEMORY. */
int senders_open(struct senders *senders, const struct senders_options *options,
                 struct problem *problem);
void senders_close(struct senders *senders);

/* The sender followed, for other senders to go on from; see core/codec.h. */
void senders_walk(struct senders *senders, struct codec *codec);

static inline struct sender *senders_followed(struct senders *senders)
{
    return &senders->all[0];
}

/* Whether this is the sender followed. */
bool senders_is_followed(const struct senders *senders, const struct sockaddr_storage *from,
                         uint32_t ssrc);
/* The sender followed, or a candidate; NULL: it is neither. */
struct sender *senders_known(struct senders *senders, const struct sockaddr_storage *from,
                             uint32_t ssrc);
/* The sender of a datagram received at `now_ns`: the one followed, or a candidate that may take
 * over. NULL: refused, counted in *reason's name by the caller; the log names it once. */
struct sender *senders_find(struct senders *senders, const struct sockaddr_storage *from,
                            uint32_t ssrc, int64_t now_ns, enum reject *reason);
/* Whether this datagram, which senders_find refused, proves that the sender followed sends from
 * another port now; it is the one followed then. */
bool senders_moves(struct senders *senders, const struct sockaddr_storage *from, uint32_t ssrc,
                   uint64_t sequence, int64_t now_ns);
/* Makes a proven candidate the sender followed, and returns it. *changed: another one was followed
 * before. */
struct sender *senders_follow(struct senders *senders, struct sender *candidate, bool *changed);
/* Forgets the candidates: two datagrams of one count as consecutive only when none of the sender
 * followed came between them. */
void senders_forget_candidates(struct senders *senders);
/* Why a datagram of `sender` is refused while another one is followed. */
enum reject senders_stranger(const struct senders *senders, const struct sender *sender);
/* Rejects the packet that is held, if there is one. */
void senders_reject_held(struct senders *senders, struct sender *sender, enum reject reason);

#endif
