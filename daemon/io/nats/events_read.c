/* What a term reads of the events of a log: see events_read.h. */
#include "io/nats/events_read.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "core/codec.h"
#include "core/log.h"
#include "io/nats/carried.h"
#include "wire/crc32c.h"

enum { STATE_VERSION = 1, NAME_BYTES = 128, NUMBERS_OF_A_TERM = 24 };

/* ---- what a checkpoint is made of -------------------------------------------------------- */

struct entry {
    char name[NAME_BYTES];
    uint64_t number;
    uint32_t chain;
};

static void walk_entry(struct codec *c, struct entry *entry)
{
    codec_text(c, entry->name, sizeof entry->name);
    codec_u64(c, &entry->number);
    codec_u32(c, &entry->chain);
}

static void write_all(const struct nats_events *e, struct codec *c, const uint8_t *states,
                      size_t states_bytes)
{
    uint32_t version = STATE_VERSION, count = e->count;
    uint64_t bytes = states_bytes;
    codec_u32(c, &version);
    codec_u32(c, &count);
    for (uint32_t i = 0; i < count; i++) {
        struct entry entry = {.number = e->of[i].number, .chain = e->of[i].chain};
        const char *name = e->host.name(e->host.context, i);
        memcpy(entry.name, name, strnlen(name, sizeof entry.name - 1));
        walk_entry(c, &entry);
    }
    codec_u64(c, &bytes);
    codec_span(c, &states, states_bytes);
}

uint8_t *nats_events_write_state(const struct nats_events *e, uint32_t *bytes)
{
    size_t count;
    uint8_t *states = e->host.write(e->host.context, &count), *made = NULL;
    if (states == NULL)
        return NULL;
    struct codec counter = codec_counter();
    write_all(e, &counter, states, count);
    if (counter.at <= UINT32_MAX && (made = malloc(counter.at)) != NULL) {
        struct codec writer = codec_writer(made, counter.at);
        write_all(e, &writer, states, count);
        *bytes = (uint32_t)counter.at;
    }
    free(states);
    return made;
}

void nats_events_write_head(const struct logged_part *part, uint8_t *out)
{
    struct logged_part head = *part;
    const uint32_t bytes = part->bytes.count;
    head.bytes.count = 0;
    logged_write(&head, out);
    for (int i = 0; i < 4; i++) /* of the bytes behind it */
        out[4 + i] = (uint8_t)(bytes >> 8 * i);
}

/* The analysis of this name; NULL: there is none. */
static struct nats_events_of *find(const struct nats_events *e, const void *name, size_t count)
{
    for (uint32_t i = 0; i < e->count; i++) {
        const char *own = e->host.name(e->host.context, i);
        if (strlen(own) == count && memcmp(own, name, count) == 0)
            return &e->of[i];
    }
    return NULL;
}

/* What was read becomes that of the analyses. */
static bool restore(struct nats_events *e)
{
    struct codec c = codec_reader(e->state, e->state_bytes);
    uint32_t version, count;
    uint64_t bytes;
    const uint8_t *states;
    codec_u32(&c, &version);
    codec_u32(&c, &count);
    if (c.failed || version != STATE_VERSION)
        return false;
    for (uint32_t i = 0; i < count && !c.failed; i++) {
        struct entry entry = {0};
        walk_entry(&c, &entry);
        struct nats_events_of *of = find(e, entry.name, strnlen(entry.name, sizeof entry.name));
        if (of == NULL)
            continue;
        of->number = entry.number;
        of->chain = entry.chain;
        if (!of->logged.started)
            of->logged = (struct logged_position){true, entry.number + 1, entry.chain};
    }
    codec_u64(&c, &bytes);
    if (c.failed || bytes != e->state_bytes - c.at)
        return false;
    codec_span(&c, &states, (size_t)bytes);
    return !c.failed && e->host.read(e->host.context, states, (size_t)bytes);
}

/* ---- beginning --------------------------------------------------------------------------- */

/* Numbers that no term before has used: what those had is not known. A log begins with 1, 2, … */
static uint64_t unused_number(const struct nats_events *e)
{
    return e->untouched ? 0 : (e->until - 1) << NUMBERS_OF_A_TERM;
}

/* There is no state to go on from: the analyses begin with the first frame of this term. */
static void begin_anew(struct nats_events *e)
{
    (void)e->host.read(e->host.context, NULL, 0);
    for (uint32_t i = 0; i < e->count; i++) {
        struct nats_events_of *of = &e->of[i];
        of->number = of->logged.started ? of->logged.next - 1 : unused_number(e);
        of->chain = of->logged.started ? of->logged.chain : 0;
        of->logged = (struct logged_position){true, of->number + 1, of->chain};
    }
    nats_appender_ready(e->appender);
    nats_events_live(e);
}

