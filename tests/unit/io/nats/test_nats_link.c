/*
 * The link to a log, against a real server: appends on condition, by number and by identity; the
 * newest record and others; following across a server that is killed and comes back, with what it
 * had stored or with less, and where consumers bring nothing; questions and answers between two
 * links.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <uv.h>

#include <cmocka.h>

#include "core/clock.h"
#include "io/nats/link.h"
#include "tests/support/nats_server.h"
#include "wire/crc32c.h"

enum { FRAMES = 100, QUEUE_BYTES = 1 << 22, PATIENCE_S = 20 };

static struct nats_server server;
static uv_loop_t loop;
static uint8_t samples[64 * FRAMES * 2];

struct end {
    struct nats_link *link;
    struct log_end tail; /* what its next append expects */
    uint64_t token, term, owner, frames;
    uint32_t chain;
    bool closed;
};

/* ---- links ------------------------------------------------------------------------------- */

static void rung(void *context)
{
    (void)context; /* the tests look themselves */
}

static void open_log(struct end *end, const char *partition, uint64_t owner)
{
    struct problem problem = {0};
    struct nats_link_options options = {
        .loop = &loop,
        .name = "test",
        .servers = {.servers = server.url},
        .queue_bytes = QUEUE_BYTES,
        .rung = rung,
    };
    *end = (struct end){.owner = owner};
    nats_log_name("lab", partition, "log", &options.log);
    if (nats_link_open(&options, &end->link, &problem) != 0)
        fail_msg("%s", problem.text);
    nats_link_start(end->link);
}

static void closed(void *context)
{
    struct end *end = context;
    end->closed = true;
}

static void close_log(struct end *end)
{
    nats_link_close(end->link, clock_monotonic_ns() + NS_PER_SECOND, closed, end);
    while (!end->closed)
        uv_run(&loop, UV_RUN_ONCE);
    uv_run(&loop, UV_RUN_NOWAIT);
}

/* The next event of this kind; those of kinds that the test does not wait for are passed over when
 * they tell of the connection, and fail it otherwise. */
static struct nats_event await(struct end *end, enum nats_event_kind kind)
{
    struct nats_event event;
    const int64_t until_ns = clock_monotonic_ns() + PATIENCE_S * (int64_t)NS_PER_SECOND;
    while (clock_monotonic_ns() < until_ns) {
        uv_run(&loop, UV_RUN_NOWAIT);
        nats_link_tick(end->link, clock_monotonic_ns());
        while (nats_link_next(end->link, &event)) {
            if (event.kind == kind)
                return event;
            if (event.kind != LINK_CONNECTED && event.kind != LINK_DISCONNECTED)
                fail_msg("event %d (%s) instead of %d", event.kind, event.text, kind);
        }
        uv_sleep(1);
    }
    fail_msg("no event %d", kind);
    return event;
}

static void make_log(struct end *end, bool file)
{
    await(end, LINK_CONNECTED);
    nats_link_create(end->link, &(struct nats_log_options){.file = file, .replicas = 1});
    await(end, LINK_CREATED);
}

/* ---- appending --------------------------------------------------------------------------- */

/* Appends a record behind the tail without waiting. */
static void append(struct end *end, enum record_kind kind)
{
    const uint32_t frames = kind == RECORD_DATA ? FRAMES : 0;
    struct record r = {
        .kind = (uint8_t)kind,
        .term = end->term,
        .owner = end->owner,
        .from = end->frames,
        .first = end->frames,
        .next = end->frames + frames,
        .frames = frames,
        .channels = 1,
        .format = {.kind = SAMPLE_SIGNED, .bytes = 2, .bits = 16},
        .rate_hz = 1e6,
        .samples = samples + end->frames * 2,
        .chain_before = end->chain,
    };
    end->chain = r.chain = record_chain(&r, frames);
    assert_true(nats_link_append(end->link, &end->tail, ++end->token, &r));
    end->tail = (struct log_end){end->tail.sequence + 1, end->term, end->owner};
    end->frames += frames;
}

static void take(struct end *end, const struct log_mark *newest)
{
    end->term = newest->end.term + 1;
    end->tail = newest->end;
    end->frames = newest->next;
    append(end, RECORD_TAKE);
}

