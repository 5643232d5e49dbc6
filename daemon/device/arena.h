/*
 * Arenas: OpenCL 1.2 has no tables of pointers, so everything a kernel reaches by an offset
 * in a row lies in one of a few large buffers. An arena is a range of host memory, reserved
 * at once and backed by pages when touched. Where host and device share memory it *is* the
 * device's buffer; elsewhere the device has a twin of the same layout, and the holder copies
 * what changed.
 *
 * Pieces are given out first-fit, aligned to 4 KiB. With guards every piece stands between
 * two zones of a pattern that arena_check reads back from the device.
 *
 * take, give and check: worker threads (a mutex inside). host and device: immutable while
 * open.
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
    bool twin;     /* the device's memory is another one */
    cl_mem pinned; /* registers `host` with the driver: copies run five times faster */
    bool copied;   /* often copied to or from the twin, so worth pinning; set after open */
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

/* Makes the device's buffer, on a shared or a twin memory; release before the context goes. A
 * second attach after a release copies every piece to the new device memory. */
int arena_attach(struct arena *arena, cl_context context, cl_command_queue queue, bool twin,
                 struct problem *problem);
void arena_release(struct arena *arena);

/* A zeroed piece; *offset in bytes. */
int arena_take(struct arena *arena, cl_command_queue queue, uint64_t bytes, uint64_t *offset,
               struct problem *problem);
/* Makes these bytes resident, so that whoever writes them first need not wait for pages. */
void arena_populate(struct arena *arena, uint64_t offset, uint64_t bytes);
void arena_give(struct arena *arena, uint64_t offset);

/* Copies host bytes to the twin, waiting; nothing to do on shared memory. */
int arena_upload(struct arena *arena, cl_command_queue queue, uint64_t offset, uint64_t bytes,
                 struct problem *problem);

/* Every guard zone as the device sees it: 0, or ERROR_DEVICE naming the first piece written beside.
 */
int arena_check(struct arena *arena, cl_command_queue queue, struct problem *problem);

#endif
