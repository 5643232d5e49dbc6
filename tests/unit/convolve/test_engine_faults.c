/*
 * What goes wrong, on purpose: a variant with wrong spectra is refused and the next one
 * taken, memory that runs out says what to raise, a missing device lists those present,
 * a damaged binary cache costs a build and nothing else, a full disk no more, a byte beside a piece
 * of device memory is noticed, and a first batch meets no page fault.
 *
 * takes: 2 s CPU in 2 s
 * threads: yes
 */
#include <dirent.h>
#include <errno.h>
#include <sched.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#include "convolve/check/prepare.h"
#include "device/pocl_cache.h"
#include "tests/support/engine_harness.h"
#include "tests/support/engine_seams.h"
#include "tests/support/scratch.h"

static const char *test_device(void)
{
    const char *device = getenv("CONVOLVD_TEST_DEVICE");
    return device != NULL ? device : "cpu";
}

static void wrong_variant_is_refused(void **state)
{
    (void)state;
    struct engine *engine = harness_engine();
    struct test_signal *signal = signal_noise("s16le", 2, 1000, 1);
    /* The first turn finds out which variant is preferred; the second makes that one wrong. */
    const char *preferred = NULL;
    for (int turn = 0; turn < 2; turn++) {
        struct test_plan plan;
        test_plan_diagonal(&plan, signal, 64, 65, false, OUTPUT_REAL);
        engine_seams.wrong_variant = preferred;
        test_plan_prepare(engine, &plan, signal);
        engine_seams.wrong_variant = NULL;
        const char *chosen = plan_info(plan.plan)->variant;
        if (preferred != NULL)
            assert_string_not_equal(chosen, preferred);
        preferred = chosen;
        assert_true(plan_info(plan.plan)->self_test_error < 1e-6);
        struct test_run run = run_plan(engine, &plan, signal, &(struct run_options){.seed = 1});
        expect_convolution("after a refusal", &plan, signal, &run, 0, run.frames);
        test_run_free(&run);
        test_plan_free(&plan);
    }
    /* Asked for by name and wrong: an error that says so. */
    struct test_plan plan;
    test_plan_diagonal(&plan, signal, 64, 65, false, OUTPUT_REAL);
    plan.spec.inputs = 2;
    plan.spec.format = signal->format;
    plan.spec.scales = signal->scales;
    plan.spec.taps = (const struct taps *const *)plan.taps;
    plan.spec.edges = plan.edges;
    plan.spec.outputs = plan.outputs;
    plan.spec.variant = "overlap-add";
    struct problem problem = {0};
    engine_seams.wrong_variant = "overlap-add";
    assert_int_equal(plan_prepare(engine, &plan.spec, &plan.plan, &problem), ERROR_ACCURACY);
    engine_seams.wrong_variant = NULL;
    assert_non_null(strstr(problem.text, "error bound"));
    plan.spec.variant = "no such variant";
    assert_int_equal(plan_prepare(engine, &plan.spec, &plan.plan, &problem), ERROR_UNSUPPORTED);
    test_plan_free(&plan);
    signal_free(signal);
    harness_engine_close(engine);
}

static void full_memory_says_what_to_raise(void **state)
{
    (void)state;
    const struct engine_options options = {
        .device = test_device(), .input_bytes = 1 << 20, .batch_output_floats = 1 << 12};
    struct engine *engine = NULL;
    struct problem problem = {0};
    assert_int_equal(engine_open(&options, &engine, &problem), 0);
    struct ring *ring = NULL;
    assert_int_equal(engine_ring_open(engine, 1 << 20, 4, &ring, &problem), ERROR_FULL);
    assert_non_null(strstr(problem.text, "raise `input memory`"));

    struct test_signal *signal = signal_noise("s16le", 1, 64, 1);
    struct test_plan plan;
    test_plan_diagonal(&plan, signal, 8192, 65, false, OUTPUT_REAL);
    plan.spec.inputs = 1;
    plan.spec.format = signal->format;
    plan.spec.scales = signal->scales;
    plan.spec.taps = (const struct taps *const *)plan.taps;
    plan.spec.edges = plan.edges;
    plan.spec.outputs = plan.outputs;
    assert_int_equal(plan_prepare(engine, &plan.spec, &plan.plan, &problem), ERROR_LIMIT);
    assert_non_null(strstr(problem.text, "raise `batch memory`"));
    test_plan_free(&plan);
    signal_free(signal);
    engine_close(engine);
}

