/* Way: a sink's socket is connected once more without holding the loop up. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <arpa/inet.h>
#include <cmocka.h>
#include <errno.h>
#include <ifaddrs.h>
#include <pthread.h>
#include <stdatomic.h>
#include <unistd.h>

#include "io/net/way.h"

static pthread_t loop_thread;
static atomic_int reads, reads_on_loop;

/* In the place of the C library's: a machine whose list of interfaces cannot be read. */
int getifaddrs(struct ifaddrs **list)
{
    atomic_fetch_add(&reads, 1);
    atomic_fetch_add(&reads_on_loop, pthread_equal(pthread_self(), loop_thread) != 0);
    *list = NULL;
    errno = EIO;
    return -1;
}

struct attempts {
    int failed, found;
};

static void note(void *context, bool found)
{
    struct attempts *attempts = context;
    *(found ? &attempts->found : &attempts->failed) += 1;
}

static void test_attempts(void **state)
{
    (void)state;
    struct attempts attempts = {0};
    struct way way = {.options = {.sink = "s", .interface = "192.0.2.77"},
                      .fd = socket(AF_INET, SOCK_DGRAM, 0),
                      .tried = note,
                      .context = &attempts};
    struct sockaddr_in peer = {0};
    socklen_t bytes = sizeof peer;
    uv_loop_t loop;
    assert_true(way.fd >= 0);
    assert_int_equal(address_resolve("127.0.0.1:9", false, &way.to, NULL), 0);
    assert_int_equal(uv_loop_init(&loop), 0);
    loop_thread = pthread_self();
    way_find(&way, &loop);
    way_find(&way, &loop); /* one is under way */
    assert_int_equal(attempts.failed, 0);
    uv_run(&loop, UV_RUN_DEFAULT);
    assert_int_equal(attempts.failed, 1);
    assert_int_equal(atomic_load(&reads), 1);
    assert_int_equal(atomic_load(&reads_on_loop), 0);
    assert_true(way.lost_ns != 0);
    assert_int_not_equal(getpeername(way.fd, (struct sockaddr *)&peer, &bytes), 0);

    way.options.interface = NULL;
    way_find(&way, &loop);
    uv_run(&loop, UV_RUN_DEFAULT);
    assert_int_equal(attempts.found, 1);
    assert_int_equal(way.lost_ns, 0);
    bytes = sizeof peer;
    assert_int_equal(getpeername(way.fd, (struct sockaddr *)&peer, &bytes), 0);
    assert_int_equal(peer.sin_port, htons(9));
    close(way.fd);
    assert_int_equal(uv_loop_close(&loop), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_attempts)};
    return cmocka_run_group_tests_name("way", tests, NULL, NULL);
}
