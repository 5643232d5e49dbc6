/*
 * The papers' figures from figures.csv, see report.h.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "bench/published/report.h"

static bool parse(char *line, struct figure *figure)
{
    char *words[6];
    int count = 0;
    for (char *word = strtok(line, ",\n"); word != NULL && count < 6; word = strtok(NULL, ",\n"))
        words[count++] = word;
    if (count != 6)
        return false;
    snprintf(figure->system, sizeof figure->system, "%.*s", CELL_TEXT - 1, words[0]);
    snprintf(figure->variant, sizeof figure->variant, "%.*s", CELL_TEXT - 1, words[1]);
    figure->m = (uint32_t)strtoul(words[2], NULL, 10);
    figure->n = (uint32_t)strtoul(words[3], NULL, 10);
    snprintf(figure->quantity, sizeof figure->quantity, "%.7s", words[4]);
    figure->value = strtod(words[5], NULL);
    return true;
}

int figures_open(struct figures *figures, const char *path, struct problem *problem)
{
    char line[256];
    FILE *file = fopen(path, "re");
    if (file == NULL)
        return problem_set(problem, ERROR_NO_FILE, "%s: %s; name it with --figures", path,
                           strerror(errno));
    uint32_t capacity = 0;
    while (fgets(line, sizeof line, file) != NULL) {
        if (line[0] == '#')
            continue;
        if (figures->count == capacity) {
            capacity = capacity == 0 ? 256 : 2 * capacity;
            struct figure *grown = realloc(figures->figures, capacity * sizeof *grown);
            if (grown == NULL) {
                fclose(file);
                return problem_set(problem, ERROR_MEMORY, "out of memory for %u figures", capacity);
            }
            figures->figures = grown;
        }
        if (parse(line, &figures->figures[figures->count]))
            figures->count++;
    }
    fclose(file);
    return 0;
}

void figures_close(struct figures *figures)
{
    free(figures->figures);
    *figures = (struct figures){NULL, 0};
}

double figures_find(const struct figures *figures, const char *system, const char *variant,
                    uint32_t m, uint32_t n, const char *quantity)
{
    for (uint32_t i = 0; i < figures->count; i++) {
        const struct figure *figure = &figures->figures[i];
        if (figure->m == m && figure->n == n && strcmp(figure->system, system) == 0 &&
            strcmp(figure->variant, variant) == 0 && strcmp(figure->quantity, quantity) == 0)
            return figure->value;
    }
    return 0;
}
