/*
 * Events: what happens to the measurement and is told once, when it happens: a new sender, a loss,
 * a changed filter, a lost device. event_raise writes the line to the log and keeps the event, with
 * a number, in a ring of the last EVENTS_KEPT. Followers (control/session.h) read the ring at
 * their own pace; one who is too slow learns how many events were overwritten.
 *
 * The ring is one for the process, as the log is. Writers are any threads: they claim a slot, fill
 * it and publish it, and never lock, allocate or wait. Slots are seqlocks: a reader checks the
 * slot's number before and after it has copied the event.
 *
 * Any thread, except where a function says otherwise.
 */
#ifndef CONVOLVD_CORE_EVENT_H
#define CONVOLVD_CORE_EVENT_H

#include <stdbool.h>
#include <stdint.h>

#include "core/log.h"

/* Name, word, what it tells. */
#define EVENT_TABLE(X)                                                                             \
    X(START, "start")           /* the daemon processes */                                         \
    X(STOP, "stop")             /* the daemon has been told to stop */                             \
    X(RELOAD, "reload")         /* another configuration is in use, or was refused */              \
    X(SENDER, "sender")         /* a stream hears its first sender */                              \
    X(TAKEOVER, "takeover")     /* another sender takes over a stream */                           \
    X(EPOCH, "epoch")           /* a new epoch begins, without history */                          \
    X(LOSS, "loss")             /* frames are missing, by cause; summed up over ten seconds */     \
    X(SILENCE, "silence")       /* no frames arrive, or they arrive again */                       \
    X(RATE, "half-rate")        /* frames arrive at another rate than declared, or at it again */  \
    X(CLOCK_STEP, "clock-step") /* the wall clock was set, or a source's capture times step */     \
    X(NETWORK, "network")       /* an interface has gone or is back */                             \
    X(OVERLOAD, "overload")     /* samples at full scale */                                        \
    X(FILTER_CHANGE, "filter-change") /* a filter was exchanged */                                 \
    X(GAIN, "gain")                   /* a gain was changed */                                     \
    X(MUTE, "mute")                   /* an output was muted, or is heard again */                 \
    X(RESET, "reset-counters")        /* levels, held peaks and histograms begin anew */           \
    X(DEVICE, "device")               /* a device was lost, stands in or has returned */           \
    X(ALARM, "alarm")                 /* an alarm begins */                                        \
    X(ALARM_END, "alarm-end")         /* an alarm ends or was acknowledged */                      \
    X(MARK, "mark")                   /* somebody has marked this instant */                       \
    X(RECORD, "record")               /* a recording begins or ends */                             \
    X(HAND_OVER, "hand-over")         /* a partition is given up for another daemon */             \
    X(REFUSED, "refused")             /* a request was refused for want of a right */

enum event_kind {
#define X(name, word) EVENT_##name,
    EVENT_TABLE(X)
#undef X
        EVENT_KINDS,
};

const char *event_kind_word(enum event_kind kind);

enum { EVENTS_KEPT = 2048, EVENT_STREAM_BYTES = 64, EVENT_WHO_BYTES = 96, EVENT_TEXT_BYTES = 600 };

/* What an event is about. Texts are copied, and cut where they are too long. */
struct event_subject {
    enum event_kind kind;
    enum log_level severity;
    const char *stream;    /* NULL: the whole daemon */
    const char *who;       /* who asked for it; NULL: nobody did */
    bool framed;           /* the next two are given */
    uint64_t epoch, frame; /* output frame of the epoch from which it holds */
};

struct event {
    uint64_t number; /* 1, 2, … in this process */
    int64_t realtime_ns;
    enum event_kind kind;
    enum log_level severity;
    bool framed;
    uint64_t epoch, frame;
    char stream[EVENT_STREAM_BYTES]; /* empty: the whole daemon */
    char who[EVENT_WHO_BYTES];       /* empty: nobody asked for it */
    char text[EVENT_TEXT_BYTES];     /* a sentence, without the stream's name in front */
};

/* Keeps the event and logs "stream NAME: SENTENCE (WHO)". */
void event_raise(const struct event_subject *subject, const char *format, ...)
    __attribute__((format(printf, 2, 3)));

/* Keeps the event; the caller has logged it, or there is nothing to log. */
void event_keep(const struct event_subject *subject, const char *format, ...)
    __attribute__((format(printf, 2, 3)));

/* As event_raise, at most once per `interval_ns` for this limiter, as log_limited. */
void event_raise_limited(struct log_limit *limit, int64_t interval_ns,
                         const struct event_subject *subject, const char *format, ...)
    __attribute__((format(printf, 4, 5)));

/* The number of the event raised last; 0: none yet. */
uint64_t event_last(void);

/* Copies the event with the lowest number above *after that is still kept, and puts its number into
 * *after. *missed: how many were overwritten before they were read, also where there is none yet
 * (false). */
bool event_next(uint64_t *after, struct event *out, uint64_t *missed);

#endif
