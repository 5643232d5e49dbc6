/*
 * Source `osc`: takes the blocks that the OSC server receives for one stream.
 *
 *     /convolvd/STREAM/block  [sequence]  [first frame]  samples
 *
 * A block has sequence and first frame (h, two i each, or one i each) or neither; samples are a
 * blob in the stream's format (float32 or int16, big-endian, frame by frame) or, for float32, a
 * list of f. Blocks with numbers get their frame numbers as RTP packets do. Without numbers the
 * source counts frames as they arrive: then a loss cannot be seen, and the ledger says so. The
 * source follows the first form it receives until that sender has been silent for `max dropout`.
 *
 * Opened on a worker, then loop thread. Nothing is allocated or copied per block.
 */
#include <stdlib.h>
#include <string.h>

#include "core/clock.h"
#include "io/net/ingest.h"
#include "core/log.h"
#include "io/osc/hub.h"
#include "wire/osc.h"
#include "io/sources.h"

enum form { COUNTED, NUMBERED, FORMS };

struct osc_source_options {
    struct ingest_options ingest; /* first: ingest.c knows no more */
    const char *server;           /* address of the OSC server */
};

struct source {
    struct source_options options;
    const struct osc_source_options *own;
    struct source_host host;
    uv_loop_t *loop;
    struct ingest *ingest[FORMS];
    enum form form;
    bool heard;   /* some form is followed */
    bool changed; /* the form changed: the next packet begins an epoch */
    int64_t last_ns;
    uint64_t strays; /* blocks of the other form, malformed ones */
    struct log_limit limit, surplus_limit;
    struct osc_hub *hub;
    struct osc_taker taker; /* entered in the hub between start and stop */
    uv_timer_t closer;      /* makes the close asynchronous */
    void (*closed)(void *context);
    void *closed_context;
};

/* ---- reading a block --------------------------------------------------------------------- */

static void keep(void *context, const struct osc_message *message)
{
    *(struct osc_message *)context = *message;
}

/* Bytes of a blob behind its last frame, too few for a sample: no number of channels explains them.
 */
static size_t surplus_of(const struct source_options *options, size_t bytes)
{
    const size_t surplus = bytes % options->frame_bytes;
    return surplus < options->format.bytes ? surplus : 0;
}

/* Reads samples up to the end of the message: one blob, or only f. */
static bool read_samples(const struct source_options *options, struct osc_reader *reader,
                         struct ingest_fields *fields)
{
    const char *rest = reader->message->types + reader->index;
    if (osc_read_blob(reader, &fields->payload, &fields->payload_bytes)) {
        fields->payload_bytes -= surplus_of(options, fields->payload_bytes);
        return osc_peek(reader) == '\0';
    }
    size_t floats = strspn(rest, "f");
    if (floats == 0 || rest[floats] != '\0' || options->format.kind != SAMPLE_FLOAT)
        return false;
    fields->payload = reader->at;
    fields->payload_bytes = 4 * floats;
    return true;
}

static bool read_numbers(struct osc_reader *reader, struct ingest_fields *fields)
{
    double sequence, frame;
    if (strspn(reader->message->types, "i") == 2) {
        if (!osc_read_number(reader, &sequence) || !osc_read_number(reader, &frame))
            return false;
        fields->sequence = (uint64_t)(int64_t)sequence;
        fields->timestamp = (uint64_t)(int64_t)frame;
        return true;
    }
    return osc_read_wide(reader, &fields->sequence) && osc_read_wide(reader, &fields->timestamp);
}

static bool parse(const struct source_options *options, const struct received *received,
                  struct ingest_fields *fields, enum reject *reason, bool numbered)
{
    *reason = REJECT_MALFORMED;
    struct osc_message message = {0};
    if (osc_walk(received->data, received->bytes, NULL, keep, &message) != OSC_OK ||
        message.data == NULL)
        return false;
    struct osc_reader reader = {.message = &message, .at = message.arguments};
    return (!numbered || read_numbers(&reader, fields)) && read_samples(options, &reader, fields);
}

