/*
 * The network sources on real sockets of the loopback interface, with a uv loop and a host
 * that remembers: unicast and multicast, IPv4 and IPv6; receive times against the clock read
 * before and after sending; drops of the socket against what was sent; the cap on the work of
 * one wake-up; a step of the wall clock.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <ifaddrs.h>
#include <net/if.h>
#include <netinet/in.h>
#include <unistd.h>

#include <cmocka.h>

#include "core/clock.h"
#include "core/log.h"
#include "wire/rtp.h"
#include "io/net/network_options.h"
#include "io/net/socket.h"
#include "io/sources.h"

enum { FRAME_BYTES = 4, FRAMES = 25, PUTS = 100000 };

struct put {
    uint64_t place;
    uint32_t frames, first_word;
    int64_t receive_ns, receive_realtime_ns;
};

struct fixture {
    uv_loop_t loop;
    const struct source_ops *ops;
    struct source *source;
    int fd; /* of the sender */
    uint64_t drops;
    int count;
    struct put *puts;
    bool closed;
    uint64_t datagrams; /* that it read in its life */
};

/* Of the fixtures opened from now on; NULL: none. */
static int64_t (*may_read_ns)(void *context);
static void (*has_read)(void *context, int64_t ns);
/* Called for each datagram. */
static void (*each)(void);

static enum verdict fixture_put(void *context, const struct packet *packet)
{
    struct fixture *f = context;
    if (each != NULL)
        each();
    assert_true(f->count < PUTS);
    struct put *put = &f->puts[f->count++];
    *put = (struct put){packet->first_frame, packet->frames, 0, packet->receive_ns,
                        packet->receive_realtime_ns};
    memcpy(&put->first_word, packet->payload, 4);
    return VERDICT_ACCEPTED;
}

static void fixture_drops(void *context, uint64_t datagrams)
{
    ((struct fixture *)context)->drops += datagrams;
}

static void fixture_closed(void *context)
{
    struct fixture *f = context;
    struct source_ledger ledger;
    f->ops->ledger(f->source, &ledger); /* still answers */
    assert_int_equal(ledger.held, 0);
    f->datagrams = ledger.datagrams;
    f->closed = true;
}

static uint64_t (*room)(void *context); /* of the host; NULL: it has none */
static struct option_values allow;      /* of the source */
static uint64_t packet_limit;           /* of the source; 0: none */

static bool open_source(struct fixture *f, const char *type, const char *address,
                        const char *interface, uint64_t buffer_bytes, uint32_t work)
{
    memset(f, 0, sizeof *f);
    f->fd = -1;
    f->puts = calloc(PUTS, sizeof *f->puts);
    f->ops = source_find(type);
    assert_non_null(f->ops);
    assert_int_equal(uv_loop_init(&f->loop), 0);
    static struct network_options own;
    own = (struct network_options){.ingest = {.allow = allow,
                                              .packet_limit = packet_limit,
                                              .payload_type = 96,
                                              .takeover_ns = NS_PER_SECOND,
                                              .max_dropout_ns = NS_PER_SECOND,
                                              .max_misorder_ns = 10 * NS_PER_MS},
                                   .address = address,
                                   .interface = interface,
                                   .receive_buffer_bytes = buffer_bytes,
                                   .work_per_wake = work};
    struct source_options options = {.stream = "test",
                                     .rate_hz = 1e6,
                                     .channels = 2,
                                     .frame_bytes = FRAME_BYTES,
                                     .reorder_ns = 10 * NS_PER_MS,
                                     .max_gap_ns = NS_PER_SECOND,
                                     .own = &own};
    struct source_host host = {.context = f,
                               .put = fixture_put,
                               .room = room,
                               .socket_drops = fixture_drops,
                               .may_read_ns = may_read_ns,
                               .has_read = has_read};
    struct problem problem;
    if (f->ops->open(&options, &(struct io_environment){.loop = &f->loop}, &host, &f->source,
                     &problem) != 0) {
        print_message("%s: %s\n", address, problem.text);
        free(f->puts);
        uv_loop_close(&f->loop);
        return false;
    }
    assert_int_equal(f->ops->start(f->source, &problem), 0);
    return true;
}

