/*
 * Terms of several workers at one partition, on a simulated log: workers die, stop and come back
 * as zombies, appends and their outcomes are late or lost, the log goes back. Ownership says who
 * appends, the term which frames; each worker's stream is a filter that knows only what it has
 * read since its term began. Whatever happens, the log holds each frame of each epoch once, in
 * order, with the value of an undisturbed run.
 *
 * CONVOLVD_TERM_SEED: the first seed.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

#include "cluster/term.h"
#include "core/random.h"
#include "stream/ownership.h"

static const int64_t ms = 1000000;

/* ---- rule by rule ------------------------------------------------------------------------ */

static void test_where_a_term_begins_to_read(void **state)
{
    (void)state;
    static const struct {
        struct term_plan plan;
        uint64_t next, start;
    } rows[] = {
        {{.history = 8, .hop = 1, .decimate = 1}, 100, 92},
        {{.history = 8, .hop = 1, .decimate = 1}, 8, 0},
        {{.history = 8, .hop = 1, .decimate = 1}, 3, 0},
        {{.history = 8, .hop = 16, .decimate = 1}, 100, 80},  /* block 96, 88, on the grid */
        {{.history = 8, .hop = 16, .decimate = 3}, 100, 240}, /* 300, 288, 280: a multiple of 48 */
        {{.history = 300, .hop = 64, .decimate = 64}, 100, 6080 / 64 * 64},
    };
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++)
        assert_int_equal(term_start(&rows[i].plan, rows[i].next), rows[i].start);
    assert_int_equal(term_grid(&rows[4].plan, 240), 240);
    assert_int_equal(term_grid(&rows[4].plan, 241), 288);
}

static void test_what_of_a_result_belongs_into_the_log(void **state)
{
    (void)state;
    static struct term t;
    const struct term_plan plan = {.history = 8, .hop = 16, .decimate = 2};
    term_begin(&t, &plan, 3, 100);
    assert_int_equal(term_cut(&t, 7, 0, 10).part, TERM_FOREIGN);
    term_epoch(&t, &(struct term_epoch){.local = 7, .epoch = 3, .start = 160, .timeline = 1000});
    assert_int_equal(term_cut(&t, 6, 0, 10).part, TERM_FOREIGN);
    assert_int_equal(term_cut(&t, 7, 0, 20).part, TERM_SEEN); /* frames 80 … 99 */
    struct term_cut cut = term_cut(&t, 7, 16, 8);             /* 96 … 103 */
    assert_true(cut.part == TERM_NEW && cut.skip == 4 && cut.from == 100 && cut.first == 100);
    assert_true(cut.next == 104 && cut.input_next == 208 && cut.timeline == 600 && !cut.begins);
    term_take(&t, &cut);
    cut = term_cut(&t, 7, 30, 8); /* 110 … 117: 104 … 109 were shed */
    assert_true(cut.part == TERM_NEW && cut.skip == 0 && cut.from == 104 && cut.first == 110);
    term_epoch(&t, &(struct term_epoch){.local = 8, .epoch = 4});
    cut = term_cut(&t, 8, 0, 8);
    assert_true(cut.begins && cut.epoch == 4 && cut.from == 0);
    term_take(&t, &cut);
    assert_int_equal(term_cut(&t, 7, 40, 8).part, TERM_SEEN); /* of an epoch that is over */
    term_end(&t);
    assert_int_equal(term_cut(&t, 8, 8, 8).part, TERM_FOREIGN);
}

static void test_where_a_successor_reads_on(void **state)
{
    (void)state;
    static struct term t;
    const struct term_plan plan = {.history = 8, .hop = 4, .decimate = 1};
    term_begin(&t, &plan, 0, 0);
    assert_int_equal(term_sequence(&t), 0);
    for (uint64_t i = 0; i < TERM_MARKS + 10; i++)
        term_mark(&t, &(struct term_mark){.from = i * 5, .sequence = 900 + i});
    t.next = TERM_MARKS * 5 + 2;
    const uint64_t start = term_start(&plan, t.next);
    assert_int_equal(term_sequence(&t), 900 + start / 5);
    t.next = 0;
    assert_int_equal(term_sequence(&t), 900 + 10); /* the oldest that it still knows */
    term_mark(&t, &(struct term_mark){.epoch = 1, .from = 0, .sequence = 9000});
    t.epoch = 1;
    t.next = 3;
    assert_int_equal(term_sequence(&t), 9000);
}

