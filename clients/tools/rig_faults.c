/* Faults on purpose: see rig_faults.h. */
#include "rig_faults.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

enum {
    GARBAGE_BYTES = 100,
    RTP_SEQUENCE_AT = 2,
    RTP_TIMESTAMP_AT = 4,
    RTP_SSRC_AT = 8,
    RTP_BYTES = 12
};

struct held {
    uint32_t after; /* later datagrams still to go first; 0: the slot is free */
    uint64_t number;
    size_t bytes;
    uint8_t *datagram;
};

struct faults {
    struct faults_options options;
    struct convolv_sender *sender;
    struct random_state random;
    uint64_t burst_left;
    uint64_t newest; /* highest number gone so far; datagrams count from 1 */
    struct held held[FAULTS_DEPTH_MAX];
    uint8_t *scratch;
    struct faults_ledger ledger;
};

int faults_open(const struct faults_options *options, struct convolv_sender *sender,
                struct faults **out, struct problem *problem)
{
    *out = NULL;
    struct faults *faults = calloc(1, sizeof *faults);
    if (faults == NULL)
        return problem_set(problem, ERROR_MEMORY, "out of memory");
    faults->options = *options;
    faults->sender = sender;
    faults->random.state = options->seed;
    bool complete = (faults->scratch = malloc(CONVOLV_DATAGRAM_MAX)) != NULL;
    for (int i = 0; i < FAULTS_DEPTH_MAX && options->reorder > 0; i++)
        complete = (faults->held[i].datagram = malloc(CONVOLV_DATAGRAM_MAX)) != NULL && complete;
    if (!complete) {
        faults_close(faults);
        return problem_set(problem, ERROR_MEMORY, "out of memory");
    }
    *out = faults;
    return 0;
}

void faults_close(struct faults *faults)
{
    if (faults == NULL)
        return;
    assert(faults->ledger.held == 0);
    for (int i = 0; i < FAULTS_DEPTH_MAX; i++)
        free(faults->held[i].datagram);
    free(faults->scratch);
    free(faults);
}

static bool chance(struct faults *faults, double probability)
{
    /* Draws only for faults that are on, so that adding one does not change the others' pattern of
     * a seed. */
    return probability > 0 && faults->ledger.offered_frames > faults->options.clean_frames &&
           random_unit(&faults->random) < probability;
}

static void put_u32(uint8_t *out, uint32_t value)
{
    for (int i = 0; i < 4; i++)
        out[i] = (uint8_t)(value >> (24 - 8 * i));
}

static void emit(struct faults *faults, const uint8_t *datagram, size_t bytes)
{
    convolv_sender_emit(faults->sender, datagram,
                        bytes); /* what the kernel refuses is in the sender's ledger */
}

static void emit_own(struct faults *faults, const uint8_t *datagram, size_t bytes, uint64_t number)
{
    emit(faults, datagram, bytes);
    faults->ledger.gone++;
    if (number < faults->newest)
        faults->ledger.reordered++;
    else
        faults->newest = number;
}

/* A later datagram has gone: those whose turn has come follow. */
static void release_held(struct faults *faults, bool all)
{
    for (int i = 0; i < FAULTS_DEPTH_MAX && faults->ledger.held > 0; i++) {
        struct held *held = &faults->held[i];
        if (held->after == 0 || (--held->after > 0 && !all))
            continue;
        held->after = 0;
        faults->ledger.held--;
        emit_own(faults, held->datagram, held->bytes, held->number);
    }
}

static bool hold_back(struct faults *faults, const uint8_t *datagram, size_t bytes)
{
    for (int i = 0; i < FAULTS_DEPTH_MAX; i++) {
        struct held *held = &faults->held[i];
        if (held->after != 0)
            continue;
        held->after = 1 + random_below(&faults->random, (uint32_t)faults->options.reorder_depth);
        held->number = faults->ledger.offered;
        held->bytes = bytes;
        memcpy(held->datagram, datagram, bytes);
        faults->ledger.held++;
        return true;
    }
    return false;
}

static void add_foreign(struct faults *faults, const uint8_t *datagram, size_t bytes)
{
    if (bytes < RTP_BYTES)
        return;
    if (chance(faults, faults->options.wrong_ssrc)) {
        memcpy(faults->scratch, datagram, bytes);
        /* Another one each time: two in order of one SSRC would be a restarted rig. */
        put_u32(faults->scratch + RTP_SSRC_AT, (uint32_t)random_u64(&faults->random));
        emit(faults, faults->scratch, bytes);
        faults->ledger.wrong_ssrc++;
    }
    if (chance(faults, faults->options.garbage)) {
        for (int i = 0; i < GARBAGE_BYTES; i++)
            faults->scratch[i] = (uint8_t)random_u64(&faults->random);
        faults->scratch[0] &= 0x3f; /* version 0: never RTP */
        emit(faults, faults->scratch, GARBAGE_BYTES);
        faults->ledger.garbage++;
    }
}

bool faults_offer(struct faults *faults, const uint8_t *datagram, size_t bytes, uint32_t frames)
{
    faults->ledger.offered++;
    faults->ledger.offered_frames += frames;
    add_foreign(faults, datagram, bytes);
    if (faults->burst_left == 0 && chance(faults, faults->options.loss))
        faults->burst_left = faults->options.loss_burst;
    if (faults->burst_left > 0) {
        faults->burst_left--;
        faults->ledger.dropped++;
        faults->ledger.dropped_frames += frames;
        return false;
    }
    if (chance(faults, faults->options.reorder) && hold_back(faults, datagram, bytes))
        return true;
    emit_own(faults, datagram, bytes, faults->ledger.offered);
    if (chance(faults, faults->options.duplicate)) {
        emit(faults, datagram, bytes);
        faults->ledger.duplicated++;
    }
    release_held(faults, false);
    return true;
}

void faults_forge(struct faults *faults, const uint8_t *datagram, size_t bytes, uint32_t frames)
{
    if (bytes < RTP_BYTES)
        return;
    memcpy(faults->scratch, datagram, bytes);
    uint32_t timestamp = 0;
    for (int i = 0; i < 4; i++)
        timestamp = timestamp << 8 | datagram[RTP_TIMESTAMP_AT + i];
    put_u32(faults->scratch + RTP_TIMESTAMP_AT, timestamp + frames);
    faults->scratch[RTP_SEQUENCE_AT] ^= 0x20; /* 8192 packets away */
    emit(faults, faults->scratch, bytes);
    faults->ledger.forged++;
}

void faults_finish(struct faults *faults)
{
    release_held(faults, true);
}

void faults_ledger(const struct faults *faults, struct faults_ledger *ledger)
{
    *ledger = faults->ledger;
}
