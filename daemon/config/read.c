/*
 * Reading: text into raw sections. inih is the tokenizer of `key = value` lines and their
 * comments; lines reach it through raw_next_line, which alone knows line numbers, joins
 * continuation lines (a backslash at the end), keeps out what no text file should hold, and
 * reads headings itself, because inih reports no empty section and cuts long names.
 *
 * Within one file a key is given once (lists by lines excepted) and a section begun once; a
 * later file overrides key by key, and an empty value takes a key back to its default.
 *
 * Hostile input is the normal case here (fuzzed): every length is bounded before use.
 */
#include "config/internal.h"

#include <assert.h>
#include <ctype.h>
#include <ini.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>

enum { QUOTE = 60 };

/* ---- the schema's rows of a section ------------------------------------------------------ */

struct raw_setting *raw_setting_at(const struct raw_section *section, const struct schema_key *key)
{
    assert(key->section == section->kind);
    return &section->settings[key->slot];
}

struct raw_setting *raw_setting_of(const struct raw_section *section, enum schema_id id)
{
    return raw_setting_at(section, schema_key(id));
}

/* FNV-1a. */
static uint32_t search_key(enum section_kind kind, const char *name)
{
    uint32_t key = (2166136261u ^ (uint32_t)kind) * 16777619u;
    for (; *name != '\0'; name++)
        key = (key ^ (unsigned char)*name) * 16777619u;
    return key;
}

void raw_add(struct raw *raw, struct raw_section *section)
{
    raw->keys[raw->count] = search_key(section->kind, section->name);
    raw->sections[raw->count++] = section;
}

struct raw_section *raw_find(const struct raw *raw, enum section_kind kind, const char *name)
{
    const uint32_t key = search_key(kind, name);
    for (unsigned i = 0; i < raw->count; i++)
        if (raw->keys[i] == key && raw->sections[i]->kind == kind &&
            strcmp(raw->sections[i]->name, name) == 0)
            return raw->sections[i];
    return NULL;
}

/* ---- lines ------------------------------------------------------------------------------- */

struct reader {
    struct raw *raw;
    const char *file;
    unsigned file_index;
    const char *text;
    size_t bytes, at;
    unsigned next_line;          /* number of the line at `at` */
    unsigned line;               /* of the line last handed to inih */
    struct raw_section *section; /* NULL: before the first heading, or in one that is skipped */
    bool skip;                   /* the heading was bad: its keys are not looked at */
    bool headless_reported;      /* keys before the first heading were reported */
    bool out_of_memory;
    char joined[CONFIG_LINE_MAX + 2];
};

static struct config_place place_at(const struct reader *reader, unsigned line)
{
    return (struct config_place){reader->file, line};
}

/* True for well-formed UTF-8 (Unicode 15, table 3-7) without control characters but tab. */
static bool text_clean(const char *text, size_t bytes)
{
    const unsigned char *at = (const unsigned char *)text, *end = at + bytes;
    while (at < end) {
        if (*at < 0x80) {
            if ((*at < 0x20 && *at != '\t') || *at == 0x7f)
                return false;
            at++;
            continue;
        }
        unsigned more = *at >= 0xf0 ? 3 : *at >= 0xe0 ? 2 : 1;
        if (*at < 0xc2 || *at > 0xf4 || (size_t)(end - at) <= more)
            return false;
        unsigned char low = *at == 0xe0 ? 0xa0 : *at == 0xf0 ? 0x90 : 0x80;
        unsigned char high = *at == 0xed ? 0x9f : *at == 0xf4 ? 0x8f : 0xbf;
        if (at[1] < low || at[1] > high)
            return false;
        for (unsigned i = 2; i <= more; i++)
            if ((at[i] & 0xc0) != 0x80)
                return false;
        at += more + 1;
    }
    return true;
}

/* Takes the next physical line, without its end; false at the end of the text. */
static bool physical_line(struct reader *reader, const char **line, size_t *length)
{
    if (reader->at >= reader->bytes)
        return false;
    const char *start = reader->text + reader->at;
    const char *end = memchr(start, '\n', reader->bytes - reader->at);
    *length = end != NULL ? (size_t)(end - start) : reader->bytes - reader->at;
    reader->at += *length + (end != NULL);
    reader->next_line++;
    if (*length > 0 && start[*length - 1] == '\r')
        (*length)--;
    *line = start;
    return true;
}

/* Joins one logical line into reader->joined; false at the end. Bad lines come out empty, reported.
 */
