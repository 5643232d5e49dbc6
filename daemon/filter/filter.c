/*
 * Filters: see filter.h. Maps the types onto loading, design, matching, arrays and the identity,
 * and applies gain and the rule of delays. No state; worker threads.
 */
#include "filter/filter.h"

#include <assert.h>
#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum filter_from {
    FILTER_FROM_DESIGN,
    FILTER_FROM_FILE,
    FILTER_FROM_REPLICA,
    FILTER_FROM_IDENTITY,
    FILTER_FROM_FK
};

static const struct filter_kind {
    const char *name;
    enum filter_from from;
    enum band_type band;
    enum replica_kind replica;
} kinds[FILTER_TYPES] = {
/* clang-format off */
#define X(id, text) [FILTER_##id].name = text,
    FILTER_TYPE_TABLE(X)
#undef X
    [FILTER_LOWPASS].from = FILTER_FROM_DESIGN,  [FILTER_LOWPASS].band = BAND_LOWPASS,
    [FILTER_HIGHPASS].from = FILTER_FROM_DESIGN, [FILTER_HIGHPASS].band = BAND_HIGHPASS,
    [FILTER_BANDPASS].from = FILTER_FROM_DESIGN, [FILTER_BANDPASS].band = BAND_BANDPASS,
    [FILTER_BANDSTOP].from = FILTER_FROM_DESIGN, [FILTER_BANDSTOP].band = BAND_BANDSTOP,
    [FILTER_FILE].from = FILTER_FROM_FILE,
    [FILTER_CHIRP].from = FILTER_FROM_REPLICA,   [FILTER_CHIRP].replica = REPLICA_CHIRP,
    [FILTER_TONE_BURST].from = FILTER_FROM_REPLICA, [FILTER_TONE_BURST].replica = REPLICA_TONE_BURST,
    [FILTER_BARKER].from = FILTER_FROM_REPLICA,  [FILTER_BARKER].replica = REPLICA_BARKER,
    [FILTER_GOLAY].from = FILTER_FROM_REPLICA,   [FILTER_GOLAY].replica = REPLICA_GOLAY,
    [FILTER_REPLICA].from = FILTER_FROM_REPLICA, [FILTER_REPLICA].replica = REPLICA_FILE,
    [FILTER_IDENTITY].from = FILTER_FROM_IDENTITY,
    [FILTER_FK].from = FILTER_FROM_FK,
    /* clang-format on */
};

const char *filter_type_name(int type)
{
    return type >= 0 && type < FILTER_TYPES ? kinds[type].name : NULL;
}

bool filter_type_is_matched(enum filter_type type)
{
    return kinds[type].from == FILTER_FROM_REPLICA;
}

bool filter_type_is_design(enum filter_type type)
{
    return kinds[type].from == FILTER_FROM_DESIGN;
}

bool filter_is_complex(const struct filter_spec *spec)
{
    return spec->analytic && kinds[spec->type].from != FILTER_FROM_FILE;
}

void filter_defaults(struct filter_spec *spec, enum filter_type type)
{
    *spec = (struct filter_spec){
        .type = type, .gain = 1, .delay_frames = NAN, .delay_s = NAN, .replica.tukey_alpha = 0.25};
}

/* The parts with what follows from type, path and analytic. */
static struct design_spec design_of(const struct filter_spec *spec)
{
    struct design_spec design = spec->design;
    design.band = kinds[spec->type].band;
    design.analytic = spec->analytic;
    return design;
}

static struct replica_spec replica_of(const struct filter_spec *spec)
{
    struct replica_spec replica = spec->replica;
    replica.kind = kinds[spec->type].replica;
    replica.path = spec->path;
    replica.analytic = spec->analytic;
    return replica;
}

static int delay_check(const struct filter_spec *spec, double rate_hz, struct problem *problem)
{
    if (!isnan(spec->delay_frames) && !isnan(spec->delay_s))
        return problem_set(problem, ERROR_CONFIG,
                           "delay: given in frames and as a time; write one of them");
    double frames = isnan(spec->delay_s) ? spec->delay_frames : spec->delay_s * rate_hz;
    if (!isnan(frames) && !(frames >= 0 && frames < TAPS_MAX))
        return problem_set(problem, ERROR_CONFIG,
                           "delay: %.9g frames is out of range; write 0 to %d frames, or the time "
                           "they take",
                           frames, TAPS_MAX - 1);
    return 0;
}

