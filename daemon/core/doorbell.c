/* Doorbell: see doorbell.h. */
#include "core/doorbell.h"

#include <assert.h>
#include <errno.h>
#include <poll.h>
#include <sys/eventfd.h>
#include <time.h>
#include <unistd.h>

#include "core/clock.h"

int doorbell_open(void)
{
    return eventfd(0, EFD_CLOEXEC);
}

void doorbell_ring(int doorbell)
{
    const uint64_t one = 1;
    ssize_t written = write(doorbell, &one, sizeof one);
    (void)written;
}

void doorbell_wait(int doorbell)
{
    uint64_t rings;
    ssize_t got = read(doorbell, &rings, sizeof rings);
    assert(got == sizeof rings || errno == EINTR);
    (void)got;
}

bool doorbell_rung_within(int doorbell, int64_t timeout_ns)
{
    struct pollfd poll = {.fd = doorbell, .events = POLLIN};
    const struct timespec timeout = {timeout_ns / NS_PER_SECOND, timeout_ns % NS_PER_SECOND};
    return ppoll(&poll, 1, timeout_ns == INT64_MAX ? NULL : &timeout, NULL) > 0;
}
