/* Plain samples from anybody: headerless, and behind sequence numbers of either byte order. */
#include "tests/fuzz/fuzz_ingest.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes)
{
    struct network_options own = {.ingest = {.allow = {&fuzz_anybody, 1},
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
    fuzz_feed(&udp_protocol, &options, data, bytes);
    fuzz_feed(&udp_sequence_protocol, &options, data, bytes);
    own.sequence_big_endian = true;
    options.mode = MODE_RECORD;
    fuzz_feed(&udp_sequence_protocol, &options, data, bytes);
    return 0;
}
