/* Pictures: see picture.h. */
#include "picture.h"

#include <stdbool.h>
#include <string.h>

_Static_assert(__BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__, "values are written as they are");

static const uint32_t magic = 0x31564e43; /* "CNV1" */

size_t picture_values(const struct picture *picture)
{
    return (size_t)picture->channels * picture->points * (picture->kind == PICTURE_MINMAX ? 2 : 1);
}

struct range {
    uint32_t from, points, causes, zero;
};

/* Calls nothing, fills `ranges` unless it is NULL. */
static uint32_t find_ranges(const uint16_t *causes, uint32_t points, struct range *ranges)
{
    uint32_t count = 0, until = 0; /* of the newest range */
    uint16_t newest = 0;
    for (uint32_t p = 0; causes != NULL && p < points; p++) {
        if (causes[p] == 0)
            continue;
        const bool joins = count > 0 && until == p && newest == causes[p];
        if (!joins && count < PICTURE_RANGES_MAX) {
            newest = causes[p];
            if (ranges != NULL)
                ranges[count] = (struct range){p, 0, newest, 0};
            count++;
        }
        if (ranges != NULL) {
            ranges[count - 1].points = p + 1 - ranges[count - 1].from;
            ranges[count - 1].causes |= causes[p];
        }
        until = p + 1;
    }
    return count;
}

uint32_t picture_count_ranges(const uint16_t *causes, uint32_t points)
{
    return find_ranges(causes, points, NULL);
}

size_t picture_bytes(const struct picture *picture, uint32_t ranges)
{
    return PICTURE_HEAD_BYTES + (size_t)ranges * PICTURE_RANGE_BYTES + 4 * picture_values(picture);
}

static uint8_t *put(uint8_t *at, const void *value, size_t bytes)
{
    memcpy(at, value, bytes);
    return at + bytes;
}

float *picture_write(const struct picture *picture, const uint16_t *causes, uint8_t *out)
{
    const uint16_t kind = (uint16_t)picture->kind;
    struct range ranges[PICTURE_RANGES_MAX];
    const uint32_t count = find_ranges(causes, picture->points, ranges);
    uint8_t *at = put(out, &magic, 4);
    at = put(at, &kind, 2);
    at = put(at, &picture->want, 2);
    at = put(at, &picture->channels, 4);
    at = put(at, &picture->points, 4);
    at = put(at, &picture->epoch, 8);
    at = put(at, &picture->first_frame, 8);
    at = put(at, &picture->frames_per_point, 8);
    at = put(at, &picture->rate_hz, 8);
    at = put(at, &picture->capture_ns, 8);
    at = put(at, &count, 4);
    at = put(at, &picture->flags, 4);
    at = put(at, &picture->trigger, 4);
    at = put(at, &picture->averages, 4);
    at = put(at, ranges, count * sizeof *ranges);
    return (float *)(void *)at;
}