static void open_sender(struct fixture *f, const char *host, const char *interface)
{
    char address[64];
    struct address to;
    struct problem problem;
    snprintf(address, sizeof address, "%s:%u", host, f->ops->port(f->source));
    struct socket_send_options options = {
        .sink = "sender", .address = address, .interface = interface};
    if (socket_open_send(&options, &f->fd, &to, &problem) != 0)
        fail_msg("%s", problem.text);
}

static void close_fixture(struct fixture *f)
{
    f->ops->stop(f->source);
    struct source_ledger ledger;
    f->ops->ledger(f->source, &ledger);
    uint64_t rejected = 0;
    for (int i = 0; i < REJECTS; i++)
        rejected += ledger.rejected[i];
    assert_int_equal(ledger.datagrams, ledger.accepted + rejected + ledger.held);
    f->ops->close(f->source, fixture_closed, f);
    uv_run(&f->loop, UV_RUN_DEFAULT);
    assert_true(f->closed);
    assert_int_equal(uv_loop_close(&f->loop), 0);
    close(f->fd);
    free(f->puts);
}

static void send_packet(const struct fixture *f, uint32_t number)
{
    uint8_t out[8 + RTP_HEADER_BYTES + FRAMES * FRAME_BYTES];
    size_t used = 0;
    if (strcmp(f->ops->name, "rtp") == 0)
        used = rtp_build(out,
                         &(struct rtp_header){.payload_type = 96,
                                              .sequence = (uint16_t)(number + 65530),
                                              .timestamp = number * FRAMES,
                                              .ssrc = 99},
                         NULL);
    if (strcmp(f->ops->name, "udp-seq") == 0) {
        uint64_t sequence = number;
        memcpy(out, &sequence, 8); /* this machine's order is little, as is the default */
        used = 8;
    }
    memset(out + used, 0, FRAMES * FRAME_BYTES);
    memcpy(out + used, &number, 4);
    assert_int_equal(send(f->fd, out, used + FRAMES * FRAME_BYTES, 0),
                     (ssize_t)used + FRAMES * FRAME_BYTES);
}

static void run_until(struct fixture *f, int count)
{
    int64_t until_ns = clock_monotonic_ns() + 2 * NS_PER_SECOND;
    while (f->count < count && clock_monotonic_ns() < until_ns)
        uv_run(&f->loop, UV_RUN_NOWAIT);
}

/* IPv6 has no multicast on the loopback interface: the first other one that can. */
static void find_multicast_interface(char name[IF_NAMESIZE])
{
    struct ifaddrs *all;
    const unsigned wanted = IFF_UP | IFF_MULTICAST;
    if (getifaddrs(&all) != 0)
        return;
    for (struct ifaddrs *one = all; one != NULL && name[0] == 0; one = one->ifa_next) {
        if (one->ifa_addr != NULL && one->ifa_addr->sa_family == AF_INET6 &&
            (one->ifa_flags & (wanted | IFF_LOOPBACK)) == wanted)
            snprintf(name, IF_NAMESIZE, "%s", one->ifa_name);
    }
    freeifaddrs(all);
}

