/*
 * Which Host and Origin convolv-web serves, which addresses are of this machine, and the files that
 * its page consists of.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <stdbool.h>
#include <string.h>
#include <unistd.h>

#include "clients/web/guard.h"
#include "clients/web/http.h"
#include "clients/web/page_files.h"
#include "tests/support/scratch.h"

static const char *const listed[] = {"vessel.lab.example", "panel.example:9000"};
static const struct guard plain = {.port = 8470, .hosts = listed, .host_count = 2};
static const struct guard secure = {.port = 443, .tls = true};

static void hosts(void **state)
{
    (void)state;
    static const struct {
        const struct guard *guard;
        const char *host;
        bool served;
    } cases[] = {
        {&plain, "localhost:8470", true},
        {&plain, "LocalHost:8470", true},
        {&plain, "127.0.0.1:8470", true},
        {&plain, "[::1]:8470", true},
        {&plain, "192.0.2.7:8470", true},
        {&plain, "127.0.0.1", false}, /* port 80 */
        {&plain, "127.0.0.1:8471", false},
        {&plain, "localhost:08470", true},
        {&plain, "localhost:8470x", false},
        {&plain, "localhost:+8470", false},
        {&plain, "localhost: 8470", false},
        {&plain, "localhost:0", false},
        {&plain, "localhost:74006", false}, /* 8470 + 65536 */
        {&plain, "", false},
        {&plain, ":8470", false},
        {&plain, "[::1:8470", false},
        {&plain, "[]:8470", false},
        {&plain, "[::1]8470", false},
        {&plain, "[127.0.0.1]:8470", false},
        {&plain, "localhost.evil.example:8470", false},
        {&plain, "evil.example:8470", false}, /* rebound to 127.0.0.1 */
        {&plain, "127.0.0.1.evil.example:8470", false},
        {&plain, "vessel.lab.example:8470", true},
        {&plain, "VESSEL.lab.example:8470", true},
        {&plain, "vessel.lab.example", true}, /* through a proxy */
        {&plain, "vessel.lab.example:81", false},
        {&plain, "panel.example:9000", true},
        {&plain, "panel.example:8470", false},
        {&secure, "192.0.2.7", true},
        {&secure, "192.0.2.7:443", true},
        {&secure, "192.0.2.7:80", false},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        if (guard_host(cases[i].guard, cases[i].host) != cases[i].served)
            fail_msg("Host \"%s\" is %s", cases[i].host, cases[i].served ? "refused" : "served");
    }
    char longer[2 * GUARD_TEXT_MAX];
    memset(longer, 'a', sizeof longer - 1);
    longer[sizeof longer - 1] = '\0';
    assert_false(guard_host(&plain, longer));
}

static void origins(void **state)
{
    (void)state;
    static const struct {
        const struct guard *guard;
        const char *host, *origin;
        bool ours;
    } cases[] = {
        {&plain, "localhost:8470", "http://localhost:8470", true},
        {&plain, "localhost:8470", "http://LOCALHOST:8470", true},
        {&plain, "[::1]:8470", "http://[::1]:8470", true},
        {&plain, "localhost:8470", "http://localhost:8000",
         false}, /* another server of this machine */
        {&plain, "localhost:8470", "http://127.0.0.1:8470", false},
        {&plain, "localhost:8470", "http://localhost", false},
        {&plain, "localhost:8470", "http://evil.example", false},
        {&plain, "localhost:8470", "null", false},
        {&plain, "localhost:8470", "", false},
        {&plain, "localhost:8470", "file://", false},
        {&plain, "localhost:8470", "http://", false},
        {&plain, "localhost:8470", "http://localhost:8470/", false},
        {&plain, "localhost:8470", "http://localhost:8470@evil.example", false},
        {&plain, "localhost:8470", "chrome-extension://localhost:8470", false},
        {&plain, "evil.example:8470", "http://evil.example:8470", false},
        {&plain, "vessel.lab.example", "https://vessel.lab.example", true}, /* a proxy's TLS */
        {&secure, "192.0.2.7", "https://192.0.2.7", true},
        {&secure, "192.0.2.7", "https://192.0.2.7:443", true},
        {&secure, "192.0.2.7", "http://192.0.2.7", false},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        if (guard_origin(cases[i].guard, cases[i].host, cases[i].origin) != cases[i].ours)
            fail_msg("Origin \"%s\" at Host \"%s\" is %s", cases[i].origin, cases[i].host,
                     cases[i].ours ? "refused" : "taken");
    }
}

