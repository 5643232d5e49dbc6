/*
 * The sources `file` and `generator`, driven by a uv loop into a host that takes frames only
 * when it has room: what arrives is compared sample by sample, by frame number, with what the
 * file holds or the waveform defines.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <math.h>
#include <sndfile.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "core/clock.h"
#include "core/log.h"
#include "core/random.h"
#include "io/generator.h"
#include "io/recording/recording.h"
#include "io/recording/validity.h"
#include "io/source.h"
#include "io/sources.h"
#include "tests/support/scratch.h"

static int set_up(void **state)
{
    (void)state;
    log_set_level(LOG_LEVEL_ERROR);
    return 0;
}

/* ---- a host with room for a while at a time ---------------------------------------------- */

struct host {
    uv_loop_t loop;
    const struct source_ops *ops;
    struct source *source;
    uint32_t frame_bytes;
    uint8_t *bytes; /* what arrived */
    uint64_t frames, capacity, room;
    uint64_t room_each; /* granted by the timer every millisecond; 0: always all of it */
    uint64_t stop_at;   /* frames after which the test stops the source; 0: never */
    int packets;
    bool ended, closed, out_of_place, capture_wrong;
    double rate_hz;
    int64_t first_capture_ns;
    uv_timer_t timer;
    struct source_cut cut; /* the last one */
    int cuts;
    struct invalid_range invalid[64]; /* of all packets, joined where they continue */
    uint32_t invalid_count;
    bool count_only; /* not into `invalid` */
    uint64_t invalid_frames;
    struct source_mark marks[4];
    uint64_t marked_at[4]; /* frames that had arrived */
    uint32_t mark_count;
};

static void closed(void *context)
{
    struct host *h = context;
    h->closed = true;
}

static void close_all(struct host *h)
{
    h->ops->close(h->source, closed, h);
    uv_close((uv_handle_t *)&h->timer, NULL);
}

static void host_cut(void *context, const struct source_cut *cut)
{
    struct host *h = context;
    assert_false(h->ended);
    h->cut = *cut;
    h->cuts++;
}

static void host_mark(void *context, const struct source_mark *mark)
{
    struct host *h = context;
    assert_true(h->mark_count < 4);
    h->marked_at[h->mark_count] = h->frames;
    h->marks[h->mark_count++] = *mark;
}

static void note_invalid(struct host *h, const struct packet *packet)
{
    for (uint32_t i = 0; i < packet->invalid_count; i++) {
        const struct invalid_range *range = &packet->invalid[i];
        assert_true(range->from >= packet->first_frame && range->from < range->until &&
                    range->until <= packet->first_frame + packet->frames);
        h->invalid_frames += range->until - range->from;
        if (h->count_only)
            continue;
        uint32_t k = h->invalid_count;
        while (k > 0 &&
               !(h->invalid[k - 1].cause == range->cause && h->invalid[k - 1].until == range->from))
            k--;
        assert_true(h->invalid_count < 64);
        if (k > 0)
            h->invalid[k - 1].until = range->until;
        else
            h->invalid[h->invalid_count++] = *range;
    }
}

static enum verdict host_put(void *context, const struct packet *packet)
{
    struct host *h = context;
    h->packets++;
    note_invalid(h, packet);
    h->out_of_place |=
        packet->first_frame != h->frames || packet->frames > h->room || packet->frames == 0;
    assert_true(h->frames + packet->frames <= h->capacity);
    memcpy(h->bytes + h->frames * h->frame_bytes, packet->payload,
           (size_t)packet->frames * h->frame_bytes);
    if (h->packets == 1)
        h->first_capture_ns = packet->capture_ns;
    double expected_ns = (double)packet->first_frame * 1e9 / h->rate_hz;
    h->capture_wrong |= !(packet->flags & PACKET_CAPTURE) ||
                        packet->clock != CLOCK_SOURCE_DECLARED ||
                        fabs((double)(packet->capture_ns - h->first_capture_ns) - expected_ns) > 2;
    h->frames += packet->frames;
    h->room -= packet->frames;
    if (h->stop_at > 0 && h->frames >= h->stop_at) {
        close_all(h);
        h->stop_at = 0;
    }
    return VERDICT_ACCEPTED;
}

static uint64_t host_room(void *context)
{
    struct host *h = context;
    if (h->room_each == 0)
        h->room = h->capacity - h->frames;
    return h->room;
}

static void host_ended(void *context)
{
    struct host *h = context;
    h->ended = true;
    close_all(h);
}

static void grant(uv_timer_t *timer)
{
    struct host *h = timer->data;
    h->room = h->room_each;
    h->ops->resume(h->source);
}

