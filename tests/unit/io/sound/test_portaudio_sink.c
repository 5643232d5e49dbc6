/*
 * Sink `portaudio` with a simulated card: which frame plays when, what is late, dropped or pending,
 * and how far a stream that waits may run ahead.
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
#include "io/sinks.h"
#include "io/sound/ring.h"
#include "tests/support/sound_card_double.h"

enum { PERIOD = 256, HOP = 64, FAR = 1 << 20 };

/* ---- what is heard ----------------------------------------------------------------------- */

static float heard[FAR];
static uint64_t heard_frames;

/* A cycle of so many callbacks: plays their periods into `heard`, then calls the sink. */
static void cycle(uint32_t callbacks)
{
    const int64_t now_ns = clock_monotonic_ns();
    for (uint32_t i = 0; i < callbacks; i++) {
        uint32_t played = sound_ring_play(card.shared, (uint8_t *)&heard[heard_frames], PERIOD);
        sound_ring_advance(card.shared, PERIOD, played, now_ns);
        heard_frames += PERIOD;
    }
    sound_ring_end(card.shared);
    card.user.callback(card.user.context);
}

static void callback(void)
{
    cycle(1);
}

static struct sink *sink;
static unsigned room_calls;
static bool resample; /* the option of the next open_sink */

static void room_again(void *context)
{
    (void)context;
    room_calls++;
}

static void open_sink(bool duplex, bool own, uint64_t latency)
{
    static struct sound_options sound;
    sound_card_forget();
    memset(&sound, 0, sizeof sound);
    memset(heard, 0, sizeof heard);
    heard_frames = 0;
    room_calls = 0;
    sound.duplex = duplex;
    sound.own = own;
    sound.resample = resample;
    sound.latency_frames = latency;
    sound.hop_frames = HOP;
    sound.request.rate_hz = 48000;
    sound.request.playback_frames = 20000;
    sound.request.playback.channels = sound.request.playback.device_channels = 1;
    sample_format_parse("f32le", &sound.request.playback.format);
    struct sink_options options = {
        .name = "s",
        .stream = {.name = "x", .rate_hz = 48000, .channels = 1},
        .format = sound.request.playback.format,
        .full_scale = 1,
        .own = &sound,
        .room_again = room_again,
    };
    struct problem problem;
    assert_int_equal(sink_portaudio.open(&options, &(struct io_environment){0}, &sink, &problem),
                     0);
    sink_portaudio.start(sink);
    assert_int_equal(card.direction, SOUND_PLAYBACK);
    assert_int_equal(card.started, !duplex);
    card.based = true;
    card.origin_known = true;
}

static struct sink_ledger ledger(void)
{
    struct sink_ledger now;
    sink_portaudio.ledger(sink, &now);
    uint64_t dropped = 0;
    for (int i = 0; i < DROPS; i++)
        dropped += now.dropped[i];
    assert_int_equal(now.frames, now.delivered + now.pending + dropped);
    return now;
}

static void gone(void *context)
{
    *(bool *)context = true;
}

static void close_sink(void)
{
    bool closed = false;
    sink_portaudio.close(sink, 0, gone, &closed);
    assert_true(closed && card.left);
    sound_card_forget();
}

/* Frame n of the timeline has the value n + 1. */
static void put(uint64_t frame, uint32_t frames)
{
    static float samples[FAR];
    for (uint32_t i = 0; i < frames; i++)
        samples[i] = (float)(frame + i + 1);
    struct result result = {
        .timeline_frame = frame,
        .first_frame = frame,
        .frames = frames,
        .channels = 1,
        .samples = samples,
        .rate_hz = 48000,
    };
    sink_portaudio.put(sink, &result);
    ledger();
}

static void expect_heard(uint64_t from, uint64_t until, int64_t offset)
{
    for (uint64_t i = from; i < until; i++)
        if (heard[i] != (float)((int64_t)i - offset + 1))
            fail_msg("frame %u of the card is %g, not %g", (unsigned)i, (double)heard[i],
                     (double)((int64_t)i - offset + 1));
}

static void expect_silence(uint64_t from, uint64_t until)
{
    for (uint64_t i = from; i < until; i++)
        assert_true(heard[i] == 0);
}

/* ---- contracts --------------------------------------------------------------------------- */

