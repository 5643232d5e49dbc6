/*
 * Sound cards, without a device: the rings that callback and daemon share, the choice of a device
 * by name, which devices convert samples, and the hardware parameters that the kernel reports.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "io/sound/devices.h"
#include "io/sound/cycle.h"
#include "io/sound/ring.h"

/* ---- rings ------------------------------------------------------------------------------- */

static struct sound_shared *make(uint32_t channels, const uint16_t *map, uint32_t device_channels)
{
    struct sound_request request = {.rate_hz = 8000, .playback_frames = 1};
    struct sound_side side = {.channels = channels, .device_channels = device_channels};
    assert_int_equal(sample_format_parse("s16le", &side.format), 0);
    for (uint32_t c = 0; c < channels; c++)
        side.map[c] = map[c];
    request.capture = request.playback = side;
    struct sound_shared *shared = aligned_alloc(4096, sound_shared_bytes(&request));
    assert_non_null(shared);
    shared->request = request;
    sound_shared_reset(shared);
    return shared;
}

/* The value in channel c of device frame n. */
static int16_t sample_at(uint64_t frame, uint32_t channel)
{
    return (int16_t)(frame * 7 + channel * 1009 + 1);
}

static void fill(int16_t *samples, uint64_t frame, uint32_t frames, uint32_t channels)
{
    for (uint32_t i = 0; i < frames; i++)
        for (uint32_t c = 0; c < channels; c++)
            samples[i * channels + c] = sample_at(frame + i, c);
}

/* The daemon reads periods of any length as they were stored, mapped, also where the ring wraps. */
static void captured_frames_come_out_in_order(void **state)
{
    (void)state;
    static const uint16_t map[] = {3, 0};
    struct sound_shared *shared = make(2, map, 4);
    static int16_t input[4 * 3000];
    uint64_t next = 0, frame = 0;
    uint32_t seed = 1;
    for (int round = 0; round < 60; round++) {
        seed = seed * 1664525 + 1013904223;
        uint32_t frames = 1 + seed % 3000;
        fill(input, frame, frames, 4);
        sound_ring_store(shared, (const uint8_t *)input, frames, 1000 + round, 0, 500 + round,
                         true);
        sound_ring_advance(shared, frames, 0, 1000 + round);
        sound_ring_end(shared);
        frame += frames;
        struct sound_period period;
        const uint8_t *bytes;
        while (sound_ring_peek(shared, &period, &bytes)) {
            assert_int_equal(period.frame, next);
            assert_int_equal(period.callback_ns, 1000 + round);
            for (uint32_t i = 0; i < period.frames; i++) {
                int16_t got[2];
                memcpy(got, bytes + 4 * (size_t)i, sizeof got);
                assert_int_equal(got[0], sample_at(next + i, 3));
                assert_int_equal(got[1], sample_at(next + i, 0));
            }
            next += period.frames;
            sound_ring_release(shared);
        }
    }
    assert_int_equal(next, frame);
    assert_int_equal(sound_count(shared, SOUND_RING_OVERRUN), 0);
    free(shared);
}

/* A period that does not fit is dropped whole and counted; the next period's number shows it. */
static void a_full_ring_loses_whole_periods_and_says_so(void **state)
{
    (void)state;
    static const uint16_t map[] = {0};
    struct sound_shared *shared = make(1, map, 1);
    static int16_t input[1024];
    uint64_t stored = 0, frame = 0;
    for (int i = 0; i < 40; i++) {
        fill(input, frame, 1000, 1);
        sound_ring_store(shared, (const uint8_t *)input, 1000, 0, 0, 0, true);
        sound_ring_advance(shared, 1000, 0, 0);
        sound_ring_end(shared);
        frame += 1000;
    }
    uint64_t lost = sound_count(shared, SOUND_RING_LOST_FRAMES);
    assert_true(lost > 0 && lost % 1000 == 0);
    assert_int_equal(sound_count(shared, SOUND_RING_OVERRUN), lost / 1000);
    struct sound_period period;
    const uint8_t *bytes;
    while (sound_ring_peek(shared, &period, &bytes)) {
        assert_int_equal(period.frame, stored);
        assert_int_equal(period.lost_ring, 0);
        for (uint32_t i = 0; i < period.frames; i++) { /* none written over */
            int16_t got;
            memcpy(&got, bytes + 2 * (size_t)i, sizeof got);
            assert_int_equal(got, sample_at(stored + i, 0));
        }
        stored += period.frames;
        sound_ring_release(shared);
    }
    assert_int_equal(stored + lost, frame);
    sound_ring_store(shared, (const uint8_t *)input, 1000, 0, 0, 0, true);
    assert_true(sound_ring_peek(shared, &period, &bytes));
    assert_int_equal(period.frame, frame);
    assert_int_equal(period.lost_ring, lost);
    free(shared);
}

