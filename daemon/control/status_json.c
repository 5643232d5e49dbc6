/*
 * Status as JSON, for programs and tests: every figure of the table under a name, and the three
 * ledgers with all their parts, also those that are zero. See status.h.
 */
#include <jansson.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "core/clock.h"
#include "control/alarms.h"
#include "control/osc_counters.h"
#include "control/analysis_json.h"
#include "control/status.h"
#include "control/status_internal.h"
#include "device/spill.h"
#include "pipeline/job.h"

static json_t *integer(uint64_t value)
{
    return json_integer((json_int_t)value);
}

/* JSON has no infinities and no NaN: they become null. */
static json_t *real(double value)
{
    return isfinite(value) ? json_real(value) : json_null();
}

#define US INT64_C(1000)
#define MS INT64_C(1000000)

/* From what a GPU takes for a block to what nobody waits for. */
const int64_t status_bounds_ns[STATUS_BOUNDS] = {
    10 * US, 20 * US, 50 * US, 100 * US, 200 * US, 500 * US, 1 * MS,    2 * MS,    5 * MS,
    10 * MS, 20 * MS, 50 * MS, 100 * MS, 200 * MS, 500 * MS, 1000 * MS, 2000 * MS, 5000 * MS,
};

static json_t *bounds_json(void)
{
    json_t *array = json_array();
    for (int i = 0; i < STATUS_BOUNDS; i++)
        json_array_append_new(array, json_integer(status_bounds_ns[i]));
    return array;
}

/* Out of memory: Jansson's constructors return NULL and its setters ignore it, so nothing here
 * checks for it; a figure is then missing, or json_dumps fails. */
static json_t *histogram_json(const struct histogram *histogram)
{
    json_t *object = json_object();
    json_object_set_new(object, "count", integer(histogram->count));
    for (int q = 0; q < STATUS_QUANTILES; q++)
        json_object_set_new(
            object, status_quantiles[q].name,
            json_integer(histogram_quantile(histogram, status_quantiles[q].quantile)));
    json_object_set_new(object, "max", json_integer(histogram->max_ns));
    json_object_set_new(object, "sum", json_integer(histogram->sum_ns));
    uint64_t counts[STATUS_BOUNDS];
    histogram_cumulate(histogram, status_bounds_ns, STATUS_BOUNDS, counts);
    json_t *buckets = json_array();
    for (int i = 0; i < STATUS_BOUNDS; i++)
        json_array_append_new(buckets, integer(counts[i]));
    json_object_set_new(object, "buckets", buckets);
    return object;
}

static json_t *receive_json(const struct receive_figures *receive)
{
    json_t *object = json_object(), *costs = json_object();
    for (int path = 0; path < RECEIVE_PATHS; path++)
        json_object_set_new(costs, receive_path_name((enum receive_path)path),
                            receive->cost_ns[path] > 0 ? real(receive->cost_ns[path])
                                                       : json_null());
    json_object_set_new(object, "wanted", json_string(receive_path_name(receive->requested)));
    json_object_set_new(object, "path", json_string(receive_path_name(receive->path)));
    json_object_set_new(object, "datagram_cost_ns", costs);
    json_object_set_new(object, "trials", integer(receive->trials));
    json_object_set_new(object, "messages", integer(receive->messages));
    json_object_set_new(object, "batches", integer(receive->batches));
    json_object_set_new(object, "prediction_hits", integer(receive->prediction_hits));
    json_object_set_new(object, "prediction_misses", integer(receive->prediction_misses));
    return object;
}

