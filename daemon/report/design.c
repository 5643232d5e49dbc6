/*
 * What convolvd --design prints and writes: see design.h. Text and taps only; convolv-design
 * (clients/design) draws.
 */
#include "report/design.h"

#include <errno.h>
#include <math.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <unistd.h>

#include "report/fk.h"
#include "report/units.h"

enum { TABLE_STEPS = 32, POINTS_MAX = 80, TAPS_SHOWN = 8 };

/* ---- the parts of the report ------------------------------------------------------------- */

__attribute__((format(printf, 3, 4))) static void row(FILE *out, const char *label,
                                                      const char *format, ...)
{
    va_list arguments;
    va_start(arguments, format);
    fprintf(out, "# %-17s ", label);
    vfprintf(out, format, arguments);
    fputc('\n', out);
    va_end(arguments);
}

static const char *delay_reason(enum delay_source source)
{
    switch (source) {
    case DELAY_DESIGN:
        return "known by construction";
    case DELAY_CONFIG:
        return "as configured";
    case DELAY_SYMMETRY:
        return "the taps are symmetric";
    case DELAY_ASSUMED:
        break;
    }
    return "assumed; write `delay` if time stamps matter";
}

static void print_head(FILE *out, const struct design_subject *s, const struct taps *taps,
                       uint32_t set, uint32_t sets)
{
    char rate[UNITS_TEXT], time[UNITS_TEXT];
    const struct filter_spec *spec = s->spec;
    row(out, "filter", "%s: %s%s%s", s->filter_name, filter_type_name((int)spec->type),
        filter_type_is_design(spec->type) ? ", " : "",
        filter_type_is_design(spec->type) ? design_method_name((int)spec->design.method) : "");
    row(out, "stream", "%s, %s", s->stream_name != NULL ? s->stream_name : "none uses it",
        units_si(s->rate_hz, "Hz", rate));
    if (spec->path != NULL)
        row(out, "file", "%s", spec->path);
    if (sets > 1)
        row(out, "set", "%u of %u (one per channel)", set + 1, sets);
    row(out, "taps", "%u, %s, %s", taps->count, taps->im != NULL ? "complex" : "real",
        units_si(taps->count / s->rate_hz, "s", time));
    row(out, "sha256", "%s", taps->hash);
    row(out, "delay", "%g frames, %s (%s)", taps->delay_frames,
        units_si(taps->delay_frames / s->rate_hz, "s", time), delay_reason(taps->delay_source));
}

static void print_bands(FILE *out, const char *label, const double from_hz[2],
                        const double until_hz[2], const char *quality, double value_db)
{
    char text[4 * UNITS_TEXT + 32] = "", from[UNITS_TEXT], until[UNITS_TEXT];
    size_t used = 0;
    for (int i = 0; i < 2; i++) {
        if (!(from_hz[i] < until_hz[i]))
            continue;
        used +=
            (size_t)snprintf(text + used, sizeof text - used, "%s%s to %s", used > 0 ? " and " : "",
                             units_si(from_hz[i], "Hz", from), units_si(until_hz[i], "Hz", until));
    }
    if (used > 0)
        row(out, label, "%s: %s %s", text, quality, units_db(value_db, from));
}

static void print_edge(FILE *out, const char *label, double found_hz, double asked_hz,
                       double asked_db)
{
    char found[UNITS_TEXT], asked[UNITS_TEXT], at[UNITS_TEXT];
    if (!isnan(asked_hz))
        row(out, label, "%s at -6.02 dB (asked %s: %s there)",
            isnan(found_hz) ? "none" : units_si(found_hz, "Hz", found),
            units_si(asked_hz, "Hz", asked), units_db(asked_db, at));
    else if (!isnan(found_hz))
        row(out, label, "%s at -6.02 dB", units_si(found_hz, "Hz", found));
}

