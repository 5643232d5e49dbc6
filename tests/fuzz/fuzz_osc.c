/*
 * Fuzzes OSC: the walker alone, its readers on what passed, also as the arguments of every command,
 * every framing of TCP; and liblo on what passed: it must read the same message and write back the
 * same bytes.
 */
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <lo/lo.h>

#include "control/osc_arguments.h"
#include "control/osc_table.h"
#include "io/osc/frames.h"
#include "wire/osc.h"
#include "tests/fuzz/require.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes);

static void read_all(const struct osc_message *message)
{
    struct osc_reader reader = {.message = message, .at = message->arguments};
    const uint8_t *blob;
    const char *text;
    uint64_t wide;
    size_t bytes;
    double number;
    while (osc_peek(&reader) != '\0') {
        struct osc_reader copy = reader;
        (void)osc_read_wide(&copy, &wide);
        if (!osc_read_number(&reader, &number) && !osc_read_string(&reader, &text) &&
            !osc_read_blob(&reader, &blob, &bytes))
            osc_skip(&reader);
    }
    const uint8_t *end = message->data + message->bytes;
    REQUIRE(message->tolerated & 1u << OSC_TOLERATED_SURPLUS ? reader.at < end : reader.at == end);
    struct osc_part parts[4];
    int count = osc_address_parts(message->address, parts, 4);
    for (int i = 0; i < count; i++)
        (void)osc_part_matches(parts[i].text, parts[i].length, "stream", 6);
}

static void as_commands(const struct osc_message *message)
{
    for (int i = 0; i < CONTROL_WORDS; i++) {
        struct problem problem;
        json_t *request;
        uint16_t port;
        if (command_table[i].osc == NULL)
            continue;
        if (osc_arguments_read(&command_table[i], message, &request, &port, &problem) == 0) {
            REQUIRE(json_is_object(request));
            (void)command_check(&command_table[i], request, &problem);
        } else {
            REQUIRE(request == NULL && strlen(problem.text) > 0);
        }
        json_decref(request);
    }
}

static void against_liblo(const struct osc_message *message)
{
    /* liblo reads and swaps in place. */
    void *copy = malloc(message->bytes);
    REQUIRE(copy != NULL);
    memcpy(copy, message->data, message->bytes);
    int result = 0;
    lo_message parsed = lo_message_deserialise(copy, message->bytes, &result);
    REQUIRE(parsed != NULL);
    REQUIRE(strcmp(lo_message_get_types(parsed), message->types) == 0);
    size_t bytes = 0;
    void *back = lo_message_serialise(parsed, message->address, NULL, &bytes);
    REQUIRE(bytes == message->bytes && memcmp(back, message->data, bytes) == 0);
    free(back);
    lo_message_free(parsed);
    free(copy);
}

static void visit(void *context, const struct osc_message *message)
{
    (void)context;
    read_all(message);
    as_commands(message);
    if (message->tolerated == 0) /* liblo is strict, or reads past such messages */
        against_liblo(message);
}

static void packet(void *context, const uint8_t *data, size_t bytes)
{
    (void)context;
    osc_walk(data, bytes, NULL, visit, NULL);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes)
{
    static uint8_t buffer[4096];
    struct osc_counts counts = {0};
    osc_walk_untagged(data, bytes, &counts, osc_signature, visit, NULL);
    struct osc_frames frames = {.buffer = buffer, .capacity = sizeof buffer};
    if (bytes > 0 && osc_frames_feed(&frames, data, bytes / 2, packet, NULL) == 0)
        osc_frames_feed(&frames, data + bytes / 2, bytes - bytes / 2, packet, NULL);
    return 0;
}
