/*
 * Ownership of a partition in a simulated cluster: workers that stop, die and come back, a network
 * that delays and drops, a log that goes back to an earlier state. Whatever happens, the log holds
 * each frame once, in order, appended by whoever owned it.
 *
 * CONVOLVD_OWNERSHIP_SEED: the first seed; CONVOLVD_OWNERSHIP_STEPS: of all schedules together.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

#include "cluster/candidates.h"
#include "core/random.h"
#include "stream/ownership.h"

static const int64_t ms = 1000000;

enum { WORKERS = 3, LOG_MAX = 1 << 16, MESSAGES = 1024, FRAMES_MAX = 64 };

static const int64_t forget_ns = 2000000000, tell_ns = 500000000, calm_ns = 30000000000;

struct record {
    struct log_end end;
    enum { RECORD_TAKE, RECORD_DATA, RECORD_BEAT, RECORD_RELEASE } kind;
    uint64_t first, next;
    int to; /* RELEASE: for this worker; -1: for any */
};

enum message_kind {
    M_APPEND,
    M_APPENDED,
    M_REFUSED,
    M_READ,
    M_IS,
    M_ASK,
    M_ALIVE,
    M_NOBODY,
    M_SEEN,
    M_PRESENCE
};

struct message {
    int64_t at_ns; /* 0: the place is free */
    enum message_kind kind;
    int worker;
    uint64_t life, token, term;
    struct log_end expect;
    struct record record;
    struct candidate presence;
};

struct worker {
    struct ownership o;
    uint64_t life; /* identity of this run */
    int64_t paused_until_ns;
    bool cut_off;
    uint64_t next;      /* first frame it appends next */
    int64_t resumes_ns; /* 0: it does not */
    struct candidates candidates;
    struct candidate_turn turn;
    int64_t told_ns;
    int release_to;
    bool full;
};

struct cluster {
    struct random_state random;
    int64_t now_ns;
    bool faults;
    struct record log[LOG_MAX];
    uint64_t length, lives;
    struct message messages[MESSAGES];
    struct worker workers[WORKERS];
    uint64_t steps, appended, refused, takes, truncations, handed, sent;
};

static struct log_mark newest(const struct cluster *c)
{
    struct log_mark m = {0};
    if (c->length > 0) {
        const struct record *r = &c->log[c->length - 1];
        m = (struct log_mark){
            .end = r->end, .released = r->kind == RECORD_RELEASE, .next = r->next};
    }
    return m;
}

static void send_message(struct cluster *c, struct message m, bool may_drop)
{
    const uint32_t luck = random_below(&c->random, 1000);
    if (c->faults && may_drop && luck < 30)
        return;
    int64_t delay = (int64_t)random_below(&c->random, 3000000) + 1;
    if (!c->faults) /* nothing overtakes what was sent before */
        delay = ms + (int64_t)c->sent++;
    if (c->faults && luck > 960)
        delay += (int64_t)random_below(&c->random, 4000) * ms;
    for (int i = 0; i < MESSAGES; i++)
        if (c->messages[i].at_ns == 0) {
            m.at_ns = c->now_ns + delay;
            c->messages[i] = m;
            return;
        }
}

/* The contract, at each record that the log accepts. */
static void hold_against_the_chain(const struct cluster *c, const struct record *r)
{
    const struct log_mark before = newest(c);
    if (r->kind == RECORD_TAKE) {
        assert_true(r->end.term > before.end.term);
    } else {
        assert_int_equal(r->end.term, before.end.term);
        assert_int_equal(r->end.owner, before.end.owner);
        assert_false(before.released);
    }
    assert_int_equal(r->first, before.next); /* no frame lost, none doubled */
}

static void server_takes(struct cluster *c, const struct message *m)
{
    const struct log_mark end = newest(c);
    struct message answer = {.worker = m->worker, .life = m->life, .token = m->token};
    if (memcmp(&m->expect, &end.end, sizeof end.end) != 0 || c->length == LOG_MAX) {
        c->refused++;
        answer.kind = M_REFUSED;
        send_message(c, answer, true);
        return;
    }
    struct record r = m->record;
    r.end.sequence = c->length + 1;
    hold_against_the_chain(c, &r);
    c->log[c->length++] = r;
    c->appended++;
    c->takes += r.kind == RECORD_TAKE;
    answer.kind = M_APPENDED;
    answer.record = r;
    send_message(c, answer, true);
    for (int w = 0; w < WORKERS; w++)
        send_message(
            c,
            (struct message){.kind = M_SEEN, .worker = w, .life = c->workers[w].life, .record = r},
            true);
}

