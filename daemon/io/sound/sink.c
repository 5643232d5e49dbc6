/*
 * Sink `portaudio`: plays results on a sound card or into JACK clients.
 *
 * Output frame n of the stream's timeline is played as card frame n + offset:
 *
 *   - On a duplex card that plays what it captures, the offset is the latency and never changes.
 *     The sink drops a result that arrives later as `late` and the card plays silence instead, so
 *     the declared latency holds for every frame played. The default is the least that can be kept:
 *     a block of L frames is complete when the callback with its last frame has run, and plays from
 *     the next callback on. With periods of P frames that is L + P − gcd(L, P), one period when L
 *     divides P.
 *   - On a duplex card that plays another stream (an excitation), the sink chooses the offset with
 *     the first frame and keeps it.
 *   - In direct mode the callback has already convolved and played what it captured, with no added
 *     latency; the results that arrive here count as delivered.
 *   - Otherwise stream and card have different clocks. The sink chooses the offset so that the
 * first frame waits `latency` in the ring, and again after an underrun or when the ring holds far
 * too much. With `resample` (playback_follow.h) neither happens: a resampler takes the frames at
 *     the speed that keeps the latency, and the offset varies.
 *
 * Ledger: frames = delivered (played) + each named drop + pending. The callback counts what it
 * plays; a frame written too late for it counts as `late`.
 *
 * open runs on a worker thread, everything else on the loop thread, without allocating.
 */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

#include "core/clock.h"
#include "core/log.h"
#include "io/sound/playback_follow.h"
#include "io/sinks.h"
#include "io/sound/card.h"
#include "io/sound/ring.h"
#include "io/sound/report.h"

enum {
    CHUNK_FRAMES = 512, /* most frames encoded at once */
    RUNS_MAX = 64,      /* written and not yet played; adjacent runs of one kind merge */
};

/* Device frames [from, until) that were written: results, or silence before them. */
struct run {
    uint64_t from, until;
    uint64_t put; /* frames of results in them; with a resampler not until − from */
    bool result;
};

struct sink {
    struct sink_options options;
    const struct sound_options *sound;
    char label[96];
    struct sound_card *card;
    uint8_t *bytes;                 /* [CHUNK_FRAMES] frames, encoded */
    struct playback_follow *follow; /* NULL: frames are played without resampling */
    float *silence;                 /* [FOLLOW_CHUNK_FRAMES] frames; NULL without `follow` */
    /* offset */
    bool anchored;           /* it is chosen */
    uint32_t period_frames;  /* of the card's newest cycle at the last result; 0: none has run */
    uint64_t latency_frames; /* as declared; 0: not known yet */
    int64_t offset;          /* card frame − timeline frame */
    /* what was written and not yet played, oldest first; frames of this session */
    struct run runs[RUNS_MAX];
    uint32_t run_first, run_count;
    uint64_t resampling; /* frames of results that the resampler holds */
    uint64_t passed;     /* frames of runs whose time has passed */
    uint64_t missed;     /* of them, those that the callback did not play */
    struct sink_ledger ledger;
    bool waiting_for_room;
    /* closing */
    int64_t deadline_ns;
    bool leaving;
    void (*closed)(void *context);
    void *closed_context;
};

/* ---- ledger ------------------------------------------------------------------------------ */

static void drop(struct sink *s, enum drop name, uint64_t frames)
{
    s->ledger.dropped[name] += frames;
}

/* put: frames of results in [from, until), 0 for silence. */
static void add_run(struct sink *s, uint64_t from, uint64_t until, uint64_t put)
{
    bool result = put > 0;
    if (from == until)
        return;
    struct run *last =
        s->run_count > 0 ? &s->runs[(s->run_first + s->run_count - 1) % RUNS_MAX] : NULL;
    if (last != NULL && last->until == from && last->result == result) {
        last->until = until;
        last->put += put;
        return;
    }
    s->runs[(s->run_first + s->run_count++) % RUNS_MAX] =
        (struct run){.from = from, .until = until, .put = put, .result = result};
}

/* Moves frames whose time has passed from pending to delivered, or to `late` when the callback ran
 * before they were written. */
