/* An analysis as tests drive it: see analysis_world.h. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "analysis/analyses.h"
#include "analysis/hit.h"
#include "tests/support/analysis_world.h"

/* ---- options ----------------------------------------------------------------------------- */

static void *take(struct analysis_world *world, size_t bytes)
{
    assert_in_range(world->taken_count, 0, sizeof world->taken / sizeof world->taken[0] - 1);
    void *memory = calloc(1, bytes);
    assert_non_null(memory);
    world->taken[world->taken_count++] = memory;
    return memory;
}

static void report(void *context, const char *key, bool warning, const char *text)
{
    struct analysis_world *world = context;
    size_t used = strlen(world->errors);
    snprintf(world->errors + used, sizeof world->errors - used, "%s%s: %s\n",
             warning ? "warning: " : "", key != NULL ? key : "", text);
}

static const struct option_value *written(void *context, const char *key)
{
    const struct analysis_world *world = context;
    for (unsigned i = 0; i < world->ops->option_count; i++)
        if (strcmp(world->ops->options[i].key, key) == 0)
            return world->written[i];
    return NULL;
}

static void set_option(struct analysis_world *world, const struct option_row *row,
                       const char *given)
{
    size_t bytes = strlen(given) + 1;
    char *text = take(world, bytes);
    memcpy(text, given, bytes);
    const bool lines = row->list == LIST_LINES;
    unsigned *lines_before = &world->lines[row - world->ops->options];
    unsigned count = 1, first = lines ? *lines_before : 0;
    for (const char *at = text; row->list != LIST_NONE && !lines && *at != '\0'; at++)
        count += *at == ',';
    struct option_value *values = take(world, (first + count) * sizeof *values);
    if (first > 0)
        memcpy(values, world->written[row - world->ops->options], first * sizeof *values);
    char *next = text;
    for (unsigned i = first; i < first + count; i++) {
        char *item = next, *end = count > 1 ? strchr(item, ',') : NULL;
        if (end != NULL) {
            *end = '\0';
            next = end + 1;
        }
        while (*item == ' ')
            item++;
        struct problem problem;
        if (option_parse(row, item, &values[i], &problem) != 0)
            fail_msg("%s", problem.text);
    }
    *lines_before += count;
    option_store(row, values, first + count, world->options.own);
    world->written[row - world->ops->options] = values;
}

static void set_options(struct analysis_world *world, const char *const *settings)
{
    const struct analysis_ops *ops = world->ops;
    for (unsigned i = 0; i < ops->option_count; i++)
        if (ops->options[i].fallback != NULL) {
            set_option(world, &ops->options[i], ops->options[i].fallback);
            world->written[i] = NULL;
            world->lines[i] = 0;
        }
    for (; *settings != NULL; settings++) {
        char key[64];
        const char *equals = strstr(*settings, " = ");
        assert_non_null(equals);
        snprintf(key, sizeof key, "%.*s", (int)(equals - *settings), *settings);
        const struct option_row *row = option_find(ops->options, ops->option_count, key);
        if (row == NULL)
            fail_msg("no key `%s`", key);
        set_option(world, row, equals + 3);
    }
}

/* ---- events ------------------------------------------------------------------------------ */

static void *copy(const void *from, size_t bytes)
{
    void *to = malloc(bytes > 0 ? bytes : 1);
    assert_non_null(to);
    if (bytes > 0)
        memcpy(to, from, bytes);
    return to;
}

static void keep(void *context, const struct analysis_event *event)
{
    struct analysis_world *world = context;
    if ((world->count & (world->count + 1)) == 0) {
        world->events = realloc(world->events, 2 * (world->count + 1) * sizeof *world->events);
        assert_non_null(world->events);
    }
    struct kept_event *kept = &world->events[world->count++];
    kept->event = *event;
    kept->body = copy(event->body, event->body_bytes);
    kept->samples = copy(event->samples, event->sample_count * sizeof(float));
    kept->event.body = kept->body;
    kept->event.samples = kept->samples;
}

static void advance(void *context, uint64_t epoch, uint64_t frame)
{
    struct analysis_world *world = context;
    assert_true(epoch > world->advanced_epoch ||
                (epoch == world->advanced_epoch && frame >= world->advanced));
    world->advanced_epoch = epoch;
    world->advanced = frame;
}