static void loopback(void **state)
{
    (void)state;
    assert_true(guard_loopback("127.0.0.1"));
    assert_true(guard_loopback("127.8.9.10"));
    assert_true(guard_loopback("::1"));
    assert_true(guard_loopback("::ffff:127.0.0.1"));
    assert_false(guard_loopback("128.0.0.1"));
    assert_false(guard_loopback("::ffff:10.0.0.1"));
    assert_false(guard_loopback("::2"));
    assert_false(guard_loopback("0.0.0.0"));
    assert_false(guard_loopback(""));
    assert_false(guard_loopback("localhost"));
}

/* Only regular files of known types below the folder; the ETag follows the content. */
static void files(void **state)
{
    struct problem problem;
    struct page_files *files;
    (void)state;
    scratch_clear();
    scratch_make("app");
    scratch_write("index.html", "<!doctype html>");
    scratch_write("secret.key", "no type that is served");
    scratch_write(".hidden.html", "hidden");
    scratch_write("app/main.js", "1;");
    const char *outside = scratch_write("outside.txt", "x");
    assert_int_equal(symlink(outside, scratch_path("app/link.txt")), 0);
    assert_int_equal(page_files_open(scratch_folder(), scratch_path("nowhere"), &files, &problem),
                     0);
    assert_int_equal(page_files_count(files), 3);
    const struct page_file *index = page_files_find(files, "/");
    assert_non_null(index);
    assert_ptr_equal(index, page_files_find(files, "/index.html"));
    assert_string_equal(index->type, "text/html; charset=utf-8");
    assert_int_equal(index->size, strlen("<!doctype html>"));
    assert_int_equal(strlen(index->etag), 34);
    assert_non_null(page_files_find(files, "/app/main.js"));
    static const char *const absent[] = {
        "/secret.key", "/.hidden.html",      "/app/link.txt", "/app", "/app/",
        "index.html",  "/app/../index.html", "//index.html",  ""};
    for (size_t i = 0; i < sizeof absent / sizeof *absent; i++)
        assert_null(page_files_find(files, absent[i]));
    char before[36];
    memcpy(before, index->etag, sizeof before);
    page_files_close(files);
    scratch_write("index.html", "<!doctype html> ");
    assert_int_equal(page_files_open(scratch_folder(), scratch_path("nowhere"), &files, &problem),
                     0);
    assert_string_not_equal(page_files_find(files, "/")->etag, before);
    page_files_close(files);
}

/* SIGHUP may replace the files between a request's answer and the time its head is sent. */
static void an_answer_outlives_its_file(void **state)
{
    struct problem problem;
    struct web web = {0};
    (void)state;
    scratch_clear();
    scratch_write("index.html", "<!doctype html>");
    assert_int_equal(
        page_files_open(scratch_folder(), scratch_path("nowhere"), &web.files, &problem), 0);
    struct page_file before = *page_files_find(web.files, "/");
    struct http_exchange exchange = {.web = &web, .request = {.method = HTTP_GET, .path = "/"}};
    http_answer(&exchange);
    memset((char *)page_files_find(web.files, "/")->etag, 'x', sizeof before.etag - 1);
    page_files_close(web.files);
    assert_int_equal(exchange.response.status, 200);
    assert_string_equal(exchange.response.type, "text/html; charset=utf-8");
    assert_string_equal(exchange.response.etag, before.etag);
    assert_int_equal(exchange.response.size, strlen("<!doctype html>"));
    assert_memory_equal(exchange.response.bytes, "<!doctype html>", exchange.response.size);
    exchange.web = NULL;
    http_forget(&exchange);
}

static void no_folder(void **state)
{
    struct problem problem;
    struct page_files *files;
    (void)state;
    assert_int_equal(page_files_open("/nowhere/page", "/nowhere", &files, &problem), 0);
    assert_int_equal(page_files_count(files), 0);
    assert_null(page_files_find(files, "/"));
    page_files_close(files);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(hosts),
        cmocka_unit_test(origins),
        cmocka_unit_test(loopback),
        cmocka_unit_test(files),
        cmocka_unit_test(an_answer_outlives_its_file),
        cmocka_unit_test(no_folder),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
