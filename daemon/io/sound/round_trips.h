/*
 * Round trips of sound cards: measures them for `convolvd --measure-loopback` (loopback.h), stores
 * them by card, host API and rate in loopback.json in the cache directory, and looks them up for
 * streams that capture the response to an excitation and declare the round trip as delay.
 *
 * Main or worker threads. core/replace_file.h replaces the file as a whole.
 */
#ifndef CONVOLVD_IO_SOUND_ROUND_TRIPS_H
#define CONVOLVD_IO_SOUND_ROUND_TRIPS_H

#include "io/driver.h"

/* For source_ops.loopback. */
extern const struct driver_loopback sound_loopback_ops;

#endif
