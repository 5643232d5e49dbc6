/*
 * Wisdom: what is put is found again, by this device with these kernels and by no other; a
 * damaged file costs nothing but the wisdom.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cmocka.h>

#include "convolve/plan/wisdom.h"
#include "core/log.h"
#include "device/spill.h"
#include "tests/support/scratch.h"

static const struct device_info device = {
    .name = "a device", .platform = "P", .driver = "1.0", .version = "OpenCL 1.2"};

static struct wisdom *opened(const char *kernels_dir, const struct device_info *info)
{
    struct wisdom *wisdom = NULL;
    assert_int_equal(wisdom_open(scratch_folder(), kernels_dir, info, &wisdom, NULL), 0);
    assert_non_null(wisdom);
    return wisdom;
}

static const struct candidate measured[] = {
    {.variant = "slow",
     .hop = 64,
     .fft = 256,
     .partitions = 1,
     .measured = true,
     .one_us = 20.5,
     .each_us = 10.25,
     .error = 1e-7,
     .spilled_bytes = 24,
     .reason = "2.00 times"},
    {.variant = "fast",
     .hop = 128,
     .fft = 512,
     .partitions = 3,
     .items = 64,
     .vector = 8,
     .rows = 2,
     .measured = true,
     .one_us = 5,
     .each_us = 2.5,
     .error = 2e-7},
    {.variant = "odd",
     .hop = 64,
     .fft = 128,
     .spilled_bytes = SPILL_UNKNOWN,
     .reason = "it \"cannot\""},
};

static void put_and_found(void **state)
{
    (void)state;
    struct wisdom *wisdom = opened(NULL, &device);
    assert_null(wisdom_find(wisdom, "shape"));
    assert_int_equal(wisdom_put(wisdom, "shape", measured, 3, 1, NULL), 0);
    assert_int_equal(wisdom_put(wisdom, "other", measured, 1, 0, NULL), 0);
    wisdom_close(wisdom);

    wisdom = opened(NULL, &device);
    const struct wisdom_entry *entry = wisdom_find(wisdom, "shape");
    assert_non_null(entry);
    assert_int_equal(entry->count, 3);
    assert_int_equal(entry->chosen, 1);
    for (int i = 0; i < 3; i++) {
        const struct candidate *got = &entry->candidates[i], *want = &measured[i];
        assert_string_equal(got->variant, want->variant);
        assert_string_equal(got->reason, want->reason);
        assert_int_equal(got->hop, want->hop);
        assert_int_equal(got->fft, want->fft);
        assert_int_equal(got->partitions, want->partitions);
        assert_int_equal(got->items, want->items);
        assert_int_equal(got->vector, want->vector);
        assert_int_equal(got->rows, want->rows);
        assert_int_equal(got->measured, want->measured);
        assert_true(got->one_us == want->one_us && got->each_us == want->each_us);
        assert_int_equal(got->spilled_bytes, want->spilled_bytes);
    }
    assert_int_equal(strlen(entry->date), 20);
    /* A newer measurement takes the place of the older. */
    assert_int_equal(wisdom_put(wisdom, "shape", measured, 1, 0, NULL), 0);
    wisdom_close(wisdom);
    wisdom = opened(NULL, &device);
    assert_int_equal(wisdom_find(wisdom, "shape")->count, 1);
    assert_non_null(wisdom_find(wisdom, "other"));
    wisdom_close(wisdom);
}

static void strangers(void **state)
{
    (void)state;
    struct wisdom *wisdom = opened(NULL, &device);
    assert_int_equal(wisdom_put(wisdom, "shape", measured, 2, 1, NULL), 0);
    wisdom_close(wisdom);

    struct device_info others[4];
    for (int i = 0; i < 4; i++)
        others[i] = device;
    snprintf(others[0].name, sizeof others[0].name, "another");
    snprintf(others[1].driver, sizeof others[1].driver, "1.1");
    snprintf(others[2].version, sizeof others[2].version, "OpenCL 3.0");
    snprintf(others[3].platform, sizeof others[3].platform, "Q");
    for (int i = 0; i < 4; i++) {
        wisdom = opened(NULL, &others[i]);
        assert_null(wisdom_find(wisdom, "shape"));
        /* What a stranger measures stands beside it. */
        assert_int_equal(wisdom_put(wisdom, "shape", measured, 1, 0, NULL), 0);
        wisdom_close(wisdom);
    }
    /* Other kernels: one file of a directory wins over the embedded one. */
    const char *kernels = scratch_make("kernels");
    scratch_write("kernels/local.cl", "/* another */\n");
    wisdom = opened(kernels, &device);
    assert_null(wisdom_find(wisdom, "shape"));
    wisdom_close(wisdom);

    wisdom = opened(NULL, &device);
    assert_non_null(wisdom_find(wisdom, "shape"));
    assert_int_equal(wisdom_find(wisdom, "shape")->count, 2);
    wisdom_close(wisdom);
}

