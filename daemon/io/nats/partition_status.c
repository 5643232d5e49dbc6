/* Partition status: see partition_status.h. */
#include "io/nats/partition_status.h"

#include <inttypes.h>
#include <string.h>

static const char *state_word(enum ownership_state state)
{
    static const char *const words[] = {
        [OWNERSHIP_FOLLOWING] = "follows", [OWNERSHIP_READING] = "reads",
        [OWNERSHIP_TAKING] = "takes",      [OWNERSHIP_RESUMING] = "resumes",
        [OWNERSHIP_OWNING] = "owns",
    };
    return words[state];
}

/* Whether it would take the log; RAW: it would. */
static const char *standing_word(const struct nats_appender_figures *a)
{
    static const char *const words[] = {
        [STANDING_FREE] = "stands",
        [STANDING_FULL] = "full",
        [STANDING_DIFFERS] = "other configuration",
        [STANDING_LISTENS] = "listens",
    };
    return words[a->standing.bar];
}

static void print_status(const void *status, double rate_hz, FILE *out)
{
    const struct partition_status *s = status;
    const struct nats_appender_figures *a = &s->appender;
    (void)rate_hz;
    fprintf(out, "  partition     %s %s %s, term %" PRIu64, state_word(a->state), s->kind,
            s->partition, a->term);
    if (a->owner[0] != '\0')
        fprintf(out, " of %s", a->owner);
    fprintf(out,
            "; %s; taken %" PRIu64 " times, %" PRIu64 " records appended, %" PRIu64
            " acknowledged, %" PRIu64 " refused",
            a->link.connected ? "connected" : "NOT connected", a->takes, a->appended,
            a->acknowledged, a->refused);
    if (strcmp(s->kind, "log") == 0)
        fprintf(out, "; %s, place %u of %u, load %.0f %% of %.0f %%", standing_word(a),
                a->standing.rank + 1, a->standing.others + 1, a->load * 100, a->capacity * 100);
    if (s->has_events)
        fprintf(out,
                "; %" PRIu64 " events and %" PRIu64 " checkpoints of analyses, %" PRIu64
                " events computed again, %" PRIu64 " times NOT the log's",
                s->events.events, s->events.checkpoints, s->events.replayed, s->events.differing);
    if (a->lag_known)
        fprintf(out, "; lag %.3f s", (double)a->lag_ns * 1e-9);
    if (a->standstill_ns > 0)
        fprintf(out, "; last standstill %.3f s", (double)a->standstill_ns * 1e-9);
    if (a->why[0] != '\0')
        fprintf(out, "; last term ended: %s", a->why);
    fputc('\n', out);
}

static json_t *text_or_null(const char *text)
{
    return text[0] != '\0' ? json_string(text) : json_null();
}

/* A count of events; null: the log has none. */
static json_t *events_or_null(const struct partition_status *s, uint64_t count)
{
    return s->has_events ? json_integer((json_int_t)count) : json_null();
}

static json_t *status_json(const void *status)
{
    const struct partition_status *s = status;
    const struct nats_appender_figures *a = &s->appender;
    const bool results = strcmp(s->kind, "log") == 0;
    return json_pack(
        "{s:s, s:s, s:s, s:o, s:I, s:b, s:I, s:I, s:I, s:I, s:I, s:I, s:o, s:o, s:o, s:o, s:o, "
        "s:o, s:o, s:o, s:o, s:o, s:o, s:o}",
        "name", s->partition, "log", s->kind, "state", state_word(a->state), "owner",
        text_or_null(a->owner), "term", (json_int_t)a->term, "connected", a->link.connected,
        "connections", (json_int_t)a->link.connections, "takes", (json_int_t)a->takes, "appended",
        (json_int_t)a->appended, "acknowledged", (json_int_t)a->acknowledged, "refused",
        (json_int_t)a->refused, "repeated_frames", (json_int_t)s->repeated, "lag_ns",
        a->lag_known ? json_integer((json_int_t)a->lag_ns) : json_null(), "standstill_ns",
        a->standstill_ns > 0 ? json_integer((json_int_t)a->standstill_ns) : json_null(),
        "term_ended", text_or_null(a->why), "standing",
        results ? json_string(standing_word(a)) : json_null(), "place",
        results ? json_integer(a->standing.rank + 1) : json_null(), "workers",
        results ? json_integer(a->standing.others + 1) : json_null(), "load",
        results ? json_real(a->load) : json_null(), "capacity",
        results ? json_real(a->capacity) : json_null(), "events",
        events_or_null(s, s->events.events), "checkpoints",
        events_or_null(s, s->events.checkpoints), "replayed_events",
        events_or_null(s, s->events.replayed), "differing_events",
        events_or_null(s, s->events.differing));
}

/* Terms that end are in the log already. */
static uint32_t no_faults(const void *status, struct driver_fault *faults)
{
    (void)status, (void)faults;
    return 0;
}

const struct driver_status nats_partition_status = {
    .name = "partition",
    .what = "partition",
    .bytes = sizeof(struct partition_status),
    .print = print_status,
    .json = status_json,
    .faults = no_faults,
};
