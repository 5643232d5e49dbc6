/*
 * The analysis `hits`: bursts of each channel, with their features, arrivals and transients.
 *
 *     run ─► columns of 64 frames ─► extremes ─► quiet? the arms alone
 *                                          └───► detector of the channel ─► hits that are complete,
 *     by frame and channel ─► features ─► emit at once ─► release queue ─► emit in order
 *
 * A column is looked at channel by channel, but hits are taken in the order in which they became
 * complete, frame by frame: numbers, the order of events and what the queue refuses do not depend
 * on how frames are cut into runs and columns.
 *
 * A hit is released once no hit that is open began before it. An open hit lasts `max duration` at
 * most, its record `post-duration` more, so a hit at frame a is released by a + max duration - 1 +
 * post-duration at the latest.
 *
 * Never allocates after `open`. One thread at a time.
 */
#include <assert.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "analysis/analyses.h"
#include "analysis/detector.h"
#include "analysis/extremes.h"
#include "analysis/frame_heap.h"
#include "analysis/hit_features.h"
#include "analysis/hit_options.h"
#include "analysis/hit_queue.h"
#include "analysis/noise.h"
#include "analysis/pieces.h"
#include "analysis/saturation.h"

enum { STATE_VERSION = 3 };

static const uint64_t none = UINT64_MAX;

struct analysis {
    /* immutable after open */
    const struct analysis_options *options;
    const struct hit_options *own;
    uint32_t channels;
    struct hit_features *features;

    struct detector_channel *detectors; /* [channels] */
    struct hit_scale *scales;           /* [channels] */
    float *records;                     /* [channels][rules.record_frames] */
    uint64_t *open_first; /* [channels], of the hit that is not released; UINT64_MAX: none */
    /* What decides whether a detector has to look at a column: [channels] each, for vectors. */
    float *limit, *smallest, *largest;
    int32_t *busy, *loud, *arms; /* busy, loud: -1 or 0 */
    struct saturation saturation;
    struct noise noise; /* channels 0: none is measured */
    struct frame_heap complete;
    struct hit_queue *queue;

    /* of the epoch */
    bool running;
    uint64_t epoch, record, next_frame;
    bool edge;            /* the next valid frame follows none */
    uint64_t live_from;   /* first of the valid frames that reach up to next_frame */
    uint32_t edge_causes; /* of the invalid frames before live_from; 0: the epoch begins there */

    uint64_t number;
    struct analysis_ledger ledger;
};

/* ---- events ------------------------------------------------------------------------------ */

static struct analysis_event
event_of(const struct analysis *a, const struct detector_channel *detector, const struct hit *hit)
{
    const struct detector_hit *seen = &detector->hit;
    const double ns = 1e9 / a->options->stream.rate_hz;
    const int64_t capture_ns =
        seen->run_capture_ns + (int64_t)nearbyint((double)(seen->first - seen->run_frame) * ns);
    uint32_t samples = seen->record_frames, most = a->own->transient_frames;
    if (most > 0)
        most -= a->own->rules.pre_trigger - seen->lead; /* max record counts from `first` on */
    if (samples > most)
        samples = most;
    return (struct analysis_event){
        .kind = ANALYSIS_HIT,
        .number = a->number,
        .channel = detector->channel,
        .epoch = a->epoch,
        .record = a->record,
        .frame = seen->first,
        .capture_ns = capture_ns,
        .clock = seen->clock,
        .clock_error_ns = seen->clock_error_ns,
        .delay_frames = seen->delay_frames,
        .arrival_ns = capture_ns - (int64_t)nearbyint(seen->delay_frames * ns),
        .flags = seen->flags,
        .causes = seen->causes,
        .body = hit,
        .body_bytes = sizeof *hit,
        .samples = samples > 0 ? detector->record : NULL,
        .sample_count = samples,
        .first_sample = samples > 0 ? -(int64_t)seen->lead : 0,
    };
}

static void emit_ordered(struct analysis *a, const struct analysis_event *event)
{
    struct analysis_event ordered = *event;
    ordered.ordered = true;
    a->ledger.events[ANALYSIS_HIT]++;
    a->options->emit(a->options->context, &ordered);
}

