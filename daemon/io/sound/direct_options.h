/*
 * Direct mode for the pipeline: makes a copy of a card's options with the stream's filters, packed
 * for the helper process (direct.h), and changes the filters of a running card.
 *
 * Worker threads; `set` runs on the loop thread.
 */
#ifndef CONVOLVD_IO_SOUND_DIRECT_OPTIONS_H
#define CONVOLVD_IO_SOUND_DIRECT_OPTIONS_H

#include "io/driver.h"

/* For source_ops.direct; the structure behind `own` is struct sound_options. */
extern const struct driver_direct sound_direct_ops;

#endif
