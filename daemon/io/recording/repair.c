/* Repair: see repair.h. */
#include "io/recording/repair.h"

#include <ctype.h>
#include <dirent.h>
#include <errno.h>
#include <jansson.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "core/clock.h"
#include "core/log.h"
#include "io/recording/container.h"
#include "io/recording/disk.h"

/* One unfinished file. */
struct torn {
    const char *sink; /* for messages */
    char path[PATH_MAX + NAME_MAX + 2];
    char sidecar_path[PATH_MAX + NAME_MAX + 8];
    int fd;
    json_t *sidecar; /* NULL: there is none, or not a whole one */
    struct container_spec spec;
    uint64_t frames; /* in the repaired file */
};

static uint64_t number_of(const json_t *sidecar, const char *key)
{
    json_int_t value = json_integer_value(json_object_get(sidecar, key));
    return value > 0 ? (uint64_t)value : 0;
}

/* ---- which files ------------------------------------------------------------------------- */

/* True when the sidecar's first bytes say that the file needs no repair. There may be very many
 * files, so this reads the start of the text only: a line break within quotes is written as \n, so
 * the words below can only be members. */
static bool is_finished(const char *sidecar_path)
{
    char text[4096];
    FILE *file = fopen(sidecar_path, "re");
    if (file == NULL)
        return false;
    size_t count = fread(text, 1, sizeof text - 1, file);
    fclose(file);
    text[count] = '\0';
    return strstr(text, "\n  \"complete\": true") != NULL ||
           strstr(text, "\n  \"repaired\": true") != NULL;
}

/* The shape of the file's frames: by its header, or by its sidecar when the header was lost. */
static bool find_spec(struct torn *torn)
{
    uint8_t header[CONTAINER_HEADER_MAX];
    uint64_t frames;
    ssize_t count = pread(torn->fd, header, sizeof header, 0);
    if (count > 0 && container_header_read(header, (uint64_t)count, &torn->spec, &frames))
        return true;
    for (ssize_t i = 0; i < count; i++) {
        if (header[i] != 0)
            return false; /* another program's file, or a damaged one */
    }
    const char *container = json_string_value(json_object_get(torn->sidecar, "container"));
    const char *format = json_string_value(json_object_get(torn->sidecar, "format"));
    torn->spec = (struct container_spec){
        .rate_hz = (uint32_t)json_number_value(json_object_get(torn->sidecar, "rate_hz")),
        .channels = (uint32_t)json_array_size(json_object_get(torn->sidecar, "channels")),
    };
    return container != NULL && format != NULL && torn->spec.channels > 0 &&
           container_parse(container, &torn->spec.container) == 0 &&
           sample_format_parse(format, &torn->spec.format) == 0 &&
           container_format_valid(&torn->spec.format);
}

/* ---- the sidecar ------------------------------------------------------------------------- */

/* What can be said of a file whose sidecar is missing. */
static json_t *new_sidecar(const struct torn *torn)
{
    char format[24];
    const char *slash = strrchr(torn->path, '/');
    json_t *channels = json_array();
    for (uint32_t c = 0; c < torn->spec.channels; c++)
        json_array_append_new(channels, json_pack("{s:s, s:n}", "unit", "", "full_scale"));
    return json_pack(
        "{s:s, s:s, s:b, s:n, s:b, s:n, s:i, s:i, s:n, s:n, s:f, s:s, s:s, s:o, s:[]}", "file",
        slash != NULL ? slash + 1 : torn->path, "sink", torn->sink, "complete", 0, "error",
        "repaired", 1, "first_frame", "frames", 0, "synced_frames", 0, "epoch", "capture_time_ns",
        "rate_hz", (double)torn->spec.rate_hz, "container", container_name(torn->spec.container),
        "format", sample_format_name(&torn->spec.format, format), "channels", channels, "invalid");
}

