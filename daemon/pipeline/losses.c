/* Losses: see losses.h. */
#include "pipeline/losses.h"

#include <inttypes.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>

#include "core/clock.h"
#include "core/event.h"
#include "core/log.h"

/* The log reports the first loss at once and later ones as a sum per interval. */
static const int64_t interval_ns = 10 * NS_PER_SECOND;

/* A sink without a receiver: the time to the next line grows so, up to this. */
static const int64_t absent_factor = 6, absent_most_ns = 3600 * NS_PER_SECOND;

/* Now, instead of a time: whatever is pending is due. */
#define FLUSH_NS INT64_MAX

static bool due(int64_t told_ns, int64_t now_ns)
{
    return told_ns == 0 || now_ns - told_ns >= interval_ns;
}

/* Text "NAME COUNT, NAME COUNT" of the counters that have grown since the last line. A counter may
 * shrink, when the stream moves frames from one cause to another: that is no loss. */
struct list {
    char text[300];
    uint64_t total;
};

static void add(struct list *list, const char *name, uint64_t now, uint64_t *told)
{
    if (now > *told) {
        size_t used = strlen(list->text);
        snprintf(list->text + used, sizeof list->text - used, "%s%s %" PRIu64,
                 list->total > 0 ? ", " : "", name, now - *told);
        list->total += now - *told;
    }
    *told = now;
}

static void tell_frames(struct pipeline *pipeline, const struct stream_stats *stats, int64_t now_ns)
{
    struct told_stream *told = &pipeline->told;
    if (!due(told->told_ns, now_ns))
        return;
    struct list frames = {0}, blocks = {0};
    for (int cause = 0; cause < INVALID_CAUSES; cause++)
        add(&frames, invalid_cause_name(cause), stats->gap[cause], &told->gap[cause]);
    for (int shed = 0; shed < SHEDS; shed++) {
        if (shed != SHED_ALIGNED &&
            shed != SHED_DECIMATED) /* the configuration asks for these: no loss */
            add(&blocks, shed_name(shed), stats->shed[shed], &told->shed[shed]);
    }
    const struct event_subject subject = {
        .kind = EVENT_LOSS, .severity = LOG_LEVEL_WARNING, .stream = pipeline->stream_config->name};
    if (frames.total > 0)
        event_raise(&subject, "%" PRIu64 " frames did not arrive: %s%s", frames.total, frames.text,
                    told->arrival.catches_up ? ", as the stream catches up" : "");
    if (blocks.total > 0 && told->arrival.catches_up)
        event_raise(&subject,
                    "%" PRIu64 " frames were not processed: %s, as the stream catches up: they "
                    "were late when they came; raw input has them",
                    blocks.total, blocks.text);
    else if (blocks.total > 0)
        event_raise(&subject, "%" PRIu64 " frames were not processed: %s; the load is %.0f %%",
                    blocks.total, blocks.text, 100 * stats->load);
    if (frames.total > 0 || blocks.total > 0)
        told->told_ns = now_ns;
}

/* How much of a counter is to be logged now; 0: nothing. */
static uint64_t take(uint64_t now, uint64_t *told, int64_t *told_ns, int64_t now_ns)
{
    if (now <= *told || !due(*told_ns, now_ns))
        return 0;
    uint64_t more = now - *told;
    *told = now;
    *told_ns = now_ns;
    return more;
}

static void tell_overlap(struct pipeline *pipeline, const struct stream_stats *stats,
                         int64_t now_ns)
{
    struct told_stream *told = &pipeline->told;
    uint64_t frames = take(stats->overlap, &told->overlap, &told->overlap_told_ns, now_ns);
    if (frames > 0)
        event_raise(&(struct event_subject){.kind = EVENT_LOSS,
                                            .severity = LOG_LEVEL_WARNING,
                                            .stream = pipeline->stream_config->name},
                    "%" PRIu64 " frames were dropped because packets overlap: the sender's time "
                    "stamps advance by fewer frames than its packets hold",
                    frames);
}

static void tell_drops(struct pipeline *pipeline, const struct source_ledger *ledger,
                       int64_t now_ns)
{
    struct told_stream *told = &pipeline->told;
    uint64_t drops = take(ledger->kernel_drops, &told->kernel_drops, &told->drops_told_ns, now_ns);
    if (drops > 0)
        event_raise(&(struct event_subject){.kind = EVENT_LOSS,
                                            .severity = LOG_LEVEL_WARNING,
                                            .stream = pipeline->stream_config->name},
                    "%" PRIu64 " datagrams were dropped by the socket before the daemon could read "
                    "them; raise `receive buffer` (%.3g MiB now), or lower the load",
                    drops, (double)ledger->buffer_bytes / 1048576);
}

