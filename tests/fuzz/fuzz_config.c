/*
 * Any bytes as a configuration: what is accepted must be whole (every index within its array),
 * what is refused must say why. No file is touched.
 */
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "config/config.h"
#include "io/recording/recording.h"
#include "tests/fuzz/require.h"

static int probe(const struct source_ops *driver, const struct source_options *options,
                 struct source_facts *facts, struct problem *problem)
{
    const struct file_options *own = options->own;
    (void)driver;
    (void)problem;
    /* The name decides, so that the fuzzer can have what it wants. */
    size_t length = strlen(own->path);
    facts->rate_hz = 1 + 1000.0 * (double)(length % 97);
    facts->channels = 1 + (uint32_t)(length % 2000);
    facts->frames = length;
    return sample_format_parse(length % 2 != 0 ? "s16le" : "f32le", &facts->format);
}

static bool readable(const char *path)
{
    return path[0] != '!';
}

static int makeable(const struct filter_spec *spec, double rate_hz, struct problem *problem)
{
    (void)spec;
    (void)rate_hz;
    (void)problem;
    return 0; /* designs have tests of their own, and take their time */
}

static const char *environment(const char *name)
{
    return name[0] == 'S' ? "/var/lib/convolvd:/elsewhere" : NULL;
}

static const char *variant(int index)
{
    return index == 0 ? "fused" : NULL;
}

static bool nodes(struct number_set *set)
{
    return number_set_parse("0-1", set);
}

static const struct config_world world = {probe, readable, makeable, environment, variant, nodes};

static void require_whole(const struct config *config)
{
    REQUIRE(config->stream_count > 0 && strlen(config->hash) == 64);
    for (uint32_t s = 0; s < config->stream_count; s++) {
        const struct config_stream *stream = &config->streams[s];
        REQUIRE(stream->upstream < (int)s);
        REQUIRE(stream->source.rate_hz > 0 && stream->source.channels >= 1);
        REQUIRE(stream->source.frame_bytes ==
                stream->source.channels * stream->source.format.bytes);
        REQUIRE(sample_format_valid(&stream->source.format));
        REQUIRE(stream->hop_frames >= 1 && stream->hop_frames <= 1 << 19);
        REQUIRE(stream->edge_count >= 1 && stream->output_floats >= stream->output_count);
        for (uint32_t e = 0; e < stream->edge_count; e++) {
            REQUIRE(stream->edges[e].input < stream->source.channels);
            REQUIRE(stream->edges[e].output < stream->output_count);
            REQUIRE(stream->edges[e].filter < config->filter_count);
        }
        for (uint32_t c = 0; c < stream->source.channels; c++)
            REQUIRE(stream->scales[c].full_scale > 0);
        for (uint32_t f = 0; f < stream->output_floats; f++)
            REQUIRE(stream->units[f] != NULL);
    }
    for (uint32_t i = 0; i < config->sink_count; i++) {
        REQUIRE(config->sinks[i].stream < config->stream_count);
        REQUIRE(config->sinks[i].options.full_scale > 0);
        REQUIRE(sample_format_valid(&config->sinks[i].options.format));
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes)
{
    struct config *config;
    struct config_errors errors = {0};
    int status = config_load_text("fuzz.conf", (const char *)data, bytes, &world, &config, &errors);
    REQUIRE((status == 0) == (config != NULL));
    REQUIRE((status == 0) == (errors.errors == 0) || status == ERROR_MEMORY);
    if (config != NULL)
        require_whole(config);
    config_free(config);
    config_errors_free(&errors);
    return 0;
}
