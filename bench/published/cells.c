/*
 * Cells in a CSV file, see cells.h.
 */
#include "bench/published/cells.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static const char device_mark[] = "# device: ";
static const char head[] =
    "system,variant,part,m,n,baseline_ns,total_ns,kernel_ns,resident_ns,steady_ns,error,note";

enum { NUMBERS = 8 };

/* A later line stands for an earlier one of the same cell. */
static int keep(struct cells *cells, const struct cell *cell, struct problem *problem)
{
    const struct cell *known =
        cells_find(cells, cell->system, cell->variant, cell->part, cell->m, cell->n);
    if (known != NULL) {
        cells->cells[known - cells->cells] = *cell;
        return 0;
    }
    if (cells->count == cells->capacity) {
        const uint32_t capacity = cells->capacity == 0 ? 256 : 2 * cells->capacity;
        struct cell *grown = realloc(cells->cells, capacity * sizeof *grown);
        if (grown == NULL)
            return problem_set(problem, ERROR_MEMORY, "out of memory for %u cells", capacity);
        cells->cells = grown;
        cells->capacity = capacity;
    }
    cells->cells[cells->count++] = *cell;
    return 0;
}

/* The next field of a line, copied; false when there is none. */
static bool field(char **line, char *to, size_t bytes, char until)
{
    char *end = strchr(*line, until);
    if (end == NULL)
        return false;
    const size_t length = (size_t)(end - *line);
    if (length >= bytes)
        return false;
    memcpy(to, *line, length);
    to[length] = '\0';
    *line = end + 1;
    return true;
}

static bool parse(char *line, struct cell *cell)
{
    char numbers[NUMBERS][32];
    memset(cell, 0, sizeof *cell);
    bool good = field(&line, cell->system, CELL_TEXT, ',') &&
                field(&line, cell->variant, CELL_TEXT, ',') &&
                field(&line, cell->part, CELL_TEXT, ',');
    for (int i = 0; i < NUMBERS; i++)
        good = good && field(&line, numbers[i], sizeof numbers[i], ',');
    if (!good || !field(&line, cell->note, CELL_NOTE, '\n'))
        return false;
    cell->m = (uint32_t)strtoul(numbers[0], NULL, 10);
    cell->n = (uint32_t)strtoul(numbers[1], NULL, 10);
    cell->baseline_ns = strtod(numbers[2], NULL);
    cell->total_ns = strtod(numbers[3], NULL);
    cell->kernel_ns = strtod(numbers[4], NULL);
    cell->resident_ns = strtod(numbers[5], NULL);
    cell->steady_ns = strtod(numbers[6], NULL);
    cell->error = strtod(numbers[7], NULL);
    return true;
}

/* `good_bytes`: where the whole lines end. */
static int read_cells(struct cells *cells, FILE *file, const char *path, long *good_bytes,
                      struct problem *problem)
{
    char line[512];
    for (int number = 1; fgets(line, sizeof line, file) != NULL; number++) {
        struct cell cell;
        char *rest = line + sizeof device_mark - 1;
        if (strncmp(line, device_mark, sizeof device_mark - 1) == 0) {
            (void)field(&rest, cells->device, sizeof cells->device, '\n');
        } else if (strncmp(line, head, sizeof head - 1) != 0) {
            /* An interrupted run leaves at most its last line incomplete. */
            if (!parse(line, &cell)) {
                if (fgets(line, sizeof line, file) == NULL)
                    return 0;
                return problem_set(problem, ERROR_FORMAT,
                                   "%s, line %d is damaged: remove it, or the whole file", path,
                                   number);
            }
            const int error = keep(cells, &cell, problem);
            if (error != 0)
                return error;
        }
        *good_bytes = ftell(file);
    }
    return 0;
}

int cells_open(struct cells *cells, const char *path, const char *device, struct problem *problem)
{
    memset(cells, 0, sizeof *cells);
    FILE *file = fopen(path, "re");
    int error = 0;
    long good_bytes = 0;
    if (file != NULL) {
        error = read_cells(cells, file, path, &good_bytes, problem);
        fclose(file);
    } else if (device == NULL) {
        error = problem_set(problem, ERROR_NO_FILE, "%s: %s", path, strerror(errno));
    }
    if (error == 0 && device != NULL && cells->device[0] != '\0' &&
        strcmp(cells->device, device) != 0)
        error = problem_set(problem, ERROR_FORMAT,
                            "%s holds figures of \"%s\", this is \"%s\": name another file with "
                            "--csv, or start again with --fresh",
                            path, cells->device, device);
    if (error != 0 || device == NULL)
        return error;
    const bool fresh = cells->device[0] == '\0';
    if ((file != NULL && truncate(path, good_bytes) != 0) ||
        (cells->file = fopen(path, fresh ? "we" : "ae")) == NULL)
        return problem_set(problem, ERROR_NO_FILE, "%s: %s", path, strerror(errno));
    if (fresh) {
        snprintf(cells->device, sizeof cells->device, "%s", device);
        fprintf(cells->file, "%s%s\n%s\n", device_mark, device, head);
    }
    return 0;
}

void cells_close(struct cells *cells)
{
    if (cells->file != NULL)
        fclose(cells->file);
    free(cells->cells);
    memset(cells, 0, sizeof *cells);
}

const struct cell *cells_find(const struct cells *cells, const char *system, const char *variant,
                              const char *part, uint32_t m, uint32_t n)
{
    for (uint32_t i = 0; i < cells->count; i++) {
        const struct cell *cell = &cells->cells[i];
        if (cell->m == m && cell->n == n && strcmp(cell->system, system) == 0 &&
            strcmp(cell->variant, variant) == 0 && strcmp(cell->part, part) == 0)
            return cell;
    }
    return NULL;
}

int cells_add(struct cells *cells, const struct cell *cell, struct problem *problem)
{
    struct cell kept = *cell;
    for (char *c = kept.note; *c != '\0'; c++)
        if (*c == ',' || *c == '\n')
            *c = ';';
    fprintf(cells->file, "%s,%s,%s,%u,%u,%.0f,%.0f,%.0f,%.0f,%.0f,%.3g,%s\n", kept.system,
            kept.variant, kept.part, kept.m, kept.n, kept.baseline_ns, kept.total_ns,
            kept.kernel_ns, kept.resident_ns, kept.steady_ns, kept.error, kept.note);
    if (fflush(cells->file) != 0)
        return problem_set(problem, ERROR_SYSTEM, "writing the cells: %s", strerror(errno));
    return keep(cells, &kept, problem);
}
