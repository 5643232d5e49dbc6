/* What records of kind `analysis` carry: parts that are read back, parts that are none, and where a
 * reader of events stands. */
#include <setjmp.h>
#include <stdarg.h>
#include <string.h>

#include <cmocka.h>

#include "wire/crc32c.h"
#include "wire/logged.h"

static struct record_span span(const char *text)
{
    return (struct record_span){(const uint8_t *)text, (uint32_t)strlen(text)};
}

/* Events `first`, `first` + 1, … of a log whose lines are their numbers, one digit each. */
static struct logged_part lines(uint64_t first, uint32_t count)
{
    static uint8_t text[9][32];
    uint8_t *at = text[first];
    uint32_t before = 0;
    for (uint64_t i = 1; i < first; i++)
        before = crc32c(before, (const uint8_t[]){(uint8_t)('0' + i), '\n'}, 2);
    for (uint32_t i = 0; i < count; i++) {
        at[2 * i] = (uint8_t)('0' + first + i);
        at[2 * i + 1] = '\n';
    }
    return (struct logged_part){.form = LOGGED_EVENTS,
                                .name = span("bursts"),
                                .number = first,
                                .count = count,
                                .chain_before = before,
                                .chain = crc32c(before, at, 2 * (size_t)count),
                                .bytes = {at, 2 * count}};
}

static void test_read_back(void **unused)
{
    (void)unused;
    const struct logged_part parts[] = {
        lines(3, 2),
        {.form = LOGGED_STATE, .number = 4, .count = 9, .chain = 77, .bytes = span("state")},
    };
    uint8_t bytes[256];
    struct record_span all = {bytes, 0};
    for (int i = 0; i < 2; i++) {
        logged_write(&parts[i], bytes + all.count);
        all.count += (uint32_t)logged_bytes(&parts[i]);
    }
    size_t at = 0;
    for (int i = 0; i < 2; i++) {
        struct logged_part got;
        assert_true(logged_read(&all, &at, &got));
        assert_int_equal(got.form, parts[i].form);
        assert_int_equal(got.number, parts[i].number);
        assert_int_equal(got.count, parts[i].count);
        assert_int_equal(got.chain_before, parts[i].chain_before);
        assert_int_equal(got.chain, parts[i].chain);
        assert_int_equal(got.name.count, parts[i].name.count);
        assert_int_equal(got.bytes.count, parts[i].bytes.count);
        assert_memory_equal(got.bytes.bytes, parts[i].bytes.bytes, got.bytes.count);
    }
    struct logged_part none;
    assert_int_equal(at, all.count);
    assert_false(logged_read(&all, &at, &none));
    for (uint32_t cut = 1; cut < logged_bytes(&parts[0]); cut++) {
        const struct record_span less = {bytes, cut};
        at = 0;
        assert_false(logged_read(&less, &at, &none));
        assert_int_equal(at, 0);
    }
}

static void test_malformed(void **unused)
{
    (void)unused;
    static const struct {
        const char *what;
        bool state;
        size_t at;
        uint8_t value;
    } cases[] = {
        {"no form", false, 0, 0},
        {"unknown form", false, 0, 3},
        {"reserved byte", false, 1, 1},
        {"a name beyond the longest", false, 3, 1},
        {"no name", false, 2, 0},
        {"bytes beyond the end", false, 7, 0xFF},
        {"event 0", false, 8, 0},
        {"an event beyond all", false, 15, 0xFF},
        {"more events than lines", false, 16, 3},
        {"another chain", false, 24, 1},
        {"another chain before", false, 20, 1},
        {"reserved word", false, 28, 1},
        {"a line without its end", false, LOGGED_HEAD_BYTES + 6 + 3, 'x'},
        {"a state with a chain before", true, 20, 1},
        {"a state that ends before its bytes", true, 16, 8},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        const struct logged_part events = lines(3, 2), state = {.form = LOGGED_STATE,
                                                                .number = 4,
                                                                .count = 9,
                                                                .bytes = span("state")};
        const struct logged_part *part = cases[i].state ? &state : &events;
        struct logged_part got;
        uint8_t bytes[256];
        size_t at = 0;
        logged_write(part, bytes);
        const struct record_span all = {bytes, (uint32_t)logged_bytes(part)};
        assert_true(logged_read(&all, &at, &got));
        bytes[cases[i].at] = cases[i].value;
        at = 0;
        if (logged_read(&all, &at, &got))
            fail_msg("%s is read", cases[i].what);
    }
}

static void test_follow(void **unused)
{
    (void)unused;
    static const struct {
        const char *what;
        uint64_t next; /* where the reader stands; 0: at the start */
        uint64_t first;
        uint32_t count;
        uint32_t wrong; /* added to the chain before */
        enum logged_step step;
        size_t skip;
    } cases[] = {
        {"the first that is read", 0, 4, 2, 0, LOGGED_NEW, 0},
        {"what follows", 4, 4, 2, 0, LOGGED_NEW, 0},
        {"some of it is known", 4, 2, 4, 0, LOGGED_NEW, 4},
        {"all of it is known", 4, 2, 2, 0, LOGGED_SEEN, 0},
        {"events are missing", 4, 6, 2, 0, LOGGED_LOST, 0},
        {"others before", 4, 4, 2, 1, LOGGED_FORK, 0},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        struct logged_position position = {0};
        struct logged_part part = lines(1, 1);
        size_t skip;
        if (cases[i].next > 0) {
            part = lines(1, (uint32_t)cases[i].next - 1);
            assert_int_equal(logged_follow(&position, &part, &skip), LOGGED_NEW);
            assert_int_equal(position.next, cases[i].next);
        }
        part = lines(cases[i].first, cases[i].count);
        part.chain_before += cases[i].wrong;
        const struct logged_position before = position;
        const enum logged_step step = logged_follow(&position, &part, &skip);
        if (step != cases[i].step || skip != cases[i].skip)
            fail_msg("%s: step %d, skip %zu", cases[i].what, (int)step, skip);
        const bool moves = step == LOGGED_NEW || step == LOGGED_LOST;
        assert_int_equal(position.next, moves ? part.number + part.count : before.next);
        assert_int_equal(position.chain, moves ? part.chain : before.chain);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_read_back),
        cmocka_unit_test(test_malformed),
        cmocka_unit_test(test_follow),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
