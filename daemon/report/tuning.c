/* The tuning report: see tuning.h. */
#include "report/tuning.h"

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "convolve/check/prepare.h"
#include "convolve/check/tune.h"
#include "device/spill.h"
#include "pipeline/device_options.h"
#include "pipeline/devices.h"
#include "pipeline/stream_filters.h"

enum { VARIANTS_MAX = 64, BAR = 30 };

/* One stream on one device, and where to report on it. */
struct subject {
    struct engine *engine;
    const struct config_stream *stream;
    const struct tuning_options *options;
    const struct plan_spec *spec;
    FILE *out;
};

/* ---- printing --------------------------------------------------------------------------- */

static const char *candidate_name(char text[PLAN_WAY], const struct candidate *candidate)
{
    return plan_way(text, candidate->variant, candidate->items, candidate->vector, candidate->rows);
}

static void print_way(FILE *out, const struct candidate *candidate, bool block)
{
    char variant[PLAN_WAY];
    candidate_name(variant, candidate);
    fprintf(out, "    %-22s", variant);
    if (block)
        fprintf(out, " block %6u", candidate->hop);
    if (candidate->fft != 0)
        fprintf(out, "  N %7u  partitions %5u", candidate->fft, candidate->partitions);
}

static int by_rank(const void *a, const void *b)
{
    const struct candidate *x = *(const struct candidate *const *)a;
    const struct candidate *y = *(const struct candidate *const *)b;
    if (x->measured != y->measured)
        return x->measured ? -1 : 1;
    if (!x->measured)
        return 0;
    const double left = x->one_us * x->each_us / ((double)x->hop * x->hop);
    const double right = y->one_us * y->each_us / ((double)y->hop * y->hop);
    return (left > right) - (left < right);
}

/* Prints what was measured: the chosen way first, then the others from fast to slow. */
static void print_measured(const struct subject *subject, const struct wisdom_entry *entry)
{
    FILE *out = subject->out;
    const struct candidate **order = calloc(entry->count, sizeof *order);
    if (order == NULL)
        return;
    for (uint32_t i = 0; i < entry->count; i++)
        order[i] = &entry->candidates[i];
    qsort(order, entry->count, sizeof *order, by_rank);
    fprintf(out, "  measured %s on %s; a block alone, a block in a full batch, error:\n",
            entry->date, entry->device);
    for (int pass = 0; pass < 2; pass++)
        for (uint32_t i = 0; i < entry->count; i++) {
            const struct candidate *candidate = order[i];
            const bool chosen = candidate == &entry->candidates[entry->chosen];
            if (chosen != (pass == 0))
                continue;
            print_way(out, candidate, subject->spec->hop_free);
            if (candidate->measured)
                fprintf(out, "  %9.1f us  %9.1f us  %.1e", candidate->one_us, candidate->each_us,
                        candidate->error);
            if (candidate->spilled_bytes > 0)
                fprintf(out, "  spills %d bytes", candidate->spilled_bytes);
            fprintf(out, "  %s%s%s\n", chosen ? "CHOSEN" : "",
                    chosen && candidate->reason[0] != '\0' ? ", though " : "", candidate->reason);
        }
    free(order);
}

static void print_rule(const struct subject *subject)
{
    struct candidate ways[VARIANTS_MAX];
    const uint32_t count = plan_explain(subject->engine, subject->spec, ways, VARIANTS_MAX);
    bool found = false;
    fprintf(subject->out, "  by rule, the first of the table that suits:\n");
    for (uint32_t i = 0; i < count && i < VARIANTS_MAX; i++) {
        const bool suits = ways[i].reason[0] == '\0';
        print_way(subject->out, &ways[i], false);
        fprintf(subject->out, "  %s\n",
                !suits  ? ways[i].reason
                : found ? "a row before it suits"
                        : "CHOSEN");
        found = found || suits;
    }
}

/* ---- a stream at a time ----------------------------------------------------------------- */

static int explain_stream(struct subject *subject, struct problem *problem)
{
    struct plan *plan = NULL;
    int error = plan_prepare(subject->engine, subject->spec, &plan, problem);
    if (error < 0)
        return error;
    const struct plan_info *info = plan_info(plan);
    char variant[PLAN_WAY];
    static const char *const choices[] = {
        [PLAN_BY_RULE] = "by rule: nothing was measured for it (convolvd --tune does)",
        [PLAN_BY_NAME] = "because `variant` or `fft` asks for it",
        [PLAN_BY_WISDOM] = "by measurement",
    };
    fprintf(
        subject->out,
        "stream %s: %s, blocks of %u frames, N = %u, %u partition%s, %s\n"
        "  %u channels in, %u out, %u taps; a block about %.1f us, error %.1e in the self-test\n",
        subject->stream->name, plan_way(variant, info->variant, 0, info->vector, info->rows),
        info->hop, info->fft, info->partitions, info->partitions == 1 ? "" : "s",
        choices[info->choice], info->inputs, info->outputs, info->taps_longest,
        (double)plan_cost_ns(plan, 1) / 1000, info->self_test_error);
    if (info->spilled_bytes > 0)
        fprintf(subject->out, "  %d bytes of a work-item's registers spill to memory%s\n",
                info->spilled_bytes,
                spill_harms(info->spilled_bytes) ? ": it is slower than it could be" : "");
    const struct wisdom_entry *entry = plan_wisdom(subject->engine, subject->spec);
    if (info->choice == PLAN_BY_WISDOM && entry != NULL)
        print_measured(subject, entry);
    else if (info->choice == PLAN_BY_RULE)
        print_rule(subject);
    plan_close(plan);
    return 0;
}

