/*
 * Source `file`: plays a recording (WAV, W64, RF64, FLAC, AIFF, CAF, AU) into a stream, once or in
 * a loop, in real time or as fast as the stream has room. libsndfile reads on the producer thread
 * of io/replay.h. Samples keep the width they have in the file, so an integer recording arrives bit
 * for bit.
 *
 * At each end of the recording the frames that came are compared with those that its header
 * announces (opening.h); what is missing is logged and reported to the stream. What its sidecar
 * says is invalid arrives flagged, with its cause (validity.h).
 *
 * A loop has no gap: the file's first frame follows its last, and frame numbers continue. The
 * capture times in the recording are unknown here; the source declares start of replay + n / rate.
 */
#include <inttypes.h>
#include <sndfile.h>
#include <stdlib.h>
#include <string.h>

#include "core/log.h"
#include "io/recording/opening.h"
#include "io/recording/recording.h"
#include "io/recording/validity.h"
#include "io/replay.h"
#include "io/rows.h"
#include "io/source.h"
#include "io/sources.h"

_Static_assert(__BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__, "samples are stored in host order");

struct player {
    struct recording_file recording;
    const char *path;
    const char *stream;
    uint32_t channels;
    double rate_hz;
    bool loop;
    uint32_t chunk_frames;
    void *samples; /* [chunk_frames][channels] of short, int or float, as libsndfile reads them */
    struct recording_validity validity;
    bool unfinished; /* its sidecar says that the writer died: the header's length proves nothing */

    /* producer thread */
    uint64_t frame;        /* of the file: the next one */
    uint64_t given;        /* frames returned since the start */
    uint32_t filled;       /* by the last fill: its frames are [given - filled, given) */
    uint64_t filled_at;    /* frame of the file that the last fill began with */
    uint32_t range;        /* the first of the sidecar that ends behind `frame` */
    bool ended, told;      /* nothing follows; a cut has been reported */
    char failure[80];      /* of libsndfile, in this pass; "": none */
    struct source_cut cut; /* not yet taken by the replay: missing > 0 */
};

int recording_probe(const char *path, double *rate_hz, uint32_t *channels,
                    struct sample_format *format, uint64_t *frames, struct problem *problem)
{
    struct recording_file file;
    const int status = recording_file_open(&file, path, problem);
    if (status != 0)
        return status;
    if (rate_hz != NULL)
        *rate_hz = file.info.samplerate;
    if (channels != NULL)
        *channels = (uint32_t)file.info.channels;
    if (format != NULL)
        *format = file.format;
    if (frames != NULL)
        *frames = recording_file_frames(&file);
    recording_file_close(&file);
    return 0;
}

/* ---- reading (producer thread) ----------------------------------------------------------- */

/* Reads up to `frames` frames from the file's current position; fewer at its end. */
static uint32_t read_frames(struct player *p, uint8_t *payload, uint32_t frames)
{
    size_t count = (size_t)frames * p->channels;
    sf_count_t got = 0;
    switch (p->recording.format.bytes) {
    case 1: { /* the top byte of 16 bits, in offset binary as in a WAV */
        short *values = p->samples;
        got = sf_readf_short(p->recording.file, values, frames);
        for (size_t i = 0; i < count; i++)
            payload[i] = (uint8_t)(((unsigned short)values[i] >> 8) ^ 0x80);
        break;
    }
    case 2:
        got = sf_readf_short(p->recording.file, p->samples, frames);
        memcpy(payload, p->samples, count * 2);
        break;
    case 3: { /* the top three bytes of 32 bits */
        int *values = p->samples;
        got = sf_readf_int(p->recording.file, values, frames);
        for (size_t i = 0; i < count; i++) {
            unsigned word = (unsigned)values[i];
            *payload++ = (uint8_t)(word >> 8);
            *payload++ = (uint8_t)(word >> 16);
            *payload++ = (uint8_t)(word >> 24);
        }
        break;
    }
    default:
        got = p->recording.words ? sf_readf_int(p->recording.file, p->samples, frames)
                                 : sf_readf_float(p->recording.file, p->samples, frames);
        memcpy(payload, p->samples, count * 4);
    }
    return got > 0 ? (uint32_t)got : 0;
}

