/*
 * Programs and the cache of their binaries (device/program.h): what the compiler told of spilled
 * registers comes from the cache too, and a cache file that is not whole costs one build.
 *
 * Here a compiler that tells of spilled registers is invented (engine_seams.spilled_bytes), which
 * also counts what is compiled.
 */
#include <dirent.h>
#include <dlfcn.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>
#include <nettle/sha2.h>

#include "core/log.h"
#include "device/kernel_cache.h"
#include "device/program.h"
#include "device/spill.h"
#include "tests/support/engine_seams.h"
#include "tests/support/scratch.h"

enum { FILE_MAX = 1 << 20, MARK = 8, DIGEST = MARK + SHA256_DIGEST_SIZE, HEAD = DIGEST + 4 };

static struct device_found found;
static cl_context context;

static const char source[] = "kernel void tiny(global int *out) { out[0] = VALUE; }\n"
                             "kernel void small(global int *out) { out[0] = -VALUE; }\n";

/* ---- the compiler ------------------------------------------------------------------------ */

static int compiled;
static int32_t told; /* of tiny.cl; SPILL_UNKNOWN: nothing */

static int32_t tell(const char *kernels)
{
    assert_non_null(strstr(kernels, "tiny"));
    compiled++;
    return told;
}

static char options_seen[PROGRAM_OPTIONS + 64];

/* Takes the place of OpenCL's: PoCL does not know the option. */
cl_int clBuildProgram(cl_program program, cl_uint count, const cl_device_id *devices,
                      const char *options, void (*notify)(cl_program of, void *context),
                      void *notified)
{
    static const char verbose[] = " -cl-nv-verbose";
    __typeof__(&clBuildProgram) real;
    *(void **)&real = dlsym(RTLD_NEXT, "clBuildProgram");
    snprintf(options_seen, sizeof options_seen, "%s", options);
    char plain[sizeof options_seen];
    snprintf(plain, sizeof plain, "%s", options);
    char *at = strstr(plain, verbose);
    if (at != NULL)
        memmove(at, at + strlen(verbose), strlen(at + strlen(verbose)) + 1);
    return real(program, count, devices, plain, notify, notified);
}

static struct program_request request_of(const struct device_info *info)
{
    return (struct program_request){
        .context = context,
        .device = found.device,
        .info = info,
        .kernels_dir = scratch_folder(),
        .cache_dir = scratch_path("cache"),
        .file = "tiny.cl",
        .options = "-D VALUE=1",
    };
}

/* Builds tiny.cl; returns what is known of spilled registers. */
static int32_t build_on(const struct device_info *info, int32_t says, int want_compiled)
{
    const struct program_request request = request_of(info);
    struct problem problem;
    cl_program program = NULL;
    int32_t spilled_bytes = INT32_MIN;
    compiled = 0;
    told = says;
    if (program_build(&request, &program, &spilled_bytes, &problem) != 0)
        fail_msg("%s", problem.text);
    assert_int_equal(compiled, want_compiled);
    cl_kernel kernel = clCreateKernel(program, "tiny", NULL);
    assert_non_null(kernel);
    clReleaseKernel(kernel);
    clReleaseProgram(program);
    return spilled_bytes;
}

static int32_t build(int32_t says, int want_compiled)
{
    return build_on(&found.info, says, want_compiled);
}

/* ---- the cache's only file ---------------------------------------------------------------- */

static const char *cache_file(void)
{
    static char path[512];
    DIR *folder = opendir(scratch_path("cache"));
    assert_non_null(folder);
    int count = 0;
    for (const struct dirent *entry; (entry = readdir(folder)) != NULL;)
        if (entry->d_name[0] != '.' && ++count)
            snprintf(path, sizeof path, "%s/%s", scratch_path("cache"), entry->d_name);
    closedir(folder);
    assert_int_equal(count, 1);
    return path;
}

static size_t cache_load(uint8_t *bytes)
{
    FILE *file = fopen(cache_file(), "rbe");
    const size_t count = fread(bytes, 1, FILE_MAX, file);
    fclose(file);
    assert_in_range(count, HEAD + 1, FILE_MAX - 1);
    return count;
}

static void cache_store(const uint8_t *bytes, size_t count)
{
    FILE *file = fopen(cache_file(), "wbe");
    assert_int_equal(fwrite(bytes, 1, count, file), count);
    fclose(file);
}

static uint8_t whole[FILE_MAX], damaged[FILE_MAX];

/* ---- tests ------------------------------------------------------------------------------- */

static void the_figure_survives_the_cache(void **state)
{
    (void)state;
    static const int32_t figures[] = {SPILL_UNKNOWN, 0, 24, 1000, INT32_MAX};
    for (size_t i = 0; i < sizeof figures / sizeof figures[0]; i++) {
        scratch_clear();
        scratch_write("tiny.cl", source);
        assert_int_equal(build(figures[i], 1), figures[i]);
        /* The compiler is not asked again. */
        assert_int_equal(build(7, 0), figures[i]);
        assert_int_equal(build(7, 0), figures[i]);
    }
}

