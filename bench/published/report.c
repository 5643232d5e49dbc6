/*
 * The tables of the report, see report.h.
 */
#include "bench/published/report.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "bench/published/grid.h"
#include "bench/published/single_fft.h"
#include "bench/published/vector_width.h"

const struct report_table report_tables[] = {
    {"findings", "What it shows", report_findings},
    {"convolution", "Many convolutions (Burtsev 2025)", report_convolution},
    {"fft", "One FFT (Burtsev 2022)", report_fft},
    {"direct", "Direct convolution (Yevchuk et al.)", report_direct},
    {"pipeline", "2-D pipeline (The OpenCL Programming Book)", report_pipeline},
    {"width", "Vector widths (Lavryniuk and Lavreniuk 2012)", report_width},
    {NULL, NULL, NULL},
};

double report_speedup(const struct report *report, const char *system, const char *variant,
                      uint32_t m, uint32_t n)
{
    const struct cell *cell = cells_find(&report->cells, system, variant, "", m, n);
    return cell != NULL && cell->total_ns > 0 ? cell->baseline_ns / cell->total_ns : 0;
}

double report_pure(const struct report *report, const char *system, const char *variant, uint32_t m,
                   uint32_t n)
{
    const struct cell *cell = cells_find(&report->cells, system, variant, "", m, n);
    return cell != NULL && cell->kernel_ns > 0 ? cell->baseline_ns / cell->kernel_ns : 0;
}

double report_resident(const struct report *report, const char *system, uint32_t m, uint32_t n)
{
    const struct cell *cell = cells_find(&report->cells, system, "convolvd", "", m, n);
    return cell != NULL && cell->resident_ns > 0 ? cell->baseline_ns / cell->resident_ns : 0;
}

double report_steady(const struct report *report, const char *system, uint32_t m, uint32_t n)
{
    const struct cell *cell = cells_find(&report->cells, system, "convolvd", "", m, n);
    return cell != NULL && cell->steady_ns > 0 ? cell->baseline_ns / cell->steady_ns : 0;
}

int report_plot(struct report *report, const struct plot *plot, const char *name)
{
    char path[600];
    bool any = false;
    for (int c = 0; c < plot->count; c++)
        any |= plot->curves[c].count > 0;
    if (!any)
        return 0;
    snprintf(path, sizeof path, "%s/published-%s-%s.svg", report->plots, report->device, name);
    fprintf(report->out, "\n![%s](published-%s-%s.svg)\n\n", plot->title, report->device, name);
    return plot_write(plot, path, &report->problem);
}

/* "12.3", or a dash for 0. */
static const char *number(double value, char text[16])
{
    if (!(value > 0))
        return strcpy(text, "–");
    snprintf(text, 16, value < 10 ? "%.2f" : value < 100 ? "%.1f" : "%.0f", value);
    return text;
}

/* published / here / convolvd */
static void three(FILE *out, double published, double here, double ours)
{
    char a[16], b[16], c[16];
    fprintf(out, " %s / %s / %s |", number(published, a), number(here, b), number(ours, c));
}

static const char *const convolution_names[] = {"A", "B", "C", "D", "E"};
enum { CONVOLUTION_NAMES = 5 };

static int plot_convolution(struct report *report, uint32_t m)
{
    struct plot plot = {.x_label = "N"};
    char name[32];
    snprintf(plot.title, sizeof plot.title, "speed-up over one core, %u x %u vectors", m, m);
    snprintf(plot.y_label, sizeof plot.y_label, "K");
    for (int v = 0; v < CONVOLUTION_NAMES; v++) {
        const bool dashed = v == 2 || v == 4; /* the paper's two winners, as published too */
        struct plot_curve *here = plot_curve(&plot, convolution_names[v], v);
        for (uint32_t n = GRID_N_MIN; n <= GRID_N_MAX; n *= 2)
            plot_point(here, n, report_speedup(report, "convolution", convolution_names[v], m, n));
        if (!dashed)
            continue;
        snprintf(name, sizeof name, "%s published", convolution_names[v]);
        struct plot_curve *published = plot_curve(&plot, name, v);
        published->dashed = true;
        for (uint32_t n = GRID_N_MIN; n <= GRID_N_MAX; n *= 2)
            plot_point(
                published, n,
                figures_find(&report->figures, "convolution", convolution_names[v], m, n, "K"));
    }
    struct plot_curve *ours = plot_curve(&plot, "convolvd", 8);
    ours->strong = true;
    for (uint32_t n = GRID_N_MIN; n <= GRID_N_MAX; n *= 2)
        plot_point(ours, n, report_speedup(report, "convolution", "convolvd", m, n));
    snprintf(name, sizeof name, "convolution-%u", m);
    return report_plot(report, &plot, name);
}

