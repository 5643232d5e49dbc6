/*
 * Memory nodes (NUMA): which memory and which processors of a machine are near each other. A device
 * copies from the memory of its own node; from another one's every byte crosses the link between
 * the processors. This module reads which nodes there are, decides what is bound to which, and
 * binds threads and memory.
 *
 * What the service manager has narrowed stays narrow: threads get processors of the node that they
 * were allowed before, and memory with a policy (NUMAPolicy=) keeps it.
 *
 * Any thread; reads a few files of /sys. `root` goes before each path, "" outside tests.
 */
#ifndef CONVOLVD_CORE_MEMORY_NODES_H
#define CONVOLVD_CORE_MEMORY_NODES_H

#include <pthread.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* ---- sets of numbers --------------------------------------------------------------------- */

/* What Linux numbers: processors, at most 8192 of them (CONFIG_NR_CPUS), and memory nodes. */
enum { NUMBER_SET_BITS = 8192 };

struct number_set {
    uint64_t words[NUMBER_SET_BITS / 64];
};

/* A list as the kernel writes it: "0-3,8,10-11" and a line end (cpuset(7), List format). False: it
 * is none, or has numbers that are too large. An empty list is an empty set. */
bool number_set_parse(const char *text, struct number_set *set);
bool number_set_has(const struct number_set *set, uint32_t number);
uint32_t number_set_count(const struct number_set *set);
/* The same list; ends in "…" where it does not fit. Returns `text`. */
const char *number_set_text(const struct number_set *set, char *text, size_t bytes);

/* ---- the machine ------------------------------------------------------------------------- */

/* The nodes that are online. False: the kernel tells none. */
bool memory_nodes_present(const char *root, struct number_set *nodes);
/* The processors of a node: none where it holds memory alone. False: there is no such node. */
bool memory_node_processors(const char *root, uint32_t node, struct number_set *processors);
/* Where the calling thread may run. False: the kernel does not tell. */
bool processors_allowed(struct number_set *processors);

/* ---- the decision ------------------------------------------------------------------------ */

/* `node` in [device]. */
enum node_setting_kind { NODE_NONE, NODE_AUTO, NODE_NUMBER };
struct node_setting {
    enum node_setting_kind kind;
    uint32_t number; /* of NODE_NUMBER */
};

enum node_reason {
    NODE_REASON_NONE,    /* none is wanted: the default of a zeroed place */
    NODE_REASON_ONE,     /* auto: the machine has one node, or tells none */
    NODE_REASON_UNKNOWN, /* auto: nobody tells the device's node */
    NODE_REASON_ABSENT,  /* the machine has no such node */
    NODE_REASON_BOUND,   /* memory and threads */
    NODE_REASON_MEMORY,  /* memory alone: the node has no processors */
    NODE_REASON_APART,   /* memory alone: the process may run on none of its processors */
};

/* Where a device's memory and threads belong. Zeroed: nowhere in particular. */
struct node_place {
    enum node_reason reason;
    bool bound;                   /* memory belongs to `node` */
    uint32_t node;                /* while bound; of NODE_REASON_ABSENT the one that is wanted */
    struct number_set processors; /* that its threads run on; empty: where they did before */
};

/* `device_node`: of the device's bus, -1 where it is not known. `allowed`: where threads may run at
 * most. */
void node_choose(const char *root, struct node_setting setting, int device_node,
                 const struct number_set *allowed, struct node_place *place);

/* The place of all those that are bound; NULL: none is, or they are not of one node. `mixed` says
 * which. */
const struct node_place *node_shared(const struct node_place *const places[], uint32_t count,
                                     bool *mixed);

/* ---- binding ----------------------------------------------------------------------------- */

/* The thread runs on these processors alone. 0, or an errno value. */
int thread_run_on(pthread_t thread, const struct number_set *processors);

/* Pages of [from, from + bytes) that nobody has touched yet come from this node, or from others
 * once it is full. `from` is the start of a page. 0, or an errno value; EEXIST: the process has a
 * memory policy already, which stays. */
int memory_prefer_node(void *from, uint64_t bytes, uint32_t node);

#endif
