/*
 * The two receive paths on real sockets of the loopback interface, against what was sent: whatever
 * the path, the same frames lie at the same places and the same rejects are counted. Trains are
 * made by the kernel (UDP_SEGMENT). The choice between them: test_receive_trial.c.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <netinet/udp.h>
#include <unistd.h>

#include <cmocka.h>

#include "core/clock.h"
#include "core/log.h"
#include "io/net/network_options.h"
#include "io/net/network_source.h"
#include "wire/rtp.h"
#include "io/net/handover.h"
#include "io/net/receive_trial.h"
#include "io/net/socket.h"
#include "io/sources.h"

/* Fields left out of a row are zero. */
#pragma GCC diagnostic ignored "-Wmissing-field-initializers"

/* ---- real sockets: a host with a ring ---------------------------------------------------- */

enum {
    CHANNELS = 2,
    FRAME_BYTES = 4,
    FRAMES = 25, /* of a packet */
    RING_FRAMES = 1 << 18,
    PACKETS_MAX = RING_FRAMES / FRAMES,
    PAYLOAD_BYTES = FRAMES * FRAME_BYTES,
    BATCH_MAX = 60,
    BATCH_SHORT = RECEIVE_PATH_TRAIN / 2, /* both paths are tried */
};

struct fixture {
    uv_loop_t loop;
    const struct source_ops *ops;
    struct source *source;
    int fd;
    uint64_t first_place; /* of packet 0 */
    bool begun;
    bool full;             /* room_unless_full: nothing more finds room */
    uint32_t first_packet; /* the first that it receives */
    uint8_t *ring;         /* [RING_FRAMES]: frame n of the sender at slot n */
    uint8_t *present;      /* [PACKETS_MAX]: how often each packet was put */
    uint32_t puts, in_place, in_batches;
    uint32_t last_behind, most_behind;
    bool uneven; /* rejects and headers of other sizes: what is behind is a prediction */
    int64_t last_receive_ns, earliest_ns;
    uint64_t drops;
    bool closed;
};

/* The sample words of a packet tell where they belong. */
static uint32_t word_of(uint32_t frame)
{
    return frame * 2654435761u;
}

static enum verdict fixture_put(void *context, const struct packet *packet)
{
    struct fixture *f = context;
    if (!f->begun) {
        f->begun = true;
        f->first_place = packet->first_frame - (uint64_t)f->first_packet * FRAMES;
    }
    uint64_t frame = packet->first_frame - f->first_place;
    assert_true(frame + packet->frames <= RING_FRAMES);
    uint8_t *slot = f->ring + frame * FRAME_BYTES;
    f->in_place += packet->payload == slot;
    for (uint32_t i = 0; i < packet->frames; i++) {
        uint32_t word;
        memcpy(&word, packet->payload + (size_t)i * FRAME_BYTES, 4);
        if (word != word_of((uint32_t)frame + i))
            fail_msg("frame %u holds another one's samples", (unsigned)frame + i);
    }
    memmove(slot, packet->payload, (size_t)packet->frames * FRAME_BYTES);
    f->present[frame / FRAMES]++;
    f->puts++;
    if (packet->clock == CLOCK_SOURCE_GRO) {
        /* One stamp covers the batch: what is behind counts down, under the same time. */
        if (f->last_behind > 0) {
            if (!f->uneven)
                assert_int_equal(packet->frames_behind, f->last_behind - packet->frames);
            assert_int_equal(packet->receive_ns, f->last_receive_ns);
        }
        f->in_batches++;
    } else {
        assert_int_equal(packet->clock, CLOCK_SOURCE_RECEIVE);
        assert_int_equal(packet->frames_behind, 0);
        assert_int_equal(f->last_behind, 0);
    }
    f->last_behind = packet->frames_behind;
    if (packet->frames_behind > f->most_behind)
        f->most_behind = packet->frames_behind;
    f->last_receive_ns = packet->receive_ns;
    return VERDICT_ACCEPTED;
}

static uint8_t *fixture_vacant(void *context, uint64_t place, uint64_t *frames)
{
    struct fixture *f = context;
    uint64_t frame = place - f->first_place;
    if (!f->begun || frame >= RING_FRAMES)
        return NULL;
    if (*frames > RING_FRAMES - frame)
        *frames = RING_FRAMES - frame;
    return f->ring + frame * FRAME_BYTES;
}

