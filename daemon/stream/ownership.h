/*
 * Ownership: which of several workers computes a partition, decided by one log that all of them
 * append to on condition of its last record. This is the protocol of one
 * worker as a state machine without a socket, a thread or a clock of its own: it is told what has
 * happened and when, and says what to do next.
 *
 *     follow ── nobody owns ──► read ──► take ──► resume ──► own ──┐
 *       ▲                                                          │ refused, or 2 s without an
 *       └──────────────────────────────────────────────────────────┘ acknowledgement, or released
 *
 * A follower asks the owner for a sign of life. When a question stays without an answer, it reads
 * where the log ends: an owner that appends lives, and one that has not appended until the lease is
 * over is dead. The same reading, after the first question that finds nobody, tells an owner that
 * has released the partition from one that may be connecting again. Without that reading a follower
 * that has only asked so far could not tell what was appended before the owner fell silent from
 * what was appended since, and would wait for a second lease.
 *
 * What makes it exact is the condition alone: each append names the record that the log must end
 * with. An owner's appends follow each other without a gap, so an append of somebody else in
 * between, or a log that went back, refuses all that come after it. Leases, answers and orders
 * of candidates decide how soon somebody takes over, never whether a frame is lost or doubled.
 *
 * The caller performs each action and reports its outcome; an outcome may be late, or never come.
 * io/nats/appender.h connects it to a log.
 *
 * Times are monotonic nanoseconds of this process. One thread; never allocates.
 */
#ifndef CONVOLVD_STREAM_OWNERSHIP_H
#define CONVOLVD_STREAM_OWNERSHIP_H

#include <stdbool.h>
#include <stdint.h>

enum {
    OWNERSHIP_UNACKNOWLEDGED = 32, /* appends under way at once */
};

/* A record by which a log is known to end: its sequence number, and who appended it in which term.
 * The number alone is not enough: a log that went back may have grown again to the same length. */
struct log_end {
    uint64_t sequence; /* 0: the log is empty */
    uint64_t term;     /* 1, 2, …: each taking over begins one */
    uint64_t owner;    /* an identity of one run of one worker */
};

/* For whom an owner has given the partition up. Nobody else stands before patience is over. */
enum release_for { RELEASE_FOR_ANY, RELEASE_FOR_THIS, RELEASE_FOR_ANOTHER };

/* The newest record of the log, as far as ownership goes. */
struct log_mark {
    struct log_end end;
    bool released;             /* the owner has given the partition up */
    enum release_for given_to; /* … for whom */
    uint64_t epoch, next;      /* first frame that is not in the log yet */
};

enum ownership_kind {
    OWNERSHIP_NONE,
    OWNERSHIP_READ, /* ask for the newest record: ownership_read, ownership_unread */
    OWNERSHIP_ASK, /* ask the owner of `term` for a sign of life: ownership_answered, _no_responders
                    */
    /* Append a record of this kind, on condition that the log ends with `expect`: its outcome is
     * told with `token`. */
    OWNERSHIP_TAKE,
    OWNERSHIP_BEAT,
    OWNERSHIP_RELEASE,
    OWNERSHIP_RESUME, /* begin to compute at `from.next` of `from.epoch`, then ownership_resumed */
    OWNERSHIP_STOP,   /* compute no more; `why` says why */
};

struct ownership_action {
    enum ownership_kind kind;
    uint64_t token, term;
    struct log_end expect; /* of an append: the log must end with this record */
    struct log_mark from;  /* RESUME */
    const char *why;       /* STOP */
};

struct ownership_options {
    uint64_t identity; /* never 0, never used by another run */
    int64_t lease_ns;  /* without a sign of life for so long, an owner is taken for dead */
    int64_t ask_ns;    /* between two questions for it */
    int64_t read_ns;   /* between two reads, where the first has no answer; then twice as long each
                          time */
    int64_t order_ns;  /* candidates stand so far apart, in the order of their rank */
    int64_t patience_ns; /* an append without an outcome for so long ends the term */
};

/* The usual ones: 1 s, 0.1 s, 0.2 s, 50 ms, 2 s. */
struct ownership_options ownership_usual(uint64_t identity);

