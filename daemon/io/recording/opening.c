/* Opening a recording: see opening.h. */
#include "io/recording/opening.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <strings.h>
#include <unistd.h>

#include "core/quantity.h"
#include "io/recording/recording.h"
#include "signal/sound_file.h"

/* The stream's format for each encoding of libsndfile. */
static const struct encoding {
    int subtype;
    struct sample_format format;
} encodings[] = {
    {SF_FORMAT_PCM_U8, {SAMPLE_UNSIGNED, 1, 8, false, false}},
    {SF_FORMAT_PCM_S8, {SAMPLE_UNSIGNED, 1, 8, false, false}},
    {SF_FORMAT_PCM_16, {SAMPLE_SIGNED, 2, 16, false, false}},
    {SF_FORMAT_PCM_24, {SAMPLE_SIGNED, 3, 24, false, false}},
    {SF_FORMAT_PCM_32, {SAMPLE_SIGNED, 4, 32, false, false}},
    {SF_FORMAT_FLOAT, {SAMPLE_FLOAT, 4, 32, false, false}},
    {SF_FORMAT_DOUBLE, {SAMPLE_FLOAT, 4, 32, false, false}},
};

/* For a W64 of floats that libsndfile mistakes for 32-bit integers (signal/sound_file.h): the
 * integers it returns are the bits of the floats. */
static const struct encoding mistaken_floats = {SF_FORMAT_PCM_32,
                                                {SAMPLE_FLOAT, 4, 32, false, false}};

/* ---- refusals ---------------------------------------------------------------------------- */

/* Files of measurements that are no sound files, by suffix or first bytes. */
static const struct foreign {
    const char *suffix, *magic, *advice;
} foreign[] = {
    {".tradb", "", "is a file of transients; write source = tradb to replay it"},
    {".pridb", "", "is a file of hits, without a signal; source = tradb replays a .tradb"},
    {".npy", "\x93NUMPY",
     "is a NumPy array, which has no rate; write it as WAV: scipy.io.wavfile.write('OUT.wav', "
     "RATE, numpy.load('IN.npy').astype('float32'))"},
    {".npz", "PK\x03\x04",
     "is an archive of arrays; write one of them as WAV: scipy.io.wavfile.write('OUT.wav', RATE, "
     "x.astype('float32'))"},
    {".mat", "MATLAB ",
     "is a MATLAB file; write the signal as WAV: audiowrite('OUT.wav', x, RATE, 'BitsPerSample', "
     "32), in Python scipy.io.wavfile.write('OUT.wav', RATE, x.astype('float32'))"},
    {".h5", "\x89HDF",
     "is HDF5; write the signal as WAV, in Python scipy.io.wavfile.write('OUT.wav', RATE, "
     "x.astype('float32'))"},
    {".hdf5", "\x89HDF",
     "is HDF5; write the signal as WAV, in Python scipy.io.wavfile.write('OUT.wav', RATE, "
     "x.astype('float32'))"},
    {".db", "SQLite format 3",
     "is an SQLite database; write source = tradb if it is a .tradb, else write its signal as WAV"},
    {".csv", "",
     "is text; write the signal as WAV, in Python scipy.io.wavfile.write('OUT.wav', RATE, "
     "x.astype('float32'))"},
    {".txt", "",
     "is text; write the signal as WAV, in Python scipy.io.wavfile.write('OUT.wav', RATE, "
     "x.astype('float32'))"},
};

static bool ends_with(const char *name, const char *suffix)
{
    const size_t length = strlen(name), tail = strlen(suffix);
    return length >= tail && strcasecmp(name + length - tail, suffix) == 0;
}

