/*
 * Sequence: its rules as tables of {packets in order of arrival, what is expected of each},
 * each run from several starting numbers so that every rule is also met at the wrap of the
 * 16-bit and of the 32-bit counter; and a seeded simulation of a 10 MHz sender over 10^6
 * packets with loss, duplicates, reordering, forgeries and restarts, against what was sent.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "core/random.h"
#include "stream/packet.h"
#include "stream/sequence.h"

enum { FRAMES = 100 };

/* 1 MHz and packets of 100 frames: a window of 1000 frames, reach back of 2000, gaps to 10 000. */
static const struct sequence_options continuous = {
    .rate_hz = 1e6,
    .timestamp_bits = 32,
    .sequence_bits = 16,
    .reorder_ns = 1000000,
    .max_misorder_ns = 2000000,
    .max_gap_ns = 10000000,
    .max_dropout_ns = 10000000,
};

#define A    SEQUENCE_ACCEPT
#define H    SEQUENCE_HOLD
#define D    SEQUENCE_DUPLICATE
#define L    SEQUENCE_LATE
#define DISC PACKET_DISCONTINUITY
#define REC  PACKET_RECORD
#define M    1 /* marker */
#define ANEW 1 /* the numbering began anew with the run this packet belongs to */

/* Fields left out of a row are zero: nothing held, no flags. */
#pragma GCC diagnostic ignored "-Wmissing-field-initializers"

struct row {
    int sequence;      /* relative to the start */
    int64_t timestamp; /* relative to the start */
    int marker;
    enum sequence_verdict verdict;
    uint32_t flags;
    enum sequence_held held;
    uint32_t held_flags;
    int anew;
    int other; /* a packet of another payload type */
};

#define OTHER(number)                                                                              \
    {                                                                                              \
        .sequence = number, .other = 1                                                             \
    }

struct scenario {
    const char *given;
    bool records;
    const struct row *rows;
    int count;
};

#define ROWS(...)                                                                                  \
    (const struct row[]){__VA_ARGS__},                                                             \
        sizeof((const struct row[]){__VA_ARGS__}) / sizeof(struct row)

#define RELEASE HELD_RELEASE
#define AFTER   HELD_RELEASE_AFTER
#define REJECT  HELD_REJECT
/* A clean start: two packets, the first released by the second. */
#define START                                                                                      \
    {0, 0, 0, H},                                                                                  \
    {                                                                                              \
        1, 100, 0, A, 0, RELEASE                                                                   \
    }
#define START_REC                                                                                  \
    {0, 0, 0, H},                                                                                  \
    {                                                                                              \
        1, 100, 0, A, 0, RELEASE, REC                                                              \
    }