static void fixture_drops(void *context, uint64_t datagrams)
{
    ((struct fixture *)context)->drops += datagrams;
}

static void fixture_closed(void *context)
{
    ((struct fixture *)context)->closed = true;
}

static uint64_t room_of_1000(void *context)
{
    const struct fixture *f = context;
    return f->puts < 1000 ? (uint64_t)(1000 - f->puts) * FRAMES : 0;
}

static uint64_t room_unless_full(void *context)
{
    return ((const struct fixture *)context)->full ? 0 : RING_FRAMES;
}

/* Opens a source, not started yet: of the socket that `handover` has at `port`, where it has one.
 */
static void open_source(struct fixture *f, const char *type, enum receive_path requested,
                        uint32_t work, uint64_t (*room)(void *), struct handover *handover,
                        uint16_t port)
{
    *f = (struct fixture){.ops = source_find(type)};
    f->ring = malloc((size_t)RING_FRAMES * FRAME_BYTES);
    f->present = calloc(PACKETS_MAX + 1, 1);
    memset(f->ring, 0xEE, (size_t)RING_FRAMES * FRAME_BYTES);
    assert_int_equal(uv_loop_init(&f->loop), 0);
    char address[64];
    snprintf(address, sizeof address, "127.0.0.1:%u", port);
    static struct network_options own;
    own = (struct network_options){.ingest = {.payload_type = 96,
                                              .takeover_ns = NS_PER_SECOND,
                                              .max_dropout_ns = NS_PER_SECOND,
                                              .max_misorder_ns = 10 * NS_PER_MS},
                                   .address = address,
                                   .receive_buffer_bytes = 16 << 20,
                                   .work_per_wake = work,
                                   .receive = requested};
    struct source_options options = {.stream = "test",
                                     .rate_hz = 1e6,
                                     .channels = CHANNELS,
                                     .frame_bytes = FRAME_BYTES,
                                     .reorder_ns = 10 * NS_PER_MS,
                                     .max_gap_ns = NS_PER_SECOND,
                                     .own = &own};
    struct source_host host = {.context = f,
                               .put = fixture_put,
                               .vacant = fixture_vacant,
                               .room = room,
                               .socket_drops = fixture_drops};
    struct problem problem;
    const struct io_environment environment = {.loop = &f->loop, .handover = handover};
    if (f->ops->open(&options, &environment, &host, &f->source, &problem) != 0)
        fail_msg("%s", problem.text);
}

static void start_source(struct fixture *f)
{
    struct problem problem;
    assert_int_equal(f->ops->start(f->source, &problem), 0);
    char address[64];
    struct address to;
    snprintf(address, sizeof address, "127.0.0.1:%u", f->ops->port(f->source));
    assert_int_equal(
        socket_open_send(&(struct socket_send_options){.sink = "test", .address = address}, &f->fd,
                         &to, &problem),
        0);
}

static void open_fixture(struct fixture *f, const char *type, enum receive_path requested,
                         uint32_t work, uint64_t (*room)(void *))
{
    open_source(f, type, requested, work, room, NULL, 0);
    start_source(f);
}

static void ledger_of(const struct fixture *f, struct source_ledger *ledger)
{
    f->ops->ledger(f->source, ledger);
    uint64_t sum = ledger->accepted + ledger->held;
    for (int i = 0; i < REJECTS; i++)
        sum += ledger->rejected[i];
    assert_int_equal(ledger->datagrams, sum);
}

static void close_fixture(struct fixture *f)
{
    f->ops->stop(f->source);
    f->ops->close(f->source, fixture_closed, f);
    uv_run(&f->loop, UV_RUN_DEFAULT);
    assert_true(f->closed);
    assert_int_equal(uv_loop_close(&f->loop), 0);
    close(f->fd);
    free(f->ring);
    free(f->present);
}

/* ---- what is sent ------------------------------------------------------------------------ */

enum shape { GOOD, MALFORMED, OTHER_TYPE, EXTENDED, SHORT, LONG };