/* Known sound files are read whatever their name says. */
static int refuse_foreign(const struct recording_file *file, struct problem *problem)
{
    char head[16] = "";
    if (file->input.header.container != SOUND_OTHER)
        return 0;
    const ssize_t got = pread(file->input.fd, head, sizeof head, 0);
    for (size_t i = 0; i < sizeof foreign / sizeof foreign[0]; i++) {
        const size_t magic = strlen(foreign[i].magic);
        if (ends_with(file->path, foreign[i].suffix) ||
            (magic > 0 && got >= (ssize_t)magic && memcmp(head, foreign[i].magic, magic) == 0))
            return problem_set(problem, ERROR_UNSUPPORTED, "recording %s %s", file->path,
                               foreign[i].advice);
    }
    return 0;
}

/* Reports what libsndfile refuses with a general sentence, or reads wrongly. */
static int refuse_header(const struct recording_file *file, struct problem *problem)
{
    const struct sound_header *h = &file->input.header;
    const char *name = sound_container_name(h->container);
    if (h->container == SOUND_OTHER)
        return 0;
    if (h->no_data)
        return problem_set(problem, ERROR_FORMAT,
                           "recording %s holds no samples: its %s header names none; record it "
                           "again",
                           file->path, name);
    if (h->two_data_chunks)
        return problem_set(problem, ERROR_UNSUPPORTED,
                           "recording %s has more than one chunk of samples, and only the first "
                           "would be read; write one file for each",
                           file->path);
    if (h->rate_hz < 1 || h->rate_hz > INT32_MAX)
        return problem_set(problem, ERROR_UNSUPPORTED,
                           "recording %s has a rate of %" PRIu64 " Hz in its header; rates from 1 "
                           "to 2147483647 Hz are read: write it again with the right rate",
                           file->path, h->rate_hz);
    if (h->container == SOUND_FLAC && h->bits != 8 && h->bits != 16 && h->bits != 24)
        return problem_set(problem, ERROR_UNSUPPORTED,
                           "recording %s is FLAC of %u bits; FLAC of 8, 16 and 24 bits is read: "
                           "convert it (ffmpeg -i IN.flac -c:a pcm_s32le OUT.wav)",
                           file->path, h->bits);
    if (!h->floats && h->frame_bytes > 0 && h->bits > 32)
        return problem_set(problem, ERROR_UNSUPPORTED,
                           "recording %s holds integers of %u bits; up to 32 are read: convert it "
                           "to 32-bit integers or floats",
                           file->path, h->bits);
    return 0;
}

static int refuse_unreadable(const struct recording_file *file, struct problem *problem)
{
    return problem_set(problem, ERROR_FORMAT,
                       "recording %s cannot be read: %s Give a WAV, W64, RF64, FLAC, AIFF, CAF or "
                       "AU file",
                       file->path, sf_strerror(NULL));
}

/* ---- opening ----------------------------------------------------------------------------- */

static int find_encoding(struct recording_file *file, struct problem *problem)
{
    const int subtype = file->info.format & SF_FORMAT_SUBMASK;
    const struct encoding *found = NULL;
    const bool mistaken =
        (file->info.format & SF_FORMAT_TYPEMASK) == SF_FORMAT_W64 && sound_is_w64_float(file->path);
    if (mistaken && subtype == SF_FORMAT_PCM_32)
        found = &mistaken_floats;
    else if (mistaken)
        return problem_set(problem, ERROR_UNSUPPORTED, "recording %s " SOUND_W64_FLOAT_ADVICE,
                           file->path);
    for (size_t i = 0; found == NULL && i < sizeof encodings / sizeof encodings[0]; i++)
        if (encodings[i].subtype == subtype)
            found = &encodings[i];
    if (found == NULL)
        return problem_set(problem, ERROR_UNSUPPORTED,
                           "recording %s holds compressed samples, which are not the signal as it "
                           "was measured; convert it to integer or float samples first",
                           file->path);
    file->format = found->format;
    file->words = subtype == SF_FORMAT_PCM_32;
    file->rounded = subtype == SF_FORMAT_DOUBLE;
    return 0;
}

