/*
 * Source `stdin`: raw interleaved samples from standard input, as `ffmpeg -f f32le -`, `sox -t raw`
 * or `arecord -t raw` write them, in any sample format.
 *
 * The producer thread of io/replay.c reads what the pipe holds and hands over whole frames; the
 * rest of a frame waits for the bytes that complete it. While the stream has no room nothing is
 * read, so the pipe fills and its writer waits: no frame is lost however slow the results are
 * taken. The end of file ends the stream; bytes of an incomplete last frame are reported.
 *
 * Standard input is read once: the source takes the descriptor over and leaves /dev/null in its
 * place, so that no child process inherits the pipe.
 */
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "core/descriptor.h"
#include "core/doorbell.h"
#include "core/log.h"
#include "io/replay.h"
#include "io/sources.h"

enum {
    CHUNK_BYTES = 64 * 1024, /* what a pipe holds */
    DESCRIPTOR_MIN = 3,
};

/* A process has one standard input, whatever opens it first keeps it. */
static atomic_flag taken = ATOMIC_FLAG_INIT;

struct pipe_reader {
    const char *stream;
    uint32_t frame_bytes;
    int fd;
    int stop_fd;       /* rung when the source is closed */
    uint8_t *rest;     /* [frame_bytes]: the beginning of a frame */
    size_t rest_bytes; /* below frame_bytes */
};

static void reader_release(void *context)
{
    struct pipe_reader *reader = context;
    if (reader->fd >= 0)
        close(reader->fd);
    if (reader->stop_fd >= 0)
        close(reader->stop_fd);
    free(reader->rest);
    free(reader);
}

static void reader_interrupt(void *context)
{
    const struct pipe_reader *reader = context;
    doorbell_ring(reader->stop_fd);
}

/* Bytes as soon as there are any; 0 at the end of file, when the source is closed, or after an
 * error, which is logged. */
static size_t read_some(const struct pipe_reader *reader, uint8_t *to, size_t bytes)
{
    struct pollfd wait[] = {{.fd = reader->fd, .events = POLLIN},
                            {.fd = reader->stop_fd, .events = POLLIN}};
    for (;;) {
        if (poll(wait, 2, -1) < 0 && errno != EINTR)
            break;
        if (wait[1].revents != 0)
            return 0;
        if (wait[0].revents == 0)
            continue;
        ssize_t got = read(reader->fd, to, bytes);
        if (got >= 0)
            return (size_t)got;
        if (errno != EINTR && errno != EAGAIN)
            break;
    }
    log_error("stream %s: standard input cannot be read: %s; it ends here", reader->stream,
              strerror(errno));
    return 0;
}

/* Producer thread: at least one whole frame, 0 at the end. */
static uint32_t reader_fill(void *context, uint8_t *payload, uint32_t frames)
{
    struct pipe_reader *reader = context;
    const size_t capacity = (size_t)frames * reader->frame_bytes;
    size_t held = reader->rest_bytes;
    memcpy(payload, reader->rest, held);
    while (held < reader->frame_bytes) {
        size_t got = read_some(reader, payload + held, capacity - held);
        if (got == 0) {
            if (held > 0)
                log_warning("stream %s: standard input ends within a frame: its last %zu bytes are "
                            "no frame of %u and are left out; `channels` or `format` may differ "
                            "from the writer's",
                            reader->stream, held, reader->frame_bytes);
            return 0;
        }
        held += got;
    }
    reader->rest_bytes = held % reader->frame_bytes;
    memcpy(reader->rest, payload + held - reader->rest_bytes, reader->rest_bytes);
    return (uint32_t)(held / reader->frame_bytes);
}

/* Takes standard input over; negative: errno says why. */
static int take_input(void)
{
    int fd = fcntl(STDIN_FILENO, F_DUPFD_CLOEXEC, DESCRIPTOR_MIN);
    int nothing = open("/dev/null", O_RDONLY | O_CLOEXEC);
    if (fd >= 0 && nothing >= 0)
        dup2(nothing, STDIN_FILENO);
    if (nothing >= 0)
        close(nothing);
    return fd;
}

