/*
 * The first step of a block for one vector width: wire bytes of any sample format become lanes of
 * physical values, and the new frames' statistics are taken for the block's report. The same values
 * and statistics as in kernels/sample.clh:
 *
 *     value = (code - offset) * scale          (offset in codes, as a sum of two floats)
 *
 * Frames that are absent, values that are not finite and those beyond the limit become exactly
 * zero.
 *
 * No include guard: host/body.h includes this file once for every width and supplies its types.
 */

typedef uint32_t words __attribute__((vector_size(4 * WIDTH), may_alias));

struct statistics {
    real sum, sum_squares;
    bits peak; /* as bits: floats that are not negative compare like integers */
    bits overload, nonfinite, present;
    words first, last;
};

/* b in lanes whose condition is set, else a. */
HOST_INLINE words NAME(select)(words a, words b, bits condition)
{
    return (a & ~(words)condition) | (b & (words)condition);
}

#ifndef HOST_WORD
#define HOST_WORD
/* The word at an address, unaligned: 2 and 4 bytes in this machine's order, 3 in little-endian. */
HOST_INLINE uint32_t host_word(const uint8_t *at, const uint32_t word)
{
    uint16_t two;
    uint32_t four;
    switch (word) {
    case 1:
        return at[0];
    case 2:
        memcpy(&two, at, sizeof two);
        return two;
    case 3:
        return (uint32_t)at[0] | (uint32_t)at[1] << 8 | (uint32_t)at[2] << 16;
    default:
        memcpy(&four, at, sizeof four);
        return four;
    }
}
#endif

/* The words of one frame, byte-swapped where needed. `word` (bytes) and `lanes` are compile-time
 * constants of each call: `lanes` words are contiguous; 0: `read` gives the address of each. */
HOST_INLINE words NAME(read_words)(const struct host_block_read *read, const uint8_t *frame,
                                   const uint32_t word, const uint32_t lanes)
{
    const uint8_t *first = frame + read->channel_bytes[0];
    words all = {0};
    if (lanes == WIDTH && word == 4) {
        memcpy(&all, first, sizeof all);
    } else if (lanes == WIDTH && word == 2) {
        uint16_t narrow __attribute__((vector_size(2 * WIDTH)));
        memcpy(&narrow, first, sizeof narrow);
        all = __builtin_convertvector(narrow, words);
    } else if (lanes == 1 || lanes == 2) {
        all[0] = host_word(first, word);
        if (lanes == 2)
            all[1] = host_word(first + word, word);
    } else {
        uint32_t each[WIDTH] = {0};
        for (uint32_t l = 0; l < (lanes != 0 ? lanes : read->count); l++)
            each[l] =
                host_word(lanes != 0 ? first + l * word : frame + read->channel_bytes[l], word);
        memcpy(&all, each, sizeof all);
    }
    if (!read->swap)
        return all;
    if (word == 2)
        return all >> 8 | (all << 8 & 0xff00u);
    if (word == 3)
        return all >> 16 | (all & 0xff00u) | (all << 16 & 0xff0000u);
    return all >> 24 | (all >> 8 & 0xff00u) | (all << 8 & 0xff0000u) | all << 24;
}

/* Values of one frame's words. Sets the lanes that are valid, beyond the limit or no number, and at
 * full scale. */
HOST_INLINE real NAME(read_values)(const struct host_block_read *read, words word, bits used,
                                   bits *valid, bits *nonfinite, bits *full_scale)
{
    const real scale = *(const real *)(const void *)read->scale;
    const real hi = *(const real *)(const void *)read->offset_hi;
    const real lo = *(const real *)(const void *)read->offset_lo;
    real value;
    *valid = used;
    if (read->floats) {
        const real code = (real)word;
        value = ((code - hi) - lo) * scale;
        *full_scale = ((bits)word & 0x7fffffff) >= 0x3f800000; /* |code| >= 1 */
    } else {
        const bits code = (bits)(word << read->shift_left ^ (read->invert ? 0x80000000u : 0u)) >>
                          (int)read->shift_right;
        if (read->shift_right >= 8) /* the code is exact in one float, else in two */
            value = ((__builtin_convertvector(code, real) - hi) - lo) * scale;
        else
            value = ((__builtin_convertvector(code >> 8, real) * 256.0f - hi) +
                     (__builtin_convertvector(code & 255, real) - lo)) *
                    scale;
        const int greatest = (int)(0x7fffffffu >> read->shift_right);
        *full_scale = (code == greatest) | (code == -greatest - 1);
    }
    /* As bits, infinities and NaN are greater than any number. */
    const bits limit = *(const bits *)(const void *)read->limit;
    *nonfinite = used & (((bits)value & 0x7fffffff) > limit);
    *valid &= ~*nonfinite;
    *full_scale &= *valid;
    return (real)((bits)value & *valid);
}

