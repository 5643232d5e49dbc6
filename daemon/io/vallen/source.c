/*
 * Source `tradb`: plays the transients of a .tradb into a stream, in real time or as fast as the
 * stream has room. Records without a gap between them are one epoch, others records of their own;
 * each begins at its time in the file. The codes arrive as they are stored, with the file's scale,
 * so an analysis of the replay sees what the analysis saw that wrote them.
 *
 * The producer thread of io/replay.h reads; checks and reports read the file's index.
 */
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "core/log.h"
#include "io/replay.h"
#include "io/rows.h"
#include "io/source.h"
#include "io/sources.h"
#include "io/vallen/tradb.h"
#include "io/vallen/vallen.h"

/* ---- playing (producer thread) ------------------------------------------------------------ */

struct player {
    struct tradb *tradb;
    struct tradb_part part;
    const char *stream, *path;
    struct log_limit damaged;
};

static const int64_t complaint_ns = INT64_C(10000000000);

static uint32_t player_fill(void *context, uint8_t *payload, uint32_t frames)
{
    struct player *p = context;
    const uint32_t count = tradb_read(p->tradb, payload, frames, &p->part);
    if (p->part.invalid_from < p->part.invalid_until)
        log_limited(&p->damaged, complaint_ns, LOG_LEVEL_ERROR,
                    "stream %s: %s holds damaged records, whose frames are invalid; the last at "
                    "frame %" PRIu64,
                    p->stream, p->path, p->part.invalid_from);
    return count;
}

static void player_place(void *context, struct replay_place *place)
{
    const struct tradb_part *part = &((const struct player *)context)->part;
    *place = (struct replay_place){
        .first_frame = part->first_frame,
        .begins = part->begins,
        .ends = part->ends,
        .capture_ns = part->capture_ns,
        .clock = part->clock,
        .clock_error_ns = part->clock_error_ns,
        .invalid_from = part->invalid_from,
        .invalid_until = part->invalid_until,
    };
}

static void player_release(void *context)
{
    struct player *p = context;
    tradb_close(p->tradb);
    free(p);
}

static int tradb_source_open(const struct source_options *options,
                             const struct io_environment *environment,
                             const struct source_host *host, struct source **out,
                             struct problem *problem)
{
    const struct tradb_options *own = options->own;
    struct player *p = calloc(1, sizeof *p);
    if (p == NULL)
        return problem_set(problem, ERROR_MEMORY, "stream %s: out of memory", options->stream);
    p->stream = options->stream;
    p->path = own->path;
    struct tradb_facts facts = {0};
    int status = tradb_open(own->path, own->channel, &p->tradb, problem);
    if (status == 0)
        tradb_facts(p->tradb, &facts);
    if (status == 0 && (facts.channels != options->channels ||
                        facts.format.bytes * facts.channels != options->frame_bytes))
        status = problem_set(problem, ERROR_CONFIG,
                             "%s has changed since the configuration was read; reload", own->path);
    if (status != 0) {
        player_release(p);
        return problem_prefix(problem, status, "stream %s", options->stream);
    }
    const struct replay_spec replay = {
        .stream = options->stream,
        .rate_hz = options->rate_hz,
        .frame_bytes = options->frame_bytes,
        .paced = options->paced,
        .all_frames = facts.frames,
        .chunk_frames = replay_chunk_frames(options->frame_bytes),
        .fill = player_fill,
        .short_chunks = true,
        .place = player_place,
        .release = player_release,
        .context = p,
    };
    return replay_open(&replay, environment, host, out, problem);
}

/* ---- checks and reports ------------------------------------------------------------------- */

static const struct option_row rows[] = {
    SOURCE_ROW_PATH(struct tradb_options, path),
    {.key = "file channel",
     .type = OPTION_COUNT,
     .minimum = 1,
     .maximum = 1024,
     .fallback_words = "all, each under its number",
     OPTION_FIELD(struct tradb_options, channel),
     .sentence =
         "The only channel of the file to play, as channel 1. Played alone, its records are "
         "epochs of their own, whatever others did meanwhile."},
    SOURCE_ROW_PACE,
};

/* The file's index for a moment; false: it cannot be read any more. */
static bool look(const struct source_options *options, struct tradb **tradb)
{
    const struct tradb_options *own = options->own;
    struct problem problem;
    return tradb_open(own->path, own->channel, tradb, &problem) == 0;
}