static json_t *datagrams_json(const struct source_ledger *ledger)
{
    json_t *object = json_object(), *rejected = json_object();
    for (int reject = 0; reject < REJECTS; reject++)
        json_object_set_new(rejected, reject_name(reject), integer(ledger->rejected[reject]));
    json_object_set_new(object, "read", integer(ledger->datagrams));
    json_object_set_new(object, "accepted", integer(ledger->accepted));
    json_object_set_new(object, "held", integer(ledger->held));
    json_object_set_new(object, "rejected", rejected);
    json_object_set_new(object, "kernel_drops", integer(ledger->kernel_drops));
    json_object_set_new(object, "senders", integer(ledger->senders));
    json_object_set_new(object, "ssrc", integer(ledger->ssrc));
    json_object_set_new(object, "receive_buffer_bytes", integer(ledger->buffer_bytes));
    json_object_set_new(object, "clock_steps", integer(ledger->clock_steps));
    json_object_set_new(object, "loss_detectable", json_boolean(ledger->loss_detectable));
    if (ledger->receive.messages > 0)
        json_object_set_new(object, "receive", receive_json(&ledger->receive));
    return object;
}

static json_t *frames_in_json(const struct stream_stats *stats)
{
    json_t *object = json_object(), *gaps = json_object();
    for (int cause = 0; cause < INVALID_CAUSES; cause++)
        json_object_set_new(gaps, invalid_cause_name(cause), integer(stats->gap[cause]));
    json_object_set_new(object, "timeline", integer(stats->timeline_in));
    json_object_set_new(object, "received", integer(stats->received));
    json_object_set_new(object, "awaited", integer(stats->awaited));
    json_object_set_new(object, "gap", gaps);
    json_t *packets = json_object();
    json_object_set_new(packets, "frames", integer(stats->carried));
    json_object_set_new(packets, "overlap", integer(stats->overlap));
    json_object_set_new(packets, "late", integer(stats->late_parts));
    json_object_set_new(object, "in_packets", packets);
    return object;
}

static json_t *frames_out_json(const struct stream_stats *stats)
{
    json_t *object = json_object(), *sheds = json_object();
    for (int shed = 0; shed < SHEDS; shed++)
        json_object_set_new(sheds, shed_name(shed), integer(stats->shed[shed]));
    json_object_set_new(object, "timeline", integer(stats->timeline_out));
    json_object_set_new(object, "out", integer(stats->out));
    json_object_set_new(object, "waiting", integer(stats->waiting));
    json_object_set_new(object, "submitted", integer(stats->submitted));
    json_object_set_new(object, "shed", sheds);
    return object;
}

static json_t *sink_json(const struct pipeline_sink *sink)
{
    const struct driver_status *driver;
    const void *status;
    struct sink_ledger ledger;
    pipeline_sink_ledger(sink, &ledger);
    json_t *object = json_object(), *dropped = json_object();
    for (int drop = 0; drop < DROPS; drop++)
        json_object_set_new(dropped, drop_name(drop), integer(ledger.dropped[drop]));
    json_object_set_new(object, "name", json_string(sink->config->name));
    json_object_set_new(object, "type", json_string(sink->config->driver->name));
    json_object_set_new(object, "frames", integer(ledger.frames));
    json_object_set_new(object, "delivered", integer(ledger.delivered));
    json_object_set_new(object, "pending", integer(ledger.pending));
    json_object_set_new(object, "dropped", dropped);
    json_object_set_new(object, "packets", integer(ledger.packets));
    json_object_set_new(object, "bytes", integer(ledger.bytes));
    json_object_set_new(object, "saturated", integer(ledger.saturated));
    if (sink->ops->record == NULL && (driver = pipeline_sink_status(sink, &status)) != NULL)
        json_object_set_new(object, driver->name, driver->json(status));
    return object;
}

/* Of the sinks that take commands to record. */
static json_t *recordings_json(const struct pipeline *pipeline)
{
    json_t *array = json_array();
    for (uint32_t i = 0; i < pipeline->sink_count; i++) {
        const struct pipeline_sink *sink = &pipeline->sinks[i];
        const void *status;
        const struct driver_status *driver = pipeline_sink_status(sink, &status);
        if (sink->ops->record == NULL || driver == NULL)
            continue;
        json_t *object = driver->json(status);
        json_object_set_new(object, "name", json_string(sink->config->name));
        json_array_append_new(array, object);
    }
    return array;
}

