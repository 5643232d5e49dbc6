/*
 * Saving: writes what `save` answers as a fragment of the daemon's configuration, with
 * the rights of whoever runs convolvctl, once the configuration is proven to be valid with it.
 *
 * Main thread.
 */
#ifndef CONVOLVCTL_SAVE_H
#define CONVOLVCTL_SAVE_H

#include <jansson.h>
#include <stdbool.h>

#include "core/error.h"

/* Writes CONFIG.d/99-saved-TIME.conf and prints its name, with `json` as {"ok", "path"}; nothing
 * was changed: writes none and says so, with path null. 0 or an error with its sentence; what is
 * wrong with the configuration goes to stderr. */
int save_write(const json_t *reply, bool json, struct problem *problem);

#endif