int filter_check(const struct filter_spec *spec, double rate_hz, struct problem *problem)
{
    if (!(rate_hz > 0) || !isfinite(rate_hz))
        return problem_set(problem, ERROR_CONFIG, "rate: %.9g Hz is no sampling rate", rate_hz);
    if (!isfinite(spec->gain) || spec->gain == 0)
        return problem_set(problem, ERROR_CONFIG,
                           "gain: a filter's gain must be a finite number other than 0");
    int error = delay_check(spec, rate_hz, problem);
    if (error != 0)
        return error;
    switch (kinds[spec->type].from) {
    case FILTER_FROM_DESIGN: {
        struct design_spec design = design_of(spec);
        return design_check(&design, rate_hz, problem);
    }
    case FILTER_FROM_REPLICA: {
        struct replica_spec replica = replica_of(spec);
        return replica_check(&replica, rate_hz, problem);
    }
    case FILTER_FROM_FK:
        error = fk_check(&spec->fk, rate_hz, problem);
        if (error != 0)
            return error;
        break;
    case FILTER_FROM_FILE:
    case FILTER_FROM_IDENTITY:
        break;
    }
    if (spec->analytic)
        return problem_set(
            problem, ERROR_CONFIG,
            "analytic: type = %s takes its taps as they are; save complex taps in the "
            "file, or leave `analytic` out",
            kinds[spec->type].name);
    if (kinds[spec->type].from == FILTER_FROM_FILE && (spec->path == NULL || spec->path[0] == '\0'))
        return problem_set(problem, ERROR_CONFIG,
                           "path: type = file needs the file with the taps; write path = FILE");
    return 0;
}

/* ---- making ------------------------------------------------------------------------------ */

/* One set in an array of its own. */
static int single(struct taps *taps, struct taps ***sets, uint32_t *count, struct problem *problem)
{
    *sets = malloc(sizeof **sets);
    if (*sets == NULL) {
        taps_free(taps);
        return problem_set(problem, ERROR_MEMORY, "no memory for a filter");
    }
    (*sets)[0] = taps;
    *count = 1;
    return 0;
}

/* The response as the gain leaves it. */
static void scale_response(struct response *response, double gain)
{
    response->reference_gain *= fabs(gain);
    response->peak_gain *= fabs(gain);
    response->minimum_gain *= fabs(gain);
    response->noise_gain *= fabs(gain);
}

static int make_design(const struct filter_spec *spec, double rate_hz, struct taps ***sets,
                       uint32_t *count, struct response *response, struct problem *problem)
{
    struct design_spec design = design_of(spec);
    struct taps *taps;
    int error = design_make(&design, rate_hz, &taps, response, problem);
    if (error != 0)
        return error;
    scale_response(response, spec->gain);
    return single(taps, sets, count, problem);
}

static int make_identity(struct taps ***sets, uint32_t *count, struct problem *problem)
{
    struct taps *taps;
    int error = taps_create(1, false, &taps, problem);
    if (error != 0)
        return error;
    taps->re[0] = 1;
    taps->delay_source = DELAY_DESIGN;
    taps_hash(taps);
    return single(taps, sets, count, problem);
}

/* All channels share one delay: symmetric in every set, or it counts as unknown. */
static void find_delays(struct taps **sets, uint32_t count)
{
    double delay = 0;
    for (uint32_t i = 0; i < count && delay >= 0; i++)
        delay = taps_symmetry_delay(sets[i]);
    for (uint32_t i = 0; i < count; i++) {
        sets[i]->delay_frames = delay >= 0 ? delay : 0;
        sets[i]->delay_source = delay >= 0 ? DELAY_SYMMETRY : DELAY_ASSUMED;
    }
}

static void apply_gain_and_delay(const struct filter_spec *spec, double rate_hz, struct taps *taps)
{
    if (spec->gain != 1) {
        for (uint32_t n = 0; n < taps->count; n++) {
            taps->re[n] *= spec->gain;
            if (taps->im != NULL)
                taps->im[n] *= spec->gain;
        }
        bool from_file = kinds[spec->type].from == FILTER_FROM_FILE || spec->type == FILTER_REPLICA;
        if (!from_file)
            taps_hash(taps);
    }
    double asked = isnan(spec->delay_s) ? spec->delay_frames : spec->delay_s * rate_hz;
    if (!isnan(asked)) {
        taps->delay_frames = asked;
        taps->delay_source = DELAY_CONFIG;
    }
}

/* ---- warnings ---------------------------------------------------------------------------- */

static bool all_zero(const struct taps *taps)
{
    for (uint32_t n = 0; n < taps->count; n++)
        if (taps->re[n] != 0 || (taps->im != NULL && taps->im[n] != 0))
            return false;
    return true;
}

/* Joins the sentences of a warning. */
static void __attribute__((format(printf, 2, 3)))
warn(struct filter_measure *measure, const char *format, ...)
{
    const size_t used = strlen(measure->warning);
    char *at = measure->warning + used;
    size_t room = sizeof measure->warning - used;
    va_list arguments;
    int length = used > 0 ? snprintf(at, room, "; ") : 0;
    va_start(arguments, format);
    if ((size_t)length < room)
        vsnprintf(at + length, room - (size_t)length, format, arguments);
    va_end(arguments);
}