static const struct scenario scenarios[] = {
    {"a clean start loses nothing", false, ROWS(START, {2, 200, 0, A}, {3, 300, 0, A})},
    {"a first packet not followed in order is replaced", false,
     ROWS({0, 0, 0, H}, {5, 500, 0, H, 0, REJECT}, {6, 600, 0, A, 0, RELEASE, 0, ANEW})},
    {"the first packet twice", false, ROWS({0, 0, 0, H}, {0, 0, 0, D}, {1, 100, 0, A, 0, RELEASE})},
    {"proven by number, then a jump in time", false,
     ROWS({0, 0, 0, H}, {1, 50100, 0, H, 0, RELEASE}, {2, 50200, 0, A, 0, RELEASE, DISC})},
    {"a duplicate is placed where it was", false,
     ROWS(START, {1, 100, 0, A}, {0, 0, 0, A}, {2, 200, 0, A})},
    {"two packets swapped", false, ROWS(START, {3, 300, 0, A}, {2, 200, 0, A}, {4, 400, 0, A})},
    {"the whole window missing", false, ROWS(START, {12, 1200, 0, A}, {13, 1300, 0, A})},
    {"one frame more than the window: a gap once confirmed", false,
     ROWS(START, {12, 1201, 0, H}, {13, 1301, 0, A, 0, RELEASE})},
    {"a gap of the longest length", false,
     ROWS(START, {102, 10200, 0, H}, {103, 10300, 0, A, 0, RELEASE})},
    {"one frame beyond the longest gap", false,
     ROWS(START, {102, 10201, 0, H}, {103, 10301, 0, A, 0, RELEASE, DISC})},
    {"a sender that paused: no packet lost, time went on", false,
     ROWS(START, {2, 5200, 0, H}, {3, 5300, 0, A, 0, RELEASE})},
    {"a forged jump forward", false,
     ROWS(START, {50, 5000, 0, H}, {2, 200, 0, A, 0, REJECT}, {3, 300, 0, A})},
    {"a forged jump beyond", false,
     ROWS(START, {9, 900000, 0, H}, {2, 200, 0, A, 0, REJECT}, {3, 300, 0, A})},
    {"a forged jump back", false, ROWS(START, {-900, -90000, 0, H}, {2, 200, 0, A, 0, REJECT})},
    {"the newest number on an older time", false,
     ROWS(START, {2, 200, 0, A}, {2, 100, 0, H}, {3, 300, 0, A, 0, REJECT})},
    {"a wild number at the right time", false,
     ROWS(START, {-30000, 200, 0, H}, {2, 200, 0, A, 0, REJECT})},
    {"a second forgery does not confirm the first", false,
     ROWS(START, {50, 50000, 0, H}, {51, 60000, 0, H, 0, REJECT}, {2, 200, 0, A, 0, REJECT})},
    {"a reordered packet does not decide about a jump", false,
     ROWS(START, {3, 300, 0, A}, {50, 5000, 0, H}, {2, 200, 0, A}, {51, 5100, 0, A, 0, RELEASE})},
    {"a duplicate of the held jump", false,
     ROWS(START, {50, 5000, 0, H}, {50, 5000, 0, D}, {51, 5100, 0, A, 0, RELEASE},
          {50, 5000, 0, A})},
    {"a jump that a straggler explains", false,
     ROWS(START, {13, 1300, 0, H}, {11, 1100, 0, A, 0, AFTER}, {14, 1400, 0, A})},
    {"back as far as reordering reaches", false,
     ROWS(START, {30, 3000, 0, H}, {31, 3100, 0, A, 0, RELEASE}, {11, 1100, 0, A},
          {32, 3200, 0, A})},
    {"one packet farther back is a jump", false,
     ROWS(START, {30, 3000, 0, H}, {31, 3100, 0, A, 0, RELEASE}, {10, 1000, 0, H},
          {32, 3200, 0, A, 0, REJECT})},
    {"a restarted sender", false,
     ROWS(START, {7000, -500000, 0, H}, {7001, -499900, 0, A, 0, RELEASE, DISC, ANEW},
          {7002, -499800, 0, A, 0, HELD_NONE, 0, ANEW})},
    {"packets from before a restart are late", false,
     ROWS(START, {7000, -500000, 0, H}, {7001, -499900, 0, A, 0, RELEASE, DISC, ANEW},
          {2, 200, 0, L}, {1, 100, 0, L}, {3, 300, 0, L},
          {7002, -499800, 0, A, 0, HELD_NONE, 0, ANEW})},
    {"the numbers restart, time goes on", false,
     ROWS(START, {7000, 200, 0, H}, {7001, 300, 0, A, 0, RELEASE, DISC})},
    {"a clock that lags ten frames", false,
     ROWS(START, {2, 190, 0, A}, {3, 290, 0, A}, {4, 395, 0, A})},
    {"the marker means nothing here", false, ROWS(START, {2, 200, M, A}, {3, 900, M, A})},

    {"another type between all packets", false,
     ROWS(START, OTHER(2), {3, 200, 0, A}, OTHER(4), {5, 300, 0, A}, OTHER(6), OTHER(7),
          {8, 400, 0, A})},
    {"a packet of another type is lost", false, ROWS(START, {3, 200, 0, A}, {4, 300, 0, A})},
    {"many of another type are lost", false, ROWS(START, {400, 200, 0, A}, {401, 300, 0, A})},
    {"loss among packets of two types", false,
     ROWS(START, OTHER(2), {3, 200, 0, A}, {8, 500, 0, A}, OTHER(9), {10, 600, 0, A})},
    {"another type comes reordered", false,
     ROWS(START, {3, 200, 0, A}, OTHER(2), {5, 300, 0, A}, {6, 400, 0, A}, OTHER(4))},
    {"reordered across packets of another type", false,
     ROWS(START, OTHER(2), OTHER(3), {5, 300, 0, A}, {4, 200, 0, A}, {6, 400, 0, A})},
    {"another type behind the first packet", false,
     ROWS({0, 0, 0, H}, OTHER(1), {2, 100, 0, A, 0, RELEASE}, {3, 200, 0, A})},
    {"a lost one behind the first packet", false,
     ROWS({0, 0, 0, H}, {2, 100, 0, A, 0, RELEASE}, {3, 200, 0, A})},
    {"another type behind a jump", false,
     ROWS(START, {50, 5000, 0, H}, OTHER(51), {52, 5100, 0, A, 0, RELEASE}, {53, 5200, 0, A})},
    {"another type behind a restart", false,
     ROWS(START, {7000, -500000, 0, H}, OTHER(7001), OTHER(7002),
          {7003, -499900, 0, A, 0, RELEASE, DISC, ANEW}, OTHER(7004),
          {7005, -499800, 0, A, 0, HELD_NONE, 0, ANEW})},
    {"an outage of two types is a gap", false,
     ROWS(START, OTHER(2), {3, 200, 0, A}, {183, 9200, 0, H}, OTHER(184),
          {185, 9300, 0, A, 0, RELEASE})},
    {"a lagging clock, and another type is lost", false,
     ROWS(START, OTHER(2), {3, 200, 0, A}, {5, 290, 0, A}, {7, 385, 0, A})},
    {"records: another type before a marker", true,
     ROWS(START_REC, OTHER(2), {3, 70000, M, A, REC}, OTHER(4), {5, 70100, 0, A})},
    {"records: a pause, one packet, another type, a marker", true,
     ROWS(START_REC, {2, 5000, 0, H}, OTHER(3), {4, 9000, M, A, REC, RELEASE, REC})},
    {"records: another type around a pause", true,
     ROWS(START_REC, OTHER(2), {3, 5000, 0, H}, OTHER(4), {5, 5100, 0, A, 0, RELEASE, REC})},

    {"records: the first packet begins one", true, ROWS(START_REC, {2, 200, 0, A})},
    {"records: the marker begins one at once", true,
     ROWS(START_REC, {2, 70000, M, A, REC}, {3, 70100, 0, A})},
    {"records: one right behind the other", true,
     ROWS(START_REC, {2, 200, M, A, REC}, {3, 300, 0, A})},
    {"records: time starts again", true,
     ROWS(START_REC, {2, -400, M, A, REC | DISC, HELD_NONE, 0, ANEW},
          {3, -300, 0, A, 0, HELD_NONE, 0, ANEW})},
    {"records of one packet each", true,
     ROWS({0, 0, M, H}, {1, 5000, M, A, REC, RELEASE, REC}, {2, 90000, M, A, REC})},
    {"records of one packet each without markers", true,
     ROWS(START_REC, {2, 5000, 0, H}, {3, 9000, 0, H, 0, RELEASE, REC},
          {4, 12500, 0, H, 0, RELEASE, REC}, {5, 12600, 0, A, 0, RELEASE, REC})},
    {"records: a forged jump with the next number", true,
     ROWS(START_REC, {2, 5000, 0, H}, {2, 200, 0, A, 0, REJECT}, {3, 300, 0, A})},
    {"records: a forged jump in the place of a lost packet", true,
     ROWS(START_REC, {2, 5000, 0, H}, {3, 300, 0, A, 0, REJECT}, {4, 400, 0, A})},
    {"records: a pause without a marker", true,
     ROWS(START_REC, {2, 5000, 0, H}, {3, 5100, 0, A, 0, RELEASE, REC})},
    {"records: a short pause without a marker", true,
     ROWS(START_REC, {2, 350, 0, H}, {3, 450, 0, A, 0, RELEASE, REC})},
    {"records: a pause, one packet, a marker", true,
     ROWS(START_REC, {2, 5000, 0, H}, {3, 9000, M, A, REC, RELEASE, REC})},
    {"records: loss within one is a gap", true,
     ROWS(START_REC, {40, 4000, 0, H}, {41, 4100, 0, A, 0, RELEASE})},
    {"records: a little loss, then a marker", true, ROWS(START_REC, {4, 400, M, A, REC})},
    {"records: much loss around a marker", true,
     ROWS(START_REC, {4, 80000, M, H}, {5, 80100, 0, A, 0, RELEASE, REC | DISC})},
    {"records: the marker overtaken by its successor", true,
     ROWS(START_REC, {3, 80100, 0, H}, {2, 80000, M, A, REC, AFTER}, {4, 80200, 0, A})},
    {"records: a straggler of the one before", true,
     ROWS(START_REC, {3, 70000, 0, H}, {4, 70100, 0, A, 0, RELEASE, REC | DISC}, {2, 200, 0, L})},
    {"records: a forged jump", true, ROWS(START_REC, {9, 9000, 0, H}, {2, 200, 0, A, 0, REJECT})},
};

