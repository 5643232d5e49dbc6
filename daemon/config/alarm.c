/*
 * Alarms of the configuration: [alarm NAME] sections into rules, with limits in the unit that their
 * quantity has, and what a stream says of its channels: which are unused, how long codes may be
 * equal, how high the noise floor is.
 */
#include "config/internal.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

/* ---- what a stream says ------------------------------------------------------------------ */

/* The channels of a list, as flags; *out NULL where the key is not written or was bad. */
static int channel_flags(struct build *build, const struct raw_section *section, enum schema_id id,
                         const struct config_stream *stream, bool **out)
{
    const struct raw_setting *setting = raw_setting_of(section, id);
    const uint32_t channels = stream->source.channels;
    *out = NULL;
    if (setting->given != GIVEN_SET)
        return 0;
    bool *flags = config_alloc(build->memory, channels, sizeof *flags);
    if (flags == NULL)
        return ERROR_MEMORY;
    for (unsigned i = 0; i < setting->value_count; i++) {
        const int64_t channel = setting->values[i].integer;
        if (channel > channels) {
            config_error(build->errors, setting->place,
                         "`%s = %lld`: stream %s has only %u channel%s; write numbers from 1 to %u",
                         schema_key(id)->row.key, (long long)channel, stream->name, channels,
                         channels == 1 ? "" : "s", channels);
            return 0;
        }
        flags[channel - 1] = true;
    }
    *out = flags;
    return 0;
}

static int build_noise_floor(struct build *build, struct config_stream *stream,
                             const struct option_check *check, const struct raw_section *section)
{
    const struct raw_setting *setting = raw_setting_of(section, KEY_NOISE_FLOOR);
    const uint32_t channels = stream->source.channels;
    if (setting->given != GIVEN_SET)
        return 0;
    double *levels = config_alloc(build->memory, channels, sizeof *levels);
    if (levels == NULL)
        return ERROR_MEMORY;
    for (uint32_t c = 0; c < channels; c++) {
        const struct option_value *value = &setting->values[setting->value_count == 1 ? 0 : c];
        const struct level_scale scale = config_level_scale(stream, c);
        if (!level_amplitude(check, "noise floor", value, &scale, &levels[c]))
            return 0;
    }
    stream->noise_floor = levels;
    return 0;
}

int build_watched(struct build *build, struct config_stream *stream,
                  const struct option_check *check, const struct raw_section *section)
{
    bool *unused;
    if (channel_flags(build, section, KEY_UNUSED, stream, &unused) != 0)
        return ERROR_MEMORY;
    stream->unused = unused;
    /* A source that waits for us is a file or a pipe: its silence is what it holds. */
    stream->flat_ns = stream->live ? value_of(section, KEY_FLAT_LINE)->integer : 0;
    return build_noise_floor(build, stream, check, section);
}

/* ---- limits ------------------------------------------------------------------------------ */

/* How a limit of this alarm is written. */
static struct option_row limit_row(enum schema_id id, const struct config_alarm *alarm)
{
    static const enum option_type types[DIMENSIONS] = {
        [DIMENSION_NUMBER] = OPTION_NUMBER,
        [DIMENSION_FREQUENCY] = OPTION_FREQUENCY,
        [DIMENSION_TIME] = OPTION_TIME,
        [DIMENSION_RATIO] = OPTION_RATIO,
    };
    const double most = alarm->quantity == ALARM_PPM ? 1e6 : 1e12;
    const bool negative = alarm->quantity == ALARM_PPM || alarm->quantity == ALARM_FIELD;
    const enum option_type type = types[alarm_quantity_dimension(alarm->quantity)];
    return (struct option_row){.key = schema_key(id)->row.key,
                               .type = type,
                               .minimum = negative ? -most : 0,
                               .maximum = type == OPTION_TIME    ? 86400
                                          : type == OPTION_RATIO ? 1
                                                                 : most};
}

