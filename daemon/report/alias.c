/* Aliases of a stream that decimates: see alias.h. */
#include "report/alias.h"

#include <math.h>
#include <stdlib.h>

#include "core/quantity.h"
#include "pipeline/stream_filters.h"
#include "filter/response.h"

#define INDENT "                   "

/* Below this level an alias cannot be distinguished from rounding in float32. */
static const double nothing_db = -150;

struct worst {
    bool known;
    enum alias_form form;
    struct response_alias alias;
};

static enum alias_form form_of(enum output_form form)
{
    return form == OUTPUT_REAL      ? ALIAS_REAL
           : form == OUTPUT_COMPLEX ? ALIAS_COMPLEX
                                    : ALIAS_ENVELOPE;
}

static const char *hertz(double value, char *text, size_t bytes)
{
    return quantity_print(DIMENSION_FREQUENCY, value, text, bytes);
}

static void print_filter(const char *name, const struct worst *worst, FILE *out)
{
    const struct response_alias *alias = &worst->alias;
    const bool envelope = worst->form == ALIAS_ENVELOPE;
    struct quantity_pair pair;
    fprintf(out, INDENT "%s: ", name);
    if (!(alias->worst_db > nothing_db)) {
        fprintf(out, "nothing aliases, all of it is below %.0f dB\n", nothing_db);
        return;
    }
    quantity_print_pair(DIMENSION_FREQUENCY, alias->from_hz, alias->at_hz, &pair);
    fprintf(out, "%s%+.1f dB aliases at most, from %s to %s\n",
            envelope ? "of the squared envelope of white noise " : "", alias->worst_db, pair.first,
            pair.second);
    if (!envelope && alias->pass_db > nothing_db) {
        quantity_print_pair(DIMENSION_FREQUENCY, alias->pass_from_hz, alias->pass_at_hz, &pair);
        fprintf(out, INDENT "%+.1f dB into its pass-band, from %s to %s\n", alias->pass_db,
                pair.first, pair.second);
    }
    if (envelope && alias->worst_db > -40)
        fprintf(out, INDENT "(an envelope is as wide as its filter's band: low-pass it in a second "
                            "stream, `source = stream`, and decimate there)\n");
    else if (alias->worst_db >= 0)
        fprintf(out, INDENT "(more passes outside the kept band than inside: `decimate` is too "
                            "large, or this is a band to be folded down on purpose)\n");
}

int alias_report(const struct config *config, const struct config_stream *stream, FILE *out,
                 struct problem *problem)
{
    struct stream_filters filters;
    int error = stream_filters_make(config, stream, NULL, &filters, problem);
    if (error < 0)
        return error;
    struct worst *worst = calloc(config->filter_count, sizeof *worst);
    uint8_t *measured =
        calloc(filters.count, sizeof *measured); /* 1 << form, of each set of taps */
    if (worst == NULL || measured == NULL)
        error = problem_set(problem, ERROR_MEMORY, "no memory to look for aliases");
    for (uint32_t e = 0; error == 0 && e < stream->edge_count; e++) {
        const enum alias_form form = form_of(stream->outputs[stream->edges[e].output]);
        struct worst *of_filter = &worst[stream->edges[e].filter];
        const uint32_t set = filters.edges[e].taps;
        const bool array = config->filters[stream->edges[e].filter].spec.type == FILTER_FK;
        /* An array has a filter for each pair of channels; report those of the middle channel for
         * all. */
        if (measured[set] & 1u << form ||
            (array && stream->edges[e].input != stream->source.channels / 2))
            continue;
        measured[set] |= (uint8_t)(1u << form);
        struct response_alias alias;
        error = response_alias(filters.taps[set], stream->source.rate_hz, stream->decimate, form,
                               &alias, problem);
        if (error == 0 && (!of_filter->known || alias.worst_db > of_filter->alias.worst_db))
            *of_filter = (struct worst){true, form, alias};
    }
    if (error == 0) {
        char rate[48], kept[48];
        fprintf(out, "  decimation       1 frame of %u is kept: %s, good up to %s\n",
                stream->decimate, hertz(stream->output_rate_hz, rate, sizeof rate),
                hertz(stream->output_rate_hz / 2, kept, sizeof kept));
        for (uint32_t f = 0; f < config->filter_count; f++)
            if (worst[f].known)
                print_filter(config->filters[f].name, &worst[f], out);
    }
    free(worst);
    free(measured);
    stream_filters_free(&filters);
    return error;
}
