/*
 * OSC subscriptions: leases of peers on the results of a stream and on its levels, envelopes,
 * latencies, alarms and events. Each topic is a lease of its own, with its own rate and its own
 * end; what is not renewed within the lease time ends.
 *
 * Loop thread. Nothing is allocated per message: each is built in `packet` and sent at once.
 */
#ifndef CONVOLVD_IO_OSC_SUBSCRIPTIONS_H
#define CONVOLVD_IO_OSC_SUBSCRIPTIONS_H

#include <stdbool.h>
#include <stdint.h>

#include "analysis/analysis.h"
#include "core/error.h"
#include "io/osc/peers.h"
#include "stream/result.h"
#include "wire/osc.h"

enum {
    OSC_SUBSCRIPTIONS_MAX = 128,
    OSC_STREAM_BYTES = 64,  /* of a stream's name, with its end */
    OSC_CHANNELS_MAX = 256, /* of levels and envelopes */
};

/* What a lease is for; the values are bits, so that one request can name several. */
enum osc_topic {
    OSC_TOPIC_LEVELS = 1,
    OSC_TOPIC_ENVELOPE = 2,
    OSC_TOPIC_LATENCY = 4,
    OSC_TOPIC_RESULTS = 8,
    OSC_TOPIC_ALARMS = 16,
    OSC_TOPIC_EVENTS = 32,
    OSC_TOPICS_END = 64,
};

/* What only the service knows of a stream. */
struct osc_measures {
    uint32_t channels;                /* of the input, at most OSC_CHANNELS_MAX */
    uint64_t clips[OSC_CHANNELS_MAX]; /* input samples at full scale so far */
    float total_us[3];                /* p50, p99, max: last frame received → handed over */
    float stage_us[STAGES];           /* p50 */
};

struct osc_subscription {
    bool used;
    struct osc_peer *peer;
    char stream[OSC_STREAM_BYTES];
    unsigned topic; /* one OSC_TOPIC_* */
    double rate_hz;
    int64_t expires_ns;
    uint64_t sequence, dropped; /* of results, and of events */
    double credit;              /* results or events that may be sent now */
    int64_t last_ns;            /* when credit was given, or levels were sent */
    /* since levels were last sent */
    uint64_t first_frame, frames;
    uint32_t channels;
    float peak[OSC_CHANNELS_MAX];
    double squares[OSC_CHANNELS_MAX];
    uint64_t clips[OSC_CHANNELS_MAX]; /* already reported */
};

struct osc_subscriptions {
    int64_t lease_ns;
    struct osc_stats *stats; /* counted here: leases, leases_expired */
    void *context;
    /* Fills `measures`; false when there is no such stream now. May be NULL. */
    bool (*measure)(void *context, const char *stream, struct osc_measures *measures);
    struct osc_subscription list[OSC_SUBSCRIPTIONS_MAX];
    struct osc_measures measures;   /* scratch */
    uint8_t packet[OSC_PACKET_MAX]; /* where messages are built */
};

/* Gives or renews leases on `topics` (OSC_TOPIC_* or-ed). rate_hz: the most messages a second, 0:
 * the default of each topic. Returns 0, ERROR_ARGUMENT or ERROR_FULL. */
int osc_subscribe(struct osc_subscriptions *subs, struct osc_peer *peer, const char *stream,
                  unsigned topics, double rate_hz, struct problem *problem);

/* Ends leases of the peer on a stream, or, with stream NULL, on all. Returns how many. */
uint32_t osc_unsubscribe(struct osc_subscriptions *subs, struct osc_peer *peer, const char *stream);

/* Leases that run at this instant. */
uint32_t osc_subscriptions_count(const struct osc_subscriptions *subs);

/* Ends what expired, and sends what is due from streams that have fallen silent. */
void osc_subscriptions_tick(struct osc_subscriptions *subs, int64_t now_ns);

/* An alarm that was raised, or has ended. */
struct osc_alarm {
    const char *name;
    bool raised;
    int32_t channel; /* from 1; 0: the stream as a whole */
    float value;
    const char *text; /* a sentence */
};

/* Sends it to every lease on the stream's alarms; they have no rate. */
void osc_subscriptions_tell(struct osc_subscriptions *subs, const char *stream,
                            const struct osc_alarm *alarm);

/* An event of an analysis of a stream. */
struct osc_event {
    const char *analysis, *kind;
    const struct analysis_field *fields; /* [field_count] */
    uint32_t field_count;
    const struct analysis_event *event;
};

/* Whether anybody has a lease on the stream's events. */
bool osc_subscriptions_want_events(const struct osc_subscriptions *subs, const char *stream);
/* Sends it to every lease on the stream's events that may have one more now; the others drop it. */
void osc_subscriptions_event(struct osc_subscriptions *subs, const char *stream,
                             const struct osc_event *event);
/* So many events were overwritten before they could be sent: every lease has dropped them. */
void osc_subscriptions_missed(struct osc_subscriptions *subs, const char *stream, uint64_t count);

/* Sends a result of a stream to every lease on it. */
void osc_subscriptions_publish(struct osc_subscriptions *subs, const char *stream,
                               const struct result *result);

#endif