/* Epochs after the first, and new senders. In record mode each record begins an epoch. */
static void tell_epochs(struct pipeline *pipeline, const struct stream_stats *stats,
                        const struct source_ledger *ledger, int64_t now_ns)
{
    struct told_stream *told = &pipeline->told;
    uint64_t later = stats->epochs > 0 && stats->records == 0 ? stats->epochs - 1 : 0;
    if (!due(told->epochs_told_ns, now_ns))
        return;
    uint64_t epochs = later > told->epochs ? later - told->epochs : 0;
    uint64_t senders = ledger->senders - told->senders;
    if (epochs == 0 && senders == 0)
        return;
    char text[64] = "";
    if (senders > 0)
        snprintf(text, sizeof text, "%s%" PRIu64 " new sender%s", epochs > 0 ? ", " : "", senders,
                 senders == 1 ? "" : "s");
    const struct event_subject subject = {.kind = epochs > 0 ? EVENT_EPOCH : EVENT_SENDER,
                                          .severity = LOG_LEVEL_NOTICE,
                                          .stream = pipeline->stream_config->name};
    if (epochs > 0)
        event_raise(&subject, "%" PRIu64 " new epoch%s%s: the results began anew, without history",
                    epochs, epochs == 1 ? "" : "s", text);
    else
        event_raise(&subject, "%s", text);
    told->epochs = later;
    told->senders = ledger->senders;
    told->epochs_told_ns = now_ns;
}

/* Capture times that begin again. */
static void tell_steps(struct pipeline *pipeline, const struct stream_stats *stats, int64_t now_ns)
{
    struct told_stream *told = &pipeline->told;
    const struct result_clock_step *step = &stats->clock_step;
    const uint64_t steps = take(step->count, &told->clock_steps, &told->steps_told_ns, now_ns);
    char more[64] = "";
    if (steps == 0)
        return;
    if (steps > 1)
        snprintf(more, sizeof more, " (the last of %" PRIu64 " steps)", steps);
    event_raise(&(struct event_subject){.kind = EVENT_CLOCK_STEP,
                                        .severity = LOG_LEVEL_WARNING,
                                        .stream = pipeline->stream_config->name,
                                        .framed = true,
                                        .epoch = step->epoch,
                                        .frame = step->frame},
                "the capture times step by %+.6f s at input frame %" PRIu64
                ": the sender%s; times are measured again from there on%s",
                (double)step->step_ns / NS_PER_SECOND, step->frame,
                step->step_ns > 0 ? " paused, and its frame numbers did not count the pause"
                                  : "'s frame numbers ran ahead of time",
                more);
}

/* Nothing came, or nothing that could be taken since frames came last. */
static void tell_silence(struct pipeline *pipeline, const struct event_subject *subject,
                         const struct source_ledger *ledger, double silent_s)
{
    struct list refused = {0};
    for (int reason = 0; reason < REJECTS; reason++)
        add(&refused, reject_name(reason), ledger->rejected[reason],
            &pipeline->told.refused[reason]);
    if (refused.total == 0)
        event_raise(subject, "no frames for %.0f s; is the sender running, and the network up?",
                    silent_s);
    else
        event_raise(subject,
                    "no frames for %.0f s: %" PRIu64 " datagrams came and were refused (%s); "
                    "docs/senders.md says what to do",
                    silent_s, refused.total, refused.text);
}

/* " (a packet holds 240 frames, and held 480 before)" */
static void print_packet(const struct told_stream *told, const struct stream_stats *stats,
                         char text[96])
{
    text[0] = '\0';
    if (stats->packet_frames > 0 && told->packet_frames > 0 &&
        told->packet_frames != stats->packet_frames)
        snprintf(text, 96, " (a packet holds %" PRIu32 " frames, and held %" PRIu32 " before)",
                 stats->packet_frames, told->packet_frames);
    else if (stats->packet_frames > 0)
        snprintf(text, 96, " (a packet holds %" PRIu32 " frames by `channels` and `format`)",
                 stats->packet_frames);
}

/* Silence, and a rate that is not the declared one. A recorder may be silent between records, and
 * a source that waits has no rate. */
