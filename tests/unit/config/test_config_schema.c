/*
 * The configuration over its schema table: every key, in every type of section it applies to,
 * with a good value, below and above its range, with a wrong unit, and where it does not
 * belong. The table is the specification; each message must stand at the key's own line and
 * name the key.
 */
#include <float.h>
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "tests/support/config_samples.h"

enum { TEXT_BYTES = 4096 };

/* One load; what was wrong stays in `errors`. */
static int load(const char *text, struct config_errors *errors)
{
    struct config *config;
    int status = sample_load(text, &config, errors);
    assert_true((status == 0) == (config != NULL));
    config_free(config);
    return status;
}

static void expect_good(const struct schema_key *key, int type, const char *value)
{
    char text[TEXT_BYTES];
    struct config_errors errors;
    sample_around(key, type, value, text, sizeof text);
    if (load(text, &errors) != 0) {
        char *messages = sample_messages(&errors);
        fail_msg("a good value was refused:\n%s%s", text, messages);
    }
    config_errors_free(&errors);
}

static void expect_error(const struct schema_key *key, int type, const char *value,
                         const char *words)
{
    char text[TEXT_BYTES];
    struct config_errors errors;
    unsigned line = sample_around(key, type, value, text, sizeof text);
    int status = load(text, &errors);
    if (status != ERROR_CONFIG || !sample_message(&errors, line, false, words)) {
        char *messages = sample_messages(&errors);
        fail_msg("no error at line %u with \"%s\":\n%s%s", line, words, text, messages);
    }
    config_errors_free(&errors);
}

/* All keys, section by section; NULL past the end. */
static const struct schema_key *nth_key(unsigned n)
{
    for (int section = 0; section < SECTIONS; section++) {
        if (n < schema_count((enum section_kind)section))
            return schema_at((enum section_kind)section, n);
        n -= schema_count((enum section_kind)section);
    }
    return NULL;
}

/* Calls `check` for every key and every type of its section that it applies to. */
static void each_key(void (*check)(const struct schema_key *key, int type))
{
    const struct schema_key *key = NULL;
    for (unsigned n = 0; (key = nth_key(n)) != NULL; n++) {
        if (schema_sections[key->section].type_key == NULL)
            check(key, 0);
        for (const struct schema_key *at = key; at != NULL; at = at->other)
            for (int type = 0; schema_type_name(key->section, type) != NULL; type++)
                if (at->applies == 0 || (at->applies >> type) & 1)
                    check(at, type);
    }
}

/* ---- the table itself -------------------------------------------------------------------------
 */

static void rows_are_complete_and_in_order(void **state)
{
    (void)state;
    const struct schema_key *key = NULL;
    for (unsigned n = 0; (key = nth_key(n)) != NULL; n++) {
        if (key->row.key == NULL || key->row.sentence == NULL)
            fail_msg("row %u is empty", n);
        if (schema_at(key->section, key->slot) != key)
            fail_msg("`%s` has another's place in its section", key->row.key);
        if (schema_find(key->section, key->row.key) != key)
            fail_msg("`%s` is in the table twice", key->row.key);
        const char *sentence = key->row.sentence != NULL ? key->row.sentence : "";
        if (sentence[0] == '\0' || sentence[strlen(sentence) - 1] != '.')
            fail_msg("`%s`: the sentence has no full stop", key->row.key);
        if (key->row.type == OPTION_CHOICE && key->row.choices == NULL)
            fail_msg("`%s` has no choices", key->row.key);
        if (key->required == 0 && key->row.fallback == NULL && key->row.fallback_words == NULL &&
            key->section != SECTION_FILTER && key->row.list == LIST_NONE)
            fail_msg("`%s` says nothing of its default", key->row.key);
        struct option_value value;
        struct problem problem;
        if (key->row.fallback != NULL &&
            option_parse(&key->row, key->row.fallback, &value, &problem) != 0)
            fail_msg("the default of `%s` is not valid: %s", key->row.key, problem.text);
    }
}

static bool same_text(const char *a, const char *b)
{
    return a == b || (a != NULL && b != NULL && strcmp(a, b) == 0);
}

