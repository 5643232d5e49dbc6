/*
 * What the engine takes from a device: shapes of kernels, local memory, the default depth of its
 * queue, by rows of {what OpenCL says, what follows}.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "device/traits.h"

static void traits_follow_from_the_device(void **state)
{
    (void)state;
    static const struct {
        struct device_info info;
        struct device_traits expect;
    } rows[] = {
        {{.gpu = true, .vector_floats = 1, .local_bytes = 48 << 10, .compute_units = 132},
         {.lanes = 1,
          .items = 128,
          .vector = 4,
          .local_budget_bytes = (48 << 10) - 128 * 32 - 1024,
          .depth = 3,
          .depth_short = 6,
          .polled = true}},
        {{.vector_floats = 16,
          .local_bytes = 1 << 20,
          .compute_units = 6,
          .platform = "Portable Computing Language"},
         {.lanes = 16,
          .items = 1,
          .vector = 16,
          .threads = 6,
          .widest_first = true,
          .local_budget_bytes = (1 << 20) - 32 - 1024,
          .depth = 2,
          .depth_short = 2}},
        {{.vector_floats = 8, .local_bytes = 1 << 20},
         {.lanes = 16,
          .items = 1,
          .vector = 8,
          .local_budget_bytes = (1 << 20) - 32 - 1024,
          .depth = 2,
          .depth_short = 2}},
        {{.vector_floats = 2, .local_bytes = 100, .compute_units = 6, .platform = "Oclgrind"},
         {.lanes = 16,
          .items = 1,
          .vector = 4,
          .local_budget_bytes = 0,
          .depth = 2,
          .depth_short = 2}},
    };
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        const struct device_traits got = device_traits_of(&rows[i].info);
        assert_int_equal(got.lanes, rows[i].expect.lanes);
        assert_int_equal(got.items, rows[i].expect.items);
        assert_int_equal(got.vector, rows[i].expect.vector);
        assert_int_equal(got.threads, rows[i].expect.threads);
        assert_int_equal(got.local_budget_bytes, rows[i].expect.local_budget_bytes);
        assert_int_equal(got.depth, rows[i].expect.depth);
        assert_int_equal(got.depth_short, rows[i].expect.depth_short);
        assert_int_equal(got.polled, rows[i].expect.polled);
        assert_int_equal(got.widest_first, rows[i].expect.widest_first);
    }
}

/* PoCL after 3.1 is offered no long transform that two work-groups share; other drivers are. */
static void long_splits(void **state)
{
    (void)state;
    static const struct {
        struct device_info info;
        uint32_t expect;
    } rows[] = {
        {{.platform = "Portable Computing Language", .driver = "3.1+debian"}, UINT32_MAX},
        {{.platform = "Portable Computing Language", .driver = "6.0+debian"}, 1024},
        {{.platform = "Portable Computing Language", .driver = "10.1"}, 1024},
        {{.platform = "NVIDIA CUDA", .driver = "580.159.04", .gpu = true}, UINT32_MAX},
        {{.platform = "Oclgrind", .driver = "21.10"}, UINT32_MAX},
    };
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++)
        assert_int_equal(device_traits_of(&rows[i].info).split_points_most, rows[i].expect);
}

/* The manual says the default that the engine takes. */
static void depth_in_words(void **state)
{
    (void)state;
    assert_string_equal(DEVICE_DEPTH_WORDS, "2 on a CPU, 3 on a GPU, up to 6 short ones there");
    assert_int_equal(device_traits_of(&(struct device_info){.gpu = true}).depth, DEVICE_DEPTH_GPU);
    assert_int_equal(device_traits_of(&(struct device_info){.gpu = true}).depth_short,
                     DEVICE_DEPTH_GPU_SHORT);
    assert_int_equal(device_traits_of(&(struct device_info){0}).depth, DEVICE_DEPTH_CPU);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(traits_follow_from_the_device),
        cmocka_unit_test(depth_in_words),
        cmocka_unit_test(long_splits),
    };
    return cmocka_run_group_tests_name("traits", tests, NULL, NULL);
}
