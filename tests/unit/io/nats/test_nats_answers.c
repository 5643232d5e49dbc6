/*
 * What NATS servers say, in the words of nats-server 2.9: acknowledgements and refusals, answers of
 * the API, places of deliveries; and what is none of them.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "io/nats/answers.h"

static void test_acks(void **unused)
{
    (void)unused;
    static const struct {
        const char *json;
        bool read;
        uint64_t sequence;
        bool id_unknown;
        const char *text;
        bool fault;
    } cases[] = {
        {"{\"stream\":\"L\", \"seq\":2}", true, 2, false, "", false},
        {"{\"stream\":\"L\",\"seq\":18446744073709}", true, 18446744073709, false, "", false},
        {"{\"error\":{\"code\":400,\"err_code\":10071,\"description\":\"wrong last sequence: "
         "2\"},\"stream\":\"L\",\"seq\":0}",
         true, 0, false, "wrong last sequence: 2", false},
        {"{\"error\":{\"code\":400,\"err_code\":10070,\"description\":\"wrong last msg ID: "
         "9.1.a\"},\"seq\":0}",
         true, 0, false, "wrong last msg ID: 9.1.a", false},
        {"{\"error\":{\"code\":400,\"err_code\":10070,\"description\":\"wrong last msg ID: "
         "\"},\"seq\":0}",
         true, 0, true, "wrong last msg ID: ", false},
        {"{\"error\":{\"code\":503,\"err_code\":10023,\"description\":\"insufficient "
         "resources\"},\"stream\":\"L\",\"seq\":0}",
         true, 0, false, "insufficient resources", true},
        {"{\"error\":{\"code\":503,\"err_code\":10077,\"description\":\"no space left on "
         "device\"},\"stream\":\"L\",\"seq\":0}",
         true, 0, false, "no space left on device", true},
        {"{\"stream\":\"L\",\"seq\":2,\"duplicate\":true}", true, 0, false,
         "the server has a record of this identity", false},
        {"{\"stream\":\"L\",\"seq\":0}", false, 0, false, "", false},
        {"{\"stream\":\"L\",\"seq\":", false, 0, false, "", false},
        {"{\"error\":{\"description\":\"cut", true, 0, false, "cut", true},
        {"[]", false, 0, false, "", false},
        {"", false, 0, false, "", false},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        struct nats_ack ack;
        char *exact = strdup(cases[i].json); /* a read past its end is seen */
        assert_int_equal(nats_ack_read(exact, strlen(exact), &ack), cases[i].read);
        assert_int_equal(ack.sequence, cases[i].sequence);
        assert_int_equal(ack.id_unknown, cases[i].id_unknown);
        assert_string_equal(ack.text, cases[i].text);
        assert_int_equal(ack.fault, cases[i].fault);
        free(exact);
    }
}

static bool answer(const char *json, struct nats_answer *out)
{
    return nats_answer_read(json, strlen(json), out);
}

static void test_api(void **unused)
{
    (void)unused;
    struct nats_answer a;
    assert_true(answer("{\"message\":{\"subject\":\"L\",\"seq\":3,\"data\":\"eHl6\","
                       "\"time\":\"2026-11-22T21:49:45.861140511Z\"}}",
                       &a));
    assert_false(a.failed);
    assert_int_equal(a.sequence, 3);
    assert_int_equal(a.bytes, 3);
    assert_memory_equal(a.data, "xyz", 3);
    assert_int_equal(a.appended_ns, 1795384185861140511);
    free(a.data);
    assert_true(answer("{\"message\":{\"seq\":4,\"time\":\"2026-11-22T21:49:45Z\"}}", &a));
    assert_int_equal(a.bytes, 0);
    assert_int_equal(a.appended_ns, 1795384185000000000);
    free(a.data);
    assert_true(answer("{\"error\":{\"code\":404,\"err_code\":10037,\"description\":\"no message "
                       "found\"}}",
                       &a));
    assert_true(a.failed && a.code == NATS_CODE_NO_MESSAGE && a.data == NULL);
    assert_string_equal(a.text, "no message found");
    assert_true(answer("{\"state\":{\"first_seq\":5,\"last_seq\":9}}", &a));
    assert_int_equal(a.first, 5);
    assert_int_equal(a.last, 9);
    assert_false(answer("{\"message\":{\"seq\":3,\"data\":\"e!\"}}", &a));
    assert_null(a.data);
    assert_false(answer("{\"message\":{\"data\":\"eHl6\"}}", &a));
    assert_false(answer("[1]", &a));
    assert_false(answer("{", &a));
}

static void test_places(void **unused)
{
    (void)unused;
    static const struct {
        const char *reply;
        bool read;
        struct nats_place place;
    } cases[] = {
        {"$JS.ACK.lab:x:log.ABC-7.1.25.3.1795385161645320846.0", true, {25, 3, 7}},
        {"$JS.ACK.hub.acc.lab:x:log.ABC-7.1.25.3.1795385161645320846.0", true, {25, 3, 7}},
        {"$JS.ACK.hub.acc.lab:x:log.ABC-7.1.25.3.1795385161645320846.0.tok", true, {25, 3, 7}},
        {"$JS.ACK.a-9.ABC.1.25.3.17.0", true, {25, 3, 0}},
        {"$JS.ACK.x.A-1.1.0.3.17.0", false, {0, 3, 1}},
        {"$JS.ACK.x.A-1.1.25.3.17", false, {0}},
        {"$JS.ACK.x.A-1.1.25.3.17.0.1", false, {0}},
        {"$JS.ACK.x.A-1.1.no.3.17.0", false, {0, 0, 1}},
        {"$JS.FC.x", false, {0}},
        {NULL, false, {0}},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        struct nats_place place = {0};
        assert_int_equal(nats_place_read(cases[i].reply, &place), cases[i].read);
        if (!cases[i].read)
            continue;
        assert_int_equal(place.sequence, cases[i].place.sequence);
        assert_int_equal(place.delivered, cases[i].place.delivered);
        assert_int_equal(place.consumer, cases[i].place.consumer);
    }
}

static void test_id(void **unused)
{
    (void)unused;
    char id[NATS_ID_BYTES];
    nats_id(id, UINT64_MAX, UINT64_MAX, UINT64_MAX);
    assert_string_equal(id, "18446744073709551615.18446744073709551615.ffffffffffffffff");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_acks),
        cmocka_unit_test(test_api),
        cmocka_unit_test(test_places),
        cmocka_unit_test(test_id),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
