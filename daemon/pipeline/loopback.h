/*
 * Loopback: `convolvd --measure-loopback` finds the round trip of every duplex card of a
 * configuration, and keeps it per card, host API and rate in loopback.json of the cache directory;
 * a stream that captures from such a card declares it from then on (see `round trip` in the table
 * of keys).
 *
 * Main or worker threads; the file is replaced whole, by a rename.
 */
#ifndef CONVOLVD_PIPELINE_LOOPBACK_H
#define CONVOLVD_PIPELINE_LOOPBACK_H

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>

#include "io/sound/card.h"
#include "config/config.h"

/* What is kept of one card. */
struct loopback_entry {
    uint64_t frames;
    uint32_t period_frames; /* with another one it is another round trip */
    char measured[32];      /* UTC */
};

int loopback_measure(const struct config *config, FILE *out, struct problem *problem);

/* False when it has not been measured (or there is no place to keep it). */
bool loopback_find(const char *directory, const struct sound_request *request,
                   struct loopback_entry *entry);
/* 0 or ERROR_SYSTEM. */
int loopback_keep(const char *directory, const struct sound_request *request,
                  const struct loopback_entry *entry, struct problem *problem);

/*
 * The round trip that a stream declares, in frames: `round trip` of the configuration, else what
 * was measured, else 0. Only where it means something: on a duplex card that plays an excitation,
 * not its own results. *measured (may be NULL): it comes from the file.
 */
uint64_t loopback_declared(const struct config *config, const struct config_stream *stream,
                           struct loopback_entry *measured);

#endif
