/*
 * The helper process of one sound card: the same program run again with a hidden argument. It
 * alone talks to PortAudio, so that a card that hangs, disappears or has to be looked for again
 * (PortAudio finds new devices only after Pa_Terminate, which ends every open stream of its
 * process) disturbs nothing but its own stream. One session: open, run, and leave when the device
 * is lost or the daemon closes the control socket.
 *
 *     control socket   daemon → helper: one byte starts the device; one with a descriptor brings
 * other filters for `mode = direct`; its end: leave helper → daemon: one byte for each new state
 * (sound_shared.state) doorbell         eventfd, rung by every callback memory           struct
 * sound_shared filters          with `mode = direct`: what sound/direct.h has packed; else not open
 */
#ifndef CONVOLVD_IO_SOUND_HELPER_H
#define CONVOLVD_IO_SOUND_HELPER_H

/* The hidden argument, and the descriptors the helper is born with. */
#define SOUND_HELPER_ARGUMENT "--sound-helper"
enum { SOUND_MEMORY_FD = 3, SOUND_CONTROL_FD, SOUND_DOORBELL_FD, SOUND_FILTER_FD, SOUND_FDS_END };

/* What the whole process does; the exit status. */
int sound_helper_main(void);

#endif
