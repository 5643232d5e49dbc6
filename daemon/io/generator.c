/*
 * Source `generator`: a waveform as a rig would send it, in the stream's wire format, in real
 * time or as fast as the stream has room. The samples are computed on the producer thread of
 * io/replay.c from the frame number alone, so a run can be repeated and checked anywhere.
 */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "core/level.h"
#include "core/log.h"
#include "core/point.h"
#include "io/generator.h"
#include "io/replay.h"
#include "io/rows.h"
#include "io/sources.h"

#define PI 3.14159265358979323846

struct generator {
    struct waveform *waveform;
    const char *stream;
    struct sample_format format;
    uint32_t channels;
    uint64_t next, end; /* frames; end UINT64_MAX: endless */
    double *offsets;    /* [channels]: normalised code = (value + offset) * factor */
    double *factors;
    double *values; /* [chunk_frames][channels] */
    bool alike;     /* all channels have the same codes: one is computed */
    bool clipped;   /* the warning was logged */
};

static bool channels_alike(const struct generator *g)
{
    bool alike = waveform_alike(g->waveform);
    for (uint32_t c = 1; alike && c < g->channels; c++)
        alike = g->offsets[c] == g->offsets[0] && g->factors[c] == g->factors[0];
    return alike;
}

static void generator_release(void *context)
{
    struct generator *g = context;
    waveform_free(g->waveform);
    free(g->offsets);
    free(g->factors);
    free(g->values);
    free(g);
}

static uint32_t generator_fill(void *context, uint8_t *payload, uint32_t frames)
{
    struct generator *g = context;
    if (frames > g->end - g->next)
        frames = (uint32_t)(g->end - g->next);
    waveform_fill(g->waveform, g->next, frames, g->values);
    const double *value = g->values;
    const uint32_t encoded = g->alike ? 1 : g->channels;
    bool clipped = false;
    for (uint32_t i = 0; i < frames; i++, value += g->channels) {
        const uint8_t *frame = payload;
        for (uint32_t c = 0; c < g->channels; c++, payload += g->format.bytes) {
            if (c < encoded)
                clipped |=
                    sample_encode(&g->format, (value[c] + g->offsets[c]) * g->factors[c], payload);
            else
                memcpy(payload, frame, g->format.bytes);
        }
    }
    if (clipped && !g->clipped) {
        log_warning("stream %s: the generated signal exceeds full scale and is clipped; lower "
                    "`amplitude` or raise `full scale`",
                    g->stream);
        g->clipped = true;
    }
    g->next += frames;
    return frames;
}

/* ---- plate -------------------------------------------------------------------------------- */

static struct point *points_of(const struct option_values *values)
{
    struct point *points = calloc(values->count + 1, sizeof *points);
    for (unsigned i = 0; points != NULL && i < values->count; i++)
        points[i] = point_of(&values->values[i]);
    return points;
}

/* The waveform with the plate of the options, if they have one. */
static int create_waveform(const struct generator_options *own, const struct waveform_spec *spec,
                           struct waveform **out, struct problem *problem)
{
    if (own->sensors.count == 0)
        return waveform_create(spec, out, problem);
    struct point *sensors = points_of(&own->sensors), *sources = points_of(&own->sources);
    struct point *extent = points_of(&own->extent);
    int status = ERROR_MEMORY;
    if (sensors == NULL || sources == NULL || extent == NULL) {
        problem_set(problem, ERROR_MEMORY, "out of memory for a plate");
    } else {
        const struct plate_spec plate = {
            .sensors = sensors,
            .sensor_count = own->sensors.count,
            .sources = sources,
            .source_count = own->sources.count,
            .extent = own->extent.count > 0 ? extent : NULL,
            .velocity_m_s = own->velocity != NULL ? own->velocity->number : 0,
            .spreading = own->spreading,
        };
        struct waveform_spec with = *spec;
        with.plate = &plate;
        status = waveform_create(&with, out, problem);
    }
    free(sensors);
    free(sources);
    free(extent);
    return status;
}

/* ---- life -------------------------------------------------------------------------------- */

