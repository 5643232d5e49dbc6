/*
 * Settings: what every file says of how it was made, as rows of its *_globalinfo: the keys that the
 * format wants, and those of this daemon, which begin with "convolvd.":
 *
 *     convolvd.version, .stream, .rate_hz, .taps_hash, .taps_longest, .config_hash, .delay_frames,
 *     .aligned, .units, .preamp_db, .full_scale, .step_v (one value for each channel), .parameters
 *     (the names of PA0, PA1 …), .analysis
 *     convolvd.analysis.KEY   the options of the analysis, such as threshold
 *
 * One connection, one thread.
 */
#ifndef CONVOLVD_IO_VALLEN_SETTINGS_H
#define CONVOLVD_IO_VALLEN_SETTINGS_H

#include <sqlite3.h>

#include "io/event_sink.h"
#include "io/vallen/schema.h"

enum { VALLEN_GUID_BYTES = 40 };

/* A new "{99A00581-AA19-4E7B-9844-3BE43177CD7D}". */
void vallen_guid(char text[VALLEN_GUID_BYTES]);

/* The keys of this daemon. Returns SQLite's result code. */
int vallen_settings_write(sqlite3 *db, const char *table, const struct event_sink_options *options,
                          const struct vallen_scale *scales);

#endif
