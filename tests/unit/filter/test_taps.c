/*
 * Taps and their files: what each file means, worked out by hand, and what is refused, with the
 * words a user needs.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <endian.h>
#include <math.h>
#include <sndfile.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "tests/support/scratch.h"
#include "filter/taps.h"

/* A file under construction. */
struct bytes {
    uint8_t data[4096];
    size_t count;
};

static void put(struct bytes *b, const void *data, size_t count)
{
    assert_true(b->count + count <= sizeof b->data);
    memcpy(b->data + b->count, data, count);
    b->count += count;
}

static void put_text(struct bytes *b, const char *text)
{
    put(b, text, strlen(text));
}

static void put_le(struct bytes *b, uint64_t value, unsigned width)
{
    for (unsigned i = 0; i < width; i++)
        put(b, &(uint8_t){(uint8_t)(value >> (8 * i))}, 1);
}

/* ---- text -------------------------------------------------------------------------------- */

static void test_text(void **state)
{
    (void)state;
    /* clang-format off */
    static const struct {
        const char *text;
        uint32_t count;
        bool complex_taps;
        double re[4], im[4];
        const char *words; /* when refused */
    } table[] = {
        {"1\n-2.5\n3e-3\n", 3, false, {1, -2.5, 3e-3}, {0}, NULL},
        {"1\n2", 2, false, {1, 2}, {0}, NULL},
        {"# taps\n\n  1 \t\r\n2 # the last\r\n", 2, false, {1, 2}, {0}, NULL},
        {"1 2\n3 -4\n", 2, true, {1, 3}, {2, -4}, NULL},
        {"1, 2\n3,-4\n", 2, true, {1, 3}, {2, -4}, NULL},
        {"\xef\xbb\xbf"
         "7\n",
         1, false, {7}, {0}, NULL},
        {"1e-320\n0\n", 2, false, {1e-320, 0}, {0}, NULL},
        {"", 0, false, {0}, {0}, "empty"},
        {"\n# nothing\n", 0, false, {0}, {0}, "no taps"},
        {"1\nabc\n", 0, false, {0}, {0}, "given:2: this is not a number"},
        {"1\n2x\n", 0, false, {0}, {0}, "given:2: this is not a number"},
        {"1 2 3\n", 0, false, {0}, {0}, "more than two numbers"},
        {"1\n2 3\n", 0, false, {0}, {0}, "given:2: some lines have one number"},
        {"1\nnan\n", 0, false, {0}, {0}, "given:2: the tap is not a finite number"},
        {"1e999\n", 0, false, {0}, {0}, "given:1: the tap is not a finite number"},
        {"1\n-1e300\n", 0, false, {0}, {0}, "given: tap 2 of set 1 is beyond 1e+20"},
        {"1 1e21\n", 0, false, {0}, {0}, "given: tap 1 of set 1 is beyond 1e+20"},
        {",1\n", 0, false, {0}, {0}, "not a number"},
        /* as oscilloscopes and spreadsheets write them */
        {"0,0.1\n1e-6,0.2\n2e-6,-0.1\n3e-6,0\n", 0, false, {0}, {0}, "equal steps of 1e-06"},
        {"-2e-6 0.1\n-1e-6 0.2\n0 -0.1\n1e-6 0\n", 0, false, {0}, {0}, "a rate of 1e+06 Hz"},
        {"Time,CH1\ns,V\n0,0.1\n1,0.2\n2,-0.1\n3,0\n", 0, false, {0}, {0}, "NR > 2 {print $2}"},
        {"0;0,1\n0,5;0,2\n1;-0,1\n1,5;0\n", 0, false, {0}, {0}, "-F';' 'NR > 0 {gsub"},
        {"0\t1\t5\n1\t2\t6\n2\t1\t7\n3\t0\t8\n", 0, false, {0}, {0}, "it is time"},
        {"1.000 1\r\n1.333 2\r\n1.667 3\r\n2.000 4\r\n", 0, false, {0}, {0}, "it is time"},
        {"1 2\n2 1\n3 0\n", 3, true, {1, 2, 3}, {2, 1, 0}, NULL},
        {"1 2\n2 1\n3 0\n2 0\n", 4, true, {1, 2, 3, 2}, {2, 1, 0, 0}, NULL},
        {"1 2\n2 1\n4 0\n8 0\n", 4, true, {1, 2, 4, 8}, {2, 1, 0, 0}, NULL},
        {"1 2\n1 1\n1 0\n1 3\n", 4, true, {1, 1, 1, 1}, {2, 1, 0, 3}, NULL},
        {"1\n2\n3\n4\n", 4, false, {1, 2, 3, 4}, {0}, NULL},
    };
    /* clang-format on */
    for (size_t i = 0; i < sizeof table / sizeof table[0]; i++) {
        struct taps *untouched = NULL, **sets = &untouched;
        uint32_t count = 99;
        struct problem problem = {0};
        int status = taps_load_memory("given", table[i].text, strlen(table[i].text), &sets, &count,
                                      &problem);
        if (table[i].words != NULL) {
            if (status == 0 || strstr(problem.text, table[i].words) == NULL)
                fail_msg("'%s': status %d, said '%s' instead of '%s'", table[i].text, status,
                         problem.text, table[i].words);
            assert_null(sets);
            assert_int_equal(count, 0);
            continue;
        }
        if (status != 0 || sets[0]->count != table[i].count) {
            fail_msg("'%s': status %d %s", table[i].text, status, problem.text);
            return;
        }
        assert_int_equal(count, 1);
        assert_int_equal(sets[0]->im != NULL, table[i].complex_taps);
        for (uint32_t n = 0; n < sets[0]->count; n++) {
            if (sets[0]->re[n] != table[i].re[n] ||
                (sets[0]->im != NULL && sets[0]->im[n] != table[i].im[n]))
                fail_msg("'%s': tap %u is %g", table[i].text, n, sets[0]->re[n]);
        }
        taps_sets_free(sets, count);
    }
}

