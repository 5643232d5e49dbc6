/* Order of the workers that may take a partition: see candidates.h. */
#include "cluster/candidates.h"

#include <stdio.h>
#include <string.h>

#include "core/random.h"

/* FNV-1a over both names with their final zeros, then the finalizer of splitmix64: FNV alone leaves
 * names that differ in their last letter close together. The numbers are part of the protocol:
 * workers of different versions must agree. */
static uint64_t weight(const char *partition, const char *worker)
{
    const char *const names[] = {partition, worker};
    uint64_t hash = UINT64_C(0xcbf29ce484222325);
    for (int i = 0; i < 2; i++)
        for (const char *at = names[i];; at++) {
            hash = (hash ^ (uint8_t)*at) * UINT64_C(0x100000001b3);
            if (*at == '\0')
                break;
        }
    return random_u64(&(struct random_state){hash});
}

/* Whether a comes before b. */
static bool before(const char *partition, const struct candidate *a, const struct candidate *b)
{
    const uint64_t wa = weight(partition, a->worker), wb = weight(partition, b->worker);
    if (wa != wb)
        return wa > wb;
    const int order = strcmp(a->worker, b->worker);
    return order != 0 ? order < 0 : a->identity < b->identity;
}

void candidates_open(struct candidates *c, const char *worker, uint64_t identity,
                     const char *config, int64_t forget_ns)
{
    memset(c, 0, sizeof *c);
    snprintf(c->own.worker, sizeof c->own.worker, "%s", worker);
    snprintf(c->own.config, sizeof c->own.config, "%s", config);
    c->own.identity = identity;
    c->forget_ns = forget_ns;
}

void candidates_room(struct candidates *c, bool room)
{
    c->own.room = room;
}

void candidates_left(struct candidates *c, uint64_t identity)
{
    for (uint32_t i = 0; i < c->count; i++)
        if (c->others[i].of.identity == identity) {
            c->others[i] = c->others[--c->count];
            return;
        }
}

/* The place of this run; else of an earlier run of the same worker, or of one long gone; else a
 * free one; CANDIDATES_MAX: none. */
static uint32_t place_of(struct candidates *c, int64_t now_ns, const struct candidate *presence)
{
    for (uint32_t i = 0; i < c->count; i++)
        if (strcmp(c->others[i].of.worker, presence->worker) == 0)
            return i;
    if (c->count < CANDIDATES_MAX)
        return c->count++;
    for (uint32_t i = 0; i < c->count; i++)
        if (now_ns - c->others[i].heard_ns >= c->forget_ns)
            return i;
    return CANDIDATES_MAX;
}

bool candidates_heard(struct candidates *c, int64_t now_ns, const struct candidate *presence)
{
    if (presence->identity == c->own.identity || presence->worker[0] == '\0')
        return true;
    const uint32_t at = place_of(c, now_ns, presence);
    if (at == CANDIDATES_MAX)
        return false;
    c->others[at].of = *presence;
    c->others[at].heard_ns = now_ns;
    return true;
}

struct standing candidates_standing(const struct candidates *c, int64_t now_ns,
                                    const char *partition)
{
    struct standing standing = {.stands = c->own.room, .first = true};
    for (uint32_t i = 0; i < c->count; i++) {
        const struct candidate *other = &c->others[i].of;
        if (now_ns - c->others[i].heard_ns >= c->forget_ns)
            continue;
        if (strcmp(other->config, c->own.config) != 0) {
            standing.strangers++;
            continue;
        }
        standing.others++;
        if (other->room && before(partition, other, &c->own)) {
            standing.rank++;
            standing.first = false;
        }
    }
    return standing;
}