/* Frames that the device lost keep their numbers, and missing input is counted. */
static void what_the_device_lost_is_numbered(void **state)
{
    (void)state;
    static const uint16_t map[] = {0};
    struct sound_shared *shared = make(1, map, 1);
    static int16_t input[64];
    struct sound_period period;
    const uint8_t *bytes;
    sound_ring_store(shared, NULL, 64, 0, 0, 0, true);
    sound_ring_advance(shared, 64, 0, 0);
    sound_ring_end(shared);
    sound_ring_lose(shared, 100);
    sound_ring_store(shared, (const uint8_t *)input, 64, 0, 0, 0, false);
    assert_true(sound_ring_peek(shared, &period, &bytes));
    assert_int_equal(period.frame, 164);
    assert_int_equal(period.lost_ring, 0);
    assert_false(period.time_usable);
    assert_int_equal(sound_count(shared, SOUND_DEVICE_LOST_FRAMES), 164);
    assert_int_equal(sound_count(shared, SOUND_RING_LOST_FRAMES), 0);
    free(shared);
}

static void check_played(const int16_t *output, uint64_t frame, uint32_t frames, uint64_t from,
                         uint64_t until)
{
    for (uint32_t i = 0; i < frames; i++) {
        bool sound = frame + i >= from && frame + i < until;
        assert_int_equal(output[3 * i], 0); /* no channel of the map */
        assert_int_equal(output[3 * i + 1], sound ? sample_at(frame + i, 1) : 0);
        assert_int_equal(output[3 * i + 2], sound ? sample_at(frame + i, 0) : 0);
    }
}

/* Frames play at their number, with silence before, between and after them, all counted. */
static void playback_keeps_its_frames(void **state)
{
    (void)state;
    static const uint16_t map[] = {2, 1};
    struct sound_shared *shared = make(2, map, 3);
    static int16_t output[3 * 256], frames[2 * 256];
    struct sound_position position;
    uint64_t silent;
    /* Before the first write there is no underrun. */
    assert_int_equal(sound_ring_play(shared, (uint8_t *)output, 256), 0);
    check_played(output, 0, 256, 0, 0);
    sound_ring_advance(shared, 256, 0, 7);
    sound_ring_end(shared);
    assert_int_equal(sound_count(shared, SOUND_PLAYBACK_UNDERRUN), 0);
    /* 100 frames at 300: silence from the card's position on. */
    fill(frames, 300, 100, 2);
    assert_true(sound_ring_write(shared, 300, (const uint8_t *)frames, 100, &silent));
    assert_int_equal(silent, 256);
    assert_int_equal(sound_ring_written(shared), 400);
    assert_int_equal(sound_ring_play(shared, (uint8_t *)output, 256), 144);
    check_played(output, 256, 256, 300, 400);
    sound_ring_advance(shared, 256, 144, 9);
    sound_ring_end(shared);
    assert_int_equal(sound_count(shared, SOUND_PLAYBACK_UNDERRUN), 1);
    assert_int_equal(sound_count(shared, SOUND_PLAYBACK_SILENT_FRAMES), 112);
    sound_ring_position(shared, &position);
    assert_int_equal(position.now, 512);
    assert_int_equal(position.played, 144);
    assert_int_equal(position.callback_ns, 9);
    assert_int_equal(position.period_frames, 256);
    /* Frames that were played are not written again. */
    fill(frames, 600, 100, 2);
    assert_true(sound_ring_write(shared, 600, (const uint8_t *)frames, 100, &silent));
    assert_int_equal(silent, 512);
    /* The ring refuses more than it holds. */
    uint64_t far = 512 + shared->layout.playback_frames;
    assert_false(sound_ring_write(shared, far - 99, (const uint8_t *)frames, 100, &silent));
    assert_true(sound_ring_write(shared, far - 100, (const uint8_t *)frames, 100, &silent));
    free(shared);
}

