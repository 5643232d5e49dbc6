/*
 * The tables of the report: each turns cells and the papers' figures into Markdown and SVG. A row
 * of report_tables is a table; its `write` serves standard output and documents alike.
 *
 * One thread.
 */
#ifndef CONVOLVD_BENCH_PUBLISHED_REPORT_H
#define CONVOLVD_BENCH_PUBLISHED_REPORT_H

#include <stdio.h>

#include "bench/published/cells.h"
#include "bench/published/plot.h"

/* A number printed in a paper. */
struct figure {
    char system[CELL_TEXT], variant[CELL_TEXT], quantity[8];
    uint32_t m, n;
    double value;
};

struct figures {
    struct figure *figures;
    uint32_t count;
};

int figures_open(struct figures *figures, const char *path, struct problem *problem);
void figures_close(struct figures *figures);
/* 0: the paper has none. */
double figures_find(const struct figures *figures, const char *system, const char *variant,
                    uint32_t m, uint32_t n, const char *quantity);

struct report {
    const char *device; /* "cpu", "gpu": part of the plots' names */
    const char *plots;  /* the folder they go to */
    FILE *out;
    struct cells cells;
    struct figures figures;
    struct problem problem;
};

struct report_table {
    const char *name, *title;
    int (*write)(struct report *report);
};

/* Ends with a NULL name. */
extern const struct report_table report_tables[];

int report_findings(struct report *report);
int report_convolution(struct report *report);
int report_fft(struct report *report);
int report_direct(struct report *report);
int report_pipeline(struct report *report);
int report_width(struct report *report);

/* baseline / total of a cell that was run, else 0. */
double report_speedup(const struct report *report, const char *system, const char *variant,
                      uint32_t m, uint32_t n);
/* Likewise of its launches alone. */
double report_pure(const struct report *report, const char *system, const char *variant, uint32_t m,
                   uint32_t n);
/* Likewise of convolvd's batch with samples and results in device memory. */
double report_resident(const struct report *report, const char *system, uint32_t m, uint32_t n);
/* Likewise of its share while several are in flight. */
double report_steady(const struct report *report, const char *system, uint32_t m, uint32_t n);

/* Writes a plot and, in Markdown, its place. */
int report_plot(struct report *report, const struct plot *plot, const char *name);

#endif
