/*
 * Options: what a row says of its values, and that a value reaches the field of its type. Ranges,
 * units and messages are proven over the whole schema by test_config_schema.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "core/option.h"

enum colour { RED = 7, BLUE = 3 };

struct paint {
    const char *name;
    bool glossy;
    uint32_t layers;
    uint64_t litres;
    int64_t drying_ns;
    double wavelength_s;
    enum colour colour;
    const struct option_value *thickness;
    struct option_values batches;
};

static const struct option_choice colours[] = {{"red", RED}, {"blue", BLUE}, {NULL, 0}};

#define FIELD(member) OPTION_FIELD(struct paint, member)

enum { NAME, GLOSSY, LAYERS, LITRES, DRYING, WAVELENGTH, COLOUR, THICKNESS, BATCHES, ROWS };

static const struct option_row rows[ROWS] = {
    [NAME] = {.key = "name", .type = OPTION_TEXT, FIELD(name)},
    [GLOSSY] = {.key = "glossy", .type = OPTION_BOOLEAN, FIELD(glossy)},
    [LAYERS] = {.key = "layers", .type = OPTION_COUNT, .minimum = 1, .maximum = 9, FIELD(layers)},
    [LITRES] = {.key = "litres", .type = OPTION_MEMORY, .maximum = 1e12, FIELD(litres)},
    [DRYING] = {.key = "drying", .type = OPTION_TIME, .maximum = 1e6, FIELD(drying_ns)},
    [WAVELENGTH] = {.key = "wavelength", .type = OPTION_TIME, .maximum = 1e6, FIELD(wavelength_s)},
    [COLOUR] = {.key = "colour", .type = OPTION_CHOICE, .choices = colours, FIELD(colour)},
    [THICKNESS] =
        {.key = "thickness", .type = OPTION_SPAN, .minimum = 10, .maximum = 1000, FIELD(thickness)},
    [BATCHES] = {.key = "batches",
                 .type = OPTION_COUNT,
                 .list = LIST_COMMA,
                 .minimum = 0,
                 .maximum = 9,
                 FIELD(batches)},
};

static struct option_value parsed(int row, const char *text)
{
    struct option_value value;
    struct problem problem;
    if (option_parse(&rows[row], text, &value, &problem) != 0)
        fail_msg("%s = %s: %s", rows[row].key, text, problem.text);
    return value;
}

static void values_reach_the_fields_of_their_rows(void **state)
{
    (void)state;
    struct paint paint = {0};
    static const char *const texts[ROWS] = {"sea",    "yes",  "3",    "2 KiB", "5 ms",
                                            "0.1 ms", "blue", "1 ms", "1"};
    struct option_value values[ROWS];
    for (int row = 0; row < ROWS; row++) {
        values[row] = parsed(row, texts[row]);
        option_store(&rows[row], &values[row], 1, &paint);
    }
    assert_string_equal(paint.name, "sea");
    assert_true(paint.glossy);
    assert_int_equal(paint.layers, 3);
    assert_int_equal(paint.litres, 2048);
    assert_int_equal(paint.drying_ns, 5000000);
    assert_true(paint.wavelength_s == 0.1e-3);
    assert_int_equal(paint.colour, BLUE); /* the enum's value, not the word's position */
    assert_ptr_equal(paint.thickness, &values[THICKNESS]);
    assert_ptr_equal(paint.batches.values, &values[BATCHES]);
    assert_int_equal(paint.batches.count, 1);
}

static void rows_describe_themselves(void **state)
{
    (void)state;
    char text[128];
    assert_string_equal(option_range_text(&rows[LAYERS], text, sizeof text), "1 … 9");
    assert_string_equal(option_range_text(&rows[NAME], text, sizeof text), "");
    assert_string_equal(option_choices_text(&rows[COLOUR], " | ", text, sizeof text), "red | blue");
    assert_string_equal(option_words(&rows[DRYING]), "time");
    assert_ptr_equal(option_find(rows, ROWS, "litres"), &rows[LITRES]);
    assert_null(option_find(rows, ROWS, "litre"));
    assert_int_equal(option_distance("drying time", "Drying_time"), 0);
    assert_int_equal(option_distance("colour", "color"), 1);
}

static void addresses_are_split(void **state)
{
    (void)state;
    static const struct {
        const char *text, *host;
        uint16_t port;
    } table[] = {
        {"239.1.2.3:5004", "239.1.2.3", 5004},
        {"[ff15::1]:5006", "ff15::1", 5006},
        {"*:0", "*", 0},
        {"rig.example:65535", "rig.example", 65535},
    };
    for (size_t i = 0; i < sizeof table / sizeof table[0]; i++) {
        const struct option_address address = option_address(table[i].text);
        assert_int_equal(address.host_bytes, strlen(table[i].host));
        assert_memory_equal(address.host, table[i].host, address.host_bytes);
        assert_int_equal(address.port, table[i].port);
    }
}

struct said {
    char key[32], text[256];
    bool warning;
};

static void note(void *context, const char *key, bool warning, const char *text)
{
    struct said *said = context;
    snprintf(said->key, sizeof said->key, "%s", key != NULL ? key : "");
    snprintf(said->text, sizeof said->text, "%s", text);
    said->warning = warning;
}

static const struct option_value *none_written(void *context, const char *key)
{
    (void)context;
    (void)key;
    return NULL;
}

static void spans_become_frames_at_a_rate(void **state)
{
    (void)state;
    struct said said = {0};
    const struct option_check check = {&said, "wall", note, none_written};
    uint64_t frames = 1;
    struct option_value time = parsed(THICKNESS, "1 ms"), plain = parsed(THICKNESS, "77");
    assert_true(option_frames(&check, &rows[THICKNESS], NULL, 48000, &frames));
    assert_int_equal(frames, 0);
    assert_true(option_frames(&check, &rows[THICKNESS], &time, 48000, &frames));
    assert_int_equal(frames, 48);
    assert_true(option_frames(&check, &rows[THICKNESS], &plain, 1, &frames));
    assert_int_equal(frames, 77);
    assert_string_equal(said.text, "");
    assert_false(option_frames(&check, &rows[THICKNESS], &time, 1e9, &frames));
    assert_string_equal(said.key, "thickness");
    assert_false(said.warning);
    assert_non_null(strstr(said.text, "is 1000000 frames at 1 GHz; write 10 ns … 1 us"));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(values_reach_the_fields_of_their_rows),
        cmocka_unit_test(rows_describe_themselves),
        cmocka_unit_test(addresses_are_split),
        cmocka_unit_test(spans_become_frames_at_a_rate),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
