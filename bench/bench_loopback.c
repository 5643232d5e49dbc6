/*
 * The sender and the receiver of the whole-daemon bench: the same two, with the same settings, for
 * every program under test. The sender paces frames by the clock and sends GSO batches
 * (UDP_SEGMENT); the receiver takes GRO batches where the kernel makes them (UDP_GRO), counts
 * frames and compares the receive time of each packet with the time its last frame was due at the
 * sender. Frames that have not arrived a moment after the sender's end are lost.
 *
 * RTP (payload type 96, 16-bit or float samples, big-endian), or the bare samples of this machine's
 * order for programs that know no RTP: then the count of frames before a packet is its frame
 * number.
 *
 * --late US lists the packets later than that: runs of neighbours, each with the time at which the
 * first one was due and that at which the last one arrived [monotonic seconds], to be held against
 * what else happened on the machine then.
 *
 * One process, two threads; one line of JSON at the end.
 */
#include <errno.h>
#include <getopt.h>
#include <math.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/time.h>
#include <time.h>

#include "bench/udp.h"
#include "core/clock.h"
#include "core/random.h"
#include "wire/rtp.h"

enum {
    PATTERN_FRAMES = 1 << 14, /* of noise, sent again and again */
    PAYLOAD_BYTES = 1460,     /* MTU 1500 less IP, UDP and RTP */
    BATCH_DATAGRAMS = 4 * UDP_BATCH_SEGMENTS,
    TICK_NS = 200000, /* the sender looks so often what is due */
    QUIET_MS = 300,   /* nothing more comes */
    LATENCIES_MAX = 1 << 24,
    LATE_MAX = 1024,
};

struct options {
    uint16_t to_port, listen_port;
    uint32_t channels;
    double rate_hz;
    uint64_t frames;
    bool floats, raw, single;
    double late_us; /* 0: late packets are not listed */
    const char *write_sent, *write_got;
};

/* Neighbouring packets that were late. */
struct late_run {
    int64_t due_ns, arrived_ns; /* monotonic: of the first, of the last */
    uint64_t packets;
};

static struct bench {
    struct options options;
    uint32_t frame_bytes, packet_frames;
    int in, out;
    uint8_t *pattern;  /* [PATTERN_FRAMES + packet_frames] frames on the wire */
    int64_t start_ns;  /* monotonic: frame 0 is due */
    int64_t offset_ns; /* realtime - monotonic */
    double sent_seconds;
    atomic_bool sent_all;

    uint64_t received, lost, wrong;
    uint64_t next_frame;
    bool started;
    uint32_t first_timestamp;
    float *latencies_us; /* one a packet */
    uint32_t latency_count;
    struct late_run late[LATE_MAX];
    unsigned late_count;
    bool was_late;
    FILE *got;
} bench;

/* ---- the signal -------------------------------------------------------------------------- */

static void put_sample(uint8_t *at, float value)
{
    if (bench.options.floats) {
        uint32_t word;
        memcpy(&word, &value, sizeof word);
        word = bench.options.raw ? word : __builtin_bswap32(word);
        memcpy(at, &word, sizeof word);
    } else {
        uint16_t word = (uint16_t)(int16_t)lrintf(value * 32768);
        word = bench.options.raw ? word : __builtin_bswap16(word);
        memcpy(at, &word, sizeof word);
    }
}

static void make_pattern(void)
{
    struct random_state random = {.state = 20261121};
    const uint32_t sample_bytes = bench.options.floats ? 4 : 2;
    const size_t samples = (size_t)PATTERN_FRAMES * bench.options.channels;
    for (size_t i = 0; i < samples; i++)
        put_sample(bench.pattern + i * sample_bytes, (float)(random_unit(&random) - 0.5));
    memcpy(bench.pattern + samples * sample_bytes, bench.pattern,
           (size_t)bench.packet_frames * bench.frame_bytes);
}

/* ---- sending ----------------------------------------------------------------------------- */

static int64_t due_ns(uint64_t frame)
{
    return bench.start_ns + (int64_t)llround((double)frame / bench.options.rate_hz * 1e9);
}

