/* Memory nodes of devices and loops: see nodes.h. */
#include "pipeline/nodes.h"

#include <assert.h>
#include <stdio.h>
#include <string.h>

#include "core/log.h"
#include "pipeline/loops.h"

enum { TEXT = 160 };

void nodes_open(struct nodes *nodes)
{
    processors_allowed(&nodes->allowed);
}

void nodes_tell(int index, const char *name, const struct node_place *place)
{
    struct number_set processors;
    char text[TEXT];
    switch (place->reason) {
    case NODE_REASON_NONE:
    case NODE_REASON_ONE:
        break;
    case NODE_REASON_UNKNOWN:
        log_info("device %d (%s): its driver tells no memory node, so nothing is bound to one; "
                 "`node = N` in [device] names it",
                 index, name);
        break;
    case NODE_REASON_ABSENT:
        log_warning("device %d (%s): this machine has no memory node %u, so nothing is bound to "
                    "one; write another `node` into [device]",
                    index, name, place->node);
        break;
    case NODE_REASON_BOUND:
        log_info("device %d (%s): on memory node %u, its thread on processors %s", index, name,
                 place->node, number_set_text(&place->processors, text, sizeof text));
        break;
    case NODE_REASON_MEMORY:
        log_info("device %d (%s): on memory node %u, which has no processors: threads run on any",
                 index, name, place->node);
        break;
    case NODE_REASON_APART:
        memory_node_processors("", place->node, &processors);
        log_warning("device %d (%s): on memory node %u, and this process may run on none of its "
                    "processors (%s): threads stay on another node; allow them (CPUAffinity= of "
                    "the unit), or write `node = none`",
                    index, name, place->node, number_set_text(&processors, text, sizeof text));
        break;
    }
}

/* The node that all devices of a loop share, with processors to run on; NULL: there is none. */
static const struct node_place *place_of_loop(const struct node_device *devices, uint32_t count,
                                              uint32_t loop, bool *mixed)
{
    const struct node_place *places[NODE_DEVICES_MAX];
    uint32_t served = 0;
    assert(count <= NODE_DEVICES_MAX);
    for (uint32_t i = 0; i < count; i++)
        if (devices[i].loop == loop)
            places[served++] = devices[i].place;
    const struct node_place *shared = node_shared(places, served, mixed);
    return shared != NULL && number_set_count(&shared->processors) > 0 ? shared : NULL;
}

static void run_on(struct loops *loops, uint32_t loop, const struct number_set *processors,
                   const char *why)
{
    char text[TEXT];
    const int refused = loops_run_on(loops, loop, processors);
    number_set_text(processors, text, sizeof text);
    if (refused == 0)
        log_info("loop %u: %s, on processors %s", loop, why, text);
    else
        log_warning("loop %u: %s, and cannot run on processors %s (sched_setaffinity: %s); allow "
                    "this call (SystemCallFilter=sched_setaffinity)",
                    loop, why, text, strerror(refused));
}

void nodes_settle(struct nodes *nodes, struct loops *loops, const struct node_device *devices,
                  uint32_t count)
{
    for (uint32_t loop = 0; loop <= loops_more(loops); loop++) {
        bool mixed;
        const struct node_place *place = place_of_loop(devices, count, loop, &mixed);
        const bool was_bound = nodes->loops[loop].bound, was_mixed = nodes->loops[loop].mixed;
        nodes->loops[loop].mixed = mixed;
        nodes->loops[loop].bound = place != NULL;
        if (place != NULL && (!was_bound || nodes->loops[loop].node != place->node)) {
            char why[48];
            snprintf(why, sizeof why, "on memory node %u with its device", place->node);
            nodes->loops[loop].node = place->node;
            run_on(loops, loop, &place->processors, why);
        } else if (place == NULL && (was_bound || (mixed && !was_mixed))) {
            run_on(loops, loop, &nodes->allowed,
                   mixed ? "its devices are on several memory nodes" : "bound to no memory node");
        }
    }
}
