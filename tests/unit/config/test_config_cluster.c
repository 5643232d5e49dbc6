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
#define LEVELS(interval, file)                                                                     \
    "[analysis levels]\ntype = intervals\nstream = a\ninterval = " interval "\n[sink file]\n"      \
    "type = csv\nanalysis = levels\npath = " file "\n"

static void test_capacity(void **state)
{
    (void)state;
    struct config *config = load(ALL), *other = load("[cluster]\ncapacity = 0 %\n" ALL);
    assert_true(config->cluster.capacity == 0.8 && other->cluster.capacity == 0);
    config_free(config);
    config_free(other);
}

/* Its events go into the log, so all compute the same; where each writes them is its own matter. */
static void test_analyses_are_shared(void **state)
{
    (void)state;
    static const struct {
        const char *text;
        bool same;
    } table[] = {
        {ALL LEVELS("10 ms", "other.csv"), true},
        {ALL LEVELS("20 ms", "file.csv"), false},
        {ALL, false},
    };
    struct config *first = load(ALL LEVELS("10 ms", "file.csv"));
    for (size_t i = 0; i < sizeof table / sizeof table[0]; i++) {
        struct config *other = load(table[i].text);
        if ((strcmp(first->shared_hash, other->shared_hash) == 0) != table[i].same)
            fail_msg("row %zu: the hash is %s", i, table[i].same ? "another" : "the same");
        config_free(other);
    }
    config_free(first);
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

/* Input of 8 MB/s: three servers that elect a leader stand still for longer than a short spool. */
static void test_a_spool_outlasts_an_election(void **state)
{
    (void)state;
    static const struct {
        const char *keys;
        bool good;
    } table[] = {
        {"", true},
        {"replicas = 3\n", true}, /* 30 s */
        {"replicas = 3\nspool = 15 s\n", true},
        {"replicas = 3\nspool = 14.9 s\n", false},
        {"replicas = 5\nspool = 1 s\n", false},
        {"replicas = 1\nspool = 1 s\n", true},
        {"replicas = 3\nspool = 120 MB\n", true},
        {"replicas = 3\nspool = 119 MB\n", false},
    };
    for (size_t i = 0; i < sizeof table / sizeof table[0]; i++) {
        char text[1000];
        struct config_errors errors;
        struct config *config = NULL;
        snprintf(text, sizeof text,
                 "[stream a]\nsource = rtp\naddress = 127.0.0.1:5004\nrate = 1 MHz\nchannels = 4\n"
                 "format = s16\nfilter = f\n[filter f]\ntype = identity\n[sink raw]\ntype = nats\n"
                 "stream = a\npartition = a\nrecord = input\n%s",
                 table[i].keys);
        const bool good = sample_load(text, &config, &errors) == 0;
        if (good != table[i].good ||
            (!good && !sample_says(&errors, "write at least spool = 15 s")))
            fail_msg("row %zu: %s", i, good ? "is taken" : sample_messages(&errors));
        config_errors_free(&errors);
        config_free(config);
    }
}

/* `standby`: what has to be there beside it, and what the driver then promises. */
static void test_a_standby(void **state)
{
    (void)state;
    static const char log[] = "[sink log]\ntype = nats\nstream = a\npartition = p\n";
    static const struct {
        const char *keys, *sink, *said; /* NULL: it is good */
    } table[] = {
        {"standby = 1\n", log, NULL},
        {"standby = 63\nhold = 15 s\n", log, NULL},
        {"standby = 1\naddress = [ff15::1]:5004\n", log, NULL},
        {"standby = 0\n", log, "without `source = nats` or `standby` belong to no partition"},
        {"hold = 3 s\n", log, "`hold` is what a standby holds; write standby = 1, too"},
        {"standby = 1\nhold = 1.9 s\n", log, "write hold = 2 s or more"},
        {"standby = 1\naddress = 127.0.0.1:5004\n", log, "is no multicast group"},
        {"standby = 1\nmode = record\n", log, "a partition is one endless signal"},
        {"standby = 1\n", "", "nobody appends what it computes; add a sink of type nats"},
        {"standby = 1\n", "[sink x]\ntype = recording\nstream = a\npath = x.wav\n",
         "nobody appends what it computes; add a sink of type nats"},
        {"standby = 1\n",
         "[sink log]\ntype = nats\nstream = a\npartition = p\n"
         "[sink x]\ntype = recording\nstream = a\npath = x.wav\n"
         "[sink y]\ntype = rtp\nstream = a\naddress = 127.0.0.1:5006\n",
         NULL},
        {"standby = 1\n",
         "[sink log]\ntype = nats\nstream = a\npartition = p\n"
         "[sink x]\ntype = recording\nstream = a\npath = x.wav\nrecord = input\n",
         "it takes sinks of results of type rtp, recording and osc alone"},
        {"standby = 1\n",
         "[sink log]\ntype = nats\nstream = a\npartition = p\n"
         "[sink x]\ntype = stdout\nstream = a\n",
         "it takes sinks of results of type rtp, recording and osc alone"},
        {"standby = 1\n", "[sink raw]\ntype = nats\nstream = a\npartition = p\nrecord = input\n",
         "write record = output"},
        {"standby = 1\n",
         "[sink log]\ntype = nats\nstream = a\npartition = p\n"
         "[sink more]\ntype = nats\nstream = a\npartition = q\n",
         "give it one sink of type nats"},
    };
    for (size_t i = 0; i < sizeof table / sizeof table[0]; i++) {
        char text[1000];
        struct config_errors errors;
        struct config *config = NULL;
        snprintf(text, sizeof text,
                 "[stream a]\nsource = rtp\n%srate = 1 MHz\ninterface = lo\n"
                 "format = s16\nfilter = f\n%s[filter f]\ntype = identity\n%s",
                 strstr(table[i].keys, "address") != NULL ? "" : "address = 239.1.2.3:5004\n",
                 table[i].keys, table[i].sink);
        const bool good = sample_load(text, &config, &errors) == 0;
        if (good != (table[i].said == NULL) || (!good && !sample_says(&errors, table[i].said)))
            fail_msg("row %zu: %s", i, good ? "is taken" : sample_messages(&errors));
        if (good)
            assert_true(!config->streams[0].live && config->streams[0].driver->shared &&
                        config->streams[0].driver->exact);
        config_errors_free(&errors);
        config_free(config);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_capacity),
        cmocka_unit_test(test_what_all_workers_share),
        cmocka_unit_test(test_analyses_are_shared),
        cmocka_unit_test(test_a_spool_outlasts_an_election),
        cmocka_unit_test(test_a_standby),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
