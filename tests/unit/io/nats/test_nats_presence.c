/*
 * What workers tell of themselves: written and read again; and texts that are no presence, cut
 * short, too long, or told under the subject of another worker.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "io/nats/presence.h"

static struct candidate worker(void)
{
    return (struct candidate){.worker = "host.lab/gpu 0",
                              .identity = 0xfedcba9876543210,
                              .room = true,
                              .load = 0.25,
                              .capacity = 0.8,
                              .config = "c0ffee"};
}

static const char word[] = "host_lab_gpu_0";

static bool reads(const char *under, const char *text, size_t bytes)
{
    struct candidate of;
    bool leaves;
    char *exact = malloc(bytes > 0 ? bytes : 1); /* a read past its end is seen */
    assert_non_null(exact);
    memcpy(exact, text, bytes);
    const bool read = nats_presence_read(under, exact, bytes, &of, &leaves);
    free(exact);
    return read;
}

static void test_a_presence_is_read_as_it_was_written(void **unused)
{
    (void)unused;
    const struct candidate told = worker();
    struct candidate of;
    char text[NATS_PRESENCE_BYTES];
    for (int leaves = 0; leaves < 2; leaves++) {
        bool goes;
        nats_presence_write(&told, leaves, text);
        assert_true(nats_presence_read(word, text, strlen(text), &of, &goes));
        assert_int_equal(goes, leaves);
        assert_string_equal(of.worker, told.worker);
        assert_string_equal(of.config, told.config);
        assert_true(of.identity == told.identity && of.room && of.load == 0.25);
    }
    /* Room is what load and capacity say. */
    struct candidate full = told;
    bool goes;
    full.load = 0.8;
    nats_presence_write(&full, false, text);
    assert_true(nats_presence_read(word, text, strlen(text), &of, &goes) && !of.room);
}

static void test_what_is_no_presence(void **unused)
{
    (void)unused;
    const struct candidate told = worker();
    char text[NATS_PRESENCE_BYTES], other[2 * NATS_PRESENCE_BYTES];
    nats_presence_write(&told, false, text);
    for (size_t bytes = 0; bytes < strlen(text); bytes++)
        assert_false(reads(word, text, bytes));
    assert_true(reads(word, text, strlen(text)));
    assert_false(reads("another", text, strlen(text)));
    memset(other, ' ', sizeof other);
    memcpy(other, text, strlen(text));
    assert_false(reads(word, other, sizeof other));
    static const char *const wrong[] = {
        "[]",
        "null",
        "{\"worker\":\"w\"}",
        "{\"worker\":3,\"run\":\"1\",\"config\":\"c\"}",
        "{\"worker\":\"w\",\"run\":\"0\",\"config\":\"c\"}",
        "{\"worker\":\"w\",\"run\":\"12345678901234567\",\"config\":\"c\"}",
        "{\"worker\":\"w\",\"run\":\"1\",\"config\":\"\"}",
        "{\"worker\":\"\",\"run\":\"1\",\"config\":\"c\"}",
    };
    for (size_t i = 0; i < sizeof wrong / sizeof wrong[0]; i++)
        assert_false(reads("w", wrong[i], strlen(wrong[i])));
    assert_true(reads("w", "{\"worker\":\"w\",\"run\":\"1\",\"config\":\"c\"}", 37));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_a_presence_is_read_as_it_was_written),
        cmocka_unit_test(test_what_is_no_presence),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
