/* Validity of a recording's frames: see validity.h. */
#include "io/recording/validity.h"

#include <errno.h>
#include <inttypes.h>
#include <jansson.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

enum { SIDECAR_BYTES_MAX = 64 << 20 };

/* A cause that this version does not know, or that a repair gave (`unflushed`, `unwritten`): the
 * frames were lost before they were recorded. */
static enum invalid_cause cause_of(const char *name)
{
    for (int i = 0; name != NULL && i < INVALID_CAUSES; i++)
        if (strcmp(name, invalid_cause_name((enum invalid_cause)i)) == 0)
            return (enum invalid_cause)i;
    return INVALID_CAPTURE;
}

static bool number_of(const json_t *object, const char *key, uint64_t *value)
{
    const json_t *member = json_object_get(object, key);
    if (!json_is_integer(member) || json_integer_value(member) < 0)
        return false;
    *value = (uint64_t)json_integer_value(member);
    return true;
}

/* Frames [from, until) of the epoch that lie in the file, as frames of the file. False: none. */
static bool clip(const struct recording_validity *v, uint64_t frames, const json_t *range,
                 struct invalid_range *out)
{
    uint64_t from, until;
    if (!number_of(range, "from", &from) || !number_of(range, "until", &until) ||
        until <= v->first_frame)
        return false;
    out->from = from > v->first_frame ? from - v->first_frame : 0;
    out->until = until - v->first_frame < frames ? until - v->first_frame : frames;
    out->cause = cause_of(json_string_value(json_object_get(range, "cause")));
    return out->from < out->until;
}

static int by_cause(const void *a, const void *b)
{
    const struct invalid_range *x = a, *y = b;
    if (x->cause != y->cause)
        return x->cause < y->cause ? -1 : 1;
    return x->from < y->from ? -1 : x->from > y->from;
}

static int by_start(const void *a, const void *b)
{
    const struct invalid_range *x = a, *y = b;
    if (x->from != y->from)
        return x->from < y->from ? -1 : 1;
    return x->cause < y->cause ? -1 : x->cause > y->cause;
}

/* Joins ranges of one cause that touch, sorts all by their start and counts the frames in them. */
static void arrange(struct recording_validity *v)
{
    uint32_t kept = 0;
    qsort(v->ranges, v->range_count, sizeof *v->ranges, by_cause);
    for (uint32_t i = 0; i < v->range_count; i++) {
        struct invalid_range *last = kept > 0 ? &v->ranges[kept - 1] : NULL;
        const struct invalid_range *range = &v->ranges[i];
        if (last != NULL && last->cause == range->cause && range->from <= last->until)
            last->until = range->until > last->until ? range->until : last->until;
        else
            v->ranges[kept++] = *range;
    }
    v->range_count = kept;
    qsort(v->ranges, kept, sizeof *v->ranges, by_start);
    uint64_t reached = 0;
    for (uint32_t i = 0; i < kept; i++) {
        const uint64_t from = v->ranges[i].from > reached ? v->ranges[i].from : reached;
        if (v->ranges[i].until > from)
            v->invalid_frames += v->ranges[i].until - from;
        if (v->ranges[i].until > reached)
            reached = v->ranges[i].until;
    }
}

static bool take_ranges(struct recording_validity *v, uint64_t frames, const json_t *root)
{
    const json_t *list = json_object_get(root, "invalid");
    size_t index;
    const json_t *range;
    v->ranges = calloc(json_array_size(list) + 1, sizeof *v->ranges);
    if (v->ranges == NULL)
        return false;
    json_array_foreach(list, index, range)
    {
        if (clip(v, frames, range, &v->ranges[v->range_count]))
            v->range_count++;
    }
    arrange(v);
    return true;
}

static int by_frame(const void *a, const void *b)
{
    const struct source_mark *x = a, *y = b;
    return x->frame < y->frame ? -1 : x->frame > y->frame;
}

static bool take_marks(struct recording_validity *v, uint64_t frames, const json_t *root)
{
    const json_t *list = json_object_get(root, "marks"), *item;
    size_t index;
    v->marks = calloc(json_array_size(list) + 1, sizeof *v->marks);
    if (v->marks == NULL)
        return false;
    json_array_foreach(list, index, item)
    {
        struct source_mark *mark = &v->marks[v->mark_count];
        const char *text = json_string_value(json_object_get(item, "text"));
        const char *who = json_string_value(json_object_get(item, "who"));
        uint64_t frame, realtime_ns = 0;
        if (!number_of(item, "frame", &frame) || frame < v->first_frame ||
            frame - v->first_frame >= frames || text == NULL)
            continue;
        (void)number_of(item, "realtime_ns", &realtime_ns);
        mark->frame = frame - v->first_frame;
        mark->realtime_ns = (int64_t)realtime_ns;
        snprintf(mark->text, sizeof mark->text, "%s", text);
        snprintf(mark->who, sizeof mark->who, "%s", who != NULL ? who : "");
        v->mark_count++;
    }
    qsort(v->marks, v->mark_count, sizeof *v->marks, by_frame);
    return true;
}

/* Returns NULL without a sidecar (*error 0) or for an unreadable one. */
static json_t *load(const char *recording, int *error, struct problem *problem)
{
    char path[PATH_MAX];
    struct stat status;
    json_error_t where;
    *error = 0;
    if (snprintf(path, sizeof path, "%s.json", recording) >= (int)sizeof path ||
        stat(path, &status) != 0)
        return NULL;
    json_t *root = NULL;
    if (S_ISREG(status.st_mode) && status.st_size <= SIDECAR_BYTES_MAX)
        root = json_load_file(path, 0, &where);
    else
        snprintf(where.text, sizeof where.text, "it is no file of a reasonable size");
    if (root == NULL || !json_is_object(root))
        *error = problem_set(problem, ERROR_FORMAT,
                             "the sidecar %s cannot be read (%s); move it away, or write validity "
                             "= ignore",
                             path, root == NULL ? where.text : "it is no JSON object");
    if (*error != 0) {
        json_decref(root);
        root = NULL;
    }
    return root;
}

int recording_validity_load(const char *recording, uint64_t frames, struct recording_validity *v,
                            struct problem *problem)
{
    int error;
    *v = (struct recording_validity){0};
    json_t *root = load(recording, &error, problem);
    if (root == NULL)
        return error;
    v->found = number_of(root, "frames", &v->counted);
    v->complete = json_is_true(json_object_get(root, "complete"));
    v->fits = v->found && v->counted == frames;
    (void)number_of(root, "first_frame", &v->first_frame);
    (void)number_of(root, "epoch", &v->epoch);
    if (v->fits && !(take_ranges(v, frames, root) && take_marks(v, frames, root))) {
        recording_validity_free(v);
        error = problem_set(problem, ERROR_MEMORY, "no memory for the sidecar of %s", recording);
    }
    json_decref(root);
    return error;
}

void recording_validity_free(struct recording_validity *v)
{
    free(v->ranges);
    free(v->marks);
    v->ranges = NULL;
    v->marks = NULL;
    v->range_count = v->mark_count = 0;
}