/* Runs the source to its end (or to stop_at) and checks what holds for every one. */
static void run(struct host *h, const struct source_ops *ops, const struct source_options *options)
{
    h->ops = ops;
    h->frame_bytes = options->frame_bytes;
    h->rate_hz = options->rate_hz;
    h->bytes = malloc(h->capacity * h->frame_bytes);
    assert_non_null(h->bytes);
    assert_int_equal(uv_loop_init(&h->loop), 0);
    uv_timer_init(&h->loop, &h->timer);
    h->timer.data = h;
    if (h->room_each > 0)
        uv_timer_start(&h->timer, grant, 1, 1);
    const struct source_host host = {.context = h,
                                     .put = host_put,
                                     .room = host_room,
                                     .ended = host_ended,
                                     .cut = host_cut,
                                     .mark = host_mark};
    struct problem problem = {0};
    if (ops->open(options, &(struct io_environment){.loop = &h->loop}, &host, &h->source,
                  &problem) != 0)
        fail_msg("open: %s", problem.text);
    assert_int_equal(ops->start(h->source, &problem), 0);
    uv_run(&h->loop, UV_RUN_DEFAULT);
    assert_true(h->closed);
    assert_false(h->out_of_place);
    assert_false(h->capture_wrong);
    assert_int_equal(uv_loop_close(&h->loop), 0);
}

/* ---- recordings -------------------------------------------------------------------------- */

/* Ramp-like samples that differ in every frame and channel, as 32-bit codes. */
static int code_of(uint64_t frame, unsigned channel)
{
    struct random_state r = {frame * 31 + channel};
    return (int)(random_u64(&r) >> 32);
}

static void write_recording(const char *path, int format, int channels, uint64_t frames)
{
    SF_INFO info = {.samplerate = 500000, .channels = channels, .format = format};
    SNDFILE *file = sf_open(path, SFM_WRITE, &info);
    if (file == NULL)
        fail_msg("%s: %s", path, sf_strerror(NULL));
    bool is_float = (format & SF_FORMAT_SUBMASK) == SF_FORMAT_FLOAT ||
                    (format & SF_FORMAT_SUBMASK) == SF_FORMAT_DOUBLE;
    for (uint64_t n = 0; n < frames; n++) {
        int codes[4];
        double values[4];
        for (int c = 0; c < channels; c++) {
            codes[c] = code_of(n, (unsigned)c);
            values[c] = codes[c] * 0x1p-20; /* floats go beyond ±1, too */
        }
        if (is_float)
            assert_int_equal(sf_writef_double(file, values, 1), 1);
        else
            assert_int_equal(sf_writef_int(file, codes, 1), 1);
    }
    sf_close(file);
}

static const struct {
    const char *name;
    int format;
    const char *ring;
} recordings[] = {
    {"u8.wav", SF_FORMAT_WAV | SF_FORMAT_PCM_U8, "u8"},
    {"16.wav", SF_FORMAT_WAV | SF_FORMAT_PCM_16, "s16le"},
    {"24.wav", SF_FORMAT_WAV | SF_FORMAT_PCM_24, "s24le"},
    {"32.wav", SF_FORMAT_WAV | SF_FORMAT_PCM_32, "s32le"},
    {"float.wav", SF_FORMAT_WAV | SF_FORMAT_FLOAT, "f32le"},
    {"double.wav", SF_FORMAT_WAV | SF_FORMAT_DOUBLE, "f32le"},
    {"16.w64", SF_FORMAT_W64 | SF_FORMAT_PCM_16, "s16le"},
    {"24.rf64", SF_FORMAT_RF64 | SF_FORMAT_PCM_24, "s24le"},
    {"16.flac", SF_FORMAT_FLAC | SF_FORMAT_PCM_16, "s16le"},
    {"24.flac", SF_FORMAT_FLAC | SF_FORMAT_PCM_24, "s24le"},
};

static void expect_codes(const struct host *h, const struct sample_format *format,
                         unsigned channels, uint64_t file_frames, const char *name)
{
    for (uint64_t n = 0; n < h->frames; n++) {
        for (unsigned c = 0; c < channels; c++) {
            int code = code_of(n % file_frames, c);
            double got = sample_decode(format, h->bytes + n * h->frame_bytes + c * format->bytes);
            double want = format->kind == SAMPLE_FLOAT
                              ? (double)(float)(code * 0x1p-20)
                              : floor(ldexp(code, format->bits - 32)) / ldexp(1, format->bits - 1);
            if (got != want)
                fail_msg("%s: frame %llu, channel %u: %.10g, want %.10g", name,
                         (unsigned long long)n, c, got, want);
        }
    }
}

static struct source_options file_options(const char *path, const char *format, unsigned channels)
{
    static struct file_options own;
    own = (struct file_options){.path = path};
    struct source_options options = {
        .stream = "test", .rate_hz = 500e3, .channels = channels, .own = &own};
    assert_int_equal(sample_format_parse(format, &options.format), 0);
    options.frame_bytes = channels * options.format.bytes;
    return options;
}

static void test_every_recording(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof recordings / sizeof recordings[0]; i++) {
        enum { FRAMES = 3001, CHANNELS = 3 };
        const char *path = scratch_path(recordings[i].name);
        write_recording(path, recordings[i].format, CHANNELS, FRAMES);
        double rate_hz;
        uint32_t channels;
        uint64_t frames;
        struct sample_format format;
        struct problem problem = {0};
        if (recording_probe(path, &rate_hz, &channels, &format, &frames, &problem) != 0)
            fail_msg("%s: %s", path, problem.text);
        char text[24];
        assert_true(rate_hz == 500e3 && channels == CHANNELS && frames == FRAMES);
        assert_string_equal(sample_format_name(&format, text), recordings[i].ring);

        struct source_options options = file_options(path, recordings[i].ring, CHANNELS);
        struct host h = {.capacity = FRAMES};
        run(&h, &source_file, &options);
        assert_true(h.ended);
        assert_int_equal(h.frames, FRAMES);
        expect_codes(&h, &format, CHANNELS, FRAMES, recordings[i].name);
        free(h.bytes);
        unlink(path);
    }
}