static void start(struct cluster *c, int w)
{
    struct worker *worker = &c->workers[w];
    memset(worker, 0, sizeof *worker);
    worker->life = ++c->lives;
    const struct ownership_options options = ownership_usual(worker->life);
    ownership_open(&worker->o, &options, c->now_ns);
    char name[WORKER_NAME];
    snprintf(name, sizeof name, "worker%d", w);
    candidates_open(&worker->candidates, name, worker->life, "c", forget_ns);
    candidates_listen(&worker->candidates, c->now_ns);
    worker->told_ns = INT64_MIN / 2;
    worker->release_to = -1;
    worker->full = c->faults && random_below(&c->random, 4) == 0;
}

/* What io/nats/presence does: tells of this worker, stands in its place, and hands over. */
static void stand(struct cluster *c, int w)
{
    struct worker *worker = &c->workers[w];
    candidates_load(&worker->candidates, worker->full ? 0.9 : 0.1, 0.8);
    const struct standing standing =
        candidates_standing(&worker->candidates, c->now_ns, "rig", "c");
    ownership_stand(&worker->o, standing.stands, standing.rank);
    const bool owning_ = worker->o.state == OWNERSHIP_OWNING && !worker->o.releases;
    const char *to =
        candidates_hand_over(&worker->candidates, &worker->turn, c->now_ns, &standing, owning_);
    if (to != NULL) {
        worker->release_to = to[strlen("worker")] - '0';
        ownership_release(&worker->o);
        c->handed++;
    }
    if (c->now_ns - worker->told_ns < tell_ns)
        return;
    worker->told_ns = c->now_ns;
    for (int i = 0; i < WORKERS; i++)
        send_message(c,
                     (struct message){.kind = M_PRESENCE,
                                      .worker = i,
                                      .life = c->workers[i].life,
                                      .presence = worker->candidates.own},
                     true);
}

static void send_append(struct cluster *c, int w, enum ownership_kind kind, uint64_t token,
                        struct log_end expect, uint64_t first, uint64_t next)
{
    const struct worker *worker = &c->workers[w];
    struct message m = {
        .kind = M_APPEND, .worker = w, .life = worker->life, .token = token, .expect = expect};
    m.record = (struct record){.end = {0, worker->o.term, worker->life},
                               .kind = kind == OWNERSHIP_TAKE      ? RECORD_TAKE
                                       : kind == OWNERSHIP_BEAT    ? RECORD_BEAT
                                       : kind == OWNERSHIP_RELEASE ? RECORD_RELEASE
                                                                   : RECORD_DATA,
                               .first = first,
                               .next = next,
                               .to = kind == OWNERSHIP_RELEASE ? worker->release_to : -1};
    send_message(c, m, true);
}

static void act(struct cluster *c, int w)
{
    struct worker *worker = &c->workers[w];
    struct ownership_action a;
    if (worker->resumes_ns != 0 && c->now_ns >= worker->resumes_ns) {
        worker->resumes_ns = 0;
        ownership_resumed(&worker->o, c->now_ns);
    }
    for (int i = 0; i < 8 && ownership_next(&worker->o, c->now_ns, &a); i++)
        switch (a.kind) {
        case OWNERSHIP_READ:
        case OWNERSHIP_ASK:
            send_message(c,
                         (struct message){.kind = a.kind == OWNERSHIP_READ ? M_READ : M_ASK,
                                          .worker = w,
                                          .life = worker->life,
                                          .term = a.term},
                         true);
            break;
        case OWNERSHIP_TAKE:
            worker->next = a.from.next;
            send_append(c, w, a.kind, a.token, a.expect, a.from.next, a.from.next);
            break;
        case OWNERSHIP_BEAT:
        case OWNERSHIP_RELEASE:
            send_append(c, w, a.kind, a.token, a.expect, worker->next, worker->next);
            break;
        case OWNERSHIP_RESUME:
            assert_int_equal(worker->next, a.from.next);
            worker->resumes_ns = c->now_ns + 1 + (int64_t)random_below(&c->random, 400) * ms;
            break;
        case OWNERSHIP_STOP:
            worker->resumes_ns = 0;
            break;
        case OWNERSHIP_NONE:
            fail();
        }
    struct log_end expect;
    uint64_t token;
    while (random_below(&c->random, 6) > (c->faults ? 1 : 4) &&
           ownership_append(&worker->o, c->now_ns, &expect, &token)) {
        const uint64_t first = worker->next;
        worker->next += 1 + random_below(&c->random, FRAMES_MAX);
        send_append(c, w, OWNERSHIP_NONE, token, expect, first, worker->next);
    }
}

