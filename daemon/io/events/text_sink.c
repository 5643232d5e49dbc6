/* Text files of events: see text_sink.h. */
#include "io/events/text_sink.h"

#include <errno.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "core/clock.h"
#include "core/log.h"
#include "io/new_file.h"

/* Between two lines in the log about one file. */
static const int64_t tell_again_ns = 10 * NS_PER_SECOND;

struct text_file {
    const struct event_sink_options *options;
    char name[PATH_MAX];
    int fd;
    bool opened;    /* a write may wait: the writer's thread is at work */
    uint64_t bytes; /* of whole lines */
    int64_t told_ns;
    int reason; /* errno of the last write that failed */
    /* Events that the file lacks, and does not say so yet. */
    uint64_t lost, lost_first_epoch, lost_first_frame, lost_last_epoch, lost_last_frame;
};

static int note_lost(struct event_sink *sink);

static int open_file(const struct event_sink_options *options, struct text_file **out,
                     struct problem *problem)
{
    const struct text_sink_options *own = options->own;
    struct text_file *file = calloc(1, sizeof *file);
    if (file == NULL)
        return problem_set(problem, ERROR_MEMORY, "sink %s: out of memory", options->name);
    file->options = options;
    file->fd = new_file_create(options->name, own->path, file->name, problem);
    if (file->fd < 0) {
        const int status = file->fd;
        free(file);
        return status;
    }
    *out = file;
    return 0;
}

/* The disk has not taken the first lines: an empty file would only use its name up. */
static void remove_file(const struct text_file *file)
{
    struct stat status;
    if (file != NULL && file->bytes == 0 && fstat(file->fd, &status) == 0 &&
        S_ISREG(status.st_mode))
        unlink(file->name);
}

static void close_file(struct text_file *file)
{
    if (file == NULL)
        return;
    close(file->fd);
    free(file);
}

int text_sink_open(const struct event_sink_options *options, const char *comment,
                   int (*begin)(struct event_sink *sink, const struct event_sink_options *options),
                   struct event_sink **out, struct problem *problem)
{
    const struct text_sink_options *own = options->own;
    struct event_sink *sink = calloc(1, sizeof *sink);
    int status = sink != NULL ? 0 : ERROR_MEMORY;
    if (status == 0)
        status = event_text_open(options->analysis, options->analysis_options, &sink->text);
    if (status != 0) {
        free(sink);
        return problem_set(problem, status, "sink %s: out of memory", options->name);
    }
    sink->samples = own->samples;
    sink->comment = comment;
    status = open_file(options, &sink->file, problem);
    if (status == 0 && begin(sink, options) != 0)
        status = problem_set(problem, ERROR_SYSTEM,
                             "sink %s: %s cannot be written: %s; free some space, or write another "
                             "`path`",
                             options->name, own->path, strerror(sink->file->reason));
    if (status != 0) {
        remove_file(sink->file);
        text_sink_close(sink);
        return status;
    }
    sink->file->opened = true;
    *out = sink;
    return 0;
}

void text_sink_close(struct event_sink *sink)
{
    (void)note_lost(sink);
    close_file(sink->file);
    event_text_close(sink->text);
    free(sink);
}

/* Takes the part of a line that was written out of the file again. */
static void cut_back(struct text_file *file, int reason)
{
    const int64_t now_ns = clock_monotonic_ns();
    file->reason = reason;
    const bool cut = ftruncate(file->fd, (off_t)file->bytes) == 0 &&
                     lseek(file->fd, (off_t)file->bytes, SEEK_SET) >= 0;
    if (!file->opened || (file->told_ns != 0 && now_ns - file->told_ns < tell_again_ns))
        return;
    file->told_ns = now_ns;
    log_error("sink %s: %s cannot be written: %s; events are dropped until it can%s",
              file->options->name, file->name, strerror(reason),
              cut ? "" : ", and its last line is not whole");
}

int text_sink_add(struct event_sink *sink, const char *text, size_t bytes)
{
    struct text_file *file = sink->file;
    size_t done = 0;
    while (done < bytes) {
        const ssize_t written = write(file->fd, text + done, bytes - done);
        if (written < 0 && errno == EINTR)
            continue;
        if (written < 0 && errno == EAGAIN && file->opened) { /* a full pipe */
            poll(&(struct pollfd){.fd = file->fd, .events = POLLOUT}, 1, -1);
            continue;
        }
        if (written <= 0) {
            cut_back(file, written < 0 ? errno : ENOSPC);
            return ERROR_SYSTEM;
        }
        done += (size_t)written;
    }
    file->bytes += bytes;
    return 0;
}

