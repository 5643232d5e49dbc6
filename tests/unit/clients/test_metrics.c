/*
 * The daemon's status as Prometheus text: rows of {status, lines that the text must hold}, what it
 * must leave out, and the table that docs/monitoring.md shows.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "clients/web/metrics.h"

static char *text_of(const char *status, uint32_t channels_max)
{
    const struct metrics_options options = {.channels_max = channels_max};
    json_error_t error;
    json_t *object = status != NULL ? json_loads(status, 0, &error) : NULL;
    size_t bytes;
    if (status != NULL && object == NULL)
        fail_msg("%s: %s", status, error.text);
    char *text = metrics_text(object, &options, &bytes);
    assert_non_null(text);
    assert_int_equal(bytes, strlen(text));
    json_decref(object);
    return text;
}

/* Whether one of the lines of `text` is `line`. */
static bool has_line(const char *text, const char *line)
{
    const size_t length = strlen(line);
    for (const char *at = text; (at = strstr(at, line)) != NULL; at++)
        if ((at == text || at[-1] == '\n') && at[length] == '\n')
            return true;
    return false;
}

static void each_form(void **state)
{
    (void)state;
    static const struct {
        const char *status, *line;
    } rows[] = {
        {NULL, "convolvd_up 0"},
        {"{}", "convolvd_up 1"},
        {"{\"version\": \"0.1.0\"}", "convolvd_build_info{version=\"0.1.0\"} 1"},
        {"{\"up_ns\": 1500000000}", "convolvd_uptime_seconds 1.5"},
        {"{\"up_ns\": 1500000000}", "# TYPE convolvd_uptime_seconds gauge"},
        {"{\"state\": \"running\"}", "convolvd_state{state=\"running\"} 1"},
        {"{\"state\": \"running\"}", "convolvd_state{state=\"stopping\"} 0"},
        {"{\"osc\": {\"packets\": 9007199254740993}}",
         "convolvd_osc_packets_total 9007199254740993"},
        {"{\"devices\": [{\"index\": 0, \"engine\": 3, \"loop\": 2, \"state\": \"given up\"}]}",
         "convolvd_device_state{device=\"0\",engine=\"3\",loop=\"2\",state=\"given up\"} 1"},
        {"{\"devices\": [{\"index\": 1, \"losses\": {\"wrong result\": 2}}]}",
         "convolvd_device_losses_total{device=\"1\",engine=\"\",loop=\"\",cause=\"wrong result\"} "
         "2"},
        {"{\"devices\": [{\"index\": 0, \"name\": \"a \\\"b\\\" \\\\ c\\nd\", \"platform\": "
         "\"p\"}]}",
         "convolvd_device_info{device=\"0\",engine=\"\",loop=\"\",name=\"a \\\"b\\\" \\\\ "
         "c\\nd\",platform=\"p\","
         "driver=\"\"} 1"},
        {"{\"streams\": [{\"name\": \"s\", \"rate_ppm\": -2.5}]}",
         "convolvd_stream_rate_deviation_ratio{stream=\"s\"} -2.5e-06"},
        {"{\"streams\": [{\"name\": \"s\", \"frames_in\": {\"gap\": {\"network\": 3, \"late\": "
         "4}}}]}",
         "convolvd_stream_lost_frames{stream=\"s\",cause=\"late\"} 4"},
        {"{\"streams\": [{\"name\": \"s\", \"frames_in\": {\"gap\": {\"network\": 3, \"late\": "
         "4}}}]}",
         "convolvd_stream_lost_frames_total{stream=\"s\"} 7"},
        {"{\"streams\": [{\"name\": \"s\", \"channels\": [{}, {}, {}]}]}",
         "convolvd_stream_channels{stream=\"s\"} 3"},
        {"{\"streams\": [{\"name\": \"s\", \"sinks\": [{\"name\": \"out\", \"pending\": 12}]}]}",
         "convolvd_sink_pending_frames{stream=\"s\",sink=\"out\"} 12"},
        {"{\"streams\": [{\"name\": \"s\", \"sinks\": [{\"name\": \"log\", \"partition\": "
         "{\"name\": "
         "\"rig\", \"log\": \"log\", \"state\": \"owns\"}}]}]}",
         "convolvd_partition_owned{stream=\"s\",sink=\"log\",partition=\"rig\",log=\"log\"} 1"},
        {"{\"streams\": [{\"name\": \"s\", \"sinks\": [{\"name\": \"log\", \"partition\": "
         "{\"name\": "
         "\"rig\", \"log\": \"log\", \"state\": \"follows\"}}]}]}",
         "convolvd_partition_owned{stream=\"s\",sink=\"log\",partition=\"rig\",log=\"log\"} 0"},
        {"{\"streams\": [{\"name\": \"s\", \"sinks\": [{\"name\": \"log\", \"partition\": "
         "{\"name\": "
         "\"rig\", \"log\": \"raw\", \"owner\": null}}]}]}",
         "convolvd_partition_info{stream=\"s\",sink=\"log\",partition=\"rig\",log=\"raw\","
         "owner=\"\"} 1"},
        {"{\"streams\": [{\"name\": \"s\", \"sinks\": [{\"name\": \"log\", \"partition\": "
         "{\"name\": "
         "\"rig\", \"log\": \"log\", \"lag_ns\": 12500000}}]}]}",
         "convolvd_partition_lag_seconds{stream=\"s\",sink=\"log\",partition=\"rig\",log=\"log\"} "
         "0.0125"},
        {"{\"streams\": [{\"name\": \"s\", \"sinks\": [{\"name\": \"log\", \"partition\": "
         "{\"name\": "
         "\"rig\", \"log\": \"log\", \"standing\": \"full\"}}]}]}",
         "convolvd_partition_standing{stream=\"s\",sink=\"log\",partition=\"rig\",log=\"log\","
         "state=\"full\"} 1"},
        {"{\"streams\": [{\"name\": \"s\", \"sinks\": [{\"name\": \"log\", \"partition\": "
         "{\"name\": "
         "\"rig\", \"log\": \"log\", \"capacity\": 0.8}}]}]}",
         "convolvd_partition_capacity_ratio{stream=\"s\",sink=\"log\",partition=\"rig\",log="
         "\"log\"} "
         "0.8"},
        {"{\"streams\": [{\"name\": \"s\", \"sinks\": [{\"name\": \"log\", \"partition\": "
         "{\"name\": "
         "\"rig\", \"log\": \"log\", \"replayed_events\": 9}}]}]}",
         "convolvd_partition_replayed_events_total{stream=\"s\",sink=\"log\",partition=\"rig\",log="
         "\"log\"} "
         "9"},
        {"{\"streams\": [{\"name\": \"s\", \"channels\": [{\"unit\": \"mV\", \"rms_1s\": 0.25}]}]}",
         "convolvd_channel_rms{stream=\"s\",channel=\"1\",unit=\"mV\"} 0.25"},
        {"{\"streams\": [{\"name\": \"s\", \"analyses\": [{\"name\": \"bursts\", \"dead\": 7}]}]}",
         "convolvd_analysis_dead_frames_total{stream=\"s\",analysis=\"bursts\"} 7"},
        {"{\"streams\": [{\"name\": \"s\", \"analyses\": [{\"name\": \"b\", \"sinks\": [{\"name\": "
         "\"table\", \"dropped\": {\"disk\": 3}}]}]}]}",
         "convolvd_analysis_sink_dropped_events_total{stream=\"s\",analysis=\"b\",sink=\"table\","
         "cause=\"disk\"} 3"},
        {"{\"streams\": [{\"name\": \"s\", \"analyses\": [{\"name\": \"b\", \"kind\": \"hit\", "
         "\"totals\": [{}, {\"events\": 5}]}]}]}",
         "convolvd_analysis_channel_events_total{stream=\"s\",analysis=\"b\",kind=\"hit\","
         "channel=\"2\"} 5"},
        {"{\"streams\": [{\"name\": \"s\", \"analyses\": [{\"name\": \"where\", \"kind\": "
         "\"source\", "
         "\"totals\": [{\"energy_eu\": 2.5}]}]}]}",
         "convolvd_analysis_channel_energy_eu_total{stream=\"s\",analysis=\"where\",kind="
         "\"source\","
         "channel=\"0\"} 2.5"},
        {"{\"streams\": [{\"name\": \"s\", \"analyses\": [{\"name\": \"b\", \"kind\": \"hit\", "
         "\"totals\": [{\"strength_nvs\": 42.5}]}]}]}",
         "convolvd_analysis_channel_strength_nvs_total{stream=\"s\",analysis=\"b\",kind=\"hit\","
         "channel=\"1\"} 42.5"},
        {"{\"alarms\": [{\"name\": \"quiet\", \"stream\": \"s\", \"channel\": null, \"quantity\": "
         "\"level\", \"state\": \"active\"}]}",
         "convolvd_alarm_active{alarm=\"quiet\",stream=\"s\",channel=\"\",quantity=\"level\"} 1"},
        {"{\"alarms\": [{\"name\": \"quiet\", \"stream\": \"s\", \"channel\": 3, \"quantity\": "
         "\"level\", \"state\": \"ended\"}]}",
         "convolvd_alarm_active{alarm=\"quiet\",stream=\"s\",channel=\"3\",quantity=\"level\"} 0"},
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        char *text = text_of(rows[i].status, 8);
        if (!has_line(text, rows[i].line))
            fail_msg("%s\nhas no line\n%s\nbut\n%s", rows[i].status, rows[i].line, text);
        free(text);
    }
}

