/*
 * Streams, scheduler and engine together on the real device: streams come, go and change
 * their filter while another runs and must not notice; a saturating stream must not make a
 * modest one late; and the loop thread neither allocates nor locks per block.
 */
#include <arpa/inet.h>
#include <dlfcn.h>
#include <math.h>
#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>
#include <cmocka.h>
#include <uv.h>

#include "convolve/check/prepare.h"
#include "core/clock.h"
#include "core/random.h"
#include "wire/rtp.h"
#include "io/net/network_options.h"
#include "io/net/rtp_sink_options.h"
#include "io/sinks.h"
#include "io/sources.h"
#include "stream/scheduler.h"
#include "tests/support/engine_harness.h"

/* ---- what the loop thread must not do ---------------------------------------------------- */

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
#define COUNTING 0
#elif defined(__has_feature)
#if __has_feature(address_sanitizer) || __has_feature(thread_sanitizer)
#define COUNTING 0
#else
#define COUNTING 1
#endif
#else
#define COUNTING 1
#endif

static _Thread_local bool counted;
static _Atomic uint64_t allocations, locks;

#if COUNTING
extern void *__libc_malloc(size_t bytes);
extern void *__libc_calloc(size_t count, size_t bytes);
extern void *__libc_realloc(void *memory, size_t bytes);
void *malloc(size_t bytes);
void *calloc(size_t count, size_t bytes);
void *realloc(void *memory, size_t bytes);

void *malloc(size_t bytes)
{
    allocations += counted;
    return __libc_malloc(bytes);
}

void *calloc(size_t count, size_t bytes)
{
    allocations += counted;
    return __libc_calloc(count, bytes);
}

void *realloc(void *memory, size_t bytes)
{
    allocations += counted;
    return __libc_realloc(memory, bytes);
}

int pthread_mutex_lock(pthread_mutex_t *mutex)
{
    static int (*next)(pthread_mutex_t *);
    if (next == NULL)
        *(void **)&next = dlsym(RTLD_NEXT, "pthread_mutex_lock");
    locks += counted;
    return next(mutex);
}
#endif

/* ---- a loop with an engine --------------------------------------------------------------- */

struct house {
    uv_loop_t loop;
    struct scheduler_bell *doorbell;
    struct engine *engine;
    struct scheduler *scheduler;
};

/* `depth`: as engine_options.depth. */
static void house_open_deep(struct house *house, uint32_t depth)
{
    struct problem problem;
    assert_int_equal(uv_loop_init(&house->loop), 0);
    assert_int_equal(scheduler_bell_open(&house->loop, &house->doorbell), 0);
    const char *device = getenv("CONVOLVD_TEST_DEVICE");
    const struct engine_options options = {
        .device = device != NULL ? device : "cpu",
        .depth = depth,
        .wake = scheduler_bell_ring,
        .wake_context = house->doorbell,
    };
    if (engine_open(&options, &house->engine, &problem) != 0)
        fail_msg("%s", problem.text);
    if (scheduler_open(&house->loop, house->engine, house->doorbell, &house->scheduler, &problem) !=
        0)
        fail_msg("%s", problem.text);
}

static void house_open(struct house *house)
{
    house_open_deep(house, 0);
}

static void house_close(struct house *house)
{
    scheduler_close(house->scheduler);
    scheduler_bell_close(house->doorbell);
    uv_run(&house->loop, UV_RUN_DEFAULT);
    assert_int_equal(uv_loop_close(&house->loop), 0);
    engine_close(house->engine);
}

/* ---- a stream fed with seeded noise, as fast as it takes it or at its rate --------------- */

struct feed {
    struct house *house;
    struct stream *stream;
    struct plan *plan;
    uint32_t channels, frame_bytes, chunk;
    uint32_t ahead;         /* blocks that the ring holds beyond what is due at once; 0: 6 */
    uint64_t frames, total; /* put; to put */
    double rate_hz;
    bool live;
    uv_idle_t idle;
    uv_timer_t timer;
    int64_t begun_ns;
    float *noise;
    float *got; /* [total + taps][channels] when kept */
    uint64_t delivered;
    struct plan *retired;
    void (*each)(struct feed *feed, const struct result *result);
};

enum { NOISE_FRAMES = 4096 };

static struct plan *make_plan(struct house *house, uint32_t channels, uint32_t hop, uint32_t taps,
                              uint32_t blocks_max, uint64_t seed)
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
    };
    struct plan *plan;
    if (plan_prepare(house->engine, &spec, &plan, &problem) != 0)
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