/* As ffmpeg writes it above 48 kHz: an extensible fmt chunk, which libsndfile takes for integers.
 */
static void test_extensible_w64(void **state)
{
    (void)state;
    static const struct {
        uint8_t sub_format, bytes;
        const char *ring; /* NULL: refused with advice */
    } table[] = {{3, 4, "f32le"}, {1, 4, "s32le"}, {3, 8, NULL}};
    for (size_t i = 0; i < sizeof table / sizeof table[0]; i++) {
        enum { FRAMES = 1001, HEADER = 40 + 64 + 24 };
        static const uint8_t rest[12] = {0xF3, 0xAC, 0xD3, 0x11, 0x8C, 0xD1,
                                         0x00, 0xC0, 0x4F, 0x8E, 0xDB, 0x8A};
        uint8_t width = table[i].bytes;
        uint8_t header[HEADER] = "riff\x2E\x91\xCF\x11\xA5\xD6\x28\xDB\x04\xC1";
        uint64_t sizes[3] = {HEADER + FRAMES * width, 64, 24 + FRAMES * width};
        memcpy(header + 16, &sizes[0], 8);
        memcpy(header + 24, "wave", 4);
        memcpy(header + 28, rest, 12);
        memcpy(header + 40, "fmt ", 4);
        memcpy(header + 44, rest, 12);
        memcpy(header + 56, &sizes[1], 8);
        uint32_t rate_hz = 500000, bytes_per_s = rate_hz * width;
        memcpy(header + 64, (const uint8_t[]){0xFE, 0xFF, 1, 0}, 4);
        memcpy(header + 68, &rate_hz, 4);
        memcpy(header + 72, &bytes_per_s, 4);
        memcpy(header + 76,
               (const uint8_t[]){width,
                                 0,
                                 (uint8_t)(width * 8),
                                 0,
                                 22,
                                 0,
                                 (uint8_t)(width * 8),
                                 0,
                                 4,
                                 0,
                                 0,
                                 0,
                                 table[i].sub_format,
                                 0,
                                 0,
                                 0,
                                 0,
                                 0,
                                 16,
                                 0,
                                 128,
                                 0,
                                 0,
                                 170,
                                 0,
                                 56,
                                 155,
                                 113},
               28);
        memcpy(header + 104, "data", 4);
        memcpy(header + 108, rest, 12);
        memcpy(header + 120, &sizes[2], 8);

        const char *path = scratch_path("extensible.w64");
        FILE *file = fopen(path, "wb");
        assert_non_null(file);
        assert_int_equal(fwrite(header, HEADER, 1, file), 1);
        for (uint64_t n = 0; n < FRAMES; n++) {
            int code = code_of(n, 0);
            float value = (float)(code * 0x1p-20);
            double wide = value;
            const void *word = table[i].sub_format == 1 ? (const void *)&code
                               : width == 4             ? (const void *)&value
                                                        : (const void *)&wide;
            assert_int_equal(fwrite(word, width, 1, file), 1);
        }
        assert_int_equal(fclose(file), 0);

        struct sample_format format;
        struct problem problem = {0};
        int status = recording_probe(path, NULL, NULL, &format, NULL, &problem);
        if (table[i].ring == NULL) {
            assert_true(status != 0);
            unlink(path);
            continue;
        }
        if (status != 0)
            fail_msg("%s: %s", path, problem.text);
        char text[24];
        assert_string_equal(sample_format_name(&format, text), table[i].ring);
        struct source_options options = file_options(path, table[i].ring, 1);
        struct host h = {.capacity = FRAMES};
        run(&h, &source_file, &options);
        assert_int_equal(h.frames, FRAMES);
        expect_codes(&h, &format, 1, FRAMES, table[i].ring);
        free(h.bytes);
        unlink(path);
    }
}

/* Long enough for several chunks; the host has little room, so most of the time it waits. */
static void test_back_pressure(void **state)
{
    (void)state;
    enum { FRAMES = 400003 };
    const char *path = scratch_path("long.wav");
    write_recording(path, SF_FORMAT_WAV | SF_FORMAT_PCM_16, 2, FRAMES);
    struct source_options options = file_options(path, "s16le", 2);
    struct host h = {.capacity = FRAMES, .room_each = 17777};
    run(&h, &source_file, &options);
    assert_true(h.ended);
    assert_int_equal(h.frames, FRAMES);
    expect_codes(&h, &options.format, 2, FRAMES, "long.wav");
    free(h.bytes);
    unlink(path);
}

