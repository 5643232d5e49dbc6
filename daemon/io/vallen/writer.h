/*
 * Writer: puts events, labels and parameters into the .pridb, .tradb and .trfdb of one measurement.
 *
 *     put, label ──► transaction in each file ──► commit: .tradb, .trfdb, then .pridb
 *
 * What it guarantees:
 * - Time never falls with SetID, nor with TRAI in the .tradb (times.h).
 * - Others may read while it writes, and see what was committed: a hit's transient and features
 *   before the hit itself. A writer that is killed leaves files with all that was committed,
 *   which the next one repairs (repair.h).
 * - Where a write or a commit fails, everything since the last commit is lost, counted in `lost`
 *   and left out of the numbering: the numbers go on, so a gap in SetID or TRAI tells of it. The
 *   next event is tried again.
 * - Memory depends on the longest transient, not on how much was written.
 *
 * One thread, except where a function says otherwise; it waits for the disk.
 */
#ifndef CONVOLVD_IO_VALLEN_WRITER_H
#define CONVOLVD_IO_VALLEN_WRITER_H

#include "io/event_sink.h"

struct vallen_writer;

struct vallen_counts {
    uint64_t lost;    /* events that `put` took and a failed commit lost */
    uint64_t clipped; /* samples of transients beyond 16 bits, or no number */
    uint64_t bytes;   /* in the files, as of the last commit */
    uint64_t files;
    uint64_t moved; /* epochs that would have begun before the event before them */
};

/* The options are those of the sink `vallen`, checked, and outlive the writer. 0,
 * ERROR_MEMORY, ERROR_CONFIG, ERROR_NO_FILE or ERROR_SYSTEM. */
int vallen_writer_open(const struct event_sink_options *options, struct vallen_writer **out,
                       struct problem *problem);

/* A hit or an interval, ordered. 0, or ERROR_SYSTEM: it is not written, and `lost` counts those
 * that went with it. */
int vallen_writer_put(struct vallen_writer *writer, const struct analysis_event *event);

/* Something that somebody has noted. `next`: the event that follows it, whose clock its epoch gets
 * the time from; NULL: none yet, and where no event of the epoch came before either, the mark's own
 * realtime_ns counts. */
int vallen_writer_label(struct vallen_writer *writer, const struct sink_mark *mark,
                        const struct analysis_event *next);

/* Makes readable for others what was put. */
void vallen_writer_commit(struct vallen_writer *writer);

/* Commits, says that the file is complete, and leaves single files without a log, unless somebody
 * is reading them: then the last reader tidies up. */
void vallen_writer_close(struct vallen_writer *writer); /* NULL is fine */

/* Any thread. */
void vallen_writer_counts(const struct vallen_writer *writer, struct vallen_counts *counts);

#endif
