/*
 * Sender: turns frames into datagrams, queues them back to back in one buffer and passes them to
 * the kernel a batch at a time.
 *
 *     queue  |dg 0|dg 1|dg 2|…|dg n|          sizes[]: bytes of each
 *     groups |----- equal ----|-dg n-|        one message each: with UDP_SEGMENT the kernel cuts
 *                                             a group of equal datagrams (the last may be shorter)
 *
 * Without UDP_SEGMENT every group is one datagram. A sender belongs to one thread. Every datagram
 * built or emitted is exactly one of: queued, taken by the kernel, failed.
 */
#include "convolv.h"

#include <assert.h>
#include <errno.h>
#include <netinet/udp.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "internal.h"
#include "wire/auth.h"
#include "wire/rtp.h"
#include "wire/format.h"

#ifndef UDP_SEGMENT
#define UDP_SEGMENT 103
#endif

enum {
    BATCH_MAX = 1024,
    SEGMENTS_MAX = 64,       /* UDP_MAX_SEGMENTS of the kernels before 6.x */
    UDP_PAYLOAD_MAX = 65507, /* 65535 less the smaller IP header and UDP's */
    SEQUENCE_BYTES = 8,
    RETRY_NS = 100000,   /* between retries when the kernel is short of memory */
    RETRIES_MAX = 10000, /* 1 s, then the datagram counts as failed */
};

union segment_control {
    struct cmsghdr align;
    char bytes[CMSG_SPACE(sizeof(uint16_t))];
};

struct convolv_sender {
    /* immutable after open */
    int descriptor;
    enum convolv_framing framing;
    struct sample_format format;
    uint32_t channels, frame_bytes, packet_frames, header_bytes;
    uint32_t trailer_bytes; /* of the tag; 0: none */
    uint8_t payload_type;
    bool sequence_big_endian;
    uint32_t batch;
    size_t queue_bytes;

    /* numbers of the next datagram */
    uint64_t sequence;
    uint32_t timestamp, ssrc;
    struct auth_key key;
    struct auth_numbers numbers;

    /* queued datagrams */
    bool segment;
    uint8_t *queue;
    size_t used;
    uint32_t count;
    uint32_t *sizes;                 /* [batch] */
    struct mmsghdr *messages;        /* [batch] */
    struct iovec *vectors;           /* [batch] */
    union segment_control *controls; /* [batch] */
    uint32_t *group_sizes;           /* [batch]: datagrams of each message */
    uint8_t *scratch;                /* one datagram */
    uint8_t *encoded;                /* one payload */

    struct convolv_sender_ledger ledger;
};

void convolv_sender_defaults(struct convolv_sender_options *options)
{
    *options = (struct convolv_sender_options){
        .framing = CONVOLV_FRAMING_RTP,
        .format = "L16",
        .channels = 1,
        .mtu = RTP_MTU_DEFAULT,
        .payload_type = 96,
        .ssrc = 1,
        .ttl = 1,
        .batch = 32,
    };
}

/* ---- opening ----------------------------------------------------------------------------- */

static int check_options(const struct convolv_sender_options *options, struct sample_format *format,
                         struct convolv_problem *problem)
{
    if (options->format == NULL || sample_format_parse(options->format, format) != 0)
        return convolv__problem(
            problem, CONVOLV_ERROR_ARGUMENT,
            "'%s' is no sample format: write L16, L24, s32be, f32be, u8, s16le …",
            options->format == NULL ? "" : options->format);
    if (options->bits != 0) {
        format->bits = options->bits < 33 ? (uint8_t)options->bits : 33;
        format->left = options->justify_left && options->bits < 8u * format->bytes;
    }
    if (!sample_format_valid(format))
        return convolv__problem(problem, CONVOLV_ERROR_ARGUMENT,
                                "%u bits do not fit the format %s: give 2 to %u", options->bits,
                                options->format, 8u * format->bytes);
    const struct {
        bool wrong;
        const char *sentence;
    } checks[] = {
        {options->channels < 1 || options->channels > CONVOLV_CHANNELS_MAX,
         "channels: give 1 to 1024"},
        {options->mtu < 68 || options->mtu > 65535, "mtu: give 68 to 65535 bytes"},
        {options->payload_type > 127, "payload type: give 0 to 127"},
        {options->ttl < 1 || options->ttl > 255, "ttl: give 1 to 255 hops"},
        {options->batch < 1 || options->batch > BATCH_MAX, "batch: give 1 to 1024 datagrams"},
        {(unsigned)options->framing > CONVOLV_FRAMING_UDP_SEQUENCE, "framing is not known"},
        {options->key != NULL && options->framing == CONVOLV_FRAMING_UDP,
         "key: tags need sequence numbers; use the framing rtp or udp-seq"},
    };
    for (size_t i = 0; i < sizeof checks / sizeof *checks; i++)
        if (checks[i].wrong)
            return convolv__problem(problem, CONVOLV_ERROR_ARGUMENT, "%s", checks[i].sentence);
    return CONVOLV_OK;
}

