/*
 * The filters of a stream: which taps its edges get, and that all outputs share one delay. The
 * oracle is the definition: the taps of each filter made alone, behind as many zeros as its
 * delay is shorter than the longest.
 */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <cmocka.h>

#include "core/log.h"
#include "tests/support/scratch.h"
#include "pipeline/stream_filters.h"

enum { FILTERS = 6, RATE_HZ = 1000 };
enum { LONG, SHORT, EVEN, UNIT, PER_CHANNEL, LOPSIDED };

static struct config_filter filters[FILTERS];

/* Two channels, three taps each, symmetric: a delay of one frame. */
static void write_taps(const char *taps_path)
{
    FILE *file = fopen(taps_path, "wb");
    assert_non_null(file);
    static const double taps[2][3] = {{1, 2, 1}, {3, 5, 3}};
    char header[128];
    int length = snprintf(header, sizeof header, "%c%s", 0x93, "NUMPY");
    header[length++] = 1;
    header[length++] = 0;
    memset(header + length, ' ', sizeof header - (size_t)length);
    header[8] = 118;
    header[9] = 0;
    memcpy(header + 10, "{'descr': '<f8', 'fortran_order': False, 'shape': (2, 3), }", 59);
    header[127] = '\n';
    assert_int_equal(fwrite(header, 1, sizeof header, file), sizeof header);
    assert_int_equal(fwrite(taps, 1, sizeof taps, file), sizeof taps);
    fclose(file);
}

static int set_up(void **state)
{
    (void)state;
    log_set_level(LOG_LEVEL_ERROR);
    const char *taps_path = scratch_path("taps.npy");
    write_taps(taps_path);
    static const struct {
        const char *name;
        enum filter_type type;
        uint32_t taps;
    } rows[FILTERS] = {
        [LONG] = {"long", FILTER_LOWPASS, 101},          [SHORT] = {"short", FILTER_LOWPASS, 41},
        [EVEN] = {"even", FILTER_LOWPASS, 60},           [UNIT] = {"unit", FILTER_IDENTITY, 0},
        [PER_CHANNEL] = {"per-channel", FILTER_FILE, 0}, [LOPSIDED] = {"lopsided", FILTER_FILE, 0},
    };
    for (int f = 0; f < FILTERS; f++) {
        filters[f] =
            (struct config_filter){.name = rows[f].name, .place = {"a.conf", 10u + (unsigned)f}};
        filter_defaults(&filters[f].spec, rows[f].type);
        filters[f].spec.design.cutoff_hz = 200;
        filters[f].spec.design.taps = rows[f].taps;
        filters[f].spec.path = taps_path;
        if (rows[f].taps > 0)
            filters[f].spec.design.transition_hz = 0;
    }
    filters[LOPSIDED].spec.path = scratch_write("lopsided.txt", "1\n0.5\n0.25\n");
    return 0;
}

static int tear_down(void **state)
{
    (void)state;
    return 0;
}

static const struct config_edge *known; /* filters that the log has named */

static int make(const struct config_edge *edges, uint32_t count, struct stream_filters *out,
                struct problem *problem)
{
    static const struct config_place place = {"a.conf", 3};
    const struct config config = {.filters = filters, .filter_count = FILTERS};
    struct config_stream stream = {
        .name = "s", .place = place, .edges = edges, .edge_count = count};
    stream.source.rate_hz = RATE_HZ;
    stream.source.channels = 3;
    return stream_filters_make(&config, &stream, known, out, problem);
}

static void every_edge_gets_its_filter_at_one_delay(void **state)
{
    (void)state;
    static const struct {
        struct config_edge edges[4];
        uint32_t count;
        double delay_frames;
        uint32_t taps_count; /* how many distinct ones */
    } cases[] = {
        {{{0, 0, LONG, 1}}, 1, 50, 1},
        {{{0, 0, LONG, 1}, {1, 1, LONG, 2}}, 2, 50, 1},
        {{{0, 0, SHORT, 1}, {0, 1, LONG, -1}}, 2, 50, 2},
        {{{0, 0, UNIT, 1}, {0, 1, SHORT, 1}, {0, 2, LONG, 1}}, 3, 50, 3},
        {{{0, 0, PER_CHANNEL, 1}, {1, 1, PER_CHANNEL, 1}}, 2, 1, 2},
        {{{1, 0, PER_CHANNEL, 1}, {0, 1, UNIT, 0.5F}}, 2, 1, 2},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct stream_filters got;
        struct problem problem = {0};
        if (make(cases[i].edges, cases[i].count, &got, &problem) != 0)
            fail_msg("case %zu: %s", i, problem.text);
        assert_int_equal(got.count, cases[i].taps_count);
        assert_true(got.delay_frames == cases[i].delay_frames);
        assert_int_equal(strlen(got.hash), 65 * got.count - 1);
        for (uint32_t e = 0; e < cases[i].count; e++) {
            const struct config_edge *edge = &cases[i].edges[e];
            assert_int_equal(got.edges[e].input, edge->input);
            assert_int_equal(got.edges[e].output, edge->output);
            assert_true(got.edges[e].gain == edge->gain);
            struct taps **alone;
            uint32_t count;
            assert_int_equal(
                filter_make(&filters[edge->filter].spec, RATE_HZ, &alone, &count, NULL, &problem),
                0);
            const struct taps *want = alone[count > 1 ? edge->input : 0];
            const struct taps *taps = got.taps[got.edges[e].taps];
            uint32_t zeros = (uint32_t)(got.delay_frames - want->delay_frames);
            assert_int_equal(taps->count, want->count + zeros);
            assert_true(taps->delay_frames == got.delay_frames);
            assert_string_equal(taps->hash, want->hash);
            for (uint32_t n = 0; n < taps->count; n++) {
                double expected = n < zeros ? 0 : want->re[n - zeros];
                if (taps->re[n] != expected)
                    fail_msg("case %zu edge %u tap %u: %g, expected %g", i, e, n, taps->re[n],
                             expected);
            }
            taps_sets_free(alone, count);
        }
        stream_filters_free(&got);
    }
}