static void test_nul_in_text(void **state)
{
    (void)state;
    struct taps **sets;
    uint32_t count;
    struct problem problem;
    assert_int_equal(taps_load_memory("x", "1\n\0002\n", 6, &sets, &count, &problem), ERROR_FORMAT);
    assert_non_null(strstr(problem.text, "not text"));
}

static void test_longest(void **state)
{
    (void)state;
    size_t bytes = 2 * ((size_t)TAPS_MAX + 1);
    char *text = malloc(bytes);
    assert_non_null(text);
    for (size_t i = 0; i < bytes; i += 2) {
        text[i] = '1';
        text[i + 1] = '\n';
    }
    struct taps **sets;
    uint32_t count;
    struct problem problem;
    assert_int_equal(taps_load_memory("t", text, bytes - 2, &sets, &count, &problem), 0);
    assert_int_equal(sets[0]->count, TAPS_MAX);
    taps_sets_free(sets, count);
    assert_int_equal(taps_load_memory("t", text, bytes, &sets, &count, &problem), ERROR_LIMIT);
    assert_non_null(strstr(problem.text, "1048577"));
    free(text);
}

/* ---- .npy -------------------------------------------------------------------------------- */

static void npy_begin(struct bytes *b, unsigned version, const char *dictionary)
{
    b->count = 0;
    put_text(b, "\x93NUMPY");
    put_le(b, version, 1);
    put_le(b, 0, 1);
    put_le(b, strlen(dictionary) + 1, version == 1 ? 2 : 4);
    put_text(b, dictionary);
    put_text(b, "\n");
}

static void put_float(struct bytes *b, double value, unsigned width, bool big_endian)
{
    if (width == 4) {
        float single = (float)value;
        uint32_t bits;
        memcpy(&bits, &single, sizeof bits);
        bits = big_endian ? htobe32(bits) : htole32(bits);
        put(b, &bits, sizeof bits);
    } else {
        uint64_t bits;
        memcpy(&bits, &value, sizeof bits);
        bits = big_endian ? htobe64(bits) : htole64(bits);
        put(b, &bits, sizeof bits);
    }
}