/* ---- a cluster --------------------------------------------------------------------------- */

enum {
    WORKERS = 3,
    EPOCHS = 4,
    EPOCH_FRAMES = 700,
    RAW_MAX = 1024,
    LOG_MAX = 1 << 14,
    QUEUE = 512,
    RESULT = 40, /* frames of one, at most */
    TAPS_MAX = 16,
};

/* What all workers are configured with. */
struct shape {
    struct term_plan plan;
    uint32_t taps; /* history is taps - 1 */
};

struct raw_record {
    uint64_t epoch, from, next;
};

struct record {
    struct log_end end;
    enum { TAKE, DATA, BEAT, RELEASE } kind;
    uint64_t epoch, from, next, raw_sequence;
    int64_t values[RESULT];
};

struct message {
    int64_t at_ns;
    enum { APPEND, APPENDED, REFUSED, IS, NOBODY, ALIVE } kind;
    uint64_t life, token, term;
    struct log_end expect;
    struct record record;
};

/* An epoch of a worker's stream. */
struct local {
    uint64_t number, epoch, start, head, out; /* out: first output frame not handed out */
    bool ended;
};

struct worker {
    struct ownership o;
    struct term term;
    uint64_t life, locals;
    int64_t paused_until_ns;
    uint64_t epoch, next, raw_sequence; /* what its next append says */
    bool reads;
    uint64_t raw_at; /* next record of RAW, from 0 */
    struct local now, stale;
    struct message to[QUEUE], from[QUEUE]; /* to the server, and back; at_ns 0: free */
};

struct cluster {
    struct random_state random;
    struct shape shape;
    int64_t now_ns;
    bool faults;
    struct raw_record raw[RAW_MAX];
    uint64_t raw_count, lives;
    struct record log[LOG_MAX];
    uint64_t length, takes, truncations, foreign;
    struct worker workers[WORKERS];
};

static int64_t sample(uint64_t epoch, uint64_t frame)
{
    struct random_state r = {epoch << 32 | frame};
    return (int64_t)(random_u64(&r) >> 44);
}

/* What a stream that has read from `start` on computes; a block's place in its grid shows in the
 * value, as rounding would show it. */
static int64_t value(const struct shape *shape, uint64_t epoch, uint64_t start, uint64_t out)
{
    const uint64_t n = out * shape->plan.decimate;
    int64_t sum = (int64_t)((n - start) % shape->plan.hop) << 40;
    for (uint64_t k = 0; k < shape->taps && k <= n; k++)
        if (n - k >= start && n - k < EPOCH_FRAMES)
            sum += (int64_t)(3 * k + 1) * sample(epoch, n - k);
    return sum;
}

static uint64_t outputs(const struct shape *shape)
{
    return (EPOCH_FRAMES + shape->taps - 2) / shape->plan.decimate + 1;
}

static void post(struct cluster *c, struct message queue[QUEUE], struct message m)
{
    const uint32_t luck = random_below(&c->random, 1000);
    if (c->faults && luck < 20)
        return;
    m.at_ns = c->now_ns + 1 + random_below(&c->random, 3) * ms;
    if (c->faults && luck > 980)
        m.at_ns += (int64_t)random_below(&c->random, 3000) * ms;
    for (int i = 0; i < QUEUE; i++)
        if (queue[i].at_ns == 0) {
            queue[i] = m;
            return;
        }
}

static struct log_mark newest(const struct cluster *c)
{
    if (c->length == 0)
        return (struct log_mark){0};
    const struct record *r = &c->log[c->length - 1];
    return (struct log_mark){
        .end = r->end, .released = r->kind == RELEASE, .epoch = r->epoch, .next = r->next};
}

