/*
 * hits_of: the hits of a signal, for tests/e2e/test_hits_reference.py. Standard input is one case:
 *
 *     CHANNELS RATE UNIT S FRAMES SEED
 *     invalid FROM UNTIL CAUSE        any number of lines, sorted by FROM
 *     saturated FROM UNTIL CHANNEL    likewise
 *     set KEY = VALUE                 likewise
 *     samples
 *
 * and FRAMES · CHANNELS float32 samples. SEED 0: one run; else random cuts, with the state saved
 * and restored now and then. Each event is one line of JSON.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "analysis/analyses.h"
#include "tests/support/analysis_world.h"

enum { LINE_BYTES = 256, LINES = 256 };

static struct invalid_range invalid[LINES];
static struct analysis_saturation saturated[LINES];
static char settings[32][LINE_BYTES];
static const char *setting[33];

static void die(const char *why)
{
    fprintf(stderr, "hits_of: %s\n", why);
    exit(1);
}

static void print_number(double value)
{
    if (isfinite(value))
        printf("%.17g", value);
    else
        printf("null");
}

static void print_field(const struct analysis_field *field, const void *body)
{
    const unsigned char *at = (const unsigned char *)body + field->offset;
    for (uint32_t i = 0; i < (field->repeat > 0 ? field->repeat : 1); i++) {
        printf(",\"%s", field->name);
        if (field->repeat > 0)
            printf("_%u", i + 1);
        printf("\":");
        double value;
        uint64_t count;
        if (field->type == ANALYSIS_DOUBLE) {
            memcpy(&value, at + i * sizeof value, sizeof value);
            print_number(value);
        } else {
            memcpy(&count, at + i * sizeof count, sizeof count);
            printf("%llu", (unsigned long long)count);
        }
    }
}

static void print_event(const struct analysis_world *world, const struct analysis_event *event)
{
    uint32_t count;
    const struct analysis_field *fields = analysis_hits.fields(&world->options, &count);
    printf("{\"number\":%llu,\"ordered\":%d,\"channel\":%u,\"frame\":%llu,\"flags\":%u,"
           "\"causes\":%u,\"first_sample\":%lld",
           (unsigned long long)event->number, event->ordered, event->channel,
           (unsigned long long)event->frame, event->flags, event->causes,
           (long long)event->first_sample);
    for (uint32_t i = 0; i < count; i++)
        print_field(&fields[i], event->body);
    printf(",\"samples\":[");
    for (uint32_t i = 0; i < event->sample_count; i++)
        printf("%s%.9g", i > 0 ? "," : "", (double)event->samples[i]);
    printf("]}\n");
}

int main(void)
{
    char line[LINE_BYTES], unit[32];
    unsigned channels = 0, taps = 0;
    unsigned long long frames = 0, seed = 0, from, until;
    double rate_hz = 0;
    if (fgets(line, sizeof line, stdin) == NULL ||
        sscanf(line, "%u %lf %31s %u %llu %llu", &channels, &rate_hz, unit, &taps, &frames,
               &seed) != 6)
        die("no first line");
    struct analysis_signal signal = {.channels = channels,
                                     .frames = frames,
                                     .rate_hz = rate_hz,
                                     .epoch = 1,
                                     .invalid = invalid,
                                     .saturated = saturated};
    unsigned what, count = 0;
    while (fgets(line, sizeof line, stdin) != NULL && strcmp(line, "samples\n") != 0) {
        line[strcspn(line, "\n")] = '\0';
        if (sscanf(line, "invalid %llu %llu %u", &from, &until, &what) == 3 &&
            signal.invalid_count < LINES) {
            invalid[signal.invalid_count++] =
                (struct invalid_range){from, until, (enum invalid_cause)what};
        } else if (sscanf(line, "saturated %llu %llu %u", &from, &until, &what) == 3 &&
                   signal.saturated_count < LINES) {
            saturated[signal.saturated_count++] = (struct analysis_saturation){from, until, what};
        } else if (strncmp(line, "set ", 4) == 0 && count < 32) {
            strcpy(settings[count], line + 4);
            setting[count] = settings[count];
            count++;
        } else {
            die(line);
        }
    }
    float *samples = malloc(channels * frames * sizeof *samples);
    if (samples == NULL ||
        fread(samples, sizeof *samples, channels * frames, stdin) != channels * frames)
        die("too few samples");
    signal.samples = samples;

    struct analysis_stream stream = analysis_world_stream(channels, rate_hz, unit);
    stream.taps_longest = taps;
    struct analysis_world world;
    analysis_world_open(&world, &analysis_hits, &stream, setting);
    if (world.analysis == NULL)
        die(world.errors);
    struct random_state random = {seed};
    if (seed == 0)
        analysis_world_put(&world, &signal, 0, frames);
    else
        analysis_world_put_cut(&world, &signal, &random, true);
    for (size_t i = 0; i < world.count; i++)
        print_event(&world, &world.events[i].event);
    analysis_world_close(&world);
    free(samples);
    return 0;
}
