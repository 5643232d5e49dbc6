/*
 * Containers read back by libsndfile: every container and format, a WAV before and after it
 * becomes RF64, one of more than 4 GiB (sparse), and the message ring that feeds the writer.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <fcntl.h>
#include <pthread.h>
#include <sndfile.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "core/message_ring.h"
#include "core/random.h"
#include "io/recording/container.h"
#include "tests/support/scratch.h"

static const char *path;

static int set_up(void **state)
{
    (void)state;
    path = scratch_path("recording");
    return 0;
}

static const struct {
    const char *format;
    int subtype;
} formats[] = {{"u8", SF_FORMAT_PCM_U8},
               {"s16le", SF_FORMAT_PCM_16},
               {"s24le", SF_FORMAT_PCM_24},
               {"s32le", SF_FORMAT_PCM_32},
               {"f32le", SF_FORMAT_FLOAT}};

static const struct {
    enum container container;
    uint64_t riff_bytes_max;
    int type;
} containers[] = {
    {CONTAINER_WAV, 0, SF_FORMAT_WAV},
    {CONTAINER_WAV, 1000, SF_FORMAT_RF64}, /* grew past its limit */
    {CONTAINER_RF64, 0, SF_FORMAT_RF64},
    {CONTAINER_W64, 0, SF_FORMAT_W64},
};

static struct container_spec spec_of(const char *format, enum container container,
                                     uint32_t channels)
{
    struct container_spec spec = {
        .container = container, .rate_hz = 10000000, .channels = channels};
    assert_int_equal(sample_format_parse(format, &spec.format), 0);
    return spec;
}

/* The file holds `frames` frames with these bytes. */
static void expect_file(const struct container_spec *spec, int type, const uint8_t *bytes,
                        uint64_t frames)
{
    SF_INFO info = {0};
    SNDFILE *file = sf_open(path, SFM_READ, &info);
    if (file == NULL)
        fail_msg("libsndfile: %s", sf_strerror(NULL));
    assert_int_equal(info.format & SF_FORMAT_TYPEMASK, type);
    assert_int_equal(info.samplerate, 10000000);
    assert_int_equal(info.channels, spec->channels);
    assert_int_equal(info.frames, frames);
    uint64_t size = frames * spec->channels * spec->format.bytes;
    uint8_t *got = malloc(size + 1);
    assert_non_null(got);
    assert_int_equal(sf_read_raw(file, got, (sf_count_t)size), size);
    assert_memory_equal(got, bytes, size);
    free(got);
    sf_close(file);
}

static void test_read_back(void **state)
{
    (void)state;
    enum { FRAMES = 1001 };
    uint8_t bytes[FRAMES * 3 * 4];
    struct random_state random = {5};
    for (size_t i = 0; i < sizeof bytes; i++)
        bytes[i] = (uint8_t)(random_u64(&random) % 120); /* valid floats, too */
    for (size_t f = 0; f < sizeof formats / sizeof formats[0]; f++) {
        for (size_t c = 0; c < sizeof containers / sizeof containers[0]; c++) {
            for (uint32_t channels = 1; channels <= 3; channels += 2) {
                struct container_spec spec =
                    spec_of(formats[f].format, containers[c].container, channels);
                spec.riff_bytes_max = containers[c].riff_bytes_max;
                uint32_t frame_bytes = channels * spec.format.bytes;
                struct container_file file;
                struct problem problem = {0};
                assert_int_equal(container_create(&file, path, &spec, &problem), 0);
                assert_int_equal(container_append(&file, bytes, 30), 30);
                assert_int_equal(container_flush(&file), 0);
                /* Now the process might die: what was flushed is there, the rest is not named
                 * (though libsndfile takes a W64's data to reach to the end of the file). */
                assert_int_equal(container_append(&file, bytes + 30 * frame_bytes, 3), 3);
                int small = containers[c].type == SF_FORMAT_RF64 && spec.container == CONTAINER_WAV
                                ? SF_FORMAT_WAV
                                : containers[c].type;
                expect_file(&spec, small, bytes, spec.container == CONTAINER_W64 ? 33 : 30);
                assert_int_equal(container_append(&file, bytes + 33 * frame_bytes, FRAMES - 33),
                                 FRAMES - 33);
                assert_int_equal(container_close(&file, false), 0);
                expect_file(&spec, containers[c].type, bytes, FRAMES);
                struct stat status;
                assert_int_equal(stat(path, &status), 0);
                assert_true(spec.container == CONTAINER_W64 || status.st_size % 2 == 0);
                /* A second recording never overwrites the first. */
                assert_int_equal(container_create(&file, path, &spec, &problem), ERROR_NO_FILE);
                assert_non_null(strstr(problem.text, path));
                unlink(path);
            }
        }
    }
}

