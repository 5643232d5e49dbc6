/*
 * The configuration: an immutable value. A file (and its conf.d/ fragments) is read once,
 * proven, and becomes a struct config whose fields need no further checks: names resolved to
 * indices, units converted, lists spread over channels, chains ordered. Start, reload and
 * stop work from it and never read text again.
 *
 *     text ── inih ──► entries ── schema ──► typed values ── build ──► struct config
 *                         └──────────┴────────────┴── struct config_errors (all of them)
 *
 * Any one thread at a time (workers, tests); the value may be read by all.
 */
#ifndef CONVOLVD_CONFIG_CONFIG_H
#define CONVOLVD_CONFIG_CONFIG_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#include "alarm/alarm.h"
#include "analysis/analysis.h"
#include "analysis/limits.h"
#include "config/errors.h"
#include "convolve/engine.h"
#include "core/digest.h"
#include "core/error.h"
#include "core/log.h"
#include "io/event_sink.h"
#include "io/sink.h"
#include "io/source.h"
#include "filter/filter.h"
#include "wire/format.h"

enum { CONFIG_HASH_TEXT = DIGEST_TEXT, CONFIG_CHANNELS_MAX = 1024 };

/* ---- the value --------------------------------------------------------------------------- */

struct config_daemon {
    enum log_level log_level;
    const char *runtime_directory; /* SDP files of sinks without a path of their own; NULL: none */
    bool runtime_of_user;          /* it is $XDG_RUNTIME_DIR, which other programs use too */
    const char *state_directory;   /* wisdom, binary cache below it; NULL: none */
    bool status_on_exit;           /* print the table when stopping */
    const char *status_json;       /* file for the table as JSON; NULL: none */
    int64_t drain_ns;              /* SIGTERM: longest time to flush tails and files */
    int64_t prepare_ns;            /* longest time of one step of preparing a stream */
};

struct config_device {
    const char *device; /* DEVICE_ALL, DEVICE_AUTO, or a list of "cpu", "gpu", index or part of a
                           name, best first */
    int threads;        /* CPU devices; 0: the service decides */
    struct node_setting node;
    uint32_t loops;          /* that run streams beside the main one; 0: it runs them all */
    const char *kernels_dir; /* NULL: embedded */
    const char *cache_dir;   /* NULL: none */
    uint32_t batches, depth; /* 0: the engine's choice */
    int64_t deadline_ns;     /* 0: the engine's choice */
    int64_t self_check_ns;   /* one block of each stream is computed again so often; 0: never */
    uint64_t input_bytes, spectrum_bytes, state_bytes; /* 0: the engine's choice */
    uint64_t batch_output_floats;                      /* 0: the engine's choice */
};

struct config_osc {
    bool used;               /* [osc] is written, or a stream or sink has to do with it */
    const char *address;     /* UDP */
    const char *tcp_address; /* NULL: none */
    const char *const *allow, *const *trust; /* [allow_count], [trust_count] networks */
    const char *const *control;              /* [control_count]; NULL: this machine and `trust` */
    uint32_t allow_count, trust_count, control_count;
    int64_t lease_ns, tcp_timeout_ns, tcp_idle_ns;
    uint64_t receive_buffer_bytes;
};

struct config_cluster {
    const char *servers, *name;
    const char *identity;         /* NULL: host and instance */
    const char *credentials, *ca; /* files; NULL: none */
    int64_t lease_ns;
    double capacity;
};

struct config_filter {
    const char *name;
    struct config_place place;
    struct filter_spec spec; /* strings owned by the config */
    bool used;               /* some stream's edge names it */
};

/* input channel → filter → gain → output; indices from 0. */
struct config_edge {
    uint16_t input;  /* channel of the stream */
    uint16_t output; /* output of the stream */
    uint16_t filter; /* index into config.filters; of its sets of taps the one of the input
                        channel is meant when it has several, else its only one */
    float gain;      /* factor; negative inverts */
};

/* The word for every device, each stream on the one with the least load. */
#define DEVICE_ALL "all"

/* The word for the best device on which the engine opens. */
#define DEVICE_AUTO "auto"

struct config_stream {
    const char *name;
    struct config_place place;

    const struct source_ops *driver; /* of the source; NULL: a chain */
    int upstream;                    /* index of the stream whose output is the source; -1: none */
    bool live; /* samples come whether we are ready or not (a chain: as its first stream) */
    bool loss_detectable; /* the same */
    /* Filled whole; in a chain only stream, rate, channels, format, frame_bytes. */
    struct source_options source;
    const struct channel_scale *scales; /* [source.channels] */
    bool converter; /* its codes have a full scale, at which a converter saturates */

