/* Pictures of views: see views_internal.h. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "core/clock.h"
#include "picture.h"
#include "views_internal.h"

static const int64_t picture_pause_ns = 40 * NS_PER_MS; /* scope, spectrum */
static const int64_t envelope_pause_ns = 50 * NS_PER_MS;
static const int64_t auto_patience_ns = 500 * NS_PER_MS;
enum { SEGMENTS_A_TURN = 8 };

/* ---- life ---------------------------------------------------------------------------------- */

static uint64_t envelope_frames(const struct view *view)
{
    const struct source *source = view->source;
    const double frames = view->want.seconds * source->rate_hz / view->want.points;
    const double factor = ceil(frames / source->frames_per_point - 1e-9);
    return (uint64_t)fmax(factor, 1) * source->frames_per_point;
}

static bool open_envelope(struct view *view)
{
    const struct want *want = &view->want;
    const uint64_t frames_per_point = envelope_frames(view);
    uint32_t points =
        (uint32_t)fmax(2, ceil(want->seconds * view->source->rate_hz / (double)frames_per_point));
    if (points > want->points)
        points = want->points;
    view->channels = want->channel_count > 0 ? want->channel_count : view->source->channels;
    return envelope_open(&view->envelope, want->channel_count > 0 ? want->channels : NULL,
                         view->channels, points, frames_per_point) == 0;
}

/* The places of the wanted channels in what the source brings. */
static void find_places(struct view *view)
{
    const struct source *source = view->source;
    view->channels = view->want.channel_count;
    for (uint32_t i = 0; i < view->channels; i++)
        for (uint32_t k = 0; k < source->list_count; k++)
            if (source->list[k] == view->want.channels[i])
                view->list[i] = (uint16_t)k;
}

bool view_open(struct view *view)
{
    const struct want *want = &view->want;
    bool opened = true;
    if (want->view == VIEW_ENVELOPE) {
        opened = open_envelope(view);
    } else {
        find_places(view);
        if (want->view == VIEW_SPECTRUM)
            opened = spectrum_open(&view->spectrum, want->fft, want->window, view->source->rate_hz,
                                   view->list, view->channels) == 0;
        if (want->view == VIEW_ASCAN)
            opened = ascan_open(&view->ascan, want->frames, want->period, want->average, view->list,
                                view->channels) == 0;
    }
    view->ready = opened;
    view->sent_ns = clock_monotonic_ns();
    view->epoch = UINT64_MAX;
    if (!opened)
        view_close(view);
    return opened;
}

void view_close(struct view *view)
{
    envelope_close(&view->envelope);
    spectrum_close(&view->spectrum);
    ascan_close(&view->ascan);
    view->ready = view->triggered = view->done = view->fresh = false;
}

uint32_t view_trace_frames(const struct want *want)
{
    switch (want->view) {
    case VIEW_SCOPE:
    case VIEW_ASCAN:
        return 4 * want->frames;
    case VIEW_SPECTRUM:
        return 2 * want->fft;
    default:
        return 0;
    }
}

/* ---- frames -------------------------------------------------------------------------------- */

/* The message of a picture, with its head and ranges; `values` is where its values go. */
static struct message *begin(const struct picture *picture, const uint16_t *causes, float **values)
{
    struct message *message =
        message_new(picture_bytes(picture, picture_count_ranges(causes, picture->points)));
    if (message != NULL)
        *values = picture_write(picture, causes, message_bytes(message));
    return message;
}

static void send_frames(struct view *view, uint64_t first, int32_t trigger, uint32_t flags,
                        int64_t now_ns)
{
    const struct trace *trace = &view->source->trace;
    const uint32_t frames = view->want.frames;
    uint16_t *causes = calloc(frames, sizeof *causes);
    float *values;
    if (causes == NULL)
        return;
    for (uint32_t n = 0; n < frames; n++)
        causes[n] = trace_causes(trace, first + n);
    const struct picture picture = {.kind = PICTURE_FRAMES,
                                    .want = view->want.id,
                                    .channels = view->channels,
                                    .points = frames,
                                    .epoch = trace->epoch,
                                    .first_frame = first,
                                    .frames_per_point = 1,
                                    .rate_hz = trace->rate_hz,
                                    .capture_ns = trace_capture_ns(trace, first),
                                    .flags = flags | (first == 0 ? PICTURE_RECORD : 0),
                                    .trigger = trigger,
                                    .averages = 1};
    struct message *message = begin(&picture, causes, &values);
    free(causes);
    if (message == NULL)
        return;
    for (uint32_t c = 0; c < view->channels; c++)
        for (uint32_t n = 0; n < frames; n++)
            *values++ = trace_frame(trace, first + n)[view->list[c]];
    session_send_picture(view->session, view->want.id, message);
    view->sent_ns = now_ns;
}

