/*
 * Marks: what people have noted while a recording ran, each at a frame. A bounded list of the
 * newest ones; a sidecar lists those that lie in its file. A mark may name a frame that is still to
 * come.
 *
 * One owner: the writer thread.
 */
#ifndef CONVOLVD_IO_RECORDING_MARKS_H
#define CONVOLVD_IO_RECORDING_MARKS_H

#include <jansson.h>
#include <stdint.h>

#include "io/sink.h"

enum { MARKS_MAX = 256 };

struct marks {
    uint32_t count; /* added so far; the last MARKS_MAX of them are kept */
    struct sink_mark list[MARKS_MAX];
};

void marks_add(struct marks *marks, const struct sink_mark *mark);

/* Those of frames [from, until) of the epoch, in the order in which they were made; the caller's.
 */
json_t *marks_json(const struct marks *marks, uint64_t epoch, uint64_t from, uint64_t until);

#endif
