/* Parameter board: see parameter_board.h. */
#include "pipeline/parameter_board.h"

#include <math.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

/* Slot n mod PARAMETER_BOARD_STEPS holds sample n. The writer claims a slot before it changes it,
 * so a reader that finds its sample not claimed over afterwards has read it whole. */
struct slot {
    _Atomic int64_t instant_ns, error_ns;
    _Atomic uint32_t values[]; /* [count] bits of floats */
};

struct parameter_board {
    const uint32_t *channels; /* immutable after open */
    uint32_t count;
    size_t slot_bytes;

    /* loop */
    bool open; /* frames of `epoch` have come, and `next` follows */
    uint64_t epoch, next;
    int64_t last_ns; /* of the newest sample */

    /* shared */
    _Atomic uint64_t first;   /* samples before it are forgotten */
    _Atomic uint64_t claimed; /* samples begun to be written … */
    _Atomic uint64_t written; /* … and written */
    _Atomic int64_t until_ns;
    uint8_t *slots;
};

static const double steps_hz = 1000;
static const int64_t estimated_ns = 1000000000;

/* ---- life -------------------------------------------------------------------------------- */

static size_t slot_bytes(uint32_t count)
{
    const size_t bytes = sizeof(struct slot) + count * sizeof(uint32_t);
    return (bytes + 7) / 8 * 8;
}

uint64_t parameter_board_memory(uint32_t count)
{
    return PARAMETER_BOARD_STEPS * (uint64_t)slot_bytes(count);
}

int parameter_board_open(const uint32_t *channels, uint32_t count, struct parameter_board **out)
{
    struct parameter_board *board = calloc(1, sizeof *board);
    if (board == NULL)
        return ERROR_MEMORY;
    board->channels = channels;
    board->count = count;
    board->slot_bytes = slot_bytes(count);
    board->last_ns = INT64_MIN;
    board->until_ns = INT64_MIN;
    board->slots = calloc(PARAMETER_BOARD_STEPS, board->slot_bytes);
    if (board->slots == NULL) {
        parameter_board_close(board);
        return ERROR_MEMORY;
    }
    *out = board;
    return 0;
}

void parameter_board_close(struct parameter_board *board)
{
    if (board == NULL)
        return;
    free(board->slots);
    free(board);
}

/* ---- writer ------------------------------------------------------------------------------ */

static struct slot *slot_at(const struct parameter_board *board, uint64_t n)
{
    return (struct slot *)(void *)(board->slots + n % PARAMETER_BOARD_STEPS * board->slot_bytes);
}

static void add(struct parameter_board *board, const struct parameter_sample *sample)
{
    const uint64_t n = atomic_load(&board->written);
    struct slot *slot = slot_at(board, n);
    if (board->last_ns != INT64_MIN && sample->instant_ns <= board->last_ns) {
        if (board->last_ns - sample->instant_ns < estimated_ns)
            return;
        atomic_store(&board->first, n);
    }
    board->last_ns = sample->instant_ns;
    atomic_store(&board->claimed, n + 1);
    atomic_store(&slot->instant_ns, sample->instant_ns);
    atomic_store(&slot->error_ns, sample->error_ns);
    for (uint32_t i = 0; i < board->count; i++) {
        uint32_t bits;
        memcpy(&bits, &sample->values[i], sizeof bits);
        atomic_store(&slot->values[i], bits);
    }
    atomic_store(&board->written, n + 1);
}

/* Of a frame of the result, which may lie before its first one. */
static int64_t instant_of(const struct result *result, uint64_t frame)
{
    const double after = (double)(int64_t)(frame - result->first_frame),
                 delay = result->aligned ? 0 : result->delay_frames;
    return result->capture_ns + (int64_t)llround((after - delay) * 1e9 / result->rate_hz);
}

static bool is_invalid(const struct result *result, uint64_t frame)
{
    for (uint32_t i = 0; i < result->invalid_count; i++)
        if (result->invalid[i].from <= frame && frame < result->invalid[i].until)
            return true;
    return false;
}

static void put_frame(struct parameter_board *board, const struct result *result, uint64_t frame)
{
    struct parameter_sample sample = {
        .instant_ns = instant_of(result, frame),
        .error_ns = is_invalid(result, frame) ? -1 : result->clock_error_ns,
    };
    const float *values = result->samples + (frame - result->first_frame) * result->channels;
    for (uint32_t i = 0; i < board->count; i++) {
        if (board->channels[i] < result->channels)
            sample.values[i] = values[board->channels[i]];
        else
            sample.error_ns = -1; /* a reload has taken the channel away */
    }
    add(board, &sample);
}

