/*
 * A peer in a process of its own (bench/cufft_peer.cu, bench/peers): a line to it asks for a figure
 * and is answered by "<ns> <relative error>" and what else it has to say, or by "- " and why it has
 * none. bench_gpu's peers are asked "Q ns", for windows of Q points for so long; what the others
 * are asked stands in bench/peers/program.h.
 *
 * One thread.
 */
#ifndef CONVOLVD_BENCH_PEER_PROGRAM_H
#define CONVOLVD_BENCH_PEER_PROGRAM_H

#include <stdint.h>
#include <stdio.h>
#include <sys/types.h>

struct peer_program {
    const char *name; /* of the library */
    pid_t child;
    FILE *ask, *answer;
    char said[256]; /* its last answer, from behind the figures on */
};

/* 0, or -1: it does not start. Programs whose names end in .py are Python's. */
int peer_program_open(struct peer_program *peer, const char *name, const char *program);

/* Nanoseconds, of what the question asks for; 0: it has no figure, and `said` says why. */
double peer_program_ask(struct peer_program *peer, double *error, const char *question, ...)
    __attribute__((format(printf, 3, 4)));

/* "NAME=PROGRAM"; without NAME= it is cuFFT. 0, or -1: it does not start. */
int peer_program_start(struct peer_program *peer, char *what);

/* Seconds of one window of `points` points; 0: it has no figure, and `said` says why. */
double peer_program_run(struct peer_program *peer, uint32_t points, int64_t for_ns, double *error);

void peer_program_stop(struct peer_program *peer); /* one that never started is fine */

#endif