static size_t build(const struct fixture *f, uint32_t number, uint32_t sequence, enum shape shape,
                    uint8_t *out)
{
    size_t used = 0;
    uint32_t frames = shape == SHORT ? FRAMES - 7 : shape == LONG ? 2 * FRAMES : FRAMES;
    if (strcmp(f->ops->name, "rtp") == 0) {
        const struct rtp_header header = {.payload_type = shape == OTHER_TYPE ? 97 : 96,
                                          .sequence = (uint16_t)(sequence + 65000),
                                          .timestamp = number * FRAMES,
                                          .ssrc = 99};
        used = rtp_build(out, &header, NULL);
        if (shape == MALFORMED)
            out[0] = 0x40; /* version 1 */
        if (shape == EXTENDED) {
            const uint8_t extension[8] = {0xBE, 0xDE, 0, 1, 0, 0, 0, 0};
            out[0] |= 0x10;
            memcpy(out + used, extension, sizeof extension);
            used += sizeof extension;
        }
    } else if (strcmp(f->ops->name, "udp-seq") == 0) {
        uint64_t count = sequence;
        memcpy(out, &count, 8);
        used = 8;
    }
    for (uint32_t i = 0; i < frames; i++) {
        uint32_t word = word_of(number * FRAMES + i);
        memcpy(out + used, &word, 4);
        used += 4;
    }
    return used;
}

/* Sends datagrams that lie back to back; as a batch the kernel cuts them at the first one's size.
 */
static void send_datagrams(const struct fixture *f, const uint8_t *bytes, const size_t *sizes,
                           int count, bool batch)
{
    while (count > 0) {
        int now = 1;
        size_t total = sizes[0];
        while (batch && now < count && now < BATCH_MAX && sizes[now] <= sizes[0]) {
            total += sizes[now++];
            if (sizes[now - 1] < sizes[0])
                break;
        }
        union {
            struct cmsghdr align;
            uint8_t bytes[CMSG_SPACE(sizeof(uint16_t))];
        } control = {0};
        struct iovec vector = {(void *)(uintptr_t)bytes, total};
        struct msghdr message = {.msg_iov = &vector, .msg_iovlen = 1};
        if (now > 1) {
            uint16_t size = (uint16_t)sizes[0];
            message.msg_control = control.bytes;
            message.msg_controllen = sizeof control.bytes;
            struct cmsghdr *header = CMSG_FIRSTHDR(&message);
            header->cmsg_level = SOL_UDP;
            header->cmsg_type = UDP_SEGMENT;
            header->cmsg_len = CMSG_LEN(sizeof size);
            memcpy(CMSG_DATA(header), &size, sizeof size);
        }
        assert_int_equal(sendmsg(f->fd, &message, 0), (ssize_t)total);
        bytes += total;
        sizes += now;
        count -= now;
    }
}

/* `batch`: packets of each; 1: one by one. */
static void send_batches(const struct fixture *f, uint32_t from, uint32_t count, int batch)
{
    static uint8_t bytes[BATCH_MAX * 512];
    static size_t sizes[BATCH_MAX];
    while (count > 0) {
        int now = 0;
        size_t used = 0;
        for (; now < batch && count > 0; now++, count--) {
            sizes[now] = build(f, from, from, GOOD, bytes + used);
            used += sizes[now];
            from++;
        }
        send_datagrams(f, bytes, sizes, now, batch > 1);
    }
}

static void send_run(const struct fixture *f, uint32_t from, uint32_t count, bool batches)
{
    send_batches(f, from, count, batches ? BATCH_MAX : 1);
}

static void run_until_read(struct fixture *f, uint64_t datagrams)
{
    struct source_ledger ledger;
    int64_t until_ns = clock_monotonic_ns() + 5 * NS_PER_SECOND;
    do {
        uv_run(&f->loop, UV_RUN_NOWAIT);
        ledger_of(f, &ledger);
    } while (ledger.datagrams < datagrams && clock_monotonic_ns() < until_ns);
    assert_int_equal(ledger.datagrams, datagrams);
}

/* ---- the same frames whatever the path --------------------------------------------------- */