static void test_every_way(void **state)
{
    (void)state;
    static char other[IF_NAMESIZE];
    find_multicast_interface(other);
    static const struct {
        const char *type, *bind, *send, *interface;
        bool needs_v6;
    } ways[] = {
        {"rtp", "127.0.0.1:0", "127.0.0.1", NULL, false},
        {"rtp", "[::1]:0", "[::1]", NULL, true},
        {"rtp", "239.255.77.7:0", "239.255.77.7", "lo", false},
        {"rtp", "239.255.77.8:0", "239.255.77.8", "127.0.0.1", false},
        {"rtp", "[ff15::77:7]:0", "[ff15::77:7]", other, true},
        {"rtp", "[ff02::77:8]:0", "[ff02::77:8]", other, true},
        {"rtp", "*:0", "127.0.0.1", NULL, false},
        {"rtp", "*:0", "[::1]", NULL, true},
        {"udp", "127.0.0.1:0", "127.0.0.1", NULL, false},
        {"udp-seq", "127.0.0.1:0", "127.0.0.1", NULL, false},
    };
    struct fixture probe;
    bool has_v6 = open_source(&probe, "rtp", "[::1]:0", NULL, 65536, 0);
    if (has_v6)
        close_fixture(&probe);
    for (size_t i = 0; i < sizeof ways / sizeof ways[0]; i++) {
        if ((ways[i].needs_v6 && !has_v6) || (ways[i].interface == other && other[0] == 0)) {
            print_message("%s is not tested: no IPv6 or no interface for it\n", ways[i].bind);
            continue;
        }
        struct fixture f;
        if (!open_source(&f, ways[i].type, ways[i].bind, ways[i].interface, 1 << 20, 0))
            fail_msg("%s over %s did not open", ways[i].type, ways[i].bind);
        open_sender(&f, ways[i].send, ways[i].interface);
        int64_t before_ns = clock_monotonic_ns(), before_realtime_ns = clock_realtime_ns();
        for (uint32_t number = 0; number < 100; number++)
            send_packet(&f, number);
        int64_t sent_ns = clock_monotonic_ns();
        run_until(&f, 100);
        if (f.count != 100)
            fail_msg("%s over %s: %d of 100 came", ways[i].type, ways[i].bind, f.count);
        for (int j = 0; j < 100; j++) {
            const struct put *put = &f.puts[j];
            assert_int_equal(put->first_word, j);
            assert_int_equal(put->frames, FRAMES);
            assert_int_equal(put->place, f.puts[0].place + (uint64_t)j * FRAMES);
            assert_true(j == 0 || put->receive_ns >= f.puts[j - 1].receive_ns);
            /* The clocks are read one after the other: allow for that, and no more. */
            assert_in_range(put->receive_ns, before_ns - 100000, sent_ns + 100000);
            assert_in_range(put->receive_realtime_ns, before_realtime_ns - 100000,
                            before_realtime_ns + (sent_ns - before_ns) + 10 * NS_PER_MS);
        }
        struct source_ledger ledger;
        f.ops->ledger(f.source, &ledger);
        assert_int_equal(ledger.datagrams, 100);
        assert_int_equal(ledger.accepted, 100);
        assert_int_equal(ledger.kernel_drops, 0);
        assert_true(ledger.buffer_bytes >= 1 << 17);
        assert_int_equal(ledger.ssrc, strcmp(ways[i].type, "rtp") == 0 ? 99 : 0);
        close_fixture(&f);
    }
}

/* The kernel's count of drops and what was read are together what was sent, also before a later
 * datagram tells of the drops; the stream learns of them with that one. */
/* Senders are told apart by the address that the kernel reports. */
static void test_senders_not_allowed(void **state)
{
    (void)state;
    static const struct option_value words[] = {{.text = "10.0.0.0/8"}, {.text = "127.0.0.2"}};
    allow = (struct option_values){words, 2};
    static const char *const types[] = {"rtp", "udp", "udp-seq"};
    for (int i = 0; i < 3; i++) {
        struct fixture f;
        struct source_ledger ledger;
        assert_true(open_source(&f, types[i], "127.0.0.1:0", NULL, 1 << 20, 0));
        open_sender(&f, "127.0.0.1", NULL); /* sends from 127.0.0.1 */
        for (uint32_t number = 0; number < 5; number++)
            send_packet(&f, number);
        close(f.fd);
        struct sockaddr_in from = {.sin_family = AF_INET}, to = from;
        from.sin_addr.s_addr = htonl(INADDR_LOOPBACK + 1);
        to.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
        to.sin_port = htons(f.ops->port(f.source));
        f.fd = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);
        assert_int_equal(bind(f.fd, (struct sockaddr *)&from, sizeof from), 0);
        assert_int_equal(connect(f.fd, (struct sockaddr *)&to, sizeof to), 0);
        for (uint32_t number = 0; number < 10; number++)
            send_packet(&f, number);
        run_until(&f, 10);
        f.ops->ledger(f.source, &ledger);
        assert_int_equal(ledger.accepted, 10);
        assert_int_equal(ledger.rejected[REJECT_NOT_ALLOWED], 5);
        close_fixture(&f);
    }
    allow.count = 0;
}

