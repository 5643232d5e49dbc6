/*
 * Sound cards of the configuration: channel maps, periods, formats, and which stream and sink are
 * one duplex card; what is wrong, at which line, and what to write instead.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "tests/support/config_samples.h"
#include "io/sound/card.h"

#define CARD                                                                                       \
    "[stream a]\nsource = portaudio\ncard = fire*\nrate = 48 kHz\nchannels = 2\nfilter = f\n"
#define FILTER    "[filter f]\ntype = identity\n"
#define SINK      "[sink s]\ntype = portaudio\nstream = a\ncard = fire*\n"
#define RECORDING "[sink s]\ntype = recording\nstream = a\npath = r.wav\n"

static const struct {
    const char *text;
    unsigned line;
    bool warning;
    const char *words;
} wrong[] = {
    {CARD "channel map = 3\n" RECORDING FILTER, 7, false,
     "`channel map` lists 1 channels of the device for 2 of the stream; write one for each"},
    {CARD "format = s16be\n" RECORDING FILTER, 7, false, "PortAudio knows u8, s16le"},
    {CARD "format = u16\n" RECORDING FILTER, 7, false, "PortAudio knows u8, s16le"},
    {CARD "device period = 1 s\n" RECORDING FILTER, 7, false,
     "`device period = 1 s` is 48000 frames at 48 kHz; write 333.3 us … 170.7 ms"},
    {CARD SINK "format = s16be\n" FILTER, 11, false, "sound cards take samples little-endian"},
    {CARD SINK "latency = 1 min\n" FILTER, 11, false,
     "is 2880000 frames at 48 kHz; write 20.83 us … 21.85 s"},
    {CARD SINK "duplex = yes\n" FILTER, 11, false,
     "no stream captures from `fire*` with duplex = yes"},
    {CARD "duplex = yes\n" SINK "host api = jack\nduplex = yes\n" FILTER, 13, false,
     "no stream captures from `fire*` with duplex = yes"},
    {CARD "duplex = yes\n" SINK "duplex = yes\n[sink t]\ntype = portaudio\nstream = a\ncard = "
          "fire*\nduplex = yes\n" FILTER,
     17, false, "another sink plays on `fire*` with duplex = yes already"},
    {CARD "duplex = yes\n"
          "[stream b]\nsource = generator\nrate = 44100 Hz\nfilter = f\n"
          "[sink s]\ntype = portaudio\nstream = b\ncard = fire*\nduplex = yes\n" FILTER,
     16, false, "stream a captures at 48000 Hz and stream b is played at 44100 Hz"},
    {CARD "duplex = yes\ndecimate = 2\n" SINK "duplex = yes\n" FILTER, 13, false,
     "stream a captures at 48000 Hz and stream a is played at 24000 Hz"},
    {CARD "duplex = yes\n" RECORDING FILTER, 7, true, "no sink plays on `fire*` with duplex = yes"},
};

static void mistakes_are_told_at_their_line(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof wrong / sizeof wrong[0]; i++) {
        struct config *config;
        struct config_errors errors;
        sample_load(wrong[i].text, &config, &errors);
        if (!sample_message(&errors, wrong[i].line, wrong[i].warning, wrong[i].words)) {
            char *messages = sample_messages(&errors);
            fail_msg("no message at line %u with \"%s\":\n%s%s", wrong[i].line, wrong[i].words,
                     wrong[i].text, messages);
        }
        assert_true((config == NULL) == !wrong[i].warning);
        config_free(config);
        config_errors_free(&errors);
    }
}

static struct config *load(const char *text)
{
    struct config *config;
    struct config_errors errors;
    if (sample_load(text, &config, &errors) != 0)
        fail_msg("%s", sample_messages(&errors));
    config_errors_free(&errors);
    return config;
}

static void a_stream_becomes_a_request(void **state)
{
    (void)state;
    struct config *config = load(
        CARD
        "channel map = 7, 2\nformat = s24\nhost api = alsa\nblock = 128 frames\n" RECORDING FILTER);
    const struct sound_options *sound = config->streams[0].source.own;
    assert_non_null(sound);
    assert_true(config->streams[0].live);
    assert_string_equal(sound->request.device, "fire*");
    assert_int_equal(sound->request.api, SOUND_API_ALSA);
    assert_true(sound->request.rate_hz == 48000);
    assert_int_equal(sound->request.capture.channels, 2);
    assert_int_equal(sound->request.capture.device_channels, 7);
    assert_int_equal(sound->request.capture.map[0], 6);
    assert_int_equal(sound->request.capture.map[1], 1);
    assert_int_equal(sound->request.capture.format.bytes, 3);
    assert_false(sound->request.capture.format.big_endian);
    assert_int_equal(sound->request.playback.channels, 0);
    assert_int_equal(sound->request.period_frames, 128); /* the block */
    assert_false(sound->request.allow_conversion || sound->duplex);
    assert_int_equal(config->streams[0].source.max_gap_ns, 1000000000);
    config_free(config);
}