static void the_ring_wraps_unheard(void **state)
{
    (void)state;
    static const uint16_t map[] = {2, 1};
    struct sound_shared *shared = make(2, map, 3);
    static int16_t output[3 * 256], frames[2 * 500];
    uint64_t written = 0, silent;
    for (uint64_t now = 0; now < 3 * shared->layout.playback_frames; now += 256) {
        while (written < now + 2000) {
            fill(frames, written, 500, 2);
            assert_true(sound_ring_write(shared, written, (const uint8_t *)frames, 500, &silent));
            assert_int_equal(silent, written);
            written += 500;
        }
        assert_int_equal(sound_ring_play(shared, (uint8_t *)output, 256), 256);
        check_played(output, now, 256, 0, UINT64_MAX);
        sound_ring_advance(shared, 256, 256, 0);
        sound_ring_end(shared);
    }
    /* A gap is silence, not the samples of an earlier pass through the ring. */
    struct sound_position position;
    uint64_t from = written + 300, begin = written;
    sound_ring_position(shared, &position);
    fill(frames, from, 100, 2);
    assert_true(sound_ring_write(shared, from, (const uint8_t *)frames, 100, &silent));
    assert_int_equal(silent, begin);
    for (uint64_t now = position.now; now + 256 <= from + 100; now += 256) {
        assert_int_equal(sound_ring_play(shared, (uint8_t *)output, 256), 256);
        for (uint32_t i = 0; i < 256; i++)
            if (now + i >= begin && now + i < from)
                assert_int_equal(output[3 * i + 1], 0);
        sound_ring_advance(shared, 256, 256, 0);
        sound_ring_end(shared);
    }
    free(shared);
}

/* ---- cycles ------------------------------------------------------------------------------ */

/* Callbacks as a JACK server of these periods has PortAudio make them, and what each is in its
 * cycle. Frame counts wrap. */
static const struct callback {
    uint32_t start, period, frames;
    bool begins, ends;
    uint64_t lost;
    uint32_t behind;
} callbacks[] = {
    {UINT32_MAX - 1023, 1024, 1024, true, true, 0, 0},
    {0, 1024, 1024, true, true, 0, 0},
    /* The period grows to two callbacks a cycle. JACK counts the cycle before by the new period. */
    {2048, 2048, 1024, true, false, 0, 1024},
    {2048, 2048, 1024, false, true, 0, 0},
    {4096, 2048, 1024, true, false, 0, 1024},
    {4096, 2048, 1024, false, true, 0, 0},
    {10240, 2048, 1024, true, false, 4096, 1024}, /* two cycles are lost */
    {10240, 2048, 1024, false, true, 0, 0},
    {11776, 1536, 1024, true, false, 0, 512}, /* it shrinks; the last callback is shorter */
    {11776, 1536, 512, false, true, 0, 0},
    {13312, 1536, 1024, true, false, 0, 512},   /* a cycle whose rest never comes … */
    {14848, 1536, 1024, true, false, 512, 512}, /* … is lost from there on */
    {14848, 1536, 512, false, true, 0, 0},
    {16384, 256, 256, true, true, 0, 0},
    {16640, 256, 256, true, true, 0, 0},
};

static void several_callbacks_are_one_cycle(void **state)
{
    (void)state;
    struct sound_cycle cycle = {0};
    int64_t begun_ns = 0;
    for (size_t i = 0; i < sizeof callbacks / sizeof callbacks[0]; i++) {
        const struct callback *c = &callbacks[i];
        const struct sound_cycle_step step =
            sound_cycle_next(&cycle, c->start, c->period, c->frames, (int64_t)i);
        begun_ns = step.begins ? (int64_t)i : begun_ns;
        if (step.begins != c->begins || step.ends != c->ends || step.lost != c->lost ||
            step.behind != c->behind || cycle.callback_ns != begun_ns)
            fail_msg("callback %zu: begins %d, ends %d, lost %llu, behind %u", i, step.begins,
                     step.ends, (unsigned long long)step.lost, step.behind);
    }
}

/* The daemon sees a cycle when its last callback has run, as one period of the time when its first
 * one did. */
