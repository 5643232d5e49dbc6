/*
 * The engine on a GPU with its data resident in device memory, beside the device's own copy and
 * the peer programs there are (bench/cufft_peer.cu, bench/peers/peer_vkfft.cc), in the same run.
 *
 * A row is one shape: points Q of the transform (N = 2Q frames), channels, sample format. A ring
 * of --mib MiB of noise is uploaded once and checked against the definition in double; from then
 * on no sample crosses the bus (`resident`). All else is as the engine runs: batches of up to 64
 * items, as many in flight as the device's queue takes, on the engine's queues. The contestants
 * take turns (ours, copy, peer, ours …); a figure is the median of its repetitions with quartiles,
 * a ratio the median of the ratios of neighbours.
 *
 *     share    bytes of new samples in + bytes of frames out over time / the same for
 *              clEnqueueCopyBuffer (bytes read + written)
 *     peer     time of the peer for one window (cuFFT's three passes, VkFFT's one) / ours
 *     duplex   host to host, both ways at once, beside pinned copies both ways at once (--latency);
 *              ours from the first completed batch to the last, so that both ways are busy in it
 *     latency  64 channels, one block of 1024: submit → completion seen, resident and with copies
 *
 * With --together several devices of one host are measured at once (gpu_together.h). Else one
 * thread plays the loop. The bars are those of bench/bars.csv: make bench-check.
 */
#include <errno.h>
#include <getopt.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "bench/gpu_run.h"
#include "bench/gpu_together.h"
#include "core/clock.h"
#include "core/doorbell.h"

enum { LATENCY_RUNS = 400 };

/* ---- on the device ----------------------------------------------------------------------- */

/* While the data are resident. */
static double run_resident(struct bench *bench, const struct run *run)
{
    return run_timed(bench, run, 0, bench->repetition_ns);
}

static void result(struct bench *bench, const char *what, const char *shape, double ours,
                   double peer, const struct series *ratio, const char *unit, double error)
{
    const struct spread spread = series_spread(ratio);
    printf("%-22s %-26s ours %9.4g  peer %9.4g %-9s %7.3f (%.3f…%.3f) error %.2g\n", what, shape,
           ours, peer, unit, spread.median, spread.q1, spread.q3, error);
    fflush(stdout);
    if (bench->results != NULL)
        fprintf(bench->results, "%s,%s,%.6g,%.6g,%.4f,,%s,%.4f,%.4f…%.4f,%.3g,%s\n", what, shape,
                ours, peer, spread.median, unit, spread.median, spread.q1, spread.q3, error,
                bench->command);
}

static void measure(struct bench *bench, struct run *run)
{
    struct problem problem = {0};
    gpu_resident = false; /* the plan's self-test copies */
    if (run_open(bench, run, &problem) < 0) {
        printf("Q = %u, %u channels, %s: %s\n", run->points, run->channels, run->format_name,
               problem.text);
        run_close(bench, run);
        return;
    }
    if (!result_format_equal(&plan_info(run->plan)->results, &run->results)) {
        printf("Q = %u, %u channels, %s: %s gives floats; left out\n", run->points, run->channels,
               run->format_name, plan_info(run->plan)->variant);
        run_close(bench, run);
        return;
    }
    const double error = run_check(bench, run);
    gpu_resident = true;
    bench->wrong += !(error < 5e-6);
    run_resident(bench, run);

    const double bytes = run_samples_in(run) * (run->format.bytes + run_result_bytes(run));
    const double windows = (double)run->batch_blocks * run->channels;
    struct series ours = {0}, copy = {0}, share = {0}, peer[PEERS_MOST] = {0},
                  gain[PEERS_MOST] = {0};
    double peer_error = 0;
    for (uint32_t i = 0; i < bench->repetitions; i++) {
        const double seconds = run_resident(bench, run);
        series_add(&ours, seconds);
        series_add(&copy, copier_run(&bench->copier, bench->repetition_ns));
        series_add(&share, bytes / seconds / copy.values[i]);
        for (uint32_t p = 0; p < bench->peer_count; p++) {
            const double theirs =
                peer_program_run(&bench->peers[p], run->points, bench->repetition_ns, &peer_error);
            if (theirs == 0 || peer_error > 1e-5)
                continue;
            series_add(&peer[p], theirs);
            series_add(&gain[p], theirs / (seconds / windows));
        }
    }
    char shape[80];
    snprintf(shape, sizeof shape, "%s Q=%u %uch %s", plan_info(run->plan)->variant, run->points,
             run->channels, run->format_name);
    const double seconds = series_spread(&ours).median;
    result(bench, "gpu share of copy", shape, bytes / seconds * 1e-9,
           series_spread(&copy).median * 1e-9, &share, "GB/s", error);
    for (uint32_t p = 0; p < bench->peer_count; p++) {
        const struct peer_program *program = &bench->peers[p];
        const int first =
            (int)strcspn(program->name, "_"); /* VkFFT_CUDA: one bar for both of its ways */
        char what[64], with[160];
        if (peer[p].count < bench->repetitions) {
            printf("%s at Q = %u: no figure: %s\n", program->name, run->points, program->said);
            continue;
        }
        snprintf(what, sizeof what, "gpu against %.*s", first, program->name);
        snprintf(with, sizeof with, "%s%s%s", shape, program->name[first] == '_' ? " " : "",
                 program->name + first + (program->name[first] == '_'));
        result(bench, what, with, seconds / windows * 1e9, series_spread(&peer[p]).median * 1e9,
               &gain[p], "ns/window", error);
        if (program->said[0] != '\0')
            printf("%22s %s\n", program->name, program->said);
    }
    run_close(bench, run);
}

