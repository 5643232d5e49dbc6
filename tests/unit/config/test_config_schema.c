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

/* Calls `check` for every key and every type of its section that it applies to. */
static void each_key(void (*check)(const struct schema_key *key, int type))
{
    for (int id = 0; id < KEYS; id++) {
        const struct schema_key *key = &schema_keys[id];
        if (schema_sections[key->section].type_key == NULL)
            check(key, 0);
        for (int type = 0; schema_type_name(key->section, type) != NULL; type++)
            if (key->applies == 0 || (key->applies >> type) & 1)
                check(key, type);
    }
}

/* ---- the table itself -------------------------------------------------------------------------
 */

static void rows_are_complete_and_in_order(void **state)
{
    (void)state;
    for (int id = 0; id < KEYS; id++) {
        const struct schema_key *key = &schema_keys[id];
        if (key->key == NULL || key->sentence == NULL)
            fail_msg("row %d is empty", id);
        if (id > 0 && key->section < schema_keys[id - 1].section)
            fail_msg("`%s` stands behind another section's rows", key->key);
        if (schema_find(key->section, key->key) != key)
            fail_msg("`%s` is in the table twice", key->key);
        size_t length = strlen(key->sentence);
        if (key->sentence[length - 1] != '.')
            fail_msg("`%s`: the sentence has no full stop", key->key);
        if (key->type == VALUE_CHOICE && key->choices == NULL)
            fail_msg("`%s` has no choices", key->key);
        if (key->required == 0 && key->fallback == NULL && key->fallback_words == NULL &&
            key->section != SECTION_FILTER && key->list == LIST_NONE)
            fail_msg("`%s` says nothing of its default", key->key);
        struct value value;
        struct problem problem;
        if (key->fallback != NULL && schema_value_parse(key, key->fallback, &value, &problem) != 0)
            fail_msg("the default of `%s` is not valid: %s", key->key, problem.text);
    }
}

/* ---- each key ---------------------------------------------------------------------------------
 */

static void good_value(const struct schema_key *key, int type)
{
    const char *section_type = schema_sections[key->section].type_key;
    const char *good = sample_good(key);
    if (section_type != NULL && strcmp(section_type, key->key) == 0)
        return; /* every other test writes it */
    if (good == NULL)
        fail_msg("`%s` has no good value in config_samples.c", key->key);
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
    switch (key->type) {
    case VALUE_FREQUENCY:
        return " Hz";
    case VALUE_TIME:
        return " s";
    case VALUE_MEMORY:
        return " B";
    case VALUE_DECIBEL:
        return " dB";
    case VALUE_ANGLE:
        return " deg";
    case VALUE_LENGTH:
        return " m";
    case VALUE_VELOCITY:
        return " m/s";
    case VALUE_SPAN:
    case VALUE_DELAY:
        return " frames";
    default:
        return "";
    }
}

static bool ranged(const struct schema_key *key)
{
    return key->type >= VALUE_COUNT && key->type != VALUE_ROTATION;
}

