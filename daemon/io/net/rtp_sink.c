/*
 * Sink `rtp`: sends results as RTP to one configured address or group, big-endian, with the header
 * extension of wire/rtp.h in every packet, and writes an SDP file that describes them.
 *
 *     result ──► packets of whole frames ──► slots (ring) ── sendmmsg ──► kernel
 *
 * Packets are as large as the MTU allows. Each result ends with a shorter packet, so that every
 * packet lies in one result and its times are exact. Time stamps are the timeline's frame modulo
 * 2^32 and so advance by elapsed time across epochs; sequence numbers count the packets built, so
 * that the receiver sees a packet dropped here as lost. Of a stream that decimates, both count kept
 * frames, at the output's rate.
 *
 * The sink sends at flush, and earlier once EARLY_MESSAGES messages are full, while their packets
 * are still in the cache; an empty ring starts again at its first slot for the same reason. Packets
 * of one size go to the kernel in one message, which it cuts into segments after the expensive part
 * of its output path (UDP_SEGMENT); where it cannot, each packet is a message.
 *
 * When the kernel's buffer is full, packets wait in the ring until the socket becomes writable;
 * only when the ring is full too does the sink drop them (`socket`). It drops what the kernel
 * reports as unreachable (`unreachable`) and goes on sending.
 *
 * Opened on a worker, then loop thread. Nothing is allocated after open.
 */
#include <assert.h>
#include <errno.h>
#include <math.h>
#include <netinet/udp.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <sys/socket.h>
#include <unistd.h>

#include "core/clock.h"
#include "core/log.h"
#include "wire/rtp.h"
#include "io/deadline.h"
#include "io/net/rtp_sink_options.h"
#include "io/net/sdp.h"
#include "io/sinks.h"
#include "io/net/socket.h"

enum {
    RING_BYTES = 4 << 20,
    SLOTS_MIN = 64,
    SLOTS_MAX = 4096,
    MESSAGES = 64,         /* of one call of sendmmsg */
    SEGMENTS_MAX = 64,     /* of a message: UDP_MAX_SEGMENTS of the older kernels */
    MESSAGE_BYTES = 65000, /* below what one UDP datagram can carry */
    EARLY_MESSAGES = 2,
    LOG_INTERVAL_S = 30,
};

union segment_control {
    struct cmsghdr align;
    uint8_t bytes[CMSG_SPACE(sizeof(uint16_t))];
};

struct sink {
    struct sink_options options;
    const struct rtp_sink_options *own;
    uv_loop_t *loop;
    int fd;
    uint32_t frame_bytes, packet_frames;
    double factor;              /* unit → normalised */
    char address[ADDRESS_TEXT]; /* for messages */

    /* the ring: slots [first, next) wait to be sent */
    uint32_t slots; /* a power of two */
    uint64_t first, next;
    size_t slot_bytes;
    uint32_t early_packets; /* so many waiting are sent before flush */
    uint8_t *buffers;       /* [slots][slot_bytes] */
    struct iovec *vectors;  /* [slots] */
    uint32_t *frames;       /* [slots] */

    /* the messages of one call */
    bool segments; /* the kernel cuts messages into segments */
    struct mmsghdr messages[MESSAGES];
    union segment_control controls[MESSAGES];

    uint32_t ssrc;
    uint16_t sequence;
    struct sink_ledger ledger;
    struct log_limit unreachable_limit, size_limit;

    uv_poll_t writable;
    uv_timer_t deadline;
    bool polled, blocked; /* blocked: waiting for `writable` */
    int open_handles;
    void (*closed)(void *context);
    void *closed_context;
};

/* ---- sending ----------------------------------------------------------------------------- */

static uint32_t oldest(const struct sink *s)
{
    return (uint32_t)(s->first & (s->slots - 1));
}

static void drop_oldest(struct sink *s, enum drop reason)
{
    uint32_t frames = s->frames[oldest(s)];
    s->ledger.dropped[reason] += frames;
    s->ledger.pending -= frames;
    s->first++;
}

static void count_sent(struct sink *s, const struct mmsghdr *message)
{
    for (size_t i = 0; i < message->msg_hdr.msg_iovlen; i++) {
        uint32_t slot = oldest(s), frames = s->frames[slot];
        s->ledger.delivered += frames;
        s->ledger.pending -= frames;
        s->ledger.packets++;
        s->ledger.bytes += s->vectors[slot].iov_len;
        s->first++;
    }
}

