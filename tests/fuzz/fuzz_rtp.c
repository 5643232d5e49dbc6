/*
 * RTP from anybody: the parser and the reader of result extensions on the input as one
 * datagram, then the whole way of a run of datagrams to the stream, continuous and in records.
 */
#include "tests/fuzz/fuzz_ingest.h"

#include "wire/auth.h"
#include "wire/rtp.h"

/* No bytes pass for a tagged packet; once sealed they do, one time. */
static void tags(const uint8_t *data, size_t bytes)
{
    static const uint8_t secret[AUTH_SECRET_BYTES] = {1};
    struct auth_key key;
    struct auth_window window = {0};
    struct auth_numbers numbers = {.rollover = 5};
    auth_key_derive(secret, AUTH_RTP_INPUT, &key);
    REQUIRE(auth_open(&key, &window, 7, data, bytes) == AUTH_FORGED);
    if (bytes == 0)
        return;
    uint8_t *sealed = malloc(bytes + AUTH_TRAILER_BYTES);
    REQUIRE(sealed != NULL);
    memcpy(sealed, data, bytes);
    size_t sealed_bytes = auth_seal(&key, &numbers, 7, sealed, bytes);
    REQUIRE(auth_open(&key, &window, 7, sealed, sealed_bytes) == AUTH_OK);
    REQUIRE(auth_open(&key, &window, 7, sealed, sealed_bytes) == AUTH_REPLAY);
    free(sealed);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes);

static void parse(const uint8_t *data, size_t bytes)
{
    struct rtp_packet packet;
    struct rtp_result_info info;
    if (rtp_parse(data, bytes, &packet) != RTP_OK)
        return;
    REQUIRE(packet.payload >= data + RTP_HEADER_BYTES);
    REQUIRE(packet.payload_bytes <= bytes);
    REQUIRE(packet.payload + packet.payload_bytes <= data + bytes);
    REQUIRE(packet.extension == NULL ||
            packet.extension + packet.extension_bytes <= packet.payload);
    if (!rtp_parse_result_info(&packet, &info))
        return;
    /* What was read is written and read back as it was. */
    uint8_t out[RTP_HEADER_BYTES_MAX];
    struct rtp_packet again;
    struct rtp_result_info back;
    memset(&back, 0, sizeof back);
    const size_t built = rtp_build(out, &packet.header, &info);
    REQUIRE(built == rtp_info_bytes(&info) && built <= sizeof out);
    REQUIRE(rtp_parse(out, built, &again) == RTP_OK);
    REQUIRE(rtp_parse_result_info(&again, &back));
    REQUIRE(back.first_frame == info.first_frame && back.capture_ns == info.capture_ns &&
            back.invalid_until == info.invalid_until && back.flags == info.flags &&
            back.hole_frames == info.hole_frames);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes)
{
    struct network_options own = {.ingest = {.allow = {&fuzz_anybody, 1},
                                             .payload_type = 96,
                                             .takeover_ns = NS_PER_SECOND,
                                             .max_dropout_ns = NS_PER_SECOND,
                                             .max_misorder_ns = 10 * NS_PER_MS}};
    struct source_options options = {
        .stream = "fuzz",
        .rate_hz = 1e6,
        .frame_bytes = 4,
        .reorder_ns = NS_PER_MS,
        .max_gap_ns = NS_PER_SECOND,
        .own = &own,
    };
    parse(data, bytes);
    tags(data, bytes);
    fuzz_feed(&rtp_protocol, &options, data, bytes);
    options.mode = MODE_RECORD;
    options.rate_hz = 1e7;
    options.frame_bytes = 6;
    fuzz_feed(&rtp_protocol, &options, data, bytes);
    return 0;
}
