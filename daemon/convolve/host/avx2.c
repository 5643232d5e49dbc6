/*
 * The host convolver for CPUs with AVX2 and FMA, 4 or 8 floats a vector. The Makefile compiles this
 * file with -mavx2 -mfma; host/isa.c checks the CPU before it hands out the table. No state; any
 * thread.
 */
#include "convolve/host/lanes.h"

#ifdef __x86_64__
#define HOST_REGISTERS 16
#define WIDTH          4
#include "convolve/host/body.h"
#define WIDTH 8
#include "convolve/host/body.h"

const struct host_isa host_avx2 = {.name = "avx2", .functions = {&table_4, &table_8}};
#endif
