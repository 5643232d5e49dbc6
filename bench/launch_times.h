/*
 * The time of launches alone, as the published systems' figures have it (bench/published/lab.h):
 * between launch_times_begin and launch_times_end every launch of the program runs by itself, and
 * the time from its start to its end, by its event, is added up. The linker puts the wrapper of
 * launch_times.c in the place of clEnqueueNDRangeKernel (LAUNCH_WRAPS in the Makefile).
 *
 * Meanwhile launches wait for each other, so that nothing else should be timed.
 */
#ifndef CONVOLVD_BENCH_LAUNCH_TIMES_H
#define CONVOLVD_BENCH_LAUNCH_TIMES_H

/* While no batch is in flight. */
void launch_times_begin(void);

/* While no batch is in flight: ns since launch_times_begin, 0 without a launch, negative when a
 * launch could not be timed. */
double launch_times_end(void);

#endif