static void test_conditions(void **unused)
{
    (void)unused;
    struct end a, b;
    struct log_mark mark = {0};
    open_log(&a, "conditions", 0xA);
    open_log(&b, "conditions", 0xB);
    await(&b, LINK_CONNECTED);

    await(&a, LINK_CONNECTED);
    nats_link_read(a.link, 0, 7);
    assert_int_equal(await(&a, LINK_ABSENT).tag, 7); /* no such log */
    nats_link_create(a.link, &(struct nats_log_options){.replicas = 1, .bytes = 1 << 20});
    await(&a, LINK_CREATED);
    nats_link_create(a.link, &(struct nats_log_options){.replicas = 1, .bytes = 1 << 20});
    await(&a, LINK_CREATED); /* it is there */
    nats_link_read(a.link, 0, 8);
    assert_int_equal(await(&a, LINK_EMPTY).tag, 8);

    take(&a, &mark);
    for (int i = 0; i < 5; i++) /* all under way at once */
        append(&a, RECORD_DATA);
    for (uint64_t i = 1; i <= 6; i++) {
        const struct nats_event event = await(&a, LINK_APPENDED);
        assert_int_equal(event.token, i);
        assert_int_equal(event.sequence, i);
    }
    take(&b, &mark); /* the log is not empty any more */
    assert_int_equal(await(&b, LINK_REFUSED).token, 1);

    nats_link_read(b.link, 0, 9);
    struct nats_event read = await(&b, LINK_READ);
    nats_mark_of(&read, &mark);
    assert_int_equal(read.tag, 9);
    assert_int_equal(mark.end.sequence, 6);
    assert_int_equal(mark.end.owner, 0xA);
    assert_int_equal(mark.next, 5 * FRAMES);
    assert_true(read.appended_ns > clock_realtime_ns() - 60 * (int64_t)NS_PER_SECOND);
    assert_memory_equal(read.record.samples, samples + 4 * FRAMES * 2, FRAMES * 2);
    nats_link_read(b.link, 2, 10);
    read = await(&b, LINK_READ);
    assert_int_equal(read.record.first, 0);
    nats_link_read(b.link, 99, 11);
    assert_int_equal(await(&b, LINK_EMPTY).tag, 11);

    struct log_mark other = mark; /* the right number, but not the record that stands there */
    other.end.owner = 0xC;
    take(&b, &other);
    const struct nats_event refused = await(&b, LINK_REFUSED);
    assert_non_null(strstr(refused.text, "msg ID"));
    take(&b, &mark);
    assert_int_equal(await(&b, LINK_APPENDED).sequence, 7);

    append(&a, RECORD_DATA); /* a zombie's */
    append(&a, RECORD_DATA);
    await(&a, LINK_REFUSED);
    await(&a, LINK_REFUSED);
    append(&b, RECORD_DATA);
    assert_int_equal(await(&b, LINK_APPENDED).sequence, 8);
    close_log(&a);
    close_log(&b);
}

static void test_no_server(void **unused)
{
    (void)unused;
    struct end end;
    open_log(&end, "away", 1);
    make_log(&end, true);
    take(&end, &(struct log_mark){0});
    await(&end, LINK_APPENDED);
    nats_server_kill(&server);
    await(&end, LINK_DISCONNECTED);
    append(&end, RECORD_DATA);
    assert_int_equal(await(&end, LINK_UNSENT).token, end.token);
    nats_server_start(&server);
    await(&end, LINK_CONNECTED);
    end.tail.sequence--;
    append(&end, RECORD_DATA); /* on the same condition as the one that was not sent */
    assert_int_equal(await(&end, LINK_APPENDED).sequence, 2);
    struct nats_link_figures figures;
    nats_link_figures(end.link, &figures);
    assert_true(figures.connected && figures.connections == 2);
    close_log(&end);
}

/* ---- following --------------------------------------------------------------------------- */

static void expect_records(struct end *reader, uint64_t from, uint64_t until)
{
    for (uint64_t i = from; i < until; i++) {
        const struct nats_event event = await(reader, LINK_RECORD);
        assert_int_equal(event.sequence, i);
        assert_int_equal(event.record.next, (i - 1) * FRAMES); /* the first is a take */
        if (i > 1)
            assert_memory_equal(event.record.samples, samples + (i - 2) * FRAMES * 2, FRAMES * 2);
    }
}

static void append_all(struct end *writer, int count)
{
    for (int i = 0; i < count; i++) {
        append(writer, RECORD_DATA);
        await(writer, LINK_APPENDED);
    }
}

