/* The peer zita-convolver, as two programs; the protocol stands in program.h.
 *
 *     peer_zita              one partition of L taps a channel, computed in this thread
 *     peer_zita_partitions   LONG_FILTERS: blocks of L frames, partitions from L to 8192 taps, the longer
 *                            ones in the library's own threads, which process(true) waits for, so that
 *                            nothing comes late */
#include <zita-convolver.h>

#include "bench/peers/program.h"

#ifdef LONG_FILTERS
static const bool long_filters = true;
#else
static const bool long_filters = false;
#endif

static void *zita_open(const struct peer_work *work)
{
    Convproc *convolver = new Convproc;
    convolver->set_options(Convproc::OPT_FFTW_MEASURE | Convproc::OPT_VECTOR_MODE);
    const unsigned taps = work->taps_count, block = work->hop;
    const unsigned longest = long_filters ? (unsigned)Convproc::MAXPART : block;
    if (convolver->configure(work->channels, work->channels, taps, block, block, longest, 0) != 0)
        return NULL;
    for (unsigned c = 0; c < work->channels; c++)
        if (convolver->impdata_create(c, c, 1, work->taps + (size_t)c * taps, 0, (int)taps) != 0)
            return NULL;
    if (convolver->start_process(0, 0) != 0)
        return NULL;
    return convolver;
}

static void zita_run(void *object, const struct peer_work *work)
{
    Convproc *convolver = (Convproc *)object;
    const size_t frames = (size_t)work->blocks * work->hop;
    for (unsigned j = 0; j < work->blocks; j++) {
        for (unsigned c = 0; c < work->channels; c++)
            memcpy(convolver->inpdata(c), work->x + c * frames + (size_t)j * work->hop, work->hop * sizeof(float));
        convolver->process(long_filters);
        for (unsigned c = 0; c < work->channels; c++)
            memcpy(work->y + c * frames + (size_t)j * work->hop, convolver->outdata(c), work->hop * sizeof(float));
    }
}

static void zita_close(void *object, const struct peer_work *work)
{
    (void)work;
    Convproc *convolver = (Convproc *)object;
    convolver->stop_process();
    while (long_filters && !convolver->check_stop())
        ;
    convolver->cleanup();
    delete convolver;
}

int main()
{
    static const peer_program_ops ops = {zita_open, zita_run, zita_close, long_filters};
    return peer_program(&ops);
}
