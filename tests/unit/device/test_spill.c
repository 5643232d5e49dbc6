/* What a compiler's log says of registers that do not fit (device/spill.h). */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "device/spill.h"

static void spills_are_read_from_the_log(void **state)
{
    (void)state;
    static const struct {
        const char *log;
        int32_t want;
    } cases[] = {
        /* nothing is told */
        {"", SPILL_UNKNOWN},
        {"\n", SPILL_UNKNOWN},
        {"<kernel>:12:9: warning: unused variable 'spill'\n", SPILL_UNKNOWN},
        {"ptxas info    : 0 bytes gmem, 324 bytes cmem[3]\n", SPILL_UNKNOWN},
        /* a kernel, as drivers write it */
        {"ptxas info    : 0 bytes gmem\n"
         "ptxas info    : Compiling entry function 'fused' for 'sm_90a'\n"
         "ptxas info    : Function properties for fused\n"
         "ptxas         .     0 bytes stack frame, 0 bytes spill stores, 0 bytes spill loads\n"
         "ptxas info    : Used 96 registers, used 1 barriers, 640 bytes cmem[0]\n",
         0},
        {"ptxas info    : Function properties for fused\n"
         "    128 bytes stack frame, 12 bytes spill stores, 16 bytes spill loads\n"
         "ptxas info    : Used 128 registers, 640 bytes cmem[0]\n",
         12},
        {"ptxas warning : Registers are spilled to local memory in function 'fused', 8 bytes spill "
         "stores, 12 bytes spill loads\n",
         8},
        {"    0 bytes stack frame, 20 bytes spill stores, 20 bytes spill loads", 20},
        /* several: the worst counts, wherever it stands */
        {"ptxas info    : Function properties for staged_forward\n"
         "    0 bytes stack frame, 8 bytes spill stores, 8 bytes spill loads\n"
         "ptxas info    : Used 64 registers\n"
         "ptxas info    : Function properties for staged_inverse\n"
         "    344 bytes stack frame, 336 bytes spill stores, 340 bytes spill loads\n"
         "ptxas info    : Used 64 registers\n"
         "ptxas info    : Function properties for staged_rows\n"
         "    0 bytes stack frame, 4 bytes spill stores, 4 bytes spill loads\n",
         336},
        {"    0 bytes stack frame, 0 bytes spill stores, 0 bytes spill loads\n"
         "    0 bytes stack frame, 52 bytes spill stores, 48 bytes spill loads\n",
         52},
        /* garbage */
        {" bytes spill stores", SPILL_UNKNOWN},
        {"many bytes spill stores", SPILL_UNKNOWN},
        {"12 bytes spill store", SPILL_UNKNOWN},
        {"7 bytes spill stores", 7},
        {"-7 bytes spill stores", 7},
        {" bytes spill stores bytes spill stores, 3 bytes spill stores", 3},
        {"2147483648 bytes spill stores", INT32_MAX},
        {"99999999999999999999999 bytes spill stores", INT32_MAX},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++)
        assert_int_equal(spill_of_log(cases[i].log), cases[i].want);
}

static void four_registers_harm_nobody(void **state)
{
    (void)state;
    assert_false(spill_harms(SPILL_UNKNOWN));
    assert_false(spill_harms(0));
    assert_false(spill_harms(16));
    assert_true(spill_harms(20));
    assert_true(spill_harms(INT32_MAX));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(spills_are_read_from_the_log),
        cmocka_unit_test(four_registers_harm_nobody),
    };
    return cmocka_run_group_tests_name("spill", tests, NULL, NULL);
}
