/* Senders: see senders.h. */
#include "io/net/senders.h"

#include <inttypes.h>
#include <netinet/in.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/clock.h"
#include "core/event.h"
#include "io/net/address.h"

enum { NAME_INTERVAL_S = 30, FOLLOW_INTERVAL_S = 10, WHO_TEXT = ADDRESS_TEXT + 24 };

int senders_open(struct senders *s, const struct senders_options *options, struct problem *problem)
{
    *s = (struct senders){.options = *options};
    s->buffers = malloc((1 + SENDERS_CANDIDATES) * (size_t)SENDERS_HELD_BYTES);
    if (s->buffers == NULL)
        return problem_set(problem, ERROR_MEMORY, "no memory for a source");
    for (int i = 0; i < 1 + SENDERS_CANDIDATES; i++)
        s->all[i].held_payload = s->buffers + (size_t)i * SENDERS_HELD_BYTES;
    return 0;
}

void senders_close(struct senders *s)
{
    free(s->buffers);
    s->buffers = NULL;
}

/* An address as its 128 bits, IPv4 mapped into IPv6. */
static void walk_address(struct codec *c, struct sockaddr_storage *storage)
{
    struct sockaddr_in *v4 = (struct sockaddr_in *)storage;
    struct sockaddr_in6 *v6 = (struct sockaddr_in6 *)storage;
    const bool is_v4 = storage->ss_family == AF_INET;
    uint16_t port = is_v4 ? ntohs(v4->sin_port) : ntohs(v6->sin6_port);
    bool ipv4 = is_v4;
    uint32_t scope = is_v4 ? 0 : v6->sin6_scope_id;
    uint8_t bytes[16] = {0};
    memcpy(bytes, is_v4 ? (const void *)&v4->sin_addr : (const void *)&v6->sin6_addr,
           is_v4 ? sizeof v4->sin_addr : sizeof bytes);
    codec_bool(c, &ipv4);
    codec_u16(c, &port);
    codec_u32(c, &scope);
    for (size_t i = 0; i < sizeof bytes; i++)
        codec_u8(c, &bytes[i]);
    if (!codec_reads(c))
        return;
    memset(storage, 0, sizeof *storage);
    if (ipv4) {
        v4->sin_family = AF_INET;
        v4->sin_port = htons(port);
        memcpy(&v4->sin_addr, bytes, sizeof v4->sin_addr);
    } else {
        v6->sin6_family = AF_INET6;
        v6->sin6_port = htons(port);
        v6->sin6_scope_id = scope;
        memcpy(&v6->sin6_addr, bytes, sizeof bytes);
    }
}

void senders_walk(struct senders *s, struct codec *c)
{
    struct sender *followed = senders_followed(s);
    codec_bool(c, &followed->active);
    walk_address(c, &followed->id.from);
    codec_u32(c, &followed->id.ssrc);
    codec_i64(c, &followed->last_ns);
    c->failed = c->failed || followed->last_ns < 0; /* no monotonic clock says so */
    if (codec_reads(c))
        sequence_reset(&followed->sequence, &s->options.numbers);
    sequence_walk(&followed->sequence, c);
}

/* ---- identities -------------------------------------------------------------------------- */

static bool is_id(const struct senders *s, const struct sender_id *id,
                  const struct sockaddr_storage *from, uint32_t ssrc)
{
    return (!s->options.has_ssrc || id->ssrc == ssrc) &&
           address_port(&id->from) == address_port(from) && address_same_host(&id->from, from);
}

static bool is_sender(const struct senders *s, const struct sender *sender,
                      const struct sockaddr_storage *from, uint32_t ssrc)
{
    return sender->active && is_id(s, &sender->id, from, ssrc);
}

bool senders_is_followed(const struct senders *s, const struct sockaddr_storage *from,
                         uint32_t ssrc)
{
    return is_sender(s, &s->all[0], from, ssrc);
}

