/* A sound file in memory: see sound_memory.h. */
#include "signal/sound_memory.h"

#include <stdio.h>
#include <string.h>

static sf_count_t memory_length(void *context)
{
    return (sf_count_t)((const struct sound_memory *)context)->bytes;
}

static sf_count_t memory_seek(sf_count_t offset, int whence, void *context)
{
    struct sound_memory *memory = context;
    const sf_count_t end = (sf_count_t)memory->bytes;
    sf_count_t base = whence == SEEK_SET ? 0 : whence == SEEK_CUR ? memory->at : end;
    sf_count_t at;
    if (__builtin_add_overflow(base, offset, &at) || at < 0 || at > end)
        return -1;
    return memory->at = at;
}

static sf_count_t memory_read(void *to, sf_count_t bytes, void *context)
{
    struct sound_memory *memory = context;
    sf_count_t left = (sf_count_t)memory->bytes - memory->at;
    if (bytes > left)
        bytes = left;
    if (bytes <= 0)
        return 0;
    memcpy(to, memory->data + memory->at, (size_t)bytes);
    memory->at += bytes;
    return bytes;
}

static sf_count_t memory_write(const void *from, sf_count_t bytes, void *context)
{
    (void)from, (void)bytes, (void)context;
    return 0; /* opened for reading only */
}

static sf_count_t memory_tell(void *context)
{
    return ((const struct sound_memory *)context)->at;
}

SNDFILE *sound_open_memory(struct sound_memory *memory, SF_INFO *info)
{
    SF_VIRTUAL_IO io = {memory_length, memory_seek, memory_read, memory_write, memory_tell};
    return sf_open_virtual(&io, SFM_READ, info, memory);
}
