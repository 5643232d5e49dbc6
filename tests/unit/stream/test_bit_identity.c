/*
 * The contract that makes everything else comparable: the results of one plan are the same to the
 * last bit whatever the packet sizes, their order, the blocks of a batch, the slots of the ring,
 * the gaps beyond a frame's reach, the neighbours in a batch, the parts in which a batch goes to
 * the device, the batches that overtake it there, the batches submitted again, equal filters loaded
 * while the stream runs, and another stream with a plan prepared as the first one's state pins it
 * that goes on in the middle (stream/resume.h).
 *
 * Each case takes a variant and a shape, prepares two equal plans, and plays one signal through a
 * stream: first plainly, packet by packet, one block a batch; then several times at random, all of
 * the above at once. Every frame of the random runs is compared with the plain one, byte by byte.
 *
 * The device is CONVOLVD_TEST_DEVICE; by default the CPU, kernels built as for a GPU on the CPU,
 * and a GPU where there is one. CONVOLVD_TEST_SEED sets the seed, which is printed.
 *
 * long: also, every shape by every variant instead of one by each, and another seed in every run
 * turns: yes
 * takes-long: 74 s CPU in 103 s
 * sanitizers: no, a search over schedules of the code that test_stream_exchange runs
 * takes: 6 s CPU in 6 s
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <cmocka.h>

#include "convolve/check/prepare.h"
#include "core/clock.h"
#include "signal/decimation.h"
#include "stream/resume.h"
#include "stream/ring_size.h"
#include "stream/stream.h"
#include "tests/support/engine_group.h"
#include "tests/support/engine_seams.h"

enum {
    RUNS = 2,           /* random ones of each case */
    J_MAX = 8,          /* J */
    LEAD_MAX = 400,     /* frames of the epochs before the one compared */
    GAP_MAX = 40,       /* frames */
    DONE_MAX = 16,      /* batches that the engine has at most */
    ROUNDS_MAX = 100000 /* of one run: far beyond any that ends */
};

static uint64_t seed = 20260401;

/* What the random runs did, so that a test that stopped doing it fails. */
static struct {
    uint64_t single, several, shared, resubmitted, gaps, changes, reordered, leads, resumed, parted,
        overtook;
} done;

/* ---- a case -------------------------------------------------------------------------------- */

struct shape {
    uint32_t hop, taps, channels, decimate;
    const char *format, *results; /* NULL: floats */
    enum output_form form;
    const char *only; /* the one variant that takes it; NULL: any */
    bool mirrored;    /* played through a mirror on a CPU too */
};

static const struct shape shapes[] = {
    {64, 129, 3, 1, "s16be", NULL, OUTPUT_REAL, NULL, true},
    {48, 100, 2, 3, "s24le", NULL, OUTPUT_REAL, NULL, false},
    {64, 33, 1, 8, "f32le", NULL, OUTPUT_ENVELOPE, NULL, true},
    {64, 700, 2, 1, "s32le", "s16be", OUTPUT_REAL, NULL, false},
    {100, 61, 2, 5, "u8", "s24be", OUTPUT_COMPLEX, NULL, true},
    {4096, 4500, 1, 1, "s16le", NULL, OUTPUT_REAL, "staged", true},
};
enum { SHAPES = sizeof shapes / sizeof shapes[0] };

/* One stream's worth of input, with its plan twice. */
struct subject {
    const struct shape *shape;
    struct test_signal *signal;
    struct test_plan plan, equal;
    struct decimation kept;
    uint32_t frame_bytes;   /* of the output */
    uint64_t output_frames; /* tail included */
};

/* `pin`: exactly that plan again; NULL: by the variant's name alone. */
static int prepare_like(struct test_plan *plan, const struct subject *subject, const char *variant,
                        const struct plan_pin *pin)
{
    const struct shape *shape = subject->shape;
    struct problem problem = {0};
    test_plan_diagonal(plan, subject->signal, shape->hop, shape->taps, shape->form != OUTPUT_REAL,
                       shape->form);
    plan->spec.variant = variant;
    plan->spec.decimate = shape->decimate;
    plan->spec.decimate_phase = shape->decimate / 2;
    plan->spec.blocks_max = J_MAX;
    if (shape->results != NULL) {
        plan->spec.results.factor = 0.25;
        assert_int_equal(sample_format_parse(shape->results, &plan->spec.results.format), 0);
    }
    test_plan_bind(plan, subject->signal);
    if (pin != NULL)
        plan_pin_apply(pin, &plan->spec);
    return plan_prepare(engine, &plan->spec, &plan->plan, &problem);
}

