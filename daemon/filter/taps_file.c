/*
 * Taps from files: WAV, W64, RF64, FLAC, AIFF, CAF and AU through libsndfile, .npy (taps_npy.c) and
 * text (taps_text.c) by parsers of our own. The first bytes decide which of them a file is; its
 * name serves messages, and tells when a file is not what it is called. Formats that are not read
 * but often tried get an answer that says what to write instead.
 *
 * No state; worker threads.
 */
#include "filter/taps_reading.h"

#include <errno.h>
#include <fcntl.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/stat.h>
#include <unistd.h>

#include "signal/sound_file.h"
#include "signal/sound_input.h"

enum {
    FILE_BYTES_MAX = 1 << 29, /* 2^20 complex128 taps for 32 channels; more is no filter */
    VALUES_MAX = 1 << 26,     /* numbers in all sets together: 512 MiB */
};

int reading_create(struct reading *r, uint32_t sets, uint64_t taps, bool complex_taps)
{
    if (taps < 1)
        return problem_set(r->problem, ERROR_FORMAT, "%s holds no taps; give at least one",
                           r->name);
    if (taps > TAPS_MAX)
        return problem_set(r->problem, ERROR_LIMIT,
                           "%s holds %llu taps; a filter has at most %d: shorten it", r->name,
                           (unsigned long long)taps, TAPS_MAX);
    if (sets < 1 || sets > TAPS_SETS_MAX)
        return problem_set(r->problem, ERROR_LIMIT,
                           "%s holds %u sets of taps; give one, or one per channel, at most %d "
                           "(.npy: the shape is (channels, taps))",
                           r->name, sets, TAPS_SETS_MAX);
    if (sets * taps * (complex_taps ? 2 : 1) > VALUES_MAX)
        return problem_set(r->problem, ERROR_LIMIT,
                           "%s holds %llu taps in all channels together; shorten it to %d", r->name,
                           (unsigned long long)(sets * taps), VALUES_MAX / 2);
    r->sets = calloc(sets, sizeof *r->sets);
    if (r->sets == NULL)
        return problem_set(r->problem, ERROR_MEMORY, "no memory for the taps of %s", r->name);
    for (r->count = 0; r->count < sets; r->count++) {
        int error = taps_create((uint32_t)taps, complex_taps, &r->sets[r->count], r->problem);
        if (error != 0)
            return problem_prefix(r->problem, error, "%s", r->name);
    }
    return 0;
}

static int sets_check_finite(const struct reading *r)
{
    for (uint32_t set = 0; set < r->count; set++) {
        const struct taps *taps = r->sets[set];
        for (uint32_t n = 0; n < taps->count; n++) {
            if (isfinite(taps->re[n]) && (taps->im == NULL || isfinite(taps->im[n])))
                continue;
            return problem_set(r->problem, ERROR_FORMAT,
                               "%s: tap %u of set %u is not a finite number; every tap must be",
                               r->name, n + 1, set + 1);
        }
    }
    return 0;
}

#define TAP_MAX 1e20

/* Spectra and results are float32: taps this large leave no room for a signal. */
static int sets_check_size(const struct reading *r)
{
    for (uint32_t set = 0; set < r->count; set++) {
        const struct taps *taps = r->sets[set];
        for (uint32_t n = 0; n < taps->count; n++)
            if (fabs(taps->re[n]) > TAP_MAX || (taps->im != NULL && fabs(taps->im[n]) > TAP_MAX))
                return problem_set(r->problem, ERROR_FORMAT,
                                   "%s: tap %u of set %u is beyond %g, too large for 32-bit "
                                   "floats; scale the taps",
                                   r->name, n + 1, set + 1, TAP_MAX);
    }
    return 0;
}

/* ---- sound files: libsndfile over memory ---------------------------------------- */

/* The taps of one frame after the other, as many as come up to the end of the file. */
static int sound_read_frames(struct reading *r, SNDFILE *file, uint32_t channels)
{
    enum { PIECE = 4096 };
    uint32_t done = 0;
    double *piece = malloc((size_t)PIECE * channels * sizeof *piece);
    if (piece == NULL)
        return problem_set(r->problem, ERROR_MEMORY, "no memory to read %s", r->name);
    while (done < r->sets[0]->count) {
        uint32_t left = r->sets[0]->count - done;
        sf_count_t got = sf_readf_double(file, piece, left < PIECE ? left : PIECE);
        if (got <= 0)
            break;
        for (uint32_t n = 0; n < (uint32_t)got; n++)
            for (uint32_t c = 0; c < channels; c++)
                r->sets[c]->re[done + n] = piece[(size_t)n * channels + c];
        done += (uint32_t)got;
    }
    const bool more = done == r->sets[0]->count && sf_readf_double(file, piece, 1) == 1;
    free(piece);
    if (more)
        return problem_set(r->problem, ERROR_FORMAT,
                           "%s announces %u taps and holds more; write it again", r->name, done);
    if (done < r->sets[0]->count)
        return problem_set(r->problem, ERROR_FORMAT,
                           "%s is damaged: %u of %u taps came; copy the file again, or write it "
                           "again",
                           r->name, done, r->sets[0]->count);
    return 0;
}