static void worker_takes(struct cluster *c, const struct message *m)
{
    struct worker *worker = &c->workers[m->worker];
    struct ownership *o = &worker->o;
    if (m->life != worker->life)
        return; /* for a run that is dead */
    const struct log_mark mark_ = {.end = m->record.end,
                                   .released = m->record.kind == RECORD_RELEASE,
                                   .given_to = m->record.to < 0            ? RELEASE_FOR_ANY
                                               : m->record.to == m->worker ? RELEASE_FOR_THIS
                                                                           : RELEASE_FOR_ANOTHER,
                                   .next = m->record.next};
    switch (m->kind) {
    case M_APPENDED:
        ownership_appended(o, c->now_ns, m->token, m->record.end.sequence);
        break;
    case M_REFUSED:
        ownership_refused(o, c->now_ns, m->token);
        break;
    case M_IS:
        ownership_read(o, c->now_ns, &mark_);
        break;
    case M_ALIVE:
        ownership_answered(o, c->now_ns, m->term);
        break;
    case M_NOBODY:
        ownership_no_responders(o, c->now_ns, m->term);
        break;
    case M_SEEN:
        ownership_seen(o, c->now_ns, &mark_);
        break;
    case M_PRESENCE:
        candidates_heard(&worker->candidates, c->now_ns, &m->presence);
        break;
    case M_APPEND:
    case M_READ:
    case M_ASK:
        fail();
    }
}

static void deliver(struct cluster *c, const struct message *m)
{
    struct message answer = {.worker = m->worker, .life = m->life, .term = m->term};
    if (m->kind == M_APPEND) {
        server_takes(c, m);
    } else if (m->kind == M_READ) {
        answer.kind = M_IS;
        if (c->length > 0)
            answer.record = c->log[c->length - 1];
        send_message(c, answer, true);
    } else if (m->kind == M_ASK) {
        answer.kind = M_NOBODY;
        for (int w = 0; w < WORKERS; w++)
            if (c->now_ns >= c->workers[w].paused_until_ns &&
                ownership_answers(&c->workers[w].o, m->term))
                answer.kind = M_ALIVE;
        send_message(c, answer, true);
    } else {
        worker_takes(c, m);
    }
}

/* The oldest message that may be delivered, -1: none. One for a worker that is stopped waits. */
static int oldest(const struct cluster *c)
{
    int found = -1;
    for (int i = 0; i < MESSAGES; i++) {
        const struct message *m = &c->messages[i];
        const bool to_worker = m->kind != M_APPEND && m->kind != M_READ && m->kind != M_ASK;
        if (m->at_ns == 0 || m->at_ns > c->now_ns ||
            (to_worker && c->now_ns < c->workers[m->worker].paused_until_ns))
            continue;
        if (found < 0 || m->at_ns < c->messages[found].at_ns)
            found = i;
    }
    return found;
}