static bool logical_line(struct reader *reader)
{
    const char *part;
    size_t length;
    reader->line = reader->next_line;
    if (!physical_line(reader, &part, &length))
        return false;
    size_t used = 0;
    bool too_long = false, dirty = false;
    for (;;) {
        size_t indent = 0;
        while (indent < length && (part[indent] == ' ' || part[indent] == '\t'))
            indent++;
        part += indent;
        length -= indent;
        bool comment = used == 0 && length > 0 && (part[0] == '#' || part[0] == ';');
        if (comment) /* whatever it holds, and however long it is */
            length = 0;
        dirty = dirty || !text_clean(part, length);
        bool more = length > 0 && part[length - 1] == '\\';
        length -= more;
        if (used + length + 1 > CONFIG_LINE_MAX) {
            too_long = true;
        } else {
            memcpy(reader->joined + used, part, length);
            used += length;
            if (more)
                reader->joined[used++] = ' ';
        }
        if (!more || !physical_line(reader, &part, &length))
            break;
    }
    if (too_long || dirty)
        used = 0;
    reader->joined[used] = '\0';
    if (dirty)
        config_error(reader->raw->errors, place_at(reader, reader->line),
                     "the line holds bytes that are not UTF-8 text; remove them");
    else if (too_long)
        config_error(reader->raw->errors, place_at(reader, reader->line),
                     "the line is longer than %d bytes; write lists of lines as several lines",
                     CONFIG_LINE_MAX);
    return true;
}

/* ---- headings ---------------------------------------------------------------------------- */

static struct raw_section *section_add(struct reader *reader, enum section_kind kind,
                                       const char *name, size_t name_length)
{
    struct raw *raw = reader->raw;
    if (raw->count == CONFIG_SECTIONS_MAX) {
        if (!raw->full)
            config_error(raw->errors, place_at(reader, reader->line),
                         "more than %d sections; split the work over several daemons",
                         CONFIG_SECTIONS_MAX);
        raw->full = true;
        return NULL;
    }
    struct raw_section *section = config_alloc(raw->memory, 1, sizeof *section);
    struct raw_setting *settings = config_alloc(raw->memory, schema_count(kind), sizeof *settings);
    char *copy = config_copy(raw->memory, name, name_length);
    if (section == NULL || settings == NULL || copy == NULL) {
        reader->out_of_memory = true;
        return NULL;
    }
    *section = (struct raw_section){
        .kind = kind,
        .name = copy,
        .place = place_at(reader, reader->line),
        .file = reader->file_index,
        .settings = settings,
        .type = -1,
    };
    raw_add(raw, section);
    return section;
}

static void section_enter(struct reader *reader, enum section_kind kind, const char *name,
                          size_t name_length)
{
    char key[OPTION_NAME_BYTES];
    snprintf(key, sizeof key, "%.*s", (int)name_length, name);
    const char *word = schema_sections[kind].word;
    struct raw_section *known = raw_find(reader->raw, kind, key);
    if (known != NULL && known->file == reader->file_index)
        config_error(reader->raw->errors, place_at(reader, reader->line),
                     "[%s%s%s] was begun in line %u already; %s", word, key[0] != '\0' ? " " : "",
                     key, known->place.line,
                     key[0] != '\0' ? "write another name or join the two" : "join the two");
    if (known != NULL)
        known->file = reader->file_index;
    reader->section = known != NULL ? known : section_add(reader, kind, name, name_length);
    reader->skip = reader->section == NULL;
}

/* `[word NAME]`, then nothing or a comment. */
static void heading(struct reader *reader)
{
    struct config_errors *errors = reader->raw->errors;
    struct config_place place = place_at(reader, reader->line);
    const char *line = reader->joined;
    const char *close = strchr(line, ']');
    reader->section = NULL;
    reader->skip = true;
    const char *after = close != NULL ? close + 1 + strspn(close + 1, " \t") : NULL;
    if (close == NULL || (*after != '\0' && *after != '#' && *after != ';')) {
        config_error(errors, place,
                     "`%.*s` is not a heading; write [daemon], [device], [stream NAME], "
                     "[filter NAME], [sink NAME], [alarm NAME] or [analysis NAME]",
                     QUOTE, line);
        return;
    }
    const char *word = line + 1 + strspn(line + 1, " \t");
    size_t word_length = strcspn(word, " \t]");
    const char *name = word + word_length + strspn(word + word_length, " \t");
    const char *name_end = close;
    while (name_end > name && (name_end[-1] == ' ' || name_end[-1] == '\t'))
        name_end--;
    size_t name_length = (size_t)(name_end - name);

    for (int kind = 0; kind < SECTIONS; kind++) {
        const struct schema_section *row = &schema_sections[kind];
        if (strlen(row->word) != word_length || strncmp(row->word, word, word_length) != 0)
            continue;
        char copy[OPTION_NAME_BYTES + 1];
        snprintf(copy, sizeof copy, "%.*s",
                 name_length < OPTION_NAME_BYTES ? (int)name_length : OPTION_NAME_BYTES, name);
        if (!row->named && name_length > 0)
            config_error(errors, place, "[%s] takes no name; write [%s]", row->word, row->word);
        else if (row->named && name_length == 0)
            config_error(errors, place, "[%s] needs a name; write [%s NAME]", row->word, row->word);
        else if (row->named && !option_name_valid(copy))
            config_error(
                errors, place,
                "`%.*s` is not a name; write up to %d letters, digits, _ - and . after [%s", QUOTE,
                copy, OPTION_NAME_BYTES - 1, row->word);
        else
            section_enter(reader, (enum section_kind)kind, name, name_length);
        return;
    }
    char unknown[OPTION_NAME_BYTES];
    snprintf(unknown, sizeof unknown, "%.*s",
             word_length < OPTION_NAME_BYTES ? (int)word_length : OPTION_NAME_BYTES - 1, word);
    for (int kind = 0; kind < SECTIONS; kind++)
        if (option_distance(unknown, schema_sections[kind].word) <= 2) {
            config_error(errors, place, "[%s] is not a section; write [%s%s]", unknown,
                         schema_sections[kind].word, schema_sections[kind].named ? " NAME" : "");
            return;
        }
    config_error(errors, place,
                 "[%s] is not a section; write [daemon], [device], [stream NAME], "
                 "[filter NAME] or [sink NAME]",
                 unknown);
}