/* Hits in the queue before (frame, channel). */
static void release(struct analysis *a, uint64_t frame, uint32_t channel)
{
    const struct analysis_event *event;
    while ((event = hit_queue_take(a->queue, frame, channel)) != NULL) {
        a->ledger.at_once--;
        emit_ordered(a, event);
    }
}

/* The open hit that began first; its frame, UINT64_MAX without one. */
static uint64_t first_open(const struct analysis *a, uint32_t *channel)
{
    uint64_t first = none;
    *channel = 0;
    for (uint32_t c = 0; c < a->channels; c++) {
        if (a->open_first[c] < first) {
            first = a->open_first[c];
            *channel = c;
        }
    }
    return first;
}

static void wait_in_queue(struct analysis *a, const struct analysis_event *event)
{
    switch (hit_queue_put(a->queue, event)) {
    case HIT_QUEUE_WITHOUT_SAMPLES:
        a->ledger.untraced++;
        a->ledger.at_once++;
        break;
    case HIT_QUEUE_TAKEN:
        a->ledger.at_once++;
        break;
    case HIT_QUEUE_FULL:
        a->ledger.unordered++;
        break;
    }
}

/* Emits the channel's complete hit, and releases what waited for it. */
static void finish(struct analysis *a, uint32_t channel)
{
    struct detector_channel *detector = &a->detectors[channel];
    struct hit hit;
    hit_features_measure(a->features, &detector->hit, detector->record, &a->scales[channel], &hit);
    a->number++;
    const struct analysis_event event = event_of(a, detector, &hit);
    a->options->emit(a->options->context, &event);

    uint32_t first_channel;
    a->open_first[channel] = none;
    const uint64_t first = first_open(a, &first_channel);
    if (frame_before(event.frame, channel, first, first_channel)) {
        release(a, event.frame, channel);
        emit_ordered(a, &event);
        release(a, first, first_channel);
    } else {
        wait_in_queue(a, &event);
    }
    detector_take(detector);
}

/* ---- columns ----------------------------------------------------------------------------- */

/* Which channels a detector has to look at; the others' arms are set here. Whether there are any.
 */
static bool find_loud(struct analysis *a)
{
    const float *restrict limit = a->limit, *restrict smallest = a->smallest;
    const float *restrict largest = a->largest;
    const int32_t *restrict busy = a->busy;
    int32_t *restrict loud = a->loud, *restrict arms = a->arms;
    const size_t channels = a->channels;
    int32_t any = 0;
    for (size_t c = 0; c < channels; c++) {
        const int32_t above = largest[c] > limit[c] ? -1 : 0;
        const int32_t below = -smallest[c] > limit[c] ? -1 : 0;
        const int32_t look = above | below | busy[c];
        const int32_t positive = smallest[c] < 0 ? DETECTOR_ARMED_POSITIVE : 0;
        const int32_t negative = largest[c] > 0 ? DETECTOR_ARMED_NEGATIVE : 0;
        loud[c] = look;
        arms[c] |= (positive | negative) & ~look;
        any |= look;
    }
    return any != 0;
}

static void scan(struct analysis *a, uint32_t channel, const struct detector_input *input)
{
    struct detector_channel *detector = &a->detectors[channel];
    if (detector_scan(detector, &a->own->rules, input))
        frame_heap_put(&a->complete,
                       (struct frame_heap_item){detector->completed, channel, channel});
    a->busy[channel] = detector->state != DETECTOR_IDLE ? -1 : 0;
    a->open_first[channel] = detector->state != DETECTOR_IDLE ? detector->hit.first : none;
}

static void look(struct analysis *a, const struct detector_input *input)
{
    for (uint32_t c = 0; c < a->channels; c++) {
        if (!a->loud[c])
            continue;
        struct detector_channel *detector = &a->detectors[c];
        detector_load(detector, input, a->saturation.bits[c]);
        if (detector->above != 0 || detector->state == DETECTOR_OPEN)
            noise_spoil(&a->noise, c);
        scan(a, c, input);
    }
    while (a->complete.count > 0) {
        const uint32_t channel = frame_heap_take(&a->complete).channel;
        finish(a, channel);
        scan(a, channel, input);
    }
}

