/*
 * What other sinks of a partition get of a term's results: the frames that LOG lacks, from the
 * beginning of their block on, under LOG's numbers.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "io/nats/outlet.h"

enum { HOP = 16, DECIMATE = 2, BLOCK = HOP / DECIMATE, CHANNELS = 2, RATE = 1000 };

static const int64_t ms = 1000000;

/* A term behind frame `next` of epoch 3, whose stream has begun its epoch 5 with input frame
 * `start` of that one. */
static void begin(struct term *t, uint64_t next, uint64_t start)
{
    const struct term_plan plan = {.history = 40, .hop = HOP, .decimate = DECIMATE};
    term_begin(t, &plan, 3, next);
    term_epoch(t, &(struct term_epoch){
                      .local = 5, .epoch = 3, .start = start, .timeline = 1000 * DECIMATE});
}

static const struct result *of(struct nats_outlet *o, const struct term *t, uint64_t epoch,
                               uint64_t first, uint32_t frames, const float *samples)
{
    static const struct invalid_range ranges[] = {{0, 30, INVALID_SETTLING},
                                                  {36, 38, INVALID_NETWORK}};
    const struct result result = {.epoch = epoch,
                                  .first_frame = first,
                                  .timeline_frame = 77 + first,
                                  .frames = frames,
                                  .channels = CHANNELS,
                                  .flags = first == 0 ? RESULT_EPOCH_START : 0,
                                  .samples = samples,
                                  .rate_hz = RATE,
                                  .capture_ns = (int64_t)first * ms,
                                  .invalid = ranges,
                                  .invalid_count = 2};
    return nats_outlet_result(o, t, &result);
}

struct given {
    const char *what;
    uint64_t next, start; /* of LOG; of the stream's epoch, input frames */
    uint64_t epoch, first;
    uint32_t frames;
    struct {
        bool some;
        uint64_t first;
        uint32_t frames, ranges;
        struct invalid_range range; /* the first one */
    } expect;
};

static const struct given givens[] = {
    {"of another term", 100, 128, 4, 32, 16, {false, 0, 0, 0, {0}}},
    {"LOG has all of it", 100, 128, 5, 16, 16, {false, 0, 0, 0, {0}}},
    {"LOG ends inside a block: the whole block",
     100,
     128,
     5,
     32,
     16,
     {true, 96, 16, 1, {100, 102, INVALID_NETWORK}}},
    {"LOG ends inside the second block", 107, 128, 5, 32, 16, {true, 104, 8, 0, {0}}},
    {"LOG ends with a block", 104, 128, 5, 32, 16, {true, 104, 8, 0, {0}}},
    {"LOG ends before it", 90, 128, 5, 32, 16, {true, 96, 16, 2, {90, 96, INVALID_OVERLOAD}}},
    {"an epoch begins", 0, 0, 5, 0, 16, {true, 0, 16, 1, {0, 16, INVALID_SETTLING}}},
};

static void test_what_other_sinks_get(void **state)
{
    (void)state;
    static struct term term;
    static struct nats_outlet outlet;
    float samples[64];
    for (size_t i = 0; i < sizeof samples / sizeof *samples; i++)
        samples[i] = (float)i;
    for (size_t i = 0; i < sizeof givens / sizeof *givens; i++) {
        const struct given *g = &givens[i];
        print_message("%s\n", g->what);
        begin(&term, g->next, g->start);
        const struct result *r = of(&outlet, &term, g->epoch, g->first, g->frames, samples);
        assert_int_equal(r != NULL, g->expect.some);
        if (r == NULL)
            continue;
        const uint64_t local = r->first_frame - g->start / DECIMATE;
        assert_int_equal(r->epoch, 3);
        assert_int_equal(r->first_frame, g->expect.first);
        assert_int_equal(r->first_frame % BLOCK, 0);
        assert_int_equal(r->frames, g->expect.frames);
        assert_int_equal(r->timeline_frame, 1000 + r->first_frame);
        assert_int_equal(r->capture_ns, (int64_t)local * ms);
        assert_int_equal(r->flags, r->first_frame == 0 ? RESULT_EPOCH_START : 0);
        assert_ptr_equal(r->samples, samples + (local - g->first) * CHANNELS);
        assert_int_equal(r->invalid_count, g->expect.ranges);
        if (r->invalid_count > 0)
            assert_memory_equal(&r->invalid[0].from, &g->expect.range.from, 2 * sizeof(uint64_t));
        if (r->invalid_count > 0)
            assert_int_equal(r->invalid[0].cause, g->expect.range.cause);
    }
    term_end(&term);
    assert_null(of(&outlet, &term, 5, 64, 16, samples));
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_what_other_sinks_get)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