static bool parse_numbered(const struct source_options *options, const struct received *received,
                           struct ingest_fields *fields, enum reject *reason)
{
    return parse(options, received, fields, reason, true);
}

static bool parse_counted(const struct source_options *options, const struct received *received,
                          struct ingest_fields *fields, enum reject *reason)
{
    return parse(options, received, fields, reason, false);
}

static const struct ingest_protocol protocols[FORMS] = {
    [COUNTED] = {.parse = parse_counted},
    [NUMBERED] = {.timestamp_bits = 32, .sequence_bits = 64, .parse = parse_numbered},
};

/* ---- blocks ------------------------------------------------------------------------------ */

static enum verdict put(void *context, const struct packet *packet)
{
    struct source *source = context;
    struct packet copy = *packet;
    if (source->changed)
        copy.flags |= PACKET_DISCONTINUITY;
    source->changed = false;
    return source->host.put(source->host.context, &copy);
}

static enum form form_of(struct source *source, const struct received *received)
{
    struct osc_message message = {.types = ""};
    const uint8_t *blob;
    size_t bytes;
    osc_walk(received->data, received->bytes, NULL, keep, &message);
    struct osc_reader reader = {.message = &message, .at = message.arguments};
    while (osc_peek(&reader) != '\0' && osc_peek(&reader) != 'b')
        osc_skip(&reader);
    if (osc_read_blob(&reader, &blob, &bytes) && surplus_of(&source->options, bytes) > 0) {
        source->hub->stats.counts.tolerated[OSC_TOLERATED_SURPLUS]++;
        log_limited(&source->surplus_limit, 600 * NS_PER_SECOND, LOG_LEVEL_INFO,
                    "stream %s: OSC blobs of %zu bytes hold more than whole samples: the bytes "
                    "behind the last frame are left out (counted as '%s')",
                    source->options.stream, bytes, osc_tolerated_name(OSC_TOLERATED_SURPLUS));
    }
    return message.types[0] == 'b' || message.types[0] == 'f' ? COUNTED : NUMBERED;
}

/* Finds the form of this block; false when the source follows the other form. */
static bool follow(struct source *source, const struct received *received, enum form *form)
{
    *form = form_of(source, received);
    if (source->heard && *form != source->form &&
        received->receive_ns - source->last_ns <= source->own->ingest.max_dropout_ns)
        return false;
    source->changed = source->changed || (source->heard && *form != source->form);
    if (!source->heard && *form == COUNTED)
        log_notice("stream %s: OSC blocks without sequence and first frame: they are counted as "
                   "they come, and a loss cannot be seen",
                   source->options.stream);
    source->heard = true;
    source->form = *form;
    return true;
}

static void take(void *context, const struct received *received)
{
    struct source *source = context;
    enum form form;
    if (!follow(source, received, &form)) {
        source->strays++;
        log_limited(&source->limit, 30 * NS_PER_SECOND, LOG_LEVEL_NOTICE,
                    "stream %s: OSC blocks %s numbers refused: those %s are followed",
                    source->options.stream, form == NUMBERED ? "with" : "without",
                    form == NUMBERED ? "without" : "with");
        return;
    }
    source->last_ns = received->receive_ns;
    ingest_datagram(source->ingest[form], received);
}

/* ---- life -------------------------------------------------------------------------------- */

static void destroy(struct source *source)
{
    for (int form = 0; form < FORMS; form++)
        ingest_close(source->ingest[form]);
    free(source);
}