static int generator_open(const struct source_options *options,
                          const struct io_environment *environment, const struct source_host *host,
                          struct source **out, struct problem *problem)
{
    const struct generator_options *own = options->own;
    /* The counter counts codes, so it stays a fraction of full scale. */
    const struct channel_scale *scales =
        own->waveform.kind != WAVEFORM_COUNTER ? options->scales : NULL;
    struct generator *g = calloc(1, sizeof *g);
    if (g == NULL)
        goto no_memory;
    uint32_t chunk_frames = replay_chunk_frames(options->frame_bytes);
    g->stream = options->stream;
    g->format = options->format;
    g->channels = options->channels;
    g->end = own->length_frames > 0 ? own->length_frames : UINT64_MAX;
    g->offsets = calloc(options->channels, sizeof *g->offsets);
    g->factors = calloc(options->channels, sizeof *g->factors);
    g->values = calloc((size_t)chunk_frames * options->channels, sizeof *g->values);
    if (g->offsets == NULL || g->factors == NULL || g->values == NULL)
        goto no_memory;
    for (uint32_t c = 0; c < options->channels; c++) {
        g->factors[c] = 1.0;
        if (scales != NULL) {
            g->offsets[c] = scales[c].offset;
            g->factors[c] = 1.0 / channel_scale_factor(&scales[c]);
        }
    }
    struct waveform_spec spec = own->waveform;
    spec.rate_hz = options->rate_hz;
    spec.channels = options->channels;
    int status = create_waveform(own, &spec, &g->waveform, problem);
    if (status != 0) {
        generator_release(g);
        return problem_prefix(problem, status, "stream %s", options->stream);
    }
    g->alike = channels_alike(g);
    struct replay_spec replay = {
        .stream = options->stream,
        .rate_hz = options->rate_hz,
        .frame_bytes = options->frame_bytes,
        .paced = options->paced,
        .all_frames = own->length_frames,
        .chunk_frames = chunk_frames,
        .fill = generator_fill,
        .release = generator_release,
        .context = g,
    };
    return replay_open(&replay, environment, host, out, problem);

no_memory:
    if (g != NULL)
        generator_release(g);
    return problem_set(problem, ERROR_MEMORY, "stream %s: out of memory for its generator",
                       options->stream);
}

/* ---- options ------------------------------------------------------------------------------ */

static const struct option_choice kinds[] = {
    {"sine", WAVEFORM_SINE},
    {"chirp", WAVEFORM_CHIRP},
    {"noise", WAVEFORM_NOISE},
    {"impulses", WAVEFORM_IMPULSES},
    {"dc", WAVEFORM_DC},
    {"burst-rect", WAVEFORM_BURST_RECT},
    {"burst-triangle", WAVEFORM_BURST_TRIANGLE},
    {"burst-sine2", WAVEFORM_BURST_SINE2},
    {"tone-burst", WAVEFORM_TONE_BURST},
    {"ae", WAVEFORM_AE},
    {"counter", WAVEFORM_COUNTER},
    {NULL, 0},
};

static const struct option_choice windows[] = {{"none", PULSE_WINDOW_NONE},
                                               {"hann", PULSE_WINDOW_HANN},
                                               {"tukey", PULSE_WINDOW_TUKEY},
                                               {NULL, 0}};

static const char by_waveform[] = "a rule of the waveform";

#define FIELD(member) OPTION_FIELD(struct generator_options, member)

enum { ROW_DURATION = 23, ROWS = 25 };