static uint64_t expected_place(const struct row *row, uint32_t timestamp0)
{
    if (row->anew)
        return SEQUENCE_ORIGIN + (uint32_t)(timestamp0 + (uint64_t)row->timestamp);
    return SEQUENCE_ORIGIN + timestamp0 + (uint64_t)row->timestamp;
}

static void run_scenario(const struct scenario *scenario, uint16_t sequence0, uint32_t timestamp0)
{
    struct sequence sequence;
    struct sequence_options options = continuous;
    options.records = scenario->records;
    sequence_reset(&sequence, &options);
    static const struct row nothing = {0};
    const struct row *held = &nothing;
    for (int i = 0; i < scenario->count; i++) {
        const struct row *row = &scenario->rows[i];
        struct sequence_range unsent;
        if (row->other) {
            sequence_other(&sequence, (uint16_t)(sequence0 + row->sequence), &unsent);
            continue;
        }
        struct sequence_packet packet = {
            .sequence = (uint16_t)(sequence0 + row->sequence),
            .timestamp = (uint32_t)(timestamp0 + (uint64_t)row->timestamp),
            .frames = FRAMES,
            .marker = row->marker,
            .receive_ns = 1000000000 + i * 100000,
        };
        struct sequence_step step = sequence_next(&sequence, &packet);
        const char *what = NULL;
        if (step.verdict != row->verdict)
            what = "verdict";
        else if (step.held != row->held)
            what = "fate of the held packet";
        else if (step.verdict == A && step.flags != row->flags)
            what = "flags";
        else if (step.verdict == A && step.first_frame != expected_place(row, timestamp0))
            what = "place";
        else if ((step.held == RELEASE || step.held == AFTER) && step.held_flags != row->held_flags)
            what = "flags of the held packet";
        else if (step.held == RELEASE || step.held == AFTER) {
            struct row of_held = *held;
            of_held.anew = row->anew;
            if (step.held_first_frame != expected_place(&of_held, timestamp0))
                what = "place of the held packet";
        }
        if (what != NULL)
            fail_msg("%s, from %u and %u, packet %d (%d, %lld): %s: verdict %d flags %u held %d %u",
                     scenario->given, sequence0, timestamp0, i, row->sequence,
                     (long long)row->timestamp, what, step.verdict, step.flags, step.held,
                     step.held_flags);
        if (step.verdict == H)
            held = row;
    }
}