struct sent {
    int packet; /* -1: the end */
    enum shape shape;
    int joined; /* packets before it that were sent as one: sequence numbers count datagrams */
};

enum { END = -1 };

static const struct sent in_order[] = {{0, GOOD}, {1, GOOD}, {2, GOOD}, {3, GOOD}, {END, GOOD}};
static const struct sent losses[] = {{0, GOOD}, {1, GOOD}, {2, GOOD}, {5, GOOD},
                                     {6, GOOD}, {8, GOOD}, {9, GOOD}, {END, GOOD}};
static const struct sent swapped[] = {{0, GOOD}, {1, GOOD}, {3, GOOD},  {2, GOOD},
                                      {4, GOOD}, {5, GOOD}, {END, GOOD}};
static const struct sent malformed[] = {{0, GOOD},       {1, GOOD}, {2, MALFORMED}, {2, GOOD},
                                        {3, OTHER_TYPE}, {3, GOOD}, {4, GOOD},      {END, GOOD}};
static const struct sent extended[] = {{0, GOOD},     {1, GOOD}, {2, GOOD}, {3, EXTENDED},
                                       {4, EXTENDED}, {5, GOOD}, {6, GOOD}, {END, GOOD}};
static const struct sent short_end[] = {{0, GOOD}, {1, GOOD}, {2, GOOD},  {3, SHORT},
                                        {4, GOOD}, {5, GOOD}, {END, GOOD}};
static const struct sent longer[] = {{0, GOOD},    {1, GOOD},    {2, LONG},    {4, GOOD, 1},
                                     {5, GOOD, 1}, {6, LONG, 1}, {8, GOOD, 2}, {END, GOOD}};

static const struct {
    const char *given;
    const struct sent *sent;
    int malformed, types; /* rejects by name */
} cases[] = {
    {"in order", in_order, 0, 0},       {"losses", losses, 0, 0},
    {"reordered", swapped, 0, 0},       {"malformed among good ones", malformed, 1, 1},
    {"longer headers", extended, 0, 0}, {"a short one", short_end, 0, 0},
    {"twice as long", longer, 0, 0},
};

static void check_case(size_t c, enum receive_path path, bool batches)
{
    static uint8_t bytes[64 * 512];
    static size_t sizes[64];
    struct fixture f;
    open_fixture(&f, "rtp", path, 0, NULL);
    /* Sixteen good ones first: a sender that is known, so that predictions are made. */
    enum { BEFORE = 16 };
    send_run(&f, 0, BEFORE, batches);
    run_until_read(&f, BEFORE);
    f.uneven = cases[c].malformed > 0 || cases[c].sent == extended;
    int count = 0;
    size_t used = 0;
    uint8_t expect[64] = {0};
    for (; cases[c].sent[count].packet != END; count++) {
        const struct sent *sent = &cases[c].sent[count];
        const uint32_t number = BEFORE + (uint32_t)sent->packet;
        sizes[count] =
            build(&f, number, number - (uint32_t)sent->joined, sent->shape, bytes + used);
        used += sizes[count];
        if (sent->shape != MALFORMED && sent->shape != OTHER_TYPE)
            expect[sent->packet] = 1;
    }
    send_datagrams(&f, bytes, sizes, count, batches);
    run_until_read(&f, BEFORE + (uint64_t)count);
    struct source_ledger ledger;
    ledger_of(&f, &ledger);
    for (int packet = 0; packet < 12; packet++)
        if (f.present[BEFORE + packet] != expect[packet])
            fail_msg("%s, %s: packet %d was put %d times", cases[c].given, receive_path_name(path),
                     packet, f.present[BEFORE + packet]);
    assert_int_equal(ledger.rejected[REJECT_VERSION], cases[c].malformed);
    assert_int_equal(ledger.rejected[REJECT_PAYLOAD_TYPE], cases[c].types);
    assert_int_equal(ledger.receive.path, path);
    if (path == RECEIVE_GRO)
        assert_int_equal(f.in_place, 0);
    assert_int_equal(ledger.receive.batches > 0, batches && path == RECEIVE_GRO);
    close_fixture(&f);
}

