/* Decimation: see decimation.h. */
#include "signal/decimation.h"

struct decimation decimation_aligned(uint32_t factor, double applied_frames)
{
    return (struct decimation){factor, (uint32_t)((uint64_t)applied_frames % factor)};
}

uint64_t decimation_output(const struct decimation *d, uint64_t frame)
{
    return frame <= d->phase ? 0 : (frame - d->phase - 1) / d->factor + 1;
}

uint64_t decimation_input(const struct decimation *d, uint64_t output)
{
    return output * d->factor + d->phase;
}

uint32_t decimation_first(const struct decimation *d, uint64_t frame)
{
    return (d->phase + d->factor - (uint32_t)(frame % d->factor)) % d->factor;
}

uint64_t decimation_kept(const struct decimation *d, uint64_t from, uint64_t frames)
{
    const uint32_t first = decimation_first(d, from);
    return frames <= first ? 0 : (frames - first - 1) / d->factor + 1;
}

uint64_t decimation_kept_most(uint32_t factor, uint64_t frames)
{
    return frames == 0 ? 0 : (frames - 1) / factor + 1;
}

uint64_t decimation_span(uint32_t factor, uint64_t kept)
{
    return kept < UINT64_MAX / factor ? kept * factor : UINT64_MAX;
}

uint64_t decimation_grid(uint32_t factor, uint64_t frame)
{
    return (frame + factor - 1) / factor * factor;
}

double decimation_rate_hz(uint32_t factor, double input_rate_hz)
{
    return input_rate_hz / factor;
}

double decimation_delay_frames(uint32_t factor, double input_delay_frames)
{
    return input_delay_frames / factor;
}

uint64_t decimation_shift(uint32_t factor, double input_delay_frames)
{
    return (uint64_t)decimation_delay_frames(factor, input_delay_frames);
}

double decimation_inherited_frames(uint32_t factor, double delay_frames, bool aligned)
{
    return aligned ? 0 : decimation_delay_frames(factor, delay_frames);
}

bool decimation_chain(uint32_t before, uint32_t factor, uint32_t *total)
{
    const uint64_t product = (uint64_t)before * factor;
    if (product > DECIMATE_MAX)
        return false;
    *total = (uint32_t)product;
    return true;
}
