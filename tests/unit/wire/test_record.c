/*
 * Records of a cluster's logs: what is written is read back; no byte can be changed unnoticed, and
 * fields that contradict each other are refused though the checksum is right; a reader follows the
 * frames of a log whatever becomes of its sequence numbers.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "wire/crc32c.h"
#include "wire/record.h"

enum { CHANNELS = 2, FRAMES = 10, FRAME_BYTES = 4, CHECKSUM_AT = 12 };

static uint8_t samples[64 * FRAME_BYTES];

static struct record_span span(const char *text)
{
    return (struct record_span){(const uint8_t *)text, (uint32_t)strlen(text)};
}

/* Frames [first, next) of epoch 3 as a record of data. */
static struct record data(uint64_t first, uint64_t next)
{
    return (struct record){
        .kind = RECORD_DATA,
        .term = 2,
        .owner = 77,
        .epoch = 3,
        .from = first,
        .first = first,
        .next = next,
        .frames = (uint32_t)(next - first),
        .timeline = 1000 + first,
        .input_next = next,
        .channels = CHANNELS,
        .format = {.kind = SAMPLE_SIGNED, .bytes = 2, .bits = 16, .big_endian = true},
        .rate_hz = 1e6,
        .samples = samples + first * FRAME_BYTES,
        .chain_before = crc32c(9, samples, first * FRAME_BYTES),
        .chain = crc32c(9, samples, next * FRAME_BYTES),
    };
}

static uint8_t *written(const struct record *r, size_t *count)
{
    *count = record_bytes(r);
    assert_true(*count > 0);
    uint8_t *bytes = malloc(*count);
    assert_non_null(bytes);
    record_write(r, bytes);
    return bytes;
}

/* Makes the checksum of edited bytes right again. */
static void sign(uint8_t *bytes, size_t count)
{
    memset(bytes + CHECKSUM_AT, 0, 4);
    const uint32_t sum = crc32c(0, bytes, count);
    for (int i = 0; i < 4; i++)
        bytes[CHECKSUM_AT + i] = (uint8_t)(sum >> 8 * i);
}

static int make_samples(void **unused)
{
    (void)unused;
    for (size_t i = 0; i < sizeof samples; i++)
        samples[i] = (uint8_t)(i * 37 + 11);
    return 0;
}

/* ---- bytes ------------------------------------------------------------------------------- */

static void test_read_back(void **unused)
{
    (void)unused;
    const struct record_range ranges[] = {{.from = 18, .until = 22, .cause = 2, .absent = true},
                                          {.from = 3, .until = 40, .cause = 7}};
    struct record r = data(20, 20 + FRAMES);
    r.flags = RECORD_RAW | RECORD_SENDER;
    r.from = 18;
    r.record = 5;
    r.raw_sequence = UINT64_C(0x1122334455667788);
    r.input_next = 240;
    r.delay_frames = 12.5;
    r.capture_ns = -123456789012345;
    r.clock_error_ns = 250;
    r.clock = 3;
    r.appended_ns = 1700000000000000000;
    r.stage_100ns[4] = 17;
    r.ssrc = 0xCAFEBABE;
    r.timestamp = 0x80000001;
    r.sequence = 0xFFFE;
    r.ranges = ranges;
    r.range_count = 2;
    r.plan = span("fused 4096/2048");
    r.filters = span("ab");
    r.config = span("c");
    r.worker = span("host-1/a");
    r.state = span("anything");

    size_t count;
    uint8_t *bytes = written(&r, &count);
    assert_int_equal(count, RECORD_HEADER_BYTES + 2 * RECORD_RANGE_BYTES + 15 + 2 + 1 + 8 + 8 +
                                FRAMES * FRAME_BYTES);
    struct record got;
    assert_int_equal(record_read(bytes, count, &got), RECORD_FAULT_NONE);
    assert_memory_equal(got.samples, r.samples, FRAMES * FRAME_BYTES);
    assert_memory_equal(got.plan.bytes, r.plan.bytes, r.plan.count);
    assert_memory_equal(got.state.bytes, r.state.bytes, r.state.count);
    for (uint32_t i = 0; i < 2; i++) {
        const struct record_range range = record_range_at(&got, i);
        assert_int_equal(range.from, ranges[i].from);
        assert_int_equal(range.until, ranges[i].until);
        assert_int_equal(range.cause, ranges[i].cause);
        assert_int_equal(range.absent, ranges[i].absent);
    }
    /* Written again from what was read, it is the same to the last byte. */
    got.ranges = ranges;
    size_t again_count;
    uint8_t *again = written(&got, &again_count);
    assert_int_equal(again_count, count);
    assert_memory_equal(again, bytes, count);
    free(again);
    free(bytes);
}

