/* Codec: see codec.h. */
#include "core/codec.h"

#include <string.h>

/* The next `bytes` bytes as an offset; false when they do not fit. */
static bool take(struct codec *c, size_t bytes, size_t *at)
{
    if (c->failed || bytes > c->bytes - c->at) {
        c->failed = true;
        return false;
    }
    *at = c->at;
    c->at += bytes;
    return true;
}

static void number(struct codec *c, uint64_t *value, size_t bytes)
{
    size_t at;
    if (!take(c, bytes, &at)) {
        *value = codec_reads(c) ? 0 : *value;
        return;
    }
    if (codec_reads(c)) {
        *value = 0;
        for (size_t i = 0; i < bytes; i++)
            *value |= (uint64_t)c->from[at + i] << 8 * i;
    } else if (c->to != NULL) {
        for (size_t i = 0; i < bytes; i++)
            c->to[at + i] = (uint8_t)(*value >> 8 * i);
    }
}

void codec_u8(struct codec *c, uint8_t *value)
{
    uint64_t wide = *value;
    number(c, &wide, sizeof *value);
    *value = (uint8_t)wide;
}

void codec_u16(struct codec *c, uint16_t *value)
{
    uint64_t wide = *value;
    number(c, &wide, sizeof *value);
    *value = (uint16_t)wide;
}

void codec_u32(struct codec *c, uint32_t *value)
{
    uint64_t wide = *value;
    number(c, &wide, sizeof *value);
    *value = (uint32_t)wide;
}

void codec_u64(struct codec *c, uint64_t *value)
{
    number(c, value, sizeof *value);
}

void codec_i64(struct codec *c, int64_t *value)
{
    uint64_t bits = (uint64_t)*value;
    number(c, &bits, sizeof bits);
    *value = (int64_t)bits;
}

void codec_f64(struct codec *c, double *value)
{
    uint64_t bits;
    memcpy(&bits, value, sizeof bits);
    number(c, &bits, sizeof bits);
    memcpy(value, &bits, sizeof bits);
}

void codec_bool(struct codec *c, bool *value)
{
    uint64_t wide = *value;
    number(c, &wide, 1);
    c->failed = c->failed || wide > 1;
    *value = wide == 1;
}

void codec_text(struct codec *c, char *text, size_t capacity)
{
    size_t at;
    if (!take(c, capacity, &at)) {
        if (codec_reads(c))
            memset(text, 0, capacity);
        return;
    }
    if (codec_reads(c)) {
        memcpy(text, c->from + at, capacity);
        c->failed = c->failed || text[capacity - 1] != '\0';
        text[capacity - 1] = '\0';
    } else if (c->to != NULL) {
        const size_t length = strnlen(text, capacity - 1);
        memcpy(c->to + at, text, length);
        memset(c->to + at + length, 0, capacity - length);
    }
}

void codec_span(struct codec *c, const uint8_t **span, size_t bytes)
{
    size_t at;
    if (!take(c, bytes, &at))
        *span = codec_reads(c) ? NULL : *span;
    else if (codec_reads(c))
        *span = c->from + at;
    else if (c->to != NULL && bytes > 0)
        memcpy(c->to + at, *span, bytes);
}
