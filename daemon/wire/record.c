/*
 * Records of a cluster's logs: see record.h. One walk over the header serves writing and reading,
 * so that they cannot disagree. Reading checks the length before each step, the checksum before it
 * believes a field, and the fields against each other before it hands them out.
 *
 * Pure functions, any thread.
 */
#include "wire/record.h"

#include <assert.h>
#include <math.h>
#include <string.h>

#include "wire/crc32c.h"

enum {
    MAGIC = 0x4C435643, /* "CVCL" */
    CHECKSUM_AT = 12,
    CHECKSUM_BYTES = 4,
    TEXT_BYTES_MAX = UINT16_MAX,
    FORMAT_BIG_ENDIAN = 1,
    FORMAT_LEFT = 2,
    RANGE_ABSENT = 1,
};

/* Frame numbers beyond this are no stream's, and their sums cannot overflow. */
static const uint64_t number_max = UINT64_C(1) << 60;
/* Likewise times in nanoseconds, until 2116. */
static const int64_t time_max = INT64_C(1) << 62;

/* ---- words ------------------------------------------------------------------------------- */

const char *record_kind_word(unsigned kind)
{
    static const char *const words[] = {
#define X(name, number, word, sentence) [number] = word,
        RECORD_KIND_TABLE(X)
#undef X
    };
    return kind < sizeof words / sizeof words[0] && words[kind] != NULL ? words[kind] : "?";
}

const char *record_fault_sentence(enum record_fault fault)
{
    static const char *const sentences[] = {
#define X(name, sentence) [RECORD_FAULT_##name] = sentence,
        RECORD_FAULT_TABLE(X)
#undef X
    };
    return (unsigned)fault < RECORD_FAULTS ? sentences[fault] : "?";
}

/* ---- the header -------------------------------------------------------------------------- */

/* Reads or writes one field after another. */
struct walk {
    uint8_t *to;         /* writing, else NULL */
    const uint8_t *from; /* reading, else NULL */
    bool strange;        /* read: bits that this version does not know */
};

static void walk_integer(struct walk *w, uint64_t *value, unsigned bytes)
{
    if (w->to != NULL) {
        for (unsigned i = 0; i < bytes; i++)
            *w->to++ = (uint8_t)(*value >> 8 * i);
        return;
    }
    *value = 0;
    for (unsigned i = 0; i < bytes; i++)
        *value |= (uint64_t)*w->from++ << 8 * i;
}

#define WALK(type, name)                                                                           \
    static void walk_##name(struct walk *w, type *value)                                           \
    {                                                                                              \
        uint64_t integer = (uint64_t)*value;                                                       \
        walk_integer(w, &integer, sizeof *value);                                                  \
        *value = (type)integer;                                                                    \
    }

WALK(uint8_t, u8)
WALK(uint16_t, u16)
WALK(uint32_t, u32)
WALK(uint64_t, u64)
WALK(int64_t, i64)

/* Bytes for versions to come: zero in this one. */
static void walk_reserved(struct walk *w, unsigned bytes)
{
    uint64_t reserved = 0;
    walk_integer(w, &reserved, bytes);
    w->strange = w->strange || reserved != 0;
}

static void walk_f64(struct walk *w, double *value)
{
    uint64_t bits;
    memcpy(&bits, value, sizeof bits);
    walk_integer(w, &bits, sizeof bits);
    memcpy(value, &bits, sizeof bits);
}

static void walk_format(struct walk *w, struct sample_format *format)
{
    uint8_t order =
        (uint8_t)((format->big_endian ? FORMAT_BIG_ENDIAN : 0) | (format->left ? FORMAT_LEFT : 0));
    walk_u8(w, &format->kind);
    walk_u8(w, &format->bytes);
    walk_u8(w, &format->bits);
    walk_u8(w, &order);
    w->strange = w->strange || order > (FORMAT_BIG_ENDIAN | FORMAT_LEFT);
    format->big_endian = order & FORMAT_BIG_ENDIAN;
    format->left = order & FORMAT_LEFT;
}

static void walk_text_length(struct walk *w, struct record_span *span)
{
    uint16_t bytes = (uint16_t)span->count;
    walk_u16(w, &bytes);
    span->count = bytes;
}

