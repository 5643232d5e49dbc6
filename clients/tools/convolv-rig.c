/*
 * convolv-rig: simulated acquisition devices. Sends a recording or a generated signal as RTP or
 * headerless UDP, from any number of rigs at once, at the pace of a clock (with an error in ppm)
 * or as fast as it can, with records, pauses and faults from a seed. --ledger tells exactly what
 * was sent and what was dropped on purpose, for comparison with what arrived.
 *
 * One thread. Pacing is by absolute times: a packet is due when its last frame would have been
 * acquired, and what is late does not delay what follows.
 */
#include <errno.h>
#include <math.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include <jansson.h>

#include "core/clock.h"
#include "core/descriptor.h"
#include "credit.h"
#include "options.h"
#include "rig.h"
#include "rig_waveform.h"
#include "wait_file.h"

enum {
    RIGS_MAX = 256,
    EXIT_FAULT = 1,
    EXIT_USAGE = 2,
    CREDIT_TIMEOUT_MS = 10000,
    CREDIT_PATIENCE_MS = 300,
    WAIT_FOR_S = 60,
};

/* Packets due this close together go to the kernel as one batch. */
#define COALESCE_NS (50 * NS_PER_US)

#define RATE_DEFAULT_HZ 48000.0

/* Everything the options fill. */
static struct arguments {
    struct tool_list to;
    uint64_t rigs, port_step;
    const char *framing, *format, *justify, *interface, *sequence_order;
    uint64_t bits, channels, payload_type, ssrc, packet, packet_min, mtu, ttl;
    bool wrap;
    uint64_t sequence, timestamp;
    const char *file, *key;
    struct rig_waveform wave;
    uint64_t repeat, frames, seed;
    double rate; /* 0: not given */
    double seconds, full_scale;
    bool flat_out, segment, preload, quiet;
    double ppm, jitter, start_delay;
    const char *wait_for;
    uint64_t batch, send_buffer;
    uint64_t record;
    double pause;
    double loss, duplicate, reorder, wrong_ssrc, garbage;
    uint64_t loss_burst, reorder_depth, clean;
    struct tool_list restart, skip, forge;
    const char *credit;
    uint64_t in_flight;
    const char *ledger, *write, *emissions;
} arguments = {
    .rigs = 1,
    .port_step = 2,
    .framing = "rtp",
    .justify = "right",
    .sequence_order = "little",
    .channels = 1,
    .payload_type = 96,
    .ssrc = 0x52494701,
    .mtu = 1500,
    .ttl = 1,
    .repeat = 1,
    .seed = 1,
    .seconds = NAN,
    .full_scale = 1,
    .batch = 32,
    .loss_burst = 1,
    .reorder_depth = 3,
    .in_flight = 16384,
};

#define FLAG(field, sentence)                                                                      \
    {                                                                                              \
#field, TOOL_FLAG, 0, NULL, &arguments.field, 0, 0, NULL, sentence                         \
    }
#define ROW(name, kind, dimension, metavar, field, min, max, fallback, sentence)                   \
    {                                                                                              \
        name, TOOL_##kind, DIMENSION_##dimension, metavar, &arguments.field, min, max, fallback,   \
            sentence                                                                               \
    }
#define TEXT(name, metavar, field, fallback, sentence)                                             \
    ROW(name, TEXT, NUMBER, metavar, field, 0, 0, fallback, sentence)
#define LIST(name, metavar, field, sentence)                                                       \
    ROW(name, LIST, NUMBER, metavar, field, 0, 0, NULL, sentence)
#define COUNT(name, metavar, field, min, max, fallback, sentence)                                  \
    ROW(name, COUNT, NUMBER, metavar, field, min, max, fallback, sentence)
#define QUANTITY(name, dimension, metavar, field, min, max, fallback, sentence)                    \
    ROW(name, QUANTITY, dimension, metavar, field, min, max, fallback, sentence)
