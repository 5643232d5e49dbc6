/*
 * Input that a standby holds, and how a term reads it. Each sample tells which frame of which
 * sender it is, so that whatever is read can be held against the numbers that it is read under.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <cmocka.h>

#include "core/random.h"
#include "io/nats/held_reader.h"

enum { SIZE = 4096, RATE = 1000, PACKET = 10, HOP = 16, HISTORY = 40 };

static const int64_t ms = 1000000;
static const struct term_plan plan = {.history = HISTORY, .hop = HOP, .decimate = 1};

static int open_held(void **state)
{
    static struct held held;
    const struct held_options options = {
        .frames = SIZE, .frame_bytes = 4, .rate_hz = RATE, .reorder_ns = 20 * ms};
    *state = &held;
    return held_open(&held, &options);
}

static int close_held(void **state)
{
    held_close(*state);
    return 0;
}

static uint32_t sample(uint32_t ssrc, uint64_t frame)
{
    return (uint32_t)frame * 2654435761U ^ ssrc * 40503U;
}

/* When a frame was captured, by the sender's clock; frames count from the sender's first time
 * stamp. */
static int64_t captured(uint64_t frame, uint64_t origin)
{
    return (int64_t)(frame - origin) * ms;
}

static enum verdict put(struct held *h, uint32_t ssrc, uint64_t first, uint64_t origin,
                        uint32_t flags)
{
    uint32_t samples[PACKET];
    for (uint32_t i = 0; i < PACKET; i++)
        samples[i] = sample(ssrc, first + i);
    const int64_t at_ns = captured(first + PACKET, origin);
    return held_put(h,
                    &(struct packet){.first_frame = first,
                                     .frames = PACKET,
                                     .flags = flags,
                                     .payload = (const uint8_t *)samples,
                                     .receive_ns = at_ns,
                                     .receive_realtime_ns = at_ns + 500 * ms},
                    ssrc);
}

static void put_run(struct held *h, uint32_t ssrc, uint64_t first, uint64_t until, uint64_t origin,
                    uint32_t flags)
{
    for (uint64_t at = first; at < until; at += PACKET, flags = 0)
        assert_int_equal(put(h, ssrc, at, origin, flags), VERDICT_ACCEPTED);
}

/* A piece of frames that holds what the sender sent from `frame` on. */
static void expect_frames(const struct held_piece *piece, uint32_t ssrc, uint64_t frame)
{
    assert_int_equal(piece->kind, HELD_FRAMES);
    for (uint64_t i = 0; i < piece->frames; i++) {
        uint32_t value;
        memcpy(&value, piece->bytes + 4 * i, 4);
        assert_int_equal(value, sample(ssrc, frame + i));
    }
}

/* What LOG says once its results end before frame `next` of the epoch that r has read. */
static struct record record_of(const struct held_reader *r, uint64_t next)
{
    const struct term_epoch epoch = held_reader_epoch(r);
    return (struct record){.kind = 2,
                           .flags = RECORD_SENDER,
                           .epoch = epoch.epoch,
                           .first = next,
                           .next = next,
                           .timeline = epoch.timeline + next,
                           .rate_hz = RATE,
                           .capture_ns = held_capture_ns(held_run(r->held, r->run),
                                                         (uint64_t)(r->zero + (int64_t)next)),
                           .ssrc = epoch.sender.ssrc,
                           .timestamp = epoch.sender.timestamp + (uint32_t)next};
}

static void begin(struct held_reader *r, struct held *h, const struct record *newest)
{
    held_reader_begin(r, "test", h, &plan, newest);
}