static void periods_follow_the_block_where_they_can(void **state)
{
    (void)state;
    static const struct {
        const char *keys;
        uint32_t period_frames;
    } cases[] = {
        {"block = 64 frames\n", 64},
        {"block = 8192 frames\n", 8192},
        {"block = 8 frames\n", 256},
        {"block = 16384 frames\n", 256},
        {"block = 64 frames\ndevice period = 32 frames\n", 32},
        {"device period = 1 ms\n", 48},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        char text[600];
        snprintf(text, sizeof text, CARD "%s" RECORDING FILTER, cases[i].keys);
        struct config *config = load(text);
        assert_int_equal(
            ((const struct sound_options *)config->streams[0].source.own)->request.period_frames,
            cases[i].period_frames);
        config_free(config);
    }
}

/* Both ends have one object, and a change of either makes both anew. */
static void a_duplex_card_is_one(void **state)
{
    (void)state;
    static const char *const texts[] = {
        CARD "duplex = yes\n" SINK "duplex = yes\n" FILTER,
        CARD "duplex = yes\n" SINK "duplex = yes\nlatency = 99 frames\n" FILTER,
    };
    struct config *config = load(texts[0]), *later = load(texts[1]);
    const struct sound_options *sound = config->streams[0].source.own;
    assert_ptr_equal(sound, config->sinks[0].options.own);
    assert_true(sound->duplex && sound->own);
    assert_int_equal(sound->request.playback.channels, 2);
    assert_int_equal(sound->latency_frames, 0);
    assert_int_equal(((const struct sound_options *)later->streams[0].source.own)->latency_frames,
                     99);
    assert_string_not_equal(config->streams[0].hash, later->streams[0].hash);
    config_free(config);
    config_free(later);
}

/* The excitation is another stream: a change of its sink is one of the capturing stream, too. */
static void an_excitation_shares_the_card(void **state)
{
    (void)state;
#define EXCITED                                                                                    \
    CARD "duplex = yes\n"                                                                          \
         "[stream b]\nsource = generator\nrate = 48 kHz\nfilter = f\n"                             \
         "[sink r]\ntype = recording\nstream = a\npath = r.wav\n" FILTER                           \
         "[sink s]\ntype = portaudio\nstream = b\ncard = fire*\nduplex = yes\n"
    struct config *config = load(EXCITED), *later = load(EXCITED "latency = 3 ms\n");
    int a = config_find_stream(config, "a"), b = config_find_stream(config, "b");
    assert_ptr_equal(config->streams[a].source.own, config->sinks[1].options.own);
    assert_false(((const struct sound_options *)config->sinks[1].options.own)->own);
    assert_string_not_equal(config->streams[a].hash, later->streams[a].hash);
    assert_string_not_equal(config->streams[b].hash, later->streams[b].hash);
    config_free(config);
    config_free(later);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(mistakes_are_told_at_their_line),
        cmocka_unit_test(a_stream_becomes_a_request),
        cmocka_unit_test(periods_follow_the_block_where_they_can),
        cmocka_unit_test(a_duplex_card_is_one),
        cmocka_unit_test(an_excitation_shares_the_card),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
