/* Wedge: see wedge.h. */
#include "core/wedge.h"

#include <unistd.h>

_Atomic unsigned wedged;

void wedge_sleep(void)
{
    for (;;)
        pause();
}