static void equal_event(const struct kept_event *a, const struct kept_event *b)
{
    const struct analysis_event *x = &a->event, *y = &b->event;
    assert_int_equal(x->kind, y->kind);
    assert_int_equal(x->ordered, y->ordered);
    assert_int_equal(x->number, y->number);
    assert_int_equal(x->channel, y->channel);
    assert_int_equal(x->epoch, y->epoch);
    assert_int_equal(x->record, y->record);
    assert_int_equal(x->frame, y->frame);
    assert_int_equal(x->capture_ns, y->capture_ns);
    assert_int_equal(x->clock, y->clock);
    assert_int_equal(x->clock_error_ns, y->clock_error_ns);
    assert_memory_equal(&x->delay_frames, &y->delay_frames, sizeof x->delay_frames);
    assert_int_equal(x->arrival_ns, y->arrival_ns);
    assert_int_equal(x->flags, y->flags);
    assert_int_equal(x->causes, y->causes);
    assert_int_equal(x->parameter_count, y->parameter_count);
    assert_memory_equal(x->parameters, y->parameters, x->parameter_count * sizeof x->parameters[0]);
    assert_int_equal(x->body_bytes, y->body_bytes);
    assert_memory_equal(a->body, b->body, x->body_bytes);
    assert_int_equal(x->sample_count, y->sample_count);
    assert_int_equal(x->first_sample, y->first_sample);
    assert_memory_equal(a->samples, b->samples, x->sample_count * sizeof(float));
}

void analysis_world_equal(const struct analysis_world *a, const struct analysis_world *b)
{
    for (size_t i = 0; i < a->count && i < b->count; i++)
        equal_event(&a->events[i], &b->events[i]);
    assert_int_equal(a->count, b->count);
    struct analysis_ledger first, second;
    a->ops->ledger(a->analysis, &first);
    b->ops->ledger(b->analysis, &second);
    assert_memory_equal(&first, &second, sizeof first);
}

/* ---- life -------------------------------------------------------------------------------- */

struct analysis_stream analysis_world_stream(uint32_t channels, double rate_hz, const char *unit)
{
    enum { CHANNELS_MAX = 1024 };
    static const char *units[4][CHANNELS_MAX];
    static double zeros[CHANNELS_MAX];
    static unsigned streams;
    const char **own = units[streams++ % 4];
    assert_in_range(channels, 1, CHANNELS_MAX);
    for (uint32_t c = 0; c < channels; c++)
        own[c] = unit;
    return (struct analysis_stream){.name = "vessel",
                                    .rate_hz = rate_hz,
                                    .channels = channels,
                                    .units = own,
                                    .taps_longest = 1,
                                    .taps_hash = "",
                                    .config_hash = "",
                                    .preamp_db = zeros,
                                    .full_scale = zeros};
}

void analysis_world_open(struct analysis_world *world, const struct analysis_ops *ops,
                         const struct analysis_stream *stream, const char *const *settings)
{
    *world = (struct analysis_world){.ops = ops, .stream = *stream};
    world->options = (struct analysis_options){
        .name = "test",
        .stream = world->stream,
        .own = take(world, ops->options_bytes),
        .emit = keep,
        .advance = advance,
        .context = world,
    };
    set_options(world, settings);
    const struct option_check check = {
        .context = world, .section = "test", .report = report, .written = written};
    if (ops->check != NULL)
        ops->check(&check, &world->options);
    for (const char *line = world->errors; *line != '\0'; line = strchr(line, '\n') + 1)
        if (strncmp(line, "warning: ", 9) != 0)
            return;
    struct problem problem;
    if (ops->open(&world->options, &world->analysis, &problem) != 0)
        fail_msg("%s", problem.text);
}

void analysis_world_open_good(struct analysis_world *world, const struct analysis_ops *ops,
                              const struct analysis_stream *stream, const char *const *settings)
{
    analysis_world_open(world, ops, stream, settings);
    if (world->errors[0] != '\0')
        fail_msg("%s", world->errors);
}

float *analysis_world_floats(uint64_t count)
{
    float *memory = calloc(count, sizeof *memory);
    assert_non_null(memory);
    return memory;
}

void analysis_world_close(struct analysis_world *world)
{
    world->ops->close(world->analysis);
    for (size_t i = 0; i < world->count; i++) {
        free(world->events[i].body);
        free(world->events[i].samples);
    }
    free(world->events);
    for (unsigned i = 0; i < world->taken_count; i++)
        free(world->taken[i]);
}

/* ---- frames ------------------------------------------------------------------------------ */

enum { RANGES = 256 };

