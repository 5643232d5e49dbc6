/*
 * Recording writer: see writer.h. The writer encodes frames into one buffer and writes the buffer
 * to the file when it is full and at each drain and flush. A frame counts as delivered once the
 * kernel has taken it.
 */
#include "io/recording/writer.h"

#include <assert.h>
#include <errno.h>
#include <limits.h>
#include <math.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "core/clock.h"
#include "core/log.h"
#include "io/recording/container.h"
#include "io/recording/disk.h"
#include "io/recording/files.h"
#include "io/recording/gains.h"
#include "io/recording/losses.h"
#include "io/recording/owed.h"
#include "io/recording/recording.h"
#include "io/recording/repair.h"
#include "io/recording/sidecar.h"
#include "io/recording/space.h"

/* After a disk error the writer waits this long before it begins another file. */
static const int64_t retry_ns = 1 * NS_PER_SECOND;

/* Space that an open file holds for its last sidecar: many times what most of them take. */
static const uint64_t reserve_bytes = 64 << 10;

struct recording_writer {
    const struct sink_options *options;
    const struct recording_options *own;
    struct container_spec spec;
    struct recording_files files;
    uint32_t frame_bytes, sample_count; /* of a frame */
    double rate_hz;
    double factor;            /* samples → normalised values, −1 … 1 */
    uint64_t frames_per_file; /* UINT64_MAX: no rotation */

    struct container_file file;
    bool open;
    char path[PATH_MAX]; /* of the open file, or the last one; "": there is none */
    int64_t begun_ns;    /* when it began [realtime] */
    struct sidecar sidecar;
    struct marks marks;
    struct sidecar_filters filters; /* of the newest frame */
    struct recorded_gains gains;    /* likewise */
    uint64_t clock_steps;           /* recognised up to the newest frame */
    uint64_t next_frame;            /* number in the epoch of the open file's next frame */
    uint8_t *buffer;
    uint64_t buffer_frames, buffered; /* its size, and the frames in it */
    bool sidecar_stale;               /* the sidecar on disk lacks frames of the file */
    struct owed owed;                 /* sidecars of finished files that the disk did not take */
    int reserve_fd;                   /* space for the last sidecar of a full disk; -1: none */
    bool reserve_whole;               /* all of reserve_bytes: a file may begin */
    int64_t synced_ns;                /* of the last sync, or the file's begin [monotonic] */

    struct losses losses;

    bool stopped;               /* by a command: frames are the sink's to drop */
    struct sidecar_cause cause; /* why the next file begins */
    struct space space;
    int64_t not_before_ns; /* no file begins earlier [monotonic] */
    struct log_limit disk_limit;
    struct writer_counts counts;
};

/* ---- files ------------------------------------------------------------------------------- */

static bool is_open(const struct recording_writer *w)
{
    return w->open;
}

static void log_disk_error(struct recording_writer *w, const char *text)
{
    log_limited(&w->disk_limit, 10 * NS_PER_SECOND, LOG_LEVEL_ERROR,
                "sink %s: %s; what the disk does not take is dropped and counted", w->options->name,
                text);
}

static void release_reserve(struct recording_writer *w)
{
    if (w->reserve_fd >= 0)
        disk_release(w->reserve_fd);
    w->reserve_fd = -1;
}

/* Keeps half of a reserve that a sidecar was written into, as the last one may have to be written
 * again. Returns with the errno of before. */
static void keep_half(struct recording_writer *w)
{
    const int saved = errno;
    w->reserve_fd = disk_reserve(w->files.directory, reserve_bytes / 2);
    w->reserve_whole = false;
    errno = saved;
}

/* Takes the space for the last sidecar of the next file. False (errno): the disk is full, so that
 * no file begins. Where space cannot be reserved for another reason, the file begins without. */
