/*
 * Streams, scheduler and engine together on the real device: streams come, go and change
 * their filter while another runs and must not notice; a saturating stream must not make a
 * modest one late; and the loop thread neither allocates nor locks per block.
 *
 * threads: yes
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
#include "tests/support/house.h"

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
    visit->b.plan = house_plan(visit->house.engine, NULL, 5, 256, 301, 16, 7);
    visit->b_next = house_plan(visit->house.engine, NULL, 5, 256, 301, 16, 8);
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
    a->plan = house_plan(visit->house.engine, NULL, A_CHANNELS, 512, A_TAPS, 16, 3);
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
            uv_idle_start(&a->idle, feed_on_idle);
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
    feed.plan = house_plan(house.engine, NULL, feed.channels, 256, 300, 1, 5);
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
        cmocka_unit_test(test_loop_never_allocates_or_locks),
    };
    return cmocka_run_group_tests_name("scheduler", tests, NULL, NULL);
}
