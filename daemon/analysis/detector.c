/* The detector of hits on one channel: see detector.h. */
#include "analysis/detector.h"

#include <assert.h>
#include <float.h>
#include <math.h>
#include <string.h>

#include "analysis/analysis.h"
#include "analysis/column.h"

static const uint64_t never = UINT64_MAX;

/* ---- masks ------------------------------------------------------------------------------- */

static void find_masks(struct detector_channel *channel)
{
    const float *x = channel->column, limit = channel->limit;
    uint8_t above[DETECTOR_FRAMES], below_zero[DETECTOR_FRAMES], above_zero[DETECTOR_FRAMES];
    for (uint32_t i = 0; i < DETECTOR_FRAMES; i++)
        above[i] = fabsf(x[i]) > limit;
    for (uint32_t i = 0; i < DETECTOR_FRAMES; i++)
        below_zero[i] = x[i] < 0;
    for (uint32_t i = 0; i < DETECTOR_FRAMES; i++)
        above_zero[i] = x[i] > 0;
    const uint64_t all = column_mask(0, channel->frames);
    channel->above = column_gather(above) & all;
    channel->below_zero = column_gather(below_zero) & all;
    channel->above_zero = column_gather(above_zero) & all;
}

/* ---- columns ----------------------------------------------------------------------------- */

void detector_set_threshold(struct detector_channel *channel, double threshold)
{
    float limit = (float)threshold;
    if (!(limit <= FLT_MAX))
        limit = FLT_MAX;
    if ((double)limit > threshold)
        limit = nextafterf(limit, 0);
    channel->threshold = threshold;
    channel->limit = limit;
}

void detector_edge(struct detector_channel *channel, float x, uint64_t frame, uint32_t causes)
{
    assert(channel->state == DETECTOR_IDLE);
    *channel->arms = (x <= channel->limit ? DETECTOR_ARMED_POSITIVE : 0) |
                     (x >= -channel->limit ? DETECTOR_ARMED_NEGATIVE : 0);
    channel->open_from = frame;
    channel->edge_frame = frame;
    channel->edge_causes = causes;
    channel->after_timeout = never;
    channel->above_positive = x > channel->limit ? frame - 1 : never; /* no crossing there */
}

void detector_load(struct detector_channel *channel, const struct detector_input *input,
                   uint64_t saturated)
{
    const uint32_t channels = input->run->channels;
    const float *x = input->samples + channel->channel;
    for (uint32_t i = 0; i < input->frames; i++)
        channel->column[i] = x[(size_t)i * channels];
    for (uint32_t i = input->frames; i < DETECTOR_FRAMES; i++)
        channel->column[i] = 0;
    channel->first_frame = input->first_frame;
    channel->frames = input->frames;
    channel->at = channel->arms_at = channel->sums_at = channel->record_at = 0;
    channel->saturated = saturated;
    if (channel->state == DETECTOR_OPEN && channel->saturated_first == never && saturated != 0)
        channel->saturated_first = input->first_frame + column_lowest(saturated, 0);
    find_masks(channel);
}

/* ---- what follows a hit from frame to frame ---------------------------------------------- */

static void add(struct detector_sums *sums, const float *samples, uint32_t frames, float origin)
{
    double square[DETECTOR_FRAMES], magnitude[DETECTOR_FRAMES], root[DETECTOR_FRAMES];
    double d1[DETECTOR_FRAMES], d2[DETECTOR_FRAMES], d3[DETECTOR_FRAMES], d4[DETECTOR_FRAMES];
    for (uint32_t i = 0; i < frames; i++) {
        const double x = samples[i], d = x - (double)origin;
        square[i] = x * x;
        magnitude[i] = fabs(x);
        root[i] = sqrt(fabs(x));
        d1[i] = d;
        d2[i] = d * d;
        d3[i] = d * d * d;
        d4[i] = (d * d) * (d * d);
    }
    struct detector_sums s = *sums;
    for (uint32_t i = 0; i < frames; i++) {
        s.square += square[i];
        s.magnitude += magnitude[i];
        s.root += root[i];
        s.power[0] += d1[i];
        s.power[1] += d2[i];
        s.power[2] += d3[i];
        s.power[3] += d4[i];
    }
    *sums = s;
}

static void sum_until(struct detector_channel *channel, uint32_t until)
{
    if (until <= channel->sums_at)
        return;
    add(&channel->running, channel->column + channel->sums_at, until - channel->sums_at,
        channel->hit.origin);
    channel->sums_at = until;
}

