/* Metrics: see metrics.h. */
#include "clients/web/metrics.h"

#include <math.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

enum { LABELS_BYTES = 512, BUCKETS_MAX = 19, KEY_BYTES = 64 };

#define NS 1e-9

/* ---- the table --------------------------------------------------------------------------- */

enum type { GAUGE, COUNTER, HISTOGRAM };

/* What one sample speaks of, and so its first labels. */
enum scope { PROCESS, DEVICE, STREAM, SINK, CHANNEL, ALARM, SCOPES };

static const char *const scope_labels[SCOPES] = {
    [PROCESS] = "",
    [DEVICE] = "device",
    [STREAM] = "stream",
    [SINK] = "stream, sink",
    [CHANNEL] = "stream, channel, unit",
    [ALARM] = "alarm, stream, channel, quantity",
};

/* How the JSON below `path` becomes samples. */
enum form {
    NUMBER,  /* a number or a boolean; of a list, its length */
    MEMBERS, /* an object: one sample a member, whose name is the value of label `label` */
    SUM,     /* an object: all its members together */
    STATES,  /* a word: one sample for each word of `label`, 1 where it is this one */
    FACTS,   /* an object: one sample of 1 that has the members of `label` as labels */
};

struct metric {
    const char *name; /* without convolvd_ */
    enum type type;
    enum scope scope;
    const char *path; /* dots separate members; "": the whole object */
    enum form form;
    const char *label; /* MEMBERS: its name; STATES, FACTS: a list, one separated by | */
    double scale;      /* 0: 1 */
    const char *help;
};