    const struct config_edge *edges;
    uint32_t edge_count;
    const enum output_form *outputs; /* [output_count] */
    uint32_t output_count;
    uint32_t output_floats; /* of one output frame: complex outputs have two */
    struct result_format
        results;              /* what all that take its results want of them; all zero: floats */
    const char *const *units; /* [output_floats]: the unit of each float */

    uint32_t hop_frames; /* L */
    bool hop_free;       /* chosen for latency_ns; wisdom may choose another */
    int64_t latency_ns;  /* first frame of a block received → result, wanted; 0: any */
    uint32_t blocks_max; /* largest J of one batch */
    uint32_t fft;        /* N; 0: chosen by rule */
    const char *variant; /* NULL: chosen by rule */
    const char
        *device;       /* as config_device.device; NULL: that of the stream it reads, or that one */
    bool tail;         /* the S-1 frames after an epoch's end follow */
    bool align;        /* the delay is applied to frame numbers and times */
    uint32_t decimate; /* D: one of D output frames is kept; at least 1 */
    uint32_t
        decimate_total; /* the same from the first stream of the chain on, at most DECIMATE_MAX */
    double output_rate_hz; /* of the results: source.rate_hz / decimate */
    int64_t idle_flush_ns; /* a silent source's partial block is processed after this */
    int64_t deadline_ns;   /* last frame received → result handed out; later counts as a miss */
    uint8_t priority;      /* the highest of its own and those of the streams that read it */
    uint64_t ring_frames;  /* stream_options.ring_frames_min; 0: by rule */
    /* For alarms; a reload changes them while the stream runs. */
    int64_t flat_ns;           /* equal codes of this duration raise one; 0: none */
    const double *noise_floor; /* [source.channels], 0: not known; NULL: none is */
    const bool *unused;        /* [source.channels]; NULL: all are used */
    bool full_scale; /* an analysis of it, or of one that reads it, is to know which results rest on
                        inputs near full scale */
    char hash[CONFIG_HASH_TEXT]; /* of all it is made of: its section, its filters with the contents
                                    of their files, its sinks, the stream it reads */
};

struct config_sink {
    const char *name;
    struct config_place place;
    const struct sink_ops *driver;
    uint32_t stream;             /* index into config.streams */
    struct sink_options options; /* but for most of .stream, which the running stream knows */
};

struct config_analysis {
    const char *name;
    struct config_place place;
    const struct analysis_ops *type;
    uint32_t stream; /* index into config.streams: the one that it analyses in the end */
    int upstream;    /* index into config.analyses of the one whose events it takes; -1: none */
    char hash[CONFIG_HASH_TEXT]; /* of its section, and of the analysis whose events it takes */
    uint64_t queue_bytes;        /* 0: by rule */
    const struct analysis_limit *limits; /* [limit_count]: events that hold all of them leave it */
    uint32_t limit_count;
    struct analysis_options
        options; /* without emit, and with those of .stream that are configured */
    const uint32_t *parameter_streams; /* [options.parameter_values] indices of the streams that
                                          they come from; NULL: those of `upstream`, or none */
};

/* A sink that takes the events of an analysis. */
struct config_event_sink {
    const char *name;
    struct config_place place;
    const struct event_sink_ops *driver;
    uint32_t analysis; /* index into config.analyses */
    struct event_sink_options options;
};

/* Unit, full scale and step of an input channel at the sensor, for levels; 0 without a converter.
 */
struct level_scale config_level_scale(const struct config_stream *stream, uint32_t channel);

/* The alarms that need no section: `flat line` and `noise floor` of a stream. */
#define ALARM_NAME_FLAT  "flat-line"
#define ALARM_NAME_NOISE "noise-floor"

struct config_alarm {
    const char *name;
    struct config_place place;
    uint32_t stream;  /* index into config.streams */
    int32_t analysis; /* index into config.analyses: what it watches; -1: the stream */
    enum alarm_quantity quantity;
    const char *figure;     /* the quantity as written: "level", "peak_db", "sum energy_eu" */
    struct alarm_rule rule; /* limits in `unit`, Hz, s, or plain numbers */
    int64_t within_ns;
    const bool *channels; /* [channel_count]: those it watches; NULL: the whole */
    uint32_t channel_count;
    bool amplitude;   /* the figure is one in the channels' unit */
    bool decibels;    /* the figure is a level in dB */
    const char *unit; /* of level and fields: that of the channels; else of the quantity, "" for
                         numbers */
    bool exec;
};

/* A file, folder or address that the configuration names, for checks of the world around it. */
struct config_path {
    const char *path; /* with its folder; of an address its text */
    const char *key;
    struct config_place place;
    bool written, folder; /* else read; a file */
    bool received;        /* an address that a stream receives from */
};

/* A setting that cannot change while the daemon runs. */
struct config_fixed {
    const char *section, *key; /* key "": the section as a whole */
    char hash[CONFIG_HASH_TEXT];
};