/* Frames of a datagram: what the caller wants, else what fits the MTU, at least one. */
static int choose_packet(struct convolv_sender *sender,
                         const struct convolv_sender_options *options, int family,
                         struct convolv_problem *problem)
{
    const uint32_t own_bytes = sender->header_bytes + sender->trailer_bytes;
    uint32_t limit = (UDP_PAYLOAD_MAX - own_bytes) / sender->frame_bytes;
    uint32_t frames = options->packet_frames;
    if (frames == 0) {
        bool ipv6 = family != AF_INET;
        frames = rtp_payload_bytes(ipv6, own_bytes, options->mtu) / sender->frame_bytes;
        if (frames == 0)
            frames = 1;
    }
    if (frames > limit)
        return convolv__problem(
            problem, CONVOLV_ERROR_ARGUMENT,
            "a packet of %u frames of %u bytes does not fit a datagram: at most %u frames", frames,
            sender->frame_bytes, limit);
    sender->packet_frames = frames;
    return CONVOLV_OK;
}

static int set_option(int descriptor, int level, int name, int value)
{
    return setsockopt(descriptor, level, name, &value, sizeof value);
}

static int open_socket(struct convolv_sender *sender, const struct convolv_sender_options *options,
                       const struct convolv__address *address, struct convolv_problem *problem)
{
    unsigned interface = 0;
    int status = convolv__interface(options->interface, &interface, problem);
    if (status != CONVOLV_OK)
        return status;
    sender->descriptor = socket(address->family, SOCK_DGRAM | SOCK_CLOEXEC, 0);
    if (sender->descriptor < 0)
        return convolv__problem(problem, CONVOLV_ERROR_SYSTEM, "socket: %s", strerror(errno));
    if (convolv__is_multicast(address)) {
        bool v4 = address->family == AF_INET;
        struct ip_mreqn v4_interface = {.imr_ifindex = (int)interface};
        if (v4) {
            status =
                set_option(sender->descriptor, IPPROTO_IP, IP_MULTICAST_TTL, (int)options->ttl);
            if (interface != 0)
                status |= setsockopt(sender->descriptor, IPPROTO_IP, IP_MULTICAST_IF, &v4_interface,
                                     sizeof v4_interface);
        } else {
            status = set_option(sender->descriptor, IPPROTO_IPV6, IPV6_MULTICAST_HOPS,
                                (int)options->ttl);
            if (interface != 0)
                status |=
                    set_option(sender->descriptor, IPPROTO_IPV6, IPV6_MULTICAST_IF, (int)interface);
        }
        if (status != 0)
            return convolv__problem(problem, CONVOLV_ERROR_ADDRESS, "multicast to %s: %s",
                                    options->address, strerror(errno));
    }
    if (options->send_buffer_bytes > 0) {
        int bytes =
            options->send_buffer_bytes < (1u << 30) ? (int)options->send_buffer_bytes : 1 << 30;
        if (set_option(sender->descriptor, SOL_SOCKET, SO_SNDBUFFORCE, bytes) != 0)
            set_option(sender->descriptor, SOL_SOCKET, SO_SNDBUF,
                       bytes); /* the kernel may grant less */
    }
    if (connect(sender->descriptor, (const struct sockaddr *)&address->storage, address->bytes) !=
        0)
        return convolv__problem(problem, CONVOLV_ERROR_ADDRESS, "%s: %s", options->address,
                                strerror(errno));
    return CONVOLV_OK;
}

/* Bytes of a datagram with so many frames. */
static size_t datagram_bytes(const struct convolv_sender *sender, uint32_t frames)
{
    return sender->header_bytes + (size_t)frames * sender->frame_bytes + sender->trailer_bytes;
}

