/*
 * Sources and the interfaces they depend on, in a network namespace of the test's own with pairs of
 * virtual Ethernet interfaces that come, lose their link, go and come back. Multicast datagrams are
 * sent out of an interface and looped back as received on it.
 *
 * takes: 0 s CPU in 11 s
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include <sched.h>
#include <sys/socket.h>
#include <unistd.h>

#include "core/clock.h"
#include "core/log.h"
#include "io/net/attachment.h"
#include "io/net/handover.h"
#include "io/net/network_options.h"
#include "io/net/socket.h"
#include "io/sources.h"
#include "tests/support/network_seams.h"

enum { FRAME_BYTES = 4, FRAMES = 10, PATIENCE_MS = 5000 };

static void shell(const char *command)
{
    if (system(command) != 0)
        fail_msg("failed: %s", command);
}

static void make_interface(const char *name, int number)
{
    char command[400];
    snprintf(command, sizeof command,
             "ip link del %s 2>/dev/null; ip link add %s type veth peer name %sp && "
             "ip addr add 10.77.%d.1/24 dev %s && ip addr add fd77:%d::1/64 dev %s nodad && "
             "ip link set %sp up && ip link set %s up",
             name, name, name, number, name, number, name, name, name);
    shell(command);
}

/* As long as an address is awaited, as from DHCP. */
static void make_interface_without_address(const char *name)
{
    char command[200];
    snprintf(command, sizeof command,
             "ip link add %s type veth peer name %sp && ip link set %sp up && ip link set %s up",
             name, name, name, name);
    shell(command);
}

/* Skips where namespaces or such interfaces cannot be made. */
static int enter_namespace(void **state)
{
    (void)state;
    if (unshare(CLONE_NEWNET) != 0 && unshare(CLONE_NEWUSER | CLONE_NEWNET) != 0) {
        print_message("# SKIP no network namespace can be made here\n");
        _exit(77);
    }
    if (system("ip link set lo up && ip link add test0 type veth peer name test1 && "
               "ip link del test0") != 0) {
        print_message("# SKIP no virtual Ethernet interfaces can be made here\n");
        _exit(77);
    }
    return 0;
}

/* Sends datagrams with these and the following numbers out of an interface. */
static void send_out(const char *interface, const char *to, uint64_t number, int datagrams)
{
    const struct socket_send_options options = {
        .sink = "test", .address = to, .interface = interface};
    struct address address;
    struct problem problem;
    uint8_t datagram[8 + FRAMES * FRAME_BYTES] = {0};
    int fd;
    if (socket_open_send(&options, &fd, &address, &problem) != 0)
        fail_msg("%s", problem.text);
    for (int i = 0; i < datagrams; i++, number++) {
        memcpy(datagram, &number, sizeof number);
        assert_int_equal(send(fd, datagram, sizeof datagram, 0), sizeof datagram);
    }
    close(fd);
}

/* ---- a source ---------------------------------------------------------------------------- */

struct fixture {
    uv_loop_t loop;
    const struct source_ops *ops;
    struct network_options own;
    struct source *source;
    uint64_t frames;
    bool closed;
};

static enum verdict count(void *context, const struct packet *packet)
{
    struct fixture *f = context;
    f->frames += packet->frames;
    return VERDICT_ACCEPTED;
}

static void ignore_drops(void *context, uint64_t datagrams)
{
    (void)context;
    (void)datagrams;
}

static void note_closed(void *context)
{
    ((struct fixture *)context)->closed = true;
}

static int open_source(struct fixture *f, const char *address, const char *interface,
                       struct problem *problem)
{
    *f = (struct fixture){.ops = source_find("udp-seq")};
    assert_int_equal(uv_loop_init(&f->loop), 0);
    f->own = (struct network_options){.ingest = {.takeover_ns = NS_PER_MS,
                                                 .max_dropout_ns = NS_PER_SECOND,
                                                 .max_misorder_ns = 10 * NS_PER_MS,
                                                 .interface = interface},
                                      .address = address,
                                      .interface = interface,
                                      .receive_buffer_bytes = 65536};
    const struct source_options options = {.stream = "test",
                                           .rate_hz = 1e6,
                                           .channels = 2,
                                           .frame_bytes = FRAME_BYTES,
                                           .reorder_ns = 10 * NS_PER_MS,
                                           .max_gap_ns = NS_PER_SECOND,
                                           .own = &f->own};
    const struct source_host host = {.context = f, .put = count, .socket_drops = ignore_drops};
    int error = f->ops->open(&options, &(struct io_environment){.loop = &f->loop}, &host,
                             &f->source, problem);
    if (error == 0)
        assert_int_equal(f->ops->start(f->source, problem), 0);
    else
        uv_loop_close(&f->loop);
    return error;
}

static struct attachment_figures figures_of(const struct fixture *f)
{
    struct attachment_figures figures;
    f->ops->read_status(f->source, &figures);
    return figures;
}

static void close_source(struct fixture *f)
{
    f->ops->close(f->source, note_closed, f);
    uv_run(&f->loop, UV_RUN_DEFAULT);
    assert_true(f->closed);
    assert_int_equal(uv_loop_close(&f->loop), 0);
}