/* Adds frames [from, until) of the file. */
static void add_invalid(const struct torn *torn, uint64_t from, uint64_t until, const char *cause)
{
    uint64_t first = number_of(torn->sidecar, "first_frame");
    if (from < until)
        json_array_append_new(json_object_get(torn->sidecar, "invalid"),
                              json_pack("{s:I, s:I, s:s}", "from", (json_int_t)(first + from),
                                        "until", (json_int_t)(first + until), "cause", cause));
}

/* A list of the frames that were never written: no writer leaves a hole, so a hole is a lost write.
 * Call it before the header is rewritten, which fills the first hole. */
static json_t *find_holes(const struct torn *torn)
{
    const uint64_t frame_bytes = torn->spec.channels * torn->spec.format.bytes;
    const uint64_t header_bytes = container_header_bytes(&torn->spec);
    const uint64_t end = (uint64_t)lseek(torn->fd, 0, SEEK_END);
    uint64_t at = header_bytes + number_of(torn->sidecar, "synced_frames") * frame_bytes;
    json_t *holes = json_array();
    while (at < end) {
        off_t hole = lseek(torn->fd, (off_t)at, SEEK_HOLE);
        if (hole < 0 || (uint64_t)hole >= end)
            break;
        off_t data = lseek(torn->fd, hole, SEEK_DATA);
        uint64_t until = data < 0 ? end : (uint64_t)data;
        json_array_append_new(
            holes, json_pack("[I, I]", (json_int_t)(((uint64_t)hole - header_bytes) / frame_bytes),
                             (json_int_t)((until - header_bytes + frame_bytes - 1) / frame_bytes)));
        at = until;
    }
    return holes;
}

static void add_holes(const struct torn *torn, const json_t *holes)
{
    size_t index;
    const json_t *hole;
    json_array_foreach(holes, index, hole)
    {
        uint64_t from = (uint64_t)json_integer_value(json_array_get(hole, 0));
        uint64_t until = (uint64_t)json_integer_value(json_array_get(hole, 1));
        add_invalid(torn, from, until < torn->frames ? until : torn->frames, "unwritten");
    }
}

/* Moves the time of the last frame by so many frames. */
static void move_last_capture(const struct torn *torn, uint64_t known)
{
    json_t *last = json_object_get(torn->sidecar, "last_capture_time_ns");
    if (!json_is_integer(last) || torn->spec.rate_hz == 0)
        return;
    double frames = (double)torn->frames - (double)known;
    json_integer_set(last, json_integer_value(last) +
                               (json_int_t)(frames * (double)NS_PER_SECOND / torn->spec.rate_hz));
}

/* Makes the sidecar true of the repaired file; returns the frames that were not flushed. */
static uint64_t correct_sidecar(struct torn *torn, const json_t *holes)
{
    if (torn->sidecar == NULL)
        torn->sidecar = new_sidecar(torn);
    const uint64_t known = number_of(torn->sidecar, "frames");
    const uint64_t flushed = known < torn->frames ? known : torn->frames;
    if (!json_is_array(json_object_get(torn->sidecar, "invalid")))
        json_object_set_new(torn->sidecar, "invalid", json_array());
    move_last_capture(torn, known);
    add_invalid(torn, flushed, torn->frames, "unflushed");
    add_holes(torn, holes);
    json_object_set_new(torn->sidecar, "repaired", json_true());
    json_object_set_new(torn->sidecar, "frames", json_integer((json_int_t)torn->frames));
    json_object_set_new(torn->sidecar, "lost_frames", json_integer((json_int_t)(known - flushed)));
    if (number_of(torn->sidecar, "synced_frames") > torn->frames)
        json_object_set_new(torn->sidecar, "synced_frames", json_integer((json_int_t)torn->frames));
    return torn->frames - flushed;
}

/* ---- one file ---------------------------------------------------------------------------- */

