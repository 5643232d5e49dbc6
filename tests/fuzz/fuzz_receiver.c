/*
 * Fuzzes the receiver with what recvmmsg may return: GRO batches of any segment size, control
 * messages of any kind, cut-off datagrams, predictions that hit or miss. A link-time seam takes the
 * place of recvmmsg; every message holds a pattern of its own.
 *
 * Each datagram that the receiver delivers must hold exactly the next bytes of its message, and
 * each message must be delivered to its end. A handler that writes into a predicted slot after a
 * miss must not change a datagram that follows.
 */
#include <netinet/in.h>
#include <netinet/udp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/uio.h>
#include <unistd.h>

#include "core/log.h"
#include "io/net/receiver.h"
#include "tests/fuzz/require.h"

enum { SLOTS = 8, SLOT_BYTES = 64, MESSAGES_MAX = 256 };

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes);
int __wrap_recvmmsg(int fd, struct mmsghdr *messages, unsigned count, int flags,
                    struct timespec *timeout);

static struct {
    const uint8_t *data;
    size_t bytes, at;
    size_t lengths[MESSAGES_MAX]; /* of the messages returned and not delivered yet */
    unsigned returned, delivered;
    size_t offset; /* delivered bytes of message `delivered` */
    uint8_t slots[SLOTS][SLOT_BYTES];
    uint64_t drops;
} world;

static unsigned take(void)
{
    return world.at < world.bytes ? world.data[world.at++] : 0;
}

static uint8_t pattern(unsigned message, size_t offset)
{
    return (uint8_t)(message * 31 + offset * 7 + (offset >> 8));
}

/* ---- the kernel ---------------------------------------------------------------------------- */

static void add_control(struct msghdr *message, struct cmsghdr **next, int level, int type,
                        const void *value, size_t bytes)
{
    struct cmsghdr *control = *next;
    if (control == NULL)
        return;
    control->cmsg_level = level;
    control->cmsg_type = type;
    control->cmsg_len = CMSG_LEN(bytes);
    memcpy(CMSG_DATA(control), value, bytes);
    *next = CMSG_NXTHDR(message, control);
}

static void fill_control(struct msghdr *message, unsigned kinds)
{
    struct cmsghdr *next = CMSG_FIRSTHDR(message);
    memset(message->msg_control, 0, message->msg_controllen);
    if (kinds & 1) {
        const struct timespec time = {.tv_sec = (time_t)take() << 24 | take(), .tv_nsec = take()};
        add_control(message, &next, SOL_SOCKET, SCM_TIMESTAMPNS, &time, sizeof time);
    }
    if (kinds & 2) {
        const uint32_t overflow = take() * 16777216u + take();
        add_control(message, &next, SOL_SOCKET, SO_RXQ_OVFL, &overflow, sizeof overflow);
    }
    if (kinds & 4) {
        const int segment = (int)(take() << 8 | take()) - 256;
        add_control(message, &next, SOL_UDP, UDP_GRO, &segment, sizeof segment);
    }
    if (kinds & 8) /* shorter than its type */
        add_control(message, &next, SOL_UDP, UDP_GRO, "", 1);
    if (next == NULL)
        return;
    message->msg_controllen = (size_t)((uint8_t *)next - (uint8_t *)message->msg_control);
}

/* Writes `bytes` of a message over its parts; returns how many found room. */
static size_t scatter(const struct msghdr *message, unsigned number, size_t bytes)
{
    size_t done = 0;
    for (size_t part = 0; part < message->msg_iovlen; part++) {
        uint8_t *to = message->msg_iov[part].iov_base;
        for (size_t i = 0; i < message->msg_iov[part].iov_len && done < bytes; i++)
            to[i] = pattern(number, done++);
    }
    return done;
}

