/*
 * Load history: whether emission comes below the greatest load of earlier load cycles.
 *
 * The Kaiser effect is the absence of emission up to the load that was reached before; the Felicity
 * ratio is the load at which emission comes all the same over that greatest load (ASTM E1067,
 * E1316). A cycle ends when the load has fallen from its peak by a share of it. The load is known
 * where events are, so a peak without an event is not.
 *
 * One thread at a time.
 */
#ifndef CONVOLVD_ANALYSIS_LOAD_HISTORY_H
#define CONVOLVD_ANALYSIS_LOAD_HISTORY_H

#include <stdbool.h>

#include "core/codec.h"

struct load_history {
    double drop;     /* 0 … 1: of the cycle's peak, which ends it */
    bool loaded;     /* a load has been put */
    double peak;     /* of the running cycle */
    double greatest; /* of the cycles that have ended; NAN: none has */
};

struct load_mark {
    bool kaiser;     /* load < greatest: emission that the Kaiser effect does not expect */
    double felicity; /* load / greatest; NAN in the first cycle, and when that is not above 0 */
};

struct load_history load_history_start(double drop);

/* The load at an event; NAN is not known and changes nothing. */
struct load_mark load_history_put(struct load_history *history, double load);

void load_history_walk(struct load_history *history, struct codec *codec);

#endif
