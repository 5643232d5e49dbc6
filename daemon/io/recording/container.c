/*
 * Containers: see container.h. A header is built in memory and written by one pwrite; frames are
 * written by pwrite at the offset that follows from the number of frames before them.
 */
#include "io/recording/container.h"

#include <assert.h>
#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <unistd.h>

int container_parse(const char *name, enum container *container)
{
    static const char *const names[] = {"wav", "rf64", "w64"};
    for (int i = 0; i < CONTAINERS; i++) {
        if (strcmp(name, names[i]) == 0) {
            *container = (enum container)i;
            return 0;
        }
    }
    return ERROR_ARGUMENT;
}

bool container_format_valid(const struct sample_format *format)
{
    if (!sample_format_valid(format) || format->bits != 8 * format->bytes)
        return false;
    if (format->bytes == 1)
        return format->kind == SAMPLE_UNSIGNED;
    return format->kind != SAMPLE_UNSIGNED && !format->big_endian;
}

/* ---- headers ----------------------------------------------------------------------------- */

struct cursor {
    uint8_t *at;
};

static void put_bytes(struct cursor *c, const void *bytes, size_t count)
{
    memcpy(c->at, bytes, count);
    c->at += count;
}

static void put_number(struct cursor *c, uint64_t value, int bytes)
{
    for (int i = 0; i < bytes; i++)
        *c->at++ = (uint8_t)(value >> (8 * i));
}

static uint32_t frame_bytes_of(const struct container_spec *spec)
{
    return spec->channels * spec->format.bytes;
}

/* WAVEFORMAT: 16 bytes that all three containers share. */
static void put_format(struct cursor *c, const struct container_spec *spec)
{
    uint64_t bytes_per_s = (uint64_t)spec->rate_hz * frame_bytes_of(spec);
    put_number(c, spec->format.kind == SAMPLE_FLOAT ? 3 : 1, 2); /* IEEE float : PCM */
    put_number(c, spec->channels, 2);
    put_number(c, spec->rate_hz, 4);
    put_number(c, bytes_per_s < UINT32_MAX ? bytes_per_s : UINT32_MAX, 4); /* only a hint */
    put_number(c, frame_bytes_of(spec), 2);
    put_number(c, spec->format.bits, 2);
}

static void riff_header(struct cursor *c, const struct container_spec *spec, uint64_t frames)
{
    bool is_float = spec->format.kind == SAMPLE_FLOAT;
    uint64_t data_bytes = frames * frame_bytes_of(spec);
    uint64_t riff_bytes = container_header_bytes(spec) - 8 + data_bytes + (data_bytes & 1);
    uint64_t limit = spec->riff_bytes_max > 0 ? spec->riff_bytes_max : UINT32_MAX;
    bool large = spec->container == CONTAINER_RF64 || riff_bytes > limit;

    put_bytes(c, large ? "RF64" : "RIFF", 4);
    put_number(c, large ? UINT32_MAX : riff_bytes, 4);
    put_bytes(c, "WAVE", 4);
    put_bytes(c, large ? "ds64" : "JUNK", 4);
    put_number(c, 28, 4);
    put_number(c, large ? riff_bytes : 0, 8);
    put_number(c, large ? data_bytes : 0, 8);
    put_number(c, large ? frames : 0, 8);
    put_number(c, 0, 4); /* no further chunk sizes */
    put_bytes(c, "fmt ", 4);
    put_number(c, is_float ? 18 : 16, 4);
    put_format(c, spec);
    if (is_float) {
        put_number(c, 0, 2); /* no extension */
        put_bytes(c, "fact", 4);
        put_number(c, 4, 4);
        put_number(c, large ? UINT32_MAX : frames, 4);
    }
    put_bytes(c, "data", 4);
    put_number(c, large ? UINT32_MAX : data_bytes, 4);
}

/* Sony Wave64: a chunk name is a GUID that begins with the RIFF name; a chunk's size includes its
 * name and size fields. */
static void w64_name(struct cursor *c, const char name[4])
{
    static const uint8_t riff_rest[12] = {0x2E, 0x91, 0xCF, 0x11, 0xA5, 0xD6,
                                          0x28, 0xDB, 0x04, 0xC1, 0x00, 0x00};
    static const uint8_t rest[12] = {0xF3, 0xAC, 0xD3, 0x11, 0x8C, 0xD1,
                                     0x00, 0xC0, 0x4F, 0x8E, 0xDB, 0x8A};
    put_bytes(c, name, 4);
    put_bytes(c, memcmp(name, "riff", 4) == 0 ? riff_rest : rest, 12);
}

/* The size fields count `claimed` frames, the fact chunk `frames`. */
static void w64_header(struct cursor *c, const struct container_spec *spec, uint64_t frames,
                       uint64_t claimed)
{
    uint64_t data_bytes = claimed * frame_bytes_of(spec);
    w64_name(c, "riff");
    put_number(c, container_header_bytes(spec) + data_bytes, 8);
    w64_name(c, "wave");
    w64_name(c, "fmt ");
    put_number(c, 24 + 16, 8);
    put_format(c, spec);
    if (spec->format.kind == SAMPLE_FLOAT) {
        w64_name(c, "fact");
        put_number(c, 24 + 8, 8);
        put_number(c, frames, 8);
    }
    w64_name(c, "data");
    put_number(c, 24 + data_bytes, 8);
}