/* What is left of a file; 0: it is a pipe, whose writer knows. */
static uint64_t bytes_left(int fd)
{
    struct stat status;
    const off_t at = lseek(fd, 0, SEEK_CUR);
    return at >= 0 && fstat(fd, &status) == 0 && S_ISREG(status.st_mode) && status.st_size > at
               ? (uint64_t)(status.st_size - at)
               : 0;
}

static int stdin_open(const struct source_options *options,
                      const struct io_environment *environment, const struct source_host *host,
                      struct source **out, struct problem *problem)
{
    if (descriptor_was_closed(STDIN_FILENO))
        return problem_set(problem, ERROR_SYSTEM,
                           "stream %s: standard input is closed; connect it to a pipe or a file",
                           options->stream);
    if (atomic_flag_test_and_set(&taken))
        return problem_set(problem, ERROR_UNSUPPORTED,
                           "stream %s: standard input is read already and cannot be read a second "
                           "time; restart the daemon to change its stream",
                           options->stream);
    struct pipe_reader *reader = calloc(1, sizeof *reader);
    if (reader == NULL)
        return problem_set(problem, ERROR_MEMORY, "stream %s: out of memory", options->stream);
    reader->stream = options->stream;
    reader->frame_bytes = options->frame_bytes;
    reader->rest = malloc(options->frame_bytes);
    reader->stop_fd = doorbell_open();
    reader->fd = take_input();
    int reason = errno;
    if (reader->rest == NULL || reader->stop_fd < 0 || reader->fd < 0) {
        reader_release(reader);
        return problem_set(problem, ERROR_SYSTEM,
                           "stream %s: standard input cannot be read: %s; connect it to a pipe or "
                           "a file",
                           options->stream, strerror(reason));
    }
    const uint32_t chunk_frames = CHUNK_BYTES / options->frame_bytes;
    const struct replay_spec replay = {
        .stream = options->stream,
        .rate_hz = options->rate_hz,
        .frame_bytes = options->frame_bytes,
        .all_frames = bytes_left(reader->fd) / options->frame_bytes,
        .chunk_frames = chunk_frames > 0 ? chunk_frames : 1,
        .short_chunks = true,
        .fill = reader_fill,
        .interrupt = reader_interrupt,
        .release = reader_release,
        .context = reader,
    };
    return replay_open(&replay, environment, host, out, problem);
}

static void check_all(const struct driver_sections *all, uint32_t self)
{
    for (uint32_t i = 0; i < self; i++)
        if (all->sources[i].driver == &source_stdin)
            option_error(&all->sources[self].check, "source",
                         "streams %s and %s both read standard input; give one of them another "
                         "source",
                         all->sources[i].check.section, all->sources[self].check.section);
}

static const char *describe(const struct source_options *options, char *text, size_t bytes)
{
    (void)options;
    snprintf(text, bytes, ": samples from a pipe or a file");
    return text;
}

static uint64_t stdin_memory(const struct source_options *options)
{
    return replay_memory(options->frame_bytes);
}

const struct source_ops source_stdin = {
    .name = "stdin",
    .sentence = "raw interleaved samples from standard input",
    .main_loop = "standard input",
    .loss = REPLAY_LOSS,
    .format = "f32le",
    .padded = true,
    .check_all = check_all,
    .describe = describe,
    .live = false,
    .loss_detectable = true,
    .memory = stdin_memory,
    .open = stdin_open,
    .arm = replay_arm,
    .start = replay_start,
    .resume = replay_resume,
    .stop = replay_stop,
    .close = replay_close,
    .ledger = replay_ledger,
    .progress = replay_progress,
    .port = replay_port,
};
