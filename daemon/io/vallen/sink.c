/*
 * Sink `vallen`: the events of an analysis as .pridb, .tradb and .trfdb, readable while they are
 * written. This file holds its options, their checks, and the order between events and marks; the
 * files are the writer's (writer.h).
 *
 * Marks wait for the event that follows them, because Time must not fall with SetID and hits come
 * late by as much as they may last. At most MARKS_MAX wait, and none longer than MARK_WAIT while
 * events come.
 *
 * Its queue's thread; open and checks on a worker.
 */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "analysis/hit.h"
#include "core/clock.h"
#include "io/event_sink.h"
#include "io/event_sinks.h"
#include "io/rows.h"
#include "io/vallen/names.h"
#include "io/vallen/transient.h"
#include "io/vallen/vallen.h"
#include "io/vallen/writer.h"

enum { MARKS_MAX = 64 };
static const int64_t mark_wait_ns = 60 * NS_PER_SECOND;

struct event_sink {
    struct vallen_writer *writer;
    struct sink_mark marks[MARKS_MAX]; /* by epoch and frame */
    uint32_t mark_count;
};

/* ---- marks ------------------------------------------------------------------------------- */

static bool is_before(const struct sink_mark *mark, uint64_t epoch, uint64_t frame)
{
    return mark->epoch < epoch || (mark->epoch == epoch && mark->frame <= frame);
}

static int write_first_mark(struct event_sink *s, const struct analysis_event *next)
{
    const struct sink_mark mark = s->marks[0];
    memmove(s->marks, s->marks + 1, --s->mark_count * sizeof s->marks[0]);
    return vallen_writer_label(s->writer, &mark, next);
}

static int vallen_mark(struct event_sink *s, const struct sink_mark *mark)
{
    const int status = s->mark_count == MARKS_MAX ? write_first_mark(s, NULL) : 0;
    uint32_t at = s->mark_count++;
    for (; at > 0 && !is_before(&s->marks[at - 1], mark->epoch, mark->frame); at--)
        s->marks[at] = s->marks[at - 1];
    s->marks[at] = *mark;
    return status;
}

static int vallen_put(struct event_sink *s, const struct analysis_event *event)
{
    while (s->mark_count > 0 && is_before(&s->marks[0], event->epoch, event->frame))
        write_first_mark(s, event);
    return vallen_writer_put(s->writer, event);
}

static void vallen_flush(struct event_sink *s)
{
    const int64_t due_ns = clock_realtime_ns() - mark_wait_ns;
    while (s->mark_count > 0 && s->marks[0].realtime_ns < due_ns)
        write_first_mark(s, NULL);
    vallen_writer_commit(s->writer);
}

/* ---- life -------------------------------------------------------------------------------- */

static int vallen_open(const struct event_sink_options *options,
                       const struct io_environment *environment, struct event_sink **out,
                       struct problem *problem)
{
    (void)environment;
    struct event_sink *s = calloc(1, sizeof *s);
    if (s == NULL)
        return problem_set(problem, ERROR_MEMORY, "sink %s: out of memory", options->name);
    const int status = vallen_writer_open(options, &s->writer, problem);
    if (status != 0) {
        free(s);
        return status;
    }
    *out = s;
    return 0;
}

static void vallen_close(struct event_sink *s)
{
    while (s->mark_count > 0)
        write_first_mark(s, NULL);
    vallen_writer_close(s->writer);
    free(s);
}

static void vallen_ledger(const struct event_sink *s, struct event_sink_ledger *ledger)
{
    struct vallen_counts counts;
    vallen_writer_counts(s->writer, &counts);
    ledger->lost += counts.lost;
    ledger->clipped += counts.clipped;
    ledger->bytes += counts.bytes;
    ledger->files += counts.files;
}

static int64_t vallen_flush_ns(const struct event_sink_options *options)
{
    const struct vallen_options *own = options->own;
    return own->flush_ns;
}

/* ---- options ----------------------------------------------------------------------------- */

static const struct option_choice transients[] = {{"raw", VALLEN_TRANSIENTS_RAW},
                                                  {"flac", VALLEN_TRANSIENTS_FLAC},
                                                  {"none", VALLEN_TRANSIENTS_NONE},
                                                  {NULL, 0}};

static const struct option_row rows[] = {
    SINK_ROW_PATH(struct vallen_options, path),
    {.key = "transients",
     .type = OPTION_CHOICE,
     .fallback = "raw",
     .choices = transients,
     OPTION_FIELD(struct vallen_options, transients),
     .sentence = "What becomes of the samples of hits: raw (16-bit codes), flac (the same in half "
                 "the space or less, for ten times the work), none (no .tradb)."},
    {.key = "range",
     .type = OPTION_OWN,
     .parse = level_parse,
     .words = LEVEL_WORDS,
     .fallback_words = "the full scale of the stream's input",
     OPTION_FIELD(struct vallen_options, range),
     .sentence = "The amplitude at the sensor that a 16-bit code can just hold. Larger samples of "
                 "transients are clipped and counted; values of hits are not."},
    SINK_ROW_FLUSH(struct vallen_options, flush_ns),
    {.key = "min free",
     .type = OPTION_MEMORY,
     .maximum = 1125899906842624.0,
     .fallback = "64 MiB",
     OPTION_FIELD(struct vallen_options, min_free_bytes),
     .sentence = SINK_SENTENCE_MIN_FREE},
    EVENT_SINK_ROW_QUEUE,
};

