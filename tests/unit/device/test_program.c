/* What a compiler's log says of registers that do not fit (device/program.h). */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

#include "device/program.h"

static void spills_are_read_from_the_log(void **state)
{
    (void)state;
    static const struct {
        const char *log;
        long want;
    } cases[] = {
        {"", 0},
        {"ptxas info    : 0 bytes gmem, 324 bytes cmem[3]\n", 0},
        {"    0 bytes stack frame, 0 bytes spill stores, 0 bytes spill loads\n", 0},
        {"    128 bytes stack frame, 12 bytes spill stores, 16 bytes spill loads\n", 12},
        {"    0 bytes stack frame, 8 bytes spill stores, 8 bytes spill loads\n"
         "    0 bytes stack frame, 336 bytes spill stores, 340 bytes spill loads\n"
         "    0 bytes stack frame, 4 bytes spill stores, 4 bytes spill loads\n",
         336},
        {" bytes spill stores", 0},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++)
        assert_int_equal(program_spilled_bytes(cases[i].log), cases[i].want);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(spills_are_read_from_the_log)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