/* "2", "1", "0", or a dash. */
static const char *private_room(const struct report *report, uint32_t m, uint32_t n)
{
    static const char *const names[] = {"none", "one", "two"}, *const counts[] = {"0", "1", "2"};
    for (int r = 0; r < 3; r++)
        if (cells_find(&report->cells, "max_np", names[r], "", m, n) != NULL)
            return counts[r];
    return "–";
}

/* What no transfer takes part in: launches, and convolvd's batch in a GPU's memory. */
static void launch_rows(struct report *report)
{
    FILE *out = report->out;
    bool any = false;
    for (uint32_t n = GRID_N_MIN; n <= GRID_N_MAX; n *= 2)
        for (uint32_t i = 0; i < grid_m_count; i++) {
            const uint32_t m = grid_m[i];
            const double ours = report_pure(report, "convolution", "convolvd", m, n);
            if (!(ours > 0))
                continue;
            if (!any)
                fprintf(out, "\nWithout transfers: K of the launches alone; on a GPU, of "
                             "convolvd's batch in device memory, submitted to completed, and of "
                             "its share of the time while several are in flight.\n\n"
                             "| N | M×J | C, launches | E, launches | convolvd, launches | "
                             "convolvd, one batch | convolvd, in flight |\n"
                             "|--:|--:|--:|--:|--:|--:|--:|\n");
            any = true;
            const double values[] = {
                report_pure(report, "convolution", "C", m, n),
                report_pure(report, "convolution", "E", m, n),
                ours,
                report_resident(report, "convolution", m, n),
                report_steady(report, "convolution", m, n),
            };
            fprintf(out, "| %u | %u×%u |", n, m, m);
            char text[16];
            for (size_t v = 0; v < sizeof values / sizeof values[0]; v++)
                fprintf(out, " %s |", number(values[v], text));
            fprintf(out, "\n");
        }
}

int report_convolution(struct report *report)
{
    FILE *out = report->out;
    fprintf(out, "Vectors that fit private memory, by trial (M = J = %u … %u):", grid_m[0],
            grid_m[grid_m_count - 1]);
    for (uint32_t n = GRID_N_MIN; n <= GRID_N_MAX; n *= 2) {
        fprintf(out, " N = %u:", n);
        for (uint32_t i = 0; i < grid_m_count; i++)
            fprintf(out, " %s", private_room(report, grid_m[i], n));
        fprintf(out, n < GRID_N_MAX ? ";" : ".\n\n");
    }
    fprintf(out, "K = time of the sequential program on one core / time host to host; published "
                 "(GTX 1050 Ti) / here / convolvd.\n\n| N | M×J | A | B | C | D | E |\n"
                 "|--:|--:|--:|--:|--:|--:|--:|\n");
    for (uint32_t n = GRID_N_MIN; n <= GRID_N_MAX; n *= 2)
        for (uint32_t i = 0; i < grid_m_count; i++) {
            const uint32_t m = grid_m[i];
            const double ours = report_speedup(report, "convolution", "convolvd", m, n);
            bool any = false;
            for (int v = 0; v < CONVOLUTION_NAMES; v++)
                any |= report_speedup(report, "convolution", convolution_names[v], m, n) > 0;
            if (!any)
                continue;
            fprintf(out, "| %u | %u×%u |", n, m, m);
            for (int v = 0; v < CONVOLUTION_NAMES; v++)
                three(
                    out,
                    figures_find(&report->figures, "convolution", convolution_names[v], m, n, "K"),
                    report_speedup(report, "convolution", convolution_names[v], m, n), ours);
            fprintf(out, "\n");
        }
    launch_rows(report);
    fprintf(out, "\nShapes that were left out, and why:\n\n");
    char last[CELL_NOTE] = "";
    uint32_t left_out = 0;
    for (uint32_t i = 0; i < report->cells.count; i++) {
        const struct cell *cell = &report->cells.cells[i];
        if (strcmp(cell->system, "convolution") != 0 || cell->total_ns > 0 ||
            strstr(cell->note, "four matrices") != NULL) {
            left_out += strcmp(cell->system, "convolution") == 0 && cell->total_ns == 0 &&
                        strcmp(cell->variant, "A") == 0;
            continue;
        }
        if (strcmp(last, cell->note) != 0)
            fprintf(out, "- %s at N = %u, %u×%u: %s\n", cell->variant, cell->n, cell->m, cell->m,
                    cell->note);
        snprintf(last, sizeof last, "%s", cell->note);
    }
    fprintf(out, "- %u shapes: their four matrices exceed the limit of this run (--points)\n",
            left_out);
    static const uint32_t plotted[] = {2, 10, 50};
    int error = 0;
    for (size_t i = 0; error == 0 && i < sizeof plotted / sizeof plotted[0]; i++)
        error = plot_convolution(report, plotted[i]);
    return error;
}

