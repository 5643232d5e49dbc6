/* Succession: see succession.h. */
#include "pipeline/succession.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/codec.h"
#include "core/log.h"
#include "pipeline/analysis_states.h"
#include "pipeline/heritage.h"
#include "pipeline/losses.h"

enum { RECORD_VERSION = 4 };

static const uint32_t magic = 0x53505643; /* "CVPS" */

/* Frames that the sink before has not delivered, and does not. */
struct record_losses {
    uint32_t count;
    struct sink_missing runs[MISSING_RUNS_MAX];
};

/* What a record begins with, all but the stream's state, the analyses' and the source's part. */
struct record {
    struct heritage left;
    char source[HERITAGE_NAME]; /* the driver's name, "": a chain */
    bool chain_begun;
    uint64_t chain_epoch;
    /* of left.sinks */
    struct sink_ledger ledgers[HERITAGE_SINKS];
    struct record_losses losses[HERITAGE_SINKS];
};

static void walk_ledger(struct codec *c, struct sink_ledger *ledger)
{
    codec_u64(c, &ledger->frames);
    codec_u64(c, &ledger->delivered);
    codec_u64(c, &ledger->pending);
    for (int drop = 0; drop < DROPS; drop++)
        codec_u64(c, &ledger->dropped[drop]);
    codec_u64(c, &ledger->packets);
    codec_u64(c, &ledger->bytes);
    codec_u64(c, &ledger->saturated);
}

/* What no stream gets to: everything that is added to such a number stays within 64 bits. */
static const uint64_t number_max = UINT64_C(1) << 62;

static void walk_numbers(struct codec *c, struct stream_numbers *numbers)
{
    codec_u64(c, &numbers->epochs);
    codec_u64(c, &numbers->records);
    codec_u64(c, &numbers->timeline);
    codec_u64(c, &numbers->anchor);
    codec_i64(c, &numbers->anchor_realtime_ns);
    c->failed = c->failed || numbers->epochs > number_max || numbers->records > number_max ||
                numbers->timeline > number_max || numbers->anchor > number_max ||
                numbers->anchor_realtime_ns < 0;
}

static void walk_losses(struct codec *c, struct record_losses *losses)
{
    codec_u32(c, &losses->count);
    if (losses->count > MISSING_RUNS_MAX) {
        c->failed = true;
        losses->count = 0;
    }
    for (uint32_t i = 0; i < losses->count; i++) {
        codec_u64(c, &losses->runs[i].epoch);
        codec_u64(c, &losses->runs[i].from);
        codec_u64(c, &losses->runs[i].until);
        c->failed = c->failed || losses->runs[i].from >= losses->runs[i].until ||
                    losses->runs[i].until > number_max || losses->runs[i].epoch > number_max;
    }
}

static void walk_record(struct codec *c, struct record *record)
{
    uint32_t mark = magic, version = RECORD_VERSION;
    codec_u32(c, &mark);
    codec_u32(c, &version);
    c->failed = c->failed || mark != magic || version != RECORD_VERSION;
    codec_text(c, record->left.stream, sizeof record->left.stream);
    codec_text(c, record->source, sizeof record->source);
    codec_bool(c, &record->chain_begun);
    codec_u64(c, &record->chain_epoch);
    walk_numbers(c, &record->left.numbers);
    codec_u32(c, &record->left.sink_count);
    if (record->left.sink_count > HERITAGE_SINKS) {
        c->failed = true;
        record->left.sink_count = 0;
    }
    for (uint32_t i = 0; i < record->left.sink_count; i++) {
        struct heritage_sink *sink = &record->left.sinks[i];
        codec_text(c, sink->name, sizeof sink->name);
        codec_u32(c, &sink->identity.ssrc);
        codec_u16(c, &sink->identity.sequence);
        codec_u16(c, &sink->identity.port);
        walk_ledger(c, &record->ledgers[i]);
        walk_losses(c, &record->losses[i]);
    }
}

/* ---- the one that leaves ----------------------------------------------------------------- */

static const struct pipeline *root_of(const struct pipeline *pipeline)
{
    while (pipeline->upstream != NULL)
        pipeline = pipeline->upstream;
    return pipeline;
}

bool succession_possible(const struct pipeline *pipeline)
{
    const struct pipeline *root = root_of(pipeline);
    return root->source != NULL && root->source_ops->walk != NULL && !root->ended &&
           pipeline->stream != NULL && pipeline->direct == NULL;
}

