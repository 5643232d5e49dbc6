/*
 * Analysis `ascan`: shots of a pulse-echo measurement averaged into one A-scan, and the echoes in
 * its gates.
 *
 * A shot is a record, or with `period` the frames from one pulse to the next. Its A-scan is read
 * where it lies, once its last frame has come: nothing is copied, and a shot with an invalid frame
 * is left out whole. Shots are grouped by their number (that of the record, or of the period in the
 * epoch): every K of them give one result, which tells how many it rests on. So a lost shot delays
 * nothing, and of a pair of codes each stays with its filter.
 *
 * Sums are taken in double, shot by shot.
 */
#include <assert.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "analysis/analyses.h"
#include "analysis/ascan_options.h"
#include "analysis/pieces.h"
#include "analysis/stamp.h"
#include "analysis/validity.h"

struct analysis {
    const struct analysis_options *options;
    const struct ascan_options *own;
    uint32_t channels, range;
    uint64_t first; /* frame of the first shot's first sample, in the epoch */
    double *levels; /* [channels][gates] */
    double *gains;  /* [range], of time of flight 0 at `gains_zero` samples */
    double gains_zero;
    double *trace;  /* [range] */
    float *samples; /* [range], what the event carries */

    struct validity validity;
    bool running; /* an epoch is */
    uint64_t epoch, record;
    uint64_t next;       /* frame that comes next */
    uint64_t shot;       /* of the epoch: the one that is open, or comes next */
    bool complete;       /* the epoch's only shot is (no period) */
    struct stamp opened; /* of its first sample, once that has come */

    /* The group: shots whose numbers divided by those of a result are equal. */
    uint64_t group;
    uint32_t averages[2]; /* shots that are summed, of each code */
    uint32_t dead;
    uint32_t causes;
    struct stamp stamp; /* of the first that is summed */
    double *sums;       /* [range][channels] */
    bool *saturated;    /* [channels] */
    struct analysis_ledger ledger;
};

/* ---- results ----------------------------------------------------------------------------- */

static void prepare_gains(struct analysis *a, double zero)
{
    if (zero == a->gains_zero)
        return;
    for (uint32_t i = 0; i < a->range; i++)
        a->gains[i] = ascan_gain_at(a->own, (i - zero) / a->options->stream.rate_hz);
    a->gains_zero = zero;
}

/* The average of a channel, or of a pair of codes the sum of both averages, behind the gain. */
static double make_trace(struct analysis *a, uint32_t channel)
{
    double peak = 0;
    const double *sums = a->sums + channel;
    for (uint32_t i = 0; i < a->range; i++, sums += a->channels) {
        double x = sums[0] / a->averages[0];
        if (a->own->golay)
            x += sums[1] / a->averages[1];
        x *= a->gains[i];
        a->trace[i] = x;
        a->samples[i] = (float)x;
        peak = fmax(peak, fabs(x));
    }
    return peak;
}

/* Half the way in the time of flight [mm]. */
static double path_mm(const struct ascan_options *own, double time_s)
{
    return own->velocity > 0 ? own->velocity * time_s / 2 * 1e3 : NAN;
}

static void read_gates(const struct analysis *a, uint32_t channel, double zero, struct ascan *ascan)
{
    const struct ascan_options *own = a->own;
    const double rate = a->options->stream.rate_hz, probe_s = (double)own->probe_ns * 1e-9;
    const struct gate_trace trace = {a->trace, a->range, zero, own->rectify};
    struct gate_echo echoes[ASCAN_GATES_MAX];
    for (uint32_t g = 0; g < own->gate_count; g++) {
        const struct gate *gate = &own->gates[g];
        const double level = a->levels[channel * own->gate_count + g];
        echoes[g] = gate_find(gate, &trace, gate->after < 0 ? 0 : echoes[gate->after].time, level);
        const double time_s = echoes[g].time / rate;
        const double path = path_mm(own, time_s - probe_s), s = own->separation_m / 2 * 1e3;
        ascan->amplitude[g] = echoes[g].height;
        ascan->above_db[g] = echoes[g].height > 0 ? 20 * log10(echoes[g].height / level) : NAN;
        ascan->time_us[g] = time_s * 1e6;
        ascan->path_mm[g] = path;
        ascan->depth_mm[g] = s > 0 && path >= s ? sqrt(path * path - s * s) : NAN;
        ascan->alarm[g] = gate_alarms(gate, &echoes[g]);
    }
    const int from = own->thickness[0], to = own->thickness[1];
    if (to >= 0)
        ascan->thickness_mm =
            path_mm(own, echoes[to].time / rate - (from >= 0 ? echoes[from].time / rate : probe_s));
}

