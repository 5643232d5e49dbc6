/* Loopback: see loopback.h. */
#include "pipeline/loopback.h"

#include <inttypes.h>
#include <jansson.h>
#include <limits.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>

#include "core/replace_file.h"
#include "io/sound/devices.h"
#include "io/sound/loopback.h"

static const char file_name[] = "loopback.json";
static const double chirp_level = 0.25; /* of full scale: loud enough, far from clipping */

/* ---- what is kept -----------------------------------------------------------------------------
 */

static json_t *load(const char *directory)
{
    char path[PATH_MAX];
    snprintf(path, sizeof path, "%s/%s", directory, file_name);
    json_t *table = json_load_file(path, 0, NULL);
    if (json_is_array(table))
        return table;
    json_decref(table); /* damaged: measured again is better than wrong */
    return json_array();
}

static bool same(const json_t *row, const struct sound_request *request)
{
    const char *card = json_string_value(json_object_get(row, "card"));
    const char *api = json_string_value(json_object_get(row, "host api"));
    return card != NULL && api != NULL && strcmp(card, request->device) == 0 &&
           strcmp(api, sound_api_name(request->api)) == 0 &&
           json_number_value(json_object_get(row, "rate")) == request->rate_hz;
}

bool loopback_find(const char *directory, const struct sound_request *request,
                   struct loopback_entry *entry)
{
    bool found = false;
    json_t *table = directory != NULL ? load(directory) : NULL, *row;
    size_t i;
    json_array_foreach(table, i, row)
    {
        json_int_t frames = json_integer_value(json_object_get(row, "frames"));
        const char *measured = json_string_value(json_object_get(row, "measured"));
        if (!same(row, request) || frames < 0)
            continue;
        *entry = (struct loopback_entry){
            .frames = (uint64_t)frames,
            .period_frames = (uint32_t)json_integer_value(json_object_get(row, "period")),
        };
        snprintf(entry->measured, sizeof entry->measured, "%s", measured != NULL ? measured : "?");
        found = true;
    }
    json_decref(table);
    return found;
}

int loopback_keep(const char *directory, const struct sound_request *request,
                  const struct loopback_entry *entry, struct problem *problem)
{
    char path[PATH_MAX];
    mkdir(directory, 0755); /* where it cannot be made, the file cannot be written: that is told */
    json_t *table = load(directory);
    for (size_t i = json_array_size(table); i-- > 0;)
        if (same(json_array_get(table, i), request))
            json_array_remove(table, i);
    json_array_append_new(table, json_pack("{s:s, s:s, s:f, s:I, s:I, s:s}", "card",
                                           request->device, "host api",
                                           sound_api_name(request->api), "rate", request->rate_hz,
                                           "period", (json_int_t)entry->period_frames, "frames",
                                           (json_int_t)entry->frames, "measured", entry->measured));
    snprintf(path, sizeof path, "%s/%s", directory, file_name);
    char *text = json_dumps(table, JSON_INDENT(2));
    json_decref(table);
    int error = replace_file_text(path, text, problem);
    free(text);
    return error;
}

/* ---- what is declared -------------------------------------------------------------------------
 */

uint64_t loopback_declared(const struct config *config, const struct config_stream *stream,
                           struct loopback_entry *measured)
{
    const struct sound_options *sound = sound_options_of(stream->driver, &stream->source);
    struct loopback_entry entry = {0};
    bool excites =
        sound != NULL && sound->duplex && !sound->own && sound->request.playback.channels > 0;
    if (!excites)
        return 0;
    if (sound->round_trip_given)
        return sound->round_trip_frames;
    if (!loopback_find(config->device.cache_dir, &sound->request, &entry))
        return 0;
    if (measured != NULL)
        *measured = entry;
    return entry.frames;
}

/* ---- the command ------------------------------------------------------------------------------
 */

static void print(const struct sound_loopback *found, FILE *out)
{
    fprintf(out, "  %s (%s), %.15g Hz, period %" PRIu32 " frames\n", found->device, found->api,
            found->rate_hz, found->period_frames);
    for (uint32_t c = 0; c < SOUND_CHANNELS_MAX; c++) {
        const struct round_trip *trip = &found->channels[c].trip;
        if (found->channels[c].heard)
            fprintf(
                out,
                "  channel %-4u %10.2f frames, level %+.1f dB, %.0f times clearer than the rest\n",
                c + 1, trip->frames, 20 * log10(trip->level / chirp_level), trip->clearness);
    }
    fprintf(out, "  round trip   %7" PRIu64 " frames = %.3f ms\n", found->frames,
            1e3 * (double)found->frames / found->rate_hz);
}

static int measure_one(const struct config *config, const struct config_stream *stream,
                       struct sound_loopback *found, FILE *out, struct problem *problem)
{
    const struct sound_request *request =
        &sound_options_of(stream->driver, &stream->source)->request;
    struct loopback_entry entry = {0};
    struct tm now;
    time_t seconds = time(NULL);
    fprintf(out, "stream %s\n", stream->name);
    fflush(out);
    int error = sound_loopback_measure(request, chirp_level, found, problem);
    if (error < 0)
        return problem_prefix(problem, error, "stream %s", stream->name);
    print(found, out);
    entry.frames = found->frames;
    entry.period_frames = found->period_frames;
    strftime(entry.measured, sizeof entry.measured, "%Y-%m-%dT%H:%M:%SZ", gmtime_r(&seconds, &now));
    if (config->device.cache_dir == NULL) {
        fprintf(out,
                "  not kept: there is no `cache`; write round trip = %" PRIu64 " frames into "
                "[stream %s]\n",
                entry.frames, stream->name);
        return 0;
    }
    error = loopback_keep(config->device.cache_dir, request, &entry, problem);
    if (error == 0)
        fprintf(out, "  kept in %s/%s\n", config->device.cache_dir, file_name);
    return error;
}

int loopback_measure(const struct config *config, FILE *out, struct problem *problem)
{
    struct sound_loopback *found = malloc(sizeof *found);
    uint32_t measured = 0;
    int error = found == NULL ? problem_set(problem, ERROR_MEMORY, "out of memory") : 0;
    for (uint32_t s = 0; s < config->stream_count && error == 0; s++) {
        const struct sound_options *sound =
            sound_options_of(config->streams[s].driver, &config->streams[s].source);
        if (sound == NULL || !sound->duplex || sound->request.playback.channels == 0)
            continue;
        error = measure_one(config, &config->streams[s], found, out, problem);
        measured++;
    }
    free(found);
    if (error == 0 && measured == 0)
        error = problem_set(
            problem, ERROR_CONFIG,
            "%s has no stream with `source = portaudio` and duplex = yes whose card a sink "
            "plays on: a round trip needs both directions of one card",
            config->path);
    return error;
}
