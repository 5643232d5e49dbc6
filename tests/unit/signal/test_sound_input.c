/*
 * Sound files whose header and length disagree: what sound_header_read says of them, and that
 * sound_input_open yields every frame that the file holds. The files are libsndfile's, with their
 * size fields changed, or built here byte by byte.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <sndfile.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/random.h"
#include "signal/sound_input.h"
#include "tests/support/scratch.h"

enum { FRAMES = 1000, CHANNELS = 2 };

struct bytes {
    uint8_t data[16384];
    uint64_t count;
};

static short code_of(int frame, int channel)
{
    struct random_state r = {(uint64_t)frame * 7 + (uint64_t)channel};
    return (short)(random_u64(&r) >> 48);
}

/* A whole file of 16-bit samples. */
static void make_file(struct bytes *file, int format)
{
    const char *path = scratch_path("made");
    SF_INFO info = {.samplerate = 48000, .channels = CHANNELS, .format = format};
    SNDFILE *sound = sf_open(path, SFM_WRITE, &info);
    if (sound == NULL)
        fail_msg("%x: %s", (unsigned)format, sf_strerror(NULL));
    for (int n = 0; n < FRAMES; n++) {
        const short codes[CHANNELS] = {code_of(n, 0), code_of(n, 1)};
        assert_int_equal(sf_writef_short(sound, codes, 1), 1);
    }
    sf_close(sound);
    FILE *in = fopen(path, "rb");
    assert_non_null(in);
    file->count = fread(file->data, 1, sizeof file->data, in);
    fclose(in);
}

static void set(struct bytes *file, uint64_t at, uint64_t value, int count, bool big)
{
    for (int i = 0; i < count; i++)
        file->data[at + (uint64_t)(big ? count - 1 - i : i)] = (uint8_t)(value >> (8 * i));
}

static uint64_t find(const struct bytes *file, const char *name)
{
    for (uint64_t at = 0; at + 4 <= file->count; at++)
        if (memcmp(file->data + at, name, 4) == 0)
            return at;
    fail_msg("no %s", name);
    return 0;
}

/* Reads what the file holds: so many frames, each of which is right. */
static void expect_frames(const struct bytes *file, uint64_t frames, const char *what)
{
    struct sound_input input;
    SF_INFO info;
    short codes[CHANNELS];
    sound_input_memory(&input, file->data, file->count);
    SNDFILE *sound = sound_input_open(&input, &info);
    if (sound == NULL)
        fail_msg("%s: %s", what, sf_strerror(NULL));
    for (uint64_t n = 0; n < frames; n++)
        if (sf_readf_short(sound, codes, 1) != 1 || codes[0] != code_of((int)n, 0) ||
            codes[1] != code_of((int)n, 1))
            fail_msg("%s: frame %llu of %llu is wrong", what, (unsigned long long)n,
                     (unsigned long long)frames);
    if (sf_readf_short(sound, codes, 1) != 0)
        fail_msg("%s: more than %llu frames", what, (unsigned long long)frames);
    sf_close(sound);
}

static void expect(const struct bytes *file, enum sound_length length, uint64_t announced,
                   uint64_t held, const char *what)
{
    struct sound_input input;
    sound_input_memory(&input, file->data, file->count);
    const struct sound_header *h = &input.header;
    if (h->length != length || h->announced != announced || h->held != held)
        fail_msg("%s: length %d, announced %llu, held %llu; want %d, %llu, %llu", what, h->length,
                 (unsigned long long)h->announced, (unsigned long long)h->held, length,
                 (unsigned long long)announced, (unsigned long long)held);
    expect_frames(file, held, what);
}

/* The size fields of each container: a name before the field, its offset from there, its bytes. */
struct field {
    const char *name;
    int offset, bytes;
    bool big;
    uint64_t zero; /* what a writer that died early leaves there */
};

