/* What a plan has to compute, see reference.h. */
#include "convolve/plan/reference.h"

#include <stdlib.h>
#include <string.h>

#include "convolve/plan/input_limit.h"

static void *copy(const void *from, size_t count, size_t bytes)
{
    void *to = calloc(count, bytes);
    if (to != NULL)
        memcpy(to, from, count * bytes);
    return to;
}

int plan_reference_make(const struct plan_spec *spec, const struct plan_info *info,
                        struct plan_reference **out, struct problem *problem)
{
    struct plan_reference *made = calloc(1, sizeof *made);
    *out = NULL;
    if (made == NULL)
        return problem_set(problem, ERROR_MEMORY, "out of memory for a plan");
    made->holders = 1;
    made->info = *info;
    made->format = spec->format;
    made->edge_count = spec->edge_count;
    made->scales = copy(spec->scales, spec->inputs, sizeof *made->scales);
    made->edges = copy(spec->edges, spec->edge_count, sizeof *made->edges);
    made->outputs = copy(spec->outputs, spec->outputs_count, sizeof *made->outputs);
    made->taps = copy(spec->taps, spec->taps_count, sizeof *made->taps);
    made->peaks = calloc(spec->taps_count, sizeof *made->peaks);
    if (made->scales == NULL || made->edges == NULL || made->outputs == NULL ||
        made->taps == NULL || made->peaks == NULL) {
        plan_reference_release(made);
        return problem_set(problem, ERROR_MEMORY, "out of memory for a plan");
    }
    made->taps_count = spec->taps_count;
    made->input_limit = input_limit(spec->edges, spec->edge_count, spec->taps, spec->taps_count);
    for (uint32_t t = 0; t < made->taps_count; t++)
        taps_hold(made->taps[t]);
    *out = made;
    return 0;
}

void plan_reference_hold(struct plan_reference *reference)
{
    if (reference != NULL)
        atomic_fetch_add(&reference->holders, 1);
}

void plan_reference_release(struct plan_reference *reference)
{
    if (reference == NULL || atomic_fetch_sub(&reference->holders, 1) > 1)
        return;
    for (uint32_t t = 0; t < reference->taps_count; t++)
        taps_free((struct taps *)reference->taps[t]);
    free(reference->scales);
    free(reference->edges);
    free(reference->outputs);
    free(reference->taps);
    free(reference->peaks);
    free(reference);
}