/* Compiled anew, and whole from then on. */
static void expect_refused(const char *what, size_t count)
{
    cache_store(damaged, count);
    if (build(40, 1) != 40 || build(7, 0) != 40)
        fail_msg("%s: another figure", what);
}

static void a_damaged_file_is_compiled_anew(void **state)
{
    (void)state;
    assert_int_equal(build(24, 1), 24);
    const size_t bytes = cache_load(whole);
    const size_t lengths[] = {0, 1, MARK, DIGEST, HEAD - 1, HEAD, HEAD + 1, bytes - 1};
    for (size_t i = 0; i < sizeof lengths / sizeof lengths[0]; i++) {
        memcpy(damaged, whole, bytes);
        expect_refused("cut short", lengths[i]);
    }
    memcpy(damaged, whole, bytes);
    damaged[bytes] = 0;
    expect_refused("a byte too long", bytes + 1);
    const size_t places[] = {0,      MARK - 3, MARK - 1, MARK,     DIGEST - 1,
                             DIGEST, HEAD - 1, HEAD,     bytes - 1};
    for (size_t i = 0; i < sizeof places / sizeof places[0]; i++) {
        memcpy(damaged, whole, bytes);
        damaged[places[i]] ^= 1;
        expect_refused("a bit is wrong", bytes);
    }
    memcpy(damaged, whole, bytes);
    cache_store(damaged, bytes);
    assert_int_equal(build(7, 0), 24);
}

/* Version 1: a mark, the digest of the binary, the binary. */
static void a_file_of_the_version_before_is_compiled_anew(void **state)
{
    (void)state;
    assert_int_equal(build(24, 1), 24);
    const size_t bytes = cache_load(whole);
    struct sha256_ctx sha;
    memcpy(damaged, "CVBIN1\n", MARK);
    sha256_init(&sha);
    sha256_update(&sha, bytes - HEAD, whole + HEAD);
    sha256_digest(&sha, SHA256_DIGEST_SIZE, damaged + MARK);
    memcpy(damaged + DIGEST, whole + HEAD, bytes - HEAD);
    expect_refused("version 1", DIGEST + bytes - HEAD);
}

static void kernels_share_the_figure_of_their_program(void **state)
{
    (void)state;
    static struct kernel_cache kernels;
    kernels.target = request_of(&found.info);
    struct kernel *tiny = NULL, *small = NULL;
    struct problem problem;
    compiled = 0;
    told = 24;
    assert_int_equal(kernel_cache_get(&kernels, "tiny.cl", "tiny", "-D VALUE=2", &tiny, &problem),
                     0);
    told = 7;
    assert_int_equal(kernel_cache_get(&kernels, "tiny.cl", "small", "-D VALUE=2", &small, &problem),
                     0);
    assert_int_equal(compiled, 1);
    assert_int_equal(tiny->spilled_bytes, 24);
    assert_int_equal(small->spilled_bytes, 24);
    kernel_cache_close(&kernels);
}

static void nvidias_compiler_is_asked(void **state)
{
    (void)state;
    struct device_info nvidia = found.info;
    assert_int_equal(build(0, 1), 0);
    assert_null(strstr(options_seen, "-cl-nv"));
    snprintf(nvidia.platform, sizeof nvidia.platform, "NVIDIA CUDA");
    assert_int_equal(build_on(&nvidia, 24, 1), 24);
    assert_string_equal(options_seen, "-cl-std=CL1.2 -cl-nv-verbose -D VALUE=1");
    assert_int_equal(build_on(&nvidia, 7, 0), 24);
}

/* PoCL's compiler tells nothing. */
static void of_other_devices_nothing_is_known(void **state)
{
    (void)state;
    engine_seams.spilled_bytes = NULL;
    assert_int_equal(build(24, 0), SPILL_UNKNOWN);
    assert_int_equal(build(24, 0), SPILL_UNKNOWN);
    engine_seams.spilled_bytes = tell;
}

static int fresh(void **state)
{
    (void)state;
    scratch_clear();
    scratch_write("tiny.cl", source);
    return 0;
}

static int open_device(void **state)
{
    (void)state;
    struct problem problem;
    log_set_level(LOG_LEVEL_ERROR);
    engine_seams.spilled_bytes = tell;
    if (device_select("cpu", 0, &found, &problem) < 0)
        return -1;
    context = clCreateContext(NULL, 1, &found.device, NULL, NULL, NULL);
    return context == NULL;
}

static int close_device(void **state)
{
    (void)state;
    clReleaseContext(context);
    return 0;
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup(the_figure_survives_the_cache, fresh),
        cmocka_unit_test_setup(a_damaged_file_is_compiled_anew, fresh),
        cmocka_unit_test_setup(a_file_of_the_version_before_is_compiled_anew, fresh),
        cmocka_unit_test_setup(kernels_share_the_figure_of_their_program, fresh),
        cmocka_unit_test_setup(nvidias_compiler_is_asked, fresh),
        cmocka_unit_test_setup(of_other_devices_nothing_is_known, fresh),
    };
    return cmocka_run_group_tests(tests, open_device, close_device);
}
