/*
 * A JACK client for the tests. It plays a known signal into named ports and captures other ports in
 * the same process cycles: row n of the capture is taken in the cycle that plays row n, so a signal
 * that returns is late by exactly the delay of the path.
 *
 *     jack_client --name rig --play in.f32 --outputs 2 --capture out.f32 --inputs 2
 *                 --frames 48000 --connect 'rig:out_%d>convolvd:in_%d'
 *                 --connect 'convolvd:out_%d>rig:in_%d'
 *
 * Files hold raw float32, frame by frame ([frames][ports]); a capture named .npy gets that header.
 * A connection is SOURCE>SINK, each a full port name; %d stands for the numbers of the client's own
 * ports, from 1. The client retries connections until the ports exist or --timeout has passed; the
 * first cycle after the last connection is frame 0. --through N copies N inputs to N outputs
 * instead, --delay FRAMES later. --trials N: a run with a cycle that was late or left out is made
 * again, half a second later and on the same connections, up to N runs in all; the capture is that
 * of the last. $JACK_DEFAULT_SERVER names the server.
 *
 * The client prints "ready" when it is connected and, at the end of each run, a line of JSON: rate,
 * period, first_frame (JACK's frame time of row 0), frames, missed_frames (cycles that JACK left
 * out, by its frame clock), xruns, start_ns and end_ns (monotonic times of the first and last
 * cycle), gone (the server ended). Exit status: 0; 1 for an error; 3 when the server ended first,
 * with the capture up to then written.
 *
 * The process callback runs on JACK's thread: it copies samples and touches only the atomics
 * below. The main thread allocates everything before it activates the client.
 */
#include <errno.h>
#include <getopt.h>
#include <inttypes.h>
#include <jack/jack.h>
#include <signal.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

enum {
    PORTS_MAX = 512,
    CONNECTIONS_MAX = 4096 /* as many ports as a server has */,
    NAME_BYTES = 320,
    REST_US = 500000
};

struct client {
    /* Immutable once active. */
    jack_client_t *jack;
    jack_port_t *inputs[PORTS_MAX], *outputs[PORTS_MAX];
    uint32_t input_count, output_count;
    const float *play;            /* [play_frames][output_count] */
    float *capture;               /* [frames][input_count] */
    uint64_t play_frames, frames; /* frames: how long the run is, 0: until SIGTERM */
    bool loop, through;
    float *line; /* --delay: [delay][output_count], a ring */
    uint32_t delay;
    /* Main thread sets, process thread reads. */
    atomic_bool started;
    /* Process thread sets: it has seen that the run is over, and the next begins at frame 0. */
    atomic_bool rested;
    /* Process thread sets, main thread reads. */
    _Atomic uint64_t done_frames, missed_frames, first_frame;
    _Atomic int64_t start_ns, end_ns;
    /* Any of JACK's threads. */
    atomic_uint xruns;
    atomic_bool gone;
    /* Process thread only. */
    bool running;
    uint32_t line_at;
    jack_nframes_t next_frame_time;
    bool running_before; /* next_frame_time is set */
};

struct connection {
    char from[NAME_BYTES], to[NAME_BYTES];
};

static struct connection connections[CONNECTIONS_MAX];
static size_t connection_count;
static volatile sig_atomic_t told_to_end;

static void end_soon(int number)
{
    (void)number;
    told_to_end = 1;
}

__attribute__((noreturn, format(printf, 1, 2))) static void fail(const char *format, ...)
{
    va_list arguments;
    va_start(arguments, format);
    fputs("jack_client: ", stderr);
    vfprintf(stderr, format, arguments);
    fputc('\n', stderr);
    va_end(arguments);
    exit(1);
}

static int64_t monotonic_ns(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (int64_t)now.tv_sec * 1000000000 + now.tv_nsec;
}

static void pass_through(struct client *client, jack_nframes_t frames)
{
    uint32_t at = client->line_at;
    for (uint32_t port = 0; port < client->output_count; port++) {
        const float *from = jack_port_get_buffer(client->inputs[port], frames);
        float *to = jack_port_get_buffer(client->outputs[port], frames);
        at = client->line_at;
        for (jack_nframes_t i = 0; i < frames; i++) {
            float *kept = &client->line[at * client->output_count + port];
            to[i] = client->delay > 0 ? *kept : from[i];
            *kept = from[i];
            at = client->delay > 0 ? (at + 1) % client->delay : 0;
        }
    }
    client->line_at = at;
}