/* Keeps libsndfile's reason: "Error : flac decoder lost sync." without what goes without saying. */
static void note_failure(struct player *p)
{
    static const char prefix[] = "Error : ";
    const char *text = sf_strerror(p->recording.file);
    if (strncmp(text, prefix, sizeof prefix - 1) == 0)
        text += sizeof prefix - 1;
    size_t length = strlen(text);
    length -= length > 0 && text[length - 1] == '.';
    snprintf(p->failure, sizeof p->failure, "%.*s", (int)length, text);
}

/* Compares the pass that has ended with what the header announces. */
static void end_pass(struct player *p)
{
    const uint64_t expected = p->recording.expected;
    const bool known = expected != UINT64_MAX;
    const uint64_t came = p->frame;
    char announced[64], there[64];
    recording_length_text(came, p->rate_hz, there, sizeof there);
    recording_length_text(known ? expected : 0, p->rate_hz, announced, sizeof announced);
    const bool whole = known && came >= expected;
    if (p->told || (whole && came == expected) || (!known && p->failure[0] == '\0'))
        return;
    p->told = true;
    if (whole) {
        log_warning("stream %s: the header of %s announces %s, and %s came; all of them are read",
                    p->stream, p->path, announced, there);
        return;
    }
    if (p->unfinished && p->failure[0] == '\0') {
        log_warning("stream %s: %s was not finished by its writer: its header claims %s in "
                    "advance, and %s came",
                    p->stream, p->path, announced, there);
        return;
    }
    struct source_cut *cut = &p->cut;
    const char *why = p->failure[0] != '\0' ? p->failure : "the file ends there";
    cut->missing = known ? expected - came : 1;
    cut->first = p->given;
    cut->until = known && !p->loop ? p->given + cut->missing : p->given;
    if (known)
        snprintf(cut->sentence, sizeof cut->sentence,
                 "recording %s announces %s, and %s came: %" PRIu64 " frames are missing (%s)",
                 p->path, announced, there, cut->missing, why);
    else
        snprintf(cut->sentence, sizeof cut->sentence,
                 "recording %s is damaged behind %s: what follows is missing (%s)", p->path, there,
                 why);
}

/* How many of the next `frames` frames one chunk can flag. */
static uint32_t frames_to_flag(const struct player *p, uint32_t frames)
{
    const struct recording_validity *v = &p->validity;
    const uint32_t last = p->range + REPLAY_RANGES_MAX;
    if (last < v->range_count && v->ranges[last].from > p->frame &&
        v->ranges[last].from - p->frame < frames)
        return (uint32_t)(v->ranges[last].from - p->frame);
    return frames;
}

/* Returns what there is up to the end of the file, where a loop begins again with the next call. */
static uint32_t player_fill(void *context, uint8_t *payload, uint32_t frames)
{
    struct player *p = context;
    const struct recording_validity *v = &p->validity;
    while (p->range < v->range_count && v->ranges[p->range].until <= p->frame)
        p->range++;
    frames = frames_to_flag(p, frames);
    uint32_t got = p->ended ? 0 : read_frames(p, payload, frames);
    p->filled_at = p->frame;
    p->frame += got;
    p->given += got;
    if (sf_error(p->recording.file) != SF_ERR_NO_ERROR && p->recording.expected > p->frame)
        note_failure(p);
    if (got < frames && !p->ended) {
        end_pass(p);
        /* A file that yields nothing right after it was rewound ends the stream. */
        p->ended = !p->loop || p->frame == 0 || !recording_file_rewind(&p->recording);
        p->frame = 0;
        p->range = 0;
        p->failure[0] = '\0';
        if (got == 0 && !p->ended)
            return player_fill(context, payload, frames);
    }
    p->filled = got;
    return got;
}

