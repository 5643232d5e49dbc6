/*
 * A batch becomes launches. Items are taken in rounds (a plan that keeps state appears once a
 * round); within a round the steps run in order (first the stages that rebuild state, then
 * every stage), and each step is one launch for all plans whose stages are alike: their rows
 * lie side by side in TABLE.
 *
 *     item A ┐ rebuild ─► stage 0 ─► stage 1 ─► …      (in-order queue)
 *     item B ┘
 *
 * On a device with memory of its own, batches whose plans keep nothing there take turns on two
 * queues while several run: the first groups of the next batch then fill what the last groups of
 * the one before leave free, and no pause lies between their kernels (6 us on an H100). All others
 * stay on the first queue. Copies come before what reads them all the same (mirror.h), results
 * leave through one queue, and batches are handed back in the order of their launches.
 *
 * There, a batch whose plans all run on the host (plan_info.on_host) enqueues nothing and is
 * complete when its stages return. In a batch of both kinds the host's results are copied to the
 * device.
 *
 * A batch in parts (parts.h) is cut into pieces of these launches. Where host and device share
 * their memory it has the second queue, so that a part of few work-groups leaves idle threads of
 * the device to the batches that overtake it.
 *
 * Device thread only. Nothing is allocated.
 */
#ifndef CONVOLVD_CONVOLVE_LAUNCH_H
#define CONVOLVD_CONVOLVE_LAUNCH_H

struct engine;
struct slot;

/* Enqueues everything and sets slot->event; without an event the batch is complete. 0 or
 * ERROR_DEVICE, logged. */
int batch_launch(struct engine *engine, struct slot *slot);

/* The same for the next part of the batch in parts, engine->parted, of which batch_launch enqueues
 * the first; the part before must be complete. parts_left(&engine->parts) says whether there is
 * one. */
int batch_launch_part(struct engine *engine, struct slot *slot);

#endif
