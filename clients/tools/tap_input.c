/* Where a tap's blocks come from: see tap_input.h. */
#include "tap_input.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "clients/nats/convolv-nats.h"
#include "core/clock.h"

enum { POLL_MS = 100 };

struct tap_input {
    struct convolv_receiver *receiver; /* or */
    struct convolv_log *log;
    struct convolv_block first; /* of the log, which the wait has taken */
    bool first_waits;
};

int tap_input_socket(const struct convolv_receiver_options *options, struct tap_input **out,
                     struct problem *problem)
{
    struct convolv_problem reason;
    struct tap_input *input = calloc(1, sizeof *input);
    if (input == NULL)
        return problem_set(problem, ERROR_MEMORY, "out of memory");
    *out = input;
    if (convolv_receiver_open(options, &input->receiver, &reason) != CONVOLV_OK)
        return problem_set(problem, ERROR_ADDRESS, "%s", reason.text);
    return 0;
}

/* ---- a log ------------------------------------------------------------------------------- */

/* Cuts what stands behind the last '/' off; NULL: nothing does. */
static char *cut_last(char *url)
{
    char *slash = strrchr(url, '/');
    if (slash == NULL || slash[1] == '\0' || (slash > url && slash[-1] == '/'))
        return NULL;
    *slash = '\0';
    return slash + 1;
}

static int open_log(const struct tap_log_options *options, bool events, char *url,
                    struct convolv_log **out, struct problem *problem)
{
    struct convolv_problem reason = {0};
    char *last = cut_last(url);
    const bool input = last != NULL && strcmp(last, "raw") == 0;
    char *partition = input ? cut_last(url) : last, *cluster = cut_last(url);
    if (partition == NULL || cluster == NULL)
        return problem_set(problem, ERROR_ARGUMENT,
                           "--log %s: write nats://HOST:PORT/CLUSTER/PARTITION", options->url);
    const struct convolv_log_options log = {
        .servers = url,
        .cluster = cluster,
        .partition = partition,
        .credentials = options->credentials,
        .ca = options->ca,
        .input = input,
        .full_scale = options->full_scale,
        .events = events,
    };
    if (convolv_log_open(&log, out, &reason) != CONVOLV_OK)
        return problem_set(problem, ERROR_ADDRESS, "--log: %s", reason.text);
    return 0;
}

static int wait_first(struct tap_input *input, const struct tap_log_options *options,
                      struct problem *problem)
{
    const int64_t until_ns = clock_monotonic_ns() + (int64_t)(options->wait_s * 1e9);
    int got = 0;
    while (got == 0 && !*options->stopping && clock_monotonic_ns() < until_ns)
        got = convolv_log_next(input->log, POLL_MS, &input->first);
    if (got < 0)
        return problem_set(problem, ERROR_FORMAT, "--log %s: %s", options->url,
                           convolv_error_sentence(got));
    if (got == 0)
        return problem_set(problem, ERROR_ABSENT,
                           "--log %s: no results for %g s; is there such a log, and may this user "
                           "read it?",
                           options->url, options->wait_s);
    input->first_waits = true;
    return 0;
}

int tap_input_log(const struct tap_log_options *options, struct convolv_receiver_options *describe,
                  struct tap_input **out, struct problem *problem)
{
    struct convolv_log_facts facts;
    struct tap_input *input = calloc(1, sizeof *input);
    char *url = strdup(options->url);
    int error = input != NULL && url != NULL ? 0 : ERROR_MEMORY;
    *out = input;
    if (error != 0)
        problem_set(problem, ERROR_MEMORY, "out of memory");
    if (error == 0)
        error = open_log(options, false, url, &input->log, problem);
    if (error == 0)
        error = wait_first(input, options, problem);
    free(url);
    if (error != 0)
        return error;
    convolv_log_facts(input->log, &facts);
    describe->channels = facts.channels;
    describe->rate_hz = facts.rate_hz;
    snprintf(describe->format, sizeof describe->format, "%.15s", facts.format);
    snprintf(describe->address, sizeof describe->address, "%.120s", options->url);
    return 0;
}

/* ---- events ------------------------------------------------------------------------------ */

static bool events_end(const struct tap_log_options *log, const struct tap_events_options *options,
                       int64_t begun_ns, int64_t last_ns)
{
    const int64_t now_ns = clock_monotonic_ns();
    return *log->stopping ||
           (options->seconds > 0 && (double)(now_ns - begun_ns) >= options->seconds * 1e9) ||
           (options->timeout_s > 0 && (double)(now_ns - last_ns) >= options->timeout_s * 1e9);
}

static int print_events(struct convolv_log *log, const struct tap_log_options *from,
                        const struct tap_events_options *options, uint64_t *lost,
                        struct problem *problem)
{
    const int64_t begun_ns = clock_monotonic_ns();
    int64_t last_ns = begun_ns;
    while (!events_end(from, options, begun_ns, last_ns)) {
        struct convolv_log_event event;
        int got = convolv_log_next_event(log, 0, &event);
        if (got == 0) {
            fflush(options->out);
            got = convolv_log_next_event(log, POLL_MS, &event);
        }
        if (got == 0)
            continue;
        if (got < 0)
            return problem_set(problem, ERROR_FORMAT, "--log %s: %s", from->url,
                               convolv_error_sentence(got));
        *lost += event.lost;
        if (fprintf(options->out, "%s\n", event.json) < 0)
            return problem_set(problem, ERROR_SYSTEM, "--events: %m");
        last_ns = clock_monotonic_ns();
    }
    return fflush(options->out) == 0 ? 0 : problem_set(problem, ERROR_SYSTEM, "--events: %m");
}

int tap_events(const struct tap_log_options *from, const struct tap_events_options *options,
               uint64_t *lost, struct problem *problem)
{
    struct convolv_log *log = NULL;
    char *url = strdup(from->url);
    int error = url != NULL ? open_log(from, true, url, &log, problem)
                            : problem_set(problem, ERROR_MEMORY, "out of memory");
    *lost = 0;
    if (error == 0)
        error = print_events(log, from, options, lost, problem);
    convolv_log_close(log);
    free(url);
    return error;
}

/* ---- both -------------------------------------------------------------------------------- */

void tap_input_close(struct tap_input *input)
{
    if (input == NULL)
        return;
    convolv_receiver_close(input->receiver);
    convolv_log_close(input->log);
    free(input);
}

int tap_input_next(struct tap_input *input, int timeout_ms, struct convolv_block *block)
{
    if (input->receiver != NULL)
        return convolv_receiver_next(input->receiver, timeout_ms, block);
    if (!input->first_waits)
        return convolv_log_next(input->log, timeout_ms, block);
    input->first_waits = false;
    *block = input->first;
    return 1;
}

void tap_input_ledger(const struct tap_input *input, struct convolv_receiver_ledger *ledger)
{
    if (input->receiver != NULL)
        convolv_receiver_ledger(input->receiver, ledger);
    else
        convolv_log_ledger(input->log, ledger);
}

int64_t tap_input_quiet_ns(const struct tap_input *input)
{
    return input->receiver != NULL ? convolv_receiver_quiet_ns(input->receiver)
                                   : convolv_log_quiet_ns(input->log);
}

const struct convolv_receiver *tap_input_receiver(const struct tap_input *input)
{
    return input->receiver;
}
