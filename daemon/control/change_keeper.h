/*
 * Changes of a stream that another daemon may go on with (io/keeper.h): who may make them, how
 * frames are numbered, and settings as the log carries them.
 *
 * Loop thread.
 */
#ifndef CONVOLVD_CONTROL_CHANGE_KEEPER_H
#define CONVOLVD_CONTROL_CHANGE_KEEPER_H

#include <stdbool.h>
#include <stdint.h>

#include "cluster/setting.h"
#include "control/change_plans.h"
#include "io/keeper.h"

/* How changes of the stream number frames: all zero where no other daemon goes on with it. 0, or
 * ERROR_UNSUPPORTED: it takes no changes here and now. */
int change_keeper_frames(const struct pipeline *pipeline, struct keeper_frames *frames,
                         struct problem *problem);
/* The earliest output frame that a change can have, as its request numbers it. */
uint64_t change_keeper_next(const struct pipeline *pipeline, const struct keeper_frames *frames);
/* Whether the next change may be exchanged. */
bool change_keeper_settled(const struct pipeline *pipeline);

/* As the log carries it. */
void change_keeper_write(const struct pipeline *pipeline, const struct change_setting *setting,
                         struct setting *out);
/* Whether it can be read: the configuration has its filter, and as many outputs. */
bool change_keeper_knows(const struct pipeline *pipeline, const struct setting *setting);
/* Of one that the stream knows; `out` is opened. */
void change_keeper_read(const struct pipeline *pipeline, const struct setting *setting,
                        struct change_setting *out);

/* Up to where results depend on a change just exchanged: sets epoch, frame, until and since. */
struct stream_change;
void change_keeper_reach(const struct pipeline *pipeline, const struct keeper_frames *frames,
                         const struct stream_change *change, uint64_t frame,
                         struct setting_change *out);

#endif
