/* Memory nodes, for `--check`: see nodes.h. */
#include "report/nodes.h"

enum { TEXT = 160 };

/* auto: the devices, of which --check opens none, decide. */
static void report_auto(const char *root, FILE *out)
{
    struct number_set nodes;
    char text[TEXT];
    if (!memory_nodes_present(root, &nodes))
        fprintf(out, "auto; the kernel tells none, so nothing is bound\n");
    else if (number_set_count(&nodes) == 1)
        fprintf(out, "auto; this machine has one, so nothing is bound\n");
    else
        fprintf(out,
                "auto; that of each device's bus (convolvd --list-devices); this machine has %s\n",
                number_set_text(&nodes, text, sizeof text));
}

static void report_number(const char *root, const struct config *config, FILE *out,
                          struct config_errors *errors)
{
    struct number_set allowed, processors;
    struct node_place place;
    char text[TEXT];
    const uint32_t node = config->device.node.number;
    processors_allowed(&allowed);
    node_choose(root, config->device.node, -1, &allowed, &place);
    number_set_text(&place.processors, text, sizeof text);
    if (place.reason == NODE_REASON_BOUND) {
        fprintf(out, "%u; device threads and loops on processors %s\n", node, text);
        return;
    }
    fprintf(out, "%u; %s\n", node,
            place.reason == NODE_REASON_ABSENT ? "not there, so nothing is bound"
                                               : "memory alone, threads run elsewhere");
    if (place.reason == NODE_REASON_APART && memory_node_processors(root, node, &processors))
        config_warning(errors, (struct config_place){config->path, 0},
                       "`node = %u`: this process may run on none of the node's processors (%s); "
                       "allow them (CPUAffinity= of the unit, taskset), or write another node",
                       node, number_set_text(&processors, text, sizeof text));
}

void nodes_report(const char *root, const struct config *config, FILE *out,
                  struct config_errors *errors)
{
    fprintf(out, "memory node: ");
    if (config->device.node.kind == NODE_NONE)
        fprintf(out, "none; threads and memory are where the kernel puts them\n");
    else if (config->device.node.kind == NODE_AUTO)
        report_auto(root, out);
    else
        report_number(root, config, out, errors);
    fputc('\n', out);
}
