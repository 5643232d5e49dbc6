/*
 * Order statistics, see measure.h.
 */
#include "measure.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

static int by_value(const void *left, const void *right)
{
    const double a = *(const double *)left, b = *(const double *)right;
    return (a > b) - (a < b);
}

void series_add(struct series *series, double value)
{
    if (series->count < MEASURE_MAX)
        series->values[series->count++] = value;
}

static double sorted_quantile(const double *sorted, uint32_t count, double quantile)
{
    if (count == 0)
        return 0;
    const double place = quantile * (count - 1);
    const uint32_t below = (uint32_t)place;
    const uint32_t above = below + 1 < count ? below + 1 : below;
    return sorted[below] + (place - below) * (sorted[above] - sorted[below]);
}

double series_quantile(const struct series *series, double quantile)
{
    struct series sorted = *series;
    qsort(sorted.values, sorted.count, sizeof sorted.values[0], by_value);
    return sorted_quantile(sorted.values, sorted.count, quantile);
}

struct spread series_spread(const struct series *series)
{
    struct series sorted = *series;
    qsort(sorted.values, sorted.count, sizeof sorted.values[0], by_value);
    return (struct spread){
        .q1 = sorted_quantile(sorted.values, sorted.count, 0.25),
        .median = sorted_quantile(sorted.values, sorted.count, 0.5),
        .q3 = sorted_quantile(sorted.values, sorted.count, 0.75),
    };
}

void series_ratio(const struct series *a, const struct series *b, struct series *ratio)
{
    ratio->count = 0;
    for (uint32_t i = 0; i < a->count && i < b->count; i++)
        series_add(ratio, a->values[i] / b->values[i]);
}

FILE *results_open(const char *path, const char *head)
{
    FILE *file = fopen(path, "a");
    if (file != NULL && fseek(file, 0, SEEK_END) == 0 && ftell(file) == 0)
        fprintf(file, "%s\n", head);
    return file;
}

FILE *bars_open(const char *program, const char *path)
{
    FILE *file =
        results_open(path, "what,shape,ours,peer,ratio,bar,unit,median,spread,error,command");
    if (file == NULL)
        fprintf(stderr, "%s: %s: %s; nothing is saved\n", program, path, strerror(errno));
    return file;
}

void bars_write(FILE *file, const struct bar_row *row)
{
    if (file == NULL)
        return;
    fprintf(file, "%s,%s,%.6g,%.6g,%.4f,%s,%s,%.4f,%.4f…%.4f,%.3g,\"%s\"\n", row->what, row->shape,
            row->ours, row->peer, row->ratio.median, row->bar, row->unit, row->ratio.median,
            row->ratio.q1, row->ratio.q3, row->error, row->command);
    fflush(file);
}

void measure_command(char *text, size_t bytes, int argc, char **argv)
{
    size_t used = 0;
    text[0] = '\0';
    for (int i = 0; i < argc && used < bytes; i++)
        used += (size_t)snprintf(text + used, bytes - used, "%s%s", i > 0 ? " " : "", argv[i]);
}

void measure_use(const void *memory)
{
    __asm__ volatile("" : : "g"(memory) : "memory");
}
