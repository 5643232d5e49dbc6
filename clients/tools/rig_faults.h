/*
 * Faults on purpose, from a seed: what a bad network or a foreign sender does to datagrams. Sits
 * between a rig and its socket; each fault is counted where it is done.
 *
 * One owner.
 */
#ifndef CONVOLV_TOOLS_RIG_FAULTS_H
#define CONVOLV_TOOLS_RIG_FAULTS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "convolv.h"
#include "core/error.h"
#include "core/random.h"

struct faults_options {
    uint64_t seed;
    double loss;            /* probability that a run of lost datagrams begins */
    uint64_t loss_burst;    /* datagrams of such a run */
    double duplicate;       /* probability that a datagram is sent twice */
    double reorder;         /* probability that a datagram is held back … */
    uint64_t reorder_depth; /* … until 1 to this many later ones have gone */
    double wrong_ssrc;      /* RTP: probability of a foreign datagram in between */
    double garbage;         /* RTP: probability of a datagram that is no RTP in between */
    uint64_t clean_frames;  /* no faults before so many frames have been offered */
};

struct faults_ledger {
    uint64_t offered, offered_frames; /* offered = gone + dropped + held */
    uint64_t gone, held;
    uint64_t dropped, dropped_frames;
    uint64_t duplicated, reordered;       /* reordered: gone after a later one */
    uint64_t wrong_ssrc, garbage, forged; /* extra datagrams */
};

enum { FAULTS_DEPTH_MAX = 64 };

struct faults;

int faults_open(const struct faults_options *options, struct convolv_sender *sender,
                struct faults **out, struct problem *problem);
void faults_close(struct faults *faults); /* nothing held: faults_finish came first; NULL is fine */

/* One datagram of the rig. Returns false when it was dropped. */
bool faults_offer(struct faults *faults, const uint8_t *datagram, size_t bytes, uint32_t frames);

/* RTP: an extra copy of `datagram` that claims to be `frames` later (and as many packets): one
 * forged jump. */
void faults_forge(struct faults *faults, const uint8_t *datagram, size_t bytes, uint32_t frames);

/* Sends what is held back. */
void faults_finish(struct faults *faults);

void faults_ledger(const struct faults *faults, struct faults_ledger *ledger);

#endif
