/* Replies for people: see reply.h. */
#include "clients/ctl/reply.h"

#include <string.h>
#include <time.h>

double reply_number(const json_t *object, const char *name)
{
    return json_number_value(json_object_get(object, name));
}

const char *reply_string(const json_t *object, const char *name)
{
    const char *text = json_string_value(json_object_get(object, name));
    return text != NULL ? text : "";
}

void reply_text(const char *text, FILE *out)
{
    for (; *text != '\0'; text++)
        fputc((unsigned char)*text < 0x20 || *text == 0x7f ? '?' : *text, out);
}

void reply_print_event(const json_t *line, FILE *out)
{
    const json_t *event = json_object_get(line, "event");
    const json_t *missed = json_object_get(line, "missed");
    char when[40] = "";
    if (missed != NULL)
        fprintf(out, "(%lld events were overwritten before they were read)\n",
                (long long)json_integer_value(missed));
    if (event == NULL)
        return;
    const long long ns = (long long)reply_number(event, "realtime_ns");
    const time_t seconds = (time_t)(ns / 1000000000);
    struct tm local;
    localtime_r(&seconds, &local);
    strftime(when, sizeof when, "%Y-%m-%d %H:%M:%S", &local);
    fprintf(out, "%s.%03lld %-7s ", when, ns / 1000000 % 1000, reply_string(event, "severity"));
    if (json_object_get(event, "stream") != NULL) {
        reply_text(reply_string(event, "stream"), out);
        fputs(": ", out);
    }
    reply_text(reply_string(event, "text"), out);
    if (json_object_get(event, "who") != NULL) {
        fputs(" (", out);
        reply_text(reply_string(event, "who"), out);
        fputc(')', out);
    }
    fputc('\n', out);
}

static void print_streams(const json_t *reply, FILE *out)
{
    size_t i;
    json_t *stream;
    fprintf(out, "%-20s %-8s %14s %9s %8s\n", "stream", "state", "rate [Hz]", "channels",
            "outputs");
    json_array_foreach(json_object_get(reply, "streams"), i, stream)
        fprintf(out, "%-20s %-8s %14.10g %9.0f %8.0f\n", reply_string(stream, "name"),
                reply_string(stream, "state"), reply_number(stream, "rate_hz"),
                reply_number(stream, "channels"), reply_number(stream, "outputs"));
    fputs("filters:", out);
    json_array_foreach(json_object_get(reply, "filters"), i, stream)
        fprintf(out, " %s", json_string_value(stream));
    fputc('\n', out);
}

static void print_devices(const json_t *reply, FILE *out)
{
    size_t i;
    json_t *device;
    json_array_foreach(json_object_get(reply, "devices"), i, device)
    {
        fprintf(out, "%.0f: %s\n   %s, %s, driver %s\n", reply_number(device, "index"),
                reply_string(device, "name"), reply_string(device, "state"),
                reply_string(device, "platform"), reply_string(device, "driver"));
        if (json_is_integer(json_object_get(device, "node")))
            fprintf(out, "   memory node %.0f, processors %s\n", reply_number(device, "node"),
                    json_is_string(json_object_get(device, "processors"))
                        ? reply_string(device, "processors")
                        : "any");
        if (json_is_string(json_object_get(device, "last_loss")))
            fprintf(out, "   last loss: %s\n", reply_string(device, "last_loss"));
    }
}

static void print_commands(const json_t *reply, FILE *out)
{
    size_t i;
    json_t *row;
    fprintf(out, "role here: %s\n", reply_string(reply, "role"));
    json_array_foreach(json_object_get(reply, "commands"), i, row)
        fprintf(out, "%-15s %-8s %s\n", reply_string(row, "name"), reply_string(row, "role"),
                reply_string(row, "summary"));
}

static void print_marks(const json_t *reply, FILE *out)
{
    size_t i;
    json_t *mark;
    json_array_foreach(json_object_get(reply, "marks"), i, mark)
        fprintf(out, "stream %s: epoch %.0f, frame %.0f\n", reply_string(mark, "stream"),
                reply_number(mark, "epoch"), reply_number(mark, "frame"));
}