static void test_frames_come_in_order_or_are_given_up(void **state)
{
    struct held *h = *state;
    struct held_reader r;
    begin(&r, h, &(struct record){0});
    assert_int_equal(held_reader_next(&r, 0).kind, HELD_NOTHING);
    put_run(h, 7, 100, 130, 100, 0);
    assert_int_equal(put(h, 7, 140, 100, 0), VERDICT_ACCEPTED);
    assert_int_equal(put(h, 7, 140, 100, 0), VERDICT_DUPLICATE);
    struct held_piece piece = held_reader_next(&r, 50 * ms);
    assert_true(r.begins && r.epoch == 0 && held_reader_frame(&r) == 0 && piece.frames == 30);
    expect_frames(&piece, 7, 100);
    held_reader_take(&r, 30);
    piece = held_reader_next(&r, 50 * ms);
    assert_true(piece.kind == HELD_NOTHING && piece.due_ns == 70 * ms);
    assert_int_equal(put(h, 7, 130, 100, 0), VERDICT_ACCEPTED);
    piece = held_reader_next(&r, 50 * ms);
    assert_true(piece.frames == 20 && !r.begins);
    expect_frames(&piece, 7, 130);
    held_reader_take(&r, 20);
    held_blame(h);
    assert_int_equal(put(h, 7, 170, 100, 0), VERDICT_ACCEPTED);
    piece = held_reader_next(&r, 100 * ms);
    assert_true(piece.kind == HELD_ABSENT && piece.frames == 20 && piece.cause == INVALID_SOCKET);
    held_reader_take(&r, 20);
    assert_int_equal(held_reader_next(&r, 100 * ms).frames, 10);
    assert_int_equal(put(h, 7, 150, 100, 0), VERDICT_LATE);
    put_run(h, 7, 190, 200, 100, 0);
    held_reader_take(&r, 10);
    piece = held_reader_next(&r, 200 * ms);
    assert_true(piece.kind == HELD_ABSENT && piece.frames == 10 && piece.cause == INVALID_NETWORK);
}

static void test_the_oldest_is_pushed_out(void **state)
{
    struct held *h = *state;
    struct held_reader r;
    put_run(h, 7, 0, 5 * SIZE / PACKET * PACKET, 0, 0);
    assert_int_equal(held_oldest(h), h->head - SIZE);
    begin(&r, h, &(struct record){0});
    struct held_piece piece = held_reader_next(&r, 0);
    expect_frames(&piece, 7, h->head - SIZE);
    held_reader_take(&r, 1);
    put_run(h, 7, h->head, h->head + 1000, 0, 0); /* faster than the reader */
    piece = held_reader_next(&r, 0);
    assert_true(r.begins && r.epoch == 0 && held_reader_frame(&r) % HOP == 0);
    assert_in_range(held_reader_frame(&r), 991, 1000 + HOP);
    expect_frames(&piece, 7, r.position);
}

/* A successor that began to receive later, and numbers frames otherwise, reads the same samples. */
static void test_a_successor_reads_the_same_frames(void **state)
{
    struct held *h = *state;
    static struct held other;
    const struct held_options options = h->options;
    const uint64_t origin = UINT64_C(0x1fffffe00); /* time stamps wrap */
    struct held_reader r, successor;
    assert_int_equal(held_open(&other, &options), 0);
    put_run(h, 7, origin, origin + 3000, origin, 0);
    const uint64_t lap = UINT64_C(5) << 32; /* its own count of the wraps */
    put_run(&other, 7, origin + 500 + lap, origin + 3000 + lap, origin + lap, 0);
    begin(&r, h, &(struct record){0});
    assert_int_equal(held_reader_next(&r, 0).kind, HELD_FRAMES);
    for (uint64_t next = 600; next < 3000; next += 77) {
        struct record newest = record_of(&r, next);
        newest.capture_ns += next % 2 ? 3600000 * ms : 0; /* the hosts' clocks differ by an hour */
        begin(&successor, &other, &newest);
        const struct held_piece piece = held_reader_next(&successor, 0);
        assert_int_equal(held_reader_frame(&successor), term_start(&plan, next));
        assert_true(successor.begins && successor.epoch == 0 && successor.timeline == 0);
        expect_frames(&piece, 7, origin + held_reader_frame(&successor));
        assert_int_equal(held_reader_epoch(&successor).sender.timestamp, (uint32_t)origin);
    }
    /* Its ring begins behind the results: a gap of its own, in the same epoch. */
    const struct record early = record_of(&r, 100);
    begin(&successor, &other, &early);
    const struct held_piece piece = held_reader_next(&successor, 0);
    assert_int_equal(held_reader_frame(&successor), 512);
    assert_int_equal(successor.epoch, 0);
    expect_frames(&piece, 7, origin + 512);
    held_close(&other);
}