static void emit(struct analysis *a, uint32_t channel)
{
    const struct ascan_options *own = a->own;
    const double rate = a->options->stream.rate_hz;
    const double zero = ascan_zero(own, a->stamp.delay_frames) - (double)a->first;
    struct ascan ascan = {
        .shots = (uint32_t)ascan_shots(own),
        .averages = a->averages[0] + a->averages[1],
        .dead = a->dead,
        .start_us = (0 - zero) / rate * 1e6,
        .thickness_mm = NAN,
    };
    prepare_gains(a, zero);
    ascan.peak = make_trace(a, channel);
    read_gates(a, channel, zero, &ascan);
    struct analysis_event event = {
        .kind = ANALYSIS_ASCAN,
        .ordered = true,
        .number = ++a->ledger.events[ANALYSIS_ASCAN],
        .channel = channel,
        .flags = (ascan.averages < ascan.shots ? ANALYSIS_INCOMPLETE : 0) |
                 (a->saturated[channel] ? ANALYSIS_SATURATED : 0),
        .causes = a->causes,
        .body = &ascan,
        .body_bytes = sizeof ascan,
        .samples = a->samples,
        .sample_count = a->range,
    };
    stamp_event(&a->stamp, rate, &event);
    a->options->emit(a->options->context, &event);
}

/* ---- groups ------------------------------------------------------------------------------ */

static void clear_group(struct analysis *a)
{
    a->averages[0] = a->averages[1] = a->dead = a->causes = 0;
    memset(a->sums, 0, (size_t)a->range * a->channels * sizeof *a->sums);
    memset(a->saturated, 0, a->channels * sizeof *a->saturated);
}

/* A result needs a shot, of a pair of codes one of each. */
static void end_group(struct analysis *a)
{
    const bool golay = a->own->golay;
    if (a->averages[0] > 0 && (!golay || a->averages[1] > 0))
        for (uint32_t c = 0; c < a->channels; c += golay ? 2 : 1)
            emit(a, c);
    if (a->averages[0] + a->averages[1] + a->dead > 0)
        clear_group(a);
}

/* The number that groups shots: of a record those of all records, else those of the epoch. */
static uint64_t shot_number(const struct analysis *a)
{
    return a->own->period_frames > 0 ? a->shot : a->record;
}

/* Adds samples[range][channels]; of a pair of codes the channels of this one's filter. */
static void add_shot(struct analysis *a, const float *samples, uint32_t code)
{
    const size_t count = (size_t)a->range * a->channels;
    if (a->averages[0] + a->averages[1] == 0)
        a->stamp = a->opened;
    a->averages[code]++;
    if (!a->own->golay) {
        for (size_t i = 0; i < count; i++)
            a->sums[i] += samples[i];
        return;
    }
    for (size_t i = code; i < count; i += 2)
        a->sums[i] += samples[i];
}

/* The open shot is over: `samples` are its A-scan, NULL: it is dead of `causes`. */
static void end_shot(struct analysis *a, const float *samples, uint64_t from, uint32_t causes)
{
    const uint64_t shots = ascan_shots(a->own), number = shot_number(a);
    if (number / shots != a->group)
        end_group(a);
    a->group = number / shots;
    if (samples != NULL) {
        add_shot(a, samples, a->own->golay ? number % 2 : 0);
        for (uint32_t c = 0; c < a->channels; c++) {
            /* A pair's flag is that of its first channel. */
            const uint32_t flagged = a->own->golay ? c - c % 2 : c;
            a->saturated[flagged] =
                a->saturated[flagged] || validity_saturated(&a->validity, c, from);
        }
    } else {
        a->dead++;
        a->causes |= causes;
    }
    if (number % shots == shots - 1)
        end_group(a);
    a->shot++;
    a->complete = a->own->period_frames == 0;
}

/* ---- frames ------------------------------------------------------------------------------ */

static uint64_t shot_frame(const struct analysis *a)
{
    return a->first + a->shot * a->own->period_frames;
}

/* Whole periods only: the last shot of an epoch may be cut, and is dead then. */
static void end_epoch(struct analysis *a)
{
    if (!a->running)
        return;
    if (!a->complete && (a->own->period_frames == 0 || shot_frame(a) < a->next))
        end_shot(a, NULL, shot_frame(a), validity_causes(&a->validity, shot_frame(a)));
    if (a->own->period_frames > 0)
        end_group(a);
    a->running = false;
}

