/*
 * Taps from text: one tap a line, `re` or `re im` (a comma may stand between), '#' before comments.
 * What an oscilloscope or a spreadsheet saves, `time,value` with or without a head line, would pass
 * for complex taps: a first column that rises in equal steps is refused as time.
 *
 * No state; worker threads.
 */
#include "filter/taps_reading.h"

#include <ctype.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { TEXT_LINE_MAX = 256 /* two numbers need 50 bytes */ };

/* One line's numbers. */
struct text_line {
    int numbers; /* 0: blank or comment */
    double value[2];
};

static int text_error(const struct reading *r, uint64_t line, const char *what)
{
    return problem_set(r->problem, ERROR_FORMAT,
                       "%s:%llu: %s; write one tap a line, `re` or `re im`, with '#' before "
                       "comments",
                       r->name, (unsigned long long)line, what);
}

/* "0,5" is 0.5 where decimals have commas, and 0 + 5j to a reader of `re,im`; so is "1,25e-3". A
 * point, a sign or a blank behind the comma shows that it separates. */
static bool comma_decimal(const char *text)
{
    const char *at = text + strspn(text, " \t");
    at += *at == '+' || *at == '-';
    size_t whole = strspn(at, "0123456789");
    const char *fraction = at + whole + 1;
    if (whole == 0 || at[whole] != ',' || !isdigit((unsigned char)*fraction))
        return false;
    return fraction[strspn(fraction, "0123456789")] != '.';
}

static int text_parse_line(const struct reading *r, const uint8_t *at, size_t length,
                           uint64_t number, struct text_line *line)
{
    line->numbers = 0;
    const uint8_t *comment = memchr(at, '#', length);
    if (comment != NULL)
        length = (size_t)(comment - at);
    while (length > 0 &&
           (at[length - 1] == ' ' || at[length - 1] == '\t' || at[length - 1] == '\r'))
        length--;
    if (memchr(at, '\0', length) != NULL)
        return text_error(r, number, "this is not text");
    if (length >= TEXT_LINE_MAX)
        return text_error(r, number, "the line is too long for a tap");
    char text[TEXT_LINE_MAX];
    memcpy(text, at, length);
    text[length] = '\0';
    if (comma_decimal(text))
        return text_error(r, number,
                          "the comma may be a decimal one; write decimals with a point, and a "
                          "complex tap with a blank between its parts");

    const char *from = text;
    for (;;) {
        from += strspn(from, " \t");
        if (line->numbers == 1 && *from == ',')
            from += 1 + strspn(from + 1, " \t");
        if (*from == '\0')
            return 0;
        if (line->numbers == 2)
            return text_error(r, number, "there are more than two numbers");
        char *end;
        double value = strtod(from, &end);
        if (end == from || (*end != '\0' && strchr(" \t,", *end) == NULL))
            return text_error(r, number, "this is not a number");
        if (!isfinite(value))
            return text_error(r, number, "the tap is not a finite number");
        line->value[line->numbers++] = value;
        from = end;
    }
}

/* Walks the lines twice: first to count and prove (sets still NULL), then to store. */
static int text_walk(struct reading *r, uint64_t *taps, int *numbers)
{
    uint64_t line_number = 0, count = 0;
    bool store = r->sets != NULL;
    const uint8_t *at = r->data, *end = r->data + r->bytes;
    if (r->bytes >= 3 && memcmp(at, "\xef\xbb\xbf", 3) == 0)
        at += 3; /* the byte order mark some editors write */
    while (at < end) {
        const uint8_t *newline = memchr(at, '\n', (size_t)(end - at));
        size_t length = (size_t)((newline == NULL ? end : newline) - at);
        struct text_line line;
        int error = text_parse_line(r, at, length, ++line_number, &line);
        if (error != 0)
            return error;
        at = newline == NULL ? end : newline + 1;
        if (line.numbers == 0)
            continue;
        if (*numbers == 0)
            *numbers = line.numbers;
        if (line.numbers != *numbers)
            return text_error(r, line_number,
                              "some lines have one number and some two (real or complex taps?)");
        if (store) {
            r->sets[0]->re[count] = line.value[0];
            if (line.numbers == 2)
                r->sets[0]->im[count] = line.value[1];
        }
        count++;
    }
    *taps = count;
    return 0;
}