static void full_batch_says_so(void **state)
{
    (void)state;
    const struct engine_options options = {.device = test_device(), .batch_output_floats = 1 << 10};
    struct engine *engine = NULL;
    struct problem problem = {0};
    assert_int_equal(engine_open(&options, &engine, &problem), 0);
    struct test_signal *signal = signal_noise("s16le", 2, 64, 1);
    struct test_plan plan;
    test_plan_diagonal(&plan, signal, 64, 65, false, OUTPUT_REAL);
    test_plan_prepare(engine, &plan, signal);
    struct ring *ring = NULL;
    assert_int_equal(engine_ring_open(engine, 4096, 4, &ring, &problem), 0);
    struct batch *batch = engine_batch_take(engine);
    /* 1024 floats hold 8 blocks of 64 frames of 2 outputs. */
    assert_int_equal(engine_batch_room(engine, batch, plan.plan), 8);
    struct batch_item item = {
        .plan = plan.plan, .ring = ring, .blocks = 5, .write_until = 320, .absent = true};
    assert_int_equal(engine_batch_add(engine, batch, &item), 0);
    assert_int_equal(engine_batch_room(engine, batch, plan.plan), 3);
    assert_int_equal(engine_batch_add(engine, batch, &item), ERROR_FULL);
    engine_batch_release(engine, batch);
    /* All batches taken: NULL, not a wait. */
    struct batch *taken[32];
    int count = 0;
    while ((batch = engine_batch_take(engine)) != NULL)
        taken[count++] = batch;
    assert_int_equal(count, 6);
    while (count > 0)
        engine_batch_release(engine, taken[--count]);
    engine_ring_close(engine, ring);
    test_plan_free(&plan);
    signal_free(signal);
    engine_close(engine);
}

#ifdef MADV_POPULATE_WRITE
static void expect_resident(const char *what, int batch, const void *from, size_t bytes)
{
    const uintptr_t page = (uintptr_t)sysconf(_SC_PAGESIZE);
    for (uintptr_t at = (uintptr_t)from / page * page; at < (uintptr_t)from + bytes; at += page) {
        unsigned char held = 0;
        assert_int_equal(mincore((void *)at, page, &held), 0);
        if (!(held & 1))
            fail_msg("batch %d: the %s would wait for a page", batch, what);
    }
}
#endif

/* Every batch, the largest of the plan, and the ring: pages are there before the first block. */
static void first_batches_meet_no_page_fault(void **state)
{
    (void)state;
#ifdef MADV_POPULATE_WRITE
    struct engine *engine = NULL;
    struct problem problem = {0};
    const struct engine_options options = {.device = test_device()};
    assert_int_equal(engine_open(&options, &engine, &problem), 0);
    struct test_signal *signal = signal_noise("s16le", 4, 64, 1);
    struct test_plan plan;
    test_plan_diagonal(&plan, signal, 1024, 65, false, OUTPUT_REAL);
    test_plan_prepare(engine, &plan, signal);
    struct ring *ring = NULL;
    assert_int_equal(engine_ring_open(engine, 1 << 20, 8, &ring, &problem), 0);
    expect_resident("ring", 0, ring->bytes, (size_t)ring->frames * ring->frame_bytes);
    expect_resident("presence", 0, ring->present, ring->frames / 8);
    struct batch *batch;
    struct batch *taken[32];
    int count = 0;
    while ((batch = engine_batch_take(engine)) != NULL) {
        struct batch_item item = {
            .plan = plan.plan, .ring = ring, .blocks = 8, .write_until = 8 * 1024, .absent = true};
        assert_int_equal(engine_batch_add(engine, batch, &item), 0);
        const struct batch_item *added = &batch->items[0];
        expect_resident("results", count, added->samples, 4 * 8 * 1024 * sizeof(float));
        expect_resident("report", count, added->reports, 4 * 8 * sizeof added->reports[0]);
        taken[count++] = batch;
    }
    while (count > 0)
        engine_batch_release(engine, taken[--count]);
    engine_ring_close(engine, ring);
    test_plan_free(&plan);
    signal_free(signal);
    engine_close(engine);
#else
    skip(); /* pages come as they are touched */
#endif
}

