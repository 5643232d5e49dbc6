/* Device options: see device_options.h. */
#include "pipeline/device_options.h"

#include <uv.h>

struct engine_options device_options(const struct config *config, const char *kernels_dir)
{
    bool live = false;
    for (uint32_t i = 0; i < config->stream_count; i++)
        live = live || config->streams[i].live;
    int threads = config->device.threads;
    /* A CPU device would take every core; the loop that empties the sockets needs one. */
    if (threads == 0 && live && uv_available_parallelism() > 1)
        threads = (int)uv_available_parallelism() - 1;
    device_cache(config->device.cache_dir); /* before anybody asks for devices */
    return (struct engine_options){
        .device = config->device.device,
        .cpu_threads = threads,
        .kernels_dir = kernels_dir != NULL ? kernels_dir : config->device.kernels_dir,
        .cache_dir = config->device.cache_dir,
        .batches = config->device.batches,
        .depth = config->device.depth,
        .node = config->device.node,
        .deadline_ns = config->device.deadline_ns,
        .input_bytes = config->device.input_bytes,
        .spectrum_bytes = config->device.spectrum_bytes,
        .state_bytes = config->device.state_bytes,
        .batch_output_floats = config->device.batch_output_floats,
    };
}
