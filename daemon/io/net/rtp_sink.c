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
 * are still in the cache (rtp_queue.h). The first packet after frames that the stream shed says
 * which ones and why; where several runs are missing, a packet without frames for each run goes
 * before it. When nothing has been sent for HEARTBEAT_MS, a heartbeat says that the daemon is alive
 * (wire/rtp.h).
 *
 * When the kernel's buffer is full, packets wait in the ring until the socket becomes writable;
 * only when the ring is full too does the sink drop them (`socket`). It drops what the kernel
 * reports as unreachable (`unreachable`) and goes on sending.
 *
 * Opened on a worker, then loop thread. Nothing is allocated after open.
 */
#include <assert.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "core/clock.h"
#include "core/log.h"
#include "wire/rtp.h"
#include "io/deadline.h"
#include "io/net/key_file.h"
#include "io/net/rtp_describe.h"
#include "io/net/rtp_numbers.h"
#include "io/net/rtp_queue.h"
#include "io/net/rtp_sink_options.h"
#include "io/net/sdp_file.h"
#include "io/sinks.h"
#include "io/net/socket.h"
#include "io/net/way.h"

enum {
    EARLY_MESSAGES = 2,
    HEARTBEAT_MS = 900, /* with a loop that is a little late: one a second at least */
};

/* Frames [from, until) of an epoch that are missing, for these causes; none: from = until. */
struct missing {
    uint64_t epoch, from, until;
    uint16_t causes;
};

/* What results say of gains that were changed while running. */
struct gain_state {
    uint32_t changes; /* 0: none was */
    bool differs;     /* from the configuration */
    uint64_t epoch, from;
};

struct sink {
    struct sink_options options;
    const struct rtp_sink_options *own;
    uv_loop_t *loop;
    int fd;
    struct way way; /* where the socket is connected, once it is there */
    uint32_t frame_bytes, packet_frames;
    double factor; /* unit → normalised */
    struct rtp_queue queue;
    size_t slot_bytes;      /* of the largest packet */
    uint32_t early_packets; /* so many waiting are sent before flush */

    uint32_t ssrc;
    uint16_t sequence;
    struct rtp_numbers in_partition;
    struct auth_key key; /* own->key is set */
    struct auth_numbers numbers;
    struct rtp_result_info newest; /* of the packet built last: heartbeats repeat what it says */
    uint32_t newest_timestamp;
    struct gain_state gain; /* of the frame sent last */
    struct missing missing; /* not reported yet: the packet that said so found no slot */
    struct sink_ledger ledger;
    struct sdp_file sdp;

    uv_poll_t writable;
    uv_timer_t deadline, heartbeat;
    uint64_t sent_ms;            /* uv_now of the last packet or heartbeat */
    bool error_due;              /* a heartbeat may have left an error of its own at the socket */
    bool polled, blocked, beats; /* blocked: waiting for `writable` */
    int open_handles;
    void (*closed)(void *context);
    void *closed_context;
};

/* ---- sending ----------------------------------------------------------------------------- */

static void wait_writable(struct sink *s);

/* Nobody listened when the heartbeat was sent: that must not cost the next packet. */
static void clear_error(struct sink *s)
{
    int error;
    socklen_t bytes = sizeof error;
    if (s->error_due)
        getsockopt(s->fd, SOL_SOCKET, SO_ERROR, &error, &bytes);
    s->error_due = false;
}

