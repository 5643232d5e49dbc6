/*
 * Runs the published systems at the sizes of their papers, and convolvd on the same work, and keeps
 * every figure as a cell of a CSV file (cells.h); report_published turns cells into tables and
 * plots.
 *
 * A cell is the fastest of some repetitions after one that is not counted, in which the result is
 * held against double precision. What does not fit is a cell too, with the reason. An interrupted
 * run goes on with the cells that are missing.
 *
 * One thread.
 */
#include <getopt.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "bench/gpu_resident.h"
#include "bench/launch_times.h"
#include "bench/published/bench.h"
#include "bench/published/grid.h"
#include "bench/published/multiple_convolution.h"
#include "bench/published/single_fft.h"
#include "bench/published/vector_width.h"
#include "core/clock.h"
#include "core/log.h"

/* ---- the run ----------------------------------------------------------------------------- */

enum { GROUPS_MAX = 256, CELLS_MAX = 64 };

static uint32_t list_groups(struct group *groups)
{
    uint32_t count = 0;
    for (uint32_t t = 0; t < WIDTH_TYPES; t++)
        groups[count++] = (struct group){WIDTH, 0, GRID_WIDTH_VALUES, t, 3};
    for (uint32_t p = 0; p < grid_pipeline_count; p++)
        groups[count++] = (struct group){PIPELINE, 0, 0, p, 8};
    for (uint32_t i = 0; i < grid_direct_n_count; i++)
        for (uint32_t m = GRID_DIRECT_M_MIN; m <= GRID_DIRECT_M_MAX; m *= 2)
            groups[count++] =
                (struct group){DIRECT, m, grid_direct_n[i], 0, 1 + 2e-9 * m * grid_direct_n[i]};
    for (uint32_t p = FFT_LOG2_MIN; p <= FFT_LOG2_MAX; p++)
        groups[count++] = (struct group){FFT, 0, 1u << p, 0, 2 + 8e-7 * (1u << p)};
    for (uint32_t n = GRID_N_MIN; n <= GRID_N_MAX; n *= 2)
        for (uint32_t i = 0; i < grid_m_count; i++)
            groups[count++] =
                (struct group){CONVOLUTION, grid_m[i], n, 0, 2 + 2e-6 * grid_m[i] * grid_m[i] * n};
    return count;
}

static int (*const runs[])(struct bench *, const struct group *) = {
    [CONVOLUTION] = run_convolution, [FFT] = run_fft,     [DIRECT] = run_direct,
    [PIPELINE] = run_pipeline,       [WIDTH] = run_width,
};

static const char *const system_names[] = {
    [CONVOLUTION] = "convolution", [FFT] = "fft",     [DIRECT] = "direct",
    [PIPELINE] = "pipeline",       [WIDTH] = "width",
};

/* Whether every cell of a group is there: nothing of it need be opened. */
static bool complete(const struct bench *bench, const struct group *group)
{
    static const char *const convolution[] = {"A", "B", "C", "D", "E", "convolvd", NULL};
    static const char *const fft[] = {"A", "B", "B^L", "C", "C^L", "D", "E", "F", "convolvd", NULL};
    static const char *const direct[] = {"global", "constant", "stride", "convolvd", NULL};
    static const char *const *const variants[] = {[CONVOLUTION] = convolution,
                                                  [FFT] = fft,
                                                  [DIRECT] = direct,
                                                  [PIPELINE] = NULL,
                                                  [WIDTH] = NULL};
    const char *const *names = variants[group->system];
    bool all = names != NULL;
    for (; all && *names != NULL; names++) {
        const struct cell cell =
            cell_of(system_names[group->system], *names, "", group->m, group->n);
        all = cell_done(bench, &cell);
    }
    return all;
}

static void progress(const struct group *group, double before, double all, int64_t since_ns)
{
    enum { BAR = 30 };
    char bar[BAR + 1];
    const int full = (int)(BAR * before / all);
    for (int i = 0; i < BAR; i++)
        bar[i] = i < full ? '#' : '.';
    bar[BAR] = '\0';
    const double spent_s = (double)(clock_monotonic_ns() - since_ns) / 1e9;
    const double left_s = before > 0 ? spent_s * (all - before) / before : 0;
    fprintf(stderr,
            isatty(STDERR_FILENO) ? "\r%s %3.0f %%  %3.0f:%02.0f left  %-11s M %-3u N %-9u"
                                  : "%s %3.0f %%  %3.0f:%02.0f left  %-11s M %-3u N %u\n",
            bar, 100 * before / all, floor(left_s / 60), floor(fmod(left_s, 60)),
            system_names[group->system], group->m, group->n);
}

