/*
 * Codec: a record of fixed fields as bytes, little-endian, without padding. One walk over the
 * fields serves three ends: it counts the bytes of a record, writes it, or reads it back. So a
 * writer and its reader cannot disagree about the order.
 *
 *     static void walk(struct codec *c, struct thing *thing)
 *     {
 *         codec_u32(c, &thing->count);
 *         codec_f64(c, &thing->rate_hz);
 *     }
 *
 * Nothing here reads or writes past the end: a field that does not fit sets `failed`, and reads as
 * zero. The caller checks `failed` once, and holds the values against what they may be.
 *
 * Never allocates. One owner.
 */
#ifndef CONVOLVD_CORE_CODEC_H
#define CONVOLVD_CORE_CODEC_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct codec {
    uint8_t *to;         /* writing; NULL: only counts */
    const uint8_t *from; /* reading; else NULL */
    size_t bytes;        /* of either; SIZE_MAX to count */
    size_t at;
    bool failed; /* a field lay beyond the end, or was no bool */
};

static inline struct codec codec_counter(void)
{
    return (struct codec){.bytes = SIZE_MAX};
}

static inline struct codec codec_writer(uint8_t *to, size_t bytes)
{
    return (struct codec){.to = to, .bytes = bytes};
}

static inline struct codec codec_reader(const uint8_t *from, size_t bytes)
{
    return (struct codec){.from = from, .bytes = bytes};
}

static inline bool codec_reads(const struct codec *codec)
{
    return codec->from != NULL;
}

void codec_u8(struct codec *codec, uint8_t *value);
void codec_u16(struct codec *codec, uint16_t *value);
void codec_u32(struct codec *codec, uint32_t *value);
void codec_u64(struct codec *codec, uint64_t *value);
void codec_i64(struct codec *codec, int64_t *value);
void codec_f64(struct codec *codec, double *value); /* its 64 bits */
void codec_bool(struct codec *codec, bool *value);  /* one byte, 0 or 1 */
/* `capacity` bytes of a terminated text, zeros behind it. */
void codec_text(struct codec *codec, char *text, size_t capacity);
/* `bytes` bytes as they are: writes those at *span; points *span at those read (NULL when they do
 * not fit). */
void codec_span(struct codec *codec, const uint8_t **span, size_t bytes);

#endif