/* One row a metric reads best as written. */
/* clang-format off */
static const struct metric metrics[] = {
    {"build_info", GAUGE, PROCESS, "", FACTS, "version", 0, "Version of the daemon; always 1."},
    {"state", GAUGE, PROCESS, "state", STATES, "preparing|running|stopping|stopped", 0, "1 for the phase the daemon is in."},
    {"uptime_seconds", GAUGE, PROCESS, "up_ns", NUMBER, NULL, NS, "Time since the daemon started."},
    {"devices_abandoned", GAUGE, PROCESS, "devices_abandoned", NUMBER, NULL, 0, "Lost devices whose driver never returned."},
    {"osc_packets_total", COUNTER, PROCESS, "osc.packets", NUMBER, NULL, 0, "Datagrams and TCP packets that the OSC server has seen."},
    {"osc_refused_total", COUNTER, PROCESS, "osc.refused", NUMBER, NULL, 0, "Datagrams and connections from addresses that are neither allowed nor trusted."},
    {"osc_socket_drops_total", COUNTER, PROCESS, "osc.socket_drops", NUMBER, NULL, 0, "Datagrams that the kernel dropped because the OSC socket was full."},
    {"osc_sent_total", COUNTER, PROCESS, "osc.sent", NUMBER, NULL, 0, "OSC messages sent."},
    {"osc_dropped_total", COUNTER, PROCESS, "osc.dropped", NUMBER, NULL, 0, "OSC messages for which a socket or connection had no room."},
    {"osc_subscriptions", GAUGE, PROCESS, "osc.subscriptions", NUMBER, NULL, 0, "OSC subscriptions that run now."},

    {"device_info", GAUGE, DEVICE, "", FACTS, "name|platform|driver", 0, "The OpenCL device; always 1."},
    {"device_state", GAUGE, DEVICE, "state", STATES, "works|lost|given up", 0, "1 for the state the device is in."},
    {"device_losses_total", COUNTER, DEVICE, "losses", MEMBERS, "cause", 0, "How often the device was lost."},
    {"device_attempts_total", COUNTER, DEVICE, "attempts", NUMBER, NULL, 0, "Attempts to rebuild a lost device."},
    {"device_returns_total", COUNTER, DEVICE, "returns", NUMBER, NULL, 0, "How often a lost device was taken back."},
    {"device_input_bytes_total", COUNTER, DEVICE, "ring_bytes_in", NUMBER, NULL, 0, "Bytes of input copied to the device."},
    {"device_result_bytes_total", COUNTER, DEVICE, "result_bytes_out", NUMBER, NULL, 0, "Bytes of results copied from the device."},

    {"stream_info", GAUGE, STREAM, "plan", FACTS, "variant|block_frames|fft|partitions|taps", 0, "The plan that computes the stream; always 1."},
    {"stream_device", GAUGE, STREAM, "device", NUMBER, NULL, 0, "Number of the device that computes the stream."},
    {"stream_channels", GAUGE, STREAM, "channels", NUMBER, NULL, 0, "Channels of the stream, those without series too."},
    {"stream_rate_hertz", GAUGE, STREAM, "rate_hz", NUMBER, NULL, 0, "Declared frames a second."},
    {"stream_measured_rate_hertz", GAUGE, STREAM, "measured_rate_hz", NUMBER, NULL, 0, "Frames a second as measured by receive times."},
    {"stream_rate_deviation_ratio", GAUGE, STREAM, "rate_ppm", NUMBER, NULL, 1e-6, "Measured over declared rate, less 1; 1e-6 is 1 ppm."},
    {"stream_receive_jitter_seconds", GAUGE, STREAM, "jitter_ns", NUMBER, NULL, NS, "Deviation of receive times from the line through them."},
    {"stream_last_frame_age_seconds", GAUGE, STREAM, "last_frame_age_ns", NUMBER, NULL, NS, "Time since the newest frame was received; absent before the first."},
    {"stream_epochs_total", COUNTER, STREAM, "epochs", NUMBER, NULL, 0, "Epochs begun: runs of frames with one numbering and history."},
    {"stream_records_total", COUNTER, STREAM, "records", NUMBER, NULL, 0, "Records begun, in record mode."},
    {"stream_timeline_frames_total", COUNTER, STREAM, "frames_in.timeline", NUMBER, NULL, 0, "Frames of the timeline: received, awaited or lost."},
    {"stream_received_frames_total", COUNTER, STREAM, "frames_in.received", NUMBER, NULL, 0, "Frames received."},
    {"stream_awaited_frames", GAUGE, STREAM, "frames_in.awaited", NUMBER, NULL, 0, "Missing frames that may still come within the reorder window."},
    {"stream_lost_frames_total", COUNTER, STREAM, "frames_in.gap", SUM, NULL, 0, "Frames lost, of all causes."},
    {"stream_lost_frames", GAUGE, STREAM, "frames_in.gap", MEMBERS, "cause", 0, "Frames lost, by cause. A gauge: frames lost on the network that come late move to that cause."},
    {"stream_overlapping_frames_total", COUNTER, STREAM, "frames_in.in_packets.overlap", NUMBER, NULL, 0, "Frames dropped because they were there already: packets overlap."},
    {"stream_result_frames_total", COUNTER, STREAM, "frames_out.out", NUMBER, NULL, 0, "Frames handed out as results, counted at the input's rate."},
    {"stream_waiting_frames", GAUGE, STREAM, "frames_out.waiting", NUMBER, NULL, 0, "Queue: frames that wait for a batch."},
    {"stream_submitted_frames", GAUGE, STREAM, "frames_out.submitted", NUMBER, NULL, 0, "Queue: frames on the device."},
    {"stream_shed_frames_total", COUNTER, STREAM, "frames_out.shed", MEMBERS, "cause", 0, "Frames not processed; aligned and decimated are so by configuration."},
    {"stream_invalid_frames_total", COUNTER, STREAM, "invalid", MEMBERS, "cause", 0, "Result frames flagged as invalid, by cause; one frame may have several."},
    {"stream_load_ratio", GAUGE, STREAM, "load", NUMBER, NULL, 0, "Share of the device's time that the stream takes."},
    {"stream_load_worst_ratio", GAUGE, STREAM, "load_worst", NUMBER, NULL, 0, "The highest load so far."},
    {"stream_buffer_fill_ratio", GAUGE, STREAM, "buffer_fill", NUMBER, NULL, 0, "Queue: how full the input ring is."},
    {"stream_blocks_total", COUNTER, STREAM, "blocks", NUMBER, NULL, 0, "Blocks processed."},
    {"stream_batches_total", COUNTER, STREAM, "batches", NUMBER, NULL, 0, "Batches computed."},
    {"stream_batches_failed_total", COUNTER, STREAM, "batches_failed", NUMBER, NULL, 0, "Batches failed by the device or lost with it."},
    {"stream_deadline_misses_total", COUNTER, STREAM, "deadline_misses", NUMBER, NULL, 0, "Blocks handed out after the stream's deadline."},
    {"stream_latency_seconds", HISTOGRAM, STREAM, "latency_ns", MEMBERS, "stage", NS, "Latency of blocks by stage; total: last frame received to result handed over."},
    {"stream_self_test_error_ratio", GAUGE, STREAM, "plan.self_test_error", NUMBER, NULL, 0, "Error of the plan's self-test."},
    {"stream_self_checks_total", COUNTER, STREAM, "self_check.checks", NUMBER, NULL, 0, "Blocks computed again in double precision."},
    {"stream_self_check_failures_total", COUNTER, STREAM, "self_check.failures", NUMBER, NULL, 0, "Those beyond the error bound."},
    {"stream_self_check_error_ratio", GAUGE, STREAM, "self_check.last_error", NUMBER, NULL, 0, "Error of the last one over the error bound; above 1 the result is wrong."},
    {"stream_self_check_worst_error_ratio", GAUGE, STREAM, "self_check.worst_error", NUMBER, NULL, 0, "The largest so far."},
    {"stream_self_check_age_seconds", GAUGE, STREAM, "self_check.last_age_ns", NUMBER, NULL, NS, "Time since the last self-check."},
    {"stream_filter_delay_frames", GAUGE, STREAM, "delay_frames", NUMBER, NULL, 0, "Declared delay of the filters, in frames of the output."},
    {"stream_gain_changes_total", COUNTER, STREAM, "gains.changes", NUMBER, NULL, 0, "Changes of gain or mute while running."},
    {"stream_datagrams_total", COUNTER, STREAM, "datagrams.read", NUMBER, NULL, 0, "Datagrams read from the socket."},
    {"stream_datagrams_accepted_total", COUNTER, STREAM, "datagrams.accepted", NUMBER, NULL, 0, "Datagrams whose frames were taken."},
    {"stream_datagrams_rejected_total", COUNTER, STREAM, "datagrams.rejected", MEMBERS, "cause", 0, "Datagrams rejected; empty ones are heartbeats and no loss."},
    {"stream_kernel_drops_total", COUNTER, STREAM, "datagrams.kernel_drops", NUMBER, NULL, 0, "Datagrams that the kernel dropped because the socket's buffer was full."},
    {"stream_receive_buffer_bytes", GAUGE, STREAM, "datagrams.receive_buffer_bytes", NUMBER, NULL, 0, "Size of the socket's buffer."},
    {"stream_senders_total", COUNTER, STREAM, "datagrams.senders", NUMBER, NULL, 0, "Senders followed so far."},
    {"stream_clock_steps_total", COUNTER, STREAM, "datagrams.clock_steps", NUMBER, NULL, 0, "Steps of the wall clock seen."},

    {"sink_frames_total", COUNTER, SINK, "frames", NUMBER, NULL, 0, "Frames handed to the sink."},
    {"sink_delivered_frames_total", COUNTER, SINK, "delivered", NUMBER, NULL, 0, "Frames that it delivered."},
    {"sink_pending_frames", GAUGE, SINK, "pending", NUMBER, NULL, 0, "Queue: frames that it has not delivered yet."},
    {"sink_dropped_frames_total", COUNTER, SINK, "dropped", MEMBERS, "cause", 0, "Frames that it dropped."},
    {"sink_packets_total", COUNTER, SINK, "packets", NUMBER, NULL, 0, "Packets, messages or writes."},
    {"sink_bytes_total", COUNTER, SINK, "bytes", NUMBER, NULL, 0, "Bytes delivered."},
    {"sink_saturated_samples_total", COUNTER, SINK, "saturated", NUMBER, NULL, 0, "Samples beyond the sink's full scale."},

    {"channel_rms", GAUGE, CHANNEL, "rms_1s", NUMBER, NULL, 0, "Root mean square of the input over the last second, in the label's unit."},
    {"channel_peak", GAUGE, CHANNEL, "peak_1s", NUMBER, NULL, 0, "Peak of the input over the last second."},
    {"channel_peak_held", GAUGE, CHANNEL, "peak_held", NUMBER, NULL, 0, "Held peak of the input."},
    {"channel_rms_since_start", GAUGE, CHANNEL, "rms", NUMBER, NULL, 0, "Root mean square of the input since the start."},
    {"channel_peak_since_start", GAUGE, CHANNEL, "peak", NUMBER, NULL, 0, "Peak of the input since the start."},
    {"channel_dc", GAUGE, CHANNEL, "dc", NUMBER, NULL, 0, "Mean of the input since the start."},
    {"channel_overloads_total", COUNTER, CHANNEL, "overloads", NUMBER, NULL, 0, "Clips: samples at the full-scale code."},
    {"channel_non_finite_samples_total", COUNTER, CHANNEL, "non_finite", NUMBER, NULL, 0, "Samples that were NaN or infinite."},

    {"alarm_active", GAUGE, ALARM, "state", STATES, "active", 0, "1 while the alarm is active, 0 from its end until it is acknowledged."},
    {"alarm_acknowledged", GAUGE, ALARM, "acknowledged", NUMBER, NULL, 0, "1 when somebody has acknowledged it."},
    {"alarm_raised_total", COUNTER, ALARM, "raised", NUMBER, NULL, 0, "How often it was raised."},
};
/* clang-format on */

