/* Which of several workers computes a partition: see ownership.h. */
#include "stream/ownership.h"

#include <string.h>

static const int64_t ms = 1000000;

struct ownership_options ownership_usual(uint64_t identity)
{
    return (struct ownership_options){.identity = identity,
                                      .lease_ns = 1000 * ms,
                                      .ask_ns = 100 * ms,
                                      .read_ns = 200 * ms,
                                      .order_ns = 50 * ms,
                                      .patience_ns = 2000 * ms};
}

static bool owns(const struct ownership *o)
{
    return o->state == OWNERSHIP_RESUMING || o->state == OWNERSHIP_OWNING;
}

/* Appends without an outcome. */
static uint64_t pending(const struct ownership *o)
{
    return o->last_token + 1 - o->first_pending;
}

/* ---- following --------------------------------------------------------------------------- */

static void follow(struct ownership *o, int64_t now_ns)
{
    o->state = OWNERSHIP_FOLLOWING;
    o->releases = o->release_sent = false;
    o->known = false; /* read where the log ends now */
    o->heard_ns = now_ns;
    o->reading_ns = INT64_MIN;
    o->asked_ns = now_ns;
    o->silent = 0;
    o->vacant_ns = INT64_MAX;
    o->first_pending = o->last_token + 1;
}

/* The term has ended: whatever was under way counts no more. */
static void stop(struct ownership *o, int64_t now_ns, const char *why)
{
    o->waiting = (struct ownership_action){.kind = OWNERSHIP_STOP, .term = o->term, .why = why};
    follow(o, now_ns);
}

static void heard(struct ownership *o, int64_t now_ns)
{
    o->heard_ns = now_ns;
    o->looked = false;
    o->silent = 0;
    o->vacant_ns = INT64_MAX;
}

static bool nobody_owns(const struct ownership *o, int64_t now_ns)
{
    return o->newest.end.sequence == 0 || o->newest.released || o->silent >= 2 ||
           now_ns - o->heard_ns >= o->options.lease_ns;
}

static int64_t stands_at(const struct ownership *o)
{
    int64_t at = o->vacant_ns + (int64_t)o->rank * o->options.order_ns;
    if (o->newest.released && o->newest.given_to == RELEASE_FOR_THIS)
        at = o->vacant_ns;
    else if (o->newest.released && o->newest.given_to == RELEASE_FOR_ANOTHER)
        at += o->options.patience_ns;
    return at > o->rest_until_ns ? at : o->rest_until_ns;
}

/* ---- owning ------------------------------------------------------------------------------ */

static uint64_t send_append(struct ownership *o, int64_t now_ns, struct log_end *expect)
{
    const uint64_t token = ++o->last_token;
    *expect = o->tail;
    o->tail = (struct log_end){o->tail.sequence + 1, o->term, o->options.identity};
    o->sent_ns[token % OWNERSHIP_UNACKNOWLEDGED] = now_ns;
    o->appended_ns = now_ns;
    return token;
}

static bool may_append(const struct ownership *o)
{
    return pending(o) < OWNERSHIP_UNACKNOWLEDGED && !o->release_sent;
}

static bool next_as_owner(struct ownership *o, int64_t now_ns, struct ownership_action *action)
{
    enum ownership_kind kind = OWNERSHIP_NONE;
    if (pending(o) > 0 &&
        now_ns - o->sent_ns[o->first_pending % OWNERSHIP_UNACKNOWLEDGED] >= o->options.patience_ns)
        stop(o, now_ns, "no acknowledgement came");
    else if (o->releases && pending(o) == 0 && !o->release_sent)
        kind = OWNERSHIP_RELEASE;
    else if (now_ns - o->appended_ns >= o->options.lease_ns / 3 && may_append(o))
        kind = OWNERSHIP_BEAT;
    if (kind == OWNERSHIP_NONE)
        return false;
    *action = (struct ownership_action){.kind = kind, .term = o->term};
    action->token = send_append(o, now_ns, &action->expect);
    o->release_sent = kind == OWNERSHIP_RELEASE;
    return true;
}

