/*
 * Analyses: what a filtered stream says, as events with their features. A type of analysis (hits,
 * intervals, location, ascan, vibration) is one file and one row in the table of analyses.c: it
 * exports a struct analysis_ops with its name, its option rows, its checks, its functions and the
 * fields of its events.
 *
 *     run (or an event of another analysis) ──► put ──► emit(event) ──► sinks, other analyses
 *
 * Objects are pure: they read no clock and open no socket or file, and what they emit depends on
 * the samples and the configuration alone, to the last bit, for any cut of the frames into runs. So
 * sums are taken in double, in the order of frames. State is per channel and epoch; nothing crosses
 * an epoch. All memory is taken in `open`; `put` allocates nothing.
 *
 * One thread at a time, except where a function says otherwise.
 */
#ifndef CONVOLVD_ANALYSIS_ANALYSIS_H
#define CONVOLVD_ANALYSIS_ANALYSIS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#include "analysis/run.h"
#include "core/codec.h"
#include "core/error.h"
#include "core/level.h"
#include "core/option.h"

/* ---- events ------------------------------------------------------------------------------ */

/*  name, word, what it is */
#define ANALYSIS_EVENT_TABLE(X)                                                                    \
    X(HIT, "hit", "a burst on one channel above the threshold")                                    \
    X(INTERVAL, "interval", "what one channel did in frames [kI, (k+1)I)")                         \
    X(SOURCE, "source", "where the hits of several channels came from")                            \
    X(ASCAN, "ascan", "an averaged A-scan with the echoes in its gates")                           \
    X(CONDITION, "condition", "vibration values and bearing indicators")                           \
    X(COUPLING, "coupling", "how loud one sensor hears the pulse of another")

enum analysis_event_kind {
#define X(name, word, sentence) ANALYSIS_##name,
    ANALYSIS_EVENT_TABLE(X)
#undef X
        ANALYSIS_EVENT_KINDS,
};

const char *analysis_event_word(enum analysis_event_kind kind);

/* Flags of an event; the numbers are those of Vallen's Status column where it has one. */
enum analysis_flags {
    ANALYSIS_TIMEOUT = 1,    /* a hit ended at `max duration` */
    ANALYSIS_SATURATED = 16, /* an input code at 95 % of full scale in the frames it rests on */
    ANALYSIS_PULSE = 64,     /* it answers a pulse that somebody has marked */
    ANALYSIS_AFTER_TIMEOUT = 256,    /* the hit began on the frame after a timeout */
    ANALYSIS_CUT = 1 << 16,          /* ended by the epoch's end or an invalid frame; see causes */
    ANALYSIS_EDGE = 1 << 17,         /* began above the threshold behind such an end */
    ANALYSIS_AMBIGUOUS = 1 << 18,    /* a second place fits the arrival times as well */
    ANALYSIS_INCOMPLETE = 1 << 19,   /* rests on fewer frames than it should: some were invalid */
    ANALYSIS_NO_PARAMETER = 1 << 20, /* a parameter is not known at its frame or instant */
};

/* The word of one flag, "timeout"; NULL: there is no such flag. */
const char *analysis_flag_word(uint32_t flag);

/* Parameters that a user writes; with the age and the error bound of each that comes from another
 * stream. */
enum { ANALYSIS_PARAMETERS_WRITTEN = 8, ANALYSIS_PARAMETERS_MAX = 3 * ANALYSIS_PARAMETERS_WRITTEN };