static bool take_reserve(struct recording_writer *w)
{
    if (w->reserve_fd >= 0 && w->reserve_whole)
        return true;
    release_reserve(w);
    w->reserve_fd = disk_reserve(w->files.directory, reserve_bytes);
    w->reserve_whole = w->reserve_fd >= 0;
    if (w->reserve_whole || (errno != ENOSPC && errno != EDQUOT))
        return true;
    keep_half(w);
    return false;
}

/* Writes the sidecar of a file that is closed: on a full disk into the reserve, else as soon as the
 * disk takes it. `spec`: of a file whose header could not be written; else NULL. */
static void write_last_sidecar(struct recording_writer *w, bool sync,
                               const struct container_spec *spec)
{
    struct problem problem;
    w->sidecar_stale = false;
    owed_forget(&w->owed, w->path); /* this one says more */
    int status = sidecar_write(&w->sidecar, w->path, sync, &problem);
    if (status != 0 && w->reserve_fd >= 0) {
        release_reserve(w);
        status = sidecar_write(&w->sidecar, w->path, sync, &problem);
        keep_half(w);
    }
    if (status != 0)
        log_disk_error(w, problem.text);
    if (status != 0 || spec != NULL)
        owed_add(&w->owed, w->path, sidecar_text(&w->sidecar, w->path), sync, spec, -1);
}

static bool write_sidecar(struct recording_writer *w, bool sync)
{
    struct problem problem;
    w->sidecar.frames = w->file.frames;
    bool written = sidecar_write(&w->sidecar, w->path, sync, &problem) == 0;
    if (!written)
        log_disk_error(w, problem.text);
    w->sidecar_stale = !written;
    return written;
}

/* Logs a write that failed (errno), and remembers it: the file is never complete. */
static void note_failure(struct recording_writer *w, const char *what)
{
    int reason = errno;
    struct problem problem;
    problem_set(&problem, ERROR_SYSTEM, "recording %s %s: %s", w->path, what, strerror(reason));
    log_disk_error(w, problem.text);
    if (w->sidecar.error == 0)
        w->sidecar.error = reason != 0 ? reason : EIO;
}

static void end_file(struct recording_writer *w, enum sidecar_reason reason, const char *who)
{
    w->cause = w->sidecar.ended = sidecar_cause(reason, who);
    const bool sync = w->own->sync_ns != SYNC_NEVER;
    if (container_close(&w->file, sync && w->sidecar.error == 0) != 0)
        note_failure(w, "cannot be finished");
    const bool counted =
        w->file.frames_in_header == w->file.frames && w->file.frames_claimed == w->file.frames;
    w->sidecar.frames = w->file.frames;
    w->sidecar.complete =
        w->sidecar.error == 0 && w->sidecar.cut[0] == '\0' && reason != REASON_INTERRUPTED;
    if (sync && w->sidecar.error == 0)
        w->sidecar.synced_frames = w->file.frames;
    write_last_sidecar(w, sync, counted ? NULL : &w->spec);
    if (w->own->keep > 0)
        recording_files_add(&w->files, w->path);
    log_debug("sink %s: %s ends with %llu frames", w->options->name, w->path,
              (unsigned long long)w->file.frames);
    w->open = false;
}

void recording_writer_drain(struct recording_writer *w)
{
    if (w->buffered == 0)
        return;
    uint64_t written = container_append(&w->file, w->buffer, w->buffered);
    w->counts.delivered += written;
    w->counts.bytes += written * w->frame_bytes;
    w->space.unseen_bytes += written * w->frame_bytes;
    uint64_t lost = w->buffered - written;
    w->buffered = 0;
    w->sidecar_stale = true;
    if (lost > 0) {
        note_failure(w, "cannot be written");
        w->counts.dropped[DROP_DISK] += lost;
        w->sidecar.last_capture_ns -= (int64_t)nearbyint((double)lost * 1e9 / w->rate_hz);
        losses_add(&w->losses, w->sidecar.epoch, w->next_frame - lost, w->next_frame,
                   drop_name(DROP_DISK));
        w->not_before_ns = clock_monotonic_ns() + retry_ns;
        end_file(w, REASON_DISK, NULL); /* the next frame no longer follows the file's last */
    }
}

