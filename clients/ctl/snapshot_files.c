/* Files of a snapshot: see snapshot_files.h. */
#include "clients/ctl/snapshot_files.h"

#include <errno.h>
#include <fcntl.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include <sndfile.h>

#include "clients/tools/npy.h"
#include "core/clock.h"
#include "stream/packet.h"

enum { PATH_BYTES = SNAPSHOT_PATH_BYTES + 16 };

enum file { FILE_INPUT, FILE_OUTPUT, FILE_SIDECAR, FILES };

static void path_of(const struct snapshot_options *options, enum file file, char path[PATH_BYTES])
{
    static const char *const endings[2][FILES] = {{"-input.npy", "-output.npy", ".json"},
                                                  {"-input.wav", "-output.wav", ".json"}};
    snprintf(path, PATH_BYTES, "%s%s", options->stem, endings[options->wav][file]);
}

int snapshot_files_free(const struct snapshot_options *options, struct problem *problem)
{
    char path[PATH_BYTES];
    for (enum file file = 0; file < FILES; file++) {
        path_of(options, file, path);
        if (access(path, F_OK) == 0)
            return problem_set(problem, ERROR_NO_FILE,
                               "%s exists: name another file, --out NAME.npy", path);
    }
    return 0;
}

/* ---- the sidecar ------------------------------------------------------------------------- */

/* UTC to the nanosecond; null: unknown. */
static json_t *time_json(int64_t ns)
{
    const time_t seconds = (time_t)(ns / NS_PER_SECOND);
    struct tm utc;
    char date[32], text[64];
    if (ns <= 0 || gmtime_r(&seconds, &utc) == NULL)
        return json_null();
    strftime(date, sizeof date, "%Y-%m-%dT%H:%M:%S", &utc);
    snprintf(text, sizeof text, "%s.%09dZ", date, (int)(ns % NS_PER_SECOND));
    return json_string(text);
}

/* A range and cause each, as in the sidecars of recordings. */
static json_t *ranges_json(const struct gather_side *side)
{
    json_t *list = json_array();
    for (uint32_t i = 0; i < side->range_count; i++) {
        const struct gather_range *range = &side->ranges[i];
        for (int cause = 0; cause <= INVALID_CAUSES; cause++) {
            if ((range->causes >> cause & 1) == 0)
                continue;
            const char *name =
                cause < INVALID_CAUSES ? invalid_cause_name((enum invalid_cause)cause) : "absent";
            json_array_append_new(list,
                                  json_pack("{s:I, s:I, s:s}", "from", (json_int_t)range->from,
                                            "until", (json_int_t)range->until, "cause", name));
        }
    }
    return list;
}

static json_t *side_json(const struct snapshot_side *side, const struct gather_side *frames,
                         const char *path)
{
    const char *slash = strrchr(path, '/');
    json_t *channels = json_array();
    for (uint32_t i = 0; i < side->channels.count; i++) {
        const uint32_t channel = side->channels.list[i];
        const char *unit = json_string_value(json_array_get(side->units, channel));
        json_array_append_new(channels, json_pack("{s:i, s:s}", "channel", (int)channel + 1, "unit",
                                                  unit != NULL ? unit : ""));
    }
    json_t *object = json_pack(
        "{s:I, s:I, s:f, s:o, s:I, s:o, s:o}", "first_frame", (json_int_t)frames->first_frame,
        "frames", (json_int_t)frames->frames, "rate_hz", side->rate_hz, "capture_time",
        time_json(frames->capture_ns), "capture_time_ns", (json_int_t)frames->capture_ns,
        "channels", channels, "invalid", ranges_json(frames));
    /* A path that is not UTF-8 is null. */
    json_t *file = json_string(slash != NULL ? slash + 1 : path);
    json_object_set_new(object, "file", file != NULL ? file : json_null());
    return object;
}

