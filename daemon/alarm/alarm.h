/*
 * One alarm: a value held against limits over time.
 *
 *     idle ──beyond a limit──► pending ──for as long as `for`──► active ──back by the hysteresis,
 *       ▲                         │                                │      and `hold` is over──┐
 *       └──────back within────────┘                                └─────────► idle ◄─────────┘
 *
 * Pure: the caller brings value and time. One thread.
 */
#ifndef CONVOLVD_ALARM_ALARM_H
#define CONVOLVD_ALARM_ALARM_H

#include <stdbool.h>
#include <stdint.h>

#include "core/quantity.h"

/*  name, text, dimension of its limits, of each channel, counts, sentence */
#define ALARM_QUANTITY_TABLE(X)                                                                    \
    X(LEVEL, "level", AMPLITUDE, true, false,                                                      \
      "RMS of a channel's input about its mean, over `within`")                                    \
    X(OVERLOADS, "overloads", NUMBER, true, true,                                                  \
      "samples of a channel at the full-scale code, over `within`")                                \
    X(SILENCE, "silence", TIME, false, false, "time since the newest frame was received")          \
    X(LOSSES, "losses", NUMBER, false, true,                                                       \
      "frames lost or not processed, of all causes, over `within`")                                \
    X(RATE, "rate", FREQUENCY, false, false, "frames received a second, over `within`")            \
    X(PPM, "ppm", NUMBER, false, false, "deviation of the measured rate from `rate`, in ppm")      \
    X(LATENCY, "latency", TIME, false, false,                                                      \
      "99th percentile of last frame received to result handed over, over `within` or half as "    \
      "much more")                                                                                 \
    X(MISSES, "deadline misses", NUMBER, false, true,                                              \
      "blocks handed out after `deadline`, over `within`")                                         \
    X(DEVICE, "device", NUMBER, false, false,                                                      \
      "1 while the stream does not run on the first device of its list, else 0; needs no limit")   \
    X(FLAT, "flat line", TIME, true, false,                                                        \
      "time for which all codes of a channel were equal, in received frames")                      \
    X(EVENTS, "hits", NUMBER, true, true,                                                          \
      "events of `analysis` over `within`: hits, intervals, sources, ascans, conditions or "       \
      "couplings, as it gives them")                                                               \
    X(SUM, "sum energy_eu", NUMBER, true, true,                                                    \
      "sum of energy_eu, strength_nvs or counts of its events, over `within`")                     \
    X(FIELD, "FIELD", NUMBER, true, false,                                                         \
      "any other name: a field of its events, as peak_db; the largest, for `below` the smallest, " \
      "over `within`")                                                                             \
    X(DEAD, "dead time", RATIO, false, false,                                                      \
      "part of the frames of `analysis` that were dead, over `within`")

enum alarm_quantity {
#define X(name, text, dimension, channel, counts, sentence) ALARM_##name,
    ALARM_QUANTITY_TABLE(X)
#undef X
        ALARM_QUANTITIES,
};

const char *alarm_quantity_name(enum alarm_quantity quantity);
const char *alarm_quantity_sentence(enum alarm_quantity quantity);
/* Of its limits: Hz, s, the channel's unit, or a plain number. */
enum dimension alarm_quantity_dimension(enum alarm_quantity quantity);
/* Whether each channel has a value of its own. */
bool alarm_quantity_of_channel(enum alarm_quantity quantity);
/* Whether the value counts events within the window, so that a part of one may do already. */
bool alarm_quantity_counts(enum alarm_quantity quantity);
/* Whether it is one of an analysis: EVENTS, SUM, FIELD, DEAD. */
bool alarm_quantity_of_analysis(enum alarm_quantity quantity);

struct alarm_rule {
    bool has_above, has_below;
    double above, below; /* beyond: value > above, or value < below */
    double hysteresis; /* 0…1: the value is back when it has come back by this part of a limit */
    int64_t for_ns;    /* it must be beyond for this long; 0: at once */
    int64_t hold_ns;   /* an active alarm lasts at least this long */
};

enum alarm_phase { ALARM_IDLE, ALARM_PENDING, ALARM_ACTIVE };
enum alarm_change { ALARM_SAME, ALARM_RAISED, ALARM_ENDED };

/* Starts zeroed. */
struct alarm {
    enum alarm_phase phase;
    int64_t since_ns; /* when the phase began */
    uint64_t raised;  /* how often */
    bool above;       /* which limit it was raised for */
};

/* The value now; NAN: unknown, which raises nothing and ends nothing. Times ascend. */
enum alarm_change alarm_update(struct alarm *alarm, const struct alarm_rule *rule, double value,
                               int64_t now_ns);

/* There is nothing that could be beyond a limit, which counts as a value within them. */
enum alarm_change alarm_clear(struct alarm *alarm, const struct alarm_rule *rule, int64_t now_ns);

/* Whether a value is beyond a limit; NAN is not. */
bool alarm_beyond(const struct alarm_rule *rule, double value);

/* The limit that an active alarm was raised for. */
double alarm_limit(const struct alarm *alarm, const struct alarm_rule *rule);

#endif
