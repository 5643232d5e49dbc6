/* Event follow: see event_follow.h. */
#include "control/event_follow.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "io/event_text.h"
#include "pipeline/analysis_store.h"

/* Of one write; the rest comes with the next. */
enum { EVENTS_A_WRITE = 64, SAMPLES_A_WRITE = 1 << 18 };

/* One store that is followed. */
struct cursor {
    struct cursor *next;
    uint64_t store, after; /* its id, and the place of the event told last */
    uint64_t until;        /* the place of the last one that was kept when it was asked for */
    struct event_text *text;
    bool seen; /* in this turn */
};

struct event_follow {
    const struct process *process;
    char analysis[OPTION_NAME_BYTES]; /* "": all */
    int kind;                         /* -1: all */
    bool samples, replay;             /* replay: what is kept has not been told yet */
    uint64_t since;                   /* replay: events with a higher number */
    uint64_t replayed;                /* of those that were kept */
    struct cursor *cursors;
    struct stored_event event; /* room for one */
};

static int kind_of(const char *word)
{
    for (int kind = 0; word != NULL && kind < ANALYSIS_EVENT_KINDS; kind++)
        if (strcmp(analysis_event_word((enum analysis_event_kind)kind), word) == 0)
            return kind;
    return -1;
}

static struct cursor *cursor_of(struct event_follow *f, const struct pipeline_analysis *analysis);

/* Those that a follower wants of it. */
static bool is_wanted(const struct event_follow *f, const struct pipeline_analysis *analysis)
{
    return (f->analysis[0] == '\0' || strcmp(f->analysis, analysis->config->name) == 0) &&
           (f->kind < 0 || (int)analysis->config->type->emits == f->kind);
}

/* Calls `visit` for each analysis of the process that is wanted. */
static void each(struct event_follow *f,
                 void (*visit)(struct event_follow *f, struct cursor *cursor,
                               const struct analysis_store *store, void *context),
                 void *context)
{
    const struct pipeline *pipeline;
    for (uint32_t at = 0;
         (pipeline = pipelines_next(f->process->pipelines, PIPELINES_ALL, &at)) != NULL;)
        for (uint32_t i = 0; i < pipeline->analysis_count; i++) {
            const struct pipeline_analysis *analysis = &pipeline->analyses[i];
            struct cursor *cursor = is_wanted(f, analysis) ? cursor_of(f, analysis) : NULL;
            if (cursor != NULL)
                visit(f, cursor, analysis_stage_store(analysis->stage), context);
        }
}

/* Finds or begins it. A store that comes later is followed from its first event on. */
static struct cursor *cursor_of(struct event_follow *f, const struct pipeline_analysis *analysis)
{
    const uint64_t id = analysis_store_id(analysis_stage_store(analysis->stage));
    struct cursor *cursor = f->cursors;
    while (cursor != NULL && cursor->store != id)
        cursor = cursor->next;
    if (cursor == NULL) {
        cursor = calloc(1, sizeof *cursor);
        if (cursor == NULL)
            return NULL;
        if (event_text_open(analysis->config->type, &analysis->options, &cursor->text) != 0) {
            free(cursor);
            return NULL;
        }
        cursor->store = id;
        cursor->next = f->cursors;
        f->cursors = cursor;
    }
    cursor->seen = true;
    return cursor;
}

/* Frees the cursors of stores that are gone. */
static void sweep(struct event_follow *f)
{
    for (struct cursor **at = &f->cursors; *at != NULL;) {
        struct cursor *cursor = *at;
        if (cursor->seen) {
            cursor->seen = false;
            at = &cursor->next;
            continue;
        }
        *at = cursor->next;
        event_text_close(cursor->text);
        free(cursor);
    }
}

/* ---- life -------------------------------------------------------------------------------- */

/* One that asks for no older events begins behind those that are there. */
static void begin(struct event_follow *f, struct cursor *cursor, const struct analysis_store *store,
                  void *context)
{
    (void)context;
    cursor->until = analysis_store_last(store);
    cursor->after = f->replay ? 0 : cursor->until;
}

