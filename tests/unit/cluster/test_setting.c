/*
 * Settings in a log: what is written is read again, damaged or not bytes are refused, and a log
 * that has all frames which depend on a change needs what comes after it alone.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <cmocka.h>

#include "cluster/setting.h"
#include "core/random.h"

enum { BYTES = 1 << 16 };

static struct setting_change made(uint64_t seed, uint32_t outputs)
{
    struct random_state random = {seed};
    struct setting_change c = {.how = SETTING_FADE,
                               .fade_frames = 200,
                               .epoch = 3,
                               .frame = 1000,
                               .until = 1300,
                               .since = 77};
    memcpy(c.before.filter, "band", 5);
    c.before.outputs = c.after.outputs = outputs;
    for (uint32_t o = 0; o < outputs; o++) {
        c.before.gain[o] = 1;
        c.after.gain[o] = (float)(random_below(&random, 3)) / 3;
        c.after.muted[o] = random_below(&random, 2) == 0;
    }
    return c;
}

static void test_what_is_written_is_read(void **state)
{
    (void)state;
    static uint8_t bytes[BYTES];
    static struct setting_change got;
    for (uint32_t outputs = 0; outputs <= SETTING_OUTPUTS_MAX; outputs += outputs < 4 ? 1 : 60) {
        struct setting_change c = made(1 + outputs, outputs);
        const size_t count = setting_bytes(&c);
        assert_true(count < sizeof bytes);
        setting_write(&c, bytes);
        assert_true(setting_read(bytes, count, &got));
        assert_true(got.how == c.how && got.fade_frames == 200 && got.epoch == 3);
        assert_true(got.frame == 1000 && got.until == 1300 && got.since == 77);
        assert_true(setting_equal(&got.before, &c.before) && setting_equal(&got.after, &c.after));
    }
    assert_true(setting_bytes(&(struct setting_change){.after.outputs = 0}) < 64);
}

static void test_outputs_alike_cost_one_run(void **state)
{
    (void)state;
    static struct setting_change all, one;
    all = made(1, 0);
    all.after.outputs = 1000;
    for (int o = 0; o < 1000; o++)
        all.after.gain[o] = 0.5F;
    one = all;
    one.after.outputs = 1;
    assert_int_equal(setting_bytes(&all), setting_bytes(&one));
}

/* Cut anywhere, with any byte changed: refused, or a change whose numbers hold. */
static void test_other_bytes_are_refused_or_hold(void **state)
{
    (void)state;
    static uint8_t bytes[BYTES];
    static struct setting_change c, got;
    c = made(7, 12);
    const size_t count = setting_bytes(&c);
    setting_write(&c, bytes);
    for (size_t cut = 0; cut < count; cut++)
        assert_false(setting_read(bytes, cut, &got));
    for (size_t at = 0; at < count; at++)
        for (int value = 0; value < 256; value++) {
            const uint8_t was = bytes[at];
            bytes[at] = (uint8_t)value;
            if (setting_read(bytes, count, &got))
                assert_true(got.how <= SETTING_CLEAR && got.frame <= got.until &&
                            got.after.outputs <= SETTING_OUTPUTS_MAX);
            bytes[at] = was;
        }
    bytes[count] = 0;
    assert_false(setting_read(bytes, count + 1, &got));
}

static void test_where_a_change_is_past(void **state)
{
    (void)state;
    const struct setting_change c = {.epoch = 3, .frame = 1000, .until = 1300};
    assert_false(setting_past(&c, 2, 5000));
    assert_false(setting_past(&c, 3, 0));
    assert_false(setting_past(&c, 3, 1299));
    assert_true(setting_past(&c, 3, 1300));
    assert_true(setting_past(&c, 4, 0));
}

static void test_configured_and_equal(void **state)
{
    (void)state;
    static struct setting a, b;
    b.outputs = 3;
    b.gain[0] = b.gain[1] = b.gain[2] = 1;
    assert_true(setting_configured(&a) && setting_configured(&b) && setting_equal(&a, &b));
    b.muted[2] = true;
    assert_false(setting_configured(&b) || setting_equal(&a, &b));
    b.muted[2] = false;
    b.filter[0] = 'g';
    assert_false(setting_configured(&b) || setting_equal(&a, &b));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_what_is_written_is_read),
        cmocka_unit_test(test_outputs_alike_cost_one_run),
        cmocka_unit_test(test_other_bytes_are_refused_or_hold),
        cmocka_unit_test(test_where_a_change_is_past),
        cmocka_unit_test(test_configured_and_equal),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
