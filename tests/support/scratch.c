/* A test program's folder for files; scratch.h describes it. */
#include "tests/support/scratch.h"

#include <dirent.h>
#include <ftw.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cmocka.h>

static char folder[256];
static pid_t owner; /* a child that exits leaves its parent's files alone */

static int drop(const char *path, const struct stat *status, int kind, struct FTW *place)
{
    (void)status, (void)kind;
    if (place->level > 0)
        remove(path);
    return 0;
}

void scratch_clear(void)
{
    if (folder[0] != '\0')
        nftw(folder, drop, 16, FTW_DEPTH | FTW_PHYS);
}

static void scratch_remove(void)
{
    if (getpid() != owner)
        return;
    scratch_clear();
    rmdir(folder);
}

const char *scratch_folder(void)
{
    if (folder[0] == '\0') {
        const char *under = getenv("TMPDIR");
        snprintf(folder, sizeof folder, "%.200s/convolvd-unit-XXXXXX",
                 under != NULL && under[0] != '\0' ? under : "/tmp");
        owner = getpid();
        if (mkdtemp(folder) == NULL || atexit(scratch_remove) != 0)
            fail_msg("%s cannot be made", folder);
    }
    return folder;
}

const char *scratch_path(const char *name)
{
    static char paths[16][512];
    static unsigned next;
    char *path = paths[next++ % 16];
    const int length = snprintf(path, sizeof paths[0], "%s/%s", scratch_folder(), name);
    assert_true(length > 0 && (size_t)length < sizeof paths[0]);
    return path;
}

const char *scratch_write(const char *name, const char *text)
{
    const char *path = scratch_path(name);
    FILE *file = fopen(path, "w");
    assert_non_null(file);
    assert_true(fputs(text, file) >= 0);
    assert_int_equal(fclose(file), 0);
    return path;
}

const char *scratch_make(const char *name)
{
    const char *path = scratch_path(name);
    assert_int_equal(mkdir(path, 0700), 0);
    return path;
}

int scratch_count(void)
{
    DIR *list = opendir(scratch_folder());
    int count = 0;
    assert_non_null(list);
    for (const struct dirent *entry; (entry = readdir(list)) != NULL;)
        count += entry->d_name[0] != '.';
    closedir(list);
    return count;
}
