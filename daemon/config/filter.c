/*
 * Filters of the configuration: [filter NAME] sections into filter_spec, and each of them held
 * against the rate of every stream that uses it.
 */
#include "config/internal.h"

#include <math.h>
#include <string.h>

/* A number as given; 0, "not given" to the designs, when it is not. */
static double number_or_zero(const struct raw_section *section, enum schema_id id)
{
    return value_given(section, id) ? value_of(section, id)->number : 0;
}

static uint32_t count_or_zero(const struct raw_section *section, enum schema_id id)
{
    return value_given(section, id) ? (uint32_t)value_of(section, id)->integer : 0;
}

static void fill_design(const struct raw_section *section, struct design_spec *design)
{
    design->method = (enum design_method)value_of(section, KEY_METHOD)->integer;
    design->cutoff_hz = number_or_zero(section, KEY_CUTOFF);
    design->low_hz = number_or_zero(section, KEY_LOW);
    design->high_hz = number_or_zero(section, KEY_HIGH);
    design->transition_hz = number_or_zero(section, KEY_TRANSITION);
    design->attenuation_db = number_or_zero(section, KEY_ATTENUATION);
    design->ripple_db = number_or_zero(section, KEY_RIPPLE);
    design->taps = count_or_zero(section, KEY_TAPS);
}

static enum pulse_window window_of(const struct raw_section *section)
{
    if (value_given(section, KEY_WINDOW))
        return (enum pulse_window)value_of(section, KEY_WINDOW)->integer;
    return section->type == FILTER_TONE_BURST ? PULSE_WINDOW_HANN : PULSE_WINDOW_NONE;
}

static void fill_replica(const struct raw_section *section, struct replica_spec *replica)
{
    replica->normalise = (enum normalise)value_of(section, KEY_NORMALISE)->integer;
    replica->window = window_of(section);
    if (replica->window == PULSE_WINDOW_TUKEY)
        replica->tukey_alpha = value_of(section, KEY_TAPER)->number;
    replica->start_hz = number_or_zero(section, KEY_START);
    replica->stop_hz = number_or_zero(section, KEY_STOP);
    replica->length_s = number_or_zero(section, KEY_FILTER_LENGTH);
    replica->carrier_hz = number_or_zero(section, KEY_CARRIER);
    replica->chip_rate_hz = number_or_zero(section, KEY_CHIP_RATE);
    replica->cycles = number_or_zero(section, KEY_CYCLES);
    replica->cycles_per_chip = number_or_zero(section, KEY_CYCLES_PER_CHIP);
    if (value_given(section, KEY_CODE))
        replica->barker_length = (uint32_t)value_of(section, KEY_CODE)->integer;
    replica->golay_order = count_or_zero(section, KEY_ORDER);
    replica->golay_b = value_of(section, KEY_PAIR)->integer != 0;
}

static void fill_fk(const struct raw_section *section, struct fk_spec *fk)
{
    fk->spacing_m = number_or_zero(section, KEY_SPACING);
    fk->velocity_low = number_or_zero(section, KEY_VELOCITY_LOW);
    fk->velocity_high = number_or_zero(section, KEY_VELOCITY_HIGH);
    fk->low_hz = number_or_zero(section, KEY_LOW);
    fk->high_hz = number_or_zero(section, KEY_HIGH);
    fk->reject = value_of(section, KEY_FAN)->integer != 0;
    fk->taper = value_of(section, KEY_TAPER)->number;
    fk->attenuation_db = number_or_zero(section, KEY_ATTENUATION);
    fk->taps = count_or_zero(section, KEY_TAPS);
    fk->padding = count_or_zero(section, KEY_PADDING);
}

/* A value that was written badly is reported; designing without it would only report nonsense. */
static bool any_bad(const struct raw_section *section)
{
    for (unsigned i = 0; i < schema_count(section->kind); i++)
        if (section->settings[i].given == GIVEN_BAD)
            return true;
    return false;
}

