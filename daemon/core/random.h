/*
 * Seeded random numbers (splitmix64, Steele, Lea, Flood 2014): the same seed gives the same
 * sequence on every machine, so that a seed names a generated signal, a simulated fault or a test.
 * Not for secrets. One owner per state.
 */
#ifndef CONVOLVD_CORE_RANDOM_H
#define CONVOLVD_CORE_RANDOM_H

#include <stdint.h>

struct random_state {
    uint64_t state;
};

static inline uint64_t random_u64(struct random_state *r)
{
    uint64_t z = (r->state += UINT64_C(0x9E3779B97F4A7C15));
    z = (z ^ (z >> 30)) * UINT64_C(0xBF58476D1CE4E5B9);
    z = (z ^ (z >> 27)) * UINT64_C(0x94D049BB133111EB);
    return z ^ (z >> 31);
}

/* Uniform in [0, 1), 53 bits. */
static inline double random_unit(struct random_state *r)
{
    return (double)(random_u64(r) >> 11) * 0x1p-53;
}

/* Uniform in [0, bound), bound > 0; the bias below 2^-32 does not matter here. */
static inline uint32_t random_below(struct random_state *r, uint32_t bound)
{
    return (uint32_t)(((random_u64(r) >> 32) * (uint64_t)bound) >> 32);
}

/* Standard normal (Box–Muller, one of the pair). */
double random_normal(struct random_state *r);

#endif