static void play(struct client *client, jack_nframes_t frames, uint64_t at, bool silent)
{
    for (uint32_t port = 0; port < client->output_count; port++) {
        float *to = jack_port_get_buffer(client->outputs[port], frames);
        for (jack_nframes_t i = 0; i < frames; i++) {
            uint64_t frame =
                client->loop && client->play_frames ? (at + i) % client->play_frames : at + i;
            to[i] = silent || frame >= client->play_frames
                        ? 0
                        : client->play[frame * client->output_count + port];
        }
    }
}

static void capture(struct client *client, jack_nframes_t frames, uint64_t at)
{
    uint64_t left = client->frames > at ? client->frames - at : 0;
    jack_nframes_t count = left < frames ? (jack_nframes_t)left : frames;
    for (uint32_t port = 0; port < client->input_count; port++) {
        const float *from = jack_port_get_buffer(client->inputs[port], frames);
        for (jack_nframes_t i = 0; i < count; i++)
            client->capture[(at + i) * client->input_count + port] = from[i];
    }
}

static int process(jack_nframes_t frames, void *context)
{
    struct client *client = context;
    if (client->through) {
        pass_through(client, frames);
        return 0;
    }
    jack_nframes_t now = jack_last_frame_time(client->jack);
    uint64_t at = atomic_load_explicit(&client->done_frames, memory_order_relaxed);
    if (!atomic_load_explicit(&client->started, memory_order_acquire)) {
        play(client, frames, 0, true);
        client->running = client->running_before = false;
        atomic_store_explicit(&client->rested, true, memory_order_release);
        return 0;
    }
    if (!client->running) {
        client->running = true;
        at = 0;
        atomic_store(&client->missed_frames, 0);
        atomic_store(&client->xruns, 0); /* those of making connections are nobody's */
        atomic_store(&client->first_frame, now);
        atomic_store(&client->start_ns, monotonic_ns());
    } else if ((int32_t)(now - client->next_frame_time) > 0) {
        atomic_fetch_add(&client->missed_frames, (jack_nframes_t)(now - client->next_frame_time));
        client->next_frame_time = now;
    } /* else its frame clock may have stepped back, and will step forward again: none is missing */
    client->next_frame_time =
        client->running_before ? client->next_frame_time + frames : now + frames;
    client->running_before = true;
    play(client, frames, at, false);
    if (client->capture && at < client->frames)
        capture(client, frames, at);
    atomic_store(&client->end_ns, monotonic_ns());
    atomic_store_explicit(&client->done_frames, at + frames, memory_order_release);
    return 0;
}

static int count_xrun(void *context)
{
    atomic_fetch_add(&((struct client *)context)->xruns, 1);
    return 0;
}

static void server_gone(void *context)
{
    atomic_store(&((struct client *)context)->gone, true);
}

/* The file's floats, *frames of them `ports` wide. */
static float *load(const char *path, uint32_t ports, uint64_t *frames)
{
    FILE *file = fopen(path, "rb");
    if (!file || fseek(file, 0, SEEK_END))
        fail("%s: %s", path, strerror(errno));
    long bytes = ftell(file);
    rewind(file);
    *frames = (uint64_t)bytes / sizeof(float) / ports;
    float *samples = calloc(*frames * ports + 1, sizeof *samples);
    if (!samples || fread(samples, sizeof(float) * ports, *frames, file) != *frames)
        fail("%s cannot be read", path);
    fclose(file);
    return samples;
}

static void save(const char *path, const float *samples, uint64_t frames, uint32_t ports)
{
    FILE *file = fopen(path, "wb");
    if (!file)
        fail("%s: %s", path, strerror(errno));
    if (strlen(path) > 4 && strcmp(path + strlen(path) - 4, ".npy") == 0) {
        char text[118];
        int length =
            snprintf(text, sizeof text,
                     "{'descr': '<f4', 'fortran_order': False, 'shape': (%" PRIu64 ", %u), }",
                     frames, ports);
        memset(text + length, ' ', sizeof text - (size_t)length);
        text[sizeof text - 1] = '\n';
        fwrite("\x93NUMPY\x01\x00\x76\x00", 1, 10, file);
        fwrite(text, 1, sizeof text, file);
    }
    bool written = fwrite(samples, sizeof(float) * ports, frames, file) == frames;
    if (fclose(file) || !written)
        fail("%s cannot be written", path);
}

/* One end of a connection, its %d replaced by `number`. */
static void port_name(char *to, const char *pattern, size_t length, uint32_t number)
{
    const char *mark = memmem(pattern, length, "%d", 2);
    int written = mark ? snprintf(to, NAME_BYTES, "%.*s%u%.*s", (int)(mark - pattern), pattern,
                                  number, (int)(length - (size_t)(mark - pattern) - 2), mark + 2)
                       : snprintf(to, NAME_BYTES, "%.*s", (int)length, pattern);
    if (written >= NAME_BYTES)
        fail("a port's name is longer than %d bytes", NAME_BYTES);
}