static void check_range(const struct option_check *check, struct event_sink_options *options)
{
    struct vallen_options *own = options->own;
    const struct analysis_stream *stream = &options->analysis_options->stream;
    if (own->range != NULL) {
        static const struct level_scale volts = {.unit = "V"};
        if (level_amplitude(check, "range", own->range, &volts, &own->range_v) &&
            !(own->range_v > 0))
            option_error(check, "range", "`range = %s` holds nothing; write more than 0",
                         own->range->text);
        return;
    }
    for (uint32_t c = 0; c < stream->channels; c++) {
        if (stream->full_scale[c] > 0)
            continue;
        option_error(check, "range",
                     "the full scale of channel %u is not known, since its stream reads another "
                     "stream or floats without a `full scale`; write the largest amplitude at the "
                     "sensor, as range = 100 mV",
                     c + 1);
        return;
    }
}

/* The columns are in volts and whole samples a second. */
static void check_stream(const struct option_check *check, const struct event_sink_options *options)
{
    const struct analysis_stream *stream = &options->analysis_options->stream;
    const double rate_hz = stream->rate_hz;
    for (uint32_t c = 0; c < stream->channels; c++) {
        if (hit_volts(stream->units[c]) > 0)
            continue;
        option_error(check, "type",
                     "`type = vallen` holds volts, and channel %u is in %s; write type = csv or "
                     "jsonl, or analyse a stream whose `unit` is V, mV or uV",
                     c + 1, stream->units[c]);
        break;
    }
    if (rate_hz != nearbyint(rate_hz) || rate_hz < 1 || rate_hz > 4e9)
        option_error(check, "type",
                     "`type = vallen` holds rates in whole Hz, not %.15g Hz; write type = csv or "
                     "jsonl, or choose a `rate` and a `decimate` that give such a rate",
                     rate_hz);
}

static void vallen_check(const struct option_check *check, const struct daemon_facts *facts,
                         struct event_sink_options *options)
{
    (void)facts;
    const struct vallen_options *own = options->own;
    const enum analysis_event_kind kind = options->analysis->emits;
    struct problem problem;
    if (kind != ANALYSIS_HIT && kind != ANALYSIS_INTERVAL) {
        option_error(check, "type",
                     "`type = vallen` holds hits and intervals, and analysis %s gives events of "
                     "the kind %s; write type = csv or jsonl",
                     options->analysis_options->name, analysis_event_word(kind));
        return;
    }
    check_stream(check, options);
    check_range(check, options);
    /* Another user may check the configuration than the one who runs the daemon. */
    const int status = own->path != NULL ? vallen_names_check(own->path, &problem) : 0;
    if (status == ERROR_SYSTEM)
        option_warning(check, "path", "%s", problem.text);
    else if (status != 0)
        option_error(check, "path", "%s", problem.text);
}

static void vallen_report(const struct event_sink_options *options, FILE *out)
{
    static const char *const words[] = {
        [VALLEN_TRANSIENTS_RAW] = "transients raw",
        [VALLEN_TRANSIENTS_FLAC] = "transients as FLAC",
        [VALLEN_TRANSIENTS_NONE] = "no transients",
    };
    const struct vallen_options *own = options->own;
    const struct analysis_stream *stream = &options->analysis_options->stream;
    const bool hits = options->analysis->emits == ANALYSIS_HIT;
    char text[48];
    fprintf(out, "%s%s, %s\n", own->path,
            !hits                                       ? ""
            : own->transients == VALLEN_TRANSIENTS_NONE ? " and .trfdb"
                                                        : ", .tradb and .trfdb",
            hits ? words[own->transients] : "intervals as status sets");
    fprintf(out, "%19stimes in 100 ns; readable up to the last %s\n", "",
            quantity_print(DIMENSION_TIME, (double)own->flush_ns / 1e9, text, sizeof text));
    const double full_scale =
        own->range_v > 0 ? own->range_v : stream->full_scale[0] * hit_volts(stream->units[0]);
    fprintf(out, "%19s16-bit codes of %.4g uV, full scale %.4g V%s\n", "", full_scale / 32768 * 1e6,
            full_scale, own->range_v > 0 || stream->channels == 1 ? "" : " (channel 1)");
}

const struct event_sink_ops event_sink_vallen = {
    .name = "vallen",
    .sentence = "Vallen's .pridb, .tradb and .trfdb, readable while they are written",
    .samples = true,
    .options = rows,
    .option_count = sizeof rows / sizeof rows[0],
    .options_bytes = sizeof(struct vallen_options),
    .check = vallen_check,
    .report = vallen_report,
    .open = vallen_open,
    .put = vallen_put,
    .mark = vallen_mark,
    .flush = vallen_flush,
    .flush_ns = vallen_flush_ns,
    .close = vallen_close,
    .ledger = vallen_ledger,
};
