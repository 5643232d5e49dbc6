/* Pipe: see tap_pipe.h. */
#include "tap_pipe.h"

#include <assert.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <math.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "core/clock.h"
#include "wire/format.h"

enum {
    SAMPLES_BYTES = 1 << 20, /* of a record; one packet has at most 64 Ki samples */
    RANGES_MAX = 256,
    PIPE_BYTES = 1 << 20, /* asked of the kernel */
    STOP_MS = 1000,
};

#define QUIET_NS     NS_PER_SECOND
#define TOLERANCE_NS 1000 /* of capture times within a record */

static_assert(sizeof(struct tap_pipe_record) == 224, "readers know this layout");
static_assert(sizeof(struct tap_pipe_range) == 24, "readers know this layout");
static_assert(SAMPLES_BYTES >= CONVOLV_DATAGRAM_MAX * sizeof(double), "a packet fits");

struct tap_pipe {
    int descriptor;
    const struct convolv_receiver *receiver;
    const volatile sig_atomic_t *stopping;
    uint32_t channels, sample_bytes;
    double rate_hz;
    bool left;
    int64_t written_ns;

    /* the record that is being filled; no frames and no ranges: none */
    bool filled;
    struct tap_pipe_record record;
    struct tap_pipe_range invalid[RANGES_MAX], missing;
    uint8_t *samples; /* [SAMPLES_BYTES] */
};

/* ---- writing ----------------------------------------------------------------------------- */

/* Once the tap is to stop, a reader that takes nothing for STOP_MS counts as gone. A pipe that
 * polls as writable takes PIPE_BUF bytes without blocking. */
static bool reader_gone(const struct tap_pipe *pipe)
{
    struct pollfd writable = {.fd = pipe->descriptor, .events = POLLOUT};
    int ready;
    do
        ready = poll(&writable, 1, STOP_MS);
    while (ready < 0 && errno == EINTR);
    return ready <= 0;
}

static int write_all(struct tap_pipe *pipe, const void *bytes, size_t count,
                     struct problem *problem)
{
    const uint8_t *at = bytes;
    while (count > 0 && !pipe->left) {
        const bool stopping = *pipe->stopping;
        if (stopping && reader_gone(pipe)) {
            pipe->left = true;
            break;
        }
        ssize_t written =
            write(pipe->descriptor, at, stopping && count > PIPE_BUF ? PIPE_BUF : count);
        if (written >= 0) {
            at += written;
            count -= (size_t)written;
        } else if (errno == EPIPE) {
            pipe->left = true;
        } else if (errno != EINTR) {
            return problem_set(problem, ERROR_SYSTEM, "--pipe: cannot write: %m");
        }
    }
    return 0;
}

static int write_record(struct tap_pipe *pipe, enum tap_pipe_kind kind, struct problem *problem)
{
    struct tap_pipe_record *record = &pipe->record;
    struct convolv_receiver_ledger ledger;
    convolv_receiver_ledger(pipe->receiver, &ledger);
    const size_t invalid_bytes = record->invalid * sizeof *pipe->invalid;
    const size_t missing_bytes = record->missing * sizeof pipe->missing;
    const size_t samples_bytes = (size_t)record->frames * pipe->channels * pipe->sample_bytes;
    record->magic = TAP_PIPE_MAGIC;
    record->version = TAP_PIPE_VERSION;
    record->kind = (uint16_t)kind;
    record->bytes = (uint32_t)(sizeof *record + invalid_bytes + missing_bytes + samples_bytes);
    record->channels = pipe->channels;
    record->sample_bytes = pipe->sample_bytes;
    record->rate_hz = pipe->rate_hz;
    record->quiet_ns = convolv_receiver_quiet_ns(pipe->receiver);
    record->datagrams = ledger.datagrams;
    record->accepted = ledger.accepted;
    record->heartbeats = ledger.heartbeats;
    record->rejected = 0;
    for (int why = 0; why < CONVOLV_REJECTS; why++)
        record->rejected += ledger.rejected[why];
    record->kernel_drops = ledger.kernel_drops;
    record->lost = ledger.lost;
    record->reordered = ledger.reordered;
    record->frames_lost = ledger.frames_lost;
    int status = write_all(pipe, record, sizeof *record, problem);
    if (status == 0)
        status = write_all(pipe, pipe->invalid, invalid_bytes, problem);
    if (status == 0)
        status = write_all(pipe, &pipe->missing, missing_bytes, problem);
    if (status == 0)
        status = write_all(pipe, pipe->samples, samples_bytes, problem);
    *record = (struct tap_pipe_record){0};
    pipe->filled = false;
    pipe->written_ns = clock_monotonic_ns();
    return status;
}

