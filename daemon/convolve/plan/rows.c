/* Templates of rows, see rows.h. */
#include "convolve/plan/rows.h"

#include "convolve/plan/input_limit.h"
#include "convolve/plan/results.h"
#include "convolve/plan/spectra.h"
#include "convolve/plan/variant.h"
#include "convolve/plan/words.h"

_Static_assert(sizeof(struct report_row) == DEVICE_REPORT_BYTES, "local memory for reports");

struct row row_of_input(const struct plan *plan, const struct plan_spec *spec, uint32_t input)
{
    const struct sample_format *format = &spec->format;
    const struct layout *layout = &plan->layout;
    struct row row = {
        .report = (uint64_t)input * REPORT_FLOATS,
        .report_stride = spec->inputs * REPORT_FLOATS,
        .clips = ROW_NONE,
        .real_parts = ROW_NONE,
        .frame_bytes = spec->inputs * format->bytes,
        .channel_byte = input * format->bytes,
        .word = format->bytes,
        .hop = spec->hop,
        .form = FORM_NONE,
        .gain = 1,
        .components = 1,
    };
    if (layout->variant->overlap_add) {
        row.load_until = spec->hop;
        row.planes.slots = plan->plane_slots;
        row.planes.reach = spec->hop + layout->partition_taps - 1;
    } else {
        row.start = spec->hop - layout->fft; /* modulo 2^32, as ring positions are */
        row.new_from = layout->fft - spec->hop;
        row.load_from = row.new_from - (layout->partition_taps - 1);
        row.load_until = layout->fft;
    }
    const bool aligned = format->bytes == 2 || format->bytes == 4;
    if (aligned)
        row.flags |= ROW_ALIGNED; /* rings begin at pages, and a frame is whole words */
    if (word_swapped(format))
        row.flags |= ROW_SWAP;
    if (format->kind == SAMPLE_FLOAT) {
        row.flags |= ROW_FLOAT;
    } else {
        if (format->kind == SAMPLE_UNSIGNED)
            row.flags |= ROW_UNSIGNED;
        row.shift_left = format->left ? 32u - 8u * format->bytes : 32u - format->bits;
        row.shift_right = 32u - format->bits;
    }
    const struct input_scale scale =
        input_scale_of(format, &spec->scales[input], plan->input_limit);
    row.scale = scale.scale;
    row.offset_hi = scale.offset_hi;
    row.offset_lo = scale.offset_lo;
    row.limit = scale.limit;
    row.overflow = scale.overflow;
    return row;
}

uint32_t row_form(enum output_form form)
{
    static const uint32_t forms[] = {[OUTPUT_REAL] = FORM_REAL,
                                     [OUTPUT_COMPLEX] = FORM_COMPLEX,
                                     [OUTPUT_ENVELOPE] = FORM_ENVELOPE};
    return forms[form];
}

void row_to_output(const struct build *build, uint32_t output, struct row *row)
{
    const struct plan_spec *spec = build->spec;
    uint64_t sample = 0;
    for (uint32_t o = 0; o < output; o++)
        sample += spec->outputs[o] == OUTPUT_COMPLEX ? 2 : 1;
    row->output_byte = sample * build->plan->info.sample_bytes;
    row->stride = build->plan->info.output_floats;
    row->form = row_form(spec->outputs[output]);
    row->components = output_components(build, output);
    results_of_row(build, output, row);
}
