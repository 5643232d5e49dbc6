/* Handover: a source reads on from a socket that was bound before, and nothing in it is lost. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <arpa/inet.h>
#include <cmocka.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include <uv.h>

#include "core/limits.h"
#include "io/net/handover.h"
#include "io/net/receiver.h"
#include "io/net/socket.h"

static struct handover *handover;

static struct address at(const char *text)
{
    struct address address;
    struct problem problem;
    if (address_resolve(text, true, &address, &problem) != 0)
        fail_msg("%s: %s", text, problem.text);
    return address;
}

static int open_at(const char *text, int *fd, struct problem *problem)
{
    const struct socket_receive_options options = {
        .stream = "s", .address = text, .buffer_bytes = 1 << 16, .handover = handover};
    uint64_t granted;
    return socket_open_receive(&options, fd, &granted, NULL, problem);
}

static void send_to(const char *text, const char *word)
{
    struct address to = at(text);
    int fd = socket(AF_INET, SOCK_DGRAM, 0);
    assert_int_equal(sendto(fd, word, strlen(word), 0, (struct sockaddr *)&to.storage, to.bytes),
                     (ssize_t)strlen(word));
    close(fd);
}

static void a_successor_reads_on(void **state)
{
    (void)state;
    int first, second;
    char address[64], got[16] = "";
    struct problem problem;
    assert_int_equal(open_at("127.0.0.1:0", &first, &problem), 0);
    snprintf(address, sizeof address, "127.0.0.1:%u", socket_port(first));
    send_to(address, "before");

    /* Unless a reload is going on, an address in use is in use. */
    assert_int_equal(open_at(address, &second, &problem), ERROR_ADDRESS);
    handover_share(handover, true);
    assert_int_equal(open_at(address, &second, &problem), 0);
    handover_share(handover, false);
    assert_int_not_equal(second, first);
    handover_release(handover, first);
    send_to(address, "after");
    assert_int_equal(recv(second, got, sizeof got, 0), 6);
    assert_memory_equal(got, "before", 6);
    assert_int_equal(recv(second, got, sizeof got, 0), 5);
    assert_memory_equal(got, "after", 5);
    handover_release(handover, second);
    struct address gone = at(address);
    handover_share(handover, true);
    assert_int_equal(handover_take(handover, &gone, 0), -1);
    handover_share(handover, false);
}

/* ---- drops --------------------------------------------------------------------------------- */

struct reader {
    struct receiver *receiver;
    uint64_t datagrams, drops;
};

static void count_datagram(void *context, const struct received *received)
{
    (void)received;
    ((struct reader *)context)->datagrams++;
}

static void count_drops(void *context, uint64_t datagrams)
{
    ((struct reader *)context)->drops += datagrams;
}

static void reader_open(struct reader *reader, int fd)
{
    struct problem problem;
    *reader = (struct reader){.receiver = NULL};
    const struct receiver_options options = {.stream = "s",
                                             .fd = fd,
                                             .handover = handover,
                                             .requested = RECEIVE_RECVMMSG,
                                             .context = reader,
                                             .datagram = count_datagram,
                                             .drops = count_drops};
    assert_int_equal(receiver_open(&options, &reader->receiver, &problem), 0);
}

static uint64_t drops_of(const struct reader *reader)
{
    return reader->drops + receiver_unreported_drops(reader->receiver);
}

/* Sends far more than the socket's buffer holds. */
static uint64_t flood(const char *address)
{
    static char bytes[1000];
    const struct address to = at(address);
    const int fd = socket(AF_INET, SOCK_DGRAM, 0);
    enum { DATAGRAMS = 300 };
    for (int i = 0; i < DATAGRAMS; i++)
        assert_int_equal(
            sendto(fd, bytes, sizeof bytes, 0, (const struct sockaddr *)&to.storage, to.bytes),
            sizeof bytes);
    close(fd);
    return DATAGRAMS;
}

