/*
 * The options of the engine that follow from a configuration, and the directory of the drivers'
 * cache, which has to be set before anybody asks for devices.
 *
 * Any thread.
 */
#ifndef CONVOLVD_PIPELINE_DEVICE_OPTIONS_H
#define CONVOLVD_PIPELINE_DEVICE_OPTIONS_H

#include "convolve/engine.h"
#include "config/config.h"

/* `kernels_dir` of the command line wins over the configuration's; NULL: that one. Points into the
 * configuration; `wake` is the caller's to set. */
struct engine_options device_options(const struct config *config, const char *kernels_dir);

#endif
