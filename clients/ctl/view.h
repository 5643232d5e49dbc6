/*
 * The live view of convolvctl: streams with rate, load, loss and latency, and the channels of one
 * of them with levels as bars, drawn anew every half second.
 *
 * Keys: up and down (or k and j) choose a stream, s sorts by the next column, space holds the view,
 * q ends. view_draw is a pure function of a status and a size.
 *
 * Main thread; blocks until it ends.
 */
#ifndef CONVOLVCTL_VIEW_H
#define CONVOLVCTL_VIEW_H

#include <jansson.h>
#include <stdio.h>

#include "control/client.h"
#include "core/error.h"

enum view_sort { SORT_NAME, SORT_LOAD, SORT_LOSS, SORT_LATENCY, SORTS };

struct view {
    int rows, columns; /* of the terminal */
    int chosen;        /* stream, in the order shown */
    enum view_sort sort;
    bool held;
};

/* One picture of the status, `rows` lines at most and each at most `columns` wide. */
void view_draw(const struct view *view, const json_t *status, FILE *out);

/* Runs until q, the end of the daemon, or for `seconds` (0: without end). Standard output is no
 * terminal: prints pictures one below the other, without keys. `json`: prints each status as it
 * came, a line each. 0 or an error. */
int view_run(struct client *client, double seconds, bool json, struct problem *problem);

#endif