static void send_waiting(struct sink *s)
{
    clear_error(s);
    if (rtp_queue_waiting(&s->queue) > 0)
        s->sent_ms = uv_now(s->loop);
    if (!rtp_queue_send(&s->queue)) {
        wait_writable(s);
        return;
    }
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

/* Frames of a packet whose extension has so many bytes more. */
static uint32_t frames_beside(const struct sink *s, uint32_t bytes)
{
    const uint32_t payload_bytes = s->packet_frames * s->frame_bytes;
    return payload_bytes > bytes ? (payload_bytes - bytes) / s->frame_bytes : 0;
}

/* Adds the tag to a packet, where there is a key; returns its bytes. */
static size_t seal(struct sink *s, uint16_t sequence, uint8_t *packet, size_t bytes)
{
    return s->own->key != NULL ? auth_seal(&s->key, &s->numbers, sequence, packet, bytes) : bytes;
}

/* What one packet of a result says beyond its frames. */
struct portion {
    uint32_t at, frames;
    struct missing missing; /* before it */
    bool begins, ends;      /* the result */
};

/* Keeps what the packet would have said is missing for the next one. */
static void keep_missing(struct sink *s, const struct missing *missing)
{
    if (missing->from == missing->until)
        return;
    if (s->missing.from == s->missing.until || s->missing.epoch != missing->epoch) {
        s->missing = *missing;
        return;
    }
    s->missing.from = missing->from < s->missing.from ? missing->from : s->missing.from;
    s->missing.until = missing->until > s->missing.until ? missing->until : s->missing.until;
    s->missing.causes |= missing->causes;
}

/* The gains of frames [.., until) of the result: those before it, where it changes them later. */
static void say_gains(struct sink *s, const struct result *result, uint64_t until,
                      struct rtp_result_info *info)
{
    s->gain.from = s->gain.epoch == result->epoch ? s->gain.from : 0;
    s->gain.epoch = result->epoch;
    if (result->gains != NULL && result->gains_from < until)
        s->gain = (struct gain_state){result->gains->changes, !result->gains->configured,
                                      result->epoch, result->gains_from};
    if (s->gain.differs)
        info->flags |= RTP_GAIN;
    if (frames_beside(s, RTP_GAIN_BYTES) > 0) {
        info->gain_changes = s->gain.changes;
        info->gain_from = s->gain.from;
    }
}

/* Builds a packet of the result in the next free slot. */
static void build_packet(struct sink *s, const struct result *result,
                         const struct rtp_result_info *common, const struct portion *portion)
{
    const uint32_t at = portion->at, frames = portion->frames;
    struct rtp_result_info info = *common;
    info.first_frame = result->first_frame + at;
    info.capture_ns = result->capture_ns + llrint(at / result->rate_hz * 1e9);
    if (portion->begins && result->flags & RESULT_EPOCH_START)
        info.flags |= RTP_EPOCH_START;
    if (portion->ends && result->flags & RESULT_EPOCH_END)
        info.flags |= RTP_EPOCH_END;
    rtp_describe_frames(result, info.first_frame, info.first_frame + frames, &info);
    say_gains(s, result, info.first_frame + frames, &info);
    info.hole_from = portion->missing.from;
    const uint64_t missing = portion->missing.until - portion->missing.from;
    info.hole_frames = missing < UINT32_MAX ? (uint32_t)missing : UINT32_MAX;
    info.hole_causes = portion->missing.causes;

    struct rtp_header header = {
        .marker = info.flags & RTP_EPOCH_START,
        .payload_type = (uint8_t)s->own->payload_type,
        .sequence = rtp_numbers_sequence(&s->in_partition, result, at, &s->sequence),
        .timestamp = (uint32_t)(result->timeline_frame + at),
        .ssrc = s->ssrc,
    };
    if (rtp_queue_is_full(&s->queue)) {
        s->ledger.dropped[DROP_SOCKET] += frames;
        keep_missing(s, &portion->missing);
        return;
    }
    uint8_t *out = rtp_queue_slot(&s->queue);
    size_t used = rtp_build(out, &header, &info);
    uint32_t channels = s->options.stream.channels;
    if (frames > 0 && result->wire != NULL)
        memcpy(out + used, result->wire + (size_t)at * s->frame_bytes,
               (size_t)frames * s->frame_bytes);
    else if (frames > 0)
        s->ledger.saturated +=
            sample_encode_block(&s->options.format, result->samples + (size_t)at * channels,
                                (size_t)frames * channels, s->factor, out + used);
    used = seal(s, header.sequence, out, used + (size_t)frames * s->frame_bytes);
    rtp_queue_commit(&s->queue, used, frames);
    s->newest = info;
    s->newest.first_frame += frames;
    s->newest_timestamp = header.timestamp;
}

/* The next run missing before the result, of its ranges from *after on; none: from = until. */
static struct missing next_missing(const struct result *result, uint32_t *after)
{
    while (*after < result->invalid_count) {
        const struct invalid_range *range = &result->invalid[(*after)++];
        if (range->until <= result->first_frame)
            return (struct missing){result->epoch, range->from, range->until,
                                    (uint16_t)(1u << range->cause)};
    }
    return (struct missing){0};
}

static int64_t rtp_put(struct sink *s, const struct result *result)
{
    assert(result->flags & RESULT_RAW || result->channels == s->options.stream.channels);
    assert(result->wire == NULL || result->wire_format.format.bytes == s->options.format.bytes);
    if (result->flags & RESULT_RAW)
        return clock_monotonic_ns();
    const uint32_t decimate = s->options.stream.decimate > 1 ? s->options.stream.decimate : 1;
    const struct rtp_result_info common = rtp_describe(result, decimate, clock_monotonic_ns());
    s->ledger.frames += result->frames;
    s->ledger.saturated += result->saturated;
    uint32_t after = 0;
    uint32_t gain_bytes = result->gains != NULL || s->gain.changes > 0 ? RTP_GAIN_BYTES : 0;
    if (frames_beside(s, gain_bytes) == 0)
        gain_bytes = 0; /* the flag alone */
    struct portion portion = {.begins = true, .missing = s->missing};
    s->missing = (struct missing){0};
    if (portion.missing.from == portion.missing.until || portion.missing.epoch != result->epoch)
        portion.missing = next_missing(result, &after);
    while (portion.at < result->frames || portion.missing.from < portion.missing.until ||
           (portion.begins && result->flags & (RESULT_EPOCH_START | RESULT_EPOCH_END))) {
        const struct missing next = next_missing(result, &after);
        const uint32_t left = result->frames - portion.at;
        uint32_t most = frames_beside(s, gain_bytes);
        if (next.from < next.until) /* one packet reports one run */
            most = 0;
        else if (portion.missing.from < portion.missing.until)
            most = frames_beside(s, gain_bytes + RTP_HOLE_BYTES);
        const uint64_t first = result->first_frame + portion.at;
        portion.frames = rtp_numbers_frames(&s->in_partition, first, left < most ? left : most);
        portion.ends = portion.frames == left && next.from == next.until;
        if (rtp_queue_is_full(&s->queue) && !s->blocked)
            send_waiting(s);
        build_packet(s, result, &common, &portion);
        portion = (struct portion){.at = portion.at + portion.frames, .missing = next};
        if (rtp_queue_waiting(&s->queue) >= s->early_packets && !s->blocked)
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

static void rtp_identity(const struct sink *s, struct sink_identity *identity)
{
    *identity = (struct sink_identity){s->ssrc, s->sequence, socket_port(s->fd)};
}

/* The SSRC was taken at open, for the SDP file. */
static void rtp_assume(struct sink *s, const struct sink_identity *identity)
{
    s->sequence = identity->sequence;
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
    const uint32_t header_bytes = rtp_sink_header_bytes(s->own);
    if (sdp_encoding_name(&o->format) == NULL) {
        char name[24];
        return problem_set(problem, ERROR_UNSUPPORTED,
                           "RTP does not carry the format %s here: write s16, s24, s32 or f32",
                           sample_format_name(&o->format, name));
    }
    s->frame_bytes = o->stream.channels * o->format.bytes;
    s->packet_frames = rtp_payload_bytes(v6, header_bytes, mtu) / s->frame_bytes;
    if (s->packet_frames == 0)
        return problem_set(problem, ERROR_LIMIT,
                           "a frame of %u channels has %u bytes and does not fit packets of %u "
                           "with their headers: write mtu = %u or more, or a narrower `format`",
                           o->stream.channels, s->frame_bytes, mtu,
                           rtp_ip_bytes(v6, header_bytes, s->frame_bytes));
    const uint32_t payload_bytes = s->packet_frames * s->frame_bytes;
    s->slot_bytes = ((size_t)RTP_HEADER_BYTES_MAX + AUTH_TRAILER_BYTES + payload_bytes + 63) & ~63u;
    uint32_t packets = (uint32_t)(RTP_QUEUE_MESSAGE_BYTES / s->slot_bytes);
    packets = packets < 1 ? 1 : packets < RTP_QUEUE_SEGMENTS_MAX ? packets : RTP_QUEUE_SEGMENTS_MAX;
    s->early_packets = EARLY_MESSAGES * packets;
    s->in_partition = rtp_numbers_of(o, frames_beside(s, RTP_GAIN_BYTES + RTP_HOLE_BYTES));
    return 0;
}

static void destroy(struct sink *s)
{
    if (s->fd >= 0)
        close(s->fd);
    rtp_queue_close(&s->queue);
    explicit_bzero(&s->key, sizeof s->key);
    free(s);
}

static int write_sdp(struct sink *s, const struct address *to, struct problem *problem)
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
    return sdp_file_write(&s->sdp, &media, s->own->sdp_path, problem);
}

static void way_tried(void *context, bool found);

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
    s->factor = rtp_results(options).factor;
    s->newest.decimate = (uint16_t)(options->stream.decimate > 1 ? options->stream.decimate : 1);
    rtp_numbers_begin(options, &s->ssrc, &s->sequence);
    const uint16_t port = options->identity != NULL ? options->identity->port : 0;
    s->options.identity = NULL;

    s->way.options = (struct socket_send_options){
        .sink = options->name,
        .address = own->address,
        .interface = own->interface,
        .ttl = own->ttl,
        .buffer_bytes = own->send_buffer_bytes,
        .port = port,
    };
    struct problem absent;
    int error = socket_open_send(&s->way.options, &s->fd, &s->way.to, &absent);
    s->way.fd = s->fd;
    s->way.tried = way_tried;
    s->way.context = s;
    if (error == ERROR_ABSENT) {
        s->queue.lost_way = true;
        s->way.lost_ns = clock_monotonic_ns();
        log_warning("sink %s: waits for the network: %s; the daemon keeps trying", options->name,
                    absent.text);
        error = 0;
    } else if (error != 0 && problem != NULL) {
        *problem = absent;
    }
    if (error == 0 && own->key != NULL)
        error = key_file_derive(own->key, AUTH_RTP_RESULTS, &s->key, problem);
    auth_numbers_begin(&s->numbers, clock_realtime_ns());
    if (error == 0)
        error = plan_packets(s, s->way.to.storage.ss_family == AF_INET6, problem);
    if (error == 0)
        error =
            rtp_queue_open(&s->queue, s->options.name, s->fd, s->slot_bytes, &s->ledger, problem);
    if (error == 0 && own->sdp_path != NULL)
        error = write_sdp(s, &s->way.to, problem);
    if (error != 0) {
        destroy(s);
        return error;
    }
    address_text(&s->way.to.storage, s->queue.address);
    *out = s;
    return 0;
}

/* ---- heartbeats -------------------------------------------------------------------------- */

/* Packets that wait in the ring are sent before any heartbeat: it repeats the newest one's number.
 */
static void send_heartbeat(struct sink *s)
{
    struct rtp_result_info info = s->newest;
    info.flags = (uint8_t)(RTP_HEARTBEAT | (info.flags & (RTP_ALIGNED | RTP_GAIN)));
    info.causes = info.invalid_from = info.invalid_until = 0;
    info.hole_frames = 0;
    info.capture_ns = clock_realtime_ns();
    const struct rtp_header header = {
        .payload_type = RTP_HEARTBEAT_TYPE,
        .sequence = (uint16_t)(s->sequence - 1),
        .timestamp = s->newest_timestamp,
        .ssrc = s->ssrc,
    };
    uint8_t packet[RTP_HEADER_BYTES_MAX + AUTH_TRAILER_BYTES];
    if (rtp_queue_waiting(&s->queue) > 0 || s->in_partition.partition != NULL)
        return; /* of a partition: another daemon may send now */
    const size_t bytes = seal(s, header.sequence, packet, rtp_build(packet, &header, &info));
    clear_error(s);
    if (send(s->fd, packet, bytes, MSG_DONTWAIT | MSG_NOSIGNAL) >= 0)
        s->error_due = true; /* what it failed for concerns the next packet, which reports it */
}

static void beat(uv_timer_t *timer)
{
    struct sink *s = timer->data;
    if (s->queue.lost_way)
        way_find(&s->way, s->loop);
    const uint64_t now_ms = uv_now(s->loop), idle_ms = now_ms - s->sent_ms;
    if (idle_ms >= HEARTBEAT_MS) {
        send_heartbeat(s);
        s->sent_ms = now_ms;
    }
    uv_timer_start(timer, beat, s->sent_ms + HEARTBEAT_MS - now_ms, 0);
}

static void rtp_start(struct sink *s)
{
    s->beats = uv_timer_init(s->loop, &s->heartbeat) == 0;
    s->heartbeat.data = s;
    if (s->beats)
        beat(&s->heartbeat);
}

/* ---- close ------------------------------------------------------------------------------- */

static void one_closed(struct sink *s)
{
    if (--s->open_handles > 0)
        return;
    s->closed(s->closed_context);
    destroy(s);
}

static void handle_closed(uv_handle_t *handle)
{
    one_closed(handle->data);
}

static void sdp_removed(void *context)
{
    one_closed(context);
}

static void way_tried(void *context, bool found)
{
    struct sink *s = context;
    if (found)
        s->queue.lost_way = false;
    if (s->closed != NULL && uv_is_closing((uv_handle_t *)&s->deadline))
        one_closed(s); /* finish_closing waits for it */
}

static void finish_closing(struct sink *s)
{
    if (uv_is_closing((uv_handle_t *)&s->deadline))
        return;
    rtp_queue_drop(&s->queue, DROP_STOPPED);
    s->open_handles =
        1 + s->polled + s->beats + s->way.busy + sdp_file_remove(&s->sdp, s->loop, sdp_removed, s);
    if (s->beats)
        uv_close((uv_handle_t *)&s->heartbeat, handle_closed);
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
    .memory = rtp_sink_memory,
    .load = rtp_sink_load,
    .open = rtp_open,
    .start = rtp_start,
    .put = rtp_put,
    .room = rtp_room,
    .flush = rtp_flush,
    .close = rtp_close,
    .wire = rtp_results,
    .ledger = rtp_ledger,
    .identity = rtp_identity,
    .assume = rtp_assume,
    .numbered = true,
};
