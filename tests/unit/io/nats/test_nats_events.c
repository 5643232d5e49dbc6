/*
 * Events of a log under any schedule: owners that die or lose their term at any moment, with what
 * was under way stored or not, a log that goes back, analyses that lag behind what was put. The log
 * then has the events of an analysis that has seen each frame once: none lost, doubled or changed.
 * Files get an event when the log has it, never before.
 *
 * The appender, the link and the analysis are models: a log is a list of records, appends are
 * stored one after the other, and what an owner had under way when its term ended is stored up to a
 * random place. CONVOLVD_TEST_SEED, which a failure prints, brings a schedule again.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include <cmocka.h>

#include "cluster/cluster.h"
#include "core/clock.h"
#include "core/random.h"
#include "io/nats/events.h"
#include "io/nats/options.h"
#include "wire/crc32c.h"

enum {
    STEPS = 200000,
    RECORDS = 1 << 18,
    UNDER_WAY = 32,
    ROOM = 200, /* frames that the analysis takes */
    LINE = 64,
    LINES = 1 << 18,
    OUTBOX = 40,
    KEPT = 4, /* fewer than records under way may have */
};

static struct random_state rng;

static uint32_t one_of(uint32_t count)
{
    return random_below(&rng, count);
}

/* ---- the analysis ------------------------------------------------------------------------ */

/* An event for each fourth frame or so; it depends on all frames before. */
struct sums {
    uint64_t sum, frame;
};

static float sample_at(uint64_t frame)
{
    return (float)((frame * UINT64_C(2654435761)) % 251);
}

/* False: this frame ends no event. */
static bool sums_put(struct sums *s, float sample, char line[LINE])
{
    s->sum = s->sum * 31 + (uint64_t)sample + 7;
    const uint64_t frame = s->frame++;
    if (s->sum % 4 != 0)
        return false;
    snprintf(line, LINE, "{\"frame\":%llu,\"sum\":%llu}\n", (unsigned long long)frame,
             (unsigned long long)s->sum);
    return true;
}

struct analyses {
    struct sums sums;
    float queue[ROOM]; /* put, not analysed */
    uint32_t queued;
    char outbox[OUTBOX][LINE];
    uint32_t out;
    uint64_t kept;
    bool discards, restored;
};

/* What the analysis of one that has seen all frames would say. */
static char (*expected)[LINE];
static uint64_t expected_count;
static struct sums oracle;

static void expect_until(uint64_t frame)
{
    while (oracle.frame < frame)
        expected_count += sums_put(&oracle, sample_at(oracle.frame), expected[expected_count]);
}

static void work(struct analyses *a, uint32_t frames)
{
    uint32_t done = 0;
    while (done < frames && done < a->queued && (a->discards || a->out < OUTBOX)) {
        char line[LINE];
        if (sums_put(&a->sums, a->queue[done++], line) && !a->discards)
            memcpy(a->outbox[a->out++], line, LINE);
    }
    a->queued -= done;
    memmove(a->queue, a->queue + done, a->queued * sizeof *a->queue);
}

/* ---- the log ----------------------------------------------------------------------------- */

static struct stored {
    uint8_t *bytes;
    size_t count;
} records[RECORDS];
static uint64_t record_count; /* stored */

/* The owner of the term. */
struct nats_appender {
    bool ready;
    uint64_t term, checkpoint, next;
    struct stored under_way[UNDER_WAY];
    uint32_t under_way_count;
    uint64_t tokens, stored; /* appended; acknowledged */
};

struct process {
    struct nats_events events;
    struct analyses analyses;
    struct nats_appender appender;
    bool owns, closed;
    uint64_t delivered; /* in this term, and where it began to */
    uint64_t followed;  /* by the link: the next record; 0: none */
};

static struct process *now;

static struct stored encoded(struct nats_appender *a, struct record *r)
{
    r->term = a->term;
    r->owner = 9;
    r->events = true;
    r->checkpoint = a->checkpoint;
    struct stored made = {malloc(record_bytes(r)), record_bytes(r)};
    assert_true(made.count > 0);
    assert_non_null(made.bytes);
    record_write(r, made.bytes);
    return made;
}

static struct record decoded(uint64_t sequence)
{
    struct record r;
    assert_int_equal(record_read(records[sequence - 1].bytes, records[sequence - 1].count, &r),
                     RECORD_FAULT_NONE);
    return r;
}

static void store(struct stored made)
{
    assert_true(record_count < RECORDS);
    records[record_count++] = made;
}

