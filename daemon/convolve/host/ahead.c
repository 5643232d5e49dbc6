/*
 * Chooses how many blocks the sums over partitions are computed ahead (host/ahead.h), by counting
 * what a block reads and writes. No state; any thread.
 */
#include "convolve/host/lanes.h"

/* Spectra of one edge that a block reads and writes, on average over the R blocks that one sum
 * ahead serves. A spectrum that is written counts twice, because the processor reads its memory
 * first; the newest one is in the cache when it is read. */
static double ahead_spectra(uint32_t partitions, uint32_t blocks)
{
    double spectra = 2.0 * partitions - 1; /* the block at whose end the sums are due */
    for (uint32_t i = 1; i < blocks; i++)  /* block i of the others */
        spectra += 2.0 * (i < partitions ? i : partitions) - 1;
    return spectra / blocks + 2;
}

uint32_t host_ahead_blocks(const uint32_t *partitions, uint32_t edges, uint32_t sums,
                           uint32_t leaves)
{
    uint32_t best = 1;
    double least = 0;
    for (uint32_t blocks = 1; blocks <= HOST_AHEAD_MAX && blocks <= leaves; blocks *= 2) {
        double spectra = blocks > 1 ? 3.0 * sums : 0; /* a sum ahead is written and read once */
        for (uint32_t e = 0; e < edges; e++)
            spectra += ahead_spectra(partitions[e], blocks);
        if (blocks == 1) {
            least = HOST_AHEAD_WORTH * spectra;
        } else if (spectra < least) {
            least = spectra;
            best = blocks;
        }
    }
    return best;
}
