/*
 * Link: the daemon's end of one helper process (helper.h). It starts the process, knows its state
 * and ends it. The shared memory and the doorbell belong to the link and serve one helper after
 * another. A link has no event loop: card.c polls its descriptors on one, and a command may wait.
 *
 *     open → [spawn → wait or state … → start → (rings) → stop] … → close
 *
 * One thread at a time. spawn, wait with a timeout, and kill block; nothing else does.
 */
#ifndef CONVOLVD_IO_SOUND_LINK_H
#define CONVOLVD_IO_SOUND_LINK_H

#include <stdbool.h>

#include "core/error.h"
#include "io/sound/shared.h"

struct sound_link;

/* Makes memory and doorbell and copies the request. Returns 0, ERROR_MEMORY or ERROR_SYSTEM. */
int sound_link_open(const struct sound_request *request, struct sound_link **out,
                    struct problem *problem);
/* Only when no helper runs (sound_link_stop has returned true). NULL is fine. */
void sound_link_close(struct sound_link *link);

/* For mode = direct: copies packed filters (direct.h) into a memory file. Returns its descriptor,
 * which the caller passes to sound_link_set_filters or closes, or ERROR_SYSTEM. Any thread. */
int sound_link_filters(const void *packed, size_t bytes, struct problem *problem);
/* Takes the descriptor: a running helper changes to these filters, later helpers begin with them.
 */
void sound_link_set_filters(struct sound_link *link, int filters);

/* Begins a session: resets the memory and starts a helper. None may run. Returns 0 or ERROR_SYSTEM.
 */
int sound_link_spawn(struct sound_link *link, struct problem *problem);
/* Waits until the helper is no longer SOUND_STARTING; kills it after timeout_ms, which then counts
 * as SOUND_ABSENT. */
enum sound_state sound_link_wait(struct sound_link *link, int timeout_ms);
/* The helper's state; SOUND_LOST, with a problem in the memory, when it ended without setting one.
 * Reads the control socket. */
enum sound_state sound_link_state(struct sound_link *link);
/* In SOUND_OPEN: tells the helper to start the device. */
void sound_link_start(struct sound_link *link);
/* Tells the helper to exit by closing the control socket; `now` kills it. Returns true when the
 * helper has ended; else call again. */
bool sound_link_stop(struct sound_link *link, bool now);
/* Kills the helper and waits up to a second until it has ended. False: it hangs in a driver. */
bool sound_link_kill(struct sound_link *link);

struct sound_shared *sound_link_shared(const struct sound_link *link);
/* The doorbell (core/doorbell.h) that every callback rings. */
int sound_link_doorbell(const struct sound_link *link);
/* True from spawn to stop. */
bool sound_link_spawned(const struct sound_link *link);

#endif