static bool append(struct nats_appender *a, struct record *r, uint64_t *token, uint64_t *sequence)
{
    assert_true(a->ready);
    if (a->under_way_count == UNDER_WAY)
        return false;
    a->under_way[a->under_way_count++] = encoded(a, r);
    *token = ++a->tokens;
    *sequence = record_count + a->under_way_count;
    return true;
}

static void acknowledge(struct nats_appender *a)
{
    if (a->under_way_count == 0)
        return;
    store(a->under_way[0]);
    a->stored++;
    a->under_way_count--;
    memmove(a->under_way, a->under_way + 1, a->under_way_count * sizeof *a->under_way);
}

static struct record bare(const struct nats_appender *a, enum record_kind kind)
{
    return (struct record){
        .kind = kind, .from = a->next, .first = a->next, .next = a->next, .input_next = a->next};
}

/* What events.c calls of appender.h. */

bool nats_appender_analysis(struct nats_appender *a, const uint8_t *bytes, uint32_t count,
                            uint64_t *token, uint64_t *sequence)
{
    struct record r = bare(a, RECORD_ANALYSIS);
    r.analysis = (struct record_span){bytes, count};
    return one_of(8) != 0 && append(a, &r, token, sequence);
}

bool nats_appender_stored(const struct nats_appender *a, uint64_t token)
{
    return token <= a->stored;
}

void nats_appender_checkpoint(struct nats_appender *a, uint64_t sequence)
{
    a->checkpoint = sequence;
}

uint64_t nats_appender_tail(const struct nats_appender *a)
{
    return record_count + a->under_way_count;
}

void nats_appender_ready(struct nats_appender *a)
{
    a->ready = true;
}

void nats_appender_log_events(struct nats_appender *a)
{
    (void)a;
}

/* And of link.h. */

struct nats_link {
    int unused;
};
static struct nats_link the_link;

int nats_link_open(const struct nats_link_options *options, struct nats_link **out,
                   struct problem *problem)
{
    (void)options, (void)problem;
    *out = &the_link;
    return 0;
}

void nats_link_start(struct nats_link *link)
{
    (void)link;
}

void nats_link_close(struct nats_link *link, int64_t deadline_ns, void (*closed)(void *context),
                     void *context)
{
    (void)link, (void)deadline_ns;
    closed(context);
}

void nats_link_follow(struct nats_link *link, uint64_t sequence)
{
    (void)link;
    now->followed = sequence;
}

bool nats_link_next(struct nats_link *link, struct nats_event *event)
{
    (void)link;
    if (now->followed == 0 || now->followed > record_count || one_of(4) == 0)
        return false;
    *event = (struct nats_event){.kind = LINK_RECORD, .sequence = now->followed};
    event->record = decoded(now->followed++);
    return true;
}

int64_t nats_link_due(const struct nats_link *link)
{
    (void)link;
    return INT64_MAX;
}

void nats_link_tick(struct nats_link *link, int64_t now_ns)
{
    (void)link, (void)now_ns;
}

/* ---- what the sink has of its stream (io/event_log.h) ------------------------------------- */

static uint32_t host_count(void *context)
{
    (void)context;
    return 1;
}

static const char *host_name(void *context, uint32_t analysis)
{
    (void)context, (void)analysis;
    return "sums";
}

static uint32_t host_marks_most(void *context)
{
    (void)context;
    return 1;
}

static uint64_t host_room(void *context)
{
    return ROOM - ((struct analyses *)context)->queued;
}

static bool host_idle(void *context)
{
    return ((struct analyses *)context)->queued == 0;
}

static void host_put(void *context, const struct result *result)
{
    struct analyses *a = context;
    assert_true(a->restored && !a->discards && result->frames <= host_room(a));
    assert_int_equal(result->first_frame, a->sums.frame + a->queued);
    memcpy(a->queue + a->queued, result->samples, result->frames * sizeof *a->queue);
    a->queued += result->frames;
}

static const char *host_next(void *context, uint32_t analysis, size_t *bytes)
{
    struct analyses *a = context;
    (void)analysis;
    *bytes = a->out > 0 ? strlen(a->outbox[0]) : 0;
    return a->out > 0 ? a->outbox[0] : NULL;
}

static void host_pass(void *context, uint32_t analysis)
{
    struct analyses *a = context;
    (void)analysis;
    a->out--;
    memmove(a->outbox, a->outbox + 1, (size_t)a->out * LINE);
}

static bool host_keep(void *context, uint32_t analysis)
{
    struct analyses *a = context;
    if (a->kept == KEPT)
        return false;
    a->kept++;
    host_pass(a, analysis);
    return true;
}

