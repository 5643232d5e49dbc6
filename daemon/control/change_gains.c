/* Changed gains: see change_gains.h. */
#include "control/change_gains.h"

#include <stdio.h>
#include <stdlib.h>

#include "core/clock.h"

int change_gains_open(struct change_gains *g, uint32_t outputs)
{
    *g = (struct change_gains){.outputs = outputs};
    for (int i = 0; i < 2; i++) {
        g->sets[i].factors = calloc(outputs, sizeof *g->sets[i].factors);
        g->sets[i].muted = calloc(outputs, sizeof *g->sets[i].muted);
        if (g->sets[i].factors == NULL || g->sets[i].muted == NULL)
            return ERROR_MEMORY;
    }
    return 0;
}

void change_gains_close(struct change_gains *g)
{
    for (int i = 0; i < 2; i++) {
        free(g->sets[i].factors);
        free(g->sets[i].muted);
    }
}

const struct result_gains *change_gains_next(struct change_gains *g,
                                             const struct change_setting *setting, const char *who)
{
    const int set = (int)(g->changes + 1) % 2;
    bool configured = true;
    for (uint32_t o = 0; o < g->outputs; o++) {
        g->sets[set].factors[o] = setting->gain[o];
        g->sets[set].muted[o] = setting->muted[o];
        configured = configured && setting->gain[o] == 1 && !setting->muted[o];
    }
    snprintf(g->sets[set].who, sizeof g->sets[set].who, "%s", who);
    g->sets[set].gains = (struct result_gains){.changes = g->changes + 1,
                                               .configured = configured,
                                               .outputs = g->outputs,
                                               .factors = g->sets[set].factors,
                                               .muted = g->sets[set].muted,
                                               .who = g->sets[set].who};
    return &g->sets[set].gains;
}

void change_gains_take(struct change_gains *g, struct pipeline *pipeline,
                       const struct result_gains *next, uint64_t frame)
{
    g->before = pipeline->gains;
    g->changes_before = g->changes;
    if (next == NULL)
        return;
    g->changes = next->changes;
    pipeline->gains = (struct pipeline_gains){.now = next,
                                              .epoch = stream_next_epoch(pipeline->stream),
                                              .frame = frame,
                                              .framed = !pipeline_direct_only(pipeline),
                                              .realtime_ns = clock_realtime_ns()};
}

void change_gains_take_back(struct change_gains *g, struct pipeline *pipeline)
{
    pipeline->gains = g->before;
    g->changes = g->changes_before;
}