/* A W64 whose writer died has no data after the end of its last chunk: readers that go from chunk
 * to chunk (ffmpeg) would take samples for a chunk and refuse the file. Its fact chunk counts the
 * frames flushed; once closed, the sizes are exact. */
static void test_w64_cut_off(void **state)
{
    (void)state;
    struct container_spec spec = spec_of("f32le", CONTAINER_W64, 2);
    spec.rate_hz = 100;
    static const uint8_t frames[70 * 8];
    struct container_file file;
    struct problem problem = {0};
    assert_int_equal(container_create(&file, path, &spec, &problem), 0);
    uint64_t flushed = 0;
    for (int i = 0; i < 20; i++) {
        assert_int_equal(container_append(&file, frames, 70), 70);
        if (i % 3 == 1) {
            assert_int_equal(container_flush(&file), 0);
            flushed = file.frames;
        }
        uint64_t riff_bytes, fact_frames, data_bytes;
        assert_int_equal(pread(file.fd, &riff_bytes, 8, 16), 8);
        assert_int_equal(pread(file.fd, &fact_frames, 8, 40 + 40 + 24), 8);
        assert_int_equal(pread(file.fd, &data_bytes, 8, 40 + 40 + 32 + 16), 8);
        assert_true(data_bytes - 24 >= file.frames * 8);
        assert_true(data_bytes - 24 <= (file.frames + 70 + spec.rate_hz) * 8);
        assert_int_equal(riff_bytes, 136 + data_bytes - 24);
        assert_true(fact_frames >= flushed && fact_frames <= file.frames);
    }
    int kept = dup(file.fd);
    assert_true(kept >= 0);
    assert_int_equal(container_close(&file, false), 0);
    uint8_t header[CONTAINER_HEADER_MAX], expect[CONTAINER_HEADER_MAX];
    container_header(&spec, 20 * 70, 20 * 70, expect);
    assert_int_equal(pread(kept, header, 136, 0), 136);
    assert_memory_equal(header, expect, 136);
    close(kept);
    unlink(path);
}

/* 2^32 bytes and more: the header's arithmetic, with a file that is mostly a hole. */
static void test_beyond_4_gib(void **state)
{
    (void)state;
    static const enum container kinds[] = {CONTAINER_WAV, CONTAINER_W64};
    for (int k = 0; k < 2; k++) {
        struct container_spec spec = spec_of("s16le", kinds[k], 2);
        struct container_file file;
        struct problem problem = {0};
        assert_int_equal(container_create(&file, path, &spec, &problem), 0);
        file.frames = UINT64_C(1300000000); /* 5.2 GB that were never written */
        static const uint8_t last[8] = {1, 0, 2, 0, 3, 0, 4, 0};
        assert_int_equal(container_append(&file, last, 2), 2);
        assert_int_equal(container_close(&file, false), 0);
        SF_INFO info = {0};
        SNDFILE *sound = sf_open(path, SFM_READ, &info);
        assert_non_null(sound);
        assert_int_equal(info.format & SF_FORMAT_TYPEMASK, k == 0 ? SF_FORMAT_RF64 : SF_FORMAT_W64);
        assert_int_equal(info.frames, UINT64_C(1300000002));
        short got[4] = {0};
        assert_int_equal(sf_seek(sound, 1300000000, SEEK_SET), 1300000000);
        assert_int_equal(sf_readf_short(sound, got, 2), 2);
        assert_true(got[0] == 1 && got[1] == 2 && got[2] == 3 && got[3] == 4);
        sf_close(sound);
        unlink(path);
    }
}

/* The first frame that 32 bits cannot count. */
static void test_threshold(void **state)
{
    (void)state;
    struct container_spec spec = spec_of("s16le", CONTAINER_WAV, 1);
    uint64_t fit = (UINT32_MAX - (container_header_bytes(&spec) - 8)) / 2;
    uint8_t header[CONTAINER_HEADER_MAX];
    container_header(&spec, fit, fit, header);
    assert_memory_equal(header, "RIFF", 4);
    assert_memory_equal(header + 12, "JUNK", 4);
    container_header(&spec, fit + 1, fit + 1, header);
    assert_memory_equal(header,
                        "RF64\xFF\xFF\xFF\xFFWAVE"
                        "ds64",
                        16);
}