/* Runs the loop until the attachment is in this state; returns how long that took in ms. */
static int64_t await_state(struct fixture *f, enum attachment_state state)
{
    int64_t begin_ns = clock_monotonic_ns();
    while (figures_of(f).state != state) {
        uv_run(&f->loop, UV_RUN_NOWAIT);
        usleep(1000);
        if (clock_monotonic_ns() - begin_ns > PATIENCE_MS * NS_PER_MS)
            fail_msg("%s, not %s", attachment_state_name(figures_of(f).state),
                     attachment_state_name(state));
    }
    return (clock_monotonic_ns() - begin_ns) / NS_PER_MS;
}

/* Whether datagrams out of the interface arrive: a busy machine, or one whose new interface is not
 * ready to send at once, needs more than the first three. */
static bool arrives(struct fixture *f, const char *interface, const char *to)
{
    static uint64_t number = 1;
    uint64_t before = f->frames;
    int64_t begin_ns = clock_monotonic_ns();
    while (f->frames == before && clock_monotonic_ns() - begin_ns < PATIENCE_MS * NS_PER_MS) {
        usleep(2000); /* takeover */
        number += 1000000;
        send_out(interface, to, number, 3);
        for (int i = 0; i < 50 && f->frames == before; i++) {
            uv_run(&f->loop, UV_RUN_NOWAIT);
            usleep(1000);
        }
    }
    return f->frames > before;
}

/* ---- tests ------------------------------------------------------------------------------- */

static const struct {
    const char *group, *interface;
} removed[] = {
    {"239.77.1.1:47001", "mc0"},       /* by name */
    {"239.77.1.1:47001", "10.77.1.1"}, /* by address */
    {"239.77.1.1:47001", NULL},        /* by the kernel's choice */
    {"[ff15::77]:47001", "mc0"},       /* IPv6 */
};

static void a_group_outlives_its_interface(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof removed / sizeof removed[0]; i++) {
        struct fixture f;
        struct problem problem;
        make_interface("mc0", 1);
        shell("ip route add 239.0.0.0/8 dev mc0");
        if (open_source(&f, removed[i].group, removed[i].interface, &problem) != 0)
            fail_msg("%s", problem.text);
        assert_true(arrives(&f, "mc0", removed[i].group));
        for (int round = 0; round < 2; round++) {
            shell("ip link del mc0");
            await_state(&f, ATTACHMENT_GONE);
            make_interface("mc0", 1);
            shell("ip route add 239.0.0.0/8 dev mc0");
            await_state(&f, ATTACHMENT_UP);
            if (!arrives(&f, "mc0", removed[i].group))
                fail_msg("row %zu: nothing arrives after the interface was made anew", i);
        }
        struct attachment_figures figures = figures_of(&f);
        assert_int_equal(figures.removals, 2);
        assert_int_equal(figures.joins, 2);
        close_source(&f);
        shell("ip link del mc0");
    }
}

static void a_link_down_is_counted(void **state)
{
    (void)state;
    struct fixture f;
    struct problem problem;
    make_interface("mc0", 1);
    assert_int_equal(open_source(&f, "239.77.1.1:47001", "mc0", &problem), 0);
    shell("ip link set mc0p down");
    await_state(&f, ATTACHMENT_DOWN);
    shell("ip link set mc0p up");
    await_state(&f, ATTACHMENT_UP);
    struct driver_fault faults[DRIVER_FAULTS_MAX];
    struct attachment_figures figures = figures_of(&f);
    assert_int_equal(f.ops->status->faults(&figures, faults), 2);
    assert_string_equal(faults[0].name, "link down");
    assert_int_equal(faults[0].count, 1);
    assert_int_equal(figures.removals, 0);
    close_source(&f);
    shell("ip link del mc0");
}

static void a_late_interface_is_awaited(void **state)
{
    (void)state;
    static const struct {
        const char *address, *interface, *send_to;
    } late[] = {
        {"239.77.1.1:47001", "mc0", "239.77.1.1:47001"},
        {"239.77.1.1:47001", NULL, "239.77.1.1:47001"},
        {"10.77.1.1:47001", NULL, "10.77.1.1:47001"},
    };
    for (size_t i = 0; i < sizeof late / sizeof late[0]; i++) {
        struct fixture f;
        struct problem problem;
        if (open_source(&f, late[i].address, late[i].interface, &problem) != 0)
            fail_msg("row %zu: %s", i, problem.text);
        struct attachment_figures figures = figures_of(&f);
        assert_int_equal(figures.state, ATTACHMENT_WAITING);
        assert_true(strlen(figures.problem) > 20);
        make_interface("mc0", 1);
        shell("ip route add 239.0.0.0/8 dev mc0");
        await_state(&f, ATTACHMENT_UP);
        if (!arrives(&f, late[i].interface, late[i].send_to))
            fail_msg("row %zu: nothing arrives", i);
        close_source(&f);
        shell("ip link del mc0");
    }
    /* Closed while it waits. */
    struct fixture f;
    struct problem problem;
    assert_int_equal(open_source(&f, "239.77.1.1:47001", "mc0", &problem), 0);
    close_source(&f);
    /* What no interface will mend fails at once. */
    assert_int_equal(open_source(&f, "300.0.0.1:47001", NULL, &problem), ERROR_ADDRESS);
}

