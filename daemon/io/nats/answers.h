/*
 * Answers: what servers say, as plain data: acknowledgements of appends, answers of JetStream's API
 * (JSON), and where a delivered message stands in its log. Nothing is trusted: what does not have
 * its form is no answer.
 *
 * Pure functions, any thread. nats_ack_read never allocates.
 */
#ifndef CONVOLVD_IO_NATS_ANSWERS_H
#define CONVOLVD_IO_NATS_ANSWERS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum {
    NATS_TEXT_BYTES = 200,
    NATS_ID_BYTES = 64, /* of a record's identity, terminated */
};

/* The answer to an append. */
struct nats_ack {
    uint64_t sequence; /* 0: refused, as `text` says */
    bool id_unknown;   /* refused, because the server does not know the newest record's id */
    bool fault;        /* refused, though the condition may hold … */
    bool full;         /* … because the servers can store nothing */
    char text[NATS_TEXT_BYTES];
};

/* False: it is no answer to an append. */
bool nats_ack_read(const char *json, size_t bytes, struct nats_ack *ack);

/* The answer to a request of the API. */
struct nats_answer {
    bool failed; /* code and text say why */
    int code;    /* JetStream's err_code */
    char text[NATS_TEXT_BYTES];
    bool has_state;       /* STREAM.INFO: `first` and `last` are given */
    uint32_t replicas;    /* likewise; 0: not given */
    bool led;             /* likewise: its leader hears from enough of them to store records */
    bool made;            /* STREAM.CREATE: there was no such log */
    uint64_t first, last; /* STREAM.INFO: sequence numbers of the log */
    uint64_t sequence;    /* STREAM.MSG.GET */
    int64_t appended_ns;  /* likewise; realtime of the server */
    uint8_t *data;        /* likewise, the caller's to free */
    size_t bytes;
};

enum {
    NATS_CODE_UNAVAILABLE = 10008, /* this server knows no leader */
    NATS_CODE_NO_MESSAGE = 10037,
    NATS_CODE_WRONG_ID = 10070,
    NATS_CODE_WRONG_SEQUENCE = 10071,
    NATS_CODE_NO_STREAM = 10059,
    NATS_CODE_STREAM_EXISTS = 10058,
};

/* False: it is no answer of the API. */
bool nats_answer_read(const char *json, size_t bytes, struct nats_answer *answer);

/* Where a delivered message stands, from the subject of its acknowledgement. */
struct nats_place {
    uint64_t sequence;  /* in the log */
    uint64_t delivered; /* 1, 2, … of this consumer */
    uint32_t consumer;  /* the number behind the last '-' of its name; 0: there is none */
};
bool nats_place_read(const char *reply, struct nats_place *place);

/* The identity of a record: "number.term.owner". */
void nats_id(char text[NATS_ID_BYTES], uint64_t sequence, uint64_t term, uint64_t owner);

#endif