/* The sidecar's ranges in the frames of the last fill, as the stream numbers them. */
static void player_flags(void *context, struct replay_flags *flags)
{
    struct player *p = context;
    const struct recording_validity *v = &p->validity;
    const uint64_t from = p->filled_at, until = from + p->filled;
    flags->count = 0;
    for (uint32_t i = 0; i < v->range_count && v->ranges[i].from < until; i++) {
        const struct invalid_range *range = &v->ranges[i];
        if (range->until <= from || flags->count == REPLAY_RANGES_MAX)
            continue;
        const uint64_t first = range->from > from ? range->from : from;
        const uint64_t end = range->until < until ? range->until : until;
        const uint64_t number = p->given - p->filled - from; /* of the file's frame 0 */
        flags->invalid[flags->count++] =
            (struct invalid_range){first + number, end + number, range->cause};
    }
    flags->is_cut = p->cut.missing > 0;
    flags->cut = p->cut;
    p->cut.missing = 0;
}

static void player_release(void *context)
{
    struct player *p = context;
    recording_file_close(&p->recording);
    recording_validity_free(&p->validity);
    free(p->samples);
    free(p);
}

/* ---- opening ----------------------------------------------------------------------------- */

static int player_check(const struct player *p, const struct source_options *options,
                        struct problem *problem)
{
    const struct recording_file *file = &p->recording;
    if ((uint32_t)file->info.channels != options->channels)
        return problem_set(problem, ERROR_CONFIG,
                           "stream %s: recording %s has %d channels, not %u; write `channels = %d`",
                           p->stream, p->path, file->info.channels, options->channels,
                           file->info.channels);
    if (memcmp(&file->format, &options->format, sizeof options->format) != 0) {
        char has[24], wanted[24];
        return problem_set(problem, ERROR_CONFIG,
                           "stream %s: recording %s holds %s samples, not %s; write `format = %s`",
                           p->stream, p->path, sample_format_name(&file->format, has),
                           sample_format_name(&options->format, wanted), has);
    }
    return 0;
}

/* The sidecar, if there is one that is wanted and fits. */
static int load_validity(const char *path, bool ignore, uint64_t frames,
                         struct recording_validity *validity, struct problem *problem)
{
    *validity = (struct recording_validity){0};
    return ignore ? 0 : recording_validity_load(path, frames, validity, problem);
}

static void log_opened(const struct player *p)
{
    const struct recording_validity *v = &p->validity;
    char note[RECORDING_NOTE_BYTES];
    if (p->recording.rounded)
        log_notice("stream %s: the 64-bit samples of %s are rounded to 32-bit float", p->stream,
                   p->path);
    if (!p->unfinished && recording_file_note(&p->recording, note))
        log_warning("stream %s: %s", p->stream, note);
    if (v->fits)
        log_info("stream %s: %s holds epoch %" PRIu64 " of a stream from frame %" PRIu64
                 " on; its sidecar flags %" PRIu64 " frames in %u ranges as invalid and has %u "
                 "marks, which the replay repeats",
                 p->stream, p->path, v->epoch, v->first_frame, v->invalid_frames, v->range_count,
                 v->mark_count);
    else if (v->found)
        log_warning("stream %s: the sidecar of %s counts %" PRIu64 " frames, and the file holds "
                    "%" PRIu64 ": it is not used; convolvd --repair makes both agree in a copy",
                    p->stream, p->path, v->counted, recording_file_frames(&p->recording));
}

