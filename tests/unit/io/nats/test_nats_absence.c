/*
 * An error is no absence: only the server's answer that there is no such log makes a daemon make
 * it, and a log of several replicas that has existed is made again by nobody. The answers of
 * JetStream's API are the test's own, at a real server without JetStream.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <uv.h>

#include <cmocka.h>

#include "core/clock.h"
#include "io/nats/appender.h"
#include "tests/support/nats_server.h"

enum { QUEUE_BYTES = 1 << 22, PATIENCE_S = 20, SEVERAL = 5 };

#define ERROR_ANSWER(code)                                                                         \
    "{\"type\":\"t\",\"error\":{\"code\":500,\"err_code\":" #code ",\"description\":\"text\"}}"
#define NOT_FOUND  ERROR_ANSWER(10059)
#define NO_MESSAGE ERROR_ANSWER(10037)

static struct nats_server server;
static uv_loop_t loop;

/* ---- the API ----------------------------------------------------------------------------- */

static struct api {
    natsConnection *connection;
    natsSubscription *subscription;
    const char *_Atomic read, *_Atomic info, *_Atomic create; /* answers; NULL: none */
    _Atomic int reads, infos, creates;
    /* The log itself: it passes over what it is asked to append until so many nudges have come. */
    natsSubscription *log;
    _Atomic int appends, nudges, nudges_wanted;
} api;

static void answer(natsMsg *message, const char *text, _Atomic int *count)
{
    atomic_fetch_add(count, 1);
    if (text != NULL && natsMsg_GetReply(message) != NULL)
        natsConnection_PublishString(api.connection, natsMsg_GetReply(message), text);
}

static void on_request(natsConnection *connection, natsSubscription *subscription, natsMsg *message,
                       void *context)
{
    (void)connection;
    (void)subscription;
    (void)context;
    const char *subject = natsMsg_GetSubject(message);
    if (strstr(subject, ".STREAM.MSG.GET.") != NULL)
        answer(message, atomic_load(&api.read), &api.reads);
    else if (strstr(subject, ".STREAM.INFO.") != NULL)
        answer(message, atomic_load(&api.info), &api.infos);
    else if (strstr(subject, ".STREAM.CREATE.") != NULL)
        answer(message, atomic_load(&api.create), &api.creates);
    natsMsg_Destroy(message);
}

static void on_append(natsConnection *connection, natsSubscription *subscription, natsMsg *message,
                      void *context)
{
    (void)connection;
    (void)subscription;
    (void)context;
    const char *id;
    if (natsMsgHeader_Get(message, "Nats-Msg-Id", &id) == NATS_OK)
        atomic_fetch_add(&api.appends, 1);
    else
        answer(message,
               atomic_load(&api.nudges) >= atomic_load(&api.nudges_wanted) ? ERROR_ANSWER(10071)
                                                                           : NULL,
               &api.nudges);
    natsMsg_Destroy(message);
}

static void open_api(void)
{
    memset(&api, 0, sizeof api);
    assert_int_equal(natsConnection_ConnectTo(&api.connection, server.url), NATS_OK);
    assert_int_equal(
        natsConnection_Subscribe(&api.subscription, api.connection, "$JS.API.>", on_request, NULL),
        NATS_OK);
    assert_int_equal(natsConnection_Flush(api.connection), NATS_OK);
}

static void close_api(void)
{
    natsSubscription_Destroy(api.subscription);
    if (api.log != NULL)
        natsSubscription_Destroy(api.log);
    natsConnection_Destroy(api.connection);
}

static bool is_late(int64_t since_ns)
{
    return clock_monotonic_ns() - since_ns > PATIENCE_S * (int64_t)NS_PER_SECOND;
}

/* Runs the loop until there were `count` requests. */
static void run_until(const _Atomic int *requests, int count)
{
    const int64_t since_ns = clock_monotonic_ns();
    while (atomic_load(requests) < count) {
        assert_false(is_late(since_ns));
        uv_run(&loop, UV_RUN_ONCE);
    }
}

/* ---- a link ------------------------------------------------------------------------------ */

static void nothing(void *context)
{
    (void)context;
}

static void closed(void *context)
{
    *(bool *)context = true;
}