static void turn_loop(uv_loop_t *loop)
{
    for (int i = 0; i < 20; i++)
        uv_run(loop, UV_RUN_NOWAIT);
}

/*
 * A reload: the successor is prepared, the socket drops datagrams before that, between that and the
 * exchange, and after it. Each is counted by one of the two.
 */
static void drops_are_counted_once(void **state)
{
    (void)state;
    uv_loop_t loop;
    uv_loop_init(&loop);
    struct reader old, new;
    struct problem problem;
    int fd;
    char address[64];
    assert_int_equal(open_at("127.0.0.1:0", &fd, &problem), 0);
    snprintf(address, sizeof address, "127.0.0.1:%u", socket_port(fd));
    reader_open(&old, fd);
    assert_int_equal(receiver_start(old.receiver, &loop, &problem), 0);
    uint64_t sent = flood(address);
    turn_loop(&loop);
    sent += flood(address);
    handover_share(handover, true);
    assert_int_equal(open_at(address, &fd, &problem), 0);
    handover_share(handover, false);
    reader_open(&new, fd);
    turn_loop(&loop);
    for (int i = 0; i < 2; i++) { /* a datagram tells what was dropped before it came */
        sent += flood(address);
        turn_loop(&loop);
    }
    sent += flood(address);
    receiver_stop(old.receiver);
    assert_int_equal(receiver_start(new.receiver, &loop, &problem), 0);
    turn_loop(&loop);
    sent += flood(address);
    turn_loop(&loop);
    sent += flood(address);
    const uint64_t drops = drops_of(&old) + drops_of(&new);
    turn_loop(&loop);
    if (old.datagrams + new.datagrams + drops != sent)
        fail_msg("%llu datagrams sent, %llu read, %llu counted as dropped",
                 (unsigned long long)sent, (unsigned long long)(old.datagrams + new.datagrams),
                 (unsigned long long)drops);
    assert_true(old.drops > 0 && new.drops > 0);
    receiver_close(old.receiver, NULL, NULL);
    receiver_stop(new.receiver);
    receiver_close(new.receiver, NULL, NULL);
    uv_run(&loop, UV_RUN_DEFAULT);
    assert_int_equal(uv_loop_close(&loop), 0);
}

/* A socket bound by somebody else, at `host`:0. */
static int bound_before(const char *host, unsigned *port)
{
    struct problem problem;
    char text[64];
    int fd;
    snprintf(text, sizeof text, "%s0", host);
    assert_int_equal(open_at(text, &fd, &problem), 0);
    *port = socket_port(fd);
    const int kept = dup(fd);
    handover_release(handover, fd);
    return kept;
}

static int take(const char *host, unsigned port, unsigned interface)
{
    char text[64];
    snprintf(text, sizeof text, "%s%u", host, port);
    const struct address wanted = at(text);
    return handover_take(handover, &wanted, interface);
}

static void a_unit_passes_sockets(void **state)
{
    (void)state;
    static const struct {
        const char *bound, *wanted;
        bool expect;
    } table[] = {
        {"127.0.0.1:", "127.0.0.1:", true},  {"*:", "*:", true},
        {"*:", "127.0.0.1:", false},         {"127.0.0.1:", "*:", false},
        {"127.0.0.2:", "127.0.0.1:", false},
    };
    enum { ROWS = sizeof table / sizeof *table };
    for (int i = 0; i < ROWS; i++) {
        unsigned port;
        const int systemds = bound_before(table[i].bound, &port);
        assert_true(handover_adopt(handover, systemds, "convolvd.socket"));
        int fd = take(table[i].wanted, port, 0);
        if ((fd >= 0) != table[i].expect)
            fail_msg("row %d: %s taken: %d", i, table[i].wanted, fd >= 0);
        if (fd >= 0) {
            assert_int_equal(socket_port(fd), port);
            handover_release(handover, fd);
            /* systemd's own descriptor stays open: the next one finds it again. */
            fd = take(table[i].wanted, port, 0);
            assert_true(fd >= 0);
            handover_release(handover, fd);
        }
    }
    char name[HANDOVER_NAME];
    assert_int_equal(handover_next(handover, &(uint32_t){0}, name), -1); /* systemd has them */
}

