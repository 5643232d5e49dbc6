/*
 * Source `generator`: a waveform as a rig would send it, in the stream's wire format, in real
 * time or as fast as the stream has room. The samples are computed on the producer thread of
 * io/replay.c from the frame number alone, so a run can be repeated and checked anywhere.
 */
#include <stdlib.h>

#include "core/log.h"
#include "io/replay.h"
#include "io/source.h"
#include "io/sources.h"
#include "signal/waveform.h"

struct generator {
    struct waveform *waveform;
    const char *stream;
    struct sample_format format;
    uint32_t channels;
    uint64_t next, end; /* frames; end UINT64_MAX: endless */
    double *offsets;    /* [channels]: normalised code = (value + offset) * factor */
    double *factors;
    double *values; /* [chunk_frames][channels] */
    bool clipped;   /* already said */
};

static void generator_release(void *context)
{
    struct generator *g = context;
    waveform_free(g->waveform);
    free(g->offsets);
    free(g->factors);
    free(g->values);
    free(g);
}

static uint32_t generator_fill(void *context, uint8_t *payload, uint32_t frames)
{
    struct generator *g = context;
    if (frames > g->end - g->next)
        frames = (uint32_t)(g->end - g->next);
    waveform_fill(g->waveform, g->next, frames, g->values);
    const double *value = g->values;
    bool clipped = false;
    for (uint32_t i = 0; i < frames; i++) {
        for (uint32_t c = 0; c < g->channels; c++) {
            double code = (*value++ + g->offsets[c]) * g->factors[c];
            clipped |= sample_encode(&g->format, code, payload);
            payload += g->format.bytes;
        }
    }
    if (clipped && !g->clipped) {
        log_warning("stream %s: the generated signal exceeds full scale and is clipped; lower "
                    "`amplitude` or raise `full scale`",
                    g->stream);
        g->clipped = true;
    }
    g->next += frames;
    return frames;
}

static int generator_open(const struct source_options *options,
                          const struct io_environment *environment, const struct source_host *host,
                          struct source **out, struct problem *problem)
{
    struct generator *g = calloc(1, sizeof *g);
    if (g == NULL)
        goto no_memory;
    uint32_t chunk_frames = replay_chunk_frames(options->frame_bytes);
    g->stream = options->stream;
    g->format = options->format;
    g->channels = options->channels;
    g->end = options->length_frames > 0 ? options->length_frames : UINT64_MAX;
    g->offsets = calloc(options->channels, sizeof *g->offsets);
    g->factors = calloc(options->channels, sizeof *g->factors);
    g->values = calloc((size_t)chunk_frames * options->channels, sizeof *g->values);
    if (g->offsets == NULL || g->factors == NULL || g->values == NULL)
        goto no_memory;
    for (uint32_t c = 0; c < options->channels; c++) {
        g->factors[c] = 1.0;
        if (options->scales != NULL) {
            g->offsets[c] = options->scales[c].offset;
            g->factors[c] = 1.0 / channel_scale_factor(&options->scales[c]);
        }
    }
    struct waveform_spec spec = options->waveform;
    spec.rate_hz = options->rate_hz;
    spec.channels = options->channels;
    int status = waveform_create(&spec, &g->waveform, problem);
    if (status != 0) {
        generator_release(g);
        return problem_prefix(problem, status, "stream %s", options->stream);
    }
    struct replay_spec replay = {
        .stream = options->stream,
        .rate_hz = options->rate_hz,
        .frame_bytes = options->frame_bytes,
        .paced = options->paced,
        .chunk_frames = chunk_frames,
        .fill = generator_fill,
        .release = generator_release,
        .context = g,
    };
    return replay_open(&replay, environment, host, out, problem);

no_memory:
    if (g != NULL)
        generator_release(g);
    return problem_set(problem, ERROR_MEMORY, "stream %s: out of memory for its generator",
                       options->stream);
}

const struct source_ops source_generator = {
    .name = "generator",
    .sentence = "a computed test signal: sine, chirp, noise, bursts, acoustic emission",
    .live = false,
    .loss_detectable = true,
    .open = generator_open,
    .start = replay_start,
    .resume = replay_resume,
    .stop = replay_stop,
    .close = replay_close,
    .ledger = replay_ledger,
    .port = replay_port,
    .working = replay_working,
};
