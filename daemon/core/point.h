/*
 * Points on a structure, as people write them: one length on a line ("120 mm"), two on a plate
 * ("120 mm 0.4 m", x and y; 0 needs no unit).
 *
 * Pure functions, any thread.
 */
#ifndef CONVOLVD_CORE_POINT_H
#define CONVOLVD_CORE_POINT_H

#include <stdint.h>

#include "core/error.h"
#include "core/option.h"

#define POINT_WORDS "point, such as 120 mm 400 mm"

struct point {
    double x_m, y_m;      /* y is 0 on a line */
    uint32_t coordinates; /* 1 or 2 that were written; 0: `none` */
};

/* |x|, |y| up to 1e6 m. ERROR_CONFIG with a sentence. */
int point_parse(const char *text, struct point *point, struct problem *problem);

/* Of option_row, type OPTION_OWN: proves that point_parse takes option_value.text. A row whose
 * `keyword` is a word takes that word too, as no point. */
int point_option(const struct option_row *row, const char *text, struct option_value *value,
                 struct problem *problem);

/* The point of a proven value. */
struct point point_of(const struct option_value *value);

#endif
