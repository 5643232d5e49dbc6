/*
 * Two streams of one device, the second reading the first: envelopes, then low-passed and
 * decimated. The device has memory of its own, whatever it is. What comes out is to the bit what
 * two streams give that meet on the host; and no sample of the second stage's input crosses the
 * bus.
 *
 * threads: yes
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "tests/support/engine_group.h"
#include "pipeline/chain.h"
#include "stream/stream.h"

enum {
    HOP = 128,
    RING = 4096,
    FRAMES = 40000,
    CHANNELS = 2,
    DECIMATE = 16,
    OUT_MAX = FRAMES / DECIMATE + 100
};

struct output {
    float samples[OUT_MAX][CHANNELS];
    uint64_t frames, epochs;
    bool ended;
};

static void take(void *context, const struct result *result)
{
    struct output *output = context;
    assert_true(output->frames + result->frames <= OUT_MAX);
    for (uint32_t n = 0; n < result->frames; n++)
        memcpy(output->samples[output->frames + n], result->samples + (size_t)n * CHANNELS,
               sizeof output->samples[0]);
    output->frames += result->frames;
    output->epochs += result->flags & RESULT_EPOCH_START ? 1 : 0;
    output->ended = result->flags & RESULT_EPOCH_END;
}

/* The port that pipeline/pipeline.c makes. */
struct link {
    struct chain chain;
    struct stream *next;
    bool by_host; /* results that are not known to lie in the device */
};

static void pass_on(void *context, const struct result *result)
{
    struct link *link = context;
    if (result->frames > 0) {
        struct packet packet = chain_packet(&link->chain, result, 0);
        if (link->by_host)
            packet.flags &= ~(uint32_t)PACKET_RESULT;
        assert_int_equal(stream_put(link->next, &packet), VERDICT_ACCEPTED);
    } else if (result->flags & RESULT_EPOCH_END) {
        stream_end(link->next);
    }
}

static struct stream *open_stream(struct test_plan *plan, const struct test_signal *signal,
                                  double rate_hz)
{
    const struct stream_options options = {
        .name = "test",
        .rate_hz = rate_hz,
        .channels = CHANNELS,
        .format = signal->format,
        .frame_bytes = CHANNELS * signal->format.bytes,
        .tail = true,
        .idle_flush_ns = 0,
        .ring_frames_min = RING,
        .blocks_in_flight = 4,
    };
    struct stream *stream;
    struct problem problem;
    test_plan_prepare(engine, plan, signal);
    if (stream_open(engine, &options, plan->plan, &stream, &problem) != 0)
        fail_msg("%s", problem.text);
    return stream;
}

/* One block of each stream that has one, until none has. */
static void work(struct stream *const *streams)
{
    for (bool any = true; any;) {
        any = false;
        for (int s = 0; s < 2; s++) {
            if (stream_ready_deadline_ns(streams[s]) == INT64_MAX)
                continue;
            struct batch *batch = engine_batch_take(engine);
            assert_non_null(batch);
            if (stream_fill(streams[s], batch, 1000000000, true) > 0) {
                engine_submit(engine, batch);
                batch = harness_wait(engine);
                for (uint32_t i = 0; i < batch->count; i++)
                    if (batch->items[i].owner != NULL)
                        stream_complete(batch->items[i].owner, batch, &batch->items[i]);
                any = true;
            }
            engine_batch_release(engine, batch);
        }
    }
}

/* `gap`: a part that never arrives; the source is patient, so it comes as a jump. `variant`: of the
 * second stage. */
static void run(const struct test_signal *signal, const char *variant, bool by_host, bool gap,
                struct output *output, struct engine_traffic *traffic)
{
    struct test_signal *shape = signal_noise("f32le", CHANNELS, 1, 6);
    struct test_plan first, second;
    test_plan_diagonal(&first, signal, HOP, 90, true, OUTPUT_ENVELOPE);
    test_plan_diagonal(&second, shape, HOP, 200, false, OUTPUT_REAL);
    first.spec.variant = "local"; /* small enough for the host, too */
    second.spec.variant = variant;
    second.spec.decimate = DECIMATE;
    struct stream *streams[2] = {open_stream(&first, signal, 1e6),
                                 open_stream(&second, shape, 1e6)};
    struct link link = {.next = streams[1], .by_host = by_host};
    const struct result_port to_next = {.context = &link, .put = pass_on};
    const struct result_port out = {.context = output, .put = take};
    assert_int_equal(stream_add_port(streams[0], &to_next), 0);
    assert_int_equal(stream_add_port(streams[1], &out), 0);
    memset(output, 0, sizeof *output);