static int build_filter(struct build *build, struct raw_section *section,
                        struct config_filter *filter)
{
    filter->name = section->name;
    filter->place = section->place;
    filter_defaults(&filter->spec,
                    section->type >= 0 ? (enum filter_type)section->type : FILTER_IDENTITY);
    if (any_bad(section))
        section->broken = true;
    if (section->broken)
        return 0;
    struct filter_spec *spec = &filter->spec;
    spec->analytic = value_of(section, KEY_ANALYTIC)->integer != 0;
    spec->gain = pow(10, value_of(section, KEY_GAIN)->number / 20);
    if (value_of(section, KEY_INVERT)->integer != 0)
        spec->gain = -spec->gain;
    if (value_given(section, KEY_DELAY)) {
        const struct option_value *delay = value_of(section, KEY_DELAY);
        *(delay->dimension == DIMENSION_TIME ? &spec->delay_s : &spec->delay_frames) =
            delay->number;
    }
    if (filter_type_is_matched(spec->type) && value_given(section, KEY_TAPER) &&
        window_of(section) != PULSE_WINDOW_TUKEY)
        config_error(build->errors, place_of(section, KEY_TAPER),
                     "`taper` belongs to `window = tukey`; write that, or remove it");
    if (value_given(section, KEY_FILTER_PATH)) {
        struct config_place place = place_of(section, KEY_FILTER_PATH);
        spec->path = build_path(build, value_of(section, KEY_FILTER_PATH)->text, place);
        if (spec->path == NULL)
            return ERROR_MEMORY;
        if (!build->world->readable(spec->path)) {
            config_error(
                build->errors, place,
                "`%s` cannot be read; write the path of a WAV, .npy or text file, or make it "
                "readable for the daemon's user",
                spec->path);
            section->broken = true;
        }
    }
    if (filter_type_is_design(spec->type))
        fill_design(section, &spec->design);
    if (filter_type_is_matched(spec->type))
        fill_replica(section, &spec->replica);
    if (spec->type == FILTER_FK)
        fill_fk(section, &spec->fk);
    return 0;
}

int build_filters(struct build *build)
{
    for (uint32_t i = 0; i < build->config->filter_count; i++)
        if (build_filter(build, build->filter_sections[i], &build->filters[i]) != 0)
            return ERROR_MEMORY;
    return 0;
}

struct filter_spec config_filter_spec(const struct config_filter *filter,
                                      const struct config_stream *stream)
{
    struct filter_spec spec = filter->spec;
    spec.fk.channels = stream->source.channels;
    return spec;
}

/* ---- against the rates ------------------------------------------------------------------------
 */

/* Keys whose frequency must lie below half the rate. */
static const enum schema_id frequency_keys[] = {
    KEY_LOW, KEY_HIGH, KEY_CUTOFF, KEY_START, KEY_STOP, KEY_CARRIER,
};

static bool check_nyquist(struct build *build, const struct raw_section *section,
                          const struct config_stream *stream)
{
    bool good = true;
    double nyquist_hz = stream->source.rate_hz / 2;
    for (size_t i = 0; i < sizeof frequency_keys / sizeof frequency_keys[0]; i++) {
        enum schema_id id = frequency_keys[i];
        if (!value_given(section, id))
            continue;
        double frequency_hz = value_of(section, id)->number;
        if (frequency_hz < nyquist_hz)
            continue;
        char half[40], rate[40];
        config_error(
            build->errors, place_of(section, id),
            "filter %s: `%s = %s` is not below half the rate of stream %s (Nyquist: %s at %s); "
            "write a frequency below %s, or raise the stream's rate",
            section->name, schema_key(id)->row.key, value_of(section, id)->text, stream->name,
            quantity_print(DIMENSION_FREQUENCY, nyquist_hz, half, sizeof half),
            quantity_print(DIMENSION_FREQUENCY, stream->source.rate_hz, rate, sizeof rate), half);
        good = false;
    }
    return good;
}

/* Where the key stands that a sentence such as "low: …" begins with, else the heading. */
static struct config_place place_named(const struct raw_section *section, const char *sentence)
{
    for (unsigned i = 0; i < schema_count(section->kind); i++) {
        const char *key = schema_at(section->kind, i)->row.key;
        const struct raw_setting *setting = &section->settings[i];
        size_t length = strlen(key);
        if (strncmp(sentence, key, length) == 0 && sentence[length] == ':')
            return setting->given != GIVEN_NOT ? setting->place : section->place;
    }
    return section->place;
}

static bool stream_uses(const struct config_stream *stream, uint32_t filter)
{
    for (uint32_t e = 0; e < stream->edge_count; e++)
        if (stream->edges[e].filter == filter)
            return true;
    return false;
}

