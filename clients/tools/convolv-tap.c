/*
 * convolv-tap: receives a result stream of convolvd, checks sequence, gaps and invalid flags,
 * records it, compares it with what is expected by frame number, and prints where the latency went.
 *
 * One thread. Exit status 0: all well; 1: frames are missing, differ from --expect or break a
 * condition; 2: usage.
 */
#include <math.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <jansson.h>

#include "core/clock.h"
#include "core/descriptor.h"
#include "credit.h"
#include "options.h"
#include "wire/format.h"
#include "tap_expect.h"
#include "tap_input.h"
#include "tap_pipe.h"
#include "tap_recorder.h"
#include "tap_report.h"
#include "wait_file.h"

enum { EXIT_DIFFERENT = 1, EXIT_USAGE = 2, POLL_MS = 100, CREDIT_BLOCKS = 16 };

/* After the stop condition: packets overtaken by the last one may still come. */
#define LINGER_NS (50 * NS_PER_MS)

/* Without results for so long, the source counts as silent. */
#define SILENT_NS (3 * NS_PER_SECOND / 2)

/* After a signal: what is in the socket is still taken, for so long at most. */
#define STOP_NS NS_PER_SECOND

static struct arguments {
    const char *listen, *sdp, *log, *interface, *format, *key, *credentials, *ca;
    uint64_t channels, payload_type, receive_buffer;
    double rate, full_scale;
    uint64_t frames, epochs;
    double seconds, timeout;
    bool until_end, quiet, pipe, events;
    double wait;
    const char *write, *expect, *ledger, *credit;
    uint64_t epoch;
    double input_norm, input_peak;
    bool ignore_invalid, forbid_invalid;
} arguments = {
    .format = NULL,
    .payload_type = UINT64_MAX,
    .receive_buffer = 16u << 20,
    .wait = 10,
};

