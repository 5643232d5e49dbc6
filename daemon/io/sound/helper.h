/*
 * Helper process of one sound card: the same program, started again with a hidden argument. Only
 * helpers call PortAudio, so a card that hangs or disappears disturbs no stream but its own.
 * (PortAudio also finds new devices only after Pa_Terminate, which ends every stream of a process.)
 * A helper runs one session: it opens the device, runs it, and exits when the device is lost or the
 * daemon closes the control socket.
 *
 * It is started with these descriptors:
 *
 *     memory     struct sound_shared and the rings
 *     control    socket. Daemon → helper: one byte starts the device; one byte with a descriptor
 *                brings other filters for `mode = direct`; its end tells the helper to exit.
 *                Helper → daemon: one byte after each change of sound_shared.state
 *     doorbell   core/doorbell.h, rung by every callback
 *     filters    with `mode = direct`: the filters packed by direct.h; else /dev/null
 */
#ifndef CONVOLVD_IO_SOUND_HELPER_H
#define CONVOLVD_IO_SOUND_HELPER_H

/* The hidden argument, and the descriptors. */
#define SOUND_HELPER_ARGUMENT "--sound-helper"
enum { SOUND_MEMORY_FD = 3, SOUND_CONTROL_FD, SOUND_DOORBELL_FD, SOUND_FILTER_FD, SOUND_FDS_END };

/* Runs the process; returns or exits with its exit status. */
int sound_helper_main(void);

#endif