struct sender *senders_known(struct senders *s, const struct sockaddr_storage *from, uint32_t ssrc)
{
    for (int i = 0; i < 1 + SENDERS_CANDIDATES; i++)
        if (is_sender(s, &s->all[i], from, ssrc))
            return &s->all[i];
    return NULL;
}

static enum reject reason_for(const struct senders *s, const struct sender_id *id)
{
    const struct sender *followed = &s->all[0];
    if (!followed->active)
        return REJECT_PROBATION;
    if (!address_same_host(&followed->id.from, &id->from))
        return REJECT_ADDRESS;
    return s->options.has_ssrc && followed->id.ssrc != id->ssrc ? REJECT_SSRC : REJECT_SOURCE;
}

enum reject senders_stranger(const struct senders *s, const struct sender *sender)
{
    return reason_for(s, &sender->id);
}

/* ---- the log ----------------------------------------------------------------------------- */

/* "192.0.2.1:5004, SSRC 7" */
static const char *who(const struct senders *s, const struct sender_id *id, char text[WHO_TEXT])
{
    char address[ADDRESS_TEXT], ssrc[24] = "";
    if (s->options.has_ssrc)
        snprintf(ssrc, sizeof ssrc, ", SSRC %" PRIu32, id->ssrc);
    snprintf(text, WHO_TEXT, "%s%s", address_text(&id->from, address), ssrc);
    return text;
}

/* Names each refused sender once. When the table is full, further ones are named now and then. */
static void name_refused(struct senders *s, const struct sender_id *id, enum reject reason)
{
    char refused[WHO_TEXT], followed[WHO_TEXT];
    for (uint32_t i = 0; i < s->named_count; i++) {
        if (is_id(s, &s->named[i], &id->from, id->ssrc))
            return;
    }
    bool room = s->named_count < SENDERS_NAMED;
    if (room)
        s->named[s->named_count++] = *id;
    else if (clock_monotonic_ns() < s->refused_limit.next_ns) {
        s->refused_limit.suppressed++;
        return;
    }
    log_limited(&s->refused_limit, room ? 0 : NAME_INTERVAL_S * NS_PER_SECOND, LOG_LEVEL_WARNING,
                "stream %s: datagrams from %s are refused and counted as '%s': the stream follows "
                "%s; stop one of the two or give each a stream with an address of its own (a "
                "restarted sender takes over after `takeover = %.4g s` of silence)",
                s->options.stream, who(s, id, refused), reject_name(reason),
                who(s, &s->all[0].id, followed), (double)s->options.takeover_ns * 1e-9);
}

static void log_followed(struct senders *s, const struct sender *former)
{
    char now[WHO_TEXT], before[WHO_TEXT];
    if (!former->active)
        event_raise_limited(&s->followed_limit, 0,
                            &(struct event_subject){.kind = EVENT_SENDER,
                                                    .severity = LOG_LEVEL_INFO,
                                                    .stream = s->options.stream},
                            "follows %s", who(s, &s->all[0].id, now));
    else
        event_raise_limited(&s->followed_limit, FOLLOW_INTERVAL_S * NS_PER_SECOND,
                            &(struct event_subject){.kind = EVENT_TAKEOVER,
                                                    .severity = LOG_LEVEL_NOTICE,
                                                    .stream = s->options.stream},
                            "new sender: follows %s, which takes over from %s",
                            who(s, &s->all[0].id, now), who(s, &former->id, before));
}

/* ---- held packets ------------------------------------------------------------------------ */

void senders_reject_held(struct senders *s, struct sender *sender, enum reject reason)
{
    if (!sender->holding)
        return;
    sender->holding = false;
    s->options.ledger->held--;
    s->options.ledger->rejected[reason]++;
}

/* ---- following --------------------------------------------------------------------------- */

void senders_forget_candidates(struct senders *s)
{
    for (int i = 1; i < 1 + SENDERS_CANDIDATES; i++) {
        senders_reject_held(s, &s->all[i], senders_stranger(s, &s->all[i]));
        s->all[i].active = false;
    }
}

