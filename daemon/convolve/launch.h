/*
 * A batch becomes launches. Items are taken in rounds (a plan that keeps state appears once a
 * round); within a round the steps run in order (first the stages that rebuild state, then
 * every stage), and each step is one launch for all plans whose stages are alike: their rows
 * lie side by side in TABLE.
 *
 *     item A ┐ rebuild ─► stage 0 ─► stage 1 ─► …      (in-order queue)
 *     item B ┘
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
