/*
 * The engine beside the convolvers that others wrote: zita-convolver, liquid-dsp's fftfilt and
 * scipy's oaconvolve, each a program of its own (bench/peers) that is asked in turns with the
 * engine: ours, the peer, ours, the peer … so that a ratio compares neighbours in time. The work
 * is the same: a filter of L taps for every channel, blocks of L = N/2, single precision, one
 * thread. The engine takes interleaved frames and gives interleaved frames; the peers get planar
 * memory, as they like it. As the peers measure which FFT is the fastest, so does the engine with
 * the vectors and rows of its plans, before the runs (plan_tune).
 *
 * A peer whose library was not there when the benches were built is named and left out. Beside
 * every speed stands the error against the definition in double.
 */
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "bench/diagonal.h"
#include "bench/measure.h"
#include "bench/peer_program.h"
#include "convolve/engine.h"
#include "core/clock.h"
#include "core/log.h"
#include "core/random.h"

enum { IN_FLIGHT = 2 };

static const struct peer {
    const char *name, *program; /* NULL folder: that of the programs that were built */
    const char *folder, *bar;
} peers[] = {
    {"zita-convolver", "peer_zita", NULL, ">=4"},
    {"liquid-dsp", "peer_liquid", NULL, ">=4"},
    {"scipy", "peer_scipy.py", "bench/peers", ">=6"},
};

struct run {
    uint32_t fft;
    struct diagonal work;
    double error;
};

static struct engine *engine;
static int bell;
static struct random_state noise = {20260101};

static void die(const char *text)
{
    fprintf(stderr, "bench_peers: %s\n", text);
    exit(1);
}

/* ---- ours --------------------------------------------------------------------------------------
 */

static struct batch *wait_batch(void)
{
    struct batch *batch = wait_for_batch(bell, engine);
    if (batch == NULL)
        die("no batch completed within two minutes");
    if (batch->status != BATCH_OK)
        die("the device failed a batch");
    return batch;
}

static void submit(const struct run *run)
{
    struct batch *batch = engine_batch_take(engine);
    const struct batch_item item = {
        .plan = run->work.plan,
        .ring = run->work.ring,
        .position = run->work.hop,
        .epoch_block = 1000,
        .blocks = run->work.blocks,
        .write_until = run->work.blocks * run->work.hop,
        .fresh_until = run->work.ring->frames,
    };
    if (batch == NULL || engine_batch_add(engine, batch, &item) < 0)
        die("a batch does not fit");
    engine_submit(engine, batch);
}

static void run_open(struct run *run)
{
    struct problem problem = {0};
    struct diagonal *work = &run->work;
    work->hop = work->taps_count = run->fft / 2;
    work->tuned = true;
    work->blocks = (1u << 20) / (work->hop * work->channels);
    work->blocks = work->blocks < 4 ? 4 : work->blocks;
    work->ring_blocks = work->blocks;
    if (diagonal_open(engine, work, &noise, &problem) < 0)
        die(problem.text);
    submit(run);
    struct batch *batch = wait_batch();
    run->error = diagonal_error(work, &batch->items[0], &noise);
    engine_batch_release(engine, batch);
}

/* Seconds a sample, several batches in flight. */
static double own_time(const struct run *run, int64_t for_ns)
{
    const int64_t from_ns = clock_monotonic_ns();
    uint32_t submitted = 0, completed = 0;
    do {
        while (submitted - completed < IN_FLIGHT &&
               (submitted == 0 || clock_monotonic_ns() - from_ns < for_ns)) {
            submit(run);
            submitted++;
        }
        engine_batch_release(engine, wait_batch());
        completed++;
    } while (completed < submitted);
    return (double)(clock_monotonic_ns() - from_ns) * 1e-9 /
           ((double)completed * run->work.blocks * run->work.hop * run->work.channels);
}

/* ---- a row --------------------------------------------------------------------------------------
 */

