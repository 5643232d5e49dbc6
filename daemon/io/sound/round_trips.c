/* Round trips of sound cards: see round_trips.h. */
#include "io/sound/round_trips.h"

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
#include "io/sound/options.h"

static const char file_name[] = "loopback.json";
static const double chirp_level = 0.25; /* of full scale: clear, and far from clipping */

/* ---- the file --------------------------------------------------------------------------- */

/* One card at one rate. */
struct entry {
    uint64_t frames;
    uint32_t period_frames; /* of the measurement; another period has another round trip */
    char measured[32];      /* UTC */
};

static json_t *load(const char *directory)
{
    char path[PATH_MAX];
    snprintf(path, sizeof path, "%s/%s", directory, file_name);
    json_t *table = json_load_file(path, 0, NULL);
    if (json_is_array(table))
        return table;
    json_decref(table); /* absent or damaged: begin a new table */
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

/* Finds the round trip of a card; directory NULL: finds none. */
static bool find(const char *directory, const struct sound_request *request, struct entry *entry)
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
        *entry = (struct entry){
            .frames = (uint64_t)frames,
            .period_frames = (uint32_t)json_integer_value(json_object_get(row, "period")),
        };
        snprintf(entry->measured, sizeof entry->measured, "%s", measured != NULL ? measured : "?");
        found = true;
    }
    json_decref(table);
    return found;
}

/* Stores an entry in place of an older one of the same card. */
static int keep(const char *directory, const struct sound_request *request,
                const struct entry *entry, struct problem *problem)
{
    char path[PATH_MAX];
    mkdir(directory, 0755); /* when this fails, so does writing the file, which reports it */
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

/* ---- declared -------------------------------------------------------------------------- */

static uint64_t declared(const struct source_options *options, const char *cache_dir, char *note,
                         size_t note_bytes)
{
    const struct sound_options *sound = options->own;
    struct entry entry = {0};
    note[0] = '\0';
    /* Only a card that plays an excitation has such a delay, not one that plays its own results. */
    if (!sound->duplex || sound->own || sound->request.playback.channels == 0)
        return 0;
    if (sound->round_trip_given)
        return sound->round_trip_frames;
    if (!find(cache_dir, &sound->request, &entry))
        return 0;
    snprintf(note, note_bytes, "measured %s with periods of %" PRIu32 " frames", entry.measured,
             entry.period_frames);
    return entry.frames;
}

/* ---- the command ------------------------------------------------------------------------ */

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

static bool measurable(const struct source_options *options)
{
    const struct sound_options *sound = options->own;
    return sound->duplex && sound->request.playback.channels > 0;
}

static int keep_found(const struct sound_loopback *found, const struct source_options *options,
                      const char *cache_dir, FILE *out, struct problem *problem)
{
    const struct sound_options *sound = options->own;
    struct entry entry = {.frames = found->frames, .period_frames = found->period_frames};
    struct tm now;
    time_t seconds = time(NULL);
    strftime(entry.measured, sizeof entry.measured, "%Y-%m-%dT%H:%M:%SZ", gmtime_r(&seconds, &now));
    if (cache_dir == NULL) {
        fprintf(out,
                "  not kept: there is no `cache`; write round trip = %" PRIu64 " frames into "
                "[stream %s]\n",
                entry.frames, options->stream);
        return 0;
    }
    int error = keep(cache_dir, &sound->request, &entry, problem);
    if (error == 0)
        fprintf(out, "  kept in %s/%s\n", cache_dir, file_name);
    return error;
}

static int measure(const struct source_options *options, const char *cache_dir, FILE *out,
                   struct problem *problem)
{
    const struct sound_options *sound = options->own;
    struct sound_loopback *found = malloc(sizeof *found);
    if (found == NULL)
        return problem_set(problem, ERROR_MEMORY, "out of memory");
    int error = sound_loopback_measure(&sound->request, chirp_level, found, problem);
    if (error == 0) {
        print(found, out);
        error = keep_found(found, options, cache_dir, out, problem);
    }
    free(found);
    return error;
}

const struct driver_loopback sound_loopback_ops = {
    .declared = declared,
    .measurable = measurable,
    .measure = measure,
};
