/*
 * Pauses after wrong logins: each address has its own, all together have a bound, and the table of
 * addresses does too.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <stdbool.h>
#include <string.h>

#include "clients/web/login_pause.h"
#include "daemon/core/clock.h"

enum { START_MS = 1000000 };

static struct login_address four(uint32_t number)
{
    const uint8_t bytes[4] = {10, (uint8_t)(number >> 16), (uint8_t)(number >> 8), (uint8_t)number};
    return login_address(bytes, sizeof bytes);
}

static bool wrong(struct login_pauses *pauses, struct login_address address, int64_t at_ms)
{
    return login_pauses_wrong(pauses, &address, (START_MS + at_ms) * NS_PER_MS);
}

static void each_address_pauses_alone(void **state)
{
    (void)state;
    static const struct {
        uint32_t address;
        int64_t at_ms;
        bool counts;
    } steps[] = {
        {1, 0, true},    {1, 1, false},   {1, 199, false}, {2, 199, true}, {1, 200, true},
        {1, 399, false}, {2, 398, false}, {2, 399, true},  {3, 399, true}, {1, 400, true},
    };
    struct login_pauses pauses = {0};
    for (size_t i = 0; i < sizeof steps / sizeof *steps; i++)
        assert_int_equal(wrong(&pauses, four(steps[i].address), steps[i].at_ms), steps[i].counts);
}

/* The first 64 bits of IPv6 are one client; IPv4 inside IPv6 is that IPv4 address. */
static void addresses(void **state)
{
    (void)state;
    const uint8_t six[16] = {0x20, 1, 0xd, 0xb8, 0, 1, 0, 2, 3},
                  sibling[16] = {0x20, 1, 0xd, 0xb8, 0, 1, 0, 2, 9, [15] = 1};
    const uint8_t other[16] = {0x20, 1, 0xd, 0xb8, 0, 1, 0, 3, 3};
    const uint8_t mapped[16] = {[10] = 0xff, [11] = 0xff, 10, 0, 0, 7};
    const struct {
        struct login_address a, b;
        bool same;
    } pairs[] = {
        {login_address(six, 16), login_address(sibling, 16), true},
        {login_address(six, 16), login_address(other, 16), false},
        {login_address(mapped, 16), four(7), true},
        {login_address(mapped, 16), four(8), false},
        {login_address(NULL, 0), login_address(NULL, 0), true},
        {login_address(NULL, 0), four(0), false},
    };
    for (size_t i = 0; i < sizeof pairs / sizeof *pairs; i++)
        assert_int_equal(memcmp(&pairs[i].a, &pairs[i].b, sizeof pairs[i].a) == 0, pairs[i].same);
}

/* From ever other addresses at once, LOGIN_BURST count; they refill within LOGIN_REFILL_MS. */
static void all_have_a_bound(void **state)
{
    (void)state;
    struct login_pauses pauses = {0};
    unsigned counted = 0;
    for (uint32_t i = 0; i < 10 * LOGIN_BURST; i++)
        counted += wrong(&pauses, four(i), 0);
    assert_int_equal(counted, LOGIN_BURST);
    assert_false(wrong(&pauses, four(1000), LOGIN_REFILL_MS / LOGIN_BURST - 1));
    assert_true(wrong(&pauses, four(1000), LOGIN_REFILL_MS / LOGIN_BURST));
    assert_false(wrong(&pauses, four(1001), LOGIN_REFILL_MS / LOGIN_BURST));
    counted = 0;
    for (uint32_t i = 0; i < 10 * LOGIN_BURST; i++)
        counted += wrong(&pauses, four(2000 + i), 10 * LOGIN_REFILL_MS);
    assert_int_equal(counted, LOGIN_BURST);
}

static bool listed(const struct login_pauses *pauses, struct login_address address)
{
    bool found = false;
    for (size_t row = 0; row < LOGIN_ADDRESSES; row++)
        found |= pauses->rows[row].used &&
                 memcmp(&pauses->rows[row].address, &address, sizeof address) == 0;
    return found;
}

/* A full table forgets the address that failed longest ago, and keeps the others. */
static void a_full_table_keeps_the_latest(void **state)
{
    (void)state;
    struct login_pauses pauses = {0};
    const int64_t step_ms = LOGIN_REFILL_MS / LOGIN_BURST;
    for (uint32_t i = 0; i < LOGIN_ADDRESSES; i++)
        assert_true(wrong(&pauses, four(i), i * step_ms));
    assert_true(wrong(&pauses, four(0), LOGIN_ADDRESSES * step_ms)); /* 1 is the oldest now */
    assert_true(wrong(&pauses, four(LOGIN_ADDRESSES), (LOGIN_ADDRESSES + 1) * step_ms));
    for (uint32_t i = 0; i <= LOGIN_ADDRESSES; i++)
        assert_int_equal(listed(&pauses, four(i)), i != 1);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(each_address_pauses_alone),
        cmocka_unit_test(addresses),
        cmocka_unit_test(all_have_a_bound),
        cmocka_unit_test(a_full_table_keeps_the_latest),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