static bool is_open(int fd)
{
    return fcntl(fd, F_GETFD) >= 0;
}

/* The daemon before has left one for a group on interface 3, one that nobody wants and one more. */
static void the_daemon_before_leaves_sockets(void **state)
{
    (void)state;
    unsigned wanted, group, unwanted;
    const int a = bound_before("127.0.0.1:", &wanted), b = bound_before("127.0.0.2:", &group),
              c = bound_before("127.0.0.3:", &unwanted);
    assert_true(handover_adopt(handover, a, "convolvd-socket"));
    assert_true(handover_adopt(handover, b, "convolvd-socket-3"));
    assert_true(handover_adopt(handover, c, "convolvd-socket"));
    assert_int_equal(take("127.0.0.1:", wanted, 0), a); /* itself: no other holds it open */
    assert_int_equal(take("127.0.0.1:", wanted, 0), -1);
    assert_int_equal(take("127.0.0.2:", group, 2), -1);
    assert_int_equal(take("127.0.0.2:", group, 3), b);
    handover_drop_unused(handover);
    assert_false(is_open(c));
    assert_true(is_open(a) && is_open(b));

    /* And the next one gets both, under the same names. */
    char name[HANDOVER_NAME];
    uint32_t at = 0;
    assert_int_equal(handover_next(handover, &at, name), a);
    assert_string_equal(name, "convolvd-socket");
    assert_int_equal(handover_next(handover, &at, name), b);
    assert_string_equal(name, "convolvd-socket-3");
    assert_int_equal(handover_next(handover, &at, name), -1);
    handover_release(handover, a);
    handover_release(handover, b);
    assert_false(is_open(a) || is_open(b));
}

/* ---- addresses that overlap ---------------------------------------------------------------- */

/* Whether a datagram to this host reaches the socket. */
static bool hears(int fd, const char *host, unsigned port)
{
    static char word[] = "a";
    char text[64], got[16];
    snprintf(text, sizeof text, "%s%u", host, port);
    const struct address to = at(text);
    const int from = socket(to.storage.ss_family, SOCK_DGRAM, 0);
    word[0]++;
    assert_int_equal(
        sendto(from, word, sizeof word, 0, (const struct sockaddr *)&to.storage, to.bytes),
        sizeof word);
    close(from);
    bool heard = false;
    while (recv(fd, got, sizeof got, MSG_DONTWAIT) > 0)
        heard = heard || got[0] == word[0];
    return heard;
}

static int open_pending(const char *text, int *fd, struct socket_receive_options *options,
                        struct socket_pending *pending, struct problem *problem)
{
    uint64_t granted;
    *options = (struct socket_receive_options){
        .stream = "s", .address = text, .buffer_bytes = 1 << 16, .handover = handover};
    return socket_open_receive(options, fd, &granted, pending, problem);
}

static const struct {
    const char *before, *after;
    const char *common; /* a host of both */
} overlaps[] = {
    {"127.0.0.1:", "*:", "127.0.0.1:"},
    {"*:", "127.0.0.1:", "127.0.0.1:"},
    {"0.0.0.0:", "*:", "127.0.0.1:"},
    {"*:", "0.0.0.0:", "127.0.0.1:"},
    {"127.0.0.1:", "0.0.0.0:", "127.0.0.1:"},
    {"0.0.0.0:", "127.0.0.1:", "127.0.0.1:"},
    {"[::1]:", "*:", "[::1]:"},
    {"*:", "[::1]:", "[::1]:"},
    {"[::1]:", "[::]:", "[::1]:"},
    {"127.0.0.1:", "[::]:", "127.0.0.1:"},
    {"[::]:", "127.0.0.2:", "127.0.0.2:"},
};

/* A reload: the old source receives until the new one is bound, then one of both, and at last the
 * new one alone. */
