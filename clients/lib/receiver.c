/*
 * Receiver: turns the datagrams of a result stream into blocks of samples with the daemon's
 * description of them. A datagram passes these checks, each with a counter of its own:
 *
 *     recvmmsg → length → RTP → payload type → whole frames → sender → sequence → block
 *
 * Sequence numbers prove loss, order and duplicates (within the last WINDOW_PACKETS); frame numbers
 * from the header extension say where samples belong. The receiver holds nothing back: it delivers
 * a late packet late, with its own frame number.
 *
 * A receiver belongs to one thread. Nothing is allocated after open. For any input, no read goes
 * beyond a datagram and the ledger adds up.
 */
#include "convolv.h"

#include <assert.h>
#include <errno.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "internal.h"
#include "wire/auth.h"
#include "wire/rtp.h"
#include "wire/format.h"

enum {
    BATCH = 32,
    BUFFER_BYTES = 65536,
    CONTROL_BYTES = 128,
    WINDOW_PACKETS = 8192, /* a power of two below 2^15 */
    EPOCHS_KEPT = 4,       /* so that late packets of earlier epochs still count there */
};

union control {
    struct cmsghdr align;
    char bytes[CONTROL_BYTES];
};

/* Progress of an epoch: its first frame that is neither seen nor counted as lost. */
struct epoch_progress {
    bool used;
    uint32_t epoch;
    uint64_t next_frame;
};

struct convolv_receiver {
    /* immutable after open */
    int descriptor; /* -1: fed by the caller */
    struct sample_format format;
    uint32_t channels, frame_bytes;
    double scale;

    /* the sender followed */
    int payload_type; /* -1: not learnt */
    bool started;
    uint32_t ssrc;
    bool candidate;
    uint32_t candidate_ssrc;
    uint16_t candidate_sequence;

    /* extended numbers of the newest packet */
    uint64_t first_sequence, newest_sequence;
    uint64_t first_timestamp, newest_timestamp;
    uint64_t seen[WINDOW_PACKETS / 64];

    struct epoch_progress epochs[EPOCHS_KEPT];
    uint32_t epoch_slot; /* of epochs[]: the next to be reused */
    uint32_t own_epoch;  /* epoch number of undescribed packets */

    /* datagrams read and not yet checked */
    uint32_t pending_from, pending_until;
    uint8_t *buffers;
    struct mmsghdr messages[BATCH];
    struct iovec vectors[BATCH];
    union control controls[BATCH];
    uint32_t drops_seen; /* SO_RXQ_OVFL, 32 bits that wrap */

    bool authenticates;
    struct auth_key key;
    struct auth_window window;

    double *values;
    int64_t
        heard_ns; /* monotonic: the newest packet or heartbeat of the sender followed; 0: none */
    struct convolv_receiver_ledger ledger;
};

void convolv_receiver_defaults(struct convolv_receiver_options *options)
{
    *options = (struct convolv_receiver_options){
        .format = "f32be",
        .channels = 1,
        .rate_hz = 48000,
        .full_scale = 1,
        .payload_type = -1,
        .receive_buffer_bytes = 16u << 20,
    };
}

/* ---- opening ----------------------------------------------------------------------------- */

static int join_group(int descriptor, const struct convolv__address *address, unsigned interface)
{
    if (address->family == AF_INET) {
        struct sockaddr_in v4;
        memcpy(&v4, &address->storage, sizeof v4);
        const struct ip_mreqn request = {.imr_multiaddr = v4.sin_addr,
                                         .imr_ifindex = (int)interface};
        return setsockopt(descriptor, IPPROTO_IP, IP_ADD_MEMBERSHIP, &request, sizeof request);
    }
    struct sockaddr_in6 v6;
    memcpy(&v6, &address->storage, sizeof v6);
    const struct ipv6_mreq request = {.ipv6mr_multiaddr = v6.sin6_addr,
                                      .ipv6mr_interface = interface};
    return setsockopt(descriptor, IPPROTO_IPV6, IPV6_ADD_MEMBERSHIP, &request, sizeof request);
}

