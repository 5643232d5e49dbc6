/* Metrics: see metrics.h. */
#include "clients/web/metrics.h"

#include <math.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "clients/web/metrics_table.h"

enum { LABELS_BYTES = 512, BUCKETS_MAX = 19, KEY_BYTES = 64 };

static const char up_help[] = "1 while the daemon answers on its control socket.";

static const char *type_name(enum metric_type type)
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

static void write_header(FILE *out, const char *name, const char *help, enum metric_type type)
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

/* The log that a sink appends to; nothing of other sinks. */
static void write_partition(struct writer *writer, const json_t *sink, const struct labels *labels)
{
    const json_t *partition = json_object_get(sink, "partition");
    struct labels own = *labels;
    add_label(&own, "partition", json_object_get(partition, "name"));
    add_label(&own, "log", json_object_get(partition, "log"));
    write_samples(writer, partition, own.text);
}

/* Of a stream, or of an analysis. */
static void write_sinks(struct writer *writer, const json_t *owner, const struct labels *labels)
{
    const json_t *sinks = json_object_get(owner, "sinks");
    for (size_t i = 0; i < json_array_size(sinks); i++) {
        const json_t *sink = json_array_get(sinks, i);
        struct labels own = *labels;
        add_label(&own, "sink", json_object_get(sink, "name"));
        if (writer->metric->scope == PARTITION)
            write_partition(writer, sink, &own);
        else
            write_samples(writer, sink, own.text);
    }
}

static void write_totals(struct writer *writer, const json_t *analysis, const struct labels *labels)
{
    const json_t *kind = json_object_get(analysis, "kind");
    const json_t *totals = json_object_get(analysis, "totals");
    const char *word = json_string_value(kind);
    const bool whole = word != NULL && strcmp(word, "source") == 0;
    for (size_t c = 0; c < json_array_size(totals) && c < writer->options->channels_max; c++) {
        struct labels own = *labels;
        json_t *number = json_integer(whole ? 0 : (json_int_t)c + 1);
        add_label(&own, "kind", kind);
        add_label(&own, "channel", number);
        json_decref(number);
        write_samples(writer, json_array_get(totals, c), own.text);
    }
}

static void write_analyses(struct writer *writer, const json_t *stream, const struct labels *labels)
{
    const json_t *analyses = json_object_get(stream, "analyses");
    for (size_t i = 0; i < json_array_size(analyses); i++) {
        const json_t *analysis = json_array_get(analyses, i);
        struct labels own = *labels;
        add_label(&own, "analysis", json_object_get(analysis, "name"));
        if (writer->metric->scope == ANALYSIS_CHANNEL)
            write_totals(writer, analysis, &own);
        else if (writer->metric->scope == ANALYSIS_SINK)
            write_sinks(writer, analysis, &own);
        else
            write_samples(writer, analysis, own.text);
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
        else if (writer->metric->scope == SINK || writer->metric->scope == PARTITION)
            write_sinks(writer, stream, &labels);
        else if (writer->metric->scope >= ANALYSIS && writer->metric->scope <= ANALYSIS_CHANNEL)
            write_analyses(writer, stream, &labels);
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
    static const char *const device_labels[][2] = {
        {"device", "index"}, {"engine", "engine"}, {"loop", "loop"}, {NULL, NULL}};
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
    for (size_t i = 0; i < metrics_count && status != NULL; i++) {
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
    const char *first = metric_labels(metric->scope), *list = metric->label;
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
    for (size_t i = 0; i < metrics_count; i++) {
        fprintf(out, "| `convolvd_%s` | %s | ", metrics[i].name, type_name(metrics[i].type));
        document_labels(out, &metrics[i]);
        fprintf(out, " | %s |\n", metrics[i].help);
    }
}
