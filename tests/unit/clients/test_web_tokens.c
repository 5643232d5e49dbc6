/* Tokens of convolv-web: the file, who holds what, sessions and their end. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

#include "clients/web/tokens.h"
#include "core/clock.h"
#include "tests/support/scratch.h"

static char anna[TOKEN_TEXT], bert[TOKEN_TEXT], anna_line[256], bert_line[256];

static int make_tokens(void **state)
{
    struct problem problem;
    (void)state;
    assert_int_equal(tokens_make("anna", ROLE_CONTROL, anna, anna_line, &problem), 0);
    assert_int_equal(tokens_make("bert@lab", ROLE_OBSERVE, bert, bert_line, &problem), 0);
    return 0;
}

static const char *write_file(const char *text)
{
    const char *path = scratch_write("tokens", text);
    assert_int_equal(chmod(path, 0600), 0);
    return path;
}

static struct tokens *open_with(const char *text)
{
    struct problem problem;
    struct tokens *tokens = NULL;
    if (tokens_open(write_file(text), &tokens, &problem) != 0)
        fail_msg("%s", problem.text);
    return tokens;
}

static const char *two_holders(void)
{
    static char text[600];
    snprintf(text, sizeof text, "# who may\n\n  %s # the lab\r\n%s", anna_line, bert_line);
    return text;
}

/* The file holds no token, and each token finds its holder. */
static void holders(void **state)
{
    struct tokens *tokens = open_with(two_holders());
    struct holder holder;
    (void)state;
    assert_null(strstr(two_holders(), anna));
    assert_int_equal(tokens_count(tokens), 2);
    assert_true(tokens_find(tokens, anna, &holder));
    assert_string_equal(holder.name, "anna");
    assert_int_equal(holder.role, ROLE_CONTROL);
    assert_true(tokens_find(tokens, bert, &holder));
    assert_string_equal(holder.name, "bert@lab");
    assert_int_equal(holder.role, ROLE_OBSERVE);
    tokens_close(tokens);
}

static void nobody(void **state)
{
    struct tokens *tokens = open_with(two_holders());
    struct holder holder;
    char text[TOKEN_TEXT + 8];
    (void)state;
    assert_false(tokens_find(tokens, "", &holder));
    assert_false(tokens_find(tokens, anna_line + 13, &holder)); /* the hash itself */
    for (size_t i = 0; i < TOKEN_TEXT - 1; i++) {
        snprintf(text, sizeof text, "%s", anna);
        text[i] = text[i] == 'a' ? 'b' : 'a';
        assert_false(tokens_find(tokens, text, &holder));
        text[i] = '\0'; /* cut */
        assert_false(tokens_find(tokens, text, &holder));
    }
    snprintf(text, sizeof text, "%s0", anna);
    assert_false(tokens_find(tokens, text, &holder));
    tokens_close(tokens);
}

static void no_file(void **state)
{
    struct problem problem;
    struct tokens *tokens;
    struct holder holder;
    (void)state;
    assert_int_equal(tokens_open(NULL, &tokens, &problem), 0);
    assert_int_equal(tokens_count(tokens), 0);
    assert_false(tokens_find(tokens, "", &holder));
    tokens_close(tokens);
    assert_int_equal(tokens_open("/nowhere/tokens", &tokens, &problem), ERROR_NO_FILE);
}

static void wrong_files(void **state)
{
    static const char hash[] = "000102030405060708090a0b0c0d0e0f101112131415161718191a1b1c1d1e1f";
    static const struct {
        const char *before, *after, *says;
    } cases[] = {
        {"anna control ", "0", ":1: "},       {"anna control", "", ":1: "},
        {"anna admin ", "", ":1: "},          {"an na control ", "", ":1: "},
        {"\nanna control ", " more", ":2: "}, {"an<b>na control ", "", ":1: "},
        {"anna control 0x", "", ":1: "},
    };
    struct problem problem;
    struct tokens *tokens;
    char text[256];
    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        snprintf(text, sizeof text, "%s%s%s\n", cases[i].before, hash, cases[i].after);
        assert_int_equal(tokens_open(write_file(text), &tokens, &problem), ERROR_FORMAT);
        assert_non_null(strstr(problem.text, cases[i].says));
    }
    const char *path = write_file("");
    assert_int_equal(chmod(path, 0620), 0);
    assert_int_equal(tokens_open(path, &tokens, &problem), ERROR_NO_FILE);
    assert_non_null(strstr(problem.text, "chmod go-w"));
}