/* ---- filling ----------------------------------------------------------------------------- */

static uint32_t flags_of(const struct convolv_block *block)
{
    return (block->described ? TAP_PIPE_DESCRIBED : 0u) |
           (block->epoch_start ? TAP_PIPE_EPOCH_START : 0u) |
           (block->epoch_end ? TAP_PIPE_EPOCH_END : 0u) | (block->aligned ? TAP_PIPE_ALIGNED : 0u) |
           (block->partial ? TAP_PIPE_PARTIAL : 0u) |
           (block->gain_differs ? TAP_PIPE_GAIN_DIFFERS : 0u) | (block->late ? TAP_PIPE_LATE : 0u);
}

/* Whether the block continues the record: the same facts, the next frame, no gap, and its capture
 * time where the record's says. */
static bool continues(const struct tap_pipe *pipe, const struct convolv_block *block)
{
    const struct tap_pipe_record *record = &pipe->record;
    const uint32_t changing = TAP_PIPE_PARTIAL | TAP_PIPE_EPOCH_START | TAP_PIPE_EPOCH_END;
    const uint32_t flags = flags_of(block);
    const double expected_ns = record->frames * (1e9 / pipe->rate_hz);
    const double drift_ns = (double)(block->capture_ns - record->capture_ns) - expected_ns;
    const size_t bytes =
        ((size_t)record->frames + block->frames) * pipe->channels * pipe->sample_bytes;
    return pipe->filled && bytes <= SAMPLES_BYTES && record->invalid < RANGES_MAX &&
           block->epoch == record->epoch && block->record == record->record &&
           block->first_frame == record->first_frame + record->frames &&
           (flags | changing) == (record->flags | changing) && !(flags & TAP_PIPE_EPOCH_START) &&
           !(record->flags & TAP_PIPE_EPOCH_END) && !block->late && block->lost_before == 0 &&
           block->hole_from == block->hole_until && block->clock == record->clock &&
           block->delay_frames == record->delay_frames && block->decimate == record->decimate &&
           block->gain_changes == record->gain_changes && block->gain_from == record->gain_from &&
           (!block->described || fabs(drift_ns) <= TOLERANCE_NS + 0.5e9 / pipe->rate_hz);
}

static void begin(struct tap_pipe *pipe, const struct convolv_block *block)
{
    const bool hole = block->hole_from < block->hole_until;
    pipe->filled = true;
    pipe->missing =
        (struct tap_pipe_range){block->hole_from, block->hole_until, block->hole_causes, 0};
    pipe->record = (struct tap_pipe_record){
        .missing = hole ? 1 : 0,
        .first_frame = block->first_frame,
        .epoch = block->epoch,
        .record = block->record,
        .capture_ns = block->capture_ns,
        .clock = block->clock,
        .delay_frames = block->delay_frames,
        .decimate = block->decimate,
        .gain_changes = block->gain_changes,
        .gain_from = block->gain_from,
        .lost_before = block->lost_before,
    };
}

static void add_invalid(struct tap_pipe *pipe, const struct convolv_block *block)
{
    const struct tap_pipe_range range = {block->first_frame + block->invalid_from,
                                         block->first_frame + block->invalid_until, block->causes,
                                         0};
    if (range.from == range.until)
        return;
    const uint16_t count = pipe->record.invalid;
    struct tap_pipe_range *last = count > 0 ? &pipe->invalid[count - 1] : NULL;
    if (last != NULL && last->until == range.from && last->causes == range.causes) {
        last->until = range.until;
        return;
    }
    assert(count < RANGES_MAX); /* continues() */
    pipe->invalid[count] = range;
    pipe->record.invalid++;
}