enum ownership_state {
    OWNERSHIP_FOLLOWING,
    OWNERSHIP_READING,  /* before it stands */
    OWNERSHIP_TAKING,   /* its take is under way */
    OWNERSHIP_RESUMING, /* it owns, and prepares to compute */
    OWNERSHIP_OWNING,
};

/* All of it; the members are for ownership.c and tests. */
struct ownership {
    struct ownership_options options;
    enum ownership_state state;
    struct log_mark newest; /* as far as known */
    bool known;             /* it has been read once */
    bool stands;            /* may take */
    uint32_t rank;          /* among the candidates: 0 the first */
    int64_t heard_ns; /* the owner's last sign of life, or since when there is none to expect */
    int64_t asked_ns, reading_ns;
    int64_t read_wait_ns;  /* from reading_ns to the next read */
    bool looked;           /* since then, where the log ends was read */
    uint32_t silent;       /* questions in a row without a responder */
    int64_t vacant_ns;     /* since when nobody owns; INT64_MAX: somebody does */
    int64_t rest_until_ns; /* after a release: others first, until one of them has taken */

    /* as owner */
    uint64_t term, last_token;
    struct log_end tail;                       /* what the log ends with once all appends are in */
    uint64_t first_pending;                    /* token of the oldest append without an outcome */
    int64_t sent_ns[OWNERSHIP_UNACKNOWLEDGED]; /* by token */
    int64_t proven_ns;                         /* when the newest acknowledged append was sent */
    int64_t appended_ns;                       /* when the newest append was sent */
    bool releases, release_sent;
    struct ownership_action waiting; /* RESUME or STOP not fetched yet */
};

void ownership_open(struct ownership *o, const struct ownership_options *options, int64_t now_ns);

/* What to do now; false: nothing until something happens or ownership_due. */
bool ownership_next(struct ownership *o, int64_t now_ns, struct ownership_action *action);
/* When ownership_next has to be asked again though nothing happens; INT64_MAX: never. */
int64_t ownership_due(const struct ownership *o);

/* Whether it may take the partition (capacity, configuration), and its place among candidates. */
void ownership_stand(struct ownership *o, bool stands, uint32_t rank);
/* The way to the log was gone and is back: nothing asked before is answered, and what was under way
 * may have got lost. */
void ownership_reconnected(struct ownership *o, int64_t now_ns);
/* As owner: give it up as soon as all appends are acknowledged. */
void ownership_release(struct ownership *o);

/* ---- what has happened ------------------------------------------------------------------- */

void ownership_read(struct ownership *o, int64_t now_ns, const struct log_mark *newest);
void ownership_unread(struct ownership *o, int64_t now_ns); /* no answer */
/* Somebody's record was delivered to us, in the order of the log. */
void ownership_seen(struct ownership *o, int64_t now_ns, const struct log_mark *record);
void ownership_answered(struct ownership *o, int64_t now_ns, uint64_t term);
void ownership_no_responders(struct ownership *o, int64_t now_ns, uint64_t term);
void ownership_resumed(struct ownership *o, int64_t now_ns);
/* Of the append with this token: it is in the log as `sequence`, or the condition did not hold. */
void ownership_appended(struct ownership *o, int64_t now_ns, uint64_t token, uint64_t sequence);
void ownership_refused(struct ownership *o, int64_t now_ns, uint64_t token);
/* … or it was not stored for another reason, which outlives the term. */
void ownership_failed(struct ownership *o, int64_t now_ns, uint64_t token, const char *why);

/* ---- the owner's records ----------------------------------------------------------------- */

/* As owner: a record of data may be appended now, on condition `expect`, reported under `token`.
 * False: not an owner, or OWNERSHIP_UNACKNOWLEDGED are under way. */
bool ownership_append(struct ownership *o, int64_t now_ns, struct log_end *expect, uint64_t *token);

/* Whether results may go to other sinks: it owns, and an append sent within the last lease has been
 * acknowledged, so that nobody can have taken over before. */
bool ownership_may_send(const struct ownership *o, int64_t now_ns);
/* It may not: the term ends, though an acknowledgement may still come. */
void ownership_give_up(struct ownership *o, int64_t now_ns);
/* Whether to answer a question for the owner of `term`. */
bool ownership_answers(const struct ownership *o, uint64_t term);

#endif
