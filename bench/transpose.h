/*
 * 16 × 16 transposes of floats by vector shuffles, for the peers: interleaved frames of 16
 * channels to 16 planes of 16 frames and back. The compiler lowers the 16-lane vectors to whatever
 * the machine has.
 */
#ifndef CONVOLVD_BENCH_TRANSPOSE_H
#define CONVOLVD_BENCH_TRANSPOSE_H

typedef float lanes16 __attribute__((vector_size(64), aligned(4), may_alias));
typedef int indices16 __attribute__((vector_size(64)));

/* Exchanges bit `d` of the row number with bit `d` of the lane number, rows i and i + d. */
#define TRANSPOSE_PAIR(rows, i, d, low, high)                                                      \
    do {                                                                                           \
        const lanes16 a = (rows)[i], b = (rows)[(i) + (d)];                                        \
        (rows)[i] = __builtin_shufflevector(a, b, low);                                            \
        (rows)[(i) + (d)] = __builtin_shufflevector(a, b, high);                                   \
    } while (0)

#define TRANSPOSE_LOW_1  0, 16, 2, 18, 4, 20, 6, 22, 8, 24, 10, 26, 12, 28, 14, 30
#define TRANSPOSE_HIGH_1 1, 17, 3, 19, 5, 21, 7, 23, 9, 25, 11, 27, 13, 29, 15, 31
#define TRANSPOSE_LOW_2  0, 1, 16, 17, 4, 5, 20, 21, 8, 9, 24, 25, 12, 13, 28, 29
#define TRANSPOSE_HIGH_2 2, 3, 18, 19, 6, 7, 22, 23, 10, 11, 26, 27, 14, 15, 30, 31
#define TRANSPOSE_LOW_4  0, 1, 2, 3, 16, 17, 18, 19, 8, 9, 10, 11, 24, 25, 26, 27
#define TRANSPOSE_HIGH_4 4, 5, 6, 7, 20, 21, 22, 23, 12, 13, 14, 15, 28, 29, 30, 31
#define TRANSPOSE_LOW_8  0, 1, 2, 3, 4, 5, 6, 7, 16, 17, 18, 19, 20, 21, 22, 23
#define TRANSPOSE_HIGH_8 8, 9, 10, 11, 12, 13, 14, 15, 24, 25, 26, 27, 28, 29, 30, 31

/* clang-format off */
static inline void transpose16(lanes16 rows[16])
{
#define STEP(i) TRANSPOSE_PAIR(rows, i, 1, TRANSPOSE_LOW_1, TRANSPOSE_HIGH_1)
    STEP(0); STEP(2); STEP(4); STEP(6); STEP(8); STEP(10); STEP(12); STEP(14);
#undef STEP
#define STEP(i) TRANSPOSE_PAIR(rows, i, 2, TRANSPOSE_LOW_2, TRANSPOSE_HIGH_2)
    STEP(0); STEP(1); STEP(4); STEP(5); STEP(8); STEP(9); STEP(12); STEP(13);
#undef STEP
#define STEP(i) TRANSPOSE_PAIR(rows, i, 4, TRANSPOSE_LOW_4, TRANSPOSE_HIGH_4)
    STEP(0); STEP(1); STEP(2); STEP(3); STEP(8); STEP(9); STEP(10); STEP(11);
#undef STEP
#define STEP(i) TRANSPOSE_PAIR(rows, i, 8, TRANSPOSE_LOW_8, TRANSPOSE_HIGH_8)
    STEP(0); STEP(1); STEP(2); STEP(3); STEP(4); STEP(5); STEP(6); STEP(7);
#undef STEP
}
/* clang-format on */

#endif
