/*
 * The line of `--check` on memory nodes, on machines that are copies of the kernel's files.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "report/nodes.h"
#include "tests/support/config_samples.h"
#include "tests/support/scratch.h"

/* Node 0 has a processor that every thread of this test may use; those of node 1 none may. */
static const char *machine(const char *online)
{
    static const char *const folders[] = {
        "sys",
        "sys/devices",
        "sys/devices/system",
        "sys/devices/system/node",
        "sys/devices/system/node/node0",
        "sys/devices/system/node/node1",
        "sys/devices/system/node/node4",
    };
    struct number_set allowed, one = {0};
    char list[80];
    uint32_t first = 0;
    assert_true(processors_allowed(&allowed));
    while (!number_set_has(&allowed, first))
        first++;
    one.words[first / 64] = UINT64_C(1) << first % 64;
    scratch_clear();
    for (size_t i = 0; i < sizeof folders / sizeof folders[0]; i++)
        scratch_make(folders[i]);
    if (online != NULL)
        scratch_write("sys/devices/system/node/online", online);
    scratch_write("sys/devices/system/node/node0/cpulist",
                  number_set_text(&one, list, sizeof list));
    scratch_write("sys/devices/system/node/node1/cpulist", "8190-8191\n");
    scratch_write("sys/devices/system/node/node4/cpulist", "\n");
    return scratch_folder();
}

static void each_setting_has_its_line(void **state)
{
    (void)state;
    static const struct {
        const char *online, *setting, *line, *warning;
    } table[] = {
        {"0\n", "none", "none; threads and memory are where the kernel puts them\n", NULL},
        {"0\n", "auto", "auto; this machine has one, so nothing is bound\n", NULL},
        {NULL, "auto", "auto; the kernel tells none, so nothing is bound\n", NULL},
        {"0-1\n", "auto",
         "auto; that of each device's bus (convolvd --list-devices); this machine has 0-1\n", NULL},
        {"0-1\n", "0", "0; device threads and loops on processors ", NULL},
        {"0-1\n", "1", "1; memory alone, threads run elsewhere\n",
         "`node = 1`: this process may run on none of the node's processors (8190-8191); allow "
         "them (CPUAffinity= of the unit, taskset), or write another node"},
        {"0-1,4\n", "4", "4; memory alone, threads run elsewhere\n", NULL},
        {NULL, "0", "0; not there, so nothing is bound\n", NULL},
    };
    for (size_t i = 0; i < sizeof table / sizeof table[0]; i++) {
        char text[512], expect[256], *report = NULL;
        size_t bytes = 0;
        struct config *config;
        struct config_errors errors;
        snprintf(text, sizeof text,
                 "[device]\nnode = %s\n[stream a]\nsource = generator\nrate = 500 kHz\n"
                 "channels = 2\nfilter = f\n[filter f]\ntype = identity\n"
                 "[sink s]\ntype = rtp\nstream = a\naddress = 127.0.0.1:6000\n",
                 table[i].setting);
        assert_int_equal(sample_load(text, &config, &errors), 0);
        FILE *file = open_memstream(&report, &bytes);
        nodes_report(machine(table[i].online), config, file, &errors);
        fclose(file);
        snprintf(expect, sizeof expect, "memory node: %s", table[i].line);
        print_message("%s", report);
        assert_memory_equal(report, expect, strlen(expect));
        if (table[i].warning != NULL)
            assert_true(sample_message(&errors, 0, true, table[i].warning));
        else
            assert_int_equal(errors.count, 0);
        free(report);
        config_errors_free(&errors);
        config_free(config);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(each_setting_has_its_line)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