/* The text of a limit: a number may have the unit of its field behind it. */
static const char *limit_text(struct build *build, const struct raw_section *section,
                              enum schema_id id, const struct config_alarm *alarm)
{
    const char *text = value_of(section, id)->text;
    const size_t length = strlen(text), unit = strlen(alarm->unit);
    if (!alarm_quantity_of_analysis(alarm->quantity) || unit == 0 || length <= unit ||
        strcmp(text + length - unit, alarm->unit) != 0)
        return text;
    char *number = config_alloc(build->memory, length, 1);
    if (number == NULL)
        return NULL;
    memcpy(number, text, length - unit);
    for (size_t end = length - unit; end > 0 && number[end - 1] == ' '; end--)
        number[end - 1] = '\0';
    return number;
}

/* The channel that a limit is converted for; false: it is not watched. */
static bool level_scale_of(const struct build *build, const struct config_alarm *alarm,
                           uint32_t channel, struct level_scale *scale)
{
    if (alarm->channels != NULL && !alarm->channels[channel])
        return false;
    *scale = alarm->analysis >= 0
                 ? analysis_scale(&build->analyses[alarm->analysis].options.stream, channel)
                 : config_level_scale(&build->streams[alarm->stream], channel);
    return true;
}

/* Reads the limit of a field in dB: a number of dB, or any level, which is converted into dB. */
static int read_decibels(const char *text, const struct level_scale *scale, double *limit,
                         struct problem *problem)
{
    double amplitude;
    struct quantity quantity;
    if (quantity_parse(text, DIMENSION_DECIBEL, &quantity, NULL) == 0 &&
        (quantity.dimension == DIMENSION_DECIBEL || quantity.dimension == DIMENSION_NUMBER)) {
        *limit = quantity_value(&quantity);
        return 0;
    }
    if (level_read(text, scale, &amplitude, problem) != 0)
        return ERROR_CONFIG;
    *limit = 20 * log10(amplitude / level_reference(scale->unit));
    return 0;
}

/* One limit that is a level, which must be the same for all channels that are watched. */
static int build_level(struct build *build, const struct option_check *check,
                       const struct raw_section *section, enum schema_id id,
                       const struct config_alarm *alarm, bool *given, double *limit)
{
    const char *text = value_of(section, id)->text, *key = schema_key(id)->row.key;
    const uint32_t channels = alarm->analysis >= 0
                                  ? build->analyses[alarm->analysis].options.stream.channels
                                  : build->streams[alarm->stream].source.channels;
    bool warned = false;
    for (uint32_t c = 0; c < channels; c++) {
        struct level_scale scale;
        struct problem problem;
        double level;
        if (!level_scale_of(build, alarm, c, &scale))
            continue;
        const int status = alarm->decibels ? read_decibels(text, &scale, &level, &problem)
                                           : level_read(text, &scale, &level, &problem);
        if (status == 0 && alarm->quantity == ALARM_LEVEL && level < 0)
            problem_set(&problem, ERROR_CONFIG, "`%s` is below 0; write a %s", text, LEVEL_WORDS);
        if (status != 0 || (alarm->quantity == ALARM_LEVEL && level < 0)) {
            config_error(build->errors, place_of(section, id), "`%s`: %s", key, problem.text);
            return 0;
        }
        if (*given && level != *limit) {
            config_error(build->errors, place_of(section, id),
                         "`%s = %s` is another level on each channel of alarm %s; write an alarm "
                         "for those of each full scale and unit, with `channel`",
                         key, text, alarm->name);
            return 0;
        }
        *given = true;
        *limit = level;
        char written[OPTION_QUOTE];
        snprintf(written, sizeof written, "%s =", key);
        warned = warned || (!alarm->decibels && id == KEY_ABOVE &&
                            level_warn(check, key, written, text, level, &scale));
    }
    return 0;
}