/* The layout is a contract with readers of other versions and languages: docs/cluster.md. */
static void test_layout(void **unused)
{
    (void)unused;
    struct record r = data(1, 1 + FRAMES);
    r.term = 0x0102030405060708;
    r.epoch = 0x11;
    size_t count;
    uint8_t *bytes = written(&r, &count);
    static const uint8_t head[] = {'C', 'V', 'C', 'L', 1, RECORD_DATA, CHANNELS, 0, 0, 0, 0, 0};
    assert_memory_equal(bytes, head, sizeof head);
    static const uint8_t numbers[] = {8, 7, 6, 5, 4, 3, 2, 1, 77, 0, 0, 0, 0, 0, 0, 0, 0x11};
    assert_memory_equal(bytes + 16, numbers, sizeof numbers);
    assert_int_equal(bytes[48], 1); /* from */
    assert_int_equal(bytes[64], 1 + FRAMES);
    static const uint8_t format[] = {SAMPLE_SIGNED, 2, 16, 1};
    assert_memory_equal(bytes + 136, format, sizeof format);
    assert_int_equal(bytes[180], FRAMES);
    assert_memory_equal(bytes + RECORD_HEADER_BYTES, samples + FRAME_BYTES, FRAMES * FRAME_BYTES);
    free(bytes);
}

static void test_damage(void **unused)
{
    (void)unused;
    struct record r = data(0, FRAMES), got;
    r.state = span("state");
    size_t count;
    uint8_t *bytes = written(&r, &count);
    for (size_t i = 0; i < count; i++) {
        bytes[i] ^= 0x10;
        assert_int_not_equal(record_read(bytes, count, &got), RECORD_FAULT_NONE);
        bytes[i] ^= 0x10;
    }
    for (size_t i = 0; i < count; i++)
        assert_int_not_equal(record_read(bytes, i, &got), RECORD_FAULT_NONE);
    assert_int_equal(record_read(bytes, count, &got), RECORD_FAULT_NONE);
    free(bytes);
}

