/*
 * One device of `bench_gpu --together`, measured by a process of its own, and what all these
 * processes share. They meet at a barrier before each turn, so that all devices are busy with the
 * same work at the same time:
 *
 *     CROSSING   the engine host to host, both ways at once, on all devices
 *     COPIES     pinned copies both ways at once, on all devices; takes turns with CROSSING
 *     BANK       one channel through 64 filters, decimated by 64, host to host, on all devices
 *     BANK_ALONE the same on one device while the others wait, each in its turn
 *
 * A member that dies leaves the others at the barrier: the process that started them watches
 * `steps` and ends them all (gpu_together.h).
 */
#ifndef CONVOLVD_BENCH_GPU_MEMBER_H
#define CONVOLVD_BENCH_GPU_MEMBER_H

#include <pthread.h>
#include <stdatomic.h>
#include <stdint.h>
#include <sys/types.h>

#include "bench/gpu_run.h"
#include "core/error.h"
#include "device/info.h"

enum { MEMBERS_MOST = 32, TURNS_MOST = 256, BANK_FILTERS = 64 };
enum contest { CROSSING, COPIES, BANK, BANK_ALONE, CONTESTS };

/* Filled by the member whose turn it was. */
struct turn {
    double amount; /* CROSSING and COPIES: bytes, both ways together; else: samples in */
    double seconds;
    int64_t from_ns, until_ns; /* monotonic: from its barrier to its last result */
};

struct member {
    int index; /* in the list of devices */
    struct device_info info;
    pid_t pid;
    _Atomic uint32_t steps; /* that it has taken: it counts one when it has come further */
    double crossing_error, bank_error; /* relative, against the definition in double */
    double bank_bytes;                 /* in and out, of a sample in */
    char bank_variant[32];
    struct turn turns[CONTESTS][TURNS_MOST];
};

/* In memory that all processes share. */
struct meeting {
    uint32_t count, repetitions; /* the members; turns of each contest, at most TURNS_MOST */
    struct problem problem;      /* of finding the devices */
    pthread_barrier_t barrier;
    struct member members[MEMBERS_MOST];
};

/* In the member's process: opens its device, checks, takes its turns. Returns the status with which
 * the process ends: 0, or 1 after a message. `bench` gives sizes, times and the variant. */
int member_run(const struct bench *bench, struct meeting *meeting, uint32_t which);

#endif