static void bounds(const struct schema_key *key, int type)
{
    char value[64], words[128];
    if (!ranged(key))
        return;
    /* Percentages are written a hundred times as large. */
    double scale = key->type == VALUE_RATIO ? 100 : 1;
    const char *unit = key->type == VALUE_RATIO ? " %" : base_unit(key);
    snprintf(words, sizeof words, "`%s = ", key->key);
    double below =
        key->above_minimum ? key->minimum : key->minimum - fmax(1, fabs(key->minimum) / 2);
    snprintf(value, sizeof value, "%.15g%s", below * scale, unit);
    expect_error(key, type, value, words);
    expect_error(key, type, value, "is out of range; write ");
    double above = key->maximum + fmax(1, fabs(key->maximum) / 4);
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
    } wrong[VALUE_TYPES] = {
        [VALUE_NAME] = {"a b", "is not a name"},
        [VALUE_ADDRESS] = {"nohost", "names no port"},
        [VALUE_CHOICE] = {"zzzzzz", "is not known; write"},
        [VALUE_BOOLEAN] = {"perhaps", "write yes or no"},
        [VALUE_FORMAT] = {"s17", "is not a sample format"},
        [VALUE_SSRC] = {"0x1ffffffff", "is not a 32-bit number"},
        [VALUE_SOURCE] = {"rpt2", "is not known; write"},
        [VALUE_ROUTE] = {"1 - spare - 1", "is not a route"},
        [VALUE_COUNT] = {"3 Hz", "is a frequency"},
        [VALUE_NUMBER] = {"3 Hz", "is a frequency"},
        [VALUE_FREQUENCY] = {"3 us", "is a time"},
        [VALUE_TIME] = {"200 Hz", "is a frequency"},
        [VALUE_MEMORY] = {"3 s", "is a time"},
        [VALUE_DECIBEL] = {"3 Hz", "is a frequency"},
        [VALUE_RATIO] = {"3 Hz", "is a frequency"},
        [VALUE_ANGLE] = {"3 s", "is a time"},
        [VALUE_LENGTH] = {"3 m/s", "is a velocity"},
        [VALUE_VELOCITY] = {"3 mm", "is a length"},
        [VALUE_AMPLITUDE] = {"3 Hz", "is a frequency"},
        [VALUE_SPAN] = {"3 Hz", "is a frequency"},
        [VALUE_DELAY] = {"3 dB", "is a level"},
        [VALUE_ROTATION] = {"3 Hz", "is a frequency"},
    };
    if (wrong[key->type].value == NULL) /* any text will do */
        return;
    char words[80];
    snprintf(words, sizeof words, "`%s", key->key);
    expect_error(key, type, wrong[key->type].value, words);
    expect_error(key, type, wrong[key->type].value, wrong[key->type].words);
}

static void values_of_another_kind_are_refused(void **state)
{
    (void)state;
    each_key(wrong_kind);
}

/* A number without its unit. */
static void no_unit(const struct schema_key *key, int type)
{
    switch (key->type) {
    case VALUE_FREQUENCY:
    case VALUE_TIME:
    case VALUE_MEMORY:
    case VALUE_DECIBEL:
    case VALUE_RATIO:
    case VALUE_ANGLE:
    case VALUE_LENGTH:
    case VALUE_VELOCITY:
    case VALUE_ROTATION:
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
    for (int id = 0; id < KEYS; id++) {
        const struct schema_key *key = &schema_keys[id];
        for (int type = 0; schema_type_name(key->section, type) != NULL; type++)
            if (key->applies != 0 && ((key->applies >> type) & 1) == 0)
                expect_error(key, type, sample_good(key), "has no meaning with");
    }
}

static void missing(const struct schema_key *key, int type)
{
    const char *section_type = schema_sections[key->section].type_key;
    if (section_type != NULL && strcmp(section_type, key->key) == 0)
        return;
    if (key->required == 0 || ((key->required >> type) & 1) == 0)
        return;
    char text[TEXT_BYTES], words[80];
    struct config_errors errors;
    sample_around(key, type, NULL, text, sizeof text);
    snprintf(words, sizeof words, "needs `%s`", key->key);
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
    for (int id = 0; id < KEYS; id++) {
        const struct schema_key *key = &schema_keys[id];
        char spelt[64], words[96];
        snprintf(spelt, sizeof spelt, "%sx", key->key);
        snprintf(words, sizeof words, "write `%s`", key->key);
        if (strcmp(key->key, "path") == 0 || strcmp(key->key, "type") == 0)
            continue; /* in three sections */
        struct schema_key misspelt = *key;
        misspelt.key = spelt;
        char text[TEXT_BYTES];
        struct config_errors errors;
        int type = 0;
        while (key->applies != 0 && ((key->applies >> type) & 1) == 0)
            type++;
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