static void print_response(FILE *out, const struct response *r)
{
    char hz[UNITS_TEXT], level[UNITS_TEXT];
    const struct response_bands *bands = &r->bands;
    row(out, "gain", "%.9g (%s) at %s, the 0 dB of all that follows", r->reference_gain,
        units_db(units_decibel(r->reference_gain), level), units_si(r->reference_hz, "Hz", hz));
    row(out, "peak gain", "%.9g (%s) at %s", r->peak_gain,
        units_db(units_decibel(r->peak_gain), level), units_si(r->peak_hz, "Hz", hz));
    print_edge(out, "lower edge", r->edge_low_hz, bands->edge_hz[0], r->edge_db[0]);
    print_edge(out, "upper edge", r->edge_high_hz, bands->edge_hz[1], r->edge_db[1]);
    print_bands(out, "pass-band", bands->pass_from_hz, bands->pass_until_hz, "ripple",
                r->ripple_db);
    print_bands(out, "stop-band", bands->stop_from_hz, bands->stop_until_hz, "attenuation",
                r->attenuation_db);
    if (!isnan(r->image_db))
        row(out, "image rejection", "%s", units_db(r->image_db, level));
    row(out, "noise gain", "%.6g (%s): RMS out for white noise of RMS 1 in", r->noise_gain,
        units_db(units_decibel(r->noise_gain), level));
}

/* Quantisation noise of the stream's format, LSB / sqrt(12), through the filter; once per distinct
 * scale. */
static void print_noise_floor(FILE *out, const struct design_subject *s, double noise_gain)
{
    char format[24], label[32];
    sample_format_name(&s->format, format);
    if (s->channels > 0 && s->format.kind == SAMPLE_FLOAT) {
        row(out, "noise floor", "%.4g %s RMS for 1 %s RMS in (%s has no fixed step)", noise_gain,
            s->scales[0].unit, s->scales[0].unit, format);
        return;
    }
    for (uint32_t c = 0; c < s->channels; c++) {
        const struct channel_scale *scale = &s->scales[c];
        double lsb = channel_scale_factor(scale) / ldexp(1, s->format.bits - 1);
        bool known = false;
        for (uint32_t before = 0; before < c && !known; before++)
            known = channel_scale_factor(&s->scales[before]) == channel_scale_factor(scale) &&
                    strcmp(s->scales[before].unit, scale->unit) == 0;
        if (known)
            continue;
        if (c == 0)
            snprintf(label, sizeof label, "noise floor");
        else
            snprintf(label, sizeof label, "  from channel %u", c + 1);
        row(out, label, "%.4g %s RMS (%s, 1 LSB = %.4g %s, /sqrt(12) = %.4g %s RMS in)",
            lsb / sqrt(12) * noise_gain, scale->unit, format, lsb, scale->unit, lsb / sqrt(12),
            scale->unit);
    }
}

static void print_matched(FILE *out, const struct matched_measure *m, double rate_hz)
{
    char time[UNITS_TEXT], level[UNITS_TEXT];
    if (isnan(m->mainlobe_frames))
        return;
    row(out, "mainlobe", "%.4g frames, %s wide at -6 dB", m->mainlobe_frames,
        units_si(m->mainlobe_frames / rate_hz, "s", time));
    if (isnan(m->sidelobe_db))
        row(out, "sidelobe", "none");
    else
        row(out, "sidelobe", "%s under the peak", units_db(m->sidelobe_db, level));
    if (!isnan(m->pair_sidelobe_db))
        row(out, "  a and b added", "%s under the peak, beyond one chip",
            units_db(m->pair_sidelobe_db, level));
}

/* ---- the table of the response ----------------------------------------------------------- */

struct point {
    double hz;
    const char *note;
};

static int point_order(const void *left, const void *right)
{
    const struct point *a = left, *b = right;
    if (a->hz != b->hz)
        return a->hz < b->hz ? -1 : 1;
    return (b->note != NULL) - (a->note != NULL);
}

