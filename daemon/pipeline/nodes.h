/*
 * Memory nodes of devices and loops: `node` in [device]. An engine binds its own threads and memory
 * (core/memory_nodes.h has the rules); a loop follows the devices that serve it. Where these are of
 * one node, the loop runs there too, since it writes what they read. Where they are of several,
 * none is better than another, and the loop runs where it did at the start.
 *
 * Each declaration names its thread: LOOP is the main one, or WORKER.
 */
#ifndef CONVOLVD_PIPELINE_NODES_H
#define CONVOLVD_PIPELINE_NODES_H

#include <stdbool.h>
#include <stdint.h>

#include "core/limits.h"
#include "core/memory_nodes.h"

enum { NODE_DEVICES_MAX = 64 };

struct loops;

/* A device that serves a loop. */
struct node_device {
    uint32_t loop;
    const struct node_place *place;
};

struct nodes {
    struct number_set allowed; /* where the process may run; immutable */

    /* LOOP: by loop */
    struct {
        bool bound, mixed;
        uint32_t node;
    } loops[LOOPS_MAX + 1];
};

/* LOOP, before it binds anything. */
void nodes_open(struct nodes *nodes);

/* WORKER. Logs where a device that was opened is bound, or why it is not. */
void nodes_tell(int index, const char *name, const struct node_place *place);

/* LOOP. Each loop goes where its devices are. */
void nodes_settle(struct nodes *nodes, struct loops *loops, const struct node_device *devices,
                  uint32_t count);

#endif