/* How many packets from `slot` on can share a message: all of one size, the last may be shorter. */
static uint32_t segments_from(const struct sink *s, uint32_t slot, uint64_t waiting)
{
    uint32_t most = s->segments ? SEGMENTS_MAX : 1, count = 0;
    size_t first_bytes = s->vectors[slot].iov_len, bytes = 0;
    while (count < most && count < waiting && slot + count < s->slots) {
        size_t next_bytes = s->vectors[slot + count].iov_len;
        if (next_bytes > first_bytes || (count > 0 && bytes + next_bytes > MESSAGE_BYTES))
            break;
        bytes += next_bytes;
        count++;
        if (next_bytes < first_bytes)
            break;
    }
    return count;
}

static unsigned make_messages(struct sink *s)
{
    unsigned count = 0;
    for (uint64_t at = s->first; at != s->next && count < MESSAGES; count++) {
        uint32_t slot = (uint32_t)(at & (s->slots - 1));
        uint32_t packets = segments_from(s, slot, s->next - at);
        struct msghdr *message = &s->messages[count].msg_hdr;
        *message = (struct msghdr){.msg_iov = &s->vectors[slot], .msg_iovlen = packets};
        if (packets > 1) {
            message->msg_control = &s->controls[count];
            message->msg_controllen = sizeof s->controls[count];
            struct cmsghdr *header = CMSG_FIRSTHDR(message);
            header->cmsg_level = SOL_UDP;
            header->cmsg_type = UDP_SEGMENT;
            header->cmsg_len = CMSG_LEN(sizeof(uint16_t));
            uint16_t bytes = (uint16_t)s->vectors[slot].iov_len;
            memcpy(CMSG_DATA(header), &bytes, sizeof bytes);
        }
        at += packets;
    }
    return count;
}

/* Handles the kernel's refusal of the oldest packet; true when the packet has to wait. */
static bool refused(struct sink *s, int reason)
{
    bool cut = s->messages[0].msg_hdr.msg_iovlen > 1;
    if (cut && (reason == EIO || reason == EINVAL || reason == EMSGSIZE || reason == EOPNOTSUPP ||
                reason == ENOPROTOOPT)) {
        s->segments = false; /* no checksums in hardware, or a smaller MTU on the route */
        return false;
    }
    switch (reason) {
    case EINTR:
        return false;
    case EAGAIN:
        return true;
    case ECONNREFUSED: /* ICMP of an earlier packet; this one was not sent either */
    case EHOSTUNREACH:
    case EHOSTDOWN:
    case ENETUNREACH:
    case ENETDOWN:
    case EPERM:
    case EACCES:
        drop_oldest(s, DROP_UNREACHABLE);
        log_limited(&s->unreachable_limit, LOG_INTERVAL_S * NS_PER_SECOND, LOG_LEVEL_NOTICE,
                    "sink %s: %s does not receive: %s", s->options.name, s->address,
                    reason == ECONNREFUSED ? "no program listens there" : strerror(reason));
        return false;
    default:
        drop_oldest(s, DROP_SOCKET);
        log_limited(&s->size_limit, LOG_INTERVAL_S * NS_PER_SECOND, LOG_LEVEL_WARNING,
                    "sink %s: sending to %s failed: %s%s", s->options.name, s->address,
                    strerror(reason),
                    reason == EMSGSIZE ? "; the way there takes smaller packets: lower `mtu`" : "");
        return false;
    }
}

static void wait_writable(struct sink *s);

static void send_waiting(struct sink *s)
{
    while (s->first != s->next) {
        int sent = sendmmsg(s->fd, s->messages, make_messages(s), MSG_DONTWAIT | MSG_NOSIGNAL);
        for (int i = 0; i < sent; i++)
            count_sent(s, &s->messages[i]);
        if (sent <= 0 && refused(s, errno)) {
            wait_writable(s);
            return;
        }
    }
    s->first = s->next = 0;
    if (s->blocked) {
        s->blocked = false;
        uv_poll_stop(&s->writable);
    }
}

static void finish_closing(struct sink *s);

static void became_writable(uv_poll_t *poll, int status, int events)
{
    struct sink *s = poll->data;
    (void)status, (void)events; /* sendmmsg reports an error */
    send_waiting(s);
    if (s->blocked)
        return;
    if (s->closed != NULL)
        finish_closing(s);
    else if (s->options.room_again != NULL)
        s->options.room_again(s->options.room_context);
}

