/*
 * What alarms watch of analyses: `analysis` and a `quantity` of it into the figure, its unit and
 * its channels, against the fields that the analysis has as it is configured.
 */
#include "config/internal.h"

#include <stdio.h>
#include <string.h>

#include "analysis/fields.h"

/* "sum energy_eu": the field behind `sum`. */
static const char *summed_field(const char *figure)
{
    return figure + strlen("sum ");
}

static bool can_be_summed(const char *field)
{
    enum event_total total;
    return event_total_find(field, &total);
}

/* ---- figures ----------------------------------------------------------------------------- */

/* "hits, sum energy_eu, dead time, amplitude, peak_db, …, partial_1 to partial_4" */
static const char *figures_text(const struct config_analysis *analysis, char *text, size_t bytes)
{
    uint32_t count;
    const struct analysis_field *fields = analysis->type->fields(&analysis->options, &count);
    size_t used = (size_t)snprintf(text, bytes, "%ss%s", analysis_event_word(analysis->type->emits),
                                   analysis->type->of_events ? "" : ", dead time");
    for (uint32_t f = 0; f < count && used < bytes; f++)
        if (can_be_summed(fields[f].name))
            used += (size_t)snprintf(text + used, bytes - used, ", sum %s", fields[f].name);
    for (uint32_t f = 0; f < count && used < bytes; f++) {
        const char *name = fields[f].name;
        if (fields[f].repeat == 0)
            used += (size_t)snprintf(text + used, bytes - used, ", %s", name);
        else
            used += (size_t)snprintf(text + used, bytes - used, ", %s_1 to %s_%u", name, name,
                                     fields[f].repeat);
    }
    return text;
}

static void report_figure(struct build *build, const struct raw_section *section,
                          const struct config_analysis *analysis, const char *figure)
{
    char all[2048];
    config_error(build->errors, place_of(section, KEY_QUANTITY),
                 "`quantity = %s`: analysis %s has no such quantity; write one of: %s", figure,
                 analysis->name, figures_text(analysis, all, sizeof all));
}

/* The field that the alarm watches; NULL: none. False: there is no such quantity, reported. */
static bool find_figure(struct build *build, const struct raw_section *section,
                        const struct config_analysis *analysis, struct config_alarm *alarm,
                        const struct analysis_field **field)
{
    const char *word = analysis_event_word(analysis->type->emits);
    const size_t length = strlen(word);
    uint32_t count, index;
    const struct analysis_field *fields = analysis->type->fields(&analysis->options, &count);
    *field = NULL;
    /* Intervals have a field `hits`, which are no events of theirs. */
    if (alarm->quantity == ALARM_EVENTS &&
        (strncmp(alarm->figure, word, length) != 0 || strcmp(alarm->figure + length, "s") != 0))
        alarm->quantity = ALARM_FIELD;
    bool known = alarm->quantity != ALARM_DEAD || !analysis->type->of_events;
    if (alarm->quantity == ALARM_FIELD)
        known = (*field = field_find(fields, count, alarm->figure, &index)) != NULL;
    if (alarm->quantity == ALARM_SUM)
        known = can_be_summed(summed_field(alarm->figure)) &&
                (*field = field_find(fields, count, summed_field(alarm->figure), &index)) != NULL;
    if (!known)
        report_figure(build, section, analysis, alarm->figure);
    return known;
}

/* ---- channels ---------------------------------------------------------------------------- */

static bool is_unused(const struct config_stream *stream, uint32_t output)
{
    const uint32_t input = config_first_input(stream, output);
    return stream->unused != NULL && input < stream->source.channels && stream->unused[input];
}

