/*
 * Any bytes as a recording: the source `file` either refuses it with a sentence, or plays no more
 * frames than it declared, in its format, and ends.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "core/log.h"
#include "io/recording/recording.h"
#include "io/source.h"
#include "io/sources.h"
#include "tests/fuzz/require.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes);

/* A damaged header may declare any number of frames; so many are played at most. */
#define FRAMES_MAX UINT64_C(100000)

static struct {
    uint64_t frames, declared;
    uint32_t frame_bytes, sum;
    bool ended;
} host;

static enum verdict put(void *context, const struct packet *packet)
{
    (void)context;
    REQUIRE(packet->frames > 0 && packet->first_frame == host.frames);
    for (size_t i = 0; i < (size_t)packet->frames * host.frame_bytes; i++)
        host.sum += packet->payload[i];
    host.frames += packet->frames;
    REQUIRE(host.frames <= host.declared);
    return VERDICT_ACCEPTED;
}

static uint64_t room(void *context)
{
    (void)context;
    return UINT64_MAX / 2;
}

static void ended(void *context)
{
    (void)context;
    host.ended = true;
}

static void on_closed(void *context)
{
    *(bool *)context = true;
}

static void play(struct file_options *own, double rate_hz, uint32_t channels,
                 const struct sample_format *format, uint64_t frames)
{
    uv_loop_t loop;
    REQUIRE(uv_loop_init(&loop) == 0);
    struct source_options options = {
        .stream = "fuzz",
        .rate_hz = rate_hz,
        .channels = channels,
        .format = *format,
        .frame_bytes = channels * format->bytes,
        .own = own,
    };
    const struct io_environment environment = {.loop = &loop};
    const struct source_host functions = {.put = put, .room = room, .ended = ended};
    const struct source_ops *driver = &source_file;
    struct source *source;
    struct problem problem = {0};
    memset(&host, 0, sizeof host);
    host.frame_bytes = options.frame_bytes;
    host.declared = frames;
    if (driver->open(&options, &environment, &functions, &source, &problem) != 0) {
        REQUIRE(problem.text[0] != '\0');
        uv_loop_close(&loop);
        return;
    }
    REQUIRE(driver->start(source, &problem) == 0);
    while (!host.ended && host.frames < FRAMES_MAX)
        uv_run(&loop, UV_RUN_ONCE);
    bool closed = false;
    driver->stop(source);
    driver->close(source, on_closed, &closed);
    uv_run(&loop, UV_RUN_DEFAULT);
    REQUIRE(closed && uv_loop_close(&loop) == 0);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes)
{
    log_set_level((enum log_level)(LOG_LEVEL_ERROR - 1));
    const int fd = memfd_create("recording", MFD_CLOEXEC);
    REQUIRE(fd >= 0 && write(fd, data, bytes) == (ssize_t)bytes);
    char path[40];
    snprintf(path, sizeof path, "/proc/self/fd/%d", fd);
    struct file_options own = {.path = path};
    double rate_hz;
    uint32_t channels;
    struct sample_format format;
    uint64_t frames;
    struct problem problem = {0};
    if (recording_probe(path, &rate_hz, &channels, &format, &frames, &problem) != 0)
        REQUIRE(problem.text[0] != '\0');
    else
        /* A FLAC is read to its end, whatever total it declares. */
        play(&own, rate_hz, channels, &format,
             memmem(data, bytes, "fLaC", 4) != NULL ? UINT64_MAX : frames);
    close(fd);
    return 0;
}
