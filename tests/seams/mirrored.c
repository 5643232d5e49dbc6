/*
 * Mirrored: with CONVOLVD_TEST_MIRRORED in its environment convolvd-test treats every device as one
 * with memory of its own, so that the copies a GPU needs run on PoCL too. The linker redirects
 * arena_is_shared to the wrapper below (ld --wrap); the shipped daemon links none of this.
 *
 * Any thread.
 */
#include <stdbool.h>
#include <stdlib.h>

struct arena;
struct _cl_context;
struct _cl_command_queue;

bool __real_arena_is_shared(struct arena *arena, struct _cl_context *context,
                            struct _cl_command_queue *queue);
bool __wrap_arena_is_shared(struct arena *arena, struct _cl_context *context,
                            struct _cl_command_queue *queue);
bool __wrap_arena_is_shared(struct arena *arena, struct _cl_context *context,
                            struct _cl_command_queue *queue)
{
    return getenv("CONVOLVD_TEST_MIRRORED") == NULL &&
           __real_arena_is_shared(arena, context, queue);
}