static void add_connection(const char *text, const char *ours, uint32_t inputs, uint32_t outputs)
{
    const char *arrow = strchr(text, '>');
    if (!arrow)
        fail("--connect %s: write SOURCE>SINK", text);
    size_t from = (size_t)(arrow - text), prefix = strlen(ours);
    bool from_us = from > prefix && strncmp(text, ours, prefix) == 0 && text[prefix] == ':';
    uint32_t count = strstr(text, "%d") ? (from_us ? outputs : inputs) : 1;
    for (uint32_t i = 0; i < count; i++) {
        if (connection_count == CONNECTIONS_MAX)
            fail("more than %d connections", CONNECTIONS_MAX);
        struct connection *connection = &connections[connection_count++];
        port_name(connection->from, text, from, i + 1);
        port_name(connection->to, arrow + 1, strlen(arrow + 1), i + 1);
    }
}

static void connect_all(struct client *client, int64_t deadline_ns)
{
    for (size_t i = 0; i < connection_count; i++) {
        const struct connection *connection = &connections[i];
        for (;;) {
            int status = jack_connect(client->jack, connection->from, connection->to);
            if (status == 0 || status == EEXIST)
                break;
            if (atomic_load(&client->gone))
                fail("the server ended");
            if (monotonic_ns() > deadline_ns)
                fail("%s cannot be connected to %s", connection->from, connection->to);
            usleep(20000);
        }
    }
}

static jack_port_t *add_port(struct client *client, const char *direction, uint32_t index,
                             unsigned long flags)
{
    char name[32];
    snprintf(name, sizeof name, "%s_%u", direction, index + 1);
    jack_port_t *port = jack_port_register(client->jack, name, JACK_DEFAULT_AUDIO_TYPE, flags, 0);
    if (!port)
        fail("port %s cannot be registered; has the server --port-max of them?", name);
    return port;
}

static uint32_t port_number(const char *text)
{
    unsigned long value = strtoul(text, NULL, 10);
    if (value > PORTS_MAX)
        fail("at most %d ports", PORTS_MAX);
    return (uint32_t)value;
}

static void quiet(const char *text)
{
    (void)text; /* retried connections are not worth a line each */
}

struct options {
    const char *name, *play_path, *capture_path, *connections[CONNECTIONS_MAX];
    size_t connection_count;
    double timeout_s;
    unsigned long trials;
};

/* Sets what the command line says in `client` and `options`; false when it is wrong. */
static bool read_options(int argc, char **argv, struct client *client, struct options *options)
{
    static const struct option names[] = {
        {"name", required_argument, NULL, 'n'},
        {"play", required_argument, NULL, 'p'},
        {"outputs", required_argument, NULL, 'o'},
        {"capture", required_argument, NULL, 'c'},
        {"inputs", required_argument, NULL, 'i'},
        {"frames", required_argument, NULL, 'f'},
        {"connect", required_argument, NULL, 'x'},
        {"through", required_argument, NULL, 't'},
        {"timeout", required_argument, NULL, 'w'},
        {"delay", required_argument, NULL, 'd'},
        {"loop", no_argument, NULL, 'l'},
        {"trials", required_argument, NULL, 'r'},
        {NULL, 0, NULL, 0},
    };
    for (int option; (option = getopt_long(argc, argv, "", names, NULL)) != -1;) {
        switch (option) {
        case 'n':
            options->name = optarg;
            break;
        case 'p':
            options->play_path = optarg;
            break;
        case 'o':
            client->output_count = port_number(optarg);
            break;
        case 'c':
            options->capture_path = optarg;
            break;
        case 'i':
            client->input_count = port_number(optarg);
            break;
        case 'f':
            client->frames = strtoull(optarg, NULL, 10);
            break;
        case 't':
            client->input_count = client->output_count = port_number(optarg);
            client->through = true;
            break;
        case 'w':
            options->timeout_s = strtod(optarg, NULL);
            break;
        case 'd':
            client->delay = (uint32_t)strtoul(optarg, NULL, 10);
            break;
        case 'l':
            client->loop = true;
            break;
        case 'r':
            options->trials = strtoul(optarg, NULL, 10);
            break;
        case 'x':
            if (options->connection_count == CONNECTIONS_MAX)
                fail("more than %d connections", CONNECTIONS_MAX);
            options->connections[options->connection_count++] = optarg;
            break;
        default:
            return false;
        }
    }
    return true;
}

