/* The cluster's servers from the command line: see cluster.h. */
#include "clients/ctl/cluster.h"

#include <inttypes.h>
#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "cli/commands.h"
#include "clients/ctl/reply.h"
#include "core/clock.h"
#include "io/nats/answers.h"
#include "io/nats/logs.h"
#include "io/nats/options.h"
#include "io/nats/presence.h"
#include "wire/record.h"

enum { CONNECT_MS = 3000, ANSWER_MS = 3000, OWNER_MS = 300, LISTEN_MS = 700, PAUSE_MS = 100 };

/* The servers, and what the words ask of them. */
struct visit {
    const char *config_path, *credentials, *create; /* NULL: not given */
    struct nats_sink_options made;                  /* create: storage, replicas, window */
    struct config *config;
    struct nats_connection connection;
};

/* ---- words ------------------------------------------------------------------------------- */

/* An option of the sink that keeps its meaning here. */
static int take_option(struct visit *visit, const char *key, const char *text,
                       struct problem *problem)
{
    const struct option_row *row = option_find(nats_sink_rows, NATS_SINK_ROWS, key);
    struct option_value value;
    const int error = option_parse(row, text, &value, problem);
    if (error == 0)
        option_store(row, &value, 1, &visit->made);
    return error;
}

static int read_words(struct visit *visit, int count, char *const *words, struct problem *problem)
{
    static const char *const keys[] = {"storage", "replicas", "window"};
    enum { TAKEN = sizeof keys / sizeof *keys };
    int error = 0, at = 1;
    for (int i = 0; i < TAKEN && error == 0; i++)
        error =
            take_option(visit, keys[i],
                        option_find(nats_sink_rows, NATS_SINK_ROWS, keys[i])->fallback, problem);
    if (count > 1 && strcmp(words[1], "create") == 0) {
        visit->create = count > 2 ? words[2] : "";
        at = 3;
    }
    for (; at < count && error == 0; at += 2) {
        const char *key = strncmp(words[at], "--", 2) == 0 ? words[at] + 2 : "";
        const char *value = at + 1 < count ? words[at + 1] : NULL;
        int k = 0;
        while (k < TAKEN && strcmp(key, keys[k]) != 0)
            k++;
        if (value != NULL && strcmp(key, "config") == 0)
            visit->config_path = value;
        else if (value != NULL && strcmp(key, "credentials") == 0)
            visit->credentials = value;
        else if (value != NULL && k < TAKEN && visit->create != NULL)
            error = take_option(visit, keys[k], value, problem);
        else
            error = problem_set(problem, ERROR_ARGUMENT,
                                "cluster: \"%s\" is no option of it, or lacks its value; see "
                                "convolvctl help cluster",
                                words[at]);
    }
    if (error == 0 && visit->create != NULL && !nats_name_valid(visit->create))
        return problem_set(problem, ERROR_ARGUMENT,
                           "cluster: \"%s\" is no name of a partition; write letters, digits, _ "
                           "and - only",
                           visit->create);
    return error;
}

/* ---- the servers ------------------------------------------------------------------------- */

static void on_message(void *context, natsMsg *message)
{
    (void)context;
    natsMsg_Destroy(message); /* answers come another way */
}

static void on_changed(void *context)
{
    (void)context;
}

static void pause_ms(long ms)
{
    nanosleep(&(struct timespec){.tv_sec = ms / 1000, .tv_nsec = ms % 1000 * NS_PER_MS}, NULL);
}