static struct nats_event next_of(struct nats_link *link, bool connection)
{
    struct nats_event event = {0};
    for (const int64_t since_ns = clock_monotonic_ns(); !is_late(since_ns); uv_sleep(1)) {
        uv_run(&loop, UV_RUN_NOWAIT);
        while (nats_link_next(link, &event))
            if ((event.kind == LINK_CONNECTED) == connection)
                return event;
    }
    fail_msg("no event");
    return event;
}

static void test_an_error_is_no_absence(void **unused)
{
    (void)unused;
    static const struct {
        const char *answer;
        enum nats_event_kind expect;
    } given[] = {
        {NOT_FOUND, LINK_ABSENT},
        {NO_MESSAGE, LINK_EMPTY},
        {ERROR_ANSWER(10008), LINK_UNREAD}, /* no leader */
        {ERROR_ANSWER(10023), LINK_UNREAD}, /* resources */
        {ERROR_ANSWER(10039), LINK_UNREAD}, /* no JetStream for the account */
        {ERROR_ANSWER(10076), LINK_UNREAD}, /* JetStream is off */
        {ERROR_ANSWER(10118), LINK_UNREAD}, /* the stream is offline */
        {"{\"type\":\"t\"}", LINK_UNREAD},
        {"{\"message\":{}}", LINK_UNREAD},
        {"{\"message\":{\"seq\":1,\"data\":\"***\"}}", LINK_UNREAD},
        {"no JSON", LINK_UNREAD},
        {"", LINK_UNREAD},
    };
    struct problem problem;
    struct nats_link *link;
    struct nats_link_options options = {.loop = &loop,
                                        .name = "test",
                                        .servers = {.servers = server.url},
                                        .queue_bytes = QUEUE_BYTES,
                                        .rung = nothing};
    bool ended = false;
    nats_log_name("lab", "absence", "log", &options.log);
    assert_int_equal(nats_link_open(&options, &link, &problem), 0);
    nats_link_start(link);
    next_of(link, true);
    nats_link_read(link, 0, 77); /* nobody answers */
    assert_int_equal(next_of(link, false).kind, LINK_UNREAD);
    nats_link_ask_length(link);
    assert_int_equal(next_of(link, false).kind, LINK_UNREAD);
    open_api();
    for (size_t i = 0; i < sizeof given / sizeof *given; i++) {
        atomic_store(&api.read, given[i].answer);
        atomic_store(&api.info, given[i].answer);
        nats_link_read(link, 0, (uint32_t)i);
        const struct nats_event event = next_of(link, false);
        assert_int_equal(event.tag, i);
        if (event.kind != given[i].expect)
            fail_msg("%s: event %d", given[i].answer, event.kind);
        if (given[i].expect == LINK_EMPTY)
            continue; /* no answer to what follows */
        nats_link_ask_length(link);
        assert_int_equal(next_of(link, false).kind, given[i].expect);
    }
    close_api();
    nats_link_close(link, clock_monotonic_ns() + NS_PER_SECOND, closed, &ended);
    while (!ended)
        uv_run(&loop, UV_RUN_ONCE);
    uv_run(&loop, UV_RUN_NOWAIT);
}

/* ---- an appender ------------------------------------------------------------------------- */

static void resumed(void *context, const struct record *newest)
{
    (void)context;
    (void)newest;
}

static struct cluster cluster;
static struct nats_successor successor;

static struct nats_appender *open_appender(uint32_t replicas)
{
    struct problem problem;
    struct nats_appender *appender;
    cluster = (struct cluster){
        .servers = server.url, .name = "lab", .worker = "me", .config = "", .identity = 7};
    cluster.lease_ns = NS_PER_SECOND;
    const struct nats_appender_options options = {
        .loop = &loop,
        .cluster = &cluster,
        .name = "sink raw",
        .partition = "absence",
        .kind = "raw",
        .input = true,
        .queue_bytes = QUEUE_BYTES,
        .log = {.file = true, .replicas = replicas},
        .successor = &successor,
        .resume = resumed,
        .stop = nothing,
        .room = nothing,
    };
    assert_int_equal(nats_appender_open(&options, &appender, &problem), 0);
    nats_appender_start(appender);
    return appender;
}

static void close_appender(struct nats_appender *appender)
{
    bool ended = false;
    nats_appender_close(appender, clock_monotonic_ns() + NS_PER_SECOND, closed, &ended);
    while (!ended)
        uv_run(&loop, UV_RUN_ONCE);
    uv_run(&loop, UV_RUN_NOWAIT);
}

