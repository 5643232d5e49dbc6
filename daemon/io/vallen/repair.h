/*
 * Repair: finishes the files of measurements that an earlier run began and could not close, because
 * it was killed or the power failed.
 *
 * Such a .pridb, .tradb or .trfdb says FileStatus 2 and names this program as its WriterID. SQLite
 * brings in what was committed; then the file says FileStatus 0 and `convolvd.repaired`, when that
 * was; ValidSets and TRAI are what its tables hold, and a .pridb with sets ends with the label
 * "Suspend (repaired)", at the time of its last set. What lay in its log lies in the file itself,
 * and the log is gone. No set is changed.
 *
 * Each file is repaired in one transaction of its own: a repair that is cut off is done again. A
 * file that somebody has open, to write or to read, is left alone until the next start. A log that
 * lies beside a complete file, because somebody read it when it was closed, is brought in as well.
 *
 * A file that is cut off in its header, the first 108 bytes, is left alone: nobody can read it, and
 * it never held anything, since SQLite syncs the header before it writes anything else.
 *
 * One thread (a worker); waits for the disk.
 */
#ifndef CONVOLVD_IO_VALLEN_REPAIR_H
#define CONVOLVD_IO_VALLEN_REPAIR_H

/* Repairs each unfinished file that the sink would name for `path` (names.h), and says so in the
 * log. What cannot be repaired stays as it is, with a warning. */
void vallen_repair(const char *sink, const char *path);

#endif