static int collect_points(const struct response *r, bool two_sided, struct point *points)
{
    int count = 0;
    double nyquist = r->rate_hz / 2;
    for (int k = two_sided ? -TABLE_STEPS / 2 : 0; k <= (two_sided ? TABLE_STEPS / 2 : TABLE_STEPS);
         k++)
        points[count++] =
            (struct point){nyquist * k / (two_sided ? TABLE_STEPS / 2 : TABLE_STEPS), NULL};
    const struct response_bands *b = &r->bands;
    for (int i = 0; i < 2; i++) {
        if (b->pass_from_hz[i] < b->pass_until_hz[i]) {
            points[count++] = (struct point){b->pass_from_hz[i], "pass-band"};
            points[count++] = (struct point){b->pass_until_hz[i], "pass-band"};
        }
        if (b->stop_from_hz[i] < b->stop_until_hz[i]) {
            points[count++] = (struct point){b->stop_from_hz[i], "stop-band"};
            points[count++] = (struct point){b->stop_until_hz[i], "stop-band"};
        }
    }
    const struct point single[] = {{b->edge_hz[0], "edge"},
                                   {b->edge_hz[1], "edge"},
                                   {isnan(b->edge_hz[0]) ? r->edge_low_hz : NAN, "edge"},
                                   {isnan(b->edge_hz[1]) ? r->edge_high_hz : NAN, "edge"},
                                   {r->reference_hz, "reference"},
                                   {two_sided ? -r->reference_hz : NAN, "its image"}};
    for (size_t i = 0; i < sizeof single / sizeof single[0]; i++)
        if (!isnan(single[i].hz))
            points[count++] = single[i];
    qsort(points, (size_t)count, sizeof *points, point_order);
    int kept = 0;
    for (int i = 0; i < count; i++)
        if (kept == 0 || fabs(points[i].hz - points[kept - 1].hz) > 1e-9 * r->rate_hz)
            points[kept++] = points[i];
        else if (points[kept - 1].note == NULL)
            points[kept - 1].note = points[i].note;
    return kept;
}

static void print_table(FILE *out, const struct taps *taps, const struct response *r)
{
    struct point points[POINTS_MAX];
    int count = collect_points(r, taps->im != NULL, points);
    fprintf(out, "#\n# %16s %14s %12s\n", "frequency", "gain", "level");
    for (int i = 0; i < count; i++) {
        char hz[UNITS_TEXT], level[UNITS_TEXT];
        double gain = response_at(taps, points[i].hz, r->rate_hz);
        fprintf(out, "# %16s %14.6g %12s  %s\n", units_si(points[i].hz, "Hz", hz), gain,
                units_db(units_decibel(gain / r->reference_gain), level),
                points[i].note != NULL ? points[i].note : "");
    }
}

static void print_taps(FILE *out, struct taps *const *sets, uint32_t count, uint32_t shown)
{
    const struct taps *taps = sets[0];
    if (shown == 0)
        return;
    fputs("#\n", out);
    if (count > 1) {
        fprintf(out, "# %u sets of taps; --out FILE.npy writes them\n", count);
        return;
    }
    for (uint32_t n = 0; n < taps->count; n++) {
        if (n == shown) {
            fprintf(out, "# %u more; --out FILE.txt, or a pipe, gets them all\n",
                    taps->count - shown);
            return;
        }
        if (taps->im != NULL)
            fprintf(out, "%.17g %.17g\n", taps->re[n], taps->im[n]);
        else
            fprintf(out, "%.17g\n", taps->re[n]);
    }
}

/* ---- the taps as a file ------------------------------------------------------------------ */

static bool ends_in(const char *path, const char *suffix)
{
    const size_t length = strlen(path), bytes = strlen(suffix);
    return length > bytes && strcasecmp(path + length - bytes, suffix) == 0;
}

/* The name of the file says what it holds. */
static int check_path(const char *path, const char *filter_name, struct problem *problem)
{
    if (path == NULL || ends_in(path, ".txt") || ends_in(path, ".npy"))
        return 0;
    if (ends_in(path, ".png") || ends_in(path, ".svg"))
        return problem_set(problem, ERROR_ARGUMENT,
                           "--out %s: convolvd writes taps (.txt, .npy); for a plot write "
                           "convolv-design --config FILE --filter %s --out %s",
                           path, filter_name, path);
    return problem_set(problem, ERROR_ARGUMENT,
                       "--out %s: end the name in .txt or .npy to write the taps; convolv-design "
                       "draws plots (.png, .svg)",
                       path);
}

