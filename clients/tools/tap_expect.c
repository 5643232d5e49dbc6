/* Expectation: see tap_expect.h. */
#include "tap_expect.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include <sndfile.h>

#include "npy.h"
#include "signal/sound_file.h"

struct expect {
    struct expect_options options;
    double *values; /* [frames][channels] */
    uint64_t frames;
    uint64_t end;               /* first frame after the newest that came */
    struct expect_verdict sums; /* e2 as a sum of squares until judged */
    double want2, want_max;
};

static int load_recording(const char *path, double **values, uint64_t *frames, uint32_t *channels,
                          struct problem *problem)
{
    if (sound_is_w64_float(path))
        return problem_set(problem, ERROR_UNSUPPORTED, "%s " SOUND_W64_FLOAT_ADVICE, path);
    SF_INFO info = {0};
    SNDFILE *file = sf_open(path, SFM_READ, &info);
    if (file == NULL)
        return problem_set(problem, ERROR_NO_FILE, "%s: %s", path, sf_strerror(NULL));
    *frames = (uint64_t)info.frames;
    *channels = (uint32_t)info.channels;
    *values = malloc((size_t)info.frames * (size_t)info.channels * sizeof **values + 1);
    int status = 0;
    if (*values == NULL)
        status = problem_set(problem, ERROR_MEMORY, "%s: out of memory", path);
    else if (sf_readf_double(file, *values, info.frames) != info.frames)
        status = problem_set(problem, ERROR_FORMAT, "%s: ends before its header says", path);
    sf_close(file);
    return status;
}

int expect_open(const struct expect_options *options, struct expect **out, struct problem *problem)
{
    *out = NULL;
    struct expect *expect = calloc(1, sizeof *expect);
    if (expect == NULL)
        return problem_set(problem, ERROR_MEMORY, "out of memory");
    expect->options = *options;
    uint32_t channels = 0;
    const char *ending = strrchr(options->path, '.');
    bool npy = ending != NULL && strcmp(ending, ".npy") == 0;
    int status = (npy ? npy_read : load_recording)(options->path, &expect->values, &expect->frames,
                                                   &channels, problem);
    if (status == 0 && channels != options->channels)
        status = problem_set(problem, ERROR_ARGUMENT, "--expect %s has %u channels, the stream %u",
                             options->path, channels, options->channels);
    if (status != 0) {
        expect_close(expect);
        return status;
    }
    expect->sums.frames = expect->frames;
    *out = expect;
    return 0;
}

void expect_close(struct expect *expect)
{
    if (expect == NULL)
        return;
    free(expect->values);
    free(expect);
}

static void compare_frame(struct expect *expect, uint64_t frame, const double *got)
{
    const double *want = expect->values + frame * expect->options.channels;
    for (uint32_t c = 0; c < expect->options.channels; c++) {
        double e = fabs(got[c] - want[c]);
        if (isnan(e))
            e = INFINITY; /* never within any bound */
        expect->sums.e2 += e * e;
        expect->want2 += want[c] * want[c];
        expect->want_max = fmax(expect->want_max, fabs(want[c]));
        if (e > expect->sums.e_max) {
            expect->sums.e_max = e;
            expect->sums.worst_frame = frame;
            expect->sums.worst_channel = c;
        }
    }
    expect->sums.compared++;
}

void expect_put(struct expect *expect, const struct convolv_block *block)
{
    if (block->epoch != expect->options.epoch)
        return;
    if (block->first_frame + block->frames > expect->end)
        expect->end = block->first_frame + block->frames;
    for (uint32_t i = 0; i < block->frames; i++) {
        uint64_t frame = block->first_frame + i;
        bool invalid = i >= block->invalid_from && i < block->invalid_until;
        if (frame >= expect->frames)
            expect->sums.beyond++;
        else if (invalid && expect->options.skip_invalid)
            expect->sums.skipped++;
        else
            compare_frame(expect, frame, block->samples + (size_t)i * block->channels);
    }
}

struct expect_verdict expect_judge(const struct expect *expect, uint64_t until)
{
    struct expect_verdict verdict = expect->sums;
    const struct expect_options *options = &expect->options;
    uint64_t due = until == 0 ? expect->end : until;
    due = due < expect->frames ? due : expect->frames;
    uint64_t came = verdict.compared + verdict.skipped;
    verdict.missing = due > came ? due - came : 0;
    double samples = (double)verdict.compared * options->channels;
    verdict.e2 = sqrt(verdict.e2);
    verdict.limit2 =
        1e-6 * fmax(sqrt(expect->want2), options->input_norm) + options->lsb / 2 * sqrt(samples);
    verdict.limit_max = 5e-6 * fmax(expect->want_max, options->input_peak) + options->lsb / 2;
    verdict.within =
        verdict.compared > 0 && verdict.e2 <= verdict.limit2 && verdict.e_max <= verdict.limit_max;
    return verdict;
}