static void set_threshold(struct analysis *a, uint32_t channel, double threshold)
{
    detector_set_threshold(&a->detectors[channel], threshold);
    a->limit[channel] = a->detectors[channel].limit;
}

/* An interval of noise has ended. */
static void take_noise(struct analysis *a)
{
    for (uint32_t c = 0; c < a->channels; c++) {
        const double rms = noise_take(&a->noise, c);
        if (!isnan(rms))
            a->detectors[c].noise_rms = rms;
        if (a->own->floating > 0)
            set_threshold(a, c,
                          fmax(hit_options_threshold(a->options, c),
                               a->own->floating * noise_average(&a->noise, c)));
    }
}

static void begin_live(struct analysis *a, const float *samples, uint64_t frame)
{
    a->edge = false;
    a->live_from = frame;
    noise_restart(&a->noise, frame);
    for (uint32_t c = 0; c < a->channels; c++)
        detector_edge(&a->detectors[c], samples[c], frame, a->edge_causes);
}

/* Valid frames [from, until) of the run. */
static void put_live(struct analysis *a, const struct analysis_run *run, uint64_t from,
                     uint64_t until)
{
    if (a->edge)
        begin_live(a, run->samples + (from - run->first_frame) * a->channels, from);
    while (from < until) {
        uint64_t end = from + DETECTOR_FRAMES;
        end = end < until ? end : until;
        end = noise_limit(&a->noise, from, end);
        const uint32_t frames = (uint32_t)(end - from);
        const uint64_t before = from - run->first_frame;
        struct detector_input input = {
            .run = run,
            .samples = run->samples + before * a->channels,
            .first_frame = from,
            .frames = frames,
            .lead = from - a->live_from,
            .lead_causes = a->edge_causes,
        };
        if (input.lead > run->history + before)
            input.lead = run->history + before;
        extremes_find(input.samples, frames, a->channels, a->smallest, a->largest);
        saturation_column(&a->saturation, run, from, frames);
        if (find_loud(a))
            look(a, &input);
        saturation_pass(&a->saturation);
        if (noise_add(&a->noise, input.samples, from, frames))
            take_noise(a);
        from = end;
        a->next_frame = end;
    }
}

/* Ends what is open: `frame` is invalid for `causes`, or the epoch has ended before it. */
static void cut(struct analysis *a, uint64_t frame, uint32_t causes)
{
    for (uint32_t c = 0; c < a->channels; c++) {
        if (!a->busy[c])
            continue;
        detector_cut(&a->detectors[c], &a->own->rules, frame, causes);
        finish(a, c);
        a->busy[c] = 0;
    }
}

/* ---- runs -------------------------------------------------------------------------------- */

/* Why this frame of the run is invalid. */
static uint32_t causes_at(const struct analysis_run *run, uint64_t frame)
{
    uint32_t causes = 0;
    for (uint32_t i = 0; i < run->invalid_count && run->invalid[i].from <= frame; i++)
        if (frame < run->invalid[i].until)
            causes |= 1u << run->invalid[i].cause;
    return causes;
}

static void put_dead(struct analysis *a, const struct analysis_run *run, const struct piece *piece)
{
    if (!a->edge)
        cut(a, piece->from, causes_at(run, piece->from));
    a->edge = true;
    a->edge_causes = causes_at(run, piece->until - 1);
    saturation_skip(&a->saturation, run, piece->until);
    a->next_frame = piece->until;
}

static void begin_epoch(struct analysis *a, const struct analysis_run *run)
{
    a->running = true;
    a->epoch = run->epoch;
    a->record = run->record;
    a->next_frame = run->first_frame;
    a->edge = true;
    a->edge_causes = 0;
    saturation_reset(&a->saturation);
    noise_restart(&a->noise, run->first_frame);
    noise_forget(&a->noise);
    for (uint32_t c = 0; c < a->channels; c++) {
        set_threshold(a, c, hit_options_threshold(a->options, c));
        a->detectors[c].noise_rms = NAN;
        a->arms[c] = 0;
    }
}

static void end_epoch(struct analysis *a)
{
    cut(a, a->next_frame, 0);
    release(a, none, 0);
    a->running = false;
    if (a->options->advance != NULL)
        a->options->advance(a->options->context, a->epoch, none);
}