/* Window indices [from, until), all below Q or none of them; `measured`: they are new frames. */
HOST_INLINE void NAME(read_frames)(const struct host_block_read *read, uint32_t from,
                                   uint32_t until, bits used, const uint32_t word,
                                   const uint32_t lanes, bool measured, struct statistics *stats)
{
    real *to = (real *)(void *)read->z +
               (from < read->q ? 2 * (size_t)from : 2 * (size_t)(from - read->q) + 1);
    for (uint32_t n = from; n < until; n++, to += 2) {
        const uint32_t slot = (read->start + n) & read->mask;
        bits valid = used;
        /* The loop may set other bits of this word meanwhile (stream/presence.c). */
        if (read->present != NULL &&
            (__atomic_load_n(&read->present[slot >> 5], __ATOMIC_RELAXED) >> (slot & 31) & 1) ==
                0) {
            *to = (real){0};
            continue;
        }
        bits nonfinite, full_scale;
        const real value = NAME(read_values)(
            read,
            NAME(read_words)(read, read->ring + (size_t)slot * read->frame_bytes, word, lanes),
            used, &valid, &nonfinite, &full_scale);
        *to = value;
        if (!measured)
            continue;
        const bits size = (bits)value & 0x7fffffff;
        stats->sum += value;
        stats->sum_squares += value * value;
        stats->peak = (bits)NAME(select)((words)stats->peak, (words)size, size > stats->peak);
        stats->overload -= full_scale;
        stats->present -= valid | nonfinite;
        stats->nonfinite -= nonfinite;
        const words frame = (words){0} + (n - read->new_from);
        stats->first = NAME(select)(stats->first, frame, nonfinite & (stats->first == 0xffffffffu));
        stats->last = NAME(select)(stats->last, frame, nonfinite);
    }
}

HOST_INLINE void NAME(read_window)(const struct host_block_read *read, const uint32_t word,
                                   const uint32_t lanes, bits used, struct statistics *stats)
{
    /* Three parts, cut at Q and at the first new frame, whichever is first. */
    uint32_t edges[4] = {read->load_from, read->q, read->new_from, read->load_until};
    if (edges[1] > edges[2]) {
        edges[1] = read->new_from;
        edges[2] = read->q;
    }
    for (int part = 0; part < 3; part++) {
        const uint32_t from = edges[part] > read->load_from ? edges[part] : read->load_from;
        const uint32_t until = edges[part + 1];
        if (from >= until)
            continue;
        if (from >= read->new_from)
            NAME(read_frames)(read, from, until, used, word, lanes, true, stats);
        else
            NAME(read_frames)(read, from, until, used, word, lanes, false, stats);
    }
}

static void NAME(read_block)(const struct host_block_read *read)
{
    struct statistics stats;
    memset(&stats, 0, sizeof stats);
    stats.first = ~stats.first;
    int32_t in_use[WIDTH];
    for (uint32_t l = 0; l < WIDTH; l++)
        in_use[l] = l < read->count ? -1 : 0;
    bits used;
    memcpy(&used, in_use, sizeof used);
    NAME(fill_window)(read->z, read->q, 0, read->load_from, NULL);
    NAME(fill_window)(read->z, read->q, read->load_until, 2 * read->q, NULL);
    /* One or two contiguous lanes have code of their own in the narrowest vectors only. */
    const bool few = read->contiguous && WIDTH == 4 && read->count <= 2;
    const uint32_t lanes = read->contiguous && read->count == WIDTH ? WIDTH : few ? read->count : 0;
#define HOST_READ(word, lanes)                                                                     \
    case 32 * (word) + (lanes):                                                                    \
        NAME(read_window)(read, word, lanes, used, &stats);                                        \
        break;
#define HOST_READ_WORDS(lanes)                                                                     \
    HOST_READ(1, lanes) HOST_READ(2, lanes) HOST_READ(3, lanes) HOST_READ(4, lanes)
    switch (32 * read->word + lanes) {
        HOST_READ_WORDS(0)
        HOST_READ_WORDS(WIDTH)
#if WIDTH == 4
        HOST_READ_WORDS(1)
        HOST_READ_WORDS(2)
#endif
    }
#undef HOST_READ
#undef HOST_READ_WORDS
    memcpy(read->stats->sum, &stats.sum, sizeof stats.sum);
    memcpy(read->stats->sum_squares, &stats.sum_squares, sizeof stats.sum);
    memcpy(read->stats->peak, &stats.peak, sizeof stats.sum);
    memcpy(read->stats->overload, &stats.overload, sizeof stats.sum);
    memcpy(read->stats->nonfinite, &stats.nonfinite, sizeof stats.sum);
    memcpy(read->stats->first, &stats.first, sizeof stats.sum);
    memcpy(read->stats->last, &stats.last, sizeof stats.sum);
    memcpy(read->stats->present, &stats.present, sizeof stats.sum);
}
