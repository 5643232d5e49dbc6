/* Snapshots: see snapshot.h. */
#include "clients/ctl/snapshot.h"

#include <inttypes.h>
#include <math.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "clients/ctl/gather.h"
#include "clients/ctl/reply.h"
#include "clients/ctl/snapshot_files.h"
#include "control/viewers.h"
#include "core/clock.h"

enum {
    ATTEMPTS_MAX = 8,
    SILENCE_S = 10,        /* without any frame, or … */
    SILENCE_FRAMES = 4096, /* … as long as these take */
    LOOK_MS = 5,           /* between two looks into the ring */
    SAVE_MS = 550,         /* until what may be saved up is: bytes, and time of the loop */
    RING_BYTES_MOST = 256 << 20,
};

struct snapshot {
    const struct snapshot_options *options;
    struct client *client;
    json_t *reply; /* of the first request; sides' units lie in it */
    struct snapshot_side input, output;
    uint32_t request;
    void *memory;
    size_t memory_bytes;
    struct watch_reader reader;
    struct gather gather;
    struct watch_record record; /* scratch */
};

/* ---- asking ------------------------------------------------------------------------------ */

static json_t *side_request(const struct snapshot *s, const struct snapshot_side *side, bool frames)
{
    json_t *list = json_array();
    for (uint32_t i = 0; frames && i < side->channels.count; i++)
        json_array_append_new(list, json_integer(side->channels.list[i] + 1));
    return json_pack("{s:s, s:s, s:o}", "stream", s->options->stream, "side", side->name,
                     "channels", list);
}

static int map_ring(struct snapshot *s, int fd, struct problem *problem)
{
    struct stat facts;
    if (fd < 0 || fstat(fd, &facts) != 0 || facts.st_size <= 0 || facts.st_size > RING_BYTES_MOST)
        return problem_set(problem, ERROR_FORMAT, "the daemon passed no watch ring");
    s->memory_bytes = (size_t)facts.st_size;
    s->memory = mmap(NULL, s->memory_bytes, PROT_READ, MAP_SHARED, fd, 0);
    if (s->memory == MAP_FAILED) {
        s->memory = NULL;
        return problem_set(problem, ERROR_SYSTEM, "the watch ring cannot be mapped");
    }
    if (!watch_reader_open(&s->reader, s->memory, s->memory_bytes))
        return problem_set(problem, ERROR_FORMAT,
                           "the daemon's watch ring has another layout: convolvctl and the daemon "
                           "must be of one version");
    return 0;
}

/* With `frames` the daemon shows them from now on; without, it says what sides there are. */
static int ask(struct snapshot *s, bool frames, struct problem *problem)
{
    json_t *reply;
    /* Input first: its first frame says where the result begins. */
    json_t *request =
        json_pack("{s:s, s:[o, o]}", "command", "watch", "streams",
                  side_request(s, &s->input, frames), side_request(s, &s->output, frames));
    if (request == NULL)
        return problem_set(problem, ERROR_ARGUMENT, "the stream's name is no UTF-8");
    const int error = client_ask(s->client, request, &reply, problem);
    if (error != 0)
        return error;
    s->request = (uint32_t)json_integer_value(json_object_get(reply, "request"));
    if (s->reply == NULL)
        s->reply = reply;
    else
        json_decref(reply);
    return 0;
}

/* Which channels of this side: those asked for, or all. */
static int describe(struct snapshot *s, size_t place, const char *option,
                    struct snapshot_side *side, struct problem *problem)
{
    const json_t *facts = json_array_get(json_object_get(s->reply, "streams"), place);
    const json_int_t channels = json_integer_value(json_object_get(facts, "channels"));
    side->rate_hz = reply_number(facts, "rate_hz");
    side->units = json_object_get(facts, "units");
    if (json_object_get(facts, "error") != NULL)
        return problem_set(problem, ERROR_ARGUMENT,
                           "there is no stream %s now; `convolvctl streams` lists them",
                           s->options->stream);
    if (!(side->rate_hz > 0) || channels < 1 || channels > WATCH_CHANNELS_MAX)
        return problem_set(problem, ERROR_FORMAT, "the daemon's answer makes no sense");
    if (side->channels.count == 0 && channels > TAP_CHANNELS_MAX)
        return problem_set(problem, ERROR_ARGUMENT,
                           "stream %s has %d %s channels and a snapshot at most %d of a side: name "
                           "them, %s 1,2",
                           s->options->stream, (int)channels, side->name, TAP_CHANNELS_MAX, option);
    for (uint32_t i = 0; i < side->channels.count; i++)
        if (side->channels.list[i] >= channels)
            return problem_set(problem, ERROR_ARGUMENT,
                               "stream %s has %d %s channel%s: name others than %d, %s 1",
                               s->options->stream, (int)channels, side->name,
                               channels == 1 ? "" : "s", side->channels.list[i] + 1, option);
    if (side->channels.count == 0)
        for (uint32_t i = 0; i < (uint32_t)channels; i++)
            side->channels.list[side->channels.count++] = (uint16_t)i;
    return 0;
}

/* ---- budgets ----------------------------------------------------------------------------- */