static json_t *channels_json(const struct pipeline *pipeline, const struct stream_stats *stats)
{
    json_t *array = json_array();
    const int64_t now_ns = clock_monotonic_ns();
    for (uint32_t c = 0; c < stats->channels; c++) {
        const struct channel_levels *levels = &stats->levels[c];
        double frames = levels->frames > 0 ? (double)levels->frames : 1;
        json_t *object = json_object();
        json_object_set_new(object, "unit", json_string(pipeline->stream_config->scales[c].unit));
        json_object_set_new(object, "frames", integer(levels->frames));
        json_object_set_new(object, "dc", real(levels->sum / frames));
        json_object_set_new(object, "rms", real(sqrt(levels->sum_squares / frames)));
        json_object_set_new(object, "peak", real(levels->peak));
        struct recent_levels recent;
        recent_read(stats->recent, c, now_ns, &recent);
        json_object_set_new(object, "rms_1s", recent.known ? real(recent.rms) : json_null());
        json_object_set_new(object, "peak_1s", recent.known ? real(recent.peak) : json_null());
        json_object_set_new(object, "peak_held", real(recent.held));
        const struct level_scale scale = config_level_scale(pipeline->stream_config, c);
        json_object_set_new(object, "full_scale",
                            scale.full_scale > 0 ? real(scale.full_scale) : json_null());
        json_object_set_new(object, "overloads", integer(levels->overload));
        json_object_set_new(object, "non_finite", integer(levels->nonfinite));
        json_array_append_new(array, object);
    }
    return array;
}

static json_t *plan_json(const struct plan_info *plan)
{
    json_t *object = json_object();
    json_object_set_new(object, "variant", json_string(plan->variant));
    json_object_set_new(object, "block_frames", integer(plan->hop));
    json_object_set_new(object, "fft", integer(plan->fft));
    json_object_set_new(object, "partitions", integer(plan->partitions));
    json_object_set_new(object, "taps", integer(plan->taps_longest));
    json_object_set_new(object, "history_frames", integer(plan->history_frames));
    json_object_set_new(object, "self_test_error", real(plan->self_test_error));
    json_object_set_new(object, "spilled_bytes",
                        plan->spilled_bytes != SPILL_UNKNOWN ? integer(plan->spilled_bytes)
                                                             : json_null());
    return object;
}

static json_t *self_check_json(const struct self_check *check)
{
    struct self_check_figures figures;
    self_check_figures(check, &figures);
    json_t *object = json_object();
    json_object_set_new(object, "checks", integer(figures.checks));
    json_object_set_new(object, "failures", integer(figures.failures));
    if (figures.checks == 0)
        return object;
    json_object_set_new(object, "last_error", real(figures.last));
    json_object_set_new(object, "worst_error", real(figures.worst));
    json_object_set_new(object, "worst_output", integer(figures.worst_output + 1));
    json_object_set_new(object, "last_age_ns",
                        json_integer(clock_monotonic_ns() - figures.last_ns));
    return object;
}

/* Beside the configured gains, for every output; silence has no gain in dB. */
static json_t *gains_json(const struct pipeline *pipeline)
{
    const struct result_gains *now = pipeline->gains.now;
    const uint32_t outputs = pipeline->stream_config->output_count;
    json_t *object = json_object(), *gain_db = json_array(), *muted = json_array();
    for (uint32_t o = 0; o < outputs; o++) {
        const double factor = now != NULL ? (double)now->factors[o] : 1;
        json_array_append_new(gain_db, factor > 0 ? json_real(20 * log10(factor)) : json_null());
        json_array_append_new(muted, json_boolean(now != NULL && now->muted[o]));
    }
    json_object_set_new(object, "changes", integer(now != NULL ? now->changes : 0));
    json_object_set_new(object, "as_configured", json_boolean(now == NULL || now->configured));
    json_object_set_new(object, "gain_db", gain_db);
    json_object_set_new(object, "muted", muted);
    if (now == NULL)
        return object;
    json_object_set_new(object, "who", json_string(now->who));
    json_object_set_new(object, "since_realtime_ns", json_integer(pipeline->gains.realtime_ns));
    if (pipeline->gains.framed) {
        json_object_set_new(object, "since_epoch", integer(pipeline->gains.epoch));
        json_object_set_new(object, "since_frame", integer(pipeline->gains.frame));
    }
    return object;
}

