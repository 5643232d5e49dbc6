/* Repair into a copy: see repair_copy.h. */
#include "io/recording/repair_copy.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include "io/recording/disk.h"
#include "signal/sound_input.h"

/* Whether another process, or a recording of this one, may still write the file. A lease is refused
 * where anybody has the file open for writing; recordings lock theirs. */
static bool is_written(int fd)
{
    if (flock(fd, LOCK_SH | LOCK_NB) != 0 && errno == EWOULDBLOCK)
        return true;
    if (fcntl(fd, F_SETLEASE, F_RDLCK) == 0) {
        fcntl(fd, F_SETLEASE, F_UNLCK);
        return false;
    }
    return errno == EAGAIN || errno == EWOULDBLOCK;
}

static int refuse_written(const char *path, struct problem *problem)
{
    return problem_set(problem, ERROR_FULL,
                       "%s is still being written by another program; repair it once that has "
                       "ended",
                       path);
}

static int check(const char *path, const struct sound_input *input, struct problem *problem)
{
    const struct sound_header *h = &input->header;
    if (h->container == SOUND_OTHER)
        return problem_set(problem, ERROR_FORMAT,
                           "%s has no header of a recording that is known; give a WAV, RF64, W64, "
                           "AIFF, CAF or AU file",
                           path);
    if (h->container == SOUND_FLAC)
        return problem_set(problem, ERROR_ARGUMENT,
                           "%s is FLAC, which needs no repair: it is read as far as it goes", path);
    if (h->no_data || h->frame_bytes == 0)
        return problem_set(problem, ERROR_FORMAT,
                           "%s cannot be repaired: its header does not say where and what its "
                           "samples are",
                           path);
    if (h->length == SOUND_LENGTH_UNKNOWN)
        return problem_set(problem, ERROR_ARGUMENT,
                           "%s needs no repair: its header leaves the length open, and it is read "
                           "to its end",
                           path);
    if (h->length == SOUND_LENGTH_WHOLE)
        return problem_set(problem, ERROR_ARGUMENT,
                           "%s needs no repair: it holds the %" PRIu64
                           " frames that its header announces",
                           path, h->announced);
    if (h->held == 0)
        return problem_set(problem, ERROR_FORMAT, "%s holds no frame", path);
    if (h->unpatchable)
        return problem_set(problem, ERROR_UNSUPPORTED,
                           "%s holds more than its header can count; convert it to RF64 (ffmpeg "
                           "-i IN -c copy -rf64 always OUT.wav)",
                           path);
    return is_written(input->fd) ? refuse_written(path, problem) : 0;
}

/* FILE-repaired.SUFFIX. False: the name is too long. */
static bool name_copy(const char *path, char copy[PATH_MAX])
{
    const char *slash = strrchr(path, '/'), *dot = strrchr(path, '.');
    const size_t stem = dot != NULL && dot > (slash != NULL ? slash + 1 : path)
                            ? (size_t)(dot - path)
                            : strlen(path);
    return snprintf(copy, PATH_MAX, "%.*s-repaired%s", (int)stem, path, path + stem) < PATH_MAX - 8;
}

/* RIFF and AIFF pad their chunks to an even size. */
static uint64_t padding_of(const struct sound_header *h)
{
    const bool pads =
        h->container != SOUND_W64 && h->container != SOUND_CAF && h->container != SOUND_AU;
    return pads ? (h->held * h->frame_bytes) & 1 : 0;
}

static int write_copy(struct sound_input *input, int fd, uint8_t *buffer, uint64_t buffer_bytes)
{
    const struct sound_header *h = &input->header;
    const uint64_t end = h->data_at + h->held * h->frame_bytes;
    uint64_t at = 0;
    while (at < end) {
        const uint64_t count = end - at < buffer_bytes ? end - at : buffer_bytes;
        if (!sound_input_read(input, at, buffer, count) ||
            disk_write(fd, buffer, count, at) < count)
            return ERROR_SYSTEM;
        at += count;
    }
    const uint64_t pad = padding_of(h);
    if (disk_write(fd, (const uint8_t[1]){0}, pad, end) < pad || disk_sync(fd) != 0)
        return ERROR_SYSTEM;
    return 0;
}

