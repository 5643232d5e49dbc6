/* A loop with a scheduler and a real engine, see house.h. */
#include "tests/support/house.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "convolve/check/prepare.h"
#include "core/clock.h"
#include "core/random.h"

/* ---- the house --------------------------------------------------------------------------- */

struct engine *house_engine(struct house *house, uint32_t depth)
{
    struct problem problem;
    struct engine *engine = NULL;
    const char *device = getenv("CONVOLVD_TEST_DEVICE");
    const struct engine_options options = {
        .device = device != NULL ? device : "cpu",
        .depth = depth,
        .wake = scheduler_bell_ring,
        .wake_context = house->doorbell,
    };
    if (engine_open(&options, &engine, &problem) != 0)
        fail_msg("%s", problem.text);
    return engine;
}

void house_open_deep(struct house *house, uint32_t depth)
{
    struct problem problem;
    assert_int_equal(uv_loop_init(&house->loop), 0);
    assert_int_equal(scheduler_bell_open(&house->loop, &house->doorbell), 0);
    house->engine = house_engine(house, depth);
    if (scheduler_open(&house->loop, house->engine, house->doorbell, &house->scheduler, &problem) !=
        0)
        fail_msg("%s", problem.text);
}

void house_open(struct house *house)
{
    house_open_deep(house, 0);
}

void house_close(struct house *house)
{
    scheduler_close(house->scheduler);
    scheduler_bell_close(house->doorbell);
    uv_run(&house->loop, UV_RUN_DEFAULT);
    assert_int_equal(uv_loop_close(&house->loop), 0);
    engine_close(house->engine);
}

/* ---- a stream fed with seeded noise, as fast as it takes it or at its rate --------------- */

struct plan *house_plan(struct engine *engine, const char *variant, uint32_t channels, uint32_t hop,
                        uint32_t taps, uint32_t blocks_max, uint64_t seed)
{
    struct random_state random = {seed};
    struct taps *set;
    struct problem problem;
    assert_int_equal(taps_create(taps, false, &set, &problem), 0);
    for (uint32_t k = 0; k < taps; k++)
        set->re[k] = random_normal(&random) / sqrt(taps);
    struct channel_scale *scales = calloc(channels, sizeof *scales);
    struct edge *edges = calloc(channels, sizeof *edges);
    enum output_form *outputs = calloc(channels, sizeof *outputs);
    for (uint32_t c = 0; c < channels; c++) {
        scales[c].full_scale = 1.0;
        edges[c] = (struct edge){(uint16_t)c, (uint16_t)c, 0, 1.0f};
        outputs[c] = OUTPUT_REAL;
    }
    const struct taps *sets[] = {set};
    const struct plan_spec spec = {
        .inputs = channels,
        .format = {SAMPLE_FLOAT, 4, 32, false, false},
        .scales = scales,
        .taps = sets,
        .taps_count = 1,
        .edges = edges,
        .edge_count = channels,
        .outputs = outputs,
        .outputs_count = channels,
        .hop = hop,
        .blocks_max = blocks_max,
        .variant = variant,
    };
    struct plan *plan;
    if (plan_prepare(engine, &spec, &plan, &problem) != 0)
        fail_msg("%s", problem.text);
    taps_free(set);
    free(scales);
    free(edges);
    free(outputs);
    return plan;
}

static void take(void *context, const struct result *result)
{
    struct feed *feed = context;
    if (feed->got != NULL && result->epoch == 0)
        memcpy(feed->got + result->first_frame * feed->channels, result->samples,
               (size_t)result->frames * feed->channels * sizeof(float));
    feed->delivered += result->frames;
    if (feed->each != NULL)
        feed->each(feed, result);
}