static void tell_arrival(struct pipeline *pipeline, const struct stream_stats *stats,
                         const struct source_ledger *ledger, int64_t now_ns)
{
    const struct source_options *source = &pipeline->stream_config->source;
    struct told_stream *told = &pipeline->told;
    struct event_subject subject = {.kind = EVENT_SILENCE,
                                    .severity = LOG_LEVEL_WARNING,
                                    .stream = pipeline->stream_config->name};
    char packet[96];
    double figure;
    if (pipeline->source == NULL || !pipeline->source_started || !pipeline->source_ops->live ||
        source->mode == MODE_RECORD || now_ns == FLUSH_NS)
        return;
    if (stats->timeline_in != told->arrival.frames)
        memcpy(told->refused, ledger->rejected, sizeof told->refused);
    switch (arrival_check(&told->arrival, stats->timeline_in, source->rate_hz, now_ns, &figure)) {
    case ARRIVAL_SILENT:
        tell_silence(pipeline, &subject, ledger, figure);
        break;
    case ARRIVAL_AGAIN:
        subject.severity = LOG_LEVEL_NOTICE;
        event_raise(&subject, "frames arrive again after %.0f s", figure);
        break;
    case ARRIVAL_OFF_RATE:
        subject.kind = EVENT_RATE;
        print_packet(told, stats, packet);
        event_raise(&subject,
                    "%.6g frames arrive a second instead of %.10g Hz%s: correct `rate`, `channels` "
                    "or `format`, or the sender",
                    figure, source->rate_hz, packet);
        break;
    case ARRIVAL_ON_RATE:
        subject.kind = EVENT_RATE;
        subject.severity = LOG_LEVEL_NOTICE;
        event_raise(&subject, "frames arrive at the declared rate again");
        break;
    case ARRIVAL_STOPPED:
        subject.severity = LOG_LEVEL_NOTICE;
        event_raise(&subject,
                    "the daemon did not run for %.1f s: frames that have waited arrive at once",
                    figure);
        break;
    case ARRIVAL_CATCHES_UP:
        subject.severity = LOG_LEVEL_NOTICE;
        event_raise(&subject,
                    "frames arrive faster than the declared rate: they catch up with %.1f s by "
                    "which they are late",
                    figure);
        break;
    case ARRIVAL_NONE:
        break;
    }
    if (!told->arrival.off_rate && told->arrival.window_ns == now_ns)
        told->packet_frames = stats->packet_frames;
}

static void tell_stream(struct pipeline *pipeline, const struct stream_stats *stats, int64_t now_ns)
{
    struct source_ledger ledger = {0};
    const bool known = pipeline_source_ledger(pipeline, &ledger);
    tell_arrival(pipeline, stats, &ledger, now_ns); /* says whether the stream catches up */
    tell_frames(pipeline, stats, now_ns);
    tell_overlap(pipeline, stats, now_ns);
    if (known) {
        tell_drops(pipeline, &ledger, now_ns);
        tell_epochs(pipeline, stats, &ledger, now_ns);
    }
    tell_steps(pipeline, stats, now_ns);
}

/* Logs the faults that a driver counts. The frames that they cost are logged as gaps. */
static void tell_driver(const char *who, const struct driver_status *driver, const void *status,
                        struct told_driver *told, int64_t now_ns)
{
    struct driver_fault faults[DRIVER_FAULTS_MAX];
    struct list events = {0};
    if (!due(told->told_ns, now_ns))
        return;
    uint32_t count = driver->faults(status, faults);
    for (uint32_t i = 0; i < count; i++)
        add(&events, faults[i].name, faults[i].count, &told->faults[i]);
    if (events.total == 0)
        return;
    log_warning("%s: %s: %s", who, driver->what, events.text);
    told->told_ns = now_ns;
}

static void tell_channels(struct pipeline *pipeline, const struct stream_stats *stats,
                          int64_t now_ns)
{
    for (uint32_t c = 0; c < stats->channels && pipeline->told_channels != NULL; c++) {
        struct told_channel *told = &pipeline->told_channels[c];
        uint64_t overload = stats->levels[c].overload;
        if (overload == told->overload || !due(told->told_ns, now_ns))
            continue;
        if (overload > told->overload) {
            event_raise(&(struct event_subject){.kind = EVENT_OVERLOAD,
                                                .severity = LOG_LEVEL_WARNING,
                                                .stream = pipeline->stream_config->name},
                        "channel %" PRIu32 ": %" PRIu64
                        " samples at full scale; lower the gain before the converter",
                        c + 1, overload - told->overload);
            told->told_ns = now_ns;
        }
        told->overload = overload;
    }
}

