/*
 * One engine shared by a group of cmocka tests. The group's setup opens it; the group's teardown
 * checks its guard zones and closes it. A test that opens engines itself uses engine_harness.h
 * alone. Test thread.
 */
#ifndef CONVOLVD_TESTS_ENGINE_GROUP_H
#define CONVOLVD_TESTS_ENGINE_GROUP_H

#include "tests/support/engine_harness.h"

/* The group's engine; NULL before its setup. */
extern struct engine *engine;

/* Setups: an engine on the device under test, */
int open_engine(void **state);
/* the same with kernels built as for a GPU, */
int open_gpu_shape_engine(void **state);
/* and, beside that, with device memory of its own, whatever the device. */
int open_mirrored_engine(void **state);

/* The teardown of each. */
int close_engine(void **state);

#endif