static void test_follow(void **unused)
{
    (void)unused;
    struct end writer, reader;
    open_log(&writer, "follow", 1);
    open_log(&reader, "follow", 2);
    make_log(&writer, true);
    await(&reader, LINK_CONNECTED);
    take(&writer, &(struct log_mark){0});
    await(&writer, LINK_APPENDED);
    append_all(&writer, 9);
    nats_link_follow(reader.link, 1);
    expect_records(&reader, 1, 11);
    append_all(&writer, 3);
    expect_records(&reader, 11, 14);

    nats_server_shell(&server, "cp -a jetstream kept");
    append_all(&writer, 3);
    expect_records(&reader, 14, 17);
    nats_server_kill(&server);
    await(&reader, LINK_DISCONNECTED);
    nats_server_start(&server);
    await(&writer, LINK_CONNECTED);
    append_all(&writer, 3);
    expect_records(&reader, 17, 20);

    /* A server that comes back with what it had before. */
    nats_server_kill(&server);
    nats_server_shell(&server, "rm -rf jetstream && mv kept jetstream");
    nats_server_start(&server);
    const struct nats_event lapsed = await(&reader, LINK_LAPSED);
    assert_int_equal(lapsed.sequence, 20);
    assert_int_equal(lapsed.last, 13);
    nats_link_follow(reader.link, 12);
    expect_records(&reader, 12, 14);
    close_log(&writer);
    close_log(&reader);
}

/* The log goes back, and grows again beyond where a reader stands, while the reader is away. */
static void test_replaced(void **unused)
{
    (void)unused;
    struct end writer, reader, other;
    open_log(&writer, "replaced", 1);
    open_log(&reader, "replaced", 2);
    open_log(&other, "replaced", 3);
    make_log(&writer, true);
    await(&reader, LINK_CONNECTED);
    await(&other, LINK_CONNECTED);
    take(&writer, &(struct log_mark){0});
    await(&writer, LINK_APPENDED);
    nats_server_shell(&server, "rm -rf kept && cp -a jetstream kept");
    append_all(&writer, 4);
    nats_link_follow(reader.link, 1);
    expect_records(&reader, 1, 6);

    nats_server_kill(&server);
    nats_server_shell(&server, "rm -rf jetstream && mv kept jetstream");
    nats_server_start(&server);
    await(&other, LINK_DISCONNECTED);
    await(&other, LINK_CONNECTED);
    nats_link_read(other.link, 0, 1);
    struct nats_event read = await(&other, LINK_READ);
    struct log_mark mark;
    nats_mark_of(&read, &mark);
    assert_int_equal(mark.end.sequence, 1);
    take(&other, &mark);
    await(&other, LINK_APPENDED);
    append_all(&other, 8);
    /* The reader was in no hurry; now it sees that record 5 is another one. */
    const struct nats_event lapsed = await(&reader, LINK_LAPSED);
    assert_int_equal(lapsed.sequence, 6);
    close_log(&writer);
    close_log(&reader);
    close_log(&other);
}

/* The server starts anew and refuses its clients this; empty: nothing. */
static void refuse(const char *what)
{
    char command[1400] = "> nats.conf";
    if (what[0] != '\0')
        snprintf(command, sizeof command,
                 "echo 'no_auth_user: u, authorization { users = [{ user: u, password: p, "
                 "permissions: { %s } }] }' > nats.conf",
                 what);
    nats_server_kill(&server);
    nats_server_shell(&server, command);
    nats_server_start(&server);
}

/* A consumer that opens and brings nothing, as beside a replica that lags: what the log's leader
 * has is fetched from it. */
static void test_barren_consumer(void **unused)
{
    (void)unused;
    struct end writer, reader;
    open_log(&writer, "barren", 1);
    open_log(&reader, "barren", 2);
    make_log(&writer, true);
    await(&reader, LINK_CONNECTED);
    take(&writer, &(struct log_mark){0});
    await(&writer, LINK_APPENDED);
    append_all(&writer, 3);
    char deny[1024] = "subscribe: { deny: [";
    for (int i = 1; i <= 40; i++) /* what consumers deliver to, each its own */
        snprintf(deny + strlen(deny), sizeof deny - strlen(deny), "\"_INBOX.*.%d\", ", i);
    strcat(deny, " ] }");
    refuse(deny);
    await(&writer, LINK_CONNECTED);
    nats_link_follow(reader.link, 1);
    expect_records(&reader, 1, 5);
    append_all(&writer, 3);
    expect_records(&reader, 5, 8);
    struct nats_link_figures figures;
    nats_link_figures(reader.link, &figures);
    assert_int_equal(figures.received, 7);
    refuse("");
    close_log(&writer);
    close_log(&reader);
}

