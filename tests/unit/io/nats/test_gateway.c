/*
 * A gateway takes RAW over from another one that received the same sender. Each sample tells which
 * frame of the sender it is, so that what RAW says of a frame can be held against it.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "core/random.h"
#include "io/nats/gateway.h"

enum { RATE = 1000, MAX_GAP = 200, PIECE = 64, PIECES = 64, STEP = 10, SSRC = 7 };

static const int64_t ms = 1000000;
/* The sender's frame 0 is this; its time stamps wrap behind frame 500. */
static const uint64_t origin = (UINT64_C(1) << 32) - 500;

static uint32_t sample(uint64_t frame)
{
    return (uint32_t)frame * 2654435761U;
}

/* One gateway: frames as the sender counts them, from 0. */
struct side {
    struct sink_options options;
    struct pieces pieces;
    struct nats_gateway gateway;
    uint64_t epoch, begun; /* of its stream: frame 0 of it is this one */
    uint64_t timeline;     /* of its stream's less the sender's frame */
};

static void open_side(struct side *s, uint64_t timeline)
{
    memset(s, 0, sizeof *s);
    s->options = (struct sink_options){
        .name = "raw",
        .format = {.kind = SAMPLE_FLOAT, .bytes = 4, .bits = 32},
        .stream = {.input_rate_hz = RATE, .input_channels = 1, .input_max_gap_ns = MAX_GAP * ms}};
    assert_int_equal(pieces_open(&s->pieces, PIECES, PIECE * 4, 4, 0), 0);
    s->pieces.joins = true;
    gateway_open(&s->gateway, &s->options, &s->pieces);
    s->timeline = timeline;
}

static void begin_epoch(struct side *s, uint64_t frame)
{
    s->epoch += s->pieces.next > 0;
    s->begun = frame;
}

/* As the sink fills pieces. */
static uint32_t fill(struct side *s, const struct result *input, uint32_t skip,
                     struct piece_target target)
{
    struct piece_kind kind = {
        .raw = true, .channels = 1, .format = s->options.format, .rate_hz = RATE};
    return pieces_put(&s->pieces, &kind, input, skip, target);
}

/* It receives frames [from, until); a loss before them that is longer than max gap has begun an
 * epoch of its stream. */
static void receive(struct side *s, uint64_t from, uint64_t until)
{
    for (uint64_t at = from; at < until; at += STEP) {
        uint32_t samples[STEP];
        for (uint32_t i = 0; i < STEP; i++)
            samples[i] = sample(at + i);
        const struct result input = {.epoch = s->epoch,
                                     .first_frame = at - s->begun,
                                     .timeline_frame = at + s->timeline,
                                     .frames = STEP,
                                     .rate_hz = RATE,
                                     .capture_ns = 1000 * ms + (int64_t)at * ms,
                                     .raw = (const uint8_t *)samples,
                                     .sender = {true, SSRC, (uint32_t)(origin + at)}};
        struct piece_target target;
        const uint32_t skip = gateway_place(&s->gateway, &input, &target);
        gateway_take(&s->gateway, &input, &target, fill(s, &input, skip, target));
    }
}

/* RAW: what it ends with, and which frame of the sender frame 0 of its epoch is. */
struct raw {
    struct record newest;
    uint64_t zero;
    uint64_t frames, absent; /* that it has, in all */
    uint8_t cause;           /* of the newest gap */
};

/* A record goes in: it follows the one before, and its samples are those that its numbers say. */
static void append(struct raw *raw, const struct record *r)
{
    if (raw->newest.kind == 0 || r->epoch != raw->newest.epoch) {
        assert_true(r->epoch == raw->newest.epoch + (raw->newest.kind != 0));
        assert_int_equal(r->from, 0);
        raw->zero = (uint32_t)(r->timestamp - origin) - r->next;
    } else {
        assert_int_equal(r->from, raw->newest.next);
        const uint64_t next = raw->newest.timeline + raw->newest.frames;
        assert_int_equal(r->timeline - (r->first - r->from), next);
    }
    assert_int_equal(r->timestamp, (uint32_t)(origin + raw->zero + r->next));
    assert_true(!(r->flags & RECORD_EPOCH_START) || r->from == 0);
    assert_true(r->from <= r->first && r->first + r->frames == r->next);
    for (uint32_t i = 0; i < r->frames; i++) {
        uint32_t value;
        memcpy(&value, r->samples + 4 * (size_t)i, 4);
        assert_int_equal(value, sample(raw->zero + r->first + i));
    }
    assert_int_equal(r->capture_ns, 1000 * ms + (int64_t)(raw->zero + r->first) * ms);
    uint64_t absent = 0;
    for (uint32_t i = 0; i < r->range_count; i++) {
        if (r->ranges[i].absent) {
            absent += r->ranges[i].until - r->ranges[i].from;
            raw->cause = r->ranges[i].cause;
        }
    }
    assert_int_equal(absent, r->first - r->from);
    raw->absent += absent;
    raw->frames += r->frames;
    raw->newest = *r;
}