/* The sums of first … last: the open hit's last frame is in this column, not yet summed. */
static void keep_sums(struct detector_channel *channel)
{
    const uint64_t last = channel->hit.last;
    if (last < channel->first_frame + channel->sums_at || last < channel->first_frame)
        return;
    sum_until(channel, (uint32_t)(last - channel->first_frame) + 1);
    channel->hit.sums = channel->running;
}

static void record_until(struct detector_channel *channel, const struct detector_rules *rules,
                         uint32_t until)
{
    if (until <= channel->record_at)
        return;
    uint32_t frames = until - channel->record_at;
    const uint32_t room = rules->record_frames - channel->recorded;
    if (frames > room)
        frames = room;
    if (frames > 0)
        memcpy(channel->record + channel->recorded, channel->column + channel->record_at,
               frames * sizeof *channel->record);
    channel->recorded += frames;
    channel->record_at = until;
}

static void set_peak(struct detector_channel *channel, uint32_t i, uint64_t counts)
{
    struct detector_hit *hit = &channel->hit;
    hit->peak = fabsf(channel->column[i]);
    hit->peak_frame = channel->first_frame + i;
    hit->positive_to_peak =
        hit->positive + (uint64_t)__builtin_popcountll(counts & column_mask(0, i + 1));
}

/* The largest |x| of frames [from, until), which begin and end above the threshold. `counts`: the
 * positive ones among them, not added to the hit yet. */
static void find_peak(struct detector_channel *channel, const struct detector_rules *rules,
                      uint32_t from, uint32_t until, uint64_t counts)
{
    struct detector_hit *hit = &channel->hit;
    const float *x = channel->column;
    if (rules->pdt > 0) {
        for (uint64_t above = channel->above & column_mask(from, until); above != 0;
             above &= above - 1) {
            const uint32_t i = column_lowest(above, 0);
            if (fabsf(x[i]) > hit->peak && channel->first_frame + i - hit->peak_frame <= rules->pdt)
                set_peak(channel, i, counts);
        }
        return;
    }
    /* As integers: those of floats without sign are in the same order, and vectors have a largest
     * one whatever the order of comparison. */
    int32_t words[DETECTOR_FRAMES], largest = 0;
    memcpy(words, x, sizeof words);
    for (uint32_t i = from; i < until; i++) {
        const int32_t word = words[i] & INT32_MAX;
        largest = word > largest ? word : largest;
    }
    float peak;
    memcpy(&peak, &largest, sizeof peak);
    if (!(peak > hit->peak))
        return;
    uint32_t i = from;
    while (fabsf(x[i]) != peak)
        i++;
    set_peak(channel, i, counts);
}

/* The arms over frames [arms_at, until). Counts and the peak go to the open hit if `in_hit`; else
 * the frames belong to none. */
static void follow(struct detector_channel *channel, const struct detector_rules *rules,
                   uint32_t until, bool in_hit)
{
    const uint32_t from = channel->arms_at;
    if (until <= from)
        return;
    const uint64_t all = column_mask(from, until), below_zero = channel->below_zero & all,
                   above_zero = channel->above_zero & all;
    /* x > threshold is also x > 0. */
    const uint64_t every_positive = channel->above & channel->above_zero;
    const uint64_t positive = every_positive & all, negative = channel->above & below_zero;
    bool armed_positive = (*channel->arms & DETECTOR_ARMED_POSITIVE) != 0;
    bool armed_negative = (*channel->arms & DETECTOR_ARMED_NEGATIVE) != 0;
    const uint64_t counts = column_counts(positive, below_zero, all, &armed_positive);
    const uint64_t opposite = column_counts(negative, above_zero, all, &armed_negative);
    *channel->arms = (armed_positive ? DETECTOR_ARMED_POSITIVE : 0) |
                     (armed_negative ? DETECTOR_ARMED_NEGATIVE : 0);
    channel->arms_at = until;
    if (in_hit) {
        struct detector_hit *hit = &channel->hit;
        const bool was_above = channel->above_positive + 1 == channel->first_frame;
        const uint64_t crossings = positive & ~(every_positive << 1 | (was_above ? 1 : 0));
        find_peak(channel, rules, from, until, counts);
        hit->positive += (uint64_t)__builtin_popcountll(counts);
        hit->negative += (uint64_t)__builtin_popcountll(opposite);
        hit->crossings += (uint64_t)__builtin_popcountll(crossings);
    }
}

