/* Analysis states: see analysis_states.h. */
#include "pipeline/analysis_states.h"

#include <assert.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/log.h"
#include "pipeline/heritage.h"
#include "wire/crc32c.h"

/* What became of the state of an analysis. */
enum written {
    WRITTEN_WHOLE,
    WRITTEN_BEHIND, /* it had not taken all frames yet */
    WRITTEN_LARGE,  /* longer than ANALYSIS_STATE_BYTES_MAX */
    WRITTENS,
};

struct entry {
    char name[HERITAGE_NAME];
    char hash[CONFIG_HASH_TEXT];
    uint32_t written; /* enum written */
    uint64_t held;    /* frames that events still to come rest on */
    uint64_t bytes;
};

static void walk_entry(struct codec *c, struct entry *entry)
{
    codec_text(c, entry->name, sizeof entry->name);
    codec_text(c, entry->hash, sizeof entry->hash);
    codec_u32(c, &entry->written);
    codec_u64(c, &entry->held);
    codec_u64(c, &entry->bytes);
    c->failed = c->failed || entry->written >= WRITTENS;
}

/* ---- writing ----------------------------------------------------------------------------- */

static struct entry entry_of(const struct pipeline_analysis *analysis)
{
    struct entry entry = {.written = WRITTEN_BEHIND};
    snprintf(entry.name, sizeof entry.name, "%s", analysis->config->name);
    memcpy(entry.hash, analysis->config->hash, sizeof entry.hash);
    if (!analysis_stage_idle(analysis->stage))
        return entry;
    struct codec counter = codec_counter();
    const bool walked = analysis_stage_walk(analysis->stage, &counter);
    entry.held = analysis_stage_held(analysis->stage);
    entry.written =
        walked && counter.at <= ANALYSIS_STATE_BYTES_MAX ? WRITTEN_WHOLE : WRITTEN_LARGE;
    entry.bytes = entry.written == WRITTEN_WHOLE ? counter.at : 0;
    return entry;
}

/* All of them, to count or to write. */
static void put_all(const struct pipeline *pipeline, struct codec *c, struct entry *entries)
{
    uint32_t count = pipeline->analysis_count;
    codec_u32(c, &count);
    for (uint32_t i = 0; i < count; i++) {
        walk_entry(c, &entries[i]);
        const size_t from = c->at;
        uint32_t sum = 0;
        if (c->to == NULL)
            c->at += entries[i].bytes;
        else if (entries[i].bytes > 0)
            analysis_stage_walk(pipeline->analyses[i].stage, c);
        if (c->to != NULL && !c->failed)
            sum = crc32c(0, c->to + from, c->at - from);
        codec_u32(c, &sum);
    }
}

uint8_t *analysis_states_write(struct pipeline *pipeline, size_t *count)
{
    const uint32_t analyses = pipeline->analysis_count;
    struct entry *entries = calloc(analyses > 0 ? analyses : 1, sizeof *entries);
    uint8_t *bytes = NULL;
    *count = 0;
    if (entries == NULL)
        return NULL;
    for (uint32_t i = 0; i < analyses; i++)
        entries[i] = entry_of(&pipeline->analyses[i]);
    struct codec counter = codec_counter();
    put_all(pipeline, &counter, entries);
    bytes = malloc(counter.at);
    if (bytes != NULL) {
        struct codec writer = codec_writer(bytes, counter.at);
        put_all(pipeline, &writer, entries);
        assert(!writer.failed && writer.at == counter.at);
        *count = counter.at;
        for (uint32_t i = 0; i < analyses; i++)
            pipeline->analyses[i].handed_on = entries[i].written == WRITTEN_WHOLE;
    }
    free(entries);
    return bytes;
}

static struct pipeline_analysis *find(const struct pipeline *pipeline, const char *name)
{
    for (uint32_t i = 0; i < pipeline->analysis_count; i++)
        if (strcmp(pipeline->analyses[i].config->name, name) == 0)
            return &pipeline->analyses[i];
    return NULL;
}

/* The analysis whose events it takes; NULL: it takes frames. */
static const struct pipeline_analysis *upstream_of(const struct pipeline_analysis *analysis)
{
    const int upstream = analysis->config->upstream;
    return upstream < 0
               ? NULL
               : find(analysis->pipeline, analysis->pipeline->config->analyses[upstream].name);
}

/* Whether an analysis of the successor goes on from it; without one: the next daemon's. */
static bool goes_on(const struct pipeline_analysis *analysis, const struct pipeline *successor)
{
    if (successor == NULL)
        return analysis->handed_on;
    for (uint32_t k = 0; k < successor->analysis_count; k++)
        if (successor->analyses[k].resumed &&
            strcmp(successor->analyses[k].config->name, analysis->config->name) == 0)
            return true;
    return false;
}

