/*
 * `parameters` of an [analysis NAME]: which values its events carry, from which stream and in which
 * order, and the message for everything that is wrong.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "config/config.h"
#include "tests/support/config_samples.h"

#define STREAM(name, port, rate, channels, more)                                                   \
    "[stream " name "]\nsource = rtp\naddress = 127.0.0.1:" port "\nrate = " rate "\nfilter = f\n" \
    "channels = " channels "\nfull scale = 10 V\n" more
#define BEFORE                                                                                     \
    "[filter f]\ntype = identity\n" STREAM("a", "5004", "500 kHz", "4", "")                        \
        STREAM("press", "5006", "1 kHz", "2", "block = 16 frames\n")
#define HITS "[analysis bursts]\ntype = hits\nstream = a\nthreshold = 1 mV\nparameters = "

static void values_and_their_streams(void **state)
{
    (void)state;
    static const char *const names[] = {"load",        "own",           "t",        "same",
                                        "load_age_us", "load_error_us", "t_age_us", "t_error_us"};
    struct config_errors errors;
    struct config *config;
    const char *text = BEFORE HITS "load 2 of press, own 4, t 1 of press, same 1 of a\n"
                                   "parameter age = 250 ms\n";
    if (sample_load(text, &config, &errors) != 0)
        fail_msg("%s", sample_messages(&errors));
    const struct config_analysis *analysis = &config->analyses[0];
    const struct analysis_options *options = &analysis->options;
    assert_int_equal(options->parameter_values, 4);
    assert_int_equal(options->parameter_count, 8);
    for (uint32_t i = 0; i < options->parameter_count; i++)
        assert_string_equal(options->parameters[i], names[i]);
    assert_string_equal(options->parameter_streams[0], "press");
    assert_null(options->parameter_streams[1]);
    assert_null(options->parameter_streams[3]); /* its own, by name */
    assert_int_equal(options->parameter_channels[0], 1);
    assert_int_equal(options->parameter_age_ns, 250000000);
    assert_true(config_gives_parameters(analysis, 1));
    assert_false(config_gives_parameters(analysis, 2));
    /* It counts as a reader: nobody says that the results of press go nowhere. */
    assert_false(sample_says(&errors, "stream press"));
    config_errors_free(&errors);
    config_free(config);
}

static void messages(void **state)
{
    (void)state;
    static const struct {
        const char *text, *message;
    } cases[] = {
        {BEFORE HITS "load 5\n", "stream a has 4 channels; write one of them"},
        {BEFORE HITS "load 3 of press\n", "stream press has 2 channels; write one of them"},
        {BEFORE HITS "load 3 of pres\n", "there is no [stream pres]; write one"},
        {BEFORE HITS "load 1, load 2 of press\n", "the events have load already"},
        {BEFORE HITS "load 1 of press, load_age_us 2\n", "the events have load_age_us already"},
        {BEFORE HITS "rise_us 1 of press\n", "the events have rise_us already"},
        {BEFORE HITS "a 1, b 1, c 1, d 1, e 1, f 1, g 1, h 1, i 1\n", "write at most 8"},
        {BEFORE "[stream old]\nsource = generator\npace = fast\nrate = 1 kHz\nchannels = 1\n"
                "filter = f\n" HITS "load 1 of old\n",
         "stream a is live and stream old is replayed, so their times have nothing in common"},
        {BEFORE STREAM("slow", "5008", "10 Hz", "1", "block = 64 frames\n") HITS "load 1 of slow\n",
         "a block of stream slow lasts 6.4 s and `parameter age` is 1 s"},
        {"[cluster]\n" BEFORE "[stream part]\nsource = nats\npartition = p\nrate = 1 MHz\n"
         "format = s16\nfilter = f\n[sink log]\ntype = nats\nstream = part\npartition = p\n"
         "[analysis h]\ntype = hits\nstream = part\nthreshold = 0.1\nparameters = load 1 of "
         "press\n",
         "whoever goes on with stream part cannot know what stream press gave before"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        struct config_errors errors;
        struct config *config;
        if (sample_load(cases[i].text, &config, &errors) == 0)
            config_free(config);
        if (!sample_says(&errors, cases[i].message))
            fail_msg("case %zu: %s", i, sample_messages(&errors));
        config_errors_free(&errors);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(values_and_their_streams),
        cmocka_unit_test(messages),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
