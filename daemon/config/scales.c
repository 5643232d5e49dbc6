/*
 * Calibration of the configuration: what a full-scale code is worth on each channel, from `full
 * scale`, `sensitivity`, `preamp`, `offset` and `unit`.
 *
 *     code 1.0 = full scale [V] / sensitivity [V per unit] / preamp = so much at the sensor [unit]
 */
#include "config/internal.h"

#include <assert.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

/* Value i of a list with one for all channels, or one each. */
static const struct option_value *listed(const struct raw_section *section, enum schema_id id,
                                         uint32_t i)
{
    const struct raw_setting *setting = raw_setting_of(section, id);
    if (setting->given != GIVEN_SET)
        return setting->has_fallback ? &setting->fallback : NULL;
    return &setting->values[setting->value_count == 1 ? 0 : i];
}

static bool check_lists(struct build *build, const struct raw_section *section, uint32_t channels)
{
    static const enum schema_id lists[] = {KEY_FULL_SCALE, KEY_SENSITIVITY, KEY_OFFSET,
                                           KEY_PREAMP,     KEY_UNIT,        KEY_NOISE_FLOOR};
    bool good = true;
    for (size_t i = 0; i < sizeof lists / sizeof lists[0]; i++) {
        const struct raw_setting *setting = raw_setting_of(section, lists[i]);
        if (setting->given != GIVEN_SET || setting->value_count == 1 ||
            setting->value_count == channels)
            continue;
        config_error(build->errors, setting->place,
                     "`%s` lists %u values for %u channels; write one for all or one for each",
                     schema_key(lists[i])->row.key, setting->value_count, channels);
        good = false;
    }
    return good;
}

/* ---- a sensor's sensitivity -------------------------------------------------------------- */

/* "50 mV/Pa": what one unit of `per` gives, in `gives`. */
struct sensitivity {
    double value;
    char gives[QUANTITY_UNIT_BYTES], per[QUANTITY_UNIT_BYTES];
};

static bool read_sensitivity(struct build *build, const struct raw_section *section,
                             const struct option_value *written, struct sensitivity *out)
{
    assert(written != NULL); /* the key is set */
    const char *slash = strchr(written->unit, '/');
    if (slash == NULL || slash == written->unit || slash[1] == '\0') {
        config_error(build->errors, place_of(section, KEY_SENSITIVITY),
                     "`sensitivity = %s` does not say of what; write what the sensor gives for one "
                     "unit, as in 50 mV/Pa",
                     written->text);
        return false;
    }
    out->value = written->number;
    snprintf(out->gives, sizeof out->gives, "%.*s", (int)(slash - written->unit), written->unit);
    snprintf(out->per, sizeof out->per, "%s", slash + 1);
    return true;
}

/* From the unit that the sensor gives into the channel's. */
static bool through_sensor(struct build *build, const struct option_check *check, const char *key,
                           struct config_place place, const struct option_value *value,
                           const struct sensitivity *sensor, const char *unit, double *out)
{
    int exponent;
    if (!quantity_unit_exponent(sensor->per, unit, &exponent)) {
        config_error(build->errors, place,
                     "`sensitivity` makes %s, and `unit` is %s; write unit = %s, or leave it out",
                     sensor->per, unit, sensor->per);
        return false;
    }
    if (!option_amplitude(check, key, value, sensor->gives, out))
        return false;
    *out = *out / sensor->value * pow(10, exponent);
    return true;
}

/* With a sensitivity the full scale is what the converter sees, and needs its unit. */
static bool scale_by_sensor(struct build *build, const struct option_check *check,
                            const struct raw_section *section, uint32_t c,
                            struct channel_scale *scale)
{
    const struct option_value *full_scale = listed(section, KEY_FULL_SCALE, c);
    const struct option_value *offset = listed(section, KEY_OFFSET, c);
    const struct config_place place = place_of(section, KEY_SENSITIVITY);
    struct sensitivity sensor;
    int exponent;
    if (!read_sensitivity(build, section, listed(section, KEY_SENSITIVITY, c), &sensor))
        return false;
    if (scale->unit[0] == '\0')
        snprintf(scale->unit, sizeof scale->unit, "%s", sensor.per);
    if (full_scale->unit[0] == '\0') {
        config_error(build->errors, place,
                     "`sensitivity` needs the `full scale` of the converter with its unit; write "
                     "full scale = 10 V, or what it is");
        return false;
    }
    bool electric = quantity_unit_exponent(offset->unit, sensor.gives, &exponent);
    return through_sensor(build, check, "full scale", place, full_scale, &sensor, scale->unit,
                          &scale->full_scale) &&
           (electric ? through_sensor(build, check, "offset", place, offset, &sensor, scale->unit,
                                      &scale->offset)
                     : option_amplitude(check, "offset", offset, scale->unit, &scale->offset));
}

