/*
 * Credit: lets a rig be paced by the receiver of its results, so that nothing is ever lost for
 * want of room. The tap tells the rig by UDP how many result frames it has seen; the rig keeps
 * at most so many frames in between.
 *
 *     rig ──samples──► daemon ──results──► tap
 *      ◄───────────────credit────────────────┘
 *
 * A datagram is 16 bytes: "CVCREDIT", then the count as a big-endian u64. Counts only grow, so
 * lost, doubled or reordered datagrams do no harm; the tap repeats the last while nothing comes.
 *
 * One owner each.
 */
#ifndef CONVOLV_TOOLS_CREDIT_H
#define CONVOLV_TOOLS_CREDIT_H

#include <stdbool.h>
#include <stdint.h>

#include "core/error.h"

struct credit;

/* The rig's end: binds "host:port". */
int credit_listen(const char *address, struct credit **out, struct problem *problem);
/* The tap's end: sends to "host:port". */
int credit_connect(const char *address, struct credit **out, struct problem *problem);
void credit_close(struct credit *credit); /* NULL is fine */

/* Tap: `frames` result frames have been seen so far. */
void credit_tell(struct credit *credit, uint64_t frames);

/* Rig: waits until at least `frames` have been told; false when nothing new was told for
 * timeout_ms. */
bool credit_wait(struct credit *credit, uint64_t frames, int timeout_ms);

#endif