/* How many frames come up to the end of a file whose header leaves its length open. */
static int sound_count_frames(const struct reading *r, SNDFILE *file, uint32_t channels,
                              uint64_t *frames)
{
    enum { PIECE = 4096 };
    double *piece = malloc((size_t)PIECE * channels * sizeof *piece);
    if (piece == NULL)
        return problem_set(r->problem, ERROR_MEMORY, "no memory to read %s", r->name);
    sf_count_t got;
    *frames = 0;
    while (*frames <= TAPS_MAX && (got = sf_readf_double(file, piece, PIECE)) > 0)
        *frames += (uint64_t)got;
    free(piece);
    return 0;
}

/* Refuses what a header and its file disagree on: taps that are not whole give another filter. */
static int sound_check_length(const struct reading *r, const struct sound_header *header)
{
    const unsigned long long announced = header->announced, held = header->held;
    if (header->length == SOUND_LENGTH_SHORT)
        return problem_set(r->problem, ERROR_FORMAT,
                           "%s ends early: its header announces %llu taps, and the file holds "
                           "%llu; copy the file again, or write it again",
                           r->name, announced, held);
    if (header->length == SOUND_LENGTH_UNFINISHED)
        return problem_set(r->problem, ERROR_FORMAT,
                           "%s was not finished: its header counts %llu taps, and the file holds "
                           "%llu; write it again, or make a copy of the latter with convolvd "
                           "--repair",
                           r->name, announced, held);
    if (header->two_data_chunks)
        return problem_set(r->problem, ERROR_FORMAT,
                           "%s has more than one chunk of samples; write one file for each",
                           r->name);
    return 0;
}

static int sound_load_open(struct reading *r, struct sound_input *input)
{
    SF_INFO info;
    uint64_t frames = input->header.announced;
    SNDFILE *file = sound_input_open(input, &info);
    if (file == NULL)
        return problem_set(r->problem, ERROR_FORMAT,
                           "%s is not a sound file that can be read (%s); write taps as WAV, .npy "
                           "or text",
                           r->name, sf_strerror(NULL));
    const uint32_t channels = info.channels > 0 ? (uint32_t)info.channels : 0;
    int error = 0;
    if (channels < 1 || channels > TAPS_SETS_MAX || info.frames < 1)
        error = problem_set(r->problem, ERROR_FORMAT, "%s holds no taps; give at least one frame",
                            r->name);
    if (error == 0 && input->header.length == SOUND_LENGTH_UNKNOWN) {
        frames = (uint64_t)info.frames;
        if (info.frames == SF_COUNT_MAX) {
            error = sound_count_frames(r, file, channels, &frames);
            sf_close(file);
            file = sound_input_open(input, &info);
        }
    }
    if (error == 0)
        error = reading_create(r, channels, frames, false);
    if (error == 0)
        error = sound_read_frames(r, file, channels);
    for (uint32_t c = 0; error == 0 && c < r->count; c++)
        r->sets[c]->file_rate_hz = info.samplerate;
    sf_close(file);
    return error;
}

static int sound_load(struct reading *r)
{
    if (sound_head_is_w64_float((const uint8_t *)r->data, r->bytes))
        return problem_set(r->problem, ERROR_UNSUPPORTED, "%s " SOUND_W64_FLOAT_ADVICE, r->name);
    struct sound_input input;
    sound_input_memory(&input, r->data, r->bytes);
    const int error = sound_check_length(r, &input.header);
    return error != 0 ? error : sound_load_open(r, &input);
}

/* ---- which ------------------------------------------------------------------------------- */

struct file_type {
    const char *suffix, *magic;
    int (*load)(struct reading *r);
};

static const struct file_type file_types[] = {
    {".wav", "RIFF", sound_load},  {".wav", "RIFX", sound_load},
    {".rf64", "RF64", sound_load}, {".w64", "riff", sound_load},
    {".flac", "fLaC", sound_load}, {".npy", "\x93NUMPY", reading_npy},
    {".aiff", "FORM", sound_load}, {".aif", "FORM", sound_load},
    {".aifc", "FORM", sound_load}, {".au", ".snd", sound_load},
    {".snd", ".snd", sound_load},  {".caf", "caff", sound_load},
};

static bool ends_with(const char *name, const char *suffix)
{
    size_t length = strlen(name), tail = strlen(suffix);
    return length >= tail && strcasecmp(name + length - tail, suffix) == 0;
}