static const struct option_row rows[ROWS] = {
    {.key = "waveform",
     .type = OPTION_CHOICE,
     .fallback = "sine",
     .choices = kinds,
     FIELD(kind),
     .sentence =
         "The generator's signal: sine, linear chirp, white noise, impulses, DC, a burst of "
         "EN 13477-2 (rectangular, triangular or sin2 envelope), tone-burst (windowed cycles, as "
         "guided waves are excited), ae (random acoustic emissions), counter (the frame number)."},
    {.key = "amplitude",
     .type = OPTION_OWN,
     .parse = level_parse,
     .words = LEVEL_WORDS,
     .fallback_words = "half of full scale",
     FIELD(amplitude),
     .sentence = "Peak value of the waveform, for noise its standard deviation."},
    {.key = "frequency",
     .type = OPTION_FREQUENCY,
     .above_minimum = true,
     .maximum = 5e9,
     .fallback_words = by_waveform,
     FIELD(frequency),
     .sentence = "Frequency of a sine, start of a chirp, carrier of a burst."},
    {.key = "frequency end",
     .type = OPTION_FREQUENCY,
     .maximum = 5e9,
     .fallback_words = by_waveform,
     FIELD(frequency_end),
     .sentence = "Last frequency of a chirp."},
    {.key = "length",
     .type = OPTION_TIME,
     .above_minimum = true,
     .maximum = 3600,
     .fallback_words = by_waveform,
     FIELD(length),
     .sentence = "Duration of one chirp or burst; that of a tone burst is cycles / frequency."},
    {.key = "cycles",
     .type = OPTION_NUMBER,
     .above_minimum = true,
     .maximum = 1e6,
     .fallback_words = "5",
     FIELD(cycles),
     .sentence = "Cycles of a tone burst."},
    {.key = "window",
     .type = OPTION_CHOICE,
     .choices = windows,
     .fallback_words = "hann for a tone burst, none for a chirp",
     FIELD(window),
     .sentence = "Window of a tone burst or chirp."},
    {.key = "taper",
     .type = OPTION_RATIO,
     .above_minimum = true,
     .maximum = 1,
     .fallback = "25 %",
     FIELD(taper),
     .sentence = "Part of a Tukey window that is tapered, both ends together."},
    {.key = "period",
     .type = OPTION_TIME,
     .maximum = 86400,
     .fallback_words = by_waveform,
     FIELD(period),
     .sentence = "Time from one impulse, chirp or burst to the next; 0 gives only one."},
    {.key = "phase",
     .type = OPTION_ANGLE,
     .minimum = -360,
     .maximum = 360,
     .fallback = "0 deg",
     FIELD(phase),
     .sentence = "Phase of the sine or carrier at frame 0."},
    {.key = "channel phase",
     .type = OPTION_ANGLE,
     .minimum = -360,
     .maximum = 360,
     .fallback = "0 deg",
     FIELD(channel_phase),
     .sentence = "Added to the phase from each channel to the next."},
    {.key = "channel delay",
     .type = OPTION_DELAY,
     .maximum = 1e12,
     .fallback_words = by_waveform,
     FIELD(channel_delay),
     .sentence = "Delay from each channel to the next, in frames or as a time, as a wave that "
                 "passes the sensors one after the other."},
    {.key = "dc",
     .type = OPTION_OWN,
     .parse = level_parse,
     .words = LEVEL_WORDS,
     .minimum = -1e12,
     .fallback = "0",
     FIELD(dc),
     .sentence = "A constant added to the waveform."},
    {.key = "noise",
     .type = OPTION_OWN,
     .parse = level_parse,
     .words = LEVEL_WORDS,
     .fallback_words = by_waveform,
     FIELD(noise),
     .sentence = "Standard deviation of white noise added to the waveform."},
    {.key = "seed",
     .type = OPTION_COUNT,
     .maximum = 9007199254740992.0,
     .fallback = "1",
     FIELD(seed),
     .sentence = "Seed of noise and random arrivals; the same seed gives the same signal."},
    {.key = "arrivals",
     .type = OPTION_FREQUENCY,
     .above_minimum = true,
     .maximum = 1e6,
     .fallback_words = by_waveform,
     FIELD(arrivals),
     .sentence = "Mean number of acoustic emissions a second, such as 20 /s."},
    {.key = "rise",
     .type = OPTION_TIME,
     .maximum = 3600,
     .fallback_words = by_waveform,
     FIELD(rise),
     .sentence = "Rise of an acoustic emission's envelope."},
    {.key = "decay",
     .type = OPTION_TIME,
     .above_minimum = true,
     .maximum = 3600,
     .fallback_words = by_waveform,
     FIELD(decay),
     .sentence = "Time constant with which an acoustic emission's envelope decays."},
    {.key = "sensors",
     .type = OPTION_OWN,
     .list = LIST_COMMA,
     .parse = point_option,
     .keyword = "none",
     .words = POINT_WORDS,
     .fallback_words = "a line of sensors, `channel delay` apart",
     FIELD(sensors),
     .sentence = "Where the sensor of each channel sits on a plate (x y) or a line (x): acoustic "
                 "emissions reach it after way / velocity, with fractions of a frame."},
    {.key = "sources",
     .type = OPTION_OWN,
     .list = LIST_COMMA,
     .parse = point_option,
     .words = POINT_WORDS,
     .fallback_words = "anywhere in the extent",
     FIELD(sources),
     .sentence = "Where acoustic emissions come from, one of these at random."},
    {.key = "extent",
     .type = OPTION_OWN,
     .list = LIST_COMMA,
     .parse = point_option,
     .words = POINT_WORDS,
     .fallback_words = "the sensors' box",
     FIELD(extent),
     .sentence = "Two opposite corners of where acoustic emissions come from."},
    {.key = "velocity",
     .type = OPTION_VELOCITY,
     .above_minimum = true,
     .maximum = 1e6,
     .fallback_words = "none: sensors need one",
     FIELD(velocity),
     .sentence = "Velocity of the waves from a source to the sensors."},
    {.key = "spreading",
     .type = OPTION_BOOLEAN,
     .fallback = "no",
     FIELD(spreading),
     .sentence = "Amplitudes fall with the root of the way, from `amplitude` at 100 mm."},
    [ROW_DURATION] = {.key = "duration",
                      .type = OPTION_SPAN,
                      .minimum = 1,
                      .maximum = 9007199254740992.0,
                      .fallback_words = "endless",
                      FIELD(duration),
                      .sentence = "How much the generator gives before it ends the stream."},
    SOURCE_ROW_PACE,
};

