/* Waiting for a processor: see cpu_wait.h. */
#include "core/cpu_wait.h"

#include <dirent.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* Threads past this many are not looked at: those of the drivers are the oldest. */
enum { THREADS_MAX = 256, TEXT = 512 };

struct thread {
    long id;
    uint64_t ran_ns, waited_ns;
};

struct cpu_wait {
    DIR *tasks;
    int64_t sampled_ns;
    uint32_t count;
    struct thread threads[THREADS_MAX]; /* as of the last sample, in the order of the directory */
};

struct cpu_wait *cpu_wait_open(void)
{
    struct cpu_wait *wait = calloc(1, sizeof *wait);
    if (wait == NULL)
        return NULL;
    wait->tasks = opendir("/proc/self/task");
    if (wait->tasks == NULL || access("/proc/self/schedstat", R_OK) != 0) {
        cpu_wait_close(wait);
        return NULL;
    }
    return wait;
}

void cpu_wait_close(struct cpu_wait *wait)
{
    if (wait == NULL)
        return;
    if (wait->tasks != NULL)
        closedir(wait->tasks);
    free(wait);
}

/* The file `name` of a thread; false: the thread has ended. */
static bool read_file(const struct cpu_wait *wait, const char *id, const char *name,
                      char text[TEXT])
{
    char path[64];
    snprintf(path, sizeof path, "%.20s/%s", id, name);
    const int fd = openat(dirfd(wait->tasks), path, O_RDONLY | O_CLOEXEC);
    const ssize_t bytes = fd >= 0 ? read(fd, text, TEXT - 1) : -1;
    if (fd >= 0)
        close(fd);
    text[bytes > 0 ? bytes : 0] = '\0';
    return bytes > 0;
}

/* Whether the thread could run this instant: it runs or waits for a processor. The state follows
 * the name in parentheses (proc(5)). */
static bool is_runnable(const struct cpu_wait *wait, const char *id)
{
    char text[TEXT];
    const char *name_end = read_file(wait, id, "stat", text) ? strrchr(text, ')') : NULL;
    return name_end != NULL && strncmp(name_end, ") R", 3) == 0;
}

/* The same thread in the last sample. Both are in the directory's order, so it is at or shortly
 * after *at. NULL: it is new. */
static const struct thread *find(const struct thread *before, uint32_t count, long id, uint32_t *at)
{
    for (uint32_t i = 0; i < count; i++) {
        const struct thread *thread = &before[(*at + i) % count];
        if (thread->id == id) {
            *at = (*at + i + 1) % count;
            return thread;
        }
    }
    return NULL;
}

int64_t cpu_wait_sample(struct cpu_wait *wait, int64_t now_ns)
{
    if (wait == NULL)
        return 0;
    struct thread before[THREADS_MAX];
    const uint32_t before_count = wait->count;
    memcpy(before, wait->threads, before_count * sizeof *before);
    const uint64_t elapsed_ns = (uint64_t)(now_ns - wait->sampled_ns);
    uint64_t longest_ns = 0;
    uint32_t at = 0;
    const struct dirent *entry;
    wait->count = 0;
    wait->sampled_ns = now_ns;
    rewinddir(wait->tasks);
    while (wait->count < THREADS_MAX && (entry = readdir(wait->tasks)) != NULL) {
        char text[TEXT];
        struct thread now = {.id = strtol(entry->d_name, NULL, 10)};
        if (now.id <= 0 || !read_file(wait, entry->d_name, "schedstat", text) ||
            sscanf(text, "%" SCNu64 " %" SCNu64, &now.ran_ns, &now.waited_ns) != 2)
            continue;
        wait->threads[wait->count++] = now;
        const struct thread *last = find(before, before_count, now.id, &at);
        if (last == NULL)
            continue;
        /* The kernel adds a wait up when it ends: one that goes on shows in nothing but the state.
         */
        const bool still = now.ran_ns == last->ran_ns && now.waited_ns == last->waited_ns;
        const uint64_t waited_ns = !still ? now.waited_ns - last->waited_ns
                                   : is_runnable(wait, entry->d_name) ? elapsed_ns
                                                                      : 0;
        longest_ns = waited_ns > longest_ns ? waited_ns : longest_ns;
    }
    return (int64_t)longest_ns;
}