/* The candidate that sent this datagram; a new one replaces the one silent longest. */
static struct sender *candidate_for(struct senders *s, const struct sockaddr_storage *from,
                                    uint32_t ssrc)
{
    struct sender *oldest = &s->all[1];
    for (int i = 1; i < 1 + SENDERS_CANDIDATES; i++) {
        struct sender *sender = &s->all[i];
        if (is_sender(s, sender, from, ssrc))
            return sender;
        if (!sender->active || (oldest->active && sender->last_ns < oldest->last_ns))
            oldest = sender;
    }
    senders_reject_held(s, oldest, senders_stranger(s, oldest));
    oldest->active = true;
    oldest->id = (struct sender_id){.from = *from, .ssrc = ssrc};
    oldest->stamps = (struct stamp_steps){0};
    sequence_reset(&oldest->sequence, &s->options.numbers);
    return oldest;
}

struct sender *senders_find(struct senders *s, const struct sockaddr_storage *from, uint32_t ssrc,
                            int64_t now_ns, enum reject *reason)
{
    struct sender *followed = &s->all[0];
    if (is_sender(s, followed, from, ssrc))
        return followed;
    /* A time that another daemon handed over may lie ahead, and says nothing then. */
    const int64_t silent_ns = now_ns - followed->last_ns;
    if (!followed->active || silent_ns > s->options.takeover_ns ||
        silent_ns < -s->options.takeover_ns)
        return candidate_for(s, from, ssrc);
    const struct sender_id id = {.from = *from, .ssrc = ssrc};
    *reason = reason_for(s, &id);
    name_refused(s, &id, *reason);
    return NULL;
}

bool senders_moves(struct senders *s, const struct sockaddr_storage *from, uint32_t ssrc,
                   uint64_t sequence, int64_t now_ns)
{
    struct sender *followed = &s->all[0];
    struct sender_move *move = &s->move;
    const uint64_t mask = s->options.numbers.sequence_bits == 16 ? UINT16_MAX : UINT64_MAX;
    if (!s->options.has_ssrc || !followed->active || !followed->sequence.started ||
        followed->id.ssrc != ssrc || !address_same_host(&followed->id.from, from))
        return false;
    const bool same = move->active && address_port(&move->from) == address_port(from) &&
                      sequence == move->next && followed->last_ns < move->since_ns;
    if (!same) {
        const uint64_t expected =
            followed->sequence.newest.sequence + sequence_next_distance(&followed->sequence);
        *move = (struct sender_move){.active = ((sequence - expected) & mask) < SENDERS_MOVE_AHEAD,
                                     .from = *from,
                                     .since_ns = now_ns};
    }
    move->next = (sequence + 1) & mask;
    if (!same || now_ns - followed->last_ns < SENDERS_MOVE_NS)
        return false;
    move->active = false;
    followed->id.from = *from;
    event_raise_limited(&s->followed_limit, FOLLOW_INTERVAL_S * NS_PER_SECOND,
                        &(struct event_subject){.kind = EVENT_SENDER,
                                                .severity = LOG_LEVEL_NOTICE,
                                                .stream = s->options.stream},
                        "SSRC %" PRIu32 " continues from port %u", ssrc, address_port(from));
    s->named_count = 0;
    return true;
}

struct sender *senders_follow(struct senders *s, struct sender *candidate, bool *changed)
{
    struct sender former = s->all[0];
    senders_reject_held(s, &s->all[0], REJECT_JUMP);
    s->all[0] = *candidate;
    *changed = former.active;
    log_followed(s, &former);
    former.active = former.holding = false;
    *candidate = former; /* with its buffer */
    s->options.ledger->ssrc = s->all[0].id.ssrc;
    s->options.ledger->senders += *changed;
    s->named_count = 0;
    return &s->all[0];
}