static void test_rules(void **state)
{
    (void)state;
    static const struct {
        uint16_t sequence;
        uint32_t timestamp;
    } starts[] = {
        {1000, 1000000000},   {0, 0},
        {0xFFFF, 0xFFFFFFCE}, {0xFFFE, 0xFFFFFF38},
        {0x8000, 0x80000000}, {65534, 4294966000u},
    };
    for (size_t i = 0; i < sizeof scenarios / sizeof scenarios[0]; i++) {
        for (size_t j = 0; j < sizeof starts / sizeof starts[0]; j++)
            run_scenario(&scenarios[i], starts[j].sequence, starts[j].timestamp);
    }
}

/* ---- sixty-four bits, no time stamp ------------------------------------------------------ */

static struct sequence_step next64(struct sequence *sequence, uint64_t number, uint32_t frames)
{
    return sequence_next(sequence, &(struct sequence_packet){.sequence = number, .frames = frames});
}

static void test_numbered(void **state)
{
    (void)state;
    struct sequence_options options = continuous;
    options.timestamp_bits = 0;
    options.sequence_bits = 64;
    struct sequence sequence;
    sequence_reset(&sequence, &options);
    struct sequence_step step = next64(&sequence, 7, 100);
    assert_int_equal(step.verdict, SEQUENCE_HOLD);
    step = next64(&sequence, 8, 100);
    assert_int_equal(step.held, HELD_RELEASE);
    assert_int_equal(step.held_first_frame, SEQUENCE_ORIGIN + 700);
    assert_int_equal(step.first_frame, SEQUENCE_ORIGIN + 800);
    assert_int_equal(next64(&sequence, 11, 100).first_frame, SEQUENCE_ORIGIN + 1100);
    assert_int_equal(next64(&sequence, 10, 100).first_frame, SEQUENCE_ORIGIN + 1000);
    assert_int_equal(next64(&sequence, 12, 40).first_frame,
                     SEQUENCE_ORIGIN + 1200); /* a short one */
    assert_int_equal(next64(&sequence, 13, 100).first_frame, SEQUENCE_ORIGIN + 1240);
    /* A gap, held and confirmed. */
    assert_int_equal(next64(&sequence, 64, 100).verdict, SEQUENCE_HOLD);
    step = next64(&sequence, 65, 100);
    assert_int_equal(step.held, HELD_RELEASE);
    assert_int_equal(step.held_flags, 0);
    assert_int_equal(step.held_first_frame, SEQUENCE_ORIGIN + 1340 + 50 * 100);
    /* Forgeries at every end of the range, then a restart at zero. */
    static const uint64_t wild[] = {0,
                                    1,
                                    UINT64_MAX,
                                    UINT64_C(1) << 63,
                                    (UINT64_C(1) << 63) + 65,
                                    (UINT64_C(1) << 63) + 66,
                                    INT64_MAX,
                                    UINT64_C(1) << 62};
    uint64_t number = 66;
    for (size_t i = 0; i < sizeof wild / sizeof wild[0]; i++) {
        assert_int_equal(next64(&sequence, wild[i], 65507).verdict, SEQUENCE_HOLD);
        step = next64(&sequence, number++, 100);
        assert_int_equal(step.verdict, SEQUENCE_ACCEPT);
        assert_int_equal(step.held, HELD_REJECT);
        assert_false(step.held_unproven);
    }
    assert_int_equal(next64(&sequence, 0, 100).verdict, SEQUENCE_HOLD);
    step = next64(&sequence, 1, 100);
    assert_int_equal(step.held_flags, PACKET_DISCONTINUITY);
    assert_int_equal(step.held_first_frame, SEQUENCE_ORIGIN);
    assert_int_equal(step.first_frame, SEQUENCE_ORIGIN + 100);
}

