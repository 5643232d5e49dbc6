/* OSC subscriptions: see subscriptions.h. Loop thread. */
#include "io/osc/subscriptions.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#include "analysis/fields.h"
#include "core/clock.h"

enum {
    UDP_BYTES = 1432, /* of one result message: fits an Ethernet frame with its IPv6 headers */
    TCP_BYTES = 16384,
    STATUS_RATE_HZ = 10,    /* levels, envelopes, latencies a second, unless asked otherwise */
    RESULT_RATE_HZ = 20000, /* messages with results */
    EVENT_RATE_HZ = 1000,   /* messages with events of analyses */
    RATE_MAX_HZ = 100000,
    TYPES_MAX = 3 * OSC_CHANNELS_MAX + 16,
};

/* ---- leases ------------------------------------------------------------------------------ */

static struct osc_subscription *find(struct osc_subscriptions *subs, const struct osc_peer *peer,
                                     const char *stream, unsigned topic)
{
    for (int i = 0; i < OSC_SUBSCRIPTIONS_MAX; i++) {
        struct osc_subscription *s = &subs->list[i];
        if (s->used && s->peer == peer && s->topic == topic && strcmp(s->stream, stream) == 0)
            return s;
    }
    return NULL;
}

/* An unused entry; NULL: all are taken. */
static struct osc_subscription *take_unused(struct osc_subscriptions *subs)
{
    for (int i = 0; i < OSC_SUBSCRIPTIONS_MAX; i++) {
        if (!subs->list[i].used)
            return &subs->list[i];
    }
    return NULL;
}

static void end(struct osc_subscription *s)
{
    s->used = false;
    s->peer->leases--;
}

/* How many messages may be sent at once: a tenth of a second's worth, for the results of one block
 * are several messages. */
static double burst(double rate_hz)
{
    return fmax(1, rate_hz / 10);
}

/* What the service knows of the stream now; NULL: there is no such stream. */
static const struct osc_measures *measure(struct osc_subscriptions *subs,
                                          const struct osc_subscription *s)
{
    bool known = subs->measure != NULL && subs->measure(subs->context, s->stream, &subs->measures);
    return known ? &subs->measures : NULL;
}

/* Levels count the clips since the lease began. */
static void mark_clips(struct osc_subscriptions *subs, struct osc_subscription *s)
{
    const struct osc_measures *measures = measure(subs, s);
    if (measures != NULL)
        memcpy(s->clips, measures->clips, measures->channels * sizeof *s->clips);
}

static int lease(struct osc_subscriptions *subs, struct osc_peer *peer, const char *stream,
                 unsigned topic, double rate_hz, struct problem *problem)
{
    int64_t now = clock_monotonic_ns();
    struct osc_subscription *s = find(subs, peer, stream, topic);
    bool renewed = s != NULL;
    if (s == NULL)
        s = take_unused(subs);
    if (s == NULL)
        return problem_set(problem, ERROR_FULL,
                           "all %d subscriptions are taken; unsubscribe others",
                           OSC_SUBSCRIPTIONS_MAX);
    if (!renewed) {
        *s = (struct osc_subscription){.used = true, .peer = peer, .topic = topic, .last_ns = now};
        snprintf(s->stream, sizeof s->stream, "%s", stream);
        peer->leases++;
        mark_clips(subs, s);
        subs->stats->leases++;
    }
    s->rate_hz = rate_hz > 0                  ? rate_hz
                 : topic == OSC_TOPIC_RESULTS ? RESULT_RATE_HZ
                 : topic == OSC_TOPIC_EVENTS  ? EVENT_RATE_HZ
                                              : STATUS_RATE_HZ;
    if (!renewed)
        s->credit = burst(s->rate_hz);
    s->expires_ns = now + subs->lease_ns;
    peer->expires_ns = s->expires_ns;
    return 0;
}