/* The owner appends what waits. */
static void drain(struct side *s, struct raw *raw)
{
    for (struct record record; pieces_first(&s->pieces, &record); pieces_appended(&s->pieces))
        append(raw, &record);
    assert_int_equal(s->pieces.frames_unsent, 0);
}

/* What RAW ends with once somebody has begun a term. */
static struct record newest_of(const struct raw *raw)
{
    struct record r = raw->newest;
    r.kind = raw->newest.kind != 0 ? RECORD_TAKE : 0;
    r.timeline += r.frames;
    r.capture_ns += (int64_t)r.frames * ms;
    r.from = r.first = r.next;
    r.frames = 0;
    r.range_count = 0;
    return r;
}

/* ---- where a successor goes on ----------------------------------------------------------- */

struct given {
    const char *what;
    uint64_t first_from, first_until;   /* the first gateway receives, and appends */
    uint64_t second_from, second_until; /* the other one has by then */
    uint64_t again_from; /* … with a loss before this one that has begun an epoch; 0: none */
    bool ended;          /* RAW says that its epoch has ended */
    struct {
        bool late;
        uint64_t epoch, next, zero; /* of RAW once the other one has received up to frame 2000 */
        uint64_t absent;
        uint8_t cause;
    } expect;
};

static const struct given givens[] = {
    {"it has all", 0, 1000, 0, 1030, 0, false, {false, 0, 2000, 0, 0, 0}},
    {"it has heard the sender for longer",
     300,
     1000,
     0,
     1030,
     0,
     false,
     {false, 0, 1700, 300, 0, 0}},
    {"it has come later", 0, 1000, 500, 1030, 0, false, {false, 0, 2000, 0, 0, 0}},
    {"it has not got so far", 0, 1000, 0, 950, 0, false, {false, 0, 2000, 0, 0, 0}},
    {"it has come too late",
     0,
     1000,
     1100,
     1200,
     0,
     false,
     {true, 0, 2000, 0, 100, INVALID_NETWORK}},
    {"it has come much too late", 0, 1000, 1300, 1400, 0, false, {true, 1, 700, 1300, 0, 0}},
    {"it has begun an epoch of its own", 0, 400, 0, 600, 900, false, {false, 1, 1100, 900, 0, 0}},
    {"an epoch of its own, in which RAW ends",
     0,
     1000,
     0,
     300,
     600,
     false,
     {false, 0, 2000, 0, 0, 0}},
    {"the epoch has ended", 0, 1000, 0, 1030, 0, true, {false, 1, 1000, 1000, 0, 0}},
    {"the epoch has ended, and it has not got so far",
     0,
     1000,
     0,
     950,
     0,
     true,
     {false, 1, 1000, 1000, 0, 0}},
};

static void test_where_a_successor_goes_on(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof givens / sizeof *givens; i++) {
        const struct given *g = &givens[i];
        struct side first, second;
        struct raw raw = {0};
        print_message("%s\n", g->what);
        open_side(&first, 0);
        open_side(&second, 5000);
        begin_epoch(&first, g->first_from);
        receive(&first, g->first_from, g->first_until);
        drain(&first, &raw);
        begin_epoch(&second, g->second_from);
        receive(&second, g->second_from, g->second_until);
        (void)pieces_keep(&second.pieces);
        if (g->again_from > 0) {
            begin_epoch(&second, g->again_from);
            receive(&second, g->again_from, g->again_from + 500);
        }
        if (g->ended)
            raw.newest.flags |= RECORD_EPOCH_END;
        const struct record newest = newest_of(&raw);
        assert_int_equal(gateway_holds(&second.gateway, &newest), !g->expect.late);
        assert_true(gateway_succeed(&second.gateway, &newest));
        drain(&second, &raw);
        receive(&second, g->again_from > 0 ? g->again_from + 500 : g->second_until, 2000);
        drain(&second, &raw);
        assert_int_equal(raw.newest.epoch, g->expect.epoch);
        assert_int_equal(raw.newest.next, g->expect.next);
        assert_int_equal(raw.zero, g->expect.zero);
        assert_int_equal(raw.absent, g->expect.absent);
        assert_int_equal(raw.cause, g->expect.cause);
        pieces_close(&first.pieces);
        pieces_close(&second.pieces);
    }
}

