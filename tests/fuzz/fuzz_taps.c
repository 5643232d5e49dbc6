/*
 * Fuzzes the readers of taps files: WAV, .npy and text, from memory. Whatever the bytes are, the
 * answer is either taps that keep their promises or an error with a sentence.
 */
#include <assert.h>
#include <math.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "filter/taps.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes)
{
    struct taps **sets;
    uint32_t count;
    struct problem problem = {0};
    int error = taps_load_memory("taps", data, bytes, &sets, &count, &problem);
    if (error != 0) {
        assert(error < 0 && sets == NULL && count == 0 && problem.text[0] != '\0');
        return 0;
    }
    assert(count >= 1);
    for (uint32_t i = 0; i < count; i++) {
        const struct taps *taps = sets[i];
        assert(taps->count >= 1 && taps->count <= TAPS_MAX && taps->count == sets[0]->count);
        assert(strlen(taps->hash) == TAPS_HASH_TEXT - 1);
        for (uint32_t n = 0; n < taps->count; n++)
            assert(isfinite(taps->re[n]) && (taps->im == NULL || isfinite(taps->im[n])));
        double delay = taps_symmetry_delay(taps);
        assert(delay == -1 || delay == (taps->count - 1) / 2.0);
    }
    taps_sets_free(sets, count);
    return 0;
}