/* Systems and shapes to run; empty: all. */
struct selection {
    const char *only;
    const char *cells[CELLS_MAX]; /* "SYSTEM,M,N"; an FFT's M is 0 */
    uint32_t cell_count;
};

static bool is_selected(const struct selection *selection, const struct group *group)
{
    const char *name = system_names[group->system];
    char shape[64];
    snprintf(shape, sizeof shape, "%s,%u,%u", name, group->m, group->n);
    bool selected = selection->cell_count == 0;
    for (uint32_t i = 0; i < selection->cell_count; i++)
        selected = selected || strcmp(selection->cells[i], shape) == 0;
    return selected && (selection->only == NULL || strcmp(selection->only, name) == 0);
}

static int run_all(struct bench *bench, const struct selection *selection)
{
    static struct group groups[GROUPS_MAX];
    bool wanted[GROUPS_MAX];
    const uint32_t count = list_groups(groups);
    double all = 0, before = 0;
    for (uint32_t g = 0; g < count; g++) {
        if (groups[g].system == CONVOLUTION &&
            (uint64_t)groups[g].m * groups[g].m * groups[g].n > bench->points_max)
            groups[g].weight = 0;
        wanted[g] = is_selected(selection, &groups[g]) && !complete(bench, &groups[g]);
        all += wanted[g] ? groups[g].weight : 0;
    }
    const int64_t since_ns = clock_monotonic_ns();
    int error = 0;
    for (uint32_t g = 0; error == 0 && g < count; g++) {
        if (!wanted[g])
            continue;
        progress(&groups[g], before, all, since_ns);
        if (bench->deadline_ns != 0 && clock_monotonic_ns() > bench->deadline_ns) {
            fprintf(stderr, "\nout of time: run again to go on from here\n");
            break;
        }
        error = runs[groups[g].system](bench, &groups[g]);
        before += groups[g].weight;
    }
    fputc('\n', stderr);
    return error;
}

/* ---- arguments --------------------------------------------------------------------------- */

static const char help[] =
    "bench_published [options]: the published systems at the sizes of their papers\n"
    "  --device NAME    as for convolvd (default auto)\n"
    "  --threads N      of a CPU device (default: all cores)\n"
    "  --csv FILE       cells (default bench/results/published-cpu.csv or -gpu.csv)\n"
    "  --fresh          begin the file again\n"
    "  --only SYSTEM    convolution, fft, direct, pipeline or width\n"
    "  --cell S,M,N     this system and shape only, e.g. direct,8,10000 or fft,0,65536; any "
    "number\n"
    "  --ways A,B       measure convolvd's variants of these names beside its own choice\n"
    "  --streams N      convolvd computes N of a shape in one batch, a cell is the share of one "
    "(default 1,\n                   at most 64; for a CSV file of its own)\n"
    "  --points N       largest M*J*N (default 2^20 on a CPU, 2^25 on a GPU)\n"
    "  --cache FOLDER   of program binaries (default none)\n"
    "  --seconds N      stop after that long; the next run goes on\n";

static void make_folder(const char *path)
{
    char folder[512];
    snprintf(folder, sizeof folder, "%s", path);
    for (char *slash = strchr(folder + 1, '/'); slash != NULL; slash = strchr(slash + 1, '/')) {
        *slash = '\0';
        (void)mkdir(folder, 0777); /* opening the file says what is wrong */
        *slash = '/';
    }
}

static uint64_t whole(const char *text)
{
    return text != NULL ? strtoull(text, NULL, 10) : 0;
}

static void set_resident(bool resident)
{
    gpu_resident = resident;
}

struct arguments {
    const char *csv, *try_np;
    struct selection selection;
    bool fresh;
    int64_t seconds;
};