/* What people have and the parsers cannot read, known by its name or its first bytes. */
static const struct foreign {
    const char *suffix, *magic, *advice;
} foreign[] = {
    {".mat", "MATLAB ",
     "is a MATLAB file, which is not read; in MATLAB or Octave write taps h as text: h = h(:); "
     "save('-ascii', '-double', 'taps.txt', 'h'), complex ones as h = [real(h(:)) imag(h(:))]"},
    {".npz", "PK\x03\x04",
     "is an archive of arrays, which is not read; save one array: numpy.save('taps.npy', h)"},
    {".h5", "\x89HDF", "is HDF5, which is not read; save the taps with numpy.save('taps.npy', h)"},
};

static int refuse_foreign(const struct reading *r)
{
    for (size_t i = 0; i < sizeof foreign / sizeof foreign[0]; i++) {
        size_t length = strlen(foreign[i].magic);
        if (ends_with(r->name, foreign[i].suffix) ||
            (r->bytes >= length && memcmp(r->data, foreign[i].magic, length) == 0))
            return problem_set(r->problem, ERROR_UNSUPPORTED, "%s %s", r->name, foreign[i].advice);
    }
    return 0;
}

static int dispatch(struct reading *r)
{
    for (size_t i = 0; i < sizeof file_types / sizeof file_types[0]; i++) {
        size_t length = strlen(file_types[i].magic);
        if (r->bytes >= length && memcmp(r->data, file_types[i].magic, length) == 0)
            return file_types[i].load(r);
    }
    for (size_t i = 0; i < sizeof file_types / sizeof file_types[0]; i++)
        if (ends_with(r->name, file_types[i].suffix))
            return problem_set(r->problem, ERROR_FORMAT,
                               "%s does not begin like a %s file; write it again, or name text "
                               "taps .txt",
                               r->name, file_types[i].suffix);
    int error = refuse_foreign(r);
    return error != 0 ? error : reading_text(r);
}

static void hash_file(const struct reading *r)
{
    struct sha256_ctx hash;
    char hex[DIGEST_TEXT];
    sha256_init(&hash);
    sha256_update(&hash, r->bytes, r->data);
    digest_finish(&hash, hex);
    for (uint32_t i = 0; i < r->count; i++)
        memcpy(r->sets[i]->hash, hex, sizeof hex);
}

int taps_load_memory(const char *name, const void *data, uint64_t bytes, struct taps ***sets,
                     uint32_t *count, struct problem *problem)
{
    *sets = NULL;
    *count = 0;
    if (bytes == 0)
        return problem_set(problem, ERROR_FORMAT, "%s is empty; give at least one tap", name);
    if (bytes > FILE_BYTES_MAX)
        return problem_set(problem, ERROR_LIMIT, "%s has %llu bytes; taps files have at most %d",
                           name, (unsigned long long)bytes, FILE_BYTES_MAX);
    struct reading r = {.name = name, .data = data, .bytes = bytes, .problem = problem};
    int error = dispatch(&r);
    if (error == 0)
        error = sets_check_finite(&r);
    if (error == 0)
        error = sets_check_size(&r);
    if (error != 0) {
        taps_sets_free(r.sets, r.count);
        return error;
    }
    hash_file(&r);
    *sets = r.sets;
    *count = r.count;
    return 0;
}

static int read_whole(int fd, uint8_t *data, uint64_t bytes)
{
    uint64_t done = 0;
    while (done < bytes) {
        ssize_t got = read(fd, data + done, bytes - done);
        if (got < 0 && errno == EINTR)
            continue;
        if (got <= 0)
            return ERROR_SYSTEM;
        done += (uint64_t)got;
    }
    return 0;
}

int taps_load(const char *path, struct taps ***sets, uint32_t *count, struct problem *problem)
{
    *sets = NULL;
    *count = 0;
    uint8_t *data = NULL;
    int error = 0;
    int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK); /* never hang on a FIFO */
    struct stat status;
    if (fd < 0 || fstat(fd, &status) != 0) {
        error = problem_set(problem, ERROR_NO_FILE,
                            "cannot read the taps file %s: %s; check the path and its permissions",
                            path, strerror(errno));
        goto done;
    }
    if (!S_ISREG(status.st_mode)) {
        error =
            problem_set(problem, ERROR_NO_FILE, "%s is not a regular file; name a taps file", path);
        goto done;
    }
    if (status.st_size > FILE_BYTES_MAX) {
        error = problem_set(problem, ERROR_LIMIT, "%s has %lld bytes; taps files have at most %d",
                            path, (long long)status.st_size, FILE_BYTES_MAX);
        goto done;
    }
    data = malloc((size_t)status.st_size + 1);
    if (data == NULL) {
        error = problem_set(problem, ERROR_MEMORY, "no memory to read %s", path);
        goto done;
    }
    if (read_whole(fd, data, (uint64_t)status.st_size) != 0) {
        error = problem_set(problem, ERROR_SYSTEM, "%s could not be read to its end: %s", path,
                            strerror(errno));
        goto done;
    }
    error = taps_load_memory(path, data, (uint64_t)status.st_size, sets, count, problem);

done:
    free(data);
    if (fd >= 0)
        close(fd);
    return error;
}