static void a_successor_overlaps(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof overlaps / sizeof overlaps[0]; i++) {
        struct socket_receive_options options;
        struct socket_pending pending;
        struct problem problem;
        char text[64];
        int old, new, third;
        snprintf(text, sizeof text, "%s0", overlaps[i].before);
        assert_int_equal(open_at(text, &old, &problem), 0);
        const unsigned port = socket_port(old);
        snprintf(text, sizeof text, "%s%u", overlaps[i].after, port);
        assert_int_equal(open_at(text, &new, &problem), ERROR_ADDRESS); /* no reload goes on */
        handover_share(handover, true);
        assert_int_equal(open_pending(text, &new, &options, &pending, &problem), 0);
        handover_share(handover, false);
        assert_true(pending.pending);
        assert_true(hears(old, overlaps[i].common, port));

        if (socket_bind_pending(new, &options, &pending, &problem) != 0)
            fail_msg("%s after %s: %s", overlaps[i].after, overlaps[i].before, problem.text);
        assert_false(pending.pending);
        assert_int_equal(socket_port(new), port);
        snprintf(text, sizeof text, "%s%u", overlaps[i].common, port);
        assert_int_equal(open_at(text, &third, &problem), ERROR_ADDRESS); /* closed to others */
        assert_true(hears(old, overlaps[i].common, port) != hears(new, overlaps[i].common, port));
        handover_release(handover, old);
        assert_true(hears(new, overlaps[i].common, port));
        handover_release(handover, new);
    }
}

/* Another program has part of the address: nothing changes for the source that runs. */
static void another_program_overlaps(void **state)
{
    (void)state;
    struct socket_receive_options options;
    struct socket_pending pending;
    struct problem problem;
    unsigned port;
    char text[64];
    int old, new;
    const int foreign = bound_before("127.0.0.3:", &port);
    snprintf(text, sizeof text, "127.0.0.1:%u", port);
    assert_int_equal(open_at(text, &old, &problem), 0);
    snprintf(text, sizeof text, "*:%u", port);
    handover_share(handover, true);
    assert_int_equal(open_pending(text, &new, &options, &pending, &problem), 0);
    assert_int_equal(socket_bind_pending(new, &options, &pending, &problem), ERROR_ADDRESS);
    handover_share(handover, false);
    assert_non_null(strstr(problem.text, "in use by another program"));
    handover_release(handover, new);
    assert_true(hears(old, "127.0.0.1:", port));
    snprintf(text, sizeof text, "127.0.0.1:%u", port);
    assert_int_equal(open_at(text, &new, &problem), ERROR_ADDRESS); /* still closed to others */
    handover_release(handover, old);
    close(foreign);
}

/* A restart with another address: the socket of the daemon before is closed once the new one is
 * bound, and stays where it cannot be. */
static void the_daemon_before_overlaps(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof overlaps / sizeof overlaps[0]; i++) {
        for (int foreign = 0; foreign < 2; foreign++) {
            struct problem problem;
            unsigned port;
            char text[64];
            int new, other = -1;
            const int kept = bound_before(overlaps[i].before, &port);
            if (foreign) { /* bound in the way of a program that lets others in */
                const int on = 1;
                other = socket(AF_INET, SOCK_DGRAM, 0);
                const struct sockaddr_in address = {.sin_family = AF_INET,
                                                    .sin_port = htons((uint16_t)port),
                                                    .sin_addr.s_addr = htonl(INADDR_LOOPBACK + 8)};
                setsockopt(kept, SOL_SOCKET, SO_REUSEADDR, &on, sizeof on);
                setsockopt(other, SOL_SOCKET, SO_REUSEADDR, &on, sizeof on);
                if (bind(other, (const struct sockaddr *)&address, sizeof address) != 0)
                    fail_msg("%s", strerror(errno));
                const int off = 0;
                setsockopt(other, SOL_SOCKET, SO_REUSEADDR, &off, sizeof off);
            }
            assert_true(handover_adopt(handover, kept, "convolvd-socket"));
            snprintf(text, sizeof text, "%s%u", overlaps[i].after, port);
            const bool open_to_all = strchr("*0[", overlaps[i].after[0]) != NULL &&
                                     strcmp(overlaps[i].after, "[::1]:") != 0;
            const int error = open_at(text, &new, &problem);
            assert_int_equal(error, foreign && open_to_all ? ERROR_ADDRESS : 0);
            assert_int_equal(is_open(kept), error != 0);
            if (error == 0) {
                assert_true(hears(new, overlaps[i].common, port));
                handover_release(handover, new);
            } else {
                handover_drop_unused(handover);
            }
            if (other >= 0)
                close(other);
        }
    }
}