static int write_taps(const struct design_subject *s, struct taps *const *sets, uint32_t count,
                      const char *path, struct problem *problem)
{
    char comment[512], rate[UNITS_TEXT];
    snprintf(comment, sizeof comment, "filter %s: %s, %u taps at %s\ndelay %g frames\nsha256 %s",
             s->filter_name, filter_type_name((int)s->spec->type), sets[0]->count,
             units_si(s->rate_hz, "Hz", rate), sets[0]->delay_frames, sets[0]->hash);
    return taps_write(path, sets, count, comment, problem);
}

/* ---- the whole report -------------------------------------------------------------------- */

static int report_set(FILE *out, const struct design_subject *s, const struct taps *taps,
                      uint32_t set, uint32_t sets, const struct filter_measure *measure)
{
    if (set > 0)
        fputs("#\n", out);
    print_head(out, s, taps, set, sets);
    print_response(out, &measure->response);
    print_noise_floor(out, s, measure->response.noise_gain);
    print_matched(out, &measure->matched, s->rate_hz);
    if (measure->warning[0] != '\0')
        row(out, "warning", "%s", measure->warning);
    print_table(out, taps, &measure->response);
    return 0;
}

/* An array's filter: figures of plane waves instead of one response. */
static int report_array(FILE *out, const struct design_subject *s, struct taps *const *sets,
                        uint32_t count, struct problem *problem)
{
    const struct fk_spec *spec = &s->spec->fk;
    struct fk_measure *measure = malloc(sizeof *measure);
    if (measure == NULL)
        return problem_set(problem, ERROR_MEMORY, "no memory for the report");
    int error = fk_measure(spec, s->rate_hz, sets, measure, problem);
    if (error == 0) {
        char smear[UNITS_TEXT];
        print_head(out, s, sets[count / 2], 0, 1);
        row(out, "sets", "%u, one for each distance of two channels; %u edges", count,
            spec->channels * spec->channels);
        row(out, "smear", "%s along the frequency, by the window of each FIR",
            units_si(measure->transition_hz, "Hz", smear));
        fk_report_figures(out, spec, s->rate_hz, measure, "# fan               ",
                          "#                   ");
        row(out, "noise gain", "%.6g at the middle channel", measure->noise_gain);
        print_noise_floor(out, s, measure->noise_gain);
        error = fk_report_table(out, spec, s->rate_hz, sets, problem);
    }
    free(measure);
    return error;
}

/*
 * Makes the filter, prints the report to `out` and, when `out_path` is not NULL, writes the taps
 * to that file (.txt or .npy). Every line but the taps begins with "# ", so the output is itself a
 * file of taps; at most `taps_shown` of them are listed, none when a file takes them. Returns 0,
 * ERROR_ARGUMENT for a name with another ending, or the error of the filter or of the file.
 */
static int design_report(const struct design_subject *subject, const char *out_path,
                         uint32_t taps_shown, FILE *out, struct problem *problem)
{
    struct taps **sets;
    uint32_t count;
    struct filter_measure measure, first;
    int error = check_path(out_path, subject->filter_name, problem);
    if (error != 0)
        return error;
    error = filter_make(subject->spec, subject->rate_hz, &sets, &count, &first, problem);
    if (error != 0)
        return problem_prefix(problem, error, "filter %s", subject->filter_name);
    bool array = subject->spec->type == FILTER_FK;
    if (array)
        error = report_array(out, subject, sets, count, problem);
    for (uint32_t i = 0; error == 0 && !array && i < count; i++) {
        if (i == 0)
            measure = first;
        else
            error = filter_measure_set(subject->spec, subject->rate_hz, sets[i], &measure, problem);
        if (error == 0)
            error = report_set(out, subject, sets[i], i, count, &measure);
    }
    if (error == 0 && out_path != NULL)
        error = write_taps(subject, sets, count, out_path, problem);
    if (error == 0 && out_path != NULL)
        row(out, "written", "%s", out_path);
    if (error == 0 && out_path == NULL)
        print_taps(out, sets, count, taps_shown);
    taps_sets_free(sets, count);
    if (error == 0 && (fflush(out) != 0 || ferror(out)))
        error = problem_set(problem, ERROR_SYSTEM, "the report could not be printed: %s",
                            strerror(errno));
    return error;
}

static bool stream_uses(const struct config_stream *stream, uint32_t filter)
{
    for (uint32_t e = 0; e < stream->edge_count; e++)
        if (stream->edges[e].filter == filter)
            return true;
    return false;
}