static void test_loop_is_contiguous(void **state)
{
    (void)state;
    const char *path = scratch_path("loop.wav");
    write_recording(path, SF_FORMAT_WAV | SF_FORMAT_PCM_24, 1, 777);
    struct source_options options = file_options(path, "s24le", 1);
    ((struct file_options *)options.own)->loop = true;
    struct host h = {.capacity = 400000, .room_each = 5000, .stop_at = 200000};
    run(&h, &source_file, &options);
    assert_false(h.ended);
    assert_true(h.frames >= 200000);
    expect_codes(&h, &options.format, 1, 777, "loop.wav");
    free(h.bytes);
    unlink(path);
}

static void test_paced(void **state)
{
    (void)state;
    const char *path = scratch_path("paced.wav");
    write_recording(path, SF_FORMAT_WAV | SF_FORMAT_PCM_16, 1, 100000); /* 200 ms */
    struct source_options options = file_options(path, "s16le", 1);
    options.paced = true;
    struct host h = {.capacity = 100000};
    int64_t start_ns = clock_monotonic_ns();
    run(&h, &source_file, &options);
    int64_t taken_ms = (clock_monotonic_ns() - start_ns) / NS_PER_MS;
    if (taken_ms < 198 || taken_ms > 2000)
        fail_msg("200 ms of signal took %lld ms", (long long)taken_ms);
    assert_int_equal(h.frames, 100000);
    assert_true(h.packets >= 10); /* spread over the time, not one lump */
    expect_codes(&h, &options.format, 1, 100000, "paced.wav");
    free(h.bytes);
    unlink(path);
}

static void test_refusals(void **state)
{
    (void)state;
    struct problem problem = {0};
    assert_int_equal(recording_probe(scratch_path("none.wav"), NULL, NULL, NULL, NULL, &problem),
                     ERROR_NO_FILE);
    assert_non_null(strstr(problem.text, "none.wav"));

    const char *text = scratch_write("text.wav", "this is no recording");
    assert_int_equal(recording_probe(text, NULL, NULL, NULL, NULL, &problem), ERROR_FORMAT);

    write_recording(scratch_path("ulaw.wav"), SF_FORMAT_WAV | SF_FORMAT_ULAW, 1, 100);
    assert_int_equal(recording_probe(scratch_path("ulaw.wav"), NULL, NULL, NULL, NULL, &problem),
                     ERROR_UNSUPPORTED);

    write_recording(scratch_path("good.wav"), SF_FORMAT_WAV | SF_FORMAT_PCM_16, 2, 100);
    uv_loop_t loop;
    assert_int_equal(uv_loop_init(&loop), 0);
    struct source_host host = {0};
    struct source *source;
    struct source_options options = file_options(scratch_path("good.wav"), "s16le", 1);
    assert_int_equal(source_file.open(&options, &(struct io_environment){.loop = &loop}, &host,
                                      &source, &problem),
                     ERROR_CONFIG);
    assert_non_null(strstr(problem.text, "channels = 2"));
    options = file_options(scratch_path("good.wav"), "s24le", 2);
    assert_int_equal(source_file.open(&options, &(struct io_environment){.loop = &loop}, &host,
                                      &source, &problem),
                     ERROR_CONFIG);
    assert_non_null(strstr(problem.text, "format = s16le"));
    /* Opened and closed without a start. */
    options = file_options(scratch_path("good.wav"), "s16le", 2);
    assert_int_equal(source_file.open(&options, &(struct io_environment){.loop = &loop}, &host,
                                      &source, &problem),
                     0);
    struct host h = {0};
    source_file.close(source, closed, &h);
    uv_run(&loop, UV_RUN_DEFAULT);
    assert_true(h.closed);
    assert_int_equal(uv_loop_close(&loop), 0);
}

/* ---- recordings that are not what they say ------------------------------------------------ */

/* Shortens a file to this length. */
static void cut_file(const char *path, long bytes)
{
    assert_int_equal(truncate(path, bytes), 0);
}

static long bytes_of(const char *path)
{
    FILE *file = fopen(path, "rb");
    assert_non_null(file);
    assert_int_equal(fseek(file, 0, SEEK_END), 0);
    const long bytes = ftell(file);
    fclose(file);
    return bytes;
}

static void write_byte(const char *path, long at, int value)
{
    FILE *file = fopen(path, "r+b");
    assert_non_null(file);
    assert_int_equal(fseek(file, at, SEEK_SET), 0);
    assert_int_not_equal(fputc(value, file), EOF);
    fclose(file);
}

static void expect_refusal(const char *path, int status, const char *words)
{
    struct problem problem = {0};
    const int got = recording_probe(path, NULL, NULL, NULL, NULL, &problem);
    if (got != status || strstr(problem.text, words) == NULL)
        fail_msg("%s: %d, \"%s\", which lacks \"%s\"", path, got, problem.text, words);
    unlink(path);
}

/* Files of measurements in other formats, by their suffix or their first bytes: the message points
 * to what can read them. */
