/*
 * File replacement and the doorbell: a reader sees the old contents or the new ones, a failure
 * leaves the old file and nothing beside it; rings coalesce and none is missed.
 */
#include <dirent.h>
#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cmocka.h>

#include "core/clock.h"
#include "core/doorbell.h"
#include "core/replace_file.h"

struct folder {
    char path[64];
    char file[96];
};

static void make(struct folder *folder)
{
    snprintf(folder->path, sizeof folder->path, "/tmp/convolvd-replace-XXXXXX");
    assert_non_null(mkdtemp(folder->path));
    snprintf(folder->file, sizeof folder->file, "%s/file", folder->path);
}

static unsigned entries(const struct folder *folder)
{
    unsigned count = 0;
    DIR *directory = opendir(folder->path);
    for (const struct dirent *entry; (entry = readdir(directory)) != NULL;)
        count += entry->d_name[0] != '.';
    closedir(directory);
    return count;
}

static void contents(const char *path, char text[64])
{
    FILE *file = fopen(path, "r");
    assert_non_null(file);
    text[fread(text, 1, 63, file)] = '\0';
    fclose(file);
}

static void parts_follow_each_other(void **state)
{
    (void)state;
    struct folder folder;
    struct problem problem;
    char text[64];
    make(&folder);
    const struct file_part parts[] = {{"one ", 4}, {NULL, 0}, {"two", 3}};
    assert_int_equal(replace_file(folder.file, parts, 3, &problem), 0);
    contents(folder.file, text);
    assert_string_equal(text, "one two");
    assert_int_equal(replace_file_text(folder.file, "three", &problem), 0);
    contents(folder.file, text);
    assert_string_equal(text, "three");
    assert_int_equal(entries(&folder), 1);
    unlink(folder.file);
    rmdir(folder.path);
}

/* A directory cannot be replaced by a file: writing succeeds, renaming fails. */
static void a_failure_leaves_the_old_file(void **state)
{
    (void)state;
    struct folder folder;
    struct problem problem;
    char expect[160];
    make(&folder);
    assert_int_equal(mkdir(folder.file, 0700), 0);
    assert_int_equal(replace_file_text(folder.file, "text", &problem), ERROR_SYSTEM);
    snprintf(expect, sizeof expect, "%s cannot be written: Is a directory", folder.file);
    assert_string_equal(problem.text, expect);
    assert_int_equal(entries(&folder), 1);
    rmdir(folder.file);
    rmdir(folder.path);
    assert_int_equal(replace_file_text(folder.file, "text", &problem), ERROR_NO_FILE);
    snprintf(expect, sizeof expect, "%s cannot be written: No such file or directory", folder.file);
    assert_string_equal(problem.text, expect);
    assert_int_equal(replace_file_text(folder.file, NULL, &problem), ERROR_MEMORY);
}

static void rings_coalesce(void **state)
{
    (void)state;
    int doorbell = doorbell_open();
    assert_true(doorbell >= 0);
    assert_false(doorbell_rung_within(doorbell, 0));
    assert_false(doorbell_rung_within(doorbell, NS_PER_MS));
    doorbell_ring(doorbell);
    doorbell_ring(doorbell);
    assert_true(doorbell_rung_within(doorbell, INT64_MAX));
    assert_true(doorbell_rung_within(doorbell, 0)); /* it stays rung … */
    doorbell_wait(doorbell);
    assert_false(doorbell_rung_within(doorbell, 0)); /* … until the wait clears both rings */
    close(doorbell);
}

static void *ring_later(void *argument)
{
    usleep(20000);
    doorbell_ring(*(const int *)argument);
    return NULL;
}

static void a_ring_wakes_the_waiter(void **state)
{
    (void)state;
    int doorbell = doorbell_open();
    pthread_t thread;
    int64_t from_ns = clock_monotonic_ns();
    assert_int_equal(pthread_create(&thread, NULL, ring_later, &doorbell), 0);
    doorbell_wait(doorbell);
    assert_true(clock_monotonic_ns() - from_ns >= 15 * NS_PER_MS);
    pthread_join(thread, NULL);
    close(doorbell);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(parts_follow_each_other),
        cmocka_unit_test(a_failure_leaves_the_old_file),
        cmocka_unit_test(rings_coalesce),
        cmocka_unit_test(a_ring_wakes_the_waiter),
    };
    return cmocka_run_group_tests_name("replace file", tests, NULL, NULL);
}
