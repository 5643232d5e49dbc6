/*
 * Recorder: writes what a tap receives, each frame at its frame number. The first epoch goes to
 * the path given, each further one to a file of its own (NAME-epoch7.wav). Frames that never came
 * are NaN in .npy and zero in recordings; late ones fill their place.
 *
 * One owner.
 */
#ifndef CONVOLV_TOOLS_TAP_RECORDER_H
#define CONVOLV_TOOLS_TAP_RECORDER_H

#include <stdint.h>

#include "convolv.h"
#include "core/error.h"

struct recorder;

/* By the path's ending: .npy, .wav (RF64 past 4 GiB), .w64, .rf64, .flac. */
int recorder_open(const char *path, double rate_hz, uint32_t channels, struct recorder **out,
                  struct problem *problem);
int recorder_put(struct recorder *recorder, const struct convolv_block *block,
                 struct problem *problem);
int recorder_close(struct recorder *recorder, struct problem *problem); /* NULL is fine */

#endif