static void send_frames(void)
{
    static uint8_t headers[BATCH_DATAGRAMS][RTP_HEADER_BYTES];
    static struct iovec vectors[2 * BATCH_DATAGRAMS];
    const struct options *o = &bench.options;
    uint16_t sequence = 0;
    uint64_t frame = 0;
    while (frame < o->frames) {
        const int64_t now_ns = clock_monotonic_ns();
        const double due = (double)(now_ns - bench.start_ns) * 1e-9 * o->rate_hz;
        unsigned count = 0;
        while (count < BATCH_DATAGRAMS && frame < o->frames) {
            const uint64_t left = o->frames - frame;
            const uint32_t frames =
                left < bench.packet_frames ? (uint32_t)left : bench.packet_frames;
            if ((double)(frame + frames) > due)
                break;
            const struct rtp_header header = {.payload_type = 96,
                                              .sequence = sequence++,
                                              .timestamp = (uint32_t)frame,
                                              .ssrc = 7};
            rtp_build(headers[count], &header, NULL);
            vectors[2 * count] = (struct iovec){headers[count], o->raw ? 0 : RTP_HEADER_BYTES};
            vectors[2 * count + 1] =
                (struct iovec){bench.pattern + frame % PATTERN_FRAMES * bench.frame_bytes,
                               (size_t)frames * bench.frame_bytes};
            frame += frames;
            count++;
        }
        if (count > 0 && !udp_send(bench.out, vectors, count, 2, !o->single)) {
            fprintf(stderr, "bench_loopback: sending failed: %s\n", strerror(errno));
            break;
        }
        if (count < BATCH_DATAGRAMS && frame < o->frames) {
            const int64_t until_ns = now_ns + TICK_NS;
            const struct timespec time = {.tv_sec = until_ns / NS_PER_SECOND,
                                          .tv_nsec = until_ns % NS_PER_SECOND};
            clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &time, NULL);
        }
    }
    bench.sent_seconds = (double)(clock_monotonic_ns() - bench.start_ns) * 1e-9;
    atomic_store(&bench.sent_all, true);
}

/* ---- receiving --------------------------------------------------------------------------- */

static void note_latency(int64_t due, int64_t arrived_ns)
{
    const float us = (float)(arrived_ns - due) * 1e-3f;
    bench.latencies_us[bench.latency_count++] = us;
    const bool late = bench.options.late_us > 0 && us > bench.options.late_us;
    if (late && !bench.was_late && bench.late_count < LATE_MAX)
        bench.late[bench.late_count++] = (struct late_run){.due_ns = due};
    if (late) {
        bench.late[bench.late_count - 1].arrived_ns = arrived_ns;
        bench.late[bench.late_count - 1].packets++;
    }
    bench.was_late = late;
}

static void take(void *context, const uint8_t *datagram, size_t bytes, int64_t receive_ns)
{
    (void)context;
    const uint8_t *payload = datagram;
    uint64_t frame = bench.next_frame;
    if (!bench.options.raw) {
        struct rtp_packet packet;
        if (rtp_parse(datagram, bytes, &packet) != RTP_OK) {
            bench.wrong++;
            return;
        }
        payload = packet.payload;
        bytes = packet.payload_bytes;
        if (!bench.started)
            bench.first_timestamp = packet.header.timestamp;
        frame = packet.header.timestamp - bench.first_timestamp;
    }
    const uint64_t frames = bytes / bench.frame_bytes;
    if (frame < bench.next_frame && bench.started) {
        bench.wrong++;
        return;
    }
    bench.started = true;
    bench.lost += frame - bench.next_frame;
    bench.next_frame = frame + frames;
    bench.received += frames;
    if (frames > 0 && bench.latency_count < LATENCIES_MAX &&
        bench.next_frame <= bench.options.frames)
        note_latency(due_ns(frame + frames), receive_ns - bench.offset_ns);
    if (bench.got != NULL)
        fwrite(payload, bench.frame_bytes, frames, bench.got);
}

static void *receive_frames(void *context)
{
    struct udp_reader *reader = context;
    int64_t last_ns = clock_monotonic_ns();
    /* The daemon may send the tail of its filter behind the last frame: enough is enough. */
    while (bench.received < bench.options.frames) {
        const int64_t now_ns = clock_monotonic_ns();
        if (udp_read(reader, take, NULL) > 0)
            last_ns = clock_monotonic_ns();
        else if (atomic_load(&bench.sent_all) && now_ns - last_ns > QUIET_MS * NS_PER_MS)
            break;
    }
    return NULL;
}

/* ---- report ------------------------------------------------------------------------------ */

static int compare(const void *a, const void *b)
{
    const float x = *(const float *)a, y = *(const float *)b;
    return (x > y) - (x < y);
}

static double quantile(double q)
{
    return bench.latency_count > 0 ? bench.latencies_us[(size_t)(q * (bench.latency_count - 1))]
                                   : 0;
}

static void report(void)
{
    qsort(bench.latencies_us, bench.latency_count, sizeof *bench.latencies_us, compare);
    printf("{\"frames\": %llu, \"received\": %llu, \"lost\": %llu, \"wrong\": %llu, \"asked_s\": "
           "%.6f, "
           "\"sent_s\": %.6f, \"p50_us\": %.1f, \"p90_us\": %.1f, \"p99_us\": %.1f, "
           "\"p999_us\": %.1f, \"max_us\": %.1f, \"packets\": %u, \"start_s\": %.6f, \"late\": [",
           (unsigned long long)bench.options.frames, (unsigned long long)bench.received,
           (unsigned long long)bench.lost, (unsigned long long)bench.wrong,
           (double)bench.options.frames / bench.options.rate_hz, bench.sent_seconds, quantile(0.5),
           quantile(0.9), quantile(0.99), quantile(0.999), quantile(1), bench.latency_count,
           (double)bench.start_ns * 1e-9);
    for (unsigned i = 0; i < bench.late_count; i++)
        printf("%s[%.6f, %.6f, %llu]", i > 0 ? ", " : "", (double)bench.late[i].due_ns * 1e-9,
               (double)bench.late[i].arrived_ns * 1e-9, (unsigned long long)bench.late[i].packets);
    printf("]}\n");
}

