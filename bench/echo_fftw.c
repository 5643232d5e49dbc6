/*
 * The daemon's peer: what one writes by hand for this one job. One thread: recvmmsg, FFTW
 * overlap-save, sendmmsg (--trains: with UDP_GRO and UDP_SEGMENT). No configuration, reordering,
 * gaps, epochs or recordings; frames that did not come are zeros, and it trusts its sender.
 *
 * Results carry the daemon's header extensions, so that convolv-tap measures both in the same way:
 * capture time from the kernel's receive time of the packet that began the block.
 */
#include <errno.h>
#include <getopt.h>
#include <math.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "bench/udp.h"
#include "bench/peer.h"
#include "core/clock.h"
#include "wire/rtp.h"
#include "filter/taps.h"

enum {
    DATAGRAMS = 64, /* sent at once: more than two GSO batches */
    DATAGRAM_BYTES = 2048,
    PAYLOAD_BYTES = 1388, /* of a result: MTU 1500 less IP, UDP, RTP and the extension */
    RING_BLOCKS = 4,
};

struct options {
    uint16_t listen_port, to_port;
    uint32_t channels, hop;
    double rate_hz;
    bool floats; /* f32be, else L16 */
    bool offload;
    const char *taps_path;
};

struct echo {
    struct options options;
    int in, out;
    struct ring ring;
    struct peer *peer;
    float *results;
    uint32_t sample_bytes;
    /* time line */
    bool started;
    uint32_t origin;      /* time stamp of frame 0 */
    uint64_t next_frame;  /* one past the newest frame placed */
    uint64_t done_frames; /* a multiple of hop */
    int64_t
        block_first_ns; /* realtime: when the packet with the block's first frame was received */
    uint32_t block_first_offset; /* frames between the block's first one and that packet's end */
    int64_t block_last_ns;
    uint64_t lost_frames;
    /* out */
    uint16_t sequence;
    uint32_t queued;
    struct iovec out_vectors[DATAGRAMS];
    uint8_t out_bytes[DATAGRAMS][DATAGRAM_BYTES];
};

static volatile sig_atomic_t stopping;

static void on_signal(int number)
{
    (void)number;
    stopping = 1;
}

/* ---- out --------------------------------------------------------------------------------- */

static void flush(struct echo *echo)
{
    udp_send(echo->out, echo->out_vectors, echo->queued, 1, echo->options.offload);
    echo->queued = 0;
}

/* Rounded to nearest even, saturated, big-endian. */
static void encode_l16(const float *restrict values, uint32_t count, uint8_t *restrict wire)
{
    for (uint32_t i = 0; i < count; i++) {
        float value = rintf(values[i] * 32768.0f);
        value = value > 32767.0f ? 32767.0f : value < -32768.0f ? -32768.0f : value;
        const uint16_t word = __builtin_bswap16((uint16_t)(int16_t)value);
        memcpy(wire + 2 * i, &word, sizeof word);
    }
}

static void encode_f32(const float *restrict values, uint32_t count, uint8_t *restrict wire)
{
    for (uint32_t i = 0; i < count; i++) {
        uint32_t word;
        memcpy(&word, &values[i], sizeof word);
        word = __builtin_bswap32(word);
        memcpy(wire + 4 * i, &word, sizeof word);
    }
}

static void send_block(struct echo *echo, uint64_t first_frame, int64_t capture_ns, int64_t done_ns)
{
    const struct options *options = &echo->options;
    const uint32_t frame_bytes = echo->sample_bytes * options->channels;
    const uint32_t packet_frames = PAYLOAD_BYTES / frame_bytes;
    for (uint32_t from = 0; from < options->hop; from += packet_frames) {
        const uint32_t left = options->hop - from;
        const uint32_t frames = left < packet_frames ? left : packet_frames;
        const uint64_t frame = first_frame + from;
        const struct rtp_header header = {
            .payload_type = 96,
            .sequence = echo->sequence++,
            .timestamp = (uint32_t)frame,
            .ssrc = 0x4543484f,
        };
        const int64_t accumulate_ns = echo->block_last_ns - echo->block_first_ns;
        const struct rtp_result_info info = {
            .capture_ns = capture_ns + (int64_t)(from / options->rate_hz * 1e9),
            .stage_100ns = {rtp_100ns(accumulate_ns), 0, 0,
                            rtp_100ns(done_ns - echo->block_last_ns)},
            .egress_100ns = rtp_100ns(clock_realtime_ns() - done_ns),
            .flags = frame == 0 ? RTP_EPOCH_START : 0,
            .first_frame = frame,
        };
        uint8_t *out = echo->out_bytes[echo->queued];
        const size_t head = rtp_build(out, &header, &info);
        const float *values = echo->results + (size_t)from * options->channels;
        if (options->floats)
            encode_f32(values, frames * options->channels, out + head);
        else
            encode_l16(values, frames * options->channels, out + head);
        echo->out_vectors[echo->queued] = (struct iovec){out, head + frames * frame_bytes};
        if (++echo->queued == DATAGRAMS)
            flush(echo);
    }
    flush(echo);
}

