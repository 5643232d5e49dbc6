/*
 * Status of a sound card, as a table, as JSON and as counters for the log: the device as opened,
 * the counters of its callbacks, and for playback its latency and offset. The driver fills a struct
 * sound_report (card.h); this module formats it.
 *
 * Loop thread; also after the card has closed.
 */
#ifndef CONVOLVD_IO_SOUND_REPORT_H
#define CONVOLVD_IO_SOUND_REPORT_H

#include "io/driver.h"

/* For source_ops.status and sink_ops.status. */
extern const struct driver_status sound_status_ops;

#endif
