/*
 * The watch ring: what is written is read, in order; what was overwritten, torn or makes no sense
 * is counted and never handed out; a reader survives any bytes.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <stdlib.h>
#include <string.h>

#include "core/random.h"
#include "wire/watch_ring.h"

enum { SLOTS = 16, HEADER = 4096 };

static uint8_t *memory;
static struct watch_writer writer;
static struct watch_reader reader;
static struct watch_record record;

static int make(void **state)
{
    (void)state;
    memory = aligned_alloc(4096, watch_ring_bytes(SLOTS));
    assert_non_null(memory);
    memset(memory, 0, watch_ring_bytes(SLOTS));
    watch_writer_open(&writer, memory, SLOTS);
    assert_true(watch_reader_open(&reader, memory, watch_ring_bytes(SLOTS)));
    return 0;
}

static int drop(void **state)
{
    (void)state;
    free(memory);
    return 0;
}

static void put(uint64_t frame)
{
    struct watch_head head = {.stream = "vessel",
                              .first_frame = frame,
                              .rate_hz = 1e6,
                              .kind = WATCH_MINMAX,
                              .flags = WATCH_INPUT,
                              .points = 2,
                              .frames_per_point = 64,
                              .channels = 3,
                              .range_count = 1};
    const struct watch_range range = {1, 1, 4, 0};
    float *values = watch_writer_begin(&writer);
    for (int i = 0; i < 12; i++)
        values[i] = (float)frame + (float)i;
    watch_writer_end(&writer, &head, &range);
}

static void in_order(void **state)
{
    (void)state;
    assert_false(watch_reader_next(&reader, &record));
    for (uint64_t n = 0; n < 5 * SLOTS; n++) {
        put(n);
        assert_true(watch_reader_next(&reader, &record));
        assert_int_equal(record.head.first_frame, n);
        assert_string_equal(record.head.stream, "vessel");
        assert_int_equal(watch_record_floats(&record.head), 12);
        assert_true(record.values[11] == (float)n + 11);
        assert_int_equal(record.ranges[0].causes, 4);
        assert_false(watch_reader_next(&reader, &record));
    }
    assert_int_equal(reader.lost + reader.bad, 0);
}

/* Every record is read or counted as lost, however far behind the reader is. */
static void overwritten(void **state)
{
    (void)state;
    for (uint64_t behind = 1; behind < 4 * SLOTS; behind++) {
        const uint64_t first = writer.next, lost = reader.lost;
        uint64_t got = 0, expected = 0;
        for (uint64_t n = 0; n < behind; n++)
            put(first + n);
        while (watch_reader_next(&reader, &record)) {
            assert_true(record.head.first_frame >= first + expected);
            expected = record.head.first_frame - first + 1;
            got++;
        }
        assert_int_equal(got + reader.lost - lost, behind);
        assert_int_equal(expected, behind); /* the newest is among them */
        if (behind < SLOTS)
            assert_int_equal(got, behind);
    }
    assert_int_equal(reader.bad, 0);
}

/* A record being written again while it is copied: begun, or whole with the next number. */
static void torn(void **state)
{
    (void)state;
    put(0);
    writer.next += SLOTS - 1; /* the slot of the first record */
    watch_writer_begin(&writer)[0] = -1;
    assert_false(watch_reader_next(&reader, &record));
    assert_int_equal(reader.lost, 1);
    assert_int_equal(reader.bad, 0);
}

static void another_version(void **state)
{
    (void)state;
    uint32_t *header = (uint32_t *)(void *)memory;
    static const uint32_t wrong[][2] = {{0, 0}, {1, 2},         {2, 4095}, {3, 0},
                                        {3, 8}, {3, SLOTS - 1}, {3, 32},   {3, 1u << 31}};
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
        const uint32_t kept = header[wrong[i][0]];
        header[wrong[i][0]] = wrong[i][1];
        assert_false(watch_reader_open(&reader, memory, watch_ring_bytes(SLOTS)));
        header[wrong[i][0]] = kept;
    }
    assert_false(watch_reader_open(&reader, memory, watch_ring_bytes(SLOTS) - 1));
    assert_false(watch_reader_open(&reader, memory, 16));
    assert_true(watch_reader_open(&reader, memory, watch_ring_bytes(SLOTS)));
}

