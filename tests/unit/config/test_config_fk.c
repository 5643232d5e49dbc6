/*
 * Velocity filters in a configuration: which edges and taps a stream gets, what is refused and
 * where, and what `--check` and `--design` say of them.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "tests/support/config_samples.h"
#include "tests/support/scratch.h"
#include "report/check.h"
#include "report/design.h"
#include "pipeline/stream_filters.h"

#define FAN                                                                                        \
    "[filter fan]\ntype = fk\nspacing = 5 mm\nvelocity low = 1600 m/s\nvelocity high = 5 mm/us\n"  \
    "low = 40 kHz\nhigh = 150 kHz\ntaper = 50 %\ntaps = 255\n"
#define BAND "[filter band]\ntype = bandpass\nlow = 40 kHz\nhigh = 150 kHz\ntaps = 201\n"
#define STREAM(channels, filters)                                                                  \
    "[stream a]\nsource = generator\nrate = 1 MHz\nformat = s16le\nchannels = " channels           \
    "\n" filters "\n[sink s]\ntype = rtp\nstream = a\naddress = 127.0.0.1:6000\n"

static struct config *load(const char *text)
{
    struct config *config;
    struct config_errors errors;
    if (sample_load(text, &config, &errors) != 0)
        fail_msg("refused:\n%s", sample_messages(&errors));
    config_errors_free(&errors);
    return config;
}

static void values_reach_the_filter(void **state)
{
    (void)state;
    struct config *config = load(STREAM("12", "filter = fan") FAN);
    const struct fk_spec *fk = &config->filters[0].spec.fk;
    assert_true(fk->spacing_m == 5e-3);
    assert_true(fk->velocity_low == 1600);
    assert_true(fk->velocity_high == 5000);
    assert_true(fk->low_hz == 40e3 && fk->high_hz == 150e3);
    assert_true(fk->taper == 0.5);
    assert_int_equal(fk->taps, 255);
    assert_false(fk->reject);
    struct filter_spec whole = config_filter_spec(&config->filters[0], &config->streams[0]);
    assert_int_equal(whole.fk.channels, 12);
    config_free(config);
}

/* Every output is the sum over all inputs of the filter for their distance. */
static void every_channel_leads_to_every_channel(void **state)
{
    (void)state;
    static const struct {
        const char *text;
        uint32_t width, place; /* outputs a channel, and which of them the fan makes */
        uint32_t edges, sets;
    } cases[] = {
        {STREAM("6", "filter = fan") FAN, 1, 0, 36, 11},
        {STREAM("6", "bank = band, fan") BAND FAN, 2, 1, 42, 12},
        {STREAM("6", "bank = fan, band") BAND FAN, 2, 0, 42, 12},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        struct config *config = load(cases[i].text);
        const struct config_stream *stream = &config->streams[0];
        struct stream_filters filters;
        struct problem problem;
        assert_int_equal(stream->edge_count, cases[i].edges);
        assert_int_equal(stream->output_count, 6 * cases[i].width);
        assert_int_equal(stream_filters_make(config, stream, NULL, &filters, &problem), 0);
        assert_int_equal(filters.count, cases[i].sets);
        assert_true(filters.delay_frames == 127);
        int fan = config_find_filter(config, "fan");
        struct filter_spec spec = config_filter_spec(&config->filters[fan], stream);
        struct taps **sets;
        uint32_t count, seen = 0;
        assert_int_equal(filter_make(&spec, 1e6, &sets, &count, NULL, &problem), 0);
        for (uint32_t e = 0; e < stream->edge_count; e++) {
            const struct edge *edge = &filters.edges[e];
            if ((int)stream->edges[e].filter != fan)
                continue;
            assert_int_equal(edge->output % cases[i].width, cases[i].place);
            uint32_t output = edge->output / cases[i].width;
            const struct taps *want = sets[output + 5 - edge->input];
            const struct taps *got = filters.taps[edge->taps];
            assert_int_equal(got->count, want->count);
            assert_memory_equal(got->re, want->re, want->count * sizeof *want->re);
            seen++;
        }
        assert_int_equal(seen, 36);
        taps_sets_free(sets, count);
        stream_filters_free(&filters);
        config_free(config);
    }
}