struct analysis_event {
    enum analysis_event_kind kind;
    /* A hit comes twice: at once, when it ends, and again `ordered`, once no open or possible hit
     * of any channel begins before it. Consumers take one or the other. Other kinds come once,
     * ordered. */
    bool ordered;
    uint64_t number; /* of this analysis and kind: 1, 2, …; both times the same */
    uint32_t channel;
    uint64_t epoch, record;
    uint64_t frame;     /* first frame of it, in the epoch */
    int64_t capture_ns; /* realtime, of that frame */
    enum clock_source clock;
    int64_t clock_error_ns;
    double delay_frames; /* 0 where the frames are aligned */
    int64_t arrival_ns;  /* capture_ns − delay_frames / rate */
    uint32_t flags;      /* enum analysis_flags */
    uint32_t causes;     /* 1 << enum invalid_cause, of CUT, EDGE and INCOMPLETE */
    /* Load, pressure, temperature … at that frame, as configured; NAN: not known. */
    double parameters[ANALYSIS_PARAMETERS_MAX];
    uint32_t parameter_count;
    /* The structure of its kind (struct hit, struct interval …), without pointers in it. */
    const void *body;
    size_t body_bytes;
    /* A hit's transient, an A-scan's trace, a spectrum; NULL: none. first_sample: frames from
     * `frame` to samples[0], negative for a pre-trigger. */
    const float *samples;
    uint32_t sample_count;
    int64_t first_sample;
};

/* ---- fields ------------------------------------------------------------------------------ */

enum analysis_field_type {
    ANALYSIS_DOUBLE, /* NAN: undefined; null in JSON, empty in CSV */
    ANALYSIS_UINT32,
    ANALYSIS_UINT64,
};

/* One value of an event's body, for CSV, JSON, OSC, .trfdb, the page and the manual alike. */
struct analysis_field {
    const char *name; /* carries the unit: "rise_us", "energy_eu" */
    const char *unit; /* "us", "eu", "dB"; NULL: that of the channel; "": a plain number */
    enum analysis_field_type type;
    size_t offset;        /* in the body */
    uint32_t repeat;      /* so many values in a row, named NAME_1, NAME_2 …; 0: one */
    const char *sentence; /* what it is, with its formula in a few words */
};

/* ---- options ----------------------------------------------------------------------------- */

/* The stream whose results are analysed. Immutable while the analysis lives. */
struct analysis_stream {
    const char *name;
    double rate_hz; /* of the output */
    uint32_t channels;
    const char *const *units; /* [channels] */
    double delay_frames;
    double bandwidth_hz; /* of the narrowest designed filter of its edges; 0: not known */
    bool aligned;
    bool records;                    /* each epoch is a record, with its number */
    bool envelope;                   /* the samples are magnitudes: `output = envelope` */
    bool excited;                    /* the pulse of an active measurement is known: */
    double excitation_frame;         /* of each epoch: when it is sent, before the filter's delay */
    double excitation_period_frames; /* from one to the next; 0: one in an epoch */
    uint32_t taps_longest;           /* S, in frames of the output, rounded up */
    const char *taps_hash, *config_hash;
    const double *preamp_db;  /* [channels], of the first input of each; for files */
    const double *full_scale; /* [channels], at the sensor, in `units`; 0: not known */
    const double *step;       /* [channels] of the converter, likewise; NULL: of none */
};

/* Unit, full scale and step of a channel, for level_read. */
static inline struct level_scale analysis_scale(const struct analysis_stream *stream,
                                                uint32_t channel)
{
    return (struct level_scale){stream->units[channel],
                                stream->full_scale != NULL ? stream->full_scale[channel] : 0,
                                stream->step != NULL ? stream->step[channel] : 0};
}

/* What all analyses have. The options of the type stand behind `own`. */
struct analysis_options {
    const char *name;
    struct analysis_stream stream;
    const struct analysis_options *upstream; /* the analysis whose events it takes; NULL: frames */
    const char *const *parameters;           /* [parameter_count] names of those in events */
    uint32_t parameter_count;                /* at most ANALYSIS_PARAMETERS_MAX */
    uint32_t parameter_values; /* the first so many are values; behind them age and error bound of
                                  each that comes from another stream, in their order */
    const uint32_t *parameter_channels;   /* [parameter_values] that carry them; NULL: events of
                                             `upstream` do */
    const char *const *parameter_streams; /* [parameter_values] of those channels; a NULL among
                                             them: this stream; NULL: all are */
    int64_t parameter_age_ns;             /* the oldest value of another stream that counts */
    void *own;                            /* the type's struct, analysis_ops.options_bytes */
    /* Called inside `put`; what the event points to is valid until it returns. */
    void (*emit)(void *context, const struct analysis_event *event);
    /* Called inside `put`, behind its events, for those that take the events of this analysis: no
     * ordered event that follows has an `epoch` and a `frame` before these. Never goes back;
     * UINT64_MAX: the epoch has ended. NULL: nobody needs it. */
    void (*advance)(void *context, uint64_t epoch, uint64_t frame);
    void *context;
};