/* Drains, then ends the file. A later put begins another. */
static void finish(struct recording_writer *w, enum sidecar_reason reason, const char *who)
{
    recording_writer_drain(w);
    if (is_open(w))
        end_file(w, reason, who);
}

/* True when `sync` asks for one every so often, and frames wait for it. */
static bool is_unsynced(const struct recording_writer *w)
{
    return w->own->sync_ns != SYNC_NEVER && w->own->sync_ns != SYNC_ROTATE &&
           w->sidecar.synced_frames < w->file.frames;
}

/* Syncs the open file when it is time. Returns false when that failed: the kernel may then have
 * dropped anything since the last sync, and a later sync would not say so. */
static bool sync_when_due(struct recording_writer *w, bool *synced)
{
    const int64_t now_ns = clock_monotonic_ns();
    *synced = is_unsynced(w) && now_ns - w->synced_ns >= w->own->sync_ns;
    if (w->own->sync_ns != SYNC_NEVER && !*synced)
        disk_begin_sync(w->file.fd);
    if (!*synced)
        return true;
    if (container_sync(&w->file) != 0) {
        note_failure(w, "cannot be synced");
        return false;
    }
    w->synced_ns = now_ns;
    w->sidecar.synced_frames = w->file.frames;
    return true;
}

void recording_writer_flush(struct recording_writer *w)
{
    recording_writer_drain(w);
    owed_write(&w->owed);
    if (!is_open(w) || (!w->sidecar_stale && !is_unsynced(w)))
        return;
    if (container_flush(&w->file) != 0)
        note_failure(w, "cannot get its header");
    bool synced;
    if (!sync_when_due(w, &synced))
        end_file(w, REASON_DISK, NULL);
    else if (w->sidecar_stale || synced)
        write_sidecar(w, synced);
}

/* Begins the file of frame result->first_frame + done. */
static int begin_file(struct recording_writer *w, const struct result *result, uint64_t done,
                      int64_t capture_ns)
{
    struct problem problem;
    char path[PATH_MAX];
    recording_files_prune(&w->files, w->own->keep);
    int status = 0;
    if (!take_reserve(w))
        status = problem_set(&problem, ERROR_SYSTEM, "no recording can begin in %s: %s",
                             w->files.directory, strerror(errno));
    else
        status = recording_files_create(&w->files, &w->file, &w->spec, capture_ns, path, &problem);
    if (status != 0) {
        w->not_before_ns = clock_monotonic_ns() + retry_ns;
        log_disk_error(w, problem.text);
        return status;
    }
    memcpy(w->path, path, sizeof w->path);
    w->open = true;
    w->begun_ns = clock_realtime_ns();
    w->counts.files++;
    w->synced_ns = clock_monotonic_ns();
    struct sidecar *s = &w->sidecar;
    sidecar_reset(s);
    s->began = w->cause;
    s->options = w->options;
    s->marks = &w->marks;
    s->container = w->spec.container;
    s->format = w->spec.format;
    s->epoch = result->epoch;
    s->record = result->record;
    s->first_frame = result->first_frame + done;
    s->timeline_frame = result->timeline_frame + done;
    s->capture_ns = capture_ns;
    s->clock = result->clock;
    s->delay_frames = result->delay_frames;
    s->aligned = result->aligned;
    losses_move(&w->losses, &s->missing);
    w->next_frame = s->first_frame;
    w->sidecar_stale = true;
    log_debug("sink %s: %s begins with frame %llu", w->options->name, w->path,
              (unsigned long long)s->first_frame);
    return 0;
}

