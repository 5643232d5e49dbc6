/*
 * Filters: one typed description of every kind of filter that a configuration can name, and the one
 * function that turns it into taps: read from a file, designed, matched to a replica, a velocity
 * filter of a line array, or the identity. One rule gives the delay (enum delay_source): known by
 * construction, else the user's, else (S-1)/2 when the taps are symmetric, else 0 with a warning.
 *
 * Worker threads; pure functions.
 */
#ifndef CONVOLVD_FILTER_FILTER_H
#define CONVOLVD_FILTER_FILTER_H

#include <stdbool.h>
#include <stdint.h>

#include "core/error.h"
#include "filter/design.h"
#include "filter/fk.h"
#include "filter/replica.h"
#include "filter/response.h"
#include "filter/taps.h"

/* The values of the key `type`, with the part of filter_spec they use. */
#define FILTER_TYPE_TABLE(X)                                                                       \
    X(LOWPASS, "lowpass")       /* design */                                                       \
    X(HIGHPASS, "highpass")     /* design */                                                       \
    X(BANDPASS, "bandpass")     /* design */                                                       \
    X(BANDSTOP, "bandstop")     /* design */                                                       \
    X(FILE, "file")             /* path */                                                         \
    X(CHIRP, "chirp")           /* replica */                                                      \
    X(TONE_BURST, "tone-burst") /* replica */                                                      \
    X(BARKER, "barker")         /* replica */                                                      \
    X(GOLAY, "golay")           /* replica */                                                      \
    X(REPLICA, "replica")       /* replica, path */                                                \
    X(IDENTITY, "identity")     /* nothing */                                                      \
    X(FK, "fk")                 /* fk: one set of taps for each distance of two channels */

enum filter_type {
#define X(name, text) FILTER_##name,
    FILTER_TYPE_TABLE(X)
#undef X
        FILTER_TYPES,
};

/* NULL past the end of the table. */
const char *filter_type_name(int type);

/* True for chirp, tone-burst, barker, golay and replica / for the four bands. */
bool filter_type_is_matched(enum filter_type type);
bool filter_type_is_design(enum filter_type type);

/*
 * What the keys of a [filter NAME] section say. Fill with filter_defaults, then set what is
 * given; numbers that are not given stay 0 (delays: NaN). design.band, replica.kind,
 * replica.path and the two `analytic` inside follow from type, path and analytic: filter_make
 * sets them itself.
 */
struct filter_spec {
    enum filter_type type;
    const char *path;    /* file, replica; borrowed */
    bool analytic;       /* bandpass and all matched ones */
    double gain;         /* factor on all taps, default 1; not 0 */
    double delay_frames; /* `delay` in frames; NaN: not given */
    double delay_s;      /* `delay` as a time; NaN: not given */
    struct design_spec design;
    struct replica_spec replica;
    struct fk_spec fk; /* fk.channels is the stream's: config_filter_spec */
};

void filter_defaults(struct filter_spec *spec, enum filter_type type);

/* Everything about one set of taps. */
struct filter_measure {
    struct response response;
    struct matched_measure matched; /* all NaN unless filter_type_is_matched */
    bool analytic;                  /* the taps are complex */
    char warning[512];              /* "" or what the log and the report should say */
};

/* Ranges and combinations, without files and without designing: 0 or ERROR_CONFIG; the sentence
 * begins with the key at fault and a colon. */
int filter_check(const struct filter_spec *spec, double rate_hz, struct problem *problem);

/*
 * Makes the taps for a stream of rate_hz. *count is 1 (shared by all channels), the number of
 * channels of the file, or 2M - 1 for fk (fk_set says which). All sets have one delay. `measure`
 * (may be NULL) describes the first set; further ones: filter_measure_set. Log its warning. Free
 * with taps_sets_free.
 */
int filter_make(const struct filter_spec *spec, double rate_hz, struct taps ***sets,
                uint32_t *count, struct filter_measure *measure, struct problem *problem);

/* Measures one set made by filter_make. */
int filter_measure_set(const struct filter_spec *spec, double rate_hz, const struct taps *taps,
                       struct filter_measure *measure, struct problem *problem);

/* True when the filter's output is complex (envelope, complex and real outputs differ). Files:
 * false here, known only once read. */
bool filter_is_complex(const struct filter_spec *spec);

#endif
