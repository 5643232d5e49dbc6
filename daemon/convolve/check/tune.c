/*
 * Choosing by measurement, see tune.h.
 *
 *     candidates ─► each alone: built, self-tested, timed ─► the best few, in turns ─► wisdom
 *
 * One timing on a busy machine means little. The second round times the finalists one after the
 * other, many times over, and compares medians, so that a disturbance hits all of them.
 */
#include "convolve/check/tune.h"

#include <assert.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "convolve/check/prepare.h"
#include "convolve/check/selftest.h"
#include "convolve/object.h"
#include "convolve/plan/plan.h"
#include "convolve/plan/shape.h"
#include "convolve/plan/variant.h"
#include "device/spill.h"

enum {
    CANDIDATES_MAX = 256,
    FINALISTS = 4,
    FIRST_RUNS = 7, /* of a candidate in the first round */
    TURNS = 9,      /* of the finalists */
    TURN_RUNS = 5,  /* in each of them */
    RUNS_MAX = TURNS * TURN_RUNS,
    FFT_DOUBLINGS = 3, /* N tried beyond the shortest that will do */
    HOPS = 4,          /* blocks tried below the longest that the latency allows */
    HOP_MIN = 16,
};

/* ---- candidates --------------------------------------------------------------------------------
 */

struct list {
    struct candidate items[CANDIDATES_MAX];
    uint32_t count;
};

static void add(struct list *list, const char *variant, const struct layout *layout, uint32_t hop,
                uint32_t items, uint32_t vector, uint32_t rows)
{
    if (list->count == CANDIDATES_MAX)
        return;
    struct candidate *candidate = &list->items[list->count++];
    *candidate = (struct candidate){.hop = hop,
                                    .fft = layout->fft,
                                    .partitions = layout->partitions,
                                    .items = items,
                                    .vector = vector,
                                    .rows = rows,
                                    .spilled_bytes = SPILL_UNKNOWN};
    snprintf(candidate->variant, sizeof candidate->variant, "%s", variant);
}

/* The same with the other numbers of rows a group that the variant can do. */
static void add_rows(const struct engine *engine, const struct plan_spec *spec,
                     const struct variant *variant, const struct layout *like, struct list *list)
{
    struct plan_spec other = *spec;
    for (other.rows = 1; other.rows <= ROWS_MOST; other.rows++) {
        struct layout layout;
        struct problem ignored;
        if (like->rows != 0 && other.rows != like->rows &&
            layout_make(&engine->device, &other, variant, true, &layout, &ignored) == 0 &&
            layout.rows == other.rows)
            add(list, variant->name, &layout, spec->hop, 0, layout.vector, layout.rows);
    }
}

/* A variant with one block: the shortest N that will do and a few longer ones. With each the
 * numbers of rows a group, where the variant has a choice; at the shortest also other sizes of
 * work-groups, where the device has them, and of vectors, where the variant has. */
static void add_variant(const struct engine *engine, const struct plan_spec *spec,
                        const struct variant *variant, struct list *list)
{
    static const uint32_t sizes[] = {64, 256}, vectors[] = {16, 8, 4};
    struct plan_spec sized = *spec;
    uint32_t found = 0;
    sized.variant = variant->name;
    for (uint32_t fft = FFT_MIN; fft <= FFT_MAX && found <= FFT_DOUBLINGS; fft *= 2) {
        struct layout layout;
        struct problem ignored;
        if (spec->fft != 0 && fft != spec->fft)
            continue;
        sized.fft = fft;
        if (layout_make(&engine->device, &sized, variant, true, &layout, &ignored) < 0)
            continue;
        /* Partitions: from many of few points to one of many, but not beyond. */
        const bool last = layout.partitions == 1;
        if (layout.partitions > 1 && fft < 4 * spec->hop && fft * 16 < layout.taps_longest)
            continue;
        add(list, variant->name, &layout, spec->hop, 0, layout.vector, layout.rows);
        add_rows(engine, &sized, variant, &layout, list);
        for (size_t i = 0; found == 0 && variant->vectors && i < 3; i++)
            if (vectors[i] != layout.vector)
                add(list, variant->name, &layout, spec->hop, 0, vectors[i], 0);
        for (size_t i = 0;
             found == 0 && engine->device.traits.items > 1 && i < sizeof sizes / sizeof sizes[0];
             i++)
            add(list, variant->name, &layout, spec->hop, sizes[i], 0, 0);
        found += last ? 2 : 1;
    }
}