static void expect_shared(enum section_kind section, const char *driver,
                          const struct option_row *rows, unsigned count)
{
    for (unsigned i = 0; i < count; i++) {
        const struct option_row *row = &rows[i];
        const struct schema_key *key = schema_find(section, row->key);
        assert_non_null(key);
        if (key->row.type != row->type || key->row.list != row->list ||
            key->row.minimum != row->minimum || key->row.maximum != row->maximum ||
            key->row.above_minimum != row->above_minimum || key->row.choices != row->choices ||
            key->row.required != row->required || !same_text(key->row.fallback, row->fallback) ||
            !same_text(key->row.sentence, row->sentence))
            fail_msg("`%s` of %s is not what another driver means by it", row->key, driver);
        if (row->field == FIELD_NONE)
            fail_msg("`%s` of %s fills no field", row->key, driver);
    }
}

/* A key that several drivers have is parsed once: all of them must mean the same by it. */
static void drivers_agree_on_the_keys_they_share(void **state)
{
    (void)state;
    for (int i = 0; source_at(i) != NULL; i++)
        expect_shared(SECTION_STREAM, source_at(i)->name, source_at(i)->options,
                      source_at(i)->option_count);
    for (int i = 0; sink_at(i) != NULL; i++)
        expect_shared(SECTION_SINK, sink_at(i)->name, sink_at(i)->options,
                      sink_at(i)->option_count);
    for (int i = 0; event_sink_at(i) != NULL; i++)
        expect_shared(SECTION_SINK, event_sink_at(i)->name, event_sink_at(i)->options,
                      event_sink_at(i)->option_count);
}

/* Analyses may each mean something of their own by a key: every row is found by its type. */
static void each_analysis_has_its_own_keys(void **state)
{
    (void)state;
    for (int type = 0; analysis_at(type) != NULL; type++)
        for (unsigned i = 0; i < analysis_at(type)->option_count; i++) {
            const struct option_row *row = &analysis_at(type)->options[i];
            const struct schema_key *head = schema_find(SECTION_ANALYSIS, row->key);
            assert_non_null(head);
            const struct schema_key *key = schema_for(head, type);
            assert_int_equal(key->slot, head->slot);
            assert_true(key->applies >> type & 1);
            assert_true((key->required >> type & 1) == row->required);
            assert_string_equal(key->row.sentence, row->sentence);
            assert_true(same_text(key->row.fallback, row->fallback));
            if (row->field == FIELD_NONE)
                fail_msg("`%s` of %s fills no field", row->key, analysis_at(type)->name);
        }
}

/* ---- each key ---------------------------------------------------------------------------------
 */

static void good_value(const struct schema_key *key, int type)
{
    const char *section_type = schema_sections[key->section].type_key;
    const char *good = sample_good(key);
    if (section_type != NULL && strcmp(section_type, key->row.key) == 0)
        return; /* every other test writes it */
    if (good == NULL)
        fail_msg("`%s` has no good value in config_samples.c", key->row.key);
    /* The ends of a chirp or a band depend on each other: good_values fit the sample. */
    expect_good(key, type, good);
}

static void good_values_are_taken(void **state)
{
    (void)state;
    each_key(good_value);
}

/* The unit in which bounds are written. */
static const char *base_unit(const struct schema_key *key)
{
    switch (key->row.type) {
    case OPTION_FREQUENCY:
        return " Hz";
    case OPTION_TIME:
        return " s";
    case OPTION_MEMORY:
        return " B";
    case OPTION_DECIBEL:
        return " dB";
    case OPTION_ANGLE:
        return " deg";
    case OPTION_LENGTH:
        return " m";
    case OPTION_VELOCITY:
        return " m/s";
    case OPTION_SPAN:
    case OPTION_DELAY:
        return " frames";
    default:
        return "";
    }
}

static bool ranged(const struct schema_key *key)
{
    return key->row.type >= OPTION_COUNT && key->row.type != OPTION_ROTATION;
}

static void bounds(const struct schema_key *key, int type)
{
    char value[64], words[128];
    if (!ranged(key))
        return;
    /* Percentages are written a hundred times as large. */
    double scale = key->row.type == OPTION_RATIO ? 100 : 1;
    const char *unit = key->row.type == OPTION_RATIO ? " %" : base_unit(key);
    snprintf(words, sizeof words, "`%s = ", key->row.key);
    double below = key->row.above_minimum ? key->row.minimum
                                          : key->row.minimum - fmax(1, fabs(key->row.minimum) / 2);
    snprintf(value, sizeof value, "%.15g%s", below * scale, unit);
    expect_error(key, type, value, words);
    expect_error(key, type, value, "is out of range; write ");
    double above = key->row.maximum + fmax(1, fabs(key->row.maximum) / 4);
    snprintf(value, sizeof value, "%.15g%s", above * scale, unit);
    expect_error(key, type, value, "is out of range; write ");
}