/* Six numbers 1, -2, 3, -4, 5, -6 in the file, read back as the shape says. */
static void test_npy(void **state)
{
    (void)state;
    /* clang-format off */
    static const struct {
        const char *dictionary;
        unsigned version, width;
        bool big_endian;
        uint32_t sets, taps;
        double first[3], last[3]; /* re of the first taps of the first and last set */
        double first_im;
    } table[] = {
        {"{'descr': '<f8', 'fortran_order': False, 'shape': (6,), }", 1, 8, false, 1, 6,
         {1, -2, 3}, {1, -2, 3}, 0},
        {"{'descr': '>f4', 'fortran_order': False, 'shape': (6,), }", 2, 4, true, 1, 6,
         {1, -2, 3}, {1, -2, 3}, 0},
        {"{'descr': '<f4', 'fortran_order': False, 'shape': (2, 3), }", 3, 4, false, 2, 3,
         {1, -2, 3}, {-4, 5, -6}, 0},
        {"{'descr': '<f8', 'fortran_order': True, 'shape': (2, 3), }", 1, 8, false, 2, 3,
         {1, 3, 5}, {-2, -4, -6}, 0},
        {"{'descr': '<c16', 'fortran_order': False, 'shape': (3,), }", 1, 8, false, 1, 3,
         {1, 3, 5}, {1, 3, 5}, -2},
        {"{\"descr\": \">c8\", \"fortran_order\": False, \"shape\": (1,3)}", 1, 4, true, 1, 3,
         {1, 3, 5}, {1, 3, 5}, -2},
    };
    /* clang-format on */
    for (size_t i = 0; i < sizeof table / sizeof table[0]; i++) {
        struct bytes b;
        npy_begin(&b, table[i].version, table[i].dictionary);
        for (int k = 1; k <= 6; k++)
            put_float(&b, k % 2 == 1 ? k : -k, table[i].width, table[i].big_endian);
        struct taps **sets;
        uint32_t count;
        struct problem problem;
        if (taps_load_memory("t.npy", b.data, b.count, &sets, &count, &problem) != 0)
            fail_msg("%s: %s", table[i].dictionary, problem.text);
        assert_int_equal(count, table[i].sets);
        assert_int_equal(sets[0]->count, table[i].taps);
        for (int n = 0; n < 3; n++) {
            if (sets[0]->re[n] != table[i].first[n] || sets[count - 1]->re[n] != table[i].last[n])
                fail_msg("%s: tap %d is %g and %g", table[i].dictionary, n, sets[0]->re[n],
                         sets[count - 1]->re[n]);
        }
        assert_true((sets[0]->im == NULL ? 0 : sets[0]->im[0]) == table[i].first_im);
        taps_sets_free(sets, count);
    }
}

