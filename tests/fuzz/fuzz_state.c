/*
 * Any state that a daemon before may have handed over: the input is either the bytes of a state,
 * or, after a first byte of 1, edits {16-bit place, value} to those of a true one; the checksum is
 * made right again. What is read must be refused with a reason or taken by a stream, and a stream
 * that took it must go on: packets in, blocks computed, the end of the epoch.
 */
#define WORLD_FRAMES (1 << 11)
#include "tests/support/stream_world.h"

#include "core/codec.h"
#include "stream/resume.h"
#include "tests/fuzz/require.h"
#include "wire/crc32c.h"

enum { EDIT_BYTES = 3, CHECKSUM_BYTES = 4, TURNS = 200 };

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes);

/* The bytes of a stream's state in the middle of an epoch, after a gap; the caller frees them. */
static uint8_t *true_state(size_t *count)
{
    static struct stream_state state;
    put(0, 0, 300, 0, 0);
    put(0, 340, 200, 340, 0);
    world->now_ns += NS_PER_SECOND;
    for (int i = 0; i < TURNS && !stream_quiet(world->stream); i++)
        turn(BATCHES);
    REQUIRE(stream_quiet(world->stream));
    stream_state_take(world->stream, &state);
    *count = stream_state_bytes(&state);
    uint8_t *bytes = malloc(*count);
    REQUIRE(bytes != NULL);
    stream_state_write(&state, bytes);
    return bytes;
}

/* No ledger is checked: what was handed over decides it. */
static void go_on(struct stream *stream, uint64_t next)
{
    for (int i = 0; i < 8; i++) {
        struct packet packet = {
            .first_frame = next + 100 * (uint64_t)i,
            .frames = 100,
            .payload = (const uint8_t *)world->sent[0][0],
            .receive_ns = world->now_ns,
            .receive_realtime_ns = simulated_realtime_ns(),
        };
        stream_put(stream, &packet);
        world->now_ns += NS_PER_MS;
    }
    stream_end(stream);
    for (int i = 0; i < TURNS && !stream_drained(stream); i++) {
        stream_tick(stream, world->now_ns);
        struct batch *batch = engine_batch_take(&world->engine);
        REQUIRE(batch != NULL);
        if (stream_fill(stream, batch, 5000, true) == 0) {
            engine_batch_release(&world->engine, batch);
            continue;
        }
        engine_submit(&world->engine, batch);
        world->engine.completable = 1;
        REQUIRE(engine_completed(&world->engine) == batch);
        for (uint32_t k = 0; k < batch->count; k++)
            if (batch->items[k].owner != NULL)
                stream_complete(stream, batch, &batch->items[k]);
        engine_batch_release(&world->engine, batch);
    }
    REQUIRE(stream_drained(stream));
}

static void resume(const struct stream_options *options, const uint8_t *bytes, size_t count)
{
    static struct stream_state state;
    struct problem problem = {0};
    if (stream_state_read(bytes, count, &state, &problem) != 0) {
        REQUIRE(problem.text[0] != '\0');
        return;
    }
    struct stream *stream;
    REQUIRE(stream_open(&world->engine, options, &world->plan, &stream, &problem) == 0);
    if (stream_resume(stream, &state, NULL, &problem) == 0)
        go_on(stream, state.begun ? state.epoch.source_origin + state.until : 0);
    else
        REQUIRE(problem.text[0] != '\0');
    stream_close(stream);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes)
{
    const struct stream_options options = default_options();
    world_open(&options);
    size_t count;
    uint8_t *state = true_state(&count);
    if (bytes > 0 && data[0] == 1) {
        for (size_t i = 1; i + EDIT_BYTES <= bytes; i += EDIT_BYTES)
            state[(data[i] | (size_t)data[i + 1] << 8) % count] = data[i + 2];
    } else {
        free(state);
        count = bytes > CHECKSUM_BYTES ? bytes : CHECKSUM_BYTES;
        state = calloc(1, count);
        REQUIRE(state != NULL);
        if (bytes > 0)
            memcpy(state, data, bytes);
    }
    const uint32_t sum = crc32c(0, state, count - CHECKSUM_BYTES);
    struct codec codec = codec_writer(state + count - CHECKSUM_BYTES, CHECKSUM_BYTES);
    codec_u32(&codec, &(uint32_t){sum});
    resume(&options, state, count);
    free(state);
    world_close();
    return 0;
}