#define GROUP(sentence)                                                                            \
    {                                                                                              \
        NULL, TOOL_GROUP, 0, NULL, NULL, 0, 0, NULL, sentence                                      \
    }

/* clang-format off */
static const struct tool_option rows[] = {
    GROUP("Where to"),
    LIST("to", "HOST:PORT", to, "destination; given several times: one rig each"),
    COUNT("rigs", "N", rigs, 1, RIGS_MAX, "1", "rigs, on ports PORT, PORT + step, …, with SSRCs one apart"),
    COUNT("port-step", "N", port_step, 1, 1000, "2", "distance of their ports"),
    TEXT("interface", "NAME", interface, NULL, "network interface for multicast"),
    COUNT("ttl", "HOPS", ttl, 1, 255, "1", "reach of multicast"),
    GROUP("Packets"),
    TEXT("framing", "NAME", framing, "rtp", "rtp, udp (samples only) or udp-seq (64-bit sequence number)"),
    TEXT("format", "NAME", format, "L16 for rtp, else f32le", "L16, L24, s32be, f32be, u8, s16le, u16be, s24le, f32le …"),
    COUNT("bits", "N", bits, 2, 32, "all", "significant bits of a sample word"),
    TEXT("justify", "SIDE", justify, "right", "left or right: where these bits are"),
    COUNT("packet", "FRAMES", packet, 1, 65507, "as many as fit", "frames of a packet"),
    COUNT("packet-min", "FRAMES", packet_min, 1, 65507, "full packets", "draw each packet's size from here up"),
    COUNT("mtu", "BYTES", mtu, 68, 65535, "1500", "IP packet that sizes are chosen for"),
    COUNT("payload-type", "N", payload_type, 0, 127, "96", "RTP payload type"),
    COUNT("ssrc", "N", ssrc, 0, 4294967295.0, "0x52494701", "RTP SSRC of the first rig"),
    COUNT("sequence", "N", sequence, 0, 1.8e19, "0", "first sequence number"),
    COUNT("timestamp", "N", timestamp, 0, 4294967295.0, "0", "first RTP time stamp"),
    FLAG(wrap, "start just before sequence number and time stamp wrap"),
    TEXT("key", "PATH", key, NULL, "tag each packet with this key, the stream's `key`"),
    TEXT("sequence-order", "ORDER", sequence_order, "little", "little or big: byte order of udp-seq's number"),
    GROUP("Signal"),
    TEXT("file", "PATH", file, NULL, "send a recording (WAV, W64, RF64, FLAC …)"),
    COUNT("repeat", "N", repeat, 0, 1e18, "1", "so many times over; 0: without end"),
    TEXT("signal", "KIND", wave.kind, "sine", "else a generated one: sine, chirp, noise, impulses, dc, burst-rect,\n"
         "                                burst-triangle, burst-sine2, tone-burst, ae, counter"),
    QUANTITY("rate", FREQUENCY, "HZ", rate, 1e-3, 1e12, "48 kHz, or the file's", "frames per second"),
    COUNT("channels", "N", channels, 1, 1024, "1, or the file's", "channels"),
    COUNT("frames", "N", frames, 1, 1.8e19, "all", "frames to send (a generated signal: 10 s of them)"),
    QUANTITY("seconds", TIME, "S", seconds, 0, 1e9, NULL, "the same as a time"),
    QUANTITY("full-scale", NUMBER, "V", full_scale, 1e-300, 1e300, "1", "value that becomes code 1.0 of an integer format"),
    QUANTITY("amplitude", NUMBER, "V", wave.amplitude, -1e300, 1e300, "0.5", "peak; for noise its sigma"),
    QUANTITY("frequency", FREQUENCY, "HZ", wave.frequency, 0, 1e12, NULL, "of a sine or carrier; where a chirp begins"),
    QUANTITY("frequency-end", FREQUENCY, "HZ", wave.frequency_end, 0, 1e12, NULL, "where a chirp ends"),
    QUANTITY("length", TIME, "S", wave.length, 0, 1e9, NULL, "of a chirp or burst"),
    QUANTITY("cycles", NUMBER, "N", wave.cycles, 0, 1e6, NULL, "of a tone burst"),
    TEXT("window", "NAME", wave.window, NULL, "of a tone burst or chirp: none, hann or tukey"),
    QUANTITY("taper", RATIO, "P", wave.taper, 0, 1, NULL, "of a Tukey window, both ends together"),
    QUANTITY("period", TIME, "S", wave.period, 0, 1e9, NULL, "from one chirp, burst or impulse to the next"),
    QUANTITY("phase", ANGLE, "DEG", wave.phase, -1e6, 1e6, NULL, "of a sine"),
    QUANTITY("channel-phase", ANGLE, "DEG", wave.channel_phase, -1e6, 1e6, NULL, "added from channel to channel"),
    QUANTITY("channel-delay", TIME, "S", wave.channel_delay, 0, 1e9, NULL, "added from channel to channel"),
    QUANTITY("channel-delay-frames", NUMBER, "N", wave.channel_delay_frames, 0, 1e12, NULL, "the same in frames"),
    QUANTITY("offset", NUMBER, "V", wave.offset, -1e300, 1e300, NULL, "DC added"),
    QUANTITY("noise", NUMBER, "V", wave.noise, 0, 1e300, NULL, "white noise added, sigma"),
    QUANTITY("arrivals", FREQUENCY, "HZ", wave.arrivals, 0, 1e9, NULL, "acoustic emission: mean rate"),
    QUANTITY("rise", TIME, "S", wave.rise, 0, 1e6, NULL, "acoustic emission: rise of an arrival"),
    QUANTITY("decay", TIME, "S", wave.decay, 0, 1e6, NULL, "acoustic emission: its time constant"),
    TEXT("sensors", "POINTS", wave.sensors, NULL, "acoustic emission on a plate: where each channel's sensor is,\n"
         "                                \"0 0, 1 m 0, none, 0 800 mm\"; arrivals follow from the way"),
    TEXT("sources", "POINTS", wave.sources, "anywhere in the extent", "where emissions come from, one of these at random"),
    TEXT("extent", "POINTS", wave.extent, "the sensors' box", "two opposite corners of where emissions come from"),
    QUANTITY("velocity", VELOCITY, "M/S", wave.velocity, 0, 1e6, NULL, "of waves on the plate"),
    ROW("spreading", FLAG, NUMBER, NULL, wave.spreading, 0, 0, NULL, "amplitudes fall with the root of the way, from 100 mm on"),
    COUNT("seed", "N", seed, 0, 1.8e19, "1", "of signal and faults"),
    GROUP("Pace"),
    ROW("flat-out", FLAG, NUMBER, NULL, flat_out, 0, 0, NULL, "as fast as it goes, not at the rate"),
    QUANTITY("ppm", NUMBER, "PPM", ppm, -1e5, 1e5, "0", "error of the rig's clock"),
    QUANTITY("jitter", TIME, "S", jitter, 0, 10, "0", "each packet is late by up to so much"),
    QUANTITY("start-delay", TIME, "S", start_delay, 0, 1e6, "0", "wait before the first packet"),
    TEXT("wait-for", "PATH", wait_for, NULL, "wait until this file is there, such as a daemon's SDP file"),
    COUNT("batch", "N", batch, 1, 1024, "32", "packets handed to the kernel at once when flat out"),
    FLAG(segment, "let the kernel cut the packets (UDP_SEGMENT)"),
    FLAG(preload, "encode everything before the first packet"),
    COUNT("send-buffer", "BYTES", send_buffer, 0, 1e9, "the system's", "socket buffer"),
    TEXT("credit", "HOST:PORT", credit, NULL, "be paced by results: listen for convolv-tap --credit"),
    COUNT("in-flight", "FRAMES", in_flight, 1, 1e15, "16384", "with --credit: frames ahead of the results"),
    GROUP("Records"),
    COUNT("record", "FRAMES", record, 1, 1e18, "none", "send records of so many frames, each begun by the marker bit"),
    QUANTITY("pause", TIME, "S", pause, 0, 1e6, "0", "between them"),
    GROUP("Faults (probabilities per packet, from the seed)"),
    QUANTITY("loss", RATIO, "P", loss, 0, 1, "0", "drop"),
    COUNT("loss-burst", "N", loss_burst, 1, 1e6, "1", "so many in a row"),
    QUANTITY("duplicate", RATIO, "P", duplicate, 0, 1, "0", "send twice"),
    QUANTITY("reorder", RATIO, "P", reorder, 0, 1, "0", "hold back"),
    COUNT("reorder-depth", "N", reorder_depth, 1, FAULTS_DEPTH_MAX, "3", "until up to so many later ones have gone"),
    QUANTITY("wrong-ssrc", RATIO, "P", wrong_ssrc, 0, 1, "0", "put a packet of another SSRC in between"),
    QUANTITY("garbage", RATIO, "P", garbage, 0, 1, "0", "put a datagram in between that is not RTP"),
    COUNT("clean", "FRAMES", clean, 0, 1.8e19, "0", "none of these among the first frames"),
    LIST("restart-at", "FRAME", restart, "new SSRC, sequence number and time stamp there"),
    LIST("skip", "FRAME:FRAMES", skip, "frames never acquired: the time stamp jumps"),
    LIST("forge", "FRAME:FRAMES", forge, "one packet in between that claims to be so much later"),
    GROUP("Reports"),
    TEXT("ledger", "PATH", ledger, NULL, "write what was sent, exactly, as JSON"),
    TEXT("write", "PATH.npy", write, NULL, "write what was acquired, as the wire carries it"),
    TEXT("emissions", "PATH", emissions, NULL, "write where and when the first rig's emissions came from, as CSV"),
    FLAG(quiet, "no progress line, no summary"),
};
/* clang-format on */