bool succession_writable(const struct pipeline *pipeline)
{
    return stream_quiet(pipeline->stream) &&
           stream_ready_deadline_ns(pipeline->stream) == INT64_MAX;
}

bool succession_ready(const struct pipeline *pipeline)
{
    return succession_writable(pipeline) && pipeline_analyses_idle(pipeline);
}

static void note_sinks(const struct pipeline *pipeline, struct record *record)
{
    struct heritage *left = &record->left;
    for (uint32_t i = 0; i < pipeline->sink_count && left->sink_count < HERITAGE_SINKS; i++) {
        const struct pipeline_sink *sink = &pipeline->sinks[i];
        const uint32_t at = left->sink_count++;
        snprintf(left->sinks[at].name, sizeof left->sinks[at].name, "%s", sink->config->name);
        if (sink->sink != NULL && sink->ops->identity != NULL)
            sink->ops->identity(sink->sink, &left->sinks[at].identity);
        struct sink_ledger *ledger = &record->ledgers[at];
        pipeline_sink_ledger(sink, ledger);
        /* A successor in this process counts them by themselves (succession_leave); there is no
         * time left for them in any other. */
        ledger->dropped[DROP_STOPPED] += ledger->pending;
        if (sink->sink != NULL && ledger->pending > 0 && sink->ops->undelivered != NULL)
            record->losses[at].count = sink->ops->undelivered(sink->sink, record->losses[at].runs);
        ledger->pending = 0;
    }
}

/* The states of all analyses. */
struct analyses {
    const uint8_t *bytes;
    size_t count;
};

/* The whole record, to count or to write. */
static void put_record(struct codec *c, struct pipeline *pipeline, struct record *record,
                       const struct stream_state *state, const struct analyses *analyses)
{
    uint64_t state_bytes = stream_state_bytes(state);
    walk_record(c, record);
    codec_u64(c, &state_bytes);
    if (c->to != NULL && !c->failed && state_bytes <= c->bytes - c->at)
        stream_state_write(state, c->to + c->at);
    c->at += state_bytes;
    const uint8_t *span = analyses->bytes;
    uint64_t analyses_bytes = analyses->count;
    codec_u64(c, &analyses_bytes);
    codec_span(c, &span, analyses->count);
    if (pipeline->source != NULL)
        pipeline->source_ops->walk(pipeline->source, c);
}

uint8_t *succession_write(struct pipeline *pipeline, size_t *count)
{
    struct record *record = calloc(1, sizeof *record);
    struct stream_state *state = malloc(sizeof *state);
    uint8_t *bytes = NULL, *states = NULL;
    if (record != NULL && state != NULL) {
        snprintf(record->left.stream, sizeof record->left.stream, "%s",
                 pipeline->stream_config->name);
        stream_numbers(pipeline->stream, &record->left.numbers);
        if (pipeline->upstream == NULL)
            snprintf(record->source, sizeof record->source, "%s", pipeline->source_ops->name);
        record->chain_begun = pipeline->chain.begun;
        record->chain_epoch = pipeline->chain.epoch;
        note_sinks(pipeline, record);
        stream_state_take(pipeline->stream, state);
        struct analyses analyses = {0};
        struct codec counter = codec_counter();
        analyses.bytes = states = analysis_states_write(pipeline, &analyses.count);
        put_record(&counter, pipeline, record, state, &analyses);
        bytes = stream_state_bytes(state) > 0 ? malloc(counter.at) : NULL;
        if (bytes != NULL) {
            struct codec writer = codec_writer(bytes, counter.at);
            put_record(&writer, pipeline, record, state, &analyses);
            *count = counter.at;
        }
    }
    free(states);
    free(record);
    free(state);
    return bytes;
}

/* Frames that a sink still delivers count in the ledger of its successor. */
static void leave_sinks(struct pipeline *pipeline, struct pipeline *successor)
{
    for (uint32_t i = 0; i < pipeline->sink_count; i++) {
        struct pipeline_sink *sink = &pipeline->sinks[i];
        struct pipeline_sink *heir = pipeline_same_sink(successor, sink);
        if (sink->sink == NULL || heir == NULL)
            continue;
        sink->heir = heir;
        heir->elder = sink;
    }
    losses_go_on(successor);
}

void succession_leave(struct pipeline *pipeline, struct pipeline *successor)
{
    stream_leave(pipeline->stream);
    if (successor != NULL)
        leave_sinks(pipeline, successor);
    analysis_states_leave(pipeline, successor);
    pipeline->ended = true;
}

/* ---- the one that goes on ---------------------------------------------------------------- */

