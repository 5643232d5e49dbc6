/* Admission: see admission.h. */
#include "io/net/admission.h"

#include <stdlib.h>

#include "core/clock.h"
#include "core/log.h"
#include "io/net/address.h"
#include "io/net/allowed.h"

enum { LOG_INTERVAL_S = 30, LIST_TEXT = 200 };

struct admission {
    const char *stream; /* for messages */
    struct allowed allowed;
    bool has_admitted, has_refused;
    struct sockaddr_storage admitted; /* the sender of the last datagram admitted */
    struct sockaddr_storage refused;  /* the sender that was last logged */
    struct log_limit refused_limit;
};

int admission_open(const struct ingest_options *options, const char *stream, struct admission **out,
                   struct problem *problem)
{
    struct admission *a = calloc(1, sizeof *a);
    if (a == NULL)
        return problem_set(problem, ERROR_MEMORY, "no memory for a source");
    a->stream = stream;
    int error = allowed_make(&options->allow, options->interface, &a->allowed, problem);
    if (error != 0) {
        free(a);
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
    free(a);
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
    if (a->has_admitted && address_same_host(&a->admitted, from))
        return true;
    if (!allowed_contains(&a->allowed, from)) {
        explain_refusal(a, from);
        return false;
    }
    a->has_admitted = true;
    a->admitted = *from;
    return true;
}

bool admission_admits(struct admission *a, const struct received *received, enum reject *reason)
{
    *reason = REJECT_NOT_ALLOWED;
    return is_allowed(a, received->from);
}
