/*
 * Source `portaudio` with a simulated card: frame numbers, capture times and their clock, and the
 * causes of missing frames.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "core/clock.h"
#include "io/sources.h"
#include "io/sound/ring.h"
#include "tests/support/sound_card_double.h"

enum { RATE = 51200, PERIOD = 512, PERIOD_NS = 10000000, LATE_NS = 3000000, PACKETS_MAX = 4000 };

/* ---- the stream -------------------------------------------------------------------------- */

static struct packet packets[PACKETS_MAX];
static unsigned packet_count;
static uint64_t blamed[INVALID_CAUSES];
static enum verdict answer;

static enum verdict put(void *context, const struct packet *packet)
{
    (void)context;
    assert_true(packet_count < PACKETS_MAX);
    packets[packet_count++] = *packet;
    return answer;
}

static void lost(void *context, uint64_t frames, enum invalid_cause cause)
{
    (void)context;
    blamed[cause] += frames;
}

static int64_t now_ns;

static int64_t monotonic(void)
{
    return now_ns;
}

static int64_t realtime(void)
{
    return now_ns + 1000 * NS_PER_SECOND;
}

static struct source *source;

static void open_source(void)
{
    static struct sound_options sound;
    static const struct clock_functions functions = {monotonic, realtime};
    sound_card_forget();
    memset(blamed, 0, sizeof blamed);
    packet_count = 0;
    answer = VERDICT_ACCEPTED;
    clock_replace(&functions);
    sound.request.rate_hz = RATE;
    sound.request.playback_frames = 1;
    sound.request.capture.channels = sound.request.capture.device_channels = 1;
    sample_format_parse("s16le", &sound.request.capture.format);
    struct source_options options = {
        .stream = "x", .rate_hz = RATE, .channels = 1, .frame_bytes = 2, .own = &sound};
    const struct source_host host = {.put = put, .lost = lost};
    struct problem problem;
    assert_int_equal(
        source_portaudio.open(&options, &(struct io_environment){0}, &host, &source, &problem), 0);
    assert_int_equal(source_portaudio.start(source, &problem), 0);
    assert_int_equal(card.direction, SOUND_CAPTURE);
    assert_true(card.started);
    card.based = card.origin_known = true;
}

static void gone(void *context)
{
    *(bool *)context = true;
}

static void close_source(void)
{
    bool closed = false;
    source_portaudio.stop(source);
    source_portaudio.close(source, gone, &closed);
    assert_true(closed && card.left);
    sound_card_forget();
    clock_replace(NULL);
}

/* A callback LATE_NS after the period's last frame came from the converter. */
static void callback(uint64_t period, bool usable)
{
    static int16_t input[PERIOD];
    int64_t begun_ns = 5 * NS_PER_SECOND + (int64_t)period * PERIOD_NS;
    now_ns = begun_ns + PERIOD_NS + LATE_NS;
    sound_ring_store(card.shared, (const uint8_t *)input, PERIOD, now_ns, 0, begun_ns, usable);
    sound_ring_advance(card.shared, PERIOD, 0, now_ns);
    sound_ring_end(card.shared);
    card.user.callback(card.user.context);
}

/* ---- contracts --------------------------------------------------------------------------- */

static int64_t difference(int64_t a, int64_t b)
{
    return a > b ? a - b : b - a;
}

static void times_are_the_converters(void **state)
{
    (void)state;
    open_source();
    for (uint64_t i = 0; i < 200; i++)
        callback(i, true);
    assert_int_equal(packet_count, 200);
    for (uint64_t i = 0; i < 200; i++) {
        const struct packet *packet = &packets[i];
        int64_t begun_ns = 5 * NS_PER_SECOND + (int64_t)i * PERIOD_NS;
        assert_int_equal(packet->first_frame, i * PERIOD);
        assert_int_equal(packet->frames, PERIOD);
        assert_true(packet->flags & PACKET_CAPTURE);
        assert_int_equal(packet->clock, CLOCK_SOURCE_CONVERTER);
        assert_int_equal(packet->receive_ns, begun_ns + PERIOD_NS + LATE_NS);
        assert_int_equal(packet->receive_realtime_ns - packet->receive_ns, 1000 * NS_PER_SECOND);
        assert_true(difference(packet->capture_ns, begun_ns + 1000 * NS_PER_SECOND) <= 1000);
    }
    close_source();
}

/* Bad stamps: callbacks' times, so named; the converter is believed again after a second without.
 */
static void without_good_stamps_the_receive_clock_is_used_and_named(void **state)
{
    (void)state;
    open_source();
    for (uint64_t i = 0; i < 400; i++)
        callback(i, i < 50 || i > 60);
    for (uint64_t i = 0; i < 400; i++) {
        bool converter = i < 50 || i >= 60 + 100;
        int64_t begun_ns = 1000 * NS_PER_SECOND + 5 * NS_PER_SECOND + (int64_t)i * PERIOD_NS;
        if (packets[i].clock != (converter ? CLOCK_SOURCE_CONVERTER : CLOCK_SOURCE_RECEIVE))
            fail_msg("period %u has the clock `%s`", (unsigned)i,
                     clock_source_name(packets[i].clock));
        assert_true(packets[i].flags & PACKET_CAPTURE);
        assert_true(difference(packets[i].capture_ns, begun_ns + (converter ? 0 : LATE_NS)) <=
                    1000);
    }
    close_source();
}