static void names(void **state)
{
    char token[TOKEN_TEXT], line[256];
    struct problem problem;
    char longest[TOKEN_NAME_MAX + 2];
    (void)state;
    memset(longest, 'x', sizeof longest - 1);
    longest[sizeof longest - 1] = '\0';
    static const char *const wrong[] = {"", "a b", "a\n", "<img>", "a\"", "\xc3\xa4"};
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++)
        assert_int_equal(tokens_make(wrong[i], ROLE_OBSERVE, token, line, &problem),
                         ERROR_ARGUMENT);
    assert_int_equal(tokens_make(longest, ROLE_OBSERVE, token, line, &problem), ERROR_ARGUMENT);
    longest[TOKEN_NAME_MAX] = '\0';
    assert_int_equal(tokens_make(longest, ROLE_OBSERVE, token, line, &problem), 0);
    assert_int_equal(strlen(token), TOKEN_TEXT - 1);
    assert_int_equal(strlen(line), TOKEN_NAME_MAX + 1 + strlen("observe ") + 64);
}

static void sessions(void **state)
{
    const int64_t hour = 3600 * NS_PER_SECOND;
    struct tokens *tokens = open_with(two_holders());
    struct holder holder, found;
    char cookie[TOKEN_TEXT], other[TOKEN_TEXT];
    (void)state;
    assert_true(tokens_find(tokens, anna, &holder));
    assert_false(tokens_session(tokens, "", 0, &found));
    assert_true(tokens_login(tokens, &holder, 0, cookie));
    assert_true(tokens_login(tokens, &holder, 0, other));
    assert_string_not_equal(cookie, other);
    assert_false(tokens_session(tokens, anna, 0, &found)); /* a token is no cookie */
    assert_true(tokens_session(tokens, cookie, 11 * hour, &found));
    assert_string_equal(found.name, "anna");
    assert_int_equal(found.role, ROLE_CONTROL);
    assert_true(tokens_session(tokens, cookie, 22 * hour, &found)); /* used meanwhile */
    assert_false(tokens_session(tokens, other, 22 * hour, &found));
    tokens_logout(tokens, cookie);
    assert_false(tokens_session(tokens, cookie, 22 * hour, &found));
    tokens_close(tokens);
}

static void sessions_bounded(void **state)
{
    struct tokens *tokens = open_with(two_holders());
    struct holder holder, found;
    char first[TOKEN_TEXT], second[TOKEN_TEXT], cookie[TOKEN_TEXT];
    (void)state;
    assert_true(tokens_find(tokens, bert, &holder));
    assert_true(tokens_login(tokens, &holder, 1, first));
    assert_true(tokens_login(tokens, &holder, 2, second));
    for (int i = 2; i < SESSIONS_MAX; i++)
        assert_true(tokens_login(tokens, &holder, 1 + i, cookie));
    assert_true(tokens_session(tokens, first, SESSIONS_MAX + 1, &found));
    assert_true(tokens_login(tokens, &holder, SESSIONS_MAX + 2, cookie));
    assert_false(tokens_session(tokens, second, SESSIONS_MAX + 3, &found)); /* unused longest */
    assert_true(tokens_session(tokens, first, SESSIONS_MAX + 3, &found));
    tokens_close(tokens);
}

/* A holder taken out of the file, or with another role, loses his sessions; a wrong file changes
 * nothing. */
static void reload(void **state)
{
    struct tokens *tokens = open_with(two_holders());
    struct holder holder, found;
    struct problem problem;
    char of_anna[TOKEN_TEXT], of_bert[TOKEN_TEXT];
    (void)state;
    assert_true(tokens_find(tokens, anna, &holder));
    assert_true(tokens_login(tokens, &holder, 0, of_anna));
    assert_true(tokens_find(tokens, bert, &holder));
    assert_true(tokens_login(tokens, &holder, 0, of_bert));
    write_file("wrong\n");
    assert_int_equal(tokens_reload(tokens, &problem), ERROR_FORMAT);
    assert_true(tokens_find(tokens, anna, &holder));
    write_file(bert_line);
    assert_int_equal(tokens_reload(tokens, &problem), 0);
    assert_false(tokens_find(tokens, anna, &holder));
    assert_false(tokens_session(tokens, of_anna, 1, &found));
    assert_true(tokens_session(tokens, of_bert, 1, &found));
    tokens_close(tokens);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(holders),          cmocka_unit_test(nobody), cmocka_unit_test(no_file),
        cmocka_unit_test(wrong_files),      cmocka_unit_test(names),  cmocka_unit_test(sessions),
        cmocka_unit_test(sessions_bounded), cmocka_unit_test(reload),
    };
    return cmocka_run_group_tests(tests, make_tokens, NULL);
}