/* What the daemon would have to show [bytes/s]. */
static double bytes_a_second(const struct snapshot *s)
{
    return sizeof(float) * (s->input.rate_hz * s->input.channels.count +
                            s->output.rate_hz * s->output.channels.count);
}

static bool exceeds_budget(const struct snapshot *s)
{
    return bytes_a_second(s) > VIEWERS_BYTES_S;
}

/* Whether it helps to save bytes up first: frames come in lumps of a block. */
static bool needs_savings(const struct snapshot *s)
{
    return 2 * bytes_a_second(s) > VIEWERS_BYTES_S;
}

/* Frames that what is saved up suffices for, with a tenth to spare for what comes in lumps. */
static double frames_of_savings(const struct snapshot *s)
{
    const double slower_hz = fmin(s->input.rate_hz, s->output.rate_hz);
    const double seconds = VIEWERS_BYTES_SAVED / (bytes_a_second(s) - VIEWERS_BYTES_S);
    return floor(0.9 * slower_hz * seconds);
}

static int check_budgets(const struct snapshot *s, struct problem *problem)
{
    const struct snapshot_options *options = s->options;
    const uint32_t channels = s->input.channels.count + s->output.channels.count;
    const uint64_t most = SNAPSHOT_BYTES_MOST / (channels * sizeof(float));
    if (options->frames > most)
        return problem_set(problem, ERROR_LIMIT,
                           "%" PRIu64 " frames of %u channels are more than the %d MiB that a "
                           "snapshot holds: ask for at most %" PRIu64 " frames, or record",
                           options->frames, channels, SNAPSHOT_BYTES_MOST >> 20, most);
    if (exceeds_budget(s) && (double)options->frames > frames_of_savings(s)) {
        const double each_hz = s->input.rate_hz + s->output.rate_hz;
        return problem_set(problem, ERROR_LIMIT,
                           "%u channels of stream %s are %.0f MB/s and the daemon shows %d MB/s: "
                           "ask for at most %.0f frames of these, or for %.0f channels of a side",
                           channels, options->stream, bytes_a_second(s) / 1e6,
                           VIEWERS_BYTES_S / 1000000, frames_of_savings(s),
                           floor(VIEWERS_BYTES_S / (sizeof(float) * each_hz)));
    }
    if (options->wav &&
        (s->input.rate_hz != floor(s->input.rate_hz) ||
         s->output.rate_hz != floor(s->output.rate_hz) || s->input.rate_hz > INT32_MAX))
        return problem_set(problem, ERROR_UNSUPPORTED,
                           "WAV files hold whole rates, not %.10g Hz and %.10g Hz: write .npy",
                           s->input.rate_hz, s->output.rate_hz);
    return 0;
}

/* ---- taking ------------------------------------------------------------------------------ */

/* Watches nothing, until the daemon has saved up what it may spend on viewers. */
static int save_up(struct snapshot *s, struct problem *problem)
{
    json_t *reply;
    const int error = client_ask(s->client, json_pack("{s:s, s:[]}", "command", "watch", "streams"),
                                 &reply, problem);
    json_decref(reply);
    if (error == 0)
        poll(NULL, 0, SAVE_MS);
    return error;
}

/* Begins to watch. */
static int begin(struct snapshot *s, bool saving, struct problem *problem)
{
    gather_reset(&s->gather);
    const int error = saving ? save_up(s, problem) : 0;
    return error != 0 ? error : ask(s, true, problem);
}

/* Waits a little. 0, or ERROR_CLOSED: the daemon has gone. */
static int wait_for_daemon(struct snapshot *s, struct problem *problem)
{
    struct pollfd readable = {.fd = client_fd(s->client), .events = POLLIN};
    if (poll(&readable, 1, LOOK_MS) <= 0)
        return 0;
    json_t *line = client_next(s->client, 0, problem);
    const bool told = line != NULL; /* nothing was asked */
    json_decref(line);
    return told || problem->error == ERROR_LIMIT ? 0 : (int)problem->error;
}

static uint64_t gathered(const struct snapshot *s)
{
    return s->gather.input.frames + s->gather.output.frames;
}

static int take(struct snapshot *s, struct problem *problem)
{
    const char *stream = s->options->stream;
    const double silence_s = fmax(SILENCE_S, SILENCE_FRAMES / s->output.rate_hz);
    int attempts = 0, error = begin(s, needs_savings(s), problem);
    int64_t seen_ns = clock_monotonic_ns();
    while (error == 0) {
        if (!watch_reader_next(&s->reader, &s->record)) {
            if ((double)(clock_monotonic_ns() - seen_ns) > silence_s * NS_PER_SECOND)
                return problem_set(problem, ERROR_LIMIT,
                                   "stream %s: the daemon showed no more frames of it for %.0f s: "
                                   "does its source send? See convolvctl status",
                                   stream, silence_s);
            error = wait_for_daemon(s, problem);
            continue;
        }
        if (s->record.head.request != s->request || strcmp(s->record.head.stream, stream) != 0)
            continue;
        const uint64_t before = gathered(s);
        const enum gather_state state = gather_put(&s->gather, &s->record);
        if (state == GATHER_WHOLE)
            return 0;
        if (gathered(s) != before)
            seen_ns = clock_monotonic_ns();
        if (state == GATHER_MORE)
            continue;
        if (++attempts == ATTEMPTS_MAX)
            return problem_set(problem, ERROR_LIMIT,
                               "stream %s: in %d attempts at most %" PRIu64 " of %" PRIu64
                               " frames came in a row (its epochs are shorter, or the daemon had "
                               "no time to show more): ask for fewer frames or channels",
                               stream, ATTEMPTS_MAX, s->gather.longest, s->gather.frames);
        /* What was saved up is spent, of bytes or of the loop's time. Where an epoch has ended the
         * next one is under way already. */
        if (state == GATHER_SKIPPED || needs_savings(s))
            error = begin(s, true, problem);
    }
    return error;
}

