/* Sound files: see sound_file.h. */
#include "signal/sound_file.h"

#include <stdio.h>
#include <string.h>

static uint64_t little_endian(const uint8_t *at, int bytes)
{
    uint64_t value = 0;
    for (int i = bytes - 1; i >= 0; i--)
        value = value << 8 | at[i];
    return value;
}

bool sound_head_is_w64_float(const uint8_t *head, size_t bytes)
{
    enum { CHUNK = 24, EXTENSIBLE = 0xFFFE, FLOATS = 3, SUB_FORMAT = 24 };
    /* Sony Wave64: riff GUID, size, wave GUID, then chunks of {GUID, size with these 24 bytes}. */
    if (bytes < 40 || memcmp(head, "riff\x2E\x91\xCF\x11", 8) != 0 ||
        memcmp(head + 24, "wave", 4) != 0)
        return false;
    size_t at = 40;
    while (bytes - at >= CHUNK + SUB_FORMAT + 2) {
        uint64_t size = little_endian(head + at + 16, 8);
        const uint8_t *fmt = head + at + CHUNK;
        if (memcmp(head + at, "fmt ", 4) == 0)
            return size >= CHUNK + SUB_FORMAT + 2 && little_endian(fmt, 2) == EXTENSIBLE &&
                   little_endian(fmt + SUB_FORMAT, 2) == FLOATS;
        if (size < CHUNK || size > bytes - at - 7)
            return false;
        at += (size + 7) / 8 * 8;
    }
    return false;
}

bool sound_is_w64_float(const char *path)
{
    uint8_t head[SOUND_HEAD_BYTES];
    FILE *file = fopen(path, "rb");
    if (file == NULL)
        return false;
    size_t bytes = fread(head, 1, sizeof head, file);
    fclose(file);
    return sound_head_is_w64_float(head, bytes);
}