static void subject_free(struct subject *subject)
{
    test_plan_free(&subject->plan);
    test_plan_free(&subject->equal);
    signal_free(subject->signal);
}

/* False when the variant does not do the shape. */
static bool subject_make(struct subject *subject, const struct shape *shape, const char *variant,
                         uint32_t blocks)
{
    *subject = (struct subject){.shape = shape};
    subject->signal =
        signal_noise(shape->format, shape->channels, (uint64_t)blocks * shape->hop + 17, 5);
    if (prepare_like(&subject->plan, subject, variant, NULL) < 0) {
        subject_free(subject);
        return false;
    }
    const struct plan_info *info = plan_info(subject->plan.plan);
    struct plan_pin pin, again;
    plan_pin_of(info, engine_device(engine), &pin);
    assert_int_equal(prepare_like(&subject->equal, subject, variant, &pin), 0);
    plan_pin_of(plan_info(subject->equal.plan), engine_device(engine), &again);
    assert_memory_equal(&again, &pin, sizeof pin);
    subject->kept = (struct decimation){info->decimate, info->decimate_phase};
    subject->frame_bytes = info->output_floats * info->sample_bytes;
    subject->output_frames =
        decimation_output(&subject->kept, subject->signal->frames + info->taps_longest - 1);
    return true;
}

/* ---- a run --------------------------------------------------------------------------------- */

/* A stream and what has come of it. */
struct player {
    const struct subject *subject;
    struct stream *stream;
    uint64_t put;                 /* frames of the signal */
    uint32_t packet_max;          /* frames */
    uint64_t gap_from, gap_until; /* frames that are never put */
    uint64_t epoch;               /* the one compared */
    uint64_t change_at;           /* the equal plan is requested when so much was put; 0: never */
    uint8_t *bytes, *seen;        /* output: [output_frames][frame_bytes], [output_frames] */
};

struct run {
    struct player player, neighbour; /* the second's stream NULL: none */
    struct random_state random;
    const struct batch *parted;  /* in flight in parts; NULL: none … */
    const struct player *blocks; /* … and whose blocks they are */
    int64_t now_ns;
    bool plain;
};

static bool chance(struct run *run, uint64_t of)
{
    return !run->plain && random_below(&run->random, of) == 0;
}

static void take(void *context, const struct result *result)
{
    struct player *player = context;
    const struct subject *subject = player->subject;
    if (result->epoch != player->epoch || result->frames == 0)
        return;
    const void *from = result->samples != NULL ? (const void *)result->samples : result->wire;
    assert_true(result->first_frame + result->frames <= subject->output_frames);
    memcpy(player->bytes + result->first_frame * subject->frame_bytes, from,
           (size_t)result->frames * subject->frame_bytes);
    memset(player->seen + result->first_frame, 1, result->frames);
}

static void open_stream(struct player *player, const char *name, struct plan *plan)
{
    const struct test_signal *signal = player->subject->signal;
    struct stream_options options = {
        .name = name,
        .rate_hz = 1e6,
        .channels = signal->inputs,
        .format = signal->format,
        .frame_bytes = signal->inputs * signal->format.bytes,
        .tail = true,
        .reorder_ns = NS_PER_US,
        .blocks_in_flight = J_MAX + 2,
    };
    const struct ring_need need = ring_need_of(&options, plan_info(plan));
    options.ring_frames_min = ring_size_least(&need);
    struct problem problem = {0};
    if (stream_open(engine, &options, plan, &player->stream, &problem) < 0)
        fail_msg("%s", problem.text);
    const struct result_port port = {.context = player, .put = take};
    assert_int_equal(stream_add_port(player->stream, &port), 0);
}

static void player_open(struct player *player, const struct subject *subject, const char *name)
{
    player->subject = subject;
    player->bytes = calloc(subject->output_frames, subject->frame_bytes);
    player->seen = calloc(subject->output_frames, 1);
    open_stream(player, name, subject->plan.plan);
}

static void player_close(struct player *player)
{
    if (player->stream == NULL)
        return;
    stream_close(player->stream);
    free(player->bytes);
    free(player->seen);
}

