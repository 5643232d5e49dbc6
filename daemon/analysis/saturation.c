/* Saturated inputs: see saturation.h. */
#include "analysis/saturation.h"

#include <stdlib.h>
#include <string.h>

#include "core/error.h"

int saturation_open(struct saturation *saturation, uint32_t channels)
{
    *saturation = (struct saturation){.channels = channels};
    saturation->bits = calloc(channels, sizeof *saturation->bits);
    saturation->until = calloc(channels, sizeof *saturation->until);
    if (saturation->bits != NULL && saturation->until != NULL)
        return 0;
    saturation_close(saturation);
    return ERROR_MEMORY;
}

void saturation_close(struct saturation *saturation)
{
    free(saturation->bits);
    free(saturation->until);
    *saturation = (struct saturation){.channels = 0};
}

void saturation_reset(struct saturation *saturation)
{
    const size_t bytes = saturation->channels * sizeof(uint64_t);
    memset(saturation->bits, 0, bytes);
    memset(saturation->until, 0, bytes);
    saturation->latest = 0;
    saturation->any = false;
}

/* Frames [first, until) of a column that begins with `first`. */
static uint64_t bits_until(uint64_t first, uint64_t until)
{
    if (until <= first)
        return 0;
    return until - first >= 64 ? UINT64_MAX : ((uint64_t)1 << (until - first)) - 1;
}

/* The next range of the run that begins before `until`; NULL: none. */
static const struct analysis_saturation *next_range(struct saturation *saturation,
                                                    const struct analysis_run *run, uint64_t until)
{
    while (saturation->next < run->saturated_count &&
           run->saturated[saturation->next].from < until) {
        const struct analysis_saturation *range = &run->saturated[saturation->next++];
        if (range->channel >= saturation->channels || range->from >= range->until)
            continue;
        if (saturation->until[range->channel] < range->until)
            saturation->until[range->channel] = range->until;
        if (saturation->latest < range->until)
            saturation->latest = range->until;
        return range;
    }
    return NULL;
}

void saturation_column(struct saturation *saturation, const struct analysis_run *run,
                       uint64_t first, uint32_t frames)
{
    const uint64_t end = first + frames, all = bits_until(first, end);
    if (saturation->latest > first) {
        saturation->any = true;
        for (uint32_t i = 0; i < saturation->channels; i++)
            saturation->bits[i] = bits_until(first, saturation->until[i]) & all;
    }
    const struct analysis_saturation *range;
    while ((range = next_range(saturation, run, end)) != NULL) {
        saturation->any = true;
        saturation->bits[range->channel] |=
            bits_until(first, range->until) & ~bits_until(first, range->from) & all;
    }
}

void saturation_pass(struct saturation *saturation)
{
    if (!saturation->any)
        return;
    memset(saturation->bits, 0, saturation->channels * sizeof *saturation->bits);
    saturation->any = false;
}

void saturation_skip(struct saturation *saturation, const struct analysis_run *run, uint64_t until)
{
    while (next_range(saturation, run, until) != NULL) {
    }
}

void saturation_walk(struct saturation *saturation, struct codec *codec)
{
    saturation->latest = 0;
    for (uint32_t i = 0; i < saturation->channels; i++) {
        codec_u64(codec, &saturation->until[i]);
        if (saturation->latest < saturation->until[i])
            saturation->latest = saturation->until[i];
    }
}