    struct engine_traffic before, after;
    engine_traffic(engine, &before);
    struct random_state random = {77};
    for (uint64_t n = 0; n < FRAMES;) {
        uint32_t frames = 1 + random_below(&random, 300);
        if (frames > FRAMES - n)
            frames = (uint32_t)(FRAMES - n);
        const struct packet packet = {
            .first_frame = n,
            .frames = frames,
            .payload = signal->bytes + n * CHANNELS * signal->format.bytes,
            .receive_ns = (int64_t)n * 1000,
        };
        const bool lost = gap && n > 9000 && n < 10500;
        if (!lost)
            assert_int_equal(stream_put(streams[0], &packet), VERDICT_ACCEPTED);
        if (gap) /* what is missing is given up */
            stream_tick(streams[0], (int64_t)n * 1000 + 1000000000);
        n += frames;
        work(streams);
    }
    stream_end(streams[0]);
    work(streams);
    engine_traffic(engine, &after);
    *traffic = (struct engine_traffic){
        .ring_bytes = after.ring_bytes - before.ring_bytes,
        .fed_bytes = after.fed_bytes - before.fed_bytes,
    };
    assert_true(stream_drained(streams[0]) && stream_drained(streams[1]) && output->ended);
    for (int s = 0; s < 2; s++)
        stream_close(streams[s]);
    test_plan_free(&first);
    test_plan_free(&second);
    signal_free(shape);
}

static void a_chain_stays_on_the_device(void **state)
{
    (void)state;
    struct test_signal *signal = signal_noise("s16be", CHANNELS, FRAMES, 3);
    struct output *fed = malloc(sizeof *fed), *by_host = malloc(sizeof *by_host);
    for (int gap = 0; gap < 2; gap++) {
        struct engine_traffic inside, outside;
        run(signal, "local", false, gap, fed, &inside);
        run(signal, "local", true, gap, by_host, &outside);
        assert_int_equal(fed->frames, (FRAMES + 89 + 199 + DECIMATE - 1) / DECIMATE);
        assert_int_equal(fed->frames, by_host->frames);
        assert_memory_equal(fed->samples, by_host->samples, fed->frames * sizeof fed->samples[0]);
        assert_int_equal(fed->epochs, 1);

        const uint64_t frames_between = FRAMES + 89, frame_bytes = CHANNELS * sizeof(float);
        assert_int_equal(inside.fed_bytes, frames_between * frame_bytes);
        assert_int_equal(outside.fed_bytes, 0);
        /* Of the second stage's ring only what no result fills goes in: its tail's silence. */
        const uint64_t input = outside.ring_bytes - inside.ring_bytes;
        assert_true(input >= frames_between * frame_bytes);
        assert_true(inside.ring_bytes < (uint64_t)(FRAMES + 4 * HOP + 90) * CHANNELS * 2 +
                                            (uint64_t)(4 * HOP + 200) * frame_bytes);
    }
    free(fed);
    free(by_host);
    signal_free(signal);
}

/* What lies in a ring before the first frame is silence, and the device has it from the start: the
 * first batch of a stream copies its own frames, not a lap. */
static void the_first_batch_copies_its_own_frames_alone(void **state)
{
    (void)state;
    struct test_signal *signal = signal_noise("s16be", CHANNELS, HOP, 3);
    struct test_plan plans[2];
    struct stream *streams[2];
    for (int s = 0; s < 2; s++) {
        test_plan_diagonal(&plans[s], signal, HOP, 90, true, OUTPUT_REAL);
        plans[s].spec.variant = "local"; /* small enough for the host, too */
        streams[s] = open_stream(&plans[s], signal, 1e6);
    }
    struct engine_traffic before, after;
    engine_traffic(engine, &before);
    const struct packet packet = {.frames = HOP, .payload = signal->bytes};
    assert_int_equal(stream_put(streams[0], &packet), VERDICT_ACCEPTED);
    work(streams);
    engine_traffic(engine, &after);
    assert_int_equal(after.ring_bytes - before.ring_bytes, HOP * CHANNELS * 2);
    assert_true(after.presence_bytes - before.presence_bytes <= HOP / 8 + sizeof(uint32_t));
    for (int s = 0; s < 2; s++) {
        stream_close(streams[s]);
        test_plan_free(&plans[s]);
    }
    signal_free(signal);
}

/* A second stage on the host reads what its ring holds there: no result need be copied for it. */
static void a_stage_on_the_host_is_not_fed(void **state)
{
    (void)state;
    struct test_signal *signal = signal_noise("s16be", CHANNELS, FRAMES, 3);
    struct output *output = malloc(sizeof *output), *by_host = malloc(sizeof *by_host);
    for (int gap = 0; gap < 2; gap++) {
        struct engine_traffic traffic, outside;
        run(signal, "host", false, gap, output, &traffic);
        run(signal, "host", true, gap, by_host, &outside);
        assert_int_equal(output->frames, by_host->frames);
        assert_memory_equal(output->samples, by_host->samples,
                            output->frames * sizeof output->samples[0]);
        assert_int_equal(traffic.fed_bytes, 0);
        assert_int_equal(traffic.ring_bytes, outside.ring_bytes);
    }
    free(output);
    free(by_host);
    signal_free(signal);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_chain_stays_on_the_device),
        cmocka_unit_test(the_first_batch_copies_its_own_frames_alone),
        cmocka_unit_test(a_stage_on_the_host_is_not_fed),
    };
    return cmocka_run_group_tests(tests, open_mirrored_engine, close_engine);
}
