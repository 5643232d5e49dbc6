/* Wisdom: see wisdom.h. The file is replaced whole, by a rename. */
#include "convolve/plan/wisdom.h"

#include <jansson.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "core/digest.h"
#include "core/log.h"
#include "core/replace_file.h"
#include "device/kernels.h"
#include "device/spill.h"

enum { FORMAT = 1, ENTRIES_MAX = 4096, CANDIDATES_MAX = 512, PATH_BYTES = 4096 };

struct wisdom {
    char path[PATH_BYTES]; /* "": nothing is remembered */
    char device[sizeof((struct wisdom_entry *)0)->device];
    char kernels[sizeof((struct wisdom_entry *)0)->kernels];
    const char *kernels_dir; /* the caller's */
    struct wisdom_entry *entries;
    uint32_t count;
};

static void copy_text(char *to, size_t room, const char *from)
{
    snprintf(to, room, "%s", from != NULL ? from : "");
}

/* ---- what an entry depends on ------------------------------------------------------------------
 */

/* Reads every kernel, so only when there is something to compare. */
static void hash_kernels(struct wisdom *wisdom)
{
    struct sha256_ctx sha;
    if (wisdom->kernels[0] != '\0')
        return;
    sha256_init(&sha);
    for (const struct kernel_file *file = kernel_files; file->name != NULL; file++) {
        char *text = NULL;
        struct problem ignored;
        if (kernel_source(wisdom->kernels_dir, file->name, &text, &ignored) < 0)
            continue;
        digest_text(&sha, file->name);
        digest_text(&sha, text);
        free(text);
    }
    digest_finish(&sha, wisdom->kernels);
}

/* ---- JSON -------------------------------------------------------------------------------------
 */

static double number(const json_t *object, const char *key)
{
    const double value = json_number_value(json_object_get(object, key));
    return isfinite(value) ? value : 0;
}

static uint32_t whole(const json_t *object, const char *key)
{
    const json_int_t value = json_integer_value(json_object_get(object, key));
    return value > 0 && value <= UINT32_MAX ? (uint32_t)value : 0;
}

/* SPILL_UNKNOWN where it is not written: nothing was known, or an earlier version wrote the file.
 */
static int32_t spilled_bytes(const json_t *object)
{
    const json_t *value = json_object_get(object, "spilled bytes");
    const json_int_t bytes = json_integer_value(value);
    return json_is_integer(value) && bytes >= 0 && bytes <= INT32_MAX ? (int32_t)bytes
                                                                      : SPILL_UNKNOWN;
}

static const char *text(const json_t *object, const char *key)
{
    return json_string_value(json_object_get(object, key));
}

static struct candidate candidate_read(const json_t *object)
{
    struct candidate candidate = {
        .hop = whole(object, "block"),
        .fft = whole(object, "fft"),
        .partitions = whole(object, "partitions"),
        .items = whole(object, "work items"),
        .vector = whole(object, "lanes"),
        .rows = whole(object, "rows"),
        .measured = json_is_true(json_object_get(object, "measured")),
        .one_us = number(object, "alone us"),
        .each_us = number(object, "in a batch us"),
        .error = number(object, "error"),
        .spilled_bytes = spilled_bytes(object),
    };
    copy_text(candidate.variant, sizeof candidate.variant, text(object, "variant"));
    copy_text(candidate.reason, sizeof candidate.reason, text(object, "reason"));
    return candidate;
}

/* An entry that lacks something is left out: true when it is whole. */
static bool entry_read(const json_t *object, struct wisdom_entry *entry)
{
    const json_t *candidates = json_object_get(object, "candidates");
    const size_t count = json_array_size(candidates);
    *entry = (struct wisdom_entry){.chosen = whole(object, "chosen")};
    if (count == 0 || count > CANDIDATES_MAX || entry->chosen >= count ||
        text(object, "shape") == NULL || text(object, "device") == NULL)
        return false;
    copy_text(entry->device, sizeof entry->device, text(object, "device"));
    copy_text(entry->kernels, sizeof entry->kernels, text(object, "kernels"));
    copy_text(entry->shape, sizeof entry->shape, text(object, "shape"));
    copy_text(entry->date, sizeof entry->date, text(object, "date"));
    entry->candidates = calloc(count, sizeof *entry->candidates);
    if (entry->candidates == NULL)
        return false;
    entry->count = (uint32_t)count;
    for (size_t i = 0; i < count; i++)
        entry->candidates[i] = candidate_read(json_array_get(candidates, i));
    const struct candidate *chosen = &entry->candidates[entry->chosen];
    if (chosen->measured && chosen->variant[0] != '\0' && chosen->fft > 0 && chosen->hop > 0)
        return true;
    free(entry->candidates);
    return false;
}

static json_t *candidate_write(const struct candidate *candidate)
{
    json_t *object = json_pack(
        "{s:s, s:I, s:I, s:I, s:I, s:I, s:I, s:b, s:f, s:f, s:f, s:s}", "variant",
        candidate->variant, "block", (json_int_t)candidate->hop, "fft", (json_int_t)candidate->fft,
        "partitions", (json_int_t)candidate->partitions, "work items", (json_int_t)candidate->items,
        "lanes", (json_int_t)candidate->vector, "rows", (json_int_t)candidate->rows, "measured",
        candidate->measured, "alone us", candidate->one_us, "in a batch us", candidate->each_us,
        "error", candidate->error, "reason", candidate->reason);
    if (candidate->spilled_bytes != SPILL_UNKNOWN)
        json_object_set_new(object, "spilled bytes", json_integer(candidate->spilled_bytes));
    return object;
}

