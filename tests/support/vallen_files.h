/*
 * What the tests of Vallen's files share: the sink `vallen` opened behind an analysis that emits
 * struct hit, hits made of a number, and one value of a file by SQL.
 */
#ifndef CONVOLVD_TESTS_VALLEN_FILES_H
#define CONVOLVD_TESTS_VALLEN_FILES_H

#include "analysis/hit.h"
#include "analysis/interval.h"
#include "io/event_sink.h"
#include "io/vallen/vallen.h"

enum { VALLEN_CHANNELS = 3, VALLEN_SAMPLES = 300, VALLEN_PRETRIGGER = 100 };

#define VALLEN_TEST_NS INT64_C(1700000000250000000) /* capture time of frame 0 */

struct vallen_world {
    struct analysis_options analysis;
    struct vallen_options own;
    struct event_sink_options options;
};

/* Options of a sink of hits that writes `path`, at 1 MHz, full scale 1 V; channel 3 is in mV. The
 * rate and everything else may be changed before the sink is opened. */
void vallen_world(struct vallen_world *world, const char *path);
/* The same for intervals. */
void vallen_world_intervals(struct vallen_world *world, const char *path);

/* Fails the test where it does not open. */
struct event_sink *vallen_world_open(const struct vallen_world *world);

/* Hit `number` of channel number % 3 at a frame; values follow from the number. Its body and
 * samples are valid until the next call. Samples are codes of full scale 1 V times 1 V / 32768, so
 * that a file holds them exactly; sample i of hit n is code (n · 1000 + i · 37) % 60000 − 30000. */
struct analysis_event vallen_hit(uint64_t number, uint64_t epoch, uint64_t frame);
int16_t vallen_hit_code(uint64_t number, uint32_t i);

/* The first value of a query over a file; fails the test where there is none. */
double vallen_number(const char *path, const char *sql);
/* The same as text, valid until the next call; "" for NULL. */
const char *vallen_text(const char *path, const char *sql);
/* All int16 of a query's first value; returns how many. */
uint32_t vallen_codes(const char *path, const char *sql, int16_t *codes, uint32_t capacity);

#endif