/* ---- in ---------------------------------------------------------------------------------- */

static void convolve_block(struct echo *echo)
{
    const uint32_t hop = echo->options.hop;
    /* The peer reads one block before its position: the ring's first block is the silence before
     * frame 0. */
    peer_run(echo->peer, PEER_OVERLAP_SAVE, echo->done_frames + hop, 1, echo->results);
    const int64_t capture_ns =
        echo->block_first_ns - (int64_t)(echo->block_first_offset / echo->options.rate_hz * 1e9);
    send_block(echo, echo->done_frames, capture_ns, clock_realtime_ns());
    echo->done_frames += hop;
}

static uint8_t *slot_of(struct echo *echo, uint64_t frame)
{
    const uint64_t position = frame + echo->options.hop;
    return echo->ring.bytes + (position & (echo->ring.frames - 1)) * echo->ring.frame_bytes;
}

/* One block's worth at most is placed at a time, so that a block is convolved before its slots are
 * needed again. */
static void place(struct echo *echo, uint64_t frame, const uint8_t *payload, uint32_t frames,
                  int64_t receive_ns)
{
    const uint32_t frame_bytes = echo->ring.frame_bytes, hop = echo->options.hop;
    while (frames > 0) {
        const uint64_t block_end = echo->done_frames + hop;
        const uint64_t run_end = frame + frames < block_end ? frame + frames : block_end;
        const uint32_t run = (uint32_t)(run_end - frame);
        if (payload != NULL)
            memcpy(slot_of(echo, frame), payload, (size_t)run * frame_bytes);
        else
            memset(slot_of(echo, frame), 0, (size_t)run * frame_bytes);
        if (frame == echo->done_frames) {
            echo->block_first_ns = receive_ns;
            echo->block_first_offset = frames;
        }
        echo->block_last_ns = receive_ns;
        frame += run;
        frames -= run;
        payload = payload != NULL ? payload + (size_t)run * frame_bytes : NULL;
        if (frame == block_end)
            convolve_block(echo);
    }
    echo->next_frame = frame;
}

static void take(void *context, const uint8_t *datagram, size_t bytes, int64_t receive_ns)
{
    struct echo *echo = context;
    struct rtp_packet packet;
    if (rtp_parse(datagram, bytes, &packet) != RTP_OK)
        return;
    const uint32_t frames = (uint32_t)(packet.payload_bytes / echo->ring.frame_bytes);
    if (!echo->started) {
        echo->started = true;
        echo->origin = packet.header.timestamp;
    }
    const int32_t ahead =
        (int32_t)(packet.header.timestamp - echo->origin - (uint32_t)echo->next_frame);
    if (ahead < 0)
        return;
    if (ahead > 0) {
        echo->lost_frames += (uint32_t)ahead;
        place(echo, echo->next_frame, NULL, (uint32_t)ahead, receive_ns);
    }
    place(echo, echo->next_frame, packet.payload, frames, receive_ns);
}

/* ---- open -------------------------------------------------------------------------------- */

static int open_peer(struct echo *echo, struct problem *problem)
{
    const struct options *options = &echo->options;
    struct taps **sets;
    uint32_t count;
    int error = taps_load(options->taps_path, &sets, &count, problem);
    if (error != 0)
        return error;
    if (sets[0]->count > options->hop + 1) {
        taps_sets_free(sets, count);
        return problem_set(problem, ERROR_LIMIT, "%s: more than hop + 1 taps: raise --hop",
                           options->taps_path);
    }
    float *taps = calloc(sets[0]->count, sizeof *taps);
    const float **shared = calloc(options->channels, sizeof *shared);
    if (taps != NULL && shared != NULL) {
        for (uint32_t s = 0; s < sets[0]->count; s++)
            taps[s] = (float)sets[0]->re[s];
        for (uint32_t c = 0; c < options->channels; c++)
            shared[c] = taps;
        const struct peer_shape shape = {
            .ring = &echo->ring,
            .sample = options->floats ? PEER_F32BE : PEER_S16BE,
            .scale = 1,
            .channels = options->channels,
            .fft = 2 * options->hop,
            .hop = options->hop,
            .threads = 1,
            .blocks_max = 1,
            .taps = shared,
            .taps_count = sets[0]->count,
        };
        error = peer_open(&shape, &echo->peer, problem);
    } else {
        error = problem_set(problem, ERROR_MEMORY, "out of memory for %u taps", sets[0]->count);
    }
    free(shared);
    free(taps);
    taps_sets_free(sets, count);
    return error;
}

