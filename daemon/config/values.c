/*
 * Values: every raw setting held against its schema row. All of them are looked at, used or
 * not, so that one run reports everything; what was bad counts as not usable from here on and
 * is never reported twice.
 */
#include "config/internal.h"

#include <arpa/inet.h>
#include <assert.h>
#include <netinet/in.h>
#include <stdio.h>
#include <string.h>

#include "filter/filter.h"

static const enum schema_id type_keys[SECTIONS] = {
    [SECTION_DAEMON] = KEYS,
    [SECTION_DEVICE] = KEYS,
    [SECTION_STREAM] = KEY_SOURCE,
    [SECTION_FILTER] = KEY_TYPE,
    [SECTION_SINK] = KEY_SINK_TYPE,
    [SECTION_OSC] = KEYS,
    [SECTION_CLUSTER] = KEYS,
    [SECTION_ALARM] = KEY_QUANTITY,
    [SECTION_ANALYSIS] = KEY_ANALYSIS_TYPE,
};

const struct option_value *setting_value(const struct raw_setting *setting)
{
    if (setting->given == GIVEN_SET)
        return &setting->values[0];
    return setting->has_fallback ? &setting->fallback : NULL;
}

const struct option_value *value_of(const struct raw_section *section, enum schema_id id)
{
    return setting_value(raw_setting_of(section, id));
}

bool value_given(const struct raw_section *section, enum schema_id id)
{
    return raw_setting_of(section, id)->given == GIVEN_SET;
}

struct config_place place_of(const struct raw_section *section, enum schema_id id)
{
    const struct raw_setting *setting = raw_setting_of(section, id);
    return setting->given == GIVEN_NOT ? section->place : setting->place;
}

/* Splits a comma list in place; returns how many pieces it has, each trimmed. */
static unsigned split_list(char *text, char **pieces, unsigned capacity)
{
    unsigned count = 0;
    for (char *at = text; at != NULL; count++) {
        char *comma = strchr(at, ',');
        char *end = comma != NULL ? comma : at + strlen(at);
        at += strspn(at, " \t");
        while (end > at && (end[-1] == ' ' || end[-1] == '\t'))
            end--;
        *end = '\0';
        if (count < capacity)
            pieces[count] = at;
        at = comma != NULL ? comma + 1 : NULL;
    }
    return count;
}

/* Parses the items of one setting into values. 0 or ERROR_MEMORY. */
/* A host name is looked up at every start and reload. At boot the name server may be missing. */
static void warn_of_name(struct raw *raw, const struct option_row *row, struct config_place place,
                         const struct option_value *value)
{
    char host[256];
    struct in_addr four;
    const char *text = value->text, *colon = strrchr(text, ':');
    const size_t length = colon != NULL ? (size_t)(colon - text) : strlen(text);
    if (length == 0 || length >= sizeof host || text[0] == '[' || text[0] == '*')
        return;
    memcpy(host, text, length);
    host[length] = '\0';
    if (inet_pton(AF_INET, host, &four) == 1 || strcmp(host, "localhost") == 0)
        return;
    config_warning(
        raw->errors, place,
        "`%s`: `%s` is a host name, and a start fails while it cannot be resolved, as at "
        "boot without its name server; write the address in digits, or add the name to "
        "/etc/hosts",
        row->key, host);
}

static int parse_setting(struct raw *raw, const struct option_row *row, struct raw_setting *setting)
{
    bool commas = row->list == LIST_CHANNEL || row->list == LIST_COMMA;
    unsigned capacity = commas ? CONFIG_CHANNELS_MAX : setting->count;
    char *list = NULL, **pieces = NULL;
    unsigned count = setting->count;
    if (commas) {
        /* Room for as many pieces as there are commas. */
        const char *text = setting->items[0].text;
        unsigned separators = 1;
        for (const char *at = text; *at != '\0'; at++)
            separators += *at == ',';
        capacity = separators < capacity ? separators : capacity;
        list = config_copy(raw->memory, text, strlen(text));
        pieces = config_alloc(raw->memory, capacity, sizeof *pieces);
        if (list == NULL || pieces == NULL)
            return ERROR_MEMORY;
        count = split_list(list, pieces, capacity);
        if (count > capacity) {
            config_error(raw->errors, setting->place, "`%s` lists more than %d values; write fewer",
                         row->key, CONFIG_CHANNELS_MAX);
            setting->given = GIVEN_BAD;
            return 0;
        }
    }
    setting->values = config_alloc(raw->memory, count, sizeof *setting->values);
    if (setting->values == NULL)
        return ERROR_MEMORY;
    setting->value_count = count;
    setting->given = GIVEN_SET;
    for (unsigned i = 0; i < count; i++) {
        struct problem problem;
        const char *text = commas ? pieces[i] : setting->items[i].text;
        if (option_parse(row, text, &setting->values[i], &problem) != 0) {
            config_error(raw->errors, commas ? setting->place : setting->items[i].place, "%s",
                         problem.text);
            setting->given = GIVEN_BAD;
        } else if (row->type == OPTION_ADDRESS) {
            warn_of_name(raw, row, setting->items[i].place, &setting->values[i]);
        }
    }
    return 0;
}