static const char usage[] =
    "Usage: convolv-rig --to HOST:PORT [OPTIONS]\n"
    "Simulates acquisition devices: sends sample blocks to convolvd by UDP.\n"
    "Quantities take units: 500 kHz, 20 ms, 1 %. A plain number is in Hz, s, V or degrees.\n";

static volatile sig_atomic_t stopping;

static void on_signal(int number)
{
    (void)number;
    stopping = 1;
}

/* ---- options into rigs ------------------------------------------------------------------- */

/* "FRAME" or "FRAME:FRAMES". */
static int read_places(const struct tool_list *list, const char *name, bool length,
                       struct rig_place *places, unsigned *count, struct problem *problem)
{
    for (unsigned i = 0; i < list->count; i++) {
        unsigned long long frame, frames = 0;
        char rest;
        int found = length ? sscanf(list->items[i], "%llu:%llu%c", &frame, &frames, &rest) - 1
                           : sscanf(list->items[i], "%llu%c", &frame, &rest);
        if (found != 1)
            return problem_set(problem, ERROR_ARGUMENT, "--%s %s: write %s", name, list->items[i],
                               length ? "FRAME:FRAMES, as in 48000:1200" : "a frame number");
        places[i] = (struct rig_place){frame, frames};
    }
    *count = list->count;
    return 0;
}