static void count_played(struct sink *s)
{
    struct sound_position position;
    sound_ring_position(sound_card_shared(s->card), &position);
    uint64_t results = 0;
    while (s->run_count > 0) {
        struct run *run = &s->runs[s->run_first];
        uint64_t until = run->until < position.now ? run->until : position.now;
        if (until > run->from) {
            uint64_t share = run->put * (until - run->from) / (run->until - run->from);
            s->passed += until - run->from;
            results += share;
            run->put -= share;
            run->from = until;
        }
        if (run->from < run->until)
            break;
        s->run_first = (s->run_first + 1) % RUNS_MAX;
        s->run_count--;
    }
    uint64_t missed = s->passed > position.played ? s->passed - position.played : 0;
    uint64_t more = missed > s->missed ? missed - s->missed : 0;
    if (more > results)
        more = results;
    s->missed += more;
    s->ledger.pending -= results;
    s->ledger.delivered += results - more;
    drop(s, DROP_LATE, more);
}

static void drop_pending(struct sink *s, enum drop name)
{
    drop(s, name, s->ledger.pending + s->resampling);
    s->ledger.pending = s->resampling = 0;
    s->run_count = 0;
}

/* ---- offset ------------------------------------------------------------------------------ */

static uint64_t greatest_common_divisor(uint64_t a, uint64_t b)
{
    while (b != 0) {
        uint64_t rest = a % b;
        a = b;
        b = rest;
    }
    return a;
}

/* The latency in frames that the options declare, or the default with this period. */
static uint64_t latency_of(const struct sink *s, uint32_t period)
{
    const struct sound_options *sound = s->sound;
    uint64_t hop = sound->hop_frames;
    if (sound->latency_frames > 0)
        return sound->latency_frames;
    if (sound->duplex && sound->own)
        return hop + period - greatest_common_divisor(hop, period);
    return 2 * (hop + period) + (s->follow != NULL ? playback_follow_held(s->follow) : 0);
}

/* Chooses the offset unless it is chosen; now: the card frame that plays next. Returns false while
 * the origin of the captured stream is not known. */
static bool anchor(struct sink *s, const struct result *result, uint64_t now)
{
    struct sound_position position;
    uint64_t origin;
    if (s->anchored)
        return true;
    sound_ring_position(sound_card_shared(s->card), &position);
    s->latency_frames = latency_of(s, position.period_frames);
    if (s->sound->own) {
        if (!sound_card_origin(s->card, &origin))
            return false;
        /* The stream's timeline may go on from an earlier run; the card captured its first epoch.
         */
        s->offset = (int64_t)(origin + s->latency_frames) -
                    (int64_t)(result->timeline_frame - result->first_frame);
    } else {
        s->offset = (int64_t)(now + s->latency_frames) - (int64_t)result->timeline_frame;
    }
    s->anchored = true;
    return true;
}

/* The card's period has changed while it ran. The latency by rule depends on it, so that the next
 * result chooses the offset again; a declared latency stays, and may no longer suffice. */
static void note_period(struct sink *s, uint32_t period)
{
    const uint32_t before = s->period_frames;
    s->period_frames = period;
    if (before == 0 || period == 0 || before == period)
        return;
    const uint64_t least =
        s->sound->hop_frames + period - greatest_common_divisor(s->sound->hop_frames, period);
    if (s->sound->latency_frames > 0) {
        if (s->sound->latency_frames < least)
            log_warning("%s: the card's period is %" PRIu32 " frames now, before %" PRIu32
                        ": results come later than `latency`; write latency = %" PRIu64
                        " frames, or more",
                        s->label, period, before, least);
        return;
    }
    s->anchored = false;
    if (s->follow != NULL)
        playback_follow_retune(s->follow);
    log_notice("%s: the card's period is %" PRIu32 " frames now, before %" PRIu32
               "; results play %" PRIu64 " frames behind their input from now on",
               s->label, period, before, latency_of(s, period));
}

/* Restores the declared latency of a card with another clock than the stream: after an underrun at
 * once, and when the ring holds twice as much by dropping results. Returns true when this result is
 * to be dropped. */
static bool correct(struct sink *s, const struct result *result, uint64_t now, uint64_t written)
{
    uint64_t frame = (uint64_t)((int64_t)result->timeline_frame + s->offset);
    uint64_t most = now + 2 * s->latency_frames + result->frames;
    if (frame < now) {
        s->anchored = false;
        anchor(s, result, now);
    } else if (frame > most) {
        if (now + s->latency_frames < written)
            return true;
        s->anchored = false;
        anchor(s, result, now);
    }
    return false;
}

