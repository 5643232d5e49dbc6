/* Recipes of plans: see recipe.h. */
#include "pipeline/recipe.h"

#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

#include "convolve/check/prepare.h"

struct recipe {
    _Atomic uint32_t holders;
    struct stream_filters filters;
    struct channel_scale *scales;
    enum output_form *outputs;
    char *variant;         /* NULL: any */
    struct plan_spec spec; /* points to the above */
};

struct recipe *recipe_make(struct stream_filters *filters, const struct plan_spec *spec,
                           const struct plan *made)
{
    struct recipe *recipe = calloc(1, sizeof *recipe);
    if (recipe == NULL)
        return NULL;
    recipe->holders = 1;
    recipe->scales = malloc(spec->inputs * sizeof *recipe->scales);
    recipe->outputs = malloc(spec->outputs_count * sizeof *recipe->outputs);
    recipe->variant = spec->variant != NULL ? strdup(spec->variant) : NULL;
    if (recipe->scales == NULL || recipe->outputs == NULL ||
        (spec->variant != NULL && recipe->variant == NULL)) {
        recipe_drop(recipe);
        return NULL;
    }
    recipe->filters = *filters;
    memset(filters, 0, sizeof *filters);
    memcpy(recipe->scales, spec->scales, spec->inputs * sizeof *recipe->scales);
    memcpy(recipe->outputs, spec->outputs, spec->outputs_count * sizeof *recipe->outputs);
    recipe->spec = *spec;
    recipe->spec.scales = recipe->scales;
    recipe->spec.outputs = recipe->outputs;
    recipe->spec.variant = recipe->variant;
    recipe->spec.hop = plan_info(made)->hop;
    recipe->spec.hop_free = false;
    return recipe;
}

struct recipe *recipe_hold(struct recipe *recipe)
{
    atomic_fetch_add(&recipe->holders, 1);
    return recipe;
}

void recipe_drop(struct recipe *recipe)
{
    if (recipe == NULL || atomic_fetch_sub(&recipe->holders, 1) > 1)
        return;
    stream_filters_free(&recipe->filters);
    free(recipe->scales);
    free(recipe->outputs);
    free(recipe->variant);
    free(recipe);
}

int recipe_plan(const struct recipe *recipe, struct engine *engine, struct plan **out,
                struct problem *problem)
{
    int error = plan_prepare(engine, &recipe->spec, out, problem);
    if (error == 0 || (recipe->spec.variant == NULL && recipe->spec.fft == 0))
        return error;
    struct plan_spec any = recipe->spec;
    any.variant = NULL;
    any.fft = any.items = any.vector = 0;
    return plan_prepare(engine, &any, out, problem);
}