enum { METRICS = sizeof metrics / sizeof *metrics };

static const char up_help[] = "1 while the daemon answers on its control socket.";

static const char *type_name(enum type type)
{
    return type == GAUGE ? "gauge" : type == COUNTER ? "counter" : "histogram";
}

/* ---- text -------------------------------------------------------------------------------- */

struct writer {
    FILE *out;
    const json_t *status;
    const struct metrics_options *options;
    const struct metric *metric;
    bool headed;   /* its HELP and TYPE are written */
    bool labelled; /* the sample being written has labels */
};

/* Backslash, quote and line end are escaped; other control characters become spaces. */
static void write_escaped(FILE *out, const char *text)
{
    for (; *text != '\0'; text++) {
        if (*text == '\\' || *text == '"')
            fputc('\\', out);
        if (*text == '\n')
            fputs("\\n", out);
        else
            fputc((unsigned char)*text < 0x20 ? ' ' : *text, out);
    }
}

static void write_header(FILE *out, const char *name, const char *help, enum type type)
{
    fprintf(out, "# HELP convolvd_%s %s\n# TYPE convolvd_%s %s\n", name, help, name,
            type_name(type));
}

/* A sample begins: its name with `suffix`, and the labels of its scope. */
static void begin_sample(struct writer *writer, const char *suffix, const char *labels)
{
    if (!writer->headed)
        write_header(writer->out, writer->metric->name, writer->metric->help, writer->metric->type);
    writer->headed = true;
    writer->labelled = labels[0] != '\0';
    fprintf(writer->out, "convolvd_%s%s%s%s", writer->metric->name, suffix,
            writer->labelled ? "{" : "", labels);
}