static json_t *sidecar_json(const struct snapshot_facts *facts)
{
    const struct gather *gather = facts->gather;
    char input[PATH_BYTES], output[PATH_BYTES];
    path_of(facts->options, FILE_INPUT, input);
    path_of(facts->options, FILE_OUTPUT, output);
    return json_pack("{s:s, s:I, s:I, s:s, s:f, s:f, s:b, s:i, s:s, s:o, s:o}", "stream",
                     facts->options->stream, "epoch", (json_int_t)gather->epoch, "record",
                     (json_int_t)gather->record, "format", "f32", "delay_frames",
                     facts->delay_frames, "delay_s", facts->delay_frames / facts->output->rate_hz,
                     "aligned", (int)facts->aligned, "decimation", (int)gather->decimation,
                     "version", CONVOLVD_VERSION, "input",
                     side_json(facts->input, &gather->input, input), "output",
                     side_json(facts->output, &gather->output, output));
}

/* ---- writing ----------------------------------------------------------------------------- */

static int write_wav(int descriptor, const char *path, const struct snapshot_side *side,
                     const struct gather_side *frames, struct problem *problem)
{
    SF_INFO info = {.samplerate = (int)side->rate_hz,
                    .channels = (int)frames->channels,
                    .format = SF_FORMAT_WAV | SF_FORMAT_FLOAT};
    SNDFILE *file = sf_open_fd(descriptor, SFM_WRITE, &info, SF_FALSE);
    if (file == NULL)
        return problem_set(problem, ERROR_SYSTEM, "%s: %s", path, sf_strerror(NULL));
    sf_command(file, SFC_SET_ADD_PEAK_CHUNK, NULL, SF_FALSE);
    const bool whole = sf_writef_float(file, frames->values, (sf_count_t)frames->frames) ==
                       (sf_count_t)frames->frames;
    if (sf_close(file) == 0 && whole)
        return 0;
    return problem_set(problem, ERROR_SYSTEM, "%s: cannot write: %s", path, strerror(errno));
}

static int write_text(int descriptor, const char *path, const char *text, struct problem *problem)
{
    const size_t bytes = text != NULL ? strlen(text) : 0;
    if (text == NULL)
        return problem_set(problem, ERROR_MEMORY, "out of memory");
    if (write(descriptor, text, bytes) == (ssize_t)bytes && write(descriptor, "\n", 1) == 1)
        return 0;
    return problem_set(problem, ERROR_SYSTEM, "%s: cannot write: %s", path, strerror(errno));
}

static int write_contents(const struct snapshot_facts *facts, enum file file, int descriptor,
                          const char *path, const char *text, struct problem *problem)
{
    const bool input = file == FILE_INPUT;
    const struct gather_side *frames = input ? &facts->gather->input : &facts->gather->output;
    if (file == FILE_SIDECAR)
        return write_text(descriptor, path, text, problem);
    if (facts->options->wav)
        return write_wav(descriptor, path, input ? facts->input : facts->output, frames, problem);
    return npy_write_floats(descriptor, path, frames->values, frames->frames, frames->channels,
                            problem);
}

/* The whole file, or none. */
static int write_file(const struct snapshot_facts *facts, enum file file, const char *text,
                      struct problem *problem)
{
    char path[PATH_BYTES];
    path_of(facts->options, file, path);
    const int descriptor = open(path, O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, 0666);
    if (descriptor < 0)
        return problem_set(problem, ERROR_NO_FILE, "%s: cannot be written: %s", path,
                           strerror(errno));
    int error = write_contents(facts, file, descriptor, path, text, problem);
    if (close(descriptor) != 0 && error == 0)
        error = problem_set(problem, ERROR_SYSTEM, "%s: cannot write: %s", path, strerror(errno));
    if (error != 0)
        unlink(path);
    return error;
}

int snapshot_files_write(const struct snapshot_facts *facts, json_t **sidecar,
                         struct problem *problem)
{
    char path[PATH_BYTES];
    json_t *object = sidecar_json(facts);
    char *text = object != NULL ? json_dumps(object, JSON_INDENT(2)) : NULL;
    enum file file = 0;
    int error = 0;
    /* The sidecar is the last: where it is, the snapshot is whole. */
    for (; file < FILES && error == 0; file++)
        error = write_file(facts, file, text, problem);
    if (error != 0) {
        /* The one that failed is gone, or was there before. */
        for (enum file written = 0; written + 1 < file; written++) {
            path_of(facts->options, written, path);
            unlink(path);
        }
        json_decref(object);
        object = NULL;
    }
    free(text);
    *sidecar = object;
    return error;
}