static void a_cycle_shows_when_it_ends(void **state)
{
    (void)state;
    static const uint16_t map[] = {0};
    struct sound_shared *shared = make(1, map, 1);
    static int16_t samples[1024];
    struct sound_position position;
    struct sound_period period;
    const uint8_t *bytes;
    for (uint32_t part = 0; part < 4; part++) {
        sound_ring_position(shared, &position);
        assert_int_equal(position.now, 0);
        sound_ring_store(shared, (const uint8_t *)samples, 1024, 7, 1024 * (3 - part), 0, true);
        sound_ring_advance(shared, 1024, 100, 7);
    }
    sound_ring_end(shared);
    sound_ring_end(shared); /* nothing more to end */
    sound_ring_position(shared, &position);
    assert_int_equal(position.now, 4096);
    assert_int_equal(position.period_frames, 4096);
    assert_int_equal(position.played, 400);
    assert_int_equal(position.callback_ns, 7);
    for (uint64_t frame = 0; frame < 4096; frame += period.frames) {
        assert_true(sound_ring_peek(shared, &period, &bytes));
        assert_int_equal(period.frame, frame);
        assert_int_equal(period.behind, 4096 - frame - period.frames);
        sound_ring_release(shared);
    }
    free(shared);
}

/* ---- devices ----------------------------------------------------------------------------- */

static const struct sound_device devices[] = {
    {.name = "HDA Intel PCH: ALC257 Analog (hw:0,0)",
     .api = SOUND_API_ALSA,
     .inputs = 2,
     .outputs = 2},
    {.name = "HDA Intel PCH: HDMI 0 (hw:0,3)", .api = SOUND_API_ALSA, .outputs = 8},
    {.name = "Fireface UCX: USB Audio (hw:2,0)",
     .api = SOUND_API_ALSA,
     .inputs = 18,
     .outputs = 18},
    {.name = "sysdefault", .api = SOUND_API_ALSA, .inputs = 128, .outputs = 128},
    {.name = "default", .api = SOUND_API_ALSA, .inputs = 32, .outputs = 32},
    {.name = "pulse", .api = SOUND_API_ALSA, .inputs = 32, .outputs = 32},
    {.name = "pipewire", .api = SOUND_API_ALSA, .inputs = 64, .outputs = 64},
    {.name = "dmix", .api = SOUND_API_ALSA, .outputs = 2},
    {.name = "plughw", .api = SOUND_API_ALSA, .inputs = 2},
    {.name = "surround51", .api = SOUND_API_ALSA, .outputs = 6},
    {.name = "system", .api = SOUND_API_JACK, .inputs = 18, .outputs = 18},
    {.name = "default", .api = SOUND_API_JACK, .inputs = 2},
};
enum { DEVICES = sizeof devices / sizeof devices[0] };

static void devices_are_found_by_name_pattern_and_part(void **state)
{
    (void)state;
    static const struct {
        const char *device;
        enum sound_api api;
        uint32_t inputs, outputs;
        int found; /* or the error */
    } cases[] = {
        {"system", SOUND_API_ANY, 1, 0, 10},
        {"Fireface UCX: USB Audio (hw:2,0)", SOUND_API_ANY, 1, 1, 2},
        {"Fireface*", SOUND_API_ANY, 1, 0, 2},
        {"fireface*", SOUND_API_ANY, 1, 0, 2},
        {"fire", SOUND_API_ANY, 1, 0, 2},
        {"hw:2,0", SOUND_API_ANY, 1, 0, 2},
        {"Intel", SOUND_API_ANY, 1, 0, 0}, /* the HDMI one has no inputs */
        {"Intel", SOUND_API_ANY, 0, 1, ERROR_ARGUMENT},
        {"default", SOUND_API_ANY, 1, 0, ERROR_ARGUMENT}, /* two of that very name */
        {"default", SOUND_API_JACK, 1, 0, 11},
        {"default", SOUND_API_ALSA, 1, 0, 4}, /* the whole name before a part (sysdefault) */
        {"default", SOUND_API_JACK, 0, 1, ERROR_NO_FILE},
        {"hw:3", SOUND_API_ANY, 1, 0, ERROR_NO_FILE},
        {"*", SOUND_API_JACK, 0, 1, 10},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        struct sound_request request = {
            .api = cases[i].api,
            .capture.channels = cases[i].inputs,
            .playback.channels = cases[i].outputs,
        };
        struct problem problem = {0};
        snprintf(request.device, sizeof request.device, "%s", cases[i].device);
        int found = sound_devices_find(devices, DEVICES, &request, &problem);
        if (found != cases[i].found)
            fail_msg("`%s` is %d, not %d (%s)", cases[i].device, found, cases[i].found,
                     problem.text);
        if (found < 0) {
            assert_non_null(strstr(problem.text, cases[i].device));
            assert_non_null(strstr(problem.text, "`Fireface UCX"));
        }
    }
}

