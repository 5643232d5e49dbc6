/*
 * Values that only the configuration knows: sample formats, `source`, `route`, `quantity`, `node`.
 * The parsers are those of its rows (option_row.parse); the other functions read a value that a
 * parser has proven.
 *
 * Pure functions; any thread.
 */
#ifndef CONVOLVD_CONFIG_OWN_VALUES_H
#define CONVOLVD_CONFIG_OWN_VALUES_H

#include "core/memory_nodes.h"
#include "core/option.h"
#include "wire/format.h"

int schema_parse_format(const struct option_row *row, const char *text, struct option_value *value,
                        struct problem *problem);
int schema_parse_route(const struct option_row *row, const char *text, struct option_value *value,
                       struct problem *problem);
/* value->integer becomes the index of the driver in io's table, or one past them for a chain. */
int schema_parse_source(const struct option_row *row, const char *text, struct option_value *value,
                        struct problem *problem);

/* value->integer becomes the enum alarm_quantity; any name that is no other quantity is a FIELD. */
int schema_parse_quantity(const struct option_row *row, const char *text,
                          struct option_value *value, struct problem *problem);
/* "level, overloads, …": the quantities of streams. Returns `text`. */
const char *schema_quantities_text(char *text, size_t bytes);

int schema_parse_node(const struct option_row *row, const char *text, struct option_value *value,
                      struct problem *problem);
struct node_setting schema_node(const struct option_value *value);

/* The sample format of a proven value of `format`; *order_written: the byte order was named. */
struct sample_format schema_format(const struct option_value *value, bool *order_written);

/* The stream of a proven `source = stream NAME`, NULL for a driver. */
const char *schema_upstream(const struct option_value *value);

/* The parts of a proven `route = IN -> FILTER [GAIN] -> OUT`. */
struct schema_route {
    char filter[OPTION_NAME_BYTES];
    uint32_t input, output; /* channels counted from 1 */
    double gain;            /* factor */
};
void schema_route(const struct option_value *value, struct schema_route *route);

#endif