static void test_files_of_other_programs(void **state)
{
    (void)state;
    static const struct {
        const char *name, *bytes, *words;
    } table[] = {
        {"a.tradb", "SQLite format 3", "write source = tradb"},
        {"A.TRADB", "", "write source = tradb"},
        {"renamed.bin", "SQLite format 3", "write source = tradb if it is a .tradb"},
        {"a.pridb", "SQLite format 3", "hits, without a signal"},
        {"a.npy", "\x93NUMPY\x01", "numpy.load('IN.npy')"},
        {"array", "\x93NUMPY\x01", "numpy.load('IN.npy')"},
        {"a.npz", "PK\x03\x04", "write one of them as WAV"},
        {"a.mat", "MATLAB 5.0 MAT-file", "audiowrite('OUT.wav'"},
        {"v73.mat", "\x89HDF\r\n", "audiowrite('OUT.wav'"},
        {"signal.dat", "MATLAB 5.0 MAT-file", "audiowrite('OUT.wav'"},
        {"a.h5", "\x89HDF\r\n", "is HDF5; write the signal as WAV"},
        {"a.hdf5", "\x89HDF\r\n", "is HDF5; write the signal as WAV"},
        {"a.csv", "0,1\n", "is text; write the signal as WAV"},
        {"a.txt", "0\n1\n", "is text; write the signal as WAV"},
    };
    for (size_t i = 0; i < sizeof table / sizeof table[0]; i++)
        expect_refusal(scratch_write(table[i].name, table[i].bytes), ERROR_UNSUPPORTED,
                       table[i].words);
    /* A sound file is read whatever its name says. */
    write_recording(scratch_path("named.npy"), SF_FORMAT_WAV | SF_FORMAT_PCM_16, 1, 10);
    assert_int_equal(
        recording_probe(scratch_path("named.npy"), NULL, NULL, NULL, NULL, &(struct problem){0}),
        0);
    unlink(scratch_path("named.npy"));
}

static void write_number(const char *path, long at, uint64_t value, int bytes)
{
    for (int i = 0; i < bytes; i++)
        write_byte(path, at + i, (int)(value >> (8 * i) & 0xff));
}

/* Codings that are not read, and rates that no stream can have. */
static void test_headers_that_are_refused(void **state)
{
    (void)state;
    enum { RATE_AT = 24, BITS_AT = 34, FLAC_BITS_AT = 20 };
    static const int wav_bits[] = {36, 40, 48, 56, 64}, flac_bits[] = {4, 12, 20, 32};
    static const uint32_t rates[] = {0, UINT32_C(1) << 31, UINT32_MAX};
    const char *path = scratch_path("header.wav");
    char words[64];
    for (size_t i = 0; i < sizeof wav_bits / sizeof wav_bits[0]; i++) {
        const int bytes = (wav_bits[i] + 7) / 8;
        write_recording(path, SF_FORMAT_WAV | SF_FORMAT_PCM_32, 1, 280);
        write_number(path, BITS_AT - 2, (uint64_t)bytes, 2); /* of a frame */
        write_number(path, BITS_AT, (uint64_t)wav_bits[i], 2);
        snprintf(words, sizeof words, "integers of %d bits; up to 32 are read", wav_bits[i]);
        expect_refusal(path, ERROR_UNSUPPORTED, words);
    }
    for (size_t i = 0; i < sizeof rates / sizeof rates[0]; i++) {
        write_recording(path, SF_FORMAT_WAV | SF_FORMAT_PCM_16, 1, 280);
        write_number(path, RATE_AT, rates[i], 4);
        snprintf(words, sizeof words, "a rate of %u Hz in its header; rates from 1 to 2147483647",
                 (unsigned)rates[i]);
        expect_refusal(path, ERROR_UNSUPPORTED, words);
    }
    for (size_t i = 0; i < sizeof flac_bits / sizeof flac_bits[0]; i++) {
        write_recording(path, SF_FORMAT_FLAC | SF_FORMAT_PCM_16, 1, 280);
        /* STREAMINFO: 20 bits of rate, 3 of channels - 1, 5 of bits - 1; 500 kHz ends in 0. */
        const int bits = flac_bits[i] - 1;
        write_byte(path, FLAC_BITS_AT, bits >> 4);
        write_byte(path, FLAC_BITS_AT + 1, (bits & 15) << 4);
        snprintf(words, sizeof words, "is FLAC of %d bits", flac_bits[i]);
        expect_refusal(path, ERROR_UNSUPPORTED, words);
    }
}

static const struct {
    const char *name;
    int format;
    const char *ring;
} containers[] = {
    {"cut.wav", SF_FORMAT_WAV | SF_FORMAT_PCM_16, "s16le"},
    {"cut.wavex", SF_FORMAT_WAVEX | SF_FORMAT_PCM_24, "s24le"},
    {"cut.rifx", SF_FORMAT_WAV | SF_FORMAT_PCM_16 | SF_ENDIAN_BIG, "s16le"},
    {"cut.rf64", SF_FORMAT_RF64 | SF_FORMAT_PCM_24, "s24le"},
    {"cut.w64", SF_FORMAT_W64 | SF_FORMAT_PCM_16, "s16le"},
    {"cut.aiff", SF_FORMAT_AIFF | SF_FORMAT_PCM_16, "s16le"},
    {"cut.aifc", SF_FORMAT_AIFF | SF_FORMAT_FLOAT, "f32le"},
    {"cut.caf", SF_FORMAT_CAF | SF_FORMAT_PCM_24, "s24le"},
    {"cut.au", SF_FORMAT_AU | SF_FORMAT_PCM_16, "s16le"},
    {"cut.flac", SF_FORMAT_FLAC | SF_FORMAT_PCM_16, "s16le"},
};

