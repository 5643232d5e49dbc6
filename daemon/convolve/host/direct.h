/*
 * A block of one channel in the time domain for one vector width, for filters so short that their
 * products take less time than a transform: a lane is a frame here, so that a single channel fills
 * the vectors. The block is read as in read.h, with the same values and statistics.
 *
 *     ring ──► x[0 … N) ──► y[i] = sum_k taps[k] x[new_from + i - k]
 *
 * Every frame adds its products in the same order, so that a result does not depend on where in a
 * vector its frame lies.
 *
 * No include guard: host/body.h includes this file behind read.h.
 */

/* Statistics of the channel's new frames that are counted while they are read. */
struct counts {
    uint32_t overload, nonfinite, present, first, last;
};

#ifndef HOST_RUN
#define HOST_RUN
/* What to do with frames. */
enum host_run {
    RUN_READ,    /* their values go to x */
    RUN_MEASURE, /* and they are counted */
    RUN_NOTE,    /* those that are not finite are noted: rare, a pass of its own */
};
#endif

HOST_INLINE bits NAME(numbers)(void)
{
    bits numbers = {0};
    HOST_UNROLL
    for (int l = 0; l < WIDTH; l++)
        numbers[l] = l;
    return numbers;
}

/* The lanes of W frames from a slot on that are present; none of them wraps. */
HOST_INLINE bits NAME(present_lanes)(const uint32_t *present, uint32_t slot, uint32_t count)
{
    uint64_t set = __atomic_load_n(&present[slot >> 5], __ATOMIC_RELAXED);
    if ((slot & 31) + count > 32)
        set |= (uint64_t)__atomic_load_n(&present[(slot >> 5) + 1], __ATOMIC_RELAXED) << 32;
    const int32_t lanes = (int32_t)(set >> (slot & 31) & 0xffffu);
    return ((((bits){0} + lanes) >> NAME(numbers)()) & 1) != 0;
}

static void NAME(note_nonfinite)(struct counts *counts, bits nonfinite, uint32_t frame)
{
    for (uint32_t l = 0; l < WIDTH; l++) {
        if (nonfinite[l] == 0)
            continue;
        if (counts->nonfinite++ == 0)
            counts->first = frame + l;
        counts->last = frame + l;
    }
}

/* Window indices [from, until), whose slots do not wrap, W at once: x[from …] and up to W - 1
 * zeros. `lanes`: W when the channel's words are contiguous, else 0. Returns whether a value is not
 * finite. */
HOST_INLINE bool NAME(read_run)(const struct host_block_read *read, uint32_t from, uint32_t until,
                                const uint32_t word, const uint32_t lanes, const enum host_run run,
                                float *x, struct counts *counts)
{
    bits overload = {0}, present = {0}, any = {0};
    for (uint32_t n = from; n < until; n += WIDTH) {
        const uint32_t slot = (read->start + n) & read->mask;
        const uint8_t *frame = read->ring + (size_t)slot * read->frame_bytes;
        const uint32_t count = until - n < WIDTH ? until - n : WIDTH;
        bits used = NAME(numbers)() < (int32_t)count, valid, nonfinite, full_scale;
        words all;
        if (read->present != NULL)
            used &= NAME(present_lanes)(read->present, slot, count);
        if (count == WIDTH) {
            all = NAME(read_words)(read, frame, word, lanes);
        } else {
            struct host_block_read rest = *read;
            rest.count = count;
            all = NAME(read_words)(&rest, frame, word, 0);
        }
        const real value = NAME(read_values)(read, all, used, &valid, &nonfinite, &full_scale);
        if (run == RUN_NOTE) {
            NAME(note_nonfinite)(counts, nonfinite, n - read->new_from);
            continue;
        }
        *(unaligned *)(void *)(x + n) = value;
        overload -= full_scale;
        present -= valid | nonfinite;
        any |= nonfinite;
    }
    int32_t some = 0;
    for (uint32_t l = 0; run == RUN_MEASURE && l < WIDTH; l++) {
        counts->overload += (uint32_t)overload[l];
        counts->present += (uint32_t)present[l];
        some |= any[l];
    }
    return some != 0;
}

/* Never inlined: the values themselves are read without the notes' registers. */
static __attribute__((noinline)) void NAME(note_run)(const struct host_block_read *read,
                                                     uint32_t from, uint32_t until,
                                                     struct counts *counts)
{
    (void)NAME(read_run)(read, from, until, read->word, 0, RUN_NOTE, NULL, counts);
}

HOST_INLINE void NAME(read_runs)(const struct host_block_read *read, const uint32_t word,
                                 const uint32_t lanes, float *x, struct counts *counts)
{
    for (uint32_t from = read->load_from, until; from < read->load_until; from = until) {
        const uint32_t slots = read->mask + 1 - ((read->start + from) & read->mask);
        const bool measured = from >= read->new_from;
        until = measured ? read->load_until : read->new_from;
        if (until - from > slots)
            until = from + slots;
        if (!measured)
            (void)NAME(read_run)(read, from, until, word, lanes, RUN_READ, x, counts);
        else if (NAME(read_run)(read, from, until, word, lanes, RUN_MEASURE, x, counts))
            NAME(note_run)(read, from, until, counts);
    }
}

