/* Loopback of a sound card: see loopback.h. */
#include "io/sound/loopback.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "core/clock.h"
#include "core/doorbell.h"
#include "io/sound/link.h"
#include "io/sound/ring.h"

enum {
    CHIRPS = 6,
    CHIRPS_MIN = 3, /* that a channel must receive, all after the same time */
    OPEN_TIMEOUT_MS = 15000,
    STOP_TIMEOUT_MS = 3000,
    SILENT_MS = 5000, /* without a callback: the card stands still */
    POLL_MS = 100,
};

static const double lead_s = 0.25;    /* chirps are written this long before they play */
static const double spacing_s = 0.5;  /* from one chirp to the next: the longest round trip */
static const double agreement = 0.25; /* largest difference between round trips [frames] */

struct measure {
    struct sound_link *link;
    struct sound_shared *shared;
    const struct sound_side *capture, *playback;
    uint64_t first, spacing, lead; /* card frames */
    uint64_t listened;             /* frames captured from `first` on */
    double *heard;                 /* [capture channels][listened] */
    double *decoded;               /* [capture channels] of one frame */
    uint8_t *chirp;                /* one chirp for every playback channel, encoded */
    uint32_t written;              /* chirps written */
};

static int prepare(struct measure *measure, double rate_hz, double level)
{
    const uint32_t channels = measure->playback->channels;
    float chirp[ROUND_TRIP_CHIRP_FRAMES];
    round_trip_chirp(chirp);
    measure->spacing = (uint64_t)(spacing_s * rate_hz) + ROUND_TRIP_CHIRP_FRAMES;
    measure->lead = (uint64_t)(lead_s * rate_hz);
    measure->listened = measure->spacing * CHIRPS;
    measure->heard = calloc(measure->listened * measure->capture->channels, sizeof(double));
    measure->decoded = calloc(measure->capture->channels, sizeof(double));
    measure->chirp =
        calloc((size_t)ROUND_TRIP_CHIRP_FRAMES * channels, measure->playback->format.bytes);
    if (measure->heard == NULL || measure->decoded == NULL || measure->chirp == NULL)
        return ERROR_MEMORY;
    uint8_t *to = measure->chirp;
    for (uint32_t n = 0; n < ROUND_TRIP_CHIRP_FRAMES; n++)
        for (uint32_t c = 0; c < channels; c++, to += measure->playback->format.bytes)
            sample_encode(&measure->playback->format, level * chirp[n], to);
    return 0;
}

static void write_chirps(struct measure *measure, uint64_t now)
{
    while (measure->written < CHIRPS) {
        uint64_t at = measure->first + measure->written * measure->spacing, silent_from;
        if (now + measure->lead < at)
            return;
        if (!sound_ring_write(measure->shared, at, measure->chirp, ROUND_TRIP_CHIRP_FRAMES,
                              &silent_from))
            return; /* tried again at the next doorbell */
        measure->written++;
    }
}

static void listen(struct measure *measure)
{
    const struct sound_side *side = measure->capture;
    const uint32_t frame_bytes = side->channels * side->format.bytes;
    struct sound_period period;
    const uint8_t *bytes;
    while (sound_ring_peek(measure->shared, &period, &bytes)) {
        for (uint32_t i = 0; i < period.frames; i++) {
            uint64_t frame = period.frame + i - measure->first;
            if (measure->first == 0 || frame >= measure->listened)
                continue;
            sample_decode_block(&side->format, bytes + (size_t)i * frame_bytes, 1, side->channels,
                                measure->decoded);
            for (uint32_t c = 0; c < side->channels; c++)
                measure->heard[c * measure->listened + frame] = measure->decoded[c];
        }
        sound_ring_release(measure->shared);
    }
}

/* Plays and captures until the time of the last chirp is over; false when the card stops. */
static bool run(struct measure *measure)
{
    const int doorbell = sound_link_doorbell(measure->link);
    int64_t rang_ns = clock_monotonic_ns();
    for (;;) {
        struct sound_position position;
        if (doorbell_rung_within(doorbell, POLL_MS * NS_PER_MS)) {
            doorbell_wait(doorbell);
            rang_ns = clock_monotonic_ns();
        }
        if (sound_link_state(measure->link) > SOUND_RUNNING ||
            clock_monotonic_ns() - rang_ns > SILENT_MS * NS_PER_MS)
            return false;
        sound_ring_position(measure->shared, &position);
        if (position.period_frames == 0)
            continue;
        if (measure->first == 0)
            measure->first = position.now + 2 * measure->lead;
        write_chirps(measure, position.now);
        listen(measure);
        if (position.now >= measure->first + measure->listened)
            return true;
    }
}