enum { CUT_FRAMES = 20000 };

/* Plays a damaged file, whose frames that came are right: once, then in a loop. */
static void expect_cut(const char *path, const char *ring, const char *why)
{
    struct source_options options = file_options(path, ring, 2);
    struct host h = {.capacity = CUT_FRAMES};
    log_set_level((enum log_level)(LOG_LEVEL_ERROR - 1));
    run(&h, &source_file, &options);
    assert_true(h.ended);
    if (h.cuts != 1 || h.frames == 0 || h.frames >= CUT_FRAMES ||
        h.cut.missing != CUT_FRAMES - h.frames || h.cut.first != h.frames ||
        h.cut.until != CUT_FRAMES || strstr(h.cut.sentence, "announces 20000 frames") == NULL)
        fail_msg("%s, %s: %d cuts, %llu frames came: %s", path, why, h.cuts,
                 (unsigned long long)h.frames, h.cut.sentence);
    expect_codes(&h, &options.format, 2, h.frames, path);
    const uint64_t came = h.frames;
    free(h.bytes);

    options = file_options(path, ring, 2);
    ((struct file_options *)options.own)->loop = true;
    h = (struct host){.capacity = 400000, .room_each = 15000, .stop_at = 3 * came + 1};
    run(&h, &source_file, &options);
    assert_false(h.ended);
    if (h.cuts != 1 || h.cut.missing != CUT_FRAMES - came)
        fail_msg("%s, %s, in a loop: %d cuts", path, why, h.cuts);
    expect_codes(&h, &options.format, 2, came, path);
    free(h.bytes);
    log_set_level(LOG_LEVEL_ERROR);
}

static void test_truncated(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof containers / sizeof containers[0]; i++) {
        const char *path = scratch_path(containers[i].name);
        write_recording(path, containers[i].format, 2, CUT_FRAMES);
        cut_file(path, bytes_of(path) * 2 / 3);
        expect_cut(path, containers[i].ring, "cut");
        unlink(path);
    }
}

static void test_damaged_flac(void **state)
{
    (void)state;
    static const struct {
        const char *why;
        int from, count, change; /* thousandths of the file, bytes, of each */
    } table[] = {{"one bit", 500, 1, 1}, {"a sector", 600, 512, 0xFF}, {"zeros", 700, 4096, -1}};
    for (size_t i = 0; i < sizeof table / sizeof table[0]; i++) {
        const char *path = scratch_path("damaged.flac");
        write_recording(path, SF_FORMAT_FLAC | SF_FORMAT_PCM_16, 2, CUT_FRAMES);
        const long at = bytes_of(path) * table[i].from / 1000;
        for (int k = 0; k < table[i].count; k++) {
            FILE *file = fopen(path, "rb");
            assert_non_null(file);
            assert_int_equal(fseek(file, at + k, SEEK_SET), 0);
            const int byte = fgetc(file);
            fclose(file);
            write_byte(path, at + k, table[i].change < 0 ? 0 : byte ^ table[i].change);
        }
        expect_cut(path, "s16le", table[i].why);
        unlink(path);
    }
}

/* The total in STREAMINFO: larger than what comes, smaller, and unknown. */
static void test_flac_that_lies(void **state)
{
    (void)state;
    enum { TOTAL_AT = 25, FRAMES = 300 };
    static const struct {
        int total; /* the lowest byte of 300 is 44, the next 1 */
        int cuts;
    } table[] = {{45, 1}, {43, 0}, {-1, 0}};
    for (size_t i = 0; i < sizeof table / sizeof table[0]; i++) {
        const char *path = scratch_path("lie.flac");
        write_recording(path, SF_FORMAT_FLAC | SF_FORMAT_PCM_16, 2, FRAMES);
        if (table[i].total < 0)
            write_byte(path, TOTAL_AT - 1, 0);
        write_byte(path, TOTAL_AT, table[i].total < 0 ? 0 : table[i].total);
        struct source_options options = file_options(path, "s16le", 2);
        struct host h = {.capacity = FRAMES};
        run(&h, &source_file, &options);
        assert_int_equal(h.frames, FRAMES);
        assert_int_equal(h.cuts, table[i].cuts);
        if (h.cuts > 0)
            assert_int_equal(h.cut.missing, 1);
        expect_codes(&h, &options.format, 2, FRAMES, path);
        free(h.bytes);
        unlink(path);
    }
}

/* ---- the sidecar -------------------------------------------------------------------------- */

enum { SIDECAR_FRAMES = 300000 };

static const char *write_with_sidecar(const char *text)
{
    const char *path = scratch_path("flagged.wav");
    write_recording(path, SF_FORMAT_WAV | SF_FORMAT_PCM_16, 1, SIDECAR_FRAMES);
    scratch_write("flagged.wav.json", text);
    return path;
}

