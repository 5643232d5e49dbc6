/*
 * Order statistics of repeated measurements, and lines for the tables in bench/results/.
 * A figure is a median with its quartiles; a comparison is the median of the ratios of
 * neighbouring runs, so that a machine that slows down half-way harms both sides alike.
 *
 * One thread.
 */
#ifndef CONVOLVD_BENCH_MEASURE_H
#define CONVOLVD_BENCH_MEASURE_H

#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

enum { MEASURE_MAX = 4096 };

/* Repetitions of one quantity, in the order they were taken. */
struct series {
    uint32_t count;
    double values[MEASURE_MAX];
};

/* Beyond MEASURE_MAX values are left out. */
void series_add(struct series *series, double value);

struct spread {
    double q1, median, q3;
};

/* Zeros when empty. */
struct spread series_spread(const struct series *series);

/* The value below which `quantile` (0…1) of the series lies, by linear interpolation. */
double series_quantile(const struct series *series, double quantile);

/* Ratios a[i] / b[i] of runs taken side by side. */
void series_ratio(const struct series *a, const struct series *b, struct series *ratio);

/* Opens `path` for more lines and writes `head` first when the file is new; NULL and errno
 * otherwise. */
FILE *results_open(const char *path, const char *head);

/* A line of the tables that bench/check.py holds against bench/bars.csv. */
struct bar_row {
    const char *what, *shape;
    double ours, peer;   /* in `unit` */
    struct spread ratio; /* of the neighbouring runs */
    const char *bar;     /* as ">=1.5"; "": none */
    const char *unit;
    double error;        /* relative, the worst of both */
    const char *command; /* that repeats it */
};

/* Opens `path` for such lines; when that fails says so, in the name of `program`, and returns NULL.
 */
FILE *bars_open(const char *program, const char *path);
void bars_write(FILE *file, const struct bar_row *row); /* NULL file is fine */

/* The program's arguments as one line. */
void measure_command(char *text, size_t bytes, int argc, char **argv);

/* Keeps the compiler from dropping work whose result nobody reads. */
void measure_use(const void *memory);

#endif
