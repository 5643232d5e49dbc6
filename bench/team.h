/*
 * A team of threads for the peers: one call runs a function once on every member, the caller
 * being member 0. Sleeping members are woken by a condition variable, as an OpenCL CPU device
 * wakes its own.
 */
#ifndef CONVOLVD_BENCH_TEAM_H
#define CONVOLVD_BENCH_TEAM_H

#include <stdint.h>

struct team;

/* NULL when memory or threads are missing. */
struct team *team_open(uint32_t threads);
void team_close(struct team *team); /* NULL is fine */
void team_run(struct team *team, void (*work)(void *context, uint32_t member), void *context);

#endif
