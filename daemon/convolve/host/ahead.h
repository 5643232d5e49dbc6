/*
 * Sums computed ahead, for one vector width. What block b + i needs of the blocks up to b is known
 * when block b is complete. So a leaf's sum over partitions is computed for the next R blocks at
 * once, i = 1 … R, which reads the delay line and the filter's spectra once instead of R times:
 *
 *     ahead[i - 1] = sum_j line[b - j] x H[j + i]                        j >= 0
 *     block b + i:   ahead[i - 1] + sum_p line[b + i - p] x H[p]         p < i
 *
 * Each leaf is due every R blocks, and the chunks of leaves (host/lanes.h) take turns: chunk k when
 * the number of the complete block is k (mod R). So every block computes one chunk ahead, however
 * few the channels, and all complete blocks take the same time.
 *
 * No include guard: host/body.h includes this file once for every width and supplies its types.
 */

/* Points of a leaf whose sums of HOST_AHEAD_TILE blocks registers hold at once. */
#define AHEAD_POINTS (HOST_REGISTERS >= 32 ? 2 : 1)

/* Adds the products of `terms` to the sums of `blocks` blocks, [AHEAD_POINTS] each, where each
 * block is one partition further than the previous. */
HOST_INLINE void NAME(ahead_products)(struct point *sums, const struct host_terms *terms,
                                      uint32_t point, const uint32_t blocks, const bool shared)
{
    const float *x = terms->x + 2 * point * WIDTH;
    const float *h = terms->h + 2 * point * (shared ? 1 : WIDTH);
    const size_t x_step = terms->x_step, h_step = terms->h_step;
    for (uint32_t n = 0; n < terms->count; n++, x -= x_step, h += h_step) {
        HOST_UNROLL
        for (uint32_t v = 0; v < AHEAD_POINTS; v++) {
            const struct point a = NAME(load)(x, v);
            HOST_UNROLL
            for (uint32_t i = 0; i < blocks; i++) {
                struct point *sum = &sums[i * AHEAD_POINTS + v];
                const float *at = h + i * h_step;
                if (shared) {
                    sum->re += a.re * at[2 * v];
                    sum->im += a.im * at[2 * v];
                    sum->re -= a.im * at[2 * v + 1];
                    sum->im += a.re * at[2 * v + 1];
                } else {
                    const struct point b = NAME(load)(at, v);
                    sum->re += a.re * b.re;
                    sum->im += a.im * b.re;
                    sum->re -= a.im * b.im;
                    sum->im += a.re * b.im;
                }
            }
        }
    }
}

/* Points [point, point + AHEAD_POINTS) of a tile: adds two runs of terms that all its blocks have,
 * and rest[r], a term that only the first r blocks have. */
HOST_INLINE void NAME(ahead_points)(const struct host_terms runs[2], const struct host_terms *rest,
                                    float *ahead, uint32_t point, const uint32_t blocks,
                                    const bool shared)
{
    struct point sums[HOST_AHEAD_TILE * AHEAD_POINTS];
    HOST_UNROLL
    for (uint32_t i = 0; i < HOST_AHEAD_TILE * AHEAD_POINTS; i++)
        sums[i] = (struct point){{0}, {0}};
    NAME(ahead_products)(sums, &runs[0], point, blocks, shared);
    NAME(ahead_products)(sums, &runs[1], point, blocks, shared);
    HOST_UNROLL
    for (uint32_t r = 1; r < blocks; r++)
        NAME(ahead_products)(sums, &rest[r], point, r, shared);
    HOST_UNROLL
    for (uint32_t i = 0; i < blocks * AHEAD_POINTS; i++) {
        float *to = ahead + i / AHEAD_POINTS * 2 * HOST_LEAF * WIDTH;
        const uint32_t at = point + i % AHEAD_POINTS;
        NAME(store)(to, at, NAME(add)(NAME(load)(to, at), sums[i]));
    }
}

/* Terms [from, until) of the sum that begins at partition `first`: none of them wraps. */
HOST_INLINE struct host_terms NAME(ahead_terms)(const struct host_walk *walk,
                                                const struct host_layer *layer, uint32_t leaf,
                                                uint32_t first, uint32_t from, uint32_t until,
                                                const bool shared)
{
    const size_t x_floats = 2 * HOST_LEAF * WIDTH, h_floats = 2 * HOST_LEAF * (shared ? 1 : WIDTH);
    struct host_terms terms = {.x_step = host_chunk(walk->span, x_floats),
                               .h_step = host_chunk(walk->span, h_floats)};
    if (from >= until)
        return terms;
    const uint32_t slot = from <= walk->slot ? walk->slot - from : walk->slot + walk->slots - from;
    terms.x =
        layer->line + host_leaf_at(leaf, walk->span, walk->slots, x_floats) + slot * terms.x_step;
    terms.h = layer->spectra + host_leaf_at(leaf, walk->span, layer->partitions, h_floats) +
              (first + from) * terms.h_step;
    terms.count = until - from;
    return terms;
}