/* The sender starts anew: each run is an epoch, whoever reads it from wherever. */
static void test_each_run_is_an_epoch(void **state)
{
    struct held *h = *state;
    struct held_reader r;
    put_run(h, 7, 1000, 1500, 1000, 0);
    put_run(h, 7, 3000, 3500, 1000, PACKET_DISCONTINUITY); /* the same numbering, 1.5 s later */
    put_run(h, 9, 77, 577, 77, PACKET_DISCONTINUITY);
    static const struct {
        uint32_t ssrc, first;
    } runs[] = {{7, 1000}, {7, 3000}, {9, 77}};
    for (uint64_t next = 0; next <= 500 + HISTORY; next += 20) {
        struct record newest = {0};
        begin(&r, h, &newest);
        (void)held_reader_next(&r, 0);
        if (next > 0) { /* the tail lies behind the run's end */
            newest = record_of(&r, next);
            newest.epoch = 4;
            begin(&r, h, &newest);
        }
        const uint64_t epoch = next > 0 ? 4 : 0;
        for (uint64_t i = 0; i < 3; i++) {
            struct held_piece piece = held_reader_next(&r, 0);
            assert_true(r.begins && r.epoch == epoch + i);
            const uint64_t frame = i == 0 ? term_start(&plan, next) : 0;
            assert_int_equal(held_reader_frame(&r), frame);
            expect_frames(&piece, runs[i].ssrc, runs[i].first + frame);
            assert_int_equal(piece.frames, 500 - frame);
            held_reader_take(&r, piece.frames);
        }
        assert_int_equal(held_reader_next(&r, 0).kind, HELD_NOTHING);
    }
}

/* Results of another sender: all that is held begins the next epoch. */
static void test_another_numbering_begins_an_epoch(void **state)
{
    struct held *h = *state;
    struct held_reader r;
    put_run(h, 7, 1000, 1500, 1000, 0);
    begin(&r, h, &(struct record){0});
    (void)held_reader_next(&r, 0);
    struct record newest = record_of(&r, 300);
    newest.epoch = 2;
    newest.ssrc = 8;
    begin(&r, h, &newest);
    struct held_piece piece = held_reader_next(&r, 0);
    assert_true(r.epoch == 3 && held_reader_frame(&r) == 0 && r.timeline >= 300);
    expect_frames(&piece, 7, 1000);
    newest.ssrc = 7; /* the same, but time stamps that it cannot have had then */
    newest.timestamp += 1U << 30;
    begin(&r, h, &newest);
    piece = held_reader_next(&r, 0);
    assert_int_equal(r.epoch, 3);
}

/* Packets are lost, come twice and late; each frame that is read is the one of its number. */
static void test_at_random(void **state)
{
    struct held *h = *state;
    struct held_reader r;
    struct random_state random = {5};
    begin(&r, h, &(struct record){0});
    uint64_t read = 0, absent = 0, skipped = 0;
    for (uint64_t at = 5000; at < 400000; at += PACKET) {
        const uint64_t draw = random_u64(&random);
        const uint64_t back = draw % 7 == 0 && at > 5000 + 2 * PACKET ? PACKET : 0;
        if (draw % 11 != 3)
            (void)put(h, 7, at - back, 5000, 0);
        if (draw % 5 == 0)
            (void)put(h, 7, at, 5000, 0);
        if (at == 200000) {
            at += 2 * SIZE;
            continue;
        }
        for (;;) {
            const struct held_piece piece = held_reader_next(&r, captured(at, 5000));
            if (piece.kind == HELD_NOTHING)
                break;
            skipped += r.begins;
            if (piece.kind == HELD_FRAMES)
                expect_frames(&piece, 7, 5000 + held_reader_frame(&r));
            read += piece.kind == HELD_FRAMES ? piece.frames : 0;
            absent += piece.kind == HELD_ABSENT ? piece.frames : 0;
            held_reader_take(&r, piece.frames);
        }
    }
    assert_in_range(read, 300000, 400000);
    assert_in_range(absent, 1000, 90000);
    assert_int_equal(skipped, 2);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_frames_come_in_order_or_are_given_up, open_held,
                                        close_held),
        cmocka_unit_test_setup_teardown(test_the_oldest_is_pushed_out, open_held, close_held),
        cmocka_unit_test_setup_teardown(test_a_successor_reads_the_same_frames, open_held,
                                        close_held),
        cmocka_unit_test_setup_teardown(test_each_run_is_an_epoch, open_held, close_held),
        cmocka_unit_test_setup_teardown(test_another_numbering_begins_an_epoch, open_held,
                                        close_held),
        cmocka_unit_test_setup_teardown(test_at_random, open_held, close_held),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
