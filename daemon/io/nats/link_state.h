/* What link.c, follow.c and served.c share of a link; nobody else includes it. */
#ifndef CONVOLVD_IO_NATS_LINK_STATE_H
#define CONVOLVD_IO_NATS_LINK_STATE_H

#include "core/log.h"
#include "core/spsc.h"
#include "io/nats/link.h"
#include "io/sink_thread.h"

/* What stands behind the inbox in the subject that an answer comes to: a letter and a number. */
enum answer_kind {
    ANSWER_APPEND = 'a', /* token */
    ANSWER_READ = 'r',   /* tag */
    ANSWER_OWNER = 'q',  /* term */
    ANSWER_CREATE = 'n',
    ANSWER_INFO = 'i', /* the others: generation of what is followed */
    ANSWER_VERIFY = 'v',
    ANSWER_OPEN = 'c',
    ANSWER_DELIVERY = 'd',
    ANSWER_PROBE = 'p',
    ANSWER_FETCH = 'f',
    ANSWER_LENGTH = 'l',
    ANSWER_KEPT = 'k',   /* how the log is kept, and whether it is led */
    ANSWER_NUDGE = 'u',  /* of served.c */
    ANSWER_NOBODY = 'x', /* of no interest */
};

/* What has been asked of the log without an outcome. */
enum link_request {
    REQUEST_APPEND,
    REQUEST_READ,
    REQUEST_FOLLOW, /* until a consumer is open */
    LINK_REQUESTS,
};

enum follow_state {
    FOLLOW_NOTHING,
    FOLLOW_ASKING,    /* what the log has */
    FOLLOW_VERIFYING, /* whether the record before is the one that was delivered */
    FOLLOW_OPENING,
    FOLLOW_OPEN,
    FOLLOW_FETCHING, /* records one by one, from the leader */
};

struct follow {
    enum follow_state state;
    uint32_t generation; /* of the consumer */
    uint64_t next;       /* sequence number */
    uint64_t delivered;  /* by this consumer */
    int64_t heard_ns;    /* the server's last sign of life, for the state */
    uint64_t last;       /* of the log, when it was last asked */
    bool barren;         /* consumers bring nothing, though the log has records */
    bool probing;        /* the leader is being asked, beside an open consumer */
    uint64_t probed;     /* `next` when the leader had more; 0: it had not */
    int64_t probe_ns;    /* when to ask it */
    int64_t poll_at_ns;  /* FETCHING: when to ask for the next record; INT64_MAX: it is asked for */
    int64_t fetch_until_ns;
    bool checksum_known; /* of the record before `next` */
    uint32_t checksum;
    uint64_t reopened;
};

struct nats_link {
    /* immutable after open */
    struct nats_link_options options;
    struct sink_thread_options thread_options;

    /* loop thread */
    bool started;
    natsMsg *current;      /* what the event last fetched points into */
    uint8_t *current_data; /* likewise */
    bool connected;        /* as told */
    uint64_t connections;
    bool id_unknown;   /* the server does not know the newest record's identity */
    int64_t newest_ns; /* realtime of the newest record that we know of */
    uint64_t received, bytes_received;
    int64_t asked_ns[LINK_REQUESTS]; /* the first one since the log answered; 0: none */
    uint32_t replicas;               /* of the log; 0: not known since the connection was made */
    uint64_t newest_token;           /* of the newest append */
    int64_t ask_kept_ns, nudge_ns;   /* of served.c, when to do what next */
    int64_t nudge_until_ns;
    char question[NATS_SUBJECT_BYTES]; /* where the answer to the newest question goes */
    char hears[NATS_SUBJECT_BYTES];    /* as nats_link_hear; empty: nothing */
    struct follow follow;
    void (*closed)(void *context);
    void *closed_context;

    /* publishing thread */
    int tried, rounds;    /* servers of this round, and rounds, without a connection */
    bool refused;         /* a server of this round has refused the user */
    int64_t connected_ns; /* monotonic: the newest connection was made */
    struct log_limit refusals, moves, away, denials;

    /* shared */
    struct sink_thread thread;         /* the publishing thread */
    struct nats_connection connection; /* its functions are the publishing thread's */
    struct spsc arrivals;              /* natsMsg: libnats' delivery thread → loop */
    struct spsc spent;                 /* natsMsg: loop → publishing thread, to be destroyed */
    struct spsc unsent;                /* tokens: publishing thread → loop */
    _Atomic bool elsewhere;            /* another server is wanted */
    bool abandoned;                    /* libnats does not end */
    _Atomic uint64_t published, bytes_published;
};

/* Queues a message; `reply` 0: nobody is to answer. False: no room. */
bool link_publish(struct nats_link *link, const char *subject, enum answer_kind reply,
                  uint64_t number, const char *payload);

/* Queues that the messages of `subject` are taken from now on; empty: none. False: no room. */
bool link_subscribe(struct nats_link *link, enum nats_interest interest, const char *subject);

/* Something was asked of the log; the log has answered. */
void link_asked(struct nats_link *link, enum link_request request);
void link_served(struct nats_link *link, enum link_request request);

/* Asks how the log is kept, and whether it is led. */
void link_ask_kept(struct nats_link *link);
/* The answer to that. */
void served_kept(struct nats_link *link, const struct nats_answer *answer);
/* An append that can never be stored was answered: true with an event for those before it. */
bool served_nudged(struct nats_link *link, struct nats_event *event);
/* Queues such an append. False: no room. */
bool link_nudge(struct nats_link *link);

/* One that belongs to what is followed: true with an event, false when it was consumed. */
bool follow_take(struct nats_link *link, enum answer_kind kind, uint32_t generation,
                 natsMsg *message, struct nats_event *event);
/* The connection is there again. */
void follow_again(struct nats_link *link);
/* As nats_link_due and nats_link_tick. */
int64_t follow_due(const struct nats_link *link);
void follow_tick(struct nats_link *link, int64_t now_ns);

#endif
