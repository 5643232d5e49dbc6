/* Network source: see network_source.h. Opened on a worker, then loop thread. */
#include "io/net/network_source.h"

#include <inttypes.h>
#include <jansson.h>
#include <stdlib.h>
#include <unistd.h>

#include "core/log.h"
#include "io/net/attachment.h"
#include "io/net/network_options.h"
#include "io/net/senders.h"
#include "io/net/socket.h"

enum {
    LAST_DATAGRAMS = 65536,
    LAST_BATCH = 64,
};

struct source {
    uv_loop_t *loop;
    struct source_host host;
    struct ingest *ingest;
    struct attachment *attachment;
    struct receiver *receiver; /* NULL: the attachment waits for the network, or closed */
    struct receiver_options receive;
    const struct network_options *own;
    struct allowed allowed; /* made on the attachment's worker */
    uint64_t refused;       /* datagrams not allowed, when it was made */
    uint64_t buffer_bytes;
    /* kept for the ledger once the receiver is closed */
    uint64_t clock_steps, unreported_drops;
    struct receive_figures figures;
    struct attachment_figures attachment_figures;
    bool started;
    uv_timer_t closer; /* closes a source that never started asynchronously, too */
    void (*closed)(void *context);
    void *closed_context;
};

static void datagram(void *context, const struct received *received)
{
    ingest_datagram(context, received);
}

static void drops(void *context, uint64_t datagrams)
{
    ingest_drops(context, datagrams);
}

static void batch_drops(void *context, uint64_t batches)
{
    ingest_batch_drops(context, batches);
}

static unsigned predict(void *context, struct receive_prediction *predictions, unsigned most)
{
    return ingest_predict(context, predictions, most);
}

static bool hit(void *context, const struct receive_prediction *predicted, unsigned number,
                const struct received *received)
{
    return ingest_hit(context, predicted, number, received);
}

/* ---- the attachment ---------------------------------------------------------------------- */

/* WORKER. An interface that has just come brings its networks along. */
static void prepare(void *context)
{
    struct source *source = context;
    allowed_free(&source->allowed);
    allowed_make(&source->own->ingest.allow, source->own->ingest.interface, &source->allowed, NULL);
}

/* Whether a sender was refused since the networks were listed: its own may have come since, as DHCP
 * gives an interface its address seconds after the link. */
static bool stale(void *context)
{
    struct source *source = context;
    struct source_ledger ledger;
    ingest_ledger(source->ingest, &ledger);
    const bool refused_more = ledger.rejected[REJECT_NOT_ALLOWED] != source->refused;
    source->refused = ledger.rejected[REJECT_NOT_ALLOWED];
    return refused_more;
}

/* The network is there: reads from the socket, and accepts senders of the interface's networks. */
static void attached(void *context, int fd, uint64_t granted_bytes)
{
    struct source *source = context;
    struct problem problem;
    if (source->allowed.count > 0)
        ingest_take_allowed(source->ingest, &source->allowed);
    if (fd < 0)
        return;
    source->buffer_bytes = granted_bytes;
    source->receive.fd = fd;
    int error = receiver_open(&source->receive, &source->receiver, &problem);
    if (error == 0)
        error = receiver_start(source->receiver, source->loop, &problem);
    if (error != 0)
        log_error("stream %s: %s; reload to try again", source->receive.stream, problem.text);
}

static void nothing(void *context)
{
    (void)context;
}

