/*
 * One simulated acquisition device: a signal cut into packets, on a time line of its own with
 * records, pauses, restarts and frames skipped, through faults to a sender. Several run side by
 * side in one process, interleaved by the times their packets are due.
 *
 *     signal frame   0 … record … | record … |        what was acquired, numbered without pauses
 *     time line      0 … record … pause record …      what time stamps and pacing count
 *
 * One owner.
 */
#ifndef CONVOLV_TOOLS_RIG_H
#define CONVOLV_TOOLS_RIG_H

#include <stdbool.h>
#include <stdint.h>

#include <jansson.h>

#include "convolv.h"
#include "core/error.h"
#include "rig_faults.h"
#include "rig_signal.h"

enum { RIG_PLACES_MAX = 64 };

/* Something that happens at a signal frame; `frames` where it needs a length. */
struct rig_place {
    uint64_t frame, frames;
};

struct rig_options {
    struct convolv_sender_options sender;
    struct faults_options faults;
    double full_scale;          /* for --write: value of code 1.0 */
    uint64_t frames;            /* signal frames to send; UINT64_MAX: to the signal's end */
    uint64_t packet_frames_min; /* sizes are drawn from here to the sender's packet size; 0: always
                                   full */
    uint64_t record_frames;     /* marker and a pause after so many; 0: no records */
    uint64_t pause_frames;
    struct rig_place restarts[RIG_PLACES_MAX], skips[RIG_PLACES_MAX], forgeries[RIG_PLACES_MAX];
    unsigned restart_count, skip_count, forgery_count;
    bool preload;           /* encode the whole signal before the first packet */
    const char *write_path; /* .npy of what was acquired, as the wire carries it; NULL: none */
};

struct rig;

/* Takes the signal over, also on error. */
int rig_open(const struct rig_options *options, struct rig_signal *signal, struct rig **out,
             struct problem *problem);
void rig_close(struct rig *rig); /* NULL is fine */

bool rig_finished(const struct rig *rig);

/* Time line frames at the end of the next packet: it is due when its last frame has been acquired.
 */
uint64_t rig_next_frame(const struct rig *rig);

/* Signal frames sent so far. */
uint64_t rig_frames(const struct rig *rig);

/* Sends the next packet (queues it: rig_flush hands it over). */
int rig_step(struct rig *rig, struct problem *problem);
void rig_flush(struct rig *rig);
/* The same, with what faults hold back for reordering. */
void rig_release(struct rig *rig);

/* After the last packet: sends what faults hold back and completes files. */
int rig_finish(struct rig *rig, struct problem *problem);

/* A new reference. */
json_t *rig_ledger_json(const struct rig *rig);

#endif
