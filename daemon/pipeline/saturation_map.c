/* Saturation map: see saturation_map.h. */
#include "pipeline/saturation_map.h"

#include <stdlib.h>

#include "core/error.h"

enum { MARKS = 512, MARKS_LEAST = 2 };

struct saturation_map {
    const struct config_stream *stream;
    uint32_t quota;                 /* marks of one float */
    bool *inputs;                   /* [channels], of the output under work */
    uint32_t *first;                /* [channels + 1], of the result under work */
    struct input_saturation *marks; /* [output_floats * quota] */
};

static uint32_t quota_of(const struct config_stream *stream)
{
    const uint32_t quota = MARKS / stream->output_floats;
    return quota > MARKS_LEAST ? quota : MARKS_LEAST;
}

uint32_t saturation_map_most(const struct config_stream *stream)
{
    return quota_of(stream) * stream->output_floats;
}

int saturation_map_open(const struct config_stream *stream, struct saturation_map **out)
{
    struct saturation_map *map = calloc(1, sizeof *map);
    if (map == NULL)
        return ERROR_MEMORY;
    map->stream = stream;
    map->quota = quota_of(stream);
    map->inputs = calloc(stream->source.channels, sizeof *map->inputs);
    map->first = calloc(stream->source.channels + 1, sizeof *map->first);
    map->marks = calloc(saturation_map_most(stream), sizeof *map->marks);
    if (map->inputs == NULL || map->first == NULL || map->marks == NULL) {
        saturation_map_close(map);
        return ERROR_MEMORY;
    }
    *out = map;
    return 0;
}

void saturation_map_close(struct saturation_map *map)
{
    if (map == NULL)
        return;
    free(map->inputs);
    free(map->first);
    free(map->marks);
    free(map);
}

/* By `from`, then by channel. Shell's sort with Ciura's gaps: qsort may allocate. */
static void sort(struct input_saturation *marks, uint32_t count)
{
    static const uint32_t gaps[] = {701, 301, 132, 57, 23, 10, 4, 1};
    for (size_t g = 0; g < sizeof gaps / sizeof gaps[0]; g++) {
        const uint32_t gap = gaps[g];
        for (uint32_t i = gap; i < count; i++) {
            const struct input_saturation moved = marks[i];
            uint32_t at = i;
            for (; at >= gap &&
                   (marks[at - gap].from > moved.from || (marks[at - gap].from == moved.from &&
                                                          marks[at - gap].channel > moved.channel));
                 at -= gap)
                marks[at] = marks[at - gap];
            marks[at] = moved;
        }
    }
}

/* Where the marks of each input begin in the result's. */
static void find_marks(struct saturation_map *map, const struct result *result)
{
    uint32_t at = 0;
    for (uint32_t c = 0; c <= map->stream->source.channels; c++) {
        while (at < result->saturated_input_count && result->saturated_inputs[at].channel < c)
            at++;
        map->first[c] = at;
    }
}

/* The earliest mark of the output's inputs that reaches beyond `from`; NULL: there is none. */
static const struct input_saturation *next_mark(const struct saturation_map *map,
                                                const struct result *result, uint64_t from)
{
    const struct input_saturation *found = NULL;
    for (uint32_t c = 0; c < map->stream->source.channels; c++) {
        uint32_t i = map->first[c];
        while (i < map->first[c + 1] && result->saturated_inputs[i].until <= from)
            i++;
        if (map->inputs[c] && i < map->first[c + 1] &&
            (found == NULL || result->saturated_inputs[i].from < found->from))
            found = &result->saturated_inputs[i];
    }
    return found;
}

/* The union of the marks of the output's inputs. Returns how many. */
static uint32_t unite(const struct saturation_map *map, const struct result *result,
                      uint32_t channel, struct input_saturation *out)
{
    uint32_t count = 0;
    const struct input_saturation *mark;
    for (uint64_t from = 0; (mark = next_mark(map, result, from)) != NULL; from = mark->until) {
        struct input_saturation *last = count > 0 ? &out[count - 1] : NULL;
        if (last != NULL && (mark->from <= last->until || count == map->quota))
            last->until = mark->until;
        else
            out[count++] = (struct input_saturation){mark->from, mark->until, channel};
    }
    return count;
}

static void find_inputs(struct saturation_map *map, uint32_t output)
{
    const struct config_stream *stream = map->stream;
    for (uint32_t c = 0; c < stream->source.channels; c++)
        map->inputs[c] = false;
    for (uint32_t e = 0; e < stream->edge_count; e++)
        if (stream->edges[e].output == output)
            map->inputs[stream->edges[e].input] = true;
}

uint32_t saturation_map_apply(struct saturation_map *map, const struct result *result,
                              const struct input_saturation **marks)
{
    const struct config_stream *stream = map->stream;
    uint32_t count = 0;
    *marks = NULL;
    if (result->saturated_input_count == 0)
        return 0;
    find_marks(map, result);
    for (uint32_t output = 0, at = 0; output < stream->output_count; output++) {
        const uint32_t floats = stream->outputs[output] == OUTPUT_COMPLEX ? 2 : 1;
        find_inputs(map, output);
        for (uint32_t i = 0; i < floats; i++)
            count += unite(map, result, at++, &map->marks[count]);
    }
    sort(map->marks, count);
    *marks = map->marks;
    return count;
}