/* ---- scope --------------------------------------------------------------------------------- */

/* Frames of the picture before the trigger: fewer where the epoch begins, or more is not kept. */
static uint32_t before_trigger(const struct view *view, uint64_t at)
{
    const struct trace *trace = &view->source->trace;
    const uint64_t kept = at - trace->oldest;
    return kept < view->want.pretrigger ? (uint32_t)kept : view->want.pretrigger;
}

/* Sends the picture of the trigger once all of its frames are there. */
static void finish_trigger(struct view *view, int64_t now_ns)
{
    const struct trace *trace = &view->source->trace;
    if (view->trigger_frame < trace->oldest) { /* it has waited for too long */
        view->triggered = false;
        return;
    }
    const uint32_t before = before_trigger(view, view->trigger_frame);
    const uint64_t first = view->trigger_frame - before;
    if (first + view->want.frames > trace->next)
        return;
    send_frames(view, first, (int32_t)before, PICTURE_TRIGGERED, now_ns);
    view->triggered = false;
    view->searched = first + view->want.frames;
    view->done = view->want.single;
}

static void search(struct view *view)
{
    const struct trace *trace = &view->source->trace;
    const struct want *want = &view->want;
    uint32_t place = 0;
    for (uint32_t k = 0; k < view->source->list_count; k++)
        if (view->source->list[k] == want->trigger_channel)
            place = k;
    const struct trigger trigger = {want->trigger, want->slope, (float)want->level, place,
                                    want->frame};
    if (view->epoch != trace->epoch) {
        view->epoch = trace->epoch;
        /* What was before an epoch's first frame will never be there; else it only has not come. */
        view->searched = trace->oldest + (trace->from_start ? 0 : want->pretrigger);
    }
    /* Nothing that happened long ago: the newest is shown. */
    if (trace->next > view->searched + 2 * (uint64_t)want->frames &&
        want->trigger != TRIGGER_EXTERNAL && want->trigger != TRIGGER_RECORD)
        view->searched = trace->next - 2 * (uint64_t)want->frames;
    view->triggered =
        trigger_find(&trigger, trace, view->searched, trace->next, &view->trigger_frame);
    view->searched = trace->next;
}

static void look_at_scope(struct view *view, int64_t now_ns)
{
    const struct trace *trace = &view->source->trace;
    if (view->done)
        return;
    if (view->triggered && view->epoch != trace->epoch)
        view->triggered = false; /* its epoch has gone before all of its frames came */
    if (!view->triggered && now_ns - view->sent_ns >= picture_pause_ns)
        search(view);
    if (view->triggered)
        finish_trigger(view, now_ns);
    const bool waits = view->want.trigger != TRIGGER_AUTO || view->want.single;
    if (!waits && !view->triggered && now_ns - view->sent_ns >= auto_patience_ns &&
        trace->next - trace->oldest >= view->want.frames)
        send_frames(view, trace->next - view->want.frames, -1, 0, now_ns);
}

/* ---- A-scans ------------------------------------------------------------------------------- */

static void look_at_ascan(struct view *view, int64_t now_ns)
{
    struct ascan *ascan = &view->ascan;
    const struct trace *trace = &view->source->trace;
    float *values;
    while (ascan_take(ascan, trace) || ascan->averages > 0) {
        if (ascan->averages < ascan->average)
            return;
        const struct picture picture = {.kind = PICTURE_FRAMES,
                                        .want = view->want.id,
                                        .channels = view->channels,
                                        .points = ascan->frames,
                                        .epoch = ascan->first_epoch,
                                        .first_frame = ascan->first_frame,
                                        .frames_per_point = 1,
                                        .rate_hz = trace->rate_hz,
                                        .capture_ns = trace_capture_ns(trace, ascan->first_frame),
                                        .flags = PICTURE_COMPLETE | PICTURE_TRIGGERED |
                                                 (ascan->first_frame == 0 ? PICTURE_RECORD : 0),
                                        .averages = ascan->averages};
        struct message *message = begin(&picture, ascan->causes, &values);
        if (message != NULL) {
            ascan_read(ascan, values);
            session_send_picture(view->session, view->want.id, message);
        }
        view->sent_ns = now_ns;
        ascan_clear(ascan);
    }
}

/* ---- spectra ------------------------------------------------------------------------------- */