static int connect_to(struct visit *visit, struct problem *problem)
{
    const struct config_cluster *cluster = &visit->config->cluster;
    struct nats_connection *c = &visit->connection;
    const struct nats_servers servers = {
        .servers = cluster->servers,
        .credentials = visit->credentials != NULL ? visit->credentials : cluster->credentials,
        .ca = cluster->ca};
    c->message = on_message;
    c->changed = on_changed;
    int error = nats_connection_open(c, &servers, "cluster", problem);
    if (error != 0)
        return error;
    for (const int64_t until_ns = clock_monotonic_ns() + CONNECT_MS * NS_PER_MS;;) {
        enum nats_attempt attempt = NATS_ATTEMPT_AWAY;
        for (int i = 0; i < nats_connection_servers(c) && attempt == NATS_ATTEMPT_AWAY; i++)
            attempt = nats_connection_begin(c, problem);
        if (attempt == NATS_ATTEMPT_CONNECTED)
            break;
        if (attempt != NATS_ATTEMPT_AWAY)
            return ERROR_SYSTEM;
        if (clock_monotonic_ns() >= until_ns)
            return problem_set(problem, ERROR_SYSTEM, "no server of %s answers", servers.servers);
        pause_ms(PAUSE_MS);
    }
    nats_connection_ready(c);
    return 0;
}

/* A request of JetStream's API about `of`; the answer is the caller's. NULL: none came, as
 * `problem` says. */
static natsMsg *request(struct visit *visit, const char *verb, const char *of, const char *body,
                        struct problem *problem)
{
    char subject[2 * NATS_SUBJECT_BYTES];
    natsMsg *reply = NULL;
    snprintf(subject, sizeof subject, "$JS.API.%s%s%s", verb, of[0] != '\0' ? "." : "", of);
    const natsStatus status = natsConnection_Request(&reply, visit->connection.connection, subject,
                                                     body, (int)strlen(body), ANSWER_MS);
    if (status == NATS_OK)
        return reply;
    problem_set(problem, ERROR_SYSTEM, "no answer to %s: %s; %s", subject,
                natsStatus_GetText(status),
                status == NATS_NO_RESPONDERS ? "the servers run without JetStream"
                                             : "this user may lack the right to ask, take the "
                                               "administrator's with --credentials");
    return NULL;
}

/* The same for an answer in JSON, which may be any value; the caller's. */
static json_t *request_json(struct visit *visit, const char *verb, const char *of, const char *body,
                            struct problem *problem)
{
    natsMsg *reply = request(visit, verb, of, body, problem);
    if (reply == NULL)
        return NULL;
    json_t *answer =
        json_loadb(natsMsg_GetData(reply), (size_t)natsMsg_GetDataLength(reply), 0, NULL);
    natsMsg_Destroy(reply);
    return answer != NULL ? answer : json_null();
}

/* ---- create ------------------------------------------------------------------------------ */

static int create_log(struct visit *visit, const char *kind, json_t *made, struct problem *problem)
{
    const struct nats_log_options options = {.file = visit->made.file,
                                             .replicas = visit->made.replicas,
                                             .age_ns = visit->made.window_ns};
    struct nats_log_name log = {.stream = ""};
    char body[NATS_REQUEST_BYTES];
    nats_log_name(visit->config->cluster.name, visit->create, kind, &log);
    nats_log_request(&log, &options, body);
    json_t *answer = request_json(visit, "STREAM.CREATE", log.stream, body, problem);
    if (answer == NULL)
        return ERROR_SYSTEM;
    const json_t *error = json_object_get(answer, "error");
    int result = 0;
    if (json_integer_value(json_object_get(error, "err_code")) == NATS_CODE_STREAM_EXISTS)
        result = problem_set(problem, ERROR_CONFIG,
                             "the log %s is there, and is kept otherwise: it stays as it is",
                             log.stream);
    else if (error != NULL || !json_is_object(answer))
        result = problem_set(problem, ERROR_SYSTEM, "the log %s cannot be made: %s", log.stream,
                             reply_string(error, "description"));
    else
        json_array_append_new(made, json_string(log.stream));
    json_decref(answer);
    return result;
}

/* A server does not say whether it had the log already. */
static void print_made(const json_t *made)
{
    size_t i;
    json_t *log;
    json_array_foreach(made, i, log) printf("%s is there\n", json_string_value(log));
}

static json_t *create(struct visit *visit, struct problem *problem)
{
    json_t *made = json_array();
    if (create_log(visit, "raw", made, problem) == 0 &&
        create_log(visit, "log", made, problem) == 0)
        return json_pack("{s:s, s:o}", "partition", visit->create, "logs", made);
    print_made(made);
    json_decref(made);
    return NULL;
}