/* Those it names, else all whose input is used; sources and dead time are of no channel. */
static int build_channels(struct build *build, const struct raw_section *section,
                          const struct config_analysis *analysis, struct config_alarm *alarm)
{
    const struct config_stream *stream = &build->streams[analysis->stream];
    const struct raw_setting *setting = raw_setting_of(section, KEY_ALARM_CHANNEL);
    const uint32_t channels = analysis->options.stream.channels;
    const bool named = setting->given == GIVEN_SET;
    if (analysis->type->emits == ANALYSIS_SOURCE || alarm->quantity == ALARM_DEAD) {
        if (named)
            config_error(build->errors, setting->place,
                         "`channel`: %s of analysis %s belongs to no channel; remove it",
                         alarm->figure, analysis->name);
        return 0;
    }
    bool *flags = config_alloc(build->memory, channels, sizeof *flags);
    if (flags == NULL)
        return ERROR_MEMORY;
    for (uint32_t c = 0; !named && c < channels; c++)
        flags[c] = !is_unused(stream, c);
    for (unsigned i = 0; named && i < setting->value_count; i++) {
        const int64_t channel = setting->values[i].integer;
        if (channel <= channels)
            flags[channel - 1] = true;
        else
            config_error(build->errors, setting->place,
                         "`channel = %lld`: analysis %s has only %u channel%s; write numbers from "
                         "1 to %u",
                         (long long)channel, analysis->name, channels, channels == 1 ? "" : "s",
                         channels);
    }
    alarm->channels = flags;
    alarm->channel_count = channels;
    return 0;
}

/* That of the field, or of the channels that are watched, which must have one. */
static void build_unit(struct build *build, const struct raw_section *section,
                       const struct config_analysis *analysis, const struct analysis_field *field,
                       struct config_alarm *alarm)
{
    alarm->unit = field != NULL && field->unit != NULL ? field->unit : "";
    alarm->decibels = alarm->quantity == ALARM_FIELD && field != NULL && field_is_level(field);
    if (field == NULL || field->unit != NULL)
        return;
    alarm->amplitude = true;
    for (uint32_t c = 0; c < analysis->options.stream.channels; c++) {
        const char *unit = analysis->options.stream.units[c];
        if (alarm->channels != NULL && !alarm->channels[c])
            continue;
        if (alarm->unit[0] != '\0' && strcmp(alarm->unit, unit) != 0) {
            config_error(build->errors, section->place,
                         "the channels of alarm %s have the units %s and %s; write an alarm for "
                         "those of each unit, with `channel`",
                         alarm->name, alarm->unit, unit);
            return;
        }
        alarm->unit = unit;
    }
}

int build_alarm_figure(struct build *build, const struct raw_section *section,
                       struct config_alarm *alarm, bool *known)
{
    const struct analysis_field *field;
    char all[256];
    *known = false;
    if (!value_given(section, KEY_ALARM_ANALYSIS)) { /* of the others the schema says that */
        if (alarm->quantity == ALARM_FIELD)
            config_error(build->errors, place_of(section, KEY_QUANTITY),
                         "`quantity = %s` is not known; write %s, or with `analysis` a field of "
                         "its events",
                         alarm->figure, schema_quantities_text(all, sizeof all));
        return 0;
    }
    if (value_given(section, KEY_ALARM_STREAM)) {
        config_error(build->errors, place_of(section, KEY_ALARM_STREAM),
                     "alarm %s watches an analysis, which has its stream; remove `stream`",
                     alarm->name);
        return 0;
    }
    const char *name = value_of(section, KEY_ALARM_ANALYSIS)->text;
    const int index = config_find_analysis(build->config, name);
    if (index < 0) {
        report_unknown(build, place_of(section, KEY_ALARM_ANALYSIS), section, SECTION_ANALYSIS,
                       name);
        return 0;
    }
    if (build->analysis_sections[index]->broken)
        return 0;
    const struct config_analysis *analysis = &build->analyses[index];
    alarm->analysis = index;
    alarm->stream = analysis->stream;
    if (!find_figure(build, section, analysis, alarm, &field))
        return 0;
    if (build_channels(build, section, analysis, alarm) != 0)
        return ERROR_MEMORY;
    build_unit(build, section, analysis, field, alarm);
    *known = true;
    return 0;
}
