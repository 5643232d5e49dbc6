/* What a rig sends: see rig_signal.h. */
#include "rig_signal.h"

#include <errno.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <sndfile.h>

#include "signal/sound_file.h"

enum { PIECE_FRAMES = 65536 }; /* of waveform_fill's 32-bit count */

struct rig_signal {
    uint32_t channels;
    double rate_hz, full_scale;
    /* one of the two */
    struct waveform *waveform;
    SNDFILE *file;
    uint64_t next_frame; /* waveform */
    uint64_t repeat;     /* file: passes left, 0: without end */
    bool endless;
    bool plate;
};

static int create(struct rig_signal **out, double full_scale, struct problem *problem)
{
    *out = calloc(1, sizeof **out);
    if (*out == NULL)
        return problem_set(problem, ERROR_MEMORY, "out of memory");
    (*out)->full_scale = full_scale;
    return 0;
}

int rig_signal_generate(const struct waveform_spec *spec, double full_scale,
                        struct rig_signal **out, struct problem *problem)
{
    int status = create(out, full_scale, problem);
    if (status != 0)
        return status;
    (*out)->channels = spec->channels;
    (*out)->rate_hz = spec->rate_hz;
    (*out)->plate = spec->kind == WAVEFORM_AE && spec->plate != NULL;
    status = waveform_create(spec, &(*out)->waveform, problem);
    if (status != 0) {
        rig_signal_close(*out);
        *out = NULL;
    }
    return status;
}

int rig_signal_load(const char *path, double full_scale, uint64_t repeat, struct rig_signal **out,
                    struct problem *problem)
{
    int status = create(out, full_scale, problem);
    if (status != 0)
        return status;
    struct rig_signal *signal = *out;
    if (sound_is_w64_float(path)) {
        rig_signal_close(signal);
        *out = NULL;
        return problem_set(problem, ERROR_UNSUPPORTED, "%s " SOUND_W64_FLOAT_ADVICE, path);
    }
    SF_INFO info = {0};
    signal->file = sf_open(path, SFM_READ, &info);
    if (signal->file == NULL || info.channels < 1 || info.channels > 1024 || info.frames < 1) {
        status = problem_set(
            problem, ERROR_NO_FILE, "%s: not a recording that can be sent: %s", path,
            signal->file == NULL ? sf_strerror(NULL) : "it needs 1 to 1024 channels and a frame");
        rig_signal_close(signal);
        *out = NULL;
        return status;
    }
    signal->channels = (uint32_t)info.channels;
    signal->rate_hz = info.samplerate;
    signal->repeat = repeat;
    signal->endless = repeat == 0;
    return 0;
}

void rig_signal_close(struct rig_signal *signal)
{
    if (signal == NULL)
        return;
    waveform_free(signal->waveform);
    if (signal->file != NULL)
        sf_close(signal->file);
    free(signal);
}

uint32_t rig_signal_channels(const struct rig_signal *signal)
{
    return signal->channels;
}

double rig_signal_rate_hz(const struct rig_signal *signal)
{
    return signal->rate_hz;
}

static uint64_t read_file(struct rig_signal *signal, uint64_t frames, double *values)
{
    uint64_t read = 0;
    while (read < frames) {
        sf_count_t got = sf_readf_double(signal->file, values + read * signal->channels,
                                         (sf_count_t)(frames - read));
        if (got > 0) {
            read += (uint64_t)got;
            continue;
        }
        if (!signal->endless && --signal->repeat == 0) {
            signal->repeat = 1; /* the end stays the end */
            break;
        }
        if (sf_seek(signal->file, 0, SEEK_SET) != 0)
            break;
    }
    return read;
}

uint64_t rig_signal_read(struct rig_signal *signal, uint64_t frames, double *values)
{
    if (signal->file != NULL) {
        frames = read_file(signal, frames, values);
    } else {
        for (uint64_t done = 0; done < frames;) {
            uint32_t now = frames - done < PIECE_FRAMES ? (uint32_t)(frames - done) : PIECE_FRAMES;
            waveform_fill(signal->waveform, signal->next_frame, now,
                          values + done * signal->channels);
            signal->next_frame += now;
            done += now;
        }
    }
    if (signal->full_scale != 1.0)
        for (uint64_t i = 0; i < frames * signal->channels; i++)
            values[i] /= signal->full_scale;
    return frames;
}

/* ---- emissions --------------------------------------------------------------------------- */

static int by_frame(const void *a, const void *b)
{
    const struct waveform_emission *x = a, *y = b;
    return (x->frame > y->frame) - (x->frame < y->frame);
}

int rig_signal_write_emissions(const struct rig_signal *signal, const char *path, uint64_t frames,
                               struct problem *problem)
{
    enum { EMISSIONS_MAX = PIECE_FRAMES };
    if (!signal->plate)
        return problem_set(problem, ERROR_ARGUMENT,
                           "--emissions: only --signal ae with --sensors has places");
    struct waveform_emission *emissions = calloc(EMISSIONS_MAX, sizeof *emissions);
    FILE *file = emissions != NULL ? fopen(path, "w") : NULL;
    if (file == NULL) {
        free(emissions);
        return problem_set(problem, ERROR_NO_FILE, "%s: %s", path, strerror(errno));
    }
    fprintf(file, "frame,x_mm,y_mm,amplitude\n");
    for (uint64_t first = 0; first < frames; first += PIECE_FRAMES) {
        const uint32_t piece =
            frames - first < PIECE_FRAMES ? (uint32_t)(frames - first) : PIECE_FRAMES;
        const uint32_t count =
            waveform_emissions(signal->waveform, first, piece, emissions, EMISSIONS_MAX);
        qsort(emissions, count, sizeof *emissions, by_frame);
        for (uint32_t i = 0; i < count; i++)
            fprintf(file, "%.6f,%.6f,%.6f,%.9g\n", emissions[i].frame, emissions[i].place.x_m * 1e3,
                    emissions[i].place.y_m * 1e3, emissions[i].amplitude);
    }
    free(emissions);
    const bool failed = ferror(file) != 0;
    if (fclose(file) != 0 || failed)
        return problem_set(problem, ERROR_SYSTEM, "%s: could not be written", path);
    return 0;
}
