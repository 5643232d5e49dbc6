/*
 * `bench_gpu --together`: several devices of one host at once, one process each, against plain
 * copies over the same devices and against each device alone, in the same run (gpu_member.h says
 * what they do). This process makes no OpenCL call: a driver must be fresh in every child.
 *
 * A figure is the sum over the devices of each repetition, a ratio the median of the ratios of
 * neighbouring turns. A device that dies, or one that is silent for too long, ends the run with a
 * message and without figures.
 */
#ifndef CONVOLVD_BENCH_GPU_TOGETHER_H
#define CONVOLVD_BENCH_GPU_TOGETHER_H

#include <stdint.h>

#include "bench/gpu_run.h"

/* `devices`: names, indices or PCI addresses separated by commas, each the next device it may mean;
 * "all": every GPU. `limit_ns`: the longest that no process comes further. Returns the exit status
 * of the program: 0, or 1 when there are no figures or results were wrong. */
int together_run(const struct bench *bench, const char *devices, int64_t limit_ns);

#endif