/* ---- facts ------------------------------------------------------------------------------- */

/* The filters' delay, of the status. */
static int ask_delay(struct snapshot *s, struct snapshot_facts *facts, struct problem *problem)
{
    json_t *reply, *stream;
    size_t i;
    const int error = client_ask(
        s->client, json_pack("{s:s, s:s}", "command", "status", "format", "json"), &reply, problem);
    if (error != 0)
        return error;
    json_array_foreach(json_object_get(json_object_get(reply, "status"), "streams"), i, stream)
    {
        if (strcmp(reply_string(stream, "name"), s->options->stream) != 0)
            continue;
        facts->delay_frames = reply_number(stream, "delay_frames");
        facts->aligned = json_is_true(json_object_get(stream, "aligned"));
    }
    json_decref(reply);
    return 0;
}

static void print_side(const struct snapshot_options *options, const json_t *side, const char *name)
{
    const json_int_t first = json_integer_value(json_object_get(side, "first_frame"));
    const json_int_t frames = json_integer_value(json_object_get(side, "frames"));
    reply_text(options->stem, stdout);
    printf("-%s.%s: frames %lld to %lld, %zu channels, %s%s\n", name, options->wav ? "wav" : "npy",
           (long long)first, (long long)(first + frames - 1),
           json_array_size(json_object_get(side, "channels")),
           json_is_string(json_object_get(side, "capture_time"))
               ? reply_string(side, "capture_time")
               : "captured at an unknown time",
           json_array_size(json_object_get(side, "invalid")) > 0 ? ", some of them flagged" : "");
}

static int finish(struct snapshot *s, bool json, struct problem *problem)
{
    struct snapshot_facts facts = {
        .options = s->options, .input = &s->input, .output = &s->output, .gather = &s->gather};
    json_t *sidecar = NULL;
    int error = ask_delay(s, &facts, problem);
    if (error == 0)
        error = snapshot_files_write(&facts, &sidecar, problem);
    if (error != 0)
        return error;
    if (json) {
        json_dumpf(sidecar, stdout, JSON_COMPACT);
        putchar('\n');
    } else {
        print_side(s->options, json_object_get(sidecar, "input"), "input");
        print_side(s->options, json_object_get(sidecar, "output"), "output");
    }
    json_decref(sidecar);
    return 0;
}

/* ---- entry ------------------------------------------------------------------------------- */

static int prepare(struct snapshot *s, struct problem *problem)
{
    int error = ask(s, false, problem);
    const int fd = error == 0 ? client_take_fd(s->client) : -1;
    if (error == 0)
        error = map_ring(s, fd, problem);
    if (fd >= 0)
        close(fd);
    if (error == 0)
        error = describe(s, 0, "--channels", &s->input, problem);
    if (error == 0)
        error = describe(s, 1, "--outputs", &s->output, problem);
    if (error == 0)
        error = check_budgets(s, problem);
    const double ratio = error == 0 ? round(s->input.rate_hz / s->output.rate_hz) : 1;
    if (error == 0 &&
        gather_open(&s->gather, s->options->frames, s->input.channels.count,
                    s->output.channels.count, ratio >= 1 && ratio < 1e9 ? (uint32_t)ratio : 1) != 0)
        error = problem_set(problem, ERROR_MEMORY, "out of memory");
    return error;
}

int snapshot_run(const struct client_options *client, const struct snapshot_options *options,
                 bool json, struct problem *problem)
{
    int error = snapshot_files_free(options, problem);
    struct snapshot *s = error == 0 ? calloc(1, sizeof *s) : NULL;
    if (s == NULL)
        return error != 0 ? error : problem_set(problem, ERROR_MEMORY, "out of memory");
    s->options = options;
    s->input = (struct snapshot_side){.name = "input", .channels = options->input};
    s->output = (struct snapshot_side){.name = "output", .channels = options->output};
    error = client_open(client, &s->client, problem);
    if (error == 0)
        error = prepare(s, problem);
    if (error == 0)
        error = take(s, problem);
    if (error == 0)
        error = finish(s, json, problem);
    gather_close(&s->gather);
    if (s->memory != NULL)
        munmap(s->memory, s->memory_bytes);
    json_decref(s->reply);
    client_close(s->client);
    free(s);
    return error;
}