struct event_follow *event_follow_open(const struct process *process, const json_t *request)
{
    struct event_follow *f = calloc(1, sizeof *f);
    const char *name = json_string_value(json_object_get(request, "analysis"));
    const json_t *since = json_object_get(request, "since");
    if (f == NULL)
        return NULL;
    f->process = process;
    snprintf(f->analysis, sizeof f->analysis, "%s", name != NULL ? name : "");
    f->kind = kind_of(json_string_value(json_object_get(request, "kind")));
    f->samples = json_is_true(json_object_get(request, "samples"));
    f->replay = since != NULL;
    f->since = since != NULL ? (uint64_t)json_integer_value(since) : 0;
    each(f, begin, NULL);
    return f;
}

void event_follow_close(struct event_follow *f)
{
    if (f == NULL)
        return;
    for (struct cursor *cursor = f->cursors; cursor != NULL; cursor = cursor->next)
        cursor->seen = false;
    sweep(f);
    free(f);
}

/* ---- lines ------------------------------------------------------------------------------- */

struct lines {
    FILE *out;
    char *text;
    size_t bytes;
    int events;
    uint64_t samples;
};

static bool is_full(const struct lines *lines)
{
    return lines->events >= EVENTS_A_WRITE || lines->samples >= SAMPLES_A_WRITE;
}

static void print_event(struct event_follow *f, struct cursor *cursor,
                        const struct analysis_store *store, struct lines *lines)
{
    struct analysis_event *event = &f->event.event;
    float *samples = NULL;
    if (f->samples && event->sample_count > 0)
        samples = malloc(event->sample_count * sizeof *samples);
    if (samples != NULL && analysis_store_samples(store, &f->event, samples)) {
        event->samples = samples;
        lines->samples += event->sample_count;
    }
    const char *text = event_text_json(cursor->text, event, true, NULL);
    if (text != NULL)
        fprintf(lines->out, "{\"analysis_event\":%s}\n", text);
    lines->events++;
    free(samples);
}

static void print_new(struct event_follow *f, struct cursor *cursor,
                      const struct analysis_store *store, void *context)
{
    struct lines *lines = context;
    while (!is_full(lines)) {
        uint64_t missed;
        const bool got = analysis_store_next(store, &cursor->after, &f->event, &missed);
        if (!got && missed == 0)
            return;
        if (lines->out == NULL &&
            (lines->out = open_memstream(&lines->text, &lines->bytes)) == NULL)
            return;
        /* Who asks for what is kept has not missed what is not. */
        if (missed > 0 && !(f->replay && cursor->after <= STORE_EVENTS))
            fprintf(lines->out, "{\"missed\":%" PRIu64 "}\n", missed);
        if (got && (!f->replay || f->event.event.number > f->since)) {
            print_event(f, cursor, store, lines);
            f->replayed++;
        }
        if (f->replay && cursor->after >= cursor->until)
            return; /* what was kept of the others comes before what is new */
    }
}

/* Says, once, that what was kept is told. */
static void print_replayed(struct event_follow *f, struct lines *lines)
{
    for (const struct cursor *cursor = f->cursors; cursor != NULL; cursor = cursor->next)
        if (cursor->after < cursor->until)
            return;
    if (lines->out == NULL && (lines->out = open_memstream(&lines->text, &lines->bytes)) == NULL)
        return;
    fprintf(lines->out, "{\"replayed\":%" PRIu64 "}\n", f->replayed);
    f->replay = false;
}

char *event_follow_lines(struct event_follow *f, size_t *bytes)
{
    struct lines lines = {0};
    each(f, print_new, &lines);
    sweep(f);
    if (f->replay)
        print_replayed(f, &lines);
    if (lines.out == NULL)
        return NULL;
    fclose(lines.out);
    *bytes = lines.bytes;
    if (lines.bytes > 0)
        return lines.text;
    free(lines.text);
    return NULL;
}