static void test_contradictions(void **unused)
{
    (void)unused;
    static const struct {
        const char *what;
        size_t at;
        uint8_t value;
        enum record_fault fault;
    } cases[] = {
        {"magic", 0, 'X', RECORD_FAULT_MAGIC},
        {"version", 4, 3, RECORD_FAULT_VERSION},
        {"no kind", 5, 0, RECORD_FAULT_MALFORMED},
        {"unknown kind", 5, 8, RECORD_FAULT_MALFORMED},
        {"events in version 1", 5, RECORD_ANALYSIS, RECORD_FAULT_MALFORMED},
        {"samples of a beat", 5, RECORD_BEAT, RECORD_FAULT_MALFORMED},
        {"too many channels", 7, 5, RECORD_FAULT_MALFORMED},
        {"samples without channels", 6, 0, RECORD_FAULT_MALFORMED},
        {"more channels than samples", 6, 3, RECORD_FAULT_SHORT},
        {"unknown flag", 9, 1, RECORD_FAULT_MALFORMED},
        {"term 0", 16, 0, RECORD_FAULT_MALFORMED},
        {"owner 0", 24, 0, RECORD_FAULT_MALFORMED},
        {"epoch beyond all", 39, 0xFF, RECORD_FAULT_MALFORMED},
        {"from behind first", 48, 5, RECORD_FAULT_MALFORMED},
        {"next beyond all", 71, 0xFF, RECORD_FAULT_MALFORMED},
        {"next is not first + frames", 64, FRAMES + 5, RECORD_FAULT_MALFORMED},
        {"a negative rate", 103, 0xC1, RECORD_FAULT_MALFORMED},
        {"capture time beyond all", 119, 0x7F, RECORD_FAULT_MALFORMED},
        {"negative clock error", 127, 0x80, RECORD_FAULT_MALFORMED},
        {"format of 5 bytes", 137, 5, RECORD_FAULT_MALFORMED},
        {"unknown order", 139, 4, RECORD_FAULT_MALFORMED},
        {"reserved byte", 179, 1, RECORD_FAULT_MALFORMED},
        {"a plan beyond the end", 184, 1, RECORD_FAULT_SHORT},
        {"a state beyond the end", 195, 0xFF, RECORD_FAULT_SHORT},
        {"ranges beyond the end", 196, 2, RECORD_FAULT_SHORT},
        {"too many ranges", 199, 1, RECORD_FAULT_MALFORMED},
        {"an empty range", RECORD_HEADER_BYTES + 8, 2, RECORD_FAULT_MALFORMED},
        {"unknown cause", RECORD_HEADER_BYTES + 16, RECORD_CAUSES, RECORD_FAULT_MALFORMED},
        {"absent outside", RECORD_HEADER_BYTES + 9, 1, RECORD_FAULT_MALFORMED},
        {"unknown flag of a range", RECORD_HEADER_BYTES + 17, 3, RECORD_FAULT_MALFORMED},
        {"reserved bytes of a range", RECORD_HEADER_BYTES + 20, 1, RECORD_FAULT_MALFORMED},
    };
    const struct record_range range = {.from = 2, .until = 4, .absent = true};
    struct record r = data(0, FRAMES), got;
    r.ranges = &range;
    r.range_count = 1;
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        size_t count;
        uint8_t *bytes = written(&r, &count);
        bytes[cases[i].at] = cases[i].value;
        sign(bytes, count);
        const enum record_fault fault = record_read(bytes, count, &got);
        if (fault != cases[i].fault)
            fail_msg("%s: %s", cases[i].what, record_fault_sentence(fault));
        free(bytes);
    }
}

/* ---- with events ------------------------------------------------------------------------- */

/* Frames [0, FRAMES) with a mark. */
static struct record marked(const struct record_mark *mark)
{
    struct record r = data(0, FRAMES);
    r.events = true;
    r.checkpoint = UINT64_C(0x0102030405060708);
    r.marks = mark;
    r.mark_count = 1;
    return r;
}

static struct record of_analyses(void)
{
    struct record r = data(0, 0);
    r.kind = RECORD_ANALYSIS;
    r.events = true;
    r.analysis = span("lines");
    return r;
}

static void test_events_read_back(void **unused)
{
    (void)unused;
    const struct record_mark mark = {1, 3, CHANNELS - 1};
    const struct record cases[] = {marked(&mark), of_analyses()};
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        size_t count;
        uint8_t *bytes = written(&cases[i], &count);
        struct record got;
        assert_int_equal(record_read(bytes, count, &got), RECORD_FAULT_NONE);
        assert_int_equal(bytes[4], RECORD_VERSION_EVENTS);
        assert_true(got.events);
        assert_int_equal(got.checkpoint, cases[i].checkpoint);
        assert_int_equal(got.analysis.count, cases[i].analysis.count);
        assert_int_equal(got.mark_count, cases[i].mark_count);
        if (got.mark_count > 0) {
            const struct record_mark read = record_mark_at(&got, 0);
            assert_int_equal(read.from, mark.from);
            assert_int_equal(read.until, mark.until);
            assert_int_equal(read.channel, mark.channel);
            assert_memory_equal(got.samples, cases[i].samples, FRAMES * FRAME_BYTES);
        } else {
            assert_memory_equal(got.analysis.bytes, "lines", 5);
        }
        for (size_t cut = 0; cut < count; cut++)
            assert_int_not_equal(record_read(bytes, cut, &got), RECORD_FAULT_NONE);
        free(bytes);
    }
}

