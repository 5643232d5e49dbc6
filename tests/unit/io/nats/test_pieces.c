/*
 * The spool of a gateway: input in packets of any size, appended as it comes or later, with losses,
 * epochs and pauses of its sender. The log goes back to any of its records that the spool reaches,
 * again and again: what is appended then is what the log had had, and nothing is lost.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "core/random.h"
#include "io/nats/pieces.h"

enum { RATE = 1000, SSRC = 7, PACKETS = 4000, PACKET_MOST = 200, RECORDS = 200000 };

static const int64_t ms = 1000000;

struct world {
    struct pieces pieces;
    struct random_state random;
    uint64_t epoch, frame; /* of the next packet */
    uint64_t timeline;     /* likewise */
    int64_t paused_ns;     /* by its sender, without advancing time stamps */
    uint32_t most;         /* frames of a packet */
    struct log_record {
        uint64_t epoch, from, next, timeline;
        int64_t capture_ns, error_ns;
    } * log; /* [RECORDS] */
    uint32_t records;
    uint64_t appended, repeated; /* frames, in all; and again */
};

/* Every tenth frame and its neighbours are flagged: what a frame is, its number says. */
static bool is_flagged(uint64_t epoch, uint64_t frame)
{
    return (frame + epoch) % 50 < 3;
}

static uint32_t sample(uint64_t epoch, uint64_t frame)
{
    return (uint32_t)(frame * 2654435761U + epoch * 97);
}

static void open_world(struct world *w, uint32_t pieces, uint32_t piece, uint32_t most,
                       uint32_t seed)
{
    *w = (struct world){.random = {seed}, .most = most};
    assert_int_equal(pieces_open(&w->pieces, pieces, piece * 4, 4, 0), 0);
    w->pieces.joins = true;
    w->log = calloc(RECORDS, sizeof *w->log);
    assert_non_null(w->log);
}

static void close_world(struct world *w)
{
    pieces_close(&w->pieces);
    free(w->log);
}

static void receive(struct world *w, bool ends)
{
    const uint32_t frames = 1 + (uint32_t)random_below(&w->random, w->most);
    uint32_t samples[PACKET_MOST];
    struct invalid_range ranges[PACKET_MOST];
    uint32_t count = 0;
    for (uint32_t i = 0; i < frames; i++) {
        samples[i] = sample(w->epoch, w->frame + i);
        if (!is_flagged(w->epoch, w->frame + i))
            continue;
        if (count > 0 && ranges[count - 1].until == w->frame + i)
            ranges[count - 1].until++;
        else
            ranges[count++] = (struct invalid_range){
                .from = w->frame + i, .until = w->frame + i + 1, .cause = INVALID_NETWORK};
    }
    const struct result input = {.epoch = w->epoch,
                                 .first_frame = w->frame,
                                 .timeline_frame = w->timeline,
                                 .frames = frames,
                                 .rate_hz = RATE,
                                 .capture_ns = 1000 * ms + (int64_t)w->timeline * ms + w->paused_ns,
                                 .clock_error_ns = ms / 10,
                                 .raw = (const uint8_t *)samples,
                                 .invalid = ranges,
                                 .invalid_count = count,
                                 .flags = ends ? RESULT_EPOCH_END : 0};
    const struct piece_target target = {
        .epoch = w->epoch,
        .from = w->frame,
        .first = w->frame,
        .timeline = w->timeline,
        .sender = {true, SSRC, (uint32_t)w->timeline - (uint32_t)w->frame},
        .decimate = 1,
        .begins = w->frame == 0};
    struct piece_kind kind = {.raw = true,
                              .channels = 1,
                              .format = {.kind = SAMPLE_FLOAT, .bytes = 4, .bits = 32},
                              .rate_hz = RATE};
    assert_int_equal(pieces_put(&w->pieces, &kind, &input, 0, target), frames);
    w->frame += frames;
    w->timeline += frames;
    if (ends) {
        w->epoch++;
        w->frame = 0;
    }
}