void feed_put(struct feed *feed, uint32_t frames)
{
    uint32_t at = (uint32_t)(feed->frames % NOISE_FRAMES);
    if (frames > NOISE_FRAMES - at)
        frames = NOISE_FRAMES - at;
    int64_t now_ns = clock_monotonic_ns();
    const struct packet packet = {
        .first_frame = feed->frames,
        .frames = frames,
        .payload = (const uint8_t *)(feed->noise + (size_t)at * feed->channels),
        .receive_ns = now_ns,
        .receive_realtime_ns = now_ns,
    };
    assert_int_equal(stream_put(feed->stream, &packet), VERDICT_ACCEPTED);
    feed->frames += frames;
    scheduler_kick(feed->house->scheduler);
}

void feed_on_idle(uv_idle_t *idle)
{
    struct feed *feed = idle->data;
    uint64_t room = stream_room(feed->stream);
    uint64_t left = feed->total - feed->frames;
    uint64_t frames = room < left ? room : left;
    if (frames > feed->chunk)
        frames = feed->chunk;
    if (frames > 0)
        feed_put(feed, (uint32_t)frames);
    if (feed->frames == feed->total) {
        uv_idle_stop(idle);
        stream_end(feed->stream);
        scheduler_kick(feed->house->scheduler);
    }
}

void feed_on_time(uv_timer_t *timer)
{
    struct feed *feed = timer->data;
    uint64_t due =
        (uint64_t)((double)(clock_monotonic_ns() - feed->begun_ns) * feed->rate_hz / 1e9);
    if (due > feed->total)
        due = feed->total;
    while (feed->frames < due)
        feed_put(feed,
                 (uint32_t)(due - feed->frames < feed->chunk ? due - feed->frames : feed->chunk));
    if (feed->frames == feed->total) {
        uv_timer_stop(timer);
        stream_end(feed->stream);
        scheduler_kick(feed->house->scheduler);
    }
}

void feed_open(struct feed *feed, struct house *house, const char *name)
{
    struct random_state random = {4711 + feed->channels};
    struct problem problem;
    feed->house = house;
    feed->frame_bytes = feed->channels * 4;
    feed->noise = malloc((size_t)NOISE_FRAMES * feed->frame_bytes);
    for (uint32_t i = 0; i < NOISE_FRAMES * feed->channels; i++)
        feed->noise[i] = (float)random_normal(&random);
    const struct stream_options options = {
        .name = name,
        .rate_hz = feed->rate_hz,
        .channels = feed->channels,
        .format = {SAMPLE_FLOAT, 4, 32, false, false},
        .frame_bytes = feed->frame_bytes,
        .live = feed->live,
        .tail = true,
        .reorder_ns = 0,
        .blocks_in_flight = feed->ahead != 0 ? feed->ahead : 6,
    };
    if (stream_open(house->engine, &options, feed->plan, &feed->stream, &problem) != 0)
        fail_msg("%s", problem.text);
    const struct result_port port = {.context = feed, .put = take};
    assert_int_equal(stream_add_port(feed->stream, &port), 0);
    assert_int_equal(scheduler_add(house->scheduler, feed->stream), 0);
    uv_idle_init(&house->loop, &feed->idle);
    uv_timer_init(&house->loop, &feed->timer);
    feed->idle.data = feed->timer.data = feed;
    feed->begun_ns = clock_monotonic_ns();
    if (feed->live)
        uv_timer_start(&feed->timer, feed_on_time, 1, 1);
    else
        uv_idle_start(&feed->idle, feed_on_idle);
}

bool feed_done(const struct feed *feed)
{
    return feed->frames == feed->total && stream_drained(feed->stream);
}

void feed_close(struct feed *feed)
{
    assert_true(feed_done(feed));
    scheduler_remove(feed->house->scheduler, feed->stream);
    stream_close(feed->stream);
    plan_close(feed->plan);
    uv_close((uv_handle_t *)&feed->idle, NULL);
    uv_close((uv_handle_t *)&feed->timer, NULL);
    uv_run(&feed->house->loop, UV_RUN_NOWAIT);
    free(feed->noise);
}