static void test_events_contradict(void **unused)
{
    (void)unused;
    enum { MARK_AT = RECORD_EVENTS_HEADER_BYTES };
    static const struct {
        const char *what;
        bool data;
        size_t at;
        uint8_t value;
        enum record_fault fault;
    } cases[] = {
        {"analysis beyond the end", false, 208, 6, RECORD_FAULT_SHORT},
        {"analysis of data", true, 208, 1, RECORD_FAULT_MALFORMED},
        {"marks without samples", false, 212, 1, RECORD_FAULT_MALFORMED},
        {"marks beyond the end", true, 212, 2, RECORD_FAULT_SHORT},
        {"too many marks", true, 215, 1, RECORD_FAULT_MALFORMED},
        {"an empty mark", true, MARK_AT + 8, 1, RECORD_FAULT_MALFORMED},
        {"a mark behind the samples", true, MARK_AT + 8, FRAMES + 1, RECORD_FAULT_MALFORMED},
        {"a mark of no channel", true, MARK_AT + 16, CHANNELS, RECORD_FAULT_MALFORMED},
        {"reserved bytes of a mark", true, MARK_AT + 20, 1, RECORD_FAULT_MALFORMED},
        {"the version without events", false, 4, RECORD_VERSION, RECORD_FAULT_MALFORMED},
    };
    const struct record_mark mark = {1, 3, CHANNELS - 1};
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        size_t count;
        struct record r = cases[i].data ? marked(&mark) : of_analyses(), got;
        uint8_t *bytes = written(&r, &count);
        bytes[cases[i].at] = cases[i].value;
        sign(bytes, count);
        const enum record_fault fault = record_read(bytes, count, &got);
        if (fault != cases[i].fault)
            fail_msg("%s: %s", cases[i].what, record_fault_sentence(fault));
        free(bytes);
    }
}

static void test_too_long(void **unused)
{
    (void)unused;
    struct record r = data(0, FRAMES);
    r.plan = (struct record_span){samples, 65536};
    assert_int_equal(record_bytes(&r), 0);
    r = data(0, FRAMES);
    r.state = (struct record_span){samples, RECORD_BYTES_MAX};
    assert_int_equal(record_bytes(&r), 0);
    r = data(0, FRAMES);
    r.range_count = RECORD_RANGES_MAX + 1;
    assert_int_equal(record_bytes(&r), 0);
}

/* ---- following --------------------------------------------------------------------------- */

