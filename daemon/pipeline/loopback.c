/* Measuring round trips: see loopback.h. */
#include "pipeline/loopback.h"

#include <inttypes.h>

#include "core/log.h"

int loopback_measure(const struct config *config, FILE *out, struct problem *problem)
{
    uint32_t measured = 0;
    for (uint32_t s = 0; s < config->stream_count; s++) {
        const struct config_stream *stream = &config->streams[s];
        const struct driver_loopback *loopback =
            stream->driver != NULL ? stream->driver->loopback : NULL;
        if (loopback == NULL || !loopback->measurable(&stream->source))
            continue;
        fprintf(out, "stream %s\n", stream->name);
        fflush(out);
        int error = loopback->measure(&stream->source, config->device.cache_dir, out, problem);
        if (error < 0)
            return problem_prefix(problem, error, "stream %s", stream->name);
        measured++;
    }
    if (measured > 0)
        return 0;
    return problem_set(
        problem, ERROR_CONFIG,
        "%s has no stream with `source = portaudio` and duplex = yes whose card a sink "
        "plays on: a round trip needs both directions of one card",
        config->path);
}

uint64_t loopback_declared(const struct config_stream *stream, const char *cache_dir)
{
    const struct driver_loopback *loopback = stream->driver->loopback;
    char note[128];
    if (loopback == NULL)
        return 0;
    const uint64_t frames = loopback->declared(&stream->source, cache_dir, note, sizeof note);
    if (frames > 0 && note[0] != '\0')
        log_info("stream %s: round trip of %" PRIu64 " frames declared, %s", stream->name, frames,
                 note);
    return frames;
}