/* clang-format off */
#define ROW(name, kind, dimension, metavar, field, min, max, fallback, sentence)                   \
    {name, TOOL_##kind, DIMENSION_##dimension, metavar, &arguments.field, min, max, fallback, sentence}
#define GROUP(sentence) {NULL, TOOL_GROUP, 0, NULL, NULL, 0, 0, NULL, sentence}

static const struct tool_option rows[] = {
    GROUP("Where from"),
    ROW("listen", TEXT, NUMBER, "HOST:PORT", listen, 0, 0, NULL, "address, or multicast group, that the results go to"),
    ROW("sdp", TEXT, NUMBER, "PATH", sdp, 0, 0, NULL, "take address, format, channels and rate from the daemon's SDP file"),
    ROW("log", TEXT, NUMBER, "URL", log, 0, 0, NULL, "a partition's log: nats://HOST:PORT/CLUSTER/PARTITION, its input: .../PARTITION/raw"),
    ROW("credentials", TEXT, NUMBER, "PATH", credentials, 0, 0, NULL, "--log: a file with the line USER:PASSWORD, or with a JWT and seed"),
    ROW("ca", TEXT, NUMBER, "PATH", ca, 0, 0, NULL, "--log: certificates that sign those of the servers; TLS is a must then"),
    ROW("wait", QUANTITY, TIME, "S", wait, 0, 1e6, "10 s", "so long for the SDP file of a daemon that starts, or for the log's first record"),
    ROW("interface", TEXT, NUMBER, "NAME", interface, 0, 0, NULL, "network interface of a multicast group"),
    ROW("format", TEXT, NUMBER, "NAME", format, 0, 0, "f32be", "L16, L24, s32be or f32be"),
    ROW("channels", COUNT, NUMBER, "N", channels, 1, 1024, "1", "values of an output frame"),
    ROW("rate", QUANTITY, FREQUENCY, "HZ", rate, 1e-3, 1e12, "48 kHz", "frames per second"),
    ROW("full-scale", QUANTITY, NUMBER, "V", full_scale, 1e-300, 1e300, "1", "value of full scale of an integer format"),
    ROW("payload-type", COUNT, NUMBER, "N", payload_type, 0, 127, "any", "RTP payload type"),
    ROW("key", TEXT, NUMBER, "PATH", key, 0, 0, NULL, "take only packets with the tag of the sink's `key`"),
    ROW("receive-buffer", COUNT, NUMBER, "BYTES", receive_buffer, 1, 1 << 30, "16777216", "socket buffer"),
    GROUP("When to stop (else: SIGINT)"),
    ROW("frames", COUNT, NUMBER, "N", frames, 1, 1.8e19, NULL, "after so many frames, lost ones counted"),
    ROW("seconds", QUANTITY, TIME, "S", seconds, 0, 1e9, NULL, "so long after the first packet"),
    ROW("until-end", FLAG, NUMBER, NULL, until_end, 0, 0, NULL, "when an epoch has ended"),
    ROW("epochs", COUNT, NUMBER, "N", epochs, 1, 1e18, NULL, "when so many epochs have ended"),
    ROW("timeout", QUANTITY, TIME, "S", timeout, 0, 1e9, NULL, "when nothing came for so long"),
    GROUP("What to do"),
    ROW("write", TEXT, NUMBER, "PATH", write, 0, 0, NULL, "record: .wav, .w64, .rf64, .flac or .npy; further epochs get files of their own"),
    ROW("expect", TEXT, NUMBER, "PATH", expect, 0, 0, NULL, "compare with .npy or a recording: its frame n is output frame n"),
    ROW("epoch", COUNT, NUMBER, "N", epoch, 0, 4294967295.0, "0", "the epoch that --expect describes"),
    ROW("input-norm", QUANTITY, NUMBER, "X", input_norm, 0, 1e300, "0", "max|H| * norm of the input: the error bound's other term"),
    ROW("input-peak", QUANTITY, NUMBER, "X", input_peak, 0, 1e300, "0", "max|H| * peak of the input"),
    ROW("ignore-invalid", FLAG, NUMBER, NULL, ignore_invalid, 0, 0, NULL, "do not compare frames flagged invalid"),
    ROW("forbid-invalid", FLAG, NUMBER, NULL, forbid_invalid, 0, 0, NULL, "fail when frames are invalid other than by settling or tail"),
    ROW("events", FLAG, NUMBER, NULL, events, 0, 0, NULL, "--log: print the events of analyses, each once, as lines of JSON"),
    ROW("pipe", FLAG, NUMBER, NULL, pipe, 0, 0, NULL, "blocks for another program on standard output (docs/tools.md), text on standard error"),
    ROW("credit", TEXT, NUMBER, "HOST:PORT", credit, 0, 0, NULL, "pace convolv-rig --credit"),
    ROW("ledger", TEXT, NUMBER, "PATH", ledger, 0, 0, NULL, "write all counts, epochs and invalid ranges as JSON"),
    ROW("quiet", FLAG, NUMBER, NULL, quiet, 0, 0, NULL, "print only what is wrong"),
};
/* clang-format on */

static const char usage[] =
    "Usage: convolv-tap (--listen HOST:PORT | --sdp PATH | --log URL) [OPTIONS]\n"
    "Receives, checks and records a result stream of convolvd.\n"
    "Exit status: 0 all well, 1 frames are missing or differ, 2 usage.\n";

static volatile sig_atomic_t stopping;

static void on_signal(int number)
{
    (void)number;
    stopping = 1;
}

enum presence {
    PRESENCE_UNKNOWN, /* nothing has come yet */
    PRESENCE_RESULTS,
    PRESENCE_SILENT, /* no results, but heartbeats */
    PRESENCE_DEAD,
};

struct tap {
    struct convolv_receiver_options options;
    struct tap_input *input;
    struct recorder *recorder;
    struct expect *expect;
    struct report *report;
    struct credit *credit;
    struct tap_pipe *pipe;
    int pipe_descriptor; /* what was standard output; -1: no pipe */
    bool terminal;
    enum presence presence; /* as printed last */
    bool satisfied;         /* a stop condition other than silence or a signal was met */
};

/* ---- opening ----------------------------------------------------------------------------- */

static int copy_text(char *out, size_t bytes, const char *text, const char *name,
                     struct problem *problem)
{
    if (text == NULL)
        return 0;
    if (strlen(text) >= bytes)
        return problem_set(problem, ERROR_ARGUMENT, "--%s %s: too long", name, text);
    strcpy(out, text);
    return 0;
}

static int fill_options(struct convolv_receiver_options *options, struct problem *problem)
{
    const struct arguments *a = &arguments;
    convolv_receiver_defaults(options);
    struct convolv_problem reason;
    if (a->listen == NULL && a->sdp == NULL && a->log == NULL)
        return problem_set(problem, ERROR_ARGUMENT,
                           "where from? Give --listen HOST:PORT, --sdp PATH or --log URL");
    if (a->sdp != NULL)
        (void)wait_for_file("convolv-tap", a->sdp, a->wait, a->quiet, &stopping);
    if (a->sdp != NULL && convolv_sdp_read(a->sdp, options, &reason) != CONVOLV_OK)
        return problem_set(problem, ERROR_FORMAT, "--sdp %s: %s", a->sdp, reason.text);
    if (a->channels > 0)
        options->channels = (uint32_t)a->channels;
    if (a->rate > 0)
        options->rate_hz = a->rate;
    if (a->full_scale > 0)
        options->full_scale = a->full_scale;
    if (a->payload_type <= 127)
        options->payload_type = (int)a->payload_type;
    options->receive_buffer_bytes = a->receive_buffer;
    static uint8_t key[CONVOLV_KEY_BYTES];
    if (a->key != NULL && convolv_key_read(a->key, key, &reason) != CONVOLV_OK)
        return problem_set(problem, ERROR_NO_FILE, "--%s", reason.text);
    options->key = a->key != NULL ? key : NULL;
    int status = copy_text(options->address, sizeof options->address, a->listen, "listen", problem);
    if (status == 0)
        status = copy_text(options->interface, sizeof options->interface, a->interface, "interface",
                           problem);
    if (status == 0)
        status = copy_text(options->format, sizeof options->format, a->format, "format", problem);
    return status;
}

static double lsb_of(const struct convolv_receiver_options *options)
{
    struct sample_format format;
    if (sample_format_parse(options->format, &format) != 0 || format.kind == SAMPLE_FLOAT)
        return 0;
    return options->full_scale * ldexp(1.0, 1 - format.bits);
}

/* Keeps standard output for the pipe; what is printed goes to standard error from here on. */
static int open_pipe(struct tap *tap, struct problem *problem)
{
    if (descriptor_was_closed(STDOUT_FILENO))
        return problem_set(problem, ERROR_SYSTEM,
                           "--pipe: standard output is closed; connect it to a pipe or a file");
    fflush(stdout);
    tap->pipe_descriptor = dup(STDOUT_FILENO);
    if (tap->pipe_descriptor < 0 || dup2(STDERR_FILENO, STDOUT_FILENO) < 0)
        return problem_set(problem, ERROR_SYSTEM, "--pipe: %m");
    signal(SIGPIPE, SIG_IGN); /* the reader may leave */
    return tap_pipe_open(tap->pipe_descriptor, &tap->options, tap_input_receiver(tap->input),
                         &stopping, &tap->pipe, problem);
}

static struct tap_log_options log_options(double full_scale)
{
    const struct arguments *a = &arguments;
    return (struct tap_log_options){
        .url = a->log,
        .credentials = a->credentials,
        .ca = a->ca,
        .full_scale = full_scale,
        .wait_s = a->wait,
        .stopping = &stopping,
    };
}

static int open_log(struct tap *tap, struct problem *problem)
{
    const struct arguments *a = &arguments;
    if (a->listen != NULL || a->sdp != NULL || a->pipe)
        return problem_set(problem, ERROR_ARGUMENT,
                           "--log goes without --listen, --sdp and --pipe");
    const struct tap_log_options log = log_options(tap->options.full_scale);
    return tap_input_log(&log, &tap->options, &tap->input, problem);
}

static int open_tap(struct tap *tap, struct problem *problem)
{
    const struct arguments *a = &arguments;
    int status = fill_options(&tap->options, problem);
    if (status != 0)
        return status;
    const struct convolv_receiver_options *options = &tap->options;
    status =
        a->log != NULL ? open_log(tap, problem) : tap_input_socket(options, &tap->input, problem);
    if (status != 0)
        return status;
    tap->report = report_open(options->rate_hz);
    if (tap->report == NULL)
        return problem_set(problem, ERROR_MEMORY, "out of memory");
    if (a->write != NULL)
        status =
            recorder_open(a->write, options->rate_hz, options->channels, &tap->recorder, problem);
    const struct expect_options expect = {
        .path = a->expect,
        .channels = options->channels,
        .epoch = a->epoch,
        .skip_invalid = a->ignore_invalid,
        .input_norm = a->input_norm,
        .input_peak = a->input_peak,
        .lsb = lsb_of(options),
    };
    if (status == 0 && a->expect != NULL)
        status = expect_open(&expect, &tap->expect, problem);
    if (status == 0 && a->credit != NULL)
        status = credit_connect(a->credit, &tap->credit, problem);
    if (status == 0 && a->pipe)
        status = open_pipe(tap, problem);
    tap->terminal = isatty(STDERR_FILENO) && !a->quiet;
    return status;
}

static void close_tap(struct tap *tap)
{
    recorder_close(tap->recorder, NULL);
    expect_close(tap->expect);
    report_close(tap->report);
    credit_close(tap->credit);
    tap_pipe_close(tap->pipe, NULL);
    if (tap->pipe_descriptor >= 0)
        close(tap->pipe_descriptor);
    tap_input_close(tap->input);
}

/* ---- running ----------------------------------------------------------------------------- */

/* True when the user's stop condition is met. */
static bool enough(const struct tap *tap, const struct convolv_receiver_ledger *ledger,
                   int64_t since_first_ns)
{
    const struct arguments *a = &arguments;
    uint64_t epochs = a->epochs > 0 ? a->epochs : a->until_end ? 1 : 0;
    return (a->frames > 0 && ledger->frames + ledger->frames_lost >= a->frames) ||
           (a->seconds > 0 && (double)since_first_ns >= a->seconds * 1e9) ||
           (epochs > 0 && report_epochs_ended(tap->report) >= epochs);
}

static void show_progress(const struct tap *tap, const struct convolv_receiver_ledger *ledger)
{
    fprintf(stderr, "\r%llu frames  %llu lost  %llu invalid  %llu packets ",
            (unsigned long long)ledger->frames, (unsigned long long)ledger->frames_lost,
            (unsigned long long)report_invalid_unexpected(tap->report),
            (unsigned long long)ledger->accepted);
}

/* Says when results stop and whether their sender is still there, and when they go on. */
static void show_presence(struct tap *tap, int64_t since_result_ns)
{
    static const char *const sentences[] = {
        [PRESENCE_RESULTS] = "results go on",
        [PRESENCE_SILENT] = "silence: the sender is alive and has no results",
        [PRESENCE_DEAD] =
            "nothing comes any more, no heartbeat either: the sender or the way to it "
            "is dead",
    };
    const int64_t quiet_ns = tap_input_quiet_ns(tap->input);
    enum presence presence = quiet_ns == INT64_MAX          ? PRESENCE_UNKNOWN
                             : quiet_ns >= CONVOLV_DEAD_NS  ? PRESENCE_DEAD
                             : since_result_ns >= SILENT_NS ? PRESENCE_SILENT
                                                            : PRESENCE_RESULTS;
    if (presence == tap->presence)
        return;
    const bool first = tap->presence == PRESENCE_UNKNOWN && presence == PRESENCE_RESULTS;
    tap->presence = presence;
    if (!arguments.quiet && !first) {
        printf("%s\n", sentences[presence]);
        fflush(stdout);
    }
}

static void show_hole(const struct convolv_block *block)
{
    const bool came = block->hole_causes == 1u << CONVOLV_CAUSE_UNCERTAIN;
    printf("epoch %u: frames %llu to %llu %s:", block->epoch, (unsigned long long)block->hole_from,
           (unsigned long long)block->hole_until - 1,
           came ? "may be wrong, their device has been found to compute wrong results"
                : "are missing, the daemon could not compute them");
    for (int cause = 0; cause < CONVOLV_CAUSES; cause++)
        if (block->hole_causes & (1u << cause))
            printf(" %s", convolv_cause_name((enum convolv_cause)cause));
    putchar('\n');
}

static int take_block(struct tap *tap, const struct convolv_block *block, struct problem *problem)
{
    report_put(tap->report, block);
    if (block->hole_from < block->hole_until && !arguments.quiet)
        show_hole(block);
    if (tap->expect != NULL)
        expect_put(tap->expect, block);
    int status = tap->pipe != NULL ? tap_pipe_put(tap->pipe, block, problem) : 0;
    if (status != 0)
        return status;
    return tap->recorder != NULL ? recorder_put(tap->recorder, block, problem) : 0;
}

static int receiving_failed(int error, struct problem *problem)
{
    if (error == CONVOLV_ERROR_FORMAT)
        return problem_set(
            problem, ERROR_FORMAT,
            "the log holds other samples under frame numbers that were read already: "
            "somebody appended what its owner did not compute");
    return problem_set(problem, ERROR_SYSTEM, "receiving failed: %m");
}

static int run(struct tap *tap, struct problem *problem)
{
    int64_t first_ns = 0, last_ns = clock_monotonic_ns(), progress_ns = 0, linger_ns = INT64_MAX;
    uint64_t untold = 0;
    for (;;) {
        struct convolv_block block;
        /* Without waiting first, so that credit is told when the queue runs empty. */
        int got = tap_input_next(tap->input, 0, &block);
        if (got == 0 && tap->pipe != NULL) {
            int status = tap_pipe_flush(tap->pipe, problem);
            if (status != 0)
                return status;
        }
        if (tap->pipe != NULL && tap_pipe_left(tap->pipe))
            break;
        if (stopping && linger_ns == INT64_MAX)
            linger_ns = clock_monotonic_ns() + STOP_NS;
        if (stopping && got == 0)
            break; /* what had come before the signal has been taken */
        struct convolv_receiver_ledger ledger;
        if (got <= 0 || ++untold >= CREDIT_BLOCKS) {
            tap_input_ledger(tap->input, &ledger);
            if (tap->credit != NULL)
                credit_tell(tap->credit, report_input_frames(tap->report, &ledger));
            untold = 0;
        }
        if (got == 0)
            got = tap_input_next(tap->input, linger_ns == INT64_MAX ? POLL_MS : 1, &block);
        if (got < 0)
            return receiving_failed(got, problem);
        int64_t now = clock_monotonic_ns();
        if (got == 1) {
            int status = take_block(tap, &block, problem);
            if (status != 0)
                return status;
            last_ns = now;
            if (first_ns == 0)
                first_ns = now;
        } else if (arguments.timeout > 0 && (double)(now - last_ns) >= arguments.timeout * 1e9) {
            break;
        }
        show_presence(tap, now - last_ns);
        tap_input_ledger(tap->input, &ledger);
        if (linger_ns == INT64_MAX && first_ns != 0 && enough(tap, &ledger, now - first_ns)) {
            tap->satisfied = true;
            /* Nothing is missing: nothing to wait for. */
            linger_ns = ledger.lost == 0 ? now : now + LINGER_NS;
        }
        if (now >= linger_ns)
            break;
        if (tap->terminal && now >= progress_ns) {
            progress_ns = now + NS_PER_SECOND / 5;
            show_progress(tap, &ledger);
        }
    }
    if (tap->terminal)
        fputc('\n', stderr);
    return 0;
}

/* ---- the verdict ------------------------------------------------------------------------- */

static json_t *verdict_json(const struct expect_verdict *v)
{
    return json_pack("{s:I, s:I, s:I, s:I, s:I, s:f, s:f, s:f, s:f, s:I, s:I, s:b}", "frames",
                     (json_int_t)v->frames, "compared", (json_int_t)v->compared, "skipped",
                     (json_int_t)v->skipped, "beyond", (json_int_t)v->beyond, "missing",
                     (json_int_t)v->missing, "e2", fmin(v->e2, 1e300), "e_max",
                     fmin(v->e_max, 1e300), "limit2", v->limit2, "limit_max", v->limit_max,
                     "worst_frame", (json_int_t)v->worst_frame, "worst_channel",
                     (json_int_t)v->worst_channel, "within", v->within);
}

static void print_verdict(const struct expect_verdict *v)
{
    printf("expected: %llu frames compared, %llu skipped as invalid, %llu missing, %llu beyond the "
           "file\n",
           (unsigned long long)v->compared, (unsigned long long)v->skipped,
           (unsigned long long)v->missing, (unsigned long long)v->beyond);
    printf("error: ||e||2 = %.3g (allowed %.3g), max|e| = %.3g at frame %llu channel %u (allowed "
           "%.3g): %s\n",
           v->e2, v->limit2, v->e_max, (unsigned long long)v->worst_frame, v->worst_channel,
           v->limit_max, v->within ? "within the bound" : "NOT within the bound");
}

/* What went wrong, one line each; returns the exit status. */
static int judge(const struct tap *tap, const struct convolv_receiver_ledger *ledger,
                 const struct expect_verdict *verdict)
{
    const struct arguments *a = &arguments;
    bool wanted = a->frames > 0 || a->until_end || a->epochs > 0;
    const struct {
        bool wrong;
        const char *sentence;
    } checks[] = {
        {ledger->lost > 0 || ledger->frames_lost > 0,
         ledger->kernel_drops > 0 ? "packets were lost here: raise --receive-buffer"
                                  : "packets or frames are missing"},
        {wanted && !tap->satisfied, "the stream ended before what was asked for had come"},
        {a->forbid_invalid && report_invalid_unexpected(tap->report) > 0,
         "frames are flagged invalid"},
        {verdict != NULL && !verdict->within, "the samples are not those expected"},
        {verdict != NULL && verdict->missing > 0, "expected frames did not come"},
    };
    int code = 0;
    for (size_t i = 0; i < sizeof checks / sizeof *checks; i++)
        if (checks[i].wrong) {
            fprintf(stderr, "convolv-tap: %s\n", checks[i].sentence);
            code = EXIT_DIFFERENT;
        }
    return code;
}

static int finish(struct tap *tap, struct problem *problem)
{
    const struct arguments *a = &arguments;
    struct recorder *recorder = tap->recorder;
    tap->recorder = NULL;
    int status = recorder_close(recorder, problem);
    struct tap_pipe *pipe = tap->pipe;
    tap->pipe = NULL;
    int closed = tap_pipe_close(pipe, problem);
    status = status != 0 ? status : closed;
    struct convolv_receiver_ledger ledger;
    tap_input_ledger(tap->input, &ledger);
    struct expect_verdict verdict;
    if (tap->expect != NULL)
        verdict = expect_judge(tap->expect, a->until_end || a->epochs > 0 ? UINT64_MAX : a->frames);
    if (!a->quiet) {
        report_print(tap->report, &ledger, stdout);
        if (tap->expect != NULL)
            print_verdict(&verdict);
        fflush(stdout);
    }
    int code = judge(tap, &ledger, tap->expect != NULL ? &verdict : NULL);
    if (a->ledger != NULL) {
        json_t *object = report_json(tap->report, &ledger);
        json_object_set_new(object, "stopped_by_condition", json_boolean(tap->satisfied));
        if (tap->expect != NULL)
            json_object_set_new(object, "expect", verdict_json(&verdict));
        if (json_dump_file(object, a->ledger, JSON_INDENT(1) | JSON_PRESERVE_ORDER) != 0 &&
            status == 0)
            status = problem_set(problem, ERROR_NO_FILE, "%s: cannot be written", a->ledger);
        json_decref(object);
    }
    if (status != 0) {
        fprintf(stderr, "convolv-tap: %s\n", problem->text);
        code = EXIT_DIFFERENT;
    }
    return code;
}

static void catch_signals(void)
{
    const struct sigaction action = {.sa_handler = on_signal}; /* no restart: poll ends */
    sigaction(SIGINT, &action, NULL);
    sigaction(SIGTERM, &action, NULL);
}

/* --events: lines of JSON instead of blocks. Returns the exit status. */
static int events(void)
{
    const struct arguments *a = &arguments;
    const struct tap_log_options log = log_options(1);
    const struct tap_events_options options = {a->seconds, a->timeout, stdout};
    struct problem problem = {0};
    uint64_t lost = 0;
    if (a->log == NULL || a->listen != NULL || a->sdp != NULL || a->pipe || a->write != NULL ||
        a->expect != NULL || a->frames > 0 || a->epochs > 0 || a->until_end) {
        fprintf(stderr, "convolv-tap: --events goes with --log, --credentials, --ca, --seconds and "
                        "--timeout alone\n");
        return EXIT_USAGE;
    }
    catch_signals();
    const int status = tap_events(&log, &options, &lost, &problem);
    if (status != 0)
        fprintf(stderr, "convolv-tap: %s\n", problem.text);
    if (lost > 0)
        fprintf(stderr, "convolv-tap: %llu events are missing\n", (unsigned long long)lost);
    return status != 0 || lost > 0 ? EXIT_DIFFERENT : 0;
}

int main(int argc, char **argv)
{
    struct problem problem = {0};
    bool help, version;
    const size_t row_count = sizeof rows / sizeof *rows;
    descriptor_open_standard();
    if (tool_options_parse(rows, row_count, argc, argv, &help, &version, &problem) != 0) {
        fprintf(stderr, "convolv-tap: %s\n", problem.text);
        return EXIT_USAGE;
    }
    if (help) {
        tool_options_print_help(rows, row_count, usage);
        return 0;
    }
    if (version) {
        printf("convolv-tap %s\n", convolv_version());
        return 0;
    }
    if (arguments.events)
        return events();
    struct tap tap = {.pipe_descriptor = -1};
    int status = open_tap(&tap, &problem);
    int code = EXIT_USAGE;
    if (status == 0) {
        catch_signals();
        if (!arguments.quiet) {
            printf("listening on %s, %s, %u channel%s, %.10g Hz\n", tap.options.address,
                   tap.options.format, tap.options.channels, tap.options.channels == 1 ? "" : "s",
                   tap.options.rate_hz);
            fflush(stdout);
        }
        status = run(&tap, &problem);
        code = finish(&tap, &problem);
    }
    if (status != 0) {
        fprintf(stderr, "convolv-tap: %s\n", problem.text);
        code = code != 0 ? code : EXIT_DIFFERENT;
    }
    close_tap(&tap);
    return code;
}