/* ---- packets ------------------------------------------------------------------------------- */

static void put_frames(struct run *run, struct player *player, uint64_t from, uint64_t frames,
                       uint32_t flags)
{
    const struct test_signal *signal = player->subject->signal;
    const struct packet packet = {
        .first_frame = from,
        .frames = (uint32_t)frames,
        .flags = flags,
        .payload = signal->bytes + from * signal->inputs * signal->format.bytes,
        .receive_ns = run->now_ns,
        .receive_realtime_ns = run->now_ns,
    };
    run->now_ns += NS_PER_US;
    const enum verdict verdict = stream_put(player->stream, &packet);
    assert_true(verdict == VERDICT_ACCEPTED || verdict == VERDICT_DUPLICATE);
}

/* How long the next packet is, up to the gap and the end. */
static uint64_t packet_frames(struct run *run, const struct player *player, uint64_t from)
{
    uint64_t frames =
        run->plain ? player->packet_max : 1 + random_below(&run->random, player->packet_max);
    uint64_t end = player->subject->signal->frames;
    if (from < player->gap_from)
        end = player->gap_from;
    return frames < end - from ? frames : end - from;
}

/* The next packet or two, in order or not; false: no room, or everything was put. */
static bool put_next(struct run *run, struct player *player)
{
    const uint64_t total = player->subject->signal->frames;
    if (player->gap_from < player->gap_until && player->put == player->gap_from)
        player->put = player->gap_until;
    const uint64_t from = player->put;
    if (from == total || stream_room(player->stream) < 2 * player->packet_max + GAP_MAX)
        return false;
    const uint64_t frames = packet_frames(run, player, from), next = from + frames;
    const uint32_t flags = from == 0 ? PACKET_DISCONTINUITY : 0;
    uint64_t more = 0;
    if (from > 0 && next < total && next != player->gap_from && chance(run, 4)) {
        more = packet_frames(run, player, next);
        put_frames(run, player, next, more, 0);
        done.reordered++;
    }
    put_frames(run, player, from, frames, flags);
    if (chance(run, 8))
        put_frames(run, player, from, frames, 0);
    player->put = next + more;
    if (from == player->gap_until && from > 0) { /* nobody waits for what never comes */
        run->now_ns += NS_PER_SECOND;
        stream_tick(player->stream, run->now_ns);
        done.gaps++;
    }
    if (player->put == total)
        stream_end(player->stream);
    return true;
}

/* Epochs before the one compared: their lengths move its base along the ring, as far as it has
 * room. */
static void put_leads(struct run *run, struct player *player)
{
    const uint64_t leads = random_below(&run->random, 3);
    for (player->epoch = 0; player->epoch < leads; player->epoch++) {
        const uint64_t room = stream_room(player->stream);
        if (room == 0)
            return;
        const uint64_t frames = 1 + random_below(&run->random, room < LEAD_MAX ? room : LEAD_MAX);
        put_frames(run, player, 0, frames, PACKET_DISCONTINUITY);
        stream_end(player->stream);
        done.leads++;
    }
}

static void no_plan_retires(void *context, struct plan *old)
{
    (void)context, (void)old; /* both plans live as long as the case */
}

/* An equal plan takes over at a frame soon to be submitted. */
static void request_change(struct run *run, struct player *player)
{
    if (player->change_at == 0 || player->put < player->change_at)
        return;
    const struct stream_change change = {
        .plan = player->subject->equal.plan,
        .frame = stream_next_frame(player->stream) +
                 random_below(&run->random, 3 * (uint64_t)player->subject->shape->hop),
        .how = CHANGE_HARD,
        .retired = no_plan_retires,
    };
    assert_int_equal(stream_change(player->stream, &change), 0);
    player->change_at = 0;
    done.changes++;
}

/* ---- batches ------------------------------------------------------------------------------- */

/* Adds work of the player's stream, of a random number of blocks. */
static bool fill(struct run *run, struct player *player, struct batch *batch, bool first)
{
    const uint32_t blocks = run->plain ? 1 : 1 + (uint32_t)random_below(&run->random, 2 * J_MAX);
    const int64_t budget_ns =
        blocks == 1 ? 1 : plan_cost_ns(player->subject->plan.plan, blocks) + 1;
    return stream_fill(player->stream, batch, budget_ns, first) > 0;
}