/* A burst of one address is cut to a tenth of a second's worth, and counted. */
static void test_packet_limit(void **state)
{
    (void)state;
    struct fixture f;
    struct source_ledger ledger;
    enum { LIMIT = 100, SENT = 400 };
    packet_limit = LIMIT;
    assert_true(open_source(&f, "rtp", "127.0.0.1:0", NULL, 1 << 20, 0));
    packet_limit = 0;
    open_sender(&f, "127.0.0.1", NULL);
    int64_t begun_ns = clock_monotonic_ns();
    for (uint32_t number = 0; number < SENT; number++)
        send_packet(&f, number);
    do {
        uv_run(&f.loop, UV_RUN_NOWAIT);
        f.ops->ledger(f.source, &ledger);
    } while (ledger.datagrams < SENT && clock_monotonic_ns() < begun_ns + 2 * NS_PER_SECOND);
    uint64_t most =
        LIMIT / 10 + 2 + (uint64_t)(clock_monotonic_ns() - begun_ns) * LIMIT / 1000000000;
    assert_int_equal(ledger.datagrams, SENT);
    assert_in_range(ledger.accepted + ledger.held, LIMIT / 10, most);
    assert_int_equal(ledger.rejected[REJECT_RATE], SENT - ledger.accepted - ledger.held);
    close_fixture(&f);
}

static void test_drops_are_counted(void **state)
{
    (void)state;
    struct fixture f;
    assert_true(open_source(&f, "rtp", "127.0.0.1:0", NULL, 16384, 0));
    open_sender(&f, "127.0.0.1", NULL);
    struct source_ledger ledger = {0};
    uint32_t number = 0;
    for (int flood = 0; flood < 2; flood++) {
        uint64_t told = ledger.kernel_drops;
        for (int i = 0; i < 5000; i++)
            send_packet(&f, number++);
        for (int i = 0; i < 20; i++)
            uv_run(&f.loop, UV_RUN_NOWAIT);
        f.ops->ledger(f.source, &ledger);
        assert_true(ledger.kernel_drops > told + 1000);
        assert_int_equal(ledger.datagrams + ledger.kernel_drops, number);
        assert_int_equal(f.drops, told);
        for (int i = 0; i < 10; i++)
            send_packet(&f, number++);
        for (int i = 0; i < 20; i++)
            uv_run(&f.loop, UV_RUN_NOWAIT);
        f.ops->ledger(f.source, &ledger);
        assert_int_equal(ledger.datagrams + ledger.kernel_drops, number);
        assert_int_equal(f.drops, ledger.kernel_drops);
    }
    close_fixture(&f);
}

static void test_work_per_wake(void **state)
{
    (void)state;
    struct fixture f;
    assert_true(open_source(&f, "udp", "127.0.0.1:0", NULL, 1 << 20, 70));
    open_sender(&f, "127.0.0.1", NULL);
    for (uint32_t number = 0; number < 200; number++)
        send_packet(&f, number);
    static const int after[] = {70, 140, 200};
    for (int i = 0; i < 3; i++) {
        uv_run(&f.loop, UV_RUN_NOWAIT);
        assert_int_equal(f.count, after[i]);
    }
    close_fixture(&f);
}