int osc_subscribe(struct osc_subscriptions *subs, struct osc_peer *peer, const char *stream,
                  unsigned topics, double rate_hz, struct problem *problem)
{
    int error = 0;
    if (!(rate_hz >= 0 && rate_hz <= RATE_MAX_HZ))
        return problem_set(problem, ERROR_ARGUMENT, "a rate of %g messages a second; write 0 to %d",
                           rate_hz, RATE_MAX_HZ);
    for (unsigned topic = OSC_TOPIC_LEVELS; topic < OSC_TOPICS_END && error == 0; topic <<= 1)
        if (topics & topic)
            error = lease(subs, peer, stream, topic, rate_hz, problem);
    return error;
}

uint32_t osc_unsubscribe(struct osc_subscriptions *subs, struct osc_peer *peer, const char *stream)
{
    uint32_t found = 0;
    for (int i = 0; i < OSC_SUBSCRIPTIONS_MAX; i++) {
        struct osc_subscription *s = &subs->list[i];
        if (!s->used || s->peer != peer || (stream != NULL && strcmp(s->stream, stream) != 0))
            continue;
        end(s);
        found++;
    }
    return found;
}

uint32_t osc_subscriptions_count(const struct osc_subscriptions *subs)
{
    uint32_t count = 0;
    for (int i = 0; i < OSC_SUBSCRIPTIONS_MAX; i++)
        count += subs->list[i].used;
    return count;
}

/* ---- results ----------------------------------------------------------------------------- */

static struct osc_writer begin(struct osc_subscriptions *subs, const struct osc_subscription *s,
                               const char *word, const char *types)
{
    char address[OSC_ADDRESS_MAX + 1];
    struct osc_writer writer = {.data = subs->packet, .capacity = sizeof subs->packet};
    snprintf(address, sizeof address, "/convolvd/%s/%s", s->stream, word);
    osc_begin(&writer, address, types);
    return writer;
}

/* `flags` of docs/osc.md, of the message for frames [at, at + frames). The first message of a
 * result reports what was shed before it. */
static int32_t flags_of(const struct result *result, uint32_t at, uint32_t frames)
{
    const uint64_t from = result->first_frame + at, until = from + frames;
    uint32_t flags = 0;
    if (at == 0 && result->flags & RESULT_EPOCH_START)
        flags |= 1;
    if (at + frames == result->frames && result->flags & RESULT_EPOCH_END)
        flags |= 2;
    for (uint32_t i = 0; i < result->invalid_count; i++) {
        const struct invalid_range *range = &result->invalid[i];
        const bool invalid = range->from < until && range->until > from;
        const bool missing = at == 0 && range->until <= from;
        if (invalid || missing)
            flags |= (invalid ? 4u : 8u) | UINT32_C(1) << (16 + range->cause);
    }
    if (result->partial_from < until && result->partial_until > from)
        flags |= 32;
    /* What held before a change inside of the result is not known here: flagged as well. */
    if (result->gains != NULL && (!result->gains->configured || result->gains_from > from))
        flags |= 16;
    return (int32_t)flags;
}

static void put_samples(uint8_t *out, const float *samples, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        uint32_t word;
        memcpy(&word, &samples[i], sizeof word);
        word = __builtin_bswap32(word);
        memcpy(out + 4 * i, &word, sizeof word);
    }
}

/* Sends one message for frames [at, at + frames): `result` of docs/osc.md. */
static bool send_part(struct osc_subscriptions *subs, struct osc_subscription *s,
                      const struct result *result, uint32_t at, uint32_t frames, float latency_us)
{
    uint64_t first = result->first_frame + at;
    struct osc_writer writer =
        begin(subs, s, "result", s->peer->narrow ? ",iiiiiiiffb" : ",hhiiiffb");
    osc_put_wide(&writer, s->sequence++);
    osc_put_wide(&writer, first);
    osc_put_int(&writer, (int32_t)result->channels);
    osc_put_int(&writer, (int32_t)result->epoch);
    osc_put_int(&writer, flags_of(result, at, frames));
    osc_put_float(&writer, latency_us);
    osc_put_float(&writer, (float)result->delay_frames);
    size_t count = (size_t)frames * result->channels;
    uint8_t *blob = osc_put_blob(&writer, 4 * count);
    if (blob == NULL)
        return false;
    put_samples(blob, result->samples + (size_t)at * result->channels, count);
    return osc_send(s->peer, subs->packet, writer.bytes);
}