static void test_same_frames_on_every_path(void **state)
{
    (void)state;
    for (size_t c = 0; c < sizeof cases / sizeof cases[0]; c++)
        for (int path = 0; path < RECEIVE_PATHS; path++)
            for (int batches = 0; batches < 2; batches++)
                check_case(c, (enum receive_path)path, batches);
}

/* ---- predictions ----------------------------------------------------------------------------- */

static void test_payloads_are_received_in_place(void **state)
{
    (void)state;
    static const char *const types[] = {"rtp", "udp-seq", "udp"};
    for (size_t t = 0; t < 3; t++) {
        struct fixture f;
        open_fixture(&f, types[t], RECEIVE_RECVMMSG, 0, NULL);
        for (uint32_t from = 0; from < 640; from += 64) {
            send_run(&f, from, 64, false);
            run_until_read(&f, from + 64);
        }
        struct source_ledger ledger;
        ledger_of(&f, &ledger);
        assert_int_equal(f.puts, 640);
        assert_in_range(f.in_place, 640 - 64, 640); /* all but those before the sender was known */
        assert_int_equal(ledger.receive.prediction_hits, f.in_place);
        close_fixture(&f);
    }
}

/* A prediction that is wrong wrote into a slot: no packet is put there, and the others are whole.
 */
static void test_a_misprediction_leaves_the_slot_empty(void **state)
{
    (void)state;
    struct fixture f;
    open_fixture(&f, "rtp", RECEIVE_RECVMMSG, 0, NULL);
    send_run(&f, 0, 64, false);
    run_until_read(&f, 64);
    send_run(&f, 64, 10, false); /* packets 74 and 75 are lost */
    send_run(&f, 76, 30, false);
    run_until_read(&f, 104);
    struct source_ledger ledger;
    ledger_of(&f, &ledger);
    for (uint32_t packet = 0; packet < 106; packet++)
        assert_int_equal(f.present[packet], packet != 74 && packet != 75);
    assert_true(ledger.receive.prediction_hits >= 10);
    assert_int_equal(ledger.receive.prediction_misses, 30);
    close_fixture(&f);
}

/* ---- batches ------------------------------------------------------------------------------ */

static void test_one_stamp_covers_a_batch(void **state)
{
    (void)state;
    for (int path = 0; path < RECEIVE_PATHS; path++) {
        struct fixture f;
        open_fixture(&f, "rtp", (enum receive_path)path, 0, NULL);
        send_run(&f, 0, 600, true); /* what the puts must look like stands in fixture_put */
        run_until_read(&f, 600);
        struct source_ledger ledger;
        ledger_of(&f, &ledger);
        assert_int_equal(f.puts, 600);
        assert_int_equal(f.in_batches, path == RECEIVE_GRO ? 600 : 0);
        assert_int_equal(f.most_behind, path == RECEIVE_GRO ? (BATCH_MAX - 1) * FRAMES : 0);
        assert_int_equal(ledger.receive.batches, path == RECEIVE_GRO ? 600 / BATCH_MAX : 0);
        close_fixture(&f);
    }
}

/* Without numbers every datagram must count where it is dropped: such a socket takes no batches. */
static void test_headerless_takes_no_batches(void **state)
{
    (void)state;
    static const enum receive_path requests[] = {RECEIVE_GRO, RECEIVE_AUTO};
    for (int i = 0; i < 2; i++) {
        struct fixture f;
        open_fixture(&f, "udp", requests[i], 0, NULL);
        send_run(&f, 0, 6000, true);
        run_until_read(&f, 6000);
        struct source_ledger ledger;
        ledger_of(&f, &ledger);
        assert_int_equal(f.puts, 6000);
        assert_int_equal(ledger.receive.batches, 0);
        assert_int_equal(ledger.receive.trials, 0);
        assert_int_equal(ledger.receive.path, RECEIVE_RECVMMSG);
        close_fixture(&f);
    }
}