/* ---- host to host ------------------------------------------------------------------------ */

/* Bytes a second, new frames in and results out. */
static double crossing_run(struct bench *bench, const struct run *run)
{
    const double seconds = run_timed(bench, run, CROSSING_IN_FLIGHT, 4 * bench->repetition_ns);
    return run_samples_in(run) * (run->format.bytes + sizeof(float)) / seconds;
}

static void measure_duplex(struct bench *bench)
{
    struct duplex duplex = {0};
    struct run run = {.format_name = "f32le", .points = 1024, .channels = 16};
    struct problem problem = {0};
    const uint64_t bytes = bench->bytes;
    if (!duplex_open(&duplex, bench->copier.context, bench->copier.device,
                     (uint64_t)DUPLEX_MIB << 20)) {
        fprintf(stderr, "no pinned memory for copies both ways\n");
        return;
    }
    sample_format_parse(run.format_name, &run.format);
    gpu_resident = false;
    bench->bytes = (uint64_t)DUPLEX_MIB << 20;
    if (run_open(bench, &run, &problem) < 0) {
        fprintf(stderr, "%s\n", problem.text);
        exit(1);
    }
    const double error = run_check(bench, &run);
    bench->wrong += !(error <= 1e-6);
    struct series ours = {0}, copies = {0}, share = {0};
    for (uint32_t i = 0; i <= bench->repetitions; i++) {
        const double own = crossing_run(bench, &run);
        const struct copied plain = duplex_run(&duplex, 0);
        const double copied = plain.bytes / plain.seconds;
        if (i == 0)
            continue; /* both warm up */
        series_add(&ours, own);
        series_add(&copies, copied);
        series_add(&share, own / copied);
    }
    result(bench, "gpu share of duplex", "Q=1024 16ch f32le host to host",
           series_spread(&ours).median * 1e-9, series_spread(&copies).median * 1e-9, &share, "GB/s",
           error);
    run_close(bench, &run);
    bench->bytes = bytes;
}

/* ---- latency ----------------------------------------------------------------------------- */