/* ---- time for others ---------------------------------------------------------------------- */

/* Each datagram takes 10 us; the clock stands still otherwise. */
static int64_t busy_ns, granted_ns, said_ns;

static int64_t busy_monotonic_ns(void)
{
    return NS_PER_SECOND + busy_ns;
}

static int64_t busy_realtime_ns(void)
{
    return 1700000000 * NS_PER_SECOND + busy_ns;
}

static void busy_with_it(void)
{
    busy_ns += 10 * NS_PER_US;
}

static int64_t grant_ns(void *context)
{
    (void)context;
    return granted_ns;
}

static void say_ns(void *context, int64_t ns)
{
    (void)context;
    said_ns += ns;
}

/* Where streams of higher priority wait, a wake-up ends when its time is over, but reads some. */
static void test_time_per_wake(void **state)
{
    (void)state;
    static const struct clock_functions functions = {busy_monotonic_ns, busy_realtime_ns};
    static const struct {
        int64_t granted_ns;
        int expect;
    } rows[] = {{INT64_MAX, 200}, {400 * NS_PER_US, 48}, {160 * NS_PER_US, 16}, {0, 16}};
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        struct fixture f;
        may_read_ns = grant_ns;
        has_read = say_ns;
        each = busy_with_it;
        granted_ns = rows[i].granted_ns;
        said_ns = 0;
        assert_true(open_source(&f, "udp", "127.0.0.1:0", NULL, 1 << 20, 0));
        open_sender(&f, "127.0.0.1", NULL);
        for (uint32_t number = 0; number < 200; number++)
            send_packet(&f, number);
        clock_replace(&functions);
        uv_run(&f.loop, UV_RUN_NOWAIT);
        clock_replace(NULL);
        assert_int_equal(f.count, rows[i].expect);
        assert_int_equal(said_ns, granted_ns == INT64_MAX ? 0 : f.count * 10 * NS_PER_US);
        may_read_ns = NULL;
        has_read = NULL;
        each = NULL;
        close_fixture(&f);
    }
}

/* What the kernel has when the source is stopped is read, while there is room for it. */
static uint64_t room_for_1000(void *context)
{
    struct fixture *f = context;
    return f->count < 1000 ? (uint64_t)(1000 - f->count) * FRAMES : 0;
}

static void test_stop_reads_what_is_there(void **state)
{
    (void)state;
    for (int limited = 0; limited < 2; limited++) {
        struct fixture f;
        room = limited ? room_for_1000 : NULL;
        assert_true(open_source(&f, "rtp", "127.0.0.1:0", NULL, 16 << 20, 0));
        open_sender(&f, "127.0.0.1", NULL);
        for (uint32_t number = 0; number < 3000; number++)
            send_packet(&f, number);
        f.ops->stop(f.source);
        assert_int_equal(f.count, limited ? 1000 : 3000);
        send_packet(&f, 3000);
        int count = f.count;
        for (int i = 0; i < 3; i++)
            uv_run(&f.loop, UV_RUN_NOWAIT);
        assert_int_equal(f.count, count);
        close_fixture(&f);
        room = NULL;
    }
}

/* ---- the wall clock is set --------------------------------------------------------------- */

static int64_t step_ns;

static int64_t system_ns(clockid_t clock)
{
    struct timespec time;
    clock_gettime(clock, &time);
    return (int64_t)time.tv_sec * NS_PER_SECOND + time.tv_nsec;
}

static int64_t true_monotonic_ns(void)
{
    return system_ns(CLOCK_MONOTONIC);
}

static int64_t stepped_realtime_ns(void)
{
    return system_ns(CLOCK_REALTIME) + step_ns;
}