/* ---- one FFT ----------------------------------------------------------------------------- */

static void fft_head(FILE *out, const char *what)
{
    fprintf(out, "\n%s\n\n| N |", what);
    for (int v = 0; v < FFT_VARIANTS; v++)
        fprintf(out, " %s |", fft_variant_name((enum fft_variant)v));
    fprintf(out, "\n|--:|");
    for (int v = 0; v < FFT_VARIANTS; v++)
        fprintf(out, "--:|");
    fprintf(out, "\n");
}

/* growth: the figures over A's */
static void fft_rows(struct report *report, bool pure, bool growth)
{
    for (uint32_t p = FFT_LOG2_MIN; p <= FFT_LOG2_MAX; p++) {
        const uint32_t n = 1u << p;
        const char *quantity = pure ? "K2" : "K1";
        const double ours = pure && !growth ? report_pure(report, "fft", "convolvd", 0, n)
                                            : report_speedup(report, "fft", "convolvd", 0, n);
        double a_here = 1, a_published = 1, a_ours = 1;
        if (growth) {
            a_here = report_pure(report, "fft", "A", 0, n);
            a_published = figures_find(&report->figures, "fft", "A", 0, n, "K2");
            a_ours = report_speedup(report, "fft", "A", 0, n);
        }
        fprintf(report->out, "| 2^%u |", p);
        for (int v = 0; v < FFT_VARIANTS; v++) {
            const char *variant = fft_variant_name((enum fft_variant)v);
            const double published = figures_find(&report->figures, "fft", variant, 0, n, quantity);
            const double here = pure ? report_pure(report, "fft", variant, 0, n)
                                     : report_speedup(report, "fft", variant, 0, n);
            three(report->out, a_published > 0 ? published / a_published : 0,
                  a_here > 0 ? here / a_here : 0, a_ours > 0 ? ours / a_ours : 0);
        }
        fprintf(report->out, "\n");
    }
}

