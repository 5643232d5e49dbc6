/*
 * The status of a sound card, for people, for programs and for the log: the device as opened, the
 * callbacks' counters, and for playback where frames are played. The structure is struct
 * sound_report of sound/card.h.
 *
 * Loop thread, or after the card is closed.
 */
#ifndef CONVOLVD_IO_SOUND_REPORT_H
#define CONVOLVD_IO_SOUND_REPORT_H

#include "io/driver.h"

/* For source_ops.status and sink_ops.status. */
extern const struct driver_status sound_status_ops;

#endif
