/*
 * Round trips of sound cards: measured with `convolvd --measure-loopback`, kept by card, host API
 * and rate in loopback.json of the cache directory, and declared as delay by streams that capture
 * the response to an excitation from such a card.
 *
 * Main or worker threads; the file is replaced as a whole, by a rename.
 */
#ifndef CONVOLVD_IO_SOUND_ROUND_TRIPS_H
#define CONVOLVD_IO_SOUND_ROUND_TRIPS_H

#include "io/driver.h"

/* For source_ops.loopback. */
extern const struct driver_loopback sound_loopback_ops;

#endif