bool ownership_append(struct ownership *o, int64_t now_ns, struct log_end *expect, uint64_t *token)
{
    if (o->state != OWNERSHIP_OWNING || !may_append(o) || o->releases)
        return false;
    *token = send_append(o, now_ns, expect);
    return true;
}

bool ownership_may_send(const struct ownership *o, int64_t now_ns)
{
    return o->state == OWNERSHIP_OWNING && now_ns - o->proven_ns < o->options.lease_ns;
}

void ownership_give_up(struct ownership *o, int64_t now_ns)
{
    if (owns(o))
        stop(o, now_ns, "no acknowledgement came for a lease");
}

bool ownership_answers(const struct ownership *o, uint64_t term)
{
    return owns(o) && o->term == term;
}

/* ---- what to do -------------------------------------------------------------------------- */

static bool next_read(struct ownership *o, int64_t now_ns, struct ownership_action *action)
{
    if (o->reading_ns != INT64_MIN && now_ns - o->reading_ns < o->read_wait_ns)
        return false;
    /* Soon at first, then less and less often: servers that elect a leader need their time. */
    const int64_t longer_ns = 2 * o->read_wait_ns;
    const bool first = o->reading_ns == INT64_MIN;
    o->read_wait_ns = first ? o->options.read_ns : longer_ns;
    if (o->read_wait_ns > o->options.patience_ns)
        o->read_wait_ns = o->options.patience_ns;
    o->reading_ns = now_ns;
    *action = (struct ownership_action){.kind = OWNERSHIP_READ};
    return true;
}

/* The newest question found nobody; or it has had its time, and no answer came at all. */
static bool unanswered(const struct ownership *o, int64_t now_ns)
{
    return o->silent == 1 || (o->silent == 0 && o->heard_ns < o->asked_ns &&
                              now_ns - o->asked_ns >= o->options.ask_ns);
}

static bool next_as_follower(struct ownership *o, int64_t now_ns, struct ownership_action *action)
{
    if (!o->known)
        return next_read(o, now_ns, action);
    if (nobody_owns(o, now_ns)) {
        if (o->vacant_ns == INT64_MAX)
            o->vacant_ns = now_ns;
        if (o->stands && now_ns >= stands_at(o)) {
            o->state = OWNERSHIP_READING;
            o->reading_ns = INT64_MIN;
            return next_read(o, now_ns, action);
        }
    }
    if (o->newest.end.sequence != 0 && unanswered(o, now_ns) && !o->looked &&
        o->vacant_ns == INT64_MAX) {
        o->looked = true;
        *action = (struct ownership_action){.kind = OWNERSHIP_READ};
        return true;
    }
    if (o->newest.end.sequence == 0 || now_ns - o->asked_ns < o->options.ask_ns)
        return false;
    o->asked_ns = now_ns;
    /* Nobody owns, and it is not this worker's turn: another one may have taken. */
    const bool reads = o->vacant_ns != INT64_MAX && (o->newest.released || !o->looked);
    if (o->vacant_ns != INT64_MAX)
        o->looked = reads;
    *action = (struct ownership_action){.kind = reads ? OWNERSHIP_READ : OWNERSHIP_ASK,
                                        .term = o->newest.end.term};
    return true;
}

bool ownership_next(struct ownership *o, int64_t now_ns, struct ownership_action *action)
{
    if (o->waiting.kind != OWNERSHIP_NONE) {
        *action = o->waiting;
        o->waiting.kind = OWNERSHIP_NONE;
        return true;
    }
    switch (o->state) {
    case OWNERSHIP_FOLLOWING:
        return next_as_follower(o, now_ns, action);
    case OWNERSHIP_READING:
        return next_read(o, now_ns, action);
    case OWNERSHIP_TAKING:
        /* Whether the take is in is not known; a later read tells. */
        if (now_ns - o->appended_ns >= o->options.patience_ns)
            follow(o, now_ns);
        return false;
    case OWNERSHIP_RESUMING:
    case OWNERSHIP_OWNING:
        return next_as_owner(o, now_ns, action);
    }
    return false;
}