/* Now and then a batch of one stream goes in parts, when nothing else is in flight. */
static void choose_parts(struct run *run, struct batch *batch)
{
    bool ours = false, theirs = false;
    for (uint32_t i = 0; i < batch->count; i++)
        *(batch->items[i].ring == batch->items[0].ring ? &ours : &theirs) = true;
    if (theirs || engine_in_flight(engine) > 0 || !chance(run, 2))
        return;
    batch->part_ns = 1 + (int64_t)random_below(&run->random, (uint64_t)batch->cost_ns + 1);
    const void *owner = batch->items[batch->count - 1].owner;
    run->parted = batch;
    run->blocks = owner == run->player.stream ? &run->player : &run->neighbour;
    done.parted++;
}

/* While a batch in parts is in flight, only the other stream's blocks are submitted. */
static void overtake(struct run *run)
{
    struct player *other = run->blocks == &run->player ? &run->neighbour : &run->player;
    struct batch *batch = other->stream != NULL ? engine_batch_take(engine) : NULL;
    if (batch == NULL)
        return;
    if (!fill(run, other, batch, true)) {
        engine_batch_release(engine, batch);
        return;
    }
    engine_submit(engine, batch);
    done.overtook++;
}

static bool submit_one(struct run *run)
{
    if (run->parted != NULL) {
        overtake(run);
        return true;
    }
    struct batch *batch = engine_batch_take(engine);
    if (batch == NULL)
        return false;
    struct player *others = run->neighbour.stream != NULL ? &run->neighbour : NULL;
    const bool ours_first = others == NULL || chance(run, 2);
    bool filled = false;
    if (ours_first)
        filled = fill(run, &run->player, batch, true);
    if (others != NULL && !chance(run, 4))
        filled |= fill(run, others, batch, !filled);
    if (!ours_first && !chance(run, 4))
        filled |= fill(run, &run->player, batch, !filled);
    if (!filled) {
        engine_batch_release(engine, batch);
        return false;
    }
    for (uint32_t i = 0; i < batch->count; i++) {
        if (batch->items[i].owner != run->player.stream)
            continue;
        *(batch->items[i].blocks == 1 ? &done.single : &done.several) += !run->plain;
        done.shared += batch->count > 1;
    }
    choose_parts(run, batch);
    engine_submit(engine, batch);
    return true;
}

/* So that a batch submitted again has everything to write. */
static void scribble(const struct batch *batch)
{
    for (uint32_t i = 0; i < batch->count; i++) {
        const struct batch_item *item = &batch->items[i];
        const struct plan_info *info = plan_info(item->plan);
        const struct decimation kept = {info->decimate, info->decimate_phase};
        const uint64_t frames = decimation_kept(&kept, item->epoch_block * info->hop,
                                                (uint64_t)item->blocks * info->hop);
        memset(item->samples, 0xA5, frames * info->output_floats * info->sample_bytes);
    }
}

/* Completes the oldest batch. Now and then it is computed again first, after those that were
 * submitted behind it. */
static void complete_one(struct run *run)
{
    struct batch *completed[DONE_MAX] = {harness_wait(engine)};
    int count = 1;
    if (chance(run, 6)) {
        done.resubmitted++;
        scribble(completed[0]);
        if (engine_in_flight(engine) > 0)
            completed[0]->part_ns = 0;
        engine_submit(engine, completed[0]);
        for (struct batch *batch; (batch = harness_wait(engine)) != completed[0];)
            completed[count++] = batch;
    }
    for (int b = 0; b < count; b++) {
        struct batch *batch = completed[b];
        for (uint32_t i = 0; i < batch->count; i++)
            if (batch->items[i].owner != NULL)
                stream_complete(batch->items[i].owner, batch, &batch->items[i]);
        if (batch == run->parted)
            run->parted = NULL;
        engine_batch_release(engine, batch);
    }
}

/* Another stream, with the equal plan, goes on from the state of the one that plays, as bytes. A
 * change that is still to come is requested again: both plans are equal. */
