/*
 * What `--check` says: the plan of a stream against paper, every worked example of config/,
 * filters that do not go together, and the manual, which must name every key.
 */
#include <glob.h>
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "tests/support/config_samples.h"
#include "report/check.h"

/* What check_print writes for a text; *status what it returns. Free with free(). */
static char *check(const char *text, int *status, struct config_errors *errors)
{
    struct config *config;
    if (sample_load(text, &config, errors) != 0) {
        char *messages = sample_messages(errors);
        fail_msg("refused:\n%s", messages);
    }
    char *report = NULL;
    size_t bytes = 0;
    FILE *file = open_memstream(&report, &bytes);
    *status = check_print(config, file, errors);
    fclose(file);
    config_free(config);
    return report;
}

#define TWO_STREAMS                                                                                \
    "[stream a]\nsource = rtp\naddress = 239.1.2.3:5004\nrate = 1 MHz\nchannels = 2\nformat = "    \
    "s16be\n"                                                                                      \
    "block = 500\nreorder = 3 ms\nfilter = f\noutput = complex\n"                                  \
    "[filter f]\ntype = bandpass\nlow = 100 kHz\nhigh = 200 kHz\ntaps = 301\nattenuation = 40 "    \
    "dB\nanalytic = yes\n"                                                                         \
    "[stream b]\nsource = stream a\nfilter = g\n"                                                  \
    "[filter g]\ntype = chirp\nstart = 50 kHz\nstop = 150 kHz\nlength = 200 us\n"                  \
    "[sink s]\ntype = rtp\nstream = a\naddress = 127.0.0.1:6000\nformat = s16\nmtu = 1512\n"       \
    "[sink r]\ntype = recording\nstream = b\npath = r.wav\nformat = s24\nrotate = 1 MiB\nkeep = "  \
    "3\n"

static void the_plan_is_that_of_paper(void **state)
{
    (void)state;
    struct config *config;
    struct config_errors errors;
    assert_int_equal(sample_load(TWO_STREAMS, &config, &errors), 0);
    struct check_plan first, second;
    struct problem problem;
    assert_int_equal(check_plan_make(config, &config->streams[0], NULL, &first, &problem), 0);
    assert_int_equal(check_plan_make(config, &config->streams[1], &first, &second, &problem), 0);
    assert_int_equal(first.taps_longest, 301);
    assert_true(first.delay_frames == 150); /* (301 - 1) / 2 */
    assert_true(first.accumulate_s == 500e-6);
    assert_true(fabs(first.ingest_max_s - 3e-3) < 1e-12);
    assert_int_equal(first.fft, 1024); /* 500 + 301 - 1 = 800 */
    assert_int_equal(first.partitions, 1);
    assert_int_equal(second.taps_longest, 200);
    assert_true(second.delay_frames == 199); /* matched: the onset */
    assert_true(second.total_delay_frames == 349);
    /* 1512 bytes hold (1512 - 20 - 8 - 12 - 72) / 8 = 175 frames of 4 × s16, so a block of 500
     * frames is 3 packets with 112 bytes of headers each. */
    assert_true(fabs(check_sink_bytes_per_second(config, &config->sinks[0]) -
                     (8e6 + 1e6 / 500 * 3 * 112)) < 1e-3);
    assert_true(check_sink_bytes_per_second(config, &config->sinks[1]) == 1e6 * 4 * 3);
    config_free(config);
    config_errors_free(&errors);
}