/* A cycle in two callbacks: each has the time of its own frames, also by the receive clock. */
static void a_cycle_in_parts_keeps_its_times(void **state)
{
    (void)state;
    static int16_t input[PERIOD];
    open_source();
    for (uint64_t i = 0; i < 200; i++) {
        const int64_t begun_ns = 5 * NS_PER_SECOND + (int64_t)i * PERIOD_NS;
        const uint32_t behind = i % 2 == 0 ? PERIOD : 0;
        now_ns = begun_ns + (behind > 0 ? 2 : 1) * PERIOD_NS + LATE_NS;
        sound_ring_store(card.shared, (const uint8_t *)input, PERIOD, now_ns, behind, begun_ns,
                         false);
        sound_ring_advance(card.shared, PERIOD, 0, now_ns);
        if (behind > 0)
            continue;
        sound_ring_end(card.shared);
        card.user.callback(card.user.context);
    }
    for (uint64_t i = 0; i < 200; i++) {
        const int64_t begun_ns = 1005 * NS_PER_SECOND + (int64_t)i * PERIOD_NS;
        assert_int_equal(packets[i].first_frame, i * PERIOD);
        assert_true(difference(packets[i].capture_ns, begun_ns + LATE_NS) <= 1000);
    }
    close_source();
}

static void missing_frames_have_their_cause(void **state)
{
    (void)state;
    open_source();
    callback(0, true);
    /* The device lost two periods. */
    sound_ring_lose(card.shared, 2 * PERIOD);
    callback(3, true);
    assert_int_equal(packets[1].first_frame, 3 * PERIOD);
    assert_int_equal(blamed[INVALID_CAPTURE], 2 * PERIOD);
    assert_int_equal(blamed[INVALID_OVERLOAD], 0);
    /* The daemon does not come to it for longer than the ring holds; meanwhile the device loses
     * one. */
    static int16_t input[PERIOD];
    uint64_t stored = 0;
    for (int i = 0; i < 200; i++) {
        if (i == 150)
            sound_ring_lose(card.shared, PERIOD);
        uint64_t before = sound_count(card.shared, SOUND_RING_LOST_FRAMES);
        sound_ring_store(card.shared, (const uint8_t *)input, PERIOD, now_ns, 0, now_ns, true);
        sound_ring_advance(card.shared, PERIOD, 0, now_ns);
        sound_ring_end(card.shared);
        stored += before == sound_count(card.shared, SOUND_RING_LOST_FRAMES) ? PERIOD : 0;
    }
    uint64_t ring = sound_count(card.shared, SOUND_RING_LOST_FRAMES);
    assert_int_equal(stored + ring, 200 * PERIOD);
    assert_true(ring > 0);
    card.user.callback(card.user.context); /* those that were kept */
    callback(204, true);
    assert_int_equal(blamed[INVALID_OVERLOAD], ring);
    assert_int_equal(blamed[INVALID_CAPTURE], 3 * PERIOD);
    /* Every frame of the timeline was put or reported as lost. */
    uint64_t put_frames = 0;
    for (unsigned i = 0; i < packet_count; i++)
        put_frames += packets[i].frames;
    const struct packet *last = &packets[packet_count - 1];
    assert_int_equal(last->first_frame + last->frames,
                     put_frames + blamed[INVALID_CAPTURE] + blamed[INVALID_OVERLOAD]);
    close_source();
}

/* A new session: the device counts from 0, the ring has lost nothing yet. */
static void a_card_that_was_away_is_a_gap_of_capture(void **state)
{
    (void)state;
    open_source();
    for (uint64_t i = 0; i < 10; i++)
        callback(i, true);
    card.user.lost(card.user.context);
    card.based = false;
    sound_shared_reset(card.shared);
    card.base = 100 * PERIOD;
    card.based = true;
    for (uint64_t i = 0; i < 10; i++)
        callback(100 + i, true);
    assert_int_equal(packets[10].first_frame, 100 * PERIOD);
    assert_true(packets[10].flags & PACKET_TIMED);
    assert_int_equal(blamed[INVALID_CAPTURE], 90 * PERIOD);
    assert_int_equal(blamed[INVALID_OVERLOAD], 0);
    assert_int_equal(packets[10].clock, CLOCK_SOURCE_CONVERTER);
    close_source();
}

static void the_ledger_counts_every_period(void **state)
{
    (void)state;
    static const struct {
        enum verdict verdict;
        enum reject reject;
    } cases[] = {
        {VERDICT_DUPLICATE, REJECT_DUPLICATE},
        {VERDICT_LATE, REJECT_LATE},
        {VERDICT_OUT_OF_WINDOW, REJECT_OUT_OF_WINDOW},
        {VERDICT_REFUSED, REJECT_REFUSED},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        struct source_ledger ledger;
        open_source();
        callback(0, true);
        answer = cases[i].verdict;
        callback(1, true);
        source_portaudio.ledger(source, &ledger);
        assert_int_equal(ledger.datagrams, 2);
        assert_int_equal(ledger.accepted, 1);
        assert_int_equal(ledger.rejected[cases[i].reject], 1);
        assert_true(ledger.loss_detectable);
        close_source();
    }
}

static void nothing_is_put_after_stop(void **state)
{
    (void)state;
    open_source();
    callback(0, true);
    source_portaudio.stop(source);
    callback(1, true);
    assert_int_equal(packet_count, 1);
    close_source();
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(times_are_the_converters),
        cmocka_unit_test(without_good_stamps_the_receive_clock_is_used_and_named),
        cmocka_unit_test(a_cycle_in_parts_keeps_its_times),
        cmocka_unit_test(missing_frames_have_their_cause),
        cmocka_unit_test(a_card_that_was_away_is_a_gap_of_capture),
        cmocka_unit_test(the_ledger_counts_every_period),
        cmocka_unit_test(nothing_is_put_after_stop),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