/* ---- list -------------------------------------------------------------------------------- */

/* Whether the owner of the term answers; null: nobody says so, nor that there is nobody. */
static json_t *answers(struct visit *visit, const struct nats_log_name *log, uint64_t term)
{
    char subject[NATS_SUBJECT_BYTES];
    natsMsg *reply = NULL;
    nats_owner_subject(log, term, subject);
    const natsStatus status =
        natsConnection_Request(&reply, visit->connection.connection, subject, "", 0, OWNER_MS);
    natsMsg_Destroy(reply);
    return status == NATS_OK              ? json_true()
           : status == NATS_NO_RESPONDERS ? json_false()
                                          : json_null();
}

static json_t *record_json(struct visit *visit, const struct nats_log_name *log,
                           const struct nats_answer *answer)
{
    struct record record;
    const enum record_fault fault = record_read(answer->data, answer->bytes, &record);
    if (fault != RECORD_FAULT_NONE)
        return json_pack("{s:I, s:s}", "records", (json_int_t)answer->sequence, "damaged",
                         record_fault_sentence(fault));
    const bool released = record.kind == RECORD_RELEASE;
    return json_pack(
        "{s:I, s:o, s:o, s:I, s:I, s:I, s:I, s:f, s:I}", "records", (json_int_t)answer->sequence,
        "owner",
        released ? json_null()
                 : json_stringn((const char *)record.worker.bytes, record.worker.count),
        "answers", released ? json_false() : answers(visit, log, record.term), "term",
        (json_int_t)record.term, "epoch", (json_int_t)record.epoch, "next", (json_int_t)record.next,
        "input_next", (json_int_t)record.input_next, "rate_hz", record.rate_hz,
        "appended_realtime_ns", (json_int_t)answer->appended_ns);
}

/* What the log ends with; null: it is empty. NULL: no answer. */
static json_t *log_json(struct visit *visit, const struct nats_log_name *log,
                        struct problem *problem)
{
    char body[2 * NATS_SUBJECT_BYTES];
    struct nats_answer answer;
    snprintf(body, sizeof body, "{\"last_by_subj\":\"%s\"}", log->subject);
    natsMsg *reply = request(visit, "STREAM.MSG.GET", log->stream, body, problem);
    if (reply == NULL)
        return NULL;
    const bool read =
        nats_answer_read(natsMsg_GetData(reply), (size_t)natsMsg_GetDataLength(reply), &answer);
    natsMsg_Destroy(reply);
    json_t *object = read && answer.data != NULL ? record_json(visit, log, &answer) : json_null();
    free(answer.data);
    return object;
}

/* How many frames of RAW the results do not cover yet; null: it cannot be told. */
static json_t *lag_json(const json_t *raw, const json_t *log)
{
    const json_t *raw_epoch = json_object_get(raw, "epoch"),
                 *log_epoch = json_object_get(log, "epoch");
    const json_int_t lag = json_integer_value(json_object_get(raw, "next")) -
                           json_integer_value(json_object_get(log, "input_next"));
    if (!json_is_integer(raw_epoch) || !json_is_integer(log_epoch) ||
        !json_equal(raw_epoch, log_epoch))
        return json_null();
    return json_integer(lag > 0 ? lag : 0); /* LOG was read later */
}

/* Cuts "CLUSTER:PARTITION:KIND"; false: it is another name. */
static bool cut_name(const char *cluster, const char *name, char partition[NATS_NAME_BYTES],
                     const char **kind)
{
    const size_t length = strlen(cluster);
    if (strncmp(name, cluster, length) != 0 || name[length] != ':')
        return false;
    const char *begin = name + length + 1, *end = strchr(begin, ':');
    if (end == NULL || end - begin >= NATS_NAME_BYTES)
        return false;
    memcpy(partition, begin, (size_t)(end - begin));
    partition[end - begin] = '\0';
    *kind = end + 1;
    return strcmp(*kind, "raw") == 0 || strcmp(*kind, "log") == 0;
}

