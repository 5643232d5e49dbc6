/*
 * Source `portaudio`: captures from a sound card, in the hardware's own format.
 *
 * Each period of the card is a packet. Its frame number is the card's count of frames, which
 * includes frames that were lost. The source reports missing frames as `overload` when the daemon
 * was late (the ring was full) and as `capture` when the card lost them or was away.
 *
 * Capture times come from the converter's time stamps, smoothed by a clock line. When PortAudio
 * gives none, or they go backwards, they come from the times at which callbacks ran, and results
 * name the clock `receive` instead of `converter`.
 *
 * open runs on a worker thread, everything else on the loop thread, without allocating or copying.
 */
#include <stdio.h>
#include <stdlib.h>

#include "core/clock.h"
#include "io/sound/card.h"
#include "io/sound/ring.h"
#include "io/sound/direct_options.h"
#include "io/sound/report.h"
#include "io/sound/round_trips.h"
#include "io/sources.h"
#include "stream/clock_line.h"

struct source {
    struct source_options options;
    const struct sound_options *sound;
    struct source_host host;
    char label[96];
    struct sound_card *card;
    bool running;
    struct source_ledger ledger;
    /* numbering */
    bool begun;
    uint64_t next;      /* frame number after the newest frame */
    uint64_t lost_ring; /* frames that the ring lost in this session, reported so far */
    /* time */
    struct clock_line line;
    bool converter;   /* the line fits the converter's stamps, else times of callbacks */
    double trusted_s; /* time since the last unusable stamp */
    void (*closed)(void *context);
    void *closed_context;
};

/* After an unusable stamp the source trusts stamps again when this long has passed. */
static const double trust_s = 1.0;

/* ---- periods ----------------------------------------------------------------------------- */

/* Reports `missing` frames before a period: those that the ring lost, then those the card lost. */
static void report_lost(struct source *source, const struct sound_period *period, uint64_t missing)
{
    uint64_t ring = period->lost_ring - source->lost_ring;
    if (ring > missing)
        ring = missing;
    if (source->host.lost != NULL && ring > 0)
        source->host.lost(source->host.context, ring, INVALID_OVERLOAD);
    if (source->host.lost != NULL && missing > ring)
        source->host.lost(source->host.context, missing - ring, INVALID_CAPTURE);
}

static void add_time(struct source *source, const struct sound_period *period, uint64_t frame)
{
    double rate_hz = source->options.rate_hz;
    source->trusted_s = period->time_usable ? source->trusted_s + period->frames / rate_hz : 0;
    bool converter = source->trusted_s >= trust_s;
    if (converter != source->converter || !source->line.started)
        clock_line_reset(&source->line, rate_hz);
    source->converter = converter;
    int64_t end_ns = period->callback_ns - (int64_t)(period->behind * 1e9 / rate_hz);
    if (converter)
        end_ns = period->adc_ns + (int64_t)(period->frames * 1e9 / rate_hz);
    clock_line_add(&source->line, frame + period->frames, period->frames, end_ns);
}

static void put(struct source *source, const struct sound_period *period, const uint8_t *bytes,
                uint64_t base)
{
    uint64_t frame = base + period->frame;
    int64_t offset_ns = clock_offset_ns();
    if (!source->begun)
        sound_card_set_origin(source->card, frame);
    else if (frame > source->next)
        report_lost(source, period, frame - source->next);
    source->begun = true;
    source->lost_ring = period->lost_ring;
    source->next = frame + period->frames;
    add_time(source, period, frame);
    struct packet packet = {
        .first_frame = frame,
        .frames = period->frames,
        .flags = PACKET_CAPTURE | PACKET_TIMED,
        .payload = bytes,
        .receive_ns = period->callback_ns,
        .receive_realtime_ns = period->callback_ns + offset_ns,
        .capture_ns = clock_line_time_ns(&source->line, (double)frame) + offset_ns,
        .clock = source->converter ? CLOCK_SOURCE_CONVERTER : CLOCK_SOURCE_RECEIVE,
        .clock_error_ns = clock_line_error_ns(&source->line),
    };
    source->ledger.datagrams++;
    source_ledger_count(&source->ledger, source->host.put(source->host.context, &packet));
}

/* A callback has run: puts the periods that it stored. */
static void on_callback(void *context)
{
    struct source *source = context;
    struct sound_shared *shared = sound_card_shared(source->card);
    struct sound_period period;
    const uint8_t *bytes;
    uint64_t base;
    if (!sound_card_base(source->card, &base))
        return;
    while (sound_ring_peek(shared, &period, &bytes)) {
        if (source->running && !source->sound->direct_alone)
            put(source, &period, bytes, base);
        sound_ring_release(shared);
    }
}

static void on_lost(void *context)
{
    struct source *source = context;
    source->lost_ring = 0;
    source->line.started = false;
    source->trusted_s = trust_s;
}

/* ---- life -------------------------------------------------------------------------------- */

static int portaudio_open(const struct source_options *options,
                          const struct io_environment *environment, const struct source_host *host,
                          struct source **out, struct problem *problem)
{
    struct source *source = calloc(1, sizeof *source);
    if (source == NULL)
        return problem_set(problem, ERROR_MEMORY, "no memory for a source");
    source->options = *options;
    source->sound = options->own;
    source->host = *host;
    source->ledger.loss_detectable = true;
    source->trusted_s = trust_s;
    snprintf(source->label, sizeof source->label, "stream %s", options->stream);
    const struct sound_card_user user = {
        .context = source, .label = source->label, .callback = on_callback, .lost = on_lost};
    int error =
        sound_card_open(source->sound, SOUND_CAPTURE, &user, environment, &source->card, problem);
    if (error != 0) {
        free(source);
        return error;
    }
    *out = source;
    return 0;
}

static int portaudio_start(struct source *source, struct problem *problem)
{
    (void)problem;
    source->running = true;
    sound_card_start(source->card);
    return 0;
}

/* The card keeps running, so that a sink that shares it can play its last results. */
static void portaudio_stop(struct source *source)
{
    source->running = false;
}

static void on_left(void *context)
{
    struct source *source = context;
    source->closed(source->closed_context);
    free(source);
}

static void portaudio_close(struct source *source, void (*closed)(void *context), void *context)
{
    portaudio_stop(source);
    source->closed = closed;
    source->closed_context = context;
    sound_card_leave(source->card, SOUND_CAPTURE, on_left, source);
}

static void portaudio_ledger(const struct source *source, struct source_ledger *ledger)
{
    *ledger = source->ledger;
}

static void portaudio_status(const struct source *source, void *status)
{
    struct sound_report *report = status;
    *report = (struct sound_report){0};
    sound_card_status(source->card, &report->card);
}

const struct source_ops source_portaudio = {
    .name = "portaudio",
    .sentence = "a sound card, or clients of a JACK server",
    .main_loop = "the sound cards",
    .loss = "detectable: overruns of the card and of its ring are counted, and gaps are filled and "
            "flagged",
    .converter = true,
    .format = "f32le",
    .options = sound_source_rows,
    .option_count = SOUND_SOURCE_ROWS,
    .options_bytes = sizeof(struct sound_options),
    .check = sound_source_check,
    .check_all = sound_source_check_all,
    .describe = sound_source_describe,
    .report = sound_source_report,
    .live = true,
    .loss_detectable = true,
    .open = portaudio_open,
    .start = portaudio_start,
    .stop = portaudio_stop,
    .close = portaudio_close,
    .ledger = portaudio_ledger,
    .status = &sound_status_ops,
    .read_status = portaudio_status,
    .direct = &sound_direct_ops,
    .loopback = &sound_loopback_ops,
};