static int echo_open(struct echo *echo, struct problem *problem)
{
    const struct options *options = &echo->options;
    echo->sample_bytes = options->floats ? 4 : 2;
    echo->ring.frame_bytes = echo->sample_bytes * options->channels;
    echo->ring.frames = RING_BLOCKS * options->hop;
    echo->ring.bytes = calloc(echo->ring.frames, echo->ring.frame_bytes);
    echo->results = calloc((size_t)options->hop * options->channels, sizeof(float));
    if (echo->ring.bytes == NULL || echo->results == NULL)
        return problem_set(problem, ERROR_MEMORY, "out of memory for %u frames", echo->ring.frames);
    echo->in = udp_socket(options->listen_port, true, options->offload);
    echo->out = udp_socket(options->to_port, false, options->offload);
    if (echo->in < 0 || echo->out < 0)
        return problem_set(problem, ERROR_ADDRESS, "ports %u and %u: %s", options->listen_port,
                           options->to_port, strerror(errno));
    return open_peer(echo, problem);
}

static const char usage[] =
    "usage: echo_fftw --listen PORT --to PORT --taps FILE [--channels 16] [--format L16|f32]\n"
    "                 [--hop 4096] --rate HZ [--trains]\n"
    "Loopback only: the daemon's job by hand, with FFTW, for comparison.\n";

static bool parse_arguments(struct options *options, int argc, char **argv)
{
    static const struct option rows[] = {
        {"listen", required_argument, NULL, 'l'},
        {"to", required_argument, NULL, 't'},
        {"taps", required_argument, NULL, 'f'},
        {"channels", required_argument, NULL, 'c'},
        {"format", required_argument, NULL, 's'},
        {"hop", required_argument, NULL, 'b'},
        {"rate", required_argument, NULL, 'r'},
        {"trains", no_argument, NULL, 'g'},
        {NULL, 0, NULL, 0},
    };
    for (int option; (option = getopt_long(argc, argv, "", rows, NULL)) != -1;)
        switch (option) {
        case 'l':
            options->listen_port = (uint16_t)strtoul(optarg, NULL, 10);
            break;
        case 't':
            options->to_port = (uint16_t)strtoul(optarg, NULL, 10);
            break;
        case 'f':
            options->taps_path = optarg;
            break;
        case 'c':
            options->channels = (uint32_t)strtoul(optarg, NULL, 10);
            break;
        case 's':
            options->floats = strcmp(optarg, "L16") != 0;
            break;
        case 'b':
            options->hop = (uint32_t)strtoul(optarg, NULL, 10);
            break;
        case 'g':
            options->offload = true;
            break;
        case 'r':
            options->rate_hz = strtod(optarg, NULL);
            break;
        default:
            return false;
        }
    return optind == argc && options->listen_port != 0 && options->to_port != 0 &&
           options->taps_path != NULL && options->rate_hz > 0 && options->channels >= 1 &&
           options->channels <= 64 && options->hop >= 32 && options->hop <= 1u << 19 &&
           (options->hop & (options->hop - 1)) == 0;
}

int main(int argc, char **argv)
{
    static struct echo echo = {.options = {.channels = 16, .hop = 4096}};
    struct problem problem;
    if (!parse_arguments(&echo.options, argc, argv)) {
        fputs(usage, stderr);
        return 2;
    }
    const struct sigaction action = {.sa_handler = on_signal};
    sigaction(SIGTERM, &action, NULL);
    sigaction(SIGINT, &action, NULL);
    if (echo_open(&echo, &problem) != 0) {
        fprintf(stderr, "echo_fftw: %s\n", problem.text);
        return 1;
    }
    struct udp_reader *reader = udp_reader_open(echo.in, echo.options.offload);
    if (reader == NULL) {
        fputs("echo_fftw: out of memory\n", stderr);
        return 1;
    }
    printf("ready\n");
    fflush(stdout);
    while (!stopping)
        udp_read(reader, take, &echo);
    udp_reader_close(reader);
    printf("frames %llu, lost %llu\n", (unsigned long long)echo.next_frame,
           (unsigned long long)echo.lost_frames);
    peer_close(echo.peer);
    free(echo.ring.bytes);
    free(echo.results);
    return 0;
}
