/*
 * Drives a whole stream by the bytes of the input, a call a byte: packets, gaps, late and doubled
 * packets, kernel drops, new epochs, overload, failing batches, filter changes, idle time. The
 * device is the simulated one of stream_world.h, which computes by definition.
 *
 * A slow model holds what was sent. Every frame of every result is held against it:
 *
 *     not flagged       all input within its filter's reach was put, and the sample is the
 * convolution flagged as a gap  some of that input is missing below the end     handed on once, or
 * reported as missing once raw, not flagged  the frame as it was sent; flagged: it was not put
 *
 * and the ledgers balance after each call.
 */
#define WORLD_FRAMES (1 << 11)
#include "tests/support/stream_world.h"
#include "tests/fuzz/require.h"

enum { NUMBERS = WORLD_FRAMES - 512, PACKET_MAX = 128, SKIPPED_MAX = 32, EXACT_GAPS = 100 };

/* What became of a frame that was sent. */
enum fate { FATE_MISSING, FATE_PUT, FATE_UNKNOWN };

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes);

/* Frames are numbered as sent, across epochs. */
static struct {
    uint8_t fate[WORLD_FRAMES];
    uint64_t origin[EPOCHS]; /* number of an epoch's frame 0 */
    uint64_t end[EPOCHS];    /* of its input; numbered from the origin */
    uint64_t epochs, next;
    uint64_t last_from;
    uint32_t last_count;
    struct {
        uint64_t from;
        uint32_t count;
    } skipped[SKIPPED_MAX];
    uint32_t skipped_count, gaps;
    uint32_t flags;            /* of the next packet */
    bool vacant;               /* the next packet is received into the ring */
    const struct plan *before; /* the filter change */
    bool changing;
} model;

static int16_t sample_of(uint64_t number, int channel)
{
    const uint64_t mixed = (number * 2 + (uint64_t)channel + 1) * UINT64_C(0x9E3779B97F4A7C15);
    return (int16_t)((int)(mixed >> 49) - 0x3FFF);
}

/* ---- results against the model ------------------------------------------------------------- */

static uint32_t causes_of(const struct result *result, uint64_t frame)
{
    uint32_t causes = 0;
    for (uint32_t i = 0; i < result->invalid_count; i++)
        if (frame >= result->invalid[i].from && frame < result->invalid[i].until)
            causes |= bit(result->invalid[i].cause);
    return causes;
}

static const struct plan *plan_of(const struct result *result, uint64_t frame)
{
    if (result->taps_hash == NULL)
        return &world->plan;
    const struct plan *plan = result->taps_hash[0] == 'a' ? &world->plan : &world->other;
    return frame >= result->taps_from ? plan : model.before;
}

static void require_convolution(const struct result *result, uint64_t frame, const float *samples)
{
    const uint64_t origin = model.origin[result->epoch];
    const struct plan *plan = plan_of(result, frame);
    for (int c = 0; c < CHANNELS; c++) {
        double sum = 0;
        for (uint64_t k = 0; k < TAPS && k <= frame; k++) {
            REQUIRE(model.fate[origin + frame - k] != FATE_MISSING);
            sum += plan->taps[k] * sample_of(origin + frame - k, c);
        }
        REQUIRE((float)sum == samples[c]);
    }
}

static bool reaches_missing(const struct result *result, uint64_t frame)
{
    const uint64_t origin = model.origin[result->epoch];
    for (uint64_t k = 0; k < TAPS && k <= frame; k++)
        if (model.fate[origin + frame - k] != FATE_PUT)
            return true;
    return false;
}

static void check_result(void *context, const struct result *result)
{
    const uint32_t gaps = bit(INVALID_NETWORK) | bit(INVALID_SOCKET) | bit(INVALID_LATE) |
                          bit(INVALID_CAPTURE) | bit(INVALID_OVERLOAD);
    (void)context;
    for (uint32_t i = 0; i < result->frames; i++) {
        const uint64_t frame = result->first_frame + i;
        const uint32_t causes = causes_of(result, frame);
        if (causes == 0)
            require_convolution(result, frame, result->samples + (size_t)i * CHANNELS);
        else if (causes & gaps && model.gaps < EXACT_GAPS)
            REQUIRE(reaches_missing(result, frame));
    }
}