static void remove_interface(void)
{
    shell("ip link del mc0");
}

static void an_interface_goes_while_its_group_is_joined(void **state)
{
    (void)state;
    struct fixture f;
    struct problem problem;
    make_interface("mc0", 1);
    network_seams.interface_found = remove_interface;
    assert_int_equal(open_source(&f, "239.77.1.1:47001", "mc0", &problem), 0);
    assert_null(network_seams.interface_found);
    await_state(&f, ATTACHMENT_GONE);
    make_interface("mc0", 1);
    await_state(&f, ATTACHMENT_UP);
    assert_true(arrives(&f, "mc0", "239.77.1.1:47001"));
    close_source(&f);
    shell("ip link del mc0");
}

/* The networks from which senders are accepted are those of the interface: of all of its life. */
static void an_address_comes_after_its_interface(void **state)
{
    (void)state;
    static const struct {
        const char *address, *interface;
        bool back; /* the interface was there before, with its address */
    } rows[] = {
        {"239.77.1.1:47001", "mc0", false},
        {"239.77.1.1:47001", "mc0", true},
        {"*:47001", NULL, false},
    };
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        struct fixture f;
        struct problem problem;
        if (rows[i].back)
            make_interface("mc0", 1);
        else
            make_interface_without_address("mc0");
        if (open_source(&f, rows[i].address, rows[i].interface, &problem) != 0)
            fail_msg("row %zu: %s", i, problem.text);
        if (rows[i].back) {
            shell("ip link del mc0");
            await_state(&f, ATTACHMENT_GONE);
            make_interface_without_address("mc0");
            await_state(&f, ATTACHMENT_UP);
        }
        shell("ip addr add 10.77.1.1/24 dev mc0");
        if (!arrives(&f, rows[i].interface,
                     rows[i].interface != NULL ? rows[i].address : "10.77.1.1:47001"))
            fail_msg("row %zu: nothing arrives", i);
        close_source(&f);
        shell("ip link del mc0");
    }
}

static void a_changed_interface_leaves_the_old_group(void **state)
{
    (void)state;
    struct handover *handover;
    struct problem problem;
    int old, new;
    uint64_t granted;
    uint8_t got[64];
    make_interface("mc0", 1);
    make_interface("mc1", 2);
    assert_int_equal(handover_open(&handover, &problem), 0);
    struct socket_receive_options options = {.stream = "s",
                                             .address = "239.77.1.1:47001",
                                             .interface = "mc0",
                                             .buffer_bytes = 65536,
                                             .handover = handover};
    assert_int_equal(socket_open_receive(&options, &old, &granted, NULL, &problem), 0);
    handover_share(handover, true);
    options.interface = "mc1";
    assert_int_equal(socket_open_receive(&options, &new, &granted, NULL, &problem), 0);
    handover_share(handover, false);
    /* Until the exchange each receives from its own interface. */
    send_out("mc0", options.address, 1, 1);
    send_out("mc1", options.address, 2, 1);
    assert_true(recv(old, got, sizeof got, 0) > 0);
    assert_int_equal(got[0], 1);
    assert_int_equal(recv(old, got, sizeof got, MSG_DONTWAIT), -1);
    handover_release(handover, old);
    send_out("mc0", options.address, 3, 1);
    send_out("mc1", options.address, 4, 1);
    assert_true(recv(new, got, sizeof got, 0) > 0);
    assert_int_equal(got[0], 2);
    assert_true(recv(new, got, sizeof got, 0) > 0);
    assert_int_equal(got[0], 4);
    assert_int_equal(recv(new, got, sizeof got, MSG_DONTWAIT), -1);
    /* The same interface again: reads on from the same socket. */
    handover_share(handover, true);
    int again;
    assert_int_equal(socket_open_receive(&options, &again, &granted, NULL, &problem), 0);
    handover_share(handover, false);
    send_out("mc1", options.address, 5, 1);
    handover_release(handover, new);
    assert_true(recv(again, got, sizeof got, 0) > 0);
    assert_int_equal(got[0], 5);
    handover_release(handover, again);
    handover_close(handover);
    shell("ip link del mc0; ip link del mc1");
}

int main(void)
{
    log_set_level(LOG_LEVEL_ERROR);
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_group_outlives_its_interface),
        cmocka_unit_test(a_link_down_is_counted),
        cmocka_unit_test(a_late_interface_is_awaited),
        cmocka_unit_test(an_interface_goes_while_its_group_is_joined),
        cmocka_unit_test(an_address_comes_after_its_interface),
        cmocka_unit_test(a_changed_interface_leaves_the_old_group),
    };
    return cmocka_run_group_tests(tests, enter_namespace, NULL);
}