/* True when the open file can take this frame of the result as its next. */
static bool continues(const struct recording_writer *w, const struct result *result, uint64_t frame)
{
    const struct sidecar *s = &w->sidecar;
    return s->epoch == result->epoch && s->record == result->record && w->next_frame == frame &&
           s->delay_frames == result->delay_frames && s->aligned == result->aligned &&
           s->range_count + result->invalid_count <= SIDECAR_RANGES_MAX &&
           s->filters_count < SIDECAR_FILTERS_MAX && s->devices_count < SIDECAR_DEVICES_MAX &&
           s->gains_count < SIDECAR_GAINS_MAX && s->steps_count < SIDECAR_STEPS_MAX;
}

/* ---- frames ------------------------------------------------------------------------------ */

static void encode(struct recording_writer *w, const struct result *result, uint64_t from,
                   uint64_t frames)
{
    uint8_t *to = w->buffer + w->buffered * w->frame_bytes;
    size_t count = frames * w->sample_count;
    if (result->wire != NULL) {
        memcpy(to, result->wire + from * w->frame_bytes, frames * w->frame_bytes);
        /* result->saturated covers the whole result; the file with its first frame counts it. */
        uint64_t saturated = from == 0 ? result->saturated : 0;
        w->sidecar.saturated += saturated;
        w->counts.saturated += saturated;
        return;
    }
    if (!w->options->raw) {
        uint64_t saturated = sample_encode_block(
            &w->spec.format, result->samples + from * w->sample_count, count, w->factor, to);
        w->sidecar.saturated += saturated;
        w->counts.saturated += saturated;
        return;
    }
    const struct sample_format *input = &w->options->stream.input_format;
    const uint8_t *wire = result->raw + from * w->frame_bytes;
    if (memcmp(input, &w->spec.format, sizeof *input) == 0) {
        memcpy(to, wire, frames * w->frame_bytes);
        return;
    }
    /* Lossless: the file's format holds every value of the input's. */
    for (size_t i = 0; i < count; i++)
        sample_encode(&w->spec.format, sample_decode(input, wire + i * input->bytes),
                      to + i * input->bytes);
}

static void add_ranges(struct recording_writer *w, const struct result *result, uint64_t from,
                       uint64_t until)
{
    for (uint32_t i = 0; i < result->invalid_count; i++) {
        struct invalid_range range = result->invalid[i];
        range.from = range.from > from ? range.from : from;
        range.until = range.until < until ? range.until : until;
        if (range.from < range.until) {
            bool added = sidecar_add(&w->sidecar, range);
            assert(added); /* continues() checked that they fit */
            (void)added;
        }
    }
    const uint64_t first = result->partial_from > from ? result->partial_from : from;
    const uint64_t end = result->partial_until < until ? result->partial_until : until;
    ranges_add(&w->sidecar.partial, first, end, INVALID_SETTLING);
}

/* Adds to the sidecar which filters computed frames [first, until) of the result. */
static void add_filters(struct recording_writer *w, const struct result *result, uint64_t first,
                        uint64_t until)
{
    struct sidecar *s = &w->sidecar;
    struct sidecar_filters before = w->filters, now = w->filters;
    before.first_frame = now.first_frame = first;
    if (result->taps_hash != NULL) {
        now.taps_hash = result->taps_hash;
        now.taps_longest = result->taps_longest;
        snprintf(now.who, sizeof now.who, "%s", result->taps_who != NULL ? result->taps_who : "");
        now.first_frame = result->taps_from > first ? result->taps_from : first;
    }
    if (s->filters_count == 0 && now.first_frame > first)
        sidecar_filter(s, &before);
    if (now.first_frame >= until)
        return;
    sidecar_filter(s, &now); /* continues() checked that it fits */
    w->filters = now;
}

/* Adds to the sidecar what computed the result, whose next frame is `first`. */
static void add_device(struct recording_writer *w, const struct result *result, uint64_t first)
{
    const struct sidecar_device device = {first, result->device, result->driver};
    if (result->device != NULL)
        sidecar_device(&w->sidecar, &device); /* continues() checked that it fits */
}