/* ---- results ----------------------------------------------------------------------------- */

/* Encodes and writes up to CHUNK_FRAMES, which hold `put` frames of results; false: no room. */
static bool write_chunk(struct sink *s, const float *samples, uint64_t frame, uint32_t frames,
                        uint32_t put)
{
    const uint32_t channels = s->options.stream.channels;
    uint64_t silent_from;
    s->ledger.saturated +=
        sample_encode_block(&s->options.format, samples, (size_t)frames * channels,
                            1 / s->options.full_scale, s->bytes);
    if (s->run_count + 2 > RUNS_MAX ||
        !sound_ring_write(sound_card_shared(s->card), frame, s->bytes, frames, &silent_from))
        return false;
    add_run(s, silent_from, frame, 0);
    add_run(s, frame, frame + frames, put);
    s->ledger.pending += put;
    s->ledger.packets++;
    s->ledger.bytes += (uint64_t)frames * channels * s->options.format.bytes;
    return true;
}

static void write_frames(struct sink *s, const float *samples, uint32_t channels, uint64_t frame,
                         uint32_t frames)
{
    for (uint32_t done = 0; done < frames;) {
        uint32_t chunk = frames - done < CHUNK_FRAMES ? frames - done : CHUNK_FRAMES;
        if (!write_chunk(s, samples + (size_t)done * channels, frame + done, chunk, chunk)) {
            drop(s, DROP_QUEUE, frames - done);
            return;
        }
        done += chunk;
    }
}

/* Resamples and writes a result. Frames that the resampler holds stay in `resampling`; all others
 * are in the frames it returns. */
static void write_resampled(struct sink *s, const struct result *result, uint64_t base)
{
    const uint64_t held = playback_follow_held(s->follow);
    for (uint32_t done = 0; done < result->frames;) {
        uint32_t left = result->frames - done;
        uint32_t chunk = left < FOLLOW_CHUNK_FRAMES ? left : FOLLOW_CHUNK_FRAMES, made;
        uint64_t frame;
        const float *samples = playback_follow_convert(
            s->follow, result->samples + (size_t)done * result->channels, chunk, &frame, &made);
        done += chunk;
        s->resampling += chunk;
        for (uint32_t at = 0; at < made;) {
            uint32_t part = made - at < CHUNK_FRAMES ? made - at : CHUNK_FRAMES;
            uint32_t put = s->resampling > held ? (uint32_t)(s->resampling - held) : 0;
            if (at + part < made && put > part)
                put = part;
            if (!write_chunk(s, samples + (size_t)at * result->channels, frame + at - base, part,
                             put)) {
                drop(s, DROP_QUEUE, s->resampling + result->frames - done);
                s->resampling = 0;
                playback_follow_lost(s->follow);
                return;
            }
            s->resampling -= put;
            at += part;
        }
    }
}

/* Nothing follows: silence pushes the frames that the resampler holds into the card's ring. */
static void flush_resampler(struct sink *s)
{
    uint64_t base, frame;
    uint32_t made;
    if (s->follow == NULL || s->resampling == 0 || !playback_follow_running(s->follow) ||
        !sound_card_base(s->card, &base))
        return;
    for (uint32_t left = playback_follow_held(s->follow); left > 0 && s->resampling > 0;) {
        const uint32_t chunk = left < FOLLOW_CHUNK_FRAMES ? left : FOLLOW_CHUNK_FRAMES;
        const float *samples = playback_follow_convert(s->follow, s->silence, chunk, &frame, &made);
        left -= chunk;
        for (uint32_t at = 0; at < made;) {
            const uint32_t part = made - at < CHUNK_FRAMES ? made - at : CHUNK_FRAMES;
            /* The clocks' speed rounds the frames made: the last chunk holds what is left. */
            const bool last = left == 0 && at + part == made;
            const uint32_t put = last || s->resampling < part ? (uint32_t)s->resampling : part;
            if (!write_chunk(s, samples + (size_t)at * s->options.stream.channels,
                             frame + at - base, part, put))
                return;
            s->resampling -= put;
            at += part;
        }
    }
}