/* What it has counted. frames = live + dead at every instant. */
struct analysis_ledger {
    uint64_t frames, live, dead;
    uint64_t events[ANALYSIS_EVENT_KINDS]; /* emitted, ordered ones only */
    uint64_t at_once;                      /* emitted at once and not ordered yet */
    uint64_t limited;                      /* the stage's: outside the limits of `keep` */
    uint64_t unordered; /* hits emitted at once only: no room behind an open one */
    uint64_t untraced;  /* hits emitted in order without their transient: likewise */
    uint64_t unlocated; /* sources with enough hits and no place within the extent */
    uint64_t unused;    /* events taken that became part of nothing: second hits, echoes */
};

struct json_t;
struct analysis; /* the type's own */

struct analysis_ops {
    const char *name;     /* the config's `type = NAME` */
    const char *sentence; /* what it is, in a few words of the manual */
    bool of_events;       /* takes the events of another analysis, in order, and no frames */
    enum analysis_event_kind takes; /* with of_events */
    enum analysis_event_kind emits;

    const struct option_row *options;
    unsigned option_count;
    size_t options_bytes;
    /* Holds the options against each other and against the stream. NULL: nothing to check. */
    void (*check)(const struct option_check *check, struct analysis_options *options);
    /* The lines of `--check` behind the analysis' name; the first says what it does, the others
     * begin with 19 spaces. */
    void (*report)(const struct analysis_options *options, FILE *out);
    /* Frames of the stream that one whole result takes; 0: none is fixed. NULL: as 0. */
    uint64_t (*result_frames)(const struct analysis_options *options);
    /* What viewers want to know of the settings, as a JSON object, the caller's: thresholds in the
     * channel's unit, sensors, gates, lines. May be NULL. */
    struct json_t *(*describe)(const struct analysis_options *options);
    /* Any thread: the most memory that it holds [bytes]. */
    uint64_t (*memory)(const struct analysis_options *options);
    /* Any thread: the frames before a run that it reads. NULL: none. */
    uint64_t (*history)(const struct analysis_options *options);
    /* The fields of the events' bodies. Any thread; lives as long as the options. */
    const struct analysis_field *(*fields)(const struct analysis_options *options, uint32_t *count);

    /* 0, ERROR_MEMORY, or an error with its reason. */
    int (*open)(const struct analysis_options *options, struct analysis **out,
                struct problem *problem);
    void (*put)(struct analysis *analysis, const struct analysis_run *run);      /* of frames */
    void (*put_event)(struct analysis *analysis, const struct analysis_event *); /* of events */
    /* What the analysis whose events it takes has said through `advance`: so a source is told of
     * when its last hit may have come, not when the next one does. With of_events. */
    void (*advance)(struct analysis *analysis, uint64_t epoch, uint64_t frame);
    /* The first live frame of a run, and when it was: a head without number, body and samples. It
     * comes before the events that the run leads to; those of the epoch's first run come before all
     * of its events. Where a queue is full it may be missing. With of_events; NULL: it is of no
     * interest. */
    void (*live)(struct analysis *analysis, const struct analysis_event *head);
    /* Somebody has noted something, at a frame as the events are numbered. It comes before or
     * behind events of frames near it. With of_events; NULL: it is of no interest. */
    void (*mark)(struct analysis *analysis, uint64_t epoch, uint64_t frame, const char *text);
    void (*ledger)(const struct analysis *analysis, struct analysis_ledger *ledger);
    /* All of its state, to write, to count or to read (codec.h); history is the caller's. After
     * reading, an analysis opened with equal options goes on as if it had taken all frames itself.
     * False: what was read is no state of such an analysis, which is then to be closed. */
    bool (*walk)(struct analysis *analysis, struct codec *codec);
    void (*close)(struct analysis *analysis); /* NULL is fine */
};

/* The table in order; NULL past its end. */
const struct analysis_ops *analysis_at(int index);

#endif