/* The column is at its end: what the next one needs of it. */
static void leave_column(struct detector_channel *channel, const struct detector_rules *rules)
{
    follow(channel, rules, channel->frames, false);
    const uint64_t positive = channel->above & channel->above_zero;
    if (positive != 0)
        channel->above_positive = channel->first_frame + column_highest(positive);
}

/* ---- begin ------------------------------------------------------------------------------- */

/* Copies what lies before frame i into the record. */
static void record_lead(struct detector_channel *channel, const struct detector_rules *rules,
                        const struct detector_input *input, uint32_t i)
{
    struct detector_hit *hit = &channel->hit;
    const uint64_t lies = input->lead + i;
    const size_t channels = input->run->channels;
    uint32_t lead = rules->pre_trigger;
    if (lies < lead) {
        lead = (uint32_t)lies;
        if (input->lead_causes != 0) {
            hit->flags |= ANALYSIS_INCOMPLETE;
            hit->causes |= input->lead_causes;
        }
    }
    const float *x = input->samples + channel->channel;
    if (lies > 0)
        hit->before = x[((ptrdiff_t)i - 1) * (ptrdiff_t)channels];
    hit->lead = lead;
    channel->recorded = 0;
    if (rules->record_frames > 0) {
        for (uint32_t k = 0; k < lead; k++)
            channel->record[k] = x[((ptrdiff_t)i - (ptrdiff_t)lead + k) * (ptrdiff_t)channels];
        channel->recorded = lead;
    }
    channel->record_at = i;
}

static void begin(struct detector_channel *channel, const struct detector_rules *rules,
                  const struct detector_input *input, uint32_t i)
{
    const uint64_t frame = channel->first_frame + i;
    const struct analysis_run *run = input->run;
    channel->hit = (struct detector_hit){
        .first = frame,
        .last = frame,
        .peak_frame = frame,
        .origin = channel->column[i],
        .threshold = channel->threshold,
        .noise_rms = channel->noise_rms,
        .run_frame = run->first_frame,
        .run_capture_ns = run->capture_ns,
        .clock = run->clock,
        .clock_error_ns = run->clock_error_ns,
        .delay_frames = run->aligned ? 0 : run->delay_frames,
    };
    struct detector_hit *hit = &channel->hit;
    if (frame == channel->edge_frame) {
        hit->flags |= ANALYSIS_EDGE;
        hit->causes |= channel->edge_causes;
    }
    if (frame == channel->after_timeout)
        hit->flags |= ANALYSIS_AFTER_TIMEOUT;
    const uint64_t later = channel->saturated & column_mask(i, channel->frames);
    channel->saturated_first = later != 0 ? channel->first_frame + column_lowest(later, 0) : never;
    record_lead(channel, rules, input, i);
    channel->running = (struct detector_sums){.square = 0};
    channel->sums_at = i;
    follow(channel, rules, i, false);
    follow(channel, rules, i + 1, true);
    channel->at = i + 1;
    channel->state = DETECTOR_OPEN;
}

/* ---- end --------------------------------------------------------------------------------- */

/* The record of a hit reaches post_duration behind its last frame, at most. */
static void complete(struct detector_channel *channel, const struct detector_rules *rules,
                     uint64_t frame)
{
    struct detector_hit *hit = &channel->hit;
    const uint64_t wanted = hit->lead + (hit->last - hit->first) + 1 + rules->post_duration;
    hit->record_frames = channel->recorded < wanted ? channel->recorded : (uint32_t)wanted;
    if (channel->saturated_first <= hit->last)
        hit->flags |= ANALYSIS_SATURATED;
    channel->completed = frame;
    channel->state = DETECTOR_COMPLETE;
}

/* Behind the last frame that the record of an ended hit has room and use for. */
static uint64_t record_end(const struct detector_channel *channel,
                           const struct detector_rules *rules)
{
    const struct detector_hit *hit = &channel->hit;
    if (rules->record_frames == 0)
        return 0;
    const uint64_t full = hit->first + (rules->record_frames - hit->lead);
    const uint64_t wanted = hit->last + rules->post_duration + 1;
    return full < wanted ? full : wanted;
}

