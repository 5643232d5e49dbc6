/*
 * Limits of one process, each in one place, for the floors that must agree on it.
 */
#ifndef CONVOLVD_CORE_LIMITS_H
#define CONVOLVD_CORE_LIMITS_H

/* Streams of one configuration. The configuration refuses more, so everything else may rely on it;
 * a reload has up to as many again while new ones replace old ones. */
enum { STREAMS_MAX = 4096 };

/* Event loops beside the main one. */
enum { LOOPS_MAX = 16 };

/* Priorities of streams under overload; a higher one is shed later. */
enum { PRIORITY_LEAST = 0, PRIORITY_MOST = 100 };

#endif
