/* Memory nodes: see memory_nodes.h. No state. */
#include "core/memory_nodes.h"

#include <errno.h>
#include <limits.h>
#include <linux/mempolicy.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

/* ---- sets of numbers --------------------------------------------------------------------- */

static void add(struct number_set *set, uint32_t number)
{
    set->words[number / 64] |= UINT64_C(1) << number % 64;
}

/* A number below NUMBER_SET_BITS; *text moves behind it. */
static bool read_number(const char **text, uint32_t *number)
{
    const size_t digits = strspn(*text, "0123456789");
    if (digits == 0 || digits > 5)
        return false;
    *number = (uint32_t)strtoul(*text, NULL, 10);
    *text += digits;
    return *number < NUMBER_SET_BITS;
}

bool number_set_parse(const char *text, struct number_set *set)
{
    memset(set, 0, sizeof *set);
    while (*text != '\n' && *text != '\0') {
        uint32_t first, last;
        if (!read_number(&text, &first))
            return false;
        last = first;
        if (*text == '-' && (text++, !read_number(&text, &last)))
            return false;
        if (last < first)
            return false;
        for (uint32_t number = first; number <= last; number++)
            add(set, number);
        if (*text == ',')
            text++;
        else if (*text != '\n' && *text != '\0')
            return false;
    }
    return true;
}

bool number_set_has(const struct number_set *set, uint32_t number)
{
    return number < NUMBER_SET_BITS && (set->words[number / 64] >> number % 64 & 1) != 0;
}

uint32_t number_set_count(const struct number_set *set)
{
    uint32_t count = 0;
    for (uint32_t i = 0; i < NUMBER_SET_BITS / 64; i++)
        count += (uint32_t)__builtin_popcountll(set->words[i]);
    return count;
}

const char *number_set_text(const struct number_set *set, char *text, size_t bytes)
{
    static const char more[] = "…";
    size_t used = 0;
    text[0] = '\0';
    for (uint32_t first = 0; first < NUMBER_SET_BITS; first++) {
        char piece[32];
        uint32_t last = first;
        if (!number_set_has(set, first))
            continue;
        while (number_set_has(set, last + 1))
            last++;
        int length = snprintf(piece, sizeof piece, "%s%u", used > 0 ? "," : "", first);
        if (last > first)
            length += snprintf(piece + length, sizeof piece - (size_t)length, "-%u", last);
        if (used + (size_t)length + sizeof more > bytes) {
            snprintf(text + used, bytes - used, "%s", more);
            break;
        }
        memcpy(text + used, piece, (size_t)length + 1);
        used += (size_t)length;
        first = last;
    }
    return text;
}

static bool is_empty(const struct number_set *set)
{
    return number_set_count(set) == 0;
}

/* ---- the machine ------------------------------------------------------------------------- */

/* A file that holds a list. */
static bool read_list(const char *path, struct number_set *set)
{
    FILE *file = fopen(path, "re");
    char text[PATH_MAX] = "";
    if (file == NULL)
        return false;
    /* An empty file, of a node without processors, may lack the line end as well. */
    const bool read = fgets(text, sizeof text, file) != NULL || feof(file);
    fclose(file);
    return read && number_set_parse(text, set);
}

bool memory_nodes_present(const char *root, struct number_set *nodes)
{
    char path[PATH_MAX];
    snprintf(path, sizeof path, "%s/sys/devices/system/node/online", root);
    return read_list(path, nodes) && !is_empty(nodes);
}

bool memory_node_processors(const char *root, uint32_t node, struct number_set *processors)
{
    char path[PATH_MAX];
    snprintf(path, sizeof path, "%s/sys/devices/system/node/node%u/cpulist", root, node);
    return read_list(path, processors);
}

bool processors_allowed(struct number_set *processors)
{
    memset(processors, 0, sizeof *processors);
    return sched_getaffinity(0, sizeof processors->words, (cpu_set_t *)processors->words) == 0;
}

/* ---- the decision ------------------------------------------------------------------------ */

/* The node that memory and threads belong to, or why there is none. */
static enum node_reason find_node(const char *root, struct node_setting setting, int device_node,
                                  uint32_t *node)
{
    struct number_set nodes;
    if (setting.kind == NODE_NONE)
        return NODE_REASON_NONE;
    const bool told = memory_nodes_present(root, &nodes);
    if (setting.kind == NODE_NUMBER) {
        *node = setting.number;
    } else if (!told || number_set_count(&nodes) == 1) {
        return NODE_REASON_ONE;
    } else if (device_node < 0) {
        return NODE_REASON_UNKNOWN;
    } else {
        *node = (uint32_t)device_node;
    }
    return told && number_set_has(&nodes, *node) ? NODE_REASON_BOUND : NODE_REASON_ABSENT;
}

void node_choose(const char *root, struct node_setting setting, int device_node,
                 const struct number_set *allowed, struct node_place *place)
{
    memset(place, 0, sizeof *place);
    place->reason = find_node(root, setting, device_node, &place->node);
    place->bound = place->reason == NODE_REASON_BOUND;
    if (!place->bound)
        return;
    if (!memory_node_processors(root, place->node, &place->processors) ||
        is_empty(&place->processors)) {
        place->reason = NODE_REASON_MEMORY;
        return;
    }
    for (uint32_t i = 0; i < NUMBER_SET_BITS / 64; i++)
        place->processors.words[i] &= allowed->words[i];
    if (is_empty(&place->processors))
        place->reason = NODE_REASON_APART;
}

const struct node_place *node_shared(const struct node_place *const places[], uint32_t count,
                                     bool *mixed)
{
    const struct node_place *shared = NULL;
    *mixed = false;
    for (uint32_t i = 0; i < count; i++) {
        if (!places[i]->bound)
            continue;
        if (shared == NULL)
            shared = places[i];
        *mixed = *mixed || places[i]->node != shared->node;
    }
    return *mixed ? NULL : shared;
}

/* ---- binding ----------------------------------------------------------------------------- */

int thread_run_on(pthread_t thread, const struct number_set *processors)
{
    return pthread_setaffinity_np(thread, sizeof processors->words,
                                  (const cpu_set_t *)processors->words);
}

/* glibc has no wrappers; libnuma's would be all that is used of it. */
int memory_prefer_node(void *from, uint64_t bytes, uint32_t node)
{
    enum { NODES_MAX = 1024 }; /* MAX_NUMNODES of the kernel at most (CONFIG_NODES_SHIFT) */
    unsigned long nodes[NODES_MAX / (8 * sizeof(unsigned long))] = {0};
    int policy = MPOL_DEFAULT;
    if (node >= NODES_MAX)
        return EINVAL;
    if (syscall(SYS_get_mempolicy, &policy, NULL, 0UL, NULL, 0UL) == 0 && policy != MPOL_DEFAULT)
        return EEXIST;
    nodes[node / (8 * sizeof *nodes)] |= 1UL << node % (8 * sizeof *nodes);
    /* The kernel reads one bit less than it is told (mbind(2), BUGS). */
    const long failed =
        syscall(SYS_mbind, from, (unsigned long)bytes, (unsigned long)MPOL_PREFERRED, nodes,
                (unsigned long)NODES_MAX + 1, 0U);
    return failed == 0 ? 0 : errno;
}
