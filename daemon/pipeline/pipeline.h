/*
 * A pipeline is one stream of the configuration with everything it needs to run: its source (or the
 * stream it reads), filters, plan, input ring and sinks.
 *
 *     source ──► stream ──► plan on the engine ──► ports ──► sinks
 *        ▲                                           ├─────► streams that read this one
 *        │                                           └─────► analyses (analyses.c) ──► event sinks
 *        └── room, resume (back-pressure)
 *
 * pipeline_prepare does everything that takes time (files, designs, kernels, sockets) on a worker
 * thread; everything else runs on the loop. A pipeline whose preparation failed is closed like any
 * other.
 */
#ifndef CONVOLVD_PIPELINE_PIPELINE_H
#define CONVOLVD_PIPELINE_PIPELINE_H

#include <stdbool.h>
#include <stdint.h>
#include <uv.h>

#include "convolve/engine.h"
#include "core/error.h"
#include "core/event.h"
#include "io/sink.h"
#include "io/source.h"
#include "pipeline/analysis_stage.h"
#include "pipeline/arrival.h"
#include "pipeline/chain.h"
#include "config/config.h"
#include "pipeline/devices.h"
#include "pipeline/recipe.h"
#include "pipeline/self_check.h"
#include "stream/scheduler.h"
#include "stream/stream.h"

struct heritage;
struct job;
struct pipeline;
struct plan_pin;
struct saturation_map;

/* How much of each counter the log has told (losses.c), and when; start zeroed. */
struct told_driver {
    uint64_t faults[DRIVER_FAULTS_MAX];
    int64_t told_ns;
};

struct told_stream {
    struct told_driver driver;
    uint64_t gap[INVALID_CAUSES], shed[SHEDS];
    int64_t told_ns;
    uint64_t overlap, kernel_drops, epochs, senders, clock_steps;
    int64_t overlap_told_ns, drops_told_ns, epochs_told_ns, steps_told_ns;
    struct arrival arrival;
    uint64_t refused[REJECTS]; /* datagrams, when frames came last */
    uint32_t packet_frames;    /* when they came at the declared rate */
};

struct told_sink {
    struct told_driver driver;
    uint64_t dropped[DROPS];
    int64_t told_ns;
    int64_t interval_ns;    /* to the next line while all is unreachable; 0: as usual */
    uint64_t unreachable;   /* frames, at the last look */
    int64_t unreachable_ns; /* when they had grown */
};

struct told_channel {
    uint64_t overload;
    int64_t told_ns;
};

/* Plan and ring of a stream on a device that stands by for its own. */
struct standby {
    struct placement *placement; /* NULL: none is prepared */
    struct recipe *recipe;       /* the plan's: of use while it is the pipeline's */
    struct plan *plan;
    struct stream_ring *ring;
    double load;                    /* share of that device's time */
    const struct recipe *refused;   /* nothing can be prepared for it: compared, not followed */
    int64_t refused_ns, changed_ns; /* when; when the recipe changed */
};

struct pipeline_sink {
    const struct config_sink *config;
    const struct sink_ops *ops;
    struct sink_options options;   /* lives as long as the sink */
    struct sink *sink;             /* NULL once closed */
    struct sink_ledger ledger;     /* the last one, when closed */
    struct sink_ledger before;     /* of the sink that it continues; zeroed if none */
    struct pipeline_sink *elder;   /* that sink, while it is open and still delivers; NULL: `before`
                                      is final */
    struct pipeline_sink *heir;    /* the sink that succeeds this one; NULL: none */
    uint64_t stopped;              /* frames dropped as `stopped` when closing began */
    uint64_t unwanted;             /* results that came after that */
    struct sink_identity identity; /* the last one, when closed */
    void *status;                  /* the driver's, the last one when closed; NULL: it has none */
    struct pipeline *pipeline;
    bool ended; /* can deliver nothing any more */
    bool closing;
    uint64_t watched_done; /* watch.c: frames written or dropped by the writer */
    bool watched_pending;
    struct told_sink told;
};