/* Amplitudes that are written are in the unit of channel 1. */
static void set_amplitude(const struct option_check *check, const struct source_options *options,
                          const char *key, double *out)
{
    const struct option_value *value = check->written(check->context, key);
    const struct level_scale scale = {.unit = options->scales[0].unit,
                                      .full_scale = channel_scale_factor(&options->scales[0])};
    if (value != NULL)
        level_amplitude(check, key, value, &scale, out);
}

static void set_number(const struct option_value *value, double factor, double *out)
{
    if (value != NULL)
        *out = factor * value->number;
}

/* A problem of create_waveform begins with the key it is about. */
static const char *key_of(const struct problem *problem)
{
    for (int i = 0; i < ROWS; i++) {
        size_t length = strlen(rows[i].key);
        if (strncmp(problem->text, rows[i].key, length) == 0 &&
            (problem->text[length] == ' ' || problem->text[length] == ':'))
            return rows[i].key;
    }
    return rows[0].key;
}

/* Keys that mean nothing with the waveform. */
static void check_pulse(const struct option_check *check, const struct generator_options *own)
{
    const bool burst = own->kind == WAVEFORM_TONE_BURST;
    if (own->cycles != NULL && !burst)
        option_error(check, "cycles",
                     "`cycles` belongs to `waveform = tone-burst`; write that, or remove it");
    if (own->length != NULL && burst)
        option_error(check, "length",
                     "a tone burst lasts cycles / frequency; write `cycles`, and remove `length`");
    if (own->window != NULL && !burst && own->kind != WAVEFORM_CHIRP)
        option_error(check, "window",
                     "`window` belongs to `waveform = tone-burst` or `chirp`; remove it");
    if (option_given(check, "taper") && own->waveform.window != PULSE_WINDOW_TUKEY)
        option_error(check, "taper",
                     "`taper` belongs to `window = tukey`; write that, or remove it");
}

static void check_plate(const struct option_check *check, const struct generator_options *own)
{
    static const char *const keys[] = {"sensors", "sources", "extent", "velocity", "spreading"};
    for (size_t i = 0; i < sizeof keys / sizeof keys[0]; i++) {
        if (!option_given(check, keys[i]))
            continue;
        if (own->kind != WAVEFORM_AE)
            option_error(check, keys[i],
                         "`%s` belongs to `waveform = ae`; write that, or remove it", keys[i]);
        else if (own->sensors.count == 0)
            option_error(check, keys[i],
                         "`%s` needs the sensors' places: write `sensors`, or "
                         "remove it",
                         keys[i]);
    }
    if (own->extent.count != 0 && own->extent.count != 2)
        option_error(check, "extent", "`extent` has %u point%s; write two opposite corners",
                     own->extent.count, own->extent.count == 1 ? "" : "s");
}

/* ---- checks ------------------------------------------------------------------------------- */

