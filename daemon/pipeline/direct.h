/*
 * Direct mode: what a sound card's callback needs to convolve a stream by itself, made from the
 * configuration. See io/sound_direct.h.
 *
 * Worker threads.
 */
#ifndef CONVOLVD_PIPELINE_DIRECT_H
#define CONVOLVD_PIPELINE_DIRECT_H

#include "io/sound/card.h"
#include "config/config.h"

/* *out: the card's options with the filters, NULL when the stream is not in direct mode; they take
 * the place of the configuration's for source and sink alike. Free with direct_free. */
int direct_prepare(const struct config *config, const struct config_stream *stream,
                   struct sound_options **out, struct problem *problem);
/* Of a stream in direct mode with other edges: *filters is a descriptor for sound_card_set_filters.
 */
int direct_filters(const struct config *config, const struct config_stream *stream, int *filters,
                   struct problem *problem);
void direct_free(struct sound_options *options); /* NULL is fine */

#endif