static void measure_latency(struct bench *bench)
{
    struct run run = {.format_name = "f32le", .points = 1024, .channels = 64, .hop = 1024};
    struct problem problem = {0};
    sample_format_parse("f32le", &run.format);
    const uint64_t bytes = bench->bytes;
    gpu_resident = false;
    if (bench->bytes > UINT64_C(64) << 20)
        bench->bytes = UINT64_C(64) << 20;
    const int error = run_open(bench, &run, &problem);
    bench->bytes = bytes;
    if (error < 0) {
        printf("latency: %s\n", problem.text);
        run_close(bench, &run);
        return;
    }
    const struct batch_item item = {
        .plan = run.plan,
        .ring = run.ring,
        .position = 4096,
        .epoch_block = 1000,
        .blocks = 1,
        .write_until = run.hop,
    };
    for (int copies = 0; copies < 2; copies++) {
        struct series took = {0}, stages[3] = {0};
        gpu_resident = copies == 0;
        for (uint32_t i = 0; i < LATENCY_RUNS; i++) {
            struct batch *batch = engine_batch_take(bench->engine);
            struct batch_item one = item;
            if (copies) {
                one.fresh_from = one.position;
                one.fresh_until = one.position + run.hop;
            }
            engine_batch_add(bench->engine, batch, &one);
            const int64_t from_ns = clock_monotonic_ns();
            engine_submit(bench->engine, batch);
            batch = bench_wait(bench);
            const int64_t until_ns = clock_monotonic_ns();
            if (i >= LATENCY_RUNS / 10) {
                series_add(&took, (double)(until_ns - from_ns) * 1e-3);
                series_add(&stages[0], (double)(batch->started_ns - from_ns) * 1e-3);
                series_add(&stages[1], (double)(batch->completed_ns - batch->started_ns) * 1e-3);
                series_add(&stages[2], (double)(until_ns - batch->completed_ns) * 1e-3);
            }
            engine_batch_release(bench->engine, batch);
            usleep(1000); /* idle in between, as a stream is */
        }
        const double bar = copies ? 80 : 60;
        printf("to the device thread %.1f, device %.1f, to the loop %.1f us (medians)\n",
               series_spread(&stages[0]).median, series_spread(&stages[1]).median,
               series_spread(&stages[2]).median);
        result(bench, "gpu latency", copies ? "64ch block with copies" : "64ch block resident",
               series_spread(&took).median, bar, &took, "us", 0);
    }
    run_close(bench, &run);
}

/* ---- the program ------------------------------------------------------------------------- */

static void parse_list(struct list *list, char *text)
{
    list->count = 0;
    for (char *word = strtok(text, ","); word != NULL && list->count < LIST_MAX;
         word = strtok(NULL, ","))
        list->values[list->count++] = (uint32_t)strtoul(word, NULL, 10);
}

static const char *const usage =
    "usage: bench_gpu [--device gpu] [--variant NAME] [--kernels DIR] [--points 64,…,8192]\n"
    "                 [--channels 1,16] [--half]\n"
    "                 [--formats f32le,s16le,s16le/s16le] [--mib 1024] [--repetitions 7] [--ms "
    "40]\n"
    "                 [--peer [NAME=]PROGRAM]… [--latency] [--csv FILE]\n"
    "       bench_gpu --together all|DEVICE,… [--mib 64] [--repetitions 7] [--ms 40] [--limit "
    "120]\n"
    "                 [--csv FILE]\n";