/* A record goes in: it follows the one before, and is what its numbers say. */
static void append(struct world *w, const struct record *r)
{
    const struct log_record *before = w->records > 0 ? &w->log[w->records - 1] : NULL;
    const bool begins = before == NULL || r->epoch != before->epoch;
    assert_true(w->records < RECORDS);
    assert_int_equal(r->from, begins ? 0 : before->next);
    assert_int_equal(r->first, r->from);
    assert_int_equal(r->next, r->first + r->frames);
    assert_true(r->frames > 0);
    assert_int_equal((r->flags & RECORD_EPOCH_START) != 0, begins);
    assert_int_equal(r->timestamp, (uint32_t)(r->timeline + r->frames));
    uint32_t range = 0;
    for (uint32_t i = 0; i < r->frames; i++) {
        const uint64_t frame = r->first + i;
        uint32_t value;
        memcpy(&value, r->samples + 4 * (size_t)i, 4);
        assert_int_equal(value, sample(r->epoch, frame));
        while (range < r->range_count && r->ranges[range].until <= frame)
            range++;
        assert_int_equal(range < r->range_count && r->ranges[range].from <= frame,
                         is_flagged(r->epoch, frame));
    }
    if (r->range_count > 0)
        assert_true(r->ranges[r->range_count - 1].until <= r->next);
    w->log[w->records++] = (struct log_record){r->epoch,    r->from,       r->next,
                                               r->timeline, r->capture_ns, r->clock_error_ns};
    w->appended += r->frames;
}

static void drain(struct world *w)
{
    for (struct record record; pieces_first(&w->pieces, &record); pieces_appended(&w->pieces))
        append(w, &record);
    assert_int_equal(w->pieces.frames_unsent, 0);
}

/* Frames of the log behind its record `count`. */
static uint64_t frames_behind(const struct world *w, uint32_t count)
{
    uint64_t frames = 0;
    for (uint32_t i = count; i < w->records; i++)
        frames += w->log[i].next - w->log[i].from;
    return frames;
}

/* Its newest records are gone, about as many frames as these; returns the frames that the spool
 * does not have. */
static uint64_t go_back(struct world *w, uint64_t frames)
{
    uint32_t count = w->records;
    while (count > 1 && frames_behind(w, count - 1) <= frames)
        count--;
    const uint64_t gone = frames_behind(w, count);
    const struct log_record *last = &w->log[count - 1];
    const struct record newest = {.kind = RECORD_DATA, .epoch = last->epoch, .next = last->next};
    uint64_t lost;
    const uint64_t waited = w->pieces.frames_unsent;
    const uint64_t waits = pieces_go_back(&w->pieces, &newest, &lost);
    w->records = count;
    assert_int_equal(waits + lost, gone);
    assert_int_equal(w->pieces.frames_unsent, waited + waits);
    w->repeated += waits;
    return lost;
}

/* Packets of `most` frames at most, in `pieces` of `piece` frames. */
static void run(uint32_t pieces, uint32_t piece, uint32_t most, uint32_t seed)
{
    struct world w;
    open_world(&w, pieces, piece, most, seed);
    const uint64_t reach = (uint64_t)(pieces - 2) * piece;
    for (int i = 0; i < PACKETS; i++) {
        receive(&w, random_below(&w.random, 500) == 0);
        if (random_below(&w.random, 4) != 0)
            drain(&w);
        if (random_below(&w.random, 100) != 0 || w.records == 0)
            continue;
        drain(&w);
        /* Each epoch may leave a piece that is not full. */
        const uint64_t frames = random_below(&w.random, reach / 2);
        assert_int_equal(go_back(&w, frames), 0);
        if (random_below(&w.random, 2) == 0)
            assert_int_equal(go_back(&w, random_below(&w.random, reach / 8)), 0);
    }
    drain(&w);
    assert_true(w.repeated > reach);
    close_world(&w);
}

static void test_the_log_goes_back(void **state)
{
    (void)state;
    run(20, 64, 7, 1);
    run(20, 64, 1, 2);
    run(30, 100, 63, 3);
    run(40, 50, PACKET_MOST, 4);
}

