/* Rate limits: what passes of steady and bursty senders, at a virtual clock. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <arpa/inet.h>
#include <cmocka.h>
#include <netinet/in.h>

#include "core/clock.h"
#include "io/net/rate_limit.h"

static struct sockaddr_storage host(uint32_t number)
{
    struct sockaddr_storage storage = {0};
    struct sockaddr_in *v4 = (struct sockaddr_in *)(void *)&storage;
    v4->sin_family = AF_INET;
    v4->sin_addr.s_addr = htonl(0x0A000000 + number);
    return storage;
}

/* Sends so many packets evenly over a second from `hosts` addresses in turn; returns how many
 * passed. */
static unsigned send_second(struct rate_limit *limit, unsigned packets, size_t bytes,
                            unsigned hosts, int64_t from_ns)
{
    unsigned passed = 0;
    for (unsigned i = 0; i < packets; i++) {
        struct sockaddr_storage from = host(i % hosts);
        int64_t now_ns = from_ns + (int64_t)i * NS_PER_SECOND / packets;
        passed += rate_limit_take(limit, &from, bytes, now_ns);
    }
    return passed;
}

static void steady_senders(void **state)
{
    (void)state;
    static const struct {
        uint64_t packets_per_s, bytes_per_s;
        unsigned packets;
        size_t bytes;
        unsigned least, most; /* that pass in the first second, with the burst of 0.1 s */
    } cases[] = {
        {0, 0, 50000, 1500, 50000, 50000},           {1000, 0, 1000, 1500, 1000, 1000},
        {1000, 0, 5000, 1500, 1095, 1105},           {0, 100000, 1000, 100, 1000, 1000},
        {0, 100000, 5000, 100, 1095, 1105},          {1000, 100000, 5000, 1000, 109, 111},
        {1000000, 0, 1100000, 40, 1099900, 1100000}, {1, 0, 100, 40, 1, 2},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct rate_limit limit;
        rate_limit_set(&limit, cases[i].packets_per_s, cases[i].bytes_per_s);
        unsigned passed =
            send_second(&limit, cases[i].packets, cases[i].bytes, 1, 77 * NS_PER_SECOND);
        if (passed < cases[i].least || passed > cases[i].most)
            fail_msg("case %zu: %u passed, not %u to %u", i, passed, cases[i].least, cases[i].most);
    }
}

/* A sender within its limit loses nothing beside one that floods. */
static void senders_are_apart(void **state)
{
    (void)state;
    struct rate_limit limit;
    unsigned passed = 0;
    rate_limit_set(&limit, 1000, 0);
    for (unsigned i = 0; i < 20000; i++) {
        int64_t now_ns = NS_PER_SECOND + (int64_t)i * NS_PER_SECOND / 20000;
        struct sockaddr_storage flood = host(1), modest = host(2);
        rate_limit_take(&limit, &flood, 100, now_ns);
        if (i % 25 == 0)
            passed += rate_limit_take(&limit, &modest, 100, now_ns);
    }
    assert_int_equal(passed, 800);
}

static void forged_addresses_gain_little(void **state)
{
    (void)state;
    struct rate_limit limit;
    rate_limit_set(&limit, 1000, 0);
    unsigned passed = send_second(&limit, 200000, 100, 1000, NS_PER_SECOND);
    assert_in_range(passed, 1000, RATE_SOURCES * 1105);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(steady_senders),
        cmocka_unit_test(senders_are_apart),
        cmocka_unit_test(forged_addresses_gain_little),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