static void look_at_spectrum(struct view *view, int64_t now_ns)
{
    struct spectrum *spectrum = &view->spectrum;
    const struct trace *trace = &view->source->trace;
    float *values;
    spectrum_take(spectrum, trace, SEGMENTS_A_TURN);
    const bool complete = spectrum->averages >= view->want.average;
    if (spectrum->averages == 0 || now_ns - view->sent_ns < (complete ? 1 : 5) * picture_pause_ns)
        return;
    const struct picture picture = {.kind = PICTURE_SPECTRUM,
                                    .want = view->want.id,
                                    .channels = view->channels,
                                    .points = spectrum->fft / 2 + 1,
                                    .epoch = trace->epoch,
                                    .first_frame = spectrum->position,
                                    .frames_per_point = trace->rate_hz / spectrum->fft,
                                    .rate_hz = trace->rate_hz,
                                    .capture_ns = trace_capture_ns(trace, spectrum->position),
                                    .flags = complete ? PICTURE_COMPLETE : 0,
                                    .trigger = -1,
                                    .averages = spectrum->averages};
    struct message *message = begin(&picture, NULL, &values);
    if (message != NULL) {
        spectrum_read(spectrum, values);
        session_send_picture(view->session, view->want.id, message);
    }
    view->sent_ns = now_ns;
    if (complete)
        spectrum_clear(spectrum);
}

void view_frames(struct view *view, int64_t now_ns)
{
    if (!view->ready)
        return;
    if (view->want.view == VIEW_SCOPE)
        look_at_scope(view, now_ns);
    else if (view->want.view == VIEW_ASCAN)
        look_at_ascan(view, now_ns);
    else if (view->want.view == VIEW_SPECTRUM)
        look_at_spectrum(view, now_ns);
}

/* ---- envelopes ----------------------------------------------------------------------------- */

void view_points(struct view *view, const struct watch_record *record)
{
    const struct watch_head *head = &record->head;
    if (!view->ready || view->want.view != VIEW_ENVELOPE)
        return;
    for (uint32_t p = 0; p < head->points; p++) {
        const uint64_t frame = head->first_frame + (uint64_t)p * head->frames_per_point;
        uint32_t causes = 0;
        for (uint32_t i = 0; i < head->range_count; i++)
            if (record->ranges[i].from <= p &&
                p - record->ranges[i].from < record->ranges[i].points)
                causes |= record->ranges[i].causes;
        const int64_t after_ns =
            clock_round_ns((double)(frame - head->first_frame) / head->rate_hz * 1e9);
        envelope_put(&view->envelope, head->epoch, frame,
                     head->capture_ns != 0 ? head->capture_ns + after_ns : 0, (uint16_t)causes,
                     record->values + 2 * (size_t)p * head->channels, head->first_channel,
                     head->channels);
    }
    view->fresh = true;
}

static void send_envelope(struct view *view, int64_t now_ns)
{
    const struct envelope *envelope = &view->envelope;
    struct picture picture = {.kind = PICTURE_MINMAX,
                              .want = view->want.id,
                              .channels = view->channels,
                              .points = envelope->points,
                              .epoch = envelope->epoch,
                              .frames_per_point = (double)envelope->frames_per_point,
                              .rate_hz = view->source->rate_hz,
                              .trigger = -1,
                              .averages = 1};
    const size_t count = picture_values(&picture);
    uint16_t *causes = calloc(envelope->points, sizeof *causes);
    float *values = calloc(count, sizeof *values), *out;
    if (causes != NULL && values != NULL) {
        picture.first_frame = envelope_read(envelope, values, causes);
        const double span_ns =
            (double)(envelope->points - 1) * picture.frames_per_point / picture.rate_hz * 1e9;
        if (envelope->capture_ns != 0)
            picture.capture_ns = envelope->capture_ns - clock_round_ns(span_ns);
        struct message *message = begin(&picture, causes, &out);
        if (message != NULL) {
            memcpy(out, values, count * sizeof *values);
            session_send_picture(view->session, view->want.id, message);
        }
    }
    free(causes);
    free(values);
    view->fresh = false;
    view->sent_ns = now_ns;
}

void view_tick(struct view *view, int64_t now_ns)
{
    if (view->ready && view->fresh && now_ns - view->sent_ns >= envelope_pause_ns &&
        !session_picture_waits(view->session, view->want.id))
        send_envelope(view, now_ns);
    else if (view->ready && view->want.view == VIEW_SCOPE && view->source->trace.begun)
        look_at_scope(view, now_ns);
}