static int allocate(struct convolv_sender *sender)
{
    size_t datagram = datagram_bytes(sender, sender->packet_frames);
    /* A full batch of own datagrams, and at least one of any size (emit). */
    sender->queue_bytes = datagram * sender->batch;
    if (sender->queue_bytes < UDP_PAYLOAD_MAX)
        sender->queue_bytes = UDP_PAYLOAD_MAX;
    sender->queue = malloc(sender->queue_bytes);
    sender->sizes = calloc(sender->batch, sizeof *sender->sizes);
    sender->messages = calloc(sender->batch, sizeof *sender->messages);
    sender->vectors = calloc(sender->batch, sizeof *sender->vectors);
    sender->controls = calloc(sender->batch, sizeof *sender->controls);
    sender->group_sizes = calloc(sender->batch, sizeof *sender->group_sizes);
    sender->scratch = malloc(datagram);
    sender->encoded = malloc(datagram);
    bool complete = sender->queue != NULL && sender->sizes != NULL && sender->messages != NULL &&
                    sender->vectors != NULL && sender->controls != NULL &&
                    sender->group_sizes != NULL && sender->scratch != NULL &&
                    sender->encoded != NULL;
    return complete ? CONVOLV_OK : CONVOLV_ERROR_MEMORY;
}

static void release(struct convolv_sender *sender)
{
    if (sender->descriptor >= 0)
        close(sender->descriptor);
    free(sender->queue);
    free(sender->sizes);
    free(sender->messages);
    free(sender->vectors);
    free(sender->controls);
    free(sender->group_sizes);
    free(sender->scratch);
    free(sender->encoded);
    explicit_bzero(&sender->key, sizeof sender->key);
    free(sender);
}

static int64_t realtime_ns(void)
{
    struct timespec time;
    clock_gettime(CLOCK_REALTIME, &time);
    return (int64_t)time.tv_sec * 1000000000 + time.tv_nsec;
}

static void take_key(struct convolv_sender *sender, const uint8_t *key)
{
    if (key == NULL)
        return;
    sender->trailer_bytes = AUTH_TRAILER_BYTES;
    auth_key_derive(key,
                    sender->framing == CONVOLV_FRAMING_RTP ? AUTH_RTP_INPUT : AUTH_SEQUENCE_INPUT,
                    &sender->key);
    auth_numbers_begin(&sender->numbers, realtime_ns());
}

int convolv_sender_open(const struct convolv_sender_options *options, struct convolv_sender **out,
                        struct convolv_problem *problem)
{
    *out = NULL;
    struct sample_format format;
    int status = check_options(options, &format, problem);
    if (status != CONVOLV_OK)
        return status;
    struct convolv__address address;
    status = convolv__resolve(options->address, false, &address, problem);
    if (status != CONVOLV_OK)
        return status;
    struct convolv_sender *sender = calloc(1, sizeof *sender);
    if (sender == NULL)
        return convolv__problem(problem, CONVOLV_ERROR_MEMORY, "out of memory");
    static const uint32_t header_bytes[] = {
        [CONVOLV_FRAMING_RTP] = RTP_HEADER_BYTES,
        [CONVOLV_FRAMING_UDP] = 0,
        [CONVOLV_FRAMING_UDP_SEQUENCE] = SEQUENCE_BYTES,
    };
    *sender = (struct convolv_sender){
        .descriptor = -1,
        .framing = options->framing,
        .format = format,
        .channels = options->channels,
        .frame_bytes = options->channels * format.bytes,
        .header_bytes = header_bytes[options->framing],
        .payload_type = (uint8_t)options->payload_type,
        .sequence_big_endian = options->sequence_big_endian,
        .batch = options->batch,
        .segment = options->segment,
        .sequence = options->first_sequence,
        .timestamp = options->first_timestamp,
        .ssrc = options->ssrc,
    };
    take_key(sender, options->key);
    status = choose_packet(sender, options, address.family, problem);
    if (status == CONVOLV_OK)
        status = open_socket(sender, options, &address, problem);
    if (status == CONVOLV_OK && (status = allocate(sender)) != CONVOLV_OK)
        convolv__problem(problem, status, "out of memory");
    if (status != CONVOLV_OK) {
        release(sender);
        return status;
    }
    *out = sender;
    return CONVOLV_OK;
}

