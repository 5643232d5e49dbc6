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
 * Device thread only. Nothing is allocated.
 */
#ifndef CONVOLVD_CONVOLVE_LAUNCH_H
#define CONVOLVD_CONVOLVE_LAUNCH_H

struct engine;
struct slot;

/* Enqueues everything and sets slot->event; without an event the batch is complete. 0 or
 * ERROR_DEVICE, logged. */
int batch_launch(struct engine *engine, struct slot *slot);

#endif
