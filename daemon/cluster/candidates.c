/* Order of the workers that may take a partition: see candidates.h. */
#include "cluster/candidates.h"

#include <stdio.h>
#include <string.h>

#include "core/clock.h"
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
    c->handed_ns = INT64_MIN / 2;
}

void candidates_listen(struct candidates *c, int64_t now_ns)
{
    c->listening_ns = now_ns;
}

void candidates_load(struct candidates *c, double load, double capacity)
{
    c->own.load = load;
    c->own.capacity = capacity;
    c->own.room = load < capacity;
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

static bool is_there(const struct candidates *c, uint32_t at, int64_t now_ns)
{
    return now_ns - c->others[at].heard_ns < c->forget_ns;
}

static bool same_config(const struct candidates *c, const struct candidate *other)
{
    return strcmp(other->config, c->own.config) == 0;
}

/* Whether this worker may take a log that ends with a record of `log_config`. */
static enum standing_bar bar_of(const struct candidates *c, int64_t now_ns, const char *log_config)
{
    if (!c->own.room)
        return STANDING_FULL;
    if (log_config[0] == '\0' || strcmp(log_config, c->own.config) == 0)
        return STANDING_FREE;
    for (uint32_t i = 0; i < c->count; i++)
        if (is_there(c, i, now_ns) && strcmp(c->others[i].of.config, log_config) == 0)
            return STANDING_DIFFERS;
    return now_ns - c->listening_ns < c->forget_ns ? STANDING_LISTENS : STANDING_FREE;
}

struct standing candidates_standing(const struct candidates *c, int64_t now_ns,
                                    const char *partition, const char *log_config)
{
    struct standing standing = {.bar = bar_of(c, now_ns, log_config), .first = true};
    const struct candidate *best = &c->own;
    standing.stands = standing.bar == STANDING_FREE;
    for (uint32_t i = 0; i < c->count; i++) {
        const struct candidate *other = &c->others[i].of;
        if (!is_there(c, i, now_ns))
            continue;
        if (!same_config(c, other)) {
            standing.strangers++;
            continue;
        }
        standing.others++;
        if (!other->room || !before(partition, other, &c->own))
            continue;
        standing.rank++;
        standing.first = false;
        best = before(partition, other, best) ? other : best;
    }
    standing.best = standing.first ? NULL : best->worker;
    return standing;
}

const struct candidate *candidates_find(const struct candidates *c, int64_t now_ns,
                                        const char *worker)
{
    for (uint32_t i = 0; i < c->count; i++)
        if (is_there(c, i, now_ns) && same_config(c, &c->others[i].of) &&
            strcmp(c->others[i].of.worker, worker) == 0)
            return &c->others[i].of;
    return NULL;
}

const char *candidates_hand_over(struct candidates *c, struct candidate_turn *turn, int64_t now_ns,
                                 const struct standing *standing, bool owns)
{
    if (!owns || standing->best == NULL) {
        turn->second = false;
        return NULL;
    }
    if (!turn->second)
        *turn = (struct candidate_turn){.second = true, .second_ns = now_ns};
    if (now_ns - turn->second_ns < CANDIDATES_PATIENCE_S * NS_PER_SECOND ||
        now_ns - c->handed_ns < CANDIDATES_PAUSE_S * NS_PER_SECOND)
        return NULL;
    turn->second = false;
    c->handed_ns = now_ns;
    return standing->best;
}
