/* See network_seams.h. */
#include <net/if.h>
#include <stddef.h>

#include "tests/support/network_seams.h"

struct network_seams network_seams;

char *__real_if_indextoname(unsigned index, char *name);
char *__wrap_if_indextoname(unsigned index, char *name);
char *__wrap_if_indextoname(unsigned index, char *name)
{
    void (*happens)(void) = network_seams.before_name;
    network_seams.before_name = NULL;
    if (happens != NULL)
        happens();
    return __real_if_indextoname(index, name);
}