/* An [analysis] that rests on the stream's results. */
struct pipeline_analysis {
    const struct config_analysis *config;
    struct analysis_options options; /* as configured, with what only the running stream knows */
    struct analysis_stage *stage;
    struct event_sink_options sinks[ANALYSIS_SINKS_MAX]; /* in the order of the stage's */
    bool resumed;   /* goes on from one before it (analysis_states.h) */
    bool handed_on; /* its state was written */
    struct pipeline *pipeline;
};

/* What the last look at a pipeline saw (watch.c). */
struct pipeline_watch {
    uint64_t batches, batches_failed;
    bool computing; /* work was on the device, or overdue */
    bool reading;   /* the source's thread had something to do … */
    uint64_t read;  /* … and had done so much */
};

/* Who changes streams, for the sinks that keep changes (io/keeper.h); starts zeroed: nobody. */
struct pipeline_changer {
    void *context;
    void (*resume)(void *context, struct pipeline *pipeline, const struct setting_change *change,
                   bool past);
    void (*told)(void *context, struct pipeline *pipeline, enum keeper_news news);
};

/* Gains and mutes that control has set while the stream ran, and since when. */
struct pipeline_gains {
    const struct result_gains *now; /* NULL: as configured since the start */
    uint64_t epoch, frame;          /* the first output frame with them … */
    bool framed;                    /* … unless a sound card filters by itself: it has none */
    int64_t realtime_ns;            /* when they were taken into use */
};

/* The filter that control has set while the stream ran, as above; `name` NULL: as configured. */
struct pipeline_filter {
    const char *name, *hash; /* they live as long as the pipeline */
    const char *who;         /* asked for it; valid until the filter changes again */
    uint64_t epoch, frame;
    bool framed;
    int64_t realtime_ns;
};

struct pipeline {
    /* set by the owner before pipeline_prepare, then immutable */
    const struct config *config;
    const struct config_stream *stream_config;
    struct pipeline *upstream; /* NULL: a source of its own */
    struct loops *loops;
    uint32_t loop;                          /* of these: the one it runs on … */
    double loop_weight;                     /* … and what it counts there */
    struct io_environment environment;      /* of its source and sinks, with its loop */
    struct placement *choices[CHOICES_MAX]; /* devices that may compute it, best first */
    uint32_t choice_count;
    double placement_load;
    struct placement *placed;    /* where it was placed, and its load counts */
    struct plan *placement_plan; /* made to choose the placement; pipeline_prepare takes it over;
                                    NULL: none */
    const char *variant;         /* overrides the configuration's; NULL: not */
    struct heritage *heritage;   /* of the pipeline whose place it takes, its own; NULL: none */
    struct self_checks *checks;  /* NULL: no self checks */
    struct plan_pin *pin;        /* the plan to prepare, where the configuration leaves it open; its
                                    own; NULL: any */
    struct job *job;             /* WORKER in pipeline_prepare: told of each step; NULL: none */
    /* LOOP: something of this pipeline closed or ended. */
    void (*changed)(void *context);
    void *context;
    const struct pipeline_changer *changer; /* the registry's */

    /* worker thread in pipeline_prepare, then immutable */
    struct self_check *self_check; /* NULL: none */
    struct plan *plan;
    struct stream *stream;
    double delay_frames;          /* of this stream's filters */
    double upstream_delay_frames; /* of the chain before, unless it was applied there */
    void *direct;                 /* MODE_DIRECT: takes the place of source.own, see direct.h */
    bool direct_only;             /* only the driver wants the results */
    struct source_options direct_source;
    uint64_t round_trip_frames; /* in the line above: from an excitation's play to its capture */
    char *taps_hash;            /* of all taps used, joined by commas */
    const struct source_ops *source_ops;
    struct source *source; /* NULL once closed */
    struct pipeline_sink *sinks;
    uint32_t sink_count;
    struct pipeline_analysis *analyses; /* [analysis_count] */
    uint32_t analysis_count;
    struct event_log *event_log;       /* event_log.c; NULL: no log has their events */
    struct saturation_map *saturation; /* NULL: nobody wants marks of inputs near full scale */
    void *source_status; /* the driver's, the last one when closed; NULL: it has none */

