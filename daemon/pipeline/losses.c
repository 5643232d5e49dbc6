/* Losses: see losses.h. */
#include "pipeline/losses.h"

#include <inttypes.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>

#include "core/clock.h"
#include "core/log.h"

/* The log reports the first loss at once and later ones as a sum per interval. */
static const int64_t interval_ns = 10 * NS_PER_SECOND;

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

static void tell_stream(struct pipeline *pipeline, const struct stream_stats *stats, int64_t now_ns)
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
    const char *name = pipeline->stream_config->name;
    if (frames.total > 0)
        log_warning("stream %s: %" PRIu64 " frames did not arrive: %s", name, frames.total,
                    frames.text);
    if (blocks.total > 0)
        log_warning("stream %s: %" PRIu64 " frames were not processed: %s; the load is %.0f %%",
                    name, blocks.total, blocks.text, 100 * stats->load);
    if (frames.total > 0 || blocks.total > 0)
        told->told_ns = now_ns;
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
            log_warning("stream %s: channel %" PRIu32 ": %" PRIu64
                        " samples at full scale; lower the gain before the converter",
                        pipeline->stream_config->name, c + 1, overload - told->overload);
            told->told_ns = now_ns;
        }
        told->overload = overload;
    }
}

static void tell_sink(struct pipeline_sink *sink, int64_t now_ns)
{
    if (sink->sink == NULL || !due(sink->told.told_ns, now_ns))
        return;
    struct sink_ledger ledger;
    struct list frames = {0};
    pipeline_sink_ledger(sink, &ledger);
    for (int drop = 0; drop < DROPS; drop++)
        add(&frames, drop_name(drop), ledger.dropped[drop], &sink->told.dropped[drop]);
    if (frames.total == 0)
        return;
    log_warning("sink %s: %" PRIu64 " frames were not delivered: %s", sink->config->name,
                frames.total, frames.text);
    sink->told.told_ns = now_ns;
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
