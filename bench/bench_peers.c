/*
 * The engine beside the convolvers that others wrote: zita-convolver, liquid-dsp's fftfilt and
 * scipy's oaconvolve, each a program of its own (bench/peers) that is asked in turns with the
 * engine: ours, the peer, ours, the peer … so that a ratio compares neighbours in time. The work
 * is the same: a filter of L taps for every channel, blocks of L = N/2, single precision, one
 * thread. The engine takes interleaved frames and gives interleaved frames; the peers get planar
 * memory, as they like it.
 *
 * A peer whose library was not there when the benches were built is named and left out. Beside
 * every speed stands the error against the definition in double.
 */
#include <errno.h>
#include <math.h>
#include <poll.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/wait.h>
#include <unistd.h>

#include "bench/measure.h"
#include "convolve/engine.h"
#include "core/clock.h"
#include "core/log.h"
#include "core/random.h"

enum { CHANNELS_MOST = 64, IN_FLIGHT = 2, CHECKED_FRAMES = 64, PEERS = 3 };

struct peer_child {
    const char *name, *program;
    bool script;
    double bar;
    pid_t child;
    FILE *ask, *answer;
};

static struct peer_child peers[PEERS] = {
    {"zita-convolver", "peer_zita", false, 4, 0, NULL, NULL},
    {"liquid-dsp", "peer_liquid", false, 4, 0, NULL, NULL},
    {"scipy", "peer_scipy.py", true, 6, 0, NULL, NULL},
};

struct run {
    uint32_t channels, fft, hop, blocks;
    struct taps *taps[CHANNELS_MOST];
    struct plan *plan;
    struct ring *ring;
    double error;
};

static struct engine *engine;
static int bell;
static struct random_state noise = {20260101};

static void wake(void *context)
{
    const uint64_t one = 1;
    ssize_t written = write(*(int *)context, &one, sizeof one);
    (void)written;
}

static void die(const char *text)
{
    fprintf(stderr, "bench_peers: %s\n", text);
    exit(1);
}

/* ---- the peers --------------------------------------------------------------------------------- */

static bool peer_start(struct peer_child *peer, const char *programs)
{
    char path[4096];
    int to[2], from[2];
    snprintf(path, sizeof path, "%s/%s", peer->script ? "bench/peers" : programs, peer->program);
    if (access(path, R_OK) != 0 || pipe(to) != 0 || pipe(from) != 0)
        return false;
    peer->child = fork();
    if (peer->child == 0) {
        dup2(to[0], STDIN_FILENO);
        dup2(from[1], STDOUT_FILENO);
        close(to[0]);
        close(to[1]);
        close(from[0]);
        close(from[1]);
        if (peer->script)
            execlp("/usr/bin/python3", "python3", path, (char *)NULL);
        else
            execl(path, path, (char *)NULL);
        _exit(127);
    }
    close(to[0]);
    close(from[1]);
    peer->ask = fdopen(to[1], "w");
    peer->answer = fdopen(from[0], "r");
    return peer->ask != NULL && peer->answer != NULL;
}

/* Seconds a sample; 0 when it has ended (its library is not there). */
static double peer_time(struct peer_child *peer, const struct run *run, int64_t for_ns, double *error)
{
    double ns = 0;
    fprintf(peer->ask, "%u %u %lld\n", run->channels, run->fft, (long long)for_ns);
    if (fflush(peer->ask) != 0 || fscanf(peer->answer, "%lf %lf", &ns, error) != 2)
        return 0;
    return ns * 1e-9;
}

/* ---- ours -------------------------------------------------------------------------------------- */

static struct batch *wait_batch(void)
{
    struct batch *batch;
    while ((batch = engine_completed(engine)) == NULL) {
        struct pollfd fd = {.fd = bell, .events = POLLIN};
        uint64_t rings;
        if (poll(&fd, 1, 60000) <= 0 || read(bell, &rings, sizeof rings) < 0)
            die("no batch completed within a minute");
    }
    if (batch->status != BATCH_OK)
        die("the device failed a batch");
    return batch;
}

static void submit(const struct run *run)
{
    struct batch *batch = engine_batch_take(engine);
    const struct batch_item item = {
        .plan = run->plan,
        .ring = run->ring,
        .position = run->hop,
        .epoch_block = 1000,
        .blocks = run->blocks,
        .write_until = run->blocks * run->hop,
        .fresh_until = run->ring->frames,
    };
    if (batch == NULL || engine_batch_add(engine, batch, &item) < 0)
        die("a batch does not fit");
    engine_submit(engine, batch);
}

static double check(const struct run *run, const struct batch_item *item)
{
    double error = 0, size = 0;
    for (uint32_t i = 0; i < CHECKED_FRAMES; i++) {
        const uint64_t n = random_below(&noise, run->blocks * run->hop);
        const uint32_t c = random_below(&noise, run->channels);
        const float *x = (const float *)(const void *)run->ring->bytes;
        double want = 0;
        for (uint32_t k = 0; k < run->hop; k++)
            want += run->taps[c]->re[k] * (double)x[(item->position + n - k) * run->channels + c];
        const double got = (double)item->samples[n * run->channels + c];
        error += (got - want) * (got - want);
        size += want * want;
    }
    return sqrt(error / size);
}