static void wait_writable(struct sink *s)
{
    if (s->blocked)
        return;
    if (!s->polled) {
        if (uv_poll_init(s->loop, &s->writable, s->fd) != 0)
            return; /* the next flush tries again */
        s->polled = true;
        s->writable.data = s;
    }
    s->blocked = uv_poll_start(&s->writable, UV_WRITABLE, became_writable) == 0;
}

/* ---- packets ----------------------------------------------------------------------------- */

static uint32_t saturate32(int64_t value)
{
    return value < 0 ? 0 : value < (int64_t)UINT32_MAX ? (uint32_t)value : UINT32_MAX;
}

/* Marks what of the result's invalid ranges lies in frames [from, until). */
static void mark_invalid(const struct result *result, uint64_t from, uint64_t until,
                         struct rtp_result_info *info)
{
    uint64_t first = until, last = from;
    for (uint32_t i = 0; i < result->invalid_count; i++) {
        const struct invalid_range *range = &result->invalid[i];
        if (range->from >= until || range->until <= from)
            continue;
        first = range->from < first ? range->from : first;
        last = range->until > last ? range->until : last;
        info->causes |= (uint16_t)(1u << range->cause);
    }
    if (first >= last)
        return;
    info->flags |= RTP_INVALID;
    info->invalid_from = (uint16_t)(first > from ? first - from : 0);
    info->invalid_until = (uint16_t)((last < until ? last : until) - from);
}

static struct rtp_result_info info_of(const struct sink *s, const struct result *result,
                                      int64_t now_ns)
{
    uint32_t decimate = s->options.stream.decimate > 1 ? s->options.stream.decimate : 1;
    struct rtp_result_info info = {
        .egress_100ns = rtp_100ns(result->stage_ns[STAGE_EGRESS] + now_ns - result->delivered_ns),
        .clock = (uint8_t)result->clock,
        .flags = result->aligned ? RTP_ALIGNED : 0,
        .clock_error_ns = saturate32(result->clock_error_ns),
        .epoch = (uint32_t)result->epoch,
        .record = (uint32_t)result->record,
        .delay_half_frames = saturate32(llrint(2 * result->delay_frames * decimate)),
        .decimate = (uint16_t)decimate,
    };
    for (int stage = STAGE_ACCUMULATE; stage <= STAGE_DEVICE; stage++)
        info.stage_100ns[stage] = rtp_100ns(result->stage_ns[stage]);
    return info;
}

/* Builds the packet of frames [at, at + frames) of the result in the next free slot. */
static void build_packet(struct sink *s, const struct result *result,
                         const struct rtp_result_info *common, uint32_t at, uint32_t frames)
{
    bool first = at == 0, last = at + frames == result->frames;
    struct rtp_result_info info = *common;
    info.first_frame = result->first_frame + at;
    info.capture_ns = result->capture_ns + llrint(at / result->rate_hz * 1e9);
    if (first && result->flags & RESULT_EPOCH_START)
        info.flags |= RTP_EPOCH_START;
    if (last && result->flags & RESULT_EPOCH_END)
        info.flags |= RTP_EPOCH_END;
    mark_invalid(result, info.first_frame, info.first_frame + frames, &info);

    struct rtp_header header = {
        .marker = info.flags & RTP_EPOCH_START,
        .payload_type = (uint8_t)s->own->payload_type,
        .sequence = s->sequence++,
        .timestamp = (uint32_t)(result->timeline_frame + at),
        .ssrc = s->ssrc,
    };
    if (s->next - s->first == s->slots) {
        s->ledger.dropped[DROP_SOCKET] += frames;
        return;
    }
    uint32_t slot = (uint32_t)(s->next++ & (s->slots - 1));
    uint8_t *out = s->buffers + slot * s->slot_bytes;
    size_t used = rtp_build(out, &header, &info);
    assert(used == RTP_RESULT_HEADER_BYTES);
    uint32_t channels = s->options.stream.channels;
    if (frames > 0 && result->wire != NULL)
        memcpy(out + used, result->wire + (size_t)at * s->frame_bytes,
               (size_t)frames * s->frame_bytes);
    else if (frames > 0)
        s->ledger.saturated +=
            sample_encode_block(&s->options.format, result->samples + (size_t)at * channels,
                                (size_t)frames * channels, s->factor, out + used);
    s->vectors[slot].iov_len = used + (size_t)frames * s->frame_bytes;
    s->frames[slot] = frames;
    s->ledger.pending += frames;
}