static void write_label(FILE *out, const char *name, const char *value)
{
    fprintf(out, "%s=\"", name);
    write_escaped(out, value);
    fputc('"', out);
}

static void sample_label(struct writer *writer, const char *name, const char *value)
{
    fputc(writer->labelled ? ',' : '{', writer->out);
    writer->labelled = true;
    write_label(writer->out, name, value);
}

/* The sample ends with a whole number as it is, so that counters stay exact, or with a real one. */
static void end_sample(struct writer *writer, const json_t *value, double scale)
{
    const char *brace = writer->labelled ? "} " : " ";
    if (json_is_integer(value) && scale == 0)
        fprintf(writer->out, "%s%" JSON_INTEGER_FORMAT "\n", brace, json_integer_value(value));
    else
        fprintf(writer->out, "%s%.15g\n", brace,
                json_is_boolean(value) ? json_is_true(value)
                                       : json_number_value(value) * (scale != 0 ? scale : 1));
}

static void end_sample_count(struct writer *writer, json_int_t count)
{
    fprintf(writer->out, "%s%" JSON_INTEGER_FORMAT "\n", writer->labelled ? "} " : " ", count);
}

static bool is_figure(const json_t *value)
{
    return json_is_number(value) || json_is_boolean(value);
}

/* ---- forms ------------------------------------------------------------------------------- */