static void hits_put(struct analysis *a, const struct analysis_run *run)
{
    assert(run->channels == a->channels);
    if (a->running && (run->begins || run->epoch != a->epoch))
        end_epoch(a);
    if (!a->running)
        begin_epoch(a, run);
    saturation_take(&a->saturation);
    const uint64_t end = run->first_frame + run->frames;
    struct piece piece;
    for (uint64_t at = run->first_frame; piece_next(run, at, end, &piece); at = piece.until) {
        if (piece.live)
            put_live(a, run, piece.from, piece.until);
        else
            put_dead(a, run, &piece);
        const uint64_t frames = piece.until - piece.from;
        a->ledger.frames += frames;
        *(piece.live ? &a->ledger.live : &a->ledger.dead) += frames;
    }
    if (run->ends) {
        end_epoch(a);
    } else if (a->options->advance != NULL) {
        uint32_t channel;
        const uint64_t first = first_open(a, &channel);
        a->options->advance(a->options->context, a->epoch,
                            first < a->next_frame ? first : a->next_frame);
    }
}

static void hits_ledger(const struct analysis *a, struct analysis_ledger *ledger)
{
    *ledger = a->ledger;
}

/* ---- state ------------------------------------------------------------------------------- */

static bool walk_channel(struct analysis *a, uint32_t channel, struct codec *codec)
{
    struct detector_channel *detector = &a->detectors[channel];
    if (!detector_walk(detector, &a->own->rules, a->next_frame, codec) ||
        (detector->state != DETECTOR_IDLE && (!a->running || a->edge)))
        return false;
    a->limit[channel] = detector->limit;
    a->busy[channel] = detector->state != DETECTOR_IDLE ? -1 : 0;
    a->open_first[channel] = detector->state != DETECTOR_IDLE ? detector->hit.first : none;
    if (detector->state == DETECTOR_IDLE || detector->recorded == 0)
        return true;
    const uint8_t *bytes = (const uint8_t *)detector->record;
    const size_t count = detector->recorded * sizeof *detector->record;
    codec_span(codec, &bytes, count);
    if (codec_reads(codec) && bytes != NULL)
        memcpy(detector->record, bytes, count);
    return !codec->failed;
}

static bool hits_walk(struct analysis *a, struct codec *codec)
{
    uint32_t version = STATE_VERSION, channels = a->channels;
    codec_u32(codec, &version);
    codec_u32(codec, &channels);
    if (version != STATE_VERSION || channels != a->channels)
        return false;
    codec_bool(codec, &a->running);
    codec_u64(codec, &a->epoch);
    codec_u64(codec, &a->record);
    codec_u64(codec, &a->next_frame);
    codec_bool(codec, &a->edge);
    codec_u64(codec, &a->live_from);
    codec_u32(codec, &a->edge_causes);
    codec_u64(codec, &a->number);
    uint64_t *const counts[] = {
        &a->ledger.frames,   &a->ledger.live,
        &a->ledger.dead,     &a->ledger.at_once,
        &a->ledger.limited,  &a->ledger.unordered,
        &a->ledger.untraced, &a->ledger.events[ANALYSIS_HIT],
    };
    for (size_t i = 0; i < sizeof counts / sizeof counts[0]; i++)
        codec_u64(codec, counts[i]);
    if (codec->failed || a->next_frame > none / 2)
        return false;
    saturation_walk(&a->saturation, codec);
    noise_walk(&a->noise, codec);
    for (uint32_t c = 0; c < a->channels; c++)
        if (!walk_channel(a, c, codec))
            return false;
    return hit_queue_walk(a->queue, a->channels, codec) && !codec->failed;
}

/* ---- life -------------------------------------------------------------------------------- */

static void hits_close(struct analysis *a)
{
    if (a == NULL)
        return;
    hit_features_close(a->features);
    hit_queue_close(a->queue);
    saturation_close(&a->saturation);
    noise_close(&a->noise);
    free(a->detectors);
    free(a->scales);
    free(a->records);
    free(a->open_first);
    free(a->limit);
    free(a->smallest);
    free(a->largest);
    free(a->busy);
    free(a->loud);
    free(a->arms);
    free(a->complete.items);
    free(a);
}

