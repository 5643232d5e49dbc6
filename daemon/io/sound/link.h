/*
 * Link: the daemon's end of one helper process (sound/helper.h). Starts it, knows its state, ends
 * it; the memory outlives the helpers, one session after the other. No event loop: sound/card.c
 * puts one on it, a command may wait.
 *
 *     open → [spawn → wait or state … → start → (rings) → stop] … → close
 *
 * One owner. spawn and wait: any thread; nothing else blocks.
 */
#ifndef CONVOLVD_IO_SOUND_LINK_H
#define CONVOLVD_IO_SOUND_LINK_H

#include <stdbool.h>

#include "core/error.h"
#include "io/sound/shared.h"

struct sound_link;

/* Memory and doorbell; the request is copied. */
int sound_link_open(const struct sound_request *request, struct sound_link **out,
                    struct problem *problem);
/* No helper may be running (sound_link_stop has returned true). NULL is fine. */
void sound_link_close(struct sound_link *link);

/* For mode = direct: what helpers get to convolve with (sound/direct.h), as a descriptor to be
 * given to sound_link_set_filters or closed. Any thread. At least 0, or ERROR_SYSTEM. */
int sound_link_filters(const void *packed, size_t bytes, struct problem *problem);
/* Takes the descriptor: the helper that runs goes over to these filters, later ones begin with
 * them. */
void sound_link_set_filters(struct sound_link *link, int filters);

/* A new session with a helper of its own; none may be running. */
int sound_link_spawn(struct sound_link *link, struct problem *problem);
/* Waits until the helper is no longer SOUND_STARTING; one that takes longer is ended. */
enum sound_state sound_link_wait(struct sound_link *link, int timeout_ms);
/* Takes in what the control socket says; a helper that ended without a word is SOUND_LOST, with a
 * problem that says so. */
enum sound_state sound_link_state(struct sound_link *link);
/* In SOUND_OPEN: the device may start. */
void sound_link_start(struct sound_link *link);
/* Asks the helper to leave, by `kill` at once. True when it has gone; else ask again. */
bool sound_link_stop(struct sound_link *link, bool kill);

struct sound_shared *sound_link_shared(const struct sound_link *link);
/* To poll for reading: the doorbell (drain it by reading), and the control socket, -1 between
 * sessions. */
int sound_link_doorbell(const struct sound_link *link);
int sound_link_control(const struct sound_link *link);

#endif
