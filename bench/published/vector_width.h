/*
 * Lavryniuk and Lavreniuk 2012 on the host: the probe at one type and vector width. The kernel and
 * what the paper defines stand in kernels/published/vector_width.cl.
 *
 * One thread.
 */
#ifndef CONVOLVD_BENCH_PUBLISHED_VECTOR_WIDTH_H
#define CONVOLVD_BENCH_PUBLISHED_VECTOR_WIDTH_H

#include "bench/published/lab.h"

enum width_type { WIDTH_FLOAT, WIDTH_INT, WIDTH_SHORT, WIDTH_TYPES };

enum { WIDTH_LARGEST = 16 };

const char *width_type_name(enum width_type type);
uint32_t width_type_bytes(enum width_type type);

/* The width the device says it likes for the type (CL_DEVICE_PREFERRED_VECTOR_WIDTH_…). */
uint32_t width_reported(const struct lab *lab, enum width_type type);

struct width;

/* rows × row_values values of the type; row_values a multiple of 16. NULL with lab->problem. */
struct width *width_open(struct lab *lab, enum width_type type, uint32_t vector, uint32_t rows,
                         uint32_t row_values);
void width_close(struct width *width); /* NULL is fine */

void width_write(struct width *width, const void *b, const void *c, const void *d);
int width_run(struct width *width); /* the launch alone */
int width_read(struct width *width, void *a);

/* Value i of a = (b - c) · d as the definition gives it, in double; shorts and ints wrap. */
double width_expected(enum width_type type, const void *b, const void *c, const void *d, size_t i);
double width_value(enum width_type type, const void *values, size_t i);

#endif