void analysis_states_leave(struct pipeline *pipeline, const struct pipeline *successor)
{
    for (uint32_t i = 0; i < pipeline->analysis_count; i++) {
        const struct pipeline_analysis *analysis = &pipeline->analyses[i];
        const struct pipeline_analysis *upstream = upstream_of(analysis);
        /* The thread of one that ends puts its last events into those that read them, and then ends
         * the epoch there: only one thread may put. */
        if (!goes_on(analysis, successor) && (upstream == NULL || goes_on(upstream, successor)))
            analysis_stage_end(analysis->stage);
    }
}

/* ---- reading ----------------------------------------------------------------------------- */

/* NULL, or why it cannot go on. */
static const char *take(struct pipeline_analysis *analysis, const struct entry *entry,
                        const uint8_t *state, bool sound)
{
    const struct pipeline_analysis *upstream = upstream_of(analysis);
    if (entry->written == WRITTEN_BEHIND)
        return "it was behind";
    if (entry->written == WRITTEN_LARGE)
        return "its state was too large to carry over";
    if (strcmp(entry->hash, analysis->config->hash) != 0)
        return "its options have changed";
    if (!sound)
        return "its state is damaged";
    if (upstream != NULL && !upstream->resumed)
        return "the analysis whose events it takes begins anew";
    struct codec c = codec_reader(state, (size_t)entry->bytes);
    return analysis_stage_walk(analysis->stage, &c) && c.at == entry->bytes
               ? NULL
               : "its state is of another version of the daemon";
}

static void read_one(struct pipeline *pipeline, const struct entry *entry, const uint8_t *state,
                     bool sound, bool told)
{
    struct pipeline_analysis *analysis = find(pipeline, entry->name);
    const char *why = !pipeline->resumed ? "its stream begins a new epoch"
                      : analysis == NULL ? "it is no longer configured"
                                         : take(analysis, entry, state, sound);
    if (why == NULL) {
        analysis->resumed = true;
        return;
    }
    if (analysis != NULL && !told)
        analysis_stage_lose(analysis->stage, entry->held);
    if (told || entry->held == 0)
        log_notice("analysis %s begins anew: %s", entry->name, why);
    else
        log_warning("analysis %s begins anew: %s; what it held of the last %" PRIu64
                    " frames is lost, and they are dead",
                    entry->name, why, entry->held);
}

void analysis_states_read(struct pipeline *pipeline, const uint8_t *bytes, size_t bytes_count,
                          bool told)
{
    struct codec c = codec_reader(bytes, bytes_count);
    uint32_t count;
    codec_u32(&c, &count);
    for (uint32_t i = 0; i < count && !c.failed; i++) {
        struct entry entry = {0};
        const uint8_t *state;
        uint32_t sum;
        walk_entry(&c, &entry);
        codec_span(&c, &state, (size_t)entry.bytes);
        codec_u32(&c, &sum);
        if (!c.failed)
            read_one(pipeline, &entry, state, crc32c(0, state, (size_t)entry.bytes) == sum, told);
    }
    if (bytes_count > 0 && c.failed)
        log_warning("stream %s: the states of its analyses are damaged; they begin anew",
                    pipeline->stream_config->name);
}

bool analysis_states_restore(struct pipeline *pipeline, const uint8_t *bytes, size_t bytes_count,
                             const char **name, const char **why)
{
    struct codec c = codec_reader(bytes, bytes_count);
    uint32_t count, restored = 0;
    codec_u32(&c, &count);
    *name = "?";
    *why = "the states are damaged";
    for (uint32_t i = 0; i < pipeline->analysis_count; i++)
        pipeline->analyses[i].resumed = false;
    for (uint32_t i = 0; i < count && !c.failed; i++) {
        struct entry entry = {0};
        const uint8_t *state;
        uint32_t sum;
        walk_entry(&c, &entry);
        codec_span(&c, &state, (size_t)entry.bytes);
        codec_u32(&c, &sum);
        struct pipeline_analysis *analysis = c.failed ? NULL : find(pipeline, entry.name);
        if (analysis == NULL || analysis->resumed)
            continue;
        *name = analysis->config->name;
        *why = take(analysis, &entry, state, crc32c(0, state, (size_t)entry.bytes) == sum);
        if (*why != NULL)
            return false;
        analysis->resumed = true;
        restored++;
    }
    if (!c.failed && restored < pipeline->analysis_count)
        *why = "an analysis is new";
    return !c.failed && restored == pipeline->analysis_count;
}