/* The hit ends with frame `end`, whose column is loaded up to it at least. */
static void end_hit(struct detector_channel *channel, const struct detector_rules *rules,
                    uint64_t end)
{
    struct detector_hit *hit = &channel->hit;
    const uint32_t until = (uint32_t)(end + 1 - channel->first_frame);
    keep_sums(channel);
    sum_until(channel, until);
    const struct detector_sums *window = rules->energy_to_end ? &channel->running : &hit->sums;
    hit->window_square = window->square;
    hit->window_magnitude = window->magnitude;
    record_until(channel, rules, until);
    hit->end = end;
    channel->at = until;
    if (hit->last + rules->hdt > end) {
        hit->flags |= ANALYSIS_TIMEOUT;
        channel->open_from = channel->after_timeout = end + 1;
    } else {
        channel->open_from = end + rules->hlt + 1;
    }
    if (record_end(channel, rules) > end + 1)
        channel->state = DETECTOR_POST;
    else
        complete(channel, rules, end);
}

static void scan_open(struct detector_channel *channel, const struct detector_rules *rules)
{
    struct detector_hit *hit = &channel->hit;
    const uint64_t first = channel->first_frame, limit = hit->first + rules->max_duration - 1;
    const uint64_t starts = column_starts(channel->above, rules->hdt);
    for (;;) {
        const uint64_t quiet = hit->last + rules->hdt, end = quiet < limit ? quiet : limit;
        const uint32_t i = column_lowest(channel->above & column_mask(channel->at, channel->frames),
                                         channel->frames);
        if (end < first + i) {
            end_hit(channel, rules, end);
            return;
        }
        if (i == channel->frames)
            break;
        /* All up to the next gap that is longer than HDT, or up to the longest duration. */
        uint32_t until =
            column_lowest(starts & column_mask(i + 1, channel->frames), channel->frames);
        if (limit < first + until)
            until = (uint32_t)(limit - first) + 1;
        const uint64_t group = channel->above & column_mask(i, until);
        const uint32_t last = column_highest(group);
        follow(channel, rules, last + 1, true);
        hit->last = first + last;
        channel->at = last + 1;
    }
    keep_sums(channel);
    sum_until(channel, channel->frames);
    record_until(channel, rules, channel->frames);
    channel->at = channel->frames;
}

/* The next frame of the column at which a hit may begin and does; `frames`: there is none. */
static uint32_t next_begin(const struct detector_channel *channel)
{
    const uint64_t first = channel->first_frame;
    uint32_t from = channel->at;
    if (channel->open_from > first + from)
        from = channel->open_from < first + channel->frames ? (uint32_t)(channel->open_from - first)
                                                            : channel->frames;
    return column_lowest(channel->above & column_mask(from, channel->frames), channel->frames);
}

/* Until the record is complete, or the next hit begins, which cuts it off. */
static void scan_post(struct detector_channel *channel, const struct detector_rules *rules)
{
    const uint64_t first = channel->first_frame, until = record_end(channel, rules);
    const uint32_t i = next_begin(channel);
    const uint32_t stop = until < first + i ? (uint32_t)(until - first) : i;
    record_until(channel, rules, stop);
    channel->at = stop;
    if (until <= first + i)
        complete(channel, rules, until - 1);
    else if (i < channel->frames)
        complete(channel, rules, first + i);
}

bool detector_scan(struct detector_channel *channel, const struct detector_rules *rules,
                   const struct detector_input *input)
{
    assert(channel->state != DETECTOR_COMPLETE);
    for (;;) {
        if (channel->state == DETECTOR_OPEN)
            scan_open(channel, rules);
        if (channel->state == DETECTOR_POST)
            scan_post(channel, rules);
        if (channel->state == DETECTOR_COMPLETE)
            return true;
        const uint32_t i = next_begin(channel);
        if (channel->state != DETECTOR_IDLE || i == channel->frames) {
            leave_column(channel, rules);
            return false;
        }
        begin(channel, rules, input, i);
    }
}

bool detector_cut(struct detector_channel *channel, const struct detector_rules *rules,
                  uint64_t frame, uint32_t causes)
{
    struct detector_hit *hit = &channel->hit;
    if (channel->state == DETECTOR_IDLE)
        return false;
    hit->causes |= causes;
    if (channel->state == DETECTOR_OPEN) {
        const struct detector_sums *window = rules->energy_to_end ? &channel->running : &hit->sums;
        hit->window_square = window->square;
        hit->window_magnitude = window->magnitude;
        hit->flags |= ANALYSIS_CUT;
        hit->end = frame - 1;
    } else if (causes != 0) {
        hit->flags |= ANALYSIS_INCOMPLETE;
    }
    complete(channel, rules, frame);
    return true;
}