static int open_signal(unsigned index, struct rig_signal **out, struct problem *problem)
{
    const struct arguments *a = &arguments;
    if (a->file != NULL)
        return rig_signal_load(a->file, a->full_scale, a->repeat, out, problem);
    static struct rig_plate plate;
    struct waveform_spec spec;
    int status = rig_waveform_spec(&a->wave, a->rate > 0 ? a->rate : RATE_DEFAULT_HZ,
                                   (uint32_t)a->channels, a->seed + index, &spec, &plate, problem);
    if (status != 0)
        return status;
    return rig_signal_generate(&spec, a->full_scale, out, problem);
}

/* "host:port" with the port moved by index · step. Returns false when it is not of that shape. */
static bool shift_port(const char *address, unsigned by, char *text, size_t bytes)
{
    const char *colon = strrchr(address, ':');
    if (colon == NULL)
        return false;
    unsigned long port = strtoul(colon + 1, NULL, 10) + by;
    return snprintf(text, bytes, "%.*s:%lu", (int)(colon - address), address, port) < (int)bytes;
}

static int fill_rig_options(struct rig_options *options, struct problem *problem)
{
    const struct arguments *a = &arguments;
    convolv_sender_defaults(&options->sender);
    struct convolv_sender_options *sender = &options->sender;
    if (convolv_framing_parse(a->framing, &sender->framing) != CONVOLV_OK)
        return problem_set(problem, ERROR_ARGUMENT, "--framing %s: write rtp, udp or udp-seq",
                           a->framing);
    if (strcmp(a->justify, "left") != 0 && strcmp(a->justify, "right") != 0)
        return problem_set(problem, ERROR_ARGUMENT, "--justify %s: write left or right",
                           a->justify);
    if (strcmp(a->sequence_order, "little") != 0 && strcmp(a->sequence_order, "big") != 0)
        return problem_set(problem, ERROR_ARGUMENT, "--sequence-order %s: write little or big",
                           a->sequence_order);
    sender->interface = a->interface;
    sender->format = a->format != NULL                        ? a->format
                     : sender->framing == CONVOLV_FRAMING_RTP ? "L16"
                                                              : "f32le";
    sender->bits = (uint32_t)a->bits;
    sender->justify_left = strcmp(a->justify, "left") == 0;
    sender->packet_frames = (uint32_t)a->packet;
    sender->mtu = (uint32_t)a->mtu;
    sender->payload_type = (uint32_t)a->payload_type;
    sender->ttl = (uint32_t)a->ttl;
    sender->batch = (uint32_t)a->batch;
    sender->segment = a->segment;
    sender->send_buffer_bytes = a->send_buffer;
    static uint8_t key[CONVOLV_KEY_BYTES];
    struct convolv_problem reason;
    if (a->key != NULL && convolv_key_read(a->key, key, &reason) != CONVOLV_OK)
        return problem_set(problem, ERROR_NO_FILE, "--%s", reason.text);
    sender->key = a->key != NULL ? key : NULL;
    sender->sequence_big_endian = strcmp(a->sequence_order, "big") == 0;
    sender->first_sequence = a->wrap ? 0xfff0 : a->sequence;
    sender->first_timestamp = a->wrap ? UINT32_MAX - 1000 : (uint32_t)a->timestamp;
    options->faults = (struct faults_options){
        .loss = a->loss,
        .loss_burst = a->loss_burst,
        .duplicate = a->duplicate,
        .reorder = a->reorder,
        .reorder_depth = a->reorder_depth,
        .wrong_ssrc = a->wrong_ssrc,
        .garbage = a->garbage,
        .clean_frames = a->clean,
    };
    if (sender->framing != CONVOLV_FRAMING_RTP &&
        (a->wrong_ssrc > 0 || a->garbage > 0 || a->forge.count > 0 || a->record > 0 ||
         a->skip.count > 0))
        return problem_set(problem, ERROR_ARGUMENT,
                           "--wrong-ssrc, --garbage, --forge, --skip and --record need RTP "
                           "headers: use --framing rtp");
    options->full_scale = a->full_scale;
    options->packet_frames_min = a->packet_min;
    options->record_frames = a->record;
    options->preload = a->preload;
    int status = read_places(&a->restart, "restart-at", false, options->restarts,
                             &options->restart_count, problem);
    if (status == 0)
        status = read_places(&a->skip, "skip", true, options->skips, &options->skip_count, problem);
    if (status == 0)
        status = read_places(&a->forge, "forge", true, options->forgeries, &options->forgery_count,
                             problem);
    return status;
}

