/* Memory of a configuration: see memory.h. */
#include "config/memory.h"

#include <stdint.h>
#include <stdlib.h>
#include <string.h>

/* Pieces are carved from chunks and freed together. */
struct chunk {
    struct chunk *next;
    size_t used, bytes;
    _Alignas(max_align_t) unsigned char data[];
};

struct config_memory {
    struct chunk *chunks;
    unsigned holders; /* besides its maker */
};

enum { CHUNK_BYTES = 64 * 1024 };

struct config_memory *config_memory_open(void)
{
    return calloc(1, sizeof(struct config_memory));
}

void *config_alloc(struct config_memory *memory, size_t count, size_t bytes)
{
    size_t align = _Alignof(max_align_t);
    if (bytes != 0 && count > SIZE_MAX / 4 / bytes)
        return NULL;
    size_t wanted = (count * bytes + align - 1) / align * align;
    wanted = wanted == 0 ? align : wanted;
    if (memory->chunks == NULL || memory->chunks->bytes - memory->chunks->used < wanted) {
        size_t room = wanted > CHUNK_BYTES ? wanted : CHUNK_BYTES;
        struct chunk *chunk = calloc(1, sizeof *chunk + room);
        if (chunk == NULL)
            return NULL;
        chunk->bytes = room;
        chunk->next = memory->chunks;
        memory->chunks = chunk;
    }
    void *piece = memory->chunks->data + memory->chunks->used;
    memory->chunks->used += wanted;
    return piece;
}

char *config_copy(struct config_memory *memory, const char *text, size_t length)
{
    char *copy = config_alloc(memory, length + 1, 1);
    if (copy != NULL)
        memcpy(copy, text, length);
    return copy;
}

void config_memory_hold(struct config_memory *memory)
{
    memory->holders++;
}

void config_memory_close(struct config_memory *memory)
{
    if (memory == NULL)
        return;
    if (memory->holders > 0) {
        memory->holders--;
        return;
    }
    while (memory->chunks != NULL) {
        struct chunk *next = memory->chunks->next;
        free(memory->chunks);
        memory->chunks = next;
    }
    free(memory);
}