    /* the loop's once connected; workers that prepare changes read them */
    struct placement *_Atomic placement; /* the device it computes on; takeover.c changes it … */
    struct engine *_Atomic engine;       /* … with its engine */

    /* loop thread */
    struct pipeline_gains gains;       /* control/change_exchange.c sets them */
    struct pipeline_filter filter;     /* likewise */
    char changed_by[EVENT_WHO_BYTES];  /* who asked for the last change; empty: nobody */
    int64_t held_since_ns;             /* realtime: reset-counters; 0: since the start */
    struct recipe *recipe;             /* of the plan in use; NULL: it cannot be made again */
    struct standby standby;            /* what it needs on another device */
    const struct placement *lost_from; /* the last loss halted it there */
    struct scheduler *scheduler;       /* set by pipeline_connect */
    bool scheduled, source_started;
    bool resumed;                 /* goes on in the epoch of the pipeline whose place it took */
    struct pipeline *predecessor; /* the replaced pipeline, while results of it may still be on
                                     their way (service/swap.h); NULL: none */
    uint32_t chain_sinks, chain_sinks_ended; /* the registry's, see count_sinks */
    bool retired;                            /* replaced or removed by a reload: on its way out */
    bool removed;                            /* retired, and none takes its place … */
    const struct pipeline *successor;        /* … else the one that does; while both are there */
    bool sinks_closing, source_closing;
    bool ended;            /* nothing more will be put: the source ended or was stopped … */
    bool interrupted;      /* … before the end to which it would have come by itself */
    struct source_cut cut; /* of its source's input; missing 0: none */
    uint32_t closing;      /* closes not finished */
    struct source_ledger source_ledger; /* the last one, when closed */
    struct chain chain;                 /* of the results this stream reads */
    struct pipeline_watch watch;
    struct told_stream told;
    struct told_channel *told_channels; /* [channels] */
};

/* WORKER; the upstream is prepared. 0 or an error with its sentence. */
int pipeline_prepare(struct pipeline *pipeline, struct problem *problem);

/* How plans for a stream are made, besides its configuration. A copy, so that a thread that hangs
 * may outlive the pipeline; what it points to outlives both. */
struct plan_terms {
    const struct config *config;
    struct engine *engine;
    const char *variant; /* overrides the configuration's; NULL: not */
    double upstream_delay_frames;
    const struct config_edge *known; /* as in stream_filters_make */
    uint32_t hop;               /* a running stream keeps its block size; 0: it does not run yet */
    const struct plan_pin *pin; /* the plan to prepare, where the configuration leaves it open;
                                   NULL: any */
    struct job *job;            /* is told of each step; NULL: none */
};

/* LOOP, or WORKER before it is connected. */
struct plan_terms pipeline_plan_terms(const struct pipeline *pipeline, struct job *job);

/* WORKER. A plan for a stream on these terms as `stream` describes it: its own configuration, or
 * one with other edges. *plan is NULL, or one already made of that, to be kept when it suits;
 * closed on error. *hash and *recipe are the caller's; `recipe` may be NULL. */
int pipeline_make_plan(const struct plan_terms *terms, const struct config_stream *stream,
                       struct plan **plan, double *delay_frames, char **hash,
                       struct recipe **recipe, struct problem *problem);
/* LOOP. `recipe`, of the plan that the stream takes into use, becomes the pipeline's. */
void pipeline_take_recipe(struct pipeline *pipeline, struct recipe *recipe);