int text_sink_add_json(struct event_sink *sink, const char *prefix, json_t *json)
{
    char *text = json != NULL ? json_dumps(json, JSON_COMPACT) : NULL, *line = NULL;
    int status = ERROR_MEMORY;
    json_decref(json);
    const int length = text != NULL ? asprintf(&line, "%s%s\n", prefix, text) : -1;
    if (length >= 0) {
        status = text_sink_add(sink, line, (size_t)length);
        free(line);
    }
    free(text);
    return status;
}

/* Writes which events the file lacks, once it can be written again. */
static int note_lost(struct event_sink *sink)
{
    struct text_file *file = sink->file;
    if (file == NULL || file->lost == 0)
        return 0;
    json_t *note = json_pack(
        "{s:{s:I, s:s, s:s, s:{s:I, s:I}, s:{s:I, s:I}}}", "lost", "events", (json_int_t)file->lost,
        "cause", drop_name(DROP_DISK), "error", strerror(file->reason), "first", "epoch",
        (json_int_t)file->lost_first_epoch, "frame", (json_int_t)file->lost_first_frame, "last",
        "epoch", (json_int_t)file->lost_last_epoch, "frame", (json_int_t)file->lost_last_frame);
    const int status = text_sink_add_json(sink, sink->comment, note);
    if (status == 0)
        file->lost = 0;
    return status;
}

int text_sink_event(struct event_sink *sink, const struct analysis_event *event, const char *text,
                    size_t bytes)
{
    struct text_file *file = sink->file;
    int status = note_lost(sink);
    if (status == 0)
        status = text_sink_add(sink, text, bytes);
    if (status == 0)
        return 0;
    if (file->lost++ == 0) {
        file->lost_first_epoch = event->epoch;
        file->lost_first_frame = event->frame;
    }
    file->lost_last_epoch = event->epoch;
    file->lost_last_frame = event->frame;
    return status;
}

void text_sink_ledger(const struct event_sink *sink, struct event_sink_ledger *ledger)
{
    ledger->bytes = sink->file->bytes;
    ledger->files = 1;
}

/* ---- what was measured with what --------------------------------------------------------- */

static json_t *numbers(const double *values, uint32_t count)
{
    json_t *list = json_array();
    for (uint32_t i = 0; i < count; i++)
        json_array_append_new(list, values[i] > 0 || values[i] < 0 ? json_real(values[i])
                                                                   : json_integer(0));
    return list;
}

static json_t *units(const struct analysis_stream *stream)
{
    json_t *list = json_array();
    for (uint32_t i = 0; i < stream->channels; i++)
        json_array_append_new(list, json_string(stream->units[i]));
    return list;
}

static json_t *fields(const struct event_sink_options *options)
{
    uint32_t count;
    const struct analysis_field *all = options->analysis->fields(options->analysis_options, &count);
    json_t *list = json_array();
    for (uint32_t i = 0; i < count; i++)
        json_array_append_new(list, json_pack("{s:s, s:s?, s:i, s:s}", "name", all[i].name, "unit",
                                              all[i].unit, "repeat", (int)all[i].repeat, "sentence",
                                              all[i].sentence));
    return list;
}

static json_t *text_or_null(const char *text)
{
    return text != NULL ? json_string(text) : json_null();
}

json_t *text_sink_facts(const struct event_sink_options *options)
{
    const struct analysis_stream *stream = &options->analysis_options->stream;
    return json_pack("{s:s, s:s, s:s, s:s, s:f, s:i, s:o, s:o, s:o, s:o, s:o, s:f, s:b, s:o}",
                     "convolvd", CONVOLVD_VERSION, "analysis", options->analysis_options->name,
                     "type", options->analysis->name, "stream", stream->name, "rate_hz",
                     stream->rate_hz, "channels", (int)stream->channels, "units", units(stream),
                     "full_scale", numbers(stream->full_scale, stream->channels), "preamp_db",
                     numbers(stream->preamp_db, stream->channels), "taps_hash",
                     text_or_null(stream->taps_hash), "config_hash",
                     text_or_null(stream->config_hash), "delay_frames", stream->delay_frames,
                     "aligned", (int)stream->aligned, "fields", fields(options));
}

json_t *text_sink_mark(const struct sink_mark *mark)
{
    return json_pack("{s:{s:I, s:I, s:I, s:s, s:s}}", "mark", "epoch", (json_int_t)mark->epoch,
                     "frame", (json_int_t)mark->frame, "realtime_ns", (json_int_t)mark->realtime_ns,
                     "text", mark->text, "who", mark->who);
}

void text_sink_report(const struct event_sink_options *options, FILE *out)
{
    const struct text_sink_options *own = options->own;
    fprintf(out, "%s: events of analysis %s to %s\n", options->analysis->name,
            options->analysis_options->name, own->path);
}
