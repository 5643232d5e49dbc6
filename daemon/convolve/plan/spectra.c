/* Filter spectra, see spectra.h. */
#include "convolve/plan/spectra.h"

#include "convolve/plan/fft_cache.h"
#include "convolve/plan/fft_plan.h"

enum { LINE_FLOATS = 16 }; /* spectra begin at whole vectors */

static uint64_t floats_to_line(uint64_t floats)
{
    return (floats + LINE_FLOATS - 1) / LINE_FLOATS * LINE_FLOATS;
}

uint64_t spectra_place_components(struct build *build,
                                  uint64_t (*component_floats)(const struct plan *plan,
                                                               const struct taps *taps))
{
    const struct plan_spec *spec = build->spec;
    uint64_t floats = 0;
    for (uint32_t t = 0; t < spec->taps_count; t++)
        build->filters[t] = (struct filter_spectra){ROW_NONE, ROW_NONE, 0};
    for (uint32_t e = 0; e < spec->edge_count; e++) {
        const struct edge *edge = &spec->edges[e];
        const struct taps *taps = spec->taps[edge->taps];
        struct filter_spectra *filter = &build->filters[edge->taps];
        const uint64_t each = floats_to_line(component_floats(build->plan, taps));
        if (filter->re == ROW_NONE) {
            filter->re = floats;
            floats += each;
        }
        if (filter->im == ROW_NONE && taps->im != NULL &&
            spec->outputs[edge->output] != OUTPUT_REAL) {
            filter->im = floats;
            floats += each;
        }
    }
    return floats;
}

void spectra_fill_components(struct build *build,
                             void (*component)(const struct plan *plan, const double *h,
                                               uint32_t count, double *work, float *spectra),
                             double *work)
{
    const struct plan *plan = build->plan;
    const uint64_t base = plan->spectra_offset / sizeof(float);
    float *spectra = (float *)(void *)(build->device->spectrum.host + plan->spectra_offset);
    for (uint32_t t = 0; t < build->spec->taps_count; t++) {
        const struct taps *taps = build->spec->taps[t];
        uint64_t *places[] = {&build->filters[t].re, &build->filters[t].im};
        const double *parts[] = {taps->re, taps->im};
        for (int p = 0; p < 2; p++) {
            if (*places[p] == ROW_NONE)
                continue;
            component(plan, parts[p], taps->count, work, spectra + *places[p]);
            *places[p] += base;
        }
    }
}

static uint32_t partition_count(const struct plan *plan, const struct taps *taps)
{
    const uint32_t each = plan->layout.partition_taps;
    return (taps->count + each - 1) / each;
}

static uint64_t uniform_floats(const struct plan *plan, const struct taps *taps)
{
    return (uint64_t)partition_count(plan, taps) * plan->layout.fft;
}

void spectra_write(const struct fft_plan *fft_plan, const double *h, uint32_t count, uint64_t each,
                   uint32_t fft, double *work, float *spectra)
{
    for (uint64_t from = 0; from < count; from += each, spectra += fft) {
        const uint64_t left = count - from;
        fft_plan_spectrum(fft_plan, h + from, (uint32_t)(left < each ? left : each), work, spectra);
    }
}

static void uniform_component(const struct plan *plan, const double *h, uint32_t count,
                              double *work, float *spectra)
{
    spectra_write(plan->fft_plan->plan, h, count, plan->layout.partition_taps, plan->layout.fft,
                  work, spectra);
}

uint64_t spectra_place(struct build *build)
{
    const uint64_t floats = spectra_place_components(build, uniform_floats);
    for (uint32_t t = 0; t < build->spec->taps_count; t++)
        build->filters[t].partitions = partition_count(build->plan, build->spec->taps[t]);
    return floats;
}

void spectra_fill(struct build *build)
{
    spectra_fill_components(build, uniform_component, build->work);
}

uint32_t output_components(const struct build *build, uint32_t output)
{
    for (uint32_t e = 0; e < build->spec->edge_count; e++)
        if (build->spec->edges[e].output == output && build->spec->outputs[output] != OUTPUT_REAL &&
            build->filters[build->spec->edges[e].taps].im != ROW_NONE)
            return 2;
    return 1;
}
