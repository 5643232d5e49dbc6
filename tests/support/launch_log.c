/* The launches of kernels, see launch_log.h. */
#include "tests/support/launch_log.h"

#include <semaphore.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

#include "tests/support/engine_seams.h"

enum { LAUNCHES_MAX = 1024 };

/* The device thread writes while it runs; the test thread while the device thread waits or has
 * nothing to do. */
static struct {
    const void *kernels[LAUNCHES_MAX];
    uint32_t count, hold;
    sem_t held, go;
} launches;

static void note(const void *kernel)
{
    assert_true(launches.count < LAUNCHES_MAX);
    launches.kernels[launches.count++] = kernel;
    if (launches.count != launches.hold)
        return;
    sem_post(&launches.held);
    sem_wait(&launches.go);
}

uint32_t launches_ahead(void)
{
    return engine_seams.mirrored;
}

void launches_follow(uint32_t hold)
{
    launches.count = 0;
    launches.hold = hold;
    sem_init(&launches.held, 0, 0);
    sem_init(&launches.go, 0, 0);
    engine_seams.launching = note;
}

void launches_await(void)
{
    sem_wait(&launches.held);
}

bool launches_held(void)
{
    return sem_trywait(&launches.held) == 0;
}

void launches_go(uint32_t hold)
{
    launches.hold = hold;
    sem_post(&launches.go);
}

void launches_forget(void)
{
    engine_seams.launching = NULL;
}

uint32_t launches_count(void)
{
    return launches.count;
}

uint32_t launches_of_first(uint32_t *other_at)
{
    const void *own = launches.kernels[launches_ahead()];
    uint32_t count = 0;
    *other_at = 0;
    for (uint32_t i = launches_ahead(); i < launches.count; i++) {
        count += launches.kernels[i] == own;
        if (launches.kernels[i] != own && *other_at == 0)
            *other_at = i + 1 - launches_ahead();
    }
    return count;
}