static int64_t earlier(int64_t a, int64_t b)
{
    return a < b ? a : b;
}

static int64_t due_as_follower(const struct ownership *o)
{
    if (!o->known)
        return o->reading_ns == INT64_MIN ? INT64_MIN : o->reading_ns + o->read_wait_ns;
    int64_t due = o->heard_ns + o->options.lease_ns;
    if (o->newest.end.sequence != 0)
        due = earlier(due, o->asked_ns + o->options.ask_ns);
    if (o->vacant_ns != INT64_MAX)
        due = o->stands ? earlier(o->asked_ns + o->options.ask_ns, stands_at(o))
                        : o->asked_ns + o->options.ask_ns;
    return due;
}

int64_t ownership_due(const struct ownership *o)
{
    if (o->waiting.kind != OWNERSHIP_NONE)
        return INT64_MIN;
    switch (o->state) {
    case OWNERSHIP_FOLLOWING:
        return due_as_follower(o);
    case OWNERSHIP_READING:
        return o->reading_ns + o->read_wait_ns;
    case OWNERSHIP_TAKING:
        return o->appended_ns + o->options.patience_ns;
    case OWNERSHIP_RESUMING:
    case OWNERSHIP_OWNING:
        break;
    }
    int64_t due = o->appended_ns + o->options.lease_ns / 3;
    if (pending(o) > 0)
        due = earlier(due, o->sent_ns[o->first_pending % OWNERSHIP_UNACKNOWLEDGED] +
                               o->options.patience_ns);
    return due;
}

/* ---- what has happened ------------------------------------------------------------------- */

static void take(struct ownership *o, int64_t now_ns)
{
    o->state = OWNERSHIP_TAKING;
    /* Never a term of this run again, though the log went back behind it: an append of then that is
     * still under way would find the log to end as it expects. */
    o->term = (o->term > o->newest.end.term ? o->term : o->newest.end.term) + 1;
    o->tail = o->newest.end;
    o->first_pending = o->last_token + 1;
    struct ownership_action *action = &o->waiting;
    *action = (struct ownership_action){.kind = OWNERSHIP_TAKE, .term = o->term, .from = o->newest};
    action->token = send_append(o, now_ns, &action->expect);
}

static bool same_end(const struct log_end *a, const struct log_end *b)
{
    return a->sequence == b->sequence && a->term == b->term && a->owner == b->owner;
}

/* Whoever it was released for has had it: there is nobody left to wait for. */
static void rest_no_more(struct ownership *o)
{
    if (o->newest.end.term > o->term)
        o->rest_until_ns = INT64_MIN;
}

void ownership_read(struct ownership *o, int64_t now_ns, const struct log_mark *newest)
{
    const bool moved = !o->known || !same_end(&newest->end, &o->newest.end);
    /* The owner that nobody answers for has appended until then, and nobody else since. */
    const bool silent = o->silent > 0 && newest->end.term == o->newest.end.term,
               gone = silent && o->silent >= 2;
    if (o->state != OWNERSHIP_FOLLOWING && o->state != OWNERSHIP_READING)
        return;
    o->newest = *newest;
    o->known = true;
    rest_no_more(o);
    if (o->state == OWNERSHIP_FOLLOWING) {
        if (moved && !silent)
            heard(o, now_ns);
    } else if (moved && newest->end.sequence != 0 && !newest->released && !gone) {
        o->state = OWNERSHIP_FOLLOWING; /* somebody lives */
        heard(o, now_ns);
    } else if (!o->stands) {
        o->state = OWNERSHIP_FOLLOWING;
    } else {
        take(o, now_ns);
    }
}

void ownership_unread(struct ownership *o, int64_t now_ns)
{
    if (o->state == OWNERSHIP_READING || !o->known) /* again after one ask_ns */
        o->reading_ns = now_ns - o->read_wait_ns + o->options.ask_ns;
    o->looked = false;
}

