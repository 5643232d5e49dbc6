/* The store: see store.h. */
#include "service/store.h"

#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <systemd/sd-daemon.h>
#include <time.h>
#include <unistd.h>

#include "core/clock.h"
#include "core/log.h"
#include "control/socket.h"
#include "io/net/handover.h"
#include "pipeline/pipelines.h"
#include "pipeline/succession.h"
#include "service/notify.h"
#include "service/state_file.h"

#define STATE_NAME "convolvd-state"

static const int64_t clear_ns = NS_PER_SECOND, clear_pause_ns = 10 * NS_PER_MS;

struct store {
    struct handover *handover;
    struct state_file left; /* by the daemon before */
    int listeners[ROLES];   /* control sockets; -1: none */

    /* for the next one */
    bool state_kept; /* or refused for good */
    uint32_t next_socket;
};

/* ---- taking out -------------------------------------------------------------------------- */

/* systemd is to keep it no longer. */
static void clear(const char *name)
{
    const int64_t until_ns = clock_monotonic_ns() + clear_ns;
    while (!notify_send("FDSTOREREMOVE=1\nFDNAME=%s", name)) {
        if (clock_monotonic_ns() > until_ns) {
            log_warning("systemd does not read: its descriptor store may still hold `%s` of the "
                        "daemon before",
                        name);
            return;
        }
        nanosleep(&(struct timespec){.tv_nsec = clear_pause_ns}, NULL);
    }
}

static void take_state(struct store *store, int fd)
{
    struct problem problem;
    state_file_forget(&store->left); /* the newest counts */
    if (state_file_read(fd, &store->left, &problem) < 0)
        log_warning("the state of the daemon before cannot be used: %s; every stream begins a new "
                    "epoch",
                    problem.text);
    close(fd);
}

static void take_descriptor(struct store *store, int fd, const char *name)
{
    enum command_role role;
    if (strcmp(name, STATE_NAME) == 0)
        take_state(store, fd);
    else if (control_socket_passed(fd, name, &role) && store->listeners[role] < 0)
        store->listeners[role] = fd;
    else if (!handover_adopt(store->handover, fd, name))
        log_warning("descriptor %d from systemd (%s) is neither a UDP socket nor a control socket "
                    "and is not used; write ListenDatagram=HOST:PORT in the socket unit",
                    fd, name);
}

/* Whether this name stands before place `until` already: one message clears all of one name. */
static bool named_before(char **names, int until)
{
    for (int i = 0; i < until; i++)
        if (strcmp(names[i], names[until]) == 0)
            return true;
    return false;
}

int store_open(struct handover *handover, struct store **out, struct problem *problem)
{
    struct store *store = calloc(1, sizeof *store);
    if (store == NULL)
        return problem_set(problem, ERROR_MEMORY, "out of memory");
    store->handover = handover;
    for (int role = 0; role < ROLES; role++)
        store->listeners[role] = -1;
    char **names = NULL;
    const int passed = sd_listen_fds_with_names(1, &names);
    if (passed < 0)
        log_warning("descriptors from systemd cannot be read (%s); streams bind their own sockets",
                    strerror(-passed));
    for (int i = 0; i < passed; i++)
        take_descriptor(store, SD_LISTEN_FDS_START + i, names[i]);
    for (int i = 0; i < passed; i++)
        if ((strcmp(names[i], STATE_NAME) == 0 || handover_kept(names[i])) &&
            !named_before(names, i))
            clear(names[i]);
    for (int i = 0; i < passed; i++)
        free(names[i]);
    free(names);
    *out = store;
    return 0;
}

int store_take_listener(struct store *store, enum command_role role)
{
    const int fd = store->listeners[role];
    store->listeners[role] = -1;
    return fd;
}

void store_close(struct store *store)
{
    if (store == NULL)
        return;
    for (int role = 0; role < ROLES; role++)
        if (store->listeners[role] >= 0)
            close(store->listeners[role]);
    state_file_forget(&store->left);
    free(store);
}

/* ---- giving ------------------------------------------------------------------------------ */

void store_introduce(const struct store *store, struct pipeline *pipeline)
{
    const struct state_record *record =
        state_file_find(&store->left, pipeline->stream_config->name);
    if (record == NULL)
        return;
    pipeline->pin = malloc(sizeof *pipeline->pin);
    if (pipeline->pin != NULL)
        *pipeline->pin = record->pin;
    if (pipeline->heritage == NULL) /* no file has any */
        pipeline->heritage = malloc(sizeof *pipeline->heritage);
    if (pipeline->heritage != NULL)
        *pipeline->heritage = record->left;
}

void store_give(struct store *store, struct pipelines *pipelines)
{
    struct pipeline *pipeline;
    for (uint32_t at = 0; (pipeline = pipelines_next(pipelines, PIPELINES_RUNNING, &at)) != NULL;) {
        const char *name = pipeline->stream_config->name;
        const struct state_record *record = state_file_find(&store->left, name);
        struct problem problem;
        if (record == NULL)
            continue;
        if (succession_read(pipeline, record->bytes, record->count, false, &problem) < 0) {
            log_notice("stream %s begins a new epoch: %s", name, problem.text);
            continue;
        }
        log_notice("stream %s goes on where the daemon before stopped, at frame %" PRIu64, name,
                   stream_next_frame(pipeline->stream));
    }
    state_file_forget(&store->left);
}