static void add_samples(struct tap_pipe *pipe, const struct convolv_block *block)
{
    const size_t count = (size_t)block->frames * pipe->channels;
    uint8_t *out =
        pipe->samples + (size_t)pipe->record.frames * pipe->channels * pipe->sample_bytes;
    pipe->record.frames += block->frames;
    if (pipe->sample_bytes == sizeof(double)) {
        memcpy(out, block->samples, count * sizeof(double));
        return;
    }
    float *values = (float *)(void *)out;
    for (size_t i = 0; i < count; i++)
        values[i] = (float)block->samples[i];
}

/* ---- the object -------------------------------------------------------------------------- */

int tap_pipe_open(int descriptor, const struct convolv_receiver_options *options,
                  const struct convolv_receiver *receiver, const volatile sig_atomic_t *stopping,
                  struct tap_pipe **out, struct problem *problem)
{
    *out = NULL;
    struct sample_format format;
    if (sample_format_parse(options->format, &format) != 0)
        return problem_set(problem, ERROR_ARGUMENT, "--format %s is not known", options->format);
    if (isatty(descriptor))
        return problem_set(problem, ERROR_ARGUMENT,
                           "--pipe writes binary records: pass them to a program with |");
    struct tap_pipe *pipe = calloc(1, sizeof *pipe);
    uint8_t *samples = malloc(SAMPLES_BYTES);
    if (pipe == NULL || samples == NULL) {
        free(pipe);
        free(samples);
        return problem_set(problem, ERROR_MEMORY, "out of memory");
    }
    pipe->samples = samples;
    pipe->descriptor = descriptor;
    pipe->receiver = receiver;
    pipe->stopping = stopping;
    pipe->channels = options->channels;
    pipe->sample_bytes = format.kind == SAMPLE_FLOAT ? sizeof(float) : sizeof(double);
    pipe->rate_hz = options->rate_hz;
    (void)fcntl(descriptor, F_SETPIPE_SZ, PIPE_BYTES); /* the kernel may grant less */
    int status = write_record(pipe, TAP_PIPE_OPENING, problem);
    if (status != 0) {
        free(samples);
        free(pipe);
        return status;
    }
    *out = pipe;
    return 0;
}

int tap_pipe_put(struct tap_pipe *pipe, const struct convolv_block *block, struct problem *problem)
{
    if (!continues(pipe, block)) {
        int status = pipe->filled ? write_record(pipe, TAP_PIPE_BLOCK, problem) : 0;
        if (status != 0)
            return status;
        begin(pipe, block);
    }
    struct tap_pipe_record *record = &pipe->record;
    add_invalid(pipe, block);
    add_samples(pipe, block);
    record->flags |= flags_of(block);
    record->receive_ns = block->receive_ns;
    if (block->clock_error_ns > record->clock_error_ns)
        record->clock_error_ns = block->clock_error_ns;
    for (int stage = 0; stage < CONVOLV_STAGES; stage++)
        if (block->stage_ns[stage] > record->stage_ns[stage])
            record->stage_ns[stage] = block->stage_ns[stage];
    return 0;
}

int tap_pipe_flush(struct tap_pipe *pipe, struct problem *problem)
{
    if (pipe->filled)
        return write_record(pipe, TAP_PIPE_BLOCK, problem);
    if (clock_monotonic_ns() - pipe->written_ns >= QUIET_NS)
        return write_record(pipe, TAP_PIPE_QUIET, problem);
    return 0;
}

bool tap_pipe_left(const struct tap_pipe *pipe)
{
    return pipe->left;
}

int tap_pipe_close(struct tap_pipe *pipe, struct problem *problem)
{
    if (pipe == NULL)
        return 0;
    int status = pipe->filled ? write_record(pipe, TAP_PIPE_BLOCK, problem) : 0;
    if (status == 0)
        status = write_record(pipe, TAP_PIPE_END, problem);
    free(pipe->samples);
    free(pipe);
    return status;
}