const char *filter_named(enum schema_id way, const struct option_value *value,
                         char name[OPTION_NAME_BYTES])
{
    struct schema_route route;
    if (way != KEY_ROUTE)
        return value->text;
    schema_route(value, &route);
    memcpy(name, route.filter, OPTION_NAME_BYTES);
    return name;
}

/* Whether a stream that has other errors, and so no edges, names the filter. */
static bool section_names(const struct raw_section *section, const char *filter)
{
    static const enum schema_id ways[] = {KEY_FILTER, KEY_BANK, KEY_ROUTE};
    for (int way = 0; way < 3; way++) {
        const struct raw_setting *setting = raw_setting_of(section, ways[way]);
        for (unsigned i = 0; setting->given == GIVEN_SET && i < setting->value_count; i++) {
            char name[OPTION_NAME_BYTES];
            if (strcmp(filter_named(ways[way], &setting->values[i], name), filter) == 0)
                return true;
        }
    }
    return false;
}

/*
 * A filter that no good stream uses. All errors of a file come in one run, so its edges are still
 * held against each other, and against the rate of a stream that has other errors.
 */
static void check_alone(struct build *build, const struct raw_section *section)
{
    if (section->broken)
        return;
    bool good = true;
    for (uint32_t s = 0; good && s < build->config->stream_count; s++) {
        const struct raw_section *user = build->stream_sections[s];
        if (!value_given(user, KEY_RATE) || !section_names(user, section->name))
            continue;
        struct config_stream stream = {.name = user->name};
        stream.source.rate_hz = value_of(user, KEY_RATE)->number;
        good = check_nyquist(build, section, &stream);
    }
    if (!good || !value_given(section, KEY_LOW) || !value_given(section, KEY_HIGH))
        return;
    if (value_of(section, KEY_LOW)->number >= value_of(section, KEY_HIGH)->number)
        config_error(build->errors, place_of(section, KEY_LOW),
                     "filter %s: `low = %s` is not below `high = %s`; exchange them", section->name,
                     value_of(section, KEY_LOW)->text, value_of(section, KEY_HIGH)->text);
}

static void check_filter(struct build *build, uint32_t index)
{
    const struct raw_section *section = build->filter_sections[index];
    const struct config_filter *filter = &build->filters[index];
    enum { RATES = 64 };
    double rates[RATES];      /* those checked already */
    uint32_t channels[RATES]; /* with as many channels, where they matter */
    unsigned checked = 0;
    for (uint32_t s = 0; s < build->config->stream_count; s++) {
        const struct config_stream *stream = &build->streams[s];
        if (build->stream_sections[s]->broken || !stream_uses(stream, index))
            continue;
        bool known = false;
        for (unsigned i = 0; i < checked; i++)
            known = known ||
                    (rates[i] == stream->source.rate_hz &&
                     (filter->spec.type != FILTER_FK || channels[i] == stream->source.channels));
        if (known)
            continue;
        if (checked < RATES) {
            channels[checked] = stream->source.channels;
            rates[checked++] = stream->source.rate_hz;
        }
        struct problem problem;
        if (section->broken || !check_nyquist(build, section, stream))
            continue;
        struct filter_spec spec = config_filter_spec(filter, stream);
        int status = filter_check(&spec, stream->source.rate_hz, &problem);
        if (status == 0)
            status = build->world->makeable(&spec, stream->source.rate_hz, &problem);
        if (status != 0) {
            char rate[40];
            config_error(
                build->errors, place_named(section, problem.text),
                "filter %s in stream %s (%s): %s", filter->name, stream->name,
                quantity_print(DIMENSION_FREQUENCY, stream->source.rate_hz, rate, sizeof rate),
                problem.text);
        }
    }
    if (checked == 0)
        check_alone(build, section);
}

void check_filters(struct build *build)
{
    bool by_osc = concerns_osc(build); /* a message may bring each into use */
    for (uint32_t i = 0; i < build->config->filter_count; i++) {
        check_filter(build, i);
        if (!build->filters[i].used && !by_osc)
            config_warning(build->errors, build->filters[i].place,
                           "no stream uses filter %s; name it in a stream's `filter`, `bank` or "
                           "`route`, or remove the section",
                           build->filters[i].name);
    }
}
