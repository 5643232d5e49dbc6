/*
 * Median of a few hundred values, without allocating: qsort(3) of glibc calls malloc for more than
 * 1 KiB, which the loop must not.
 *
 * Pure function, any thread.
 */
#ifndef CONVOLVD_CORE_MEDIAN_H
#define CONVOLVD_CORE_MEDIAN_H

#include <stddef.h>

/* The middle value, or the mean of the two in the middle; sorts `values`, none of them NAN.
 * 1 ≤ count. */
double median(double *values, size_t count);

#endif
