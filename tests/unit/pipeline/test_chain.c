/* Chains: what a result becomes for the stream that reads it. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include "pipeline/chain.h"

static const float samples[8];
static const struct invalid_range ranges[1] = {{3, 9, INVALID_NETWORK}};

static struct result result_of(uint64_t epoch, uint64_t first, uint32_t flags)
{
    return (struct result){.epoch = epoch,
                           .first_frame = first,
                           .frames = 8,
                           .channels = 1,
                           .flags = flags,
                           .samples = samples,
                           .capture_ns = 1000 + (int64_t)first,
                           .clock = CLOCK_SOURCE_SOURCE,
                           .clock_error_ns = 7,
                           .delivered_ns = 500 + (int64_t)first,
                           .invalid = ranges,
                           .invalid_count = 1};
}

static void a_result_keeps_its_place_times_and_ranges(void **state)
{
    (void)state;
    struct chain chain = {0};
    struct result result = result_of(0, 64, RESULT_EPOCH_START);
    struct packet packet = chain_packet(&chain, &result, 10000);
    assert_int_equal(packet.first_frame, 64);
    assert_int_equal(packet.frames, 8);
    assert_ptr_equal(packet.payload, samples);
    assert_int_equal(packet.receive_ns, 564);
    assert_int_equal(packet.receive_realtime_ns, 10564);
    assert_int_equal(packet.capture_ns, 1064);
    assert_int_equal(packet.clock, CLOCK_SOURCE_SOURCE);
    assert_int_equal(packet.clock_error_ns, 7);
    assert_ptr_equal(packet.invalid, ranges);
    assert_int_equal(packet.invalid_count, 1);
}

/* What a cross-fade has mixed is not what the device holds. */
static void a_mix_is_not_in_the_device(void **state)
{
    (void)state;
    struct chain chain = {0};
    struct result result = result_of(0, 64, RESULT_MIXED);
    assert_false(chain_packet(&chain, &result, 0).flags & PACKET_RESULT);
    result = result_of(0, 72, 0);
    assert_true(chain_packet(&chain, &result, 0).flags & PACKET_RESULT);
}

static void epochs_and_records_are_handed_on(void **state)
{
    (void)state;
    /* Of a result, and so in the device, and with its time. */
    enum { STEPS = 5, CAPTURE = PACKET_RESULT | PACKET_CAPTURE };
    static const struct {
        bool records;
        struct {
            uint64_t epoch;
            uint32_t flags, want;
        } steps[STEPS];
    } cases[] = {
        /* The first epoch of all is no discontinuity. */
        {false,
         {{0, RESULT_EPOCH_START, CAPTURE},
          {0, 0, CAPTURE},
          {0, RESULT_EPOCH_END, CAPTURE | PACKET_LAST},
          {1, RESULT_EPOCH_START, CAPTURE | PACKET_DISCONTINUITY},
          {1, 0, CAPTURE}}},
        /* Every record begins as one, also the first. */
        {true,
         {{0, RESULT_EPOCH_START, CAPTURE | PACKET_RECORD},
          {0, RESULT_EPOCH_END, CAPTURE | PACKET_LAST},
          {1, RESULT_EPOCH_START | RESULT_EPOCH_END, CAPTURE | PACKET_RECORD | PACKET_LAST},
          {2, RESULT_EPOCH_START, CAPTURE | PACKET_RECORD},
          {2, 0, CAPTURE}}},
        /* The piece with the flag was shed: the epoch's number tells. */
        {false,
         {{0, RESULT_EPOCH_START, CAPTURE},
          {1, 0, CAPTURE | PACKET_DISCONTINUITY},
          {1, 0, CAPTURE},
          {3, 0, CAPTURE | PACKET_DISCONTINUITY},
          {3, RESULT_EPOCH_END, CAPTURE | PACKET_LAST}}},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct chain chain = {.records = cases[i].records};
        for (int step = 0; step < STEPS; step++) {
            struct result result = result_of(cases[i].steps[step].epoch, 8 * (uint64_t)step,
                                             cases[i].steps[step].flags);
            struct packet packet = chain_packet(&chain, &result, 0);
            if (packet.flags != cases[i].steps[step].want)
                fail_msg("case %zu step %d: flags %u, expected %u", i, step, packet.flags,
                         cases[i].steps[step].want);
        }
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_result_keeps_its_place_times_and_ranges),
        cmocka_unit_test(a_mix_is_not_in_the_device),
        cmocka_unit_test(epochs_and_records_are_handed_on),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