uint32_t container_header_bytes(const struct container_spec *spec)
{
    bool is_float = spec->format.kind == SAMPLE_FLOAT;
    if (spec->container == CONTAINER_W64)
        return 40 + 40 + (is_float ? 32 : 0) + 24;
    return 12 + 36 + (is_float ? 26 + 12 : 24) + 8;
}

void container_header(const struct container_spec *spec, uint64_t frames, uint64_t claimed,
                      uint8_t header[CONTAINER_HEADER_MAX])
{
    memset(header, 0, container_header_bytes(spec));
    struct cursor cursor = {header};
    if (spec->container == CONTAINER_W64)
        w64_header(&cursor, spec, frames, claimed);
    else
        riff_header(&cursor, spec, frames);
    assert(cursor.at == header + container_header_bytes(spec));
}

/* ---- a growing file ---------------------------------------------------------------------- */

/* Returns how many bytes it wrote: fewer than `count` when a write failed (errno). */
static uint64_t write_at(int fd, const uint8_t *bytes, uint64_t count, uint64_t offset)
{
    uint64_t done = 0;
    while (done < count) {
        ssize_t written = pwrite(fd, bytes + done, count - done, (off_t)(offset + done));
        if (written < 0 && errno == EINTR)
            continue;
        if (written <= 0) {
            if (written == 0)
                errno = ENOSPC;
            break;
        }
        done += (uint64_t)written;
    }
    return done;
}

static int write_header(struct container_file *file, uint64_t claimed)
{
    assert(claimed >= file->frames);
    uint8_t header[CONTAINER_HEADER_MAX];
    container_header(&file->spec, file->frames, claimed, header);
    if (write_at(file->fd, header, file->header_bytes, 0) < file->header_bytes)
        return ERROR_SYSTEM;
    file->frames_in_header = file->frames;
    file->frames_claimed = claimed;
    return 0;
}

/* Grows the size of a W64's data chunk before frames are written past it. Readers skip the chunk by
 * its size and refuse a file in which anything but a chunk follows, whereas they read a file that
 * ends early to its end. The size runs a second ahead, so that few appends rewrite the header. */
static int claim_ahead(struct container_file *file, uint64_t frames)
{
    uint64_t end = file->frames + frames;
    if (file->spec.container != CONTAINER_W64 || end <= file->frames_claimed)
        return 0;
    return write_header(file, end + file->spec.rate_hz);
}

int container_create(struct container_file *file, const char *path,
                     const struct container_spec *spec, struct problem *problem)
{
    assert(container_format_valid(&spec->format));
    *file = (struct container_file){
        .spec = *spec,
        .frame_bytes = frame_bytes_of(spec),
        .header_bytes = container_header_bytes(spec),
    };
    file->fd = open(path, O_CREAT | O_EXCL | O_RDWR | O_CLOEXEC, 0644);
    if (file->fd < 0)
        return problem_set(problem, ERROR_NO_FILE, "recording %s cannot be created: %s", path,
                           strerror(errno));
    if (write_header(file, 0) == 0)
        return 0;
    int saved = errno;
    close(file->fd);
    file->fd = -1;
    unlink(path);
    errno = saved;
    return problem_set(problem, ERROR_SYSTEM, "recording %s cannot be written: %s", path,
                       strerror(saved));
}

uint64_t container_append(struct container_file *file, const uint8_t *bytes, uint64_t frames)
{
    if (claim_ahead(file, frames) != 0)
        return 0;
    uint64_t offset = file->header_bytes + file->frames * file->frame_bytes;
    uint64_t written = write_at(file->fd, bytes, frames * file->frame_bytes, offset);
    uint64_t whole = written / file->frame_bytes;
    file->frames += whole;
    if (whole < frames) {
        int saved = errno;
        /* The write may have left a part of a frame. If truncating fails too, the header still
         * does not count it. */
        int ignored = ftruncate(file->fd, (off_t)(offset + whole * file->frame_bytes));
        (void)ignored;
        errno = saved;
    }
    return whole;
}

int container_flush(struct container_file *file)
{
    if (file->frames == file->frames_in_header)
        return 0;
    bool ahead = file->spec.container == CONTAINER_W64 && file->frames_claimed > file->frames;
    return write_header(file, ahead ? file->frames_claimed : file->frames);
}

int container_close(struct container_file *file)
{
    if (file->fd < 0)
        return 0;
    uint64_t data_bytes = file->frames * file->frame_bytes;
    static const uint8_t padding[1];
    /* RIFF pads chunks to an even size. The last chunk of a W64 needs no padding: readers take the
     * end of the file for the end of the data. */
    uint64_t pad = file->spec.container == CONTAINER_W64 ? 0 : data_bytes & 1;
    int status = 0;
    if (write_at(file->fd, padding, pad, file->header_bytes + data_bytes) < pad)
        status = ERROR_SYSTEM;
    if (write_header(file, file->frames) != 0)
        status = ERROR_SYSTEM;
    int saved = errno;
    if (close(file->fd) != 0 && status == 0) {
        status = ERROR_SYSTEM;
        saved = errno;
    }
    file->fd = -1;
    errno = saved;
    return status;
}