static bool row(const struct peer *peer, struct peer_program *program, const struct run *run,
                bool quick, FILE *csv)
{
    const int64_t for_ns = quick ? 20 * NS_PER_MS : 60 * NS_PER_MS;
    struct series ours = {0}, theirs = {0}, ratio = {0};
    double error = 0;
    const uint32_t repetitions = quick ? 5 : 11;
    for (uint32_t i = 0; i <= repetitions; i++) {
        const double own = own_time(run, for_ns),
                     other =
                         1e-9 * peer_program_ask(program, &error, "%u %u %lld", run->work.channels,
                                                 run->fft, (long long)for_ns);
        if (other == 0)
            return false;
        if (i == 0)
            continue; /* both warm up */
        series_add(&ours, own);
        series_add(&theirs, other);
        series_add(&ratio, other / own);
    }
    const struct spread spread = series_spread(&ratio);
    const double own = 1e-6 / series_spread(&ours).median,
                 other = 1e-6 / series_spread(&theirs).median;
    const double worst = run->error > error ? run->error : error;
    printf(
        "%2u channels, N = %5u   ours %7.1f   %-14s %7.1f Msamples/s   %5.2f times (%.2f…%.2f)   "
        "bar %s   errors %.1e %.1e%s\n",
        run->work.channels, run->fft, own, peer->name, other, spread.median, spread.q1, spread.q3,
        peer->bar, run->error, error, worst > 1e-6 ? "   WRONG" : "");
    fflush(stdout);
    char what[64], shape[64];
    snprintf(what, sizeof what, "cpu against %s", peer->name);
    snprintf(shape, sizeof shape, "%uch N=%u 1t", run->work.channels, run->fft);
    bars_write(csv, &(struct bar_row){what, shape, own, other, spread, peer->bar, "Msamples/s",
                                      worst, "BENCH_ONLY=peers make bench"});
    return worst <= 1e-6;
}

int main(int argc, char **argv)
{
    static const uint32_t channels[] = {16, 64}, ffts[] = {256, 1024, 4096, 16384};
    const char *csv_path = NULL, *programs = NULL;
    bool quick = false;
    for (int i = 1; i < argc; i++)
        if (strcmp(argv[i], "--quick") == 0)
            quick = true;
        else if (strcmp(argv[i], "--csv") == 0 && i + 1 < argc)
            csv_path = argv[++i];
        else if (strcmp(argv[i], "--programs") == 0 && i + 1 < argc)
            programs = argv[++i];
        else
            die("usage: bench_peers [--quick] [--csv FILE] --programs DIRECTORY");
    if (programs == NULL)
        die("--programs names the directory of peer_zita and peer_liquid");
    log_set_level(LOG_LEVEL_WARNING);
    bell = doorbell_open();
    struct problem problem = {0};
    const struct engine_options options = {
        .device = "cpu", .cpu_threads = 1, .wake = ring_bell, .wake_context = &bell};
    if (engine_open(&options, &engine, &problem) < 0)
        die(problem.text);
    FILE *csv = csv_path != NULL ? bars_open("bench_peers", csv_path) : NULL;
    bool good = true;
    for (size_t p = 0; p < sizeof peers / sizeof peers[0]; p++) {
        char path[4096];
        struct peer_program program = {0};
        snprintf(path, sizeof path, "%s/%s", peers[p].folder != NULL ? peers[p].folder : programs,
                 peers[p].program);
        if (peer_program_open(&program, peers[p].name, path) != 0) {
            printf("%s is left out: its library was not there when the benches were built\n",
                   peers[p].name);
            continue;
        }
        for (size_t c = 0; c < 2; c++)
            for (size_t f = 0; f < 4; f++) {
                if (quick && (f == 0 || f == 3))
                    continue;
                struct run run = {.fft = ffts[f], .work = {.channels = channels[c]}};
                run_open(&run);
                good = row(&peers[p], &program, &run, quick, csv) && good;
                diagonal_close(engine, &run.work);
            }
        peer_program_stop(&program);
    }
    if (csv != NULL)
        fclose(csv);
    engine_close(engine);
    close(bell);
    return good ? 0 : 1;
}