static void run_open(struct run *run)
{
    struct problem problem = {0};
    struct channel_scale scales[CHANNELS_MOST] = {0};
    struct edge edges[CHANNELS_MOST];
    enum output_form forms[CHANNELS_MOST];
    run->hop = run->fft / 2;
    run->blocks = (1u << 20) / (run->hop * run->channels);
    run->blocks = run->blocks < 4 ? 4 : run->blocks;
    int error = 0;
    for (uint32_t c = 0; c < run->channels && error == 0; c++) {
        error = taps_create(run->hop, false, &run->taps[c], &problem);
        for (uint32_t k = 0; k < run->hop && error == 0; k++)
            run->taps[c]->re[k] = random_normal(&noise) / sqrt(run->hop);
        scales[c].full_scale = 1;
        edges[c] = (struct edge){(uint16_t)c, (uint16_t)c, (uint16_t)c, 1};
        forms[c] = OUTPUT_REAL;
    }
    struct plan_spec spec = {
        .inputs = run->channels,
        .scales = scales,
        .taps = (const struct taps *const *)run->taps,
        .taps_count = run->channels,
        .edges = edges,
        .edge_count = run->channels,
        .outputs = forms,
        .outputs_count = run->channels,
        .hop = run->hop,
        .blocks_max = run->blocks,
    };
    sample_format_parse("f32le", &spec.format);
    if (error < 0 || plan_prepare(engine, &spec, &run->plan, &problem) < 0 ||
        engine_ring_open(engine, (uint64_t)(run->blocks + 1) * run->hop,
                         run->channels * (uint32_t)sizeof(float), &run->ring, &problem) < 0)
        die(problem.text);
    float *x = (float *)(void *)run->ring->bytes;
    for (uint64_t i = 0; i < (uint64_t)run->ring->frames * run->channels; i++)
        x[i] = (float)(2 * random_unit(&noise) - 1);
    memset(run->ring->present, 0xff, run->ring->frames / 8);
    submit(run);
    struct batch *batch = wait_batch();
    run->error = check(run, &batch->items[0]);
    engine_batch_release(engine, batch);
}

static void run_close(struct run *run)
{
    engine_ring_close(engine, run->ring);
    plan_close(run->plan);
    for (uint32_t c = 0; c < run->channels; c++)
        taps_free(run->taps[c]);
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
           ((double)completed * run->blocks * run->hop * run->channels);
}

/* ---- a row -------------------------------------------------------------------------------------- */

static bool row(struct peer_child *peer, const struct run *run, bool quick, FILE *csv)
{
    const int64_t for_ns = quick ? 20 * NS_PER_MS : 60 * NS_PER_MS;
    struct series ours = {0}, theirs = {0}, ratio = {0};
    double error = 0;
    const uint32_t repetitions = quick ? 5 : 11;
    for (uint32_t i = 0; i <= repetitions; i++) {
        const double own = own_time(run, for_ns), other = peer_time(peer, run, for_ns, &error);
        if (other == 0)
            return false;
        if (i == 0)
            continue; /* both warm up */
        series_add(&ours, own);
        series_add(&theirs, other);
        series_add(&ratio, other / own);
    }
    const struct spread spread = series_spread(&ratio);
    const double own = 1e-6 / series_spread(&ours).median, other = 1e-6 / series_spread(&theirs).median;
    const double worst = run->error > error ? run->error : error;
    printf("%2u channels, N = %5u   ours %7.1f   %-14s %7.1f Msamples/s   %5.2f times (%.2f…%.2f)   bar %g   "
           "errors %.1e %.1e%s\n",
           run->channels, run->fft, own, peer->name, other, spread.median, spread.q1, spread.q3,
           peer->bar, run->error, error, worst > 1e-6 ? "   WRONG" : "");
    fflush(stdout);
    if (csv != NULL)
        fprintf(csv,
                "cpu against %s,%uch N=%u 1t,%.6g,%.6g,%.4f,>=%g,Msamples/s,%.4f,%.4f…%.4f,%.3g,"
                "BENCH_ONLY=peers make bench\n",
                peer->name, run->channels, run->fft, own, other, spread.median, peer->bar, spread.median,
                spread.q1, spread.q3, worst);
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
    signal(SIGPIPE, SIG_IGN);
    log_set_level(LOG_LEVEL_WARNING);
    bell = eventfd(0, EFD_CLOEXEC);
    struct problem problem = {0};
    const struct engine_options options = {
        .device = "cpu", .cpu_threads = 1, .wake = wake, .wake_context = &bell};
    if (engine_open(&options, &engine, &problem) < 0)
        die(problem.text);
    FILE *csv = NULL;
    if (csv_path != NULL &&
        (csv = results_open(csv_path, "what,shape,ours,peer,ratio,bar,unit,median,spread,error,command")) == NULL)
        fprintf(stderr, "bench_peers: %s: %s; nothing is saved\n", csv_path, strerror(errno));
    bool good = true;
    for (int p = 0; p < PEERS; p++) {
        if (!peer_start(&peers[p], programs)) {
            printf("%s is left out: its library was not there when the benches were built\n", peers[p].name);
            continue;
        }
        for (size_t c = 0; c < 2; c++)
            for (size_t f = 0; f < 4; f++) {
                if (quick && (f == 0 || f == 3))
                    continue;
                struct run run = {.channels = channels[c], .fft = ffts[f]};
                run_open(&run);
                good = row(&peers[p], &run, quick, csv) && good;
                run_close(&run);
            }
        fclose(peers[p].ask);
        fclose(peers[p].answer);
        waitpid(peers[p].child, NULL, 0);
    }
    if (csv != NULL)
        fclose(csv);
    engine_close(engine);
    close(bell);
    return good ? 0 : 1;
}