/* The contract, at each record that the log accepts. */
static void hold(const struct cluster *c, const struct record *r)
{
    const struct log_mark before = newest(c);
    if (r->kind != DATA) {
        assert_true(r->epoch == before.epoch && r->next == before.next);
        return;
    }
    if (r->epoch != before.epoch) { /* only behind the last frame of the epoch before */
        assert_int_equal(before.next, outputs(&c->shape));
        assert_int_equal(r->epoch, before.epoch + 1);
        assert_int_equal(r->from, 0);
    } else {
        assert_int_equal(r->from, before.next);
    }
    for (uint64_t f = r->from; f < r->next; f++)
        assert_int_equal(r->values[f - r->from], value(&c->shape, r->epoch, 0, f));
}

static void server_takes(struct cluster *c, struct worker *w, const struct message *m)
{
    const struct log_mark end = newest(c);
    struct message answer = {.kind = REFUSED, .life = m->life, .token = m->token};
    if (memcmp(&m->expect, &end.end, sizeof end.end) == 0 && c->length < LOG_MAX) {
        struct record r = m->record;
        r.end.sequence = c->length + 1;
        hold(c, &r);
        c->takes += r.kind == TAKE;
        c->log[c->length++] = r;
        answer.kind = APPENDED;
        answer.record.end = r.end;
    }
    post(c, w->from, answer);
}

static void append(struct cluster *c, struct worker *w, struct record r, uint64_t token,
                   struct log_end expect)
{
    r.end = (struct log_end){0, w->o.term, w->life};
    post(c, w->to,
         (struct message){
             .kind = APPEND, .life = w->life, .token = token, .expect = expect, .record = r});
}

static void resume(struct cluster *c, struct worker *w, const struct log_mark *from)
{
    term_begin(&w->term, &c->shape.plan, from->epoch, from->next);
    w->reads = true;
    w->raw_at = w->raw_sequence > 0 ? w->raw_sequence - 1 : 0;
    if (w->now.number != 0)
        w->stale = w->now;
    w->now = (struct local){0};
}

/* One record of RAW into the stream. */
static void read_raw(struct cluster *c, struct worker *w)
{
    const struct raw_record *r = &c->raw[w->raw_at];
    if (r->epoch < w->term.epoch) {
        w->raw_at++;
        return;
    }
    if (w->now.number == 0 || w->now.epoch != r->epoch) {
        if (w->now.number != 0 && w->now.out < outputs(&c->shape))
            return; /* results of the epoch before first */
        const uint64_t start =
            r->epoch == w->term.epoch ? term_start(&c->shape.plan, w->term.next) : 0;
        if (r->next <= start) {
            w->raw_at++;
            return;
        }
        assert_true(r->from <= start); /* the noted record is early enough */
        w->now = (struct local){.number = ++w->locals,
                                .epoch = r->epoch,
                                .start = start,
                                .head = start,
                                .out = start / c->shape.plan.decimate};
        term_epoch(&w->term,
                   &(struct term_epoch){.local = w->now.number, .epoch = r->epoch, .start = start});
    }
    term_mark(&w->term, &(struct term_mark){r->epoch, r->from, w->raw_at + 1});
    w->now.head = r->next;
    w->now.ended = r->next == EPOCH_FRAMES;
    w->raw_at++;
}

/* The next frames that a stream can hand out; 0: none. */
static uint32_t ready(const struct cluster *c, const struct local *l)
{
    const struct term_plan *plan = &c->shape.plan;
    const uint64_t whole = (l->head - l->start) / plan->hop * plan->hop + l->start;
    const uint64_t until =
        l->ended ? outputs(&c->shape) : (whole + plan->decimate - 1) / plan->decimate;
    const uint64_t frames = until > l->out ? until - l->out : 0;
    return (uint32_t)(frames < RESULT ? frames : RESULT);
}

static void hand_out(struct cluster *c, struct worker *w)
{
    struct local *l = &w->now;
    const uint32_t frames = l->number != 0 ? ready(c, l) : 0;
    if (frames == 0)
        return;
    const uint64_t shift = l->start / c->shape.plan.decimate;
    const struct term_cut cut = term_cut(&w->term, l->number, l->out - shift, frames);
    assert_int_not_equal(cut.part, TERM_FOREIGN);
    if (cut.part == TERM_NEW) {
        struct log_end expect;
        uint64_t token;
        if (!ownership_append(&w->o, c->now_ns, &expect, &token))
            return; /* it waits */
        assert_int_equal(cut.from, cut.first);
        struct record r = {.kind = DATA, .epoch = cut.epoch, .from = cut.from, .next = cut.next};
        for (uint64_t f = cut.first; f < cut.next; f++)
            r.values[f - cut.first] = value(&c->shape, l->epoch, l->start, f);
        term_take(&w->term, &cut);
        r.raw_sequence = w->raw_sequence = term_sequence(&w->term);
        w->epoch = cut.epoch;
        w->next = cut.next;
        append(c, w, r, token, expect);
    }
    l->out += frames;
}

