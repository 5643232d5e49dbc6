/*
 * Runs a fuzzer's harness on given files, without libFuzzer, so that any compiler and sanitizer
 * can take part:  replay_NAME FILE...
 *
 * Each file is an input as it is, cut off at up to 128 lengths, and with one byte changed in 320
 * ways. The changes depend on the file's length alone, so every run is the same. An input that the
 * harness or a sanitizer does not accept ends the program.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/random.h"

enum { CUTS = 128, CHANGES = 320 };

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes);

/* The harness gets a copy of exactly `bytes` bytes: a read past the end is a read past the block.
 */
static void give(const uint8_t *data, size_t bytes)
{
    uint8_t *copy = malloc(bytes + (bytes == 0));
    if (copy == NULL)
        abort();
    memcpy(copy, data, bytes);
    LLVMFuzzerTestOneInput(copy, bytes);
    free(copy);
}

static void replay(uint8_t *data, size_t bytes)
{
    give(data, bytes);
    size_t step = bytes / CUTS + 1;
    for (size_t length = 0; length < bytes; length += step)
        give(data, length);
    struct random_state random = {bytes};
    for (int i = 0; i < CHANGES && bytes > 0; i++) {
        uint64_t draw = random_u64(&random);
        size_t at = (size_t)(draw >> 16) % bytes;
        uint8_t kept = data[at];
        data[at] = draw & 1 ? (uint8_t)(draw >> 8) : kept ^ (uint8_t)(1u << (draw >> 8 & 7));
        give(data, bytes);
        data[at] = kept;
    }
}

/* The file's bytes, to free(); NULL when it cannot be read. */
static uint8_t *load(const char *path, size_t *bytes)
{
    FILE *file = fopen(path, "rb");
    if (file == NULL)
        return NULL;
    long length = fseek(file, 0, SEEK_END) == 0 ? ftell(file) : -1;
    rewind(file);
    uint8_t *data = length >= 0 ? malloc((size_t)length + 1) : NULL;
    *bytes = data != NULL ? fread(data, 1, (size_t)length, file) : 0;
    fclose(file);
    return data;
}

int main(int argc, char **argv)
{
    for (int i = 1; i < argc; i++) {
        size_t bytes;
        uint8_t *data = load(argv[i], &bytes);
        if (data == NULL) {
            fprintf(stderr, "%s cannot be read\n", argv[i]);
            return 1;
        }
        replay(data, bytes);
        free(data);
    }
    return argc > 1 ? 0 : 1;
}
