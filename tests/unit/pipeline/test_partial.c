/*
 * Partial blocks: a stream that an idle flush interrupts, and a stream that reads it, against the
 * same two without a flush. Frames that are not marked partial are the same to the bit; those that
 * are marked are the flushed part of a block, and downstream what depends on it.
 *
 * threads: yes
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "core/clock.h"
#include "pipeline/chain.h"
#include "stream/stream.h"
#include "tests/support/engine_group.h"

enum { HOP = 128, TAPS = 90, NEXT_HOP = 64, NEXT_TAPS = 40, FRAMES = 6000, CHANNELS = 2 };
enum { OUT_MAX = FRAMES + TAPS + NEXT_TAPS };

struct output {
    float samples[OUT_MAX][CHANNELS];
    bool partial[OUT_MAX];
    uint64_t frames;
};

static void take(void *context, const struct result *result)
{
    struct output *output = context;
    assert_true(result->first_frame + result->frames <= OUT_MAX);
    for (uint32_t n = 0; n < result->frames; n++)
        memcpy(output->samples[result->first_frame + n], result->samples + (size_t)n * CHANNELS,
               sizeof output->samples[0]);
    assert_true(result->partial_from == result->partial_until ||
                (result->partial_from >= result->first_frame &&
                 result->partial_until <= result->first_frame + result->frames));
    for (uint64_t n = result->partial_from; n < result->partial_until; n++)
        output->partial[n] = true;
    output->frames = result->first_frame + result->frames;
}

struct link {
    struct chain chain;
    struct stream *next;
};

static void pass_on(void *context, const struct result *result)
{
    struct link *link = context;
    const struct packet packet = chain_packet(&link->chain, result, 0);
    if (result->frames > 0)
        assert_int_equal(stream_put(link->next, &packet), VERDICT_ACCEPTED);
    else
        stream_end_at(link->next, &packet);
}

static struct stream *open_stream(struct test_plan *plan, const struct test_signal *signal,
                                  int64_t idle_flush_ns)
{
    const struct stream_options options = {
        .name = "test",
        .rate_hz = 1e6,
        .channels = CHANNELS,
        .format = signal->format,
        .frame_bytes = CHANNELS * signal->format.bytes,
        .tail = true,
        .idle_flush_ns = idle_flush_ns,
        .ring_frames_min = 4096,
        .blocks_in_flight = 4,
    };
    struct stream *stream;
    struct problem problem;
    test_plan_prepare(engine, plan, signal);
    assert_int_equal(stream_open(engine, &options, plan->plan, &stream, &problem), 0);
    return stream;
}

static void work(struct stream *stream)
{
    while (stream_ready_deadline_ns(stream) != INT64_MAX) {
        struct batch *batch = engine_batch_take(engine);
        assert_non_null(batch);
        if (stream_fill(stream, batch, NS_PER_SECOND, true) > 0) {
            engine_submit(engine, batch);
            batch = harness_wait(engine);
            for (uint32_t i = 0; i < batch->count; i++)
                if (batch->items[i].owner != NULL)
                    stream_complete(batch->items[i].owner, batch, &batch->items[i]);
        }
        engine_batch_release(engine, batch);
    }
}

/* Frames [from, until) that a flush at frame `at` computes from a part of their block. */
static void expect_flushed(bool *flushed, uint64_t delivered, uint64_t at)
{
    for (uint64_t n = at / HOP * HOP; n < at; n++)
        flushed[n] = flushed[n] || n >= delivered;
}

/* `flushes`: silences after random packets, long enough for a flush; *flushed, where given, is
 * which frames of the first stream they concern. */
static void run(const struct test_signal *signal, bool flushes, struct output outputs[2],
                bool *flushed)
{
    struct test_signal *shape = signal_noise("f32le", CHANNELS, 1, 6);
    struct test_plan first, second;
    test_plan_diagonal(&first, signal, HOP, TAPS, false, OUTPUT_REAL);
    test_plan_diagonal(&second, shape, NEXT_HOP, NEXT_TAPS, false, OUTPUT_REAL);
    struct stream *streams[2] = {open_stream(&first, signal, NS_PER_MS),
                                 open_stream(&second, shape, 0)};
    struct link link = {.next = streams[1]};
    const struct result_port ports[] = {{.context = &outputs[0], .put = take},
                                        {.context = &link, .put = pass_on},
                                        {.context = &outputs[1], .put = take}};
    assert_int_equal(stream_add_port(streams[0], &ports[0]), 0);
    assert_int_equal(stream_add_port(streams[0], &ports[1]), 0);
    assert_int_equal(stream_add_port(streams[1], &ports[2]), 0);
    struct random_state random = {3}, chance = {4};
    uint64_t delivered = 0;
    for (uint64_t n = 0; n < FRAMES;) {
        uint32_t frames = 1 + random_below(&random, 100);
        frames = frames < FRAMES - n ? frames : (uint32_t)(FRAMES - n);
        const struct packet packet = {
            .first_frame = n,
            .frames = frames,
            .payload = signal->bytes + n * CHANNELS * signal->format.bytes,
            .receive_ns = (int64_t)n * 1000,
        };
        assert_int_equal(stream_put(streams[0], &packet), VERDICT_ACCEPTED);
        n += frames;
        if (flushes && random_below(&chance, 4) == 0 && n < FRAMES) {
            expect_flushed(flushed, delivered, n);
            stream_tick(streams[0], packet.receive_ns + 2 * NS_PER_MS);
            delivered = n;
        }
        work(streams[0]);
        work(streams[1]);
    }
    stream_end(streams[0]);
    work(streams[0]);
    work(streams[1]);
    for (int s = 0; s < 2; s++)
        stream_close(streams[s]);
    test_plan_free(&first);
    test_plan_free(&second);
    signal_free(shape);
}

static void only_what_is_marked_differs(void **state)
{
    (void)state;
    struct test_signal *signal = signal_noise("s16le", CHANNELS, FRAMES, 8);
    struct output *whole = calloc(2, sizeof *whole), *cut = calloc(2, sizeof *cut);
    bool *flushed = calloc(OUT_MAX, sizeof *flushed);
    run(signal, false, whole, NULL);
    run(signal, true, cut, flushed);
    int differs[2] = {0}, marked[2] = {0};
    for (int s = 0; s < 2; s++) {
        assert_int_equal(cut[s].frames, whole[s].frames);
        for (uint64_t n = 0; n < whole[s].frames; n++) {
            const bool same =
                memcmp(whole[s].samples[n], cut[s].samples[n], sizeof whole[s].samples[n]) == 0;
            assert_false(whole[s].partial[n]);
            differs[s] += !same;
            marked[s] += cut[s].partial[n];
            if (!same && !cut[s].partial[n])
                fail_msg("stream %d: frame %llu differs and is not marked", s,
                         (unsigned long long)n);
        }
    }
    for (uint64_t n = 0; n < OUT_MAX; n++)
        if (flushed[n] != cut[0].partial[n])
            fail_msg("frame %llu is marked: %d, was flushed: %d", (unsigned long long)n,
                     cut[0].partial[n], flushed[n]);
    assert_true(differs[0] > 0 && differs[1] > 0);
    assert_in_range(marked[0], 500, 3000);
    assert_true(marked[1] >= marked[0] && marked[1] < FRAMES);
    free(whole);
    free(cut);
    free(flushed);
    signal_free(signal);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(only_what_is_marked_differs),
    };
    return cmocka_run_group_tests(tests, open_engine, close_engine);
}
