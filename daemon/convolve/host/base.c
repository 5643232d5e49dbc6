/*
 * The host convolver with the vectors that every CPU of the architecture has (SSE2, NEON), 4 floats
 * each. No state; any thread.
 */
#include "convolve/host/lanes.h"

#define HOST_REGISTERS 16
#define WIDTH          4
#include "convolve/host/body.h"

const struct host_isa host_base = {.name = "base", .functions = {&table_4}};