/* Nobody answers what a reader asks of the log, as on a server that is parted from the others. */
static void test_reader_goes_elsewhere(void **unused)
{
    (void)unused;
    struct end writer, reader;
    open_log(&writer, "elsewhere", 1);
    open_log(&reader, "elsewhere", 2);
    make_log(&writer, true);
    await(&reader, LINK_CONNECTED);
    refuse("publish: { deny: \"$JS.API.STREAM.INFO.>\" }");
    await(&reader, LINK_DISCONNECTED);
    await(&reader, LINK_CONNECTED);
    nats_link_follow(reader.link, 1);
    await(&reader, LINK_DISCONNECTED);
    refuse("");
    close_log(&writer);
    close_log(&reader);
}

/* ---- questions --------------------------------------------------------------------------- */

static void test_questions(void **unused)
{
    (void)unused;
    struct end owner, candidate;
    open_log(&owner, "questions", 1);
    open_log(&candidate, "questions", 2);
    await(&owner, LINK_CONNECTED);
    await(&candidate, LINK_CONNECTED);
    nats_link_ask(candidate.link, 4, "");
    assert_int_equal(await(&candidate, LINK_NO_RESPONDERS).term, 4);
    nats_link_own(owner.link, 4);
    uint32_t silent = 0;
    for (bool heard = false; !heard;) { /* until the server knows of the subscription */
        struct nats_event event = {0};
        nats_link_ask(candidate.link, 4, "");
        uv_sleep(20);
        heard = nats_link_next(owner.link, &event) && event.kind == LINK_QUESTION;
        assert_true(silent++ < 100);
        if (heard) {
            assert_int_equal(event.term, 4);
            nats_link_answer(owner.link);
        } else {
            assert_int_equal(await(&candidate, LINK_NO_RESPONDERS).term, 4);
        }
    }
    assert_int_equal(await(&candidate, LINK_ANSWERED).term, 4);
    nats_link_ask(candidate.link, 3, ""); /* another term has nobody */
    assert_int_equal(await(&candidate, LINK_NO_RESPONDERS).term, 3);
    close_log(&owner);
    nats_link_ask(candidate.link, 4, "");
    await(&candidate, LINK_NO_RESPONDERS);
    close_log(&candidate);
}

static void test_never_started(void **unused)
{
    (void)unused;
    struct problem problem = {0};
    struct nats_link_options options = {.loop = &loop,
                                        .name = "test",
                                        .servers = {.servers = server.url},
                                        .queue_bytes = QUEUE_BYTES,
                                        .rung = rung};
    struct end end = {0};
    nats_log_name("lab", "x", "raw", &options.log);
    assert_string_equal(options.log.subject, "convolvd.lab.x.raw");
    assert_string_equal(options.log.stream, "lab:x:raw");
    assert_int_equal(nats_link_open(&options, &end.link, &problem), 0);
    nats_link_close(end.link, 0, closed, &end);
    assert_true(end.closed);
    options.servers.servers = " ,";
    assert_int_equal(nats_link_open(&options, &end.link, &problem), ERROR_CONFIG);
    options.servers.servers = server.url;
    options.servers.credentials = "/nowhere/user.creds";
    assert_int_equal(nats_link_open(&options, &end.link, &problem), ERROR_CONFIG);
    options.servers.credentials = NULL;
    options.servers.ca = "/nowhere/ca.pem";
    assert_int_equal(nats_link_open(&options, &end.link, &problem), ERROR_CONFIG);
    assert_true(nats_name_valid("vessel_1-a") && !nats_name_valid("a.b") && !nats_name_valid(""));
}

static int setup(void **unused)
{
    (void)unused;
    for (size_t i = 0; i < sizeof samples; i++)
        samples[i] = (uint8_t)(i * 31 + i / 251);
    uv_loop_init(&loop);
    nats_server_open(&server);
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
        cmocka_unit_test(test_conditions),      cmocka_unit_test(test_no_server),
        cmocka_unit_test(test_follow),          cmocka_unit_test(test_replaced),
        cmocka_unit_test(test_barren_consumer), cmocka_unit_test(test_reader_goes_elsewhere),
        cmocka_unit_test(test_questions),       cmocka_unit_test(test_never_started),
    };
    return cmocka_run_group_tests(tests, setup, teardown);
}
