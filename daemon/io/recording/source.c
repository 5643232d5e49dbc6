/*
 * Source `file`: plays a recording (WAV, W64, RF64, FLAC) into a stream, once or in a loop, in real
 * time or as fast as the stream has room. libsndfile reads on the producer thread of io/replay.h.
 * Samples keep the width they have in the file, so an integer recording arrives bit for bit.
 *
 * A loop has no gap: the file's first frame follows its last, and frame numbers continue. The
 * capture times in the recording are unknown here; the source declares start of replay + n / rate.
 */
#include <sndfile.h>
#include <stdlib.h>
#include <string.h>

#include "core/log.h"
#include "io/recording/recording.h"
#include "io/replay.h"
#include "io/rows.h"
#include "io/source.h"
#include "io/sources.h"
#include "signal/sound_file.h"

_Static_assert(__BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__, "samples are stored in host order");

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

struct player {
    SNDFILE *file;
    const char *path;
    const char *stream;
    struct sample_format format;
    bool words; /* 32-bit samples are copied unchanged */
    uint32_t channels;
    bool loop;
    uint32_t chunk_frames;
    void *samples; /* [chunk_frames][channels] of short, int or float, as libsndfile reads them */
};

/* Opens a recording and finds its encoding. On success the caller closes *file. */
static int open_file(const char *path, SNDFILE **file, SF_INFO *info,
                     const struct encoding **encoding, struct problem *problem)
{
    memset(info, 0, sizeof *info);
    *file = sf_open(path, SFM_READ, info);
    if (*file == NULL)
        return problem_set(problem, sf_error(NULL) == SF_ERR_SYSTEM ? ERROR_NO_FILE : ERROR_FORMAT,
                           "recording %s cannot be read: %s Give a WAV, W64, RF64 or FLAC file",
                           path, sf_strerror(NULL));
    bool mistaken =
        (info->format & SF_FORMAT_TYPEMASK) == SF_FORMAT_W64 && sound_is_w64_float(path);
    if (mistaken && (info->format & SF_FORMAT_SUBMASK) == SF_FORMAT_PCM_32) {
        *encoding = &mistaken_floats;
        return 0;
    }
    for (size_t i = 0; !mistaken && i < sizeof encodings / sizeof encodings[0]; i++) {
        if (encodings[i].subtype == (info->format & SF_FORMAT_SUBMASK)) {
            *encoding = &encodings[i];
            return 0;
        }
    }
    sf_close(*file);
    *file = NULL;
    if (mistaken)
        return problem_set(problem, ERROR_UNSUPPORTED, "recording %s " SOUND_W64_FLOAT_ADVICE,
                           path);
    return problem_set(problem, ERROR_UNSUPPORTED,
                       "recording %s holds compressed samples, which are not the signal as it was "
                       "measured; convert it to integer or float samples first",
                       path);
}

int recording_probe(const char *path, double *rate_hz, uint32_t *channels,
                    struct sample_format *format, uint64_t *frames, struct problem *problem)
{
    SNDFILE *file;
    SF_INFO info;
    const struct encoding *encoding;
    int status = open_file(path, &file, &info, &encoding, problem);
    if (status != 0)
        return status;
    sf_close(file);
    if (info.samplerate <= 0 || info.channels <= 0 || info.frames <= 0)
        return problem_set(problem, ERROR_FORMAT,
                           "recording %s is empty or damaged (%d Hz, %d channels, %lld frames)",
                           path, info.samplerate, info.channels, (long long)info.frames);
    if (rate_hz != NULL)
        *rate_hz = info.samplerate;
    if (channels != NULL)
        *channels = (uint32_t)info.channels;
    if (format != NULL)
        *format = encoding->format;
    if (frames != NULL)
        *frames = (uint64_t)info.frames;
    return 0;
}

/* ---- reading (producer thread) ----------------------------------------------------------- */

/* Reads up to `frames` frames from the file's current position; fewer at its end. */
static uint32_t read_frames(struct player *p, uint8_t *payload, uint32_t frames)
{
    size_t count = (size_t)frames * p->channels;
    sf_count_t got = 0;
    switch (p->format.bytes) {
    case 1: { /* the top byte of 16 bits, in offset binary as in a WAV */
        short *values = p->samples;
        got = sf_readf_short(p->file, values, frames);
        for (size_t i = 0; i < count; i++)
            payload[i] = (uint8_t)(((unsigned short)values[i] >> 8) ^ 0x80);
        break;
    }
    case 2:
        got = sf_readf_short(p->file, p->samples, frames);
        memcpy(payload, p->samples, count * 2);
        break;
    case 3: { /* the top three bytes of 32 bits */
        int *values = p->samples;
        got = sf_readf_int(p->file, values, frames);
        for (size_t i = 0; i < count; i++) {
            unsigned word = (unsigned)values[i];
            *payload++ = (uint8_t)(word >> 8);
            *payload++ = (uint8_t)(word >> 16);
            *payload++ = (uint8_t)(word >> 24);
        }
        break;
    }
    default:
        got = p->words ? sf_readf_int(p->file, p->samples, frames)
                       : sf_readf_float(p->file, p->samples, frames);
        memcpy(payload, p->samples, count * 4);
    }
    return got > 0 ? (uint32_t)got : 0;
}