/* inih's fgets: hands over one `key = value` line at a time. */
static char *raw_next_line(char *out, int room, void *context)
{
    struct reader *reader = context;
    assert(room > CONFIG_LINE_MAX + 2); /* ini_max_line is set so */
    while (!reader->out_of_memory && logical_line(reader)) {
        if (reader->joined[0] == '[') {
            heading(reader);
        } else if (reader->joined[0] != '\0') {
            snprintf(out, (size_t)room, "%s\n", reader->joined);
            return out;
        }
    }
    return NULL;
}

/* ---- settings ---------------------------------------------------------------------------- */

static bool item_add(struct reader *reader, struct raw_setting *setting, const char *value)
{
    struct config_memory *memory = reader->raw->memory;
    if (setting->count == setting->capacity) {
        unsigned capacity = setting->capacity == 0 ? 1 : 2 * setting->capacity;
        struct raw_item *items = config_alloc(memory, capacity, sizeof *items);
        if (items == NULL)
            return false;
        if (setting->count > 0)
            memcpy(items, setting->items, setting->count * sizeof *items);
        setting->items = items;
        setting->capacity = capacity;
    }
    char *copy = config_copy(memory, value, strlen(value));
    if (copy == NULL)
        return false;
    setting->items[setting->count++] = (struct raw_item){copy, place_at(reader, reader->line)};
    return true;
}

/* The key of a section that is the same but for letters' case and '_', '-' and ' '. */
static const struct schema_key *same_key(enum section_kind section, const char *name)
{
    const struct schema_key *key = NULL;
    for (unsigned slot = 0; (key = schema_at(section, slot)) != NULL; slot++)
        if (option_distance(name, key->row.key) == 0)
            return key;
    return NULL;
}

static void unknown_key(struct reader *reader, const char *name)
{
    struct config_errors *errors = reader->raw->errors;
    struct config_place place = place_at(reader, reader->line);
    enum section_kind kind = reader->section->kind;
    const char *word = schema_sections[kind].word;
    const struct schema_key *nearest = schema_nearest(kind, name);
    unsigned distance = nearest != NULL ? option_distance(name, nearest->row.key) : UINT_MAX;
    /* A key of another section is a better suggestion than a word that is only spelled alike. */
    for (int other = 0; other < SECTIONS && distance > 1; other++) {
        const struct schema_key *key = same_key((enum section_kind)other, name);
        if (key == NULL)
            continue;
        const struct schema_section *section = &schema_sections[other];
        config_error(errors, place, "`%.*s` is not a key of [%s]; write `%s` into a [%s%s] section",
                     QUOTE, name, word, key->row.key, section->word, section->named ? " NAME" : "");
        return;
    }
    if (nearest != NULL) {
        config_error(errors, place, "`%.*s` is not a key of [%s]; write `%s`", QUOTE, name, word,
                     nearest->row.key);
        return;
    }
    config_error(
        errors, place,
        "`%.*s` is not a key of [%s]; remove it, or see convolvd --help-config for the keys", QUOTE,
        name, word);
}