static int64_t rtp_put(struct sink *s, const struct result *result)
{
    assert(result->flags & RESULT_RAW || result->channels == s->options.stream.channels);
    assert(result->wire == NULL || result->wire_format.format.bytes == s->options.format.bytes);
    if (result->flags & RESULT_RAW)
        return clock_monotonic_ns();
    struct rtp_result_info common = info_of(s, result, clock_monotonic_ns());
    s->ledger.frames += result->frames;
    s->ledger.saturated += result->saturated;
    uint32_t at = 0;
    /* A result without frames becomes a packet only to report that an epoch began or ended. */
    if (result->frames == 0 && result->flags & (RESULT_EPOCH_START | RESULT_EPOCH_END))
        build_packet(s, result, &common, 0, 0);
    while (at < result->frames) {
        uint32_t left = result->frames - at;
        uint32_t frames = left < s->packet_frames ? left : s->packet_frames;
        if (s->next - s->first == s->slots && !s->blocked)
            send_waiting(s);
        build_packet(s, result, &common, at, frames);
        at += frames;
        if (s->next - s->first >= s->early_packets && !s->blocked)
            send_waiting(s);
    }
    return clock_monotonic_ns();
}

static void rtp_flush(struct sink *s)
{
    if (!s->blocked)
        send_waiting(s);
}

static uint64_t rtp_room(const struct sink *s)
{
    return s->blocked ? 0 : UINT64_MAX;
}

static void rtp_ledger(const struct sink *s, struct sink_ledger *ledger)
{
    *ledger = s->ledger;
}

static struct result_format rtp_results(const struct sink_options *options)
{
    return (struct result_format){
        options->format, options->format.kind == SAMPLE_FLOAT ? 1 : 1 / options->full_scale};
}

/* ---- open -------------------------------------------------------------------------------- */

static int plan_packets(struct sink *s, bool v6, struct problem *problem)
{
    const struct sink_options *o = &s->options;
    uint32_t mtu = s->own->mtu > 0 ? s->own->mtu : RTP_MTU_DEFAULT;
    if (sdp_encoding_name(&o->format) == NULL) {
        char name[24];
        return problem_set(problem, ERROR_UNSUPPORTED,
                           "RTP does not carry the format %s here: write s16, s24, s32 or f32",
                           sample_format_name(&o->format, name));
    }
    s->frame_bytes = o->stream.channels * o->format.bytes;
    s->packet_frames = rtp_payload_bytes(v6, RTP_RESULT_HEADER_BYTES, mtu) / s->frame_bytes;
    if (s->packet_frames == 0)
        return problem_set(problem, ERROR_LIMIT,
                           "a frame of %u channels has %u bytes and does not fit packets of %u "
                           "with their headers: write mtu = %u or more, or a narrower `format`",
                           o->stream.channels, s->frame_bytes, mtu,
                           rtp_ip_bytes(v6, RTP_RESULT_HEADER_BYTES, s->frame_bytes));
    s->slot_bytes =
        ((size_t)RTP_RESULT_HEADER_BYTES + (size_t)s->packet_frames * s->frame_bytes + 63) & ~63u;
    uint32_t packets = (uint32_t)(MESSAGE_BYTES / s->slot_bytes);
    packets = packets < 1 ? 1 : packets < SEGMENTS_MAX ? packets : SEGMENTS_MAX;
    s->early_packets = EARLY_MESSAGES * packets;
    s->slots = SLOTS_MIN;
    while (s->slots < SLOTS_MAX && 2 * s->slots * s->slot_bytes <= RING_BYTES)
        s->slots *= 2;
    return 0;
}

static int make_ring(struct sink *s, struct problem *problem)
{
    s->buffers = malloc(s->slots * s->slot_bytes);
    s->vectors = calloc(s->slots, sizeof *s->vectors);
    s->frames = calloc(s->slots, sizeof *s->frames);
    if (s->buffers == NULL || s->vectors == NULL || s->frames == NULL)
        return problem_set(problem, ERROR_MEMORY, "no memory for the packets of a sink");
    for (uint32_t i = 0; i < s->slots; i++)
        s->vectors[i].iov_base = s->buffers + i * s->slot_bytes;
    return 0;
}

static void destroy(struct sink *s)
{
    if (s->fd >= 0)
        close(s->fd);
    free(s->buffers);
    free(s->vectors);
    free(s->frames);
    free(s);
}