static int open_rig(struct rig_options options, unsigned index, double *rate_hz, struct rig **out,
                    struct problem *problem)
{
    const struct arguments *a = &arguments;
    struct rig_signal *signal;
    int status = open_signal(index, &signal, problem);
    if (status != 0)
        return status;
    *rate_hz = a->rate > 0 ? a->rate : rig_signal_rate_hz(signal);
    options.frames = a->frames > 0        ? a->frames
                     : !isnan(a->seconds) ? (uint64_t)llround(a->seconds * *rate_hz)
                     : a->file != NULL    ? UINT64_MAX
                                          : (uint64_t)llround(10 * *rate_hz);
    options.pause_frames = (uint64_t)llround(a->pause * *rate_hz);
    options.sender.channels = rig_signal_channels(signal);
    options.sender.ssrc = (uint32_t)(a->ssrc + index);
    options.faults.seed = a->seed + index;

    char address[256], path[4096];
    unsigned shift = a->to.count > 1 ? 0 : index * (unsigned)a->port_step;
    const char *to = a->to.items[a->to.count > 1 ? index : 0];
    if (!shift_port(to, shift, address, sizeof address)) {
        rig_signal_close(signal);
        return problem_set(problem, ERROR_ADDRESS, "--to %s: write HOST:PORT", to);
    }
    options.sender.address = address;
    if (a->write != NULL) {
        if (index == 0)
            snprintf(path, sizeof path, "%s", a->write);
        else
            snprintf(path, sizeof path, "%s.%u", a->write, index);
        options.write_path = path;
    }
    if (a->emissions != NULL && index == 0) {
        status = rig_signal_write_emissions(signal, a->emissions, options.frames, problem);
        if (status != 0) {
            rig_signal_close(signal);
            return status;
        }
    }
    return rig_open(&options, signal, out, problem);
}