/* Gives the lease what it may send since the last time. */
static void give_credit(struct osc_subscription *s, int64_t now_ns)
{
    s->credit =
        fmin(s->credit + (double)(now_ns - s->last_ns) * 1e-9 * s->rate_hz, burst(s->rate_hz));
    s->last_ns = now_ns;
}

static void send_results(struct osc_subscriptions *subs, struct osc_subscription *s,
                         const struct result *result, int64_t now_ns)
{
    float latency_us = (float)(now_ns - result->last_receive_ns) / 1e3f;
    size_t bytes = (s->peer->link != NULL ? TCP_BYTES : UDP_BYTES) - 64 - strlen(s->stream);
    uint32_t most = (uint32_t)(bytes / (4u * result->channels));
    most = most > 0 ? most : 1;
    give_credit(s, now_ns);
    uint32_t at = 0;
    do {
        uint32_t frames = result->frames - at < most ? result->frames - at : most;
        if (s->credit < 1) {
            s->sequence++; /* the peer sees the loss as a gap in the numbers */
            s->dropped++;
        } else if (send_part(subs, s, result, at, frames, latency_us)) {
            s->credit--;
        } else {
            s->dropped++;
        }
        at += frames;
    } while (at < result->frames && s->used);
}

/* ---- levels, envelopes, latencies -------------------------------------------------------- */

static void gather(struct osc_subscription *s, const struct result *result)
{
    uint32_t channels = result->channels < OSC_CHANNELS_MAX ? result->channels : OSC_CHANNELS_MAX;
    if (s->frames == 0 || channels != s->channels) {
        s->first_frame = result->first_frame;
        s->frames = 0;
        s->channels = channels;
        memset(s->peak, 0, sizeof s->peak);
        memset(s->squares, 0, sizeof s->squares);
    }
    for (uint32_t n = 0; n < result->frames; n++) {
        const float *frame = result->samples + (size_t)n * result->channels;
        for (uint32_t c = 0; c < channels; c++) {
            s->peak[c] = fmaxf(s->peak[c], fabsf(frame[c]));
            s->squares[c] += (double)frame[c] * frame[c];
        }
    }
    s->frames += result->frames;
}

/* Type tags: ",h" or ",ii", `head`, then `letters` for every channel. */
static const char *types_of(const struct osc_subscription *s, const char *head, const char *letters,
                            uint32_t channels, char types[TYPES_MAX])
{
    size_t used = (size_t)snprintf(types, TYPES_MAX, ",%s%s", s->peer->narrow ? "ii" : "h", head);
    for (uint32_t c = 0; c < channels; c++)
        used += (size_t)snprintf(types + used, TYPES_MAX - used, "%s", letters);
    return types;
}

static void send_levels(struct osc_subscriptions *subs, struct osc_subscription *s,
                        const struct osc_measures *measures)
{
    char types[TYPES_MAX];
    struct osc_writer writer =
        begin(subs, s, "levels", types_of(s, "i", "ffi", s->channels, types));
    osc_put_wide(&writer, s->first_frame);
    osc_put_int(&writer, (int32_t)s->frames);
    for (uint32_t c = 0; c < s->channels; c++) {
        uint64_t clips = measures != NULL && c < measures->channels ? measures->clips[c] : 0;
        osc_put_float(&writer, s->peak[c]);
        osc_put_float(&writer, (float)sqrt(s->squares[c] / (double)s->frames));
        /* A reloaded stream counts from 0 again. */
        osc_put_int(&writer, (int32_t)(clips >= s->clips[c] ? clips - s->clips[c] : clips));
        s->clips[c] = clips;
    }
    if (!writer.full)
        osc_send(s->peer, subs->packet, writer.bytes);
}