/* Captured in one callback, played in the next: one period, whatever the origin. */
static void by_rule_a_duplex_card_adds_one_period(void **state)
{
    (void)state;
    open_sink(true, true, 0);
    card.origin = 2 * PERIOD;
    callback();
    callback();
    for (uint64_t period = 0; period < 20; period++) {
        callback(); /* brings frames period * PERIOD … of the timeline, which are convolved at once
                     */
        for (uint32_t block = 0; block < PERIOD / HOP; block++)
            put(period * PERIOD + block * HOP, HOP);
    }
    callback();
    expect_silence(0, 3 * PERIOD);
    expect_heard(3 * PERIOD, 23 * PERIOD, 3 * PERIOD);
    struct sink_ledger now = ledger();
    assert_int_equal(now.delivered, 20 * PERIOD);
    assert_int_equal(now.pending, 0);
    close_sink();
}

/* A late result is never played late: silence replaces it, and the next one plays in time. */
static void late_results_do_not_shift_the_others(void **state)
{
    (void)state;
    open_sink(true, true, 1000);
    callback();
    put(0, 100);
    for (int i = 0; i < 4; i++)
        callback(); /* now 1280: frames 0 … 279 of the timeline have had their time */
    put(100, 300);
    put(400, 100);
    for (int i = 0; i < 2; i++)
        callback();
    struct sink_ledger now = ledger();
    assert_int_equal(now.dropped[DROP_LATE], 180);
    assert_int_equal(now.delivered, 100 + 120 + 100);
    expect_silence(0, 1000);
    expect_heard(1000, 1100, 1000);
    expect_silence(1100, 1280);
    expect_heard(1280, 1500, 1000);
    expect_silence(1500, 1536);
    /* The same for a result that is late as a whole. */
    put(500, 36);
    assert_int_equal(ledger().dropped[DROP_LATE], 216);
    close_sink();
}

static void an_excitation_keeps_the_offset_of_its_first_frame(void **state)
{
    (void)state;
    struct sound_report report;
    open_sink(true, false, 500);
    callback();
    put(7000, 200);
    sink_portaudio.read_status(sink, &report);
    assert_true(report.anchored && report.plays);
    assert_int_equal(report.latency_frames, 500);
    assert_int_equal(report.offset_frames, PERIOD + 500 - 7000);
    for (int i = 0; i < 5; i++)
        callback();
    put(7200, 2000); /* behind by now: its head is late, the rest where it belongs */
    for (int i = 0; i < 8; i++)
        callback();
    expect_heard(756, 956, 756 - 7000);
    expect_silence(956, 6 * PERIOD);
    expect_heard(6 * PERIOD, 2956, 756 - 7000);
    assert_int_equal(ledger().dropped[DROP_LATE], 6 * PERIOD - 956);
    close_sink();
}

/* A card with a clock of its own: the latency is found again, after an underrun by silence, after
 * too much by leaving out. */
static void a_card_of_its_own_returns_to_its_latency(void **state)
{
    (void)state;
    struct sound_report report;
    open_sink(false, false, 1000);
    callback();
    put(0, 200);
    for (int i = 0; i < 6; i++)
        callback();
    put(200, 200); /* its time was 1456, it is 1792 now: again from 2792 on */
    sink_portaudio.read_status(sink, &report);
    assert_int_equal(report.offset_frames, 7 * PERIOD + 1000 - 200);
    for (int i = 0; i < 8; i++)
        callback();
    assert_int_equal(ledger().delivered, 400);
    assert_int_equal(ledger().dropped[DROP_LATE], 0);
    expect_heard(2792, 2992, 2592);
    /* Too many frames: the sink drops results until the ring holds no more than the latency. */
    uint64_t frame = 400;
    while (ledger().dropped[DROP_QUEUE] == 0 && frame < 20000) {
        put(frame, 200);
        frame += 200;
    }
    assert_true(ledger().pending <= 2 * 1000 + 600);
    uint64_t dropped = ledger().dropped[DROP_QUEUE];
    assert_int_equal(dropped, 200);
    close_sink();
}

static void without_a_card_frames_are_dropped_as_such(void **state)
{
    (void)state;
    open_sink(true, true, 1000);
    callback();
    put(0, 100);
    assert_int_equal(ledger().pending, 100);
    card.user.lost(card.user.context);
    card.based = false;
    assert_int_equal(ledger().dropped[DROP_DEVICE], 100);
    put(100, 100);
    assert_int_equal(ledger().dropped[DROP_DEVICE], 200);
    assert_int_equal(sink_portaudio.room(sink), 0);
    /* The card is back in a new session; the offset is unchanged. */
    sound_shared_reset(card.shared);
    card.base = 8 * PERIOD;
    card.based = true;
    heard_frames = 0;
    callback();
    put(2000, 100);
    for (int i = 0; i < 4; i++)
        callback();
    expect_heard(3000 - 8 * PERIOD, 3100 - 8 * PERIOD, 1000 - 8 * PERIOD);
    assert_int_equal(ledger().delivered, 100);
    close_sink();
}

