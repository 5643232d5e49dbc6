/*
 * `convolvctl hits`: the events of analyses as they come, one line each.
 *
 * Main thread; blocks.
 */
#ifndef CONVOLVCTL_HITS_H
#define CONVOLVCTL_HITS_H

#include <jansson.h>
#include <stdbool.h>
#include <stdio.h>

#include "control/client.h"

/* Events from `request` on, which it takes over; without `follow` those that are kept. `json`: each
 * as the object it came as. 0, or an error with its sentence. */
int hits_show(struct client *client, json_t *request, bool follow, bool json,
              struct problem *problem);

/* One line of the daemon's for people. */
void hits_print(const json_t *line, FILE *out);

/* The answer of `transient`: its event, and how many samples there are. */
void hits_print_transient(const json_t *reply, FILE *out);

#endif