static void test_follow(void **unused)
{
    (void)unused;
    struct record shed = data(24, 30), other = data(20, 30), end = data(30, 30), next = data(0, 10),
                  skipped = data(8, 10), taken = data(12, 12), unlike = data(10, 20);
    shed.from = 20; /* frames 20 … 23 were given up */
    shed.chain_before = crc32c(9, samples, 20 * FRAME_BYTES);
    shed.chain = crc32c(shed.chain_before, shed.samples, 6 * FRAME_BYTES);
    other.samples = samples; /* the same numbers, other samples */
    other.chain = crc32c(other.chain_before, samples, 10 * FRAME_BYTES);
    unlike.samples = samples;
    unlike.chain = crc32c(unlike.chain_before, samples, 10 * FRAME_BYTES);
    end.kind = RECORD_END;
    end.chain_before = end.chain = shed.chain;
    taken.kind = RECORD_TAKE;
    next.epoch = skipped.epoch = 4;
    next.chain_before = end.chain;
    next.chain = crc32c(next.chain_before, next.samples, 10 * FRAME_BYTES);
    struct record forked = next;
    forked.chain_before ^= 1;
    forked.chain = crc32c(forked.chain_before, forked.samples, 10 * FRAME_BYTES);

    const struct {
        const char *what;
        struct record r;
        enum record_step step;
        uint32_t skip;
        uint64_t next; /* of the position afterwards */
    } steps[] = {
        {"the first", data(0, 10), RECORD_NEW, 0, 10},
        {"again", data(0, 10), RECORD_SEEN, 10, 10},
        {"one before", data(0, 5), RECORD_SEEN, 0, 10},
        {"cut differently", data(5, 15), RECORD_NEW, 5, 15},
        {"a take of a log that went back", taken, RECORD_SEEN, 0, 15},
        {"up to the same frame", data(10, 15), RECORD_SEEN, 5, 15},
        {"other samples under known numbers", unlike, RECORD_FORK, 5, 15},
        {"the rest", data(15, 20), RECORD_NEW, 0, 20},
        {"some given up", shed, RECORD_NEW, 0, 30},
        {"the end", end, RECORD_NEW, 0, 30},
        {"the end again", end, RECORD_SEEN, 0, 30},
        {"an epoch on another chain", forked, RECORD_FORK, 0, 30},
        {"the next epoch", next, RECORD_NEW, 0, 10},
        {"an epoch that is over", data(20, 30), RECORD_SEEN, 0, 10},
    };
    struct record_position position = {0};
    for (size_t i = 0; i < sizeof steps / sizeof steps[0]; i++) {
        uint32_t skip;
        const enum record_step step = record_follow(&position, &steps[i].r, &skip);
        if (step != steps[i].step || skip != steps[i].skip || position.next != steps[i].next)
            fail_msg("%s: step %d, skip %u, next %llu", steps[i].what, step, skip,
                     (unsigned long long)position.next);
    }

    /* Frames that the log has dropped. */
    uint32_t skip;
    position = (struct record_position){true, false, 3, 10, 0};
    assert_int_equal(record_follow(&position, &other, &skip), RECORD_LOST);
    assert_int_equal(position.next, 30);
    position = (struct record_position){true, false, 3, 10, 0};
    assert_int_equal(record_follow(&position, &next, &skip), RECORD_LOST); /* its end is missing */
    position = (struct record_position){true, true, 3, 10, 0};
    assert_int_equal(record_follow(&position, &skipped, &skip), RECORD_LOST);
    /* A record whose chain is not that of its samples is a fork to anybody. */
    other.chain ^= 1;
    position = (struct record_position){0};
    assert_int_equal(record_follow(&position, &other, &skip), RECORD_FORK);
}

/* The chain does not depend on how the samples are cut. */
static void test_chain(void **unused)
{
    (void)unused;
    for (uint32_t cut = 1; cut < 30; cut++) {
        struct record a = data(0, cut), b = data(cut, 30);
        assert_int_equal(record_chain(&a, a.frames), b.chain_before);
        assert_int_equal(record_chain(&b, b.frames), data(0, 30).chain);
    }
}

static void test_words(void **unused)
{
    (void)unused;
    assert_string_equal(record_kind_word(RECORD_TAKE), "take");
    assert_string_equal(record_kind_word(RECORD_RELEASE), "release");
    assert_string_equal(record_kind_word(0), "?");
    assert_string_equal(record_kind_word(7), "analysis");
    assert_string_equal(record_fault_sentence(RECORD_FAULT_DAMAGED), "its checksum is wrong");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_read_back),
        cmocka_unit_test(test_layout),
        cmocka_unit_test(test_damage),
        cmocka_unit_test(test_contradictions),
        cmocka_unit_test(test_events_read_back),
        cmocka_unit_test(test_events_contradict),
        cmocka_unit_test(test_too_long),
        cmocka_unit_test(test_follow),
        cmocka_unit_test(test_chain),
        cmocka_unit_test(test_words),
    };
    return cmocka_run_group_tests(tests, make_samples, NULL);
}