static void show_progress(void *context, uint32_t done, uint32_t total,
                          const struct candidate *candidate)
{
    const struct subject *subject = context;
    if (!subject->options->progress || !isatty(STDERR_FILENO))
        return;
    char variant[PLAN_WAY];
    const int filled = (int)((uint64_t)BAR * done / total);
    fprintf(stderr, "\r%-16.16s [%.*s%*s] %3u %%  %-20s N = %-8u", subject->stream->name, filled,
            "##############################", BAR - filled, "",
            (unsigned)(100 * (uint64_t)done / total), candidate_name(variant, candidate),
            candidate->fft);
    fflush(stderr);
}

static int tune_stream(struct subject *subject, struct problem *problem)
{
    const struct wisdom_entry *entry = NULL;
    const bool bar = subject->options->progress && isatty(STDERR_FILENO);
    if (subject->options->progress && !bar)
        fprintf(stderr, "stream %s: measuring\n", subject->stream->name);
    int error = plan_tune(subject->engine, subject->spec, show_progress, subject, &entry, problem);
    if (bar)
        fprintf(stderr, "\r%79s\r", "");
    if (entry != NULL) {
        const struct candidate *chosen = &entry->candidates[entry->chosen];
        char variant[PLAN_WAY];
        fprintf(subject->out, "stream %s: %s, blocks of %u frames, N = %u\n", subject->stream->name,
                candidate_name(variant, chosen), chosen->hop, chosen->fft);
        print_measured(subject, entry);
    }
    return error;
}

/* The devices that may compute a stream, a bit for each in the order of device_list; 0: problem
 * says why there is none. */
static uint32_t devices_of(const struct config *config, uint32_t index, int threads,
                           struct problem *problem)
{
    const struct config_stream *stream = &config->streams[index];
    if (stream->device == NULL && stream->upstream >= 0)
        return devices_of(config, (uint32_t)stream->upstream, threads, problem);
    const char *name = stream->device != NULL ? stream->device : config->device.device;
    if (strcmp(name, DEVICE_ALL) != 0)
        return devices_listed(name, threads, problem);
    const int found = device_list(NULL, 0, threads, problem);
    if (found < 0)
        return 0;
    return found < DEVICES_USED_MAX ? (1u << found) - 1 : (1u << DEVICES_USED_MAX) - 1;
}

static int visit_stream(const struct config *config, struct subject *subject,
                        int (*visit)(struct subject *subject, struct problem *problem),
                        struct problem *problem)
{
    const struct config_stream *stream = subject->stream;
    struct stream_filters filters;
    int error = stream_filters_make(config, stream, NULL, &filters, problem);
    if (error < 0)
        return error;
    const struct plan_spec spec = stream_plan_spec(stream, &filters, subject->options->variant);
    subject->spec = &spec;
    error = visit(subject, problem);
    if (error < 0)
        problem_prefix(problem, error, "%s:%u: stream %s", stream->place.file, stream->place.line,
                       stream->name);
    subject->spec = NULL;
    stream_filters_free(&filters);
    return error;
}

/* Visits every stream on every device that may compute it. */
static int each_stream(const struct config *config, const struct tuning_options *options, FILE *out,
                       int (*visit)(struct subject *subject, struct problem *problem),
                       struct problem *problem)
{
    struct engine_options engine_options = device_options(config, options->kernels_dir);
    uint32_t devices = 0;
    for (uint32_t i = 0; i < config->stream_count; i++) {
        const uint32_t bits = devices_of(config, i, engine_options.cpu_threads, problem);
        if (bits == 0)
            return ERROR_NO_DEVICE;
        devices |= bits;
    }
    int error = 0;
    for (int index = 0; index < DEVICES_USED_MAX && error == 0; index++) {
        struct engine *engine = NULL;
        char number[16];
        if ((devices & 1u << index) == 0)
            continue;
        snprintf(number, sizeof number, "%d", index);
        engine_options.device = number;
        error = engine_open(&engine_options, &engine, problem);
        if (error == 0 && (devices & (devices - 1)) != 0)
            fprintf(out, "device %d: %s\n", index, engine_device(engine)->name);
        for (uint32_t i = 0; i < config->stream_count && error == 0; i++) {
            struct subject subject = {engine, &config->streams[i], options, NULL, out};
            if (devices_of(config, i, engine_options.cpu_threads, problem) & 1u << index)
                error = visit_stream(config, &subject, visit, problem);
        }
        engine_close(engine);
    }
    return error;
}

int tuning_measure(const struct config *config, const struct tuning_options *options, FILE *out,
                   struct problem *problem)
{
    if (config->device.cache_dir == NULL)
        return problem_set(
            problem, ERROR_CONFIG,
            "there is no place to keep what is measured: write `cache = DIRECTORY` into "
            "[device]");
    return each_stream(config, options, out, tune_stream, problem);
}

int tuning_explain(const struct config *config, const struct tuning_options *options, FILE *out,
                   struct problem *problem)
{
    return each_stream(config, options, out, explain_stream, problem);
}