static const char histogram_status[] =
    "{\"histogram_bounds_ns\": [10000, 2000000], \"streams\": [{\"name\": \"s\", \"latency_ns\": "
    "{\"wait\": {\"count\": 7, \"sum\": 5000000, \"buckets\": [1, 6]}}}]}";

static void a_histogram(void **state)
{
    (void)state;
    static const char want[] =
        "# TYPE convolvd_stream_latency_seconds histogram\n"
        "convolvd_stream_latency_seconds_bucket{stream=\"s\",stage=\"wait\",le=\"1e-05\"} 1\n"
        "convolvd_stream_latency_seconds_bucket{stream=\"s\",stage=\"wait\",le=\"0.002\"} 6\n"
        "convolvd_stream_latency_seconds_bucket{stream=\"s\",stage=\"wait\",le=\"+Inf\"} 7\n"
        "convolvd_stream_latency_seconds_sum{stream=\"s\",stage=\"wait\"} 0.005\n"
        "convolvd_stream_latency_seconds_count{stream=\"s\",stage=\"wait\"} 7\n";
    char *text = text_of(histogram_status, 8);
    if (strstr(text, want) == NULL)
        fail_msg("%s", text);
    free(text);
}

/* What does not fit the table gives no sample, and no header without one. */
static void what_is_left_out(void **state)
{
    (void)state;
    static const struct {
        const char *status, *absent;
    } rows[] = {
        {NULL, "build_info"},
        {"{\"up_ns\": null}", "uptime"},
        {"{\"up_ns\": \"long\"}", "uptime"},
        {"{\"state\": 3}", "convolvd_state"},
        {"{\"devices\": 7, \"streams\": {\"name\": 3}}", "device_"},
        {"{\"streams\": [3, null, []]}", "stream_"},
        {"{\"streams\": [{\"name\": \"s\", \"frames_in\": 3}]}", "lost"},
        {"{\"streams\": [{\"name\": \"s\", \"sinks\": [{\"name\": \"out\"}]}]}", "partition"},
        {"{\"streams\": [{\"name\": \"s\", \"sinks\": [{\"name\": \"log\", \"partition\": "
         "{\"name\": "
         "\"rig\", \"log\": \"raw\", \"standing\": null, \"place\": null}}]}]}",
         "partition_standing"},
        {"{\"streams\": [{\"name\": \"s\", \"sinks\": [{\"name\": \"log\", \"partition\": "
         "{\"name\": "
         "\"rig\", \"log\": \"log\", \"lag_ns\": null}}]}]}",
         "lag"},
        /* More buckets than bounds, or more bounds than a histogram may have. */
        {"{\"histogram_bounds_ns\": [1], \"streams\": [{\"latency_ns\": {\"wait\": {\"count\": 1, "
         "\"sum\": 1, \"buckets\": [1, 1]}}}]}",
         "latency"},
        {"{\"histogram_bounds_ns\": [1,2,3,4,5,6,7,8,9,10,11,12,13,14,15,16,17,18,19,20], "
         "\"streams\": [{\"latency_ns\": {\"wait\": {\"count\": 1, \"sum\": 1, \"buckets\": "
         "[1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1]}}}]}",
         "latency"},
        {"{\"streams\": [{\"name\": \"s\", \"channels\": [{\"dc\": 1}, {\"dc\": 1}, {\"dc\": "
         "1}]}]}",
         "channel=\"3\""},
        {"{\"streams\": [{\"name\": \"s\", \"analyses\": [{\"name\": \"b\", \"totals\": [{}, {}, "
         "{\"events\": 5}]}]}]}",
         "channel=\"3\""},
        {"{\"streams\": [{\"name\": \"s\", \"analyses\": [{\"name\": \"b\", \"totals\": "
         "[{\"energy_eu\": null}]}]}]}",
         "energy"},
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        char *text = text_of(rows[i].status, 2);
        if (strstr(text, rows[i].absent) != NULL)
            fail_msg("%s\nhas %s:\n%s", rows[i].status, rows[i].absent, text);
        free(text);
    }
}

