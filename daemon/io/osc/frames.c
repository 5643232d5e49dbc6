/* OSC frames: see frames.h. */
#include "io/osc/frames.h"

#include <string.h>

#include "core/error.h"

enum {
    LENGTH_BYTES = 4,
    /* RFC 1055 */
    END = 0xc0,
    ESC = 0xdb,
    ESC_END = 0xdc,
    ESC_ESC = 0xdd,
};

static enum osc_framing framing_of(uint8_t first)
{
    if (first == 0)
        return OSC_FRAMING_LENGTH;
    return first == END || first == '/' || first == '#' ? OSC_FRAMING_SLIP : OSC_FRAMING_UNKNOWN;
}

static size_t length_of(const uint8_t *at)
{
    return (size_t)at[0] << 24 | (size_t)at[1] << 16 | (size_t)at[2] << 8 | at[3];
}

static int feed_length(struct osc_frames *f, const uint8_t *data, size_t bytes,
                       void (*packet)(void *context, const uint8_t *data, size_t bytes),
                       void *context)
{
    while (bytes > 0) {
        size_t wanted = LENGTH_BYTES;
        if (f->used >= LENGTH_BYTES) {
            size_t length = length_of(f->buffer);
            if (length > f->capacity - LENGTH_BYTES)
                return ERROR_LIMIT;
            wanted += length;
        }
        size_t some = wanted - f->used < bytes ? wanted - f->used : bytes;
        memcpy(f->buffer + f->used, data, some);
        f->used += some;
        data += some;
        bytes -= some;
        if (f->used == LENGTH_BYTES && length_of(f->buffer) == 0)
            f->used = 0; /* an empty packet keeps a connection alive */
        else if (f->used > LENGTH_BYTES && f->used == wanted) {
            f->used = 0;
            packet(context, f->buffer + LENGTH_BYTES, wanted - LENGTH_BYTES);
        }
    }
    return f->used >= LENGTH_BYTES && length_of(f->buffer) > f->capacity - LENGTH_BYTES
               ? ERROR_LIMIT
               : 0;
}

static int feed_slip(struct osc_frames *f, const uint8_t *data, size_t bytes,
                     void (*packet)(void *context, const uint8_t *data, size_t bytes),
                     void *context)
{
    for (size_t i = 0; i < bytes; i++) {
        uint8_t byte = data[i];
        if (byte == END) {
            size_t used = f->used;
            if (f->escaped)
                return ERROR_FORMAT;
            f->used = 0;
            if (used > 0)
                packet(context, f->buffer, used);
            continue;
        }
        if (f->escaped) {
            if (byte != ESC_END && byte != ESC_ESC)
                return ERROR_FORMAT;
            byte = byte == ESC_END ? END : ESC;
            f->escaped = false;
        } else if (byte == ESC) {
            f->escaped = true;
            continue;
        }
        if (f->used == f->capacity - LENGTH_BYTES)
            return ERROR_LIMIT;
        f->buffer[f->used++] = byte;
    }
    return 0;
}

int osc_frames_feed(struct osc_frames *f, const uint8_t *data, size_t bytes,
                    void (*packet)(void *context, const uint8_t *data, size_t bytes), void *context)
{
    if (bytes == 0)
        return 0;
    if (f->framing == OSC_FRAMING_UNKNOWN)
        f->framing = framing_of(data[0]);
    if (f->framing == OSC_FRAMING_UNKNOWN)
        return ERROR_FORMAT;
    return f->framing == OSC_FRAMING_LENGTH ? feed_length(f, data, bytes, packet, context)
                                            : feed_slip(f, data, bytes, packet, context);
}

bool osc_frames_partial(const struct osc_frames *f)
{
    return f->used > 0 || f->escaped;
}

size_t osc_frames_wrap(enum osc_framing framing, const uint8_t *data, size_t bytes, uint8_t *out,
                       size_t capacity)
{
    if (framing != OSC_FRAMING_SLIP) {
        if (capacity < bytes + LENGTH_BYTES)
            return 0;
        for (int i = 0; i < LENGTH_BYTES; i++)
            out[i] = (uint8_t)(bytes >> (24 - 8 * i));
        memcpy(out + LENGTH_BYTES, data, bytes);
        return bytes + LENGTH_BYTES;
    }
    size_t used = 0;
    if (capacity < 2 * bytes + 2)
        return 0;
    out[used++] = END;
    for (size_t i = 0; i < bytes; i++) {
        if (data[i] == END || data[i] == ESC) {
            out[used++] = ESC;
            out[used++] = data[i] == END ? ESC_END : ESC_ESC;
        } else {
            out[used++] = data[i];
        }
    }
    out[used++] = END;
    return used;
}