static void the_report_says_what_was_planned(void **state)
{
    (void)state;
    static const char *const words[] = {
        "stream a: rtp on 239.1.2.3:5004, 2 channels at 1 MHz, s16be",
        "150 frames = 150 us",
        "accumulate  500 us",
        "up to 3 ms (reorder)",
        "detectable: sequence numbers",
        "stream b: the output of stream a, 4 channels",
        "349 frames = 349 us with the streams before it",
        "12000000 bytes/s, 1036800000000 bytes/day",
        "keeps 3 files of 1 MiB: 3 MiB",
        "full scale is 1 FS",
        "is valid: 2 streams, 2 filters, 2 sinks",
    };
    int status;
    struct config_errors errors;
    char *report = check(TWO_STREAMS, &status, &errors);
    assert_int_equal(status, 0);
    for (size_t i = 0; i < sizeof words / sizeof words[0]; i++)
        if (strstr(report, words[i]) == NULL)
            fail_msg("\"%s\" is not in:\n%s", words[i], report);
    free(report);
    config_errors_free(&errors);
}

static void what_aliases_is_said(void **state)
{
    (void)state;
    static const struct {
        const char *stream, *filter, *words[3];
    } cases[] = {
        /* The mean of 4 frames: 1 / (4 sin(pi/8)) at the edge of the kept band. */
        {"decimate = 4\n",
         "type = file\npath = box.txt\n",
         {"1 frame of 4 is kept: 250 kHz, good up to 125 kHz",
          "f: -3.7 dB aliases at most, from 125 kHz to 125 kHz", "dB into its pass-band"}},
        {"decimate = 10\n",
         "type = lowpass\ncutoff = 30 kHz\ntransition = 20 kHz\nattenuation = 90 dB\n",
         {"good up to 50 kHz", "f: -9", ""}},
        {"decimate = 10\n",
         "type = bandpass\nlow = 200 kHz\nhigh = 220 kHz\n",
         {"more passes outside the kept band than inside", "to be folded down on purpose", ""}},
        {"decimate = 10\noutput = envelope\n",
         "type = bandpass\nlow = 100 kHz\nhigh = 300 kHz\nanalytic = yes\n",
         {"of the squared envelope of white noise", "`source = stream`", ""}},
        {"decimate = 1\n", "type = identity\n", {"filters", "outputs", ""}},
    };
    FILE *box = fopen("box.txt", "w");
    fputs("0.25\n0.25\n0.25\n0.25\n", box);
    fclose(box);
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        char text[1024];
        snprintf(text, sizeof text,
                 "[stream a]\nsource = generator\nrate = 1 MHz\nfilter = f\n%s[filter f]\n%s"
                 "[sink s]\ntype = rtp\nstream = a\naddress = 127.0.0.1:6000\n",
                 cases[i].stream, cases[i].filter);
        struct config_errors errors = {0};
        int status;
        char *report = check(text, &status, &errors);
        assert_int_equal(status, 0);
        for (int w = 0; w < 3; w++)
            if (strstr(report, cases[i].words[w]) == NULL)
                fail_msg("\"%s\" is not said:\n%s", cases[i].words[w], report);
        if (i == 4)
            assert_null(strstr(report, "decimation"));
        free(report);
        config_errors_free(&errors);
    }
    remove("box.txt");
}

static void loss_that_cannot_be_seen_is_said(void **state)
{
    (void)state;
    int status;
    struct config_errors errors;
    char *report = check("[stream a]\nsource = udp\naddress = *:1\nrate = 1 kHz\nfilter = f\n"
                         "[filter f]\ntype = identity\n"
                         "[sink s]\ntype = rtp\nstream = a\naddress = 127.0.0.1:2\n",
                         &status, &errors);
    assert_int_equal(status, 0);
    assert_non_null(strstr(report, "NOT detectable"));
    free(report);
    config_errors_free(&errors);
}

/* Of 48 kHz and blocks of 1024 frames: a ring that bridges less than `max gap` is named with both
 * times and what to write; that of the rule, and one that is long enough, with nothing. */