/* ---- running ----------------------------------------------------------------------------- */

struct fleet {
    struct rig *rigs[RIGS_MAX];
    unsigned count;
    double rate_hz; /* of the rigs' clocks: nominal, with --ppm */
    int64_t start_ns;
    struct random_state random;
    struct credit *credit;
    bool starved;
    int64_t progress_ns; /* when the progress line is next written; INT64_MAX: never */
};

static int64_t due_ns(const struct fleet *fleet, const struct rig *rig)
{
    return fleet->start_ns + (int64_t)llround((double)rig_next_frame(rig) / fleet->rate_hz * 1e9);
}

static void sleep_until(int64_t when_ns)
{
    const struct timespec time = {.tv_sec = when_ns / NS_PER_SECOND,
                                  .tv_nsec = when_ns % NS_PER_SECOND};
    clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &time,
                    NULL); /* a signal ends it early: the loop looks */
}

static struct rig *earliest(const struct fleet *fleet)
{
    struct rig *first = NULL;
    for (unsigned i = 0; i < fleet->count; i++)
        if (!rig_finished(fleet->rigs[i]) &&
            (first == NULL || rig_next_frame(fleet->rigs[i]) < rig_next_frame(first)))
            first = fleet->rigs[i];
    return first;
}

static void flush_all(const struct fleet *fleet)
{
    for (unsigned i = 0; i < fleet->count; i++)
        rig_flush(fleet->rigs[i]);
}

static void show_progress(struct fleet *fleet, int64_t now_ns, uint64_t packets)
{
    if (now_ns < fleet->progress_ns)
        return;
    fleet->progress_ns = now_ns + NS_PER_SECOND / 5;
    double seconds = (double)(now_ns - fleet->start_ns) * 1e-9;
    uint64_t frames = rig_frames(fleet->rigs[0]);
    fprintf(stderr, "\r%8.1f s  %llu frames  %llu packets  %.3f Mframes/s ", seconds,
            (unsigned long long)frames, (unsigned long long)packets,
            seconds > 0 ? (double)frames / seconds * 1e-6 : 0.0);
}

