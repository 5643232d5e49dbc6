/*
 * Admission: whose datagrams may reach a source at all, before anything else is asked of them. Each
 * check is a reject of its own:
 *
 *     not allowed   the sender's address is in no network of `allow` (allowed.h)
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
#include "io/net/ingest_options.h"
#include "io/net/receiver.h"
#include "io/source.h"

struct admission;

/* WORKER. `options` and `stream` outlive it. */
int admission_open(const struct ingest_options *options, const char *stream, struct admission **out,
                   struct problem *problem);

/* Whether the datagram may go on; else *reason. */
bool admission_admits(struct admission *admission, const struct received *received,
                      enum reject *reason);

void admission_close(struct admission *admission); /* NULL is fine */

#endif
