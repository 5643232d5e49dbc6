/* Events of analyses: see hits.h. */
#include "clients/ctl/hits.h"

#include <string.h>
#include <time.h>

#include "clients/ctl/reply.h"

/* For a line of what is kept. */
enum { ANSWER_MS = 5000 };

static void print_time(const json_t *event, FILE *out)
{
    const long long ns = (long long)json_integer_value(json_object_get(event, "arrival_ns"));
    const time_t seconds = (time_t)(ns / 1000000000);
    char text[40];
    struct tm local;
    localtime_r(&seconds, &local);
    strftime(text, sizeof text, "%Y-%m-%d %H:%M:%S", &local);
    fprintf(out, "%s.%06lld", text, ns / 1000 % 1000000);
}

/* Values that are defined, as NAME=VALUE. */
static void print_values(const json_t *values, FILE *out)
{
    const char *name;
    json_t *value;
    json_object_foreach((json_t *)values, name, value)
    {
        if (!json_is_number(value))
            continue;
        fputc(' ', out);
        reply_text(name, out);
        fprintf(out, "=%.6g", json_number_value(value));
    }
}

static void print_words(const json_t *words, FILE *out)
{
    size_t i;
    json_t *word;
    json_array_foreach(words, i, word)
    {
        fputs(" [", out);
        reply_text(json_string_value(word), out);
        fputc(']', out);
    }
}

static void print_event(const json_t *event, FILE *out)
{
    print_time(event, out);
    fputc(' ', out);
    reply_text(reply_string(event, "analysis"), out);
    fprintf(out, " %s %.0f channel %.0f frame %.0f", reply_string(event, "kind"),
            reply_number(event, "number"), reply_number(event, "channel"),
            reply_number(event, "frame"));
    print_words(json_object_get(event, "flags"), out);
    print_words(json_object_get(event, "causes"), out);
    print_values(json_object_get(event, "parameters"), out);
    print_values(json_object_get(event, "values"), out);
    fputc('\n', out);
}

void hits_print(const json_t *line, FILE *out)
{
    const json_t *event = json_object_get(line, "analysis_event");
    const json_t *missed = json_object_get(line, "missed");
    if (missed != NULL)
        fprintf(out, "(%lld events were overwritten before they were read)\n",
                (long long)json_integer_value(missed));
    if (event != NULL)
        print_event(event, out);
}

void hits_print_transient(const json_t *reply, FILE *out)
{
    print_event(json_object_get(reply, "event"), out);
    fprintf(out, "%.0f samples at %.10g Hz in ", reply_number(reply, "sample_count"),
            reply_number(reply, "rate_hz"));
    reply_text(reply_string(reply, "unit"), out);
    fprintf(out, ", the first at frame %+.0f of the event; --json has them\n",
            reply_number(reply, "first_sample"));
}

int hits_show(struct client *client, json_t *request, bool follow, bool json,
              struct problem *problem)
{
    json_t *reply;
    if (!follow && json_object_get(request, "since") == NULL)
        json_object_set_new(request, "since", json_integer(0));
    int error = client_ask(client, request, &reply, problem);
    if (error != 0)
        return error;
    json_decref(reply);
    for (;;) {
        json_t *line = client_next(client, follow ? -1 : ANSWER_MS, problem);
        if (line == NULL)
            return problem->error;
        if (!follow && json_object_get(line, "replayed") != NULL) {
            json_decref(line);
            return 0;
        }
        if (json) {
            json_dumpf(line, stdout, JSON_COMPACT);
            fputc('\n', stdout);
        } else {
            hits_print(line, stdout);
        }
        json_decref(line);
        if (fflush(stdout) != 0)
            return problem_set(problem, ERROR_SYSTEM, "standard output is closed");
    }
}