/* What is queued, and after a while what is held back, may be what the results wait for. */
static bool wait_for_results(const struct fleet *fleet, struct rig *rig, uint64_t frames)
{
    if (credit_wait(fleet->credit, frames, 0))
        return true;
    rig_flush(rig);
    if (credit_wait(fleet->credit, frames, CREDIT_PATIENCE_MS))
        return true;
    rig_release(rig);
    return credit_wait(fleet->credit, frames, CREDIT_TIMEOUT_MS);
}

static int run(struct fleet *fleet, uint64_t *packets, struct problem *problem)
{
    struct rig *rig;
    while (!stopping && (rig = earliest(fleet)) != NULL) {
        if (fleet->credit != NULL && rig_next_frame(rig) > arguments.in_flight) {
            uint64_t needed = rig_next_frame(rig) - arguments.in_flight;
            if (!wait_for_results(fleet, rig, needed) && !stopping) {
                fleet->starved = true;
                return problem_set(problem, ERROR_LIMIT,
                                   "no results for %d s: is convolv-tap --credit running?",
                                   CREDIT_TIMEOUT_MS / 1000);
            }
        }
        if (!arguments.flat_out) {
            int64_t when = due_ns(fleet, rig);
            if (arguments.jitter > 0)
                when += (int64_t)(arguments.jitter * 1e9 * random_unit(&fleet->random));
            int64_t now = clock_monotonic_ns();
            if (when - now > COALESCE_NS) {
                flush_all(fleet);
                show_progress(fleet, now, *packets);
                /* In steps, so that the progress line and a signal are seen in long pauses. */
                while (!stopping && (now = clock_monotonic_ns()) < when) {
                    sleep_until(when - now < NS_PER_SECOND / 5 ? when : now + NS_PER_SECOND / 5);
                    show_progress(fleet, now, *packets);
                }
            }
        } else if ((*packets & 0xfff) == 0) {
            show_progress(fleet, clock_monotonic_ns(), *packets);
        }
        int status = rig_step(rig, problem);
        if (status != 0)
            return status;
        ++*packets;
    }
    return 0;
}

static int write_ledger(const struct fleet *fleet, double seconds, struct problem *problem)
{
    json_t *rigs = json_array();
    for (unsigned i = 0; i < fleet->count; i++)
        json_array_append_new(rigs, rig_ledger_json(fleet->rigs[i]));
    json_t *ledger = json_pack("{s:o, s:f, s:b, s:b}", "rigs", rigs, "seconds", seconds,
                               "interrupted", stopping != 0, "starved", fleet->starved);
    int status = json_dump_file(ledger, arguments.ledger, JSON_INDENT(1) | JSON_PRESERVE_ORDER);
    json_decref(ledger);
    return status == 0
               ? 0
               : problem_set(problem, ERROR_NO_FILE, "%s: cannot be written", arguments.ledger);
}

