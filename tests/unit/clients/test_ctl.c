/* convolvctl: words of the command line as requests, and pictures of the live view. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "clients/ctl/view.h"
#include "clients/ctl/words.h"

static void test_requests(void **state)
{
    static const struct {
        const char *words[8], *request; /* NULL: refused, and `says` is why */
        const char *says;
    } table[] = {
        {{"filter", "vessel", "band2", "--fade", "20ms"},
         "{\"command\":\"filter\",\"fade_ms\":20.0,\"filter\":\"band2\",\"stream\":\"vessel\"}",
         NULL},
        {{"filter", "vessel", "band2", "--fade", "0.02 s", "--frame", "480000"},
         "{\"command\":\"filter\",\"fade_ms\":20.0,\"filter\":\"band2\",\"frame\":480000,"
         "\"stream\":\"vessel\"}",
         NULL},
        {{"gain", "vessel", "-6"},
         "{\"command\":\"gain\",\"gain_db\":-6.0,\"stream\":\"vessel\"}",
         NULL},
        {{"gain", "vessel", "-6dB", "--output", "2"},
         "{\"command\":\"gain\",\"gain_db\":-6.0,\"output\":2,\"stream\":\"vessel\"}",
         NULL},
        {{"mute", "vessel"}, "{\"command\":\"mute\",\"stream\":\"vessel\"}", NULL},
        {{"mute", "vessel", "off"},
         "{\"command\":\"mute\",\"mute\":false,\"stream\":\"vessel\"}",
         NULL},
        {{"transaction", "gain a 1", "mute b on", "--frame", "9"},
         "{\"command\":\"transaction\",\"commands\":[{\"command\":\"gain\",\"gain_db\":1.0,"
         "\"stream\":\"a\"},{\"command\":\"mute\",\"mute\":true,\"stream\":\"b\"}],\"frame\":9}",
         NULL},
        {{"gain", "vessel"}, NULL, "needs `gain_db`"},
        {{"gain", "vessel", "1 Hz"}, NULL, "is a number in dB"},
        {{"gain", "vessel", "-6 dBFS"}, NULL, "is a number in dB"},
        {{"gain", "vessel", "40 dB(AE)"}, NULL, "is a number in dB"},
        {{"gain", "vessel", "201"}, NULL, "from -200 to 200 dB"},
        {{"gain", "vessel", "1", "--output"}, NULL, "its value is missing"},
        {{"gain", "vessel", "1", "--speed", "1"}, NULL, "no such option"},
        {{"gain", "vessel", "1", "2"}, NULL, "one word too many"},
        {{"gain", "ves\033[2Jsel", "1"}, NULL, "without control characters"},
        {{"mute", "vessel", "perhaps"}, NULL, "write on or off"},
        {{"transaction", "gain a"}, NULL, "needs `gain_db`"},
        {{"transaction", ""}, NULL, "is no command"},
        {{"sing"}, NULL, "no such command"},
    };
    (void)state;
    for (size_t i = 0; i < sizeof table / sizeof *table; i++) {
        char *words[8];
        int count = 0;
        while (count < 8 && table[i].words[count] != NULL) {
            words[count] = strdup(table[i].words[count]);
            count++;
        }
        struct problem problem = {0};
        json_t *request;
        const int error = words_request(count, words, &request, &problem);
        if (table[i].request != NULL) {
            char *text = json_dumps(request, JSON_COMPACT | JSON_SORT_KEYS);
            assert_int_equal(error, 0);
            assert_string_equal(text, table[i].request);
            free(text);
        } else {
            assert_int_not_equal(error, 0);
            assert_null(request);
            if (strstr(problem.text, table[i].says) == NULL)
                fail_msg("row %zu: %s", i, problem.text);
        }
        json_decref(request);
        while (count > 0)
            free(words[--count]);
    }
}

/* The examples of the table are what it takes. */
static void test_examples(void **state)
{
    (void)state;
    for (int i = 0; i < CONTROL_WORDS; i++) {
        const struct command_row *row = &command_table[i];
        struct problem problem = {0};
        if (row->name == NULL)
            continue;
        json_t *request = json_loads(row->example, JSON_REJECT_DUPLICATES, NULL);
        assert_non_null(request);
        assert_string_equal(json_string_value(json_object_get(request, "command")), row->name);
        if (command_check(row, request, &problem) != 0)
            fail_msg("%s: %s", row->name, problem.text);
        if (i == CONTROL_WATCH) /* its answer is a descriptor, which a shell cannot take */
            assert_null(row->shell);
        else
            assert_int_equal(strncmp(row->shell, "convolvctl ", 11), 0);
        json_decref(request);
    }
}

static char *draw(const struct view *view, const char *status)
{
    char *text = NULL;
    size_t bytes;
    json_t *object = json_loads(status, 0, NULL);
    FILE *out = open_memstream(&text, &bytes);
    assert_non_null(object);
    assert_non_null(out);
    view_draw(view, object, out);
    fclose(out);
    json_decref(object);
    return text;
}

static void test_view(void **state)
{
    static const char status[] =
        "{\"version\": \"1\", \"state\": \"running\", \"up_ns\": 5e9, \"streams\": ["
        "{\"name\": \"a\", \"rate_hz\": 1000, \"load\": 0.1, \"channels\": ["
        "  {\"unit\": \"V\", \"full_scale\": 1, \"rms_1s\": 0.01, \"peak_1s\": 0.1,"
        "   \"peak_held\": 1, \"overloads\": 3}]},"
        "{\"name\": \"b\", \"rate_hz\": 2000, \"load\": 0.9, \"channels\": []}]}";
    struct view view = {.rows = 24, .columns = 94, .sort = SORT_NAME};
    (void)state;
    char *text = draw(&view, status);
    assert_true(strstr(text, "\n>a") < strstr(text, "\n b"));
    /* 40 columns are 80 dB: RMS at -40 dB is half of them, the peak at -20 dB three quarters, the
     * held one the last. */
    assert_non_null(strstr(text, "[####################----------         |]"));
    assert_non_null(strstr(text, "over 3"));
    free(text);
    /* Floats without a full scale: 0 dB is the next of 10 dB steps above the held peak. */
    text = draw(&view, "{\"state\": \"running\", \"streams\": [{\"name\": \"a\", \"channels\": ["
                       "{\"unit\": \"g\", \"full_scale\": null, \"rms_1s\": 0.1, \"peak_1s\": 1, "
                       "\"peak_held\": 9.9}]}]}");
    assert_non_null(strstr(text, "[####################----------         |]"));
    assert_non_null(strstr(text, "not known"));
    free(text);
    view.sort = SORT_LOAD;
    text = draw(&view, status);
    assert_non_null(strstr(text, ">b"));
    assert_true(strstr(text, "\n>b") < strstr(text, "\n a "));
    free(text);
    /* No room, no streams, nothing at all: still a picture. */
    static const char *const odd[] = {"{}", "{\"streams\": []}", "{\"streams\": [{}]}",
                                      "{\"streams\": [{\"name\": 3, \"channels\": [1, null]}]}"};
    for (size_t i = 0; i < sizeof odd / sizeof *odd; i++) {
        for (int rows = 1; rows < 12; rows++) {
            view = (struct view){.rows = rows, .columns = 21, .chosen = 5};
            free(draw(&view, odd[i]));
        }
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_requests),
        cmocka_unit_test(test_examples),
        cmocka_unit_test(test_view),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
