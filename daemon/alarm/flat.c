/* Flat lines: see flat.h. */
#include "alarm/flat.h"

#include <assert.h>
#include <string.h>

/* The first of `frames` codes that differs from `code`; `frames` when none does. One loop a width:
 * a comparison of constant length is one instruction. */
static uint64_t first_other(const uint8_t *codes, const uint8_t *code, uint32_t bytes,
                            uint32_t stride, uint64_t frames)
{
    uint64_t i = 0;
    switch (bytes) {
    case 2:
        while (i < frames && memcmp(codes + i * stride, code, 2) == 0)
            i++;
        return i;
    case 4:
        while (i < frames && memcmp(codes + i * stride, code, 4) == 0)
            i++;
        return i;
    default:
        while (i < frames && memcmp(codes + i * stride, code, bytes) == 0)
            i++;
        return i;
    }
}

bool flat_read(struct flat *flat, const uint8_t *codes, uint32_t bytes, uint32_t stride,
               uint64_t frames)
{
    assert(bytes > 0 && bytes <= FLAT_CODE_BYTES && frames > 0);
    const uint8_t *last = codes + (frames - 1) * stride;
    if (flat->frames == 0)
        memcpy(flat->code, last, bytes);
    if (memcmp(last, flat->code, bytes) == 0 &&
        first_other(codes, flat->code, bytes, stride, frames) == frames) {
        flat->frames += frames;
        return true;
    }
    memcpy(flat->code, last, bytes);
    flat->frames = 1;
    return false;
}

bool flat_may_be(const struct flat *flat, const uint8_t *codes, uint32_t bytes, uint32_t stride,
                 uint64_t frames, uint32_t samples)
{
    assert(bytes > 0 && bytes <= FLAT_CODE_BYTES && frames > 0 && samples >= 2);
    const uint8_t *last = codes + (frames - 1) * stride;
    if (flat->frames > 0 && memcmp(last, flat->code, bytes) != 0)
        return false;
    for (uint32_t i = 0; i + 1 < samples; i++)
        if (memcmp(codes + (frames - 1) * i / (samples - 1) * stride, last, bytes) != 0)
            return false;
    return true;
}