static int drive(struct fleet *fleet, struct problem *problem)
{
    const struct sigaction action = {.sa_handler = on_signal}; /* no restart: sleeps end */
    sigaction(SIGINT, &action, NULL);
    sigaction(SIGTERM, &action, NULL);
    bool terminal = isatty(STDERR_FILENO) && !arguments.quiet;
    if (arguments.wait_for != NULL &&
        !wait_for_file("convolv-rig", arguments.wait_for, WAIT_FOR_S, arguments.quiet, &stopping))
        return problem_set(problem, ERROR_NO_FILE, "--wait-for %s: it did not come in %d s",
                           arguments.wait_for, WAIT_FOR_S);
    if (arguments.start_delay > 0)
        sleep_until(clock_monotonic_ns() + (int64_t)(arguments.start_delay * 1e9));
    fleet->start_ns = clock_monotonic_ns();
    fleet->progress_ns = terminal ? fleet->start_ns : INT64_MAX;
    fleet->random.state = arguments.seed ^ UINT64_C(0x6a69747465720000);

    uint64_t packets = 0, frames = 0;
    int status = run(fleet, &packets, problem);
    for (unsigned i = 0; i < fleet->count; i++) {
        struct problem later;
        int finished = rig_finish(fleet->rigs[i], &later);
        if (finished != 0 && status == 0) {
            *problem = later;
            status = finished;
        }
        frames += rig_frames(fleet->rigs[i]);
    }
    double seconds = (double)(clock_monotonic_ns() - fleet->start_ns) * 1e-9;
    if (terminal)
        fputc('\n', stderr);
    if (!arguments.quiet)
        printf("sent %llu frames in %llu packets from %u rig%s in %.3f s (%.4g frames/s)\n",
               (unsigned long long)frames, (unsigned long long)packets, fleet->count,
               fleet->count == 1 ? "" : "s", seconds, seconds > 0 ? (double)frames / seconds : 0.0);
    if (arguments.ledger != NULL) {
        int written = write_ledger(fleet, seconds, status == 0 ? problem : NULL);
        if (status == 0)
            status = written;
    }
    return status;
}

static int open_fleet(struct fleet *fleet, struct problem *problem)
{
    const struct arguments *a = &arguments;
    if (a->to.count == 0)
        return problem_set(problem, ERROR_ARGUMENT, "where to? Give --to HOST:PORT");
    if (a->to.count > 1 && a->rigs > 1)
        return problem_set(problem, ERROR_ARGUMENT, "give either --rigs or several --to");
    unsigned wanted = a->to.count > 1 ? a->to.count : (unsigned)a->rigs;
    if (a->credit != NULL && wanted > 1)
        return problem_set(problem, ERROR_ARGUMENT,
                           "--credit paces one rig: start one convolv-rig for each");
    struct rig_options *options = calloc(1, sizeof *options); /* several KiB */
    if (options == NULL)
        return problem_set(problem, ERROR_MEMORY, "out of memory");
    int status = fill_rig_options(options, problem);
    for (unsigned i = 0; i < wanted && status == 0; i++) {
        double rate_hz = RATE_DEFAULT_HZ;
        status = open_rig(*options, i, &rate_hz, &fleet->rigs[i], problem);
        fleet->rate_hz =
            rate_hz * (1 + a->ppm * 1e-6); /* the same for all: one --rate, one --file */
        if (status == 0)
            fleet->count++;
    }
    free(options);
    if (status == 0 && a->credit != NULL)
        status = credit_listen(a->credit, &fleet->credit, problem);
    return status;
}

int main(int argc, char **argv)
{
    struct problem problem = {0};
    bool help, version;
    const size_t row_count = sizeof rows / sizeof *rows;
    descriptor_open_standard();
    rig_waveform_defaults(&arguments.wave);
    if (tool_options_parse(rows, row_count, argc, argv, &help, &version, &problem) != 0) {
        fprintf(stderr, "convolv-rig: %s\n", problem.text);
        return EXIT_USAGE;
    }
    if (help) {
        tool_options_print_help(rows, row_count, usage);
        return 0;
    }
    if (version) {
        printf("convolv-rig %s\n", convolv_version());
        return 0;
    }
    static struct fleet fleet;
    int status = open_fleet(&fleet, &problem);
    int code = status == 0 ? 0 : EXIT_USAGE;
    if (status == 0) {
        status = drive(&fleet, &problem);
        code = status == 0 ? 0 : EXIT_FAULT;
    }
    if (status != 0)
        fprintf(stderr, "convolv-rig: %s\n", problem.text);
    for (unsigned i = 0; i < fleet.count; i++)
        rig_close(fleet.rigs[i]);
    credit_close(fleet.credit);
    return code;
}
