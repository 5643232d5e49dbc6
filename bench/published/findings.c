/*
 * What the cells of one device show, in sentences that follow from them: see report.h.
 */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "bench/published/grid.h"
#include "bench/published/report.h"
#include "bench/published/single_fft.h"
#include "bench/published/vector_width.h"

enum { RATIOS_MAX = 256 };

struct ratios {
    int count;
    double values[RATIOS_MAX];
};

static int by_value(const void *left, const void *right)
{
    const double a = *(const double *)left, b = *(const double *)right;
    return (a > b) - (a < b);
}

static void ratio(struct ratios *ratios, double a, double b)
{
    if (a > 0 && b > 0 && ratios->count < RATIOS_MAX)
        ratios->values[ratios->count++] = a / b;
}

/* "12 (3.1 … 40)" */
static void print_ratios(FILE *out, struct ratios *ratios)
{
    qsort(ratios->values, (size_t)ratios->count, sizeof ratios->values[0], by_value);
    if (ratios->count == 0)
        fprintf(out, "–");
    else
        fprintf(out, "%.3g times (median of %d shapes; %.2g … %.3g)",
                ratios->values[ratios->count / 2], ratios->count, ratios->values[0],
                ratios->values[ratios->count - 1]);
}

static void against(struct report *report, const char *a, const char *b)
{
    FILE *out = report->out;
    fprintf(out, "- **%s against %s.** ", a, b);
    for (uint32_t i = 0; i < grid_m_count; i++) {
        const uint32_t m = grid_m[i];
        uint32_t first = 0, last = 0, wins = 0, count = 0, longest = 0;
        for (uint32_t n = GRID_N_MIN; n <= GRID_N_MAX; n *= 2) {
            const double ka = report_speedup(report, "convolution", a, m, n);
            const double kb = report_speedup(report, "convolution", b, m, n);
            if (!(ka > 0 && kb > 0))
                continue;
            count++;
            longest = n;
            if (ka <= kb)
                continue;
            wins++;
            first = first == 0 ? n : first;
            last = n;
        }
        if (count == 0)
            continue;
        if (wins == 0)
            fprintf(out, "%u×%u: %s at every N up to %u. ", m, m, b, longest);
        else if (wins == count)
            fprintf(out, "%u×%u: %s at every N up to %u. ", m, m, a, longest);
        else
            fprintf(out, "%u×%u: %s at %u of %u lengths (N = %u … %u). ", m, m, a, wins, count,
                    first, last);
    }
    fprintf(out, "\n");
}

static void production_ahead(struct report *report)
{
    static const char *const names[] = {"C", "E"};
    for (int v = 0; v < 2; v++) {
        struct ratios ratios = {.count = 0};
        for (uint32_t i = 0; i < grid_m_count; i++)
            for (uint32_t n = GRID_N_MIN; n <= GRID_N_MAX; n *= 2)
                ratio(&ratios, report_speedup(report, "convolution", "convolvd", grid_m[i], n),
                      report_speedup(report, "convolution", names[v], grid_m[i], n));
        fprintf(report->out, "- **convolvd is ahead of %s** by ", names[v]);
        print_ratios(report->out, &ratios);
        fprintf(report->out, ".\n");
    }
}

/* What convolvd does without transfers, held against the launches of C and E. */
static double launches(const struct report *report, const char *system, uint32_t m, uint32_t n)
{
    return report_pure(report, system, "convolvd", m, n);
}

static const struct {
    const char *what;
    double (*speedup)(const struct report *report, const char *system, uint32_t m, uint32_t n);
} without_transfers[] = {
    {"launches are", launches},
    {"batch in device memory, submitted to completed, is", report_resident},
    {"share of a batch in device memory while several are in flight is", report_steady},
};

