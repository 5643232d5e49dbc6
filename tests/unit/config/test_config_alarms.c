/*
 * [alarm NAME] and what a stream says of its channels: values as the daemon gets them, and the
 * message for everything that is wrong, each at its line.
 */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "config/config.h"
#include "tests/support/config_samples.h"

/* 13 lines; keys of the stream stand from line 14 on, those of the alarm after its heading. */
#define BEFORE                                                                                     \
    "[filter f]\ntype = identity\n[sink s]\ntype = rtp\nstream = a\naddress = 127.0.0.1:6000\n"    \
    "[stream a]\nsource = rtp\naddress = 127.0.0.1:5004\nrate = 500 kHz\nfilter = f\n"             \
    "channels = 4\nfull scale = 10 V\n"
#define ALARM "[alarm quiet]\nstream = a\n"

static struct config *load(const char *text)
{
    struct config_errors errors;
    struct config *config;
    if (sample_load(text, &config, &errors) != 0)
        fail_msg("%s", sample_messages(&errors));
    config_errors_free(&errors);
    return config;
}

static void a_whole_one(void **state)
{
    (void)state;
    struct config *config =
        load(BEFORE ALARM "quantity = level\nchannel = 2, 4\nbelow = 2 mV\nabove = 1 V\n"
                          "within = 500 ms\nfor = 2 s\nhold = 1 min\nhysteresis = 10 %\n");
    assert_int_equal(config->alarm_count, 1);
    const struct config_alarm *alarm = &config->alarms[0];
    assert_string_equal(alarm->name, "quiet");
    assert_int_equal(alarm->stream, 0);
    assert_int_equal(alarm->quantity, ALARM_LEVEL);
    assert_string_equal(alarm->unit, "V");
    assert_true(alarm->rule.has_below && alarm->rule.below == 0.002);
    assert_true(alarm->rule.has_above && alarm->rule.above == 1);
    assert_true(alarm->rule.hysteresis == 0.1);
    assert_int_equal(alarm->within_ns, 500000000);
    assert_int_equal(alarm->rule.for_ns, INT64_C(2000000000));
    assert_int_equal(alarm->rule.hold_ns, INT64_C(60000000000));
    assert_true(!alarm->channels[0] && alarm->channels[1] && !alarm->channels[2] &&
                alarm->channels[3]);
    assert_false(alarm->exec);
    config_free(config);
}

#define HITS "[analysis bursts]\ntype = hits\nstream = a\nthreshold = 1 mV\n"

/* Limits in the unit of a field, of the channel, and plain numbers; channels of the analysis. */
static void quantities_of_an_analysis(void **state)
{
    (void)state;
    static const struct {
        const char *lines;
        enum alarm_quantity quantity;
        double above;
        const char *unit;
    } rows[] = {
        {"quantity = hits\nabove = 50\nwithin = 1 min\n", ALARM_EVENTS, 50, ""},
        {"quantity = sum energy_eu\nabove = 1e4 eu\n", ALARM_SUM, 1e4, "eu"},
        {"quantity = sum counts\nabove = 300\n", ALARM_SUM, 300, ""},
        {"quantity = sum strength_nvs\nabove = 2e6 nVs\n", ALARM_SUM, 2e6, "nVs"},
        {"quantity = peak_db\nabove = 80 dB(AE)\n", ALARM_FIELD, 80, "dB"},
        {"quantity = peak_db\nabove = 10 mV\n", ALARM_FIELD, 80, "dB"},
        {"quantity = amplitude\nabove = 60 dB(AE)\n", ALARM_FIELD, 1e-3, "V"},
        {"quantity = peak_db\nabove = 80 dB\n", ALARM_FIELD, 80, "dB"},
        {"quantity = peak_db\nabove = 80\n", ALARM_FIELD, 80, "dB"},
        {"quantity = skewness\nabove = -0.5\n", ALARM_FIELD, -0.5, ""},
        {"quantity = rise_us\nabove = 20us\n", ALARM_FIELD, 20, "us"},
        {"quantity = amplitude\nabove = 5 mV\n", ALARM_FIELD, 0.005, "V"},
        {"quantity = dead time\nabove = 10 %\n", ALARM_DEAD, 0.1, ""},
    };
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        char text[2048];
        snprintf(text, sizeof text,
                 BEFORE "unused = 2\n" HITS "[alarm loud]\nanalysis = bursts\n%s", rows[i].lines);
        struct config *config = load(text);
        const struct config_alarm *alarm = &config->alarms[0];
        assert_int_equal(alarm->quantity, rows[i].quantity);
        assert_true(alarm->rule.has_above && fabs(alarm->rule.above - rows[i].above) < 1e-12);
        assert_string_equal(alarm->unit, rows[i].unit);
        assert_int_equal(alarm->analysis, 0);
        assert_int_equal(alarm->stream, 0);
        if (alarm->quantity == ALARM_DEAD)
            assert_null(alarm->channels);
        else
            assert_true(alarm->channels[0] && !alarm->channels[1] && alarm->channels[3]);
        config_free(config);
    }
}

