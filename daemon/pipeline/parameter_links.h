/*
 * Parameter links: connect analyses whose events carry values of another stream
 * (parameter_inlet.h) to that stream, by name, whichever pipeline carries it now.
 *
 * Loop thread.
 */
#ifndef CONVOLVD_PIPELINE_PARAMETER_LINKS_H
#define CONVOLVD_PIPELINE_PARAMETER_LINKS_H

#include <stdint.h>

#include "pipeline/pipelines.h"

/* Connects what is not connected, tells analyses which streams are over, and wakes streams that
 * may go on. To be called whenever a pipeline was connected, has ended, or has changed something;
 * costs next to nothing where there is nothing to do. */
void parameter_links_update(struct pipelines *pipelines);

/* `leaving` leave the registry: nobody holds ports for their analyses any more. */
void parameter_links_remove(struct pipelines *pipelines, struct pipeline *const *leaving,
                            uint32_t count);

#endif