/* In frames of the output. */
static json_t *excitation_json(const struct config_stream *config)
{
    const struct excitation excitation =
        excitation_decimated(config->source.excitation, config->decimate);
    if (!excitation.known)
        return json_null();
    json_t *object = json_object();
    json_object_set_new(object, "start_frame", real(excitation.start_frame));
    json_object_set_new(object, "period_frames",
                        excitation.period_frames > 0 ? real(excitation.period_frames)
                                                     : json_null());
    return object;
}

/* The filter in use: by name, several by a comma, and the hash of its taps. */
static json_t *filter_json(const struct pipeline *pipeline)
{
    const struct pipeline_filter *now = &pipeline->filter;
    char names[STATUS_FILTER_NAMES];
    json_t *object = json_object();
    json_object_set_new(object, "name", json_string(status_filter_names(pipeline, names)));
    json_object_set_new(object, "hash",
                        json_string(now->name != NULL ? now->hash : pipeline->taps_hash));
    json_object_set_new(object, "as_configured", json_boolean(now->name == NULL));
    if (now->name == NULL)
        return object;
    json_object_set_new(object, "who", json_string(now->who));
    json_object_set_new(object, "since_realtime_ns", json_integer(now->realtime_ns));
    if (now->framed) {
        json_object_set_new(object, "since_epoch", integer(now->epoch));
        json_object_set_new(object, "since_frame", integer(now->frame));
    }
    return object;
}

static json_t *latency_json(const struct stream_stats *stats)
{
    json_t *object = json_object();
    for (int stage = 0; stage < STAGES; stage++)
        json_object_set_new(object, stage_name(stage), histogram_json(&stats->stages[stage]));
    json_object_set_new(object, "total", histogram_json(stats->total));
    return object;
}

