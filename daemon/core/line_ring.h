/*
 * Line ring: a bounded queue of short texts from any number of threads to one. The writers format
 * straight into its slots. Nobody allocates, locks or waits: a full ring refuses and counts.
 *
 *     writers: claim ─► fill ─► publish          reader: front ─► use ─► release
 *
 * Each slot carries a turn (D. Vyukov, "Bounded MPMC queue"): a writer claims position p when the
 * slot's turn is p, publishes it as p + 1, and the reader hands it back as p + slots. Positions are
 * read in the order in which they were claimed, so the lines of one thread keep their order. A
 * writer that is preempted between claim and publish delays the reader, never another writer.
 *
 * Any thread writes; one thread reads.
 */
#ifndef CONVOLVD_CORE_LINE_RING_H
#define CONVOLVD_CORE_LINE_RING_H

#include <stdatomic.h>
#include <stdint.h>

enum { LINE_RING_SLOTS = 512, LINE_TEXT_BYTES = 1024 };

struct line {
    _Atomic uint64_t turn; /* the ring's own */
    int level;
    char text[LINE_TEXT_BYTES];
};

struct line_ring {
    struct line lines[LINE_RING_SLOTS];
    _Atomic uint64_t head;    /* the next position to claim */
    uint64_t tail;            /* reader only: the next position to read */
    _Atomic uint64_t refused; /* claims that found the ring full since line_ring_take_refused */
};

/* Empties the ring. No other thread uses it meanwhile. */
void line_ring_reset(struct line_ring *ring);

/* A slot to fill and then to publish; NULL: the ring is full, and the line counts as refused. */
struct line *line_ring_claim(struct line_ring *ring);
void line_ring_publish(struct line *line);

/* The oldest line, which stays valid until it is released; NULL: none is published. */
const struct line *line_ring_front(struct line_ring *ring);
void line_ring_release(struct line_ring *ring);

/* How many lines were refused since the last call. */
uint64_t line_ring_take_refused(struct line_ring *ring);

#endif
