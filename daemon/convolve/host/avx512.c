/*
 * The host convolver for CPUs with AVX-512 (F, BW, DQ, VL), 4, 8 or 16 floats a vector. The
 * Makefile compiles this file with those instructions; host/isa.c checks the CPU before it hands
 * out the table. No state; any thread.
 */
#include "convolve/host/lanes.h"

#ifdef __x86_64__
#define HOST_REGISTERS 32
#define WIDTH          4
#include "convolve/host/body.h"
#define WIDTH 8
#include "convolve/host/body.h"
#define WIDTH 16
#include "convolve/host/body.h"

const struct host_isa host_avx512 = {.name = "avx512",
                                     .functions = {&table_4, &table_8, &table_16}};
#endif