/* Adds to the sidecar a step of the capture times that was recognised since the result before. */
static void add_step(struct recording_writer *w, const struct result *result)
{
    const struct result_clock_step *step = &result->clock_step;
    const struct sidecar_step added = {step->frame, step->step_ns};
    if (step->count > w->clock_steps && step->epoch == w->sidecar.epoch)
        sidecar_step(&w->sidecar, &added); /* continues() checked that it fits */
    w->clock_steps = step->count;
}

/* Capture time [ns, realtime] of the result's frame with index `frame`. */
static int64_t capture_time_ns(const struct recording_writer *w, const struct result *result,
                               uint64_t frame)
{
    return result->capture_ns + (int64_t)nearbyint((double)frame * 1e9 / w->rate_hz);
}

/* Buffers frames of the result from index `done` on, as many as fit into the file and the buffer;
 * returns how many. */
static uint64_t buffer_result(struct recording_writer *w, const struct result *result,
                              uint64_t done)
{
    uint64_t in_file = w->next_frame - w->sidecar.first_frame;
    uint64_t frames = result->frames - done;
    if (frames > w->frames_per_file - in_file)
        frames = w->frames_per_file - in_file;
    if (frames > w->buffer_frames - w->buffered)
        frames = w->buffer_frames - w->buffered;
    uint64_t first = result->first_frame + done;
    encode(w, result, done, frames);
    add_ranges(w, result, first, first + frames);
    add_step(w, result);
    if (!w->options->raw) {
        add_filters(w, result, first, first + frames);
        add_device(w, result, first);
        /* continues() checked that they fit */
        recorded_gains_add(&w->gains, &w->sidecar, result->epoch, first, first + frames);
    }
    w->sidecar.last_capture_ns = capture_time_ns(w, result, done + frames - 1);
    if (result->clock_error_ns > w->sidecar.clock_error_ns)
        w->sidecar.clock_error_ns = result->clock_error_ns;
    w->buffered += frames;
    w->next_frame += frames;
    return frames;
}

/* Ranges of the open file that are found uncertain behind their frames. Those of files before it
 * are in the log alone. */
static void add_uncertain(struct recording_writer *w, const struct result *result)
{
    struct sidecar *s = &w->sidecar;
    if (!is_open(w) || s->epoch != result->epoch)
        return;
    for (uint32_t i = 0; i < result->invalid_count; i++) {
        struct invalid_range range = result->invalid[i];
        range.from = range.from > s->first_frame ? range.from : s->first_frame;
        range.until = range.until < w->next_frame ? range.until : w->next_frame;
        if (range.cause != INVALID_UNCERTAIN || range.from >= range.until)
            continue;
        if (!sidecar_add(s, range)) { /* full: the last one reaches over it */
            struct invalid_range *last = &s->ranges[SIDECAR_RANGES_MAX - 1];
            last->from = range.from < last->from ? range.from : last->from;
            last->until = range.until > last->until ? range.until : last->until;
        }
        w->sidecar_stale = true;
    }
}

/* The epoch has ended: the open file lists what is missing behind its last frame, if it is of this
 * epoch; else the next one does. */
static void note_end(struct recording_writer *w, uint64_t epoch)
{
    if (is_open(w) && w->sidecar.epoch == epoch &&
        losses_move_epoch(&w->losses, epoch, &w->sidecar.after))
        w->sidecar_stale = true;
}

/* An epoch other than that of the open file has begun. */
static void note_epoch(struct recording_writer *w, uint64_t epoch)
{
    if (is_open(w) && w->sidecar.epoch != epoch)
        note_end(w, w->sidecar.epoch);
}

void recording_writer_mark(struct recording_writer *w, const struct sink_mark *mark)
{
    marks_add(&w->marks, mark);
    w->sidecar_stale = is_open(w);
}

void recording_writer_lose(struct recording_writer *w, const struct sidecar_missing *missing)
{
    note_epoch(w, missing->epoch);
    losses_never_come(&w->losses, missing);
}