void convolv_sender_close(struct convolv_sender *sender)
{
    if (sender == NULL)
        return;
    convolv_sender_flush(sender);
    release(sender);
}

uint32_t convolv_sender_packet_frames(const struct convolv_sender *sender)
{
    return sender->packet_frames;
}

uint32_t convolv_sender_frame_bytes(const struct convolv_sender *sender)
{
    return sender->frame_bytes;
}

/* ---- building ---------------------------------------------------------------------------- */

static void write_sequence(uint8_t *out, uint64_t sequence, bool big_endian)
{
    for (int i = 0; i < SEQUENCE_BYTES; i++)
        out[i] = (uint8_t)(sequence >> (8 * (big_endian ? SEQUENCE_BYTES - 1 - i : i)));
}

int convolv_sender_build(struct convolv_sender *sender, const uint8_t *wire, uint32_t frames,
                         bool marker, uint8_t *out, size_t capacity)
{
    size_t payload = (size_t)frames * sender->frame_bytes;
    if (frames == 0 || frames > sender->packet_frames || capacity < datagram_bytes(sender, frames))
        return CONVOLV_ERROR_ARGUMENT;
    if (sender->framing == CONVOLV_FRAMING_RTP) {
        const struct rtp_header header = {
            .marker = marker,
            .payload_type = sender->payload_type,
            .sequence = (uint16_t)sender->sequence,
            .timestamp = sender->timestamp,
            .ssrc = sender->ssrc,
        };
        rtp_build(out, &header, NULL);
    } else if (sender->framing == CONVOLV_FRAMING_UDP_SEQUENCE) {
        write_sequence(out, sender->sequence, sender->sequence_big_endian);
    }
    memcpy(out + sender->header_bytes, wire, payload);
    if (sender->trailer_bytes > 0)
        auth_seal(&sender->key, &sender->numbers, (uint16_t)sender->sequence, out,
                  sender->header_bytes + payload);
    sender->sequence++;
    sender->timestamp += frames;
    sender->ledger.built++;
    sender->ledger.frames_built += frames;
    return (int)datagram_bytes(sender, frames);
}

void convolv_sender_encode(struct convolv_sender *sender, const double *values, uint64_t frames,
                           uint8_t *wire)
{
    uint64_t samples = frames * sender->channels;
    for (uint64_t i = 0; i < samples; i++)
        sender->ledger.saturated +=
            sample_encode(&sender->format, values[i], wire + i * sender->format.bytes);
}

void convolv_sender_skip(struct convolv_sender *sender, uint32_t frames)
{
    sender->timestamp += frames;
}

void convolv_sender_restart(struct convolv_sender *sender, uint32_t ssrc, uint64_t sequence,
                            uint32_t timestamp)
{
    sender->ssrc = ssrc;
    sender->sequence = sequence;
    sender->timestamp = timestamp;
    auth_numbers_begin(&sender->numbers, realtime_ns());
}

int convolv_sender_emit(struct convolv_sender *sender, const uint8_t *datagram, size_t bytes)
{
    if (bytes > UDP_PAYLOAD_MAX)
        return CONVOLV_ERROR_ARGUMENT;
    int status = CONVOLV_OK;
    if (sender->count == sender->batch || sender->used + bytes > sender->queue_bytes)
        status = convolv_sender_flush(sender);
    memcpy(sender->queue + sender->used, datagram, bytes);
    sender->sizes[sender->count++] = (uint32_t)bytes;
    sender->used += bytes;
    sender->ledger.queued++;
    return status;
}

int convolv_sender_write_encoded(struct convolv_sender *sender, const uint8_t *wire,
                                 uint64_t frames, bool marker)
{
    size_t capacity = datagram_bytes(sender, sender->packet_frames);
    int status = CONVOLV_OK;
    while (frames > 0) {
        uint32_t now = frames < sender->packet_frames ? (uint32_t)frames : sender->packet_frames;
        int bytes = convolv_sender_build(sender, wire, now, marker, sender->scratch, capacity);
        assert(bytes > 0);
        int emitted = convolv_sender_emit(sender, sender->scratch, (size_t)bytes);
        if (emitted != CONVOLV_OK)
            status = emitted;
        wire += (size_t)now * sender->frame_bytes;
        frames -= now;
        marker = false;
    }
    return status;
}