static const char usage[] =
    "usage: bench_loopback --to PORT --listen PORT --rate HZ --frames N [--channels 16]\n"
    "                      [--format L16|f32] [--raw] [--single] [--late US] [--sent FILE]\n"
    "                      [--got FILE]\n"
    "Sends paced frames to one port of 127.0.0.1, receives the results on another. --single sends\n"
    "datagrams one by one; --late lists packets later than that; --sent and --got write the "
    "samples as they are on the wire.\n";

static bool parse_arguments(struct options *o, int argc, char **argv)
{
    static const struct option rows[] = {
        {"to", required_argument, NULL, 't'},
        {"listen", required_argument, NULL, 'l'},
        {"rate", required_argument, NULL, 'r'},
        {"frames", required_argument, NULL, 'n'},
        {"channels", required_argument, NULL, 'c'},
        {"format", required_argument, NULL, 's'},
        {"raw", no_argument, NULL, 'w'},
        {"single", no_argument, NULL, '1'},
        {"late", required_argument, NULL, 'L'},
        {"sent", required_argument, NULL, 'S'},
        {"got", required_argument, NULL, 'G'},
        {NULL, 0, NULL, 0},
    };
    for (int option; (option = getopt_long(argc, argv, "", rows, NULL)) != -1;)
        switch (option) {
        case 't':
            o->to_port = (uint16_t)strtoul(optarg, NULL, 10);
            break;
        case 'l':
            o->listen_port = (uint16_t)strtoul(optarg, NULL, 10);
            break;
        case 'r':
            o->rate_hz = strtod(optarg, NULL);
            break;
        case 'n':
            o->frames = strtoull(optarg, NULL, 10);
            break;
        case 'c':
            o->channels = (uint32_t)strtoul(optarg, NULL, 10);
            break;
        case 's':
            o->floats = strcmp(optarg, "L16") != 0;
            break;
        case 'w':
            o->raw = true;
            break;
        case '1':
            o->single = true;
            break;
        case 'L':
            o->late_us = strtod(optarg, NULL);
            break;
        case 'S':
            o->write_sent = optarg;
            break;
        case 'G':
            o->write_got = optarg;
            break;
        default:
            return false;
        }
    return optind == argc && o->to_port > 0 && o->listen_port > 0 && o->rate_hz > 0 &&
           o->frames > 0 && o->channels > 0 && o->channels <= 64;
}

static bool write_sent(void)
{
    FILE *file = fopen(bench.options.write_sent, "wb");
    if (file == NULL)
        return false;
    for (uint64_t frame = 0; frame < bench.options.frames; frame += PATTERN_FRAMES) {
        const uint64_t left = bench.options.frames - frame;
        fwrite(bench.pattern, bench.frame_bytes, left < PATTERN_FRAMES ? left : PATTERN_FRAMES,
               file);
    }
    return fclose(file) == 0;
}

int main(int argc, char **argv)
{
    bench.options = (struct options){.channels = 16};
    const struct options *o = &bench.options;
    if (!parse_arguments(&bench.options, argc, argv)) {
        fputs(usage, stderr);
        return 2;
    }
    bench.frame_bytes = o->channels * (o->floats ? 4 : 2);
    bench.packet_frames = PAYLOAD_BYTES / bench.frame_bytes;
    bench.pattern = malloc((size_t)(PATTERN_FRAMES + bench.packet_frames) * bench.frame_bytes);
    bench.latencies_us = malloc(LATENCIES_MAX * sizeof *bench.latencies_us);
    bench.in = udp_socket(o->listen_port, true, true);
    bench.out = udp_socket(o->to_port, false, !o->single);
    struct udp_reader *reader = udp_reader_open(bench.in, true);
    const struct timeval patience = {.tv_usec = 50000};
    if (bench.pattern == NULL || bench.latencies_us == NULL || reader == NULL || bench.in < 0 ||
        bench.out < 0 ||
        setsockopt(bench.in, SOL_SOCKET, SO_RCVTIMEO, &patience, sizeof patience) != 0) {
        fprintf(stderr, "bench_loopback: %s\n", strerror(errno));
        return 1;
    }
    make_pattern();
    if (o->write_sent != NULL && !write_sent())
        return 1;
    if (o->write_got != NULL && (bench.got = fopen(o->write_got, "wb")) == NULL)
        return 1;
    bench.offset_ns = clock_offset_ns();
    bench.start_ns = clock_monotonic_ns();
    pthread_t receiver;
    if (pthread_create(&receiver, NULL, receive_frames, reader) != 0)
        return 1;
    send_frames();
    pthread_join(receiver, NULL);
    if (bench.got != NULL && fclose(bench.got) != 0)
        return 1;
    report();
    udp_reader_close(reader);
    free(bench.pattern);
    free(bench.latencies_us);
    return 0;
}