static const struct {
    const char *what;
    int format;
    struct field fields[3];
} containers[] = {
    {"WAV", SF_FORMAT_WAV | SF_FORMAT_PCM_16, {{"data", 4, 4, false, 0}, {"RIFF", 4, 4, false, 0}}},
    {"WAV with the rest right", SF_FORMAT_WAV | SF_FORMAT_PCM_16, {{"data", 4, 4, false, 0}}},
    {"extensible", SF_FORMAT_WAVEX | SF_FORMAT_PCM_16, {{"data", 4, 4, false, 0}}},
    {"RIFX", SF_FORMAT_WAV | SF_FORMAT_PCM_16 | SF_ENDIAN_BIG, {{"data", 4, 4, true, 0}}},
    {"RF64", SF_FORMAT_RF64 | SF_FORMAT_PCM_16, {{"ds64", 16, 8, false, 0}}},
    {"RF64 without sizes",
     SF_FORMAT_RF64 | SF_FORMAT_PCM_16,
     {{"ds64", 8, 8, false, 0}, {"ds64", 16, 8, false, 0}, {"ds64", 24, 8, false, 0}}},
    {"RF64 of all ones", SF_FORMAT_RF64 | SF_FORMAT_PCM_16, {{"ds64", 16, 8, false, UINT64_MAX}}},
    {"W64", SF_FORMAT_W64 | SF_FORMAT_PCM_16, {{"data", 16, 8, false, 24}}},
    {"W64 without sizes",
     SF_FORMAT_W64 | SF_FORMAT_PCM_16,
     {{"data", 16, 8, false, 0}, {"riff", 16, 8, false, 0}}},
    {"AIFF",
     SF_FORMAT_AIFF | SF_FORMAT_PCM_16,
     {{"SSND", 4, 4, true, 8}, {"COMM", 10, 4, true, 0}}},
    {"AIFF without sizes",
     SF_FORMAT_AIFF | SF_FORMAT_PCM_16,
     {{"SSND", 4, 4, true, 0}, {"COMM", 10, 4, true, 0}, {"FORM", 4, 4, true, 0}}},
    {"CAF", SF_FORMAT_CAF | SF_FORMAT_PCM_16, {{"data", 4, 8, true, 4}}},
    {"AU", SF_FORMAT_AU | SF_FORMAT_PCM_16, {{".snd", 8, 4, true, 0}}},
};

enum { CONTAINERS = sizeof containers / sizeof containers[0] };

static void test_whole(void **state)
{
    (void)state;
    static struct bytes file;
    for (int i = 0; i < CONTAINERS; i++) {
        make_file(&file, containers[i].format);
        expect(&file, SOUND_LENGTH_WHOLE, FRAMES, FRAMES, containers[i].what);
    }
}

static void test_truncated(void **state)
{
    (void)state;
    static struct bytes file;
    for (int i = 0; i < CONTAINERS; i++) {
        make_file(&file, containers[i].format);
        struct sound_input input;
        sound_input_memory(&input, file.data, file.count);
        for (uint64_t held = 1; held < FRAMES; held += 199) {
            file.count = input.header.data_at + held * 4 + held % 4; /* a part of a frame, too */
            expect(&file, SOUND_LENGTH_SHORT, FRAMES, held, containers[i].what);
        }
    }
}

static void test_unfinished(void **state)
{
    (void)state;
    static struct bytes file;
    for (int i = 0; i < CONTAINERS; i++) {
        make_file(&file, containers[i].format);
        struct sound_input input;
        sound_input_memory(&input, file.data, file.count);
        for (int k = 0; k < 3 && containers[i].fields[k].name != NULL; k++) {
            const struct field *field = &containers[i].fields[k];
            set(&file, find(&file, field->name) + (uint64_t)field->offset, field->zero,
                field->bytes, field->big);
        }
        expect(&file, SOUND_LENGTH_UNFINISHED, 0, FRAMES, containers[i].what);
        file.count -= 4 * 300 - 1; /* and cut */
        expect(&file, SOUND_LENGTH_UNFINISHED, 0, FRAMES - 300, containers[i].what);
    }
}

