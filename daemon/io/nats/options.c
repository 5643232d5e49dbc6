/* Options of the sink `nats`: see options.h. */
#include "io/nats/options.h"

#include <string.h>

#include "core/quantity.h"
#include "io/nats/link.h"
#include "io/nats/pieces.h"
#include "io/rows.h"
#include "io/sinks.h"
#include "io/sources.h"

enum { ELECTION_S = 15 };

static const struct option_choice storages[] = {{"file", true}, {"memory", false}, {NULL, 0}};

const struct option_row nats_sink_rows[NATS_SINK_ROWS] = {
    {.key = "partition",
     .type = OPTION_NAME,
     .required = true,
     OPTION_FIELD(struct nats_sink_options, partition),
     .sentence = "The partition of the cluster whose log is appended to."},
    SINK_ROW_RECORD(struct nats_sink_options, input),
    {.key = "message",
     .type = OPTION_MEMORY,
     .minimum = 4096,
     .maximum = 1 << 20,
     .fallback = "64 KiB",
     OPTION_FIELD(struct nats_sink_options, message_bytes),
     .sentence = "The most samples of one record [bytes]; larger ones cost less and wait longer."},
    {.key = "spool",
     .type = OPTION_ROTATION,
     .fallback = "30 s",
     OPTION_FIELD(struct nats_sink_options, spool),
     .sentence = "With record = input: how much of the input, or how many bytes of it, is kept in "
                 "memory for a log that cannot be reached or goes back, or that another gateway "
                 "appends so far; what does not fit is a declared gap. At least 15 s with 3 "
                 "replicas, which elect a leader for up to 9 s."},
    {.key = "storage",
     .type = OPTION_CHOICE,
     .fallback = "file",
     .choices = storages,
     OPTION_FIELD(struct nats_sink_options, file),
     .sentence = "Where the servers keep the log, where the sink has to make it: file, or memory, "
                 "which is twice as fast and gone with the server."},
    {.key = "replicas",
     .type = OPTION_COUNT,
     .minimum = 1,
     .maximum = 5,
     .fallback = "1",
     OPTION_FIELD(struct nats_sink_options, replicas),
     .sentence = "On how many servers, likewise: with 3 of them one may die."},
    {.key = "window",
     .type = OPTION_TIME,
     .minimum = 1,
     .maximum = 1e6,
     .fallback = "600 s",
     OPTION_FIELD(struct nats_sink_options, window_ns),
     .sentence = "How long the log keeps a record, likewise: a reader that is later has lost it."},
};

static double input_bytes_per_second(const struct sink_options *options)
{
    const struct sink_stream *stream = &options->stream;
    return stream->input_rate_hz * stream->input_channels * stream->input_format.bytes;
}

/* Input that is kept [bytes]; 0: results. */
static uint64_t spool_bytes(const struct sink_options *options)
{
    const struct nats_sink_options *own = options->own;
    const struct option_value *spool = own->spool;
    if (!own->input)
        return 0;
    return (uint64_t)(spool->dimension == DIMENSION_TIME
                          ? spool->number * input_bytes_per_second(options)
                          : spool->number);
}

/* Bytes of samples that a piece takes. */
static uint64_t piece_bytes(const struct sink_options *options)
{
    const struct nats_sink_options *own = options->own;
    const struct sink_stream *stream = &options->stream;
    const uint64_t frame = own->input
                               ? (uint64_t)stream->input_channels * stream->input_format.bytes
                               : (uint64_t)stream->channels * options->format.bytes;
    return frame > 0 && own->message_bytes > frame ? own->message_bytes / frame * frame
                                                   : own->message_bytes;
}

uint32_t nats_sink_pieces(const struct sink_options *options)
{
    /* A stream that waits puts whole blocks. One piece grows while the others are kept. */
    const struct nats_sink_options *own = options->own;
    const uint64_t blocks = 2 * options->block_bytes / own->message_bytes + 2,
                   spool =
                       (spool_bytes(options) + piece_bytes(options) - 1) / piece_bytes(options) + 1,
                   least = blocks > NATS_PIECES_MIN ? blocks : NATS_PIECES_MIN,
                   count = spool > least ? spool : least;
    return count < UINT32_MAX ? (uint32_t)count : UINT32_MAX;
}

/* Three servers stand still for so long while they elect a leader, and the way to it once more. */
static void check_spool(const struct option_check *check, const struct sink_options *options)
{
    const struct nats_sink_options *own = options->own;
    const double rate = input_bytes_per_second(options);
    if (!own->input || own->replicas < 3 || own->spool == NULL || !(rate > 0))
        return;
    const double seconds = (double)spool_bytes(options) / rate;
    if (seconds < ELECTION_S)
        option_error(check, "spool",
                     "the spool holds %.3g s of the input; with %u replicas the log stands still "
                     "for up to 9 s when a server dies: write at least spool = %d s",
                     seconds, own->replicas, ELECTION_S);
}

