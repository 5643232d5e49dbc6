/*
 * A loop with a scheduler and a real engine, and streams fed with seeded noise. Test thread.
 */
#ifndef CONVOLVD_TESTS_HOUSE_H
#define CONVOLVD_TESTS_HOUSE_H

#include <stdbool.h>
#include <stdint.h>

#include <uv.h>

#include "stream/scheduler.h"

struct house {
    uv_loop_t loop;
    struct scheduler_bell *doorbell;
    struct engine *engine;
    struct scheduler *scheduler;
};

/* On the device under test (CONVOLVD_TEST_DEVICE, by default the CPU). */
void house_open(struct house *house);
/* `depth`: as engine_options.depth. */
void house_open_deep(struct house *house, uint32_t depth);
void house_close(struct house *house);

/* Another engine as the house's, which wakes its scheduler; not opened by it, nor closed. */
struct engine *house_engine(struct house *house, uint32_t depth);

/* A plan of noise taps of one filter for all channels; `variant` NULL: any. */
struct plan *house_plan(struct engine *engine, const char *variant, uint32_t channels, uint32_t hop,
                        uint32_t taps, uint32_t blocks_max, uint64_t seed);

/* ---- a stream fed as fast as it takes it or at its rate ---------------------------------- */

enum { NOISE_FRAMES = 4096 };

struct feed {
    struct house *house;
    struct stream *stream;
    struct plan *plan;
    uint32_t channels, frame_bytes, chunk;
    uint32_t ahead;         /* blocks that the ring holds beyond what is due at once; 0: 6 */
    uint64_t frames, total; /* put; to put */
    double rate_hz;
    bool live;
    uv_idle_t idle;
    uv_timer_t timer;
    int64_t begun_ns;
    float *noise;
    float *got; /* [total + taps][channels] when kept */
    uint64_t delivered;
    struct plan *retired;
    void (*each)(struct feed *feed, const struct result *result);
};

/* Everything up to `noise` is the caller's; a live one is fed by a timer, until it is stopped. */
void feed_open(struct feed *feed, struct house *house, const char *name);
/* The signal is the noise over and over: any frame's value follows from its number. At most up to
 * the next repetition. */
void feed_put(struct feed *feed, uint32_t frames);
/* All has been put, and all results are out. */
bool feed_done(const struct feed *feed);
/* The stream, its plan and its handles; it must be done. */
void feed_close(struct feed *feed);

/* The callback of a feed that is not live, which tests stop and start. */
void feed_on_idle(uv_idle_t *idle);
/* That of a live one. */
void feed_on_time(uv_timer_t *timer);

#endif
