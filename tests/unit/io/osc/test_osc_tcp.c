/*
 * OSC over TCP: what one connection can do to the others and to the loop. Real sockets and a real
 * loop; descriptors run out because the limit of the process is lowered.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <arpa/inet.h>
#include <cmocka.h>
#include <errno.h>
#include <string.h>
#include <sys/resource.h>
#include <unistd.h>

#include "core/clock.h"
#include "io/osc/tcp.h"

enum { TICK_MS = 20 };

static uv_loop_t loop;
static uv_timer_t tick;
static uv_prepare_t turn;
static unsigned turns; /* of the loop */
static struct osc_tcp *tcp;
static struct osc_stats stats;
static struct osc_tcp_options options;
static unsigned packets; /* taken */
static bool is_closed;

static bool everybody(void *context, const struct sockaddr_storage *from)
{
    (void)context, (void)from;
    return true;
}

static void take(void *context, struct osc_link *link, const struct sockaddr_storage *from,
                 const uint8_t *data, size_t bytes, int64_t receive_ns, int64_t realtime_ns)
{
    (void)context, (void)link, (void)from, (void)data, (void)bytes, (void)receive_ns;
    (void)realtime_ns;
    packets++;
}

static void gone(void *context, const struct osc_link *link)
{
    (void)context, (void)link;
}

static void on_closed(void *context)
{
    (void)context;
    is_closed = true;
}

static void on_tick(uv_timer_t *timer)
{
    (void)timer;
    osc_tcp_tick(tcp, clock_monotonic_ns());
}

static void on_turn(uv_prepare_t *prepare)
{
    (void)prepare;
    turns++;
}

static uint16_t port;

static int set_up(void **state)
{
    (void)state;
    stats = (struct osc_stats){0};
    packets = turns = 0;
    is_closed = false;
    uv_loop_init(&loop);
    uv_timer_init(&loop, &tick);
    uv_timer_start(&tick, on_tick, TICK_MS, TICK_MS);
    uv_prepare_init(&loop, &turn);
    uv_prepare_start(&turn, on_turn);
    options = (struct osc_tcp_options){.address = "127.0.0.1:0",
                                       .timeout_ns = NS_PER_SECOND / 5,
                                       .idle_ns = 60 * NS_PER_SECOND,
                                       .stats = &stats,
                                       .allowed = everybody,
                                       .packet = take,
                                       .gone = gone};
    return 0;
}

static void open_server(void)
{
    struct problem problem;
    assert_int_equal(osc_tcp_open(&loop, &options, &tcp, &problem), 0);
    port = osc_tcp_port(tcp);
}

static int tear_down(void **state)
{
    (void)state;
    osc_tcp_close(tcp, on_closed);
    uv_close((uv_handle_t *)&tick, NULL);
    uv_close((uv_handle_t *)&turn, NULL);
    uv_run(&loop, UV_RUN_DEFAULT);
    assert_true(is_closed);
    assert_int_equal(uv_loop_close(&loop), 0);
    return 0;
}

static void run_for(int ms)
{
    int64_t until_ns = clock_monotonic_ns() + ms * NS_PER_MS;
    while (clock_monotonic_ns() < until_ns)
        uv_run(&loop, UV_RUN_ONCE); /* the tick ends each turn */
}