static void resume(struct run *run, struct player *player)
{
    if (engine_in_flight(engine) > 0 || !stream_quiet(player->stream) || !chance(run, 12))
        return;
    struct stream_state *state = malloc(sizeof *state);
    struct problem problem = {0};
    stream_state_take(player->stream, state);
    const size_t count = stream_state_bytes(state);
    uint8_t *bytes = malloc(count);
    stream_state_write(state, bytes);
    stream_close(player->stream);
    open_stream(player, "resumed", player->subject->equal.plan);
    const struct stream_change change = {.plan = player->subject->plan.plan,
                                         .frame = state->change.frame,
                                         .how = CHANGE_HARD,
                                         .retired = no_plan_retires};
    if (stream_state_read(bytes, count, state, &problem) < 0 ||
        stream_resume(player->stream, state, state->change.pending ? &change : NULL, &problem) < 0)
        fail_msg("%s", problem.text);
    free(bytes);
    free(state);
    done.resumed++;
}

/* ---- plain and random ---------------------------------------------------------------------- */

static bool over(const struct player *player)
{
    return player->stream == NULL ||
           (player->put == player->subject->signal->frames && stream_drained(player->stream));
}

static void play(struct run *run)
{
    for (int round = 0; !over(&run->player) || !over(&run->neighbour); round++) {
        assert_true(round < ROUNDS_MAX);
        bool more = true;
        while (more && (run->plain || !chance(run, 3))) {
            more = put_next(run, &run->player);
            request_change(run, &run->player);
            if (run->plain)
                break;
        }
        if (run->neighbour.stream != NULL)
            put_next(run, &run->neighbour);
        submit_one(run);
        while (engine_in_flight(engine) > 0 &&
               (run->plain || engine_in_flight(engine) > 2 || !chance(run, 3)))
            complete_one(run);
        resume(run, &run->player);
    }
    while (engine_in_flight(engine) > 0)
        complete_one(run);
}

/* True when the gap lies within reach of the block that the frame belongs to. */
static bool touched(const struct player *player, uint64_t frame)
{
    const struct plan_info *info = plan_info(player->subject->plan.plan);
    const uint64_t start = frame / info->hop * info->hop;
    return player->gap_from < player->gap_until && player->gap_from < start + info->hop &&
           player->gap_until + info->history_frames > start;
}

static void compare(const char *label, const struct player *plain, const struct player *other)
{
    const struct subject *subject = plain->subject;
    for (uint64_t m = 0; m < subject->output_frames; m++) {
        const uint64_t frame = decimation_input(&subject->kept, m);
        assert_true(plain->seen[m] && other->seen[m]);
        if (touched(other, frame))
            continue;
        if (memcmp(plain->bytes + m * subject->frame_bytes, other->bytes + m * subject->frame_bytes,
                   subject->frame_bytes) != 0)
            fail_msg("%s: output frame %llu (input frame %llu) differs from the plain run", label,
                     (unsigned long long)m, (unsigned long long)frame);
    }
}

static void random_run(const char *label, const struct subject *subject,
                       const struct subject *neighbour, const struct player *plain, uint64_t number)
{
    struct run run = {.random = {seed + number}, .now_ns = NS_PER_SECOND};
    const uint64_t frames = subject->signal->frames;
    const uint32_t hop = subject->shape->hop;
    run.player.packet_max = 1 + (uint32_t)random_below(&run.random, chance(&run, 2) ? 3 * hop : 20);
    player_open(&run.player, subject, "compared");
    if (!chance(&run, 4))
        put_leads(&run, &run.player);
    if (chance(&run, 2)) {
        run.player.gap_from = 1 + random_below(&run.random, frames - GAP_MAX - 2);
        run.player.gap_until = run.player.gap_from + 1 + random_below(&run.random, GAP_MAX);
    }
    if (chance(&run, 2))
        run.player.change_at = 1 + random_below(&run.random, frames / 2);
    if (!chance(&run, 4)) {
        player_open(&run.neighbour, neighbour, "neighbour");
        run.neighbour.packet_max = 1 + (uint32_t)random_below(&run.random, 200);
        const uint64_t theirs = neighbour->signal->frames;
        run.neighbour.gap_from = 1 + random_below(&run.random, theirs - GAP_MAX - 2);
        run.neighbour.gap_until = run.neighbour.gap_from + 1 + random_below(&run.random, GAP_MAX);
    }
    play(&run);
    compare(label, plain, &run.player);
    player_close(&run.player);
    player_close(&run.neighbour);
}

