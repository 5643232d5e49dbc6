/* Playback follow: see playback_follow.h. */
#include "io/sound/playback_follow.h"

#include <assert.h>
#include <samplerate.h>
#include <stdlib.h>

#include "io/sound/clock_follow.h"

enum { SPARE_FRAMES = 16, PROBE_FRAMES = 1024 };

struct playback_follow {
    uint32_t channels, held_frames;
    double rate_hz;
    SRC_STATE *resampler;
    float *out; /* [FOLLOW_CHUNK_FRAMES + held + SPARE_FRAMES][channels] */
    uint32_t out_capacity;
    struct clock_follow clock;
    bool set; /* the first put has set the three below and reset `clock` */
    uint64_t latency_frames;
    uint32_t put_frames, period_frames;
    bool running, dropping;
    uint64_t expected; /* timeline frame of the next put */
    uint64_t next;     /* card frame of the next converted frame */
    bool first;        /* nothing has been converted since the restart */
    double speed;
    uint64_t underruns, overruns;
};

/* Measures how many input frames the resampler holds: libsamplerate does not tell. */
static int measure_held(struct playback_follow *follow)
{
    float *silence = calloc((size_t)PROBE_FRAMES * 2 * follow->channels, sizeof *silence);
    if (silence == NULL)
        return ERROR_MEMORY;
    SRC_DATA data = {.data_in = silence,
                     .data_out = silence + (size_t)PROBE_FRAMES * follow->channels,
                     .input_frames = PROBE_FRAMES,
                     .output_frames = PROBE_FRAMES,
                     .src_ratio = 1};
    int status = src_process(follow->resampler, &data);
    follow->held_frames = PROBE_FRAMES - (uint32_t)data.output_frames_gen;
    src_reset(follow->resampler);
    free(silence);
    return status == 0 ? 0 : ERROR_UNSUPPORTED;
}

int playback_follow_open(uint32_t channels, double rate_hz, struct playback_follow **out,
                         struct problem *problem)
{
    struct playback_follow *follow = calloc(1, sizeof *follow);
    int status = 0;
    if (channels > FOLLOW_CHANNELS_MAX) {
        free(follow);
        return problem_set(
            problem, ERROR_UNSUPPORTED,
            "the resampler takes at most %d channels, not %u; write resample = no, or "
            "play fewer channels",
            FOLLOW_CHANNELS_MAX, channels);
    }
    if (follow == NULL)
        return problem_set(problem, ERROR_MEMORY, "no memory for a resampler");
    follow->channels = channels;
    follow->rate_hz = rate_hz;
    follow->speed = 1;
    follow->resampler = src_new(SRC_SINC_MEDIUM_QUALITY, (int)channels, &status);
    if (follow->resampler == NULL || measure_held(follow) != 0) {
        playback_follow_close(follow);
        return problem_set(problem, ERROR_MEMORY, "no resampler: %s", src_strerror(status));
    }
    follow->out_capacity = FOLLOW_CHUNK_FRAMES + follow->held_frames + SPARE_FRAMES;
    follow->out = calloc((size_t)follow->out_capacity * channels, sizeof *follow->out);
    if (follow->out == NULL) {
        playback_follow_close(follow);
        return problem_set(problem, ERROR_MEMORY, "no memory for a resampler");
    }
    *out = follow;
    return 0;
}

void playback_follow_close(struct playback_follow *follow)
{
    if (follow == NULL)
        return;
    if (follow->resampler != NULL)
        src_delete(follow->resampler);
    free(follow->out);
    free(follow);
}

uint32_t playback_follow_held(const struct playback_follow *follow)
{
    return follow->held_frames;
}

/* The time from put to play in the steady state: a put delivers its newest frame at once, and on
 * average half a period of the card has passed since its last callback. */
static double set_point_s(const struct playback_follow *follow)
{
    return ((double)follow->latency_frames + follow->put_frames + 0.5 * follow->period_frames) /
           follow->rate_hz;
}