/* ---- a column of time -------------------------------------------------------------------- */

/* A table of numbers: its first column, where it is time. */
struct table {
    uint64_t rows, heads; /* lines before the first row that hold no numbers */
    bool semicolons;      /* between columns; commas are decimal ones then */
    double first, last, largest;
};

/* The first number of a line that holds at least two; false: it holds fewer, or something else. */
static bool row_start(const uint8_t *at, size_t length, double *value, bool *semicolons)
{
    char text[TEXT_LINE_MAX], *end;
    if (length == 0 || length >= sizeof text)
        return false;
    memcpy(text, at, length);
    text[length] = '\0';
    *semicolons = strchr(text, ';') != NULL;
    for (char *c = text; *semicolons && *c != '\0'; c++)
        *c = *c == ',' ? '.' : *c;
    *value = strtod(text, &end);
    const char *next = end + strspn(end, " \t,;");
    if (end == text || next == end || !isfinite(*value))
        return false;
    (void)strtod(next, &end);
    return end != next;
}

/* Calls `row` for the first number of each row; false when the text is no table of two columns. */
static bool walk_rows(const struct reading *r, struct table *table,
                      bool (*row)(struct table *table, double value, double step), double step)
{
    const uint8_t *at = r->data, *end = r->data + r->bytes;
    uint64_t rows = 0;
    while (at < end) {
        const uint8_t *newline = memchr(at, '\n', (size_t)(end - at));
        const size_t length = (size_t)((newline == NULL ? end : newline) - at);
        double value;
        if (row_start(at, length, &value, &table->semicolons)) {
            table->rows = rows++;
            if (!row(table, value, step))
                return false;
        } else if (rows > 0 && length > 1 && *at != '#') {
            return false;
        } else {
            table->heads += rows == 0;
        }
        at = newline == NULL ? end : newline + 1;
    }
    table->rows = rows;
    return true;
}

static bool note_row(struct table *table, double value, double step)
{
    (void)step;
    const bool rises = table->rows == 0 || value >= table->last;
    if (table->rows == 0)
        table->first = value;
    table->last = value;
    table->largest = fmax(table->largest, fabs(value));
    return rises;
}

/* True when the row lies on the line within the rounding of its digits. */
static bool row_fits(struct table *table, double value, double step)
{
    const double expected = table->first + (double)table->rows * step;
    const double tolerance = fmin(0.6 * step, fmax(0.1 * step, 1e-5 * table->largest));
    return fabs(value - expected) <= tolerance;
}

/* Refuses a table whose first column rises in equal steps. */
static int refuse_time(const struct reading *r)
{
    enum { ROWS_MIN = 4 /* fewer taps may have such real parts */ };
    struct table table = {0};
    if (!walk_rows(r, &table, note_row, 0) || table.rows < ROWS_MIN)
        return 0;
    const double step = (table.last - table.first) / (double)(table.rows - 1);
    struct table again = {.first = table.first, .largest = table.largest};
    if (!(step > 0) || !walk_rows(r, &again, row_fits, step))
        return 0;
    return problem_set(r->problem, ERROR_FORMAT,
                       "%s: the first column rises in equal steps of %.6g, so it is time (a rate "
                       "of %.6g Hz if in seconds) and no real part; keep the second column: awk "
                       "-F'%s' 'NR > %llu {%sprint $2}' FILE > taps.txt. Complex taps that look "
                       "like this are read from .npy",
                       r->name, step, 1 / step, table.semicolons ? ";" : "[, \\t]+",
                       (unsigned long long)table.heads,
                       table.semicolons ? "gsub(\",\", \".\", $2); " : "");
}

int reading_text(struct reading *r)
{
    uint64_t taps = 0;
    int numbers = 0;
    int error = refuse_time(r);
    if (error == 0)
        error = text_walk(r, &taps, &numbers);
    if (error == 0)
        error = reading_create(r, 1, taps, numbers == 2);
    return error != 0 ? error : text_walk(r, &taps, &numbers);
}
