/*
 * Parameters: load, pressure or temperature, which comes as another channel of the same stream and
 * is stamped into events. (What comes from another stream is pipeline/parameter_inlet.h's; only its
 * option is read here.)
 *
 * The value of an event at frame a is the sample at frame step · ⌊a / step⌋ of its epoch, in the
 * unit of that channel; a step is one millisecond, rounded up to whole frames. It is NAN where that
 * frame is invalid or was never analysed. So it depends on the frames alone, however they are cut
 * into runs; only an event that is told of more than PARAMETER_STEPS / 2 steps after its first
 * frame may lack its value.
 *
 * All memory is taken in `open` and touched when used. One thread at a time.
 */
#ifndef CONVOLVD_ANALYSIS_PARAMETERS_H
#define CONVOLVD_ANALYSIS_PARAMETERS_H

#include <stdbool.h>
#include <stdint.h>

#include "analysis/analysis.h"
#include "core/option.h"

enum { PARAMETER_STEPS = 1 << 18, PARAMETER_NAME = 32, PARAMETER_STREAM = 128 };

/* ---- options ------------------------------------------------------------------------------- */

/* What is written: "load 5", or "load 5 of press" from another stream. */
struct parameter {
    char name[PARAMETER_NAME];
    uint32_t channel;              /* from 0 */
    char stream[PARAMETER_STREAM]; /* empty: the stream that is analysed */
};

/* An option_row.parse. */
#define PARAMETER_WORDS "NAME CHANNEL [of STREAM]"
int parameter_option(const struct option_row *row, const char *text, struct option_value *value,
                     struct problem *problem);
/* False: it is none. */
bool parameter_parse(const char *text, struct parameter *out);

/* ---- values -------------------------------------------------------------------------------- */

struct parameter_track;

/* Whether some parameter comes from a channel of the stream that is analysed. */
bool parameter_track_wanted(const struct analysis_options *options);
/* Of options->parameter_channels. 0 or ERROR_MEMORY. */
int parameter_track_open(const struct analysis_options *options, struct parameter_track **out);
void parameter_track_close(struct parameter_track *track); /* NULL is fine */
/* Any thread: the most memory that one holds [bytes]; 0: there are no parameters. */
uint64_t parameter_track_memory(const struct analysis_options *options);

/* The next run, before it is analysed. */
void parameter_track_put(struct parameter_track *track, const struct analysis_run *run);
/* No event that follows begins before this frame (analysis_options.advance). */
void parameter_track_forget(struct parameter_track *track, uint64_t epoch, uint64_t frame);
/* Fills the event's parameters; those of other streams become NAN. */
void parameter_track_stamp(const struct parameter_track *track, struct analysis_event *event);

/* False: what was read is no such track. */
bool parameter_track_walk(struct parameter_track *track, struct codec *codec);

#endif
