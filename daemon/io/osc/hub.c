/* OSC hub: see hub.h. Loop thread. */
#include "io/osc/hub.h"

#include <string.h>

void osc_hub_add(struct osc_hub *hub, struct osc_taker *taker)
{
    if (hub == NULL)
        return;
    taker->next = hub->takers;
    hub->takers = taker;
}

void osc_hub_remove(struct osc_hub *hub, const struct osc_taker *taker)
{
    if (hub == NULL)
        return;
    for (struct osc_taker **at = &hub->takers; *at != NULL; at = &(*at)->next) {
        if (*at != taker)
            continue;
        *at = taker->next;
        return;
    }
}

bool osc_hub_offer(struct osc_hub *hub, const char *stream, size_t length,
                   const struct received *received)
{
    for (struct osc_taker *taker = hub->takers; taker != NULL; taker = taker->next) {
        if (strlen(taker->stream) != length || memcmp(taker->stream, stream, length) != 0)
            continue;
        taker->take(taker->context, received);
        return true;
    }
    return false;
}
