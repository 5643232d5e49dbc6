/* The peer liquid-dsp: fftfilt_rrrf, one object a channel; the protocol stands in program.h. */
#include <complex.h>
#include <liquid/liquid.h>

#include "bench/peers/program.h"

static void *liquid_open(const struct peer_work *work)
{
    fftfilt_rrrf *filters = calloc(work->channels, sizeof *filters);
    for (unsigned c = 0; filters != NULL && c < work->channels; c++)
        filters[c] = fftfilt_rrrf_create(work->taps + (size_t)c * work->hop, work->hop, work->hop);
    return filters;
}

static void liquid_run(void *convolver, const struct peer_work *work)
{
    fftfilt_rrrf *filters = convolver;
    const size_t frames = (size_t)work->blocks * work->hop;
    for (unsigned c = 0; c < work->channels; c++)
        for (unsigned j = 0; j < work->blocks; j++) {
            const size_t at = c * frames + (size_t)j * work->hop;
            fftfilt_rrrf_execute(filters[c], work->x + at, work->y + at);
        }
}

static void liquid_close(void *convolver, const struct peer_work *work)
{
    fftfilt_rrrf *filters = convolver;
    for (unsigned c = 0; c < work->channels; c++)
        fftfilt_rrrf_destroy(filters[c]);
    free(filters);
}

int main(void)
{
    static const struct peer_program_ops ops = {liquid_open, liquid_run, liquid_close, false};
    return peer_program(&ops);
}
