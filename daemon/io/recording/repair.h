/*
 * Repair: finishes the files of a recording sink that an earlier run began and could not finish,
 * because it was killed or the power failed.
 *
 * Such a file has a sidecar with `complete` false, or none yet. The repair makes its header agree
 * with its length and its sidecar with both: `repaired` is true, `frames` is what the file holds,
 * and `invalid` also names
 *
 *     unflushed   frames after the last flush: nothing says whether they were valid
 *     unwritten   frames that never reached the disk: the file system shows zeros there
 *     lost_frames is the number of frames that the sidecar counted and the file does not hold.
 *
 * No sample is changed and no file of samples is deleted. A file that a recording has open is left
 * alone (disk.h locks it), as is one that this sink could not have written.
 *
 * One thread (a worker); waits for the disk and allocates.
 */
#ifndef CONVOLVD_IO_RECORDING_REPAIR_H
#define CONVOLVD_IO_RECORDING_REPAIR_H

#include "io/recording/files.h"
#include "io/recording/owed.h"

/* Repairs every unfinished file that `files` would name, and says so in the log. What cannot be
 * repaired stays as it is, with a warning. A sidecar that the disk does not take now is owed. */
void recording_repair(const struct recording_files *files, struct owed *owed);

#endif