int __wrap_recvmmsg(int fd, struct mmsghdr *messages, unsigned count, int flags,
                    struct timespec *timeout)
{
    (void)fd, (void)flags, (void)timeout;
    unsigned got = 0;
    for (; got < count && world.at < world.bytes && world.returned < MESSAGES_MAX; got++) {
        const unsigned kinds = take();
        if (kinds == 0xFF)
            break;
        size_t bytes = take() & 0x3F;
        if (kinds & 0x10)
            bytes = bytes << 8 | take();
        struct mmsghdr *message = &messages[got];
        fill_control(&message->msg_hdr, kinds);
        message->msg_len = (unsigned)scatter(&message->msg_hdr, world.returned, bytes);
        message->msg_hdr.msg_flags = kinds & 0x20 ? MSG_TRUNC : 0;
        world.lengths[world.returned++] = message->msg_len;
    }
    return (int)got;
}

/* ---- the handler --------------------------------------------------------------------------- */

static void on_datagram(void *context, const struct received *received)
{
    (void)context;
    REQUIRE(world.delivered < world.returned);
    const size_t total = world.lengths[world.delivered];
    size_t header = received->bytes;
    if (received->payload != NULL) {
        REQUIRE(world.offset == 0 && received->bytes == total);
        header = total >= SLOT_BYTES ? total - SLOT_BYTES : 0;
        for (size_t i = header; i < total; i++)
            REQUIRE(received->payload[i - header] == pattern(world.delivered, i));
    }
    for (size_t i = 0; i < header; i++)
        REQUIRE(received->data[i] == pattern(world.delivered, world.offset + i));
    world.offset += received->bytes;
    REQUIRE(world.offset + received->behind_bytes == total);
    REQUIRE((received->behind_bytes == 0) == (received->behind_datagrams == 0));
    if (world.offset == total) {
        world.offset = 0;
        world.delivered++;
    }
    if (received->payload == NULL)
        memset(world.slots, 0xEE, sizeof world.slots);
}

static void on_drops(void *context, uint64_t drops)
{
    (void)context;
    REQUIRE(drops > 0);
    world.drops += drops;
}

static unsigned predict(void *context, struct receive_prediction *predictions, unsigned most)
{
    (void)context;
    const unsigned wanted = take() % (SLOTS + 1);
    const size_t header = 1 + take() % 40;
    unsigned count = 0;
    for (; count < wanted && count < most; count++)
        predictions[count] = (struct receive_prediction){
            .header_bytes = header, .payload = world.slots[count], .payload_bytes = SLOT_BYTES};
    return count;
}

static bool hit(void *context, const struct receive_prediction *prediction, unsigned number,
                const struct received *received)
{
    (void)context;
    REQUIRE(received->bytes == prediction->header_bytes + prediction->payload_bytes);
    REQUIRE(received->payload == world.slots[number]);
    return take() % 4 != 0;
}

/* ---- the harness --------------------------------------------------------------------------- */

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes)
{
    static uv_loop_t loop;
    if (loop.data == NULL) {
        REQUIRE(uv_loop_init(&loop) == 0);
        loop.data = &loop;
        log_set_level(LOG_LEVEL_ERROR);
    }
    memset(&world, 0, sizeof world);
    world.data = data;
    world.bytes = bytes;
    const unsigned manner = take();
    const struct receiver_options options = {
        .stream = "fuzz",
        .fd = socket(AF_INET, SOCK_DGRAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0),
        .requested = (enum receive_path)(manner & 1),
        .datagram = on_datagram,
        .drops = on_drops,
        .batch_drops = on_drops,
        .predict = manner & 2 ? predict : NULL,
        .hit = hit,
    };
    REQUIRE(options.fd >= 0);
    struct receiver *receiver;
    struct problem problem = {0};
    REQUIRE(receiver_open(&options, &receiver, &problem) == 0);
    REQUIRE(receiver_start(receiver, &loop, &problem) == 0);
    while (world.at < world.bytes && world.returned < MESSAGES_MAX)
        receiver_read_more(receiver, 1 + take() % 64);
    receiver_read_more(receiver, 1u << 24);
    REQUIRE(world.delivered == world.returned && world.offset == 0);
    receiver_close(receiver, NULL, NULL);
    uv_run(&loop, UV_RUN_DEFAULT);
    return 0;
}