static void what_cannot_work_is_refused_in_its_line(void **state)
{
    (void)state;
    static const struct {
        const char *text;
        unsigned line;
        const char *words;
    } cases[] = {
        {STREAM("2", "filter = fan, fan") FAN, 6,
         "combines all channels, `filter` names it for one"},
        {STREAM("2", "route = 1 -> fan -> 1") FAN, 6, "combines all channels, `route` names it"},
        {STREAM("1", "filter = fan") FAN, 11, "needs a stream whose channels are a line array"},
        {STREAM("8",
                "filter = fan") "[filter fan]\ntype = fk\nspacing = 5 mm\nvelocity low = 1200 m/s\n"
                                "velocity high = 5000 m/s\nhigh = 150 kHz\ntaps = 255\n",
         14, "beyond the spatial Nyquist 1/(2 spacing) = 100 per metre"},
        {STREAM("8",
                "filter = fan") "[filter fan]\ntype = fk\nspacing = 5 mm\nvelocity low = 1200 m/s\n"
                                "velocity high = 5000 m/s\nhigh = 150 kHz\ntaps = 255\n",
         14, "write a velocity of at least 1500 m/s, or lower `high = 120000 Hz` at most"},
        {STREAM("8",
                "filter = fan") "[filter fan]\ntype = fk\nspacing = 5 mm\nvelocity low = 6000 m/s\n"
                                "high = 150 kHz\ntaps = 254\n",
         16, "write 255"},
        {STREAM("8",
                "filter = fan") "[filter fan]\ntype = fk\nspacing = 5 mm\nvelocity low = 6000 m/s\n"
                                "high = 150 kHz\ntaps = 255\npadding = 6\n",
         17, "write at least 7"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        struct config *config;
        struct config_errors errors;
        int status = sample_load(cases[i].text, &config, &errors);
        if (status != ERROR_CONFIG ||
            !sample_message(&errors, cases[i].line, false, cases[i].words))
            fail_msg("case %zu: no error at line %u with \"%s\":\n%s\n%s", i, cases[i].line,
                     cases[i].words, cases[i].text, sample_messages(&errors));
        config_errors_free(&errors);
    }
}

static void expect_words(const char *report, const char *const *words, size_t count)
{
    for (size_t i = 0; i < count; i++)
        if (strstr(report, words[i]) == NULL)
            fail_msg("\"%s\" is not in:\n%s", words[i], report);
}

static unsigned times(const char *text, const char *words)
{
    unsigned count = 0;
    for (const char *at = strstr(text, words); at != NULL; at = strstr(at + 1, words))
        count++;
    return count;
}

static void the_resolution_stands_beside_each_rejection(void **state)
{
    (void)state;
    struct config *config = load(STREAM("20", "filter = fan") FAN);
    struct config_errors errors = {0};
    char *report = NULL;
    size_t bytes = 0;
    FILE *file = open_memstream(&report, &bytes);
    assert_int_equal(check_print(config, file, &errors), 0);
    fclose(file);
    static const char *const words[] = {
        "fan fan",
        "passes waves of 1600 to 5000 m/s towards higher channels",
        "from 40 kHz to 150 kHz; 20 channels 5 mm apart, spatial Nyquist 1/(2 spacing) = 100 /m",
        "channels 6 to 15",
        "end channels",
        "all channels",
        "(400 edges)"};
    expect_words(report, words, sizeof words / sizeof words[0]);
    assert_int_equal(times(report, "rejection "), 3);
    assert_int_equal(times(report, "dB, resolution 1/(M spacing) = 10 /m\n"), 3);
    free(report);
    config_free(config);
    config_errors_free(&errors);
}

static void the_design_is_printed_and_written(void **state)
{
    (void)state;
    struct config *config = load(STREAM("20", "filter = fan") FAN);
    for (int written = 0; written < 2; written++) {
        const char *path = scratch_path("fan.npy");
        char *report = NULL;
        size_t bytes = 0;
        FILE *file = open_memstream(&report, &bytes);
        struct problem problem = {0};
        if (design_report_config(config, "fan", written ? path : NULL, file, &problem) != 0)
            fail_msg("%s", problem.text);
        fclose(file);
        static const char *const words[] = {"# sets              39, one for each distance",
                                            "1600 m/s", "level at channel 11", "# noise floor",
                                            "39 sets of taps"};
        /* Taps written to a file are not listed. */
        expect_words(report, words, written ? 4 : 5);
        free(report);
    }
    char magic[6] = "";
    FILE *file = fopen(scratch_path("fan.npy"), "rb");
    assert_non_null(file);
    assert_int_equal(fread(magic, 1, sizeof magic, file), sizeof magic);
    assert_memory_equal(magic, "\x93NUMPY", sizeof magic);
    fclose(file);
    config_free(config);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(values_reach_the_filter),
        cmocka_unit_test(every_channel_leads_to_every_channel),
        cmocka_unit_test(what_cannot_work_is_refused_in_its_line),
        cmocka_unit_test(the_resolution_stands_beside_each_rejection),
        cmocka_unit_test(the_design_is_printed_and_written),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
