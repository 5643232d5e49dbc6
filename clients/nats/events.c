/* Events of a log for its reader: see events.h. */
#include "events.h"

#include <stdlib.h>
#include <string.h>

enum { ANALYSES_MOST = 1024 }; /* of one log; no daemon has so many */

/* Where the reader stands in one analysis. */
struct place {
    struct logged_position position;
    char name[LOGGED_NAME_MAX + 1];
};

struct log_events {
    struct place *places;
    size_t place_count;

    struct record_span analysis; /* of the record */
    size_t at;                   /* in it: behind the part */
    struct logged_part part;
    const struct place *place;
    size_t line;     /* in the part's bytes: where the next line begins */
    uint64_t number; /* of that line */
    uint64_t lost;   /* before it */

    char *text; /* of the event handed out */
    size_t text_bytes;
};

struct log_events *log_events_open(void)
{
    return calloc(1, sizeof(struct log_events));
}

void log_events_close(struct log_events *e)
{
    if (e == NULL)
        return;
    free(e->places);
    free(e->text);
    free(e);
}

/* Of the part's analysis; NULL: no memory, or too many. */
static struct place *place_of(struct log_events *e, const struct record_span *name)
{
    for (size_t i = 0; i < e->place_count; i++)
        if (strlen(e->places[i].name) == name->count &&
            memcmp(e->places[i].name, name->bytes, name->count) == 0)
            return &e->places[i];
    struct place *all = e->place_count < ANALYSES_MOST
                            ? realloc(e->places, (e->place_count + 1) * sizeof *all)
                            : NULL;
    if (all == NULL)
        return NULL;
    e->places = all;
    struct place *place = &all[e->place_count++];
    memset(place, 0, sizeof *place);
    memcpy(place->name, name->bytes, name->count);
    return place;
}

void log_events_take(struct log_events *e, const struct record *record)
{
    e->analysis = record->analysis;
    e->at = e->line = 0;
    e->part = (struct logged_part){0};
}

/* The next part with events that are new: 1; 0: there is none. */
static int next_part(struct log_events *e)
{
    while (logged_read(&e->analysis, &e->at, &e->part)) {
        if (e->part.form != LOGGED_EVENTS)
            continue;
        struct place *place = place_of(e, &e->part.name);
        if (place == NULL)
            return CONVOLV_ERROR_MEMORY;
        const struct logged_position before = place->position;
        const enum logged_step step = logged_follow(&place->position, &e->part, &e->line);
        if (step == LOGGED_FORK)
            return CONVOLV_ERROR_FORMAT;
        if (step == LOGGED_SEEN)
            continue;
        e->place = place;
        e->number = before.started && before.next > e->part.number ? before.next : e->part.number;
        e->lost = step == LOGGED_LOST ? e->part.number - before.next : 0;
        return 1;
    }
    e->part = (struct logged_part){0};
    return 0;
}

/* The line at `line`, as text of its own; false: no memory. */
static bool copy_line(struct log_events *e, size_t bytes)
{
    if (bytes >= e->text_bytes) {
        char *text = realloc(e->text, bytes + 1);
        if (text == NULL)
            return false;
        e->text = text;
        e->text_bytes = bytes + 1;
    }
    memcpy(e->text, e->part.bytes.bytes + e->line, bytes);
    e->text[bytes] = '\0';
    return true;
}

int log_events_next(struct log_events *e, struct convolv_log_event *event)
{
    if (e->line == e->part.bytes.count) {
        const int got = next_part(e);
        if (got != 1)
            return got;
    }
    const uint8_t *from = e->part.bytes.bytes + e->line;
    const uint8_t *end = memchr(from, '\n', e->part.bytes.count - e->line);
    const size_t bytes = (size_t)(end - from); /* each line has its end: logged_read */
    if (!copy_line(e, bytes))
        return CONVOLV_ERROR_MEMORY;
    *event = (struct convolv_log_event){.analysis = e->place->name,
                                        .number = e->number,
                                        .lost = e->lost,
                                        .json = e->text,
                                        .length = bytes};
    e->line += bytes + 1;
    e->number++;
    e->lost = 0;
    return 1;
}