/* Channel 1 begins with the pulse. Frees the waveform. */
static void set_excitation(struct source_options *options, struct waveform *waveform)
{
    struct waveform_excitation pulse;
    if (waveform_excitation(waveform, &pulse))
        options->excitation =
            (struct excitation){.known = true, .period_frames = pulse.period_frames};
    waveform_free(waveform);
}

static int generator_check(const struct option_check *check, const struct daemon_facts *facts,
                           struct source_options *options)
{
    (void)facts;
    struct generator_options *own = options->own;
    struct waveform_spec *waveform = &own->waveform;
    waveform_defaults(waveform, own->kind);
    waveform->rate_hz = options->rate_hz;
    waveform->channels = options->channels;
    /* The defaults are fractions of full scale; what the user writes is in the unit. */
    if (own->kind != WAVEFORM_COUNTER) {
        double full_scale = channel_scale_factor(&options->scales[0]);
        waveform->amplitude *= full_scale;
        waveform->noise *= full_scale;
    }
    /* Slow streams cannot carry the default tones. */
    waveform->frequency_hz = fmin(waveform->frequency_hz, waveform->rate_hz / 8);
    waveform->frequency_end_hz = fmin(waveform->frequency_end_hz, waveform->rate_hz / 4);
    set_amplitude(check, options, "amplitude", &waveform->amplitude);
    set_amplitude(check, options, "dc", &waveform->offset);
    set_amplitude(check, options, "noise", &waveform->noise);
    set_number(own->frequency, 1, &waveform->frequency_hz);
    set_number(own->frequency_end, 1, &waveform->frequency_end_hz);
    set_number(own->length, 1, &waveform->length_s);
    set_number(own->period, 1, &waveform->period_s);
    set_number(own->phase, PI / 180, &waveform->phase_rad);
    set_number(own->channel_phase, PI / 180, &waveform->channel_phase_rad);
    set_number(own->channel_delay,
               own->channel_delay != NULL && own->channel_delay->dimension == DIMENSION_TIME
                   ? 1
                   : 1 / waveform->rate_hz,
               &waveform->channel_delay_s);
    set_number(own->cycles, 1, &waveform->cycles);
    if (own->window != NULL)
        waveform->window = (enum pulse_window)own->window->integer;
    waveform->taper = own->taper;
    set_number(own->arrivals, 1, &waveform->arrivals_per_s);
    set_number(own->rise, 1, &waveform->rise_s);
    set_number(own->decay, 1, &waveform->decay_s);
    waveform->seed = own->seed;
    check_pulse(check, own);
    check_plate(check, own);
    option_frames(check, &rows[ROW_DURATION], own->duration, options->rate_hz, &own->length_frames);

    struct waveform *made;
    struct problem problem;
    if (own->extent.count != 0 && own->extent.count != 2)
        return 0; /* reported */
    if (create_waveform(own, waveform, &made, &problem) != 0)
        option_error(check, key_of(&problem), "the generator of stream %s: %s", options->stream,
                     problem.text);
    else
        set_excitation(options, made);
    return 0;
}

static const char *generator_describe(const struct source_options *options, char *text,
                                      size_t bytes)
{
    const struct generator_options *own = options->own;
    snprintf(text, bytes, ", %s", waveform_kind_name(own->waveform.kind));
    return text;
}

static uint64_t generator_memory(const struct source_options *options)
{
    return replay_memory(options->frame_bytes) +
           (uint64_t)replay_chunk_frames(options->frame_bytes) * options->channels * sizeof(double);
}

const struct source_ops source_generator = {
    .name = "generator",
    .sentence = "a test signal",
    .loss = REPLAY_LOSS,
    .converter = true,
    .format = "f32le",
    .padded = true,
    .options = rows,
    .option_count = ROWS,
    .options_bytes = sizeof(struct generator_options),
    .check = generator_check,
    .describe = generator_describe,
    .live = false,
    .loss_detectable = true,
    .memory = generator_memory,
    .open = generator_open,
    .arm = replay_arm,
    .start = replay_start,
    .resume = replay_resume,
    .stop = replay_stop,
    .close = replay_close,
    .ledger = replay_ledger,
    .port = replay_port,
    .progress = replay_progress,
    .working = replay_working,
};