/* ---- time decides what a time stamp cannot ----------------------------------------------- */

static void test_silence_longer_than_a_lap(void **state)
{
    (void)state;
    struct sequence_options options = continuous;
    options.rate_hz = 10e6; /* a time stamp wraps in 429 s */
    options.records = true;
    struct sequence sequence;
    sequence_reset(&sequence, &options);
    struct sequence_packet packet = {.timestamp = 4000000000u, .frames = 100};
    sequence_next(&sequence, &packet);
    packet.sequence++, packet.timestamp += 100, packet.receive_ns += 10000;
    assert_int_equal(sequence_next(&sequence, &packet).verdict, SEQUENCE_ACCEPT);
    /* 1000 s later: 10^10 frames, more than two laps. */
    packet.sequence++, packet.receive_ns += INT64_C(1000000000000), packet.marker = true;
    packet.timestamp = (uint32_t)(4000000100u + UINT64_C(10000000000) + 777);
    struct sequence_step step = sequence_next(&sequence, &packet);
    assert_int_equal(step.verdict, SEQUENCE_ACCEPT);
    assert_int_equal(step.flags, PACKET_RECORD);
    assert_int_equal(step.first_frame, SEQUENCE_ORIGIN + 4000000100u + UINT64_C(10000000000) + 777);

    /* Without records: no gap is made of it. */
    options.records = false;
    sequence_reset(&sequence, &options);
    packet = (struct sequence_packet){.timestamp = 5, .frames = 100};
    sequence_next(&sequence, &packet);
    packet.sequence++, packet.timestamp += 100;
    sequence_next(&sequence, &packet);
    packet.sequence++, packet.timestamp += 100, packet.receive_ns += INT64_C(430000000000);
    assert_int_equal(sequence_next(&sequence, &packet).verdict, SEQUENCE_HOLD);
    packet.sequence++, packet.timestamp += 100;
    step = sequence_next(&sequence, &packet);
    assert_int_equal(step.held, HELD_RELEASE);
    assert_int_equal(step.held_flags, PACKET_DISCONTINUITY);
}

/* A loss longer than max dropout, once confirmed, is a gap as long as max gap allows. */
static void test_gap_longer_than_max_dropout(void **state)
{
    (void)state;
    static const struct {
        int lost;
        uint32_t held_flags;
    } table[] = {{150, 0}, {200, 0}, {1000, 0}, {1001, PACKET_DISCONTINUITY}};
    for (size_t i = 0; i < sizeof table / sizeof table[0]; i++) {
        struct sequence_options options = continuous;
        options.max_gap_ns = 10 * options.max_dropout_ns;
        struct sequence sequence;
        sequence_reset(&sequence, &options);
        struct sequence_packet packet = {.frames = FRAMES};
        for (int n = 0; n < 2; n++, packet.sequence++, packet.timestamp += FRAMES)
            sequence_next(&sequence, &packet);
        packet.sequence += (uint64_t)table[i].lost;
        packet.timestamp += (uint32_t)table[i].lost * FRAMES;
        assert_int_equal(sequence_next(&sequence, &packet).verdict, SEQUENCE_HOLD);
        packet.sequence++, packet.timestamp += FRAMES;
        struct sequence_step step = sequence_next(&sequence, &packet);
        assert_int_equal(step.held, HELD_RELEASE);
        if (step.held_flags != table[i].held_flags)
            fail_msg("%d packets lost: flags %u", table[i].lost, step.held_flags);
    }
}