/* Reads all but the source's part, at which the codec then stands. `state` points into the bytes.
 */
static int get_record(struct codec *c, struct record *record, struct stream_state *state,
                      struct analyses *analyses, struct problem *problem)
{
    uint64_t state_bytes, analyses_bytes;
    memset(record, 0, sizeof *record);
    walk_record(c, record);
    codec_u64(c, &state_bytes);
    if (c->failed || state_bytes > c->bytes - c->at)
        return problem_set(problem, ERROR_FORMAT,
                           "its record is damaged, or of another version of the daemon");
    const uint8_t *span;
    codec_span(c, &span, (size_t)state_bytes);
    codec_u64(c, &analyses_bytes);
    codec_span(c, &analyses->bytes, (size_t)analyses_bytes);
    analyses->count = (size_t)analyses_bytes;
    if (c->failed)
        return problem_set(problem, ERROR_FORMAT, "its record is damaged");
    return stream_state_read(span, (size_t)state_bytes, state, problem);
}

int succession_peek(const uint8_t *bytes, size_t count, struct heritage *left, struct plan_pin *pin,
                    struct problem *problem)
{
    struct record *record = malloc(sizeof *record);
    struct stream_state *state = malloc(sizeof *state);
    struct codec c = codec_reader(bytes, count);
    int error = ERROR_MEMORY;
    problem_set(problem, ERROR_MEMORY, "out of memory");
    if (record != NULL && state != NULL) {
        struct analyses analyses;
        error = get_record(&c, record, state, &analyses, problem);
        *left = record->left;
        *pin = state->plan;
    }
    free(record);
    free(state);
    return error;
}

/* `told`: the predecessor runs in this process and logs its own undelivered frames. */
static void give_sinks(struct pipeline *pipeline, const struct record *record, bool told)
{
    for (uint32_t i = 0; i < pipeline->sink_count; i++) {
        struct pipeline_sink *sink = &pipeline->sinks[i];
        for (uint32_t k = 0; k < record->left.sink_count; k++) {
            if (strcmp(sink->config->name, record->left.sinks[k].name) != 0)
                continue;
            sink->before = record->ledgers[k];
            if (sink->sink != NULL && sink->ops->assume != NULL)
                sink->ops->assume(sink->sink, &record->left.sinks[k].identity);
            if (!told && sink->sink != NULL && sink->ops->lost_before != NULL)
                sink->ops->lost_before(sink->sink, record->losses[k].runs, record->losses[k].count);
        }
    }
}

static int resume(struct pipeline *pipeline, const struct record *record,
                  const struct stream_state *state, struct codec *c, bool told,
                  struct problem *problem)
{
    const char *source = pipeline->upstream != NULL ? "" : pipeline->source_ops->name;
    if (strcmp(record->source, source) != 0)
        return problem_set(problem, ERROR_UNSUPPORTED, "its source is another one");
    if (pipeline->upstream != NULL && !pipeline->upstream->resumed)
        return problem_set(problem, ERROR_UNSUPPORTED, "the stream it reads has begun a new epoch");
    if (!state->begun)
        stream_continue(pipeline->stream, &record->left.numbers);
    int error = stream_resume(pipeline->stream, state, NULL, problem);
    if (error < 0)
        return error;
    if (pipeline->source != NULL)
        pipeline->source_ops->walk(pipeline->source, c);
    if (c->failed) /* a sender without numbers is a new one, and begins the next epoch */
        log_warning("stream %s: the numbers of its sender are damaged", record->left.stream);
    pipeline->chain.begun = record->chain_begun;
    pipeline->chain.epoch = record->chain_epoch;
    give_sinks(pipeline, record, told);
    pipeline->resumed = true;
    losses_go_on(pipeline);
    return 0;
}

int succession_read(struct pipeline *pipeline, const uint8_t *bytes, size_t count, bool told,
                    struct problem *problem)
{
    struct record *record = malloc(sizeof *record);
    struct stream_state *state = malloc(sizeof *state);
    struct codec c = codec_reader(bytes, count);
    int error = ERROR_MEMORY;
    problem_set(problem, ERROR_MEMORY, "out of memory");
    if (record != NULL && state != NULL) {
        struct analyses analyses;
        error = get_record(&c, record, state, &analyses, problem);
        if (error == 0) {
            error = resume(pipeline, record, state, &c, told, problem);
            analysis_states_read(pipeline, analyses.bytes, analyses.count, told);
        }
    }
    free(record);
    free(state);
    return error;
}
