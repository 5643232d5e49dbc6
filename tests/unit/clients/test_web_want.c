/* What a browser asks convolv-web for: each message with what is read from it, or why it is
 * refused. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <stdbool.h>
#include <string.h>

#include "clients/web/want.h"

static int parse(const char *text, struct want *want, struct problem *problem)
{
    return want_parse(text, strlen(text), want, problem);
}

static void defaults(void **state)
{
    struct want want;
    struct problem problem;
    (void)state;
    assert_int_equal(
        parse("{\"type\":\"want\",\"id\":7,\"stream\":\"v\",\"view\":\"scope\"}", &want, &problem),
        0);
    assert_int_equal(want.id, 7);
    assert_int_equal(want.view, VIEW_SCOPE);
    assert_string_equal(want.stream, "v");
    assert_false(want.input);
    assert_int_equal(want.channel_count, 0);
    assert_int_equal(want.frames, 2000);
    assert_int_equal(want.trigger, TRIGGER_AUTO);
    assert_int_equal(want.slope, SLOPE_RISING);
    assert_int_equal(want.pretrigger, 0);
    assert_false(want.single);
    assert_int_equal(parse("{\"type\":\"drop\",\"id\":65535}", &want, &problem), 0);
    assert_int_equal(want.id, 65535);
    assert_int_equal(want.view, VIEW_NONE);
}

static void values(void **state)
{
    struct want want;
    struct problem problem;
    (void)state;
    assert_int_equal(
        parse("{\"type\":\"want\",\"id\":1,\"stream\":\"v\",\"view\":\"scope\",\"side\":\"input\","
              "\"channels\":[2,1],\"frames\":100,\"trigger\":\"external\",\"slope\":\"either\","
              "\"level\":-0.5,\"channel\":2,\"pretrigger\":99,\"single\":true,"
              "\"frame\":9007199254740992}",
              &want, &problem),
        0);
    assert_true(want.input && want.single);
    assert_int_equal(want.channel_count, 2);
    assert_int_equal(want.channels[0], 1);
    assert_int_equal(want.channels[1], 0);
    assert_int_equal(want.trigger, TRIGGER_EXTERNAL);
    assert_int_equal(want.slope, SLOPE_EITHER);
    assert_true(want.level == -0.5);
    assert_int_equal(want.trigger_channel, 1);
    assert_int_equal(want.pretrigger, 99);
    assert_true(want.frame == UINT64_C(9007199254740992));
    assert_int_equal(parse("{\"type\":\"want\",\"id\":1,\"stream\":\"v\",\"view\":\"spectrum\","
                           "\"fft\":1024,\"average\":4,\"window\":\"flat-top\"}",
                           &want, &problem),
                     0);
    assert_int_equal(want.fft, 1024);
    assert_int_equal(want.average, 4);
    assert_int_equal(want.window, WINDOW_FLAT_TOP);
    assert_int_equal(parse("{\"type\":\"want\",\"id\":1,\"stream\":\"v\",\"view\":\"ascan\","
                           "\"frames\":500,\"period\":500,\"average\":8}",
                           &want, &problem),
                     0);
    assert_true(want.period == 500);
    assert_int_equal(parse("{\"type\":\"want\",\"id\":1,\"stream\":\"v\",\"view\":\"ascan\","
                           "\"period\":null}",
                           &want, &problem),
                     0);
    assert_true(want.period == 0);
}

/* Each is refused with the word that names what is wrong. */
static void refused(void **state)
{
#define WANT "{\"type\":\"want\",\"id\":3,\"stream\":\"v\",\"view\":"
    static const struct {
        const char *text, *says;
        int id;
    } cases[] = {
        {"", "JSON", 0},
        {"[]", "JSON", 0},
        {"\"want\"", "JSON", 0},
        {"{}", "JSON", 0},
        {"{\"type\":7,\"id\":1}", "JSON", 0},
        {"{\"type\":\"want\",\"id\":1,\"id\":2}", "JSON", 0},
        {"{\"type\":\"want\"}", "id", 0},
        {"{\"type\":\"want\",\"id\":0}", "id", 0},
        {"{\"type\":\"want\",\"id\":65536}", "id", 0},
        {"{\"type\":\"want\",\"id\":1.5}", "id", 0},
        {"{\"type\":\"want\",\"id\":\"1\"}", "id", 0},
        {"{\"type\":\"have\",\"id\":3}", "type", 3},
        {"{\"type\":\"want\",\"id\":3,\"view\":\"scope\"}", "stream", 3},
        {WANT "\"radar\"}", "view", 3},
        {WANT "\"none\"}", "view", 3},
        {WANT "\"scope\",\"side\":\"left\"}", "side", 3},
        {WANT "\"scope\",\"frames\":1}", "frames", 3},
        {WANT "\"scope\",\"frames\":262145}", "frames", 3},
        {WANT "\"scope\",\"frames\":1e300}", "frames", 3},
        {WANT "\"scope\",\"frames\":100,\"pretrigger\":100}", "pretrigger", 3},
        {WANT "\"scope\",\"channels\":[0]}", "channels", 3},
        {WANT "\"scope\",\"channels\":[1025]}", "channels", 3},
        {WANT "\"scope\",\"channels\":[1.5]}", "channels", 3},
        {WANT "\"scope\",\"channels\":3}", "channels", 3},
        {WANT "\"scope\",\"channels\":[1,2,3,4,5,6,7,8,9,10,11,12,13,14,15,16,17]}", "channels", 3},
        {WANT "\"spectrum\",\"channels\":[1,2,3,4,5,6,7,8,9]}", "channels", 3},
        {WANT "\"scope\",\"trigger\":\"never\"}", "trigger", 3},
        {WANT "\"scope\",\"level\":\"high\"}", "level", 3},
        {WANT "\"envelope\",\"seconds\":0}", "seconds", 3},
        {WANT "\"envelope\",\"points\":1}", "points", 3},
        {WANT "\"ascan\",\"frames\":1000,\"period\":999}", "period", 3},
        {WANT "\"ascan\",\"average\":0}", "average", 3},
        {WANT "\"spectrum\",\"fft\":1000}", "fft", 3},
        {WANT "\"spectrum\",\"fft\":131072}", "fft", 3},
        {WANT "\"spectrum\",\"window\":\"kaiser\"}", "window", 3},
    };
    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct want want;
        struct problem problem = {0};
        if (parse(cases[i].text, &want, &problem) >= 0)
            fail_msg("taken: %s", cases[i].text);
        if (strstr(problem.text, cases[i].says) == NULL)
            fail_msg("%s is refused with: %s", cases[i].text, problem.text);
        assert_int_equal(want.id, cases[i].id);
        assert_int_equal(want.view, VIEW_NONE);
    }
}

/* Names are cut nowhere: one that is too long is refused. */
static void long_names(void **state)
{
    char text[256];
    struct want want;
    struct problem problem;
    (void)state;
    for (size_t length = WANT_STREAM_MAX; length <= WANT_STREAM_MAX + 1; length++) {
        char name[WANT_STREAM_MAX + 2] = "";
        memset(name, 'n', length);
        strcpy(text, "{\"type\":\"want\",\"id\":1,\"view\":\"scope\",\"stream\":\"");
        strcat(text, name);
        strcat(text, "\"}");
        assert_int_equal(parse(text, &want, &problem),
                         length <= WANT_STREAM_MAX ? 0 : ERROR_ARGUMENT);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(defaults),
        cmocka_unit_test(values),
        cmocka_unit_test(refused),
        cmocka_unit_test(long_names),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