/* LOOP. The sound card that filters by itself uses these filters (direct.h) from its next callback
 * on; takes the descriptor over. */
void pipeline_set_direct_filters(struct pipeline *pipeline, int filters);
/* Any thread. Only the card's own filtering is wanted: the stream computes no results. */
bool pipeline_direct_only(const struct pipeline *pipeline);

/* LOOP. The earliest output frame of the epoch that a change can take, as results number them, and
 * the frame at the input's rate that it is. */
uint64_t pipeline_next_output(const struct pipeline *pipeline);
uint64_t pipeline_input_frame(const struct pipeline *pipeline, uint64_t output);
/* LOOP. The first output frame of the epoch that answers up to this input frame. */
uint64_t pipeline_output_frame(const struct pipeline *pipeline, uint64_t input);

/* LOOP. Ports and scheduler first, and whatever the source needs and the system may refuse
 * (pipeline_connect, of every pipeline), then sources (pipeline_start). A pipeline that a reload
 * replaces runs on until the new one is connected. */
int pipeline_connect(struct pipeline *pipeline, struct problem *problem);
int pipeline_start(struct pipeline *pipeline, struct problem *problem);
/* LOOP. The two halves of pipeline_start. */
void pipeline_start_sinks(struct pipeline *pipeline);
int pipeline_start_source(struct pipeline *pipeline, struct problem *problem);

/* LOOP. Of one that reads a stream which goes on: gets nothing more from it. Before pipeline_stop.
 */
void pipeline_disconnect(struct pipeline *pipeline);

/* The sink that keeps what changes of the stream (io/keeper.h); NULL: none. LOOP. */
struct pipeline_sink *pipeline_keeper(const struct pipeline *pipeline);
/* WORKER. What a sink calls that keeps changes, or has the log of events. */
void pipeline_sink_hosts(struct pipeline *pipeline, struct sink_options *options);

/* Whether a log has the events of its analyses before anybody else (io/event_log.h): somebody else
 * may go on with the stream at any frame. Any thread. */
bool pipeline_logs_events(const struct pipeline *pipeline);
/* Any thread. Marks of inputs near full scale that what analyses take at once may have. */
uint32_t pipeline_marks_most(const struct pipeline *pipeline);
/* WORKER. What the sink that has the log calls. */
struct event_log_host pipeline_event_log_host(struct pipeline *pipeline);
/* WORKER; the analyses are open. 0 or ERROR_MEMORY. */
int pipeline_open_event_log(struct pipeline *pipeline);
void pipeline_close_event_log(struct pipeline *pipeline); /* NULL is fine */
/* LOOP. An analysis has room, is idle, or has events. */
void pipeline_analysed(struct pipeline *pipeline);
/* LOOP. As result_port.put, of a struct pipeline_sink (numbering.c). */
void pipeline_sink_put(void *sink, const struct result *result);
/* LOOP. Beside the samples of every sink that keeps marks, at an output frame of the stream; those
 * of raw input at the input's frame. Sets mark->frame. */
void pipeline_mark(const struct pipeline *pipeline, struct sink_mark *mark, uint64_t frame);
/* LOOP. A mark of the recording that the stream replays. */
void pipeline_replay_mark(void *pipeline, const struct source_mark *mark);

/* LOOP. What its source asks (source_host). */
uint64_t pipeline_epoch(void *pipeline);
void pipeline_source_plan(void *pipeline, struct source_plan *plan);

/* LOOP. The source may go on: results were delivered. */
void pipeline_resume(struct pipeline *pipeline);

/* LOOP. No more input: stops the source and closes the epoch, so that its tail follows. Twice is
 * fine. */
void pipeline_stop(struct pipeline *pipeline);
/* LOOP. No more input for now: stops the source, and the epoch stays open. */
void pipeline_pause(struct pipeline *pipeline);
/* LOOP. How far a source that comes to its end by itself has come; false: it does not. */
bool pipeline_progress(const struct pipeline *pipeline, uint64_t *done, uint64_t *all);
/* Takes what may change while running from `stream` of `config`, which has the same hash as the
 * stream that runs. */