static void act(struct cluster *c, struct worker *w)
{
    static const struct record nothing;
    struct ownership_action a;
    for (int i = 0; i < 8 && ownership_next(&w->o, c->now_ns, &a); i++) {
        struct record r = {
            .epoch = w->epoch, .next = w->next, .from = w->next, .raw_sequence = w->raw_sequence};
        switch (a.kind) {
        case OWNERSHIP_READ:
            post(c, w->from,
                 (struct message){.kind = IS,
                                  .life = w->life,
                                  .record = c->length > 0 ? c->log[c->length - 1] : nothing});
            break;
        case OWNERSHIP_ASK: {
            bool alive = false, there = false;
            for (int k = 0; k < WORKERS; k++) {
                const struct worker *other = &c->workers[k];
                there = there || (other->o.term == a.term && ownership_answers(&other->o, a.term));
                alive = alive || (ownership_answers(&other->o, a.term) &&
                                  c->now_ns >= other->paused_until_ns);
            }
            if (alive || !there)
                post(c, w->from,
                     (struct message){
                         .kind = alive ? ALIVE : NOBODY, .life = w->life, .term = a.term});
            break;
        }
        case OWNERSHIP_TAKE:
            w->epoch = r.epoch = a.from.epoch;
            w->next = r.next = r.from = a.from.next;
            r.kind = TAKE;
            append(c, w, r, a.token, a.expect);
            break;
        case OWNERSHIP_BEAT:
        case OWNERSHIP_RELEASE:
            r.kind = a.kind == OWNERSHIP_BEAT ? BEAT : RELEASE;
            append(c, w, r, a.token, a.expect);
            break;
        case OWNERSHIP_RESUME:
            resume(c, w, &a.from);
            ownership_resumed(&w->o, c->now_ns);
            break;
        case OWNERSHIP_STOP:
            term_end(&w->term);
            w->reads = false;
            break;
        case OWNERSHIP_NONE:
            fail();
        }
    }
    for (int i = 0; w->reads && i < 3; i++) {
        if (w->raw_at < c->raw_count && random_below(&c->random, 2) == 0)
            read_raw(c, w);
        hand_out(c, w);
    }
    /* What the stream still hands out of a term that is over. */
    if (w->stale.number != 0 && random_below(&c->random, 5) == 0) {
        assert_int_equal(term_cut(&w->term, w->stale.number, 0, 8).part, TERM_FOREIGN);
        c->foreign++;
    }
}

static void deliver(struct cluster *c, struct worker *w)
{
    for (int i = 0; i < QUEUE; i++) {
        struct message *m = &w->from[i];
        if (m->at_ns == 0 || m->at_ns > c->now_ns)
            continue;
        const struct message got = *m;
        m->at_ns = 0;
        if (got.life != w->life)
            continue;
        const struct log_mark mark = {.end = got.record.end,
                                      .released = got.record.kind == RELEASE,
                                      .epoch = got.record.epoch,
                                      .next = got.record.next};
        switch (got.kind) {
        case IS:
            if (w->o.state == OWNERSHIP_FOLLOWING || w->o.state == OWNERSHIP_READING)
                w->raw_sequence = got.record.raw_sequence;
            ownership_read(&w->o, c->now_ns, &mark);
            break;
        case APPENDED:
            ownership_appended(&w->o, c->now_ns, got.token, got.record.end.sequence);
            break;
        case REFUSED:
            ownership_refused(&w->o, c->now_ns, got.token);
            break;
        case NOBODY:
            ownership_no_responders(&w->o, c->now_ns, got.term);
            break;
        case ALIVE:
            ownership_answered(&w->o, c->now_ns, got.term);
            break;
        case APPEND:
            fail();
        }
    }
}