static void send_envelope(struct osc_subscriptions *subs, struct osc_subscription *s)
{
    char types[TYPES_MAX];
    struct osc_writer writer =
        begin(subs, s, "envelope", types_of(s, "i", "f", s->channels, types));
    osc_put_wide(&writer, s->first_frame);
    osc_put_int(&writer, (int32_t)s->frames);
    for (uint32_t c = 0; c < s->channels; c++)
        osc_put_float(&writer, s->peak[c]);
    if (!writer.full)
        osc_send(s->peer, subs->packet, writer.bytes);
}

static void send_latency(struct osc_subscriptions *subs, const struct osc_subscription *s,
                         const struct osc_measures *measures)
{
    struct osc_writer writer = begin(subs, s, "latency", ",ffffffff");
    for (int i = 0; i < 3; i++)
        osc_put_float(&writer, measures->total_us[i]);
    for (int stage = 0; stage < STAGES; stage++)
        osc_put_float(&writer, measures->stage_us[stage]);
    if (!writer.full)
        osc_send(s->peer, subs->packet, writer.bytes);
}

static void send_status(struct osc_subscriptions *subs, struct osc_subscription *s, int64_t now_ns)
{
    const struct osc_measures *measures = measure(subs, s);
    s->last_ns = now_ns;
    if (s->topic == OSC_TOPIC_LEVELS)
        send_levels(subs, s, measures);
    else if (s->topic == OSC_TOPIC_ENVELOPE)
        send_envelope(subs, s);
    else if (measures != NULL)
        send_latency(subs, s, measures);
    s->frames = 0;
}

static bool is_due(const struct osc_subscription *s, int64_t now_ns)
{
    return s->frames > 0 && (double)(now_ns - s->last_ns) * 1e-9 * s->rate_hz >= 1;
}

void osc_subscriptions_tick(struct osc_subscriptions *subs, int64_t now_ns)
{
    for (int i = 0; i < OSC_SUBSCRIPTIONS_MAX; i++) {
        struct osc_subscription *s = &subs->list[i];
        if (s->used && s->expires_ns <= now_ns) {
            end(s);
            subs->stats->leases_expired++;
        }
        if (s->used && is_due(s, now_ns))
            send_status(subs, s, now_ns);
    }
}

void osc_subscriptions_publish(struct osc_subscriptions *subs, const char *stream,
                               const struct result *result)
{
    int64_t now = clock_monotonic_ns();
    for (int i = 0; i < OSC_SUBSCRIPTIONS_MAX; i++) {
        struct osc_subscription *s = &subs->list[i];
        if (!s->used || s->topic == OSC_TOPIC_ALARMS || s->topic == OSC_TOPIC_EVENTS ||
            strcmp(s->stream, stream) != 0)
            continue;
        if (s->topic == OSC_TOPIC_RESULTS) {
            send_results(subs, s, result, now);
            continue;
        }
        gather(s, result);
        if (is_due(s, now))
            send_status(subs, s, now);
    }
}

/* ---- alarms ------------------------------------------------------------------------------ */

void osc_subscriptions_tell(struct osc_subscriptions *subs, const char *stream,
                            const struct osc_alarm *alarm)
{
    for (int i = 0; i < OSC_SUBSCRIPTIONS_MAX; i++) {
        const struct osc_subscription *s = &subs->list[i];
        if (!s->used || s->topic != OSC_TOPIC_ALARMS || strcmp(s->stream, stream) != 0)
            continue;
        struct osc_writer writer = begin(subs, s, "alarm", ",ssifs");
        osc_put_string(&writer, alarm->name);
        osc_put_string(&writer, alarm->raised ? "raised" : "ended");
        osc_put_int(&writer, alarm->channel);
        osc_put_float(&writer, alarm->value);
        osc_put_string(&writer, alarm->text);
        if (!writer.full)
            osc_send(s->peer, subs->packet, writer.bytes);
    }
}

/* ---- events of analyses ------------------------------------------------------------------ */