static void test_sidecar_is_replayed(void **state)
{
    (void)state;
    const char *path = write_with_sidecar(
        "{\"frames\": 300000, \"first_frame\": 1000, \"epoch\": 3, \"complete\": true,\n"
        "\"invalid\": [{\"from\": 132000, \"until\": 133000, \"cause\": \"network\"},\n"
        "{\"from\": 1500, \"until\": 1700, \"cause\": \"socket\"},\n"
        "{\"from\": 1700, \"until\": 1800, \"cause\": \"socket\"},\n"
        "{\"from\": 10, \"until\": 1001, \"cause\": \"late\"},\n"
        "{\"from\": 300999, \"until\": 400000, \"cause\": \"unflushed\"},\n"
        "{\"from\": 5, \"until\": 9, \"cause\": \"late\"},\n"
        "{\"from\": 50, \"until\": 40, \"cause\": \"late\"}],\n"
        "\"marks\": [{\"frame\": 201000, \"text\": \"knock\", \"who\": \"ann\", "
        "\"realtime_ns\": 17},\n"
        "{\"frame\": 7, \"text\": \"before the file\"}]}");
    static const struct invalid_range want[] = {{0, 1, INVALID_LATE},
                                                {500, 800, INVALID_SOCKET},
                                                {131000, 132000, INVALID_NETWORK},
                                                {299999, 300000, INVALID_CAPTURE}};
    struct source_options options = file_options(path, "s16le", 1);
    struct host h = {.capacity = SIDECAR_FRAMES, .room_each = 7777};
    run(&h, &source_file, &options);
    assert_int_equal(h.frames, SIDECAR_FRAMES);
    assert_int_equal(h.invalid_count, 4);
    for (uint32_t i = 0; i < 4; i++)
        assert_true(h.invalid[i].from == want[i].from && h.invalid[i].until == want[i].until &&
                    h.invalid[i].cause == want[i].cause);
    assert_int_equal(h.mark_count, 1);
    assert_string_equal(h.marks[0].text, "knock");
    assert_string_equal(h.marks[0].who, "ann");
    assert_true(h.marks[0].frame == 200000 && h.marked_at[0] <= 200000 &&
                h.marked_at[0] + 7777 > 200000);
    free(h.bytes);

    options = file_options(path, "s16le", 1);
    ((struct file_options *)options.own)->ignore_validity = true;
    h = (struct host){.capacity = SIDECAR_FRAMES};
    run(&h, &source_file, &options);
    assert_int_equal(h.frames, SIDECAR_FRAMES);
    assert_true(h.invalid_count == 0 && h.mark_count == 0);
    free(h.bytes);
}

/* More ranges than a packet of the replay can carry. */
static void test_many_ranges(void **state)
{
    (void)state;
    enum { RANGES = 1000, STEP = 40 };
    static char text[RANGES * 80];
    size_t used = (size_t)snprintf(text, sizeof text,
                                   "{\"frames\": 300000, \"first_frame\": 0, \"invalid\": [");
    for (int i = 0; i < RANGES; i++)
        used += (size_t)snprintf(text + used, sizeof text - used,
                                 "%s{\"from\": %d, \"until\": %d, \"cause\": \"network\"}",
                                 i > 0 ? ", " : "", i * STEP, i * STEP + 1 + i % 20);
    snprintf(text + used, sizeof text - used, "]}");
    const char *path = write_with_sidecar(text);
    struct recording_validity validity;
    struct problem problem;
    assert_int_equal(recording_validity_load(path, SIDECAR_FRAMES, &validity, &problem), 0);
    assert_true(validity.fits && validity.range_count == RANGES);
    recording_validity_free(&validity);

    struct source_options options = file_options(path, "s16le", 1);
    struct host h = {.capacity = SIDECAR_FRAMES, .count_only = true};
    run(&h, &source_file, &options);
    assert_int_equal(h.frames, SIDECAR_FRAMES);
    uint64_t want = 0;
    for (int i = 0; i < RANGES; i++)
        want += 1 + (uint64_t)i % 20;
    assert_int_equal(h.invalid_frames, want);
    free(h.bytes);
}

static void test_sidecar_that_does_not_fit(void **state)
{
    (void)state;
    static const char *const table[] = {
        "{\"frames\": 299999, \"invalid\": [{\"from\": 0, \"until\": 9, \"cause\": \"late\"}]}",
        "{\"invalid\": [{\"from\": 0, \"until\": 9, \"cause\": \"late\"}]}",
    };
    log_set_level((enum log_level)(LOG_LEVEL_ERROR - 1));
    for (size_t i = 0; i < sizeof table / sizeof table[0]; i++) {
        const char *path = write_with_sidecar(table[i]);
        struct source_options options = file_options(path, "s16le", 1);
        struct host h = {.capacity = SIDECAR_FRAMES};
        run(&h, &source_file, &options);
        assert_true(h.frames == SIDECAR_FRAMES && h.invalid_count == 0);
        free(h.bytes);
    }
    const char *path = write_with_sidecar("no JSON");
    struct source_options options = file_options(path, "s16le", 1);
    uv_loop_t loop;
    struct source_host host = {0};
    struct source *source;
    struct problem problem = {0};
    assert_int_equal(uv_loop_init(&loop), 0);
    assert_int_equal(source_file.open(&options, &(struct io_environment){.loop = &loop}, &host,
                                      &source, &problem),
                     ERROR_FORMAT);
    assert_non_null(strstr(problem.text, "validity"));
    assert_int_equal(uv_loop_close(&loop), 0);
    log_set_level(LOG_LEVEL_ERROR);
}

