/* What workers tell each other: see presence.h. */
#include "io/nats/presence.h"

#include <inttypes.h>
#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "core/clock.h"

static const int64_t tell_ns = 500 * NS_PER_MS, forget_ns = 2 * NS_PER_SECOND;
static const int64_t measure_ns = NS_PER_SECOND;

/* ---- text -------------------------------------------------------------------------------- */

void nats_presence_write(const struct candidate *of, bool leaves, char text[NATS_PRESENCE_BYTES])
{
    char identity[17];
    snprintf(identity, sizeof identity, "%016" PRIx64, of->identity);
    json_t *object =
        json_pack("{s:s, s:s, s:s, s:f, s:f, s:b}", "worker", of->worker, "run", identity, "config",
                  of->config, "load", of->load, "capacity", of->capacity, "leaves", leaves);
    const size_t bytes =
        object != NULL ? json_dumpb(object, text, NATS_PRESENCE_BYTES - 1, JSON_COMPACT) : 0;
    text[bytes < NATS_PRESENCE_BYTES ? bytes : 0] = '\0';
    json_decref(object);
}

static bool take_text(const json_t *object, const char *key, char *text, size_t bytes)
{
    const char *value = json_string_value(json_object_get(object, key));
    return value != NULL && value[0] != '\0' && snprintf(text, bytes, "%s", value) < (int)bytes;
}

/* Whether the worker's subject ends so. */
static bool is_subject_of(const char *worker, const char *word)
{
    char subject[NATS_SUBJECT_BYTES];
    nats_presence_subject("", worker, subject);
    return strcmp(strrchr(subject, '.') + 1, word) == 0;
}

bool nats_presence_read(const char *word, const char *text, size_t bytes, struct candidate *of,
                        bool *leaves)
{
    char identity[17] = "";
    *of = (struct candidate){0};
    if (bytes > NATS_PRESENCE_BYTES)
        return false;
    json_t *object = json_loadb(text, bytes, 0, NULL);
    bool good = take_text(object, "worker", of->worker, sizeof of->worker) &&
                take_text(object, "run", identity, sizeof identity) &&
                take_text(object, "config", of->config, sizeof of->config);
    of->identity = strtoull(identity, NULL, 16);
    of->load = json_number_value(json_object_get(object, "load"));
    of->capacity = json_number_value(json_object_get(object, "capacity"));
    of->room = of->load < of->capacity;
    *leaves = json_is_true(json_object_get(object, "leaves"));
    json_decref(object);
    return good && of->identity != 0 && is_subject_of(of->worker, word);
}

/* ---- telling ----------------------------------------------------------------------------- */

static void tell(struct nats_presence *p, bool leaves)
{
    char text[NATS_PRESENCE_BYTES];
    nats_presence_write(&p->candidates.own, leaves, text);
    if (text[0] != '\0')
        nats_link_tell(p->parts->link, p->subject, text);
}

/* The part of its time that this thread, which is the loop's, was busy. */
static void measure_loop(struct nats_presence *p, int64_t now_ns)
{
    struct timespec used;
    if (now_ns - p->measured_ns < measure_ns || clock_gettime(CLOCK_THREAD_CPUTIME_ID, &used) != 0)
        return;
    const int64_t loop_ns = used.tv_sec * (int64_t)NS_PER_SECOND + used.tv_nsec;
    if (p->measured_ns != 0)
        p->loop_share = (double)(loop_ns - p->loop_ns) / (double)(now_ns - p->measured_ns);
    p->loop_ns = loop_ns;
    p->measured_ns = now_ns;
}

static void measure(struct nats_presence *p, int64_t now_ns)
{
    measure_loop(p, now_ns);
    const struct io_environment *e = &p->environment;
    const double devices = e->load != NULL ? e->load(e->load_context) : 0;
    candidates_load(&p->candidates, devices > p->loop_share ? devices : p->loop_share,
                    p->cluster->capacity);
}

/* Its link carries what is told, from now on. */
static void carry(const struct nats_presence *p, const struct nats_presence_part *part)
{
    char prefix[NATS_SUBJECT_BYTES];
    snprintf(prefix, sizeof prefix, "%s", p->subject);
    strrchr(prefix, '.')[1] = '\0';
    nats_link_hear(part->link, prefix);
}

/* ---- parts ------------------------------------------------------------------------------- */

void nats_presence_join(struct nats_presence *p, struct nats_presence_part *part,
                        struct nats_link *link, const struct cluster *cluster,
                        const struct io_environment *environment)
{
    if (!p->open) {
        candidates_open(&p->candidates, cluster->worker, cluster->identity, cluster->config,
                        forget_ns);
        candidates_load(&p->candidates, 0, cluster->capacity);
        nats_presence_subject(cluster->name, cluster->worker, p->subject);
        p->cluster = cluster;
        p->environment = *environment;
        p->open = true;
    }
    *part = (struct nats_presence_part){.link = link, .next = p->parts};
    if (p->parts == NULL) {
        p->parts = part;
        carry(p, part);
        candidates_listen(&p->candidates, clock_monotonic_ns());
        return;
    }
    part->next = p->parts->next;
    p->parts->next = part;
}

void nats_presence_leave(struct nats_presence *p, struct nats_presence_part *part)
{
    struct nats_presence_part **at = &p->parts;
    while (*at != NULL && *at != part)
        at = &(*at)->next;
    if (*at == NULL)
        return; /* it never joined */
    const bool carried = p->parts == part;
    if (carried && part->next == NULL)
        tell(p, true);
    *at = part->next;
    if (carried && p->parts != NULL) {
        carry(p, p->parts);
        tell(p, false);
    }
}

void nats_presence_connected(struct nats_presence *p, const struct nats_presence_part *part)
{
    if (part != p->parts)
        return;
    candidates_listen(&p->candidates, clock_monotonic_ns());
    tell(p, false);
}

void nats_presence_heard(struct nats_presence *p, const struct nats_event *told)
{
    struct candidate of;
    bool leaves;
    if (!nats_presence_read(told->text, told->payload, told->payload_bytes, &of, &leaves))
        return;
    if (leaves)
        candidates_left(&p->candidates, of.identity);
    else
        (void)candidates_heard(&p->candidates, clock_monotonic_ns(), &of); /* too many: unknown */
}

bool nats_presence_takes(const struct nats_presence *p, const char *worker, struct problem *problem)
{
    const struct candidate *of = candidates_find(&p->candidates, clock_monotonic_ns(), worker);
    if (of == NULL)
        problem_set(problem, ERROR_ARGUMENT,
                    "no other worker %s of this configuration is there; `convolvctl cluster` lists "
                    "those that are",
                    worker);
    else if (!of->room)
        problem_set(problem, ERROR_ARGUMENT,
                    "worker %s has no room: its load is %.0f %%, its capacity %.0f %%", worker,
                    of->load * 100, of->capacity * 100);
    return of != NULL && of->room;
}

struct standing nats_presence_tick(struct nats_presence *p, const struct nats_presence_part *part,
                                   int64_t now_ns, const char *partition, const char *log_config)
{
    if (part == p->parts) {
        measure(p, now_ns);
        /* A reload may have changed what all workers share. */
        snprintf(p->candidates.own.config, sizeof p->candidates.own.config, "%s",
                 p->cluster->config);
        if (now_ns - p->told_ns >= tell_ns) {
            p->told_ns = now_ns;
            tell(p, false);
        }
    }
    return candidates_standing(&p->candidates, now_ns, partition, log_config);
}