/* The member that `path` leads to; NULL: there is none. */
static const json_t *follow(const json_t *object, const char *path)
{
    while (object != NULL && *path != '\0') {
        char key[KEY_BYTES];
        size_t length = strcspn(path, ".");
        if (length >= sizeof key)
            return NULL;
        memcpy(key, path, length);
        key[length] = '\0';
        object = json_object_get(object, key);
        path += length + (path[length] == '.');
    }
    return object;
}

/* Takes the next word off a list separated by |; false at its end. */
static bool next_word(const char **list, char word[KEY_BYTES])
{
    size_t length = strcspn(*list, "|");
    if (length == 0 || length >= KEY_BYTES)
        return false;
    memcpy(word, *list, length);
    word[length] = '\0';
    *list += length + ((*list)[length] == '|');
    return true;
}

static void write_number(struct writer *writer, const json_t *value, const char *labels)
{
    if (!is_figure(value) && !json_is_array(value))
        return;
    begin_sample(writer, "", labels);
    if (json_is_array(value))
        end_sample_count(writer, (json_int_t)json_array_size(value));
    else
        end_sample(writer, value, writer->metric->scale);
}

static void write_members(struct writer *writer, const json_t *object, const char *labels)
{
    const char *key;
    json_t *value;
    json_object_foreach((json_t *)object, key, value)
    {
        if (!is_figure(value))
            continue;
        begin_sample(writer, "", labels);
        sample_label(writer, writer->metric->label, key);
        end_sample(writer, value, writer->metric->scale);
    }
}

static void write_sum(struct writer *writer, const json_t *object, const char *labels)
{
    const char *key;
    json_t *value;
    json_int_t sum = 0;
    if (!json_is_object(object))
        return;
    json_object_foreach((json_t *)object, key, value)
    {
        sum += json_integer_value(value);
    }
    begin_sample(writer, "", labels);
    end_sample_count(writer, sum);
}

static void write_states(struct writer *writer, const json_t *value, const char *labels)
{
    const char *list = writer->metric->label;
    const bool several = strchr(list, '|') != NULL;
    char word[KEY_BYTES];
    if (!json_is_string(value))
        return;
    while (next_word(&list, word)) {
        begin_sample(writer, "", labels);
        if (several)
            sample_label(writer, "state", word);
        end_sample_count(writer, strcmp(json_string_value(value), word) == 0);
    }
}

static void write_facts(struct writer *writer, const json_t *object, const char *labels)
{
    const char *list = writer->metric->label;
    char word[KEY_BYTES];
    if (!json_is_object(object))
        return;
    begin_sample(writer, "", labels);
    while (next_word(&list, word)) {
        const json_t *fact = json_object_get(object, word);
        char number[32];
        snprintf(number, sizeof number, "%" JSON_INTEGER_FORMAT, json_integer_value(fact));
        sample_label(writer, word,
                     json_is_string(fact)    ? json_string_value(fact)
                     : json_is_integer(fact) ? number
                                             : "");
    }
    end_sample_count(writer, 1);
}