static void begin_epoch(struct analysis *a, const struct analysis_run *run)
{
    end_epoch(a);
    a->running = true;
    a->epoch = run->epoch;
    a->record = run->record;
    a->next = run->first_frame;
    a->shot = 0;
    a->complete = false;
    validity_begin(&a->validity);
    /* Joined on the way: the shots before are not known, the record's one is cut. */
    if (run->first_frame > a->first) {
        const uint64_t period = a->own->period_frames, missed = run->first_frame - a->first;
        if (period > 0)
            a->shot = (missed + period - 1) / period;
        else
            end_shot(a, NULL, a->first, 0);
    }
}

static void count(struct analysis *a, const struct analysis_run *run)
{
    struct piece piece;
    for (uint64_t at = run->first_frame; piece_next(run, at, UINT64_MAX, &piece);
         at = piece.until) {
        const uint64_t frames = piece.until - piece.from;
        a->ledger.frames += frames;
        *(piece.live ? &a->ledger.live : &a->ledger.dead) += frames;
    }
}

static void ascans_put(struct analysis *a, const struct analysis_run *run)
{
    const uint64_t end = run->first_frame + run->frames;
    if (run->begins || !a->running || run->epoch != a->epoch)
        begin_epoch(a, run);
    assert(run->frames == 0 || run->first_frame == a->next);
    count(a, run);
    while (!a->complete && shot_frame(a) < end) {
        const uint64_t from = shot_frame(a), until = from + a->range;
        if (from >= run->first_frame)
            a->opened = stamp_of(run, from, a->options->stream.rate_hz);
        if (until > end)
            break;
        validity_take(&a->validity, run, until);
        const uint32_t causes = validity_causes(&a->validity, from);
        const bool there = run->samples != NULL && from + run->history >= run->first_frame;
        end_shot(a,
                 causes == 0 && there ? run->samples + ((int64_t)from - (int64_t)run->first_frame) *
                                                           (int64_t)a->channels
                                      : NULL,
                 from, causes);
    }
    validity_take(&a->validity, run, end);
    a->next = end;
    if (a->options->advance != NULL) {
        const bool summed = a->averages[0] + a->averages[1] > 0;
        a->options->advance(a->options->context, summed ? a->stamp.epoch : a->epoch,
                            summed        ? a->stamp.frame
                            : a->complete ? UINT64_MAX
                                          : shot_frame(a));
    }
    if (run->ends)
        end_epoch(a);
}

/* ---- state and life ---------------------------------------------------------------------- */

enum { STATE_VERSION = 1 };

static bool ascans_walk(struct analysis *a, struct codec *codec)
{
    uint32_t version = STATE_VERSION, channels = a->channels, range = a->range;
    codec_u32(codec, &version);
    codec_u32(codec, &channels);
    codec_u32(codec, &range);
    if (version != STATE_VERSION || channels != a->channels || range != a->range)
        return false;
    validity_walk(&a->validity, codec);
    codec_bool(codec, &a->running);
    codec_u64(codec, &a->epoch);
    codec_u64(codec, &a->record);
    codec_u64(codec, &a->next);
    codec_u64(codec, &a->shot);
    codec_bool(codec, &a->complete);
    bool known = stamp_walk(&a->opened, codec);
    codec_u64(codec, &a->group);
    codec_u32(codec, &a->averages[0]);
    codec_u32(codec, &a->averages[1]);
    codec_u32(codec, &a->dead);
    codec_u32(codec, &a->causes);
    known = stamp_walk(&a->stamp, codec) && known;
    for (uint32_t c = 0; c < a->channels; c++)
        codec_bool(codec, &a->saturated[c]);
    /* Sums are zeros until a shot is summed. */
    const size_t count = a->averages[0] + a->averages[1] > 0 ? (size_t)a->range * a->channels : 0;
    for (size_t i = 0; i < count && !codec->failed; i++)
        codec_f64(codec, &a->sums[i]);
    codec_u64(codec, &a->ledger.frames);
    codec_u64(codec, &a->ledger.live);
    codec_u64(codec, &a->ledger.dead);
    codec_u64(codec, &a->ledger.events[ANALYSIS_ASCAN]);
    const uint64_t period = a->own->period_frames > 0 ? a->own->period_frames : 1;
    return !codec->failed && known && a->shot <= UINT64_MAX / 4 / period &&
           a->averages[0] <= a->own->averages && a->averages[1] <= a->own->averages &&
           (uint64_t)a->averages[0] + a->averages[1] + a->dead <= ascan_shots(a->own);
}