int network_source_open(const struct ingest_protocol *protocol,
                        const struct source_options *options,
                        const struct io_environment *environment, const struct source_host *host,
                        struct source **out, struct problem *problem)
{
    struct source *source = calloc(1, sizeof *source);
    if (source == NULL)
        return problem_set(problem, ERROR_MEMORY, "no memory for a source");
    source->loop = environment->loop;
    source->host = *host;
    const struct network_options *own = options->own;
    source->own = own;
    const struct attachment_options wanted = {
        .socket = {.stream = options->stream,
                   .address = own->address,
                   .interface = own->interface,
                   .buffer_bytes = own->receive_buffer_bytes,
                   .bytes_per_second = options->rate_hz * options->frame_bytes,
                   .handover = environment->handover},
        .context = source,
        .prepare = prepare,
        .stale = stale,
        .attached = attached,
    };
    /* Without numbers a loss shows only in the socket's count of dropped datagrams, and UDP_GRO
     * would count whole batches there. */
    const bool numbered = protocol->sequence_bits != 0;
    int fd;
    int error = ingest_open(protocol, options, host, &source->ingest, problem);
    if (error != 0)
        goto no_ingest;
    source->receive = (struct receiver_options){
        .stream = options->stream,
        .handover = environment->handover,
        .work_per_wake = own->work_per_wake,
        .context = source->ingest,
        .requested = numbered ? own->receive : RECEIVE_RECVMMSG,
        .datagram = datagram,
        .drops = drops,
        .batch_drops = numbered ? batch_drops : NULL,
        .predict = predict,
        .hit = hit,
        .turn = host->context,
        .may_read_ns = host->may_read_ns,
        .has_read = host->has_read,
    };
    error = attachment_open(&wanted, &source->attachment, &fd, &source->buffer_bytes, problem);
    if (error != 0)
        goto no_attachment;
    source->receive.fd = fd;
    if (fd >= 0)
        error = receiver_open(&source->receive, &source->receiver, problem);
    if (error != 0)
        goto no_receiver;
    *out = source;
    return 0;

no_receiver:
    attachment_close(source->attachment, nothing, NULL);
no_attachment:
    ingest_close(source->ingest);
no_ingest:
    free(source);
    return error;
}

uint64_t network_source_memory(const struct source_options *options)
{
    (void)options;
    return receiver_memory() + (1 + SENDERS_CANDIDATES) * (uint64_t)SENDERS_HELD_BYTES;
}

int network_source_arm(struct source *source, struct problem *problem)
{
    const int error = attachment_arm(source->attachment, problem);
    return error == 0 && source->receiver != NULL
               ? receiver_arm(source->receiver, source->loop, problem)
               : error;
}

int network_source_start(struct source *source, struct problem *problem)
{
    const int error = attachment_arm(source->attachment, problem);
    if (error != 0)
        return error;
    source->started = true;
    attachment_start(source->attachment, source->loop);
    return source->receiver != NULL ? receiver_start(source->receiver, source->loop, problem) : 0;
}

void network_source_change(struct source *source, const struct source_options *options)
{
    const struct network_options *own = options->own;
    source->receive.work_per_wake = own->work_per_wake;
    if (source->receiver != NULL)
        receiver_set_work(source->receiver, own->work_per_wake);
}

void network_source_listen(struct source *source, bool listens)
{
    attachment_listen(source->attachment, listens);
}

/*
 * Reads what reached the kernel before the stop, as far as the stream has room, and no more than a
 * full socket buffer holds, for a sender may never pause.
 */
static void read_last(struct source *source)
{
    const struct source_host *host = &source->host;
    uint64_t left = LAST_DATAGRAMS;
    while (left > 0) {
        uint32_t frames = ingest_last_frames(source->ingest);
        uint64_t fit = LAST_BATCH;
        if (host->room != NULL)
            fit = host->room(host->context) / (frames > 0 ? frames : 1);
        uint32_t most = frames == 0 ? 1 : fit < LAST_BATCH ? (uint32_t)fit : LAST_BATCH;
        unsigned read = most > 0 ? receiver_read_more(source->receiver, most) : 0;
        if (read == 0)
            return;
        left -= read < left ? read : left;
    }
}

void network_source_stop(struct source *source)
{
    if (source->attachment != NULL)
        attachment_stop(source->attachment);
    if (source->receiver != NULL) {
        read_last(source);
        receiver_stop(source->receiver);
    }
    ingest_stop(source->ingest);
}

void network_source_walk(struct source *source, struct codec *codec)
{
    ingest_walk(source->ingest, codec);
    receiver_walk(source->receiver, codec);
}

/* Inside `closed` the source still answers `ledger`. */
static void finish(struct source *source)
{
    if (source->closed != NULL)
        source->closed(source->closed_context);
    ingest_close(source->ingest);
    allowed_free(&source->allowed);
    free(source);
}