static void start(struct cluster *c, int i)
{
    struct worker *w = &c->workers[i];
    const uint64_t locals = w->locals;
    memset(&w->o, 0, sizeof w->o);
    w->term.open = w->reads = false;
    w->now = w->stale = (struct local){0};
    w->locals = locals;
    w->life = ++c->lives;
    w->paused_until_ns = 0;
    const struct ownership_options options = ownership_usual(w->life);
    ownership_open(&w->o, &options, c->now_ns);
    ownership_stand(&w->o, true, (uint32_t)i);
}

static void disturb(struct cluster *c)
{
    const uint32_t luck = random_below(&c->random, 4000);
    const int i = (int)random_below(&c->random, WORKERS);
    if (luck < 4) {
        start(c, i); /* killed, and started again */
    } else if (luck < 10) {
        c->workers[i].paused_until_ns = c->now_ns + (int64_t)random_below(&c->random, 4000) * ms;
    } else if (luck < 12 && c->length > 0) {
        c->length -= random_below(&c->random, c->length < 20 ? (uint32_t)c->length : 20);
        c->truncations++;
    }
}

static void step(struct cluster *c)
{
    c->now_ns += (1 + random_below(&c->random, 5)) * ms;
    if (c->faults)
        disturb(c);
    for (int i = 0; i < WORKERS; i++) {
        struct worker *w = &c->workers[i];
        for (int k = 0; k < QUEUE; k++) { /* what is under way arrives, whoever is stopped */
            if (w->to[k].at_ns == 0 || w->to[k].at_ns > c->now_ns)
                continue;
            const struct message m = w->to[k];
            w->to[k].at_ns = 0;
            server_takes(c, w, &m);
        }
        if (c->now_ns < w->paused_until_ns)
            continue;
        deliver(c, w);
        act(c, w);
    }
}

static void make_raw(struct cluster *c)
{
    for (uint64_t e = 0; e < EPOCHS; e++)
        for (uint64_t f = 0; f < EPOCH_FRAMES;) {
            uint64_t next = f + 1 + random_below(&c->random, 50);
            next = next < EPOCH_FRAMES ? next : EPOCH_FRAMES;
            c->raw[c->raw_count++] = (struct raw_record){e, f, next};
            f = next;
        }
}

static void test_any_schedule_leaves_the_undisturbed_log(void **state)
{
    (void)state;
    static const struct shape shapes[] = {
        {{.history = 8, .hop = 1, .decimate = 1}, 9},
        {{.history = 15, .hop = 16, .decimate = 1}, 16},
        {{.history = 8, .hop = 8, .decimate = 3}, 9},
        {{.history = 12, .hop = 4, .decimate = 2}, 13},
    };
    const char *text = getenv("CONVOLVD_TERM_SEED");
    const uint64_t first = text != NULL ? strtoull(text, NULL, 10) : 1;
    struct cluster *c = malloc(sizeof *c);
    uint64_t takes = 0, truncations = 0, foreign = 0;
    assert_non_null(c);
    for (uint64_t seed = first; seed < first + 24; seed++) {
        memset(c, 0, sizeof *c);
        c->random.state = seed;
        c->shape = shapes[seed % 4];
        make_raw(c);
        for (int i = 0; i < WORKERS; i++)
            start(c, i);
        const uint64_t end = outputs(&c->shape);
        bool whole = false;
        for (uint64_t steps = 0; steps < 60000 && !whole; steps++) {
            c->faults = steps < 4000;
            step(c);
            const struct log_mark m = newest(c);
            whole = !c->faults && m.epoch == EPOCHS - 1 && m.next == end;
        }
        if (!whole)
            print_error("seed %llu stands still\n", (unsigned long long)seed);
        assert_true(whole);
        takes += c->takes;
        truncations += c->truncations;
        foreign += c->foreign;
    }
    assert_true(takes > 60 && truncations > 10 && foreign > 10);
    free(c);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_where_a_term_begins_to_read),
        cmocka_unit_test(test_what_of_a_result_belongs_into_the_log),
        cmocka_unit_test(test_where_a_successor_reads_on),
        cmocka_unit_test(test_any_schedule_leaves_the_undisturbed_log),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
