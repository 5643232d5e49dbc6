/*
 * Addresses as users write them, and what is said when one cannot be used.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "core/log.h"
#include "io/net/socket.h"

static void test_resolve(void **state)
{
    (void)state;
    static const struct {
        const char *given;
        bool to_bind;
        const char *expect; /* NULL: refused */
        bool any, multicast;
    } addresses[] = {
        {"127.0.0.1:5004", false, "127.0.0.1:5004", false, false},
        {"[::1]:5004", false, "[::1]:5004", false, false},
        {"localhost:65535", true, "127.0.0.1:65535", false, false},
        {"239.1.2.3:5004", false, "239.1.2.3:5004", false, true},
        {"224.0.0.1:1", true, "224.0.0.1:1", false, true},
        {"240.0.0.1:1", true, "240.0.0.1:1", false, false},
        {"[ff15::1]:5004", true, "[ff15::1]:5004", false, true},
        {"*:5004", true, "[::]:5004", true, false},
        {":5004", true, "[::]:5004", true, false},
        {"*:5004", false, NULL, false, false},
        {"127.0.0.1:0", true, "127.0.0.1:0", false, false},
        {"127.0.0.1:0", false, NULL, false, false},
        {"127.0.0.1", true, NULL, false, false},
        {"127.0.0.1:", true, NULL, false, false},
        {"127.0.0.1:65536", true, NULL, false, false},
        {"127.0.0.1:50x", true, NULL, false, false},
        {"127.0.0.1:-1", true, NULL, false, false},
        {"::1:5004", true, NULL, false, false},
        {"[::1:5004", true, NULL, false, false},
        {"", true, NULL, false, false},
        {"300.0.0.1:5004", true, NULL, false, false},
    };
    for (size_t i = 0; i < sizeof addresses / sizeof addresses[0]; i++) {
        struct address address;
        struct problem problem = {0};
        char text[ADDRESS_TEXT];
        int error = address_resolve(addresses[i].given, addresses[i].to_bind, &address, &problem);
        if ((error == 0) != (addresses[i].expect != NULL))
            fail_msg("'%s': %d %s", addresses[i].given, error, problem.text);
        if (error != 0) {
            assert_int_equal(error, ERROR_ADDRESS);
            assert_true(strlen(problem.text) > 20);
            continue;
        }
        /* localhost is ::1 on some machines. */
        if (strncmp(addresses[i].given, "localhost", 9) != 0)
            assert_string_equal(address_text(&address.storage, text), addresses[i].expect);
        assert_int_equal(address.any, addresses[i].any);
        assert_int_equal(address.multicast, addresses[i].multicast);
    }
}

static void test_same_host(void **state)
{
    (void)state;
    static const struct {
        const char *a, *b;
        bool expect;
    } pairs[] = {
        {"192.0.2.1", "192.0.2.1:5004", true},
        {"192.0.2.1", "192.0.2.2", false},
        {"192.0.2.1", "::ffff:192.0.2.1", true},
        {"::ffff:192.0.2.1", "::ffff:192.0.2.2", false},
        {"2001:db8::1", "[2001:db8::1]:99", true},
        {"2001:db8::1", "2001:db8::2", false},
        {"::1", "127.0.0.1", false},
    };
    for (size_t i = 0; i < sizeof pairs / sizeof pairs[0]; i++) {
        struct sockaddr_storage a, b;
        assert_int_equal(address_resolve_host(pairs[i].a, &a, NULL), 0);
        assert_int_equal(address_resolve_host(pairs[i].b, &b, NULL), 0);
        if (address_same_host(&a, &b) != pairs[i].expect ||
            address_same_host(&b, &a) != pairs[i].expect)
            fail_msg("%s and %s", pairs[i].a, pairs[i].b);
    }
}

static void test_refusals_say_what_to_do(void **state)
{
    (void)state;
    struct problem problem;
    int first, second;
    uint64_t granted;
    char address[32];
    struct socket_receive_options options = {
        .stream = "test", .address = "127.0.0.1:0", .buffer_bytes = 65536};
    assert_int_equal(socket_open_receive(&options, &first, &granted, NULL, &problem), 0);
    assert_true(granted >= 65536);
    snprintf(address, sizeof address, "127.0.0.1:%u", socket_port(first));
    options.address = address;

    static const struct {
        const char *address, *interface, *expect;
        int error;
    } refusals[] = {
        {NULL, NULL, "in use by another program", ERROR_ADDRESS},
        {"192.0.2.77:5004", NULL, "does not have the address", ERROR_ABSENT},
        {"239.1.2.3:0", "nosuch0", "no network interface 'nosuch0'", ERROR_ABSENT},
    };
    for (size_t i = 0; i < sizeof refusals / sizeof refusals[0]; i++) {
        if (refusals[i].address != NULL)
            options.address = refusals[i].address;
        options.interface = refusals[i].interface;
        second = -2;
        int error = socket_open_receive(&options, &second, &granted, NULL, &problem);
        assert_int_equal(error, refusals[i].error);
        assert_int_equal(second, -1);
        if (strstr(problem.text, refusals[i].expect) == NULL)
            fail_msg("expected '%s' in: %s", refusals[i].expect, problem.text);
    }
    close(first);
}

int main(void)
{
    log_set_level(LOG_LEVEL_ERROR);
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_resolve),
        cmocka_unit_test(test_same_host),
        cmocka_unit_test(test_refusals_say_what_to_do),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