static void without_transfers_ahead(struct report *report)
{
    enum { VECTORS_MANY = 400, POINTS_MANY = 512 };
    static const char *const names[] = {"C", "E"};
    for (size_t w = 0; w < sizeof without_transfers / sizeof without_transfers[0]; w++)
        for (int v = 0; v < 2; v++) {
            struct ratios all = {.count = 0}, many = {.count = 0};
            for (uint32_t i = 0; i < grid_m_count; i++)
                for (uint32_t n = GRID_N_MIN; n <= GRID_N_MAX; n *= 2) {
                    const uint32_t m = grid_m[i];
                    const double ours = without_transfers[w].speedup(report, "convolution", m, n),
                                 theirs = report_pure(report, "convolution", names[v], m, n);
                    ratio(&all, ours, theirs);
                    if (m * m >= VECTORS_MANY && n >= POINTS_MANY)
                        ratio(&many, ours, theirs);
                }
            if (all.count == 0)
                continue;
            fprintf(report->out, "- **convolvd's %s ahead of %s's launches** by ",
                    without_transfers[w].what, names[v]);
            print_ratios(report->out, &all);
            fprintf(report->out, "; with M·J ≥ %d and N ≥ %d by ", VECTORS_MANY, POINTS_MANY);
            print_ratios(report->out, &many);
            fprintf(report->out, ".\n");
        }
}

/* Names the cells in which convolvd is less than this far ahead, host to host. */
static const double wanted_ahead = 1.5;

static void behind_in(struct report *report, const char *system, const char *const *variants,
                      uint32_t *count)
{
    for (uint32_t i = 0; i < report->cells.count; i++) {
        const struct cell *ours = &report->cells.cells[i];
        if (strcmp(ours->system, system) != 0 || strcmp(ours->variant, "convolvd") != 0 ||
            ours->part[0] != '\0' || !(ours->total_ns > 0))
            continue;
        for (const char *const *name = variants; *name != NULL; name++) {
            const double theirs = report_speedup(report, system, *name, ours->m, ours->n);
            const double ahead = report_speedup(report, system, "convolvd", ours->m, ours->n);
            if (theirs > 0 && ahead < wanted_ahead * theirs)
                fprintf(report->out, "%s %s M %u N %u (%.2f of %s)", (*count)++ > 0 ? "," : "",
                        system, ours->m, ours->n, ahead / theirs, *name);
        }
    }
}

static void behind(struct report *report)
{
    static const char *const convolution[] = {"C", "E", NULL}, *const fft[] = {"A", NULL},
                             *const forms[] = {"global", "constant", "stride", NULL};
    uint32_t count = 0;
    fprintf(report->out,
            "- **Cells in which convolvd is less than %.1f times ahead**:", wanted_ahead);
    behind_in(report, "convolution", convolution, &count);
    behind_in(report, "fft", fft, &count);
    behind_in(report, "direct", forms, &count);
    fprintf(report->out, "%s.\n", count == 0 ? " none" : "");
}

static void transfers(struct report *report)
{
    static const char *const pairs[][2] = {{"B", "A"}, {"E", "D"}};
    for (int p = 0; p < 2; p++) {
        struct ratios ratios = {.count = 0};
        for (uint32_t i = 0; i < grid_m_count; i++)
            for (uint32_t n = GRID_N_MIN; n <= GRID_N_MAX; n *= 2)
                ratio(&ratios, report_speedup(report, "convolution", pairs[p][0], grid_m[i], n),
                      report_speedup(report, "convolution", pairs[p][1], grid_m[i], n));
        fprintf(report->out, "- **3 transfers instead of 9** (%s over %s): ", pairs[p][0],
                pairs[p][1]);
        print_ratios(report->out, &ratios);
        fprintf(report->out, ".\n");
    }
}

static void best_fft(struct report *report)
{
    fprintf(report->out, "- **The fastest FFT by N** (launches alone):");
    const char *last = NULL;
    for (uint32_t p = FFT_LOG2_MIN; p <= FFT_LOG2_MAX; p++) {
        const char *best = NULL;
        double best_ns = INFINITY;
        for (int v = 0; v < FFT_VARIANTS; v++) {
            const char *variant = fft_variant_name((enum fft_variant)v);
            const struct cell *cell = cells_find(&report->cells, "fft", variant, "", 0, 1u << p);
            if (cell != NULL && cell->kernel_ns > 0 && cell->kernel_ns < best_ns) {
                best_ns = cell->kernel_ns;
                best = variant;
            }
        }
        if (best == NULL || best == last)
            continue;
        fprintf(report->out, "%s %s from 2^%u", last == NULL ? "" : ",", best, p);
        last = best;
    }
    fprintf(report->out, ".\n");
    struct ratios ratios = {.count = 0};
    for (uint32_t p = FFT_LOG2_MIN; p <= FFT_LOG2_MAX; p++)
        ratio(&ratios, report_speedup(report, "fft", "convolvd", 0, 1u << p),
              report_speedup(report, "fft", "A", 0, 1u << p));
    fprintf(report->out, "- **convolvd's transforms over A's**, host to host: ");
    print_ratios(report->out, &ratios);
    fprintf(report->out, ".\n");
}

