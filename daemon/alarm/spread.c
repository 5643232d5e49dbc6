/* Extremes of the last values: see spread.h. */
#include "alarm/spread.h"

#include <math.h>

void spread_put(struct spread *spread, double value, int64_t now_ns)
{
    const int64_t share_ns = spread->length_ns / (SPREAD_ENTRIES - 2);
    if (isnan(value))
        return;
    if (spread->count == 0 || now_ns - spread->entries[spread->newest].from_ns >= share_ns) {
        spread->newest = spread->count > 0 ? (spread->newest + 1) % SPREAD_ENTRIES : 0;
        spread->count += spread->count < SPREAD_ENTRIES;
        spread->entries[spread->newest].from_ns = now_ns;
        spread->entries[spread->newest].least = spread->entries[spread->newest].greatest = value;
    }
    spread->entries[spread->newest].until_ns = now_ns;
    spread->entries[spread->newest].least = fmin(spread->entries[spread->newest].least, value);
    spread->entries[spread->newest].greatest =
        fmax(spread->entries[spread->newest].greatest, value);
    spread->last = value;
}

bool spread_read(const struct spread *spread, int64_t now_ns, double *least, double *greatest)
{
    bool any = false;
    for (uint32_t i = 0; i < spread->count; i++) {
        if (now_ns - spread->entries[i].until_ns > spread->length_ns)
            continue;
        *least = any ? fmin(*least, spread->entries[i].least) : spread->entries[i].least;
        *greatest =
            any ? fmax(*greatest, spread->entries[i].greatest) : spread->entries[i].greatest;
        any = true;
    }
    return any;
}