/* A wake-up reads its share, and at most the rest of a batch more. */
static void test_work_per_wake(void **state)
{
    (void)state;
    enum { WORK = 130, WAKES = 8 };
    for (int path = 0; path < RECEIVE_PATHS; path++) {
        struct fixture f;
        open_fixture(&f, "rtp", (enum receive_path)path, WORK, NULL);
        send_run(&f, 0, 1800, true);
        uint32_t before = 0;
        for (int wake = 0; wake < WAKES; wake++) {
            uv_run(&f.loop, UV_RUN_NOWAIT);
            /* The first datagram of all is held until the second proves it. */
            assert_in_range(f.puts - before, WORK,
                            path == RECEIVE_GRO ? WORK + BATCH_MAX - 1 : WORK);
            before = f.puts;
        }
        close_fixture(&f);
    }
}

/* What the kernel has at the stop is read while there is room, a batch to the last datagram of it.
 */
static void test_stop_reads_what_is_there(void **state)
{
    (void)state;
    for (int path = 0; path < RECEIVE_PATHS; path++) {
        for (int limited = 0; limited < 2; limited++) {
            struct fixture f;
            open_fixture(&f, "rtp", (enum receive_path)path, 0, limited ? room_of_1000 : NULL);
            send_run(&f, 0, 3000, true);
            f.ops->stop(f.source);
            assert_int_equal(f.puts, limited ? 1000 : 3000);
            close_fixture(&f);
        }
    }
}

/* A batch that the socket dropped: the gap behind it is the socket's, as long as the numbers say.
 */
static void test_dropped_batches(void **state)
{
    (void)state;
    struct fixture f;
    open_fixture(&f, "rtp", RECEIVE_GRO, 0, NULL);
    int small = 65536;
    uint32_t sent = 0;
    struct source_ledger ledger;
    send_run(&f, 0, 60, true);
    run_until_read(&f, sent = 60);
    /* The receiving end has this buffer from now on; its descriptor is found by its port. */
    int receiving = -1;
    for (int fd = 3; fd < 64 && receiving < 0; fd++)
        if (fd != f.fd && socket_port(fd) == f.ops->port(f.source))
            receiving = fd;
    assert_true(receiving >= 0);
    assert_int_equal(setsockopt(receiving, SOL_SOCKET, SO_RCVBUF, &small, sizeof small), 0);
    send_run(&f, sent, 1800, true);
    sent += 1800;
    for (int i = 0; i < 100; i++)
        uv_run(&f.loop, UV_RUN_NOWAIT);
    send_run(&f, sent, 60, true); /* tells of the drops */
    sent += 60;
    for (int i = 0; i < 100; i++)
        uv_run(&f.loop, UV_RUN_NOWAIT);
    ledger_of(&f, &ledger);
    assert_true(ledger.kernel_drops > 0);
    assert_int_equal((sent - ledger.datagrams) % BATCH_MAX, 0);
    assert_int_equal(ledger.kernel_drops, (sent - ledger.datagrams) / BATCH_MAX);
    assert_int_equal(f.drops, sent - ledger.datagrams); /* in packets: what the gap is */
    close_fixture(&f);
}

/* ---- changing the path under way --------------------------------------------------------- */

/*
 * A trial changes the path five times while the queue is full: not one datagram is lost, put twice
 * or cut wrong, though batches that were queued before UDP_GRO went off come without their segment
 * size.
 */
static void test_a_trial_loses_nothing(void **state)
{
    (void)state;
    for (int batches = 0; batches < 2; batches++) {
        struct fixture f;
        open_fixture(&f, "rtp", RECEIVE_AUTO, 100, NULL);
        struct source_ledger ledger = {0};
        uint32_t sent = 0;
        bool queued_across = false;
        while (ledger.receive.trials == 0 && sent + 1200 < PACKETS_MAX) {
            enum receive_path before = ledger.receive.path;
            send_batches(&f, sent, 1200, batches ? BATCH_SHORT : 1);
            sent += 1200;
            while (ledger.datagrams + 300 < sent) { /* never empty */
                uv_run(&f.loop, UV_RUN_NOWAIT);
                ledger_of(&f, &ledger);
                queued_across |= before == RECEIVE_GRO && ledger.receive.path == RECEIVE_RECVMMSG;
                before = ledger.receive.path;
            }
        }
        run_until_read(&f, sent);
        ledger_of(&f, &ledger);
        assert_true(queued_across);
        assert_int_equal(f.puts, sent);
        for (uint32_t packet = 0; packet < sent; packet++)
            assert_int_equal(f.present[packet], 1);
        close_fixture(&f);
    }
}

