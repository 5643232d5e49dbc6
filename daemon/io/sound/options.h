/*
 * Options of the source and the sink `portaudio`: as the configuration gives them, and the request
 * to the card that follows from them. A source and a sink with `duplex = yes` on one card share the
 * source's structure; the sink's checks complete it.
 *
 * The functions run on the thread that builds the configuration, and touch no device.
 */
#ifndef CONVOLVD_IO_SOUND_OPTIONS_H
#define CONVOLVD_IO_SOUND_OPTIONS_H

#include "core/option.h"
#include "io/check.h"
#include "io/sink.h"
#include "io/sound/shared.h"
#include "io/source.h"

enum sound_resample { RESAMPLE_AUTO, RESAMPLE_YES, RESAMPLE_NO };

struct sound_options {
    /* as written */
    const char *device;
    enum sound_api api;
    struct option_values map;
    const struct option_value *period, *round_trip, *latency;
    bool duplex;
    bool allow_conversion;
    enum sound_resample resample_setting;

    /* set by the checks */
    bool proven; /* the section's own checks found no error */
    struct sound_request request;
    bool own;                   /* the card plays the results of what it captures */
    uint64_t latency_frames;    /* of playback, see sink.c; 0: the least that can be kept */
    uint32_t hop_frames;        /* of the stream that is played */
    bool round_trip_given;      /* the configuration gives round_trip_frames */
    uint64_t round_trip_frames; /* from the card's output to its input, for an excitation */
    bool direct_mode;           /* mode = direct */
    bool resample;              /* playback follows the stream's clock, see playback_follow.h */

    /* set when a stream in direct mode is prepared */
    const void *direct; /* the filters, packed (direct.h); NULL: no direct mode */
    size_t direct_bytes;
    bool direct_alone; /* nothing else needs the stream's results: it computes none */
};

enum { SOUND_SOURCE_ROWS = 9, SOUND_SINK_ROWS = 8 };
extern const struct option_row sound_source_rows[SOUND_SOURCE_ROWS];
extern const struct option_row sound_sink_rows[SOUND_SINK_ROWS];

/* The members of struct source_ops and sink_ops. */
int sound_source_check(const struct option_check *check, const struct daemon_facts *facts,
                       struct source_options *options);
void sound_source_check_all(const struct driver_sections *all, uint32_t self);
const char *sound_source_describe(const struct source_options *options, char *text, size_t bytes);
void sound_source_report(const struct source_options *options, FILE *out);
void sound_sink_check(const struct option_check *check, const struct daemon_facts *facts,
                      const struct stream_facts *stream, struct sink_options *options);
void sound_sink_check_all(const struct driver_sections *all, uint32_t self);
void sound_sink_report(const struct sink_options *options, double bytes_per_second, FILE *out);

#endif