/* A family is one block with one header, whatever number of streams it is about. */
static void families_stand_together(void **state)
{
    (void)state;
    char *text = text_of("{\"streams\": [{\"name\": \"a\", \"load\": 0.1, \"blocks\": 1}, "
                         "{\"name\": \"b\", \"load\": 0.2, \"blocks\": 2}]}",
                         0);
    static const char want[] = "# TYPE convolvd_stream_load_ratio gauge\n"
                               "convolvd_stream_load_ratio{stream=\"a\"} 0.1\n"
                               "convolvd_stream_load_ratio{stream=\"b\"} 0.2\n";
    assert_non_null(strstr(text, want));
    free(text);
}

/* docs/monitoring.md shows the table of metrics as it is. */
static void the_page_has_the_table(void **state)
{
    (void)state;
    enum { PAGE_BYTES = 1 << 17 };
    static char page[PAGE_BYTES];
    char *table = NULL;
    size_t bytes;
    FILE *out = open_memstream(&table, &bytes);
    metrics_document(out);
    fclose(out);
    FILE *file = fopen("docs/monitoring.md", "re");
    assert_non_null(file);
    page[fread(page, 1, sizeof page - 1, file)] = '\0';
    fclose(file);
    if (strstr(page, table) == NULL)
        fail_msg("docs/monitoring.md is to hold:\n%s", table);
    free(table);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(each_form),
        cmocka_unit_test(a_histogram),
        cmocka_unit_test(what_is_left_out),
        cmocka_unit_test(families_stand_together),
        cmocka_unit_test(the_page_has_the_table),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