static void missing_device_lists_those_present(void **state)
{
    (void)state;
    struct engine *engine = NULL;
    struct problem problem = {0};
    struct device_info infos[8];
    const int count = device_list(infos, 8, 0, &problem);
    assert_true(count >= 1);
    assert_int_equal(
        engine_open(&(struct engine_options){.device = "Analytical Engine"}, &engine, &problem),
        ERROR_NO_DEVICE);
    assert_non_null(strstr(problem.text, infos[0].name));
    assert_non_null(strstr(problem.text, "Analytical Engine"));
}

static void bytes_beside_a_piece_are_noticed(void **state)
{
    (void)state;
    struct engine *engine = harness_engine();
    struct ring *ring = NULL;
    struct problem problem = {0};
    assert_int_equal(engine_ring_open(engine, 64, 2, &ring, &problem), 0);
    assert_int_equal(engine_check_guards(engine, &problem), 0);
    uint8_t *beside = ring->bytes + 64 * 2;
    const uint8_t kept = *beside;
    *beside = (uint8_t)~kept;
    /* Seen where host and device share memory; elsewhere the device's own bytes are still whole. */
    const int error = engine_check_guards(engine, &problem);
    if (!engine_device(engine)->gpu)
        assert_int_equal(error, ERROR_DEVICE);
    *beside = kept;
    engine_ring_close(engine, ring);
    harness_engine_close(engine);
}

static int damage_files(const char *directory)
{
    DIR *listing = opendir(directory);
    assert_non_null(listing);
    int count = 0;
    for (struct dirent *entry; (entry = readdir(listing)) != NULL;) {
        char path[600];
        snprintf(path, sizeof path, "%s/%s", directory, entry->d_name);
        if (strlen(entry->d_name) != 64)
            continue;
        count++;
        FILE *file = fopen(path, "r+b");
        fseek(file, count % 2 == 0 ? 60 : 2, SEEK_SET);
        fputs("damaged", file);
        fclose(file);
        if (count == 3)
            assert_int_equal(truncate(path, 10), 0);
    }
    closedir(listing);
    return count;
}

static void damaged_cache_costs_a_build(void **state)
{
    (void)state;
    const char *directory = scratch_make("cache");
    struct test_signal *signal = signal_noise("s16le", 1, 1000, 1);
    for (int turn = 0; turn < 3; turn++) {
        if (turn == 2)
            assert_true(damage_files(directory) >= 2);
        struct engine *engine = NULL;
        struct problem problem = {0};
        assert_int_equal(
            engine_open(&(struct engine_options){.device = test_device(), .cache_dir = directory},
                        &engine, &problem),
            0);
        static const char *const variants[] = {"local", "general", "overlap-add"};
        for (int v = 0; v < 3; v++) {
            struct test_plan plan;
            test_plan_diagonal(&plan, signal, 64, 65, false, OUTPUT_REAL);
            plan.spec.variant = variants[v];
            test_plan_prepare(engine, &plan, signal); /* its self-test is the proof */
            test_plan_free(&plan);
        }
        engine_close(engine);
    }
    signal_free(signal);
}