static void feed_put(struct feed *feed, uint32_t frames)
{
    /* The signal is the noise over and over: any frame's value follows from its number. */
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

static void on_idle(uv_idle_t *idle)
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

static void on_time(uv_timer_t *timer)
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

static void feed_open(struct feed *feed, struct house *house, const char *name)
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
        uv_timer_start(&feed->timer, on_time, 1, 1);
    else
        uv_idle_start(&feed->idle, on_idle);
}

static bool feed_done(const struct feed *feed)
{
    return feed->frames == feed->total && stream_drained(feed->stream);
}

static void feed_close(struct feed *feed)
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

/* ---- one stream does not notice another -------------------------------------------------- */

enum { A_CHANNELS = 3, A_FRAMES = 300000, A_TAPS = 700 };

struct visit {
    struct house house;
    struct feed a, b;
    struct plan *b_next;
    uint64_t exchange;
    int visits;
    int phase; /* 0: B being prepared, 1: B runs, 2: B is gone */
    uv_work_t work;
};

static void on_retired(void *context, struct plan *old)
{
    ((struct visit *)context)->b.retired = old;
}

static void prepare_b(uv_work_t *work)
{
    struct visit *visit = work->data;
    visit->b.plan = make_plan(&visit->house, 5, 256, 301, 16, 7);
    visit->b_next = make_plan(&visit->house, 5, 256, 301, 16, 8);
}

static void start_b(uv_work_t *work, int status)
{
    struct visit *visit = work->data;
    assert_int_equal(status, 0);
    visit->b.channels = 5;
    visit->b.rate_hz = 1e6;
    visit->b.chunk = 333;
    visit->b.total = 40000;
    visit->b.frames = visit->b.delivered = 0;
    visit->b.got = calloc((visit->b.total + 301) * 5, sizeof(float));
    feed_open(&visit->b, &visit->house, "b");
    visit->exchange = 12345;
    assert_int_equal(
        stream_change(visit->b.stream, &(struct stream_change){.plan = visit->b_next,
                                                               .frame = visit->exchange,
                                                               .retired = on_retired,
                                                               .context = visit}),
        0);
    visit->phase = 1;
}

/* B's frames on both sides of the exchange, by the definition, at chosen frames. */
static void check_b(const struct visit *visit)
{
    struct random_state random = {17};
    for (int i = 0; i < 400; i++) {
        uint64_t n = i < 40 ? visit->exchange - 20 + (uint64_t)i : random_below(&random, 40000);
        uint32_t c = random_below(&random, 5);
        struct random_state seed = {n < visit->exchange ? 7 : 8};
        double sum = 0;
        double size = 0;
        for (uint64_t k = 0; k < 301; k++) {
            double h = random_normal(&seed) / sqrt(301);
            double x = n >= k ? visit->b.noise[((n - k) % NOISE_FRAMES) * 5 + c] : 0;
            sum += h * x;
            size += fabs(h * x);
        }
        double error = fabs(visit->b.got[n * 5 + c] - sum);
        if (error > 1e-6 * size)
            fail_msg("stream b, frame %llu: got %g, want %g", (unsigned long long)n,
                     visit->b.got[n * 5 + c], sum);
    }
}

static float *run_a(int visitors)
{
    struct visit *visit = calloc(1, sizeof *visit);
    house_open(&visit->house);
    struct feed *a = &visit->a;
    a->channels = A_CHANNELS;
    a->rate_hz = 1e6;
    a->chunk = 1000;
    a->total = A_FRAMES;
    a->got = calloc((A_FRAMES + A_TAPS) * A_CHANNELS, sizeof(float));
    a->plan = make_plan(&visit->house, A_CHANNELS, 512, A_TAPS, 16, 3);
    feed_open(a, &visit->house, "a");
    visit->work.data = visit;
    while (!feed_done(a) || visit->visits < visitors) {
        if (visit->visits < visitors && visit->phase == 0 && a->delivered > 1000) {
            visit->phase = -1;
            assert_int_equal(uv_queue_work(&visit->house.loop, &visit->work, prepare_b, start_b),
                             0);
        }
        /* A waits near its end until the visitors have been, so that they always meet it running.
         */
        a->chunk = visit->visits < visitors ? 100 : 1000;
        if (visit->visits < visitors && a->frames > A_FRAMES - 2000)
            uv_idle_stop(&a->idle);
        else if (a->frames < a->total)
            uv_idle_start(&a->idle, on_idle);
        uv_run(&visit->house.loop, UV_RUN_ONCE);
        if (visit->phase == 1 && feed_done(&visit->b)) {
            assert_non_null(visit->b.retired);
            check_b(visit);
            plan_close(visit->b.retired);
            visit->b.plan = visit->b_next;
            visit->b.retired = NULL;
            feed_close(&visit->b);
            free(visit->b.got);
            visit->phase = 0;
            visit->visits++;
        }
    }
    feed_close(a);
    house_close(&visit->house);
    float *got = a->got;
    free(visit);
    return got;
}