/* ---- a simulated sender and network ------------------------------------------------------ */

struct arrival {
    struct sequence_packet packet;
    uint64_t frame; /* the true one, from the sender's beginning */
    uint32_t epoch;
    bool forged;
    bool first; /* of its epoch */
};

struct weather {
    const char *given;
    uint64_t seed;
    double rate_hz;
    uint32_t frames_min, frames_max;
    double loss, duplicate, reorder, forged, burst, restart; /* per packet */
};

enum { PACKETS = 1000000, REORDER_DEPTH = 6 };

struct simulation {
    struct random_state random;
    struct sequence sequence;
    struct arrival held;
    bool holding;
    bool known; /* the offset is */
    uint32_t epoch;
    uint64_t offset; /* place - true frame, in this epoch */
    uint64_t arrived, forged, accepted, rejected, duplicates, late, discontinuities;
    uint32_t epochs_sent;
};

static void placed(struct simulation *sim, const struct weather *weather, const struct arrival *a,
                   uint64_t place, uint32_t flags)
{
    sim->accepted++;
    if (a->forged)
        fail_msg("%s: a forged packet was accepted", weather->given);
    if (flags & PACKET_DISCONTINUITY) {
        sim->discontinuities++;
        if (!a->first)
            fail_msg("%s: a discontinuity inside epoch %u", weather->given, a->epoch);
    }
    if (!sim->known || flags & PACKET_DISCONTINUITY) {
        sim->known = true;
        sim->epoch = a->epoch;
        sim->offset = place - a->frame;
    }
    if (a->epoch != sim->epoch)
        fail_msg("%s: epoch %u was taken for %u", weather->given, a->epoch, sim->epoch);
    if (place - a->frame != sim->offset)
        fail_msg("%s: frame %llu was put at %llu", weather->given, (unsigned long long)a->frame,
                 (unsigned long long)(place - sim->offset));
}

static void arrive(struct simulation *sim, const struct weather *weather, const struct arrival *a)
{
    sim->arrived++;
    sim->forged += a->forged;
    struct sequence_step step = sequence_next(&sim->sequence, &a->packet);
    if (step.held == HELD_RELEASE)
        placed(sim, weather, &sim->held, step.held_first_frame, step.held_flags);
    if (step.verdict == SEQUENCE_ACCEPT)
        placed(sim, weather, a, step.first_frame, step.flags);
    if (step.held == HELD_RELEASE_AFTER)
        placed(sim, weather, &sim->held, step.held_first_frame, step.held_flags);
    if (step.held == HELD_REJECT) {
        sim->rejected++;
        if (!sim->held.forged && weather->reorder == 0)
            fail_msg("%s: frame %llu of the true sender was rejected", weather->given,
                     (unsigned long long)sim->held.frame);
    }
    if (step.held != HELD_NONE)
        sim->holding = false;
    sim->duplicates += step.verdict == SEQUENCE_DUPLICATE;
    sim->late += step.verdict == SEQUENCE_LATE;
    if (step.verdict == SEQUENCE_HOLD) {
        assert_false(sim->holding);
        sim->held = *a;
        sim->holding = true;
    }
    /* The ledger, at every instant. */
    assert_int_equal(sim->arrived, sim->accepted + sim->rejected + sim->duplicates + sim->late +
                                       (uint64_t)sim->holding);
}

