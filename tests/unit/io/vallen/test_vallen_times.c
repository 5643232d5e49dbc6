/*
 * Times of Vallen files, what their codes are worth, and transients as they hold them, against the
 * definitions.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <math.h>
#include <string.h>

#include "core/clock.h"
#include "core/random.h"
#include "io/vallen/schema.h"
#include "io/vallen/times.h"
#include "io/vallen/transient.h"

static void test_rescale_rounds_to_even(void **state)
{
    (void)state;
    static const struct {
        int64_t count, to, from, expect;
    } table[] = {
        {1, 10000000, 500000, 20},
        {3, 1, 2, 2}, /* 1.5 */
        {5, 1, 2, 2}, /* 2.5 */
        {-3, 1, 2, -2},
        {-5, 1, 2, -2},
        {7, 1, 4, 2},
        {-7, 1, 4, -2},
        {1, 10000000, 3000000, 3}, /* 3.33 */
        {INT64_MAX, 2, 1, INT64_MAX},
        {INT64_MIN, 2, 1, INT64_MIN},
        {INT64_MAX, 10000000, 10000000, INT64_MAX},
    };
    for (size_t i = 0; i < sizeof table / sizeof table[0]; i++)
        assert_int_equal(vallen_rescale(table[i].count, table[i].to, table[i].from),
                         table[i].expect);
}

/* Within an epoch times are those of the sample clock alone. */
static void test_frames_of_an_epoch(void **state)
{
    (void)state;
    struct vallen_times times;
    const int64_t begin_ns = 1700000000 * NS_PER_SECOND + 250000000;
    vallen_times_open(&times, 500000);
    vallen_times_anchor(&times, 3, 1000, begin_ns);
    assert_int_equal(times.origin_ns, 1700000000 * NS_PER_SECOND);
    assert_int_equal(vallen_times_at(&times, 1000), 2500000);
    vallen_times_anchor(&times, 3, 1001, begin_ns + 7777); /* the wall clock jitters */
    assert_int_equal(vallen_times_at(&times, 1001), 2500020);
    assert_int_equal(vallen_times_at(&times, 51000), 2500000 + 1000000);
    assert_int_equal(times.moved, 0);
    /* The next epoch is tied to the wall clock again, to the tick. */
    vallen_times_anchor(&times, 4, 0, begin_ns + 3 * NS_PER_SECOND + 149);
    assert_int_equal(vallen_times_at(&times, 0), 2500000 + 30000000 + 1);
}

/* Whatever epochs, frames and clocks do, no time is before the one given last. */
static void test_time_never_falls(void **state)
{
    (void)state;
    struct random_state random = {7};
    for (int run = 0; run < 200; run++) {
        struct vallen_times times;
        int64_t last = 0, now_ns = 1700000000 * NS_PER_SECOND;
        vallen_times_open(&times, 1 + (int64_t)random_below(&random, 20000000));
        for (int i = 0; i < 200; i++) {
            now_ns += (int64_t)random_below(&random, 2000000000) - 500000000;
            vallen_times_anchor(&times, random_below(&random, 3), random_u64(&random) >> 20,
                                now_ns);
            const int64_t ticks = random_below(&random, 8) == 0
                                      ? vallen_times_wall(&times, now_ns)
                                      : vallen_times_at(&times, random_u64(&random) >> 20);
            assert_true(ticks >= last);
            last = ticks;
        }
    }
}

static void test_epoch_moved_behind(void **state)
{
    (void)state;
    struct vallen_times times;
    const int64_t begin_ns = 1700000000 * NS_PER_SECOND;
    vallen_times_open(&times, 1000000);
    vallen_times_anchor(&times, 0, 0, begin_ns);
    assert_int_equal(vallen_times_at(&times, 2000000), 20000000);
    vallen_times_anchor(&times, 1, 0, begin_ns + NS_PER_SECOND); /* the clock was set back */
    assert_int_equal(times.moved, 1);
    assert_int_equal(vallen_times_at(&times, 0), 20000000);
    assert_int_equal(vallen_times_at(&times, 5), 20000050);
}

/* ---- scales ------------------------------------------------------------------------------ */

/* The table of a real instrument: a recording of a bearing, AMSY-6. */
static void test_scale_of_an_instrument(void **state)
{
    (void)state;
    const struct vallen_scale scale = vallen_scale_of(0.0030445284210145473e-3 * 32768);
    assert_float_equal(scale.tr_mv, 0.0030445284210145473, 1e-17);
    assert_float_equal(scale.adc_uv, 1.5222642421722412, 1e-7);
    assert_float_equal(scale.adc_te, 9.269153691984911e-05, 1e-11);
    assert_float_equal(scale.adc_ss, 0.0003044528484344482, 1e-10);
}

