/*
 * Saturation map: which outputs of a stream rest on which of its inputs, so that the marks of
 * inputs near full scale (stream/full_scale.h) become those of outputs, for analyses and for
 * streams that read this one.
 *
 * Each declaration names its thread: WORKER (before anything runs), LOOP or ANY.
 */
#ifndef CONVOLVD_PIPELINE_SATURATION_MAP_H
#define CONVOLVD_PIPELINE_SATURATION_MAP_H

#include <stdint.h>

#include "config/config.h"
#include "stream/result.h"

struct saturation_map;

/* WORKER. 0 or ERROR_MEMORY. */
int saturation_map_open(const struct config_stream *stream, struct saturation_map **out);
void saturation_map_close(struct saturation_map *map); /* NULL is fine */

/* ANY. The most marks that a result of this stream has once they are those of outputs. */
uint32_t saturation_map_most(const struct config_stream *stream);

/* LOOP. Marks by float of the output, in order of `from`, those of one float apart; valid until the
 * next call. Beyond the most of each float, its last marks are joined. NULL: there are none.
 * Returns how many. */
uint32_t saturation_map_apply(struct saturation_map *map, const struct result *result,
                              const struct input_saturation **marks);

#endif