/* All of the header. The checksum is written as 0, and skipped in reading. */
static void walk_header(struct walk *w, struct record *r)
{
    uint32_t magic = MAGIC, checksum = 0;
    uint8_t version = r->events ? RECORD_VERSION_EVENTS : RECORD_VERSION;
    walk_u32(w, &magic);
    walk_u8(w, &version);
    r->events = version == RECORD_VERSION_EVENTS;
    walk_u8(w, &r->kind);
    walk_u16(w, &r->channels);
    walk_u32(w, &r->flags);
    walk_u32(w, &checksum);
    walk_u64(w, &r->term);
    walk_u64(w, &r->owner);
    walk_u64(w, &r->epoch);
    walk_u64(w, &r->record);
    walk_u64(w, &r->from);
    walk_u64(w, &r->first);
    walk_u64(w, &r->next);
    walk_u64(w, &r->timeline);
    walk_u64(w, &r->input_next);
    walk_u64(w, &r->raw_sequence);
    walk_f64(w, &r->rate_hz);
    walk_f64(w, &r->delay_frames);
    walk_i64(w, &r->capture_ns);
    walk_i64(w, &r->clock_error_ns);
    walk_i64(w, &r->appended_ns);
    walk_format(w, &r->format);
    for (int i = 0; i < RECORD_STAGES; i++)
        walk_u32(w, &r->stage_100ns[i]);
    walk_u32(w, &r->chain_before);
    walk_u32(w, &r->chain);
    walk_u32(w, &r->ssrc);
    walk_u32(w, &r->timestamp);
    walk_u16(w, &r->sequence);
    walk_u8(w, &r->clock);
    walk_reserved(w, 1);
    walk_u32(w, &r->frames);
    walk_text_length(w, &r->plan);
    walk_text_length(w, &r->filters);
    walk_text_length(w, &r->config);
    walk_text_length(w, &r->worker);
    walk_u32(w, &r->state.count);
    walk_u32(w, &r->range_count);
    if (!r->events)
        return;
    walk_u64(w, &r->checkpoint);
    walk_u32(w, &r->analysis.count);
    walk_u32(w, &r->mark_count);
}

static void walk_range(struct walk *w, struct record_range *range)
{
    uint8_t flags = range->absent ? RANGE_ABSENT : 0;
    walk_u64(w, &range->from);
    walk_u64(w, &range->until);
    walk_u8(w, &range->cause);
    walk_u8(w, &flags);
    walk_reserved(w, RECORD_RANGE_BYTES - 18);
    w->strange = w->strange || flags > RANGE_ABSENT;
    range->absent = flags & RANGE_ABSENT;
}

static void walk_mark(struct walk *w, struct record_mark *mark)
{
    walk_u64(w, &mark->from);
    walk_u64(w, &mark->until);
    walk_u32(w, &mark->channel);
    walk_reserved(w, RECORD_MARK_BYTES - 20);
}

/* ---- writing ----------------------------------------------------------------------------- */

static size_t header_bytes(const struct record *r)
{
    return r->events ? RECORD_EVENTS_HEADER_BYTES : RECORD_HEADER_BYTES;
}

static size_t samples_bytes(const struct record *r)
{
    return (size_t)r->frames * record_frame_bytes(r);
}

size_t record_bytes(const struct record *r)
{
    const struct record_span *const texts[] = {&r->plan, &r->filters, &r->config, &r->worker};
    size_t bytes = header_bytes(r) + (size_t)r->range_count * RECORD_RANGE_BYTES + r->state.count +
                   samples_bytes(r);
    if (r->events)
        bytes += (size_t)r->mark_count * RECORD_MARK_BYTES + r->analysis.count;
    for (int i = 0; i < 4; i++) {
        if (texts[i]->count > TEXT_BYTES_MAX)
            return 0;
        bytes += texts[i]->count;
    }
    return r->range_count <= RECORD_RANGES_MAX && r->mark_count <= RECORD_MARKS_MAX &&
                   bytes <= RECORD_BYTES_MAX
               ? bytes
               : 0;
}

static void write_bytes(struct walk *w, const uint8_t *bytes, size_t count)
{
    if (count > 0)
        memcpy(w->to, bytes, count);
    w->to += count;
}

static uint32_t checksum_of(const uint8_t *bytes, size_t count)
{
    static const uint8_t zero[CHECKSUM_BYTES];
    uint32_t sum = crc32c(0, bytes, CHECKSUM_AT);
    sum = crc32c(sum, zero, CHECKSUM_BYTES);
    return crc32c(sum, bytes + CHECKSUM_AT + CHECKSUM_BYTES, count - CHECKSUM_AT - CHECKSUM_BYTES);
}

