/*
 * What fuzz_rtp and fuzz_udp share: an input is a run of datagrams, each behind a 16-bit
 * little-endian word
 *
 *     bits 0…11  its bytes;  12, 13  the host it comes from;  14  two seconds pass;  15  cut off
 *
 * which are fed to an ingest with a host that reads every payload. The ledger must balance
 * after each datagram.
 */
#ifndef CONVOLVD_TESTS_FUZZ_INGEST_H
#define CONVOLVD_TESTS_FUZZ_INGEST_H

#include <netinet/in.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/clock.h"
#include "core/log.h"
#include "io/net/network_options.h"
#include "io/net/network_source.h"
#include "tests/fuzz/require.h"

/* For `allow`: the networks of the machine are not read for each input. */
static const struct option_value fuzz_anybody = {.text = "any"};

struct fuzz_host {
    uint32_t frame_bytes;
    uint64_t puts, accepted, drops;
    uint32_t sum; /* of all payloads: every byte is read */
};

static inline enum verdict fuzz_put(void *context, const struct packet *packet)
{
    struct fuzz_host *host = context;
    if (packet->frames == 0) /* the end of a run */
        return VERDICT_ACCEPTED;
    for (size_t i = 0; i < (size_t)packet->frames * host->frame_bytes; i++)
        host->sum += packet->payload[i];
    enum verdict verdict = (enum verdict)(host->puts++ % 7 < 5 ? 0 : host->sum % VERDICTS);
    host->accepted += verdict == VERDICT_ACCEPTED;
    return verdict;
}

static inline void fuzz_drops(void *context, uint64_t datagrams)
{
    ((struct fuzz_host *)context)->drops += datagrams;
}

/* Datagrams of the ledger, in every row but `datagrams`. */
static inline uint64_t fuzz_sum(const struct source_ledger *ledger)
{
    uint64_t sum = ledger->accepted + ledger->held;
    for (int i = 0; i < REJECTS; i++)
        sum += ledger->rejected[i];
    return sum;
}

/* `before` (NULL: nothing) reads what another ingest has written. */
static inline void fuzz_feed_after(const struct ingest_protocol *protocol,
                                   const struct source_options *options, struct codec *before,
                                   const uint8_t *data, size_t bytes)
{
    log_set_level(LOG_LEVEL_ERROR);
    struct fuzz_host host = {.frame_bytes = options->frame_bytes};
    struct source_host functions = {.context = &host, .put = fuzz_put, .socket_drops = fuzz_drops};
    struct source_ledger ledger, start;
    struct ingest *ingest;
    REQUIRE(ingest_open(protocol, options, &functions, &ingest, NULL) == 0);
    if (before != NULL)
        ingest_walk(ingest, before);
    ingest_ledger(ingest, &start);
    int64_t now_ns = NS_PER_SECOND;
    uint64_t fed = 0;
    for (size_t at = 0; bytes - at >= 2;) {
        unsigned word = data[at] | (unsigned)data[at + 1] << 8;
        at += 2;
        size_t length = word & 0xFFF;
        length = length < bytes - at ? length : bytes - at;
        /* A copy of its own, so that a read past its end is seen. */
        uint8_t *datagram = malloc(length + (length == 0));
        REQUIRE(datagram != NULL);
        memcpy(datagram, data + at, length);
        at += length;
        struct sockaddr_storage from = {0};
        struct sockaddr_in *v4 = (struct sockaddr_in *)(void *)&from;
        v4->sin_family = AF_INET;
        v4->sin_addr.s_addr = htonl(0x7F000001 + (word >> 12 & 3));
        now_ns += word & 1 << 14 ? 2 * NS_PER_SECOND : 100000;
        if (length == 3)
            ingest_drops(ingest, datagram[0]);
        ingest_datagram(ingest, &(struct received){.data = datagram,
                                                   .bytes = length,
                                                   .truncated = word >> 15,
                                                   .from = &from,
                                                   .receive_ns = now_ns,
                                                   .receive_realtime_ns = now_ns});
        free(datagram);
        fed++;
        ingest_ledger(ingest, &ledger);
        REQUIRE(ledger.datagrams - start.datagrams == fed &&
                fuzz_sum(&ledger) - fuzz_sum(&start) == fed &&
                ledger.accepted - start.accepted == host.accepted);
    }
    ingest_stop(ingest);
    ingest_ledger(ingest, &ledger);
    REQUIRE(ledger.held == 0 && ledger.kernel_drops - start.kernel_drops == host.drops);
    ingest_close(ingest);
}

static inline void fuzz_feed(const struct ingest_protocol *protocol,
                             const struct source_options *options, const uint8_t *data,
                             size_t bytes)
{
    fuzz_feed_after(protocol, options, NULL, data, bytes);
}

#endif