static void values_out_of_range_are_refused(void **state)
{
    (void)state;
    each_key(bounds);
}

/* A value of the wrong kind, and words its message must have. */
static void wrong_kind(const struct schema_key *key, int type)
{
    static const struct {
        const char *value, *words;
    } wrong[OPTION_TYPES] = {
        [OPTION_NAME] = {"a b", "is not a name"},
        [OPTION_ADDRESS] = {"nohost", "names no port"},
        [OPTION_CHOICE] = {"zzzzzz", "is not known; write"},
        [OPTION_BOOLEAN] = {"perhaps", "write yes or no"},
        [OPTION_UINT32] = {"0x1ffffffff", "is not a 32-bit number"},
        [OPTION_COUNT] = {"3 Hz", "is a frequency"},
        [OPTION_NUMBER] = {"3 Hz", "is a frequency"},
        [OPTION_FREQUENCY] = {"3 us", "is a time"},
        [OPTION_TIME] = {"200 Hz", "is a frequency"},
        [OPTION_MEMORY] = {"3 s", "is a time"},
        [OPTION_DECIBEL] = {"3 Hz", "is a frequency"},
        [OPTION_RATIO] = {"3 Hz", "is a frequency"},
        [OPTION_ANGLE] = {"3 s", "is a time"},
        [OPTION_LENGTH] = {"3 m/s", "is a velocity"},
        [OPTION_VELOCITY] = {"3 mm", "is a length"},
        [OPTION_AMPLITUDE] = {"3 Hz", "is a frequency"},
        [OPTION_SPAN] = {"3 Hz", "is a frequency"},
        [OPTION_DELAY] = {"3 dB", "is a level"},
        [OPTION_ROTATION] = {"3 Hz", "is a frequency"},
    };
    /* Keys that parse their values themselves. */
    static const struct {
        const char *key, *value, *words;
    } own[] = {
        {"format", "s17", "is not a sample format"},
        {"quantity", "Volume", "is not known"},
        {"node", "west", "is no memory node; write"},
        {"source", "rpt2", "is not known; write"},
        {"route", "1 - spare - 1", "is not a route"},
        {"sync", "sometimes", "is not known; write"},
        {"threshold", "3 Hz", "is a frequency; write"},
        {"keep", "peak_db", "is no limit; write"},
        {"parameters", "load", "is no parameter; write"},
        {"tcg", "3 dB", "is no point of gain"},
        {"gate", "3 us", "is no gate"},
        {"speed", "3 mm", "is no speed"},
        {"bands", "3 Hz", "`bands"},
        {"sensors", "3 Hz", "`sensors"},
        {"extent", "3 Hz", "`extent"},
        {"pulse above", "3 Hz", "is a frequency; write"},
        {"noise floor", "3 Hz", "is a frequency; write"},
        {"tacho level", "3 Hz", "is a frequency; write"},
        {"tacho hysteresis", "-3 mV", "is below 0; write"},
        {"amplitude", "3 ms", "is a time; write"},
        {"noise", "-1 mV", "is below 0; write"},
        {"dc", "3 Hz", "is a frequency; write"},
        {"range", "3 Hz", "is a frequency; write"},
        {"bpfo", "105 s", "is a time, `bpfo` takes a plain number"},
        {"bpfi", "40 dB", "is a level in dB, `bpfi` takes a plain number"},
        {"bsf", "0", "is out of range"},
        {"ftf", "2000", "is out of range"},
        {"sources", "1 mm 2 mm 3 mm", "is no point: write"},
    };
    const char *value = wrong[key->row.type].value, *says = wrong[key->row.type].words;
    for (size_t i = 0; key->row.type == OPTION_OWN && i < sizeof own / sizeof own[0]; i++)
        if (strcmp(own[i].key, key->row.key) == 0) {
            value = own[i].value;
            says = own[i].words;
        }
    if (key->row.type == OPTION_OWN && value == NULL)
        fail_msg("`%s` has no wrong value here", key->row.key);
    if (value == NULL) /* any text will do */
        return;
    char words[80];
    snprintf(words, sizeof words, "`%s", key->row.key);
    expect_error(key, type, value, words);
    expect_error(key, type, value, says);
}