static int tradb_probe(const struct source_options *options, struct source_facts *facts,
                       struct problem *problem)
{
    const struct tradb_options *own = options->own;
    struct tradb *tradb;
    struct tradb_facts index;
    const int status = tradb_open(own->path, own->channel, &tradb, problem);
    if (status != 0)
        return status;
    tradb_facts(tradb, &index);
    *facts = (struct source_facts){
        .rate_hz = index.rate_hz,
        .channels = index.channels,
        .format = index.format,
        .frames = index.frames,
        .scales = calloc(index.channels, sizeof *facts->scales),
    };
    if (facts->scales != NULL)
        tradb_scales(tradb, facts->scales);
    tradb_close(tradb);
    return facts->scales != NULL ? 0 : problem_set(problem, ERROR_MEMORY, "out of memory");
}

static int tradb_check(const struct option_check *check, const struct daemon_facts *facts,
                       struct source_options *options)
{
    (void)facts;
    struct tradb *tradb;
    struct tradb_facts index;
    options->mode = MODE_RECORD;
    if (!look(options, &tradb))
        return 0;
    tradb_facts(tradb, &index);
    tradb_close(tradb);
    if (options->rate_hz != index.rate_hz)
        option_error(check, "rate", "the file says %.15g Hz; remove `rate`", index.rate_hz);
    if (index.left_out > 0)
        option_warning(check, "path",
                       "%" PRIu64 " records of the file are left out: damaged, of an unknown kind, "
                       "or wholly under others",
                       index.left_out);
    if (index.disorder > 0)
        option_warning(check, "path",
                       "%" PRIu64 " records of the file are older than the one before; they are "
                       "played in the order of their times",
                       index.disorder);
    return 0;
}

static const char *tradb_describe(const struct source_options *options, char *text, size_t bytes)
{
    const struct tradb_options *own = options->own;
    snprintf(text, bytes, " %s", own->path);
    return text;
}

static void tradb_report(const struct source_options *options, FILE *out)
{
    struct tradb *tradb;
    struct tradb_facts index;
    if (!look(options, &tradb))
        return;
    tradb_facts(tradb, &index);
    tradb_close(tradb);
    fprintf(out, "  records          %" PRIu64 " in %" PRIu64 " epochs, %" PRIu64 " frames; %s\n",
            index.records, index.epochs, index.frames,
            index.dated ? "dated by the .pridb beside it" : "no .pridb says when they began");
    const double cells = (double)index.frames * index.channels;
    if ((double)index.samples < cells)
        fprintf(out, "%19s%.1f %% of the samples belong to no record of their channel and read 0\n",
                "", 100 * (1 - (double)index.samples / cells));
}

static void tradb_report_settling(const struct source_options *options, uint64_t settling,
                                  FILE *out)
{
    struct tradb *tradb;
    struct tradb_facts index;
    if (settling == 0 || !look(options, &tradb))
        return;
    tradb_facts(tradb, &index);
    const uint64_t dead = tradb_settling(tradb, settling);
    tradb_close(tradb);
    fprintf(out,
            "  settling         the first %" PRIu64 " frames of each of %" PRIu64
            " epochs are dead: %.3g %% of all;\n"
            "%19sstored transients are filtered already: a filter of type identity has none\n",
            settling, index.epochs, 100.0 * (double)dead / (double)index.frames, "");
}

static uint64_t tradb_memory(const struct source_options *options)
{
    struct tradb *tradb;
    struct tradb_facts index = {0};
    if (look(options, &tradb)) {
        tradb_facts(tradb, &index);
        tradb_close(tradb);
    }
    return replay_memory(options->frame_bytes) + index.memory_bytes;
}

const struct source_ops source_tradb = {
    .name = "tradb",
    .sentence = "transients of Vallen's .tradb",
    .loss = REPLAY_LOSS,
    .options = rows,
    .option_count = sizeof rows / sizeof rows[0],
    .options_bytes = sizeof(struct tradb_options),
    .probe = tradb_probe,
    .check = tradb_check,
    .describe = tradb_describe,
    .report = tradb_report,
    .report_settling = tradb_report_settling,
    .memory = tradb_memory,
    .live = false,
    .loss_detectable = true,
    .open = tradb_source_open,
    .arm = replay_arm,
    .start = replay_start,
    .resume = replay_resume,
    .stop = replay_stop,
    .close = replay_close,
    .ledger = replay_ledger,
    .port = replay_port,
    .progress = replay_progress,
    .working = replay_working,
};