static void test_its_spool_does_not_reach_back(void **state)
{
    (void)state;
    struct side first, second;
    struct raw raw = {0};
    open_side(&first, 0);
    open_side(&second, 0);
    receive(&first, 0, 1000);
    drain(&first, &raw);
    for (uint64_t at = 0; at < 1100 + PIECE * PIECES; at += 100) {
        receive(&second, at, at + 100);
        (void)pieces_keep(&second.pieces);
    }
    const struct record newest = newest_of(&raw);
    second.options.stream.input_max_gap_ns = 1000 * MAX_GAP * ms;
    assert_true(gateway_succeed(&second.gateway, &newest));
    drain(&second, &raw);
    assert_true(raw.absent > 0 && raw.absent <= 200 && raw.cause == INVALID_OVERLOAD);
    pieces_close(&first.pieces);
    pieces_close(&second.pieces);
}

static void test_raw_of_somebody_else(void **state)
{
    (void)state;
    struct side first, second;
    struct raw raw = {0};
    open_side(&first, 0);
    open_side(&second, 0);
    receive(&first, 0, 1000);
    drain(&first, &raw);
    const struct record newest = newest_of(&raw);
    assert_false(gateway_succeed(&second.gateway, &newest)); /* it has nothing */
    receive(&second, 0, 1000);
    struct record other = newest;
    other.ssrc++;
    assert_false(gateway_succeed(&second.gateway, &other));
    other = newest;
    other.rate_hz *= 2;
    assert_false(gateway_succeed(&second.gateway, &other));
    other = newest;
    other.flags &= ~(uint32_t)RECORD_SENDER;
    assert_false(gateway_succeed(&second.gateway, &other));
    other = newest;
    other.timestamp -=
        3000; /* a time stamp of long ago, captured just now: the sender began anew */
    assert_false(gateway_succeed(&second.gateway, &other));
    assert_true(gateway_succeed(&second.gateway, &newest));
    pieces_close(&first.pieces);
    pieces_close(&second.pieces);
}

/* Two gateways take over from each other at any time, however far each of them has got. */
static void test_back_and_forth(void **state)
{
    (void)state;
    struct random_state random = {11};
    struct side sides[2];
    uint64_t got[2] = {0};
    struct raw raw = {0};
    open_side(&sides[0], 0);
    open_side(&sides[1], 900);
    begin_epoch(&sides[1], 0);
    uint32_t owner = 0;
    for (uint64_t turn = 0; turn < 20000; turn++) {
        for (uint32_t i = 0; i < 2; i++) {
            const uint64_t until = turn * STEP + STEP * (random_below(&random, 8));
            receive(&sides[i], got[i], until > got[i] ? until : got[i]);
            got[i] = until > got[i] ? until : got[i];
            if (i == owner)
                drain(&sides[i], &raw);
            else
                (void)pieces_keep(&sides[i].pieces);
        }
        if (random_below(&random, 5) != 0 || raw.newest.kind == 0)
            continue;
        if (got[1 - owner] == 0)
            continue;
        owner = 1 - owner;
        const struct record newest = newest_of(&raw);
        assert_true(gateway_succeed(&sides[owner].gateway, &newest));
        drain(&sides[owner], &raw);
    }
    drain(&sides[owner], &raw);
    assert_int_equal(raw.newest.epoch, 0);
    assert_int_equal(raw.absent, 0);
    assert_int_equal(raw.frames, raw.newest.next);
    assert_true(raw.frames > 19000 * STEP);
    pieces_close(&sides[0].pieces);
    pieces_close(&sides[1].pieces);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_where_a_successor_goes_on),
        cmocka_unit_test(test_its_spool_does_not_reach_back),
        cmocka_unit_test(test_raw_of_somebody_else),
        cmocka_unit_test(test_back_and_forth),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
