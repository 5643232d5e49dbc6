/*
 * Options of the sink `recording`: its keys, the checks of what a container can hold and of paths
 * that clash, and what `--check` reports. Runs on the thread that builds the configuration.
 */
#include <math.h>
#include <string.h>
#include <strings.h>

#include "io/recording/files.h"
#include "io/recording/recording.h"
#include "io/recording/writer.h"
#include "io/rows.h"
#include "io/sinks.h"
#include "io/sources.h"

static const struct option_choice containers[] = {{"wav", 0}, {"w64", 0}, {"rf64", 0}, {NULL, 0}};
static const struct option_choice starts[] = {{"now", false}, {"command", true}, {NULL, 0}};

static const uint64_t queue_bytes_default = 64 << 20;

/* The queue holds at least this many blocks; with fewer, a stream that waits for room could wait
 * for ever. */
enum { BLOCKS_MIN = 4 };

static int parse_sync(const struct option_row *row, const char *text, struct option_value *value,
                      struct problem *problem)
{
    static const struct option_row interval = {
        .key = "sync", .type = OPTION_TIME, .minimum = 0.01, .maximum = 86400};
    (void)row;
    if (strcmp(text, "never") == 0) {
        value->integer = SYNC_NEVER;
        return 0;
    }
    if (strcmp(text, "rotate") == 0) {
        value->integer = SYNC_ROTATE;
        return 0;
    }
    if (strpbrk(text, "0123456789") == NULL)
        return problem_set(problem, ERROR_CONFIG,
                           "`sync = %.*s` is not known; write never, rotate, or a time as 10 s",
                           OPTION_QUOTE, text);
    return option_parse(&interval, text, value, problem);
}

const struct option_row recording_rows[RECORDING_ROWS] = {
    SINK_ROW_PATH(struct recording_options, path),
    {.key = "container",
     .type = OPTION_CHOICE,
     .fallback = "wav",
     .choices = containers,
     OPTION_FIELD(struct recording_options, container),
     .sentence = "wav (becomes RF64 past 4 GiB), w64 or rf64."},
    SINK_ROW_RECORD(struct recording_options, input),
    {.key = "start",
     .type = OPTION_CHOICE,
     .fallback = "now",
     .choices = starts,
     OPTION_FIELD(struct recording_options, start_by_command),
     .sentence = "When recording begins: with the first frame, or once the command record-start "
                 "asks for it."},
    {.key = "rotate",
     .type = OPTION_ROTATION,
     .fallback_words = "never",
     OPTION_FIELD(struct recording_options, rotate),
     .sentence = "Begin a new file after this time or size, at an exact frame and without a gap."},
    {.key = "keep",
     .type = OPTION_COUNT,
     .minimum = 1,
     .maximum = 1e6,
     .fallback_words = "all",
     OPTION_FIELD(struct recording_options, keep),
     .sentence = "How many files of this sink to keep; the oldest are deleted."},
    {.key = "min free",
     .type = OPTION_MEMORY,
     .maximum = 1125899906842624.0,
     .fallback = "64 MiB",
     .running = true,
     OPTION_FIELD(struct recording_options, min_free_bytes),
     .sentence = SINK_SENTENCE_MIN_FREE},
    SINK_ROW_FLUSH(struct recording_options, flush_ns),
    {.key = "sync",
     .type = OPTION_OWN,
     .words = "never, rotate or time",
     .parse = parse_sync,
     .fallback = "rotate",
     OPTION_FIELD(struct recording_options, sync_ns),
     .sentence = "When the writer waits until the disk holds the recording: never, at the end of "
                 "each file, or at least this often too. What it waited for survives a power cut."},
    SINK_ROW_QUEUE(struct recording_options, queue_bytes),
};

/* ---- what can be recorded ---------------------------------------------------------------- */

/* The format in which a file holds raw input: the input's width, with offset binary, big endian and
 * spare bits replaced by what a container can hold. The normalised values stay the same. */
static struct sample_format raw_file_format(const struct sample_format *input)
{
    struct sample_format format = {SAMPLE_SIGNED, input->bytes, (uint8_t)(8 * input->bytes), false,
                                   false};
    if (input->kind == SAMPLE_FLOAT)
        format.kind = SAMPLE_FLOAT;
    else if (input->bytes == 1)
        format.kind = SAMPLE_UNSIGNED;
    return format;
}

