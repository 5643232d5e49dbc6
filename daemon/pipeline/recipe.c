/* Recipes of plans: see recipe.h. */
#include "pipeline/recipe.h"

#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "convolve/check/prepare.h"
#include "core/digest.h"

struct recipe {
    _Atomic uint32_t holders;
    struct stream_filters filters;
    struct channel_scale *scales;
    enum output_form *outputs;
    char *variant;         /* NULL: any */
    struct plan_spec spec; /* points to the above */
    char digest[DIGEST_TEXT];
};

static void digest_number(struct sha256_ctx *sha, double value)
{
    char text[32];
    snprintf(text, sizeof text, "%a", value);
    digest_text(sha, text);
}

/* The taps' own hashes name files and designs; their length and delay tell how they were padded. */
static void make_digest(struct recipe *recipe)
{
    const struct plan_spec *spec = &recipe->spec;
    struct sha256_ctx sha;
    char format[24];
    sha256_init(&sha);
    digest_text(&sha, sample_format_name(&spec->format, format));
    for (uint32_t i = 0; i < spec->inputs; i++) {
        digest_number(&sha, spec->scales[i].full_scale);
        digest_number(&sha, spec->scales[i].offset);
        digest_number(&sha, spec->scales[i].gain_db);
    }
    for (uint32_t t = 0; t < spec->taps_count; t++) {
        digest_text(&sha, spec->taps[t]->hash);
        digest_number(&sha, spec->taps[t]->count);
        digest_number(&sha, spec->taps[t]->delay_frames);
    }
    for (uint32_t e = 0; e < spec->edge_count; e++) {
        digest_number(&sha, spec->edges[e].input);
        digest_number(&sha, spec->edges[e].output);
        digest_number(&sha, spec->edges[e].taps);
        digest_number(&sha, spec->edges[e].gain);
    }
    for (uint32_t o = 0; o < spec->outputs_count; o++)
        digest_number(&sha, spec->outputs[o]);
    digest_number(&sha, spec->decimate);
    digest_number(&sha, spec->decimate_phase);
    digest_finish(&sha, recipe->digest);
}

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
    recipe->spec.taps = (const struct taps *const *)recipe->filters.taps;
    recipe->spec.edges = recipe->filters.edges;
    make_digest(recipe);
    return recipe;
}

const char *recipe_digest(const struct recipe *recipe)
{
    return recipe->digest;
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
    any.fft = any.items = any.vector = any.rows = 0;
    return plan_prepare(engine, &any, out, problem);
}