static uint64_t expected_frames(const struct recording_file *file)
{
    const struct sound_header *h = &file->input.header;
    if (h->length == SOUND_LENGTH_SHORT || h->length == SOUND_LENGTH_WHOLE)
        return h->announced;
    if (h->length == SOUND_LENGTH_UNFINISHED)
        return h->held;
    return file->info.frames < SF_COUNT_MAX ? (uint64_t)file->info.frames : UINT64_MAX;
}

uint64_t recording_file_frames(const struct recording_file *file)
{
    return file->input.header.length == SOUND_LENGTH_SHORT ? file->input.header.held
                                                           : file->expected;
}

int recording_file_open(struct recording_file *file, const char *path, struct problem *problem)
{
    *file = (struct recording_file){.path = path, .input.fd = -1};
    const int failed = sound_input_file(&file->input, path);
    if (failed != 0)
        return problem_set(problem, ERROR_NO_FILE,
                           "recording %s cannot be read: %s; check the path and its permissions",
                           path, failed == ESPIPE ? "it is no regular file" : strerror(failed));
    int status = refuse_foreign(file, problem);
    if (status == 0)
        status = refuse_header(file, problem);
    if (status == 0 && (file->file = sound_input_open(&file->input, &file->info)) == NULL)
        status = refuse_unreadable(file, problem);
    if (status == 0)
        status = find_encoding(file, problem);
    if (status == 0 &&
        (file->info.samplerate <= 0 || file->info.channels <= 0 || file->info.frames <= 0))
        status =
            problem_set(problem, ERROR_FORMAT,
                        "recording %s is empty or damaged (%d Hz, %d channels, %lld frames)", path,
                        file->info.samplerate, file->info.channels, (long long)file->info.frames);
    if (status != 0) {
        recording_file_close(file);
        return status;
    }
    file->expected = expected_frames(file);
    return 0;
}

bool recording_file_rewind(struct recording_file *file)
{
    /* After an error libsndfile does not seek in a FLAC any more. */
    sf_close(file->file);
    file->file = sound_input_open(&file->input, &file->info);
    return file->file != NULL;
}

void recording_file_close(struct recording_file *file)
{
    if (file->file != NULL)
        sf_close(file->file);
    file->file = NULL;
    sound_input_close(&file->input);
}

/* ---- sentences --------------------------------------------------------------------------- */

const char *recording_length_text(uint64_t frames, double rate_hz, char *text, size_t bytes)
{
    char time[40];
    snprintf(text, bytes, "%" PRIu64 " frame%s (%s)", frames, frames == 1 ? "" : "s",
             quantity_print(DIMENSION_TIME, (double)frames / rate_hz, time, sizeof time));
    return text;
}

bool recording_file_note(const struct recording_file *file, char text[RECORDING_NOTE_BYTES])
{
    const struct sound_header *h = &file->input.header;
    char announced[64], held[64];
    recording_length_text(h->announced, file->info.samplerate, announced, sizeof announced);
    recording_length_text(h->held, file->info.samplerate, held, sizeof held);
    if (h->length == SOUND_LENGTH_SHORT)
        snprintf(text, RECORDING_NOTE_BYTES,
                 "the header of %s announces %s, and the file holds %s: the rest is missing",
                 file->path, announced, held);
    else if (h->length == SOUND_LENGTH_UNFINISHED && h->announced > 0)
        snprintf(text, RECORDING_NOTE_BYTES,
                 "the header of %s counts %s, and the file holds %s: its writer did not finish it, "
                 "or still writes; all of them are read, and convolvd --repair writes a copy with "
                 "a right header",
                 file->path, announced, held);
    else if (h->length == SOUND_LENGTH_UNFINISHED)
        snprintf(text, RECORDING_NOTE_BYTES,
                 "the header of %s counts no frames, and the file holds %s: its writer did not "
                 "finish it, or still writes; all of them are read, and convolvd --repair writes a "
                 "copy with a right header",
                 file->path, held);
    else
        return false;
    return true;
}