static void test_full_disk(void **state)
{
    (void)state;
    /* /dev/full cannot hold a header, so take a file and hand its descriptor the full device. */
    struct container_spec spec = spec_of("s24le", CONTAINER_WAV, 1);
    struct container_file file;
    struct problem problem = {0};
    assert_int_equal(container_create(&file, path, &spec, &problem), 0);
    static const uint8_t frames[30];
    assert_int_equal(container_append(&file, frames, 10), 10);
    int full = open("/dev/full", O_RDWR);
    assert_true(full >= 0);
    int real = file.fd;
    file.fd = full;
    assert_int_equal(container_append(&file, frames, 10), 0);
    assert_int_equal(file.frames, 10);
    file.fd = real;
    close(full);
    assert_int_equal(container_close(&file, false), 0);
    expect_file(&spec, SF_FORMAT_WAV, frames, 10);
    unlink(path);
}

static void test_formats(void **state)
{
    (void)state;
    static const struct {
        const char *format;
        bool expect;
    } table[] = {{"u8", true},     {"s8", false},   {"s16le", true}, {"s16be", false},
                 {"u16le", false}, {"s24le", true}, {"s32le", true}, {"u32le", false},
                 {"f32le", true},  {"f32be", false}};
    for (size_t i = 0; i < sizeof table / sizeof table[0]; i++) {
        struct sample_format format;
        assert_int_equal(sample_format_parse(table[i].format, &format), 0);
        assert_int_equal(container_format_valid(&format), table[i].expect);
    }
    struct sample_format format = {SAMPLE_SIGNED, 2, 12, false, false};
    assert_false(container_format_valid(&format));
}

/* ---- message ring ------------------------------------------------------------------------ */

enum { MESSAGES = 200000 };

static struct message_ring ring;

/* Message i: its number, then bytes of its number; its length differs each time. */
static uint64_t length_of(uint32_t i)
{
    return 4 + (i * 2654435761u >> 8) % 1500;
}

static void *produce(void *unused)
{
    (void)unused;
    for (uint32_t i = 0; i < MESSAGES; i++) {
        uint8_t *message;
        while ((message = message_ring_reserve(&ring, length_of(i))) == NULL)
            sched_yield();
        memset(message, (int)i, length_of(i));
        memcpy(message, &i, sizeof i);
        message_ring_commit(&ring);
    }
    return NULL;
}

static void test_message_ring(void **state)
{
    (void)state;
    assert_int_equal(message_ring_open(&ring, 5000), 0);
    assert_null(message_ring_reserve(&ring, 5001));
    pthread_t producer;
    assert_int_equal(pthread_create(&producer, NULL, produce, NULL), 0);
    bool wrong = false;
    for (uint32_t i = 0; i < MESSAGES; i++) {
        uint64_t bytes;
        const uint8_t *message;
        while ((message = message_ring_peek(&ring, &bytes)) == NULL)
            sched_yield();
        uint32_t number;
        memcpy(&number, message, sizeof number);
        wrong |=
            number != i || bytes != length_of(i) || (uintptr_t)message % MESSAGE_ALIGNMENT != 0;
        for (uint64_t b = 4; b < bytes; b++)
            wrong |= message[b] != (uint8_t)i;
        message_ring_release(&ring);
    }
    pthread_join(producer, NULL);
    assert_false(wrong);
    assert_int_equal(message_ring_unused(&ring), ring.capacity);
    /* Wherever the empty ring stands, its longest message fits. */
    for (int i = 0; i < 200; i++) {
        assert_non_null(message_ring_reserve(&ring, message_ring_longest(&ring)));
        assert_non_null(message_ring_reserve(&ring, 100));
        message_ring_commit(&ring);
        uint64_t bytes;
        assert_non_null(message_ring_peek(&ring, &bytes));
        assert_int_equal(bytes, 100);
        message_ring_release(&ring);
    }
    message_ring_close(&ring);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_read_back),   cmocka_unit_test(test_beyond_4_gib),
        cmocka_unit_test(test_threshold),   cmocka_unit_test(test_full_disk),
        cmocka_unit_test(test_formats),     cmocka_unit_test(test_message_ring),
        cmocka_unit_test(test_w64_cut_off),
    };
    return cmocka_run_group_tests(tests, set_up, NULL);
}
