/* Sound input: see sound_input.h. */
#include "signal/sound_input.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

static bool read_at(void *context, uint64_t at, void *to, size_t bytes)
{
    const struct sound_input *input = context;
    if (input->data != NULL) {
        memcpy(to, input->data + at, bytes);
        return true;
    }
    uint8_t *next = to;
    while (bytes > 0) {
        const ssize_t got = pread(input->fd, next, bytes, (off_t)at);
        if (got < 0 && errno == EINTR)
            continue;
        if (got <= 0)
            return false;
        next += got;
        at += (uint64_t)got;
        bytes -= (size_t)got;
    }
    return true;
}

static void read_header(struct sound_input *input)
{
    const struct sound_bytes bytes = {.context = input, .length = input->bytes, .read = read_at};
    sound_header_read(&bytes, &input->header);
}

int sound_input_file(struct sound_input *input, const char *path)
{
    struct stat status;
    *input = (struct sound_input){.fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK)};
    if (input->fd < 0)
        return errno;
    const int failed = fstat(input->fd, &status) != 0 ? errno : 0;
    if (failed != 0 || !S_ISREG(status.st_mode)) {
        sound_input_close(input);
        return failed != 0 ? failed : S_ISDIR(status.st_mode) ? EISDIR : ESPIPE;
    }
    input->bytes = (uint64_t)status.st_size;
    read_header(input);
    return 0;
}

void sound_input_memory(struct sound_input *input, const void *data, uint64_t bytes)
{
    *input = (struct sound_input){.data = data, .fd = -1, .bytes = bytes};
    read_header(input);
}

/* ---- what libsndfile calls --------------------------------------------------------------- */

static sf_count_t virtual_length(void *context)
{
    return (sf_count_t)((const struct sound_input *)context)->bytes;
}

static sf_count_t virtual_seek(sf_count_t offset, int whence, void *context)
{
    struct sound_input *input = context;
    const sf_count_t end = (sf_count_t)input->bytes;
    const sf_count_t base = whence == SEEK_SET ? 0 : whence == SEEK_CUR ? input->at : end;
    sf_count_t at;
    if (__builtin_add_overflow(base, offset, &at) || at < 0 || at > end)
        return -1;
    return input->at = at;
}

/* Replaces what the patches say of bytes [at, at + count). */
static void apply_patches(const struct sound_header *header, uint64_t at, uint8_t *to,
                          uint64_t count)
{
    for (uint32_t i = 0; i < header->patch_count; i++) {
        const struct sound_patch *patch = &header->patches[i];
        for (uint32_t k = 0; k < patch->bytes; k++)
            if (patch->at + k >= at && patch->at + k < at + count)
                to[patch->at + k - at] = patch->value[k];
    }
}

bool sound_input_read(struct sound_input *input, uint64_t at, void *to, uint64_t bytes)
{
    if (at > input->bytes || bytes > input->bytes - at || !read_at(input, at, to, bytes))
        return false;
    apply_patches(&input->header, at, to, bytes);
    return true;
}

static sf_count_t virtual_read(void *to, sf_count_t bytes, void *context)
{
    struct sound_input *input = context;
    const sf_count_t left = (sf_count_t)input->bytes - input->at;
    if (bytes > left)
        bytes = left;
    if (bytes <= 0 || !sound_input_read(input, (uint64_t)input->at, to, (uint64_t)bytes))
        return 0;
    input->at += bytes;
    return bytes;
}

static sf_count_t virtual_write(const void *from, sf_count_t bytes, void *context)
{
    (void)from, (void)bytes, (void)context;
    return 0; /* opened for reading only */
}

static sf_count_t virtual_tell(void *context)
{
    return ((const struct sound_input *)context)->at;
}

SNDFILE *sound_input_open(struct sound_input *input, SF_INFO *info)
{
    SF_VIRTUAL_IO io = {virtual_length, virtual_seek, virtual_read, virtual_write, virtual_tell};
    input->at = 0;
    memset(info, 0, sizeof *info);
    return sf_open_virtual(&io, SFM_READ, info, input);
}

void sound_input_close(struct sound_input *input)
{
    if (input->fd >= 0)
        close(input->fd);
    input->fd = -1;
}