/* Returns 0, or -1 after printing the help; *status is then the exit status. */
static int parse(int argc, char **argv, struct bench *bench, struct arguments *arguments,
                 int *status)
{
    static const struct option options[] = {
        {"device", required_argument, NULL, 'd'}, {"threads", required_argument, NULL, 't'},
        {"csv", required_argument, NULL, 'c'},    {"fresh", no_argument, NULL, 'f'},
        {"only", required_argument, NULL, 'o'},   {"cell", required_argument, NULL, 'l'},
        {"ways", required_argument, NULL, 'w'},   {"streams", required_argument, NULL, 's' + 256},
        {"points", required_argument, NULL, 'p'}, {"seconds", required_argument, NULL, 's'},
        {"try-np", required_argument, NULL, 'n'}, {"cache", required_argument, NULL, 'k'},
        {"help", no_argument, NULL, 'h'},         {NULL, 0, NULL, 0}};
    for (int option; (option = getopt_long(argc, argv, "", options, NULL)) != -1;)
        switch (option) {
        case 'd':
            bench->device = optarg;
            break;
        case 't':
            bench->threads = optarg != NULL ? optarg : "0";
            break;
        case 'c':
            arguments->csv = optarg;
            break;
        case 'f':
            arguments->fresh = true;
            break;
        case 'k':
            bench->cache_dir = optarg;
            break;
        case 'o':
            arguments->selection.only = optarg;
            break;
        case 'l':
            if (arguments->selection.cell_count < CELLS_MAX)
                arguments->selection.cells[arguments->selection.cell_count++] = optarg;
            break;
        case 'w':
            bench->ways = optarg;
            break;
        case 's' + 256:
            bench->streams = (uint32_t)whole(optarg);
            break;
        case 'p':
            bench->points_max = whole(optarg);
            break;
        case 's':
            arguments->seconds = (int64_t)whole(optarg);
            break;
        case 'n':
            arguments->try_np = optarg;
            break;
        default:
            fputs(help, option == 'h' ? stdout : stderr);
            *status = option == 'h' ? 0 : 2;
            return -1;
        }
    return 0;
}

/* --try-np: one cell of the multiple convolution with a given number of points a work-item. */
static int try_np(struct bench *bench, const char *shape)
{
    uint32_t m, j, n, np;
    if (sscanf(shape, "%u,%u,%u,%u", &m, &j, &n, &np) != 4 ||
        lab_open(&bench->lab, bench->device, atoi(bench->threads), NULL) != 0)
        return 1;
    return convolution_try_np(&bench->lab, m, j, n, np) == 0 ? 0 : 1;
}

int main(int argc, char **argv)
{
    static struct bench bench = {
        .device = "auto",
        .threads = "0",
        .cell_ns = 60 * NS_PER_MS,
        .streams = 1,
        .random = {1},
        .probes = {set_resident, launch_times_begin, launch_times_end},
    };
    struct arguments arguments = {0};
    int status = 0;
    if (parse(argc, argv, &bench, &arguments, &status) < 0)
        return status;
    if (bench.streams < 1 || bench.streams > PRODUCTION_STREAMS) {
        fprintf(stderr, "bench_published: --streams takes 1 to %d\n", PRODUCTION_STREAMS);
        return 2;
    }
    if (arguments.try_np != NULL)
        return try_np(&bench, arguments.try_np);
    log_set_level(LOG_LEVEL_WARNING);
    bench.deadline_ns =
        arguments.seconds > 0 ? clock_monotonic_ns() + arguments.seconds * NS_PER_SECOND : 0;
    if (lab_open(&bench.lab, bench.device, atoi(bench.threads), bench.cache_dir) != 0) {
        fprintf(stderr, "bench_published: %s\n", bench.lab.problem.text);
        return 1;
    }
    const bool gpu = bench.lab.found.info.gpu;
    if (bench.points_max == 0)
        bench.points_max = gpu ? 1 << 25 : 1 << 20;
    const char *csv = arguments.csv;
    if (csv == NULL)
        csv = gpu ? "bench/results/published-gpu.csv" : "bench/results/published-cpu.csv";
    make_folder(csv);
    if (arguments.fresh)
        unlink(csv);
    int error = cells_open(&bench.cells, csv, bench.lab.found.info.name, &bench.problem);
    if (error == 0)
        error = run_all(&bench, &arguments.selection);
    if (error != 0)
        fprintf(stderr, "bench_published: %s\n", bench.problem.text);
    cells_close(&bench.cells);
    lab_close(&bench.lab);
    return error != 0 || bench.wrong != 0;
}