static void test_npy_refused(void **state)
{
    (void)state;
    /* clang-format off */
    static const struct {
        const char *dictionary;
        unsigned version, data_bytes;
        const char *words;
    } table[] = {
        {"{'descr': '<i4', 'fortran_order': False, 'shape': (2,), }", 1, 8, "data type"},
        {"{'descr': '|f8', 'fortran_order': False, 'shape': (1,), }", 1, 8, "data type"},
        {"{'descr': [('a', '<f8')], 'fortran_order': False, 'shape': (1,), }", 1, 8, "data type"},
        {"{'descr': '<f8', 'fortran_order': False, 'shape': (), }", 1, 8, "single number"},
        {"{'descr': '<f8', 'fortran_order': False, 'shape': (0,), }", 1, 0, "no taps"},
        {"{'descr': '<f8', 'fortran_order': False, 'shape': (1, 1, 1), }", 1, 8, "two dimensions"},
        {"{'descr': '<f8', 'fortran_order': False, 'shape': (2,), }", 1, 8, "promises 16"},
        {"{'descr': '<f8', 'fortran_order': False, 'shape': (1,), }", 1, 9, "promises 8"},
        {"{'descr': '<f8', 'fortran_order': False, 'shape': (4000, 2), }", 1, 8, "transpose"},
        {"{'descr': '<f8', 'fortran_order': False, 'shape': (1048577,), }", 1, 8, "promises"},
        {"{'descr': '<f8', 'fortran_order': False, 'shape': (99999999999999999999,), }", 1, 8,
         "larger than"},
        {"{'descr': '<f8', 'fortran_order': False, 'shape': (-1,), }", 1, 8, "shape"},
        {"{'descr': '<f8', 'fortran_order': False, 'shape': (1", 1, 8, "shape"},
        {"{'descr': '<f8', 'shape': (1,), }", 1, 8, "fortran_order"},
        {"{'descr': '<f8', 'fortran_order': False, 'shape': (1,), }", 4, 8, "version"},
    };
    /* clang-format on */
    for (size_t i = 0; i < sizeof table / sizeof table[0]; i++) {
        struct bytes b;
        npy_begin(&b, table[i].version, table[i].dictionary);
        for (unsigned k = 0; k < table[i].data_bytes; k++)
            put_le(&b, 0, 1);
        struct taps **sets;
        uint32_t count;
        struct problem problem = {0};
        int status = taps_load_memory("t.npy", b.data, b.count, &sets, &count, &problem);
        if (status == 0 || strstr(problem.text, table[i].words) == NULL)
            fail_msg("%s: status %d, said '%s' instead of '%s'", table[i].dictionary, status,
                     problem.text, table[i].words);
    }
    /* every prefix of a good file is refused, none is read past its end */
    struct bytes b;
    npy_begin(&b, 1, "{'descr': '<f8', 'fortran_order': False, 'shape': (2,), }");
    put_float(&b, 1, 8, false);
    put_float(&b, NAN, 8, false);
    for (size_t length = 0; length <= b.count; length++) {
        uint8_t *copy = malloc(length + 1); /* so that a sanitizer sees one byte too many */
        assert_non_null(copy);
        memcpy(copy, b.data, length);
        struct taps **sets;
        uint32_t count;
        struct problem problem = {0};
        assert_int_not_equal(taps_load_memory("t.npy", copy, length, &sets, &count, &problem), 0);
        if (length == b.count && strstr(problem.text, "tap 2 of set 1 is not a finite") == NULL)
            fail_msg("NaN: '%s'", problem.text);
        free(copy);
    }
}

/* ---- WAV --------------------------------------------------------------------------------- */

static void wav_begin(struct bytes *b, unsigned format, unsigned channels, unsigned bits,
                      uint32_t data_bytes)
{
    b->count = 0;
    put_text(b, "RIFF");
    put_le(b, 36 + data_bytes, 4);
    put_text(b, "WAVEfmt ");
    put_le(b, 16, 4);
    put_le(b, format, 2);
    put_le(b, channels, 2);
    put_le(b, 48000, 4);
    put_le(b, 48000 * channels * bits / 8, 4);
    put_le(b, channels * bits / 8, 2);
    put_le(b, bits, 2);
    put_text(b, "data");
    put_le(b, data_bytes, 4);
}

