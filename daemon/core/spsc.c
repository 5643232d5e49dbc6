/* SPSC ring: see spsc.h. Opening and closing: one thread, while no other uses the ring. */
#include "core/spsc.h"

#include <stdlib.h>
#include <string.h>

#include "core/error.h"
#include "core/power.h"

int spsc_open(struct spsc *ring, size_t capacity)
{
    const size_t slots = power_of_two_from(2, capacity);
    memset(ring, 0, sizeof *ring);
    ring->slots = calloc(slots, sizeof *ring->slots);
    if (ring->slots == NULL)
        return ERROR_MEMORY;
    ring->mask = slots - 1;
    return 0;
}

void spsc_close(struct spsc *ring)
{
    free(ring->slots);
    ring->slots = NULL;
}