/* Without one the full scale is in the unit of the results. */
static bool scale_by_unit(struct build *build, const struct option_check *check,
                          const struct raw_section *section, uint32_t c,
                          struct channel_scale *scale)
{
    const struct option_value *full_scale = listed(section, KEY_FULL_SCALE, c);
    int exponent;
    if (scale->unit[0] == '\0')
        snprintf(scale->unit, sizeof scale->unit, "%s",
                 full_scale->unit[0] != '\0' ? full_scale->unit : "FS");
    if (full_scale->unit[0] != '\0' &&
        !quantity_unit_exponent(full_scale->unit, scale->unit, &exponent)) {
        config_error(build->errors, place_of(section, KEY_FULL_SCALE),
                     "`full scale = %s` is not in %s, the `unit` of the results; write what the "
                     "sensor gives too, as in sensitivity = 50 m%s/%s, or the full scale in %s",
                     full_scale->text, scale->unit, full_scale->unit + (full_scale->unit[0] == 'm'),
                     scale->unit, scale->unit);
        return false;
    }
    return option_amplitude(check, "full scale", full_scale, scale->unit, &scale->full_scale) &&
           option_amplitude(check, "offset", listed(section, KEY_OFFSET, c), scale->unit,
                            &scale->offset);
}

/* Codes of an integer format mean nothing in a unit until a full scale is written. */
static void warn_uncalibrated(struct build *build, const struct config_stream *stream,
                              const struct raw_section *section)
{
    if (stream->source.format.kind == SAMPLE_FLOAT || !value_given(section, KEY_UNIT) ||
        value_given(section, KEY_FULL_SCALE) || value_given(section, KEY_SENSITIVITY))
        return;
    const char *unit = value_of(section, KEY_UNIT)->text;
    config_warning(build->errors, place_of(section, KEY_UNIT),
                   "`unit = %s` without a `full scale`: a full-scale code counts as 1 %s; write "
                   "the full scale in %s, or that of the converter, as 10 V, and the sensor's "
                   "`sensitivity`, as 50 mV/%s",
                   unit, unit, unit, unit);
}

/* Integer codes come from a converter. Floats do where the configuration says what their full scale
 * is, where the source knows it, and where a live source sends shares of full scale: without a
 * `unit`. Floats of a recording may be anything. */
static bool has_converter(const struct config_stream *stream, const struct raw_section *section)
{
    const bool recording = stream->driver->format == NULL;
    return stream->source.format.kind != SAMPLE_FLOAT || stream->driver->converter ||
           value_given(section, KEY_FULL_SCALE) || value_given(section, KEY_SENSITIVITY) ||
           !(recording || value_given(section, KEY_UNIT));
}

struct level_scale config_level_scale(const struct config_stream *stream, uint32_t channel)
{
    const struct channel_scale *scale = &stream->scales[channel];
    const struct sample_format *format = &stream->source.format;
    const double full_scale = stream->converter ? channel_scale_factor(scale) : 0;
    return (struct level_scale){
        .unit = scale->unit,
        .full_scale = full_scale,
        .step = format->kind != SAMPLE_FLOAT ? ldexp(full_scale, 1 - format->bits) : 0,
    };
}

/* ---- channels ---------------------------------------------------------------------------- */

int build_scales(struct build *build, struct config_stream *stream,
                 const struct option_check *check, const struct raw_section *section)
{
    uint32_t channels = stream->source.channels;
    struct channel_scale *scales = config_alloc(build->memory, channels, sizeof *scales);
    if (scales == NULL)
        return ERROR_MEMORY;
    bool good = check_lists(build, section, channels);
    for (uint32_t c = 0; good && c < channels; c++) {
        struct channel_scale *scale = &scales[c];
        const struct option_value *unit = listed(section, KEY_UNIT, c);
        if (unit != NULL && strlen(unit->text) >= sizeof scale->unit) {
            config_error(build->errors, place_of(section, KEY_UNIT),
                         "the unit `%s` is longer than %zu bytes; write a symbol such as mV",
                         unit->text, sizeof scale->unit - 1);
            good = false;
            break;
        }
        snprintf(scale->unit, sizeof scale->unit, "%s", unit != NULL ? unit->text : "");
        good = (listed(section, KEY_SENSITIVITY, c) != NULL ? scale_by_sensor : scale_by_unit)(
            build, check, section, c, scale);
        scale->gain_db = listed(section, KEY_PREAMP, c)->number;
    }
    if (good)
        warn_uncalibrated(build, stream, section);
    stream->scales = scales;
    stream->converter = has_converter(stream, section);
    return good ? 0 : ERROR_CONFIG;
}