static struct watch_head *head_of_first(void)
{
    return (struct watch_head *)(void *)(memory + HEADER + 8);
}

/* A head whose counts would lead out of the slot, or that names nothing. */
static void nonsense(void **state)
{
    (void)state;
    static const struct {
        size_t at;
        uint32_t value;
    } wrong[] = {
        {offsetof(struct watch_head, kind), WATCH_KINDS},
        {offsetof(struct watch_head, kind), UINT32_MAX},
        {offsetof(struct watch_head, points), 0},
        {offsetof(struct watch_head, points), UINT32_MAX},
        {offsetof(struct watch_head, points), WATCH_FLOATS_MAX},
        {offsetof(struct watch_head, channels), 0},
        {offsetof(struct watch_head, channels), UINT32_MAX},
        {offsetof(struct watch_head, frames_per_point), 0},
        {offsetof(struct watch_head, first_channel), UINT32_MAX},
        {offsetof(struct watch_head, first_channel), WATCH_CHANNELS_MAX},
        {offsetof(struct watch_head, range_count), WATCH_RANGES_MAX + 1},
        {offsetof(struct watch_head, range_count), UINT32_MAX},
        {offsetof(struct watch_head, rate_hz) + 4, 0xFFF80000}, /* NaN */
        {offsetof(struct watch_head, rate_hz) + 4, 0},
        {offsetof(struct watch_head, rate_hz) + 4, 0x00100000}, /* 2e-308 */
        {offsetof(struct watch_head, capture_ns) + 4, 0x80000000},
        {offsetof(struct watch_head, capture_ns) + 4, 0x7FFFFFFF},
        {offsetof(struct watch_head, first_frame) + 4, 0xFFFFFFFF},
        {sizeof(struct watch_head) + offsetof(struct watch_range, from), 3},
        {sizeof(struct watch_head) + offsetof(struct watch_range, points), UINT32_MAX},
    };
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
        make(state);
        put(1);
        memcpy((uint8_t *)head_of_first() + wrong[i].at, &wrong[i].value, 4);
        assert_false(watch_reader_next(&reader, &record));
        assert_int_equal(reader.bad, 1);
        free(memory);
    }
    make(state);
    put(1);
    memset(head_of_first()->stream, 'x', WATCH_NAME_BYTES);
    assert_false(watch_reader_next(&reader, &record));
    assert_int_equal(reader.bad, 1);
}

/* Any bytes: the reader hands out only what is within its bounds, and comes to an end. */
static void any_bytes(void **state)
{
    struct random_state random;
    (void)state;
    random.state = 12;
    for (int turn = 0; turn < 300; turn++) {
        for (int n = 0; n < 2 * SLOTS; n++)
            put((uint64_t)n);
        for (int n = 0; n < 400; n++) {
            const size_t at = (size_t)(random_u64(&random) % (watch_ring_bytes(SLOTS) - HEADER));
            const size_t in_head = at % WATCH_SLOT_BYTES < 300 ? at : at / 4096 * 4096 + at % 300;
            memory[HEADER + in_head] = (uint8_t)random_u64(&random);
        }
        uint64_t written;
        memcpy(&written, memory + 16, sizeof written);
        written = turn % 3 == 0 ? random_u64(&random) : written + random_u64(&random) % 64;
        memcpy(memory + 16, &written, sizeof written);
        for (int n = 0; n < 3 * SLOTS && watch_reader_next(&reader, &record); n++) {
            assert_true(watch_record_floats(&record.head) <= WATCH_FLOATS_MAX);
            assert_true(record.head.range_count <= WATCH_RANGES_MAX);
            assert_true(strlen(record.head.stream) < WATCH_NAME_BYTES);
        }
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(in_order, make, drop),
        cmocka_unit_test_setup_teardown(overwritten, make, drop),
        cmocka_unit_test_setup_teardown(torn, make, drop),
        cmocka_unit_test_setup_teardown(another_version, make, drop),
        cmocka_unit_test_teardown(nonsense, drop),
        cmocka_unit_test_setup_teardown(any_bytes, make, drop),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
