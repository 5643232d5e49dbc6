/*
 * Records of a cluster's log from anybody who may publish there. The checksum is made right, so
 * that the fields behind it are reached. What is read lies within the bytes and, written again, is
 * the same; a reader that follows the record stands behind it, and takes it once. So does one that
 * follows the events that it has.
 */
#include <stdlib.h>
#include <string.h>

#include "tests/fuzz/require.h"
#include "wire/crc32c.h"
#include "wire/logged.h"
#include "wire/record.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes);

enum { CHECKSUM_AT = 12, CHECKSUM_BYTES = 4 };

static void sign(uint8_t *bytes, size_t count)
{
    memset(bytes + CHECKSUM_AT, 0, CHECKSUM_BYTES);
    const uint32_t sum = crc32c(0, bytes, count);
    for (int i = 0; i < CHECKSUM_BYTES; i++)
        bytes[CHECKSUM_AT + i] = (uint8_t)(sum >> 8 * i);
}

static void write_again(const struct record *read, const uint8_t *bytes, size_t count)
{
    struct record record = *read;
    struct record_range *ranges = calloc(record.range_count + 1, sizeof *ranges);
    struct record_mark *marks = calloc(record.mark_count + 1, sizeof *marks);
    uint8_t *again = malloc(count);
    REQUIRE(ranges != NULL && marks != NULL && again != NULL && record_bytes(&record) == count);
    for (uint32_t i = 0; i < record.mark_count; i++) {
        marks[i] = record_mark_at(read, i);
        REQUIRE(marks[i].from < marks[i].until && marks[i].channel < record.channels);
    }
    record.marks = marks;
    for (uint32_t i = 0; i < record.range_count; i++) {
        ranges[i] = record_range_at(read, i);
        REQUIRE(ranges[i].from < ranges[i].until && ranges[i].cause < RECORD_CAUSES);
    }
    record.ranges = ranges;
    record_write(&record, again);
    REQUIRE(memcmp(again, bytes, count) == 0);
    free(again);
    free(marks);
    free(ranges);
}

static void follow_events(const struct logged_part *part)
{
    struct logged_position position = {0};
    size_t skip;
    REQUIRE(logged_follow(&position, part, &skip) == LOGGED_NEW && skip == 0);
    REQUIRE(position.next == part->number + part->count);
    REQUIRE(logged_follow(&position, part, &skip) == LOGGED_SEEN);
    position = (struct logged_position){true, part->number, part->chain_before};
    REQUIRE(logged_follow(&position, part, &skip) == LOGGED_NEW && skip == 0);
    position = (struct logged_position){true, part->number + part->count - 1, 0};
    const enum logged_step step = logged_follow(&position, part, &skip);
    REQUIRE((step == LOGGED_NEW || step == LOGGED_FORK) && skip < part->bytes.count);
}

/* What is read of a record's analyses is, written again, the same. */
static void read_parts(const struct record *record)
{
    struct logged_part part;
    size_t at = 0, before = 0;
    while (logged_read(&record->analysis, &at, &part)) {
        uint8_t *again = malloc(at - before);
        REQUIRE(again != NULL && logged_bytes(&part) == at - before);
        logged_write(&part, again);
        REQUIRE(memcmp(again, record->analysis.bytes + before, at - before) == 0);
        free(again);
        if (part.form == LOGGED_EVENTS)
            follow_events(&part);
        before = at;
    }
    REQUIRE(at == before && at <= record->analysis.count);
}

static void follow(const struct record *record)
{
    struct record_position position = {0}, before = {.started = true, .epoch = record->epoch};
    uint32_t skip;
    if (record_follow(&position, record, &skip) != RECORD_FORK) {
        REQUIRE(skip == 0 && position.next == record->next && position.epoch == record->epoch);
        const enum record_step again = record_follow(&position, record, &skip);
        REQUIRE(again == RECORD_SEEN || (record->frames == 0 && again == RECORD_NEW));
        REQUIRE(skip <= record->frames);
    }
    before.next = record->first + record->frames / 2;
    before.chain = record_chain(record, record->frames / 2);
    if (record_follow(&before, record, &skip) == RECORD_NEW)
        REQUIRE(skip == record->frames / 2 && before.next == record->next);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes)
{
    struct record record;
    uint8_t *copy = malloc(bytes + 1);
    REQUIRE(copy != NULL);
    if (bytes > 0)
        memcpy(copy, data, bytes);
    if (bytes >= CHECKSUM_AT + CHECKSUM_BYTES)
        sign(copy, bytes);
    if (record_read(copy, bytes, &record) == RECORD_FAULT_NONE) {
        REQUIRE(record.samples + (size_t)record.frames * record_frame_bytes(&record) ==
                copy + bytes);
        write_again(&record, copy, bytes);
        follow(&record);
        read_parts(&record);
    }
    free(copy);
    return 0;
}