static bool is_of_events(const struct osc_subscription *s, const char *stream)
{
    return s->used && s->topic == OSC_TOPIC_EVENTS && strcmp(s->stream, stream) == 0;
}

bool osc_subscriptions_want_events(const struct osc_subscriptions *subs, const char *stream)
{
    for (int i = 0; i < OSC_SUBSCRIPTIONS_MAX; i++)
        if (is_of_events(&subs->list[i], stream))
            return true;
    return false;
}

static uint32_t values_of(const struct analysis_field *field)
{
    return field->repeat > 0 ? field->repeat : 1;
}

/* A double goes as f, so that patches can read it, a counter as h or i. */
static const char *letters_of(const struct analysis_field *field, const char *wide)
{
    return field->type == ANALYSIS_DOUBLE ? "f" : field->type == ANALYSIS_UINT32 ? "i" : wide;
}

static const char *event_types(const struct osc_subscription *s, const struct osc_event *event,
                               char types[TYPES_MAX])
{
    const char *wide = s->peer->narrow ? "ii" : "h";
    size_t used = (size_t)snprintf(types, TYPES_MAX, ",ss%si%s%s%sii", wide, wide, wide, wide);
    for (uint32_t f = 0; f < event->field_count; f++)
        for (uint32_t n = 0; n < values_of(&event->fields[f]) && used < TYPES_MAX; n++)
            used += (size_t)snprintf(types + used, TYPES_MAX - used, "%s",
                                     letters_of(&event->fields[f], wide));
    return types;
}

static void put_value(struct osc_writer *writer, const struct analysis_field *field, double value)
{
    if (field->type == ANALYSIS_DOUBLE)
        osc_put_float(writer, (float)value);
    else if (field->type == ANALYSIS_UINT32)
        osc_put_int(writer, (int32_t)(uint32_t)value);
    else
        osc_put_wide(writer, (uint64_t)value);
}

static bool send_event(struct osc_subscriptions *subs, const struct osc_subscription *s,
                       const struct osc_event *told)
{
    const struct analysis_event *event = told->event;
    char types[TYPES_MAX];
    struct osc_writer writer = begin(subs, s, "event", event_types(s, told, types));
    osc_put_string(&writer, told->analysis);
    osc_put_string(&writer, told->kind);
    osc_put_wide(&writer, event->number);
    osc_put_int(&writer, (int32_t)event->channel + 1);
    osc_put_wide(&writer, event->epoch);
    osc_put_wide(&writer, event->frame);
    osc_put_wide(&writer, (uint64_t)event->arrival_ns);
    osc_put_int(&writer, (int32_t)event->flags);
    osc_put_int(&writer, (int32_t)s->dropped);
    for (uint32_t f = 0; f < told->field_count; f++)
        for (uint32_t n = 0; n < values_of(&told->fields[f]); n++)
            put_value(&writer, &told->fields[f], field_value(&told->fields[f], n, event));
    return !writer.full && osc_send(s->peer, subs->packet, writer.bytes);
}

static void drop_events(struct osc_subscriptions *subs, struct osc_subscription *s, uint64_t count)
{
    s->dropped += count;
    subs->stats->events_dropped += count;
}

void osc_subscriptions_event(struct osc_subscriptions *subs, const char *stream,
                             const struct osc_event *event)
{
    const int64_t now_ns = clock_monotonic_ns();
    for (int i = 0; i < OSC_SUBSCRIPTIONS_MAX; i++) {
        struct osc_subscription *s = &subs->list[i];
        if (!is_of_events(s, stream))
            continue;
        give_credit(s, now_ns);
        if (s->credit >= 1 && send_event(subs, s, event))
            s->credit--;
        else
            drop_events(subs, s, 1);
    }
}

void osc_subscriptions_missed(struct osc_subscriptions *subs, const char *stream, uint64_t count)
{
    for (int i = 0; count > 0 && i < OSC_SUBSCRIPTIONS_MAX; i++)
        if (is_of_events(&subs->list[i], stream))
            drop_events(subs, &subs->list[i], count);
}