static void test_wav(void **state)
{
    (void)state;
    struct bytes b;
    struct taps **sets;
    uint32_t count;
    struct problem problem;

    wav_begin(&b, 3, 2, 32, 3 * 2 * 4); /* float: one set per channel, values as they are */
    for (int k = 1; k <= 6; k++)
        put_float(&b, 1.5 * k, 4, false);
    if (taps_load_memory("t.wav", b.data, b.count, &sets, &count, &problem) != 0)
        fail_msg("%s", problem.text);
    assert_int_equal(count, 2);
    assert_int_equal(sets[1]->count, 3);
    for (int n = 0; n < 3; n++) {
        assert_true(sets[0]->re[n] == 1.5 * (2 * n + 1));
        assert_true(sets[1]->re[n] == 1.5 * (2 * n + 2));
    }
    assert_true(sets[0]->file_rate_hz == 48000);
    assert_string_equal(sets[0]->hash, sets[1]->hash);
    taps_sets_free(sets, count);

    wav_begin(&b, 1, 1, 16, 2 * 2); /* integers: full scale is 1 */
    put_le(&b, 0x4000, 2);
    put_le(&b, 0x8000, 2);
    assert_int_equal(taps_load_memory("t.wav", b.data, b.count, &sets, &count, &problem), 0);
    assert_true(sets[0]->re[0] == 0.5 && sets[0]->re[1] == -1);
    taps_sets_free(sets, count);

    /* fewer or more taps than the header announces */
    wav_begin(&b, 3, 1, 32, 3 * 4);
    put_float(&b, 1, 4, false);
    put_float(&b, 2, 4, false);
    assert_int_equal(taps_load_memory("t.wav", b.data, b.count, &sets, &count, &problem),
                     ERROR_FORMAT);
    assert_non_null(strstr(problem.text, "announces 3 taps, and the file holds 2"));
    wav_begin(&b, 3, 1, 32, 0);
    put_float(&b, 1, 4, false);
    put_float(&b, 2, 4, false);
    assert_int_equal(taps_load_memory("t.wav", b.data, b.count, &sets, &count, &problem),
                     ERROR_FORMAT);
    assert_non_null(strstr(problem.text, "counts 0 taps, and the file holds 2"));
    wav_begin(&b, 3, 1, 32, UINT32_MAX); /* written through a pipe */
    put_float(&b, 1, 4, false);
    put_float(&b, 2, 4, false);
    assert_int_equal(taps_load_memory("t.wav", b.data, b.count, &sets, &count, &problem), 0);
    assert_true(sets[0]->count == 2 && sets[0]->re[1] == 2);
    taps_sets_free(sets, count);

    wav_begin(&b, 3, 1, 32, 0);
    assert_int_not_equal(taps_load_memory("t.wav", b.data, b.count, &sets, &count, &problem), 0);
    assert_non_null(strstr(problem.text, "no taps"));
    assert_int_equal(taps_load_memory("t.wav", "1\n", 2, &sets, &count, &problem), ERROR_FORMAT);
    assert_non_null(strstr(problem.text, ".wav"));
}

/* Taps in the other containers that recordings may have: the same values, and none of a part. */
static void test_sound_files(void **state)
{
    (void)state;
    static const struct {
        const char *name;
        int format;
    } table[] = {{"t.aiff", SF_FORMAT_AIFF | SF_FORMAT_PCM_16},
                 {"t.aifc", SF_FORMAT_AIFF | SF_FORMAT_FLOAT},
                 {"t.au", SF_FORMAT_AU | SF_FORMAT_PCM_24},
                 {"t.caf", SF_FORMAT_CAF | SF_FORMAT_FLOAT},
                 {"t.w64", SF_FORMAT_W64 | SF_FORMAT_PCM_16},
                 {"t.rf64", SF_FORMAT_RF64 | SF_FORMAT_PCM_16},
                 {"t.flac", SF_FORMAT_FLAC | SF_FORMAT_PCM_16}};
    enum { TAPS = 600 };
    for (size_t i = 0; i < sizeof table / sizeof table[0]; i++) {
        const char *path = scratch_path(table[i].name);
        SF_INFO info = {.samplerate = 48000, .channels = 1, .format = table[i].format};
        SNDFILE *file = sf_open(path, SFM_WRITE, &info);
        assert_non_null(file);
        for (int n = 0; n < TAPS; n++) {
            const double tap = n * 37 % 256 / 256.0;
            assert_int_equal(sf_writef_double(file, &tap, 1), 1);
        }
        sf_close(file);
        struct taps **sets;
        uint32_t count;
        struct problem problem;
        if (taps_load(path, &sets, &count, &problem) != 0)
            fail_msg("%s: %s", table[i].name, problem.text);
        assert_true(count == 1 && sets[0]->count == TAPS);
        for (int n = 0; n < TAPS; n++)
            assert_true(fabs(sets[0]->re[n] - n * 37 % 256 / 256.0) < 1e-4);
        taps_sets_free(sets, count);
        struct stat status;
        assert_int_equal(stat(path, &status), 0);
        assert_int_equal(truncate(path, status.st_size * 3 / 4), 0);
        if (taps_load(path, &sets, &count, &problem) != ERROR_FORMAT ||
            strstr(problem.text, "again") == NULL)
            fail_msg("%s, cut: %s", table[i].name, problem.text);
    }
}

