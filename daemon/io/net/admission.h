/*
 * Admission: whose datagrams may reach a source at all, before anything else is asked of them. Each
 * check is a reject of its own:
 *
 *     not allowed   the sender's address is in no network of `allow` (allowed.h)
 *     rate limit    its address sends more than `packet limit` or `byte limit` (rate_limit.h)
 *     auth          with `key`: the datagram has no tag, or not its own (wire/auth.h)
 *     replay        with `key`: it is authentic, but was taken before, or is older than the window
 *
 * A sender admitted once is remembered, so that a packet of the same host costs one comparison of
 * addresses. Each refused host is logged once, until another one is refused, and no line comes more
 * often than twice a minute.
 *
 * Opened on a worker, then loop thread. Nothing allocates after open.
 */
#ifndef CONVOLVD_IO_NET_ADMISSION_H
#define CONVOLVD_IO_NET_ADMISSION_H

#include <stdbool.h>

#include "core/error.h"
#include "io/net/allowed.h"
#include "io/net/ingest_options.h"
#include "io/net/receiver.h"
#include "io/source.h"
#include "wire/auth.h"

struct admission;

/* WORKER. `options` and `stream` outlive it; `use`: what its tags are for. */
int admission_open(const struct ingest_options *options, const char *stream, enum auth_use use,
                   struct admission **out, struct problem *problem);

/* Whether the datagram may go on; else *reason. */
bool admission_admits(struct admission *admission, const struct received *received,
                      enum reject *reason);

/* Whether the datagram, which has this sequence number, carries its tag; else *reason. To be
 * asked once for each datagram of a source that has a key. */
bool admission_authentic(struct admission *admission, const struct received *received,
                         uint64_t sequence, enum reject *reason);

/* Takes a new list of allowed networks over: the interfaces have changed. LOOP. */
void admission_take(struct admission *admission, struct allowed *allowed);

void admission_close(struct admission *admission); /* NULL is fine */

#endif
