/* Authentication tags: see auth.h. Pure functions, any thread. */
#include "wire/auth.h"

#include <ctype.h>
#include <nettle/memops.h>
#include <string.h>

enum {
    ROLLOVER_BYTES = 6,
    VERSION_BYTES = 1,
    COUNT_BYTES = 1,
    VERSION = 1,
    P_BIT = 0x20,
};

/* The 48 bits that the wire has for it. */
static const uint64_t rollover_mask = (UINT64_C(1) << 48) - 1;

/* ---- keys -------------------------------------------------------------------------------- */

static int digit_value(char digit)
{
    if (digit >= '0' && digit <= '9')
        return digit - '0';
    digit = (char)tolower((unsigned char)digit);
    return digit >= 'a' && digit <= 'f' ? digit - 'a' + 10 : -1;
}

bool auth_secret_parse(const char *text, size_t bytes, uint8_t secret[AUTH_SECRET_BYTES])
{
    while (bytes > 0 && isspace((unsigned char)text[bytes - 1]))
        bytes--;
    while (bytes > 0 && isspace((unsigned char)*text)) {
        text++;
        bytes--;
    }
    if (bytes != 2 * AUTH_SECRET_BYTES)
        return false;
    for (size_t i = 0; i < AUTH_SECRET_BYTES; i++) {
        int high = digit_value(text[2 * i]), low = digit_value(text[2 * i + 1]);
        if (high < 0 || low < 0)
            return false;
        secret[i] = (uint8_t)(high << 4 | low);
    }
    return true;
}

void auth_key_derive(const uint8_t secret[AUTH_SECRET_BYTES], enum auth_use use,
                     struct auth_key *key)
{
    static const char *const labels[] = {
        [AUTH_RTP_INPUT] = "convolvd 1 rtp input",
        [AUTH_SEQUENCE_INPUT] = "convolvd 1 udp-seq input",
        [AUTH_RTP_RESULTS] = "convolvd 1 rtp results",
    };
    struct hmac_sha256_ctx derive;
    uint8_t derived[SHA256_DIGEST_SIZE];
    hmac_sha256_set_key(&derive, AUTH_SECRET_BYTES, secret);
    hmac_sha256_update(&derive, strlen(labels[use]), (const uint8_t *)labels[use]);
    hmac_sha256_digest(&derive, sizeof derived, derived);
    key->use = use;
    hmac_sha256_set_key(&key->hmac, sizeof derived, derived);
    explicit_bzero(&derive, sizeof derive);
    explicit_bzero(derived, sizeof derived);
}

static void compute_tag(struct auth_key *key, const uint8_t *packet, size_t bytes,
                        uint8_t tag[AUTH_TAG_BYTES])
{
    hmac_sha256_update(&key->hmac, bytes, packet);
    hmac_sha256_digest(&key->hmac, AUTH_TAG_BYTES, tag);
}

/* ---- sealing ----------------------------------------------------------------------------- */

void auth_numbers_begin(struct auth_numbers *numbers, int64_t realtime_ns)
{
    const int64_t second_ns = 1000000000;
    uint64_t seconds = realtime_ns > 0 ? (uint64_t)(realtime_ns / second_ns) : 0;
    uint64_t rest_ns = realtime_ns > 0 ? (uint64_t)(realtime_ns % second_ns) : 0;
    uint64_t now = (seconds << 16) + (rest_ns << 16) / (uint64_t)second_ns;
    numbers->rollover = now > numbers->rollover ? now : numbers->rollover + 1;
    numbers->started = false;
}

size_t auth_seal(struct auth_key *key, struct auth_numbers *numbers, uint16_t sequence,
                 uint8_t *packet, size_t bytes)
{
    if (numbers->started && sequence <= numbers->newest)
        numbers->rollover++;
    numbers->started = true;
    numbers->newest = sequence;
    if (key->use != AUTH_SEQUENCE_INPUT)
        packet[0] |= P_BIT;
    uint8_t *trailer = packet + bytes;
    for (int i = 0; i < ROLLOVER_BYTES; i++)
        trailer[i] = (uint8_t)(numbers->rollover >> 8 * (ROLLOVER_BYTES - 1 - i));
    trailer[ROLLOVER_BYTES] = VERSION;
    uint8_t *tag = trailer + ROLLOVER_BYTES + VERSION_BYTES;
    compute_tag(key, packet, (size_t)(tag - packet), tag);
    tag[AUTH_TAG_BYTES] = AUTH_TRAILER_BYTES;
    return bytes + AUTH_TRAILER_BYTES;
}

/* ---- opening ----------------------------------------------------------------------------- */

/* Enters an index; false: it was there, or is too old to know. */
static bool window_add(struct auth_window *window, uint64_t index)
{
    uint64_t *word = &window->seen[index % AUTH_WINDOW / 64], bit = UINT64_C(1) << index % 64;
    if (!window->started || (index > window->newest && index - window->newest >= AUTH_WINDOW)) {
        memset(window->seen, 0, sizeof window->seen);
    } else if (index > window->newest) {
        for (uint64_t i = window->newest + 1; i < index; i++)
            window->seen[i % AUTH_WINDOW / 64] &= ~(UINT64_C(1) << i % 64);
    } else if (window->newest - index >= AUTH_WINDOW || *word & bit) {
        return false;
    }
    if (!window->started || index > window->newest)
        window->newest = index;
    window->started = true;
    *word |= bit;
    return true;
}

enum auth_verdict auth_open(struct auth_key *key, struct auth_window *window, uint16_t sequence,
                            const uint8_t *packet, size_t bytes)
{
    uint8_t expected[AUTH_TAG_BYTES];
    if (bytes < AUTH_TRAILER_BYTES || packet[bytes - COUNT_BYTES] != AUTH_TRAILER_BYTES)
        return AUTH_FORGED;
    const uint8_t *trailer = packet + bytes - AUTH_TRAILER_BYTES;
    const uint8_t *tag = trailer + ROLLOVER_BYTES + VERSION_BYTES;
    if (trailer[ROLLOVER_BYTES] != VERSION)
        return AUTH_FORGED;
    compute_tag(key, packet, (size_t)(tag - packet), expected);
    if (!memeql_sec(expected, tag, AUTH_TAG_BYTES))
        return AUTH_FORGED;
    uint64_t rollover = 0;
    for (int i = 0; i < ROLLOVER_BYTES; i++)
        rollover = rollover << 8 | trailer[i];
    return window_add(window, (rollover & rollover_mask) << 16 | sequence) ? AUTH_OK : AUTH_REPLAY;
}