static int open_socket(struct convolv_receiver *receiver,
                       const struct convolv_receiver_options *options,
                       struct convolv_problem *problem)
{
    struct convolv__address address;
    int status = convolv__resolve(options->address, true, &address, problem);
    if (status != CONVOLV_OK)
        return status;
    unsigned interface = 0;
    status = convolv__interface(options->interface, &interface, problem);
    if (status != CONVOLV_OK)
        return status;
    int descriptor = socket(address.family, SOCK_DGRAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    if (descriptor < 0)
        return convolv__problem(problem, CONVOLV_ERROR_SYSTEM, "socket: %s", strerror(errno));
    receiver->descriptor = descriptor;
    const int on = 1;
    bool multicast = convolv__is_multicast(&address);
    if (multicast) /* several receivers of one group on one machine are normal */
        setsockopt(descriptor, SOL_SOCKET, SO_REUSEADDR, &on, sizeof on);
    uint64_t wanted =
        options->receive_buffer_bytes < (1u << 30) ? options->receive_buffer_bytes : 1u << 30;
    int bytes = (int)wanted;
    if (setsockopt(descriptor, SOL_SOCKET, SO_RCVBUFFORCE, &bytes, sizeof bytes) != 0)
        setsockopt(descriptor, SOL_SOCKET, SO_RCVBUF, &bytes, sizeof bytes);
    socklen_t length = sizeof bytes;
    if (getsockopt(descriptor, SOL_SOCKET, SO_RCVBUF, &bytes, &length) == 0)
        receiver->ledger.receive_buffer_bytes =
            (uint64_t)bytes / 2; /* the kernel doubles for its own use */
    setsockopt(descriptor, SOL_SOCKET, SO_TIMESTAMPNS, &on, sizeof on);
    setsockopt(descriptor, SOL_SOCKET, SO_RXQ_OVFL, &on, sizeof on);
    if (bind(descriptor, (const struct sockaddr *)&address.storage, address.bytes) != 0)
        return convolv__problem(
            problem, CONVOLV_ERROR_ADDRESS, "cannot receive on %s: %s%s", options->address,
            strerror(errno),
            errno == EADDRINUSE ? " (another program listens there: choose another port)" : "");
    if (multicast && join_group(descriptor, &address, interface) != 0)
        return convolv__problem(problem, CONVOLV_ERROR_ADDRESS,
                                "cannot join %s: %s (name the interface, as `ip link` lists it)",
                                options->address, strerror(errno));
    return CONVOLV_OK;
}

static int check_options(const struct convolv_receiver_options *options,
                         struct sample_format *format, struct convolv_problem *problem)
{
    if (sample_format_parse(options->format, format) != 0)
        return convolv__problem(problem, CONVOLV_ERROR_ARGUMENT,
                                "'%s' is no sample format: write L16, L24, s32be or f32be",
                                options->format);
    if (options->channels < 1 || options->channels > CONVOLV_CHANNELS_MAX)
        return convolv__problem(problem, CONVOLV_ERROR_ARGUMENT, "channels: give 1 to 1024");
    if (!(options->full_scale > 0) || !(options->rate_hz > 0))
        return convolv__problem(problem, CONVOLV_ERROR_ARGUMENT,
                                "full scale and rate: give values above 0");
    if (options->payload_type > 127)
        return convolv__problem(problem, CONVOLV_ERROR_ARGUMENT,
                                "payload type: give 0 to 127, or -1 to learn it");
    return CONVOLV_OK;
}

int convolv_receiver_open(const struct convolv_receiver_options *options,
                          struct convolv_receiver **out, struct convolv_problem *problem)
{
    *out = NULL;
    struct sample_format format;
    int status = check_options(options, &format, problem);
    if (status != CONVOLV_OK)
        return status;
    struct convolv_receiver *receiver = calloc(1, sizeof *receiver);
    if (receiver == NULL)
        return convolv__problem(problem, CONVOLV_ERROR_MEMORY, "out of memory");
    receiver->descriptor = -1;
    receiver->format = format;
    receiver->channels = options->channels;
    receiver->frame_bytes = options->channels * format.bytes;
    receiver->scale = format.kind == SAMPLE_FLOAT ? 1.0 : options->full_scale;
    receiver->payload_type = options->payload_type < 0 ? -1 : options->payload_type;
    receiver->authenticates = options->key != NULL;
    if (receiver->authenticates)
        auth_key_derive(options->key, AUTH_RTP_RESULTS, &receiver->key);
    receiver->values = malloc(CONVOLV_DATAGRAM_MAX * sizeof *receiver->values);
    bool listens = options->address[0] != '\0';
    if (listens)
        receiver->buffers = malloc((size_t)BATCH * BUFFER_BYTES);
    if (receiver->values == NULL || (listens && receiver->buffers == NULL))
        status = convolv__problem(problem, CONVOLV_ERROR_MEMORY, "out of memory");
    else if (listens)
        status = open_socket(receiver, options, problem);
    if (status != CONVOLV_OK) {
        convolv_receiver_close(receiver);
        return status;
    }
    *out = receiver;
    return CONVOLV_OK;
}

void convolv_receiver_close(struct convolv_receiver *receiver)
{
    if (receiver == NULL)
        return;
    if (receiver->descriptor >= 0)
        close(receiver->descriptor);
    free(receiver->buffers);
    free(receiver->values);
    explicit_bzero(&receiver->key, sizeof receiver->key);
    free(receiver);
}

int convolv_receiver_descriptor(const struct convolv_receiver *receiver)
{
    return receiver->descriptor;
}

uint16_t convolv_receiver_port(const struct convolv_receiver *receiver)
{
    struct sockaddr_storage storage;
    socklen_t length = sizeof storage;
    if (receiver->descriptor < 0 ||
        getsockname(receiver->descriptor, (struct sockaddr *)&storage, &length) != 0)
        return 0;
    in_port_t port; /* at the same offset in both families */
    memcpy(&port, (const char *)&storage + offsetof(struct sockaddr_in, sin_port), sizeof port);
    return ntohs(port);
}

/* ---- sender and sequence ----------------------------------------------------------------- */

static uint64_t *window_word(struct convolv_receiver *receiver, uint64_t sequence)
{
    return &receiver->seen[(sequence % WINDOW_PACKETS) / 64];
}

static uint64_t window_bit(uint64_t sequence)
{
    return UINT64_C(1) << (sequence % 64);
}

/* True when this sender is the one followed. Two packets in order prove a new sender, which it then
 * follows. */
static bool follow_sender(struct convolv_receiver *receiver, const struct rtp_header *header)
{
    if (receiver->started && header->ssrc == receiver->ssrc)
        return true;
    bool proven =
        !receiver->started || (receiver->candidate && receiver->candidate_ssrc == header->ssrc &&
                               receiver->candidate_sequence == header->sequence);
    if (!proven) {
        receiver->candidate = true;
        receiver->candidate_ssrc = header->ssrc;
        receiver->candidate_sequence = (uint16_t)(header->sequence + 1);
        return false;
    }
    if (receiver->started)
        receiver->own_epoch++;
    receiver->started = true;
    receiver->candidate = false;
    receiver->ssrc = header->ssrc;
    /* One cycle above zero, so that packets older than the first have numbers too. */
    receiver->first_sequence = receiver->newest_sequence = 0x10000u + header->sequence;
    receiver->first_timestamp = receiver->newest_timestamp =
        (UINT64_C(1) << 32) + header->timestamp;
    memset(receiver->seen, 0, sizeof receiver->seen);
    receiver->ledger.senders++;
    return true;
}

enum sequence_answer { SEQUENCE_NEW, SEQUENCE_LATE, SEQUENCE_DUPLICATE, SEQUENCE_OLD };

static enum sequence_answer extend_sequence(struct convolv_receiver *receiver, uint16_t wire,
                                            uint64_t *sequence, uint64_t *lost_before)
{
    int16_t step = (int16_t)(uint16_t)(wire - (uint16_t)receiver->newest_sequence);
    *sequence = receiver->newest_sequence + (uint64_t)(int64_t)step;
    *lost_before = 0;
    uint64_t *word = window_word(receiver, *sequence), bit = window_bit(*sequence);
    if (step > 0) {
        if (step >= WINDOW_PACKETS) {
            memset(receiver->seen, 0, sizeof receiver->seen);
        } else {
            for (uint64_t s = receiver->newest_sequence + 1; s < *sequence; s++)
                *window_word(receiver, s) &= ~window_bit(s);
        }
        *word |= bit;
        receiver->newest_sequence = *sequence;
        *lost_before = (uint64_t)step - 1;
        receiver->ledger.lost += *lost_before;
        return SEQUENCE_NEW;
    }
    if (-step >= WINDOW_PACKETS)
        return SEQUENCE_OLD;
    if (*word & bit)
        return SEQUENCE_DUPLICATE;
    *word |= bit;
    if (step == 0)
        return SEQUENCE_NEW; /* the very first */
    if (*sequence < receiver->first_sequence) {
        receiver->ledger.lost += receiver->first_sequence - *sequence - 1;
        receiver->first_sequence = *sequence;
    } else {
        assert(receiver->ledger.lost > 0);
        receiver->ledger.lost--;
    }
    return SEQUENCE_LATE;
}

/* Frames that the daemon could not compute; those that may be wrong have come. */
static uint64_t frames_shed(const struct convolv_block *block)
{
    const bool came = block->hole_causes == 1u << CONVOLV_CAUSE_UNCERTAIN;
    return came ? 0 : block->hole_until - block->hole_from;
}

/* Counts frames missing inside epochs; a late block takes back those that it brings. */
static void count_frames(struct convolv_receiver *receiver, const struct convolv_block *block)
{
    struct epoch_progress *progress = NULL;
    for (int i = 0; i < EPOCHS_KEPT; i++)
        if (receiver->epochs[i].used && receiver->epochs[i].epoch == block->epoch)
            progress = &receiver->epochs[i];
    if (progress == NULL) {
        progress = &receiver->epochs[receiver->epoch_slot++ % EPOCHS_KEPT];
        /* The receiver joined while the first epoch was running: earlier frames are not lost. */
        uint64_t begin = receiver->ledger.epochs == 0 ? block->first_frame : 0;
        *progress =
            (struct epoch_progress){.used = true, .epoch = block->epoch, .next_frame = begin};
        receiver->ledger.epochs++;
    }
    if (block->first_frame >= progress->next_frame) {
        /* Time stamps of another program's stream also jump at a pause, where no packet is missing.
         */
        if (block->described || block->lost_before > 0)
            receiver->ledger.frames_lost += block->first_frame - progress->next_frame;
        progress->next_frame = block->first_frame + block->frames;
    } else if (receiver->ledger.frames_lost >= block->frames) {
        receiver->ledger.frames_lost -= block->frames;
    } else {
        receiver->ledger.frames_lost = 0;
    }
}

static int64_t now_ns(clockid_t clock)
{
    struct timespec time;
    clock_gettime(clock, &time);
    return (int64_t)time.tv_sec * 1000000000 + time.tv_nsec;
}

/* ---- one datagram ------------------------------------------------------------------------ */

static int reject(struct convolv_receiver *receiver, enum convolv_reject why)
{
    receiver->ledger.rejected[why]++;
    return 0;
}

static void describe(struct convolv_block *block, const struct rtp_result_info *info)
{
    block->described = true;
    block->first_frame = info->first_frame;
    block->epoch = info->epoch;
    block->record = info->record;
    block->epoch_start = info->flags & RTP_EPOCH_START;
    block->epoch_end = info->flags & RTP_EPOCH_END;
    block->aligned = info->flags & RTP_ALIGNED;
    block->partial = info->flags & RTP_PARTIAL;
    block->invalid_until =
        info->invalid_until < block->frames ? info->invalid_until : block->frames;
    block->invalid_from =
        info->invalid_from < block->invalid_until ? info->invalid_from : block->invalid_until;
    if (!(info->flags & RTP_INVALID))
        block->invalid_from = block->invalid_until = 0;
    block->causes = info->causes;
    block->gain_differs = info->flags & RTP_GAIN;
    block->gain_changes = info->gain_changes;
    block->gain_from = info->gain_from;
    block->hole_from = info->hole_from;
    block->hole_until = info->hole_from + info->hole_frames;
    block->hole_causes = info->hole_causes;
    block->capture_ns = info->capture_ns;
    block->clock = info->clock;
    block->clock_error_ns = info->clock_error_ns;
    block->delay_frames = info->delay_half_frames / 2.0 / info->decimate;
    block->decimate = info->decimate;
    for (int i = 0; i < 4; i++)
        block->stage_ns[i] = (int64_t)info->stage_100ns[i] * 100;
    block->stage_ns[CONVOLV_STAGE_EGRESS] = (int64_t)info->egress_100ns * 100;
}

/* A heartbeat repeats the number of the newest packet, so that it is none of the sequence. */
static int take_heartbeat(struct convolv_receiver *receiver, const struct rtp_header *header)
{
    if (receiver->started && header->ssrc != receiver->ssrc)
        return reject(receiver, CONVOLV_REJECT_SSRC);
    receiver->heard_ns = now_ns(CLOCK_MONOTONIC);
    receiver->ledger.heartbeats++;
    return 0;
}

int64_t convolv_receiver_quiet_ns(const struct convolv_receiver *receiver)
{
    return receiver->heard_ns != 0 ? now_ns(CLOCK_MONOTONIC) - receiver->heard_ns : INT64_MAX;
}

int convolv_receiver_feed(struct convolv_receiver *receiver, const uint8_t *datagram, size_t bytes,
                          int64_t receive_ns, struct convolv_block *block)
{
    receiver->ledger.datagrams++;
    struct rtp_packet packet;
    if (bytes > CONVOLV_DATAGRAM_MAX)
        return reject(receiver, CONVOLV_REJECT_TRUNCATED);
    if (rtp_parse(datagram, bytes, &packet) != RTP_OK)
        return reject(receiver, CONVOLV_REJECT_MALFORMED);
    if (receiver->authenticates) {
        enum auth_verdict verdict =
            auth_open(&receiver->key, &receiver->window, packet.header.sequence, datagram, bytes);
        if (verdict != AUTH_OK)
            return reject(receiver,
                          verdict == AUTH_REPLAY ? CONVOLV_REJECT_REPLAY : CONVOLV_REJECT_AUTH);
    }
    struct rtp_result_info info;
    bool described = rtp_parse_result_info(&packet, &info);
    if (described && rtp_is_heartbeat(&packet, &info))
        return take_heartbeat(receiver, &packet.header);
    if (receiver->payload_type >= 0 && packet.header.payload_type != receiver->payload_type)
        return reject(receiver, CONVOLV_REJECT_PAYLOAD_TYPE);
    /* A packet without frames reports that an epoch began or ended. */
    bool reports_epoch = described && info.flags & (RTP_EPOCH_START | RTP_EPOCH_END);
    if (packet.payload_bytes % receiver->frame_bytes != 0 ||
        (packet.payload_bytes == 0 && !reports_epoch))
        return reject(receiver, CONVOLV_REJECT_SIZE);
    /* more frames than any stream can have */
    if (described && (info.first_frame > UINT64_MAX / 4 || info.hole_from > info.first_frame))
        return reject(receiver, CONVOLV_REJECT_MALFORMED);
    if (!follow_sender(receiver, &packet.header))
        return reject(receiver, CONVOLV_REJECT_SSRC);

    int32_t time_step = (int32_t)(packet.header.timestamp - (uint32_t)receiver->newest_timestamp);
    uint64_t timestamp = receiver->newest_timestamp + (uint64_t)(int64_t)time_step;
    if (!described && timestamp < receiver->first_timestamp)
        return reject(receiver, CONVOLV_REJECT_OLD); /* its frame number would be negative */
    uint64_t sequence, lost_before;
    enum sequence_answer answer =
        extend_sequence(receiver, packet.header.sequence, &sequence, &lost_before);
    if (answer == SEQUENCE_DUPLICATE)
        return reject(receiver, CONVOLV_REJECT_DUPLICATE);
    if (answer == SEQUENCE_OLD)
        return reject(receiver, CONVOLV_REJECT_OLD);
    if (timestamp > receiver->newest_timestamp)
        receiver->newest_timestamp = timestamp;
    receiver->payload_type = packet.header.payload_type;

    *block = (struct convolv_block){
        .first_frame = timestamp - receiver->first_timestamp,
        .epoch = receiver->own_epoch,
        .frames = (uint32_t)(packet.payload_bytes / receiver->frame_bytes),
        .channels = receiver->channels,
        .samples = receiver->values,
        .receive_ns = receive_ns,
        .sequence = sequence,
        .timestamp = timestamp,
        .marker = packet.header.marker,
        .lost_before = lost_before,
        .late = answer == SEQUENCE_LATE,
    };
    if (described)
        describe(block, &info);
    else
        receiver->ledger.undescribed++;
    sample_decode_block(&receiver->format, packet.payload, block->frames, receiver->channels,
                        receiver->values);
    if (receiver->scale != 1.0)
        for (size_t i = 0; i < (size_t)block->frames * receiver->channels; i++)
            receiver->values[i] *= receiver->scale;

    count_frames(receiver, block);
    receiver->heard_ns = now_ns(CLOCK_MONOTONIC);
    receiver->ledger.frames_shed += frames_shed(block);
    receiver->ledger.accepted++;
    receiver->ledger.reordered += block->late;
    receiver->ledger.frames += block->frames;
    receiver->ledger.frames_invalid += block->invalid_until - block->invalid_from;
    return 1;
}

/* ---- the socket -------------------------------------------------------------------------- */

/* Kernel receive time of a message, and the socket's drop count. */
static int64_t read_control(struct convolv_receiver *receiver, struct msghdr *header)
{
    int64_t receive_ns = 0;
    for (struct cmsghdr *element = CMSG_FIRSTHDR(header); element != NULL;
         element = CMSG_NXTHDR(header, element)) {
        if (element->cmsg_level != SOL_SOCKET)
            continue;
        if (element->cmsg_type == SCM_TIMESTAMPNS) {
            struct timespec time;
            memcpy(&time, CMSG_DATA(element), sizeof time);
            receive_ns = (int64_t)time.tv_sec * 1000000000 + time.tv_nsec;
        } else if (element->cmsg_type == SO_RXQ_OVFL) {
            uint32_t drops;
            memcpy(&drops, CMSG_DATA(element), sizeof drops);
            receiver->ledger.kernel_drops += (uint32_t)(drops - receiver->drops_seen);
            receiver->drops_seen = drops;
        }
    }
    return receive_ns != 0 ? receive_ns : now_ns(CLOCK_REALTIME);
}

/* Reads what the kernel has. Returns how many datagrams, 0 when none, or an error. */
static int read_batch(struct convolv_receiver *receiver)
{
    for (int i = 0; i < BATCH; i++) {
        receiver->vectors[i] =
            (struct iovec){receiver->buffers + (size_t)i * BUFFER_BYTES, BUFFER_BYTES};
        receiver->messages[i].msg_hdr = (struct msghdr){
            .msg_iov = &receiver->vectors[i],
            .msg_iovlen = 1,
            .msg_control = receiver->controls[i].bytes,
            .msg_controllen = CONTROL_BYTES,
        };
    }
    int count = recvmmsg(receiver->descriptor, receiver->messages, BATCH, MSG_DONTWAIT, NULL);
    if (count < 0)
        return errno == EAGAIN || errno == EINTR || errno == ECONNREFUSED ? 0
                                                                          : CONVOLV_ERROR_SYSTEM;
    receiver->pending_from = 0;
    receiver->pending_until = (uint32_t)count;
    return count;
}

int convolv_receiver_next(struct convolv_receiver *receiver, int timeout_ms,
                          struct convolv_block *block)
{
    if (receiver->descriptor < 0)
        return CONVOLV_ERROR_ARGUMENT;
    int64_t deadline =
        timeout_ms < 0 ? INT64_MAX : now_ns(CLOCK_MONOTONIC) + (int64_t)timeout_ms * 1000000;
    for (;;) {
        while (receiver->pending_from < receiver->pending_until) {
            uint32_t i = receiver->pending_from++;
            int64_t receive_ns = read_control(receiver, &receiver->messages[i].msg_hdr);
            if (convolv_receiver_feed(receiver, receiver->vectors[i].iov_base,
                                      receiver->messages[i].msg_len, receive_ns, block) == 1)
                return 1;
        }
        int count = read_batch(receiver);
        if (count < 0)
            return count;
        if (count > 0)
            continue;
        int64_t left_ns = deadline == INT64_MAX ? INT64_MAX : deadline - now_ns(CLOCK_MONOTONIC);
        if (left_ns <= 0)
            return 0;
        int wait_ms = left_ns == INT64_MAX ? -1 : (int)((left_ns + 999999) / 1000000);
        struct pollfd readable = {.fd = receiver->descriptor, .events = POLLIN};
        if (poll(&readable, 1, wait_ms) < 0)
            return errno == EINTR
                       ? 0
                       : CONVOLV_ERROR_SYSTEM; /* a signal: the caller may want to stop */
    }
}

void convolv_receiver_ledger(const struct convolv_receiver *receiver,
                             struct convolv_receiver_ledger *ledger)
{
    *ledger = receiver->ledger;
}