static void closer_closed(uv_handle_t *handle)
{
    finish(handle->data);
}

static void close_later(struct source *source)
{
    uv_timer_init(source->loop, &source->closer);
    source->closer.data = source;
    uv_close((uv_handle_t *)&source->closer, closer_closed);
}

static void receiver_closed(void *context)
{
    struct source *source = context;
    source->receiver = NULL;
    if (source->started)
        finish(source);
    else
        close_later(source);
}

static void attachment_closed(void *context)
{
    struct source *source = context;
    source->attachment = NULL;
    if (source->receiver == NULL) {
        close_later(source);
        return;
    }
    source->clock_steps = receiver_clock_steps(source->receiver);
    source->unreported_drops = receiver_unreported_drops(source->receiver);
    receiver_figures(source->receiver, &source->figures);
    receiver_close(source->receiver, receiver_closed, source);
}

void network_source_close(struct source *source, void (*closed)(void *context), void *context)
{
    source->closed = closed;
    source->closed_context = context;
    network_source_stop(source);
    attachment_figures(source->attachment, &source->attachment_figures);
    attachment_close(source->attachment, attachment_closed, source);
}

void network_source_ledger(const struct source *source, struct source_ledger *ledger)
{
    const struct receiver *receiver = source->receiver;
    ingest_ledger(source->ingest, ledger);
    ledger->buffer_bytes = source->buffer_bytes;
    if (receiver != NULL)
        receiver_figures(receiver, &ledger->receive);
    else
        ledger->receive = source->figures;
    ledger->clock_steps = receiver != NULL ? receiver_clock_steps(receiver) : source->clock_steps;
    ledger->kernel_drops +=
        receiver != NULL ? receiver_unreported_drops(receiver) : source->unreported_drops;
}

uint16_t network_source_port(const struct source *source)
{
    return source->receiver != NULL ? receiver_port(source->receiver) : 0;
}

/* ---- status ------------------------------------------------------------------------------ */

void network_source_status(const struct source *source, void *status)
{
    if (source->attachment != NULL)
        attachment_figures(source->attachment, status);
    else
        *(struct attachment_figures *)status = source->attachment_figures;
}

static void print_status(const void *status, double rate_hz, FILE *out)
{
    const struct attachment_figures *f = status;
    (void)rate_hz;
    if (f->state == ATTACHMENT_WAITING)
        fprintf(out, "  network       waiting, %" PRIu64 " attempts: %s\n", f->attempts,
                f->problem);
    else if (f->interface[0] != '\0')
        fprintf(out,
                "  network       %s is %s; link down %" PRIu64 ", removed %" PRIu64
                ", group joined again %" PRIu64 " times\n",
                f->interface, attachment_state_name(f->state), f->downs, f->removals, f->joins);
}

static json_t *status_json(const void *status)
{
    const struct attachment_figures *f = status;
    json_t *object = json_object();
    json_object_set_new(object, "state", json_string(attachment_state_name(f->state)));
    json_object_set_new(object, "interface",
                        f->interface[0] != '\0' ? json_string(f->interface) : json_null());
    json_object_set_new(object, "waiting_for",
                        f->problem[0] != '\0' ? json_string(f->problem) : json_null());
    json_object_set_new(object, "attempts", json_integer((json_int_t)f->attempts));
    json_object_set_new(object, "link_down", json_integer((json_int_t)f->downs));
    json_object_set_new(object, "removed", json_integer((json_int_t)f->removals));
    json_object_set_new(object, "joined_again", json_integer((json_int_t)f->joins));
    return object;
}

static uint32_t status_faults(const void *status, struct driver_fault *faults)
{
    const struct attachment_figures *f = status;
    faults[0] = (struct driver_fault){"link down", f->downs};
    faults[1] = (struct driver_fault){"interface removed", f->removals};
    return 2;
}

const struct driver_status network_source_shown = {
    .name = "network",
    .what = "network",
    .bytes = sizeof(struct attachment_figures),
    .print = print_status,
    .json = status_json,
    .faults = status_faults,
};