static int dial(void)
{
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    struct sockaddr_in to = {
        .sin_family = AF_INET, .sin_port = htons(port), .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    assert_true(fd >= 0);
    assert_int_equal(connect(fd, (struct sockaddr *)&to, sizeof to), 0);
    return fd;
}

/* Whether the other end has closed this connection. */
static bool is_hung_up(int fd)
{
    char byte;
    ssize_t got = recv(fd, &byte, 1, MSG_DONTWAIT);
    return got == 0 || (got < 0 && errno == ECONNRESET);
}

static void say(int fd)
{
    static const uint8_t packet[] = "\0\0\0\x08/a\0\0,\0\0";
    assert_int_equal(send(fd, packet, 12, MSG_NOSIGNAL), 12);
}

/* From here on the kernel gives no descriptor of `limit` or above; those there stay open. */
static struct rlimit limit_descriptors(int limit)
{
    struct rlimit before, now;
    getrlimit(RLIMIT_NOFILE, &before);
    now = before;
    now.rlim_cur = (rlim_t)limit;
    setrlimit(RLIMIT_NOFILE, &now);
    return before;
}

static int first_free(void)
{
    int fd = dup(0);
    close(fd);
    return fd;
}

/* A connection that cannot be accepted stays in the queue and keeps the listener readable. */
static void no_descriptor_left(void **state)
{
    (void)state;
    int clients[3];
    open_server();
    for (int i = 0; i < 3; i++)
        clients[i] = dial();
    const struct rlimit before = limit_descriptors(first_free());
    turns = 0;
    run_for(300);
    setrlimit(RLIMIT_NOFILE, &before);
    /* 15 ticks; each turn besides is one of a listener. */
    assert_in_range(turns, 1, 15 + 10);
    for (int i = 0; i < 3; i++)
        assert_true(is_hung_up(clients[i]));
    assert_int_equal(stats.connections_refused, 3);

    /* With descriptors again, the server takes connections again. */
    int late = dial();
    say(late);
    run_for(100);
    assert_int_equal(packets, 1);
    assert_int_equal(osc_tcp_links(tcp), 1);
    for (int i = 0; i < 3; i++)
        close(clients[i]);
    close(late);
}

/* Not even the spare descriptor is left. */
static void no_spare_descriptor(void **state)
{
    (void)state;
    open_server();
    int client = dial();
    const struct rlimit before = limit_descriptors(3);
    turns = 0;
    run_for(300);
    setrlimit(RLIMIT_NOFILE, &before);
    assert_in_range(turns, 1, 3 * 15 + 10);
    say(client);
    run_for(100);
    assert_int_equal(packets, 1);
    assert_int_equal(stats.connections_refused, 0);
    close(client);
}

/* Connections that say nothing do not keep a new one out. */
static void idle_connections_hold_no_slot(void **state)
{
    (void)state;
    int clients[OSC_LINKS_MAX];
    open_server();
    for (int i = 0; i < OSC_LINKS_MAX; i++) {
        clients[i] = dial();
        if (i % 8 == 0)
            run_for(TICK_MS);
    }
    run_for(TICK_MS);
    assert_int_equal(osc_tcp_links(tcp), OSC_LINKS_MAX);
    int early = dial(); /* none is idle yet */
    run_for(TICK_MS);
    assert_true(is_hung_up(early));
    assert_int_equal(stats.connections_refused, 1);

    run_for(250);
    say(clients[0]);
    run_for(TICK_MS);
    int late = dial();
    say(late);
    run_for(2 * TICK_MS);
    assert_int_equal(packets, 2);
    assert_false(is_hung_up(clients[0]));
    assert_true(is_hung_up(clients[1])); /* idle longest */
    assert_false(is_hung_up(clients[2]));
    assert_int_equal(stats.closed_idle, 1);
    assert_int_equal(osc_tcp_links(tcp), OSC_LINKS_MAX);
    for (int i = 0; i < OSC_LINKS_MAX; i++)
        close(clients[i]);
    close(early);
    close(late);
}

static struct osc_link *heard;

static void hear(void *context, struct osc_link *link, const struct sockaddr_storage *from,
                 const uint8_t *data, size_t bytes, int64_t receive_ns, int64_t realtime_ns)
{
    take(context, link, from, data, bytes, receive_ns, realtime_ns);
    heard = link;
}

static void idle_connections_end(void **state)
{
    (void)state;
    options.idle_ns = NS_PER_SECOND / 5;
    options.packet = hear;
    open_server();
    int silent = dial(), speaker = dial(), listener = dial();
    say(listener);
    run_for(TICK_MS);
    struct osc_link *subscribed = heard;
    for (int i = 0; i < 6; i++) {
        say(speaker);
        assert_true(osc_link_send(subscribed, (const uint8_t *)"/a\0\0,\0\0", 8));
        run_for(50);
    }
    assert_true(is_hung_up(silent));
    assert_false(is_hung_up(speaker));
    assert_int_equal(osc_tcp_links(tcp), 2);
    assert_int_equal(stats.closed_idle, 1);
    close(silent);
    close(speaker);
    close(listener);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(no_descriptor_left, set_up, tear_down),
        cmocka_unit_test_setup_teardown(no_spare_descriptor, set_up, tear_down),
        cmocka_unit_test_setup_teardown(idle_connections_hold_no_slot, set_up, tear_down),
        cmocka_unit_test_setup_teardown(idle_connections_end, set_up, tear_down),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