static void add_block(const struct engine *engine, const struct plan_spec *spec, struct list *list)
{
    const struct variant *variant;
    for (int i = 0; (variant = variant_at(i)) != NULL; i++)
        if (spec->variant == NULL || strcmp(spec->variant, variant->name) == 0)
            add_variant(engine, spec, variant, list);
}

static void add_all(const struct engine *engine, const struct plan_spec *spec, struct list *list)
{
    if (!spec->hop_free) {
        add_block(engine, spec, list);
        return;
    }
    const double most = (double)spec->latency_ns * spec->rate_hz / 1e9;
    uint32_t hop = HOP_MAX;
    while (hop > HOP_MIN && hop >= most)
        hop /= 2;
    for (int i = 0; i < HOPS && hop >= HOP_MIN; i++, hop /= 2) {
        struct plan_spec block = *spec;
        block.hop = hop;
        add_block(engine, &block, list);
    }
}

/* ---- times -------------------------------------------------------------------------------------
 */

static int compare_times(const void *a, const void *b)
{
    const int64_t x = *(const int64_t *)a, y = *(const int64_t *)b;
    return (x > y) - (x < y);
}

static double median_us(int64_t *ns, uint32_t count)
{
    const uint32_t middle = count / 2;
    qsort(ns, count, sizeof *ns, compare_times);
    return (double)ns[middle] / 1000;
}

static struct plan_spec candidate_spec(const struct plan_spec *spec,
                                       const struct candidate *candidate)
{
    struct plan_spec own = *spec;
    own.variant = candidate->variant;
    own.hop = candidate->hop;
    own.hop_free = false;
    own.fft = candidate->fft;
    own.items = candidate->items;
    own.vector = candidate->vector;
    own.rows = candidate->rows;
    return own;
}

static double period_us(const struct plan_spec *spec, const struct candidate *candidate)
{
    return spec->rate_hz > 0 ? candidate->hop / spec->rate_hz * 1e6 : INFINITY;
}

/* What it may not be chosen for, as `reason`; true: nothing. */
static bool suits(const struct plan_spec *spec, struct candidate *candidate)
{
    const double period = period_us(spec, candidate);
    candidate->reason[0] = '\0';
    if (!candidate->measured)
        return false;
    if (candidate->each_us > period / 2)
        snprintf(candidate->reason, sizeof candidate->reason,
                 "a block takes %.0f us, more than half of the %.0f us it lasts",
                 candidate->each_us, period);
    else if (spec->latency_ns > 0 && period + candidate->one_us > (double)spec->latency_ns / 1000)
        snprintf(candidate->reason, sizeof candidate->reason,
                 "a block lasts %.0f us and takes %.0f us, more than the %.0f us of `latency`",
                 period, candidate->one_us, (double)spec->latency_ns / 1000);
    return candidate->reason[0] == '\0';
}

/* Per frame; a block alone and one in a full batch weigh the same. */
static double cost(const struct candidate *candidate)
{
    return sqrt(candidate->one_us * candidate->each_us) / candidate->hop;
}

/* What was measured decides, also for kernels that spill registers; of ways that take about as long
 * the one without is taken: its time does not depend on what else is in the cache. */
static double weighed(const struct candidate *candidate)
{
    return cost(candidate) * (spill_harms(candidate->spilled_bytes) ? 1.05 : 1);
}

/* Whether `a` comes before `b`: what suits before what does not, among those the cheaper. */
static bool precedes(const struct plan_spec *spec, struct candidate *a, struct candidate *b)
{
    const bool a_suits = suits(spec, a), b_suits = suits(spec, b);
    return a_suits != b_suits ? a_suits : weighed(a) < weighed(b);
}

static int time_plan(struct engine *engine, struct plan *plan, const struct plan_spec *spec,
                     uint32_t runs, int64_t *one_ns, int64_t *all_ns, struct problem *problem)
{
    int error = plan_time(engine, plan, spec, 1, runs, one_ns, problem);
    return error < 0 ? error
                     : plan_time(engine, plan, spec, plan_blocks_fit(plan), runs, all_ns, problem);
}