static void damage(void **state)
{
    (void)state;
    char text[8192];
    struct wisdom *wisdom = opened(NULL, &device);
    assert_int_equal(wisdom_put(wisdom, "shape", measured, 3, 1, NULL), 0);
    wisdom_close(wisdom);
    FILE *file = fopen(scratch_path("wisdom.json"), "r");
    assert_non_null(file);
    const size_t bytes = fread(text, 1, sizeof text - 1, file);
    text[bytes] = '\0';
    fclose(file);

    /* Cut short, of another format, of other types, with a choice that is not there. */
    char chosen[sizeof text];
    snprintf(chosen, sizeof chosen, "%s", text);
    char *place = strstr(chosen, "\"chosen\": ");
    assert_non_null(place);
    place[10] = '7';
    char half[sizeof text];
    snprintf(half, sizeof half, "%.*s", (int)(bytes / 2), text);
    const char *const broken[] = {half,
                                  "",
                                  "{\"format\": 2, \"entries\": []}",
                                  "[1, 2]",
                                  "{\"format\": 1, \"entries\": [1, {\"shape\": 2}]}",
                                  chosen};
    for (size_t i = 0; i < sizeof broken / sizeof broken[0]; i++) {
        scratch_write("wisdom.json", broken[i]);
        wisdom = opened(NULL, &device);
        assert_null(wisdom_find(wisdom, "shape"));
        assert_int_equal(wisdom_put(wisdom, "shape", measured, 3, 1, NULL), 0);
        wisdom_close(wisdom);
        wisdom = opened(NULL, &device);
        assert_non_null(wisdom_find(wisdom, "shape"));
        wisdom_close(wisdom);
    }
}

/* An earlier version wrote nothing of spilled registers; nor does it stumble over them. */
static void spills_of_other_versions(void **state)
{
    (void)state;
    char text[8192];
    static const struct {
        const char *written;
        int32_t want;
    } cases[] = {
        {"\"spilled\": 24", SPILL_UNKNOWN},
        {"\"spilled bytes\": -2", SPILL_UNKNOWN},
        {"\"spilled bytes\": \"24\"", SPILL_UNKNOWN},
        {"\"spilled bytes\": 1e1", SPILL_UNKNOWN},
        {"\"spilled bytes\": 9999999999", SPILL_UNKNOWN},
        {"\"spilled bytes\": 20", 20},
    };
    struct wisdom *wisdom = opened(NULL, &device);
    assert_int_equal(wisdom_put(wisdom, "shape", measured, 1, 0, NULL), 0);
    wisdom_close(wisdom);
    FILE *file = fopen(scratch_path("wisdom.json"), "r");
    assert_non_null(file);
    text[fread(text, 1, sizeof text - 1, file)] = '\0';
    fclose(file);
    static const char written[] = "\"spilled bytes\": 24";
    const char *place = strstr(text, written);
    assert_non_null(place);
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        char other[sizeof text + 64];
        snprintf(other, sizeof other, "%.*s%s%s", (int)(place - text), text, cases[i].written,
                 place + strlen(written));
        scratch_write("wisdom.json", other);
        wisdom = opened(NULL, &device);
        const struct wisdom_entry *entry = wisdom_find(wisdom, "shape");
        assert_non_null(entry);
        assert_int_equal(entry->candidates[0].spilled_bytes, cases[i].want);
        wisdom_close(wisdom);
    }
}

static void no_place(void **state)
{
    (void)state;
    struct wisdom *wisdom = NULL;
    struct problem problem = {0};
    assert_int_equal(wisdom_open("/nonexistent", NULL, &device, &wisdom, NULL), 0);
    assert_int_equal(wisdom_put(wisdom, "shape", measured, 2, 1, &problem), ERROR_NO_FILE);
    assert_non_null(strstr(problem.text, "/nonexistent/wisdom.json"));
    assert_non_null(strstr(problem.text, "`cache`"));
    assert_non_null(wisdom_find(wisdom, "shape")); /* for this run */
    wisdom_close(wisdom);

    assert_int_equal(wisdom_open(NULL, NULL, &device, &wisdom, NULL), 0);
    assert_int_equal(wisdom_put(wisdom, "shape", measured, 2, 1, &problem), 0);
    wisdom_close(wisdom);
}

static int fresh(void **state)
{
    (void)state;
    scratch_clear();
    return 0;
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup(put_and_found, fresh),
        cmocka_unit_test_setup(strangers, fresh),
        cmocka_unit_test_setup(damage, fresh),
        cmocka_unit_test_setup(spills_of_other_versions, fresh),
        cmocka_unit_test_setup(no_place, fresh),
    };
    log_set_level(LOG_LEVEL_ERROR);
    return cmocka_run_group_tests(tests, NULL, NULL);
}
