/* Shapes of specifications, see shape.h. */
#include "convolve/plan/shape.h"

#include <stdio.h>
#include <string.h>

#include "core/digest.h"

/* Which inputs go where through filters of which length: streams alike in this cost the same. */
static void edges_digest(const struct plan_spec *spec, char text[DIGEST_TEXT])
{
    struct sha256_ctx sha;
    sha256_init(&sha);
    for (uint32_t e = 0; e < spec->edge_count; e++) {
        const struct edge *edge = &spec->edges[e];
        const struct taps *taps = spec->taps[edge->taps];
        const uint32_t facts[] = {edge->input, edge->output,     edge->taps,
                                  taps->count, taps->im != NULL, spec->outputs[edge->output]};
        sha256_update(&sha, sizeof facts, (const uint8_t *)facts);
    }
    digest_finish(&sha, text);
}

void plan_shape(const struct plan_spec *spec, char shape[WISDOM_SHAPE])
{
    uint32_t longest = 1, complex_taps = 0, forms[3] = {0};
    for (uint32_t t = 0; t < spec->taps_count; t++) {
        longest = spec->taps[t]->count > longest ? spec->taps[t]->count : longest;
        complex_taps += spec->taps[t]->im != NULL;
    }
    for (uint32_t o = 0; o < spec->outputs_count; o++)
        forms[spec->outputs[o]]++;
    char digest[DIGEST_TEXT], block[64];
    edges_digest(spec, digest);
    if (spec->hop_free)
        snprintf(block, sizeof block, "latency %.0f frames",
                 (double)spec->latency_ns * spec->rate_hz / 1e9);
    else
        snprintf(block, sizeof block, "block %u", spec->hop);
    if (spec->decimate > 1)
        snprintf(block + strlen(block), sizeof block - strlen(block), ", one of %u frames kept",
                 spec->decimate);
    const struct sample_format *format = &spec->format;
    static const char kinds[] = {
        [SAMPLE_SIGNED] = 's', [SAMPLE_UNSIGNED] = 'u', [SAMPLE_FLOAT] = 'f'};
    snprintf(
        shape, WISDOM_SHAPE,
        "%u channels %c%u/%u%s, %u filters (%u complex) of up to %u taps, %u edges %.16s, outputs "
        "%u real %u complex %u envelope, %s, up to %u at once",
        spec->inputs, kinds[format->kind], format->bits, 8u * format->bytes,
        format->big_endian ? "be" : "le", spec->taps_count, complex_taps, longest, spec->edge_count,
        digest, forms[OUTPUT_REAL], forms[OUTPUT_COMPLEX], forms[OUTPUT_ENVELOPE], block,
        spec->blocks_max);
}