/* A receiver that stays away is no news: lines about it become rare until it has been there for a
 * while. */
static bool is_no_news(struct told_sink *told, const struct sink_ledger *ledger, int64_t now_ns)
{
    uint64_t others = 0;
    if (ledger->dropped[DROP_UNREACHABLE] != told->unreachable)
        told->unreachable_ns = now_ns;
    told->unreachable = ledger->dropped[DROP_UNREACHABLE];
    for (int drop = 0; drop < DROPS; drop++)
        others += drop != DROP_UNREACHABLE ? ledger->dropped[drop] - told->dropped[drop] : 0;
    if (others > 0 || now_ns == FLUSH_NS || now_ns - told->unreachable_ns > interval_ns)
        told->interval_ns = 0;
    return now_ns - told->told_ns < told->interval_ns;
}

static void tell_sink(struct pipeline_sink *sink, int64_t now_ns)
{
    struct sink_ledger ledger;
    struct list frames = {0};
    if (sink->sink == NULL || sink->heir != NULL)
        return;
    pipeline_sink_ledger(sink, &ledger);
    if (is_no_news(&sink->told, &ledger, now_ns) || !due(sink->told.told_ns, now_ns))
        return;
    const bool absent = ledger.dropped[DROP_UNREACHABLE] > sink->told.dropped[DROP_UNREACHABLE];
    for (int drop = 0; drop < DROPS; drop++) {
        if (drop == DROP_STOPPED && sink->ops->record != NULL)
            continue; /* as somebody asked for */
        add(&frames, drop_name(drop), ledger.dropped[drop], &sink->told.dropped[drop]);
    }
    if (frames.total == 0)
        return;
    log_warning("sink %s: %" PRIu64 " frames were not delivered: %s", sink->config->name,
                frames.total, frames.text);
    sink->told.told_ns = now_ns;
    const int64_t next_ns =
        sink->told.interval_ns > 0 ? absent_factor * sink->told.interval_ns : interval_ns;
    sink->told.interval_ns = !absent ? 0 : next_ns < absent_most_ns ? next_ns : absent_most_ns;
}

void losses_tell(struct pipeline *pipeline, int64_t now_ns)
{
    struct stream_stats stats;
    stream_stats(pipeline->stream, &stats);
    tell_stream(pipeline, &stats, now_ns);
    tell_channels(pipeline, &stats, now_ns);
    const struct driver_status *driver;
    const void *status;
    char who[96];
    snprintf(who, sizeof who, "stream %s", pipeline->stream_config->name);
    if ((driver = pipeline_source_status(pipeline, &status)) != NULL)
        tell_driver(who, driver, status, &pipeline->told.driver, now_ns);
    for (uint32_t i = 0; i < pipeline->sink_count; i++) {
        struct pipeline_sink *sink = &pipeline->sinks[i];
        tell_sink(sink, now_ns);
        snprintf(who, sizeof who, "sink %s", sink->config->name);
        if (sink->sink != NULL && (driver = pipeline_sink_status(sink, &status)) != NULL)
            tell_driver(who, driver, status, &sink->told.driver, now_ns);
    }
}

void losses_flush(struct pipeline *pipeline)
{
    if (pipeline->stream != NULL && pipeline->scheduled)
        losses_tell(pipeline, FLUSH_NS);
}

void losses_go_on(struct pipeline *pipeline)
{
    struct told_stream *told = &pipeline->told;
    struct stream_stats stats;
    struct source_ledger ledger = {0};
    stream_stats(pipeline->stream, &stats);
    pipeline_source_ledger(pipeline, &ledger);
    memcpy(told->gap, stats.gap, sizeof told->gap);
    memcpy(told->shed, stats.shed, sizeof told->shed);
    told->overlap = stats.overlap;
    told->clock_steps = stats.clock_step.count;
    told->kernel_drops = ledger.kernel_drops;
    told->senders = ledger.senders;
    /* The first epoch of this pipeline is no loss. */
    told->epochs = pipeline->resumed && stats.epochs > 0 ? stats.epochs - 1 : stats.epochs;
    for (uint32_t c = 0; c < stats.channels && pipeline->told_channels != NULL; c++)
        pipeline->told_channels[c].overload = stats.levels[c].overload;
    for (uint32_t i = 0; i < pipeline->sink_count; i++) {
        struct sink_ledger sink;
        pipeline_sink_ledger(&pipeline->sinks[i], &sink);
        memcpy(pipeline->sinks[i].told.dropped, sink.dropped, sizeof sink.dropped);
    }
}
