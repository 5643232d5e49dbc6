/*
 * OSC arguments: {command, types and values of a message, the request read from them or a part of
 * the error, the port of the answer}.
 */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "control/osc_arguments.h"

#define COUNT(a) (sizeof(a) / sizeof((a)[0]))

/* One argument: a number for i, h and f, else a text. */
struct value {
    double number;
    const char *text;
};

/* One row per message; clang-format would break them into pieces. */
/* clang-format off */
#define N(value) {.number = (value)}
#define S(value) {.text = (value)}
#define NIL {.text = NULL}
#define GIVES(text) .request = (text)
#define FAILS(text) .error = (text)

static const struct {
    const char *command, *types;
    struct value values[6];
    uint16_t port;
    const char *request; /* besides `command`; NULL: it fails */
    const char *error;
} cases[] = {
    {"gain", "f", {N(-6)}, 0, GIVES("{'gain_db': -6.0}")},
    {"gain", "i", {N(-6)}, 0, GIVES("{'gain_db': -6.0}")},
    {"gain", "fi", {N(-6), N(2)}, 0, GIVES("{'gain_db': -6.0, 'output': 2}")},
    {"gain", "ff", {N(-6), N(2)}, 0, GIVES("{'gain_db': -6.0, 'output': 2}")},
    {"gain", "ff", {N(-6), N(1.5)}, 0, GIVES("{'gain_db': -6.0, 'output': 1.5}")},
    {"gain", "fi", {N(-6), N(0)}, 0, GIVES("{'gain_db': -6.0}")},
    {"gain", "fNNi", {N(-6), NIL, NIL, N(9001)}, 9001, GIVES("{'gain_db': -6.0}")},
    {"gain", "fii", {N(-6), N(2), N(9001)}, 9001, GIVES("{'gain_db': -6.0, 'output': 2}")},
    {"gain", "fNh", {N(-6), NIL, N(48000)}, 0, GIVES("{'gain_db': -6.0, 'frame': 48000}")},
    {"gain", "fNhi", {N(-6), NIL, N(7), N(9001)}, 9001, GIVES("{'gain_db': -6.0, 'frame': 7}")},
    {"gain", "fiii", {N(-6), N(1), N(1), N(2)}, 0, GIVES("{'gain_db': -6.0, 'output': 1, 'frame': 4294967298}")},
    {"gain", "fih", {N(-6), N(1), N(-1)}, 0, GIVES("{'gain_db': -6.0, 'output': 1, 'frame': -1}")},
    {"gain", "", {NIL}, 0, FAILS("`gain` needs `gain_db`: 0 is as configured; for example")},
    {"gain", "s", {S("-6 dB")}, 0, GIVES("{'gain_db': -6.0}")},
    {"gain", "si", {S("-6dB"), N(2)}, 0, GIVES("{'gain_db': -6.0, 'output': 2}")},
    {"gain", "s", {S("-6 dBFS")}, 0, FAILS("-6 dBFS: gain_db is a number in dB")},
    {"gain", "s", {S("6 Hz")}, 0, FAILS("6 Hz: gain_db is a number in dB")},
    {"gain", "s", {S("loud")}, 0, FAILS("`gain` needs `gain_db`")},
    {"gain", "sNNi", {S("loud"), NIL, NIL, N(9001)}, 9001, FAILS("`gain` needs `gain_db`")},
    {"gain", "si", {S("loud"), N(2)}, 0, FAILS("`gain` needs `gain_db`")},
    {"gain", "f", {N((double)NAN)}, 0, FAILS("`gain_db` is not finite")},
    {"gain", "fs", {N(-6), S("two")}, 0, FAILS("`gain` takes other arguments")},
    {"gain", "fiiii", {N(-6), N(1), N(0), N(1), N(70000)}, 0, FAILS("no port")},
    {"gain", "fiiiii", {N(-6), N(1), N(0), N(1), N(9001), N(9002)}, 0, FAILS("takes other arguments")},
    {"mute", "", {NIL}, 0, GIVES("{}")},
    {"mute", "T", {NIL}, 0, GIVES("{'mute': true}")},
    {"mute", "F", {NIL}, 0, GIVES("{'mute': false}")},
    {"mute", "ii", {N(0), N(2)}, 0, GIVES("{'mute': false, 'output': 2}")},
    {"mute", "f", {N(1)}, 0, GIVES("{'mute': true}")},
    {"filter", "s", {S("band2")}, 0, GIVES("{'filter': 'band2'}")},
    {"filter", "ss", {S("band2"), S("hard")}, 0, GIVES("{'filter': 'band2', 'how': 'hard'}")},
    {"filter", "shsf", {S("b"), N(9), S("fade"), N(25)}, 0, GIVES("{'filter': 'b', 'frame': 9, 'how': 'fade', 'fade_ms': 25.0}")},
    {"filter", "siisi", {S("b"), N(0), N(9), S("fade"), N(25)}, 0, GIVES("{'filter': 'b', 'frame': 9, 'how': 'fade', 'fade_ms': 25.0}")},
    {"filter", "ssNi", {S("b"), S("hard"), NIL, N(9001)}, 9001, GIVES("{'filter': 'b', 'how': 'hard'}")},
    {"filter", "s", {S("\xff")}, 0, FAILS("`filter` is no UTF-8")},
    {"mark", "s", {S("load step 2")}, 0, GIVES("{'text': 'load step 2'}")},
    {"mark", "si", {S("load step 2"), N(9001)}, 9001, GIVES("{'text': 'load step 2'}")},
    {"mark", "i", {N(9001)}, 9001, FAILS("`mark` needs `text`")},
    {"mark", "sf", {S("x"), N(0.5)}, 0, FAILS("no port")},
    {"status", "si", {S("json"), N(9001)}, 9001, GIVES("{'format': 'json'}")},
    {"transient", "si", {S("ae"), N(17)}, 0, GIVES("{'analysis': 'ae', 'number': 17}")},
    {"transient", "shNi", {S("ae"), N(17), NIL, N(9001)}, 9001, GIVES("{'analysis': 'ae', 'number': 17}")},
    {"transient", "shh", {S("ae"), N(17), N(65536)}, 0, GIVES("{'analysis': 'ae', 'number': 17, 'from': 65536}")},
    {"acknowledge", "i", {N(3)}, 0, GIVES("{'channel': 3}")},
    {"acknowledge", "s", {S("quiet")}, 0, GIVES("{'alarm': 'quiet'}")},
    {"transaction", "s", {S("[{\"command\": \"mute\"}]")}, 0, GIVES("{'commands': [{'command': 'mute'}]}")},
    {"transaction", "si", {S("mute rig"), N(9001)}, 9001, FAILS("`commands` is no JSON list")},
};
/* clang-format on */