static json_t *entry_write(const struct wisdom_entry *entry)
{
    json_t *candidates = json_array();
    for (uint32_t i = 0; i < entry->count; i++)
        json_array_append_new(candidates, candidate_write(&entry->candidates[i]));
    return json_pack("{s:s, s:s, s:s, s:s, s:I, s:o}", "device", entry->device, "kernels",
                     entry->kernels, "shape", entry->shape, "date", entry->date, "chosen",
                     (json_int_t)entry->chosen, "candidates", candidates);
}

static void load(struct wisdom *wisdom)
{
    json_error_t error;
    if (access(wisdom->path, F_OK) != 0)
        return;
    json_t *root = json_load_file(wisdom->path, 0, &error);
    if (root == NULL || whole(root, "format") != FORMAT) {
        log_warning("%s is not taken into account (%s); convolvd --tune writes it anew",
                    wisdom->path, root == NULL ? error.text : "another version wrote it");
        json_decref(root);
        return;
    }
    const json_t *entries = json_object_get(root, "entries");
    const size_t count =
        json_array_size(entries) < ENTRIES_MAX ? json_array_size(entries) : ENTRIES_MAX;
    wisdom->entries = calloc(count + 1, sizeof *wisdom->entries);
    for (size_t i = 0; wisdom->entries != NULL && i < count; i++)
        if (entry_read(json_array_get(entries, i), &wisdom->entries[wisdom->count]))
            wisdom->count++;
    json_decref(root);
}

static int store(const struct wisdom *wisdom, struct problem *problem)
{
    json_t *entries = json_array();
    for (uint32_t i = 0; i < wisdom->count; i++)
        json_array_append_new(entries, entry_write(&wisdom->entries[i]));
    json_t *root = json_pack("{s:i, s:o}", "format", FORMAT, "entries", entries);
    char *text = json_dumps(root, JSON_INDENT(1) | JSON_REAL_PRECISION(6));
    json_decref(root);
    struct problem reason;
    const int error = replace_file_text(wisdom->path, text, &reason);
    free(text);
    if (error == 0)
        return 0;
    return problem_set(problem, ERROR_NO_FILE,
                       "%.380s; name a directory that can be with `cache` of [device]",
                       reason.text);
}

/* ---- verbs ------------------------------------------------------------------------------------
 */

int wisdom_open(const char *directory, const char *kernels_dir, const struct device_info *info,
                struct wisdom **out, struct problem *problem)
{
    struct wisdom *wisdom = calloc(1, sizeof *wisdom);
    if (wisdom == NULL)
        return problem_set(problem, ERROR_MEMORY, "out of memory for wisdom");
    snprintf(wisdom->device, sizeof wisdom->device, "%s, %s, driver %s, %s", info->platform,
             info->name, info->driver, info->version);
    wisdom->kernels_dir = kernels_dir;
    if (directory != NULL && snprintf(wisdom->path, sizeof wisdom->path, "%s/wisdom.json",
                                      directory) < (int)sizeof wisdom->path)
        load(wisdom);
    else
        wisdom->path[0] = '\0';
    if (wisdom->count > 0)
        hash_kernels(wisdom);
    *out = wisdom;
    return 0;
}

void wisdom_close(struct wisdom *wisdom)
{
    if (wisdom == NULL)
        return;
    for (uint32_t i = 0; i < wisdom->count; i++)
        free(wisdom->entries[i].candidates);
    free(wisdom->entries);
    free(wisdom);
}

/* Its index, or the number of entries. */
static uint32_t find(const struct wisdom *wisdom, const char *shape)
{
    uint32_t i = 0;
    while (i < wisdom->count && (strcmp(wisdom->entries[i].shape, shape) != 0 ||
                                 strcmp(wisdom->entries[i].device, wisdom->device) != 0 ||
                                 strcmp(wisdom->entries[i].kernels, wisdom->kernels) != 0))
        i++;
    return i;
}

const struct wisdom_entry *wisdom_find(const struct wisdom *wisdom, const char *shape)
{
    const uint32_t index = find(wisdom, shape);
    return index < wisdom->count ? &wisdom->entries[index] : NULL;
}

int wisdom_put(struct wisdom *wisdom, const char *shape, const struct candidate *candidates,
               uint32_t count, uint32_t chosen, struct problem *problem)
{
    hash_kernels(wisdom);
    const uint32_t index = find(wisdom, shape);
    struct wisdom_entry entry = {.count = count, .chosen = chosen};
    entry.candidates = malloc(count * sizeof *candidates);
    if (entry.candidates == NULL || (index == wisdom->count && index >= ENTRIES_MAX)) {
        free(entry.candidates);
        return problem_set(problem, ERROR_LIMIT, "no room for more wisdom: delete %s",
                           wisdom->path);
    }
    if (index == wisdom->count) {
        struct wisdom_entry *more =
            realloc(wisdom->entries, (wisdom->count + 1) * sizeof *wisdom->entries);
        if (more == NULL) {
            free(entry.candidates);
            return problem_set(problem, ERROR_MEMORY, "out of memory for wisdom");
        }
        wisdom->entries = more;
        wisdom->count++;
    } else {
        free(wisdom->entries[index].candidates);
    }
    memcpy(entry.candidates, candidates, count * sizeof *candidates);
    copy_text(entry.device, sizeof entry.device, wisdom->device);
    copy_text(entry.kernels, sizeof entry.kernels, wisdom->kernels);
    copy_text(entry.shape, sizeof entry.shape, shape);
    const time_t now = time(NULL);
    struct tm utc;
    if (gmtime_r(&now, &utc) != NULL)
        strftime(entry.date, sizeof entry.date, "%Y-%m-%dT%H:%M:%SZ", &utc);
    wisdom->entries[index] = entry;
    return wisdom->path[0] != '\0' ? store(wisdom, problem) : 0;
}