static int make_copy(const char *path, struct sound_input *input, const char *copy,
                     struct problem *problem)
{
    enum { BUFFER_BYTES = 1 << 20 };
    struct stat before = {0}, after = {0};
    uint8_t *buffer = malloc(BUFFER_BYTES);
    if (buffer == NULL)
        return problem_set(problem, ERROR_MEMORY, "out of memory");
    const int fd = disk_create(copy);
    int status = 0;
    if (fd < 0)
        status =
            problem_set(problem, ERROR_NO_FILE, "%s cannot be created: %s%s", copy, strerror(errno),
                        errno == EEXIST ? "; move it away, or use it as it is" : "");
    (void)fstat(input->fd, &before);
    if (status == 0 && write_copy(input, fd, buffer, BUFFER_BYTES) != 0)
        status = problem_set(problem, ERROR_SYSTEM, "%s cannot be copied to %s: %s", path, copy,
                             strerror(errno));
    (void)fstat(input->fd, &after);
    if (status == 0 && (before.st_size != after.st_size || is_written(input->fd)))
        status = refuse_written(path, problem);
    free(buffer);
    if (fd >= 0) {
        close(fd);
        if (status != 0)
            disk_remove(copy);
    }
    return status;
}

/* The sidecar of the copy, if the recording has one that can be read. */
static int copy_sidecar(const char *path, const struct repaired_copy *copy, struct problem *problem)
{
    char from[PATH_MAX + 8], to[PATH_MAX + 8];
    snprintf(from, sizeof from, "%s.json", path);
    snprintf(to, sizeof to, "%s.json", copy->path);
    json_t *root = json_load_file(from, 0, NULL);
    if (!json_is_object(root)) {
        json_decref(root);
        return 0;
    }
    const char *slash = strrchr(copy->path, '/');
    const json_int_t first = json_integer_value(json_object_get(root, "first_frame"));
    const json_int_t counted = json_integer_value(json_object_get(root, "frames"));
    const json_int_t held = (json_int_t)copy->frames;
    if (!json_is_array(json_object_get(root, "invalid")))
        json_object_set_new(root, "invalid", json_array());
    if (counted >= 0 && counted < held)
        json_array_append_new(json_object_get(root, "invalid"),
                              json_pack("{s:I, s:I, s:s}", "from", first + counted, "until",
                                        first + held, "cause", "unflushed"));
    json_object_set_new(root, "file", json_string(slash != NULL ? slash + 1 : copy->path));
    json_object_set_new(root, "repaired", json_true());
    json_object_set_new(root, "frames", json_integer(held));
    json_object_set_new(root, "lost_frames", json_integer(counted > held ? counted - held : 0));
    char *text = json_dumps(root, JSON_INDENT(2) | JSON_REAL_PRECISION(15));
    json_decref(root);
    const int status = disk_replace(to, text, true, problem);
    free(text);
    return status;
}

int recording_repair_copy(const char *path, struct repaired_copy *copy, struct problem *problem)
{
    struct sound_input input;
    const int failed = sound_input_file(&input, path);
    if (failed != 0)
        return problem_set(problem, ERROR_NO_FILE, "%s cannot be read: %s", path,
                           failed == ESPIPE ? "it is no regular file" : strerror(failed));
    int status = check(path, &input, problem);
    if (status == 0 && !name_copy(path, copy->path))
        status = problem_set(problem, ERROR_SYSTEM, "%s: its name is too long", path);
    if (status == 0)
        status = make_copy(path, &input, copy->path, problem);
    copy->announced = input.header.announced;
    copy->frames = input.header.held;
    copy->rate_hz = (double)input.header.rate_hz;
    sound_input_close(&input);
    return status == 0 ? copy_sidecar(path, copy, problem) : status;
}