/* Adds the logs of one page of names; *names: how many names it had. */
static int add_page(struct visit *visit, json_t *partitions, size_t *names, struct problem *problem)
{
    const char *cluster = visit->config->cluster.name;
    char body[2 * NATS_SUBJECT_BYTES];
    size_t i;
    json_t *name;
    int error = 0;
    snprintf(body, sizeof body, "{\"subject\":\"convolvd.%s.>\",\"offset\":%zu}", cluster, *names);
    json_t *answer = request_json(visit, "STREAM.NAMES", "", body, problem);
    if (answer == NULL)
        return ERROR_SYSTEM;
    const json_t *list = json_object_get(answer, "streams");
    json_array_foreach(list, i, name)
    {
        char partition[NATS_NAME_BYTES];
        const char *kind;
        struct nats_log_name log = {.stream = ""};
        if (error != 0 || !json_is_string(name) ||
            !cut_name(cluster, json_string_value(name), partition, &kind))
            continue;
        nats_log_name(cluster, partition, kind, &log);
        json_t *object = log_json(visit, &log, problem);
        if (object == NULL) {
            error = ERROR_SYSTEM;
            continue;
        }
        if (json_object_get(partitions, partition) == NULL)
            json_object_set_new(partitions, partition, json_object());
        json_object_set_new(json_object_get(partitions, partition), kind, object);
    }
    *names = json_array_size(list) > 0 ? *names + json_array_size(list) : 0;
    json_decref(answer);
    return error;
}

/* What workers tell of themselves, for as long as each of them tells at least once. */
static json_t *listen_to_workers(struct visit *visit)
{
    char subject[NATS_SUBJECT_BYTES];
    natsSubscription *heard = NULL;
    natsMsg *told = NULL;
    json_t *workers = json_object(), *list = json_array(), *worker;
    const char *name;
    nats_presence_subject(visit->config->cluster.name, "*", subject);
    snprintf(strrchr(subject, '.'), 3, ".*");
    const int64_t until_ns = clock_monotonic_ns() + LISTEN_MS * NS_PER_MS;
    int64_t left_ns = LISTEN_MS * NS_PER_MS;
    if (natsConnection_SubscribeSync(&heard, visit->connection.connection, subject) != NATS_OK)
        left_ns = 0;
    for (;
         left_ns > 0 && natsSubscription_NextMsg(&told, heard, left_ns / NS_PER_MS + 1) == NATS_OK;
         left_ns = until_ns - clock_monotonic_ns()) {
        struct candidate of;
        bool leaves;
        if (nats_presence_read(strrchr(natsMsg_GetSubject(told), '.') + 1, natsMsg_GetData(told),
                               (size_t)natsMsg_GetDataLength(told), &of, &leaves) &&
            !leaves)
            json_object_set_new(workers, of.worker,
                                json_pack("{s:s, s:f, s:f, s:b, s:s}", "worker", of.worker, "load",
                                          of.load, "capacity", of.capacity, "room", of.room,
                                          "config", of.config));
        natsMsg_Destroy(told);
    }
    natsSubscription_Destroy(heard);
    json_object_foreach(workers, name, worker) json_array_append(list, worker);
    json_decref(workers);
    return list;
}

static json_t *list(struct visit *visit, struct problem *problem)
{
    json_t *partitions = json_object(), *partition;
    const char *name;
    size_t names = 0;
    int error;
    do {
        error = add_page(visit, partitions, &names, problem);
    } while (error == 0 && names > 0);
    if (error != 0) {
        json_decref(partitions);
        return NULL;
    }
    json_object_foreach(partitions, name, partition) json_object_set_new(
        partition, "lag_frames",
        lag_json(json_object_get(partition, "raw"), json_object_get(partition, "log")));
    return json_pack("{s:s, s:o, s:o}", "cluster", visit->config->cluster.name, "partitions",
                     partitions, "workers", listen_to_workers(visit));
}

