/*
 * What the log says of lost devices: each loss with what becomes of its streams, and streams that
 * no device can compute any more.
 *
 * LOOP.
 */
#ifndef CONVOLVD_PIPELINE_TAKEOVER_LOG_H
#define CONVOLVD_PIPELINE_TAKEOVER_LOG_H

#include "pipeline/devices.h"
#include "pipeline/pipelines.h"
#include "stream/move.h"

/* `placement` was lost, and its streams (pipeline.lost_from) have moved or wait. */
void takeover_log_loss(const struct pipelines *pipelines, const struct placement *placement,
                       enum engine_loss cause);
/* Results of the stream were delivered before their device was found to compute wrong. */
void takeover_log_doubt(const struct pipeline *pipeline, const struct doubted *doubted);
/* A device was given up: names the streams that have no other. */
void takeover_log_dead(const struct pipelines *pipelines);
/* A driver hangs while it prepares a plan, but its device is kept for this stream. */
void takeover_log_tied(const struct pipeline *pipeline);

#endif
