/*
 * Fuzzes what convolv-web reads from others. The first byte chooses: a browser's messages (wants),
 * one a line; the headers Host and Origin; a watch ring as a daemon gone wrong could leave it.
 */
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "clients/web/guard.h"
#include "clients/web/want.h"
#include "tests/fuzz/require.h"
#include "wire/watch_ring.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes);

/* What is taken lies within the ranges that want.h names. */
static void check_want(const struct want *want)
{
    REQUIRE(want->id > 0);
    REQUIRE(strlen(want->stream) <= WANT_STREAM_MAX);
    REQUIRE(want->channel_count <= WANT_CHANNELS_MAX);
    for (unsigned i = 0; i < want->channel_count; i++)
        REQUIRE(want->channels[i] < WANT_CHANNELS_MAX);
    if (want->view == VIEW_ENVELOPE)
        REQUIRE(want->points >= 2 && want->points <= WANT_POINTS_MAX && want->seconds >= 0.1);
    if (want->view == VIEW_SCOPE || want->view == VIEW_ASCAN)
        REQUIRE(want->frames >= 2 && want->frames <= WANT_FRAMES_MAX);
    if (want->view == VIEW_SCOPE)
        REQUIRE(want->pretrigger < want->frames && want->trigger_channel < WANT_CHANNELS_MAX);
    if (want->view == VIEW_ASCAN)
        REQUIRE(want->period == 0 || want->period >= want->frames);
    if (want->view == VIEW_SPECTRUM)
        REQUIRE((want->fft & (want->fft - 1)) == 0 && want->fft >= 64 && want->fft <= WANT_FFT_MAX);
    if (want->view == VIEW_ASCAN || want->view == VIEW_SPECTRUM)
        REQUIRE(want->average >= 1 && want->average <= WANT_AVERAGE_MAX);
}

static void read_messages(const char *text, size_t bytes)
{
    while (bytes > 0) {
        static struct want want;
        struct problem problem = {0};
        const char *end = memchr(text, '\n', bytes);
        const size_t length = end != NULL ? (size_t)(end - text) : bytes;
        if (want_parse(text, length, &want, &problem) == 0) {
            check_want(&want);
        } else {
            REQUIRE(want.view == VIEW_NONE);
            REQUIRE(problem.text[0] != '\0');
        }
        text += length + (end != NULL);
        bytes -= length + (end != NULL);
    }
}

/* Two texts, a zero between them. What is served names one of our hosts. */
static void read_headers(const char *data, size_t bytes)
{
    static const char *const hosts[] = {"vessel.example"};
    const struct guard guard = {.port = 8470, .hosts = hosts, .host_count = 1};
    char *text = malloc(bytes + 2);
    REQUIRE(text != NULL);
    memcpy(text, data, bytes);
    text[bytes] = text[bytes + 1] = '\0';
    const char *host = text, *origin = text + strlen(text) + 1;
    if (strlen(host) == bytes)
        origin = "";
    if (guard_origin(&guard, host, origin))
        REQUIRE(guard_host(&guard, host) && strncmp(origin, "http", 4) == 0);
    (void)guard_loopback(host);
    free(text);
}

static void read_ring(const uint8_t *data, size_t bytes)
{
    enum { SLOTS = WATCH_SLOTS_LEAST };
    const size_t size = watch_ring_bytes(SLOTS);
    uint8_t *memory = aligned_alloc(4096, size);
    static struct watch_record record;
    struct watch_writer writer;
    struct watch_reader reader;
    REQUIRE(memory != NULL);
    memset(memory, 0, size);
    watch_writer_open(&writer, memory, SLOTS);
    const bool opened = watch_reader_open(&reader, memory, size);
    REQUIRE(opened);
    for (int n = 0; n < SLOTS; n++) {
        const struct watch_head head = {.stream = "v",
                                        .rate_hz = 1,
                                        .kind = (uint32_t)n % WATCH_KINDS,
                                        .points = 1,
                                        .frames_per_point = 1,
                                        .channels = 2};
        watch_writer_begin(&writer);
        watch_writer_end(&writer, &head, NULL);
    }
    /* Then four bytes say where, and the next four what stands there. */
    for (; bytes >= 8; data += 8, bytes -= 8) {
        uint32_t at;
        memcpy(&at, data, sizeof at);
        memcpy(memory + at % (size - 4), data + 4, 4);
    }
    for (int n = 0; n < 4 * SLOTS && watch_reader_next(&reader, &record); n++) {
        const size_t floats = watch_record_floats(&record.head);
        REQUIRE(floats > 0 && floats <= WATCH_FLOATS_MAX);
        REQUIRE(record.head.range_count <= WATCH_RANGES_MAX);
        REQUIRE(strnlen(record.head.stream, WATCH_NAME_BYTES) < WATCH_NAME_BYTES);
        REQUIRE(record.head.first_channel + record.head.channels <= WATCH_CHANNELS_MAX);
    }
    free(memory);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes)
{
    if (bytes == 0)
        return 0;
    if (data[0] % 3 == 0)
        read_messages((const char *)data + 1, bytes - 1);
    else if (data[0] % 3 == 1)
        read_headers((const char *)data + 1, bytes - 1);
    else
        read_ring(data + 1, bytes - 1);
    return 0;
}