static void read_again(int times)
{
    run_until(&api.reads, atomic_load(&api.reads) + times);
}

static void test_only_an_absent_log_is_made(void **unused)
{
    (void)unused;
    open_api();
    atomic_store(&api.read, ERROR_ANSWER(10008));
    struct nats_appender *appender = open_appender(3);
    read_again(SEVERAL);
    assert_int_equal(atomic_load(&api.creates), 0);
    const int64_t since_ns = clock_monotonic_ns();
    atomic_store(&api.read, NOT_FOUND); /* requests to make it have no answer */
    run_until(&api.creates, 1);
    read_again(SEVERAL);
    const int64_t took_ns = clock_monotonic_ns() - since_ns;
    assert_true(atomic_load(&api.creates) <= 1 + took_ns / NS_PER_SECOND);
    close_appender(appender);
    close_api();
}

/* One replica may be gone with its server, and is made anew; three do not vanish by a fault. */
static void test_a_log_that_has_existed(void **unused)
{
    (void)unused;
    for (uint32_t replicas = 1; replicas <= 3; replicas += 2) {
        open_api();
        atomic_store(&api.read, NO_MESSAGE);
        atomic_store(&api.info, "{\"state\":{\"first_seq\":0,\"last_seq\":0}}");
        struct nats_appender *appender = open_appender(replicas);
        run_until(&api.infos, 1);
        read_again(1);
        assert_int_equal(atomic_load(&api.creates), 0);
        atomic_store(&api.read, NOT_FOUND);
        if (replicas == 1)
            run_until(&api.creates, 1);
        else
            read_again(SEVERAL);
        assert_int_equal(atomic_load(&api.creates) > 0, replicas == 1);
        close_appender(appender);
        close_api();
    }
}

#define STATE(replicas, first, second)                                                             \
    "{\"config\":{\"num_replicas\":" #replicas "},\"state\":{\"first_seq\":0,\"last_seq\":0},"     \
    "\"cluster\":{\"leader\":\"a\",\"replicas\":[{\"active\":" #first "},{\"active\":" #second     \
    "}]}}"

/* A leader that passes over appends though it hears from most replicas is brought to answer, and
 * the log is taken again; one that is parted from the others, or has none, is left alone. */
static void test_a_leader_that_passes_over_appends(void **unused)
{
    (void)unused;
    static const struct {
        const char *info;
        bool nudged;
    } given[] = {
        {STATE(3, 1000000, 9000000000), true},
        {STATE(3, 2000000000, 9000000000), false},
        {"{\"config\":{\"num_replicas\":1},\"state\":{\"first_seq\":0,\"last_seq\":0},"
         "\"cluster\":{\"leader\":\"a\"}}",
         false},
    };
    for (size_t i = 0; i < sizeof given / sizeof *given; i++) {
        open_api();
        assert_int_equal(natsConnection_Subscribe(&api.log, api.connection,
                                                  "convolvd.lab.absence.raw", on_append, NULL),
                         NATS_OK);
        assert_int_equal(natsConnection_Flush(api.connection), NATS_OK);
        atomic_store(&api.nudges_wanted, 100);
        atomic_store(&api.read, NO_MESSAGE);
        atomic_store(&api.info, given[i].info);
        struct nats_appender *appender = open_appender(3);
        run_until(&api.appends, 2); /* its first take has no outcome */
        if (given[i].nudged)
            run_until(&api.nudges, 100);
        assert_int_equal(atomic_load(&api.nudges) >= 100, given[i].nudged);
        close_appender(appender);
        close_api();
    }
}

static int setup(void **unused)
{
    (void)unused;
    uv_loop_init(&loop);
    nats_server_open(&server);
    nats_server_kill(&server);
    server.plain = true;
    nats_server_start(&server);
    return 0;
}

static int teardown(void **unused)
{
    (void)unused;
    nats_server_close(&server);
    return uv_loop_close(&loop);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_an_error_is_no_absence),
        cmocka_unit_test(test_only_an_absent_log_is_made),
        cmocka_unit_test(test_a_log_that_has_existed),
        cmocka_unit_test(test_a_leader_that_passes_over_appends),
    };
    return cmocka_run_group_tests(tests, setup, teardown);
}
