/* Network source: see network_source.h. Opened on a worker, then loop thread. */
#include "io/net/network_source.h"

#include <stdlib.h>
#include <unistd.h>

#include "io/net/network_options.h"
#include "io/net/socket.h"

enum {
    LAST_DATAGRAMS = 65536,
    LAST_BATCH = 64,
};

struct source {
    uv_loop_t *loop;
    struct source_host host;
    struct ingest *ingest;
    struct receiver *receiver;
    uint64_t buffer_bytes;
    /* kept for the ledger once the receiver is closed */
    uint64_t clock_steps, unreported_drops;
    struct receive_figures figures;
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
    struct socket_receive_options wanted = {
        .stream = options->stream,
        .address = own->address,
        .interface = own->interface,
        .buffer_bytes = own->receive_buffer_bytes,
        .bytes_per_second = options->rate_hz * options->frame_bytes,
        .handover = environment->handover,
    };
    /* Without numbers a loss shows only in the socket's count of dropped datagrams, and UDP_GRO
     * would count whole batches there. */
    const bool numbered = protocol->sequence_bits != 0;
    int fd;
    int error = ingest_open(protocol, options, host, &source->ingest, problem);
    if (error != 0)
        goto no_ingest;
    error = socket_open_receive(&wanted, &fd, &source->buffer_bytes, problem);
    if (error != 0)
        goto no_receiver;
    error = receiver_open(
        &(struct receiver_options){.stream = options->stream,
                                   .fd = fd,
                                   .handover = environment->handover,
                                   .work_per_wake = own->work_per_wake,
                                   .context = source->ingest,
                                   .requested = numbered ? own->receive : RECEIVE_RECVMMSG,
                                   .datagram = datagram,
                                   .drops = drops,
                                   .batch_drops = numbered ? batch_drops : NULL,
                                   .predict = predict,
                                   .hit = hit},
        &source->receiver, problem);
    if (error != 0)
        goto no_receiver;
    *out = source;
    return 0;

no_receiver:
    ingest_close(source->ingest);
no_ingest:
    free(source);
    return error;
}

int network_source_arm(struct source *source, struct problem *problem)
{
    return receiver_arm(source->receiver, source->loop, problem);
}

int network_source_start(struct source *source, struct problem *problem)
{
    source->started = true;
    return receiver_start(source->receiver, source->loop, problem);
}

void network_source_change(struct source *source, const struct source_options *options)
{
    const struct network_options *own = options->own;
    if (source->receiver != NULL)
        receiver_set_work(source->receiver, own->work_per_wake);
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
    read_last(source);
    receiver_stop(source->receiver);
    ingest_stop(source->ingest);
}

/* Inside `closed` the source still answers `ledger`. */
static void finish(struct source *source)
{
    if (source->closed != NULL)
        source->closed(source->closed_context);
    ingest_close(source->ingest);
    free(source);
}

static void closer_closed(uv_handle_t *handle)
{
    finish(handle->data);
}

static void receiver_closed(void *context)
{
    struct source *source = context;
    source->receiver = NULL;
    if (source->started) {
        finish(source);
        return;
    }
    uv_timer_init(source->loop, &source->closer);
    source->closer.data = source;
    uv_close((uv_handle_t *)&source->closer, closer_closed);
}

void network_source_close(struct source *source, void (*closed)(void *context), void *context)
{
    source->closed = closed;
    source->closed_context = context;
    network_source_stop(source);
    source->clock_steps = receiver_clock_steps(source->receiver);
    source->unreported_drops = receiver_unreported_drops(source->receiver);
    receiver_figures(source->receiver, &source->figures);
    receiver_close(source->receiver, receiver_closed, source);
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