void nats_sink_check(const struct option_check *check, const struct daemon_facts *facts,
                     const struct stream_facts *stream, struct sink_options *options)
{
    const struct nats_sink_options *own = options->own;
    (void)facts;
    (void)stream;
    options->raw = own->input;
    if (options->raw)
        options->format = options->stream.input_format;
    else if (options->format.kind != SAMPLE_FLOAT || options->format.big_endian)
        option_error(
            check, "format",
            "a log holds results as they are computed; write format = f32 or leave it out");
    if (own->partition != NULL && !nats_name_valid(own->partition))
        option_error(check, "partition",
                     "`partition = %s` is part of a subject; write letters, digits, _ and - only",
                     own->partition);
    check_spool(check, options);
}

void nats_partition_check_all(const struct driver_sections *all, uint32_t self)
{
    const struct source_section *source = &all->sources[self];
    bool logged = false;
    for (uint32_t i = 0; i < all->source_count; i++)
        if (all->sources[i].facts.upstream != NULL && source->facts.name != NULL &&
            strcmp(all->sources[i].facts.upstream, source->facts.name) == 0)
            option_error(&all->sources[i].check, "source",
                         "stream %s computes a partition: its results go to the log alone",
                         source->facts.name);
    const char *partition = NULL;
    for (uint32_t i = 0; i < all->sink_count; i++) {
        const struct sink_section *sink = &all->sinks[i];
        const struct nats_sink_options *own = sink->options->own;
        logged = logged || (sink->stream == source && sink->driver == &sink_nats);
        if (sink->stream == source && sink->driver == &sink_nats && own != NULL)
            partition = own->partition;
    }
    for (uint32_t i = 0; i < all->sink_count; i++) {
        const struct sink_section *sink = &all->sinks[i];
        if (sink->stream != source || sink->driver == NULL || sink->driver == &sink_nats)
            continue;
        sink->options->partition = partition;
        if (!sink->driver->numbered || sink->options->raw)
            option_error(&sink->check, "type",
                         "stream %s computes a partition, of which frames may come twice: beside "
                         "the sink of type nats it takes sinks of results of type rtp, recording "
                         "and osc alone; others take them from the log",
                         source->facts.name);
    }
    if (!logged && !source->broken)
        option_error(&source->check, "source",
                     "nobody appends what it computes; add a sink of type nats");
}

/* Results of a partition come from its input; a gateway's from anything else. */
void nats_sink_check_all(const struct driver_sections *all, uint32_t self)
{
    const struct sink_section *sink = &all->sinks[self];
    const struct nats_sink_options *own = sink->options->own;
    if (sink->broken || sink->stream == NULL)
        return;
    const bool reads = sink->stream->driver == &source_nats,
               worker = reads || sink->stream->driver == &source_standby;
    if (!own->input && !worker)
        option_error(&sink->check, "record",
                     "the results of a stream without `source = nats` or `standby` belong to no "
                     "partition; write record = input, or send them elsewhere");
    const struct nats_source_options *source = reads ? sink->stream->options->own : NULL;
    if (!own->input && reads && !sink->stream->broken &&
        strcmp(source->partition, own->partition) != 0)
        option_error(&sink->check, "partition",
                     "the stream reads partition %s; its results belong to the same one",
                     source->partition);
    if (own->input && worker)
        option_error(&sink->check, "record",
                     "the stream reads the input of a partition already; write record = output");
}

void nats_sink_report(const struct sink_options *options, double bytes_per_second, FILE *out)
{
    const struct nats_sink_options *own = options->own;
    fprintf(out, "%s of partition %s, %llu KiB a record", own->input ? "RAW" : "LOG",
            own->partition, (unsigned long long)(own->message_bytes >> 10));
    const double rate = input_bytes_per_second(options);
    const uint64_t kept = (uint64_t)(nats_sink_pieces(options) - 1) * piece_bytes(options);
    char time[32], bytes[32];
    if (own->input && rate > 0)
        fprintf(out, "; the spool reaches back %s (%s)",
                quantity_print(DIMENSION_TIME, (double)kept / rate, time, sizeof time),
                quantity_print(DIMENSION_MEMORY, (double)kept, bytes, sizeof bytes));
    putc('\n', out);
    sink_report_bytes(bytes_per_second, "", out);
}

uint64_t nats_sink_memory(const struct sink_options *options)
{
    return NATS_QUEUE_BYTES +
           nats_sink_pieces(options) * (piece_bytes(options) + sizeof(struct piece));
}