static void simulate(const struct weather *weather)
{
    struct simulation *sim = calloc(1, sizeof *sim);
    assert_non_null(sim);
    sim->random.state = weather->seed;
    struct sequence_options options = continuous;
    options.rate_hz = weather->rate_hz;
    options.reorder_ns = 1000000;
    options.max_misorder_ns = 10000000;
    options.max_gap_ns = options.max_dropout_ns = 1000000000;
    sequence_reset(&sim->sequence, &options);

    struct arrival line[REORDER_DEPTH + 1]; /* the network: packets on their way */
    int waiting = 0;
    uint16_t number = 65000;
    uint32_t stamp0 = 0xFFFF0000u;
    uint64_t frame = 0;
    uint32_t epoch = 0;
    bool first = false;
    int calm = 2; /* packets until the next fault */
    for (int i = 0; i < PACKETS; i++) {
        struct random_state *r = &sim->random;
        if (calm == 0 && random_unit(r) < weather->restart) {
            for (int j = 0; j < waiting; j++)
                arrive(sim, weather, &line[j]);
            waiting = 0;
            number = (uint16_t)(number + 1000 + random_below(r, 50000));
            stamp0 += (UINT32_C(1) << 30) + random_below(r, UINT32_C(1) << 31);
            epoch++;
            first = true;
            calm = 3;
        }
        if (calm == 0 && random_unit(r) < weather->burst) {
            uint32_t lost =
                1 + random_below(r, (uint32_t)(0.9 * weather->rate_hz / weather->frames_max));
            number = (uint16_t)(number + lost);
            frame += (uint64_t)lost * weather->frames_max;
            calm = 3;
        }
        struct arrival a = {
            .packet = {.sequence = number++,
                       .timestamp = (uint32_t)(stamp0 + frame),
                       .frames = weather->frames_min +
                                 random_below(r, weather->frames_max - weather->frames_min + 1),
                       .receive_ns = (int64_t)((double)frame / weather->rate_hz * 1e9)},
            .frame = frame,
            .epoch = epoch,
            .first = first,
        };
        first = false;
        frame += a.packet.frames;
        if (calm > 0)
            calm--;
        else if (random_unit(r) < weather->loss)
            continue;
        if (random_unit(r) < weather->forged) {
            struct arrival forged = a;
            forged.forged = true;
            forged.packet.sequence = (uint16_t)random_u64(r);
            forged.packet.timestamp = (uint32_t)random_u64(r);
            arrive(sim, weather, &forged);
        }
        line[waiting++] = a;
        if (waiting > 1 && random_unit(r) < weather->reorder) {
            struct arrival swapped = line[waiting - 1];
            int with = (int)random_below(r, (uint32_t)waiting - 1);
            line[waiting - 1] = line[with];
            line[with] = swapped;
        }
        bool straight = weather->reorder == 0 || i < 2 * REORDER_DEPTH;
        while (waiting > (straight ? 0 : REORDER_DEPTH)) {
            arrive(sim, weather, &line[0]);
            if (random_unit(r) < weather->duplicate)
                arrive(sim, weather, &line[0]);
            memmove(line, line + 1, (size_t)--waiting * sizeof line[0]);
        }
    }
    printf("%s: seed %llu: %llu arrived, %llu accepted, %llu rejected, %llu forged, %u restarts\n",
           weather->given, (unsigned long long)weather->seed, (unsigned long long)sim->arrived,
           (unsigned long long)sim->accepted, (unsigned long long)sim->rejected,
           (unsigned long long)sim->forged, epoch);
    assert_int_equal(sim->discontinuities, epoch);
    assert_int_equal(sim->rejected + (sim->holding && sim->held.forged), sim->forged);
    assert_int_equal(sim->late, 0);
    free(sim);
}

/* 10 MHz, 16 channels of 16 bits: 43 frames a packet, a sequence number wraps in 0.28 s. */
static void test_simulated(void **state)
{
    (void)state;
    static const struct weather weathers[] = {
        {"clear", 11, 10e6, 43, 43, 0, 0, 0, 0, 0, 0},
        {"loss, duplicates, reordering", 12, 10e6, 43, 43, 0.01, 0.01, 0.05, 0, 0, 0},
        {"packets of every size", 13, 10e6, 1, 350, 0.01, 0.01, 0.05, 0, 0, 0},
        {"half of all lost", 14, 10e6, 43, 43, 0.5, 0.01, 0.05, 0, 0, 0},
        {"forgeries", 15, 10e6, 43, 43, 0.01, 0.01, 0.05, 0.001, 0, 0},
        {"outages and restarts", 16, 10e6, 43, 43, 0.01, 0, 0, 0, 0.0005, 0.0005},
        {"big packets at 8 kHz", 17, 8e3, 700, 700, 0.01, 0.01, 0, 0, 0.0005, 0.0005},
    };
    for (size_t i = 0; i < sizeof weathers / sizeof weathers[0]; i++)
        simulate(&weathers[i]);
}

/* ---- what the sender never sent ---------------------------------------------------------- */

enum { SHORT_RUN = 20000, SHORT_FRAMES = SHORT_RUN * 500 };

struct proof {
    const char *given;
    double other, skip, loss;
    bool reorder;
};