static void put_resampled(struct sink *s, const struct result *result, uint64_t base,
                          const struct sound_position *card)
{
    s->latency_frames = latency_of(s, card->period_frames);
    const struct playback_position position = {
        .callback_frame = base + card->now - card->period_frames,
        .callback_ns = card->callback_ns,
        .period_frames = card->period_frames,
        .written = base + sound_ring_written(sound_card_shared(s->card)),
        .latency_frames = s->latency_frames,
        .now_ns = clock_monotonic_ns(),
    };
    s->anchored = true;
    switch (playback_follow_put(s->follow, &position, result->timeline_frame, result->frames)) {
    case PLAYBACK_DROP:
        drop(s, DROP_QUEUE, result->frames);
        return;
    case PLAYBACK_RESTART:
        drop(s, DROP_LATE, s->resampling);
        s->resampling = 0;
        break;
    case PLAYBACK_CONTINUE:
        break;
    }
    write_resampled(s, result, base);
}

static int64_t portaudio_put(struct sink *s, const struct result *result)
{
    struct sound_shared *shared = sound_card_shared(s->card);
    struct sound_position position;
    uint64_t base;
    s->ledger.frames += result->frames;
    if (s->sound->direct != NULL) { /* the callback that captured it has played it */
        s->ledger.delivered += result->frames;
        return clock_monotonic_ns();
    }
    if (result->frames == 0)
        return clock_monotonic_ns();
    if (s->closed != NULL || !sound_card_base(s->card, &base)) {
        drop(s, s->closed != NULL ? DROP_STOPPED : DROP_DEVICE, result->frames);
        return clock_monotonic_ns();
    }
    sound_ring_position(shared, &position);
    note_period(s, position.period_frames);
    if (s->follow != NULL && position.period_frames == 0) { /* no callback has run: no clock yet */
        drop(s, DROP_DEVICE, result->frames);
        return clock_monotonic_ns();
    }
    if (s->follow != NULL) {
        put_resampled(s, result, base, &position);
        return clock_monotonic_ns();
    }
    uint64_t now = base + position.now, written = base + sound_ring_written(shared);
    if (!anchor(s, result, now)) {
        drop(s, DROP_DEVICE, result->frames);
        return clock_monotonic_ns();
    }
    if (!s->sound->duplex && correct(s, result, now, written)) {
        drop(s, DROP_QUEUE, result->frames);
        return clock_monotonic_ns();
    }
    uint64_t least = now > written ? now : written;
    int64_t frame = (int64_t)result->timeline_frame + s->offset;
    uint32_t late = 0;
    if (frame < (int64_t)least) {
        uint64_t behind = (uint64_t)((int64_t)least - frame);
        late = behind < result->frames ? (uint32_t)behind : result->frames;
    }
    drop(s, DROP_LATE, late);
    if (late < result->frames)
        write_frames(s, result->samples + (size_t)late * result->channels, result->channels,
                     (uint64_t)(frame + late) - base, result->frames - late);
    return clock_monotonic_ns();
}

/* Lets a stream that waits run ahead of the card by its latency and two blocks. */
static uint64_t portaudio_room(const struct sink *s)
{
    struct sink *self = (struct sink *)s; /* to remember that the stream waits */
    const struct sound_shared *shared = sound_card_shared(self->card);
    struct sound_position position;
    uint64_t base, room = 0;
    sound_ring_position(shared, &position);
    if (s->sound->direct != NULL) {
        room = UINT64_MAX;
    } else if (sound_card_base(s->card, &base)) {
        uint64_t written = sound_ring_written(shared);
        uint64_t ahead = latency_of(s, position.period_frames) + 2 * s->sound->hop_frames;
        uint64_t used = written > position.now ? written - position.now : 0;
        room = used < ahead ? ahead - used : 0;
    }
    self->waiting_for_room = room < s->sound->hop_frames;
    return room;
}

/* ---- the card ---------------------------------------------------------------------------- */

static void destroy(struct sink *s)
{
    playback_follow_close(s->follow);
    free(s->silence);
    free(s->bytes);
    free(s);
}

static void on_left(void *context)
{
    struct sink *s = context;
    s->closed(s->closed_context);
    destroy(s);
}