static void test_streams_come_change_and_go(void **state)
{
    (void)state;
    float *alone = run_a(0);
    float *visited = run_a(2);
    assert_memory_equal(alone, visited, (A_FRAMES + A_TAPS - 1) * A_CHANNELS * sizeof(float));
    free(alone);
    free(visited);
}

/* ---- a saturated device ------------------------------------------------------------------ */

enum { MODEST_HOP = 96, GREEDY_HOP = 1024, GREEDY_BLOCKS = 64, GREEDY_BLOCK_NS = 300000 };

/* Each turn of the loop reads for `most_ns` for the lower one of two streams. */
static void check_reading(struct house *house, struct stream *high, struct stream *low,
                          int64_t most_ns)
{
    for (int turn = 0; turn < 2; turn++) {
        uv_run(&house->loop, UV_RUN_NOWAIT);
        scheduler_has_read(house->scheduler, high, most_ns);
        scheduler_has_read(house->scheduler, low, most_ns / 4);
        assert_int_equal(scheduler_may_read_ns(house->scheduler, high), INT64_MAX);
        assert_int_equal(scheduler_may_read_ns(house->scheduler, low), most_ns - most_ns / 4);
    }
}

/* The expected device time of what the first round queues of a stream with 64 blocks ready, each of
 * which takes 0.3 ms. `modest_hz`: the rate of a live stream beside it; 0: there is none. `behind`:
 * the first one is live, of lower priority, and cannot be in time. */
static int64_t queued_beside_ns(double modest_hz, bool behind)
{
    const bool shared = modest_hz > 0;
    struct house house;
    house_open(&house);
    alarm(20); /* a block that starves is never computed */
    struct feed modest = {.channels = 1, .rate_hz = modest_hz, .live = true, .chunk = MODEST_HOP};
    struct feed greedy = {.channels = 1, .rate_hz = 1e6, .ahead = 2 * GREEDY_BLOCKS};
    greedy.plan = make_plan(&house, 1, GREEDY_HOP, 100, GREEDY_BLOCKS, 6);
    greedy.total = GREEDY_BLOCKS * GREEDY_HOP;
    greedy.live = behind;
    feed_open(&greedy, &house, "greedy");
    uv_timer_stop(&greedy.timer);
    if (shared) {
        modest.plan = make_plan(&house, 1, MODEST_HOP, 50, 4, 5);
        modest.total = 4 * MODEST_HOP;
        feed_open(&modest, &house, "modest");
        uv_timer_stop(&modest.timer); /* it only has to be there */
        stream_set_priority(modest.stream, behind);
    }
    harness_set_cost(greedy.plan, GREEDY_BLOCK_NS);
    while (greedy.frames < greedy.total)
        feed_put(&greedy, GREEDY_HOP);
    uv_run(&house.loop, UV_RUN_NOWAIT); /* one round of the scheduler */
    struct stream_stats stats;
    stream_stats(greedy.stream, &stats);
    if (behind)
        check_reading(&house, modest.stream, greedy.stream, (int64_t)(6e9 / modest_hz));
    if (shared)
        uv_timer_start(&modest.timer, on_time, 1, 1);
    while (!feed_done(&greedy) || (shared && !feed_done(&modest)))
        uv_run(&house.loop, UV_RUN_ONCE);
    if (shared)
        feed_close(&modest);
    feed_close(&greedy);
    house_close(&house);
    alarm(0);
    assert_int_equal(stats.out, 0);
    return (int64_t)(stats.submitted / GREEDY_HOP) * GREEDY_BLOCK_NS;
}