/* Intervals have a field `hits`: with them the name means that. */
static void a_field_that_is_named_like_events(void **state)
{
    (void)state;
    struct config *config =
        load(BEFORE "[analysis levels]\ntype = intervals\nstream = a\nthreshold = 1 mV\n"
                    "[alarm loud]\nanalysis = levels\nquantity = hits\nabove = 1\n"
                    "[alarm few]\nanalysis = levels\nquantity = intervals\nbelow = 1\n");
    assert_int_equal(config->alarms[0].quantity, ALARM_FIELD);
    assert_int_equal(config->alarms[1].quantity, ALARM_EVENTS);
    config_free(config);
}

static void defaults(void **state)
{
    (void)state;
    struct config *config =
        load(BEFORE "unused = 4\n" ALARM "quantity = overloads\nabove = 0\n"
                    "[alarm gone]\nstream = a\nquantity = silence\nabove = 1.5 s\n"
                    "[alarm moved]\nstream = a\nquantity = device\n"
                    "[alarm off]\nstream = a\nquantity = ppm\nbelow = -50\nabove = 50\n");
    const struct config_alarm *alarms = config->alarms;
    assert_int_equal(config->alarm_count, 4);
    assert_int_equal(alarms[0].within_ns, 1000000000);
    assert_true(alarms[0].channels[0] && alarms[0].channels[2] && !alarms[0].channels[3]);
    assert_null(alarms[1].channels);
    assert_true(alarms[1].rule.above == 1.5);
    assert_string_equal(alarms[1].unit, "s");
    assert_true(alarms[2].rule.has_above && alarms[2].rule.above == 0.5);
    assert_true(alarms[3].rule.below == -50);
    const struct config_stream *stream = &config->streams[0];
    assert_int_equal(stream->flat_ns, 1000000000);
    assert_null(stream->noise_floor);
    assert_true(stream->unused[3] && !stream->unused[0]);
    config_free(config);
}

static void what_a_stream_says(void **state)
{
    (void)state;
    struct config *config =
        load(BEFORE "flat line = 0 s\nnoise floor = 3 mV, 0, 1 V, 86.02059991327963 dB(AE)\n"
                    "[stream chain]\nsource = stream a\nfilter = f\n"
                    "[sink t]\ntype = rtp\nstream = chain\naddress = 127.0.0.1:6002\n"
                    "[stream file]\nsource = file\npath = some.wav\nfilter = f\n"
                    "[sink u]\ntype = rtp\nstream = file\naddress = 127.0.0.1:6004\n");
    const struct config_stream *stream = &config->streams[config_find_stream(config, "a")];
    assert_int_equal(stream->flat_ns, 0);
    assert_true(stream->noise_floor[0] == 0.003 && stream->noise_floor[1] == 0 &&
                stream->noise_floor[2] == 1 && fabs(stream->noise_floor[3] - 0.02) < 1e-12);
    assert_null(stream->unused);
    /* A chain repeats what its first stream says, and a file may well be silent. */
    assert_int_equal(config->streams[config_find_stream(config, "chain")].flat_ns, 0);
    assert_int_equal(config->streams[config_find_stream(config, "file")].flat_ns, 0);
    config_free(config);
}