static const struct command_row *row_of(const char *name)
{
    const int row = command_find(name);
    assert_true(row >= 0);
    return &command_table[row];
}

/* The message in OSC's bytes, as osc_walk hands it on. */
static void build(size_t at, struct osc_writer *writer)
{
    char types[16] = ",";
    strcat(types, cases[at].types);
    osc_begin(writer, "/convolvd/x", types);
    for (size_t i = 0; cases[at].types[i] != '\0'; i++) {
        const struct value *value = &cases[at].values[i];
        switch (cases[at].types[i]) {
        case 'i':
            osc_put_int(writer, (int32_t)value->number);
            break;
        case 'h':
            osc_put_wide(writer, (uint64_t)(int64_t)value->number);
            break;
        case 'f':
            osc_put_float(writer, (float)value->number);
            break;
        case 's':
            osc_put_string(writer, value->text);
            break;
        default: /* T, F, N: no bytes */
            break;
        }
    }
    assert_false(writer->full);
}

struct outcome {
    const struct command_row *row;
    json_t *request;
    uint16_t port;
    int error;
    struct problem problem;
    unsigned messages;
};

static void read_message(void *context, const struct osc_message *message)
{
    struct outcome *outcome = context;
    outcome->messages++;
    outcome->error = osc_arguments_read(outcome->row, message, &outcome->request, &outcome->port,
                                        &outcome->problem);
}

static json_t *wanted_request(size_t at)
{
    char text[256];
    snprintf(text, sizeof text, "%s", cases[at].request);
    for (char *c = text; *c != '\0'; c++)
        *c = *c == '\'' ? '"' : *c;
    json_t *wanted = json_loads(text, 0, NULL);
    json_object_set_new(wanted, "command", json_string(cases[at].command));
    return wanted;
}

static void test_messages(void **state)
{
    (void)state;
    for (size_t i = 0; i < COUNT(cases); i++) {
        uint8_t data[512];
        struct osc_writer writer = {.data = data, .capacity = sizeof data};
        struct outcome outcome = {.row = row_of(cases[i].command)};
        build(i, &writer);
        assert_int_equal(osc_walk(data, writer.bytes, NULL, read_message, &outcome), OSC_OK);
        assert_int_equal(outcome.messages, 1);
        assert_int_equal(outcome.port, cases[i].port);
        if (cases[i].request == NULL) {
            assert_int_not_equal(outcome.error, 0);
            assert_null(outcome.request);
            assert_non_null(strstr(outcome.problem.text, cases[i].error));
            assert_non_null(strstr(outcome.problem.text, outcome.row->osc));
            continue;
        }
        assert_int_equal(outcome.error, 0);
        json_t *wanted = wanted_request(i);
        assert_true(json_equal(outcome.request, wanted));
        json_decref(wanted);
        json_decref(outcome.request);
    }
}

/* What has an end and needs no descriptor is taken over OSC, too. */
static void test_every_command(void **state)
{
    (void)state;
    for (int i = 0; i < CONTROL_WORDS; i++) {
        const char *name = command_table[i].name;
        const bool endless =
            strcmp(name, "events") == 0 || strcmp(name, "hits") == 0 || strcmp(name, "watch") == 0;
        assert_int_equal(command_table[i].osc == NULL, endless);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_messages),
        cmocka_unit_test(test_every_command),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