static void print_log(const char *partition, const char *kind, const json_t *log, const json_t *lag)
{
    char who[120], behind[24] = "-";
    const json_t *alive = json_object_get(log, "answers");
    if (!json_is_object(log)) {
        printf("%-20s %-3s  %s\n", partition, kind, log == NULL ? "is not there" : "is empty");
        return;
    }
    if (json_object_get(log, "damaged") != NULL) {
        printf("%-20s %-3s  is damaged: %s\n", partition, kind, reply_string(log, "damaged"));
        return;
    }
    const char *owner = reply_string(log, "owner");
    snprintf(who, sizeof who, "%s%s", owner[0] != '\0' ? owner : "nobody",
             owner[0] == '\0' || json_is_true(alive) ? ""
             : json_is_false(alive)                  ? " (gone)"
                                                     : " (silent)");
    if (json_is_integer(lag))
        snprintf(behind, sizeof behind, "%" JSON_INTEGER_FORMAT, json_integer_value(lag));
    const double age_s =
        (double)(clock_realtime_ns() -
                 json_integer_value(json_object_get(log, "appended_realtime_ns"))) *
        1e-9;
    printf("%-20s %-3s  ", partition, kind);
    reply_text(who, stdout);
    printf("%*s %6.0f %6.0f %14.0f %10s %8.2f s\n", (int)(strlen(who) < 24 ? 24 - strlen(who) : 0),
           "", reply_number(log, "term"), reply_number(log, "epoch"), reply_number(log, "next"),
           behind, age_s);
}

static void print_workers(const json_t *workers)
{
    size_t i;
    json_t *worker;
    if (json_array_size(workers) > 0)
        printf("\n%-24s %8s %9s  %s\n", "worker", "load", "capacity", "configuration");
    json_array_foreach(workers, i, worker)
    {
        char name[40];
        snprintf(name, sizeof name, "%s", reply_string(worker, "worker"));
        reply_text(name, stdout);
        printf("%*s %6.0f %% %7.0f %%  %.12s%s\n", (int)(strlen(name) < 24 ? 24 - strlen(name) : 0),
               "", reply_number(worker, "load") * 100, reply_number(worker, "capacity") * 100,
               reply_string(worker, "config"),
               json_is_true(json_object_get(worker, "room")) ? "" : "  full: takes no partition");
    }
}

static void print_list(const json_t *answer)
{
    const char *name;
    json_t *partition;
    printf("%-20s %-3s  %-24s %6s %6s %14s %10s %10s\n", "partition", "log", "owner", "term",
           "epoch", "next frame", "lag", "appended");
    json_object_foreach(json_object_get(answer, "partitions"), name, partition)
    {
        if (json_object_get(partition, "raw") == NULL && json_object_get(partition, "log") != NULL)
            printf("%-20s raw  none: the input comes by multicast, or RAW is gone\n", name);
        else
            print_log(name, "raw", json_object_get(partition, "raw"), NULL);
        print_log(name, "log", json_object_get(partition, "log"),
                  json_object_get(partition, "lag_frames"));
    }
    print_workers(json_object_get(answer, "workers"));
}

/* ---- entry ------------------------------------------------------------------------------- */

static int ask(struct visit *visit, bool json, struct problem *problem)
{
    int error = connect_to(visit, problem);
    json_t *answer = NULL;
    if (error == 0)
        answer = visit->create != NULL ? create(visit, problem) : list(visit, problem);
    nats_connection_close(&visit->connection);
    if (answer == NULL)
        return error != 0 ? error : ERROR_SYSTEM;
    if (json) {
        json_dumpf(answer, stdout, JSON_COMPACT);
        putchar('\n');
    } else if (visit->create != NULL) {
        print_made(json_object_get(answer, "logs"));
    } else {
        print_list(answer);
    }
    json_decref(answer);
    return 0;
}

int cluster_run(int count, char *const *words, bool json, struct problem *problem)
{
    static struct visit visit; /* libnats may keep what it does not end */
    int error = read_words(&visit, count, words, problem);
    if (error != 0)
        return error;
    visit.config = command_config(&(struct arguments){.config_path = visit.config_path});
    if (visit.config == NULL)
        return ERROR_CONFIG;
    error = ask(&visit, json, problem);
    config_free(visit.config);
    return error;
}