/* Finds the chirps in one channel and checks that their round trips agree. */
static int examine(const struct measure *measure, uint32_t channel, struct sound_loopback *out,
                   struct problem *problem)
{
    const double *heard = measure->heard + channel * measure->listened;
    double sum = 0, least = INFINITY, most = -INFINITY;
    int found = 0;
    for (uint32_t i = 0; i < CHIRPS; i++) {
        struct round_trip trip;
        int error = round_trip_find(heard + i * measure->spacing, measure->spacing, &trip);
        if (error < 0)
            return problem_set(problem, ERROR_MEMORY, "no memory for the matched filter");
        if (!trip.found)
            continue;
        found++;
        sum += trip.frames;
        least = fmin(least, trip.frames);
        most = fmax(most, trip.frames);
        if (trip.clearness > out->channels[channel].trip.clearness)
            out->channels[channel].trip = trip;
    }
    if (found < CHIRPS_MIN)
        return 0;
    if (most - least > agreement)
        return problem_set(
            problem, ERROR_ACCURACY,
            "channel %u hears the chirp after %.2f frames and after %.2f: no fixed round "
            "trip; the card loses periods (close what else uses it, choose a longer period)",
            channel + 1, least, most);
    out->channels[channel].heard = true;
    if (out->heard++ == 0) {
        out->exact = sum / found;
        out->frames = (uint64_t)llround(out->exact);
    }
    return 0;
}

static int evaluate(const struct measure *measure, struct sound_loopback *out,
                    struct problem *problem)
{
    const struct sound_shared *shared = measure->shared;
    struct sound_position position;
    sound_ring_position(shared, &position);
    out->period_frames = position.period_frames;
    out->rate_hz = shared->obtained.rate_hz;
    snprintf(out->device, sizeof out->device, "%s", shared->obtained.device);
    snprintf(out->api, sizeof out->api, "%s", shared->obtained.api);
    for (uint32_t c = 0; c < measure->capture->channels; c++) {
        int error = examine(measure, c, out, problem);
        if (error < 0)
            return error;
    }
    if (out->heard == 0)
        return problem_set(
            problem, ERROR_ACCURACY,
            "no channel of `%s` hears the chirp: connect an output to an input (a cable, or "
            "jack_connect), and turn the levels up",
            out->device);
    return 0;
}

static int open_card(struct measure *measure, const struct sound_request *request,
                     struct problem *problem)
{
    int error = sound_link_open(request, &measure->link, problem);
    if (error < 0)
        return error;
    measure->shared = sound_link_shared(measure->link);
    error = sound_link_spawn(measure->link, problem);
    if (error < 0)
        return error;
    if (sound_link_wait(measure->link, OPEN_TIMEOUT_MS) != SOUND_OPEN)
        return problem_set(problem, ERROR_NO_DEVICE, "%s", measure->shared->problem);
    sound_link_start(measure->link);
    return 0;
}

static void close_card(struct sound_link *link)
{
    int64_t until_ns = clock_monotonic_ns() + STOP_TIMEOUT_MS * NS_PER_MS;
    while (!sound_link_stop(link, clock_monotonic_ns() > until_ns))
        usleep(5000);
    sound_link_close(link);
}

int sound_loopback_measure(const struct sound_request *request, double level,
                           struct sound_loopback *out, struct problem *problem)
{
    struct sound_request wanted = *request;
    struct measure measure = {.capture = &wanted.capture, .playback = &wanted.playback};
    memset(out, 0, sizeof *out);
    wanted.playback_frames = (uint64_t)request->rate_hz + 4 * ROUND_TRIP_CHIRP_FRAMES;
    int error = prepare(&measure, request->rate_hz, level) < 0
                    ? problem_set(problem, ERROR_MEMORY, "no memory for what is heard")
                    : open_card(&measure, &wanted, problem);
    if (error == 0 && !run(&measure))
        error = problem_set(problem, ERROR_NO_DEVICE, "`%s` went away or stands still: %s",
                            measure.shared->obtained.device, measure.shared->problem);
    if (error == 0)
        error = evaluate(&measure, out, problem);
    if (measure.link != NULL)
        close_card(measure.link);
    free(measure.heard);
    free(measure.decoded);
    free(measure.chirp);
    return error;
}
