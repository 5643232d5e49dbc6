/* What records of kind `analysis` carry: see logged.h. */
#include "wire/logged.h"

#include <assert.h>
#include <string.h>

#include "wire/crc32c.h"

/* Event numbers beyond this are no log's, and their sums cannot overflow. */
static const uint64_t number_max = UINT64_C(1) << 60;

/* Offsets in the head. */
enum {
    FORM_AT = 0,
    NAME_AT = 2,
    BYTES_AT = 4,
    NUMBER_AT = 8,
    COUNT_AT = 16,
    BEFORE_AT = 20,
    CHAIN_AT = 24,
    SPARE_AT = 28,
};

static void put(uint8_t *to, uint64_t value, unsigned bytes)
{
    for (unsigned i = 0; i < bytes; i++)
        to[i] = (uint8_t)(value >> 8 * i);
}

static uint64_t get(const uint8_t *from, unsigned bytes)
{
    uint64_t value = 0;
    for (unsigned i = 0; i < bytes; i++)
        value |= (uint64_t)from[i] << 8 * i;
    return value;
}

size_t logged_bytes(const struct logged_part *part)
{
    return LOGGED_HEAD_BYTES + (size_t)part->name.count + part->bytes.count;
}

static uint8_t *put_span(uint8_t *to, const struct record_span *span)
{
    if (span->count > 0)
        memcpy(to, span->bytes, span->count);
    return to + span->count;
}

void logged_write(const struct logged_part *part, uint8_t *out)
{
    assert(part->name.count <= LOGGED_NAME_MAX);
    memset(out, 0, LOGGED_HEAD_BYTES);
    put(out + FORM_AT, part->form, 1);
    put(out + NAME_AT, part->name.count, 2);
    put(out + BYTES_AT, part->bytes.count, 4);
    put(out + NUMBER_AT, part->number, 8);
    put(out + COUNT_AT, part->count, 4);
    put(out + BEFORE_AT, part->chain_before, 4);
    put(out + CHAIN_AT, part->chain, 4);
    put_span(put_span(out + LOGGED_HEAD_BYTES, &part->name), &part->bytes);
}

/* ---- reading ----------------------------------------------------------------------------- */

static uint64_t lines_of(const struct record_span *bytes)
{
    uint64_t lines = 0;
    for (uint32_t i = 0; i < bytes->count; i++)
        lines += bytes->bytes[i] == '\n';
    return lines;
}

static bool events_fit(const struct logged_part *part)
{
    const struct record_span *b = &part->bytes;
    return part->name.count > 0 && part->count > 0 && part->number > 0 &&
           part->number <= number_max && b->count > 0 && b->bytes[b->count - 1] == '\n' &&
           memchr(b->bytes, 0, b->count) == NULL && lines_of(b) == part->count &&
           memchr(part->name.bytes, 0, part->name.count) == NULL &&
           crc32c(part->chain_before, b->bytes, b->count) == part->chain;
}

static bool state_fits(const struct logged_part *part)
{
    return part->name.count == 0 && part->chain_before == 0 && part->bytes.count > 0 &&
           part->number <= part->count && part->bytes.count <= part->count - part->number;
}

/* The head, and where name and bytes lie. False: it is longer than what there is. */
static bool read_part(const uint8_t *from, size_t count, struct logged_part *part)
{
    if (count < LOGGED_HEAD_BYTES)
        return false;
    part->form = from[FORM_AT];
    part->name.count = (uint32_t)get(from + NAME_AT, 2);
    part->bytes.count = (uint32_t)get(from + BYTES_AT, 4);
    part->number = get(from + NUMBER_AT, 8);
    part->count = (uint32_t)get(from + COUNT_AT, 4);
    part->chain_before = (uint32_t)get(from + BEFORE_AT, 4);
    part->chain = (uint32_t)get(from + CHAIN_AT, 4);
    part->name.bytes = from + LOGGED_HEAD_BYTES;
    part->bytes.bytes = part->name.bytes + part->name.count;
    return from[FORM_AT + 1] == 0 && get(from + SPARE_AT, 4) == 0 &&
           part->name.count <= LOGGED_NAME_MAX && logged_bytes(part) <= count;
}

bool logged_read(const struct record_span *analysis, size_t *at, struct logged_part *part)
{
    *part = (struct logged_part){0};
    if (*at >= analysis->count || !read_part(analysis->bytes + *at, analysis->count - *at, part) ||
        !(part->form == LOGGED_EVENTS  ? events_fit(part)
          : part->form == LOGGED_STATE ? state_fits(part)
                                       : false))
        return false;
    *at += logged_bytes(part);
    return true;
}

/* ---- following --------------------------------------------------------------------------- */

/* Bytes of the first `lines` lines. */
static size_t bytes_of(const struct record_span *span, uint64_t lines)
{
    size_t at = 0;
    while (lines > 0)
        lines -= span->bytes[at++] == '\n';
    return at;
}

enum logged_step logged_follow(struct logged_position *position, const struct logged_part *part,
                               size_t *skip)
{
    const uint64_t until = part->number + part->count;
    enum logged_step step = LOGGED_NEW;
    *skip = 0;
    if (position->started && until <= position->next)
        return LOGGED_SEEN;
    if (position->started && part->number > position->next)
        step = LOGGED_LOST;
    else if (position->started) {
        *skip = bytes_of(&part->bytes, position->next - part->number);
        if (crc32c(part->chain_before, part->bytes.bytes, *skip) != position->chain)
            return LOGGED_FORK;
    }
    *position = (struct logged_position){true, until, part->chain};
    return step;
}