static void check_raw(void *context, const struct result *result)
{
    (void)context;
    const uint64_t origin = model.origin[result->epoch];
    for (uint32_t i = 0; i < result->frames; i++) {
        const uint64_t number = origin + result->first_frame + i;
        int16_t codes[CHANNELS];
        memcpy(codes, result->raw + (size_t)i * sizeof codes, sizeof codes);
        if (causes_of(result, result->first_frame + i) != 0) {
            REQUIRE(model.fate[number] != FATE_PUT || model.gaps >= EXACT_GAPS);
            continue;
        }
        REQUIRE(model.fate[number] != FATE_MISSING);
        for (int c = 0; c < CHANNELS; c++)
            REQUIRE(codes[c] == sample_of(number, c));
    }
}

static void check_whole(void)
{
    REQUIRE(!world->got.out_of_order);
    REQUIRE(world->got.starts == (int)model.epochs && world->got.ends == (int)model.epochs);
    for (uint64_t e = 0; e < model.epochs; e++)
        for (uint64_t n = 0; n < model.end[e] + TAPS - 1; n++)
            REQUIRE(world->got.seen[e][n] + world->got.holes[e][n] == 1);
}

/* ---- calls --------------------------------------------------------------------------------- */

static void put_numbers(uint64_t from, uint32_t count, uint32_t flags, bool fresh)
{
    int16_t codes[PACKET_MAX][CHANNELS];
    for (uint32_t i = 0; i < count; i++)
        for (int c = 0; c < CHANNELS; c++)
            codes[i][c] = sample_of(from + i, c);
    struct packet packet = {
        .first_frame = from,
        .frames = count,
        .flags = flags,
        .payload = (const uint8_t *)codes,
        .receive_ns = world->now_ns,
        .receive_realtime_ns = simulated_realtime_ns(),
    };
    uint64_t room = count;
    uint8_t *slots = model.vacant && flags == 0 ? stream_vacant(world->stream, from, &room) : NULL;
    if (slots != NULL && room == count) {
        memcpy(slots, codes, sizeof codes[0] * count);
        packet.payload = slots;
    }
    model.vacant = false;
    /* Ports may get frames of it before the call returns. */
    uint8_t before[PACKET_MAX];
    memcpy(before, model.fate + from, count);
    memset(model.fate + from, FATE_UNKNOWN, count);
    if (model.epochs < EPOCHS)
        model.origin[model.epochs] = from;
    const enum verdict verdict = stream_put(world->stream, &packet);
    check_ledgers();
    if (verdict != VERDICT_ACCEPTED) {
        memcpy(model.fate + from, before, count);
        return;
    }
    struct stream_stats stats;
    stream_stats(world->stream, &stats);
    REQUIRE(stats.epochs - model.epochs <= 1);
    model.epochs = stats.epochs;
    for (uint32_t i = 0; i < count; i++) /* of an older packet, part may have been given up */
        model.fate[from + i] = fresh                       ? FATE_PUT
                               : before[i] != FATE_MISSING ? before[i]
                                                           : FATE_UNKNOWN;
    const uint64_t end = from + count - model.origin[model.epochs - 1];
    if (end > model.end[model.epochs - 1])
        model.end[model.epochs - 1] = end;
}

static void put_next(uint32_t count)
{
    if (model.next + count > NUMBERS || model.epochs == EPOCHS)
        return;
    const uint32_t flags = model.epochs == 0 || model.epochs >= EPOCHS - 2 ? 0 : model.flags;
    const uint64_t from = model.next;
    model.last_from = from;
    model.last_count = count;
    model.next += count;
    /* As a chain does: what follows an epoch's last packet begins the next one. */
    model.flags = flags & PACKET_LAST ? PACKET_DISCONTINUITY : 0;
    if (flags & PACKET_LAST)
        model.skipped_count = model.last_count = 0;
    put_numbers(from, count, flags, true);
}

