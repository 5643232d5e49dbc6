/*
 * Recordings: what the configuration asks about files before anything is opened. The source
 * `file` reads them (recording/source.c), the sink `recording` writes them (recording/sink.c).
 *
 * Any thread that may wait for a disk.
 */
#ifndef CONVOLVD_IO_RECORDING_RECORDING_H
#define CONVOLVD_IO_RECORDING_RECORDING_H

#include <stdint.h>

#include "core/error.h"
#include "io/sink.h"
#include "wire/format.h"

/*
 * What is in a recording (WAV, W64, RF64, FLAC): its rate, channels, frames and the format in which
 * the source `file` hands its samples on: the file's own width, little endian; 64-bit float becomes
 * f32le. Each out pointer may be NULL. Returns 0, ERROR_NO_FILE, ERROR_FORMAT (not a recording) or
 * ERROR_UNSUPPORTED (compressed samples).
 */
int recording_probe(const char *path, double *rate_hz, uint32_t *channels,
                    struct sample_format *format, uint64_t *frames, struct problem *problem);

/*
 * True facts about a recording sink, from its options alone: the container is known, the format
 * fits it, the rate is a whole number of Hz that its header can hold, the channels fit, `rotate`
 * leaves room for at least one frame. Reads stream.rate_hz and stream.channels (raw:
 * stream.input_rate_hz, stream.input_channels and stream.input_format), so these must be filled.
 * Touches no file.
 */
int recording_check(const struct sink_options *options, struct problem *problem);

#endif
