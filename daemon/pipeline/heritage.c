/* Heritage: see heritage.h. */
#include "pipeline/heritage.h"

#include <stddef.h>
#include <string.h>

const struct sink_identity *heritage_sink(const struct heritage *heritage, const char *name)
{
    for (uint32_t i = 0; heritage != NULL && i < heritage->sink_count; i++)
        if (strcmp(heritage->sinks[i].name, name) == 0)
            return &heritage->sinks[i].identity;
    return NULL;
}
