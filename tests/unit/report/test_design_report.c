/*
 * The report of --design: what it says, and that the files it writes hold the filter's taps to the
 * last bit.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "tests/support/scratch.h"
#include "report/design.h"

static const char config_text[] = "[stream ae]\n"
                                  "source = generator\n"
                                  "rate = 500 kHz\n"
                                  "channels = 2\n"
                                  "format = s16le\n"
                                  "full scale = 10 V, 1 V\n"
                                  "filter = bp\n"
                                  "[stream slow]\n"
                                  "source = generator\n"
                                  "rate = 400 kHz\n"
                                  "channels = 1\n"
                                  "format = f32le\n"
                                  "filter = bp\n"
                                  "[filter bp]\n"
                                  "type = bandpass\n"
                                  "low = 95 kHz\n"
                                  "high = 150 kHz\n"
                                  "transition = 10 kHz\n"
                                  "attenuation = 80 dB\n"
                                  "analytic = yes\n"
                                  "[filter spare]\n"
                                  "type = golay\n"
                                  "order = 4\n"
                                  "carrier = 100 kHz\n"
                                  "cycles per chip = 2\n";

static struct config *load(void)
{
    struct config *config;
    struct config_errors errors = {0};
    if (config_load_text("test.conf", config_text, strlen(config_text), NULL, &config, &errors) !=
        0) {
        config_errors_print(&errors, stderr);
        fail_msg("the test's own configuration does not load");
    }
    config_errors_free(&errors);
    return config;
}

/* The report as one string; free it. */
static char *report(const struct config *config, const char *name, const char *out_path, int expect,
                    struct problem *problem)
{
    FILE *out = tmpfile();
    assert_non_null(out);
    int status = design_report_config(config, name, out_path, out, problem);
    if (status != expect)
        fail_msg("status %d instead of %d: %s", status, expect, problem->text);
    long bytes = ftell(out);
    char *text = calloc(1, (size_t)bytes + 1);
    assert_non_null(text);
    rewind(out);
    assert_int_equal(fread(text, 1, (size_t)bytes, out), bytes);
    fclose(out);
    return text;
}

static void test_words(void **state)
{
    (void)state;
    struct config *config = load();
    /* clang-format off */
    static const struct {
        const char *filter;
        const char *words[12];
    } table[] = {
        {"bp",
         {"bandpass, kaiser", "ae, 500 kHz", "complex", "known by construction",
          "95 kHz at -6.02 dB (asked 95 kHz: -6.02 dB there)", "150 kHz at -6.02 dB",
          "attenuation 8", "image rejection", "noise gain", "noise floor",
          "1 LSB = 0.0003052 V", "1 LSB = 3.052e-05 V"}},
        {"bp", {"slow, 400 kHz", "f32le has no fixed step"}},
        {"spare", {"none uses it", "mainlobe", "sidelobe", "a and b added", "over 2"}},
    };
    /* clang-format on */
    for (size_t i = 0; i < sizeof table / sizeof table[0]; i++) {
        struct problem problem = {0};
        char *text = report(config, table[i].filter, NULL, 0, &problem);
        for (int w = 0; w < 12 && table[i].words[w] != NULL; w++)
            if (strstr(text, table[i].words[w]) == NULL)
                fail_msg("'%s' is missing from\n%s", table[i].words[w], text);
        free(text);
    }
    config_free(config);
}

/* The printed report, the text file and the .npy file read back as the same taps. */
static void test_files_hold_the_taps(void **state)
{
    (void)state;
    struct config *config = load();
    struct taps **expect;
    uint32_t count;
    struct problem problem = {0};
    int filter = config_find_filter(config, "bp");
    assert_int_equal(
        filter_make(&config->filters[filter].spec, 500e3, &expect, &count, NULL, &problem), 0);
    static const char *const names[] = {"taps.txt", "taps.npy", NULL};
    for (int i = 0; i < 3; i++) {
        const char *path = names[i] != NULL ? scratch_path(names[i]) : "report";
        char *text = report(config, "bp", names[i] != NULL ? path : NULL, 0, &problem);
        struct taps **sets;
        int status;
        if (names[i] != NULL) {
            assert_non_null(strstr(text, path));
            status = taps_load(path, &sets, &count, &problem);
        } else { /* of the two streams' reports only the first lists its taps */
            status = taps_load_memory(path, text, strlen(text), &sets, &count, &problem);
        }
        if (status != 0)
            fail_msg("%s: %s", path, problem.text);
        assert_int_equal(sets[0]->count, expect[0]->count);
        assert_memory_equal(sets[0]->re, expect[0]->re, expect[0]->count * sizeof(double));
        assert_memory_equal(sets[0]->im, expect[0]->im, expect[0]->count * sizeof(double));
        taps_sets_free(sets, count);
        free(text);
    }
    taps_sets_free(expect, 1);
    config_free(config);
}

static void test_several_sets(void **state)
{
    (void)state;
    struct taps *sets[2], **back;
    uint32_t count;
    struct problem problem = {0};
    for (int i = 0; i < 2; i++) {
        assert_int_equal(taps_create(3, false, &sets[i], NULL), 0);
        for (int n = 0; n < 3; n++)
            sets[i]->re[n] = 10 * i + n + 0.1;
    }
    const char *path = scratch_path("two.npy");
    assert_int_equal(taps_write(path, sets, 2, NULL, &problem), 0);
    assert_int_equal(taps_load(path, &back, &count, &problem), 0);
    assert_int_equal(count, 2);
    assert_true(back[1]->re[2] == 12.1 && back[0]->re[1] == 1.1);
    taps_sets_free(back, count);
    assert_int_equal(taps_write(scratch_path("two.txt"), sets, 2, NULL, &problem),
                     ERROR_UNSUPPORTED);
    assert_non_null(strstr(problem.text, ".npy"));
    taps_free(sets[0]);
    taps_free(sets[1]);
}

static void test_refusals(void **state)
{
    (void)state;
    struct config *config = load();
    /* clang-format off */
    static const struct {
        const char *filter, *out;
        int error;
        const char *words;
    } table[] = {
        {"none", NULL, ERROR_CONFIG, "bp, spare"},
        {"bp", "taps.doc", ERROR_ARGUMENT, ".npy"},
        {"bp", "/nowhere/at/all.npy", ERROR_NO_FILE, "/nowhere/at/all.npy"},
        {"bp", "plot.png", ERROR_ARGUMENT, "convolv-design --config FILE --filter bp --out plot.png"},
        {"bp", "plot.SVG", ERROR_ARGUMENT, "convolv-design"},
    };
    /* clang-format on */
    for (size_t i = 0; i < sizeof table / sizeof table[0]; i++) {
        struct problem problem = {0};
        free(report(config, table[i].filter, table[i].out, table[i].error, &problem));
        if (strstr(problem.text, table[i].words) == NULL)
            fail_msg("'%s' lacks '%s'", problem.text, table[i].words);
    }
    config_free(config);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_words),
        cmocka_unit_test(test_files_hold_the_taps),
        cmocka_unit_test(test_several_sets),
        cmocka_unit_test(test_refusals),
    };
    return cmocka_run_group_tests_name("design report", tests, NULL, NULL);
}