static int write_sdp(const struct sink *s, const struct address *to, struct problem *problem)
{
    const struct sink_options *o = &s->options;
    struct sdp_media media = {
        .name = o->stream.name,
        .to = *to,
        .ttl = s->own->ttl,
        .payload_type = s->own->payload_type,
        .format = o->format,
        .rate_hz = o->stream.rate_hz,
        .decimate = o->stream.decimate > 1 ? o->stream.decimate : 1,
        .channels = o->stream.channels,
        .packet_frames = s->packet_frames,
        .ssrc = s->ssrc,
        .session = rtp_ntp_from_ns(clock_realtime_ns()),
        .full_scale = o->format.kind == SAMPLE_FLOAT ? 1 : o->full_scale,
        .delay_frames = o->stream.delay_frames,
    };
    socklen_t bytes = sizeof media.from;
    if (getsockname(s->fd, (struct sockaddr *)&media.from, &bytes) != 0)
        media.from = to->storage;
    return sdp_write(&media, s->own->sdp_path, problem);
}

static int rtp_open(const struct sink_options *options, const struct io_environment *environment,
                    struct sink **out, struct problem *problem)
{
    struct sink *s = calloc(1, sizeof *s);
    if (s == NULL)
        return problem_set(problem, ERROR_MEMORY, "no memory for a sink");
    const struct rtp_sink_options *own = options->own;
    s->options = *options;
    s->own = own;
    s->loop = environment->loop;
    s->fd = -1;
    s->segments = true;
    s->factor = rtp_results(options).factor;
    /* RFC 3550 section 5.1 asks for unpredictable initial values. */
    uint32_t chance[2] = {(uint32_t)clock_realtime_ns(), (uint32_t)clock_monotonic_ns()};
    if (getrandom(chance, sizeof chance, GRND_NONBLOCK) < 0)
        log_debug("sink %s: no random numbers yet; the clock serves", options->name);
    s->ssrc = own->ssrc_set ? own->ssrc : chance[0];
    s->sequence = (uint16_t)chance[1];

    struct address to;
    struct socket_send_options wanted = {
        .sink = options->name,
        .address = own->address,
        .interface = own->interface,
        .ttl = own->ttl,
        .buffer_bytes = own->send_buffer_bytes,
    };
    int error = socket_open_send(&wanted, &s->fd, &to, problem);
    if (error == 0)
        error = plan_packets(s, to.storage.ss_family == AF_INET6, problem);
    if (error == 0)
        error = make_ring(s, problem);
    if (error == 0 && own->sdp_path != NULL)
        error = write_sdp(s, &to, problem);
    if (error != 0) {
        destroy(s);
        return error;
    }
    address_text(&to.storage, s->address);
    *out = s;
    return 0;
}

/* ---- close ------------------------------------------------------------------------------- */

static void handle_closed(uv_handle_t *handle)
{
    struct sink *s = handle->data;
    if (--s->open_handles > 0)
        return;
    s->closed(s->closed_context);
    destroy(s);
}

static void finish_closing(struct sink *s)
{
    if (uv_is_closing((uv_handle_t *)&s->deadline))
        return;
    while (s->first != s->next)
        drop_oldest(s, DROP_STOPPED);
    s->open_handles = 1 + s->polled;
    uv_close((uv_handle_t *)&s->deadline, handle_closed);
    if (s->polled)
        uv_close((uv_handle_t *)&s->writable, handle_closed);
}

static void deadline_passed(uv_timer_t *timer)
{
    finish_closing(timer->data);
}

static void rtp_close(struct sink *s, int64_t deadline_ns, void (*closed)(void *context),
                      void *context)
{
    s->closed = closed;
    s->closed_context = context;
    uv_timer_init(s->loop, &s->deadline);
    s->deadline.data = s;
    rtp_flush(s);
    if (!s->blocked || deadline_ns <= clock_monotonic_ns())
        finish_closing(s);
    else
        deadline_start(&s->deadline, deadline_ns, deadline_passed);
}

const struct sink_ops sink_rtp = {
    .name = "rtp",
    .sentence = "packets to an address",
    .packets = "packets",
    .format = "f32be",
    .order = "RTP sends samples big-endian",
    .options = rtp_sink_rows,
    .option_count = RTP_SINK_ROWS,
    .options_bytes = sizeof(struct rtp_sink_options),
    .check = rtp_sink_check,
    .check_all = rtp_sink_check_all,
    .report = rtp_sink_report,
    .load = rtp_sink_load,
    .open = rtp_open,
    .put = rtp_put,
    .room = rtp_room,
    .flush = rtp_flush,
    .close = rtp_close,
    .wire = rtp_results,
    .ledger = rtp_ledger,
};