void recording_writer_cut(struct recording_writer *w, const struct source_cut *cut)
{
    struct sidecar *s = &w->sidecar;
    const uint64_t first = cut->first > w->next_frame ? cut->first : w->next_frame;
    recording_writer_drain(w);
    if (w->path[0] == '\0' || w->stopped)
        return; /* no frame of the stream is in a file */
    snprintf(s->cut, sizeof s->cut, "%s", cut->sentence);
    losses_add(&w->losses, s->epoch, first, cut->until, invalid_cause_name(INVALID_CAPTURE));
    if (is_open(w)) {
        w->sidecar_stale = true;
        return;
    }
    const bool sync = w->own->sync_ns != SYNC_NEVER;
    s->complete = false;
    write_last_sidecar(w, sync, NULL);
}

/* Drops the result's frames from index `done` on. */
static void drop(struct recording_writer *w, const struct result *result, uint64_t done,
                 enum drop cause)
{
    w->counts.dropped[cause] += result->frames - done;
    losses_add(&w->losses, result->epoch, result->first_frame + done,
               result->first_frame + result->frames, drop_name(cause));
}

void recording_writer_put(struct recording_writer *w, const struct result *result)
{
    assert(result->invalid_count <= SIDECAR_RANGES_MAX);
    assert(((result->flags & RESULT_RAW) != 0) == w->options->raw);
    if (space_falls_short(&w->space)) {
        finish(w, REASON_FREE, NULL);
        space_pause(&w->space);
    }
    note_epoch(w, result->epoch);
    losses_result(&w->losses, result);
    add_uncertain(w, result);
    recorded_gains_take(&w->gains, result);
    if (result->frames == 0)
        note_end(w, result->epoch);
    uint64_t done = 0;
    while (done < result->frames) {
        if (w->space.paused) {
            drop(w, result, done, DROP_PAUSED);
            w->space.paused_frames += result->frames - done;
            return;
        }
        if (is_open(w) && !continues(w, result, result->first_frame + done))
            finish(w, REASON_BREAK, NULL);
        if (!is_open(w) && (clock_monotonic_ns() < w->not_before_ns ||
                            begin_file(w, result, done, capture_time_ns(w, result, done)) != 0)) {
            drop(w, result, done, DROP_DISK);
            return;
        }
        done += buffer_result(w, result, done);
        if (w->next_frame - w->sidecar.first_frame == w->frames_per_file)
            finish(w, REASON_ROTATE, NULL);
        else if (w->buffered == w->buffer_frames)
            recording_writer_drain(w);
    }
}

/* Ends the file, which lists what is missing behind its last frame. */
static void finish_all(struct recording_writer *w, enum sidecar_reason reason, const char *who)
{
    recording_writer_drain(w);
    if (is_open(w))
        losses_move(&w->losses, &w->sidecar.after);
    finish(w, reason, who);
}

void recording_writer_record(struct recording_writer *w, bool on, const char *who)
{
    if (!on)
        finish_all(w, REASON_COMMAND, who);
    w->stopped = !on;
    w->cause = sidecar_cause(REASON_COMMAND, who);
}

void recording_writer_end(struct recording_writer *w, enum sidecar_reason reason)
{
    finish_all(w, reason, NULL);
    if (w->losses.list.count > 0 && !w->stopped && access(w->path, F_OK) == 0) {
        /* No file has begun since: the last one lists what follows it. */
        losses_move(&w->losses, &w->sidecar.after);
        write_last_sidecar(w, w->own->sync_ns != SYNC_NEVER, NULL);
    }
    const struct sidecar_losses *untold = &w->losses.list;
    if (untold->count > 0 && !w->stopped)
        log_warning("sink %s: frames %llu to %llu of epoch %llu are in no file, and no sidecar "
                    "says so",
                    w->options->name, (unsigned long long)untold->ranges[0].from,
                    (unsigned long long)untold->ranges[untold->count - 1].until,
                    (unsigned long long)untold->ranges[0].epoch);
}

struct result_format recording_writer_format(const struct sink_options *options)
{
    return (struct result_format){options->format, 1.0 / options->full_scale};
}

