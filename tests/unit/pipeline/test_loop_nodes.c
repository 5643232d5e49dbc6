/*
 * Loops follow the devices that serve them onto a memory node, and come back when these are of
 * several nodes or of none. Two processors of this machine stand for two nodes.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <dirent.h>
#include <stdio.h>
#include <string.h>

#include "pipeline/loops.h"
#include "pipeline/nodes.h"

enum { MAIN, OTHER, LOOPS };

static struct number_set all;
static struct node_place places[2], nowhere, no_processors = {.bound = true};

/* Nodes 0 and 1 have a processor each. */
static void make_places(void)
{
    uint32_t node = 0;
    for (uint32_t i = 0; i < NUMBER_SET_BITS && node < 2; i++) {
        if (!number_set_has(&all, i))
            continue;
        places[node].bound = true;
        places[node].node = node;
        places[node++].processors.words[i / 64] = UINT64_C(1) << i % 64;
    }
}

/* A line of a file of a thread, behind `key`; false: there is none. */
static bool read_line(const char *thread, const char *name, const char *key, char line[256])
{
    char path[80];
    snprintf(path, sizeof path, "/proc/self/task/%.20s/%s", thread, name);
    FILE *file = fopen(path, "re");
    bool found = false;
    while (file != NULL && !found && fgets(line, 256, file) != NULL)
        found = strncmp(line, key, strlen(key)) == 0;
    if (file != NULL)
        fclose(file);
    if (found)
        memmove(line, line + strlen(key), strlen(line + strlen(key)) + 1);
    return found;
}

/* Where the threads called `name` may run; returns how many there are. */
static int find_threads(const char *name, struct number_set *processors)
{
    int count = 0;
    const struct dirent *entry;
    DIR *threads = opendir("/proc/self/task");
    assert_non_null(threads);
    while ((entry = readdir(threads)) != NULL) {
        char line[256];
        if (!read_line(entry->d_name, "comm", name, line) ||
            !read_line(entry->d_name, "status", "Cpus_allowed_list:\t", line))
            continue;
        assert_true(number_set_parse(line, processors));
        count++;
    }
    closedir(threads);
    return count;
}

static void assert_runs_on(uint32_t loop, const struct number_set *expect)
{
    struct number_set seen = {0};
    if (loop == MAIN)
        assert_true(processors_allowed(&seen));
    else
        assert_int_equal(find_threads("convolvd-loop", &seen), 1);
    assert_memory_equal(&seen, expect, sizeof seen);
}

static void loops_follow_their_devices(void **state)
{
    (void)state;
    const struct node_place *const zero = &places[0], *const one = &places[1];
    const struct {
        struct node_device devices[3];
        uint32_t count;
        const struct number_set *expect[LOOPS];
    } table[] = {
        {{{0}}, 0, {&all, &all}},
        {{{MAIN, &nowhere}}, 1, {&all, &all}},
        {{{MAIN, zero}, {MAIN, &nowhere}}, 2, {&zero->processors, &all}},
        {{{MAIN, zero}, {OTHER, one}}, 2, {&zero->processors, &one->processors}},
        {{{MAIN, zero}, {OTHER, one}, {MAIN, one}}, 3, {&all, &one->processors}},
        {{{MAIN, one}, {OTHER, one}}, 2, {&one->processors, &one->processors}},
        {{{MAIN, &no_processors}, {OTHER, zero}}, 2, {&all, &zero->processors}},
        {{{OTHER, &nowhere}}, 1, {&all, &all}},
    };
    uv_loop_t loop;
    struct loops *loops;
    struct nodes nodes = {0};
    assert_true(processors_allowed(&all));
    if (number_set_count(&all) < 2)
        skip();
    make_places();
    assert_int_equal(uv_loop_init(&loop), 0);
    assert_int_equal(loops_open(&loop, LOOPS - 1, &loops, NULL), 0);
    nodes_open(&nodes);
    for (int i = 0; i < 5000 && find_threads("convolvd-loop", &(struct number_set){{0}}) == 0; i++)
        uv_sleep(1); /* until the thread has its name */
    for (size_t i = 0; i < sizeof table / sizeof table[0]; i++) {
        print_message("row %zu\n", i);
        nodes_settle(&nodes, loops, table[i].devices, table[i].count);
        for (uint32_t l = 0; l < LOOPS; l++)
            assert_runs_on(l, table[i].expect[l]);
    }
    loops_stop(loops);
    loops_close(loops);
    assert_int_equal(uv_loop_close(&loop), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(loops_follow_their_devices)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