static void test_wall_clock_steps(void **state)
{
    (void)state;
    static const int64_t steps_ns[] = {-10 * NS_PER_SECOND, 10 * NS_PER_SECOND,
                                       3600 * NS_PER_SECOND, -200 * NS_PER_MS};
    static const struct clock_functions clocks = {true_monotonic_ns, stepped_realtime_ns};
    clock_replace(&clocks);
    for (size_t i = 0; i < sizeof steps_ns / sizeof steps_ns[0]; i++) {
        struct fixture f;
        step_ns = 0;
        assert_true(open_source(&f, "udp", "127.0.0.1:0", NULL, 1 << 20, 0));
        open_sender(&f, "127.0.0.1", NULL);
        send_packet(&f, 0);
        run_until(&f, 1);
        usleep(1000);
        /* Stamped by the kernel before the clock is set, read after it. */
        int64_t before_ns = true_monotonic_ns();
        send_packet(&f, 1);
        int64_t sent_ns = true_monotonic_ns();
        step_ns = steps_ns[i];
        usleep(30000); /* so that the time of reading would be seen */
        run_until(&f, 2);
        if (f.puts[1].receive_ns < before_ns - 100000 ||
            f.puts[1].receive_ns > sent_ns + 10 * NS_PER_MS)
            fail_msg("a step of %lld ns moved a receive time by %lld ns", (long long)step_ns,
                     (long long)(f.puts[1].receive_ns - before_ns));
        struct source_ledger ledger;
        f.ops->ledger(f.source, &ledger);
        assert_int_equal(ledger.clock_steps, 1);
        close_fixture(&f);
    }
    clock_replace(NULL);
}

/* A source that never started, as of a refused reload, leaves what waits in its socket to the
 * source that reads the same socket. */
static void test_close_without_start(void **state)
{
    (void)state;
    for (int armed = 0; armed <= 1; armed++) {
        struct fixture f = {0};
        f.ops = source_find("rtp");
        f.puts = calloc(PUTS, sizeof *f.puts);
        assert_int_equal(uv_loop_init(&f.loop), 0);
        static struct network_options own;
        own = (struct network_options){.ingest = {.payload_type = 96},
                                       .address = "127.0.0.1:0",
                                       .receive_buffer_bytes = 65536};
        struct source_options options = {
            .stream = "test", .rate_hz = 1e6, .frame_bytes = 4, .own = &own};
        struct source_host host = {
            .context = &f, .put = fixture_put, .socket_drops = fixture_drops};
        struct problem problem;
        assert_int_equal(f.ops->open(&options, &(struct io_environment){.loop = &f.loop}, &host,
                                     &f.source, &problem),
                         0);
        if (armed == 1)
            assert_int_equal(f.ops->arm(f.source, &problem), 0);
        open_sender(&f, "127.0.0.1", NULL);
        for (uint32_t i = 0; i < 5; i++)
            send_packet(&f, i);
        f.ops->close(f.source, fixture_closed, &f);
        assert_false(f.closed);
        uv_run(&f.loop, UV_RUN_DEFAULT);
        assert_true(f.closed);
        assert_int_equal(f.datagrams, 0);
        assert_int_equal(uv_loop_close(&f.loop), 0);
        close(f.fd);
        free(f.puts);
    }
}

int main(void)
{
    log_set_level(LOG_LEVEL_ERROR);
    /* The kernel begins to stamp a little after the first socket asked for it: one stays open. */
    int stamped = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0), on = 1;
    setsockopt(stamped, SOL_SOCKET, SO_TIMESTAMPNS, &on, sizeof on);
    usleep(50000);
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_every_way),
        cmocka_unit_test(test_drops_are_counted),
        cmocka_unit_test(test_senders_not_allowed),
        cmocka_unit_test(test_packet_limit),
        cmocka_unit_test(test_work_per_wake),
        cmocka_unit_test(test_time_per_wake),
        cmocka_unit_test(test_stop_reads_what_is_there),
        cmocka_unit_test(test_wall_clock_steps),
        cmocka_unit_test(test_close_without_start),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
