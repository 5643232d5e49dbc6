/*
 * Packets of a partition: however results are cut at blocks, and whoever sends them, frames have
 * the same packets and sequence numbers, which follow each other and belong to no other frames
 * nearby.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "core/random.h"
#include "io/net/rtp_numbers.h"
#include "io/net/rtp_sink_options.h"

enum { BLOCK = 100, PACKET = 30, FRAMES = 200000 };

static struct rtp_numbers numbers(const char *partition, uint32_t hop)
{
    const struct sink_options options = {.partition = partition,
                                         .block_bytes = (uint64_t)hop * 2 * sizeof(float),
                                         .stream = {.channels = 2, .decimate = 2}};
    return rtp_numbers_of(&options, PACKET);
}

/* Sends frames [from, until) of an epoch in results of whole blocks; *expect: of the first packet
 * if it is known, then of the next. */
static void send_frames(struct random_state *random, const struct rtp_numbers *n, uint64_t epoch,
                        uint64_t timeline, uint64_t from, uint64_t until, int32_t *expect)
{
    uint16_t next = (uint16_t)random_u64(random);
    while (from < until) {
        uint64_t frames = BLOCK * (1 + random_below(random, 3));
        frames = frames < until - from ? frames : until - from;
        const struct result result = {.epoch = epoch,
                                      .first_frame = from,
                                      .timeline_frame = timeline + from,
                                      .frames = (uint32_t)frames};
        for (uint32_t at = 0; at < frames;) {
            const uint64_t frame = from + at, in_block = frame % BLOCK;
            const uint32_t count = rtp_numbers_frames(n, frame, (uint32_t)frames - at);
            const uint64_t left = until - frame;
            uint64_t whole = in_block / PACKET * PACKET == 90 ? 10 : PACKET;
            assert_int_equal(count, whole < left ? whole : left);
            const uint16_t sequence = rtp_numbers_sequence(n, &result, at, &next);
            assert_true(*expect < 0 || sequence == *expect);
            *expect = (uint16_t)(sequence + 1);
            at += count;
        }
        from += frames;
    }
}

static void test_the_same_packets_from_every_owner(void **state)
{
    (void)state;
    struct random_state random = {5};
    const struct rtp_numbers n = numbers("rig", 2 * BLOCK);
    assert_int_equal(n.block, BLOCK);
    int32_t of_first = -1, of_second = -1;
    send_frames(&random, &n, 2, 12345, 0, FRAMES, &of_first);
    /* Another one has begun in the middle. */
    send_frames(&random, &n, 2, 12345, FRAMES / 2, FRAMES, &of_second);
    assert_int_equal(of_first, of_second);
}

static void test_epochs_share_no_sequence_number(void **state)
{
    (void)state;
    struct random_state random = {6};
    const struct rtp_numbers n = numbers("rig", 2 * BLOCK);
    for (int i = 0; i < 10000; i++) {
        const uint64_t timeline = random_below(&random, 1000),
                       frames = 1 + random_below(&random, 500);
        int32_t last = -1, first = -1;
        send_frames(&random, &n, 7, timeline, 0, frames, &last);
        send_frames(&random, &n, 8, timeline + frames, 0, 1, &first);
        /* `last` is the number behind the epoch's; `first` the one behind the next epoch's first.
         */
        assert_true((int16_t)(first - 1 - (last - 1)) > 0);
    }
}

static void test_what_is_counted(void **state)
{
    (void)state;
    struct result result = {.first_frame = 77};
    uint16_t next = 9;
    const struct rtp_numbers alone = numbers(NULL, 2 * BLOCK), odd = numbers("rig", 2 * BLOCK + 1);
    assert_int_equal(rtp_numbers_frames(&alone, 77, 5000), 5000);
    assert_int_equal(rtp_numbers_frames(&odd, 77, 5000), PACKET);
    assert_int_equal(rtp_numbers_sequence(&alone, &result, 0, &next), 9);
    assert_int_equal(rtp_numbers_sequence(&odd, &result, 0, &next), 10);
    assert_int_equal(next, 11);
}

static void test_who_sends(void **state)
{
    (void)state;
    struct rtp_sink_options own = {0};
    struct sink_options options = {.name = "wire", .partition = "rig", .own = &own};
    uint32_t here, there, other;
    uint16_t sequence;
    rtp_numbers_begin(&options, &here, &sequence);
    rtp_numbers_begin(&options, &there, &sequence);
    assert_int_equal(here, there);
    options.partition = "rig2";
    rtp_numbers_begin(&options, &other, &sequence);
    assert_int_not_equal(here, other);
    options.partition = "rig";
    options.name = "wire2";
    rtp_numbers_begin(&options, &other, &sequence);
    assert_int_not_equal(here, other);
    own = (struct rtp_sink_options){.ssrc_set = true, .ssrc = 5};
    rtp_numbers_begin(&options, &other, &sequence);
    assert_int_equal(other, 5);
    own.ssrc_set = false;
    options.partition = NULL;
    options.identity = &(struct sink_identity){.ssrc = 6, .sequence = 7};
    rtp_numbers_begin(&options, &other, &sequence);
    assert_int_equal(other, 6);
    assert_int_equal(sequence, 7);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_the_same_packets_from_every_owner),
        cmocka_unit_test(test_epochs_share_no_sequence_number),
        cmocka_unit_test(test_what_is_counted),
        cmocka_unit_test(test_who_sends),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