static void direct(struct report *report)
{
    static const char *const pairs[][2] = {{"constant", "global"}, {"stride", "constant"}};
    static const char *const titles[] = {"Taps in constant memory over global memory",
                                         "Grid-stride loop over one item a sample"};
    for (int p = 0; p < 3; p++) {
        struct ratios ratios = {.count = 0};
        for (uint32_t i = 0; i < grid_direct_n_count; i++)
            for (uint32_t m = GRID_DIRECT_M_MIN; m <= GRID_DIRECT_M_MAX; m *= 2) {
                const uint32_t n = grid_direct_n[i];
                const double best = fmax(report_speedup(report, "direct", "constant", m, n),
                                         report_speedup(report, "direct", "global", m, n));
                if (p < 2)
                    ratio(&ratios, report_speedup(report, "direct", pairs[p][0], m, n),
                          report_speedup(report, "direct", pairs[p][1], m, n));
                else
                    ratio(&ratios, report_speedup(report, "direct", "convolvd", m, n), best);
            }
        fprintf(report->out,
                "- **%s**: ", p < 2 ? titles[p] : "convolvd over the best direct form");
        print_ratios(report->out, &ratios);
        fprintf(report->out, ".\n");
    }
}

static void local_sizes(struct report *report)
{
    for (uint32_t p = 0; p < grid_pipeline_count; p++) {
        const struct grid_pipeline *shape = &grid_pipelines[p];
        double slowest = 0, fastest = INFINITY;
        uint32_t best = 0;
        for (uint32_t local = 1; local <= 512; local *= local == 1 ? 16 : 2) {
            const struct cell *cell =
                cells_find(&report->cells, "pipeline", "total", shape->name, local, shape->width);
            if (cell == NULL || !(cell->kernel_ns > 0))
                continue;
            slowest = fmax(slowest, cell->kernel_ns);
            if (cell->kernel_ns < fastest) {
                fastest = cell->kernel_ns;
                best = local;
            }
        }
        if (best > 0)
            fprintf(report->out,
                    "- **Local work size** (%s): %u is best, %.3g times faster than the worst.\n",
                    shape->name, best, slowest / fastest);
    }
}

static void widths(struct report *report)
{
    fprintf(report->out, "- **Vector width**, fastest / reported:");
    for (int type = 0; type < WIDTH_TYPES; type++) {
        const char *name = width_type_name((enum width_type)type), *reported = "–";
        uint32_t fastest = 0;
        double best_ns = INFINITY, worst_ns = 0;
        for (uint32_t vector = 1; vector <= WIDTH_LARGEST; vector *= 2) {
            const struct cell *cell =
                cells_find(&report->cells, "width", "probe", name, vector, GRID_WIDTH_VALUES);
            if (cell == NULL || !(cell->total_ns > 0))
                continue;
            reported = cell->note + (strncmp(cell->note, "reported ", 9) == 0 ? 9 : 0);
            worst_ns = fmax(worst_ns, cell->total_ns);
            if (cell->total_ns < best_ns) {
                best_ns = cell->total_ns;
                fastest = vector;
            }
        }
        fprintf(report->out, "%s %s %u / %s (%.2f times the slowest)", type > 0 ? "," : "", name,
                fastest, reported, worst_ns / best_ns);
    }
    fprintf(report->out, ".\n");
}

int report_findings(struct report *report)
{
    fprintf(report->out, "Device: %s.\n\n", report->cells.device);
    against(report, "C", "E");
    transfers(report);
    production_ahead(report);
    without_transfers_ahead(report);
    behind(report);
    best_fft(report);
    direct(report);
    local_sizes(report);
    widths(report);
    double worst = 0;
    uint32_t checked = 0;
    for (uint32_t i = 0; i < report->cells.count; i++) {
        const struct cell *cell = &report->cells.cells[i];
        if (cell->total_ns > 0 && cell->error > 0) {
            worst = fmax(worst, cell->error);
            checked++;
        }
    }
    fprintf(report->out,
            "- **Correct**: %u results against double precision, the worst ‖e‖₂/‖y‖₂ is "
            "%.2g.\n",
            checked, worst);
    return 0;
}
