/* Admission: see admission.h. */
#include "io/net/admission.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

#include "core/clock.h"
#include "core/log.h"
#include "io/net/address.h"
#include "io/net/key_file.h"
#include "io/net/rate_limit.h"

enum { LOG_INTERVAL_S = 30, LIST_TEXT = 200 };

struct admission {
    const char *stream; /* for messages */
    struct allowed allowed;
    bool has_refused;
    struct sockaddr_storage admitted; /* the sender of the last datagram admitted; family 0: none */
    struct sockaddr_storage refused;  /* the sender that was last logged */
    struct log_limit refused_limit;
    bool limits_rate;
    struct rate_limit rate;
    struct log_limit rate_limit;
    bool authenticates;
    struct auth_key key;
    struct auth_window window;
    struct log_limit auth_limit, replay_limit;
};

int admission_open(const struct ingest_options *options, const char *stream, enum auth_use use,
                   struct admission **out, struct problem *problem)
{
    struct admission *a = calloc(1, sizeof *a);
    if (a == NULL)
        return problem_set(problem, ERROR_MEMORY, "no memory for a source");
    a->stream = stream;
    a->authenticates = options->key != NULL;
    a->limits_rate = options->packet_limit > 0 || options->byte_limit > 0;
    rate_limit_set(&a->rate, options->packet_limit, options->byte_limit);
    int error = allowed_make(&options->allow, options->interface, &a->allowed, problem);
    if (error == 0 && a->authenticates)
        error = key_file_derive(options->key, use, &a->key, problem);
    if (error != 0) {
        admission_close(a);
        return error;
    }
    *out = a;
    return 0;
}

void admission_close(struct admission *a)
{
    if (a == NULL)
        return;
    allowed_free(&a->allowed);
    explicit_bzero(&a->key, sizeof a->key);
    free(a);
}

void admission_take(struct admission *a, struct allowed *allowed)
{
    if (allowed_equal(&a->allowed, allowed)) { /* whom it refused it need not name again */
        allowed_free(allowed);
        return;
    }
    allowed_free(&a->allowed);
    a->allowed = *allowed;
    *allowed = (struct allowed){0};
    a->has_refused = false;
    a->admitted.ss_family = AF_UNSPEC;
}

/* ---- the checks -------------------------------------------------------------------------- */

static void explain_refusal(struct admission *a, const struct sockaddr_storage *from)
{
    char host[ADDRESS_TEXT], list[LIST_TEXT];
    if (a->has_refused && address_same_host(&a->refused, from))
        return;
    a->has_refused = true;
    a->refused = *from;
    log_limited(&a->refused_limit, LOG_INTERVAL_S * NS_PER_SECOND, LOG_LEVEL_NOTICE,
                "stream %s: datagrams from %s refused: `allow` admits %s; add the sender's address "
                "to it",
                a->stream, address_text(from, host), allowed_print(&a->allowed, list, sizeof list));
}

static bool is_allowed(struct admission *a, const struct sockaddr_storage *from)
{
    if (!allowed_contains(&a->allowed, from)) {
        explain_refusal(a, from);
        return false;
    }
    a->admitted = *from;
    return true;
}

/* Whether it is the sender admitted last, as the kernel reports it: the comparison that each packet
 * costs. */
static inline bool is_last(const struct admission *a, const struct sockaddr_storage *from)
{
    if (a->admitted.ss_family != from->ss_family)
        return false;
    if (from->ss_family == AF_INET)
        return address_v4(&a->admitted)->sin_addr.s_addr == address_v4(from)->sin_addr.s_addr;
    return memcmp(&address_v6(&a->admitted)->sin6_addr, &address_v6(from)->sin6_addr,
                  sizeof(struct in6_addr)) == 0;
}

static bool is_within_rate(struct admission *a, const struct received *received)
{
    char host[ADDRESS_TEXT];
    if (rate_limit_take(&a->rate, received->from, received->bytes, received->receive_ns))
        return true;
    log_limited(&a->rate_limit, LOG_INTERVAL_S * NS_PER_SECOND, LOG_LEVEL_WARNING,
                "stream %s: datagrams from %s refused: it sends more than `packet limit` or `byte "
                "limit` allows",
                a->stream, address_text(received->from, host));
    return false;
}

bool admission_admits(struct admission *a, const struct received *received, enum reject *reason)
{
    if (!is_last(a, received->from) && !is_allowed(a, received->from)) {
        *reason = REJECT_NOT_ALLOWED;
        return false;
    }
    if (a->limits_rate && !is_within_rate(a, received)) {
        *reason = REJECT_RATE;
        return false;
    }
    return true;
}

bool admission_authentic(struct admission *a, const struct received *received, uint64_t sequence,
                         enum reject *reason)
{
    char host[ADDRESS_TEXT];
    assert(a->authenticates);
    switch (auth_open(&a->key, &a->window, (uint16_t)sequence, received->data, received->bytes)) {
    case AUTH_OK:
        return true;
    case AUTH_REPLAY:
        *reason = REJECT_REPLAY;
        log_limited(&a->replay_limit, LOG_INTERVAL_S * NS_PER_SECOND, LOG_LEVEL_NOTICE,
                    "stream %s: a datagram from %s refused: it was taken before, or is older than "
                    "what was: a replay, a doubled packet, or a sender that started with its clock "
                    "behind",
                    a->stream, address_text(received->from, host));
        return false;
    default:
        *reason = REJECT_AUTH;
        log_limited(&a->auth_limit, LOG_INTERVAL_S * NS_PER_SECOND, LOG_LEVEL_WARNING,
                    "stream %s: a datagram from %s refused: it has no tag of `key`, or was "
                    "changed; the sender needs the same key file",
                    a->stream, address_text(received->from, host));
        return false;
    }
}