static void give_up(struct nats_events *e, const char *why)
{
    log_warning("sink %s: the analyses of partition %s begin anew: %s", e->name, e->partition, why);
    begin_anew(e);
}

void nats_events_read(struct nats_events *e)
{
    memset(e->of, 0, e->count * sizeof *e->of);
    e->state_bytes = e->state_at = 0;
    e->state_sum = 0;
    e->read_from = e->checkpoint;
    if (e->checkpoint == 0 || e->checkpoint >= e->until) {
        begin_anew(e);
        return;
    }
    e->phase = EVENTS_READING;
    nats_link_follow(e->link, e->checkpoint);
}

/* ---- the first time ---------------------------------------------------------------------- */

static void take_state(struct nats_events *e, const struct logged_part *part)
{
    if (e->state_bytes > 0 && e->state_at == e->state_bytes)
        return; /* a later one, which was not completed */
    if (part->number == 0) {
        free(e->state);
        e->state = malloc(part->count);
        e->state_bytes = e->state != NULL ? part->count : 0;
        e->state_sum = part->chain;
        e->state_at = 0;
    }
    if (part->number != e->state_at || part->count != e->state_bytes ||
        part->chain != e->state_sum || e->state == NULL)
        return;
    memcpy(e->state + e->state_at, part->bytes.bytes, part->bytes.count);
    e->state_at += part->bytes.count;
}

static void take_logged(struct nats_events *e, const struct logged_part *part)
{
    size_t skip;
    struct nats_events_of *of = find(e, part->name.bytes, part->name.count);
    if (of != NULL && logged_follow(&of->logged, part, &skip) == LOGGED_FORK)
        log_error("sink %s: partition %s has two runs of events under the same numbers", e->name,
                  e->partition);
}

static void take_parts(struct nats_events *e, const struct record *r)
{
    struct logged_part part;
    size_t at = 0;
    while (logged_read(&r->analysis, &at, &part)) {
        if (part.form == LOGGED_STATE)
            take_state(e, &part);
        else
            take_logged(e, &part);
    }
    if (at != r->analysis.count)
        log_error("sink %s: partition %s: record %" PRIu64 " of events is malformed", e->name,
                  e->partition, e->event.sequence);
}

static void begin_replay(struct nats_events *e)
{
    const bool whole = e->state_bytes > 0 && e->state_at == e->state_bytes &&
                       crc32c(0, e->state, e->state_bytes) == e->state_sum;
    const bool restored = whole && restore(e);
    free(e->state);
    e->state = NULL;
    if (!restored) {
        give_up(e, whole ? "they cannot go on from the checkpoint" : "the checkpoint is not whole");
        return;
    }
    e->phase = EVENTS_REPLAYING;
    e->read_from = e->checkpoint;
    nats_appender_ready(e->appender); /* events that the log has not got may be appended */
    nats_link_follow(e->link, e->checkpoint);
}

/* ---- both -------------------------------------------------------------------------------- */

/* The record before `until` is the last one: that is this term's take. */
static void reached(struct nats_events *e)
{
    if (e->phase == EVENTS_READING)
        begin_replay(e);
    else
        nats_events_live(e);
}

/* Of the second time; false: the analyses have no room. */
static bool replay(struct nats_events *e)
{
    const struct record *r = &e->event.record;
    if (r->kind == RECORD_DATA && e->host.room(e->host.context) < r->frames)
        return false;
    if (r->kind == RECORD_DATA)
        nats_events_put(e, r);
    return true;
}

static void take_record(struct nats_events *e)
{
    if (e->event.sequence < e->read_from)
        return; /* of what was followed before */
    if (e->event.sequence > e->read_from) {
        give_up(e, "records of the log are missing");
        return;
    }
    e->read_from = e->event.sequence + 1;
    if (e->phase == EVENTS_READING && e->event.record.kind == RECORD_ANALYSIS)
        take_parts(e, &e->event.record);
    e->held = e->phase == EVENTS_REPLAYING && !replay(e);
    if (e->read_from >= e->until && !e->held)
        reached(e);
}

static void take_event(struct nats_events *e)
{
    switch (e->event.kind) {
    case LINK_RECORD:
        take_record(e);
        break;
    case LINK_LAPSED:
        give_up(e, "the log has dropped the checkpoint");
        break;
    case LINK_DAMAGED:
        give_up(e, "a record of the log is damaged");
        break;
    default:
        break;
    }
}

void nats_events_read_on(struct nats_events *e)
{
    if (e->held) {
        e->held = !replay(e);
        if (!e->held && e->read_from >= e->until)
            reached(e);
    }
    while (!e->held && (e->phase == EVENTS_READING || e->phase == EVENTS_REPLAYING) &&
           nats_link_next(e->link, &e->event))
        take_event(e);
}

void nats_events_read_none(struct nats_events *e)
{
    while (nats_link_next(e->link, &e->event)) {
    }
}
