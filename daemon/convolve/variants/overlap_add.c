/*
 * The overlap-add variants. The kernels of "local" or "general" transform zero-padded blocks and
 * leave all N frames of each product as a plane in STATE; a last launch adds the planes that reach
 * into each block, the oldest first (kernels/overlap_add.cl).
 *
 * Worker threads, one at a time.
 */
#include "convolve/plan/assemble.h"
#include "convolve/plan/rows.h"
#include "convolve/plan/spectra.h"
#include "convolve/plan/variant.h"
#include "convolve/variants/general.h"
#include "convolve/variants/local.h"

static uint64_t plane_floats(const struct build *build)
{
    uint64_t components = 0;
    for (uint32_t o = 0; o < build->spec->outputs_count; o++)
        components += output_components(build, o);
    return components * build->plan->plane_slots * build->plan->layout.fft;
}

static void overlap_add_measure(struct build *build)
{
    local_measure(build);
    build->state_floats = plane_floats(build);
}

static void overlap_add_general_measure(struct build *build)
{
    general_measure(build);
    build->state_floats += plane_floats(build);
}

/* Makes the last stage write its outputs as planes, which begin at float `planes` of STATE, and
 * adds the stage that sums them. */
static int gather(struct build *build, uint64_t planes, struct problem *problem)
{
    struct plan *plan = build->plan;
    struct stage *stage;
    int error = plan_stage(build, "overlap_add.cl", "overlap_add_gather", NULL,
                           build->spec->outputs_count, &stage, problem);
    if (error < 0)
        return error;
    struct stage *producer = stage - 1;
    producer->keeps = KEEPS_PLANES;
    for (uint32_t i = 0; i < producer->count; i++) {
        struct row *row = &producer->rows[i];
        if (row->form == FORM_NONE)
            continue;
        row->planes.first = planes;
        planes += (uint64_t)row->components * plan->plane_slots * plan->layout.fft;
        struct row *gathered = &stage->rows[stage->count++];
        *gathered = *row;
        gathered->report = ROW_NONE;
        row->form = FORM_PLANE;
    }
    return 0;
}

static int overlap_add_fill(struct build *build, struct problem *problem)
{
    int error = local_fill(build, problem);
    return error < 0 ? error : gather(build, build->plan->state_offset / sizeof(float), problem);
}

static int overlap_add_general_fill(struct build *build, struct problem *problem)
{
    const struct plan *plan = build->plan;
    const uint64_t lines = (uint64_t)build->spec->inputs * plan->slots * plan->layout.fft;
    int error = general_fill(build, problem);
    return error < 0 ? error : gather(build, plan->state_offset / sizeof(float) + lines, problem);
}

const struct variant variant_overlap_add = {
    .name = "overlap-add",
    .pace = 1.0,
    .overlap_add = true,
    .formats = true,
    .components_apart = true,
    .decimates = true,
    .any_scale = true,
    .objection = local_objection,
    .layout = local_layout,
    .measure = overlap_add_measure,
    .fill = overlap_add_fill,
};

const struct variant variant_overlap_add_general = {
    .name = "overlap-add-general",
    .overlap_add = true,
    .partitions = true,
    .formats = true,
    .components_apart = true,
    .decimates = true,
    .any_scale = true,
    .measure = overlap_add_general_measure,
    .fill = overlap_add_general_fill,
};