static void devices_that_convert_are_known_by_name(void **state)
{
    (void)state;
    static const bool converts[DEVICES] = {
        [3] = true, [4] = true, [5] = true, [6] = true, [7] = true, [8] = true, [9] = true,
    };
    for (int i = 0; i < DEVICES; i++)
        if ((sound_device_converts(&devices[i]) != NULL) != converts[i])
            fail_msg("%s: %s", devices[i].name, converts[i] ? "taken for hardware" : "refused");
}

static void hardware_is_read_from_a_name(void **state)
{
    (void)state;
    static const struct {
        const char *name;
        bool hardware;
        int card, device;
    } cases[] = {
        {"Fireface UCX: USB Audio (hw:2,0)", true, 2, 0},
        {"hw:1,3", true, 1, 3},
        {"HDMI (hw:10,11)", true, 10, 11},
        {"plughw:1,0", false, 0, 0},
        {"shw:1,0", false, 0, 0},
        {"default", false, 0, 0},
        {"(hw:x,0)", false, 0, 0},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        int card = -1, device = -1;
        assert_int_equal(sound_device_hardware(cases[i].name, &card, &device), cases[i].hardware);
        if (cases[i].hardware)
            assert_true(card == cases[i].card && device == cases[i].device);
    }
}

/* As in /proc/asound (Documentation/sound/designs/procfile.rst). */
static void what_the_kernel_says_is_read_back(void **state)
{
    (void)state;
    static const char text[] =
        "access: MMAP_INTERLEAVED\nformat: S32_LE\nsubformat: STD\nchannels: 18\n"
        "rate: 48000 (48000/1)\nperiod_size: 64\nbuffer_size: 192\n";
    struct sound_hardware hardware;
    assert_true(sound_hardware_parse(text, &hardware));
    assert_string_equal(hardware.format, "S32_LE");
    assert_int_equal(hardware.channels, 18);
    assert_int_equal(hardware.period_frames, 64);
    assert_int_equal(hardware.buffer_frames, 192);
    assert_true(hardware.rate_hz == 48000);
    assert_false(sound_hardware_parse("closed\n", &hardware));
    assert_false(sound_hardware_parse("", &hardware));
}

static void a_changed_format_or_rate_is_seen(void **state)
{
    (void)state;
    static const struct {
        const char *hardware;
        double hardware_hz;
        const char *format;
        double rate_hz;
        const char *says; /* NULL: the same */
    } cases[] = {
        {"S32_LE", 48000, "s32le", 48000, NULL},
        {"S24_3LE", 48000, "s24le", 48000, NULL},
        {"S16_LE", 44100, "s16le", 44100, NULL},
        {"FLOAT_LE", 48000, "f32le", 48000, NULL},
        {"S24_LE", 48000, "s32le", 48000, NULL},
        {"S32_LE", 48000, "s16le", 48000, "write format = s32"},
        {"S16_LE", 48000, "f32le", 48000, "write format = s16"},
        {"S24_3LE", 48000, "s32le", 48000, "write format = s24"},
        {"S32_LE", 48000, "s32le", 44100, "write rate = 48000 Hz"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        struct sound_hardware hardware = {.rate_hz = cases[i].hardware_hz};
        struct sample_format format;
        char said[300];
        snprintf(hardware.format, sizeof hardware.format, "%s", cases[i].hardware);
        assert_int_equal(sample_format_parse(cases[i].format, &format), 0);
        const char *differs =
            sound_hardware_differs(&hardware, &format, cases[i].rate_hz, said, sizeof said);
        if (cases[i].says == NULL)
            assert_null(differs);
        else
            assert_non_null(differs != NULL ? strstr(differs, cases[i].says) : NULL);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(several_callbacks_are_one_cycle),
        cmocka_unit_test(a_cycle_shows_when_it_ends),
        cmocka_unit_test(captured_frames_come_out_in_order),
        cmocka_unit_test(a_full_ring_loses_whole_periods_and_says_so),
        cmocka_unit_test(what_the_device_lost_is_numbered),
        cmocka_unit_test(playback_keeps_its_frames),
        cmocka_unit_test(the_ring_wraps_unheard),
        cmocka_unit_test(devices_are_found_by_name_pattern_and_part),
        cmocka_unit_test(devices_that_convert_are_known_by_name),
        cmocka_unit_test(hardware_is_read_from_a_name),
        cmocka_unit_test(what_the_kernel_says_is_read_back),
        cmocka_unit_test(a_changed_format_or_rate_is_seen),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