/* Events that the log has by now. */
static uint64_t events_stored(void)
{
    uint64_t count = 0;
    for (uint64_t s = record_count; s > 0 && count == 0; s--) {
        const struct record r = decoded(s);
        struct logged_part part;
        size_t at = 0;
        while (logged_read(&r.analysis, &at, &part))
            if (part.form == LOGGED_EVENTS)
                count = part.number + part.count - 1;
    }
    return count;
}

static void host_deliver(void *context, uint32_t analysis, uint64_t count)
{
    struct analyses *a = context;
    (void)analysis;
    assert_true(count <= a->kept);
    a->kept -= count;
    now->delivered += count;
    assert_true(now->events.of[0].number - a->kept <= events_stored());
}

static void host_forget(void *context)
{
    struct analyses *a = context;
    a->discards = true;
    a->restored = false;
    a->kept = 0;
}

static uint8_t *host_write(void *context, size_t *bytes)
{
    const struct analyses *a = context;
    assert_true(a->queued == 0 && a->out == 0);
    uint8_t *made = malloc(sizeof a->sums);
    assert_non_null(made);
    memcpy(made, &a->sums, sizeof a->sums);
    *bytes = sizeof a->sums;
    return made;
}

static bool host_read(void *context, const uint8_t *bytes, size_t count)
{
    struct analyses *a = context;
    assert_true(a->queued == 0);
    assert_true(bytes == NULL || count == sizeof a->sums);
    a->sums = (struct sums){0};
    if (bytes != NULL)
        memcpy(&a->sums, bytes, sizeof a->sums);
    a->out = 0;
    a->discards = false;
    a->restored = true;
    return true;
}

/* ---- processes and their terms ----------------------------------------------------------- */

static uv_loop_t loop;
static struct cluster cluster = {.name = "c", .worker = "w"};

static void on_ready(void *context)
{
    struct process *p = context;
    p->owns = p->appender.ready = true;
}

static void on_again(void *context)
{
    (void)context;
}

static void on_closed(void *context)
{
    ((struct process *)context)->closed = true;
}

static struct process *begin_process(void)
{
    static const struct nats_sink_options own = {
        .partition = "p", .message_bytes = 60, .window_ns = 600 * NS_PER_SECOND};
    struct process *p = calloc(1, sizeof *p);
    struct problem problem;
    assert_non_null(p);
    const struct sink_options options = {
        .name = "log",
        .own = (void *)(uintptr_t)&own,
        .events = {.context = &p->analyses,
                   .count = host_count,
                   .name = host_name,
                   .marks_most = host_marks_most,
                   .room = host_room,
                   .idle = host_idle,
                   .put = host_put,
                   .next = host_next,
                   .keep = host_keep,
                   .pass = host_pass,
                   .deliver = host_deliver,
                   .forget = host_forget,
                   .write = host_write,
                   .read = host_read},
    };
    const struct io_environment environment = {.loop = &loop, .cluster = &cluster};
    p->events.ready = on_ready;
    p->events.again = on_again;
    p->events.context = p;
    assert_int_equal(nats_events_open(&p->events, &options, &environment, &problem), 0);
    nats_events_start(&p->events, &p->appender);
    return p;
}

static void end_process(struct process *p)
{
    nats_events_close(&p->events, 0, on_closed, p);
    while (!p->closed)
        uv_run(&loop, UV_RUN_ONCE);
    free(p);
}

/* Of what was under way some is stored. */
static void end_term(struct process *p)
{
    struct nats_appender *a = &p->appender;
    for (uint32_t i = one_of(a->under_way_count + 1); i > 0; i--)
        acknowledge(a);
    for (uint32_t i = 0; i < a->under_way_count; i++)
        free(a->under_way[i].bytes);
    a->under_way_count = 0;
    p->owns = a->ready = false;
}

/* What the log says at its end; kind 0: nothing. */
static struct record newest(void)
{
    struct record r = {0};
    if (record_count > 0)
        r = decoded(record_count);
    return r;
}

static void begin_term(struct process *p)
{
    struct nats_appender *a = &p->appender;
    const struct record before = newest();
    const uint64_t term = before.term + 1;
    *a = (struct nats_appender){.term = term, .checkpoint = before.checkpoint, .next = before.next};
    struct record take = bare(a, RECORD_TAKE);
    store(encoded(a, &take));
    p->delivered = 0;
    nats_events_begin(&p->events, &before);
}

/* The log goes back, but never before the first checkpoint: its numbers would begin anew. */
static void go_back(void)
{
    uint64_t least = record_count;
    while (least > 1 && decoded(least - 1).checkpoint != 0)
        least--;
    for (uint32_t i = one_of(40); i > 0 && record_count > least; i--)
        free(records[--record_count].bytes);
}

