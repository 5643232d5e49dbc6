/*
 * Any bytes as a .tradb: it is refused with a sentence, or its frames come to an end: as many as it
 * declared, epoch behind epoch, in bounded memory.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "core/log.h"
#include "io/vallen/tradb.h"
#include "tests/fuzz/require.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes);

/* A file may declare more frames than anybody waits for. */
#define FRAMES_MAX UINT64_C(200000)

/* SQLite opens names, not descriptors. */
static const char *file_name(void)
{
    static char name[64];
    if (name[0] == '\0') {
        snprintf(name, sizeof name, "%s/fuzz-%d.tradb",
                 access("/dev/shm", W_OK) == 0 ? "/dev/shm" : "/tmp", (int)getpid());
    }
    return name;
}

static void remove_file(void)
{
    unlink(file_name());
}

static void write_file(const uint8_t *data, size_t bytes)
{
    static bool registered;
    FILE *file = fopen(file_name(), "wb");
    REQUIRE(file != NULL && fwrite(data, 1, bytes, file) == bytes);
    fclose(file);
    if (!registered)
        registered = atexit(remove_file) == 0;
}

/* Reads in chunks of `capacity` frames. */
static void play(struct tradb *tradb, uint32_t capacity)
{
    struct tradb_facts facts;
    struct tradb_part part;
    tradb_facts(tradb, &facts);
    REQUIRE(facts.channels >= 1 && facts.channels <= 1024 && facts.rate_hz >= 1);
    REQUIRE(facts.epochs >= 1 && facts.frames >= facts.epochs && facts.records >= facts.epochs);
    REQUIRE(tradb_settling(tradb, UINT64_MAX) == facts.frames);
    struct channel_scale *scales = calloc(facts.channels, sizeof *scales);
    const size_t frame_bytes = (size_t)facts.channels * facts.format.bytes;
    uint8_t *frames = malloc(capacity * frame_bytes);
    REQUIRE(scales != NULL && frames != NULL);
    tradb_scales(tradb, scales);
    for (uint32_t c = 0; c < facts.channels; c++)
        REQUIRE(scales[c].full_scale > 0);
    uint64_t played = 0, epochs = 0, next = 0;
    bool open = false;
    uint32_t count = 1;
    while (played < FRAMES_MAX && (count = tradb_read(tradb, frames, capacity, &part)) > 0) {
        REQUIRE(count <= capacity && part.begins == !open && part.first_frame >= next);
        REQUIRE(!open || part.first_frame == next);
        REQUIRE(part.invalid_from <= part.invalid_until);
        REQUIRE(part.invalid_from == part.invalid_until ||
                (part.invalid_from >= part.first_frame &&
                 part.invalid_until <= part.first_frame + count));
        open = !part.ends;
        epochs += part.ends;
        played += count;
        next = part.first_frame + count;
    }
    REQUIRE(count > 0 || (played == facts.frames && epochs == facts.epochs && !open));
    free(frames);
    free(scales);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes)
{
    log_set_level((enum log_level)(LOG_LEVEL_ERROR - 1));
    write_file(data, bytes);
    for (uint32_t channel = 0; channel <= 1; channel++) {
        struct tradb *tradb;
        struct problem problem = {0};
        if (tradb_open(file_name(), channel, &tradb, &problem) != 0) {
            REQUIRE(tradb == NULL && problem.text[0] != '\0');
            continue;
        }
        play(tradb, channel == 0 ? 1000 : 37);
        tradb_close(tradb);
    }
    return 0;
}