/* ---- files, hashes, symmetry
 * --------------------------------------------------------------------- */

static void test_files(void **state)
{
    (void)state;
    struct taps **sets;
    uint32_t count;
    struct problem problem;
    const char *path = scratch_write("taps.txt", "1\n-2\n");
    assert_int_equal(taps_load(path, &sets, &count, &problem), 0);
    /* printf '1\n-2\n' | sha256sum */
    assert_string_equal(sets[0]->hash,
                        "c0a0646ba9eb63a839b9876d4267da62e2e63aaaa4dc39dfe5df25439a6df77e");
    taps_sets_free(sets, count);
    unlink(path);
    assert_int_equal(taps_load(path, &sets, &count, &problem), ERROR_NO_FILE);
    assert_non_null(strstr(problem.text, path));
    assert_int_equal(taps_load("/tmp", &sets, &count, &problem), ERROR_NO_FILE);
    assert_non_null(strstr(problem.text, "regular"));
}

static void test_hash(void **state)
{
    (void)state;
    struct taps *taps;
    assert_int_equal(taps_create(1, false, &taps, NULL), 0);
    taps->re[0] = 1;
    taps_hash(taps);
    /* sha256 of 00 00 00 00 00 00 f0 3f */
    assert_string_equal(taps->hash,
                        "6c3c396ed6b5c36dcae172271f462051b1266b851e92df3deea8ac65478fd712");
    taps_free(taps);
}

static void test_symmetry(void **state)
{
    (void)state;
    /* clang-format off */
    static const struct {
        uint32_t count;
        bool complex_taps;
        double re[4], im[4], expect;
    } table[] = {
        {1, false, {5}, {0}, 0},
        {3, false, {1, 2, 1}, {0}, 1},
        {4, false, {1, 2, 2, 1}, {0}, 1.5},
        {3, false, {1, 0, -1}, {0}, 1},
        {3, false, {1, 2, 1.0001}, {0}, -1},
        {3, false, {1, 2, 1 + 1e-10}, {0}, 1}, /* rounding of whoever wrote the file */
        {3, true, {1, 2, 1}, {3, 0, -3}, 1},   /* Hermitian */
        {3, true, {1, 2, 1}, {3, 4, 3}, 1},
        {3, true, {1, 2, 1}, {3, 4, 5}, -1},
    };
    /* clang-format on */
    for (size_t i = 0; i < sizeof table / sizeof table[0]; i++) {
        struct taps *taps;
        assert_int_equal(taps_create(table[i].count, table[i].complex_taps, &taps, NULL), 0);
        memcpy(taps->re, table[i].re, table[i].count * sizeof *taps->re);
        if (taps->im != NULL)
            memcpy(taps->im, table[i].im, table[i].count * sizeof *taps->im);
        if (taps_symmetry_delay(taps) != table[i].expect)
            fail_msg("row %zu: delay %g, not %g", i, taps_symmetry_delay(taps), table[i].expect);
        taps_free(taps);
    }
}

static void test_limits(void **state)
{
    (void)state;
    struct taps *taps;
    assert_int_equal(taps_create(0, false, &taps, NULL), ERROR_ARGUMENT);
    assert_int_equal(taps_create(TAPS_MAX + 1, false, &taps, NULL), ERROR_ARGUMENT);
    assert_null(taps);
    taps_free(NULL);
    taps_sets_free(NULL, 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_text),        cmocka_unit_test(test_nul_in_text),
        cmocka_unit_test(test_longest),     cmocka_unit_test(test_npy),
        cmocka_unit_test(test_npy_refused), cmocka_unit_test(test_wav),
        cmocka_unit_test(test_sound_files), cmocka_unit_test(test_files),
        cmocka_unit_test(test_hash),        cmocka_unit_test(test_symmetry),
        cmocka_unit_test(test_limits),
    };
    return cmocka_run_group_tests_name("taps", tests, NULL, NULL);
}
