/*
 * .tradb: reads the transients of a file as frames of a stream. The file comes from somewhere, so
 * nothing in it is trusted: it is opened for reading alone (database.h), every number is checked
 * before memory depends on it, and a record that does not fit what it says of itself is left out
 * and counted.
 *
 *     tr_data ──► timeline (epochs of adjoining records) ──► frames, [channels] interleaved
 *
 * Channel n of the stream is `Chan` n of the file. Samples are the file's codes, unchanged (s16le,
 * with the scale of each channel beside them), or floats where the scale of a channel changes
 * within the file. A channel without a record at a frame of an epoch reads 0 there.
 *
 * One thread at a time; everything waits for the disk.
 */
#ifndef CONVOLVD_IO_VALLEN_TRADB_H
#define CONVOLVD_IO_VALLEN_TRADB_H

#include <stdbool.h>
#include <stdint.h>

#include "core/error.h"
#include "stream/packet.h"
#include "wire/format.h"

struct tradb;

struct tradb_facts {
    double rate_hz;
    uint32_t channels;
    struct sample_format format;
    uint64_t records, left_out; /* of the rows: that are played; that are damaged or foreign */
    uint64_t epochs, frames;
    uint64_t samples;  /* of all channels; frames · channels where no channel is ever silent */
    uint64_t disorder; /* records whose Time is before that of the record before */
    bool dated;        /* the .pridb beside it says when the recording began */
    int64_t origin_ns; /* realtime of Time 0; 0 when not dated */
    uint64_t memory_bytes;
};

/* channel: the only one to play, as channel 1; 0: all. 0, ERROR_NO_FILE, ERROR_FORMAT (no .tradb,
 * or nothing in it can be played), ERROR_UNSUPPORTED (several rates), ERROR_LIMIT, ERROR_MEMORY. */
int tradb_open(const char *path, uint32_t channel, struct tradb **out, struct problem *problem);
void tradb_close(struct tradb *tradb); /* NULL is fine */

void tradb_facts(const struct tradb *tradb, struct tradb_facts *facts);

/* What the codes of each channel are worth, in volts at the sensor: scales[channels]. */
void tradb_scales(const struct tradb *tradb, struct channel_scale *scales);

/* Frames that are among the first `settling` of their epochs. */
uint64_t tradb_settling(const struct tradb *tradb, uint64_t settling);

/* Where frames lie that tradb_read has returned. */
struct tradb_part {
    uint64_t first_frame; /* on the file's axis; 0 is the first of all */
    bool begins, ends;    /* an epoch, with its first or last frame */
    int64_t capture_ns;   /* of the first frame */
    enum clock_source clock;
    int64_t clock_error_ns;
    /* Frames of a record that could not be decoded; equal: none. */
    uint64_t invalid_from, invalid_until;
};

/* The next frames, of one epoch, at most `capacity` > 0; 0: the end. */
uint32_t tradb_read(struct tradb *tradb, uint8_t *frames, uint32_t capacity,
                    struct tradb_part *part);

#endif