/* ERROR_CONFIG, naming the filters there are. */
static int unknown_filter(const struct config *config, const char *name, struct problem *problem)
{
    char names[256] = "";
    size_t used = 0;
    for (uint32_t i = 0; i < config->filter_count && used < sizeof names - 1; i++)
        used += (size_t)snprintf(names + used, sizeof names - used, "%s%s", i > 0 ? ", " : "",
                                 config->filters[i].name);
    if (config->filter_count == 0)
        return problem_set(problem, ERROR_CONFIG,
                           "%s has no [filter %s], and no other filter: write one",
                           config->path != NULL ? config->path : "the configuration", name);
    return problem_set(problem, ERROR_CONFIG, "there is no [filter %s]; %s has: %s", name,
                       config->path != NULL ? config->path : "the configuration", names);
}

/* Seen before with this rate (and, for an array, as many channels) among the first `until` streams
 * that use the filter? */
static bool rate_known(const struct config *config, uint32_t filter, uint32_t until)
{
    for (uint32_t i = 0; i < until; i++)
        if (stream_uses(&config->streams[i], filter) &&
            config->streams[i].source.rate_hz == config->streams[until].source.rate_hz &&
            (config->filters[filter].spec.type != FILTER_FK ||
             config->streams[i].source.channels == config->streams[until].source.channels))
            return true;
    return false;
}

/* `spec` holds the filter as the stream completes it. */
static struct design_subject subject_of(const struct config *config, uint32_t filter,
                                        const struct config_stream *stream,
                                        struct filter_spec *spec)
{
    *spec = config_filter_spec(&config->filters[filter], stream);
    return (struct design_subject){.filter_name = config->filters[filter].name,
                                   .stream_name = stream->name,
                                   .spec = spec,
                                   .rate_hz = stream->source.rate_hz,
                                   .format = stream->source.format,
                                   .scales = stream->scales,
                                   .channels = stream->source.channels};
}

/* The filter's index, or ERROR_CONFIG. */
static int find_filter(const struct config *config, const char *name, struct problem *problem)
{
    const int found = config_find_filter(config, name);
    if (found < 0)
        return unknown_filter(config, name, problem);
    if (config->stream_count == 0)
        return problem_set(problem, ERROR_CONFIG,
                           "a filter is designed for a rate, and there is no [stream] to give one; "
                           "write a stream with `filter = %s`",
                           name);
    return found;
}

int design_subject_find(const struct config *config, const char *filter_name,
                        struct filter_spec *spec, struct design_subject *subject,
                        struct problem *problem)
{
    const int found = find_filter(config, filter_name, problem);
    if (found < 0)
        return found;
    uint32_t stream = 0;
    while (stream < config->stream_count && !stream_uses(&config->streams[stream], (uint32_t)found))
        stream++;
    const bool used = stream < config->stream_count;
    *subject = subject_of(config, (uint32_t)found, &config->streams[used ? stream : 0], spec);
    if (!used)
        subject->stream_name = NULL;
    return 0;
}

int design_report_config(const struct config *config, const char *filter_name, const char *out_path,
                         FILE *out, struct problem *problem)
{
    const int found = find_filter(config, filter_name, problem);
    if (found < 0)
        return found;
    uint32_t filter = (uint32_t)found, printed = 0;
    uint32_t taps_shown = isatty(fileno(out)) ? TAPS_SHOWN : TAPS_MAX;
    for (uint32_t i = 0; i < config->stream_count; i++) {
        if (!stream_uses(&config->streams[i], filter) || rate_known(config, filter, i))
            continue;
        struct filter_spec spec;
        struct design_subject subject = subject_of(config, filter, &config->streams[i], &spec);
        int error = design_report(&subject, printed == 0 ? out_path : NULL,
                                  printed == 0 ? taps_shown : 0, out, problem);
        if (error != 0)
            return error;
        printed++;
    }
    if (printed > 0)
        return 0;
    struct filter_spec spec;
    struct design_subject subject;
    int error = design_subject_find(config, filter_name, &spec, &subject, problem);
    return error != 0 ? error : design_report(&subject, out_path, taps_shown, out, problem);
}