static void test_queue_leaves_room_for_live_streams(void **state)
{
    (void)state;
    const int64_t half_period_ns = (int64_t)(MODEST_HOP / 48000.0 * 1e9 / 2);
    const int64_t alone_ns = queued_beside_ns(0, false), shared_ns = queued_beside_ns(48000, false);
    assert_true(alone_ns > half_period_ns); /* else nothing is shown */
    assert_in_range(shared_ns, 1, half_period_ns);
    /* A block that takes longer than a batch may is not queued behind another one. */
    assert_int_equal(queued_beside_ns(480000, false), GREEDY_BLOCK_NS);
}

/* What falls behind leaves higher priorities nearly all of their time. */
static void test_lower_priority_takes_a_sixteenth(void **state)
{
    (void)state;
    const double modest_hz = 2000; /* a block lasts 48 ms */
    const int64_t period_ns = (int64_t)(MODEST_HOP / modest_hz * 1e9);
    assert_true(queued_beside_ns(modest_hz, false) > period_ns / 4);
    assert_in_range(queued_beside_ns(modest_hz, true), 1, period_ns / 16);
    assert_int_equal(queued_beside_ns(48000, true), GREEDY_BLOCK_NS); /* alone, but it goes */
}

static void test_modest_beside_saturating(void **state)
{
    (void)state;
    struct house house;
    house_open(&house);
    struct feed modest = {.channels = 2, .rate_hz = 48000, .live = true, .chunk = 96};
    struct feed greedy = {.channels = 16, .rate_hz = 1e6, .chunk = 4096};
    modest.plan = make_plan(&house, 2, 4800, 4801, 4, 5);     /* a block lasts 100 ms */
    greedy.plan = make_plan(&house, 16, 1024, 30000, 128, 6); /* its largest batch far longer */
    modest.total = 48000 * 3;
    greedy.total = UINT64_MAX;
    feed_open(&greedy, &house, "greedy");
    feed_open(&modest, &house, "modest");
    while (!feed_done(&modest))
        uv_run(&house.loop, UV_RUN_ONCE);
    struct stream_stats stats;
    stream_stats(modest.stream, &stats);
    assert_int_equal(stats.received, modest.total);
    assert_int_equal(stats.out, modest.total + 4800);
    for (int why = 0; why < SHEDS; why++)
        assert_int_equal(stats.shed[why], 0);
    struct stream_stats load;
    stream_stats(greedy.stream, &load);
    print_message("modest: %llu blocks, %llu late; beside it %llu greedy blocks, load %.2f\n",
                  (unsigned long long)stats.blocks, (unsigned long long)stats.deadline_misses,
                  (unsigned long long)load.blocks, load.load);
    assert_true(load.blocks > 100);
    /* Its deadline is one block, 100 ms. A machine that stalls as a whole costs some blocks. */
    assert_true(stats.deadline_misses <= stats.blocks / 2);
    greedy.total = greedy.frames;
    while (!feed_done(&greedy))
        uv_run(&house.loop, UV_RUN_ONCE);
    feed_close(&modest);
    feed_close(&greedy);
    house_close(&house);
}

/* ---- a hundred thousand blocks without an allocation or a lock on the loop --------------- */

enum { COUNT_HOP = 64, COUNT_BLOCKS = 100000, COUNT_PACKET = 512, COUNT_AHEAD = 64 };

struct traffic {
    struct house house;
    struct feed feed;
    struct source *source;
    struct sink *sink;
    _Atomic uint64_t datagrams_done; /* packets whose frames have come out */
    uint16_t port;
    int closes;
};

static enum verdict traffic_put(void *context, const struct packet *packet)
{
    struct traffic *traffic = context;
    enum verdict verdict = stream_put(traffic->feed.stream, packet);
    scheduler_kick(traffic->house.scheduler);
    return verdict;
}

static uint64_t traffic_room(void *context)
{
    return stream_room(((struct traffic *)context)->feed.stream);
}

static uint8_t *traffic_vacant(void *context, uint64_t place, uint64_t *frames)
{
    return stream_vacant(((struct traffic *)context)->feed.stream, place, frames);
}

static void traffic_ended(void *context)
{
    (void)context;
}

static void traffic_drops(void *context, uint64_t datagrams)
{
    stream_socket_drops(((struct traffic *)context)->feed.stream, datagrams);
}

static void traffic_result(void *context, const struct result *result)
{
    struct traffic *traffic = context;
    sink_rtp.put(traffic->sink, result);
    traffic->feed.delivered += result->frames;
    atomic_store(&traffic->datagrams_done, traffic->feed.delivered / COUNT_PACKET);
}

