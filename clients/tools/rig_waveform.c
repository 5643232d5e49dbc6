/* A rig's waveform: see rig_waveform.h. */
#include "rig_waveform.h"

#include <math.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>

#define RADIANS (3.14159265358979323846 / 180)

void rig_waveform_defaults(struct rig_waveform *waveform)
{
    *waveform = (struct rig_waveform){
        .kind = "sine",
        .amplitude = NAN,
        .frequency = NAN,
        .frequency_end = NAN,
        .length = NAN,
        .cycles = NAN,
        .period = NAN,
        .phase = NAN,
        .channel_phase = NAN,
        .channel_delay = NAN,
        .channel_delay_frames = NAN,
        .offset = NAN,
        .noise = NAN,
        .arrivals = NAN,
        .rise = NAN,
        .decay = NAN,
        .taper = NAN,
        .velocity = NAN,
    };
}

static void set_if_given(double *field, double value)
{
    if (!isnan(value))
        *field = value;
}

/* "0 0, 1 m 0" into at most `capacity` points. */
static int read_points(const char *name, const char *text, struct point *points, uint32_t capacity,
                       uint32_t *count, struct problem *problem)
{
    *count = 0;
    for (const char *at = text; at != NULL && *count < capacity;) {
        const char *comma = strchr(at, ',');
        const size_t bytes = comma != NULL ? (size_t)(comma - at) : strlen(at);
        char item[80];
        snprintf(item, sizeof item, "%.*s", (int)bytes, at);
        struct problem detail;
        struct point *point = &points[(*count)++];
        *point = (struct point){0};
        if (strcmp(item + strspn(item, " "), "none") != 0 && point_parse(item, point, &detail) != 0)
            return problem_set(problem, ERROR_ARGUMENT, "--%s: %s", name, detail.text);
        at = comma != NULL ? comma + 1 : NULL;
    }
    return 0;
}

static int read_plate(const struct rig_waveform *waveform, struct waveform_spec *spec,
                      struct rig_plate *plate, struct problem *problem)
{
    if (waveform->sensors == NULL) {
        if (waveform->sources != NULL || waveform->extent != NULL || !isnan(waveform->velocity))
            return problem_set(problem, ERROR_ARGUMENT,
                               "--sources, --extent and --velocity need --sensors");
        return 0;
    }
    uint32_t corners;
    plate->spec = (struct plate_spec){.sensors = plate->sensors,
                                      .sources = plate->sources,
                                      .extent = waveform->extent != NULL ? plate->extent : NULL,
                                      .spreading = waveform->spreading};
    set_if_given(&plate->spec.velocity_m_s, waveform->velocity);
    int status = read_points("sensors", waveform->sensors, plate->sensors, RIG_POINTS_MAX,
                             &plate->spec.sensor_count, problem);
    if (status == 0)
        status = read_points("sources", waveform->sources, plate->sources, RIG_POINTS_MAX,
                             &plate->spec.source_count, problem);
    if (status == 0)
        status = read_points("extent", waveform->extent, plate->extent, 2, &corners, problem);
    if (status == 0 && waveform->extent != NULL && corners != 2)
        status = problem_set(problem, ERROR_ARGUMENT, "--extent %s: write two opposite corners",
                             waveform->extent);
    spec->plate = &plate->spec;
    return status;
}

int rig_waveform_spec(const struct rig_waveform *waveform, double rate_hz, uint32_t channels,
                      uint64_t seed, struct waveform_spec *spec, struct rig_plate *plate,
                      struct problem *problem)
{
    enum waveform_kind kind;
    if (waveform_kind_parse(waveform->kind, &kind) != 0)
        return problem_set(problem, ERROR_ARGUMENT, "--signal %s: see --help for the kinds",
                           waveform->kind);
    waveform_defaults(spec, kind);
    spec->rate_hz = rate_hz;
    spec->channels = channels;
    spec->seed = seed;
    set_if_given(&spec->amplitude, waveform->amplitude);
    set_if_given(&spec->frequency_hz, waveform->frequency);
    set_if_given(&spec->frequency_end_hz, waveform->frequency_end);
    set_if_given(&spec->length_s, waveform->length);
    set_if_given(&spec->cycles, waveform->cycles);
    set_if_given(&spec->period_s, waveform->period);
    set_if_given(&spec->phase_rad, waveform->phase * RADIANS);
    set_if_given(&spec->channel_phase_rad, waveform->channel_phase * RADIANS);
    set_if_given(&spec->channel_delay_s, waveform->channel_delay);
    set_if_given(&spec->channel_delay_s, waveform->channel_delay_frames / rate_hz);
    set_if_given(&spec->offset, waveform->offset);
    set_if_given(&spec->noise, waveform->noise);
    set_if_given(&spec->arrivals_per_s, waveform->arrivals);
    set_if_given(&spec->rise_s, waveform->rise);
    set_if_given(&spec->decay_s, waveform->decay);
    set_if_given(&spec->taper, waveform->taper);
    const int status = read_plate(waveform, spec, plate, problem);
    if (status != 0)
        return status;
    if (waveform->window == NULL)
        return 0;
    for (int window = 0; pulse_window_name(window) != NULL; window++)
        if (strcmp(waveform->window, pulse_window_name(window)) == 0) {
            spec->window = (enum pulse_window)window;
            return 0;
        }
    return problem_set(problem, ERROR_ARGUMENT, "--window %s: write none, hann or tukey",
                       waveform->window);
}