static void what_cannot_share_a_delay_is_refused(void **state)
{
    (void)state;
    static const struct {
        struct config_edge edges[2];
        uint32_t count;
        const char *says;
    } cases[] = {
        {{{0, 0, LONG, 1}, {0, 1, EVEN, 1}},
         2,
         "a.conf:3: the filters of stream s are delayed by 50 and 29.5 frames; all channels share "
         "one "
         "delay, so give them all an odd number of taps, or set `delay`"},
        {{{2, 0, PER_CHANNEL, 1}},
         1,
         "a.conf:3: stream s uses filter per-channel for channel 3, but its file has taps for 2 "
         "channels; "
         "write one channel for all, or one for each"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct stream_filters got;
        struct problem problem = {0};
        assert_int_equal(make(cases[i].edges, cases[i].count, &got, &problem), ERROR_CONFIG);
        assert_string_equal(problem.text, cases[i].says);
        assert_null(got.taps);
    }
    /* A filter that cannot be made names its place. */
    struct config_filter kept = filters[SHORT];
    filters[SHORT].spec.design.cutoff_hz = 600;
    struct stream_filters got;
    struct problem problem = {0};
    const struct config_edge edge = {0, 0, SHORT, 1};
    assert_true(make(&edge, 1, &got, &problem) < 0);
    assert_non_null(strstr(problem.text, "a.conf:11: filter short: "));
    filters[SHORT] = kept;
}

/* What the log says while the filters of two edges are made. */
static const char *log_of(const struct config_edge edges[2], const struct config_edge *before)
{
    static char text[2048];
    struct stream_filters got;
    struct problem problem = {0};
    FILE *lines = tmpfile();
    assert_non_null(lines);
    fflush(stderr);
    const int kept = dup(STDERR_FILENO);
    assert_true(kept >= 0 && dup2(fileno(lines), STDERR_FILENO) >= 0);
    log_set_level(LOG_LEVEL_INFO);
    known = before;
    const int error = make(edges, 2, &got, &problem);
    known = NULL;
    log_set_level(LOG_LEVEL_ERROR);
    assert_true(dup2(kept, STDERR_FILENO) >= 0);
    close(kept);
    assert_int_equal(error, 0);
    stream_filters_free(&got);
    rewind(lines);
    text[fread(text, 1, sizeof text - 1, lines)] = '\0';
    fclose(lines);
    return text;
}

static void what_a_filter_lacks_is_logged_once(void **state)
{
    (void)state;
    static const struct {
        struct config_edge edges[2], before[2];
        bool first, asymmetric, delayed;
    } cases[] = {
        {{{0, 0, LOPSIDED, 1}, {1, 1, SHORT, 1}}, {{0}}, true, true, true},
        /* another gain */
        {{{0, 0, LOPSIDED, 2}, {1, 1, SHORT, 1}},
         {{0, 0, LOPSIDED, 1}, {1, 1, SHORT, 1}},
         false,
         false,
         false},
        /* one of the filters is new */
        {{{0, 0, LOPSIDED, 1}, {1, 1, LONG, 1}},
         {{0, 0, LOPSIDED, 1}, {1, 1, SHORT, 1}},
         false,
         false,
         true},
        {{{0, 0, LOPSIDED, 1}, {1, 1, SHORT, 1}},
         {{0, 0, SHORT, 1}, {1, 1, SHORT, 1}},
         false,
         true,
         true},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        const char *text = log_of(cases[i].edges, cases[i].first ? NULL : cases[i].before);
        if ((strstr(text, "filter lopsided: the taps are not symmetric") != NULL) !=
                cases[i].asymmetric ||
            (strstr(text, "is delayed by") != NULL) != cases[i].delayed)
            fail_msg("case %zu: %s", i, text);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_edge_gets_its_filter_at_one_delay),
        cmocka_unit_test(what_cannot_share_a_delay_is_refused),
        cmocka_unit_test(what_a_filter_lacks_is_logged_once),
    };
    return cmocka_run_group_tests(tests, set_up, tear_down);
}