static int osc_source_open(const struct source_options *options,
                           const struct io_environment *environment, const struct source_host *host,
                           struct source **out, struct problem *problem)
{
    struct source *source = calloc(1, sizeof *source);
    if (source == NULL)
        return problem_set(problem, ERROR_MEMORY, "no memory for a source");
    source->options = *options;
    source->own = options->own;
    source->host = *host;
    source->loop = environment->loop;
    source->hub = environment->osc;
    source->taker = (struct osc_taker){.stream = options->stream, .context = source, .take = take};
    const struct source_host own = {.context = source, .put = put}; /* ingest calls nothing else */
    int error = 0;
    for (int form = 0; form < FORMS && error == 0; form++)
        error = ingest_open(&protocols[form], options, &own, &source->ingest[form], problem);
    if (error != 0) {
        destroy(source);
        return error;
    }
    *out = source;
    return 0;
}

static int osc_source_start(struct source *source, struct problem *problem)
{
    (void)problem;
    osc_hub_add(source->hub, &source->taker);
    return 0;
}

static void osc_source_stop(struct source *source)
{
    osc_hub_remove(source->hub, &source->taker);
    for (int form = 0; form < FORMS; form++)
        ingest_stop(source->ingest[form]);
}

static void on_closed(uv_handle_t *handle)
{
    struct source *source = handle->data;
    source->closed(source->closed_context);
    destroy(source);
}

static void osc_source_close(struct source *source, void (*closed)(void *context), void *context)
{
    osc_source_stop(source);
    source->closed = closed;
    source->closed_context = context;
    uv_timer_init(source->loop, &source->closer);
    source->closer.data = source;
    uv_close((uv_handle_t *)&source->closer, on_closed);
}

static void osc_source_ledger(const struct source *source, struct source_ledger *ledger)
{
    ingest_ledger(source->ingest[NUMBERED], ledger);
    struct source_ledger counted;
    ingest_ledger(source->ingest[COUNTED], &counted);
    ledger->datagrams += counted.datagrams + source->strays;
    ledger->accepted += counted.accepted;
    ledger->held += counted.held;
    ledger->senders += counted.senders;
    for (int i = 0; i < REJECTS; i++)
        ledger->rejected[i] += counted.rejected[i];
    ledger->rejected[REJECT_MALFORMED] += source->strays;
    ledger->loss_detectable = !source->heard || source->form == NUMBERED;
}

static const struct option_row rows[] = {INGEST_ROW_ALLOW, INGEST_ROWS_LIMITS, INGEST_ROW_TAKEOVER,
                                         INGEST_ROWS};

static int check(const struct option_check *check, const struct daemon_facts *facts,
                 struct source_options *options)
{
    const struct sample_format *format = &options->format;
    struct osc_source_options *own = options->own;
    char name[24];
    own->server = facts->osc_address;
    if (!option_given(check, "allow")) { /* [osc] has said who is heard */
        static const struct option_value any = {.text = "any"};
        own->ingest.allow = (struct option_values){&any, 1};
    }
    bool good = format->big_endian && ((format->kind == SAMPLE_FLOAT && format->bytes == 4) ||
                                       (format->kind == SAMPLE_SIGNED && format->bytes == 2));
    if (!good) {
        option_error(check, "format", "OSC blocks carry f32be or s16be, not %s; write one of them",
                     sample_format_name(format, name));
        return ERROR_CONFIG;
    }
    ingest_options_check(check, options, true);
    return 0;
}

static const char *describe(const struct source_options *options, char *text, size_t bytes)
{
    const struct osc_source_options *own = options->own;
    snprintf(text, bytes, " at %s", own->server);
    return text;
}

const struct source_ops source_osc = {
    .name = "osc",
    .sentence = "blocks in OSC messages, through the server of [osc]",
    .loss = NUMBERED_LOSS,
    .format = "f32be",
    .osc_server = true,
    .main_loop = "the OSC server",
    .options = rows,
    .option_count = sizeof rows / sizeof rows[0],
    .options_bytes = sizeof(struct osc_source_options),
    .check = check,
    .describe = describe,
    .live = true,
    .loss_detectable = true,
    .open = osc_source_open,
    .start = osc_source_start,
    .stop = osc_source_stop,
    .close = osc_source_close,
    .ledger = osc_source_ledger,
};
