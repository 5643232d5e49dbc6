/*
 * Taps: the object itself, its hash and its symmetry. Reading files is taps_file.c, design is
 * design.c and replica.c. No state; worker threads.
 */
#include "filter/taps.h"

#include <endian.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

int taps_create(uint32_t count, bool complex_taps, struct taps **out, struct problem *problem)
{
    *out = NULL;
    if (count < 1 || count > TAPS_MAX)
        return problem_set(problem, ERROR_ARGUMENT,
                           "a filter of %u taps is not possible; use 1 to %d taps", count,
                           TAPS_MAX);
    struct taps *taps = calloc(1, sizeof *taps);
    if (taps == NULL)
        goto no_memory;
    taps->count = count;
    taps->delay_source = DELAY_ASSUMED;
    taps->re = calloc(count, sizeof *taps->re);
    if (taps->re == NULL)
        goto no_memory;
    if (complex_taps) {
        taps->im = calloc(count, sizeof *taps->im);
        if (taps->im == NULL)
            goto no_memory;
    }
    *out = taps;
    return 0;

no_memory:
    taps_free(taps);
    return problem_set(problem, ERROR_MEMORY, "no memory for %u taps", count);
}

void taps_hold(const struct taps *taps)
{
    atomic_fetch_add(&((struct taps *)taps)->holders, 1);
}

void taps_free(struct taps *taps)
{
    if (taps == NULL)
        return;
    uint32_t holders = atomic_load(&taps->holders);
    while (holders > 0 && !atomic_compare_exchange_weak(&taps->holders, &holders, holders - 1))
        ;
    if (holders > 0) /* the last one finds none */
        return;
    free(taps->re);
    free(taps->im);
    free(taps);
}

void taps_sets_free(struct taps **sets, uint32_t count)
{
    if (sets == NULL)
        return;
    for (uint32_t i = 0; i < count; i++)
        taps_free(sets[i]);
    free(sets);
}

static void hash_doubles(struct sha256_ctx *hash, const double *values, uint32_t count)
{
    for (uint32_t i = 0; i < count; i++) {
        uint64_t bits;
        memcpy(&bits, &values[i], sizeof bits);
        bits = htole64(bits);
        sha256_update(hash, sizeof bits, (const uint8_t *)&bits);
    }
}

void taps_hash(struct taps *taps)
{
    struct sha256_ctx hash;
    sha256_init(&hash);
    hash_doubles(&hash, taps->re, taps->count);
    if (taps->im != NULL)
        hash_doubles(&hash, taps->im, taps->count);
    digest_finish(&hash, taps->hash);
}

/* max |h[n] - sign·h[S-1-n]| over one real sequence. */
static double asymmetry(const double *h, uint32_t count, double sign)
{
    double worst = 0;
    for (uint32_t n = 0; n < count; n++)
        worst = fmax(worst, fabs(h[n] - sign * h[count - 1 - n]));
    return worst;
}

double taps_symmetry_delay(const struct taps *taps)
{
    double largest = 0;
    for (uint32_t n = 0; n < taps->count; n++)
        largest =
            fmax(largest, taps->im == NULL ? fabs(taps->re[n]) : hypot(taps->re[n], taps->im[n]));
    double within = 1e-9 * largest;
    double re_even = asymmetry(taps->re, taps->count, 1);
    double re_odd = asymmetry(taps->re, taps->count, -1);
    bool symmetric;
    if (taps->im == NULL) {
        symmetric = re_even <= within || re_odd <= within;
    } else {
        double im_even = asymmetry(taps->im, taps->count, 1);
        double im_odd = asymmetry(taps->im, taps->count, -1);
        /* even/even and odd/odd are (anti)symmetric, even/odd and odd/even (anti)Hermitian */
        symmetric =
            (re_even <= within || re_odd <= within) && (im_even <= within || im_odd <= within);
    }
    return symmetric ? (taps->count - 1) / 2.0 : -1;
}