void analysis_world_put(struct analysis_world *world, const struct analysis_signal *signal,
                        uint64_t from, uint64_t until)
{
    struct invalid_range invalid[RANGES];
    struct analysis_saturation saturated[RANGES];
    struct analysis_run run = {
        .epoch = signal->epoch,
        .record = signal->record,
        .first_frame = from,
        .frames = (uint32_t)(until - from),
        .channels = signal->channels,
        .samples = signal->samples + from * signal->channels,
        .history = from,
        .invalid = invalid,
        .saturated = saturated,
        .begins = from == 0,
        .ends = until == signal->frames,
        .capture_ns = 1000000000 + (int64_t)((double)from * 1e9 / signal->rate_hz + 0.5),
        .clock = CLOCK_SOURCE_SOURCE,
        .clock_error_ns = 5,
        .delay_frames = world->options.stream.delay_frames,
        .aligned = world->options.stream.aligned,
    };
    for (uint32_t i = 0; i < signal->invalid_count; i++) {
        struct invalid_range range = signal->invalid[i];
        range.from = range.from > from ? range.from : from;
        range.until = range.until < until ? range.until : until;
        if (range.from < range.until) {
            assert_in_range(run.invalid_count, 0, RANGES - 1);
            invalid[run.invalid_count++] = range;
        }
    }
    for (uint32_t i = 0; i < signal->saturated_count; i++) {
        struct analysis_saturation range = signal->saturated[i];
        if (world->options.stream.taps_longest > 0) /* the stream spreads it over the filter */
            range.until += world->options.stream.taps_longest - 1;
        range.from = range.from > from ? range.from : from;
        range.until = range.until < until ? range.until : until;
        if (range.from < range.until) {
            assert_in_range(run.saturated_count, 0, RANGES - 1);
            saturated[run.saturated_count++] = range;
        }
    }
    world->ops->put(world->analysis, &run);
    struct analysis_ledger ledger;
    world->ops->ledger(world->analysis, &ledger);
    assert_int_equal(ledger.frames, ledger.live + ledger.dead);
}

void analysis_world_restore(struct analysis_world *world)
{
    struct codec counter = codec_counter();
    assert_true(world->ops->walk(world->analysis, &counter));
    const size_t bytes = counter.at;
    uint8_t *state = malloc(bytes);
    assert_non_null(state);
    struct codec writer = codec_writer(state, bytes);
    assert_true(world->ops->walk(world->analysis, &writer));
    assert_false(writer.failed);
    struct analysis *next;
    struct problem problem;
    assert_int_equal(world->ops->open(&world->options, &next, &problem), 0);
    struct codec shorter = codec_reader(state, bytes - 1);
    assert_false(world->ops->walk(next, &shorter));
    world->ops->close(next);
    assert_int_equal(world->ops->open(&world->options, &next, &problem), 0);
    struct codec reader = codec_reader(state, bytes);
    assert_true(world->ops->walk(next, &reader));
    assert_int_equal(reader.at, bytes);
    world->ops->close(world->analysis);
    world->analysis = next;
    free(state);
}

void analysis_world_put_cut(struct analysis_world *world, const struct analysis_signal *signal,
                            struct random_state *random, bool restore)
{
    for (uint64_t from = 0; from < signal->frames;) {
        const uint32_t kind = random_below(random, 3);
        uint64_t frames = kind == 0   ? 1
                          : kind == 1 ? 1 + random_below(random, 16)
                                      : 1 + random_below(random, 1000);
        if (frames > signal->frames - from)
            frames = signal->frames - from;
        analysis_world_put(world, signal, from, from + frames);
        from += frames;
        if (restore && random_below(random, 8) == 0)
            analysis_world_restore(world);
    }
}

uint32_t analysis_world_ranges(struct random_state *random, uint64_t frames,
                               struct invalid_range *ranges, uint32_t capacity)
{
    uint32_t count = 0;
    for (uint64_t at = random_below(random, 500); at < frames && count < capacity;
         at += random_below(random, 1200)) {
        const uint64_t until = at + 1 + random_below(random, random_below(random, 2) ? 4 : 200);
        ranges[count++] =
            (struct invalid_range){at, until < frames ? until : frames,
                                   (enum invalid_cause)random_below(random, INVALID_CAUSES)};
    }
    return count;
}

void analysis_world_hits(struct analysis_world *world, uint32_t channels,
                         const char *const *settings)
{
    const struct analysis_stream stream = analysis_world_stream(channels, ANALYSIS_WORLD_RATE, "V");
    analysis_world_open(world, &analysis_hits, &stream, settings);
    if (world->analysis == NULL)
        fail_msg("%s", world->errors);
}

const struct hit *analysis_world_hit(const struct analysis_world *world, size_t i)
{
    assert_in_range(i, 0, world->count - 1);
    assert_int_equal(world->events[i].event.body_bytes, sizeof(struct hit));
    return world->events[i].body;
}

size_t analysis_world_next_ordered(const struct analysis_world *world, size_t from)
{
    while (from < world->count && !world->events[from].event.ordered)
        from++;
    return from;
}
