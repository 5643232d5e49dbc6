/*
 * Which fragments belong to a configuration: NAME.conf.d to NAME.conf alone, the former name conf.d
 * to a file that is alone in its folder, and to none of two.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "config/config.h"
#include "report/check.h"
#include "tests/support/config_samples.h"
#include "tests/support/scratch.h"

#define BASE                                                                                       \
    "[stream a]\nsource = generator\nrate = 500 kHz\nchannels = 2\nfilter = f\n"                   \
    "[filter f]\ntype = identity\n"

static char *changed(unsigned channels, char text[64])
{
    snprintf(text, 64, "[stream a]\nchannels = %u\n", channels);
    return text;
}

/* The channels of the file with its fragments; 0: refused, with all messages in `messages`. */
static unsigned load(const char *path, char messages[4096])
{
    struct config *config;
    struct config_errors errors = {0};
    unsigned channels = 0;
    messages[0] = '\0';
    if (config_load(path, &config, &errors) == 0) {
        channels = config->streams[0].source.channels;
        char *report = NULL;
        size_t bytes;
        FILE *out = open_memstream(&report, &bytes);
        assert_int_equal(check_print(config, out, &errors), 0);
        fclose(out);
        snprintf(messages, 4096, "%s", report);
        free(report);
        config_free(config);
    } else {
        char *all = sample_messages(&errors);
        snprintf(messages, 4096, "%s", all);
        free(all);
    }
    config_errors_free(&errors);
    return channels;
}

static void each_file_has_its_own(void **state)
{
    (void)state;
    char messages[4096], text[64];
    scratch_clear();
    const char *one = scratch_write("one.conf", BASE), *two = scratch_write("two.conf", BASE);
    const char *plain = scratch_write("three", BASE);
    scratch_make("one.conf.d");
    scratch_make("two.conf.d");
    scratch_make("three.d");
    scratch_write("one.conf.d/99-saved.conf", changed(3, text));
    scratch_write("one.conf.d/10.conf", changed(9, text));
    scratch_write("two.conf.d/99-saved.conf", changed(4, text));
    scratch_write("three.d/x.conf", changed(5, text));
    assert_int_equal(load(one, messages), 3);
    assert_non_null(strstr(messages, "with 2 fragments of "));
    assert_non_null(strstr(messages, "/one.conf.d\n"));
    assert_null(strstr(messages, "former"));
    assert_int_equal(load(two, messages), 4);
    assert_non_null(strstr(messages, "with 1 fragment of "));
    assert_int_equal(load(plain, messages), 5);
}

/* The former name, read for a file that is alone; --check says so, with the command that renames
 * it.
 */
static void the_former_name(void **state)
{
    (void)state;
    char messages[4096], text[64], move[600];
    scratch_clear();
    const char *one = scratch_write("one.conf", BASE);
    scratch_make("conf.d");
    scratch_write("conf.d/10.conf", changed(3, text));
    /* None of these is a second configuration. */
    scratch_write("one.conf.dpkg-old", BASE);
    scratch_write(".hidden.conf", BASE);
    scratch_write("web.tokens", "");
    scratch_make("folder.conf");
    assert_int_equal(symlink("one.conf", scratch_path("also.conf")), 0);
    assert_int_equal(symlink("nowhere", scratch_path("dangling.conf")), 0);
    assert_int_equal(load(one, messages), 3);
    snprintf(move, sizeof move,
             "the former name, which is read for a file alone in its folder; "
             "rename it: mv %s/conf.d %s.d\n",
             scratch_folder(), one);
    assert_non_null(strstr(messages, move));
    assert_int_equal(load(scratch_path("also.conf"), messages), 3);

    /* Beside its own folder, whose fragments are read later. */
    scratch_make("one.conf.d");
    scratch_write("one.conf.d/05.conf", changed(4, text));
    assert_int_equal(load(one, messages), 4);
    snprintf(move, sizeof move, "rename it: mv -n %s/conf.d/*.conf %s.d/\n", scratch_folder(), one);
    assert_non_null(strstr(messages, move));
    assert_non_null(strstr(messages, "/one.conf.d\n"));
}

/* Beside a second configuration the former name is refused for both, and never ignored. */
static void a_second_file_is_refused(void **state)
{
    (void)state;
    char messages[4096], text[64], moves[1200];
    scratch_clear();
    const char *one = scratch_write("one.conf", BASE), *two = scratch_write("two.conf", BASE);
    scratch_make("conf.d");
    assert_int_equal(load(one, messages), 2); /* an empty folder belongs to nobody */
    assert_null(strstr(messages, "fragment"));
    scratch_write("conf.d/10.conf", changed(3, text));
    snprintf(moves, sizeof moves,
             "`two.conf` beside it; say to which: mv %s/conf.d %s.d, or mv "
             "%s/conf.d %s.d",
             scratch_folder(), one, scratch_folder(), two);
    assert_int_equal(load(one, messages), 0);
    assert_non_null(strstr(messages, moves));
    assert_int_equal(load(two, messages), 0);
    assert_non_null(strstr(messages, "`one.conf` beside it"));

    /* With a folder of its own too: those in conf.d would be ignored. */
    scratch_make("one.conf.d");
    scratch_write("one.conf.d/10.conf", changed(4, text));
    assert_int_equal(load(one, messages), 0);
    assert_non_null(strstr(messages, "mv -n "));

    /* After the command that the message names. */
    assert_int_equal(rename(scratch_path("conf.d"), scratch_path("two.conf.d")), 0);
    assert_int_equal(load(one, messages), 4);
    assert_int_equal(load(two, messages), 3);
}

/* A folder of fragments that cannot be read is an error, not a folder without fragments. */
static void an_unreadable_folder_is_reported(void **state)
{
    (void)state;
    char messages[4096];
    scratch_clear();
    const char *one = scratch_write("one.conf", BASE);
    scratch_write("one.conf.d", "");
    assert_int_equal(load(one, messages), 0);
    assert_non_null(strstr(messages, "cannot be read (Not a directory)"));
    assert_int_equal(remove(scratch_path("one.conf.d")), 0);
    assert_int_equal(symlink("one.conf.d", scratch_path("one.conf.d")), 0);
    assert_int_equal(load(one, messages), 0);
    assert_non_null(strstr(messages, "cannot be read (Too many levels"));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(each_file_has_its_own),
        cmocka_unit_test(the_former_name),
        cmocka_unit_test(a_second_file_is_refused),
        cmocka_unit_test(an_unreadable_folder_is_reported),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