/* PoCL's compiler aborts where it cannot write. */
static void full_disk_is_left_alone(void **state)
{
    (void)state;
    const char *before = getenv("POCL_CACHE_DIR");
    char kept[4096];
    snprintf(kept, sizeof kept, "%s", before != NULL ? before : "");
    const char *not_yet = scratch_path("not/yet");
    assert_true(pocl_cache_has_room(not_yet, 1));
    assert_false(pocl_cache_has_room(not_yet, UINT64_MAX));
    assert_false(pocl_cache_has_room("/proc/cache", 1));
    static const struct {
        const char *set, *cache_dir;
        int error;
        const char *begins;
    } cases[] = {
        {NULL, "/tmp/convolvd-cache", 0, "/tmp/convolvd-cache/pocl"},
        {"/tmp", "/proc/cache", 0, "/tmp"},
        {NULL, "/proc/cache", ENOENT, "/"},
        {"/proc/cache", "/tmp", ENOENT, "/"},
        {NULL, "/etc/passwd/cache", ENOTDIR, "/"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        unsetenv("POCL_CACHE_DIR");
        unsetenv("POCL_KERNEL_CACHE");
        if (cases[i].set != NULL)
            setenv("POCL_CACHE_DIR", cases[i].set, 1);
        assert_int_equal(pocl_cache_direct(cases[i].cache_dir, 1), cases[i].error);
        const char *got = getenv("POCL_CACHE_DIR");
        if (got == NULL) {
            fail_msg("case %zu: no POCL_CACHE_DIR", i);
            return;
        }
        assert_int_equal(strncmp(got, cases[i].begins, strlen(cases[i].begins)), 0);
        assert_int_equal(strstr(got, "/convolvd-pocl-") != NULL, cases[i].error != 0);
        assert_int_equal(getenv("POCL_KERNEL_CACHE") != NULL, cases[i].error != 0);
        if (cases[i].error != 0)
            assert_int_equal(rmdir(got), 0);
    }
    unsetenv("POCL_CACHE_DIR");
    assert_int_equal(pocl_cache_direct("/tmp/convolvd-cache", UINT64_MAX), ENOSPC);
    assert_true(pocl_cache_unusable());
    /* Without a home PoCL takes /tmp, which is looked at too. */
    const char *home = getenv("HOME"), *xdg = getenv("XDG_CACHE_HOME");
    char homes[2][4096];
    snprintf(homes[0], sizeof homes[0], "%s", home != NULL ? home : "");
    snprintf(homes[1], sizeof homes[1], "%s", xdg != NULL ? xdg : "");
    unsetenv("HOME");
    unsetenv("XDG_CACHE_HOME");
    unsetenv("POCL_CACHE_DIR");
    assert_int_equal(pocl_cache_direct(NULL, UINT64_MAX), ENOSPC);
    assert_int_equal(pocl_cache_direct(NULL, 1), 0);
    if (home != NULL)
        setenv("HOME", homes[0], 1);
    if (xdg != NULL)
        setenv("XDG_CACHE_HOME", homes[1], 1);
    rmdir("/tmp/convolvd-cache/pocl"); /* the first case's */
    rmdir("/tmp/convolvd-cache");
    unsetenv("POCL_KERNEL_CACHE");
    unsetenv("POCL_CACHE_DIR");
    if (before != NULL)
        setenv("POCL_CACHE_DIR", kept, 1);
}

enum { NOT_HERE = 255 };

/* In a child: a file system that is mounted to be read. */
static int read_only(const char *directory)
{
    const int own = geteuid() == 0 ? CLONE_NEWNS : CLONE_NEWUSER | CLONE_NEWNS;
    if (unshare(own) != 0 || mount("none", "/", NULL, MS_REC | MS_PRIVATE, NULL) != 0 ||
        mount("tmpfs", directory, "tmpfs", MS_RDONLY, NULL) != 0)
        return NOT_HERE;
    return pocl_cache_direct(directory, 1);
}

/* In a child: a cache that is there, somebody else's. */
static int not_ours(const char *directory)
{
    char path[64];
    snprintf(path, sizeof path, "%s/pocl", directory);
    if (mkdir(path, 0555) != 0 || chmod(directory, 0555) != 0 ||
        (geteuid() == 0 && setuid(65534) != 0))
        return NOT_HERE;
    return pocl_cache_direct(directory, 1);
}

/* What the function returns in a child, and what the child says. */
static int in_child(int (*function)(const char *directory), const char *directory, char *said,
                    size_t bytes)
{
    int ends[2], status = 0;
    assert_int_equal(pipe(ends), 0);
    const pid_t child = fork();
    if (child == 0) {
        dup2(ends[1], STDERR_FILENO);
        unsetenv("POCL_CACHE_DIR");
        const int error = function(directory);
        const char *moved = getenv("POCL_CACHE_DIR");
        if (moved != NULL && strstr(moved, "/convolvd-pocl-") != NULL)
            rmdir(moved);
        _exit(error);
    }
    close(ends[1]);
    size_t used = 0;
    ssize_t got;
    while (used + 1 < bytes && (got = read(ends[0], said + used, bytes - 1 - used)) > 0)
        used += (size_t)got;
    said[used] = '\0';
    close(ends[0]);
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_true(WIFEXITED(status));
    return WEXITSTATUS(status);
}

static void unwritable_cache_says_why(void **state)
{
    (void)state;
    static const struct {
        int (*function)(const char *directory);
        int error;
        const char *says;
    } cases[] = {
        {read_only, EROFS, "/pocl: nothing can be written there (Read-only file system); PoCL"},
        {not_ours, EACCES, "/pocl: nothing can be written there (Permission denied); PoCL"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        char directory[] = "/tmp/convolvd-cache-XXXXXX", said[4096];
        assert_non_null(mkdtemp(directory));
        const int error = in_child(cases[i].function, directory, said, sizeof said);
        char path[64];
        snprintf(path, sizeof path, "%s/pocl", directory);
        chmod(directory, 0700);
        rmdir(path);
        rmdir(directory);
        if (error == NOT_HERE) {
            print_message("# case %zu: not possible on this machine\n", i);
            continue;
        }
        if (error != cases[i].error || strstr(said, cases[i].says) == NULL)
            fail_msg("case %zu: %d, \"%s\"", i, error, said);
    }
}

static void nvidia_keeps_machine_code_beside_pocl(void **state)
{
    (void)state;
    static const struct {
        const char *set, *cache_dir, *want;
    } cases[] = {
        {NULL, "/tmp", "/tmp/nvidia"},
        {"/tmp/mine", "/tmp", "/tmp/mine"},
        {NULL, "/proc/cache", NULL},
        {NULL, NULL, NULL},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        unsetenv("CUDA_CACHE_PATH");
        if (cases[i].set != NULL)
            setenv("CUDA_CACHE_PATH", cases[i].set, 1);
        nvidia_cache_direct(cases[i].cache_dir);
        const char *got = getenv("CUDA_CACHE_PATH");
        assert_string_equal(got != NULL ? got : "", cases[i].want != NULL ? cases[i].want : "");
    }
    unsetenv("CUDA_CACHE_PATH");
}

static void kernels_directory_wins_by_name(void **state)
{
    (void)state;
    const char *directory = scratch_make("kernels");
    const char *path =
        scratch_write("kernels/local.cl", "#include \"arguments.clh\"\nthis is no kernel\n");
    struct engine *engine = NULL;
    struct problem problem = {0};
    assert_int_equal(
        engine_open(&(struct engine_options){.device = test_device(), .kernels_dir = path}, &engine,
                    &problem),
        ERROR_NO_FILE);
    assert_non_null(strstr(problem.text, "is not a directory of kernels"));
    assert_int_equal(
        engine_open(&(struct engine_options){.device = test_device(), .kernels_dir = directory},
                    &engine, &problem),
        0);
    struct test_signal *signal = signal_noise("s16le", 1, 64, 1);
    struct test_plan plan;
    test_plan_diagonal(&plan, signal, 64, 65, false, OUTPUT_REAL);
    plan.spec.variant = "general";
    test_plan_prepare(engine, &plan, signal);
    plan_close(plan.plan);
    plan.spec.variant = "local";
    assert_int_equal(plan_prepare(engine, &plan.spec, &plan.plan, &problem), ERROR_PROGRAM);
    assert_non_null(strstr(problem.text, "local.cl"));
    test_plan_free(&plan);
    signal_free(signal);
    engine_close(engine);
}

static void costs_are_learnt(void **state)
{
    (void)state;
    struct engine *engine = harness_engine();
    struct test_signal *signal = signal_noise("s16le", 4, 64 * 200, 1);
    struct test_plan plan;
    test_plan_diagonal(&plan, signal, 64, 65, false, OUTPUT_REAL);
    test_plan_prepare(engine, &plan, signal);
    assert_true(plan_cost_ns(plan.plan, 1) > 0);
    assert_true(plan_cost_ns(plan.plan, 8) > plan_cost_ns(plan.plan, 1));
    struct test_run run = run_plan(engine, &plan, signal, &(struct run_options){.blocks = 4});
    assert_true(plan_cost_ns(plan.plan, 4) > 1000 && plan_cost_ns(plan.plan, 4) < 1000000000);
    test_run_free(&run);
    test_plan_free(&plan);
    signal_free(signal);
    harness_engine_close(engine);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(wrong_variant_is_refused),
        cmocka_unit_test(full_memory_says_what_to_raise),
        cmocka_unit_test(full_batch_says_so),
        cmocka_unit_test(first_batches_meet_no_page_fault),
        cmocka_unit_test(missing_device_lists_those_present),
        cmocka_unit_test(bytes_beside_a_piece_are_noticed),
        cmocka_unit_test(damaged_cache_costs_a_build),
        cmocka_unit_test(full_disk_is_left_alone),
        cmocka_unit_test(unwritable_cache_says_why),
        cmocka_unit_test(nvidia_keeps_machine_code_beside_pocl),
        cmocka_unit_test(kernels_directory_wins_by_name),
        cmocka_unit_test(costs_are_learnt),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