static void print_recordings(const json_t *reply, FILE *out)
{
    size_t i;
    json_t *recording;
    json_array_foreach(json_object_get(reply, "recordings"), i, recording)
    {
        fprintf(out, "%s: %s", reply_string(recording, "name"),
                json_is_true(json_object_get(recording, "changed")) ? "done" : "was so already");
        if (json_object_get(recording, "frame") != NULL)
            fprintf(out, ", epoch %.0f, frame %.0f", reply_number(recording, "epoch"),
                    reply_number(recording, "frame"));
        fputc('\n', out);
    }
}

static void print_change(const json_t *reply, FILE *out)
{
    fprintf(out, "stream %s: from output frame %.0f on\n", reply_string(reply, "stream"),
            reply_number(reply, "frame"));
}

static void print_changes(const json_t *reply, FILE *out)
{
    size_t i;
    json_t *change;
    json_array_foreach(json_object_get(reply, "changes"), i, change) print_change(change, out);
}

static void print_noise_floor(const json_t *reply, FILE *out)
{
    size_t i;
    json_t *level;
    json_array_foreach(json_object_get(reply, "noise_floor"), i, level)
    {
        if (json_is_number(level))
            fprintf(out, "channel %zu: %.6g\n", i + 1, json_number_value(level));
        else
            fprintf(out, "channel %zu: no frames came\n", i + 1);
    }
}

/* As the live page shows them: names and hashes tell two filters apart. */
static void print_filters(const json_t *reply, FILE *out)
{
    size_t i;
    json_t *filter;
    json_array_foreach(json_object_get(reply, "filters"), i, filter)
    {
        fprintf(out, "%-20s ", reply_string(filter, "name"));
        if (json_object_get(filter, "error") != NULL)
            reply_text(reply_string(filter, "error"), out);
        else
            fprintf(out, "%7.0f taps  delay %.10g frames  %.12s", reply_number(filter, "taps"),
                    reply_number(filter, "delay_frames"), reply_string(filter, "hash"));
        fputc('\n', out);
    }
}

static void print_analyses(const json_t *reply, FILE *out)
{
    size_t i;
    json_t *analysis, *count;
    const char *kind;
    json_array_foreach(json_object_get(reply, "analyses"), i, analysis)
    {
        double events = 0;
        json_object_foreach(json_object_get(json_object_get(analysis, "ledger"), "events"), kind,
                            count) events += json_number_value(count);
        fprintf(out, "%s: %s of stream %s, %.0f events\n", reply_string(analysis, "name"),
                reply_string(analysis, "type"), reply_string(analysis, "stream"), events);
    }
}

/* What has no form of its own: names and values. */
static void print_members(const json_t *reply, FILE *out)
{
    const char *key;
    json_t *value;
    json_object_foreach((json_t *)reply, key, value)
    {
        if (strcmp(key, "ok") == 0 || strcmp(key, "id") == 0)
            continue;
        fprintf(out, "%s: ", key);
        if (json_is_string(value))
            reply_text(json_string_value(value), out);
        else
            json_dumpf(value, out, JSON_COMPACT | JSON_ENCODE_ANY);
        fputc('\n', out);
    }
}

void reply_print(const struct command_row *row, const json_t *reply, FILE *out)
{
    static void (*const printers[CONTROL_WORDS])(const json_t *reply, FILE *out) = {
        [CONTROL_STREAMS] = print_streams,
        [CONTROL_COMMANDS] = print_commands,
        [CONTROL_DEVICES] = print_devices,
        [CONTROL_FILTER] = print_change,
        [CONTROL_GAIN] = print_change,
        [CONTROL_MUTE] = print_change,
        [CONTROL_TRANSACTION] = print_changes,
        [CONTROL_NOISE_FLOOR] = print_noise_floor,
        [CONTROL_RESPONSE] = print_filters,
        [CONTROL_ANALYSES] = print_analyses,
        [CONTROL_MARK] = print_marks,
        [CONTROL_RECORD_START] = print_recordings,
        [CONTROL_RECORD_STOP] = print_recordings,
    };
    const char *text = json_string_value(
        json_object_get(reply, row == &command_table[CONTROL_STATUS] ? "table" : "fragment"));
    if (text != NULL)
        fputs(text, out);
    else if (printers[row - command_table] != NULL)
        printers[row - command_table](reply, out);
    else
        print_members(reply, out);
}