static void traffic_flush(void *context)
{
    sink_rtp.flush(((struct traffic *)context)->sink);
}

static void *send_traffic(void *context)
{
    struct traffic *traffic = context;
    int fd = socket(AF_INET, SOCK_DGRAM, 0);
    struct sockaddr_in to = {.sin_family = AF_INET, .sin_port = htons(traffic->port)};
    to.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    uint8_t datagram[RTP_HEADER_BYTES + COUNT_PACKET * 2] = {0};
    uint64_t packets = (uint64_t)COUNT_BLOCKS * COUNT_HOP / COUNT_PACKET;
    for (uint64_t i = 0; i < packets; i++) {
        while (i > atomic_load(&traffic->datagrams_done) + COUNT_AHEAD)
            usleep(100);
        const struct rtp_header header = {false, 96, (uint16_t)i, (uint32_t)(i * COUNT_PACKET), 7};
        size_t bytes = rtp_build(datagram, &header, NULL);
        sendto(fd, datagram, bytes + COUNT_PACKET * 2, 0, (struct sockaddr *)&to, sizeof to);
    }
    close(fd);
    return NULL;
}

static void on_closed(void *context)
{
    ((struct traffic *)context)->closes++;
}

static void test_loop_never_allocates_or_locks(void **state)
{
    (void)state;
    struct traffic *traffic = calloc(1, sizeof *traffic);
    struct problem problem;
    house_open(&traffic->house);
    struct feed *feed = &traffic->feed;
    struct taps *set;
    assert_int_equal(taps_create(65, false, &set, &problem), 0);
    set->re[10] = 1.0;
    const struct taps *sets[] = {set};
    const struct channel_scale scale = {.full_scale = 1.0};
    const struct edge edge = {0, 0, 0, 1.0f};
    const enum output_form output = OUTPUT_REAL;
    const struct sample_format wire = {SAMPLE_SIGNED, 2, 16, true, false};
    const struct plan_spec spec = {.inputs = 1,
                                   .format = wire,
                                   .scales = &scale,
                                   .taps = sets,
                                   .taps_count = 1,
                                   .edges = &edge,
                                   .edge_count = 1,
                                   .outputs = &output,
                                   .outputs_count = 1,
                                   .hop = COUNT_HOP,
                                   .blocks_max = 64};
    if (plan_prepare(traffic->house.engine, &spec, &feed->plan, &problem) != 0)
        fail_msg("%s", problem.text);
    const struct stream_options options = {.name = "traffic",
                                           .rate_hz = 1e6,
                                           .channels = 1,
                                           .format = wire,
                                           .frame_bytes = 2,
                                           .live = true,
                                           .tail = true,
                                           .reorder_ns = 50 * NS_PER_MS,
                                           .idle_flush_ns = 100 * NS_PER_MS,
                                           .blocks_in_flight = 6};
    if (stream_open(traffic->house.engine, &options, feed->plan, &feed->stream, &problem) != 0)
        fail_msg("%s", problem.text);
    const struct result_port port = {
        .context = traffic, .put = traffic_result, .flush = traffic_flush};
    assert_int_equal(stream_add_port(feed->stream, &port), 0);
    assert_int_equal(scheduler_add(traffic->house.scheduler, feed->stream), 0);

    static const char *const unit = "V";
    struct rtp_sink_options sends = {.address = "127.0.0.1:9", .payload_type = 96, .ttl = 1};
    const struct sink_options to = {
        .name = "out",
        .own = &sends,
        .format = wire,
        .full_scale = 1.0,
        .stream = {.name = "traffic", .rate_hz = 1e6, .channels = 1, .units = &unit}};
    if (sink_rtp.open(&to, &(struct io_environment){.loop = &traffic->house.loop}, &traffic->sink,
                      &problem) != 0)
        fail_msg("%s", problem.text);
    const struct source_host host = {.context = traffic,
                                     .put = traffic_put,
                                     .room = traffic_room,
                                     .vacant = traffic_vacant,
                                     .ended = traffic_ended,
                                     .socket_drops = traffic_drops};
    struct network_options receives = {.ingest = {.payload_type = 96,
                                                  .max_dropout_ns = NS_PER_SECOND,
                                                  .max_misorder_ns = 10 * NS_PER_MS},
                                       .address = "127.0.0.1:0",
                                       .receive_buffer_bytes = 4 << 20};
    const struct source_options from = {.stream = "traffic",
                                        .rate_hz = 1e6,
                                        .channels = 1,
                                        .format = wire,
                                        .frame_bytes = 2,
                                        .own = &receives,
                                        .reorder_ns = 50 * NS_PER_MS,
                                        .max_gap_ns = NS_PER_SECOND};
    if (source_rtp.open(&from, &(struct io_environment){.loop = &traffic->house.loop}, &host,
                        &traffic->source, &problem) != 0)
        fail_msg("%s", problem.text);
    traffic->port = source_rtp.port(traffic->source);
    assert_int_equal(source_rtp.start(traffic->source, &problem), 0);

    pthread_t sender;
    assert_int_equal(pthread_create(&sender, NULL, send_traffic, traffic), 0);
    const uint64_t wanted = (uint64_t)COUNT_BLOCKS * COUNT_HOP;
    /* The first blocks may still fault in code and buffers; then nothing more. */
    while (feed->delivered < wanted / 100)
        uv_run(&traffic->house.loop, UV_RUN_ONCE);
    counted = true;
    while (feed->delivered < wanted)
        uv_run(&traffic->house.loop, UV_RUN_ONCE);
    counted = false;
    pthread_join(sender, NULL);
    struct stream_stats stats;
    stream_stats(feed->stream, &stats);
    print_message("%llu blocks in %llu batches: %llu allocations, %llu locks on the loop\n",
                  (unsigned long long)stats.blocks, (unsigned long long)stats.batches,
                  (unsigned long long)allocations, (unsigned long long)locks);
    assert_int_equal(stats.received, wanted);
    assert_int_equal(allocations, 0);
    assert_int_equal(locks, 0);

    source_rtp.stop(traffic->source);
    stream_end(feed->stream);
    scheduler_kick(traffic->house.scheduler);
    while (!stream_drained(feed->stream))
        uv_run(&traffic->house.loop, UV_RUN_ONCE);
    sink_rtp.close(traffic->sink, clock_monotonic_ns() + NS_PER_SECOND, on_closed, traffic);
    source_rtp.close(traffic->source, on_closed, traffic);
    while (traffic->closes < 2)
        uv_run(&traffic->house.loop, UV_RUN_ONCE);
    scheduler_remove(traffic->house.scheduler, feed->stream);
    stream_close(feed->stream);
    plan_close(feed->plan);
    taps_free(set);
    house_close(&traffic->house);
    free(traffic);
}