/* Sums over the new frames, whose order depends on nothing but their number. */
static void NAME(sum_frames)(const float *x, uint32_t frames, const struct counts *counts,
                             struct host_statistics *stats)
{
    real sum = {0}, squares = {0};
    bits peak = {0};
    for (uint32_t i = 0; i < frames; i += WIDTH) { /* zeros follow the last frame */
        const real value = *(const unaligned *)(const void *)(x + i);
        const bits size = (bits)value & 0x7fffffff;
        sum += value;
        squares += value * value;
        peak = (bits)NAME(select)((words)peak, (words)size, size > peak);
    }
    stats->sum[0] = stats->sum_squares[0] = stats->peak[0] = 0;
    const real peaks = (real)peak;
    for (uint32_t l = 0; l < WIDTH; l++) {
        stats->sum[0] += sum[l];
        stats->sum_squares[0] += squares[l];
        stats->peak[0] = peaks[l] > stats->peak[0] ? peaks[l] : stats->peak[0];
    }
    stats->overload[0] = counts->overload;
    stats->nonfinite[0] = counts->nonfinite;
    stats->first[0] = counts->first;
    stats->last[0] = counts->last;
    stats->present[0] = counts->present;
}

/* `vectors` vectors of y. Tap k + j W multiplies in vector v what tap k multiplies in vector v - j:
 * so `rows` taps at once, W taps apart, share what is loaded. Both are compile-time constants. */
HOST_INLINE void NAME(filter_vectors)(const float *x, const float *taps, uint32_t count, float *y,
                                      const int rows, const int vectors)
{
    const uint32_t residues = count < WIDTH ? count : WIDTH;
    real sums[HOST_DIRECT_VECTORS] = {{0}};
    for (uint32_t first = 0; first < count; first += (uint32_t)rows * WIDTH)
        for (uint32_t k = 0; k < residues; k++) {
            const float *from = x - first - k, *h = taps + first + k;
            HOST_UNROLL
            for (int v = 1 - rows; v < vectors; v++) {
                const real value = *(const unaligned *)(const void *)(from + v * WIDTH);
                HOST_UNROLL
                for (int j = 0; j < rows; j++)
                    if (v + j >= 0 && v + j < vectors)
                        sums[v + j] += value * h[j * WIDTH];
            }
        }
    HOST_UNROLL
    for (int v = 0; v < vectors; v++)
        *(unaligned *)(void *)(y + v * WIDTH) = sums[v];
}

HOST_INLINE void NAME(filter_rows)(const struct host_direct *direct, const float *x, const int rows)
{
    const float *taps = direct->taps;
    const uint32_t count = direct->count, frames = direct->frames;
    uint32_t i = 0;
    for (; i + HOST_DIRECT_VECTORS * WIDTH <= frames; i += HOST_DIRECT_VECTORS * WIDTH)
        NAME(filter_vectors)(x + i, taps, count, direct->y + i, rows, HOST_DIRECT_VECTORS);
    for (; i < frames; i += WIDTH)
        NAME(filter_vectors)(x + i, taps, count, direct->y + i, rows, 1);
}

/* y[0 … frames), and what lies behind them in the last vector. */
static void NAME(filter_frames)(const struct host_direct *direct, const float *x)
{
    if (direct->count <= WIDTH)
        NAME(filter_rows)(direct, x, 1);
    else if (direct->count <= 2 * WIDTH)
        NAME(filter_rows)(direct, x, 2);
    else
        NAME(filter_rows)(direct, x, HOST_DIRECT_ROWS);
}

static void NAME(convolve_directly)(const struct host_direct *direct)
{
    const struct host_block_read *read = direct->read;
    struct counts counts = {.first = UINT32_MAX};
    float *x = direct->x;
    memset(x - HOST_DIRECT_TAPS, 0, (HOST_DIRECT_TAPS + read->load_from) * sizeof *x);
    const uint32_t lanes = read->contiguous ? WIDTH : 0;
#define HOST_READ(word, lanes)                                                                     \
    case 32 * (word) + (lanes):                                                                    \
        NAME(read_runs)(read, word, lanes, x, &counts);                                            \
        break;
#define HOST_READ_WORDS(lanes)                                                                     \
    HOST_READ(1, lanes) HOST_READ(2, lanes) HOST_READ(3, lanes) HOST_READ(4, lanes)
    switch (32 * read->word + lanes) {
        HOST_READ_WORDS(0)
        HOST_READ_WORDS(WIDTH)
    }
#undef HOST_READ
#undef HOST_READ_WORDS
    memset(x + read->load_until, 0, sizeof(real));
    NAME(sum_frames)(x + read->new_from, direct->frames, &counts, read->stats);
    if (direct->count > 0)
        NAME(filter_frames)(direct, x + read->new_from);
}
