/* Counters of the OSC server: see osc_counters.h. */
#include "control/osc_counters.h"

#include <inttypes.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include "io/osc/server.h"

struct counter {
    const char *name, *sentence;
    size_t offset; /* of an uint64_t in struct osc_stats */
};

#define AT(field) offsetof(struct osc_stats, field)

/* A table is read across. */
/* clang-format off */
static const struct counter counters[] = {
    {"packets", "datagrams and TCP packets that the walker has seen: those taken and each `rejected`", AT(counts.packets)},
    {"messages", "of the packets taken, bundles unpacked", AT(counts.messages)},
    {"bundles", "of the packets taken", AT(counts.bundles)},
    {"bundles_dated", "with a time tag other than immediately; it queues nothing", AT(counts.dated)},
    {"bundle_depth", "of the deepest bundle taken", AT(counts.depth)},
    {"rejected_size", "packets that are empty, or longer than 64 KiB", AT(counts.faults[OSC_FAULT_SIZE])},
    {"rejected_address", "packets with an address that is none", AT(counts.faults[OSC_FAULT_ADDRESS])},
    {"rejected_pattern", "packets with more than two wildcards, or brackets left open", AT(counts.faults[OSC_FAULT_PATTERN])},
    {"rejected_types", "packets with unknown type tags, or with tags that do not end", AT(counts.faults[OSC_FAULT_TYPES])},
    {"rejected_arguments", "packets whose arguments end after the message", AT(counts.faults[OSC_FAULT_ARGUMENTS])},
    {"rejected_untagged", "packets without type tags, whose address takes several types", AT(counts.faults[OSC_FAULT_UNTAGGED])},
    {"tolerated_padding", "messages taken although padding after a string or blob is not 0, or is missing", AT(counts.tolerated[OSC_TOLERATED_PADDING])},
    {"tolerated_surplus", "messages taken without the bytes behind their last argument, or behind the last whole sample of a blob", AT(counts.tolerated[OSC_TOLERATED_SURPLUS])},
    {"tolerated_untagged", "messages taken without type tags: they have no argument, or their address takes one type only", AT(counts.tolerated[OSC_TOLERATED_UNTAGGED])},
    {"rejected_bundle", "packets with an element that does not fit its bundle", AT(counts.faults[OSC_FAULT_BUNDLE])},
    {"rejected_depth", "packets with bundles deeper than 4", AT(counts.faults[OSC_FAULT_DEPTH])},
    {"refused", "datagrams and connections from addresses that are neither allowed nor trusted", AT(refused)},
    {"socket_drops", "datagrams that the kernel dropped because the socket was full", AT(socket_drops)},
    {"unclaimed", "blocks for streams that are not there", AT(unclaimed)},
    {"no_room", "questions not answered because too many addresses are served", AT(peers_refused)},
    {"challenged", "challenges sent", AT(challenged)},
    {"proven", "challenges returned", AT(proven)},
    {"blocks_unproven", "blocks refused because the address has not returned a challenge yet", AT(blocks_unproven)},
    {"sent", "messages handed to the kernel, or to a connection's memory", AT(sent)},
    {"dropped", "messages for which a socket or a connection had no room", AT(dropped)},
    {"connections", "TCP connections open now", AT(connections)},
    {"connected", "TCP connections accepted so far", AT(connected)},
    {"connections_refused", "TCP connections closed at once because too many are open, or no descriptor is left", AT(connections_refused)},
    {"closed_slow", "connections closed because a packet was not complete within `tcp timeout`", AT(closed_slow)},
    {"closed_stuck", "connections closed because they read nothing for `tcp timeout`", AT(closed_stuck)},
    {"closed_idle", "connections closed because no packet went either way for `tcp idle`, or for `tcp timeout` when a new one needed the slot", AT(closed_idle)},
    {"closed_framing", "connections closed because they sent neither length prefixes nor SLIP, or a packet too long", AT(closed_framing)},
    {"peers", "addresses and connections known now", AT(peers)},
    {"subscriptions", "leases that run now", AT(subscriptions)},
    {"leases", "leases given so far; renewals do not count", AT(leases)},
    {"leases_expired", "leases that were not renewed", AT(leases_expired)},
    {"events_dropped", "events of analyses that a subscription did not get: beyond its rate, without room, or overwritten before", AT(events_dropped)},
};
/* clang-format on */

enum { COUNTERS = sizeof counters / sizeof *counters, LINE_WIDTH = 96 };

static uint64_t value_of(const struct osc_stats *stats, const struct counter *counter)
{
    uint64_t value;
    memcpy(&value, (const char *)stats + counter->offset, sizeof value);
    return value;
}

void osc_counters_print(const struct osc_hub *hub, FILE *out)
{
    struct osc_stats stats;
    if (!osc_stats(hub, &stats))
        return;
    int column = fprintf(out, "\nosc:");
    for (int i = 0; i < COUNTERS; i++) {
        char text[64];
        uint64_t value = value_of(&stats, &counters[i]);
        if (value == 0 && i > 0)
            continue;
        int length = snprintf(text, sizeof text, " %s %" PRIu64, counters[i].name, value);
        for (char *at = text; *at != '\0'; at++)
            *at = *at == '_' ? ' ' : *at;
        if (column + length > LINE_WIDTH)
            column = fprintf(out, "\n    ") - 1;
        column += fprintf(out, "%s%s", i > 0 && column > 5 ? "," : "", text);
    }
    fputc('\n', out);
}

json_t *osc_counters_json(const struct osc_hub *hub)
{
    struct osc_stats stats;
    if (!osc_stats(hub, &stats))
        return NULL;
    json_t *object = json_object();
    for (int i = 0; i < COUNTERS; i++)
        json_object_set_new(object, counters[i].name,
                            json_integer((json_int_t)value_of(&stats, &counters[i])));
    return object;
}

void osc_counters_help(FILE *out)
{
    fprintf(out, "### What is counted\n\n| counter | what |\n|---|---|\n");
    for (int i = 0; i < COUNTERS; i++)
        fprintf(out, "| `%s` | %s |\n", counters[i].name, counters[i].sentence);
    fprintf(out, "\n");
}
