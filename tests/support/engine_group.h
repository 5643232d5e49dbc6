/*
 * One engine for a whole group of tests: it is the group's setup that opens it and the group's
 * teardown that closes it, with its guards checked. For tests that open engines of their own,
 * engine_harness.h alone.
 */
#ifndef CONVOLVD_TESTS_ENGINE_GROUP_H
#define CONVOLVD_TESTS_ENGINE_GROUP_H

#include "tests/support/engine_harness.h"

/* The group's; NULL before its setup. */
extern struct engine *engine;

/* Setups: on the device under test, */
int open_engine(void **state);
/* with kernels built as for a GPU, */
int open_gpu_shape_engine(void **state);
/* and, beside that, with device memory of its own, whatever the device. */
int open_twin_engine(void **state);

/* The teardown of each. */
int close_engine(void **state);

#endif