static void append_data(struct process *p)
{
    struct nats_appender *a = &p->appender;
    float samples[16];
    const uint32_t frames = 1 + one_of(16);
    uint64_t token, sequence;
    if (!p->owns || a->under_way_count == UNDER_WAY || !nats_events_room(&p->events, frames))
        return;
    for (uint32_t i = 0; i < frames; i++)
        samples[i] = sample_at(a->next + i);
    struct record r = {.kind = RECORD_DATA,
                       .from = a->next,
                       .first = a->next,
                       .next = a->next + frames,
                       .frames = frames,
                       .channels = 1,
                       .format = {.kind = SAMPLE_FLOAT, .bytes = 4, .bits = 32},
                       .rate_hz = 1000,
                       .samples = (const uint8_t *)samples};
    assert_true(append(a, &r, &token, &sequence));
    a->next += frames;
    nats_events_put(&p->events, &r);
}

static void step(struct process *p)
{
    switch (one_of(6)) {
    case 0:
        work(&p->analyses, one_of(30));
        break;
    case 1:
        for (uint32_t i = one_of(4); i > 0; i--)
            acknowledge(&p->appender);
        break;
    case 2:
        if (one_of(3) == 0 && p->events.saved_ns > 0)
            p->events.saved_ns = 1; /* a checkpoint is due */
        break;
    case 3:
        nats_events_poke(&p->events);
        break;
    default:
        append_data(p);
        break;
    }
}

/* Now and then the owner loses its term, or dies; meanwhile the log may have gone back. */
static void disturb(void)
{
    end_term(now);
    if (one_of(2) == 0) {
        nats_events_stop(&now->events);
    } else {
        end_process(now);
        now = begin_process();
    }
    if (one_of(3) == 0)
        go_back();
    begin_term(now);
}

/* Until all of what was put is in the log. */
static void settle(void)
{
    for (int quiet = 0; quiet < 20000; quiet++) {
        work(&now->analyses, ROOM);
        nats_events_poke(&now->events);
        while (now->appender.under_way_count > 0)
            acknowledge(&now->appender);
    }
    assert_int_equal(now->events.phase, EVENTS_LIVE);
}

/* ---- what the log has then --------------------------------------------------------------- */

static uint64_t hold(void)
{
    uint64_t next = 1, frames = 0, checkpoints = 0;
    uint32_t chain = 0;
    for (uint64_t s = 1; s <= record_count; s++) {
        const struct record r = decoded(s);
        struct logged_part part;
        size_t at = 0, line = 0;
        if (r.kind == RECORD_DATA) {
            assert_int_equal(r.from, frames);
            frames = r.next;
            expect_until(frames);
        }
        while (logged_read(&r.analysis, &at, &part)) {
            checkpoints += part.form == LOGGED_STATE;
            if (part.form != LOGGED_EVENTS)
                continue;
            assert_int_equal(part.number, next);
            assert_int_equal(part.chain_before, chain);
            assert_true(next + part.count - 1 <= expected_count); /* none before its frames */
            for (line = 0; line < part.bytes.count; next++) {
                const char *want = expected[next - 1];
                assert_memory_equal(part.bytes.bytes + line, want, strlen(want));
                line += strlen(want);
            }
            chain = part.chain;
        }
        assert_int_equal(at, r.analysis.count);
    }
    assert_int_equal(next - 1, expected_count);
    assert_true(checkpoints > 100);
    return frames;
}

static void test_each_event_once(void **unused)
{
    (void)unused;
    const char *given = getenv("CONVOLVD_TEST_SEED");
    const uint64_t seed = given != NULL ? strtoull(given, NULL, 10) : (uint64_t)time(NULL);
    uint64_t disturbed = 0;
    print_message("CONVOLVD_TEST_SEED=%llu\n", (unsigned long long)seed);
    rng = (struct random_state){seed};
    expected = calloc(LINES, LINE);
    assert_non_null(expected);
    uv_loop_init(&loop);
    now = begin_process();
    begin_term(now);
    for (uint32_t i = 0; i < STEPS; i++) {
        step(now);
        if (one_of(250) == 0) {
            disturb();
            disturbed++;
        }
    }
    settle();
    const uint64_t frames = hold();
    print_message("%llu frames, %llu events, %llu terms\n", (unsigned long long)frames,
                  (unsigned long long)expected_count, (unsigned long long)disturbed + 1);
    assert_true(frames > 10000 && disturbed > 100);
    assert_int_equal(now->events.figures.differing, 0);
    end_process(now);
    uv_run(&loop, UV_RUN_DEFAULT);
    uv_loop_close(&loop);
    while (record_count > 0)
        free(records[--record_count].bytes);
    free(expected);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_each_event_once)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
