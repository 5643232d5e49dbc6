/* What records carry for a successor: see carried.h. */
#include "io/nats/carried.h"

#include <stdlib.h>
#include <string.h>

enum { WORKER_MOST = 256 };

void nats_carried_close(struct nats_carried *c)
{
    free(c->bytes);
    free(c->release);
    *c = (struct nats_carried){0};
}

bool nats_carried_set(struct nats_carried *c, const uint8_t *bytes, uint32_t count)
{
    if (count > c->room) {
        uint8_t *made = malloc(count), *release = malloc((size_t)WORKER_MOST + 1 + count);
        if (made == NULL || release == NULL) {
            free(made);
            free(release);
            return false;
        }
        nats_carried_close(c);
        c->bytes = made;
        c->release = release;
        c->room = count;
    }
    if (count > 0)
        memcpy(c->bytes, bytes, count);
    c->count = count;
    return true;
}

/* A release names the worker that it is for, then a zero and what the others carry; without a zero
 * they carry nothing. */
static struct record_span worker_of(const struct record *r)
{
    const uint8_t *zero = r->state.count > 0 ? memchr(r->state.bytes, 0, r->state.count) : NULL;
    return (struct record_span){r->state.bytes,
                                zero != NULL ? (uint32_t)(zero - r->state.bytes) : r->state.count};
}

enum release_for nats_carried_for(const struct record *release, const char *worker)
{
    const struct record_span to = worker_of(release);
    if (to.count == 0)
        return RELEASE_FOR_ANY;
    return to.count == strlen(worker) && memcmp(to.bytes, worker, to.count) == 0
               ? RELEASE_FOR_THIS
               : RELEASE_FOR_ANOTHER;
}

bool nats_carried_read(struct nats_carried *c, const struct record *r)
{
    struct record_span state = r->state;
    if (r->kind == RECORD_RELEASE) {
        const uint32_t name = worker_of(r).count, skip = name < state.count ? name + 1 : name;
        state.bytes = skip > 0 ? state.bytes + skip : state.bytes;
        state.count -= skip;
    }
    return nats_carried_set(c, state.bytes, state.count);
}

struct record_span nats_carried_span(struct nats_carried *c, enum record_kind kind,
                                     const char *worker)
{
    if (kind != RECORD_RELEASE)
        return (struct record_span){c->bytes, c->count};
    const size_t name = strnlen(worker, WORKER_MOST);
    if (c->count == 0)
        return (struct record_span){(const uint8_t *)worker, (uint32_t)name};
    memcpy(c->release, worker, name);
    c->release[name] = 0;
    memcpy(c->release + name + 1, c->bytes, c->count);
    return (struct record_span){c->release, (uint32_t)name + 1 + c->count};
}

struct record_span nats_text_span(const char *text)
{
    return (struct record_span){(const uint8_t *)text, (uint32_t)strlen(text)};
}

void nats_copy_span(char *to, size_t bytes, const struct record_span *span)
{
    const size_t count = span->count < bytes ? span->count : bytes - 1;
    if (count > 0)
        memcpy(to, span->bytes, count);
    to[count] = '\0';
}

void nats_forget_spans(struct record *r)
{
    r->plan = r->filters = r->config = r->worker = r->state = (struct record_span){0};
    r->analysis = (struct record_span){0};
    r->range_count = r->mark_count = 0;
    r->ranges = NULL;
    r->marks = NULL;
    r->mark_bytes = NULL;
    r->range_bytes = r->samples = NULL;
}
