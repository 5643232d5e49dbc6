/*
 * The sink `rtp` on a loopback socket, for its tests: a receiver that parses what arrives, and
 * sendmmsg in the test's hands, so that a full socket and refusals come when the test wants them.
 *
 * A test program includes it once. Test thread.
 */
#ifndef CONVOLVD_TESTS_RTP_SINK_WORLD_H
#define CONVOLVD_TESTS_RTP_SINK_WORLD_H

#include <errno.h>
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cmocka.h>

#include "core/clock.h"
#include "core/log.h"
#include "wire/rtp.h"
#include "io/net/rtp_sink_options.h"
#include "io/net/sdp.h"
#include "io/sinks.h"
#include "io/net/socket.h"
#include "tests/support/scratch.h"

/* ---- the kernel, when it refuses --------------------------------------------------------- */

static struct {
    int allow; /* packets taken before it refuses; -1: all */
    int error;
    int calls;
    int messages_error; /* for messages of several packets; 0: they are taken */
    int messages;       /* taken that held several packets */
} kernel = {.allow = -1};

int sendmmsg(int fd, struct mmsghdr *messages, unsigned count, int flags)
{
    kernel.calls++;
    /* Limits are in packets, so that UDP_SEGMENT would hide them. */
    if (messages[0].msg_hdr.msg_iovlen > 1 && (kernel.messages_error != 0 || kernel.allow >= 0)) {
        errno = kernel.messages_error != 0 ? kernel.messages_error : EIO;
        return -1;
    }
    kernel.messages += messages[0].msg_hdr.msg_iovlen > 1;
    if (kernel.allow == 0) {
        errno = kernel.error;
        return -1;
    }
    if (kernel.allow > 0) {
        count = count < (unsigned)kernel.allow ? count : (unsigned)kernel.allow;
        kernel.allow -= (int)count;
    }
    return (int)syscall(SYS_sendmmsg, fd, messages, count, flags);
}

/* ---- a sink and its receiver ------------------------------------------------------------- */

enum { DATAGRAMS = 4096, DATAGRAM_BYTES = 2048 };

struct datagram {
    size_t bytes;
    uint8_t data[DATAGRAM_BYTES];
    struct rtp_packet packet;
    struct rtp_result_info info;
};

struct fixture {
    struct rtp_sink_options own;
    uv_loop_t loop;
    struct sink *sink;
    int fd;
    char address[ADDRESS_TEXT];
    struct sink_ledger ledger; /* the final one */
    struct datagram *datagrams;
    int count;
    int rooms;
    bool closed;
};

static void room_again(void *context)
{
    ((struct fixture *)context)->rooms++;
}

static struct sink_options options_of(struct fixture *f, const char *format, uint32_t channels)
{
    f->own = (struct rtp_sink_options){
        .address = f->address, .payload_type = 96, .ssrc_set = true, .ssrc = 0xC0FFEE};
    struct sink_options options = {
        .name = "out",
        .stream = {.name = "test", .rate_hz = 1e6, .channels = channels},
        .full_scale = 1,
        .own = &f->own,
        .room_again = room_again,
        .room_context = f,
    };
    assert_int_equal(sample_format_parse(format, &options.format), 0);
    return options;
}

static void open_receiver(struct fixture *f)
{
    memset(f, 0, sizeof *f);
    memset(&kernel, 0, sizeof kernel);
    kernel.allow = -1;
    uint64_t granted;
    struct problem problem;
    struct socket_receive_options options = {
        .stream = "test", .address = "127.0.0.1:0", .buffer_bytes = 16 << 20};
    if (socket_open_receive(&options, &f->fd, &granted, NULL, &problem) != 0)
        fail_msg("%s", problem.text);
    snprintf(f->address, sizeof f->address, "127.0.0.1:%u", socket_port(f->fd));
    f->datagrams = calloc(DATAGRAMS, sizeof *f->datagrams);
    assert_non_null(f->datagrams);
    assert_int_equal(uv_loop_init(&f->loop), 0);
}

static void open_sink(struct fixture *f, const struct sink_options *options)
{
    struct problem problem;
    if (sink_rtp.open(options, &(struct io_environment){.loop = &f->loop}, &f->sink, &problem) != 0)
        fail_msg("%s", problem.text);
}

static void fixture_closed(void *context)
{
    struct fixture *f = context;
    sink_rtp.ledger(f->sink, &f->ledger);
    f->closed = true;
}

static inline uint64_t drops(const struct sink_ledger *ledger)
{
    uint64_t sum = 0;
    for (int i = 0; i < DROPS; i++)
        sum += ledger->dropped[i];
    return sum;
}

static inline void check_ledger(const struct fixture *f)
{
    struct sink_ledger ledger;
    sink_rtp.ledger(f->sink, &ledger);
    assert_int_equal(ledger.frames, ledger.delivered + drops(&ledger) + ledger.pending);
}

static inline void close_sink(struct fixture *f, int64_t patience_ns)
{
    sink_rtp.close(f->sink, clock_monotonic_ns() + patience_ns, fixture_closed, f);
    assert_false(f->closed);
    uv_run(&f->loop, UV_RUN_DEFAULT);
    assert_true(f->closed);
    assert_int_equal(f->ledger.pending, 0);
    assert_int_equal(f->ledger.frames, f->ledger.delivered + drops(&f->ledger));
}

static void close_fixture(struct fixture *f)
{
    assert_int_equal(uv_loop_close(&f->loop), 0);
    close(f->fd);
    free(f->datagrams);
}

static void receive_all(struct fixture *f)
{
    for (;;) {
        assert_true(f->count < DATAGRAMS);
        struct datagram *d = &f->datagrams[f->count];
        ssize_t got = recv(f->fd, d->data, sizeof d->data, MSG_DONTWAIT);
        if (got < 0)
            return;
        d->bytes = (size_t)got;
        assert_int_equal(rtp_parse(d->data, d->bytes, &d->packet), RTP_OK);
        assert_true(rtp_parse_result_info(&d->packet, &d->info));
        f->count++;
    }
}

static struct result result_of(const float *samples, uint32_t frames, uint32_t channels)
{
    int64_t now_ns = clock_monotonic_ns();
    return (struct result){
        .frames = frames,
        .channels = channels,
        .samples = samples,
        .rate_hz = 1e6,
        .capture_ns = INT64_C(1700000000000000000),
        .delivered_ns = now_ns,
    };
}

static float silence[4096];

#endif