static void a_ring_shorter_than_max_gap_is_said(void **state)
{
    (void)state;
    static const struct {
        const char *source, *keys, *words; /* NULL: nothing is said */
    } cases[] = {
        {"rtp", "buffer = 100 ms\nmax gap = 30 s\n",
         "its input ring bridges losses of up to 341.3 ms, and `max gap` is 30 s: a longer loss "
         "begins a new epoch; write `buffer` of at least 30.6 s, or a shorter `max gap`"},
        {"udp-seq", "max gap = 3000 s\n", "and `max gap` is 50 min"}, /* beyond 64 MiB */
        {"rtp", "buffer = 100 ms\n", "and `max gap` is 1 s"},
        {"rtp", "buffer = 30.6 s\nmax gap = 30 s\n", NULL},
        {"rtp", "buffer = 100 ms\nmax gap = 340 ms\n", NULL},
        {"rtp", "buffer = 100 ms\nmax gap = 0\n", NULL},
        {"rtp", "max gap = 30 s\n", NULL},
        {"generator", "buffer = 100 ms\n", NULL},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        char text[512];
        int status;
        struct config_errors errors;
        snprintf(text, sizeof text,
                 "[stream a]\nsource = %s\n%srate = 48 kHz\nchannels = 1\nfilter = f\n%s"
                 "[filter f]\ntype = identity\n"
                 "[sink s]\ntype = rtp\nstream = a\naddress = 127.0.0.1:3\n",
                 cases[i].source, i == 7 ? "" : "address = 127.0.0.1:1\n", cases[i].keys);
        char *report = check(text, &status, &errors);
        assert_int_equal(status, 0);
        char *messages = sample_messages(&errors);
        if (cases[i].words == NULL ? sample_says(&errors, "max gap")
                                   : !sample_message(&errors, 1, true, cases[i].words))
            fail_msg("case %zu:\n%s", i, messages);
        free(messages);
        free(report);
        config_errors_free(&errors);
    }
}