static json_t *stream_json(const struct pipeline *pipeline)
{
    const struct config_stream *config = pipeline->stream_config;
    struct stream_stats stats;
    stream_stats(pipeline->stream, &stats);
    json_t *object = json_object();
    json_object_set_new(object, "name", json_string(config->name));
    json_object_set_new(object, "rate_hz", real(config->source.rate_hz));
    json_object_set_new(object, "decimate", integer(config->decimate));
    json_object_set_new(object, "output_rate_hz", real(config->output_rate_hz));
    if (stats.rate_known) {
        json_object_set_new(object, "measured_rate_hz", real(stats.rate_hz));
        json_object_set_new(object, "rate_ppm", real(stats.rate_ppm));
        json_object_set_new(object, "jitter_ns", real(stats.jitter_ns));
    }
    json_object_set_new(object, "device", json_integer(pipeline->placement->index));
    json_object_set_new(object, "loop", json_integer(pipeline->loop));
    json_object_set_new(object, "engine", json_integer(pipeline->placement->number));
    const struct placement *standby = takeover_standby(pipeline);
    json_object_set_new(object, "standby",
                        standby != NULL ? json_integer(standby->number) : json_null());
    json_object_set_new(object, "plan", plan_json(plan_info(pipeline->plan)));
    if (pipeline->self_check != NULL)
        json_object_set_new(object, "self_check", self_check_json(pipeline->self_check));
    json_object_set_new(object, "delay_frames", real(stats.delay_frames));
    json_object_set_new(object, "excitation", excitation_json(config));
    json_object_set_new(object, "round_trip_frames", integer(pipeline->round_trip_frames));
    json_object_set_new(object, "aligned", json_boolean(config->align));
    if (stats.last_frame_ns != 0) {
        json_object_set_new(object, "last_frame", integer(stats.last_frame));
        json_object_set_new(object, "last_frame_age_ns",
                            json_integer(clock_monotonic_ns() - stats.last_frame_ns));
    }
    json_object_set_new(object, "epochs", integer(stats.epochs));
    json_object_set_new(object, "records", integer(stats.records));
    if (stats.last_gap_realtime_ns != 0)
        json_object_set_new(object, "last_gap_realtime_ns",
                            json_integer(stats.last_gap_realtime_ns));
    json_t *invalid = json_object();
    for (int cause = 0; cause < INVALID_CAUSES; cause++)
        json_object_set_new(invalid, invalid_cause_name(cause), integer(stats.invalid[cause]));
    json_object_set_new(object, "invalid", invalid);
    json_object_set_new(object, "invalid_frames", integer(stats.invalid_frames));
    json_object_set_new(object, "priority", integer(stats.priority));
    json_object_set_new(object, "load", real(stats.load));
    json_object_set_new(object, "load_worst", real(stats.load_worst));
    json_object_set_new(object, "buffer_fill", real(stats.fill));
    json_object_set_new(object, "blocks", integer(stats.blocks));
    json_object_set_new(object, "batches", integer(stats.batches));
    json_object_set_new(object, "batches_failed", integer(stats.batches_failed));
    json_object_set_new(object, "deadline_misses", integer(stats.deadline_misses));
    json_object_set_new(object, "channels", channels_json(pipeline, &stats));
    json_object_set_new(object, "gains", gains_json(pipeline));
    json_object_set_new(object, "filter", filter_json(pipeline));
    if (pipeline->changed_by[0] != '\0')
        json_object_set_new(object, "changed_by", json_string(pipeline->changed_by));
    if (pipeline->held_since_ns != 0)
        json_object_set_new(object, "held_since_realtime_ns",
                            json_integer(pipeline->held_since_ns));
    json_object_set_new(object, "latency_ns", latency_json(&stats));
    struct source_ledger datagrams;
    if (pipeline_source_ledger(pipeline, &datagrams))
        json_object_set_new(object, "datagrams", datagrams_json(&datagrams));
    const struct driver_status *driver;
    const void *status;
    if ((driver = pipeline_source_status(pipeline, &status)) != NULL)
        json_object_set_new(object, driver->name, driver->json(status));
    json_object_set_new(object, "frames_in", frames_in_json(&stats));
    json_object_set_new(object, "frames_out", frames_out_json(&stats));
    json_t *sinks = json_array();
    for (uint32_t i = 0; i < pipeline->sink_count; i++)
        json_array_append_new(sinks, sink_json(&pipeline->sinks[i]));
    json_object_set_new(object, "sinks", sinks);
    json_object_set_new(object, "recordings", recordings_json(pipeline));
    json_object_set_new(object, "analyses", analyses_status_json(pipeline));
    return object;
}

/* The memory node, and the processors of its threads: null where nothing is bound. */
static void set_place(json_t *object, const struct node_place *place)
{
    char text[512];
    const bool threads = number_set_count(&place->processors) > 0;
    json_object_set_new(object, "node", place->bound ? json_integer(place->node) : json_null());
    json_object_set_new(object, "processors",
                        threads
                            ? json_string(number_set_text(&place->processors, text, sizeof text))
                            : json_null());
}