/* Whatever stands under a name of ours. */
static void what_is_no_bound_udp_socket_is_refused(void **state)
{
    (void)state;
    int pair[2];
    assert_int_equal(socketpair(AF_UNIX, SOCK_DGRAM, 0, pair), 0);
    const int others[] = {
        pair[0],
        pair[1],
        socket(AF_INET, SOCK_STREAM, 0),
        memfd_create("state", 0),
        open("/dev/null", O_RDONLY),
        -1,
    };
    for (size_t i = 0; i < sizeof others / sizeof *others; i++) {
        assert_false(handover_adopt(handover, others[i], "convolvd-socket"));
        close(others[i]);
    }
    static const struct {
        const char *name;
        bool kept;
    } names[] = {{"convolvd-socket", true},  {"convolvd-socket-12", true},
                 {"convolvd-socket-", true}, {"convolvd-sockets", false},
                 {"convolvd.socket", false}, {"", false},
                 {"convolvd-state", false}};
    for (size_t i = 0; i < sizeof names / sizeof *names; i++)
        assert_int_equal(handover_kept(names[i].name), names[i].kept);
}

/* As many as the most streams there can be, twice. */
static void there_is_no_limit_of_its_own(void **state)
{
    (void)state;
    enum { SOCKETS = 2 * STREAMS_MAX };
    for (int fd = 0; fd < SOCKETS; fd++)
        handover_register(handover, 100000 + fd);
    uint32_t at = 0, count = 0;
    char name[HANDOVER_NAME];
    while (handover_next(handover, &at, name) >= 0)
        count++;
    assert_int_equal(count, SOCKETS);
    for (int fd = SOCKETS; fd-- > 0;)
        handover_release(handover, 100000 + fd);
    assert_int_equal(handover_next(handover, &(uint32_t){0}, name), -1);
}

static void without_a_table_sockets_are_not_shared(void **state)
{
    (void)state;
    struct address address = at("127.0.0.1:5004");
    int fd;
    assert_int_equal(handover_take(NULL, &address, 0), -1);
    struct problem problem;
    struct handover *kept = handover;
    handover = NULL;
    assert_int_equal(open_at("127.0.0.1:0", &fd, &problem), 0);
    handover = kept;
    handover_share(NULL, true);
    assert_int_equal(handover_drops_before(NULL, fd), 0);
    handover_release(NULL, fd);
    assert_int_equal(close(fd), -1);
}

static int open_table(void **state)
{
    (void)state;
    return handover_open(&handover, NULL);
}

static int close_table(void **state)
{
    (void)state;
    handover_close(handover);
    return 0;
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_successor_reads_on),
        cmocka_unit_test(drops_are_counted_once),
        cmocka_unit_test(the_daemon_before_leaves_sockets),
        cmocka_unit_test(a_successor_overlaps),
        cmocka_unit_test(another_program_overlaps),
        cmocka_unit_test(the_daemon_before_overlaps),
        cmocka_unit_test(what_is_no_bound_udp_socket_is_refused),
        cmocka_unit_test(there_is_no_limit_of_its_own),
        cmocka_unit_test(a_unit_passes_sockets),
        cmocka_unit_test(without_a_table_sockets_are_not_shared),
    };
    return cmocka_run_group_tests_name("handover", tests, open_table, close_table);
}