/* The files that override the main file PATH, in the order in which they were read. */
struct config_fragments {
    const char *folder; /* PATH.d; NULL: the configuration was read from memory */
    const char *const *paths;
    unsigned count;
    const char *former;    /* the folder conf.d, where it was read too; NULL: it was not */
    unsigned former_count; /* how many of `paths`, from the start */
    const char *move;      /* the command that gives `former` its new name */
};

struct config {
    struct config_daemon daemon;
    struct config_device device;
    struct config_osc osc;
    struct config_cluster cluster;
    const struct config_stream *streams; /* a chain's stream stands after the one it reads */
    uint32_t stream_count;
    const struct config_filter *filters;
    uint32_t filter_count;
    const struct config_sink *sinks;
    uint32_t sink_count;
    const struct config_analysis
        *analyses; /* one of events stands after the one it takes them of */
    uint32_t analysis_count;
    const struct config_event_sink *event_sinks;
    uint32_t event_sink_count;
    const struct config_alarm *alarms;
    uint32_t alarm_count;
    const char *path; /* the main file's name */
    struct config_fragments fragments;
    char hash[CONFIG_HASH_TEXT]; /* SHA-256 of every setting made, in order of section and key;
                                    comments do not count */
    const struct config_path *paths;
    unsigned path_count;
    const struct config_fixed *fixed; /* the keys that fixed_hash covers */
    unsigned fixed_count;
    char fixed_hash[CONFIG_HASH_TEXT];  /* of what cannot change while running: [device] and the
                                           directories */
    char shared_hash[CONFIG_HASH_TEXT]; /* of what all daemons that may compute the same streams
                                           share: these, their filters and sinks, and the lease */
    struct config_memory *memory;       /* owns all of the above */
};

/* Whether some value in the events of the analysis comes from this stream. */
bool config_gives_parameters(const struct config_analysis *analysis, uint32_t stream);

/* Whether a log has the events of the stream's analyses before anybody else (io/event_log.h), as
 * another daemon may go on with it at any frame. */
bool config_logs_events(const struct config_stream *stream);

/* What the loader asks of the world outside the text. NULL in config_load: the real one. */
struct config_world {
    /* As driver->probe, of a source that brings its own rate, channels and format. */
    int (*probe)(const struct source_ops *driver, const struct source_options *options,
                 struct source_facts *facts, struct problem *problem);
    /* True when `path` can be read. */
    bool (*readable)(const char *path);
    /* Makes a filter and frees it again: 0, or why it cannot be made. */
    int (*makeable)(const struct filter_spec *spec, double rate_hz, struct problem *problem);
    /* As getenv. */
    const char *(*environment)(const char *name);
    /* Names for `variant`, in order; NULL past the end. */
    const char *(*variant)(int index);
    /* The machine's memory nodes; false: nobody tells them. */
    bool (*nodes)(struct number_set *nodes);
};

/*
 * Reads PATH and then its fragments PATH.d/(any).conf in name order; a later file overrides key by
 * key. Fragments of the former name, conf.d/(any).conf beside PATH, come before those; they are
 * refused where another configuration is in the same folder, because they could belong to either.
 * Returns 0 and the value, or ERROR_CONFIG (ERROR_NO_FILE when PATH cannot be read, ERROR_MEMORY)
 * with every error in `errors`; warnings come with either result. *out is NULL unless 0 is
 * returned.
 */
int config_load(const char *path, struct config **out, struct config_errors *errors);

/* The same with one more file behind all others, which is not there yet: `name` stands for it in
 * messages. */
int config_load_with(const char *path, const char *name, const char *text, size_t bytes,
                     struct config **out, struct config_errors *errors);

/* The same from memory: `name` stands for the file in messages; no fragments. world NULL: the real
 * one. */
int config_load_text(const char *name, const char *text, size_t bytes,
                     const struct config_world *world, struct config **out,
                     struct config_errors *errors);

/* It stays until config_free has been called once more for each hold: a worker reads it while a
 * reload puts another in its place. Thread of config_free. */
struct config *config_hold(const struct config *config);
void config_free(struct config *config); /* NULL is fine */

/* Names what differs between the two of what fixed_hash covers: "`threads` in [device] and `port`
 * in [osc] have". */
void config_fixed_changes(const struct config *before, const struct config *after, char *text,
                          size_t bytes);

/* By name; -1 when there is none. */
int config_find_stream(const struct config *config, const char *name);
int config_find_filter(const struct config *config, const char *name);
int config_find_analysis(const struct config *config, const char *name);

/* What the filter's section says, completed by what only the stream knows (channels of an array).
 */
struct filter_spec config_filter_spec(const struct config_filter *filter,
                                      const struct config_stream *stream);

#endif