static void restart(struct playback_follow *follow, uint64_t card_frame)
{
    follow->running = true;
    follow->dropping = false;
    follow->first = true;
    follow->next = card_frame;
    src_reset(follow->resampler);
    clock_follow_restart(&follow->clock);
}

enum playback_step playback_follow_put(struct playback_follow *follow,
                                       const struct playback_position *position,
                                       uint64_t timeline_frame, uint32_t frames)
{
    if (!follow->set) {
        follow->set = true;
        follow->latency_frames = position->latency_frames;
        follow->put_frames = frames;
        follow->period_frames = position->period_frames;
        clock_follow_reset(&follow->clock, follow->rate_hz, follow->rate_hz, set_point_s(follow));
    }
    clock_follow_played(&follow->clock, position->callback_frame, position->callback_ns);
    clock_follow_put(&follow->clock, timeline_frame + frames, position->now_ns);
    uint64_t played = position->callback_frame + position->period_frames;
    uint64_t queued = follow->next > played ? follow->next - played : 0;
    if (follow->running && follow->next < played) {
        follow->underruns++;
        follow->running = false;
    } else if (follow->running && timeline_frame != follow->expected) {
        uint64_t jump = timeline_frame - follow->expected; /* timelines never go back */
        follow->next += jump < follow->latency_frames ? jump : 0;
        follow->running = jump < follow->latency_frames;
    } else if (follow->running && queued > 2 * follow->latency_frames + frames) {
        follow->overruns += !follow->dropping;
        follow->dropping = true;
    }
    follow->expected = timeline_frame + frames;
    if (follow->dropping) {
        if (queued > follow->latency_frames)
            return PLAYBACK_DROP;
        restart(follow, follow->next);
    }
    if (!follow->running) {
        uint64_t at = played + position->latency_frames;
        restart(follow, at > position->written ? at : position->written);
    }
    double rate_hz = follow->rate_hz;
    double plays_s = (double)(position->callback_ns - position->now_ns) * 1e-9 +
                     (double)(int64_t)(follow->next - position->callback_frame) / rate_hz;
    double held = follow->first ? 0 : follow->held_frames;
    follow->speed =
        clock_follow_steer(&follow->clock, plays_s + (frames + held) / rate_hz, position->now_ns);
    return follow->first ? PLAYBACK_RESTART : PLAYBACK_CONTINUE;
}

const float *playback_follow_convert(struct playback_follow *follow, const float *samples,
                                     uint32_t frames, uint64_t *frame, uint32_t *out_frames)
{
    assert(follow->running && frames <= FOLLOW_CHUNK_FRAMES);
    SRC_DATA data = {.data_in = samples,
                     .data_out = follow->out,
                     .input_frames = (long)frames,
                     .output_frames = (long)follow->out_capacity,
                     .src_ratio = 1 / follow->speed};
    int status = src_process(follow->resampler, &data);
    assert(status == 0 && data.input_frames_used == (long)frames);
    (void)status;
    *frame = follow->next;
    *out_frames = (uint32_t)data.output_frames_gen;
    follow->next += *out_frames;
    follow->first = false;
    return follow->out;
}

void playback_follow_retune(struct playback_follow *follow)
{
    follow->set = false;
    playback_follow_lost(follow);
}

bool playback_follow_running(const struct playback_follow *follow)
{
    return follow->running;
}

void playback_follow_lost(struct playback_follow *follow)
{
    follow->running = false;
    follow->dropping = false;
}

void playback_follow_report(const struct playback_follow *follow,
                            struct playback_follow_report *report)
{
    *report = (struct playback_follow_report){
        .speed_ppm = (follow->speed - 1) * 1e6,
        .underruns = follow->underruns,
        .overruns = follow->overruns,
    };
    report->latency_frames =
        follow->set ? (double)follow->latency_frames + follow->clock.smooth_s * follow->rate_hz : 0;
    report->ppm_known = clock_follow_ppm(&follow->clock, &report->ppm);
}
