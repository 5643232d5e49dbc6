/*
 * What this machine's processors can do at most, to hold the tables against: bytes moved through
 * memory (read + written by memcpy between arrays far beyond the caches), bytes read from an array
 * in the nearest large cache, and multiply-adds of independent vectors in registers, each on one
 * thread and on every number of threads asked for. Medians with quartiles; the figures are lines
 * of the same CSV as the tables, without a bar.
 *
 * The threads are bench/team.c's; the caller is one of them.
 */
#include <errno.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "bench/measure.h"
#include "bench/team.h"
#include "core/clock.h"

enum {
    LANES = 16,
    CHAINS =
        12, /* independent sums: latency of a multiply-add times those begun a cycle, and some */
    FMA_ROUNDS = 1 << 20,
    THREADS_MOST = 256,
};

static const size_t copy_bytes = (size_t)128 << 20;  /* each way, of a thread */
static const size_t cache_bytes = (size_t)512 << 10; /* a thread's share of the second level */
enum { CACHE_ROUNDS = 64 };

typedef float lanes __attribute__((vector_size(LANES * sizeof(float))));

struct thread_memory {
    void *from, *to;
    lanes sum;
};

static struct thread_memory memories[THREADS_MOST];

static void copy(void *context, uint32_t member)
{
    (void)context;
    memcpy(memories[member].to, memories[member].from, copy_bytes);
    measure_use(memories[member].to);
}

static void read_cache(void *context, uint32_t member)
{
    (void)context;
    const lanes *from = memories[member].from;
    lanes sums[4] = {{0}};
    for (uint32_t round = 0; round < CACHE_ROUNDS; round++) {
        for (size_t i = 0; i < cache_bytes / sizeof(lanes); i += 4)
            for (size_t k = 0; k < 4; k++)
                sums[k] += from[i + k];
        measure_use(from); /* read again, not reused */
    }
    memories[member].sum = sums[0] + sums[1] + sums[2] + sums[3];
}

static void multiply_add(void *context, uint32_t member)
{
    (void)context;
    lanes sums[CHAINS], factor, term;
    for (uint32_t i = 0; i < LANES; i++) {
        factor[i] = 0.999f;
        term[i] = 0.001f;
    }
    for (uint32_t k = 0; k < CHAINS; k++)
        sums[k] = term * (float)k;
    for (uint32_t round = 0; round < FMA_ROUNDS; round++)
        for (uint32_t k = 0; k < CHAINS; k++)
            sums[k] = sums[k] * factor + term;
    for (uint32_t k = 1; k < CHAINS; k++)
        sums[0] += sums[k];
    memories[member].sum = sums[0];
    measure_use(&memories[member]);
}

static const struct ceiling {
    const char *what, *unit;
    void (*work)(void *context, uint32_t member);
    double amount; /* a thread and call: bytes, or operations (a multiply-add is two) */
} ceilings[] = {
    {"ceiling memory copy", "GB/s", copy, 2.0 * (double)((size_t)128 << 20)},
    {"ceiling cache read", "GB/s", read_cache, (double)CACHE_ROUNDS *(double)((size_t)512 << 10)},
    {"ceiling multiply-add", "Gflop/s", multiply_add, 2.0 * LANES *CHAINS *FMA_ROUNDS},
};

static bool memory_open(uint32_t threads)
{
    for (uint32_t i = 0; i < threads; i++) {
        memories[i].from = aligned_alloc(4096, copy_bytes);
        memories[i].to = aligned_alloc(4096, copy_bytes);
        if (memories[i].from == NULL || memories[i].to == NULL)
            return false;
        memset(memories[i].from, 0, copy_bytes); /* so that pages are there */
        memset(memories[i].to, 0, copy_bytes);
    }
    return true;
}

static void memory_close(uint32_t threads)
{
    for (uint32_t i = 0; i < threads; i++) {
        free(memories[i].from);
        free(memories[i].to);
        memories[i] = (struct thread_memory){0};
    }
}

static void measure(const struct ceiling *ceiling, struct team *team, uint32_t threads,
                    uint32_t repetitions, FILE *csv)
{
    struct series rate = {0};
    for (uint32_t i = 0; i <= repetitions; i++) {
        const int64_t from_ns = clock_monotonic_ns();
        team_run(team, ceiling->work, NULL);
        const double took_ns = (double)(clock_monotonic_ns() - from_ns);
        if (i > 0)
            series_add(&rate, ceiling->amount * threads / took_ns);
    }
    const struct spread spread = series_spread(&rate);
    printf("%-24s %3u thread%s %9.1f %-8s [%.1f %.1f]\n", ceiling->what, threads,
           threads == 1 ? " " : "s", spread.median, ceiling->unit, spread.q1, spread.q3);
    fflush(stdout);
    if (csv != NULL)
        fprintf(csv, "%s,threads=%u,%.5g,,1,,%s,%.5g,%.5g…%.5g,0,BENCH_ONLY=ceilings make bench\n",
                ceiling->what, threads, spread.median, ceiling->unit, spread.median, spread.q1,
                spread.q3);
}

int main(int argc, char **argv)
{
    const char *csv_path = NULL;
    uint32_t repetitions = 15;
    for (int i = 1; i < argc; i++)
        if (strcmp(argv[i], "--quick") == 0) {
            repetitions = 5;
        } else if (strcmp(argv[i], "--csv") == 0 && i + 1 < argc) {
            csv_path = argv[++i];
        } else {
            fputs("usage: bench_ceilings [--quick] [--csv FILE]\n", stderr);
            return 2;
        }
    FILE *csv = NULL;
    if (csv_path != NULL)
        csv = bars_open("bench_ceilings", csv_path);
    const long cores = sysconf(_SC_NPROCESSORS_ONLN);
    const uint32_t most = cores < 2 ? 1 : 2; /* as many as the tables use */
    printf("\nceilings of this machine: median [quartiles]\n");
    bool good = true;
    for (uint32_t threads = 1; threads <= most && good; threads++) {
        struct team *team = team_open(threads);
        good = memory_open(threads) && team != NULL;
        for (size_t i = 0; good && i < sizeof ceilings / sizeof ceilings[0]; i++)
            measure(&ceilings[i], team, threads, repetitions, csv);
        memory_close(threads);
        team_close(team);
    }
    if (!good)
        fputs("bench_ceilings: out of memory or threads\n", stderr);
    if (csv != NULL)
        fclose(csv);
    return good ? 0 : 1;
}