static void first_round(struct engine *engine, const struct plan_spec *spec,
                        struct candidate *candidate)
{
    int64_t one_ns[FIRST_RUNS] = {0}, all_ns[FIRST_RUNS] = {0};
    const struct plan_spec own = candidate_spec(spec, candidate);
    struct plan *plan = NULL;
    struct problem problem;
    int error = plan_prepare(engine, &own, &plan, &problem);
    if (error == 0)
        error = time_plan(engine, plan, &own, FIRST_RUNS, one_ns, all_ns, &problem);
    if (error < 0) {
        snprintf(candidate->reason, sizeof candidate->reason, "%.*s",
                 (int)sizeof candidate->reason - 1, problem.text);
    } else {
        candidate->measured = true;
        candidate->one_us = median_us(one_ns, FIRST_RUNS);
        candidate->each_us = median_us(all_ns, FIRST_RUNS) / plan_blocks_fit(plan);
        candidate->error = plan_info(plan)->self_test_error;
        candidate->spilled_bytes = plan_info(plan)->spilled_bytes;
    }
    plan_close(plan);
}

/* ---- the second round ---------------------------------------------------------------------------
 */

struct finalist {
    struct candidate *candidate;
    struct plan_spec spec;
    struct plan *plan;
    int64_t one_ns[RUNS_MAX], all_ns[RUNS_MAX];
};

/* The first of those that suit, at most FINALISTS of them; when none suits, of all the same. */
static uint32_t pick_finalists(const struct plan_spec *spec, struct list *list,
                               struct candidate *picked[FINALISTS])
{
    uint32_t count = 0;
    bool any = false;
    for (uint32_t i = 0; i < list->count; i++)
        any = suits(spec, &list->items[i]) || any;
    for (uint32_t i = 0; i < list->count; i++) {
        struct candidate *candidate = &list->items[i];
        if (!candidate->measured || (any && candidate->reason[0] != '\0'))
            continue;
        uint32_t place = count < FINALISTS ? count++ : FINALISTS;
        if (place == FINALISTS && !precedes(spec, candidate, picked[FINALISTS - 1]))
            continue;
        if (place == FINALISTS)
            place = FINALISTS - 1;
        for (; place > 0 && precedes(spec, candidate, picked[place - 1]); place--)
            picked[place] = picked[place - 1];
        picked[place] = candidate;
    }
    return count;
}

static int second_round(struct engine *engine, const struct plan_spec *spec,
                        struct finalist *finalists, uint32_t count, struct problem *problem)
{
    int error = 0;
    for (uint32_t f = 0; f < count && error == 0; f++) {
        finalists[f].spec = candidate_spec(spec, finalists[f].candidate);
        error = plan_prepare(engine, &finalists[f].spec, &finalists[f].plan, problem);
    }
    for (uint32_t turn = 0; turn < TURNS && error == 0; turn++)
        for (uint32_t f = 0; f < count && error == 0; f++)
            error = time_plan(engine, finalists[f].plan, &finalists[f].spec, TURN_RUNS,
                              finalists[f].one_ns + turn * TURN_RUNS,
                              finalists[f].all_ns + turn * TURN_RUNS, problem);
    for (uint32_t f = 0; f < count; f++) {
        struct finalist *finalist = &finalists[f];
        if (error == 0) {
            finalist->candidate->one_us = median_us(finalist->one_ns, RUNS_MAX);
            finalist->candidate->each_us =
                median_us(finalist->all_ns, RUNS_MAX) / plan_blocks_fit(finalist->plan);
        }
        plan_close(finalist->plan);
    }
    return error;
}

static int choose(struct engine *engine, const struct plan_spec *spec, struct list *list,
                  uint32_t *chosen, struct problem *problem)
{
    struct candidate *picked[FINALISTS] = {NULL};
    const uint32_t count = pick_finalists(spec, list, picked);
    if (count == 0)
        return problem_set(problem, ERROR_UNSUPPORTED, "nothing can compute this plan: %s",
                           list->count > 0 ? list->items[0].reason : "no variant takes its shape");
    struct finalist *finalists = calloc(count, sizeof *finalists);
    if (finalists == NULL)
        return problem_set(problem, ERROR_MEMORY, "out of memory for a measurement");
    for (uint32_t f = 0; f < count; f++)
        finalists[f].candidate = picked[f];
    int error = second_round(engine, spec, finalists, count, problem);
    free(finalists);
    struct candidate *best = picked[0];
    for (uint32_t f = 1; f < count; f++)
        if (precedes(spec, picked[f], best))
            best = picked[f];
    *chosen = (uint32_t)(best - list->items);
    return error;
}

