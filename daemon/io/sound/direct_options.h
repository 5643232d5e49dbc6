/*
 * Direct mode from the pipeline's side: the options of a card with the filters that its callback
 * applies, packed for the helper process (sound/direct.h).
 *
 * Worker threads; changing the filters: loop thread.
 */
#ifndef CONVOLVD_IO_SOUND_DIRECT_OPTIONS_H
#define CONVOLVD_IO_SOUND_DIRECT_OPTIONS_H

#include "io/driver.h"

/* For source_ops.direct; the structure behind `own` is struct sound_options. */
extern const struct driver_direct sound_direct_ops;

#endif
