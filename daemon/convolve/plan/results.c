/* Results in the formats of sinks, see results.h. */
#include "convolve/plan/results.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#include "convolve/plan/spectra.h"
#include "convolve/plan/variant.h"
#include "convolve/plan/words.h"

static double factor_of(const struct result_format *results)
{
    return results->factor != 0 ? results->factor : 1;
}

/* The encoder's product with 2^(bits - 1) is exact. */
double results_scale(const struct result_format *results)
{
    const struct sample_format *format = &results->format;
    return format->kind == SAMPLE_FLOAT ? factor_of(results)
                                        : ldexp(factor_of(results), (int)format->bits - 1);
}

/* A float times the scale is exact, but for results far below one code or far above all. */
static bool scale_is_exact(double scale)
{
    int exponent;
    return frexp(fabs(scale), &exponent) == 0.5 && exponent > -100 && exponent < 100;
}

bool results_exact(const struct result_format *results)
{
    return scale_is_exact(results_scale(results));
}

struct result_format results_granted(const struct device *device, const struct variant *variant,
                                     const struct result_format *asked)
{
    if (result_format_native(asked) || !variant->formats ||
        (!device->found.info.doubles && !results_exact(asked)))
        return (struct result_format){0};
    return *asked;
}

void results_measure(struct build *build)
{
    const struct plan *plan = build->plan;
    bool needed = false;
    if (!plan->layout.variant->components_apart || result_format_native(&plan->info.results))
        return;
    for (uint32_t o = 0; o < build->spec->outputs_count; o++)
        needed = needed ||
                 (build->spec->outputs[o] == OUTPUT_ENVELOPE && output_components(build, o) == 2);
    if (!needed)
        return;
    build->real_parts = build->state_floats;
    build->state_floats += (uint64_t)build->spec->outputs_count * plan->blocks_max * plan->hop;
}

void results_of_row(const struct build *build, uint32_t output, struct row *row)
{
    const struct plan *plan = build->plan;
    const struct result_format *results = &plan->info.results;
    if (result_format_native(results))
        return;
    const double scale = results_scale(results);
    row->result_scale = (float)scale;
    memcpy(&row->result_scale_double, &scale, sizeof scale);
    row->clips = output;
    row->clips_stride = plan->info.outputs;
    row->real_parts_stride = plan->blocks_max * plan->hop;
    if (build->real_parts != ROW_NONE)
        row->real_parts = plan->state_offset / sizeof(float) + build->real_parts +
                          (uint64_t)output * row->real_parts_stride;
}

double results_value(const struct result_format *results, const uint8_t *sample, double want)
{
    if (result_format_native(results)) {
        float value;
        memcpy(&value, sample, sizeof value);
        return (double)value;
    }
    const double value = sample_decode(&results->format, sample) / factor_of(results);
    if (results->format.kind == SAMPLE_FLOAT)
        return value;
    const double code = 1 / fabs(results_scale(results));
    const double most = code * ldexp(1, results->format.bits - 1);
    const double nearest = fmin(fmax(want, -most), most - code);
    const double error = value - nearest;
    return fabs(error) <= code / 2 ? want : want + error - copysign(code / 2, error);
}

int results_options(const struct plan *plan, char *options, size_t bytes)
{
    static const int kinds[] = {[SAMPLE_SIGNED] = 0, [SAMPLE_UNSIGNED] = 1, [SAMPLE_FLOAT] = 2};
    const struct result_format *results = &plan->info.results;
    const struct sample_format *format = &results->format;
    if (result_format_native(results)) {
        options[0] = 0;
        return 0;
    }
    return snprintf(options, bytes,
                    " -D RESULT_WORD=%d -D RESULT_BITS=%d -D RESULT_KIND=%d -D RESULT_LEFT=%d"
                    " -D RESULT_SWAP=%d -D RESULT_DOUBLE=%d",
                    format->bytes, format->bits, kinds[format->kind],
                    format->left ? 8 * format->bytes - format->bits : 0, word_swapped(format),
                    !results_exact(results));
}
