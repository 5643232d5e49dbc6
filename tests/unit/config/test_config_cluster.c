/*
 * [cluster], and the hash of what all workers share: streams that read a partition, with their
 * filters, the contents of their files and their sinks, whatever their order; nothing else.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "config/config.h"
#include "tests/support/config_samples.h"

static struct config *load(const char *text)
{
    struct config_errors errors;
    struct config *config;
    if (sample_load(text, &config, &errors) != 0)
        fail_msg("%s", sample_messages(&errors));
    config_errors_free(&errors);
    return config;
}

#define PARTITION(name, filter)                                                                    \
    "[stream " name "]\nsource = nats\npartition = " name "\nrate = 1 MHz\nformat = s16\n"         \
    "filter = " filter "\n"
#define LOG(name, more)                                                                            \
    "[sink log-" name "]\ntype = nats\nstream = " name "\npartition = " name "\n" more
#define TAPS "[filter f]\ntype = file\npath = f.wav\n[filter g]\ntype = identity\n"
#define ALL  TAPS PARTITION("a", "f") LOG("a", "") PARTITION("b", "g") LOG("b", "")

static void test_capacity(void **state)
{
    (void)state;
    struct config *config = load(ALL), *other = load("[cluster]\ncapacity = 0 %\n" ALL);
    assert_true(config->cluster.capacity == 0.8 && other->cluster.capacity == 0);
    config_free(config);
    config_free(other);
}

static void test_what_all_workers_share(void **state)
{
    (void)state;
    static const struct {
        const char *text;
        bool same;
    } table[] = {
        {"[cluster]\nidentity = x\ncapacity = 5 %\ncredentials = /dev/null\n" ALL, true},
        {"[device]\nbatches = 5\n[daemon]\nlog level = debug\n" ALL, true},
        {LOG("b", "") PARTITION("b", "g") LOG("a", "") PARTITION("a", "f") TAPS, true},
        {"[stream own]\nsource = generator\nrate = 1 MHz\nfilter = own\n"
         "[filter own]\ntype = identity\n" ALL,
         true},
        {"[cluster]\nlease = 2 s\n" ALL, false},
        {TAPS PARTITION("a", "f") LOG("a", "") PARTITION("b", "g") LOG("b", "message = 8 KiB\n"),
         false},
        {TAPS PARTITION("a", "f") LOG("a", "") PARTITION("b", "f") LOG("b", ""), false},
        {TAPS PARTITION("a", "f") LOG("a", ""), false},
        {"[filter f]\ntype = file\npath = f.wav\ngain = -3 dB\n[filter g]\ntype = "
         "identity\n" PARTITION("a", "f") LOG("a", "") PARTITION("b", "g") LOG("b", ""),
         false},
    };
    struct config *first = load(ALL);
    assert_int_equal(strlen(first->shared_hash), 64);
    for (size_t i = 0; i < sizeof table / sizeof table[0]; i++) {
        struct config *other = load(table[i].text);
        if ((strcmp(first->shared_hash, other->shared_hash) == 0) != table[i].same)
            fail_msg("row %zu: the hash is %s", i, table[i].same ? "another" : "the same");
        config_free(other);
    }
    config_free(first);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_capacity),
        cmocka_unit_test(test_what_all_workers_share),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