/* One histogram of the status; nothing when its buckets are not those of the bounds. */
static void write_histogram(struct writer *writer, const json_t *histogram, const char *stage,
                            const char *labels)
{
    const json_t *bounds = json_object_get(writer->status, "histogram_bounds_ns");
    const json_t *buckets = json_object_get(histogram, "buckets");
    const json_t *count = json_object_get(histogram, "count");
    const json_t *sum = json_object_get(histogram, "sum");
    const double scale = writer->metric->scale;
    const size_t size = json_array_size(bounds);
    if (size == 0 || size > BUCKETS_MAX || json_array_size(buckets) != size ||
        !json_is_integer(count) || !json_is_number(sum))
        return;
    for (size_t i = 0; i <= size; i++) {
        char bound[32] = "+Inf";
        if (i < size)
            snprintf(bound, sizeof bound, "%.15g",
                     json_number_value(json_array_get(bounds, i)) * scale);
        begin_sample(writer, "_bucket", labels);
        sample_label(writer, writer->metric->label, stage);
        sample_label(writer, "le", bound);
        end_sample(writer, i < size ? json_array_get(buckets, i) : count, 0);
    }
    for (int i = 0; i < 2; i++) {
        begin_sample(writer, i == 0 ? "_sum" : "_count", labels);
        sample_label(writer, writer->metric->label, stage);
        end_sample(writer, i == 0 ? sum : count, i == 0 ? scale : 0);
    }
}

static void write_histograms(struct writer *writer, const json_t *object, const char *labels)
{
    const char *stage;
    json_t *histogram;
    json_object_foreach((json_t *)object, stage, histogram)
    {
        write_histogram(writer, histogram, stage, labels);
    }
}

static void write_samples(struct writer *writer, const json_t *object, const char *labels)
{
    static void (*const forms[])(struct writer *, const json_t *, const char *) = {
        [NUMBER] = write_number, [MEMBERS] = write_members, [SUM] = write_sum,
        [STATES] = write_states, [FACTS] = write_facts,
    };
    const json_t *value = follow(object, writer->metric->path);
    if (value == NULL)
        return;
    if (writer->metric->type == HISTOGRAM)
        write_histograms(writer, value, labels);
    else
        forms[writer->metric->form](writer, value, labels);
}

/* ---- scopes ------------------------------------------------------------------------------ */

/* Labels as text, "" when they do not fit. */
struct labels {
    char text[LABELS_BYTES];
};

/* Adds `name="value"`, of a string or a whole number; anything else reads "". */
static void add_label(struct labels *labels, const char *name, const json_t *value)
{
    size_t used = strlen(labels->text);
    FILE *out = fmemopen(labels->text + used, sizeof labels->text - used, "w");
    char number[32] = "";
    if (out == NULL)
        return;
    if (json_is_integer(value))
        snprintf(number, sizeof number, "%" JSON_INTEGER_FORMAT, json_integer_value(value));
    if (used > 0)
        fputc(',', out);
    write_label(out, name, json_is_string(value) ? json_string_value(value) : number);
    bool fits = ftell(out) < (long)(sizeof labels->text - used);
    fclose(out);
    if (!fits)
        labels->text[used] = '\0';
}

static void write_channels(struct writer *writer, const json_t *stream, const struct labels *labels)
{
    const json_t *channels = json_object_get(stream, "channels");
    for (size_t c = 0; c < json_array_size(channels) && c < writer->options->channels_max; c++) {
        const json_t *channel = json_array_get(channels, c);
        struct labels own = *labels;
        json_t *number = json_integer((json_int_t)c + 1);
        add_label(&own, "channel", number);
        add_label(&own, "unit", json_object_get(channel, "unit"));
        json_decref(number);
        write_samples(writer, channel, own.text);
    }
}