static int parse(struct bench *bench, int argc, char **argv)
{
    static const struct option options[] = {
        {"device", required_argument, NULL, 'd'},
        {"variant", required_argument, NULL, 'v'},
        {"points", required_argument, NULL, 'q'},
        {"channels", required_argument, NULL, 'c'},
        {"formats", required_argument, NULL, 'f'},
        {"mib", required_argument, NULL, 'm'},
        {"repetitions", required_argument, NULL, 'r'},
        {"ms", required_argument, NULL, 't'},
        {"peer", required_argument, NULL, 'p'},
        {"latency", no_argument, NULL, 'l'},
        {"csv", required_argument, NULL, 'o'},
        {"together", required_argument, NULL, 'g'},
        {"limit", required_argument, NULL, 's'},
        {"kernels", required_argument, NULL, 'k'},
        {"half", no_argument, NULL, 'h'},
        {NULL, 0, NULL, 0},
    };
    int option;
    while ((option = getopt_long(argc, argv, "", options, NULL)) != -1) {
        switch (option) {
        case 'd':
            bench->device = optarg;
            break;
        case 'v':
            bench->variant = optarg;
            break;
        case 'k':
            bench->kernels = optarg;
            break;
        case 'h':
            bench->half = true;
            break;
        case 'q':
            parse_list(&bench->points, optarg);
            break;
        case 'c':
            parse_list(&bench->channels, optarg);
            break;
        case 'f':
            bench->format_count = 0;
            for (char *word = strtok(optarg, ","); word != NULL && bench->format_count < LIST_MAX;
                 word = strtok(NULL, ","))
                bench->formats[bench->format_count++] = word;
            break;
        case 'm':
            bench->bytes = strtoull(optarg, NULL, 10) << 20;
            break;
        case 'r':
            bench->repetitions = (uint32_t)strtoul(optarg, NULL, 10);
            break;
        case 't':
            bench->repetition_ns = (int64_t)strtoul(optarg, NULL, 10) * NS_PER_MS;
            break;
        case 'p':
            if (bench->peer_count < PEERS_MOST &&
                peer_program_start(&bench->peers[bench->peer_count], optarg) == 0)
                bench->peer_count++;
            else
                fprintf(stderr, "%s does not start: left out\n", optarg);
            break;
        case 'l':
            bench->latency = true;
            break;
        case 'o':
            bench->csv = optarg;
            break;
        case 'g':
            bench->together = optarg;
            break;
        case 's':
            bench->limit_ns = (int64_t)strtoul(optarg, NULL, 10) * NS_PER_SECOND;
            break;
        default:
            fputs(usage, stderr);
            return -1;
        }
    }
    return 0;
}

int main(int argc, char **argv)
{
    char command[512] = "bench_gpu";
    for (int i = 1, length = 9; i < argc; i++)
        length += snprintf(command + length, sizeof command - (size_t)length, " %s", argv[i]);
    struct bench bench = {
        .device = "gpu",
        .points = {8, {64, 128, 256, 512, 1024, 2048, 4096, 8192}},
        .channels = {2, {1, 16}},
        .formats = {"f32le", "s16le", "s16le/s16le"},
        .format_count = 3,
        .bytes = UINT64_C(1) << 30,
        .repetitions = 7,
        .repetition_ns = 40 * NS_PER_MS,
        .limit_ns = 120 * NS_PER_SECOND,
        .command = command,
    };
    if (parse(&bench, argc, argv) < 0)
        return 2;
    for (char *comma = command; bench.together == NULL && (comma = strchr(comma, ',')) != NULL;)
        *comma = ' '; /* a field of a CSV line, not in quotes */
    if (bench.csv != NULL &&
        (bench.results = results_open(
             bench.csv, "what,shape,ours,peer,ratio,bar,unit,median,spread,error,command")) ==
            NULL) {
        fprintf(stderr, "%s: %s\n", bench.csv, strerror(errno));
        return 1;
    }
    if (bench.together != NULL) {
        const int status = together_run(&bench, bench.together, bench.limit_ns);
        if (bench.results != NULL)
            fclose(bench.results);
        return status;
    }
    struct problem problem = {0};
    if (copier_open(&bench.copier, bench.device, bench.bytes, &problem) < 0 ||
        bench_open(&bench, (struct node_setting){NODE_NONE, 0}, &problem) < 0) {
        fprintf(stderr, "%s\n", problem.text);
        return 1;
    }
    const struct device_info *info = engine_device(bench.engine);
    printf("%s, driver %s\n", info->name, info->driver);
    for (uint32_t f = 0; f < bench.format_count; f++)
        for (uint32_t c = 0; c < bench.channels.count; c++)
            for (uint32_t q = 0; q < bench.points.count; q++) {
                struct run run = {.format_name = bench.formats[f],
                                  .points = bench.points.values[q],
                                  .hop = bench.half ? bench.points.values[q] : 0,
                                  .channels = bench.channels.values[c]};
                if (run_parse_formats(&run))
                    measure(&bench, &run);
            }
    if (bench.latency) {
        measure_latency(&bench);
        measure_duplex(&bench);
    }
    engine_close(bench.engine);
    for (uint32_t p = 0; p < bench.peer_count; p++)
        peer_program_stop(&bench.peers[p]);
    if (bench.results != NULL)
        fclose(bench.results);
    if (bench.wrong > 0)
        fprintf(stderr, "%d shapes gave WRONG results\n", bench.wrong);
    return bench.wrong > 0;
}