/* Before the first results nothing is late. */
static void before_the_capture_began_nothing_is_played(void **state)
{
    (void)state;
    open_sink(true, true, 1000);
    card.origin_known = false;
    callback();
    put(0, 100);
    assert_int_equal(ledger().dropped[DROP_DEVICE], 100);
    close_sink();
}

static void a_stream_that_waits_is_let_ahead_of_the_card_by_a_block(void **state)
{
    (void)state;
    open_sink(false, false, 1000);
    callback();
    uint64_t frame = 0;
    while (sink_portaudio.room(sink) >= HOP) {
        put(frame, HOP);
        frame += HOP;
    }
    assert_true(frame >= HOP && ledger().pending == frame);
    assert_int_equal(ledger().dropped[DROP_QUEUE], 0);
    assert_int_equal(room_calls, 0);
    callback();
    assert_int_equal(room_calls, 1);
    assert_true(sink_portaudio.room(sink) >= HOP);
    /* It continues without a gap. */
    for (int i = 0; i < 400; i++) {
        while (sink_portaudio.room(sink) >= HOP) {
            put(frame, HOP);
            frame += HOP;
        }
        callback();
    }
    struct sink_ledger now = ledger();
    assert_int_equal(now.frames, now.delivered + now.pending);
    expect_heard(PERIOD + 1000, heard_frames, PERIOD + 1000);
    close_sink();
}

/* Close plays what is pending, up to a deadline. */
static void closing_waits_for_what_is_pending(void **state)
{
    (void)state;
    bool closed = false;
    open_sink(true, true, 1000);
    callback();
    put(0, 300);
    sink_portaudio.close(sink, INT64_MAX, gone, &closed);
    assert_false(closed);
    for (int i = 0; i < 5 && !closed; i++)
        callback();
    assert_true(closed);
    expect_heard(1000, 1300, 1000);
    sound_card_forget();
}

/* The period grows to four callbacks a cycle and shrinks again while the card runs: the latency by
 * rule follows with the first result, and from there on every frame is heard at it. */
static void the_latency_follows_the_period(void **state)
{
    (void)state;
    struct sound_report report;
    uint64_t frame = 0, latency[] = {PERIOD, 4 * PERIOD, PERIOD};
    open_sink(true, true, 0);
    card.origin = 0;
    for (uint32_t phase = 0; phase < 3; phase++) {
        const uint32_t callbacks = phase == 1 ? 4 : 1;
        uint64_t dropped = 0;
        for (int i = 0; i < 10; i++) {
            cycle(callbacks);
            for (uint32_t done = 0; done < callbacks * PERIOD; done += HOP, frame += HOP)
                put(frame, HOP);
            sink_portaudio.read_status(sink, &report);
            assert_int_equal(report.latency_frames, latency[phase]);
            if (i == 3)
                dropped = ledger().dropped[DROP_LATE];
        }
        assert_int_equal(ledger().dropped[DROP_LATE], dropped);
        for (uint64_t n = frame - 4 * callbacks * PERIOD; n + latency[phase] < heard_frames; n++)
            assert_true(heard[n + latency[phase]] == (float)(n + 1));
    }
    close_sink();
}

static struct sink_ledger last;

static void gone_with(void *context)
{
    last = ledger();
    *(bool *)context = true;
}

/* The resampler holds some frames until later ones come; at the end they are played all the same.
 */
static void closing_plays_what_the_resampler_holds(void **state)
{
    (void)state;
    bool closed = false;
    resample = true;
    open_sink(false, false, 1000);
    resample = false;
    callback();
    for (uint64_t frame = 0; frame < 1024; frame += HOP)
        put(frame, HOP);
    sink_portaudio.close(sink, INT64_MAX, gone_with, &closed);
    for (int i = 0; i < 20 && !closed; i++)
        callback();
    assert_true(closed);
    assert_int_equal(last.delivered, 1024);
    assert_int_equal(last.pending, 0);
    sound_card_forget();
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(by_rule_a_duplex_card_adds_one_period),
        cmocka_unit_test(late_results_do_not_shift_the_others),
        cmocka_unit_test(an_excitation_keeps_the_offset_of_its_first_frame),
        cmocka_unit_test(a_card_of_its_own_returns_to_its_latency),
        cmocka_unit_test(without_a_card_frames_are_dropped_as_such),
        cmocka_unit_test(before_the_capture_began_nothing_is_played),
        cmocka_unit_test(a_stream_that_waits_is_let_ahead_of_the_card_by_a_block),
        cmocka_unit_test(closing_waits_for_what_is_pending),
        cmocka_unit_test(the_latency_follows_the_period),
        cmocka_unit_test(closing_plays_what_the_resampler_holds),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