static void mend(struct torn *torn, struct owed *owed)
{
    struct problem problem;
    if (!find_spec(torn)) {
        log_warning("sink %s: %s was not finished and has no header that can be read; it stays as "
                    "it is",
                    torn->sink, torn->path);
        return;
    }
    json_t *holes = find_holes(torn);
    int status = container_repair(torn->fd, &torn->spec, &torn->frames);
    if (status != 0) {
        json_decref(holes);
        log_warning("sink %s: %s was not finished and cannot be repaired: %s", torn->sink,
                    torn->path, status == ERROR_FORMAT ? "it holds no frame" : strerror(errno));
        return;
    }
    uint64_t unflushed = correct_sidecar(torn, holes);
    json_decref(holes);
    char *text = json_dumps(torn->sidecar, JSON_INDENT(2) | JSON_REAL_PRECISION(15));
    if (disk_replace(torn->sidecar_path, text, true, &problem) != 0) {
        log_warning("sink %s: %s; it is tried again while the sink runs", torn->sink, problem.text);
        owed_add(owed, torn->path, text, true, NULL, torn->fd);
        torn->fd = -1;
        return;
    }
    log_notice("sink %s: %s was not finished by an earlier run and is repaired: it holds %llu "
               "frames, the last %llu of them not flushed",
               torn->sink, torn->path, (unsigned long long)torn->frames,
               (unsigned long long)unflushed);
    free(text);
}

/* True when a file is not complete and yet has ended, because the disk refused a part of it or its
 * source was interrupted: its header and its length already agree with what the sidecar says. */
static bool has_ended(const struct torn *torn)
{
    uint8_t header[CONTAINER_HEADER_MAX];
    struct container_spec spec;
    uint64_t frames;
    ssize_t count = pread(torn->fd, header, sizeof header, 0);
    off_t length = lseek(torn->fd, 0, SEEK_END);
    if ((!json_is_string(json_object_get(torn->sidecar, "error")) &&
         !json_is_string(json_object_get(torn->sidecar, "ended"))) ||
        count <= 0 || !container_header_read(header, (uint64_t)count, &spec, &frames) ||
        frames != number_of(torn->sidecar, "frames"))
        return false;
    uint64_t bytes = container_header_bytes(&spec) + frames * spec.channels * spec.format.bytes;
    return (uint64_t)length == bytes || (uint64_t)length == bytes + bytes % 2;
}

static void repair_file(const struct recording_files *files, const char *name, struct owed *owed)
{
    struct torn torn = {.sink = files->sink};
    snprintf(torn.path, sizeof torn.path, "%s/%s", files->directory, name);
    snprintf(torn.sidecar_path, sizeof torn.sidecar_path, "%s.json", torn.path);
    if (is_finished(torn.sidecar_path))
        return;
    torn.fd = disk_open_unused(torn.path);
    if (torn.fd < 0)
        return;
    torn.sidecar = json_load_file(torn.sidecar_path, 0, NULL);
    if (!has_ended(&torn))
        mend(&torn, owed);
    json_decref(torn.sidecar);
    if (torn.fd >= 0)
        close(torn.fd);
}

/* Deletes RECORDING.json.N.part, which a run left that ended while it replaced a sidecar. */
static void remove_part(const struct recording_files *files, const char *name)
{
    char recording[PATH_MAX], path[2 * PATH_MAX];
    const char *json = strstr(name, ".json.");
    if (json == NULL)
        return;
    const char *end = json + strlen(".json.");
    while (isdigit((unsigned char)*end))
        end++;
    snprintf(recording, sizeof recording, "%.*s", (int)(json - name), name);
    if (strcmp(end, ".part") != 0 || !recording_files_match(files, recording))
        return;
    snprintf(path, sizeof path, "%s/%s", files->directory, recording);
    int fd = disk_open_unused(path);
    if (fd < 0 && errno != ENOENT)
        return; /* its writer may be at it */
    snprintf(path, sizeof path, "%s/%s", files->directory, name);
    disk_remove(path);
    if (fd >= 0)
        close(fd);
}

void recording_repair(const struct recording_files *files, struct owed *owed)
{
    DIR *directory = opendir(files->directory);
    if (directory == NULL)
        return;
    for (const struct dirent *entry; (entry = readdir(directory)) != NULL;) {
        if (recording_files_match(files, entry->d_name))
            repair_file(files, entry->d_name, owed);
        else
            remove_part(files, entry->d_name);
    }
    closedir(directory);
}