static void leave_out(uint32_t count)
{
    if (model.epochs == 0 || model.flags != 0 || model.next + count > NUMBERS)
        return;
    model.gaps++;
    if (model.skipped_count < SKIPPED_MAX) {
        model.skipped[model.skipped_count].from = model.next;
        model.skipped[model.skipped_count++].count = count;
    }
    model.next += count;
}

static void put_skipped(uint32_t which)
{
    if (model.skipped_count == 0)
        return;
    which %= model.skipped_count;
    put_numbers(model.skipped[which].from, model.skipped[which].count, 0, false);
    model.skipped[which] = model.skipped[--model.skipped_count];
}

static void on_retired(void *context, struct plan *old)
{
    (void)context, (void)old;
    model.changing = false;
}

static void change_filter(uint32_t ahead)
{
    static const struct plan *in_force;
    if (model.changing)
        return;
    if (model.before == NULL)
        in_force = &world->plan;
    struct plan *plan = in_force == &world->plan ? &world->other : &world->plan;
    const struct stream_change change = {
        .plan = plan,
        .frame = stream_next_frame(world->stream) + 5 * ahead,
        .taps_hash = plan == &world->plan ? "a" : "b",
        .how = CHANGE_HARD,
        .retired = on_retired,
    };
    if (stream_change(world->stream, &change) != 0)
        return;
    model.before = in_force;
    in_force = plan;
    model.changing = true;
}

static void rare(uint32_t amount)
{
    const uint32_t much = amount >> 3; /* 0 … 3 */
    switch (amount & 7) {
    case 0:
        model.flags = PACKET_DISCONTINUITY;
        break;
    case 1:
        model.flags = model.flags == 0 ? PACKET_LAST : model.flags;
        break;
    case 2:
        stream_lost(world->stream, 1 + 20 * much, INVALID_CAPTURE);
        leave_out(1 + 20 * much);
        break;
    case 3:
        stream_socket_drops(world->stream, 1 + much);
        break;
    case 4:
        stream_lost(world->stream, 1 + 20 * much, INVALID_OVERLOAD);
        leave_out(1 + 20 * much);
        break;
    case 5:
        change_filter(much);
        break;
    default:
        model.vacant = true;
        break;
    }
    check_ledgers();
}

static void call(uint8_t byte)
{
    const uint32_t amount = byte >> 3;
    switch (byte & 7) {
    case 2:
        leave_out(1 + 4 * (amount > 0 ? amount - 1 : 0));
        break;
    case 3:
        put_skipped(amount);
        break;
    case 4:
        if (model.last_count > 0)
            put_numbers(model.last_from, model.last_count, 0, false);
        break;
    case 5:
        world->now_ns += (amount == 31 ? 400 : (int64_t)amount) * 50 * NS_PER_US;
        break;
    case 6:
        world->engine.fail_next = amount & 8;
        turn((int)(amount & 7));
        break;
    case 7:
        rare(amount);
        break;
    default:
        put_next(1 + 4 * amount);
        break;
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes)
{
    if (bytes == 0)
        return 0;
    memset(&model, 0, sizeof model);
    struct stream_options options = default_options();
    options.ring_frames_min = data[0] & 1 ? 1024 : 4096;
    options.reorder_ns = data[0] & 2 ? 0 : 200 * NS_PER_US;
    world_open(&options);
    const struct result_port results = {.put = check_result};
    const struct result_port raw = {.put = check_raw, .raw = true};
    REQUIRE(stream_add_port(world->stream, &results) == 0);
    REQUIRE(stream_add_port(world->stream, &raw) == 0);
    for (size_t i = 1; i < bytes && i < 4096; i++)
        call(data[i]);
    world->engine.fail_next = false;
    stream_end(world->stream);
    drain();
    check_whole();
    world_close();
    return 0;
}
