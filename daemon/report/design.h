/*
 * The report of `convolvd --design NAME`: a filter's taps, response, delay, ripple, attenuation and
 * noise floor in the unit of the stream that uses it, and for matched filters mainlobe and
 * sidelobes. With `--out FILE` it writes the taps, as text or .npy.
 *
 * Main thread, before anything runs.
 */
#ifndef CONVOLVD_REPORT_DESIGN_H
#define CONVOLVD_REPORT_DESIGN_H

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>

#include "core/error.h"
#include "config/config.h"
#include "filter/filter.h"
#include "wire/format.h"

/* The filter and the stream it stands in. */
struct design_subject {
    const char *filter_name;
    const char *stream_name; /* NULL: no stream uses it */
    const struct filter_spec *spec;
    double rate_hz;
    struct sample_format format;        /* of the stream's input */
    const struct channel_scale *scales; /* [channels] */
    uint32_t channels;                  /* 0: unknown, no noise floor in a unit */
};

/*
 * The report on a filter of a configuration, by name: once for each rate among the streams that use
 * it. `out_path` takes the first, and only its taps are listed (on a terminal the first few). A
 * filter that no stream uses is designed for the rate of the first stream. ERROR_CONFIG names the
 * filters there are.
 */
int design_report_config(const struct config *config, const char *filter_name, const char *out_path,
                         FILE *out, struct problem *problem);

/*
 * What the first of those reports is about. *spec holds the filter as the stream completes it and
 * must outlive *subject. Returns 0 or ERROR_CONFIG.
 */
int design_subject_find(const struct config *config, const char *filter_name,
                        struct filter_spec *spec, struct design_subject *subject,
                        struct problem *problem);

#endif
