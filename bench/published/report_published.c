/*
 * Tables and plots from the cells that bench_published left (cells.h), beside the figures the
 * papers print (figures.csv): those of bench/results/ to standard output and plots beside them, or,
 * with --docs FILE, those of bench/recorded/ into the marked places of a document and beside it.
 *
 * A marked place is what stands between a line `<!-- report: NAME -->` and `<!-- end -->`; NAME is
 * DEVICE-TABLE, as cpu-convolution. A place whose device has no cells is left as it is.
 *
 * One thread.
 */
#include <errno.h>
#include <getopt.h>
#include <stdlib.h>
#include <string.h>

#include "bench/published/report.h"
#include "core/replace_file.h"

static const char *const devices[] = {"cpu", "gpu"};

/* Writes one table, and the plots that belong to it. */
static int report(struct report *report, const char *table)
{
    for (int i = 0; report_tables[i].name != NULL; i++)
        if (strcmp(report_tables[i].name, table) == 0)
            return report_tables[i].write(report);
    return problem_set(&report->problem, ERROR_FORMAT, "there is no table \"%s\"", table);
}

static int open_report(struct report *report, const char *device, const char *results,
                       const char *figures, const char *plots, FILE *out)
{
    char path[512];
    memset(report, 0, sizeof *report);
    report->device = device;
    report->plots = plots;
    report->out = out;
    int error = figures_open(&report->figures, figures, &report->problem);
    snprintf(path, sizeof path, "%s/published-%s.csv", results, device);
    if (error == 0)
        error = cells_open(&report->cells, path, NULL, &report->problem);
    return error;
}

static void close_report(struct report *report)
{
    cells_close(&report->cells);
    figures_close(&report->figures);
}

static int print_all(const char *results, const char *figures)
{
    int printed = 0, error = 0;
    for (size_t d = 0; error == 0 && d < sizeof devices / sizeof devices[0]; d++) {
        struct report one;
        error = open_report(&one, devices[d], results, figures, results, stdout);
        if (error == ERROR_NO_FILE) {
            error = 0;
        } else {
            for (int i = 0; error == 0 && report_tables[i].name != NULL; i++) {
                printf("\n## %s, %s\n\n", report_tables[i].title, one.cells.device);
                error = report_tables[i].write(&one);
            }
            printed++;
            if (error != 0)
                fprintf(stderr, "report_published: %s\n", one.problem.text);
        }
        close_report(&one);
    }
    if (error == 0 && printed == 0) {
        fprintf(stderr,
                "report_published: no %s/published-cpu.csv or -gpu.csv: run "
                "bench_published first\n",
                results);
        error = ERROR_NO_FILE;
    }
    return error;
}

/* One marked place: `name` is "cpu-convolution". False: left to the caller to copy. */
static bool fill_place(const char *name, const char *results, const char *figures,
                       const char *plots, FILE *out, int *error)
{
    const char *dash = strchr(name, '-');
    for (size_t d = 0; dash != NULL && d < sizeof devices / sizeof devices[0]; d++) {
        if (strncmp(name, devices[d], (size_t)(dash - name)) != 0)
            continue;
        struct report one;
        const int opened = open_report(&one, devices[d], results, figures, plots, out);
        if (opened == 0)
            *error = report(&one, dash + 1);
        if (*error != 0)
            fprintf(stderr, "report_published: %s\n", one.problem.text);
        close_report(&one);
        return opened == 0;
    }
    return false;
}

/* Copies the document and writes each marked place anew. */
static int copy_document(FILE *in, const char *results, const char *figures, const char *plots,
                         FILE *out)
{
    static char line[65536];
    int error = 0;
    bool skipping = false;
    while (fgets(line, sizeof line, in) != NULL) {
        char name[64];
        if (skipping && strncmp(line, "<!-- end -->", 12) == 0)
            skipping = false;
        if (!skipping)
            fputs(line, out);
        if (sscanf(line, "<!-- report: %63s -->", name) == 1)
            skipping = fill_place(name, results, figures, plots, out, &error);
    }
    return error;
}

static int fill_document(const char *path, const char *results, const char *figures)
{
    char plots[512];
    snprintf(plots, sizeof plots, "%s", path);
    char *slash = strrchr(plots, '/');
    snprintf(slash != NULL ? slash : plots, 2, "%s", slash != NULL ? "" : ".");
    FILE *in = fopen(path, "re");
    if (in == NULL) {
        fprintf(stderr, "report_published: %s: %s\n", path, strerror(errno));
        return ERROR_NO_FILE;
    }
    char *text = NULL;
    size_t bytes = 0;
    FILE *out = open_memstream(&text, &bytes);
    int error = out != NULL ? copy_document(in, results, figures, plots, out) : ERROR_MEMORY;
    fclose(in);
    if (out != NULL && fclose(out) != 0 && error == 0)
        error = ERROR_MEMORY;
    if (error == 0) {
        struct problem problem;
        error = replace_file_text(path, text, &problem);
        if (error != 0)
            fprintf(stderr, "report_published: %s\n", problem.text);
    }
    free(text);
    return error;
}

int main(int argc, char **argv)
{
    static const struct option options[] = {{"docs", required_argument, NULL, 'd'},
                                            {"results", required_argument, NULL, 'r'},
                                            {"figures", required_argument, NULL, 'f'},
                                            {NULL, 0, NULL, 0}};
    const char *docs = NULL, *results = NULL, *figures = "bench/published/figures.csv";
    for (int option; (option = getopt_long(argc, argv, "", options, NULL)) != -1;)
        switch (option) {
        case 'd':
            docs = optarg;
            break;
        case 'r':
            results = optarg;
            break;
        case 'f':
            figures = optarg;
            break;
        default:
            fputs("report_published [--docs FILE] [--results FOLDER] [--figures FILE]\n", stderr);
            return 2;
        }
    if (results == NULL)
        results = docs != NULL ? "bench/recorded" : "bench/results";
    const int error =
        docs != NULL ? fill_document(docs, results, figures) : print_all(results, figures);
    return error != 0;
}