static void store(struct reader *reader, const char *name, const char *value)
{
    struct config_errors *errors = reader->raw->errors;
    struct config_place place = place_at(reader, reader->line);
    if (reader->skip)
        return;
    if (reader->section == NULL) {
        if (!reader->headless_reported)
            config_error(errors, place,
                         "`%.*s` stands before the first heading; write one above it, "
                         "as [daemon] or [stream NAME]",
                         QUOTE, name);
        reader->headless_reported = true;
        return;
    }
    if (value == NULL) {
        config_error(errors, place, "`%.*s` has no =; write key = value", QUOTE, name);
        return;
    }
    if (name[0] == '\0') {
        config_error(errors, place, "the line has no key before its =; write key = value");
        return;
    }
    const struct schema_key *key = schema_find(reader->section->kind, name);
    if (key == NULL) {
        unknown_key(reader, name);
        return;
    }
    struct raw_setting *setting = raw_setting_at(reader->section, key);
    bool first = setting->count == 0 || setting->file != reader->file_index;
    if (value[0] == '\0') {
        setting->count = 0;
        return;
    }
    if (!first && key->row.list != LIST_LINES) {
        config_error(errors, place, "`%s` was given in line %u already; remove one of them", name,
                     setting->place.line);
        return;
    }
    if (setting->count >= CONFIG_ITEMS_MAX) {
        if (setting->count == CONFIG_ITEMS_MAX)
            config_error(errors, place, "`%s` is given more than %d times; write fewer", name,
                         CONFIG_ITEMS_MAX);
        return;
    }
    if (first) {
        setting->count = 0; /* an earlier file's values are overridden as a whole */
        setting->place = place;
        setting->file = reader->file_index;
    }
    if (!item_add(reader, setting, value))
        reader->out_of_memory = true;
}

/* inih's handler; the section it thinks of is not used. */
static int on_value(void *context, const char *section, const char *name, const char *value)
{
    (void)section;
    store(context, name, value);
    return 1;
}

/* The encoding of a text that is not UTF-8 but has a byte order mark, or a zero byte beside each of
 * its first characters; NULL: neither. */
static const char *foreign_encoding(const char *text, size_t bytes)
{
    static const struct {
        const char *mark;
        size_t bytes;
        const char *name;
    } marks[] = {{"\xff\xfe\0\0", 4, "UTF-32"},
                 {"\0\0\xfe\xff", 4, "UTF-32"},
                 {"\xff\xfe", 2, "UTF-16"},
                 {"\xfe\xff", 2, "UTF-16"}};
    for (size_t i = 0; i < sizeof marks / sizeof *marks; i++)
        if (bytes >= marks[i].bytes && memcmp(text, marks[i].mark, marks[i].bytes) == 0)
            return marks[i].name;
    /* "[d", "# " or "\n\n" in either order of bytes. */
    if (bytes >= 4 && text[0] != 0 && text[1] == 0)
        return text[2] != 0 && text[3] == 0 ? "UTF-16LE" : text[2] == 0 ? "UTF-32LE" : NULL;
    if (bytes >= 4 && text[0] == 0 && text[3] != 0)
        return text[1] != 0 && text[2] == 0 ? "UTF-16BE" : text[1] == 0 ? "UTF-32BE" : NULL;
    return NULL;
}

int raw_read(struct raw *raw, const char *name, unsigned file, const char *text, size_t bytes)
{
    /* inih's behaviour is set by its globals; always to the same values. */
    ini_max_line = CONFIG_LINE_MAX + 64;
    ini_use_stack = true;
    ini_allow_multiline = false; /* an indented key is a key */
    ini_allow_no_value = true;   /* told apart by the handler, with its line */
    ini_stop_on_first_error = false;
    ini_allow_inline_comments = true;
    static char comment_prefixes[] = ";#";
    ini_start_comment_prefixes = comment_prefixes;
    ini_inline_comment_prefixes = comment_prefixes;

    char *file_name = config_copy(raw->memory, name, strlen(name));
    struct reader *reader = config_alloc(raw->memory, 1, sizeof *reader);
    if (file_name == NULL || reader == NULL)
        return ERROR_MEMORY;
    *reader = (struct reader){.raw = raw,
                              .file = file_name,
                              .file_index = file,
                              .text = text,
                              .bytes = bytes,
                              .next_line = 1};
    if (bytes > CONFIG_TEXT_MAX) {
        config_error(raw->errors, place_at(reader, 0), "the file is larger than %d bytes; split it",
                     CONFIG_TEXT_MAX);
        return 0;
    }
    const char *encoding = foreign_encoding(text, bytes);
    if (encoding != NULL) {
        raw->undecoded = true;
        config_error(raw->errors, place_at(reader, 0),
                     "the file is %s text; save it as UTF-8, or convert it: iconv -f %s -t UTF-8 "
                     "%s > NEW",
                     encoding, encoding, name);
        return 0;
    }
    if (bytes >= 3 && memcmp(text, "\xef\xbb\xbf", 3) == 0)
        reader->at = 3;
    /* What inih could find wrong, the handler has reported with its line already. */
    (void)ini_parse_stream(raw_next_line, reader, on_value, reader);
    return reader->out_of_memory ? ERROR_MEMORY : 0;
}
