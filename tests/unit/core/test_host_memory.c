/*
 * Available memory: the least of what the machine and each control group on the way up leave, read
 * from copies of the kernel's files.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <stdio.h>
#include <string.h>

#include "core/host_memory.h"
#include "tests/support/scratch.h"

static const uint64_t MIB = 1 << 20;

static void write_files(const char *limit_of_unit, const char *limit_of_slice)
{
    scratch_clear();
    static const char *const folders[] = {"proc",
                                          "proc/self",
                                          "sys",
                                          "sys/fs",
                                          "sys/fs/cgroup",
                                          "sys/fs/cgroup/system.slice",
                                          "sys/fs/cgroup/system.slice/c.service"};
    for (size_t i = 0; i < sizeof folders / sizeof folders[0]; i++)
        scratch_make(folders[i]);
    scratch_write("proc/meminfo", "MemTotal: 999999 kB\nMemAvailable:  512000 kB\n");
    scratch_write("proc/self/cgroup", "1:name=x:/other\n0::/system.slice/c.service\n");
    scratch_write("sys/fs/cgroup/system.slice/c.service/memory.max", limit_of_unit);
    scratch_write("sys/fs/cgroup/system.slice/c.service/memory.current", "157286400\n");
    scratch_write("sys/fs/cgroup/system.slice/c.service/memory.stat",
                  "anon 1\ninactive_file 52428800\n");
    scratch_write("sys/fs/cgroup/system.slice/memory.max", limit_of_slice);
    scratch_write("sys/fs/cgroup/system.slice/memory.current", "104857600\n");
}

static void the_least_counts(void **state)
{
    (void)state;
    static const struct {
        const char *unit, *slice;
        uint64_t left_mib; /* 500 MiB are available; 100 MiB used by either */
    } table[] = {{"max\n", "max\n", 500},
                 {"314572800\n", "max\n", 200},
                 {"max\n", "209715200\n", 100},
                 {"314572800\n", "209715200\n", 100},
                 {"52428800\n", "max\n", 0}};
    for (size_t i = 0; i < sizeof table / sizeof table[0]; i++) {
        write_files(table[i].unit, table[i].slice);
        assert_int_equal(host_memory_available(scratch_folder()), table[i].left_mib * MIB);
    }
    scratch_write("proc/self/cgroup", "1:name=x:/other\n");
    assert_int_equal(host_memory_available(scratch_folder()), 500 * MIB);
    assert_int_equal(host_memory_available("/nowhere"), UINT64_MAX);
    assert_true(host_memory_available("") > 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(the_least_counts)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
