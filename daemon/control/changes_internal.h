/*
 * What the files of change requests share (see changes.h): changes.c takes requests, change_queue.c
 * says which is next and has it prepared, change_exchange.c takes it into use and answers,
 * change_resume.c goes on with what a log tells. One change is under way at a time, of all streams.
 *
 * LOOP.
 */
#ifndef CONVOLVD_CONTROL_CHANGES_INTERNAL_H
#define CONVOLVD_CONTROL_CHANGES_INTERNAL_H

#include <stdbool.h>
#include <stdint.h>

#include "control/change_gains.h"
#include "control/change_plans.h"
#include "control/change_who.h"
#include "control/change_request.h"
#include "control/process.h"
#include "core/log.h"
#include "io/keeper.h"

struct change_answer; /* changes.h */

enum { WAITING_MAX = 32 }; /* requests of one stream */

#define CHANGES_OVERTAKE_S 1.0 /* a filter this far ahead can be prepared again */

/* A request that waits; the name of its filter has become an index. */
struct waiting {
    struct change_request request;
    int filter;
    const struct setting *setting; /* of one that resumes: lies in changed_stream.resume */
};

/* Text that results carry: the hash of a plan's filters. */
struct hash_text {
    struct hash_text *next;
    char text[];
};

/* The changes of one stream. */
struct changed_stream {
    struct changed_stream *next;
    struct changes *changes;
    /* Pointers that may be stale: compared, not followed, until the pipeline is found running. With
     * the hash they tell a pipeline from a later one at the same address. */
    struct pipeline *pipeline;
    const struct stream *stream;
    char hash[CONFIG_HASH_TEXT];
    struct change_setting now;    /* of the plan in use */
    struct change_setting wanted; /* of the plan being prepared */
    struct config_edge *edges;    /* in use; NULL: as configured */
    struct change_gains gains;
    struct change_who filter_who; /* who asked for the filter */
    struct waiting waiting[WAITING_MAX];
    uint32_t waiting_count;
    struct log_limit limits[2];          /* of lines about gains, and about mutes */
    bool exchanging;                     /* an exchange waits for its frame, or fades */
    struct waiting pending[WAITING_MAX]; /* its requests, and what to go back to when it is
                                            cancelled */
    uint32_t pending_count;
    uint64_t pending_epoch, pending_frame; /* that were published */
    struct change_setting before;
    struct config_edge *edges_before;
    double delay_before_frames;
    struct pipeline_filter filter_before;
    uint64_t answer_frame;         /* of `pending`, once the change is kept (io/keeper.h) … */
    bool unanswered;               /* … which it is not yet */
    struct setting_change *resume; /* what a log tells; NULL: it never has */
    uint64_t resumes;              /* how often it has; the ticket of requests that resume */
    struct plan *replaced[3];      /* used until the exchange is through; plan, mixed old and new */
};

struct changes {
    const struct process *process;
    void *context;
    void (*answered)(void *context, const struct change_answer *answer);
    struct changed_stream *streams;
    struct hash_text *hashes; /* each text once, as long as there are sinks */
    bool stopped, held;

    /* the change under way, and the job that prepares it */
    bool busy;
    struct job_watch watch;
    uv_idle_t copying; /* into a larger ring, before the exchange; its data NULL: not open */
    struct changed_stream *of;
    struct change_request request;
    struct change_request merged[WAITING_MAX]; /* take effect with it */
    uint32_t merged_count;
    struct change_plans *plans; /* through; NULL: none */
    int error;
    struct problem problem;
};

/* Whether the entry is of this pipeline, and the one that is, made when it is new; NULL: out of
 * memory. */
bool changes_is_entry(const struct changed_stream *s, const struct pipeline *pipeline);
struct changed_stream *changes_entry(struct changes *changes, struct pipeline *pipeline);

/* Has the next request prepared, if one may go now. */
void changes_begin_next(struct changes *changes);

/* The change under way is prepared, or its job was left behind: takes it into use, answers, and
 * goes on with the next one. */
void changes_on_prepared(void *context, struct job *job);
void changes_on_late(void *context, const char *stream, const char *step, struct engine *engine);
void changes_finish(struct changes *changes);

/* For struct pipeline_changer. */
void changes_on_resume(void *context, struct pipeline *pipeline,
                       const struct setting_change *change, bool past);
void changes_on_told(void *context, struct pipeline *pipeline, enum keeper_news news);

#endif
