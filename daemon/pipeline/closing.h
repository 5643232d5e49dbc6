/*
 * Closing what a stream has used on a device: plans, rings, engines. That takes a driver's answer,
 * or waits for whoever waits for it, and so may never end. It happens on a thread for each device,
 * which ends when it has nothing left to close: a driver that hangs holds up what is to be closed
 * on its device, and neither the loop nor libuv's threads, which others need.
 *
 * Nothing else may use what is closed. LOOP, except what says "its thread".
 */
#ifndef CONVOLVD_PIPELINE_CLOSING_H
#define CONVOLVD_PIPELINE_CLOSING_H

#include <stdbool.h>
#include <stdint.h>

/* A member of what is to be closed; `close` knows of what. */
struct closing {
    struct closing *next;
    void (*close)(struct closing *closing); /* its thread: closes and frees it */
};

/* `device`: whose driver it may hang in, the same pointer for the same device. */
void closing_begin(const void *device, struct closing *closing);
/* Waits until all is closed, for so long at most, and not at all while jobs of changes or responses
 * are left behind (job.h). False: something hangs, and nothing that a thread may still use can be
 * freed. */
bool closings_end(int64_t patience_ns);

#endif