/* ---- keeping ----------------------------------------------------------------------------- */

bool store_available(void)
{
    const char *path = getenv("NOTIFY_SOCKET");
    return path != NULL && path[0] != '\0';
}

void store_pause(struct pipelines *pipelines)
{
    struct pipeline *pipeline;
    for (uint32_t at = 0; (pipeline = pipelines_next(pipelines, PIPELINES_ALL, &at)) != NULL;) {
        if (pipeline->upstream != NULL)
            continue;
        if (!pipeline->retired && succession_possible(pipeline))
            pipeline_pause(pipeline);
        else
            pipeline_stop(pipeline);
    }
}

bool store_ready(const struct pipelines *pipelines)
{
    const struct pipeline *pipeline;
    for (uint32_t at = 0; (pipeline = pipelines_next(pipelines, PIPELINES_RUNNING, &at)) != NULL;)
        if (succession_possible(pipeline) &&
            !(succession_ready(pipeline) && pipeline_sinks_idle(pipeline)))
            return false;
    return true;
}

/* The records of the pipelines that are ready, and whose they are, into lists[PIPELINES_MAX]. */
static uint32_t take_records(struct pipelines *pipelines, struct state_bytes *records,
                             struct pipeline **owners)
{
    struct pipeline *pipeline;
    uint32_t count = 0;
    for (uint32_t at = 0; (pipeline = pipelines_next(pipelines, PIPELINES_RUNNING, &at)) != NULL;) {
        if (!succession_possible(pipeline))
            continue;
        struct state_bytes record = {0};
        if (succession_writable(pipeline))
            record.bytes = succession_write(pipeline, &record.count);
        if (record.bytes != NULL) {
            owners[count] = pipeline;
            records[count++] = record;
        } else {
            log_notice("stream %s cannot be handed over: its epoch ends",
                       pipeline->stream_config->name);
        }
    }
    return count;
}

/* The state has to be taken in the turn in which it is written: a moment later it would be old. */
static enum notify_verdict keep_records(const struct state_bytes *records, uint32_t count)
{
    size_t bytes;
    const int fd = state_file_make(records, count, &bytes);
    const enum notify_verdict verdict = fd >= 0 ? notify_keep(fd, STATE_NAME) : NOTIFY_REFUSED;
    if (verdict == NOTIFY_REFUSED)
        log_warning("systemd did not take the state of %" PRIu32 " stream%s (%s): the next daemon "
                    "begins new epochs",
                    count, count == 1 ? "" : "s", strerror(errno));
    else if (verdict == NOTIFY_TAKEN)
        log_notice("%" PRIu32 " stream%s handed over to the next daemon, %zu KiB", count,
                   count == 1 ? "" : "s", (bytes + 1023) / 1024);
    if (fd >= 0)
        close(fd);
    return verdict;
}

/* The record counts what sinks have not delivered as dropped, so they drop it. */
static void drop_pending(struct pipeline *pipeline)
{
    for (uint32_t i = 0; i < pipeline->sink_count; i++) {
        struct pipeline_sink *sink = &pipeline->sinks[i];
        struct sink_ledger ledger = {0};
        if (sink->sink == NULL)
            continue;
        sink->ops->ledger(sink->sink, &ledger);
        if (ledger.pending > 0)
            pipeline_close_sink(sink, clock_monotonic_ns());
    }
}

/* Whether it is through, well or badly. */
static bool keep_state(struct pipelines *pipelines)
{
    struct state_bytes *records = calloc(PIPELINES_MAX, sizeof *records);
    struct pipeline **owners = calloc(PIPELINES_MAX, sizeof *owners);
    enum notify_verdict verdict = NOTIFY_REFUSED;
    uint32_t count = 0;
    if (records != NULL && owners != NULL) {
        count = take_records(pipelines, records, owners);
        verdict = keep_records(records, count);
    }
    for (uint32_t i = 0; i < count; i++) {
        if (verdict == NOTIFY_TAKEN) {
            succession_leave(owners[i], NULL);
            drop_pending(owners[i]);
        }
        free(records[i].bytes);
    }
    free(records);
    free(owners);
    return verdict != NOTIFY_FULL;
}

/* Whether they are through. Without the state, too: what waits in them is the next epoch's. */
static bool keep_sockets(struct store *store)
{
    char name[HANDOVER_NAME];
    int fd;
    for (uint32_t at = store->next_socket; (fd = handover_next(store->handover, &at, name)) >= 0;
         store->next_socket = at)
        if (notify_keep(fd, name) == NOTIFY_FULL)
            return false;
    return true;
}

bool store_keep(struct store *store, struct pipelines *pipelines)
{
    if (!store->state_kept)
        store->state_kept = notify_room() && keep_state(pipelines);
    return store->state_kept && keep_sockets(store);
}

void store_keep_no_more(const struct store *store)
{
    if (!store->state_kept)
        log_warning("systemd does not read what the streams hand over: their epochs end");
    else
        log_warning("systemd does not read: the next daemon binds its own sockets");
}
