/*
 * The machine's own pauses, beside a bench of latencies: one thread a processor sleeps for a
 * moment, again and again, with a real-time priority above every program under test. It wakes late
 * only when the processor ran nothing that the scheduler could take it from: the hypervisor had it,
 * or the kernel did not let it go. Whatever a program under test does in ordinary code cannot make
 * it late.
 *
 * At SIGTERM one line of JSON: every pause longer than --us as [processor, from, until] in
 * monotonic seconds, and the time watched. Waking costs a processor about 1 % at the default
 * --every.
 */
#include <errno.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "core/clock.h"

enum { PAUSES_MAX = 1 << 14, PRIORITY = 60 };

struct pause {
    int64_t from_ns, until_ns;
};

struct watcher {
    pthread_t thread;
    int processor;
    unsigned count; /* its own thread alone until that is joined */
    struct pause pauses[PAUSES_MAX];
};

static atomic_bool stopping;
static int64_t every_ns = 250000, longer_ns = 200000;

static void *watch(void *context)
{
    struct watcher *watcher = context;
    while (!atomic_load_explicit(&stopping, memory_order_relaxed)) {
        const int64_t due_ns = clock_monotonic_ns() + every_ns;
        const struct timespec until = {.tv_sec = due_ns / NS_PER_SECOND,
                                       .tv_nsec = due_ns % NS_PER_SECOND};
        clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &until, NULL);
        const int64_t now_ns = clock_monotonic_ns();
        if (now_ns - due_ns > longer_ns && watcher->count < PAUSES_MAX)
            watcher->pauses[watcher->count++] = (struct pause){due_ns, now_ns};
    }
    return NULL;
}

/* A thread on this processor, in real time; 0 or an errno. */
static int start(struct watcher *watcher)
{
    pthread_attr_t attributes;
    cpu_set_t set;
    const struct sched_param param = {.sched_priority = PRIORITY};
    CPU_ZERO(&set);
    CPU_SET((size_t)watcher->processor, &set);
    pthread_attr_init(&attributes);
    pthread_attr_setaffinity_np(&attributes, sizeof set, &set);
    pthread_attr_setinheritsched(&attributes, PTHREAD_EXPLICIT_SCHED);
    pthread_attr_setschedpolicy(&attributes, SCHED_FIFO);
    pthread_attr_setschedparam(&attributes, &param);
    const int error = pthread_create(&watcher->thread, &attributes, watch, watcher);
    pthread_attr_destroy(&attributes);
    return error;
}

static void print(const struct watcher *watcher, bool *first)
{
    for (unsigned i = 0; i < watcher->count; i++, *first = false)
        printf("%s[%d, %.6f, %.6f]", *first ? "" : ", ", watcher->processor,
               (double)watcher->pauses[i].from_ns * 1e-9,
               (double)watcher->pauses[i].until_ns * 1e-9);
}

static bool parse(int argc, char **argv)
{
    for (int i = 1; i + 1 < argc; i += 2) {
        const int64_t ns = strtoll(argv[i + 1], NULL, 10) * 1000;
        if (ns <= 0)
            return false;
        if (strcmp(argv[i], "--every") == 0)
            every_ns = ns;
        else if (strcmp(argv[i], "--us") == 0)
            longer_ns = ns;
        else
            return false;
    }
    return argc % 2 == 1;
}

int main(int argc, char **argv)
{
    cpu_set_t allowed;
    sigset_t ends;
    if (!parse(argc, argv)) {
        fputs("usage: bench_pauses [--every US] [--us US]\n"
              "Watches the processors that taskset(1) left it until SIGTERM or SIGINT.\n",
              stderr);
        return 2;
    }
    sigemptyset(&ends);
    sigaddset(&ends, SIGTERM);
    sigaddset(&ends, SIGINT);
    pthread_sigmask(SIG_BLOCK, &ends, NULL);
    sched_getaffinity(0, sizeof allowed, &allowed);
    const int count = CPU_COUNT(&allowed);
    struct watcher *watchers = calloc((size_t)count, sizeof *watchers);
    if (watchers == NULL)
        return 1;
    const int64_t began_ns = clock_monotonic_ns();
    for (int processor = 0, at = 0; at < count; processor++) {
        if (!CPU_ISSET((size_t)processor, &allowed))
            continue;
        watchers[at].processor = processor;
        const int error = start(&watchers[at++]);
        if (error != 0) {
            fprintf(stderr, "bench_pauses: %s: it needs real-time priority\n", strerror(error));
            return 1;
        }
    }
    puts("ready");
    fflush(stdout);
    int signal_number;
    sigwait(&ends, &signal_number);
    atomic_store(&stopping, true);
    bool first = true;
    printf("{\"pauses\": [");
    for (int at = 0; at < count; at++) {
        pthread_join(watchers[at].thread, NULL);
        print(&watchers[at], &first);
    }
    printf("], \"seconds\": %.3f}\n", (double)(clock_monotonic_ns() - began_ns) * 1e-9);
    free(watchers);
    return 0;
}
