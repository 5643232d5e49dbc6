/*
 * What `convolvd --design NAME` says: a filter's taps, response, delay, ripple, attenuation and
 * noise floor in the unit of the stream that uses it, for matched filters mainlobe and
 * sidelobes; and what `--out FILE` writes: taps as text or .npy, or a plot as PNG or SVG.
 *
 * The main thread, before anything runs.
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
 * Makes the filter, prints the report to `out` and, when `out_path` is not NULL, writes the file
 * its name says: .txt, .npy, .png or .svg. Every line but the taps begins with "# ", so that the
 * output is itself a taps file; at most `taps_shown` of them are listed. Returns 0 or the error of
 * the filter or of the file.
 */
int design_report(const struct design_subject *subject, const char *out_path, uint32_t taps_shown,
                  FILE *out, struct problem *problem);

/*
 * The same for a filter of a configuration, by name: once per stream whose rate differs among those
 * that use it
 * (`out_path` takes the first, and only its taps are listed: all of them, on a terminal a few). A
 * filter that no stream uses is designed for the rate of the first stream. ERROR_CONFIG names the
 * filters that exist.
 */
int design_report_config(const struct config *config, const char *filter_name, const char *out_path,
                         FILE *out, struct problem *problem);

#endif