static void values_of_another_kind_are_refused(void **state)
{
    (void)state;
    each_key(wrong_kind);
}

/* A number without its unit. */
static void no_unit(const struct schema_key *key, int type)
{
    switch (key->row.type) {
    case OPTION_FREQUENCY:
    case OPTION_TIME:
    case OPTION_MEMORY:
    case OPTION_DECIBEL:
    case OPTION_RATIO:
    case OPTION_ANGLE:
    case OPTION_LENGTH:
    case OPTION_VELOCITY:
    case OPTION_ROTATION:
        expect_error(key, type, "7", "has no unit");
        break;
    default:
        break;
    }
}

static void a_missing_unit_is_refused(void **state)
{
    (void)state;
    each_key(no_unit);
}

static void keys_do_not_apply_to_other_types(void **state)
{
    (void)state;
    const struct schema_key *key = NULL;
    for (unsigned n = 0; (key = nth_key(n)) != NULL; n++) {
        for (int type = 0; schema_type_name(key->section, type) != NULL; type++)
            if (key->applies != 0 && ((schema_applies(key) >> type) & 1) == 0)
                expect_error(key, type, sample_good(key), "has no meaning with");
    }
}

static void missing(const struct schema_key *key, int type)
{
    const char *section_type = schema_sections[key->section].type_key;
    if (section_type != NULL && strcmp(section_type, key->row.key) == 0)
        return;
    if (key->required == 0 || ((key->required >> type) & 1) == 0)
        return;
    char text[TEXT_BYTES], words[80];
    struct config_errors errors;
    sample_around(key, type, NULL, text, sizeof text);
    snprintf(words, sizeof words, "needs `%s`", key->row.key);
    /* The message stands at the heading of the section. */
    unsigned line = 1;
    const char *heading = strstr(text, " sample]");
    for (const char *at = text; at < heading; at++)
        line += *at == '\n';
    if (load(text, &errors) != ERROR_CONFIG || !sample_message(&errors, line, false, words)) {
        char *messages = sample_messages(&errors);
        fail_msg("no error at line %u with \"%s\":\n%s%s", line, words, text, messages);
    }
    config_errors_free(&errors);
}

static void missing_keys_are_named(void **state)
{
    (void)state;
    each_key(missing);
}

static void misspelt_keys_get_a_suggestion(void **state)
{
    (void)state;
    const struct schema_key *key = NULL;
    for (unsigned n = 0; (key = nth_key(n)) != NULL; n++) {
        char spelt[64], words[96];
        snprintf(spelt, sizeof spelt, "%sx", key->row.key);
        snprintf(words, sizeof words, "write `%s`", key->row.key);
        if (strcmp(key->row.key, "path") == 0 || strcmp(key->row.key, "type") == 0)
            continue; /* in three sections */
        struct schema_key misspelt = *key;
        misspelt.row.key = spelt;
        char text[TEXT_BYTES];
        struct config_errors errors;
        int type = 0;
        while (key->applies != 0 && ((key->applies >> type) & 1) == 0)
            type++;
        if (schema_sections[key->section].type_key != NULL &&
            schema_type_name(key->section, type) == NULL)
            continue; /* nothing of that kind is built in */
        unsigned line = sample_around(&misspelt, type, "1", text, sizeof text);
        if (load(text, &errors) != ERROR_CONFIG || !sample_message(&errors, line, false, words)) {
            char *messages = sample_messages(&errors);
            fail_msg("no error at line %u with \"%s\":\n%s%s", line, words, text, messages);
        }
        config_errors_free(&errors);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(rows_are_complete_and_in_order),
        cmocka_unit_test(drivers_agree_on_the_keys_they_share),
        cmocka_unit_test(each_analysis_has_its_own_keys),
        cmocka_unit_test(good_values_are_taken),
        cmocka_unit_test(values_out_of_range_are_refused),
        cmocka_unit_test(values_of_another_kind_are_refused),
        cmocka_unit_test(a_missing_unit_is_refused),
        cmocka_unit_test(keys_do_not_apply_to_other_types),
        cmocka_unit_test(missing_keys_are_named),
        cmocka_unit_test(misspelt_keys_get_a_suggestion),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
