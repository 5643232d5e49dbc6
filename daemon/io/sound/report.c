/* Status of a sound card: see report.h. */
#include "io/sound/report.h"

#include <inttypes.h>
#include <math.h>

#include "core/quantity.h"
#include "io/sound/card.h"

/* ---- table ------------------------------------------------------------------------------- */

static void print_follow(const struct sound_report *report, FILE *out)
{
    const struct playback_follow_report *follow = &report->follow;
    fprintf(out, "\n                plays %" PRIu64 " frames later (now %.1f), resampled: ",
            report->latency_frames, follow->latency_frames);
    if (follow->ppm_known)
        fprintf(out, "the stream's clock is %+.1f ppm against the card's", follow->ppm);
    else
        fprintf(out, "the stream's clock against the card's is not known yet");
    fprintf(out, "; underruns %" PRIu64 ", overruns %" PRIu64, follow->underruns, follow->overruns);
}

static void print_report(const void *status, double rate_hz, FILE *out)
{
    const struct sound_report *report = status;
    const struct sound_status *card = &report->card;
    char text[24];
    fprintf(out,
            "  sound card    `%s` (%s), %s, period %" PRIu32 " frames, session %" PRIu64
            "; callbacks %" PRIu64,
            card->obtained.device, card->obtained.api, card->running ? "running" : "not running",
            card->period_frames, card->sessions, card->counters[SOUND_CALLBACKS]);
    for (int i = SOUND_CALLBACKS + 1; i < SOUND_COUNTERS; i++)
        if (card->counters[i] > 0)
            fprintf(out, ", %s %" PRIu64, sound_counter_name((enum sound_counter)i),
                    card->counters[i]);
    if (report->plays && report->anchored && report->follows)
        print_follow(report, out);
    else if (report->plays && report->anchored)
        fprintf(
            out,
            "\n                plays %" PRIu64
            " frames (%s) later; frame n is the card's n%+" PRId64,
            report->latency_frames,
            duration_text((int64_t)llround((double)report->latency_frames / rate_hz * 1e9), text),
            report->offset_frames);
    fprintf(out, "\n");
}

/* ---- JSON -------------------------------------------------------------------------------- */

static json_t *integer(uint64_t value)
{
    return json_integer((json_int_t)value);
}

/* JSON has neither infinities nor NaN. */
static json_t *real(double value)
{
    return isfinite(value) ? json_real(value) : json_null();
}

static json_t *follow_json(const struct playback_follow_report *follow)
{
    json_t *object = json_object();
    json_object_set_new(object, "ppm", follow->ppm_known ? real(follow->ppm) : json_null());
    json_object_set_new(object, "speed_ppm", real(follow->speed_ppm));
    json_object_set_new(object, "latency_frames", real(follow->latency_frames));
    json_object_set_new(object, "underruns", integer(follow->underruns));
    json_object_set_new(object, "overruns", integer(follow->overruns));
    return object;
}

static json_t *report_json(const void *status)
{
    const struct sound_report *report = status;
    const struct sound_status *card = &report->card;
    json_t *object = json_object(), *counters = json_object();
    for (int i = 0; i < SOUND_COUNTERS; i++)
        json_object_set_new(counters, sound_counter_name((enum sound_counter)i),
                            integer(card->counters[i]));
    json_object_set_new(object, "device", json_string(card->obtained.device));
    json_object_set_new(object, "host_api", json_string(card->obtained.api));
    json_object_set_new(object, "hardware", json_string(card->obtained.format));
    json_object_set_new(object, "rate_hz", real(card->obtained.rate_hz));
    json_object_set_new(object, "period_frames", integer(card->period_frames));
    json_object_set_new(object, "input_latency_s", real(card->obtained.input_latency_s));
    json_object_set_new(object, "output_latency_s", real(card->obtained.output_latency_s));
    json_object_set_new(object, "priority", json_integer(card->obtained.priority));
    if (card->obtained.direct_period_ns > 0) {
        json_object_set_new(object, "direct_period_ns",
                            integer((uint64_t)card->obtained.direct_period_ns));
        json_object_set_new(object, "direct_median_ns",
                            integer((uint64_t)card->obtained.direct_median_ns));
        json_object_set_new(object, "direct_worst_ns",
                            integer((uint64_t)card->obtained.direct_worst_ns));
    }
    json_object_set_new(object, "running", json_boolean(card->running));
    json_object_set_new(object, "sessions", integer(card->sessions));
    json_object_set_new(object, "counters", counters);
    if (report->plays && report->anchored) {
        json_object_set_new(object, "latency_frames", integer(report->latency_frames));
        json_object_set_new(object, "offset_frames", json_integer(report->offset_frames));
        json_object_set_new(object, "level_frames", integer(report->level_frames));
    }
    if (report->follows)
        json_object_set_new(object, "resampler", follow_json(&report->follow));
    return object;
}

/* ---- log --------------------------------------------------------------------------------- */

/* Counters of events whose lost frames the stream logs as gaps. */
static uint32_t faults(const void *status, struct driver_fault *faults)
{
    static const enum sound_counter capture[] = {SOUND_INPUT_OVERFLOW, SOUND_INPUT_UNDERFLOW,
                                                 SOUND_RING_OVERRUN, SOUND_BAD_TIME};
    static const enum sound_counter playback[] = {SOUND_OUTPUT_OVERFLOW, SOUND_OUTPUT_UNDERFLOW};
    const struct sound_report *report = status;
    const enum sound_counter *counters = report->plays ? playback : capture;
    uint32_t count =
        report->plays ? sizeof playback / sizeof *playback : sizeof capture / sizeof *capture;
    for (uint32_t i = 0; i < count; i++)
        faults[i] = (struct driver_fault){.name = sound_counter_name(counters[i]),
                                          .count = report->card.counters[counters[i]]};
    return count;
}

const struct driver_status sound_status_ops = {
    .name = "sound",
    .what = "sound card",
    .bytes = sizeof(struct sound_report),
    .print = print_report,
    .json = report_json,
    .faults = faults,
};