/* One limit, in the unit of the alarm; *given false: it is not written. */
static int build_limit(struct build *build, const struct option_check *check,
                       const struct raw_section *section, enum schema_id id,
                       const struct config_alarm *alarm, bool *given, double *limit)
{
    const struct option_row row = limit_row(id, alarm);
    struct option_value value;
    struct problem problem;
    *given = false;
    if (!value_given(section, id))
        return 0;
    if (alarm->amplitude || alarm->decibels)
        return build_level(build, check, section, id, alarm, given, limit);
    const char *text = limit_text(build, section, id, alarm);
    if (text == NULL)
        return ERROR_MEMORY;
    if (option_parse(&row, text, &value, &problem) != 0) {
        config_error(build->errors, place_of(section, id), "%s", problem.text);
        return 0;
    }
    *given = true;
    *limit = value.number;
    return 0;
}

static int build_limits(struct build *build, const struct option_check *check,
                        const struct raw_section *section, struct config_alarm *alarm)
{
    struct alarm_rule *rule = &alarm->rule;
    if (alarm->quantity == ALARM_DEVICE) {
        rule->has_above = true;
        rule->above = 0.5;
        return 0;
    }
    const unsigned errors = build->errors->errors;
    if (build_limit(build, check, section, KEY_ABOVE, alarm, &rule->has_above, &rule->above) != 0 ||
        build_limit(build, check, section, KEY_BELOW, alarm, &rule->has_below, &rule->below) != 0)
        return ERROR_MEMORY;
    rule->hysteresis = value_of(section, KEY_HYSTERESIS)->number;
    if (build->errors->errors > errors)
        return 0;
    if (!rule->has_above && !rule->has_below)
        config_error(build->errors, section->place,
                     "alarm %s has no limit; write `above`, `below`, or both", alarm->name);
    else if (rule->has_above && rule->has_below && rule->above <= rule->below)
        config_error(build->errors, place_of(section, KEY_ABOVE),
                     "`above = %s` is not above `below = %s`, so every value would raise alarm %s; "
                     "exchange them",
                     value_of(section, KEY_ABOVE)->text, value_of(section, KEY_BELOW)->text,
                     alarm->name);
    return 0;
}

/* ---- sections ---------------------------------------------------------------------------- */

/* Those it names, else all that are used. */
static int build_channels(struct build *build, const struct raw_section *section,
                          const struct config_stream *stream, struct config_alarm *alarm)
{
    bool *channels;
    if (channel_flags(build, section, KEY_ALARM_CHANNEL, stream, &channels) != 0)
        return ERROR_MEMORY;
    const bool named = channels != NULL;
    if (!named)
        channels = config_alloc(build->memory, stream->source.channels, sizeof *channels);
    if (channels == NULL)
        return ERROR_MEMORY;
    alarm->channels = channels;
    alarm->channel_count = stream->source.channels;
    for (uint32_t c = 0; c < stream->source.channels; c++) {
        const bool unused = stream->unused != NULL && stream->unused[c];
        if (named && channels[c] && unused)
            config_error(build->errors, place_of(section, KEY_ALARM_CHANNEL),
                         "stream %s says that channel %u is `unused`, so it raises no alarm; "
                         "remove it there, or here",
                         stream->name, c + 1);
        if (!named)
            channels[c] = !unused;
    }
    return 0;
}

/* The unit of its limits; levels have that of their channels, which must be one. */
static void build_unit(struct build *build, const struct raw_section *section,
                       const struct config_stream *stream, struct config_alarm *alarm)
{
    static const char *const units[DIMENSIONS] = {
        [DIMENSION_FREQUENCY] = "Hz", [DIMENSION_TIME] = "s"};
    const char *unit = units[alarm_quantity_dimension(alarm->quantity)];
    alarm->unit = unit != NULL ? unit : "";
    for (uint32_t c = 0; alarm->quantity == ALARM_LEVEL && c < stream->source.channels; c++) {
        if (!alarm->channels[c])
            continue;
        if (alarm->unit[0] != '\0' && strcmp(alarm->unit, stream->scales[c].unit) != 0) {
            config_error(build->errors, section->place,
                         "the channels of alarm %s have the units %s and %s; write an alarm for "
                         "those of each unit, with `channel`",
                         alarm->name, alarm->unit, stream->scales[c].unit);
            return;
        }
        alarm->unit = stream->scales[c].unit;
    }
}