static json_t *device_json(const struct placement *placement)
{
    const struct device_info *device = engine_device(placement->engine);
    json_t *object = json_object();
    json_object_set_new(object, "index", json_integer(placement->index));
    json_object_set_new(object, "engine", json_integer(placement->number));
    json_object_set_new(object, "loop", json_integer(placement->loop));
    json_object_set_new(object, "name", json_string(device->name));
    json_object_set_new(object, "platform", json_string(device->platform));
    json_object_set_new(object, "driver", json_string(device->driver));
    set_place(object, engine_place(placement->engine));
    json_t *losses = json_object();
    for (int loss = ENGINE_WORKS + 1; loss < ENGINE_LOSSES; loss++)
        json_object_set_new(losses, engine_loss_name((enum engine_loss)loss),
                            integer(placement->losses[loss]));
    json_object_set_new(object, "state", json_string(placement_state(placement)));
    json_object_set_new(object, "losses", losses);
    json_object_set_new(object, "last_loss",
                        placement->lost_ns != 0 ? json_string(placement->why) : json_null());
    json_object_set_new(object, "attempts", integer(placement->attempts));
    json_object_set_new(object, "returns", integer(placement->returns));
    struct engine_traffic traffic;
    engine_traffic(placement->engine, &traffic);
    json_object_set_new(object, "ring_bytes_in", integer(traffic.ring_bytes));
    json_object_set_new(object, "presence_bytes_in", integer(traffic.presence_bytes));
    json_object_set_new(object, "table_bytes_in", integer(traffic.table_bytes));
    json_object_set_new(object, "result_bytes_out", integer(traffic.result_bytes));
    json_object_set_new(object, "fed_bytes_inside", integer(traffic.fed_bytes));
    return object;
}

json_t *status_json_devices(const struct process *process)
{
    json_t *devices = json_array();
    const struct placement *placement;
    for (uint32_t i = 0; (placement = devices_at(process->devices, i)) != NULL; i++)
        json_array_append_new(devices, device_json(placement));
    return devices;
}

json_t *status_json_head(const struct process *process)
{
    json_t *object = json_object(), *devices = status_json_devices(process),
           *streams = json_array();
    json_object_set_new(object, "version", json_string(CONVOLVD_VERSION));
    json_object_set_new(object, "state", json_string(process_phase_name(process->phase)));
    json_object_set_new(object, "up_ns", json_integer(clock_monotonic_ns() - process->started_ns));
    json_object_set_new(object, "realtime_ns", json_integer(clock_realtime_ns()));
    json_object_set_new(object, "histogram_bounds_ns", bounds_json());
    /* `device` repeats the first of `devices`: most machines have only one. */
    if (json_array_size(devices) > 0)
        json_object_set(object, "device", json_array_get(devices, 0));
    json_object_set_new(object, "devices", devices);
    json_object_set_new(object, "devices_abandoned", integer(takeover_abandoned()));
    json_object_set_new(object, "changes_abandoned", integer(jobs_left_behind(JOB_OF_CHANGE)));
    json_object_set_new(object, "responses_abandoned", integer(jobs_left_behind(JOB_OF_RESPONSE)));
    json_object_set_new(object, "streams", streams);
    return object;
}

void status_json_stream(json_t *object, const struct pipeline *pipeline)
{
    json_array_append_new(json_object_get(object, "streams"), stream_json(pipeline));
}

void status_json_tail(const struct process *process, json_t *object)
{
    if (process->alarms != NULL)
        json_object_set_new(object, "alarms", alarms_json(process->alarms));
    json_t *osc = osc_counters_json(process->environment->osc);
    if (osc != NULL)
        json_object_set_new(object, "osc", osc);
}

static json_t *status_json(const struct process *process)
{
    const struct pipeline *pipeline;
    json_t *object = status_json_head(process);
    for (uint32_t at = 0;
         (pipeline = pipelines_next(process->pipelines, PIPELINES_RUNNING, &at)) != NULL;)
        status_json_stream(object, pipeline);
    status_json_tail(process, object);
    return object;
}

char *status_json_text(const struct process *process)
{
    json_t *object = status_json(process);
    char *text = json_dumps(object, JSON_INDENT(1));
    json_decref(object);
    size_t length = text != NULL ? strlen(text) : 0;
    char *longer = text != NULL ? realloc(text, length + 2) : NULL;
    if (longer == NULL) {
        free(text);
        return NULL;
    }
    memcpy(longer + length, "\n", 2);
    return longer;
}
