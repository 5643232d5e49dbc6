/*
 * Recorder: see tap_recorder.h. The files of the two newest epochs stay open, so that packets
 * reordered across an epoch's end still find their place.
 */
#include "tap_recorder.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include <sndfile.h>

#include "npy.h"

enum { PATH_BYTES = 4096, FILES_OPEN = 2, ZERO_SAMPLES = 4096 };

static const struct container {
    const char *ending;
    int format; /* libsndfile's; 0: .npy */
} containers[] = {
    {".npy", 0},
    {".wav", SF_FORMAT_RF64 | SF_FORMAT_FLOAT}, /* turns into WAV at close when small enough */
    {".w64", SF_FORMAT_W64 | SF_FORMAT_FLOAT},
    {".rf64", SF_FORMAT_RF64 | SF_FORMAT_FLOAT},
    {".flac", SF_FORMAT_FLAC | SF_FORMAT_PCM_24},
};

struct output {
    bool used;
    uint32_t epoch;
    struct npy *npy; /* one of the two */
    SNDFILE *file;
    uint64_t frames; /* of the file so far */
};

struct recorder {
    char path[PATH_BYTES];
    const struct container *container;
    double rate_hz;
    uint32_t channels;
    bool started;
    uint32_t first_epoch;
    struct output outputs[FILES_OPEN];
    unsigned next; /* of outputs: the older one */
};

int recorder_open(const char *path, double rate_hz, uint32_t channels, struct recorder **out,
                  struct problem *problem)
{
    *out = NULL;
    const struct container *container = NULL;
    const char *ending = strrchr(path, '.');
    for (size_t i = 0; ending != NULL && i < sizeof containers / sizeof *containers; i++)
        if (strcasecmp(ending, containers[i].ending) == 0)
            container = &containers[i];
    if (container == NULL)
        return problem_set(problem, ERROR_ARGUMENT,
                           "--write %s: end it with .wav, .w64, .rf64, .flac or .npy", path);
    if (container->format != 0 && rate_hz != floor(rate_hz))
        return problem_set(problem, ERROR_UNSUPPORTED,
                           "--write %s: recordings hold whole rates, not %.10g Hz: write .npy",
                           path, rate_hz);
    struct recorder *recorder = calloc(1, sizeof *recorder);
    if (recorder == NULL)
        return problem_set(problem, ERROR_MEMORY, "out of memory");
    if (strlen(path) >= sizeof recorder->path) {
        free(recorder);
        return problem_set(problem, ERROR_ARGUMENT, "--write: the path is too long");
    }
    strcpy(recorder->path, path);
    recorder->container = container;
    recorder->rate_hz = rate_hz;
    recorder->channels = channels;
    *out = recorder;
    return 0;
}

static int close_output(struct output *output, struct problem *problem)
{
    if (!output->used)
        return 0;
    output->used = false;
    if (output->npy != NULL)
        return npy_close(output->npy, problem);
    return sf_close(output->file) == 0
               ? 0
               : problem_set(problem, ERROR_SYSTEM, "a recording could not be completed");
}

static int open_output(struct recorder *recorder, uint32_t epoch, struct output *output,
                       struct problem *problem)
{
    char path[PATH_BYTES + 32];
    if (!recorder->started) {
        recorder->started = true;
        recorder->first_epoch = epoch;
    }
    if (epoch == recorder->first_epoch) {
        snprintf(path, sizeof path, "%s", recorder->path);
    } else {
        const char *ending = strrchr(recorder->path, '.');
        snprintf(path, sizeof path, "%.*s-epoch%u%s", (int)(ending - recorder->path),
                 recorder->path, epoch, ending);
    }
    *output = (struct output){.epoch = epoch};
    if (recorder->container->format == 0) {
        int status = npy_create(path, recorder->channels, &output->npy, problem);
        output->used = status == 0;
        return status;
    }
    SF_INFO info = {
        .samplerate = (int)recorder->rate_hz,
        .channels = (int)recorder->channels,
        .format = recorder->container->format,
    };
    output->file = sf_open(path, SFM_WRITE, &info);
    if (output->file == NULL)
        return problem_set(problem, ERROR_NO_FILE, "%s: cannot be written: %s", path,
                           sf_strerror(NULL));
    sf_command(output->file, SFC_RF64_AUTO_DOWNGRADE, NULL,
               strcasecmp(recorder->container->ending, ".wav") == 0 ? SF_TRUE : SF_FALSE);
    output->used = true;
    return 0;
}

static int put_file(const struct recorder *recorder, struct output *output, uint64_t first,
                    uint64_t frames, const double *values, struct problem *problem)
{
    static const double zeros[ZERO_SAMPLES];
    bool back = first < output->frames;
    if (back && sf_seek(output->file, (sf_count_t)first, SEEK_SET) < 0)
        return problem_set(problem, ERROR_SYSTEM, "a late packet could not be put in its place: %s",
                           sf_strerror(output->file));
    while (output->frames < first) {
        uint64_t hole = first - output->frames, now = ZERO_SAMPLES / recorder->channels;
        now = now < hole ? now : hole;
        if (sf_writef_double(output->file, zeros, (sf_count_t)now) != (sf_count_t)now)
            return problem_set(problem, ERROR_SYSTEM, "cannot write: %s",
                               sf_strerror(output->file));
        output->frames += now;
    }
    if (sf_writef_double(output->file, values, (sf_count_t)frames) != (sf_count_t)frames)
        return problem_set(problem, ERROR_SYSTEM, "cannot write: %s", sf_strerror(output->file));
    if (first + frames > output->frames)
        output->frames = first + frames;
    if (back)
        sf_seek(output->file, (sf_count_t)output->frames, SEEK_SET);
    return 0;
}

int recorder_put(struct recorder *recorder, const struct convolv_block *block,
                 struct problem *problem)
{
    struct output *output = NULL;
    for (int i = 0; i < FILES_OPEN; i++)
        if (recorder->outputs[i].used && recorder->outputs[i].epoch == block->epoch)
            output = &recorder->outputs[i];
    if (output == NULL) {
        output = &recorder->outputs[recorder->next++ % FILES_OPEN];
        int status = close_output(output, problem);
        if (status == 0)
            status = open_output(recorder, block->epoch, output, problem);
        if (status != 0)
            return status;
    }
    if (output->npy != NULL)
        return npy_write(output->npy, block->first_frame, block->frames, block->samples, problem);
    return put_file(recorder, output, block->first_frame, block->frames, block->samples, problem);
}

int recorder_close(struct recorder *recorder, struct problem *problem)
{
    if (recorder == NULL)
        return 0;
    int status = 0;
    for (int i = 0; i < FILES_OPEN; i++) {
        int closed = close_output(&recorder->outputs[i], problem);
        status = status == 0 ? closed : status;
    }
    free(recorder);
    return status;
}