/* A recorder that writes its header again from time to time, and died in between. */
static void test_stale(void **state)
{
    (void)state;
    static struct bytes file;
    make_file(&file, SF_FORMAT_WAV | SF_FORMAT_PCM_16);
    const uint64_t data = find(&file, "data");
    set(&file, data + 4, 700 * 4, 4, false);
    set(&file, 4, data + 700 * 4, 4, false);
    expect(&file, SOUND_LENGTH_UNFINISHED, 700, FRAMES, "stale");
}

static void test_open_lengths(void **state)
{
    (void)state;
    static struct bytes file;
    static const uint64_t sizes[] = {0xFFFFFFFF, 0x7FFFFFFF, 0x80000000, 0x7FFFF000, 0xFFFFFFFC};
    for (size_t i = 0; i < sizeof sizes / sizeof sizes[0]; i++) {
        make_file(&file, SF_FORMAT_WAV | SF_FORMAT_PCM_16);
        set(&file, find(&file, "data") + 4, sizes[i], 4, false);
        set(&file, 4, UINT32_MAX, 4, false);
        expect(&file, SOUND_LENGTH_UNKNOWN, 0, FRAMES, "piped");
    }
    make_file(&file, SF_FORMAT_CAF | SF_FORMAT_PCM_16);
    set(&file, find(&file, "data") + 4, UINT64_MAX, 8, true);
    expect(&file, SOUND_LENGTH_UNKNOWN, 0, FRAMES, "CAF of -1");
    make_file(&file, SF_FORMAT_AU | SF_FORMAT_PCM_16);
    set(&file, 8, UINT32_MAX, 4, true);
    expect(&file, SOUND_LENGTH_UNKNOWN, 0, FRAMES, "AU of -1");
}

/* What other programs put behind the samples. */
static void test_chunks_behind(void **state)
{
    (void)state;
    static struct bytes file;
    static const struct {
        const char *what, *bytes;
        uint64_t count;
        bool two;
    } table[] = {
        {"LIST", "LIST\4\0\0\0INFO", 12, false},
        {"ID3v1", "TAGtitle and so on", 18, false},
        {"one chunk cut off", "bext\xF0\xF0\0\0some text", 17, false},
        {"second data chunk", "data\4\0\0\0abcd", 12, true},
    };
    for (size_t i = 0; i < sizeof table / sizeof table[0]; i++) {
        make_file(&file, SF_FORMAT_WAV | SF_FORMAT_PCM_16);
        memcpy(file.data + file.count, table[i].bytes, table[i].count);
        file.count += table[i].count;
        struct sound_input input;
        sound_input_memory(&input, file.data, file.count);
        if (input.header.length != SOUND_LENGTH_WHOLE || input.header.held != FRAMES ||
            input.header.two_data_chunks != table[i].two)
            fail_msg("%s: length %d", table[i].what, input.header.length);
        if (!table[i].two)
            expect_frames(&file, FRAMES, table[i].what);
    }
}

/* Any header with any bytes changed: the figures stay within the file. */
static void test_random_headers(void **state)
{
    (void)state;
    static struct bytes file, changed;
    struct random_state random = {7};
    for (int i = 0; i < CONTAINERS; i++) {
        make_file(&file, containers[i].format);
        for (int k = 0; k < 2000; k++) {
            changed = file;
            for (int n = 0; n < 3; n++)
                changed.data[random_u64(&random) % 120] = (uint8_t)random_u64(&random);
            changed.count = random_u64(&random) % (file.count + 1);
            struct sound_input input;
            SF_INFO info;
            sound_input_memory(&input, changed.data, changed.count);
            assert_true(input.header.patch_count <= SOUND_PATCHES_MAX);
            assert_true(input.header.held * input.header.frame_bytes <= changed.count);
            SNDFILE *sound = k % 16 == 0 ? sound_input_open(&input, &info) : NULL;
            if (sound != NULL)
                sf_close(sound);
        }
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_whole),          cmocka_unit_test(test_truncated),
        cmocka_unit_test(test_unfinished),     cmocka_unit_test(test_stale),
        cmocka_unit_test(test_open_lengths),   cmocka_unit_test(test_chunks_behind),
        cmocka_unit_test(test_random_headers),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
