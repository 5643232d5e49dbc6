/*
 * What a user's program receives from anybody: result packets, one after the other, through a
 * receiver of libconvolv, and an SDP file. Whatever the bytes are, a block lies within its packet
 * and the ledger adds up.
 */
#include <stdlib.h>
#include <string.h>

#include "convolv.h"
#include "tests/fuzz/require.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes);

static void check(const struct convolv_receiver *receiver, const struct convolv_block *block,
                  size_t payload_max)
{
    struct convolv_receiver_ledger ledger;
    convolv_receiver_ledger(receiver, &ledger);
    uint64_t sum = ledger.accepted;
    for (int i = 0; i < CONVOLV_REJECTS; i++)
        sum += ledger.rejected[i];
    REQUIRE(ledger.datagrams == sum);
    if (block == NULL)
        return;
    /* A block without frames tells of an epoch's start or end, or of frames that are missing. */
    REQUIRE(block->frames > 0 || block->epoch_start || block->epoch_end ||
            block->hole_until > block->hole_from);
    REQUIRE((size_t)block->frames * block->channels <= payload_max);
    REQUIRE(block->invalid_from <= block->invalid_until && block->invalid_until <= block->frames);
    REQUIRE(block->first_frame + block->frames >= block->first_frame);
    double sum_of_samples = 0; /* every sample is there to be read */
    for (size_t i = 0; i < (size_t)block->frames * block->channels; i++)
        sum_of_samples += block->samples[i] > 0 ? 1 : 0;
    REQUIRE(sum_of_samples >= 0);
}

/* Datagrams behind their 16-bit little-endian lengths. */
static void feed(const char *format, uint32_t channels, const uint8_t *data, size_t bytes)
{
    struct convolv_receiver_options options;
    convolv_receiver_defaults(&options);
    strcpy(options.format, format);
    options.channels = channels;
    struct convolv_receiver *receiver;
    REQUIRE(convolv_receiver_open(&options, &receiver, NULL) == CONVOLV_OK);
    while (bytes >= 2) {
        size_t length = data[0] | (size_t)data[1] << 8;
        data += 2;
        bytes -= 2;
        length = length < bytes ? length : bytes;
        struct convolv_block block;
        int taken = convolv_receiver_feed(receiver, data, length, 1, &block);
        check(receiver, taken == 1 ? &block : NULL, length);
        data += length;
        bytes -= length;
    }
    convolv_receiver_close(receiver);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes)
{
    struct convolv_receiver_options options;
    struct convolv_problem problem;
    convolv_receiver_defaults(&options);
    if (convolv_sdp_parse((const char *)data, bytes, &options, &problem) == CONVOLV_OK) {
        /* What was accepted can be opened, but for the address. */
        options.address[0] = '\0';
        struct convolv_receiver *receiver;
        REQUIRE(convolv_receiver_open(&options, &receiver, &problem) == CONVOLV_OK);
        convolv_receiver_close(receiver);
    } else {
        REQUIRE(problem.text[0] != '\0');
    }
    feed("f32be", 2, data, bytes);
    feed("u8", 1, data, bytes);
    return 0;
}