/* One epoch, each packet appended as it comes: the spool reaches as far as its bytes. */
static void test_small_packets_leave_no_room_unused(void **state)
{
    (void)state;
    static const uint32_t sizes[] = {1, 3, 10, 48, 63, 64, 65, 100, PACKET_MOST};
    enum { COUNT = 64, PIECE = 64 };
    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++) {
        struct world w;
        open_world(&w, COUNT, PIECE, sizes[i], 5 + (uint32_t)i);
        while (w.frame < 2 * COUNT * PIECE) {
            receive(&w, false);
            drain(&w);
        }
        assert_int_equal(go_back(&w, (COUNT - 2) * PIECE), 0);
        drain(&w);
        close_world(&w);
    }
}

/* Beyond its reach the frames are declared. */
static void test_beyond_the_spool(void **state)
{
    (void)state;
    struct world w;
    open_world(&w, 10, 64, 8, 3);
    while (w.frame < 2000) {
        receive(&w, false);
        drain(&w);
    }
    const uint64_t lost = go_back(&w, 1500);
    struct record r;
    assert_true(lost > 1500 - 10 * 64 - 16 && pieces_first(&w.pieces, &r));
    assert_int_equal(r.from, w.log[w.records - 1].next);
    assert_int_equal(r.first - r.from, lost);
    assert_true(r.ranges[r.range_count - 1].absent);
    close_world(&w);
}

/* Times of records that are appended again lie within their bounds of those that were given, also
 * where the sender has paused without advancing its time stamps. */
static void test_capture_times(void **state)
{
    (void)state;
    struct world w;
    open_world(&w, 64, 64, 5, 9);
    int64_t *truth = calloc(20000, sizeof *truth);
    assert_non_null(truth);
    while (w.frame < 3000) {
        const uint64_t first = w.frame;
        if (random_below(&w.random, 50) == 0)
            w.paused_ns += 500 * ms;
        w.paused_ns += (int64_t)random_below(&w.random, 100000);
        receive(&w, false);
        for (uint64_t at = first; at < w.frame; at++)
            truth[at] = 1000 * ms + (int64_t)at * ms + w.paused_ns;
        drain(&w);
    }
    assert_int_equal(go_back(&w, 2500), 0);
    const uint32_t from = w.records;
    drain(&w);
    assert_true(w.records - from < 500); /* they were joined */
    for (uint32_t i = from; i < w.records; i++) {
        assert_true(w.log[i].error_ns <= 11 * ms);
        for (uint64_t at = w.log[i].from; at < w.log[i].next; at++)
            assert_true(llabs(truth[at] - w.log[i].capture_ns -
                              (int64_t)(at - w.log[i].from) * ms) <= w.log[i].error_ns);
    }
    free(truth);
    close_world(&w);
}

/* Another gateway owns the log, then this one again with an epoch of its own: what the log had of
 * the piece is not appended there. */
static void test_what_is_stored_is_cut(void **state)
{
    (void)state;
    struct world w;
    open_world(&w, 10, 64, 8, 3);
    while (w.frame < 100) {
        receive(&w, false);
        drain(&w);
    }
    assert_int_equal(go_back(&w, 20), 0);
    const uint64_t next = w.log[w.records - 1].next;
    struct record before, after;
    assert_true(pieces_first(&w.pieces, &before));
    pieces_cut_stored(&w.pieces);
    assert_true(pieces_first(&w.pieces, &after));
    assert_int_equal(before.first, next);
    assert_int_equal(after.first, next);
    assert_int_equal(after.frames, before.frames);
    assert_int_equal(after.capture_ns, before.capture_ns);
    append(&w, &after);
    close_world(&w);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_the_log_goes_back),
        cmocka_unit_test(test_small_packets_leave_no_room_unused),
        cmocka_unit_test(test_beyond_the_spool),
        cmocka_unit_test(test_capture_times),
        cmocka_unit_test(test_what_is_stored_is_cut),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
