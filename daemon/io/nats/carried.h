/*
 * What the records of a log carry in `state` for a successor: the newest change of filter, gains
 * and mutes (cluster/setting.h), the same bytes in each record until the next change; and the texts
 * in records.
 *
 * Loop thread. Allocates only where the bytes become more.
 */
#ifndef CONVOLVD_IO_NATS_CARRIED_H
#define CONVOLVD_IO_NATS_CARRIED_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "stream/ownership.h"
#include "wire/record.h"

/* Starts zeroed. */
struct nats_carried {
    uint8_t *bytes;
    uint32_t count, room;
    uint8_t *release; /* the state of a release */
};

void nats_carried_close(struct nats_carried *carried);
/* Copies. False: out of memory, nothing has changed. */
bool nats_carried_set(struct nats_carried *carried, const uint8_t *bytes, uint32_t count);
/* As a record that was read has it; none: it becomes empty. */
bool nats_carried_read(struct nats_carried *carried, const struct record *record);
/* The `state` of a record of this kind; `worker`: for whom a release is, empty: any. */
struct record_span nats_carried_span(struct nats_carried *carried, enum record_kind kind,
                                     const char *worker);
/* For whom a release that was read is, as seen by `worker`. */
enum release_for nats_carried_for(const struct record *release, const char *worker);

struct record_span nats_text_span(const char *text);
/* Terminated, and cut to fit. */
void nats_copy_span(char *to, size_t bytes, const struct record_span *span);
/* Of a record that outlives the bytes that it was read from. */
void nats_forget_spans(struct record *record);

#endif