void ownership_seen(struct ownership *o, int64_t now_ns, const struct log_mark *record)
{
    if (record->end.owner == o->options.identity)
        return;
    if (owns(o)) {
        /* Another one's record in our term's place: our next append would be refused. */
        if (record->end.sequence > o->tail.sequence - pending(o) && record->end.term > o->term)
            stop(o, now_ns, "another worker has taken over");
        return;
    }
    if (o->state == OWNERSHIP_TAKING || !o->known)
        return;
    o->newest = *record;
    rest_no_more(o);
    if (o->state == OWNERSHIP_READING && !record->released)
        o->state = OWNERSHIP_FOLLOWING;
    heard(o, now_ns);
}

void ownership_answered(struct ownership *o, int64_t now_ns, uint64_t term)
{
    if (o->state == OWNERSHIP_FOLLOWING && o->known && term == o->newest.end.term &&
        !o->newest.released)
        heard(o, now_ns);
}

void ownership_no_responders(struct ownership *o, int64_t now_ns, uint64_t term)
{
    (void)now_ns;
    if (o->state == OWNERSHIP_FOLLOWING && o->known && term == o->newest.end.term)
        o->silent++;
}

void ownership_resumed(struct ownership *o, int64_t now_ns)
{
    (void)now_ns;
    if (o->state == OWNERSHIP_RESUMING)
        o->state = OWNERSHIP_OWNING;
}

static bool is_pending(const struct ownership *o, uint64_t token)
{
    return token >= o->first_pending && token <= o->last_token &&
           (owns(o) || o->state == OWNERSHIP_TAKING);
}

void ownership_appended(struct ownership *o, int64_t now_ns, uint64_t token, uint64_t sequence)
{
    if (!is_pending(o, token))
        return;
    /* Acknowledgements come in the order of the appends; one that is missing was overtaken. */
    const uint64_t expected = o->tail.sequence - (o->last_token - token);
    if (sequence != expected) {
        stop(o, now_ns, "the log numbers its records otherwise");
        return;
    }
    o->proven_ns = o->sent_ns[token % OWNERSHIP_UNACKNOWLEDGED];
    o->first_pending = token + 1;
    if (o->state == OWNERSHIP_TAKING) {
        o->state = OWNERSHIP_RESUMING;
        o->waiting =
            (struct ownership_action){.kind = OWNERSHIP_RESUME, .term = o->term, .from = o->newest};
    } else if (o->release_sent && o->first_pending > o->last_token) {
        o->rest_until_ns = now_ns + o->options.patience_ns;
        stop(o, now_ns, "released");
    }
}

void ownership_failed(struct ownership *o, int64_t now_ns, uint64_t token, const char *why)
{
    if (!is_pending(o, token))
        return;
    if (o->state == OWNERSHIP_TAKING)
        follow(o, now_ns);
    else
        stop(o, now_ns, why);
}

void ownership_refused(struct ownership *o, int64_t now_ns, uint64_t token)
{
    ownership_failed(o, now_ns, token, "another worker has taken over, or the log went back");
}

/* ---- life -------------------------------------------------------------------------------- */

void ownership_stand(struct ownership *o, bool stands, uint32_t rank)
{
    o->stands = stands;
    o->rank = rank;
}

void ownership_reconnected(struct ownership *o, int64_t now_ns)
{
    o->reading_ns = INT64_MIN;
    o->looked = false;
    if (owns(o) && pending(o) > 0)
        stop(o, now_ns, "the way to the log was gone");
    else if (o->state == OWNERSHIP_TAKING)
        follow(o, now_ns);
}

void ownership_release(struct ownership *o)
{
    o->releases = owns(o) || o->state == OWNERSHIP_TAKING; /* once its take is through */
}

void ownership_open(struct ownership *o, const struct ownership_options *options, int64_t now_ns)
{
    memset(o, 0, sizeof *o);
    o->options = *options;
    o->rest_until_ns = INT64_MIN;
    o->proven_ns = INT64_MIN / 2;
    follow(o, now_ns);
}
