/*
 * Link to a helper process that hangs in a driver: no signal ends it, and nothing waits for it. The
 * helper here is this program; a waitpid of its own plays the kernel's part, as state D cannot be
 * caused.
 *
 * threads: yes
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <stdio.h>
#include <string.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "core/clock.h"
#include "io/sound/helper.h"
#include "io/sound/link.h"

static bool hangs;
static int blocking, asked;

/* Takes the place of libc's. */
pid_t waitpid(pid_t process, int *status, int options)
{
    asked++;
    blocking += (options & WNOHANG) == 0;
    return hangs ? 0 : (pid_t)syscall(SYS_wait4, process, status, options, NULL);
}

static struct sound_link *spawned(void)
{
    const struct sound_request request = {.rate_hz = 48000};
    struct sound_link *link = NULL;
    struct problem problem;
    assert_int_equal(sound_link_open(&request, &link, &problem), 0);
    assert_int_equal(sound_link_spawn(link, &problem), 0);
    return link;
}

static void nothing_waits_for_a_helper_that_hangs(void **state)
{
    (void)state;
    hangs = true;
    struct sound_link *link = spawned();
    /* What the loop calls: tell it to end, kill it, and again. */
    assert_false(sound_link_stop(link, false));
    assert_false(sound_link_stop(link, true));
    assert_false(sound_link_stop(link, true));
    assert_int_equal(asked, 3);
    /* What a worker or a command calls has a deadline. */
    assert_false(sound_link_kill(link));
    assert_int_equal(blocking, 0);
    hangs = false;
    assert_true(sound_link_kill(link));
    sound_link_close(link);
}

static void a_helper_that_does_not_answer_is_killed(void **state)
{
    (void)state;
    struct sound_link *link = spawned();
    assert_int_equal(sound_link_wait(link, 10), SOUND_ABSENT);
    assert_true(sound_link_kill(link));
    sound_link_close(link);
}

int main(int argc, char **argv)
{
    if (argc > 1 && strcmp(argv[1], SOUND_HELPER_ARGUMENT) == 0) {
        sleep(60); /* should a test end before it kills it */
        return 0;
    }
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(nothing_waits_for_a_helper_that_hangs),
        cmocka_unit_test(a_helper_that_does_not_answer_is_killed),
    };
    return cmocka_run_group_tests_name("sound_link", tests, NULL, NULL);
}