/* Loads the signal and allocates the capture and the delay line. */
static void allocate(struct client *client, const struct options *options)
{
    if (options->play_path && client->output_count)
        client->play = load(options->play_path, client->output_count, &client->play_frames);
    if (client->frames && client->input_count && !client->through) {
        size_t bytes = client->frames * client->input_count * sizeof(float);
        client->capture = malloc(bytes);
        if (!client->capture)
            fail("no memory for the capture");
        memset(client->capture, 0, bytes); /* no page fault in the callback */
    }
    client->line = calloc(((size_t)client->delay + 1) * client->output_count + 1, sizeof(float));
    if (!client->line)
        fail("no memory for the delay");
}

/* Joins the server, registers the ports, activates the client and connects it. */
static void join(struct client *client, const struct options *options)
{
    if (!getenv("JACK_CLIENT_VERBOSE")) {
        jack_set_error_function(quiet);
        jack_set_info_function(quiet);
    }
    int64_t deadline_ns = monotonic_ns() + (int64_t)(options->timeout_s * 1e9);
    const jack_options_t exactly = JackNoStartServer | JackUseExactName;
    while (!(client->jack = jack_client_open(options->name, exactly, NULL))) {
        if (monotonic_ns() > deadline_ns)
            fail("no JACK server answers");
        usleep(50000);
    }
    for (uint32_t i = 0; i < client->input_count; i++)
        client->inputs[i] = add_port(client, "in", i, JackPortIsInput);
    for (uint32_t i = 0; i < client->output_count; i++)
        client->outputs[i] = add_port(client, "out", i, JackPortIsOutput);
    for (size_t i = 0; i < options->connection_count; i++)
        add_connection(options->connections[i], options->name, client->input_count,
                       client->output_count);
    jack_set_process_callback(client->jack, process, client);
    jack_set_xrun_callback(client->jack, count_xrun, client);
    jack_on_shutdown(client->jack, server_gone, client);
    if (jack_activate(client->jack))
        fail("the client cannot be activated");
    connect_all(client, deadline_ns);
    atomic_store_explicit(&client->started, true, memory_order_release);
}

/* Prints the line of JSON. */
static void report(struct client *client, jack_nframes_t rate_hz, jack_nframes_t period, bool gone)
{
    printf("{\"rate\": %u, \"period\": %u, \"first_frame\": %" PRIu64 ", \"frames\": %" PRIu64
           ", \"missed_frames\": %" PRIu64 ", \"xruns\": %u, \"start_ns\": %" PRId64
           ", \"end_ns\": %" PRId64 ", \"gone\": %s}\n",
           rate_hz, period, atomic_load(&client->first_frame), atomic_load(&client->done_frames),
           atomic_load(&client->missed_frames), atomic_load(&client->xruns),
           atomic_load(&client->start_ns), atomic_load(&client->end_ns), gone ? "true" : "false");
    fflush(stdout);
}

static bool run_is_over(const struct client *client)
{
    return told_to_end || atomic_load(&client->gone) ||
           (client->frames > 0 && atomic_load(&client->done_frames) >= client->frames);
}

/* Begins at frame 0 again, once the filters between have forgotten the run before. */
static void start_again(struct client *client)
{
    atomic_store(&client->rested, false);
    atomic_store_explicit(&client->started, false, memory_order_release);
    while (!told_to_end && !atomic_load(&client->gone) && !atomic_load(&client->rested))
        usleep(10000);
    usleep(REST_US);
    atomic_store(&client->done_frames, 0);
    atomic_store_explicit(&client->started, true, memory_order_release);
}

int main(int argc, char **argv)
{
    static struct client client; /* zero: nothing has started */
    static struct options options = {.name = "rig", .timeout_s = 20, .trials = 1};
    if (!read_options(argc, argv, &client, &options))
        return 1;
    allocate(&client, &options);
    join(&client, &options);
    jack_nframes_t rate_hz = jack_get_sample_rate(client.jack),
                   period = jack_get_buffer_size(client.jack);
    signal(SIGTERM, end_soon);
    puts("ready");
    fflush(stdout);
    for (unsigned long trial = 1;; trial++) {
        while (!run_is_over(&client))
            usleep(10000);
        if (trial >= options.trials || told_to_end || atomic_load(&client.gone) ||
            (atomic_load(&client.missed_frames) == 0 && atomic_load(&client.xruns) == 0))
            break;
        report(&client, rate_hz, period, false);
        start_again(&client);
    }
    bool gone = atomic_load(&client.gone);
    if (!gone)
        jack_deactivate(client.jack);
    uint64_t done = atomic_load(&client.done_frames);
    if (client.capture && options.capture_path)
        save(options.capture_path, client.capture, done < client.frames ? done : client.frames,
             client.input_count);
    report(&client, rate_hz, period, gone);
    if (!gone)
        jack_client_close(client.jack);
    return gone ? 3 : 0;
}