static void play_case(const char *variant, const struct shape *shape,
                      const struct subject *neighbour, uint64_t number)
{
    struct subject subject;
    const uint32_t blocks = shape->hop > 1000 ? 20 : 44;
    if (!subject_make(&subject, shape, variant, blocks))
        return;
    char label[100];
    snprintf(label, sizeof label, "%s, %u taps, blocks of %u, 1 of %u, %s to %s", variant,
             shape->taps, shape->hop, shape->decimate, shape->format,
             shape->results != NULL ? shape->results : "floats");
    struct run plain = {.plain = true, .now_ns = NS_PER_SECOND};
    plain.player.packet_max = shape->hop;
    player_open(&plain.player, &subject, "plain");
    play(&plain);
    for (uint64_t r = 0; r < RUNS; r++)
        random_run(label, &subject, neighbour, &plain.player, number * RUNS + r);
    player_close(&plain.player);
    subject_free(&subject);
}

/* With the variants named in `only`, or all that the device runs. */
static void same_bits(const char *only)
{
    print_message("CONVOLVD_TEST_SEED=%llu on %s\n", (unsigned long long)seed,
                  engine_device(engine)->name);
    memset(&done, 0, sizeof done);
    struct subject neighbour;
    static const struct shape beside = {32, 77, 2, 1, "s16le", NULL, OUTPUT_REAL, NULL, false};
    assert_true(subject_make(&neighbour, &beside, "direct", 120));
    const char *variant;
    for (int v = 0; (variant = engine_variant_name(v)) != NULL; v++) {
        const bool staged = strcmp(variant, "staged") == 0;
        if (!harness_runs(engine, staged ? "fused" : variant) ||
            (only != NULL && strstr(only, variant) == NULL))
            continue;
        /* No kernels to compile. */
        const bool host = strcmp(variant, "host") == 0;
        const bool every = only != NULL || staged || host || harness_every_shape();
        for (uint64_t i = 0; i < SHAPES; i++)
            if (staged == (shapes[i].only != NULL) && (only == NULL || shapes[i].mirrored) &&
                (every || (i + (uint64_t)v) % (SHAPES - 1) == 0))
                play_case(variant, &shapes[i], &neighbour, (uint64_t)v * SHAPES + i);
    }
    subject_free(&neighbour);
    assert_true(done.single > 0 && done.several > 0 && done.shared > 0 && done.resubmitted > 0);
    assert_true(done.gaps > 0 && done.changes > 0);
    assert_true(done.reordered > 0 && done.leads > 0 && done.resumed > 0);
    assert_true(done.parted > 0 && done.overtook > 0);
    print_message("%llu streams resumed, %llu batches in parts, %llu beside them\n",
                  (unsigned long long)done.resumed, (unsigned long long)done.parted,
                  (unsigned long long)done.overtook);
}

static void same_bits_of_every_variant(void **state)
{
    (void)state;
    same_bits(NULL);
}

/* Device memory of its own, as on a GPU, whose contents another plan does not have: the variants
 * that keep tails or delay lines there, and the host beside it, with the kernels of a CPU. */
static void same_bits_of_state_in_a_mirror(void **state)
{
    (void)state;
    same_bits("partitioned overlap-add host");
}

/* The same with kernels as for a GPU. A CPU takes long to compile those:
 * few variants and shapes. */
static void same_bits_through_a_mirror(void **state)
{
    (void)state;
    same_bits("fused staged direct");
}

/* ---- batches without streams ----------------------------------------------------------------- */

/* The ring holds all of the subject's signal. */
static struct ring *filled_ring(const struct subject *subject)
{
    const struct test_signal *signal = subject->signal;
    const uint32_t frame_bytes = signal->inputs * signal->format.bytes;
    struct problem problem;
    struct ring *ring;
    assert_int_equal(engine_ring_open(engine, signal->frames, frame_bytes, &ring, &problem), 0);
    memcpy(ring->bytes, signal->bytes, signal->frames * frame_bytes);
    return ring;
}

static void add_blocks(struct batch *batch, const struct subject *subject, struct ring *ring,
                       uint64_t block)
{
    const uint32_t hop = subject->shape->hop;
    const struct batch_item item = {
        .plan = subject->plan.plan,
        .ring = ring,
        .position = block * hop,
        .epoch_block = block,
        .blocks = J_MAX,
        .write_until = J_MAX * hop,
        .fresh_until = subject->signal->frames,
    };
    assert_int_equal(engine_batch_add(engine, batch, &item), 0);
}

