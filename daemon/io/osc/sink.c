/*
 * Sink `osc`: passes the results of a stream to the OSC server, which sends them to the peers that
 * subscribed. A frame counts as delivered once it was offered to every subscriber, however many
 * there are; a subscriber sees what it missed in the sequence numbers of its messages.
 *
 * Opened on a worker, then loop thread; keeps no sample.
 */
#include <stdlib.h>

#include "core/clock.h"
#include "io/osc/server.h"
#include "io/sinks.h"

struct sink {
    uv_loop_t *loop;
    const struct osc_hub *hub;
    const char *stream;
    struct sink_ledger ledger;
    uv_timer_t closer; /* makes the close asynchronous */
    void (*closed)(void *context);
    void *closed_context;
};

static int osc_sink_open(const struct sink_options *options,
                         const struct io_environment *environment, struct sink **out,
                         struct problem *problem)
{
    struct sink *sink = calloc(1, sizeof *sink);
    if (sink == NULL)
        return problem_set(problem, ERROR_MEMORY, "no memory for a sink");
    sink->loop = environment->loop;
    sink->hub = environment->osc;
    sink->stream = options->stream.name;
    *out = sink;
    return 0;
}

static int64_t osc_sink_put(struct sink *sink, const struct result *result)
{
    osc_publish(sink->hub, sink->stream, result);
    sink->ledger.frames += result->frames;
    sink->ledger.delivered += result->frames;
    sink->ledger.packets++;
    return clock_monotonic_ns();
}

static void osc_sink_ledger(const struct sink *sink, struct sink_ledger *ledger)
{
    *ledger = sink->ledger;
}

static void on_closed(uv_handle_t *handle)
{
    struct sink *sink = handle->data;
    sink->closed(sink->closed_context);
    free(sink);
}

static void osc_sink_close(struct sink *sink, int64_t deadline_ns, void (*closed)(void *context),
                           void *context)
{
    (void)deadline_ns;
    sink->closed = closed;
    sink->closed_context = context;
    uv_timer_init(sink->loop, &sink->closer);
    sink->closer.data = sink;
    uv_close((uv_handle_t *)&sink->closer, on_closed);
}

const struct sink_ops sink_osc = {
    .name = "osc",
    .sentence =
        "OSC to those who subscribe, through the server of [osc]: results, levels, decimated "
        "envelopes, latencies",
    .open = osc_sink_open,
    .put = osc_sink_put,
    .close = osc_sink_close,
    .ledger = osc_sink_ledger,
};