/* Says of the others how they compare. */
static void give_reasons(struct list *list, uint32_t chosen)
{
    const struct candidate *best = &list->items[chosen];
    for (uint32_t i = 0; i < list->count; i++) {
        struct candidate *candidate = &list->items[i];
        const bool spills = spill_harms(candidate->spilled_bytes) && cost(candidate) < cost(best);
        if (i != chosen && candidate->measured && candidate->reason[0] == '\0')
            snprintf(candidate->reason, sizeof candidate->reason, "%s%.2f times the time per frame",
                     spills ? "its registers do not suffice; " : "", cost(candidate) / cost(best));
    }
}

/* ---- verbs -------------------------------------------------------------------------------------
 */

int plan_tune(struct engine *engine, const struct plan_spec *spec, tune_progress *progress,
              void *context, const struct wisdom_entry **out, struct problem *problem)
{
    *out = NULL;
    struct list *list = calloc(1, sizeof *list);
    if (list == NULL)
        return problem_set(problem, ERROR_MEMORY, "out of memory for a measurement");
    add_all(engine, spec, list);
    for (uint32_t i = 0; i < list->count; i++) {
        if (progress != NULL)
            progress(context, i, list->count + 1, &list->items[i]);
        first_round(engine, spec, &list->items[i]);
    }
    if (progress != NULL && list->count > 0)
        progress(context, list->count, list->count + 1, &list->items[list->count - 1]);
    uint32_t chosen = 0;
    int error = choose(engine, spec, list, &chosen, problem);
    if (error == 0) {
        char shape[WISDOM_SHAPE];
        give_reasons(list, chosen);
        plan_shape(spec, shape);
        pthread_mutex_lock(&engine->planner.workers);
        error =
            wisdom_put(engine->planner.wisdom, shape, list->items, list->count, chosen, problem);
        *out = wisdom_find(engine->planner.wisdom, shape);
        pthread_mutex_unlock(&engine->planner.workers);
    }
    free(list);
    return error;
}

const struct wisdom_entry *plan_wisdom(struct engine *engine, const struct plan_spec *spec)
{
    char shape[WISDOM_SHAPE];
    plan_shape(spec, shape);
    pthread_mutex_lock(&engine->planner.workers);
    const struct wisdom_entry *entry = wisdom_find(engine->planner.wisdom, shape);
    pthread_mutex_unlock(&engine->planner.workers);
    return entry;
}

const char *plan_way(char text[PLAN_WAY], const char *variant, uint32_t items, uint32_t vector,
                     uint32_t rows)
{
    const uint32_t size = items != 0 ? items : vector;
    if (rows > 1)
        snprintf(text, PLAN_WAY, "%s/%ux%u", variant, size, rows);
    else if (size != 0)
        snprintf(text, PLAN_WAY, "%s/%u", variant, size);
    else
        snprintf(text, PLAN_WAY, "%s", variant);
    return text;
}

uint32_t plan_explain(struct engine *engine, const struct plan_spec *spec,
                      struct candidate *candidates, uint32_t capacity)
{
    const struct variant *variant;
    uint32_t count = 0;
    for (int i = 0; (variant = variant_at(i)) != NULL; i++) {
        if (count++ >= capacity)
            continue;
        struct candidate *candidate = &candidates[count - 1];
        struct layout layout;
        struct problem problem;
        *candidate = (struct candidate){.hop = spec->hop, .spilled_bytes = SPILL_UNKNOWN};
        snprintf(candidate->variant, sizeof candidate->variant, "%s", variant->name);
        if (layout_make(&engine->device, spec, variant, false, &layout, &problem) < 0) {
            snprintf(candidate->reason, sizeof candidate->reason, "%.*s",
                     (int)sizeof candidate->reason - 1, problem.text);
        } else {
            candidate->fft = layout.fft;
            candidate->partitions = layout.partitions;
            candidate->vector = layout.vector;
            candidate->rows = layout.rows;
        }
    }
    return count;
}