void detector_take(struct detector_channel *channel)
{
    assert(channel->state == DETECTOR_COMPLETE);
    channel->state = DETECTOR_IDLE;
}

/* ---- state ------------------------------------------------------------------------------- */

static void walk_u32(struct codec *codec, uint32_t *value, uint32_t most, bool *sound)
{
    codec_u32(codec, value);
    *sound &= *value <= most;
}

static void walk_float(struct codec *codec, float *value)
{
    double wide = (double)*value;
    codec_f64(codec, &wide);
    *value = (float)wide;
}

static void walk_sums(struct codec *codec, struct detector_sums *sums)
{
    codec_f64(codec, &sums->square);
    codec_f64(codec, &sums->magnitude);
    codec_f64(codec, &sums->root);
    for (int i = 0; i < 4; i++)
        codec_f64(codec, &sums->power[i]);
}

static bool walk_hit(struct detector_hit *hit, const struct detector_rules *rules,
                     struct codec *codec)
{
    bool sound = true;
    uint64_t *const numbers[] = {
        &hit->first,     &hit->last,     &hit->end,       &hit->peak_frame,
        &hit->positive,  &hit->negative, &hit->crossings, &hit->positive_to_peak,
        &hit->run_frame,
    };
    for (size_t i = 0; i < sizeof numbers / sizeof numbers[0]; i++)
        codec_u64(codec, numbers[i]);
    walk_float(codec, &hit->peak);
    walk_float(codec, &hit->origin);
    walk_float(codec, &hit->before);
    walk_sums(codec, &hit->sums);
    codec_f64(codec, &hit->window_square);
    codec_f64(codec, &hit->window_magnitude);
    codec_f64(codec, &hit->threshold);
    codec_f64(codec, &hit->noise_rms);
    codec_u32(codec, &hit->flags);
    codec_u32(codec, &hit->causes);
    walk_u32(codec, &hit->lead, rules->pre_trigger, &sound);
    codec_i64(codec, &hit->run_capture_ns);
    codec_i64(codec, &hit->clock_error_ns);
    uint32_t clock = hit->clock;
    walk_u32(codec, &clock, CLOCK_SOURCES - 1, &sound);
    hit->clock = clock;
    codec_f64(codec, &hit->delay_frames);
    return sound && hit->first <= hit->last && hit->last - hit->first < rules->max_duration;
}

bool detector_walk(struct detector_channel *channel, const struct detector_rules *rules,
                   uint64_t next_frame, struct codec *codec)
{
    bool sound = true;
    uint32_t state = channel->state;
    walk_u32(codec, &state, DETECTOR_POST, &sound);
    channel->state = state;
    uint32_t arms = (uint32_t)*channel->arms;
    walk_u32(codec, &arms, DETECTOR_ARMED_POSITIVE | DETECTOR_ARMED_NEGATIVE, &sound);
    *channel->arms = (int32_t)arms;
    codec_u64(codec, &channel->open_from);
    codec_u64(codec, &channel->edge_frame);
    codec_u32(codec, &channel->edge_causes);
    codec_u64(codec, &channel->after_timeout);
    codec_u64(codec, &channel->above_positive);
    double threshold = channel->threshold;
    codec_f64(codec, &threshold);
    sound &= threshold >= 0;
    codec_f64(codec, &channel->noise_rms);
    if (!sound || codec->failed)
        return false;
    detector_set_threshold(channel, threshold);
    if (channel->state == DETECTOR_IDLE)
        return true;
    struct detector_hit *hit = &channel->hit;
    sound = walk_hit(hit, rules, codec);
    walk_sums(codec, &channel->running);
    codec_u64(codec, &channel->saturated_first);
    walk_u32(codec, &channel->recorded, rules->record_frames, &sound);
    if (!sound || codec->failed || hit->last >= next_frame)
        return false;
    /* What is open reaches beyond the frames seen, and the record holds all of them that it can. */
    const uint64_t limit = hit->first + rules->max_duration - 1;
    const uint64_t quiet = hit->last + rules->hdt;
    if (channel->state == DETECTOR_OPEN && (quiet < next_frame || limit < next_frame))
        return false;
    if (channel->state == DETECTOR_POST && record_end(channel, rules) <= next_frame)
        return false;
    const uint64_t lies = hit->lead + (next_frame - hit->first);
    return channel->recorded == (lies < rules->record_frames ? lies : rules->record_frames);
}