/* Whoever reads TR_mV / 1000 has the step that the codes were made with, to the bit. */
static void test_scale_is_read_exactly(void **state)
{
    (void)state;
    struct random_state random = {11};
    int exact = 0;
    for (int i = 0; i < 10000; i++) {
        const double full_scale = exp(random_unit(&random) * 20 - 15);
        const struct vallen_scale scale = vallen_scale_of(full_scale);
        assert_true(scale.step_v == scale.tr_mv / 1000.0);
        exact += scale.step_v == full_scale / 32768;
    }
    assert_true(exact > 9000); /* some values are no double divided by 1000 */
}

/* ---- transients -------------------------------------------------------------------------- */

static void test_codes_round_to_even_and_clip(void **state)
{
    (void)state;
    static const struct {
        float sample;
        int16_t code;
        bool clipped;
    } table[] = {
        {0.5f, 0, false},        {1.5f, 2, false},           {2.5f, 2, false},
        {-0.5f, 0, false},       {-1.5f, -2, false},         {32767, 32767, false},
        {-32768, -32768, false}, {32767.4f, 32767, false},   {32767.5f, 32767, true},
        {40000, 32767, true},    {-32768.5f, -32768, false}, {-1e30f, -32768, true},
        {NAN, 0, true},          {INFINITY, 32767, true},    {1e-30f, 0, false},
    };
    for (size_t i = 0; i < sizeof table / sizeof table[0]; i++) {
        int16_t code = 99;
        assert_int_equal(vallen_quantise(&table[i].sample, 1, 1.0, &code), table[i].clipped);
        assert_int_equal(code, table[i].code);
    }
}

static void test_flac_gives_back_every_code(void **state)
{
    (void)state;
    struct random_state random = {5};
    struct vallen_blob blob = {0};
    static int16_t codes[9000], back[9000];
    const size_t lengths[] = {1, 2, 15, 16, 1000, 4096, 4097, 9000};
    for (size_t l = 0; l < sizeof lengths / sizeof lengths[0]; l++) {
        for (size_t i = 0; i < lengths[l]; i++)
            codes[i] = (int16_t)random_u64(&random);
        assert_int_equal(vallen_flac_encode(codes, lengths[l], &blob), 0);
        assert_memory_equal(blob.bytes, "fLaC", 4);
        memset(back, 0x55, sizeof back);
        assert_int_equal(vallen_decode(VALLEN_FLAC, blob.bytes, blob.count, lengths[l], back), 0);
        assert_memory_equal(back, codes, lengths[l] * sizeof codes[0]);
    }
    vallen_blob_free(&blob);
}

/* A record that is not what it says is refused, never read past its end. */
static void test_decoding_refuses(void **state)
{
    (void)state;
    int16_t codes[64] = {0};
    struct vallen_blob blob = {0};
    const uint8_t wav[] = "RIFF\x24\0\0\0WAVEfmt ";
    assert_int_equal(vallen_flac_encode(codes, 64, &blob), 0);
    assert_int_equal(vallen_decode(VALLEN_FLAC, blob.bytes, blob.count, 63, codes), ERROR_FORMAT);
    assert_int_equal(vallen_decode(VALLEN_FLAC, blob.bytes, blob.count / 2, 64, codes),
                     ERROR_FORMAT);
    assert_int_equal(vallen_decode(VALLEN_FLAC, wav, sizeof wav, 4, codes), ERROR_FORMAT);
    assert_int_equal(vallen_decode(VALLEN_FLAC, NULL, 0, 0, codes), ERROR_FORMAT);
    assert_int_equal(vallen_decode(VALLEN_RAW, blob.bytes, 9, 4, codes), ERROR_FORMAT);
    assert_int_equal(vallen_decode(VALLEN_RAW, blob.bytes, 8, 4, codes), 0);
    assert_int_equal(vallen_decode(1, blob.bytes, 8, 4, codes), ERROR_FORMAT);
    vallen_blob_free(&blob);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_rescale_rounds_to_even),
        cmocka_unit_test(test_frames_of_an_epoch),
        cmocka_unit_test(test_time_never_falls),
        cmocka_unit_test(test_epoch_moved_behind),
        cmocka_unit_test(test_scale_of_an_instrument),
        cmocka_unit_test(test_scale_is_read_exactly),
        cmocka_unit_test(test_codes_round_to_even_and_clip),
        cmocka_unit_test(test_flac_gives_back_every_code),
        cmocka_unit_test(test_decoding_refuses),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