/* ---- life -------------------------------------------------------------------------------- */

int recording_writer_open(const struct sink_options *options, const struct writer_system *system,
                          struct recording_writer **out, struct problem *problem)
{
    struct container_spec spec;
    uint64_t frames_per_file;
    int status = recording_spec(options, &spec, &frames_per_file, problem);
    if (status != 0)
        return problem_prefix(problem, status, "sink %s", options->name);
    struct recording_writer *w = calloc(1, sizeof *w);
    if (w == NULL)
        return problem_set(problem, ERROR_MEMORY, "sink %s: out of memory", options->name);
    w->options = options;
    w->own = options->own;
    w->stopped = w->own->start_by_command;
    w->cause = sidecar_cause(REASON_OPEN, NULL);
    w->spec = spec;
    w->filters.taps_hash = options->stream.taps_hash != NULL ? options->stream.taps_hash : "";
    w->filters.taps_longest = options->stream.taps_longest;
    w->frames_per_file = frames_per_file;
    w->file.fd = w->reserve_fd = -1;
    w->owed.sink = options->name;
    if (system != NULL) {
        w->space.free_bytes = system->free_bytes;
        w->spec.riff_bytes_max = system->riff_bytes_max;
    }
    w->rate_hz = spec.rate_hz;
    w->sample_count = spec.channels;
    w->frame_bytes = spec.channels * spec.format.bytes;
    w->factor = options->raw ? 1.0 : recording_writer_format(options).factor;
    w->buffer_frames = RECORDING_BUFFER_BYTES / w->frame_bytes;
    w->buffer = malloc(w->buffer_frames * w->frame_bytes);
    status = w->buffer == NULL || recorded_gains_open(&w->gains, options->stream.channels) != 0
                 ? problem_set(problem, ERROR_MEMORY, "out of memory")
                 : recording_files_open(&w->files, options, frames_per_file != UINT64_MAX, problem);
    if (status != 0) {
        recording_writer_close(w);
        return problem_prefix(problem, status, "sink %s", options->name);
    }
    space_begin(&w->space, options->name, w->files.directory, w->own->min_free_bytes);
    recording_repair(&w->files, &w->owed);
    *out = w;
    return 0;
}

void recording_writer_set_min_free(struct recording_writer *w, uint64_t bytes)
{
    atomic_store(&w->space.min_free_bytes, bytes);
}

const struct writer_counts *recording_writer_counts(const struct recording_writer *w)
{
    return &w->counts;
}

void recording_writer_show(const struct recording_writer *w, struct recording_shown *shown)
{
    shown->state = w->stopped        ? RECORDING_STOPPED
                   : w->space.paused ? RECORDING_PAUSED
                                     : RECORDING_RUNNING;
    shown->free_bytes = w->space.unused;
    shown->frames = is_open(w) ? w->file.frames : w->sidecar.frames;
    shown->bytes = shown->frames * w->frame_bytes;
    shown->seconds = (double)shown->frames / w->rate_hz;
    if (shown->file == w->counts.files)
        return;
    shown->file = w->counts.files;
    shown->since_realtime_ns = w->begun_ns;
    memcpy(shown->path, w->path, sizeof shown->path);
}

int64_t recording_writer_look(struct recording_writer *w)
{
    return w->stopped ? space_look(&w->space) : INT64_MAX;
}

bool recording_writer_dirty(const struct recording_writer *w)
{
    return w->buffered > 0 || w->owed.count > 0 ||
           (is_open(w) && (w->sidecar_stale || is_unsynced(w)));
}

void recording_writer_close(struct recording_writer *w)
{
    if (w == NULL)
        return;
    finish(w, REASON_END, NULL);
    release_reserve(w);
    owed_close(&w->owed);
    recording_files_close(&w->files);
    sidecar_close(&w->sidecar);
    free(w->buffer);
    recorded_gains_close(&w->gains);
    free(w);
}
