/* The detector of hits on one channel: see detector.h. */
#include "analysis/detector.h"

#include <assert.h>
#include <float.h>
#include <math.h>
#include <string.h>

#include "analysis/analysis.h"

static const uint64_t never = UINT64_MAX;

/* ---- masks ------------------------------------------------------------------------------- */

/* Frames [from, until) of a column. */
static uint64_t mask(uint32_t from, uint32_t until)
{
    if (from >= until)
        return 0;
    return ~(uint64_t)0 << from & ~(uint64_t)0 >> (DETECTOR_FRAMES - until);
}

static uint32_t lowest(uint64_t bits, uint32_t none)
{
    return bits != 0 ? (uint32_t)__builtin_ctzll(bits) : none;
}

/* One bit of each of 64 bytes that are 0 or 1; byte k of a word becomes bit k. */
static uint64_t gather(const uint8_t bytes[DETECTOR_FRAMES])
{
    uint64_t bits = 0;
    for (uint32_t i = 0; i < DETECTOR_FRAMES; i += 8) {
        uint64_t word = 0;
        for (uint32_t k = 0; k < 8; k++)
            word |= (uint64_t)bytes[i + k] << (8 * k);
        bits |= (word * 0x0102040810204080u >> 56) << i;
    }
    return bits;
}

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
    const uint64_t all = mask(0, channel->frames);
    channel->above = gather(above) & all;
    channel->below_zero = gather(below_zero) & all;
    channel->above_zero = gather(above_zero) & all;
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
                   uint64_t saturated, uint64_t saturated_before)
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
    channel->saturated_before = saturated_before;
    if (channel->state == DETECTOR_OPEN && channel->saturated_first == never && saturated != 0)
        channel->saturated_first = input->first_frame + lowest(saturated, 0);
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

/* The arms over frames [arms_at, until). Counts and the peak go to `hit`; NULL: the frames belong
 * to none. */
static void follow(struct detector_channel *channel, const struct detector_rules *rules,
                   uint32_t until, struct detector_hit *hit)
{
    uint32_t arms = *channel->arms, from = channel->arms_at;
    for (uint64_t above = channel->above & mask(from, until); above != 0; above &= above - 1) {
        const uint32_t i = lowest(above, 0);
        const uint64_t between = mask(from, i), frame = channel->first_frame + i;
        if (channel->below_zero & between)
            arms |= DETECTOR_ARMED_POSITIVE;
        if (channel->above_zero & between)
            arms |= DETECTOR_ARMED_NEGATIVE;
        const bool positive = channel->column[i] > 0;
        const uint32_t spent = positive ? DETECTOR_ARMED_POSITIVE : DETECTOR_ARMED_NEGATIVE;
        const bool counts = (arms & spent) != 0;
        const bool crosses = positive && channel->above_positive + 1 != frame;
        if (positive)
            channel->above_positive = frame;
        /* x > threshold is also x > 0, which sets the other arm. */
        arms = (DETECTOR_ARMED_POSITIVE | DETECTOR_ARMED_NEGATIVE) & ~spent;
        from = i + 1;
        if (hit == NULL)
            continue;
        hit->positive += counts && positive;
        hit->negative += counts && !positive;
        hit->crossings += crosses;
        const float magnitude = fabsf(channel->column[i]);
        if (magnitude > hit->peak && (rules->pdt == 0 || frame - hit->peak_frame <= rules->pdt)) {
            hit->peak = magnitude;
            hit->peak_frame = frame;
            hit->positive_to_peak = hit->positive;
        }
    }
    const uint64_t between = mask(from, until);
    if (channel->below_zero & between)
        arms |= DETECTOR_ARMED_POSITIVE;
    if (channel->above_zero & between)
        arms |= DETECTOR_ARMED_NEGATIVE;
    if (until > channel->arms_at)
        channel->arms_at = until;
    *channel->arms = arms;
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
    const uint64_t saturated = channel->saturated & mask(0, i);
    channel->saturated_lead = saturated != 0 ? channel->first_frame + DETECTOR_FRAMES -
                                                   (uint64_t)__builtin_clzll(saturated)
                                             : channel->saturated_before;
    const uint64_t later = channel->saturated & mask(i, channel->frames);
    channel->saturated_first = later != 0 ? channel->first_frame + lowest(later, 0) : never;
    record_lead(channel, rules, input, i);
    channel->running = (struct detector_sums){.square = 0};
    channel->sums_at = i;
    follow(channel, rules, i, NULL);
    follow(channel, rules, i + 1, hit);
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
    if ((channel->saturated_lead != 0 &&
         channel->saturated_lead - 1 + rules->settling >= hit->first) ||
        channel->saturated_first <= hit->last)
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
    const uint64_t limit = hit->first + rules->max_duration - 1;
    for (;;) {
        const uint64_t quiet = hit->last + rules->hdt, end = quiet < limit ? quiet : limit;
        const uint32_t i =
            lowest(channel->above & mask(channel->at, channel->frames), channel->frames);
        if (end < channel->first_frame + i) {
            end_hit(channel, rules, end);
            return;
        }
        if (i == channel->frames)
            break;
        /* Where no gap can be longer than HDT, all samples above of the column belong to the hit,
         * up to its longest duration. */
        uint32_t last = i;
        if (rules->hdt >= DETECTOR_FRAMES && limit >= channel->first_frame + channel->frames)
            last = DETECTOR_FRAMES - 1 - (uint32_t)__builtin_clzll(channel->above);
        follow(channel, rules, last + 1, hit);
        hit->last = channel->first_frame + last;
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
    return lowest(channel->above & mask(from, channel->frames), channel->frames);
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
            follow(channel, rules, channel->frames, NULL);
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
    walk_u32(codec, channel->arms, DETECTOR_ARMED_POSITIVE | DETECTOR_ARMED_NEGATIVE, &sound);
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
    codec_u64(codec, &channel->saturated_lead);
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