/* What becomes of the streams when the device is lost. */
static void what_stands_by_is_said(void **state)
{
    (void)state;
    static const struct {
        const char *device, *words;
    } cases[] = {
        {"gpu, cpu", "devices: gpu, cpu; the first that works computes, the others stand by"},
        {"0", "devices: 0; nothing stands by, streams wait while it is lost: `device = 0, cpu` "},
        {"auto", "devices: auto; the CPU stands by for a GPU, nothing for a CPU"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        char text[512];
        int status;
        struct config_errors errors;
        snprintf(text, sizeof text,
                 "[device]\ndevice = %s\n[stream a]\nsource = rtp\naddress = 127.0.0.1:1\n"
                 "rate = 1 kHz\nchannels = 1\nfilter = f\n[filter f]\ntype = identity\n"
                 "[sink s]\ntype = rtp\nstream = a\naddress = 127.0.0.1:3\n",
                 cases[i].device);
        char *report = check(text, &status, &errors);
        assert_int_equal(status, 0);
        if (strstr(report, cases[i].words) == NULL)
            fail_msg("'%s' is missing in:\n%s", cases[i].words, report);
        free(report);
        config_errors_free(&errors);
    }
}

/* Who may reach a stream and the OSC server is said before anything is started. */
static void who_is_heard_is_said(void **state)
{
    (void)state;
    int status;
    struct config_errors errors;
    char *report = check("[stream a]\nsource = rtp\naddress = *:1\nrate = 1 kHz\nchannels = 1\n"
                         "filter = f\nallow = 10.1.0.0/16, 192.0.2.7\n"
                         "[stream b]\nsource = rtp\naddress = *:2\nrate = 1 kHz\nchannels = 1\n"
                         "filter = f\n[filter f]\ntype = identity\n"
                         "[sink s]\ntype = rtp\nstream = a\naddress = 127.0.0.1:3\n"
                         "[sink t]\ntype = rtp\nstream = b\naddress = 127.0.0.1:4\n"
                         "[osc]\naddress = *:9000\nallow = 10.0.0.0/8, 2001:db8::/32\n"
                         "trust = 192.0.2.9\ncontrol = 192.0.2.9, 10.0.0.1\n",
                         &status, &errors);
    assert_int_equal(status, 0);
    static const char *const said[] = {
        "  senders          10.1.0.0/16, 192.0.2.7\n",
        "  senders          127.0.0.0/8, ::1",
        "(this machine and its networks: no `allow`)",
        "osc: UDP *:9000, TCP none\n",
        "  trusted          this machine, 192.0.2.9\n",
        "  once proven      10.0.0.0/8, 2001:db8::/32\n",
        "  may change       192.0.2.9, 10.0.0.1\n",
    };
    for (size_t i = 0; i < sizeof said / sizeof *said; i++)
        if (strstr(report, said[i]) == NULL)
            fail_msg("'%s' is missing in:\n%s", said[i], report);
    free(report);
    config_errors_free(&errors);
}

static void filters_that_cannot_share_a_delay_are_errors(void **state)
{
    (void)state;
    int status;
    struct config_errors errors;
    /* 49.5 and 0 frames. */
    char *report =
        check("[stream a]\nsource = udp\naddress = *:1\nrate = 1 MHz\nfilter = f, g\nchannels = 2\n"
              "[filter f]\ntype = lowpass\ncutoff = 100 kHz\ntaps = 100\n"
              "[filter g]\ntype = identity\n"
              "[stream b]\nsource = stream a\nfilter = g\n"
              "[sink s]\ntype = rtp\nstream = b\naddress = 127.0.0.1:2\n",
              &status, &errors);
    assert_int_equal(status, ERROR_CONFIG);
    assert_null(strstr(report, "is valid"));
    assert_true(sample_message(&errors, 1, false, "the filters of stream a"));
    assert_null(strstr(errors.messages[0].text, "test.conf:"));
    free(report);
    config_errors_free(&errors);
}

/* The worked examples, as they are installed. */
static void every_example_passes(void **state)
{
    (void)state;
    char pattern[512];
    const char *slash = strrchr(__FILE__, '/');
    snprintf(pattern, sizeof pattern, "%.*s/../../../config/*.conf", (int)(slash - __FILE__),
             __FILE__);
    glob_t files;
    assert_int_equal(glob(pattern, 0, NULL, &files), 0);
    assert_true(files.gl_pathc >= 7);
    for (size_t i = 0; i < files.gl_pathc; i++) {
        struct config *config;
        struct config_errors errors = {0};
        int status = config_load(files.gl_pathv[i], &config, &errors);
        FILE *nowhere = fopen("/dev/null", "w");
        if (status == 0)
            status = check_print(config, nowhere, &errors);
        fclose(nowhere);
        if (status != 0 || errors.errors + errors.warnings > 0) {
            char *messages = sample_messages(&errors);
            fail_msg("%s:\n%s", files.gl_pathv[i], messages);
        }
        config_free(config);
        config_errors_free(&errors);
    }
    globfree(&files);
}

/* ---- the manual ----------------------------------------------------------------------------- */

/* As roff writes it: a hyphen is escaped. */
static const char *roff_key(const char *key)
{
    static char text[128];
    size_t at = 0;
    for (; *key != '\0' && at + 2 < sizeof text; key++) {
        if (*key == '-')
            text[at++] = '\\';
        text[at++] = *key;
    }
    text[at] = '\0';
    return text;
}

static void the_manual_names_every_key(void **state)
{
    (void)state;
    char *help = NULL, *man = NULL;
    size_t bytes;
    FILE *file = open_memstream(&help, &bytes);
    schema_print_help(file);
    fclose(file);
    file = open_memstream(&man, &bytes);
    assert_int_equal(schema_print_man(file, "convolvd.conf", NULL, 0), 0);
    fclose(file);
    assert_non_null(help);
    assert_non_null(man);
    const char *at_help = help, *at_man = man;
    for (int section = 0; section < SECTIONS; section++)
        for (unsigned slot = 0; slot < schema_count((enum section_kind)section); slot++) {
            const char *key = schema_at((enum section_kind)section, slot)->row.key;
            char in_help[160], in_man[160];
            snprintf(in_help, sizeof in_help, "\n  %s = ", key);
            snprintf(in_man, sizeof in_man, "\n\\fB%s\\fR = ", roff_key(key));
            /* In the order of the table. */
            at_help = strstr(at_help, in_help);
            at_man = strstr(at_man, in_man);
            if (at_help == NULL || at_man == NULL) {
                fail_msg("`%s` is not in %s", key, at_help == NULL ? "the help" : "the page");
                return;
            }
        }
    for (const char *line = help; *line != '\0'; line = strchr(line, '\n') + 1)
        if (strchr(line, '\n') > line && strchr(line, '\n')[-1] == ' ')
            fail_msg("a line of the help ends in a space: %.60s", line);
    /* Roff takes a leading dot for a request, and ASCII only is safe in every locale. */
    for (const char *c = man; *c != '\0'; c++)
        assert_true((unsigned char)*c < 0x80);
    assert_int_equal(strncmp(man, ".\\\" Generated", 13), 0);
    free(help);
    free(man);
}

static void the_daemons_page_lists_its_options(void **state)
{
    (void)state;
    static const struct manual_option options[] = {{"-c, --config FILE", "Reads FILE."},
                                                   {"--check FILE", "Says what is wrong."}};
    char *man = NULL;
    size_t bytes;
    FILE *file = open_memstream(&man, &bytes);
    assert_int_equal(schema_print_man(file, "convolvd", options, 2), 0);
    fclose(file);
    assert_non_null(strstr(man, "\\fB\\-c, \\-\\-config FILE\\fR\nReads FILE."));
    assert_non_null(strstr(man, "\\fB\\-\\-check FILE\\fR\nSays what is wrong."));
    free(man);
    assert_int_equal(schema_print_man(stdout, "nothing", NULL, 0), ERROR_ARGUMENT);
}

/* The reach of a gateway's spool follows from what a piece holds, for a time and for a size; a
 * small one has a least number of pieces. */
static void the_reach_of_a_spool_is_stated(void **state)
{
    (void)state;
    static const struct {
        const char *options, *expect;
    } given[] = {
        {"", "; the spool reaches back 30.01 s (228.9 MiB)"},
        {"message = 4 KiB\n", "; the spool reaches back 30 s (228.9 MiB)"},
        {"spool = 64 MiB\n", "; the spool reaches back 8.389 s (64 MiB)"},
        {"spool = 10 ms\n", "; the spool reaches back 516.1 ms (3.938 MiB)"},
    };
    for (size_t i = 0; i < sizeof given / sizeof *given; i++) {
        struct config_errors errors = {0};
        char text[600];
        int status;
        snprintf(text, sizeof text,
                 "[cluster]\n[stream rig]\nsource = rtp\naddress = 127.0.0.1:5004\nrate = 1 MHz\n"
                 "channels = 4\nformat = s16\nfilter = none\n[filter none]\ntype = identity\n"
                 "[sink raw]\ntype = nats\nstream = rig\npartition = rig\nrecord = input\n%s",
                 given[i].options);
        char *report = check(text, &status, &errors);
        if (strstr(report, given[i].expect) == NULL)
            fail_msg("%s: %s", given[i].options, report);
        free(report);
        config_errors_free(&errors);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_plan_is_that_of_paper),
        cmocka_unit_test(the_reach_of_a_spool_is_stated),
        cmocka_unit_test(the_report_says_what_was_planned),
        cmocka_unit_test(what_aliases_is_said),
        cmocka_unit_test(loss_that_cannot_be_seen_is_said),
        cmocka_unit_test(a_ring_shorter_than_max_gap_is_said),
        cmocka_unit_test(what_stands_by_is_said),
        cmocka_unit_test(who_is_heard_is_said),
        cmocka_unit_test(filters_that_cannot_share_a_delay_are_errors),
        cmocka_unit_test(every_example_passes),
        cmocka_unit_test(the_manual_names_every_key),
        cmocka_unit_test(the_daemons_page_lists_its_options),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