static uint32_t player_fill(void *context, uint8_t *payload, uint32_t frames)
{
    struct player *p = context;
    size_t frame_bytes = (size_t)p->format.bytes * p->channels;
    uint32_t filled = 0;
    bool rewound = false;
    while (filled < frames) {
        uint32_t got = read_frames(p, payload + filled * frame_bytes, frames - filled);
        filled += got;
        if (got > 0) {
            rewound = false;
            continue;
        }
        if (sf_error(p->file) != SF_ERR_NO_ERROR)
            log_error("stream %s: reading %s failed: %s", p->stream, p->path, sf_strerror(p->file));
        /* Stop when the file yields nothing right after rewinding. */
        if (!p->loop || rewound || sf_seek(p->file, 0, SEEK_SET) != 0)
            break;
        rewound = true;
    }
    return filled;
}

static void player_release(void *context)
{
    struct player *p = context;
    if (p->file != NULL)
        sf_close(p->file);
    free(p->samples);
    free(p);
}

/* ---- opening ----------------------------------------------------------------------------- */

static int player_check(const struct player *p, const SF_INFO *info,
                        const struct encoding *encoding, const struct source_options *options,
                        struct problem *problem)
{
    if ((uint32_t)info->channels != options->channels)
        return problem_set(problem, ERROR_CONFIG,
                           "stream %s: recording %s has %d channels, not %u; write `channels = %d`",
                           p->stream, p->path, info->channels, options->channels, info->channels);
    if (memcmp(&encoding->format, &options->format, sizeof options->format) != 0) {
        char has[24], wanted[24];
        return problem_set(problem, ERROR_CONFIG,
                           "stream %s: recording %s holds %s samples, not %s; write `format = %s`",
                           p->stream, p->path, sample_format_name(&encoding->format, has),
                           sample_format_name(&options->format, wanted), has);
    }
    if (info->frames <= 0)
        return problem_set(problem, ERROR_FORMAT, "stream %s: recording %s holds no frames",
                           p->stream, p->path);
    return 0;
}

static int recording_open(const struct source_options *options,
                          const struct io_environment *environment, const struct source_host *host,
                          struct source **out, struct problem *problem)
{
    const struct file_options *own = options->own;
    struct player *p = calloc(1, sizeof *p);
    if (p == NULL)
        return problem_set(problem, ERROR_MEMORY, "stream %s: out of memory", options->stream);
    p->stream = options->stream;
    p->path = own->path;
    p->loop = own->loop;
    SF_INFO info;
    const struct encoding *encoding;
    int status = open_file(p->path, &p->file, &info, &encoding, problem);
    if (status != 0) {
        player_release(p);
        return problem_prefix(problem, status, "stream %s", options->stream);
    }
    status = player_check(p, &info, encoding, options, problem);
    if (status != 0) {
        player_release(p);
        return status;
    }
    if (encoding->subtype == SF_FORMAT_DOUBLE)
        log_notice("stream %s: the 64-bit samples of %s are rounded to 32-bit float", p->stream,
                   p->path);
    p->format = encoding->format;
    p->words = encoding->subtype == SF_FORMAT_PCM_32;
    p->channels = (uint32_t)info.channels;
    p->chunk_frames = replay_chunk_frames(options->frame_bytes);
    p->samples = calloc((size_t)p->chunk_frames * p->channels, sizeof(float));
    if (p->samples == NULL) {
        player_release(p);
        return problem_set(problem, ERROR_MEMORY, "stream %s: out of memory", options->stream);
    }
    struct replay_spec replay = {
        .stream = options->stream,
        .rate_hz = options->rate_hz,
        .frame_bytes = options->frame_bytes,
        .paced = options->paced,
        .all_frames = own->loop || info.frames < 0 ? 0 : (uint64_t)info.frames,
        .chunk_frames = p->chunk_frames,
        .fill = player_fill,
        .release = player_release,
        .context = p,
    };
    return replay_open(&replay, environment, host, out, problem);
}

/* ---- options ----------------------------------------------------------------------------- */

static const struct option_row rows[] = {
    SOURCE_ROW_PATH(struct file_options, path),
    SOURCE_ROW_PACE,
    {.key = "loop",
     .type = OPTION_BOOLEAN,
     .fallback = "no",
     OPTION_FIELD(struct file_options, loop),
     .sentence = "Whether the recording begins again at its end, without a gap, instead of ending "
                 "the stream."},
};

static int file_probe(const struct source_options *options, struct source_facts *facts,
                      struct problem *problem)
{
    const struct file_options *own = options->own;
    return recording_probe(own->path, &facts->rate_hz, &facts->channels, &facts->format,
                           &facts->frames, problem);
}

static const char *file_describe(const struct source_options *options, char *text, size_t bytes)
{
    const struct file_options *own = options->own;
    snprintf(text, bytes, " %s", own->path);
    return text;
}

static uint64_t file_memory(const struct source_options *options)
{
    return replay_memory(options->frame_bytes) +
           (uint64_t)replay_chunk_frames(options->frame_bytes) * options->channels * sizeof(float);
}

const struct source_ops source_file = {
    .name = "file",
    .sentence = "a recording",
    .loss = REPLAY_LOSS,
    .options = rows,
    .option_count = sizeof rows / sizeof rows[0],
    .options_bytes = sizeof(struct file_options),
    .probe = file_probe,
    .describe = file_describe,
    .live = false,
    .loss_detectable = true,
    .memory = file_memory,
    .open = recording_open,
    .arm = replay_arm,
    .start = replay_start,
    .resume = replay_resume,
    .stop = replay_stop,
    .close = replay_close,
    .ledger = replay_ledger,
    .port = replay_port,
    .progress = replay_progress,
    .working = replay_working,
};