void record_write(const struct record *record, uint8_t *out)
{
    struct record r = *record;
    struct walk w = {.to = out};
    walk_header(&w, &r);
    assert(w.to == out + header_bytes(&r));
    for (uint32_t i = 0; i < r.range_count; i++) {
        struct record_range range = r.ranges[i];
        walk_range(&w, &range);
    }
    for (uint32_t i = 0; r.events && i < r.mark_count; i++) {
        struct record_mark mark = r.marks[i];
        walk_mark(&w, &mark);
    }
    write_bytes(&w, r.plan.bytes, r.plan.count);
    write_bytes(&w, r.filters.bytes, r.filters.count);
    write_bytes(&w, r.config.bytes, r.config.count);
    write_bytes(&w, r.worker.bytes, r.worker.count);
    write_bytes(&w, r.state.bytes, r.state.count);
    if (r.events)
        write_bytes(&w, r.analysis.bytes, r.analysis.count);
    write_bytes(&w, r.samples, samples_bytes(&r));
    uint32_t sum = checksum_of(out, record_bytes(record));
    w.to = out + CHECKSUM_AT;
    walk_u32(&w, &sum);
}

/* ---- reading ----------------------------------------------------------------------------- */

static bool times_fit(const struct record *r)
{
    return r->capture_ns >= -time_max && r->capture_ns <= time_max && r->clock_error_ns >= 0 &&
           r->clock_error_ns <= time_max && r->appended_ns >= -time_max &&
           r->appended_ns <= time_max;
}

static bool format_fits(const struct record *r)
{
    if (r->channels == 0)
        return r->frames == 0;
    return r->channels <= RECORD_CHANNELS_MAX && sample_format_valid(&r->format) &&
           isfinite(r->rate_hz) && r->rate_hz > 0.0 && isfinite(r->delay_frames);
}

static bool numbers_fit(const struct record *r)
{
    const bool data = r->kind == RECORD_DATA;
    return r->term > 0 && r->owner != 0 && r->flags <= RECORD_FLAGS && r->from <= r->first &&
           r->first <= r->next && r->next <= number_max && r->next - r->first == r->frames &&
           (data || r->frames == 0) && (r->from == 0 || !(r->flags & RECORD_EPOCH_START)) &&
           r->timeline <= number_max && r->input_next <= number_max && r->epoch <= number_max &&
           r->record <= number_max;
}

static bool range_fits(const struct record *r, const struct record_range *range)
{
    return range->from < range->until && range->until <= number_max &&
           range->cause < RECORD_CAUSES &&
           (!range->absent || (range->from >= r->from && range->until <= r->next));
}

static bool events_fit(const struct record *r)
{
    return (r->kind != RECORD_ANALYSIS || r->events) &&
           (r->kind == RECORD_ANALYSIS || r->analysis.count == 0) &&
           (r->kind == RECORD_DATA || r->mark_count == 0);
}

static bool mark_fits(const struct record *r, const struct record_mark *mark)
{
    return mark->from < mark->until && mark->from >= r->first && mark->until <= r->next &&
           mark->channel < r->channels;
}

/* The next `count` bytes, for which there is room. */
static const uint8_t *take(struct walk *w, size_t count)
{
    const uint8_t *bytes = w->from;
    w->from += count;
    return bytes;
}

static void take_spans(struct walk *w, struct record *r)
{
    r->range_bytes = take(w, (size_t)r->range_count * RECORD_RANGE_BYTES);
    r->mark_bytes = take(w, (size_t)r->mark_count * RECORD_MARK_BYTES);
    r->plan.bytes = take(w, r->plan.count);
    r->filters.bytes = take(w, r->filters.count);
    r->config.bytes = take(w, r->config.count);
    r->worker.bytes = take(w, r->worker.count);
    r->state.bytes = take(w, r->state.count);
    r->analysis.bytes = take(w, r->analysis.count);
    r->samples = take(w, samples_bytes(r));
}

static uint32_t word_at(const uint8_t *bytes)
{
    struct walk w = {.from = bytes};
    uint32_t word = 0;
    walk_u32(&w, &word);
    return word;
}

