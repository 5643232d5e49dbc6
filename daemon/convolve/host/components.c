/*
 * Components: what each lane of a host vector computes. A real output has one component, a complex
 * one a real and an imaginary component, and so has an envelope of complex taps. A component is the
 * sum of one edge or several.
 *
 * Pure functions, any thread.
 */
#include "convolve/host/lanes.h"

#include <math.h>
#include <stddef.h>
#include <string.h>

static bool output_takes_imaginary(const struct host_edges *all, uint32_t output)
{
    if (all->outputs[output] == OUTPUT_COMPLEX)
        return true;
    for (uint32_t e = 0; e < all->edge_count; e++)
        if (all->edges[e].output == output && all->outputs[output] == OUTPUT_ENVELOPE &&
            all->taps[all->edges[e].taps]->im != NULL)
            return true;
    return false;
}

/* One lane a component. An envelope's two start at an even lane, so that one vector holds both
 * whatever its width; a lane may stay unused for that. */
uint32_t host_components_list(const struct host_edges *all, struct host_component *components,
                              uint32_t *output_floats)
{
    uint32_t offset = 0, count = 0;
    for (uint32_t o = 0; o < all->outputs_count; o++) {
        struct host_component *next = &components[count];
        const bool envelope = all->outputs[o] == OUTPUT_ENVELOPE;
        const bool both = output_takes_imaginary(all, o);
        if (envelope && both && count % 2 != 0) {
            *next++ = (struct host_component){.output = o, .kind = LANE_UNUSED};
            count++;
        }
        next[0] = (struct host_component){o, false,
                                          !envelope ? LANE_VALUE
                                          : both    ? LANE_ENVELOPE
                                                    : LANE_MAGNITUDE,
                                          offset++};
        count++;
        if (!both)
            continue;
        next[1] = (struct host_component){o, true, envelope ? LANE_IMAGINARY : LANE_VALUE,
                                          envelope ? offset : offset++};
        count++;
    }
    *output_floats = offset;
    return count;
}

const struct edge *host_component_edge(const struct host_edges *all,
                                       const struct host_component *component, uint32_t k)
{
    if (component->kind == LANE_UNUSED)
        return NULL;
    for (uint32_t e = 0; e < all->edge_count; e++) {
        const struct edge *edge = &all->edges[e];
        if (edge->output != component->output ||
            (component->imaginary && all->taps[edge->taps]->im == NULL))
            continue;
        if (k-- == 0)
            return edge;
    }
    return NULL;
}

const double *host_component_taps(const struct host_edges *all,
                                  const struct host_component *component, const struct edge *edge)
{
    const struct taps *taps = all->taps[edge->taps];
    return component->imaginary ? taps->im : taps->re;
}

void host_target_open(struct host_target *target, const struct host_component *components,
                      uint32_t count)
{
    target->count = count;
    target->contiguous = true;
    for (uint32_t l = 0; l < count; l++) {
        target->offsets[l] = components[l].offset;
        target->kinds[l] = components[l].kind;
        target->contiguous = target->contiguous && components[l].kind == LANE_VALUE &&
                             components[l].offset == components[0].offset + l;
    }
}

static void write_kinds(const struct host_target *target, const float *lanes, float *frame)
{
    for (uint32_t l = 0; l < target->count; l++)
        switch (target->kinds[l]) {
        case LANE_VALUE:
            frame[target->offsets[l]] = lanes[l];
            break;
        case LANE_MAGNITUDE:
            frame[target->offsets[l]] = fabsf(lanes[l]);
            break;
        case LANE_ENVELOPE:
            frame[target->offsets[l]] = sqrtf(lanes[l] * lanes[l] + lanes[l + 1] * lanes[l + 1]);
            break;
        case LANE_IMAGINARY:
        case LANE_UNUSED:
            break;
        }
}

void host_target_write(const struct host_target *target, const float *lanes, float *frame)
{
    if (!target->contiguous) {
        write_kinds(target, lanes, frame);
        return;
    }
    float *to = frame + target->offsets[0];
    switch (target->count) { /* constant sizes compile to stores instead of a call */
    case 1:
        to[0] = lanes[0];
        break;
    case 2:
        memcpy(to, lanes, 2 * sizeof *lanes);
        break;
    case 4:
        memcpy(to, lanes, 4 * sizeof *lanes);
        break;
    case 8:
        memcpy(to, lanes, 8 * sizeof *lanes);
        break;
    case 16:
        memcpy(to, lanes, 16 * sizeof *lanes);
        break;
    default:
        memcpy(to, lanes, target->count * sizeof *lanes);
    }
}