static void leave_when_done(struct sink *s)
{
    if (s->closed == NULL || s->leaving)
        return;
    if (s->ledger.pending > 0 && clock_monotonic_ns() < s->deadline_ns)
        return;
    drop_pending(s, DROP_STOPPED);
    s->leaving = true;
    sound_card_leave(s->card, SOUND_PLAYBACK, on_left, s);
}

static void on_callback(void *context)
{
    struct sink *s = context;
    count_played(s);
    if (s->closed != NULL)
        leave_when_done(s);
    else if (s->waiting_for_room && s->options.room_again != NULL &&
             portaudio_room(s) >= s->sound->hop_frames)
        s->options.room_again(s->options.room_context);
}

static void on_lost(void *context)
{
    struct sink *s = context;
    count_played(s);
    drop_pending(s, DROP_DEVICE);
    s->passed = s->missed = 0;
    if (!s->sound->duplex)
        s->anchored = false;
    if (s->follow != NULL)
        playback_follow_lost(s->follow);
    leave_when_done(s);
}

/* ---- life -------------------------------------------------------------------------------- */

static int portaudio_open(const struct sink_options *options,
                          const struct io_environment *environment, struct sink **out,
                          struct problem *problem)
{
    struct sink *s = calloc(1, sizeof *s);
    if (s == NULL)
        return problem_set(problem, ERROR_MEMORY, "no memory for a sink");
    s->options = *options;
    s->sound = options->own;
    s->bytes = malloc((size_t)CHUNK_FRAMES * options->stream.channels * options->format.bytes);
    snprintf(s->label, sizeof s->label, "sink %s", options->name);
    const struct sound_card_user user = {
        .context = s, .label = s->label, .callback = on_callback, .lost = on_lost};
    int error = s->bytes == NULL ? problem_set(problem, ERROR_MEMORY, "no memory for a sink") : 0;
    if (error == 0 && s->sound->resample)
        error = playback_follow_open(options->stream.channels, options->stream.rate_hz, &s->follow,
                                     problem);
    if (s->follow != NULL) {
        s->silence =
            calloc((size_t)FOLLOW_CHUNK_FRAMES * options->stream.channels, sizeof *s->silence);
        if (s->silence == NULL)
            error = problem_set(problem, ERROR_MEMORY, "no memory for a sink");
    }
    if (error == 0)
        error = sound_card_open(s->sound, SOUND_PLAYBACK, &user, environment, &s->card, problem);
    if (error != 0) {
        destroy(s);
        return error;
    }
    *out = s;
    return 0;
}

/* The source starts a duplex card. */
static void portaudio_start(struct sink *s)
{
    if (!s->sound->duplex)
        sound_card_start(s->card);
}

static void portaudio_close(struct sink *s, int64_t deadline_ns, void (*closed)(void *context),
                            void *context)
{
    s->closed = closed;
    s->closed_context = context;
    s->deadline_ns = deadline_ns;
    flush_resampler(s);
    leave_when_done(s);
}

static void portaudio_ledger(const struct sink *s, struct sink_ledger *ledger)
{
    *ledger = s->ledger;
    ledger->pending += s->resampling;
}

static void portaudio_status(const struct sink *s, void *status)
{
    struct sound_report *report = status;
    *report = (struct sound_report){
        .plays = true,
        .anchored = s->anchored || s->sound->direct != NULL, /* no frame later */
        .latency_frames = s->latency_frames,
        .offset_frames = s->offset,
        .level_frames = s->ledger.pending,
        .follows = s->follow != NULL,
    };
    if (s->follow != NULL)
        playback_follow_report(s->follow, &report->follow);
    sound_card_status(s->card, &report->card);
}

const struct sink_ops sink_portaudio = {
    .name = "portaudio",
    .sentence = "a sound card, or clients of a JACK server",
    .main_loop = "the sound cards",
    .packets = "packets",
    .format = "f32le",
    .order = "sound cards take samples little-endian",
    .options = sound_sink_rows,
    .option_count = SOUND_SINK_ROWS,
    .options_bytes = sizeof(struct sound_options),
    .check = sound_sink_check,
    .check_all = sound_sink_check_all,
    .report = sound_sink_report,
    .open = portaudio_open,
    .start = portaudio_start,
    .put = portaudio_put,
    .room = portaudio_room,
    .close = portaudio_close,
    .ledger = portaudio_ledger,
    .status = &sound_status_ops,
    .read_status = portaudio_status,
};