enum record_fault record_read(const uint8_t *bytes, size_t count, struct record *record)
{
    *record = (struct record){0};
    if (count < RECORD_HEADER_BYTES)
        return RECORD_FAULT_SHORT;
    if (word_at(bytes) != MAGIC)
        return RECORD_FAULT_MAGIC;
    if (bytes[CHECKSUM_BYTES] != RECORD_VERSION && bytes[CHECKSUM_BYTES] != RECORD_VERSION_EVENTS)
        return RECORD_FAULT_VERSION;
    if (bytes[CHECKSUM_BYTES] == RECORD_VERSION_EVENTS && count < RECORD_EVENTS_HEADER_BYTES)
        return RECORD_FAULT_SHORT;
    if (count > RECORD_BYTES_MAX || word_at(bytes + CHECKSUM_AT) != checksum_of(bytes, count))
        return RECORD_FAULT_DAMAGED;
    struct walk w = {.from = bytes};
    walk_header(&w, record);
    if (record->kind < RECORD_TAKE || record->kind > RECORD_ANALYSIS || !format_fits(record) ||
        !numbers_fit(record) || !times_fit(record) || w.strange || !events_fit(record) ||
        record->range_count > RECORD_RANGES_MAX || record->mark_count > RECORD_MARKS_MAX)
        return RECORD_FAULT_MALFORMED;
    if (record_bytes(record) != count)
        return RECORD_FAULT_SHORT;
    take_spans(&w, record);
    for (uint32_t i = 0; i < record->range_count; i++) {
        struct walk at = {.from = record->range_bytes + (size_t)i * RECORD_RANGE_BYTES};
        struct record_range range = {0};
        walk_range(&at, &range);
        if (at.strange || !range_fits(record, &range))
            return RECORD_FAULT_MALFORMED;
    }
    for (uint32_t i = 0; i < record->mark_count; i++) {
        struct walk at = {.from = record->mark_bytes + (size_t)i * RECORD_MARK_BYTES};
        struct record_mark mark = {0};
        walk_mark(&at, &mark);
        if (at.strange || !mark_fits(record, &mark))
            return RECORD_FAULT_MALFORMED;
    }
    return RECORD_FAULT_NONE;
}

struct record_mark record_mark_at(const struct record *r, uint32_t i)
{
    struct record_mark mark = {0};
    struct walk w = {.from = r->mark_bytes + (size_t)i * RECORD_MARK_BYTES};
    assert(i < r->mark_count);
    walk_mark(&w, &mark);
    return mark;
}

struct record_range record_range_at(const struct record *r, uint32_t i)
{
    struct record_range range = {0};
    struct walk w = {.from = r->range_bytes + (size_t)i * RECORD_RANGE_BYTES};
    assert(i < r->range_count);
    walk_range(&w, &range);
    return range;
}

uint32_t record_chain(const struct record *r, uint32_t frames)
{
    return crc32c(r->chain_before, r->samples, (size_t)frames * record_frame_bytes(r));
}

/* ---- following a log --------------------------------------------------------------------- */

static enum record_step go_to(struct record_position *position, const struct record *r,
                              enum record_step step)
{
    const bool here = position->started && position->epoch == r->epoch;
    *position = (struct record_position){
        .started = true,
        .ended =
            r->kind == RECORD_END || (r->flags & RECORD_EPOCH_END) || (here && position->ended),
        .epoch = r->epoch,
        .next = r->next,
        .chain = r->chain,
    };
    return step;
}

/* The record lies in the epoch of the position and does not end before it. */
static enum record_step follow_here(struct record_position *position, const struct record *r,
                                    uint32_t *skip)
{
    if (r->from > position->next)
        return go_to(position, r, RECORD_LOST);
    if (position->next > r->first)
        *skip = (uint32_t)(position->next - r->first);
    if (record_chain(r, *skip) != position->chain)
        return RECORD_FORK;
    const bool known = r->kind == RECORD_DATA || (r->kind == RECORD_END && position->ended);
    if (known && r->next == position->next)
        return RECORD_SEEN;
    return go_to(position, r, RECORD_NEW);
}

enum record_step record_follow(struct record_position *position, const struct record *r,
                               uint32_t *skip)
{
    *skip = 0;
    if (record_chain(r, r->frames) != r->chain)
        return RECORD_FORK;
    if (!position->started)
        return go_to(position, r, RECORD_NEW);
    if (r->epoch == position->epoch && r->next >= position->next)
        return follow_here(position, r, skip);
    if (r->epoch <= position->epoch)
        return RECORD_SEEN;
    /* The next epoch, and nothing between: its first samples continue the chain. */
    const bool next = position->ended && r->epoch == position->epoch + 1 && r->from == 0;
    if (next && r->chain_before != position->chain)
        return RECORD_FORK;
    return go_to(position, r, next ? RECORD_NEW : RECORD_LOST);
}