/* A stream in long batches is read in batches from its first one on. */
static void test_long_batches_are_never_read_one_by_one(void **state)
{
    (void)state;
    struct fixture f;
    struct source_ledger ledger;
    open_fixture(&f, "rtp", RECEIVE_AUTO, 0, NULL);
    send_run(&f, 0, 1200, true);
    run_until_read(&f, 1200);
    ledger_of(&f, &ledger);
    assert_int_equal(ledger.receive.path, RECEIVE_GRO);
    assert_int_equal(ledger.receive.trials, 1);
    assert_int_equal(ledger.receive.messages, 1200 / BATCH_MAX);
    assert_true(ledger.receive.cost_ns[RECEIVE_GRO] > 0);
    assert_true(ledger.receive.cost_ns[RECEIVE_RECVMMSG] == 0);
    assert_int_equal(f.in_batches, 1200);
    close_fixture(&f);
}

/* What the socket has queued when one source hands it to the next is cut right, although the next
 * has seen no batch yet. */
static void hand_over_queued(enum receive_path first, enum receive_path second)
{
    struct handover *handover;
    assert_int_equal(handover_open(&handover, NULL), 0);
    struct fixture before, f;
    open_source(&before, "rtp", first, 100, room_unless_full, handover, 0);
    start_source(&before);
    handover_share(handover, true);
    open_source(&f, "rtp", second, 0, NULL, handover, before.ops->port(before.source));
    struct source_ledger ledger = {0};
    uint32_t sent = 0;
    enum receive_path path;
    do { /* RECEIVE_AUTO: until UDP_GRO has gone off with batches queued */
        send_batches(&before, sent, 300, first == RECEIVE_AUTO ? BATCH_SHORT : BATCH_MAX);
        sent += 300;
        path = ledger.receive.path;
        uv_run(&before.loop, UV_RUN_NOWAIT);
        ledger_of(&before, &ledger);
    } while (first == RECEIVE_AUTO && sent + 600 < PACKETS_MAX &&
             !(path == RECEIVE_GRO && ledger.receive.path == RECEIVE_RECVMMSG));
    if (first == RECEIVE_AUTO)
        assert_int_equal(ledger.receive.path, RECEIVE_RECVMMSG);
    before.full = true;
    before.ops->stop(before.source);
    ledger_of(&before, &ledger);
    f.first_packet = (uint32_t)ledger.datagrams;
    assert_true(f.first_packet < sent);
    start_source(&f);
    send_run(&before, sent, 300, true);
    run_until_read(&f, (sent += 300) - f.first_packet);
    for (uint32_t packet = f.first_packet; packet < sent; packet++)
        assert_int_equal(f.present[packet], 1);
    ledger_of(&f, &ledger);
    if (second == RECEIVE_RECVMMSG)
        assert_int_equal(ledger.receive.path, RECEIVE_RECVMMSG);
    close_fixture(&before);
    close_fixture(&f);
    handover_close(handover);
}

static void test_queued_batches_are_handed_over(void **state)
{
    (void)state;
    static const enum receive_path second[] = {RECEIVE_RECVMMSG, RECEIVE_AUTO, RECEIVE_GRO};
    for (size_t i = 0; i < sizeof second / sizeof second[0]; i++) {
        hand_over_queued(RECEIVE_GRO, second[i]);
        hand_over_queued(RECEIVE_AUTO, second[i]);
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
        cmocka_unit_test(test_same_frames_on_every_path),
        cmocka_unit_test(test_payloads_are_received_in_place),
        cmocka_unit_test(test_a_misprediction_leaves_the_slot_empty),
        cmocka_unit_test(test_one_stamp_covers_a_batch),
        cmocka_unit_test(test_headerless_takes_no_batches),
        cmocka_unit_test(test_work_per_wake),
        cmocka_unit_test(test_stop_reads_what_is_there),
        cmocka_unit_test(test_dropped_batches),
        cmocka_unit_test(test_a_trial_loses_nothing),
        cmocka_unit_test(test_long_batches_are_never_read_one_by_one),
        cmocka_unit_test(test_queued_batches_are_handed_over),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