static void check_name(struct build *build, const struct raw_section *section)
{
    if (strcmp(section->name, ALARM_NAME_FLAT) == 0 || strcmp(section->name, ALARM_NAME_NOISE) == 0)
        config_error(build->errors, section->place,
                     "%s is the name of an alarm that needs no section; choose another name",
                     section->name);
}

/* Not an error: systemd sets one, a shell that runs --check does not. */
static void check_exec(struct build *build, const struct raw_section *section,
                       const struct config_alarm *alarm)
{
    if (alarm->exec && build->config->daemon.state_directory == NULL)
        config_warning(build->errors, place_of(section, KEY_EXEC),
                       "without a `state directory` alarm %s starts nothing; the service has one "
                       "($STATE_DIRECTORY), else write it in [daemon]",
                       alarm->name);
}

/* What it watches of a stream. *known false: the stream is none, reported. */
static int build_stream_figure(struct build *build, const struct raw_section *section,
                               struct config_alarm *alarm, bool *known)
{
    *known = false;
    if (!value_given(section, KEY_ALARM_STREAM))
        return 0;
    const char *name = value_of(section, KEY_ALARM_STREAM)->text;
    const int index = config_find_stream(build->config, name);
    if (index < 0) {
        report_unknown(build, place_of(section, KEY_ALARM_STREAM), section, SECTION_STREAM, name);
        return 0;
    }
    if (build->stream_sections[index]->broken)
        return 0;
    const struct config_stream *stream = &build->streams[index];
    alarm->stream = (uint32_t)index;
    alarm->amplitude = alarm->quantity == ALARM_LEVEL;
    if (alarm_quantity_of_channel(alarm->quantity) &&
        build_channels(build, section, stream, alarm) != 0)
        return ERROR_MEMORY;
    build_unit(build, section, stream, alarm);
    *known = true;
    return 0;
}

static int build_alarm(struct build *build, struct raw_section *section, struct config_alarm *alarm)
{
    struct option_check check;
    bool known;
    alarm->name = section->name;
    alarm->place = section->place;
    alarm->analysis = -1;
    check_name(build, section);
    if (!driver_check(build, section, &check))
        return ERROR_MEMORY;
    if (section->broken)
        return 0;
    alarm->quantity = (enum alarm_quantity)section->type;
    alarm->figure = value_of(section, KEY_QUANTITY)->text;
    const int status = alarm_quantity_of_analysis(alarm->quantity)
                           ? build_alarm_figure(build, section, alarm, &known)
                           : build_stream_figure(build, section, alarm, &known);
    if (status != 0 || !known)
        return status;
    alarm->within_ns = value_of(section, KEY_WITHIN)->integer;
    alarm->rule.for_ns = value_of(section, KEY_FOR)->integer;
    alarm->rule.hold_ns = value_of(section, KEY_HOLD)->integer;
    alarm->exec = value_of(section, KEY_EXEC)->integer != 0;
    check_exec(build, section, alarm);
    return build_limits(build, &check, section, alarm);
}

int build_alarms(struct build *build)
{
    const uint32_t count = build->config->alarm_count;
    struct config_alarm *alarms = config_alloc(build->memory, count, sizeof *alarms);
    if (alarms == NULL)
        return ERROR_MEMORY;
    build->config->alarms = alarms;
    for (uint32_t i = 0; i < count; i++)
        if (build_alarm(build, build->alarm_sections[i], &alarms[i]) != 0)
            return ERROR_MEMORY;
    return 0;
}
