/* Invalid and saturated frames of stretches: see validity.h. */
#include "analysis/validity.h"

#include <stdlib.h>
#include <string.h>

#include "core/error.h"

int validity_open(struct validity *validity, uint32_t channels)
{
    *validity = (struct validity){.channels = channels};
    validity->saturated_until = calloc(channels, sizeof *validity->saturated_until);
    return validity->saturated_until != NULL ? 0 : ERROR_MEMORY;
}

void validity_close(struct validity *validity)
{
    free(validity->saturated_until);
    *validity = (struct validity){0};
}

void validity_begin(struct validity *validity)
{
    memset(validity->invalid_until, 0, sizeof validity->invalid_until);
    memset(validity->saturated_until, 0, validity->channels * sizeof *validity->saturated_until);
}

static void extend(uint64_t *end, uint64_t until)
{
    if (until > *end)
        *end = until;
}

void validity_take(struct validity *validity, const struct analysis_run *run, uint64_t until)
{
    for (uint32_t i = 0; i < run->invalid_count && run->invalid[i].from < until; i++)
        extend(&validity->invalid_until[run->invalid[i].cause], run->invalid[i].until);
    for (uint32_t i = 0; i < run->saturated_count && run->saturated[i].from < until; i++)
        extend(&validity->saturated_until[run->saturated[i].channel], run->saturated[i].until);
}

uint32_t validity_causes(const struct validity *validity, uint64_t from)
{
    uint32_t causes = 0;
    for (int cause = 0; cause < INVALID_CAUSES; cause++)
        if (validity->invalid_until[cause] > from)
            causes |= 1u << cause;
    return causes;
}

bool validity_saturated(const struct validity *validity, uint32_t channel, uint64_t from)
{
    return validity->saturated_until[channel] > from;
}

void validity_walk(struct validity *validity, struct codec *codec)
{
    for (int cause = 0; cause < INVALID_CAUSES; cause++)
        codec_u64(codec, &validity->invalid_until[cause]);
    for (uint32_t c = 0; c < validity->channels; c++)
        codec_u64(codec, &validity->saturated_until[c]);
}