int convolv_sender_write(struct convolv_sender *sender, const double *values, uint64_t frames,
                         bool marker)
{
    int status = CONVOLV_OK;
    while (frames > 0) {
        uint32_t now = frames < sender->packet_frames ? (uint32_t)frames : sender->packet_frames;
        convolv_sender_encode(sender, values, now, sender->encoded);
        int written = convolv_sender_write_encoded(sender, sender->encoded, now, marker);
        if (written != CONVOLV_OK)
            status = written;
        values += (size_t)now * sender->channels;
        frames -= now;
        marker = false;
    }
    return status;
}

/* ---- sending ----------------------------------------------------------------------------- */

/* Cuts the queued datagrams from `first` on into messages; returns how many. */
static uint32_t make_groups(struct convolv_sender *sender, uint32_t first, size_t offset)
{
    uint32_t messages = 0;
    for (uint32_t i = first; i < sender->count; messages++) {
        uint32_t size = sender->sizes[i], datagrams = 1;
        size_t bytes = size;
        if (sender->segment && size > 0) {
            while (i + datagrams < sender->count && datagrams < SEGMENTS_MAX) {
                uint32_t next = sender->sizes[i + datagrams];
                if (next > size || next == 0 || bytes + next > UDP_PAYLOAD_MAX)
                    break;
                bytes += next;
                datagrams++;
                if (next < size)
                    break; /* a shorter one can only be the last of its group */
            }
        }
        sender->group_sizes[messages] = datagrams;
        sender->vectors[messages] = (struct iovec){sender->queue + offset, bytes};
        struct msghdr *header = &sender->messages[messages].msg_hdr;
        *header = (struct msghdr){.msg_iov = &sender->vectors[messages], .msg_iovlen = 1};
        if (datagrams > 1) {
            union segment_control *control = &sender->controls[messages];
            header->msg_control = control->bytes;
            header->msg_controllen = sizeof control->bytes;
            struct cmsghdr *element = CMSG_FIRSTHDR(header);
            element->cmsg_level = IPPROTO_UDP;
            element->cmsg_type = UDP_SEGMENT;
            element->cmsg_len = CMSG_LEN(sizeof(uint16_t));
            uint16_t segment_bytes = (uint16_t)size;
            memcpy(CMSG_DATA(element), &segment_bytes, sizeof segment_bytes);
        }
        offset += bytes;
        i += datagrams;
    }
    return messages;
}

int convolv_sender_flush(struct convolv_sender *sender)
{
    int status = CONVOLV_OK;
    uint32_t first = 0, retries = 0;
    size_t offset = 0;
    while (first < sender->count) {
        uint32_t messages = make_groups(sender, first, offset), gone = 0;
        int sent = sendmmsg(sender->descriptor, sender->messages, messages, 0);
        if (sent > 0) {
            retries = 0;
            for (int m = 0; m < sent; m++) {
                gone += sender->group_sizes[m];
                offset += sender->vectors[m].iov_len;
                sender->ledger.bytes += sender->vectors[m].iov_len;
            }
            sender->ledger.datagrams += gone;
        } else if (errno == ECONNREFUSED) {
            sender->ledger
                .refused++; /* reports an earlier datagram: the kernel did not try this one */
        } else if (sender->group_sizes[0] > 1 &&
                   (errno == EINVAL || errno == EMSGSIZE || errno == EIO || errno == ENOPROTOOPT ||
                    errno == EOPNOTSUPP)) {
            sender->segment =
                false; /* this kernel or route cannot cut: one datagram per message from here on */
        } else if ((errno == ENOBUFS || errno == EAGAIN || errno == EINTR || errno == ENOMEM) &&
                   retries < RETRIES_MAX) {
            retries++;
            nanosleep(&(struct timespec){.tv_nsec = RETRY_NS}, NULL);
        } else {
            status = CONVOLV_ERROR_SYSTEM;
            gone = sender->group_sizes[0];
            offset += sender->vectors[0].iov_len;
            sender->ledger.failed += gone;
        }
        first += gone;
        sender->ledger.queued -= gone;
    }
    sender->count = 0;
    sender->used = 0;
    assert(sender->ledger.queued == 0);
    return status;
}

void convolv_sender_ledger(const struct convolv_sender *sender,
                           struct convolv_sender_ledger *ledger)
{
    *ledger = sender->ledger;
}
