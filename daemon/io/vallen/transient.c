/* Transients as files hold them: see transient.h. */
#include "io/vallen/transient.h"

#include <assert.h>
#include <limits.h>
#include <math.h>
#include <sndfile.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

_Static_assert(__BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__, "codes are stored in host order");

enum { FLAC_HEADER_RATE = 44100 };

uint64_t vallen_quantise(const float *samples, size_t count, double step, int16_t *codes)
{
    uint64_t clipped = 0;
    for (size_t i = 0; i < count; i++) {
        const double code = rint((double)samples[i] / step);
        const double bounded = code > INT16_MAX ? INT16_MAX : code >= INT16_MIN ? code : INT16_MIN;
        codes[i] = isnan(code) ? 0 : (int16_t)bounded;
        clipped += !(code == bounded);
    }
    return clipped;
}

/* ---- FLAC through memory ----------------------------------------------------------------- */

void vallen_blob_free(struct vallen_blob *blob)
{
    free(blob->bytes);
    *blob = (struct vallen_blob){0};
}

/* A file in memory. Reading: `capacity` bytes are there already. */
struct memory_file {
    struct vallen_blob *blob;
    const uint8_t *bytes; /* reading: not the blob's */
    size_t count, at;
};

static sf_count_t file_length(void *user)
{
    return (sf_count_t)((struct memory_file *)user)->count;
}

static sf_count_t file_seek(sf_count_t offset, int whence, void *user)
{
    struct memory_file *file = user;
    const sf_count_t base = whence == SEEK_CUR   ? (sf_count_t)file->at
                            : whence == SEEK_END ? (sf_count_t)file->count
                                                 : 0;
    if (offset < -base || offset > (sf_count_t)(SSIZE_MAX / 2) - base)
        return -1;
    file->at = (size_t)(base + offset);
    return (sf_count_t)file->at;
}

static sf_count_t file_read(void *to, sf_count_t count, void *user)
{
    struct memory_file *file = user;
    const size_t left = file->at < file->count ? file->count - file->at : 0;
    const size_t take = (size_t)count < left ? (size_t)count : left;
    memcpy(to, file->bytes + file->at, take);
    file->at += take;
    return (sf_count_t)take;
}

/* Room for `capacity` bytes; false: there is none. */
static bool blob_reserve(struct vallen_blob *blob, size_t capacity)
{
    if (capacity <= blob->capacity)
        return true;
    const size_t wanted = capacity < 65536 ? 65536 : capacity + capacity / 2;
    uint8_t *grown = realloc(blob->bytes, wanted);
    if (grown == NULL)
        return false;
    blob->bytes = grown;
    blob->capacity = wanted;
    return true;
}

static sf_count_t file_write(const void *from, sf_count_t count, void *user)
{
    struct memory_file *file = user;
    const size_t end = file->at + (size_t)count;
    if (count < 0 || !blob_reserve(file->blob, end))
        return 0;
    if (file->at > file->count) /* sought past the end */
        memset(file->blob->bytes + file->count, 0, file->at - file->count);
    memcpy(file->blob->bytes + file->at, from, (size_t)count);
    file->at = end;
    if (end > file->count)
        file->count = end;
    return count;
}

static sf_count_t file_tell(void *user)
{
    return (sf_count_t)((struct memory_file *)user)->at;
}

static SF_VIRTUAL_IO memory_io = {
    .get_filelen = file_length,
    .seek = file_seek,
    .read = file_read,
    .write = file_write,
    .tell = file_tell,
};

int vallen_flac_encode(const int16_t *codes, size_t count, struct vallen_blob *blob)
{
    struct memory_file memory = {.blob = blob};
    SF_INFO info = {
        .samplerate = FLAC_HEADER_RATE,
        .channels = 1,
        .format = SF_FORMAT_FLAC | SF_FORMAT_PCM_16,
    };
    blob->count = 0;
    if (!blob_reserve(blob, 2 * count + 4096))
        return ERROR_MEMORY;
    SNDFILE *file = sf_open_virtual(&memory_io, SFM_WRITE, &info, &memory);
    if (file == NULL)
        return ERROR_FORMAT;
    const sf_count_t written = sf_writef_short(file, codes, (sf_count_t)count);
    const int closed = sf_close(file);
    blob->count = memory.count;
    return written == (sf_count_t)count && closed == 0 ? 0 : ERROR_FORMAT;
}

static int decode_flac(const uint8_t *bytes, size_t count, size_t samples, int16_t *codes)
{
    struct memory_file memory = {.bytes = bytes, .count = count};
    SF_INFO info = {0};
    /* libsndfile finds out the format by itself: nothing but FLAC may come here. */
    if (count < 4 || memcmp(bytes, "fLaC", 4) != 0)
        return ERROR_FORMAT;
    SNDFILE *file = sf_open_virtual(&memory_io, SFM_READ, &info, &memory);
    if (file == NULL)
        return ERROR_FORMAT;
    const bool fits = info.format == (SF_FORMAT_FLAC | SF_FORMAT_PCM_16) && info.channels == 1 &&
                      info.frames == (sf_count_t)samples;
    const bool whole =
        fits && sf_readf_short(file, codes, (sf_count_t)samples) == (sf_count_t)samples;
    sf_close(file);
    return whole ? 0 : ERROR_FORMAT;
}

int vallen_decode(int64_t format, const uint8_t *bytes, size_t count, size_t samples,
                  int16_t *codes)
{
    if (format == VALLEN_FLAC)
        return decode_flac(bytes, count, samples, codes);
    if (format != VALLEN_RAW || count != samples * sizeof *codes)
        return ERROR_FORMAT;
    memcpy(codes, bytes, count);
    return 0;
}