/* "rtp, udp or file" for a mask of the section's types. */
static const char *types_text(enum section_kind kind, uint32_t mask, char *text, size_t bytes)
{
    int count = 0, left = 0;
    size_t used = 0;
    text[0] = '\0';
    for (int i = 0; schema_type_name(kind, i) != NULL; i++)
        count += (mask >> i) & 1;
    left = count;
    for (int i = 0; schema_type_name(kind, i) != NULL && used < bytes; i++) {
        if (((mask >> i) & 1) == 0)
            continue;
        left--;
        used += (size_t)snprintf(text + used, bytes - used, "%s%s", schema_type_name(kind, i),
                                 left > 1    ? ", "
                                 : left == 1 ? " or "
                                             : "");
    }
    return text;
}

/* Whether the keys that were given suit the section's type, and those it needs are there. */
static void check_applies(struct raw *raw, struct raw_section *section)
{
    const struct schema_section *row = &schema_sections[section->kind];
    const char *type = schema_type_name(section->kind, section->type);
    for (unsigned i = 0; i < schema_count(section->kind); i++) {
        const struct schema_key *key = schema_for(schema_at(section->kind, i), section->type);
        struct raw_setting *setting = &section->settings[i];
        uint32_t bit = 1u << section->type, applies = schema_applies(schema_at(section->kind, i));
        char types[160];
        if (setting->given != GIVEN_NOT && applies != 0 && (applies & bit) == 0) {
            config_error(raw->errors, setting->place,
                         "`%s` has no meaning with `%s = %s`, it belongs to %s; remove it",
                         key->row.key, row->type_key, type,
                         types_text(section->kind, applies, types, sizeof types));
            setting->given = GIVEN_BAD;
        }
        if (setting->given == GIVEN_NOT && (key->required & bit) != 0) {
            config_error(raw->errors, section->place, "[%s %s] needs `%s`: %s", row->word,
                         section->name, key->row.key, key->row.sentence);
            section->broken = true;
        }
        if (setting->given == GIVEN_BAD && (key->required & bit) != 0)
            section->broken = true;
    }
}

static int parse_key(struct raw *raw, const struct schema_key *key, struct raw_setting *setting)
{
    if (key->row.fallback != NULL) {
        struct problem problem;
        int status = option_parse(&key->row, key->row.fallback, &setting->fallback, &problem);
        assert(status == 0); /* a test walks the table */
        setting->has_fallback = status == 0;
    }
    return setting->count > 0 ? parse_setting(raw, &key->row, setting) : 0;
}

static int parse_section(struct raw *raw, struct raw_section *section)
{
    enum schema_id type_key = type_keys[section->kind];
    struct raw_setting *type = NULL;
    if (type_key != KEYS) {
        type = raw_setting_of(section, type_key);
        if (parse_key(raw, schema_key(type_key), type) != 0)
            return ERROR_MEMORY;
        if (type->given == GIVEN_SET)
            section->type = (int)type->values[0].integer;
    }
    /* What a key means may depend on the type. */
    for (unsigned i = 0; i < schema_count(section->kind); i++) {
        const struct schema_key *key = schema_for(schema_at(section->kind, i), section->type);
        if (&section->settings[i] != type && parse_key(raw, key, &section->settings[i]) != 0)
            return ERROR_MEMORY;
    }
    if (type == NULL)
        return 0;
    if (type->given == GIVEN_NOT)
        config_error(raw->errors, section->place, "[%s %s] needs `%s`: %s",
                     schema_sections[section->kind].word, section->name,
                     schema_key(type_key)->row.key, schema_key(type_key)->row.sentence);
    if (type->given != GIVEN_SET) {
        section->broken = true;
        return 0;
    }
    check_applies(raw, section);
    return 0;
}

int values_parse(struct raw *raw)
{
    for (unsigned i = 0; i < raw->count; i++)
        if (parse_section(raw, raw->sections[i]) != 0)
            return ERROR_MEMORY;
    return 0;
}
