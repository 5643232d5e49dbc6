/*
 * Containers: see container.h. A header is built in memory and written by one pwrite; frames are
 * written by pwrite at the offset that follows from the number of frames before them.
 */
#include "io/recording/container.h"

#include <assert.h>
#include <errno.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "io/recording/disk.h"

static const char *const names[] = {"wav", "rf64", "w64"};

const char *container_name(enum container container)
{
    return names[container];
}

int container_parse(const char *name, enum container *container)
{
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

static int write_header(struct container_file *file, uint64_t claimed)
{
    assert(claimed >= file->frames);
    uint8_t header[CONTAINER_HEADER_MAX];
    container_header(&file->spec, file->frames, claimed, header);
    if (disk_write(file->fd, header, file->header_bytes, 0) < file->header_bytes)
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
    file->fd = disk_create(path);
    if (file->fd < 0)
        return problem_set(problem, ERROR_NO_FILE, "recording %s cannot be created: %s", path,
                           strerror(errno));
    if (write_header(file, 0) == 0)
        return 0;
    int saved = errno;
    close(file->fd);
    file->fd = -1;
    disk_remove(path);
    errno = saved;
    return problem_set(problem, ERROR_SYSTEM, "recording %s cannot be written: %s", path,
                       strerror(saved));
}

uint64_t container_append(struct container_file *file, const uint8_t *bytes, uint64_t frames)
{
    if (claim_ahead(file, frames) != 0)
        return 0;
    uint64_t offset = file->header_bytes + file->frames * file->frame_bytes;
    uint64_t written = disk_write(file->fd, bytes, frames * file->frame_bytes, offset);
    uint64_t whole = written / file->frame_bytes;
    file->frames += whole;
    if (whole < frames) {
        int saved = errno;
        /* The write may have left a part of a frame. If truncating fails too, the header still
         * does not count it. */
        int ignored = disk_truncate(file->fd, offset + whole * file->frame_bytes);
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

int container_sync(struct container_file *file)
{
    return disk_sync(file->fd) == 0 ? 0 : ERROR_SYSTEM;
}

/* RIFF pads chunks to an even size. The last chunk of a W64 needs no padding: readers take the end
 * of the file for the end of the data. */
static uint64_t padding_bytes(const struct container_spec *spec, uint64_t data_bytes)
{
    return spec->container == CONTAINER_W64 ? 0 : data_bytes & 1;
}

static int write_end(struct container_file *file)
{
    static const uint8_t padding[1];
    uint64_t data_bytes = file->frames * file->frame_bytes;
    uint64_t pad = padding_bytes(&file->spec, data_bytes);
    bool padded = disk_write(file->fd, padding, pad, file->header_bytes + data_bytes) == pad;
    int saved = errno;
    int status = write_header(file, file->frames); /* also when the padding failed */
    if (padded)
        return status;
    errno = saved;
    return ERROR_SYSTEM;
}

int container_close(struct container_file *file, bool sync)
{
    if (file->fd < 0)
        return 0;
    int status = write_end(file);
    if (status == 0 && sync)
        status = container_sync(file);
    int saved = errno;
    if (close(file->fd) != 0 && status == 0) {
        status = ERROR_SYSTEM;
        saved = errno;
    }
    file->fd = -1;
    errno = saved;
    return status;
}

/* ---- a file that its writer did not close ------------------------------------------------ */

static uint64_t get_number(const uint8_t *at, int bytes)
{
    uint64_t value = 0;
    for (int i = bytes - 1; i >= 0; i--)
        value = value << 8 | at[i];
    return value;
}

/* The WAVEFORMAT at `fmt`; false when a recording has no such format. */
static bool read_format(const uint8_t *fmt, struct container_spec *spec)
{
    uint64_t tag = get_number(fmt, 2), bits = get_number(fmt + 14, 2);
    spec->channels = (uint32_t)get_number(fmt + 2, 2);
    spec->rate_hz = (uint32_t)get_number(fmt + 4, 4);
    spec->format = (struct sample_format){
        .kind = tag == 3    ? SAMPLE_FLOAT
                : bits == 8 ? SAMPLE_UNSIGNED
                            : SAMPLE_SIGNED,
        .bytes = (uint8_t)(bits / 8),
        .bits = (uint8_t)bits,
    };
    return (tag == 1 || tag == 3) && bits <= 32 && spec->channels > 0 &&
           container_format_valid(&spec->format);
}

bool container_header_read(const uint8_t *bytes, uint64_t count, struct container_spec *spec,
                           uint64_t *frames)
{
    enum { W64_FORMAT = 64, RIFF_FORMAT = 56, FORMAT_BYTES = 16, RF64_DATA = 28 };
    *spec = (struct container_spec){.container = CONTAINER_WAV};
    if (count >= 4 && memcmp(bytes, "riff", 4) == 0)
        spec->container = CONTAINER_W64;
    else if (count >= 4 && memcmp(bytes, "RF64", 4) == 0)
        spec->container = CONTAINER_RF64;
    const unsigned format = spec->container == CONTAINER_W64 ? W64_FORMAT : RIFF_FORMAT;
    if (count < format + FORMAT_BYTES || !read_format(bytes + format, spec))
        return false;
    const uint32_t header_bytes = container_header_bytes(spec);
    if (count < header_bytes)
        return false;
    uint64_t claimed;
    if (spec->container == CONTAINER_W64)
        claimed = get_number(bytes + header_bytes - 8, 8) - 24;
    else if (spec->container == CONTAINER_RF64)
        claimed = get_number(bytes + RF64_DATA, 8);
    else
        claimed = get_number(bytes + header_bytes - 4, 4);
    claimed /= frame_bytes_of(spec);
    *frames = claimed;
    if (spec->container == CONTAINER_W64 && spec->format.kind == SAMPLE_FLOAT)
        *frames = get_number(bytes + header_bytes - 32, 8);
    /* It is one of ours when these numbers make the same header again. */
    uint8_t header[CONTAINER_HEADER_MAX];
    container_header(spec, *frames, claimed, header);
    return memcmp(header, bytes, header_bytes) == 0;
}

/* True when the header says that the last of these bytes is padding. */
static bool is_padded(int fd, uint64_t data_bytes)
{
    uint8_t header[CONTAINER_HEADER_MAX];
    struct container_spec spec;
    uint64_t frames;
    ssize_t count = pread(fd, header, sizeof header, 0);
    if (count <= 0 || !container_header_read(header, (uint64_t)count, &spec, &frames))
        return false;
    uint64_t counted = frames * frame_bytes_of(&spec);
    return padding_bytes(&spec, counted) == 1 && data_bytes == counted + 1;
}

int container_repair(int fd, const struct container_spec *spec, uint64_t *frames)
{
    struct container_file file = {
        .spec = *spec,
        .fd = fd,
        .frame_bytes = frame_bytes_of(spec),
        .header_bytes = container_header_bytes(spec),
    };
    struct stat status;
    if (fstat(fd, &status) != 0)
        return ERROR_SYSTEM;
    if ((uint64_t)status.st_size < file.header_bytes)
        return ERROR_FORMAT;
    uint64_t data_bytes = (uint64_t)status.st_size - file.header_bytes;
    file.frames = data_bytes / file.frame_bytes;
    if (file.frame_bytes == 1 && is_padded(fd, data_bytes))
        file.frames--;
    if (disk_truncate(fd, file.header_bytes + file.frames * file.frame_bytes) != 0 ||
        write_end(&file) != 0 || container_sync(&file) != 0)
        return ERROR_SYSTEM;
    *frames = file.frames;
    return 0;
}
