/* Rolling bearings: see bearing.h. */
#include "analysis/bearing.h"

#include <math.h>

void bearing_orders(const struct bearing_geometry *geometry, double orders[CONDITION_DEFECTS])
{
    const double pi = 3.14159265358979323846;
    const double ratio = geometry->element_m / geometry->pitch_m;
    const double g = ratio * cos(geometry->contact_deg * pi / 180);
    orders[CONDITION_ftf] = (1 - g) / 2;
    orders[CONDITION_bpfo] = geometry->elements * (1 - g) / 2;
    orders[CONDITION_bpfi] = geometry->elements * (1 + g) / 2;
    orders[CONDITION_bsf] = (1 - g * g) / (2 * ratio);
}

struct condition_line bearing_line(const double *amplitudes, uint32_t bins, double bin_hz,
                                   double frequency_hz, double slip, uint32_t harmonics)
{
    struct condition_line line = {frequency_hz, NAN, NAN};
    for (uint32_t h = 1; h <= harmonics; h++) {
        const double at = h * frequency_hz / bin_hz;
        double from = ceil(at * (1 - slip)), until = floor(at * (1 + slip));
        if (from > until)
            from = until = round(at);
        from = fmax(from, 1);
        until = fmin(until, bins - 1);
        if (!(from <= until))
            break;
        uint32_t largest = (uint32_t)from;
        for (uint32_t k = largest; k <= (uint32_t)until; k++)
            if (amplitudes[k] > amplitudes[largest])
                largest = k;
        if (h == 1)
            line.found_hz = largest * bin_hz;
        line.amplitude = (h == 1 ? 0 : line.amplitude) + amplitudes[largest];
    }
    return line;
}