static void break_something(struct cluster *c)
{
    const int w = (int)random_below(&c->random, WORKERS);
    switch (random_below(&c->random, 600)) {
    case 0: /* kill -9, and another run */
        start(c, w);
        break;
    case 1: /* SIGSTOP, up to 6 s */
        c->workers[w].paused_until_ns = c->now_ns + (int64_t)random_below(&c->random, 6000) * ms;
        break;
    case 2: /* the server comes back with what it had before */
        if (c->length > 0) {
            c->length -= random_below(&c->random, c->length < 200 ? (uint32_t)c->length + 1 : 200);
            c->truncations++;
        }
        break;
    case 3: /* by command, to any or to one that may be dead */
        c->workers[w].release_to = (int)random_below(&c->random, WORKERS + 1) - 1;
        ownership_release(&c->workers[w].o);
        break;
    case 4:
        c->workers[w].full = !c->workers[w].full;
        break;
    default:
        break;
    }
}

static void step(struct cluster *c)
{
    c->now_ns += 1 + random_below(&c->random, 2000000);
    if (c->faults)
        break_something(c);
    for (int i = oldest(c); i >= 0; i = oldest(c)) {
        const struct message m = c->messages[i];
        c->messages[i].at_ns = 0;
        deliver(c, &m);
        c->steps++;
    }
    for (int w = 0; w < WORKERS; w++)
        if (c->now_ns >= c->workers[w].paused_until_ns) {
            stand(c, w);
            act(c, w);
        }
    c->steps++;
}

/* Long after the last fault: one worker owns, and none with room comes before it. One that has no
 * room keeps what it owned before. */
static void hold_against_the_order(const struct cluster *c, uint64_t seed)
{
    int owners = 0;
    for (int w = 0; w < WORKERS; w++) {
        const struct standing standing =
            candidates_standing(&c->workers[w].candidates, c->now_ns, "rig", "c");
        const bool owns = c->workers[w].o.state == OWNERSHIP_OWNING;
        owners += owns;
        if ((owns && !standing.first) || standing.others != WORKERS - 1)
            fail_msg("seed %llu: worker %d is %s, rank %u of %u", (unsigned long long)seed, w,
                     owns ? "the owner" : "no owner", standing.rank, standing.others);
    }
    if (owners != 1)
        fail_msg("seed %llu: %d owners", (unsigned long long)seed, owners);
}

static uint64_t setting(const char *name, uint64_t usual)
{
    const char *text = getenv(name);
    return text != NULL ? strtoull(text, NULL, 10) : usual;
}

static void test_no_schedule_loses_or_doubles_a_frame(void **state)
{
    (void)state;
    const uint64_t wanted = setting("CONVOLVD_OWNERSHIP_STEPS", 1200000);
    uint64_t seed = setting("CONVOLVD_OWNERSHIP_SEED", 1), steps = 0, takes = 0, refused = 0,
             truncations = 0, handed = 0;
    struct cluster *c = malloc(sizeof *c);
    assert_non_null(c);
    for (; steps < wanted; seed++) {
        memset(c, 0, sizeof *c);
        c->random.state = seed;
        c->now_ns = ms;
        c->faults = true;
        for (int w = 0; w < WORKERS; w++)
            start(c, w);
        for (int i = 0; i < 40000 && c->length < LOG_MAX / 2; i++)
            step(c);
        /* Once the faults are over, somebody goes on. */
        c->faults = false;
        c->workers[seed % WORKERS].full = true; /* one has no room, in each place of the order */
        for (int w = 1; w < WORKERS; w++)
            c->workers[(seed + (uint64_t)w) % WORKERS].full = false;
        const int64_t over_ns = c->now_ns;
        const uint64_t before = c->appended;
        while (c->now_ns < over_ns + calm_ns && c->length < LOG_MAX)
            step(c);
        if (c->appended < before + 20)
            fail_msg("seed %llu: nobody goes on", (unsigned long long)seed);
        hold_against_the_order(c, seed);
        steps += c->steps;
        handed += c->handed;
        takes += c->takes;
        refused += c->refused;
        truncations += c->truncations;
    }
    free(c);
    printf("%llu steps, %llu takeovers, %llu of them to the first of the order, %llu appends "
           "refused, the log went back %llu times\n",
           (unsigned long long)steps, (unsigned long long)takes, (unsigned long long)handed,
           (unsigned long long)refused, (unsigned long long)truncations);
    assert_true(takes > 100 && refused > 100 && truncations > 20 && handed > 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_no_schedule_loses_or_doubles_a_frame)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