/* Staged enqueues its kernels without an event. As the last item of a batch, while another batch is
 * in flight, its results must not be copied when the kernels of the item before are complete.
 * Blocks take turns, so that the memory of a batch never holds the wanted results from before. */
static void results_come_behind_staged_kernels(void **state)
{
    (void)state;
    static const struct shape beside = {32, 77, 2, 1, "s16le", NULL, OUTPUT_REAL, NULL, false};
    enum { TURNS = 3, ROUNDS = 5 * TURNS, FLOATS = J_MAX * 4096 };
    struct subject other, staged;
    assert_true(subject_make(&other, &beside, "direct", 120));
    assert_true(subject_make(&staged, &shapes[SHAPES - 1], "staged", (TURNS + 1) * J_MAX));
    struct ring *others = filled_ring(&other), *ring = filled_ring(&staged);
    float *want = malloc(TURNS * FLOATS * sizeof *want);
    for (int round = -TURNS; round < ROUNDS; round++) {
        const int turn = (round + TURNS) % TURNS;
        struct batch *ahead = engine_batch_take(engine), *batch = engine_batch_take(engine);
        add_blocks(ahead, &other, others, 0);
        if (round >= 0)
            add_blocks(batch, &other, others, J_MAX);
        add_blocks(batch, &staged, ring, (uint64_t)(1 + turn) * J_MAX);
        engine_submit(engine, ahead);
        engine_submit(engine, batch);
        assert_ptr_equal(harness_wait(engine), ahead);
        assert_ptr_equal(harness_wait(engine), batch);
        const float *got = batch->items[batch->count - 1].samples;
        if (round < 0)
            memcpy(want + turn * FLOATS, got, FLOATS * sizeof *want);
        else
            assert_memory_equal(got, want + turn * FLOATS, FLOATS * sizeof *want);
        engine_batch_release(engine, ahead);
        engine_batch_release(engine, batch);
    }
    free(want);
    engine_ring_close(engine, others);
    engine_ring_close(engine, ring);
    subject_free(&other);
    subject_free(&staged);
}

/* ---- devices ------------------------------------------------------------------------------- */

static bool has_gpu(void)
{
    struct device_info infos[16];
    struct problem problem;
    const int count = device_list(infos, 16, 0, &problem);
    for (int i = 0; i < count && i < 16; i++)
        if (infos[i].gpu)
            return true;
    return false;
}

static int open_mirror(void **state)
{
    engine_seams.mirrored = true;
    return open_engine(state);
}

static int open_gpu(void **state)
{
    if (!has_gpu())
        return 0;
    setenv("CONVOLVD_TEST_DEVICE", "gpu", 1);
    return open_engine(state);
}

static int close_gpu(void **state)
{
    return engine != NULL ? close_engine(state) : 0;
}

static void same_bits_on_a_gpu(void **state)
{
    if (engine == NULL) {
        print_message("no GPU here\n");
        skip();
    }
    (void)state;
    same_bits(NULL);
}

int main(void)
{
    const char *wanted = getenv("CONVOLVD_TEST_SEED"), *longer = getenv("CONVOLVD_TEST_LONG");
    if (wanted != NULL)
        seed = strtoull(wanted, NULL, 0);
    else if (longer != NULL && *longer != '\0')
        seed = (uint64_t)time(NULL);
    const struct CMUnitTest any[] = {cmocka_unit_test(same_bits_of_every_variant)};
    const struct CMUnitTest kept[] = {cmocka_unit_test(same_bits_of_state_in_a_mirror)};
    const struct CMUnitTest mirror[] = {cmocka_unit_test(same_bits_through_a_mirror),
                                        cmocka_unit_test(results_come_behind_staged_kernels)};
    const struct CMUnitTest gpu[] = {cmocka_unit_test(same_bits_on_a_gpu)};
    int failed = cmocka_run_group_tests_name("the device", any, open_engine, close_engine);
    if (getenv("CONVOLVD_TEST_DEVICE") != NULL)
        return failed;
    failed += cmocka_run_group_tests_name("state in a mirror", kept, open_mirror, close_engine);
    failed += cmocka_run_group_tests_name("a mirror", mirror, open_mirrored_engine, close_engine);
    failed += cmocka_run_group_tests_name("a GPU", gpu, open_gpu, close_gpu);
    return failed;
}