static void ascans_ledger(const struct analysis *a, struct analysis_ledger *ledger)
{
    *ledger = a->ledger;
}

static void ascans_close(struct analysis *a)
{
    if (a == NULL)
        return;
    validity_close(&a->validity);
    free(a->levels);
    free(a->gains);
    free(a->trace);
    free(a->samples);
    free(a->sums);
    free(a->saturated);
    free(a);
}

static int ascans_open(const struct analysis_options *options, struct analysis **out,
                       struct problem *problem)
{
    const struct ascan_options *own = options->own;
    const struct analysis_stream *stream = &options->stream;
    const size_t gates = own->gate_count, channels = stream->channels, range = own->range_frames;
    if (ascan_unsettled(options) > 0)
        return problem_set(
            problem, ERROR_CONFIG,
            "analysis %s: the filter of %u taps settles %llu frames behind the start "
            "of every A-scan, so that there would be none; write `from` so much "
            "later, or let records begin so much earlier",
            options->name, stream->taps_longest, (unsigned long long)ascan_unsettled(options));
    struct analysis *a = calloc(1, sizeof *a);
    if (a == NULL)
        goto no_memory;
    a->options = options;
    a->own = own;
    a->channels = stream->channels;
    a->range = own->range_frames;
    a->first = ascan_first(options);
    a->gains_zero = NAN;
    a->levels = calloc(channels * gates + 1, sizeof *a->levels);
    a->gains = calloc(range, sizeof *a->gains);
    a->trace = calloc(range, sizeof *a->trace);
    a->samples = calloc(range, sizeof *a->samples);
    a->sums = calloc(range * channels, sizeof *a->sums);
    a->saturated = calloc(channels, sizeof *a->saturated);
    if (validity_open(&a->validity, a->channels) != 0 || a->levels == NULL || a->gains == NULL ||
        a->trace == NULL || a->samples == NULL || a->sums == NULL || a->saturated == NULL)
        goto no_memory;
    for (size_t c = 0; c < channels; c++)
        for (size_t g = 0; g < gates; g++) {
            const struct level_scale scale = analysis_scale(stream, (uint32_t)c);
            gate_level(NULL, &own->lines[g], &scale, &a->levels[c * gates + g]);
        }
    *out = a;
    return 0;

no_memory:
    ascans_close(a);
    return problem_set(problem, ERROR_MEMORY, "analysis %s: out of memory", options->name);
}

static uint64_t ascans_memory(const struct analysis_options *options)
{
    const struct ascan_options *own = options->own;
    const uint64_t channels = options->stream.channels, range = own->range_frames;
    return sizeof(struct analysis) + range * (channels + 2) * sizeof(double) +
           range * sizeof(float) +
           channels * ((own->gate_count + 1) * sizeof(double) + sizeof(uint64_t) + sizeof(bool));
}

static uint64_t ascans_history(const struct analysis_options *options)
{
    const struct ascan_options *own = options->own;
    return own->range_frames;
}

static const struct analysis_field *ascans_fields(const struct analysis_options *options,
                                                  uint32_t *count)
{
    const struct ascan_options *own = options->own;
    *count = own->field_count;
    return own->fields;
}

static uint64_t result_frames(const struct analysis_options *options)
{
    const struct ascan_options *own = options->own;
    return own->period_frames > 0
               ? (uint64_t)((double)own->period_frames * (double)ascan_shots(own))
               : 0;
}

const struct analysis_ops analysis_ascan = {
    .name = "ascan",
    .sentence = "averaged A-scans and the echoes in their gates: heights, times, thickness, depth",
    .emits = ANALYSIS_ASCAN,
    .options = ascan_option_rows,
    .option_count = ASCAN_OPTION_ROWS,
    .options_bytes = sizeof(struct ascan_options),
    .check = ascan_options_check,
    .report = ascan_options_report,
    .result_frames = result_frames,
    .describe = ascan_options_describe,
    .memory = ascans_memory,
    .history = ascans_history,
    .fields = ascans_fields,
    .open = ascans_open,
    .put = ascans_put,
    .ledger = ascans_ledger,
    .walk = ascans_walk,
    .close = ascans_close,
};