int report_fft(struct report *report)
{
    fft_head(report->out,
             "K1, with transfers: published (GTX 1050 Ti) / here / convolvd (half of a "
             "forward and inverse pair with the product between them, host to host).");
    fft_rows(report, false, false);
    fft_head(report->out,
             "K2, launches alone: published / here / convolvd (half of the pair, as above).");
    fft_rows(report, true, false);
    fft_head(report->out,
             "Growth over A: of K2 published / of K2 here / convolvd over A's K1 here.");
    fft_rows(report, true, true);

    struct plot plot = {
        .title = "one FFT: pure speed-up over one core (K2)", .x_label = "N", .y_label = "K2"};
    for (int v = 0; v < FFT_VARIANTS; v++) {
        const char *variant = fft_variant_name((enum fft_variant)v);
        struct plot_curve *curve = plot_curve(&plot, variant, v);
        for (uint32_t p = FFT_LOG2_MIN; p <= FFT_LOG2_MAX; p++)
            plot_point(curve, 1u << p, report_pure(report, "fft", variant, 0, 1u << p));
    }
    static const char *const also[] = {"A", "C^L", "F"};
    static const int colours[] = {FFT_A, FFT_CL, FFT_F};
    for (int i = 0; i < 3; i++) {
        char name[32];
        snprintf(name, sizeof name, "%s published", also[i]);
        struct plot_curve *curve = plot_curve(&plot, name, colours[i]);
        curve->dashed = true;
        for (uint32_t p = FFT_LOG2_MIN; p <= FFT_LOG2_MAX; p++)
            plot_point(curve, 1u << p,
                       figures_find(&report->figures, "fft", also[i], 0, 1u << p, "K2"));
    }
    struct plot_curve *ours = plot_curve(&plot, "convolvd", 8);
    ours->strong = true;
    for (uint32_t p = FFT_LOG2_MIN; p <= FFT_LOG2_MAX; p++)
        plot_point(ours, 1u << p, report_pure(report, "fft", "convolvd", 0, 1u << p));
    return report_plot(report, &plot, "fft");
}

/* ---- direct convolution ------------------------------------------------------------------ */

int report_direct(struct report *report)
{
    static const char *const names[] = {"global", "constant", "stride"};
    fprintf(report->out,
            "Speed-up over the sequential program, with transfers: published (GeForce 9500 GT over "
            "one core of a Core 2, averages of the text) / here / convolvd.\n\n"
            "| N | M | taps in global memory | in constant memory | grid-stride |\n"
            "|--:|--:|--:|--:|--:|\n");
    for (uint32_t i = 0; i < grid_direct_n_count; i++)
        for (uint32_t m = GRID_DIRECT_M_MIN; m <= GRID_DIRECT_M_MAX; m *= 2) {
            const uint32_t n = grid_direct_n[i];
            fprintf(report->out, "| %u | %u |", n, m);
            for (int v = 0; v < 3; v++)
                three(report->out, figures_find(&report->figures, "direct", names[v], 0, 0, "K"),
                      report_speedup(report, "direct", names[v], m, n),
                      report_speedup(report, "direct", "convolvd", m, n));
            fprintf(report->out, "\n");
        }
    struct plot plot = {.title = "direct convolution, N = 1 000 000: speed-up over one core",
                        .x_label = "taps M",
                        .y_label = "K"};
    const uint32_t n = grid_direct_n[grid_direct_n_count - 1];
    for (int v = 0; v < 4; v++) {
        struct plot_curve *curve = plot_curve(&plot, v < 3 ? names[v] : "convolvd", v < 3 ? v : 8);
        curve->strong = v == 3;
        for (uint32_t m = GRID_DIRECT_M_MIN; m <= GRID_DIRECT_M_MAX; m *= 2)
            plot_point(curve, m,
                       report_speedup(report, "direct", v < 3 ? names[v] : "convolvd", m, n));
    }
    return report_plot(report, &plot, "direct");
}

/* ---- the book's pipeline ----------------------------------------------------------------- */

static const uint32_t locals[] = {1, 16, 32, 64, 128, 256, 512};
enum { LOCALS = sizeof locals / sizeof locals[0] };

static double process_ms(const struct report *report, const struct grid_pipeline *shape,
                         const char *process, uint32_t local)
{
    const struct cell *cell =
        cells_find(&report->cells, "pipeline", process, shape->name, local, shape->width);
    return cell != NULL ? cell->kernel_ns / 1e6 : 0;
}