static bool take_memory(struct analysis *a)
{
    const size_t n = a->channels, record = a->own->rules.record_frames;
    a->detectors = calloc(n, sizeof *a->detectors);
    a->scales = calloc(n, sizeof *a->scales);
    a->records = calloc(n * (record > 0 ? record : 1), sizeof *a->records);
    a->open_first = malloc(n * sizeof *a->open_first);
    a->limit = calloc(n, sizeof *a->limit);
    a->smallest = calloc(n, sizeof *a->smallest);
    a->largest = calloc(n, sizeof *a->largest);
    a->busy = calloc(n, sizeof *a->busy);
    a->loud = calloc(n, sizeof *a->loud);
    a->arms = calloc(n, sizeof *a->arms);
    a->complete.items = calloc(n, sizeof *a->complete.items);
    a->complete.capacity = a->channels;
    return a->detectors != NULL && a->scales != NULL && a->records != NULL &&
           a->open_first != NULL && a->limit != NULL && a->smallest != NULL && a->largest != NULL &&
           a->busy != NULL && a->loud != NULL && a->arms != NULL && a->complete.items != NULL &&
           saturation_open(&a->saturation, a->channels) == 0 &&
           noise_open(&a->noise, a->channels, a->own->noise_frames, a->own->floating_frames) == 0 &&
           hit_features_open(&a->own->features, &a->features) == 0 &&
           hit_queue_open(a->own->queue_blocks, a->own->transient_frames, &a->queue) == 0;
}

static int hits_open(const struct analysis_options *options, struct analysis **out,
                     struct problem *problem)
{
    struct analysis *a = calloc(1, sizeof *a);
    if (a == NULL)
        goto no_memory;
    a->options = options;
    a->own = options->own;
    a->channels = options->stream.channels;
    if (!take_memory(a))
        goto no_memory;
    const uint32_t record = a->own->rules.record_frames;
    for (uint32_t c = 0; c < a->channels; c++) {
        struct detector_channel *detector = &a->detectors[c];
        detector->channel = c;
        a->scales[c] = hit_scale_of(options->stream.units[c]);
        detector->arms = &a->arms[c];
        detector->record = record > 0 ? a->records + (size_t)c * record : NULL;
        detector->noise_rms = NAN;
        set_threshold(a, c, hit_options_threshold(options, c));
        a->open_first[c] = none;
    }
    *out = a;
    return 0;

no_memory:
    hits_close(a);
    return problem_set(
        problem, ERROR_MEMORY,
        "analysis %s: out of memory; write a smaller `release queue` or `max record`",
        options->name);
}

static uint64_t hits_memory(const struct analysis_options *options)
{
    const struct hit_options *own = options->own;
    const uint64_t a_channel = sizeof(struct detector_channel) +
                               own->rules.record_frames * sizeof(float) + 4 * sizeof(uint64_t) +
                               6 * sizeof(float) + sizeof(struct frame_heap_item) +
                               (own->noise_frames > 0 ? noise_channel_bytes : 0);
    return sizeof(struct analysis) + options->stream.channels * a_channel +
           hit_features_memory(&own->features) +
           hit_queue_memory(own->queue_blocks, own->transient_frames);
}

static uint64_t hits_history(const struct analysis_options *options)
{
    const struct hit_options *own = options->own;
    const uint64_t lead = own->rules.pre_trigger;
    return lead > 0 ? lead : own->interpolate;
}

static const struct analysis_field *hits_fields(const struct analysis_options *options,
                                                uint32_t *count)
{
    const struct hit_options *own = options->own;
    *count = own->field_count;
    return own->fields;
}

const struct analysis_ops analysis_hits = {
    .name = "hits",
    .sentence = "bursts above a threshold, with the features of acoustic emission, arrival times "
                "and transients",
    .emits = ANALYSIS_HIT,
    .options = hit_option_rows,
    .option_count = HIT_OPTION_ROWS,
    .options_bytes = sizeof(struct hit_options),
    .check = hit_options_check,
    .report = hit_options_report,
    .describe = hit_options_describe,
    .memory = hits_memory,
    .history = hits_history,
    .fields = hits_fields,
    .open = hits_open,
    .put = hits_put,
    .ledger = hits_ledger,
    .walk = hits_walk,
    .close = hits_close,
};
