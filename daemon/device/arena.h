/*
 * Arenas. OpenCL 1.2 has no tables of pointers, so everything that a kernel reaches by an offset in
 * a row lies in one of a few large buffers. An arena is a range of host memory, reserved at once
 * and backed by pages when touched, and a buffer of the device of the same layout. Where host and
 * device share their memory the two are one; elsewhere the buffer is a mirror, and whoever writes
 * the host's side copies what changed.
 *
 * arena_take gives out pieces first-fit, aligned to 4 KiB. With guards every piece lies between two
 * zones of a pattern that arena_check reads back from the device.
 *
 * Workers take, give and check (a mutex inside). `host` and `device` are immutable while open.
 */
#ifndef CONVOLVD_DEVICE_ARENA_H
#define CONVOLVD_DEVICE_ARENA_H

#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>

#include "device/opencl.h"

enum { ARENA_ALIGN_BYTES = 4096 };

struct arena_piece {
    uint64_t from, until; /* guard zones included */
    uint64_t bytes;       /* asked for; begins at from + guard */
};

struct arena {
    const char *name; /* "input memory": for messages, the configuration's key */
    uint8_t *host;
    cl_mem device;
    bool mirrored; /* the device's memory is its own */
    cl_mem pinned; /* registers `host` with the driver: copies run five times faster */
    bool copied;   /* often copied to or from the mirror, so worth pinning; set after open */
    bool guards;
    uint64_t bytes, wanted_bytes;
    /* under mutex */
    pthread_mutex_t mutex;
    struct arena_piece *pieces; /* in order of `from` */
    uint32_t count, capacity;
};

/* Reserves `bytes`, at most what one allocation of the device may have. */
int arena_open(struct arena *arena, const char *name, uint64_t bytes,
               const struct device_info *info, bool guards, struct problem *problem);
void arena_close(struct arena *arena);

/* Makes the device's buffer, shared or a mirror; release it before the context. A second attach
 * after a release copies every piece to the new mirror. */
int arena_attach(struct arena *arena, cl_context context, cl_command_queue queue, bool mirrored,
                 struct problem *problem);
void arena_release(struct arena *arena);
/* Whether a write to a buffer over the arena's host memory shows there without a map, as with PoCL;
 * simulators keep a copy. The arena is not attached. */
bool arena_is_shared(struct arena *arena, cl_context context, cl_command_queue queue);

/* A zeroed piece; *offset in bytes. */
int arena_take(struct arena *arena, cl_command_queue queue, uint64_t bytes, uint64_t *offset,
               struct problem *problem);
/* Makes these bytes resident, so that whoever writes them first need not wait for pages. */
void arena_populate(struct arena *arena, uint64_t offset, uint64_t bytes);
void arena_give(struct arena *arena, uint64_t offset);

/* Copies host bytes to the mirror and waits; does nothing where the memory is shared. */
int arena_upload(struct arena *arena, cl_command_queue queue, uint64_t offset, uint64_t bytes,
                 struct problem *problem);

/* Every guard zone as the device sees it: 0, or ERROR_DEVICE naming the first piece written beside.
 */
int arena_check(struct arena *arena, cl_command_queue queue, struct problem *problem);

#endif