static void set_warning(double rate_hz, const struct taps *taps, struct filter_measure *measure)
{
    if (all_zero(taps)) {
        warn(measure, "every tap is 0: the output will be silence");
        return;
    }
    if (taps->file_rate_hz > 0 && fabs(taps->file_rate_hz - rate_hz) > 1e-3 * rate_hz)
        warn(measure,
             "the file says its taps are for %.9g Hz and the stream runs at %.9g Hz: every "
             "frequency of the filter moves by that ratio",
             taps->file_rate_hz, rate_hz);
    if (taps->delay_source == DELAY_ASSUMED)
        warn(measure, "the taps are not symmetric, so their delay is unknown and taken as 0 "
                      "frames; write `delay` (in frames or as a time) if time stamps matter");
}

/* With taps and transition given and no attenuation asked, whatever comes out counts as wanted. */
static void warn_of_design(const struct filter_spec *spec, double rate_hz, const struct taps *taps,
                           struct filter_measure *measure)
{
    const struct design_spec *design = &spec->design;
    const double usual_db = DESIGN_ATTENUATION_DB;
    if (design->taps == 0 || design->transition_hz == 0 || design->attenuation_db != 0 ||
        measure->response.attenuation_db >= usual_db - 1)
        return;
    struct design_spec asked = design_of(spec);
    warn(measure,
         "%u taps attenuate by %.3g dB with a transition of %.6g Hz, not by the usual %.3g dB; "
         "write taps = %llu or more, or `attenuation` if that will do",
         taps->count, measure->response.attenuation_db, design->transition_hz, usual_db,
         (unsigned long long)design_length(&asked, rate_hz));
}

/* ---- sets -------------------------------------------------------------------------------- */

int filter_make(const struct filter_spec *spec, double rate_hz, struct taps ***sets,
                uint32_t *count, struct filter_measure *measure, struct problem *problem)
{
    *sets = NULL;
    *count = 0;
    int error = filter_check(spec, rate_hz, problem);
    if (error != 0)
        return error;
    struct response designed;
    switch (kinds[spec->type].from) {
    case FILTER_FROM_DESIGN:
        error = make_design(spec, rate_hz, sets, count, &designed, problem);
        break;
    case FILTER_FROM_REPLICA: {
        struct replica_spec replica = replica_of(spec);
        error = replica_matched(&replica, rate_hz, sets, count, problem);
        break;
    }
    case FILTER_FROM_FILE:
        error = taps_load(spec->path, sets, count, problem);
        if (error == 0)
            find_delays(*sets, *count);
        break;
    case FILTER_FROM_FK:
        error = fk_make(&spec->fk, rate_hz, sets, count, problem);
        break;
    case FILTER_FROM_IDENTITY:
        error = make_identity(sets, count, problem);
        break;
    }
    if (error != 0)
        return error;
    for (uint32_t i = 0; i < *count; i++)
        apply_gain_and_delay(spec, rate_hz, (*sets)[i]);
    if (measure != NULL && filter_type_is_design(spec->type)) {
        *measure = (struct filter_measure){
            .response = designed, .matched = {NAN, NAN, NAN, NAN}, .analytic = spec->analytic};
        warn_of_design(spec, rate_hz, (*sets)[0], measure);
    } else if (measure != NULL)
        error = filter_measure_set(spec, rate_hz, (*sets)[*count / 2 * (spec->type == FILTER_FK)],
                                   measure, problem);
    if (error != 0) {
        taps_sets_free(*sets, *count);
        *sets = NULL;
        *count = 0;
    }
    return error;
}

/* ---- measuring --------------------------------------------------------------------------- */

int filter_measure_set(const struct filter_spec *spec, double rate_hz, const struct taps *taps,
                       struct filter_measure *measure, struct problem *problem)
{
    *measure =
        (struct filter_measure){.matched = {NAN, NAN, NAN, NAN}, .analytic = taps->im != NULL};
    set_warning(rate_hz, taps, measure);
    int error;
    if (filter_type_is_design(spec->type)) {
        struct taps **again; /* only the design knows the bands it was judged by */
        uint32_t count;
        error = make_design(spec, rate_hz, &again, &count, &measure->response, problem);
        if (error == 0)
            taps_sets_free(again, count);
    } else {
        error = response_measure(taps, rate_hz, NULL, &measure->response, problem);
    }
    if (error == 0 && filter_type_is_matched(spec->type)) {
        struct replica_spec replica = replica_of(spec);
        error = replica_measure(&replica, rate_hz, taps, &measure->matched, problem);
    }
    return error;
}