int recording_spec(const struct sink_options *options, struct container_spec *spec,
                   uint64_t *frames_per_file, struct problem *problem)
{
    const struct sink_stream *stream = &options->stream;
    const struct recording_options *own = options->own;
    double rate_hz = options->raw ? stream->input_rate_hz : stream->rate_hz;
    uint32_t channels = options->raw ? stream->input_channels : stream->channels;
    *spec = (struct container_spec){
        .channels = channels,
        .format = options->raw ? raw_file_format(&stream->input_format) : options->format,
    };
    if (own->container == NULL || container_parse(own->container, &spec->container) != 0)
        return problem_set(problem, ERROR_CONFIG,
                           "container \"%s\" is not known; write wav, rf64 or w64",
                           own->container != NULL ? own->container : "");
    if (!container_format_valid(&spec->format)) {
        char name[24];
        return problem_set(
            problem, ERROR_CONFIG,
            "a recording cannot hold %s samples; write u8, s16le, s24le, s32le or f32le",
            sample_format_name(&spec->format, name));
    }
    if (!(rate_hz >= 1.0 && rate_hz <= INT32_MAX) || rate_hz != nearbyint(rate_hz))
        return problem_set(
            problem, ERROR_CONFIG,
            "a recording cannot hold a rate of %.17g Hz: its header has whole numbers "
            "from 1 to 2147483647 Hz; choose such a rate or send by RTP",
            rate_hz);
    spec->rate_hz = (uint32_t)rate_hz;
    uint64_t frame_bytes = (uint64_t)channels * spec->format.bytes;
    if (channels < 1 || frame_bytes > UINT16_MAX)
        return problem_set(
            problem, ERROR_CONFIG,
            "a recording cannot hold %u channels of %u bytes: a frame has at most 65535 "
            "bytes; choose a narrower format or fewer channels",
            channels, spec->format.bytes);
    if (!options->raw && !(options->full_scale > 0.0 && isfinite(options->full_scale)))
        return problem_set(problem, ERROR_CONFIG, "full scale %g of a recording: write one above 0",
                           options->full_scale);
    *frames_per_file = UINT64_MAX;
    if (own->rotate_ns > 0) {
        double frames = round((double)own->rotate_ns * rate_hz / 1e9);
        *frames_per_file = frames < 1.0 ? 0 : (uint64_t)frames;
    }
    if (own->rotate_bytes > 0) {
        uint64_t header = container_header_bytes(spec) + 8; /* and padding */
        uint64_t bytes = own->rotate_bytes > header ? own->rotate_bytes - header : 0;
        if (bytes / frame_bytes < *frames_per_file)
            *frames_per_file = bytes / frame_bytes;
    }
    if (*frames_per_file == 0)
        return problem_set(
            problem, ERROR_CONFIG,
            "`rotate` leaves no room for a single frame of %llu bytes; write a longer "
            "time or a larger size",
            (unsigned long long)frame_bytes);
    return 0;
}

int recording_check(const struct sink_options *options, struct problem *problem)
{
    struct container_spec spec;
    uint64_t frames_per_file;
    return recording_spec(options, &spec, &frames_per_file, problem);
}

uint64_t recording_queue_bytes(const struct sink_options *options)
{
    const struct recording_options *own = options->own;
    const uint64_t wanted = own->queue_bytes > 0 ? own->queue_bytes : queue_bytes_default;
    const uint64_t least = BLOCKS_MIN * options->block_bytes;
    return wanted > least ? wanted : least;
}

uint64_t recording_sink_memory(const struct sink_options *options)
{
    return recording_queue_bytes(options) + RECORDING_BUFFER_BYTES;
}

/* ---- the driver's checks and report ------------------------------------------------------ */

/* Reports what a header cannot hold, then what recording_check refuses. */
static void check_header(const struct option_check *check, const struct sink_options *options)
{
    const struct recording_options *own = options->own;
    const struct sink_stream *stream = &options->stream;
    const double rate_hz = options->raw ? stream->input_rate_hz : stream->rate_hz;
    const uint32_t channels = options->raw ? stream->input_channels : stream->channels;
    char rate[40];
    snprintf(rate, sizeof rate, "%.15g Hz", rate_hz);
    if (rate_hz != nearbyint(rate_hz) || rate_hz > 2147483647.0) {
        option_error(check, "container",
                     "a %s recording holds rates in whole Hz up to 2147483647 Hz, not %s; write "
                     "type = rtp for this stream, or record a stream whose `rate` (over its "
                     "`decimate`) fits",
                     own->container, rate);
        return;
    }
    double bytes_per_second = rate_hz * (double)((uint64_t)channels * options->format.bytes);
    if (bytes_per_second > 4294967295.0) {
        option_error(
            check, "container",
            "a %s recording holds up to 4294967295 bytes a second, not %.0f (%u channels of %u "
            "bytes at %s); write a narrower `format`, or record fewer channels",
            own->container, bytes_per_second, channels, options->format.bytes, rate);
        return;
    }
    struct problem problem;
    if (recording_check(options, &problem) != 0)
        option_error(check, "container", "sink %s: %s", options->name, problem.text);
}

