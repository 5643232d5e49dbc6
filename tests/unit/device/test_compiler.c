/*
 * Programs that are compiled in a process of its own (device/compiler.h): while streams run this
 * process compiles nothing, unless its child fails or hangs.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include <dlfcn.h>
#include <unistd.h>

#include "core/clock.h"
#include "device/compiler.h"
#include "device/compiler_child.h"
#include "device/program.h"

#define CHILD  "CONVOLVD_TEST_CHILD" /* what a child does: "compiles", "fails", "hangs" */
#define FOLDER "CONVOLVD_TEST_FOLDER"

enum { PATH_BYTES = 256 };

/* A child compiles within this time, sanitized and on a busy machine too. */
static const int64_t patient_ns = 30 * NS_PER_SECOND, hanging_ns = NS_PER_SECOND;

static char folder[] = "/tmp/convolvd-compiler-XXXXXX";
static struct device_found found;
static cl_context context;

/* ---- what this process compiles ---------------------------------------------------------- */

static int compiled;

/* Takes the place of OpenCL's. */
cl_program clCreateProgramWithSource(cl_context of, cl_uint count, const char **strings,
                                     const size_t *lengths, cl_int *code)
{
    __typeof__(&clCreateProgramWithSource) real;
    *(void **)&real = dlsym(RTLD_NEXT, "clCreateProgramWithSource");
    compiled++;
    return real(of, count, strings, lengths, code);
}

/* ---- children ---------------------------------------------------------------------------- */

static FILE *starts(const char *mode)
{
    char path[PATH_BYTES];
    snprintf(path, sizeof path, "%s/starts", getenv(FOLDER));
    return fopen(path, mode);
}

static int child_main(int argc, char **argv)
{
    FILE *file = starts("ae");
    fputc('.', file);
    fclose(file);
    const char *does = getenv(CHILD);
    if (strcmp(does, "hangs") == 0)
        for (;;)
            pause();
    return strcmp(does, "fails") == 0 ? 1 : compiler_main(argc, argv);
}

static int children_started(void)
{
    FILE *file = starts("re");
    if (file == NULL)
        return 0;
    fseek(file, 0, SEEK_END);
    const long count = ftell(file);
    fclose(file);
    return (int)count;
}

/* ---- tests ------------------------------------------------------------------------------- */

/* Builds a program that no cache has; it is right in the end whatever its child does. */
static void build(const char *child, int want_children, int want_compiled)
{
    static int programs;
    char options[32];
    snprintf(options, sizeof options, "-DVALUE=%d", ++programs);
    setenv(CHILD, child, 1);
    const struct program_request request = {.context = context,
                                            .device = found.device,
                                            .info = &found.info,
                                            .kernels_dir = folder,
                                            .cache_dir = folder,
                                            .file = "tiny.cl",
                                            .options = options,
                                            .build_apart = compiler_build};
    const int children = children_started();
    struct problem problem;
    cl_program program;
    compiled = 0;
    if (program_build(&request, &program, NULL, &problem) != 0)
        fail_msg("%s", problem.text);
    assert_int_equal(children_started() - children, want_children);
    assert_int_equal(compiled, want_compiled);
    cl_kernel kernel = clCreateKernel(program, "tiny", NULL);
    assert_non_null(kernel);
    clReleaseKernel(kernel);
    clReleaseProgram(program);
    /* In the cache, whoever compiled it. */
    assert_int_equal(program_build(&request, &program, NULL, &problem), 0);
    assert_int_equal(compiled, want_compiled);
    clReleaseProgram(program);
}

static void without_streams_it_compiles_by_itself(void **state)
{
    (void)state;
    compiler_offer(patient_ns);
    build("compiles", 0, 1);
    compiler_streams_run();
}

static void while_streams_run_a_child_compiles(void **state)
{
    (void)state;
    build("compiles", 1, 0);
    build("compiles", 1, 0);
}

static void a_child_that_fails_changes_nothing(void **state)
{
    (void)state;
    build("fails", 1, 1);
    build("compiles", 1, 0);
}

static void a_child_that_hangs_is_the_last(void **state)
{
    (void)state;
    compiler_offer(hanging_ns);
    const int64_t begin_ns = clock_monotonic_ns();
    build("hangs", 1, 1);
    assert_true(clock_monotonic_ns() - begin_ns >= hanging_ns);
    build("hangs", 0, 1);
}

static int open_device(void **state)
{
    (void)state;
    struct problem problem;
    char path[PATH_BYTES];
    if (mkdtemp(folder) == NULL || setenv(FOLDER, folder, 1) != 0)
        return -1;
    snprintf(path, sizeof path, "%s/tiny.cl", folder);
    FILE *file = fopen(path, "we");
    fputs("kernel void tiny(global int *out) { out[0] = VALUE; }\n", file);
    fclose(file);
    if (device_select("cpu", 0, &found, &problem) < 0)
        return -1;
    context = clCreateContext(NULL, 1, &found.device, NULL, NULL, NULL);
    return context == NULL;
}

static int close_device(void **state)
{
    (void)state;
    char command[PATH_BYTES];
    clReleaseContext(context);
    snprintf(command, sizeof command, "rm -rf %s", folder);
    return system(command);
}

int main(int argc, char **argv)
{
    if (argc > 2 && strcmp(argv[1], COMPILER_ARGUMENT) == 0)
        return child_main(argc, argv);
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(without_streams_it_compiles_by_itself),
        cmocka_unit_test(while_streams_run_a_child_compiles),
        cmocka_unit_test(a_child_that_fails_changes_nothing),
        cmocka_unit_test(a_child_that_hangs_is_the_last),
    };
    return cmocka_run_group_tests(tests, open_device, close_device);
}
