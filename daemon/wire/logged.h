/*
 * What records of kind `analysis` carry (wire/record.h): parts, one behind the other, each of them
 * events of one analysis, or a piece of what all analyses hold (docs/cluster.md gives it byte by
 * byte):
 *
 *     | form | reserved | name bytes | bytes | number | count | chain before | chain | reserved |
 *     | name | bytes … |                                                              head 32
 *
 * Events are lines of JSON, in the order of their analysis, numbered 1, 2, … by the log. Their
 * chain is the CRC-32C of all lines of that analysis up to there, and does not depend on how they
 * are cut into records, nor on who appended them.
 *
 * Pure functions, any thread. Reading trusts no byte (fuzzed). libconvolv-nats links this module
 * too.
 */
#ifndef CONVOLVD_WIRE_LOGGED_H
#define CONVOLVD_WIRE_LOGGED_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "wire/record.h"

enum { LOGGED_HEAD_BYTES = 32, LOGGED_NAME_MAX = 255 };

enum logged_form {
    LOGGED_EVENTS = 1,
    LOGGED_STATE = 2, /* of all analyses; it may need several records */
};

struct logged_part {
    uint8_t form;             /* enum logged_form */
    struct record_span name;  /* EVENTS: of the analysis; STATE: empty */
    uint64_t number;          /* EVENTS: of the first one; STATE: of the first byte, from 0 */
    uint32_t count;           /* EVENTS: lines, at least 1; STATE: bytes of the whole state */
    uint32_t chain_before;    /* EVENTS: of all lines before; STATE: 0 */
    uint32_t chain;           /* EVENTS: and with these; STATE: CRC-32C of the whole state */
    struct record_span bytes; /* EVENTS: lines, each with its newline */
};

/* Bytes of the part. */
size_t logged_bytes(const struct logged_part *part);
/* Writes exactly logged_bytes bytes. */
void logged_write(const struct logged_part *part, uint8_t *out);

/* Reads the part at *at of `analysis`, and moves *at behind it. False: there is none, or it is
 * malformed; *at is analysis->count where all were read. */
bool logged_read(const struct record_span *analysis, size_t *at, struct logged_part *part);

/* ---- following the events of one analysis ------------------------------------------------ */

/* Where a reader stands; all zero at the start. */
struct logged_position {
    bool started;
    uint64_t next; /* number of the first event that it has not got; 0: none was read */
    uint32_t chain;
};

enum logged_step {
    LOGGED_NEW,  /* lines from *skip on are new */
    LOGGED_SEEN, /* the reader has all of them */
    LOGGED_LOST, /* as LOGGED_NEW, but events between are missing that the log had once */
    LOGGED_FORK, /* other events under the same numbers */
};

/* What events are to a reader at this position, and moves it behind them unless they are SEEN or a
 * FORK. *skip: how many bytes of the lines the reader has. */
enum logged_step logged_follow(struct logged_position *position, const struct logged_part *part,
                               size_t *skip);

#endif
