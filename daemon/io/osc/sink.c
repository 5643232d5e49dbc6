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

struct osc_sink_options {
    const char *server; /* address of the OSC server */
};

static void check(const struct option_check *check, const struct daemon_facts *facts,
                  const struct stream_facts *stream, struct sink_options *options)
{
    (void)check;
    (void)stream;
    struct osc_sink_options *own = options->own;
    own->server = facts->osc_address;
}

/* Two of one stream: subscribers would get everything twice. */
static void check_all(const struct driver_sections *all, uint32_t self)
{
    const struct sink_section *section = &all->sinks[self];
    for (uint32_t i = 0; i < self; i++) {
        const struct sink_section *other = &all->sinks[i];
        if (other->driver != section->driver || other->stream != section->stream || other->broken ||
            section->broken)
            continue;
        option_error(&section->check, "stream",
                     "sinks %s and %s have one destination, `%s`; write another stream for one of "
                     "them",
                     other->check.section, section->check.section, section->stream->facts.name);
        return;
    }
}

static void report(const struct sink_options *options, double bytes_per_second, FILE *out)
{
    (void)bytes_per_second;
    const struct osc_sink_options *own = options->own;
    fprintf(out, "OSC from %s to those who subscribe\n", own->server);
}

const struct sink_ops sink_osc = {
    .name = "osc",
    .sentence = "to those who subscribe through the server of [osc]",
    .packets = "packets",
    .osc_server = true,
    .main_loop = "the OSC server",
    .options_bytes = sizeof(struct osc_sink_options),
    .check = check,
    .check_all = check_all,
    .report = report,
    .open = osc_sink_open,
    .put = osc_sink_put,
    .close = osc_sink_close,
    .ledger = osc_sink_ledger,
    .numbered = true,
};