/* Alarms and what they need of a stream change without a change of the stream. */
static void a_reload_keeps_the_stream(void **state)
{
    (void)state;
    struct config *before = load(BEFORE);
    struct config *after = load(BEFORE "flat line = 3 s\nunused = 2\nnoise floor = 1 mV\n" ALARM
                                       "quantity = rate\nbelow = 400 kHz\n");
    assert_string_equal(before->streams[0].hash, after->streams[0].hash);
    assert_string_equal(before->fixed_hash, after->fixed_hash);
    assert_string_not_equal(before->hash, after->hash);
    config_free(before);
    config_free(after);
}

static void messages(void **state)
{
    (void)state;
    static const struct {
        const char *text;
        unsigned line;
        const char *words;
    } rows[] = {
        {BEFORE ALARM "quantity = level\n", 14, "has no limit; write `above`, `below`, or both"},
        {BEFORE ALARM "quantity = level\nbelow = 3 ms\n", 17, "3 ms"},
        {BEFORE ALARM "quantity = level\nbelow = 3 Pa\n", 17, "is in Pa, but the unit here is V"},
        {BEFORE ALARM "quantity = silence\nabove = 3\n", 17, "has no unit"},
        {BEFORE ALARM "quantity = silence\nabove = 3 mV\n", 17, "is not a unit; write a time"},
        {BEFORE ALARM "quantity = rate\nbelow = 3 s\n", 17, "is a time"},
        {BEFORE ALARM "quantity = losses\nabove = -1\n", 17, "is out of range"},
        {BEFORE ALARM "quantity = ppm\nabove = 5\nbelow = 50\n", 17, "exchange them"},
        {BEFORE ALARM "quantity = device\nabove = 1\n", 17,
         "has no meaning with `quantity = device`"},
        {BEFORE ALARM "quantity = silence\nabove = 1 s\nchannel = 1\n", 18,
         "has no meaning with `quantity = silence`, it belongs to level, overloads, flat line, "
         "hits, sum energy_eu or FIELD"},
        {BEFORE ALARM "quantity = silence\nabove = 1 s\nwithin = 1 s\n", 18, "has no meaning"},
        {BEFORE ALARM "quantity = level\nbelow = 1 V\nchannel = 5\n", 18,
         "stream a has only 4 channels; write numbers from 1 to 4"},
        {BEFORE "unused = 9\n", 14, "has only 4 channels"},
        {BEFORE "unused = 2\n" ALARM "quantity = level\nbelow = 1 V\nchannel = 2\n", 19,
         "says that channel 2 is `unused`"},
        {BEFORE "unit = V, V, mV, V\n" ALARM "quantity = level\nbelow = 1 V\n", 15,
         "have the units V and mV"},
        {BEFORE "noise floor = 1, 2\n", 14, "lists 2 values for 4 channels"},
        {BEFORE "noise floor = 1 Pa\n", 14, "is in Pa"},
        {BEFORE "noise floor = 40\n", 14, "has no unit; write 40 dB(AE), 40 mV or 40 V"},
        {BEFORE ALARM "quantity = level\nabove = 40\n", 17, "write 40 dB(AE), 40 mV or 40 V"},
        {BEFORE ALARM "quantity = level\nabove = -1 V\n", 17, "is below 0"},
        {BEFORE ALARM "quantity = level\nabove = 40 dB re 1 uPa\n", 17, "is in uPa"},
        {BEFORE HITS "[alarm loud]\nanalysis = bursts\nquantity = rms\nabove = 40\n", 21,
         "write 40 dB(AE), 40 mV or 40 V"},
        {BEFORE HITS "[alarm loud]\nanalysis = bursts\nquantity = margin_db\nabove = 40 dB(AE)\n",
         21, "is not a unit"},
        {BEFORE "[alarm quiet]\nstream = b\nquantity = device\n", 15,
         "alarm quiet names a stream b that nobody defined; write a"},
        {BEFORE "[alarm quiet]\nquantity = device\n", 14, "needs `stream`"},
        {BEFORE "[alarm quiet]\nstream = a\n", 14, "needs `quantity`"},
        {BEFORE "[alarm quiet]\nstream = a\nquantity = volume\n", 16, "is not known; write"},
        {BEFORE "[alarm quiet]\nstream = a\nquantity = levle\n", 16, "is not known; write level"},
        {BEFORE HITS "[alarm loud]\nanalysis = bursts\nquantity = peak\nabove = 1\n", 20,
         "analysis bursts has no such quantity; write one of: hits, dead time, sum counts, sum "
         "energy_eu, sum strength_nvs, amplitude, peak_db, rise_us"},
        {BEFORE HITS "[alarm loud]\nanalysis = bursts\nquantity = sources\nabove = 1\n", 20,
         "has no such quantity"},
        {BEFORE HITS "[alarm loud]\nanalysis = bursts\nquantity = sum peak_db\nabove = 1\n", 20,
         "has no such quantity"},
        {BEFORE HITS "[alarm loud]\nanalysis = burst\nquantity = hits\nabove = 1\n", 19,
         "alarm loud names an analysis burst that nobody defined; write bursts"},
        {BEFORE HITS "[alarm loud]\nanalysis = bursts\nstream = a\nquantity = peak_db\n", 20,
         "remove `stream`"},
        {BEFORE HITS "[alarm loud]\nstream = a\nquantity = hits\nabove = 1\n", 19,
         "has no meaning with `quantity = hits`"},
        {BEFORE HITS "[alarm loud]\nanalysis = bursts\nquantity = level\nabove = 1\n", 19,
         "has no meaning with `quantity = level`"},
        {BEFORE HITS "[alarm loud]\nquantity = hits\nabove = 1\n", 18, "needs `analysis`"},
        {BEFORE HITS "[alarm loud]\nanalysis = bursts\nquantity = rise_us\nabove = 1 ms\n", 21,
         "1 ms"},
        {BEFORE HITS "[alarm loud]\nanalysis = bursts\nquantity = rms\nabove = 1 Pa\n", 21,
         "is in Pa, but the unit here is V"},
        {BEFORE HITS "[alarm loud]\nanalysis = bursts\nquantity = hits\nabove = 1\nchannel = 5\n",
         22, "analysis bursts has only 4 channels; write numbers from 1 to 4"},
        {BEFORE HITS "[alarm loud]\nanalysis = bursts\nquantity = dead time\nabove = 2\n", 21, "2"},
        {BEFORE HITS "[alarm loud]\nanalysis = bursts\nquantity = hits\n", 18, "has no limit"},
        {BEFORE "[alarm flat-line]\nstream = a\nquantity = device\n", 14,
         "an alarm that needs no section; choose another name"},
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        struct config_errors errors;
        struct config *config;
        if (sample_load(rows[i].text, &config, &errors) != ERROR_CONFIG ||
            !sample_message(&errors, rows[i].line, false, rows[i].words))
            fail_msg("row %zu: no message at line %u with \"%s\" but\n%s", i, rows[i].line,
                     rows[i].words, sample_messages(&errors));
        config_errors_free(&errors);
    }
}

/* The service has one, a shell that checks its configuration has not. */
static void a_program_without_a_state_directory(void **state)
{
    (void)state;
    struct config_errors errors;
    struct config *config;
    assert_int_equal(sample_load(BEFORE ALARM "quantity = device\nexec = yes\n", &config, &errors),
                     0);
    assert_true(sample_message(&errors, 17, true, "alarm quiet starts nothing"));
    config_errors_free(&errors);
    config_free(config);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_whole_one),
        cmocka_unit_test(defaults),
        cmocka_unit_test(quantities_of_an_analysis),
        cmocka_unit_test(a_field_that_is_named_like_events),
        cmocka_unit_test(what_a_stream_says),
        cmocka_unit_test(a_reload_keeps_the_stream),
        cmocka_unit_test(messages),
        cmocka_unit_test(a_program_without_a_state_directory),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
