/* Makes a filter, measures it, chooses the page and writes its title: see filter_plot.h. */
#include "filter_plot.h"

#include <math.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "panels.h"
#include "report/units.h"

enum { TITLE_TEXT = 160, SUBTITLE_TEXT = 240 };

static bool is_picture(const char *path)
{
    const size_t length = strlen(path);
    return length > 4 && (strcasecmp(path + length - 4, ".png") == 0 ||
                          strcasecmp(path + length - 4, ".svg") == 0);
}

static int plot_response(const struct design_subject *s, const struct taps *taps,
                         const struct response *response, const char *path, struct problem *problem)
{
    char title[TITLE_TEXT], subtitle[SUBTITLE_TEXT];
    char rate[UNITS_TEXT], delay[UNITS_TEXT], level[UNITS_TEXT];
    snprintf(title, sizeof title, "%s: %s, %u taps at %s", s->filter_name,
             filter_type_name((int)s->spec->type), taps->count, units_si(s->rate_hz, "Hz", rate));
    int used = snprintf(subtitle, sizeof subtitle, "delay %g frames (%s), noise gain %.4g",
                        taps->delay_frames, units_si(taps->delay_frames / s->rate_hz, "s", delay),
                        response->noise_gain);
    if (!isnan(response->attenuation_db))
        snprintf(subtitle + used, sizeof subtitle - (size_t)used, ", attenuation %s",
                 units_db(response->attenuation_db, level));
    const struct response_picture picture = {title, subtitle, taps, response, s->rate_hz};
    return response_plot(&picture, path, problem);
}

static int plot_array(const struct design_subject *s, struct taps *const *sets, const char *path,
                      struct problem *problem)
{
    const struct fk_spec *spec = &s->spec->fk;
    struct fk_measure *measure = malloc(sizeof *measure);
    if (measure == NULL)
        return problem_set(problem, ERROR_MEMORY, "no memory for the plot");
    int error = fk_measure(spec, s->rate_hz, sets, measure, problem);
    if (error == 0) {
        char title[TITLE_TEXT], subtitle[SUBTITLE_TEXT];
        char rate[UNITS_TEXT], spacing[UNITS_TEXT], middle[UNITS_TEXT], ends[UNITS_TEXT];
        const double *rejection_db = measure->rejection_db;
        snprintf(title, sizeof title, "%s: fk, %u channels %s apart, %u taps at %s", s->filter_name,
                 spec->channels, units_si(spec->spacing_m, "m", spacing), spec->taps,
                 units_si(s->rate_hz, "Hz", rate));
        snprintf(subtitle, sizeof subtitle,
                 "plane waves at channel %u; rejection %s (channels %u to %u), %s (ends); "
                 "resolution %.4g /m",
                 spec->channels / 2 + 1, units_db(measure->middle_rejection_db, middle),
                 measure->middle_from + 1, measure->middle_until,
                 units_db(fmin(rejection_db[0], rejection_db[spec->channels - 1]), ends),
                 measure->resolution_per_m);
        const struct array_picture picture = {title, subtitle, spec, sets, s->rate_hz};
        error = array_plot(&picture, path, problem);
    }
    free(measure);
    return error;
}

int filter_plot(const struct design_subject *subject, const char *path, struct problem *problem)
{
    if (!is_picture(path))
        return problem_set(problem, ERROR_ARGUMENT,
                           "--out %s: end the name in .png or .svg; convolvd --design writes taps "
                           "(.txt, .npy)",
                           path);
    struct taps **sets;
    uint32_t count;
    struct filter_measure measure;
    int error = filter_make(subject->spec, subject->rate_hz, &sets, &count, &measure, problem);
    if (error != 0)
        return problem_prefix(problem, error, "filter %s", subject->filter_name);
    error = subject->spec->type == FILTER_FK
                ? plot_array(subject, sets, path, problem)
                : plot_response(subject, sets[0], &measure.response, path, problem);
    taps_sets_free(sets, count);
    return error;
}