/* `skipped` holds what the sender left out, `reported` what the numbers proved. */
static void check_unsent(const struct sequence_range *unsent, uint64_t start, uint8_t *reported)
{
    for (uint64_t frame = unsent->from; frame < unsent->until; frame++) {
        assert_true(frame >= start && frame - start < SHORT_FRAMES);
        reported[frame - start] = 1;
    }
}

static void prove(const struct proof *proof, uint64_t seed)
{
    struct random_state random = {seed};
    struct sequence sequence;
    uint8_t *skipped = calloc(2, SHORT_FRAMES), *reported = skipped + SHORT_FRAMES;
    assert_non_null(skipped);
    sequence_reset(&sequence, &continuous);
    struct arrival line[REORDER_DEPTH + 1];
    int waiting = 0;
    uint64_t frame = 0;
    const uint64_t start = SEQUENCE_ORIGIN + 4294000000u;
    for (int i = 0; i < SHORT_RUN; i++) {
        const bool other = i > 2 && random_unit(&random) < proof->other;
        const uint32_t skip = i > 2 && !other && random_unit(&random) < proof->skip
                                  ? 1 + random_below(&random, 250)
                                  : 0;
        memset(skipped + frame, 1, skip);
        frame += skip;
        const struct arrival a = {.packet = {.sequence = (uint16_t)(65000 + i),
                                             .timestamp = (uint32_t)(4294000000u + frame),
                                             .frames = other ? 0 : 1 + random_below(&random, 100)},
                                  .frame = frame};
        frame += a.packet.frames;
        if (i > 2 && random_unit(&random) < proof->loss)
            continue;
        line[waiting++] = a;
        if (proof->reorder && waiting > 1 && i > 20 && random_unit(&random) < 0.2) {
            const struct arrival swapped = line[waiting - 1];
            line[waiting - 1] = line[waiting - 2];
            line[waiting - 2] = swapped;
        }
        while (waiting > (i < 10 ? 0 : 3)) {
            const struct sequence_packet *packet = &line[0].packet;
            struct sequence_range unsent = {0};
            if (packet->frames == 0) {
                if (sequence_other(&sequence, packet->sequence, &unsent))
                    check_unsent(&unsent, start, reported);
            } else {
                const struct sequence_step step = sequence_next(&sequence, packet);
                if (step.verdict == SEQUENCE_ACCEPT && step.first_frame != start + line[0].frame)
                    fail_msg("%s, seed %llu, packet %d: place", proof->given,
                             (unsigned long long)seed, i);
                if ((step.flags | step.held_flags) != 0 || step.held == HELD_REJECT)
                    fail_msg("%s, seed %llu, packet %d: flags or a reject", proof->given,
                             (unsigned long long)seed, i);
                for (uint32_t j = 0; j < step.unsent_count; j++)
                    check_unsent(&step.unsent[j], start, reported);
            }
            memmove(line, line + 1, (size_t)--waiting * sizeof line[0]);
        }
    }
    uint64_t wrong = 0, missed = 0, all = 0;
    for (uint64_t n = 0; n < frame - 1000; n++) {
        wrong += reported[n] && !skipped[n];
        missed += skipped[n] && !reported[n];
        all += skipped[n];
    }
    if (wrong > 0 || (proof->loss == 0 ? missed > 0 : proof->skip > 0 && missed == all))
        fail_msg("%s, seed %llu: %llu frames wrongly reported as never sent, %llu of %llu missed",
                 proof->given, (unsigned long long)seed, (unsigned long long)wrong,
                 (unsigned long long)missed, (unsigned long long)all);
    free(skipped);
}

/* A number that is missing proves nothing; where none is, the sender left the frames out. */
static void test_what_was_never_sent(void **state)
{
    (void)state;
    static const struct proof proofs[] = {
        {"skips", 0, 0.05, 0, false},
        {"skips, reordered", 0, 0.05, 0, true},
        {"skips among other types", 0.5, 0.05, 0, false},
        {"skips among other types, reordered", 0.5, 0.05, 0, true},
        {"loss, no skips", 0.3, 0, 0.05, true},
        {"periodic other types, loss and skips", 0.1, 0.05, 0.05, true},
    };
    for (size_t i = 0; i < sizeof proofs / sizeof proofs[0]; i++)
        for (uint64_t seed = 1; seed <= 5; seed++)
            prove(&proofs[i], seed);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_rules),
        cmocka_unit_test(test_numbered),
        cmocka_unit_test(test_silence_longer_than_a_lap),
        cmocka_unit_test(test_gap_longer_than_max_dropout),
        cmocka_unit_test(test_what_was_never_sent),
        cmocka_unit_test(test_simulated),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