void parameter_board_put(struct parameter_board *board, const struct result *result)
{
    const uint64_t ceiled = (uint64_t)ceil(result->rate_hz / steps_hz),
                   step = ceiled > 0 ? ceiled : 1, end = result->first_frame + result->frames;
    if (board->open && board->epoch == result->epoch && result->first_frame > board->next)
        add(board, &(struct parameter_sample){.instant_ns = instant_of(result, board->next),
                                              .error_ns = -1});
    board->epoch = result->epoch;
    board->next = end;
    board->open = !(result->flags & RESULT_EPOCH_END);
    if (result->frames == 0 || result->samples == NULL)
        return;
    for (uint64_t frame = (result->first_frame + step - 1) / step * step; frame < end;
         frame += step)
        put_frame(board, result, frame);
    atomic_store(&board->until_ns, instant_of(result, end - 1));
}

/* ---- reader ------------------------------------------------------------------------------ */

int64_t parameter_board_until(const struct parameter_board *board)
{
    return atomic_load(&board->until_ns);
}

static uint64_t oldest(const struct parameter_board *board)
{
    const uint64_t first = atomic_load(&board->first), claimed = atomic_load(&board->claimed),
                   kept = claimed > PARAMETER_BOARD_STEPS ? claimed - PARAMETER_BOARD_STEPS : 0;
    return first > kept ? first : kept;
}

/* Samples [low, high) from the first that is after the instant; high: none is. */
static uint64_t first_after(const struct parameter_board *board, uint64_t low, uint64_t high,
                            int64_t instant_ns)
{
    while (low < high) {
        const uint64_t middle = low + (high - low) / 2;
        if (atomic_load(&slot_at(board, middle)->instant_ns) <= instant_ns)
            low = middle + 1;
        else
            high = middle;
    }
    return low;
}

static void read_slot(const struct parameter_board *board, uint64_t n, struct parameter_sample *out)
{
    const struct slot *slot = slot_at(board, n);
    out->instant_ns = atomic_load(&slot->instant_ns);
    out->error_ns = atomic_load(&slot->error_ns);
    for (uint32_t i = 0; i < board->count; i++) {
        const uint32_t bits = atomic_load(&slot->values[i]);
        memcpy(&out->values[i], &bits, sizeof bits);
    }
}

bool parameter_board_find(const struct parameter_board *board, int64_t instant_ns,
                          struct parameter_sample *out)
{
    enum { TRIES = 4 }; /* the writer overtakes a search for an old sample only */
    for (int i = 0; i < TRIES; i++) {
        const uint64_t high = atomic_load(&board->written), low = oldest(board),
                       after = first_after(board, low, high, instant_ns);
        if (after <= low)
            return false;
        read_slot(board, after - 1, out);
        if (after - 1 >= oldest(board))
            return true;
    }
    return false;
}

/* ---- state ------------------------------------------------------------------------------- */

bool parameter_board_walk(struct parameter_board *board, struct codec *codec)
{
    const bool reads = codec_reads(codec);
    uint32_t values = board->count;
    uint64_t low = reads ? 0 : oldest(board), count = atomic_load(&board->written) - low;
    int64_t until_ns = atomic_load(&board->until_ns), last_ns = INT64_MIN;
    codec_u32(codec, &values);
    codec_u64(codec, &count);
    codec_i64(codec, &until_ns);
    if (codec->failed || values != board->count || count > PARAMETER_BOARD_STEPS)
        return false;
    for (uint64_t n = 0; n < count && !codec->failed; n++) {
        struct parameter_sample sample = {0};
        if (!reads)
            read_slot(board, low + n, &sample);
        codec_i64(codec, &sample.instant_ns);
        codec_i64(codec, &sample.error_ns);
        for (uint32_t i = 0; i < board->count; i++) {
            double value = (double)sample.values[i];
            codec_f64(codec, &value);
            sample.values[i] = (float)value;
        }
        if (codec->failed || (n > 0 && sample.instant_ns <= last_ns))
            return false;
        last_ns = sample.instant_ns;
        if (reads)
            add(board, &sample);
    }
    if (reads)
        atomic_store(&board->until_ns, until_ns);
    return !codec->failed;
}
