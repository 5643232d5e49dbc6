/*
 * Authentication tags: proof that whoever holds the key sent a packet, that nobody changed it, and
 * that it was not taken before. Nothing is encrypted.
 *
 * The construction is SRTP's (RFC 3711) with a rollover counter in every packet (RFC 4771) and
 * HMAC-SHA-256 truncated to 128 bits (RFC 4868). A trailer of 24 bytes follows the payload:
 *
 *     | header | payload | rollover 6 | version 1 | tag 16 | 24 |
 *     |<------------- authenticated ------------->|
 *
 * In RTP the trailer is padding (the P bit is set, the last byte counts it), so that receivers
 * without the key skip it. The index of a packet is rollover · 2^16 + the low 16 bits of its
 * sequence number. A sender's first rollover is the time of its start in units of 2^-16 s; each
 * wrap of the sequence number, and each packet that repeats one (a heartbeat), adds 1, which takes
 * far longer. So the index of a restarted sender is
 * above every one before, and one window of indices rejects what was recorded earlier, whatever its
 * SSRC.
 *
 * Packets of each protocol and direction have a key of their own, derived from the secret, so that
 * a result sent back as input does not verify.
 *
 * Pure functions, any thread; a key or window belongs to one thread at a time. libconvolv links
 * this module too.
 */
#ifndef CONVOLVD_WIRE_AUTH_H
#define CONVOLVD_WIRE_AUTH_H

#include <nettle/hmac.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum {
    AUTH_SECRET_BYTES = 32,
    AUTH_TAG_BYTES = 16,
    AUTH_TRAILER_BYTES = 24,
    AUTH_WINDOW = 4096, /* packets; a multiple of 64 */
};

/* What a key is for. */
enum auth_use {
    AUTH_RTP_INPUT,
    AUTH_SEQUENCE_INPUT, /* udp-seq */
    AUTH_RTP_RESULTS,
};

struct auth_key {
    enum auth_use use;
    struct hmac_sha256_ctx hmac;
};

/* Reads a secret: 64 hexadecimal digits, white space around them. False: it is none. */
bool auth_secret_parse(const char *text, size_t bytes, uint8_t secret[AUTH_SECRET_BYTES]);

void auth_key_derive(const uint8_t secret[AUTH_SECRET_BYTES], enum auth_use use,
                     struct auth_key *key);

/* The numbers of one sender. Start with auth_numbers_begin. */
struct auth_numbers {
    uint64_t rollover;
    uint16_t newest;
    bool started;
};

/* realtime_ns: of the start or restart. The rollover never goes back. */
void auth_numbers_begin(struct auth_numbers *numbers, int64_t realtime_ns);

/*
 * Seals the packet of `bytes` bytes with its sequence number (in the order of sending) and returns
 * its new size, AUTH_TRAILER_BYTES more, for which there must be room. Sets the P bit of RTP.
 */
size_t auth_seal(struct auth_key *key, struct auth_numbers *numbers, uint16_t sequence,
                 uint8_t *packet, size_t bytes);

/* Indices taken; all zero at the start. */
struct auth_window {
    bool started;
    uint64_t newest;
    uint64_t seen[AUTH_WINDOW / 64]; /* bit index % AUTH_WINDOW */
};

enum auth_verdict {
    AUTH_OK,
    AUTH_FORGED, /* no trailer, or its tag is of another key or packet */
    AUTH_REPLAY, /* authentic, but taken before, or older than the window */
};

/* Checks a packet with its sequence number; AUTH_OK enters it into the window. */
enum auth_verdict auth_open(struct auth_key *key, struct auth_window *window, uint16_t sequence,
                            const uint8_t *packet, size_t bytes);

#endif