static void write_sinks(struct writer *writer, const json_t *stream, const struct labels *labels)
{
    const json_t *sinks = json_object_get(stream, "sinks");
    for (size_t i = 0; i < json_array_size(sinks); i++) {
        const json_t *sink = json_array_get(sinks, i);
        struct labels own = *labels;
        add_label(&own, "sink", json_object_get(sink, "name"));
        write_samples(writer, sink, own.text);
    }
}

static void write_streams(struct writer *writer)
{
    const json_t *streams = json_object_get(writer->status, "streams");
    for (size_t i = 0; i < json_array_size(streams); i++) {
        const json_t *stream = json_array_get(streams, i);
        struct labels labels = {""};
        add_label(&labels, "stream", json_object_get(stream, "name"));
        if (writer->metric->scope == CHANNEL)
            write_channels(writer, stream, &labels);
        else if (writer->metric->scope == SINK)
            write_sinks(writer, stream, &labels);
        else
            write_samples(writer, stream, labels.text);
    }
}

static void write_list(struct writer *writer, const char *list, const char *const (*names)[2])
{
    const json_t *objects = json_object_get(writer->status, list);
    for (size_t i = 0; i < json_array_size(objects); i++) {
        const json_t *object = json_array_get(objects, i);
        struct labels labels = {""};
        for (int n = 0; names[n][0] != NULL; n++)
            add_label(&labels, names[n][0], json_object_get(object, names[n][1]));
        write_samples(writer, object, labels.text);
    }
}

static void write_metric(struct writer *writer)
{
    static const char *const device_labels[][2] = {{"device", "index"}, {NULL, NULL}};
    static const char *const alarm_labels[][2] = {{"alarm", "name"},
                                                  {"stream", "stream"},
                                                  {"channel", "channel"},
                                                  {"quantity", "quantity"},
                                                  {NULL, NULL}};
    switch (writer->metric->scope) {
    case PROCESS:
        write_samples(writer, writer->status, "");
        break;
    case DEVICE:
        write_list(writer, "devices", device_labels);
        break;
    case ALARM:
        write_list(writer, "alarms", alarm_labels);
        break;
    default:
        write_streams(writer);
        break;
    }
}

char *metrics_text(const json_t *status, const struct metrics_options *options, size_t *bytes)
{
    char *text = NULL;
    FILE *out = open_memstream(&text, bytes);
    if (out == NULL)
        return NULL;
    write_header(out, "up", up_help, GAUGE);
    fprintf(out, "convolvd_up %d\n", status != NULL);
    for (int i = 0; i < METRICS && status != NULL; i++) {
        struct writer writer = {
            .out = out, .status = status, .options = options, .metric = &metrics[i]};
        write_metric(&writer);
    }
    const bool good = ferror(out) == 0;
    if (fclose(out) == 0 && good)
        return text;
    free(text);
    return NULL;
}

/* ---- the documentation ------------------------------------------------------------------- */

static void document_labels(FILE *out, const struct metric *metric)
{
    const char *first = scope_labels[metric->scope], *list = metric->label;
    const char *separator = first[0] != '\0' ? ", " : "";
    char word[KEY_BYTES];
    fputs(first, out);
    if (metric->form == MEMBERS) {
        fprintf(out, "%s%s", separator, list);
    } else if (metric->form == STATES && strchr(list, '|') != NULL) {
        fprintf(out, "%sstate", separator);
    } else if (metric->form == FACTS) {
        for (; next_word(&list, word); separator = ", ")
            fprintf(out, "%s%s", separator, word);
    }
}

void metrics_document(FILE *out)
{
    fprintf(out, "| metric | type | labels | what |\n|---|---|---|---|\n");
    fprintf(out, "| `convolvd_up` | gauge | | %s |\n", up_help);
    for (int i = 0; i < METRICS; i++) {
        fprintf(out, "| `convolvd_%s` | %s | ", metrics[i].name, type_name(metrics[i].type));
        document_labels(out, &metrics[i]);
        fprintf(out, " | %s |\n", metrics[i].help);
    }
}