static int open_player(struct player *p, const struct source_options *options,
                       struct problem *problem)
{
    const struct file_options *own = options->own;
    int status = recording_file_open(&p->recording, p->path, problem);
    if (status != 0)
        return problem_prefix(problem, status, "stream %s", options->stream);
    status = player_check(p, options, problem);
    if (status == 0)
        status = load_validity(p->path, own->ignore_validity, recording_file_frames(&p->recording),
                               &p->validity, problem);
    if (status != 0)
        return status;
    p->unfinished = p->validity.found && !p->validity.complete &&
                    p->recording.input.header.length == SOUND_LENGTH_SHORT;
    p->channels = (uint32_t)p->recording.info.channels;
    p->chunk_frames = replay_chunk_frames(options->frame_bytes);
    p->samples = calloc((size_t)p->chunk_frames * p->channels, sizeof(float));
    if (p->samples == NULL)
        return problem_set(problem, ERROR_MEMORY, "stream %s: out of memory", options->stream);
    log_opened(p);
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
    p->recording.input.fd = -1;
    p->stream = options->stream;
    p->path = own->path;
    p->loop = own->loop;
    p->rate_hz = options->rate_hz;
    const int status = open_player(p, options, problem);
    if (status != 0) {
        player_release(p);
        return status;
    }
    struct replay_spec replay = {
        .stream = options->stream,
        .rate_hz = options->rate_hz,
        .frame_bytes = options->frame_bytes,
        .paced = options->paced,
        .all_frames = own->loop || p->recording.expected == UINT64_MAX ? 0 : p->recording.expected,
        .chunk_frames = p->chunk_frames,
        .fill = player_fill,
        .short_chunks = true,
        .flags = player_flags,
        .marks = p->validity.marks,
        .mark_count = p->validity.mark_count,
        .release = player_release,
        .context = p,
    };
    return replay_open(&replay, environment, host, out, problem);
}

/* ---- options ----------------------------------------------------------------------------- */

static const struct option_choice validities[] = {{"sidecar", false}, {"ignore", true}, {NULL, 0}};

static const struct option_row rows[] = {
    SOURCE_ROW_PATH(struct file_options, path),
    SOURCE_ROW_PACE,
    {.key = "loop",
     .type = OPTION_BOOLEAN,
     .fallback = "no",
     OPTION_FIELD(struct file_options, loop),
     .sentence = "Whether the recording begins again at its end, without a gap, instead of ending "
                 "the stream."},
    {.key = "validity",
     .type = OPTION_CHOICE,
     .fallback = "sidecar",
     .choices = validities,
     OPTION_FIELD(struct file_options, ignore_validity),
     .sentence = "Where the sidecar RECORDING.json counts the frames of the file: whether its "
                 "invalid ranges and marks apply to the replay (sidecar) or not (ignore)."},
};

static int file_probe(const struct source_options *options, struct source_facts *facts,
                      struct problem *problem)
{
    const struct file_options *own = options->own;
    const int status = recording_probe(own->path, &facts->rate_hz, &facts->channels, &facts->format,
                                       &facts->frames, problem);
    if (own->loop)
        facts->frames = UINT64_MAX;
    return status;
}

/* The recording's length, and where header or sidecar disagree with it. */
static void file_report(const struct source_options *options, FILE *out)
{
    const struct file_options *own = options->own;
    struct recording_file file;
    struct recording_validity validity;
    struct problem problem;
    char note[RECORDING_NOTE_BYTES], length[64];
    if (recording_file_open(&file, own->path, &problem) != 0)
        return; /* the probe reported it */
    const uint64_t frames = recording_file_frames(&file);
    if (frames != UINT64_MAX)
        fprintf(out, "  recording        %s%s\n",
                recording_length_text(frames, options->rate_hz, length, sizeof length),
                file.input.header.container == SOUND_FLAC ? " by its header" : "");
    else
        fprintf(out, "  recording        of a length that its header does not say\n");
    if (recording_file_note(&file, note))
        fprintf(out, "  warning          %s\n", note);
    if (load_validity(own->path, own->ignore_validity, frames, &validity, &problem) != 0)
        fprintf(out, "  warning          %s\n", problem.text);
    else if (validity.fits)
        fprintf(out,
                "  sidecar          %" PRIu64 " frames in %u ranges are invalid and %u marks are "
                "repeated; validity = ignore leaves them out\n",
                validity.invalid_frames, validity.range_count, validity.mark_count);
    else if (validity.found)
        fprintf(out,
                "  warning          the sidecar counts %" PRIu64 " frames and is not used; "
                "convolvd --repair makes both agree in a copy\n",
                validity.counted);
    recording_validity_free(&validity);
    recording_file_close(&file);
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
    .report = file_report,
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