/* The path's suffix chooses the container where the key does not, and is no other format's. */
static void check_suffix(const struct option_check *check, struct recording_options *own)
{
    static const char *const others[] = {".flac", ".npy", ".npz", ".aiff", ".aif",   ".aifc", ".au",
                                         ".caf",  ".mp3", ".ogg", ".opus", ".csv",   ".txt",  ".h5",
                                         ".hdf5", ".mat", ".raw", ".bin",  ".tradb", ".pridb"};
    const char *dot = own->path != NULL ? strrchr(own->path, '.') : NULL;
    if (dot == NULL)
        return;
    const bool given = option_given(check, "container");
    const bool w64 = strcasecmp(dot, ".w64") == 0, rf64 = strcasecmp(dot, ".rf64") == 0;
    if (!given && (w64 || rf64))
        own->container = w64 ? "w64" : "rf64";
    bool other = given && w64 != (strcmp(own->container, "w64") == 0) &&
                 (w64 || rf64 || strcasecmp(dot, ".wav") == 0);
    for (size_t i = 0; i < sizeof others / sizeof others[0]; i++)
        other = other || strcasecmp(dot, others[i]) == 0;
    if (other)
        option_error(check, "path",
                     "a recording is written as %s, which is not what `%s` is called; write a "
                     "path that ends in .%s",
                     own->container, own->path, own->container);
}

/* Another user may check the configuration than the one who runs the daemon: what this one cannot
 * write is no error yet. */
static void check_path(const struct option_check *check, const struct sink_options *options)
{
    const struct recording_options *own = options->own;
    struct problem problem;
    int status = own->path != NULL ? recording_files_check(options, &problem) : 0;
    if (status == ERROR_SYSTEM)
        option_warning(check, "path", "%s", problem.text);
    else if (status != 0)
        option_error(check, "path", "%s", problem.text);
}

void recording_sink_check(const struct option_check *check, const struct daemon_facts *facts,
                          const struct stream_facts *stream, struct sink_options *options)
{
    (void)facts;
    struct recording_options *own = options->own;
    options->raw = own->input;
    if (own->rotate != NULL && own->rotate->dimension == DIMENSION_TIME)
        own->rotate_ns = own->rotate->integer;
    else if (own->rotate != NULL)
        own->rotate_bytes = (uint64_t)own->rotate->integer;
    if (own->keep > 0 && own->rotate == NULL)
        option_error(check, "keep",
                     "`keep` counts the files of a rotation; write `rotate` too, as rotate = 10 "
                     "min, or remove it");
    if (options->raw) {
        if (option_given(check, "format"))
            option_error(check, "format",
                         "`record = input` keeps the format of the source; remove `format`");
        options->format = options->stream.input_format;
        if (stream->upstream != NULL)
            option_warning(check, "record",
                           "the input of stream %s is the output of stream %s; record that instead",
                           stream->name, stream->upstream);
    }
    check_suffix(check, own);
    check_header(check, options);
    check_path(check, options);
}

static const char *path_of(const struct sink_section *section)
{
    const struct recording_options *own =
        section->driver == &sink_recording ? section->options->own : NULL;
    return own != NULL ? own->path : NULL;
}

/* Refuses a recording that would overwrite another one, or a file that a stream reads. */
void recording_sink_check_all(const struct driver_sections *all, uint32_t self)
{
    const struct sink_section *section = &all->sinks[self];
    const char *path = path_of(section);
    if (path == NULL)
        return;
    for (uint32_t i = 0; i < self; i++) {
        const char *other = path_of(&all->sinks[i]);
        if (other == NULL || strcmp(path, other) != 0)
            continue;
        option_error(&section->check, "path",
                     "sinks %s and %s have one destination, `%s`; write another path for one of "
                     "them",
                     all->sinks[i].check.section, section->check.section,
                     section->check.written(section->check.context, "path")->text);
        break;
    }
    for (uint32_t s = 0; s < all->source_count; s++) {
        const struct file_options *read =
            all->sources[s].driver == &source_file ? all->sources[s].options->own : NULL;
        if (read != NULL && read->path != NULL && strcmp(read->path, path) == 0)
            option_error(&section->check, "path",
                         "sink %s would overwrite `%s`, which stream %s reads; write another path",
                         section->check.section, path, all->sources[s].check.section);
    }
}

void recording_sink_report(const struct sink_options *options, double bytes_per_second, FILE *out)
{
    const struct recording_options *own = options->own;
    char format[24], each_text[48], all_text[48];
    fprintf(out, "recording %s, %s%s\n", own->path, sample_format_name(&options->format, format),
            options->raw ? ", the raw input" : "");
    sink_report_bytes(bytes_per_second, "", out);
    sink_report_full_scale(options, out);
    if (own->keep == 0)
        return;
    double each = own->rotate_bytes > 0 ? (double)own->rotate_bytes
                                        : (double)own->rotate_ns * 1e-9 * bytes_per_second;
    fprintf(out, "%19skeeps %u files of %s: %s\n", "", own->keep,
            quantity_print(DIMENSION_MEMORY, each, each_text, sizeof each_text),
            quantity_print(DIMENSION_MEMORY, each * own->keep, all_text, sizeof all_text));
}