static int report_pipeline_shape(struct report *report, const struct grid_pipeline *shape,
                                 bool published)
{
    FILE *out = report->out;
    struct plot plot = {.x_label = "local work size", .y_label = "ms"};
    snprintf(plot.title, sizeof plot.title, "2-D pipeline, %s %u x %u: time of each process",
             shape->name, shape->width, shape->rows);
    const struct cell *ours =
        cells_find(&report->cells, "pipeline", "convolvd", shape->name, 0, shape->width);
    const double ours_ms = ours != NULL ? ours->total_ns / 1e6 : 0;
    fprintf(out,
            "\n%s, %u × %u, ms by event profiling against the local work size%s. convolvd (last "
            "value of the row \"all\"): every row through a filter of %u taps, host to host.\n\n"
            "| process |",
            shape->name, shape->width, shape->rows,
            published ? ": published (GT 200 class) / here" : ", here", shape->width / 2 + 1);
    for (int l = 0; l < LOCALS; l++)
        fprintf(out, " %u |", locals[l]);
    fprintf(out, "\n|---|--:|--:|--:|--:|--:|--:|--:|\n");
    double sum_published[LOCALS] = {0};
    for (int p = 0; p < PIPELINE_PROCESSES_COUNT; p++) {
        const char *process = pipeline_process_name((enum pipeline_process)p);
        struct plot_curve *curve = plot_curve(&plot, process, p);
        fprintf(out, "| %s |", process);
        for (int l = 0; l < LOCALS; l++) {
            char a[16], b[16];
            const double here = process_ms(report, shape, process, locals[l]);
            const double then = published ? figures_find(&report->figures, "pipeline", process,
                                                         locals[l], shape->width, "ms")
                                          : 0;
            sum_published[l] += then;
            plot_point(curve, locals[l], here);
            if (published)
                fprintf(out, " %s / %s |", number(then, a), number(here, b));
            else
                fprintf(out, " %s |", number(here, a));
        }
        fprintf(out, "\n");
    }
    fprintf(out, "| all |");
    for (int l = 0; l < LOCALS; l++) {
        char b[16];
        const double here = process_ms(report, shape, "total", locals[l]);
        if (published)
            three(out, sum_published[l], here, ours_ms);
        else
            fprintf(out, " %s / %.3f |", number(here, b), ours_ms);
    }
    fprintf(out, "\n");
    char name[32];
    snprintf(name, sizeof name, "pipeline-%s", shape->name);
    return report_plot(report, &plot, name);
}

int report_pipeline(struct report *report)
{
    int error = 0;
    for (uint32_t p = 0; error == 0 && p < grid_pipeline_count; p++)
        error = report_pipeline_shape(report, &grid_pipelines[p], p == 0);
    return error;
}

/* ---- vector widths ----------------------------------------------------------------------- */

int report_width(struct report *report)
{
    struct plot plot = {
        .title = "vector widths: (b - c) * d", .x_label = "width", .y_label = "GB/s"};
    fprintf(report->out,
            "GB/s read and written of a = (b − c)·d, %u values; the paper prints its figures as "
            "graphs only. convolvd's CPU kernels use vectors of 16.\n\n"
            "| type | 1 | 2 | 4 | 8 | 16 | reported by the device | fastest |\n"
            "|---|--:|--:|--:|--:|--:|--:|--:|\n",
            GRID_WIDTH_VALUES);
    for (int type = 0; type < WIDTH_TYPES; type++) {
        const char *name = width_type_name((enum width_type)type);
        struct plot_curve *curve = plot_curve(&plot, name, type);
        const char *reported = "–";
        double best = 0;
        uint32_t fastest = 0;
        fprintf(report->out, "| %s |", name);
        for (uint32_t vector = 1; vector <= WIDTH_LARGEST; vector *= 2) {
            char text[16];
            const struct cell *cell =
                cells_find(&report->cells, "width", "probe", name, vector, GRID_WIDTH_VALUES);
            double rate = 0;
            if (cell != NULL && cell->total_ns > 0)
                rate = 4.0 * GRID_WIDTH_VALUES * width_type_bytes((enum width_type)type) /
                       cell->total_ns;
            if (cell != NULL && strncmp(cell->note, "reported ", 9) == 0)
                reported = cell->note + 9;
            if (rate > best) {
                best = rate;
                fastest = vector;
            }
            plot_point(curve, vector, rate);
            fprintf(report->out, " %s |", number(rate, text));
        }
        fprintf(report->out, " %s | %u |\n", reported, fastest);
    }
    return report_plot(report, &plot, "width");
}