void pipeline_change(struct pipeline *pipeline, const struct config *config,
                     const struct config_stream *stream);

/* LOOP. Nothing more comes, and everything received has been handed to the sinks. */
bool pipeline_drained(const struct pipeline *pipeline);

/* Analyses, all of them (analyses.c). prepare: WORKER, once plan and taps are known; one that fails
 * is closed with the others. connect: LOOP, those that take frames become ports of the stream.
 * close: LOOP, `closing` counts down as for sinks. idle: LOOP, everything put has been analysed.
 * free: once they are closed. */
int pipeline_prepare_analyses(struct pipeline *pipeline, struct problem *problem);
int pipeline_connect_analyses(struct pipeline *pipeline, struct problem *problem);
void pipeline_close_analyses(struct pipeline *pipeline, int64_t deadline_ns);
bool pipeline_analyses_idle(const struct pipeline *pipeline);
void pipeline_free_analyses(struct pipeline *pipeline);

/* LOOP. What of a result rests on inputs near full scale, by float of the output and in order of
 * `from`; valid until the next call. Returns how many. */
uint32_t pipeline_saturated(struct pipeline *pipeline, const struct result *result,
                            const struct input_saturation **marks);

/* LOOP. Close the sinks, the source; `closing` counts down and `changed` is called after each. */
void pipeline_close_sinks(struct pipeline *pipeline, int64_t deadline_ns);
/* LOOP. Closes one sink of it, before the others; closed ones are left as they are. */
void pipeline_close_sink(struct pipeline_sink *sink, int64_t deadline_ns);
/* LOOP. Logs how many frames a sink that is closing, or is closed, had not delivered by then. */
void pipeline_log_cut(const struct pipeline_sink *sink);
/* LOOP. Whether every sink has delivered or dropped all that was put into it. */
bool pipeline_sinks_idle(const struct pipeline *pipeline);
/* LOOP. The sink of the same name and type in `other`; NULL: there is none. */
struct pipeline_sink *pipeline_same_sink(const struct pipeline *other,
                                         const struct pipeline_sink *sink);
void pipeline_close_source(struct pipeline *pipeline);

/* LOOP. The ledgers at this instant, or the last ones of what is closed. False: a chain has no
 * source. */
bool pipeline_source_ledger(const struct pipeline *pipeline, struct source_ledger *ledger);
void pipeline_sink_ledger(const struct pipeline_sink *sink, struct sink_ledger *ledger);
/* LOOP. The sink is closed: its heir's counts begin with its last ones. */
void pipeline_end_elder(struct pipeline_sink *sink);
/* LOOP. *status: what the driver tells besides, now or when it was closed, valid until the next
 * call. Returns how to show it; NULL: the driver tells nothing. */
const struct driver_status *pipeline_source_status(const struct pipeline *pipeline,
                                                   const void **status);
const struct driver_status *pipeline_sink_status(const struct pipeline_sink *sink,
                                                 const void **status);

/* LOOP. What it leaves to a pipeline that takes its place, as of now; its stream is open. */
void pipeline_leave(const struct pipeline *pipeline, struct heritage *heritage);
/* LOOP; WORKER before it is connected. Prepared, and nothing was put into it yet: goes on with
 * these numbers. */
void pipeline_inherit(struct pipeline *pipeline, const struct heritage *heritage);
/* LOOP. The two halves of pipeline_inherit: the stream's numbers, and what receivers know its sinks
 * by. */
void pipeline_inherit_numbers(struct pipeline *pipeline, const struct heritage *heritage);
void pipeline_inherit_sinks(struct pipeline *pipeline, const struct heritage *heritage);

/* No loop runs any more and sources and sinks are closed: frees stream, plan and texts. */
void pipeline_free(struct pipeline *pipeline);

#endif
