/*
 * Extracts of samples: every format and number of channels against the definition (decode each
 * sample, compare), odd strides and addresses included, and what is no number.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include "core/random.h"
#include "signal/extract.h"

enum { FRAMES = 37, CHANNELS_MAX = 300, PADDING = 3 };

static const char *const formats[] = {"u8",    "s8",    "s16le", "s16be", "u16le", "s24le",
                                      "s24be", "s32le", "s32be", "f32le", "f32be"};

static uint8_t memory[FRAMES * (CHANNELS_MAX * 4 + PADDING) + 8];

static void fill(struct extract *from, const char *name, uint32_t channels, uint64_t seed)
{
    struct random_state random;
    random.state = seed;
    assert_int_equal(sample_format_parse(name, &from->format), 0);
    from->channels = channels;
    from->stride = (size_t)channels * from->format.bytes + PADDING;
    from->bytes = memory + 1; /* aligned to nothing */
    for (size_t i = 0; i < sizeof memory; i++)
        memory[i] = (uint8_t)random_u64(&random);
    for (size_t n = 0; from->format.kind == SAMPLE_FLOAT && n < FRAMES; n++)
        for (uint32_t c = 0; c < channels; c++)
            sample_encode(&from->format, random_unit(&random) * 2 - 1,
                          memory + 1 + n * from->stride + 4 * c);
}

static float value_of(const struct extract *from, size_t frame, uint32_t channel)
{
    const double value = sample_decode(&from->format, from->bytes + frame * from->stride +
                                                          (size_t)channel * from->format.bytes);
    return isfinite(value) ? (float)value : 0;
}

static void minmax_of_every_format(void **state)
{
    static const uint32_t channels[] = {1, 2, 4, 7, 8, 9, 16, 17, 32, 45, 64, 65, 300};
    static float low[CHANNELS_MAX], high[CHANNELS_MAX];
    (void)state;
    for (size_t f = 0; f < sizeof formats / sizeof *formats; f++) {
        for (size_t k = 0; k < sizeof channels / sizeof *channels; k++) {
            struct extract from;
            fill(&from, formats[f], channels[k], f * 100 + k);
            for (uint32_t c = 0; c < channels[k]; c++)
                low[c] = INFINITY, high[c] = -INFINITY;
            /* In two parts: what the first has found stays. */
            extract_minmax(&from, 5, low, high);
            from.bytes += 5 * from.stride;
            extract_minmax(&from, FRAMES - 5, low, high);
            extract_minmax(&from, 0, low, high);
            from.bytes -= 5 * from.stride;
            for (uint32_t c = 0; c < channels[k]; c++) {
                float least = INFINITY, greatest = -INFINITY;
                for (size_t n = 0; n < FRAMES; n++) {
                    least = fminf(least, value_of(&from, n, c));
                    greatest = fmaxf(greatest, value_of(&from, n, c));
                }
                if (low[c] != least || high[c] != greatest)
                    fail_msg("%s, channel %u of %u: %g … %g, not %g … %g", formats[f], c,
                             channels[k], (double)low[c], (double)high[c], (double)least,
                             (double)greatest);
            }
        }
    }
}

/* Frames that end where memory ends: nothing behind them is read. */
static void nothing_behind_the_last_frame(void **state)
{
    enum { ROOM = 1 << 16 };
    (void)state;
    uint8_t *room =
        mmap(NULL, 2 * ROOM, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    assert_true(room != MAP_FAILED);
    assert_int_equal(mprotect(room + ROOM, ROOM, PROT_NONE), 0);
    for (size_t f = 0; f < sizeof formats / sizeof *formats; f++) {
        for (uint32_t channels = 1; channels <= 40; channels++) {
            float low[40], high[40];
            struct extract from = {.channels = channels};
            assert_int_equal(sample_format_parse(formats[f], &from.format), 0);
            from.stride = (size_t)channels * from.format.bytes;
            from.bytes = room + ROOM - 3 * from.stride;
            for (uint32_t c = 0; c < channels; c++)
                low[c] = INFINITY, high[c] = -INFINITY;
            extract_minmax(&from, 3, low, high);
            assert_true(low[channels - 1] == high[channels - 1]);
        }
    }
    munmap(room, 2 * ROOM);
}

static void channels_of_every_format(void **state)
{
    static const uint16_t list[] = {8, 0, 3, 3};
    float out[FRAMES * 4];
    (void)state;
    for (size_t f = 0; f < sizeof formats / sizeof *formats; f++) {
        struct extract from;
        fill(&from, formats[f], 9, f);
        extract_channels(&from, FRAMES, list, 4, out);
        for (size_t n = 0; n < FRAMES; n++)
            for (size_t i = 0; i < 4; i++)
                assert_true(out[4 * n + i] == value_of(&from, n, list[i]));
    }
}

/* NaN and infinities are not seen: the kernels take them as 0 too. */
static void no_numbers(void **state)
{
    float samples[6][5], low[5], high[5], out[6];
    static const uint16_t first[] = {0};
    (void)state;
    for (int c = 0; c < 5; c++) {
        low[c] = INFINITY, high[c] = -INFINITY;
        for (int n = 0; n < 6; n++)
            samples[n][c] = n % 2 == 0 ? NAN : 0.25f * (float)n;
    }
    const struct extract from = {.format = {SAMPLE_FLOAT, 4, 32, false, false},
                                 .bytes = (const uint8_t *)samples,
                                 .stride = sizeof samples[0],
                                 .channels = 5};
    extract_minmax(&from, 6, low, high);
    for (int c = 0; c < 5; c++) {
        assert_true(low[c] >= 0 && low[c] <= 0.25f); /* as 0, or not at all */
        assert_true(high[c] == 1.25f);
    }
    extract_channels(&from, 6, first, 1, out);
    assert_true(out[0] == 0 && out[1] == 0.25f);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(minmax_of_every_format),
        cmocka_unit_test(nothing_behind_the_last_frame),
        cmocka_unit_test(channels_of_every_format),
        cmocka_unit_test(no_numbers),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