/* ---- how many batches are in the queue --------------------------------------------------- */

/* The most batches in flight while a stream of one block a batch has more to compute. */
static uint32_t deepest(uint32_t depth, uint32_t *expected)
{
    struct house house;
    house_open_deep(&house, depth);
    *expected = engine_depth(house.engine);
    struct feed feed = {.channels = 2, .rate_hz = 1e6, .chunk = 4096, .total = 100000};
    feed.plan = make_plan(&house, feed.channels, 256, 300, 1, 5);
    feed_open(&feed, &house, "deep");
    uint32_t most = 0;
    while (!feed_done(&feed)) {
        uv_run(&house.loop, UV_RUN_ONCE);
        const uint32_t now = engine_in_flight(house.engine);
        most = now > most ? now : most;
    }
    feed_close(&feed);
    house_close(&house);
    return most;
}

static void test_depth_is_the_engines(void **state)
{
    (void)state;
    static const uint32_t depths[] = {0, 1, 3, 5};
    for (size_t i = 0; i < sizeof depths / sizeof depths[0]; i++) {
        uint32_t expected = 0;
        const uint32_t most = deepest(depths[i], &expected);
        if (depths[i] != 0)
            assert_int_equal(expected, depths[i]);
        if (most < expected || most > (depths[i] == 0 ? 2 * expected : expected))
            fail_msg("depth %u: %u batches in flight, not %u", depths[i], most, expected);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_depth_is_the_engines),
        cmocka_unit_test(test_streams_come_change_and_go),
        cmocka_unit_test(test_queue_leaves_room_for_live_streams),
        cmocka_unit_test(test_lower_priority_takes_a_sixteenth),
        cmocka_unit_test(test_modest_beside_saturating),
        cmocka_unit_test(test_loop_never_allocates_or_locks),
    };
    return cmocka_run_group_tests_name("scheduler", tests, NULL, NULL);
}