/* Blocks b + first … b + first + `blocks` - 1: adds one layer's terms [from, until). */
HOST_INLINE void NAME(ahead_tile)(const struct host_walk *walk, const struct host_layer *layer,
                                  uint32_t leaf, uint32_t first, uint32_t from, uint32_t until,
                                  const uint32_t blocks, const bool shared)
{
    const uint32_t all = layer->partitions - first;              /* terms of the first block */
    const uint32_t whole = all >= blocks ? all - blocks + 1 : 0; /* terms of every block */
    const uint32_t end = until < whole ? until : whole;
    const uint32_t wrap = end <= walk->slot + 1   ? end
                          : walk->slot + 1 > from ? walk->slot + 1
                                                  : from;
    const struct host_terms runs[2] = {
        NAME(ahead_terms)(walk, layer, leaf, first, from, wrap, shared),
        NAME(ahead_terms)(walk, layer, leaf, first, wrap, end, shared),
    };
    struct host_terms rest[HOST_AHEAD_TILE];
    HOST_UNROLL
    for (uint32_t r = 1; r < blocks; r++) {
        const uint32_t j = all - r; /* wraps when there is no such term */
        const bool due = j >= from && j < until;
        rest[r] = NAME(ahead_terms)(walk, layer, leaf, first, j, due ? j + 1 : j, shared);
    }
    float *ahead =
        walk->ahead + ((size_t)leaf * walk->ahead_blocks + first - 1) * 2 * HOST_LEAF * WIDTH;
    for (uint32_t point = 0; point < HOST_LEAF; point += AHEAD_POINTS)
        NAME(ahead_points)(runs, rest, ahead, point, blocks, shared);
}

/* One layer of a leaf, in groups of HOST_PARTITIONS terms to bound the rounding error. */
HOST_INLINE void NAME(ahead_layer)(const struct host_walk *walk, const struct host_layer *layer,
                                   uint32_t leaf, const uint32_t tile, const bool shared)
{
    const uint32_t partitions = layer->partitions;
    for (uint32_t from = 0; from + 1 < partitions; from += HOST_PARTITIONS)
        for (uint32_t first = 1; first <= walk->ahead_blocks && first < partitions; first += tile)
            NAME(ahead_tile)(walk, layer, leaf, first, from, from + HOST_PARTITIONS, tile, shared);
}

/* The sums of the next R blocks. */
static void NAME(sum_ahead)(const struct host_walk *walk, uint32_t leaf)
{
    const size_t floats = (size_t)walk->ahead_blocks * 2 * HOST_LEAF * WIDTH;
    memset(walk->ahead + leaf * floats, 0, floats * sizeof(float));
    for (uint32_t i = 0; i < walk->layer_count; i++) {
        const struct host_layer *layer = &walk->layers[i];
        const bool pair = walk->ahead_blocks < HOST_AHEAD_TILE;
        if (layer->shared && pair)
            NAME(ahead_layer)(walk, layer, leaf, 2, true);
        else if (layer->shared)
            NAME(ahead_layer)(walk, layer, leaf, HOST_AHEAD_TILE, true);
        else if (pair)
            NAME(ahead_layer)(walk, layer, leaf, 2, false);
        else
            NAME(ahead_layer)(walk, layer, leaf, HOST_AHEAD_TILE, false);
    }
}

HOST_INLINE void NAME(prefetch)(const float *from, size_t floats)
{
    for (size_t n = 0; n < floats; n += HOST_ALIGNMENT / sizeof *from)
        __builtin_prefetch(from + n);
}

/* What a leaf reads for its sum over `most` partitions, so that memory works while the processor
 * does: the reads are too scattered for it to foresee. */
static void NAME(prefetch_leaf)(const struct host_walk *walk, uint32_t leaf, uint32_t since,
                                uint32_t most)
{
    const size_t floats = 2 * HOST_LEAF * WIDTH;
    NAME(prefetch)(walk->ahead + ((size_t)leaf * walk->ahead_blocks + since) * floats, floats);
    for (uint32_t i = 0; i < walk->layer_count; i++) {
        const struct host_layer *layer = &walk->layers[i];
        const uint32_t count = layer->partitions < most ? layer->partitions : most;
        const size_t h_floats = layer->shared ? 2 * HOST_LEAF : floats;
        const float *h =
            layer->spectra + host_leaf_at(leaf, walk->span, layer->partitions, h_floats);
        const float *x = layer->line + host_leaf_at(leaf, walk->span, walk->slots, floats);
        for (uint32_t p = 0, slot = walk->slot; p < count; p++) {
            NAME(prefetch)(h + p * host_chunk(walk->span, h_floats), h_floats);
            NAME(prefetch)(x + slot * host_chunk(walk->span, floats), floats);
            slot = slot > 0 ? slot - 1 : walk->slots - 1;
        }
    }
}

/* A leaf's sum of this block, and the next R blocks' when they are due. */
static void NAME(sum_with_ahead)(const struct host_walk *walk, uint32_t leaf,
                                 struct point x[HOST_LEAF])
{
    const uint32_t blocks = walk->ahead_blocks, chunk = leaf / walk->span;
    const uint32_t since = (walk->block - 1 - chunk) & (blocks - 1); /* blocks since it was due */
    const bool due = walk->complete && since == blocks - 1;
    if ((leaf + 1) % walk->span != 0) /* the next leaf of the chunk */
        NAME(prefetch_leaf)(walk, leaf + 1, since, due ? UINT32_MAX : since + 1);
    const size_t at = ((size_t)leaf * blocks + since) * 2 * HOST_LEAF * WIDTH;
    NAME(sum_leaf)(walk, leaf, since + 1, walk->ahead + at, x);
    if (due)
        NAME(sum_ahead)(walk, leaf);
}