/* ---- generator --------------------------------------------------------------------------- */

enum { GENERATED_CHANNELS = 2 };

/* Codes of a sine on channels `phase` apart against its definition. */
static void check_generator(const struct channel_scale *scales, double phase)
{
    enum { FRAMES = 70001, CHANNELS = GENERATED_CHANNELS };
    struct generator_options own = {.length_frames = FRAMES};
    struct source_options options = {
        .stream = "test", .rate_hz = 1e6, .channels = CHANNELS, .scales = scales, .own = &own};
    assert_int_equal(sample_format_parse("s16be", &options.format), 0);
    options.frame_bytes = 4;
    waveform_defaults(&own.waveform, WAVEFORM_SINE);
    own.waveform.amplitude = 0.05;
    own.waveform.offset = -0.22;
    own.waveform.channel_phase_rad = phase;
    struct host h = {.capacity = FRAMES, .room_each = 9999};
    run(&h, &source_generator, &options);
    assert_true(h.ended);
    assert_int_equal(h.frames, FRAMES);
    for (uint64_t n = 0; n < FRAMES; n += 7) {
        for (unsigned c = 0; c < CHANNELS; c++) {
            double code = sample_decode(&options.format, h.bytes + n * 4 + c * 2);
            double value = code * channel_scale_factor(&scales[c]) - scales[c].offset;
            double want = -0.22 + 0.05 * sin(2 * 3.14159265358979 * 1e-3 * (double)n + c * phase);
            if (fabs(value - want) > 0.51 * channel_scale_factor(&scales[c]) / 32768)
                fail_msg("phase %g, frame %llu, channel %u: %g, want %g", phase,
                         (unsigned long long)n, c, value, want);
        }
    }
    free(h.bytes);
}

static void test_generator(void **state)
{
    (void)state;
    static const struct channel_scale scales[][GENERATED_CHANNELS] = {
        {{.full_scale = 10.0, .unit = "V"},
         {.full_scale = 1.0, .offset = 0.25, .gain_db = 20.0, .unit = "mV"}},
        {{.full_scale = 1.0, .unit = "V"}, {.full_scale = 1.0, .offset = 0.25, .unit = "V"}},
        {{.full_scale = 1.0, .unit = "V"}, {.full_scale = 1.0, .unit = "V"}},
    };
    for (size_t i = 0; i < sizeof scales / sizeof scales[0]; i++) {
        check_generator(scales[i], 1);
        check_generator(scales[i], 0);
    }
}

static void test_generator_paced_and_stopped(void **state)
{
    (void)state;
    struct generator_options own = {0};
    struct source_options options = {
        .stream = "test", .rate_hz = 1e6, .channels = 1, .paced = true, .own = &own};
    assert_int_equal(sample_format_parse("s16le", &options.format), 0);
    options.frame_bytes = 2;
    waveform_defaults(&own.waveform, WAVEFORM_COUNTER);
    struct host h = {.capacity = 3000000, .stop_at = 100000};
    int64_t start_ns = clock_monotonic_ns();
    run(&h, &source_generator, &options);
    assert_true(clock_monotonic_ns() - start_ns > 99 * NS_PER_MS);
    for (uint64_t n = 0; n < h.frames; n++) {
        uint16_t code;
        memcpy(&code, h.bytes + 2 * n, 2);
        assert_int_equal(code, n % 32768);
    }
    free(h.bytes);
}

static void test_generator_refusal(void **state)
{
    (void)state;
    struct generator_options own = {0};
    struct source_options options = {
        .stream = "probe-4", .rate_hz = 1e3, .channels = 1, .frame_bytes = 2, .own = &own};
    assert_int_equal(sample_format_parse("s16le", &options.format), 0);
    waveform_defaults(&own.waveform, WAVEFORM_SINE); /* 1 kHz does not fit */
    struct source *source;
    struct source_host host = {0};
    struct problem problem = {0};
    assert_int_equal(
        source_generator.open(&options, &(struct io_environment){0}, &host, &source, &problem),
        ERROR_ARGUMENT);
    assert_non_null(strstr(problem.text, "probe-4"));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_every_recording),
        cmocka_unit_test(test_extensible_w64),
        cmocka_unit_test(test_back_pressure),
        cmocka_unit_test(test_loop_is_contiguous),
        cmocka_unit_test(test_paced),
        cmocka_unit_test(test_refusals),
        cmocka_unit_test(test_files_of_other_programs),
        cmocka_unit_test(test_headers_that_are_refused),
        cmocka_unit_test(test_truncated),
        cmocka_unit_test(test_damaged_flac),
        cmocka_unit_test(test_flac_that_lies),
        cmocka_unit_test(test_sidecar_is_replayed),
        cmocka_unit_test(test_many_ranges),
        cmocka_unit_test(test_sidecar_that_does_not_fit),
        cmocka_unit_test(test_generator),
        cmocka_unit_test(test_generator_paced_and_stopped),
        cmocka_unit_test(test_generator_refusal),
    };
    return cmocka_run_group_tests(tests, set_up, NULL);
}
